// Menu: a button that opens a panel of controls below it. Escape or a click elsewhere closes it.

import { h } from "./dom";

/** Space between a panel and the edge of the dashboard, in pixels. */
const EDGE = 8;

/** Button with a panel of controls. */
export class Menu {
  readonly element: HTMLElement;
  readonly panel: HTMLElement;
  private readonly toggle: HTMLButtonElement;

  constructor(
    text: string,
    children: Node[],
    private readonly attributes: { class?: string; label?: string; title?: string; prefix?: string } = {},
    private readonly onOpen: () => void = () => undefined,
  ) {
    this.panel = h("div", { class: "tg-menu-panel", hidden: true, role: "group", "aria-label": attributes.label ?? text }, ...children);
    this.toggle = h("button", { type: "button", class: "tg-menu-button", "aria-expanded": "false", title: attributes.title, onclick: () => (this.isOpen ? this.close() : this.open()) });
    this.setText(text);
    this.element = h("span", { class: `tg-menu ${attributes.class ?? ""}`.trim() }, this.toggle, this.panel);
    this.element.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !this.isOpen) return;
      event.stopPropagation();
      this.close();
      this.toggle.focus();
    });
    this.element.addEventListener("focusout", (event) => {
      // The focus also leaves to nothing, for example by a click on the panel itself.
      if (event.relatedTarget && !this.element.contains(event.relatedTarget as Node)) this.close();
    });
  }

  /** Text of the button; the prefix is for screen readers. */
  setText(text: string): void {
    const { prefix } = this.attributes;
    this.toggle.replaceChildren(prefix ? h("span", { class: "tg-visually-hidden" }, `${prefix}: `) : "", h("span", {}, text));
  }

  set disabled(disabled: boolean) {
    this.toggle.disabled = disabled;
  }

  get isOpen(): boolean {
    return !this.panel.hidden;
  }

  private open(): void {
    this.onOpen();
    this.panel.hidden = false;
    this.toggle.setAttribute("aria-expanded", "true");
    document.addEventListener("pointerdown", this.handlePointerDown, true);
    // Keep the panel inside of the dashboard.
    this.panel.style.translate = "";
    const frame = (this.element.closest(".tidegauge") ?? document.body).getBoundingClientRect();
    const { left, right } = this.panel.getBoundingClientRect();
    const shift = Math.max(Math.min(0, frame.right - EDGE - right), frame.left + EDGE - left);
    this.panel.style.translate = `${shift}px`;
  }

  close(): void {
    this.panel.hidden = true;
    this.toggle.setAttribute("aria-expanded", "false");
    document.removeEventListener("pointerdown", this.handlePointerDown, true);
  }

  private readonly handlePointerDown = (event: PointerEvent): void => {
    if (!event.composedPath().includes(this.element)) this.close();
  };
}
