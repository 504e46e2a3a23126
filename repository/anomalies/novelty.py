"""A detector of what was never seen before.

A point is novel if it is far from the nearest of all points before it, compared with how far these were
from those before them. Five distances are taken (`nearest`):

1. of the value, after arcsinh(3 x / m), where m is the median of the earlier absolute values;
2. of the value, to those at the same time of the last days, or of daily partitions on the same weekday;
3. of the last three values, to any three in a row;
4. of the mean of the last 60 values, to those that share no value with it;
5. of the value as it is.

The first three are counted in standard deviations from the mean of their own past, the last two in
standard deviations of the value. By Cantelli's inequality a distance of z or more has a chance of at most
1 / (1 + z**2), whatever its distribution, so the score is log10(1 + z**2) of the largest z. The time of
day and the runs are often novel without being anything; their 1 + z enters as its 0.3th power. Where all
earlier distances were the same, z is the root of their number: then the chance is that of one in n + 1.
The score rises with z alone, so one threshold serves series of any kind. The inequality wants mean and
deviation to be known, and here they are estimated: of numbers with infinite variance, such as
Cauchy's, scores of 3 are some times as frequent as they should be.

Nothing looks ahead. The scale m and the deviation of the fourth distance are learned from the points so
far, until `prefix` of them are known; then they stay, lest a slow change become their measure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from analyzers.errors import IllegalAnalyzerParameterError
from analyzers.metric import Scale
from repository.anomalies.detector import CAP, Detector, History, Reason, Scores, detector
from repository.anomalies.grid import Grid
from repository.anomalies.nearest import DAYS, WEEKS, Season, nearest_run, neighbours
from repository.anomalies.past import WARM, Past, middles

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from repository.anomalies.detector import Floats

OFTEN = 0.3
"""Power of what is often novel."""
SLOW = 60
"""Points of the slow mean."""
WEEK = 7
QUIET_DAYS = 14
"""Daily partitions are silenced no longer."""
HUGE = 1e100
"""Larger values count as this, so that their squares are numbers."""


@detector
class Novelty(Detector):
    """Scores what is unlike everything seen before; see the module.

    Of several novel points near each other only the first is told, and those that are more novel than
    it. All others score 0, and so do distances (PSI and the like) smaller than those before. The first
    15 values of a series are not scored, nor are missing and infinite ones, which teach nothing. A
    restart begins a series anew.

    Expected is the nearest value seen before, and the band is all that was seen; if a value is novel
    between others, it is what lies on the side of the nearest. Where a value is novel for its time of
    day or weekday only, all this is of that time or weekday.

    Parameters
    ----------
    components : {"all", "value"}
        Which distances are taken; "value" is the first alone, at a sixth of the time.
    quiet : int
        A score is told if it exceeds those of so many points before; of daily partitions, 14 at most.
    prefix : int
        How many of the first points teach scale.

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
        """Components are known, numbers positive."""
        if self.components not in {"all", "value"}:
            msg = f"{self!r}: components must be 'all' or 'value'"
            raise IllegalAnalyzerParameterError(msg)
        if min(self.quiet, self.prefix) < 1:
            msg = f"{self!r}: quiet and prefix must be at least 1"
            raise IllegalAnalyzerParameterError(msg)

    def score(self, history: History, start: int = 0, known: Scores | None = None) -> Scores:  # noqa: ARG002
        """Score series by series; `known` is of no use here, as it tells nothing of the distances."""
        scores = Scores.nothing(history.values.shape)
        weekly = (history.grid or Grid.of(history.times)).period == WEEK
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
            season = Season.of(history.times[at], WEEKS if weekly else DAYS)
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
        z = np.where(emitted(z, example, reach), z, 0.0)
        bounds = np.stack([line.expected, line.least, line.most])
        for j in np.flatnonzero(z):
            seen = season.seen_at(int(j), line.seen) if season and seasonal[j] else line.seen[:j]
            bounds[:, j] = side(line.values[j], seen)
        fit = line.past.count > WARM
        at = at[fit]
        scores.score[i, at] = cantelli(z[fit])
        scores.reason[i, at] = np.where(scores.score[i, at] >= 1, Reason.NOVELTY, Reason.NONE)
        kept = (scores.expected, scores.lower, scores.upper)
        for array, bound in zip(kept, bounds[:, fit], strict=True):
            array[i, at] = bound


