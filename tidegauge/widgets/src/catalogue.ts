// What there is: series by row, moments by column. Text is coded, so 100,000 series cost little.

import type { Answer } from "./link";

const KEYS = ["dataset", "segment", "instance", "name", "analyzer"] as const;
export type Key = (typeof KEYS)[number];

export interface Told {
  words: Record<Key, string[]>;
  labels: string[];
  datasets: string[];
  writable: boolean;
  commits: number;
  by: string;
  catalogue: number;
}

export class Catalogue {
  readonly ids: Float64Array;
  readonly times: Float64Array;
  readonly labels: string[];
  readonly datasets: string[];
  readonly writable: boolean;
  readonly commits: number;
  /** Who says what is said here. */
  readonly by: string;
  /** Anomalies as pairs of row and column. */
  readonly marks: Int32Array;
  private readonly words: Record<Key, string[]>;
  private readonly codes: Record<Key, Int32Array>;
  private lowered: string[] | null = null;

  constructor({ told, arrays }: Answer<Told>) {
    ({ words: this.words, labels: this.labels, datasets: this.datasets } = told);
    ({ writable: this.writable, commits: this.commits, by: this.by } = told);
    this.ids = arrays.ids as Float64Array;
    this.times = arrays.times as Float64Array;
    this.marks = arrays.marks as Int32Array;
    this.codes = Object.fromEntries(KEYS.map((key) => [key, arrays[key] as Int32Array])) as Record<Key, Int32Array>;
  }

  get rows(): number {
    return this.ids.length;
  }

  get columns(): number {
    return this.labels.length;
  }

  text(key: Key, row: number): string {
    return this.words[key][this.codes[key][row]];
  }

  code(key: Key, row: number): number {
    return this.codes[key][row];
  }

  /** What a row is called beside its dataset: `Completeness dep_time · origin=EWR`. */
  title(row: number, told: readonly Key[] = []): string {
    const instance = this.text("instance", row);
    const about = instance === "*" || told.includes("instance") ? "" : ` ${instance}`;
    const segment = this.text("segment", row);
    return `${this.text("name", row)}${about}${filterOf(this.text("analyzer", row))}${segment ? ` · ${segment}` : ""}`;
  }

  rowOf(id: number): number {
    return this.ids.indexOf(id);
  }

  /** The rows in which all words of a text occur, whatever their case. */
  matching(text: string): Int32Array {
    const wanted = text.toLowerCase().split(/\s+/).filter(Boolean);
    const found = new Int32Array(this.rows);
    if (!wanted.length) return found.map((_, row) => row);
    this.lowered ??= Array.from(found, (_, row) => KEYS.map((key) => this.text(key, row)).join("\n").toLowerCase());
    let count = 0;
    for (let row = 0; row < this.rows; row++) {
      if (wanted.every((word) => this.lowered![row].includes(word))) found[count++] = row;
    }
    return found.slice(0, count);
  }
}

/** What an analyzer's text says of the rows that it is of: ` where origin = 'EWR'`. */
export function filterOf(analyzer: string): string {
  const found = /where='((?:[^'\\]|\\.)*)'|where="((?:[^"\\]|\\.)*)"/.exec(analyzer);
  return found ? ` where ${found[1] ?? found[2]}` : "";
}

/** Put rows in order: by some keys, or by numbers, the highest first. */
export function ordered(rows: Int32Array, of: Catalogue, keys: readonly Key[], by?: Float64Array): Int32Array {
  // Rows already are in order of dataset, column, name, segment, analyzer; sorting keeps what is equal.
  return rows.slice().sort((a, b) => {
    if (by && by[a] !== by[b]) return by[b] - by[a];
    for (const key of keys) {
      const difference = of.code(key, a) - of.code(key, b);
      if (difference) return difference;
    }
    return a - b;
  });
}
