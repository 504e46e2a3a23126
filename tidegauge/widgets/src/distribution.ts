// A column's distribution in two partitions or windows, how far they are apart, and how it drifted.

import uPlot from "uplot";
import { bars, CURVES, type Curve, DISTANCES, type Distances, drawCurves, drawDrift, looks, type Pair, SIDES, sizeOf, valueAt } from "./curves";
import { button, choice, fill, h, named, shortened } from "./dom";
import { many, number } from "./format";
import { type Answer, KernelError } from "./link";
import { swatch } from "./picker";
import type { Axis } from "./points";
import { FreeSide } from "./sidefield";
import { type Known, moved, segmentOf, segmentsOf, shared, type Side } from "./sides";
import type { Stage, View } from "./stage";
import { ofSegment, pieces, weeksBefore } from "./weeks";
import "./distribution.css";

interface Options {
  dataset: string;
  column: string;
  baseline: Side;
  current: Side;
  /** That both sides are of, among those that partition keys make; null if each has its own. */
  segment: string | null;
  curve: Curve;
  tails: boolean;
  /** Which distance is shown over time; what suits the column if not said. */
  over?: keyof Distances;
}

interface Told {
  kind: string;
  distances: Distances;
  baseline: string;
  current: string;
  baseline_rows: number;
  current_rows: number;
  categories?: string[];
}

interface Drifts {
  texts: { partition: string[]; segment: string[] };
}

/** Distances over time, as far as they are known. */
interface Drift {
  asked: string;
  labels: string[];
  numbers: Record<string, number[]>;
  whole: boolean;
}

const OF_KIND: Record<string, (keyof Distances)[]> = {
  numeric: ["psi", "js", "ks", "wasserstein"],
  categorical: ["psi", "js", "unseen", "lost"],
};
const TALL = 280;
const LOW = 170;

export class Distribution implements View {
  readonly element: HTMLElement;
  private readonly column: HTMLLabelElement;
  private readonly baseline = new FreeSide("Baseline", (baseline) => this.chose({ baseline }));
  private readonly current = new FreeSide("Current", (current) => this.chose({ current }));
  private readonly segment = choice("Segment", [], "", (segment) => this.turnTo(segment));
  private readonly curve = choice("Curve", CURVES.map((name) => [name, name === "quantiles" ? "quantiles" : "cumulative shares"]), "quantiles", (curve) => this.chose({ curve: curve as Curve }));
  private readonly tails = h("input", { type: "checkbox", onchange: () => this.chose({ tails: this.tails.checked }) });
  private readonly tailed = h("label", { class: "tg-choice" }, this.tails, "Lowest and highest 1 %");
  private readonly over = choice("Drift over time by", [], "", (over) => this.chose({ over: over as keyof Distances }));
  private readonly picture = h("div", { class: "tg-curves" });
  private readonly legend = h("div", { class: "tg-both" });
  private readonly distances = h("div", { class: "tg-distances" });
  private readonly drift = h("div", { class: "tg-drift", tabindex: "0", role: "application", "aria-label": "Drift over time. Arrow keys go from partition to partition, Enter chooses one as current." });
  private readonly driftSaid = h("span", { class: "tg-muted" });
  private known: { dataset: string; commits: number; names: string[]; sides: Known } | null = null;
  private told: { asked: string; answer: Answer<Told> | null; wrong: string | null } | null = null;
  private drifts: Drift | null = null;
  private turn = 0;
  private curves: uPlot | null = null;
  private line: uPlot | null = null;
  private at = -1;

  constructor(private readonly stage: Stage) {
    this.column = choice("Column", [], "", (column) => this.chose({ column }));
    const tools = h("div", { class: "tg-tools" }, this.column, this.segment, this.baseline.element, this.current.element, button("Newest", () => this.newest(), { title: "The newest partition against the four weeks before it" }));
    const shape = h("div", { class: "tg-tools tg-shape" }, this.curve, this.tailed, this.legend);
    const both = h("div", { class: "tg-apart" }, this.picture, this.distances);
    this.element = h("section", { class: "tg-distribution" }, tools, shape, both, h("div", { class: "tg-tools" }, this.over, this.driftSaid), this.drift);
    this.drift.addEventListener("keydown", (event) => this.key(event));
  }

  private get options(): Partial<Options> {
    const { dataset, ...rest } = this.stage.options<Options>("distribution");
    return dataset === undefined || dataset === this.stage.dataset ? { dataset: this.stage.dataset, ...rest } : { dataset: this.stage.dataset };
  }

