// Period picker: the only way to choose a period. A button shows it; its menu has presets and the two ends.

import { button, h } from "./dom";
import { DateField } from "./date-field";
import { Menu } from "./menu";

const SECONDS_PER_DAY = 86400;
/** Presets: days up to the newest partition; 0 is all. */
const PRESETS = [[7, "7 days"], [30, "30 days"], [90, "90 days"], [365, "1 year"], [0, "All"]] as const;
/** Shift to the same period a year earlier. Complete weeks keep the weekdays aligned. */
const SECONDS_PER_52_WEEKS = 364 * SECONDS_PER_DAY;

/** Period of time: both ends in seconds since 1970, inclusive. */
export type TimeWindow = readonly [since: number, until: number];

/** Picker of a period. */
export class PeriodPicker {
  readonly element: HTMLElement;
  private readonly presets = PRESETS.map(([days, text]) => button(text, () => this.pickDays(days), { "data-days": days }));
  private readonly yearEarlier = button("A year earlier", () => this.shift(-SECONDS_PER_52_WEEKS), { title: "The same period 364 days earlier, with the same weekdays" });
  private readonly before = button("The period before", () => this.shiftBefore(), { title: "The period of the same length directly before" });
  private readonly from: DateField;
  private readonly to: DateField;
  private readonly menu: Menu;
  private visible: TimeWindow | null = null;
  private full: TimeWindow | null = null;

  /**
   * `onChange` receives the period, or null for all; `onProblem` receives the error if the dates are not a period.
   * `name` distinguishes the pickers of a page.
   */
  constructor(
    private readonly onChange: (window: TimeWindow | null) => void,
    private readonly onProblem: (text: string) => void,
    name = "",
  ) {
    const label = (end: string) => (name ? `${name}: ${end.toLowerCase()}` : end);
    this.from = new DateField(label("From"), (text) => this.pickEnd(0, text), (first, last) => this.pickMonth(first, last));
    this.to = new DateField(label("To"), (text) => this.pickEnd(1, text), (_, last) => this.pickEnd(1, last));
    const presets = h("div", { class: "tg-group", role: "group", "aria-label": "Newest days" }, ...this.presets);
    const shifts = h("div", { class: "tg-group", role: "group", "aria-label": "Earlier periods" }, this.before, this.yearEarlier);
    const ends = h("div", { class: "tg-period-ends" }, h("span", {}, "From"), this.from.element, h("span", {}, "to"), this.to.element);
    const prefix = name ? `${name}: period` : "Period";
    this.menu = new Menu("", [presets, shifts, ends], { class: "tg-period", label: prefix, prefix, title: "Choose a period" });
    this.element = this.menu.element;
  }

  /** Show the chosen period and the period of all partitions; null without times. */
  show(visible: TimeWindow | null, full: TimeWindow | null): void {
    [this.visible, this.full] = [visible, full];
    for (const element of [...this.presets, this.yearEarlier, this.before, this.from, this.to]) element.disabled = !full;
    const isAll = !full || !visible || (visible[0] <= full[0] && visible[1] >= full[1]);
    this.presets[PRESETS.length - 1].disabled = isAll;
    const [since, until] = visible ? visible.map(formatEnd) : ["", ""];
    this.from.show(since);
    this.to.show(until);
    this.menu.disabled = !full;
    this.menu.setText(!full ? "No times" : !visible ? "No period" : since === until ? since : `${since} to ${until}`);
  }

  private shift(seconds: number): void {
    this.menu.close();
    if (this.visible) this.onChange([this.visible[0] + seconds, this.visible[1] + seconds]);
  }

  private shiftBefore(): void {
    if (!this.visible) return;
    const [since, until] = this.visible.map((end) => Math.floor(end / SECONDS_PER_DAY) * SECONDS_PER_DAY);
    this.shift(since - until - SECONDS_PER_DAY);
  }

  private pickDays(days: number): void {
    if (!this.full) return;
    this.menu.close();
    const newest = this.full[1];
    // The first of 30 days is 29 days before the last.
    this.onChange(days ? [newest - (days - 1) * SECONDS_PER_DAY, newest] : null);
  }

  /** Pick the month that was typed as the first end. */
  private pickMonth(first: string, last: string): void {
    this.menu.close();
    this.onChange([Date.parse(first) / 1000, Date.parse(last) / 1000 + SECONDS_PER_DAY - 1]);
  }

  /** Pick an end; a day as the last end includes the entire day. */
  private pickEnd(end: 0 | 1, text: string): void {
    if (!text || !this.visible) return;
    const seconds = Date.parse(`${text.replace(" ", "T")}${text.length > 10 ? "Z" : ""}`) / 1000;
    const last = end === 1 && text.length === 10 ? SECONDS_PER_DAY - 1 : 0;
    const [since, until] = end === 0 ? [seconds, this.visible[1]] : [this.visible[0], seconds + last];
    if (since <= until) this.onChange([since, until]);
    else this.onProblem("The period ends before it begins.");
  }
}

/** Format an end of a period: its day, and its minute unless it is the first or the last of the day. */
function formatEnd(seconds: number): string {
  const text = new Date(1000 * seconds).toISOString().replace("T", " ").slice(0, 16);
  return /00:00$|23:59$/.test(text) ? text.slice(0, 10) : text;
}
