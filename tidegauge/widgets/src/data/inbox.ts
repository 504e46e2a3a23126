// Incidents of the inbox: filters by status and words, and groups with a common cause across tables.

import type { AnswerTo } from "./kernel";

/** Statuses of incidents, in the order of the menu. */
export const STATUSES = ["open", "snoozed", "acknowledged", "expected", "resolved", "new level"] as const;

/** Incident in the list. */
export interface InboxItem {
  id: number;
  dataset: string;
  headline: string;
  severity: string;
  first: string;
  last: string;
  /** Seconds since 1970; NaN without a time. */
  since: number;
  until: number;
  openedAt: number;
  series: number;
  /** Status set by labels. */
  status: string;
  assignee: string | null;
  /** End of the snooze in seconds since 1970; NaN without a snooze. */
  snoozedUntil: number;
  /** Number of the group of incidents with the same cause; NaN without a group. */
  group: number;
  /** Headline of the group. */
  groupHeadline: string | null;
}

/** Incidents that share a cause, or a single incident. */
export interface InboxGroup {
  key: string;
  since: number;
  headline: string;
  items: InboxItem[];
  tables: number;
}

/** Read the incidents of an answer, in its order. */
export function inboxItems({ data, arrays }: AnswerTo<"incidents">): InboxItem[] {
  const { strings } = data;
  const text = (name: string, n: number) => strings[name]?.[n] ?? "";
  const number = (name: string, n: number) => arrays[name]?.[n] ?? NaN;
  return Array.from(arrays.id ?? [], (id, n) => ({
    id,
    dataset: text("dataset", n),
    headline: text("headline", n),
    severity: text("severity", n),
    first: text("first", n),
    last: text("last", n),
    since: number("since", n),
    until: number("until", n),
    openedAt: number("opened_at", n),
    series: number("series", n),
    status: text("status", n),
    assignee: strings.assignee?.[n] ?? null,
    snoozedUntil: number("snoozed_until", n),
    group: number("group", n),
    groupHeadline: strings.shared?.[n] ?? null,
  }));
}

/** Displayed status: an open incident is `snoozed` until the end of its snooze. */
export function displayedStatus(item: InboxItem, now: number): string {
  return item.status === "open" && item.snoozedUntil > now ? "snoozed" : item.status;
}

const DATED_HEADLINE = /^\d{4}-\d\d(?:-\d\d)?(?: \d\d:\d\d(?:-\d\d:\d\d)?)?(?: to [\d-]+(?: \d\d:\d\d)?)?: (.+)$/s;

/** Drop the period at the beginning of a headline, where a list shows the date separately. */
export function withoutPeriod(headline: string): string {
  return DATED_HEADLINE.exec(headline)?.[1] ?? headline;
}

/** Filter incidents by words in headline, table, severity, assignee or number. */
export function searchInbox(items: readonly InboxItem[], text: string): InboxItem[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return items.filter((item) => {
    const searchedText = [item.headline, item.dataset, item.severity, item.assignee ?? "", `#${item.id}`].join("\n").toLowerCase();
    return words.every((word) => searchedText.includes(word));
  });
}

/** Group incidents with the same cause, in the order of their first incident. All other groups have one incident. */
export function groupInbox(items: readonly InboxItem[]): InboxGroup[] {
  const groups = new Map<string, InboxGroup>();
  for (const item of items) {
    const key = Number.isNaN(item.group) ? `#${item.id}` : String(item.group);
    const group = groups.get(key) ?? { key, since: item.since, headline: item.groupHeadline ?? "", items: [], tables: 0 };
    group.items.push(item);
    groups.set(key, group);
  }
  for (const group of groups.values()) group.tables = new Set(group.items.map(({ dataset }) => dataset)).size;
  return [...groups.values()];
}

const SEVERITY_ORDER = ["error", "warning", "info"];

/** Statuses from most to least urgent: nobody has decided, somebody has, the values returned, nothing was wrong. */
const STATUS_RANKS: Readonly<Record<string, number>> = { open: 0, snoozed: 1, acknowledged: 1, "new level": 2, resolved: 2, expected: 3 };

/** Order incidents by importance: by the urgency of their status, then by severity, then by the number of their series. */
export function worstIncidents(items: readonly InboxItem[], now: number): InboxItem[] {
  const rank = (item: InboxItem) => [STATUS_RANKS[displayedStatus(item, now)] ?? 0, SEVERITY_ORDER.indexOf(item.severity), -item.series, -item.since];
  return items
    .map((item) => ({ item, key: rank(item) }))
    .sort(({ key: a }, { key: b }) => a.map((value, n) => value - b[n]).find((difference) => difference) ?? 0)
    .map(({ item }) => item);
}
