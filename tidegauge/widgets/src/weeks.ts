// The windows that drift is measured against, and in which it is asked for.

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
