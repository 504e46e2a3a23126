// What is compared with what: partitions, runs or windows, and which of them if nothing was chosen.

export type Kind = "partitions" | "runs" | "windows";
export interface Window {
  since: string | null;
  until: string | null;
}
export type Side = { partition: string } | { run: number } | Window;

export interface Known {
  /** The newest first, and of each the segment that its keys make, and its time in seconds or NaN. */
  partitions: readonly string[];
  within: readonly string[];
  times: Float64Array;
  runs: readonly { id: number; started_at: string; measured: number }[];
}

const [HOUR, DAY, WEEK] = [3600, 86400, 7 * 86400];

export function kindOf(side: Side | undefined): Kind | null {
  if (!side) return null;
  return "partition" in side ? "partitions" : "run" in side ? "runs" : "windows";
}

/** Whether there is such a side. */
export function isKnown(known: Known, side: Side | undefined): boolean {
  if (!side) return false;
  if ("partition" in side) return known.partitions.includes(side.partition);
  if ("run" in side) return known.runs.some(({ id }) => id === side.run);
  return true;
}

/** The place of the partition a week before another of the same segment, else of the one before it, else -1. */
export function before(known: Pick<Known, "times" | "within">, place: number): number {
  const { times, within } = known;
  let found = -1;
  for (let other = 0; other < times.length; other++) {
    if (other === place || within[other] !== within[place]) continue;
    if (times[other] === times[place] - WEEK) return other;
    if (times[other] < times[place] && !(times[other] <= times[found])) found = other;
  }
  return found;
}

/** The segments that keys beside time make, in order. */
export function segmentsOf({ within }: Pick<Known, "within">): string[] {
  return [...new Set(within)].sort();
}

/** The segment of a partition; null of other sides. */
export function segmentOf(known: Pick<Known, "partitions" | "within">, side: Side | undefined): string | null {
  return side && "partition" in side ? (known.within[known.partitions.indexOf(side.partition)] ?? null) : null;
}

/** The segment that two sides are looked at in: that of the partition, else the one chosen before; null if each has its own. */
export function shared(known: Pick<Known, "partitions" | "within">, baseline: Side, current: Side, chosen: string | null): string | null {
  const [before, after] = [segmentOf(known, baseline), segmentOf(known, current)];
  if (before !== null && after !== null && before !== after) return null;
  const there = chosen !== null && known.within.includes(chosen) ? chosen : null;
  return after ?? before ?? there ?? known.within[0] ?? null;
}

/** The same side of another segment: the partition of the same time there, else its newest; windows are of any. */
export function moved(known: Pick<Known, "partitions" | "within" | "times">, side: Side, segment: string): Side {
  if (!("partition" in side)) return side;
  const { partitions, within, times } = known;
  const time = times[partitions.indexOf(side.partition)];
  const newest = within.indexOf(segment);
  const same = within.findIndex((one, n) => one === segment && times[n] === time);
  const place = same < 0 ? newest : same;
  return place < 0 ? side : { partition: partitions[place] };
}

/** Whether all partitions begin with a day, so that dates are enough to tell them apart. */
export function hasDays(times: Float64Array): boolean {
  return times.every((time) => Number.isNaN(time) || time % DAY === 0);
}

/** Baseline and current if none were chosen; null where there are no two to compare. */
export function usual(known: Known, kind: Kind): readonly [Side, Side] | null {
  const { partitions, runs, times } = known;
  if (kind === "runs") return runs.length < 2 ? null : [{ run: runs[1].id }, { run: runs[0].id }];
  if (kind === "partitions") {
    for (let place = 0; place < partitions.length; place++) {
      const earlier = before(known, place);
      if (earlier >= 0) return [{ partition: partitions[earlier] }, { partition: partitions[place] }];
    }
    // Without times, any two.
    return partitions.length < 2 ? null : [{ partition: partitions[1] }, { partition: partitions[0] }];
  }
  const newest = times.reduce((most, time) => (time > most ? time : most), -Infinity);
  if (!Number.isFinite(newest)) return null;
  const days = hasDays(times);
  const window = (end: number) => ({
    since: written(end - WEEK + (days ? DAY : HOUR), days),
    until: written(end, days),
  });
  return [window(newest - WEEK), window(newest)];
}

/** A moment as fields of a form hold it; in UTC. */
function written(seconds: number, days: boolean): string {
  return new Date(1000 * seconds).toISOString().slice(0, days ? 10 : 16);
}

/** An end of a window as its field holds it: a date where partitions are days, else with minutes; null if it is no time. */
export function fieldText(told: string | null | undefined, days: boolean, end: keyof Window): string | null {
  if (!told) return "";
  const [date, time = end === "since" ? "00:00" : "23:59"] = told.trim().split(/[T ]/, 2);
  if (Number.isNaN(Date.parse(date)) || !/^\d{4}-\d\d-\d\d$/.test(date) || !/^\d\d:\d\d/.test(time)) return null;
  if (days) return date;
  // What says how far it is from UTC is told in UTC, as partitions are.
  const far = /(Z|[+-]\d\d:?\d\d)$/.test(time) ? Date.parse(`${date}T${time}`) : Date.parse(`${date}T${time.slice(0, 5)}Z`);
  return Number.isNaN(far) ? null : new Date(far).toISOString().slice(0, 16);
}

/** Names that hold a text, those that begin with it first, up to some. */
export function matches(names: readonly string[], text: string, most: number): string[] {
  const wanted = text.trim().toLowerCase();
  const found = names.filter((name) => name.toLowerCase().includes(wanted));
  const begins = (name: string) => (name.toLowerCase().startsWith(wanted) ? 0 : 1);
  return found.sort((a, b) => begins(a) - begins(b)).slice(0, most);
}
