// Distribution view: a column in two partitions or windows, distances between them, and drift over time.

import uPlot from "uplot";
import { CURVE_KINDS, type CurveKind, drawCurves, drawDrift, interpolate, type QuantilePair, renderCategoryTable, SIDES, sideStyles } from "../chart/distribution-charts";
import { swatch } from "../chart/line-style";
import { listSegments, sharedSegment, type SideChoices, sideSegment, switchSegment } from "../data/comparison-sides";
import { describeDistance, DISTANCES, formatDistance, distanceThresholds, isShare } from "../data/distances";
import { driftWindows, filterSegment, fourWeeksBefore } from "../data/drift-windows";
import { formatNumber, formatValue, pluralize, truncateMiddle } from "../data/format";
import { type AnswerTo, KernelError } from "../data/kernel";
import type { DistanceValues, DistributionAnswer, Side } from "../data/protocol";
import type { Axis } from "../data/timeseries";
import { Card } from "../ui/card";
import { alignFigures } from "../ui/figures";
import { button, h, renderName, selectField, setOptions } from "../ui/dom";
import type { Shell, View } from "../ui/shell";
import { FlexibleSidePicker } from "../ui/side-picker";
import { emptyState, loadingState, PaneState } from "../ui/state";
import "./distribution.css";

interface Options {
  dataset: string;
  column: string;
  baseline: Side;
  current: Side;
  /** Segment of both sides; null if each side has its own. */
  segment: string | null;
  curve: CurveKind;
  tails: boolean;
  /** Distance shown over time; if absent, chosen by the type of the column. */
  over?: keyof DistanceValues;
}

/** Loaded part of the drift over time. */
interface Drift {
  key: string;
  labels: string[];
  numbers: Record<string, number[]>;
  /** Whether partitions are compared with the same weekday only; null if not known yet. */
  sameWeekday: boolean | null;
  complete: boolean;
}

const DISTANCES_BY_KIND: Record<string, (keyof DistanceValues)[]> = {
  numeric: ["psi", "js", "ks", "wasserstein"],
  categorical: ["psi", "js", "unseen", "lost"],
};
const CURVE_HEIGHT = 280;

/** Distributions of a column and its drift. */
export class Distribution implements View {
  readonly element: HTMLElement;
  private readonly column: HTMLLabelElement;
  private readonly baseline = new FlexibleSidePicker("Baseline", (baseline) => this.updateOptions({ baseline }));
  private readonly current = new FlexibleSidePicker("Current", (current) => this.updateOptions({ current }));
  private readonly segment = selectField("Segment", [], "", (segment) => this.selectSegment(segment));
  private readonly curve = selectField("Curve", CURVE_KINDS.map((name) => [name, name === "cumulative" ? "cumulative shares" : name]), CURVE_KINDS[0], (curve) => this.updateOptions({ curve: curve as CurveKind }));
  private readonly tails = h("input", { type: "checkbox", onchange: () => this.updateOptions({ tails: this.tails.checked }) });
  private readonly tailsLabel = h("label", { class: "tg-choice" }, this.tails, "Lowest and highest 1%");
  private readonly over = selectField("by", [], "", (over) => this.updateOptions({ over: over as keyof DistanceValues }));
  private readonly picture = h("div", { class: "tg-curves" });
  private readonly legend = h("div", { class: "tg-side-legend" });
  private readonly distances = h("div", { class: "tg-distances" });
  private readonly drift = h("div", { class: "tg-drift", tabindex: "0", role: "application", "aria-label": "Drift over time. Arrow keys move between partitions, Enter makes one the current side." });
  private readonly card: Card;
  private readonly state = new PaneState();
  private readonly driftText = h("span", { class: "tg-muted" });
  private choices: { dataset: string; commits: number; names: readonly string[]; sides: SideChoices } | null = null;
  private result: { key: string; answer: AnswerTo<"distribution"> | null; problem: string | null } | null = null;
  private drifts: Drift | null = null;
  private requestNumber = 0;
  private curveChart: uPlot | null = null;
  private driftChart: uPlot | null = null;
  /** Distance of the drift chart. */
  private driftDistance = "psi";
  private currentIndex = -1;

