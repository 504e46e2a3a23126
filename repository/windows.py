"""Windows over partitions' times: rolling ones, calendar ones, and the total. Pure.

All are half open, in UTC: a window holds the partitions with start <= time < end. Weeks begin on
Monday.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from analyzers.errors import HistoryError

END_OF_TIME = datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
"""Where the total ends, and what stands for the time of partitions that have none."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MONDAY = datetime(1969, 12, 29, tzinfo=UTC)
_DAY, _HOUR = timedelta(days=1), timedelta(hours=1)
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_ALIASES = {"mo": "month", "q": "quarter", "y": "year", "w": "week", "d": "day", "h": "hour"}
_TOTAL = "total"
_LONGEST = 10_000

T = TypeVar("T")


@dataclass(frozen=True)
class Span:
    """One window, and which of the times it was made for lie in it: from ``first`` up to ``last``."""

    start: datetime | None
    end: datetime
    first: int
    last: int


@dataclass(frozen=True)
class Windows:
    """A way to cut time into windows.

    Attributes
    ----------
    name : str
    count : int
        How many units a window covers.
    unit : str
        ``hour``, ``day``, ``week``, ``month``, ``quarter``, ``year`` or ``total``.
    rolling : bool
        Whether there is a window for each day (or hour) that has a partition, ending with it; else they
        follow each other.
    """

    name: str
    count: int
    unit: str
    rolling: bool

    @classmethod
    def named(cls, name: str) -> Windows:
        """Read the name of roll-ups: ``7d``, ``24h`` and ``2w`` roll; ``week``, ``month`` ... do not.

        Examples
        --------
        >>> Windows.named("7d").rolling, Windows.named("month").rolling
        (True, False)
        """
        text = name.strip().casefold()
        if text == _TOTAL:
            return cls(text, 1, text, rolling=False)
        count, unit = _read(text, name, "7d, 24h, 2w, day, week, month, quarter, year or total")
        rolls = text[0].isdigit() and unit in {"hour", "day", "week"}
        if unit == "week" and rolls:
            count, unit = 7 * count, "day"
        return cls(text, count, unit, rolls)

    @classmethod
    def every(cls, text: str) -> Windows:
        """Read how often a new window begins: ``1w``, ``7d``, ``12h``, ``1mo``, ``month``, ``1q``, ``1y``.

        Examples
        --------
        >>> Windows.every("2w").count
        2
        """
        count, unit = _read(text.strip().casefold(), text, "1w, 7d, 12h, 1mo, month, 1q or 1y")
        return cls(text.strip(), count, unit, rolling=False)

    def spans(self, times: Sequence[datetime]) -> list[Span]:
        """Return the windows that hold any of the times, which are in order.

        Examples
        --------
        >>> days = [datetime(2013, 1, day, tzinfo=UTC) for day in (30, 31)]
        >>> [str(span.end.date()) for span in Windows.named("month").spans(days)]
        ['2013-02-01']
        """
        if not times:
            return []
        if self.unit == _TOTAL:
            return [Span(None, END_OF_TIME, 0, len(times))]
        bounds = dict.fromkeys(map(self._last_of if self.rolling else self._around, times))
        return [
            Span(start, end, bisect_left(times, start), bisect_left(times, end))
            for start, end in bounds
        ]

    def _last_of(self, time: datetime) -> tuple[datetime, datetime]:
        step = _HOUR if self.unit == "hour" else _DAY
        last = _floor(time, _EPOCH, step)
        return _moved(last, -(self.count - 1) * step), _moved(last, step)

    def _around(self, time: datetime) -> tuple[datetime, datetime]:
        if self.unit in _MONTHS:
            months = _MONTHS[self.unit] * self.count
            place = (time.year * 12 + time.month - 1) // months * months
            return _month(place), _month(place + months)
        origin = _MONDAY if self.unit == "week" else _EPOCH
        step = {"hour": _HOUR, "day": _DAY, "week": 7 * _DAY}[self.unit] * self.count
        start = _floor(time, origin, step)
        return start, _moved(start, step)


def _read(text: str, given: str, examples: str) -> tuple[int, str]:
    match = re.fullmatch(r"(\d*)\s*([a-z]+?)s?", text)
    unit = match and _ALIASES.get(match[2], match[2])
    count = int(match[1] or 1) if match else 0
    if unit not in _ALIASES.values() or not 0 < count <= _LONGEST:
        msg = f"{given!r} is no window; write {examples}"
        raise HistoryError(msg)
    return count, str(unit)


def _floor(time: datetime, origin: datetime, step: timedelta) -> datetime:
    return origin + (time - origin) // step * step


def _moved(time: datetime, by: timedelta) -> datetime:
    """Move a time, no further than there are times: tables have days like 9999-12-31."""
    try:
        return time + by
    except OverflowError:
        return END_OF_TIME if by > timedelta() else datetime.min.replace(tzinfo=UTC)


def _month(place: int) -> datetime:
    year = place // 12
    return END_OF_TIME if year > END_OF_TIME.year else datetime(year, place % 12 + 1, 1, tzinfo=UTC)
