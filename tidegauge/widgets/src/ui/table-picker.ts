// Table picker: a search box with suggestions that restricts a view to one table; empty for all.

import { h } from "./dom";

/** Most suggestions while a name is typed. */
const MAX_SUGGESTIONS = 200;
let pickers = 0;

export class TablePicker {
  readonly element: HTMLElement;
  private readonly names = h("datalist", { id: `tg-tables-${++pickers}` });
  private readonly input: HTMLInputElement;
  private value: string | null = null;
  private tables: readonly string[] = [];

  constructor(onChange: (table: string | null) => void) {
    this.input = h("input", { type: "search", list: this.names.id, placeholder: "all tables", "aria-label": "Table", autocomplete: "off" });
    this.input.addEventListener("input", () => {
      this.suggest();
      const text = this.input.value;
      const known = this.tables.includes(text);
      this.input.setCustomValidity(known || !text ? "" : "no such table");
      const table = text === "" ? null : known ? text : this.value;
      if (table === this.value) return;
      this.value = table;
      onChange(table);
    });
    this.element = h("label", { class: "tg-choice tg-table-picker" }, h("span", {}, "Table"), this.input, this.names);
  }

  /** Show the selected table, null for all. */
  show(tables: readonly string[], table: string | null): void {
    this.tables = tables;
    this.value = table;
    if (document.activeElement !== this.input) this.input.value = table ?? "";
    this.suggest();
  }

  private suggest(): void {
    const words = this.input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = this.tables.filter((name) => this.input.value === this.value || words.every((word) => name.toLowerCase().includes(word)));
    this.names.replaceChildren(...found.slice(0, MAX_SUGGESTIONS).map((value) => h("option", { value })));
  }
}
