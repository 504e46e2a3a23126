// Series over time: one with what was expected of it, or many together.

import type { Catalogue, Key } from "./catalogue";
import { Chart, type Drawn, type Listener, styleOf } from "./chart";
import { button, choice, fill, h, later, named } from "./dom";
import { many, moment, number } from "./format";
import type { Answer } from "./link";
import { multiples } from "./multiples";
import { type Chip, Picker } from "./picker";
import { type Axis, axisOf, lineOf, notPositive, placeOf, type SeriesTold, sideText, sizesApart, stepOf, unitOf, windowBefore } from "./points";
import type { Stage, View } from "./stage";
import { describe } from "./told";
import "./series.css";

const MOST = 50;
const DAY = 86400;
/** Series of which one is so many times as large as another are not drawn along one axis by themselves. */
const APART = 30;
const LIKE: Key[] = ["segment", "instance", "name", "analyzer"];
const MODES = [["together", "together"], ["indexed", "indexed (each ÷ its median)"], ["small", "small multiples"]] as const;
const KEY = "▲▼ anomaly: the graver, the fuller · ⚑ somebody spoke of it · ○─ restated: the old value · on the axis: × failed, ○ empty, ◇ no finite number";
const HELP = "Drag to zoom, double click for all. Arrow keys go from point to point.";

interface Options {
  ids: number[];
  overlay: string | null;
  /** The label of a column to point out. */
  focus: string | null;
  /** One of `MODES`; what suits the series if not said. */
  mode: string | null;
  log: boolean;
  /** Whether expectations are shown; of one series alone if not said. */
  band: boolean | null;
  since: number | string | null;
  until: number | string | null;
}

export class Series implements View {
  readonly element: HTMLElement;
  private readonly picker: Picker;
  private readonly choice: HTMLLabelElement;
  private readonly overlay: HTMLLabelElement;
  private readonly log = h("input", { type: "checkbox", onchange: () => this.chose({ log: this.log.checked }) });
  private readonly band = h("input", { type: "checkbox", onchange: () => this.chose({ band: this.band.checked }) });
  private readonly why = h("span", { class: "tg-muted" });
  private readonly window = h("span", { class: "tg-muted tg-window" });
  private readonly whole = button("Show all", () => this.look(null));
  private readonly before = button("Compare with the window before", () => this.compare());
  private readonly field = h("div", { class: "tg-charts", tabindex: "0", role: "application", "aria-label": `Chart. ${HELP}` });
  private readonly tip = h("div", { class: "tg-tip", hidden: true });
  private readonly help = h("span", { class: "tg-muted tg-help" }, HELP);
  private readonly note = h("span", { class: "tg-muted" });
  private answer: Answer<SeriesTold> | null = null;
  private asked = "";
  private turn = 0;
  private of: Catalogue | null = null;
  private axis: Axis = { columns: [], x: [], timed: true };
  private mode = "together";
  private lines: Drawn[] = [];
  private chart: Chart | null = null;
  private pointed: { place: number; line: number } | null = null;

  constructor(private readonly stage: Stage) {
    this.picker = new Picker(
      () => stage.catalogue,
      () => this.options.ids,
      (id) => this.add(id),
    );
    this.choice = choice("Show", MODES, "together", (mode) => this.chose({ mode }));
    this.overlay = choice("Lay over", [["", "no other dataset"]], "", (name) => this.chose({ overlay: name || null }));
    const tools = h(
      "div",
      { class: "tg-tools" },
      this.picker.element,
      this.choice,
      h("label", { class: "tg-choice" }, this.band, "Expected"),
      h("label", { class: "tg-choice" }, this.log, "Log scale", this.why),
      this.overlay,
    );
    const looked = h("div", { class: "tg-tools tg-looked" }, this.window, this.whole, this.before, this.help);
    const holder = h("div", { class: "tg-field tg-series-field" }, this.field, this.tip);
    const foot = h("div", { class: "tg-foot" }, h("span", { class: "tg-muted" }, KEY), this.note);
    this.element = h("section", { class: "tg-series" }, tools, this.picker.chips, looked, holder, foot);
    this.field.addEventListener("keydown", (event) => this.key(event));
    this.field.addEventListener("blur", () => this.hide());
  }

