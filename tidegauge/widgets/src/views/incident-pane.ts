// Incident pane: headline, evidence charts, causes, labels, and the form to add a label.

import { renderEvidenceChart, type SeriesAnswer } from "../chart/series-chart";
import { columnsAround, cropColumns } from "../data/crop";
import { formatIsoTime, pluralize } from "../data/format";
import { KernelError } from "../data/kernel";
import type { IncidentAnswer } from "../data/protocol";
import { columnLabel } from "../data/timeseries";
import { button, h, renderName } from "../ui/dom";
import { labelItem, labelsSince } from "../ui/labels";
import { severityBadge } from "../ui/severity";
import type { Shell } from "../ui/shell";

const ACTIONS: Record<string, { text: string; title: string }> = {
  acknowledged: { text: "Acknowledge", title: "Someone is investigating" },
  expected: { text: "Expected", title: "Known cause: its points are excluded from training" },
  resolved: { text: "Resolve", title: "The problem is over" },
  reopened: { text: "Reopen", title: "Undo the last decision and open it again" },
};
/** Labels available in each status. */
const AVAILABLE: Record<string, string[]> = {
  open: ["acknowledged", "expected", "resolved"],
  acknowledged: ["resolved", "expected", "reopened"],
  expected: ["reopened"],
  resolved: ["reopened", "expected"],
};
const CHART = { least: 250, height: 130 };

export class IncidentPane {
  readonly element: HTMLElement;
  private readonly head = h("div", { class: "tg-incident-head" });
  private readonly note = h("textarea", { rows: "2", placeholder: "Note (optional)", "aria-label": "Note" });
  private readonly actions = h("div", { class: "tg-incident-actions" });
  private readonly conflict = h("div", { class: "tg-conflict", role: "alert", hidden: true });
  private readonly form: HTMLElement;
  private readonly labels = h("section", {});
  private readonly body = h("div", { class: "tg-incident-body" });
  private readonly empty = h("p", { class: "tg-empty" });
  private readonly drafts = new Map<number, string>();
  private incident: IncidentAnswer | null = null;
  private evidence: SeriesAnswer | null = null;
  private key = "";
  private charts: HTMLElement[] = [];

  constructor(
    private readonly shell: Shell,
    private readonly onLabelled: (incident: IncidentAnswer, own: boolean) => void,
  ) {
    this.form = h("div", { class: "tg-incident-form" }, this.conflict, this.note, this.actions);
    this.note.addEventListener("input", () => this.incident && this.drafts.set(this.incident.incident, this.note.value));
    this.element = h("article", { class: "tg-incident", tabindex: "-1", "aria-label": "The incident" }, this.empty, this.head, this.form, this.labels, this.body);
    this.clear("");
  }

  /** Show a text instead of an incident. */
  clear(text: string): void {
    this.incident = null;
    this.key = "";
    this.element.removeAttribute("aria-busy");
    this.empty.textContent = text;
    this.empty.hidden = false;
    for (const part of [this.head, this.form, this.labels, this.body]) part.hidden = true;
  }

  /** Fetch and show an incident, unless it is no longer current when the answer arrives. */
  async load(id: number, isCurrent: () => boolean): Promise<void> {
    const key = `${id} ${this.shell.catalogue.commits}`;
    if (this.key === key) {
      // The size or the theme may have changed while another view was visible.
      this.redraw();
      return;
    }
    this.element.setAttribute("aria-busy", "true");
    try {
      const { data: incident } = await this.shell.link.ask("incident", { incident: id });
      const evidence = await this.shell.link.ask("series", { ids: incident.evidence });
      if (!isCurrent()) return;
      this.key = key;
      this.evidence = cropColumns(evidence, ...columnsAround(evidence.arrays.times, incident.since, incident.until));
      this.show(incident);
    } finally {
      if (isCurrent()) this.element.removeAttribute("aria-busy");
    }
  }

  private show(incident: IncidentAnswer): void {
    const changed = this.incident?.incident !== incident.incident;
    this.incident = incident;
    this.empty.hidden = true;
    for (const part of [this.head, this.form, this.labels, this.body]) part.hidden = false;
    if (changed) {
      this.note.value = this.drafts.get(incident.incident) ?? "";
      this.conflict.hidden = true;
    }
    const range = incident.first === incident.last ? [renderName(incident.first)] : [renderName(incident.first), " to ", renderName(incident.last)];
    this.head.replaceChildren(
      h("h2", {}, renderName(incident.headline, 300)),
      h(
        "div",
        { class: "tg-incident-facts" },
        severityBadge(incident.severity),
        h("span", { class: "tg-inbox-status" }, incident.status),
        h("span", {}, ...range),
        h("span", { class: "tg-muted" }, `${pluralize(incident.anomalies, "anomaly", "anomalies")} in ${pluralize(incident.series, "series", "series")} of `, renderName(incident.dataset, 60)),
        h("span", { class: "tg-muted" }, `incident ${incident.incident}, updated ${formatIsoTime(incident.updated_at)}`),
      ),
    );
    this.showActions(incident);
    this.showLabels(incident);
    this.showBody(incident);
    if (changed) this.element.scrollTop = 0;
  }

  private showActions(incident: IncidentAnswer): void {
    const { writable, catalogue } = this.shell;
    this.note.hidden = !writable;
    if (!writable) {
      this.actions.replaceChildren(h("span", { class: "tg-muted" }, "The repository was opened read-only: incidents cannot be labelled here."));
      return;
    }
    const buttons = (AVAILABLE[incident.status] ?? AVAILABLE.open).map((label) =>
      button(ACTIONS[label].text, () => void this.addLabel(label), { title: ACTIONS[label].title, "data-label": label }),
    );
    buttons[0].classList.add("tg-primary");
    this.actions.replaceChildren(...buttons, h("span", { class: "tg-muted" }, "as ", renderName(catalogue.by, 40)));
  }