  constructor(private readonly shell: Shell) {
    this.column = selectField("Column", [], "", (column) => this.updateOptions({ column }));
    const tools = h("div", { class: "tg-tools" }, this.column, this.segment, this.baseline.element, this.current.element, button("Newest", () => this.resetSides(), { title: "Compare the newest partition with the four weeks before it" }));
    this.card = new Card("Distribution", shell, [h("div", { class: "tg-shape" }, this.curve, this.tailsLabel, this.legend), h("div", { class: "tg-curves-and-distances" }, this.picture, this.distances)]);
    const driftCard = new Card("Drift over time", shell, [this.drift], { class: "tg-drift-card" });
    driftCard.note.append(this.driftText);
    driftCard.tools.prepend(this.over);
    this.element = h("section", { class: "tg-distribution" }, tools, this.card.element, driftCard.element, this.state.element);
    this.drift.addEventListener("keydown", (event) => this.handleKey(event));
  }

  private get options(): Partial<Options> {
    const { dataset, ...rest } = this.shell.options<Options>("distribution");
    return dataset === undefined || dataset === this.shell.dataset ? { dataset: this.shell.dataset, ...rest } : { dataset: this.shell.dataset };
  }

  private updateOptions(changes: Partial<Options>): void {
    this.shell.saveOptions("distribution", { ...this.options, ...changes });
    void this.open().catch((error) => this.shell.showError(error));
  }

  private resetSides(): void {
    // The segment is kept.
    const { baseline: _, current: __, ...rest } = this.options;
    this.shell.saveOptions("distribution", rest);
    void this.open().catch((error) => this.shell.showError(error));
  }

  async open(): Promise<void> {
    const requestNumber = ++this.requestNumber;
    const { dataset, link, catalogue } = this.shell;
    if (!this.result) this.state.loading();
    if (this.choices?.dataset !== dataset || this.choices.commits !== catalogue.commits) {
      const [columns, sides] = await Promise.all([
        link.ask("columns", { dataset }),
        link.ask("sides", { dataset }),
      ]);
      if (requestNumber !== this.requestNumber) return;
      const choices = { ...sides.data, times: sides.arrays.times };
      this.choices = { dataset, commits: catalogue.commits, names: columns.data.names, sides: choices };
      this.result = this.drifts = null;
    }
    const { names, sides } = this.choices;
    this.element.classList.toggle("tg-without-columns", !names.length);
    if (!names.length) {
      this.state.empty("No distributions are stored for this dataset. Columns appear here once an analyzer that keeps one is measured, such as Histogram, ApproxQuantiles or KLLSketch.");
      return;
    }
    this.state.clear();
    const options = this.complete(this.options, names);
    this.card.setTitle("Distribution of ", renderName(options.column, 60));
    setOptions(this.column.querySelector("select")!, names.map((name) => [name, name]), options.column);
    this.showSegment(options);
    this.baseline.show(sides, options.baseline, options.segment);
    this.current.show(sides, options.current, options.segment);
    await this.compare(options, requestNumber);
  }

  /** Fill missing options: the first column, the newest partition, and the four weeks before it in its segment. */
  private complete(options: Partial<Options>, names: readonly string[]): Options {
    const { sides } = this.choices!;
    const { partitions, segments, times } = sides;
    const column = options.column !== undefined && names.includes(options.column) ? options.column : names[0];
    const chosen = options.segment ?? null;
    const newest = Math.max(0, segments.indexOf(chosen ?? sideSegment(sides, options.baseline) ?? segments[0]));
    const current: Side = options.current ?? { partition: partitions[newest] };
    const index = "partition" in current ? Math.max(0, partitions.indexOf(current.partition)) : newest;
    const previous = segments.findIndex((name, n) => n > index && name === segments[index]);
    const defaultBaseline: Side = Number.isNaN(times[index]) ? { partition: partitions[previous < 0 ? index : previous] } : fourWeeksBefore(times[index]);
    const curve = CURVE_KINDS.find((name) => name === options.curve) ?? CURVE_KINDS[0];
    const baseline = options.baseline ?? defaultBaseline;
    const segment = sharedSegment(sides, baseline, current, chosen);
    const complete: Options = { tails: false, ...options, curve, dataset: this.shell.dataset, column, current, baseline, segment };
    if (!options.column || !options.current || !options.baseline || chosen !== segment) this.shell.saveOptions("distribution", complete);
    return complete;
  }

