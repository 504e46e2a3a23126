// The heat map on its canvas: names and small lines at the left, moments above, all rows at once at the right.

import type { Catalogue } from "./catalogue";
import { shortened } from "./dom";
import type { Levels } from "./levels";
import { paint, type Sight } from "./paint";
import type { Sparklines } from "./sparklines";
import type { Theme } from "./theme";

export const AXIS = 24;
export const STRIP = 14;
const SPARK = 90;
/** From this height on, rows have names. */
const NAMED = 8;
const FAMILY = 'system-ui, -apple-system, "Segoe UI", sans-serif';
const FONT = `12px ${FAMILY}`;

export interface Shown {
  catalogue: Catalogue;
  levels: Levels;
  palette: Uint32Array;
  /** Rows from top to bottom; a negative number is the heading `-n - 1`. */
  order: Int32Array;
  headings: readonly string[];
  /** Columns with anomalies by row. */
  marks: ReadonlyMap<number, readonly number[]>;
  picked: ReadonlySet<number>;
  sparklines: Sparklines;
  /** What a row is called under its heading. */
  title(row: number): string;
}

export class Heat {
  readonly canvas: HTMLCanvasElement;
  /** In CSS pixels. */
  sight: Sight = { top: 0, left: 0, rowHeight: 18, columnWidth: 10 };
  private width = 0;
  private height = 0;
  private readonly names = new Map<number, string>();
  private stripMade: { image: ImageData; version: number; palette: Uint32Array } | null = null;

  constructor(canvas: HTMLCanvasElement) {
    this.canvas = canvas;
  }

  get gutter(): number {
    return Math.min(400, Math.max(180, Math.round(0.3 * this.width)));
  }

  get inner(): { width: number; height: number } {
    return { width: Math.max(1, this.width - this.gutter - STRIP - 4), height: Math.max(1, this.height - AXIS) };
  }

  resize(width: number, height: number): void {
    this.width = width;
    this.height = height;
    this.stripMade = null;
    this.names.clear();
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
  }

  forgetNames(): void {
    this.names.clear();
  }

  /** Look at all of some columns, the newest, in rows of a height. */
  start(columns: number, newest: number, rowHeight: number): void {
    const shown = Math.max(1, Math.min(columns, newest));
    const columnWidth = Math.min(40, this.inner.width / shown);
    this.sight = { top: 0, left: columns - shown, rowHeight, columnWidth };
  }

  /** Keep what is in view within what there is; return whether it was. */
  clamp(rows: number, columns: number): void {
    const { width, height } = this.inner;
    const sight = this.sight;
    sight.rowHeight = Math.min(36, Math.max(Math.min(18, height / Math.max(1, rows)), sight.rowHeight));
    sight.columnWidth = Math.min(60, Math.max(Math.min(40, width / Math.max(1, columns)), sight.columnWidth));
    sight.top = Math.max(0, Math.min(sight.top, rows - height / sight.rowHeight));
    sight.left = Math.max(0, Math.min(sight.left, columns - width / sight.columnWidth));
  }

  /** The place and column under a point of the canvas; outside of cells either is -1. */
  at(x: number, y: number): { place: number; column: number } {
    const { top, left, rowHeight, columnWidth } = this.sight;
    const place = y < AXIS ? -1 : Math.floor(top + (y - AXIS) / rowHeight);
    const within = x >= this.gutter && x < this.gutter + this.inner.width;
    return { place, column: within ? Math.floor(left + (x - this.gutter) / columnWidth) : -1 };
  }

  /** Where a cell is drawn. */
  box(place: number, column: number): { x: number; y: number; width: number; height: number } {
    const { top, left, rowHeight, columnWidth } = this.sight;
    return {
      x: this.gutter + (column - left) * columnWidth,
      y: AXIS + (place - top) * rowHeight,
      width: columnWidth,
      height: rowHeight,
    };
  }

  /** The rows in view. */
  visible(order: Int32Array): number[] {
    const { top, rowHeight } = this.sight;
    const first = Math.max(0, Math.floor(top));
    const last = Math.min(order.length, Math.ceil(top + this.inner.height / rowHeight));
    return Array.from(order.subarray(first, last)).filter((row) => row >= 0);
  }

