// Side picker: form field for one side of a comparison (partition, run or time window).

import { fieldValue, isDaily, matchNames, type SideChoices, type SideKind, sideKind } from "../data/comparison-sides";
import { formatTime, pluralize, truncateMiddle } from "../data/format";
import type { Side, WindowSide } from "../data/protocol";
import { h, selectField, setOptions } from "./dom";
import { PeriodPicker, type TimeWindow } from "./period-picker";

/** Maximum number of suggestions while a partition name is typed. */
const MAX_SUGGESTIONS = 200;
const ENDS = ["since", "until"] as const;

/** Form field for a side of a comparison. */
export class SidePicker {
  readonly element: HTMLElement;
  readonly label: HTMLElement;
  private readonly fields = h("span", { class: "tg-side-fields" });
  private readonly hint = h("span", { class: "tg-muted tg-side-hint" });
  private readonly names = h("datalist");
  private readonly partition: HTMLInputElement;
  private readonly run: HTMLSelectElement;
  private readonly period: PeriodPicker;
  private choices!: SideChoices;
  private segment: string | null = null;
  private window: WindowSide = { since: null, until: null };
  /** Period that the picker shows for `window`. */
  private shown: TimeWindow | null = null;

  constructor(
    private readonly title: string,
    private readonly onChange: (side: Side) => void,
  ) {
    this.names.id = `tg-names-${title}`.toLowerCase() + Math.random().toString(36).slice(2);
    this.partition = h("input", {
      type: "text",
      autocomplete: "off",
      spellcheck: "false",
      list: this.names.id,
      "aria-label": `${title}: partition`,
      oninput: () => {
        this.partition.setCustomValidity("");
        this.suggest();
      },
      onfocus: () => {
        this.partition.select();
        this.suggest("");
      },
      onchange: () => this.acceptPartition(),
    });
    this.run = h("select", { "aria-label": `${title}: run`, onchange: () => onChange({ run: Number(this.run.value) }) });
    this.period = new PeriodPicker((window) => this.acceptWindow(window), (text) => (this.hint.textContent = text), title);
    this.label = h("span", { class: "tg-muted" }, title);
    this.element = h("div", { class: "tg-side", role: "group", "aria-label": title }, this.label, this.fields, this.hint);
  }

  /** Show a side; the partition count of a window is limited to a segment if one is given. */
  show(choices: SideChoices, kind: SideKind, side: Side | null, segment: string | null = null): void {
    this.choices = choices;
    this.segment = segment;
    const controls = {
      partitions: () => [this.partition, this.names],
      runs: () => [this.run],
      windows: () => [this.period.element],
    }[kind]();
    // Fields are replaced only if they differ, because moving a field would blur it.
    if (this.fields.firstChild !== controls[0]) this.fields.replaceChildren(...controls);
    this.hint.textContent = "";
    if (kind === "partitions") this.showPartition(side as { partition: string } | null);
    else if (kind === "runs") this.showRun(side as { run: number } | null);
    else this.showWindow(side as WindowSide | null);
  }

  private showPartition(side: { partition: string } | null): void {
    this.partition.setCustomValidity("");
    if (document.activeElement !== this.partition) this.partition.value = side?.partition ?? "";
    const time = side ? this.choices.times[this.choices.partitions.indexOf(side.partition)] : NaN;
    if (Number.isNaN(time) || time === undefined) return;
    this.hint.textContent = new Date(1000 * time).toLocaleDateString("en-US", { weekday: "short", timeZone: "UTC" });
  }

  private showRun(side: { run: number } | null): void {
    const text = (run: SideChoices["runs"][number]) =>
      `${run.id} · ${formatTime(Date.parse(run.started_at) / 1000)} · ${pluralize(run.partition_count, "partition")}`;
    setOptions(this.run, this.choices.runs.map((run) => [String(run.id), text(run)]), String(side?.run ?? ""));
  }

  private showWindow(side: WindowSide | null): void {
    const { times, segments } = this.choices;
    this.window = { since: side?.since ?? null, until: side?.until ?? null };
    const known = Array.from(times).filter((time) => !Number.isNaN(time));
    const full: TimeWindow | null = known.length ? [Math.min(...known), Math.max(...known)] : null;
    const problems = ENDS.filter((end) => this.endText(end) === null).map((end) => `${end} “${truncateMiddle(this.window[end]!, 30)}” is not a time`);
    const [since, until] = ENDS.map((end) => Date.parse(`${this.endText(end)}${isDaily(times) ? "" : "Z"}`) / 1000);
    this.shown = side && full ? [since || full[0], until || full[1]] : null;
    this.period.show(this.shown ?? full, full);
    const inWindow = times.filter((time, n) => (this.segment === null || segments[n] === this.segment) && !(time < since || time > until || Number.isNaN(time)));
    this.hint.textContent = problems.join(", ") || pluralize(inWindow.length, "partition");
  }

  private endText(end: keyof WindowSide): string | null {
    return fieldValue(this.window[end], isDaily(this.choices.times), end);
  }

  /** Apply the ends that changed; an end that the picker cannot show keeps its value. */
  private acceptWindow(window: TimeWindow | null): void {
    const digits = isDaily(this.choices.times) ? 10 : 16;
    const text = (n: number) => new Date(1000 * window![n]).toISOString().slice(0, digits);
    const [since, until] = ENDS.map((end, n) => (window === null ? null : this.shown && window[n] === this.shown[n] ? this.window[end] : text(n)));
    this.onChange({ since, until });
  }

  private suggest(text = this.partition.value): void {
    const names = matchNames(this.choices.partitions, text, MAX_SUGGESTIONS);
    this.names.replaceChildren(...names.map((name) => h("option", { value: name })));
  }

  /** Accept the typed name, or the only name that contains the typed string. */
  private acceptPartition(): void {
    const { value } = this.partition;
    const { partitions } = this.choices;
    const names = partitions.includes(value) ? [value] : matchNames(partitions, value, 2);
    if (names.length === 1) {
      this.partition.value = names[0];
      this.onChange({ partition: names[0] });
      return;
    }
    const problem = names.length ? `several partitions contain “${value}”` : `unknown partition “${value}”`;
    this.partition.setCustomValidity(`${this.title}: ${problem}; choose one from the list.`);
    this.partition.reportValidity();
  }
}

/** Side picker with its own choice between partition and time window. */
export class FlexibleSidePicker {
  readonly element: HTMLElement;
  private readonly kind: HTMLLabelElement;
  private readonly field: SidePicker;
  private choices!: SideChoices;
  private segment: string | null = null;

  constructor(label: string, onChange: (side: Side) => void) {
    this.field = new SidePicker(label, onChange);
    const kinds = [["partitions", "partition"], ["windows", "window"]] as const;
    this.kind = selectField(label, kinds, "partitions", (kind) => this.field.show(this.choices, kind as SideKind, null, this.segment));
    this.field.label.remove(); // the kind's select has the label
    this.element = h("span", { class: "tg-side" }, this.kind, this.field.element);
  }

  show(choices: SideChoices, side: Side, segment: string | null): void {
    this.choices = choices;
    this.segment = segment;
    const kind = sideKind(side)!;
    // Rewriting a field would interrupt editing.
    if (this.element.contains(document.activeElement) && document.activeElement?.matches("input:not(.tg-date-field *)")) return;
    this.kind.querySelector("select")!.value = kind;
    this.field.show(choices, kind, side, segment);
  }
}
