// Incident pane: headline, actions, the main chart, causes, further evidence, timeline.

import { drawnMarks, legendText } from "../chart/legend";
import { renderEvidenceChart, type SeriesAnswer } from "../chart/series-chart";
import { columnsAround, cropColumns, windowAround } from "../data/crop";
import { formatDuration, formatIsoTime, formatMetric, formatTime, formatValue, pluralize } from "../data/format";
import { KernelError } from "../data/kernel";
import type { IncidentAnswer, IncidentCause, IncidentCompanion, IncidentEvent, IncidentPart, OtherIncident } from "../data/protocol";
import { columnLabel } from "../data/timeseries";
import { ACTIONS, actionButton, authorField, DECISIONS, SNOOZE_LENGTHS } from "../ui/actions";
import { Card } from "../ui/card";
import { button, externalLink, h, renderName } from "../ui/dom";
import { alignFigures } from "../ui/figures";
import { labelItem, labelsSince } from "../ui/labels";
import { severityBadge } from "../ui/severity";
import type { Shell } from "../ui/shell";
import { PaneState } from "../ui/state";
import type { UndoBar } from "../ui/undo";
import { failedCheck } from "./failures";

/** Check that a part is a large count, whose expectation is displayed without decimals. */
function isCount({ value, expected }: IncidentPart): boolean {
  return Number.isInteger(value) && expected !== null && Math.abs(expected) >= 1000;
}

const CHART_SIZE = { minWidth: 250, height: 130, mainHeight: 230 };
const NO_ACTION_HELP = "Point at an action to see how it affects training.";

/** Details of an incident, with a form for actions. */
export class IncidentPane {
  readonly element: HTMLElement;
  private readonly head = h("div", { class: "tg-incident-head" });
  private readonly note = h("textarea", { rows: "2", placeholder: "Note (optional)", "aria-label": "Note" });
  private readonly decisions = h("div", { class: "tg-incident-actions" });
  private readonly assignee = h("input", { "aria-label": "Assignee", placeholder: "Name", maxlength: "100" });
  private readonly snooze = h("select", { "aria-label": "Snooze for" }, ...SNOOZE_LENGTHS.map(([seconds, text]) => h("option", { value: seconds }, text)));
  private readonly help = h("p", { class: "tg-muted tg-action-help" }, NO_ACTION_HELP);
  private readonly author: ReturnType<typeof authorField>;
  private readonly otherActions: HTMLElement;
  private readonly readOnly = h("span", { class: "tg-muted" }, "The repository was opened read-only: incidents cannot be labeled here.");
  private readonly conflict = h("div", { class: "tg-conflict", role: "alert", hidden: true });
  private readonly form: HTMLElement;
  /** What happened, above the form; and everything else, below it. */
  private readonly picture = h("div", { class: "tg-incident-body" });
  private readonly body = h("div", { class: "tg-incident-body" });
  private readonly state = new PaneState();
  private readonly drafts = new Map<number, string>();
  private assigneeTyped = false;
  private incident: IncidentAnswer | null = null;
  private evidence: SeriesAnswer | null = null;
  private key = "";
  private charts: HTMLElement[] = [];

  constructor(
    private readonly shell: Shell,
    private readonly undoBar: UndoBar,
    private readonly onLabelled: (incident: IncidentAnswer, isOwn: boolean) => void,
  ) {
    this.author = authorField(shell);
    const actionFor = (name: string) => actionButton(name, this.help, () => void this.takeAction(name));
    this.otherActions = h(
      "div",
      { class: "tg-incident-actions" },
      actionFor("comment"),
      h("span", { class: "tg-group" }, this.assignee, actionFor("assign")),
      h("span", { class: "tg-group" }, this.snooze, actionFor("snooze")),
      this.author.element,
    );
    this.snooze.value = String(SNOOZE_LENGTHS[2][0]);
    this.form = h("div", { class: "tg-incident-form" }, this.conflict, this.note, this.decisions, this.otherActions, this.help, this.readOnly);
    this.note.addEventListener("input", () => this.incident && this.drafts.set(this.incident.incident, this.note.value));
    this.assignee.addEventListener("input", () => (this.assigneeTyped = true));
    this.element = h("article", { class: "tg-incident", tabindex: "-1", "aria-label": "The incident" }, this.state.element, this.head, this.picture, this.form, this.body);
    this.clear("");
  }

