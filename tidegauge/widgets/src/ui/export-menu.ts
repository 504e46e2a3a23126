// Export menu: the page as Python code, CSV, SVG and PNG.

import type { PageQuestion } from "../data/protocol";
import { pythonCell } from "../data/python-cell";
import { button, copyText } from "./dom";
import { Menu } from "./menu";
import { drawPicture, saveFile, savePng, svgText } from "./picture";
import type { Shell, ViewName } from "./shell";

/** Page to export. */
export interface ExportedPage {
  /** Parameters of the `data` and `csv` questions for this page. */
  question: PageQuestion & { view: ViewName };
  title: string;
  element: HTMLElement;
}

/** Menu that copies or saves the page. */
export class ExportMenu {
  readonly element: HTMLElement;
  private readonly menu: Menu;
  private readonly chartButton = button("SVG of the chart", () => this.run(() => this.saveChart()), { title: "Chart of one table's series, completely as vectors" });

  constructor(
    private readonly shell: Shell,
    private readonly exportedPage: () => ExportedPage,
  ) {
    const items = [
      button("Copy as Python", () => this.run(() => this.copyPython()), { title: "Copy a notebook cell that shows this view" }),
      button("CSV of the data", () => this.saveTable(this.exportedPage())),
      button("PNG of the picture", () => this.run(() => this.savePng())),
      button("SVG of the picture", () => this.run(() => this.saveSvg()), { title: "Text and boxes as vectors, charts as images" }),
      this.chartButton,
    ];
    this.menu = new Menu("Export", items, { class: "tg-export" }, () => (this.chartButton.hidden = this.exportedPage().question.view !== "series"));
    this.element = this.menu.element;
  }

  private run(task: () => Promise<string>): void {
    this.menu.close();
    void task().then(
      (text) => this.shell.announce(text),
      (error) => this.shell.showError(error),
    );
  }

  private async copyPython(): Promise<string> {
    const { view, dataset, options } = this.exportedPage().question;
    await copyText(pythonCell(view, dataset, options, this.shell.catalogue));
    return "The Python code is copied.";
  }

  /** Save a data table of a view as CSV; the first table if no title is given. */
  saveTable({ question }: ExportedPage, title?: string): void {
    this.run(async () => {
      const { data } = await this.shell.link.ask("csv", { ...question, ...(title !== undefined && { title }) });
      const name = title === undefined ? question.view : title.toLowerCase().replace(/\W+/g, "-");
      return saveFile(new Blob([data.content], { type: "text/csv" }), `tidegauge-${name}.csv`);
    });
  }

  private async saveSvg(): Promise<string> {
    const { question, title, element } = this.exportedPage();
    const text = svgText(await this.shell.withoutControls(() => drawPicture(element, title, this.shell.theme)));
    return saveFile(new Blob([text], { type: "image/svg+xml" }), `tidegauge-${question.view}.svg`);
  }

  private async saveChart(): Promise<string> {
    const { ids = [], since, until } = this.exportedPage().question.options as { ids?: number[]; since?: unknown; until?: unknown };
    const window = { ...(typeof since === "number" && { since }), ...(typeof until === "number" && { until }) };
    const { data } = await this.shell.link.ask("svg", { ids, ...window });
    return saveFile(new Blob([data.content], { type: "image/svg+xml" }), "tidegauge-chart.svg");
  }

  private async savePng(): Promise<string> {
    const { question, title, element } = this.exportedPage();
    return savePng(this.shell, element, title, `tidegauge-${question.view}`);
  }
}
