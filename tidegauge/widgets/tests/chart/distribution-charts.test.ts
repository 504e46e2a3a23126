import assert from "node:assert/strict";
import test from "node:test";
import { cumulativeCurve, histograms, interpolate } from "../../src/chart/distribution-charts";

test("the cumulative curve jumps where many rows have one value", () => {
  const [x, y] = cumulativeCurve([0, 5, 5, 5, 10], [0, 0.25, 0.5, 0.75, 1]);
  assert.deepEqual(y, [0, 0.25, 0.75, 1]);
  assert.deepEqual([x[0], x[2], x[3]], [0, 5, 10]);
  assert.ok(x[1] < 5 && x[1] > 4.999999);
  assert.deepEqual(cumulativeCurve([3, 3], [0, 1]), [[3], [1]]);
});

test("values between points lie on the line between them", () => {
  assert.equal(interpolate([0, 10], [0, 1], 5), 0.5);
  assert.equal(interpolate([0, 4, 10], [0, null, 1], 5), 0.5);
  assert.equal(interpolate([0, 10], [0, 1], 10), 1);
  assert.equal(interpolate([0, 10], [0, 1], -1), null);
  assert.equal(interpolate([0, 10], [0, 1], 11), null);
});

test("histograms have the share of rows in equal bins over the range of both sides", () => {
  const ranks = [0, 0.25, 0.5, 0.75, 1];
  const { edges, shares } = histograms([[0, 1, 2, 3, 4], [4, 4, 4, 4, 8]], ranks, 4);
  assert.deepEqual(edges, [0, 2, 4, 6, 8]);
  assert.deepEqual(shares, [[0.5, 0.5, 0, 0], [0, 0.75, 0.125, 0.125]]);
});

test("a single value is one bin", () => {
  const { shares } = histograms([[5, 5], [5, 5]], [0, 1], 4);
  assert.deepEqual(shares, [[1, 0, 0, 0], [1, 0, 0, 0]]);
});
