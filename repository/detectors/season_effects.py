"""Effects of hours, weekdays, weeks and months on several series, by what a walk has learned so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from tidegauge.repository.numerics.seasons import OCCURRENCES, Season

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.repository.numerics.arrays import Floats
    from tidegauge.repository.numerics.grid import Grid

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
