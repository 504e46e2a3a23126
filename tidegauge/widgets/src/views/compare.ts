// Compare view: metrics of two partitions, runs or time windows side by side, the most surprising first.

import { whereClause } from "../data/catalogue";
import { changeBarLength, filterRows, surpriseBarLength, type TableColumns } from "../data/comparison-rows";
import { defaultSides, type SideChoices, sideExists, type SideKind, sideKind, sideText } from "../data/comparison-sides";
import { decimalsWidth, formatChange, formatPercent, formatValue, pluralize } from "../data/format";
import type { CompareAnswer, Side } from "../data/protocol";
import { sortedRows } from "../data/row-order";
import { columnLabel } from "../data/timeseries";
import { Card } from "../ui/card";
import { button, debounce, h, renderName, selectField } from "../ui/dom";
import { showFigure } from "../ui/figures";
import { Menu } from "../ui/menu";
import type { Listing, Shell, View } from "../ui/shell";
import { SidePicker } from "../ui/side-picker";
import { PaneState } from "../ui/state";
import { VirtualList } from "../ui/virtual-list";
import "./compare.css";
import "../ui/virtual-list.css";

interface Options {
  kind: SideKind;
  baseline: Side;
  current: Side;
  summary: string;
  filter: string;
  unusual: boolean;
  sort: string;
  down: boolean;
}

const SUMMARIES = [["merged", "the whole window"], ["median", "a typical partition (median)"]] as const;
const SIDE_KINDS = [["partitions", "partitions"], ["runs", "runs"], ["windows", "windows of time"]] as const;
const COLUMNS = [
  ["name", "Metric"], ["instance", "Column"], ["segment", "Segment"], ["baseline", "Baseline"],
  ["current", "Current"], ["change", "Change"], ["relative", "Relative"], ["surprise", "Surprise"],
  ["unusual", "Note"],
] as const;
/** Columns whose decimal points are aligned. */
const FIGURES = ["baseline", "current", "change", "relative", "surprise"] as const;
/** Number of rows that are measured for the alignment. */
const MAX_MEASURED_ROWS = 1000;
/** Largest surprise; the kernel limits it. */
const MAX_SURPRISE = 300;
const COLUMN_HELP: Record<string, string> = {
  change: "Current minus baseline; for shares in percentage points (pp)",
  relative: "Change relative to the baseline; bars on a square-root scale, full at 100%",
  surprise: "How unusual the difference is for this metric, in robust standard deviations",
  unusual: "unusual: a surprise above 4. anomaly: detection found one in the current partition",
};

/** Table of the metrics of two sides. */
export class Compare implements View {
  readonly element: HTMLElement;
  private readonly baseline = new SidePicker("Baseline", (side) => this.updateOptions({ baseline: side }));
  private readonly current = new SidePicker("Current", (side) => this.updateOptions({ current: side }));
  private readonly kind: HTMLLabelElement;
  private readonly summary: HTMLLabelElement;
  private readonly filter: HTMLInputElement;
  private readonly unusual = h("input", { type: "checkbox", onchange: () => this.updateFilter({ unusual: this.unusual.checked }) });
  private readonly unusualText = h("span", {}, "Only unusual");
  private readonly card: Card;
  private readonly headers = new Map<string, HTMLElement>();
  private readonly rows: VirtualList;
  private readonly state = new PaneState();
  private choices: SideChoices | null = null;
  private choicesKey = "";
  private table: TableColumns | null = null;
  private comparison: CompareAnswer | null = null;
  private tableKey = "";
  private requestNumber = 0;
  private order: number[] = [];
  /** Width of the decimals of each column, in characters. */
  private readonly decimals = Object.fromEntries(FIGURES.map((key) => [key, 0])) as Record<(typeof FIGURES)[number], number>;
  /** Columns with a stored distribution. */
  private distributed: ReadonlySet<string> = new Set();

