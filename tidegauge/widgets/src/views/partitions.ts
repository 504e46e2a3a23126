// Partitions view: calendar of the ledger with measured, late, restated, missing and gone partitions, and anomalies.

import { type CalendarBlock, chooseLayout, findPage, type Layout, neighbourIndex, paginate, WEEKDAYS } from "../data/calendar";
import { previousPartition } from "../data/comparison-sides";
import { formatTime, pluralize } from "../data/format";
import { delayText, type Partition, partitionTitle, STATUS_SYMBOLS, STATUSES } from "../data/partition";
import { button, h, renderName, selectField, setOptions } from "../ui/dom";
import { severityMark } from "../ui/severity";
import type { Listing, Shell, View } from "../ui/shell";
import { emptyState } from "../ui/state";
import { PartitionPane } from "./partition-pane";
import "./partitions.css";

interface Options {
  segment: string;
  /** Name of the selected partition; a missing partition is selected by its `time`, in seconds. */
  partition: string;
  time: number;
  page: number;
  /** Highlighted status, or `anomalies`; all other cells are faint. */
  highlight: string;
}

/** Number of months up to which cells are large. */
const LARGE_MONTHS = 6;

/** Calendar of partitions. */
export class Partitions implements View {
  readonly element: HTMLElement;
  private readonly segment: HTMLLabelElement;
  private readonly legend = h("div", { class: "tg-calendar-legend", role: "group", "aria-label": "Highlight" });
  private readonly range = h("span", { class: "tg-calendar-range" });
  private readonly newer = button("Newer ›", () => this.turnPage(-1));
  private readonly older = button("‹ Older", () => this.turnPage(1));
  private readonly field = h("div", { class: "tg-calendar" });
  private readonly tooltip = h("div", { class: "tg-tooltip", hidden: true });
  private readonly pane: PartitionPane;
  private allPartitions: Partition[] = [];
  /** Partitions of the displayed segment; all indexes below refer to them. */
  private partitions: Partition[] = [];
  private times: number[] = [];
  private layout: Layout = "list";
  private pages: CalendarBlock[][] = [];
  private page = 0;
  private active = -1;
  private key = "";
  private requestNumber = 0;
  /** Number of overdue partitions that are not listed, by segment. */
  private overdue: Record<string, number> = {};
  private dataset: string | null = null;

  constructor(private readonly shell: Shell) {
    this.segment = selectField("Segment", [], "", (segment) => this.shell.go("partitions", { segment }));
    this.pane = new PartitionPane(shell, () => this.comparePrevious());
    const tools = h("div", { class: "tg-tools" }, this.segment, h("span", { class: "tg-group" }, this.older, this.newer), this.range, this.legend);
    const field = h("div", { class: "tg-calendar-field" }, this.field, this.tooltip);
    this.element = h("section", { class: "tg-partitions" }, tools, h("div", { class: "tg-calendar-layout" }, field, this.pane.element));
    this.bindEvents();
  }

  private get options(): Partial<Options> {
    return this.shell.options<Options>("partitions");
  }

  private saveOptions(changes: Partial<Options>): void {
    this.shell.saveOptions("partitions", { ...this.options, ...changes });
  }

  async open(): Promise<void> {
    const requestNumber = ++this.requestNumber;
    const { dataset, catalogue, link } = this.shell;
    const key = JSON.stringify([dataset, catalogue.commits]);
    if (this.key !== key) {
      const { data, arrays } = await link.ask("partitions", { dataset });
      if (requestNumber !== this.requestNumber) return;
      const numberAt = (name: string, n: number) => arrays[name]?.[n] ?? NaN;
      this.allPartitions = data.partitions.map((name, n) => ({
        name,
        segment: data.strings.segment[n] ?? "",
        status: data.strings.status[n] ?? "",
        worst: data.strings.worst?.[n] ?? null,
        time: numberAt("time", n),
        late: numberAt("late", n) === 1,
        version: numberAt("version", n),
        rows: numberAt("rows", n),
        firstSeen: numberAt("first_seen_at", n),
        arrived: numberAt("arrived_at", n),
        measured: numberAt("measured_at", n),
        gone: numberAt("gone_at", n),
        delay: numberAt("delay", n),
        anomalies: numberAt("anomalies", n),
      }));
      this.overdue = data.overdue;
      this.key = key;
      this.pane.invalidate();
    }
    const datasetChanged = this.dataset !== dataset;
    if (datasetChanged && this.dataset !== null) {
      // The page does not carry over to another dataset.
      const { page, ...rest } = this.options;
      this.shell.saveOptions("partitions", rest);
    }
    this.dataset = dataset;
    this.layOut();
    if (datasetChanged) this.shell.announce(`${pluralize(this.partitions.length, "partition")}, ${this.partitions.filter(({ anomalies }) => anomalies > 0).length} with anomalies.`);
  }

