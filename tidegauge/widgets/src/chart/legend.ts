// Legend of time series charts: the meaning of the bands, lines and markers that are drawn.

import { type SeriesAnswer, restatements, userLabels } from "../data/timeseries";

/** Marks of a chart. */
export interface DrawnMarks {
  anomalies: boolean;
  /** Whether an anomaly is inside of the usual range of its series. */
  insideBand: boolean;
  labels: boolean;
  labelRanges: boolean;
  restated: boolean;
  failed: boolean;
  empty: boolean;
  /** Whether a point is NaN or infinite. */
  notFinite: boolean;
}

/** Elements of a chart that its legend explains. */
export interface Legend extends Partial<DrawnMarks> {
  /** Whether expectations are shown. */
  band: boolean;
  /** Name of the past values in the chart, such as `a week earlier`; null for none. */
  past?: string | null;
}

/** Find the marks that charts of some rows have. */
export function drawnMarks(answer: SeriesAnswer, rows: readonly number[]): DrawnMarks {
  const { data, arrays } = answer;
  const columns = data.labels.length;
  const isRow = new Set(rows);
  const anomalies = data.anomalies.filter(({ row }) => isRow.has(row));
  const statuses = new Set(rows.flatMap((row) => [...new Set(arrays.status.subarray(row * columns, (row + 1) * columns))].map((status) => data.statuses[status])));
  const labels = rows.map((row) => userLabels(answer, row));
  const insideBand = anomalies.some(({ row, column }) => {
    const cell = row * columns + column;
    return arrays.value[cell] >= arrays.lower[cell] && arrays.value[cell] <= arrays.upper[cell];
  });
  return {
    anomalies: anomalies.length > 0,
    insideBand,
    labels: labels.some(({ points }) => points.size > 0),
    labelRanges: labels.some(({ ranges }) => ranges.length > 0),
    restated: rows.some((row) => restatements(answer, row).length > 0),
    failed: statuses.has("failed"),
    empty: statuses.has("empty"),
    notFinite: [...statuses].some((status) => !["finite", "absent", "failed", "empty"].includes(status)),
  };
}

/** Legend as a line of text; empty if nothing needs an explanation. */
export function legendText({ band, past = null, ...marks }: Legend): string {
  const onAxis = [marks.failed && "× failed", marks.empty && "○ empty", marks.notFinite && "◇ not finite"].filter(Boolean);
  const parts = [
    band && "▒ usual range, ╌ expected",
    past && `┈ ${past}`,
    // False alarms are limited over all series of a table, so a point inside its own range can be an anomaly.
    marks.anomalies && `▲▼ anomaly, filled by severity${band && marks.insideBand ? "; inside the usual range: flagged by a separate limit, or together with other series" : ""}`,
    marks.labels && "⚑ labeled",
    marks.labelRanges && "░ labeled range",
    marks.restated && "○─ restated: previous value",
    onAxis.length && `on the axis: ${onAxis.join(", ")}`,
  ];
  return parts.filter(Boolean).join(" · ");
}
