import assert from "node:assert/strict";
import test from "node:test";
import type { IncidentLabel } from "../../src/data/protocol";
import { labelsSince } from "../../src/ui/labels";

test("what was said since is what was not said before", () => {
  const said = (label: string, by: string): IncidentLabel => ({ label, by, note: null, created_at: "2013-01-01T00:00:00Z", partition: null, name: null, instance: null });
  const [one, two] = [said("acknowledged", "ann"), said("acknowledged", "bob")];
  assert.deepEqual(labelsSince([one], [one, two]), [two]);
  assert.deepEqual(labelsSince([one], [one]), []);
});
