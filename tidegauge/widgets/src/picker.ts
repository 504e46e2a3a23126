// Which series are looked at: a box to find more by words, and a chip for each.

import type { Catalogue } from "./catalogue";
import { button, h, later, named } from "./dom";

const MOST_FOUND = 20;

export interface Chip {
  colour: string;
  dash: number[];
  title: string;
  /** Not chosen itself, but laid over. */
  over: boolean;
  note: string | null;
}

export class Picker {
  readonly element: HTMLElement;
  readonly chips = h("div", { class: "tg-chips", role: "list", "aria-label": "Chosen series" });
  private readonly input: HTMLInputElement;
  private readonly list = h("ul", { class: "tg-found-list", role: "listbox", id: `tg-${Math.random().toString(36).slice(2)}`, hidden: true });
  private found: number[] = [];
  private at = -1;

  constructor(
    private readonly catalogue: () => Catalogue,
    private readonly chosen: () => readonly number[],
    private readonly add: (id: number) => void,
  ) {
    this.input = h("input", {
      type: "search",
      role: "combobox",
      placeholder: "Add a series: words of dataset, column, metric …",
      "aria-label": "Add a series",
      "aria-autocomplete": "list",
      "aria-expanded": "false",
      "aria-controls": this.list.id,
      autocomplete: "off",
      oninput: later(60, () => this.search()),
      onclick: () => this.search(),
      onblur: () => this.close(),
      onkeydown: (event: KeyboardEvent) => this.key(event),
    });
    this.element = h("div", { class: "tg-picker" }, this.input, this.list);
  }

  focus(): void {
    this.input.focus();
  }

  /** Show the chosen series; `remove` and `over` are told the place of a chip. */
  show(chips: readonly Chip[], remove: (n: number) => void, over: (n: number | null) => void): void {
    const before = [...this.chips.querySelectorAll("button")].indexOf(document.activeElement as HTMLButtonElement);
    this.chips.replaceChildren(
      ...chips.map((chip, n) =>
        h(
          "span",
          { class: chip.over ? "tg-chip tg-over" : "tg-chip", role: "listitem", onpointerenter: () => over(n), onpointerleave: () => over(null) },
          swatch(chip),
          h("b", {}, String(n + 1)),
          named(chip.title, 60),
          chip.note ? h("i", { class: "tg-muted" }, chip.note) : null,
          chip.over ? null : button("×", () => remove(n), { "aria-label": `Remove ${chip.title}`, title: "Remove", onfocus: () => over(n), onblur: () => over(null) }),
        ),
      ),
    );
    if (before < 0) return;
    const buttons = this.chips.querySelectorAll("button");
    (buttons[Math.min(before, buttons.length - 1)] ?? this.input).focus();
  }

  point(line: number | null): void {
    [...this.chips.children].forEach((chip, n) => chip.classList.toggle("tg-pointed", n === line));
  }

  private search(): void {
    if (document.activeElement !== this.input) return;
    const catalogue = this.catalogue();
    const have = new Set(this.chosen());
    this.found = [];
    for (const row of catalogue.matching(this.input.value)) {
      if (!have.has(catalogue.ids[row])) this.found.push(row);
      if (this.found.length === MOST_FOUND) break;
    }
    this.at = this.found.length && this.input.value ? 0 : -1;
    this.list.replaceChildren(
      ...this.found.map((row, n) =>
        h(
          "li",
          { role: "option", id: `${this.list.id}-${n}`, onpointerdown: (event: PointerEvent) => (event.preventDefault(), this.choose(n)) },
          h("span", { class: "tg-muted" }, named(catalogue.text("dataset", row), 40)),
          " ",
          named(catalogue.title(row), 90),
        ),
      ),
      ...(this.found.length ? [] : [h("li", { class: "tg-muted", role: "option", "aria-disabled": "true" }, "No other series has all these words.")]),
    );
    this.list.hidden = false;
    this.input.setAttribute("aria-expanded", "true");
    this.mark();
  }

  private key(event: KeyboardEvent): void {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      if (this.list.hidden) this.search();
      else if (this.found.length) this.at = (Math.max(this.at, step > 0 ? -1 : 0) + step + this.found.length) % this.found.length;
      this.mark();
    } else if (event.key === "Enter" && this.at >= 0 && !this.list.hidden) this.choose(this.at);
    else if (event.key === "Escape" && !this.list.hidden) this.close();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  private mark(): void {
    [...this.list.children].forEach((item, n) => item.setAttribute("aria-selected", String(n === this.at)));
    const item = this.list.children[this.at];
    if (item && this.found.length) this.input.setAttribute("aria-activedescendant", item.id);
    else this.input.removeAttribute("aria-activedescendant");
    item?.scrollIntoView({ block: "nearest" });
  }

  private choose(n: number): void {
    const row = this.found[n];
    this.input.value = "";
    this.close();
    this.add(this.catalogue().ids[row]);
  }

  private close(): void {
    this.list.hidden = true;
    this.at = -1;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
  }
}

/** A piece of the line, as it is drawn. */
export function swatch({ colour, dash }: { colour: string; dash: readonly number[] }): SVGElement {
  const namespace = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(namespace, "svg");
  const line = document.createElementNS(namespace, "line");
  const set = (element: Element, some: Record<string, string>) =>
    Object.entries(some).forEach(([name, value]) => element.setAttribute(name, value));
  set(svg, { width: "30", height: "10", "aria-hidden": "true" });
  set(line, { x1: "0", x2: "30", y1: "5", y2: "5", stroke: colour, "stroke-width": "2", "stroke-dasharray": dash.join(" ") });
  svg.append(line);
  return svg;
}
