"""Listings of datasets, partitions and runs, and which datasets are retired.

A label on the whole dataset retires it or brings it back; the last label counts. The history of a
retired dataset stays readable, but no new partitions are expected.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa

from tidegauge.analyzers.core.errors import RetiredDatasetError
from tidegauge.analyzers.core.formatting import plain
from tidegauge.analyzers.runs.ledger import RunStatus
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.database import Database, next_commit
from tidegauge.repository.store.dimensions import visible
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
    " started_at:time finished_at:time error tags routes"
)

DATASET_COLUMNS = columns(
    "dataset source partitions:integer newest last_run:time status retired_at:time note by"
)


def dataset_names(connection: Connection, *, retired: bool | None = None) -> list[str]:
    """Return the names of all, retired or active datasets, sorted."""
    query = sa.select(s.dataset.c.name).order_by(s.dataset.c.name)
    if retired is not None:
        ended = s.dataset.c.id.in_(retired_datasets())
        query = query.where(ended if retired else ~ended)
    return list(connection.execute(query).scalars())


def dataset_rows(connection: Connection) -> list[Mapping[str, Any]]:
    """Return each dataset with its table, partitions, last run, and whether it is retired."""
    dataset, partition, run = s.dataset.c, s.partition.c, s.run.c
    partitions = (
        sa.select(
            partition.dataset_id,
            sa.func.count().label("number"),
            sa.func.max(partition.name).label("newest"),
        )
        .group_by(partition.dataset_id)
        .subquery()
    )
    last = sa.select(sa.func.max(run.id)).group_by(run.dataset_id)
    runs = sa.select(run.dataset_id, run.status, run.started_at).where(run.id.in_(last)).subquery()
    query = (
        sa.select(dataset.id, dataset.name, dataset.source, *partitions.c[1:], *runs.c[1:])
        .select_from(s.dataset)
        .outerjoin(partitions, partitions.c.dataset_id == dataset.id)
        .outerjoin(runs, runs.c.dataset_id == dataset.id)
        .order_by(dataset.name)
    )
    retired = retirements(connection)
    rows: list[Mapping[str, Any]] = []
    for dataset_number, name, source, number, newest, status, started in connection.execute(query):
        ended = retired.get(dataset_number)
        rows.append(
            {
                "dataset": name,
                "source": source,
                "partitions": number or 0,
                "newest": newest,
                "last_run": started,
                "status": "retired" if ended else status,
                "retired_at": ended.at if ended else None,
                "note": ended.note if ended else None,
                "by": ended.by if ended else None,
            }
        )
    return rows


WATCH_TAG = "watch"
"""Tag of the runs of `tidegauge.watch`: the fingerprint of the listing that was measured."""
NOT_SEEN = "not seen"
"""Value of the tag if the table has disappeared."""
SNAPSHOTS_ENDING = ".snapshots"
"""Ending of the names of datasets of unpartitioned tables that are watched."""


MAX_NAMED_UNSEEN = 5
"""Maximum number of tables that have disappeared whose names are in the coverage."""


def coverage_words(connection: Connection) -> str:
    """Return how many active datasets are watched, measured by suites, checked, and not seen; empty without a watch.

    Checked datasets have verdicts of rules or checks; they are also watched or measured. Datasets whose tables have
    disappeared are named.
    """
    retired = set(connection.execute(retired_datasets()).scalars())
    d, run_tag, run = s.dataset.c, s.run_tag.c, s.run.c
    last = sa.select(sa.func.max(run.id)).group_by(run.dataset_id)
    query = (
        sa.select(run.dataset_id, run_tag.value)
        .select_from(s.run)
        .outerjoin(s.run_tag, (run_tag.run_id == run.id) & (run_tag.key == WATCH_TAG))
        .where(run.id.in_(last))
    )
    tags = {number: tag for number, tag in connection.execute(query) if number not in retired}
    checked = set(connection.execute(sa.select(s.verdict.c.dataset_id).distinct()).scalars())
    names = {row.id: row.name for row in connection.execute(sa.select(d.id, d.name))}
    watched = [number for number, tag in tags.items() if tag is not None]
    if not watched:
        return ""
    unseen = sorted(names[number] for number in watched if tags[number] == NOT_SEEN)
    named = [plain(name) for name in unseen[:MAX_NAMED_UNSEEN]]
    if len(unseen) > MAX_NAMED_UNSEEN:
        named.append(f"and {len(unseen) - MAX_NAMED_UNSEEN:,} more")
    return (
        f"{len(watched) - len(unseen):,} watched, {len(tags) - len(watched):,} measured,"
        f" {len(checked & names.keys() - retired):,} checked, {len(unseen):,} not seen"
        + (f" ({', '.join(named)})" if named else "")
    )


def tags_of_datasets(connection: Connection) -> dict[str, dict[str, str]]:
    """Return the tags of each dataset's last run; datasets without any are left out."""
    run_tag, run = s.run_tag.c, s.run.c
    last = sa.select(sa.func.max(run.id)).group_by(run.dataset_id)
    query = (
        sa.select(s.dataset.c.name, run_tag.key, run_tag.value)
        .join_from(s.run_tag, s.run, run.id == run_tag.run_id)
        .join(s.dataset, s.dataset.c.id == run.dataset_id)
        .where(run.id.in_(last))
    )
    tags: dict[str, dict[str, str]] = {}
    for dataset, key, value in connection.execute(query):
        tags.setdefault(dataset, {})[key] = value
    return tags


