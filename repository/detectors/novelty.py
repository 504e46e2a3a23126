"""Novelty detector: values unlike all earlier ones, by nearest-neighbour distance.

A point is novel if it is far from the nearest of all earlier points, compared with the earlier
points' own such distances. Five distances are used (`nearest`):

1. of the value, after arcsinh(3 x / m), where m is the median of the earlier absolute values;
2. of the value, to those at the same time of earlier days, or on the same weekday if daily;
3. of the last three values, to any three in a row;
4. of the mean of the last 60 values, to earlier such means that share no value with it;
5. of the untransformed value.

The first three are standardized by mean and standard deviation of their own past, the last two are
in standard deviations of the value. By Cantelli's inequality the probability of a distance of z or
more is at most 1 / (1 + z**2) for any distribution, so the score is log10(1 + z**2) of the largest
z. Time of day and runs are often novel without being anomalous; their 1 + z is raised to the power
0.3. Where all earlier distances were equal, z is the square root of their number: the probability
is 1 in n + 1. The score depends on z alone, so one threshold serves series of any kind. The
inequality assumes known mean and deviation, and here they are estimated: for numbers of infinite
variance, such as Cauchy's, scores of 3 are several times as frequent as they should be.

Nothing looks ahead. The scale m and the deviation of the fourth distance are learned from the
points so far, until `prefix` of them are known; then they are fixed, so that a slow change does not
shift its own reference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError
from tidegauge.analyzers.core.metric import Scale
from tidegauge.repository.detectors.base import Detector, History, Reason, Scores, detector
from tidegauge.repository.numerics.arrays import (
    CAP,
    DAYS,
    WARM,
    WEEKS,
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

OFTEN = 0.3
"""Exponent that weakens distances which are often novel."""
SLOW = 60
"""Window of the slow mean, in points."""
QUIET_DAYS = 14
"""Maximum of `Novelty.quiet` for daily partitions."""
HUGE = 1e100
"""Magnitude to which values are clipped, so that their squares are finite."""


@detector
class Novelty(Detector):
    """Novelty detector by nearest-neighbour distance to all earlier values; see the module.

    Of several novel points near each other only the first is reported, and those more novel than
    it. All others score 0, and so do distances (PSI and similar) smaller than earlier ones. The
    first 15 values of a series are not scored, nor are missing and infinite values, which are
    excluded from training. A restart discards the earlier values of a series.

    The expected value is the nearest earlier value, and the band is the range of all earlier
    values; if a value is novel within that range, the band is the part on the nearest value's side
    of the gap. If a value is novel only for its time of day or weekday, both refer to that time or
    weekday.

    The default rule, ``Threshold(2.0)``, is for many series: on daily histories of tables it raises
    half a false alarm in a thousand values. For one long series of minutes a lower one pays: on half
    of the files of the Numenta Anomaly Benchmark ``Threshold(0.57)`` scores 77 and the default 35,
    but in tables it raises nineteen false alarms in a thousand.

    Parameters
    ----------
    components : {"all", "value"}
        Distances to use; "value" is the first alone, at a sixth of the time.
    quiet : int
        A score is reported if it exceeds those of so many earlier points; for daily partitions, at
        most 14.
    prefix : int
        Number of initial points from which scale is learned.

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

    least: ClassVar[int] = WARM + 2
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

    def score(self, history: History, start: int = 0, known: Scores | None = None) -> Scores:
        """Score series by series; `known` is ignored, as it does not contain the distances."""
        scores = Scores.unscored(history.values.shape)
        weekly = (history.grid or Grid.from_times(history.times)).daily
        usable = np.isfinite(history.values)
        with np.errstate(all="ignore"):
            for i in range(len(usable)):
                new = np.zeros(len(history.times), bool)
                if history.restarts is not None:
                    new = history.restarts[i]
                for part in np.split(np.arange(len(new)), np.flatnonzero(new)):
                    at = part[usable[i, part]]
                    if len(at) >= self.least:
                        self._score(history, scores, i, at, weekly=weekly)
        return scores.since(start)

    def _score(
        self, history: History, scores: Scores, i: int, at: NDArray[np.intp], *, weekly: bool
    ) -> None:
        values = history.values[i, at]
        example = np.full(len(at), fill_value=True)
        if history.muted is not None:
            example = ~history.muted[i, at]
        line = _Line(values, np.where(example, values, np.nan))
        z = line.value(self.prefix)
        season, seasonal = None, np.zeros(len(at), dtype=bool)
        if self.components == "all":
            season = SeasonalRanges.from_times(history.times[at], WEEKS if weekly else DAYS)
            of_season = line.season(season)
            others = (weakened(line.run()), line.slow(self.prefix), line.plain())
            z = np.maximum.reduce([z, *others])
            of_season = of_season if weekly else weakened(of_season)
            inside = (line.least <= line.values) & (line.values <= line.most)
            seasonal = inside & (of_season > z)
            z = np.maximum(z, of_season)
        if history.scales[i] is Scale.DISTANCE:
            z = np.where(values > line.expected, z, 0.0)
        reach = min(self.quiet, QUIET_DAYS) if weekly else self.quiet
        z = np.where(exceeds_recent(z, example, reach), z, 0.0)
        bounds = np.stack([line.expected, line.least, line.most])
        for j in np.flatnonzero(z):
            seen = (
                season.comparable_values(int(j), line.seen)
                if season and seasonal[j]
                else line.seen[:j]
            )
            bounds[:, j] = side(line.values[j], seen)
        fit = line.past.count > WARM
        at = at[fit]
        scores.score[i, at] = cantelli(z[fit])
        scores.reason[i, at] = np.where(scores.score[i, at] >= 1, Reason.NOVELTY, Reason.NONE)
        kept = (scores.expected, scores.lower, scores.upper)
        for array, bound in zip(kept, bounds[:, fit], strict=True):
            array[i, at] = bound


