// Color theme: the colors of tokens.css as a canvas needs them, and color maps of scores and changes.
//
// The score map is sequential in lightness, the change map diverges from a neutral middle (blue down, orange up);
// both are safe for red-green color blindness.

/** Colours of the page, lines and heat map. */
export interface Theme {
  dark: boolean;
  text: string;
  muted: string;
  faint: string;
  background: string;
  accent: string;
  warn: string;
  lines: readonly string[];
  score: Uint32Array;
  change: Uint32Array;
  backgroundPixel: number;
}

type Stop = readonly [number, string];

const SCORE_LIGHT: Stop[] = [
  [0, "#e6ebf0"], [2, "#dfe3e0"], [3, "#f5d27f"], [4.5, "#ea8f3c"], [7, "#b5342b"], [12, "#4d0d2f"],
];
const SCORE_DARK: Stop[] = [
  [0, "#222c38"], [2, "#2f3342"], [3, "#6b2f6e"], [4.5, "#bd3f54"], [7, "#f28a3b"], [12, "#fdeb9a"],
];
const CHANGE_LIGHT: Stop[] = [
  [-1, "#08306b"], [-0.5, "#4a90c9"], [-0.12, "#dfe8ee"], [0, "#eceef0"], [0.12, "#f3e6d8"], [0.5, "#e08214"], [1, "#7f3b08"],
];
const CHANGE_DARK: Stop[] = [
  [-1, "#9ecbff"], [-0.5, "#3b7fc4"], [-0.12, "#26323f"], [0, "#232a33"], [0.12, "#37302a"], [0.5, "#d9781a"], [1, "#ffd199"],
];
/** Number of line colors, `--tg-line-1` and so on in tokens.css. */
const LINE_COLOURS = 8;

/** Number of score levels per power of ten; equal to `LEVELS_PER_DECADE` in repository/history/heatmap.py. */
const LEVELS_PER_DECADE = 16;

/** Read the theme from the computed style of the dashboard's root. */
export function readTheme(root: HTMLElement): Theme {
  const style = getComputedStyle(root);
  const background = style.backgroundColor;
  const dark = lightness(background) < 0.5;
  const score = new Uint32Array(256);
  const change = new Uint32Array(256);
  for (let level = 1; level < 256; level++) {
    score[level] = interpolateColour(dark ? SCORE_DARK : SCORE_LIGHT, (level - 1) / LEVELS_PER_DECADE);
    change[level] = interpolateColour(dark ? CHANGE_DARK : CHANGE_LIGHT, (level - 128) / 127);
  }
  const backgroundPixel = packPixel(parseColour(background));
  score[0] = change[0] = backgroundPixel;
  // A canvas accepts neither light-dark() nor var(): let the browser resolve them.
  const probe = document.createElement("span");
  root.append(probe);
  const read = (name: string) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const resolved = { muted: read("--tg-muted"), faint: read("--tg-faint"), accent: read("--tg-accent"), warn: read("--tg-warn") };
  const lines = Array.from({ length: LINE_COLOURS }, (_, n) => read(`--tg-line-${n + 1}`));
  probe.remove();
  return {
    ...resolved,
    dark,
    text: style.color,
    background,
    lines,
    score,
    change,
    backgroundPixel,
  };
}

/** Color of the theme with an opacity between 0 and 1. */
export function withOpacity(colour: string, opacity: number): string {
  return `rgb(${parseColour(colour).join(" ")} / ${opacity})`;
}

/** Pixel at a position of a color map, interpolated linearly between its stops. */
function interpolateColour(stops: Stop[], position: number): number {
  const end = stops.findIndex(([stop]) => stop >= position);
  if (end === 0) return packPixel(parseColour(stops[0][1]));
  if (end < 0) return packPixel(parseColour(stops[stops.length - 1][1]));
  const [from, to] = [stops[end - 1], stops[end]];
  const share = (position - from[0]) / (to[0] - from[0]);
  const [a, b] = [parseColour(from[1]), parseColour(to[1])];
  return packPixel(a.map((value, n) => value + share * (b[n] - value)));
}

/** Parse `#rrggbb`, `rgb(...)` or `rgba(...)` into red, green and blue; transparent is white. */
function parseColour(colour: string): number[] {
  if (colour.startsWith("#")) {
    return [1, 3, 5].map((start) => Number.parseInt(colour.slice(start, start + 2), 16));
  }
  const channels = colour.match(/[\d.]+/g)?.map(Number) ?? [255, 255, 255];
  return channels.length > 3 && channels[3] === 0 ? [255, 255, 255] : channels.slice(0, 3);
}

/** Pack a pixel as `ImageData` stores it on little-endian machines. */
function packPixel([red, green, blue]: number[]): number {
  return ((255 << 24) | (Math.round(blue) << 16) | (Math.round(green) << 8) | Math.round(red)) >>> 0;
}

function lightness(colour: string): number {
  const [red, green, blue] = parseColour(colour);
  return (0.3 * red + 0.59 * green + 0.11 * blue) / 255;
}
