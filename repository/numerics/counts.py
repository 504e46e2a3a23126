"""Small counts: negative binomial tails, which a logarithm of so few rows does not have.

The mean is that of the last weeks, which knows more of a small count than the median of a few days.
The variance is the observed one, and the mean's (a Poisson distribution) where less was observed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from tidegauge.repository.numerics.arrays import CAP

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.repository.numerics.arrays import Floats

SMALL = 30.0
"""Mean below which a count is small."""
LARGEST = 1e15
"""Count from which doubles leave out whole numbers; larger ones are judged as this."""
WEEKS, LONG = 28, 98
"""Points whose mean is expected, and those whose variance is."""
ENOUGH = 14
"""Points from which mean and variance are known well enough."""
FAR, OTHERS = 10.0, 7
"""Deviations of so many others, at least, beyond which a point that was never scored is no example."""


@dataclass(frozen=True)
class CountForecast:
    """Negative binomial forecast of small counts; all arrays are of shape (series,).

    Attributes
    ----------
    mean, variance : array of float
        Of the next count; the variance is at least the mean.
    small : array of bool
        Where the count is small and known well enough to be forecast so.
    """

    mean: Floats
    variance: Floats
    small: NDArray[np.bool_]

    @classmethod
    def from_past(cls, past: Floats, scored: NDArray[np.bool_]) -> CountForecast:
        """Forecast counts from their past.

        Parameters
        ----------
        past : array of float, shape (series, memory)
            Earlier counts, NaN where unknown, without their season.
        scored : array of bool, same shape
            Which of them were scored, and so are no anomalies. The first of a series were not: a
            table's first load may hold the rows of years.
        """
        past = np.where(_first_loads(past, scored), np.nan, past)
        mean = _mean(past[:, -WEEKS:])
        long = past[:, -LONG:]
        points = (~np.isnan(long)).sum(axis=1)
        variance = _mean(np.square(long - _mean(long)[:, None]))
        variance *= points / np.maximum(points - 1, 1)
        # Those of the mean itself: a new count differs from an estimate.
        recent = np.maximum((~np.isnan(past[:, -WEEKS:])).sum(axis=1), 1)
        variance = np.maximum(variance, mean) * (1 + 1 / recent)
        small = (points >= ENOUGH) & (mean > 0) & (mean < SMALL)
        return cls(mean, variance, small)

    def taken(self, some: NDArray[np.bool_]) -> CountForecast:
        """Return the forecasts of a selection of the series."""
        return CountForecast(self.mean[some], self.variance[some], self.small[some])

    def score(self, value: Floats) -> Floats:
        """Return -log10 of the two-sided tail probability of counts."""
        size, share = self._parameters()
        count = np.round(np.maximum(np.nan_to_num(value, posinf=LARGEST), 0))
        above = np.where(count > 0, special.betainc(np.maximum(count, 1), size, 1 - share), 1.0)
        below = special.betainc(size, count + 1, share)
        p = np.clip(2 * np.minimum(above, below), 10.0**-CAP, 1)
        score: Floats = np.where(np.isnan(value), np.nan, -np.log10(p))
        return score

    def quantile(self, probability: float) -> Floats:
        """Return a quantile of the forecast distribution."""
        size, share = self._parameters()
        found: Floats = np.maximum(special.nbdtrik(probability, size, share), 0)
        return np.ceil(np.nan_to_num(found))

    def limits(self, p_value: float) -> Floats:
        """Return the counts at the limits of a two-sided p-value, of shape (series, 2)."""
        return np.stack([self.quantile(p_value / 2), self.quantile(1 - p_value / 2)], axis=1)

    def _parameters(self) -> tuple[Floats, Floats]:
        mean = np.maximum(self.mean, 1e-9)
        variance = np.maximum(self.variance, mean * (1 + 1e-6))
        return mean**2 / (variance - mean), mean / variance


NO_COUNTS = CountForecast(np.empty(0), np.empty(0), np.empty(0, dtype=bool))


def poisson_score(value: Floats, mean: Floats) -> Floats:
    """Return -log10 of the probability that a Poisson count is at least a value.

    Examples
    --------
    >>> poisson_score(np.array([0.0, 1.0]), np.array([0.01, 0.01])).round(2).tolist()
    [0.0, 2.0]
    """
    p = np.where(value > 0, special.gammainc(np.maximum(value, 1e-9), mean), 1.0)
    score: Floats = np.clip(-np.log10(np.maximum(p, 10.0**-CAP)), 0, CAP)
    return score


def poisson_limit(score: float, mean: Floats) -> Floats:
    """Return the largest counts whose `poisson_score` is below a score.

    Examples
    --------
    >>> poisson_limit(3.0, np.array([0.01, 0.1])).tolist()  # P(X >= 2) is 5e-5, P(X >= 3) 2e-4
    [1.0, 2.0]
    >>> poisson_limit(3.0, np.array([1e6])).tolist()  # 3.1 standard deviations above
    [1003092.0]
    """
    mean = np.minimum(mean, LARGEST)
    low, high = np.zeros(mean.shape), np.ones(mean.shape)
    while (below := poisson_score(high, mean) < score).any():
        low, high = np.where(below, high, low), np.where(below, 2 * high, high)
    while (high - low > 1).any():
        middle = np.floor((low + high) / 2)
        below = poisson_score(middle, mean) < score
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return low


def _first_loads(past: Floats, scored: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which points that were never scored are far from all that were."""
    others = np.where(scored, past, np.nan)
    mean = _mean(others)[:, None]
    variance = np.maximum(_mean(np.square(others - mean))[:, None], np.maximum(mean, 1))
    enough = (~np.isnan(others)).sum(axis=1) >= OTHERS
    far = np.abs(past - mean) > FAR * np.sqrt(variance)
    found: NDArray[np.bool_] = far & ~scored & enough[:, None]
    return found


def _mean(values: Floats) -> Floats:
    """Return the means of rows; 0 where there is no value."""
    known = ~np.isnan(values)
    mean: Floats = np.where(known, values, 0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    return mean
