import assert from "node:assert/strict";
import test from "node:test";
import { cumulative, type Distances, sizeOf, valueAt } from "../src/curves";

const NONE: Distances = { psi: null, psi_rest: null, js: null, ks: null, ks_significant: false, wasserstein: null, wasserstein_iqr: null, unseen: null, lost: null };

test("the cumulative curve jumps where many rows have one value", () => {
  const [x, y] = cumulative([0, 5, 5, 5, 10], [0, 0.25, 0.5, 0.75, 1]);
  assert.deepEqual(y, [0, 0.25, 0.75, 1]);
  assert.deepEqual([x[0], x[2], x[3]], [0, 5, 10]);
  assert.ok(x[1] < 5 && x[1] > 4.999999);
  assert.deepEqual(cumulative([3, 3], [0, 1]), [[3], [1]]);
});

test("values between points lie on the line between them", () => {
  assert.equal(valueAt([0, 10], [0, 1], 5), 0.5);
  assert.equal(valueAt([0, 4, 10], [0, null, 1], 5), 0.5);
  assert.equal(valueAt([0, 10], [0, 1], 10), 1);
  assert.equal(valueAt([0, 10], [0, 1], -1), null);
  assert.equal(valueAt([0, 10], [0, 1], 11), null);
});

test("distances have a word for their size", () => {
  assert.equal(sizeOf("psi", { ...NONE, psi: 0 }), "none");
  assert.equal(sizeOf("psi", { ...NONE, psi: 0.09 }), "small");
  assert.equal(sizeOf("psi", { ...NONE, psi: 0.1 }), "moderate");
  assert.equal(sizeOf("psi", { ...NONE, psi: 0.25 }), "large");
  assert.equal(sizeOf("psi", { ...NONE, psi: 0, psi_rest: 0.5 }), "none");
  assert.match(sizeOf("psi", { ...NONE, psi: 0, psi_rest: 0.51 }), /^not meaningful/);
  assert.equal(sizeOf("ks", { ...NONE, ks: 0.4 }), "no more than chance");
  assert.equal(sizeOf("ks", { ...NONE, ks: 0.4, ks_significant: true }), "large");
  assert.match(sizeOf("wasserstein", { ...NONE, wasserstein: 3, wasserstein_iqr: 0.15 }), /^moderate: 0.15 /);
});
