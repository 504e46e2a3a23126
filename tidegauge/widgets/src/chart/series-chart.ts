// Time series charts (uPlot): interactive charts, and static charts for small multiples and incident evidence.

import uPlot from "uplot";
import { pluralize } from "../data/format";
import { type Axis, findGaps, lineValues, type LineValues, parseWindowEnd, restatements, type SeriesAnswer, sharedAxis, shiftedValues, userLabels, valueTitle } from "../data/timeseries";
import { h } from "../ui/dom";
import { type Theme, withOpacity } from "../ui/theme";
import { drawAnnotations, drawEndLabels, drawFocus, drawLabelRanges, type EndLabel, type LineAnnotations } from "./annotations";
import { axisTitle, utc, xAxis, yAxis } from "./axes";
import { type LineStyle, lineStyle } from "./line-style";

export type { SeriesAnswer } from "../data/timeseries";

const SECONDS_PER_DAY = 86400;
const BAND_OPACITY = 0.18;
/** Share of the height of the values by which a band extends the y axis, on each side. */
const MAX_BAND_SHARE = 0.25;
/** Smallest and largest width of the labels at line ends, in pixels; and width of a character. */
const END_LABELS = { min: 60, max: 240, character: 6.2, margin: 20 };

/** Line of a chart. */
export interface ChartLine {
  row: number;
  /** Number at line ends and on chips; `text` is the title. */
  number: number;
  style: LineStyle;
  text: string;
  /** Divisor of the values; 1 unless lines are indexed. */
  unit: number;
  band: boolean;
  /** Shift of past values for comparison: each value is drawn this many seconds after its time. */
  shift?: number;
}

/** Specification of a chart: axis, lines, scale and view. */
export interface ChartSpec {
  axis: Axis;
  lines: ChartLine[];
  log: boolean;
  small: boolean;
  /** Label of the highlighted column. */
  focus: string | null;
  /** Visible window, as x values; null for all. */
  window: [number, number] | null;
  /** Title of the y axis; null if a caption names the only line. */
  title: string | null;
}

/** Event handlers of a chart. */
export interface ChartListener {
  /** Pointer moved to an index of the axis, nearest to a line; null when it left. */
  onHover(point: { index: number; line: number; left: number; top: number } | null): void;
  /** Window was brushed, as indexes of the axis. */
  onBrush(first: number, last: number): void;
  onReset(): void;
}

interface PreparedLine {
  line: LineValues;
  gaps: [number, number][];
  isolated: number[];
  annotations: LineAnnotations;
  bounds: LineValues[];
}

/** Chart of time series. */
export class SeriesChart {
  readonly element = h("div", { class: "tg-chart" });
  readonly u: uPlot;
  private readonly prepared: PreparedLine[];
  /** Index of each line among uPlot's series. Bounds come before all lines. */
  private readonly seriesIndexes: number[] = [];

  constructor(
    private readonly theme: Theme,
    private readonly answer: SeriesAnswer,
    private readonly spec: ChartSpec,
    width: number,
    height: number,
    private readonly listener?: ChartListener,
  ) {
    this.prepared = spec.lines.map((line) => this.prepare(line));
    const data: (LineValues | number[])[] = [spec.axis.x];
    const series: uPlot.Series[] = [{}];
    const bands: uPlot.Band[] = [];
    // Bands are drawn below all lines.
    spec.lines.forEach((line, n) => {
      const { bounds } = this.prepared[n];
      if (!bounds.length) return;
      const first = series.length;
      const { colour } = line.style;
      const bound = { auto: false, points: { show: false }, gaps: this.gaps(n) };
      series.push({ ...bound, width: 0 }, { ...bound, width: 0 }, { ...bound, stroke: withOpacity(colour, 0.67), width: 1, dash: [3, 3] });
      data.push(...bounds);
      bands.push({ series: [first, first + 1], fill: withOpacity(colour, BAND_OPACITY) });
    });
    spec.lines.forEach(({ style }, n) => {
      this.seriesIndexes.push(series.length);
      const filter = (_: uPlot, __: number, show: boolean) => (show ? null : this.prepared[n].isolated);
      series.push({
        stroke: style.colour,
        width: spec.small ? 1.2 : 1.5,
        dash: style.dash,
        gaps: this.gaps(n),
        points: { size: 4, fill: style.colour, filter, ...(spec.small && { show: false }) },
      });
      data.push(this.prepared[n].line);
    });
    this.u = new uPlot(this.options(width, height, series, bands), data as uPlot.AlignedData, this.element);
    if (listener) this.bindEvents();
  }

