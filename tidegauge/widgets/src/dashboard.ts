// The widget: pages for the views, what they share, and the links between them.

import type { AnyModel, RenderProps } from "@anywidget/types";
import { Catalogue, type Told } from "./catalogue";
import { Compare } from "./compare";
import { Consistency } from "./consistency";
import { Distribution } from "./distribution";
import { button, fill, h } from "./dom";
import { Incidents } from "./incidents";
import { KernelError, Link } from "./link";
import { Overview } from "./overview";
import { Partitions } from "./partitions";
import { Series } from "./series";
import { type Stage, type View, type ViewName, VIEWS } from "./stage";
import { readTheme, type Theme } from "./theme";
import "uplot/dist/uPlot.min.css";
import "./style.css";

interface Model {
  view: ViewName;
  dataset: string | null;
  options: Record<string, object>;
  height: number;
}

const TITLES: Record<ViewName, string> = {
  overview: "Overview",
  series: "Series",
  compare: "Compare",
  distribution: "Distribution",
  consistency: "Consistency",
  incidents: "Incidents",
  partitions: "Partitions",
};
const MAKERS: Record<ViewName, (stage: Stage) => View> = {
  overview: (stage) => new Overview(stage),
  compare: (stage) => new Compare(stage),
  incidents: (stage) => new Incidents(stage),
  partitions: (stage) => new Partitions(stage),
  series: (stage) => new Series(stage),
  distribution: (stage) => new Distribution(stage),
  consistency: (stage) => new Consistency(stage),
};
/** How often it is asked whether something was written. */
const PULSE = 5000;

class Dashboard implements Stage {
  readonly link: Link;
  readonly root: HTMLElement;
  theme!: Theme;
  catalogue!: Catalogue;
  private readonly views = new Map<ViewName, View>();
  private readonly page = h("div", { class: "tg-page", role: "tabpanel" });
  private readonly status = h("div", { class: "tg-status", role: "status", "aria-live": "polite" });
  private readonly alert = h("div", { class: "tg-alert", role: "alert", hidden: true });
  private readonly chooser = h("select", { "aria-label": "Dataset", onchange: () => this.choose(this.chooser.value) });
  private readonly tabs = new Map<ViewName, HTMLButtonElement>();
  private readonly watched: (() => void)[] = [];
  private shown: ViewName | null = null;
  /** Whether what there is must be asked for anew; at first it is. */
  private stale = true;
  private asking = false;
  private closed = false;
  /** The options that this page wrote last. */
  private written = "";
  private frame = 0;

  constructor(private readonly model: AnyModel<Model>) {
    this.link = new Link(model);
    for (const view of VIEWS) {
      const tab = button(TITLES[view], () => this.go(view), { role: "tab", "data-tab": view });
      tab.addEventListener("keydown", (event) => this.turn(event, view));
      this.tabs.set(view, tab);
    }
    const bar = h(
      "div",
      { class: "tg-bar" },
      h("div", { class: "tg-tabs", role: "tablist", "aria-label": "Views" }, ...this.tabs.values()),
      h("label", { class: "tg-choice tg-dataset" }, h("span", {}, "Dataset"), this.chooser),
    );
    this.root = h("div", { class: "tidegauge", "data-state": "loading" }, bar, this.alert, this.page, this.status);
    this.fit();
    // For scripts that look from outside, such as tests and benchmarks.
    Object.assign(this.root, { tidegauge: this });
  }

  async start(): Promise<void> {
    if (this.closed) return;
    this.theme = readTheme(this.root);
    this.watch();
    await this.show();
  }

  get dataset(): string {
    return this.model.get("dataset") ?? this.catalogue.datasets[0] ?? "";
  }

  get writable(): boolean {
    return this.catalogue.writable;
  }

  options<T extends object>(view: ViewName): Partial<T> {
    return (this.model.get("options")?.[view] ?? {}) as Partial<T>;
  }

  remember(view: ViewName, options: object): void {
    this.written = JSON.stringify(options);
    this.model.set("options", { ...this.model.get("options"), [view]: options });
    this.model.save_changes();
  }

  go(view: ViewName, options?: object): void {
    if (options) {
      this.written = JSON.stringify(options);
      this.model.set("options", { ...this.model.get("options"), [view]: options });
    }
    const same = this.model.get("view") === view;
    this.model.set("view", view);
    this.model.save_changes();
    if (same) void this.show();
  }

  say(text: string): void {
    this.status.textContent = text;
  }

  fail(error: unknown): void {
    if (error instanceof KernelError && error.kind === "OutdatedError") {
      this.stale = true;
      void this.show();
      return;
    }
    const text = error instanceof Error ? error.message : String(error);
    this.alert.replaceChildren(h("span", {}, text), button("Dismiss", () => (this.alert.hidden = true)));
    this.alert.hidden = false;
    this.root.dataset.state = "error";
    console.warn("tidegauge:", error);
  }

