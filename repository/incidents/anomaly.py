"""Anomalies as grouping and headlines use them, time spans in messages, and comparisons of incident states.

`span` formats a time span in days, or in hours if partitions are shorter than a day. `missing_span` parses
the explanation of a `MissingPartition` anomaly.

`is_clearly_worse` and `exceeds_label` compare two states of an incident. Both are pure functions.
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


ONE_DAY = timedelta(days=1)


def step_of(times: Sequence[datetime], name: str = "") -> timedelta | None:
    """Return the length of partitions, a day at most; None if they are sub-daily at uneven steps.

    Parameters
    ----------
    times : sequence of datetime
        Times of one partition segment's partitions, in order.
    name : str
        Name of one of the partitions. If its format contains an hour, midnight counts as an hour.

    Examples
    --------
    >>> day = datetime(2013, 2, 8)
    >>> hours = [day, day + timedelta(hours=1), day + timedelta(hours=5)]
    >>> str(step_of(hours)), str(step_of([day])), step_of([day], "ds=2013-02-08/hr=00")
    ('1:00:00', '1 day, 0:00:00', None)
    """
    if all(_is_midnight(time) for time in times) and not _has_hour(name):
        return ONE_DAY
    shortest = min((b - a for a, b in pairwise(times) if a != b), default=ONE_DAY)
    is_even = all((time - times[0]) % shortest == timedelta(0) for time in times)
    return shortest if is_even and shortest < ONE_DAY else None


def span(first: datetime, last: datetime, step: timedelta | None = ONE_DAY) -> str:
    """Format a time span in days, or in hours from the start of the first partition to the end of the last.

    Parameters
    ----------
    first, last : datetime
        Start times of the partitions.
    step : timedelta, optional
        Length of the partitions, as `step_of` returns it. If None, the span ends at the start of the
        last partition.

    Examples
    --------
    >>> span(datetime(2013, 2, 8), datetime(2013, 2, 9))
    '2013-02-08 to 2013-02-09'
    >>> span(datetime(2013, 12, 31), datetime(2014, 1, 1))
    '2013-12-31 to 2014-01-01'
    >>> span(datetime(2013, 2, 8, 7), datetime(2013, 2, 8, 7), None)
    '2013-02-08 07:00'
    >>> hour = timedelta(hours=1)
    >>> span(datetime(2013, 2, 8), datetime(2013, 2, 8, 1), hour)
    '2013-02-08 00:00-02:00'
    >>> span(datetime(2013, 2, 8, 22), datetime(2013, 2, 8, 23), hour)
    '2013-02-08 22:00-24:00'
    >>> span(datetime(2013, 2, 8, 23), datetime(2013, 2, 9), hour)
    '2013-02-08 23:00 to 2013-02-09 01:00'
    """
    if step is None or step < ONE_DAY:
        return _format_hours(first, last, step)
    if first == last:
        return f"{first:%Y-%m-%d}"
    return f"{first:%Y-%m-%d} to {last:%Y-%m-%d}"


def _format_hours(first: datetime, last: datetime, step: timedelta | None) -> str:
    end = last if step is None else last + step
    if first == end:
        return _format_time(first)
    if step is None or first.date() != last.date() or end - first > ONE_DAY:
        return f"{_format_time(first)} to {_format_time(end)}"
    return f"{_format_time(first)}-{'24:00' if _is_midnight(end) else f'{end:%H:%M}'}"


def _has_hour(name: str) -> bool:
    recognised = recognise_time(Partition.from_name(name).keys)
    return recognised is not None and all("%H" in time_format for time_format in recognised.formats)


def _is_midnight(time: datetime) -> bool:
    return (time.hour, time.minute, time.second) == (0, 0, 0)


def _format_time(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M}"


_MISSING_SPAN_PATTERN = re.compile(
    r"(?:a gap of|the newest,(?: the next)?) (?:(?P<count>[\d,]+) )?(?P<unit>\w+?)s?"
    r"(?P<overdue>(?: is| are)? overdue)?"
    r"(?:, | from | since |: )(?P<first>(?:\d{4}-\d\d-\d\d|\d+ [A-Z]\w+ \d+)(?: \d\d:\d\d)?)"
)
"""Also matches explanations that older releases stored: "the newest, 1 hour overdue since 21 Oct 2026 18:00"."""
_STEP_BY_UNIT = {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(weeks=1)}


@dataclass(frozen=True)
class MissingSpan:
    """Consecutive partitions that are missing or overdue.

    Attributes
    ----------
    first : datetime
        Time of the first missing partition.
    count : int
        Number of missing partitions.
    unit : str
        ``hour``, ``day``, ``week``, ``month`` or ``partition``.
    is_overdue : bool
        Whether no later partition has arrived yet.
    """

    first: datetime
    count: int
    unit: str
    is_overdue: bool

    @property
    def text(self) -> str:
        """The clause that follows the time in a headline.

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
        """Return the time of the last missing partition.

        Parameters
        ----------
        next_time : datetime
            Time of the partition after the gap, or of the newest partition if the span is overdue.
        """
        step = _STEP_BY_UNIT.get(self.unit)
        if self.count == 1 or step is None:
            return self.first
        return self.first + (self.count - 1) * step if self.is_overdue else next_time - step


