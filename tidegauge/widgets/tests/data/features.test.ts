import assert from "node:assert/strict";
import { test } from "node:test";
import { axisRange, filterFeatures, groupIntoCharts, metricLabel, QUANTILES } from "../../src/data/features";

const whole = (base: string) => QUANTILES.map((q) => `${base}-${q}`);

test("rates come first, then bands, then what explains them", () => {
  const metrics = ["backfilled_length-p50", "extra", ...whole("delta"), ...whole("logged"), "mismatch", "missing_keys", "smape", "total"];
  const titles = groupIntoCharts(metrics).map(({ title, kind, metrics: of }) => [title, kind, of.length]);
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

test("shares of texts are rates in a chart of their own", () => {
  const charts = groupIntoCharts(["backfilled_top", "logged_top", "mismatch", "total"]);
  assert.deepEqual(charts.map(({ kind, metrics }) => [kind, metrics]), [
    ["rates", ["mismatch"]],
    ["rates", ["logged_top", "backfilled_top"]],
    ["numbers", ["total"]],
  ]);
});

test("every metric is in exactly one chart", () => {
  const metrics = ["odd", ...whole("edit_insert"), "edit_delete", "mismatch", "both_null", "left_keys", "row_extra"];
  assert.deepEqual(groupIntoCharts(metrics).flatMap((one) => one.metrics).sort(), [...metrics].sort());
  assert.deepEqual(groupIntoCharts([]), []);
});

test("bands are in the order of quantiles, whatever the order of names", () => {
  assert.deepEqual(groupIntoCharts(whole("delta").sort())[0].metrics, whole("delta"));
});

test("features are found by words of both names, and by their group-by", () => {
  const names = ["spend_7d", "Spend_30d", "clicks"];
  const groups = ["batch", "stream"];
  const of = [0, 1, 1];
  assert.deepEqual(filterFeatures(names, groups, of, "", ""), [0, 1, 2]);
  assert.deepEqual(filterFeatures(names, groups, of, "SPEND", ""), [0, 1]);
  assert.deepEqual(filterFeatures(names, groups, of, "stream spend", ""), [1]);
  assert.deepEqual(filterFeatures(names, groups, of, "", "stream"), [1, 2]);
  assert.deepEqual(filterFeatures(names, groups, of, "batch", "stream"), []);
});

test("extremes widen a range by its own height at most", () => {
  const [low, high] = axisRange([[0, 10], [null, 4]], [[-1000, 0], [10, 12]]);
  assert.ok(low < -10 && low > -13, String(low));
  assert.ok(high > 12 && high < 14, String(high));
  assert.deepEqual(axisRange([[null]], [[5]]), [0, 1]);
  const [one, other] = axisRange([[3]], [[3]]);
  assert.ok(one < 3 && other > 3);
});

test("metrics of quantiles are named by them", () => {
  assert.equal(metricLabel("delta-p50"), "delta p50");
  assert.equal(metricLabel("smape"), "smape");
});
