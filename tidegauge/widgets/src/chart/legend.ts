// Legend of time series charts: what bands, lines and markers mean, of those that a chart may show.

export interface Legend {
  /** Whether expectations are shown. */
  band: boolean;
  /** Name of the past that is laid over, such as `a week earlier`; null for none. */
  past?: string | null;
  /** Whether markers of restatements, labels and missing numbers may occur: they do in charts that can be explored. */
  explorable?: boolean;
}

/** Legend as a line of text. */
export function legendText({ band, past = null, explorable = true }: Legend): string {
  const parts = [
    band && "▒ usual range, ╌ expected",
    past && `┈ ${past}`,
    // The rate of false alarms is held over all series of a table, not for each range on its own.
    `▲▼ anomaly, filled by severity${band ? "; inside the usual range: by a limit of its own, or together with other series" : ""}`,
    explorable && "⚑ labelled, ░ labelled range",
    "○─ restated: previous value",
    explorable && "on the axis: × failed, ○ empty, ◇ not finite",
  ];
  return parts.filter(Boolean).join(" · ");
}
