import assert from "node:assert/strict";
import test from "node:test";
import { filterTables, newestAges, type TableHealth } from "../../src/data/tables";

const table = (dataset: string, changes: Partial<TableHealth> = {}): TableHealth => ({
  dataset, health: "ok", errors: 0, warnings: 0, infos: 0, snoozed: 0, failing: 0, knownFailures: 0, passing: 0, newest: "ds=1", time: 1, previous: NaN, arrived: 1,
  size: 10, sizeSeries: NaN, completeness: 1, lowest: 1, runStatus: "complete", runStarted: 1, owner: null, tags: null, ...changes,
});
const TABLES = [
  table("orders", { health: "error", errors: 1, owner: "sales", size: 5 }),
  table("visits", { health: "warning", warnings: 2, size: NaN, tags: "env=prod" }),
  table("agents", { owner: "support", size: 70 }),
];
const names = (tables: TableHealth[]) => tables.map(({ dataset }) => dataset);

test("tables are found by name, owner, tags and health", () => {
  assert.deepEqual(names(filterTables(TABLES, "SALES", "")), ["orders"]);
  assert.deepEqual(names(filterTables(TABLES, "env=prod visits", "")), ["visits"]);
  assert.deepEqual(names(filterTables(TABLES, "", "ok")), ["agents"]);
  assert.deepEqual(names(filterTables(TABLES, "sales", "ok")), []);
});

test("the age of a partition and its arrival are separate", () => {
  const [day, now] = [86400, 100 * 86400];
  const old = table("orders", { time: now - 74 * day, arrived: now - 42 * 60 });
  assert.equal(newestAges(old, now), "of 2 months ago, arrived 42 min ago");
  assert.equal(newestAges({ ...old, time: NaN }, now), "arrived 42 min ago");
  assert.equal(newestAges({ ...old, time: NaN, arrived: NaN }, now), "");
});
