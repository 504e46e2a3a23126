// How grave something is, by a mark and a word, so that colour is not needed.

import { h } from "./dom";

const MARKS: Record<string, string> = { error: "◆", warning: "▲", info: "●" };

export function markOf(severity: string): string {
  return MARKS[severity] ?? "●";
}

export function severityOf(severity: string): HTMLElement {
  const mark = h("span", { "aria-hidden": "true" }, `${markOf(severity)} `);
  return h("span", { class: "tg-severity", "data-severity": severity }, mark, severity);
}
