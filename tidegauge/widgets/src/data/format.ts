// Format numbers, rates, times, durations and counts for display.

/** Format a number with about four significant digits; a dash for null and NaN. */
export function formatNumber(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e9 || size < 1e-4)) return value.toExponential(3);
  if (size >= 1000 || Number.isInteger(value)) {
    return value.toLocaleString("en-US", { maximumFractionDigits: size >= 1e5 ? 0 : 2 });
  }
  return String(Number(value.toPrecision(4)));
}

/**
 * Format a value: shares in per cent, other values as numbers.
 *
 * Shares have three significant digits, or more if they would be rounded to 100%, as `measured` in formatting.py.
 */
export function formatValue(value: number | null | undefined, percent: boolean): string {
  if (!percent || value === null || value === undefined || !(Math.abs(value) <= 100)) return formatNumber(value);
  const hundredths = 100 * value;
  const rest = Math.abs(100 - hundredths);
  const significant = hundredths ? 2 - Math.floor(Math.log10(Math.abs(hundredths))) : 0;
  const digits = Math.min(6, Math.max(0, significant, rest ? -Math.floor(Math.log10(rest)) : 0));
  if (hundredths > 0 && hundredths < 5e-7) return "< 0.000001%"; // not zero
  return `${Number(hundredths.toFixed(digits)).toLocaleString("en-US", { maximumFractionDigits: digits })}%`;
}

/** Format the value of a metric by its scale: ratios as a percentage, times in UTC, other values as numbers. */
export function formatMetric(value: number | null | undefined, scale: string): string {
  if (scale !== "time" || value === null || value === undefined || !(Math.abs(value) <= 8.64e12)) return formatValue(value, scale === "ratio");
  return new Date(1000 * Math.floor(value)).toISOString().replace("T", " ").slice(0, -5);
}

/** Format a change with its sign: changes of shares in percentage points, others as numbers. */
export function formatChange(change: number, percent: boolean): string {
  const inPoints = percent && Number.isFinite(change);
  const points = (100 * change).toFixed(Math.abs(change) < 0.1 ? 2 : 1);
  const text = inPoints ? `${Number(points) ? points : 0} pp` : formatNumber(change);
  return change > 0 && text !== "0 pp" ? `+${text}` : text;
}

/** Format a relative change, such as `+12%`. Only a change of exactly 100% is formatted as 100%. */
export function formatPercent(share: number | null): string {
  if (share === null || Number.isNaN(share)) return "–";
  const percent = 100 * share;
  let digits = Math.abs(percent) < 9.95 ? 1 : 0; // 10%, not 10.0%
  while (digits < 12 && Math.abs(percent) !== 100 && Number(Math.abs(percent).toFixed(digits)) === 100) digits++;
  const text = Math.abs(percent).toFixed(digits);
  const sign = Number(text) === 0 ? "" : percent > 0 ? "+" : "-"; // no -0.0%
  return `${sign}${text}%`;
}

/** Format seconds since 1970 as a UTC date, with hours and minutes unless it is midnight. */
export function formatTime(seconds: number | null): string {
  if (seconds === null || Number.isNaN(seconds)) return "–";
  const text = new Date(1000 * seconds).toISOString().replace("T", " ").slice(0, 16);
  return text.endsWith(" 00:00") ? text.slice(0, 10) : text;
}

/** Text that begins with a capital letter, for headings. */
export function capitalize(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Format a count with its noun: `1 day`, `2,000 rows`. */
export function pluralize(count: number, singular: string, plural = `${singular}s`): string {
  return `${count.toLocaleString("en-US")} ${count === 1 ? singular : plural}`;
}

/** Format an ISO 8601 time as sent by the kernel, like `formatTime`. */
export function formatIsoTime(time: string | null): string {
  return formatTime(time === null ? null : Date.parse(time) / 1000);
}

/** Format a duration in its two largest units: `2 h 5 min`; the sign is dropped. */
export function formatDuration(seconds: number): string {
  const minutes = Math.round(Math.abs(seconds) / 60);
  const parts = [[Math.floor(minutes / 1440), "d"], [Math.floor((minutes % 1440) / 60), "h"], [minutes % 60, "min"]] as const;
  const first = parts.findIndex(([count]) => count > 0);
  if (first < 0) return "0 min";
  const units = parts.slice(first, first + 2).filter(([count]) => count > 0);
  return units.map(([count, unit]) => `${count.toLocaleString("en-US")} ${unit}`).join(" ");
}

/** Format the age of a time in its largest unit: `3 h ago`; `in 2 d` for a future time. */
export function formatAge(seconds: number, now: number): string {
  const age = now - seconds;
  if (Number.isNaN(age)) return "–";
  const size = Math.abs(age);
  const [unit, length] = ([["year", 365 * 86400], ["month", 30 * 86400], ["d", 86400], ["h", 3600], ["min", 60]] as const).find(([, length]) => size >= length * (length > 86400 ? 2 : 1)) ?? ["", 1];
  if (!unit) return "now";
  const count = Math.floor(size / length);
  const text = unit.length > 3 ? pluralize(count, unit) : `${count} ${unit}`;
  return age < 0 ? `in ${text}` : `${text} ago`;
}

/** Number of characters up to which a column of numbers is aligned. */
const MAX_ALIGNED = 12;

/** Split a formatted number before its decimal point; exponent and unit stay with the decimals. */
export function splitDecimals(text: string): [whole: string, decimals: string] {
  const match = /^([-+−]?[\d,]+)(\D.*)?$/.exec(text);
  return match ? [match[1], match[2] ?? ""] : [text, ""];
}

/** Width of the decimals of a column of formatted numbers, in characters; limited so that its numbers stay short. */
export function decimalsWidth(texts: Iterable<string>): number {
  let [whole, decimals] = [0, 0];
  for (const text of texts) {
    const parts = splitDecimals(text);
    whole = Math.max(whole, parts[0].length);
    decimals = Math.max(decimals, parts[1].length);
  }
  return Math.max(0, Math.min(decimals, MAX_ALIGNED - whole));
}

/** Truncate a long string in the middle, because beginnings and ends are more informative. */
export function truncateMiddle(text: string, max: number): string {
  if (text.length <= max) return text;
  const half = Math.floor((max - 1) / 2);
  return `${text.slice(0, max - 1 - half)}…${text.slice(text.length - half)}`;
}
