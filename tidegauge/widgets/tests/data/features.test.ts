import assert from "node:assert/strict";
import { test } from "node:test";
import { axisRange, filterFeatures, groupIntoCharts, metricLabel, QUANTILES } from "../../src/data/features";

const quantilesOf = (base: string) => QUANTILES.map((q) => `${base}-${q}`);

test("rates come first, then bands, then explaining metrics", () => {
  const metrics = ["backfilled_length-p50", "extra", ...quantilesOf("delta"), ...quantilesOf("logged"), "mismatch", "missing_keys", "smape", "total"];
  const titles = groupIntoCharts(metrics).map(({ title, kind, metrics: chartMetrics }) => [title, kind, chartMetrics.length]);
  assert.deepEqual(titles, [
    ["rates", "rates", 2],
    ["smape", "rates", 1],
    ["delta: backfilled − logged", "bands", 7],
    ["logged (online)", "bands", 7],
    ["keys on one side only, or different", "numbers", 1],
    ["matched rows", "numbers", 1],
    ["other", "numbers", 1],
  ]);
});

test("shares of strings are rates in a separate chart", () => {
  const charts = groupIntoCharts(["backfilled_top", "logged_top", "mismatch", "total"]);
  assert.deepEqual(charts.map(({ kind, metrics }) => [kind, metrics]), [
    ["rates", ["mismatch"]],
    ["rates", ["logged_top", "backfilled_top"]],
    ["numbers", ["total"]],
  ]);
});

test("every metric is in exactly one chart", () => {
  const metrics = ["odd", ...quantilesOf("edit_insert"), "edit_delete", "mismatch", "both_null", "left_keys", "row_extra"];
  assert.deepEqual(groupIntoCharts(metrics).flatMap((chart) => chart.metrics).sort(), [...metrics].sort());
  assert.deepEqual(groupIntoCharts([]), []);
});

test("bands are in the order of quantiles for any order of names", () => {
  assert.deepEqual(groupIntoCharts(quantilesOf("delta").sort())[0].metrics, quantilesOf("delta"));
});

test("features are found by words of both names, and by their group-by", () => {
  const names = ["spend_7d", "Spend_30d", "clicks"];
  const groups = ["batch", "stream"];
  const groupIndexes = [0, 1, 1];
  assert.deepEqual(filterFeatures(names, groups, groupIndexes, "", ""), [0, 1, 2]);
  assert.deepEqual(filterFeatures(names, groups, groupIndexes, "SPEND", ""), [0, 1]);
  assert.deepEqual(filterFeatures(names, groups, groupIndexes, "stream spend", ""), [1]);
  assert.deepEqual(filterFeatures(names, groups, groupIndexes, "", "stream"), [1, 2]);
  assert.deepEqual(filterFeatures(names, groups, groupIndexes, "batch", "stream"), []);
});

test("extremes extend a range by at most its own height", () => {
  const [low, high] = axisRange([[0, 10], [null, 4]], [[-1000, 0], [10, 12]]);
  assert.ok(low < -10 && low > -13, String(low));
  assert.ok(high > 12 && high < 14, String(high));
  assert.deepEqual(axisRange([[null]], [[5]]), [0, 1]);
  const [bottom, top] = axisRange([[3]], [[3]]);
  assert.ok(bottom < 3 && top > 3);
});

test("labels of quantile metrics contain the quantile", () => {
  assert.equal(metricLabel("delta-p50"), "delta p50");
  assert.equal(metricLabel("smape"), "smape");
});