  get hasNames(): boolean {
    return this.sight.rowHeight >= NAMED;
  }

  draw(shown: Shown, theme: Theme): void {
    const context = this.canvas.getContext("2d", { alpha: false })!;
    const ratio = window.devicePixelRatio || 1;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.direction = "ltr";
    context.textAlign = "left";
    context.fillStyle = theme.background;
    context.fillRect(0, 0, this.width, this.height);
    this.cells(context, shown, ratio);
    this.axis(context, shown, theme);
    this.labels(context, shown, theme, ratio);
    this.flags(context, shown, theme);
    this.strip(context, shown, theme, ratio);
  }

  private cells(context: CanvasRenderingContext2D, shown: Shown, ratio: number): void {
    const { width, height } = this.inner;
    const image = context.createImageData(Math.round(width * ratio), Math.round(height * ratio));
    const { top, left, rowHeight, columnWidth } = this.sight;
    paint(
      new Uint32Array(image.data.buffer),
      image.width,
      image.height,
      shown.levels,
      shown.order.length,
      { top, left, rowHeight: rowHeight * ratio, columnWidth: columnWidth * ratio },
      shown.palette,
    );
    context.putImageData(image, Math.round(this.gutter * ratio), Math.round(AXIS * ratio));
  }

  private axis(context: CanvasRenderingContext2D, { catalogue, levels }: Shown, theme: Theme): void {
    const { left, columnWidth } = this.sight;
    context.font = FONT;
    context.textBaseline = "middle";
    context.textAlign = "left";
    const end = this.gutter + this.inner.width;
    const first = Math.max(0, Math.ceil(left - 0.01));
    let free = this.gutter;
    for (let column = first; column < catalogue.columns; column++) {
      const x = this.gutter + (column - left) * columnWidth;
      const text = shortened(catalogue.labels[column], 24);
      const width = context.measureText(text).width;
      if (x + width > end) break;
      if (x < free) continue;
      context.fillStyle = theme.muted;
      context.fillText(text, x, AXIS / 2);
      context.fillRect(x, AXIS - 5, 1, 5);
      free = x + width + 26;
    }
    // What is not known yet is hatched.
    const loaded = Math.min(end, this.gutter + (levels.known - left) * columnWidth);
    context.fillStyle = theme.faint;
    for (let x = this.gutter; x < loaded; x += 8) context.fillRect(x, AXIS, 1, this.inner.height);
  }

  private labels(context: CanvasRenderingContext2D, shown: Shown, theme: Theme, ratio: number): void {
    const { top, rowHeight } = this.sight;
    const font = `${Math.max(9, Math.min(12, Math.floor(rowHeight)))}px ${FAMILY}`;
    context.font = font;
    context.textBaseline = "middle";
    if (!this.hasNames) {
      this.brackets(context, shown, theme);
      return;
    }
    const lineHeight = Math.max(5, Math.min(rowHeight - 3, 22));
    const last = Math.min(shown.order.length, Math.ceil(top + this.inner.height / rowHeight));
    context.save();
    context.beginPath();
    context.rect(0, AXIS, this.width, this.inner.height);
    context.clip();
    for (let place = Math.max(0, Math.floor(top)); place < last; place++) {
      const row = shown.order[place];
      const y = AXIS + (place - top + 0.5) * rowHeight;
      if (row < 0) {
        context.font = `600 ${font}`;
        context.fillStyle = theme.text;
        context.fillText(this.fitting(context, shown.headings[-row - 1], this.gutter - 12, row), 4, y);
        context.font = font;
        continue;
      }
      if (shown.picked.has(row)) {
        context.fillStyle = theme.accent;
        context.fillRect(0, y - rowHeight / 2 + 1, 3, rowHeight - 2);
      }
      context.fillStyle = theme.muted;
      const room = this.gutter - SPARK - 24;
      context.fillText(this.fitting(context, shown.title(row), room, row), 12, y);
      const line = shown.sparklines.line(row, SPARK * ratio, Math.round(lineHeight * ratio), theme.accent);
      if (line) context.drawImage(line, this.gutter - SPARK - 6, y - lineHeight / 2, SPARK, lineHeight);
    }
    context.restore();
  }

