"""Values of metrics on the scales on which they are compared, and back; times by their partitions' own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tidegauge.analyzers.core.metric import Scale
from tidegauge.repository.detectors.base import History
from tidegauge.repository.numerics.scales import ScaleRows, restore, rows_of, transform

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.repository.numerics.arrays import Floats

STEPS = 7
"""Last changes of a time by which it moves along with its partitions, or stays where it is."""


class Units:
    """Scales of a history's series. Times are those since their partition began: of a day, the time of day.

    Attributes
    ----------
    rows : ScaleRows
    timed : array of int
        The series that are times.
    stays : array of float, shape (series, partitions)
        Where a time stayed as it was through most of the changes before a partition: that time, on the
        scale; else NaN. The first date of a table that is copied whole every day stays.
    """

    def __init__(self, history: History) -> None:
        self.rows = ScaleRows.from_scales(history.scales)
        self.timed: NDArray[np.intp] = rows_of(Scale.TIME, history.scales)
        seconds = history.times.astype("M8[s]").astype(float)
        self._began: Floats = np.where(np.isnat(history.times), 0, seconds)
        self.stays: Floats = np.full(history.values.shape, np.nan)
        for i in self.timed:
            self.stays[i] = _last_that_stayed(history.values[i], self._began) - self._began

    def transformed(self, values: Floats, partitions: slice) -> Floats:
        """Return values of some partitions on their scales."""
        if self.timed.size:
            values = values.copy()
            values[self.timed] -= self._began[partitions]
        return transform(values, self.rows)

    def restored(self, values: Floats, t: int) -> Floats:
        """Return values of a partition in the metrics' units."""
        found = restore(values, self.rows)
        found[self.timed] += self._began[t]
        return found


def _last_that_stayed(values: Floats, began: Floats) -> Floats:
    """Return the last time before each partition, NaN where most times move along with the partitions."""
    found = np.full(len(values), np.nan)
    known = np.flatnonzero(np.isfinite(values))
    change = np.diff(values[known])
    stayed = np.abs(change) < np.abs(change - np.diff(began[known]))
    count = np.concatenate([[0], np.cumsum(stayed)])
    place = np.searchsorted(known, np.arange(len(values)))  # known points before each
    last = np.maximum(place - 1, 0)  # changes before each
    first = np.maximum(last - STEPS, 0)
    most = 2 * (count[last] - count[first]) > last - first
    found[most] = values[known[place[most] - 1]]
    return found
