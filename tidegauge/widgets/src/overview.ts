// The overview: all series over all moments, to scroll, zoom, sort, filter, and to open what stands out.

import { arranged, GROUPS, keysOf, SORTS } from "./arrangement";
import type { Catalogue } from "./catalogue";
import { type Cell, cellLines, cellWords } from "./cell";
import { button, choice, h, later, named } from "./dom";
import { many } from "./format";
import { AXIS, Heat, type Shown, STRIP } from "./heat";
import { drawLegend } from "./legend";
import { CHANGE_STRENGTH, Levels, SCORE_STRENGTH } from "./levels";
import { Sparklines } from "./sparklines";
import type { Stage, View } from "./stage";

/** Columns of the first screen, and of each piece that follows. */
const NEWEST = 90;
const PIECE = 60;
/** Cells that are fetched by themselves; older columns of larger histories are left out, and it is said. */
const MOST_CELLS = 64e6;
const MOST_PICKED = 50;

const COLOURS = [["score", "anomaly score"], ["change", "change"]] as const;
export type Colour = (typeof COLOURS)[number][0];

interface Options {
  by: Colour;
  group: string;
  sort: string;
  filter: string;
}

export class Overview implements View {
  readonly element: HTMLElement;
  private readonly canvas = h("canvas", { tabindex: "0", role: "application", class: "tg-heat" });
  private readonly heat = new Heat(this.canvas);
  private readonly cursor = h("div", { class: "tg-cursor", hidden: true });
  private readonly tip = h("div", { class: "tg-tip", hidden: true });
  private readonly none = h("p", { class: "tg-empty tg-none", hidden: true }, "No series holds all of these words.");
  private readonly pickedBar = h("span", { class: "tg-picked" });
  private readonly count = h("span", { class: "tg-muted" });
  private readonly legend = h("canvas", { class: "tg-legend", width: "1", height: "1" });
  private readonly filter: HTMLInputElement;
  private readonly choices: Record<"by" | "group" | "sort", HTMLLabelElement>;
  private levels = new Map<Colour, Levels>();
  private loading = new Map<Colour, Promise<void>>();
  private marks = new Map<number, number[]>();
  private order: Int32Array = new Int32Array();
  private headings: string[] = [];
  private picked = new Set<number>();
  private sparklines!: Sparklines;
  private place = { place: 0, column: 0 };
  private pending = 0;
  private of: Catalogue | null = null;
  private readonly sizes = new ResizeObserver(() => this.resized());
  private dragged: { x: number; y: number } | null = null;
  private moved = false;

  constructor(private readonly stage: Stage) {
    this.filter = h("input", {
      type: "search",
      placeholder: "Filter: words of dataset, column, metric …",
      "aria-label": "Filter series",
      oninput: later(80, () => this.chose({ filter: this.filter.value })),
    });
    const groups = Object.entries(GROUPS).map(([key, { text }]) => [key, text] as const);
    this.choices = {
      by: choice("Colour", COLOURS, "", (value) => this.chose({ by: value as Colour })),
      group: choice("Group by", [...groups, ["", "nothing"]], "", (value) => this.chose({ group: value })),
      sort: choice("Sort by", SORTS, "", (value) => this.chose({ sort: value })),
    };
    const zoom = (rows: number, columns: number) => () => this.zoom(rows, columns);
    const tools = h(
      "div",
      { class: "tg-tools" },
      ...Object.values(this.choices),
      this.filter,
      h(
        "span",
        { class: "tg-group", role: "group", "aria-label": "Zoom" },
        button("−", zoom(0.5, 0.5), { title: "Zoom out (-)" }),
        button("+", zoom(2, 2), { title: "Zoom in (+)" }),
        button("All", () => this.all(), { title: "All series and partitions (0)" }),
        button("Start", () => this.restart(), { title: "Names and the newest partitions (1)" }),
      ),
      this.pickedBar,
    );
    const field = h("div", { class: "tg-field" }, this.canvas, this.cursor, this.tip, this.none);
    const help = "Wheel scrolls, with Ctrl it zooms; Shift-click compares; arrow keys, Enter, Space, + and - do so too.";
    const foot = h("div", { class: "tg-foot" }, this.legend, this.count, h("span", { class: "tg-muted tg-help" }, help));
    this.element = h("section", { class: "tg-overview" }, tools, field, foot);
    this.canvas.setAttribute("aria-label", `Heat map of series by partitions. ${help}`);
    this.listen();
  }

