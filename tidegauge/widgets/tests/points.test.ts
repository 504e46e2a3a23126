import assert from "node:assert/strict";
import test from "node:test";
import type { Answer } from "../src/link";
import { gridOf } from "../src/multiples";
import { spread } from "../src/marks";
import {
  axisOf, gapsOf, labelOf, lineOf, median, notPositive, olderOf, placeOf, saidOf, type SeriesTold, sideText, sizesApart, stepOf, unitOf, windowBefore,
} from "../src/points";
import { ofSegment, pieces, weeksBefore } from "../src/weeks";
import { logTicks, tickText, timeText } from "../src/axes";

const DAY = 86400;

function answer(value: number[][], status: number[][], times: number[], more: Partial<SeriesTold> = {}): Answer<SeriesTold> {
  const series = value.map((_, id) => ({ id, dataset: "orders", segment: "", instance: "*", name: "Size", analyzer: "Size()" }));
  const labels = times.map((time, n) => (Number.isNaN(time) ? `model=${n}` : new Date(1000 * time).toISOString().slice(0, 10)));
  const nothing = new Float64Array(value.flat().length).fill(NaN);
  return {
    told: { series, labels, anomalies: [], said: [], statuses: ["absent", "finite", "NaN", "+inf", "-inf", "empty", "failed"], ...more },
    arrays: {
      times: Float64Array.from(times),
      value: Float64Array.from(value.flat()),
      status: Uint8Array.from(status.flat()),
      expected: nothing,
      old: Float64Array.from([0, 1, 1, 7, 1, 0, 2, 8]),
    },
    shapes: {},
  };
}

test("columns without any of the series are left out, and x is time if all have one", () => {
  const told = answer([[1, NaN, 3], [NaN, NaN, 4]], [[1, 0, 1], [0, 0, 1]], [0, DAY, 2 * DAY]);
  assert.deepEqual(axisOf(told, [0, 1]), { columns: [0, 2], x: [0, 2 * DAY], timed: true });
  assert.deepEqual(axisOf(told, [1]), { columns: [2], x: [2 * DAY], timed: true });
});

test("one column without a time puts all in order", () => {
  const told = answer([[1, 2, 3]], [[1, 1, 1]], [0, DAY, NaN]);
  assert.deepEqual(axisOf(told, [0]), { columns: [0, 1, 2], x: [0, 1, 2], timed: false });
});

test("what was measured without a number is null, what was not measured undefined", () => {
  const told = answer([[4, NaN, NaN, 6]], [[1, 6, 0, 1]], [0, 1, 2, 3]);
  const axis = { columns: [0, 1, 2, 3], x: [0, 1, 2, 3], timed: true };
  assert.deepEqual(lineOf(told, 0, axis, "value"), [4, null, undefined, 6]);
  assert.deepEqual(lineOf(told, 0, axis, "value", 2), [2, null, undefined, 3]);
});

test("a line breaks where more than a step is missing; values without neighbours stand alone", () => {
  const x = [0, 1, 2, 5, 8, 9];
  assert.equal(stepOf(x, [1, 1, 1, 1, 1, 1]), 1);
  assert.deepEqual(gapsOf(x, [1, 1, 1, 1, 1, 1]), { gaps: [[2, 3], [3, 4]], alone: [3] });
  assert.deepEqual(gapsOf([0, 1, 2, 3], [1, null, 1, 1]), { gaps: [], alone: [0] });
  assert.deepEqual(gapsOf([0], [3]), { gaps: [], alone: [0] });
  assert.deepEqual(gapsOf([0, 1], [null, undefined]), { gaps: [], alone: [] });
});

test("the values of a sparser dataset are joined across the columns of another", () => {
  assert.deepEqual(gapsOf([0, 1, 2, 3, 4], [1, undefined, 1, undefined, 1]), { gaps: [], alone: [] });
});

