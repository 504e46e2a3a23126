"""Versions of partitions and points, and metric changes by restatements.

The lookups are for views that show a few points, partitions and versions. Restatements are metric
changes between versions of a partition that was measured or recorded again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa

from tidegauge.repository.store import schema as s
from tidegauge.repository.store.frames import columns
from tidegauge.repository.store.queries import AsOf, MetricQuery, commit_as_of, dataset_id
from tidegauge.repository.store.rows import number_of

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


class PartitionName(NamedTuple):
    """A partition's name, time and segment."""

    name: str
    time: datetime | None
    segment: str


class PointValue(NamedTuple):
    """The value of one series in one partition."""

    partition: str
    value: float | None
    status: str
    version: int


class StoredPoint(NamedTuple):
    """A stored version of a point, with whether it is the current one."""

    series: int
    partition: int
    version: int
    value: float | None
    status: str
    current: bool


class StoredVersion(NamedTuple):
    """One version of a partition in the ledger."""

    version: int
    rows: int | None
    arrived_at: datetime | None
    measured_at: datetime


def last_commit(connection: Connection) -> int:
    """Return the number of the last commit."""
    return int(connection.execute(sa.select(s.clock.c.commits)).scalar_one())


def partition_names(connection: Connection, dataset: str) -> list[PartitionName]:
    """Return a dataset's partitions, the newest first; partitions without a time come last."""
    p = s.partition.c
    query = (
        sa.select(p.name, p.time, p.segment)
        .where(p.dataset_id == dataset_id(connection, dataset))
        .order_by(p.time.is_(None), p.time.desc(), p.name)
    )
    return [PartitionName(*row) for row in connection.execute(query)]


def partition_time(connection: Connection, dataset: str, name: str) -> datetime | None:
    """Return the time of a partition; None if it has no time or does not exist."""
    p = s.partition.c
    condition = (p.dataset_id == dataset_id(connection, dataset)) & (p.name == name)
    return connection.execute(sa.select(p.time).where(condition)).scalar()


def partition_versions(connection: Connection, dataset: str, name: str) -> list[StoredVersion]:
    """Return all versions of a partition, in order."""
    p, v = s.partition.c, s.partition_version.c
    query = (
        sa.select(*(v[column] for column in StoredVersion._fields))
        .join_from(s.partition, s.partition_version)
        .where(p.dataset_id == dataset_id(connection, dataset), p.name == name)
        .order_by(v.version)
    )
    return [StoredVersion(*row) for row in connection.execute(query)]


def point_value(
    connection: Connection, series: int, partitions: Collection[int], commit: int | None
) -> PointValue | None:
    """Return the value of a series in the last partition by name, as of a commit or now."""
    m, p = s.metric.c, s.partition.c
    query = (
        sa.select(p.name, m.value, m.status, m.version)
        .join_from(s.metric, s.partition, p.id == m.partition_id)
        .where(m.partition_id.in_(partitions), m.series_id == series)
        .where(s.holds(s.metric, commit))
        .order_by(p.name.desc())
    )
    row = connection.execute(query).first()
    return None if row is None else PointValue(*row)


def stored_points(
    connection: Connection, series: Sequence[int], commit: int | None
) -> Iterator[StoredPoint]:
    """Yield every stored version of the points of series, up to a commit or now."""
    m = s.metric.c
    # One index lookup per partition; all partitions of the datasets are queried, however many.
    within = sa.select(s.partition.c.id).where(
        s.partition.c.dataset_id.in_(
            sa.select(s.analyzer.c.dataset_id)
            .join_from(s.series, s.analyzer)
            .where(s.series.c.id.in_(series))
        )
    )
    query = sa.select(
        m.series_id, m.partition_id, m.version, m.value, m.status, s.holds(s.metric, commit)
    ).where(m.partition_id.in_(within), m.series_id.in_(series), m.version > 0)
    if commit is not None:
        query = query.where(m.commit_id <= commit)
    for row in connection.execute(query):
        yield StoredPoint(*row)


def series_scales(connection: Connection, series: Sequence[int]) -> dict[int, str]:
    """Return the scale of each series, such as ``ratio``."""
    e = s.series.c
    query = sa.select(e.id, e.scale).where(e.id.in_(series))
    return {row[0]: row[1] for row in connection.execute(query)}


def series_of_anomalies(connection: Connection, anomalies: Sequence[int]) -> dict[int, int]:
    """Return the id of the series of each anomaly."""
    a = s.anomaly.c
    query = sa.select(a.id, a.series_id).where(a.id.in_(anomalies))
    return {row[0]: row[1] for row in connection.execute(query)}


RESTATEMENT_COLUMNS = columns(
    "dataset segment partition time:time name instance analyzer where old:number new:number"
    " change:number old_status new_status old_version new_version old_run:integer"
    " new_run:integer restated_at:time"
)

VERSION_COLUMNS = columns("segment name instance analyzer where")

_RELATIVE_TOLERANCE = 1e-9


