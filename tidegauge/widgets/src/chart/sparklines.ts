// Sparklines of visible rows: values are fetched in batches and cached, like the canvases drawn from them.

const CACHE_SIZE = 600;

/** Cache of the values and canvases of sparklines. */
export class Sparklines {
  private readonly values = new Map<number, Float32Array>();
  private readonly canvases = new Map<string, HTMLCanvasElement>();
  private readonly requested = new Set<number>();
  /** Columns `[first, end)` to draw; by default all. */
  private range: [number, number] = [0, Infinity];

  constructor(
    /** Fetch the values of some rows, concatenated row by row, from a column on. */
    private readonly fetchRows: (rows: readonly number[], first: number) => Promise<Float32Array>,
    private readonly columns: number,
    private readonly onLoaded: () => void,
    /** First column to fetch. Earlier columns are fetched once they are to be drawn. */
    private firstColumn = 0,
  ) {}

  /** Request the values of rows that are not cached. */
  async request(rows: readonly number[]): Promise<void> {
    const missing = rows.filter((row) => !this.values.has(row) && !this.requested.has(row));
    if (!missing.length) return;
    missing.forEach((row) => this.requested.add(row));
    try {
      const first = this.firstColumn;
      const values = await this.fetchRows(missing, first);
      const width = this.columns - first;
      // Fetched again by the next paint if earlier columns became visible meanwhile.
      if (first === this.firstColumn) missing.forEach((row, n) => this.cache(row, values.subarray(n * width, (n + 1) * width)));
    } finally {
      missing.forEach((row) => this.requested.delete(row));
    }
    this.onLoaded();
  }

  /** Canvas with the sparkline of a row, or null until its values are loaded. */
  canvas(row: number, width: number, height: number, colour: string): HTMLCanvasElement | null {
    const values = this.values.get(row);
    if (!values) return null;
    const key = `${row} ${width} ${height} ${colour}`;
    let canvas = this.canvases.get(key);
    if (!canvas) {
      canvas = document.createElement("canvas");
      canvas.width = width;
      canvas.height = height;
      const [first, end] = this.range.map((column) => Math.max(0, column - this.firstColumn));
      draw(canvas, values.subarray(first, end), colour);
      this.canvases.set(key, canvas);
      if (this.canvases.size > CACHE_SIZE) this.canvases.delete(this.canvases.keys().next().value!);
    }
    return canvas;
  }

  /** Set the columns `[first, end)` to draw; returns whether they changed. */
  setColumns(first: number, end: number): boolean {
    if (first === this.range[0] && end === this.range[1]) return false;
    this.range = [first, end];
    if (first < this.firstColumn) {
      this.firstColumn = 0;
      this.values.clear();
    }
    this.clearCanvases();
    return true;
  }

  clearCanvases(): void {
    this.canvases.clear();
  }

  private cache(row: number, values: Float32Array): void {
    this.values.set(row, values);
    if (this.values.size > CACHE_SIZE) this.values.delete(this.values.keys().next().value!);
  }
}

/**
 * Draw a sparkline from minimum to maximum of the columns at each pixel. It starts at the first value, so that longer
 * histories of other tables do not compress it.
 */
function draw(canvas: HTMLCanvasElement, allValues: Float32Array, colour: string): void {
  const values = allValues.subarray(Math.max(0, allValues.findIndex((value) => !Number.isNaN(value))));
  const context = canvas.getContext("2d")!;
  const { width, height } = canvas;
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (low > high) return;
  const scale = high > low ? (height - 2) / (high - low) : 0;
  const y = (value: number) => (scale ? height - 1 - (value - low) * scale : height / 2);
  context.strokeStyle = colour;
  context.lineWidth = Math.max(1, height / 18);
  context.beginPath();
  let joined = false;
  const pixels = Math.min(width, values.length);
  for (let x = 0; x < pixels; x++) {
    let [lowest, highest] = [Infinity, -Infinity];
    const end = Math.floor(((x + 1) * values.length) / pixels);
    for (let n = Math.floor((x * values.length) / pixels); n < end; n++) {
      if (values[n] < lowest) lowest = values[n];
      if (values[n] > highest) highest = values[n];
    }
    if (lowest > highest) {
      joined = false;
      continue;
    }
    const left = (x * (width - 1)) / Math.max(1, pixels - 1);
    if (joined) context.lineTo(left, y(highest));
    else context.moveTo(left, y(highest));
    if (highest > lowest) context.lineTo(left, y(lowest));
    joined = true;
  }
  context.stroke();
}
