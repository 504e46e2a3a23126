// Time series of a `series` answer as lines on a shared x axis: gaps, indexes, labels, restatements. Pure, no drawing.

import type { AnswerTo } from "./kernel";
import type { SeriesLabel } from "./protocol";

/** Answer to `series`: values of some series (rows) over all columns, with anomalies and labels. */
export type SeriesAnswer = AnswerTo<"series">;

/** Values along an axis: null for a measurement without a number, undefined if nothing was measured. */
export type LineValues = (number | null | undefined)[];

/** X axis of a chart. */
export interface Axis {
  /** Columns of the answer that have a value in any row. */
  columns: number[];
  /** X values of the columns: seconds since 1970, or 0, 1, 2 … if a column has no time. */
  x: number[];
  timed: boolean;
}

/** Author of automatic labels; `AUTOMATIC_AUTHOR` in `repository/store/labels.py`. */
const SYSTEM_AUTHOR = "tidegauge";
/** Maximum distance of neighbouring points without a gap, in median steps. */
const GAP_STEPS = 1.5;

/** Shared x axis of rows: all columns with a value or expectation in any row. Uses times if all columns have one, else positions. */
export function sharedAxis({ data, arrays }: SeriesAnswer, rows: readonly number[]): Axis {
  const { status, expected, times } = arrays;
  const width = data.labels.length;
  const columns: number[] = [];
  for (let column = 0; column < width; column++) {
    if (rows.some((row) => status[row * width + column] > 0 || !Number.isNaN(expected[row * width + column]))) {
      columns.push(column);
    }
  }
  const timed = columns.every((column) => !Number.isNaN(times[column]));
  return { columns, timed, x: columns.map((column, n) => (timed ? times[column] : n)) };
}

/** Values of a row along an axis: null where a measurement has no number, undefined where nothing was measured. */
export function lineValues({ data, arrays }: SeriesAnswer, row: number, axis: Axis, array: "value" | "expected" | "lower" | "upper", unit = 1): LineValues {
  const start = row * data.labels.length;
  const { status } = arrays;
  return axis.columns.map((column) => {
    const value = arrays[array][start + column];
    if (Number.isFinite(value)) return value / unit;
    return status[start + column] === 0 ? undefined : null;
  });
}

/** Values of a row `shift` seconds before each point of an axis; undefined without a value at that time. */
export function shiftedValues({ data, arrays }: SeriesAnswer, row: number, axis: Axis, shift: number, unit = 1): LineValues {
  const start = row * data.labels.length;
  const columns = new Map(Array.from(arrays.times, (time, column) => [time, column]));
  return axis.x.map((x) => {
    const column = axis.timed ? columns.get(x - shift) : undefined;
    const value = column === undefined ? NaN : arrays.value[start + column];
    return Number.isFinite(value) ? value / unit : undefined;
  });
}

/** Median distance between neighboring values; infinite with fewer than two. */
export function medianStep(x: readonly number[], line: LineValues): number {
  const definedX = x.filter((_, n) => line[n] !== null && line[n] !== undefined);
  const steps = definedX.slice(1).map((position, n) => position - definedX[n]);
  return steps.length ? median(steps) : Infinity;
}

/** Find gaps, as pairs of indexes around missing points, and isolated values without a neighbor. */
export function findGaps(x: readonly number[], line: LineValues): { gaps: [number, number][]; isolated: number[] } {
  const limit = GAP_STEPS * medianStep(x, line);
  const gaps: [number, number][] = [];
  const isolated: number[] = [];
  let previous = -1;
  let separated = true;
  for (let n = 0; n < line.length; n++) {
    const value = line[n];
    if (value === undefined) continue;
    if (value === null) {
      if (previous >= 0 && separated) isolated.push(previous);
      previous = -1;
      separated = true;
      continue;
    }
    const gap = previous >= 0 && x[n] - x[previous] > limit;
    if (gap) {
      gaps.push([previous, n]);
      if (separated) isolated.push(previous);
    }
    separated = previous < 0 || gap;
    previous = n;
  }
  if (previous >= 0 && separated) isolated.push(previous);
  return { gaps, isolated };
}

