// Elements; whatever comes from outside is set as text, never as HTML.

type Attributes = Record<string, string | number | boolean | ((event: any) => void) | undefined>;
type Child = Node | string | null | undefined;

/** Make an element; `class` and other attributes by name, listeners as `onclick` and so on. */
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

/** A name from outside: whatever the direction of its text, it does not turn what stands beside it. */
export function named(text: string | null, most = 80): HTMLElement {
  const whole = text ?? "";
  const element = h("bdi", { class: "tg-name" }, shortened(whole, most));
  if (whole.length > most) element.title = whole;
  return element;
}

/** Cut a long text in its middle: beginnings and ends tell more. */
export function shortened(text: string, most: number): string {
  if (text.length <= most) return text;
  const half = Math.floor((most - 1) / 2);
  return `${text.slice(0, most - 1 - half)}…${text.slice(text.length - half)}`;
}

/** A list to choose from; `changed` is called with what was chosen. */
export function choice(
  label: string,
  options: readonly (readonly [value: string, text: string])[],
  chosen: string,
  changed: (value: string) => void,
): HTMLLabelElement {
  const select = h("select", { onchange: () => changed(select.value) });
  fill(select, options, chosen);
  return h("label", { class: "tg-choice" }, h("span", {}, label), select);
}

export function fill(
  select: HTMLSelectElement,
  options: readonly (readonly [value: string, text: string])[],
  chosen: string,
): void {
  select.replaceChildren(
    ...options.map(([value, text]) => h("option", { value }, shortened(text, 60))),
  );
  select.value = chosen;
}

export function button(text: string, pressed: () => void, attributes: Attributes = {}): HTMLButtonElement {
  return h("button", { type: "button", onclick: pressed, ...attributes }, text);
}

/** Call only after nothing happened for a while. */
export function later<A extends unknown[]>(milliseconds: number, act: (...a: A) => void): (...a: A) => void {
  let timer = 0;
  return (...a: A) => {
    clearTimeout(timer);
    timer = window.setTimeout(() => act(...a), milliseconds);
  };
}
