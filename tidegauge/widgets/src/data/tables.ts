// Tables of the home page: their health, filtered.

import { formatAge } from "./format";
import type { AnswerTo } from "./kernel";

/** Health states of tables, the worst first. */
export const HEALTH_STATES = [
  "error", "failed run", "failed analyzers", "failing checks", "warning", "info", "not scored", "ok", "not measured",
] as const;

/** Health of a table; unknown numbers are NaN. */
export interface TableHealth {
  dataset: string;
  health: string;
  errors: number;
  warnings: number;
  infos: number;
  snoozed: number;
  failing: number;
  knownFailures: number;
  /** Number of checks that pass on all current data. */
  passing: number;
  newest: string | null;
  time: number;
  previous: number;
  arrived: number;
  size: number;
  sizeSeries: number;
  completeness: number;
  lowest: number;
  runStatus: string | null;
  runStarted: number;
  owner: string | null;
  tags: string | null;
}

/** Tables of the kernel's answer, in its order. */
export function readTables({ data, arrays }: AnswerTo<"tables">): TableHealth[] {
  const number = (name: string, n: number) => arrays[name]?.[n] ?? NaN;
  const text = (name: string, n: number) => data.strings[name]?.[n] ?? null;
  return data.datasets.map((dataset, n) => ({
    dataset,
    health: text("health", n) ?? "",
    errors: number("errors", n),
    warnings: number("warnings", n),
    infos: number("infos", n),
    snoozed: number("snoozed", n),
    failing: number("failing", n),
    knownFailures: number("failing_known", n),
    passing: number("passing", n),
    newest: text("newest", n),
    time: number("time", n),
    previous: number("previous", n),
    arrived: number("arrived_at", n),
    // Without the metric Size, use the number of rows of the newest partition.
    size: Number.isNaN(number("size", n)) ? number("rows", n) : number("size", n),
    sizeSeries: number("size_series", n),
    completeness: number("completeness", n),
    lowest: number("lowest", n),
    runStatus: text("run_status", n),
    runStarted: number("run_started_at", n),
    owner: text("owner", n),
    tags: text("tags", n),
  }));
}

/** Filter tables by words in name, health, owner or tags, and by health unless it is empty. */
export function filterTables(tables: readonly TableHealth[], text: string, health: string): TableHealth[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return tables.filter((table) => {
    if (health && table.health !== health) return false;
    const searchedText = [table.dataset, table.health, table.owner, table.tags].join("\n").toLowerCase();
    return words.every((word) => searchedText.includes(word));
  });
}

/** Age of the newest partition, and time since its arrival. They differ for partitions that arrive late. */
export function newestAges(table: TableHealth, now: number): string {
  const partitionAge = Number.isNaN(table.time) ? "" : `of ${formatAge(table.time, now)}`;
  const arrivalAge = Number.isNaN(table.arrived) ? "" : `arrived ${formatAge(table.arrived, now)}`;
  return [partitionAge, arrivalAge].filter(Boolean).join(", ");
}
