// Partition of the ledger: its title, status symbols and descriptions, delay.

import { weekday, WEEKDAYS } from "./calendar";
import { formatDuration, formatTime } from "./format";

/** Ledger entry of a partition. Times are seconds since 1970; numbers are NaN where unknown. */
export interface Partition {
  /** Null where the partition is missing. */
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

/** Symbols by status, so that colour alone carries no meaning. */
export const STATUS_SYMBOLS: Record<string, string> = {
  measured: "",
  restated: "↻",
  late: "◷",
  missing: "✕",
  gone: "−",
  unmeasured: "?",
};
export const STATUSES = Object.keys(STATUS_SYMBOLS);
export const STATUS_DESCRIPTIONS: Record<string, string> = {
  measured: "Measured",
  restated: "Restated: the content changed after it was first measured",
  late: "Late: it arrived later than usual",
  missing: "Missing: expected by the usual schedule",
  gone: "Gone: it was measured, but is no longer in the table",
  unmeasured: "Not measured: only user-defined metrics were recorded",
};

/** Title of a partition, with its weekday where it has a time. */
export function partitionTitle({ name, time }: Pick<Partition, "name" | "time">): string {
  const day = Number.isNaN(time) ? "" : WEEKDAYS[weekday(time)];
  if (name === null) return `${day} ${formatTime(time)}`;
  return `${name || "the table"}${day && ` (${day})`}`;
}

export function delayText({ delay }: Pick<Partition, "delay">): string {
  if (Number.isNaN(delay)) return "";
  return `${formatDuration(delay)} ${delay < 0 ? "before" : "after"} its end`;
}

/** Format a time as UTC; empty if it is not known. */
export function formatKnownTime(seconds: number): string {
  return Number.isNaN(seconds) ? "" : `${formatTime(seconds)} UTC`;
}

/** Known times with their names; equal ones, as of a partition that is measured once it arrives, are told once. */
export function mergeEqualTimes(times: readonly (readonly [name: string, seconds: number])[]): [name: string, text: string][] {
  const names = new Map<string, string[]>();
  for (const [name, seconds] of times) names.set(formatKnownTime(seconds), [...(names.get(formatKnownTime(seconds)) ?? []), name]);
  names.delete("");
  return [...names].map(([text, equalNames]) => {
    const joined = equalNames.join(", ");
    return [joined[0].toUpperCase() + joined.slice(1), text];
  });
}
