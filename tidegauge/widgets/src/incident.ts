// One incident: what happened, the evidence, and what is said of it.

import { columnsAround, cut } from "./around";
import { type SeriesTold, smallChart } from "./chart";
import { button, h, named } from "./dom";
import { many } from "./format";
import { type Answer, KernelError } from "./link";
import { labelOf } from "./points";
import { newer, type Said, saying, written } from "./said";
import { severityOf } from "./severity";
import type { Stage } from "./stage";

export interface Incident {
  incident: number;
  dataset: string;
  headline: string;
  severity: string;
  status: string;
  series: number;
  anomalies: number;
  first: string;
  last: string;
  /** Seconds; null where partitions have no time. */
  since: number | null;
  until: number | null;
  updated_at: string;
  revision: number;
  evidence: number[];
  /** Of every series, the first found first, up to as many as are drawn together. */
  all_series: number[];
  first_found: string[];
  moved: string[];
  along: string[];
  said: Said[];
}

const ACTIONS: Record<string, { text: string; title: string }> = {
  acknowledged: { text: "Acknowledge", title: "Somebody looks into it" },
  expected: { text: "Expected", title: "It had to be so: its points are no example for later ones" },
  resolved: { text: "Resolve", title: "It is over" },
  reopened: { text: "Reopen", title: "Take back what was said: it is open again" },
};
/** What can be said in which status. */
const OFFERED: Record<string, string[]> = {
  open: ["acknowledged", "expected", "resolved"],
  acknowledged: ["resolved", "expected", "reopened"],
  expected: ["reopened"],
  resolved: ["reopened", "expected"],
};
const CHART = { least: 250, height: 130 };

export class IncidentPane {
  readonly element: HTMLElement;
  private readonly head = h("div", { class: "tg-incident-head" });
  private readonly note = h("textarea", { rows: "2", placeholder: "Why? (optional)", "aria-label": "Note" });
  private readonly actions = h("div", { class: "tg-incident-actions" });
  private readonly conflict = h("div", { class: "tg-conflict", role: "alert", hidden: true });
  private readonly form: HTMLElement;
  private readonly said = h("section", {});
  private readonly body = h("div", { class: "tg-incident-body" });
  private readonly none = h("p", { class: "tg-empty" });
  private readonly drafts = new Map<number, string>();
  private told: Incident | null = null;
  private evidence: Answer<SeriesTold> | null = null;
  private of = "";
  private charts: HTMLElement[] = [];

  constructor(
    private readonly stage: Stage,
    private readonly spoken: (told: Incident, ours: boolean) => void,
  ) {
    this.form = h("div", { class: "tg-incident-form" }, this.conflict, this.note, this.actions);
    this.note.addEventListener("input", () => this.told && this.drafts.set(this.told.incident, this.note.value));
    this.element = h("article", { class: "tg-incident", tabindex: "-1", "aria-label": "The incident" }, this.none, this.head, this.form, this.said, this.body);
    this.clear("");
  }

  /** Show nothing but a text. */
  clear(text: string): void {
    this.told = null;
    this.of = "";
    this.element.removeAttribute("aria-busy");
    this.none.textContent = text;
    this.none.hidden = false;
    for (const part of [this.head, this.form, this.said, this.body]) part.hidden = true;
  }

  /** Fetch and show an incident, unless another is looked at meanwhile. */
  async look(id: number, wanted: () => boolean): Promise<void> {
    const of = `${id} ${this.stage.catalogue.commits}`;
    if (this.of === of) {
      // Sizes or colours may have changed while another view was shown.
      this.redraw();
      return;
    }
    this.element.setAttribute("aria-busy", "true");
    try {
      const { told } = await this.stage.link.ask<Incident>("incident", { incident: id });
      const evidence = await this.stage.link.ask<SeriesTold>("series", { ids: told.evidence });
      if (!wanted()) return;
      this.of = of;
      this.evidence = cut(evidence, ...columnsAround(evidence.arrays.times, told.since, told.until));
      this.show(told);
    } finally {
      if (wanted()) this.element.removeAttribute("aria-busy");
    }
  }

  private show(told: Incident): void {
    const other = this.told?.incident !== told.incident;
    this.told = told;
    this.none.hidden = true;
    for (const part of [this.head, this.form, this.said, this.body]) part.hidden = false;
    if (other) {
      this.note.value = this.drafts.get(told.incident) ?? "";
      this.conflict.hidden = true;
    }
    const range = told.first === told.last ? [named(told.first)] : [named(told.first), " to ", named(told.last)];
    this.head.replaceChildren(
      h("h2", {}, named(told.headline, 300)),
      h(
        "div",
        { class: "tg-incident-facts" },
        severityOf(told.severity),
        h("span", { class: "tg-inbox-status" }, told.status),
        h("span", {}, ...range),
        h("span", { class: "tg-muted" }, `${many(told.anomalies, "anomaly", "anomalies")} in ${many(told.series, "series", "series")} of `, named(told.dataset, 60)),
        h("span", { class: "tg-muted" }, `incident ${told.incident}, updated ${written(told.updated_at)}`),
      ),
    );
    this.showActions(told);
    this.showSaid(told);
    this.showBody(told);
    if (other) this.element.scrollTop = 0;
  }

