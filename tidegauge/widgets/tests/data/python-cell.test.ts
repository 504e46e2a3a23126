import assert from "node:assert/strict";
import test from "node:test";
import { pythonCell, pythonLiteral } from "../../src/data/python-cell";

test("JSON values are Python literals", () => {
  assert.equal(pythonLiteral({ a: [1, null, true], b: { c: false }, d: 'it\'s "x"\n' }), '{"a": [1, None, True], "b": {"c": False}, "d": "it\'s \\"x\\"\\n"}');
});

test("a cell restores the view", () => {
  const cell = pythonCell("series", "flights", { ids: [3, 7], overlay: null, log: false });
  assert.match(cell, /tg\.Dashboard\(repo, "flights", view="series"\)/);
  assert.match(cell, /dashboard\.options = \{"series": \{"ids": \[3, 7\], "log": False\}\}/);
  assert.match(pythonCell("incidents", null, { id: 7 }), /repo\.incident\(7\)\.explain\(\)/);
});
