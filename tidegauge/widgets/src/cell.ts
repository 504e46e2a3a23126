// One point of the heat map, told.

import { h, named } from "./dom";
import { number } from "./format";

export interface Cell {
  partition?: string;
  label: string;
  value?: number | null;
  status: string;
  version?: number;
  expected?: number | null;
  lower?: number | null;
  upper?: number | null;
  score?: number | null;
  detector?: string;
  anomalies: { id: number; severity: string; status: string; explanation: string }[];
}

const MOST = 3;

/** The lines beside the pointer. */
export function cellLines(title: string, cell: Cell): HTMLElement[] {
  const expected = expectation(cell);
  const score = cell.score ? h("div", { class: "tg-muted" }, `score ${cell.score.toFixed(1)} by `, named(cell.detector ?? "", 40)) : null;
  const restated = (cell.version ?? 1) > 1 ? h("div", { class: "tg-muted" }, `version ${cell.version}: it was restated`) : null;
  const found = cell.anomalies
    .slice(0, MOST)
    .map((one) => h("div", { class: "tg-found" }, `${one.severity}, ${one.status}: `, named(one.explanation, 160)));
  const lines = [
    h("strong", {}, named(title, 90)),
    h("div", {}, named(cell.partition ?? cell.label)),
    h("div", {}, h("b", {}, valueOf(cell)), expected && `, ${expected}`),
    score,
    restated,
    ...found,
  ];
  return lines.filter((line) => line !== null);
}

/** The same in one sentence, for those who hear it. */
export function cellWords(title: string, cell: Cell): string {
  const expected = expectation(cell);
  return `${title}, ${cell.label}: ${valueOf(cell)}${expected ? `, ${expected}` : ""}${cell.anomalies.length ? ", an anomaly" : ""}`;
}

function valueOf({ status, value }: Cell): string {
  if (status === "absent") return "not measured";
  return status === "finite" ? number(value) : status;
}

function expectation({ expected, lower, upper }: Cell): string | null {
  if (expected === undefined || expected === null) return null;
  const unbounded = (lower ?? null) === null && (upper ?? null) === null;
  return `expected ${number(expected)}${unbounded ? "" : ` (${number(lower)} to ${number(upper)})`}`;
}
