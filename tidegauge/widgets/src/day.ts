// What is known of one partition, beside the calendar.

import { button, h, named } from "./dom";
import { many, moment, number } from "./format";
import { delayOf, MEANINGS, type Partition, SYMBOLS, titleOf } from "./partition";
import { labelOf } from "./points";
import { written } from "./said";
import { severityOf } from "./severity";
import type { Stage } from "./stage";

interface Told {
  anomalies: {
    id: number;
    incident_id: number | null;
    series_id: number;
    severity: string;
    status: string;
    explanation: string;
  }[];
  total: number;
  versions: { version: number; rows: number | null; arrived_at: string | null; measured_at: string | null }[];
}

export class DayPane {
  readonly element = h("aside", { class: "tg-day", "aria-label": "The partition" });
  private shown: string | null = null;
  private turn = 0;

  constructor(
    private readonly stage: Stage,
    private readonly compare: () => void,
  ) {}

  clear(text: string): void {
    this.shown = null;
    this.turn++;
    this.element.replaceChildren(h("p", { class: "tg-empty" }, text));
  }

  /** What was shown may be out of date. */
  forget(): void {
    this.shown = null;
  }

  show(one: Partition, comparable: boolean): void {
    const of = JSON.stringify([this.stage.dataset, one.segment, one.name, one.time]);
    if (this.shown === of) return;
    this.shown = of;
    const turn = ++this.turn;
    const { dataset, link } = this.stage;
    const rest = h("div", {});
    const compare = button("Compare with a week before", this.compare, { class: "tg-primary", title: "Or with the partition before it, if there is none a week before" });
    compare.disabled = !comparable || one.name === null;
    this.element.replaceChildren(
      h("h2", {}, named(titleOf(one), 120)),
      h("p", {}, `${SYMBOLS[one.status]} ${MEANINGS[one.status]}`.trim(), one.late && one.status !== "late" ? "; it came late, too" : null),
      facts(one),
      h("div", { class: "tg-day-actions" }, compare),
      rest,
    );
    this.element.scrollTop = 0;
    if (one.name === null) return;
    void link.ask<Told>("day", { dataset, partition: one.name }).then(
      ({ told }) => turn === this.turn && rest.replaceChildren(...this.rest(told, one)),
      (error) => this.stage.fail(error),
    );
  }

  private rest(told: Told, one: Partition): HTMLElement[] {
    const { total, versions } = told;
    const found = told.anomalies.map((anomaly) => {
      const { incident_id: incident } = anomaly;
      return h(
        "li",
        {},
        h("div", {}, severityOf(anomaly.severity), h("span", { class: "tg-muted" }, ` ${anomaly.status}`)),
        named(anomaly.explanation, 300),
        h(
          "div",
          { class: "tg-day-actions" },
          button("Open series", () => this.openSeries(anomaly.series_id, one)),
          incident === null ? null : button(`Incident ${incident}`, () => this.stage.go("incidents", { id: incident, status: "" })),
        ),
      );
    });
    const left = total - found.length;
    const parts = [h("h3", {}, total ? many(total, "anomaly", "anomalies") : "No anomalies"), h("ul", { class: "tg-day-found" }, ...found)];
    if (left) parts.push(h("p", { class: "tg-muted" }, `and ${many(left, "more", "more")} of lower scores`));
    if (versions.length > 1) {
      const rows = versions.map((version) =>
        h("tr", {}, ...[version.version, number(version.rows), written(version.arrived_at), written(version.measured_at)].map((text) => h("td", {}, String(text)))),
      );
      const head = h("tr", {}, ...["Version", "Rows", "Arrived", "Measured"].map((text) => h("th", { scope: "col" }, text)));
      parts.push(h("h3", {}, "What it was before"), h("table", {}, head, ...rows));
    }
    return parts;
  }

  private openSeries(id: number, one: Partition): void {
    this.stage.go("series", { ids: [id], focus: labelOf(this.stage.catalogue, one.time, one.name) });
  }
}

function facts(one: Partition): HTMLElement {
  const told: [string, string][] = [
    ["Version", Number.isNaN(one.version) ? "" : String(one.version)],
    ["Rows", Number.isNaN(one.rows) ? "" : number(one.rows)],
    ["First seen", known(one.firstSeen)],
    ["Arrived", known(one.arrived)],
    ["Delay", delayOf(one)],
    ["Measured", known(one.measured)],
    ["Gone since", known(one.gone)],
  ];
  return h("dl", {}, ...told.filter(([, text]) => text).flatMap(([name, text]) => [h("dt", {}, name), h("dd", {}, text)]));
}

function known(seconds: number): string {
  return Number.isNaN(seconds) ? "" : `${moment(seconds)} UTC`;
}
