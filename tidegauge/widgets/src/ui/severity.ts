// Severity badge: a symbol and a word, so that the meaning does not depend on colour alone.

import { h } from "./dom";

const SYMBOLS: Record<string, string> = { error: "◆", warning: "▲", info: "●" };

/** Symbol of a severity. */
export function severityMark(severity: string): string {
  return SYMBOLS[severity] ?? "●";
}

/** Badge with symbol and name of a severity. */
export function severityBadge(severity: string): HTMLElement {
  const symbol = h("span", { "aria-hidden": "true" }, `${severityMark(severity)} `);
  return h("span", { class: "tg-severity", "data-severity": severity }, symbol, severity);
}