  private get options(): Options {
    return { by: "score", group: "column", sort: "name", filter: "", ...this.stage.options<Options>("overview") };
  }

  private chose(some: Partial<Options>): void {
    this.stage.remember("overview", { ...this.options, ...some });
    this.hide();
    this.heat.sight.top = 0; // what was asked for stands first
    void this.open().catch((error) => this.stage.fail(error));
  }

  async open(): Promise<void> {
    const { catalogue, link } = this.stage;
    if (this.of !== catalogue) {
      const before = this.of;
      this.of = catalogue;
      this.levels.clear();
      this.loading.clear();
      const values = async (rows: readonly number[]) => (await link.ask("rows", { rows })).arrays.values as Float32Array;
      this.sparklines = new Sparklines(values, catalogue.columns, () => this.redraw());
      this.marks.clear();
      for (let n = 0; n < catalogue.marks.length; n += 2) {
        const [row, column] = [catalogue.marks[n], catalogue.marks[n + 1]];
        this.marks.set(row, [...(this.marks.get(row) ?? []), column]);
      }
      const at = before && this.order[this.place.place] >= 0 ? before.ids[this.order[this.place.place]] : null;
      const label = before?.labels[this.place.column];
      const ids = before ? [...this.picked].map((row) => before.ids[row]) : [];
      this.picked = new Set(ids.map((id) => catalogue.rowOf(id)).filter((row) => row >= 0));
      this.arrange();
      this.measure();
      if (!before) this.restart();
      // Where one was is where one stays, though other rows came.
      const place = at === null ? -1 : this.order.indexOf(catalogue.rowOf(at));
      const column = label === undefined ? -1 : catalogue.labels.indexOf(label);
      this.place = {
        place: place >= 0 ? place : this.order.findIndex((row) => row >= 0),
        column: column >= 0 ? column : catalogue.columns - 1,
      };
    }
    this.measure();
    await this.load();
    this.arrange();
    this.redraw();
  }

  /** Fetch the first screen, then everything else from the newest columns to the oldest. */
  private load(): Promise<void> {
    const { by } = this.options;
    let under = this.loading.get(by);
    if (!under) {
      under = this.read(by);
      this.loading.set(by, under);
      under.catch(() => this.loading.delete(by));
    }
    return under;
  }

  private async read(by: Colour): Promise<void> {
    const { link, catalogue } = this.stage;
    const { rows, columns } = catalogue;
    const levels = new Levels(rows, columns, by === "score" ? SCORE_STRENGTH : CHANGE_STRENGTH);
    levels.known = columns;
    this.levels.set(by, levels);
    this.arrange();
    const take = async (first: number, last: number, some?: number[]) => {
      const { arrays } = await link.ask("levels", { by, first, last, ...(some && { rows: some }) });
      levels.take(arrays.levels as Uint8Array, first, last, some);
    };
    const seen = this.heat.visible(this.order);
    const newest = Math.max(0, columns - NEWEST);
    await Promise.all([take(newest, columns, seen), this.heat.hasNames && this.sparklines.want(seen)]);
    levels.known = newest;
    this.paint();
    performance.mark(`tidegauge:first:${by}`);
    void this.rest(levels, take, catalogue).then(
      () => {
        performance.mark(`tidegauge:whole:${by}`);
        this.arrange();
        this.redraw();
      },
      (error) => {
        this.loading.delete(by);
        this.stage.fail(error);
      },
    );
  }

  private async rest(levels: Levels, take: (first: number, last: number) => Promise<void>, of: Catalogue): Promise<void> {
    const oldest = Math.max(0, of.columns - Math.floor(MOST_CELLS / Math.max(1, of.rows)));
    for (let last = of.columns; last > oldest && this.of === of; last -= PIECE) {
      const first = Math.max(oldest, last - PIECE);
      await take(first, last);
      levels.known = Math.min(levels.known, first);
      this.redraw();
    }
    if (oldest > 0) this.stage.say(`The oldest ${many(oldest, "moment")} of so many series are left out here.`);
  }