  /** Show a message instead of an incident. */
  clear(text: string): void {
    this.incident = null;
    this.key = "";
    this.element.removeAttribute("aria-busy");
    this.form.inert = false;
    this.state.empty(text);
    for (const part of [this.head, this.picture, this.form, this.body]) part.hidden = true;
  }

  /** Show that an incident could not be loaded. */
  fail(error: unknown, retry: () => void): void {
    this.clear("");
    this.state.error(error, retry);
  }

  /** Headline of the displayed incident; null without one. */
  get headline(): string | null {
    return this.incident?.headline ?? null;
  }

  /** First and last label of the charts; undefined before they are drawn. */
  get columns(): string[] | undefined {
    const labels = this.incident && this.evidence?.data.labels;
    return labels?.length ? [labels[0], labels[labels.length - 1]] : undefined;
  }

  /** Fetch and show an incident, unless it is no longer current when the answer arrives. */
  async load(id: number, isCurrent: () => boolean): Promise<void> {
    const key = `${id} ${this.shell.catalogue.commits}`;
    if (this.key === key) {
      // The size or the theme may have changed while another view was visible.
      this.redraw();
      return;
    }
    if (!this.incident) this.state.loading();
    this.element.setAttribute("aria-busy", "true");
    // Until the answer arrives, the form belongs to the previous incident. It stays active if the same incident is read again.
    this.form.inert = this.incident?.incident !== id;
    try {
      const { data: incident } = await this.shell.link.ask("incident", { incident: id });
      const evidence = await this.shell.link.ask("series", { ids: incident.evidence });
      if (!isCurrent()) return;
      this.key = key;
      this.evidence = cropColumns(evidence, ...columnsAround(evidence.arrays.times, incident.since, incident.until));
      this.show(incident);
    } finally {
      if (isCurrent()) {
        this.element.removeAttribute("aria-busy");
        this.form.inert = false;
      }
    }
  }

  private show(incident: IncidentAnswer): void {
    const changed = this.incident?.incident !== incident.incident;
    this.incident = incident;
    this.state.clear();
    for (const part of [this.head, this.picture, this.form, this.body]) part.hidden = false;
    if (changed) {
      this.note.value = this.drafts.get(incident.incident) ?? "";
      this.conflict.hidden = true;
      this.help.textContent = NO_ACTION_HELP;
      this.assigneeTyped = false;
    }
    this.showHead(incident);
    this.showActions(incident);
    this.showBody(incident);
    if (changed) this.element.scrollTop = 0;
  }

  private showHead(incident: IncidentAnswer): void {
    const { duration: seconds, first, last, dataset } = incident;
    const range = first === last ? [renderName(first)] : [renderName(first), " to ", renderName(last)];
    const duration = seconds !== null && first !== last ? ` (${formatDuration(seconds)})` : "";
    const table = button("", () => this.shell.go("overview", { table: dataset }), { class: "tg-link", title: "Open the heat map of this table" });
    table.append(renderName(dataset, 60));
    const facts = [
      severityBadge(incident.severity),
      h("span", { class: "tg-inbox-status" }, incident.status),
      table,
      h("span", {}, ...range, duration),
      h("span", { class: "tg-muted" }, `${pluralize(incident.anomalies, "anomaly", "anomalies")} in ${pluralize(incident.series, "series", "series")}`),
      h("span", { class: "tg-muted" }, `incident ${incident.incident}, detected ${formatIsoTime(incident.opened_at)}`),
    ];
    if (incident.assignee) facts.push(h("span", {}, "assigned to ", renderName(incident.assignee, 40)));
    if (isFuture(incident.snoozed_until)) facts.push(h("span", {}, `snoozed until ${formatIsoTime(incident.snoozed_until)} UTC`));
    if (incident.runbook) facts.push(h("span", {}, "runbook: ", externalLink(incident.runbook)));
    if (incident.run) facts.push(h("span", { class: "tg-muted" }, `measured by run ${incident.run.id} of ${formatIsoTime(incident.run.started_at)}`));
    if (incident.run?.job) facts.push(h("span", {}, "job: ", externalLink(incident.run.job)));
    this.head.replaceChildren(h("h2", {}, renderName(incident.headline, 300)), h("div", { class: "tg-incident-facts" }, ...facts));
  }

