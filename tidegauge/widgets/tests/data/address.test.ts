import assert from "node:assert/strict";
import { test } from "node:test";
import { formatAddress, parseAddress } from "../../src/data/address";

test("an incident's id is a part of the path", () => {
  assert.equal(formatAddress({ view: "incidents", dataset: "flights", options: { id: 337, status: "" } }), "#/incidents/337?status=");
  assert.deepEqual(parseAddress("#/incidents/337"), { view: "incidents", dataset: null, options: { id: 337 } });
});

test("only addresses of single-dataset views have the dataset", () => {
  assert.equal(formatAddress({ view: "partitions", dataset: "a b", options: { partition: "ds=2013-02-08" } }), "#/partitions?dataset=a%20b&partition=ds%3D2013-02-08");
  assert.equal(formatAddress({ view: "series", dataset: "a b", options: { ids: [3], focus: null } }), "#/series?ids=%5B3%5D");
});

test("parsing a formatted address returns it, for all names", () => {
  const hostile = ["<img src=x>", "a&b=c#d?e/f", "100%", "123", "true", "null", "\"quoted\"", "[1", "", "ü ñ \u202e"];
  for (const name of hostile) {
    const address = { view: "compare", dataset: name, options: { filter: name, [name || "empty"]: [1, null, "x"], side: { partition: name, since: null }, n: 1.5, on: false } };
    assert.deepEqual(parseAddress(formatAddress(address)), address);
  }
});

test("an invalid address is null", () => {
  for (const hash of ["", "#", "#heading", "#//", "#/a/b/c", "#/series?filter=%E0%A4%A"]) assert.equal(parseAddress(hash), null);
});
