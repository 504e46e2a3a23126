// Heat map canvas: row names and sparklines on the left, times above, cells, and a minimap of all rows on the right.

import type { Sparklines } from "../chart/sparklines";
import type { Catalogue } from "../data/catalogue";
import { truncateMiddle } from "../data/format";
import type { Theme } from "../ui/theme";
import type { LevelMatrix } from "./level-matrix";
import { paintCells, type Viewport } from "./pixels";

/** Height of the time axis, in pixels. */
export const AXIS_HEIGHT = 24;
/** Width of the minimap, in pixels. */
export const MINIMAP_WIDTH = 14;
const SPARKLINE_WIDTH = 90;
/** Smallest width of the names, in pixels, that leaves space for sparklines. */
const MIN_SPARKLINE_GUTTER = 240;
/** Smallest row height, in pixels, at which names are drawn. */
const MIN_NAME_HEIGHT = 8;
/** Height of a row, in pixels, up to which few rows grow to fill the map. */
const FILLING_ROW_HEIGHT = 56;
/** Largest row height of the zoom, in pixels. */
const MAX_ROW_HEIGHT = 36;
const FONT_FAMILY = 'system-ui, -apple-system, "Segoe UI", sans-serif';
const FONT = `12px ${FONT_FAMILY}`;

/** Content to draw: catalogue, levels, row order and marks. */
export interface HeatmapContent {
  catalogue: Catalogue;
  levels: LevelMatrix;
  palette: Uint32Array;
  /** Rows from top to bottom; a negative number `-n - 1` is the n-th heading. */
  order: Int32Array;
  headings: readonly string[];
  /** Rows of folded groups by heading. */
  folded: ReadonlyMap<number, readonly number[]>;
  /** Anomalous columns by row. */
  marks: ReadonlyMap<number, readonly number[]>;
  selected: ReadonlySet<number>;
  sparklines: Sparklines;
  /** Title of a row below its heading. */
  title(row: number): string;
}

/** Canvas of the heat map. */
export class Heatmap {
  readonly canvas: HTMLCanvasElement;
  /** Visible part, in CSS pixels. */
  viewport: Viewport = { top: 0, left: 0, rowHeight: 18, columnWidth: 10 };
  /** Whether small lines are drawn beside the names, where there is space. */
  withSparklines = true;
  private width = 0;
  private height = 0;
  private readonly fittedTexts = new Map<number, string>();
  private minimapCache: { image: ImageData; version: number; palette: Uint32Array } | null = null;

  constructor(canvas: HTMLCanvasElement) {
    this.canvas = canvas;
  }

  get gutter(): number {
    return Math.min(420, Math.max(180, Math.round(0.33 * this.width)));
  }

  get inner(): { width: number; height: number } {
    return { width: Math.max(1, this.width - this.gutter - MINIMAP_WIDTH - 4), height: Math.max(1, this.height - AXIS_HEIGHT) };
  }

  resize(width: number, height: number): void {
    this.width = width;
    this.height = height;
    this.minimapCache = null;
    this.fittedTexts.clear();
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
  }

  clearTextCache(): void {
    this.fittedTexts.clear();
  }

  /** Reset the viewport to the newest columns, with rows of a height. */
  reset(columns: number, newest: number, rowHeight: number): void {
    const visible = Math.max(1, Math.min(columns, newest));
    const columnWidth = Math.min(40, this.inner.width / visible);
    this.viewport = { top: 0, left: columns - visible, rowHeight, columnWidth };
  }

  /** Columns `[first, end)` in the viewport. */
  visibleColumns(columns: number): [number, number] {
    const { left, columnWidth } = this.viewport;
    return [Math.max(0, Math.round(left)), Math.min(columns, Math.round(left + this.inner.width / columnWidth))];
  }

  /** Show the columns `[first, end)` in the full width. */
  showColumns(first: number, end: number): void {
    Object.assign(this.viewport, { left: first, columnWidth: this.inner.width / Math.max(1, end - first) });
  }

  /** Clamp the viewport to the matrix and to sensible cell sizes. */
  clamp(rows: number, columns: number): void {
    const { width, height } = this.inner;
    const viewport = this.viewport;
    const filling = Math.min(FILLING_ROW_HEIGHT, height / Math.max(1, rows));
    viewport.rowHeight = Math.max(filling, Math.min(MAX_ROW_HEIGHT, viewport.rowHeight));
    viewport.columnWidth = Math.min(60, Math.max(Math.min(40, width / Math.max(1, columns)), viewport.columnWidth));
    viewport.top = Math.max(0, Math.min(viewport.top, rows - height / viewport.rowHeight));
    viewport.left = Math.max(0, Math.min(viewport.left, columns - width / viewport.columnWidth));
  }

  /** Hit test: row index and column under a point of the canvas; -1 outside of the cells. */
  cellAt(x: number, y: number): { index: number; column: number } {
    const { top, left, rowHeight, columnWidth } = this.viewport;
    const index = y < AXIS_HEIGHT ? -1 : Math.floor(top + (y - AXIS_HEIGHT) / rowHeight);
    const inCells = x >= this.gutter && x < this.gutter + this.inner.width;
    return { index, column: inCells ? Math.floor(left + (x - this.gutter) / columnWidth) : -1 };
  }

