// Level matrix of the heat map: one byte for each cell, with max-pooling over rows that are thinner than a pixel.

/** Strength of each level, 0 to 255. A pixel with several levels shows the strongest. */
export type Strength = Uint8Array;

/** Strength of score levels: the level. */
export const SCORE_STRENGTH: Strength = Uint8Array.from({ length: 256 }, (_, level) => level);
/** Strength of change levels: the distance from no change. */
export const CHANGE_STRENGTH: Strength = Uint8Array.from({ length: 256 }, (_, level) =>
  level === 0 ? 0 : 1 + Math.abs(level - 128),
);

const POOL_SIZES = [8, 64] as const;

/** Levels of all cells, and their maxima over groups of rows. */
export class LevelMatrix {
  readonly bytes: Uint8Array;
  /** First loaded column; all later columns are loaded as well. */
  loadedFrom: number;
  /** Whether a cell has no level. */
  hasBlank = false;
  /** Increases with every change. */
  version = 0;
  private pooled = new Map<number, Uint8Array>();
  private order: Int32Array;
  /** Rows of folded groups by heading, and their strongest levels. */
  private folded: ReadonlyMap<number, readonly number[]> = new Map();
  private readonly summaries = new Map<number, Uint8Array>();

  constructor(
    readonly rows: number,
    readonly columns: number,
    readonly strength: Strength,
  ) {
    this.bytes = new Uint8Array(rows * columns);
    this.loadedFrom = columns;
    this.order = Int32Array.from({ length: rows }, (_, row) => row);
  }

  /** Set the order of rows on the screen; negative numbers are headings, with levels only if their rows are folded. */
  setOrder(order: Int32Array, folded: ReadonlyMap<number, readonly number[]> = new Map()): void {
    this.order = order;
    this.folded = folded;
    this.version++;
    this.pooled.clear();
    this.summaries.clear();
  }

  /** Write the bytes of columns `[first, last)` of some rows (all if not given). */
  write(bytes: Uint8Array, first: number, last: number, rows?: ArrayLike<number>): void {
    const width = last - first;
    const count = rows ? rows.length : this.rows;
    this.hasBlank ||= bytes.includes(0);
    for (let n = 0; n < count; n++) {
      const row = rows ? rows[n] : n;
      this.bytes.set(bytes.subarray(n * width, (n + 1) * width), row * this.columns + first);
    }
    this.version++;
    this.pooled.clear();
    // Columns arrive in parts, and the map is painted in between, so only the new columns are summarized again.
    for (const [heading, summary] of this.summaries) this.summarise(summary, this.folded.get(heading)!, first, last);
  }

  /** Max-pool the rows shown at `[from, to)`: write the strongest level of each column into `line`. */
  maxPool(line: Uint8Array, from: number, to: number): void {
    const last = Math.min(to, this.order.length);
    line.fill(0);
    for (let index = from; index < last; ) {
      const size = POOL_SIZES.findLast((size) => index % size === 0 && index + size <= last) ?? 1;
      if (size === 1) this.merge(line, this.bytes, this.order[index]);
      else this.merge(line, this.pool(size), index / size);
      index += size;
    }
  }

  private merge(line: Uint8Array, source: Uint8Array, row: number, first = 0, last = this.columns): void {
    const { columns, strength } = this;
    if (row < 0) {
      const summary = this.summary(row);
      if (summary) this.merge(line, summary, 0);
      return;
    }
    const start = row * columns;
    for (let column = first; column < last; column++) {
      const level = source[start + column];
      if (strength[level] > strength[line[column]]) line[column] = level;
    }
  }

  /** Strongest levels of the rows that are folded under a heading; undefined if the heading is not folded. */
  private summary(heading: number): Uint8Array | undefined {
    const rows = this.folded.get(heading);
    if (!rows) return undefined;
    let summary = this.summaries.get(heading);
    if (!summary) {
      summary = new Uint8Array(this.columns);
      this.summarise(summary, rows, 0, this.columns);
      this.summaries.set(heading, summary);
    }
    return summary;
  }

  /** Row with the strongest level in a column, among the rows that are folded under a heading; -1 if it is not folded. */
  strongestRow(heading: number, column: number): number {
    const level = (row: number) => this.strength[this.bytes[row * this.columns + column]];
    const [first = -1, ...others] = this.folded.get(heading) ?? [];
    return others.reduce((strongest, row) => (level(row) > level(strongest) ? row : strongest), first);
  }

  private summarise(summary: Uint8Array, rows: readonly number[], first: number, last: number): void {
    summary.fill(0, first, last);
    for (const row of rows) this.merge(summary, this.bytes, row, first, last);
  }

  /** Max-pooled levels of each group of `size` rows, cached until the levels or the order change. */
  private pool(size: number): Uint8Array {
    let matrix = this.pooled.get(size);
    if (!matrix) {
      const step = POOL_SIZES.findLast((smaller) => smaller < size) ?? 1;
      const source = step === 1 ? this.bytes : this.pool(step);
      const groups = Math.floor(this.order.length / size);
      matrix = new Uint8Array(groups * this.columns);
      for (let group = 0; group < groups; group++) {
        const line = matrix.subarray(group * this.columns, (group + 1) * this.columns);
        for (let index = group * size; index < (group + 1) * size; index += step) {
          this.merge(line, source, step === 1 ? this.order[index] : index / step);
        }
      }
      this.pooled.set(size, matrix);
    }
    return matrix;
  }
}
