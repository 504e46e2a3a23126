// What was said of an incident, by whom and why.

import { h, named } from "./dom";
import { moment } from "./format";

export interface Said {
  label: string;
  note: string | null;
  by: string | null;
  created_at: string;
  partition: string | null;
  name: string | null;
  instance: string | null;
}

/** What was said since, as far as it was not known before. */
export function newer(before: readonly Said[], now: readonly Said[]): Said[] {
  const key = (one: Said) => JSON.stringify([one.created_at, one.label, one.by, one.note, one.partition, one.name]);
  const known = new Set(before.map(key));
  return now.filter((one) => !known.has(key(one)));
}

/** One entry of the list of what was said. */
export function saying(said: Said): HTMLElement {
  const about = said.name === null ? [] : [" of ", named(`${said.name} ${said.instance === "*" ? "" : (said.instance ?? "")}`.trim(), 60)];
  const where = said.partition === null ? [] : [" in ", named(said.partition, 60)];
  return h(
    "li",
    {},
    h("span", { class: "tg-muted" }, `${written(said.created_at)} `),
    h("b", {}, said.label),
    ...about,
    ...where,
    " by ",
    named(said.by ?? "somebody", 60),
    said.note === null ? null : h("div", { class: "tg-said-note" }, named(said.note, 2000)),
  );
}

/** A time as the kernel writes it, to the minute; in UTC. */
export function written(time: string | null): string {
  return moment(time === null ? null : Date.parse(time) / 1000);
}
