// Date field: a date as 2013-02-08, with minutes as 2013-02-08 14:00, in every language; and the browser's calendar.

import { button, h } from "./dom";

const PATTERN = /^(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2}(?::\d{2})?))?$/;

/** Return a complete date, or date and time, as the field shows it; null for other strings. */
export function parseDateText(text: string): string | null {
  const match = PATTERN.exec(text.trim());
  if (!match) return null;
  const [, date, time] = match;
  const parsed = new Date(`${date}T${time ?? "00:00"}Z`);
  if (Number.isNaN(parsed.getTime()) || parsed.toISOString().slice(0, 10) !== date) return null; // no 30 February
  return time === undefined ? date : `${date} ${time}`;
}

/** Return the first and the last day of a month such as `2013-02`; null for other strings. */
export function parseMonthText(text: string): [first: string, last: string] | null {
  const match = /^(\d{4})-(0[1-9]|1[0-2])$/.exec(text.trim());
  if (!match) return null;
  const days = new Date(Date.UTC(Number(match[1]), Number(match[2]), 0)).getUTCDate();
  return [`${match[0]}-01`, `${match[0]}-${days}`];
}

/** Text field for a date, with a button that opens the browser's calendar. */
export class DateField {
  readonly element: HTMLElement;
  readonly input: HTMLInputElement;
  private readonly calendar: HTMLInputElement;
  private saved = "";

  /** `onChange` receives a complete date, or an empty string; `onMonth` receives the first and the last day of a typed month. */
  constructor(label: string, private readonly onChange: (text: string) => void, private readonly onMonth: (first: string, last: string) => void) {
    this.input = h("input", { type: "text", size: 11, placeholder: "2013-02-08", autocomplete: "off", spellcheck: "false", inputmode: "numeric", "aria-label": label, oninput: () => this.accept(), onchange: () => this.report() });
    this.calendar = h("input", { type: "date", tabindex: "-1", "aria-hidden": "true", class: "tg-calendar-input", onchange: () => this.calendar.value && this.choose(this.calendar.value) });
    const open = button("▾", () => this.openCalendar(), { title: "Choose a day", "aria-label": `${label}: choose a day` });
    this.element = h("span", { class: "tg-date-field tg-group" }, this.input, open, this.calendar);
  }

  /** Show a value, unless it is being typed. */
  show(text: string): void {
    this.saved = text;
    if (document.activeElement === this.input && !this.input.validity.customError) return;
    this.input.value = text;
    this.input.setCustomValidity("");
  }

  set disabled(disabled: boolean) {
    for (const element of this.element.querySelectorAll<HTMLInputElement | HTMLButtonElement>("input, button")) element.disabled = disabled;
  }

  private accept(): void {
    const { value } = this.input;
    const text = value.trim() === "" ? "" : parseDateText(value);
    this.input.setCustomValidity(text === null ? `“${value}” is not a date such as 2013-02-08, or a month such as 2013-02.` : "");
    if (text !== null && text !== this.saved) {
      this.saved = text;
      this.onChange(text);
    }
  }

  private report(): void {
    const month = parseMonthText(this.input.value);
    if (month) {
      this.input.setCustomValidity("");
      this.onMonth(...month);
      return;
    }
    this.accept();
    this.input.reportValidity();
  }

  private choose(text: string): void {
    this.input.value = text;
    this.accept();
  }

  private openCalendar(): void {
    this.calendar.value = parseDateText(this.input.value)?.slice(0, 10) ?? "";
    this.calendar.showPicker();
  }
}
