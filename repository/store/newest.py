"""The newest metric of each series: a small copy of facts, updated with every write.

The newest partition is the last by time, then by name where times are equal or missing. A partition
without a time, such as Hive's default partition, is the newest only for series without any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from tidegauge.repository.store import schema as s
from tidegauge.repository.store.bulk import Row, chunks, insert_rows

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

_NEWEST_COLUMNS = (
    "series_id",
    "partition_id",
    "version",
    "value",
    "status",
    "weight",
    "error",
    "commit_id",
)


def keep_newest(
    connection: Connection, dataset: int, facts: Iterable[Row], restated: Sequence[int] = ()
) -> None:
    """Update the copy after facts were written.

    Parameters
    ----------
    connection : Connection
        In a transaction that holds the clock's lock.
    dataset : int
    facts : iterable of tuple
        The new rows of ``metric``: partition, series, version, ...
    restated : sequence of int
        Partitions whose earlier facts were superseded.
    """
    newest_metric = s.newest_metric.c
    query = (
        sa.select(newest_metric.series_id, newest_metric.partition_id)
        .join_from(s.newest_metric, s.series, s.series.c.id == newest_metric.series_id)
        .join(s.analyzer)
        .where(s.analyzer.c.dataset_id == dataset)
    )
    stored = {row[0]: row[1] for row in connection.execute(query)}
    facts = list(facts)
    sort_keys = _sort_keys(connection, {row[0] for row in facts}.union(stored.values()))
    last: dict[int, Row] = {}
    for row in facts:
        previous = last.get(row[1])
        if previous is None or sort_keys[previous[0]] <= sort_keys[row[0]]:
            last[row[1]] = row
    changed = [
        (row[1], row[0], *row[2:])
        for series, row in last.items()
        if series not in stored or sort_keys[stored[series]] <= sort_keys[row[0]]
    ]
    written = {row[0] for row in changed}
    ended = set(restated)
    orphaned = [
        series
        for series, partition in stored.items()
        if partition in ended and series not in written
    ]
    delete_newest(connection, [series for series in written if series in stored])
    insert_rows(connection, s.newest_metric, _NEWEST_COLUMNS, sorted(changed))
    find_newest(connection, orphaned)


def newest_first() -> tuple[sa.ColumnElement[Any], ...]:
    """Return the order that sorts the newest partition first."""
    partition = s.partition.c
    return partition.time.is_(None), partition.time.desc(), partition.name.desc()


def find_newest(connection: Connection, series: Sequence[int]) -> None:
    """Recompute the newest metric of some series from all facts."""
    metric, partition, order = s.metric.c, s.partition.c, newest_first()
    for chunk in chunks(sorted(series)):
        ranked = (
            sa.select(
                *(metric[name] for name in _NEWEST_COLUMNS),
                sa.func.row_number()
                .over(partition_by=metric.series_id, order_by=order)
                .label("place"),
            )
            .join_from(s.metric, s.partition, partition.id == metric.partition_id)
            .where(metric.series_id.in_(chunk), s.holds(s.metric))
            .subquery()
        )
        newest = sa.select(*(ranked.c[name] for name in _NEWEST_COLUMNS)).where(ranked.c.place == 1)
        rows = [tuple(row) for row in connection.execute(newest)]
        delete_newest(connection, chunk)
        insert_rows(connection, s.newest_metric, _NEWEST_COLUMNS, rows)


def delete_newest(connection: Connection, series: Sequence[int]) -> None:
    """Delete series from the copy."""
    for chunk in chunks(sorted(series)):
        connection.execute(sa.delete(s.newest_metric).where(s.newest_metric.c.series_id.in_(chunk)))


def _sort_keys(connection: Connection, partitions: Iterable[int]) -> dict[int, tuple[Any, ...]]:
    """Return the sort key of some partitions by their ids."""
    partition = s.partition.c
    sort_keys: dict[int, tuple[Any, ...]] = {}
    for chunk in chunks(sorted(partitions)):
        for id_, time, name in connection.execute(
            sa.select(partition.id, partition.time, partition.name).where(partition.id.in_(chunk))
        ):
            sort_keys[id_] = (time is not None, time.timestamp() if time else 0.0, name)
    return sort_keys
