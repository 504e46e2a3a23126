"""Deequ's anomaly detection strategies, with Deequ's semantics and known defects fixed.

These defects are fixed: a gap keeps its position; a change after a constant series is not certain to be an
anomaly; the band of `HoltWinters` follows from its errors, not from their absolute values; later points never
change a score.

`Strategy.score` scores each point from earlier points. `Strategy.detect` searches an interval of
one series with Deequ's semantics. Helpers turn bands into scores. Levels and deviations are computed
on a reduced scale to prevent overflow. `HoltWinters` is Deequ's seasonal strategy: exponential
smoothing of many series.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError
from tidegauge.repository.detectors.base import Detector, History, Reason, Scores, detector
from tidegauge.repository.numerics.arrays import MAX_SCORE
from tidegauge.repository.numerics.forecasts import holt_winters_forecasts
from tidegauge.repository.numerics.grid import Grid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import ArrayLike, NDArray

    from tidegauge.repository.numerics.arrays import Floats

    Factors = tuple[float | None, float | None]

RELATIVE_ROUNDING = 1e-12
"""Relative tolerance of equal numbers: larger than the rounding errors of sums."""
SCALE_EXPONENT = 64
"""Values are divided by 2**64, so that sums and differences stay finite."""


@dataclass(frozen=True)
class Flagged:
    """An anomaly found by `Strategy.detect`.

    Attributes
    ----------
    index : int
        Position in the series.
    value : float
        The value.
    lower, upper : float
        Allowed range, including its bounds; NaN without a bound.
    """

    index: int
    value: float
    lower: float
    upper: float


@dataclass(frozen=True, repr=False)
class Strategy(Detector):
    """Base class of detectors that can also search an interval of one series.

    Missing values (NaN) keep their position, where Deequ closes the gap; they are neither scored
    nor used for training. Muted points are scored, but not used for training; values before a
    restart are discarded.
    """

    def score(
        self, history: History, start: int = 0, earlier_scores: Scores | None = None
    ) -> Scores:
        """Score each point from partition `start` on, from earlier points; see `Detector.score`."""
        with np.errstate(all="ignore"):
            scores = self._judge(history, start)
            if history.restarts is not None:
                scores = self._apply_restarts(history, history.restarts, start, scores)
        return scores.since(start)

    def detect(self, values: ArrayLike, interval: tuple[int, int] | None = None) -> list[Flagged]:
        """Search an interval of one series, as Deequ does.

        Parameters
        ----------
        values : sequence of float
            NaN is a missing value. It keeps its position and is never flagged.
        interval : tuple of int, optional
            Half-open index range (start, end); the whole searchable series if not given. It may
            extend beyond the series.

        Returns
        -------
        list of Flagged
            Empty if there are too few values to compare with, where Deequ throws.

        Raises
        ------
        IllegalAnalyzerParameterError
            If the interval ends before it starts, or starts below zero.
        """
        x = np.array(values, dtype=float).reshape(1, -1)
        first, last = interval or (min(self._earliest, x.size), x.size)
        if not 0 <= first <= last:
            msg = f"{self!r}: an interval is (start, end) with 0 <= start <= end, not {interval!r}"
            raise IllegalAnalyzerParameterError(msg)
        with np.errstate(all="ignore"):
            scores = self._search(x, min(first, x.size), min(last, x.size))
        flagged = np.flatnonzero(scores.reason[0, :last] != Reason.NONE)
        columns = (x, scores.lower, scores.upper)
        return [Flagged(int(i), *(float(c[0, i]) for c in columns)) for i in flagged if i >= first]

    @property
    def _earliest(self) -> int:
        """Default start of the searched interval."""
        return 0

    @abstractmethod
    def _judge(self, history: History, start: int) -> Scores:
        """Score all partitions; scores before ``start`` are discarded and may be anything."""

    def _search(self, values: Floats, first: int, last: int) -> Scores:
        """Score an interval of one series; by default as `_judge`."""
        nowhen = np.full(values.size, "NaT", "M8[s]")
        return self._judge(History(nowhen, values, np.full_like(values, np.nan), []), first)

    def _apply_restarts(
        self, history: History, restarts: NDArray[np.bool_], start: int, scores: Scores
    ) -> Scores:
        era = np.cumsum(restarts, axis=1)
        for k in range(1, int(era.max(initial=0)) + 1):
            since = replace(history, values=np.where(era >= k, history.values, np.nan))
            scores = _choose(era == k, self._judge(since, start), scores)
        return _choose(restarts, Scores.unscored(restarts.shape), scores)


def _choose(mask: NDArray[np.bool_], selected: Scores, remaining: Scores) -> Scores:
    pairs = ((getattr(selected, f.name), getattr(remaining, f.name)) for f in fields(Scores))
    return Scores(*(np.where(mask, a, b) for a, b in pairs))


def training_values(history: History) -> Floats:
    """Return the values used for training: NaN where a point is muted."""
    if history.muted is None:
        return history.values
    return np.where(history.muted, np.nan, history.values)


def scale_down(values: Floats) -> Floats:
    """Divide values by 2**SCALE_EXPONENT, for levels and deviations that do not overflow."""
    return np.ldexp(values, -SCALE_EXPONENT)


def nan_if_infinite(values: Floats) -> Floats:
    """Replace infinities by NaN."""
    return np.where(np.isfinite(values), values, np.nan)


def running_moments(values: Floats) -> tuple[Floats, Floats, Floats]:
    """Return running mean, sample standard deviation and count of the values before each point.

    The last column describes all values.

    Parameters
    ----------
    values : array of float, shape (series, points)
        NaN where missing. On the scale of `scale_down`.

    Returns
    -------
    tuple of array of float, shape (series, points + 1)
        Mean and deviation are NaN without earlier values. The deviation of one value is 0.

    Examples
    --------
    >>> mean, deviation, number = running_moments(np.array([[1.0, np.nan, 3.0]]))
    >>> mean.tolist(), deviation.round(3).tolist(), number.tolist()
    ([[nan, 1.0, 1.0, 2.0]], [[nan, 0.0, 0.0, 1.414]], [[0.0, 1.0, 1.0, 2.0]])
    """
    mean, root, number = np.zeros((3, len(values)))
    columns = [(mean, root, number)]
    for column in values.T:
        step = np.nan_to_num(column - mean)
        root = np.hypot(root, np.abs(step) * np.sqrt(number / (number + 1)))
        mean = mean + step / (number + 1)
        number = number + ~np.isnan(column)
        columns.append((mean, root, number))
    means, roots, numbers = (
        np.stack(column_values, axis=1) for column_values in zip(*columns, strict=True)
    )
    means[numbers == 0] = np.nan
    roots[numbers == 0] = np.nan
    return means, roots / np.sqrt(np.maximum(numbers - 1, 1)), numbers


def band(
    mean: Floats, deviation: Floats, rounding: Floats, factors: Factors
) -> tuple[Floats, Floats]:
    """Return the band: mean plus or minus factor * deviation + rounding; NaN without a factor."""
    low, high = (np.nan if factor is None else factor for factor in factors)
    return mean - (low * deviation + rounding), mean + (high * deviation + rounding)


def normal_scores(
    values: Floats,
    mean: Floats,
    deviation: Floats,
    rounding: Floats,
    points: Floats,
    factors: Factors,
) -> Scores:
    """Return scores by the two-sided tail of the normal distribution.

    After equal points the deviation is 0, so it does not show which distances are likely. A different value
    then has a probability of 1 in points + 1: the probability that only the last of these points differs.

    Parameters
    ----------
    values : array of float, shape (series, partitions)
    mean, deviation, rounding : array of float, shape (series, partitions)
        Expected value, standard deviation, and rounding error; NaN where unknown.
        On the scale of `scale_down`.
    points : array of float, shape (series, partitions)
        Number of earlier points.
    factors : tuple of float or None
        Half widths of the band below and above, in deviations.
    """
    from scipy import special  # slow to import

    lower, upper = band(mean, deviation, rounding, factors)
    scaled = scale_down(values)
    below, above = scaled < lower, scaled > upper
    distance = np.abs(scaled - mean)
    score = -(special.log_ndtr(-distance / deviation) + np.log(2)) / np.log(10)
    changed = np.where(distance > rounding, np.log10(points + 1), 0)
    score = np.where(deviation <= rounding, changed, score)
    score = np.where(np.isfinite(distance), score, np.where(np.isnan(distance), np.nan, MAX_SCORE))
    unwatched = np.isnan(np.where(scaled < mean, lower, upper)) & ~np.isnan(score)
    score = np.where(unwatched, 0, np.clip(score, 0, MAX_SCORE))
    restored = (np.ldexp(bound, SCALE_EXPONENT) for bound in (mean, lower, upper))
    return scores_from_flags(below, above, score, Reason.LEVEL, values, *restored)


def bounded(
    values: Floats,
    change: Floats,
    flags: tuple[NDArray[np.bool_], NDArray[np.bool_]],
    bounds: tuple[Floats, Floats],
    reason: Reason,
) -> Scores:
    """Return the highest score outside fixed bounds, 0 inside, and NaN where `change` is NaN."""
    below, above = flags
    score = np.where(np.isnan(change), np.nan, np.where(below | above, MAX_SCORE, 0.0))
    return scores_from_flags(
        below, above, score, reason, values, np.full_like(values, np.nan), *bounds
    )


def scores_from_flags(
    below: NDArray[np.bool_],
    above: NDArray[np.bool_],
    score: Floats,
    reason: Reason,
    values: Floats,
    expected: Floats,
    lower: Floats,
    upper: Floats,
) -> Scores:
    """Build scores whose bounds agree exactly with the flags below and above.

    If the score is NaN, the point is not scored and all other fields are empty.
    """
    scored = ~np.isnan(score)
    lower = np.where(below, np.fmax(lower, np.nextafter(values, np.inf)), np.minimum(lower, values))
    upper = np.where(
        above, np.fmin(upper, np.nextafter(values, -np.inf)), np.maximum(upper, values)
    )
    lower = np.where(scored & (lower > -np.inf), lower, np.nan)
    upper = np.where(scored & (upper < np.inf), upper, np.nan)
    reasons = np.where(scored & (below | above), reason, Reason.NONE).astype(np.uint8)
    return Scores(score, np.where(scored, expected, np.nan), lower, upper, reasons)


MAX_FLOAT = float(np.finfo(np.float64).max)


@detector
class SimpleThreshold(Strategy):
    """Detector of values outside fixed bounds: the highest score outside, 0 inside.

    Infinite values are outside.

    Parameters
    ----------
    upper_bound, lower_bound : float
        Allowed range, including its bounds, in the metric's unit.

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
    lower = -MAX_FLOAT if low is None else max(low, -MAX_FLOAT)
    upper = MAX_FLOAT if high is None else min(high, MAX_FLOAT)
    return values < lower, values > upper


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
                f"{self!r}: max_rate_decrease must not exceed max_rate_increase,"
                " and neither may be NaN"
            )
            raise IllegalAnalyzerParameterError(msg)
        if self.order < self.least_order:
            msg = f"{self!r}: order must be {self.least_order} or more"
            raise IllegalAnalyzerParameterError(msg)


