// Color legend of the heat map.

import type { LevelKind } from "../data/protocol";
import type { Theme } from "../ui/theme";

const [WIDTH, HEIGHT, STRIP_WIDTH, MARGIN] = [206, 30, 192, 0];
const SCORE_TICKS = [[0, "p = 1"], [3, "10⁻³"], [6, "10⁻⁶"], [9, "10⁻⁹"]] as const;
/** Ticks on the square-root scale of the relative change, which levels use as well. */
const CHANGE_TICKS = [[-1, "to 0"], [-0.5, "−25%"], [0, "same"], [0.5, "+33%"], [1, "new"]] as const;

/** Description of the colors and marks that the heat map has, next to the strip. */
export function legendText(levelKind: LevelKind, drawn: { blank: boolean; anomalies: boolean }): string {
  const [colour, blank] = levelKind === "score" ? ["p-value of the score", "not scored"] : ["change from the previous value", "fewer than two values"];
  return `${colour}${drawn.blank ? `; blank: ${blank}` : ""}${drawn.anomalies ? " · ● anomaly" : ""}`;
}

/** Draw the color strip with its scale. */
export function drawLegend(canvas: HTMLCanvasElement, theme: Theme, levelKind: LevelKind): void {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = WIDTH * ratio;
  canvas.height = HEIGHT * ratio;
  canvas.style.width = `${WIDTH}px`;
  const score = levelKind === "score";
  const image = new ImageData(STRIP_WIDTH, 1);
  const pixels = new Uint32Array(image.data.buffer);
  // Scores have a level for each pixel; changes show all levels.
  for (let x = 0; x < STRIP_WIDTH; x++) pixels[x] = score ? theme.score[1 + x] : theme.change[1 + Math.round((x * 254) / (STRIP_WIDTH - 1))];
  const strip = document.createElement("canvas");
  [strip.width, strip.height] = [STRIP_WIDTH, 1];
  strip.getContext("2d")!.putImageData(image, 0, 0);
  const context = canvas.getContext("2d")!;
  context.scale(ratio, ratio);
  context.drawImage(strip, MARGIN, 2, STRIP_WIDTH, 10);
  context.font = "11px system-ui, sans-serif";
  context.fillStyle = theme.muted;
  context.textAlign = "center";
  for (const [position, text] of score ? SCORE_TICKS : CHANGE_TICKS) {
    const x = MARGIN + (score ? position * 16 : ((position + 1) * STRIP_WIDTH) / 2);
    const half = context.measureText(text).width / 2;
    context.fillText(text, Math.max(half, Math.min(WIDTH - half, x)), 25);
  }
}
