// Small multiples: one static chart for each series, in a grid that fills the available space.

import { h, renderName } from "../ui/dom";
import type { Theme } from "../ui/theme";
import { type ChartSpec, renderStaticChart, type SeriesAnswer } from "./series-chart";

const MIN_SIZE = { width: 330, height: 130 };
/** Height of a caption, and distance between charts, in pixels. */
const CAPTION_HEIGHT = 24;
const CHART_GAP = { width: 8, height: 8 };
/** Space between the border of a card and its chart, in pixels. */
const CARD_PADDING = 6;
/** Preferred ratio of width to height. */
const ASPECT_RATIO = 2.5;

/** Layout of charts. */
export interface Grid {
  /** Number of charts side by side. */
  columns: number;
  /** Size of one chart, in pixels. */
  width: number;
  height: number;
}

/** Grid layout with the largest charts that fit; with too many charts the page scrolls. */
export function gridLayout(count: number, width: number, height: number): Grid {
  const maxColumns = Math.max(1, Math.min(count, Math.floor((width + CHART_GAP.width) / (MIN_SIZE.width + CHART_GAP.width))));
  const grids = Array.from({ length: maxColumns }, (_, n): Grid => {
    const rows = Math.ceil(count / (n + 1));
    const chartWidth = Math.floor((width + CHART_GAP.width) / (n + 1)) - CHART_GAP.width;
    return { columns: n + 1, width: chartWidth, height: Math.floor((height + CHART_GAP.height) / rows) - CHART_GAP.height - CAPTION_HEIGHT };
  });
  const size = ({ width: chartWidth, height: chartHeight }: Grid) => Math.min(chartWidth / ASPECT_RATIO, chartHeight);
  const best = grids.reduce((a, b) => (size(b) > size(a) ? b : a));
  return best.height < MIN_SIZE.height ? { ...grids[maxColumns - 1], height: MIN_SIZE.height } : best;
}

/** Render each single-line spec as a chart; pressing its caption calls `onSelect` with its row. */
export function renderSmallMultiples(theme: Theme, answer: SeriesAnswer, specs: readonly ChartSpec[], width: number, height: number, onSelect: (row: number) => void): HTMLElement[] {
  // Leave 16 px for a scroll bar.
  const { width: chartWidth, height: chartHeight } = gridLayout(specs.length, width - 16, height);
  return specs.map((spec) => {
    const [{ row, text }] = spec.lines;
    const title = h("button", { type: "button", class: "tg-plain", title: "Show alone", onclick: () => onSelect(row) }, `${row + 1} `, renderName(text, Math.floor(chartWidth / 7)));
    const figure = h("figure", { class: "tg-multiple tg-card" }, h("figcaption", {}, title), renderStaticChart(theme, answer, spec, chartWidth - 2 * CARD_PADDING, chartHeight - CARD_PADDING));
    figure.style.width = `${chartWidth}px`;
    return figure;
  });
}
