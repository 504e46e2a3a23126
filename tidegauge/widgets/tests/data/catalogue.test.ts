import assert from "node:assert/strict";
import test from "node:test";
import { Catalogue } from "../../src/data/catalogue";
import { groupKeys, groupRows } from "../../src/heatmap/row-groups";

const series = [
  ["flights", "", "*", "Size", "Size()"],
  ["flights", "", "dep_time", "Completeness", "Completeness('dep_time')"],
  ["flights", "origin=EWR", "dep_time", "Completeness", "Completeness('dep_time', where='a = \\'b\\'')"],
  ["orders", "", "*", "Size", "Size()"],
];
const keys = ["dataset", "segment", "instance", "name", "analyzer"] as const;

function catalogue(): Catalogue {
  const keyValues = Object.fromEntries(keys.map((key, n) => [key, [...new Set(series.map((keysOfRow) => keysOfRow[n]))].sort()]));
  const codes = Object.fromEntries(
    keys.map((key, n) => [key, Int32Array.from(series, (keysOfRow) => keyValues[key].indexOf(keysOfRow[n]))]),
  ) as Record<(typeof keys)[number], Int32Array>;
  const data = { key_values: keyValues, labels: ["2013-01-01"], datasets: ["flights", "orders"], repository: "coast.db", writable: true, commits: 1, author: "ann", catalogue: 1, url: null, open_incidents: 0 };
  const arrays = { ids: Float64Array.from([11, 12, 13, 14]), times: new Float64Array(1), marks: new Int32Array(0), worst: Int32Array.of(0, 1, 2, 3), ...codes };
  return new Catalogue({ data, arrays, shapes: {} });
}

test("titles have name, column, filter and segment", () => {
  const listed = catalogue();
  assert.equal(listed.title(0), "Size");
  assert.equal(listed.title(1), "Completeness dep_time");
  assert.equal(listed.title(2), "Completeness dep_time where a = \\'b\\' · origin=EWR");
  assert.equal(listed.rowOf(13), 2);
  assert.equal(listed.rowOf(99), -1);
});

test("all words must occur, in any order, case and key", () => {
  const listed = catalogue();
  assert.deepEqual([...listed.search("")], [0, 1, 2, 3]);
  assert.deepEqual([...listed.search("  DEP ewr")], [2]);
  assert.deepEqual([...listed.search("size orders")], [3]);
  assert.deepEqual([...listed.search("nothing")], []);
});

test("headings precede their rows", () => {
  const listed = catalogue();
  const all = Int32Array.from([0, 1, 2, 3]);
  const { order, headings } = groupRows(all, listed, groupKeys("column", "name"));
  assert.deepEqual(headings, ["flights · the table", "flights · dep_time", "orders · the table"]);
  assert.deepEqual([...order], [-1, 0, -2, 1, 2, -3, 3]);
  assert.deepEqual(groupKeys("column", "worst"), []);
  assert.deepEqual(groupKeys("", "name"), []);
});

test("rows without groups stay as the kernel sorted them", () => {
  const rows = Int32Array.from([3, 1, 2]);
  assert.deepEqual(groupRows(rows, catalogue(), []), { order: rows, headings: [], folded: new Map() });
});

test("a folded group has only its heading, with its rows", () => {
  const listed = catalogue();
  const all = Int32Array.from([0, 1, 2, 3]);
  const { order, headings, folded } = groupRows(all, listed, groupKeys("dataset", "name"), (heading) => heading === "flights");
  assert.deepEqual(headings, ["flights", "orders"]);
  const flights = [...all].filter((row) => listed.keyValue("dataset", row) === "flights");
  assert.deepEqual([...order], [-1, -2, ...[...all].filter((row) => !flights.includes(row))]);
  assert.deepEqual(folded, new Map([[-1, flights]]));
});
