// Series view: charts of one or many series, with expectations, anomalies, labels and restatements.

import { drawnMarks, legendText } from "../chart/legend";
import { lineStyle } from "../chart/line-style";
import { type ChartLine, type ChartListener, SeriesChart } from "../chart/series-chart";
import { renderSmallMultiples } from "../chart/small-multiples";
import type { Catalogue, SeriesKey } from "../data/catalogue";
import { formatMetric, formatTime, pluralize } from "../data/format";
import { type Axis, findNonPositive, formatSideTime, indexUnit, lineValues, medianStep, parseWindowEnd, precedingWindow, scaleRatio, type SeriesAnswer, sharedAxis, valueTitle } from "../data/timeseries";
import { Card } from "../ui/card";
import { button, debounce, h, renderName, selectField, setOptions } from "../ui/dom";
import { Menu } from "../ui/menu";
import { type SeriesChip, SeriesPicker } from "../ui/series-picker";
import type { Listing, Shell, View } from "../ui/shell";
import { PaneState } from "../ui/state";
import { pointTooltip } from "../ui/tooltip";
import { PeriodPicker, type TimeWindow } from "../ui/period-picker";
import "./series.css";

const MAX_SERIES = 50;
/** Maximum number of series whose seasons are described. */
const MAX_SEASONS = 4;
const SECONDS_PER_DAY = 86400;
/** Number of points above which dashes would be a hatching. Lines are then told apart by color, and by the number at their end. */
const MAX_DASHED_POINTS = 150;
/** Ratio of magnitudes above which series default to small multiples. */
const MAX_SCALE_RATIO = 30;
const OVERLAY_KEYS: SeriesKey[] = ["segment", "instance", "name", "analyzer"];
const MODES = [["together", "together"], ["indexed", "indexed (each ÷ its median)"], ["small", "small multiples"]] as const;
/** Past values for comparison, by their distance in days. Complete weeks keep the weekdays aligned. */
const PAST_CHOICES = [["", "nothing"], ["7", "a week earlier"], ["28", "4 weeks earlier"], ["364", "a year earlier (364 days)"]] as const;
const HELP_TEXT = "Drag to zoom, double click to reset. Arrow keys move from point to point.";

interface Options {
  ids: number[];
  overlay: string | null;
  /** Label of the highlighted column. */
  focus: string | null;
  /** One of `MODES`; if null, chosen by the magnitudes of the series. */
  mode: string | null;
  log: boolean;
  /** Whether expectations are shown. If null, they are shown for a single series and in small multiples. */
  band: boolean | null;
  since: number | string | null;
  until: number | string | null;
  /** Distance of past values for comparison, in days; null for none. */
  past: number | null;
}

/** Charts of selected series. */
export class Series implements View {
  readonly element: HTMLElement;
  private readonly picker: SeriesPicker;
  private readonly modeSelect: HTMLLabelElement;
  private readonly overlay: HTMLLabelElement;
  private readonly past: HTMLLabelElement;
  private readonly period: PeriodPicker;
  private readonly card: Card;
  private readonly state = new PaneState();
  private readonly log = h("input", { type: "checkbox", onchange: () => this.updateOptions({ log: this.log.checked }) });
  private readonly band = h("input", { type: "checkbox", onchange: () => this.updateOptions({ band: this.band.checked }) });
  private readonly logReason = h("span", { class: "tg-muted" });
  private readonly resetZoom = button("Reset", () => this.zoom(null), { title: "Show all partitions" });
  private readonly comparePrevious = button("Compare with previous window", () => this.compare());
  private readonly field = h("div", { class: "tg-charts", tabindex: "0", role: "application", "aria-label": `Chart. ${HELP_TEXT}` });
  private readonly tooltip = h("div", { class: "tg-tooltip", hidden: true });
  private readonly help = h("span", { class: "tg-muted tg-help" }, HELP_TEXT);
  private readonly legend = h("span", { class: "tg-muted" });
  private readonly note = h("span", { class: "tg-muted" });
  private readonly seasons = h("div", { class: "tg-seasons tg-muted", hidden: true });
  private answer: SeriesAnswer | null = null;
  private answerKey = "";
  private requestNumber = 0;
  private catalogue: Catalogue | null = null;
  private axis: Axis = { columns: [], x: [], timed: true };
  private mode = "together";
  private lines: ChartLine[] = [];
  private chart: SeriesChart | null = null;
  private hoveredPoint: { index: number; line: number } | null = null;

