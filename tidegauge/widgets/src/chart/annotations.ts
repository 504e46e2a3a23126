// Chart annotations: anomaly markers, label ranges, restated values, points without a number, focus line, end labels.

import type uPlot from "uplot";
import { truncateMiddle } from "../data/format";
import type { SeriesAnomaly, SeriesLabel } from "../data/protocol";
import type { Theme } from "../ui/theme";

/** Font of text on canvases. */
export const FONT_FAMILY = 'system-ui, -apple-system, "Segoe UI", sans-serif';

const SEVERITY_OPACITY: Record<string, number> = { info: 0, warning: 0.4, error: 1 };

/** Anomaly at a point of a chart. */
export interface AnomalyMark {
  x: number;
  y: number | null;
  anomaly: SeriesAnomaly;
  /** Whether a user labeled the anomaly. */
  labelled: boolean;
}

/** Annotations of a line. */
export interface LineAnnotations {
  colour: string;
  anomalies: AnomalyMark[];
  /** Replaced values, with the current value of the point. */
  restated: { x: number; oldValue: number; currentValue: number | null }[];
  /** Points without a number, with their status. */
  missing: { x: number; status: string }[];
  ranges: { since: number; until: number; label: SeriesLabel }[];
}

/** Label at the end of a line. */
export interface EndLabel {
  colour: string;
  text: string;
  x: number;
  y: number;
}

/** Draw labeled ranges, below the lines. */
export function drawLabelRanges(u: uPlot, annotations: readonly LineAnnotations[], theme: Theme, small: boolean): void {
  const { ctx, bbox } = u;
  const ratio = devicePixelRatio || 1;
  const drawnLabels = new Set<SeriesLabel>();
  clipped(u, () => {
    for (const { since, until, label } of annotations.flatMap(({ ranges }) => ranges)) {
      if (drawnLabels.has(label)) continue;
      drawnLabels.add(label);
      const left = Math.max(bbox.left, u.valToPos(since, "x", true));
      const right = Math.min(bbox.left + bbox.width, u.valToPos(until, "x", true));
      if (right < left) continue;
      ctx.globalAlpha = 0.1;
      ctx.fillStyle = theme.text;
      ctx.fillRect(left, bbox.top, Math.max(2 * ratio, right - left), bbox.height);
      ctx.globalAlpha = 1;
      if (small) continue;
      ctx.fillStyle = theme.muted;
      ctx.font = `${11 * ratio}px ${FONT_FAMILY}`;
      ctx.textAlign = "left";
      ctx.textBaseline = "top";
      const characters = Math.floor(Math.max(right - left, 60 * ratio) / (6 * ratio));
      ctx.fillText(truncateMiddle(label.label, Math.max(4, characters)), left + 3 * ratio, bbox.top + (2 + 13 * ((drawnLabels.size - 1) % 3)) * ratio);
    }
  });
}

/** Draw the anomaly markers, restated values and missing points of all lines. */
export function drawAnnotations(u: uPlot, annotations: readonly LineAnnotations[], theme: Theme, small: boolean): void {
  const ratio = devicePixelRatio || 1;
  const size = (small ? 4 : 5.5) * ratio;
  clipped(u, () => {
    for (const line of annotations) {
      drawRestated(u, line, ratio);
      for (const { x, status } of line.missing) drawMissing(u, x, status, line.colour, size * 0.7, ratio);
      // With several lines, the outline says which line the anomaly belongs to.
      for (const anomaly of line.anomalies) drawAnomaly(u, anomaly, theme, annotations.length > 1 ? line.colour : null, size, ratio);
    }
  });
}

