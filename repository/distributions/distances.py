"""Distances between two distributions: PSI, Jensen-Shannon, Kolmogorov-Smirnov, Wasserstein. Pure.

Numbers are compared by quantiles, categories by counts. The baseline comes first. Every distance is
0 for equal distributions, and NaN if either side has no rows. Nulls and NaN are not values:
completeness measures them.

PSI is in nats and has no upper bound; Jensen-Shannon is the divergence in bits, between 0 and 1.
For numbers both use bins of equal mass, so an increasing transformation of both sides does not change
them. It does not change Kolmogorov-Smirnov either, which needs no bins. Wasserstein is in the column's
unit. Rare categories are pooled before categories are compared.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf, isnan, log, nan, sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tidegauge.repository.distributions.stored import Quantiles

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

MAX_BINS, MIN_BINS = 20, 4
MIN_ROWS_PER_BIN = 50
"""Rows required per bin: without a change PSI is (bins - 1) (1/n + 1/m) on average."""
MIN_ERRORS_PER_BIN = 10
"""Minimum share of a bin, as a multiple of the sketch's rank error."""
MIN_EXPECTED_ROWS = 5
"""Expected rows below which categories are pooled."""
MIN_EXPECTED_ROWS_OF_TWO = 10
MAX_SMALL_SHARE = 0.2


def number_of_bins(baseline: Quantiles, current: Quantiles) -> int:
    """Return the number of bins for two samples: 4 to 20, by rows and rank error.

    It is 20 for 1,000 rows or more, fewer for fewer rows, and 10 for sketches with a rank error of 1%.

    Examples
    --------
    >>> some = Quantiles.from_values(range(300))
    >>> number_of_bins(some, some)
    6
    """
    max_bins = min(baseline.rows, current.rows) / MIN_ROWS_PER_BIN
    error = max(baseline.error, current.error)
    if error:
        max_bins = min(max_bins, round(1 / (MIN_ERRORS_PER_BIN * error)))
    return int(np.clip(max_bins, MIN_BINS, MAX_BINS))


def equal_mass(
    baseline: Quantiles, current: Quantiles, bins: int | None = None
) -> tuple[Floats, Floats]:
    """Count both sides in equal-mass bins, which hold about the same number of baseline rows.

    Bins are open below, closed above and unbounded at both ends. A value that alone holds more than
    a bin's share gets its own bin, and there are fewer others: a single-valued column has one bin
    below, one for the value, and one above.

    Parameters
    ----------
    baseline, current : Quantiles
    bins : int, optional
        `number_of_bins` if not given.

    Returns
    -------
    expected, actual : array of float
        Rows in each bin.

    Examples
    --------
    >>> [x.tolist() for x in equal_mass(Quantiles.from_values([1, 2, 3, 4]), Quantiles.from_values([0, 9, 9]), 2)]
    [[2.0, 2.0], [1.0, 2.0]]
    """
    number = bins or number_of_bins(baseline, current)
    if not baseline.rows:
        return np.zeros(1), np.array([current.rows])
    cuts = np.unique(baseline.at(np.arange(1, number) / number))
    heavy = cuts[baseline.count_at_most(cuts) - baseline.count_below(cuts) > baseline.rows / number]
    expected, actual = (
        np.diff(
            np.sort(np.concatenate([[0.0], q.count_below(heavy), q.count_at_most(cuts), [q.rows]]))
        )
        for q in (baseline, current)
    )
    return expected, actual


def align_categories(
    baseline: Mapping[str, float], current: Mapping[str, float]
) -> tuple[Floats, Floats]:
    """Return both sides' counts over the union of their categories, 0 where one is missing.

    Examples
    --------
    >>> [x.tolist() for x in align_categories({"a": 1, "b": 2}, {"b": 3})]
    [[1.0, 2.0], [0.0, 3.0]]
    """
    keys = sorted(baseline.keys() | current.keys())
    e, a = (np.array([side.get(key, 0) for key in keys], float) for side in (baseline, current))
    return e, a


def pool_rare_categories(expected: Floats, actual: Floats) -> tuple[Floats, Floats]:
    """Pool categories with fewer than 5 rows expected, from the baseline's shares, on either side.

    Categories that the baseline lacks are also pooled. So a column of many rare values does not differ by
    chance alone.

    Examples
    --------
    >>> [x.tolist() for x in pool_rare_categories(np.array([90.0, 9, 1, 0]), np.array([80.0, 10, 5, 5]))]
    [[90.0, 9.0, 1.0], [80.0, 10.0, 10.0]]
    """
    n, m = expected.sum(), actual.sum()
    rare = expected * min(n, m) < MIN_EXPECTED_ROWS * n
    e, a = (np.append(x[~rare], x[rare].sum()) for x in (expected, actual))
    return e, a


