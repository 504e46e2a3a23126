"""The newest metric of each series: a small copy of facts, updated with every write.

The newest partition is the last by time, then by name where times are equal or missing. One without
a time, such as Hive's default partition, is the newest only of series that have no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from tidegauge.repository.store import schema as s
from tidegauge.repository.store.bulk import Row, chunks, insert_rows

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

_COLUMNS = (
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
    places = _sort_keys(connection, {row[0] for row in facts}.union(stored.values()))
    last: dict[int, Row] = {}
    for row in facts:
        before = last.get(row[1])
        if before is None or places[before[0]] <= places[row[0]]:
            last[row[1]] = row
    changed = [
        (row[1], row[0], *row[2:])
        for series, row in last.items()
        if series not in stored or places[stored[series]] <= places[row[0]]
    ]
    written = {row[0] for row in changed}
    ended = set(restated)
    left = [series for series, at in stored.items() if at in ended and series not in written]
    delete_newest(connection, [series for series in written if series in stored])
    insert_rows(connection, s.newest_metric, _COLUMNS, sorted(changed))
    find_newest(connection, left)


def newest_first() -> tuple[sa.ColumnElement[Any], ...]:
    """Return the order of partitions of which the first is the newest."""
    partition = s.partition.c
    return partition.time.is_(None), partition.time.desc(), partition.name.desc()


def find_newest(connection: Connection, series: Sequence[int]) -> None:
    """Recompute the newest metric of some series from all facts."""
    metric, partition, order = s.metric.c, s.partition.c, newest_first()
    for some in chunks(sorted(series)):
        ranked = (
            sa.select(
                *(metric[name] for name in _COLUMNS),
                sa.func.row_number()
                .over(partition_by=metric.series_id, order_by=order)
                .label("place"),
            )
            .join_from(s.metric, s.partition, partition.id == metric.partition_id)
            .where(metric.series_id.in_(some), s.holds(s.metric))
            .subquery()
        )
        found = sa.select(*(ranked.c[name] for name in _COLUMNS)).where(ranked.c.place == 1)
        rows = [tuple(row) for row in connection.execute(found)]
        delete_newest(connection, some)
        insert_rows(connection, s.newest_metric, _COLUMNS, rows)


def delete_newest(connection: Connection, series: Sequence[int]) -> None:
    """Delete series from the copy."""
    for some in chunks(sorted(series)):
        connection.execute(sa.delete(s.newest_metric).where(s.newest_metric.c.series_id.in_(some)))


def _sort_keys(connection: Connection, partitions: Iterable[int]) -> dict[int, tuple[Any, ...]]:
    """Return the sort key of some partitions by their ids."""
    partition = s.partition.c
    found: dict[int, tuple[Any, ...]] = {}
    for some in chunks(sorted(partitions)):
        for id_, time, name in connection.execute(
            sa.select(partition.id, partition.time, partition.name).where(partition.id.in_(some))
        ):
            found[id_] = (time is not None, time.timestamp() if time else 0.0, name)
    return found
