import assert from "node:assert/strict";
import test from "node:test";
import { spreadApart } from "../../src/chart/annotations";

test("labels at line ends are moved apart within their bounds", () => {
  assert.deepEqual(spreadApart([10, 12, 50], 10, 0, 100), [10, 20, 50]);
  assert.deepEqual(spreadApart([95, 98], 10, 0, 100), [90, 100]);
});
