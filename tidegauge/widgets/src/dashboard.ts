// Dashboard widget (anywidget): tabs, shared state, navigation and live updates of all views.

import type { AnyModel, RenderProps } from "@anywidget/types";
import { Catalogue } from "./data/catalogue";
import { KernelError, KernelLink } from "./data/kernel";
import { button, h, setOptions } from "./ui/dom";
import { type Shell, type View, type ViewName, VIEWS } from "./ui/shell";
import { readTheme, type Theme } from "./ui/theme";
import { Compare } from "./views/compare";
import { Consistency } from "./views/consistency";
import { Distribution } from "./views/distribution";
import { Incidents } from "./views/incidents";
import { Overview } from "./views/overview";
import { Partitions } from "./views/partitions";
import { Series } from "./views/series";
import "uplot/dist/uPlot.min.css";
import "./ui/base.css";

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
const FACTORIES: Record<ViewName, (shell: Shell) => View> = {
  overview: (shell) => new Overview(shell),
  compare: (shell) => new Compare(shell),
  incidents: (shell) => new Incidents(shell),
  partitions: (shell) => new Partitions(shell),
  series: (shell) => new Series(shell),
  distribution: (shell) => new Distribution(shell),
  consistency: (shell) => new Consistency(shell),
};
/** Polling interval for new commits, in milliseconds. */
const POLL_INTERVAL = 5000;

class Dashboard implements Shell {
  readonly link: KernelLink;
  readonly root: HTMLElement;
  theme!: Theme;
  catalogue!: Catalogue;
  private readonly views = new Map<ViewName, View>();
  private readonly page = h("div", { class: "tg-page", role: "tabpanel" });
  private readonly status = h("div", { class: "tg-status", role: "status", "aria-live": "polite" });
  private readonly alert = h("div", { class: "tg-alert", role: "alert", hidden: true });
  private readonly datasetSelect = h("select", { "aria-label": "Dataset", onchange: () => this.selectDataset(this.datasetSelect.value) });
  private readonly tabs = new Map<ViewName, HTMLButtonElement>();
  private readonly cleanups: (() => void)[] = [];
  private visible: ViewName | null = null;
  /** Whether the catalogue must be fetched again. */
  private stale = true;
  private polling = false;
  private closed = false;
  /** Options last saved by this page, as JSON. */
  private savedOptions = "";
  private frame = 0;

  constructor(private readonly model: AnyModel<Model>) {
    this.link = new KernelLink(model);
    for (const view of VIEWS) {
      const tab = button(TITLES[view], () => this.go(view), { role: "tab", "data-tab": view });
      tab.addEventListener("keydown", (event) => this.handleTabKey(event, view));
      this.tabs.set(view, tab);
    }
    const bar = h(
      "div",
      { class: "tg-bar" },
      h("div", { class: "tg-tabs", role: "tablist", "aria-label": "Views" }, ...this.tabs.values()),
      h("label", { class: "tg-choice tg-dataset" }, h("span", {}, "Dataset"), this.datasetSelect),
    );
    this.root = h("div", { class: "tidegauge", "data-state": "loading" }, bar, this.alert, this.page, this.status);
    this.applyHeight();
    // Exposed for browser tests and benchmarks.
    Object.assign(this.root, { tidegauge: this });
  }

  async start(): Promise<void> {
    if (this.closed) return;
    this.theme = readTheme(this.root);
    this.observe();
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

  saveOptions(view: ViewName, options: object): void {
    this.savedOptions = JSON.stringify(options);
    this.model.set("options", { ...this.model.get("options"), [view]: options });
    this.model.save_changes();
  }

  go(view: ViewName, options?: object): void {
    if (options) {
      this.savedOptions = JSON.stringify(options);
      this.model.set("options", { ...this.model.get("options"), [view]: options });
    }
    const same = this.model.get("view") === view;
    this.model.set("view", view);
    this.model.save_changes();
    if (same) void this.show();
  }

  announce(text: string): void {
    this.status.textContent = text;
  }

  showError(error: unknown): void {
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
      view = FACTORIES[name](this);
      this.views.set(name, view);
    }
    return view;
  }

  close(): void {
    this.closed = true;
    this.cleanups.forEach((stop) => stop());
    this.views.forEach((view) => view.close());
    this.link.close();
  }

