// Actions on incidents: their labels, and how each action affects the training of detectors.

import { formatDuration } from "../data/format";
import { button, h } from "./dom";
import type { Shell } from "./shell";

/** Label and description of an action. */
export interface Action {
  label: string;
  help: string;
}

/** Actions by name, as the kernel knows them. */
export const ACTIONS: Record<string, Action> = {
  acknowledge: { label: "Acknowledge", help: "Someone is looking into it. It counts as a real problem; training does not change." },
  expected: { label: "Expected", help: "A known cause, such as a holiday or a planned outage. Its points are excluded from training." },
  "false alarm": { label: "False alarm", help: "Nothing was wrong. Its points no longer raise alarms and are excluded from training. The incident is resolved and counts as a false alarm." },
  "bad data": { label: "Bad data", help: "The data is wrong. Its points are excluded from training, so later values are not compared with them. The incident is acknowledged until the data is repaired." },
  "new normal": { label: "New normal", help: "The change is permanent. Training restarts at these points and ignores the earlier level. The incident is resolved." },
  resolve: { label: "Resolve", help: "The problem is over. Training does not change." },
  reopen: { label: "Reopen", help: "Open the incident again and undo its effects on training." },
  comment: { label: "Comment", help: "Save the note without changing anything else." },
  assign: { label: "Assign", help: "Set the person in charge; an empty name removes the assignee." },
  snooze: { label: "Snooze", help: "Hide it from the open incidents until then. It is not resolved." },
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
export const SNOOZE_LENGTHS = [1, 8, 24, 72, 168, 720].map((hours) => [hours * SECONDS_PER_HOUR, formatDuration(hours * SECONDS_PER_HOUR)] as const);

/** Create the button of an action. On hover and focus, it shows its description in `help`. */
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
    /** Name of the user. Without a name, focus the field and return null. */
    requireName() {
      if (shell.catalogue.author !== null) return shell.catalogue.author;
      const name = input.value.trim() || shell.author; // may come from the field of another form
      if (name) {
        input.value = shell.author = name;
        input.removeAttribute("aria-invalid");
        return name;
      }
      input.setAttribute("aria-invalid", "true");
      input.focus();
      shell.announce("Enter your name first. It is stored with the label.");
      return null;
    },
  };
}
