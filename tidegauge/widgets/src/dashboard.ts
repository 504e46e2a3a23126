// Dashboard widget (anywidget): tabs, shared state, navigation and live updates of all views.

import type { AnyModel, RenderProps } from "@anywidget/types";
import { formatAddress, parseAddress } from "./data/address";
import { Catalogue } from "./data/catalogue";
import { pluralize } from "./data/format";
import { type Connection, DisconnectedError, KernelError, KernelLink } from "./data/kernel";
import type { TextTable } from "./data/protocol";
import { button, copyText, h } from "./ui/dom";
import { DataTable, renderTable } from "./ui/data-table";
import { type ExportedPage, ExportMenu } from "./ui/export-menu";
import { type Shell, type View, type ViewName, VIEWS } from "./ui/shell";
import { PaneState } from "./ui/state";
import { TablePicker } from "./ui/table-picker";
import { readTheme, type Theme } from "./ui/theme";
import { Compare } from "./views/compare";
import { Consistency } from "./views/consistency";
import { Distribution } from "./views/distribution";
import { Home } from "./views/home";
import { Incidents } from "./views/incidents";
import { Overview } from "./views/overview";
import { Partitions } from "./views/partitions";
import { Series } from "./views/series";
import "uplot/dist/uPlot.min.css";
import "./ui/tokens.css";
import "./ui/base.css";

interface Model {
  view: ViewName;
  dataset: string | null;
  options: Record<string, object>;
  height: number;
  /** Whether the address of the page contains the state. */
  in_address: boolean;
  /** The list of tables when the cell ran, which a saved notebook contains. */
  summary: TextTable | Record<string, never>;
}

const VIEW_TITLES: Record<ViewName, string> = {
  home: "Tables",
  overview: "Heat map",
  series: "Series",
  compare: "Compare",
  distribution: "Distribution",
  consistency: "Consistency",
  incidents: "Incidents",
  partitions: "Partitions",
};
const VIEW_FACTORIES: Record<ViewName, (shell: Shell) => View> = {
  home: (shell) => new Home(shell),
  overview: (shell) => new Overview(shell),
  compare: (shell) => new Compare(shell),
  incidents: (shell) => new Incidents(shell),
  partitions: (shell) => new Partitions(shell),
  series: (shell) => new Series(shell),
  distribution: (shell) => new Distribution(shell),
  consistency: (shell) => new Consistency(shell),
};
/** Views of the selected dataset. Other views show all datasets, or have an option that selects one. */
const SINGLE_DATASET_VIEWS: readonly ViewName[] = ["compare", "distribution", "consistency", "partitions"];
/** Interval between requests for new commits, in milliseconds. */
const POLL_INTERVAL_MS = 5000;
/** Key of the user's name in the browser's local storage. */
const AUTHOR_KEY = "tidegauge.author";

let dashboards = 0;

class Dashboard implements Shell {
  readonly link: KernelLink;
  readonly root: HTMLElement;
  theme!: Theme;
  catalogue!: Catalogue;
  private readonly views = new Map<ViewName, View>();
  private readonly id = `tg-${++dashboards}`;
  private readonly heading = h("h1", { class: "tg-visually-hidden" });
  private readonly page = h("div", { class: "tg-page", role: "tabpanel", id: `${this.id}-page`, tabindex: "-1" });
  private readonly status = h("div", { class: "tg-status", role: "status", "aria-live": "polite" });
  private readonly repository = h("span", { class: "tg-repository", title: "The repository" });
  private readonly state = new PaneState();
  /** Views that were drawn; an error of another view takes the place of its content. */
  private readonly drawn = new Set<ViewName>();
  private readonly alert = h("div", { class: "tg-alert", role: "alert", hidden: true });
  private readonly datasetPicker = new TablePicker((name) => name !== null && this.selectDataset(name), { label: "Dataset", empty: null });
  private readonly tabs = new Map<ViewName, HTMLButtonElement>();
  private readonly cleanups: (() => void)[] = [];
  private visible: ViewName | null = null;
  /** Whether the catalogue must be fetched again. */
  private stale = true;
  private polling = false;
  /** Number of calls of `show`; only the newest one reports its state. */
  private showNumber = 0;
  private closed = false;
  /** Options last saved by this page, as JSON. */
  private savedOptions = "";
  private frame = 0;
  /** Whether an address is being applied to the model, so that its events are ignored. */
  private applying = false;
  /** Problem of the address that was opened. */
  private addressProblem: string | null = null;

