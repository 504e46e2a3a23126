// Range of heat map columns: as column numbers, and as the saved ends in an address.

/** Columns of the heat map. */
export interface Columns {
  labels: readonly string[];
  /** Seconds since 1970, ascending. Partitions without a time have NaN and come last. */
  times: ArrayLike<number>;
}

/** Ends of a range: UTC dates or times, or names of partitions without a time; null is the oldest or newest column. */
export interface SavedRange {
  since: string | null;
  until: string | null;
}

const SECONDS_PER_DAY = 86400;

/** Columns `[first, end)` of a saved range; null if both ends are open or no column is in the range. */
export function columnRange(columns: Columns, { since, until }: SavedRange): [number, number] | null {
  if (since === null && until === null) return null;
  const first = since === null ? 0 : firstColumnSince(columns, since);
  const end = until === null ? columns.labels.length : endColumnUntil(columns, until);
  return first < end ? [first, end] : null;
}

/** Columns `[first, end)` with a time in a window in seconds, both ends inclusive; null without any. */
export function columnsWithin({ times }: Columns, [since, until]: readonly [number, number]): [number, number] | null {
  const inside = Array.from(times, (time) => time >= since && time <= until);
  const first = inside.indexOf(true);
  return first < 0 ? null : [first, inside.lastIndexOf(true) + 1];
}

/** Convert columns `[first, end)` to a saved range. It is open at the newest column, so that later columns are included. */
export function savedRange(columns: Columns, first: number, end: number): SavedRange {
  const { labels, times } = columns;
  const last = end - 1;
  // A date without a time includes its entire day, so a column at midnight needs its time.
  const isMidnight = last + 1 < labels.length && times[last + 1] < times[last] + SECONDS_PER_DAY && parseTime(labels[last])?.isDate;
  return { since: labels[first] ?? null, until: end >= labels.length ? null : `${labels[last]}${isMidnight ? " 00:00" : ""}` };
}

function firstColumnSince(columns: Columns, text: string): number {
  const time = parseTime(text);
  if (time === null) return columns.labels.indexOf(text);
  const first = Array.from(columns.times).findIndex((columnTime) => columnTime >= time.seconds);
  return first < 0 ? columns.labels.length : first;
}

function endColumnUntil(columns: Columns, text: string): number {
  const time = parseTime(text);
  if (time === null) return columns.labels.indexOf(text) + 1;
  return Array.from(columns.times).findLastIndex((columnTime) => (time.isDate ? columnTime < time.seconds + SECONDS_PER_DAY : columnTime <= time.seconds)) + 1;
}

/** Parse a UTC date or time; null for other strings, such as the name of a partition. */
function parseTime(text: string): { seconds: number; isDate: boolean } | null {
  const match = /^(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2}(?::\d{2})?))?$/.exec(text);
  const seconds = match ? Date.parse(`${match[1]}T${match[2] ?? "00:00"}Z`) / 1000 : NaN;
  return Number.isNaN(seconds) ? null : { seconds, isDate: match![2] === undefined };
}
