// Feature consistency metrics: display names, grouping into charts, search, axis range. Pure, no drawing.

/** Quantiles of a distribution metric, as suffixes of metric names. */
export const QUANTILES = ["min", "p5", "p25", "p50", "p75", "p95", "max"] as const;
/** Suffix of a quantile's metric name. */
export type Quantile = (typeof QUANTILES)[number];

/** Default ranking: the sum of mismatch, missing and extra. */
export const TOTAL_ERROR = "wrong";
const RATE_METRICS = new Set([TOTAL_ERROR, "mismatch", "missing", "extra", "both_null", "smape", "smape_mean", "logged_top", "backfilled_top"]);
const METRIC_LABELS: Record<string, string> = {
  [TOTAL_ERROR]: "mismatch + missing + extra",
  delta: "delta: backfilled − logged",
  logged: "logged (online)",
  backfilled: "backfilled (offline)",
  logged_length: "length, logged",
  backfilled_length: "length, backfilled",
  logged_top: "share of the most frequent string, logged",
  backfilled_top: "share of the most frequent string, backfilled",
  edit_insert: "edits: inserts",
  edit_delete: "edits: deletes",
};
/** Scalar metrics that share a chart, in chart order. All other metrics come last. */
const CHART_GROUPS: readonly (readonly [title: string, metrics: readonly string[]])[] = [
  ["rates", ["mismatch", "missing", "extra", "both_null"]],
  ["smape", ["smape", "smape_mean"]],
  ["edits", ["edit_insert", "edit_delete"]],
  ["lengths", ["logged_length", "backfilled_length"]],
  ["share of the most frequent string", ["logged_top", "backfilled_top"]],
  ["keys on one side only, or different", ["missing_keys", "extra_keys", "mismatched_keys"]],
  ["keys of each side", ["left_keys", "right_keys"]],
  ["rows on one side only", ["row_missing", "row_extra"]],
  ["matched rows", ["total"]],
];
const BAND_ORDER = ["delta", "logged", "backfilled", "logged_length", "backfilled_length", "edit_insert", "edit_delete"];

/** Metrics that share a chart. */
export interface MetricChart {
  title: string;
  kind: "rates" | "numbers" | "bands";
  /** Metric of each line. Bands have a line for each of `QUANTILES`. */
  metrics: string[];
}

/** Check that a metric is a rate, displayed in per cent. */
export function isRate(metric: string): boolean {
  return RATE_METRICS.has(metric);
}

/** Label of a metric in menus. */
export function metricLabel(metric: string): string {
  const [base, quantile] = metric.split(/-(?=[^-]*$)/);
  if (!quantile) return METRIC_LABELS[metric] ?? metric;
  return `${base} ${quantile}`;
}

/** Group the metrics of a feature into charts: rates and smape, quantile bands, then the rest. */
export function groupIntoCharts(metrics: readonly string[]): MetricChart[] {
  const ungrouped = new Set(metrics);
  const bases = [...new Set(metrics.map((name) => name.slice(0, Math.max(0, name.lastIndexOf("-")))))].filter((base) => base && QUANTILES.every((q) => ungrouped.has(`${base}-${q}`)));
  const rank = (base: string) => (BAND_ORDER.includes(base) ? BAND_ORDER.indexOf(base) : BAND_ORDER.length);
  bases.sort((a, b) => rank(a) - rank(b));
  const bands = bases.map((base): MetricChart => ({ title: METRIC_LABELS[base] ?? base, kind: "bands", metrics: QUANTILES.map((q) => `${base}-${q}`) }));
  bands.forEach((band) => band.metrics.forEach((name) => ungrouped.delete(name)));
  const scalars: MetricChart[] = [];
  const add = (title: string, group: string[]) => {
    if (group.length) scalars.push({ title, kind: group.every(isRate) ? "rates" : "numbers", metrics: group });
    group.forEach((name) => ungrouped.delete(name));
  };
  for (const [title, group] of CHART_GROUPS) add(title, group.filter((name) => ungrouped.has(name)));
  add("other", [...ungrouped]);
  // Rates and smape first, then bands, then the metrics that explain them.
  return [...scalars.slice(0, 2).filter(({ kind }) => kind === "rates"), ...bands, ...scalars.filter(({ kind }, n) => n > 1 || kind !== "rates")];
}

/** Filter features by group-by (empty for all) and by words in their group-by and name, ignoring case. */
export function filterFeatures(names: readonly string[], groups: readonly string[], groupOf: ArrayLike<number>, text: string, group: string): number[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const rows: number[] = [];
  names.forEach((name, row) => {
    if (group && groups[groupOf[row]] !== group) return;
    const haystack = `${groups[groupOf[row]]}.${name}`.toLowerCase();
    if (words.every((word) => haystack.includes(word))) rows.push(row);
  });
  return rows;
}

/** Axis range of inner lines, extended towards outer lines by at most its own height, so that extremes do not flatten the rest. */
export function axisRange(inner: readonly (number | null)[][], outer: readonly (number | null)[][]): [number, number] {
  const extent = (lines: readonly (number | null)[][]): [number, number] => {
    let [low, high] = [Infinity, -Infinity];
    for (const line of lines) {
      for (const value of line) {
        if (value === null) continue;
        if (value < low) low = value;
        if (value > high) high = value;
      }
    }
    return [low, high];
  };
  const [low, high] = extent(inner);
  if (low > high) return [0, 1];
  const [outerLow, outerHigh] = extent(outer);
  const span = high - low || Math.abs(high) || 1;
  const [bottom, top] = [Math.min(low, Math.max(outerLow, low - span)), Math.max(high, Math.min(outerHigh, high + span))];
  const margin = 0.06 * (top - bottom) || 0.5 * span;
  return [bottom - margin, top + margin];
}
