"""The anomaly record that grouping and headlines work on, how it is read, and which anomalies got worse.

An incident is clearly worse if anomalies joined it or got worse between two of its states. These
comparisons are pure functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

import sqlalchemy as sa

from tidegauge.analyzers.core.metric import Scale
from tidegauge.repository.incidents.periods import is_missing
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.queries import select_list
from tidegauge.repository.store.rows import Severity

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


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