  /** Bounding box of a cell on the canvas. */
  cellBox(index: number, column: number): { x: number; y: number; width: number; height: number } {
    const { top, left, rowHeight, columnWidth } = this.viewport;
    return {
      x: this.gutter + (column - left) * columnWidth,
      y: AXIS_HEIGHT + (index - top) * rowHeight,
      width: columnWidth,
      height: rowHeight,
    };
  }

  /** Rows in the viewport, without headings. */
  visibleRows(order: Int32Array): number[] {
    const { top, rowHeight } = this.viewport;
    const first = Math.max(0, Math.floor(top));
    const last = Math.min(order.length, Math.ceil(top + this.inner.height / rowHeight));
    return Array.from(order.subarray(first, last)).filter((row) => row >= 0);
  }

  get hasNames(): boolean {
    return this.viewport.rowHeight >= MIN_NAME_HEIGHT;
  }

  draw(content: HeatmapContent, theme: Theme): void {
    const context = this.canvas.getContext("2d", { alpha: false })!;
    const ratio = window.devicePixelRatio || 1;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.direction = "ltr";
    context.textAlign = "left";
    context.fillStyle = theme.background;
    context.fillRect(0, 0, this.width, this.height);
    this.drawCells(context, content, ratio);
    this.drawAxis(context, content, theme);
    this.drawLabels(context, content, theme, ratio);
    this.drawMarks(context, content, theme);
    this.drawMinimap(context, content, theme, ratio);
  }

  private drawCells(context: CanvasRenderingContext2D, content: HeatmapContent, ratio: number): void {
    const { width, height } = this.inner;
    const image = context.createImageData(Math.round(width * ratio), Math.round(height * ratio));
    const { top, left, rowHeight, columnWidth } = this.viewport;
    paintCells(
      new Uint32Array(image.data.buffer),
      image.width,
      image.height,
      content.levels,
      content.order.length,
      { top, left, rowHeight: rowHeight * ratio, columnWidth: columnWidth * ratio },
      content.palette,
    );
    context.putImageData(image, Math.round(this.gutter * ratio), Math.round(AXIS_HEIGHT * ratio));
  }

  private drawAxis(context: CanvasRenderingContext2D, { catalogue, levels }: HeatmapContent, theme: Theme): void {
    const { left, columnWidth } = this.viewport;
    context.font = FONT;
    context.textBaseline = "middle";
    context.textAlign = "left";
    const end = this.gutter + this.inner.width;
    const first = Math.max(0, Math.ceil(left - 0.01));
    let nextFree = this.gutter;
    for (let column = first; column < catalogue.columns; column++) {
      const x = this.gutter + (column - left) * columnWidth;
      const text = truncateMiddle(catalogue.labels[column], 24);
      const width = context.measureText(text).width;
      if (x + width > end) break;
      if (x < nextFree) continue;
      context.fillStyle = theme.muted;
      context.fillText(text, x, AXIS_HEIGHT / 2);
      context.fillRect(x, AXIS_HEIGHT - 5, 1, 5);
      nextFree = x + width + 26;
    }
    // Columns that are not loaded yet are hatched.
    const loaded = Math.min(end, this.gutter + (levels.loadedFrom - left) * columnWidth);
    context.fillStyle = theme.faint;
    for (let x = this.gutter; x < loaded; x += 8) context.fillRect(x, AXIS_HEIGHT, 1, this.inner.height);
  }

  private drawLabels(context: CanvasRenderingContext2D, content: HeatmapContent, theme: Theme, ratio: number): void {
    const { top, rowHeight } = this.viewport;
    const font = `${Math.max(9, Math.min(12, Math.floor(rowHeight)))}px ${FONT_FAMILY}`;
    context.font = font;
    context.textBaseline = "middle";
    if (!this.hasNames) {
      this.drawHeadings(context, content, theme);
      return;
    }
    const lineHeight = Math.max(5, Math.min(rowHeight - 4, 32));
    const last = Math.min(content.order.length, Math.ceil(top + this.inner.height / rowHeight));
    context.save();
    context.beginPath();
    context.rect(0, AXIS_HEIGHT, this.width, this.inner.height);
    context.clip();
    for (let index = Math.max(0, Math.floor(top)); index < last; index++) {
      const row = content.order[index];
      const y = AXIS_HEIGHT + (index - top + 0.5) * rowHeight;
      if (row < 0) {
        context.font = `600 ${font}`;
        context.fillStyle = theme.text;
        const members = content.folded.get(row);
        const mark = members ? `▸ ${content.headings[-row - 1]} (${members.length})` : `▾ ${content.headings[-row - 1]}`;
        context.fillText(this.fitText(context, mark, this.gutter - 12, row), 4, y);
        context.font = font;
        continue;
      }
      if (content.selected.has(row)) {
        context.fillStyle = theme.accent;
        context.fillRect(0, y - rowHeight / 2 + 1, 3, rowHeight - 2);
      }
      context.fillStyle = theme.muted;
      const hasSparkline = this.withSparklines && this.gutter >= MIN_SPARKLINE_GUTTER;
      const width = this.gutter - (hasSparkline ? SPARKLINE_WIDTH + 24 : 18);
      context.fillText(this.fitText(context, content.title(row), width, row), 12, y);
      if (!hasSparkline) continue;
      const line = content.sparklines.canvas(row, SPARKLINE_WIDTH * ratio, Math.round(lineHeight * ratio), theme.accent);
      if (line) context.drawImage(line, this.gutter - SPARKLINE_WIDTH - 6, y - lineHeight / 2, SPARKLINE_WIDTH, lineHeight);
    }
    context.restore();
  }

