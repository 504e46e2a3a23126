// Density of a column from its quantiles: a Gaussian kernel estimate. No drawing.

/** Number of points at which a density is estimated. */
const CURVE_POINTS = 200;
/** Length of the curve beyond both ends, in bandwidths. */
const TAIL_BANDWIDTHS = 3;

/** Densities of both sides at the same points, as share of rows per unit of the value. */
export function densities(sides: readonly ArrayLike<number>[], ranks: ArrayLike<number>, points = CURVE_POINTS): { x: number[]; lines: number[][] } {
  const widths = sides.map((side) => bandwidth(side, ranks));
  const low = Math.min(...sides.map((side, n) => side[0] - TAIL_BANDWIDTHS * widths[n]));
  const high = Math.max(...sides.map((side, n) => side[side.length - 1] + TAIL_BANDWIDTHS * widths[n]));
  const x = Array.from({ length: points }, (_, n) => low + ((high - low) * n) / (points - 1));
  return { x, lines: sides.map((side, n) => x.map((position) => density(side, ranks, widths[n], position))) };
}

/** Density at a position: rows are distributed evenly between neighboring quantiles, then smoothed by a Gaussian kernel. */
export function density(values: ArrayLike<number>, ranks: ArrayLike<number>, width: number, position: number): number {
  const totalShare = ranks[ranks.length - 1] - ranks[0];
  let sum = 0;
  for (let n = 1; n < values.length; n++) {
    const [from, to, share] = [values[n - 1], values[n], (ranks[n] - ranks[n - 1]) / totalShare];
    // Equal quantiles: all rows between them have the same value.
    if (to - from < 1e-6 * width) sum += (share * Math.exp(-0.5 * ((position - from) / width) ** 2)) / (width * Math.sqrt(2 * Math.PI));
    else sum += (share * (cumulative((position - from) / width) - cumulative((position - to) / width))) / (to - from);
  }
  return sum;
}

/**
 * Bandwidth by Silverman's rule of thumb (1986, equation 3.31), 0.9 min(s, IQR / 1.34) n^(-1/5).
 *
 * The quantiles count as the sample, because the distribution between two quantiles is unknown. If half of the rows have
 * the same value, the IQR is 0 and only the standard deviation s is used; for a single value, 1 % of its magnitude.
 */
export function bandwidth(values: ArrayLike<number>, ranks: ArrayLike<number>): number {
  const count = values.length;
  let [total, mean, squares] = [0, 0, 0];
  for (let n = 1; n < count; n++) {
    const [from, to, share] = [values[n - 1], values[n], ranks[n] - ranks[n - 1]];
    const middle = (from + to) / 2 - values[0];
    total += share;
    mean += share * middle;
    squares += share * (middle ** 2 + (to - from) ** 2 / 12);
  }
  const deviation = Math.sqrt(Math.max(0, squares / total - (mean / total) ** 2));
  const quantile = (rank: number) => values[Array.from(ranks).findIndex((value) => value >= rank - 1e-9)];
  const quartiles = quantile(0.75) - quantile(0.25);
  const spread = quartiles > 0 ? Math.min(deviation, quartiles / 1.34) : deviation;
  return 0.9 * spread * count ** -0.2 || Math.abs(values[0]) / 100 || 1;
}

/** Cumulative normal distribution; Abramowitz and Stegun 26.2.17, with an error below 7.5e-8. */
function cumulative(z: number): number {
  const t = 1 / (1 + 0.2316419 * Math.abs(z));
  const tail = t * (0.31938153 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))));
  const upper = (Math.exp((-z * z) / 2) / Math.sqrt(2 * Math.PI)) * tail;
  return z < 0 ? upper : 1 - upper;
}