def _later(values: Floats, offset: int) -> Floats:
    """Shift values to later positions; NaN where there are none."""
    shifted = np.full_like(values, np.nan)
    shifted[:, offset:] = values[:, : max(values.shape[1] - offset, 0)]
    return shifted


@detector
class AbsoluteChange(_Change):
    """Detector of differences from earlier values outside fixed bounds, with the highest score.

    The first points and the points soon after a gap are not scored: a difference of order n needs the n
    values before. An infinite difference is outside.

    Parameters
    ----------
    max_rate_decrease, max_rate_increase : float, optional
        Smallest and largest allowed difference, both included; at least one is required. A decrease is
        negative.
    order : int
        Order of differencing: 1 for the change, 2 for the change of the change, 0 for the value itself.

    Examples
    --------
    >>> [point.index for point in AbsoluteChange(max_rate_increase=8, order=2).detect([0, 1, 3, 6, 18, 72])]
    [4, 5]
    """

    def _judge(self, history: History, start: int) -> Scores:
        x, low, high = history.values, self.max_rate_decrease, self.max_rate_increase
        if self.order == 0:
            return _threshold(x, low, high)
        now, past = x, training_values(history)
        for _ in range(min(self.order, x.shape[1])):
            previous = _later(past, 1)
            now, past = now - previous, past - previous
        lower, upper = (x - now + (np.nan if bound is None else bound) for bound in (low, high))
        return bounded(x, now, _outside(now, low, high), (lower, upper), Reason.CHANGE)


