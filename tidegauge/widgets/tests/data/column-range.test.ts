import assert from "node:assert/strict";
import { test } from "node:test";
import { columnRange, columnsWithin, savedRange } from "../../src/data/column-range";

const DAY = 86400;
const days = { labels: ["2026-03-01", "2026-03-02", "2026-03-04", "model=2"], times: [0, 1, 3].map((n) => Date.UTC(2026, 2, 1) / 1000 + n * DAY).concat(NaN) };
const START = Date.UTC(2026, 2, 1) / 1000;
const hours = { labels: ["2026-03-01 23:00", "2026-03-02", "2026-03-02 01:00"], times: [23, 24, 25].map((hour) => START + hour * 3600) };
const range = (since: string | null, until: string | null, columns: typeof days = days) => columnRange(columns, { since, until });

test("a range has the columns between its ends", () => {
  assert.equal(range(null, null), null);
  assert.deepEqual(range("2026-03-02", null), [1, 4]);
  assert.deepEqual(range(null, "2026-03-02"), [0, 2]);
  assert.deepEqual(range("2026-03-03", "2026-03-05"), [2, 3], "days without a partition are ends, too");
  assert.deepEqual(range("2026-03-04", "model=2"), [2, 4]);
});

test("a range without columns is null", () => {
  assert.equal(range("2026-03-03", "2026-03-03"), null);
  assert.equal(range("2026-04-01", null, hours), null);
  assert.equal(range("2026-03-04", "2026-03-01"), null);
  assert.equal(range(null, "nothing"), null);
});

test("a date as an end includes its entire day, a time does not", () => {
  assert.deepEqual(range(null, "2026-03-02", hours), [0, 3]);
  assert.deepEqual(range(null, "2026-03-02 00:00", hours), [0, 2]);
  assert.deepEqual(range("2026-03-02", null, hours), [1, 3]);
});

test("a saved range is restored, and is open at the newest column", () => {
  for (const columns of [days, hours]) {
    const count = columns.labels.length;
    for (let first = 0; first < count; first++) {
      for (let end = first + 1; end <= count; end++) {
        const saved = savedRange(columns, first, end);
        assert.deepEqual(columnRange(columns, saved), [first, end]);
        assert.equal(saved.until === null, end === count);
      }
    }
  }
});

test("a window includes both ends", () => {
  assert.deepEqual(columnsWithin(days, [START, START + DAY]), [0, 2]);
  assert.deepEqual(columnsWithin(days, [START + 2 * DAY, START + 9 * DAY]), [2, 3]);
  assert.equal(columnsWithin(days, [0, 1]), null);
});
