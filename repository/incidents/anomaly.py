"""Anomalies as grouping and headlines work on them: the record, which got worse, and the time spans of texts.

`span` formats a time span in days, or in hours for partitions shorter than a day. `missing_span` reads the
missing partitions that an anomaly of `MissingPartition` is about from its explanation.

An incident is clearly worse if anomalies joined it or got worse between two of its states. These comparisons
are pure functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

import sqlalchemy as sa

from tidegauge.analyzers.core.metric import Scale
from tidegauge.analyzers.core.partitions import Partition, recognise_time
from tidegauge.repository.detectors.registry import MISSING_PARTITION
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.queries import select_list
from tidegauge.repository.store.rows import Severity

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


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


_SPAN = re.compile(
    r"(?:a gap of|the newest,(?: the next)?) (?:(?P<count>[\d,]+) )?(?P<unit>\w+?)s?"
    r"(?P<overdue>(?: is| are)? overdue)?"
    r"(?:, | from | since |: )(?P<first>\d+ \w+ \d+(?: \d\d:\d\d)?)"
)
"""Stored explanations of older releases are "the newest, 1 hour overdue since 21 Oct 2026 18:00"."""
_STEPS = {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(weeks=1)}


@dataclass(frozen=True)
class MissingSpan:
    """Consecutive partitions that are missing, or overdue.

    Attributes
    ----------
    first : datetime
        Time of the first.
    count : int
    unit : str
        ``hour``, ``day``, ``week``, ``month`` or ``partition``.
    is_overdue : bool
        Whether nothing came after them yet.
    """

    first: datetime
    count: int
    unit: str
    is_overdue: bool

    @property
    def text(self) -> str:
        """The words for what is missing, to follow its time.

        Examples
        --------
        >>> MissingSpan(datetime(2026, 10, 21), 3, "day", False).text
        '3 days in a row are missing'
        """
        state = "overdue" if self.is_overdue else "missing"
        if self.count == 1:
            return f"the partition is {state}"
        return f"{self.count:,} {self.unit}s in a row are {state}"

    def last(self, next_time: datetime) -> datetime:
        """Return the time of the last, given that of the partition after them, or before if overdue."""
        step = _STEPS.get(self.unit)
        if self.count == 1 or step is None:
            return self.first
        return self.first + (self.count - 1) * step if self.is_overdue else next_time - step


def is_missing(metric: str) -> bool:
    """Return whether a metric's anomalies tell of missing partitions."""
    return metric == MISSING_PARTITION


def is_gap(metric: str, explanation: str) -> bool:
    """Return whether an anomaly tells of a gap before its partition, not only of what is overdue after it."""
    span = missing_span(explanation) if is_missing(metric) else None
    return span is not None and not span.is_overdue


def missing_span(explanation: str) -> MissingSpan | None:
    """Return the first missing partitions that an explanation names; None if it names none.

    Examples
    --------
    >>> missing_span("ds=2026-10-24 follows a gap of 3 days from 21 Oct 2026 on.").count
    3
    >>> missing_span("ds=2026-10-20 is the newest, 1 hour overdue since 21 Oct 2026 18:00.").first
    datetime.datetime(2026, 10, 21, 18, 0, tzinfo=datetime.timezone.utc)
    >>> missing_span("is the newest, the next 3 days are overdue: 21 Oct 2026 was due by 22 Oct 2026 04:00 UTC").count
    3
    """
    match = _SPAN.search(explanation)
    if match is None:
        return None
    form = "%d %b %Y %H:%M" if ":" in match["first"] else "%d %b %Y"
    first = datetime.strptime(match["first"], form).replace(tzinfo=UTC)
    count = int((match["count"] or "1").replace(",", ""))
    return MissingSpan(first, count, match["unit"], is_overdue=match["overdue"] is not None)


def partition_name_at(time: datetime, neighbour: str, neighbour_time: datetime) -> str | None:
    """Return the name of a partition at a time, written as that of a neighbour; None if it is unknown.

    Examples
    --------
    >>> day = datetime(2026, 10, 21, 5)
    >>> partition_name_at(day, "ds=2026-10-21/hr=07/region=eu", datetime(2026, 10, 21, 7))
    'ds=2026-10-21/hr=05/region=eu'
    """
    partition = Partition.from_name(neighbour)
    told_by = recognise_time(partition.keys)
    if told_by is None:
        return None
    values = dict(zip(partition.keys, partition.values, strict=True))
    texts = [values[key] for key in told_by.keys]
    for form in told_by.formats:
        parts = form.split(" ")
        if [neighbour_time.strftime(part) for part in parts] == texts:
            values |= {
                key: time.strftime(part) for key, part in zip(told_by.keys, parts, strict=True)
            }
            return Partition(partition.keys, tuple(values[key] for key in partition.keys)).name
    return None


@dataclass(frozen=True)
class Anomaly:
    """An anomaly, with the fields that grouping and headlines need.

    Attributes
    ----------
    id : int
    series : int
    place : int
        Position of its partition in its partition segment, in order of time.
    partition : int
        The partition's id.
    within : str
        Partition segment: the segment that the partition's non-time keys form.
    time : datetime or None
    name, instance, filter, segment : str
        Of its series.
    scale, severity, direction : str
    value, expected : float or None
    score : float
    incident : int or None
        Its last incident.
    commit : int
        The commit of the detection that found it as it is.
    """

    id: int
    series: int
    place: int
    partition: int
    partition_name: str
    within: str
    time: datetime | None
    name: str
    instance: str
    filter: str
    segment: str
    scale: str
    severity: str
    direction: str
    value: float | None
    expected: float | None
    score: float
    explanation: str
    incident: int | None
    commit: int = 0


