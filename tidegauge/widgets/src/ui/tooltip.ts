// Tooltip of a point: partition, value, expectation, versions, anomalies and labels.

import { formatMetric, formatNumber } from "../data/format";
import type { SeriesLabel } from "../data/protocol";
import { parseWindowEnd, restatements, type SeriesAnswer, userLabels } from "../data/timeseries";
import { h, renderName } from "./dom";

const MAX_LINES = 3;

/** Tooltip content of a point; `unit` is the divisor of indexed values. */
export function pointTooltip(answer: SeriesAnswer, row: number, column: number, unit: number): HTMLElement[] {
  const { data, arrays } = answer;
  const cell = row * data.labels.length + column;
  const status = data.statuses[arrays.status[cell]];
  const format = (number: number) => formatMetric(number, data.series[row].scale);
  const value = status === "finite" ? format(arrays.value[cell]) : status === "absent" ? "not measured" : status;
  const { ranges, points } = userLabels(answer, row);
  const oldVersions = restatements(answer, row).filter(([restated]) => restated === column);
  const rangesHere = ranges.filter((label) => covers(answer, label, column));
  const anomalies = data.anomalies.filter((anomaly) => anomaly.row === row && anomaly.column === column);
  return [
    h("div", {}, renderName(data.labels[column])),
    h("div", {}, h("b", {}, value), unit === 1 || status !== "finite" ? null : ` (index ${formatNumber(arrays.value[cell] / unit)})`, expectedText(format, arrays.expected[cell], arrays.lower[cell], arrays.upper[cell])),
    versionText(format, arrays.version[cell], oldVersions),
    ...anomalies.slice(0, MAX_LINES).map(({ severity, status, explanation }) => h("div", { class: "tg-anomaly" }, `${severity}, ${status}: `, renderName(explanation, 260))),
    ...[...(points.get(column) ?? []), ...rangesHere].slice(-MAX_LINES).map(labelLine),
  ].filter((line) => line !== null);
}

function expectedText(format: (value: number) => string, expected: number, lower: number, upper: number): string | null {
  if (Number.isNaN(expected)) return null;
  const band = Number.isNaN(lower) && Number.isNaN(upper) ? "" : ` (${format(lower)} to ${format(upper)})`;
  return `, expected ${format(expected)}${band}`;
}

function versionText(format: (value: number) => string, version: number, oldVersions: [number, number, number][]): HTMLElement | null {
  if (version < 2) return null;
  const superseded = oldVersions.map(([, number, value]) => `${format(value)} in version ${number}`).join(", ");
  return h("div", { class: "tg-muted" }, `version ${version}${superseded ? `; was ${superseded}` : ""}`);
}

function labelLine({ label, note, by: author }: SeriesLabel): HTMLElement {
  const text = note === null ? null : renderName(`: ${note}`, 200);
  return h("div", { class: "tg-label" }, h("b", {}, label), text, h("span", { class: "tg-muted" }, " by ", renderName(author ?? "unknown", 40)));
}

/** Check that a labeled range contains a column. */
function covers({ data, arrays }: SeriesAnswer, label: SeriesLabel, column: number): boolean {
  const time = arrays.times[column];
  if (Number.isNaN(time)) return false;
  const axis = { columns: [], x: [], timed: true };
  const [since, until] = [parseWindowEnd(axis, data.labels, label.since), parseWindowEnd(axis, data.labels, label.until)];
  return (since === null || time >= since) && (until === null || time <= until);
}