  constructor(private readonly shell: Shell) {
    this.picker = new SeriesPicker(
      () => shell.catalogue,
      () => this.options.ids,
      (id) => this.add(id),
    );
    this.modeSelect = selectField("Show", MODES, "together", (mode) => this.updateOptions({ mode }));
    this.past = selectField("Lay over", PAST_CHOICES, "", (days) => this.updateOptions({ past: days ? Number(days) : null }));
    this.overlay = selectField("Overlay", [["", "no other dataset"]], "", (name) => this.updateOptions({ overlay: name || null }));
    this.period = new PeriodPicker((window) => this.zoom(window), (text) => shell.announce(text));
    const more = new Menu("More", [h("label", { class: "tg-choice" }, this.log, "Log scale", this.logReason), this.past, this.overlay], { class: "tg-view-menu", label: "More choices" });
    const tools = h(
      "div",
      { class: "tg-tools" },
      this.picker.element,
      this.period.element,
      this.modeSelect,
      h("label", { class: "tg-choice" }, this.band, "Expected"),
      more.element,
    );
    const holder = h("div", { class: "tg-field tg-series-field" }, this.field, this.tooltip, this.state.element);
    this.card = new Card("Series", shell, [this.seasons, holder], { class: "tg-series-card" });
    this.card.tools.prepend(this.comparePrevious, this.resetZoom);
    this.card.foot.append(this.legend, this.note, this.help);
    this.card.foot.hidden = false;
    this.element = h("section", { class: "tg-series" }, tools, this.picker.chips, this.card.element);
    this.field.addEventListener("keydown", (event) => this.handleKey(event));
    this.field.addEventListener("blur", () => this.hideTooltip());
  }

  private get options(): Options {
    const defaults = { ids: [], overlay: null, focus: null, mode: null, log: false, band: null, since: null, until: null, past: null };
    return { ...defaults, ...this.shell.options<Options>("series") };
  }

  async open(): Promise<void> {
    const requestNumber = ++this.requestNumber;
    const { catalogue, link } = this.shell;
    const { ids, overlay } = this.options;
    const key = JSON.stringify([ids, overlay]);
    if (this.catalogue !== catalogue || this.answerKey !== key) {
      if (!this.answer) this.state.loading();
      const answer = ids.length ? await link.ask("series", { ids, overlay }) : null;
      if (requestNumber !== this.requestNumber) return;
      [this.answer, this.answerKey, this.catalogue] = [answer, key, catalogue];
      this.fillOverlaySelect();
      this.seasons.hidden = true;
      if (ids.length && ids.length <= MAX_SEASONS) void this.fetchSeasons(ids).catch((error) => this.shell.showError(error));
    }
    this.show();
  }

  /** Fetch and show the seasons of the series, which take longer than the chart. */
  private async fetchSeasons(ids: number[]): Promise<void> {
    const { answer } = this;
    const { seasons } = (await this.shell.link.ask("seasons", { ids })).data;
    if (this.answer !== answer) return;
    const seasonsByRow = seasons.map((description, n) => [this.answer?.data.series.findIndex(({ id }) => id === ids[n]) ?? -1, description] as const);
    const parts = seasonsByRow.filter(([row, description]) => row >= 0 && description).map(([row, description]) => (ids.length > 1 ? `${this.lineTitle(row)}: ${description}` : description));
    this.seasons.textContent = parts.length ? `Seasons: ${parts.join(" · ")}` : "";
    this.seasons.title = this.seasons.textContent;
    this.seasons.hidden = !parts.length;
    if (parts.length && this.lines.length) this.draw(); // the seasons take space from the chart
  }

