// Window picker: presets of the newest days, the same window a year earlier, and two date fields.

import { button, h } from "./dom";

const DAY = 86400;
/** Presets: days up to the newest partition; 0 is all. */
const PRESETS = [[30, "30 days"], [90, "90 days"], [365, "a year"], [0, "all"]] as const;
/** Distance of the same window last year: whole weeks, so that weekdays meet. */
const YEAR = 364 * DAY;

/** Window of time: both ends in seconds since 1970, inclusive. */
export type TimeWindow = readonly [since: number, until: number];

export class WindowPicker {
  readonly element: HTMLElement;
  private readonly presets = PRESETS.map(([days, text]) => button(text, () => this.pickDays(days), { "data-days": days }));
  private readonly lastYear = button("last year", () => this.seen && this.onChange([this.seen[0] - YEAR, this.seen[1] - YEAR]), { title: "The same window 364 days earlier, so that weekdays meet" });
  private readonly from = h("input", { type: "date", "aria-label": "From", onchange: () => this.pickDates() });
  private readonly to = h("input", { type: "date", "aria-label": "To", onchange: () => this.pickDates() });
  private seen: TimeWindow | null = null;
  private all: TimeWindow | null = null;

  /** `onChange` receives the window, null for all; `onProblem` why there is none. */
  constructor(
    private readonly onChange: (window: TimeWindow | null) => void,
    private readonly onProblem: (text: string) => void,
  ) {
    const group = h("span", { class: "tg-group", role: "group", "aria-label": "Window" }, ...this.presets, this.lastYear);
    this.element = h("span", { class: "tg-window-picker" }, group, h("span", { class: "tg-choice" }, this.from, "to", this.to));
  }

  /** Show the visible window and that of all partitions; null without times. */
  show(seen: TimeWindow | null, all: TimeWindow | null): void {
    [this.seen, this.all] = [seen, all];
    const day = (at: number) => new Date(1000 * at).toISOString().slice(0, 10);
    for (const element of [...this.presets, this.lastYear, this.from, this.to]) element.disabled = !all;
    this.presets[PRESETS.length - 1].disabled = !all || !seen || (seen[0] <= all[0] && seen[1] >= all[1]);
    [this.from.value, this.to.value] = seen ? [day(seen[0]), day(seen[1])] : ["", ""];
  }

  private pickDays(days: number): void {
    if (!this.all) return;
    const newest = this.all[1];
    // Of 30 days the first is 29 days before the last.
    this.onChange(days ? [newest - (days - 1) * DAY, newest] : null);
  }

  /** Pick the window of the date fields; the last day is a whole one. */
  private pickDates(): void {
    const [since, until] = [Date.parse(this.from.value) / 1000, Date.parse(this.to.value) / 1000 + DAY - 1];
    if (Number.isNaN(since) || Number.isNaN(until)) return;
    if (since <= until) this.onChange([since, until]);
    else this.onProblem("The window ends before it begins.");
  }
}