def weakened(z: Floats) -> Floats:
    """Return what counts of the z of a distance that is often large."""
    weak: Floats = np.expm1(OFTEN * np.log1p(z))
    return weak


def cantelli(z: Floats) -> Floats:
    """Return -log10 of the greatest chance of being z standard deviations or more above the mean.

    Examples
    --------
    >>> cantelli(np.array([0.0, 3.0]))
    array([0., 1.])
    """
    score: Floats = np.minimum(np.log1p(np.square(np.clip(z, 0, HUGE))) / np.log(10), CAP)
    return score


def emitted(scores: Floats, example: NDArray[np.bool_], reach: int) -> NDArray[np.bool_]:
    """Return which scores exceed all of the `reach` examples before them.

    Examples
    --------
    >>> emitted(np.array([1.0, 3, 2, 2, 4]), np.full(5, True), 2)
    array([ True,  True, False, False,  True])
    """
    heard = np.where(example, scores, -np.inf)[:-1]
    padded = np.concatenate([np.full(reach, -np.inf), heard])
    found: NDArray[np.bool_] = scores > sliding_window_view(padded, reach).max(axis=1)
    return found


def side(value: float, seen: Floats) -> tuple[float, float, float]:
    """Return the nearest of what was seen, and the range of all, or of that on its side of a gap.

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
    """A series without what is missing, and for each point what was seen before it.

    Attributes
    ----------
    seen : array
        The values, NaN where one is no example.
    expected, least, most : array
        The nearest value before, the least, and the largest.
    past : Past
        Of the values.
    """

    def __init__(self, values: Floats, seen: Floats) -> None:
        self.values, self.seen = np.clip(values, -HUGE, HUGE), np.clip(seen, -HUGE, HUGE)
        self.below, self.above = neighbours(self.values, self.seen)
        nearer = self.values - self.below < self.above - self.values
        self.expected = np.where(nearer | np.isnan(self.above), self.below, self.above)
        before = np.concatenate([[np.nan], self.seen[:-1]])
        self.least, self.most = np.fmin.accumulate(before), np.fmax.accumulate(before)
        self.past = Past.of(self.seen)
        self.size = Past.of(np.abs(self.seen)).mean

    def value(self, prefix: int) -> Floats:
        """Return the z of the value, compressed."""
        m = middles(self.seen, prefix)
        m = np.where(m > 0, m, np.where(self.size > 0, self.size, 1.0))
        below, y, above = (np.arcsinh(3 * x / m) for x in (self.below, self.values, self.above))
        return self._z(np.fmin(y - below, above - y), np.ones_like(y))

    def season(self, season: Season) -> Floats:
        """Return the z of the value at this time of day or on this weekday."""
        return self._z(season.nearest(self.values, self.seen), self.size)

    def run(self) -> Floats:
        """Return the z of the last three values."""
        return self._z(nearest_run(self.values, self.seen), self.size)

    def slow(self, prefix: int) -> Floats:
        """Return the distance of the slow mean, in standard deviations of the first values."""
        n = len(self.values)
        if n < SLOW:
            return np.zeros(n)
        means, seen = (sliding_window_view(x, SLOW).mean(axis=1) for x in (self.values, self.seen))
        below, above = neighbours(means, seen, SLOW)
        distance = np.full(n, np.nan)
        distance[SLOW - 1 :] = np.fmin(means - below, above - means)
        learned = np.minimum(np.arange(n), np.searchsorted(self.past.count, prefix))
        return Past(self.past.count, np.zeros(n), self.past.sd[learned]).z(distance, self.size)

    def plain(self) -> Floats:
        """Return the distance of the value, in standard deviations of all before."""
        past = Past(self.past.count, np.zeros_like(self.size), self.past.sd)
        return past.z(np.abs(self.values - self.expected), self.size)

    def _z(self, distance: Floats, unit: Floats) -> Floats:
        return Past.of(np.where(np.isnan(self.seen), np.nan, distance)).z(distance, unit)
