"""Regular time grid of partitions, so that a gap does not shift the season."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

MINUTE_SECONDS, HOUR_SECONDS, DAY_SECONDS = 60, 3600, 86_400
WEEK_SECONDS = 7 * DAY_SECONDS
STEP_SECONDS = (
    *(MINUTE_SECONDS * n for n in (1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 45, 60, 90)),
    *(HOUR_SECONDS * n for n in (2, 3, 4, 6, 8, 12)),
    DAY_SECONDS,
    WEEK_SECONDS,
)
"""Possible steps of a grid: parts of a day, a day, a week."""
MONTH_SECONDS = (28 * DAY_SECONDS, 31 * DAY_SECONDS)
"""Shortest and longest month."""
MAX_STEP_RATIO = 1.5
"""A step fits a grid if it differs from the grid's step by at most this factor."""
FIRST_STEPS = 7
"""Number of first steps that determine the grid; points before them are never scored."""
MAX_GAP_CYCLES = 14
"""Longer gaps are shortened to this many seasons, keeping their phase in the longest season."""
FUTURE_GAP_POSITIONS, MAX_FUTURE_PARTITIONS, MAX_FUTURE_SHARE = 7, 7, 0.05
"""Future partitions are ignored after a gap of more than 7 positions, if they are at most 7 or 5% of all."""
DAYS_PER_WEEK = 7
WEEKS_PER_YEAR, MONTHS_PER_YEAR = 52, 12
"""Slots of a year."""


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
        Columns per season: 7 for days, 24 for hours, 2 for half days, 12 for months, otherwise 1.
    step : int
        Seconds between columns; 0 for months and without a regular step.
    """

    column: NDArray[np.intp]
    size: int
    period: int
    step: int = 0

    @classmethod
    def from_times(cls, times: NDArray[np.datetime64]) -> Grid:
        """Infer the grid from sorted times, by the median of the first steps.

        Partitions take consecutive columns and the period is 1 if they have no times, or if their step is
        not a part of a day, a day, a week or a month.

        Examples
        --------
        >>> days = np.array(["2013-01-01", "2013-01-02", "2013-01-03", "2013-01-06"], "M8[s]")
        >>> Grid.from_times(days).column.tolist(), Grid.from_times(days).period
        ([0, 1, 2, 5], 7)
        >>> Grid.from_times(np.arange("2013-01-01T00", "2013-01-03T00", 12, "M8[h]")).period
        2
        """
        count = len(times)
        if count < 2 or np.isnat(times[: FIRST_STEPS + 1]).any():
            return cls(np.arange(count), count, 1)
        usual = float(np.median(np.diff(times[: FIRST_STEPS + 1]).astype("m8[s]").astype(float)))
        if MONTH_SECONDS[0] <= usual <= MONTH_SECONDS[1]:
            return cls._from_period(times, MONTHS_PER_YEAR, 0)
        step = min(STEP_SECONDS, key=lambda seconds: abs(np.log(max(usual, 1) / seconds)))
        if not 1 / MAX_STEP_RATIO < usual / step < MAX_STEP_RATIO:
            return cls(np.arange(count), count, 1)
        return cls._from_period(
            times, DAYS_PER_WEEK if step == DAY_SECONDS else max(DAY_SECONDS // step, 1), step
        )

    @classmethod
    def _from_period(cls, times: NDArray[np.datetime64], period: int, step: int) -> Grid:
        empty = cls(np.empty(0, dtype=np.intp), 0, period, step)
        steps, longest, cycle = empty.steps(times), MAX_GAP_CYCLES * period, empty.cycle
        column = np.zeros(len(times), dtype=np.intp)
        shortened = longest + (steps - longest) % cycle
        column[1:] = np.cumsum(np.where(steps > longest, shortened, steps))
        return cls(column, int(column[-1]) + 1, period, step)

    def steps(self, times: NDArray[np.datetime64]) -> NDArray[np.intp]:
        """Return the steps from each partition to the next: 1 without a gap.

        Also 1 if either partition has no time, or without a regular step.

        Examples
        --------
        >>> days = np.array(["2013-01-01", "2013-01-02", "2013-01-03", "2014-01-03"], "M8[s]")
        >>> Grid.from_times(days).steps(days).tolist()
        [1, 1, 365]
        """
        if self.months:
            steps = np.diff(times.astype("M8[M]")).astype(np.int64).astype(np.float64)
        elif self.step:
            steps = np.rint(np.diff(times).astype("m8[s]").astype(np.float64) / self.step)
        else:
            steps = np.ones(max(len(times) - 1, 0))
        unknown = np.isnat(times[1:]) | np.isnat(times[:-1])
        whole_steps: NDArray[np.intp] = np.where(unknown, 1, np.maximum(steps, 1)).astype(np.intp)
        return whole_steps

    @property
    def cycle(self) -> int:
        """Columns of the longest season: a week for days and parts of days, a year for weeks and months."""
        if self.step == WEEK_SECONDS:
            return WEEKS_PER_YEAR
        return DAYS_PER_WEEK * self.period if self.within_days else self.period

    @property
    def yearly(self) -> bool:
        """True if the longest season is a year."""
        return self.step == WEEK_SECONDS or self.months

    @property
    def months(self) -> bool:
        """True if partitions are months."""
        return self.period == MONTHS_PER_YEAR and not self.step

    @property
    def daily(self) -> bool:
        """True if partitions are days."""
        return self.step == DAY_SECONDS

    @property
    def within_days(self) -> bool:
        """True if a day has several partitions."""
        return 0 < self.step < DAY_SECONDS

    @property
    def length(self) -> np.timedelta64:
        """Maximum time that a partition spans; a day if there is no regular step."""
        return np.timedelta64(self.step or (MONTH_SECONDS[1] if self.months else DAY_SECONDS), "s")

    def after(
        self,
        time: np.datetime64 | NDArray[np.datetime64],
        columns: int | NDArray[np.integer[Any]] = 1,
    ) -> NDArray[np.datetime64]:
        """Return the times that are ``columns`` after other times; with 1, the ends of their partitions.

        Examples
        --------
        >>> months = np.arange("2013-01", "2013-09", dtype="M8[M]").astype("M8[s]")
        >>> print(Grid.from_times(months).after(months[:2]))
        ['2013-02-01T00:00:00' '2013-03-01T00:00:00']
        """
        times = np.asarray(time)
        if self.months:
            return (times.astype("M8[M]") + columns).astype("M8[s]")
        return np.asarray(times + columns * self.length)

    def passed(self, time: np.datetime64, now: np.datetime64) -> int:
        """Return the number of partitions after ``time`` that have ended by ``now``; at least 0.

        Examples
        --------
        >>> months = np.arange("2013-01", "2013-09", dtype="M8[M]").astype("M8[s]")
        >>> Grid.from_times(months).passed(months[-1], np.datetime64("2013-11-02T00:00:00"))
        2
        """
        if self.months:
            whole_steps = int((now.astype("M8[M]") - time.astype("M8[M]")).astype(np.int64))
        else:
            whole_steps = int((now - time) / self.length)
        return max(whole_steps - 1, 0)

    def current(self, times: NDArray[np.datetime64], now: np.datetime64) -> int:
        """Return the number of partitions before those far in the future, such as ``9999-12-31``.

        The far future begins with the first partition that starts more than a day after ``now`` and follows
        a gap longer than all earlier gaps, if only few partitions follow the gap. So a table
        of bookings, which are mostly in the future, keeps its partitions.

        Parameters
        ----------
        times : array of datetime64[s], shape (partitions,)
            Sorted times.
        now : datetime64[s]
            The present.

        Examples
        --------
        >>> days = np.array(["2013-01-01", "2013-01-02", "2013-01-03", "9999-12-31"], "M8[s]")
        >>> Grid.from_times(days).current(days, np.datetime64("2013-01-04T02:00:00"))
        3
        """
        if len(times) < 2:
            return len(times)
        steps = self.steps(times)
        longest = np.concatenate([[FUTURE_GAP_POSITIONS], steps[:-1]])
        is_longer = steps > np.maximum.accumulate(longest)
        remaining = np.arange(len(steps), 0, -1)
        is_future = times[1:] > now + np.timedelta64(DAY_SECONDS, "s")
        far_future = np.flatnonzero(
            is_future
            & is_longer
            & (remaining <= max(MAX_FUTURE_PARTITIONS, MAX_FUTURE_SHARE * len(times)))
        )
        return int(far_future[0]) + 1 if len(far_future) else len(times)

    def slots(self, times: NDArray[np.datetime64]) -> list[tuple[int, NDArray[np.intp]]]:
        """Return the seasons of the grid: the slots in a cycle, and the slot of each partition.

        Parts of a day have the seasons day and week, days have the week, weeks and months have the year.
        Shorter seasons come first. A week belongs to the year of its middle. The days after the 52nd week of
        a year belong to that week. A partition without a time has the slot -1.

        Examples
        --------
        >>> days = np.arange("2013-01-05", "2013-01-08", dtype="M8[D]").astype("M8[s]")
        >>> [(count, slot.tolist()) for count, slot in Grid.from_times(days).slots(days)]
        [(7, [5, 6, 0])]
        >>> weeks = np.arange("2020-12-14", "2021-01-12", 7, dtype="M8[D]").astype("M8[s]")
        >>> [(count, slot.tolist()) for count, slot in Grid.from_times(weeks).slots(weeks)]
        [(52, [50, 51, 51, 0, 1])]
        """
        unknown = np.isnat(times)
        return [(count, np.where(unknown, -1, slot)) for count, slot in self._slots(times)]

    def _slots(self, times: NDArray[np.datetime64]) -> list[tuple[int, NDArray[np.intp]]]:
        if self.step == WEEK_SECONDS:
            middle = times.astype("M8[D]") + np.timedelta64(DAYS_PER_WEEK // 2, "D")
            day_of_year = (middle - middle.astype("M8[Y]").astype("M8[D]")).astype(np.int64)
            return [(WEEKS_PER_YEAR, np.minimum(day_of_year // DAYS_PER_WEEK, WEEKS_PER_YEAR - 1))]
        if self.period == 1:
            return []
        if self.step == 0:
            return [(MONTHS_PER_YEAR, times.astype("M8[M]").astype(np.int64) % MONTHS_PER_YEAR)]
        seconds = times.astype("M8[s]").astype(np.int64)
        weekday = (seconds // DAY_SECONDS + 3) % DAYS_PER_WEEK  # 1970 began on a Thursday
        if self.daily:
            return [(DAYS_PER_WEEK, weekday)]
        part = seconds % DAY_SECONDS // self.step
        return [(self.period, part), (DAYS_PER_WEEK * self.period, weekday * self.period + part)]

    def part(self, first: int, last: int | None = None) -> Grid:
        """Return the grid of the partitions from ``first`` to ``last``, excluding ``last``."""
        column = self.column[first:last]
        if not len(column):
            return Grid(column, 0, self.period, self.step)
        size = int(column[-1] - column[0]) + 1
        return Grid(column - column[0], size, self.period, self.step)
