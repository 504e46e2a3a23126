// The inbox: incidents at the left, at the right what happened and what to say of it.

import { choice, fill, h, later, named } from "./dom";
import { many, moment } from "./format";
import { IncidentPane, type Incident } from "./incident";
import { KernelError } from "./link";
import { severityOf } from "./severity";
import type { Stage, View } from "./stage";
import { Rows } from "./table";
import "./incidents.css";
import "./table.css";

interface Options {
  id: number;
  /** One of `STATUSES`; empty for all. */
  status: string;
  /** Null for those of all datasets. */
  dataset: null;
}

interface Listed {
  id: number;
  dataset: string;
  headline: string;
  severity: string;
  first: string;
  last: string;
  series: number;
  status: string;
  updated: number;
}

const STATUSES = ["open", "acknowledged", "expected", "resolved"] as const;

export class Incidents implements View {
  readonly element: HTMLElement;
  private readonly status: HTMLLabelElement;
  private readonly of: HTMLLabelElement;
  private readonly count = h("span", { class: "tg-muted" });
  private readonly rows: Rows;
  private readonly none = h("p", { class: "tg-empty" });
  private readonly pane: IncidentPane;
  private all: Listed[] = [];
  private shown: Listed[] = [];
  /** What was spoken of stays in the list, though its status is another now. */
  private readonly kept = new Set<number>();
  private looking = 0;
  private last: { id: number; dataset: string } | null = null;

  constructor(private readonly stage: Stage) {
    this.status = choice("Show", [], "", (status) => this.filtered({ status }));
    this.of = choice("of", [["this", "this dataset"], ["all", "all datasets"]], "this", (of) => this.widen(of === "all"));
    this.rows = new Rows({
      roles: ["listbox", "option"],
      label: "Incidents; arrow keys choose",
      height: 88,
      make: (index) => this.item(this.shown[index]),
      open: (index) => void this.look(this.shown[index].id),
      moved: (index) => this.soon(this.shown[index].id),
    });
    this.pane = new IncidentPane(stage, (told, ours) => this.spoken(told, ours));
    const tools = h("div", { class: "tg-tools" }, this.status, this.of, this.count);
    const list = h("div", { class: "tg-inbox-list" }, this.rows.element, this.none);
    this.element = h("section", { class: "tg-incidents" }, tools, h("div", { class: "tg-inbox" }, list, this.pane.element));
  }

  private get options(): Partial<Options> {
    return this.stage.options<Options>("incidents");
  }

  async open(): Promise<void> {
    const wide = this.options.dataset === null;
    const { told, arrays } = await this.stage.link.ask("incidents", { dataset: wide ? null : this.stage.dataset });
    const { texts } = told;
    this.all = Array.from(arrays.id ?? [], (id, n) => ({
      id,
      dataset: texts.dataset[n],
      headline: texts.headline[n],
      severity: texts.severity[n],
      first: texts.first[n] ?? "",
      last: texts.last[n] ?? "",
      series: arrays.series[n],
      status: texts.status[n],
      updated: arrays.updated_at[n],
    }));
    if (this.options.status === undefined) {
      const some = this.all.some(({ status }) => status === "open");
      this.stage.remember("incidents", { ...this.options, status: some ? "open" : "" });
    }
    (this.of.querySelector("select") as HTMLSelectElement).value = wide ? "all" : "this";
    this.arrange();
    const { dataset } = this.stage;
    if (this.last?.dataset !== dataset) this.stage.say(`${many(this.all.length, "incident")}, ${this.all.filter(({ status }) => status === "open").length} open.`);
    const known = this.all.some(({ id }) => id === this.options.id);
    // What was looked at in another dataset is not what to show of this one.
    const stale = !known && this.last?.id === this.options.id && this.last?.dataset !== dataset;
    const id = this.options.id === undefined || stale ? this.shown[0]?.id : this.options.id;
    if (id === undefined || (!known && !this.shown.length)) this.nothing();
    else await this.look(id, false);
  }

