import assert from "node:assert/strict";
import test from "node:test";
import { columnLabel, findGaps, findNonPositive, formatSideTime, indexUnit, lineValues, median, medianStep, parseWindowEnd, precedingWindow, restatements, scaleRatio, type SeriesAnswer, sharedAxis, shiftedValues, userLabels, valueTitle } from "../../src/data/timeseries";

const DAY = 86400;

function answer(value: number[][], status: number[][], times: number[], changes: Partial<SeriesAnswer["data"]> = {}): SeriesAnswer {
  const series = value.map((_, id) => ({ id, dataset: "orders", segment: "", instance: "*", name: "Size", analyzer: "Size()", scale: "count" }));
  const labels = times.map((time, n) => (Number.isNaN(time) ? `model=${n}` : new Date(1000 * time).toISOString().slice(0, 10)));
  const nothing = new Float64Array(value.flat().length).fill(NaN);
  return {
    data: { series, labels, anomalies: [], series_labels: [], statuses: ["absent", "finite", "NaN", "+inf", "-inf", "empty", "failed"], ...changes },
    arrays: {
      times: Float64Array.from(times),
      value: Float64Array.from(value.flat()),
      status: Uint8Array.from(status.flat()),
      version: Int32Array.from(status.flat()),
      expected: nothing,
      lower: nothing,
      upper: nothing,
      restatements: Float64Array.from([0, 1, 1, 7, 1, 0, 2, 8]),
    },
    shapes: {},
  };
}

test("columns without any of the series are left out, and x is time if all have one", () => {
  const data = answer([[1, NaN, 3], [NaN, NaN, 4]], [[1, 0, 1], [0, 0, 1]], [0, DAY, 2 * DAY]);
  assert.deepEqual(sharedAxis(data, [0, 1]), { columns: [0, 2], x: [0, 2 * DAY], timed: true });
  assert.deepEqual(sharedAxis(data, [1]), { columns: [2], x: [2 * DAY], timed: true });
});

test("if one column has no time, x is the position", () => {
  const data = answer([[1, 2, 3]], [[1, 1, 1]], [0, DAY, NaN]);
  assert.deepEqual(sharedAxis(data, [0]), { columns: [0, 1, 2], x: [0, 1, 2], timed: false });
});

test("measurements without a number are null, missing measurements undefined", () => {
  const data = answer([[4, NaN, NaN, 6]], [[1, 6, 0, 1]], [0, 1, 2, 3]);
  const axis = { columns: [0, 1, 2, 3], x: [0, 1, 2, 3], timed: true };
  assert.deepEqual(lineValues(data, 0, axis, "value"), [4, null, undefined, 6]);
  assert.deepEqual(lineValues(data, 0, axis, "value", 2), [2, null, undefined, 3]);
});

test("lines have gaps at missing steps; values without neighbors are isolated", () => {
  const x = [0, 1, 2, 5, 8, 9];
  assert.equal(medianStep(x, [1, 1, 1, 1, 1, 1]), 1);
  assert.deepEqual(findGaps(x, [1, 1, 1, 1, 1, 1]), { gaps: [[2, 3], [3, 4]], isolated: [3] });
  assert.deepEqual(findGaps([0, 1, 2, 3], [1, null, 1, 1]), { gaps: [], isolated: [0] });
  assert.deepEqual(findGaps([0], [3]), { gaps: [], isolated: [0] });
  assert.deepEqual(findGaps([0, 1], [null, undefined]), { gaps: [], isolated: [] });
});

test("the values of a sparser dataset are joined across the columns of another", () => {
  assert.deepEqual(findGaps([0, 1, 2, 3, 4], [1, undefined, 1, undefined, 1]), { gaps: [], isolated: [] });
});

test("indexes are divided by the absolute median", () => {
  assert.equal(median([3, 1, 2, 10]), 2.5);
  assert.equal(indexUnit(answer([[1, 2, 9]], [[1, 1, 1]], [0, 1, 2]), 0), 2);
  assert.equal(indexUnit(answer([[-4, -2, -9]], [[1, 1, 1]], [0, 1, 2]), 0), 4);
  assert.equal(indexUnit(answer([[0, 0, 5]], [[1, 1, 1]], [0, 1, 2]), 0), null);
  assert.equal(indexUnit(answer([[NaN, NaN]], [[6, 6]], [0, 1]), 0), null);
});

test("logarithms need values above 0", () => {
  const data = answer([[1, 2], [0, 3]], [[1, 1], [1, 1]], [0, 1]);
  assert.equal(findNonPositive(data, [0]), null);
  assert.equal(findNonPositive(data, [0, 1]), 1);
});

test("restatements are assigned to their rows", () => {
  const data = answer([[1, 2], [0, 3]], [[1, 1], [1, 1]], [0, 1]);
  assert.deepEqual(restatements(data, 0), [[1, 1, 7]]);
  assert.deepEqual(restatements(data, 1), [[0, 2, 8]]);
});

