// Drift windows: the baseline of four weeks, and the windows of the requests.

import type { NumberArray } from "./kernel";
import type { WindowSide } from "./protocol";
import { formatSideTime } from "./timeseries";

const SECONDS_PER_DAY = 86400;
/** Length of the baseline window of drift, in seconds; the same as in Python. */
const BASELINE_SECONDS = 28 * SECONDS_PER_DAY;

/** Window of the four weeks before a time, excluding it. */
export function fourWeeksBefore(seconds: number): WindowSide {
  const step = seconds % SECONDS_PER_DAY === 0 ? SECONDS_PER_DAY : 1;
  return { since: formatSideTime(seconds - BASELINE_SECONDS, step), until: formatSideTime(seconds - step, step) };
}

/** Windows of the drift requests, newest first. They are twice as long as the baseline, which each request reads in addition. */
export function driftWindows(times: ArrayLike<number>): { since: string; until: string }[] {
  const sorted = Array.from(times).filter((time) => !Number.isNaN(time));
  const windows: { since: string; until: string }[] = [];
  for (let last = sorted.length - 1; last >= 0; ) {
    const first = sorted.findIndex((time) => time > sorted[last] - 2 * BASELINE_SECONDS);
    windows.push({ since: formatSideTime(sorted[first], 1), until: formatSideTime(sorted[last], 1) });
    last = first - 1;
  }
  return windows;
}

/** Filter drift rows by segment (null for all), sorted by time. */
export function filterSegment(
  strings: Readonly<Record<string, readonly (string | null)[]>>,
  arrays: Readonly<Record<string, NumberArray>>,
  segment: string | null,
): { labels: string[]; numbers: Record<string, number[]> } {
  const rows = strings.partition.map((_, row) => row).filter((row) => segment === null || strings.segment[row] === segment);
  rows.sort((a, b) => arrays.time[a] - arrays.time[b]);
  const numbers = Object.entries(arrays).map(([name, values]) => [name, rows.map((row) => values[row])] as const);
  return { labels: rows.map((row) => strings.partition[row] ?? ""), numbers: Object.fromEntries(numbers) };
}