  listing(): Listing {
    return this.partitions.length ? { options: { segment: this.partitions[0].segment } } : {};
  }

  /** Choose segment, layout, page and selection, and draw them. */
  private layOut(): void {
    const segments = [...new Set(this.allPartitions.map(({ segment }) => segment))].sort();
    const { segment = segments[0] ?? "" } = this.options;
    const valid = segments.includes(segment) ? segment : (segments[0] ?? "");
    this.segment.hidden = segments.length < 2;
    setOptions(this.segment.querySelector("select")!, segments.map((name) => [name, name || "none"] as const), valid);
    this.partitions = this.allPartitions.filter(({ segment }) => segment === valid);
    this.times = this.partitions.map(({ time }) => time);
    this.layout = chooseLayout(this.times);
    this.pages = paginate(this.times, this.layout);
    const { partition, time } = this.options;
    const index = this.partitions.findIndex((other) => (partition !== undefined ? other.name === partition : other.name === null && other.time === time));
    // Overdue partitions are not selected by default.
    const newest = this.partitions.findLastIndex(({ name }) => name !== null);
    this.active = index >= 0 ? index : newest >= 0 ? newest : this.partitions.length - 1;
    this.page = Math.min(this.options.page ?? findPage(this.pages, this.active), Math.max(0, this.pages.length - 1));
    this.drawLegend();
    this.draw();
    if (index >= 0) this.pane.show(this.partitions[index], this.previous(index) >= 0);
    else this.pane.clear(this.partitions.length ? "Select a partition to see its details." : "");
  }

  /** Highlighted status; empty if no partition has it. */
  private get highlight(): string {
    const { highlight = "" } = this.options;
    return this.partitions.some((partition) => matchesHighlight(partition, highlight)) ? highlight : "";
  }

  private drawLegend(): void {
    const { highlight } = this;
    const entry = (key: string, count: number, sample: HTMLElement) => {
      const pressed = highlight === key;
      const toggle = () => {
        this.saveOptions({ highlight: pressed ? "" : key });
        this.drawLegend();
        this.draw();
        this.legend.querySelector<HTMLElement>(`[data-key="${key}"]`)?.focus();
      };
      const element = button("", toggle, { "aria-pressed": String(pressed), "data-key": key, title: pressed ? "Show all statuses equally" : "Highlight these partitions and fade all others" });
      element.append(sample, ` ${key} ${count.toLocaleString("en-US")}`);
      return element;
    };
    const status = (key: string) => {
      const sample = h("span", { class: "tg-cell tg-sample", "data-status": key, "aria-hidden": "true" }, STATUS_SYMBOLS[key]);
      return entry(key, this.partitions.filter((partition) => partition.status === key).length, sample);
    };
    const marked = this.partitions.filter(({ anomalies }) => anomalies > 0).length;
    const sample = h("span", { class: "tg-severity", "data-severity": "warning", "aria-hidden": "true" }, severityMark("warning"));
    // Only what the calendar has, or what is highlighted.
    const shown = STATUSES.filter((key) => key === highlight || this.partitions.some((partition) => partition.status === key));
    this.legend.replaceChildren(...shown.map(status), ...(marked ? [entry("anomalies", marked, sample)] : []));
  }

  private draw(): void {
    const blocks = this.pages[this.page] ?? [];
    this.field.dataset.layout = this.layout;
    this.field.classList.toggle("tg-calendar-large", this.layout === "days" && blocks.length <= LARGE_MONTHS);
    this.tooltip.hidden = true;
    if (!this.partitions.length) {
      this.field.replaceChildren(emptyState("No partitions yet: they appear here once a run has measured some."));
    } else {
      const isActiveVisible = blocks.some(({ rows }) => rows.some((row) => row.includes(this.active)));
      // Roving tabindex: exactly one cell is reachable by Tab.
      const tab = isActiveVisible ? this.active : Math.max(...blocks.flatMap(({ rows }) => rows.flat()));
      this.field.replaceChildren(...blocks.map((block) => this.renderBlock(block, tab)));
    }
    this.older.disabled = this.page >= this.pages.length - 1;
    this.newer.disabled = this.page <= 0;
    const [first, last] = [blocks[0], blocks[blocks.length - 1]];
    const months = first && first !== last ? `${first.title} to ${last.title}` : (first?.title ?? "");
    const position = first && this.layout === "list" && this.pages.length > 1 ? `page ${this.pages.length - this.page} of ${this.pages.length}` : months;
    const count = this.overdue[this.partitions[0]?.segment ?? ""];
    const overdue = count ? `${count.toLocaleString("en-US")} more overdue` : "";
    this.range.textContent = [position, pluralize(this.partitions.length, "partition"), overdue].filter(Boolean).join(" · ");
  }