/** Median without NaN values. */
export function median(numbers: readonly number[]): number {
  const sorted = numbers.filter((value) => !Number.isNaN(value)).sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** Unit of a row's index: its absolute median; null if that is 0 or there are no values. */
export function indexUnit({ data, arrays }: SeriesAnswer, row: number): number | null {
  const width = data.labels.length;
  const values = Array.from(arrays.value.subarray(row * width, (row + 1) * width)).filter(Number.isFinite);
  const unit = Math.abs(median(values));
  return unit > 0 ? unit : null;
}

/** Axis title of lines: their common metric, and the divisor of their values. */
export function valueTitle({ data }: SeriesAnswer, lines: readonly { row: number; unit: number }[]): string {
  const names = new Set(lines.map(({ row }) => data.series[row].name));
  const columns = new Set(lines.map(({ row }) => data.series[row].instance));
  const [column] = columns;
  const name = names.size === 1 ? [...names][0] : "value";
  const title = names.size === 1 && columns.size === 1 && column !== "*" ? `${name} ${column}` : name;
  return lines.some(({ unit }) => unit !== 1) ? `${title} ÷ median of its series` : title;
}

/** Ratio of the largest to the smallest row by median absolute value; 1 for fewer than two. */
export function scaleRatio({ data, arrays }: SeriesAnswer, rows: readonly number[]): number {
  const width = data.labels.length;
  const sizes = rows
    .map((row) => Array.from(arrays.value.subarray(row * width, (row + 1) * width)).filter(Number.isFinite))
    .filter((values) => values.length)
    .map((values) => median(values.map(Math.abs)));
  const [smallest, largest] = [Math.min(...sizes), Math.max(...sizes)];
  return sizes.length < 2 || smallest === largest ? 1 : largest / smallest;
}

/** Find the first row with a value of 0 or less, which prevents a logarithmic scale; null without one. */
export function findNonPositive({ data, arrays }: SeriesAnswer, rows: readonly number[]): number | null {
  const width = data.labels.length;
  const row = rows.find((row) => arrays.value.subarray(row * width, (row + 1) * width).some((value) => value <= 0));
  return row ?? null;
}

/** Labels of users, without automatic labels: labels of ranges that apply to a row, and labels of its points by column. */
export function userLabels({ data }: SeriesAnswer, row: number): { ranges: SeriesLabel[]; points: Map<number, SeriesLabel[]> } {
  const series = data.series[row];
  const labels = data.series_labels.filter((label) => label.by !== SYSTEM_AUTHOR && label.dataset === series.dataset);
  const ranges = labels.filter(
    (label) =>
      label.target_id === null &&
      (label.name === null || label.name === series.name) &&
      (label.instance === null || label.instance === series.instance),
  );
  const points = new Map<number, SeriesLabel[]>();
  for (const { row: anomalyRow, column, id, incident_id: incident } of data.anomalies) {
    if (anomalyRow !== row) continue;
    const pointLabels = labels.filter(({ target_id: targetId }) => targetId === id || (targetId !== null && targetId === incident));
    if (pointLabels.length) points.set(column, [...(points.get(column) ?? []), ...pointLabels]);
  }
  return { ranges, points };
}

/** Restatements of a row: superseded versions of its points, as `[column, version, value]`. */
export function restatements({ arrays }: SeriesAnswer, row: number): [column: number, version: number, value: number][] {
  const versions: [number, number, number][] = [];
  const { restatements: records } = arrays;
  for (let n = 0; n < records.length; n += 4) if (records[n] === row) versions.push([records[n + 1], records[n + 2], records[n + 3]]);
  return versions;
}

/** Window of the same length directly before a window; both ends are inclusive. */
export function precedingWindow(since: number, until: number, step: number): { since: number; until: number } {
  return { since: since - (until - since + step), until: since - step };
}

/** Format a time as an end of a comparison window: a date for daily partitions, which as an end includes its entire day. */
export function formatSideTime(seconds: number, step: number): string {
  const text = new Date(1000 * seconds).toISOString();
  return step >= 86400 && text.includes("T00:00:00.000") ? text.slice(0, 10) : text.slice(0, 19);
}

/** Label of a partition's column, found by time, or by name for partitions without a time; null without such a column. */
export function columnLabel(columns: { labels: readonly string[]; times: ArrayLike<number> }, time: number | null | undefined, name: string | null): string | null {
  const timed = typeof time === "number" && !Number.isNaN(time);
  const column = timed ? Array.prototype.indexOf.call(columns.times, time) : columns.labels.indexOf(name ?? "");
  return columns.labels[column] ?? null;
}

/** Convert a saved end of a window (seconds, a column label or an ISO 8601 time) to an x value; null if it is not on the axis. */
export function parseWindowEnd(axis: Axis, labels: readonly string[], end: number | string | null | undefined): number | null {
  if (end === null || end === undefined) return null;
  if (typeof end === "number") return axis.timed ? end : null;
  const column = labels.indexOf(end);
  const index = axis.columns.indexOf(column);
  if (index >= 0) return axis.x[index];
  const isoTime = /\d{2}:\d{2}/.test(end) && !/(Z|[+-]\d{2}:?\d{2})$/.test(end) ? `${end}Z` : end;
  const seconds = Date.parse(isoTime) / 1000;
  return axis.timed && !Number.isNaN(seconds) ? seconds : null;
}