  /** Update the segment select; hidden for a single segment. */
  private showSegment({ segment }: Options): void {
    const segments = listSegments(this.choices!.sides);
    this.segment.hidden = segments.length < 2;
    // No segment is named "/": names are made of `key=value`.
    const separateSegments = segment === null ? [["/", "separate segments"] as const] : [];
    setOptions(this.segment.querySelector("select")!, [...separateSegments, ...segments.map((name) => [name, name || "none"] as const)], segment ?? "/");
  }

  private selectSegment(segment: string): void {
    const { sides, names } = this.choices!;
    const { baseline, current } = this.complete(this.options, names);
    this.updateOptions({ segment, baseline: switchSegment(sides, baseline, segment), current: switchSegment(sides, current, segment) });
  }

  /** Segment whose drift is shown: the selected segment, or the segment of the current side. */
  private driftSegment({ current, segment }: Options): string | null {
    return segment ?? sideSegment(this.choices!.sides, current);
  }

  private async compare(options: Options, requestNumber: number): Promise<void> {
    const { dataset, column, baseline, current, segment } = options;
    const question = { dataset, column, baseline, current, segment };
    const key = JSON.stringify(question);
    if (this.result?.key !== key) {
      try {
        const answer = await this.shell.link.ask("distribution", question);
        if (requestNumber !== this.requestNumber) return;
        this.result = { key, answer, problem: null };
      } catch (error) {
        if (!(error instanceof KernelError)) throw error;
        if (requestNumber !== this.requestNumber) return;
        this.result = { key, answer: null, problem: error.message };
      }
    }
    this.show(options);
    // Drift comes last: it takes the kernel seconds for columns with many categories.
    void this.loadDrift(options).catch((error) => this.shell.showError(error));
  }

  private async loadDrift(options: Options): Promise<void> {
    const { dataset, column } = options;
    const { link, catalogue } = this.shell;
    const segment = this.driftSegment(options);
    const key = JSON.stringify([dataset, column, segment, this.choices!.commits]);
    if (this.drifts?.key === key) return;
    const drift: Drift = { key, labels: [], numbers: {}, sameWeekday: null, complete: false };
    this.drifts = drift;
    this.showDrift(options);
    try {
      // In pieces, so that other requests are answered in between.
      for (const window of driftWindows(catalogue.times)) {
        const { data, arrays } = await link.ask("drifts", { dataset, column, segment, same_weekday: drift.sameWeekday, ...window });
        if (this.drifts !== drift) return;
        drift.sameWeekday = data.same_weekday; // decided once, by the newest partitions
        const rows = filterSegment(data.strings, arrays, segment);
        drift.labels = [...rows.labels, ...drift.labels];
        for (const [name, values] of Object.entries(rows.numbers)) drift.numbers[name] = [...values, ...(drift.numbers[name] ?? [])];
        this.showDrift({ ...options, ...this.options });
      }
      drift.complete = true;
      this.showDrift({ ...options, ...this.options });
    } catch (error) {
      if (this.drifts === drift) this.drifts = null;
      throw error;
    }
  }

  // --- drawing

