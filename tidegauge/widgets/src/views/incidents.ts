// Incidents view: inbox of incidents with a detail pane.

import { formatTime, pluralize } from "../data/format";
import { KernelError } from "../data/kernel";
import type { IncidentAnswer } from "../data/protocol";
import { debounce, h, renderName, selectField, setOptions } from "../ui/dom";
import { severityBadge } from "../ui/severity";
import type { Shell, View } from "../ui/shell";
import { VirtualList } from "../ui/virtual-list";
import { IncidentPane } from "./incident-pane";
import "./incidents.css";
import "../ui/virtual-list.css";

interface Options {
  id: number;
  /** One of `STATUSES`; empty for all. */
  status: string;
  /** Null for all datasets; absent for the selected one. */
  dataset: null;
}

interface InboxItem {
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
  private readonly scope: HTMLLabelElement;
  private readonly count = h("span", { class: "tg-muted" });
  private readonly rows: VirtualList;
  private readonly empty = h("p", { class: "tg-empty" });
  private readonly pane: IncidentPane;
  private all: InboxItem[] = [];
  private filtered: InboxItem[] = [];
  /** Incidents labelled on this page: they stay listed although their status changed. */
  private readonly kept = new Set<number>();
  private turn = 0;
  private last: { id: number; dataset: string } | null = null;

  constructor(private readonly shell: Shell) {
    this.status = selectField("Show", [], "", (status) => this.updateFilter({ status }));
    this.scope = selectField("in", [["this", "this dataset"], ["all", "all datasets"]], "this", (scope) => this.setScope(scope === "all"));
    this.rows = new VirtualList({
      roles: ["listbox", "option"],
      label: "Incidents; arrow keys select",
      rowHeight: 88,
      renderRow: (index) => this.renderItem(this.filtered[index]),
      onOpen: (index) => void this.select(this.filtered[index].id),
      onMove: (index) => this.selectSoon(this.filtered[index].id),
    });
    this.pane = new IncidentPane(shell, (incident, own) => this.handleLabelled(incident, own));
    const tools = h("div", { class: "tg-tools" }, this.status, this.scope, this.count);
    const list = h("div", { class: "tg-inbox-list" }, this.rows.element, this.empty);
    this.element = h("section", { class: "tg-incidents" }, tools, h("div", { class: "tg-inbox" }, list, this.pane.element));
  }

  private get options(): Partial<Options> {
    return this.shell.options<Options>("incidents");
  }

  async open(): Promise<void> {
    const allDatasets = this.options.dataset === null;
    const { data, arrays } = await this.shell.link.ask("incidents", { dataset: allDatasets ? null : this.shell.dataset });
    const { texts } = data;
    this.all = Array.from(arrays.id ?? [], (id, n) => ({
      id,
      dataset: texts.dataset[n] ?? "",
      headline: texts.headline[n] ?? "",
      severity: texts.severity[n] ?? "",
      first: texts.first[n] ?? "",
      last: texts.last[n] ?? "",
      series: arrays.series[n],
      status: texts.status[n] ?? "",
      updated: arrays.updated_at[n],
    }));
    if (this.options.status === undefined) {
      const anyOpen = this.all.some(({ status }) => status === "open");
      this.shell.saveOptions("incidents", { ...this.options, status: anyOpen ? "open" : "" });
    }
    (this.scope.querySelector("select") as HTMLSelectElement).value = allDatasets ? "all" : "this";
    this.arrangeRows();
    const { dataset } = this.shell;
    if (this.last?.dataset !== dataset) this.shell.announce(`${pluralize(this.all.length, "incident")}, ${this.all.filter(({ status }) => status === "open").length} open.`);
    const exists = this.all.some(({ id }) => id === this.options.id);
    // An incident selected in another dataset is not shown in this one.
    const stale = !exists && this.last?.id === this.options.id && this.last?.dataset !== dataset;
    const id = this.options.id === undefined || stale ? this.filtered[0]?.id : this.options.id;
    if (id === undefined || (!exists && !this.filtered.length)) this.showNone();
    else await this.select(id, false);
  }