@detector
class RelativeRateOfChange(_Change):
    """Detector of ratios to an earlier value outside fixed bounds, with the highest score.

    The first points, and points whose earlier value is missing, are not scored. A step from 0 to 0 is not
    a change. A step from 0 to any other value is infinite, and outside.

    Parameters
    ----------
    max_rate_decrease, max_rate_increase : float, optional
        Smallest and largest allowed ratio, both included; at least one is required. 0.9 allows a
        decrease by a tenth.
    order : int
        Lag of the earlier value: 1 for the previous value, 7 for the value a week ago in daily partitions.

    Examples
    --------
    >>> RelativeRateOfChange(0.5, 2).detect([4, 5, 11])
    [Flagged(index=2, value=11.0, lower=2.5, upper=10.0)]
    """

    least_order: ClassVar[int] = 1

    def _judge(self, history: History, start: int) -> Scores:
        x, low, high = history.values, self.max_rate_decrease, self.max_rate_increase
        previous = _later(training_values(history), self.order) + 0.0  # no negative zeros
        is_unchanged = (x == 0) & (previous == 0)
        rate = np.where(is_unchanged, 1.0, x / previous)
        below, above = (flags & ~is_unchanged for flags in _outside(rate, low, high))
        floor, ceiling = (previous * (np.nan if bound is None else bound) for bound in (low, high))
        is_negative = previous < 0
        flags = np.where(is_negative, above, below), np.where(is_negative, below, above)
        bounds = np.where(is_negative, ceiling, floor), np.where(is_negative, floor, ceiling)
        return bounded(x, rate, flags, bounds, Reason.CHANGE)


