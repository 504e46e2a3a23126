"""Base class of Deequ's strategies, and helpers that turn bands into scores.

`Strategy.score` scores each point from earlier points. `Strategy.detect` searches an interval of
one series with Deequ's semantics. Levels and deviations are computed on a reduced scale to prevent
overflow.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError
from tidegauge.repository.detectors.base import Detector, History, Reason, Scores
from tidegauge.repository.numerics.arrays import CAP

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from tidegauge.repository.numerics.arrays import Floats

    Factors = tuple[float | None, float | None]

SAME = 1e-12
"""Relative tolerance of equal numbers; rounding in sums of another order is smaller."""
ROOM = 64
"""Binary exponent by which values are scaled down, so that sums and differences stay finite."""


@dataclass(frozen=True)
class Flagged:
    """An anomaly found by `Strategy.detect`.

    Attributes
    ----------
    index : int
    value : float
    lower, upper : float
        Allowed range, bounds included; NaN where there is no bound.
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

    def score(self, history: History, start: int = 0, known: Scores | None = None) -> Scores:
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
        found = np.flatnonzero(scores.reason[0, :last] != Reason.NONE)
        columns = (x, scores.lower, scores.upper)
        return [Flagged(int(i), *(float(c[0, i]) for c in columns)) for i in found if i >= first]

    @property
    def _earliest(self) -> int:
        """Default start of the searched interval."""
        return 0

    @abstractmethod
    def _judge(self, history: History, start: int) -> Scores:
        """Score all partitions; scores before ``start`` are discarded and may be anything."""

    def _search(self, values: Floats, first: int, last: int) -> Scores:
        """Score one series of which an interval is searched; by default as `_judge`."""
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


def _choose(mask: NDArray[np.bool_], some: Scores, others: Scores) -> Scores:
    pairs = ((getattr(some, f.name), getattr(others, f.name)) for f in fields(Scores))
    return Scores(*(np.where(mask, a, b) for a, b in pairs))


def training_values(history: History) -> Floats:
    """Return the values used for training: NaN where a point is muted."""
    if history.muted is None:
        return history.values
    return np.where(history.muted, np.nan, history.values)


def scale_down(values: Floats) -> Floats:
    """Scale values down by 2**ROOM, for levels and deviations that do not overflow."""
    return np.ldexp(values, -ROOM)


def nan_if_infinite(values: Floats) -> Floats:
    """Replace infinities by NaN."""
    return np.where(np.isfinite(values), values, np.nan)


def running_moments(values: Floats) -> tuple[Floats, Floats, Floats]:
    """Return running mean, sample standard deviation and count of the values before each point.

    The last column is of all values.

    Parameters
    ----------
    values : array of float, shape (series, points)
        NaN where missing. On the scale of `scale_down`.

    Returns
    -------
    tuple of array of float, shape (series, points + 1)
        Mean and deviation are NaN where there are no values before; the deviation of one value is 0.

    Examples
    --------
    >>> mean, deviation, number = running_moments(np.array([[1.0, np.nan, 3.0]]))
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
    """Return the band: mean plus/minus factor * deviation and rounding; NaN without a factor."""
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

    After equal points the deviation is 0 and nothing is known of likely distances. Another value
    then has a probability of 1 in points + 1: that the last of so many is the only one to differ.

    Parameters
    ----------
    values : array of float, shape (series, partitions)
    mean, deviation, rounding : array of float, shape (series, partitions)
        Expected value, standard deviation, and how much of it is rounding error; NaN where unknown.
        On the scale of `scale_down`.
    points : array of float, shape (series, partitions)
        Number of points behind them.
    factors : tuple of float or None
        Half widths of the band below and above, in deviations.
    """
    lower, upper = band(mean, deviation, rounding, factors)
    small = scale_down(values)
    below, above = small < lower, small > upper
    off = np.abs(small - mean)
    score = -(special.log_ndtr(-off / deviation) + np.log(2)) / np.log(10)
    changed = np.where(off > rounding, np.log10(points + 1), 0)
    score = np.where(deviation <= rounding, changed, score)
    score = np.where(np.isfinite(off), score, np.where(np.isnan(off), np.nan, CAP))
    unwatched = np.isnan(np.where(small < mean, lower, upper)) & ~np.isnan(score)
    score = np.where(unwatched, 0, np.clip(score, 0, CAP))
    usual = (np.ldexp(some, ROOM) for some in (mean, lower, upper))
    return scores_from_flags(below, above, score, Reason.LEVEL, values, *usual)


def bounded(
    values: Floats,
    change: Floats,
    flags: tuple[NDArray[np.bool_], NDArray[np.bool_]],
    bounds: tuple[Floats, Floats],
    reason: Reason,
) -> Scores:
    """Return the highest score outside fixed bounds, 0 inside, and NaN where `change` is NaN."""
    below, above = flags
    score = np.where(np.isnan(change), np.nan, np.where(below | above, CAP, 0.0))
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

    Where the score is NaN the point is not scored and all other fields are missing, too.
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
