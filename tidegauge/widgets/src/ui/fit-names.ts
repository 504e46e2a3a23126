// Names that do not fit into their cell are shortened in the middle, where segments and metrics differ least.

import { truncateMiddle } from "../data/format";

/** Shortest name, in characters. A cell that is too narrow for it ends in an ellipsis. */
const MIN_NAME_LENGTH = 8;
/** Most passes; each one measures all cells, and then shortens the names of those that overflow. */
const MAX_PASSES = 4;

/** Length at which a name is narrower by its part of the excess of its cell. */
export function fittedLength(length: number, width: number, totalWidth: number, excess: number): number {
  const share = Math.max(0, 1 - excess / totalWidth);
  return width <= 0 ? length : Math.max(MIN_NAME_LENGTH, Math.min(length - 1, Math.floor(length * share)));
}

/** Shorten the names in some rows until their cells have room for all of their content. */
export function fitNames(rows: readonly HTMLElement[]): void {
  const cells = new Map<HTMLElement, HTMLElement[]>();
  for (const name of rows.flatMap((row) => [...row.querySelectorAll<HTMLElement>(".tg-name")])) {
    const cell = name.parentElement!;
    cells.set(cell, [...(cells.get(cell) ?? []), name]);
  }
  for (let pass = 0; pass < MAX_PASSES && cells.size; pass++) {
    const shortened: [HTMLElement, number][] = [];
    for (const [cell, members] of cells) {
      const excess = cell.scrollWidth - cell.clientWidth;
      if (excess <= 0) {
        cells.delete(cell);
        continue;
      }
      const widths = members.map((name) => name.getBoundingClientRect().width);
      const total = widths.reduce((sum, width) => sum + width, 0);
      members.forEach((name, n) => shortened.push([name, fittedLength(name.textContent!.length, widths[n], total, excess)]));
    }
    for (const [name, length] of shortened) {
      name.title ||= name.textContent!;
      name.textContent = truncateMiddle(name.title, length);
    }
  }
}
