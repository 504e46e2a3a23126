"""Claims on notifications of incidents, so that one process sends each to each sink once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from tidegauge.notifications.messages import CLEAREST, group_message, incident_message
from tidegauge.repository.detectors.severity import Severity
from tidegauge.repository.incidents.common_cause import IncidentGroup, grouped_incident_rows
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.database import Database, lock_clock
from tidegauge.repository.store.labels import triage
from tidegauge.repository.store.queries import Window, dataset_id

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

PAUSES = tuple(timedelta(minutes=minutes) for minutes in (1, 5, 30, 120, 24 * 60))
"""Delays before retries. The last one repeats: what is still open is never given up."""
LOST = timedelta(hours=1)
"""Lease of a claim: after it, a claim without a result counts as abandoned."""


@dataclass
class IncidentNews:
    """An open incident that a sink is still to be told of, or those of a group.

    Attributes
    ----------
    database : Database
    sink : str
    incidents : sequence of mapping
        Rows as `Repository.incidents` returns them, the gravest first; after `claim`, those that were
        claimed.
    group : IncidentGroup, optional
        Their group, which other incidents may belong to, too.
    """

    database: Database
    sink: str
    incidents: Sequence[Mapping[str, Any]]
    group: IncidentGroup | None = None

    @property
    def numbers(self) -> tuple[int, ...]:
        """Their ids."""
        return tuple(int(one["id"]) for one in self.incidents)

    @property
    def subject(self) -> str:
        """The subject, for logs."""
        return f"incident {self.numbers[0]}"

    @property
    def severity(self) -> Severity:
        """The gravest severity."""
        return Severity(self.incidents[0]["severity"])

    def claim(self, now: datetime) -> bool:
        """Claim them for their sink; return False if other processes did."""
        self.incidents = [
            one for one in self.incidents if claim(self.database, int(one["id"]), self.sink, now)
        ]
        return bool(self.incidents)

    def message(self, url: str | None) -> tuple[str, str]:
        """Return title and body."""
        if self.group is not None and len(self.incidents) > 1:
            return group_message(self.group, self.incidents, url)
        explanations = clearest(self.database, self.numbers[0], CLEAREST)
        return incident_message(self.incidents[0], explanations, url, self.group)

    def settle(self, now: datetime, error: str) -> None:
        """Record that they were sent, or the error."""
        for number in self.numbers:
            settle(self.database, number, self.sink, now, error)


def due_news(
    database: Database,
    sink: str,
    datasets: Collection[str] | None,
    severity: Severity,
    now: datetime,
) -> list[IncidentNews]:
    """Return what a sink is still to be told of incidents, the oldest first; those of a group together.

    Raises
    ------
    UnknownDatasetError
    """
    due, groups = _due_incidents(database, sink, datasets, severity, now)
    news: dict[int, list[Mapping[str, Any]]] = {}
    for row in due:
        news.setdefault(row["group"] or row["id"], []).append(row)
    order = list(Severity)
    return [
        IncidentNews(
            database,
            sink,
            sorted(rows, key=lambda row: -order.index(row["severity"])),
            groups.get(rows[0]["id"]),
        )
        for rows in news.values()
    ]


def _due_incidents(
    database: Database,
    sink: str,
    datasets: Collection[str] | None,
    severity: Severity,
    now: datetime,
) -> tuple[list[Mapping[str, Any]], Mapping[int, IncidentGroup]]:
    """Return the open incidents of a severity or above that are due for a sink, and all groups.

    Those that are snoozed are not due before their time.
    """
    grave = list(Severity)[list(Severity).index(severity) :]
    n = s.notice.c
    with database.read() as connection:
        for name in datasets or ():
            dataset_id(connection, name)
        rows, groups = grouped_incident_rows(connection, None, "open", Window())
        query = sa.select(n.incident_id, n.attempts, n.tried_at, n.sent_at, n.error)
        asleep = {
            number
            for number, state in triage(connection).items()
            if state.snoozed_until is not None and state.snoozed_until > now
        }
        known = {row.incident_id: row for row in connection.execute(query.where(n.sink == sink))}
    due: list[Mapping[str, Any]] = sorted(
        (
            row
            for row in rows
            if row["severity"] in grave
            and row["id"] not in asleep
            and (datasets is None or row["dataset"] in datasets)
            and (row["id"] not in known or is_due(known[row["id"]], now))
        ),
        key=lambda row: row["id"],
    )
    return due, groups


def is_due(notice: Any, now: datetime) -> bool:
    """Return whether a notification that was claimed before is due for another attempt."""
    if notice.sent_at is not None:
        return False
    pause = LOST if notice.error is None else PAUSES[min(notice.attempts, len(PAUSES)) - 1]
    return bool(now - notice.tried_at >= pause)


def clearest(database: Database, incident: int, most: int) -> Sequence[str]:
    """Return the explanations of an incident's highest-scoring anomalies, without duplicates."""
    f = s.finding.c
    query = (
        sa.select(f.explanation)
        .where(f.incident_id == incident, s.holds(s.finding))
        .group_by(f.explanation)
        .order_by(sa.func.max(f.score).desc(), f.explanation)
        .limit(most)
    )
    with database.read() as connection:
        return list(connection.execute(query).scalars())


def claim(database: Database, incident: int, sink: str, now: datetime) -> bool:
    """Claim the notification of a sink of an incident; return False if sent, claimed or not yet due."""
    of = (s.notice.c.incident_id == incident) & (s.notice.c.sink == sink)

    def work(connection: Connection) -> bool:
        lock_clock(connection)
        known = connection.execute(sa.select(s.notice).where(of)).one_or_none()
        if known is None:
            values = {"incident_id": incident, "sink": sink, "attempts": 1, "tried_at": now}
            connection.execute(sa.insert(s.notice).values(**values))
        elif is_due(known, now):
            values = {"attempts": known.attempts + 1, "tried_at": now, "error": None}
            connection.execute(sa.update(s.notice).where(of).values(**values))
        else:
            return False
        return True

    return database.write(work)


def settle(database: Database, incident: int, sink: str, now: datetime, error: str) -> None:
    """Record the result of a claim: sent, or an error."""
    n = s.notice.c
    of = (n.incident_id == incident) & (n.sink == sink) & n.sent_at.is_(None)
    values = {"error": error} if error else {"sent_at": now, "error": None}

    def work(connection: Connection) -> None:
        connection.execute(sa.update(s.notice).where(of).values(**values))

    database.write(work)
