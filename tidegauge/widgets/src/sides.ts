// Sides of a comparison of distributions: a partition, or a window of time.

import { choice, fill, h, later } from "./dom";
import { sideText } from "./points";

export type Side = { partition: string } | { since: string | null; until: string | null };

const DAY = 86400;
/** As long as the windows that drift is measured against. */
const BEFORE = 28 * DAY;
const MOST_OFFERED = 200;

/** The four weeks before a moment, without it. */
export function weeksBefore(seconds: number): Side {
  const step = seconds % DAY === 0 ? DAY : 1;
  return { since: sideText(seconds - BEFORE, step), until: sideText(seconds - step, step) };
}

/** The windows in which drift is asked for, the newest first: long against the weeks that each reads before it. */
export function pieces(times: ArrayLike<number>): { since: string; until: string }[] {
  const known = Array.from(times).filter((time) => !Number.isNaN(time));
  const found: { since: string; until: string }[] = [];
  for (let last = known.length - 1; last >= 0; ) {
    const first = known.findIndex((time) => time > known[last] - 2 * BEFORE);
    found.push({ since: sideText(known[first], 1), until: sideText(known[last], 1) });
    last = first - 1;
  }
  return found;
}

/** Fields to choose one side by. */
export class SideChooser {
  readonly element: HTMLElement;
  private readonly kind: HTMLLabelElement;
  private readonly offered = h("datalist", { id: `tg-${Math.random().toString(36).slice(2)}` });
  private readonly partition: HTMLInputElement;
  private readonly since: HTMLInputElement;
  private readonly until: HTMLInputElement;
  private readonly window: HTMLElement;
  private partitions: readonly string[] = [];

  constructor(
    title: string,
    private readonly chosen: (side: Side) => void,
  ) {
    this.kind = choice(title, [["partition", "partition"], ["window", "window"]], "partition", () => this.turned());
    const changed = () => this.tell();
    const field = (label: string, width: number) =>
      h("input", { type: "text", size: width, "aria-label": `${title}: ${label}`, placeholder: label, spellcheck: "false", onchange: changed });
    this.partition = field("partition", 20);
    this.partition.setAttribute("list", this.offered.id);
    this.partition.addEventListener("input", later(60, () => this.offer()));
    this.partition.addEventListener("input", () => this.partitions.includes(this.partition.value) && this.tell());
    this.since = field("since, 2013-02-01", 14);
    this.until = field("until, 2013-02-28", 14);
    this.window = h("span", { class: "tg-choice" }, this.since, "to", this.until);
    this.element = h("span", { class: "tg-side", role: "group", "aria-label": title }, this.kind, this.partition, this.offered, this.window);
  }

  know(partitions: readonly string[]): void {
    this.partitions = partitions;
    this.offer();
  }

  /** Show a side, unless somebody is typing another. */
  show(side: Side): void {
    if (this.element.contains(document.activeElement) && document.activeElement instanceof HTMLInputElement) return;
    const one = "partition" in side;
    fill(this.kind.querySelector("select")!, [["partition", "partition"], ["window", "window"]], one ? "partition" : "window");
    if (one) this.partition.value = side.partition;
    else [this.since.value, this.until.value] = [side.since ?? "", side.until ?? ""];
    this.turned();
  }

  private turned(): void {
    const one = this.kind.querySelector("select")!.value === "partition";
    this.partition.hidden = !one;
    this.window.hidden = one;
  }

  private tell(): void {
    if (!this.partition.hidden) {
      const name = this.partition.value.trim();
      if (name) this.chosen({ partition: name });
    } else if (this.since.value.trim() || this.until.value.trim()) {
      this.chosen({ since: this.since.value.trim() || null, until: this.until.value.trim() || null });
    }
  }

  /** Offer the partitions that hold what is typed, the newest first. */
  private offer(): void {
    const text = this.partitions.includes(this.partition.value) ? "" : this.partition.value;
    const found = this.partitions.filter((name) => name.includes(text)).slice(0, MOST_OFFERED);
    this.offered.replaceChildren(...found.map((value) => h("option", { value })));
  }
}
