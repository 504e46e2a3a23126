// In which order rows are shown, and under which headings.

import { type Catalogue, type Key, ordered } from "./catalogue";
import type { Levels } from "./levels";

export const GROUPS: Record<string, { text: string; keys: Key[] }> = {
  column: { text: "dataset, column", keys: ["dataset", "instance"] },
  dataset: { text: "dataset", keys: ["dataset"] },
  analyzer: { text: "analyzer", keys: ["name", "dataset"] },
};
export const SORTS = [["name", "name"], ["worst", "worst"], ["newest", "newest"], ["anomalies", "most anomalies"]] as const;

export interface Arrangement {
  /** Rows from top to bottom; a negative number is the heading `-n - 1`. */
  order: Int32Array;
  headings: string[];
}

/** What rows are grouped by; nothing where they are in order of something else than their names. */
export function keysOf(group: string, sort: string): Key[] {
  return sort === "name" ? (GROUPS[group]?.keys ?? []) : [];
}

export function arranged(
  rows: Int32Array,
  of: Catalogue,
  sort: string,
  keys: readonly Key[],
  marks: ReadonlyMap<number, readonly number[]>,
  levels?: Levels,
): Arrangement {
  const order = ordered(rows, of, keys, weights(sort, marks, levels));
  if (!keys.length) return { order, headings: [] };
  const found: number[] = [];
  const headings: string[] = [];
  let before = -1;
  for (const row of order) {
    if (before < 0 || keys.some((key) => of.code(key, row) !== of.code(key, before))) {
      const words = keys.map((key) => of.text(key, row)).map((word) => (word === "*" ? "the table" : word));
      headings.push(words.join(" · "));
      found.push(-headings.length);
    }
    found.push(row);
    before = row;
  }
  return { order: Int32Array.from(found), headings };
}

/** How far up each row belongs, if not by its name. */
function weights(sort: string, marks: ReadonlyMap<number, readonly number[]>, levels?: Levels): Float64Array | undefined {
  if (sort === "name" || !levels) return undefined;
  const { rows, columns, bytes, strength } = levels;
  const found = new Float64Array(rows);
  for (let row = 0; row < rows; row++) {
    if (sort === "anomalies") found[row] = marks.get(row)?.length ?? 0;
    else if (sort === "newest") found[row] = strength[bytes[(row + 1) * columns - 1]];
    else for (let n = row * columns; n < (row + 1) * columns; n++) found[row] = Math.max(found[row], strength[bytes[n]]);
  }
  return found;
}
