// Groups of heat map rows and their headings. The kernel sorts the rows.

import type { Catalogue, SeriesKey } from "../data/catalogue";

/** Groupings by name, with their label and keys. */
export const GROUPINGS: Record<string, { text: string; keys: SeriesKey[] }> = {
  column: { text: "dataset, column", keys: ["dataset", "instance"] },
  dataset: { text: "dataset", keys: ["dataset"] },
  segment: { text: "dataset, segment", keys: ["dataset", "segment"] },
  analyzer: { text: "analyzer", keys: ["name", "dataset"] },
};
/** Sort orders with their labels; the first is the default, as in `series.py`. */
export const SORT_ORDERS = [["worst", "worst"], ["newest", "worst newest"], ["anomalies", "most anomalies"], ["name", "name"]] as const;

/** Order of rows if none is chosen: the worst first, but by name if a grouping is chosen, because groups need it. */
export function defaultSort(group: string | null): string {
  return group === null ? SORT_ORDERS[0][0] : "name";
}

/** Rows with headings. */
export interface RowGroups {
  /** Rows from top to bottom; a negative number `-n - 1` is the n-th heading. */
  order: Int32Array;
  headings: string[];
  /** Rows of folded groups, by the number of their heading. */
  folded: Map<number, number[]>;
}

/** Keys that rows are grouped by. Rows are grouped only if they are sorted by name. */
export function groupKeys(group: string, sort: string): SeriesKey[] {
  return sort === "name" ? (GROUPINGS[group]?.keys ?? []) : [];
}

/** Insert a heading before each group of sorted rows, and replace folded groups by their headings. */
export function groupRows(rows: Int32Array, catalogue: Catalogue, keys: readonly SeriesKey[], isFolded: (heading: string) => boolean = () => false): RowGroups {
  const folded = new Map<number, number[]>();
  if (!keys.length) return { order: rows, headings: [], folded };
  const entries: number[] = [];
  const headings: string[] = [];
  let previous = -1;
  for (const row of rows) {
    if (previous < 0 || keys.some((key) => catalogue.code(key, row) !== catalogue.code(key, previous))) {
      const words = keys.map((key) => catalogue.keyValue(key, row)).map((word) => (word === "*" ? "the table" : word));
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
