import assert from "node:assert/strict";
import test from "node:test";
import { logTicks, tickText, timeText } from "../../src/chart/axes";

const DAY = 86400;

test("ticks have enough digits to differ", () => {
  assert.equal(tickText(0.9975, 0.0005), "0.9975");
  assert.equal(tickText(1500, 500), "1,500");
  assert.equal(timeText(0, 365 * DAY), "1970");
  assert.equal(timeText(0, 31 * DAY), "1970-01");
  assert.equal(timeText(3600, 3600), "01-01 01:00");
});

test("logarithmic axes have round ticks", () => {
  assert.deepEqual(logTicks(0.9, 12), [1, 2, 5, 10]);
  assert.deepEqual(logTicks(365, 810), [400, 500, 600, 700, 800]);
  assert.deepEqual(logTicks(1, 1e6), [1, 10, 100, 1000, 10000, 100000, 1000000]);
});

test("ticks with steps of 2.5 differ", () => {
  assert.deepEqual([-5, -2.5, 0, 2.5, 5].map((at) => tickText(at, 2.5)), ["-5.0", "-2.5", "0.0", "2.5", "5.0"]);
  assert.deepEqual([0, 0.25, 0.5, 0.75].map((at) => tickText(at, 0.25)), ["0.00", "0.25", "0.50", "0.75"]);
  assert.deepEqual([0, 0.025, 0.05].map((at) => tickText(at, 0.025)), ["0.000", "0.025", "0.050"]);
  assert.deepEqual([0, 25, 50].map((at) => tickText(at, 25)), ["0", "25", "50"]);
});
