// Home view: the health of all tables, the worst first, with search.

import { Sparklines } from "../chart/sparklines";
import type { Catalogue } from "../data/catalogue";
import { decimalsWidth, formatAge, formatNumber, formatTime, formatValue, pluralize } from "../data/format";
import type { AnswerTo } from "../data/kernel";
import { sortedRows } from "../data/row-order";
import { filterTables, HEALTH_STATES, newestAges, type TableHealth, readTables } from "../data/tables";
import { button, debounce, h, renderName } from "../ui/dom";
import { showFigure } from "../ui/figures";
import { severityMark } from "../ui/severity";
import type { Listing, Shell, View } from "../ui/shell";
import { PaneState } from "../ui/state";
import { VirtualList } from "../ui/virtual-list";
import { FailuresDialog } from "./failures";
import "./home.css";
import "../ui/virtual-list.css";

interface Options {
  filter: string;
  /** One of `HEALTH_STATES`; empty for all. */
  health: string;
  sort: string;
  reverse: boolean;
  /** Table whose failed checks and run are shown; empty for none. */
  failed: string;
}

const COLUMNS = [
  ["health", "Health"], ["dataset", "Table"], ["incidents", "Incidents"], ["newest", "Newest partition"],
  ["size", "Rows"], ["completeness", "Complete"], ["failing", "Checks"], ["run", "Last run"], ["owner", "Owner"],
] as const;
const COLUMN_HELP: Record<string, string> = {
  incidents: "Open incidents by severity",
  health: "The most severe of open incidents, failed runs and analyzers, and failing checks",
  completeness: "Mean completeness of the columns in the newest partition; the tooltip shows the lowest",
  failing: "Checks that fail on current data, known failures of past partitions, and checks that all current data passes",
};
const HEALTH_SYMBOLS: Record<string, string> = {
  error: severityMark("error"), warning: severityMark("warning"), info: severityMark("info"),
  "failed run": "✕", "failed analyzers": "✕", "failing checks": "✕", "not scored": "◌", ok: "✓", "not measured": "○",
};
/** Statuses of runs that ended before they were complete. */
const FAILED_RUN_STATUSES = new Set(["failed", "interrupted"]);
/** Size in pixels, and number of the newest partitions: a year of weeks would be a blot. */
const SPARKLINE = { width: 84, height: 18, partitions: 90 };

/** List of tables with their health. */
export class Home implements View {
  readonly element: HTMLElement;
  private readonly filter: HTMLInputElement;
  private readonly chips = h("span", { class: "tg-health-chips", role: "group", "aria-label": "Health" });
  private readonly count = h("span", { class: "tg-muted" });
  private readonly headers = new Map<string, HTMLElement>();
  private readonly rows: VirtualList;
  private readonly state = new PaneState();
  private readonly failures: FailuresDialog;
  private tables: TableHealth[] = [];
  /** Width of the decimals of completeness, in characters. */
  private decimals = 0;
  /** Row orders by each column. */
  private orders: AnswerTo<"tables">["arrays"] | null = null;
  private visibleTables: TableHealth[] = [];
  private now = 0;
  private catalogue: Catalogue | null = null;
  private sparklines: Sparklines | null = null;
  /** Request that was sent before the catalogue arrived. */
  private pendingTables: Promise<AnswerTo<"tables">> | null = null;

  constructor(private readonly shell: Shell) {
    this.filter = h("input", {
      type: "search",
      placeholder: "Search by table, owner, tag …",
      "aria-label": "Search tables",
      oninput: debounce(60, () => this.updateOptions({ filter: this.filter.value })),
    });
    const header = h("div", { class: "tg-home-row tg-home-head", role: "row", "aria-rowindex": "1" });
    for (const [key, text] of COLUMNS) {
      const cell = h("div", { role: "columnheader", "data-column": key }, button(text, () => this.sort(key), { title: COLUMN_HELP[key] }));
      this.headers.set(key, cell);
      header.append(cell);
    }
    this.rows = new VirtualList({
      roles: ["grid", "row"],
      label: "Tables; Enter opens the heat map",
      rowHeight: 38,
      header,
      renderRow: (index) => this.row(this.visibleTables[index]),
      onOpen: (index) => this.openTable(this.visibleTables[index]),
    });
    this.rows.element.addEventListener("scroll", debounce(80, () => this.requestSparklines()), { passive: true });
    const tools = h("div", { class: "tg-tools" }, this.filter, this.chips, this.count);
    this.element = h("section", { class: "tg-home", "aria-label": "Tables" }, tools, this.rows.element, this.state.element);
    this.failures = new FailuresDialog(shell, () => this.shell.saveOptions("home", { ...this.options, failed: "" }));
    this.element.append(this.failures.element);
  }

