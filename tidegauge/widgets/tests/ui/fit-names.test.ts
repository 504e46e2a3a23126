import assert from "node:assert/strict";
import test from "node:test";
import { isNumber } from "../../src/ui/data-table";
import { fittedLength } from "../../src/ui/fit-names";

test("a name gives way in proportion to the excess of its cell", () => {
  assert.equal(fittedLength(40, 200, 200, 50), 30); // a quarter of the width
  assert.equal(fittedLength(40, 100, 200, 50), 30); // two names share the excess
  assert.equal(fittedLength(40, 200, 200, 1), 39); // at least one character
  assert.equal(fittedLength(40, 200, 200, 500), 8); // never less than eight
});

test("numbers of a data table are recognized", () => {
  assert.deepEqual(["-1,234.5", "1.2e-7", "57%", "0"].map(isNumber), [true, true, true, true]);
  assert.deepEqual(["ds=2013-01-01", "2013-01-01", "", "1 h", "e5"].map(isNumber), [false, false, false, false, false]);
});
