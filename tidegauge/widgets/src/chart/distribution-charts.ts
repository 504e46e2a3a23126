// Distribution charts: histograms, densities, cumulative and quantile curves, category bars, and distances over time (drift).

import uPlot from "uplot";
import { formatChange, formatValue } from "../data/format";
import { densities } from "../data/density";
import type { Axis } from "../data/timeseries";
import { h, renderName } from "../ui/dom";
import { alignFigures } from "../ui/figures";
import { type Theme, withOpacity } from "../ui/theme";
import { drawFocus } from "./annotations";
import { axisTitle, utc, xAxis, yAxis } from "./axes";
import { lineStyle } from "./line-style";

/** Kinds of curves; the first is the default. */
export const CURVE_KINDS = ["histogram", "density", "cumulative", "quantiles"] as const;
/** Kind of curve. */
export type CurveKind = (typeof CURVE_KINDS)[number];

/** Quantiles of both sides. */
export interface QuantilePair {
  ranks: ArrayLike<number>;
  baseline: ArrayLike<number>;
  current: ArrayLike<number>;
}

const BASELINE_DASH = [6, 4];
/** Number of bins of a histogram. */
const HISTOGRAM_BINS = 40;
/** Names of the sides, in drawing order. */
export const SIDES = ["baseline", "current"] as const;

/** Line styles of baseline (dashed) and current. */
export function sideStyles(theme: Theme): { colour: string; dash: number[] }[] {
  return [{ colour: lineStyle(theme, 1).colour, dash: BASELINE_DASH }, { colour: lineStyle(theme, 0).colour, dash: [] }];
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

/** Histograms of both sides from their quantiles: edges of equal bins over the range of both sides, and the share of rows in each bin. */
export function histograms(sides: readonly ArrayLike<number>[], ranks: ArrayLike<number>, bins = HISTOGRAM_BINS): { edges: number[]; shares: number[][] } {
  const extremes = sides.flatMap((side) => [side[0], side[side.length - 1]]);
  const [low, high] = [Math.min(...extremes), Math.max(...extremes)];
  const width = (high - low || Math.abs(high) || 1) / bins;
  const edges = Array.from({ length: bins + 1 }, (_, n) => low + n * width);
  const shares = sides.map((side) => {
    const [x, y] = cumulativeCurve(side, ranks);
    const shareUpTo = (edge: number) => interpolate(x, y, edge) ?? (edge < x[0] ? 0 : y[y.length - 1]);
    // Bins include their upper edge; the first bin also includes its lower edge.
    return edges.slice(1).map((edge, n) => shareUpTo(edge) - (n ? shareUpTo(edges[n]) : 0));
  });
  return { edges, shares };
}

/** Draw both sides of a column as curves; without `tails`, omit the lowest and highest 1%. */
export function drawCurves(theme: Theme, column: string, pair: QuantilePair, curve: CurveKind, tails: boolean, width: number, height: number): uPlot {
  const tailLength = tails ? 0 : 1;
  const trimmed = (values: ArrayLike<number>) => Array.from(values).slice(tailLength, values.length - tailLength);
  const ranks = trimmed(pair.ranks);
  const sides = [trimmed(pair.baseline), trimmed(pair.current)];
  const stepped = curve === "histogram" ? { paths: uPlot.paths.stepped!({ align: 1 }) } : {};
  const styles = sideStyles(theme).map(({ colour, dash }) => ({ stroke: colour, dash, width: 2, spanGaps: true, points: { show: false }, ...stepped, ...(curve !== "cumulative" && curve !== "quantiles" && { fill: withOpacity(colour, 0.13) }) }));
  const [valueAxisLength, shareAxisLength] = curve === "quantiles" ? [height, width] : [width, height];
  const numbers = { ...yAxis(theme, false), ...axisTitle(column, valueAxisLength) };
  const shares = { ...yAxis(theme, false, false, curve !== "density"), ...axisTitle({ histogram: "share of rows in each bin", density: "density: share of rows per unit", cumulative: "share of rows up to the value", quantiles: "share of rows" }[curve], shareAxisLength) };
  const horizontalAxis = { size: 30, space: 70 };
  const axes = curve === "quantiles" ? [{ ...shares, ...horizontalAxis }, numbers] : [{ ...numbers, ...horizontalAxis }, shares];
  const data = curveData(curve, sides, ranks);
  return new uPlot(
    {
      width,
      height,
      padding: [10, 32, 0, 0],
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false } },
      scales: { x: { time: false }, ...(curve !== "quantiles" && { y: { range: (_: uPlot, __: number, high: number) => [0, curve === "cumulative" ? 1 : 1.08 * (high || 1)] } }) },
      axes,
      series: [{}, ...styles],
    },
    data,
  );
}

function curveData(curve: CurveKind, sides: number[][], ranks: number[]): uPlot.AlignedData {
  if (curve === "quantiles") return [ranks, ...sides];
  if (curve === "density") {
    const { x, lines } = densities(sides, ranks);
    return [x, ...lines];
  }
  if (curve === "cumulative") return uPlot.join(sides.map((side) => cumulativeCurve(side, ranks)) as uPlot.AlignedData[]);
  const { edges, shares } = histograms(sides, ranks);
  return [edges, ...shares.map((line) => [...line, line[line.length - 1]])];
}

