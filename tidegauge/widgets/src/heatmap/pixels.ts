// Rasterise heat map levels to pixels: the strongest level under each pixel, in its color.

import type { LevelMatrix } from "./level-matrix";

/** Viewport of the heat map; lengths in pixels of the canvas. */
export interface Viewport {
  /** Row index and column at the upper left corner; fractions are within a cell. */
  top: number;
  left: number;
  rowHeight: number;
  columnWidth: number;
}

/** Smallest cell size, in pixels, at which a line separates cells. */
const GRID_SIZE = 6;

/** Paint cells into pixels, row by row. */
export function paintCells(
  pixels: Uint32Array,
  width: number,
  height: number,
  levels: LevelMatrix,
  rows: number,
  viewport: Viewport,
  palette: Uint32Array,
): void {
  const { top, left, rowHeight, columnWidth } = viewport;
  const background = palette[0];
  const first = new Int32Array(width + 1);
  for (let x = 0; x <= width; x++) first[x] = Math.floor(left + x / columnWidth);
  const line = new Uint8Array(levels.columns);
  let painted = -1;
  for (let y = 0; y < height; y++) {
    const from = Math.floor(top + y / rowHeight);
    const to = Math.max(from + 1, Math.floor(top + (y + 1) / rowHeight));
    const start = y * width;
    const previousRow = Math.floor(top + (y - 1) / rowHeight);
    if (from >= rows || from < 0 || (rowHeight >= GRID_SIZE && previousRow !== from)) {
      pixels.fill(background, start, start + width);
      continue;
    }
    if (rowHeight > 1 && from === painted) {
      pixels.copyWithin(start, start - width, start);
      continue;
    }
    levels.maxPool(line, from, to);
    painted = from;
    for (let x = 0; x < width; x++) {
      const column = first[x];
      if (column < 0 || column >= levels.columns) {
        pixels[start + x] = background;
        continue;
      }
      if (columnWidth >= GRID_SIZE && x > 0 && first[x - 1] !== column) {
        pixels[start + x] = background;
        continue;
      }
      let level = line[column];
      const last = Math.min(first[x + 1], levels.columns);
      for (let nextColumn = column + 1; nextColumn < last; nextColumn++) {
        if (levels.strength[line[nextColumn]] > levels.strength[level]) level = line[nextColumn];
      }
      pixels[start + x] = palette[level];
    }
  }
}