  private get options(): Options {
    const none = { ids: [], overlay: null, focus: null, mode: null, log: false, band: null, since: null, until: null };
    return { ...none, ...this.stage.options<Options>("series") };
  }

  async open(): Promise<void> {
    const { catalogue, link } = this.stage;
    const { ids, overlay } = this.options;
    const asked = JSON.stringify([ids, overlay]);
    if (this.of !== catalogue || this.asked !== asked) {
      const turn = ++this.turn;
      const answer = ids.length ? await link.ask<SeriesTold>("series", { ids, overlay }) : null;
      if (turn !== this.turn) return;
      [this.answer, this.asked, this.of] = [answer, asked, catalogue];
      this.offer();
    }
    this.show();
  }

  private chose(some: Partial<Options>): void {
    this.stage.remember("series", { ...this.options, ...some });
    void this.open().catch((error) => this.stage.fail(error));
  }

  private add(id: number): void {
    const { ids } = this.options;
    if (ids.length >= MOST) this.stage.say(`Up to ${MOST} series can be told apart; remove one first.`);
    else this.chose({ ids: [...ids, id] });
  }

  /** Offer the other datasets that have the like of a series that was chosen. */
  private offer(): void {
    const { catalogue } = this.stage;
    const { ids, overlay } = this.options;
    const like = (row: number) => LIKE.map((key) => catalogue.code(key, row)).join(" ");
    const rows = ids.map((id) => catalogue.rowOf(id)).filter((row) => row >= 0);
    const wanted = new Set(rows.map(like));
    const own = new Set(rows.map((row) => catalogue.text("dataset", row)));
    const found = new Set<string>();
    for (let row = 0; wanted.size && row < catalogue.rows; row++) {
      if (wanted.has(like(row))) found.add(catalogue.text("dataset", row));
    }
    const others = [...found].filter((name) => own.size > 1 || !own.has(name));
    const none = others.length ? "no other dataset" : "no other has these";
    const select = this.overlay.querySelector("select")!;
    fill(select, [["", none], ...others.map((name) => [name, name] as const)], overlay ?? "");
    select.disabled = !others.length && overlay === null;
  }

  // --- drawing

  private show(): void {
    const { answer } = this;
    const options = this.options;
    this.drop();
    this.mode = options.mode ?? "together";
    if (!answer?.told.series.length) {
      this.lines = [];
      this.picker.show([], () => undefined, () => undefined);
      this.empty(options.ids.length > 0);
      this.tools(options);
      return;
    }
    const rows = answer.told.series.map((_, row) => row);
    if (options.mode === null && sizesApart(answer, rows) > APART) this.mode = "small";
    const { mode } = this;
    const band = options.band ?? (rows.length === 1 || mode === "small");
    const units = rows.map((row) => (mode === "indexed" ? unitOf(answer, row) : 1));
    const looks = rows.map((row) => styleOf(this.stage.theme, row));
    this.lines = rows
      .filter((row) => units[row] !== null)
      .map((row) => ({ row, style: looks[row], text: this.title(row), unit: units[row]!, band, number: row + 1 }));
    this.axis = axisOf(answer, rows);
    this.tools(options);
    const chips = rows.map((row): Chip => ({
      ...looks[row],
      title: this.title(row),
      over: !options.ids.includes(answer.told.series[row].id),
      note: units[row] === null ? "no index: its median is 0" : null,
    }));
    const remove = (n: number) => this.chose({ ids: options.ids.filter((id) => id !== answer.told.series[n].id) });
    this.picker.show(chips, remove, (n) => this.highlight(n));
    const missing = options.ids.filter((id) => !answer.told.series.some((one) => one.id === id)).length;
    const apart = options.mode === null && mode === "small" ? "Drawn apart: their sizes differ too much for one axis. " : "";
    this.note.textContent = apart + (missing ? `${many(missing, "series", "series")} of those asked for ${missing === 1 ? "is" : "are"} not here.` : "");
    this.draw();
  }

  private title(row: number): string {
    const { catalogue } = this.stage;
    const { series } = this.answer!.told;
    const at = catalogue.rowOf(series[row].id);
    const title = at < 0 ? `${series[row].name} ${series[row].instance}` : catalogue.title(at);
    return series.some((one) => one.dataset !== series[0].dataset) ? `${series[row].dataset} · ${title}` : title;
  }

