// Labels of an incident: decision, author, time and note.

import { formatIsoTime } from "../data/format";
import type { IncidentLabel } from "../data/protocol";
import { h, renderName } from "./dom";

/** Labels added since an earlier state. */
export function labelsSince(earlier: readonly IncidentLabel[], now: readonly IncidentLabel[]): IncidentLabel[] {
  const key = (label: IncidentLabel) => JSON.stringify([label.created_at, label.label, label.by, label.note, label.partition, label.name]);
  const earlierKeys = new Set(earlier.map(key));
  return now.filter((label) => !earlierKeys.has(key(label)));
}

/** Entry of the list of labels. */
export function labelItem(label: IncidentLabel): HTMLElement {
  const metric = label.name === null ? [] : [" of ", renderName(`${label.name} ${label.instance === "*" ? "" : (label.instance ?? "")}`.trim(), 60)];
  const partition = label.partition === null ? [] : [" in ", renderName(label.partition, 60)];
  return h(
    "li",
    {},
    h("span", { class: "tg-muted" }, `${formatIsoTime(label.created_at)} `),
    h("b", {}, label.label),
    ...metric,
    ...partition,
    " by ",
    renderName(label.by ?? "unknown", 60),
    label.note === null ? null : h("div", { class: "tg-label-note" }, renderName(label.note, 2000)),
  );
}