def restatement_rows(
    connection: Connection, dataset: str, query: MetricQuery, as_of: AsOf = None
) -> list[Mapping[str, Any]]:
    """Return metric changes by restatements, latest first; differences by rounding are left out.

    A series that only one of two versions has, of an analyzer measured on both, has the status
    ``absent`` in the other: for example a value that a histogram no longer has.
    """
    dataset_key = dataset_id(connection, dataset)
    commit = commit_as_of(connection, as_of)
    a, e, p, m = s.analyzer.c, s.series.c, s.partition.c, s.metric.c
    restated = (
        sa.select(m.partition_id)
        .join_from(s.metric, s.partition, p.id == m.partition_id)
        .where(p.dataset_id == dataset_key, query.window.condition(), m.version > 1)
        .distinct()
    )
    selected = (
        sa.select(e.id, e.analyzer_id)
        .join_from(s.series, s.analyzer)
        .where(a.dataset_id == dataset_key, query.series_condition())
        .subquery()
    )
    commits = sa.select(s.commit.c.id, s.commit.c.run_id, s.commit.c.committed_at).subquery()
    select = (
        sa.select(
            a.id.label("analyzer_id"),
            a.segment,
            p.name.label("partition"),
            p.time,
            e.name,
            e.instance,
            a.text.label("analyzer"),
            sa.func.coalesce(a.filter, "").label("where"),
            m.series_id,
            m.partition_id,
            m.version,
            m.value,
            m.status,
            m.superseded_commit_id,
            commits.c.run_id,
            commits.c.committed_at,
        )
        .join_from(s.metric, s.partition, p.id == m.partition_id)
        .join(s.series, e.id == m.series_id)
        .join(s.analyzer)
        .join(commits, commits.c.id == m.commit_id)
        .where(m.version > 0)  # without failures that a retry replaced
        .where(m.partition_id.in_(restated), e.analyzer_id.in_(sa.select(selected.c.analyzer_id)))
        .order_by(m.partition_id, m.version)
    )
    if commit is not None:
        select = select.where(m.commit_id <= commit)
    rows = connection.execute(select).all()
    # Compare all series of an analyzer, to find series that one version lacks; then apply the query.
    selected_ids = set(connection.execute(sa.select(selected.c.id)).scalars())
    changes: list[Mapping[str, Any]] = [
        {"dataset": dataset, **row}
        for series, row in _compare_versions(rows)
        if series in selected_ids
    ]
    changes.sort(key=lambda r: (r["partition"], r["name"], r["instance"], r["segment"]))
    changes.sort(key=lambda r: r["restated_at"], reverse=True)
    return changes


def _compare_versions(rows: Any) -> list[tuple[int, dict[str, Any]]]:
    """Compare consecutive versions by partition and analyzer; return series ids and changes."""
    versions: dict[tuple[int, int], dict[int, dict[int, Any]]] = {}
    for row in rows:
        by_version = versions.setdefault((row.partition_id, row.analyzer_id), {})
        by_version.setdefault(row.version, {})[row.series_id] = row
    changes = []
    for by_version in versions.values():
        order = sorted(by_version)
        for old, new in pairwise(order):
            some_new = next(iter(by_version[new].values()))
            some_old = next(iter(by_version[old].values()))
            for series in by_version[old].keys() | by_version[new].keys():
                a, b = by_version[old].get(series), by_version[new].get(series)
                change = _change(a, b)
                if change is not None:
                    values = {
                        **{c: getattr(a or b, c) for c in tuple(RESTATEMENT_COLUMNS)[1:8]},
                        **change,
                        "old_version": old,
                        "new_version": new,
                        "old_run": some_old.run_id,
                        "new_run": some_new.run_id,
                        "restated_at": some_new.committed_at,
                    }
                    changes.append((series, values))
    return changes


def _change(a: Any, b: Any) -> dict[str, Any] | None:
    old, new = _value(a), _value(b)
    old_status, new_status = _status(a), _status(b)
    is_same = old_status == new_status and (
        old_status != "finite" or abs(old - new) <= _RELATIVE_TOLERANCE * max(abs(old), abs(new))
    )
    if is_same:
        return None
    return {
        "old": old,
        "new": new,
        "change": new - old,
        "old_status": old_status,
        "new_status": new_status,
    }


def _value(row: Any) -> float:
    return float("nan") if row is None else number_of(row.value, row.status)


def _status(row: Any) -> str:
    return "absent" if row is None else str(row.status)


def version_rows(
    connection: Connection, dataset: str, partition: int, query: MetricQuery, as_of: AsOf = None
) -> list[Mapping[str, Any]]:
    """Return the metrics of all versions of a partition, ordered by series and version."""
    commit = commit_as_of(connection, as_of)
    a, e, m = s.analyzer.c, s.series.c, s.metric.c
    dataset_key = dataset_id(connection, dataset)
    select = (
        sa.select(
            *(a.segment, e.name, e.instance, a.text.label("analyzer")),
            sa.func.coalesce(a.filter, "").label("where"),
            *(m.version, m.value, m.status),
        )
        .join_from(s.metric, s.series, e.id == m.series_id)
        .join(s.analyzer)
        .where(m.partition_id == partition, m.version > 0, a.dataset_id == dataset_key)
        .where(query.series_condition())
        .order_by(a.segment, e.name, e.instance, e.id, m.version)
    )
    if commit is not None:
        select = select.where(m.commit_id <= commit)
    rows = [row._asdict() for row in connection.execute(select)]
    return [{**row, "value": number_of(row["value"], row["status"])} for row in rows]
