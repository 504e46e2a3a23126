"""Seasons and lookback of `Seasonal`: learned effects, and the partitions they are learned from.

`SeasonEffects` are effects of hours, weekdays, weeks and months on several series. `DateEffects` are
effects of days of the month and of the year, on series of daily or shorter partitions. Both read the
state of a walk (`tidegauge.repository.detectors.walk`). The lookback functions return the earlier
partitions that a score depends on, including level shifts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from tidegauge.repository.detectors.base import History, Reason, Scores
from tidegauge.repository.numerics.arrays import median
from tidegauge.repository.numerics.forecasts import (
    AGREEMENT_TOLERANCE,
    MAX_YEARLY_COLUMNS,
    Forecast,
    Season,
    YearlyModels,
    occurrences_of,
)
from tidegauge.repository.numerics.grid import WEEKS_PER_YEAR, Grid
from tidegauge.repository.numerics.tails import WEEK_POINTS, student_score

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.repository.numerics.arrays import Floats

    Mask = NDArray[np.bool_]


FEW_CYCLES = 3
"""With fewer cycles, the newest days of a season are used before their cycle is complete."""


class SeasonalWalk(Protocol):
    """State of a walk that its seasons depend on; arrays as in `Walk`.

    Attributes
    ----------
    windows : ScoringWindows
        Numbers of columns that scores depend on.
    first_columns : array of int, shape (series,)
        The first column with a value of each series.
    """

    grid: Grid
    column: NDArray[np.intp]
    moved: Floats
    usable: Floats
    filled: Floats
    windows: ScoringWindows
    first_columns: NDArray[np.intp]


class SeasonEffects:
    """Effects of the seasons of a walk, the shortest first.

    Each point is compared with the mean of the cycle around it, half a cycle later. Parts of days have the season
    of a day until they have that of a week.

    Parameters
    ----------
    walk : SeasonalWalk
    slots : sequence of (int, array of int)
        The slots in a cycle of each season, and the slot of each partition, as `Grid.slots` returns them.

    Attributes
    ----------
    seasons : list of Season
    slot : array of int, shape (columns,)
        The slot of each column in the longest season; -1 for columns without a partition.
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
        effects = np.zeros((len(points), 1))
        for season in self.seasons:
            # With the cycle around it, an occurrence is learned from columns within reach.
            season.forget(c - self.walk.windows.season + season.slots // 2)
            newest = self._newest(season, c, points)
            if self.walk.grid.within_days and season.slots > self.walk.grid.period:
                shorter_effects = np.tile(effects, season.slots // effects.shape[1])
                by_weekday = season.effects_by_weekday(points, newest)
                effects = np.where(np.isnan(by_weekday), shorter_effects, by_weekday)
            else:
                effects = season.effects(points, newest)
        return effects

    def learn(self, t: int) -> None:
        """Learn from a partition, and from the empty columns since the previous one."""
        for season in self.seasons:
            for column in self._columns_since(t, t + 1):
                self._compare(season, column)
                starting = np.flatnonzero(self.walk.first_columns == column - season.slots + 1)
                if self.walk.grid.daily and starting.size:
                    self._begin(season, slice(column - season.slots + 1, column + 1), starting)

    def learn_together(self, first: int, end: int) -> None:
        """Learn from several partitions, none of them among the first partitions of a series."""
        for season in self.seasons:
            for column in self._remembered(season, self._columns_since(first, end)):
                self._compare(season, column)

    def _newest(
        self, season: Season, c: int, points: NDArray[np.intp]
    ) -> tuple[Floats, NDArray[np.bool_]] | None:
        """Return the newest half cycle, not yet in the season, relative to the mean of the last cycle.

        Returns None if all series have enough cycles.
        """
        is_new = (points >= season.slots) & (points < FEW_CYCLES * season.slots)
        if not is_new.any():
            return None
        swing = np.full((len(points), season.slots), np.nan)
        alarmed = np.zeros(swing.shape, dtype=bool)
        mean = self._mean(slice(c - season.slots, c), np.ones(season.slots))
        for p in range(c - season.slots // 2, c):
            if self.slot[p] >= 0:
                slot = self.slot[p] % season.slots
                swing[is_new, slot] = (self.walk.moved[:, p] - mean)[is_new]
                alarmed[is_new, slot] = np.isnan(self.walk.usable[is_new, p])
        return swing, alarmed

    def _columns_since(self, first: int, end: int) -> range:
        """Return the columns from the one after the previous partition to the last of these partitions."""
        column = self.walk.column
        previous = column[first - 1] if first else column[first] - 1
        return range(int(previous) + 1, int(column[end - 1]) + 1)

    def _remembered(self, season: Season, columns: range) -> list[int]:
        """Return the columns whose occurrences a season still remembers after the last column."""
        count, remembered = np.zeros(season.slots, dtype=np.intp), []
        for column in reversed(columns):
            slot = self.slot[column - season.slots // 2]
            if slot >= 0 and count[slot % season.slots] < occurrences_of(season.slots):
                count[slot % season.slots] += 1
                remembered.append(column)
        return remembered[::-1]

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
        # The first days have no complete cycle around them: without a weekend their mean is biased.
        mean[self.walk.first_columns > c - 2 * half] = np.nan
        swing = self.walk.moved[:, c - half] - mean
        alarmed = np.isnan(self.walk.usable[:, c - half])
        season.push(slot % season.slots, swing, alarmed, c - half)

    def _begin(self, season: Season, first: slice, new: NDArray[np.intp]) -> None:
        """Compare the first days of some series with the mean of their first week.

        This is done for days only: a single unusual December would prevent a yearly season from being
        learned.
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
        is_known = ~np.isnan(around)
        count = is_known @ share
        # Unlike a product of matrices, this rounds the same whatever the other rows are.
        total = np.einsum("ij,j->i", np.where(is_known, around, 0), share)
        mean = total / np.maximum(count, 1)
        result: Floats = np.where(2 * count >= share.sum(), mean, np.nan)
        return result


DATE_WINDOW_DAYS, PARTS_DATE_WINDOW_DAYS = 220, 66
"""Days of the month are compared within this many days. Partitions within days are many, so fewer suffice."""
COMPARED_MONTHS, MIN_AGREEING_SHARE = 3, 2 / 3
"""A day of the month is compared with its last 3 occurrences, and two thirds of them must agree."""
DUE_OCCURRENCES = 5
"""A day of the month is expected to be unusual after this many occurrences that were unusual in the same way."""
ROLLED_WAYS = 2
"""Ways in which a payment that is due on a day off moves: back and forward."""
NEIGHBOUR_DAYS = 7
"""The effect of a day is its distance from the median of this many days before and after it."""
DAYS_PER_YEAR = 365
BASELINE_DAYS = (45, 15)
"""The effect of a day of the year is its distance from the level of these days before it: first, last."""
SEASON_DAYS = 63
"""A season of the year begins and ends within so many days; a change that lasts longer is a new level."""
SURPRISE_SPREADS = 3.0
"""Points beyond this many spreads are compared with the same day of earlier months."""
MIN_NOTICEABLE_SPREADS = 2.0
"""Each agreeing day must have deviated by more than this many spreads."""


def days_within(grid: Grid) -> int:
    """Return the number of days within which days of the month are compared; 0 if they are not."""
    return DATE_WINDOW_DAYS if grid.daily else PARTS_DATE_WINDOW_DAYS if grid.within_days else 0


def columns_of_day(grid: Grid) -> int:
    """Return the columns of a day: parts of days have several."""
    return grid.period if grid.within_days else 1


class Walked(Protocol):
    """State of a walk that its dates depend on; arrays of shape (series, columns) unless stated.

    Attributes
    ----------
    days : array of datetime64[D], shape (partitions,)
    column, slot : array of int
        The column of each partition, and the slot of each column in the longest season.
    effects : array, shape (series, slots)
        Effects of that season.
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
    excluded_from_tail: NDArray[np.bool_]


class DateEffects:
    """Effects of days of the month and of the year, as learned by a walk so far.

    Parameters
    ----------
    walk : Walked
    month : array of int, shape (ways, partitions), optional
        Slots of days of the month, as returned by `month_slots`; None to ignore days of the month.
    works : array of bool, shape (partitions,)
        True for partitions on a working day.
    rolled : array of int, shape (2 * ways, 2, partitions)
        Days of the month that are due, as returned by `rolled_days`; then those of the day before.
    enough : int
        Minimum number of occurrences that agree.
    yearly : bool
        True to compare with the same days of the previous year.
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
        """Return the expected values; for surprises, the value of the same day of other months or years.

        If several days would explain a value, the nearest is expected. A part of a day is compared with
        the same part of other days of the month, but not with the year before.
        """
        daily = self.walk.grid.daily
        if not days_within(self.walk.grid):
            return centre
        surprise = np.abs(y - centre) > SURPRISE_SPREADS * width
        surprising = np.flatnonzero(surprise)
        plain = ~surprise & ~np.isnan(y)
        expected_values = self._expect_due_days(t, centre, width, plain) if daily else centre.copy()
        if not surprising.size:
            return expected_values
        same = [self._same_days(t, slots) for slots in self.month]
        for days in same + self._days_due_together(t, COMPARED_MONTHS, self.rolled):
            effects, _ = self.effect_of_days(days, surprising, width[surprising])
            self._explain(expected_values, surprising, y, centre[surprising] + effects)
        if not daily:
            return expected_values
        for expected in self._of_last_year(t, surprising, width[surprising]):
            self._explain(expected_values, surprising, y, expected)
        for effects in self._of_days_last_year(t, surprising, width[surprising]):
            self._explain(expected_values, surprising, y, centre[surprising] + effects)
        return expected_values

    def _expect_due_days(
        self, t: int, centre: Floats, width: Floats, plain: NDArray[np.bool_]
    ) -> Floats:
        """Return the expected values; for plain values, the value of a day of the month that was always unusual.

        So a missing month end is a surprise. Each of the last `DUE_OCCURRENCES` days must have been unusual
        in the same way. If all of these days have the same slot by another way of counting, that way must
        expect the same effect, because it is unknown which way is right. If they have several slots that were
        mostly unusual to the same side, such as the days of a long sale, these explain them. A day off is expected to be unusual
        only if one of these days was a day off, because paydays move to working days. The same holds for
        working days.
        """
        days = [self._same_days(t, slots, DUE_OCCURRENCES) for slots in self.month]
        days += self._days_due_together(t, DUE_OCCURRENCES, self.rolled[:ROLLED_WAYS])
        effects = [self._always(days_of_effect, width, plain) for days_of_effect in days]
        expected_values = centre.copy()
        for days_of_effect, effect in zip(days, effects, strict=True):
            is_due = ~np.isnan(effect)
            if not is_due.any() or not (self.works[days_of_effect] == self.works[t]).any():
                continue
            for slots, other_effect in zip(self.month, effects[: len(self.month)], strict=True):
                other_slots = slots[days_of_effect]
                if other_slots.min() < 0:
                    continue
                if (other_slots == other_slots[0]).all():
                    is_due &= (slots[t] == other_slots[0]) & ~np.isnan(other_effect)
                else:
                    is_due &= ~self._are_unusual(t, slots, other_slots, width, effect)
            expected_values[is_due] = (centre + effect)[is_due]
        return expected_values

    def _are_unusual(
        self,
        t: int,
        slots: NDArray[np.intp],
        other_slots: NDArray[np.intp],
        width: Floats,
        effect: Floats,
    ) -> NDArray[np.bool_]:
        """Return whether each of several slots, counted in one way, was mostly unusual to the side of an effect.

        Sizes need not agree. False for series without an effect (NaN).
        """
        rows = np.flatnonzero(~np.isnan(effect))
        are_unusual = np.zeros(len(effect), dtype=bool)
        are_unusual[rows] = True
        for slot in np.unique(other_slots) if rows.size else ():
            same = self._last(t, slots[self._since(t) : t] == slot, DUE_OCCURRENCES)
            departures = [self._stands_out(rows, self.walk.column[p]) for p in same]
            on_side = np.array(departures) * np.sign(effect[rows])
            count = (on_side > SURPRISE_SPREADS * width[rows]).sum(axis=0)
            are_unusual[rows] &= count >= MIN_AGREEING_SHARE * DUE_OCCURRENCES
        return are_unusual

    def _always(self, same: NDArray[np.intp], width: Floats, plain: NDArray[np.bool_]) -> Floats:
        """Return the effect that all of these days had on each series; NaN if it is small or differs."""
        effects = np.full(len(width), np.nan)
        if len(same) < DUE_OCCURRENCES:
            return effects
        columns = self.walk.column[same]
        departed = (self.walk.signs[:, columns] != 0) | self.walk.excluded_from_tail[:, columns]
        rows = np.flatnonzero(departed.all(axis=1) & plain)
        if rows.size:
            effect, agreeing = self.effect_of_days(same, rows, width[rows])
            always = (agreeing == len(same)) & (np.abs(effect) > SURPRISE_SPREADS * width[rows])
            effects[rows] = np.where(always, effect, np.nan)
        return effects

    def _explain(
        self, expected_values: Floats, rows: NDArray[np.intp], y: Floats, expected: Floats
    ) -> None:
        """Replace expected values in place by others that are nearer to the values; NaN is ignored."""
        nearer = np.abs(y[rows] - expected) < np.abs(y[rows] - expected_values[rows])
        expected_values[rows[nearer]] = expected[nearer]

    def _same_days(
        self, t: int, slots: NDArray[np.intp], limit: int = COMPARED_MONTHS
    ) -> NDArray[np.intp]:
        """Return the last partitions of the same day of the month; empty if it has no slot."""
        if slots[t] < 0:
            return np.empty(0, dtype=np.intp)
        return self._last(t, slots[self._since(t) : t] == slots[t], limit)

    def _days_due_together(
        self, t: int, limit: int, rolled: NDArray[np.intp]
    ) -> list[NDArray[np.intp]]:
        """Return, for each day of the month that can be due at ``t``, the last partitions when it was due.

        For example, a payday is expected on the 14th if the 15th is a Saturday.
        """
        since, days = self._since(t), []
        for first_day, last_day in rolled:
            for day in range(first_day[t], last_day[t] + 1):
                was_due = (first_day[since:t] <= day) & (day <= last_day[since:t])
                days.append(self._last(t, was_due, limit))
        return days

    def _last(self, t: int, is_alike: NDArray[np.bool_], limit: int) -> NDArray[np.intp]:
        """Return the last partitions of a mask up to `t` that are the same part of their day."""
        since = t - len(is_alike)
        same = is_alike & (self.part[since:t] == self.part[t])
        last_partitions: NDArray[np.intp] = since + np.flatnonzero(same)[-limit:]
        return last_partitions

    def _since(self, t: int) -> int:
        """Return the first partition whose day of the month is compared with ``t``."""
        reach = self.walk.days[t] - np.timedelta64(days_within(self.walk.grid), "D")
        return int(np.searchsorted(self.walk.days, reach))

    def effect_of_days(
        self, days: NDArray[np.intp], rows: NDArray[np.intp], width: Floats
    ) -> tuple[Floats, NDArray[np.intp]]:
        """Return the effect that partitions share, or NaN, and the number of partitions that agree.

        The effect is the median. Most partitions, not all, must be unusual and agree with it, so that a
        single incident does not hide the effect.

        Parameters
        ----------
        days : array of int
            Partitions.
        rows : array of int
            Series.
        width : array of float, shape (rows,)
            Standard deviation of the next point of each series.
        """
        if len(days) < self.enough:
            return np.full(len(rows), np.nan), np.zeros(len(rows), dtype=np.intp)
        departures = np.stack([self._stands_out(rows, self.walk.column[p]) for p in days], axis=1)
        effect = median(departures)
        agrees = (
            np.abs(departures - effect[:, None])
            <= AGREEMENT_TOLERANCE / 2 * np.abs(effect)[:, None]
        )
        agrees &= np.abs(departures) > MIN_NOTICEABLE_SPREADS * width[:, None]
        count = agrees.sum(axis=1)
        has_agreement = count >= max(self.enough, math.ceil(MIN_AGREEING_SHARE * len(days)))
        return np.where(has_agreement, effect, np.nan), count

    def _of_last_year(self, t: int, rows: NDArray[np.intp], width: Floats) -> Iterator[Floats]:
        """Yield the expected values from the deviation of the days around this one a year ago.

        The deviation of the week comes first, then the deviations of single days, for seasons shorter
        than a week. All are relative to the level before the season, of which a whole week can be part.
        A change that stayed, such as a drift or a new level, was no season.
        """
        now = int(self.walk.column[t])
        ago = now - DAYS_PER_YEAR
        if not self.yearly or ago - BASELINE_DAYS[0] < self.walk.column[0]:
            return
        before = median(self._plain(rows, ago - BASELINE_DAYS[0], ago - BASELINE_DAYS[1]))
        level = median(self._plain(rows, now - BASELINE_DAYS[0], now - BASELINE_DAYS[1]))
        level = level + self.walk.effects[rows, self.walk.slot[now]]
        week = self._plain(rows, ago - NEIGHBOUR_DAYS // 2, ago + NEIGHBOUR_DAYS // 2 + 1)
        first = ago - BASELINE_DAYS[0]
        earlier = self._weekly_levels(rows, first - SEASON_DAYS, first)
        later = self._weekly_levels(rows, ago + NEIGHBOUR_DAYS // 2 + 1, ago + SEASON_DAYS)
        for values in (median(week), *week[:, NEIGHBOUR_DAYS // 2 - 1 : NEIGHBOUR_DAYS // 2 + 2].T):
            effect = values - before
            # It began here and ended later, or it ended here and had begun earlier.
            returns = _are_near(later, before, effect) | _are_near(earlier, values, effect)
            is_noticeable = np.abs(effect) > MIN_NOTICEABLE_SPREADS * width
            yield np.where(is_noticeable & returns, level + effect, np.nan)

    def _weekly_levels(self, rows: NDArray[np.intp], first: int, last: int) -> Floats:
        """Return the medians of the weeks between two columns, of shape (rows, weeks)."""
        weeks = range(max(first, 0), last - NEIGHBOUR_DAYS + 1, NEIGHBOUR_DAYS)
        levels = [median(self._plain(rows, week, week + NEIGHBOUR_DAYS)) for week in weeks]
        return np.stack(levels, axis=1) if levels else np.empty((len(rows), 0))

    def as_last_year(self, t: int, y: Floats, start: Floats, width: Floats) -> Mask:
        """Return whether values are as a year ago, and so no drift from a starting level; NaN without a drift."""
        is_explained = np.zeros(len(y), dtype=bool)
        rows = np.flatnonzero(~np.isnan(start))
        if self.walk.grid.daily and rows.size:
            reach = np.minimum(np.abs(y - start), SURPRISE_SPREADS * width)[rows]
            for expected in self._of_last_year(t, rows, width[rows]):
                is_explained[rows] |= np.abs(y[rows] - expected) < reach
        return is_explained

    def _of_days_last_year(self, t: int, rows: NDArray[np.intp], width: Floats) -> Iterator[Floats]:
        """Yield the deviations of single days around this one a year ago; NaN if they are small."""
        ago = int(self.walk.column[t]) - DAYS_PER_YEAR
        if not self.yearly or ago - NEIGHBOUR_DAYS - 1 < self.walk.column[0]:
            return
        for day in (ago - 1, ago, ago + 1):
            around = self._plain(rows, day - NEIGHBOUR_DAYS, day + NEIGHBOUR_DAYS + 1)
            departure = around[:, NEIGHBOUR_DAYS] - median(
                np.delete(around, NEIGHBOUR_DAYS, axis=1)
            )
            yield np.where(np.abs(departure) > SURPRISE_SPREADS * width, departure, np.nan)

    def _plain(self, rows: NDArray[np.intp], first: int, last: int) -> Floats:
        """Return the original values of columns without the effects of weekdays."""
        seasons = self.walk.effects[np.ix_(rows, self.walk.slot[first:last])]
        plain: Floats = self.walk.y[rows, first:last] - seasons
        return plain

    def _stands_out(self, rows: NDArray[np.intp], c: int) -> Floats:
        """Return the difference of a column from its neighbors, without the effects of weekdays."""
        around = c + self.per_day * np.arange(-NEIGHBOUR_DAYS, NEIGHBOUR_DAYS + 1)
        around = around[(around < self.walk.slot.size) & (around != c)]
        seasons = self.walk.effects[np.ix_(rows, self.walk.slot[around])]
        level = median(self.walk.usable[np.ix_(rows, around)] - seasons)
        departure: Floats = (
            self.walk.moved[rows, c] - self.walk.effects[rows, self.walk.slot[c]] - level
        )
        return departure


def _are_near(levels: Floats, value: Floats, effect: Floats) -> NDArray[np.bool_]:
    """Return whether any of the levels, of shape (rows, weeks), is nearer to a value than half of an effect."""
    distances = np.abs(levels - value[:, None])
    is_near: NDArray[np.bool_] = np.any(distances < np.abs(effect)[:, None] / 2, axis=1)
    return is_near


YEARLY_CLIP_WIDTHS = 2.5
"""Errors of weeks and months count as at most this many widths in later forecasts."""
ROBUST_SPREADS, ROBUST_VARIANCE = 2.5, 0.97756
"""Squared errors are limited to 2.5 spreads; of normal errors, this share of the variance remains."""
DRIFT_LENGTHS = (2, 3, 5, 8)
"""Numbers of consecutive points whose errors are added up to find drifts of weeks and months."""
DRIFT_SEARCH_PENALTY = 0.3
"""The sums overlap, so they count as two tests."""
MIN_DRIFT_WIDTHS = 1.5
"""A point within this many widths of its expected value is not reported as drifted."""
START_POINTS, START_SPREADS = 8, 5.0
"""The first 8 points of a series are limited to 5 spreads around their median: a first load contains years."""


class YearlyWalk(Protocol):
    """State of a walk that forecasts of weeks and months depend on; arrays as in `Walk`."""

    grid: Grid
    windows: ScoringWindows
    first_columns: NDArray[np.intp]
    moved: Floats
    usable: Floats
    excluded_from_tail: NDArray[np.bool_]


class YearlyForecasts:
    """Forecasts of weeks and months, by the average of several models (`YearlyModels`).

    Each model is weighted by the likelihood of its earlier forecasts, if errors have a Laplace distribution of
    unknown scale, which resists outliers. Alarms are replaced by their forecasts. A surprise that recurs in the same
    week or month is an effect of its own, because a smooth season cannot explain a sharp peak.

    Parameters
    ----------
    walk : YearlyWalk
    seasonal : bool
        False to ignore the season of the year.

    Attributes
    ----------
    begin : array of int, shape (series,)
        The first column from which each series is learned.
    regular : array, shape (series, columns)
        The values without surprises, at the current level.
    errors : array, shape (series, models, columns)
        Errors of the models, in units of their deviations.
    surprises : array, shape (series, columns)
        Errors that were surprises; 0 for other points.
    """

    def __init__(self, walk: YearlyWalk, *, seasonal: bool) -> None:
        self.walk, self.seasonal, cycle = walk, seasonal, walk.grid.cycle
        self.models = YearlyModels.of_year(cycle, MAX_YEARLY_COLUMNS[cycle], seasonal=seasonal)
        self._logs = np.log(self.models.deviations)
        self.begin = walk.first_columns.copy()
        shape = walk.moved.shape
        self.regular, self.surprises = np.full(shape, np.nan), np.zeros(shape)
        self.errors = np.full((shape[0], len(self.models.weights), shape[1]), np.nan)
        self.next = int(self.begin.min(initial=shape[1]))

    def refine(self, now: Forecast, c: int) -> Forecast:
        """Return a forecast with the expected values, spreads and errors of the models."""
        self._fill(c)
        all_rows = np.arange(len(self.regular))
        forecasts, deviations = self._of_models(all_rows, c)
        past = slice(c - self.walk.windows.level, c)
        weights = self._weights(past)
        errors = np.einsum("sm,smt->st", weights, self.errors[:, :, past])
        is_training = ~np.isnan(self.walk.usable[:, past])
        spread = _robust_spread(np.where(is_training, errors, np.nan))
        centre = np.einsum("sm,sm->s", weights, forecasts)
        apart = np.square(forecasts - centre[:, None])
        variance = np.square(spread[:, None] * deviations) + apart
        ahead = np.sqrt(np.einsum("sm,sm->s", weights, variance))
        scale = np.where(spread > 0, ahead / np.where(spread > 0, spread, 1), 0.0)[:, None]
        own = errors[:, 1:] * scale
        is_known = ~np.isnan(centre)
        return replace(
            now,
            centre=np.where(is_known, centre, now.centre),
            spread=np.where(is_known, ahead, now.spread),
            errors=np.where(is_training[:, 1:], own, np.nan),
            surprises=np.where(self.walk.excluded_from_tail[:, past][:, 1:], np.nan, own),
        )

    def learn(self, c: int, y: Floats, base: Floats, expected: Floats, width: Floats) -> None:
        """Learn from the values of a column.

        Parameters
        ----------
        c : int
        y : array of float, shape (series,)
        base, width : array of float, shape (series,)
            The forecasts without recurring surprises, and the standard deviations of the values.
        expected : array of float, shape (series,)
            The expected values.
        """
        self._fill(c)
        all_rows = np.arange(len(self.regular))
        forecasts, deviations = self._of_models(all_rows, c)
        recurring = np.where(np.isnan(expected), 0.0, expected - base)
        error = y - base - recurring
        limit = YEARLY_CLIP_WIDTHS * width
        is_training = ~np.isnan(self.walk.usable[:, c])
        kept = np.where(is_training, np.clip(error, -limit, limit), 0.0)
        has_begun = ~np.isnan(forecasts[:, 0])
        self.regular[:, c] = np.where(has_begun, base + kept, y)
        self.errors[:, :, c] = ((y - recurring)[:, None] - forecasts) / deviations
        is_surprise = has_begun & (np.abs(y - base) > SURPRISE_SPREADS * width)
        self.surprises[:, c] = np.where(is_surprise, y - base, 0.0)
        self._limit_start(c)
        self.next = c + 1

    def move(self, i: int, end: int, offset: float) -> None:
        """Move the past of a series, before column ``end``, to another level."""
        self.regular[i, :end] += offset

    def accept(self, i: int, first: int, last: int) -> None:
        """Learn a new level of a series from the columns of its alarms."""
        row = np.array([i])
        for c in range(first, last + 1):
            forecasts, deviations = self._of_models(row, c)
            y = self.walk.moved[i, c]
            if np.isnan(y):
                weights = self._weights(slice(c - self.walk.windows.level, c), row)
                self.regular[i, c] = float(np.einsum("sm,sm->s", weights, forecasts)[0])
                continue
            self.regular[i, c], self.surprises[i, c] = y, 0.0
            self.errors[i, :, c] = (y - forecasts[0]) / deviations[0]

    def leave(self, i: int, first: int, last: int, offset: float) -> None:
        """End a level of a series that was an incident: its points become surprises."""
        self.regular[i, first:last] -= offset
        away = self.walk.moved[i, first:last] - self.regular[i, first:last]
        self.surprises[i, first:last] = np.nan_to_num(away)
        self.regular[i, last] = self.walk.moved[i, last]

    def explain(self, c: int, y: Floats, now: Forecast, width: Floats) -> Floats:
        """Return the expected values, with the surprises that recurred in the same week or month.

        A surprise of two of the last three years is expected. A week of the year begins up to six days earlier or later
        than in other years, so a value between those of neighboring weeks is expected too. In the second year a
        repetition of the first year's surprise is not a surprise.
        """
        if not self.seasonal:
            return now.centre
        cycle = self.walk.grid.cycle
        near = (-1, 0, 1) if cycle == WEEKS_PER_YEAR else (0,)
        effects = np.stack([self._recurring(c + shift, cycle) for shift in near])
        expected = now.centre + effects[len(near) // 2]
        between = np.clip(y, now.centre + effects.min(axis=0), now.centre + effects.max(axis=0))
        expected = np.where(np.abs(y - expected) > SURPRISE_SPREADS * width, between, expected)
        is_second = c - self.begin < 2 * cycle
        for shift in near:
            once = now.centre + self.surprises[:, c + shift - cycle]
            is_nearer = np.abs(y - once) < np.abs(y - expected)
            expected = np.where(is_second & is_nearer, once, expected)
        return expected

    def drift(self, y: Floats, now: Forecast, width: Floats) -> tuple[Floats, Floats, Floats]:
        """Score errors to one side in several consecutive points; return score, starting level and usual spread.

        The sums of the newest errors are compared with sums of earlier errors, which are larger if errors are
        correlated. The starting level is the expected value without the errors.
        """
        errors = np.concatenate([now.errors, (y - now.centre)[:, None]], axis=1) / width[:, None]
        is_known = ~np.isnan(errors)
        total = np.pad(np.cumsum(np.where(is_known, errors, 0), axis=1), ((0, 0), (1, 0)))
        count = np.pad(np.cumsum(is_known, axis=1), ((0, 0), (1, 0)))
        score, start, spread = np.zeros(len(y)), np.full(len(y), np.nan), np.full(len(y), np.nan)
        for length in DRIFT_LENGTHS:
            known = count[:, length:] - count[:, :-length]
            sums = (total[:, length:] - total[:, :-length]) / np.sqrt(np.maximum(known, 1))
            sums = np.where(known >= max(length - 1, 2), sums, np.nan)
            usual = np.fmax(_robust_spread(sums[:, : -2 * length]), 1.0)
            own = student_score(sums[:, -1] / usual, now.freedom) - DRIFT_SEARCH_PENALTY
            is_same_side = sums[:, -1] * errors[:, -1] > 0
            is_same_side &= np.abs(errors[:, -1]) > MIN_DRIFT_WIDTHS
            is_best = is_same_side & (np.nan_to_num(own) > score)
            mean = sums[:, -1] / np.sqrt(np.maximum(known[:, -1], 1)) * width
            score = np.where(is_best, own, score)
            start = np.where(is_best, y - mean * np.sqrt(length), start)
            spread = np.where(is_best, usual * width, spread)
        return score, start, spread

    def _recurring(self, c: int, cycle: int) -> Floats:
        """Return the mean of two surprises of the last three years that agree; 0 if none agree."""
        years = [self.surprises[:, max(c - cycle * k, 0)] for k in (1, 2, 3)]
        effect = np.zeros(len(self.surprises))
        for one, other in ((1, 2), (0, 2), (0, 1)):
            pair = np.stack([years[one], years[other]])
            size = np.abs(pair).min(axis=0)
            agrees = (size > 0) & (np.abs(pair[0] - pair[1]) <= AGREEMENT_TOLERANCE * size)
            effect = np.where(agrees, pair.mean(axis=0), effect)
        return effect

    def _fill(self, c: int) -> None:
        """Replace the columns without a partition before a column by their forecasts."""
        all_rows = np.arange(len(self.regular))
        for empty in range(self.next, c):
            forecasts, _ = self._of_models(all_rows, empty)
            weights = self._weights(slice(empty - self.walk.windows.level, empty))
            self.regular[:, empty] = np.einsum("sm,sm->s", weights, forecasts)
        self.next = max(self.next, c)

    def _of_models(self, rows: NDArray[np.intp], c: int) -> tuple[Floats, Floats]:
        """Return each model's forecasts of a column and their deviations, of shape (rows, models)."""
        forecasts = np.full((len(rows), len(self.models.weights)), np.nan)
        deviations = np.ones(forecasts.shape)
        ages = np.minimum(c - self.begin[rows], self.models.deviations.shape[1] - 1)
        for age in np.unique(ages[ages > 0]).tolist():
            of_age = np.flatnonzero(ages == age)
            values = self.regular[rows[of_age], c - age : c]
            base = values[:, :1]
            weights = self.models.weights[:, age, :age]
            forecasts[of_age] = base + np.einsum("st,mt->sm", values - base, weights)
            deviations[of_age] = self.models.deviations[:, age]
        return forecasts, deviations

    def _weights(self, past: slice, rows: NDArray[np.intp] | None = None) -> Floats:
        """Return the weights of the models, by the likelihood of their errors in the past, (rows, models)."""
        selected = slice(None) if rows is None else rows
        errors, begin = self.errors[selected, :, past], self.begin[selected]
        # An error is unknown in all models or in none.
        is_known = ~np.isnan(errors[:, 0]) & ~np.isnan(self.walk.usable[selected, past])
        count = is_known.sum(axis=1)[:, None]
        total = np.where(is_known[:, None], np.abs(errors), 0).sum(axis=2)
        mean = total / np.maximum(count, 1)
        likelihood = np.empty(mean.shape)
        for first in np.unique(begin).tolist():
            ages = np.clip(np.arange(past.start, past.stop) - first, 0, self._logs.shape[1] - 1)
            of_begin = begin == first
            known = is_known[of_begin].astype(float)
            likelihood[of_begin] = -np.einsum("st,mt->sm", known, self._logs[:, ages])
        floor = 1e-9 * np.maximum(mean.max(axis=1, keepdims=True), 1e-9)
        likelihood -= count * np.log(np.maximum(mean, floor))
        weights = np.exp(likelihood - likelihood.max(axis=1, keepdims=True))
        shares: Floats = weights / weights.sum(axis=1, keepdims=True)
        return shares

    def _limit_start(self, c: int) -> None:
        """Limit the first values of series that have just begun."""
        for i in np.flatnonzero((c >= self.begin) & (c - self.begin < START_POINTS)).tolist():
            first = int(self.begin[i])
            values = self.walk.moved[i, first : c + 1]
            middle = median(values[None])[0]
            limit = START_SPREADS * 1.4826 * median(np.abs(values - middle)[None])[0]
            values = np.where(np.isnan(values), middle, values)
            self.regular[i, first : c + 1] = np.clip(values, middle - limit, middle + limit)


def _robust_spread(errors: Floats) -> Floats:
    """Return the standard deviation of errors around 0, of shape (series,), with limited large errors."""
    spread = 1.4826 * median(np.abs(errors))
    limit = ROBUST_SPREADS * spread[:, None]
    is_known = ~np.isnan(errors)
    squares = np.where(is_known, np.square(np.clip(errors, -limit, limit)), 0)
    variance = squares.sum(axis=1) / np.maximum(is_known.sum(axis=1), 1) / ROBUST_VARIANCE
    result: Floats = np.sqrt(np.nan_to_num(variance))
    return result


MAX_TRAINING_SCORE = 3.0
"""Points with at least this score are excluded from training."""
SHIFT_ALARMS, SHIFT_WITHIN = 4, 6
"""A level shift needs at least 4 alarms to the same side within 6 points."""
SHIFT_SHARE = 0.5
"""Parts of days: a level shift needs alarms at this share of the points of a day. With .75 instead, levels of 15-minute tables
of `benchmarks/field_tables.py` alarm for half a day longer, and no more faults are found."""
NEW_DAYS, NEW_SHIFT_SHARE = 3, 0.75
"""In a new series, whose weekends are unknown, a level must last longer than a weekend: alarm at this share of three days."""
MIN_CYCLE_POINTS, MAX_CYCLE_POINTS = 7, 24
"""Limits of the cycle length, in points, that determines the window of levels."""
MIN_POINTS_TO_SCORE = 7
"""Earlier points required before a point is scored."""
RECOVERY_CYCLES = 4
"""Cycles after a level shift within which a return to the previous level is not a surprise.

For weeks and months, whose faults seldom last for months, as many points as accept a level.
"""


@dataclass(frozen=True)
class ScoringWindows:
    """Numbers of columns and of points that scores depend on.

    Attributes
    ----------
    level, season, record : int
        Columns before a point from which levels and spreads, seasons, and records are learned.
    padding : int
        Empty columns before the history.
    recovery : int
        Columns after a level shift within which a return to the previous level is not a surprise.
    warm_up : int
        Earlier points required before a point is scored.
    shift_rules : tuple
        `shift_rule` for established and for new series.
    """

    level: int
    season: int
    record: int
    padding: int
    recovery: int
    warm_up: int
    shift_rules: tuple[tuple[int, int], tuple[int, int]]

    @classmethod
    def from_grid(cls, grid: Grid, cycles: int, start: int) -> ScoringWindows:
        """Return the windows for a grid, seasons learned from ``cycles``, and scores from ``start``."""
        level, season = lookback_of(grid, cycles)
        return cls(
            level=level,
            season=season,
            record=margin_of(grid, cycles),
            padding=padding_of(grid, cycles, start),
            recovery=SHIFT_WITHIN
            if grid.yearly
            else RECOVERY_CYCLES * min(max(grid.period, MIN_CYCLE_POINTS), MAX_CYCLE_POINTS),
            warm_up=max(MIN_POINTS_TO_SCORE, grid.period if grid.within_days else 0),
            shift_rules=(shift_rule(grid), shift_rule(grid, new=True)),
        )


def lookback_of(grid: Grid, cycles: int) -> tuple[int, int]:
    """Return the number of columns from which levels and spreads, and seasons, are estimated."""
    levels = cycles * min(max(grid.period, MIN_CYCLE_POINTS), MAX_CYCLE_POINTS)
    return levels, (occurrences_of(grid.cycle) + 2) * grid.cycle


def margin_of(grid: Grid, cycles: int) -> int:
    """Return the number of columns before a point whose values its score can read."""
    return max(
        _training_columns(grid, cycles),
        (DAYS_PER_YEAR + NEIGHBOUR_DAYS + BASELINE_DAYS[0] + SEASON_DAYS) * grid.daily,
    )


def padding_of(grid: Grid, cycles: int, start: int) -> int:
    """Return the number of empty columns before a history that is scored from ``start``.

    With this padding no slice of earlier columns begins before the first column. A history that is long
    enough needs little padding.
    """
    window = max(*lookback_of(grid, cycles), NEIGHBOUR_DAYS * columns_of_day(grid))
    available = int(grid.column[min(start, len(grid.column) - 1)]) if len(grid.column) else 0
    return max(window, margin_of(grid, cycles) - available)


def _training_columns(grid: Grid, cycles: int) -> int:
    """Return the number of columns before a point that can have trained its score."""
    dates = (days_within(grid) + NEIGHBOUR_DAYS) * columns_of_day(grid) if days_within(grid) else 0
    drifts = DRIFT_WINDOWS * drift_window(grid) if grid.within_days else 0
    return max(*lookback_of(grid, cycles), dates, drifts)


DRIFT_WINDOWS = 56
"""Parts of days: drifts are compared with the changes of this many windows, eight weeks of days."""


def drift_window(grid: Grid) -> int:
    """Return the points of the means that drifts of parts of days compare: a day, or some days of few parts."""
    return grid.period * math.ceil(WEEK_POINTS / grid.period)


def first_training_partition(grid: Grid, cycles: int, start: int) -> int:
    """Return the first partition that can have trained the scores from `start`.

    Forecasts of weeks and months limit the values that they learn from by earlier forecasts, without end.
    """
    if grid.yearly:
        return 0
    return max(start - _training_columns(grid, cycles) - _shift_reach(grid), 0)


def unsettled(
    history: History, cycles: int, start: int, earlier_scores: Scores
) -> NDArray[np.bool_]:
    """Return a mask of the series that must be learned partition by partition.

    Their level may have shifted or recovered before `start`, or they began there. For all other series,
    learning from a partition does not depend on earlier partitions.
    """
    grid = history.grid or Grid.from_times(history.times)
    first = first_training_partition(grid, cycles, start)
    score, reason = earlier_scores.score[:, first:start], earlier_scores.reason[:, first:start]
    alarm = (score >= MAX_TRAINING_SCORE) & (reason != Reason.DRIFT)
    alarm |= reason == Reason.RECURRING
    alarms, within = shift_rule(grid)
    mask: NDArray[np.bool_] = (reason == Reason.RECOVERY).any(axis=1)
    candidates = np.flatnonzero(alarm.sum(axis=1) >= alarms)
    count = np.cumsum(alarm[candidates], axis=1, dtype=np.intp)
    count[:, within:] -= count[:, :-within].copy()
    mask[candidates] |= (count >= alarms).any(axis=1)
    if grid.daily and first < start:
        first_columns = grid.column[(~np.isnan(history.values)).argmax(axis=1)]
        mask |= first_columns > grid.column[first] - grid.cycle
    return mask


def shift_rule(grid: Grid, *, new: bool = False) -> tuple[int, int]:
    """Return the number of alarms that a level shift needs, and the number of points that contain them.

    Parts of a day must alarm for half a day, because a few hours are not a new level. In a ``new``
    series, whose weekends are not known yet, they must alarm for longer than a weekend.
    """
    if not grid.within_days:
        return SHIFT_ALARMS, SHIFT_WITHIN
    days, share = (NEW_DAYS, NEW_SHIFT_SHARE) if new else (1, SHIFT_SHARE)
    points = grid.period * days
    return max(SHIFT_ALARMS, math.ceil(share * points)), max(SHIFT_WITHIN, points + 2)


def reach_of(grid: Grid, cycles: int) -> int | None:
    """Return the number of earlier columns that a score can depend on; None for all."""
    if grid.yearly:
        return None
    seasons = lookback_of(grid, cycles)[1] if grid.within_days else 0  # to know if a series is new
    return margin_of(grid, cycles) + _shift_reach(grid) + seasons


def _shift_reach(grid: Grid) -> int:
    """Return the number of columns of two level shifts.

    The alarms of a new level can cross the edge of the history, and the alarms of the previous level can too.
    """
    return 2 * shift_rule(grid, new=True)[1]
