// The ledger as a calendar: what came, came late or again, is missing or gone, and where anomalies are.

import { type Block, type Layout, layoutOf, pageOf, pagesOf, towards, WEEKDAYS } from "./calendar";
import { DayPane } from "./day";
import { button, choice, fill, h, named } from "./dom";
import { many, moment } from "./format";
import { delayOf, type Partition, STATUSES, SYMBOLS, titleOf } from "./partition";
import { markOf } from "./severity";
import { before } from "./sides";
import type { Stage, View } from "./stage";
import "./partitions.css";

interface Options {
  segment: string;
  /** The name of a partition; of a missing one its time, in seconds. */
  partition: string;
  time: number;
  page: number;
  /** A status, or `anomalies`: all others are faint. */
  highlight: string;
}

export class Partitions implements View {
  readonly element: HTMLElement;
  private readonly segment: HTMLLabelElement;
  private readonly legend = h("div", { class: "tg-calendar-legend", role: "group", "aria-label": "Highlight" });
  private readonly range = h("span", { class: "tg-calendar-range" });
  private readonly newer = button("Newer ›", () => this.turn(-1));
  private readonly older = button("‹ Older", () => this.turn(1));
  private readonly field = h("div", { class: "tg-calendar" });
  private readonly tip = h("div", { class: "tg-tip", hidden: true });
  private readonly pane: DayPane;
  private all: Partition[] = [];
  /** Those of the segment that is shown; what follows are places among them. */
  private some: Partition[] = [];
  private times: number[] = [];
  private layout: Layout = "list";
  private pages: Block[][] = [];
  private page = 0;
  private active = -1;
  private of = "";
  /** What is missing after the last of those. */
  private overdue: Record<string, number> = {};
  private dataset: string | null = null;

  constructor(private readonly stage: Stage) {
    this.segment = choice("Segment", [], "", (segment) => this.stage.go("partitions", { segment }));
    this.pane = new DayPane(stage, () => this.compared());
    const tools = h("div", { class: "tg-tools" }, this.segment, h("span", { class: "tg-group" }, this.older, this.newer), this.range, this.legend);
    const field = h("div", { class: "tg-calendar-field" }, this.field, this.tip);
    this.element = h("section", { class: "tg-partitions" }, tools, h("div", { class: "tg-calendar-room" }, field, this.pane.element));
    this.listen();
  }

  private get options(): Partial<Options> {
    return this.stage.options<Options>("partitions");
  }

  private remember(some: Partial<Options>): void {
    this.stage.remember("partitions", { ...this.options, ...some });
  }

  async open(): Promise<void> {
    const { dataset, catalogue, link } = this.stage;
    const of = JSON.stringify([dataset, catalogue.commits]);
    if (this.of !== of) {
      const { told, arrays } = await link.ask("partitions", { dataset });
      const at = (name: string, n: number) => arrays[name]?.[n] ?? NaN;
      this.all = (told.partitions as (string | null)[]).map((name, n) => ({
        name,
        segment: told.texts.segment[n] ?? "",
        status: told.texts.status[n],
        worst: told.texts.worst?.[n] ?? null,
        time: at("time", n),
        late: at("late", n) === 1,
        version: at("version", n),
        rows: at("rows", n),
        firstSeen: at("first_seen_at", n),
        arrived: at("arrived_at", n),
        measured: at("measured_at", n),
        gone: at("gone_at", n),
        delay: at("delay", n),
        anomalies: at("anomalies", n),
      }));
      this.overdue = told.overdue;
      this.of = of;
      this.pane.forget();
    }
    const other = this.dataset !== dataset;
    if (other && this.dataset !== null) {
      // A page of one dataset is none of another.
      const { page, ...rest } = this.options;
      this.stage.remember("partitions", rest);
    }
    this.dataset = dataset;
    this.lay();
    if (other) this.stage.say(`${many(this.some.length, "partition")}, ${this.some.filter(({ anomalies }) => anomalies > 0).length} with anomalies.`);
  }

