// Range of columns of the heat map, as columns and as the ends that an address holds.

export interface Columns {
  labels: readonly string[];
  /** Seconds since 1970 in order; NaN for partitions without a time, which come last. */
  times: ArrayLike<number>;
}

/** Ends of a range: dates or times (UTC) as text, or names of partitions without a time; null for the oldest and the newest. */
export interface SavedRange {
  since: string | null;
  until: string | null;
}

const SECONDS_PER_DAY = 86400;

/** Columns `[first, end)` of a saved range; null if nothing is saved, or no column is in it. */
export function columnRange(columns: Columns, { since, until }: SavedRange): [number, number] | null {
  if (since === null && until === null) return null;
  const first = since === null ? 0 : firstColumnSince(columns, since);
  const end = until === null ? columns.labels.length : endColumnUntil(columns, until);
  return first < end ? [first, end] : null;
}

/** Columns `[first, end)` with a time in a window, both ends inclusive, in seconds; null if there are none. */
export function columnsWithin({ times }: Columns, [since, until]: readonly [number, number]): [number, number] | null {
  const inside = Array.from(times, (time) => time >= since && time <= until);
  const first = inside.indexOf(true);
  return first < 0 ? null : [first, inside.lastIndexOf(true) + 1];
}

/** Save the columns `[first, end)`: open at the newest, so that what is measured next is shown, too. */
export function savedRange(columns: Columns, first: number, end: number): SavedRange {
  const { labels, times } = columns;
  const last = end - 1;
  // A date alone is a whole day.
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

/** Parse a date or a time in UTC; null if it is neither, such as the name of a partition. */
function parseTime(text: string): { seconds: number; isDate: boolean } | null {
  const match = /^(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2}(?::\d{2})?))?$/.exec(text);
  const seconds = match ? Date.parse(`${match[1]}T${match[2] ?? "00:00"}Z`) / 1000 : NaN;
  return Number.isNaN(seconds) ? null : { seconds, isDate: match![2] === undefined };
}
