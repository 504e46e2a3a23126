import assert from "node:assert/strict";
import test from "node:test";
import { LevelMatrix, SCORE_STRENGTH } from "../../src/heatmap/level-matrix";
import { paintCells, type Viewport } from "../../src/heatmap/pixels";

// A level's color is its number, and the ground is 0.
const palette = Uint32Array.from({ length: 256 }, (_, level) => level);

function painted(rows: number[][], width: number, height: number, viewport: Viewport): number[][] {
  const levels = new LevelMatrix(rows.length, rows[0].length, SCORE_STRENGTH);
  levels.write(Uint8Array.from(rows.flat()), 0, rows[0].length);
  const pixels = new Uint32Array(width * height).fill(99);
  paintCells(pixels, width, height, levels, rows.length, viewport, palette);
  return Array.from({ length: height }, (_, y) => [...pixels.subarray(y * width, (y + 1) * width)]);
}

test("cells of two pixels", () => {
  const pixels = painted([[1, 2], [3, 4]], 4, 4, { top: 0, left: 0, rowHeight: 2, columnWidth: 2 });
  assert.deepEqual(pixels, [[1, 1, 2, 2], [1, 1, 2, 2], [3, 3, 4, 4], [3, 3, 4, 4]]);
});

test("pixels outside of all cells have the background colour", () => {
  const pixels = painted([[1]], 3, 3, { top: 0, left: 0, rowHeight: 2, columnWidth: 2 });
  assert.deepEqual(pixels, [[1, 1, 0], [1, 1, 0], [0, 0, 0]]);
});

test("a viewport can start within a cell", () => {
  const rows = [[1, 2, 3], [4, 5, 6], [7, 8, 9]];
  const pixels = painted(rows, 3, 3, { top: 1.5, left: 0.5, rowHeight: 2, columnWidth: 2 });
  assert.deepEqual(pixels, [[4, 5, 5], [7, 8, 8], [7, 8, 8]]);
});

test("a pixel shows the strongest level of its rows and columns", () => {
  const rows = [[1, 5, 2, 2], [3, 1, 9, 2], [4, 4, 4, 4], [0, 0, 0, 7]];
  const pixels = painted(rows, 2, 2, { top: 0, left: 0, rowHeight: 0.5, columnWidth: 0.5 });
  assert.deepEqual(pixels, [[5, 9], [4, 7]]);
});

test("large cells are separated by a line of background", () => {
  const pixels = painted([[1, 2], [3, 4]], 12, 12, { top: 0, left: 0, rowHeight: 6, columnWidth: 6 });
  assert.deepEqual(pixels[1], [1, 1, 1, 1, 1, 1, 0, 2, 2, 2, 2, 2]);
  assert.deepEqual(pixels[6], new Array(12).fill(0));
  assert.deepEqual(pixels[7].slice(0, 6), new Array(6).fill(3));
});