  resize(width: number, height: number): void {
    this.u.setSize({ width, height });
  }

  /** Zoom to a window of x values; null shows all. */
  setWindow(window: [number, number] | null): void {
    this.spec.window = window;
    const [min, max] = this.visibleRange();
    this.u.setScale("x", { min, max });
  }

  /** Highlight a line; null clears the highlight. */
  highlight(line: number | null): void {
    const { length } = this.spec.lines;
    if (length > 1 && (line ?? 0) < length) this.u.setSeries(line === null ? null : this.seriesIndexes[line], { focus: line !== null }, false);
  }

  /** Move the cursor to a point, for keyboard navigation. */
  moveCursor(index: number, line: number): void {
    const value = this.prepared[line].line[index];
    const left = this.u.valToPos(this.spec.axis.x[index], "x");
    const top = typeof value === "number" ? this.u.valToPos(value, "y") : this.u.over.clientHeight - 4;
    this.u.setCursor({ left, top });
  }

  close(): void {
    this.u.destroy();
  }

  private prepare({ row, style, unit, band, shift }: ChartLine): PreparedLine {
    const { spec, answer } = this;
    const { axis } = spec;
    const { data, arrays } = answer;
    const width = data.labels.length;
    const positive = (line: LineValues) => (spec.log ? line.map((value) => (typeof value === "number" && value <= 0 ? null : value)) : line);
    if (shift) {
      const line = positive(shiftedValues(answer, row, axis, shift, unit));
      return { line, ...findGaps(axis.x, line), annotations: { colour: style.colour, anomalies: [], restated: [], missing: [], ranges: [] }, bounds: [] };
    }
    const line = positive(lineValues(answer, row, axis, "value", unit));
    const indexByColumn = new Map(axis.columns.map((column, n) => [column, n]));
    const valueAt = (n: number) => (typeof line[n] === "number" ? (line[n] as number) : null);
    const labels = userLabels(answer, row);
    const annotations: LineAnnotations = { colour: style.colour, anomalies: [], restated: [], missing: [], ranges: [] };
    for (const anomaly of data.anomalies) {
      const n = anomaly.row === row ? indexByColumn.get(anomaly.column) : undefined;
      if (n !== undefined) annotations.anomalies.push({ x: axis.x[n], y: valueAt(n), anomaly, labelled: labels.points.has(anomaly.column) });
    }
    for (const [column, , value] of restatements(answer, row)) {
      const n = indexByColumn.get(column);
      if (n !== undefined) annotations.restated.push({ x: axis.x[n], oldValue: value / unit, currentValue: valueAt(n) });
    }
    axis.columns.forEach((column, n) => {
      const status = arrays.status[row * width + column];
      if (status > 1) annotations.missing.push({ x: axis.x[n], status: data.statuses[status] });
    });
    if (axis.timed) {
      for (const label of labels.ranges) {
        const since = parseWindowEnd(axis, data.labels, label.since) ?? -Infinity;
        const until = parseWindowEnd(axis, data.labels, label.until) ?? Infinity;
        annotations.ranges.push({ since: Math.max(since, axis.x[0]), until: Math.min(until, axis.x[axis.x.length - 1]), label });
      }
    }
    const bounds = band ? (["upper", "lower", "expected"] as const).map((array) => positive(lineValues(answer, row, axis, array, unit))) : [];
    return { line, ...findGaps(axis.x, line), annotations, bounds };
  }