  private tools(options: Options): void {
    this.choice.querySelector("select")!.value = this.mode;
    this.band.checked = this.lines.some(({ band }) => band);
    this.overlay.querySelector("select")!.value = options.overlay ?? "";
    const row = this.answer ? notPositive(this.answer, this.lines.map((line) => line.row)) : null;
    this.log.disabled = row !== null;
    this.log.checked = options.log && row === null;
    const reason = row === null ? "" : `not here: ${row + 1} has values of 0 or less`;
    this.why.textContent = reason;
    this.tellWindow();
  }

  private get seen(): [number, number] | null {
    const { since, until } = this.options;
    const { x } = this.axis;
    const labels = this.answer?.told.labels ?? [];
    const [from, to] = [placeOf(this.axis, labels, since), placeOf(this.axis, labels, until)];
    if ((from === null && to === null) || !x.length) return null;
    const found: [number, number] = [from ?? x[0], to ?? x[x.length - 1]];
    return found[0] < found[1] ? found : null;
  }

  private draw(): void {
    const { clientWidth: width, clientHeight: height } = this.field;
    if (!width || !height || !this.answer) return;
    const { mode } = this;
    const { focus } = this.options;
    this.drop();
    this.field.classList.toggle("tg-multiples", mode === "small");
    this.help.textContent = mode === "small" ? "Press a name to see it alone." : HELP;
    const common = { axis: this.axis, log: this.log.checked, focus, window: this.seen };
    if (mode === "small") {
      const plans = this.lines.map((line) => ({ ...common, lines: [{ ...line, style: { ...line.style, dash: [] } }], small: true }));
      const { series } = this.answer.told;
      const alone = (row: number) => this.chose({ ids: [series[row].id], mode: null, overlay: null });
      this.field.replaceChildren(...multiples(this.stage.theme, this.answer, plans, width, height, alone));
      return;
    }
    this.chart = new Chart(this.stage.theme, this.answer, { ...common, lines: this.lines, small: false }, width, height, this.listener);
    this.field.replaceChildren(this.chart.element);
  }

