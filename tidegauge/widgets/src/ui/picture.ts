// Picture of a part of the page as SVG: boxes, text and images of canvases at their positions on the screen.

import { h } from "./dom";
import type { Shell } from "./shell";
import type { Theme } from "./theme";

const SVG_NAMESPACE = "http://www.w3.org/2000/svg";
const TITLE_HEIGHT = 26;
const SIDES = ["top", "right", "bottom", "left"] as const;

type Box = Pick<DOMRect, "left" | "top" | "right" | "bottom">;
type Attributes = Record<string, string | number>;

/** Draw the visible part of an element, below a title unless it is empty. Text remains text; canvases become bitmaps. */
export function drawPicture(element: HTMLElement, title: string, theme: Theme): SVGSVGElement {
  const frame = element.getBoundingClientRect();
  const titleHeight = title ? TITLE_HEIGHT : 0;
  const [width, height] = [Math.round(frame.width), Math.round(frame.height) + titleHeight];
  const picture = node("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
  picture.append(node("title", {}, title), node("rect", { width, height, ...paint("fill", theme.background) }));
  picture.append(node("text", { x: 10, y: 18, "font-family": "system-ui, sans-serif", "font-size": 14, "font-weight": 600, ...paint("fill", theme.text) }, title));
  const content = node("g", { transform: `translate(${-frame.left} ${titleHeight - frame.top})` });
  picture.append(content);
  new Painter().draw(element, content, frame);
  return picture as SVGSVGElement;
}

/** Serialise a picture as an SVG file. */
export function svgText(picture: SVGSVGElement): string {
  return new XMLSerializer().serializeToString(picture);
}

/** Save the visible part of an element as a PNG file, without controls. Returns a message. */
export async function savePng(shell: Shell, element: HTMLElement, title: string, name: string): Promise<string> {
  const picture = await shell.withoutControls(() => drawPicture(element, title, shell.theme));
  return saveFile(await renderPng(picture), `${name}.png`);
}

/** Save a file from the browser. Returns a message. */
export function saveFile(blob: Blob, name: string): string {
  const link = h("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  return `Saved as ${name}.`;
}

/** Render a picture as PNG, in the pixels of the screen. */
async function renderPng(picture: SVGSVGElement): Promise<Blob> {
  const image = new Image();
  const url = URL.createObjectURL(new Blob([svgText(picture)], { type: "image/svg+xml" }));
  try {
    image.src = url;
    await image.decode();
    const ratio = window.devicePixelRatio || 1;
    const canvas = h("canvas", { width: Math.round(image.width * ratio), height: Math.round(image.height * ratio) });
    canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
    const blob = await new Promise<Blob | null>((resolve) => canvas.toBlob(resolve));
    if (!blob) throw new Error("The browser cannot create an image of this size.");
    return blob;
  } finally {
    URL.revokeObjectURL(url);
  }
}

class Painter {
  private readonly measure = document.createElement("canvas").getContext("2d")!;
  private clips = 0;

  /** Draw the part of an element and its children that is inside a box. */
  draw(element: HTMLElement, group: SVGElement, visible: Box): void {
    const style = getComputedStyle(element);
    if (style.display === "none" || style.visibility === "hidden" || element.matches(".u-over, .tg-visually-hidden")) return;
    const box = element.getBoundingClientRect();
    const clipped = style.overflowX !== "visible" || style.overflowY !== "visible";
    if (clipped && !intersects(box, visible)) return;
    if (Number(style.opacity) < 1) group = append(group, node("g", { opacity: style.opacity }));
    if (intersects(box, visible)) this.drawBox(style, box, group);
    if (clipped) {
      visible = intersection(box, visible);
      group = append(group, this.clip(visible, group));
    }
    if (element instanceof HTMLCanvasElement) {
      if (element.width > 1) group.append(node("image", { ...boxAttributes(box), href: element.toDataURL() }));
    } else if (element instanceof HTMLInputElement || element instanceof HTMLSelectElement || element instanceof HTMLTextAreaElement) this.drawField(element, style, box, group);
    else {
      for (const child of paintOrder(element)) {
        if (child instanceof HTMLElement) this.draw(child, group, visible);
        else if (child instanceof SVGSVGElement) group.append(positionedCopy(child));
        else if (child instanceof Text) this.drawText(child, style, group, visible);
      }
      this.drawAfter(element, box, group);
    }
  }

  private clip(box: Box, group: SVGElement): SVGElement {
    const id = `clip-${++this.clips}`;
    const path = node("clipPath", { id });
    path.append(node("rect", boxAttributes(box)));
    group.append(path);
    return node("g", { "clip-path": `url(#${id})` });
  }

  private drawBox(style: CSSStyleDeclaration, box: DOMRect, group: SVGElement): void {
    const radius = Number.parseFloat(style.borderTopLeftRadius) || 0;
    if (isVisible(style.backgroundColor)) group.append(node("rect", { ...boxAttributes(box), rx: radius, ...paint("fill", style.backgroundColor) }));
    // Only the first color of a gradient is drawn, which is enough for bars and hatches.
    const colour = /rgba?\([^)]*\)|color\([^)]*\)/.exec(style.backgroundImage)?.[0];
    if (colour && isVisible(colour)) group.append(node("rect", { ...boxAttributes(backgroundBox(style, box)), ...paint("fill", colour) }));
    // An inset shadow is the bar at the left that marks a row.
    const [, barColour, barWidth] = /^(.+\)) (\d+)px 0px 0px 0px inset$/.exec(style.boxShadow) ?? [];
    if (barColour) group.append(node("rect", { ...boxAttributes({ ...corners(box), right: box.left + Number(barWidth) }), ...paint("fill", barColour) }));
    const borders = SIDES.map((side) => [Number.parseFloat(style.getPropertyValue(`border-${side}-width`)), style.getPropertyValue(`border-${side}-color`)] as const);
    if (borders.every(([width, stroke]) => width === borders[0][0] && stroke === borders[0][1])) {
      const [width, stroke] = borders[0];
      const inner = { left: box.left + width / 2, top: box.top + width / 2, right: box.right - width / 2, bottom: box.bottom - width / 2 };
      if (width && isVisible(stroke)) group.append(node("rect", { ...boxAttributes(inner), rx: radius, fill: "none", "stroke-width": width, ...paint("stroke", stroke) }));
    } else {
      borders.forEach(([width, stroke], n) => {
        const { left, top, right, bottom } = corners(box);
        const edge = [{ left, top, right, bottom: top + width }, { left: right - width, top, right, bottom }, { left, top: bottom - width, right, bottom }, { left, top, right: left + width, bottom }][n];
        if (width && isVisible(stroke)) group.append(node("rect", { ...boxAttributes(edge), ...paint("fill", stroke) }));
      });
    }
    if (style.display === "list-item" && style.listStyleType === "disc") {
      const size = Number.parseFloat(style.fontSize);
      group.append(node("circle", { cx: box.left - 0.7 * size, cy: box.top + 0.7 * size, r: 0.18 * size, ...paint("fill", style.color) }));
    }
  }

  /** Draw a text node, line by line. */
  private drawText(text: Text, style: CSSStyleDeclaration, group: SVGElement, visible: Box): void {
    if (!text.data.trim()) return;
    const range = document.createRange();
    range.setStart(text, text.data.length - text.data.trimStart().length);
    range.setEnd(text, text.data.trimEnd().length);
    const rects = [...range.getClientRects()].filter(({ width }) => width > 0);
    if (!rects.some((rect) => intersects(rect, visible))) return;
    if (new Set(rects.map(({ top }) => Math.round(top))).size < 2) {
      this.line(text.data.trim(), range.getBoundingClientRect(), style, group);
      return;
    }
    // A new line begins where a character has another top than the previous character.
    const lines: { text: string; box: Box }[] = [];
    let offset = 0;
    for (const character of text.data) {
      range.setStart(text, offset);
      offset += character.length;
      range.setEnd(text, offset);
      const { left, top, right, bottom, width } = range.getBoundingClientRect();
      if (!width) continue; // white space at the end of a line
      const last = lines[lines.length - 1];
      if (!last || Math.abs(top - last.box.top) > 1) lines.push({ text: character, box: { left, top, right, bottom } });
      else {
        last.text += character;
        last.box = { left: Math.min(last.box.left, left), top, right: Math.max(last.box.right, right), bottom };
      }
    }
    for (const { text: line, box } of lines) if (line.trim()) this.line(line, box, style, group);
  }

  /** Draw a line of text at the upper left corner of a box, stretched to the width of the box. */
  private line(text: string, { left, top, right }: Omit<Box, "bottom">, style: CSSStyleDeclaration, group: SVGElement): void {
    this.measure.font = style.font;
    const { fontBoundingBoxAscent: ascent } = this.measure.measureText(text);
    const displayedText = style.textTransform === "uppercase" ? text.toUpperCase() : text;
    const fitted: Attributes = right > left ? { textLength: round(right - left), lengthAdjust: "spacingAndGlyphs" } : {};
    group.append(node("text", { x: round(left), y: round(top + ascent), ...fitted, ...font(style), ...paint("fill", style.color) }, displayedText));
  }

  private drawField(field: HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement, style: CSSStyleDeclaration, box: DOMRect, group: SVGElement): void {
    if (field instanceof HTMLInputElement && field.type === "checkbox") {
      const { left, top, width, height } = box;
      group.append(node("rect", { ...boxAttributes(box), rx: 2, fill: "none", ...paint("stroke", style.color) }));
      if (field.checked) group.append(node("path", { d: `M${left + 0.2 * width} ${top + 0.5 * height}l${0.2 * width} ${0.25 * height}l${0.4 * width} ${-0.5 * height}`, fill: "none", "stroke-width": 2, ...paint("stroke", style.color) }));
      return;
    }
    const value = field instanceof HTMLSelectElement ? `${field.selectedOptions[0]?.textContent ?? ""} ▾` : field.value || field.placeholder;
    const size = Number.parseFloat(style.fontSize);
    const top = field instanceof HTMLTextAreaElement ? box.top + Number.parseFloat(style.paddingTop) : (box.top + box.bottom) / 2 - 0.6 * size;
    const left = box.left + Number.parseFloat(style.paddingLeft) + Number.parseFloat(style.borderLeftWidth);
    group = append(group, this.clip(box, group));
    this.line(value, { left, top, right: left }, field.value ? style : getComputedStyle(field, "::placeholder"), group);
  }

  /** Draw the `::after` text of an element: in the lower right corner if its position is absolute, else after the content. */
  private drawAfter(element: HTMLElement, box: DOMRect, group: SVGElement): void {
    const after = getComputedStyle(element, "::after");
    const text = /^"(.+)"$/.exec(after.content)?.[1];
    if (!text) return;
    const size = Number.parseFloat(after.fontSize);
    if (after.position === "absolute") {
      group.append(node("text", { x: round(box.right), y: round(box.bottom - 1), "text-anchor": "end", ...font(after), ...paint("fill", after.color) }, text));
      return;
    }
    const range = document.createRange();
    range.selectNodeContents(element);
    const { right, bottom } = range.getBoundingClientRect();
    group.append(node("text", { x: round(right), y: round(bottom - 0.3 * size), ...font(after), ...paint("fill", after.color) }, text));
  }
}

