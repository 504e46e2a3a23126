// Tooltip of a heat map cell, and its description for screen readers.

import { formatMetric } from "../data/format";
import type { CellAnswer } from "../data/protocol";
import { h, renderName } from "../ui/dom";

const MAX_ANOMALIES = 3;

/** Tooltip content of a cell. */
export function cellTooltip(title: string, cell: CellAnswer): HTMLElement[] {
  const expected = expectedText(cell);
  const score = cell.score ? h("div", { class: "tg-muted" }, `score ${cell.score.toFixed(1)} by `, renderName(cell.detector ?? "", 40)) : null;
  const restated = (cell.version ?? 1) > 1 ? h("div", { class: "tg-muted" }, `version ${cell.version}: restated`) : null;
  const anomalies = cell.anomalies
    .slice(0, MAX_ANOMALIES)
    .map(({ severity, status, explanation }) => h("div", { class: "tg-anomaly" }, `${severity}, ${status}: `, renderName(explanation, 160)));
  const lines = [
    h("strong", {}, renderName(title, 90)),
    h("div", {}, renderName(cell.partition ?? cell.label)),
    h("div", {}, h("b", {}, valueText(cell)), expected && `, ${expected}`),
    score,
    restated,
    ...anomalies,
  ];
  return lines.filter((line) => line !== null);
}

/** One-sentence description of a cell, for screen readers. */
export function cellDescription(title: string, cell: CellAnswer): string {
  const expected = expectedText(cell);
  return `${title}, ${cell.label}: ${valueText(cell)}${expected ? `, ${expected}` : ""}${cell.anomalies.length ? ", an anomaly" : ""}`;
}

function valueText({ status, value, scale }: CellAnswer): string {
  if (status === "absent") return "not measured";
  return status === "finite" ? formatMetric(value, scale) : status;
}

function expectedText({ expected, lower, upper, scale }: CellAnswer): string | null {
  if (expected === undefined || expected === null) return null;
  const unbounded = (lower ?? null) === null && (upper ?? null) === null;
  const format = (number: number | null | undefined) => formatMetric(number, scale);
  return `expected ${format(expected)}${unbounded ? "" : ` (${format(lower)} to ${format(upper)})`}`;
}
