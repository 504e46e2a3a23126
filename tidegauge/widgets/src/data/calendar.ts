// Calendar layout of partitions: days in months, hours in days, or a plain list; paging and keyboard moves.

const [SECONDS_PER_HOUR, SECONDS_PER_DAY] = [3600, 86400];
/** Number of months on a page of days, and of cells on a page of a list. A page of hours is a month. */
const PAGE_MONTHS = 12;
const PAGE_CELLS = 360;
/** Median number of days between partitions above which a calendar would be mostly empty. */
const SPARSE_DAYS = 3;

/** Layout of the calendar. */
export type Layout = "days" | "hours" | "list";

/** Month, or part of a list. A cell is the index of a partition, or -1 without a partition. */
export interface CalendarBlock {
  title: string;
  /** Headings of the rows; empty without headings. */
  rowHeadings: string[];
  rows: number[][];
}

/** Weekdays in the order of a calendar row. */
export const WEEKDAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"] as const;

/** Choose the layout for sorted partition times; NaN for partitions without a time. */
export function chooseLayout(times: readonly number[]): Layout {
  if (!times.length || times.some(Number.isNaN) || new Set(times).size < times.length) return "list";
  const steps = times.slice(1).map((time, n) => time - times[n]).sort((a, b) => a - b);
  const median = steps[Math.floor(steps.length / 2)] ?? SECONDS_PER_DAY;
  if (times.every((time) => time % SECONDS_PER_DAY === 0)) return median > SPARSE_DAYS * SECONDS_PER_DAY ? "list" : "days";
  return times.every((time) => time % SECONDS_PER_HOUR === 0) && median <= SECONDS_PER_DAY ? "hours" : "list";
}

/** Paginate a calendar, newest page first. */
export function paginate(times: readonly number[], layout: Layout): CalendarBlock[][] {
  if (layout === "list") return paginateList(times.length);
  const blocks = layout === "days" ? layOutMonths(times, layOutDays) : layOutMonths(times, layOutHours);
  const size = layout === "days" ? PAGE_MONTHS : 1;
  const pages: CalendarBlock[][] = [];
  for (let end = blocks.length; end > 0; end -= size) pages.push(blocks.slice(Math.max(0, end - size), end));
  return pages;
}

function paginateList(count: number): CalendarBlock[][] {
  const pages: CalendarBlock[][] = [];
  for (let end = count; end > 0; end -= PAGE_CELLS) {
    const first = Math.max(0, end - PAGE_CELLS);
    pages.push([{ title: "", rowHeadings: [], rows: [Array.from({ length: end - first }, (_, n) => first + n)] }]);
  }
  return pages;
}

type MonthLayout = (indexByTime: ReadonlyMap<number, number>, first: number, days: number) => Pick<CalendarBlock, "rowHeadings" | "rows">;

/** Lay out all months from the first to the last partition, including empty months. */
function layOutMonths(times: readonly number[], layOut: MonthLayout): CalendarBlock[] {
  const indexByTime = new Map(times.map((time, index) => [time, index]));
  const last = times[times.length - 1];
  const blocks: CalendarBlock[] = [];
  const start = new Date(1000 * times[0]);
  for (let n = 0; ; n++) {
    const first = Date.UTC(start.getUTCFullYear(), start.getUTCMonth() + n) / 1000;
    if (first > last) return blocks;
    const days = (Date.UTC(start.getUTCFullYear(), start.getUTCMonth() + n + 1) / 1000 - first) / SECONDS_PER_DAY;
    const title = new Date(1000 * first).toLocaleDateString("en-US", { month: "short", year: "numeric", timeZone: "UTC" });
    blocks.push({ title, ...layOut(indexByTime, first, days) });
  }
}

/** Rows are weeks from Monday to Sunday. */
const layOutDays: MonthLayout = (indexByTime, first, days) => {
  const rows: number[][] = [];
  const firstWeekday = weekday(first);
  for (let day = 0; day < days; day++) {
    const cell = firstWeekday + day;
    (rows[Math.floor(cell / 7)] ??= new Array<number>(7).fill(-1))[cell % 7] = indexByTime.get(first + day * SECONDS_PER_DAY) ?? -1;
  }
  return { rowHeadings: [], rows };
};

/** Rows are days of 24 hours. */
const layOutHours: MonthLayout = (indexByTime, first, days) => {
  const rows = Array.from({ length: days }, (_, day) =>
    Array.from({ length: 24 }, (_, hour) => indexByTime.get(first + day * SECONDS_PER_DAY + hour * SECONDS_PER_HOUR) ?? -1),
  );
  return { rowHeadings: rows.map((_, day) => `${WEEKDAYS[weekday(first + day * SECONDS_PER_DAY)]} ${day + 1}`), rows };
};

/** Weekday in UTC: 0 for Monday to 6 for Sunday. */
export function weekday(seconds: number): number {
  return (new Date(1000 * seconds).getUTCDay() + 6) % 7;
}

/** Number of the page that contains a partition; 0 if no page does. */
export function findPage(pages: readonly CalendarBlock[][], index: number): number {
  const page = pages.findIndex((blocks) => blocks.some(({ rows }) => rows.some((row) => row.includes(index))));
  return Math.max(0, page);
}

/** Target of an arrow key: the next partition to the left or right, or the nearest to a week (or day) above or below. */
export function neighbourIndex(times: readonly number[], layout: Layout, index: number, across: number, down: number): number {
  const last = times.length - 1;
  const clamp = (candidate: number) => Math.max(0, Math.min(last, candidate));
  if (across || layout === "list") return clamp(index + across + down);
  const target = times[index] + down * (layout === "days" ? 7 * SECONDS_PER_DAY : SECONDS_PER_DAY);
  let nearest = index;
  for (let candidate = index; candidate >= 0 && candidate <= last; candidate += down) {
    if (Math.abs(times[candidate] - target) < Math.abs(times[nearest] - target)) nearest = candidate;
    if ((times[candidate] - target) * down >= 0) break;
  }
  return nearest;
}