  private updateOptions(changes: Partial<Options>): void {
    this.shell.saveOptions("series", { ...this.options, ...changes });
    void this.open().catch((error) => this.shell.showError(error));
  }

  private add(id: number): void {
    const { ids } = this.options;
    if (ids.length >= MAX_SERIES) this.shell.announce(`Up to ${MAX_SERIES} series at a time; remove one first.`);
    else this.updateOptions({ ids: [...ids, id] });
  }

  /** Fill the overlay select with the datasets that have a counterpart of a selected series. */
  private fillOverlaySelect(): void {
    const { catalogue } = this.shell;
    const { ids, overlay } = this.options;
    const identity = (row: number) => OVERLAY_KEYS.map((key) => catalogue.code(key, row)).join(" ");
    const rows = ids.map((id) => catalogue.rowOf(id)).filter((row) => row >= 0);
    const identities = new Set(rows.map(identity));
    const ownDatasets = new Set(rows.map((row) => catalogue.keyValue("dataset", row)));
    const datasets = new Set<string>();
    for (let row = 0; identities.size && row < catalogue.rows; row++) {
      if (identities.has(identity(row))) datasets.add(catalogue.keyValue("dataset", row));
    }
    const otherDatasets = [...datasets].filter((name) => ownDatasets.size > 1 || !ownDatasets.has(name));
    const emptyText = otherDatasets.length ? "no other dataset" : "no other dataset has these";
    const select = this.overlay.querySelector("select")!;
    setOptions(select, [["", emptyText], ...otherDatasets.map((name) => [name, name] as const)], overlay ?? "");
    select.disabled = !otherDatasets.length && overlay === null;
  }

  // --- drawing

  private show(): void {
    const { answer } = this;
    const options = this.options;
    this.destroyChart();
    this.mode = options.mode ?? "together";
    if (!answer?.data.series.length) {
      this.lines = [];
      this.axis = { columns: [], x: [], timed: true };
      this.legend.textContent = this.help.textContent = "";
      this.picker.show([], () => undefined, () => undefined);
      this.showEmpty(options.ids.length > 0);
      this.updateTools(options);
      return;
    }
    const rows = answer.data.series.map((_, row) => row);
    if (options.mode === null && scaleRatio(answer, rows) > MAX_SCALE_RATIO) this.mode = "small";
    const { mode } = this;
    const band = options.band ?? (rows.length === 1 || mode === "small");
    const units = rows.map((row) => (mode === "indexed" ? indexUnit(answer, row) : 1));
    const dense = answer.data.labels.length > MAX_DASHED_POINTS;
    const styles = rows.map((row) => lineStyle(this.shell.theme, row, dense));
    this.lines = rows
      .filter((row) => units[row] !== null)
      .map((row) => ({ row, style: styles[row], text: this.lineTitle(row), unit: units[row]!, band, number: row + 1 }));
    this.axis = sharedAxis(answer, rows);
    const { past } = options;
    const text = past && this.axis.timed ? (PAST_CHOICES.find(([days]) => days === String(past))?.[1] ?? `${past} days earlier`) : null;
    if (past && text) {
      const shifted = this.lines.map((line): ChartLine => ({ ...line, style: { ...line.style, dash: [2, 3] }, text: `${line.text}, ${text}`, band: false, shift: past * SECONDS_PER_DAY }));
      this.lines = [...this.lines, ...shifted];
    }
    this.legend.textContent = legendText({ band, past: text, ...drawnMarks(answer, rows) });
    this.updateTools(options);
    const chips = rows.map((row): SeriesChip => ({
      ...styles[row],
      title: this.lineTitle(row),
      overlay: !options.ids.includes(answer.data.series[row].id),
      note: units[row] === null ? "no index: the median is 0" : null,
    }));
    const remove = (n: number) => this.updateOptions({ ids: options.ids.filter((id) => id !== answer.data.series[n].id) });
    this.picker.show(chips, remove, (n) => this.highlight(n));
    this.state.clear();
    this.card.setTitle(renderName(this.title(), 120));
    const missing = options.ids.filter((id) => !answer.data.series.some((series) => series.id === id)).length;
    const notice = options.mode === null && mode === "small" ? "Small multiples: the magnitudes differ too much for one axis. " : "";
    this.note.textContent = notice + (missing ? `${pluralize(missing, "requested series", "requested series")} not found.` : "");
    this.draw();
  }

