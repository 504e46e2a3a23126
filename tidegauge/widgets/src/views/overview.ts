// Overview: heat map of all series over time, with scrolling, zoom, sorting, filter and selection.

import { Sparklines } from "../chart/sparklines";
import { Catalogue, type SeriesKey } from "../data/catalogue";
import { columnRange, columnsWithin, savedRange } from "../data/column-range";
import { formatTime, pluralize } from "../data/format";
import { type InboxItem, inboxItems, withoutPeriod, worstIncidents } from "../data/inbox";
import { KernelError } from "../data/kernel";
import type { CellAnswer, LevelKind } from "../data/protocol";
import { cellDescription, cellTooltip } from "../heatmap/cell-tooltip";
import { AXIS_HEIGHT, Heatmap, type HeatmapContent, MINIMAP_WIDTH } from "../heatmap/heatmap";
import { drawLegend, legendText } from "../heatmap/legend";
import { CHANGE_STRENGTH, LevelMatrix, SCORE_STRENGTH } from "../heatmap/level-matrix";
import { defaultSort, GROUPINGS, groupKeys, groupRows, SORT_ORDERS } from "../heatmap/row-groups";
import { Card } from "../ui/card";
import { button, debounce, h, renderName, selectField } from "../ui/dom";
import { Menu } from "../ui/menu";
import { severityBadge } from "../ui/severity";
import type { Listing, Shell, View } from "../ui/shell";
import { PaneState } from "../ui/state";
import { TablePicker } from "../ui/table-picker";
import { type TimeWindow, PeriodPicker } from "../ui/period-picker";
import "./overview.css";

/** Number of columns of the first request, and of each later request. */
const FIRST_COLUMNS = 90;
const CHUNK_COLUMNS = 60;
/** Maximum number of cells to fetch. Larger histories are shown without their oldest columns, and a message says so. */
const MAX_CELLS = 64e6;
const MAX_SELECTED = 50;

const COLOUR_BY = [["score", "anomaly score"], ["change", "change"]] as const;
/** Maximum number of printed rows, which take about eight pages. */
const MAX_PRINTED_ROWS = 400;
/** Maximum number of incidents beside the map. */
const MAX_INCIDENTS = 25;
/** Number of rows above which groups are folded at first. */
const MAX_UNFOLDED = 60;

interface Options {
  by: LevelKind;
  /** One of `GROUPINGS`; empty for none. Null is the default: by column for a single table, else by dataset. */
  group: string | null;
  sort: string;
  filter: string;
  /** The only table to show; null for all. */
  table: string | null;
  /** Whether groups are folded. If null, they are folded if there are many rows. */
  fold: boolean | null;
  /** Headings of groups that are exceptions to `fold`. */
  toggled: string[];
  /** Ids of the selected series. */
  ids: number[];
  /** Visible dates, as `SavedRange`; nulls for the newest columns. */
  since: string | null;
  until: string | null;
}

/** Heat map of all series. */
export class Overview implements View {
  readonly element: HTMLElement;
  private readonly canvas = h("canvas", { tabindex: "0", role: "application", class: "tg-heatmap" });
  private readonly heatmap = new Heatmap(this.canvas);
  private readonly cursor = h("div", { class: "tg-cursor", hidden: true });
  private readonly tooltip = h("div", { class: "tg-tooltip", hidden: true });
  private readonly incidents = h("aside", { class: "tg-card tg-worst", "aria-label": "Incidents, the worst first", hidden: true });
  private readonly selectionBar = h("span", { class: "tg-selection-bar" });
  private readonly legend = h("canvas", { class: "tg-legend", width: "1", height: "1", role: "img" });
  private readonly legendText = h("span", { class: "tg-muted" });
  private readonly filter: HTMLInputElement;
  private readonly choices: Record<"by" | "group" | "sort", HTMLLabelElement>;
  private levels = new Map<LevelKind, LevelMatrix>();
  private loading = new Map<LevelKind, Promise<void>>();
  /** All rows of the catalogue as the kernel sorted them, by `sorting`. */
  private readonly sortings = new Map<string, Int32Array>();
  private marks = new Map<number, number[]>();
  private order: Int32Array = new Int32Array();
  /** Rows that match table and filter. */
  private matchingRows: Int32Array = new Int32Array();
  private headings: string[] = [];
  private folded = new Map<number, number[]>();
  private readonly tables: TablePicker;
  private readonly fold = button("", () => this.updateOptions({ fold: !this.isFolded, toggled: [] }));
  private readonly period: PeriodPicker;
  private readonly map: Card;
  private readonly state = new PaneState();
  /** Range that was last applied to the viewport or saved from it, as JSON. */
  private range = "";
  private shownWindow = "";
  private selected = new Set<number>();
  private sparklines!: Sparklines;
  private cursorCell = { index: 0, column: 0 };
  private frame = 0;
  private requestNumber = 0;
  private catalogue: Catalogue | null = null;
  /** Table of `catalogue`; null for all. */
  private table: string | null = null;
  /** Catalogue of all tables when `catalogue` was fetched. Once the shell has a newer one, `catalogue` is outdated. */
  private fullCatalogue: Catalogue | null = null;
  /** Catalogue whose incidents are listed. */
  private incidentsOf: Catalogue | null = null;
  private readonly resizeObserver = new ResizeObserver(() => this.onResize());
  private dragStart: { x: number; y: number } | null = null;
  private dragging = false;

