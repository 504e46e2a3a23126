// Catalogue of all series (rows) and times (columns). Strings are dictionary-encoded to save memory with 100,000 series.

import type { AnswerTo } from "./kernel";

const SERIES_KEYS = ["dataset", "segment", "instance", "name", "analyzer"] as const;
/** Name of a series key. */
export type SeriesKey = (typeof SERIES_KEYS)[number];

/** Beginning of the names of consistency metrics; `PREFIX` in repository/store/consistency_series.py. */
const CONSISTENCY_PREFIX = "Consistency.";

/** Series and columns that the questions of the page refer to by number. */
export class Catalogue {
  readonly ids: Float64Array;
  readonly times: Float64Array;
  readonly labels: readonly string[];
  readonly datasets: readonly string[];
  readonly writable: boolean;
  readonly commits: number;
  /** Number of the catalogue, included in questions about rows or columns. */
  readonly number: number;
  /** Author of labels from this page; null if the page asks for a name. */
  readonly author: string | null;
  /** Address of the dashboard for links; null if it is not set. */
  readonly url: string | null;
  /** Number of open incidents that are not snoozed. */
  readonly openIncidents: number;
  /** Anomalous points as (row, column) pairs. */
  readonly marks: Int32Array;
  /** All rows, those with the worst anomalies first. */
  readonly worst: Int32Array;
  private readonly keyValues: Record<string, readonly string[]>;
  private readonly codes: Record<SeriesKey, Int32Array>;
  private searchText: string[] | null = null;

  constructor({ data, arrays }: AnswerTo<"catalogue">) {
    ({ key_values: this.keyValues, labels: this.labels, datasets: this.datasets } = data);
    ({ writable: this.writable, commits: this.commits, author: this.author, url: this.url, open_incidents: this.openIncidents } = data);
    this.number = data.catalogue;
    ({ ids: this.ids, times: this.times, marks: this.marks, worst: this.worst } = arrays);
    this.codes = arrays;
  }

  /** Whether any dataset has consistency metrics. */
  get hasConsistency(): boolean {
    return this.keyValues.name.some((name) => name.startsWith(CONSISTENCY_PREFIX));
  }

  get rows(): number {
    return this.ids.length;
  }

  get columns(): number {
    return this.labels.length;
  }

  keyValue(key: SeriesKey, row: number): string {
    return this.keyValues[key][this.codes[key][row]];
  }

  code(key: SeriesKey, row: number): number {
    return this.codes[key][row];
  }

  /** Title of a row without its dataset and `hidden` keys, such as `Completeness dep_time · origin=EWR`. */
  title(row: number, hidden: readonly SeriesKey[] = []): string {
    const instance = this.keyValue("instance", row);
    const column = instance === "*" || hidden.includes("instance") ? "" : ` ${instance}`;
    const segment = this.keyValue("segment", row);
    return `${this.keyValue("name", row)}${column}${whereClause(this.keyValue("analyzer", row))}${segment ? ` · ${segment}` : ""}`;
  }

  rowOf(id: number): number {
    return this.ids.indexOf(id);
  }

  /** Return the rows that contain all words of a search, ignoring case. */
  search(text: string): Int32Array {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = new Int32Array(this.rows);
    if (!words.length) return rows.map((_, row) => row);
    this.searchText ??= Array.from(rows, (_, row) => SERIES_KEYS.map((key) => this.keyValue(key, row)).join("\n").toLowerCase());
    let count = 0;
    for (let row = 0; row < this.rows; row++) {
      if (words.every((word) => this.searchText![row].includes(word))) rows[count++] = row;
    }
    return rows.slice(0, count);
  }
}

/** Row filter in the string form of an analyzer, formatted as ` where origin = 'EWR'`; empty without a filter. */
export function whereClause(analyzer: string): string {
  const match = /where='((?:[^'\\]|\\.)*)'|where="((?:[^"\\]|\\.)*)"/.exec(analyzer);
  return match ? ` where ${match[1] ?? match[2]}` : "";
}
