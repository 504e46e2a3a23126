import assert from "node:assert/strict";
import test from "node:test";
import { groupInbox, type InboxItem, searchInbox, displayedStatus, withoutPeriod, worstIncidents } from "../../src/data/inbox";

const item = (id: number, changes: Partial<InboxItem> = {}): InboxItem => ({
  id, dataset: "orders", headline: "volume -52%", severity: "warning", first: "ds=1", last: "ds=1", since: 86400, until: 86400,
  openedAt: 0, series: 1, status: "open", assignee: null, snoozedUntil: NaN, group: NaN, groupHeadline: null, ...changes,
});

test("an open incident is snoozed until its time", () => {
  assert.equal(displayedStatus(item(1, { snoozedUntil: 100 }), 99), "snoozed");
  assert.equal(displayedStatus(item(1, { snoozedUntil: 100 }), 100), "open");
  assert.equal(displayedStatus(item(1, { snoozedUntil: 100, status: "resolved" }), 99), "resolved");
  assert.equal(displayedStatus(item(1), 0), "open");
});

test("words match headline, table, assignee and number", () => {
  const all = [item(7, { assignee: "Ann" }), item(8, { dataset: "returns" })];
  const foundIds = (text: string) => searchInbox(all, text).map(({ id }) => id);
  assert.deepEqual(foundIds("ORDERS ann"), [7]);
  assert.deepEqual(foundIds("volume"), [7, 8]);
  assert.deepEqual(foundIds("#8"), [8]);
  assert.deepEqual(foundIds("orders returns"), []);
});

test("incidents with the same cause are a group across tables, other groups have one incident", () => {
  const groups = groupInbox([item(1, { group: 1, groupHeadline: "fewer rows in 2 tables" }), item(2), item(3, { dataset: "returns", group: 1 }), item(4, { since: NaN })]);
  assert.deepEqual(groups.map(({ items, tables }) => [items.map(({ id }) => id), tables]), [[[1, 3], 2], [[2], 1], [[4], 1]]);
  assert.equal(groups[0].headline, "fewer rows in 2 tables");
});

test("the worst incidents are undecided, then severe, then have many series; expected ones come last", () => {
  const all = [
    item(1, { status: "resolved", severity: "error", series: 9 }), item(2, { severity: "info" }), item(3, { severity: "error" }),
    item(4, { severity: "error", series: 5 }), item(5, { snoozedUntil: 100, severity: "warning" }),
    item(6, { status: "expected", severity: "error", series: 25 }), item(7, { status: "acknowledged", severity: "error" }),
    item(8, { status: "new level", severity: "warning", series: 30 }),
  ];
  assert.deepEqual(worstIncidents(all, 0).map(({ id }) => id), [4, 3, 2, 7, 5, 1, 8, 6]);
});

test("a list shows headlines without their period, which can have times and colons", () => {
  assert.equal(withoutPeriod("2013-02-08 to 2013-02-11: 57% of rows: none"), "57% of rows: none");
  assert.equal(withoutPeriod("2013-02-08 07:00 to 2013-02-08 09:00: volume -52%"), "volume -52%");
  assert.equal(withoutPeriod("2013-02-08 07:00-08:00: volume -52%"), "volume -52%");
  assert.equal(withoutPeriod("2013-02: volume -52%"), "volume -52%");
  assert.equal(withoutPeriod("region=eu: volume -52%"), "region=eu: volume -52%");
});
