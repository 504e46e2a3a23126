// Consistency view: ranking of features by online/offline differences, with fan charts of the selected features.

import { FanChart, type Timeline } from "../chart/fan-chart";
import { Sparklines } from "../chart/sparklines";
import { filterFeatures, groupIntoCharts, isRate, metricLabel, TOTAL_ERROR } from "../data/features";
import { capitalize, decimalsWidth, formatTime, formatValue, pluralize } from "../data/format";
import { type AnswerTo, KernelError } from "../data/kernel";
import type { ConsistencyQuestion, ConsistencySubject } from "../data/protocol";
import { button, debounce, h, renderName, selectField, setOptions } from "../ui/dom";
import type { Listing, Shell, View } from "../ui/shell";
import { showFigure } from "../ui/figures";
import { emptyState, PaneState } from "../ui/state";
import { VirtualList } from "../ui/virtual-list";
import "./consistency.css";
import "../ui/virtual-list.css";

interface Options {
  /** Ranking metric; `wrong` is mismatch + missing + extra. */
  by: string;
  /** Days before the newest partition, or `all`. */
  range: string;
  /** Brushed window in seconds since 1970; overrides `range`. */
  since: number;
  until: number;
  segment: string;
  filter: string;
  group: string;
  ids: number[];
}

const MAX_SELECTED = 6;
const SPARKLINE = { width: 96, height: 20 };
const CHART = { width: 290, height: 150, gap: 8, padding: 12 };
const RATE_CELLS = ["mismatch", "missing", "extra"] as const;
const RANGE_CHOICES = [["7", "the last 7 days"], ["30", "the last 30 days"], ["90", "the last 90 days"], ["all", "all"]] as const;
const HELP_TEXT = "Drag over a chart to rank that window, double click to reset. Arrow keys move the cursor.";

/** Ranking and charts of features. */
export class Consistency implements View {
  readonly element: HTMLElement;
  private readonly metricSelect: HTMLLabelElement;
  private readonly range: HTMLLabelElement;
  private readonly group: HTMLLabelElement;
  private readonly segment: HTMLLabelElement;
  private readonly filter: HTMLInputElement;
  private readonly count = h("span", { class: "tg-muted" });
  private readonly cursorText = h("span", { class: "tg-muted tg-features-cursor" });
  private readonly worstHeading = h("div", { role: "columnheader" });
  private readonly rows: VirtualList;
  private readonly state = new PaneState();
  private readonly tools: HTMLElement;
  private readonly content: HTMLElement;
  private readonly pane = h("div", { class: "tg-features-pane", tabindex: "0", role: "application", "aria-label": `Charts of the selected features. ${HELP_TEXT}` });
  private ranking: AnswerTo<"consistency"> | null = null;
  private rankingKey = "";
  private order: number[] = [];
  private answer: AnswerTo<"consistency_features"> | null = null;
  private answerKey = "";
  private requestNumber = 0;
  private sparklines: Sparklines | null = null;
  private queued = new Set<number>();
  private charts: FanChart[] = [];
  /** Width of the decimals of each column, in characters. */
  private decimals: Record<string, number> = {};
  private cursorIndex: number | null = null;

