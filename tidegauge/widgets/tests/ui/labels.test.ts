import assert from "node:assert/strict";
import test from "node:test";
import type { IncidentLabel } from "../../src/data/protocol";
import { labelsSince } from "../../src/ui/labels";

test("new labels are labels that were not there before", () => {
  const label = (label: string, by: string): IncidentLabel => ({ label, by, note: null, created_at: "2013-01-01T00:00:00Z", partition: null, name: null, instance: null });
  const [first, two] = [label("acknowledged", "ann"), label("acknowledged", "bob")];
  assert.deepEqual(labelsSince([first], [first, two]), [two]);
  assert.deepEqual(labelsSince([first], [first]), []);
});