  title(): string {
    const lines = this.lines.filter(({ shift }) => !shift);
    return lines.length === 1 ? lines[0].text : lines.length ? pluralize(lines.length, "series", "series") : "Series";
  }

  private lineTitle(row: number): string {
    const { catalogue } = this.shell;
    const { series } = this.answer!.data;
    const catalogueRow = catalogue.rowOf(series[row].id);
    const title = catalogueRow < 0 ? `${series[row].name} ${series[row].instance}` : catalogue.title(catalogueRow);
    return series.some(({ dataset }) => dataset !== series[0].dataset) ? `${series[row].dataset} · ${title}` : title;
  }

  private updateTools(options: Options): void {
    this.modeSelect.querySelector("select")!.value = this.mode;
    this.band.checked = this.lines.some(({ band }) => band);
    this.past.querySelector("select")!.value = String(options.past ?? "");
    this.overlay.querySelector("select")!.value = options.overlay ?? "";
    const row = this.answer ? findNonPositive(this.answer, this.lines.map((line) => line.row)) : null;
    this.log.disabled = row !== null;
    this.log.checked = options.log && row === null;
    const reason = row === null ? "" : `not available: series ${row + 1} has values of 0 or less`;
    this.logReason.textContent = reason;
    this.updateWindowText();
  }

  private get visibleWindow(): [number, number] | null {
    const { since, until } = this.options;
    const { x } = this.axis;
    const labels = this.answer?.data.labels ?? [];
    const [from, to] = [parseWindowEnd(this.axis, labels, since), parseWindowEnd(this.axis, labels, until)];
    if ((from === null && to === null) || !x.length) return null;
    const window: [number, number] = [from ?? x[0], to ?? x[x.length - 1]];
    return window[0] < window[1] ? window : null;
  }

  listing(): Listing {
    const { visibleWindow: window, axis } = this;
    if (!window || !this.answer) return {};
    const { labels } = this.answer.data;
    const columns = axis.columns.filter((_, n) => axis.x[n] >= window[0] && axis.x[n] <= window[1]);
    return { columns: columns.length ? [labels[columns[0]], labels[columns[columns.length - 1]]] : [] };
  }

  private draw(): void {
    const { clientWidth: width, clientHeight: height } = this.field;
    if (!width || !height || !this.answer) return;
    const { mode } = this;
    const { focus } = this.options;
    this.destroyChart();
    this.field.classList.toggle("tg-multiples", mode === "small");
    this.help.textContent = mode === "small" ? "Click a name to show it alone." : HELP_TEXT;
    const title = mode === "small" ? null : valueTitle(this.answer, this.lines);
    const common = { axis: this.axis, log: this.log.checked, focus, window: this.visibleWindow, title };
    if (mode === "small") {
      const ofRow = (row: number) => this.lines.filter((line) => line.row === row).map((line) => (line.shift ? line : { ...line, style: { ...line.style, dash: [] } }));
      const specs = this.lines.filter(({ shift }) => !shift).map(({ row }) => ({ ...common, lines: ofRow(row), small: true }));
      const { series } = this.answer.data;
      const showAlone = (row: number) => this.updateOptions({ ids: [series[row].id], mode: null, overlay: null });
      this.field.replaceChildren(...renderSmallMultiples(this.shell.theme, this.answer, specs, width, height, showAlone));
      return;
    }
    this.chart = new SeriesChart(this.shell.theme, this.answer, { ...common, lines: this.lines, small: false }, width, height, this.listener);
    this.field.replaceChildren(this.chart.element);
  }

