// Fan chart of one feature over time: lines of rates and numbers, or quantile bands around the median.

import uPlot from "uplot";
import { axisRange, type MetricChart, QUANTILES } from "../data/features";
import { formatNumber, formatValue } from "../data/format";
import type { Axis } from "../data/timeseries";
import { h } from "../ui/dom";
import { type Theme, withOpacity } from "../ui/theme";
import { utc, xAxis, yAxis } from "./axes";

const SECONDS_PER_DAY = 86400;
/** Space between the border of a card and its chart, in pixels. */
const CARD_PADDING = 6;
const LINE_DASHES = [[], [7, 3], [2, 3], [10, 3, 2, 3], [4, 2]];
/** Opacity of the bands, from the outermost to the innermost. */
const BAND_OPACITIES = [0.11, 0.22, 0.38];
/** Number of the theme colour of each metric, so that a metric has the same colour in all charts. */
const COLOUR_BY_METRIC: Record<string, number> = { mismatch: 1, missing: 0, extra: 2, both_null: 6, row_missing: 0, row_extra: 2 };

/** X axis of all charts, and the names of its points. */
export interface Timeline {
  axis: Axis;
  labels: readonly string[];
  /** Name of an index of the axis. */
  name(index: number): string;
}

/** Event handlers of a chart. */
export interface FanChartListener {
  /** Pointer moved to an index of the axis; null when it left. */
  onHover(index: number | null): void;
  /** Window was brushed, as x values. */
  onBrush(since: number, until: number): void;
  onReset(): void;
}

type LineValues = (number | null)[];

/** Chart of a group of metrics of one feature. */
export class FanChart {
  readonly element: HTMLElement;
  private readonly u: uPlot;
  private readonly readout = h("span", { class: "tg-fan-readout" });
  private readonly lines: LineValues[];
  private silent = false;

  constructor(
    private readonly theme: Theme,
    private readonly chart: MetricChart,
    lines: readonly LineValues[],
    private readonly timeline: Timeline,
    width: number,
    height: number,
    private readonly listener: FanChartListener,
  ) {
    this.lines = [...lines];
    const holder = h("div", { class: "tg-fan-chart", role: "img", "aria-label": `Chart: ${this.description()}` });
    this.element = h("figure", { class: "tg-fan tg-card" }, h("figcaption", {}, h("b", {}, chart.title), " ", this.readout), holder);
    this.element.style.width = `${width}px`;
    this.u = new uPlot(this.options(width - 2 * CARD_PADDING, height), [timeline.axis.x, ...this.drawOrder()] as uPlot.AlignedData, holder);
    this.updateReadout(null);
  }

  /** Move the cursor to an index of the axis, in step with other charts; null hides it. */
  moveCursor(index: number | null): void {
    this.silent = true;
    const left = index === null ? -10 : this.u.valToPos(this.timeline.axis.x[index], "x");
    this.u.setCursor({ left, top: index === null ? -10 : 1 });
    this.silent = false;
    this.updateReadout(index);
  }

  /** Description for screen readers: the values at an index, or the lines if it is null. */
  description(index: number | null = null): string {
    const { chart } = this;
    if (index === null) return `${chart.title}; ${chart.kind === "bands" ? "bands of min, p5, p25, p50, p75, p95, max" : chart.metrics.join(", ")}`;
    return this.lines.map((line, n) => `${this.name(n)} ${this.text(line[index])}`).join(", ");
  }

  /** Summary of a distribution at an index, for the caption. */
  private summary(index: number): string {
    const [min, p5, , p50, , p95, max] = this.lines.map((line) => formatNumber(line[index]));
    return p50 === "–" ? "–" : `p50 ${p50}, p5 to p95 ${p5} to ${p95}, min to max ${min} to ${max}`;
  }

  close(): void {
    this.u.destroy();
  }

  private name(n: number): string {
    return this.chart.kind === "bands" ? QUANTILES[n] : this.chart.metrics[n];
  }

  private text(value: number | null): string {
    return formatValue(value, this.chart.kind === "rates");
  }

