"""Joint test of a partition's largest departures: each alone could be chance, together they are not."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

if TYPE_CHECKING:
    from tidegauge.repository.numerics.arrays import Floats

LARGEST = 3
"""P-values that are combined: the smallest of a partition."""
EARLIER, ENOUGH = 98, 28
"""Earlier partitions by which it is known which series depart together, and the least of them."""
USUAL = 2.0
"""Score above which earlier departures count as no larger: a common incident makes no relation."""
POINTS = (np.arange(100) + 0.5) / 100
"""Probabilities at which a distribution is integrated."""


def jointly_significant(score: Floats, earlier: Floats, limit: float) -> bool:
    """Return whether the largest scores of a partition are significant together.

    Fisher's product of the `LARGEST` smallest of n p-values is tested at a significance level (the
    rank truncated product of Dudbridge and Koeleman 2003). Series that depart together as a rule, as
    a number of rows and a sum, are no evidence twice: the product's distribution is that of fewer
    independent p-values, by the correlations of earlier scores (Brown 1975; of observed ones Poole et
    al. 2016), from which one standard error is taken, as chance correlates all of them somewhat.

    Independent series keep the level. Of series that share a fifth to a half of their variance false
    alarms are two to three and a half times as many: they depart far together more often than their
    usual scores tell.

    Parameters
    ----------
    score : array of float, shape (series,)
        -log10 of p-values; NaN is unknown.
    earlier : array of float, shape (series, partitions)
        Scores of the same series before.
    limit : float
        Accepted probability of a false alarm.

    Returns
    -------
    bool
        False where fewer than `LARGEST` series are known, or fewer than `ENOUGH` earlier partitions.

    Examples
    --------
    Three p-values of 0.002 among six are no chance, unless the series always depart together:

    >>> chance = np.random.default_rng(1)
    >>> apart = chance.exponential(1 / np.log(10), (6, 60))
    >>> newest = np.array([0.1, 2.7, 0.3, 2.7, 2.7, 0.5])
    >>> jointly_significant(newest, apart, 0.001)
    True
    >>> jointly_significant(newest, apart[[0] * 6], 0.001)
    False
    """
    known = np.flatnonzero(~np.isnan(score))
    if len(known) < LARGEST:
        return False
    some = known[np.argsort(score[known])[-LARGEST:]]
    nats = math.log(10) * float(score[some].sum())
    # Of no more than three independent series, the product is the likeliest to be chance.
    if special.gammaincc(LARGEST, nats) > limit:
        return False
    past = np.minimum(earlier[some, -EARLIER:], USUAL)
    past = past[:, ~np.isnan(past).any(axis=0)]
    if past.shape[1] < ENOUGH:
        return False
    independent = _tail_of_related(nats, past)
    return _tail_of_largest(independent, len(known)) <= limit


def _tail_of_related(nats: float, past: Floats) -> float:
    """Return the probability of a sum of scores, as large in natural logarithms, of related series.

    It is gamma distributed, with the mean and the variance that it has by the correlations.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        known = np.atleast_2d(np.corrcoef(past))
    correlations = np.nan_to_num(known, nan=1.0)  # what never varied tells nothing
    pairs = correlations[np.triu_indices(LARGEST, 1)] - 1 / math.sqrt(past.shape[1])
    variance = LARGEST + 2 * float(np.clip(pairs, 0, 1).sum())
    return float(special.gammaincc(LARGEST**2 / variance, nats * LARGEST / variance))


def _tail_of_largest(independent: float, count: int) -> float:
    """Return the probability that the largest scores of so many have a sum that rare in any few of them.

    Given the next largest score, those above it are exponential.
    """
    if count == LARGEST:
        return independent
    nats = special.gammainccinv(LARGEST, independent)
    next_smallest = special.betaincinv(LARGEST + 1, count - LARGEST, POINTS)
    above = np.maximum(nats + LARGEST * np.log(next_smallest), 0)
    return float(special.gammaincc(LARGEST, above).mean())