  /** Put the rows in order. */
  private arrange(): void {
    const { catalogue } = this.stage;
    const { by, group, sort, filter } = this.options;
    for (const [name, label] of Object.entries(this.choices)) {
      label.querySelector("select")!.value = this.options[name as "by" | "group" | "sort"];
    }
    this.choices.group.querySelector("select")!.disabled = sort !== "name";
    this.choices.group.title = sort === "name" ? "" : "Only what is in order of names is grouped";
    if (document.activeElement !== this.filter) this.filter.value = filter;
    const levels = this.levels.get(by);
    const rows = catalogue.matching(filter);
    const found = arranged(rows, catalogue, sort, keysOf(group, sort), this.marks, levels);
    ({ order: this.order, headings: this.headings } = found);
    levels?.arrange(this.order);
    this.heat.forgetNames();
    const all = catalogue.rows;
    const some = rows.length === all ? many(all, "series", "series") : `${rows.length.toLocaleString("en-US")} of ${many(all, "series", "series")}`;
    this.none.hidden = rows.length > 0;
    this.count.textContent = `${some} · ${many(catalogue.columns, "partition")}`;
  }

  private get shown(): Shown | null {
    const { catalogue, theme } = this.stage;
    const { by, group, sort } = this.options;
    const levels = this.levels.get(by);
    if (!levels) return null;
    const keys = keysOf(group, sort);
    return {
      catalogue,
      levels,
      palette: by === "score" ? theme.score : theme.change,
      order: this.order,
      headings: this.headings,
      marks: this.marks,
      picked: this.picked,
      sparklines: this.sparklines,
      title: (row) => {
        const alone = keys.includes("dataset") || catalogue.datasets.length === 1;
        return `${alone ? "" : `${catalogue.text("dataset", row)} · `}${catalogue.title(row, keys)}`;
      },
    };
  }

  private measure(): void {
    const field = this.canvas.parentElement!;
    const { clientWidth, clientHeight } = field;
    if (clientWidth && clientHeight) this.heat.resize(clientWidth, clientHeight);
  }

  redraw(): void {
    if (this.pending || !this.element.isConnected) return;
    this.pending = requestAnimationFrame(() => {
      this.pending = 0;
      this.paint();
    });
  }

  resized(): void {
    this.measure();
    this.sparklines?.forgetDrawn();
    this.redraw();
  }

  private paint(): void {
    const shown = this.shown;
    if (!shown || !this.canvas.width) return;
    const started = performance.now();
    this.heat.clamp(this.order.length, shown.catalogue.columns);
    this.heat.draw(shown, this.stage.theme);
    drawLegend(this.legend, this.stage.theme, this.options.by);
    this.drawCursor();
    if (this.heat.hasNames) this.wantLines();
    performance.measure("tidegauge:paint", { start: started, end: performance.now() });
  }

  private readonly wantLines = later(60, () => {
    void this.sparklines.want(this.heat.visible(this.order)).catch((error) => this.stage.fail(error));
  });

  private drawCursor(): void {
    const { place, column } = this.place;
    const box = this.heat.box(place, column);
    const { width, height } = this.heat.inner;
    const inside = box.x >= this.heat.gutter - 1 && box.x < this.heat.gutter + width && box.y >= AXIS - 1 && box.y < AXIS + height;
    this.cursor.hidden = !inside || document.activeElement !== this.canvas;
    const size = { left: box.x, top: box.y, width: Math.max(3, box.width), height: Math.max(3, box.height) };
    for (const [name, value] of Object.entries(size)) this.cursor.style.setProperty(name, `${value}px`);
  }

  // --- moving about

  private zoom(rows: number, columns: number, x?: number, y?: number): void {
    const { sight, inner, gutter } = this.heat;
    this.hide();
    const across = (x ?? gutter + inner.width / 2) - gutter;
    const down = (y ?? AXIS + inner.height / 2) - AXIS;
    const column = sight.left + across / sight.columnWidth;
    const place = sight.top + down / sight.rowHeight;
    sight.rowHeight *= rows;
    sight.columnWidth *= columns;
    this.heat.clamp(this.order.length, this.stage.catalogue.columns);
    sight.left = column - across / sight.columnWidth;
    sight.top = place - down / sight.rowHeight;
    this.redraw();
  }

  private zoomAtPlace(factor: number): void {
    const { place, column } = this.place;
    this.reveal(place, column);
    const { x, y, width, height } = this.heat.box(place, column);
    this.zoom(factor, factor, x + width / 2, y + height / 2);
    this.reveal(place, column);
  }

  private all(): void {
    this.hide();
    Object.assign(this.heat.sight, { top: 0, left: 0, rowHeight: 0, columnWidth: 0 });
    this.redraw();
  }