def read_anomalies(
    connection: Connection,
    condition: sa.ColumnElement[bool],
    places: Mapping[int, int],
    commit: int | None = None,
) -> list[Anomaly]:
    """Return the anomalies that stand now, or stood after a commit, in the order of their ids.

    Parameters
    ----------
    connection : Connection
    condition : ColumnElement
        On the tables ``finding`` and ``partition``.
    places : mapping of int to int
        Positions of partitions by id; 0 for others, whose order is then unknown.
    commit : int, optional
    """
    n, f, e, a, p = s.anomaly.c, s.finding.c, s.series.c, s.analyzer.c, s.partition.c
    named = {
        "series": n.series_id,
        "partition": n.partition_id,
        "partition_name": p.name,
        "within": p.segment,
        "time": p.time,
        "filter": sa.func.coalesce(a.filter, ""),
        "segment": a.segment,
        "incident": f.incident_id,
        "commit": f.commit_id,
    }
    names = [field.name for field in fields(Anomaly) if field.name != "place"]
    query = (
        sa.select(*select_list(names, named, s.anomaly, s.finding, s.series))
        .select_from(s.anomaly)
        .join(s.finding, (f.anomaly_id == n.id) & s.holds(s.finding, commit))
        .join(s.series, e.id == n.series_id)
        .join(s.analyzer, a.id == e.analyzer_id)
        .join(s.partition, p.id == n.partition_id)
        .where(condition)
        .order_by(n.id)
    )
    return [
        Anomaly(**row._asdict(), place=places.get(row.partition, 0))
        for row in connection.execute(query)
    ]


CLEARLY_WORSE_FACTOR = 1.9
"""Factor by which a departure grows until it is news without a label: it doubles, up to noise."""
MOST_LOST_SHARE = 0.9
"""Departure from which losing the rest, too, is nothing worse."""
BEYOND_LABEL_FACTOR = 1.1
"""Factor by which the departure of a further partition exceeds what was labelled: a campaign's days differ."""
_Key = TypeVar("_Key")
_SEVERITIES = list(Severity)
_WARNING = _SEVERITIES.index(Severity.WARNING)


def departure_size(anomaly: Anomaly) -> float | None:
    """Return how far a value departs from the expected one; None if either is unknown.

    The departure is a share of the rows for ratios, and relative to the expected value for others.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> departure_size(SimpleNamespace(value=500.0, expected=1000.0, scale="count"))
    0.5
    """
    if anomaly.value is None or anomaly.expected is None:
        return None
    distance = abs(anomaly.value - anomaly.expected)
    return distance if anomaly.scale == Scale.RATIO else distance / (abs(anomaly.expected) or 1.0)


def is_clearly_worse(before: Sequence[Anomaly], after: Sequence[Anomaly]) -> bool:
    """Return whether an incident is clearly worse than it was.

    It is if its severity rose, if one of its gravest departures at least doubled, or if partitions are
    missing besides unusual ones, or the other way round. An incident that had no anomalies is worse as
    soon as it has one.
    """
    if not before or not after:
        return bool(after)
    if {is_missing(one.name) for one in after} - {is_missing(one.name) for one in before}:
        return True
    severity, sizes = _severity(before), _largest((one.series, one) for one in before)
    return any(
        _rank(one) > severity
        or (_rank(one) == severity and _exceeds(one, sizes.get(one.series), CLEARLY_WORSE_FACTOR))
        for one in after
    )


def exceeds_label(labelled: Sequence[Anomaly], after: Sequence[Anomaly]) -> bool:
    """Return whether an incident goes beyond what a person labelled.

    A further partition goes beyond it by a higher severity, by a departure that is more than a tenth
    larger, or by another metric, filter or segment; the parts of a metric whose total was labelled are no
    others. Of these, information counts only if information was labelled. A labelled partition that was
    measured again goes beyond it if it is clearly worse.

    Parameters
    ----------
    labelled, after : sequence of Anomaly
        The incident's anomalies when it was labelled, and now.
    """
    if not labelled:
        return False
    severity = _severity(labelled)
    least = min(severity, _WARNING)
    points = _largest(((one.series, one.partition), one) for one in labelled)
    known = {(one.series, one.partition) for one in labelled}
    sizes = _largest((one.series, one) for one in labelled)
    series = {one.series for one in labelled}
    totals = {(one.name, one.instance) for one in labelled if not one.filter and not one.segment}
    for one in after:
        point = (one.series, one.partition)
        if _rank(one) > severity:
            return True
        if _rank(one) < least:
            continue
        if point in known:
            beyond = _exceeds(one, points.get(point), CLEARLY_WORSE_FACTOR)
        elif one.series in series:
            beyond = _exceeds(one, sizes.get(one.series), BEYOND_LABEL_FACTOR)
        else:
            beyond = (one.name, one.instance) not in totals
        if beyond:
            return True
    return False


def _rank(one: Anomaly) -> int:
    return _SEVERITIES.index(Severity(one.severity))


def _severity(anomalies: Iterable[Anomaly]) -> int:
    return max(map(_rank, anomalies))


def _largest(keyed: Iterable[tuple[_Key, Anomaly]]) -> dict[_Key, float]:
    """Return the largest known departure of each key."""
    sizes: dict[_Key, float] = {}
    for key, one in keyed:
        size = departure_size(one)
        if size is not None:
            sizes[key] = max(size, sizes.get(key, 0.0))
    return sizes


def _exceeds(one: Anomaly, known_size: float | None, factor: float) -> bool:
    """Return whether an anomaly's departure is at least a factor times a known one, or all is lost now."""
    size = departure_size(one)
    if size is None or known_size is None or size <= known_size:
        return False
    all_lost = one.value == 0 and known_size < MOST_LOST_SHARE
    return all_lost or size >= factor * known_size