test("labels of users are assigned by anomaly, incident and range; automatic labels are excluded", () => {
  const label = { label: "bad", note: null, created_at: "", since: null, until: null, name: null, instance: null, dataset: "orders", target_id: null, by: "ann" };
  const anomaly = { row: 0, column: 1, id: 5, incident_id: 9, severity: "warning", status: "open", direction: "low", detector: "", explanation: "" };
  const labels = [label, { ...label, name: "Sum" }, { ...label, dataset: "other" }, { ...label, target_id: 9 }, { ...label, target_id: 5, by: "tidegauge" }, { ...label, target_id: 6 }];
  const data = answer([[1, 2]], [[1, 1]], [0, 1], { anomalies: [anomaly], series_labels: labels });
  const { ranges, points } = userLabels(data, 0);
  assert.deepEqual(ranges, [label]);
  assert.deepEqual([...points], [[1, [{ ...label, target_id: 9 }]]]);
});

test("the preceding window has the same length and ends one step earlier", () => {
  // 8 to 14 February is seven days; the seven before are 1 to 7 February.
  assert.deepEqual(precedingWindow(8 * DAY, 14 * DAY, DAY), { since: DAY, until: 7 * DAY });
});

test("ends of sides are dates for daily partitions, else times", () => {
  const day = Date.parse("2013-02-08T00:00:00Z") / 1000;
  assert.equal(formatSideTime(day, DAY), "2013-02-08");
  assert.equal(formatSideTime(day, 3600), "2013-02-08T00:00:00");
  assert.equal(formatSideTime(day + 7 * 3600, 3600), "2013-02-08T07:00:00");
});

test("ends of windows are seconds, labels or ISO 8601 times", () => {
  const timed = { columns: [0, 1], x: [0, DAY], timed: true };
  const labels = ["1970-01-01", "1970-01-02"];
  assert.equal(parseWindowEnd(timed, labels, 5), 5);
  assert.equal(parseWindowEnd(timed, labels, "1970-01-02"), DAY);
  assert.equal(parseWindowEnd(timed, labels, "1970-01-03"), 2 * DAY);
  assert.equal(parseWindowEnd(timed, labels, "1970-01-02T01:00"), DAY + 3600);
  assert.equal(parseWindowEnd(timed, labels, "gone"), null);
  assert.equal(parseWindowEnd({ columns: [3], x: [0], timed: false }, ["a", "b", "c", "d"], "d"), 0);
  assert.equal(parseWindowEnd({ columns: [3], x: [0], timed: false }, ["a", "b", "c", "d"], 17), null);
});

test("a partition's column is found by its time, or by its name if it has none", () => {
  const columns = { labels: ["2013-01-01", "2013-01-02", "model=a"], times: [0, DAY, NaN] };
  assert.equal(columnLabel(columns, DAY, "ds=2013-01-02"), "2013-01-02");
  assert.equal(columnLabel(columns, 0, null), "2013-01-01");
  assert.equal(columnLabel(columns, NaN, "model=a"), "model=a");
  assert.equal(columnLabel(columns, null, "model=b"), null);
  assert.equal(columnLabel(columns, 5 * DAY, "model=a"), null);
});

test("sizes are compared by the medians of absolute values", () => {
  const three = answer([[1, -2, 3], [90, -60, 50], [NaN, NaN, NaN]], [[1, 1, 1], [1, 1, 1], [6, 6, 6]], [0, 1, 2]);
  assert.equal(scaleRatio(three, [0, 1, 2]), 30);
  assert.equal(scaleRatio(three, [0, 2]), 1);
  const zero = answer([[0, 0], [5, 5]], [[1, 1], [1, 1]], [0, 1]);
  assert.equal(scaleRatio(zero, [0, 1]), Infinity);
  assert.equal(scaleRatio(zero, [0, 0]), 1);
});

test("values of a week earlier are drawn at the time of comparison", () => {
  const days = Array.from({ length: 9 }, (_, day) => day * DAY);
  const values = days.map((_, day) => day * 10);
  const data = answer([values], [days.map(() => 1)], days);
  const axis = sharedAxis(data, [0]);
  assert.deepEqual(shiftedValues(data, 0, axis, 7 * DAY, 2), [...new Array(7).fill(undefined), 0, 5]);
});

test("the title of an axis is the common metric of its lines", () => {
  const titled = (names: [string, string][], unit = 1) => {
    const data = answer(names.map(() => [1]), names.map(() => [1]), [0]);
    const series = data.data.series.map((entry, row) => ({ ...entry, name: names[row][0], instance: names[row][1] }));
    return valueTitle({ ...data, data: { ...data.data, series } }, names.map((_, row) => ({ row, unit })));
  };
  assert.equal(titled([["Size", "*"]]), "Size");
  assert.equal(titled([["Completeness", "fare"]]), "Completeness fare");
  assert.equal(titled([["Completeness", "fare"], ["Completeness", "tip"]]), "Completeness");
  assert.equal(titled([["Mean", "fare"], ["Maximum", "fare"]]), "value");
  assert.equal(titled([["Size", "*"], ["Size", "*"]], 3), "Size ÷ median of its series");
});
