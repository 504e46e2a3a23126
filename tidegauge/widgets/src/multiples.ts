// Small charts of many series beside each other, which fill the room that there is.

import { picture, type Plan, type SeriesTold } from "./chart";
import { h, named } from "./dom";
import type { Answer } from "./link";
import type { Theme } from "./theme";

const LEAST = { wide: 330, tall: 130 };
/** Height of a name, and what lies between charts. */
const NAME = 24;
const GAP = { wide: 8, tall: 4 };
/** How much wider than tall a chart is read best. */
const SHAPE = 2.5;

export interface Grid {
  across: number;
  /** Of one chart, in pixels. */
  wide: number;
  tall: number;
}

/** How many charts go into a row so that they get as large as can be; where there are too many, the page scrolls. */
export function gridOf(count: number, width: number, height: number): Grid {
  const most = Math.max(1, Math.min(count, Math.floor((width + GAP.wide) / (LEAST.wide + GAP.wide))));
  const grids = Array.from({ length: most }, (_, n): Grid => {
    const down = Math.ceil(count / (n + 1));
    const wide = Math.floor((width + GAP.wide) / (n + 1)) - GAP.wide;
    return { across: n + 1, wide, tall: Math.floor((height + GAP.tall) / down) - GAP.tall - NAME };
  });
  const size = ({ wide, tall }: Grid) => Math.min(wide / SHAPE, tall);
  const best = grids.reduce((a, b) => (size(b) > size(a) ? b : a));
  return best.tall < LEAST.tall ? { ...grids[most - 1], tall: LEAST.tall } : best;
}

/** Draw each plan, of one line, in a chart of its own; pressed, `alone` is told its row. */
export function multiples(theme: Theme, answer: Answer<SeriesTold>, plans: readonly Plan[], width: number, height: number, alone: (row: number) => void): HTMLElement[] {
  // A bar to scroll by needs room, too.
  const { wide, tall } = gridOf(plans.length, width - 16, height);
  return plans.map((plan) => {
    const [{ row, text }] = plan.lines;
    const title = h("button", { type: "button", class: "tg-plain", title: "Show alone", onclick: () => alone(row) }, `${row + 1} `, named(text, Math.floor(wide / 7)));
    const figure = h("figure", { class: "tg-multiple" }, h("figcaption", {}, title), picture(theme, answer, plan, wide, tall));
    figure.style.width = `${wide}px`;
    return figure;
  });
}
