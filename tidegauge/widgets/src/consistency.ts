// Consistency of features: at the left all of them, the worst first; at the right charts of those that were chosen.

import { FanChart, type Moments } from "./fan";
import { figuresOf, isRate, listed, WRONG, wordsOf } from "./features";
import { button, choice, fill, h, later, named } from "./dom";
import { many, moment, number, rate } from "./format";
import { type Answer, KernelError } from "./link";
import { Sparklines } from "./sparklines";
import type { Stage, View } from "./stage";
import { Rows } from "./table";
import "./consistency.css";
import "./table.css";

interface Options {
  /** What features are ranked by: `wrong`, or a metric. */
  by: string;
  /** Days before the newest partition, or `all`. */
  range: string;
  /** A window that was drawn, in seconds; it comes before the range. */
  since: number;
  until: number;
  segment: string;
  filter: string;
  group: string;
  ids: number[];
}

interface Ranking {
  features: string[];
  groups: string[];
  segments: string[];
  segment: string;
  by: string;
  choices: string[];
  range: string;
  labels: string[];
  /** Other datasets that have such metrics, if this one has none. */
  elsewhere: string[];
}

interface Subject {
  id: number;
  group_by: string;
  /** Null for the rows of the group-by. */
  feature: string | null;
  lines: Record<string, number>;
}

interface Told {
  subjects: Subject[];
  labels: string[];
}

const MOST = 6;
const LINE = { wide: 96, tall: 20 };
const CHART = { wide: 300, tall: 150, gap: 8 };
const CELLS = ["mismatch", "missing", "extra"] as const;
const RANGES = [["7", "the last 7 days"], ["30", "the last 30 days"], ["90", "the last 90 days"], ["all", "all"]] as const;
const HELP = "Drag over a chart to rank and see that window, double click for all. Arrow keys go from moment to moment.";

export class Consistency implements View {
  readonly element: HTMLElement;
  private readonly by: HTMLLabelElement;
  private readonly range: HTMLLabelElement;
  private readonly group: HTMLLabelElement;
  private readonly segment: HTMLLabelElement;
  private readonly filter: HTMLInputElement;
  private readonly count = h("span", { class: "tg-muted" });
  private readonly where = h("span", { class: "tg-muted tg-features-where" });
  private readonly worst = h("div", { role: "columnheader" });
  private readonly rows: Rows;
  private readonly none = h("div", { class: "tg-empty", hidden: true });
  private readonly tools: HTMLElement;
  private readonly room: HTMLElement;
  private readonly pane = h("div", { class: "tg-features-pane", tabindex: "0", role: "application", "aria-label": `Charts of the chosen features. ${HELP}` });
  private ranking: Answer<Ranking> | null = null;
  private rankedOf = "";
  private order: number[] = [];
  private answer: Answer<Told> | null = null;
  private answerOf = "";
  private turn = 0;
  private lines: Sparklines | null = null;
  private wanted = new Set<number>();
  private charts: FanChart[] = [];
  private place: number | null = null;

  constructor(private readonly stage: Stage) {
    this.by = choice("Rank by", [], WRONG, (by) => this.chose({ by }));
    this.range = choice("over", RANGES, "90", (range) => this.chose({ range, since: undefined, until: undefined }));
    this.group = choice("Group-by", [["", "all"]], "", (group) => this.narrowed({ group }));
    this.segment = choice("Segment", [], "", (segment) => this.chose({ segment, ids: undefined }));
    this.filter = h("input", {
      type: "search",
      placeholder: "Filter: words of group-by and feature …",
      "aria-label": "Filter features",
      oninput: later(80, () => this.narrowed({ filter: this.filter.value })),
    });
    const head = h(
      "div",
      { class: "tg-feature-row tg-feature-head", role: "row", "aria-rowindex": "1" },
      h("div", { role: "columnheader" }, "Feature"),
      this.worst,
      ...CELLS.map((cell) => h("div", { role: "columnheader", title: "Share of all matched rows that are shown" }, cell)),
      h("div", { role: "columnheader", class: "tg-feature-line" }, "over time"),
      h("div", { role: "columnheader" }, ""),
    );
    this.rows = new Rows({
      roles: ["grid", "row"],
      label: "Features, the worst first; arrow keys choose, plus adds to the charts",
      height: 40,
      head,
      make: (index) => this.row(this.order[index]),
      open: (index) => this.look([this.idOf(index)]),
      moved: (index) => this.soon(this.idOf(index)),
    });
    this.rows.element.addEventListener("keydown", (event) => {
      if (event.key === "+" && this.order.length) this.toggle(this.idOf(this.rows.active));
    });
    this.pane.addEventListener("keydown", (event) => this.key(event));
    this.pane.addEventListener("pointerleave", () => this.point(null));
    this.tools = h("div", { class: "tg-tools" }, this.by, this.range, this.segment, this.group, this.filter, this.count);
    this.room = h("div", { class: "tg-features" }, h("div", { class: "tg-features-list" }, this.rows.element), this.pane);
    const foot = h("div", { class: "tg-foot" }, this.where, h("span", { class: "tg-muted tg-help" }, HELP));
    this.element = h("section", { class: "tg-consistency" }, this.tools, this.room, this.none, foot);
  }

