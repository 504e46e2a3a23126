"""Format time spans in days, or in hours for partitions shorter than a day."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from tidegauge.analyzers.core.partitions import Partition, recognise_time

DAY = timedelta(days=1)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def step_of(times: Sequence[datetime], name: str = "") -> timedelta | None:
    """Return the length of partitions, a day at most; None if they are sub-daily at uneven steps.

    Parameters
    ----------
    times : sequence of datetime
        Times of one partition segment's partitions, in order.
    name : str
        Name of one of them. If its format contains an hour, midnight counts as an hour.

    Examples
    --------
    >>> day = datetime(2013, 2, 8)
    >>> hours = [day, day + timedelta(hours=1), day + timedelta(hours=5)]
    >>> str(step_of(hours)), str(step_of([day])), step_of([day], "ds=2013-02-08/hr=00")
    ('1:00:00', '1 day, 0:00:00', None)
    """
    if all(_midnight(time) for time in times) and not _tells_hour(name):
        return DAY
    least = min((b - a for a, b in pairwise(times) if a != b), default=DAY)
    even = all((time - times[0]) % least == timedelta(0) for time in times)
    return least if even and least < DAY else None


def span(first: datetime, last: datetime, step: timedelta | None = DAY) -> str:
    """Format a span of days, or of hours from the first partition's start to the last one's end.

    Parameters
    ----------
    first, last : datetime
        Start times of the partitions.
    step : timedelta, optional
        Length of the partitions, as `step_of` returns it; None if unknown: the span then ends at
        the last one's start.

    Examples
    --------
    >>> span(datetime(2013, 2, 8), datetime(2013, 2, 9))
    '8-9 Feb 2013'
    >>> span(datetime(2013, 12, 31), datetime(2014, 1, 1))
    '31 Dec 2013 to 1 Jan 2014'
    >>> span(datetime(2013, 2, 8, 7), datetime(2013, 2, 8, 7), None)
    '8 Feb 2013 07:00'
    >>> hour = timedelta(hours=1)
    >>> span(datetime(2013, 2, 8), datetime(2013, 2, 8, 1), hour)
    '8 Feb 2013 00:00-02:00'
    >>> span(datetime(2013, 2, 8, 22), datetime(2013, 2, 8, 23), hour)
    '8 Feb 2013 22:00-24:00'
    >>> span(datetime(2013, 2, 8, 23), datetime(2013, 2, 9), hour)
    '8 Feb 2013 23:00 to 9 Feb 2013 01:00'
    """
    if step is None or step < DAY:
        return _hours(first, last, step)
    if first == last:
        return f"{_day(first)} {first.year}"
    if (first.year, first.month) == (last.year, last.month):
        return f"{first.day}-{_day(last)} {last.year}"
    if first.year == last.year:
        return f"{_day(first)} to {_day(last)} {last.year}"
    return f"{_day(first)} {first.year} to {_day(last)} {last.year}"


def _hours(first: datetime, last: datetime, step: timedelta | None) -> str:
    end = last if step is None else last + step
    if first == end:
        return _moment(first)
    if step is None or first.date() != last.date() or end - first > DAY:
        return f"{_moment(first)} to {_moment(end)}"
    return f"{_moment(first)}-{'24:00' if _midnight(end) else f'{end:%H:%M}'}"


def _tells_hour(name: str) -> bool:
    found = recognise_time(Partition.from_name(name).keys)
    return found is not None and all("%H" in form for form in found.formats)


def _midnight(time: datetime) -> bool:
    return (time.hour, time.minute, time.second) == (0, 0, 0)


def _day(time: datetime) -> str:
    return f"{time.day} {_MONTHS[time.month - 1]}"


def _moment(time: datetime) -> str:
    return f"{_day(time)} {time.year} {time:%H:%M}"
