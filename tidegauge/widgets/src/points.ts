// What the kernel tells of some series, as lines along one axis. Nothing here is drawn.

import type { Answer } from "./link";

export interface Found {
  row: number;
  column: number;
  id: number;
  incident_id: number | null;
  severity: string;
  status: string;
  direction: string;
  detector: string;
  explanation: string;
}

export interface Said {
  label: string;
  note: string | null;
  by: string | null;
  created_at: string;
  since: string | null;
  until: string | null;
  name: string | null;
  instance: string | null;
  dataset: string;
  /** The anomaly or incident it is about; null for ranges. */
  about: number | null;
}

export interface SeriesRow {
  id: number;
  dataset: string;
  segment: string;
  instance: string;
  name: string;
  analyzer: string;
}

/** The answer to `series`; arrays are row by row: value, status, version, expected, lower, upper; and times, old. */
export interface SeriesTold {
  series: SeriesRow[];
  labels: string[];
  anomalies: Found[];
  said: Said[];
  statuses: string[];
}

export type Line = (number | null | undefined)[];

export interface Axis {
  /** Columns of the answer that are shown. */
  columns: number[];
  /** Their places: seconds since 1970, or their order where some have no time. */
  x: number[];
  timed: boolean;
}

/** Who says by itself what nobody said; see `repository/labels.py`. */
const ITSELF = "tidegauge";
/** Neighbours further apart than so many steps have something missing between them. */
const APART = 1.5;

/** The columns in which some rows have anything, by time if all of them have one. */
export function axisOf({ told, arrays }: Answer<SeriesTold>, rows: readonly number[]): Axis {
  const { status, expected, times } = arrays;
  const width = told.labels.length;
  const columns: number[] = [];
  for (let column = 0; column < width; column++) {
    if (rows.some((row) => status[row * width + column] > 0 || !Number.isNaN(expected[row * width + column]))) {
      columns.push(column);
    }
  }
  const timed = columns.every((column) => !Number.isNaN(times[column]));
  return { columns, timed, x: columns.map((column, n) => (timed ? times[column] : n)) };
}

/** A row along an axis: null where there is no number, undefined where nothing was measured. */
export function lineOf({ told, arrays }: Answer<SeriesTold>, row: number, axis: Axis, what: string, unit = 1): Line {
  const start = row * told.labels.length;
  const { status } = arrays;
  return axis.columns.map((column) => {
    const value = arrays[what][start + column];
    if (Number.isFinite(value)) return value / unit;
    return status[start + column] === 0 ? undefined : null;
  });
}

/** The usual distance of neighbours that have a value. */
export function stepOf(x: readonly number[], line: Line): number {
  const places = x.filter((_, n) => line[n] !== null && line[n] !== undefined);
  const steps = places.slice(1).map((place, n) => place - places[n]);
  return steps.length ? median(steps) : Infinity;
}

/** Pairs of neighbours between which something is missing, as places in the line, and values that have no neighbour. */
export function gapsOf(x: readonly number[], line: Line): { gaps: [number, number][]; alone: number[] } {
  const limit = APART * stepOf(x, line);
  const gaps: [number, number][] = [];
  const alone: number[] = [];
  let before = -1;
  let parted = true;
  for (let n = 0; n < line.length; n++) {
    const value = line[n];
    if (value === undefined) continue;
    if (value === null) {
      if (before >= 0 && parted) alone.push(before);
      before = -1;
      parted = true;
      continue;
    }
    const far = before >= 0 && x[n] - x[before] > limit;
    if (far) {
      gaps.push([before, n]);
      if (parted) alone.push(before);
    }
    parted = before < 0 || far;
    before = n;
  }
  if (before >= 0 && parted) alone.push(before);
  return { gaps, alone };
}

