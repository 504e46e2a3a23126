"""Seasonal effects of many series at once, learned from the last occurrences of each slot.

A season divides time into slots that recur: the hours of a day, of a week, or the days of a week. A
slot's occurrences are kept as deviations from the mean of the cycle around them, and its effect is
their median. Occurrences that alarmed count only if the newest of them agree: what was surprising
once is expected once it has been repeated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tidegauge.repository.numerics.arrays import zero_if_nan
from tidegauge.repository.numerics.medians import median

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.repository.numerics.arrays import Floats

OCCURRENCES = 6
"""Occurrences of a slot that are remembered."""
REPEATED = 2
"""Newest occurrences that must agree if they alarmed, or if they are the only ones."""
AGREE = 0.6
"""Largest difference between repeated occurrences that agree, as a share of their size."""
NEAR_END = 5
"""Days, and working days, that are counted from either end of a month."""
NO_HOLIDAYS = np.array([], dtype="M8[D]")


def month_slots(
    days: NDArray[np.datetime64], holidays: NDArray[np.datetime64] = NO_HOLIDAYS
) -> NDArray[np.intp]:
    """Return the slots of days in their month, by four ways to count; -1 for none.

    Days from the end of the month, days from its beginning, working days from the end and from the
    beginning; Monday to Friday are working days, but for holidays. An unknown day has no slots.

    Parameters
    ----------
    days : array of datetime64[D], shape (days,)
    holidays : array of datetime64[D], optional

    Returns
    -------
    array of int, shape (4, days)

    Examples
    --------
    >>> month_slots(np.array(["2021-05-03", "2021-05-31"], dtype="M8[D]")).tolist()
    [[-1, 0], [3, 31], [-1, 0], [1, -1]]

    On 31 May 2021 was Memorial Day: the last working day of the month was Friday the 28th.

    >>> memorial = np.array(["2021-05-31"], dtype="M8[D]")
    >>> month_slots(np.array(["2021-05-28", "2021-05-31"], dtype="M8[D]"), memorial)[2].tolist()
    [0, -1]
    """
    found = np.full((4, len(days)), -1)
    known = ~np.isnat(days)
    found[:, known] = _month_slots(days[known], holidays)
    return found


def _month_slots(
    days: NDArray[np.datetime64], holidays: NDArray[np.datetime64]
) -> NDArray[np.intp]:
    months = days.astype("M8[M]")
    first, one = months.astype("M8[D]"), np.timedelta64(1, "D")
    after = (months + np.timedelta64(1, "M")).astype("M8[D]")
    left = (after - days).astype(int) - 1
    work_left = np.busday_count(days + one, after, holidays=holidays)
    work = np.busday_count(first, days, holidays=holidays) + 1
    works = np.is_busday(days, holidays=holidays)
    return np.stack(
        [
            np.where(left < NEAR_END, left, -1),
            (days - first).astype(int) + 1,
            np.where(works & (work_left < NEAR_END), work_left, -1),
            np.where(works & (work <= NEAR_END), work, -1),
        ]
    )


def rolled_days(
    days: NDArray[np.datetime64], holidays: NDArray[np.datetime64] = NO_HOLIDAYS
) -> NDArray[np.intp]:
    """Return the days of the month that fall due on each day, if paid before or after days off.

    What is due on a day off is brought forward to the last working day before it, or put off to the
    first one after it; within its month.

    Parameters
    ----------
    days : array of datetime64[D], shape (days,)
    holidays : array of datetime64[D], optional

    Returns
    -------
    array of int, shape (2, 2, days)
        First and last day of the month, brought forward and put off; 1 and 0 for days off.

    Examples
    --------
    The 15th of May 2021 was a Saturday: it falls due on Friday the 14th, or on Monday the 17th.

    >>> days = np.array(["2021-05-14", "2021-05-15", "2021-05-17"], dtype="M8[D]")
    >>> rolled_days(days).tolist()
    [[[14, 1, 17], [16, 0, 17]], [[14, 1, 15], [14, 0, 17]]]
    """
    found = np.empty((2, 2, len(days)), dtype=np.intp)
    found[:, 0], found[:, 1] = 1, 0
    works = ~np.isnat(days)
    works[works] = np.is_busday(days[works], holidays=holidays)
    some = days[works]
    months = some.astype("M8[M]")
    first, last = months.astype("M8[D]"), (months + 1).astype("M8[D]") - 1
    before, after = (np.busday_offset(some, step, holidays=holidays) for step in (-1, 1))
    for way, (begin, end) in enumerate(((some, after - 1), (before + 1, some))):
        for at, day in enumerate((np.maximum(begin, first), np.minimum(end, last))):
            found[way, at, works] = (day - first).astype(int) + 1
    return found


NEVER = np.iinfo(np.int32).max
"""Column of an occurrence that there is not."""


class Season:
    """Occurrences of the slots of one season.

    Parameters
    ----------
    series : int
        Number of series.
    slots : int
        Slots of the season: partitions in a cycle.
    """

    def __init__(self, series: int, slots: int) -> None:
        self.slots = slots
        self.swing = np.full((series, slots, OCCURRENCES), np.nan)
        self.alarmed = np.zeros(self.swing.shape, dtype=bool)
        self.place = np.full(self.swing.shape, NEVER, dtype=np.int32)

    def push(
        self,
        slot: int,
        swing: Floats,
        alarmed: NDArray[np.bool_],
        place: int,
        some: NDArray[np.intp] | slice = slice(None),
    ) -> None:
        """Add an occurrence of a slot of all series, or of some, at a column; NaN for none."""
        for kept, new in (
            (self.swing, swing[some]), (self.alarmed, alarmed[some]), (self.place, place)
        ):  # fmt: skip
            kept[some, slot, :-1] = kept[some, slot, 1:]
            kept[some, slot, -1] = new

    def forget(self, place: int) -> None:
        """Forget occurrences before a column; those of a slot that is often missing reach far back."""
        old = self.place < place
        if old.any():
            self.swing[old] = np.nan
            self.place[old] = NEVER

    def effects(
        self,
        points: NDArray[np.intp],
        known: Floats,
        newest: tuple[Floats, NDArray[np.bool_]] | None = None,
    ) -> Floats:
        """Return the effect of each slot beyond what is known; 0 where it explains nothing.

        Each effect is shrunk as far as chance could explain it, and all of them as far as they fail
        to reduce the deviations.

        Parameters
        ----------
        points : array of int, shape (series,)
            Number of points that the series have so far.
        known : array of float, shape (series, slots)
            Effects of a shorter season.
        newest : tuple of array, optional
            One more occurrence of each slot, and whether it alarmed, both of shape (series, slots).
        """
        kept, alarmed = self.swing, self.alarmed
        if newest is not None:
            kept = np.concatenate([kept, newest[0][..., None]], axis=2)
            alarmed = np.concatenate([alarmed, newest[1][..., None]], axis=2)
        swing = kept - known[..., None]
        counted = ~np.isnan(swing)
        some = np.flatnonzero(alarmed.any(axis=(1, 2)))
        counted[some] &= ~alarmed[some] | self._repeated(some)[..., None]
        taken = np.where(counted, swing, np.nan)
        effects = zero_if_nan(median(taken))
        left = np.abs(taken - effects[..., None])
        noise = 1.4826 * median(left.reshape(len(swing), -1))
        count = counted.sum(axis=2)
        chance = np.square(noise[:, None] / np.where(effects == 0, np.nan, effects))
        effects = zero_if_nan(effects * count / (count + chance))
        before = np.where(counted, np.abs(swing), 0).sum(axis=(1, 2))
        after = np.where(counted, np.abs(swing - effects[..., None]), 0).sum(axis=(1, 2))
        explained = np.where(before > 0, 1 - after / before, 0)
        gate = np.clip(explained * points / self.slots - 1, 0, 1) * (points >= 2 * self.slots)
        found: Floats = effects * gate[:, None]
        return found

    def _repeated(self, some: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return a mask of the slots of some series whose newest occurrences all alarmed, and agree."""
        last = self.swing[some, :, -REPEATED:]
        size = np.abs(last).min(axis=2)
        agree = last.max(axis=2) - last.min(axis=2) <= AGREE * size
        with np.errstate(invalid="ignore"):
            found: NDArray[np.bool_] = agree & self.alarmed[some, :, -REPEATED:].all(axis=2)
        return found
