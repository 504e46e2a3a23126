import assert from "node:assert/strict";
import test from "node:test";
import { gridLayout } from "../../src/chart/small-multiples";

test("small charts fill the room, and keep their least size where there is too little", () => {
  assert.deepEqual(gridLayout(1, 1200, 500), { columns: 1, width: 1200, height: 476 });
  // Two of 596 x 476 beside each other are read better than two of 1200 x 224 below each other.
  assert.deepEqual(gridLayout(2, 1200, 500), { columns: 2, width: 596, height: 476 });
  assert.deepEqual(gridLayout(50, 1200, 500), { columns: 3, width: 394, height: 130 });
  assert.deepEqual(gridLayout(4, 300, 200), { columns: 1, width: 300, height: 130 });
});