export function median(numbers: readonly number[]): number {
  const sorted = numbers.filter((one) => !Number.isNaN(one)).sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** What a row is divided by when rows are compared as indexes; null if its median is 0, or it has no values. */
export function unitOf({ told, arrays }: Answer<SeriesTold>, row: number): number | null {
  const width = told.labels.length;
  const values = Array.from(arrays.value.subarray(row * width, (row + 1) * width)).filter(Number.isFinite);
  const unit = Math.abs(median(values));
  return unit > 0 ? unit : null;
}

/** How many times the largest row is as large as the smallest, by the medians of absolute values; 1 for fewer than two. */
export function sizesApart({ told, arrays }: Answer<SeriesTold>, rows: readonly number[]): number {
  const width = told.labels.length;
  const sizes = rows
    .map((row) => Array.from(arrays.value.subarray(row * width, (row + 1) * width)).filter(Number.isFinite))
    .filter((values) => values.length)
    .map((values) => median(values.map(Math.abs)));
  const [least, most] = [Math.min(...sizes), Math.max(...sizes)];
  return sizes.length < 2 || least === most ? 1 : most / least;
}

/** Why a logarithmic scale will not do for some rows; null if it does. */
export function notPositive({ told, arrays }: Answer<SeriesTold>, rows: readonly number[]): number | null {
  const width = told.labels.length;
  const found = rows.find((row) => arrays.value.subarray(row * width, (row + 1) * width).some((value) => value <= 0));
  return found ?? null;
}

/** What people said: of ranges, by row; and of points, by row and column. */
export function saidOf({ told }: Answer<SeriesTold>, row: number): { ranges: Said[]; points: Map<number, Said[]> } {
  const about = told.series[row];
  const people = told.said.filter((one) => one.by !== ITSELF && one.dataset === about.dataset);
  const ranges = people.filter(
    (one) =>
      one.about === null &&
      (one.name === null || one.name === about.name) &&
      (one.instance === null || one.instance === about.instance),
  );
  const points = new Map<number, Said[]>();
  for (const found of told.anomalies) {
    if (found.row !== row) continue;
    const these = people.filter((one) => one.about === found.id || (one.about !== null && one.about === found.incident_id));
    if (these.length) points.set(found.column, [...(points.get(found.column) ?? []), ...these]);
  }
  return { ranges, points };
}

/** Earlier versions of a row's points, as `[column, version, value]`. */
export function olderOf({ arrays }: Answer<SeriesTold>, row: number): [column: number, version: number, value: number][] {
  const found: [number, number, number][] = [];
  const { old } = arrays;
  for (let n = 0; n < old.length; n += 4) if (old[n] === row) found.push([old[n + 1], old[n + 2], old[n + 3]]);
  return found;
}

/** The window of the same length that ends where one begins; both ends are partitions. */
export function windowBefore(since: number, until: number, step: number): { since: number; until: number } {
  return { since: since - (until - since + step), until: since - step };
}

/** A moment as a side of a comparison: a date where partitions are days, which as an end covers its day. */
export function sideText(seconds: number, step: number): string {
  const text = new Date(1000 * seconds).toISOString();
  return step >= 86400 && text.includes("T00:00:00.000") ? text.slice(0, 10) : text.slice(0, 19);
}

/** The label of the column that a partition is in, by its time, or by its name if it has none; null if there is none. */
export function labelOf(known: { labels: readonly string[]; times: ArrayLike<number> }, time: number | null | undefined, name: string | null): string | null {
  const timed = typeof time === "number" && !Number.isNaN(time);
  const column = timed ? Array.prototype.indexOf.call(known.times, time) : known.labels.indexOf(name ?? "");
  return known.labels[column] ?? null;
}

/** Where a window that was remembered lies on the axis: seconds, a label, or a time as text. */
export function placeOf(axis: Axis, labels: readonly string[], told: number | string | null | undefined): number | null {
  if (told === null || told === undefined) return null;
  if (typeof told === "number") return axis.timed ? told : null;
  const column = labels.indexOf(told);
  const at = axis.columns.indexOf(column);
  if (at >= 0) return axis.x[at];
  const text = /\d{2}:\d{2}/.test(told) && !/(Z|[+-]\d{2}:?\d{2})$/.test(told) ? `${told}Z` : told;
  const seconds = Date.parse(text) / 1000;
  return axis.timed && !Number.isNaN(seconds) ? seconds : null;
}