  private showActions(incident: IncidentAnswer): void {
    const { writable } = this.shell;
    for (const part of [this.note, this.decisions, this.otherActions, this.help]) part.hidden = !writable;
    this.readOnly.hidden = writable;
    if (!writable) return;
    const buttons = (DECISIONS[incident.status] ?? DECISIONS.open).map((name) => actionButton(name, this.help, () => void this.takeAction(name)));
    buttons[0].classList.add("tg-primary");
    this.decisions.replaceChildren(...buttons);
    this.author.show();
    if (!this.assigneeTyped) this.assignee.value = incident.assignee ?? this.shell.author ?? "";
  }

  // --- body

  private showBody(incident: IncidentAnswer): void {
    this.charts = incident.evidence.map((_, n) => h("div", { class: "tg-evidence-chart", style: `height:${n ? CHART_SIZE.height : CHART_SIZE.mainHeight}px` }));
    const cards = incident.evidence.map((id, n) => this.card(incident, id, n));
    const sections: (HTMLElement | null)[] = [
      incident.group_headline ? section("Shared cause", h("p", {}, renderName(incident.group_headline, 600)), h("ul", {}, ...incident.other_incidents.map((other) => this.otherIncident(other)))) : null,
      incident.causes.length ? section("Likely causes", ...incident.causes.map((cause) => this.cause(cause))) : null,
      incident.unmeasured.length ? section("Not measured", h("ul", {}, ...incident.unmeasured.map((text) => h("li", {}, text)))) : null,
      incident.companions.length ? section("Changed at the same time", h("ul", {}, ...incident.companions.map((companion) => this.companion(incident, companion)))) : null,
      sentences("Measured again", incident.restated),
      incident.checks.length ? section("Failed checks", h("ul", {}, ...incident.checks.map(failedCheck))) : null,
      sentences("Schema changes", incident.schema),
      this.moreEvidence(incident, cards.slice(1)),
      this.downstream(incident),
      section("Timeline", h("ol", { class: "tg-timeline" }, ...incident.timeline.map(eventItem))),
    ];
    this.picture.replaceChildren(section("What happened", cards[0]?.element ?? null));
    this.body.replaceChildren(...sections.filter((part) => part !== null));
    this.redraw();
  }

  /** Series that changed at the same time, with a button that opens it together with the main series. */
  private companion(incident: IncidentAnswer, { summary, series }: IncidentCompanion): HTMLElement {
    const open = series === null ? null : button("Open", () => this.openSeries([series, ...incident.evidence.slice(0, 1)]), { class: "tg-link", "aria-label": `Open series: ${summary}` });
    return h("li", {}, renderName(summary, 600), " ", open);
  }

  /** Links to the heat maps of the tables that are derived from this table. */
  private downstream({ downstream }: IncidentAnswer): HTMLElement | null {
    if (!downstream.length) return null;
    const links = downstream.map((name) => {
      const open = button("", () => this.shell.go("overview", { table: name }), { class: "tg-link", "aria-label": `Open the heat map of ${name}` });
      open.append(renderName(name, 60));
      return h("li", {}, open);
    });
    return section("Downstream", h("ul", { class: "tg-downstream" }, ...links));
  }

