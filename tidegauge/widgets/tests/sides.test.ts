import assert from "node:assert/strict";
import test from "node:test";
import { before, hasDays, isKnown, kindOf, type Known, matches, usual } from "../src/sides";

const DAY = 86400;

/** Days 20 to 1 of 1970, the newest first, without some. */
function known(without: number[] = [], more: Partial<Known> = {}): Known {
  const days = Array.from({ length: 20 }, (_, n) => 20 - n).filter((day) => !without.includes(day));
  return {
    partitions: days.map((day) => `d${day}`),
    within: days.map(() => ""),
    times: Float64Array.from(days, (day) => (day - 1) * DAY),
    runs: [],
    ...more,
  };
}

test("by itself the newest partition is compared with the one a week before", () => {
  assert.deepEqual(usual(known(), "partitions"), [{ partition: "d13" }, { partition: "d20" }]);
  assert.deepEqual(usual(known([13]), "partitions"), [{ partition: "d19" }, { partition: "d20" }]);
});

test("partitions of other segments are not like it", () => {
  const times = Float64Array.from([8 * DAY, 8 * DAY, DAY, DAY, 0]);
  assert.equal(before({ times, within: ["a", "b", "b", "a", "a"] }, 0), 3);
  assert.equal(before({ times, within: ["a", "b", "b", "b", "a"] }, 0), 4);
  assert.equal(before({ times, within: ["a", "b", "b", "b", "b"] }, 0), -1);
});

test("without times any two are compared, and one alone is not", () => {
  const loose = { partitions: ["b", "a"], within: ["", ""], times: Float64Array.from([NaN, NaN]), runs: [] };
  assert.deepEqual(usual(loose, "partitions"), [{ partition: "a" }, { partition: "b" }]);
  assert.equal(usual(loose, "windows"), null);
  assert.equal(usual({ ...loose, partitions: ["a"], within: [""], times: Float64Array.from([0]) }, "partitions"), null);
});

test("windows are the last seven days and the seven before", () => {
  const [baseline, current] = usual(known(), "windows")!;
  assert.deepEqual(current, { since: "1970-01-14", until: "1970-01-20" });
  assert.deepEqual(baseline, { since: "1970-01-07", until: "1970-01-13" });
  const hours = known([], { times: Float64Array.from([20 * DAY + 3600]) });
  assert.deepEqual(usual(hours, "windows")![1], { since: "1970-01-14T02:00", until: "1970-01-21T01:00" });
  assert.deepEqual([hasDays(known().times), hasDays(hours.times)], [true, false]);
});

test("runs are the last two", () => {
  const run = (id: number) => ({ id, started_at: "", measured: 1 });
  assert.deepEqual(usual(known([], { runs: [run(7), run(5), run(2)] }), "runs"), [{ run: 5 }, { run: 7 }]);
  assert.equal(usual(known([], { runs: [run(7)] }), "runs"), null);
});

test("a side tells its kind, and whether it is there", () => {
  assert.deepEqual([{ partition: "" }, { run: 1 }, { since: null, until: "x" }, undefined].map(kindOf), ["partitions", "runs", "windows", null]);
  assert.equal(isKnown(known(), { partition: "d1" }), true);
  assert.equal(isKnown(known(), { partition: "d99" }), false);
  assert.equal(isKnown(known(), { run: 1 }), false);
  assert.equal(isKnown(known(), undefined), false);
});

test("names that begin with what was typed come first", () => {
  assert.deepEqual(matches(["xAb", "abc", "b", "zab"], " AB", 2), ["abc", "xAb"]);
  assert.deepEqual(matches(["a", "b"], "", 5), ["a", "b"]);
});