  /** Choose what is listed, and count the others. */
  private arrange(): void {
    const { status = "" } = this.options;
    const counts = new Map<string, number>();
    for (const one of this.all) counts.set(one.status, (counts.get(one.status) ?? 0) + 1);
    const options = STATUSES.map((word) => [word, `${word} (${counts.get(word) ?? 0})`] as const);
    const select = this.status.querySelector("select")!;
    fill(select, [...options, ["", `all (${this.all.length})`]], status);
    this.shown = this.all.filter((one) => !status || one.status === status || this.kept.has(one.id));
    this.count.textContent = many(this.shown.length, "incident");
    const at = this.shown.findIndex(({ id }) => id === this.options.id);
    this.rows.element.hidden = !this.shown.length;
    this.none.hidden = this.shown.length > 0;
    this.none.textContent = this.all.length ? `Nothing is ${status} here.` : "There are no incidents here.";
    this.rows.show(this.shown.length, Math.max(0, at));
  }

  private filtered(some: Partial<Options>): void {
    this.kept.clear();
    this.stage.remember("incidents", { ...this.options, ...some });
    this.arrange();
    this.rows.element.scrollTop = 0;
    if (!this.shown.length) this.nothing();
    else if (!this.shown.some(({ id }) => id === this.options.id)) void this.look(this.shown[0].id);
  }

  /** Show no incident, since none is listed. */
  private nothing(): void {
    this.looking++;
    const { id: _, ...rest } = this.options;
    this.stage.remember("incidents", rest);
    const { status } = rest;
    this.pane.clear(this.all.length ? `Nothing is ${status} here; choose another status above.` : "Anomalies that belong together show up here once detection found some.");
  }

  private widen(all: boolean): void {
    this.kept.clear();
    const { dataset, ...rest } = this.options;
    this.stage.go("incidents", all ? { ...rest, dataset: null } : rest);
  }

  private readonly soon = later(120, (id: number) => void this.look(id));

  /** Show what is known of one; `chosen` by the user, else because the view was opened. */
  private async look(id: number, chosen = true): Promise<void> {
    const turn = ++this.looking;
    this.last = { id, dataset: this.stage.dataset };
    if (this.options.id !== id) this.stage.remember("incidents", { ...this.options, id });
    const at = this.shown.findIndex((one) => one.id === id);
    if (at >= 0) this.rows.reveal(at);
    try {
      await this.pane.look(id, () => turn === this.looking);
    } catch (error) {
      // It may be that there is none of this number, or none any more.
      if (error instanceof KernelError && error.kind === "HistoryError") this.pane.clear(error.message);
      else if (chosen) this.stage.fail(error);
      else throw error;
    }
  }

  /** Something was said, by us or others: show it in the list; after our own word go on there. */
  private spoken(told: Incident, ours: boolean): void {
    this.kept.add(told.incident);
    const one = this.all.find(({ id }) => id === told.incident);
    if (one) Object.assign(one, { status: told.status, updated: Date.parse(told.updated_at) / 1000 });
    this.arrange();
    this.stage.say(`Incident ${told.incident} is ${told.status} now.`);
    if (ours) this.rows.element.focus();
  }

  private item(one: Listed): HTMLElement {
    const range = one.first === one.last ? [named(one.first, 40)] : [named(one.first, 28), " to ", named(one.last, 28)];
    const wide = this.options.dataset === null ? [" · ", named(one.dataset, 30)] : [];
    return h(
      "div",
      { class: "tg-inbox-item", "data-status": one.status },
      h("div", { class: "tg-inbox-top" }, severityOf(one.severity), h("span", { class: "tg-inbox-status" }, one.status), h("span", { class: "tg-muted" }, moment(one.updated))),
      h("div", { class: "tg-inbox-headline" }, named(one.headline, 200)),
      h("div", { class: "tg-muted tg-inbox-range" }, ...range, ` · ${many(one.series, "series", "series")}`, ...wide),
    );
  }

  resized(): void {
    this.rows.redraw();
    this.pane.redraw();
  }

  close(): void {
    this.rows.close();
  }
}