  /** Gaps refiner of uPlot: break lines at missing partitions, which have no column. */
  private gaps(n: number): uPlot.Series.GapsRefiner {
    return (u, _, first, last, gaps) => {
      const { x } = this.spec.axis;
      for (const [from, to] of this.prepared[n].gaps) {
        if (to < first || from > last) continue;
        gaps.push([Math.round(u.valToPos(x[from], "x", true)), Math.round(u.valToPos(x[to], "x", true))]);
      }
      return gaps.sort((a, b) => a[0] - b[0]);
    };
  }

  /** Width of the labels at line ends: that of the longest, but at most a quarter of the chart. */
  private endLabelsWidth(width: number): number {
    const longest = Math.max(...this.spec.lines.map(({ number, text }) => `${number} ${text}`.length));
    return Math.min(Math.max(END_LABELS.min, longest * END_LABELS.character + END_LABELS.margin), END_LABELS.max, width / 4);
  }

  private visibleRange(): [number, number] {
    const { axis, window } = this.spec;
    const [first, last] = window ?? [axis.x[0] ?? 0, axis.x[axis.x.length - 1] ?? 1];
    // A single point is centered.
    const margin = first === last ? (axis.timed ? SECONDS_PER_DAY : 1) : (last - first) * 0.01;
    return [first - margin, last + margin];
  }

  private options(width: number, height: number, series: uPlot.Series[], bands: uPlot.Band[]): uPlot.Options {
    const { theme, spec } = this;
    const { small, log, axis, title } = spec;
    const endLabels = !small && spec.lines.length > 1;
    return {
      width,
      height,
      series,
      bands,
      // The right padding holds half of the last tick label.
      padding: [small ? 6 : 10, endLabels ? this.endLabelsWidth(width) : small ? 30 : 32, 0, 0],
      legend: { show: false },
      tzDate: utc,
      scales: { x: { time: axis.timed, range: () => this.visibleRange() }, y: { distr: log ? 3 : 1, range: (u, low, high) => this.yRange(u, low, high) } },
      axes: [
        { ...xAxis(theme, small, axis, this.answer.data.labels), ...(!small && axisTitle(axis.timed ? "time (UTC)" : "partition", width)) },
        { ...yAxis(theme, small, log, this.percent), ...(title !== null && axisTitle(title, height - 40, small)) },
      ],
      cursor: {
        show: this.listener !== undefined,
        y: false,
        points: { show: spec.lines.length < 9 },
        drag: { x: true, y: false, setScale: false, dist: 4 },
        focus: { prox: -1 },
        bind: { dblclick: () => () => (this.listener?.onReset(), null) },
      },
      focus: { alpha: 0.25 },
      hooks: {
        drawAxes: [(u) => drawLabelRanges(u, this.prepared.map(({ annotations }) => annotations), theme, small)],
        draw: [(u) => this.drawOver(u, endLabels)],
      },
    };
  }

  /** Whether all lines are shares, which are shown in per cent. */
  private get percent(): boolean {
    const { series } = this.answer.data;
    return this.spec.lines.every(({ row, unit }) => unit === 1 && series[row].scale === "ratio");
  }

  private drawOver(u: uPlot, endLabels: boolean): void {
    const { theme, spec } = this;
    const { labels } = this.answer.data;
    const focus = spec.focus === null ? -1 : spec.axis.columns.indexOf(labels.indexOf(spec.focus));
    if (focus >= 0) drawFocus(u, spec.axis.x[focus], spec.focus!, theme);
    drawAnnotations(u, this.prepared.map(({ annotations }) => annotations), theme, spec.small);
    if (!endLabels) return;
    const [first, last] = u.series[0].idxs ?? [0, spec.axis.x.length - 1];
    const ends: EndLabel[] = [];
    spec.lines.forEach(({ style, text, number }, n) => {
      const { line } = this.prepared[n];
      for (let index = Math.min(last, line.length - 1); index >= first; index--) {
        const y = line[index];
        if (typeof y !== "number") continue;
        ends.push({ colour: style.colour, text: `${number} ${text}`, x: spec.axis.x[index], y });
        break;
      }
    });
    drawEndLabels(u, ends, this.endLabelsWidth(u.width));
  }

