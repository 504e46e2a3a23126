"""Nearest-neighbour distances of each point of a series to earlier points.

In all functions ``seen`` holds the values that later points are compared with, NaN where a point is
excluded from training. ``values`` themselves are finite.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tidegauge.repository.numerics.grid import DAY, HOUR

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.repository.numerics.arrays import Floats

SLACK = 2 * HOUR
"""Tolerance around the same time of a cycle, in seconds."""
BLOCK = 4096
"""Points whose runs are compared at once, sized to fit the processor cache."""
SIDE = 25
"""Points per cycle compared on either side of the same time."""


def neighbours(values: Floats, seen: Floats, lag: int = 1) -> tuple[Floats, Floats]:
    """Return the nearest lower and higher values among points at least `lag` earlier.

    An equal value counts as above. A sorted list is bisected, so the search costs O(log n) per
    point.

    Parameters
    ----------
    values, seen : array of float, shape (points,)
    lag : int

    Returns
    -------
    below, above : array of float, shape (points,)
        NaN where there is none.

    Examples
    --------
    >>> x = np.array([3.0, 1.0, 2.0, 3.0])
    >>> neighbours(x, x)
    (array([nan, nan,  1.,  2.]), array([nan,  3.,  3.,  3.]))
    """
    below, above = [np.nan] * len(values), [np.nan] * len(values)
    met: list[float] = []
    new = seen.tolist()
    for i, x in enumerate(values.tolist()):
        if i >= lag and new[i - lag] == new[i - lag]:
            met.insert(bisect_left(met, new[i - lag]), new[i - lag])
        at = bisect_left(met, x)
        if at:
            below[i] = met[at - 1]
        if at < len(met):
            above[i] = met[at]
    return np.array(below), np.array(above)


def nearest_run(
    values: Floats, seen: Floats, size: int = 3, lag: int = 3, horizon: int = 4000
) -> Floats:
    """Return the Euclidean distance of the last `size` values to the nearest earlier run.

    Parameters
    ----------
    values, seen : array of float, shape (points,)
    size : int
        Length of a run, at least 2.
    lag, horizon : int
        Least and greatest number of points by which the other run ends earlier.

    Returns
    -------
    array of float, shape (points,)
        NaN where there is no earlier run.

    Examples
    --------
    >>> x = np.array([1.0, 2, 3, 1, 2, 7])
    >>> nearest_run(x, x)
    array([nan, nan, nan, nan, nan,  4.])
    """
    n = len(values)
    best = np.full(n, np.inf)
    for start in range(size - 1, n, BLOCK):
        end = min(start + BLOCK, n)
        for back in range(lag, min(horizon, end - size) + 1):
            first = max(start, back + size - 1)  # the first point with a complete run so far back
            if first >= end:
                break
            gap = values[first - size + 1 : end] - seen[first - size + 1 - back : end - back]
            gap *= gap
            m = end - first
            total = gap[:m] + gap[1 : m + 1]
            for k in range(2, size):
                total += gap[k : k + m]
            np.fmin(best[first:end], total, out=best[first:end])
    return np.where(np.isfinite(best), np.sqrt(best), np.nan)


class Cycle(NamedTuple):
    """A cycle's length in seconds, the number of cycles compared, and the minimum of points."""

    seconds: int
    cycles: int
    least: int


DAYS, WEEKS = Cycle(DAY, 10, 12), Cycle(7 * DAY, 26, 3)


@dataclass(frozen=True)
class SeasonalRanges:
    """Index ranges of the points at the same time of earlier days, or on the same weekday.

    Attributes
    ----------
    low, high : array of int, shape (cycles, points)
        The first index in each cycle, and the one after the last.
    fewest : int
        Minimum number of points to compare with.
    """

    low: NDArray[np.intp]
    high: NDArray[np.intp]
    fewest: int

    @classmethod
    def from_times(cls, times: NDArray[np.datetime64], cycle: Cycle) -> SeasonalRanges:
        """Find the ranges in the last cycles, from sorted times.

        A time that is missing or goes back counts as the latest before it.

        Parameters
        ----------
        times : array of datetime64[s], shape (points,)
        cycle : Cycle
        """
        given = times.astype("M8[s]").astype(np.int64)
        seconds = np.maximum.accumulate(given).astype(np.float64)
        same = seconds - cycle.seconds * np.arange(1, cycle.cycles + 1)[:, None]
        middle = np.searchsorted(seconds, same)
        low = np.maximum(np.searchsorted(seconds, same - SLACK), middle - SIDE)
        high = np.minimum(np.searchsorted(seconds, same + SLACK, side="right"), middle + SIDE)
        return cls(low, np.maximum(low, np.minimum(high, np.arange(len(times)))), cycle.least)

    def nearest(self, values: Floats, seen: Floats) -> Floats:
        """Return the distance of each value to the nearest of its points; NaN with too few."""
        best = np.full(len(values), np.inf)
        before = np.concatenate([[0], np.cumsum(~np.isnan(seen))])
        count = (before[self.high] - before[self.low]).sum(axis=0)
        for low, high in zip(self.low, self.high, strict=True):
            for k in range(int((high - low).max(initial=0))):
                at = low + k
                gap = np.abs(values - seen[np.minimum(at, len(values) - 1)])
                np.fmin(best, gap, out=best, where=at < high)
        return np.where(count >= self.fewest, best, np.nan)

    def comparable_values(self, i: int, seen: Floats) -> Floats:
        """Return the known values that point ``i`` is compared with."""
        parts = [seen[a:b] for a, b in zip(self.low[:, i], self.high[:, i], strict=True)]
        found = np.concatenate(parts)
        return found[~np.isnan(found)]
