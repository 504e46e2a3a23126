import assert from "node:assert/strict";
import { test } from "node:test";
import { bandwidth, densities, density } from "../../src/data/density";

const RANKS = Array.from({ length: 101 }, (_, n) => n / 100);
const even = RANKS.map((rank) => 10 * rank);
const near = (value: number, expected: number, tolerance: number) => assert.ok(Math.abs(value - expected) < tolerance, `${value} is not ${expected}`);

function integral(x: number[], y: number[]): number {
  return x.slice(1).reduce((sum, position, n) => sum + ((position - x[n]) * (y[n] + y[n + 1])) / 2, 0);
}

test("uniform values between 0 and 10 have a density of 0.1, and half of it at the ends", () => {
  const width = bandwidth(even, RANKS);
  near(density(even, RANKS, width, 5), 0.1, 1e-4);
  near(density(even, RANKS, width, 0), 0.05, 1e-4);
  near(density(even, RANKS, width, 10 + 5 * width), 0, 1e-6);
});

test("the bandwidth is Silverman's", () => {
  // s is 10 / sqrt(12) = 2.887, the interquartile range 5, and 5 / 1.34 is more than s.
  near(bandwidth(even, RANKS), 0.9 * (10 / Math.sqrt(12)) * 101 ** -0.2, 1e-9);
  assert.equal(bandwidth([7, 7], [0, 1]), 0.07);
  assert.equal(bandwidth([0, 0], [0, 1]), 1);
});

test("all rows are under the curve, also where many have one value", () => {
  const tied = RANKS.map((rank) => (rank < 0.6 ? 3 : 3 + 10 * (rank - 0.6)));
  const { x, lines } = densities([even, tied], RANKS, 2000);
  for (const line of lines) near(integral(x, line), 1, 0.005);
  const top = x[lines[1].indexOf(Math.max(...lines[1]))];
  near(top, 3, 0.1);
});

test("without the tails, shares are of the remaining rows", () => {
  const { x, lines } = densities([even.slice(1, -1), even.slice(1, -1)], RANKS.slice(1, -1), 2000);
  near(integral(x, lines[0]), 1, 0.005);
});
