import assert from "node:assert/strict";
import test from "node:test";
import { parseDateText, parseMonthText } from "../../src/ui/date-field";

test("complete dates and times are accepted", () => {
  assert.equal(parseDateText(" 2013-02-08 "), "2013-02-08");
  assert.equal(parseDateText("2013-02-08T14:00"), "2013-02-08 14:00");
  assert.equal(parseDateText("2013-02-08 14:00:30"), "2013-02-08 14:00:30");
});

test("unfinished and impossible dates are refused", () => {
  for (const text of ["", "2013-02", "2013-02-30", "2013-13-01", "08.02.2013", "2013-02-08 25:00"]) assert.equal(parseDateText(text), null, text);
});

test("a month has a first and a last day", () => {
  assert.deepEqual(parseMonthText(" 2013-02 "), ["2013-02-01", "2013-02-28"]);
  assert.deepEqual(parseMonthText("2012-02"), ["2012-02-01", "2012-02-29"]);
  assert.deepEqual(parseMonthText("2013-12"), ["2013-12-01", "2013-12-31"]);
  for (const text of ["", "2013", "2013-13", "2013-00", "2013-02-08"]) assert.equal(parseMonthText(text), null, text);
});
