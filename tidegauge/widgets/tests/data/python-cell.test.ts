import assert from "node:assert/strict";
import test from "node:test";
import { pythonCell, pythonLiteral, type SeriesKeys } from "../../src/data/python-cell";

test("JSON values are Python literals", () => {
  assert.equal(pythonLiteral({ a: [1, null, true], b: { c: false }, d: 'it\'s "x"\n' }), '{"a": [1, None, True], "b": {"c": False}, "d": "it\'s \\"x\\"\\n"}');
});

const SERIES = [
  { dataset: "flights", name: "Size", instance: "*", segment: "", analyzer: `Size(where="origin = 'EWR'")` },
  { dataset: "flights", name: "Mean", instance: "dep_delay", segment: "carrier=UA", analyzer: "Mean('dep_delay')" },
];
const KEYS: SeriesKeys = { rowOf: (id) => [3, 7].indexOf(id), keyValue: (key, row) => SERIES[row][key] };

test("a cell restores the view", () => {
  const cell = pythonCell("series", "flights", { ids: [3, 7], overlay: null, log: false }, KEYS);
  assert.match(cell, /tg\.Dashboard\(repo, "flights", view="series"\)/);
  assert.match(cell, /dashboard\.options = \{"series": \{"ids": \[3, 7\], "log": False\}\}/);
  assert.match(pythonCell("incidents", null, { id: 7 }, KEYS), /^print\(repo\.incident\(7\)\.explain\(\)\)$/m);
});

test("a cell queries the series by name", () => {
  const lines = pythonCell("series", null, { ids: [3, 7, 99], since: 1359676800, until: "2013-02-28" }, KEYS).split("\n");
  assert.equal(lines[3], `frame1 = repo.metrics("flights", "Size", "*", where="origin = 'EWR'", segment="", since="2013-02-01", until="2013-02-28")`);
  assert.equal(lines[4], 'frame2 = repo.metrics("flights", "Mean", "dep_delay", where="", segment="carrier=UA", since="2013-02-01", until="2013-02-28")');
  assert.equal(lines[5], "");
});

test("a cell queries comparisons, distributions, scores and lists", () => {
  const [baseline, current] = [{ since: "2013-01-01", until: null }, { since: "2013-02-01", until: "2013-02-28" }];
  const query = (view: string, options: Record<string, unknown>) => pythonCell(view, "flights", options, KEYS).split("\n")[3];
  assert.equal(query("compare", { baseline, current, summary: "median" }), 'frame = repo.compare("flights", ("2013-01-01", None), ("2013-02-01", "2013-02-28"), summary="median")');
  assert.equal(query("compare", { baseline: { run: 3 }, current: { run: 4 } }), 'frame = repo.compare("flights", 3, 4)');
  assert.equal(query("compare", {}), "");
  const partitions = { baseline: { partition: "ds=1" }, current: { partition: "ds=2" } };
  assert.equal(query("distribution", { column: "carrier", ...partitions, segment: "" }), 'frame = repo.drift("flights", "carrier", "ds=1", "ds=2")');
  assert.equal(query("overview", { table: "flights", since: "2013-02-01" }), 'frame = repo.scores("flights", since="2013-02-01")');
  assert.equal(query("partitions", {}), 'frame = repo.calendar("flights")');
  assert.equal(query("incidents", { table: "flights" }), 'frame = repo.incidents("flights")');
});
