// What is drawn over the lines of a chart: anomalies, what people said, old versions, points without a number.

import type uPlot from "uplot";
import { shortened } from "./dom";
import type { Found, Said } from "./points";
import type { Theme } from "./theme";

export const FONT = 'system-ui, -apple-system, "Segoe UI", sans-serif';

const FILLED: Record<string, number> = { info: 0, warning: 0.4, error: 1 };

export interface Anomaly {
  x: number;
  y: number | null;
  found: Found;
  flagged: boolean;
}

export interface Marked {
  colour: string;
  anomalies: Anomaly[];
  /** Old values and the one that holds now. */
  older: { x: number; old: number; now: number | null }[];
  /** Points without a number, by their status. */
  without: { x: number; status: string }[];
  ranges: { since: number; until: number; said: Said }[];
}

export interface Ended {
  colour: string;
  text: string;
  x: number;
  y: number;
}

/** Draw what people said of ranges, under the lines. */
export function drawRanges(u: uPlot, marked: readonly Marked[], theme: Theme, small: boolean): void {
  const { ctx, bbox } = u;
  const ratio = devicePixelRatio || 1;
  const seen = new Set<Said>();
  within(u, () => {
    for (const { since, until, said } of marked.flatMap(({ ranges }) => ranges)) {
      if (seen.has(said)) continue;
      seen.add(said);
      const left = Math.max(bbox.left, u.valToPos(since, "x", true));
      const right = Math.min(bbox.left + bbox.width, u.valToPos(until, "x", true));
      if (right < left) continue;
      ctx.globalAlpha = 0.1;
      ctx.fillStyle = theme.text;
      ctx.fillRect(left, bbox.top, Math.max(2 * ratio, right - left), bbox.height);
      ctx.globalAlpha = 1;
      if (small) continue;
      ctx.fillStyle = theme.muted;
      ctx.font = `${11 * ratio}px ${FONT}`;
      ctx.textAlign = "left";
      ctx.textBaseline = "top";
      const room = Math.floor(Math.max(right - left, 60 * ratio) / (6 * ratio));
      ctx.fillText(shortened(said.label, Math.max(4, room)), left + 3 * ratio, bbox.top + (2 + 13 * ((seen.size - 1) % 3)) * ratio);
    }
  });
}

/** Draw the marks of all lines. */
export function drawMarks(u: uPlot, marked: readonly Marked[], theme: Theme, small: boolean): void {
  const ratio = devicePixelRatio || 1;
  const size = (small ? 4 : 5.5) * ratio;
  within(u, () => {
    for (const one of marked) {
      drawOlder(u, one, ratio);
      for (const { x, status } of one.without) drawWithout(u, x, status, one.colour, size * 0.7, ratio);
      for (const anomaly of one.anomalies) drawAnomaly(u, anomaly, theme, size, ratio);
    }
  });
}

function drawOlder(u: uPlot, { older, colour }: Marked, ratio: number): void {
  const { ctx, bbox } = u;
  ctx.strokeStyle = colour;
  for (const { x, old, now } of older) {
    if (!Number.isFinite(old)) continue;
    const [left, top] = [u.valToPos(x, "x", true), u.valToPos(old, "y", true)];
    const radius = 3.5 * ratio;
    const end = now === null ? bbox.top + bbox.height : u.valToPos(now, "y", true);
    ctx.lineWidth = ratio;
    ctx.beginPath();
    if (Math.abs(end - top) > radius) {
      ctx.moveTo(left, top + Math.sign(end - top) * radius);
      ctx.lineTo(left, end);
    }
    ctx.moveTo(left + radius, top);
    ctx.arc(left, top, radius, 0, 2 * Math.PI);
    ctx.stroke();
  }
}

/** A cross for what failed, a ring for what was empty, a diamond for what is no finite number. */
function drawWithout(u: uPlot, x: number, status: string, colour: string, size: number, ratio: number): void {
  const { ctx, bbox } = u;
  const [left, top] = [u.valToPos(x, "x", true), bbox.top + bbox.height - size - ratio];
  ctx.strokeStyle = colour;
  ctx.lineWidth = 1.5 * ratio;
  ctx.beginPath();
  if (status === "failed") {
    ctx.moveTo(left - size, top - size);
    ctx.lineTo(left + size, top + size);
    ctx.moveTo(left + size, top - size);
    ctx.lineTo(left - size, top + size);
  } else if (status === "empty") ctx.arc(left, top, size, 0, 2 * Math.PI);
  else polygon(ctx, [[left, top - size], [left + size, top], [left, top + size], [left - size, top]]);
  ctx.stroke();
}

