// Long lists: only the rows in view are elements. One row is the active one; arrow keys move it, Enter opens it.
//
// The element that scrolls keeps the focus and names its active row, because rows come and go.

import { h } from "./dom";

/** Rows beyond those in view, so that scrolling shows no gaps. */
const BEYOND = 6;

export interface Listing {
  /** What the list is, and what each of its rows is, to screen readers. */
  roles: readonly [list: "grid" | "listbox", row: "row" | "option"];
  label: string;
  /** Of one row, in pixels. */
  height: number;
  /** What stands above the rows and stays there. */
  head?: HTMLElement;
  make(index: number): HTMLElement;
  /** A row was clicked, or Enter was pressed on it. */
  open(index: number): void;
  /** The active row was moved by a key. */
  moved?(index: number): void;
}

let lists = 0;

export class Rows {
  readonly element: HTMLElement;
  active = 0;
  private count = 0;
  /** Rows that are elements now, by their places. */
  private readonly made = new Map<number, HTMLElement>();
  private readonly id = `tg-rows-${++lists}`;
  private readonly body = h("div", { class: "tg-rows-body", role: "presentation" });
  private frame = 0;

  constructor(private readonly listing: Listing) {
    const { roles, label, head } = listing;
    this.element = h("div", { class: "tg-rows", tabindex: "0", role: roles[0], "aria-label": label }, head, this.body);
    this.element.addEventListener("scroll", () => this.draw(), { passive: true });
    this.element.addEventListener("keydown", (event) => this.key(event));
  }

  /** Show so many rows, anew; what was scrolled to stays. */
  show(count: number, active = this.active): void {
    this.count = count;
    this.active = Math.max(0, Math.min(active, count - 1));
    this.body.style.height = `${count * this.listing.height}px`;
    if (this.listing.roles[0] === "grid") this.element.setAttribute("aria-rowcount", String(count + 1));
    this.redraw();
  }

  redraw(): void {
    this.made.clear();
    this.body.replaceChildren();
    this.draw();
  }

  /** Make a row the active one and scroll as far as it needs. */
  reveal(index: number): void {
    this.active = Math.max(0, Math.min(index, this.count - 1));
    const { element } = this;
    const top = this.active * this.listing.height;
    const room = element.clientHeight - this.headHeight;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + this.listing.height > element.scrollTop + room) element.scrollTop = top + this.listing.height - room;
    this.draw();
  }

  close(): void {
    cancelAnimationFrame(this.frame);
  }

  private get headHeight(): number {
    return this.listing.head?.offsetHeight ?? 0;
  }

  private draw(): void {
    const { height } = this.listing;
    const { scrollTop, clientHeight } = this.element;
    if (!clientHeight && this.count) {
      // Not on the page yet: it has no size.
      cancelAnimationFrame(this.frame);
      if (this.element.isConnected) this.frame = requestAnimationFrame(() => this.draw());
      return;
    }
    const first = Math.max(0, Math.floor(scrollTop / height) - BEYOND);
    const last = Math.min(this.count, Math.ceil((scrollTop + clientHeight) / height) + BEYOND);
    for (const [index, row] of this.made) {
      if (index >= first && index < last) continue;
      row.remove();
      this.made.delete(index);
    }
    for (let index = first; index < last; index++) if (!this.made.has(index)) this.add(index);
    this.mark();
  }

  private add(index: number): void {
    const { height, roles, make } = this.listing;
    const row = make(index);
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
      this.mark();
      this.listing.open(index);
    });
    this.made.set(index, row);
    this.body.append(row);
  }

  private mark(): void {
    for (const [index, row] of this.made) row.setAttribute("aria-selected", String(index === this.active));
    if (this.count) this.element.setAttribute("aria-activedescendant", `${this.id}-${this.active}`);
    else this.element.removeAttribute("aria-activedescendant");
  }

  private key(event: KeyboardEvent): void {
    if (event.target !== this.element || !this.count) return;
    const page = Math.max(1, Math.floor((this.element.clientHeight - this.headHeight) / this.listing.height) - 1);
    const steps: Record<string, number> = {
      ArrowUp: -1, ArrowDown: 1, PageUp: -page, PageDown: page, Home: -this.count, End: this.count,
    };
    if (event.key in steps) {
      this.reveal(this.active + steps[event.key]);
      this.listing.moved?.(this.active);
    } else if (event.key === "Enter" || event.key === " ") this.listing.open(this.active);
    else return;
    event.preventDefault();
  }
}
