"""What Deequ's strategies share: two ways to be asked, and how values become scores.

`Strategy.score` judges each point by those before it. `Strategy.detect` searches an interval of one
series and means what Deequ means. Levels and deviations are computed on a scale on which nothing
overflows.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from analyzers.errors import IllegalAnalyzerParameterError
from repository.anomalies.detector import CAP, Detector, History, Reason, Scores

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from repository.anomalies.detector import Floats

    Factors = tuple[float | None, float | None]

SAME = 1e-12
"""Numbers closer than this part of them are the same; sums in another order differ by less."""
ROOM = 64
"""Powers of two by which values are made smaller, so that sums and differences stay finite."""


@dataclass(frozen=True)
class Flagged:
    """A point of a series that was found.

    Attributes
    ----------
    index : int
    value : float
    lower, upper : float
        What was allowed, both included; NaN where there is no bound.
    """

    index: int
    value: float
    lower: float
    upper: float


@dataclass(frozen=True, repr=False)
class Strategy(Detector):
    """A detector that can also search an interval.

    Missing values (NaN) keep their place, where Deequ closes the gap; they are neither scored nor do they
    teach. Muted points are scored, but do not teach; what was before a restart is forgotten.
    """

    def score(self, history: History, start: int = 0, known: Scores | None = None) -> Scores:  # noqa: ARG002
        """Score every point from a partition on by the points before it; see `Detector.score`."""
        self.check_parameters()
        with np.errstate(all="ignore"):
            scores = self._judge(history, start)
            if history.restarts is not None:
                scores = self._begin_anew(history, history.restarts, start, scores)
        return scores.since(start)

    def detect(self, values: ArrayLike, interval: tuple[int, int] | None = None) -> list[Flagged]:
        """Search an interval of one series, as Deequ does.

        Parameters
        ----------
        values : sequence of float
            NaN is a missing value. It keeps its place and is never flagged.
        interval : tuple of int, optional
            First index, and the one behind the last; all that can be searched if not given. It may reach
            beyond the series.

        Returns
        -------
        list of Flagged
            Empty if there are too few values to compare with, where Deequ throws.

        Raises
        ------
        IllegalAnalyzerParameterError
            If the interval ends before it starts, or starts below zero.
        """
        self.check_parameters()
        x = np.array(values, dtype=float).reshape(1, -1)
        first, last = interval or (min(self._earliest, x.size), x.size)
        if not 0 <= first <= last:
            msg = f"{self!r}: an interval is (start, end) with 0 <= start <= end, not {interval!r}"
            raise IllegalAnalyzerParameterError(msg)
        with np.errstate(all="ignore"):
            scores = self._search(x, min(first, x.size), min(last, x.size))
        found = np.flatnonzero(scores.reason[0, :last] != Reason.NONE)
        columns = (x, scores.lower, scores.upper)
        return [Flagged(int(i), *(float(c[0, i]) for c in columns)) for i in found if i >= first]

    @property
    def _earliest(self) -> int:
        """Where a search starts if nothing else is said."""
        return 0

    @abstractmethod
    def _judge(self, history: History, start: int) -> Scores:
        """Score all partitions; those before ``start`` need not be right."""

    def _search(self, values: Floats, first: int, last: int) -> Scores:  # noqa: ARG002
        """Score one series with a part of it to be searched; by default as everywhere."""
        nowhen = np.full(values.size, "NaT", "M8[s]")
        return self._judge(History(nowhen, values, np.full_like(values, np.nan), []), first)

    def _begin_anew(
        self, history: History, restarts: NDArray[np.bool_], start: int, scores: Scores
    ) -> Scores:
        era = np.cumsum(restarts, axis=1)
        for k in range(1, int(era.max(initial=0)) + 1):
            since = replace(history, values=np.where(era >= k, history.values, np.nan))
            scores = _choose(era == k, self._judge(since, start), scores)
        return _choose(restarts, Scores.nothing(restarts.shape), scores)


def _choose(mask: NDArray[np.bool_], some: Scores, others: Scores) -> Scores:
    pairs = ((getattr(some, f.name), getattr(others, f.name)) for f in fields(Scores))
    return Scores(*(np.where(mask, a, b) for a, b in pairs))


def examples(history: History) -> Floats:
    """Return the values that teach: NaN where a point is muted."""
    if history.muted is None:
        return history.values
    return np.where(history.muted, np.nan, history.values)


def shrunk(values: Floats) -> Floats:
    """Return values on the scale on which levels and deviations are computed."""
    return np.ldexp(values, -ROOM)


def finite(values: Floats) -> Floats:
    """Return values with NaN for infinities."""
    return np.where(np.isfinite(values), values, np.nan)


def earlier(values: Floats) -> tuple[Floats, Floats, Floats]:
    """Return mean, sample standard deviation and number of the values before each, and at last of all.

    Parameters
    ----------
    values : array of float, shape (series, points)
        NaN where there is none. On the scale of `shrunk`.

    Returns
    -------
    tuple of array of float, shape (series, points + 1)
        Mean and deviation are NaN where there are no values before; the deviation of one value is 0.

    Examples
    --------
    >>> mean, deviation, number = earlier(np.array([[1.0, np.nan, 3.0]]))
    >>> mean.tolist(), deviation.round(3).tolist(), number.tolist()
    ([[nan, 1.0, 1.0, 2.0]], [[nan, 0.0, 0.0, 1.414]], [[0.0, 1.0, 1.0, 2.0]])
    """
    mean, root, number = np.zeros((3, len(values)))
    kept = [(mean, root, number)]
    for column in values.T:
        step = np.nan_to_num(column - mean)
        root = np.hypot(root, np.abs(step) * np.sqrt(number / (number + 1)))
        mean = mean + step / (number + 1)
        number = number + ~np.isnan(column)
        kept.append((mean, root, number))
    means, roots, numbers = (np.stack(some, axis=1) for some in zip(*kept, strict=True))
    means[numbers == 0] = np.nan
    roots[numbers == 0] = np.nan
    return means, roots / np.sqrt(np.maximum(numbers - 1, 1)), numbers


def band(
    mean: Floats, deviation: Floats, rounding: Floats, factors: Factors
) -> tuple[Floats, Floats]:
    """Return mean minus and plus some deviations and a rounding error; NaN where there is no factor."""
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
    """Return scores by the two tails of the normal distribution.

    After points that are all the same nothing is known of how far others may lie. Another value is then
    as likely as that the last of so many is the only one to differ, 1 in points + 1.

    Parameters
    ----------
    values : array of float, shape (series, partitions)
    mean, deviation, rounding : array of float, shape (series, partitions)
        What was expected, the deviation from it, and how much of that is rounding error; NaN where nothing
        is known. On the scale of `shrunk`.
    points : array of float, shape (series, partitions)
        How many points tell it.
    factors : tuple of float or None
        Half widths of the band below and above, in deviations.
    """
    lower, upper = band(mean, deviation, rounding, factors)
    small = shrunk(values)
    below, above = small < lower, small > upper
    off = np.abs(small - mean)
    score = -(special.log_ndtr(-off / deviation) + np.log(2)) / np.log(10)
    changed = np.where(off > rounding, np.log10(points + 1), 0)
    score = np.where(deviation <= rounding, changed, score)
    score = np.where(np.isfinite(off), score, np.where(np.isnan(off), np.nan, CAP))
    unwatched = np.isnan(np.where(small < mean, lower, upper)) & ~np.isnan(score)
    score = np.where(unwatched, 0, np.clip(score, 0, CAP))
    usual = (np.ldexp(some, ROOM) for some in (mean, lower, upper))
    return told(below, above, score, Reason.LEVEL, values, *usual)


def bounded(
    values: Floats,
    change: Floats,
    flags: tuple[NDArray[np.bool_], NDArray[np.bool_]],
    bounds: tuple[Floats, Floats],
    reason: Reason,
) -> Scores:
    """Return scores that are certain below and above bounds, and nothing where a change is known."""
    below, above = flags
    score = np.where(np.isnan(change), np.nan, np.where(below | above, CAP, 0.0))
    return told(below, above, score, reason, values, np.full_like(values, np.nan), *bounds)


def told(
    below: NDArray[np.bool_],
    above: NDArray[np.bool_],
    score: Floats,
    reason: Reason,
    values: Floats,
    expected: Floats,
    lower: Floats,
    upper: Floats,
) -> Scores:
    """Return scores whose bounds agree, to the last digit, with what was found below and above them.

    Where the score is NaN the point is not scored and all else is missing, too.
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
