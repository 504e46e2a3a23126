// Incidents view: inbox of incidents of all tables, with search, groups, bulk actions and a detail pane.

import { formatAge, formatTime, pluralize } from "../data/format";
import { groupInbox, inboxItems, type InboxGroup, type InboxItem, searchInbox, displayedStatus, STATUSES } from "../data/inbox";
import { KernelError } from "../data/kernel";
import type { IncidentAnswer, LabelIncidentsAnswer } from "../data/protocol";
import { ACTIONS, actionButton, authorField, SNOOZE_LENGTHS } from "../ui/actions";
import { button, debounce, h, renderName, selectField, setOptions } from "../ui/dom";
import { severityBadge } from "../ui/severity";
import type { Listing, Shell, View } from "../ui/shell";
import { PaneState } from "../ui/state";
import { TablePicker } from "../ui/table-picker";
import { UndoBar } from "../ui/undo";
import { VirtualList } from "../ui/virtual-list";
import { IncidentPane } from "./incident-pane";
import "./incidents.css";
import "../ui/virtual-list.css";

interface Options {
  id: number;
  /** One of `STATUSES`; empty for all. */
  status: string;
  /** The only table to show; null for all. */
  table: string | null;
  /** Words to search for. */
  filter: string;
  /** `none` lists incidents that share a cause separately. */
  group: string;
}

type Entry = { group: InboxGroup } | { item: InboxItem; inGroup: boolean };

const GROUPINGS = [["", "shared cause"], ["none", "nothing"]] as const;
const BULK_ACTIONS = ["acknowledge", "expected", "false alarm", "bad data", "new normal", "resolve", "reopen"] as const;

/** Inbox of incidents. */
export class Incidents implements View {
  readonly element: HTMLElement;
  private readonly status: HTMLLabelElement;
  private readonly tables: TablePicker;
  private readonly grouping: HTMLLabelElement;
  private readonly filter: HTMLInputElement;
  private readonly count = h("span", { class: "tg-muted" });
  private readonly rows: VirtualList;
  private readonly state = new PaneState();
  private readonly pane: IncidentPane;
  private readonly undoBar = new UndoBar();
  private readonly bulk = h("div", { class: "tg-tools tg-bulk", role: "group", "aria-label": "Actions on the selected incidents", hidden: true });
  private readonly bulkCount = h("strong", {});
  private readonly bulkNote = h("input", { "aria-label": "Note on the selected incidents", placeholder: "Note (optional)" });
  private readonly bulkAuthor: ReturnType<typeof authorField>;
  private allItems: InboxItem[] = [];
  private isLoaded = false;
  private entries: Entry[] = [];
  private readonly expanded = new Set<string>();
  private readonly checked = new Set<number>();
  /** Incidents labeled on this page. They stay listed even if their status no longer matches. */
  private readonly relabelled = new Set<number>();
  private requestNumber = 0;
  private listNumber = 0;
  private announced = "";

  constructor(private readonly shell: Shell) {
    this.status = selectField("Show", [], "", (status) => this.updateFilter({ status }));
    this.tables = new TablePicker((table) => this.updateFilter({ table }));
    this.grouping = selectField("Group by", GROUPINGS, "", (group) => this.updateFilter({ group }));
    this.filter = h("input", {
      type: "search",
      placeholder: "Search by headline, table, assignee …",
      "aria-label": "Search incidents",
      oninput: debounce(80, () => this.updateFilter({ filter: this.filter.value })),
    });
    this.rows = new VirtualList({
      roles: ["grid", "row"],
      label: "Incidents; arrow keys show them, Space selects",
      rowHeight: 104,
      renderRow: (index) => this.renderEntry(this.entries[index]),
      onOpen: (index) => this.openEntry(this.entries[index]),
      onMove: (index) => this.handleMove(this.entries[index]),
      onSelect: (index) => this.toggleChecked(this.entries[index]),
    });
    this.pane = new IncidentPane(shell, this.undoBar, (incident, isOwn) => this.handleLabelled(incident, isOwn));
    this.bulkAuthor = authorField(shell);
    this.fillBulk();
    const tools = h("div", { class: "tg-tools" }, this.filter, this.status, this.tables.element, this.grouping, this.count);
    const list = h("div", { class: "tg-inbox-list" }, this.rows.element, this.state.element);
    this.element = h("section", { class: "tg-incidents", "aria-label": "Incidents" }, tools, this.bulk, this.undoBar.element, h("div", { class: "tg-inbox" }, list, this.pane.element));
  }

