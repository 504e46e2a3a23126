// Two distributions beside each other: curves of numbers, bars of categories; and how drift went on.

import uPlot from "uplot";
import { utc, xAxis, yAxis } from "./axes";
import { styleOf } from "./chart";
import { h, named } from "./dom";
import { number, percent } from "./format";
import { drawFocus } from "./marks";
import type { Axis } from "./points";
import type { Theme } from "./theme";

export const CURVES = ["quantiles", "cumulative"] as const;
export type Curve = (typeof CURVES)[number];

export interface Pair {
  ranks: ArrayLike<number>;
  baseline: ArrayLike<number>;
  current: ArrayLike<number>;
}

const DASHED = [6, 4];
export const SIDES = ["baseline", "current"] as const;

/** The look of both sides: the baseline is dashed. */
export function looks(theme: Theme): { colour: string; dash: number[] }[] {
  return [{ colour: styleOf(theme, 1).colour, dash: DASHED }, { colour: styleOf(theme, 0).colour, dash: [] }];
}

/** Quantiles as points of the cumulative curve, rising in both; a jump is two points that all but share their place. */
export function cumulative(values: ArrayLike<number>, ranks: ArrayLike<number>): [number[], number[]] {
  const x: number[] = [];
  const y: number[] = [];
  const near = 1e-9 * (values[values.length - 1] - values[0]);
  for (let n = 0; n < values.length; ) {
    let last = n;
    while (last + 1 < values.length && values[last + 1] === values[n]) last++;
    if (last > n && x.length) {
      x.push(values[n] - near);
      y.push(ranks[n]);
    }
    x.push(values[n]);
    y.push(ranks[last]);
    n = last + 1;
  }
  return [x, y];
}

/** Draw both sides as curves. Without tails, the outermost hundredths are left out. */
export function drawCurves(theme: Theme, pair: Pair, curve: Curve, tails: boolean, width: number, height: number): uPlot {
  const cut = tails ? 0 : 1;
  const trimmed = (of: ArrayLike<number>) => Array.from(of).slice(cut, of.length - cut);
  const ranks = trimmed(pair.ranks);
  const sides = [trimmed(pair.baseline), trimmed(pair.current)];
  const drawn = looks(theme).map(({ colour, dash }) => ({ stroke: colour, dash, width: 2, spanGaps: true, points: { show: false } }));
  const share = (_: uPlot, splits: number[]) => splits.map((at) => `${Math.round(100 * at)} %`);
  const numbers = yAxis(theme, false);
  const shares = { ...yAxis(theme, false), values: share };
  const across = { size: 30, space: 70 };
  const data = curve === "quantiles"
    ? ([ranks, ...sides] as uPlot.AlignedData)
    : uPlot.join(sides.map((side) => cumulative(side, ranks)) as uPlot.AlignedData[]);
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
      series: [{}, ...drawn],
    },
    data,
  );
}

/** The value of a line at a place, or between its neighbours. */
export function valueAt(x: ArrayLike<number>, y: ArrayLike<number | null | undefined>, at: number): number | null {
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

/** Bars of both shares of each category, those that differ most first. */
export function bars(theme: Theme, categories: readonly string[], baseline: ArrayLike<number>, current: ArrayLike<number>): HTMLElement {
  const order = categories.map((_, n) => n).sort((a, b) => Math.abs(current[b] - baseline[b]) - Math.abs(current[a] - baseline[a]));
  const most = Math.max(...Array.from(baseline), ...Array.from(current), 1e-12);
  const [before, after] = looks(theme);
  const bar = (share: number, colour: string, dashed: boolean) => {
    const element = h("div", { class: dashed ? "tg-share tg-before" : "tg-share" });
    element.style.width = `${(100 * share) / most}%`;
    element.style.setProperty("--tg-line", colour);
    return element;
  };
  const share = (value: number) => `${(100 * value).toFixed(value < 0.1 ? 2 : 1)} %`;
  const rows = order.map((n) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, named(categories[n], 40)),
      h("td", { class: "tg-shares" }, bar(baseline[n], before.colour, true), bar(current[n], after.colour, false)),
      h("td", { class: "tg-figure" }, share(baseline[n])),
      h("td", { class: "tg-figure" }, share(current[n])),
      h("td", { class: "tg-figure" }, `${percent(current[n] - baseline[n]).replace(" %", "")}`),
    ),
  );
  const heads = ["Category", "", "Baseline", "Current", "Difference, points"].map((text) => h("th", { scope: "col" }, text));
  return h("table", { class: "tg-bars" }, h("thead", {}, h("tr", {}, ...heads)), h("tbody", {}, ...rows));
}

