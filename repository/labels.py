"""What people say of anomalies and incidents. Labels are only ever added; the last one counts."""

from __future__ import annotations

from collections.abc import Mapping
from operator import index
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from analyzers.errors import HistoryError, UnknownNameError
from repository import schema as s
from repository.database import Database, next_commit
from repository.dimensions import visible
from repository.history import AsOf, commit_as_of, dataset_id

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

STATUS_OF: Mapping[str, str | None] = {
    "acknowledged": "acknowledged",
    "expected": "expected",
    "bad": None,
    "ignore": None,
    "resolved": "resolved",
    "reopened": "open",
    "rebaseline": None,
}
"""The labels there are, and the status that each gives; None leaves it as it is."""

LABEL_COLUMNS = (
    "dataset",
    "anomaly_id",
    "incident_id",
    "partition",
    "name",
    "instance",
    "label",
    "note",
    "by",
    "created_at",
)


def add_label(database: Database, of: int, label: str, note: str | None, by: str | None) -> None:
    """Add a label to an anomaly or incident.

    Raises
    ------
    UnknownNameError
        If there is no such label.
    HistoryError
        If there is no such anomaly or incident.
    """
    if label not in STATUS_OF:
        raise UnknownNameError("label", label, STATUS_OF)
    of = index(of)
    told = {"note": note and visible(note), "by": by and visible(by)}

    def work(connection: Connection) -> None:
        commit, now = next_commit(connection, None)
        about = _anomaly(connection, of) or _incident(connection, of)
        if about is None:
            msg = f"there is no anomaly and no incident {of}; repo.anomalies() lists their ids"
            raise HistoryError(msg)
        values = {**about, "label": label, **told}
        connection.execute(sa.insert(s.label).values(**values, created_at=now, commit_id=commit))

    database.write(work)


def _anomaly(connection: Connection, of: int) -> dict[str, int] | None:
    n = s.anomaly.c
    query = (
        sa.select(s.partition.c.dataset_id, n.series_id, n.partition_id)
        .join_from(s.anomaly, s.partition)
        .where(n.id == of)
    )
    row = connection.execute(query).one_or_none()
    return None if row is None else {**row._asdict(), "anomaly_id": of}


def _incident(connection: Connection, of: int) -> dict[str, int] | None:
    query = sa.select(s.incident.c.dataset_id).where(s.incident.c.id == of)
    dataset = connection.execute(query).scalar_one_or_none()
    return None if dataset is None else {"dataset_id": dataset, "incident_id": of}


def statuses(connection: Connection, commit: int | None = None) -> dict[int, str]:
    """Return the status of every anomaly and incident that has one by its labels."""
    b = s.label.c
    telling = [label for label, status in STATUS_OF.items() if status is not None]
    query = sa.select(b.anomaly_id, b.incident_id, b.label).where(b.label.in_(telling))
    if commit is not None:
        query = query.where(b.commit_id <= commit)
    found: dict[int, str] = {}
    for anomaly, incident, label in connection.execute(query.order_by(b.commit_id, b.id)):
        found[incident if anomaly is None else anomaly] = str(STATUS_OF[label])
    return found


def label_rows(
    connection: Connection, dataset: str | None, as_of: AsOf = None
) -> list[Mapping[str, Any]]:
    """Return all labels in the order in which they were given."""
    b = s.label.c
    named = {
        "dataset": s.dataset.c.name,
        "partition": s.partition.c.name,
        "name": s.series.c.name,
        "instance": s.series.c.instance,
    }
    query = (
        sa.select(*(named.get(c, b.get(c)).label(c) for c in LABEL_COLUMNS))  # type: ignore[union-attr]
        .select_from(s.label)
        .join(s.dataset, s.dataset.c.id == b.dataset_id)
        .outerjoin(s.series, s.series.c.id == b.series_id)
        .outerjoin(s.partition, s.partition.c.id == b.partition_id)
        .order_by(b.commit_id, b.id)
    )
    if dataset is not None:
        query = query.where(b.dataset_id == dataset_id(connection, dataset))
    commit = commit_as_of(connection, as_of)
    if commit is not None:
        query = query.where(b.commit_id <= commit)
    return [row._asdict() for row in connection.execute(query)]
