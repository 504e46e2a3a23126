// Distribution charts: quantile or cumulative curves, category bars, and distances over time (drift).

import uPlot from "uplot";
import { formatPercent } from "../data/format";
import type { Axis } from "../data/timeseries";
import { h, renderName } from "../ui/dom";
import type { Theme } from "../ui/theme";
import { drawFocus } from "./annotations";
import { utc, xAxis, yAxis } from "./axes";
import { lineStyle } from "./line-style";

export const CURVE_KINDS = ["quantiles", "cumulative"] as const;
export type CurveKind = (typeof CURVE_KINDS)[number];

export interface QuantilePair {
  ranks: ArrayLike<number>;
  baseline: ArrayLike<number>;
  current: ArrayLike<number>;
}

const DASHED = [6, 4];
export const SIDES = ["baseline", "current"] as const;

/** Line styles of baseline (dashed) and current. */
export function sideStyles(theme: Theme): { colour: string; dash: number[] }[] {
  return [{ colour: lineStyle(theme, 1).colour, dash: DASHED }, { colour: lineStyle(theme, 0).colour, dash: [] }];
}

/** Cumulative curve through quantiles; a jump becomes two points at almost the same x. */
export function cumulativeCurve(values: ArrayLike<number>, ranks: ArrayLike<number>): [number[], number[]] {
  const x: number[] = [];
  const y: number[] = [];
  const epsilon = 1e-9 * (values[values.length - 1] - values[0]);
  for (let n = 0; n < values.length; ) {
    let last = n;
    while (last + 1 < values.length && values[last + 1] === values[n]) last++;
    if (last > n && x.length) {
      x.push(values[n] - epsilon);
      y.push(ranks[n]);
    }
    x.push(values[n]);
    y.push(ranks[last]);
    n = last + 1;
  }
  return [x, y];
}

/** Draw both sides as curves; without tails, the lowest and highest 1 % are left out. */
export function drawCurves(theme: Theme, pair: QuantilePair, curve: CurveKind, tails: boolean, width: number, height: number): uPlot {
  const cut = tails ? 0 : 1;
  const trimmed = (values: ArrayLike<number>) => Array.from(values).slice(cut, values.length - cut);
  const ranks = trimmed(pair.ranks);
  const sides = [trimmed(pair.baseline), trimmed(pair.current)];
  const styles = sideStyles(theme).map(({ colour, dash }) => ({ stroke: colour, dash, width: 2, spanGaps: true, points: { show: false } }));
  const share = (_: uPlot, splits: number[]) => splits.map((at) => `${Math.round(100 * at)} %`);
  const numbers = yAxis(theme, false);
  const shares = { ...yAxis(theme, false), values: share };
  const across = { size: 30, space: 70 };
  const data = curve === "quantiles"
    ? ([ranks, ...sides] as uPlot.AlignedData)
    : uPlot.join(sides.map((side) => cumulativeCurve(side, ranks)) as uPlot.AlignedData[]);
  const axes = curve === "quantiles" ? [{ ...shares, ...across }, numbers] : [{ ...numbers, ...across }, shares];
  return new uPlot(
    {
      width,
      height,
      padding: [10, 32, 0, 0],
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false } },
      scales: { x: { time: false }, ...(curve === "cumulative" && { y: { range: [0, 1] } }) },
      axes,
      series: [{}, ...styles],
    },
    data,
  );
}

/** Interpolate a line linearly at x; null outside of it. */
export function interpolate(x: ArrayLike<number>, y: ArrayLike<number | null | undefined>, at: number): number | null {
  let before = -1;
  for (let n = 0; n < x.length; n++) {
    const value = y[n];
    if (typeof value !== "number") continue;
    if (x[n] === at) return value;
    if (x[n] > at) {
      if (before < 0) return null;
      const low = y[before] as number;
      return low + ((at - x[before]) / (x[n] - x[before])) * (value - low);
    }
    before = n;
  }
  return null;
}

/** Table of category shares on both sides with bars, largest difference first. */
export function renderCategoryTable(theme: Theme, categories: readonly string[], baseline: ArrayLike<number>, current: ArrayLike<number>): HTMLElement {
  const order = categories.map((_, n) => n).sort((a, b) => Math.abs(current[b] - baseline[b]) - Math.abs(current[a] - baseline[a]));
  const highest = Math.max(...Array.from(baseline), ...Array.from(current), 1e-12);
  const [before, after] = sideStyles(theme);
  const bar = (share: number, colour: string, dashed: boolean) => {
    const element = h("div", { class: dashed ? "tg-share tg-before" : "tg-share" });
    element.style.width = `${(100 * share) / highest}%`;
    element.style.setProperty("--tg-line", colour);
    return element;
  };
  const share = (value: number) => `${(100 * value).toFixed(value < 0.1 ? 2 : 1)} %`;
  const rows = order.map((n) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, renderName(categories[n], 40)),
      h("td", { class: "tg-shares" }, bar(baseline[n], before.colour, true), bar(current[n], after.colour, false)),
      h("td", { class: "tg-figure" }, share(baseline[n])),
      h("td", { class: "tg-figure" }, share(current[n])),
      h("td", { class: "tg-figure" }, `${formatPercent(current[n] - baseline[n]).replace(" %", "")}`),
    ),
  );
  const headers = ["Category", "", "Baseline", "Current", "Difference, points"].map((text) => h("th", { scope: "col" }, text));
  return h("table", { class: "tg-bars" }, h("thead", {}, h("tr", {}, ...headers)), h("tbody", {}, ...rows));
}

export interface DriftSeries {
  axis: Axis;
  values: (number | null)[];
  labels: readonly string[];
  /** Index of the current partition; -1 if it is not on the axis. */
  at: number;
}

/** Draw a distance over time; `onHover` and `onSelect` receive an index of the axis. */
export function drawDrift(
  theme: Theme,
  { axis, values, labels, at }: DriftSeries,
  width: number,
  height: number,
  onHover: (place: number | null, left: number) => void,
  onSelect: (place: number) => void,
): uPlot {
  const { colour } = lineStyle(theme, 0);
  return new uPlot(
    {
      width,
      height,
      padding: [10, 32, 0, 0],
      legend: { show: false },
      tzDate: utc,
      cursor: { y: false, drag: { x: false, y: false } },
      scales: { x: { time: axis.timed }, y: { range: (_, __, high) => [0, 1.08 * (high || 1)] } },
      axes: [xAxis(theme, false, axis, labels), yAxis(theme, false)],
      series: [{}, { stroke: colour, width: 1.5, points: { size: 4, fill: colour } }],
      hooks: {
        draw: [(u) => at >= 0 && drawFocus(u, axis.x[at], labels[at], theme)],
        setCursor: [(u) => onHover((u.cursor.left ?? -1) < 0 ? null : (u.cursor.idx ?? null), u.cursor.left ?? 0)],
        ready: [(u) => u.over.addEventListener("click", () => typeof u.cursor.idx === "number" && onSelect(u.cursor.idx))],
      },
    },
    [axis.x, values],
  );
}
