"""Seasons and lookback of `Seasonal`: the effects it has learned, and the partitions it learns them from.

`SeasonEffects` are effects of hours, weekdays, weeks and months on several series; `DateEffects` are
effects of days of the month and of the year on series of daily partitions, and of parts of days.
Both read the state of a walk (`tidegauge.repository.detectors.walk`). The lookback functions return
the earlier partitions that a score depends on, level shifts among them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from tidegauge.repository.detectors.base import History, Reason, Scores
from tidegauge.repository.numerics.arrays import median
from tidegauge.repository.numerics.forecasts import AGREE, OCCURRENCES, Season
from tidegauge.repository.numerics.grid import Grid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.repository.numerics.arrays import Floats


FEW_CYCLES = 3
"""Cycles of a season below which its newest days count before their cycle is complete."""


class SeasonalWalk(Protocol):
    """State of a walk that its seasons depend on; arrays are as in `Walk`.

    Attributes
    ----------
    learned : int
        Columns before one from which seasons are learned.
    begun : array of int, shape (series,)
        The first column with a value of each series.
    """

    grid: Grid
    column: NDArray[np.intp]
    moved: Floats
    usable: Floats
    filled: Floats
    learned: int
    begun: NDArray[np.intp]


class SeasonEffects:
    """Effects of the seasons of a walk, shorter ones first.

    Each point is compared with the mean of the cycle around it, half a cycle later. Of several
    seasons, the longer ones explain what the shorter ones leave.

    Parameters
    ----------
    walk : SeasonalWalk
    slots : sequence of (int, array of int)
        The slots in a cycle of each season, and the slot of each partition, as `Grid.slots` returns them.

    Attributes
    ----------
    seasons : list of Season
    slot : array of int, shape (columns,)
        The slot of each column in the longest season; -1 where there is no partition.
    """

    def __init__(self, walk: SeasonalWalk, slots: Sequence[tuple[int, NDArray[np.intp]]]) -> None:
        self.walk = walk
        series, columns = walk.moved.shape
        self.seasons = [Season(series, count) for count, _ in slots]
        self.slot = np.full(columns, -1)
        if slots:
            self.slot[walk.column] = slots[-1][1]

    def effects(self, c: int, points: NDArray[np.intp]) -> Floats:
        """Return the effects of all slots of the longest season, as of a column.

        Parameters
        ----------
        c : int
        points : array of int, shape (series,)
            Number of points from which the effects are learned.

        Returns
        -------
        array, shape (series, slots)
        """
        found = np.zeros((len(points), 1))
        for season in self.seasons:
            # With the cycle around it, an occurrence is learned from columns within reach.
            season.forget(c - self.walk.learned + season.slots // 2)
            known = np.tile(found, season.slots // found.shape[1])
            found = known + season.effects(points, known, self._newest(season, c, points))
        return found

    def learn(self, t: int) -> None:
        """Learn from a partition, and from the empty columns between it and the one before."""
        for season in self.seasons:
            for place in self._places(t, t + 1):
                self._compare(season, place)
                new = np.flatnonzero(self.walk.begun == place - season.slots + 1)
                if self.walk.grid.daily and new.size:
                    self._begin(season, slice(place - season.slots + 1, place + 1), new)

    def learn_together(self, first: int, end: int) -> None:
        """Learn from several partitions that are not among the first of any series."""
        for season in self.seasons:
            for place in self._remembered(season, self._places(first, end)):
                self._compare(season, place)

    def _newest(
        self, season: Season, c: int, points: NDArray[np.intp]
    ) -> tuple[Floats, NDArray[np.bool_]] | None:
        """Return the newest half cycle, not yet in the season, against the mean of the last cycle.

        Only while some series have few cycles: later ones do not need it.
        """
        new = (points >= season.slots) & (points < FEW_CYCLES * season.slots)
        if not new.any():
            return None
        swing = np.full((len(points), season.slots), np.nan)
        alarmed = np.zeros(swing.shape, dtype=bool)
        mean = self._mean(slice(c - season.slots, c), np.ones(season.slots))
        for p in range(c - season.slots // 2, c):
            if self.slot[p] >= 0:
                slot = self.slot[p] % season.slots
                swing[new, slot] = (self.walk.moved[:, p] - mean)[new]
                alarmed[new, slot] = np.isnan(self.walk.usable[new, p])
        return swing, alarmed

    def _places(self, first: int, end: int) -> range:
        """Return the columns of some partitions, and those between them and the one before."""
        column = self.walk.column
        before = column[first - 1] if first else column[first] - 1
        return range(int(before) + 1, int(column[end - 1]) + 1)

    def _remembered(self, season: Season, places: range) -> list[int]:
        """Return the columns at which a season is given what it will still remember after the last."""
        count, found = np.zeros(season.slots, dtype=np.intp), []
        for place in reversed(places):
            slot = self.slot[place - season.slots // 2]
            if slot >= 0 and count[slot % season.slots] < OCCURRENCES:
                count[slot % season.slots] += 1
                found.append(place)
        return found[::-1]

    def _compare(self, season: Season, c: int) -> None:
        """Add the point half a cycle ago to a season: the cycle around it is now complete."""
        half = season.slots // 2
        slot = self.slot[c - half]
        if slot < 0:
            return
        share = np.ones(2 * half + 1)
        if season.slots % 2 == 0:
            share[[0, -1]] = 0.5
        mean = self._mean(slice(c - 2 * half, c + 1), share)
        # The first days have no whole cycle around them: without a weekend they would be low.
        mean[self.walk.begun > c - 2 * half] = np.nan
        swing = self.walk.moved[:, c - half] - mean
        alarmed = np.isnan(self.walk.usable[:, c - half])
        season.push(slot % season.slots, swing, alarmed, c - half)

    def _begin(self, season: Season, first: slice, new: NDArray[np.intp]) -> None:
        """Compare the first days of some series with the mean of their first week.

        Of days only: one December that stood out would keep a year from being learned.
        """
        mean = self._mean(first, np.ones(season.slots))
        for p in range(first.start, first.start + season.slots // 2):
            if self.slot[p] >= 0:
                swing = self.walk.moved[:, p] - mean
                alarmed = np.isnan(self.walk.usable[:, p])
                season.push(self.slot[p] % season.slots, swing, alarmed, p, new)

    def _mean(self, columns: slice, share: Floats) -> Floats:
        """Return the weighted means of columns; NaN where less than half of a cycle is known."""
        around = self.walk.filled[:, columns]
        known = ~np.isnan(around)
        count = known @ share
        mean = np.where(known, around, 0) @ share / np.maximum(count, 1)
        found: Floats = np.where(2 * count >= share.sum(), mean, np.nan)
        return found


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


TEACHES_BELOW = 3.0
"""Score from which a point is excluded from training."""
SHIFT_ALARMS, SHIFT_WITHIN = 4, 6
"""Alarms to one side within so many points by which a level shift is accepted, at the least."""
SHIFT_SHARE = 0.75
"""Share of a day that must alarm, where partitions are parts of a day."""
NEW_DAYS = 3
"""Days that a level lasts in a new series, whose weekends are unknown."""
SHORT, LONG = 7, 24
"""Minimum and maximum cycle length, in points, by which memory is sized."""


def lookback_of(grid: Grid, cycles: int) -> tuple[int, int]:
    """Return the columns from which level and spread are estimated, and those of the seasons."""
    return cycles * min(max(grid.period, SHORT), LONG), (OCCURRENCES + 2) * grid.cycle


def margin_of(grid: Grid, cycles: int) -> int:
    """Return the columns before a point of which its score may read the values."""
    return max(_training_columns(grid, cycles), (YEAR + AROUND + BASE[0]) * grid.daily)


def padding_of(grid: Grid, cycles: int, start: int) -> int:
    """Return the empty columns before a history of which the partitions from ``start`` on are scored.

    So no slice of the columns before one begins before the first. A history that is long enough by
    itself needs few of them.
    """
    learned = max(*lookback_of(grid, cycles), AROUND * columns_of_day(grid))
    known = int(grid.column[min(start, len(grid.column) - 1)]) if len(grid.column) else 0
    return max(learned, margin_of(grid, cycles) - known)


def _training_columns(grid: Grid, cycles: int) -> int:
    """Return the columns before a point from which its score may have learned."""
    dates = (days_within(grid) + AROUND) * columns_of_day(grid) if days_within(grid) else 0
    return max(*lookback_of(grid, cycles), dates)


def first_training_partition(grid: Grid, cycles: int, start: int) -> int:
    """Return the first partition from which scores from `start` on may have learned."""
    return max(start - _training_columns(grid, cycles) - _shift_reach(grid), 0)


def unsettled(history: History, cycles: int, start: int, known: Scores) -> NDArray[np.bool_]:
    """Return a mask of the series that are learned from one partition after the other.

    Their level may have shifted or recovered before `start`, or their first days lie there. What the
    others learn from a partition does not depend on those before.
    """
    grid = history.grid or Grid.from_times(history.times)
    first = first_training_partition(grid, cycles, start)
    score, reason = known.score[:, first:start], known.reason[:, first:start]
    alarm = (score >= TEACHES_BELOW) & (reason != Reason.DRIFT)
    alarms, within = shift_rule(grid)
    found: NDArray[np.bool_] = (reason == Reason.RECOVERY).any(axis=1)
    some = np.flatnonzero(alarm.sum(axis=1) >= alarms)
    count = np.cumsum(alarm[some], axis=1, dtype=np.intp)
    count[:, within:] -= count[:, :-within].copy()
    found[some] |= (count >= alarms).any(axis=1)
    if grid.daily and first < start:
        begun = grid.column[(~np.isnan(history.values)).argmax(axis=1)]
        found |= begun > grid.column[first] - grid.cycle
    return found


def shift_rule(grid: Grid, *, new: bool = False) -> tuple[int, int]:
    """Return the alarms by which a level shift is accepted, and the points within which they lie.

    Parts of a day must alarm for most of a day: a few hours are no level. In a ``new`` series, whose
    weekends are not known yet, they must do so for longer than a weekend.
    """
    if not grid.within_days:
        return SHIFT_ALARMS, SHIFT_WITHIN
    points = grid.period * (NEW_DAYS if new else 1)
    return max(SHIFT_ALARMS, math.ceil(SHIFT_SHARE * points)), max(SHIFT_WITHIN, points + 2)


def reach_of(grid: Grid, cycles: int) -> int:
    """Return the number of earlier columns that a score may depend on."""
    seasons = lookback_of(grid, cycles)[1] if grid.within_days else 0  # by which a series is new
    return margin_of(grid, cycles) + _shift_reach(grid) + seasons


def _shift_reach(grid: Grid) -> int:
    """Return the columns of two level shifts.

    Alarms that confirm a new level may lie across the edge, as may those of the one before.
    """
    return 2 * shift_rule(grid, new=True)[1]
