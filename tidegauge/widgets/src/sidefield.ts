// A field in which one side of a comparison is chosen.

import { choice, fill, h, shortened } from "./dom";
import { many, moment } from "./format";
import { fieldText, hasDays, type Kind, kindOf, type Known, matches, type Side, type Window } from "./sides";

/** Names that are offered at once while one is typed. */
const OFFERED = 200;
const ENDS = ["since", "until"] as const;

export class SideField {
  readonly element: HTMLElement;
  readonly label: HTMLElement;
  private readonly room = h("span", { class: "tg-side-room" });
  private readonly hint = h("span", { class: "tg-muted tg-side-hint" });
  private readonly names = h("datalist");
  private readonly partition: HTMLInputElement;
  private readonly run: HTMLSelectElement;
  private readonly since: HTMLInputElement;
  private readonly until: HTMLInputElement;
  private known!: Known;
  private segment: string | null = null;
  private window: Window = { since: null, until: null };

  constructor(
    private readonly title: string,
    private readonly chosen: (side: Side) => void,
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
        this.offer();
      },
      onfocus: () => {
        this.partition.select();
        this.offer("");
      },
      onchange: () => this.typed(),
    });
    this.run = h("select", { "aria-label": `${title}: run`, onchange: () => chosen({ run: Number(this.run.value) }) });
    const window = (which: string) =>
      h("input", { "aria-label": `${title}: ${which}`, onchange: () => this.ended() });
    [this.since, this.until] = [window("since"), window("until")];
    this.label = h("span", { class: "tg-muted" }, title);
    this.element = h("div", { class: "tg-side", role: "group", "aria-label": title }, this.label, this.room, this.hint);
  }

  /** Show a side; of a window, partitions of one segment are counted if that is given. */
  show(known: Known, kind: Kind, side: Side | null, segment: string | null = null): void {
    this.known = known;
    this.segment = segment;
    const parts = {
      partitions: () => [this.partition, this.names],
      runs: () => [this.run],
      windows: () => [this.since, h("span", { class: "tg-muted" }, "to"), this.until],
    }[kind]();
    // Moving a field would take the focus from it.
    if (this.room.firstChild !== parts[0]) this.room.replaceChildren(...parts);
    this.hint.textContent = "";
    if (kind === "partitions") this.showPartition(side as { partition: string } | null);
    else if (kind === "runs") this.showRun(side as { run: number } | null);
    else this.showWindow(side as Window | null);
  }

  private showPartition(side: { partition: string } | null): void {
    this.partition.setCustomValidity("");
    if (document.activeElement !== this.partition) this.partition.value = side?.partition ?? "";
    const time = side ? this.known.times[this.known.partitions.indexOf(side.partition)] : NaN;
    if (Number.isNaN(time) || time === undefined) return;
    this.hint.textContent = new Date(1000 * time).toLocaleDateString("en-US", { weekday: "short", timeZone: "UTC" });
  }

  private showRun(side: { run: number } | null): void {
    const text = (run: Known["runs"][number]) =>
      `${run.id} · ${moment(Date.parse(run.started_at) / 1000)} · ${many(run.measured, "partition")}`;
    fill(this.run, this.known.runs.map((run) => [String(run.id), text(run)]), String(side?.run ?? ""));
  }

  private showWindow(side: Window | null): void {
    const type = hasDays(this.known.times) ? "date" : "datetime-local";
    const wrong: string[] = [];
    this.window = { since: side?.since ?? null, until: side?.until ?? null };
    for (const end of ENDS) {
      const field = this[end];
      const text = fieldText(this.window[end], type === "date", end);
      if (text === null) wrong.push(`${end} “${shortened(this.window[end]!, 30)}” is no time`);
      field.type = type;
      if (document.activeElement !== field) field.value = text ?? "";
    }
    const [since, until] = ENDS.map((end) => Date.parse(`${this[end].value}${type === "date" ? "" : "Z"}`) / 1000);
    const { times, within: segments } = this.known;
    const within = times.filter((time, n) => (this.segment === null || segments[n] === this.segment) && !(time < since || time > until || Number.isNaN(time)));
    this.hint.textContent = wrong.join(", ") || many(within.length, "partition");
  }

  /** Take the ends that were changed; what a field cannot show stays as it was told. */
  private ended(): void {
    const days = this.since.type === "date";
    const found = { ...this.window };
    for (const end of ENDS) {
      const field = this[end];
      if (!field.reportValidity()) return;
      if (field.value !== (fieldText(found[end], days, end) ?? "")) found[end] = field.value || null;
    }
    this.chosen(found);
  }

  private offer(text = this.partition.value): void {
    const found = matches(this.known.partitions, text, OFFERED);
    this.names.replaceChildren(...found.map((name) => h("option", { value: name })));
  }

  /** Take what was typed: a name, or a part that only one name has. */
  private typed(): void {
    const { value } = this.partition;
    const { partitions } = this.known;
    const found = partitions.includes(value) ? [value] : matches(partitions, value, 2);
    if (found.length === 1) {
      this.partition.value = found[0];
      this.chosen({ partition: found[0] });
      return;
    }
    const why = found.length ? `several partitions hold “${value}”` : `there is no partition “${value}”`;
    this.partition.setCustomValidity(`${this.title}: ${why}; choose one of the list.`);
    this.partition.reportValidity();
  }
}

/** A field with a choice of its own between a partition and a window. */
export class FreeSide {
  readonly element: HTMLElement;
  private readonly kind: HTMLLabelElement;
  private readonly field: SideField;
  private known!: Known;
  private segment: string | null = null;

  constructor(label: string, chosen: (side: Side) => void) {
    this.field = new SideField(label, chosen);
    const kinds = [["partitions", "partition"], ["windows", "window"]] as const;
    this.kind = choice(label, kinds, "partitions", (kind) => this.field.show(this.known, kind as Kind, null, this.segment));
    this.field.label.remove(); // the choice has it
    this.element = h("span", { class: "tg-side" }, this.kind, this.field.element);
  }

  show(known: Known, side: Side, segment: string | null): void {
    this.known = known;
    this.segment = segment;
    const kind = kindOf(side)!;
    // Who is about to choose another kind is not interrupted.
    if (this.element.contains(document.activeElement) && document.activeElement?.tagName === "INPUT") return;
    this.kind.querySelector("select")!.value = kind;
    this.field.show(known, kind, side, segment);
  }
}