  constructor(private readonly shell: Shell) {
    this.metricSelect = selectField("Rank by", [], TOTAL_ERROR, (metric) => this.updateOptions({ by: metric }));
    this.range = selectField("over", RANGE_CHOICES, "90", (range) => this.updateOptions({ range, since: undefined, until: undefined }));
    this.group = selectField("Group-by", [["", "all"]], "", (group) => this.updateFilter({ group }));
    this.segment = selectField("Segment", [], "", (segment) => this.updateOptions({ segment, ids: undefined }));
    this.filter = h("input", {
      type: "search",
      placeholder: "Filter by group-by and feature …",
      "aria-label": "Filter features",
      oninput: debounce(80, () => this.updateFilter({ filter: this.filter.value })),
    });
    const header = h(
      "div",
      { class: "tg-feature-row tg-feature-head", role: "row", "aria-rowindex": "1" },
      h("div", { role: "columnheader" }, "Feature"),
      this.worstHeading,
      ...RATE_CELLS.map((cell) => h("div", { role: "columnheader", title: "Share of all matched rows in the range" }, capitalize(cell))),
      h("div", { role: "columnheader", class: "tg-feature-line" }, "Over time"),
      h("div", { role: "columnheader" }, ""),
    );
    this.rows = new VirtualList({
      roles: ["grid", "row"],
      label: "Features, worst first; arrow keys select, plus adds to the charts",
      rowHeight: 40,
      header,
      renderRow: (index) => this.row(this.order[index]),
      onOpen: (index) => this.select([this.idOf(index)]),
      onMove: (index) => this.selectSoon(this.idOf(index)),
    });
    this.rows.element.addEventListener("keydown", (event) => {
      if (event.key === "+" && this.order.length) this.toggle(this.idOf(this.rows.active));
    });
    this.pane.addEventListener("keydown", (event) => this.handleKey(event));
    this.pane.addEventListener("pointerleave", () => this.moveCursor(null));
    this.tools = h("div", { class: "tg-tools" }, this.metricSelect, this.range, this.segment, this.group, this.filter, this.count);
    this.content = h("div", { class: "tg-features" }, h("div", { class: "tg-features-list" }, this.rows.element), this.pane);
    const foot = h("div", { class: "tg-foot" }, this.cursorText, h("span", { class: "tg-muted tg-help" }, HELP_TEXT));
    this.element = h("section", { class: "tg-consistency" }, this.tools, this.content, this.state.element, foot);
  }

  private get options(): Partial<Options> {
    return this.shell.options<Options>("consistency");
  }

  /** Parameters of every request. */
  private get query(): ConsistencyQuestion {
    const { by: metric, range, since, until, segment } = this.options;
    return { dataset: this.shell.dataset, metric, range, since, until, segment };
  }

  private saveOptions(changes: Partial<Options>): void {
    this.shell.saveOptions("consistency", { ...this.options, ...changes });
  }

  private updateOptions(changes: Partial<Options>): void {
    this.saveOptions(changes);
    void this.open().catch((error) => this.shell.showError(error));
  }

  private updateFilter(changes: Partial<Options>): void {
    this.saveOptions(changes);
    this.arrangeRows();
  }

  async open(): Promise<void> {
    const requestNumber = ++this.requestNumber;
    const { dataset, catalogue, link } = this.shell;
    const key = JSON.stringify([this.query, catalogue.commits]);
    if (this.rankingKey !== key) {
      if (!this.ranking) this.state.loading();
      const ranking = await this.withKnownMetric(() => link.ask("consistency", this.query));
      if (requestNumber !== this.requestNumber) return;
      const datasetChanged = this.ranking === null || !this.rankingKey.includes(JSON.stringify(dataset));
      this.ranking = ranking;
      this.rankingKey = JSON.stringify([this.query, catalogue.commits]);
      const query = this.query;
      const columns = ranking.arrays.times.length;
      this.sparklines = new Sparklines(async (rows) => {
        const { ids } = ranking.arrays;
        const { arrays } = await link.ask("consistency_sparklines", { ...query, ids: rows.map((row) => ids[row]) });
        return arrays.values;
      }, columns, () => this.rows.redraw());
      if (datasetChanged) this.rows.element.scrollTop = 0;
      this.fillSelects();
    }
    this.arrangeRows();
    if (!this.ranking!.data.features.length) return this.showEmpty();
    performance.mark("tidegauge:consistency:ranked");
    const { ids } = this.ranking!.arrays;
    const valid = (this.options.ids ?? []).filter((id) => ids.includes(id as never));
    const selected = valid.length ? valid : this.order.length ? [ids[this.order[0]]] : [];
    await this.show(selected);
    const affected = this.ranking!.arrays.worst.filter((worst) => worst > 0).length;
    this.shell.announce(`${pluralize(this.ranking!.data.features.length, "feature")}, ${affected.toLocaleString("en-US")} with ${metricLabel(this.ranking!.data.metric)} above 0.`);
  }

  /** Request a ranking; fall back to the default metric if the dataset lacks the saved one. */
  private async withKnownMetric<T>(request: () => Promise<T>): Promise<T> {
    try {
      return await request();
    } catch (error) {
      if (!(error instanceof KernelError) || error.kind !== "UnknownNameError" || this.options.by === undefined) throw error;
      this.saveOptions({ by: undefined });
      return request();
    }
  }