@dataclass(frozen=True, repr=False)
class _Normal(Strategy):
    """Base class of detectors with a band of standard deviations around a mean."""

    lower_deviation_factor: float | None = 3.0
    upper_deviation_factor: float | None = 3.0

    def check_parameters(self) -> None:
        """Validate that there is a factor, and all are finite and not negative."""
        factors = [factor for factor in self._factors if factor is not None]
        if not factors or not all(0 <= factor < np.inf for factor in factors):
            msg = (
                f"{self!r}: lower_deviation_factor and upper_deviation_factor must be finite numbers"
                " of at least 0; one of them may be None, which removes its bound"
            )
            raise IllegalAnalyzerParameterError(msg)

    @property
    def _factors(self) -> tuple[float | None, float | None]:
        return self.lower_deviation_factor, self.upper_deviation_factor


@detector
class OnlineNormal(_Normal):
    """Detector of values outside a running mean and standard deviation (Welford's recurrence).

    As in Deequ, mean and deviation include the tested point, and the deviation is the population standard
    deviation. So a point deviates by at most the square root of its index, and three deviations are not
    exceeded before the eleventh point. Points outside the band are removed again; `detect` removes them only
    inside its interval. An infinite value is outside if there are earlier values. It is excluded from mean
    and deviation.

    Parameters
    ----------
    lower_deviation_factor, upper_deviation_factor : float, optional
        Half widths of the band, in standard deviations; None for no bound on that side.
    ignore_start_percentage : float
        Share of values at the start that are not scored, in [0, 1]. `detect` takes the share of all
        values; `score` takes the share of the values up to each point, so that later points never
        change a score.
    ignore_anomalies : bool
        True to exclude values outside the band from mean and deviation.

    Examples
    --------
    >>> values = [10, 10.5, 9.8, 10.2, 30, 10.1, 9.9, -5, 10.3, 10]
    >>> [point.index for point in OnlineNormal(1.5, 1.5, ignore_anomalies=False).detect(values)]
    [4, 7]
    """

    ignore_start_percentage: float = 0.1
    ignore_anomalies: bool = True

    def check_parameters(self) -> None:
        """Validate the factors, and that `ignore_start_percentage` is between 0 and 1."""
        super().check_parameters()
        if not 0 <= self.ignore_start_percentage <= 1:
            msg = f"{self!r}: ignore_start_percentage must be a share between 0 and 1"
            raise IllegalAnalyzerParameterError(msg)

    def _judge(self, history: History, start: int) -> Scores:
        return self._run(history.values, training_values(history))

    def _search(self, values: Floats, first: int, last: int) -> Scores:
        return self._run(values, values, (first, last))

    def _run(self, values: Floats, past: Floats, interval: tuple[int, int] | None = None) -> Scores:
        """Score point by point, all series at once."""
        x, is_training = scale_down(values), np.isfinite(past)
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
            lower, upper = band(
                new_mean, deviation, RELATIVE_ROUNDING * np.abs(new_mean), self._factors
            )
            is_outside = scored & ((value < lower) | (value > upper))
            for result, new in ((means, new_mean), (deviations, deviation), (points, number)):
                result[:, t] = np.where(scored, new, np.nan)
            is_learned = is_training[:, t] & ~(is_outside & self.ignore_anomalies)
            mean, root = np.where(is_learned, new_mean, mean), np.where(is_learned, new_root, root)
            index = index + is_training[:, t]
        rounding = RELATIVE_ROUNDING * np.abs(means)
        return normal_scores(values, means, deviations, rounding, points, self._factors)