  constructor(private readonly shell: Shell) {
    this.filter = h("input", {
      type: "search",
      placeholder: "Filter by dataset, column, metric …",
      "aria-label": "Filter series",
      oninput: debounce(80, () => this.updateOptions({ filter: this.filter.value })),
    });
    const groups = Object.entries(GROUPINGS).map(([key, { text }]) => [key, text] as const);
    this.choices = {
      by: selectField("Color", COLOUR_BY, "", (value) => this.updateOptions({ by: value as LevelKind })),
      group: selectField("Group by", [...groups, ["", "nothing"]], "", (value) => this.updateOptions({ group: value, sort: "name" })),
      sort: selectField("Sort by", SORT_ORDERS, "", (value) => this.updateOptions({ sort: value })),
    };
    this.tables = new TablePicker((table) => this.updateOptions({ table, toggled: [] }));
    const zoom = (rows: number, columns: number) => () => this.zoom(rows, columns);
    this.period = new PeriodPicker((window) => this.showWindow(window), (text) => shell.announce(text));
    const more = new Menu("More", [this.choices.by, this.choices.group, this.fold], { class: "tg-view-menu", label: "More choices" });
    const tools = h("div", { class: "tg-tools" }, this.filter, this.tables.element, this.period.element, this.choices.sort, more.element, this.selectionBar);
    const field = h("div", { class: "tg-field" }, this.canvas, this.cursor, this.tooltip, this.state.element);
    const help = "The wheel scrolls, and zooms with Ctrl. Shift-click selects series to compare. Arrow keys, Enter, Space, + and - also work.";
    this.map = new Card("All series", shell, [field], { class: "tg-map-card" });
    this.map.tools.prepend(
      button("−", zoom(0.5, 0.5), { title: "Zoom out (-)" }),
      button("+", zoom(2, 2), { title: "Zoom in (+)" }),
      button("Reset", () => this.resetView(), { title: "Names and the newest partitions (1)" }),
    );
    this.map.foot.append(this.legend, this.legendText, h("span", { class: "tg-muted tg-help" }, help));
    this.map.foot.hidden = false;
    this.element = h("section", { class: "tg-overview" }, tools, h("div", { class: "tg-map" }, this.map.element, this.incidents));
    this.canvas.setAttribute("aria-label", `Heat map of series by partitions. ${help}`);
    this.map.heading.title = help;
    this.bindEvents();
  }

  private get options(): Options {
    const options = this.shell.options<Options>("overview");
    const sort = defaultSort(options.group ?? null);
    const defaults = { by: "score", group: null, sort, filter: "", table: null, fold: null, toggled: [], ids: [], since: null, until: null } as const;
    return { ...defaults, ...options } as Options;
  }

  /** Whether levels are drawn. */
  private get hasLevels(): boolean {
    const levels = this.levels.get(this.options.by);
    return levels !== undefined && levels.loadedFrom < levels.columns;
  }

  /** Grouping in use; by default a single table is grouped by column, several by table. */
  private get group(): string {
    const { group, table } = this.options;
    return group ?? (table === null && this.shell.catalogue.datasets.length > 1 ? "dataset" : "column");
  }

  /** Keys that rows are grouped by; the name of a single table is not repeated in each heading. */
  private get groupKeys(): SeriesKey[] {
    const keys = groupKeys(this.group, this.options.sort);
    return this.options.table !== null && keys.length > 1 ? keys.filter((key) => key !== "dataset") : keys;
  }

  private get isFolded(): boolean {
    return this.options.fold ?? this.matchingRows.length > MAX_UNFOLDED;
  }

  title(): string {
    return this.options.table ?? "Heat map";
  }

  private updateOptions(changes: Partial<Options>): void {
    this.shell.saveOptions("overview", { ...this.options, ...changes });
    this.hideTooltip();
    this.heatmap.viewport.top = 0; // matching rows start at the top
    void this.open().catch((error) => this.shell.showError(error));
  }

  /** Catalogue that displayed rows and columns refer to. The catalogue of one table has only its own partitions as columns. */
  private get currentCatalogue(): Catalogue {
    return this.catalogue ?? this.shell.catalogue;
  }

  /** Return the catalogue of the displayed table; fetch it if it is missing or outdated. */
  private async ownCatalogue(): Promise<Catalogue> {
    const { catalogue, link } = this.shell;
    const { table } = this.options;
    if (table === null || !catalogue.datasets.includes(table)) return catalogue;
    if (this.catalogue && this.table === table && this.fullCatalogue === catalogue) return this.catalogue;
    return new Catalogue(await link.ask("catalogue", { table }));
  }

