// Legend of time series charts: the meaning of the bands, lines and markers that a chart can have.

/** Elements of a chart that its legend explains. */
export interface Legend {
  /** Whether expectations are shown. */
  band: boolean;
  /** Name of the past values in the chart, such as `a week earlier`; null for none. */
  past?: string | null;
  /** Whether the chart can be explored, so that it also has labels and points without a number. */
  explorable?: boolean;
}

/** Legend as a line of text. */
export function legendText({ band, past = null, explorable = true }: Legend): string {
  const parts = [
    band && "▒ usual range, ╌ expected",
    past && `┈ ${past}`,
    // False alarms are limited over all series of a table, so a point inside its own range can be an anomaly.
    `▲▼ anomaly, filled by severity${band ? "; inside the usual range: flagged by a separate limit, or together with other series" : ""}`,
    explorable && "⚑ labeled, ░ labeled range",
    "○─ restated: previous value",
    explorable && "on the axis: × failed, ○ empty, ◇ not finite",
  ];
  return parts.filter(Boolean).join(" · ");
}
