// Rows of the comparison table, which is sent as columns: filter, bar lengths.

import { whereClause } from "./catalogue";

/** Table by column. */
export interface TableColumns {
  rows: number;
  strings: Record<string, readonly (string | null)[]>;
  numbers: Record<string, Float64Array | Int32Array>;
}

const SEARCHED_COLUMNS = ["name", "instance", "segment", "status"] as const;
/** Surprise with a full bar, in robust standard deviations. */
const FULL_BAR_SURPRISE = 12;

/** Filter rows that contain all words of a search, ignoring case. */
export function filterRows(cells: TableColumns, rows: readonly number[], text: string, unusual: boolean): number[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return rows.filter((row) => {
    if (unusual && cells.numbers.unusual[row] !== 1) return false;
    const fields = SEARCHED_COLUMNS.map((key) => cells.strings[key][row] ?? "");
    const haystack = [...fields, whereClause(cells.strings.analyzer[row] ?? "")].join("\n").toLowerCase();
    return words.every((word) => haystack.includes(word));
  });
}

/** Bar length of a relative change, -1 to 1: its square root, so that small changes are visible; 0 for NaN. */
export function changeBarLength(relative: number): number {
  if (Number.isNaN(relative)) return 0;
  return Math.sign(relative) * Math.sqrt(Math.min(1, Math.abs(relative)));
}

/** Bar length of a surprise, 0 to 1. */
export function surpriseBarLength(surprise: number): number {
  return Math.min(FULL_BAR_SURPRISE, surprise) / FULL_BAR_SURPRISE;
}