  async open(): Promise<void> {
    const requestNumber = ++this.requestNumber;
    this.hideTooltip(); // of the view before
    const catalogue = await this.ownCatalogue();
    if (requestNumber !== this.requestNumber) return;
    const { link } = this.shell;
    if (this.catalogue !== catalogue) {
      const tableChanged = this.table !== this.options.table;
      if (!this.catalogue || tableChanged) this.state.loading();
      const previousCatalogue = this.catalogue;
      this.catalogue = catalogue;
      this.table = this.options.table;
      this.fullCatalogue = this.shell.catalogue;
      this.levels.clear();
      this.loading.clear();
      this.sortings.clear();
      this.sortings.set(JSON.stringify(["score", "worst"]), catalogue.worst);
      const values = async (rows: readonly number[], first: number) => (await link.ask("sparklines", { rows, first }, catalogue.number)).arrays.values;
      this.sparklines = new Sparklines(values, catalogue.columns, () => this.redraw(), Math.max(0, catalogue.columns - FIRST_COLUMNS));
      this.marks.clear();
      for (let n = 0; n < catalogue.marks.length; n += 2) {
        const [row, column] = [catalogue.marks[n], catalogue.marks[n + 1]];
        this.marks.set(row, [...(this.marks.get(row) ?? []), column]);
      }
      const cursorId = previousCatalogue && this.order[this.cursorCell.index] >= 0 ? previousCatalogue.ids[this.order[this.cursorCell.index]] : null;
      const label = previousCatalogue?.labels[this.cursorCell.column];
      this.arrangeRows();
      this.fitCanvas();
      if (!previousCatalogue || tableChanged) {
        this.heatmap.reset(catalogue.columns, FIRST_COLUMNS, 18);
        this.range = JSON.stringify([null, null]);
      }
      // Keep the cursor on its series and time, although rows may have been added.
      const index = cursorId === null ? -1 : this.order.indexOf(catalogue.rowOf(cursorId));
      const column = label === undefined ? -1 : catalogue.labels.indexOf(label);
      this.cursorCell = {
        index: index >= 0 ? index : Math.max(0, this.order.findIndex((row) => row >= 0)),
        column: column >= 0 ? column : catalogue.columns - 1,
      };
    }
    this.fitCanvas();
    this.applyRange();
    await this.fetchSorting(); // first, because it decides which rows are visible
    if (requestNumber !== this.requestNumber) return;
    const loaded = this.load();
    // Requested after the first screen and before the rest of the levels, and shown after the first screen.
    const incidents = this.incidentsOf === catalogue ? null : this.fetchIncidents();
    incidents?.catch(() => undefined);
    await loaded;
    this.arrangeRows();
    this.redraw();
    if (incidents) await this.showIncidents(catalogue, incidents);
  }

  private async fetchIncidents(): Promise<InboxItem[]> {
    const answer = await this.shell.link.ask("incidents", { dataset: this.options.table });
    return worstIncidents(inboxItems(answer), Date.now() / 1000);
  }

  /** List the incidents beside the map, the worst first. A click opens one. */
  private async showIncidents(catalogue: Catalogue, request: Promise<InboxItem[]>): Promise<void> {
    const { table } = this.options;
    let items: InboxItem[];
    try {
      items = await request;
    } catch (error) {
      if (!(error instanceof KernelError) || error.kind === "OutdatedError") throw error;
      const state = new PaneState();
      state.error(error, () => void this.showIncidents(catalogue, this.fetchIncidents()));
      this.incidents.replaceChildren(state.element);
      this.incidents.hidden = false;
      return;
    }
    if (catalogue !== this.catalogue) return; // another table was chosen meanwhile
    this.incidentsOf = catalogue;
    const shown = items.slice(0, MAX_INCIDENTS);
    const more = items.length > shown.length ? button(`All ${pluralize(items.length, "incident")}`, () => this.shell.go("incidents", { table })) : null;
    this.incidents.replaceChildren(h("h3", {}, "Incidents, the worst first"), h("ol", {}, ...shown.map((item) => this.incident(item, table === null))), more ?? "");
    this.incidents.hidden = !shown.length;
  }

  private incident(item: InboxItem, named: boolean): HTMLElement {
    const open = button("", () => this.shell.go("incidents", { id: item.id, table: this.options.table }), { title: item.headline });
    const name = named && this.shell.catalogue.datasets.length > 1 ? h("strong", {}, renderName(item.dataset, 24)) : null;
    const time = Number.isNaN(item.since) ? item.first : formatTime(item.since);
    const status = item.status === "open" ? "" : `${item.status} · `;
    const top = h("span", { class: "tg-worst-top" }, severityBadge(item.severity), name, h("span", { class: "tg-muted tg-worst-time" }, `${status}${time}`));
    open.append(top, h("span", { class: "tg-worst-headline" }, renderName(withoutPeriod(item.headline), 400)));
    return h("li", {}, open);
  }

  /** Key of the current row order in `sortings`. */
  private get sorting(): string {
    const { by: levelKind, sort } = this.options;
    return JSON.stringify(sort === "name" ? this.group : [levelKind, sort]);
  }

  /** Fetch the order of rows, unless it is cached. */
  private async fetchSorting(): Promise<void> {
    const { sorting, currentCatalogue: catalogue, group } = this;
    const { by: levelKind, sort } = this.options;
    if (this.sortings.has(sorting)) return;
    const { arrays } = await this.shell.link.ask("row_order", { level_kind: levelKind, sort, group }, catalogue.number);
    if (this.currentCatalogue === catalogue) this.sortings.set(sorting, arrays.rows);
  }