  private empty(gone: boolean): void {
    const { catalogue } = this.stage;
    const counts = new Map<number, number>();
    for (let n = 0; n < catalogue.marks.length; n += 2) counts.set(catalogue.marks[n], (counts.get(catalogue.marks[n]) ?? 0) + 1);
    const most = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 6);
    const offers = most.map(([row, count]) =>
      h("li", {}, button(`${catalogue.text("dataset", row)} · ${catalogue.title(row)}`, () => this.add(catalogue.ids[row])), ` ${many(count, "anomaly", "anomalies")}`),
    );
    const text = gone ? "The series that were asked for are not here." : "No series was chosen yet.";
    this.field.classList.remove("tg-multiples");
    this.field.replaceChildren(
      h("div", { class: "tg-empty" }, h("p", {}, `${text} Search for one above, or press one in the overview.`), offers.length ? h("p", {}, "With the most anomalies:") : null, h("ul", {}, ...offers)),
    );
  }

  // --- the window

  private look(window: [number, number] | null): void {
    const told = (at: number) => (this.axis.timed ? at : this.answer!.told.labels[this.axis.columns[at]]);
    const [since, until] = window ? window.map(told) : [null, null];
    this.stage.remember("series", { ...this.options, since, until });
    if (this.chart) this.chart.look(this.seen);
    else this.draw();
    this.tellWindow();
  }

  private tellWindow(): void {
    const { seen, axis } = this;
    const name = (at: number) => (axis.timed ? moment(at) : this.answer!.told.labels[axis.columns[at]]);
    const count = axis.x.filter((x) => !seen || (x >= seen[0] && x <= seen[1])).length;
    const ends = seen ?? (axis.x.length ? [axis.x[0], axis.x[axis.x.length - 1]] : null);
    this.window.textContent = this.lines.length && ends ? `${name(ends[0])} to ${name(ends[1])}, ${many(count, "partition")}` : "";
    this.whole.disabled = seen === null;
    const why = this.whyNotCompared();
    this.before.disabled = why !== null;
    this.before.title = why ?? "All metrics of the dataset in this window against the window of the same length before it";
  }

  private whyNotCompared(): string | null {
    const { seen, axis } = this;
    if (!seen) return "Drag over the chart to choose a window first";
    if (!axis.timed) return "These partitions have no time";
    const { dataset } = this.stage;
    const names = new Set(this.answer!.told.series.map((one) => one.dataset));
    if (!names.has(dataset)) return `Compare looks at ${dataset}; choose ${[...names].join(" or ")} there first`;
    return seen[0] <= axis.x[0] ? "There is nothing before this window" : null;
  }

  private compare(): void {
    const [since, until] = this.seen!;
    const steps = this.lines.map(({ row }) => stepOf(this.axis.x, lineOf(this.answer!, row, this.axis, "value"))).filter(Number.isFinite);
    // One point alone tells no step.
    const step = steps.length ? Math.min(...steps) : DAY;
    const before = windowBefore(since, until, step);
    const side = (one: { since: number; until: number }) => ({ since: sideText(one.since, step), until: sideText(one.until, step) });
    this.stage.go("compare", { baseline: side(before), current: side({ since, until }) });
  }

  // --- pointing

  private readonly listener: Listener = {
    pointed: (at) => (at ? this.tell(at.place, at.line, at.left, at.top) : this.hide()),
    brushed: (first, last) => this.look([this.axis.x[first], this.axis.x[last]]),
    reset: () => this.look(null),
  };

  /** Fifty lines take a while to draw again: wait until the pointer rests. */
  private readonly light = later(40, (line: number | null) => this.chart?.highlight(line));

  private highlight(row: number | null): void {
    const line = row === null ? -1 : this.lines.findIndex((one) => one.row === row);
    this.light(line < 0 ? null : line);
  }

  private tell(place: number, line: number, left: number, top: number): void {
    if (this.pointed?.line !== line) {
      this.light(line);
      this.picker.point(this.lines[line].row);
    }
    this.pointed = { place, line };
    const { row, text, unit } = this.lines[line];
    this.tip.replaceChildren(h("strong", {}, named(text, 90)), ...describe(this.answer!, row, this.axis.columns[place], unit));
    this.tip.hidden = false;
    const over = this.chart!.u.over;
    const [x, y] = [left + over.offsetLeft, top + over.offsetTop];
    const right = x + 350 > this.field.clientWidth;
    this.tip.style.left = `${Math.max(0, right ? x - this.tip.offsetWidth - 14 : x + 14)}px`;
    this.tip.style.top = `${Math.max(0, Math.min(y + 14, this.field.clientHeight - this.tip.offsetHeight - 4))}px`;
  }

  private hide(): void {
    if (this.pointed) this.light(null);
    this.pointed = null;
    this.tip.hidden = true;
    this.picker.point(null);
  }

  private key(event: KeyboardEvent): void {
    if (!this.chart || event.target !== this.field) return;
    const steps: Record<string, [number, number]> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1], Home: [-1e9, 0], End: [1e9, 0] };
    const step = steps[event.key];
    if (step) this.step(...step);
    else if (event.key === "Escape") this.chart.u.setCursor({ left: -10, top: -10 });
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  private step(across: number, down: number): void {
    const { x } = this.axis;
    const [low, high] = this.seen ?? [x[0], x[x.length - 1]];
    const [first, last] = [x.findIndex((at) => at >= low), x.findLastIndex((at) => at <= high)];
    const line = ((this.pointed?.line ?? 0) + down + this.lines.length) % this.lines.length;
    const place = Math.min(last, Math.max(first, (this.pointed?.place ?? last + 1) + across));
    this.chart!.point(place, line);
    const { row, text } = this.lines[line];
    const { told, arrays } = this.answer!;
    const column = this.axis.columns[place];
    const value = arrays.value[row * told.labels.length + column];
    const odd = told.anomalies.some((one) => one.row === row && one.column === column) ? ", an anomaly" : "";
    this.stage.say(`${text}, ${told.labels[column]}: ${number(value)}${odd}`);
  }

  private drop(): void {
    this.hide();
    this.chart?.close();
    this.chart = null;
  }

  resized(): void {
    if (!this.answer?.told.series.length) return;
    // Colours may have changed, too.
    this.show();
  }

  close(): void {
    this.drop();
  }
}