def joined(counts: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Join small categories until a chi-square test is valid, as Deequ does.

    While more than a fifth of the categories have fewer than 5 expected rows (Yates, Moore and
    McCabe 1999), or one of two has fewer than 10 (Cochran 1952), the smallest is joined with the
    next.

    Parameters
    ----------
    counts : iterable of pairs
        Expected and actual rows of each category.

    Returns
    -------
    list of pairs
        The joined categories, largest first; at least one if any was given.

    Examples
    --------
    >>> joined([(30.0, 28.0), (20.0, 25.0), (4.0, 1.0), (3.0, 6.0)])
    [(30.0, 28.0), (20.0, 25.0), (7.0, 7.0)]
    """
    groups = sorted((-expected, actual) for expected, actual in counts)
    while len(groups) > 1:
        several = len(groups) > 2
        limit, allowed = (
            (MIN_EXPECTED_ROWS, int(MAX_SMALL_SHARE * len(groups)))
            if several
            else (MIN_EXPECTED_ROWS_OF_TWO, 0)
        )
        if len(groups) - bisect_right(groups, (-limit, inf)) <= allowed:
            break
        (e, a), (f, b) = groups.pop(), groups.pop()
        insort(groups, (e + f, a + b))
    return [(-e, a) for e, a in groups]


MAX_POOLED_SHARE = 0.5
"""With a larger share of rows in rare categories, PSI does not describe the distribution."""
KOLMOGOROV_CRITICAL_VALUE = 1.8
"""Critical value c of c sqrt((n + m) / (n m)): Kolmogorov's bound at about 0.3%, as in Deequ."""


@dataclass(frozen=True, kw_only=True)
class Distances:
    """Distances between two distributions; NaN if undefined, or if a side has no rows.

    Attributes
    ----------
    psi : float
        Population stability index, in nats; NaN if most rows of both sides are in rare categories.
    psi_rest : float
        Share of rows in the rare categories that `psi` pools, on the side where it is larger. If the
        share is large, use `js` instead of `psi`. Categories only.
    js : float
        Jensen-Shannon divergence, in bits, 0 to 1.
    ks : float
        Kolmogorov-Smirnov distance: the greatest difference of two cumulative shares, 0 to 1.
        Numbers only.
    ks_significant : bool
        True if `ks` exceeds sampling and sketch error. With millions of rows it nearly always does.
    wasserstein : float
        Mean distance that values moved, in the column's unit. Numbers only.
    wasserstein_iqr : float
        Effect size: `wasserstein` as a multiple of the baseline's interquartile range; 0 or infinite if
        the range is 0.
    unseen, lost : float
        Share of current rows whose category the baseline lacks, and share of baseline rows whose category
        has no current rows. Categories only.
    l_infinity : float
        Greatest difference of a category's shares. Categories only.
    chi_square_p : float
        P-value of Pearson's test; see `chi_square`. Categories only.
    """

    psi: float = nan
    psi_rest: float = nan
    js: float = nan
    ks: float = nan
    ks_significant: bool = False
    wasserstein: float = nan
    wasserstein_iqr: float = nan
    unseen: float = nan
    lost: float = nan
    l_infinity: float = nan
    chi_square_p: float = nan


def numeric_distances(baseline: Quantiles, current: Quantiles) -> Distances:
    """Return all distances between two numeric distributions.

    Examples
    --------
    >>> found = numeric_distances(Quantiles.from_values(range(1000)), Quantiles.from_values(range(100, 1100)))
    >>> round(found.ks, 3), found.wasserstein, found.wasserstein_iqr, found.ks_significant
    (0.1, 100.0, 0.2, True)
    """
    counts = equal_mass(baseline, current)
    distance, moved = ks(baseline, current), wasserstein(baseline, current)
    error = baseline.error + current.error
    return Distances(
        psi=psi(*counts),
        js=jensen_shannon(*counts),
        ks=distance,
        ks_significant=excess(distance, baseline.rows, current.rows, error=error) > 0,
        wasserstein=moved,
        wasserstein_iqr=effect_size(moved, baseline),
    )


def category_distances(baseline: Mapping[str, float], current: Mapping[str, float]) -> Distances:
    """Return all distances between two categorical distributions, given as counts by value.

    PSI pools rare and unseen categories; see `pool_rare_categories`. It is NaN if they have
    more than half of the rows of both sides, because the other categories do not represent the column.
    The other distances are not smoothed.

    Examples
    --------
    >>> found = category_distances({"a": 50, "b": 50}, {"a": 50, "c": 50})
    >>> found.unseen, found.lost, found.js, found.l_infinity
    (0.5, 0.5, 0.5, 0.5)
    """
    expected, actual = align_categories(baseline, current)
    n, m = expected.sum(), actual.sum()
    both = n > 0 and m > 0
    binned = pool_rare_categories(expected, actual)
    pooled = (float(binned[0][-1] / n), float(binned[1][-1] / m)) if both else (nan, nan)
    return Distances(
        psi=psi(*binned) if min(pooled) <= MAX_POOLED_SHARE else nan,
        psi_rest=max(pooled),
        js=jensen_shannon(expected, actual),
        unseen=float(actual[expected == 0].sum() / m) if both else nan,
        lost=float(expected[actual == 0].sum() / n) if both else nan,
        l_infinity=l_infinity(expected, actual),
        chi_square_p=chi_square(baseline, current).p_value,
    )


# counts in the same bins


def psi(expected: ArrayLike, actual: ArrayLike) -> float:
    """Return the population stability index of counts in the same bins: sum of (a - e) ln(a / e).

    a and e are shares. A bin that is empty on one side counts there as half a row, because the index would
    be infinite. Bins that are empty on both sides are ignored. The index is symmetric and in nats. Common
    thresholds are 0.1 for stable and 0.2 for changed distributions. At production row counts they miss many
    changes, so compare a series of distances with its own past.

    Parameters
    ----------
    expected, actual : array of float
        Rows in each bin.

    Returns
    -------
    float
        0 or more; NaN if a side has no rows.

    Examples
    --------
    >>> psi([50, 50], [25, 75])
    0.27465
    """
    e, a = _both(expected, actual)
    if not e.sum() or not a.sum():
        return nan
    shares = [np.where(x > 0, x, 0.5) / x.sum() for x in (e, a)]
    return float(np.sum((shares[1] - shares[0]) * np.log(shares[1] / shares[0])))


def jensen_shannon(expected: ArrayLike, actual: ArrayLike) -> float:
    """Return the Jensen-Shannon divergence of counts in the same bins, in bits (Lin 1991).

    Symmetric; 1 for distributions without a common bin. Its square root is a metric.

    Parameters
    ----------
    expected, actual : array of float
        Rows in each bin.

    Examples
    --------
    >>> jensen_shannon([1, 0], [0, 7]), jensen_shannon([1, 1], [2, 2])
    (1.0, 0.0)
    """
    from scipy import special  # slow to import

    e, a = _both(expected, actual)
    if not e.sum() or not a.sum():
        return nan
    p, q = e / e.sum(), a / a.sum()
    middle = (p + q) / 2
    nats = np.sum(special.rel_entr(p, middle) + special.rel_entr(q, middle)) / 2
    return float(np.clip(nats / log(2), 0, 1))


def l_infinity(expected: ArrayLike, actual: ArrayLike) -> float:
    """Return Deequ's LInfinity distance: the greatest difference of a bin's shares, 0 to 1.

    Examples
    --------
    >>> l_infinity([1, 1], [3, 1])
    0.25
    """
    e, a = _both(expected, actual)
    if not e.sum() or not a.sum():
        return nan
    return float(np.max(np.abs(e / e.sum() - a / a.sum())))


def excess(
    distance: float, n: float, m: float, *, error: float = 0.0, c: float = KOLMOGOROV_CRITICAL_VALUE
) -> float:
    """Return the excess of a KS or L-infinity distance over sampling and sketch error.

    That is distance - c sqrt((n + m) / (n m)) - error, at least 0; NaN stays NaN.

    Parameters
    ----------
    distance : float
    n, m : float
        Rows of both sides.
    error : float
        The sum of both sketches' rank errors.
    c : float
        sqrt(-ln(alpha / 2) / 2) at significance level alpha; 1.8 is about 0.003 (Knuth, The Art of
        Computer Programming, volume 2, section 3.3.1).
    """
    return nan if isnan(distance) else max(0.0, distance - c * sqrt((n + m) / (n * m)) - error)


def _both(expected: ArrayLike, actual: ArrayLike) -> tuple[Floats, Floats]:
    e, a = np.asarray(expected, dtype=float), np.asarray(actual, dtype=float)
    used = (e > 0) | (a > 0)
    return e[used], a[used]


# numbers


def ks(baseline: Quantiles, current: Quantiles) -> float:
    """Return the Kolmogorov-Smirnov distance: the greatest difference of cumulative shares.

    Symmetric, 0 to 1; for sketches the error is at most the sum of their rank errors.

    Examples
    --------
    >>> ks(Quantiles.from_values([1, 2]), Quantiles.from_values([2, 3]))
    0.5
    """
    if not baseline.rows or not current.rows:
        return nan
    return float(np.max(_gaps(baseline, current)[1]))


def wasserstein(baseline: Quantiles, current: Quantiles) -> float:
    """Return the first Wasserstein distance: the area between both cumulative shares.

    In the unit of the values. Infinite if the share of an infinite value changed.

    Examples
    --------
    >>> wasserstein(Quantiles.from_values([1, 2]), Quantiles.from_values([2, 5]))
    2.0
    """
    if not baseline.rows or not current.rows:
        return nan
    values, gaps = _gaps(baseline, current)
    with np.errstate(over="ignore"):
        widths, heights = np.diff(values), gaps[:-1]
        return float(np.sum(widths[heights > 0] * heights[heights > 0]))


def effect_size(moved: float, baseline: Quantiles) -> float:
    """Return a Wasserstein distance as a multiple of the baseline's interquartile range.

    If that range is 0, the result is 0 if nothing moved, and infinite otherwise. NaN stays NaN.

    Examples
    --------
    >>> effect_size(3.0, Quantiles.from_values([1, 2, 3, 4])), effect_size(3.0, Quantiles.from_values([1]))
    (1.5, inf)
    """
    first, third = baseline.at([0.25, 0.75]).tolist()
    if isnan(moved) or first == third:
        return inf if moved > 0 else moved
    return float(moved / (third - first))


def _gaps(a: Quantiles, b: Quantiles) -> tuple[Floats, Floats]:
    """Return all values, and the absolute difference of cumulative shares from each to the next."""
    both = Quantiles.from_values(np.concatenate([a.values, b.values]))
    return both.values, np.abs(
        a.count_at_most(both.values) / a.rows - b.count_at_most(both.values) / b.rows
    )


# categories


class ChiSquare(NamedTuple):
    """Result of Pearson's chi-square test.

    Attributes
    ----------
    statistic : float
        Pearson's statistic of the categories that the baseline has; NaN if there were fewer than two.
    p_value : float
        NaN if no current row has a category of the baseline, or there is one category in all.
    categories : int
        Number of categories after small ones were joined.
    """

    statistic: float
    p_value: float
    categories: int


def chi_square(baseline: Mapping[str, float], current: Mapping[str, float]) -> ChiSquare:
    """Run Pearson's goodness-of-fit test of current counts against the baseline's shares.

    As in Deequ, the baseline's shares count as known, and small categories are `joined`. Categories
    that the baseline lacks have no share, and Deequ leaves them out. Here their number of rows is
    also tested (see `unseen_p`), and the p-value is twice the smaller of both.

    Examples
    --------
    >>> chi_square({"a": 20, "b": 20}, {"a": 30})
    ChiSquare(statistic=30.0, p_value=4.32e-08, categories=2)
    >>> chi_square({"a": 50, "b": 50}, {"a": 5, "b": 5, "c": 90}).p_value < 1e-9
    True
    """
    from scipy import special  # slow to import

    total = sum(baseline.values())
    rows = sum(count for key, count in current.items() if baseline.get(key))
    baseline_counts = {key: count for key, count in baseline.items() if count}
    if not rows:
        return ChiSquare(nan, nan, 0)
    unseen = unseen_p(baseline, current)
    groups = joined(
        (n / total * rows, float(current.get(key, 0))) for key, n in baseline_counts.items()
    )
    if len(groups) < 2:
        return ChiSquare(nan, unseen, len(groups))
    expected, actual = np.array(groups).T
    statistic = float(np.sum((actual - expected) ** 2 / expected))
    p_value = float(special.chdtrc(len(groups) - 1, statistic))
    if not isnan(unseen):
        p_value = min(1.0, 2 * min(p_value, unseen))
    return ChiSquare(statistic, p_value, len(groups))


def unseen_p(baseline: Mapping[str, float], current: Mapping[str, float]) -> float:
    """Return the p-value of the number of current rows whose category the baseline lacks.

    The expected share of these rows is the share of baseline rows whose category occurs once (Good and
    Turing 1953). One row is added, so that the share is never 0. The number of rows has a Poisson
    distribution. The p-value is NaN without such rows.

    Examples
    --------
    >>> unseen_p({"a": 50, "b": 50}, {"a": 99, "c": 1}), unseen_p({"a": 50, "b": 50}, {"a": 90, "c": 10})
    (0.632, 1.11e-07)
    >>> unseen_p({"a": 50, "b": 50}, {"a": 10})
    nan
    """
    from scipy import special  # slow to import

    rows, total = sum(current.values()), sum(baseline.values())
    unseen = sum(count for key, count in current.items() if not baseline.get(key))
    if not unseen or not total:
        return nan
    once = sum(1 for count in baseline.values() if 0 < count <= 1)
    return float(special.gammainc(unseen, rows * (once + 1) / total))
