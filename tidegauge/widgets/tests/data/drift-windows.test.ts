import assert from "node:assert/strict";
import test from "node:test";
import { driftWindows, filterSegment, fourWeeksBefore } from "../../src/data/drift-windows";

const DAY = 86400;

test("the baseline of drift is the preceding four weeks", () => {
  const day = Date.parse("2013-02-08T00:00:00Z") / 1000;
  assert.deepEqual(fourWeeksBefore(day), { since: "2013-01-11", until: "2013-02-07" });
  assert.deepEqual(fourWeeksBefore(day + 3600), { since: "2013-01-11T01:00:00", until: "2013-02-08T00:59:59" });
});

test("drift is requested in windows of eight weeks, the newest first", () => {
  const times = [0, 10, 60, 70, 120, NaN].map((day) => day * DAY);
  assert.deepEqual(driftWindows(times), [
    { since: "1970-03-12T00:00:00", until: "1970-05-01T00:00:00" },
    { since: "1970-01-11T00:00:00", until: "1970-03-02T00:00:00" },
    { since: "1970-01-01T00:00:00", until: "1970-01-01T00:00:00" },
  ]);
  assert.deepEqual(driftWindows([NaN]), []);
});

test("drift rows of a segment are sorted by time", () => {
  const texts = { partition: ["c", "a", "b"], segment: ["x", "x", "y"] };
  const arrays = { time: Float64Array.from([3, 1, 2]), js: Float64Array.from([0.3, 0.1, 0.2]) };
  assert.deepEqual(filterSegment(texts, arrays, "x"), { labels: ["a", "c"], numbers: { time: [1, 3], js: [0.1, 0.3] } });
  assert.deepEqual(filterSegment(texts, arrays, null).labels, ["a", "b", "c"]);
  assert.deepEqual(filterSegment({ partition: [], segment: [] }, {}, "x"), { labels: [], numbers: {} });
});