  /** Choose what is shown, and draw it. */
  private lay(): void {
    const segments = [...new Set(this.all.map(({ segment }) => segment))].sort();
    const { segment = segments[0] ?? "" } = this.options;
    const chosen = segments.includes(segment) ? segment : (segments[0] ?? "");
    this.segment.hidden = segments.length < 2;
    fill(this.segment.querySelector("select")!, segments.map((one) => [one, one || "none"] as const), chosen);
    this.some = this.all.filter((one) => one.segment === chosen);
    this.times = this.some.map(({ time }) => time);
    this.layout = layoutOf(this.times);
    this.pages = pagesOf(this.times, this.layout);
    const { partition, time } = this.options;
    const place = this.some.findIndex((one) => (partition !== undefined ? one.name === partition : one.name === null && one.time === time));
    // What is overdue is no place to begin.
    const newest = this.some.findLastIndex(({ name }) => name !== null);
    this.active = place >= 0 ? place : newest >= 0 ? newest : this.some.length - 1;
    this.page = Math.min(this.options.page ?? pageOf(this.pages, this.active), Math.max(0, this.pages.length - 1));
    this.drawLegend();
    this.draw();
    if (place >= 0) this.pane.show(this.some[place], this.earlier(place) >= 0);
    else this.pane.clear(this.some.length ? "Choose a partition to see what is known of it." : "");
  }

  /** What is not faint; all, if there is none of what was chosen. */
  private get highlight(): string {
    const { highlight = "" } = this.options;
    return this.some.some((one) => suits(one, highlight)) ? highlight : "";
  }

  private drawLegend(): void {
    const { highlight } = this;
    const entry = (key: string, count: number, sample: HTMLElement) => {
      const pressed = highlight === key;
      const toggle = () => {
        this.remember({ highlight: pressed ? "" : key });
        this.drawLegend();
        this.draw();
        this.legend.querySelector<HTMLElement>(`[data-key="${key}"]`)?.focus();
      };
      const made = button("", toggle, { "aria-pressed": String(pressed), "data-key": key, title: pressed ? "Show all again" : "Show only these, all others faintly" });
      made.append(sample, ` ${key} ${count.toLocaleString("en-US")}`);
      made.disabled = count === 0;
      return made;
    };
    const status = (key: string) => {
      const sample = h("span", { class: "tg-cell tg-sample", "data-status": key, "aria-hidden": "true" }, SYMBOLS[key]);
      return entry(key, this.some.filter((one) => one.status === key).length, sample);
    };
    const marked = this.some.filter(({ anomalies }) => anomalies > 0).length;
    const sample = h("span", { class: "tg-severity", "data-severity": "warning", "aria-hidden": "true" }, markOf("warning"));
    this.legend.replaceChildren(...STATUSES.map(status), entry("anomalies", marked, sample));
  }

  private draw(): void {
    const blocks = this.pages[this.page] ?? [];
    this.field.dataset.layout = this.layout;
    this.tip.hidden = true;
    if (!this.some.length) {
      this.field.replaceChildren(h("p", { class: "tg-empty" }, "No partitions yet: they show up here once a run measured some."));
    } else {
      const shown = blocks.some(({ rows }) => rows.some((row) => row.includes(this.active)));
      // Exactly one cell is reached by Tab.
      const tab = shown ? this.active : Math.max(...blocks.flatMap(({ rows }) => rows.flat()));
      this.field.replaceChildren(...blocks.map((block) => this.block(block, tab)));
    }
    this.older.disabled = this.page >= this.pages.length - 1;
    this.newer.disabled = this.page <= 0;
    const [first, last] = [blocks[0], blocks[blocks.length - 1]];
    const months = first && first !== last ? `${first.title} to ${last.title}` : (first?.title ?? "");
    const piece = first && this.layout === "list" && this.pages.length > 1 ? `page ${this.pages.length - this.page} of ${this.pages.length}` : months;
    const left = this.overdue[this.some[0]?.segment ?? ""];
    const overdue = left ? `${left.toLocaleString("en-US")} more overdue` : "";
    this.range.textContent = [piece, many(this.some.length, "partition"), overdue].filter(Boolean).join(" · ");
  }