  private chose(some: Partial<Options>): void {
    this.stage.remember("distribution", { ...this.options, ...some });
    void this.open().catch((error) => this.stage.fail(error));
  }

  private newest(): void {
    // The segment stays.
    const { baseline: _, current: __, ...rest } = this.options;
    this.stage.remember("distribution", rest);
    void this.open().catch((error) => this.stage.fail(error));
  }

  async open(): Promise<void> {
    const turn = ++this.turn;
    const { dataset, link, catalogue } = this.stage;
    if (this.known?.dataset !== dataset || this.known.commits !== catalogue.commits) {
      const [columns, sides] = await Promise.all([
        link.ask<{ names: string[] }>("columns", { dataset }),
        link.ask<Omit<Known, "times">>("sides", { dataset }),
      ]);
      if (turn !== this.turn) return;
      const known = { ...sides.told, times: sides.arrays.times as Float64Array };
      this.known = { dataset, commits: catalogue.commits, names: columns.told.names, sides: known };
      this.told = this.drifts = null;
    }
    const { names, sides } = this.known;
    this.element.classList.toggle("tg-nothing", !names.length);
    if (!names.length) {
      this.picture.replaceChildren(h("p", { class: "tg-empty" }, "No distribution is stored of this dataset. Measure an analyzer that keeps one, such as Histogram, ApproxQuantiles or KLLSketch, and its columns are offered here."));
      return;
    }
    const options = this.complete(this.options, names);
    fill(this.column.querySelector("select")!, names.map((name) => [name, name]), options.column);
    this.showSegment(options);
    this.baseline.show(sides, options.baseline, options.segment);
    this.current.show(sides, options.current, options.segment);
    await this.compare(options, turn);
  }

  /** Fill in what was not chosen: the first column, the newest partition, the four weeks before it in its segment. */
  private complete(options: Partial<Options>, names: string[]): Options {
    const { sides } = this.known!;
    const { partitions, within, times } = sides;
    const column = options.column !== undefined && names.includes(options.column) ? options.column : names[0];
    const chosen = options.segment ?? null;
    const newest = Math.max(0, within.indexOf(chosen ?? segmentOf(sides, options.baseline) ?? within[0]));
    const current: Side = options.current ?? { partition: partitions[newest] };
    const place = "partition" in current ? Math.max(0, partitions.indexOf(current.partition)) : newest;
    const previous = within.findIndex((one, n) => n > place && one === within[place]);
    const before: Side = Number.isNaN(times[place]) ? { partition: partitions[previous < 0 ? place : previous] } : weeksBefore(times[place]);
    const curve = CURVES.find((one) => one === options.curve) ?? CURVES[0];
    const baseline = options.baseline ?? before;
    const segment = shared(sides, baseline, current, chosen);
    const whole: Options = { tails: false, ...options, curve, dataset: this.stage.dataset, column, current, baseline, segment };
    if (!options.column || !options.current || !options.baseline || chosen !== segment) this.stage.remember("distribution", whole);
    return whole;
  }

  /** Which segment is looked at, where there are several. */
  private showSegment({ segment }: Options): void {
    const there = segmentsOf(this.known!.sides);
    this.segment.hidden = there.length < 2;
    // No segment has this name: they are made of keys.
    const none = segment === null ? [["/", "each side its own"] as const] : [];
    fill(this.segment.querySelector("select")!, [...none, ...there.map((name) => [name, name || "none"] as const)], segment ?? "/");
  }

  private turnTo(segment: string): void {
    const { sides, names } = this.known!;
    const { baseline, current } = this.complete(this.options, names);
    this.chose({ segment, baseline: moved(sides, baseline, segment), current: moved(sides, current, segment) });
  }

  /** The segment whose drift is shown: the current side's. */
  private drifting({ current, segment }: Options): string | null {
    return segment ?? segmentOf(this.known!.sides, current);
  }

  private async compare(options: Options, turn: number): Promise<void> {
    const { dataset, column, baseline, current, segment } = options;
    const about = { dataset, column, baseline, current, segment };
    const asked = JSON.stringify(about);
    if (this.told?.asked !== asked) {
      try {
        const answer = await this.stage.link.ask<Told>("distribution", about);
        if (turn !== this.turn) return;
        this.told = { asked, answer, wrong: null };
      } catch (error) {
        if (!(error instanceof KernelError)) throw error;
        if (turn !== this.turn) return;
        this.told = { asked, answer: null, wrong: error.message };
      }
    }
    this.show(options);
    // Drift takes the kernel seconds where there are many categories: it comes last.
    void this.follow(options).catch((error) => this.stage.fail(error));
  }

