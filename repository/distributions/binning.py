"""Binning of values and pooling of categories before two distributions are compared. Pure."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Mapping
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.repository.distributions.shapes import Quantiles

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

MOST_BINS, FEWEST_BINS = 20, 4
ROWS_OF_BIN = 50
"""Rows required per bin: without a change PSI is (bins - 1) (1/n + 1/m) on average."""
ERRORS_OF_BIN = 10
"""Minimum share of a bin, as a multiple of the sketch's rank error."""
RARE = 5
"""Expected rows below which categories are pooled."""
RARE_OF_TWO = 10
RARE_SHARE = 0.2


def number_of_bins(baseline: Quantiles, current: Quantiles) -> int:
    """Return the number of bins for two samples: 4 to 20, by rows and rank error.

    It is 20 from 1000 rows on, fewer below, and 10 for sketches of 1 %.

    Examples
    --------
    >>> some = Quantiles.from_values(range(300))
    >>> number_of_bins(some, some)
    6
    """
    most = min(baseline.rows, current.rows) / ROWS_OF_BIN
    error = max(baseline.error, current.error)
    if error:
        most = min(most, round(1 / (ERRORS_OF_BIN * error)))
    return int(np.clip(most, FEWEST_BINS, MOST_BINS))


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

    Unseen categories are pooled, too, so that a column of many rare values does not differ by
    chance alone.

    Examples
    --------
    >>> [x.tolist() for x in pool_rare_categories(np.array([90.0, 9, 1, 0]), np.array([80.0, 10, 5, 5]))]
    [[90.0, 9.0, 1.0], [80.0, 10.0, 10.0]]
    """
    n, m = expected.sum(), actual.sum()
    rare = expected * min(n, m) < RARE * n
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
        limit, allowed = (RARE, int(RARE_SHARE * len(groups))) if several else (RARE_OF_TWO, 0)
        if len(groups) - bisect_right(groups, (-limit, inf)) <= allowed:
            break
        (e, a), (f, b) = groups.pop(), groups.pop()
        insort(groups, (e + f, a + b))
    return [(-e, a) for e, a in groups]