  private get options(): Partial<Options> {
    return this.stage.options<Options>("consistency");
  }

  /** What the kernel is asked about, whatever of it. */
  private get asked(): object {
    const { by, range, since, until, segment } = this.options;
    return { dataset: this.stage.dataset, by, range, since, until, segment };
  }

  private remember(some: Partial<Options>): void {
    this.stage.remember("consistency", { ...this.options, ...some });
  }

  private chose(some: Partial<Options>): void {
    this.remember(some);
    void this.open().catch((error) => this.stage.fail(error));
  }

  private narrowed(some: Partial<Options>): void {
    this.remember(some);
    this.arrange();
  }

  async open(): Promise<void> {
    const { dataset, catalogue, link } = this.stage;
    const of = JSON.stringify([this.asked, catalogue.commits]);
    if (this.rankedOf !== of) {
      const turn = ++this.turn;
      const ranking = await this.known(() => link.ask<Ranking>("consistency", this.asked));
      if (turn !== this.turn) return;
      const other = this.ranking === null || !this.rankedOf.includes(JSON.stringify(dataset));
      this.ranking = ranking;
      this.rankedOf = JSON.stringify([this.asked, catalogue.commits]);
      const asked = this.asked;
      const columns = ranking.arrays.times.length;
      this.lines = new Sparklines(async (rows) => {
        const { ids } = ranking.arrays;
        const { arrays } = await link.ask("consistency_lines", { ...asked, ids: rows.map((row) => ids[row]) });
        return arrays.values as Float32Array;
      }, columns, () => this.rows.redraw());
      if (other) this.rows.element.scrollTop = 0;
      this.offer();
    }
    this.arrange();
    if (!this.ranking!.told.features.length) return this.nothing();
    performance.mark("tidegauge:consistency:ranked");
    const { ids } = this.ranking!.arrays;
    const there = (this.options.ids ?? []).filter((id) => ids.includes(id as never));
    const chosen = there.length ? there : this.order.length ? [ids[this.order[0]]] : [];
    await this.show(chosen);
    const bad = this.ranking!.arrays.worst.filter((one) => one > 0).length;
    this.stage.say(`${many(this.ranking!.told.features.length, "feature")}, ${bad.toLocaleString("en-US")} with ${wordsOf(this.ranking!.told.by)} above 0.`);
  }

