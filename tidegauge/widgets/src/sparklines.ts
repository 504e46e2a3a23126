// Small lines of values beside the names: fetched and drawn for the rows that are seen, and kept for a while.

const KEPT = 600;

export class Sparklines {
  private readonly values = new Map<number, Float32Array>();
  private readonly drawn = new Map<string, HTMLCanvasElement>();
  private readonly asked = new Set<number>();

  constructor(
    /** Fetch the values of rows, one row after the other. */
    private readonly ask: (rows: readonly number[]) => Promise<Float32Array>,
    private readonly columns: number,
    private readonly arrived: () => void,
  ) {}

  /** Ask for the values of rows that are not known yet. */
  async want(rows: readonly number[]): Promise<void> {
    const missing = rows.filter((row) => !this.values.has(row) && !this.asked.has(row));
    if (!missing.length) return;
    missing.forEach((row) => this.asked.add(row));
    try {
      const values = await this.ask(missing);
      missing.forEach((row, n) => this.keep(row, values.subarray(n * this.columns, (n + 1) * this.columns)));
    } finally {
      missing.forEach((row) => this.asked.delete(row));
    }
    this.arrived();
  }

  /** Return the line of a row, drawn in a colour, or nothing while its values are not there. */
  line(row: number, width: number, height: number, colour: string): HTMLCanvasElement | null {
    const values = this.values.get(row);
    if (!values) return null;
    const key = `${row} ${width} ${height} ${colour}`;
    let canvas = this.drawn.get(key);
    if (!canvas) {
      canvas = document.createElement("canvas");
      canvas.width = width;
      canvas.height = height;
      draw(canvas, values, colour);
      this.drawn.set(key, canvas);
      if (this.drawn.size > KEPT) this.drawn.delete(this.drawn.keys().next().value!);
    }
    return canvas;
  }

  forgetDrawn(): void {
    this.drawn.clear();
  }

  private keep(row: number, values: Float32Array): void {
    this.values.set(row, values);
    if (this.values.size > KEPT) this.values.delete(this.values.keys().next().value!);
  }
}

/** Draw the lowest and highest value of each pixel's columns. */
function draw(canvas: HTMLCanvasElement, values: Float32Array, colour: string): void {
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
    let [least, most] = [Infinity, -Infinity];
    const end = Math.floor(((x + 1) * values.length) / pixels);
    for (let n = Math.floor((x * values.length) / pixels); n < end; n++) {
      if (values[n] < least) least = values[n];
      if (values[n] > most) most = values[n];
    }
    if (least > most) {
      joined = false;
      continue;
    }
    const at = (x * (width - 1)) / Math.max(1, pixels - 1);
    if (joined) context.lineTo(at, y(most));
    else context.moveTo(at, y(most));
    if (most > least) context.lineTo(at, y(least));
    joined = true;
  }
  context.stroke();
}
