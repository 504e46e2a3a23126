// What was measured of features, put in order: which are listed, which charts show them. Nothing here is drawn.

export const QUANTILES = ["min", "p5", "p25", "p50", "p75", "p95", "max"] as const;
export type Quantile = (typeof QUANTILES)[number];

/** What features are ranked by at first. */
export const WRONG = "wrong";
const RATES = new Set([WRONG, "mismatch", "missing", "extra", "both_null", "smape", "smape_mean"]);
const WORDS: Record<string, string> = {
  [WRONG]: "mismatch + missing + extra",
  delta: "delta: backfilled − logged",
  logged: "logged (online)",
  backfilled: "backfilled (offline)",
  logged_length: "length, logged",
  backfilled_length: "length, backfilled",
  edit_insert: "edits: inserts",
  edit_delete: "edits: deletes",
};
/** Plain numbers that are drawn together, in this order; what is in none of these is drawn last. */
const TOGETHER: readonly (readonly [title: string, metrics: readonly string[]])[] = [
  ["rates", ["mismatch", "missing", "extra", "both_null"]],
  ["smape", ["smape", "smape_mean"]],
  ["edits", ["edit_insert", "edit_delete"]],
  ["lengths", ["logged_length", "backfilled_length"]],
  ["keys on one side only, or different", ["missing_keys", "extra_keys", "mismatched_keys"]],
  ["keys of each side", ["left_keys", "right_keys"]],
  ["rows on one side only", ["row_missing", "row_extra"]],
  ["matched rows", ["total"]],
];
const ORDER = ["delta", "logged", "backfilled", "logged_length", "backfilled_length", "edit_insert", "edit_delete"];

export interface Figure {
  title: string;
  kind: "rates" | "numbers" | "bands";
  /** Names of lines; of bands those of `QUANTILES`. */
  metrics: string[];
}

export function isRate(metric: string): boolean {
  return RATES.has(metric);
}

/** What a metric is called where one is chosen. */
export function wordsOf(metric: string): string {
  const [base, quantile] = metric.split(/-(?=[^-]*$)/);
  if (!quantile) return WORDS[metric] ?? metric;
  return `${base} ${quantile}`;
}

/** The charts of a subject that has these metrics. */
export function figuresOf(metrics: readonly string[]): Figure[] {
  const left = new Set(metrics);
  const bases = [...new Set(metrics.map((name) => name.slice(0, Math.max(0, name.lastIndexOf("-")))))].filter((base) => base && QUANTILES.every((q) => left.has(`${base}-${q}`)));
  const place = (base: string) => (ORDER.includes(base) ? ORDER.indexOf(base) : ORDER.length);
  bases.sort((a, b) => place(a) - place(b));
  const bands = bases.map((base): Figure => ({ title: WORDS[base] ?? base, kind: "bands", metrics: QUANTILES.map((q) => `${base}-${q}`) }));
  bands.forEach((one) => one.metrics.forEach((name) => left.delete(name)));
  const plain: Figure[] = [];
  const add = (title: string, some: string[]) => {
    if (some.length) plain.push({ title, kind: some.every(isRate) ? "rates" : "numbers", metrics: some });
    some.forEach((name) => left.delete(name));
  };
  for (const [title, some] of TOGETHER) add(title, some.filter((name) => left.has(name)));
  add("other", [...left]);
  // The rates and smape first, then bands, then what explains them.
  return [...plain.slice(0, 2).filter(({ kind }) => kind === "rates"), ...bands, ...plain.filter((one, n) => n > 1 || one.kind !== "rates")];
}

/** The rows that are of a group-by, if one is chosen, and in which all words of a text occur, whatever their case. */
export function listed(names: readonly string[], groups: readonly string[], of: ArrayLike<number>, text: string, group: string): number[] {
  const wanted = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found: number[] = [];
  names.forEach((name, row) => {
    if (group && groups[of[row]] !== group) return;
    const whole = `${groups[of[row]]}.${name}`.toLowerCase();
    if (wanted.every((word) => whole.includes(word))) found.push(row);
  });
  return found;
}

/** From the lowest to the highest; extremes count, but not so far that what lies between gets flat. */
export function rangeOf(inner: readonly (number | null)[][], outer: readonly (number | null)[][]): [number, number] {
  const ends = (lines: readonly (number | null)[][]): [number, number] => {
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
  const [low, high] = ends(inner);
  if (low > high) return [0, 1];
  const [least, most] = ends(outer);
  const span = high - low || Math.abs(high) || 1;
  const [bottom, top] = [Math.min(low, Math.max(least, low - span)), Math.max(high, Math.min(most, high + span))];
  const room = 0.06 * (top - bottom) || 0.5 * span;
  return [bottom - room, top + room];
}
