// Shell of the dashboard and the interface of its views.

import type { Catalogue } from "../data/catalogue";
import type { KernelLink } from "../data/kernel";
import type { Theme } from "./theme";

export const VIEWS = ["home", "overview", "series", "compare", "distribution", "consistency", "incidents", "partitions"] as const;
export type ViewName = (typeof VIEWS)[number];

/** Services of the dashboard that its views use. */
export interface Shell {
  readonly link: KernelLink;
  readonly root: HTMLElement;
  readonly theme: Theme;
  readonly catalogue: Catalogue;
  /** Selected dataset, for views of a single one. */
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
  /** Announce a text in the status line, an ARIA live region. */
  announce(text: string): void;
  showError(error: unknown): void;
}

/** What a view lists: the kernel exports these rows and columns, in this order; all of those that are not given. */
export interface Listing {
  /** Names of tables, or ids. */
  rows?: readonly (string | number)[];
  /** First and last label; empty for none. */
  columns?: readonly string[];
  /** Options that the view chose by itself. */
  options?: object;
}

/** View: one tab of the dashboard. */
export interface View {
  readonly element: HTMLElement;
  /** Show what the options ask for; called on navigation and after the repository changed. */
  open(): Promise<void>;
  /** Ask for what needs no catalogue, and show it, while the catalogue is fetched. */
  prepare?(): void;
  /** Title of what is shown, for the browser's tab; the view's name if not given. */
  title?(): string;
  /** What is listed, for exports: also what is scrolled out of sight or folded. */
  listing?(): Listing;
  /** Redraw after the size or the colours changed. */
  onResize(): void;
  close(): void;
}
