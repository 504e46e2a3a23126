// Export menu: what is shown as Python code, CSV, SVG and PNG.

import { pythonCell } from "../data/python-cell";
import { button, copyText, h } from "./dom";
import type { Shell, ViewName } from "./shell";

const TITLE_HEIGHT = 26;

/** What the menu needs to know of the page. */
export interface Exported {
  view: ViewName;
  dataset: string | null;
  options: Record<string, unknown>;
  title: string;
  element: HTMLElement;
}

export class ExportMenu {
  readonly element: HTMLDetailsElement;
  private readonly svg = button("SVG of the chart", () => this.run(() => this.saveSvg()));

  constructor(
    private readonly shell: Shell,
    private readonly exported: () => Exported,
  ) {
    const items = [
      button("Copy as Python", () => this.run(() => this.copyPython()), { title: "Copy a notebook cell that shows the same" }),
      button("CSV of the data", () => this.saveTable(this.exported())),
      button("PNG of the picture", () => this.run(() => this.savePng())),
      this.svg,
    ];
    const summary = h("summary", {}, "Export");
    this.element = h("details", { class: "tg-export" }, summary, h("div", { class: "tg-export-items" }, ...items));
    this.element.addEventListener("toggle", () => (this.svg.hidden = this.exported().view !== "series"));
    this.element.addEventListener("focusout", (event) => {
      if (!this.element.contains(event.relatedTarget as Node | null)) this.element.open = false;
    });
    this.element.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      this.element.open = false;
      summary.focus();
    });
  }

  private run(task: () => Promise<string>): void {
    this.element.open = false;
    void task().then(
      (text) => this.shell.announce(text),
      (error) => this.shell.showError(error),
    );
  }

  private async copyPython(): Promise<string> {
    const { view, dataset, options } = this.exported();
    await copyText(pythonCell(view, dataset, options));
    return "The Python code is copied.";
  }

  /** Save a table of a view's data as CSV; the first if no title is given. */
  saveTable({ view, dataset, options }: Exported, title?: string): void {
    this.run(async () => {
      const { data } = await this.shell.link.ask("csv", { view, dataset, options, ...(title !== undefined && { title }) });
      const name = title === undefined ? view : title.toLowerCase().replace(/\W+/g, "-");
      return save(new Blob([data.text], { type: "text/csv" }), `tidegauge-${name}.csv`);
    });
  }

  private async saveSvg(): Promise<string> {
    const { ids = [], since, until } = this.exported().options as { ids?: number[]; since?: unknown; until?: unknown };
    const window = { ...(typeof since === "number" && { since }), ...(typeof until === "number" && { until }) };
    const { data } = await this.shell.link.ask("svg", { ids, ...window });
    return save(new Blob([data.text], { type: "image/svg+xml" }), "tidegauge-series.svg");
  }

  private async savePng(): Promise<string> {
    const { view, title, element } = this.exported();
    const picture = pictureOf(element, title, this.shell);
    if (!picture) return "There is no chart here; CSV has the data.";
    const blob = await new Promise<Blob | null>((resolve) => picture.toBlob(resolve));
    if (!blob) throw new Error("The browser could not make a picture of this size.");
    return save(blob, `tidegauge-${view}.png`);
  }
}

/** Draw all canvases of a view where they are on the page, below a title; null if there are none. */
function pictureOf(element: HTMLElement, title: string, shell: Shell): HTMLCanvasElement | null {
  const canvases = [...element.querySelectorAll("canvas")].filter((canvas) => canvas.width > 1 && canvas.offsetParent !== null);
  if (!canvases.length) return null;
  const ratio = window.devicePixelRatio || 1;
  const frame = element.getBoundingClientRect();
  const picture = document.createElement("canvas");
  picture.width = Math.round(frame.width * ratio);
  picture.height = Math.round((frame.height + TITLE_HEIGHT) * ratio);
  const context = picture.getContext("2d")!;
  context.scale(ratio, ratio);
  context.fillStyle = shell.theme.background;
  context.fillRect(0, 0, frame.width, frame.height + TITLE_HEIGHT);
  context.fillStyle = shell.theme.text;
  context.font = "600 14px system-ui, sans-serif";
  context.fillText(title, 10, 18, frame.width - 20);
  for (const canvas of canvases) {
    const { x, y, width, height } = canvas.getBoundingClientRect();
    context.drawImage(canvas, x - frame.x, y - frame.y + TITLE_HEIGHT, width, height);
  }
  return picture;
}

function save(blob: Blob, name: string): string {
  const link = h("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  return `Saved as ${name}.`;
}
