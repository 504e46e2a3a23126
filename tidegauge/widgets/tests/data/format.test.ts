import assert from "node:assert/strict";
import test from "node:test";
import { formatAge, formatChange, formatDuration, formatMetric, formatNumber, formatPercent, formatTime, formatValue, pluralize, truncateMiddle, decimalsWidth, splitDecimals } from "../../src/data/format";

test("numbers", () => {
  const pairs: [number | null, string][] = [
    [null, "–"], [NaN, "–"], [Infinity, "∞"], [-Infinity, "−∞"], [0, "0"], [930, "930"], [336776, "336,776"],
    [1234.567, "1,234.57"], [0.98765, "0.9877"], [0.5, "0.5"], [1e12, "1.000e+12"], [0.00001234, "1.234e-5"], [-3.25, "-3.25"],
  ];
  for (const [value, text] of pairs) assert.equal(formatNumber(value), text);
});

test("shares, moments, counts", () => {
  assert.equal(formatPercent(0.123), "+12%");
  assert.equal(formatPercent(-0.0123), "-1.2%");
  assert.equal(formatPercent(-0.9972), "-99.7%");
  assert.deepEqual([formatPercent(-0.09996), formatPercent(0.0994)], ["-10%", "+9.9%"]);
  assert.equal(formatPercent(-1), "-100%");
  assert.equal(formatPercent(-0.00004), "0.0%");
  assert.equal(formatPercent(null), "–");
  assert.equal(formatTime(1360281600), "2013-02-08");
  assert.equal(formatTime(1360281600 + 7 * 3600), "2013-02-08 07:00");
  assert.equal(formatTime(null), "–");
  assert.equal(pluralize(1, "day"), "1 day");
  assert.equal(pluralize(2000, "series", "series"), "2,000 series");
});

test("long strings are truncated in the middle", () => {
  assert.equal(truncateMiddle("abc", 3), "abc");
  assert.equal(truncateMiddle("abcdefgh", 5), "ab…gh");
  assert.equal(truncateMiddle("x".repeat(10000), 80).length, 80);
});

test("durations have at most two units", () => {
  assert.equal(formatDuration(7200), "2 h");
  assert.equal(formatDuration(-7500), "2 h 5 min");
  assert.equal(formatDuration(2 * 86400 + 60), "2 d");
  assert.equal(formatDuration(2 * 86400 + 3660), "2 d 1 h");
  assert.equal(formatDuration(20), "0 min");
  assert.equal(formatDuration(3599), "1 h");
});

test("ages have their largest unit", () => {
  const now = 1e9;
  const ages = [10, 60, 7200, 86400, 5 * 86400, 70 * 86400, 800 * 86400, -7200, NaN].map((age) => formatAge(now - age, now));
  assert.deepEqual(ages, ["now", "1 min ago", "2 h ago", "1 d ago", "5 d ago", "2 months ago", "2 years ago", "in 2 h", "–"]);
});

test("shares are in per cent, with enough digits to differ from 100%", () => {
  assert.deepEqual([0.57, 0.13781, 0.9893, 0.99987, 0.99998, 1, 0, 0.002134, 1 - 1e-16, 12].map((share) => formatValue(share, true)), ["57%", "13.8%", "98.9%", "99.99%", "99.998%", "100%", "0%", "0.213%", "100%", "1,200%"]);
  assert.deepEqual([formatValue(0.57, false), formatValue(NaN, true)], ["0.57", "–"]);
  assert.deepEqual([1e-5, 4e-7, 1e-9].map((share) => formatValue(share, true)), ["0.001%", "0.00004%", "< 0.000001%"]);
});

test("a metric is formatted by its scale", () => {
  const format = [[0.57, "ratio"], [0.57, "signed"], [1_771_597_440.9, "time"], [-1, "time"], [1e300, "time"], [NaN, "time"]] as const;
  assert.deepEqual(format.map(([value, scale]) => formatMetric(value, scale)), ["57%", "0.57", "2026-02-20 14:24:00", "1969-12-31 23:59:59", formatNumber(1e300), "–"]);
  assert.equal(formatMetric(null, "time"), "–");
});

test("changes have a sign, and changes of shares are in points", () => {
  assert.deepEqual([formatChange(12, false), formatChange(-0.25, false), formatChange(0, true)], ["+12", "-0.25", "0 pp"]);
  assert.deepEqual([0.13781, -0.5, -0.00553, 0.0000237, NaN].map((change) => formatChange(change, true)), ["+13.8 pp", "-50.0 pp", "-0.55 pp", "0 pp", "–"]);
});

test("numbers are split before their decimal point, and their unit stays with the decimals", () => {
  assert.deepEqual(splitDecimals("54,715"), ["54,715", ""]);
  assert.deepEqual(splitDecimals("-0.1182"), ["-0", ".1182"]);
  assert.deepEqual(splitDecimals("99.994%"), ["99", ".994%"]);
  assert.deepEqual(splitDecimals("+1.36 pp"), ["+1", ".36 pp"]);
  assert.deepEqual(splitDecimals("1.2e-7"), ["1", ".2e-7"]);
  assert.deepEqual(splitDecimals("not a number"), ["not a number", ""]);
});

test("decimals of a column are as wide as the widest, but its numbers have at most 12 characters", () => {
  assert.equal(decimalsWidth(["54,715", "50.14", "99.994%"]), 5);
  assert.equal(decimalsWidth(["1", "2"]), 0);
  assert.equal(decimalsWidth(["1,234,567", "0.123456"]), 3);
  assert.equal(decimalsWidth([]), 0);
});