def partition_rows(
    connection: Connection, dataset: str, as_of: AsOf, *, all_versions: bool
) -> list[Mapping[str, Any]]:
    """Return the ledger of a dataset, with the current version or all versions of each partition."""
    partition, partition_version = s.partition.c, s.partition_version.c
    dataset_number = dataset_id(connection, dataset)
    commit = commit_as_of(connection, as_of)
    holds = s.holds(s.partition_version, commit)
    if all_versions:
        holds = sa.true() if commit is None else partition_version.commit_id <= commit
    query = (
        sa.select(
            partition.name.label("partition"),
            partition.time,
            partition.segment,
            partition_version.version,
            partition_version.rows,
            partition_version.fingerprint,
            partition.first_seen_at,
            partition_version.arrived_at,
            partition_version.measured_at,
            s.commit.c.committed_at.label("gone_at"),
            partition_version.run_id,
        )
        .join_from(s.partition, s.partition_version)
        .outerjoin(
            s.absence, (s.absence.c.partition_id == partition.id) & s.holds(s.absence, commit)
        )
        .outerjoin(s.commit, s.commit.c.id == s.absence.c.commit_id)
        .where(partition.dataset_id == dataset_number, holds)
        .order_by(
            partition.time.is_(None), partition.time, partition.name, partition_version.version
        )
    )
    return [row._asdict() for row in connection.execute(query)]


def has_times(connection: Connection, dataset: str) -> bool:
    """Return whether a measured partition of a dataset has a time."""
    partition = s.partition.c
    query = (
        sa.select(partition.id)
        .join_from(s.partition, s.partition_version)
        .where(partition.dataset_id == dataset_id(connection, dataset), partition.time.is_not(None))
        .where(s.holds(s.partition_version))
        .limit(1)
    )
    return connection.execute(query).first() is not None


def run_rows(connection: Connection, dataset: str | None) -> list[Mapping[str, Any]]:
    """Return all runs with their tags, newest first."""
    query = (
        sa.select(
            s.run.c.id.label("run_id"),
            s.dataset.c.name.label("dataset"),
            s.run.c.status,
            s.run.c.selection,
            s.run.c.measured,
            s.run.c.skipped,
            s.run.c.failed,
            s.run.c.gone,
            s.run.c.started_at,
            s.run.c.finished_at,
            s.run.c.error,
            s.run.c.routes,
        )
        .join_from(s.run, s.dataset)
        .order_by(s.run.c.id.desc())
    )
    if dataset is not None:
        query = query.where(s.run.c.dataset_id == dataset_id(connection, dataset))
    rows = [row._asdict() for row in connection.execute(query)]
    tags: dict[int, dict[str, str]] = {}
    for run, key, value in connection.execute(sa.select(s.run_tag)):
        tags.setdefault(run, {})[key] = value
    return [
        {
            **row,
            "tags": tags.get(row["run_id"], {}),
            "routes": None if row["routes"] is None else json.loads(row["routes"]),
        }
        for row in rows
    ]


