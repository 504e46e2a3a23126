import assert from "node:assert/strict";
import test from "node:test";
import { defaultSides, fieldValue, isDaily, listSegments, matchNames, previousPartition, sharedSegment, type SideChoices, sideExists, sideKind, sideSegment, switchSegment } from "../../src/data/comparison-sides";

const DAY = 86400;

/** Days 20 to 1 of 1970, the newest first, except for the days in `without`. */
function dailyChoices(without: number[] = [], changes: Partial<SideChoices> = {}): SideChoices {
  const days = Array.from({ length: 20 }, (_, n) => 20 - n).filter((day) => !without.includes(day));
  return {
    partitions: days.map((day) => `d${day}`),
    segments: days.map(() => ""),
    times: Float64Array.from(days, (day) => (day - 1) * DAY),
    runs: [],
    ...changes,
  };
}

test("by default the newest partition is compared with the partition a week earlier", () => {
  assert.deepEqual(defaultSides(dailyChoices(), "partitions"), [{ partition: "d13" }, { partition: "d20" }]);
  assert.deepEqual(defaultSides(dailyChoices([13]), "partitions"), [{ partition: "d19" }, { partition: "d20" }]);
});

test("the previous partition is in the same segment", () => {
  const times = Float64Array.from([8 * DAY, 8 * DAY, DAY, DAY, 0]);
  assert.equal(previousPartition({ times, segments: ["a", "b", "b", "a", "a"] }, 0), 3);
  assert.equal(previousPartition({ times, segments: ["a", "b", "b", "b", "a"] }, 0), 4);
  assert.equal(previousPartition({ times, segments: ["a", "b", "b", "b", "b"] }, 0), -1);
});

test("without times the first two partitions are compared, a single partition is not", () => {
  const loose = { partitions: ["b", "a"], segments: ["", ""], times: Float64Array.from([NaN, NaN]), runs: [] };
  assert.deepEqual(defaultSides(loose, "partitions"), [{ partition: "a" }, { partition: "b" }]);
  assert.equal(defaultSides(loose, "windows"), null);
  assert.equal(defaultSides({ ...loose, partitions: ["a"], segments: [""], times: Float64Array.from([0]) }, "partitions"), null);
});

test("windows are the last seven days and the seven before", () => {
  const [baseline, current] = defaultSides(dailyChoices(), "windows")!;
  assert.deepEqual(current, { since: "1970-01-14", until: "1970-01-20" });
  assert.deepEqual(baseline, { since: "1970-01-07", until: "1970-01-13" });
  const hours = dailyChoices([], { times: Float64Array.from([20 * DAY + 3600]) });
  assert.deepEqual(defaultSides(hours, "windows")![1], { since: "1970-01-14T02:00", until: "1970-01-21T01:00" });
  assert.deepEqual([isDaily(dailyChoices().times), isDaily(hours.times)], [true, false]);
});

test("runs are the last two", () => {
  const run = (id: number) => ({ id, started_at: "", partition_count: 1 });
  assert.deepEqual(defaultSides(dailyChoices([], { runs: [run(7), run(5), run(2)] }), "runs"), [{ run: 5 }, { run: 7 }]);
  assert.equal(defaultSides(dailyChoices([], { runs: [run(7)] }), "runs"), null);
});

test("a side has a kind, and exists or not", () => {
  assert.deepEqual([{ partition: "" }, { run: 1 }, { since: null, until: "x" }, undefined].map(sideKind), ["partitions", "runs", "windows", null]);
  assert.equal(sideExists(dailyChoices(), { partition: "d1" }), true);
  assert.equal(sideExists(dailyChoices(), { partition: "d99" }), false);
  assert.equal(sideExists(dailyChoices(), { run: 1 }), false);
  assert.equal(sideExists(dailyChoices(), undefined), false);
});

test("names that start with the typed string come first", () => {
  assert.deepEqual(matchNames(["xAb", "abc", "b", "zab"], " AB", 2), ["abc", "xAb"]);
  assert.deepEqual(matchNames(["a", "b"], "", 5), ["a", "b"]);
});

test("both sides have the same segment, by default the segment of the current partition", () => {
  const choices = { partitions: ["2b", "2a", "1b", "1a"], segments: ["b", "a", "b", "a"], times: Float64Array.from([DAY, DAY, 0, 0]) };
  const window = { since: "1970-01-01", until: null };
  assert.deepEqual(listSegments(choices), ["a", "b"]);
  assert.equal(sideSegment(choices, { partition: "1a" }), "a");
  assert.equal(sideSegment(choices, window), null);
  assert.equal(sharedSegment(choices, window, { partition: "1a" }, "b"), "a");
  assert.equal(sharedSegment(choices, { partition: "1a" }, window, "b"), "a");
  assert.equal(sharedSegment(choices, window, window, "a"), "a");
  assert.equal(sharedSegment(choices, window, window, "gone"), "b");
  assert.equal(sharedSegment(choices, { partition: "1a" }, { partition: "1b" }, "a"), null);
  assert.equal(sharedSegment({ partitions: [], segments: [] }, window, window, null), null);
  assert.deepEqual(switchSegment(choices, { partition: "1a" }, "b"), { partition: "1b" });
  assert.deepEqual(switchSegment({ ...choices, segments: ["b", "a", "c", "a"] }, { partition: "1a" }, "b"), { partition: "2b" });
  assert.deepEqual(switchSegment(choices, window, "b"), window);
});

test("an end of a window is formatted for its field", () => {
  assert.equal(fieldValue("2013-01-05", true, "since"), "2013-01-05");
  assert.equal(fieldValue("2013-01-05T12:30:00", true, "until"), "2013-01-05");
  assert.equal(fieldValue("2013-01-05", false, "since"), "2013-01-05T00:00");
  assert.equal(fieldValue("2013-01-05", false, "until"), "2013-01-05T23:59");
  assert.equal(fieldValue("2013-01-05 12:30:59", false, "until"), "2013-01-05T12:30");
  assert.equal(fieldValue("2013-01-05T12:30:00+02:00", false, "since"), "2013-01-05T10:30");
  assert.equal(fieldValue(null, false, "since"), "");
  for (const wrong of ["yesterday", "2013-13-01", "2013-01-05T99:00"]) assert.equal(fieldValue(wrong, false, "since"), null);
});
