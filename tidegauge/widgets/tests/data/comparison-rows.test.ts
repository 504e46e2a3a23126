import assert from "node:assert/strict";
import test from "node:test";
import { changeBarLength, filterRows, joinMerged, surpriseBarLength, type TableColumns } from "../../src/data/comparison-rows";

const cells: TableColumns = {
  rows: 4,
  strings: {
    name: ["Size", "Mean", "Sum", "Size"],
    instance: ["*", "distance", "distance", "*"],
    segment: ["", "", "", "origin=EWR"],
    status: ["both", "both", "failed", "only current"],
    analyzer: [`Size(where="origin = 'JFK'")`, "Mean('distance')", "Sum('distance')", "Size()"],
  },
  numbers: {
    unusual: Float64Array.from([1, 0, 0, 1]),
    ids: Float64Array.from([11, 12, 13, 14]),
  },
};

test("all words must occur in name, column, segment or filter", () => {
  const filtered = (text: string, unusual: boolean) => filterRows(cells, [0, 1, 2, 3], text, unusual);
  assert.deepEqual(filtered("", false), [0, 1, 2, 3]);
  assert.deepEqual(filtered("DIST mean", false), [1]);
  assert.deepEqual(filtered("jfk", false), [0]);
  assert.deepEqual(filtered("only current", false), [3]);
  assert.deepEqual(filtered("size", true), [0, 3]);
  assert.deepEqual(filtered("mean", true), []);
  assert.deepEqual(filterRows(cells, [3, 1, 0, 2], "size", true), [3, 0], "in the order that is given");
});

test("the length of a bar is the root of a change, or a surprise up to twelve", () => {
  assert.deepEqual([0.25, -0.25, 3, -Infinity, NaN, 0].map(changeBarLength), [0.5, -0.5, 1, -1, 0, 0]);
  assert.deepEqual([0, 3, 300].map(surpriseBarLength), [0, 0.25, 1]);
});

test("merged metrics and their order are joined by series", () => {
  const own: TableColumns = { ...cells, numbers: { ids: cells.numbers.ids } };
  joinMerged(own, {
    ids: Float64Array.from([14, 12, 99, 11]),
    merged_baseline: Float64Array.from([10, 4, 7, 0]),
    merged: Float64Array.from([-0.5, 0, 1, NaN]),
    merged_order: Int32Array.from([0, 1, 2, 3]),
    merged_order_down: Int32Array.from([2, 1, 0, 3]),
  });
  assert.deepEqual([...own.numbers.merged_baseline], [0, 4, NaN, 10]);
  assert.deepEqual([...own.numbers.merged], [NaN, 0, NaN, -0.5]);
  assert.deepEqual([...own.numbers.merged_order], [3, 1, 0, 2], "rows without merged metrics come last");
  assert.deepEqual([...own.numbers.merged_order_down], [1, 3, 0, 2]);
});
