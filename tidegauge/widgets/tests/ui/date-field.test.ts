import assert from "node:assert/strict";
import test from "node:test";
import { parseDateText } from "../../src/ui/date-field";

test("complete dates and times are accepted", () => {
  assert.equal(parseDateText(" 2013-02-08 "), "2013-02-08");
  assert.equal(parseDateText("2013-02-08T14:00"), "2013-02-08 14:00");
  assert.equal(parseDateText("2013-02-08 14:00:30"), "2013-02-08 14:00:30");
});

test("unfinished and impossible dates are refused", () => {
  for (const text of ["", "2013-02", "2013-02-30", "2013-13-01", "08.02.2013", "2013-02-08 25:00"]) assert.equal(parseDateText(text), null, text);
});
