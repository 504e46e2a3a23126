// The comparison of two partitions, runs or windows: every metric of both, the most surprising difference first.

import { filterOf } from "./catalogue";
import { button, choice, h, later, named } from "./dom";
import { many, number, percent } from "./format";
import { labelOf } from "./points";
import { SideField } from "./sidefield";
import { isKnown, type Kind, kindOf, type Known, type Side, usual } from "./sides";
import { byColumn, type Cells, lengthOfChange, lengthOfSurprise, shownRows } from "./sorting";
import type { Stage, View } from "./stage";
import { Rows } from "./table";
import "./compare.css";
import "./table.css";

interface Options {
  kind: Kind;
  baseline: Side;
  current: Side;
  filter: string;
  unusual: boolean;
  sort: string;
  down: boolean;
}

interface Told {
  rows: number;
  total: number;
  unusual: number;
  texts: Record<string, (string | null)[]>;
}

const KINDS = [["partitions", "partitions"], ["runs", "runs"], ["windows", "windows of time"]] as const;
const COLUMNS = [
  ["name", "Metric"], ["instance", "Column"], ["segment", "Segment"], ["baseline", "Baseline"],
  ["current", "Current"], ["change", "Change"], ["relative", "Relative"], ["surprise", "Surprise"],
  ["unusual", "Note"],
] as const;
const EXPLAINED: Record<string, string> = {
  relative: "The change as a share of the baseline; bars by the root of it, whole at 100 %",
  surprise: "How unusual such a difference is for this metric, in robust standard deviations",
};

export class Compare implements View {
  readonly element: HTMLElement;
  private readonly baseline = new SideField("Baseline", (side) => this.chose({ baseline: side }));
  private readonly current = new SideField("Current", (side) => this.chose({ current: side }));
  private readonly kind: HTMLLabelElement;
  private readonly filter: HTMLInputElement;
  private readonly unusual = h("input", { type: "checkbox", onchange: () => this.narrowed({ unusual: this.unusual.checked }) });
  private readonly unusualText = h("span", {}, "Only unusual");
  private readonly count = h("span", { class: "tg-muted" });
  private readonly heads = new Map<string, HTMLElement>();
  private readonly rows: Rows;
  private readonly empty = h("p", { class: "tg-empty", hidden: true });
  private known: Known | null = null;
  private knownOf = "";
  private cells: Cells | null = null;
  private told: Told | null = null;
  private cellsOf = "";
  private order: number[] = [];

  constructor(private readonly stage: Stage) {
    this.kind = choice("Compare", KINDS, this.options.kind ?? "partitions", (kind) => this.turn(kind as Kind));
    this.filter = h("input", {
      type: "search",
      placeholder: "Filter: words of metric, column, segment …",
      "aria-label": "Filter metrics",
      oninput: later(80, () => this.narrowed({ filter: this.filter.value })),
    });
    const swap = button("⇄ Swap", () => this.swap(), { title: "Exchange baseline and current" });
    const sides = h("div", { class: "tg-tools" }, this.kind, this.baseline.element, swap, this.current.element);
    const unusual = h("label", { class: "tg-choice" }, this.unusual, this.unusualText);
    const tools = h("div", { class: "tg-tools" }, this.filter, unusual, this.count);
    const head = h("div", { class: "tg-compare-row tg-compare-head", role: "row", "aria-rowindex": "1" });
    for (const [key, text] of COLUMNS) {
      const sort = button(text, () => this.sort(key), { title: EXPLAINED[key] });
      const cell = h("div", { role: "columnheader", "data-column": key }, sort);
      this.heads.set(key, cell);
      head.append(cell);
    }
    this.rows = new Rows({
      roles: ["grid", "row"],
      label: "Metrics of both sides; Enter opens the series",
      height: 28,
      head,
      make: (index) => this.row(this.order[index]),
      open: (index) => this.openSeries(this.order[index]),
    });
    this.element = h("section", { class: "tg-compare" }, sides, tools, this.rows.element, this.empty);
  }

  private get options(): Partial<Options> {
    return this.stage.options<Options>("compare");
  }

  /** Other sides: the shell opens the view again, and shows what is wrong with them. */
  private chose(some: Partial<Options>): void {
    this.stage.go("compare", { ...this.options, ...some });
  }

