// Undo bar: offers for a minute to take back what was just saved.

import { button, h } from "./dom";

/** Time in which an action can be undone by a click, in milliseconds. */
const UNDO_TIME_MS = 60_000;

/** Bar with the saved action and a button that undoes it. */
export class UndoBar {
  readonly element = h("div", { class: "tg-undo", hidden: true });
  private timer = 0;

  /** Offer to undo an action; `undo` is called at most once. */
  offer(text: string, undo: () => void): void {
    clearTimeout(this.timer);
    const take = () => {
      this.hide();
      undo();
    };
    this.element.replaceChildren(h("span", {}, text), button("Undo", take, { title: "Restore the state before this action. Labels are kept, and marked as withdrawn." }));
    this.element.hidden = false;
    this.timer = window.setTimeout(() => this.hide(), UNDO_TIME_MS);
  }

  hide(): void {
    clearTimeout(this.timer);
    this.element.hidden = true;
  }
}
