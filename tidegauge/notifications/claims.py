"""Claims on notifications of incidents, so that one process sends each to each sink once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from tidegauge.notifications.messages import CLEAREST, incident_message
from tidegauge.repository.detectors.severity import Severity
from tidegauge.repository.incidents.listing import incident_rows
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.database import Database, lock_clock
from tidegauge.repository.store.labels import triage
from tidegauge.repository.store.queries import Window, dataset_id

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

PAUSES = tuple(timedelta(minutes=minutes) for minutes in (1, 5, 30, 120))
"""Delays before retries; after the last attempt there is none."""
LOST = timedelta(hours=1)
"""Lease of a claim: after it, a claim without a result counts as abandoned."""


@dataclass(frozen=True)
class IncidentNews:
    """An open incident that a sink is still to be told of.

    Attributes
    ----------
    database : Database
    sink : str
    incident : mapping
        A row as `Repository.incidents` returns it.
    """

    database: Database
    sink: str
    incident: Mapping[str, Any]

    @property
    def number(self) -> int:
        """Its id."""
        return int(self.incident["id"])

    @property
    def subject(self) -> str:
        """The subject, for logs."""
        return f"incident {self.number}"

    @property
    def severity(self) -> Severity:
        """Its severity."""
        return Severity(self.incident["severity"])

    def claim(self, now: datetime) -> bool:
        """Claim it for its sink; return False if another process did."""
        return claim(self.database, self.number, self.sink, now)

    def message(self, url: str | None) -> tuple[str, str]:
        """Return title and body."""
        explanations = clearest(self.database, self.number, CLEAREST)
        return incident_message(self.incident, explanations, url)

    def settle(self, now: datetime, error: str) -> None:
        """Record that it was sent, or the error."""
        settle(self.database, self.number, self.sink, now, error)


def due_incidents(
    database: Database,
    sink: str,
    datasets: Collection[str] | None,
    severity: Severity,
    now: datetime,
) -> list[Mapping[str, Any]]:
    """Return the open incidents of a severity or above that are due for a sink, the oldest first.

    Those that are snoozed are not due before their time.

    Raises
    ------
    UnknownDatasetError
    """
    grave = list(Severity)[list(Severity).index(severity) :]
    n = s.notice.c
    with database.read() as connection:
        for name in datasets or ():
            dataset_id(connection, name)
        rows = incident_rows(connection, None, "open", Window())
        query = sa.select(n.incident_id, n.attempts, n.tried_at, n.sent_at, n.error)
        asleep = {
            number
            for number, state in triage(connection).items()
            if state.snoozed_until is not None and state.snoozed_until > now
        }
        known = {row.incident_id: row for row in connection.execute(query.where(n.sink == sink))}
    return sorted(
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


def is_due(notice: Any, now: datetime) -> bool:
    """Return whether a notification that was claimed before is due for another attempt."""
    if notice.sent_at is not None or notice.attempts > len(PAUSES):
        return False
    pause = LOST if notice.error is None else PAUSES[notice.attempts - 1]
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
