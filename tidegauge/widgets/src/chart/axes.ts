// Chart axes (uPlot): UTC times, labels of partitions without a time, numbers with as many digits as the ticks need.

import uPlot from "uplot";
import { formatValue, truncateMiddle } from "../data/format";
import type { Axis } from "../data/timeseries";
import type { Theme } from "../ui/theme";
import { FONT_FAMILY } from "./annotations";

const SECONDS_PER_DAY = 86400;

/** UTC date for uPlot. */
export function utc(seconds: number): Date {
  return uPlot.tzDate(new Date(1000 * seconds), "Etc/UTC");
}

function axisStyle(theme: Theme, small: boolean): uPlot.Axis {
  const line = { stroke: theme.faint, width: 1 };
  return { stroke: theme.muted, font: `${small ? 10 : 11}px ${FONT_FAMILY}`, grid: line, ticks: { ...line, size: small ? 3 : 5 }, gap: 3 };
}

/** Title of an axis, truncated to the length of the axis in pixels. */
export function axisTitle(text: string, length: number, small = false): Partial<uPlot.Axis> {
  const label = truncateMiddle(text, Math.max(4, Math.floor(length / (small ? 5.6 : 6.3))));
  return { label, labelSize: small ? 14 : 18, labelGap: 2, labelFont: `${small ? 10 : 11}px ${FONT_FAMILY}` };
}

/** X axis with times, or with labels if partitions have no time. */
export function xAxis(theme: Theme, small: boolean, axis: Axis, labels: readonly string[]): uPlot.Axis {
  const style = { ...axisStyle(theme, small), size: small ? 20 : 30 };
  if (axis.timed) return { ...style, space: small ? 60 : 90, values: (_, splits, __, ___, step) => splits.map((tick) => timeText(tick, step)) };
  const name = (tick: number) => labels[axis.columns[tick]] ?? "";
  return {
    ...style,
    space: small ? 90 : 130,
    incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000],
    values: (_, splits) => splits.map((tick) => (Number.isInteger(tick) ? shortLabel(name(tick)) : "")),
  };
}

function shortLabel(text: string): string {
  return text.length > 18 ? `…${text.slice(-17)}` : text;
}

/** Label of a time tick: year, month, date or minutes, by the distance of the ticks. */
export function timeText(seconds: number, step: number): string {
  const text = new Date(1000 * seconds).toISOString();
  if (step >= 365 * SECONDS_PER_DAY) return text.slice(0, 4);
  if (step >= 28 * SECONDS_PER_DAY) return text.slice(0, 7);
  if (step >= SECONDS_PER_DAY) return text.slice(0, 10);
  return text.slice(5, 16).replace("T", " ");
}

/** Y axis with numbers or per cent, on a linear or logarithmic scale. */
export function yAxis(theme: Theme, small: boolean, log = false, percent = false): uPlot.Axis {
  const label = (tick: number, step: number) => (log ? formatValue(tick, percent) : percent ? `${tickText(100 * tick, 100 * step)}%` : tickText(tick, step));
  return {
    ...axisStyle(theme, small),
    space: small ? 22 : 34,
    size: (u, values, axisIndex, cycle) => {
      if (cycle > 1) return (u.axes[axisIndex] as unknown as { _size: number })._size;
      const longest = Math.max(0, ...(values ?? []).map((label) => (label ? String(label).length : 0)));
      return Math.max(small ? 30 : 40, longest * (small ? 5.6 : 6.3) + 12);
    },
    values: (_, splits, __, ___, step) => splits.map((tick) => (tick === null ? null : label(tick, step))),
    ...(log && { splits: (_: uPlot, __: number, low: number, high: number) => logTicks(low, high), filter: (_: uPlot, splits: number[]) => splits }),
  };
}

/** Label of a number tick, with enough digits to distinguish neighboring ticks. */
export function tickText(value: number, step: number): string {
  if (Math.abs(value) >= 1e9 || (step < 1e-6 && value !== 0)) return value.toExponential(2);
  let digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  // A step such as 2.5 or 0.25 needs one more digit than its order of magnitude.
  const scaled = step * 10 ** digits;
  if (Math.abs(scaled - Math.round(scaled)) > 1e-6 * scaled) digits++;
  digits = Math.min(8, digits);
  return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** Logarithmic ticks: round numbers within a range, few enough to label. */
export function logTicks(low: number, high: number): number[] {
  const [first, last] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  const ticksOf = (mantissas: readonly number[]) => {
    const ticks: number[] = [];
    for (let power = first; power <= last; power++) ticks.push(...mantissas.map((mantissa) => Number(`${mantissa}e${power}`)));
    return ticks.filter((tick) => tick >= low && tick <= high);
  };
  const roundTicks = ticksOf([1, 2, 5]);
  if (roundTicks.length > 12) return ticksOf([1]);
  return roundTicks.length > 2 ? roundTicks : ticksOf([1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9]);
}