  constructor(private readonly model: AnyModel<Model>) {
    this.link = new KernelLink(model, () => this.connection());
    for (const view of VIEWS) {
      const tab = button(VIEW_TITLES[view], () => this.go(view), { role: "tab", id: `${this.id}-${view}`, "aria-controls": `${this.id}-page`, "data-tab": view });
      tab.addEventListener("keydown", (event) => this.handleTabKey(event, view));
      this.tabs.set(view, tab);
    }
    const data = button("Data", () => void this.openData(), { title: "Show the data of this view as a table", "aria-haspopup": "dialog" });
    const bar = h(
      "header",
      { class: "tg-bar" },
      h("button", { type: "button", class: "tg-skip", onclick: () => this.page.focus() }, "Skip to the content"),
      h("span", { class: "tg-brand" }, "Tidegauge"),
      h("div", { class: "tg-tabs", role: "tablist", "aria-label": "Views" }, ...this.tabs.values()),
      this.datasetPicker.element,
      h("div", { class: "tg-page-tools" }, this.copyLink, data, this.exportMenu.element),
    );
    const main = h(model.get("in_address") ? "main" : "div", { class: "tg-main" }, this.heading, this.alert, this.page, h("div", { class: "tg-page-footer" }, this.status, this.repository));
    this.root = h("div", { class: "tidegauge", "data-state": "loading" }, bar, main, this.dataTable.element);
    this.applyHeight();
    // Exposed for browser tests and benchmarks.
    Object.assign(this.root, { tidegauge: this });
  }

  async start(): Promise<void> {
    if (this.closed) return;
    this.theme = readTheme(this.root);
    if (this.model.get("in_address") && location.hash) this.applyAddress();
    this.observe();
    await this.show();
  }

  get dataset(): string {
    return this.model.get("dataset") ?? this.catalogue.datasets[0] ?? "";
  }

  get fillsPage(): boolean {
    return this.model.get("height") === 0;
  }

  get writable(): boolean {
    return this.catalogue.writable;
  }

  options<T extends object>(view: ViewName): Partial<T> {
    return (this.model.get("options")?.[view] ?? {}) as Partial<T>;
  }

  get author(): string | null {
    return this.catalogue.author ?? localStorage.getItem(AUTHOR_KEY);
  }

  set author(name: string | null) {
    if (name) localStorage.setItem(AUTHOR_KEY, name);
    else localStorage.removeItem(AUTHOR_KEY);
  }

  saveOptions(view: ViewName, options: object, step = false): void {
    this.savedOptions = JSON.stringify(options);
    this.model.set("options", { ...this.model.get("options"), [view]: options });
    this.saveChanges();
    this.writeAddress(step);
  }

  go(view: ViewName, options?: object, dataset?: string): void {
    this.applying = true; // a single step in the history for all changes
    if (dataset !== undefined) this.model.set("dataset", dataset);
    if (options) {
      this.savedOptions = JSON.stringify(options);
      this.model.set("options", { ...this.model.get("options"), [view]: options });
    }
    this.model.set("view", view);
    this.saveChanges();
    this.applying = false;
    this.writeAddress(true);
    void this.show();
  }

  /** Address of the current view and its options, such as `#/incidents/337`. */
  get address(): string {
    const view = this.model.get("view");
    return formatAddress({ view, dataset: this.model.get("dataset"), options: this.options<Record<string, unknown>>(view) });
  }

  announce(text: string): void {
    this.status.textContent = text;
  }