/** Children in painting order: larger z-indexes last. */
function paintOrder(element: HTMLElement): Node[] {
  const level = (child: Node) => (child instanceof HTMLElement ? Number(getComputedStyle(child).zIndex) || 0 : 0);
  return [...element.childNodes].map((child) => [child, level(child)] as const).sort((a, b) => a[1] - b[1]).map(([child]) => child);
}

/** Box of a background image whose size and position are in pixels or per cent. */
function backgroundBox(style: CSSStyleDeclaration, { left, top, width, height }: DOMRect): Box {
  const [widthRule = "auto", heightRule = "auto"] = style.backgroundSize.split(" ");
  const [leftRule = "0%", topRule = "0%"] = style.backgroundPosition.split(" ");
  const length = (text: string, total: number) => (text === "auto" ? total : Number.parseFloat(text) * (text.endsWith("%") ? total / 100 : 1));
  const [imageWidth, imageHeight] = [length(widthRule, width), length(heightRule, height)];
  const [x, y] = [left + length(leftRule, width - imageWidth), top + length(topRule, height - imageHeight)];
  return { left: x, top: y, right: x + imageWidth, bottom: y + imageHeight };
}

/** Copy a drawing at its position on the page. */
function positionedCopy(drawing: SVGSVGElement): SVGElement {
  const copy = drawing.cloneNode(true) as SVGSVGElement;
  for (const [name, value] of Object.entries(boxAttributes(drawing.getBoundingClientRect()))) copy.setAttribute(name, String(value));
  return copy;
}

