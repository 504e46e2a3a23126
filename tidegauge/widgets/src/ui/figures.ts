// Figures: numbers of a column with their decimal points below each other.

import { decimalsWidth, splitDecimals } from "../data/format";
import { h } from "./dom";

/** Show a formatted number in a cell; `width` is the `decimalsWidth` of its column. */
export function showFigure(cell: HTMLElement, text: string, width: number): void {
  const [whole, decimals] = splitDecimals(text);
  if (!width) {
    cell.replaceChildren(text);
    return;
  }
  const rest = h("span", { class: "tg-decimals" }, decimals);
  rest.style.minWidth = `${width}ch`;
  cell.replaceChildren(whole, rest);
  cell.setAttribute("aria-label", text); // else some screen readers pause at the point
}

/** Align the cells of class `tg-figure` in each column of a table. */
export function alignFigures(table: HTMLTableElement): void {
  const columns = new Map<number, HTMLTableCellElement[]>();
  for (const row of table.tBodies[0]?.rows ?? []) {
    for (const cell of row.cells) if (cell.classList.contains("tg-figure")) columns.set(cell.cellIndex, [...(columns.get(cell.cellIndex) ?? []), cell]);
  }
  for (const cells of columns.values()) {
    const width = decimalsWidth(cells.map((cell) => cell.textContent ?? ""));
    for (const cell of cells) showFigure(cell, cell.textContent ?? "", width);
  }
}
