"""Deequ's anomaly detection strategies, with Deequ's semantics and known defects fixed.

Fixed: a gap keeps its position; a change after a constant is not certain; the band of `HoltWinters`
is that of its errors, not of their absolute values; later points never change a score.
`HoltWinters` is in `holt_winters`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError
from tidegauge.repository.detectors.base import History, Reason, Scores, detector
from tidegauge.repository.detectors.strategy import (
    SAME,
    Strategy,
    band,
    bounded,
    nan_if_infinite,
    normal_scores,
    running_moments,
    scale_down,
    training_values,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.repository.numerics.arrays import Floats

LARGEST = float(np.finfo(np.float64).max)


@detector
class SimpleThreshold(Strategy):
    """Detector of values outside fixed bounds: the highest score outside, 0 inside.

    Infinities are outside.

    Parameters
    ----------
    upper_bound, lower_bound : float
        Allowed range, bounds included, in the metric's unit.

    Examples
    --------
    >>> SimpleThreshold(upper_bound=0).detect([-1.0, 0.0, 1.0, np.nan])
    [Flagged(index=2, value=1.0, lower=nan, upper=0.0)]
    """

    upper_bound: float
    lower_bound: float = -np.inf

    def check_parameters(self) -> None:
        """Validate that the bounds are in order and not NaN."""
        if not self.lower_bound <= self.upper_bound:
            msg = f"{self!r}: lower_bound must not exceed upper_bound, and neither may be NaN"
            raise IllegalAnalyzerParameterError(msg)

    def _judge(self, history: History, start: int) -> Scores:
        return _threshold(history.values, self.lower_bound, self.upper_bound)


def _threshold(values: Floats, low: float | None, high: float | None) -> Scores:
    lower, upper = (np.full_like(values, np.nan if b is None else b) for b in (low, high))
    return bounded(values, values, _outside(values, low, high), (lower, upper), Reason.BOUND)


def _outside(
    values: Floats, low: float | None, high: float | None
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return masks of values below and above; infinities are outside even without a bound."""
    least = -LARGEST if low is None else max(low, -LARGEST)
    most = LARGEST if high is None else min(high, LARGEST)
    return values < least, values > most


@dataclass(frozen=True, repr=False)
class _Change(Strategy):
    """Base class of detectors with bounds on changes."""

    least_order: ClassVar[int] = 0

    max_rate_decrease: float | None = None
    max_rate_increase: float | None = None
    order: int = 1

    def check_parameters(self) -> None:
        """Validate that there is a bound, bounds are in order, and `order` is large enough."""
        low, high = self.max_rate_decrease, self.max_rate_increase
        if low is None and high is None:
            msg = f"{self!r}: give max_rate_decrease, max_rate_increase or both"
            raise IllegalAnalyzerParameterError(msg)
        if not (-np.inf if low is None else low) <= (np.inf if high is None else high):
            msg = (
                f"{self!r}: max_rate_decrease must not exceed max_rate_increase, nor either be NaN"
            )
            raise IllegalAnalyzerParameterError(msg)
        if self.order < self.least_order:
            msg = f"{self!r}: order must be {self.least_order} or more"
            raise IllegalAnalyzerParameterError(msg)


def _later(values: Floats, by: int) -> Floats:
    """Shift values to later positions; NaN where there are none."""
    moved = np.full_like(values, np.nan)
    moved[:, by:] = values[:, : max(values.shape[1] - by, 0)]
    return moved


