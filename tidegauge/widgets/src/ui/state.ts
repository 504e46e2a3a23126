// State of a pane without content: loading, empty, or failed with a way to try again.

import { button, h } from "./dom";

/** Time after which a pane says that it is loading, in milliseconds. Faster answers do not flicker. */
const LOADING_DELAY_MS = 150;

/** Message in place of the content of a pane. */
export class PaneState {
  readonly element = h("div", { class: "tg-state", hidden: true });
  private timer = 0;

  /** Say that the pane is loading, if it still is after a moment. */
  loading(text = "Loading …"): void {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.show("loading", h("span", { class: "tg-spinner", "aria-hidden": "true" }), h("p", {}, text)), LOADING_DELAY_MS);
  }

  /** Say why there is nothing to show, and optionally what to do. */
  empty(text: string, ...children: (Node | null)[]): void {
    this.show("empty", text ? h("p", {}, text) : null, ...children);
  }

  /** Show an error, with a button that tries again. */
  error(error: unknown, retry?: () => void): void {
    const text = error instanceof Error ? error.message : String(error);
    this.show("error", h("p", { role: "alert" }, h("b", {}, "This could not be loaded. "), text), retry ? button("Try again", retry) : null);
  }

  /** Hide the message, because the pane has content. */
  clear(): void {
    clearTimeout(this.timer);
    this.element.hidden = true;
    this.element.replaceChildren();
  }

  private show(kind: string, ...children: (Node | null)[]): void {
    clearTimeout(this.timer);
    this.element.dataset.kind = kind;
    this.element.replaceChildren(...children.filter((child) => child !== null));
    this.element.hidden = false;
  }
}

/** State of a pane that is empty. */
export function emptyState(text: string, ...children: (Node | null)[]): HTMLElement {
  const state = new PaneState();
  state.empty(text, ...children);
  return state.element;
}

/** State of a pane that is loading. */
export function loadingState(text?: string): HTMLElement {
  const state = new PaneState();
  state.loading(text);
  return state.element;
}