  /** Ask; what was remembered of another dataset is forgotten if this one does not have it. */
  private async known<T>(ask: () => Promise<T>): Promise<T> {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof KernelError) || error.kind !== "UnknownNameError" || this.options.by === undefined) throw error;
      this.remember({ by: undefined });
      return ask();
    }
  }

  /** Offer what there is to choose from. */
  private offer(): void {
    const { told } = this.ranking!;
    const select = (label: HTMLLabelElement) => label.querySelector("select")!;
    fill(select(this.by), (told.choices).map((name) => [name, wordsOf(name)] as const), told.by);
    const drawn = told.range === "" ? ([["", "a window"]] as const) : [];
    fill(select(this.range), [...drawn, ...RANGES], told.range);
    const group = this.options.group ?? "";
    fill(select(this.group), [["", "all"], ...(told.groups).map((name) => [name, name || "none"] as const)], told.groups.includes(group) ? group : "");
    this.segment.hidden = told.segments.length < 2;
    fill(select(this.segment), told.segments.map((name) => [name, name || "all rows"] as const), told.segment);
    this.worst.textContent = told.by === WRONG ? "worst" : `worst ${wordsOf(told.by)}`;
    this.worst.title = `The worst ${wordsOf(told.by)} of one partition, over what is shown`;
  }

  /** Choose what is listed. */
  private arrange(): void {
    const { told, arrays } = this.ranking!;
    const { filter = "", group = "", ids = [] } = this.options;
    if (document.activeElement !== this.filter) this.filter.value = filter;
    const within = told.groups.includes(group) ? group : "";
    this.order = listed(told.features, told.groups, arrays.group, filter, within);
    const all = told.features.length;
    this.count.textContent = this.order.length === all ? many(all, "feature") : `${this.order.length.toLocaleString("en-US")} of ${many(all, "feature")}`;
    this.tools.hidden = all === 0;
    this.none.hidden = this.order.length > 0;
    this.room.hidden = !this.order.length;
    if (!this.order.length && all) this.none.replaceChildren(h("p", {}, "No feature suits the filter."));
    const at = this.order.findIndex((row) => arrays.ids[row] === ids[0]);
    this.rows.show(this.order.length, Math.max(0, at));
  }

  private nothing(): void {
    const { elsewhere } = this.ranking!.told;
    const offers = elsewhere.slice(0, 12).map((name) => h("li", {}, button(name, () => this.turnTo(name))));
    this.none.replaceChildren(
      h("p", {}, "There are no consistency metrics in this dataset."),
      h("p", {}, elsewhere.length ? "These have some:" : "They show up here once what was served online is compared with what was computed offline."),
      ...(offers.length ? [h("ul", {}, ...offers)] : []),
    );
    this.drop();
    this.answer = null;
    this.answerOf = "";
    this.stage.say("No consistency metrics here.");
  }

  private turnTo(dataset: string): void {
    const select = this.stage.root.querySelector<HTMLSelectElement>(".tg-dataset select")!;
    select.value = dataset;
    select.dispatchEvent(new Event("change"));
  }

  private idOf(index: number): number {
    return this.ranking!.arrays.ids[this.order[index]];
  }

  private row(row: number): HTMLElement {
    const { told, arrays } = this.ranking!;
    const id = arrays.ids[row];
    const group = told.groups[arrays.group[row]];
    const chosen = (this.options.ids ?? []).includes(id);
    const worst = arrays.worst[row];
    const cell = (text: string, title?: string) => h("div", { role: "gridcell", class: "tg-feature-number", title }, text);
    const holder = h("div", { role: "gridcell", class: "tg-feature-line" });
    const ratio = window.devicePixelRatio || 1;
    const canvas = this.lines!.line(row, LINE.wide * ratio, LINE.tall * ratio, this.stage.theme.accent);
    if (canvas) {
      canvas.style.width = `${LINE.wide}px`;
      canvas.style.height = `${LINE.tall}px`;
      holder.append(canvas);
    } else this.want(row);
    const name = h("div", { role: "gridcell", class: "tg-feature-name" }, group ? h("div", { class: "tg-muted" }, named(group, 60)) : null, h("div", {}, named(told.features[row], 60)));
    name.title = `${group}.${told.features[row]}`;
    const add = button(chosen ? "✓" : "+", () => this.toggle(id), { class: "tg-feature-add", tabindex: "-1", "aria-pressed": String(chosen), title: chosen ? "Take out of the charts" : "Add to the charts", "aria-label": `Charts of ${told.features[row]}` });
    add.addEventListener("click", (event) => event.stopPropagation());
    const when = arrays.column[row] >= 0 ? this.nameOf(arrays.column[row]) : undefined;
    const element = h(
      "div",
      { class: "tg-feature-row" },
      name,
      cell(isRate(told.by) ? rate(worst) : number(worst), when),
      ...CELLS.map((key) => cell(rate(arrays[key][row]))),
      holder,
      h("div", { role: "gridcell" }, add),
    );
    element.classList.toggle("tg-chosen", chosen);
    element.classList.toggle("tg-same", worst === 0);
    return element;
  }

  /** Ask for the small lines of rows that came into sight, together. */
  private want(row: number): void {
    this.wanted.add(row);
    this.bring();
  }

  private readonly bring = later(20, () => {
    const rows = [...this.wanted];
    this.wanted.clear();
    void this.lines?.want(rows).catch((error) => this.stage.fail(error));
  });

  private nameOf(column: number): string {
    const { told, arrays } = this.ranking!;
    return told.labels.length ? told.labels[column] : moment(arrays.times[column]);
  }

  // --- the charts

  private readonly soon = later(120, (id: number) => this.look([id]));

  private toggle(id: number): void {
    const ids = this.options.ids ?? [];
    if (ids.includes(id)) this.look(ids.filter((one) => one !== id));
    else if (ids.length >= MOST) this.stage.say(`Up to ${MOST} features are drawn together; take one out first.`);
    else this.look([...ids, id]);
  }

  private look(ids: number[]): void {
    void this.show(ids).catch((error) => this.stage.fail(error));
  }

  private async show(ids: number[]): Promise<void> {
    if (JSON.stringify(ids) !== JSON.stringify(this.options.ids)) this.remember({ ids });
    const of = JSON.stringify([this.rankedOf, ids]);
    if (this.answerOf !== of) {
      const turn = ++this.turn;
      const answer = ids.length ? await this.stage.link.ask<Told>("consistency_features", { ...this.asked, ids }) : null;
      if (turn !== this.turn) return;
      [this.answer, this.answerOf] = [answer, of];
    }
    this.rows.redraw();
    this.draw();
    performance.mark("tidegauge:consistency:drawn");
  }

  private draw(): void {
    const width = this.pane.clientWidth;
    this.drop();
    const { answer } = this;
    if (!width) return;
    if (!answer?.told.subjects.length) {
      this.pane.replaceChildren(h("p", { class: "tg-empty" }, "Choose a feature to see its charts."));
      return;
    }
    const { subjects, labels } = answer.told;
    const times = Array.from(answer.arrays.times);
    const timed = times.every((time) => !Number.isNaN(time));
    const axis = { columns: times.map((_, n) => n), x: timed ? times : times.map((_, n) => n), timed };
    const moments: Moments = { axis, labels, name: (place) => (timed ? moment(times[place]) : labels[place]) };
    const across = Math.max(1, Math.floor((width - 12) / (CHART.wide + CHART.gap)));
    const wide = Math.floor((width - 12) / across) - CHART.gap;
    const alone = subjects.filter(({ feature }) => feature !== null).length < 2;
    this.pane.replaceChildren(
      ...subjects.map((subject) => {
        const figures = figuresOf(Object.keys(subject.lines)).map((figure) => {
          const lines = figure.metrics.map((metric) => this.line(subject.lines[metric], times.length));
          const chart = new FanChart(this.stage.theme, figure, lines, moments, wide, CHART.tall, this.hand);
          this.charts.push(chart);
          return chart.element;
        });
        const title =
          subject.feature === null
            ? h("h3", {}, "Rows of ", named(subject.group_by, 60))
            : h("h3", {}, subject.group_by ? h("span", { class: "tg-muted" }, named(subject.group_by, 60), " ") : null, named(subject.feature, 80));
        const tools = subject.feature === null ? [] : [button("Open as series", () => this.openSeries(subject)), ...(alone ? [] : [button("Take out", () => this.toggle(subject.id))])];
        return h("section", { class: "tg-feature", "aria-label": `${subject.group_by} ${subject.feature ?? "rows"}` }, h("div", { class: "tg-feature-title" }, title, ...tools), h("div", { class: "tg-fans" }, ...figures));
      }),
    );
    this.moments = moments;
    this.tell();
  }

  private moments: Moments | null = null;

  private line(row: number, columns: number): (number | null)[] {
    const { values } = this.answer!.arrays;
    return Array.from(values.subarray(row * columns, (row + 1) * columns), (value) => (Number.isFinite(value) ? value : null));
  }

  /** The rates of a feature with what detectors and people said of them. */
  private openSeries({ group_by, feature }: Subject): void {
    const { catalogue, dataset } = this.stage;
    const instance = group_by ? `${group_by}.${feature}` : feature;
    const names = new Set([...CELLS, "both_null"].map((cell) => `Consistency.${cell}`));
    const segment = this.ranking!.told.segment;
    const ids: number[] = [];
    for (let row = 0; row < catalogue.rows; row++) {
      if (catalogue.text("dataset", row) === dataset && catalogue.text("instance", row) === instance && catalogue.text("segment", row) === segment && names.has(catalogue.text("name", row))) ids.push(catalogue.ids[row]);
    }
    if (ids.length) this.stage.go("series", { ids, mode: "together" });
    else this.stage.say("Its series is not there any more.");
  }

  // --- pointing

  private readonly hand = {
    pointed: (place: number | null) => this.point(place),
    brushed: (since: number, until: number) => {
      const { axis } = this.moments!;
      if (!axis.timed) return;
      const within = axis.x.filter((x) => x >= since && x <= until);
      if (within.length > 1) this.chose({ since: within[0], until: within[within.length - 1] });
    },
    reset: () => this.chose({ since: undefined, until: undefined }),
  };

  /** Let all charts point at one moment. */
  private point(place: number | null): void {
    if (place === this.place) return;
    this.place = place;
    for (const chart of this.charts) chart.point(place);
    this.tell();
  }

  private tell(): void {
    const { moments, place } = this;
    const ends = moments?.axis.x.length ? `${moments.name(0)} to ${moments.name(moments.axis.x.length - 1)}, ${many(moments.axis.x.length, "partition")}` : "";
    this.where.textContent = moments && place !== null ? moments.name(place) : ends;
  }

  private key(event: KeyboardEvent): void {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const count = this.moments?.axis.x.length ?? 0;
    if (event.key === "Escape") this.point(null);
    if (!step || !count || event.target !== this.pane) return;
    event.preventDefault();
    const from = this.place ?? (step > 0 ? -1 : count);
    this.point(Math.max(0, Math.min(count - 1, from + step)));
    this.stage.say(`${this.moments!.name(this.place!)}: ${this.charts[0]?.spoken(this.place) ?? ""}`);
  }

  private drop(): void {
    this.charts.forEach((chart) => chart.close());
    this.charts = [];
    this.place = null;
  }

  resized(): void {
    this.lines?.forgetDrawn();
    if (!this.ranking) return;
    this.rows.redraw();
    this.draw();
  }

  close(): void {
    this.rows.close();
    this.drop();
  }
}