def weakened(z: Floats) -> Floats:
    """Compress the z of a distance that is often large: (1 + z) ** 0.3 - 1."""
    weak: Floats = np.expm1(OFTEN * np.log1p(z))
    return weak


def cantelli(z: Floats) -> Floats:
    """Return -log10 of Cantelli's bound on the chance of z standard deviations above the mean.

    Examples
    --------
    >>> cantelli(np.array([0.0, 3.0]))
    array([0., 1.])
    """
    score: Floats = np.minimum(np.log1p(np.square(np.clip(z, 0, HUGE))) / np.log(10), CAP)
    return score


def exceeds_recent(scores: Floats, example: NDArray[np.bool_], reach: int) -> NDArray[np.bool_]:
    """Return a mask of scores above those of all examples among the `reach` points before.

    Examples
    --------
    >>> exceeds_recent(np.array([1.0, 3, 2, 2, 4]), np.full(5, True), 2)
    array([ True,  True, False, False,  True])
    """
    heard = np.where(example, scores, -np.inf)[:-1]
    padded = np.concatenate([np.full(reach, -np.inf), heard])
    found: NDArray[np.bool_] = scores > sliding_window_view(padded, reach).max(axis=1)
    return found


def side(value: float, seen: Floats) -> tuple[float, float, float]:
    """Return the nearest seen value and the range of all, or of those on its side of a gap.

    Examples
    --------
    >>> seen = np.array([1.0, 2, 3, 9, 10])
    >>> side(5, seen), side(20, seen)
    ((3.0, 1.0, 3.0), (10.0, 1.0, 10.0))
    """
    lower, upper = float(np.nanmin(seen)), float(np.nanmax(seen))
    nearest = float(seen[np.nanargmin(np.abs(seen - value))])
    if nearest < value < upper:
        upper = nearest
    elif lower < value < nearest:
        lower = nearest
    return nearest, lower, upper


class _Line:
    """A series without missing values, and statistics of the earlier values of each point.

    Attributes
    ----------
    seen : array
        The values, NaN where a point is excluded from training.
    expected, least, most : array
        The nearest, the least and the largest earlier value.
    past : RunningMoments
        Running statistics of the values.
    """

    def __init__(self, values: Floats, seen: Floats) -> None:
        self.values, self.seen = np.clip(values, -HUGE, HUGE), np.clip(seen, -HUGE, HUGE)
        self.count_below, self.above = neighbours(self.values, self.seen)
        nearer = self.values - self.count_below < self.above - self.values
        self.expected = np.where(nearer | np.isnan(self.above), self.count_below, self.above)
        before = np.concatenate([[np.nan], self.seen[:-1]])
        self.least, self.most = np.fmin.accumulate(before), np.fmax.accumulate(before)
        self.past = RunningMoments.from_values(self.seen)
        self.size = RunningMoments.from_values(np.abs(self.seen)).mean

    def value(self, prefix: int) -> Floats:
        """Return the z of the value's distance, after arcsinh(3 x / m)."""
        m = running_absolute_medians(self.seen, prefix)
        m = np.where(m > 0, m, np.where(self.size > 0, self.size, 1.0))
        below, y, above = (
            np.arcsinh(3 * x / m) for x in (self.count_below, self.values, self.above)
        )
        return self._z(np.fmin(y - below, above - y), np.ones_like(y))

    def season(self, season: SeasonalRanges) -> Floats:
        """Return the z of the value's distance to those at this time of day or on this weekday."""
        return self._z(season.nearest(self.values, self.seen), self.size)

    def run(self) -> Floats:
        """Return the z of the last three values' distance to earlier runs."""
        return self._z(nearest_run(self.values, self.seen), self.size)

    def slow(self, prefix: int) -> Floats:
        """Return the slow mean's distance, in standard deviations of the first `prefix` values."""
        n = len(self.values)
        if n < SLOW:
            return np.zeros(n)
        means, seen = (sliding_window_view(x, SLOW).mean(axis=1) for x in (self.values, self.seen))
        below, above = neighbours(means, seen, SLOW)
        distance = np.full(n, np.nan)
        distance[SLOW - 1 :] = np.fmin(means - below, above - means)
        learned = np.minimum(np.arange(n), np.searchsorted(self.past.count, prefix))
        return RunningMoments(self.past.count, np.zeros(n), self.past.sd[learned]).z(
            distance, self.size
        )

    def plain(self) -> Floats:
        """Return the value's distance, in standard deviations of all earlier values."""
        past = RunningMoments(self.past.count, np.zeros_like(self.size), self.past.sd)
        return past.z(np.abs(self.values - self.expected), self.size)

    def _z(self, distance: Floats, unit: Floats) -> Floats:
        return RunningMoments.from_values(np.where(np.isnan(self.seen), np.nan, distance)).z(
            distance, unit
        )