  private get options(): Partial<Options> {
    return this.shell.options<Options>("incidents");
  }

  title(): string {
    const { id } = this.options;
    return id !== undefined && this.pane.headline ? `Incident ${id}: ${this.pane.headline}` : "Incidents";
  }

  listing(): Listing {
    if (!this.isLoaded) return {};
    const items = this.entries.flatMap((entry) => ("group" in entry ? entry.group.items : entry.inGroup ? [] : [entry.item]));
    return { rows: items.map(({ id }) => id), columns: this.pane.columns };
  }

  async open(): Promise<void> {
    const listNumber = ++this.listNumber;
    const { table = null } = this.options;
    const previousItems = this.allItems;
    const answer = await this.shell.link.ask("incidents", { dataset: table });
    if (listNumber !== this.listNumber) return;
    this.allItems = inboxItems(answer);
    this.isLoaded = true;
    const currentIds = new Set(this.allItems.map(({ id }) => id));
    for (const id of this.checked) if (!currentIds.has(id)) this.checked.delete(id);
    if (this.options.status === undefined) {
      const linkedItem = this.allItems.find(({ id }) => id === this.options.id);
      const anyOpen = this.allItems.some((item) => this.statusOf(item) === "open");
      const status = linkedItem ? this.statusOf(linkedItem) : anyOpen ? "open" : "";
      this.shell.saveOptions("incidents", { ...this.options, status });
    }
    this.arrangeRows();
    const summary = `${table} ${this.allItems.length}`;
    if (this.announced !== summary || previousItems.length !== this.allItems.length) {
      const open = this.allItems.filter((item) => this.statusOf(item) === "open").length;
      this.shell.announce(`${pluralize(this.allItems.length, "incident")}, ${open} open.`);
      this.announced = summary;
    }
    const id = this.options.id ?? this.firstItem()?.id;
    if (id === undefined) this.showNone();
    else await this.select(id, false);
  }

  private statusOf(item: InboxItem): string {
    return displayedStatus(item, Date.now() / 1000);
  }

  private firstItem(): InboxItem | undefined {
    const [entry] = this.entries;
    return entry && ("item" in entry ? entry.item : entry.group.items[0]);
  }

  /** Filter and group the list, and count the incidents of each status. */
  private arrangeRows(): void {
    const { status = "", filter = "", group = "", table = null } = this.options;
    if (document.activeElement !== this.filter) this.filter.value = filter;
    this.tables.show(this.shell.catalogue.datasets, table);
    this.grouping.querySelector("select")!.value = GROUPINGS.some(([value]) => value === group) ? group : "";
    const matchingItems = searchInbox(this.allItems, filter);
    const counts = new Map<string, number>();
    for (const item of matchingItems) counts.set(this.statusOf(item), (counts.get(this.statusOf(item)) ?? 0) + 1);
    const options = STATUSES.map((word) => [word, `${word} (${counts.get(word) ?? 0})`] as const);
    setOptions(this.status.querySelector("select")!, [...options, ["", `all (${matchingItems.length})`]], status);
    const items = matchingItems.filter((item) => !status || this.statusOf(item) === status || this.relabelled.has(item.id));
    this.entries = this.arrangeEntries(items, group);
    this.count.textContent = pluralize(items.length, "incident");
    const index = this.indexOf(this.options.id);
    this.rows.element.hidden = !items.length;
    if (items.length) this.state.clear();
    else this.state.empty(matchingItems.length ? `No ${status} incidents.` : filter ? "No incident matches the search." : "No incidents.");
    this.rows.setCount(this.entries.length, Math.max(0, index));
    this.showBulk();
  }

  private arrangeEntries(items: InboxItem[], grouping: string): Entry[] {
    if (grouping === "none") return items.map((item) => ({ item, inGroup: false }));
    return groupInbox(items).flatMap((inboxGroup): Entry[] => {
      if (inboxGroup.items.length === 1) return [{ item: inboxGroup.items[0], inGroup: false }];
      const members = this.expanded.has(inboxGroup.key) ? inboxGroup.items.map((item): Entry => ({ item, inGroup: true })) : [];
      return [{ group: inboxGroup }, ...members];
    });
  }

  private indexOf(id: number | undefined): number {
    return this.entries.findIndex((entry) => "item" in entry && entry.item.id === id);
  }

  private updateFilter(changes: Partial<Options>): void {
    this.relabelled.clear();
    this.shell.saveOptions("incidents", { ...this.options, ...changes });
    if ("table" in changes) {
      void this.open().catch((error) => this.shell.showError(error));
      return;
    }
    this.arrangeRows();
    this.rows.element.scrollTop = 0;
    const first = this.firstItem();
    if (!first) this.showNone();
    else if (this.indexOf(this.options.id) < 0) void this.select(first.id);
  }

