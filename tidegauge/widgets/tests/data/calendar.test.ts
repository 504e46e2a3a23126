import assert from "node:assert/strict";
import test from "node:test";
import { chooseLayout, findPage, neighbourIndex, paginate, weekday } from "../../src/data/calendar";

const DAY = 86400;
const at = (text: string) => Date.parse(`${text}Z`) / 1000;
const days = (from: string, count: number) => Array.from({ length: count }, (_, n) => at(`${from}T00:00`) + n * DAY);

test("daily partitions are laid out as days, hourly ones as hours, others in order", () => {
  assert.equal(chooseLayout(days("2013-01-01", 10)), "days");
  assert.equal(chooseLayout([at("2013-01-01T00:00"), at("2013-01-01T01:00"), at("2013-01-01T02:00")]), "hours");
  assert.equal(chooseLayout([at("2013-01-01T00:30"), at("2013-01-01T01:00")]), "list");
  assert.equal(chooseLayout([0, 7 * DAY, 14 * DAY]), "list");
  assert.equal(chooseLayout([0, DAY, DAY]), "list");
  assert.equal(chooseLayout([0, NaN]), "list");
  assert.equal(chooseLayout([]), "list");
  assert.equal(chooseLayout([0]), "days");
});

test("weeks of a month start on Monday", () => {
  // 2013-01-01 was a Tuesday.
  const [[january]] = paginate(days("2013-01-01", 31), "days");
  assert.equal(january.title, "Jan 2013");
  assert.deepEqual(january.rows[0], [-1, 0, 1, 2, 3, 4, 5]);
  assert.deepEqual(january.rows[4], [27, 28, 29, 30, -1, -1, -1]);
  assert.equal(january.rows.length, 5);
});

test("months without partitions are included, and the newest twelve come first", () => {
  const pages = paginate([at("2012-12-31T00:00"), at("2014-01-15T00:00")], "days");
  assert.equal(pages.length, 2);
  assert.deepEqual([pages[0][0].title, pages[0][11].title], ["Feb 2013", "Jan 2014"]);
  assert.deepEqual(pages[1].map(({ title }) => title), ["Dec 2012", "Jan 2013"]);
  assert.deepEqual([findPage(pages, 1), findPage(pages, 0), findPage(pages, 9)], [0, 1, 0]);
});

test("a page of hours is a month with 24 cells per day", () => {
  const pages = paginate([at("2013-01-31T23:00"), at("2013-02-01T00:00"), at("2013-02-01T02:00")], "hours");
  assert.equal(pages.length, 2);
  const [[february], [january]] = pages;
  assert.deepEqual([february.rows.length, january.rows.length], [28, 31]);
  assert.deepEqual(february.rows[0].slice(0, 4), [1, -1, 2, -1]);
  assert.equal(january.rows[30][23], 0);
  assert.equal(february.rowHeadings[0], "Fri 1");
});

test("a list has pages, and the newest page is complete", () => {
  const pages = paginate(new Array<number>(361).fill(NaN), "list");
  assert.deepEqual(pages.map(([{ rows }]) => [rows[0][0], rows[0].length]), [[1, 360], [0, 1]]);
  assert.deepEqual(paginate([], "list"), []);
});

test("left and right lead to the next partition, up and down to the nearest a week away", () => {
  const times = days("2013-01-01", 20).filter((_, n) => n !== 8);
  assert.equal(neighbourIndex(times, "days", 0, 1, 0), 1);
  assert.equal(neighbourIndex(times, "days", 0, -1, 0), 0);
  assert.equal(neighbourIndex(times, "days", 0, 0, 1), 7);
  assert.equal(neighbourIndex(times, "days", 15, 0, -1), 8);
  // The place a week later is missing: the nearest before it.
  assert.equal(neighbourIndex(times, "days", 1, 0, 1), 7);
  assert.equal(neighbourIndex(times, "days", 18, 0, 1), 18);
  assert.equal(neighbourIndex(times, "days", 3, 1e9, 0), 18);
  assert.equal(neighbourIndex([NaN, NaN, NaN], "list", 1, 0, 1), 2);
});

test("weekdays begin with Monday", () => {
  assert.deepEqual([weekday(0), weekday(at("2013-01-06T00:00")), weekday(at("2013-01-07T00:00"))], [3, 6, 0]);
});
