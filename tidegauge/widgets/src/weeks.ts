// The windows that drift is measured against, and in which it is asked for.

import type { Numbers } from "./link";
import { sideText } from "./points";
import type { Window } from "./sides";

const DAY = 86400;
/** As long as the windows that drift is measured against. */
const BEFORE = 28 * DAY;

/** The four weeks before a moment, without it. */
export function weeksBefore(seconds: number): Window {
  const step = seconds % DAY === 0 ? DAY : 1;
  return { since: sideText(seconds - BEFORE, step), until: sideText(seconds - step, step) };
}

/** The windows in which drift is asked for, the newest first: long against the weeks that each reads before it. */
export function pieces(times: ArrayLike<number>): { since: string; until: string }[] {
  const known = Array.from(times).filter((time) => !Number.isNaN(time));
  const found: { since: string; until: string }[] = [];
  for (let last = known.length - 1; last >= 0; ) {
    const first = known.findIndex((time) => time > known[last] - 2 * BEFORE);
    found.push({ since: sideText(known[first], 1), until: sideText(known[last], 1) });
    last = first - 1;
  }
  return found;
}

/** The drift of one segment among rows of many, in order of time; of all if null. */
export function ofSegment(
  texts: { partition: readonly string[]; segment: readonly string[] },
  arrays: Readonly<Record<string, Numbers>>,
  segment: string | null,
): { labels: string[]; numbers: Record<string, number[]> } {
  const rows = texts.partition.map((_, row) => row).filter((row) => segment === null || texts.segment[row] === segment);
  rows.sort((a, b) => arrays.time[a] - arrays.time[b]);
  const numbers = Object.entries(arrays).map(([name, values]) => [name, rows.map((row) => values[row])] as const);
  return { labels: rows.map((row) => texts.partition[row]), numbers: Object.fromEntries(numbers) };
}
