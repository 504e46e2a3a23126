import assert from "node:assert/strict";
import test from "node:test";
import { describeDistance, formatDistance } from "../../src/data/distances";
import type { DistanceValues } from "../../src/data/protocol";

const NONE: DistanceValues = { psi: null, psi_rest: null, js: null, ks: null, ks_significant: false, wasserstein: null, wasserstein_iqr: null, unseen: null, lost: null, l_infinity: null, chi_square_p: null };

test("distances have a word for their size", () => {
  assert.equal(describeDistance("psi", { ...NONE, psi: 0 }), "none");
  assert.equal(describeDistance("psi", { ...NONE, psi: 0.09 }), "small");
  assert.equal(describeDistance("psi", { ...NONE, psi: 0.1 }), "moderate");
  assert.equal(describeDistance("psi", { ...NONE, psi: 0.25 }), "large");
  assert.equal(describeDistance("psi", { ...NONE, psi: 0, psi_rest: 0.5 }), "none");
  assert.match(describeDistance("psi", { ...NONE, psi: 0, psi_rest: 0.51 }), /^not meaningful/);
  assert.equal(describeDistance("ks", { ...NONE, ks: 0.4 }), "not significant");
  assert.equal(describeDistance("ks", { ...NONE, ks: 0.4, ks_significant: true }), "large");
  assert.match(describeDistance("wasserstein", { ...NONE, wasserstein: 3, wasserstein_iqr: 0.15 }), /^moderate: 0.15 /);
});

test("shares of rows are in per cent, other distances are not", () => {
  assert.equal(formatDistance("unseen", 0.05), "5%");
  assert.equal(formatDistance("lost", 0), "0%");
  assert.equal(formatDistance("js", 0.05), "0.05");
  assert.equal(formatDistance("lost", null), "–");
});
