// Rows of a table that was sent as columns: which are shown, in which order, and how long their bars are.

import { filterOf } from "./catalogue";

export interface Cells {
  rows: number;
  texts: Record<string, readonly (string | null)[]>;
  numbers: Record<string, Float64Array>;
}

const SEARCHED = ["name", "instance", "segment", "status"] as const;
/** Where the bar of a surprise is whole. */
const WHOLE = 12;

/** The rows in which all words of a text occur, whatever their case, in the order in which they came. */
export function shownRows(cells: Cells, text: string, unusual: boolean): number[] {
  const wanted = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found: number[] = [];
  for (let row = 0; row < cells.rows; row++) {
    if (unusual && cells.numbers.unusual[row] !== 1) continue;
    const words = SEARCHED.map((key) => cells.texts[key][row] ?? "");
    const whole = [...words, filterOf(cells.texts.analyzer[row] ?? "")].join("\n").toLowerCase();
    if (wanted.every((word) => whole.includes(word))) found.push(row);
  }
  return found;
}

/** Order rows by a column; what is not known comes last both ways, and equal ones stay as they came. */
export function byColumn(cells: Cells, key: string, down: boolean): (a: number, b: number) => number {
  const sign = down ? -1 : 1;
  const texts = cells.texts[key];
  if (texts) return (a, b) => sign * (texts[a] ?? "").localeCompare(texts[b] ?? "", "en") || a - b;
  const numbers = cells.numbers[key];
  return (a, b) => {
    const [one, other] = [numbers[a], numbers[b]];
    if (Number.isNaN(one) || Number.isNaN(other)) return Number(Number.isNaN(one)) - Number(Number.isNaN(other)) || a - b;
    return one === other ? a - b : one < other ? -sign : sign;
  };
}

/** From -1 to 1: the root of a relative change, so that small ones are seen, too; 0 if it is not known. */
export function lengthOfChange(relative: number): number {
  if (Number.isNaN(relative)) return 0;
  return Math.sign(relative) * Math.sqrt(Math.min(1, Math.abs(relative)));
}

/** From 0 to 1. */
export function lengthOfSurprise(surprise: number): number {
  return Math.min(WHOLE, surprise) / WHOLE;
}
