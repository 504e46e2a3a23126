// Row order of the heat map: grouping, sorting, headings.

import { type Catalogue, type SeriesKey, sortRows } from "../data/catalogue";
import type { LevelMatrix } from "./level-matrix";

export const GROUPINGS: Record<string, { text: string; keys: SeriesKey[] }> = {
  column: { text: "dataset, column", keys: ["dataset", "instance"] },
  dataset: { text: "dataset", keys: ["dataset"] },
  segment: { text: "dataset, segment", keys: ["dataset", "segment"] },
  analyzer: { text: "analyzer", keys: ["name", "dataset"] },
};
export const SORT_ORDERS = [["name", "name"], ["worst", "worst"], ["newest", "newest"], ["anomalies", "most anomalies"]] as const;

export interface RowOrder {
  /** Rows from top to bottom; a negative number `-n - 1` is the n-th heading. */
  order: Int32Array;
  headings: string[];
  /** Rows of the groups that are folded, by the number of their heading. */
  folded: Map<number, number[]>;
}

/** Keys that rows are grouped by; none unless they are sorted by name. */
export function groupKeys(group: string, sort: string): SeriesKey[] {
  return sort === "name" ? (GROUPINGS[group]?.keys ?? []) : [];
}

/** Order rows and insert a heading before each group; of a group that is folded only the heading is left. */
export function orderRows(
  rows: Int32Array,
  catalogue: Catalogue,
  sort: string,
  keys: readonly SeriesKey[],
  marks: ReadonlyMap<number, readonly number[]>,
  levels?: LevelMatrix,
  isFolded: (heading: string) => boolean = () => false,
): RowOrder {
  const order = sortRows(rows, catalogue, keys, weights(sort, marks, levels));
  const folded = new Map<number, number[]>();
  if (!keys.length) return { order, headings: [], folded };
  const entries: number[] = [];
  const headings: string[] = [];
  let previous = -1;
  for (const row of order) {
    if (previous < 0 || keys.some((key) => catalogue.code(key, row) !== catalogue.code(key, previous))) {
      const words = keys.map((key) => catalogue.text(key, row)).map((word) => (word === "*" ? "the table" : word));
      headings.push(words.join(" · "));
      entries.push(-headings.length);
      if (isFolded(headings[headings.length - 1])) folded.set(-headings.length, []);
    }
    const group = folded.get(-headings.length);
    if (group) group.push(row);
    else entries.push(row);
    previous = row;
  }
  return { order: Int32Array.from(entries), headings, folded };
}

/** Sort weight of each row; undefined when sorting by name. */
function weights(sort: string, marks: ReadonlyMap<number, readonly number[]>, levels?: LevelMatrix): Float64Array | undefined {
  if (sort === "name" || !levels) return undefined;
  const { rows, columns, bytes, strength } = levels;
  const weight = new Float64Array(rows);
  for (let row = 0; row < rows; row++) {
    if (sort === "anomalies") weight[row] = marks.get(row)?.length ?? 0;
    else if (sort === "newest") weight[row] = strength[bytes[(row + 1) * columns - 1]];
    else for (let n = row * columns; n < (row + 1) * columns; n++) weight[row] = Math.max(weight[row], strength[bytes[n]]);
  }
  return weight;
}