  showError(error: unknown): void {
    if (error instanceof DisconnectedError) {
      this.showDisconnected(error);
      return;
    }
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

  /** Show why a view could not be opened: in its place, or as an alert if it shows earlier data. */
  private showFailure(name: ViewName, error: unknown): void {
    const isTransient = error instanceof DisconnectedError || (error instanceof KernelError && error.kind === "OutdatedError");
    if (isTransient || this.drawn.has(name)) {
      this.state.clear();
      this.showError(error);
      return;
    }
    this.view(name).element.hidden = true;
    this.page.prepend(this.state.element);
    this.state.error(error, () => void this.show());
    this.root.dataset.state = "error";
    console.warn("tidegauge:", error);
  }

  /**
   * Keep the last picture of the view, or show the list of tables that the notebook contains. CSS hides tabs and tools in this
   * state.
   */
  private showDisconnected(error: DisconnectedError): void {
    if (this.root.dataset.state === "disconnected") return;
    this.root.dataset.state = "disconnected";
    this.dataTable.element.close();
    this.alert.replaceChildren(h("span", {}, error.message));
    this.alert.hidden = false;
    if (this.visible && this.drawn.has(this.visible)) this.page.inert = true;
    else {
      const summary = this.model.get("summary");
      const table = summary?.columns ? renderTable(summary as TextTable) : null;
      this.page.replaceChildren(h("div", { class: "tg-data-rows" }, table));
    }
    // If Python answers again, everything is fetched again.
    this.drawn.clear();
    this.visible = null;
    this.stale = true;
  }

  /** State of the kernel as the notebook reports it. */
  private connection(): Connection {
    if (this.model.get("in_address")) return "served";
    if (this.root.closest(".jupyter-widgets-disconnected")) return "lost"; // set by ipywidgets
    const manager = this.model.widget_manager as { kernel?: { status?: string } | null } | undefined;
    if (manager?.kernel === null) return "lost";
    const status = manager?.kernel?.status ?? "unknown";
    if (status === "dead") return "lost";
    return status === "idle" || status === "unknown" ? status : "busy";
  }

  /** Send the state to the kernel; a model without a kernel throws. */
  private saveChanges(): void {
    try {
      this.model.save_changes();
    } catch {
      this.showError(new DisconnectedError());
    }
  }

  async withoutControls<R>(task: () => R): Promise<R> {
    this.root.classList.add("tg-without-controls");
    this.resizeView();
    await new Promise((resolve) => setTimeout(resolve)); // uPlot draws in a microtask
    try {
      return task();
    } finally {
      this.root.classList.remove("tg-without-controls");
      this.resizeView();
    }
  }

  /** Lay the page out for paper, or for the screen again. The charts are redrawn in the new width. */
  private setPrinting(printing: boolean): void {
    if (!this.root.isConnected) return;
    const name = this.model.get("view");
    const subject = SINGLE_DATASET_VIEWS.includes(name) ? `${this.dataset}: ${VIEW_TITLES[name].toLowerCase()}` : VIEW_TITLES[name];
    this.heading.textContent = printing ? (this.views.get(name)?.title?.() ?? subject) : `${VIEW_TITLES[name]} – Tidegauge`;
    this.root.classList.toggle("tg-without-controls", printing);
    this.root.classList.toggle("tg-printing", printing);
    this.theme = readTheme(this.root); // paper is light
    this.resizeView();
  }

  private resizeView(): void {
    if (this.visible) this.views.get(this.visible)?.onResize();
  }

  view(name: ViewName): View {
    let view = this.views.get(name);
    if (!view) {
      view = VIEW_FACTORIES[name](this);
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
    const fullHeight = this.model.get("in_address") ? "100vh" : "calc(100vh - 18px)"; // a notebook has a margin
    this.root.style.height = height > 0 ? `${height}px` : fullHeight;
  }

  private selectDataset(dataset: string): void {
    this.model.set("dataset", dataset);
    this.saveChanges();
    this.writeAddress(true);
  }

  /** Write the state into the address of the page; `step` adds an entry to the browser's history. */
  private writeAddress(step: boolean): void {
    if (!this.model.get("in_address") || this.applying || this.closed) return;
    const { address } = this;
    if (location.hash === address || this.addressProblem) return;
    history[step ? "pushState" : "replaceState"](null, "", address);
  }

  /** Apply the address of the page to the model. */
  private applyAddress(): void {
    const address = parseAddress(location.hash);
    const view = VIEWS.find((name) => name === address?.view);
    this.addressProblem = view || !location.hash ? null : `Unknown page ${location.hash}. The list of tables is shown instead.`;
    this.applying = true;
    if (address && view) {
      if (address.dataset !== null) this.model.set("dataset", address.dataset);
      this.savedOptions = JSON.stringify(address.options);
      this.model.set("options", { ...this.model.get("options"), [view]: address.options });
    }
    this.model.set("view", view ?? "home");
    this.saveChanges();
    this.applying = false;
  }

  private readonly dataTable = new DataTable();
  private readonly exportMenu = new ExportMenu(this, () => this.exportedPage());

  /** The page to export. */
  private exportedPage(): ExportedPage {
    const view = this.model.get("view");
    const dataset = SINGLE_DATASET_VIEWS.includes(view) ? this.dataset : null;
    const title = this.views.get(view)?.title?.() ?? VIEW_TITLES[view];
    const { options, ...listing } = this.views.get(view)?.listing?.() ?? {};
    const question = { view, dataset, options: { ...this.options<Record<string, unknown>>(view), ...options }, ...listing };
    return { question, title, element: this.page };
  }

  private async openData(): Promise<void> {
    const exportedPage = this.exportedPage();
    try {
      const { data } = await this.link.ask("data", exportedPage.question);
      this.dataTable.open(exportedPage.title, data, (table) => this.exportMenu.saveTable(exportedPage, table));
    } catch (error) {
      this.showError(error);
    }
  }

  private readonly copyLink = button(
    "Copy link",
    () => {
      const base = this.model.get("in_address") ? location.href.split("#")[0] : this.catalogue.url;
      void copyText(`${base}${this.address}`).then(
        () => this.announce("Link copied."),
        (error) => this.showError(error),
      );
    },
    { title: "Copy the address of this view", hidden: true },
  );

  /** Fetch the catalogue. */
  private async fetchCatalogue(): Promise<void> {
    const answer = await this.link.ask("catalogue", {});
    this.catalogue = new Catalogue(answer);
    this.link.catalogue = answer.data.catalogue;
    this.repository.textContent = answer.data.repository;
    this.stale = false;
    if (this.model.get("dataset") === null && this.catalogue.datasets.length) {
      this.model.set("dataset", this.catalogue.datasets[0]);
      this.saveChanges();
    }
  }

  private async show(): Promise<void> {
    const showNumber = ++this.showNumber;
    const name = this.model.get("view");
    this.root.dataset.view = name;
    this.root.dataset.state = "loading";
    this.alert.hidden = true;
    this.page.inert = false;
    for (const [key, tab] of this.tabs) {
      tab.setAttribute("aria-selected", String(key === name));
      tab.tabIndex = key === name ? 0 : -1;
    }
    this.page.setAttribute("aria-labelledby", `${this.id}-${name}`);
    this.heading.textContent = `${VIEW_TITLES[name]} – Tidegauge`;
    this.showTabs(name);
    this.datasetPicker.element.hidden = !SINGLE_DATASET_VIEWS.includes(name);
    if (!this.drawn.has(name)) {
      if (!this.view(name).prepare) this.state.loading(); // else the view shows data before the catalogue arrives
      if (!this.page.contains(this.state.element)) this.page.prepend(this.state.element);
    }
    try {
      if (this.stale) {
        const view = this.view(name);
        if (this.visible === null && view.prepare) {
          this.visible = name;
          this.page.replaceChildren(this.state.element, view.element);
        }
        view.prepare?.();
        await this.fetchCatalogue();
        if (showNumber !== this.showNumber) return;
      }
      this.showTabs(name);
      this.copyLink.hidden = !this.model.get("in_address") && this.catalogue.url === null;
      this.showOpenCount();
      this.datasetPicker.show(this.catalogue.datasets, this.dataset);
      if (!this.catalogue.datasets.length) {
        this.state.empty("The repository is empty: no metrics yet.");
        this.page.replaceChildren(this.state.element);
        this.visible = null;
        this.root.dataset.state = "drawn";
        return;
      }
      const view = this.view(name);
      if (this.visible !== name) {
        this.visible = name;
        this.announce("");
        this.page.replaceChildren(this.state.element, view.element);
      }
      view.element.hidden = false;
      await view.open();
      if (showNumber !== this.showNumber) return; // what was asked for since is not drawn yet
      this.drawn.add(name);
      this.state.clear();
      if (this.model.get("in_address")) {
        document.title = `${view.title?.() ?? VIEW_TITLES[name]} – Tidegauge`;
        this.writeAddress(false);
      }
      if (this.addressProblem) {
        this.showError(new Error(this.addressProblem));
        this.addressProblem = null;
        this.root.dataset.state = "drawn";
      }
      if (this.root.dataset.state === "loading") this.root.dataset.state = "drawn";
    } catch (error) {
      // An error of a view or of options that are no longer visible is ignored.
      if (showNumber === this.showNumber) this.showFailure(name, error);
    }
  }

  /** Show the tabs. The consistency tab is hidden without consistency metrics, unless it is the current tab. */
  private showTabs(current: ViewName): void {
    for (const [name, tab] of this.tabs) tab.hidden = name === "consistency" && name !== current && !this.catalogue?.hasConsistency;
  }

  /** Show the number of open incidents on the tab. */
  private showOpenCount(): void {
    const { openIncidents: open } = this.catalogue;
    const badge = open ? [h("span", { class: "tg-badge", "aria-hidden": "true", title: `${pluralize(open, "open incident")}` }, open.toLocaleString("en-US"))] : [];
    this.tabs.get("incidents")!.replaceChildren(VIEW_TITLES.incidents, ...badge);
  }

  private handleTabKey(event: KeyboardEvent, view: ViewName): void {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const visibleTabs = VIEWS.filter((name) => !this.tabs.get(name)!.hidden);
    const next = visibleTabs[(visibleTabs.indexOf(view) + step + visibleTabs.length) % visibleTabs.length];
    this.go(next);
    this.tabs.get(next)!.focus();
    event.preventDefault();
  }

  /** Observe changes from outside: size, colors, model traits, new commits. */
  private observe(): void {
    const { model } = this;
    const refresh = () => {
      if (this.applying) return;
      this.writeAddress(true);
      void this.show();
    };
    const heightChanged = () => this.applyHeight();
    // Another page of the same widget, or Python, may change the options.
    const optionsChanged = () => {
      const view = model.get("view");
      if (this.applying) return;
      if (JSON.stringify(this.options(view)) !== this.savedOptions) refresh();
    };
    model.on("change:view", refresh);
    model.on("change:dataset", refresh);
    model.on("change:height", heightChanged);
    model.on("change:options", optionsChanged);
    // ipywidgets reports that the connection to this model began or ended.
    const connectionChanged = () => void this.poll();
    model.on("comm_live_update", connectionChanged);
    const resizeObserver = new ResizeObserver(() => {
      cancelAnimationFrame(this.frame);
      this.frame = requestAnimationFrame(() => this.resizeView());
    });
    resizeObserver.observe(this.root);
    const updateTheme = () => {
      this.theme = readTheme(this.root);
      this.views.forEach((view) => view.onResize());
    };
    const themeObserver = new MutationObserver(updateTheme);
    themeObserver.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-name", "data-jp-theme-light", "class"] });
    const colourScheme = matchMedia("(prefers-color-scheme: dark)");
    colourScheme.addEventListener("change", updateTheme);
    const handlePopState = () => {
      this.applyAddress();
      void this.show();
    };
    if (model.get("in_address")) window.addEventListener("popstate", handlePopState);
    const [startPrinting, endPrinting] = [() => this.setPrinting(true), () => this.setPrinting(false)];
    window.addEventListener("beforeprint", startPrinting);
    window.addEventListener("afterprint", endPrinting);
    const timer = setInterval(() => void this.poll(), POLL_INTERVAL_MS);
    this.cleanups.push(
      () => model.off("change:view", refresh),
      () => model.off("change:dataset", refresh),
      () => model.off("change:height", heightChanged),
      () => model.off("change:options", optionsChanged),
      () => model.off("comm_live_update" as never, connectionChanged),
      () => resizeObserver.disconnect(),
      () => themeObserver.disconnect(),
      () => colourScheme.removeEventListener("change", updateTheme),
      () => window.removeEventListener("popstate", handlePopState),
      () => window.removeEventListener("beforeprint", startPrinting),
      () => window.removeEventListener("afterprint", endPrinting),
      () => clearInterval(timer),
    );
  }

  /** Poll for new commits, unless the page is hidden. */
  private async poll(): Promise<void> {
    const hidden = document.hidden || !this.root.isConnected || this.root.offsetParent === null;
    if (hidden || this.polling) return; // one request at a time, because the kernel may be busy
    this.polling = true;
    try {
      const { data } = await this.link.ask("commits", {});
      if (data.commits === this.catalogue?.commits && this.root.dataset.state !== "disconnected") return;
      this.stale = true;
      await this.show();
    } catch (error) {
      // If the database cannot be read, the next request reports it.
      if (error instanceof DisconnectedError) this.showError(error);
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
    // Size and colors are available only after the element was added to the page.
    requestAnimationFrame(() => void dashboard.start().catch((error) => dashboard.showError(error)));
    return () => dashboard.close();
  },
};