def first_of_last_runs(dataset: sa.ColumnElement[int]) -> sa.ScalarSelect[int]:
    """Select the first of a dataset's last runs, up to the last that measured any partition.

    Earlier incomplete runs are included, up to the last complete run before it, because the newest
    run measured their remaining partitions.

    Parameters
    ----------
    dataset : ColumnElement
        A column with the dataset's id, of the enclosing statement; or a literal.
    """
    runs = s.run.alias("measuring"), s.run.alias("completed"), s.run.alias("last")
    measuring, completed, last = (run.c for run in runs)
    newest = sa.select(sa.func.max(measuring.id)).where(
        measuring.dataset_id == dataset, measuring.measured > 0
    )
    previous = sa.select(sa.func.max(completed.id)).where(
        completed.dataset_id == dataset,
        completed.status == RunStatus.COMPLETE.value,
        completed.id < newest.correlate_except(runs[0]).scalar_subquery(),
    )
    ended = sa.func.coalesce(previous.correlate_except(runs[1]).scalar_subquery(), 0)
    first = sa.select(sa.func.min(last.id)).where(last.dataset_id == dataset, last.id > ended)
    return first.correlate_except(runs[2]).scalar_subquery()


def last_measuring_runs(connection: Connection, dataset: str) -> set[int]:
    """Return the newest runs of a dataset, up to the last that measured any partition."""
    run = s.run.c
    dataset_number = sa.literal(dataset_id(connection, dataset))
    query = sa.select(run.id).where(
        run.dataset_id == dataset_number, run.id >= first_of_last_runs(dataset_number)
    )
    return set(connection.execute(query).scalars())


RETIRED_LABEL, REVIVED_LABEL = "retired", "revived"
"""Labels of datasets; anomalies and ranges have other labels."""


class Retirement(NamedTuple):
    """The end of a dataset: its time, reason and author."""

    at: datetime
    note: str | None
    by: str | None


def retired_datasets() -> sa.Select[tuple[int]]:
    """Select the ids of the datasets that are retired now."""
    label = s.label.c
    last = sa.select(sa.func.max(label.id)).where(label.label.in_([RETIRED_LABEL, REVIVED_LABEL]))
    of_each = last.group_by(label.dataset_id)
    return sa.select(label.dataset_id).where(label.id.in_(of_each), label.label == RETIRED_LABEL)


def retirements(connection: Connection, commit: int | None = None) -> dict[int, Retirement]:
    """Return the retired datasets, by id, now or as of a commit."""
    query = sa.select(
        s.label.c.dataset_id, s.label.c.label, s.label.c.created_at, s.label.c.note, s.label.c.by
    ).where(s.label.c.label.in_([RETIRED_LABEL, REVIVED_LABEL]))
    if commit is not None:
        query = query.where(s.label.c.commit_id <= commit)
    retired: dict[int, Retirement] = {}
    for dataset, label, time, note, user in connection.execute(query.order_by(s.label.c.id)):
        retired.pop(dataset, None)
        if label == RETIRED_LABEL:
            retired[dataset] = Retirement(time, note, user)
    return retired


def set_retired(
    database: Database,
    dataset: str,
    note: str | None,
    user: str | None,
    *,
    retired: bool,
    dry_run: bool = False,
) -> None:
    """Retire a dataset or bring it back. A dry run, or a repeated call, writes nothing.

    Raises
    ------
    UnknownDatasetError
        If the dataset does not exist.
    """

    def work(connection: Connection) -> None:
        dataset_number = dataset_id(connection, dataset)
        if (dataset_number in retirements(connection)) == retired:
            return
        commit, now = next_commit(connection, None)
        values = {
            "dataset_id": dataset_number,
            "label": RETIRED_LABEL if retired else REVIVED_LABEL,
            "note": note and visible(note),
            "by": user and visible(user),
            "created_at": now,
            "commit_id": commit,
        }
        connection.execute(sa.insert(s.label).values(values))

    if dry_run:
        with database.read() as connection:
            dataset_id(connection, dataset)
    else:
        database.write(work)


def require_active(connection: Connection, dataset: int, name: str) -> None:
    """Raise a `RetiredDatasetError` if a dataset is retired."""
    retirement = retirements(connection).get(dataset)
    if retirement is not None:
        why = f" ({retirement.note})" if retirement.note else ""
        msg = (
            f"dataset {name!r} was retired on {retirement.at:%Y-%m-%d}{why}: bring it back by"
            f" `tidegauge dataset revive {shlex.quote(name)}`, or remove its suite"
        )
        raise RetiredDatasetError(msg)