  private block(block: Block, tab: number): HTMLElement {
    const rows = block.rows.map((row, n) =>
      h(
        "div",
        { class: "tg-calendar-row", role: "row" },
        block.heads[n] ? h("span", { class: "tg-calendar-head", role: "rowheader" }, block.heads[n]) : null,
        ...row.map((place) => (place < 0 ? h("span", { class: "tg-cell tg-nothing", role: "gridcell" }) : this.cell(place, place === tab))),
      ),
    );
    const heads = this.layout === "days" ? WEEKDAYS.map((day) => day[0]) : this.layout === "hours" ? ["", ...Array.from({ length: 24 }, (_, hour) => String(hour))] : [];
    const head = heads.length ? h("div", { class: "tg-calendar-row tg-calendar-heads", "aria-hidden": "true" }, ...heads.map((text) => h("span", {}, text))) : null;
    const title = block.title ? h("div", { class: "tg-calendar-title" }, block.title) : null;
    return h("div", { class: "tg-calendar-block", role: "grid", "aria-label": block.title || "Partitions" }, title, head, ...rows);
  }

  private cell(place: number, tab: boolean): HTMLElement {
    const one = this.some[place];
    const { highlight } = this;
    const faint = highlight && !suits(one, highlight);
    const day = this.layout === "days" ? h("span", { class: "tg-cell-day" }, String(new Date(1000 * one.time).getUTCDate())) : null;
    return h(
      "button",
      {
        type: "button",
        class: `tg-cell${faint ? " tg-faint" : ""}`,
        role: "gridcell",
        "data-status": one.status,
        "data-place": place,
        "data-mark": one.worst ? markOf(one.worst) : undefined,
        "data-severity": one.worst ?? undefined,
        "aria-label": this.spoken(one),
        "aria-selected": String(place === this.active && this.chosen),
        tabindex: tab ? "0" : "-1",
      },
      day,
      SYMBOLS[one.status],
    );
  }

  private get chosen(): boolean {
    return this.options.partition !== undefined || this.options.time !== undefined;
  }

  private spoken(one: Partition): string {
    const late = one.late && one.status !== "late" ? ", late" : "";
    const found = one.anomalies ? `, ${many(one.anomalies, "anomaly", "anomalies")}, ${one.worst}` : "";
    return `${titleOf(one)}: ${one.status}${late}${found}`;
  }

  private turn(by: number): void {
    this.page = Math.max(0, Math.min(this.pages.length - 1, this.page + by));
    this.remember({ page: this.page });
    this.draw();
    this.field.parentElement!.scrollTop = 0;
  }

  // --- choosing

  private listen(): void {
    const { field } = this;
    const under = (event: Event) => (event.target as Element).closest<HTMLElement>("[data-place]");
    field.addEventListener("click", (event) => {
      const cell = under(event);
      if (cell) this.choose(Number(cell.dataset.place));
    });
    field.addEventListener("keydown", (event) => this.key(event));
    for (const kind of ["pointerover", "focusin"] as const) {
      field.addEventListener(kind, (event) => {
        const cell = under(event);
        if (cell) this.tell(cell, kind === "focusin");
        else this.tip.hidden = true;
      });
    }
    for (const kind of ["pointerleave", "focusout"] as const) field.addEventListener(kind, () => (this.tip.hidden = true));
  }

