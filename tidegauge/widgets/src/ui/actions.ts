// Actions on incidents: their names, and what each of them teaches the detectors.

import { button, h } from "./dom";
import type { Shell } from "./shell";

export interface Action {
  label: string;
  help: string;
}

export const ACTIONS: Record<string, Action> = {
  acknowledge: { label: "Acknowledge", help: "Somebody looks into it. It counts as a real problem; detectors learn nothing from it." },
  expected: { label: "Expected", help: "Known cause, such as a holiday or a planned outage. Its points are left out when detectors learn what is usual." },
  "false alarm": { label: "False alarm", help: "Nothing was wrong. Its points no longer alarm and are left out of learning; the incident is resolved, and counted against its detector." },
  "bad data": { label: "Bad data", help: "The data is wrong. Its points are left out of learning, so that later values are not compared with them; the incident stays acknowledged." },
  "new normal": { label: "New normal", help: "The change is there to stay. Detectors begin anew with these points and forget the level before; the incident is resolved." },
  resolve: { label: "Resolve", help: "The problem is over. Detectors learn nothing from it." },
  reopen: { label: "Reopen", help: "Open it again, and take back what it taught the detectors." },
  comment: { label: "Comment", help: "Keep the note and change nothing else." },
  assign: { label: "Assign", help: "Say who looks after it; an empty name takes it from everybody." },
  snooze: { label: "Snooze", help: "Leave it out of the open incidents until then. It is not resolved." },
};

/** Actions that decide about an incident, in each status. */
export const DECISIONS: Record<string, readonly string[]> = {
  open: ["acknowledge", "expected", "false alarm", "bad data", "new normal", "resolve"],
  acknowledged: ["resolve", "expected", "false alarm", "bad data", "new normal", "reopen"],
  expected: ["reopen"],
  resolved: ["reopen", "expected", "false alarm", "bad data", "new normal"],
  "new level": ["reopen", "expected", "false alarm", "bad data", "new normal"],
};

const SECONDS_PER_HOUR = 3600;
/** Lengths of a snooze in seconds, and their names. */
export const SNOOZE_LENGTHS = [[SECONDS_PER_HOUR, "an hour"], [8 * SECONDS_PER_HOUR, "8 hours"], [24 * SECONDS_PER_HOUR, "a day"], [72 * SECONDS_PER_HOUR, "3 days"], [168 * SECONDS_PER_HOUR, "a week"], [720 * SECONDS_PER_HOUR, "30 days"]] as const;

/** Create the button of an action, which says what it does in `help` while it is pointed at or focused. */
export function actionButton(name: string, help: HTMLElement, onClick: () => void): HTMLButtonElement {
  const action = ACTIONS[name];
  const showHelp = () => (help.textContent = `${action.label}: ${action.help}`);
  return button(action.label, onClick, { "data-action": name, title: action.help, onpointerenter: showHelp, onfocus: showHelp });
}

/** Create the field for the name of the user; hidden if the kernel knows it. */
export function authorField(shell: Shell): { element: HTMLElement; show(): void; requireName(): string | null } {
  const input = h("input", { "aria-label": "Your name", placeholder: "Your name", maxlength: "100", autocomplete: "name" });
  input.addEventListener("change", () => (shell.author = input.value.trim() || null));
  const authorText = h("span", { class: "tg-muted" });
  const element = h("span", { class: "tg-author" }, authorText, input);
  return {
    element,
    show() {
      const { author } = shell.catalogue;
      input.hidden = author !== null;
      authorText.textContent = author === null ? "as" : `as ${author}`;
      if (document.activeElement !== input) input.value = shell.author ?? "";
    },
    /** Name of the user; null, with the focus on the field, if it is not given. */
    requireName() {
      if (shell.catalogue.author !== null) return shell.catalogue.author;
      const name = input.value.trim() || shell.author; // it may have been given in another field
      if (name) {
        input.value = shell.author = name;
        input.removeAttribute("aria-invalid");
        return name;
      }
      input.setAttribute("aria-invalid", "true");
      input.focus();
      shell.announce("Give your name first: others see who decided.");
      return null;
    },
  };
}