  listing(): Listing {
    const catalogue = this.currentCatalogue;
    if (!this.catalogue) return {};
    const rows = Array.from(this.order).flatMap((row) => (row < 0 ? (this.folded.get(row) ?? []) : [row]));
    const { since, until } = this.options;
    const columns = columnRange(catalogue, { since, until });
    return {
      // 100,000 row ids exceed the size limit of a message. If all rows are shown, the kernel exports its own order.
      ...(rows.length < catalogue.rows && { rows: rows.map((row) => catalogue.ids[row]) }),
      ...(columns && { columns: [catalogue.labels[columns[0]], catalogue.labels[columns[1] - 1]] }),
    };
  }

  /** Fetch the first screen, then all other columns from newest to oldest. Each kind of level is fetched once. */
  private load(): Promise<void> {
    const { by: levelKind } = this.options;
    let request = this.loading.get(levelKind);
    if (!request) {
      request = this.fetchLevels(levelKind);
      this.loading.set(levelKind, request);
      request.catch(() => this.loading.delete(levelKind));
    }
    return request;
  }

  private async fetchLevels(levelKind: LevelKind): Promise<void> {
    const { link } = this.shell;
    const catalogue = this.currentCatalogue;
    const { rows, columns } = catalogue;
    const levels = new LevelMatrix(rows, columns, levelKind === "score" ? SCORE_STRENGTH : CHANGE_STRENGTH);
    levels.loadedFrom = columns;
    this.levels.set(levelKind, levels);
    this.arrangeRows();
    const fetchColumns = async (first: number, last: number, rows?: number[]) => {
      const { arrays } = await link.ask("levels", { level_kind: levelKind, first, last, ...(rows && { rows }) }, catalogue.number);
      levels.write(arrays.levels, first, last, rows);
    };
    const visible = this.heatmap.visibleRows(this.order);
    const newest = Math.max(0, columns - FIRST_COLUMNS);
    await Promise.all([fetchColumns(newest, columns, visible), this.heatmap.hasNames && this.sparklines.request(visible)]);
    levels.loadedFrom = newest;
    this.paint();
    performance.mark(`tidegauge:first:${levelKind}`);
    void this.fetchRest(levels, fetchColumns, catalogue).then(
      () => {
        performance.mark(`tidegauge:whole:${levelKind}`);
        this.arrangeRows();
        this.redraw();
      },
      (error) => {
        this.loading.delete(levelKind);
        this.shell.showError(error);
      },
    );
  }

  private async fetchRest(levels: LevelMatrix, fetchColumns: (first: number, last: number) => Promise<void>, catalogue: Catalogue): Promise<void> {
    const oldest = Math.max(0, catalogue.columns - Math.floor(MAX_CELLS / Math.max(1, catalogue.rows)));
    for (let last = catalogue.columns; last > oldest && this.catalogue === catalogue; last -= CHUNK_COLUMNS) {
      const first = Math.max(oldest, last - CHUNK_COLUMNS);
      await fetchColumns(first, last);
      levels.loadedFrom = Math.min(levels.loadedFrom, first);
      this.redraw();
    }
    if (oldest > 0) this.shell.announce(`Too many series: the oldest ${pluralize(oldest, "column")} ${oldest === 1 ? "is" : "are"} not shown.`);
  }

  /** Filter, group and sort the rows. */
  private arrangeRows(): void {
    const catalogue = this.currentCatalogue;
    const { by: levelKind, sort, filter, table, toggled, ids } = this.options;
    const { group } = this;
    this.choices.by.querySelector("select")!.value = levelKind;
    this.legendText.textContent = legendText(levelKind, { blank: this.levels.get(levelKind)?.hasBlank ?? false, anomalies: this.marks.size > 0 });
    this.legend.setAttribute("aria-label", `Legend: ${levelKind === "score" ? "p-value of the score, from normal to 10⁻⁹" : "change, from to 0 over same to new"}`);
    this.choices.group.querySelector("select")!.value = sort === "name" ? group : "";
    this.choices.sort.querySelector("select")!.value = sort;
    this.tables.show(catalogue.datasets, table);
    this.selected = new Set(ids.map((id) => catalogue.rowOf(id)).filter((row) => row >= 0));
    this.showSelection();
    if (document.activeElement !== this.filter) this.filter.value = filter;
    const levels = this.levels.get(levelKind);
    const searchResult = catalogue.search(filter);
    const rows = table === null ? searchResult : searchResult.filter((row) => catalogue.keyValue("dataset", row) === table);
    this.matchingRows = rows;
    const keys = this.groupKeys;
    const toggledHeadings = new Set(toggled);
    const { isFolded } = this;
    const isMatching = new Uint8Array(catalogue.rows);
    for (const row of rows) isMatching[row] = 1;
    const sorted = (this.sortings.get(this.sorting) ?? rows).filter((row) => isMatching[row]);
    const groups = groupRows(sorted, catalogue, keys, (heading) => isFolded !== toggledHeadings.has(heading));
    ({ order: this.order, headings: this.headings, folded: this.folded } = groups);
    for (const key of [...this.marks.keys()]) if (key < 0) this.marks.delete(key);
    for (const [heading, members] of this.folded) {
      const columns = new Set(members.flatMap((row) => this.marks.get(row) ?? []));
      if (columns.size) this.marks.set(heading, [...columns]);
    }
    this.fold.hidden = !keys.length;
    this.fold.textContent = isFolded ? "Unfold all" : "Fold all";
    levels?.setOrder(this.order, this.folded);
    this.heatmap.clearTextCache();
    const seriesCount = catalogue.rows;
    const count = rows.length === seriesCount ? pluralize(seriesCount, "series", "series") : `${rows.length.toLocaleString("en-US")} of ${pluralize(seriesCount, "series", "series")}`;
    this.map.setTitle(table ?? "All series");
    this.map.note.textContent = `${count} · ${pluralize(catalogue.columns, "partition")}`;
    if (rows.length) this.hasLevels && this.state.clear();
    else {
      const unknown = table !== null && !catalogue.datasets.includes(table);
      const clear = filter ? button("Clear the filter", () => this.updateOptions({ filter: "" })) : null;
      this.state.empty(unknown ? `Unknown table: ${table}` : "No series matches the filter.", clear);
    }
  }

