"""Lookups of single points, partitions and versions, for views that show a few of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

import sqlalchemy as sa

from tidegauge.repository.store import schema as s
from tidegauge.repository.store.queries import dataset_id

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
    """Return a dataset's partitions, the newest first, those without a time last."""
    p = s.partition.c
    query = (
        sa.select(p.name, p.time, p.segment)
        .where(p.dataset_id == dataset_id(connection, dataset))
        .order_by(p.time.is_(None), p.time.desc(), p.name)
    )
    return [PartitionName(*row) for row in connection.execute(query)]


def partition_time(connection: Connection, dataset: str, name: str) -> datetime | None:
    """Return the time of a partition; None if it has none, or there is no such partition."""
    p = s.partition.c
    named = (p.dataset_id == dataset_id(connection, dataset)) & (p.name == name)
    return connection.execute(sa.select(p.time).where(named)).scalar()


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
    """Return the value of a series in the last, by name, of some partitions, as of a commit or now."""
    m, p = s.metric.c, s.partition.c
    query = (
        sa.select(p.name, m.value, m.status, m.version)
        .join_from(s.metric, s.partition, p.id == m.partition_id)
        .where(m.partition_id.in_(partitions), m.series_id == series)
        .where(s.holds(s.metric, commit))
        .order_by(p.name.desc())
    )
    found = connection.execute(query).first()
    return None if found is None else PointValue(*found)


def stored_points(
    connection: Connection, series: Sequence[int], commit: int | None
) -> Iterator[StoredPoint]:
    """Yield every stored version of the points of some series, up to a commit or now."""
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
    """Return the scale of each of some series, such as ``ratio``."""
    e = s.series.c
    query = sa.select(e.id, e.scale).where(e.id.in_(series))
    return {row[0]: row[1] for row in connection.execute(query)}


def series_of_anomalies(connection: Connection, anomalies: Sequence[int]) -> dict[int, int]:
    """Return the id of the series of each anomaly."""
    a = s.anomaly.c
    query = sa.select(a.id, a.series_id).where(a.id.in_(anomalies))
    return {row[0]: row[1] for row in connection.execute(query)}