/** Interpolate a line linearly at x; null outside of it. */
export function interpolate(x: ArrayLike<number>, y: ArrayLike<number | null | undefined>, position: number): number | null {
  let previous = -1;
  for (let n = 0; n < x.length; n++) {
    const value = y[n];
    if (typeof value !== "number") continue;
    if (x[n] === position) return value;
    if (x[n] > position) {
      if (previous < 0) return null;
      const low = y[previous] as number;
      return low + ((position - x[previous]) / (x[n] - x[previous])) * (value - low);
    }
    previous = n;
  }
  return null;
}

/** Table of category shares on both sides with bars, largest difference first. */
export function renderCategoryTable(theme: Theme, categories: readonly string[], baseline: ArrayLike<number>, current: ArrayLike<number>): HTMLElement {
  const order = categories.map((_, n) => n).sort((a, b) => Math.abs(current[b] - baseline[b]) - Math.abs(current[a] - baseline[a]));
  const highest = Math.max(...Array.from(baseline), ...Array.from(current), 1e-12);
  const [baselineStyle, currentStyle] = sideStyles(theme);
  const bar = (share: number, colour: string, dashed: boolean) => {
    const element = h("div", { class: dashed ? "tg-share tg-baseline" : "tg-share" });
    element.style.width = `${(100 * share) / highest}%`;
    element.style.setProperty("--tg-line", colour);
    return element;
  };
  const share = (value: number) => formatValue(value, true);
  const rows = order.map((n) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, renderName(categories[n], 40)),
      h("td", { class: "tg-shares" }, bar(baseline[n], baselineStyle.colour, true), bar(current[n], currentStyle.colour, false)),
      h("td", { class: "tg-figure" }, share(baseline[n])),
      h("td", { class: "tg-figure" }, share(current[n])),
      h("td", { class: "tg-figure" }, formatChange(current[n] - baseline[n], true)),
    ),
  );
  const headers = ["Category", "", "Baseline", "Current", "Difference"].map((text, n) => h("th", { scope: "col", class: n === 1 ? undefined : "tg-figure" }, text));
  const table = h("table", { class: "tg-bars" }, h("thead", {}, h("tr", {}, ...headers)), h("tbody", {}, ...rows));
  alignFigures(table);
  return table;
}

/** Distance of each partition from its baseline. */
export interface DriftSeries {
  /** Name of the distance. */
  title: string;
  axis: Axis;
  values: (number | null)[];
  /** Whether the distance is a share. */
  percent: boolean;
  labels: readonly string[];
  /** Values from which the distance is moderate and large; empty if it has none. */
  thresholds: readonly number[];
  /** Index of the current partition; -1 if it is not on the axis. */
  currentIndex: number;
}

/** Draw a distance over time; `onHover` and `onSelect` receive an index of the axis. */
export function drawDrift(
  theme: Theme,
  { title, axis, values, percent, labels, thresholds, currentIndex }: DriftSeries,
  width: number,
  height: number,
  onHover: (index: number | null, left: number) => void,
  onSelect: (index: number) => void,
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
      axes: [xAxis(theme, false, axis, labels), { ...yAxis(theme, false, false, percent), ...axisTitle(title, height - 40) }],
      series: [{}, { stroke: colour, width: 1.5, points: { size: 4, fill: colour } }],
      hooks: {
        draw: [(u) => drawThresholds(u, thresholds, theme), (u) => currentIndex >= 0 && drawFocus(u, axis.x[currentIndex], labels[currentIndex], theme)],
        setCursor: [(u) => onHover((u.cursor.left ?? -1) < 0 ? null : (u.cursor.idx ?? null), u.cursor.left ?? 0)],
        ready: [(u) => u.over.addEventListener("click", () => typeof u.cursor.idx === "number" && onSelect(u.cursor.idx))],
      },
    },
    [axis.x, values],
  );
}

/** Draw dashed lines at the values from which a distance is moderate and large, with their names. */
function drawThresholds(u: uPlot, thresholds: readonly number[], theme: Theme): void {
  const { ctx: context, bbox } = u;
  const ratio = uPlot.pxRatio;
  context.save();
  context.strokeStyle = context.fillStyle = theme.warn;
  context.lineWidth = ratio;
  context.setLineDash([5 * ratio, 4 * ratio]);
  context.font = `${11 * ratio}px system-ui, sans-serif`;
  context.textAlign = "left";
  context.textBaseline = "bottom";
  let nextFree = Infinity;
  thresholds.forEach((value, n) => {
    const y = u.valToPos(value, "y", true);
    if (y < bbox.top || y > bbox.top + bbox.height) return;
    context.beginPath();
    context.moveTo(bbox.left, y);
    context.lineTo(bbox.left + bbox.width, y);
    context.stroke();
    if (y < nextFree) outlinedText(context, ["moderate", "large"][n], bbox.left + 4 * ratio, y - ratio, theme.background);
    nextFree = y - 13 * ratio;
  });
  context.restore();
}

/** Draw text that is readable on top of lines. */
function outlinedText(context: CanvasRenderingContext2D, text: string, x: number, y: number, background: string): void {
  context.save();
  context.setLineDash([]);
  context.lineJoin = "round";
  context.lineWidth = 4 * uPlot.pxRatio;
  context.strokeStyle = background;
  context.strokeText(text, x, y);
  context.restore();
  context.fillText(text, x, y);
}
