"""What the points before each one tell of it: moments, and medians of size."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from repository.anomalies.detector import Floats

WARM = 14
"""Points that must be known before the first z."""
EQUAL = 1e-9
"""Numbers that differ by a smaller share do not differ."""


@dataclass
class Past:
    """Count, mean and standard deviation of what was known before each point."""

    count: Floats
    mean: Floats
    sd: Floats

    @classmethod
    def of(cls, given: Floats) -> Past:
        """Take them of some numbers, NaN where unknown.

        Examples
        --------
        >>> past = Past.of(np.array([1.0, 3.0, np.nan, 5.0]))
        >>> past.count, past.mean, past.sd
        (array([0., 1., 2., 2.]), array([1., 1., 2., 2.]), array([0., 0., 1., 1.]))
        """
        known = ~np.isnan(given)
        first = given[np.argmax(known)] if known.any() else 0.0
        moved = np.where(known, given - first, 0.0)  # or squares of large equal numbers cancel
        count, total, squares = (
            np.concatenate([[0.0], np.cumsum(x)[:-1]]) for x in (known, moved, moved * moved)
        )
        mean = total / np.maximum(count, 1)
        variance = squares / np.maximum(count, 1) - mean * mean
        return cls(count, mean + first, np.sqrt(np.maximum(variance, 0.0)))

    def z(self, distance: Floats, unit: Floats) -> Floats:
        """Return by how many standard deviations distances exceed the mean; 0 where little is known.

        Where earlier ones do not differ, as compared with a unit, it is the root of their number.
        """
        off = np.maximum(distance - self.mean, 0.0)
        z = np.where(self.sd > EQUAL * unit, off / self.sd, np.sqrt(self.count))
        return np.where((self.count >= WARM) & (off > EQUAL * unit), z, 0.0)


def middles(seen: Floats, prefix: int) -> Floats:
    """Return the median of the absolute values before each, of the first few; 0 before all.

    Examples
    --------
    >>> middles(np.array([1.0, -3.0, np.nan, 5.0, 7.0]), 3)
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
