// Card: a chart or list with a heading, a note, tools and a legend of its own.

import { button, h } from "./dom";
import { savePng } from "./picture";
import type { Shell } from "./shell";

/** Card with a heading and tools. */
export class Card {
  readonly element: HTMLElement;
  readonly heading: HTMLElement;
  readonly note = h("span", { class: "tg-muted tg-card-note" });
  readonly tools = h("span", { class: "tg-card-tools" });
  readonly foot = h("div", { class: "tg-foot", hidden: true });

  /** `shell` is given if the card can be saved as a picture. */
  constructor(name: string, shell: Shell | null, body: Node[], attributes: { class?: string; tag?: "section" | "li" | "figure"; level?: 3 | 4 } = {}) {
    this.heading = h(attributes.level === 4 ? "h4" : "h3", {});
    this.element = h(attributes.tag ?? "section", { class: `tg-card ${attributes.class ?? ""}`.trim() }, h("header", { class: "tg-card-head" }, this.heading, this.note, this.tools), ...body, this.foot);
    if (shell) this.tools.append(button("PNG", () => this.save(shell), { title: "Save this chart as PNG" }));
    this.setTitle(name);
  }

  setTitle(...children: (Node | string)[]): void {
    this.heading.replaceChildren(...children);
    const save = this.tools.querySelector("button:last-child");
    save?.setAttribute("aria-label", `Save as PNG: ${this.heading.textContent}`);
  }

  private save(shell: Shell): void {
    const title = this.heading.textContent ?? "";
    savePng(shell, this.element, "", `tidegauge-${title.toLowerCase().replace(/\W+/g, "-").replace(/^-|-$/g, "") || "chart"}`).then(
      (text) => shell.announce(text),
      (error) => shell.showError(error),
    );
  }
}