@detector
class AbsoluteChange(_Change):
    """Detector of differences from earlier values outside fixed bounds, with the highest score.

    The first points, and those soon after a gap, are not scored: a difference of order n needs the
    n values before. An infinite difference is outside.

    Parameters
    ----------
    max_rate_decrease, max_rate_increase : float, optional
        The least and the greatest difference allowed, both included; at least one is required. A
        decrease is negative.
    order : int
        Order of differencing: 1 is the change, 2 the change of the change. 0 bounds the value
        itself.

    Examples
    --------
    >>> [found.index for found in AbsoluteChange(max_rate_increase=8, order=2).detect([0, 1, 3, 6, 18, 72])]
    [4, 5]
    """

    def _judge(self, history: History, start: int) -> Scores:
        x, low, high = history.values, self.max_rate_decrease, self.max_rate_increase
        if self.order == 0:
            return _threshold(x, low, high)
        now, past = x, training_values(history)
        for _ in range(min(self.order, x.shape[1])):
            before = _later(past, 1)
            now, past = now - before, past - before
        lower, upper = (x - now + (np.nan if bound is None else bound) for bound in (low, high))
        return bounded(x, now, _outside(now, low, high), (lower, upper), Reason.CHANGE)


@detector
class RelativeRateOfChange(_Change):
    """Detector of ratios to an earlier value outside fixed bounds, with the highest score.

    The first points, and those whose earlier value is missing, are not scored. From 0 to 0 is no
    change; from 0 to anything else is infinite, and outside.

    Parameters
    ----------
    max_rate_decrease, max_rate_increase : float, optional
        The least and the greatest ratio allowed, both included; at least one is required. 0.9
        allows a decrease by a tenth.
    order : int
        Lag of the earlier value: 1 is the one before, 7 that of a week ago in daily partitions.

    Examples
    --------
    >>> RelativeRateOfChange(0.5, 2).detect([4, 5, 11])
    [Flagged(index=2, value=11.0, lower=2.5, upper=10.0)]
    """

    least_order: ClassVar[int] = 1

    def _judge(self, history: History, start: int) -> Scores:
        x, low, high = history.values, self.max_rate_decrease, self.max_rate_increase
        before = _later(training_values(history), self.order) + 0.0  # no negative zeros
        still = (x == 0) & (before == 0)
        rate = np.where(still, 1.0, x / before)
        less, more = (flags & ~still for flags in _outside(rate, low, high))
        floor, ceiling = (before * (np.nan if bound is None else bound) for bound in (low, high))
        turned = before < 0
        flags = np.where(turned, more, less), np.where(turned, less, more)
        bounds = np.where(turned, ceiling, floor), np.where(turned, floor, ceiling)
        return bounded(x, rate, flags, bounds, Reason.CHANGE)


@dataclass(frozen=True, repr=False)
class _Normal(Strategy):
    """Base class of detectors with a band of standard deviations around a mean."""

    lower_deviation_factor: float | None = 3.0
    upper_deviation_factor: float | None = 3.0

    def check_parameters(self) -> None:
        """Validate that there is a factor, and all are finite and not negative."""
        given = [factor for factor in self._factors if factor is not None]
        if not given or not all(0 <= factor < np.inf for factor in given):
            msg = (
                f"{self!r}: lower_deviation_factor and upper_deviation_factor are numbers from 0 on;"
                " one of them may be None, for no bound on its side"
            )
            raise IllegalAnalyzerParameterError(msg)

    @property
    def _factors(self) -> tuple[float | None, float | None]:
        return self.lower_deviation_factor, self.upper_deviation_factor