  listing(): Listing {
    return this.ranking ? { rows: this.order.map((_, index) => this.idOf(index)) } : {};
  }

  /** Fill the selects with the metrics, group-bys and segments of the dataset. */
  private fillSelects(): void {
    const { data } = this.ranking!;
    const select = (label: HTMLLabelElement) => label.querySelector("select")!;
    setOptions(select(this.metricSelect), data.metric_choices.map((name) => [name, metricLabel(name)] as const), data.metric);
    const brushed = data.range === "" ? ([["", "a window"]] as const) : [];
    setOptions(select(this.range), [...brushed, ...RANGE_CHOICES], data.range);
    const group = this.options.group ?? "";
    setOptions(select(this.group), [["", "all"], ...data.groups.map((name) => [name, name || "none"] as const)], data.groups.includes(group) ? group : "");
    this.segment.hidden = data.segments.length < 2;
    setOptions(select(this.segment), data.segments.map((name) => [name, name || "all rows"] as const), data.segment);
    this.worstHeading.textContent = data.metric === TOTAL_ERROR ? "Worst" : `Worst ${metricLabel(data.metric)}`;
    this.worstHeading.title = `The worst ${metricLabel(data.metric)} of one partition in the range`;
  }

  /** Filter the ranking. */
  private arrangeRows(): void {
    const { data, arrays } = this.ranking!;
    const { filter = "", group = "", ids = [] } = this.options;
    if (document.activeElement !== this.filter) this.filter.value = filter;
    const validGroup = data.groups.includes(group) ? group : "";
    this.decimals = { worst: decimalsWidth(Array.from(arrays.worst, (value) => formatValue(value, isRate(data.metric)))) };
    for (const key of RATE_CELLS) this.decimals[key] = decimalsWidth(Array.from(arrays[key], (value) => formatValue(value, true)));
    this.order = filterFeatures(data.features, data.groups, arrays.group, filter, validGroup);
    const featureCount = data.features.length;
    this.count.textContent = this.order.length === featureCount ? pluralize(featureCount, "feature") : `${this.order.length.toLocaleString("en-US")} of ${pluralize(featureCount, "feature")}`;
    this.tools.hidden = featureCount === 0;
    this.state.clear();
    this.content.hidden = !this.order.length;
    if (!this.order.length && featureCount) this.state.empty("No feature matches the filter.");
    const index = this.order.findIndex((row) => arrays.ids[row] === ids[0]);
    this.rows.setCount(this.order.length, Math.max(0, index));
  }

  private showEmpty(): void {
    const { other_datasets: otherDatasets } = this.ranking!.data;
    const links = otherDatasets.slice(0, 12).map((name) => h("li", {}, button(name, () => this.shell.go("consistency", undefined, name))));
    const instructions = h("p", {}, "To create them, compare online with offline features: ", h("code", {}, "tidegauge consistency run CONF.yml"));
    this.state.empty(
      "This dataset has no consistency metrics.",
      otherDatasets.length ? h("p", {}, "Datasets with consistency metrics:") : instructions,
      ...(links.length ? [h("ul", {}, ...links)] : []),
    );
    this.destroyCharts();
    this.answer = null;
    this.answerKey = "";
    this.shell.announce("No consistency metrics in this dataset.");
  }

  private idOf(index: number): number {
    return this.ranking!.arrays.ids[this.order[index]];
  }

