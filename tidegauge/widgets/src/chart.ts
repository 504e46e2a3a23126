// Charts of series over time, large ones to work with and small ones as evidence.

import uPlot from "uplot";
import { utc, xAxis, yAxis } from "./axes";
import { h } from "./dom";
import { many } from "./format";
import type { Answer } from "./link";
import { drawEnds, drawFocus, drawMarks, drawRanges, type Ended, type Marked } from "./marks";
import { type Axis, axisOf, gapsOf, type Line, lineOf, olderOf, placeOf, saidOf, type SeriesTold } from "./points";
import type { Theme } from "./theme";

export type { SeriesTold } from "./points";

const DASHES = [[], [8, 4], [2, 3], [12, 3, 2, 3], [5, 2], [14, 5], [3, 3, 9, 3]];
const DAY = 86400;
const BAND = "2e";
/** Room for names at the ends of lines. */
const NAMES = 150;

export interface Style {
  colour: string;
  dash: number[];
}

/** How the n-th line looks: 56 ways, by colour and dashes. */
export function styleOf(theme: Theme, n: number): Style {
  return { colour: theme.lines[n % theme.lines.length], dash: DASHES[n % DASHES.length] };
}

/** One line of a chart. */
export interface Drawn {
  row: number;
  /** What it is called for short; `text` says it in full. */
  number: number;
  style: Style;
  text: string;
  /** What values are divided by. */
  unit: number;
  band: boolean;
}

export interface Plan {
  axis: Axis;
  lines: Drawn[];
  log: boolean;
  small: boolean;
  /** The label of a column that is pointed out. */
  focus: string | null;
  /** What is in view, as places on the axis. */
  window: [number, number] | null;
}

export interface Listener {
  /** The cursor is at a place of the axis and nearest to a line; null if it left. */
  pointed(at: { place: number; line: number; left: number; top: number } | null): void;
  /** A window was drawn, as places in the axis. */
  brushed(first: number, last: number): void;
  reset(): void;
}

interface Prepared {
  line: Line;
  gaps: [number, number][];
  alone: number[];
  marked: Marked;
  bounds: Line[];
}

export class Chart {
  readonly element = h("div", { class: "tg-chart" });
  readonly u: uPlot;
  private readonly prepared: Prepared[];
  /** Where lines begin among uPlot's series. */
  private readonly starts: number[] = [];

  constructor(
    private readonly theme: Theme,
    private readonly answer: Answer<SeriesTold>,
    private readonly plan: Plan,
    width: number,
    height: number,
    private readonly listener?: Listener,
  ) {
    this.prepared = plan.lines.map((line) => this.prepare(line));
    const data: (Line | number[])[] = [plan.axis.x];
    const series: uPlot.Series[] = [{}];
    const bands: uPlot.Band[] = [];
    // Bands lie under all lines.
    plan.lines.forEach((drawn, n) => {
      const { bounds } = this.prepared[n];
      if (!bounds.length) return;
      const first = series.length;
      const { colour } = drawn.style;
      const bound = { auto: false, points: { show: false }, gaps: this.gaps(n) };
      series.push({ ...bound, width: 0 }, { ...bound, width: 0 }, { ...bound, stroke: colour + "aa", width: 1, dash: [3, 3] });
      data.push(...bounds);
      bands.push({ series: [first, first + 1], fill: colour + BAND });
    });
    plan.lines.forEach(({ style }, n) => {
      this.starts.push(series.length);
      const filter = (_: uPlot, __: number, show: boolean) => (show ? null : this.prepared[n].alone);
      series.push({
        stroke: style.colour,
        width: plan.small ? 1.2 : 1.5,
        dash: style.dash,
        gaps: this.gaps(n),
        points: { size: 4, fill: style.colour, filter, ...(plan.small && { show: false }) },
      });
      data.push(this.prepared[n].line);
    });
    this.u = new uPlot(this.options(width, height, series, bands), data as uPlot.AlignedData, this.element);
    if (listener) this.listen();
  }

  resize(width: number, height: number): void {
    this.u.setSize({ width, height });
  }

  look(window: [number, number] | null): void {
    this.plan.window = window;
    const [min, max] = this.seen();
    this.u.setScale("x", { min, max });
  }

  /** Let one line stand out; all do if null. */
  highlight(line: number | null): void {
    const { length } = this.plan.lines;
    if (length > 1 && (line ?? 0) < length) this.u.setSeries(line === null ? null : this.starts[line], { focus: line !== null }, false);
  }

