// Window picker: presets of the newest days, the same window a year earlier, and two date fields.

import { button, h } from "./dom";

const SECONDS_PER_DAY = 86400;
/** Presets: days up to the newest partition; 0 is all. */
const PRESETS = [[30, "30 days"], [90, "90 days"], [365, "a year"], [0, "all"]] as const;
/** Shift to the same window last year. Complete weeks keep the weekdays aligned. */
const SECONDS_PER_52_WEEKS = 364 * SECONDS_PER_DAY;

/** Window of time: both ends in seconds since 1970, inclusive. */
export type TimeWindow = readonly [since: number, until: number];

/** Preset windows and two date fields. */
export class WindowPicker {
  readonly element: HTMLElement;
  private readonly presets = PRESETS.map(([days, text]) => button(text, () => this.pickDays(days), { "data-days": days }));
  private readonly lastYear = button("last year", () => this.visible && this.onChange([this.visible[0] - SECONDS_PER_52_WEEKS, this.visible[1] - SECONDS_PER_52_WEEKS]), { title: "The same window 364 days earlier, with the same weekdays" });
  private readonly from = h("input", { type: "date", "aria-label": "From", onchange: () => this.pickDates() });
  private readonly to = h("input", { type: "date", "aria-label": "To", onchange: () => this.pickDates() });
  private visible: TimeWindow | null = null;
  private full: TimeWindow | null = null;

  /** `onChange` receives the window, or null for all; `onProblem` receives the error if the dates are not a window. */
  constructor(
    private readonly onChange: (window: TimeWindow | null) => void,
    private readonly onProblem: (text: string) => void,
  ) {
    const group = h("span", { class: "tg-group", role: "group", "aria-label": "Window" }, ...this.presets, this.lastYear);
    this.element = h("span", { class: "tg-window-picker" }, group, h("span", { class: "tg-choice" }, this.from, "to", this.to));
  }

  /** Show the visible window and the window of all partitions; null without times. */
  show(visible: TimeWindow | null, full: TimeWindow | null): void {
    [this.visible, this.full] = [visible, full];
    const formatDay = (seconds: number) => new Date(1000 * seconds).toISOString().slice(0, 10);
    for (const element of [...this.presets, this.lastYear, this.from, this.to]) element.disabled = !full;
    this.presets[PRESETS.length - 1].disabled = !full || !visible || (visible[0] <= full[0] && visible[1] >= full[1]);
    [this.from.value, this.to.value] = visible ? [formatDay(visible[0]), formatDay(visible[1])] : ["", ""];
  }

  private pickDays(days: number): void {
    if (!this.full) return;
    const newest = this.full[1];
    // The first of 30 days is 29 days before the last.
    this.onChange(days ? [newest - (days - 1) * SECONDS_PER_DAY, newest] : null);
  }

  /** Pick the window of the date fields, including the last day. */
  private pickDates(): void {
    const [since, until] = [Date.parse(this.from.value) / 1000, Date.parse(this.to.value) / 1000 + SECONDS_PER_DAY - 1];
    if (Number.isNaN(since) || Number.isNaN(until)) return;
    if (since <= until) this.onChange([since, until]);
    else this.onProblem("The window ends before it begins.");
  }
}
