// Rows of the comparison table, which is sent as columns: filter, sort, bar lengths.

import { whereClause } from "./catalogue";

export interface TableColumns {
  rows: number;
  texts: Record<string, readonly (string | null)[]>;
  numbers: Record<string, Float64Array>;
}

const SEARCHED = ["name", "instance", "segment", "status"] as const;
/** Surprise, in robust standard deviations, whose bar is full. */
const FULL_BAR = 12;

/** Filter rows that contain all words of a text, case-insensitively, in the order they came. */
export function filterRows(cells: TableColumns, text: string, unusual: boolean): number[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const rows: number[] = [];
  for (let row = 0; row < cells.rows; row++) {
    if (unusual && cells.numbers.unusual[row] !== 1) continue;
    const fields = SEARCHED.map((key) => cells.texts[key][row] ?? "");
    const haystack = [...fields, whereClause(cells.texts.analyzer[row] ?? "")].join("\n").toLowerCase();
    if (words.every((word) => haystack.includes(word))) rows.push(row);
  }
  return rows;
}

const KEYS = ["segment", "name", "instance", "analyzer"] as const;

/** Add the metrics of merged states to the rows of the same series: both sides, and the relative change as `merged`. */
export function joinMerged(cells: TableColumns, merged: TableColumns): void {
  const key = ({ texts }: TableColumns, row: number) => JSON.stringify(KEYS.map((name) => texts[name][row]));
  const places = new Map(Array.from({ length: merged.rows }, (_, row) => [key(merged, row), row]));
  const rows = Array.from({ length: cells.rows }, (_, row) => places.get(key(cells, row)));
  const side = (name: string) => Float64Array.from(rows, (place) => (place === undefined ? NaN : (merged.numbers[name]?.[place] ?? NaN)));
  const [before, after] = [side("merged_baseline"), side("merged_current")];
  const change = before.map((value, row) => (value === after[row] ? 0 : value ? (after[row] - value) / Math.abs(value) : NaN));
  Object.assign(cells.numbers, { merged_baseline: before, merged_current: after, merged: change });
}

/** Comparator of rows by a column; NaN and empty texts sort last in both directions, ties keep their order. */
export function compareByColumn(cells: TableColumns, key: string, descending: boolean): (a: number, b: number) => number {
  const sign = descending ? -1 : 1;
  // Python ranks texts, so that exported data have the order of the page.
  const numbers = cells.numbers[`${key}_rank`] ?? cells.numbers[key];
  if (!numbers) return (a, b) => a - b; // not known yet
  return (a, b) => {
    const [left, right] = [numbers[a], numbers[b]];
    if (Number.isNaN(left) || Number.isNaN(right)) return Number(Number.isNaN(left)) - Number(Number.isNaN(right)) || a - b;
    return left === right ? a - b : left < right ? -sign : sign;
  };
}

/** Bar length of a relative change, -1 to 1: its square root, so that small changes are visible; 0 for NaN. */
export function changeBarLength(relative: number): number {
  if (Number.isNaN(relative)) return 0;
  return Math.sign(relative) * Math.sqrt(Math.min(1, Math.abs(relative)));
}

/** Bar length of a surprise, 0 to 1. */
export function surpriseBarLength(surprise: number): number {
  return Math.min(FULL_BAR, surprise) / FULL_BAR;
}