  /** Clear the details, because no incident is listed. */
  private showNone(): void {
    this.requestNumber++;
    const { id: _, ...rest } = this.options;
    this.shell.saveOptions("incidents", rest);
    const { status } = rest;
    this.pane.clear(this.allItems.length ? `No ${status} incidents match; change the status or the search above.` : "No incidents yet. Detection groups related anomalies into incidents.");
  }

  private handleMove(entry: Entry): void {
    if ("item" in entry) this.selectSoon(entry.item.id);
  }

  private readonly selectSoon = debounce(120, (id: number) => void this.select(id));

  private openEntry(entry: Entry): void {
    if ("item" in entry) {
      void this.select(entry.item.id);
      return;
    }
    const { key } = entry.group;
    if (!this.expanded.delete(key)) this.expanded.add(key);
    const { active } = this.rows;
    this.arrangeRows();
    this.rows.activate(active);
  }

  /** Select and show an incident; `chosen` is false if the view opens without a choice of the user. */
  private async select(id: number, chosen = true): Promise<void> {
    const requestNumber = ++this.requestNumber;
    if (this.options.id !== id) this.shell.saveOptions("incidents", { ...this.options, id }, chosen);
    const index = this.indexOf(id);
    if (index >= 0) this.rows.activate(index);
    try {
      await this.pane.load(id, () => requestNumber === this.requestNumber);
    } catch (error) {
      // The incident may not exist.
      if (error instanceof KernelError && error.kind === "HistoryError") this.pane.clear(error.message);
      else if (error instanceof KernelError && error.kind !== "OutdatedError") this.pane.fail(error, () => void this.select(id));
      else if (chosen) this.shell.showError(error);
      else throw error;
    }
  }

  /** Update the list after a label of this user (`isOwn`) or of others; own labels return the focus to the list. */
  private handleLabelled(incident: IncidentAnswer, isOwn: boolean): void {
    this.relabelled.add(incident.incident);
    const item = this.allItems.find(({ id }) => id === incident.incident);
    if (item) {
      const { status, assignee, snoozed_until: until } = incident;
      Object.assign(item, { status, assignee, snoozedUntil: until === null ? NaN : Date.parse(until) / 1000 });
    }
    this.arrangeRows();
    if (isOwn) this.rows.element.focus();
  }

  // --- bulk actions

  private fillBulk(): void {
    const help = h("span", { class: "tg-muted tg-action-help" });
    const snooze = h("select", { "aria-label": "Snooze the selected for" }, ...SNOOZE_LENGTHS.map(([seconds, text]) => h("option", { value: seconds }, text)));
    const assignee = h("input", { "aria-label": "Assignee of the selected", placeholder: "Name" });
    const actionFor = (name: string, details: () => object = () => ({})) => actionButton(name, help, () => void this.actOnChecked(name, details()));
    this.bulk.append(
      this.bulkCount,
      this.bulkNote,
      ...BULK_ACTIONS.map((name) => actionFor(name)),
      h("span", { class: "tg-group" }, assignee, actionFor("assign", () => ({ assignee: assignee.value.trim() }))),
      h("span", { class: "tg-group" }, snooze, actionFor("snooze", () => ({ until: Date.now() / 1000 + Number(snooze.value) }))),
      this.bulkAuthor.element,
      button("Clear", () => this.clearChecked()),
      help,
    );
  }

  private showBulk(): void {
    const { size } = this.checked;
    this.bulk.hidden = !size || !this.shell.writable;
    this.bulkCount.textContent = `${pluralize(size, "incident")} selected`;
    this.bulkAuthor.show();
  }

  private clearChecked(): void {
    this.checked.clear();
    this.rows.redraw();
    this.showBulk();
  }

  private toggleChecked(entry: Entry): void {
    if (!this.shell.writable) return;
    const ids = "item" in entry ? [entry.item.id] : entry.group.items.map(({ id }) => id);
    const allChecked = ids.every((id) => this.checked.has(id));
    for (const id of ids) {
      if (allChecked) this.checked.delete(id);
      else this.checked.add(id);
    }
    this.rows.redraw();
    this.showBulk();
  }