  private get options(): Options {
    return { filter: "", health: "", sort: "health", reverse: false, failed: "", ...this.shell.options<Options>("home") };
  }

  listing(): Listing {
    return this.orders ? { rows: this.visibleTables.map(({ dataset }) => dataset) } : {};
  }

  private updateOptions(changes: Partial<Options>): void {
    this.shell.saveOptions("home", { ...this.options, ...changes });
    this.rows.element.scrollTop = 0;
    this.arrangeRows();
  }

  private sort(key: string): void {
    const { sort, reverse } = this.options;
    this.updateOptions({ sort: key, reverse: sort === key && !reverse });
  }

  prepare(): void {
    const request = this.shell.link.ask("tables", {});
    this.pendingTables = request;
    if (!this.tables.length) this.state.loading();
    // Only the sparklines need the catalogue; the rest is shown at once. `open` reports the errors of this request.
    request.then((answer) => this.pendingTables === request && answer.data.rows && this.showTables(answer), () => undefined);
  }

  async open(): Promise<void> {
    const { catalogue, link } = this.shell;
    if (this.catalogue !== catalogue) {
      const request = this.pendingTables ?? link.ask("tables", {});
      this.pendingTables = null;
      const answer = await request;
      this.catalogue = catalogue;
      const values = async (rows: readonly number[], first: number) => (await link.ask("sparklines", { rows, first })).arrays.values;
      const first = Math.max(0, catalogue.columns - SPARKLINE.partitions);
      this.sparklines = new Sparklines(values, catalogue.columns, () => this.rows.redraw(), first);
      this.showTables(answer);
    } else this.arrangeRows();
    const { failed } = this.options;
    if (failed) await this.failures.open(failed);
    else if (this.failures.element.open) this.failures.element.close();
  }

  private showFailures(dataset: string): void {
    this.shell.saveOptions("home", { ...this.options, failed: dataset });
    this.failures.open(dataset).catch((error) => this.shell.showError(error));
  }

  private showTables(answer: AnswerTo<"tables">): void {
    this.tables = readTables(answer);
    this.decimals = decimalsWidth(this.tables.map(({ completeness }) => formatValue(completeness, true)));
    this.orders = answer.arrays;
    this.now = answer.data.now;
    this.arrangeRows();
    performance.mark("tidegauge:first:home");
  }

  private arrangeRows(): void {
    const { filter, health, sort, reverse } = this.options;
    if (document.activeElement !== this.filter) this.filter.value = filter;
    for (const [key, header] of this.headers) header.setAttribute("aria-sort", key !== sort ? "none" : reverse ? "descending" : "ascending");
    this.showChips(filter, health);
    const rows = sortedRows(this.orders ?? {}, this.tables.length, sort, reverse);
    this.visibleTables = filterTables(rows.map((row) => this.tables[row]), filter, health);
    const tableCount = this.tables.length;
    this.count.textContent = this.visibleTables.length === tableCount ? pluralize(tableCount, "table") : `${this.visibleTables.length.toLocaleString("en-US")} of ${pluralize(tableCount, "table")}`;
    this.rows.element.hidden = !this.visibleTables.length;
    if (this.visibleTables.length) this.state.clear();
    else this.state.empty("No table matches the search.", button("Show all tables", () => this.updateOptions({ filter: "", health: "" })));
    this.rows.setCount(this.visibleTables.length);
    this.requestSparklines();
  }

  /** Show the number of tables of each health; a click filters by it. */
  private showChips(filter: string, health: string): void {
    const matchingTables = filterTables(this.tables, filter, "");
    const chips = HEALTH_STATES.map((name) => [name, matchingTables.filter((table) => table.health === name).length] as const)
      .filter(([name, count]) => count || name === health)
      .map(([name, count]) => {
        const toggle = () => this.updateOptions({ health: health === name ? "" : name });
        const chip = button("", toggle, { "aria-pressed": String(health === name), "data-health": name });
        chip.append(h("span", { "aria-hidden": "true" }, `${HEALTH_SYMBOLS[name]} `), `${count.toLocaleString("en-US")} ${name}`);
        return chip;
      });
    this.chips.replaceChildren(...chips);
  }

  private readonly requestSparklines = debounce(30, () => {
    const { catalogue, sparklines } = this;
    if (!catalogue || !sparklines || !this.element.isConnected) return;
    const rows = this.rows.visible.map((index) => catalogue.rowOf(this.visibleTables[index]?.sizeSeries)).filter((row) => row >= 0);
    void sparklines.request(rows).catch((error) => this.shell.showError(error));
  });

