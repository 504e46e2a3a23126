import assert from "node:assert/strict";
import test from "node:test";
import type { SeriesAnswer } from "../../src/chart/series-chart";
import { columnsAround, cropColumns } from "../../src/data/crop";

const DAY = 86400;

test("four weeks before an incident and two after it are shown", () => {
  const times = Float64Array.from({ length: 100 }, (_, day) => day * DAY);
  assert.deepEqual(columnsAround(times, 50 * DAY, 52 * DAY), [22, 67]);
  assert.deepEqual(columnsAround(times, 0, 0), [0, 15]);
  assert.deepEqual(columnsAround(times, null, null), [0, 100]);
});

test("all columns are shown if cropping would leave too few", () => {
  const weeks = Float64Array.from({ length: 20 }, (_, week) => week * 7 * DAY);
  assert.deepEqual(columnsAround(weeks, 70 * DAY, 70 * DAY), [0, 20]);
});

test("cropping an answer returns an answer", () => {
  const anomaly = (column: number) => ({ row: 0, column, id: column }) as SeriesAnswer["data"]["anomalies"][number];
  const answer: SeriesAnswer = {
    data: { series: [], labels: ["a", "b", "c", "d"], anomalies: [anomaly(0), anomaly(2)], series_labels: [], statuses: [] },
    arrays: {
      times: Float64Array.from([1, 2, 3, 4]),
      value: Float64Array.from([10, 11, 12, 13, 20, 21, 22, 23]),
      status: Uint8Array.from([1, 1, 0, 1, 1, 0, 1, 1]),
      version: Int32Array.from([1, 1, 0, 1, 1, 0, 1, 1]),
      expected: new Float64Array(8),
      lower: new Float64Array(8),
      upper: new Float64Array(8),
      restatements: Float64Array.from([0, 0, 1, 9, 1, 2, 1, 8]),
    },
    shapes: { times: [4], value: [2, 4], status: [2, 4], version: [2, 4], expected: [2, 4], lower: [2, 4], upper: [2, 4], restatements: [2, 4] },
  };
  const { data, arrays, shapes } = cropColumns(answer, 1, 3);
  assert.deepEqual(data.labels, ["b", "c"]);
  assert.deepEqual(data.anomalies.map(({ id, column }) => [id, column]), [[2, 1]]);
  assert.deepEqual([...arrays.times], [2, 3]);
  assert.deepEqual([...arrays.value], [11, 12, 21, 22]);
  assert.deepEqual([...arrays.status], [1, 0, 0, 1]);
  assert.deepEqual([...arrays.restatements], [1, 1, 1, 8]);
  assert.deepEqual(shapes, { times: [2], value: [2, 2], status: [2, 2], version: [2, 2], expected: [2, 2], lower: [2, 2], upper: [2, 2], restatements: [1, 4] });
  assert.equal(answer.arrays.value.length, 8);
});