  private async follow(options: Options): Promise<void> {
    const { dataset, column } = options;
    const { link, catalogue } = this.stage;
    const segment = this.drifting(options);
    const asked = JSON.stringify([dataset, column, segment, this.known!.commits]);
    if (this.drifts?.asked === asked) return;
    const found: Drift = { asked, labels: [], numbers: {}, whole: false };
    this.drifts = found;
    this.showDrift(options);
    try {
      // Piece by piece, so that other questions are answered between them.
      for (const window of pieces(catalogue.times)) {
        const { told, arrays } = await link.ask<Drifts>("drifts", { dataset, column, segment, ...window });
        if (this.drifts !== found) return;
        const piece = ofSegment(told.texts, arrays, segment);
        found.labels = [...piece.labels, ...found.labels];
        for (const [name, values] of Object.entries(piece.numbers)) found.numbers[name] = [...values, ...(found.numbers[name] ?? [])];
        this.showDrift({ ...options, ...this.options });
      }
      found.whole = true;
      this.showDrift({ ...options, ...this.options });
    } catch (error) {
      if (this.drifts === found) this.drifts = null;
      throw error;
    }
  }

  // --- drawing

  private show(options: Options): void {
    const { answer, wrong } = this.told!;
    const { theme } = this.stage;
    const numeric = answer?.told.kind === "numeric";
    this.curve.hidden = this.tailed.hidden = !numeric;
    this.curve.querySelector("select")!.value = options.curve;
    this.tails.checked = options.tails;
    this.curves?.destroy();
    this.curves = null;
    if (!answer) {
      this.legend.replaceChildren();
      this.distances.replaceChildren();
      this.picture.replaceChildren(h("p", { class: "tg-empty" }, wrong!));
      this.showDrift(options);
      return;
    }
    const { told, arrays } = answer;
    const rows = [told.baseline_rows, told.current_rows];
    this.legend.replaceChildren(
      ...looks(theme).map((look, n) => h("span", { class: "tg-choice" }, swatch(look), h("b", {}, n ? "Current" : "Baseline"), named(told[SIDES[n]], 60), h("i", { class: "tg-muted" }, many(rows[n], "row")))),
    );
    this.tellDistances(told);
    if (!Math.min(...rows)) this.picture.replaceChildren(h("p", { class: "tg-empty" }, "One side has no values to compare."));
    else if (numeric) this.drawCurves(options, { ranks: arrays.ranks, baseline: arrays.baseline_values, current: arrays.current_values });
    else this.picture.replaceChildren(bars(theme, told.categories ?? [], arrays.baseline_values, arrays.current_values));
    this.showDrift(options);
  }

  private drawCurves({ curve, tails }: Options, pair: Pair): void {
    const width = this.picture.clientWidth;
    if (!width) return;
    const u = drawCurves(this.stage.theme, pair, curve, tails, width, TALL);
    const said = h("div", { class: "tg-tip", hidden: true });
    u.hooks.setCursor = [() => this.tellCurves(u, curve, said)];
    this.curves = u;
    this.picture.replaceChildren(u.root, said);
  }

  private tellCurves(u: uPlot, curve: Curve, said: HTMLElement): void {
    const { left = -1, top = 0 } = u.cursor;
    said.hidden = left < 0;
    if (left < 0) return;
    const at = u.posToVal(left, "x");
    const share = (rank: number) => `${(100 * rank).toFixed(0)} %`;
    const title = curve === "quantiles" ? `${share(at)} of rows are at most` : `at most ${number(at)}`;
    const lines = SIDES.map((side, n) => {
      const value = valueAt(u.data[0], u.data[n + 1], at);
      return h("div", {}, `${side}: `, h("b", {}, value === null ? "–" : curve === "quantiles" ? number(value) : share(value)));
    });
    said.replaceChildren(h("div", {}, title), ...lines);
    const x = left + u.over.offsetLeft;
    said.style.left = `${x + 190 > this.picture.clientWidth ? x - said.offsetWidth - 12 : x + 12}px`;
    said.style.top = `${Math.min(top, TALL - 90)}px`;
  }