  /** Put the cursor on a place of the axis, for those who use keys. */
  point(place: number, line: number): void {
    const value = this.prepared[line].line[place];
    const left = this.u.valToPos(this.plan.axis.x[place], "x");
    const top = typeof value === "number" ? this.u.valToPos(value, "y") : this.u.over.clientHeight - 4;
    this.u.setCursor({ left, top });
  }

  close(): void {
    this.u.destroy();
  }

  private prepare({ row, style, unit, band }: Drawn): Prepared {
    const { plan, answer } = this;
    const { axis } = plan;
    const { told, arrays } = answer;
    const width = told.labels.length;
    const positive = (line: Line) => (plan.log ? line.map((value) => (typeof value === "number" && value <= 0 ? null : value)) : line);
    const line = positive(lineOf(answer, row, axis, "value", unit));
    const place = new Map(axis.columns.map((column, n) => [column, n]));
    const at = (n: number) => (typeof line[n] === "number" ? (line[n] as number) : null);
    const said = saidOf(answer, row);
    const marked: Marked = { colour: style.colour, anomalies: [], older: [], without: [], ranges: [] };
    for (const found of told.anomalies) {
      const n = found.row === row ? place.get(found.column) : undefined;
      if (n !== undefined) marked.anomalies.push({ x: axis.x[n], y: at(n), found, flagged: said.points.has(found.column) });
    }
    for (const [column, , value] of olderOf(answer, row)) {
      const n = place.get(column);
      if (n !== undefined) marked.older.push({ x: axis.x[n], old: value / unit, now: at(n) });
    }
    axis.columns.forEach((column, n) => {
      const status = arrays.status[row * width + column];
      if (status > 1) marked.without.push({ x: axis.x[n], status: told.statuses[status] });
    });
    if (axis.timed) {
      for (const one of said.ranges) {
        const since = placeOf(axis, told.labels, one.since) ?? -Infinity;
        const until = placeOf(axis, told.labels, one.until) ?? Infinity;
        marked.ranges.push({ since: Math.max(since, axis.x[0]), until: Math.min(until, axis.x[axis.x.length - 1]), said: one });
      }
    }
    const bounds = band ? ["upper", "lower", "expected"].map((what) => positive(lineOf(answer, row, axis, what, unit))) : [];
    return { line, ...gapsOf(axis.x, line), marked, bounds };
  }

  /** Lines break where partitions are missing, though there is no column for them. */
  private gaps(n: number): uPlot.Series.GapsRefiner {
    return (u, _, first, last, known) => {
      const { x } = this.plan.axis;
      for (const [from, to] of this.prepared[n].gaps) {
        if (to < first || from > last) continue;
        known.push([Math.round(u.valToPos(x[from], "x", true)), Math.round(u.valToPos(x[to], "x", true))]);
      }
      return known.sort((a, b) => a[0] - b[0]);
    };
  }

  private seen(): [number, number] {
    const { axis, window } = this.plan;
    const [first, last] = window ?? [axis.x[0] ?? 0, axis.x[axis.x.length - 1] ?? 1];
    // One point alone is in the middle.
    const room = first === last ? (axis.timed ? DAY : 1) : (last - first) * 0.01;
    return [first - room, last + room];
  }

  private options(width: number, height: number, series: uPlot.Series[], bands: uPlot.Band[]): uPlot.Options {
    const { theme, plan } = this;
    const { small, log, axis } = plan;
    const named = !small && plan.lines.length > 1;
    return {
      width,
      height,
      series,
      bands,
      // The last tick's text is as wide as this on its right.
      padding: [small ? 6 : 10, named ? NAMES : small ? 24 : 32, 0, 0],
      legend: { show: false },
      tzDate: utc,
      scales: { x: { time: axis.timed, range: () => this.seen() }, y: { distr: log ? 3 : 1, range: (u, low, high) => this.range(u, low, high) } },
      axes: [xAxis(theme, small, axis, this.answer.told.labels), yAxis(theme, small, log)],
      cursor: {
        show: this.listener !== undefined,
        y: false,
        points: { show: plan.lines.length < 9 },
        drag: { x: true, y: false, setScale: false, dist: 4 },
        focus: { prox: -1 },
        bind: { dblclick: () => () => (this.listener?.reset(), null) },
      },
      focus: { alpha: 0.25 },
      hooks: {
        drawAxes: [(u) => drawRanges(u, this.prepared.map(({ marked }) => marked), theme, small)],
        draw: [(u) => this.over(u, named)],
      },
    };
  }