def is_missing(metric: str) -> bool:
    """Return whether a metric's anomalies report missing partitions."""
    return metric == MISSING_PARTITION


def is_gap(metric: str, explanation: str) -> bool:
    """Return whether an anomaly reports a gap before its partition, not overdue partitions after it."""
    span = missing_span(explanation) if is_missing(metric) else None
    return span is not None and not span.is_overdue


def missing_span(explanation: str) -> MissingSpan | None:
    """Return the first missing partitions that an explanation names, or None.

    Examples
    --------
    >>> missing_span("ds=2026-10-24 follows a gap of 3 days from 2026-10-21 on.").count
    3
    >>> missing_span("ds=2026-10-20 is the newest, 1 hour overdue since 21 Oct 2026 18:00.").first
    datetime.datetime(2026, 10, 21, 18, 0, tzinfo=datetime.timezone.utc)
    >>> missing_span("is the newest, the next 3 days are overdue: 2026-10-21 was due by 2026-10-22 04:00 UTC").count
    3
    """
    match = _MISSING_SPAN_PATTERN.search(explanation)
    if match is None:
        return None
    date_format = "%Y-%m-%d" if "-" in match["first"] else "%d %b %Y"
    time_format = f"{date_format} %H:%M" if ":" in match["first"] else date_format
    first = datetime.strptime(match["first"], time_format).replace(tzinfo=UTC)
    count = int((match["count"] or "1").replace(",", ""))
    return MissingSpan(first, count, match["unit"], is_overdue=match["overdue"] is not None)


