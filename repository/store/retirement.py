"""Retired datasets: their history stays readable, and nothing is expected of them any more.

A dataset is retired, and brought back, by a label on the dataset as a whole; the last one counts.
"""

from __future__ import annotations

import shlex
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

import sqlalchemy as sa

from tidegauge.analyzers.core.errors import RetiredDatasetError
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.database import Database, next_commit
from tidegauge.repository.store.dimensions import visible
from tidegauge.repository.store.queries import dataset_id

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

RETIRED, REVIVED = "retired", "revived"
"""Labels of datasets. They are none of those of anomalies and ranges."""


class Retirement(NamedTuple):
    """Who retired a dataset, when, and why."""

    at: datetime
    note: str | None
    by: str | None


def retirements(connection: Connection, commit: int | None = None) -> dict[int, Retirement]:
    """Return the retired datasets, by id, now or as of a commit."""
    b = s.label.c
    query = sa.select(b.dataset_id, b.label, b.created_at, b.note, b.by).where(
        b.label.in_([RETIRED, REVIVED])
    )
    if commit is not None:
        query = query.where(b.commit_id <= commit)
    found: dict[int, Retirement] = {}
    for dataset, label, at, note, by in connection.execute(query.order_by(b.id)):
        found.pop(dataset, None)
        if label == RETIRED:
            found[dataset] = Retirement(at, note, by)
    return found


def set_retired(
    database: Database, dataset: str, note: str | None, by: str | None, *, retired: bool
) -> None:
    """Retire a dataset or bring it back; nothing is written if it is so already.

    Raises
    ------
    UnknownDatasetError
    """

    def work(connection: Connection) -> None:
        of = dataset_id(connection, dataset)
        if (of in retirements(connection)) == retired:
            return
        commit, now = next_commit(connection, None)
        values = {
            "dataset_id": of,
            "label": RETIRED if retired else REVIVED,
            "note": note and visible(note),
            "by": by and visible(by),
            "created_at": now,
            "commit_id": commit,
        }
        connection.execute(sa.insert(s.label).values(values))

    database.write(work)


def require_active(connection: Connection, dataset: int, name: str) -> None:
    """Raise a `RetiredDatasetError` if a dataset is retired."""
    found = retirements(connection).get(dataset)
    if found is not None:
        why = f" ({found.note})" if found.note else ""
        msg = (
            f"dataset {name!r} was retired on {found.at:%Y-%m-%d}{why}: bring it back by"
            f" `tidegauge dataset revive {shlex.quote(name)}`, or remove its suite"
        )
        raise RetiredDatasetError(msg)