  private over(u: uPlot, named: boolean): void {
    const { theme, plan } = this;
    const { labels } = this.answer.told;
    const focus = plan.focus === null ? -1 : plan.axis.columns.indexOf(labels.indexOf(plan.focus));
    if (focus >= 0) drawFocus(u, plan.axis.x[focus], plan.focus!, theme);
    drawMarks(u, this.prepared.map(({ marked }) => marked), theme, plan.small);
    if (!named) return;
    const [first, last] = u.series[0].idxs ?? [0, plan.axis.x.length - 1];
    const ends: Ended[] = [];
    plan.lines.forEach(({ style, text, number: of }, n) => {
      const { line } = this.prepared[n];
      for (let at = Math.min(last, line.length - 1); at >= first; at--) {
        const y = line[at];
        if (typeof y !== "number") continue;
        ends.push({ colour: style.colour, text: `${of} ${text}`, x: plan.axis.x[at], y });
        break;
      }
    });
    drawEnds(u, ends, NAMES);
  }

  /** From the lowest to the highest value; bands and old values count, but not so far that the line gets flat. */
  private range(u: uPlot, low: number | null, high: number | null): uPlot.Range.MinMax {
    if (low === null || high === null) return this.plan.log ? [1, 10] : [0, 1];
    const span = high - low || 0.1 * Math.abs(high) || 1;
    const [first, last] = u.series[0].idxs ?? [0, this.plan.axis.x.length - 1];
    let [lowest, highest] = [low, high];
    const widen = (value: number | null | undefined) => {
      if (typeof value !== "number" || !Number.isFinite(value)) return;
      lowest = Math.min(lowest, Math.max(value, low - span));
      highest = Math.max(highest, Math.min(value, high + span));
    };
    for (const { bounds, marked } of this.prepared) {
      for (const bound of bounds) for (let n = first; n <= last; n++) widen(bound[n]);
      for (const { x, old } of marked.older) if (x >= u.scales.x.min! && x <= u.scales.x.max!) widen(old);
    }
    if (this.plan.log) return [(lowest > 0 ? lowest : low) / 1.15, highest * 1.15];
    const room = 0.06 * (highest - lowest) || 0.5 * span;
    return [lowest - room, highest + room];
  }

  private listen(): void {
    const { u } = this;
    const listener = this.listener!;
    u.hooks.setCursor = [() => this.pointed()];
    u.hooks.setSelect = [
      () => {
        const { left, width } = u.select;
        if (width < 3) return;
        const [first, last] = [u.posToVal(left, "x"), u.posToVal(left + width, "x")];
        u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        const { x } = this.plan.axis;
        const from = x.findIndex((place) => place >= first);
        const to = x.findLastIndex((place) => place <= last);
        if (from >= 0 && to > from) listener.brushed(from, to);
      },
    ];
  }

  private pointed(): void {
    const { idx, left, top } = this.u.cursor;
    if (idx === null || idx === undefined || left === undefined || top === undefined || left < 0) {
      this.listener!.pointed(null);
      return;
    }
    let [nearest, distance] = [0, Infinity];
    this.prepared.forEach(({ line }, n) => {
      const value = line[idx];
      const far = typeof value === "number" ? Math.abs(this.u.valToPos(value, "y") - top) : Infinity;
      if (far < distance) [nearest, distance] = [n, far];
    });
    this.listener!.pointed({ place: idx, line: nearest, left, top });
  }
}

/** A picture of one series with what was expected and what was found; nothing listens in it. */
export function smallChart(theme: Theme, answer: Answer<SeriesTold>, row: number, width: number, height: number): HTMLElement {
  const axis = axisOf(answer, [row]);
  const line = { row, number: 1, style: styleOf(theme, 0), text: "", unit: 1, band: true };
  return picture(theme, answer, { axis, lines: [line], log: false, small: true, focus: null, window: null }, width, height);
}

/** Draw a chart of one line once, and keep only its canvas: many of them cost little. */
export function picture(theme: Theme, answer: Answer<SeriesTold>, plan: Plan, width: number, height: number): HTMLElement {
  const chart = new Chart(theme, answer, plan, width, height);
  const { row } = plan.lines[0];
  const found = answer.told.anomalies.filter((one) => one.row === row).length;
  const points = lineOf(answer, row, plan.axis, "value").filter((value) => typeof value === "number").length;
  const said = `Chart of ${many(points, "value")}, ${many(found, "anomaly", "anomalies")}`;
  const holder = h("div", { class: "tg-picture", role: "img", "aria-label": said });
  holder.style.width = `${width}px`;
  holder.style.height = `${height}px`;
  // uPlot draws soon after it was made, before the page is shown.
  queueMicrotask(() => {
    holder.append(chart.u.ctx.canvas);
    chart.close();
  });
  return holder;
}