  private otherIncident({ incident, dataset }: OtherIncident): HTMLElement {
    const open = button("", () => this.shell.go("incidents", { id: incident, table: null }), { class: "tg-link", "aria-label": `Open incident ${incident}` });
    open.append(renderName(dataset, 60));
    return h("li", {}, open);
  }

  /** Card with the chart of a series, its explanation and a button that opens it. */
  private card(incident: IncidentAnswer, id: number, n: number): Card {
    const row = this.evidence?.data.series.findIndex((series) => series.id === id) ?? -1;
    const hasValues = row < 0 || hasPoints(this.evidence!, row);
    const text = incident.explanations[n];
    const open = hasValues
      ? button("Open series", () => this.openSeries([id]), { "aria-label": `Open series: ${text}` })
      : button("Open calendar", () => this.shell.go("partitions", { partition: incident.last }, incident.dataset));
    const catalogueRow = this.shell.catalogue.rowOf(id);
    const name = catalogueRow >= 0 ? this.shell.catalogue.title(catalogueRow) : row < 0 ? "" : seriesName(this.evidence!, row);
    const card = new Card("", this.shell, [this.charts[n], h("div", { class: "tg-evidence-text" }, renderName(text, 300))], { class: "tg-evidence", level: 4, tag: n ? "li" : "section" });
    card.setTitle(renderName(name, 80));
    card.tools.prepend(open);
    if (n === 0 && row >= 0) {
      card.foot.append(h("span", { class: "tg-muted tg-evidence-legend" }, legendText({ band: true, ...drawnMarks(this.evidence!, [row]) })));
      card.foot.hidden = false;
    }
    return card;
  }

  private moreEvidence(incident: IncidentAnswer, cards: Card[]): HTMLElement | null {
    const { all_series: allSeries } = incident;
    if (!cards.length && allSeries.length < 2) return null;
    const seriesCount = allSeries.length < incident.series ? `the first ${allSeries.length}` : `all ${allSeries.length}`;
    const openAll = allSeries.length > 1 ? button(`Open ${seriesCount} in Series`, () => this.openSeries(allSeries)) : null;
    const cardCount = incident.series > cards.length + 1 ? ` (${cards.length} of ${pluralize(incident.series - 1, "other")})` : "";
    const title = h("div", { class: "tg-incident-title" }, h("h3", {}, `Further series${cardCount}`), openAll);
    return h("section", {}, title, h("ul", { class: "tg-evidences" }, ...cards.map(({ element }) => element)));
  }

  /** Cause: a sentence, and a table of parts with buttons that open the part's series together with the metric. */
  private cause(cause: IncidentCause): HTMLElement {
    const head = h("tr", {}, ...[cause.dimension, "Value", "Expected"].map((text, n) => h("th", { scope: "col", class: n ? "tg-figure" : undefined }, renderName(text, 40))), h("th", { scope: "colgroup", colspan: 2 }, "Share of the change"), h("th", { scope: "col" }, h("span", { class: "tg-visually-hidden" }, "Open")));
    const rows = cause.parts.map((part) => this.part(cause, part));
    const table = h("table", {}, h("thead", {}, head), h("tbody", {}, ...rows));
    alignFigures(table);
    return h("div", { class: "tg-cause" }, h("p", {}, renderName(cause.summary, 600)), table);
  }

  private part(cause: IncidentCause, part: IncidentPart): HTMLElement {
    const { series } = part;
    const format = (value: number | null) => formatMetric(value, cause.scale);
    const ids = [series, cause.series].filter((id) => id !== null);
    const bar = h("span", { class: "tg-cause-share", "aria-hidden": "true" });
    bar.style.width = `${60 * Math.min(1, Math.abs(part.share ?? 0))}px`;
    const open = series === null ? null : button("Open series", () => this.openSeries(ids), { "aria-label": `Open series: ${cause.metric}, ${cause.dimension} ${part.name}` });
    return h(
      "tr",
      {},
      h("th", { scope: "row" }, renderName(part.name, 40)),
      h("td", { class: "tg-figure" }, format(part.value)),
      h("td", { class: "tg-figure" }, format(isCount(part) ? Math.round(part.expected!) : part.expected)),
      h("td", {}, bar),
      h("td", { class: "tg-figure" }, formatValue(part.share, true)),
      h("td", {}, open),
    );
  }