  private row(row: number): HTMLElement {
    const { data, arrays } = this.ranking!;
    const id = arrays.ids[row];
    const group = data.groups[arrays.group[row]];
    const selected = (this.options.ids ?? []).includes(id);
    const worst = arrays.worst[row];
    const cell = (key: string, text: string, title?: string) => {
      const element = h("div", { role: "gridcell", class: "tg-feature-number", title });
      showFigure(element, text, this.decimals[key]);
      return element;
    };
    const holder = h("div", { role: "gridcell", class: "tg-feature-line" });
    const ratio = window.devicePixelRatio || 1;
    const canvas = this.sparklines!.canvas(row, SPARKLINE.width * ratio, SPARKLINE.height * ratio, this.shell.theme.accent);
    if (canvas) {
      canvas.style.width = `${SPARKLINE.width}px`;
      canvas.style.height = `${SPARKLINE.height}px`;
      holder.append(canvas);
    } else this.queueSparkline(row);
    const name = h("div", { role: "gridcell", class: "tg-feature-name" }, group ? h("div", { class: "tg-muted" }, renderName(group, 60)) : null, h("div", {}, renderName(data.features[row], 60)));
    name.title = `${group}.${data.features[row]}`;
    const add = button(selected ? "✓" : "+", () => this.toggle(id), { class: "tg-feature-add", tabindex: "-1", "aria-pressed": String(selected), title: selected ? "Remove from the charts" : "Add to the charts", "aria-label": `Charts of ${data.features[row]}` });
    add.addEventListener("click", (event) => event.stopPropagation());
    const worstLabel = arrays.column[row] >= 0 ? this.columnName(arrays.column[row]) : undefined;
    const element = h(
      "div",
      { class: "tg-feature-row" },
      name,
      cell("worst", formatValue(worst, isRate(data.metric)), worstLabel),
      ...RATE_CELLS.map((key) => cell(key, formatValue(arrays[key][row], true))),
      holder,
      h("div", { role: "gridcell" }, add),
    );
    element.classList.toggle("tg-selected", selected);
    element.classList.toggle("tg-unchanged", worst === 0);
    return element;
  }

  /** Queue the sparkline of a visible row; queued rows are requested together. */
  private queueSparkline(row: number): void {
    this.queued.add(row);
    this.flushSparklines();
  }

  private readonly flushSparklines = debounce(20, () => {
    const rows = [...this.queued];
    this.queued.clear();
    void this.sparklines?.request(rows).catch((error) => this.shell.showError(error));
  });

  private columnName(column: number): string {
    const { data, arrays } = this.ranking!;
    return data.labels.length ? data.labels[column] : formatTime(arrays.times[column]);
  }

  // --- the charts

  private readonly selectSoon = debounce(120, (id: number) => this.select([id]));

  private toggle(id: number): void {
    const ids = this.options.ids ?? [];
    if (ids.includes(id)) this.select(ids.filter((selectedId) => selectedId !== id));
    else if (ids.length >= MAX_SELECTED) this.shell.announce(`Up to ${MAX_SELECTED} features at a time; remove one first.`);
    else this.select([...ids, id]);
  }

  private select(ids: number[]): void {
    void this.show(ids).catch((error) => this.shell.showError(error));
  }

  private async show(ids: number[]): Promise<void> {
    if (JSON.stringify(ids) !== JSON.stringify(this.options.ids)) this.saveOptions({ ids });
    const requestNumber = ++this.requestNumber;
    const key = JSON.stringify([this.rankingKey, ids]);
    if (this.answerKey !== key) {
      const answer = ids.length ? await this.shell.link.ask("consistency_features", { ...this.query, ids }) : null;
      if (requestNumber !== this.requestNumber) return;
      [this.answer, this.answerKey] = [answer, key];
    }
    this.rows.redraw();
    this.draw();
    performance.mark("tidegauge:consistency:drawn");
  }

  private draw(): void {
    const width = this.pane.clientWidth;
    this.destroyCharts();
    const { answer } = this;
    if (!width) return;
    if (!answer?.data.subjects.length) {
      this.pane.replaceChildren(emptyState("Choose a feature to see its charts."));
      return;
    }
    const { subjects, labels } = answer.data;
    const times = Array.from(answer.arrays.times);
    const timed = times.every((time) => !Number.isNaN(time));
    const axis = { columns: times.map((_, n) => n), x: timed ? times : times.map((_, n) => n), timed };
    const timeline: Timeline = { axis, labels, name: (index) => (timed ? formatTime(times[index]) : labels[index]) };
    const space = width - 2 * CHART.padding;
    const chartsAcross = Math.max(1, Math.floor((space + CHART.gap) / (CHART.width + CHART.gap)));
    const chartWidth = Math.floor((space + CHART.gap) / chartsAcross) - CHART.gap;
    const single = subjects.filter(({ feature }) => feature !== null).length < 2;
    this.pane.replaceChildren(
      ...subjects.map((subject) => {
        const figures = groupIntoCharts(Object.keys(subject.row_by_metric)).map((figure) => {
          const lines = figure.metrics.map((metric) => this.line(subject.row_by_metric[metric], times.length));
          const chart = new FanChart(this.shell.theme, figure, lines, timeline, chartWidth, CHART.height, this.listener);
          this.charts.push(chart);
          return chart.element;
        });
        const title =
          subject.feature === null
            ? h("h3", {}, "Rows of ", renderName(subject.group_by, 60))
            : h("h3", {}, subject.group_by ? h("span", { class: "tg-muted" }, renderName(subject.group_by, 60), " ") : null, renderName(subject.feature, 80));
        const tools = subject.feature === null ? [] : [button("Open as series", () => this.openSeries(subject)), ...(single ? [] : [button("Remove", () => this.toggle(subject.id))])];
        return h("section", { class: "tg-feature", "aria-label": `${subject.group_by} ${subject.feature ?? "rows"}` }, h("div", { class: "tg-feature-title" }, title, ...tools), h("div", { class: "tg-fans" }, ...figures));
      }),
    );
    this.timeline = timeline;
    this.updateCursorText();
  }

