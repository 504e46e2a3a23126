// Shell of the dashboard and the interface of its views.

import type { Catalogue } from "../data/catalogue";
import type { KernelLink } from "../data/kernel";
import type { Theme } from "./theme";

/** Names of the views, in the order of the tabs. */
export const VIEWS = ["home", "overview", "series", "compare", "distribution", "consistency", "incidents", "partitions"] as const;
/** Name of a view. */
export type ViewName = (typeof VIEWS)[number];

/** Services of the dashboard that its views use. */
export interface Shell {
  readonly link: KernelLink;
  readonly root: HTMLElement;
  readonly theme: Theme;
  readonly catalogue: Catalogue;
  /** Selected dataset, for views of a single dataset. */
  readonly dataset: string;
  readonly writable: boolean;
  /** Whether the dashboard fills the page, as when it is served. */
  readonly fillsPage: boolean;
  /** Author of labels that are added here; null until the user gives a name. */
  author: string | null;
  /** Options of a view, synced with the kernel as `dashboard.options`. */
  options<T extends object>(view: ViewName): Partial<T>;
  /** Save the options of a view; `step` adds an entry to the browser's history. */
  saveOptions(view: ViewName, options: object, step?: boolean): void;
  /** Navigate to a view, optionally with new options and another selected dataset. */
  go(view: ViewName, options?: object, dataset?: string): void;
  /** Announce a message in the status line, an ARIA live region. */
  announce(text: string): void;
  showError(error: unknown): void;
  /** Run a task while the page shows no controls, and its charts fill the space. */
  withoutControls<R>(task: () => R): Promise<R>;
}

/** Rows and columns that a view lists. The kernel exports them in this order; without `rows` or `columns`, it exports all. */
export interface Listing {
  /** Names of tables, or ids. */
  rows?: readonly (string | number)[];
  /** First and last displayed label; empty if no column is displayed. */
  columns?: readonly string[];
  /** Defaults that the view chose for missing options. */
  options?: object;
}

/** View: one tab of the dashboard. */
export interface View {
  readonly element: HTMLElement;
  /** Apply the options; called on navigation and after the repository changed. */
  open(): Promise<void>;
  /** Request and show data that needs no catalogue, while the catalogue is fetched. */
  prepare?(): void;
  /** Title for the browser's tab; the name of the view if not given. */
  title?(): string;
  /** Listed rows and columns for exports, including rows that are folded or scrolled out of view. */
  listing?(): Listing;
  /** Redraw after the size or the colors changed. */
  onResize(): void;
  close(): void;
}