  private turn(kind: Kind): void {
    const { baseline, current, ...rest } = this.options;
    this.stage.go("compare", { ...rest, kind });
  }

  private swap(): void {
    const { baseline, current } = this.options;
    if (baseline && current) this.chose({ baseline: current, current: baseline });
  }

  private narrowed(some: Partial<Options>): void {
    this.stage.remember("compare", { ...this.options, ...some });
    this.arrange();
  }

  private sort(key: string): void {
    const { sort = "surprise", down = true } = this.options;
    // Numbers begin with the highest, words with the first.
    const first = !["name", "instance", "segment"].includes(key);
    this.narrowed({ sort: key, down: sort === key ? !down : first });
  }

  async open(): Promise<void> {
    const { dataset, catalogue, link } = this.stage;
    const of = JSON.stringify([dataset, catalogue.commits]);
    if (this.knownOf !== of) {
      const { told, arrays } = await link.ask<Known>("sides", { dataset });
      this.known = { ...told, times: arrays.times as Float64Array };
      this.knownOf = of;
    }
    const known = this.known!;
    const sides = this.sides(known);
    const { kind = kindOf(this.options.baseline) ?? "partitions", filter = "", unusual = false } = this.options;
    this.kind.querySelector("select")!.value = kind;
    this.baseline.show(known, kind, sides?.[0] ?? null);
    this.current.show(known, kind, sides?.[1] ?? null);
    if (document.activeElement !== this.filter) this.filter.value = filter;
    this.unusual.checked = unusual;
    if (!sides) {
      this.told = this.cells = null;
      this.cellsOf = "";
      this.arrange();
      this.stage.say("");
      const missing = { partitions: "partitions", runs: "runs that measured some", windows: "partitions with a time" }[kind];
      this.tellEmpty(`There are no two ${missing} to compare yet: measure more, or compare something else.`);
      return;
    }
    const [baseline, current] = sides;
    const asked = JSON.stringify([of, sides]);
    if (this.cellsOf !== asked) {
      this.stage.say("");
      const { told, arrays } = await link.ask<Told>("compare", { dataset, baseline, current });
      this.told = told;
      this.cells = { texts: told.texts, numbers: arrays as Record<string, Float64Array>, rows: told.rows };
      const same = this.cellsOf !== "" && this.cellsOf.includes(JSON.stringify(sides));
      this.cellsOf = asked;
      if (!same) this.rows.element.scrollTop = this.rows.active = 0;
    }
    this.arrange();
    const { unusual: found, total } = this.told!;
    this.stage.say(`${many(found, "unusual difference")} among ${many(total, "metric")}.`);
  }

  /** What is compared: what was chosen if that is there, else what is usual. */
  private sides(known: Known): readonly [Side, Side] | null {
    const { baseline, current } = this.options;
    const kind = this.options.kind ?? kindOf(baseline) ?? "partitions";
    const chosen = [baseline, current].every((side) => kindOf(side) === kind && isKnown(known, side));
    if (chosen) return [baseline!, current!];
    const sides = usual(known, kind);
    if (sides) this.stage.remember("compare", { ...this.options, kind, baseline: sides[0], current: sides[1] });
    return sides;
  }

  /** Choose and order the rows that are shown. */
  private arrange(): void {
    const { cells, told } = this;
    const { filter = "", unusual = false, sort = "surprise", down = true } = this.options;
    for (const [key, head] of this.heads) {
      head.setAttribute("aria-sort", key !== sort ? "none" : down ? "descending" : "ascending");
    }
    this.rows.element.hidden = !cells;
    this.empty.hidden = true;
    if (!cells || !told) {
      this.count.textContent = "";
      this.unusualText.textContent = "Only unusual";
      return;
    }
    this.order = shownRows(cells, filter, unusual);
    // As sent, the most surprising comes first, and what equals comes after that of which too little is known.
    if (sort !== "surprise" || !down) this.order.sort(byColumn(cells, sort, down));
    this.element.classList.toggle("tg-whole", cells.texts.segment.every((segment) => !segment));
    this.rows.show(this.order.length);
    this.unusualText.textContent = `Only unusual (${told.unusual.toLocaleString("en-US")})`;
    const left = told.total - told.rows;
    const some = this.order.length === told.rows ? many(told.rows, "metric") : `${this.order.length.toLocaleString("en-US")} of ${many(told.rows, "metric")}`;
    this.count.textContent = left > 0 ? `${some}; the ${left.toLocaleString("en-US")} least surprising are left out` : some;
    if (!this.order.length) {
      const why = unusual && !told.unusual ? "Nothing is unusual between these two." : "No metric suits the filter.";
      this.tellEmpty(told.rows ? why : "There are no metrics of this dataset yet.");
    }
  }