  view(name: ViewName): View {
    let view = this.views.get(name);
    if (!view) {
      view = MAKERS[name](this);
      this.views.set(name, view);
    }
    return view;
  }

  close(): void {
    this.closed = true;
    this.watched.forEach((stop) => stop());
    this.views.forEach((view) => view.close());
    this.link.close();
  }

  /** Take the height that was asked for; 0 is all of the window. */
  private fit(): void {
    const height = this.model.get("height");
    this.root.style.height = height > 0 ? `${height}px` : "calc(100vh - 18px)";
  }

  private choose(dataset: string): void {
    this.model.set("dataset", dataset);
    this.model.save_changes();
  }

  /** Ask anew what there is. */
  private async renew(): Promise<void> {
    const answer = await this.link.ask<Told>("catalogue");
    this.catalogue = new Catalogue(answer);
    this.link.catalogue = answer.told.catalogue;
    this.stale = false;
    if (this.model.get("dataset") === null && this.catalogue.datasets.length) this.choose(this.catalogue.datasets[0]);
    fill(this.chooser, this.catalogue.datasets.map((name) => [name, name]), this.dataset);
  }

  private async show(): Promise<void> {
    const name = this.model.get("view");
    this.root.dataset.view = name;
    this.root.dataset.state = "loading";
    this.alert.hidden = true;
    for (const [key, tab] of this.tabs) {
      tab.setAttribute("aria-selected", String(key === name));
      tab.tabIndex = key === name ? 0 : -1;
    }
    this.chooser.parentElement!.hidden = name === "overview" || name === "series";
    try {
      if (this.stale) await this.renew();
      this.chooser.value = this.dataset;
      if (!this.catalogue.datasets.length) {
        this.page.replaceChildren(h("p", { class: "tg-empty" }, "The repository is empty: nothing was measured yet."));
        this.shown = null;
        this.root.dataset.state = "drawn";
        return;
      }
      const view = this.view(name);
      if (this.shown !== name) {
        this.shown = name;
        this.say("");
        this.page.replaceChildren(view.element);
      }
      await view.open();
      if (this.model.get("view") === name && this.root.dataset.state === "loading") this.root.dataset.state = "drawn";
    } catch (error) {
      // What goes wrong in a view that was left is nothing to whom looks at another.
      if (this.model.get("view") === name) this.fail(error);
    }
  }

  private turn(event: KeyboardEvent, view: ViewName): void {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = VIEWS[(VIEWS.indexOf(view) + step + VIEWS.length) % VIEWS.length];
    this.go(next);
    this.tabs.get(next)!.focus();
    event.preventDefault();
  }

  /** See to it that what changes elsewhere is shown: sizes, colours, what the kernel says, what others wrote. */
  private watch(): void {
    const { model } = this;
    const showAgain = () => void this.show();
    const height = () => this.fit();
    // Another page may look at the same dashboard, and Python may choose.
    const chosen = () => {
      const view = model.get("view");
      if (JSON.stringify(this.options(view)) !== this.written) showAgain();
    };
    model.on("change:view", showAgain);
    model.on("change:dataset", showAgain);
    model.on("change:height", height);
    model.on("change:options", chosen);
    const sizes = new ResizeObserver(() => {
      cancelAnimationFrame(this.frame);
      this.frame = requestAnimationFrame(() => this.shown && this.views.get(this.shown)?.resized());
    });
    sizes.observe(this.root);
    const colours = () => {
      this.theme = readTheme(this.root);
      this.views.forEach((view) => view.resized());
    };
    const themes = new MutationObserver(colours);
    themes.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-name", "data-jp-theme-light", "class"] });
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", colours);
    const pulse = setInterval(() => void this.pulse(), PULSE);
    this.watched.push(
      () => model.off("change:view", showAgain),
      () => model.off("change:dataset", showAgain),
      () => model.off("change:height", height),
      () => model.off("change:options", chosen),
      () => sizes.disconnect(),
      () => themes.disconnect(),
      () => scheme.removeEventListener("change", colours),
      () => clearInterval(pulse),
    );
  }

  /** Look whether something was written since, unless nobody is looking. */
  private async pulse(): Promise<void> {
    const unseen = document.hidden || !this.root.isConnected || this.root.offsetParent === null;
    if (unseen || this.asking) return; // a kernel that is busy is asked once, not every time
    this.asking = true;
    try {
      const { told } = await this.link.ask<{ commits: number }>("pulse");
      if (told.commits === this.catalogue?.commits) return;
      this.stale = true;
      await this.show();
    } catch {
      // The database cannot be read; the next question says so.
    } finally {
      this.asking = false;
    }
  }
}

export default {
  render({ model, el }: RenderProps<Model>): () => void {
    performance.mark("tidegauge:start");
    const dashboard = new Dashboard(model);
    el.append(dashboard.root);
    // The element has its size and colours only after it is on the page.
    requestAnimationFrame(() => void dashboard.start().catch((error) => dashboard.fail(error)));
    return () => dashboard.close();
  },
};
