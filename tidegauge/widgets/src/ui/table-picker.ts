// Table picker: a search box with suggestions that selects one table, or all tables if it may be empty.

import { h } from "./dom";

/** Maximum number of suggestions while a name is typed. */
const MAX_SUGGESTIONS = 200;
let pickers = 0;

interface PickerOptions {
  /** Visible label. */
  label: string;
  /** Placeholder of an empty field, which selects all tables; null if a table must be chosen. */
  empty: string | null;
}

/** Search box that selects a table. */
export class TablePicker {
  readonly element: HTMLElement;
  private readonly names = h("datalist", { id: `tg-tables-${++pickers}` });
  private readonly input: HTMLInputElement;
  private value: string | null = null;
  private tables: readonly string[] = [];

  constructor(
    onChange: (table: string | null) => void,
    private readonly options: PickerOptions = { label: "Table", empty: "all tables" },
  ) {
    const { label, empty } = options;
    this.input = h("input", { type: "search", list: this.names.id, placeholder: empty ?? "", "aria-label": label, autocomplete: "off" });
    this.input.addEventListener("input", () => {
      this.suggest();
      const text = this.input.value;
      const isTable = this.tables.includes(text);
      this.input.setCustomValidity(isTable || !text ? "" : "Unknown table");
      const table = isTable ? text : text === "" && empty !== null ? null : this.value;
      if (table === this.value) return;
      this.value = table;
      onChange(table);
    });
    // Browsers suggest only names that contain the typed string, so a field that must not be empty is emptied to search.
    this.input.addEventListener("focus", () => this.search());
    this.input.addEventListener("blur", () => this.restore());
    this.input.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || empty !== null) return;
      event.preventDefault(); // browsers would empty the field
      this.restore();
    });
    this.element = h("label", { class: "tg-choice tg-table-picker" }, h("span", {}, label), this.input, this.names);
  }

  /** Show the selected table, null for all. */
  show(tables: readonly string[], table: string | null): void {
    this.tables = tables;
    this.value = table;
    if (document.activeElement !== this.input) this.restore();
    else this.suggest();
  }

  private search(): void {
    if (this.options.empty !== null) return;
    this.input.placeholder = this.value ?? "";
    this.input.value = "";
    this.suggest();
  }

  /** Replace the typed string by the selected table. */
  private restore(): void {
    this.input.value = this.value ?? "";
    this.input.setCustomValidity("");
    this.suggest();
  }

  private suggest(): void {
    const words = this.input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const matches = this.tables.filter((name) => this.input.value === this.value || words.every((word) => name.toLowerCase().includes(word)));
    this.names.replaceChildren(...matches.slice(0, MAX_SUGGESTIONS).map((value) => h("option", { value })));
  }
}