@detector
class OnlineNormal(_Normal):
    """Detector of values outside a running mean and standard deviation (Welford's recurrence).

    As in Deequ, mean and deviation include the tested point, and the deviation is that of the
    population; so a point deviates by at most the square root of its index, and three deviations
    are not exceeded before the eleventh point. A point found outside is removed again; `detect`
    does so inside its interval only. An infinite value is outside as soon as there are others, and
    is excluded from mean and deviation.

    Parameters
    ----------
    lower_deviation_factor, upper_deviation_factor : float, optional
        Half widths of the band, in standard deviations. None is no bound on that side.
    ignore_start_percentage : float
        Share of the values at the start that are not scored, in [0, 1]: in `score` of those up to
        the point, as if it were the newest, so that later points never change a score; in `detect`
        of all.
    ignore_anomalies : bool
        True to exclude values outside the band from mean and deviation.

    Examples
    --------
    >>> values = [10, 10.5, 9.8, 10.2, 30, 10.1, 9.9, -5, 10.3, 10]
    >>> [found.index for found in OnlineNormal(1.5, 1.5, ignore_anomalies=False).detect(values)]
    [4, 7]
    """

    ignore_start_percentage: float = 0.1
    ignore_anomalies: bool = True

    def check_parameters(self) -> None:
        """Validate the factors, and that `ignore_start_percentage` is between 0 and 1."""
        super().check_parameters()
        if not 0 <= self.ignore_start_percentage <= 1:
            msg = f"{self!r}: ignore_start_percentage is a share, from 0 to 1"
            raise IllegalAnalyzerParameterError(msg)

    def _judge(self, history: History, start: int) -> Scores:
        return self._run(history.values, training_values(history))

    def _search(self, values: Floats, first: int, last: int) -> Scores:
        return self._run(values, values, (first, last))

    def _run(self, values: Floats, past: Floats, interval: tuple[int, int] | None = None) -> Scores:
        """Score point by point, all series at once."""
        x, teaches = scale_down(values), np.isfinite(past)
        total = np.isfinite(values).sum(axis=1)
        first, last = interval or (0, x.shape[1])
        mean, root, index = np.zeros((3, len(x)))
        means, deviations, points = (np.full_like(x, np.nan) for _ in range(3))
        for t, value in enumerate(x.T):
            step = np.where(np.isfinite(value), value - mean, 0)
            number = index + np.isfinite(value)
            new_mean = mean + step / (index + 1)
            new_root = np.hypot(root, np.abs(step) * np.sqrt(index / (index + 1)))
            deviation = new_root / np.sqrt(np.maximum(number, 1))
            start = (number if interval is None else total) * self.ignore_start_percentage
            scored = ~np.isnan(value) & (number > 0) & (index >= start) & (first <= t < last)
            lower, upper = band(new_mean, deviation, SAME * np.abs(new_mean), self._factors)
            out = scored & ((value < lower) | (value > upper))
            for kept, now in ((means, new_mean), (deviations, deviation), (points, number)):
                kept[:, t] = np.where(scored, now, np.nan)
            learns = teaches[:, t] & ~(out & self.ignore_anomalies)
            mean, root = np.where(learns, new_mean, mean), np.where(learns, new_root, root)
            index = index + teaches[:, t]
        rounding = SAME * np.abs(means)
        return normal_scores(values, means, deviations, rounding, points, self._factors)


@detector
class BatchNormal(_Normal):
    """Detector of values outside the mean and sample standard deviation of all earlier values.

    `detect` uses all values outside its interval, before and after it. After a single value, or a
    constant, the deviation is 0 and any change beyond rounding error is outside; its score is
    -log10 of 1 / (n + 1) for n values.

    Parameters
    ----------
    lower_deviation_factor, upper_deviation_factor : float, optional
        Half widths of the band, in standard deviations. None is no bound on that side.
    include_interval : bool
        True to include the tested values in mean and deviation.

    Examples
    --------
    >>> [found.index for found in BatchNormal().detect([1, 1, 1, 1000, 500, 1], (3, 5))]
    [3, 4]
    """

    include_interval: bool = False

    def _judge(self, history: History, start: int) -> Scores:
        some = slice(1, None) if self.include_interval else slice(None, -1)
        mean, deviation, points = running_moments(
            scale_down(nan_if_infinite(training_values(history)))
        )
        return self._scores(history.values, mean[:, some], deviation[:, some], points[:, some])

    def _search(self, values: Floats, first: int, last: int) -> Scores:
        outside = nan_if_infinite(values)
        if not self.include_interval:
            outside[:, first:last] = np.nan
        return self._scores(
            values, *(some[:, -1:] for some in running_moments(scale_down(outside)))
        )

    def _scores(self, values: Floats, mean: Floats, deviation: Floats, points: Floats) -> Scores:
        rounding = SAME * np.abs(mean)
        return normal_scores(values, mean, deviation, rounding, points, self._factors)