  private choose(place: number): void {
    const one = this.some[place];
    this.active = place;
    const { partition, time, ...rest } = this.options;
    const name = one.name === null ? { time: one.time } : { partition: one.name };
    this.stage.remember("partitions", { ...rest, ...name, page: this.page });
    for (const cell of this.field.querySelectorAll<HTMLElement>("[data-place]")) {
      const own = Number(cell.dataset.place) === place;
      cell.setAttribute("aria-selected", String(own));
      cell.tabIndex = own ? 0 : -1;
    }
    this.pane.show(one, this.earlier(place) >= 0);
  }

  private key(event: KeyboardEvent): void {
    const steps: Record<string, [across: number, down: number]> = {
      ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1], Home: [-1e9, 0], End: [1e9, 0],
    };
    if (event.key === "Escape") this.tip.hidden = true;
    if (!(event.key in steps)) return;
    event.preventDefault();
    const focused = document.activeElement as HTMLElement | null;
    const from = Number(focused?.dataset.place ?? this.active);
    const place = towards(this.times, this.layout, from, ...steps[event.key]);
    const page = pageOf(this.pages, place);
    if (page !== this.page) {
      this.page = page;
      this.remember({ page });
      this.draw();
    }
    const cell = this.field.querySelector<HTMLElement>(`[data-place="${place}"]`);
    if (!cell) return;
    if (focused?.dataset.place) focused.tabIndex = -1;
    cell.tabIndex = 0;
    cell.focus();
  }

  private tell(cell: HTMLElement, aloud: boolean): void {
    const one = this.some[Number(cell.dataset.place)];
    const facts = [
      one.version > 0 ? `version ${one.version}` : "",
      Number.isNaN(one.rows) ? "" : many(one.rows, "row"),
      Number.isNaN(one.arrived) ? "" : `arrived ${moment(one.arrived)}`,
      delayOf(one),
    ].filter(Boolean);
    const found = one.anomalies ? h("div", { class: "tg-severity", "data-severity": one.worst ?? "" }, `${markOf(one.worst ?? "")} ${many(one.anomalies, "anomaly", "anomalies")}, ${one.worst}`) : null;
    const late = one.late && one.status !== "late" ? " and late" : "";
    this.tip.replaceChildren(h("strong", {}, named(titleOf(one), 80)), h("div", {}, `${SYMBOLS[one.status]} ${one.status}${late}`), ...facts.map((fact) => h("div", { class: "tg-muted" }, fact)), ...(found ? [found] : []));
    this.tip.hidden = false;
    const field = this.tip.parentElement!;
    const { offsetWidth, offsetHeight } = this.tip;
    const [corner, at] = [field.getBoundingClientRect(), cell.getBoundingClientRect()];
    const [x, y] = [at.left - corner.left + field.scrollLeft, at.bottom - corner.top + field.scrollTop];
    const above = y + offsetHeight + 8 > field.scrollTop + field.clientHeight;
    this.tip.style.left = `${Math.max(0, Math.min(x, field.scrollLeft + field.clientWidth - offsetWidth - 4))}px`;
    this.tip.style.top = `${Math.max(field.scrollTop, above ? y - at.height - offsetHeight - 6 : y + 6)}px`;
    if (aloud) this.stage.say([this.spoken(one), ...facts].join(", "));
  }

  /** The partition to compare another with; those that are not there cannot be. */
  private earlier(place: number): number {
    const times = Float64Array.from(this.some, (one) => (one.name === null ? NaN : one.time));
    return before({ times, within: this.some.map(({ segment }) => segment) }, place);
  }

  private compared(): void {
    const [place, baseline] = [this.active, this.earlier(this.active)];
    const [one, other] = [this.some[place]?.name, this.some[baseline]?.name];
    if (one == null || other == null) return;
    this.stage.go("compare", { kind: "partitions", baseline: { partition: other }, current: { partition: one } });
  }

  resized(): void {
    this.tip.hidden = true;
  }

  close(): void {
    this.tip.hidden = true;
  }
}

function suits(one: Partition, highlight: string): boolean {
  return highlight === "anomalies" ? one.anomalies > 0 : one.status === highlight;
}
