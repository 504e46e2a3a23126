// Comparison sides: partitions, runs or time windows; the default pair, segments, and form values.

import type { Side, SidesAnswer, WindowSide } from "./protocol";

/** Kind of both sides of a comparison. */
export type SideKind = "partitions" | "runs" | "windows";

/** Choices for sides: partitions, newest first, with their segments and times (seconds or NaN), and runs. */
export interface SideChoices extends SidesAnswer {
  times: Float64Array;
}

const [SECONDS_PER_HOUR, SECONDS_PER_DAY, SECONDS_PER_WEEK] = [3600, 86400, 7 * 86400];

/** Kind of a side; null without a side. */
export function sideKind(side: Side | undefined): SideKind | null {
  if (!side) return null;
  return "partition" in side ? "partitions" : "run" in side ? "runs" : "windows";
}

/** Name of a side: its partition, its run, or the dates of its window. */
export function sideText(side: Side): string {
  if ("partition" in side) return side.partition;
  return "run" in side ? `run ${side.run}` : `${side.since ?? "the first partition"} to ${side.until ?? "the newest"}`;
}

/** Check that a side still exists. */
export function sideExists(choices: SideChoices, side: Side | undefined): boolean {
  if (!side) return false;
  if ("partition" in side) return choices.partitions.includes(side.partition);
  if ("run" in side) return choices.runs.some(({ id }) => id === side.run);
  return true;
}

/** Index of the partition one week earlier in the same segment, else of the previous partition, else -1. */
export function previousPartition(choices: Pick<SideChoices, "times" | "segments">, index: number): number {
  const { times, segments } = choices;
  let previous = -1;
  for (let candidate = 0; candidate < times.length; candidate++) {
    if (candidate === index || segments[candidate] !== segments[index]) continue;
    if (times[candidate] === times[index] - SECONDS_PER_WEEK) return candidate;
    if (times[candidate] < times[index] && !(times[candidate] <= times[previous])) previous = candidate;
  }
  return previous;
}

/** List the distinct segments, sorted. */
export function listSegments({ segments }: Pick<SideChoices, "segments">): string[] {
  return [...new Set(segments)].sort();
}

/** Segment of a partition side; null for other sides. */
export function sideSegment(choices: Pick<SideChoices, "partitions" | "segments">, side: Side | undefined): string | null {
  return side && "partition" in side ? (choices.segments[choices.partitions.indexOf(side.partition)] ?? null) : null;
}

/** Segment of both sides: the segment of a partition side, else the chosen segment; null if the sides have different segments. */
export function sharedSegment(choices: Pick<SideChoices, "partitions" | "segments">, baseline: Side, current: Side, chosen: string | null): string | null {
  const [baselineSegment, currentSegment] = [sideSegment(choices, baseline), sideSegment(choices, current)];
  if (baselineSegment !== null && currentSegment !== null && baselineSegment !== currentSegment) return null;
  const valid = chosen !== null && choices.segments.includes(chosen) ? chosen : null;
  return currentSegment ?? baselineSegment ?? valid ?? choices.segments[0] ?? null;
}

/** Switch a partition side to another segment: to the partition at the same time, else to the newest. Other sides do not change. */
export function switchSegment(choices: Pick<SideChoices, "partitions" | "segments" | "times">, side: Side, segment: string): Side {
  if (!("partition" in side)) return side;
  const { partitions, segments, times } = choices;
  const time = times[partitions.indexOf(side.partition)];
  const newest = segments.indexOf(segment);
  const sameTime = segments.findIndex((name, n) => name === segment && times[n] === time);
  const index = sameTime < 0 ? newest : sameTime;
  return index < 0 ? side : { partition: partitions[index] };
}

/** Check that all partitions start at midnight, so that dates identify them. */
export function isDaily(times: Float64Array): boolean {
  return times.every((time) => Number.isNaN(time) || time % SECONDS_PER_DAY === 0);
}

/** Default baseline and current side, as `_default_sides` in compare.py; null with fewer than two choices. */
export function defaultSides(choices: SideChoices, kind: SideKind): readonly [Side, Side] | null {
  const { partitions, runs, times } = choices;
  if (kind === "runs") return runs.length < 2 ? null : [{ run: runs[1].id }, { run: runs[0].id }];
  if (kind === "partitions") {
    for (let index = 0; index < partitions.length; index++) {
      const earlier = previousPartition(choices, index);
      if (earlier >= 0) return [{ partition: partitions[earlier] }, { partition: partitions[index] }];
    }
    // Without times, the first two partitions.
    return partitions.length < 2 ? null : [{ partition: partitions[1] }, { partition: partitions[0] }];
  }
  const newest = times.reduce((latest, time) => (time > latest ? time : latest), -Infinity);
  if (!Number.isFinite(newest)) return null;
  const daily = isDaily(times);
  const window = (end: number) => ({
    since: formatField(end - SECONDS_PER_WEEK + (daily ? SECONDS_PER_DAY : SECONDS_PER_HOUR), daily),
    until: formatField(end, daily),
  });
  return [window(newest - SECONDS_PER_WEEK), window(newest)];
}

/** Format a time as the value of a date or datetime-local field, in UTC. */
function formatField(seconds: number, daily: boolean): string {
  return new Date(1000 * seconds).toISOString().slice(0, daily ? 10 : 16);
}

/** Field value of an end of a window: a date for daily partitions, else date and minutes; null for an invalid time. */
export function fieldValue(text: string | null | undefined, daily: boolean, end: keyof WindowSide): string | null {
  if (!text) return "";
  const [date, time = end === "since" ? "00:00" : "23:59"] = text.trim().split(/[T ]/, 2);
  if (Number.isNaN(Date.parse(date)) || !/^\d{4}-\d\d-\d\d$/.test(date) || !/^\d\d:\d\d/.test(time)) return null;
  if (daily) return date;
  // A time with a UTC offset is converted to UTC, as partitions are.
  const instant = /(Z|[+-]\d\d:?\d\d)$/.test(time) ? Date.parse(`${date}T${time}`) : Date.parse(`${date}T${time.slice(0, 5)}Z`);
  return Number.isNaN(instant) ? null : new Date(instant).toISOString().slice(0, 16);
}

/** Return up to `max` names that contain a string; names that start with it come first. */
export function matchNames(names: readonly string[], text: string, max: number): string[] {
  const query = text.trim().toLowerCase();
  const hits = names.filter((name) => name.toLowerCase().includes(query));
  const rank = (name: string) => (name.toLowerCase().startsWith(query) ? 0 : 1);
  return hits.sort((a, b) => rank(a) - rank(b)).slice(0, max);
}