  private showActions(told: Incident): void {
    const { writable, catalogue } = this.stage;
    this.note.hidden = !writable;
    if (!writable) {
      this.actions.replaceChildren(h("span", { class: "tg-muted" }, "The repository was opened to be read: nothing can be said of incidents here."));
      return;
    }
    const buttons = (OFFERED[told.status] ?? OFFERED.open).map((label) =>
      button(ACTIONS[label].text, () => void this.say(label), { title: ACTIONS[label].title, "data-label": label }),
    );
    buttons[0].classList.add("tg-primary");
    this.actions.replaceChildren(...buttons, h("span", { class: "tg-muted" }, "said by ", named(catalogue.by, 40)));
  }

  /** What was said, down to the newest. */
  private showSaid({ said }: Incident): void {
    const list = h("ol", { class: "tg-said-list", tabindex: "0", "aria-label": "What was said" }, ...said.map(saying));
    this.said.replaceChildren(...(said.length ? [h("h3", {}, "What was said"), list] : [h("p", { class: "tg-muted" }, "Nothing was said of it yet.")]));
    list.scrollTop = list.scrollHeight;
  }

  private showBody(told: Incident): void {
    const sections: HTMLElement[] = [];
    const add = (title: string, ...children: Node[]) => sections.push(h("section", {}, h("h3", {}, title), ...children));
    const list = (texts: string[]) => h("ul", {}, ...texts.map((text) => h("li", {}, named(text, 600))));
    this.charts = told.evidence.map(() => h("div", { class: "tg-evidence-chart", style: `height:${CHART.height}px` }));
    const cards = told.evidence.map((id, n) => {
      const row = this.evidence?.told.series.findIndex((one) => one.id === id) ?? -1;
      const counted = row < 0 || hasPoints(this.evidence!, row);
      // The calendar is of the dataset that is looked at.
      const calendar = !counted && told.dataset === this.stage.dataset;
      const open = counted
        ? button("Open series", () => this.openSeries([id]), { "aria-label": `Open series: ${told.first_found[n]}` })
        : calendar && button("Open calendar", () => this.stage.go("partitions", { partition: told.last }));
      return h("li", { class: "tg-evidence" }, this.charts[n], h("div", { class: "tg-evidence-text" }, named(told.first_found[n], 300), open || null));
    });
    const left = told.series - told.evidence.length;
    const more = left > 0 ? ` (of ${many(told.series, "series", "series")})` : "";
    const { all_series: all } = told;
    const which = all.length < told.series ? `the first ${all.length}` : `all ${all.length}`;
    const together = all.length > 1 ? button(`Open ${which} in Series`, () => this.openSeries(all)) : null;
    const title = h("div", { class: "tg-incident-title" }, h("h3", {}, `What was found first${more}`), together);
    sections.push(h("section", {}, title, h("ul", { class: "tg-evidences" }, ...cards)));
    if (told.moved.length) add("What moved it", list(told.moved));
    if (told.along.length) add("What moved along", list(told.along));
    this.body.replaceChildren(...sections);
    this.redraw();
  }

  /** Draw the charts as wide as there is room. */
  redraw(): void {
    const { told, evidence } = this;
    if (!told || !evidence || !this.element.isConnected) return;
    this.charts.forEach((room, n) => {
      const row = evidence.told.series.findIndex(({ id }) => id === told.evidence[n]);
      const width = Math.max(CHART.least, room.clientWidth);
      if (row >= 0 && !hasPoints(evidence, row)) room.replaceChildren(h("span", { class: "tg-muted" }, "This is about the partition as a whole; the calendar shows it."));
      else if (row >= 0) room.replaceChildren(smallChart(this.stage.theme, evidence, row, width, CHART.height));
      else room.replaceChildren(h("span", { class: "tg-muted" }, "This series is not there any more."));
    });
  }

  private openSeries(ids: number[]): void {
    const { since = null, first = null } = this.told ?? {};
    this.stage.go("series", { ids, focus: labelOf(this.stage.catalogue, since, first) });
  }

  /** Say something of the incident, unless others spoke since it was shown. */
  private async say(label: string): Promise<void> {
    const { told, stage } = this;
    if (!told) return;
    const buttons = [...this.actions.querySelectorAll("button")];
    buttons.forEach((one) => (one.disabled = true));
    try {
      const answer = await stage.link.ask<Incident>("say", { incident: told.incident, label, note: this.note.value.trim(), seen: told.revision });
      this.drafts.delete(told.incident);
      if (this.told?.incident !== told.incident) return;
      this.note.value = "";
      this.conflict.hidden = true;
      this.show(answer.told);
      this.spoken(answer.told, true);
    } catch (error) {
      buttons.forEach((one) => (one.disabled = false));
      if (error instanceof KernelError && error.kind === "ConflictError") await this.decideAgain(told);
      else stage.fail(error);
    }
  }

  /** Show what others said meanwhile; what was typed stays. */
  private async decideAgain(before: Incident): Promise<void> {
    try {
      const { told } = await this.stage.link.ask<Incident>("incident", { incident: before.incident });
      if (this.told?.incident !== before.incident) return;
      this.show(told);
      this.spoken(told, false);
      const since = newer(before.said, told.said);
      this.conflict.replaceChildren(
        h("strong", {}, "Others spoke since you looked, so nothing was said yet:"),
        h("ol", { class: "tg-said" }, ...since.map(saying)),
        h("span", {}, `It is ${told.status} now. Your note is kept; decide again.`),
      );
      this.conflict.hidden = false;
      this.note.focus();
    } catch (error) {
      this.stage.fail(error);
    }
  }
}

/** Detectors of whole partitions, such as of missing ones, have series without values. */
function hasPoints({ arrays, shapes }: Answer<SeriesTold>, row: number): boolean {
  const width = shapes.status[1];
  return arrays.status.subarray(row * width, (row + 1) * width).some((status) => status !== 0);
}