  private get content(): HeatmapContent | null {
    const { theme } = this.shell;
    const catalogue = this.currentCatalogue;
    const { by: levelKind, table } = this.options;
    const levels = this.levels.get(levelKind);
    if (!levels) return null;
    const keys = this.groupKeys;
    return {
      catalogue,
      levels,
      palette: levelKind === "score" ? theme.score : theme.change,
      order: this.order,
      headings: this.headings,
      folded: this.folded,
      marks: this.marks,
      selected: this.selected,
      sparklines: this.sparklines,
      title: (row) => {
        const single = keys.includes("dataset") || table !== null || catalogue.datasets.length === 1;
        return `${single ? "" : `${catalogue.keyValue("dataset", row)} · `}${catalogue.title(row, keys)}`;
      },
    };
  }

  private fitCanvas(): void {
    const field = this.canvas.parentElement!;
    // Paper shows all rows, but no small lines: only those of rows that were visible have been fetched.
    const printing = this.element.closest(".tg-printing") !== null;
    const rows = Math.min(this.order.length, MAX_PRINTED_ROWS);
    field.style.height = printing ? `${AXIS_HEIGHT + rows * this.heatmap.viewport.rowHeight}px` : "";
    this.heatmap.withSparklines = !printing;
    const { clientWidth, clientHeight } = field;
    if (clientWidth && clientHeight) this.heatmap.resize(clientWidth, clientHeight);
  }