  /**
   * Y range of the values. Bands extend it by at most a quarter of its height on each side, so that lines use two thirds of the chart;
   * restated values by at most its height.
   */
  private yRange(u: uPlot, low: number | null, high: number | null): uPlot.Range.MinMax {
    if (low === null || high === null) return this.spec.log ? [1, 10] : [0, 1];
    const span = high - low || 0.1 * Math.abs(high) || 1;
    const [first, last] = u.series[0].idxs ?? [0, this.spec.axis.x.length - 1];
    let [lowest, highest] = [low, high];
    const widen = (value: number | null | undefined, most = span) => {
      if (typeof value !== "number" || !Number.isFinite(value)) return;
      lowest = Math.min(lowest, Math.max(value, low - most));
      highest = Math.max(highest, Math.min(value, high + most));
    };
    for (const { bounds, annotations } of this.prepared) {
      for (const bound of bounds) for (let n = first; n <= last; n++) widen(bound[n], MAX_BAND_SHARE * span);
      for (const { x, oldValue: old } of annotations.restated) if (x >= u.scales.x.min! && x <= u.scales.x.max!) widen(old);
    }
    if (this.spec.log) return [(lowest > 0 ? lowest : low) / 1.15, highest * 1.15];
    const margin = 0.06 * (highest - lowest) || 0.5 * span;
    return [lowest - margin, highest + margin];
  }

  private bindEvents(): void {
    const { u } = this;
    const listener = this.listener!;
    u.hooks.setCursor = [() => this.handleCursor()];
    u.hooks.setSelect = [
      () => {
        const { left, width } = u.select;
        if (width < 3) return;
        const [first, last] = [u.posToVal(left, "x"), u.posToVal(left + width, "x")];
        u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        const { x } = this.spec.axis;
        const from = x.findIndex((position) => position >= first);
        const to = x.findLastIndex((position) => position <= last);
        if (from >= 0 && to > from) listener.onBrush(from, to);
      },
    ];
  }

  private handleCursor(): void {
    const { idx, left, top } = this.u.cursor;
    if (idx === null || idx === undefined || left === undefined || top === undefined || left < 0) {
      this.listener!.onHover(null);
      return;
    }
    let [nearest, distance] = [0, Infinity];
    this.prepared.forEach(({ line }, n) => {
      const value = line[idx];
      const offset = typeof value === "number" ? Math.abs(this.u.valToPos(value, "y") - top) : Infinity;
      if (offset < distance) [nearest, distance] = [n, offset];
    });
    this.listener!.onHover({ index: idx, line: nearest, left, top });
  }
}

/** Static chart of one series with its expected band and anomalies, as evidence of an incident. */
export function renderEvidenceChart(theme: Theme, answer: SeriesAnswer, row: number, width: number, height: number): HTMLElement {
  const axis = sharedAxis(answer, [row]);
  const line = { row, number: 1, style: lineStyle(theme, 0), text: "", unit: 1, band: true };
  return renderStaticChart(theme, answer, { axis, lines: [line], log: false, small: true, focus: null, window: null, title: valueTitle(answer, [line]) }, width, height);
}

/** Render a chart of one line and keep only its canvas, so that many charts need few resources. */
export function renderStaticChart(theme: Theme, answer: SeriesAnswer, spec: ChartSpec, width: number, height: number): HTMLElement {
  const chart = new SeriesChart(theme, answer, spec, width, height);
  const { row } = spec.lines[0];
  const anomalies = answer.data.anomalies.filter((anomaly) => anomaly.row === row).length;
  const points = lineValues(answer, row, spec.axis, "value").filter((value) => typeof value === "number").length;
  const description = `Chart of ${pluralize(points, "value")}, ${pluralize(anomalies, "anomaly", "anomalies")}`;
  const holder = h("div", { class: "tg-picture", role: "img", "aria-label": description });
  holder.style.width = `${width}px`;
  holder.style.height = `${height}px`;
  // uPlot draws in a microtask after its construction, before the page is painted.
  queueMicrotask(() => {
    holder.append(chart.u.ctx.canvas);
    chart.close();
  });
  return holder;
}
