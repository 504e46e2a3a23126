// The heat map as pixels: what level each pixel shows, and its colour.

import type { Levels } from "./levels";

/** Which part of the picture is in view; lengths in pixels of the canvas. */
export interface Sight {
  /** The place and the column at the upper left corner; fractions are within a cell. */
  top: number;
  left: number;
  rowHeight: number;
  columnWidth: number;
}

/** From this size on, cells are set apart by a line. */
const APART = 6;

/** Fill pixels, row by row, with the colours of levels. */
export function paint(
  pixels: Uint32Array,
  width: number,
  height: number,
  levels: Levels,
  places: number,
  sight: Sight,
  palette: Uint32Array,
): void {
  const { top, left, rowHeight, columnWidth } = sight;
  const ground = palette[0];
  const first = new Int32Array(width + 1);
  for (let x = 0; x <= width; x++) first[x] = Math.floor(left + x / columnWidth);
  const line = new Uint8Array(levels.columns);
  let shown = -1;
  for (let y = 0; y < height; y++) {
    const from = Math.floor(top + y / rowHeight);
    const to = Math.max(from + 1, Math.floor(top + (y + 1) / rowHeight));
    const start = y * width;
    const before = Math.floor(top + (y - 1) / rowHeight);
    if (from >= places || from < 0 || (rowHeight >= APART && before !== from)) {
      pixels.fill(ground, start, start + width);
      continue;
    }
    if (rowHeight > 1 && from === shown) {
      pixels.copyWithin(start, start - width, start);
      continue;
    }
    levels.strongest(line, from, to);
    shown = from;
    for (let x = 0; x < width; x++) {
      const column = first[x];
      if (column < 0 || column >= levels.columns) {
        pixels[start + x] = ground;
        continue;
      }
      if (columnWidth >= APART && x > 0 && first[x - 1] !== column) {
        pixels[start + x] = ground;
        continue;
      }
      let level = line[column];
      const last = Math.min(first[x + 1], levels.columns);
      for (let other = column + 1; other < last; other++) {
        if (levels.strength[line[other]] > levels.strength[level]) level = line[other];
      }
      pixels[start + x] = palette[level];
    }
  }
}
