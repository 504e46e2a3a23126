"""Metrics that users bring themselves: any number with a name and a partition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import sqlalchemy as sa

from analyzers.description import key_of
from analyzers.errors import HistoryError
from analyzers.ledger import Measured, RunSpec
from analyzers.metric import Entity, Metric, Success
from analyzers.partitions import Partition, recognise_time
from repository import schema as s
from repository.batch import METRIC, add_partitions, stored_value
from repository.bulk import chunks, insert_rows
from repository.database import Database, next_commit
from repository.dimensions import Dimensions, dataset_for
from repository.newest import keep_newest
from repository.recorded import Recorded

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


@dataclass(frozen=True)
class Record:
    """Values to record.

    Attributes
    ----------
    dataset : str
    what : Recorded
    segment : str
    numbers : mapping of str to float
        By the partition's name.
    times : mapping of str to datetime
        Of partitions whose names do not tell them.
    weight : float or None
    """

    dataset: str
    what: Recorded
    segment: str
    numbers: Mapping[str, float]
    times: Mapping[str, datetime | None]
    weight: float | None = None

    def partitions(self) -> list[Measured]:
        """Return the partitions, which may be new to the repository.

        Raises
        ------
        HistoryError
            If they are not all of one kind.
        """
        found = [Partition.from_path(name) for name in self.numbers]
        keys = {partition.keys for partition in found}
        if len(keys) > 1 or any(p.name != n for p, n in zip(found, self.numbers, strict=True)):
            msg = (
                "partitions are written ds=2013-02-08 or ds=2013-02-08/hr=07, all with the same"
                f" keys; not {', '.join(map(repr, self.numbers))}"
            )
            raise HistoryError(msg)
        time = recognise_time(found[0].keys) if found else None
        return [
            Measured(
                partition=partition,
                time=self.times.get(partition.name) or (time.time_of(partition) if time else None),
                fingerprint=None,
                arrived_at=None,
                schema="[]",
                rows=0,
                measurements=(),
                segment=time.segment_of(partition) if time else "",
            )
            for partition in found
        ]


def write_record(database: Database, record: Record) -> int:
    """Store values under a new version each, unless they are what is stored; return how many were new."""
    record.what.check_parameters()
    measured = record.partitions()
    if not measured:
        return 0
    spec = RunSpec(record.dataset, None, measured[0].partition.keys)

    def work(connection: Connection) -> int:
        commit, now = next_commit(connection, None)
        dataset = dataset_for(connection, spec)
        add_partitions(connection, dataset, measured, now)
        ids = _partition_ids(connection, dataset, [m.partition.name for m in measured])
        series = _series(connection, dataset, record)
        stored = _stored(connection, series, sorted(ids.values()))
        rows, ended = [], []
        for name, number in record.numbers.items():
            value, status = stored_value(float(number))
            version, *known = stored.get(ids[name], (0, None, None, None))
            if known == [value, status, record.weight]:
                continue
            if version:
                ended.append(ids[name])
            outcome = (value, status, record.weight, None)
            rows.append((ids[name], series, version + 1, *outcome, commit))
        for some in chunks(sorted(ended)):
            m = s.metric
            of = m.c.partition_id.in_(some) & (m.c.series_id == series) & s.holds(m)
            connection.execute(sa.update(m).where(of).values(superseded_commit_id=commit))
        insert_rows(connection, s.metric, METRIC, sorted(rows))
        keep_newest(connection, dataset, rows)
        return len(rows)

    return database.write(work)


def _partition_ids(connection: Connection, dataset: int, names: list[str]) -> dict[str, int]:
    p, ids = s.partition.c, {}
    keys = {key_of(name): name for name in names}
    for some in chunks(sorted(keys)):
        query = sa.select(p.key, p.id).where(p.dataset_id == dataset, p.key.in_(some))
        ids.update({keys[row[0]]: row[1] for row in connection.execute(query)})
    return ids


def _series(connection: Connection, dataset: int, record: Record) -> int:
    what = record.what
    key = (record.segment, key_of(what.canonical()))
    dimensions = Dimensions(connection, dataset)
    analyzer = dimensions.analyzers({key: what}, {key: None})[key]
    metric = Metric(Entity(what.entity), what.instance, what.metric, Success(0.0))
    of = (analyzer, what.metric, what.instance)
    return dimensions.series({of: (what, metric)})[of]


def _stored(
    connection: Connection, series: int, partitions: list[int]
) -> dict[int, tuple[int, float | None, str, float | None]]:
    """Return the current version, value, status and weight by partition."""
    m, found = s.metric.c, {}
    for some in chunks(partitions):
        query = sa.select(m.partition_id, m.version, m.value, m.status, m.weight).where(
            m.partition_id.in_(some), m.series_id == series, s.holds(s.metric)
        )
        found.update({row[0]: tuple(row[1:]) for row in connection.execute(query)})
    return found