  private async actOnChecked(action: string, details: object): Promise<void> {
    const { shell } = this;
    const author = this.bulkAuthor.requireName();
    if (author === null) return;
    const incidents = [...this.checked];
    try {
      const { data } = await shell.link.ask("label_incidents", { incidents, action, note: this.bulkNote.value.trim(), author, ...details });
      incidents.forEach((id) => this.relabelled.add(id));
      this.checked.clear();
      this.bulkNote.value = "";
      await this.open();
      const count = pluralize(data.labelled, "incident");
      shell.announce(`${ACTIONS[action].label}: saved for ${count}.`);
      this.undoBar.offer(`${ACTIONS[action].label} was saved for ${count}.`, () => void this.undo(data.changes));
    } catch (error) {
      shell.showError(error);
    }
  }

  /** Withdraw the labels of an action on several incidents. */
  private async undo(changes: LabelIncidentsAnswer["changes"]): Promise<void> {
    const { shell } = this;
    const author = this.bulkAuthor.requireName();
    if (author === null) return;
    try {
      const { data } = await shell.link.ask("label_incidents", { incidents: [], action: "undo", author, changes });
      await this.open();
      const kept = data.conflicts.length ? ` Others labeled ${data.conflicts.map((id) => `incident ${id}`).join(", ")} meanwhile; nothing was undone there.` : "";
      shell.announce(`Undone for ${pluralize(data.labelled, "incident")}.${kept}`);
    } catch (error) {
      shell.showError(error);
    }
  }

  // --- rows

  private checkbox(entry: Entry, label: string): HTMLElement {
    const ids = "item" in entry ? [entry.item.id] : entry.group.items.map(({ id }) => id);
    const count = ids.filter((id) => this.checked.has(id)).length;
    const box = h("input", { type: "checkbox", tabindex: "-1", "aria-label": label, onchange: () => this.toggleChecked(entry) });
    box.checked = count === ids.length;
    box.indeterminate = count > 0 && count < ids.length;
    box.disabled = !this.shell.writable;
    return h("div", { role: "gridcell", class: "tg-inbox-check", onclick: (event: Event) => event.stopPropagation() }, box);
  }

  private renderEntry(entry: Entry): HTMLElement {
    return "item" in entry ? this.renderItem(entry) : this.renderGroup(entry);
  }

  private renderGroup(entry: { group: InboxGroup }): HTMLElement {
    const { key, since, headline: shared, items, tables } = entry.group;
    const open = this.expanded.has(key);
    const startTime = formatTime(since);
    const worst = ["error", "warning", "info"].find((severity) => items.some((item) => item.severity === severity)) ?? "info";
    return h(
      "div",
      { class: "tg-inbox-item tg-inbox-group" },
      this.checkbox(entry, `Select all incidents of ${startTime}`),
      h(
        "div",
        { role: "gridcell", class: "tg-inbox-cell", "aria-expanded": String(open) },
        h("div", { class: "tg-inbox-top" }, severityBadge(worst), h("span", { class: "tg-muted" }, `began ${startTime}`)),
        h("div", { class: "tg-inbox-headline" }, renderName(shared, 160)),
        h("div", { class: "tg-muted tg-inbox-range" }, `${open ? "▾" : "▸"} ${pluralize(items.length, "incident")} in ${pluralize(tables, "table")}`),
      ),
    );
  }

  private renderItem({ item, inGroup }: { item: InboxItem; inGroup: boolean }): HTMLElement {
    const range = item.first === item.last ? [renderName(item.first, 40)] : [renderName(item.first, 28), " to ", renderName(item.last, 28)];
    const status = this.statusOf(item);
    const assignee = item.assignee ? [" · ", renderName(item.assignee, 30)] : [];
    const until = status === "snoozed" ? ` until ${formatTime(item.snoozedUntil)}` : "";
    return h(
      "div",
      { class: `tg-inbox-item${inGroup ? " tg-inbox-member" : ""}`, "data-status": status },
      this.checkbox({ item, inGroup }, `Select incident ${item.id}`),
      h(
        "div",
        { role: "gridcell", class: "tg-inbox-cell" },
        h("div", { class: "tg-inbox-top" }, severityBadge(item.severity), h("span", { class: "tg-inbox-status" }, `${status}${until}`), h("strong", { class: "tg-inbox-table" }, renderName(item.dataset, 40))),
        h("div", { class: "tg-inbox-headline" }, renderName(item.headline, 200)),
        h("div", { class: "tg-muted tg-inbox-range" }, ...range),
        h("div", { class: "tg-muted tg-inbox-range" }, `${pluralize(item.series, "series", "series")} · detected ${formatAge(item.openedAt, Date.now() / 1000)}`, ...assignee),
      ),
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
