// Partition of the ledger: its title, status symbols and descriptions, delay.

import { weekday, WEEKDAYS } from "./calendar";
import { formatDuration, formatTime } from "./format";

/** Ledger entry of a partition. Times are in seconds since 1970; unknown numbers are NaN. */
export interface Partition {
  /** Null if the partition is missing. */
  name: string | null;
  segment: string;
  status: string;
  time: number;
  late: boolean;
  version: number;
  rows: number;
  firstSeen: number;
  arrived: number;
  measured: number;
  gone: number;
  /** Seconds from the partition's end to its arrival; negative if it arrived before its end. */
  delay: number;
  anomalies: number;
  worst: string | null;
}

/** Symbols by status, so that the meaning does not depend on colour alone. */
export const STATUS_SYMBOLS: Record<string, string> = {
  measured: "",
  restated: "↻",
  late: "◷",
  missing: "✕",
  gone: "−",
  unmeasured: "?",
};
/** Statuses of partitions, in the order of the legend. */
export const STATUSES = Object.keys(STATUS_SYMBOLS);
/** Descriptions by status. */
export const STATUS_DESCRIPTIONS: Record<string, string> = {
  measured: "Measured",
  restated: "Restated: the content changed after it was first measured",
  late: "Late: it arrived later than usual",
  missing: "Missing: expected by the usual schedule",
  gone: "Gone: it was measured, but is no longer in the table",
  unmeasured: "Not measured: only user-defined metrics were recorded",
};

/** Title of a partition, with its weekday if it has a time. */
export function partitionTitle({ name, time }: Pick<Partition, "name" | "time">): string {
  const day = Number.isNaN(time) ? "" : WEEKDAYS[weekday(time)];
  if (name === null) return `${day} ${formatTime(time)}`;
  return `${name || "the table"}${day && ` (${day})`}`;
}

/** Describe the delay of a partition; empty if unknown. */
export function delayText({ delay }: Pick<Partition, "delay">): string {
  if (Number.isNaN(delay)) return "";
  return `${formatDuration(delay)} ${delay < 0 ? "before" : "after"} its end`;
}

/** Format a time as UTC; empty for NaN. */
export function formatKnownTime(seconds: number): string {
  return Number.isNaN(seconds) ? "" : `${formatTime(seconds)} UTC`;
}

/** Format known times with their names. Names with the same time, such as arrival and measurement, share an entry. */
export function mergeEqualTimes(times: readonly (readonly [name: string, seconds: number])[]): [name: string, text: string][] {
  const names = new Map<string, string[]>();
  for (const [name, seconds] of times) names.set(formatKnownTime(seconds), [...(names.get(formatKnownTime(seconds)) ?? []), name]);
  names.delete("");
  return [...names].map(([text, equalNames]) => {
    const joined = equalNames.join(", ");
    return [joined[0].toUpperCase() + joined.slice(1), text];
  });
}
