"""Context of an incident outside of its metrics, and its timeline.

The context is the run that measured the partitions, the runbook and the downstream tables. The timeline lists
when the incident was found, notified and labeled, and when its partitions were measured again.
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


UPSTREAM_TAG = "upstream"
"""Tag of runs: comma-separated names of the tables from which a dataset is made."""
RUNBOOK_TAG = "runbook"
"""Tag of runs: URL of instructions for incidents of a dataset."""
JOB_TAG = "job"
"""Tag of runs: URL of the job that produced or measured the data."""


@dataclass(frozen=True)
class MeasuringRun:
    """The run that measured a partition.

    Attributes
    ----------
    id : int
    started_at : datetime
    job : str or None
        Value of the tag ``job``.
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
        The run that measured the current version of the incident's first partition; None without one.
    runbook : str or None
        Value of the tag ``runbook`` of the dataset's last run.
    downstream : tuple of str
        Datasets made from this dataset, directly or indirectly, the nearest first.
    """

    run: MeasuringRun | None = None
    runbook: str | None = None
    downstream: tuple[str, ...] = ()


def incident_context(
    connection: Connection, dataset: str, partitions: Sequence[int]
) -> IncidentContext:
    """Return the context of an incident, given its dataset and the ids of its partitions in order."""
    tags = tags_of_datasets(connection)
    return IncidentContext(
        _run_of(connection, partitions[0]) if partitions else None,
        tags.get(dataset, {}).get(RUNBOOK_TAG),
        downstream_of(
            dataset, {name: upstreams(dataset_tags) for name, dataset_tags in tags.items()}
        ),
    )


def upstreams(tags: Mapping[str, str]) -> frozenset[str]:
    """Return the tables that the tag ``upstream`` names.

    Examples
    --------
    >>> sorted(upstreams({"upstream": "raw.orders, raw.users,"}))
    ['raw.orders', 'raw.users']
    """
    names = tags.get(UPSTREAM_TAG, "").split(",")
    return frozenset(name.strip() for name in names if name.strip())


def downstream_of(dataset: str, made_from: Mapping[str, frozenset[str]]) -> tuple[str, ...]:
    """Return the datasets made from a dataset, directly or indirectly: the nearest first, then by name.

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
    downstream: dict[str, None] = {}
    queue = deque([dataset])
    while queue:
        for name in makes[queue.popleft()]:
            if name != dataset and name not in downstream:
                downstream[name] = None
                queue.append(name)
    return tuple(downstream)


def _run_of(connection: Connection, partition: int) -> MeasuringRun | None:
    v, r, t = s.partition_version.c, s.run.c, s.run_tag.c
    query = (
        sa.select(r.id, r.started_at, t.value)
        .join_from(s.partition_version, s.run, r.id == v.run_id)
        .outerjoin(s.run_tag, (t.run_id == r.id) & (t.key == JOB_TAG))
        .where(v.partition_id == partition, s.holds(s.partition_version))
    )
    row = connection.execute(query).one_or_none()
    return None if row is None else MeasuringRun(*row)


MAX_RESTATED_EVENTS = 50


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
        Partition, metric and instance of the labeled anomaly.
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
    """Return the events of an incident in order of time; empty if the incident does not exist."""
    events = [
        *_detection_events(connection, incident),
        *_notification_events(connection, incident),
        *_label_events(connection, incident),
        *_restatement_events(connection, incident),
    ]
    return sorted(events, key=lambda event: event.at)


def _detection_events(connection: Connection, incident: int) -> list[Event]:
    query = sa.select(s.incident.c.opened_at).where(s.incident.c.id == incident)
    return [Event(at, "found") for at in connection.execute(query).scalars()]


def _notification_events(connection: Connection, incident: int) -> list[Event]:
    n = s.notice.c
    query = sa.select(n.sink, n.tried_at, n.sent_at, n.error).where(n.incident_id == incident)
    return [
        Event(row.sent_at, "notified", row.sink)
        if row.sent_at is not None
        else Event(row.tried_at, "notification failed", row.sink, row.error)
        for row in connection.execute(query)
    ]


def _label_events(connection: Connection, incident: int) -> list[Event]:
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


def _restatement_events(connection: Connection, incident: int) -> list[Event]:
    """Return the later versions of partitions with anomalies; of many, the newest."""
    f, n, p, v = s.finding.c, s.anomaly.c, s.partition.c, s.partition_version.c
    anomalous = (
        sa.select(n.partition_id)
        .join_from(s.finding, s.anomaly, n.id == f.anomaly_id)
        .where(f.incident_id == incident, s.holds(s.finding))
    )
    query = (
        sa.select(v.measured_at, p.name, v.version)
        .join_from(s.partition_version, s.partition)
        .where(v.partition_id.in_(anomalous), v.version > 1)
        .order_by(v.measured_at.desc())
        .limit(MAX_RESTATED_EVENTS)
    )
    return [
        Event(at, "restated", text=f"version {version} of {name or 'the table'}")
        for at, name, version in connection.execute(query)
    ]