/** A triangle that points where the value went; the graver, the fuller; muted if it was expected. */
function drawAnomaly(u: uPlot, { x, y, found, flagged }: Anomaly, theme: Theme, size: number, ratio: number): void {
  const { ctx, bbox } = u;
  const left = u.valToPos(x, "x", true);
  const low = found.direction === "low";
  const sign = low ? 1 : -1;
  const at = y === null ? bbox.top + bbox.height - 2 * size : u.valToPos(y, "y", true);
  // Beside the point, not on it, but within the chart.
  const middle = Math.min(bbox.top + bbox.height - size - ratio, Math.max(bbox.top + size + ratio, at + sign * 1.6 * size));
  const colour = found.status === "expected" ? theme.muted : theme.warn;
  ctx.beginPath();
  polygon(ctx, [[left, middle + sign * size], [left + size, middle - sign * size * 0.8], [left - size, middle - sign * size * 0.8]]);
  ctx.fillStyle = theme.background;
  ctx.fill();
  ctx.fillStyle = ctx.strokeStyle = colour;
  ctx.lineWidth = 1.5 * ratio;
  ctx.globalAlpha = FILLED[found.severity] ?? 0;
  ctx.fill();
  ctx.globalAlpha = 1;
  ctx.stroke();
  if (!flagged) return;
  const foot = middle - (low ? -1 : 1) * size;
  const top = Math.max(bbox.top, Math.min(foot, middle) - 3.2 * size);
  ctx.beginPath();
  ctx.moveTo(left, Math.min(foot, middle - size));
  ctx.lineTo(left, top);
  ctx.lineTo(left + 1.6 * size, top + 0.6 * size);
  ctx.lineTo(left, top + 1.2 * size);
  ctx.fillStyle = theme.text;
  ctx.strokeStyle = theme.text;
  ctx.lineWidth = ratio;
  ctx.fill();
  ctx.stroke();
}

/** Draw a line at the moment somebody came to see. */
export function drawFocus(u: uPlot, x: number, label: string, theme: Theme): void {
  const { ctx, bbox } = u;
  const ratio = devicePixelRatio || 1;
  within(u, () => {
    const left = u.valToPos(x, "x", true);
    ctx.strokeStyle = theme.accent;
    ctx.lineWidth = ratio;
    ctx.setLineDash([4 * ratio, 3 * ratio]);
    ctx.beginPath();
    ctx.moveTo(left, bbox.top);
    ctx.lineTo(left, bbox.top + bbox.height);
    ctx.stroke();
    ctx.setLineDash([]);
    ctx.fillStyle = theme.accent;
    ctx.font = `${11 * ratio}px ${FONT}`;
    ctx.textBaseline = "top";
    const right = left > bbox.left + bbox.width * 0.8;
    ctx.textAlign = right ? "right" : "left";
    ctx.fillText(plain(label, 30), left + (right ? -4 : 4) * ratio, bbox.top + 2 * ratio);
  });
}

/** Write names beside the ends of lines, as many as there is room for, each joined to its line. */
export function drawEnds(u: uPlot, ends: readonly Ended[], room: number): void {
  const { ctx, bbox } = u;
  const ratio = devicePixelRatio || 1;
  const height = 13 * ratio;
  const most = Math.max(1, Math.floor(bbox.height / height));
  const placed = ends
    .map((end) => ({ ...end, at: Math.min(bbox.top + bbox.height, Math.max(bbox.top, u.valToPos(end.y, "y", true))) }))
    .sort((a, b) => a.at - b.at);
  const every = Math.ceil(placed.length / most);
  const shown = placed.filter((_, n) => n % every === 0);
  const tops = spread(shown.map(({ at }) => at), height, bbox.top + height / 2, bbox.top + bbox.height - height / 2);
  ctx.save();
  ctx.font = `${11 * ratio}px ${FONT}`;
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  ctx.lineWidth = ratio;
  shown.forEach(({ colour, text, x, at }, n) => {
    const from = Math.min(bbox.left + bbox.width, u.valToPos(x, "x", true));
    const left = bbox.left + bbox.width + 12 * ratio;
    ctx.strokeStyle = ctx.fillStyle = colour;
    ctx.globalAlpha = 0.5;
    ctx.beginPath();
    ctx.moveTo(from + 2 * ratio, at);
    ctx.lineTo(left - 2 * ratio, tops[n]);
    ctx.stroke();
    ctx.globalAlpha = 1;
    const share = ((room - 14) * ratio) / ctx.measureText(text).width;
    ctx.fillText(plain(text, share < 1 ? Math.floor(share * text.length) - 1 : text.length), left, tops[n]);
  });
  ctx.restore();
}

/** Move places apart, in their order, staying between two ends if they can. */
export function spread(places: readonly number[], apart: number, first: number, last: number): number[] {
  const out = places.slice();
  for (let n = 0; n < out.length; n++) out[n] = Math.max(out[n], n ? out[n - 1] + apart : first);
  for (let n = out.length - 1; n >= 0; n--) out[n] = Math.min(out[n], n < out.length - 1 ? out[n + 1] - apart : last);
  return out;
}

/** A name for a canvas: short, and without marks that turn the direction of what stands beside it. */
function plain(text: string, most: number): string {
  return shortened(text.replace(/[\u202a-\u202e\u2066-\u2069]/g, "\u{fffd}"), Math.max(4, most));
}

function polygon(ctx: CanvasRenderingContext2D, points: [number, number][]): void {
  points.forEach(([x, y], n) => (n ? ctx.lineTo(x, y) : ctx.moveTo(x, y)));
  ctx.closePath();
}

function within(u: uPlot, draw: () => void): void {
  const { ctx, bbox } = u;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  draw();
  ctx.restore();
}
