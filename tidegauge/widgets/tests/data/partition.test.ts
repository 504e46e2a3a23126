import assert from "node:assert/strict";
import { test } from "node:test";
import { mergeEqualTimes } from "../../src/data/partition";

test("equal times share an entry, unknown times have none", () => {
  assert.deepEqual(mergeEqualTimes([["first seen", 0], ["arrived", 0], ["measured", 3600]]), [["First seen, arrived", "1970-01-01 UTC"], ["Measured", "1970-01-01 01:00 UTC"]]);
  assert.deepEqual(mergeEqualTimes([["first seen", NaN], ["measured", 0]]), [["Measured", "1970-01-01 UTC"]]);
});
