import assert from "node:assert/strict";
import test from "node:test";
import { filterTables, newestAges, sortTables, type TableHealth } from "../../src/data/tables";

const table = (dataset: string, place: number, changes: Partial<TableHealth> = {}): TableHealth => ({
  dataset, place, health: "ok", errors: 0, warnings: 0, infos: 0, snoozed: 0, failing: 0, failingKnown: 0, passing: 0, newest: "ds=1", time: 1, previous: NaN, arrived: 1,
  size: 10, sizeSeries: NaN, completeness: 1, lowest: 1, runStatus: "complete", runStarted: 1, owner: null, ownerRank: NaN, datasetRank: NaN, tags: null, ...changes,
});
const TABLES = [
  table("orders", 0, { health: "error", errors: 1, owner: "sales", ownerRank: 0, datasetRank: 1, size: 5 }),
  table("visits", 1, { health: "warning", warnings: 2, size: NaN, tags: "env=prod", datasetRank: 2 }),
  table("agents", 2, { owner: "support", ownerRank: 1, datasetRank: 0, size: 70 }),
];
const names = (tables: TableHealth[]) => tables.map(({ dataset }) => dataset);

test("tables are found by name, owner, tags and health", () => {
  assert.deepEqual(names(filterTables(TABLES, "SALES", "")), ["orders"]);
  assert.deepEqual(names(filterTables(TABLES, "env=prod visits", "")), ["visits"]);
  assert.deepEqual(names(filterTables(TABLES, "", "ok")), ["agents"]);
  assert.deepEqual(names(filterTables(TABLES, "sales", "ok")), []);
});

test("tables are sorted by a column, those without a value last either way", () => {
  assert.deepEqual(names(sortTables(TABLES, "health", false)), ["orders", "visits", "agents"]);
  assert.deepEqual(names(sortTables(TABLES, "dataset", false)), ["agents", "orders", "visits"]);
  assert.deepEqual(names(sortTables(TABLES, "size", false)), ["agents", "orders", "visits"]);
  assert.deepEqual(names(sortTables(TABLES, "size", true)), ["orders", "agents", "visits"]);
  assert.deepEqual(names(sortTables(TABLES, "owner", false)), ["orders", "agents", "visits"]);
  assert.deepEqual(names(sortTables(TABLES, "owner", true)), ["agents", "orders", "visits"]);
});

test("a partition's age is told apart from its arrival", () => {
  const [day, now] = [86400, 100 * 86400];
  const old = table("orders", 0, { time: now - 74 * day, arrived: now - 42 * 60 });
  assert.equal(newestAges(old, now), "of 2 months ago, arrived 42 min ago");
  assert.equal(newestAges({ ...old, time: NaN }, now), "arrived 42 min ago");
  assert.equal(newestAges({ ...old, time: NaN, arrived: NaN }, now), "");
});
