import assert from "node:assert/strict";
import test from "node:test";
import { changeBarLength, filterRows, surpriseBarLength, type TableColumns } from "../../src/data/comparison-rows";

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

