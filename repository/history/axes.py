"""Plot axes: scaling of values to pixels, and ticks for values, times and names. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import MAXYEAR, UTC, datetime, timedelta
from math import ceil, floor, isfinite, log10
from typing import Final

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_STEPS: Final = (
    *(1, 5, 15, 30),
    *(n * _MINUTE for n in (1, 5, 15, 30)),
    *(n * _HOUR for n in (1, 3, 6, 12)),
    *(n * _DAY for n in (1, 2, 7, 14)),
)
"""Tick intervals in seconds, up to two weeks; longer ones are months."""
_MONTHS: Final = (1, 2, 3, 6, 12)
_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTH = 28 * _DAY
"""Seconds of the shortest month."""
_ROUNDING = 1e-9

Tick = tuple[float, str]


@dataclass(frozen=True)
class Axis:
    """Linear axis that maps values from ``low``..``high`` to pixels ``start``..``end``.

    Attributes
    ----------
    low, high : float
        Not equal.
    start, end : float
        In pixels.
    ticks : tuple of pair of float and str
        Tick values with their labels.

    Examples
    --------
    >>> Axis(0.0, 10.0, 100.0, 300.0).at(2.5)
    150.0
    """

    low: float
    high: float
    start: float
    end: float
    ticks: tuple[Tick, ...] = ()

    def at(self, value: float) -> float:
        """Return the pixel of a value; values outside are clipped to the edge."""
        low, high = self.low / 2, self.high / 2  # whose difference is finite
        share = (value / 2 - low) / (high - low)
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)


def step_of(span: float, most: int) -> float:
    """Return the smallest step of 1, 2 or 5 times a power of ten with at most ``most`` intervals.

    Examples
    --------
    >>> step_of(10, 5), step_of(0.13, 4), step_of(36, 4)
    (2.0, 0.05, 10.0)
    """
    power = 10.0 ** floor(log10(span / most))
    step = next(m for m in (1, 2, 5, 10) if m * power * most >= span * (1 - _ROUNDING))
    return float(f"{step * power:.12g}")


def value_ticks(low: float, high: float, most: int = 5, *, percent: bool = False) -> list[Tick]:
    """Return round tick values from ``low`` to ``high``, with the digits that distinguish them.

    Examples
    --------
    >>> value_ticks(0.35, 1.0, percent=True)
    [(0.4, '40 %'), (0.6, '60 %'), (0.8, '80 %'), (1.0, '100 %')]
    >>> [text for _, text in value_ticks(-1500, 2500)]
    ['-1,000', '0', '1,000', '2,000']
    """
    finite = isfinite(high - low)
    step = step_of(high - low, most) if finite else 2 * step_of(high / 2 - low / 2, most)
    scale, unit = (100.0, " %") if percent else (1.0, "")
    digits = max(0, -floor(log10(step * scale) + _ROUNDING))
    great = max(abs(low), abs(high)) * scale
    form = ",.4g" if great >= 1e9 or digits > 6 else f",.{digits}f"
    first, last = ceil(low / step - _ROUNDING), floor(high / step + _ROUNDING)
    places = [float(f"{n * step:.12g}") for n in range(first, last + 1)]
    return [(place, f"{place * scale:{form}}{unit}") for place in places]


def time_ticks(low: float, high: float, most: int = 8) -> list[Tick]:
    """Return ticks at round times with their labels.

    Parameters
    ----------
    low, high : float
        Seconds since 1970, in UTC.
    most : int
        Approximate maximum number of ticks.

    Examples
    --------
    >>> from datetime import datetime, timezone
    >>> ends = [datetime(2013, m, 1, tzinfo=timezone.utc).timestamp() for m in (1, 12)]
    >>> [text for _, text in time_ticks(*ends, most=4)]
    ['Jan 2013', 'Apr', 'Jul', 'Oct']
    """
    step = next((s for s in _STEPS if (high - low) / s <= most), None)
    if step is None:
        return [
            (seconds_of(time), _month(time, n)) for n, time in enumerate(_months(low, high, most))
        ]
    found: list[Tick] = []
    monday = 4 * _DAY if step > _DAY else 0  # the first day of 1970 is a Thursday
    place = ceil((low - monday) / step) * step + monday
    while place <= high:
        found.append((float(place), _moment(EPOCH + timedelta(seconds=place), step, not found)))
        place += step
    return found


def order_ticks(names: Sequence[str], most: int = 6) -> list[Tick]:
    """Return ticks at evenly spaced indices of ordered names.

    Examples
    --------
    >>> order_ticks(["a", "b", "c", "d"], most=2)
    [(0.0, 'a'), (2.0, 'c')]
    """
    step = max(1, ceil(len(names) / most))
    return [(float(n), names[n]) for n in range(0, len(names), step)]


def seconds_of(time: datetime) -> float:
    """Return seconds since 1970 (UTC)."""
    return (time - EPOCH).total_seconds()


def _months(low: float, high: float, most: int) -> Iterator[datetime]:
    by = next((m for m in _MONTHS if (high - low) / (m * _MONTH) <= most), None)
    if by is None:
        by = 12 * max(1, round(step_of((high - low) / (12 * _MONTH), most)))
    start = EPOCH + timedelta(seconds=low)
    month = ceil((12 * start.year + start.month - 1) / by) * by
    while month // 12 <= MAXYEAR:
        time = datetime(max(month // 12, 1), month % 12 + 1, 1, tzinfo=UTC)
        if seconds_of(time) > high:
            return
        if seconds_of(time) >= low:
            yield time
        month += by


def _month(time: datetime, number: int) -> str:
    year = f" {time.year}" if number == 0 or time.month == 1 else ""
    return f"{_NAMES[time.month - 1]}{year}"


def _moment(time: datetime, step: int, first: bool) -> str:  # noqa: FBT001 - private
    day = f"{time.day} {_NAMES[time.month - 1]}{f' {time.year}' if first else ''}"
    if step >= _DAY:
        return day
    clock = f"{time:%H:%M:%S}" if step < _MINUTE else f"{time:%H:%M}"
    midnight = time.hour == time.minute == time.second == 0
    return f"{day} {clock}" if first else day if midnight else clock