  redraw(): void {
    if (this.frame || !this.element.isConnected) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.paint();
    });
  }

  onResize(): void {
    const columns = this.catalogue && this.canvas.width > 1 ? this.heatmap.visibleColumns(this.currentCatalogue.columns) : null;
    this.fitCanvas();
    if (columns) this.heatmap.showColumns(...columns); // the same columns on a wider or narrower page
    this.sparklines?.clearCanvases();
    if (this.element.isConnected) this.paint(); // at once, because printing does not wait for a frame
  }

  private paint(): void {
    const content = this.content;
    if (!content || !this.canvas.width) return;
    const started = performance.now();
    this.heatmap.clamp(this.order.length, content.catalogue.columns);
    this.heatmap.draw(content, this.shell.theme);
    drawLegend(this.legend, this.shell.theme, this.options.by);
    this.drawCursor();
    this.showRange();
    if (this.heatmap.hasNames) this.requestSparklines();
    performance.measure("tidegauge:paint", { start: started, end: performance.now() });
  }

  private readonly requestSparklines = debounce(60, () => {
    if (this.sparklines.setColumns(...this.heatmap.visibleColumns(this.currentCatalogue.columns))) this.redraw();
    void this.sparklines.request(this.heatmap.visibleRows(this.order)).catch((error) => this.shell.showError(error));
  });

  private drawCursor(): void {
    const { index, column } = this.cursorCell;
    const box = this.heatmap.cellBox(index, column);
    const { width, height } = this.heatmap.inner;
    const inside = box.x >= this.heatmap.gutter - 1 && box.x < this.heatmap.gutter + width && box.y >= AXIS_HEIGHT - 1 && box.y < AXIS_HEIGHT + height;
    this.cursor.hidden = !inside || document.activeElement !== this.canvas;
    const size = { left: box.x, top: box.y, width: Math.max(3, box.width), height: Math.max(3, box.height) };
    for (const [name, value] of Object.entries(size)) this.cursor.style.setProperty(name, `${value}px`);
  }

  // --- navigation

  private zoom(rows: number, columns: number, x?: number, y?: number): void {
    const { viewport, inner, gutter } = this.heatmap;
    this.hideTooltip();
    const across = (x ?? gutter + inner.width / 2) - gutter;
    const down = (y ?? AXIS_HEIGHT + inner.height / 2) - AXIS_HEIGHT;
    const column = viewport.left + across / viewport.columnWidth;
    const index = viewport.top + down / viewport.rowHeight;
    viewport.rowHeight *= rows;
    viewport.columnWidth *= columns;
    this.heatmap.clamp(this.order.length, this.currentCatalogue.columns);
    viewport.left = column - across / viewport.columnWidth;
    viewport.top = index - down / viewport.rowHeight;
    this.saveRange();
    this.redraw();
  }

  private zoomAtCursor(factor: number): void {
    const { index, column } = this.cursorCell;
    this.reveal(index, column);
    const { x, y, width, height } = this.heatmap.cellBox(index, column);
    this.zoom(factor, factor, x + width / 2, y + height / 2);
    this.reveal(index, column);
  }

  private showAll(): void {
    this.hideTooltip();
    Object.assign(this.heatmap.viewport, { top: 0, left: 0, rowHeight: 0, columnWidth: 0 });
    this.saveRange();
    this.redraw();
  }

  private resetView(): void {
    this.heatmap.reset(this.currentCatalogue.columns, FIRST_COLUMNS, 18);
    this.saveRange();
    this.redraw();
  }

  // --- range of dates

  /** Show the columns of a window; null for all columns. */
  private showWindow(window: TimeWindow | null): void {
    const columns: [number, number] | null = window ? columnsWithin(this.currentCatalogue, window) : [0, this.currentCatalogue.columns];
    if (!columns) {
      this.shell.announce("This window has no partitions.");
      this.shownWindow = "";
      this.showRange();
      return;
    }
    this.hideTooltip();
    this.heatmap.showColumns(...columns);
    this.saveColumns(...columns);
    this.redraw();
  }

  /** Apply the saved range to the viewport if it changed. */
  private applyRange(): void {
    const { since, until } = this.options;
    const range = JSON.stringify([since, until]);
    if (range === this.range) return;
    this.range = range;
    const columns = columnRange(this.currentCatalogue, { since, until });
    if (columns) this.heatmap.showColumns(...columns);
    else this.heatmap.reset(this.currentCatalogue.columns, FIRST_COLUMNS, this.heatmap.viewport.rowHeight);
  }

  /** Save the visible range after a pause in scrolling. */
  private readonly saveRange = debounce(200, () => this.saveColumns(...this.heatmap.visibleColumns(this.currentCatalogue.columns)));

  private saveColumns(first: number, end: number): void {
    const { columns } = this.currentCatalogue;
    const isDefault = first === Math.max(0, columns - FIRST_COLUMNS) && end === columns;
    const { since, until } = isDefault ? { since: null, until: null } : savedRange(this.currentCatalogue, first, end);
    const range = JSON.stringify([since, until]);
    if (range === this.range) return;
    this.range = range;
    this.shell.saveOptions("overview", { ...this.options, since, until });
  }

  /** Show the visible window in the fields. */
  private showRange(): void {
    const { times, columns } = this.currentCatalogue;
    const lastTimed = Array.from(times).findLastIndex((time) => !Number.isNaN(time));
    const [first, end] = this.heatmap.visibleColumns(columns);
    const last = Math.min(lastTimed, end - 1);
    const windowKey = JSON.stringify([times[first], times[last], times[lastTimed]]);
    if (windowKey === this.shownWindow) return; // unchanged; rewriting the fields would interrupt typing
    this.shownWindow = windowKey;
    this.period.show(first <= last ? [times[first], times[last]] : null, lastTimed >= 0 ? [times[0], times[lastTimed]] : null);
  }

  private bindEvents(): void {
    const { canvas } = this;
    canvas.addEventListener("wheel", (event) => this.handleWheel(event), { passive: false });
    canvas.addEventListener("pointermove", (event) => this.handlePointerMove(event));
    canvas.addEventListener("pointerleave", () => this.hideTooltip());
    canvas.addEventListener("pointerdown", (event) => this.handlePointerDown(event));
    canvas.addEventListener("pointerup", (event) => this.handlePointerUp(event));
    canvas.addEventListener("pointercancel", () => (this.dragStart = null));
    canvas.addEventListener("keydown", (event) => this.handleKey(event));
    canvas.addEventListener("focus", () => this.drawCursor());
    canvas.addEventListener("blur", () => (this.cursor.hidden = true));
    // The toolbar above can wrap, which changes the size of the canvas.
    this.resizeObserver.observe(canvas.parentElement!);
  }

  private handleWheel(event: WheelEvent): void {
    const { viewport } = this.heatmap;
    // In a notebook the wheel scrolls the notebook until the map has the focus.
    if (!this.shell.fillsPage && document.activeElement !== this.canvas && !event.ctrlKey && !event.metaKey) return;
    const previousViewport = { ...viewport };
    const step = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 18 : 1;
    const [across, down] = event.shiftKey && !event.deltaX ? [event.deltaY, 0] : [event.deltaX, event.deltaY];
    if (event.ctrlKey || event.metaKey) {
      const factor = Math.exp(-event.deltaY * step * 0.002);
      this.zoom(factor, factor, event.offsetX, event.offsetY);
    } else {
      viewport.top += (down * step) / viewport.rowHeight;
      viewport.left += (across * step) / viewport.columnWidth;
      this.heatmap.clamp(this.order.length, this.currentCatalogue.columns);
      this.saveRange();
    }
    // At the end of the range, let the page scroll.
    const unchanged = (Object.keys(previousViewport) as (keyof typeof previousViewport)[]).every((key) => previousViewport[key] === viewport[key]);
    if (unchanged && !event.ctrlKey) return;
    event.preventDefault();
    this.hideTooltip();
    this.redraw();
  }

  private handlePointerDown(event: PointerEvent): void {
    if (event.button !== 0) return;
    this.dragStart = { x: event.offsetX, y: event.offsetY };
    this.dragging = false;
    if (event.offsetX > this.heatmap.gutter + this.heatmap.inner.width) this.scrollMinimap(event.offsetY);
  }

  private scrollMinimap(y: number): void {
    const { viewport, inner } = this.heatmap;
    const share = (y - AXIS_HEIGHT) / inner.height;
    viewport.top = share * this.order.length - inner.height / viewport.rowHeight / 2;
    this.dragging = true;
    this.redraw();
  }

  private handlePointerMove(event: PointerEvent): void {
    const { offsetX: x, offsetY: y } = event;
    const { viewport } = this.heatmap;
    if (this.dragStart && event.buttons & 1) {
      if (this.dragStart.x > this.heatmap.gutter + this.heatmap.inner.width) this.scrollMinimap(y);
      else if (this.dragging || Math.hypot(x - this.dragStart.x, y - this.dragStart.y) > 4) {
        if (!this.dragging) this.canvas.setPointerCapture(event.pointerId);
        this.dragging = true;
        viewport.left -= (x - this.dragStart.x) / viewport.columnWidth;
        viewport.top -= (y - this.dragStart.y) / viewport.rowHeight;
        this.dragStart = { x, y };
        this.saveRange();
        this.redraw();
      }
      this.hideTooltip();
      return;
    }
    const { index, column } = this.heatmap.cellAt(x, y);
    const row = this.order[index];
    const inCells = column >= 0 && column < this.currentCatalogue.columns;
    // A folded row shows the most unusual of its series.
    const shownRow = row < 0 && inCells ? (this.levels.get(this.options.by)?.strongestRow(row, column) ?? -1) : row;
    if (shownRow === undefined || shownRow < 0) this.hideTooltip();
    else this.showTooltip(shownRow, column, x, y, row < 0 ? this.folded.get(row)!.length : 1);
  }

  private handlePointerUp(event: PointerEvent): void {
    const start = this.dragStart;
    this.dragStart = null;
    if (!start || this.dragging) return;
    const { index, column } = this.heatmap.cellAt(event.offsetX, event.offsetY);
    const row = this.order[index];
    if (row === undefined || column >= this.currentCatalogue.columns) return;
    this.cursorCell = { index, column: column < 0 ? this.cursorCell.column : column };
    if (row < 0) this.toggleFolded(row);
    else if (event.shiftKey) this.toggleSelected(row);
    else this.openSeries(row, column);
  }

  private handleKey(event: KeyboardEvent): void {
    const page = Math.max(1, Math.floor(this.heatmap.inner.height / this.heatmap.viewport.rowHeight) - 1);
    const steps: Record<string, [number, number]> = {
      ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
      PageUp: [-page, 0], PageDown: [page, 0], Home: [0, -1e9], End: [0, 1e9],
    };
    const row = this.order[this.cursorCell.index];
    if (event.key in steps) this.moveCursor(...steps[event.key]);
    else if ((event.key === "Enter" || event.key === " ") && row < 0) this.toggleFolded(row);
    else if (event.key === "Enter" && row >= 0) this.openSeries(row, this.cursorCell.column);
    else if (event.key === " " && row >= 0) this.toggleSelected(row);
    else if (event.key === "+" || event.key === "=") this.zoomAtCursor(1.5);
    else if (event.key === "-") this.zoomAtCursor(1 / 1.5);
    else if (event.key === "0") this.showAll();
    else if (event.key === "1") this.resetView();
    else if (event.key === "Escape") this.hideTooltip();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  private moveCursor(down: number, across: number): void {
    const { columns } = this.currentCatalogue;
    const index = Math.min(this.order.length - 1, Math.max(0, this.cursorCell.index + down));
    const column = Math.min(columns - 1, Math.max(0, this.cursorCell.column + across));
    this.cursorCell = { index, column };
    this.reveal(index, column);
    this.saveRange();
    const box = this.heatmap.cellBox(index, column);
    if (this.order[index] >= 0) this.showTooltip(this.order[index], column, box.x + box.width, box.y + box.height);
    else this.announceHeading(this.order[index]);
    this.redraw();
  }

  /** Scroll a cell into view. */
  reveal(index: number, column: number): void {
    const { viewport, inner } = this.heatmap;
    const [rows, columns] = [inner.height / viewport.rowHeight, inner.width / viewport.columnWidth];
    viewport.top = Math.min(index, Math.max(viewport.top, index + 1 - rows));
    viewport.left = Math.min(column, Math.max(viewport.left, column + 1 - columns));
  }

  /** Page coordinates of a cell, by series id and column label; used by browser tests. */
  locate(id: number, label: string): { x: number; y: number } {
    const catalogue = this.currentCatalogue;
    const row = catalogue.rowOf(id);
    const heading = [...this.folded].find(([, members]) => members.includes(row))?.[0];
    if (heading !== undefined) this.toggleFolded(heading);
    const index = this.order.indexOf(row);
    const column = catalogue.labels.indexOf(label);
    this.reveal(index, column);
    this.paint();
    const box = this.heatmap.cellBox(index, column);
    const corner = this.canvas.getBoundingClientRect();
    return { x: corner.x + box.x + box.width / 2, y: corner.y + box.y + box.height / 2 };
  }

  // --- selection and tooltip

  private toggleSelected(row: number): void {
    if (!this.selected.delete(row)) {
      if (this.selected.size >= MAX_SELECTED) this.shell.announce(`Up to ${MAX_SELECTED} series can be compared.`);
      else this.selected.add(row);
    }
    this.saveSelection();
  }

  private saveSelection(): void {
    const ids = [...this.selected].map((row) => this.currentCatalogue.ids[row]);
    this.shell.saveOptions("overview", { ...this.options, ids });
    this.showSelection();
    this.redraw();
  }

  private showSelection(): void {
    const { size } = this.selected;
    const ids = () => [...this.selected].map((row) => this.currentCatalogue.ids[row]);
    const open = button(`Compare ${pluralize(size, "series", "series")}`, () => this.shell.go("series", { ids: ids() }), { class: "tg-primary" });
    const clear = button("Clear", () => {
      this.selected.clear();
      this.saveSelection();
    });
    this.selectionBar.replaceChildren(...(size ? [open, clear] : []));
  }

  /** Fold or unfold the group of a heading. */
  private toggleFolded(heading: number): void {
    const text = this.headings[-heading - 1];
    const { toggled } = this.options;
    const toggledHeadings = toggled.includes(text) ? toggled.filter((otherHeading) => otherHeading !== text) : [...toggled, text];
    this.hideTooltip();
    this.shell.saveOptions("overview", { ...this.options, fold: this.isFolded, toggled: toggledHeadings });
    this.arrangeRows();
    this.redraw();
  }

  private announceHeading(heading: number): void {
    const members = this.folded.get(heading);
    this.hideTooltip();
    this.shell.announce(`${this.headings[-heading - 1]}, ${members ? `${pluralize(members.length, "series", "series")} folded; Enter unfolds` : "Enter folds"}.`);
  }

  private openSeries(row: number, column: number): void {
    const catalogue = this.currentCatalogue;
    this.hideTooltip();
    this.shell.go("series", { ids: [catalogue.ids[row]], focus: catalogue.labels[column] ?? null });
  }

  private hideTooltip(): void {
    this.tooltip.hidden = true;
    this.tooltipRequest++;
  }

  private tooltipRequest = 0;
  private tooltipNote = "";
  private readonly fetchCell = debounce(50, (row: number, column: number, requestNumber: number) => {
    void this.shell.link.ask("cell", { row, column }, this.currentCatalogue.number).then(
      ({ data }) => requestNumber === this.tooltipRequest && !this.tooltip.hidden && this.showCell(row, data),
      (error) => this.shell.showError(error),
    );
  });

  /** Show the tooltip of a cell: its title at once, and its details when the kernel answers. */
  private showTooltip(row: number, column: number, x: number, y: number, foldedSeries = 1): void {
    const catalogue = this.currentCatalogue;
    const title = h("strong", {}, renderName(`${catalogue.keyValue("dataset", row)} · ${catalogue.title(row)}`, 90));
    this.tooltipRequest++;
    this.tooltipNote = foldedSeries > 1 ? `the most unusual of ${foldedSeries} folded series; click to unfold` : "";
    if (column < 0 || column >= catalogue.columns) this.tooltip.replaceChildren(title);
    else {
      this.tooltip.replaceChildren(title, h("div", {}, renderName(catalogue.labels[column])));
      this.fetchCell(row, column, this.tooltipRequest);
    }
    this.tooltip.hidden = false;
    const field = this.canvas.parentElement!;
    const right = x + 340 > field.clientWidth - MINIMAP_WIDTH;
    this.tooltip.style.left = `${Math.max(0, right ? x - 336 : x + 14)}px`;
    this.tooltip.style.top = `${Math.min(y + 14, field.clientHeight - 120)}px`;
  }

  private showCell(row: number, cell: CellAnswer): void {
    const catalogue = this.currentCatalogue;
    const title = `${catalogue.keyValue("dataset", row)} · ${catalogue.title(row)}`;
    const note = this.tooltipNote ? [h("div", { class: "tg-muted" }, this.tooltipNote)] : [];
    this.tooltip.replaceChildren(...cellTooltip(title, cell), ...note);
    this.shell.announce(cellDescription(title, cell));
  }

  close(): void {
    this.resizeObserver.disconnect();
    cancelAnimationFrame(this.frame);
  }
}
