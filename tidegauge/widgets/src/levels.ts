// The bytes of the heat map, and the worst of many rows at once, for when they are thinner than a pixel.

/** How strongly a level asks to be seen: among several, the strongest is shown. */
export type Strength = Uint8Array;

export const SCORE_STRENGTH: Strength = Uint8Array.from({ length: 256 }, (_, level) => level);
export const CHANGE_STRENGTH: Strength = Uint8Array.from({ length: 256 }, (_, level) =>
  level === 0 ? 0 : 1 + Math.abs(level - 128),
);

const FOLDS = [8, 64] as const;

export class Levels {
  readonly bytes: Uint8Array;
  /** Columns from here on are known. */
  known: number;
  /** Grows with every change. */
  version = 0;
  private folded = new Map<number, Uint8Array>();
  private order: Int32Array;

  constructor(
    readonly rows: number,
    readonly columns: number,
    readonly strength: Strength,
  ) {
    this.bytes = new Uint8Array(rows * columns);
    this.known = columns;
    this.order = Int32Array.from({ length: rows }, (_, row) => row);
  }

  /** Say in which order rows are shown; a negative number is a heading, which has no levels. */
  arrange(order: Int32Array): void {
    this.order = order;
    this.changed();
  }

  /** Take bytes of some rows (all if not given) from a column on. */
  take(bytes: Uint8Array, first: number, last: number, rows?: ArrayLike<number>): void {
    const width = last - first;
    const count = rows ? rows.length : this.rows;
    for (let n = 0; n < count; n++) {
      const row = rows ? rows[n] : n;
      this.bytes.set(bytes.subarray(n * width, (n + 1) * width), row * this.columns + first);
    }
    this.changed();
  }

  private changed(): void {
    this.version++;
    this.folded.clear();
  }

  /** Write into `line` the strongest level of each column over the rows shown from one place to another. */
  strongest(line: Uint8Array, from: number, to: number): void {
    const last = Math.min(to, this.order.length);
    line.fill(0);
    for (let place = from; place < last; ) {
      const size = FOLDS.findLast((fold) => place % fold === 0 && place + fold <= last) ?? 1;
      if (size === 1) this.merge(line, this.bytes, this.order[place]);
      else this.merge(line, this.fold(size), place / size);
      place += size;
    }
  }

  private merge(line: Uint8Array, source: Uint8Array, row: number): void {
    if (row < 0) return;
    const { columns, strength } = this;
    const start = row * columns;
    for (let column = 0; column < columns; column++) {
      const level = source[start + column];
      if (strength[level] > strength[line[column]]) line[column] = level;
    }
  }

  /** Return the strongest levels of each so many rows. */
  private fold(size: number): Uint8Array {
    let made = this.folded.get(size);
    if (!made) {
      const step = FOLDS.findLast((fold) => fold < size) ?? 1;
      const source = step === 1 ? this.bytes : this.fold(step);
      const groups = Math.floor(this.order.length / size);
      made = new Uint8Array(groups * this.columns);
      for (let group = 0; group < groups; group++) {
        const line = made.subarray(group * this.columns, (group + 1) * this.columns);
        for (let place = group * size; place < (group + 1) * size; place += step) {
          this.merge(line, source, step === 1 ? this.order[place] : place / step);
        }
      }
      this.folded.set(size, made);
    }
    return made;
  }
}
