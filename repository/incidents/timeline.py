"""Timeline of an incident: found, notified, labelled, and its partitions measured again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import sqlalchemy as sa

from tidegauge.repository.store import schema as s
from tidegauge.repository.store.labels import labels_of_incident

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

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
