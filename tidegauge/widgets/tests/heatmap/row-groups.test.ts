import assert from "node:assert/strict";
import test from "node:test";
import { defaultSort } from "../../src/heatmap/row-groups";

test("rows are sorted worst first, unless a saved address groups them", () => {
  assert.equal(defaultSort(null), "worst");
  assert.equal(defaultSort("segment"), "name");
  assert.equal(defaultSort(""), "name");
});