export interface Drifting {
  axis: Axis;
  values: (number | null)[];
  labels: readonly string[];
  /** Which partition is looked at, as a place. */
  at: number;
}

/** Draw a distance over time; `pointed` and `chosen` are told places. */
export function drawDrift(
  theme: Theme,
  { axis, values, labels, at }: Drifting,
  width: number,
  height: number,
  pointed: (place: number | null, left: number) => void,
  chosen: (place: number) => void,
): uPlot {
  const { colour } = styleOf(theme, 0);
  return new uPlot(
    {
      width,
      height,
      padding: [10, 32, 0, 0],
      legend: { show: false },
      tzDate: utc,
      cursor: { y: false, drag: { x: false, y: false } },
      scales: { x: { time: axis.timed }, y: { range: (_, __, most) => [0, 1.08 * (most || 1)] } },
      axes: [xAxis(theme, false, axis, labels), yAxis(theme, false)],
      series: [{}, { stroke: colour, width: 1.5, points: { size: 4, fill: colour } }],
      hooks: {
        draw: [(u) => at >= 0 && drawFocus(u, axis.x[at], labels[at], theme)],
        setCursor: [(u) => pointed((u.cursor.left ?? -1) < 0 ? null : (u.cursor.idx ?? null), u.cursor.left ?? 0)],
        ready: [(u) => u.over.addEventListener("click", () => typeof u.cursor.idx === "number" && chosen(u.cursor.idx))],
      },
    },
    [axis.x, values],
  );
}

export interface Distances {
  psi: number | null;
  /** The share of rows in categories that PSI takes together. */
  psi_rest: number | null;
  js: number | null;
  ks: number | null;
  ks_significant: boolean;
  wasserstein: number | null;
  wasserstein_iqr: number | null;
  unseen: number | null;
  lost: number | null;
}

/** Sizes from which a distance is called moderate and large: PSI's usual ones, and what they mean for the others. */
const SIZES: Record<string, [number, number]> = {
  psi: [0.1, 0.25],
  js: [0.018, 0.045],
  ks: [0.1, 0.2],
  wasserstein: [0.1, 0.25],
  unseen: [0.01, 0.05],
  lost: [0.01, 0.05],
};

const HALF = 0.5;

export const DISTANCES: [name: keyof Distances, title: string, what: string][] = [
  ["psi", "PSI", "population stability index, in nats"],
  ["js", "Jensen-Shannon", "divergence in bits, 0 to 1"],
  ["ks", "Kolmogorov-Smirnov", "greatest difference of cumulative shares"],
  ["wasserstein", "Wasserstein", "how far values moved on average, in the column's unit"],
  ["unseen", "Unseen", "share of current rows of categories that the baseline lacks"],
  ["lost", "Lost", "share of baseline rows of categories that are gone"],
];

/** How great a distance is, in a word. */
export function sizeOf(name: string, distances: Distances): string {
  if (name === "psi" && (distances.psi_rest ?? 0) > HALF) return "not meaningful: rare categories count as one";
  if (name === "ks" && !distances.ks_significant) return "no more than chance";
  const value = name === "wasserstein" ? distances.wasserstein_iqr : (distances[name as keyof Distances] as number | null);
  if (value === null) return name === "wasserstein" ? "–" : "";
  const [moderate, large] = SIZES[name];
  const word = value === 0 ? "none" : value < moderate ? "small" : value < large ? "moderate" : "large";
  return name === "wasserstein" ? `${word}: ${number(value)} of the middle half's width` : word;
}
