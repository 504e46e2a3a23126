// Data table: what a view shows as text in rows and columns, for those who cannot see or point at its canvas.

import { pluralize } from "../data/format";
import type { DataAnswer } from "../data/protocol";
import { button, h, renderName } from "./dom";

export class DataTable {
  private readonly caption = h("caption", {});
  private readonly head = h("thead", {});
  private readonly body = h("tbody", {});
  readonly element: HTMLDialogElement = h(
    "dialog",
    { class: "tg-data", "aria-label": "Data table" },
    h("div", { class: "tg-data-bar" }, button("Close", () => this.element.close())),
    h("div", { class: "tg-data-rows", tabindex: "0", role: "region", "aria-label": "Rows" }, h("table", {}, this.caption, this.head, this.body)),
  );

  /** Open the table with an answer. */
  open(title: string, { columns, cells, rows, omitted }: DataAnswer): void {
    const some = cells.length < rows ? `the first ${cells.length} of ${pluralize(rows, "row")}` : pluralize(rows, "row");
    const newest = omitted ? `; ${pluralize(omitted, "earlier column")} not shown` : "";
    this.caption.replaceChildren(renderName(title, 200), ` (${some}${newest})`);
    this.head.replaceChildren(h("tr", {}, ...columns.map((name) => h("th", { scope: "col" }, renderName(name, 60)))));
    this.body.replaceChildren(...cells.map((row) => h("tr", {}, ...row.map((text) => h("td", {}, text === null ? null : renderName(text, 160))))));
    if (!this.element.open) this.element.showModal();
  }
}
