// Numbers and times as people read them.

export function number(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e9 || size < 1e-4)) return value.toExponential(3);
  if (size >= 1000 || Number.isInteger(value)) {
    return value.toLocaleString("en-US", { maximumFractionDigits: size >= 1e5 ? 0 : 2 });
  }
  return String(Number(value.toPrecision(4)));
}

/** A share as a change: +12 %. */
export function percent(share: number | null): string {
  if (share === null || Number.isNaN(share)) return "–";
  const points = 100 * share;
  const digits = Math.abs(points) < 10 ? 1 : 0;
  return `${points > 0 ? "+" : ""}${points.toFixed(digits)} %`;
}

/** A rate: 1.2 %. */
export function rate(share: number | null | undefined): string {
  if (share === null || share === undefined || Number.isNaN(share)) return "–";
  const points = 100 * share;
  const size = Math.abs(points);
  if (size > 0 && size < 0.01) return "< 0.01 %";
  return `${Number(points.toFixed(size < 1 ? 2 : size < 10 ? 1 : 0))} %`;
}

/** Seconds since 1970 as a date, with the time where there is one; in UTC. */
export function moment(seconds: number | null): string {
  if (seconds === null || Number.isNaN(seconds)) return "–";
  const text = new Date(1000 * seconds).toISOString().replace("T", " ").slice(0, 16);
  return text.endsWith(" 00:00") ? text.slice(0, 10) : text;
}

export function many(count: number, one: string, more = `${one}s`): string {
  return `${count.toLocaleString("en-US")} ${count === 1 ? one : more}`;
}