function drawRestated(u: uPlot, { restated, colour }: LineAnnotations, ratio: number): void {
  const { ctx, bbox } = u;
  ctx.strokeStyle = colour;
  for (const { x, oldValue, currentValue } of restated) {
    if (!Number.isFinite(oldValue)) continue;
    const [left, top] = [u.valToPos(x, "x", true), u.valToPos(oldValue, "y", true)];
    const radius = 3.5 * ratio;
    const end = currentValue === null ? bbox.top + bbox.height : u.valToPos(currentValue, "y", true);
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

/** Marker of a point without a number: a cross for failed, a ring for empty, a diamond for NaN and infinities. */
function drawMissing(u: uPlot, x: number, status: string, colour: string, size: number, ratio: number): void {
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

/** Anomaly marker: a triangle in the direction of the deviation, filled by severity, muted if expected, with a flag if labeled. */
function drawAnomaly(u: uPlot, { x, y, anomaly, labelled }: AnomalyMark, theme: Theme, outline: string | null, size: number, ratio: number): void {
  const { ctx, bbox } = u;
  const left = u.valToPos(x, "x", true);
  const isLow = anomaly.direction === "low";
  const sign = isLow ? 1 : -1;
  const pointTop = y === null ? bbox.top + bbox.height - 2 * size : u.valToPos(y, "y", true);
  // Offset from the point, clamped to the chart.
  const middle = Math.min(bbox.top + bbox.height - size - ratio, Math.max(bbox.top + size + ratio, pointTop + sign * 1.6 * size));
  const colour = anomaly.status === "expected" ? theme.muted : theme.warn;
  ctx.beginPath();
  polygon(ctx, [[left, middle + sign * size], [left + size, middle - sign * size * 0.8], [left - size, middle - sign * size * 0.8]]);
  ctx.fillStyle = theme.background;
  ctx.fill();
  ctx.fillStyle = ctx.strokeStyle = colour;
  ctx.lineWidth = 1.5 * ratio;
  ctx.globalAlpha = SEVERITY_OPACITY[anomaly.severity] ?? 0;
  ctx.fill();
  ctx.globalAlpha = 1;
  ctx.strokeStyle = outline ?? colour;
  ctx.stroke();
  if (!labelled) return;
  const foot = middle - (isLow ? -1 : 1) * size;
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

/** Draw the focus line at the highlighted column. */
export function drawFocus(u: uPlot, x: number, label: string, theme: Theme): void {
  const { ctx, bbox } = u;
  const ratio = devicePixelRatio || 1;
  clipped(u, () => {
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
    ctx.font = `${11 * ratio}px ${FONT_FAMILY}`;
    ctx.textBaseline = "top";
    const right = left > bbox.left + bbox.width * 0.8;
    ctx.textAlign = right ? "right" : "left";
    ctx.fillText(canvasText(label, 30), left + (right ? -4 : 4) * ratio, bbox.top + 2 * ratio);
  });
}

/** Draw as many labels as fit next to the line ends, and connect each to its line. */
export function drawEndLabels(u: uPlot, ends: readonly EndLabel[], width: number): void {
  const { ctx, bbox } = u;
  const ratio = devicePixelRatio || 1;
  const height = 13 * ratio;
  const capacity = Math.max(1, Math.floor(bbox.height / height));
  const placed = ends
    .map((end) => ({ ...end, at: Math.min(bbox.top + bbox.height, Math.max(bbox.top, u.valToPos(end.y, "y", true))) }))
    .sort((a, b) => a.at - b.at);
  const stride = Math.ceil(placed.length / capacity);
  const drawnEnds = placed.filter((_, n) => n % stride === 0);
  const tops = spreadApart(drawnEnds.map(({ at }) => at), height, bbox.top + height / 2, bbox.top + bbox.height - height / 2);
  ctx.save();
  ctx.font = `${11 * ratio}px ${FONT_FAMILY}`;
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  ctx.lineWidth = ratio;
  drawnEnds.forEach(({ colour, text, x, at }, n) => {
    const from = Math.min(bbox.left + bbox.width, u.valToPos(x, "x", true));
    const left = bbox.left + bbox.width + 12 * ratio;
    ctx.strokeStyle = ctx.fillStyle = colour;
    ctx.globalAlpha = 0.5;
    ctx.beginPath();
    ctx.moveTo(from + 2 * ratio, at);
    ctx.lineTo(left - 2 * ratio, tops[n]);
    ctx.stroke();
    ctx.globalAlpha = 1;
    const share = ((width - 14) * ratio) / ctx.measureText(text).width;
    ctx.fillText(canvasText(text, share < 1 ? Math.floor(share * text.length) - 1 : text.length), left, tops[n]);
  });
  ctx.restore();
}

/** Move positions apart to a minimum distance. Keep their order and, if possible, the bounds `first` and `last`. */
export function spreadApart(positions: readonly number[], distance: number, first: number, last: number): number[] {
  const spread = positions.slice();
  for (let n = 0; n < spread.length; n++) spread[n] = Math.max(spread[n], n ? spread[n - 1] + distance : first);
  for (let n = spread.length - 1; n >= 0; n--) spread[n] = Math.min(spread[n], n < spread.length - 1 ? spread[n + 1] - distance : last);
  return spread;
}

/** Prepare a string for a canvas: truncate it and replace bidirectional control characters. */
function canvasText(text: string, max: number): string {
  return truncateMiddle(text.replace(/[\u202a-\u202e\u2066-\u2069]/g, "\u{fffd}"), Math.max(4, max));
}

function polygon(ctx: CanvasRenderingContext2D, points: [number, number][]): void {
  points.forEach(([x, y], n) => (n ? ctx.lineTo(x, y) : ctx.moveTo(x, y)));
  ctx.closePath();
}

function clipped(u: uPlot, draw: () => void): void {
  const { ctx, bbox } = u;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  draw();
  ctx.restore();
}