  /** Apply the `height` trait; 0 fills the window. */
  private applyHeight(): void {
    const height = this.model.get("height");
    this.root.style.height = height > 0 ? `${height}px` : "calc(100vh - 18px)";
  }

  private selectDataset(dataset: string): void {
    this.model.set("dataset", dataset);
    this.model.save_changes();
  }

  /** Fetch the catalogue. */
  private async fetchCatalogue(): Promise<void> {
    const answer = await this.link.ask("catalogue", {});
    this.catalogue = new Catalogue(answer);
    this.link.catalogue = answer.data.catalogue;
    this.stale = false;
    if (this.model.get("dataset") === null && this.catalogue.datasets.length) this.selectDataset(this.catalogue.datasets[0]);
    setOptions(this.datasetSelect, this.catalogue.datasets.map((name) => [name, name]), this.dataset);
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
    this.datasetSelect.parentElement!.hidden = name === "overview" || name === "series";
    try {
      if (this.stale) await this.fetchCatalogue();
      this.datasetSelect.value = this.dataset;
      if (!this.catalogue.datasets.length) {
        this.page.replaceChildren(h("p", { class: "tg-empty" }, "The repository is empty: no metrics yet."));
        this.visible = null;
        this.root.dataset.state = "drawn";
        return;
      }
      const view = this.view(name);
      if (this.visible !== name) {
        this.visible = name;
        this.announce("");
        this.page.replaceChildren(view.element);
      }
      await view.open();
      if (this.model.get("view") === name && this.root.dataset.state === "loading") this.root.dataset.state = "drawn";
    } catch (error) {
      // An error of a view that is no longer visible is ignored.
      if (this.model.get("view") === name) this.showError(error);
    }
  }

  private handleTabKey(event: KeyboardEvent, view: ViewName): void {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = VIEWS[(VIEWS.indexOf(view) + step + VIEWS.length) % VIEWS.length];
    this.go(next);
    this.tabs.get(next)!.focus();
    event.preventDefault();
  }

  /** Observe changes from outside: size, colours, model traits, new commits. */
  private observe(): void {
    const { model } = this;
    const refresh = () => void this.show();
    const height = () => this.applyHeight();
    // Another page of the same widget, or Python, may change the options.
    const optionsChanged = () => {
      const view = model.get("view");
      if (JSON.stringify(this.options(view)) !== this.savedOptions) refresh();
    };
    model.on("change:view", refresh);
    model.on("change:dataset", refresh);
    model.on("change:height", height);
    model.on("change:options", optionsChanged);
    const sizes = new ResizeObserver(() => {
      cancelAnimationFrame(this.frame);
      this.frame = requestAnimationFrame(() => this.visible && this.views.get(this.visible)?.onResize());
    });
    sizes.observe(this.root);
    const colours = () => {
      this.theme = readTheme(this.root);
      this.views.forEach((view) => view.onResize());
    };
    const themes = new MutationObserver(colours);
    themes.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-name", "data-jp-theme-light", "class"] });
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", colours);
    const timer = setInterval(() => void this.poll(), POLL_INTERVAL);
    this.cleanups.push(
      () => model.off("change:view", refresh),
      () => model.off("change:dataset", refresh),
      () => model.off("change:height", height),
      () => model.off("change:options", optionsChanged),
      () => sizes.disconnect(),
      () => themes.disconnect(),
      () => scheme.removeEventListener("change", colours),
      () => clearInterval(timer),
    );
  }

  /** Poll for new commits, unless the page is hidden. */
  private async poll(): Promise<void> {
    const hidden = document.hidden || !this.root.isConnected || this.root.offsetParent === null;
    if (hidden || this.polling) return; // a busy kernel is not asked again
    this.polling = true;
    try {
      const { data } = await this.link.ask("pulse", {});
      if (data.commits === this.catalogue?.commits) return;
      this.stale = true;
      await this.show();
    } catch {
      // The database cannot be read; the next request reports it.
    } finally {
      this.polling = false;
    }
  }
}

export default {
  render({ model, el }: RenderProps<Model>): () => void {
    performance.mark("tidegauge:start");
    const dashboard = new Dashboard(model);
    el.append(dashboard.root);
    // Size and colours are known only once the element is on the page.
    requestAnimationFrame(() => void dashboard.start().catch((error) => dashboard.showError(error)));
    return () => dashboard.close();
  },
};
