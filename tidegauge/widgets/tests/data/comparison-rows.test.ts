import assert from "node:assert/strict";
import test from "node:test";
import { changeBarLength, compareByColumn, filterRows, joinMerged, surpriseBarLength, type TableColumns } from "../../src/data/comparison-rows";

const cells: TableColumns = {
  rows: 4,
  texts: {
    name: ["Size", "Mean", "Sum", "Size"],
    instance: ["*", "distance", "distance", "*"],
    segment: ["", "", "", "origin=EWR"],
    status: ["both", "both", "failed", "only current"],
    analyzer: [`Size(where="origin = 'JFK'")`, "Mean('distance')", "Sum('distance')", "Size()"],
  },
  numbers: {
    unusual: Float64Array.from([1, 0, 0, 1]),
    change: Float64Array.from([-2, NaN, 5, -2]),
    name_rank: Float64Array.from([1, 0, 2, 1]),
    segment_rank: Float64Array.from([NaN, NaN, NaN, 0]),
  },
};

test("all words are looked for in names, columns, segments and filters", () => {
  assert.deepEqual(filterRows(cells, "", false), [0, 1, 2, 3]);
  assert.deepEqual(filterRows(cells, "DIST mean", false), [1]);
  assert.deepEqual(filterRows(cells, "jfk", false), [0]);
  assert.deepEqual(filterRows(cells, "only current", false), [3]);
  assert.deepEqual(filterRows(cells, "size", true), [0, 3]);
  assert.deepEqual(filterRows(cells, "mean", true), []);
});

test("what is not known comes last both ways, and equal ones stay in order", () => {
  const order = (key: string, down: boolean) => [0, 1, 2, 3].sort(compareByColumn(cells, key, down));
  assert.deepEqual(order("change", true), [2, 0, 3, 1]);
  assert.deepEqual(order("change", false), [0, 3, 2, 1]);
  assert.deepEqual(order("name", false), [1, 0, 3, 2]);
  assert.deepEqual(order("name", true), [2, 0, 3, 1]);
  assert.deepEqual(order("segment", false), [3, 0, 1, 2]);
  assert.deepEqual(order("segment", true), [3, 0, 1, 2]);
});

test("infinite numbers are ordered, too", () => {
  const numbers = { change: Float64Array.from([Infinity, -Infinity, Infinity, NaN]) };
  assert.deepEqual([0, 1, 2, 3].sort(compareByColumn({ ...cells, numbers }, "change", true)), [0, 2, 1, 3]);
});

test("bars are as long as the root of a change, and as a surprise up to twelve", () => {
  assert.deepEqual([0.25, -0.25, 3, -Infinity, NaN, 0].map(changeBarLength), [0.5, -0.5, 1, -1, 0, 0]);
  assert.deepEqual([0, 3, 300].map(surpriseBarLength), [0, 0.25, 1]);
});

test("merged metrics meet the rows of their series", () => {
  const own: TableColumns = { ...cells, numbers: {} };
  const taken = (places: number[]) => Object.fromEntries(Object.entries(cells.texts).map(([key, words]) => [key, places.map((place) => words[place])]));
  const numbers = { merged_baseline: Float64Array.from([10, 4, 0]), merged_current: Float64Array.from([5, 4, 3]) };
  joinMerged(own, { rows: 3, texts: taken([3, 1, 0]), numbers });
  assert.deepEqual([...own.numbers.merged_baseline], [0, 4, NaN, 10]);
  assert.deepEqual([...own.numbers.merged], [NaN, 0, NaN, -0.5]);
});

test("a column that is not there yet keeps the order", () => {
  assert.deepEqual([0, 1, 2, 3].sort(compareByColumn(cells, "merged", true)), [0, 1, 2, 3]);
});
