import assert from "node:assert/strict";
import test from "node:test";
import { gridLayout } from "../../src/chart/small-multiples";

test("small charts fill the space, and have a minimum size", () => {
  assert.deepEqual(gridLayout(1, 1200, 500), { columns: 1, width: 1200, height: 476 });
  // Two charts of 596 x 476 side by side are easier to read than two of 1200 x 224 in a column.
  assert.deepEqual(gridLayout(2, 1200, 500), { columns: 2, width: 596, height: 476 });
  assert.deepEqual(gridLayout(50, 1200, 500), { columns: 3, width: 394, height: 130 });
  assert.deepEqual(gridLayout(4, 300, 200), { columns: 1, width: 300, height: 130 });
});