  private show(options: Options): void {
    const { answer, problem } = this.result!;
    const { theme } = this.shell;
    const numeric = answer?.data.kind === "numeric";
    this.curve.hidden = this.tailsLabel.hidden = !numeric;
    this.curve.querySelector("select")!.value = options.curve;
    this.tails.checked = options.tails;
    this.curveChart?.destroy();
    this.curveChart = null;
    if (!answer) {
      this.legend.replaceChildren();
      this.distances.replaceChildren();
      this.picture.replaceChildren(emptyState(problem!));
      this.showDrift(options);
      return;
    }
    const { data, arrays } = answer;
    const rows = [data.baseline_rows, data.current_rows];
    this.legend.replaceChildren(
      ...sideStyles(theme).map((style, n) => h("span", { class: "tg-choice" }, swatch(style), h("b", {}, n ? "Current" : "Baseline"), renderName(data[SIDES[n]], 60), h("i", { class: "tg-muted" }, pluralize(rows[n], "row")))),
    );
    this.showDistances(data);
    if (!Math.min(...rows)) this.picture.replaceChildren(emptyState("One side has no values to compare."));
    else if (numeric) this.drawCurves(options, { ranks: arrays.ranks ?? [], baseline: arrays.baseline_values, current: arrays.current_values });
    else this.picture.replaceChildren(renderCategoryTable(theme, data.categories ?? [], arrays.baseline_values, arrays.current_values));
    this.showDrift(options);
  }

  private drawCurves({ column, curve, tails }: Options, pair: QuantilePair): void {
    const width = this.picture.clientWidth;
    if (!width) return;
    const u = drawCurves(this.shell.theme, column, pair, curve, tails, width, CURVE_HEIGHT);
    const tooltip = h("div", { class: "tg-tooltip", hidden: true });
    u.hooks.setCursor = [() => this.showCurveTooltip(u, curve, tooltip)];
    this.curveChart = u;
    this.picture.replaceChildren(u.root, tooltip);
  }

  private showCurveTooltip(u: uPlot, curve: CurveKind, tooltip: HTMLElement): void {
    const { left = -1, top = 0 } = u.cursor;
    tooltip.hidden = left < 0;
    if (left < 0) return;
    const position = u.posToVal(left, "x");
    const share = (rank: number) => formatValue(rank, true);
    const [edges] = u.data;
    const bin = Math.max(0, edges.findLastIndex((edge) => edge <= position));
    const titles = {
      histogram: `${formatNumber(edges[bin])} to ${formatNumber(edges[Math.min(bin + 1, edges.length - 1)])}`,
      density: `density at ${formatNumber(position)}`,
      cumulative: `at most ${formatNumber(position)}`,
      quantiles: `${share(position)} of rows are at most`,
    };
    const title = titles[curve];
    const lines = SIDES.map((side, n) => {
      const value = curve === "histogram" ? (u.data[n + 1][bin] ?? null) : interpolate(u.data[0], u.data[n + 1], position);
      return h("div", {}, `${side}: `, h("b", {}, value === null ? "–" : curve === "quantiles" || curve === "density" ? formatNumber(value) : share(value)));
    });
    tooltip.replaceChildren(h("div", {}, title), ...lines);
    const x = left + u.over.offsetLeft;
    tooltip.style.left = `${x + 190 > this.picture.clientWidth ? x - tooltip.offsetWidth - 12 : x + 12}px`;
    tooltip.style.top = `${Math.min(top, CURVE_HEIGHT - 90)}px`;
  }

  private showDistances({ kind, distances }: DistributionAnswer): void {
    const rows = DISTANCES.filter(([name]) => DISTANCES_BY_KIND[kind].includes(name)).map(([name, title, description]) => {
      const size = describeDistance(name, distances);
      return h(
        "tr",
        {},
        h("th", { scope: "row", title: description }, title),
        h("td", { class: "tg-figure" }, formatDistance(name, distances[name] as number | null)),
        h("td", { class: size.startsWith("large") ? "tg-large" : "" }, size),
      );
    });
    const table = h("table", {}, h("thead", {}, h("tr", {}, ...["Distance", "", "Size"].map((text) => h("th", { scope: "col" }, text)))), h("tbody", {}, ...rows));
    alignFigures(table);
    this.distances.replaceChildren(table, h("p", { class: "tg-muted" }, "0 means equal. Moderate and large start at 0.1 and 0.25 for PSI, and at equivalent values for the others."));
  }