  private renderBlock(block: CalendarBlock, tab: number): HTMLElement {
    const rows = block.rows.map((row, n) =>
      h(
        "div",
        { class: "tg-calendar-row", role: "row" },
        block.rowHeadings[n] ? h("span", { class: "tg-calendar-head", role: "rowheader" }, block.rowHeadings[n]) : null,
        ...row.map((index) => (index < 0 ? h("span", { class: "tg-cell tg-cell-empty", role: "gridcell" }) : this.renderCell(index, index === tab))),
      ),
    );
    const columnHeadings = this.layout === "days" ? WEEKDAYS.map((day) => day[0]) : this.layout === "hours" ? ["", ...Array.from({ length: 24 }, (_, hour) => String(hour))] : [];
    const headingRow = columnHeadings.length ? h("div", { class: "tg-calendar-row tg-calendar-heads", "aria-hidden": "true" }, ...columnHeadings.map((text) => h("span", {}, text))) : null;
    const title = block.title ? h("div", { class: "tg-calendar-title" }, block.title) : null;
    return h("div", { class: "tg-calendar-block", role: "grid", "aria-label": block.title || "Partitions" }, title, headingRow, ...rows);
  }

  private renderCell(index: number, tab: boolean): HTMLElement {
    const partition = this.partitions[index];
    const { highlight } = this;
    const faint = highlight && !matchesHighlight(partition, highlight);
    const day = this.layout === "days" ? h("span", { class: "tg-cell-day" }, String(new Date(1000 * partition.time).getUTCDate())) : null;
    return h(
      "button",
      {
        type: "button",
        class: `tg-cell${faint ? " tg-faint" : ""}`,
        role: "gridcell",
        "data-status": partition.status,
        "data-index": index,
        "data-mark": partition.worst ? severityMark(partition.worst) : undefined,
        "data-severity": partition.worst ?? undefined,
        "aria-label": this.description(partition),
        "aria-selected": String(index === this.active && this.hasSelection),
        tabindex: tab ? "0" : "-1",
      },
      day,
      STATUS_SYMBOLS[partition.status],
    );
  }

  private get hasSelection(): boolean {
    return this.options.partition !== undefined || this.options.time !== undefined;
  }

  private description(partition: Partition): string {
    const late = partition.late && partition.status !== "late" ? ", late" : "";
    const anomalies = partition.anomalies ? `, ${pluralize(partition.anomalies, "anomaly", "anomalies")}, ${partition.worst}` : "";
    return `${partitionTitle(partition)}: ${partition.status}${late}${anomalies}`;
  }

  private turnPage(step: number): void {
    this.page = Math.max(0, Math.min(this.pages.length - 1, this.page + step));
    this.saveOptions({ page: this.page });
    this.draw();
    this.field.parentElement!.scrollTop = 0;
  }

  // --- selection and tooltip

  private bindEvents(): void {
    const { field } = this;
    const cellOf = (event: Event) => (event.target as Element).closest<HTMLElement>("[data-index]");
    field.addEventListener("click", (event) => {
      const cell = cellOf(event);
      if (cell) this.select(Number(cell.dataset.index));
    });
    field.addEventListener("keydown", (event) => this.handleKey(event));
    for (const kind of ["pointerover", "focusin"] as const) {
      field.addEventListener(kind, (event) => {
        const cell = cellOf(event);
        if (cell) this.showTooltip(cell, kind === "focusin");
        else this.tooltip.hidden = true;
      });
    }
    for (const kind of ["pointerleave", "focusout"] as const) field.addEventListener(kind, () => (this.tooltip.hidden = true));
  }