  /** Filter the list, and count the incidents of each status. */
  private arrangeRows(): void {
    const { status = "" } = this.options;
    const counts = new Map<string, number>();
    for (const { status: word } of this.all) counts.set(word, (counts.get(word) ?? 0) + 1);
    const options = STATUSES.map((word) => [word, `${word} (${counts.get(word) ?? 0})`] as const);
    const select = this.status.querySelector("select")!;
    setOptions(select, [...options, ["", `all (${this.all.length})`]], status);
    this.filtered = this.all.filter((item) => !status || item.status === status || this.kept.has(item.id));
    this.count.textContent = pluralize(this.filtered.length, "incident");
    const at = this.filtered.findIndex(({ id }) => id === this.options.id);
    this.rows.element.hidden = !this.filtered.length;
    this.empty.hidden = this.filtered.length > 0;
    this.empty.textContent = this.all.length ? `No ${status} incidents.` : "No incidents.";
    this.rows.setCount(this.filtered.length, Math.max(0, at));
  }

  private updateFilter(changes: Partial<Options>): void {
    this.kept.clear();
    this.shell.saveOptions("incidents", { ...this.options, ...changes });
    this.arrangeRows();
    this.rows.element.scrollTop = 0;
    if (!this.filtered.length) this.showNone();
    else if (!this.filtered.some(({ id }) => id === this.options.id)) void this.select(this.filtered[0].id);
  }

  /** Show no incident, because none is listed. */
  private showNone(): void {
    this.turn++;
    const { id: _, ...rest } = this.options;
    this.shell.saveOptions("incidents", rest);
    const { status } = rest;
    this.pane.clear(this.all.length ? `No ${status} incidents; select another status above.` : "Related anomalies appear here as incidents once detection has found some.");
  }

  private setScope(all: boolean): void {
    this.kept.clear();
    const { dataset, ...rest } = this.options;
    this.shell.go("incidents", all ? { ...rest, dataset: null } : rest);
  }

  private readonly selectSoon = debounce(120, (id: number) => void this.select(id));

  /** Select and show an incident; `chosen` is true if the user did so, false when the view opens. */
  private async select(id: number, chosen = true): Promise<void> {
    const turn = ++this.turn;
    this.last = { id, dataset: this.shell.dataset };
    if (this.options.id !== id) this.shell.saveOptions("incidents", { ...this.options, id });
    const at = this.filtered.findIndex((item) => item.id === id);
    if (at >= 0) this.rows.activate(at);
    try {
      await this.pane.load(id, () => turn === this.turn);
    } catch (error) {
      // The incident may not exist, or no longer.
      if (error instanceof KernelError && error.kind === "HistoryError") this.pane.clear(error.message);
      else if (chosen) this.shell.showError(error);
      else throw error;
    }
  }

  /** Update the list after a label by this user (`own`) or others; after an own label, return the focus to the list. */
  private handleLabelled(incident: IncidentAnswer, own: boolean): void {
    this.kept.add(incident.incident);
    const item = this.all.find(({ id }) => id === incident.incident);
    if (item) Object.assign(item, { status: incident.status, updated: Date.parse(incident.updated_at) / 1000 });
    this.arrangeRows();
    this.shell.announce(`Incident ${incident.incident} is now ${incident.status}.`);
    if (own) this.rows.element.focus();
  }

  private renderItem(item: InboxItem): HTMLElement {
    const range = item.first === item.last ? [renderName(item.first, 40)] : [renderName(item.first, 28), " to ", renderName(item.last, 28)];
    const dataset = this.options.dataset === null ? [" · ", renderName(item.dataset, 30)] : [];
    return h(
      "div",
      { class: "tg-inbox-item", "data-status": item.status },
      h("div", { class: "tg-inbox-top" }, severityBadge(item.severity), h("span", { class: "tg-inbox-status" }, item.status), h("span", { class: "tg-muted" }, formatTime(item.updated))),
      h("div", { class: "tg-inbox-headline" }, renderName(item.headline, 200)),
      h("div", { class: "tg-muted tg-inbox-range" }, ...range, ` · ${pluralize(item.series, "series", "series")}`, ...dataset),
    );
  }

  onResize(): void {
    this.rows.redraw();
    this.pane.redraw();
  }

  close(): void {
    this.rows.close();
  }
}
