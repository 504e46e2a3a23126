// Small multiples: one static chart for each series, in a grid that fills the available space.

import { h, renderName } from "../ui/dom";
import type { Theme } from "../ui/theme";
import { type ChartSpec, renderStaticChart, type SeriesAnswer } from "./series-chart";

const MIN_SIZE = { wide: 330, tall: 130 };
/** Height of a caption, and gaps between charts, in pixels. */
const CAPTION = 24;
const GAP = { wide: 8, tall: 4 };
/** Preferred ratio of width to height. */
const ASPECT = 2.5;

export interface Grid {
  across: number;
  /** Size of one chart, in pixels. */
  wide: number;
  tall: number;
}

/** Grid layout with the largest charts that fit; with too many charts the page scrolls. */
export function gridLayout(count: number, width: number, height: number): Grid {
  const maxAcross = Math.max(1, Math.min(count, Math.floor((width + GAP.wide) / (MIN_SIZE.wide + GAP.wide))));
  const grids = Array.from({ length: maxAcross }, (_, n): Grid => {
    const down = Math.ceil(count / (n + 1));
    const wide = Math.floor((width + GAP.wide) / (n + 1)) - GAP.wide;
    return { across: n + 1, wide, tall: Math.floor((height + GAP.tall) / down) - GAP.tall - CAPTION };
  });
  const size = ({ wide, tall }: Grid) => Math.min(wide / ASPECT, tall);
  const best = grids.reduce((a, b) => (size(b) > size(a) ? b : a));
  return best.tall < MIN_SIZE.tall ? { ...grids[maxAcross - 1], tall: MIN_SIZE.tall } : best;
}

/** Render each single-line spec as a chart; pressing its caption calls `onSelect` with its row. */
export function renderSmallMultiples(theme: Theme, answer: SeriesAnswer, specs: readonly ChartSpec[], width: number, height: number, onSelect: (row: number) => void): HTMLElement[] {
  // 16 px for a scroll bar.
  const { wide, tall } = gridLayout(specs.length, width - 16, height);
  return specs.map((spec) => {
    const [{ row, text }] = spec.lines;
    const title = h("button", { type: "button", class: "tg-plain", title: "Show alone", onclick: () => onSelect(row) }, `${row + 1} `, renderName(text, Math.floor(wide / 7)));
    const figure = h("figure", { class: "tg-multiple" }, h("figcaption", {}, title), renderStaticChart(theme, answer, spec, wide, tall));
    figure.style.width = `${wide}px`;
    return figure;
  });
}
