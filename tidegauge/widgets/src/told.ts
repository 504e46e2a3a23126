// What is known of one point, in words.

import { h, named } from "./dom";
import { number } from "./format";
import type { Answer } from "./link";
import { olderOf, placeOf, type Said, saidOf, type SeriesTold } from "./points";

const MOST = 3;

/** Tell of a point: its partition, value, what was expected, versions, anomalies, and what people said. */
export function describe(answer: Answer<SeriesTold>, row: number, column: number, unit: number): HTMLElement[] {
  const { told, arrays } = answer;
  const at = row * told.labels.length + column;
  const status = told.statuses[arrays.status[at]];
  const value = status === "finite" ? number(arrays.value[at]) : status === "absent" ? "not measured" : status;
  const { ranges, points } = saidOf(answer, row);
  const older = olderOf(answer, row).filter(([place]) => place === column);
  const here = ranges.filter((one) => covers(answer, one, column));
  const anomalies = told.anomalies.filter((one) => one.row === row && one.column === column);
  return [
    h("div", {}, named(told.labels[column])),
    h("div", {}, h("b", {}, value), unit === 1 || status !== "finite" ? null : ` (index ${number(arrays.value[at] / unit)})`, expectation(arrays.expected[at], arrays.lower[at], arrays.upper[at])),
    versions(arrays.version[at], older),
    ...anomalies.slice(0, MOST).map((one) => h("div", { class: "tg-found" }, `${one.severity}, ${one.status}: `, named(one.explanation, 260))),
    ...[...(points.get(column) ?? []), ...here].slice(-MOST).map(saying),
  ].filter((line) => line !== null);
}

function expectation(expected: number, lower: number, upper: number): string | null {
  if (Number.isNaN(expected)) return null;
  const band = Number.isNaN(lower) && Number.isNaN(upper) ? "" : ` (${number(lower)} to ${number(upper)})`;
  return `, expected ${number(expected)}${band}`;
}

function versions(version: number, older: [number, number, number][]): HTMLElement | null {
  if (version < 2) return null;
  const before = older.map(([, of, value]) => `${number(value)} in version ${of}`).join(", ");
  return h("div", { class: "tg-muted" }, `version ${version}${before ? `; was ${before}` : ""}`);
}

function saying(one: Said): HTMLElement {
  const note = one.note === null ? null : named(`: ${one.note}`, 200);
  return h("div", { class: "tg-said" }, h("b", {}, one.label), note, h("span", { class: "tg-muted" }, " by ", named(one.by ?? "somebody", 40)));
}

function covers({ told, arrays }: Answer<SeriesTold>, one: Said, column: number): boolean {
  const time = arrays.times[column];
  if (Number.isNaN(time)) return false;
  const axis = { columns: [], x: [], timed: true };
  const [since, until] = [placeOf(axis, told.labels, one.since), placeOf(axis, told.labels, one.until)];
  return (since === null || time >= since) && (until === null || time <= until);
}
