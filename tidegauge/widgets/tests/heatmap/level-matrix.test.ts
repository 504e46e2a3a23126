import assert from "node:assert/strict";
import test from "node:test";
import { CHANGE_STRENGTH, LevelMatrix, SCORE_STRENGTH } from "../../src/heatmap/level-matrix";

function levels(rows: number, columns: number, bytes: number[], strength = SCORE_STRENGTH): LevelMatrix {
  const matrix = new LevelMatrix(rows, columns, strength);
  matrix.write(Uint8Array.from(bytes), 0, columns);
  return matrix;
}

function strongest(levelMatrix: LevelMatrix, from: number, to: number): number[] {
  const line = new Uint8Array(levelMatrix.columns);
  levelMatrix.maxPool(line, from, to);
  return [...line];
}

test("pooling one row returns it, several rows the highest score of each column", () => {
  const three = levels(3, 2, [1, 9, 5, 2, 0, 0]);
  assert.deepEqual(strongest(three, 1, 2), [5, 2]);
  assert.deepEqual(strongest(three, 0, 3), [5, 9]);
  assert.deepEqual(strongest(three, 2, 99), [0, 0]);
});

test("the largest change is shown, and any change before a missing level", () => {
  const three = levels(3, 2, [128, 0, 100, 128, 140, 0], CHANGE_STRENGTH);
  assert.deepEqual(strongest(three, 0, 3), [100, 128]);
});

test("rows are pooled in display order; headings have no levels", () => {
  const three = levels(3, 1, [1, 2, 3]);
  three.setOrder(Int32Array.from([-1, 2, 0]));
  assert.deepEqual(strongest(three, 0, 1), [0]);
  assert.deepEqual(strongest(three, 0, 2), [3]);
  assert.deepEqual(strongest(three, 2, 3), [1]);
});

test("pooling many rows equals pooling single rows", () => {
  const bytes = Array.from({ length: 300 * 3 }, (_, n) => (n * 7919) % 251);
  const large = levels(300, 3, bytes);
  large.setOrder(Int32Array.from({ length: 300 }, (_, n) => (n % 10 === 0 ? -1 : (n * 37) % 300)));
  for (const [from, to] of [[0, 300], [1, 299], [8, 64], [64, 128], [63, 200], [17, 18]]) {
    const expected = [0, 0, 0];
    for (let index = from; index < to; index++) {
      strongest(large, index, index + 1).forEach((level, n) => (expected[n] = Math.max(expected[n], level)));
    }
    assert.deepEqual(strongest(large, from, to), expected, `${from} to ${to}`);
  }
});

test("levels that are written later appear in cached maxima", () => {
  const rows = levels(100, 2, new Array(200).fill(1));
  assert.deepEqual(strongest(rows, 0, 100), [1, 1]);
  rows.write(Uint8Array.from([7, 8]), 1, 2, [3, 50]);
  assert.deepEqual(strongest(rows, 0, 100), [1, 8]);
  assert.deepEqual(strongest(rows, 3, 4), [1, 7]);
});

test("the heading of folded rows has their strongest levels", () => {
  const three = levels(3, 2, [1, 9, 5, 2, 7, 0]);
  three.setOrder(Int32Array.from([-1, -2, 2]), new Map([[-1, [0, 1]]]));
  assert.deepEqual(strongest(three, 0, 1), [5, 9]);
  assert.deepEqual(strongest(three, 1, 2), [0, 0]);
  assert.deepEqual(strongest(three, 0, 3), [7, 9]);
  three.write(Uint8Array.from([99]), 0, 1, [1]);
  assert.deepEqual(strongest(three, 0, 1), [99, 9]);
});

test("folded rows are summarized again in written columns", () => {
  const levels = new LevelMatrix(2, 3, SCORE_STRENGTH);
  levels.write(Uint8Array.from([5, 1, 7, 2, 9, 3]), 0, 3);
  levels.setOrder(Int32Array.from([-1]), new Map([[-1, [0, 1]]]));
  const shown = () => {
    const line = new Uint8Array(3);
    levels.maxPool(line, 0, 1);
    return [...line];
  };
  assert.deepEqual(shown(), [5, 9, 7]);
  levels.write(Uint8Array.from([4, 2]), 1, 2);
  assert.deepEqual(shown(), [5, 4, 7], "9 was written over, the others stay");
  levels.write(Uint8Array.from([8]), 0, 1, [1]);
  assert.deepEqual(shown(), [8, 4, 7]);
});

test("the strongest of some folded rows is known in each column", () => {
  const levels = new LevelMatrix(3, 2, SCORE_STRENGTH);
  levels.write(Uint8Array.from([1, 9, 5, 2, 3, 7]), 0, 2);
  levels.setOrder(Int32Array.from([-1]), new Map([[-1, [0, 1, 2]]]));
  assert.deepEqual([levels.strongestRow(-1, 0), levels.strongestRow(-1, 1), levels.strongestRow(-2, 0)], [1, 0, -1]);
});

test("cells without a level are known, because the legend explains them", () => {
  assert.equal(levels(1, 2, [1, 2]).hasBlank, false);
  assert.equal(levels(1, 2, [1, 0]).hasBlank, true);
});
