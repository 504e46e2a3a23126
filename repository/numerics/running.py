"""Running statistics of the points before each point: moments, and medians of absolute values."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tidegauge.repository.numerics.arrays import Floats

WARM = 14
"""Known points required before the first z."""
EQUAL = 1e-9
"""Relative tolerance below which numbers are equal."""


@dataclass
class RunningMoments:
    """Running count, mean and standard deviation of the known values before each point."""

    count: Floats
    mean: Floats
    sd: Floats

    @classmethod
    def from_values(cls, given: Floats) -> RunningMoments:
        """Compute the statistics of a series, in which NaN is unknown.

        Examples
        --------
        >>> past = RunningMoments.from_values(np.array([1.0, 3.0, np.nan, 5.0]))
        >>> past.count, past.mean, past.sd
        (array([0., 1., 2., 2.]), array([1., 1., 2., 2.]), array([0., 0., 1., 1.]))
        """
        known = ~np.isnan(given)
        first = given[np.argmax(known)] if known.any() else 0.0
        moved = np.where(known, given - first, 0.0)  # squares of large, equal numbers would cancel
        count, total, squares = (
            np.concatenate([[0.0], np.cumsum(x)[:-1]]) for x in (known, moved, moved * moved)
        )
        mean = total / np.maximum(count, 1)
        variance = squares / np.maximum(count, 1) - mean * mean
        return cls(count, mean + first, np.sqrt(np.maximum(variance, 0.0)))

    def z(self, distance: Floats, unit: Floats) -> Floats:
        """Return the one-sided z-score of distances; 0 with fewer than `WARM` earlier values.

        Where the earlier standard deviation is negligible compared with ``unit``, it is the square
        root of their number; 0 where the excess over the mean is negligible.
        """
        off = np.maximum(distance - self.mean, 0.0)
        z = np.where(self.sd > EQUAL * unit, off / self.sd, np.sqrt(self.count))
        return np.where((self.count >= WARM) & (off > EQUAL * unit), z, 0.0)


def running_absolute_medians(seen: Floats, prefix: int) -> Floats:
    """Return the running median of earlier absolute values, of the first `prefix`; 0 before any.

    Examples
    --------
    >>> running_absolute_medians(np.array([1.0, -3.0, np.nan, 5.0, 7.0]), 3)
    array([0., 1., 2., 2., 3.])
    """
    found: list[float] = []
    met: list[float] = []
    middle = 0.0
    for x in np.abs(seen).tolist():
        found.append(middle)
        if len(met) < prefix and x == x:  # noqa: PLR0124 - that is, not NaN
            insort(met, x)
            middle = (met[len(met) // 2] + met[(len(met) - 1) // 2]) / 2
    return np.array(found)
