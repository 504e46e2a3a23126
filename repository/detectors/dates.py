"""Effects of days of the month and of the year on series of daily partitions, and of parts of days."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

import numpy as np

from tidegauge.repository.numerics.medians import median
from tidegauge.repository.numerics.seasons import AGREE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.repository.numerics.arrays import Floats
    from tidegauge.repository.numerics.grid import Grid

CALENDAR, CALENDAR_OF_PARTS = 220, 66
"""Days within which a day of the month must have been repeated; in parts of days, of which there are many."""
MONTHS, MOST = 3, 2 / 3
"""Last occurrences of a day of the month by which it is judged, and the share of them that must agree."""
ALWAYS = 5
"""Last occurrences that must all have stood out alike for a day of the month to be expected to."""
AROUND = 7
"""Days before and after a day of the month by which its effect is measured."""
YEAR = 365
BASE = (45, 15)
"""Days before a day of the year from whose level its effect is measured: from, until."""
SURPRISE = 3.0
"""Spreads off from which a day is compared with the same days of earlier months."""
NOTICEABLE = 2.0
"""Spreads by which every one of these days must have stood out."""


def days_within(grid: Grid) -> int:
    """Return the days within which days of the month are compared with each other; 0 for none."""
    return CALENDAR if grid.daily else CALENDAR_OF_PARTS if grid.within_days else 0


def columns_of_day(grid: Grid) -> int:
    """Return the columns of a day: parts of days have several."""
    return grid.period if grid.within_days else 1


class Walked(Protocol):
    """State of a walk that its dates depend on. Arrays are of shape (series, columns) if not told otherwise.

    Attributes
    ----------
    days : array of datetime64[D], shape (partitions,)
    column, slot : array of int
        The column of each partition, and the slot of each column in the longest season.
    effects : array, shape (series, slots)
        Of that season.
    """

    grid: Grid
    days: NDArray[np.datetime64]
    column: NDArray[np.intp]
    slot: NDArray[np.intp]
    effects: Floats
    y: Floats
    moved: Floats
    usable: Floats
    signs: Floats
    told: NDArray[np.bool_]


class DateEffects:
    """Effects of days of the month and of the year, by what a walk has learned so far.

    Parameters
    ----------
    walk : Walked
    month : array of int, shape (ways, partitions), optional
        Slots of days of the month, as `month_slots` counts them; none if they are not looked for.
    works : array of bool, shape (partitions,)
        Whether each is of a working day.
    rolled : array of int, shape (ways, 2, partitions)
        Days of the month that fall due, as `rolled_days` counts them.
    enough : int
        Occurrences that must agree.
    yearly : bool
        Whether days of the year are looked for.
    """

    def __init__(
        self,
        walk: Walked,
        month: NDArray[np.intp] | None,
        works: NDArray[np.bool_],
        rolled: NDArray[np.intp],
        *,
        enough: int,
        yearly: bool,
    ) -> None:
        self.walk, self.works, self.rolled = walk, works, rolled
        if month is None:
            month, self.rolled = np.empty((0, len(walk.days)), np.intp), rolled[:0]
        self.month = month
        self.per_day = columns_of_day(walk.grid)
        self.part = walk.column % self.per_day
        self.enough, self.yearly = enough, yearly

    def expected(self, t: int, y: Floats, centre: Floats, width: Floats) -> Floats:
        """Return the expected values; of surprises those of the same day of months or a year ago.

        Where several would explain a value, the nearest is expected. A part of a day is compared with
        the same part of other days; a year of them is not looked for.
        """
        daily = self.walk.grid.daily
        if not days_within(self.walk.grid):
            return centre
        surprise = np.abs(y - centre) > SURPRISE * width
        some = np.flatnonzero(surprise)
        plain = ~surprise & ~np.isnan(y)
        found = self._due(t, centre, width, plain) if daily else centre.copy()
        if not some.size:
            return found
        for same in [self._same_days(t, slots) for slots in self.month] + self._due_alike(t):
            effects, _ = self.effect_of_days(same, some, width[some])
            self._explain(found, some, y, centre[some] + effects)
        if not daily:
            return found
        self._explain(found, some, y, self._of_last_year(t, some, width[some]))
        for effects in self._of_days_last_year(t, some, width[some]):
            self._explain(found, some, y, centre[some] + effects)
        return found

    def _due(self, t: int, centre: Floats, width: Floats, plain: NDArray[np.bool_]) -> Floats:
        """Return the expected values; of plain ones those of a day of the month that always stood out.

        So a month end that does not come is a surprise. Each of the last `ALWAYS` days must have stood
        out alike. Where these were one day by another way of counting, too, that must expect the same: it is
        not known which way counts. A day off is expected to stand out only if one of them was one, as
        paydays move to working days; likewise a working day.
        """
        days = [self._same_days(t, slots, ALWAYS) for slots in self.month]
        effects = [self._always(same, width, plain) for same in days]
        found = centre.copy()
        for same, effect in zip(days, effects, strict=True):
            due = ~np.isnan(effect)
            if not due.any() or not (self.works[same] == self.works[t]).any():
                continue
            for slots, other in zip(self.month, effects, strict=True):
                alike = slots[same]
                if alike[0] >= 0 and (alike == alike[0]).all():
                    due &= (slots[t] == alike[0]) & ~np.isnan(other)
            found[due] = (centre + effect)[due]
        return found

    def _always(self, same: NDArray[np.intp], width: Floats, plain: NDArray[np.bool_]) -> Floats:
        """Return the effect that all of some days had on the series, where it is large; else NaN."""
        found = np.full(len(width), np.nan)
        if len(same) < ALWAYS:
            return found
        columns = self.walk.column[same]
        odd = (self.walk.signs[:, columns] != 0) | self.walk.told[:, columns]
        some = np.flatnonzero(odd.all(axis=1) & plain)
        if some.size:
            effect, alike = self.effect_of_days(same, some, width[some])
            always = (alike == len(same)) & (np.abs(effect) > SURPRISE * width[some])
            found[some] = np.where(always, effect, np.nan)
        return found

    def _explain(self, found: Floats, some: NDArray[np.intp], y: Floats, expected: Floats) -> None:
        """Replace expected values by others that are nearer to the values; NaN is none."""
        nearer = np.abs(y[some] - expected) < np.abs(y[some] - found[some])
        found[some[nearer]] = expected[nearer]

    def _same_days(self, t: int, slots: NDArray[np.intp], last: int = MONTHS) -> NDArray[np.intp]:
        """Return the last partitions of the same day of months; none if it has no slot."""
        if slots[t] < 0:
            return np.empty(0, dtype=np.intp)
        return self._last(t, slots[self._since(t) : t] == slots[t], last)

    def _due_alike(self, t: int) -> list[NDArray[np.intp]]:
        """Return, for each day of the month that may be due on a partition, the last on which it was.

        So a payday is expected on the 14th if the 15th is a Saturday.
        """
        since, found = self._since(t), []
        for first, last in self.rolled:
            for due in range(first[t], last[t] + 1):
                was = (first[since:t] <= due) & (due <= last[since:t])
                found.append(self._last(t, was, MONTHS))
        return found

    def _last(self, t: int, alike: NDArray[np.bool_], most: int) -> NDArray[np.intp]:
        """Return the last partitions of a mask up to `t` that are the same part of their day."""
        since = t - len(alike)
        same = alike & (self.part[since:t] == self.part[t])
        found: NDArray[np.intp] = since + np.flatnonzero(same)[-most:]
        return found

    def _since(self, t: int) -> int:
        """Return the first partition of which days of the month are compared with one."""
        reach = self.walk.days[t] - np.timedelta64(days_within(self.walk.grid), "D")
        return int(np.searchsorted(self.walk.days, reach))

    def effect_of_days(
        self, same: NDArray[np.intp], some: NDArray[np.intp], width: Floats
    ) -> tuple[Floats, NDArray[np.intp]]:
        """Return the effect that some partitions share, NaN for none, and how many of them agree.

        It is the median, and most must stand out and agree with it: an incident on one of them is no
        reason to forget the others.
        """
        if len(same) < self.enough:
            return np.full(len(some), np.nan), np.zeros(len(some), dtype=np.intp)
        out = np.stack([self._stands_out(some, self.walk.column[p]) for p in same], axis=1)
        effect = median(out)
        alike = np.abs(out - effect[:, None]) <= AGREE / 2 * np.abs(effect)[:, None]
        alike &= np.abs(out) > NOTICEABLE * width[:, None]
        count = alike.sum(axis=1)
        most = count >= max(self.enough, math.ceil(MOST * len(same)))
        return np.where(most, effect, np.nan), count

    def _of_last_year(self, t: int, some: NDArray[np.intp], width: Floats) -> Floats:
        """Return the expected values by how much the days around this one left the level a year ago."""
        now = self.walk.column[t]
        ago = now - YEAR
        if not self.yearly or ago - BASE[0] < self.walk.column[0]:
            return np.full(len(some), np.nan)
        week = median(self._plain(some, ago - AROUND // 2, ago + AROUND // 2 + 1))
        effect = week - median(self._plain(some, ago - BASE[0], ago - BASE[1]))
        level = median(self._plain(some, now - BASE[0], now - BASE[1]))
        expected = level + effect + self.walk.effects[some, self.walk.slot[now]]
        return np.where(np.abs(effect) > SURPRISE * width, expected, np.nan)

    def _of_days_last_year(self, t: int, some: NDArray[np.intp], width: Floats) -> Iterator[Floats]:
        """Yield by how much single days around this one stood out a year ago; NaN where they did not."""
        ago = int(self.walk.column[t]) - YEAR
        if not self.yearly or ago - AROUND - 1 < self.walk.column[0]:
            return
        for day in (ago - 1, ago, ago + 1):
            around = self._plain(some, day - AROUND, day + AROUND + 1)
            out = around[:, AROUND] - median(np.delete(around, AROUND, axis=1))
            yield np.where(np.abs(out) > SURPRISE * width, out, np.nan)

    def _plain(self, some: NDArray[np.intp], first: int, last: int) -> Floats:
        """Return the values of columns as they were, weekdays apart."""
        seasons = self.walk.effects[np.ix_(some, self.walk.slot[first:last])]
        plain: Floats = self.walk.y[some, first:last] - seasons
        return plain

    def _stands_out(self, some: NDArray[np.intp], c: int) -> Floats:
        """Return by how much a column differs from those around it, weekdays apart."""
        around = c + self.per_day * np.arange(-AROUND, AROUND + 1)
        around = around[(around < self.walk.slot.size) & (around != c)]
        seasons = self.walk.effects[np.ix_(some, self.walk.slot[around])]
        level = median(self.walk.usable[np.ix_(some, around)] - seasons)
        out: Floats = self.walk.moved[some, c] - self.walk.effects[some, self.walk.slot[c]] - level
        return out
