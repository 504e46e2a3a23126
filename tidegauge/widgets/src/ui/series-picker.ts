// Series picker: a search box (ARIA combobox) to add series, and a chip for each selected series.

import { swatch } from "../chart/line-style";
import type { Catalogue } from "../data/catalogue";
import { button, debounce, h, renderName } from "./dom";

const MAX_RESULTS = 20;

/** Chip of a series. */
export interface SeriesChip {
  colour: string;
  dash: number[];
  title: string;
  /** Whether the series is an overlay, which cannot be removed on its own. */
  overlay: boolean;
  note: string | null;
}

/** Search box and chips that select series. */
export class SeriesPicker {
  readonly element: HTMLElement;
  readonly chips = h("div", { class: "tg-chips", role: "list", "aria-label": "Selected series" });
  private readonly input: HTMLInputElement;
  private readonly list = h("ul", { class: "tg-suggestions", role: "listbox", id: `tg-${Math.random().toString(36).slice(2)}`, hidden: true });
  private results: number[] = [];
  private active = -1;

  constructor(
    private readonly catalogue: () => Catalogue,
    private readonly selected: () => readonly number[],
    private readonly onAdd: (id: number) => void,
  ) {
    this.input = h("input", {
      type: "search",
      role: "combobox",
      placeholder: "Add a series: dataset, column, metric …",
      "aria-label": "Add a series",
      "aria-autocomplete": "list",
      "aria-expanded": "false",
      "aria-controls": this.list.id,
      autocomplete: "off",
      oninput: debounce(60, () => this.search()),
      onclick: () => this.search(),
      onblur: () => this.close(),
      onkeydown: (event: KeyboardEvent) => this.handleKey(event),
    });
    this.element = h("div", { class: "tg-picker" }, this.input, this.list);
  }

  focus(): void {
    this.input.focus();
  }

  /** Show the selected series; `onRemove` and `onHover` receive the index of a chip. */
  show(chips: readonly SeriesChip[], onRemove: (n: number) => void, onHover: (n: number | null) => void): void {
    const focused = [...this.chips.querySelectorAll("button")].indexOf(document.activeElement as HTMLButtonElement);
    this.chips.replaceChildren(
      ...chips.map((chip, n) =>
        h(
          "span",
          { class: chip.overlay ? "tg-chip tg-overlay" : "tg-chip", role: "listitem", onpointerenter: () => onHover(n), onpointerleave: () => onHover(null) },
          swatch(chip),
          h("b", {}, String(n + 1)),
          renderName(chip.title, 60),
          chip.note ? h("i", { class: "tg-muted" }, chip.note) : null,
          chip.overlay ? null : button("×", () => onRemove(n), { "aria-label": `Remove ${chip.title}`, title: "Remove", onfocus: () => onHover(n), onblur: () => onHover(null) }),
        ),
      ),
    );
    if (focused < 0) return;
    const buttons = this.chips.querySelectorAll("button");
    (buttons[Math.min(focused, buttons.length - 1)] ?? this.input).focus();
  }

  /** Highlight the chip of a line; null clears it. */
  highlight(line: number | null): void {
    [...this.chips.children].forEach((chip, n) => chip.classList.toggle("tg-highlighted", n === line));
  }

  private search(): void {
    if (document.activeElement !== this.input) return;
    const catalogue = this.catalogue();
    const selected = new Set(this.selected());
    this.results = [];
    for (const row of catalogue.search(this.input.value)) {
      if (!selected.has(catalogue.ids[row])) this.results.push(row);
      if (this.results.length === MAX_RESULTS) break;
    }
    this.active = this.results.length && this.input.value ? 0 : -1;
    this.list.replaceChildren(
      ...this.results.map((row, n) =>
        h(
          "li",
          { role: "option", id: `${this.list.id}-${n}`, onpointerdown: (event: PointerEvent) => (event.preventDefault(), this.accept(n)) },
          h("span", { class: "tg-muted" }, renderName(catalogue.keyValue("dataset", row), 40)),
          " ",
          renderName(catalogue.title(row), 90),
        ),
      ),
      ...(this.results.length ? [] : [h("li", { class: "tg-muted", role: "option", "aria-disabled": "true" }, "No other series matches.")]),
    );
    this.list.hidden = false;
    this.input.setAttribute("aria-expanded", "true");
    this.markActive();
  }

  private handleKey(event: KeyboardEvent): void {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      if (this.list.hidden) this.search();
      else if (this.results.length) this.active = (Math.max(this.active, step > 0 ? -1 : 0) + step + this.results.length) % this.results.length;
      this.markActive();
    } else if (event.key === "Enter" && this.active >= 0 && !this.list.hidden) this.accept(this.active);
    else if (event.key === "Escape" && !this.list.hidden) this.close();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  private markActive(): void {
    [...this.list.children].forEach((item, n) => item.setAttribute("aria-selected", String(n === this.active)));
    const item = this.list.children[this.active];
    if (item && this.results.length) this.input.setAttribute("aria-activedescendant", item.id);
    else this.input.removeAttribute("aria-activedescendant");
    item?.scrollIntoView({ block: "nearest" });
  }

  private accept(n: number): void {
    const row = this.results[n];
    this.input.value = "";
    this.close();
    this.onAdd(this.catalogue().ids[row]);
  }

  private close(): void {
    this.list.hidden = true;
    this.active = -1;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
  }
}
