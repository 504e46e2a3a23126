"""Which values are counted together before two distributions are compared. Pure."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Mapping
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from repository.anomalies.distributions import Quantiles

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

MOST_BINS, FEWEST_BINS = 20, 4
ROWS_OF_BIN = 50
"""Rows for each bin: without a change PSI is (bins - 1) (1/n + 1/m) on average."""
ERRORS_OF_BIN = 10
"""A bin's share is at least so many times what the sketch may be off."""
RARE = 5
"""Categories of which fewer rows are expected are taken together."""
RARE_OF_TWO = 10
RARE_SHARE = 0.2


def number_of_bins(baseline: Quantiles, current: Quantiles) -> int:
    """Return how many bins two samples bear: 20, fewer below 1000 rows, 10 for sketches of 1 %.

    Examples
    --------
    >>> some = Quantiles.of(range(300))
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
    """Count both sides in bins that hold about the same number of baseline rows.

    Bins are open below, closed above, and have no outer ends. A value that alone holds more than the
    share of a bin has its own, and there are fewer others: one-valued columns have a bin below, the
    value's, and one above.

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
    >>> [x.tolist() for x in equal_mass(Quantiles.of([1, 2, 3, 4]), Quantiles.of([0, 9, 9]), 2)]
    [[2.0, 2.0], [1.0, 2.0]]
    """
    number = bins or number_of_bins(baseline, current)
    if not baseline.rows:
        return np.zeros(1), np.array([current.rows])
    cuts = np.unique(baseline.at(np.arange(1, number) / number))
    heavy = cuts[baseline.upto(cuts) - baseline.below(cuts) > baseline.rows / number]
    expected, actual = (
        np.diff(np.sort(np.concatenate([[0.0], q.below(heavy), q.upto(cuts), [q.rows]])))
        for q in (baseline, current)
    )
    return expected, actual


def paired(baseline: Mapping[str, float], current: Mapping[str, float]) -> tuple[Floats, Floats]:
    """Return the counts of all categories of either side, 0 where one is missing.

    Examples
    --------
    >>> [x.tolist() for x in paired({"a": 1, "b": 2}, {"b": 3})]
    [[1.0, 2.0], [0.0, 3.0]]
    """
    keys = sorted(baseline.keys() | current.keys())
    e, a = (np.array([side.get(key, 0) for key in keys], float) for side in (baseline, current))
    return e, a


def with_rest(expected: Floats, actual: Floats) -> tuple[Floats, Floats]:
    """Take categories together of which the baseline makes fewer than 5 rows expect on either side.

    Unseen ones are among them, so that a column of many rare values does not differ by chance alone.

    Examples
    --------
    >>> [x.tolist() for x in with_rest(np.array([90.0, 9, 1, 0]), np.array([80.0, 10, 5, 5]))]
    [[90.0, 9.0, 1.0], [80.0, 10.0, 10.0]]
    """
    n, m = expected.sum(), actual.sum()
    rare = expected * min(n, m) < RARE * n
    e, a = (np.append(x[~rare], x[rare].sum()) for x in (expected, actual))
    return e, a


def joined(counts: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Join small categories until a chi-square test may be made, as Deequ does.

    While more than a fifth of the categories expect fewer than 5 rows (Yates, Moore and McCabe 1999), or
    one of two fewer than 10 (Cochran 1952), the one that expects least is joined with the next.

    Parameters
    ----------
    counts : iterable of pairs
        The rows that are expected of each category, and those that there are.

    Returns
    -------
    list of pairs
        The same of what is left, one pair at least if there was any; the greatest first.

    Examples
    --------
    >>> joined([(30.0, 28.0), (20.0, 25.0), (4.0, 1.0), (3.0, 6.0)])
    [(30.0, 28.0), (20.0, 25.0), (7.0, 7.0)]
    """
    groups = sorted((-expected, actual) for expected, actual in counts)
    while len(groups) > 1:
        several = len(groups) > 2  # noqa: PLR2004
        limit, allowed = (RARE, int(RARE_SHARE * len(groups))) if several else (RARE_OF_TWO, 0)
        if len(groups) - bisect_right(groups, (-limit, inf)) <= allowed:
            break
        (e, a), (f, b) = groups.pop(), groups.pop()
        insort(groups, (e + f, a + b))
    return [(-e, a) for e, a in groups]