  private colour(n: number): string {
    const { lines } = this.theme;
    return lines[COLOUR_BY_METRIC[this.chart.metrics[n]] ?? n % lines.length];
  }

  private dash(n: number): number[] {
    return LINE_DASHES[n % LINE_DASHES.length];
  }

  /** Lines in drawing order: bands from the outermost in, the median on top. */
  private drawOrder(): LineValues[] {
    if (this.chart.kind !== "bands") return this.lines;
    const [min, p5, p25, p50, p75, p95, max] = this.lines;
    return [max, min, p95, p5, p75, p25, p50];
  }

  private series(): Pick<uPlot.Options, "series" | "bands"> {
    const points = { size: 4, show: this.timeline.axis.x.length < 3 };
    if (this.chart.kind !== "bands") {
      const lines = this.lines.map((_, n) => ({ stroke: this.colour(n), width: 1.4, dash: this.dash(n), points: { ...points, fill: this.colour(n) } }));
      return { series: [{}, ...lines] };
    }
    const colour = this.theme.lines[0];
    const edge = { stroke: withOpacity(colour, 0.44), width: 0.6, points: { show: false } };
    const series = [{}, ...Array.from({ length: 6 }, () => edge), { stroke: colour, width: 1.6, points: { ...points, fill: colour } }];
    return { series, bands: BAND_OPACITIES.map((opacity, n) => ({ series: [1 + 2 * n, 2 + 2 * n] as [number, number], fill: withOpacity(colour, opacity) })) };
  }

  private options(width: number, height: number): uPlot.Options {
    const { theme } = this;
    const { axis, labels } = this.timeline;
    const inner = this.chart.kind === "bands" ? this.lines.slice(1, -1) : this.lines;
    const y = axisRange(inner, this.lines);
    // The axis of rates and counts starts at zero.
    if (this.chart.kind !== "bands" && y[0] < 0 && this.lines.every((line) => line.every((value) => value === null || value >= 0))) y[0] = 0;
    const [first, last] = [axis.x[0] ?? 0, axis.x[axis.x.length - 1] ?? 1];
    const margin = first === last ? (axis.timed ? SECONDS_PER_DAY : 1) : (last - first) * 0.01;
    const vertical = yAxis(theme, true, false, this.chart.kind === "rates");
    return {
      width,
      height,
      ...this.series(),
      padding: [6, 24, 0, 0],
      legend: { show: false },
      tzDate: utc,
      scales: { x: { time: axis.timed, range: () => [first - margin, last + margin] }, y: { range: () => y } },
      axes: [xAxis(theme, true, axis, labels), vertical],
      cursor: { y: false, points: { show: this.chart.kind !== "bands" }, drag: { x: true, y: false, setScale: false, dist: 4 }, bind: { dblclick: () => () => (this.listener.onReset(), null) } },
      hooks: {
        setCursor: [(u) => this.silent || this.listener.onHover(u.cursor.left !== undefined && u.cursor.left >= 0 ? (u.cursor.idx ?? null) : null)],
        setSelect: [(u) => this.handleSelect(u)],
      },
    };
  }

  private handleSelect(u: uPlot): void {
    const { left, width } = u.select;
    if (width < 3) return;
    const [since, until] = [u.posToVal(left, "x"), u.posToVal(left + width, "x")];
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.listener.onBrush(since, until);
  }

  private updateReadout(index: number | null): void {
    const { kind, metrics } = this.chart;
    if (kind === "bands") {
      this.readout.replaceChildren(h("span", { class: "tg-muted" }, index === null ? "p50 in bands of p25 to p75, p5 to p95, min to max" : this.summary(index)));
      return;
    }
    this.readout.replaceChildren(
      ...metrics.map((name, n) => {
        const text = index === null ? name : `${name} ${this.text(this.lines[n][index])}`;
        const key = h("span", { class: "tg-fan-key", "aria-hidden": "true" });
        key.style.borderTopColor = this.colour(n);
        key.style.borderTopStyle = this.dash(n).length ? "dashed" : "solid";
        return h("span", { class: "tg-fan-line" }, key, text);
      }),
    );
  }
}
