"""Lookback of `Seasonal`: the earlier partitions that a score depends on, level shifts among them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.repository.detectors.base import History, Reason, Scores
from tidegauge.repository.detectors.dates import AROUND, BASE, YEAR, columns_of_day, days_within
from tidegauge.repository.numerics.grid import Grid
from tidegauge.repository.numerics.seasons import OCCURRENCES

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