  private restart(): void {
    this.heat.start(this.stage.catalogue.columns, NEWEST, 18);
    this.redraw();
  }

  private listen(): void {
    const { canvas } = this;
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    canvas.addEventListener("pointermove", (event) => this.point(event));
    canvas.addEventListener("pointerleave", () => this.hide());
    canvas.addEventListener("pointerdown", (event) => this.press(event));
    canvas.addEventListener("pointerup", (event) => this.release(event));
    canvas.addEventListener("pointercancel", () => (this.dragged = null));
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("focus", () => this.drawCursor());
    canvas.addEventListener("blur", () => (this.cursor.hidden = true));
    // The room changes with the tools above it, too, which wrap.
    this.sizes.observe(canvas.parentElement!);
  }

  private wheel(event: WheelEvent): void {
    const { sight } = this.heat;
    const before = { ...sight };
    const step = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 18 : 1;
    const [across, down] = event.shiftKey && !event.deltaX ? [event.deltaY, 0] : [event.deltaX, event.deltaY];
    if (event.ctrlKey || event.metaKey) {
      const factor = Math.exp(-event.deltaY * step * 0.002);
      this.zoom(factor, factor, event.offsetX, event.offsetY);
    } else {
      sight.top += (down * step) / sight.rowHeight;
      sight.left += (across * step) / sight.columnWidth;
      this.heat.clamp(this.order.length, this.stage.catalogue.columns);
    }
    // At an end the page scrolls on.
    const same = (Object.keys(before) as (keyof typeof before)[]).every((k) => before[k] === sight[k]);
    if (same && !event.ctrlKey) return;
    event.preventDefault();
    this.hide();
    this.redraw();
  }

  private press(event: PointerEvent): void {
    if (event.button !== 0) return;
    this.dragged = { x: event.offsetX, y: event.offsetY };
    this.moved = false;
    if (event.offsetX > this.heat.gutter + this.heat.inner.width) this.jump(event.offsetY);
  }

  private jump(y: number): void {
    const { sight, inner } = this.heat;
    const share = (y - AXIS) / inner.height;
    sight.top = share * this.order.length - inner.height / sight.rowHeight / 2;
    this.moved = true;
    this.redraw();
  }

  private point(event: PointerEvent): void {
    const { offsetX: x, offsetY: y } = event;
    const { sight } = this.heat;
    if (this.dragged && event.buttons & 1) {
      if (this.dragged.x > this.heat.gutter + this.heat.inner.width) this.jump(y);
      else if (this.moved || Math.hypot(x - this.dragged.x, y - this.dragged.y) > 4) {
        if (!this.moved) this.canvas.setPointerCapture(event.pointerId);
        this.moved = true;
        sight.left -= (x - this.dragged.x) / sight.columnWidth;
        sight.top -= (y - this.dragged.y) / sight.rowHeight;
        this.dragged = { x, y };
        this.redraw();
      }
      this.hide();
      return;
    }
    const { place, column } = this.heat.at(x, y);
    const row = this.order[place];
    if (row === undefined || row < 0) this.hide();
    else this.tell(row, column, x, y);
  }

  private release(event: PointerEvent): void {
    const pressed = this.dragged;
    this.dragged = null;
    if (!pressed || this.moved) return;
    const { place, column } = this.heat.at(event.offsetX, event.offsetY);
    const row = this.order[place];
    if (row === undefined || row < 0 || column >= this.stage.catalogue.columns) return;
    this.place = { place, column: column < 0 ? this.place.column : column };
    if (event.shiftKey) this.pick(row);
    else this.openSeries(row, column);
  }