  /** Show the labels, scrolled down to the newest. */
  private showLabels({ said: labels }: IncidentAnswer): void {
    const list = h("ol", { class: "tg-said-list", tabindex: "0", "aria-label": "Comments" }, ...labels.map(labelItem));
    this.labels.replaceChildren(...(labels.length ? [h("h3", {}, "Comments"), list] : [h("p", { class: "tg-muted" }, "No comments yet.")]));
    list.scrollTop = list.scrollHeight;
  }

  private showBody(incident: IncidentAnswer): void {
    const sections: HTMLElement[] = [];
    const add = (title: string, ...children: Node[]) => sections.push(h("section", {}, h("h3", {}, title), ...children));
    const list = (texts: readonly string[]) => h("ul", {}, ...texts.map((text) => h("li", {}, renderName(text, 600))));
    this.charts = incident.evidence.map(() => h("div", { class: "tg-evidence-chart", style: `height:${CHART.height}px` }));
    const cards = incident.evidence.map((id, n) => {
      const row = this.evidence?.data.series.findIndex((series) => series.id === id) ?? -1;
      const hasValues = row < 0 || hasPoints(this.evidence!, row);
      // The calendar shows the selected dataset only.
      const calendar = !hasValues && incident.dataset === this.shell.dataset;
      const open = hasValues
        ? button("Open series", () => this.openSeries([id]), { "aria-label": `Open series: ${incident.first_found[n]}` })
        : calendar && button("Open calendar", () => this.shell.go("partitions", { partition: incident.last }));
      return h("li", { class: "tg-evidence" }, this.charts[n], h("div", { class: "tg-evidence-text" }, renderName(incident.first_found[n], 300), open || null));
    });
    const unseen = incident.series - incident.evidence.length;
    const more = unseen > 0 ? ` (of ${pluralize(incident.series, "series", "series")})` : "";
    const { all_series: all } = incident;
    const which = all.length < incident.series ? `the first ${all.length}` : `all ${all.length}`;
    const together = all.length > 1 ? button(`Open ${which} in Series`, () => this.openSeries(all)) : null;
    const title = h("div", { class: "tg-incident-title" }, h("h3", {}, `Found first${more}`), together);
    sections.push(h("section", {}, title, h("ul", { class: "tg-evidences" }, ...cards)));
    if (incident.moved.length) add("Likely causes", list(incident.moved));
    if (incident.along.length) add("Changed at the same time", list(incident.along));
    this.body.replaceChildren(...sections);
    this.redraw();
  }

  /** Draw the evidence charts at the available width. */
  redraw(): void {
    const { incident, evidence } = this;
    if (!incident || !evidence || !this.element.isConnected) return;
    this.charts.forEach((holder, n) => {
      const row = evidence.data.series.findIndex(({ id }) => id === incident.evidence[n]);
      const width = Math.max(CHART.least, holder.clientWidth);
      if (row >= 0 && !hasPoints(evidence, row)) holder.replaceChildren(h("span", { class: "tg-muted" }, "A partition-level anomaly; see the calendar."));
      else if (row >= 0) holder.replaceChildren(renderEvidenceChart(this.shell.theme, evidence, row, width, CHART.height));
      else holder.replaceChildren(h("span", { class: "tg-muted" }, "This series no longer exists."));
    });
  }

  private openSeries(ids: readonly number[]): void {
    const { since = null, first = null } = this.incident ?? {};
    this.shell.go("series", { ids, focus: columnLabel(this.shell.catalogue, since, first) });
  }

  /** Label the incident, unless others labelled it since it was shown. */
  private async addLabel(label: string): Promise<void> {
    const { incident, shell } = this;
    if (!incident) return;
    const buttons = [...this.actions.querySelectorAll("button")];
    buttons.forEach((element) => (element.disabled = true));
    try {
      const answer = await shell.link.ask("say", { incident: incident.incident, label, note: this.note.value.trim(), seen: incident.revision });
      this.drafts.delete(incident.incident);
      if (this.incident?.incident !== incident.incident) return;
      this.note.value = "";
      this.conflict.hidden = true;
      this.show(answer.data);
      this.onLabelled(answer.data, true);
    } catch (error) {
      buttons.forEach((element) => (element.disabled = false));
      if (error instanceof KernelError && error.kind === "ConflictError") await this.showConflict(incident);
      else shell.showError(error);
    }
  }

  /** Show labels that others added meanwhile; the typed note is kept. */
  private async showConflict(earlier: IncidentAnswer): Promise<void> {
    try {
      const { data: incident } = await this.shell.link.ask("incident", { incident: earlier.incident });
      if (this.incident?.incident !== earlier.incident) return;
      this.show(incident);
      this.onLabelled(incident, false);
      const added = labelsSince(earlier.said, incident.said);
      this.conflict.replaceChildren(
        h("strong", {}, "Others added labels meanwhile, so yours was not saved:"),
        h("ol", { class: "tg-said" }, ...added.map(labelItem)),
        h("span", {}, `The incident is now ${incident.status}. Your note is kept; please decide again.`),
      );
      this.conflict.hidden = false;
      this.note.focus();
    } catch (error) {
      this.shell.showError(error);
    }
  }
}

/** Check that a row has values; partition-level detectors, such as for missing partitions, have series without any. */
function hasPoints({ arrays, shapes }: SeriesAnswer, row: number): boolean {
  const width = shapes.status[1];
  return arrays.status.subarray(row * width, (row + 1) * width).some((status) => status !== 0);
}