  private row(table: TableHealth): HTMLElement {
    const cell = (column: string, ...children: (Node | string | null)[]) => h("div", { role: "gridcell", "data-column": column }, ...children);
    const failedRun = FAILED_RUN_STATUSES.has(table.runStatus ?? "");
    const healthContent = [h("span", { "aria-hidden": "true" }, `${HEALTH_SYMBOLS[table.health] ?? ""} `), table.health];
    const health = cell("health", ...(["failed run", "failing checks"].includes(table.health) ? [this.failuresButton(table, healthContent)] : healthContent));
    const ages = newestAges(table, this.now);
    const newest = cell("newest", renderName(table.newest ?? "–", 30), h("span", { class: "tg-muted" }, ages && ` ${ages}`));
    newest.title = `of ${formatTime(table.time)}; arrived ${formatTime(table.arrived)} UTC`;
    const complete = cell("completeness");
    showFigure(complete, formatValue(table.completeness, true), this.decimals);
    if (!Number.isNaN(table.lowest)) complete.title = `Lowest completeness of a column: ${formatValue(table.lowest, true)}`;
    const run = cell("run", failedRun ? this.failuresButton(table, [table.runStatus]) : (table.runStatus ?? "–"), h("span", { class: "tg-muted" }, Number.isNaN(table.runStarted) ? "" : ` ${formatAge(table.runStarted, this.now)}`));
    const owner = cell("owner", renderName(table.owner, 30), table.owner && table.tags ? " " : null, h("span", { class: "tg-muted" }, renderName(table.tags, 60)));
    return h(
      "div",
      { class: "tg-home-row", "data-health": table.health },
      health,
      cell("dataset", renderName(table.dataset, 60)),
      cell("incidents", this.incidents(table)),
      newest,
      cell("size", h("span", {}, formatNumber(table.size)), this.sparkline(table)),
      complete,
      cell("failing", ...this.checks(table)),
      run,
      owner,
    );
  }

  /** Button with the number of open incidents of each severity, which opens them. */
  private incidents(table: TableHealth): HTMLElement | string {
    const counts = [["error", table.errors], ["warning", table.warnings], ["info", table.infos]] as const;
    const nonZeroCounts = counts.filter(([, count]) => count > 0);
    if (!nonZeroCounts.length && !table.snoozed) return "";
    const parts = nonZeroCounts.map(([severity, count]) => h("span", { class: "tg-severity", "data-severity": severity }, `${severityMark(severity)} ${count} `));
    if (table.snoozed) parts.push(h("span", { class: "tg-muted" }, `${table.snoozed} snoozed`));
    const words = nonZeroCounts.map(([severity, count]) => `${count} ${severity}`);
    const open = button("", () => this.shell.go("incidents", { table: table.dataset }), {
      "aria-label": `Open incidents of ${table.dataset}: ${[...words, ...(table.snoozed ? [`${table.snoozed} snoozed`] : [])].join(", ")}`,
    });
    open.append(...parts);
    open.addEventListener("click", (event) => event.stopPropagation()); // the row opens the heat map
    return open;
  }

  /** Number of failing checks and known failures, as a button that lists them, and number of passing checks. */
  private checks(table: TableHealth): (Node | string)[] {
    const { failing, knownFailures: failingKnown, passing } = table;
    const count = (number: number, word: string) => (number ? `${number.toLocaleString("en-US")} ${word}` : "");
    const failed = [count(failing, "failing"), count(failingKnown, "known")].filter(Boolean).join(", ");
    const passed = h("span", { class: "tg-muted" }, count(passing, "passed"));
    return failed ? [this.failuresButton(table, [failed]), " ", passed] : [passed];
  }

  /** Button that lists the failed checks and the error of the last run. */
  private failuresButton(table: TableHealth, children: (Node | string | null)[]): HTMLElement {
    const show = button("", () => this.showFailures(table.dataset), { title: "Show what failed", "aria-haspopup": "dialog" });
    show.append(...children.filter((child) => child !== null));
    show.addEventListener("click", (event) => event.stopPropagation()); // the row opens the heat map
    return show;
  }

  private sparkline(table: TableHealth): HTMLElement | null {
    const row = this.catalogue?.rowOf(table.sizeSeries) ?? -1;
    const ratio = window.devicePixelRatio || 1;
    const line = row < 0 ? null : this.sparklines?.canvas(row, SPARKLINE.width * ratio, SPARKLINE.height * ratio, this.shell.theme.accent);
    const holder = h("span", { class: "tg-home-line", "aria-hidden": "true" });
    if (line) {
      line.style.width = `${SPARKLINE.width}px`;
      line.style.height = `${SPARKLINE.height}px`;
      holder.append(line);
    }
    return holder;
  }

  private openTable(table: TableHealth): void {
    this.shell.go("overview", { table: table.dataset });
  }

  onResize(): void {
    this.sparklines?.clearCanvases();
    this.rows.redraw();
    this.requestSparklines();
  }

  close(): void {
    this.rows.close();
  }
}