  /** Rows too thin for names: their headings, where there is room. */
  private brackets(context: CanvasRenderingContext2D, shown: Shown, theme: Theme): void {
    const { top, rowHeight } = this.sight;
    let free = AXIS - 7;
    context.font = FONT;
    const last = Math.min(shown.order.length, Math.ceil(top + this.inner.height / rowHeight));
    for (let place = Math.max(0, Math.floor(top)); place < last; place++) {
      const row = shown.order[place];
      const y = AXIS + (place - top + 0.5) * rowHeight;
      if (row >= 0 || y < free + 7) continue;
      context.fillStyle = theme.muted;
      context.fillText(this.fitting(context, shown.headings[-row - 1], this.gutter - 16, row), 4, y);
      context.fillRect(this.gutter - 8, y, 6, 1);
      free = y + 7;
    }
  }

  private flags(context: CanvasRenderingContext2D, shown: Shown, theme: Theme): void {
    const { top, left, rowHeight, columnWidth } = this.sight;
    if (rowHeight < 7 || columnWidth < 4) return;
    const last = Math.min(shown.order.length, Math.ceil(top + this.inner.height / rowHeight));
    const size = Math.min(4, rowHeight / 4, columnWidth / 2);
    for (let place = Math.max(0, Math.floor(top)); place < last; place++) {
      for (const column of shown.marks.get(shown.order[place]) ?? []) {
        const x = this.gutter + (column - left + 0.5) * columnWidth;
        const y = AXIS + (place - top + 0.5) * rowHeight;
        if (x < this.gutter || x > this.gutter + this.inner.width || y < AXIS) continue;
        context.beginPath();
        context.arc(x, y, size, 0, 2 * Math.PI);
        context.fillStyle = theme.background;
        context.fill();
        context.beginPath();
        context.arc(x, y, size * 0.55, 0, 2 * Math.PI);
        context.fillStyle = theme.text;
        context.fill();
      }
    }
  }

  /** All rows at the right, each line of pixels the strongest of what it stands for, and what is in view. */
  private strip(context: CanvasRenderingContext2D, shown: Shown, theme: Theme, ratio: number): void {
    const { height } = this.inner;
    const rows = shown.order.length;
    if (rows * this.sight.rowHeight <= height + 0.5) return;
    const { levels, palette } = shown;
    let image = this.stripMade?.image;
    if (!image || this.stripMade?.version !== levels.version || this.stripMade?.palette !== palette) {
      image = context.createImageData(Math.round(STRIP * ratio), Math.round(height * ratio));
      const whole = { rowHeight: image.height / rows, columnWidth: image.width / levels.columns };
      const pixels = new Uint32Array(image.data.buffer);
      paint(pixels, image.width, image.height, levels, rows, { top: 0, left: 0, ...whole }, palette);
      this.stripMade = { image, version: levels.version, palette };
    }
    const x = this.width - STRIP;
    context.putImageData(image, Math.round(x * ratio), Math.round(AXIS * ratio));
    const start = AXIS + (this.sight.top / rows) * height;
    const length = Math.max(6, (height * height) / (rows * this.sight.rowHeight));
    context.strokeStyle = theme.text;
    context.lineWidth = 1.5;
    context.strokeRect(x + 0.75, start + 0.75, STRIP - 1.5, length - 1.5);
  }

  /** Cut a text to a width; measuring is dear, so what fits is remembered. */
  private fitting(context: CanvasRenderingContext2D, text: string, width: number, key: number): string {
    let found = this.names.get(key);
    if (found === undefined) {
      // Direction marks would turn what stands around the name.
      const safe = text.replace(/[\u202a-\u202e\u2066-\u2069]/g, "\u{fffd}");
      found = shortened(safe, 120);
      for (let most = found.length; most > 4 && context.measureText(found).width > width; ) {
        most = Math.floor(Math.min(most - 1, (most * width) / context.measureText(found).width));
        found = shortened(safe, Math.max(4, most));
      }
      if (this.names.size > 5000) this.names.clear();
      this.names.set(key, found);
    }
    return found;
  }
}