def partition_name_at(time: datetime, neighbour: str, neighbour_time: datetime) -> str | None:
    """Return the name of the partition at a time, in the format of a neighbor's name; None if unknown.

    Examples
    --------
    >>> day = datetime(2026, 10, 21, 5)
    >>> partition_name_at(day, "ds=2026-10-21/hr=07/region=eu", datetime(2026, 10, 21, 7))
    'ds=2026-10-21/hr=05/region=eu'
    """
    partition = Partition.from_name(neighbour)
    recognised = recognise_time(partition.keys)
    if recognised is None:
        return None
    values = dict(zip(partition.keys, partition.values, strict=True))
    neighbour_values = [values[key] for key in recognised.keys]
    for time_format in recognised.formats:
        parts = time_format.split(" ")
        if [neighbour_time.strftime(part) for part in parts] == neighbour_values:
            values |= {
                key: time.strftime(part) for key, part in zip(recognised.keys, parts, strict=True)
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
        Id of the series.
    position : int
        Index of the partition in its partition segment, in order of time.
    partition : int
        Id of the partition.
    partition_name : str
    within : str
        Partition segment: the segment that the partition's non-time keys form.
    time : datetime or None
        Time of the partition.
    name, instance, filter, segment : str
        Metric, instance, filter and segment of the series.
    scale, severity, direction : str
    value, expected : float or None
    score : float
    explanation : str
    incident : int or None
        The incident to which the anomaly was last assigned.
    commit : int
        The commit of the detection that stored the current finding.
    lower, upper : float or None
        Band of expected values.
    """

    id: int
    series: int
    position: int
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
    lower: float | None = None
    upper: float | None = None


def read_anomalies(
    connection: Connection,
    condition: sa.ColumnElement[bool],
    positions: Mapping[int, int],
    commit: int | None = None,
) -> list[Anomaly]:
    """Return current anomalies, or the anomalies as of a commit, in the order of their ids.

    Parameters
    ----------
    connection : Connection
    condition : ColumnElement
        A condition on the tables ``finding`` and ``partition``.
    positions : mapping of int to int
        Index of each partition by id. Other partitions get 0, and their order is unknown.
    commit : int, optional
        Default: the newest commit.
    """
    n, f, e, a, p = s.anomaly.c, s.finding.c, s.series.c, s.analyzer.c, s.partition.c
    column_by_name = {
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
    names = [field.name for field in fields(Anomaly) if field.name != "position"]
    query = (
        sa.select(*select_list(names, column_by_name, s.anomaly, s.finding, s.series))
        .select_from(s.anomaly)
        .join(s.finding, (f.anomaly_id == n.id) & s.holds(s.finding, commit))
        .join(s.series, e.id == n.series_id)
        .join(s.analyzer, a.id == e.analyzer_id)
        .join(s.partition, p.id == n.partition_id)
        .where(condition)
        .order_by(n.id)
    )
    return [
        Anomaly(**row._asdict(), position=positions.get(row.partition, 0))
        for row in connection.execute(query)
    ]


CLEARLY_WORSE_FACTOR = 1.9
"""A deviation that doubles is clearly worse; the factor is below 2 to allow for noise."""
MOST_LOST_SHARE = 0.9
"""If at least this share is already lost, losing the rest is not worse."""
BEYOND_LABEL_FACTOR = 1.1
"""A deviation of another partition may exceed the labeled one by a tenth: the days of a campaign differ."""
_Key = TypeVar("_Key")
_SEVERITY_ORDER = list(Severity)
_WARNING_RANK = _SEVERITY_ORDER.index(Severity.WARNING)


def departure_size(anomaly: Anomaly) -> float | None:
    """Return how far a value deviates from the expected value; None if either is unknown.

    For ratios the deviation is a share of the rows. For other scales it is relative to the expected value.

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

    An incident is clearly worse if its severity rose, if a deviation of the highest severity at least
    doubled, or if one kind of anomaly (missing partitions, unusual values) joined the other. An incident
    without anomalies is worse as soon as it has one.
    """
    if not before or not after:
        return bool(after)
    if {is_missing(anomaly.name) for anomaly in after} - {
        is_missing(anomaly.name) for anomaly in before
    }:
        return True
    severity, sizes = (
        _highest_rank(before),
        _largest_departures((anomaly.series, anomaly) for anomaly in before),
    )
    return any(
        _rank(anomaly) > severity
        or (
            _rank(anomaly) == severity
            and _exceeds(anomaly, sizes.get(anomaly.series), CLEARLY_WORSE_FACTOR)
        )
        for anomaly in after
    )


def exceeds_label(labelled: Sequence[Anomaly], after: Sequence[Anomaly]) -> bool:
    """Return whether an incident exceeds the anomalies that a user labeled.

    Another partition exceeds the label by a higher severity, by a deviation that is more than a tenth
    larger, or by another metric, filter or segment. Parts of a metric whose total was labeled do not
    count as other metrics. Anomalies of severity information count only if such anomalies were labeled.
    A labeled partition that was measured again exceeds the label if it is clearly worse.

    Parameters
    ----------
    labelled, after : sequence of Anomaly
        Anomalies of the incident when it was labeled, and now.
    """
    if not labelled:
        return False
    max_rank = _highest_rank(labelled)
    min_rank = min(max_rank, _WARNING_RANK)
    size_by_point = _largest_departures(
        ((anomaly.series, anomaly.partition), anomaly) for anomaly in labelled
    )
    labelled_points = {(anomaly.series, anomaly.partition) for anomaly in labelled}
    size_by_series = _largest_departures((anomaly.series, anomaly) for anomaly in labelled)
    series = {anomaly.series for anomaly in labelled}
    totals = {
        (anomaly.name, anomaly.instance)
        for anomaly in labelled
        if not anomaly.filter and not anomaly.segment
    }
    for anomaly in after:
        point = (anomaly.series, anomaly.partition)
        if _rank(anomaly) > max_rank:
            return True
        if _rank(anomaly) < min_rank:
            continue
        if point in labelled_points:
            exceeds = _exceeds(anomaly, size_by_point.get(point), CLEARLY_WORSE_FACTOR)
        elif anomaly.series in series:
            exceeds = _exceeds(anomaly, size_by_series.get(anomaly.series), BEYOND_LABEL_FACTOR)
        else:
            exceeds = (anomaly.name, anomaly.instance) not in totals
        if exceeds:
            return True
    return False


def _rank(anomaly: Anomaly) -> int:
    return _SEVERITY_ORDER.index(Severity(anomaly.severity))


def _highest_rank(anomalies: Iterable[Anomaly]) -> int:
    return max(map(_rank, anomalies))


def _largest_departures(keyed: Iterable[tuple[_Key, Anomaly]]) -> dict[_Key, float]:
    """Return the largest known deviation of each key."""
    sizes: dict[_Key, float] = {}
    for key, anomaly in keyed:
        size = departure_size(anomaly)
        if size is not None:
            sizes[key] = max(size, sizes.get(key, 0.0))
    return sizes


def _exceeds(anomaly: Anomaly, known_size: float | None, factor: float) -> bool:
    """Return whether a deviation is at least a factor times a known size, or everything is lost now."""
    size = departure_size(anomaly)
    if size is None or known_size is None or size <= known_size:
        return False
    all_lost = anomaly.value == 0 and known_size < MOST_LOST_SHARE
    return all_lost or size >= factor * known_size
