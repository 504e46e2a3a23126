// DOM helpers: create elements, form controls, debouncing. Data is always set as text, never as HTML.

import { truncateMiddle } from "../data/format";

type Attributes = Record<string, string | number | boolean | ((event: any) => void) | undefined>;
type Child = Node | string | null | undefined;

/** Create an element; attributes by name, event listeners as `onclick` and so on. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** Render a name from the data, isolated so that right-to-left text does not reorder its surroundings. */
export function renderName(text: string | null, max = 80): HTMLElement {
  const fullName = text ?? "";
  const element = h("bdi", { class: "tg-name" }, truncateMiddle(fullName, max));
  if (fullName.length > max) element.title = fullName;
  return element;
}

/** Link to another site that opens in a new tab; plain text if the address is not HTTP or HTTPS. */
export function externalLink(address: string): HTMLElement {
  if (!/^https?:\/\/\S+$/.test(address)) return renderName(address, 80);
  return h("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, renderName(address, 60));
}

/** Labeled `<select>`; `onChange` receives the new value. */
export function selectField(
  label: string,
  options: readonly (readonly [value: string, text: string])[],
  value: string,
  onChange: (value: string) => void,
): HTMLLabelElement {
  const select = h("select", { onchange: () => onChange(select.value) });
  setOptions(select, options, value);
  return h("label", { class: "tg-choice" }, h("span", {}, label), select);
}

/** Replace the options of a `<select>` and its value. */
export function setOptions(
  select: HTMLSelectElement,
  options: readonly (readonly [value: string, text: string])[],
  selected: string,
): void {
  select.replaceChildren(
    ...options.map(([value, text]) => h("option", { value }, truncateMiddle(text, 60))),
  );
  select.value = selected;
}

/** Create a button. */
export function button(text: string, onClick: () => void, attributes: Attributes = {}): HTMLButtonElement {
  return h("button", { type: "button", onclick: onClick, ...attributes }, text);
}

/** Copy a string to the clipboard. Pages without HTTPS use `execCommand`, because browsers refuse the clipboard API there. */
export async function copyText(text: string): Promise<void> {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const field = h("textarea", { class: "tg-visually-hidden" });
  field.value = text;
  document.body.append(field);
  field.select();
  const copied = document.execCommand("copy");
  field.remove();
  if (!copied) throw new Error(`The browser does not allow copying: ${text}`);
}

/** Debounce: call only after a pause without further calls. */
export function debounce<A extends unknown[]>(milliseconds: number, callback: (...a: A) => void): (...a: A) => void {
  let timer = 0;
  return (...a: A) => {
    clearTimeout(timer);
    timer = window.setTimeout(() => callback(...a), milliseconds);
  };
}