  private select(index: number): void {
    const selection = this.partitions[index];
    this.active = index;
    const { partition: _, time: __, ...rest } = this.options;
    const name = selection.name === null ? { time: selection.time } : { partition: selection.name };
    this.shell.saveOptions("partitions", { ...rest, ...name, page: this.page });
    for (const cell of this.field.querySelectorAll<HTMLElement>("[data-index]")) {
      const selected = Number(cell.dataset.index) === index;
      cell.setAttribute("aria-selected", String(selected));
      cell.tabIndex = selected ? 0 : -1;
    }
    this.pane.show(selection, this.previous(index) >= 0);
  }

  private handleKey(event: KeyboardEvent): void {
    const steps: Record<string, [across: number, down: number]> = {
      ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1], Home: [-1e9, 0], End: [1e9, 0],
    };
    if (event.key === "Escape") this.tooltip.hidden = true;
    if (!(event.key in steps)) return;
    event.preventDefault();
    const focused = document.activeElement as HTMLElement | null;
    const from = Number(focused?.dataset.index ?? this.active);
    const index = neighbourIndex(this.times, this.layout, from, ...steps[event.key]);
    const page = findPage(this.pages, index);
    if (page !== this.page) {
      this.page = page;
      this.saveOptions({ page });
      this.draw();
    }
    const cell = this.field.querySelector<HTMLElement>(`[data-index="${index}"]`);
    if (!cell) return;
    if (focused?.dataset.index) focused.tabIndex = -1;
    cell.tabIndex = 0;
    cell.focus();
  }

  private showTooltip(cell: HTMLElement, announce: boolean): void {
    const partition = this.partitions[Number(cell.dataset.index)];
    const facts = [
      partition.version > 0 ? `version ${partition.version}` : "",
      Number.isNaN(partition.rows) ? "" : pluralize(partition.rows, "row"),
      Number.isNaN(partition.arrived) ? "" : `arrived ${formatTime(partition.arrived)}`,
      delayText(partition),
    ].filter(Boolean);
    const anomalies = partition.anomalies ? h("div", { class: "tg-severity", "data-severity": partition.worst ?? "" }, `${severityMark(partition.worst ?? "")} ${pluralize(partition.anomalies, "anomaly", "anomalies")}, ${partition.worst}`) : null;
    const late = partition.late && partition.status !== "late" ? " and late" : "";
    this.tooltip.replaceChildren(h("strong", {}, renderName(partitionTitle(partition), 80)), h("div", {}, `${STATUS_SYMBOLS[partition.status]} ${partition.status}${late}`), ...facts.map((fact) => h("div", { class: "tg-muted" }, fact)), ...(anomalies ? [anomalies] : []));
    this.tooltip.hidden = false;
    const field = this.tooltip.parentElement!;
    const { offsetWidth, offsetHeight } = this.tooltip;
    const [corner, cellBox] = [field.getBoundingClientRect(), cell.getBoundingClientRect()];
    const [x, y] = [cellBox.left - corner.left + field.scrollLeft, cellBox.bottom - corner.top + field.scrollTop];
    const above = y + offsetHeight + 8 > field.scrollTop + field.clientHeight;
    this.tooltip.style.left = `${Math.max(0, Math.min(x, field.scrollLeft + field.clientWidth - offsetWidth - 4))}px`;
    this.tooltip.style.top = `${Math.max(field.scrollTop, above ? y - cellBox.height - offsetHeight - 6 : y + 6)}px`;
    if (announce) this.shell.announce([this.description(partition), ...facts].join(", "));
  }

  /** Index of the measured partition to compare with; -1 without one. */
  private previous(index: number): number {
    const times = Float64Array.from(this.partitions, (partition) => (partition.name === null ? NaN : partition.time));
    return previousPartition({ times, segments: this.partitions.map(({ segment }) => segment) }, index);
  }

  private comparePrevious(): void {
    const [index, baseline] = [this.active, this.previous(this.active)];
    const [current, earlier] = [this.partitions[index]?.name, this.partitions[baseline]?.name];
    if (current == null || earlier == null) return;
    this.shell.go("compare", { kind: "partitions", baseline: { partition: earlier }, current: { partition: current } });
  }

  onResize(): void {
    this.tooltip.hidden = true;
  }

  close(): void {
    this.tooltip.hidden = true;
  }
}

function matchesHighlight(partition: Partition, highlight: string): boolean {
  return highlight === "anomalies" ? partition.anomalies > 0 : partition.status === highlight;
}
