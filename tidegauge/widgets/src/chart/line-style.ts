// Line styles: distinguishable colors and dashes, and their swatches.

import type { Theme } from "../ui/theme";

const LINE_DASHES = [[], [8, 4], [2, 3], [12, 3, 2, 3], [5, 2], [14, 5], [3, 3, 9, 3]];

/** Colour and dash of a line. */
export interface LineStyle {
  colour: string;
  dash: number[];
}

/** Style of the n-th line. Colours and dashes combine to 56 distinct styles. Lines of many points are dashed only if their color repeats. */
export function lineStyle(theme: Theme, n: number, dense = false): LineStyle {
  const colours = theme.lines.length;
  return { colour: theme.lines[n % colours], dash: dense && n < colours ? [] : LINE_DASHES[n % LINE_DASHES.length] };
}

/** Line swatch for chips and legends. */
export function swatch({ colour, dash }: { colour: string; dash: readonly number[] }): SVGElement {
  const namespace = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(namespace, "svg");
  const line = document.createElementNS(namespace, "line");
  const set = (element: Element, attributes: Record<string, string>) =>
    Object.entries(attributes).forEach(([name, value]) => element.setAttribute(name, value));
  set(svg, { width: "30", height: "10", "aria-hidden": "true" });
  set(line, { x1: "0", x2: "30", y1: "5", y2: "5", stroke: colour, "stroke-width": "2", "stroke-dasharray": dash.join(" ") });
  svg.append(line);
  return svg;
}