test("indexes are divided by the size of the median", () => {
  assert.equal(median([3, 1, 2, 10]), 2.5);
  assert.equal(unitOf(answer([[1, 2, 9]], [[1, 1, 1]], [0, 1, 2]), 0), 2);
  assert.equal(unitOf(answer([[-4, -2, -9]], [[1, 1, 1]], [0, 1, 2]), 0), 4);
  assert.equal(unitOf(answer([[0, 0, 5]], [[1, 1, 1]], [0, 1, 2]), 0), null);
  assert.equal(unitOf(answer([[NaN, NaN]], [[6, 6]], [0, 1]), 0), null);
});

test("logarithms need values above 0", () => {
  const told = answer([[1, 2], [0, 3]], [[1, 1], [1, 1]], [0, 1]);
  assert.equal(notPositive(told, [0]), null);
  assert.equal(notPositive(told, [0, 1]), 1);
});

test("old versions belong to their rows", () => {
  const told = answer([[1, 2], [0, 3]], [[1, 1], [1, 1]], [0, 1]);
  assert.deepEqual(olderOf(told, 0), [[1, 1, 7]]);
  assert.deepEqual(olderOf(told, 1), [[0, 2, 8]]);
});

test("people's labels are found by anomaly, incident and range; the platform's own are not people's", () => {
  const one = { label: "bad", note: null, created_at: "", since: null, until: null, name: null, instance: null, dataset: "orders", about: null, by: "ann" };
  const found = { row: 0, column: 1, id: 5, incident_id: 9, severity: "warning", status: "open", direction: "low", detector: "", explanation: "" };
  const said = [one, { ...one, name: "Sum" }, { ...one, dataset: "other" }, { ...one, about: 9 }, { ...one, about: 5, by: "tidegauge" }, { ...one, about: 6 }];
  const told = answer([[1, 2]], [[1, 1]], [0, 1], { anomalies: [found], said });
  const { ranges, points } = saidOf(told, 0);
  assert.deepEqual(ranges, [one]);
  assert.deepEqual([...points], [[1, [{ ...one, about: 9 }]]]);
});

test("the window before is as long and ends a step earlier", () => {
  // 8 to 14 February is seven days; the seven before are 1 to 7 February.
  assert.deepEqual(windowBefore(8 * DAY, 14 * DAY, DAY), { since: DAY, until: 7 * DAY });
});

test("sides are dates where partitions are days, else moments", () => {
  const day = Date.parse("2013-02-08T00:00:00Z") / 1000;
  assert.equal(sideText(day, DAY), "2013-02-08");
  assert.equal(sideText(day, 3600), "2013-02-08T00:00:00");
  assert.equal(sideText(day + 7 * 3600, 3600), "2013-02-08T07:00:00");
  assert.deepEqual(weeksBefore(day), { since: "2013-01-11", until: "2013-02-07" });
  assert.deepEqual(weeksBefore(day + 3600), { since: "2013-01-11T01:00:00", until: "2013-02-08T00:59:59" });
});

test("windows are remembered as seconds, labels, or times as text", () => {
  const timed = { columns: [0, 1], x: [0, DAY], timed: true };
  const labels = ["1970-01-01", "1970-01-02"];
  assert.equal(placeOf(timed, labels, 5), 5);
  assert.equal(placeOf(timed, labels, "1970-01-02"), DAY);
  assert.equal(placeOf(timed, labels, "1970-01-03"), 2 * DAY);
  assert.equal(placeOf(timed, labels, "1970-01-02T01:00"), DAY + 3600);
  assert.equal(placeOf(timed, labels, "gone"), null);
  assert.equal(placeOf({ columns: [3], x: [0], timed: false }, ["a", "b", "c", "d"], "d"), 0);
  assert.equal(placeOf({ columns: [3], x: [0], timed: false }, ["a", "b", "c", "d"], 17), null);
});

test("names at the ends of lines are moved apart and stay within", () => {
  assert.deepEqual(spread([10, 12, 50], 10, 0, 100), [10, 20, 50]);
  assert.deepEqual(spread([95, 98], 10, 0, 100), [90, 100]);
});