  private showDrift(options: Options): void {
    this.driftChart?.destroy();
    this.driftChart = null;
    const { labels, numbers, sameWeekday, complete }: Omit<Drift, "key"> = this.drifts ?? { labels: [], numbers: {}, sameWeekday: null, complete: false };
    const available = DISTANCES.filter(([name]) => numbers[name]?.some((value) => !Number.isNaN(value)));
    const isAvailable = (distance: string | undefined) => available.some(([name]) => name === distance);
    // Categories default to Jensen-Shannon, because PSI pools rare categories, which may have most of the rows.
    const fallback = isAvailable("unseen") ? "js" : (available[0]?.[0] ?? "psi");
    const over = isAvailable(options.over) ? options.over! : fallback;
    setOptions(this.over.querySelector("select")!, available.length ? available.map(([name, title]) => [name, title]) : [["psi", "PSI"]], over);
    const segment = this.driftSegment(options);
    const scope = segment && listSegments(this.choices!.sides).length > 1 ? ` of ${truncateMiddle(segment, 60)}` : "";
    const baseline = sameWeekday ? "the same weekday in the eight weeks" : "the four weeks";
    this.driftText.textContent = `Each partition${scope} against ${baseline} before it. ${complete ? "Click a point to select its partition." : "Computing more …"}`;
    if (!available.length) {
      const explanation = "Not enough partitions with a time. Drift needs seven earlier partitions.";
      this.drift.replaceChildren(complete ? emptyState(explanation) : loadingState("Computing drift …"));
      return;
    }
    this.driftDistance = over;
    const values = numbers[over].map((value) => (Number.isFinite(value) ? value : null));
    const x = numbers.time;
    const axis: Axis = { columns: x.map((_, n) => n), x, timed: true };
    this.currentIndex = "partition" in options.current ? labels.indexOf(options.current.partition) : -1;
    const { clientWidth: width, clientHeight: height } = this.drift;
    if (!width) return;
    const tooltip = h("div", { class: "tg-tooltip", hidden: true });
    const onHover = (index: number | null, left: number) => {
      tooltip.hidden = index === null;
      if (index === null) return;
      tooltip.replaceChildren(renderName(labels[index]), h("div", {}, h("b", {}, formatDistance(over, values[index])), h("span", { class: "tg-muted" }, ` of ${pluralize(numbers.rows[index], "row")}`)));
      tooltip.style.left = `${left > width / 2 ? left - tooltip.offsetWidth + 30 : left + 70}px`;
      tooltip.style.top = "8px";
    };
    this.driftChart = drawDrift(this.shell.theme, { title: DISTANCES.find(([name]) => name === over)![1], axis, values, percent: isShare(over), labels, thresholds: distanceThresholds(over), currentIndex: this.currentIndex }, width, height - 4, onHover, (index) => this.selectPartition(index));
    this.drift.replaceChildren(this.driftChart.root, tooltip);
  }

  private selectPartition(index: number): void {
    const { labels, numbers } = this.drifts!;
    this.updateOptions({ current: { partition: labels[index] }, baseline: fourWeeksBefore(numbers.time[index]) });
  }

  private handleKey(event: KeyboardEvent): void {
    if (!this.driftChart) return;
    const { labels, numbers } = this.drifts!;
    const count = labels.length;
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -count, End: count }[event.key];
    const { idx } = this.driftChart.cursor;
    if (step) {
      const from = (this.driftChart.cursor.left ?? -1) >= 0 && typeof idx === "number" ? idx : this.currentIndex < 0 ? count - 1 : this.currentIndex;
      const index = Math.min(count - 1, Math.max(0, from + step));
      this.driftChart.setCursor({ left: this.driftChart.valToPos(numbers.time[index], "x"), top: 20 });
      this.shell.announce(`${labels[index]}: ${formatDistance(this.driftDistance, this.driftChart.data[1][index] ?? null)}`);
    } else if (event.key === "Enter" && typeof idx === "number") this.selectPartition(idx);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  onResize(): void {
    if (this.result && this.choices) this.show(this.complete(this.options, this.choices.names));
  }

  close(): void {
    this.curveChart?.destroy();
    this.driftChart?.destroy();
  }
}
