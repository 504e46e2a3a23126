"""Time windows over partitions: rolling, calendar and total. Pure functions.

Windows are half-open, in UTC: a window contains the partitions with start <= time < end. Weeks
begin on Monday.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from tidegauge.analyzers.core.errors import HistoryError

END_OF_TIME = datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
"""End of the total window, and stand-in for the time of partitions without one."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MONDAY = datetime(1969, 12, 29, tzinfo=UTC)
_DAY, _HOUR = timedelta(days=1), timedelta(hours=1)
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_ALIASES = {"mo": "month", "q": "quarter", "y": "year", "w": "week", "d": "day", "h": "hour"}
_TOTAL = "total"
_LONGEST = 10_000

T = TypeVar("T")


@dataclass(frozen=True)
class WindowSpan:
    """One window, and the half-open index range ``first`` to ``last`` of the times in it."""

    start: datetime | None
    end: datetime
    first: int
    last: int


@dataclass(frozen=True)
class WindowScheme:
    """A scheme that divides time into windows.

    Attributes
    ----------
    name : str
    count : int
        Number of units that a window covers.
    unit : str
        ``hour``, ``day``, ``week``, ``month``, ``quarter``, ``year`` or ``total``.
    rolling : bool
        True for one window for each day (or hour) that has a partition, ending with it; False for
        consecutive windows.
    """

    name: str
    count: int
    unit: str
    rolling: bool

    @classmethod
    def from_name(cls, name: str) -> WindowScheme:
        """Parse a roll-up name: ``7d``, ``24h`` and ``2w`` roll; ``week``, ``month`` ... do not.

        Examples
        --------
        >>> WindowScheme.from_name("7d").rolling, WindowScheme.from_name("month").rolling
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
    def from_interval(cls, text: str) -> WindowScheme:
        """Parse a window interval: ``1w``, ``7d``, ``12h``, ``1mo``, ``month``, ``1q``, ``1y``.

        Examples
        --------
        >>> WindowScheme.from_interval("2w").count
        2
        """
        count, unit = _read(text.strip().casefold(), text, "1w, 7d, 12h, 1mo, month, 1q or 1y")
        return cls(text.strip(), count, unit, rolling=False)

    def spans(self, times: Sequence[datetime]) -> list[WindowSpan]:
        """Return the windows that contain any of the times, which must be sorted.

        Examples
        --------
        >>> days = [datetime(2013, 1, day, tzinfo=UTC) for day in (30, 31)]
        >>> [str(span.end.date()) for span in WindowScheme.from_name("month").spans(days)]
        ['2013-02-01']
        """
        if not times:
            return []
        if self.unit == _TOTAL:
            return [WindowSpan(None, END_OF_TIME, 0, len(times))]
        bounds = dict.fromkeys(map(self._last_of if self.rolling else self._around, times))
        return [
            WindowSpan(start, end, bisect_left(times, start), bisect_left(times, end))
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
    """Shift a time, clamped to the range of datetime: tables have days like 9999-12-31."""
    try:
        return time + by
    except OverflowError:
        return END_OF_TIME if by > timedelta() else datetime.min.replace(tzinfo=UTC)


def _month(place: int) -> datetime:
    year = place // 12
    if year < 1:
        return datetime.min.replace(tzinfo=UTC)
    return END_OF_TIME if year > END_OF_TIME.year else datetime(year, place % 12 + 1, 1, tzinfo=UTC)
