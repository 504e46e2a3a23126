"""Robust z-score ("surprise") of the difference between two sides of a history, for many series.

Values are first transformed to the scale of their metric (`tidegauge.repository.numerics.scales`).
With ``d`` the difference of the sides there,

    surprise = min(|d - m| / max(spread, floor), 300)
    spread = max(1.4826 * median(|u - m|), 90th percentile(|u - m|) / 1.645),   m = median(u)

where ``u`` are the *usual* differences: the two sides are shifted along the history together,
keeping their lengths and their distance, to every position where neither contains a partition of
the sides themselves. Long sides are shifted by half of the longer one's length at a time, because
medians of nearly the same points add no information. The percentile accounts for frequent
differences: each weekend differs from its Friday.

If a series has fewer than `LEAST` usual differences, or if those of long sides are all 0, the
differences between neighbouring partitions replace them, with m = 0 and their spread times
sqrt((1/e(n) + 1/e(k)) / 2) for sides of n and k values: the median of n values counts as the mean
of e(n) = max(1, 2n/pi). Pairs with one partition in a side and the other outside or in the other
side are excluded, and for two single partitions all pairs that touch them. A restatement of n
partitions is compared with differences between neighbours, too, with sqrt(1/e(n)). With fewer than
`LEAST` of these, the surprise is unknown.

The floor is `least_spread`, the lower bound of a point's standard deviation, times sqrt(1/e(n) +
1/e(k)). Where nine in ten usual differences are equal, so that the spread is 0, 1.2533 times their
mean distance from m replaces it. A series that never moved, and now does, has the highest surprise,
regardless of the floor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.analyzers.core.metric import Scale
from tidegauge.repository.numerics.arrays import CAP
from tidegauge.repository.numerics.medians import median, quantiles
from tidegauge.repository.numerics.running import EQUAL
from tidegauge.repository.numerics.scales import least_spread

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.repository.numerics.arrays import Floats

LEAST = 6
"""Minimum number of usual differences."""
OF_MEDIAN, OF_HIGH, OF_MEAN = 1.4826, 1 / 1.645, 1.2533
"""Factors from median, 90th percentile and mean of absolute deviations to a standard deviation."""
_BLOCK = 4_000_000
"""Numbers processed at once."""


@dataclass(frozen=True)
class ComparedSides:
    """Two sides of a comparison over one history of several series, on the transformed scales.

    Attributes
    ----------
    history : array of float, shape (series, partitions)
        NaN where unknown.
    scales : sequence of Scale, one for each series
    baseline, current : array of int
        Indices of the sides' partitions.
    difference, level : array of float, shape (series,)
        Difference of the sides, and level of the baseline.
    counts : tuple of array of float, shape (series,)
        Number of values behind each side.
    weights : array of float, shape (series,)
        Rows behind a value.
    paired : bool
        True if the sides are two measurements of the same partitions.
    """

    history: Floats
    scales: Sequence[Scale]
    baseline: NDArray[np.intp]
    current: NDArray[np.intp]
    difference: Floats
    level: Floats
    counts: tuple[Floats, Floats]
    weights: Floats
    paired: bool

    def surprise(self) -> Floats:
        """Return each series' surprise; NaN where the difference or the usual ones are unknown."""
        with np.errstate(over="ignore", invalid="ignore"):  # between numbers of 1e308
            return self._surprise()

    def _surprise(self) -> Floats:
        middle, spread, never = self._near()
        if not self.paired:
            own = _robust_spread(self._moved())
            # Medians of a series that is mostly 0 do not move even if the series does.
            steady = self._is_single | (own[0] != 0)
            known = (own[1] > 0) | ((own[1] == 0) & steady)
            middle, spread, never = (
                np.where(known, a, b) for a, b in zip(own, (middle, spread, never), strict=True)
            )
        floor = least_spread(self.level, self.weights, self.scales) * np.sqrt(sum(self._shares()))
        spread = np.maximum(spread, floor)
        off = np.abs(_cleaned(self.difference - middle, self.difference, middle))
        z = np.minimum(off / np.where(spread > 0, spread, np.inf), CAP)
        z = np.where(never.astype(bool) | ((spread == 0) & (off > 0)), CAP, z)
        z = np.where(np.isnan(spread), np.nan, z)
        return np.where(self.difference == 0, 0.0, np.where(np.isnan(self.difference), np.nan, z))

    @property
    def _is_single(self) -> bool:
        return len(self.baseline) == 1 and len(self.current) == 1

    def _shares(self) -> tuple[Floats, Floats]:
        """Return each side's variance as a multiple of a single point's."""
        first, second = (1 / np.maximum(1.0, 2 * count / np.pi) for count in self.counts)
        return first, second

    def _near(self) -> tuple[Floats, Floats, Floats]:
        """Return middle, spread and never-moved flag from differences between neighbours."""
        y = self.history
        steps = _cleaned(y[:, 1:] - y[:, :-1], y[:, 1:], y[:, :-1])
        side = np.zeros(y.shape[1], dtype=np.int8)
        side[self.baseline] += 1
        side[self.current] += 2
        apart = side[1:] != side[:-1]
        if self._is_single:
            apart |= (side[1:] > 0) | (side[:-1] > 0)
        steps[:, apart] = np.nan
        _, spread, never = _robust_spread(steps)
        first, second = self._shares()
        times = np.sqrt(first if self.paired else (first + second) / 2)
        spread = np.where(
            (spread > 0) | (never > 0), spread, np.nan
        )  # a straight line has no noise to learn from
        return np.zeros(len(y)), spread * times, never

    def _moved(self) -> Floats:
        """Return the differences of the sides at all other positions, shape (series, positions)."""
        y, (a, b) = self.history, (self.baseline, self.current)
        if not len(a) or not len(b):
            return np.empty((len(y), 0))
        own = np.union1d(a, b)
        longest = max(len(a), len(b))
        by = np.arange(-int(own[-1]), y.shape[1])
        by = by[by % max(longest // 2, 1) == 0]
        by = by[(own[0] + by >= 0) & (own[-1] + by < y.shape[1])]
        by = by[[not np.isin(own + step, own).any() for step in by.tolist()]]
        out = np.full((len(y), len(by)), np.nan)
        block = max(_BLOCK // max(len(by) * longest, 1), 1)
        for start in range(0, len(y), block):
            some = y[start : start + block]
            before, after = (median(some[:, side + by[:, None]]) for side in (a, b))
            out[start : start + block] = _cleaned(after - before, before, after)
        return out


def _cleaned(differences: Floats, one: Floats, other: Floats) -> Floats:
    """Return differences, 0 where they are only rounding."""
    close = EQUAL * np.maximum(np.abs(one), np.abs(other))
    return np.where(np.abs(differences) <= close, 0.0, differences)


def _robust_spread(differences: Floats) -> tuple[Floats, Floats, Floats]:
    """Return middle, spread and never-moved flag of each row.

    The spread is NaN with fewer than `LEAST` differences; the flag is 1 where all of at least
    `LEAST` are 0.
    """
    count = (~np.isnan(differences)).sum(axis=1)
    middle = median(differences)
    away = np.abs(differences - middle[:, None])
    mean = np.nan_to_num(away).sum(axis=1) / np.maximum(count, 1)
    half, high = quantiles(away, (0.5, 0.9))
    spread = np.fmax(OF_MEDIAN * half, OF_HIGH * high)
    spread = np.where(spread > 0, spread, OF_MEAN * mean)
    enough = count >= LEAST
    never = enough & ~(np.nan_to_num(differences) != 0).any(axis=1)
    return middle, np.where(enough, spread, np.nan), never.astype(np.float64)
