import assert from "node:assert/strict";
import test from "node:test";
import { sortedRows } from "../../src/data/row-order";

test("rows are in the order of the kernel, or of the answer", () => {
  const arrays = { name_order: Int32Array.from([2, 0, 1]), name_order_down: Int32Array.from([1, 0, 2]) };
  assert.deepEqual(sortedRows(arrays, 3, "name", false), [2, 0, 1]);
  assert.deepEqual(sortedRows(arrays, 3, "name", true), [1, 0, 2]);
  assert.deepEqual(sortedRows(arrays, 3, "other", true), [0, 1, 2], "not known yet");
});
