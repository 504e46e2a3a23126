"""Novelty detector: values unlike all earlier ones, by nearest-neighbour distance.

A point is novel if its distance to the nearest earlier point is large, compared with these distances of
earlier points. Five distances are used:

1. of the value, after arcsinh(3 x / m), where m is the median of the earlier absolute values;
2. of the value, to values at the same time of earlier days, or on the same weekday if daily;
3. of the last three values, to any three in a row;
4. of the mean of the last 60 values, to earlier means of 60 values that do not overlap it;
5. of the untransformed value.

The first three distances are standardized by mean and standard deviation of their past. The last two are
measured in standard deviations of the value. By Cantelli's inequality the probability of a distance of at
least z is at most 1 / (1 + z**2) for any distribution, so the score is log10(1 + z**2) of the largest z.
Time of day and runs are often novel without being anomalous, so their 1 + z is raised to the power 0.3. If
all n earlier distances were equal, z is the square root of n: the probability is 1 in n + 1. The score
depends on z alone, so one threshold suits series of any kind. The inequality assumes a known mean and
deviation, but they are estimated. For numbers of infinite variance, such as Cauchy's, scores of 3 are
several times as frequent as they should be.

Scores use earlier points only. The scale m and the deviation of the fourth distance are learned from the
first `prefix` points and then fixed, so that a slow change does not shift its own reference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError
from tidegauge.analyzers.core.metric import Scale
from tidegauge.repository.detectors.base import Detector, History, Reason, Scores, detector
from tidegauge.repository.numerics.arrays import (
    DAILY_CYCLE,
    MAX_SCORE,
    MIN_Z_POINTS,
    WEEKLY_CYCLE,
    RunningMoments,
    SeasonalRanges,
    nearest_run,
    neighbours,
    running_absolute_medians,
)
from tidegauge.repository.numerics.grid import Grid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.repository.numerics.arrays import Floats

WEAKENING_EXPONENT = 0.3
"""Exponent for distances that are often novel without being anomalous."""
SLOW_WINDOW_POINTS = 60
"""Length of the slow mean."""
QUIET_DAYS = 14
"""Maximum of `Novelty.quiet` for daily partitions: two weeks."""
MAX_MAGNITUDE = 1e100
"""Values are clipped to this magnitude, so that their squares are finite."""


@detector
class Novelty(Detector):
    """Novelty detector by nearest-neighbour distance to all earlier values; see the module.

    If several novel points are close together, only the first and more novel points are reported. All other
    points score 0. Distances (PSI and similar) also score 0 if they are smaller than the nearest earlier
    value. The first 15 values of a series are not scored. Missing and infinite values are neither scored nor
    used for training. A restart discards the earlier values of a series.

    The expected value is the nearest earlier value, and the band is the range of all earlier values. If a
    value is novel within that range, the band is the part of the range on the nearest value's side. If a
    value is novel only for its time of day or weekday, expected value and band refer to that time or weekday.

    The default rule, ``Threshold(2.0)``, suits many series: on daily histories of tables it raises half a
    false alarm per thousand values. A lower threshold suits a single long series of minutes: on half of the
    files of the Numenta Anomaly Benchmark ``Threshold(0.57)`` scores 77 and the default 35. But in tables it
    raises nineteen false alarms per thousand values.

    Parameters
    ----------
    components : {"all", "value"}
        Distances to use; "value" uses only the first distance and takes a sixth of the time.
    quiet : int
        A score is reported if it exceeds the scores of this many earlier points; at most 14 for daily
        partitions.
    prefix : int
        Number of first points from which the scale is learned.

    Examples
    --------
    >>> values = np.array([[100.0, 101, 99, 102, 98] * 8 + [60, 100, 61]])
    >>> days = np.arange(values.size).astype("M8[D]").astype("M8[s]")
    >>> scores = Novelty().score(History(days, values, values, [Scale.SIGNED]))
    >>> np.flatnonzero(scores.score[0] > 1)
    array([40])
    >>> np.stack([scores.expected, scores.lower, scores.upper])[:, 0, 40]
    array([ 98.,  98., 102.])
    """

    min_points: ClassVar[int] = MIN_Z_POINTS + 2
    rule: ClassVar[str] = "Threshold(2.0)"

    components: str = "all"
    quiet: int = 100
    prefix: int = 600

    def check_parameters(self) -> None:
        """Validate that `components` is known, and that `quiet` and `prefix` are at least 1."""
        if self.components not in {"all", "value"}:
            msg = f"{self!r}: components must be 'all' or 'value'"
            raise IllegalAnalyzerParameterError(msg)
        if min(self.quiet, self.prefix) < 1:
            msg = f"{self!r}: quiet and prefix must be at least 1"
            raise IllegalAnalyzerParameterError(msg)

    def score(
        self, history: History, start: int = 0, earlier_scores: Scores | None = None
    ) -> Scores:
        """Score series by series; ``earlier_scores`` is ignored, because it lacks the distances."""
        scores = Scores.unscored(history.values.shape)
        weekly = (history.grid or Grid.from_times(history.times)).daily
        usable = np.isfinite(history.values)
        with np.errstate(all="ignore"):
            for i in range(len(usable)):
                is_restart = np.zeros(len(history.times), bool)
                if history.restarts is not None:
                    is_restart = history.restarts[i]
                for part in np.split(np.arange(len(is_restart)), np.flatnonzero(is_restart)):
                    indices = part[usable[i, part]]
                    if len(indices) >= self.min_points:
                        self._score(history, scores, i, indices, weekly=weekly)
        return scores.since(start)

    def _score(
        self, history: History, scores: Scores, i: int, indices: NDArray[np.intp], *, weekly: bool
    ) -> None:
        values = history.values[i, indices]
        is_training = np.full(len(indices), fill_value=True)
        if history.muted is not None:
            is_training = ~history.muted[i, indices]
        statistics = _SeriesStatistics(values, np.where(is_training, values, np.nan))
        z = statistics.value(self.prefix)
        season, seasonal = None, np.zeros(len(indices), dtype=bool)
        if self.components == "all":
            season = SeasonalRanges.from_times(
                history.times[indices], WEEKLY_CYCLE if weekly else DAILY_CYCLE
            )
            of_season = statistics.season(season)
            other_distances = (
                weakened(statistics.run()),
                statistics.slow(self.prefix),
                statistics.plain(),
            )
            z = np.maximum.reduce([z, *other_distances])
            of_season = of_season if weekly else weakened(of_season)
            is_within_range = (statistics.lowest <= statistics.values) & (
                statistics.values <= statistics.highest
            )
            seasonal = is_within_range & (of_season > z)
            z = np.maximum(z, of_season)
        if history.scales[i] is Scale.DISTANCE:
            z = np.where(values > statistics.expected, z, 0.0)
        quiet_points = min(self.quiet, QUIET_DAYS) if weekly else self.quiet
        z = np.where(exceeds_recent(z, is_training, quiet_points), z, 0.0)
        bounds = np.stack([statistics.expected, statistics.lowest, statistics.highest])
        for j in np.flatnonzero(z):
            reference_values = (
                season.comparable_values(int(j), statistics.training_values)
                if season and seasonal[j]
                else statistics.training_values[:j]
            )
            bounds[:, j] = side(statistics.values[j], reference_values)
        is_scored = statistics.past.count > MIN_Z_POINTS
        indices = indices[is_scored]
        scores.score[i, indices] = cantelli(z[is_scored])
        scores.reason[i, indices] = np.where(
            scores.score[i, indices] >= 1, Reason.NOVELTY, Reason.NONE
        )
        result_arrays = (scores.expected, scores.lower, scores.upper)
        for array, bound in zip(result_arrays, bounds[:, is_scored], strict=True):
            array[i, indices] = bound


def weakened(z: Floats) -> Floats:
    """Compress the z-values of a distance that is often large: (1 + z) ** 0.3 - 1."""
    compressed: Floats = np.expm1(WEAKENING_EXPONENT * np.log1p(z))
    return compressed


def cantelli(z: Floats) -> Floats:
    """Return -log10 of Cantelli's bound of the probability of z standard deviations above the mean.

    Examples
    --------
    >>> cantelli(np.array([0.0, 3.0]))
    array([0., 1.])
    """
    score: Floats = np.minimum(
        np.log1p(np.square(np.clip(z, 0, MAX_MAGNITUDE))) / np.log(10), MAX_SCORE
    )
    return score


def exceeds_recent(
    scores: Floats, is_training: NDArray[np.bool_], window: int
) -> NDArray[np.bool_]:
    """Return a mask of scores above all training scores of the preceding ``window`` points.

    Examples
    --------
    >>> exceeds_recent(np.array([1.0, 3, 2, 2, 4]), np.full(5, True), 2)
    array([ True,  True, False, False,  True])
    """
    training_scores = np.where(is_training, scores, -np.inf)[:-1]
    padded = np.concatenate([np.full(window, -np.inf), training_scores])
    exceeds: NDArray[np.bool_] = scores > sliding_window_view(padded, window).max(axis=1)
    return exceeds


def side(value: float, earlier_values: Floats) -> tuple[float, float, float]:
    """Return the nearest earlier value, and the range of all earlier values or of those on its side.

    Examples
    --------
    >>> seen = np.array([1.0, 2, 3, 9, 10])
    >>> side(5, seen), side(20, seen)
    ((3.0, 1.0, 3.0), (10.0, 1.0, 10.0))
    """
    lower, upper = float(np.nanmin(earlier_values)), float(np.nanmax(earlier_values))
    nearest = float(earlier_values[np.nanargmin(np.abs(earlier_values - value))])
    if nearest < value < upper:
        upper = nearest
    elif lower < value < nearest:
        lower = nearest
    return nearest, lower, upper


class _SeriesStatistics:
    """Series without missing values, with statistics of the values before each point.

    Attributes
    ----------
    training_values : array
        The values; NaN for points that are excluded from training.
    expected, lowest, highest : array
        The nearest, the lowest and the highest earlier value.
    past : RunningMoments
        Running statistics of the values.
    """

    def __init__(self, values: Floats, training_values: Floats) -> None:
        self.values, self.training_values = (
            np.clip(values, -MAX_MAGNITUDE, MAX_MAGNITUDE),
            np.clip(training_values, -MAX_MAGNITUDE, MAX_MAGNITUDE),
        )
        self.below, self.above = neighbours(self.values, self.training_values)
        is_below_nearer = self.values - self.below < self.above - self.values
        self.expected = np.where(is_below_nearer | np.isnan(self.above), self.below, self.above)
        earlier_values = np.concatenate([[np.nan], self.training_values[:-1]])
        self.lowest, self.highest = (
            np.fmin.accumulate(earlier_values),
            np.fmax.accumulate(earlier_values),
        )
        self.past = RunningMoments.from_values(self.training_values)
        self.size = RunningMoments.from_values(np.abs(self.training_values)).mean

    def value(self, prefix: int) -> Floats:
        """Return the z of the value's distance, after arcsinh(3 x / m)."""
        m = running_absolute_medians(self.training_values, prefix)
        m = np.where(m > 0, m, np.where(self.size > 0, self.size, 1.0))
        below, y, above = (np.arcsinh(3 * x / m) for x in (self.below, self.values, self.above))
        return self._z(np.fmin(y - below, above - y), np.ones_like(y))

    def season(self, season: SeasonalRanges) -> Floats:
        """Return the z of the value's distance to values at the same time of day or on the same weekday."""
        return self._z(season.nearest(self.values, self.training_values), self.size)

    def run(self) -> Floats:
        """Return the z of the last three values' distance to earlier runs."""
        return self._z(nearest_run(self.values, self.training_values), self.size)

    def slow(self, prefix: int) -> Floats:
        """Return the slow mean's distance, in standard deviations of the first `prefix` values."""
        count = len(self.values)
        if count < SLOW_WINDOW_POINTS:
            return np.zeros(count)
        means, training_means = (
            sliding_window_view(x, SLOW_WINDOW_POINTS).mean(axis=1)
            for x in (self.values, self.training_values)
        )
        below, above = neighbours(means, training_means, SLOW_WINDOW_POINTS)
        distance = np.full(count, np.nan)
        distance[SLOW_WINDOW_POINTS - 1 :] = np.fmin(means - below, above - means)
        last_learned = np.minimum(np.arange(count), np.searchsorted(self.past.count, prefix))
        return RunningMoments(self.past.count, np.zeros(count), self.past.sd[last_learned]).z(
            distance, self.size
        )

    def plain(self) -> Floats:
        """Return the value's distance, in standard deviations of all earlier values."""
        past = RunningMoments(self.past.count, np.zeros_like(self.size), self.past.sd)
        return past.z(np.abs(self.values - self.expected), self.size)

    def _z(self, distance: Floats, unit: Floats) -> Floats:
        return RunningMoments.from_values(
            np.where(np.isnan(self.training_values), np.nan, distance)
        ).z(distance, unit)
