// Axes of charts: moments in UTC, labels where there is no time, numbers with as many digits as they need.

import uPlot from "uplot";
import { number } from "./format";
import { FONT } from "./marks";
import type { Axis } from "./points";
import type { Theme } from "./theme";

const DAY = 86400;

/** A moment for uPlot, in UTC. */
export function utc(seconds: number): Date {
  return uPlot.tzDate(new Date(1000 * seconds), "Etc/UTC");
}

function axisStyle(theme: Theme, small: boolean): uPlot.Axis {
  const line = { stroke: theme.faint, width: 1 };
  return { stroke: theme.muted, font: `${small ? 10 : 11}px ${FONT}`, grid: line, ticks: { ...line, size: small ? 3 : 5 }, gap: 3 };
}

export function xAxis(theme: Theme, small: boolean, axis: Axis, labels: readonly string[]): uPlot.Axis {
  const style = { ...axisStyle(theme, small), size: small ? 20 : 30 };
  if (axis.timed) return { ...style, space: small ? 70 : 90, values: (_, splits, __, ___, step) => splits.map((at) => timeText(at, step)) };
  const name = (at: number) => labels[axis.columns[at]] ?? "";
  return {
    ...style,
    space: small ? 90 : 130,
    incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000],
    values: (_, splits) => splits.map((at) => (Number.isInteger(at) ? shortLabel(name(at)) : "")),
  };
}

function shortLabel(text: string): string {
  return text.length > 18 ? `…${text.slice(-17)}` : text;
}

/** A moment as exactly as the distance of the ticks needs it. */
export function timeText(seconds: number, step: number): string {
  const text = new Date(1000 * seconds).toISOString();
  if (step >= 365 * DAY) return text.slice(0, 4);
  if (step >= 28 * DAY) return text.slice(0, 7);
  if (step >= DAY) return text.slice(0, 10);
  return text.slice(5, 16).replace("T", " ");
}

export function yAxis(theme: Theme, small: boolean, log = false): uPlot.Axis {
  return {
    ...axisStyle(theme, small),
    space: small ? 22 : 34,
    size: (u, values, at, cycle) => {
      if (cycle > 1) return (u.axes[at] as unknown as { _size: number })._size;
      const longest = Math.max(0, ...(values ?? []).map((text) => (text ? String(text).length : 0)));
      return Math.max(small ? 30 : 40, longest * (small ? 5.6 : 6.3) + 12);
    },
    values: (_, splits, __, ___, step) => splits.map((at) => (at === null ? null : log ? number(at) : tickText(at, step))),
    ...(log && { splits: (_: uPlot, __: number, low: number, high: number) => logTicks(low, high), filter: (_: uPlot, splits: number[]) => splits }),
  };
}

/** A number with as many digits as tell it from its neighbours. */
export function tickText(value: number, step: number): string {
  if (Math.abs(value) >= 1e9 || (step < 1e-6 && value !== 0)) return value.toExponential(2);
  const digits = Math.min(8, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
  return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** Round numbers between two, few enough to be written on a logarithmic axis. */
export function logTicks(low: number, high: number): number[] {
  const [first, last] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  const within = (mantissas: readonly number[]) => {
    const found: number[] = [];
    for (let power = first; power <= last; power++) found.push(...mantissas.map((one) => Number(`${one}e${power}`)));
    return found.filter((one) => one >= low && one <= high);
  };
  const few = within([1, 2, 5]);
  if (few.length > 12) return within([1]);
  return few.length > 2 ? few : within([1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9]);
}