@detector
class BatchNormal(_Normal):
    """Detector of values outside the mean and sample standard deviation of all earlier values.

    `detect` uses all values outside its interval, before and after it. After a single value or a constant,
    the deviation is 0 and any change beyond rounding error is outside. Its score is -log10 of 1 / (n + 1)
    for n values.

    Parameters
    ----------
    lower_deviation_factor, upper_deviation_factor : float, optional
        Half widths of the band, in standard deviations; None for no bound on that side.
    include_interval : bool
        True to include the tested values in mean and deviation.

    Examples
    --------
    >>> [point.index for point in BatchNormal().detect([1, 1, 1, 1000, 500, 1], (3, 5))]
    [3, 4]
    """

    include_interval: bool = False

    def _judge(self, history: History, start: int) -> Scores:
        columns = slice(1, None) if self.include_interval else slice(None, -1)
        mean, deviation, points = running_moments(
            scale_down(nan_if_infinite(training_values(history)))
        )
        return self._scores(
            history.values, mean[:, columns], deviation[:, columns], points[:, columns]
        )

    def _search(self, values: Floats, first: int, last: int) -> Scores:
        outside = nan_if_infinite(values)
        if not self.include_interval:
            outside[:, first:last] = np.nan
        return self._scores(
            values, *(moment[:, -1:] for moment in running_moments(scale_down(outside)))
        )

    def _scores(self, values: Floats, mean: Floats, deviation: Floats, points: Floats) -> Scores:
        rounding = RELATIVE_ROUNDING * np.abs(mean)
        return normal_scores(values, mean, deviation, rounding, points, self._factors)


REFIT_DIVISOR = 5
"""Parameters are refitted when the past has grown by a fifth, because fits are slow."""


