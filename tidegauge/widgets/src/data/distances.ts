// Distances between distributions: names, descriptions, and words for their size.

import { formatNumber, formatValue } from "./format";
import type { DistanceValues } from "./protocol";

/** Thresholds of moderate and large distances: the conventional ones for PSI, and equivalents for other distances. */
const SIZE_THRESHOLDS: Record<string, [number, number]> = {
  psi: [0.1, 0.25],
  js: [0.018, 0.045],
  ks: [0.1, 0.2],
  wasserstein: [0.1, 0.25],
  unseen: [0.01, 0.05],
  lost: [0.01, 0.05],
};

/** Share of pooled rows above which PSI is not meaningful. */
const MAX_POOLED_SHARE = 0.5;

/** Distances in display order. */
export const DISTANCES: [name: keyof DistanceValues, title: string, description: string][] = [
  ["psi", "PSI", "population stability index, in nats"],
  ["js", "Jensen-Shannon", "divergence in bits, 0 to 1"],
  ["ks", "Kolmogorov-Smirnov", "largest difference of cumulative shares"],
  ["wasserstein", "Wasserstein", "average shift of values, in the column's unit"],
  ["unseen", "Unseen", "share of current rows in categories that are not in the baseline"],
  ["lost", "Lost", "share of baseline rows in categories that are not in the current side"],
];

/** Whether a distance is a share of rows. */
export function isShare(name: string): boolean {
  return name === "unseen" || name === "lost";
}

/** Moderate and large values of a distance over time; none for Wasserstein, whose unit is the column's. */
export function distanceThresholds(name: string): readonly number[] {
  return name === "wasserstein" ? [] : SIZE_THRESHOLDS[name];
}

/** Format a distance: shares of rows in per cent, others as numbers. */
export function formatDistance(name: string, value: number | null): string {
  return formatValue(value, isShare(name));
}

/** Describe the size of a distance: none, small, moderate or large. */
export function describeDistance(name: string, distances: DistanceValues): string {
  if (name === "psi" && (distances.psi_rest ?? 0) > MAX_POOLED_SHARE) return "not meaningful: most rows are in pooled rare categories";
  if (name === "ks" && !distances.ks_significant) return "not significant";
  const value = name === "wasserstein" ? distances.wasserstein_iqr : (distances[name as keyof DistanceValues] as number | null);
  if (value === null) return name === "wasserstein" ? "–" : "";
  const [moderate, large] = SIZE_THRESHOLDS[name];
  const size = value === 0 ? "none" : value < moderate ? "small" : value < large ? "moderate" : "large";
  return name === "wasserstein" ? `${size}: ${formatNumber(value)} of the interquartile range` : size;
}