test("ticks have the digits that tell them apart", () => {
  assert.equal(tickText(0.9975, 0.0005), "0.9975");
  assert.equal(tickText(1500, 500), "1,500");
  assert.equal(timeText(0, 365 * DAY), "1970");
  assert.equal(timeText(0, 31 * DAY), "1970-01");
  assert.equal(timeText(3600, 3600), "01-01 01:00");
});

test("drift is asked for in pieces of eight weeks, the newest first", () => {
  const times = [0, 10, 60, 70, 120, NaN].map((day) => day * DAY);
  assert.deepEqual(pieces(times), [
    { since: "1970-03-12T00:00:00", until: "1970-05-01T00:00:00" },
    { since: "1970-01-11T00:00:00", until: "1970-03-02T00:00:00" },
    { since: "1970-01-01T00:00:00", until: "1970-01-01T00:00:00" },
  ]);
  assert.deepEqual(pieces([NaN]), []);
});

test("logarithmic axes have round ticks", () => {
  assert.deepEqual(logTicks(0.9, 12), [1, 2, 5, 10]);
  assert.deepEqual(logTicks(365, 810), [400, 500, 600, 700, 800]);
  assert.deepEqual(logTicks(1, 1e6), [1, 10, 100, 1000, 10000, 100000, 1000000]);
});

test("a partition's column is found by its time, or by its name if it has none", () => {
  const known = { labels: ["2013-01-01", "2013-01-02", "model=a"], times: [0, DAY, NaN] };
  assert.equal(labelOf(known, DAY, "ds=2013-01-02"), "2013-01-02");
  assert.equal(labelOf(known, 0, null), "2013-01-01");
  assert.equal(labelOf(known, NaN, "model=a"), "model=a");
  assert.equal(labelOf(known, null, "model=b"), null);
  assert.equal(labelOf(known, 5 * DAY, "model=a"), null);
});

test("sizes are told apart by the medians of absolute values", () => {
  const three = answer([[1, -2, 3], [90, -60, 50], [NaN, NaN, NaN]], [[1, 1, 1], [1, 1, 1], [6, 6, 6]], [0, 1, 2]);
  assert.equal(sizesApart(three, [0, 1, 2]), 30);
  assert.equal(sizesApart(three, [0, 2]), 1);
  const zero = answer([[0, 0], [5, 5]], [[1, 1], [1, 1]], [0, 1]);
  assert.equal(sizesApart(zero, [0, 1]), Infinity);
  assert.equal(sizesApart(zero, [0, 0]), 1);
});

test("small charts fill the room, and keep their least size where there is too little", () => {
  assert.deepEqual(gridOf(1, 1200, 500), { across: 1, wide: 1200, tall: 476 });
  // Two of 596 x 476 beside each other are read better than two of 1200 x 224 below each other.
  assert.deepEqual(gridOf(2, 1200, 500), { across: 2, wide: 596, tall: 476 });
  assert.deepEqual(gridOf(50, 1200, 500), { across: 3, wide: 394, tall: 130 });
  assert.deepEqual(gridOf(4, 300, 200), { across: 1, wide: 300, tall: 130 });
});

test("of drift the rows of one segment are kept, in order of time", () => {
  const texts = { partition: ["c", "a", "b"], segment: ["x", "x", "y"] };
  const arrays = { time: Float64Array.from([3, 1, 2]), js: Float64Array.from([0.3, 0.1, 0.2]) };
  assert.deepEqual(ofSegment(texts, arrays, "x"), { labels: ["a", "c"], numbers: { time: [1, 3], js: [0.1, 0.3] } });
  assert.deepEqual(ofSegment(texts, arrays, null).labels, ["a", "b", "c"]);
  assert.deepEqual(ofSegment({ partition: [], segment: [] }, {}, "x"), { labels: [], numbers: {} });
});