@detector
class HoltWinters(Strategy):
    """Additive Holt-Winters smoothing, with a band of standard deviations of its forecast errors.

    Level, trend and season are initialized as in Deequ, from the first two cycles. The smoothing parameters
    are fitted by least squares to all earlier values. They are refitted when the past has grown by a fifth,
    and at most once per cycle. Missing and infinite values are gaps: forecasts continue through them, and
    the season keeps its phase. If partitions are days or hours and the period is whole weeks or days,
    missing partitions are also gaps. Points are scored once two cycles of values are known.

    `detect` fits to all values before its interval and forecasts the whole interval from there.

    Parameters
    ----------
    period : int
        Points per cycle: 7 for days in a week, 12 for months in a year, 24 for hours in a day.
    deviation_factor : float
        Half width of the band, in standard deviations of the errors. Deequ's default flags one
        point in twenty.

    Examples
    --------
    >>> week = [1, 1, 1.2, 1.3, 1.5, 2.1, 1.9]
    >>> [point.index for point in HoltWinters(7).detect([*week, *week, 0.0])]
    [14]
    """

    min_points: ClassVar[int] = 5

    period: int = 7
    deviation_factor: float = 1.96

    def check_parameters(self) -> None:
        """Validate that the period is at least 2 and the factor finite and not negative."""
        if self.period < 2:
            msg = f"{self!r}: period must be 2 or more: the points of a cycle"
            raise IllegalAnalyzerParameterError(msg)
        if not 0 <= self.deviation_factor < np.inf:
            msg = f"{self!r}: deviation_factor must be a finite number of at least 0"
            raise IllegalAnalyzerParameterError(msg)

    @property
    def _earliest(self) -> int:
        return 2 * self.period

    def _judge(self, history: History, start: int) -> Scores:
        x = scale_down(nan_if_infinite(training_values(history)))
        if start >= x.shape[1] or not x.size:
            return Scores.unscored(x.shape)
        column = self._columns(history.times)
        first_column = column[(~np.isnan(x)).argmax(axis=1)]
        position = column - first_column[:, None]
        series, points = np.nonzero(position >= 0)
        past = np.full((len(x), int(column[-1]) + 1), np.nan)
        past[series, position[series, points]] = x[series, points]
        model = np.full((4, *x.shape), np.nan)
        fitted = self._model(past, self._fits(past.shape[1]), position[:, start])
        model[:, series, points] = fitted[:, series, position[series, points]]
        return self._scores(history.values, model)

    def _search(self, values: Floats, first: int, last: int) -> Scores:
        if first < self._earliest:
            return Scores.unscored(values.shape)
        x = scale_down(nan_if_infinite(values))
        x[:, first:] = np.nan
        lead = int((~np.isnan(x)).argmax())
        model = np.full((4, *x.shape), np.nan)
        fits = [(first - lead, last - lead)]
        model[:, :, lead:last] = self._model(x[:, lead:last], fits, np.array([0]))
        return self._scores(values, model)

    def _scores(self, values: Floats, model: Floats) -> Scores:
        factors = self.deviation_factor, self.deviation_factor
        mean, deviation, rounding, points = model
        return normal_scores(values, mean, deviation, rounding, points, factors)

    def _columns(self, times: NDArray[np.datetime64]) -> NDArray[np.intp]:
        """Return grid columns if the period is a multiple of the grid's, else consecutive ones."""
        grid = Grid.from_times(times)
        is_multiple = grid.period > 1 and self.period % grid.period == 0
        return grid.column if is_multiple else np.arange(len(times))

    def _fits(self, size: int) -> Iterator[tuple[int, int]]:
        """Yield index ranges that are forecast with parameters fitted to all points before them."""
        begin = self._earliest
        while begin < size:
            end = begin + self.period * max(1, begin // (REFIT_DIVISOR * self.period))
            yield begin, min(end, size)
            begin = end

    def _model(
        self, past: Floats, fits: Iterable[tuple[int, int]], start: NDArray[np.intp]
    ) -> Floats:
        """Return forecast, deviation, rounding error and number of earlier errors, of each point.

        Parameters
        ----------
        past : array of float, shape (series, points)
            Values; each series begins with its first known value.
        fits : iterable of tuple of int
            Index ranges as from `_fits`.
        start : array of int, shape (series,)
            First index of each series that is needed; earlier ranges are skipped.
        """
        model = np.full((4, *past.shape), np.nan)
        known_count = np.cumsum(~np.isnan(past), axis=1)
        largest = np.fmax.accumulate(np.abs(past), axis=1)
        for begin, end in fits:
            has_enough = known_count[:, begin - 1] >= self._earliest
            rows = np.flatnonzero(has_enough & (start < end))
            if not rows.size:
                continue
            forecast = holt_winters_forecasts(past[rows, :end], begin, self.period)
            _, deviation, points = running_moments(past[rows, :end] - forecast)
            rounding = RELATIVE_ROUNDING * largest[rows, begin - 1 : end - 1]
            forecast_range = slice(begin, end)
            model[:, rows, forecast_range] = (
                forecast[:, forecast_range],
                deviation[:, forecast_range],
                rounding,
                points[:, forecast_range],
            )
        return model
