// Charts of one feature over time: lines of rates and numbers, and distributions as bands around their medians.

import uPlot from "uplot";
import { utc, xAxis, yAxis } from "./axes";
import { h } from "./dom";
import { type Figure, QUANTILES, rangeOf } from "./features";
import { number, rate } from "./format";
import type { Axis } from "./points";
import type { Theme } from "./theme";

const DAY = 86400;
const DASHES = [[], [7, 3], [2, 3], [10, 3, 2, 3], [4, 2]];
/** How full the bands are, from the outer one to the inner one. */
const FILLS = ["1c", "38", "60"];
/** Colours of lines among the theme's: blue, orange, green, pink, so what means the same looks the same. */
const COLOURS: Record<string, number> = { mismatch: 1, missing: 0, extra: 2, both_null: 6, row_missing: 0, row_extra: 2 };

export interface Moments {
  axis: Axis;
  labels: readonly string[];
  /** What a place of the axis is called. */
  name(place: number): string;
}

export interface Hand {
  /** The cursor is at a place of the axis; null if it left. */
  pointed(place: number | null): void;
  /** A window was drawn. */
  brushed(since: number, until: number): void;
  reset(): void;
}

type Numbers = (number | null)[];

export class FanChart {
  readonly element: HTMLElement;
  private readonly u: uPlot;
  private readonly told = h("span", { class: "tg-fan-told" });
  private readonly lines: Numbers[];
  private silent = false;

  constructor(
    private readonly theme: Theme,
    private readonly figure: Figure,
    lines: readonly Numbers[],
    private readonly moments: Moments,
    width: number,
    height: number,
    private readonly hand: Hand,
  ) {
    this.lines = [...lines];
    const holder = h("div", { class: "tg-fan-chart", role: "img", "aria-label": `Chart: ${this.spoken()}` });
    this.element = h("figure", { class: "tg-fan" }, h("figcaption", {}, h("b", {}, figure.title), " ", this.told), holder);
    this.element.style.width = `${width}px`;
    this.u = new uPlot(this.options(width, height), [moments.axis.x, ...this.drawn()] as uPlot.AlignedData, holder);
    this.tell(null);
  }

  /** Put the cursor on a place, as another chart or a key says; null takes it away. */
  point(place: number | null): void {
    this.silent = true;
    const left = place === null ? -10 : this.u.valToPos(this.moments.axis.x[place], "x");
    this.u.setCursor({ left, top: place === null ? -10 : 1 });
    this.silent = false;
    this.tell(place);
  }

  /** What is known of a place, in words; without one, what the lines are. */
  spoken(place: number | null = null): string {
    const { figure } = this;
    if (place === null) return `${figure.title}; ${figure.kind === "bands" ? "bands of min, p5, p25, p50, p75, p95, max" : figure.metrics.join(", ")}`;
    return this.lines.map((line, n) => `${this.name(n)} ${this.text(line[place])}`).join(", ");
  }

  /** What is known of a distribution at a place, in as few words as go above a chart. */
  private brief(place: number): string {
    const [min, p5, , p50, , p95, max] = this.lines.map((line) => number(line[place]));
    return p50 === "–" ? "–" : `p50 ${p50}, p5 to p95 ${p5} to ${p95}, all ${min} to ${max}`;
  }

  close(): void {
    this.u.destroy();
  }

  private name(n: number): string {
    return this.figure.kind === "bands" ? QUANTILES[n] : this.figure.metrics[n];
  }

  private text(value: number | null): string {
    return this.figure.kind === "rates" ? rate(value) : number(value);
  }

  private colour(n: number): string {
    const { lines } = this.theme;
    return lines[COLOURS[this.figure.metrics[n]] ?? n % lines.length];
  }

  private dash(n: number): number[] {
    return DASHES[n % DASHES.length];
  }

  /** Bands are drawn from the outer ones to the median, which lies above all. */
  private drawn(): Numbers[] {
    if (this.figure.kind !== "bands") return this.lines;
    const [min, p5, p25, p50, p75, p95, max] = this.lines;
    return [max, min, p95, p5, p75, p25, p50];
  }

  private series(): Pick<uPlot.Options, "series" | "bands"> {
    const points = { size: 4, show: this.moments.axis.x.length < 3 };
    if (this.figure.kind !== "bands") {
      const lines = this.lines.map((_, n) => ({ stroke: this.colour(n), width: 1.4, dash: this.dash(n), points: { ...points, fill: this.colour(n) } }));
      return { series: [{}, ...lines] };
    }
    const colour = this.theme.lines[0];
    const edge = { stroke: `${colour}70`, width: 0.6, points: { show: false } };
    const series = [{}, ...Array.from({ length: 6 }, () => edge), { stroke: colour, width: 1.6, points: { ...points, fill: colour } }];
    return { series, bands: FILLS.map((fill, n) => ({ series: [1 + 2 * n, 2 + 2 * n] as [number, number], fill: colour + fill })) };
  }

  private options(width: number, height: number): uPlot.Options {
    const { theme, moments } = this;
    const { axis } = moments;
    const inner = this.figure.kind === "bands" ? this.lines.slice(1, -1) : this.lines;
    const y = rangeOf(inner, this.lines);
    // Rates and counts begin at zero.
    if (this.figure.kind !== "bands" && y[0] < 0 && this.lines.every((line) => line.every((value) => value === null || value >= 0))) y[0] = 0;
    const [first, last] = [axis.x[0] ?? 0, axis.x[axis.x.length - 1] ?? 1];
    const room = first === last ? (axis.timed ? DAY : 1) : (last - first) * 0.01;
    const vertical = yAxis(theme, true);
    if (this.figure.kind === "rates") vertical.values = (_, splits) => splits.map((at) => (at === null ? null : rate(at)));
    return {
      width,
      height,
      ...this.series(),
      padding: [6, 24, 0, 0],
      legend: { show: false },
      tzDate: utc,
      scales: { x: { time: axis.timed, range: () => [first - room, last + room] }, y: { range: () => y } },
      axes: [xAxis(theme, true, axis, moments.labels), vertical],
      cursor: { y: false, points: { show: this.figure.kind !== "bands" }, drag: { x: true, y: false, setScale: false, dist: 4 }, bind: { dblclick: () => () => (this.hand.reset(), null) } },
      hooks: {
        setCursor: [(u) => this.silent || this.hand.pointed(u.cursor.left !== undefined && u.cursor.left >= 0 ? (u.cursor.idx ?? null) : null)],
        setSelect: [(u) => this.selected(u)],
      },
    };
  }

  private selected(u: uPlot): void {
    const { left, width } = u.select;
    if (width < 3) return;
    const [since, until] = [u.posToVal(left, "x"), u.posToVal(left + width, "x")];
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.hand.brushed(since, until);
  }

  private tell(place: number | null): void {
    const { kind, metrics } = this.figure;
    if (kind === "bands") {
      this.told.replaceChildren(h("span", { class: "tg-muted" }, place === null ? "p50 in bands of p25 to p75, p5 to p95, min to max" : this.brief(place)));
      return;
    }
    this.told.replaceChildren(
      ...metrics.map((name, n) => {
        const text = place === null ? name : `${name} ${this.text(this.lines[n][place])}`;
        const key = h("span", { class: "tg-fan-key", "aria-hidden": "true" });
        key.style.borderTopColor = this.colour(n);
        key.style.borderTopStyle = this.dash(n).length ? "dashed" : "solid";
        return h("span", { class: "tg-fan-line" }, key, text);
      }),
    );
  }
}
