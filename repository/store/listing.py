"""Listings of datasets, partitions and runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from tidegauge.analyzers.runs.ledger import RunStatus
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.frames import columns
from tidegauge.repository.store.queries import AsOf, commit_as_of, dataset_id

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

PARTITION_COLUMNS = columns(
    "partition time:time segment version:integer rows:integer fingerprint"
    " first_seen_at:time arrived_at:time measured_at:time gone_at:time run_id:integer"
)
RUN_COLUMNS = columns(
    "run_id:integer dataset status selection measured skipped failed gone"
    " started_at:time finished_at:time error tags"
)

MOST_RUNS = 1000
"""Newest runs among which the last that measured anything is looked for."""


def dataset_names(connection: Connection) -> list[str]:
    """Return the names of all datasets, sorted."""
    query = sa.select(s.dataset.c.name).order_by(s.dataset.c.name)
    return list(connection.execute(query).scalars())


def tags_of_datasets(connection: Connection) -> dict[str, dict[str, str]]:
    """Return the tags of each dataset's last run; datasets without any are left out."""
    t, r = s.run_tag.c, s.run.c
    last = sa.select(sa.func.max(r.id)).group_by(r.dataset_id)
    query = (
        sa.select(s.dataset.c.name, t.key, t.value)
        .join_from(s.run_tag, s.run, r.id == t.run_id)
        .join(s.dataset, s.dataset.c.id == r.dataset_id)
        .where(r.id.in_(last))
    )
    found: dict[str, dict[str, str]] = {}
    for dataset, key, value in connection.execute(query):
        found.setdefault(dataset, {})[key] = value
    return found


def partition_rows(
    connection: Connection, dataset: str, as_of: AsOf, *, every: bool
) -> list[Mapping[str, Any]]:
    """Return the ledger of a dataset, with the current version of each partition or every one."""
    p, v = s.partition.c, s.partition_version.c
    of = dataset_id(connection, dataset)
    commit = commit_as_of(connection, as_of)
    holds = s.holds(s.partition_version, commit)
    if every:
        holds = sa.true() if commit is None else v.commit_id <= commit
    query = (
        sa.select(
            p.name.label("partition"),
            p.time,
            p.segment,
            v.version,
            v.rows,
            v.fingerprint,
            p.first_seen_at,
            v.arrived_at,
            v.measured_at,
            s.commit.c.committed_at.label("gone_at"),
            v.run_id,
        )
        .join_from(s.partition, s.partition_version)
        .outerjoin(s.absence, (s.absence.c.partition_id == p.id) & s.holds(s.absence, commit))
        .outerjoin(s.commit, s.commit.c.id == s.absence.c.commit_id)
        .where(p.dataset_id == of, holds)
        .order_by(p.time.is_(None), p.time, p.name, v.version)
    )
    return [row._asdict() for row in connection.execute(query)]


def run_rows(connection: Connection, dataset: str | None) -> list[Mapping[str, Any]]:
    """Return all runs with their tags, newest first."""
    r = s.run.c
    query = (
        sa.select(
            r.id.label("run_id"),
            s.dataset.c.name.label("dataset"),
            r.status,
            r.selection,
            r.measured,
            r.skipped,
            r.failed,
            r.gone,
            r.started_at,
            r.finished_at,
            r.error,
        )
        .join_from(s.run, s.dataset)
        .order_by(r.id.desc())
    )
    if dataset is not None:
        query = query.where(r.dataset_id == dataset_id(connection, dataset))
    rows = [row._asdict() for row in connection.execute(query)]
    tags: dict[int, dict[str, str]] = {}
    for run, key, value in connection.execute(sa.select(s.run_tag)):
        tags.setdefault(run, {})[key] = value
    return [{**row, "tags": tags.get(row["run_id"], {})} for row in rows]


def last_measuring_runs(connection: Connection, dataset: str) -> set[int]:
    """Return the newest runs of a dataset, up to the last that measured any partition.

    Those before it belong to it, up to the last that is complete: what they left it has measured.
    """
    r, found = s.run.c, set[int]()
    of = dataset_id(connection, dataset)
    query = sa.select(r.id, r.status, r.measured).where(r.dataset_id == of).order_by(r.id.desc())
    measured = False
    for run, status, partitions in connection.execute(query.limit(MOST_RUNS)):
        if measured and status == RunStatus.COMPLETE:
            break
        found.add(run)
        measured = measured or partitions > 0
    return found
