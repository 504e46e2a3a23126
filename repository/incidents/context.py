"""Context of an incident outside of its metrics, and its timeline.

The context is the run that measured its partitions, its runbook and the tables made from it. The timeline
says when the incident was found, notified and labelled, and when its partitions were measured again.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import sqlalchemy as sa

from tidegauge.repository.store import schema as s
from tidegauge.repository.store.labels import labels_of_incident
from tidegauge.repository.store.listing import tags_of_datasets

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


UPSTREAM = "upstream"
"""Tag of runs that names the tables, separated by commas, from which a dataset is made."""
RUNBOOK = "runbook"
"""Tag of runs with the address of what to do about incidents of a dataset."""
JOB = "job"
"""Tag of runs with the address of the job that made or measured the data."""


@dataclass(frozen=True)
class MeasuringRun:
    """The run that measured a partition.

    Attributes
    ----------
    id : int
    started_at : datetime
    job : str or None
        Its tag `JOB`.
    """

    id: int
    started_at: datetime
    job: str | None


@dataclass(frozen=True)
class IncidentContext:
    """Run, runbook and downstream tables of an incident.

    Attributes
    ----------
    run : MeasuringRun or None
        The run that measured the first of its partitions as it is now; None if no run did.
    runbook : str or None
        The tag `RUNBOOK` of the dataset's last run.
    downstream : tuple of str
        Datasets made from this one, directly or by others, the nearest first.
    """

    run: MeasuringRun | None = None
    runbook: str | None = None
    downstream: tuple[str, ...] = ()


def incident_context(
    connection: Connection, dataset: str, partitions: Sequence[int]
) -> IncidentContext:
    """Return the context of an incident in some partitions of a dataset, by id, in order."""
    tags = tags_of_datasets(connection)
    return IncidentContext(
        _run_of(connection, partitions[0]) if partitions else None,
        tags.get(dataset, {}).get(RUNBOOK),
        downstream_of(dataset, {name: upstreams(own) for name, own in tags.items()}),
    )


def upstreams(tags: Mapping[str, str]) -> frozenset[str]:
    """Return the tables that the tag `UPSTREAM` names.

    Examples
    --------
    >>> sorted(upstreams({"upstream": "raw.orders, raw.users,"}))
    ['raw.orders', 'raw.users']
    """
    names = tags.get(UPSTREAM, "").split(",")
    return frozenset(name.strip() for name in names if name.strip())


def downstream_of(dataset: str, made_from: Mapping[str, frozenset[str]]) -> tuple[str, ...]:
    """Return the datasets made from one, directly or by others: the nearest first, then by name.

    Examples
    --------
    >>> made_from = {"b": frozenset("a"), "c": frozenset("b"), "d": frozenset("ab"), "a": frozenset("c")}
    >>> downstream_of("a", made_from)
    ('b', 'd', 'c')
    """
    makes: defaultdict[str, list[str]] = defaultdict(list)
    for name in sorted(made_from):
        for upstream in made_from[name]:
            makes[upstream].append(name)
    found: dict[str, None] = {}
    waiting = deque([dataset])
    while waiting:
        for name in makes[waiting.popleft()]:
            if name != dataset and name not in found:
                found[name] = None
                waiting.append(name)
    return tuple(found)


def _run_of(connection: Connection, partition: int) -> MeasuringRun | None:
    v, r, t = s.partition_version.c, s.run.c, s.run_tag.c
    query = (
        sa.select(r.id, r.started_at, t.value)
        .join_from(s.partition_version, s.run, r.id == v.run_id)
        .outerjoin(s.run_tag, (t.run_id == r.id) & (t.key == JOB))
        .where(v.partition_id == partition, s.holds(s.partition_version))
    )
    row = connection.execute(query).one_or_none()
    return None if row is None else MeasuringRun(*row)


MOST_VERSIONS = 50
"""Maximum number of partitions measured again to list."""


@dataclass(frozen=True)
class Event:
    """One entry of a timeline.

    Attributes
    ----------
    at : datetime
    kind : str
        ``found``, ``notified``, ``notification failed``, ``restated``, or a label.
    by : str or None
        The author of a label; the sink of a notification.
    text : str or None
        The note of a label; the error of a notification; the partition measured again.
    partition, name, instance : str or None
        Of the anomaly that was labelled.
    until : datetime or None
        The end of a snooze.
    """

    at: datetime
    kind: str
    by: str | None = None
    text: str | None = None
    partition: str | None = None
    name: str | None = None
    instance: str | None = None
    until: datetime | None = None


def timeline(connection: Connection, incident: int) -> list[Event]:
    """Return the events of an incident in order of time; empty if there is no such incident."""
    events = [
        *_found(connection, incident),
        *_notified(connection, incident),
        *_labelled(connection, incident),
        *_restated(connection, incident),
    ]
    return sorted(events, key=lambda event: event.at)


def _found(connection: Connection, incident: int) -> list[Event]:
    query = sa.select(s.incident.c.opened_at).where(s.incident.c.id == incident)
    return [Event(at, "found") for at in connection.execute(query).scalars()]


def _notified(connection: Connection, incident: int) -> list[Event]:
    n = s.notice.c
    query = sa.select(n.sink, n.tried_at, n.sent_at, n.error).where(n.incident_id == incident)
    return [
        Event(row.sent_at, "notified", row.sink)
        if row.sent_at is not None
        else Event(row.tried_at, "notification failed", row.sink, row.error)
        for row in connection.execute(query)
    ]


def _labelled(connection: Connection, incident: int) -> list[Event]:
    b, e, p = s.label.c, s.series.c, s.partition.c
    query = (
        sa.select(b.created_at, b.label, b.by, b.note, p.name, e.name, e.instance, b.until)
        .select_from(s.label)
        .outerjoin(s.series, e.id == b.series_id)
        .outerjoin(s.partition, p.id == b.partition_id)
        .where(labels_of_incident(incident))
        .order_by(b.id)
    )
    return [Event(*row) for row in connection.execute(query)]


def _restated(connection: Connection, incident: int) -> list[Event]:
    """Return the later versions of the partitions with anomalies, the newest if there are many."""
    f, n, p, v = s.finding.c, s.anomaly.c, s.partition.c, s.partition_version.c
    out = (
        sa.select(n.partition_id)
        .join_from(s.finding, s.anomaly, n.id == f.anomaly_id)
        .where(f.incident_id == incident, s.holds(s.finding))
    )
    query = (
        sa.select(v.measured_at, p.name, v.version)
        .join_from(s.partition_version, s.partition)
        .where(v.partition_id.in_(out), v.version > 1)
        .order_by(v.measured_at.desc())
        .limit(MOST_VERSIONS)
    )
    return [
        Event(at, "restated", text=f"version {version} of {name or 'the table'}")
        for at, name, version in connection.execute(query)
    ]