  /** Draw the evidence charts at the available width. */
  redraw(): void {
    const { incident, evidence } = this;
    if (!incident || !evidence || !this.element.isConnected) return;
    this.charts.forEach((holder, n) => {
      const row = evidence.data.series.findIndex(({ id }) => id === incident.evidence[n]);
      const width = Math.max(CHART_SIZE.minWidth, holder.clientWidth);
      if (row >= 0 && !hasPoints(evidence, row)) {
        holder.style.height = "auto";
        holder.replaceChildren(h("span", { class: "tg-muted" }, "This anomaly concerns entire partitions. Open the calendar to see them."));
      }
      else if (row >= 0) holder.replaceChildren(renderEvidenceChart(this.shell.theme, evidence, row, width, n ? CHART_SIZE.height : CHART_SIZE.mainHeight));
      else holder.replaceChildren(h("span", { class: "tg-muted" }, "This series no longer exists."));
    });
  }

  /** Open series in the weeks around the incident. */
  private openSeries(ids: readonly number[]): void {
    const { since = null, until = null, first = null } = this.incident ?? {};
    this.shell.go("series", { ids, focus: columnLabel(this.shell.catalogue, since, first), ...windowAround(since, until) });
  }

  // --- actions

  /** Take an action on the incident, unless others labeled it since this page read it. */
  private async takeAction(action: string): Promise<void> {
    const { incident, shell } = this;
    if (!incident) return;
    const note = this.note.value.trim();
    if (action === "comment" && !note) {
      shell.announce("Write the comment first.");
      this.note.focus();
      return;
    }
    const author = this.author.requireName();
    if (author === null) return;
    const buttons = [...this.form.querySelectorAll("button")];
    buttons.forEach((element) => (element.disabled = true));
    const details = {
      ...(action === "assign" && { assignee: this.assignee.value.trim() }),
      ...(action === "snooze" && { until: Date.now() / 1000 + Number(this.snooze.value) }),
    };
    try {
      const answer = await shell.link.ask("label_incident", { incident: incident.incident, action, note, author, revision: incident.revision, ...details });
      this.drafts.delete(incident.incident);
      this.undoBar.offer(`${ACTIONS[action].label} was saved for incident ${incident.incident}.`, () => void this.undo(incident, answer.data));
      if (this.incident?.incident !== incident.incident) return;
      this.note.value = "";
      if (action === "assign") this.assigneeTyped = false;
      this.conflict.hidden = true;
      this.show(answer.data);
      shell.announce(`${ACTIONS[action].label}: saved for incident ${incident.incident}.`);
      this.onLabelled(answer.data, true);
    } catch (error) {
      if (error instanceof KernelError && error.kind === "ConflictError") await this.showConflict(incident);
      else shell.showError(error);
    } finally {
      buttons.forEach((element) => (element.disabled = false));
    }
  }

  /** Withdraw the labels of an action. */
  private async undo(before: IncidentAnswer, after: IncidentAnswer): Promise<void> {
    const author = this.author.requireName();
    if (author === null) return;
    try {
      const request = { incident: after.incident, action: "undo", author, before: before.revision, revision: after.revision };
      const { data } = await this.shell.link.ask("label_incident", request);
      if (this.incident?.incident === after.incident) this.show(data);
      this.shell.announce(`Undone: incident ${after.incident} is ${data.status}.`);
      this.onLabelled(data, true);
    } catch (error) {
      if (error instanceof KernelError && error.kind === "ConflictError" && this.incident?.incident === after.incident) await this.showConflict(after);
      else this.shell.showError(error);
    }
  }

