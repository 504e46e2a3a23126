// Failed checks of a table and its failed run: a dialog for the list of tables, and list entries for incidents.

import { formatIsoTime, pluralize } from "../data/format";
import type { FailedCheck, FailuresAnswer } from "../data/protocol";
import { button, h, renderName } from "../ui/dom";
import type { Shell } from "../ui/shell";

/** List entry of a failed check, with reasons and sample records. */
export function failedCheck({ name, partition, reasons, samples }: FailedCheck): HTMLElement {
  const list = (texts: readonly string[]) => h("ul", {}, ...texts.map((text) => h("li", {}, renderName(text, 400))));
  const records = samples.length ? h("details", {}, h("summary", {}, pluralize(samples.length, "sample record")), list(samples)) : null;
  return h("li", {}, h("b", {}, renderName(name, 80)), " in ", renderName(partition || "the table", 60), list(reasons), records);
}

/** Dialog with the failed checks and the failed run of a table. */
export class FailuresDialog {
  private readonly heading = h("h2", {});
  private readonly body = h("div", { class: "tg-data-rows", tabindex: "0", role: "region", "aria-label": "Failed checks and run" });
  readonly element: HTMLDialogElement;
  private dataset: string | null = null;

  /** `onClose` is called when the dialog is closed, by button or key. */
  constructor(private readonly shell: Shell, onClose: () => void) {
    const bar = h("div", { class: "tg-data-bar" }, this.heading, button("Close", () => this.element.close()));
    this.element = h("dialog", { class: "tg-data tg-failures", "aria-label": "Failed checks and run", onclose: onClose }, bar, this.body);
  }

  async open(dataset: string): Promise<void> {
    if (dataset !== this.dataset) {
      this.dataset = dataset;
      this.heading.replaceChildren("Failures of ", renderName(dataset, 100));
      this.body.replaceChildren(h("p", { class: "tg-muted" }, "Reading …"));
    }
    if (!this.element.matches(":modal")) {
      this.element.removeAttribute("open"); // removing the dialog from the page leaves it open, but not modal
      this.element.showModal();
    }
    try {
      const { data } = await this.shell.link.ask("failures", { dataset });
      if (dataset === this.dataset) this.body.replaceChildren(...sections(data));
    } catch (error) {
      this.element.close();
      throw error;
    }
  }
}

function sections({ checks, total, run }: FailuresAnswer): HTMLElement[] {
  const parts = [];
  if (run) {
    const startedAt = formatIsoTime(run.started_at);
    parts.push(h("h3", {}, `Run ${run.id} of ${startedAt}: ${run.status}`), h("p", {}, run.error ? renderName(run.error, 1000) : "No error recorded."));
  }
  if (checks.length) parts.push(h("h3", {}, pluralize(total, "failed check")), h("ul", {}, ...checks.map(failedCheck)));
  if (checks.length < total) parts.push(h("p", { class: "tg-muted" }, `Only the newest ${checks.length} are shown.`));
  return parts.length ? parts : [h("p", {}, "No check fails anymore, and the last run succeeded.")];
}
