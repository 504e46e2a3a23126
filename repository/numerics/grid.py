"""Regular time grid of partitions, so that a gap does not shift the season."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

HOUR, DAY = 3600, 86_400
FIRST_STEPS = 7
"""Steps that determine the grid: those before the first point that is ever scored."""
CYCLES = 14
"""Seasons to which a longer gap is shortened, keeping its phase."""


@dataclass(frozen=True)
class Grid:
    """Column of each partition on a regular time grid.

    Attributes
    ----------
    column : array of int, shape (partitions,)
        Strictly increasing: each partition has its own column.
    size : int
        Number of columns.
    period : int
        Columns per season: 7 for days, 24 for hours, 1 for all else.
    """

    column: NDArray[np.intp]
    size: int
    period: int

    @classmethod
    def from_times(cls, times: NDArray[np.datetime64]) -> Grid:
        """Infer the grid from sorted times, by the median of the first steps.

        Without times, or at steps of neither about an hour nor about a day, partitions take
        consecutive columns and the period is 1.

        Examples
        --------
        >>> days = np.array(["2013-01-01", "2013-01-02", "2013-01-03", "2013-01-06"], "M8[s]")
        >>> Grid.from_times(days).column.tolist(), Grid.from_times(days).period
        ([0, 1, 2, 5], 7)
        """
        count = len(times)
        if count < 2 or np.isnat(times[: FIRST_STEPS + 1]).any():
            return cls(np.arange(count), count, 1)
        seconds = np.diff(times).astype("m8[s]").astype(np.float64)
        seconds[np.isnat(times[1:])] = np.nan
        usual = float(np.median(seconds[:FIRST_STEPS]))
        step = HOUR if usual < DAY / 2 else DAY
        if not 0.5 * HOUR < usual < 1.5 * DAY:
            return cls(np.arange(count), count, 1)
        period = 24 if step == HOUR else 7
        steps = np.nan_to_num(np.rint(seconds / step), nan=1).astype(np.intp)
        longest = CYCLES * period
        steps = np.where(steps > longest, longest + steps % period, np.maximum(steps, 1))
        column = np.concatenate([[0], np.cumsum(steps)])
        return cls(column, int(column[-1]) + 1, period)

    def part(self, first: int, last: int | None = None) -> Grid:
        """Return the grid of the partitions from ``first`` up to, excluding, ``last``."""
        column = self.column[first:last]
        if not len(column):
            return Grid(column, 0, self.period)
        return Grid(column - column[0], int(column[-1] - column[0]) + 1, self.period)
