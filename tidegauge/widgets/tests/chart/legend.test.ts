import assert from "node:assert/strict";
import test from "node:test";
import { legendText } from "../../src/chart/legend";

test("a legend explains only what is drawn", () => {
  const plain = legendText({ band: false });
  assert.ok(!plain.includes("expected") && !plain.includes("usual range"));
  const full = legendText({ band: true, past: "a week earlier" });
  assert.ok(full.startsWith("▒ usual range, ╌ expected · ┈ a week earlier · ▲▼ anomaly"));
  assert.ok(full.includes("inside the usual range: flagged by a separate limit, or together with other series"));
  assert.ok(!legendText({ band: true, explorable: false }).includes("⚑"));
});