  /** Show the labels that others added meanwhile, and keep the typed note. */
  private async showConflict(earlier: IncidentAnswer): Promise<void> {
    try {
      const { data: incident } = await this.shell.link.ask("incident", { incident: earlier.incident });
      if (this.incident?.incident !== earlier.incident) return;
      this.show(incident);
      this.onLabelled(incident, false);
      const added = labelsSince(earlier.labels, incident.labels);
      this.conflict.replaceChildren(
        h("strong", {}, "Label not saved: others added labels after you read the incident."),
        h("ol", { class: "tg-label" }, ...added.map(labelItem)),
        h("span", {}, `The incident is now ${incident.status}. Your note is kept. Choose an action again.`),
      );
      this.conflict.hidden = false;
      this.note.focus();
    } catch (error) {
      this.shell.showError(error);
    }
  }
}

function section(title: string, ...children: (Node | null)[]): HTMLElement {
  return h("section", {}, h("h3", {}, title), ...children);
}

/** Section of sentences; null without any. */
function sentences(title: string, texts: readonly string[]): HTMLElement | null {
  return texts.length ? section(title, h("ul", {}, ...texts.map((text) => h("li", {}, renderName(text, 600))))) : null;
}

/** Check that a time is in the future. */
export function isFuture(time: string | null): boolean {
  return time !== null && Date.parse(time) > Date.now();
}

function seriesName({ data }: SeriesAnswer, row: number): string {
  const { name, instance, segment } = data.series[row];
  return `${name}${instance === "*" ? "" : ` ${instance}`}${segment ? ` · ${segment}` : ""}`;
}

const EVENT_TEXTS: Record<string, string> = {
  found: "detected",
  notified: "notified",
  "notification failed": "notification failed:",
  restated: "measured again:",
  comment: "comment",
  snoozed: "snoozed",
  assigned: "assigned",
};

/** Beginning of the note of a label that undoes others, which it names. */
const WITHDRAWN = "withdrawn: ";

/** Entry of the timeline. */
function eventItem(event: IncidentEvent): HTMLElement {
  if (event.text?.startsWith(WITHDRAWN)) {
    const time = h("span", { class: "tg-muted" }, `${formatTime(Date.parse(event.at) / 1000)} `);
    return h("li", { "data-kind": "undone" }, time, h("b", {}, "undone"), `: ${event.text.slice(WITHDRAWN.length)} by `, renderName(event.by, 60));
  }
  const metric = event.name === null ? [] : [" of ", renderName(`${event.name} ${event.instance === "*" ? "" : (event.instance ?? "")}`.trim(), 60)];
  const partition = event.partition === null ? [] : [" in ", renderName(event.partition, 60)];
  const sink = event.kind.startsWith("notif");
  const author = event.by === null || sink ? [] : [" by ", renderName(event.by, 60)];
  const until = event.until === null ? "" : ` until ${formatIsoTime(event.until)} UTC`;
  const assignee = event.kind === "assigned" ? [event.text === null ? " to nobody" : " to ", renderName(event.text, 60)] : [];
  const inline = sink || event.kind === "restated";
  const text = event.text === null || event.kind === "assigned" ? null : inline ? h("span", {}, " ", renderName(event.text, 300)) : h("div", { class: "tg-label-note" }, renderName(event.text, 2000));
  return h(
    "li",
    { "data-kind": event.kind, class: event.withdrawn ? "tg-withdrawn" : undefined },
    h("span", { class: "tg-muted" }, `${formatTime(Date.parse(event.at) / 1000)} `),
    h("b", {}, EVENT_TEXTS[event.kind] ?? event.kind),
    event.withdrawn ? h("span", { class: "tg-muted" }, " (undone)") : null,
    sink ? h("span", {}, " ", renderName(event.by, 60)) : null,
    ...assignee,
    ...metric,
    ...partition,
    until,
    ...author,
    text,
  );
}

/** Check that a row has values; partition-level detectors, such as for missing partitions, have series without any. */
function hasPoints({ arrays, shapes }: SeriesAnswer, row: number): boolean {
  const width = shapes.status[1];
  return arrays.status.subarray(row * width, (row + 1) * width).some((status) => status !== 0);
}
