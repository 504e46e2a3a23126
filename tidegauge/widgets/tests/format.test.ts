import assert from "node:assert/strict";
import test from "node:test";
import { shortened } from "../src/dom";
import { many, moment, number, percent } from "../src/format";

test("numbers", () => {
  const pairs: [number | null, string][] = [
    [null, "–"], [NaN, "–"], [Infinity, "∞"], [-Infinity, "−∞"], [0, "0"], [930, "930"], [336776, "336,776"],
    [1234.567, "1,234.57"], [0.98765, "0.9877"], [0.5, "0.5"], [1e12, "1.000e+12"], [0.00001234, "1.234e-5"], [-3.25, "-3.25"],
  ];
  for (const [value, text] of pairs) assert.equal(number(value), text);
});

test("shares, moments, counts", () => {
  assert.equal(percent(0.123), "+12 %");
  assert.equal(percent(-0.0123), "-1.2 %");
  assert.equal(percent(null), "–");
  assert.equal(moment(1360281600), "2013-02-08");
  assert.equal(moment(1360281600 + 7 * 3600), "2013-02-08 07:00");
  assert.equal(moment(null), "–");
  assert.equal(many(1, "day"), "1 day");
  assert.equal(many(2000, "series", "series"), "2,000 series");
});

test("long texts are cut in their middle", () => {
  assert.equal(shortened("abc", 3), "abc");
  assert.equal(shortened("abcdefgh", 5), "ab…gh");
  assert.equal(shortened("x".repeat(10000), 80).length, 80);
});
