// One partition of the ledger, and how it is told of.

import { duration, weekday, WEEKDAYS } from "./calendar";
import { moment } from "./format";

/** Times in seconds since 1970; NaN where something is not known. */
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
  /** Seconds from the partition's end to its arrival; negative if it came before. */
  delay: number;
  anomalies: number;
  worst: string | null;
}

/** What shows a status beside its colour. */
export const SYMBOLS: Record<string, string> = {
  measured: "",
  restated: "↻",
  late: "◷",
  missing: "✕",
  gone: "−",
  unmeasured: "?",
};
export const STATUSES = Object.keys(SYMBOLS);
export const MEANINGS: Record<string, string> = {
  measured: "Measured",
  restated: "Restated: its content changed after it was measured first",
  late: "Late: it came later than is usual",
  missing: "Missing: its like usually is there",
  gone: "Gone: it was measured and is no longer in the table",
  unmeasured: "Not measured: only numbers were recorded for it",
};

/** What a partition is called, with its weekday where it has a time. */
export function titleOf({ name, time }: Pick<Partition, "name" | "time">): string {
  const day = Number.isNaN(time) ? "" : WEEKDAYS[weekday(time)];
  if (name === null) return `${day} ${moment(time)}`;
  return `${name || "the table"}${day && ` (${day})`}`;
}

export function delayOf({ delay }: Pick<Partition, "delay">): string {
  if (Number.isNaN(delay)) return "";
  return `${duration(delay)} ${delay < 0 ? "before" : "after"} its end`;
}