  constructor(private readonly shell: Shell) {
    this.kind = selectField("Compare", SIDE_KINDS, this.options.kind ?? "partitions", (kind) => this.selectKind(kind as SideKind));
    this.filter = h("input", {
      type: "search",
      placeholder: "Filter by metric, column, segment …",
      "aria-label": "Filter metrics",
      oninput: debounce(80, () => this.updateFilter({ filter: this.filter.value })),
    });
    const swap = button("⇄ Swap", () => this.swap(), { title: "Swap baseline and current" });
    this.summary = selectField("Values of", SUMMARIES, this.options.summary ?? "merged", (summary) => this.updateOptions({ summary }));
    const unusual = h("label", { class: "tg-choice" }, this.unusual, this.unusualText);
    const more = new Menu("More", [this.summary, unusual, swap], { class: "tg-view-menu", label: "More choices" });
    const tools = h("div", { class: "tg-tools" }, this.filter, this.kind, this.baseline.element, this.current.element, more.element);
    const header = h("div", { class: "tg-compare-row tg-compare-head", role: "row", "aria-rowindex": "1" });
    for (const [key, text] of COLUMNS) {
      const sort = button(text, () => this.sort(key), { title: COLUMN_HELP[key] });
      const cell = h("div", { role: "columnheader", "data-column": key }, sort);
      this.headers.set(key, cell);
      header.append(cell);
    }
    this.rows = new VirtualList({
      roles: ["grid", "row"],
      label: "Metrics of both sides; Enter opens the series",
      rowHeight: 28,
      header,
      renderRow: (index) => this.row(this.order[index]),
      onOpen: (index) => this.openSeries(this.order[index]),
    });
    this.card = new Card("Metrics", null, [this.rows.element, this.state.element], { class: "tg-compare-card" });
    this.element = h("section", { class: "tg-compare" }, tools, this.card.element);
  }

  private get options(): Partial<Options> {
    return this.shell.options<Options>("compare");
  }

  /** Change the sides; the shell opens the view again and shows errors. */
  private updateOptions(changes: Partial<Options>): void {
    this.shell.go("compare", { ...this.options, ...changes });
  }

  private selectKind(kind: SideKind): void {
    const { baseline, current, ...rest } = this.options;
    this.shell.go("compare", { ...rest, kind });
  }

  private swap(): void {
    const { baseline, current } = this.options;
    if (baseline && current) this.updateOptions({ baseline: current, current: baseline });
  }

  private updateFilter(changes: Partial<Options>): void {
    this.shell.saveOptions("compare", { ...this.options, ...changes });
    this.arrangeRows();
  }

  private sort(key: string): void {
    const { sort = "surprise", down = true } = this.options;
    // Numbers sort descending first, text ascending.
    const descending = !["name", "instance", "segment"].includes(key);
    this.updateFilter({ sort: key, down: sort === key ? !down : descending });
  }

  async open(): Promise<void> {
    const requestNumber = ++this.requestNumber;
    const { dataset, catalogue, link } = this.shell;
    const key = JSON.stringify([dataset, catalogue.commits]);
    if (this.choicesKey !== key) {
      const { data, arrays } = await link.ask("sides", { dataset });
      if (requestNumber !== this.requestNumber) return;
      this.choices = { ...data, times: arrays.times };
      this.choicesKey = key;
    }
    const choices = this.choices!;
    const sides = this.chooseSides(choices);
    const { kind = sideKind(this.options.baseline) ?? "partitions", filter = "", unusual = false } = this.options;
    this.kind.querySelector("select")!.value = kind;
    this.baseline.show(choices, kind, sides?.[0] ?? null);
    this.current.show(choices, kind, sides?.[1] ?? null);
    if (document.activeElement !== this.filter) this.filter.value = filter;
    this.unusual.checked = unusual;
    this.card.setTitle(...(sides ? [`${sideText(sides[1])} compared with ${sideText(sides[0])}`] : ["Metrics"]));
    if (!sides) {
      this.comparison = this.table = null;
      this.tableKey = "";
      this.arrangeRows();
      this.shell.announce("");
      const missing = { partitions: "partitions", runs: "runs with measurements", windows: "partitions with a time" }[kind];
      this.showEmpty(`Fewer than two ${missing}: nothing to compare yet. Measure more, or choose another kind of comparison.`);
      return;
    }
    const [baseline, current] = sides;
    const { summary = null } = this.options;
    this.summary.hidden = kind === "partitions";
    const requestKey = JSON.stringify([key, sides, summary]);
    if (this.tableKey !== requestKey) {
      this.shell.announce("");
      this.state.loading();
      const { data, arrays } = await link.ask("compare", { dataset, baseline, current, summary });
      if (requestNumber !== this.requestNumber) return; // the answer belongs to sides chosen before
      this.comparison = data;
      this.table = { strings: data.strings, numbers: arrays, rows: data.rows };
      const sameSides = this.tableKey !== "" && this.tableKey.includes(JSON.stringify(sides));
      this.tableKey = requestKey;
      if (!sameSides) this.rows.element.scrollTop = this.rows.active = 0;
      if (kind === "windows") void this.fetchColumns(requestKey).catch((error) => this.shell.showError(error));
    }
    this.summary.querySelector("select")!.value = this.comparison!.summary;
    this.arrangeRows();
    const { unusual: count, total } = this.comparison!;
    this.shell.announce(`${pluralize(count, "unusual difference")} among ${pluralize(total, "metric")}.`);
  }