  private tellDistances({ kind, distances }: Told): void {
    const rows = DISTANCES.filter(([name]) => OF_KIND[kind].includes(name)).map(([name, title, what]) => {
      const word = sizeOf(name, distances);
      return h(
        "tr",
        {},
        h("th", { scope: "row", title: what }, title),
        h("td", { class: "tg-figure" }, number(distances[name] as number | null)),
        h("td", { class: word.startsWith("large") ? "tg-large" : "" }, word),
      );
    });
    this.distances.replaceChildren(h("table", {}, h("thead", {}, h("tr", {}, ...["Distance", "", "Size"].map((text) => h("th", { scope: "col" }, text)))), h("tbody", {}, ...rows)), h("p", { class: "tg-muted" }, "0 means equal. Moderate and large are PSI's usual 0.1 and 0.25, or what is as much for the others."));
  }

  private showDrift(options: Options): void {
    this.line?.destroy();
    this.line = null;
    const { labels, numbers, whole }: Omit<Drift, "asked"> = this.drifts ?? { labels: [], numbers: {}, whole: false };
    const offered = DISTANCES.filter(([name]) => numbers[name]?.some((value) => !Number.isNaN(value)));
    const isOffered = (wanted: string | undefined) => offered.some(([name]) => name === wanted);
    // PSI takes rare categories together, of which there may be many.
    const usual = isOffered("unseen") ? "js" : (offered[0]?.[0] ?? "psi");
    const over = isOffered(options.over) ? options.over! : usual;
    fill(this.over.querySelector("select")!, offered.length ? offered.map(([name, title]) => [name, title]) : [["psi", "PSI"]], over);
    const segment = this.drifting(options);
    const within = segment && segmentsOf(this.known!.sides).length > 1 ? ` of ${shortened(segment, 60)}` : "";
    this.driftSaid.textContent = `Each partition${within} against the four weeks before it. ${whole ? "Press a point to look at it." : "More is being worked out …"}`;
    if (!offered.length) {
      const few = "There are too few partitions with a time to follow the drift: a partition needs seven before it.";
      this.drift.replaceChildren(h("p", { class: "tg-empty" }, whole ? few : "Working out the drift …"));
      return;
    }
    const values = numbers[over].map((value) => (Number.isFinite(value) ? value : null));
    const x = numbers.time;
    const axis: Axis = { columns: x.map((_, n) => n), x, timed: true };
    this.at = "partition" in options.current ? labels.indexOf(options.current.partition) : -1;
    const width = this.drift.clientWidth;
    if (!width) return;
    const tip = h("div", { class: "tg-tip", hidden: true });
    const pointed = (place: number | null, left: number) => {
      tip.hidden = place === null;
      if (place === null) return;
      tip.replaceChildren(named(labels[place]), h("div", {}, h("b", {}, number(values[place])), h("span", { class: "tg-muted" }, ` of ${many(numbers.rows[place], "row")}`)));
      tip.style.left = `${left > width / 2 ? left - tip.offsetWidth + 30 : left + 70}px`;
      tip.style.top = "8px";
    };
    this.line = drawDrift(this.stage.theme, { axis, values, labels, at: this.at }, width, LOW, pointed, (place) => this.choosePartition(place));
    this.drift.replaceChildren(this.line.root, tip);
  }

  private choosePartition(place: number): void {
    const { labels, numbers } = this.drifts!;
    this.chose({ current: { partition: labels[place] }, baseline: weeksBefore(numbers.time[place]) });
  }

  private key(event: KeyboardEvent): void {
    if (!this.line) return;
    const { labels, numbers } = this.drifts!;
    const count = labels.length;
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -count, End: count }[event.key];
    const { idx } = this.line.cursor;
    if (step) {
      const before = (this.line.cursor.left ?? -1) >= 0 && typeof idx === "number" ? idx : this.at < 0 ? count - 1 : this.at;
      const place = Math.min(count - 1, Math.max(0, before + step));
      this.line.setCursor({ left: this.line.valToPos(numbers.time[place], "x"), top: 20 });
      this.stage.say(`${labels[place]}: ${number(this.line.data[1][place])}`);
    } else if (event.key === "Enter" && typeof idx === "number") this.choosePartition(idx);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  resized(): void {
    if (this.told && this.known) this.show(this.complete(this.options, this.known.names));
  }

  close(): void {
    this.curves?.destroy();
    this.line?.destroy();
  }
}
