// Virtual list: only visible rows are elements. Arrow keys move the active row, Enter opens it.
//
// The scrolling element keeps the focus and points to the active row (aria-activedescendant), because rows come and go.

import { h } from "./dom";
import { fitNames } from "./fit-names";

/** Rows rendered above and below the visible ones, so that scrolling shows no gaps. */
const OVERSCAN = 6;

/** Content and event handlers of a list. */
export interface ListOptions {
  /** ARIA roles of the list and of its rows. */
  roles: readonly [list: "grid" | "listbox", row: "row" | "option"];
  label: string;
  /** Height of a row, in pixels. */
  rowHeight: number;
  /** Sticky header. */
  header?: HTMLElement;
  /** Create the element of a row. */
  renderRow(index: number): HTMLElement;
  /** Called when a row is clicked, or Enter is pressed on it. */
  onOpen(index: number): void;
  /** Called when a key moved the active row. */
  onMove?(index: number): void;
  /** Called when Space is pressed on a row; it opens the row if not given. */
  onSelect?(index: number): void;
}

let listCount = 0;

/** List that renders only visible rows. */
export class VirtualList {
  readonly element: HTMLElement;
  active = 0;
  private count = 0;
  /** Rendered rows by index. */
  private readonly rendered = new Map<number, HTMLElement>();
  private readonly id = `tg-rows-${++listCount}`;
  private readonly body = h("div", { class: "tg-rows-body", role: "presentation" });
  private frame = 0;

  constructor(private readonly options: ListOptions) {
    const { roles, label, header } = options;
    this.element = h("div", { class: "tg-rows", tabindex: "0", role: roles[0], "aria-label": label }, header, this.body);
    this.element.addEventListener("scroll", () => this.draw(), { passive: true });
    this.element.addEventListener("keydown", (event) => this.handleKey(event));
  }

  /** Set the number of rows and render them again at the same scroll position. */
  setCount(count: number, active = this.active): void {
    this.count = count;
    this.active = Math.max(0, Math.min(active, count - 1));
    this.body.style.minHeight = `${count * this.options.rowHeight}px`;
    if (this.options.roles[0] === "grid") this.element.setAttribute("aria-rowcount", String(count + 1));
    this.redraw();
  }

  /** Indexes of the rendered rows. */
  get visible(): number[] {
    return [...this.rendered.keys()];
  }

  redraw(): void {
    this.rendered.clear();
    this.body.replaceChildren();
    this.draw();
  }

  /** Activate a row and scroll it into view. */
  activate(index: number): void {
    this.active = Math.max(0, Math.min(index, this.count - 1));
    const { element } = this;
    const top = this.active * this.options.rowHeight;
    const visible = element.clientHeight - this.headerHeight;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + this.options.rowHeight > element.scrollTop + visible) element.scrollTop = top + this.options.rowHeight - visible;
    this.draw();
  }

  close(): void {
    cancelAnimationFrame(this.frame);
  }

  private get headerHeight(): number {
    return this.options.header?.offsetHeight ?? 0;
  }

  private draw(): void {
    const { rowHeight: height } = this.options;
    const { scrollTop, clientHeight } = this.element;
    if (!clientHeight && this.count) {
      // Not laid out yet: retry in the next frame.
      cancelAnimationFrame(this.frame);
      if (this.element.isConnected) this.frame = requestAnimationFrame(() => this.draw());
      return;
    }
    const first = Math.max(0, Math.floor(scrollTop / height) - OVERSCAN);
    const last = Math.min(this.count, Math.ceil((scrollTop + clientHeight) / height) + OVERSCAN);
    for (const [index, row] of this.rendered) {
      if (index >= first && index < last) continue;
      row.remove();
      this.rendered.delete(index);
    }
    const added: HTMLElement[] = [];
    for (let index = first; index < last; index++) if (!this.rendered.has(index)) added.push(this.addRow(index));
    fitNames(added);
    this.markActive();
  }

  private addRow(index: number): HTMLElement {
    const { rowHeight: height, roles, renderRow } = this.options;
    const row = renderRow(index);
    row.id = `${this.id}-${index}`;
    row.classList.add("tg-row");
    row.setAttribute("role", roles[1]);
    if (roles[1] === "row") row.setAttribute("aria-rowindex", String(index + 2));
    else {
      row.setAttribute("aria-setsize", String(this.count));
      row.setAttribute("aria-posinset", String(index + 1));
    }
    row.style.top = `${index * height}px`;
    row.style.height = `${height}px`;
    row.addEventListener("click", () => {
      this.active = index;
      this.markActive();
      this.options.onOpen(index);
    });
    this.rendered.set(index, row);
    this.body.append(row);
    return row;
  }

  private markActive(): void {
    for (const [index, row] of this.rendered) row.setAttribute("aria-selected", String(index === this.active));
    if (this.count) this.element.setAttribute("aria-activedescendant", `${this.id}-${this.active}`);
    else this.element.removeAttribute("aria-activedescendant");
  }

  private handleKey(event: KeyboardEvent): void {
    if (event.target !== this.element || !this.count) return;
    const page = Math.max(1, Math.floor((this.element.clientHeight - this.headerHeight) / this.options.rowHeight) - 1);
    const steps: Record<string, number> = {
      ArrowUp: -1, ArrowDown: 1, PageUp: -page, PageDown: page, Home: -this.count, End: this.count,
    };
    if (event.key in steps) {
      this.activate(this.active + steps[event.key]);
      this.options.onMove?.(this.active);
    } else if (event.key === " " && this.options.onSelect) this.options.onSelect(this.active);
    else if (event.key === "Enter" || event.key === " ") this.options.onOpen(this.active);
    else return;
    event.preventDefault();
  }
}