  /** Fetch the columns with a stored distribution, whose rows link to it. */
  private async fetchColumns(key: string): Promise<void> {
    const { link, dataset } = this.shell;
    const { data } = await link.ask("columns", { dataset });
    if (this.tableKey !== key) return;
    this.distributed = new Set(data.names);
    this.arrangeRows();
  }

  /** Sides to compare: the saved sides if they still exist, else the default sides. */
  private chooseSides(choices: SideChoices): readonly [Side, Side] | null {
    const { baseline, current } = this.options;
    const kind = this.options.kind ?? sideKind(baseline) ?? "partitions";
    const valid = [baseline, current].every((side) => sideKind(side) === kind && sideExists(choices, side));
    if (valid) return [baseline!, current!];
    const sides = defaultSides(choices, kind);
    if (sides) this.shell.saveOptions("compare", { ...this.options, kind, baseline: sides[0], current: sides[1] });
    return sides;
  }

  title(): string {
    const { baseline, current } = this.options;
    return baseline && current ? `${this.shell.dataset}: ${sideText(current)} compared with ${sideText(baseline)}` : "Compare";
  }

  listing(): Listing {
    // If some metrics were not sent, the kernel exports all metrics that match the options.
    if (!this.table || !this.comparison || this.comparison.total > this.comparison.rows) return {};
    const { ids } = this.table.numbers;
    return { rows: this.order.map((row) => ids[row]) };
  }

  /** Filter and sort the rows. */
  private arrangeRows(): void {
    const { table, comparison: data } = this;
    const { filter = "", unusual = false, sort = "surprise", down = true } = this.options;
    for (const [key, header] of this.headers) {
      header.setAttribute("aria-sort", key !== sort ? "none" : down ? "descending" : "ascending");
    }
    this.rows.element.hidden = !table;
    this.state.clear();
    if (!table || !data) {
      this.card.note.textContent = "";
      this.unusualText.textContent = "Only unusual";
      return;
    }
    this.order = filterRows(table, sortedRows(table.numbers, table.rows, sort, down), filter, unusual);
    const figures = this.order.slice(0, MAX_MEASURED_ROWS).map((row) => this.figures(row));
    for (const key of FIGURES) this.decimals[key] = decimalsWidth(figures.map((texts) => texts[key]));
    this.element.classList.toggle("tg-without-segments", table.strings.segment.every((segment) => !segment));
    this.rows.setCount(this.order.length);
    this.unusualText.textContent = `Only unusual (${data.unusual.toLocaleString("en-US")})`;
    const omitted = data.total - data.rows;
    const count = this.order.length === data.rows ? pluralize(data.rows, "metric") : `${this.order.length.toLocaleString("en-US")} of ${pluralize(data.rows, "metric")}`;
    const values = this.summary.hidden ? "" : ` · values of ${SUMMARIES.find(([key]) => key === data.summary)![1]}`;
    const least = omitted > 0 ? `; the ${omitted.toLocaleString("en-US")} least surprising are not shown` : "";
    this.card.note.textContent = `${count}${least}${values}`;
    if (!this.order.length) {
      const reason = unusual && !data.unusual ? "No unusual differences." : "No metric matches the filter.";
      const all = button("Show all metrics", () => this.updateOptions({ filter: "", unusual: false }));
      this.showEmpty(data.rows ? reason : "No metrics in this dataset yet.", data.rows ? all : null);
    }
  }

  private showEmpty(text: string, action: HTMLElement | null = null): void {
    this.rows.element.hidden = true;
    this.state.empty(text, action);
  }

  /** Numbers of a row as text. */
  private figures(row: number): Record<(typeof FIGURES)[number], string> {
    const { numbers } = this.table!;
    const value = (key: string) => numbers[key][row];
    const isRatio = value("ratio") === 1;
    const surprise = value("surprise");
    return {
      baseline: formatValue(value("baseline"), isRatio),
      current: formatValue(value("current"), isRatio),
      change: formatChange(value("change"), isRatio),
      relative: formatPercent(value("relative")),
      surprise: Number.isNaN(surprise) ? "" : Math.min(MAX_SURPRISE, surprise).toFixed(1),
    };
  }

