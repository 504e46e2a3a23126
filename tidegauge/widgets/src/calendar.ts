// Where partitions stand on a calendar: days in months, hours in days, or one after another.

const [HOUR, DAY] = [3600, 86400];
/** Months of days, months of hours, and cells of a list that are shown at once. */
const MONTHS = 12;
const CELLS = 360;
/** Days between partitions from which on a calendar would be mostly holes. */
const SPARSE = 3;

export type Layout = "days" | "hours" | "list";

/** A month, or a piece of a list. A cell is the place of a partition, or -1 where there is none. */
export interface Block {
  title: string;
  /** Of each row, if it needs one. */
  heads: string[];
  rows: number[][];
}

export const WEEKDAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"] as const;

/** How partitions of some times are best laid out; they are in order, and NaN where there is none. */
export function layoutOf(times: readonly number[]): Layout {
  if (!times.length || times.some(Number.isNaN) || new Set(times).size < times.length) return "list";
  const steps = times.slice(1).map((time, n) => time - times[n]).sort((a, b) => a - b);
  const usual = steps[Math.floor(steps.length / 2)] ?? DAY;
  if (times.every((time) => time % DAY === 0)) return usual > SPARSE * DAY ? "list" : "days";
  return times.every((time) => time % HOUR === 0) && usual <= DAY ? "hours" : "list";
}

/** The pages of a calendar, the newest first. */
export function pagesOf(times: readonly number[], layout: Layout): Block[][] {
  if (layout === "list") return listPages(times.length);
  const blocks = layout === "days" ? monthsOf(times, daysOf) : monthsOf(times, hoursOf);
  const size = layout === "days" ? MONTHS : 1;
  const pages: Block[][] = [];
  for (let end = blocks.length; end > 0; end -= size) pages.push(blocks.slice(Math.max(0, end - size), end));
  return pages;
}

function listPages(count: number): Block[][] {
  const pages: Block[][] = [];
  for (let end = count; end > 0; end -= CELLS) {
    const first = Math.max(0, end - CELLS);
    pages.push([{ title: "", heads: [], rows: [Array.from({ length: end - first }, (_, n) => first + n)] }]);
  }
  return pages;
}

type Lay = (places: ReadonlyMap<number, number>, first: number, days: number) => Pick<Block, "heads" | "rows">;

/** Every month from the first to the last partition, also those without any. */
function monthsOf(times: readonly number[], lay: Lay): Block[] {
  const places = new Map(times.map((time, place) => [time, place]));
  const last = times[times.length - 1];
  const blocks: Block[] = [];
  const from = new Date(1000 * times[0]);
  for (let n = 0; ; n++) {
    const first = Date.UTC(from.getUTCFullYear(), from.getUTCMonth() + n) / 1000;
    if (first > last) return blocks;
    const days = (Date.UTC(from.getUTCFullYear(), from.getUTCMonth() + n + 1) / 1000 - first) / DAY;
    const title = new Date(1000 * first).toLocaleDateString("en-US", { month: "short", year: "numeric", timeZone: "UTC" });
    blocks.push({ title, ...lay(places, first, days) });
  }
}

/** Weeks from Monday to Sunday. */
const daysOf: Lay = (places, first, days) => {
  const rows: number[][] = [];
  const begin = weekday(first);
  for (let day = 0; day < days; day++) {
    const at = begin + day;
    (rows[Math.floor(at / 7)] ??= new Array<number>(7).fill(-1))[at % 7] = places.get(first + day * DAY) ?? -1;
  }
  return { heads: [], rows };
};

/** Days of 24 hours. */
const hoursOf: Lay = (places, first, days) => {
  const rows = Array.from({ length: days }, (_, day) =>
    Array.from({ length: 24 }, (_, hour) => places.get(first + day * DAY + hour * HOUR) ?? -1),
  );
  return { heads: rows.map((_, day) => `${WEEKDAYS[weekday(first + day * DAY)]} ${day + 1}`), rows };
};

/** 0 for Monday to 6 for Sunday, in UTC. */
export function weekday(seconds: number): number {
  return (new Date(1000 * seconds).getUTCDay() + 6) % 7;
}

/** The page on which a place is; 0 if it is nowhere. */
export function pageOf(pages: readonly Block[][], place: number): number {
  const found = pages.findIndex((blocks) => blocks.some(({ rows }) => rows.some((row) => row.includes(place))));
  return Math.max(0, found);
}

/** Where an arrow leads from a place: to the next one across, or to the nearest a week (or day) away. */
export function towards(times: readonly number[], layout: Layout, place: number, across: number, down: number): number {
  const last = times.length - 1;
  const inside = (at: number) => Math.max(0, Math.min(last, at));
  if (across || layout === "list") return inside(place + across + down);
  const wanted = times[place] + down * (layout === "days" ? 7 * DAY : DAY);
  let found = place;
  for (let at = place; at >= 0 && at <= last; at += down) {
    if (Math.abs(times[at] - wanted) < Math.abs(times[found] - wanted)) found = at;
    if ((times[at] - wanted) * down >= 0) break;
  }
  return found;
}

/** A length of time as people say it: `2 h 5 min`, of two units at most. */
export function duration(seconds: number): string {
  const minutes = Math.round(Math.abs(seconds) / 60);
  const parts = [[Math.floor(minutes / 1440), "d"], [Math.floor((minutes % 1440) / 60), "h"], [minutes % 60, "min"]] as const;
  const first = parts.findIndex(([count]) => count > 0);
  if (first < 0) return "0 min";
  const some = parts.slice(first, first + 2).filter(([count]) => count > 0);
  return some.map(([count, unit]) => `${count.toLocaleString("en-US")} ${unit}`).join(" ");
}
