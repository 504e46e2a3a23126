import assert from "node:assert/strict";
import test from "node:test";
import { gridLayout } from "../../src/chart/small-multiples";

test("small charts fill the room, and keep their least size where there is too little", () => {
  assert.deepEqual(gridLayout(1, 1200, 500), { across: 1, wide: 1200, tall: 476 });
  // Two of 596 x 476 beside each other are read better than two of 1200 x 224 below each other.
  assert.deepEqual(gridLayout(2, 1200, 500), { across: 2, wide: 596, tall: 476 });
  assert.deepEqual(gridLayout(50, 1200, 500), { across: 3, wide: 394, tall: 130 });
  assert.deepEqual(gridLayout(4, 300, 200), { across: 1, wide: 300, tall: 130 });
});