/** Corners of a rectangle, whose properties cannot be spread. */
function corners({ left, top, right, bottom }: Box): Box {
  return { left, top, right, bottom };
}

function font(style: CSSStyleDeclaration): Attributes {
  return { "font-family": style.fontFamily, "font-size": style.fontSize, "font-weight": style.fontWeight, "font-style": style.fontStyle, "xml:space": "preserve" };
}

function boxAttributes({ left, top, right, bottom }: Box): Attributes {
  return { x: round(left), y: round(top), width: round(Math.max(0, right - left)), height: round(Math.max(0, bottom - top)) };
}

function round(length: number): number {
  return Math.round(100 * length) / 100;
}

/** Red, green, blue and opacity, 0 to 1, of a computed color, which is `rgb(...)`, `rgba(...)` or `color(srgb ...)`. */
function channels(colour: string): number[] {
  const numbers = colour.replace("srgb", "").match(/[\d.]+(e-?\d+)?/g)?.map(Number) ?? [0, 0, 0];
  const unit = colour.startsWith("color(") ? 1 : 255;
  return [...numbers.slice(0, 3).map((channel) => channel / unit), numbers[3] ?? 1];
}

function isVisible(colour: string): boolean {
  return channels(colour)[3] > 0;
}

/** Attributes of a color that all SVG programs support: six hexadecimal digits and a separate opacity. */
function paint(name: "fill" | "stroke", colour: string): Attributes {
  const [red, green, blue, opacity] = channels(colour);
  const digits = [red, green, blue].map((channel) => Math.round(255 * channel).toString(16).padStart(2, "0")).join("");
  return { [name]: `#${digits}`, ...(opacity < 1 && { [`${name}-opacity`]: opacity }) };
}

function intersects(a: Box, b: Box): boolean {
  return a.left < b.right && a.right > b.left && a.top < b.bottom && a.bottom > b.top;
}

function intersection(a: Box, b: Box): Box {
  return { left: Math.max(a.left, b.left), top: Math.max(a.top, b.top), right: Math.min(a.right, b.right), bottom: Math.min(a.bottom, b.bottom) };
}

function append(group: SVGElement, child: SVGElement): SVGElement {
  group.append(child);
  return child;
}

function node(tag: string, attributes: Attributes = {}, text = ""): SVGElement {
  const element = document.createElementNS(SVG_NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  // Characters that XML does not allow would make the file invalid.
  element.textContent = text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\u{fffd}");
  return element;
}
