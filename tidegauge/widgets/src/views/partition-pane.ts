// Partition pane: facts, anomalies and versions of the partition selected in the calendar.

import { formatIsoTime, formatNumber, pluralize } from "../data/format";
import { delayText, formatKnownTime, type Partition, partitionTitle, mergeEqualTimes, STATUS_DESCRIPTIONS, STATUS_SYMBOLS } from "../data/partition";
import type { PartitionAnswer } from "../data/protocol";
import { columnLabel } from "../data/timeseries";
import { button, h, renderName } from "../ui/dom";
import { severityBadge } from "../ui/severity";
import type { Shell } from "../ui/shell";
import { emptyState, PaneState } from "../ui/state";

/** Details of a partition. */
export class PartitionPane {
  readonly element = h("aside", { class: "tg-partition", "aria-label": "Partition" });
  private shownKey: string | null = null;
  private requestNumber = 0;

  constructor(
    private readonly shell: Shell,
    private readonly onCompare: () => void,
  ) {}

  clear(text: string): void {
    this.shownKey = null;
    this.requestNumber++;
    this.element.replaceChildren(emptyState(text));
  }

  /** Mark the details as outdated, so that `show` fetches them again. */
  invalidate(): void {
    this.shownKey = null;
  }

  show(partition: Partition, comparable: boolean): void {
    const key = JSON.stringify([this.shell.dataset, partition.segment, partition.name, partition.time]);
    if (this.shownKey === key) return;
    this.shownKey = key;
    const requestNumber = ++this.requestNumber;
    const { dataset, link } = this.shell;
    const state = new PaneState();
    const details = h("div", {}, state.element);
    const compare = button("Compare with a week earlier", this.onCompare, { class: "tg-primary", title: "Compares with the previous partition if there is none a week earlier" });
    compare.disabled = !comparable || partition.name === null;
    this.element.replaceChildren(
      h("h2", {}, renderName(partitionTitle(partition), 120)),
      h("p", {}, `${STATUS_SYMBOLS[partition.status]} ${STATUS_DESCRIPTIONS[partition.status]}`.trim(), partition.late && partition.status !== "late" ? "; it was also late" : null),
      facts(partition),
      h("div", { class: "tg-partition-actions" }, compare),
      details,
    );
    this.element.scrollTop = 0;
    if (partition.name === null) return;
    state.loading();
    void link.ask("partition", { dataset, partition: partition.name }).then(
      ({ data }) => requestNumber === this.requestNumber && details.replaceChildren(...this.renderDetails(data, partition)),
      (error) => {
        if (requestNumber !== this.requestNumber) return;
        this.shownKey = null;
        state.error(error, () => this.show(partition, comparable));
      },
    );
  }

  private renderDetails(data: PartitionAnswer, partition: Partition): HTMLElement[] {
    const { total, versions } = data;
    // Group by incident, in the order of their worst anomalies.
    const incidents = [...new Set(data.anomalies.map(({ incident_id: incident }) => incident))];
    const anomalyLists = incidents.flatMap((incident) => {
      const open = incident === null ? null : button(`Incident ${incident}`, () => this.shell.go("incidents", { id: incident, status: "" }));
      const anomalies = data.anomalies.filter((anomaly) => anomaly.incident_id === incident);
      const items = anomalies.map((anomaly) =>
        h(
          "li",
          {},
          h("div", {}, severityBadge(anomaly.severity), h("span", { class: "tg-muted" }, ` ${anomaly.status}`)),
          renderName(anomaly.explanation, 300),
          h("div", { class: "tg-partition-actions" }, button("Open series", () => this.openSeries(anomaly.series_id, partition))),
        ),
      );
      return [...(open ? [h("div", { class: "tg-partition-actions" }, open)] : []), h("ul", { class: "tg-partition-anomalies" }, ...items)];
    });
    const omitted = total - data.anomalies.length;
    const parts = [h("h3", {}, total ? pluralize(total, "anomaly", "anomalies") : "No anomalies"), ...anomalyLists];
    if (omitted) parts.push(h("p", { class: "tg-muted" }, `and ${omitted.toLocaleString("en-US")} more with lower scores`));
    if (versions.length > 1) {
      const rows = versions.map((version) =>
        h("tr", {}, ...[version.version, formatNumber(version.rows), formatIsoTime(version.arrived_at), formatIsoTime(version.measured_at)].map((text) => h("td", {}, String(text)))),
      );
      const header = h("tr", {}, ...["Version", "Rows", "Arrived", "Measured"].map((text) => h("th", { scope: "col" }, text)));
      parts.push(h("h3", {}, "Versions"), h("table", {}, header, ...rows));
    }
    return parts;
  }

  private openSeries(id: number, partition: Partition): void {
    this.shell.go("series", { ids: [id], focus: columnLabel(this.shell.catalogue, partition.time, partition.name) });
  }
}

function facts(partition: Partition): HTMLElement {
  const entries: [string, string][] = [
    ["Version", Number.isNaN(partition.version) ? "" : String(partition.version)],
    ["Rows", Number.isNaN(partition.rows) ? "" : formatNumber(partition.rows)],
    ...mergeEqualTimes([["first seen", partition.firstSeen], ["arrived", partition.arrived], ["measured", partition.measured]]),
    ["Delay", delayText(partition)],
    ["Gone since", formatKnownTime(partition.gone)],
  ];
  return h("dl", {}, ...entries.filter(([, text]) => text).flatMap(([name, text]) => [h("dt", {}, name), h("dd", {}, text)]));
}