  private key(event: KeyboardEvent): void {
    const page = Math.max(1, Math.floor(this.heat.inner.height / this.heat.sight.rowHeight) - 1);
    const steps: Record<string, [number, number]> = {
      ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
      PageUp: [-page, 0], PageDown: [page, 0], Home: [0, -1e9], End: [0, 1e9],
    };
    const row = this.order[this.place.place];
    if (event.key in steps) this.step(...steps[event.key]);
    else if (event.key === "Enter" && row >= 0) this.openSeries(row, this.place.column);
    else if (event.key === " " && row >= 0) this.pick(row);
    else if (event.key === "+" || event.key === "=") this.zoomAtPlace(1.5);
    else if (event.key === "-") this.zoomAtPlace(1 / 1.5);
    else if (event.key === "0") this.all();
    else if (event.key === "1") this.restart();
    else if (event.key === "Escape") this.hide();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  private step(down: number, across: number): void {
    const { columns } = this.stage.catalogue;
    const sign = Math.sign(down) || 1;
    let place = Math.min(this.order.length - 1, Math.max(0, this.place.place + down));
    while (this.order[place] < 0 && this.order[place + sign] !== undefined) place += sign;
    if (this.order[place] < 0) place = this.place.place;
    const column = Math.min(columns - 1, Math.max(0, this.place.column + across));
    this.place = { place, column };
    this.reveal(place, column);
    const box = this.heat.box(place, column);
    if (this.order[place] >= 0) this.tell(this.order[place], column, box.x + box.width, box.y + box.height);
    this.redraw();
  }

  /** Move what is in view as far as a cell needs it. */
  reveal(place: number, column: number): void {
    const { sight, inner } = this.heat;
    const [rows, columns] = [inner.height / sight.rowHeight, inner.width / sight.columnWidth];
    sight.top = Math.min(place, Math.max(sight.top, place + 1 - rows));
    sight.left = Math.min(column, Math.max(sight.left, column + 1 - columns));
  }

  /** Where on the page the cell of a series lies, by the id of the series and the label of the moment. */
  locate(id: number, label: string): { x: number; y: number } {
    const { catalogue } = this.stage;
    const place = this.order.indexOf(catalogue.rowOf(id));
    const column = catalogue.labels.indexOf(label);
    this.reveal(place, column);
    this.paint();
    const box = this.heat.box(place, column);
    const corner = this.canvas.getBoundingClientRect();
    return { x: corner.x + box.x + box.width / 2, y: corner.y + box.y + box.height / 2 };
  }

  // --- what stands out

  private pick(row: number): void {
    if (!this.picked.delete(row)) {
      if (this.picked.size >= MOST_PICKED) this.stage.say(`Up to ${MOST_PICKED} series can be compared.`);
      else this.picked.add(row);
    }
    const { size } = this.picked;
    const ids = () => [...this.picked].map((picked) => this.stage.catalogue.ids[picked]);
    const open = button(`Compare ${many(size, "series", "series")}`, () => this.stage.go("series", { ids: ids() }), { class: "tg-primary" });
    const clear = button("Clear", () => {
      this.picked.clear();
      this.pickedBar.replaceChildren();
      this.redraw();
    });
    this.pickedBar.replaceChildren(...(size ? [open, clear] : []));
    this.redraw();
  }

  private openSeries(row: number, column: number): void {
    const { catalogue } = this.stage;
    this.hide();
    this.stage.go("series", { ids: [catalogue.ids[row]], focus: catalogue.labels[column] ?? null });
  }

  private hide(): void {
    this.tip.hidden = true;
    this.asking++;
  }

  private asking = 0;
  private readonly ask = later(50, (row: number, column: number, turn: number) => {
    void this.stage.link.ask<Cell>("cell", { row, column }).then(
      ({ told }) => turn === this.asking && !this.tip.hidden && this.describe(row, told),
      (error) => this.stage.fail(error),
    );
  });

  /** Tell of a cell: at once what is known here, and soon what the kernel knows. */
  private tell(row: number, column: number, x: number, y: number): void {
    const { catalogue } = this.stage;
    const title = h("strong", {}, named(`${catalogue.text("dataset", row)} · ${catalogue.title(row)}`, 90));
    this.asking++;
    if (column < 0 || column >= catalogue.columns) this.tip.replaceChildren(title);
    else {
      this.tip.replaceChildren(title, h("div", {}, named(catalogue.labels[column])));
      this.ask(row, column, this.asking);
    }
    this.tip.hidden = false;
    const field = this.canvas.parentElement!;
    const right = x + 340 > field.clientWidth - STRIP;
    this.tip.style.left = `${Math.max(0, right ? x - 336 : x + 14)}px`;
    this.tip.style.top = `${Math.min(y + 14, field.clientHeight - 120)}px`;
  }

  private describe(row: number, cell: Cell): void {
    const { catalogue } = this.stage;
    const title = `${catalogue.text("dataset", row)} · ${catalogue.title(row)}`;
    this.tip.replaceChildren(...cellLines(title, cell));
    this.stage.say(cellWords(title, cell));
  }

  close(): void {
    this.sizes.disconnect();
    cancelAnimationFrame(this.pending);
  }
}