  private row(row: number): HTMLElement {
    const { strings, numbers } = this.table!;
    const figures = this.figures(row);
    const figure = (element: HTMLElement, key: (typeof FIGURES)[number]) => {
      showFigure(element, figures[key], this.decimals[key]);
      return element;
    };
    const text = (key: string) => strings[key][row] ?? "";
    const value = (key: string) => numbers[key][row];
    const cell = (key: string, ...children: (Node | string | null)[]) => h("div", { role: "gridcell", "data-column": key }, ...children);
    const status = text("status");
    const side = (key: "baseline" | "current") => {
      const element = figure(cell(key), key);
      const count = value(`${key}_partitions`);
      if (count > 1) element.title = text("summary") === "median" ? `median of ${count} partitions` : `of all rows of ${count} partitions`;
      return element;
    };
    const relative = cell("relative", divergingBar(value("relative")), figure(h("span", {}), "relative"));
    relative.title = `baseline ${figures.baseline}, current ${figures.current}`;
    const unusual = value("unusual") === 1;
    const instance = text("instance");
    // A difference can be usual even if the current value is an anomaly, and vice versa.
    const hasMedian = text("summary") === "median" && this.comparison!.summary !== "median";
    const notes = [unusual ? "unusual" : "", value("anomaly") === 1 ? "anomaly" : "", status === "both" ? "" : status, hasMedian ? "median" : ""];
    const note = cell("unusual", notes.filter(Boolean).join(", "), this.distributionButton(row));
    note.title = notes.filter(Boolean).join(", ");
    const element = h(
      "div",
      { class: "tg-compare-row" },
      cell("name", renderName(`${text("name")}${whereClause(text("analyzer"))}`, 60)),
      cell("instance", instance === "*" ? h("span", { class: "tg-muted" }, "the table") : renderName(instance, 40)),
      cell("segment", renderName(text("segment"), 40)),
      side("baseline"),
      side("current"),
      figure(cell("change"), "change"),
      relative,
      this.surprise(cell("surprise"), value("surprise"), status, figure(h("span", {}), "surprise")),
      note,
    );
    if (unusual) element.classList.add("tg-unusual");
    return element;
  }

  private surprise(cell: HTMLElement, surprise: number, status: string, text: HTMLElement): HTMLElement {
    if (Number.isNaN(surprise)) {
      const reason = status === "both" ? "too little history" : "–";
      cell.append(h("span", { class: "tg-muted" }, reason));
      return cell;
    }
    const bar = h("span", { class: "tg-bar-track", "aria-hidden": "true" }, h("span", { class: "tg-bar-fill" }));
    (bar.firstChild as HTMLElement).style.width = `${100 * surpriseBarLength(surprise)}%`;
    cell.append(bar, text);
    return cell;
  }

  /** Button that opens the distributions of a row's column in both windows; null if none are stored. */
  private distributionButton(row: number): HTMLElement | null {
    const { baseline, current } = this.options;
    const { strings } = this.table!;
    const column = strings.instance[row] ?? "";
    if (!baseline || !("since" in baseline) || !this.distributed.has(column)) return null;
    const segment = strings.segment[row] || null;
    const open = button("▤", () => this.shell.go("distribution", { column, baseline, current, segment }), { title: `Distributions of ${column} in both windows`, tabindex: "-1" });
    open.addEventListener("click", (event) => event.stopPropagation()); // the row opens the series
    return open;
  }

  private openSeries(row: number): void {
    const id = this.table?.numbers.ids[row];
    if (id === undefined || Number.isNaN(id)) {
      this.shell.announce("This series no longer exists.");
      return;
    }
    const { current } = this.options;
    const name = current && "partition" in current ? current.partition : null;
    const time = name === null ? null : this.choices!.times[this.choices!.partitions.indexOf(name)];
    this.shell.go("series", { ids: [id], focus: columnLabel(this.shell.catalogue, time, name) });
  }

  onResize(): void {
    this.rows.redraw();
  }

  close(): void {
    this.rows.close();
  }
}

/** Diverging bar: to the left for a decrease, to the right for an increase. */
function divergingBar(relative: number): HTMLElement {
  const bar = h("span", { class: "tg-diverging", "aria-hidden": "true" });
  const length = changeBarLength(relative);
  if (length) {
    const fill = h("span", { class: length < 0 ? "tg-decrease" : "tg-increase" });
    fill.style.width = `${50 * Math.abs(length)}%`;
    bar.append(fill);
  }
  return bar;
}