  private timeline: Timeline | null = null;

  private line(row: number, columns: number): (number | null)[] {
    const { values } = this.answer!.arrays;
    return Array.from(values.subarray(row * columns, (row + 1) * columns), (value) => (Number.isFinite(value) ? value : null));
  }

  /** Open the rates of a feature in the series view, with anomalies and labels. */
  private openSeries({ group_by, feature }: ConsistencySubject): void {
    const { catalogue, dataset } = this.shell;
    const instance = group_by ? `${group_by}.${feature}` : feature;
    const names = new Set([...RATE_CELLS, "both_null"].map((cell) => `Consistency.${cell}`));
    const segment = this.ranking!.data.segment;
    const ids: number[] = [];
    for (let row = 0; row < catalogue.rows; row++) {
      if (catalogue.keyValue("dataset", row) === dataset && catalogue.keyValue("instance", row) === instance && catalogue.keyValue("segment", row) === segment && names.has(catalogue.keyValue("name", row))) ids.push(catalogue.ids[row]);
    }
    if (ids.length) this.shell.go("series", { ids, mode: "together" });
    else this.shell.announce("Its series no longer exists.");
  }

  // --- cursor

  private readonly listener = {
    onHover: (index: number | null) => this.moveCursor(index),
    onBrush: (since: number, until: number) => {
      const { axis } = this.timeline!;
      if (!axis.timed) return;
      const brushed = axis.x.filter((x) => x >= since && x <= until);
      if (brushed.length > 1) this.updateOptions({ since: brushed[0], until: brushed[brushed.length - 1] });
    },
    onReset: () => this.updateOptions({ since: undefined, until: undefined }),
  };

  /** Move the cursor of all charts. */
  private moveCursor(index: number | null): void {
    if (index === this.cursorIndex) return;
    this.cursorIndex = index;
    for (const chart of this.charts) chart.moveCursor(index);
    this.updateCursorText();
  }

  private updateCursorText(): void {
    const { timeline, cursorIndex: index } = this;
    const ends = timeline?.axis.x.length ? `${timeline.name(0)} to ${timeline.name(timeline.axis.x.length - 1)}, ${pluralize(timeline.axis.x.length, "partition")}` : "";
    this.cursorText.textContent = timeline && index !== null ? timeline.name(index) : ends;
  }

  private handleKey(event: KeyboardEvent): void {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const count = this.timeline?.axis.x.length ?? 0;
    if (event.key === "Escape") this.moveCursor(null);
    if (!step || !count || event.target !== this.pane) return;
    event.preventDefault();
    const from = this.cursorIndex ?? (step > 0 ? -1 : count);
    this.moveCursor(Math.max(0, Math.min(count - 1, from + step)));
    this.shell.announce(`${this.timeline!.name(this.cursorIndex!)}: ${this.charts[0]?.description(this.cursorIndex) ?? ""}`);
  }

  private destroyCharts(): void {
    this.charts.forEach((chart) => chart.close());
    this.charts = [];
    this.cursorIndex = null;
  }

  onResize(): void {
    this.sparklines?.clearCanvases();
    if (!this.ranking) return;
    this.rows.redraw();
    this.draw();
  }

  close(): void {
    this.rows.close();
    this.destroyCharts();
  }
}
