// What views are given, and what they are.

import type { Catalogue } from "./catalogue";
import type { Link } from "./link";
import type { Theme } from "./theme";

export const VIEWS = ["overview", "series", "compare", "distribution", "consistency", "incidents", "partitions"] as const;
export type ViewName = (typeof VIEWS)[number];

export interface Stage {
  readonly link: Link;
  readonly root: HTMLElement;
  readonly theme: Theme;
  /** What there is to look at. */
  readonly catalogue: Catalogue;
  /** The dataset of the views that show one. */
  readonly dataset: string;
  readonly writable: boolean;
  /** What a view was asked for last; the kernel sees it, for `dashboard.data`. */
  options<T extends object>(view: ViewName): Partial<T>;
  remember(view: ViewName, options: object): void;
  /** Turn to another view, with other options if any are given. */
  go(view: ViewName, options?: object): void;
  /** Tell something in the line below; screen readers say it. */
  say(text: string): void;
  fail(error: unknown): void;
}

export interface View {
  readonly element: HTMLElement;
  /** Show what the options say; called whenever the view is turned to, and when something was written. */
  open(): Promise<void>;
  /** Draw again: sizes or colours changed. */
  resized(): void;
  close(): void;
}