  private tellEmpty(text: string): void {
    this.rows.element.hidden = true;
    this.empty.textContent = text;
    this.empty.hidden = false;
  }

  private row(row: number): HTMLElement {
    const { texts, numbers } = this.cells!;
    const text = (key: string) => texts[key][row] ?? "";
    const value = (key: string) => numbers[key][row];
    const cell = (key: string, ...children: (Node | string | null)[]) => h("div", { role: "gridcell", "data-column": key }, ...children);
    const status = text("status");
    const side = (key: "baseline" | "current") => {
      const found = cell(key, number(value(key)));
      const count = value(`${key}_partitions`);
      if (count > 1) found.title = `the median of ${count} partitions`;
      return found;
    };
    // Where there is little room, the sides themselves are not shown.
    const relative = cell("relative", diverging(value("relative")), h("span", {}, percent(value("relative"))));
    relative.title = `baseline ${number(value("baseline"))}, current ${number(value("current"))}`;
    const unusual = value("unusual") === 1;
    const instance = text("instance");
    const note = [unusual ? "▲ unusual" : "", status === "both" ? "" : status].filter(Boolean).join(", ");
    const element = h(
      "div",
      { class: "tg-compare-row" },
      cell("name", named(`${text("name")}${filterOf(text("analyzer"))}`, 60)),
      cell("instance", instance === "*" ? h("span", { class: "tg-muted" }, "the table") : named(instance, 40)),
      cell("segment", named(text("segment"), 40)),
      side("baseline"),
      side("current"),
      cell("change", signed(value("change"))),
      relative,
      this.surprise(cell("surprise"), value("surprise"), status),
      cell("unusual", note),
    );
    if (unusual) element.classList.add("tg-unusual");
    return element;
  }

  private surprise(cell: HTMLElement, surprise: number, status: string): HTMLElement {
    if (Number.isNaN(surprise)) {
      const why = status === "both" ? "too little history" : "–";
      cell.append(h("span", { class: "tg-muted" }, why));
      return cell;
    }
    const bar = h("span", { class: "tg-bar-room", "aria-hidden": "true" }, h("span", { class: "tg-bar-fill" }));
    (bar.firstChild as HTMLElement).style.width = `${100 * lengthOfSurprise(surprise)}%`;
    cell.append(bar, h("span", {}, surprise >= 300 ? "300" : surprise.toFixed(1)));
    return cell;
  }

  private openSeries(row: number): void {
    const id = this.cells?.numbers.ids[row];
    if (id === undefined || Number.isNaN(id)) {
      this.stage.say("This series is not there any more.");
      return;
    }
    const { current } = this.options;
    const name = current && "partition" in current ? current.partition : null;
    const time = name === null ? null : this.known!.times[this.known!.partitions.indexOf(name)];
    this.stage.go("series", { ids: [id], focus: labelOf(this.stage.catalogue, time, name) });
  }

  resized(): void {
    this.rows.redraw();
  }

  close(): void {
    this.rows.close();
  }
}

function signed(change: number): string {
  return change > 0 ? `+${number(change)}` : number(change);
}

/** A bar from the middle: to the left for less, to the right for more. */
function diverging(relative: number): HTMLElement {
  const bar = h("span", { class: "tg-diverging", "aria-hidden": "true" });
  const length = lengthOfChange(relative);
  if (length) {
    const fill = h("span", { class: length < 0 ? "tg-less" : "tg-more" });
    fill.style.width = `${50 * Math.abs(length)}%`;
    bar.append(fill);
  }
  return bar;
}