  private showEmpty(gone: boolean): void {
    const { catalogue } = this.shell;
    const counts = new Map<number, number>();
    for (let n = 0; n < catalogue.marks.length; n += 2) counts.set(catalogue.marks[n], (counts.get(catalogue.marks[n]) ?? 0) + 1);
    const top = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 12);
    const suggestions = top.map(([row, count]) =>
      h("li", {}, button(`${catalogue.keyValue("dataset", row)} · ${catalogue.title(row)}`, () => this.add(catalogue.ids[row])), ` ${pluralize(count, "anomaly", "anomalies")}`),
    );
    const text = gone ? "The requested series were not found." : "No series selected yet.";
    this.field.classList.remove("tg-multiples");
    this.field.replaceChildren();
    this.card.setTitle("Series");
    this.state.empty(`${text} Search for one above, or click one in the heat map.`, suggestions.length ? h("p", {}, "Series with the most anomalies:") : null, h("ul", {}, ...suggestions));
  }

  // --- the window

  private zoom(window: TimeWindow | null): void {
    const saved = (position: number) => (this.axis.timed ? Math.round(position) : this.answer!.data.labels[this.axis.columns[position]]);
    const [since, until] = window ? window.map(saved) : [null, null];
    this.shell.saveOptions("series", { ...this.options, since, until });
    if (this.chart) this.chart.setWindow(this.visibleWindow);
    else this.draw();
    this.updateWindowText();
  }

  private updateWindowText(): void {
    const { visibleWindow: window, axis } = this;
    const name = (position: number) => (axis.timed ? formatTime(position) : this.answer!.data.labels[axis.columns[position]]);
    const count = axis.x.filter((x) => !window || (x >= window[0] && x <= window[1])).length;
    const ends: TimeWindow | null = window ?? (axis.x.length ? [axis.x[0], axis.x[axis.x.length - 1]] : null);
    const range = axis.timed || !ends ? "" : `${name(ends[0])} to ${name(ends[1])}, `; // the fields show times
    this.card.note.textContent = this.lines.length && ends ? range + (count ? pluralize(count, "partition") : "no partition in this window") : "";
    const timed = axis.timed && axis.x.length > 0;
    this.resetZoom.disabled = !window;
    this.period.show(timed ? ends : null, timed ? [axis.x[0], axis.x[axis.x.length - 1]] : null);
    const problem = this.compareProblem();
    this.comparePrevious.disabled = problem !== null;
    this.comparePrevious.title = problem ?? "Compare all metrics of the dataset in this window with the window of the same length before it";
  }

  private compareProblem(): string | null {
    const { visibleWindow: window, axis } = this;
    if (!window) return "Drag over the chart to select a window first";
    if (!axis.timed) return "These partitions have no time";
    const names = new Set(this.answer!.data.series.map((series) => series.dataset));
    if (names.size > 1) return "These series are of several tables";
    return window[0] <= axis.x[0] ? "There are no partitions before this window" : null;
  }

  private compare(): void {
    const [since, until] = this.visibleWindow!;
    const steps = this.lines.map(({ row }) => medianStep(this.axis.x, lineValues(this.answer!, row, this.axis, "value"))).filter(Number.isFinite);
    // A single point has no step.
    const step = steps.length ? Math.min(...steps) : SECONDS_PER_DAY;
    const previous = precedingWindow(since, until, step);
    const side = (window: { since: number; until: number }) => ({ since: formatSideTime(window.since, step), until: formatSideTime(window.until, step) });
    const { series } = this.answer!.data;
    this.shell.go("compare", { baseline: side(previous), current: side({ since, until }) }, series[0].dataset);
  }

  // --- tooltip and cursor

  private readonly listener: ChartListener = {
    onHover: (point) => (point ? this.showTooltip(point.index, point.line, point.left, point.top) : this.hideTooltip()),
    onBrush: (first, last) => this.zoom([this.axis.x[first], this.axis.x[last]]),
    onReset: () => this.zoom(null),
  };

  /** Debounced, because redrawing fifty lines is slow. */
  private readonly highlightLine = debounce(40, (line: number | null) => this.chart?.highlight(line));

  private highlight(row: number | null): void {
    const line = row === null ? -1 : this.lines.findIndex((drawn) => drawn.row === row);
    this.highlightLine(line < 0 ? null : line);
  }

  private showTooltip(index: number, line: number, left: number, top: number): void {
    if (this.hoveredPoint?.line !== line) {
      this.highlightLine(line);
      this.picker.highlight(this.lines[line].row);
    }
    this.hoveredPoint = { index, line };
    const { row, text, unit, shift } = this.lines[line];
    const column = shift ? this.answer!.arrays.times.indexOf(this.axis.x[index] - shift) : this.axis.columns[index];
    if (column < 0) return;
    this.tooltip.replaceChildren(h("strong", {}, renderName(text, 90)), ...pointTooltip(this.answer!, row, column, unit));
    this.tooltip.hidden = false;
    const over = this.chart!.u.over;
    const [x, y] = [left + over.offsetLeft, top + over.offsetTop];
    const right = x + 350 > this.field.clientWidth;
    this.tooltip.style.left = `${Math.max(0, right ? x - this.tooltip.offsetWidth - 14 : x + 14)}px`;
    this.tooltip.style.top = `${Math.max(0, Math.min(y + 14, this.field.clientHeight - this.tooltip.offsetHeight - 4))}px`;
  }

  private hideTooltip(): void {
    if (this.hoveredPoint) this.highlightLine(null);
    this.hoveredPoint = null;
    this.tooltip.hidden = true;
    this.picker.highlight(null);
  }

  private handleKey(event: KeyboardEvent): void {
    if (!this.chart || event.target !== this.field) return;
    const steps: Record<string, [number, number]> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1], Home: [-1e9, 0], End: [1e9, 0] };
    const step = steps[event.key];
    if (step) this.moveCursor(...step);
    else if (event.key === "Escape") this.chart.u.setCursor({ left: -10, top: -10 });
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  private moveCursor(across: number, down: number): void {
    const { x } = this.axis;
    const [low, high] = this.visibleWindow ?? [x[0], x[x.length - 1]];
    const [first, last] = [x.findIndex((position) => position >= low), x.findLastIndex((position) => position <= high)];
    const line = ((this.hoveredPoint?.line ?? 0) + down + this.lines.length) % this.lines.length;
    const index = Math.min(last, Math.max(first, (this.hoveredPoint?.index ?? last + 1) + across));
    this.chart!.moveCursor(index, line);
    const { row, text } = this.lines[line];
    const { data, arrays } = this.answer!;
    const column = this.axis.columns[index];
    const value = arrays.value[row * data.labels.length + column];
    const suffix = data.anomalies.some((anomaly) => anomaly.row === row && anomaly.column === column) ? ", an anomaly" : "";
    this.shell.announce(`${text}, ${data.labels[column]}: ${formatMetric(value, data.series[row].scale)}${suffix}`);
  }

  private destroyChart(): void {
    this.hideTooltip();
    this.chart?.close();
    this.chart = null;
  }

  onResize(): void {
    if (!this.answer?.data.series.length) return;
    // The theme may also have changed.
    this.show();
  }

  close(): void {
    this.destroyChart();
  }
}
