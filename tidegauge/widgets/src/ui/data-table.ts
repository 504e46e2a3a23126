// Data tables: the data of a view as text, for users who cannot see its canvas or use a pointer.

import { pluralize } from "../data/format";
import type { DataAnswer, TextTable } from "../data/protocol";
import { button, h, renderName } from "./dom";
import { alignFigures } from "./figures";

/** Dialog with the data of a view. */
export class DataTable {
  private readonly heading = h("h2", {});
  private readonly rows = h("div", { class: "tg-data-rows", tabindex: "0", role: "region", "aria-label": "Rows" });
  readonly element: HTMLDialogElement = h(
    "dialog",
    { class: "tg-data", "aria-label": "Data table" },
    h("div", { class: "tg-data-bar" }, this.heading, button("Close", () => this.element.close())),
    this.rows,
  );

  /** Open the tables of an answer; `onSave` receives the title of the table to save as CSV. */
  open(title: string, { tables }: DataAnswer, onSave: (table: string) => void): void {
    this.heading.replaceChildren(renderName(title, 200));
    this.rows.replaceChildren(...tables.map((table) => renderTable(table, onSave)));
    this.rows.scrollTop = 0;
    if (!this.element.open) this.element.showModal();
  }
}

/** Render a table. With `onSave`, add a button that saves it. */
export function renderTable({ title, columns, cells, rows, omitted }: TextTable, onSave?: (table: string) => void): HTMLElement {
  const rowCount = cells.length < rows ? `the first ${cells.length} of ${pluralize(rows, "row")}` : pluralize(rows, "row");
  const omittedColumns = omitted ? `; ${pluralize(omitted, "earlier column")} not shown` : "";
  const save = onSave && button("CSV", () => onSave(title), { title: "Save all rows and columns of this table", "aria-label": `CSV of ${title}` });
  const table = h(
    "table",
    {},
    h("caption", {}, `${title} (${rowCount}${omittedColumns}) `, save),
    h("thead", {}, h("tr", {}, ...columns.map((name) => h("th", { scope: "col" }, renderName(name, 60))))),
    h("tbody", {}, ...cells.map((row) => h("tr", {}, ...row.map((text) => h("td", { class: text !== null && isNumber(text) ? "tg-figure" : undefined }, text === null ? null : isNumber(text) ? text : renderName(text, 160)))))),
  );
  alignFigures(table);
  return table;
}

/** Check that a cell is a number, which is aligned to the right: `-1,234.5`, `1.2e-7` or `57%`. */
export function isNumber(text: string): boolean {
  return /^[-+−]?\d[\d,]*(\.\d+)?(e[-+]?\d+)?%?$/.test(text);
}
