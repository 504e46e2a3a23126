import assert from "node:assert/strict";
import test from "node:test";
import { drawnMarks, legendText } from "../../src/chart/legend";
import type { SeriesAnswer } from "../../src/data/timeseries";

test("a legend explains only what is drawn", () => {
  const plain = legendText({ band: false });
  assert.ok(!plain.includes("expected") && !plain.includes("usual range"));
  const full = legendText({ band: true, past: "a week earlier", anomalies: true, insideBand: true, labels: true, failed: true });
  assert.ok(full.startsWith("▒ usual range, ╌ expected · ┈ a week earlier · ▲▼ anomaly"));
  assert.ok(full.includes("inside the usual range: flagged by a separate limit, or together with other series"));
  assert.ok(full.endsWith("⚑ labeled · on the axis: × failed"));
  assert.equal(legendText({ band: false }), "");
  assert.equal(legendText({ band: true, anomalies: true }), "▒ usual range, ╌ expected · ▲▼ anomaly, filled by severity");
});

test("the marks of a chart are those of its rows", () => {
  const nothing = Float64Array.from([NaN, NaN, NaN, NaN]);
  const answer = {
    data: {
      series: [{ id: 1 }, { id: 2 }],
      labels: ["a", "b"],
      anomalies: [{ row: 0, column: 1, status: "open" }],
      series_labels: [],
      statuses: ["absent", "finite", "failed", "NaN"],
    },
    arrays: {
      times: Float64Array.from([0, 86400]),
      value: Float64Array.from([1, 5, NaN, NaN]),
      status: Uint8Array.from([1, 1, 2, 3]),
      expected: nothing,
      lower: Float64Array.from([0, 0, NaN, NaN]),
      upper: Float64Array.from([9, 9, NaN, NaN]),
      restatements: Float64Array.from([1, 0, 1, 7]),
    },
    shapes: {},
  } as unknown as SeriesAnswer;
  const first = drawnMarks(answer, [0]);
  assert.ok(first.anomalies && first.insideBand && !first.restated && !first.failed && !first.notFinite);
  const second = drawnMarks(answer, [1]);
  assert.ok(!second.anomalies && !second.insideBand && second.restated && second.failed && second.notFinite && !second.empty);
});