  /** Draw only headings, because the rows are too thin for names. */
  private drawHeadings(context: CanvasRenderingContext2D, content: HeatmapContent, theme: Theme): void {
    const { top, rowHeight } = this.viewport;
    let nextFree = AXIS_HEIGHT - 7;
    context.font = FONT;
    const last = Math.min(content.order.length, Math.ceil(top + this.inner.height / rowHeight));
    for (let index = Math.max(0, Math.floor(top)); index < last; index++) {
      const row = content.order[index];
      const y = AXIS_HEIGHT + (index - top + 0.5) * rowHeight;
      if (row >= 0 || y < nextFree + 7) continue;
      context.fillStyle = theme.muted;
      context.fillText(this.fitText(context, content.headings[-row - 1], this.gutter - 16, row), 4, y);
      context.fillRect(this.gutter - 8, y, 6, 1);
      nextFree = y + 7;
    }
  }

  private drawMarks(context: CanvasRenderingContext2D, content: HeatmapContent, theme: Theme): void {
    const { top, left, rowHeight, columnWidth } = this.viewport;
    if (rowHeight < 7 || columnWidth < 4) return;
    const last = Math.min(content.order.length, Math.ceil(top + this.inner.height / rowHeight));
    const size = Math.min(4, rowHeight / 4, columnWidth / 2);
    for (let index = Math.max(0, Math.floor(top)); index < last; index++) {
      for (const column of content.marks.get(content.order[index]) ?? []) {
        const x = this.gutter + (column - left + 0.5) * columnWidth;
        const y = AXIS_HEIGHT + (index - top + 0.5) * rowHeight;
        if (x < this.gutter || x > this.gutter + this.inner.width || y < AXIS_HEIGHT) continue;
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

  /** Minimap of all rows: each line of pixels shows the strongest level of its rows; a frame marks the viewport. */
  private drawMinimap(context: CanvasRenderingContext2D, content: HeatmapContent, theme: Theme, ratio: number): void {
    const { height } = this.inner;
    const rows = content.order.length;
    if (rows * this.viewport.rowHeight <= height + 0.5) return;
    const { levels, palette } = content;
    let image = this.minimapCache?.image;
    if (!image || this.minimapCache?.version !== levels.version || this.minimapCache?.palette !== palette) {
      image = context.createImageData(Math.round(MINIMAP_WIDTH * ratio), Math.round(height * ratio));
      const fullView = { rowHeight: image.height / rows, columnWidth: image.width / levels.columns };
      const pixels = new Uint32Array(image.data.buffer);
      paintCells(pixels, image.width, image.height, levels, rows, { top: 0, left: 0, ...fullView }, palette);
      this.minimapCache = { image, version: levels.version, palette };
    }
    const x = this.width - MINIMAP_WIDTH;
    context.putImageData(image, Math.round(x * ratio), Math.round(AXIS_HEIGHT * ratio));
    const start = AXIS_HEIGHT + (this.viewport.top / rows) * height;
    const length = Math.max(6, (height * height) / (rows * this.viewport.rowHeight));
    context.strokeStyle = theme.text;
    context.lineWidth = 1.5;
    context.strokeRect(x + 0.75, start + 0.75, MINIMAP_WIDTH - 1.5, length - 1.5);
  }

  /** Truncate a string to a width. Results are cached, because measuring text is slow. */
  private fitText(context: CanvasRenderingContext2D, text: string, width: number, key: number): string {
    let fitted = this.fittedTexts.get(key);
    if (fitted === undefined) {
      // Bidirectional control characters would reorder the text around a name.
      const safe = text.replace(/[\u202a-\u202e\u2066-\u2069]/g, "\u{fffd}");
      fitted = truncateMiddle(safe, 120);
      for (let length = fitted.length; length > 4 && context.measureText(fitted).width > width; ) {
        length = Math.floor(Math.min(length - 1, (length * width) / context.measureText(fitted).width));
        fitted = truncateMiddle(safe, Math.max(4, length));
      }
      if (this.fittedTexts.size > 5000) this.fittedTexts.clear();
      this.fittedTexts.set(key, fitted);
    }
    return fitted;
  }
}
