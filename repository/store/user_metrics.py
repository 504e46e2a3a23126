"""User-recorded metrics: any number with a name and a partition."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from tidegauge.analyzers.core.errors import HistoryError, RepositoryWarning
from tidegauge.analyzers.core.formatting import one_line
from tidegauge.analyzers.core.metric import Entity, Metric, Success
from tidegauge.analyzers.core.partitions import Partition, recognise_time
from tidegauge.analyzers.core.privacy import SEGMENTS
from tidegauge.analyzers.core.registry import key_of
from tidegauge.analyzers.runs.ledger import MeasuredPartition, RunSpec
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.batch import (
    METRIC_ROW_COLUMNS,
    add_partitions,
    find_newest,
    keep_newest,
    stored_value,
)
from tidegauge.repository.store.bulk import Row, chunks, insert_rows
from tidegauge.repository.store.config import privacy_settings
from tidegauge.repository.store.database import Database, next_commit
from tidegauge.repository.store.dimensions import Dimensions, Recorded, SeriesKey, dataset_for

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

_MAX_LISTED_SERIES = 450
"""With more series, all are read: a statement binds at most 500 parameters."""


Values = float | Mapping[str, float] | Mapping[Partition, float]
"""A value, or values by partition or partition name."""


def values_by_partition_name(
    value: Values, partition: str | None
) -> tuple[dict[str, float], dict[str, Partition]]:
    """Return values by partition name, and the keys given as `Partition` objects by name.

    Raises
    ------
    HistoryError
        If a value is not a number, or a partition is not given by name.
    """
    if not isinstance(value, Mapping):
        if not hasattr(value, "items"):  # which a pandas Series has
            return {partition or "": _number(value, partition)}, {}
        value = dict(value.items())
    for key in value:
        if not isinstance(key, str | Partition):
            msg = f"invalid partition {key!r}: use its name, such as 'ds=2026-01-05'"
            raise HistoryError(msg)
    partitions = {p.name: p for p in value if isinstance(p, Partition)}
    names = {p: p.name if isinstance(p, Partition) else p for p in value}
    return {names[p]: _number(v, names[p]) for p, v in value.items()}, partitions


def _number(value: Any, partition: str | None) -> float:
    if not isinstance(value, str | bytes) and not getattr(value, "ndim", 0):
        with suppress(TypeError, ValueError, OverflowError):
            return float(value)
    where = f" for {partition}" if partition else ""
    msg = f"cannot record {one_line(repr(value))}{where}: use numbers, and NaN for unknown values"
    raise HistoryError(msg)


@dataclass(frozen=True)
class Record:
    """Values of one series to record.

    Attributes
    ----------
    dataset : str
    metric : Recorded
    segment : str
    numbers : mapping of str to float
        Values by partition name.
    times : mapping of str to datetime
        Times of partitions that cannot be derived from their names, including partitions without a value.
    weight : float, mapping of str to float, or None
        The weight of all values, or weights by partition name; None or a missing name if unknown.
    partition_keys : mapping of str to Partition
        Partitions that were given as `Partition` objects, by name.
    """

    dataset: str
    metric: Recorded
    segment: str
    numbers: Mapping[str, float]
    times: Mapping[str, datetime | None]
    weight: float | Mapping[str, float] | None = None
    partition_keys: Mapping[str, Partition] = field(default_factory=dict)

    def weight_of(self, partition: str) -> float | None:
        """Return the weight of a partition's value."""
        return self.weight.get(partition) if isinstance(self.weight, Mapping) else self.weight

    def partitions(self) -> list[MeasuredPartition]:
        """Return the partitions, which may be new to the repository, without measurements.

        Raises
        ------
        HistoryError
            If a name is not written as ``key=value/...``, or the partitions' keys differ.
        """
        parsed = [
            self.partition_keys.get(name) or Partition.from_name(name) for name in self.numbers
        ]
        keys = {partition.keys for partition in parsed}
        if len(keys) > 1 or any(p.name != n for p, n in zip(parsed, self.numbers, strict=True)):
            msg = (
                "partitions are written ds=2013-02-08 or ds=2013-02-08/hr=07, all with the same"
                f" keys; not {', '.join(map(repr, self.numbers))}"
            )
            raise HistoryError(msg)
        time_format = recognise_time(parsed[0].keys) if parsed else None
        return [
            MeasuredPartition.from_measurements(
                partition, time_format=time_format, time=self.times.get(partition.name)
            )
            for partition in parsed
        ]


def write_record(database: Database, record: Record) -> int:
    """Store values, each as a new version unless unchanged; return the number of new ones."""
    return write_records(database, [record])


def write_records(database: Database, records: Sequence[Record]) -> int:
    """Store values of several series of a dataset in one commit; return the number of new ones."""
    for metric in {id(record.metric): record.metric for record in records}.values():
        metric.check_parameters()
    times = {name: time for record in records for name, time in record.times.items()}
    names = dict.fromkeys(name for record in records for name in (*record.numbers, *record.times))
    if not names:
        return 0
    numbers = dict.fromkeys(names, 0.0)
    measured = replace(records[0], numbers=numbers, times=times).partitions()
    private = privacy_settings()
    for segment in {record.segment for record in records}:
        private.refuse_names(Partition.from_name(segment).keys, SEGMENTS)
    spec = RunSpec(records[0].dataset, None, measured[0].partition.keys)

    def work(connection: Connection) -> tuple[int, list[str]]:
        commit, now = next_commit(connection, None)
        dataset = dataset_for(connection, spec)
        add_partitions(connection, dataset, measured, now)
        ids = _partition_ids(connection, dataset, list(names))
        time_by_partition = {ids[name]: time for name, time in times.items() if time}
        moved, messages = _set_times(connection, time_by_partition)
        series = _series(connection, dataset, records)
        stored = _stored(connection, set(series), sorted(ids.values()))
        rows, ended = _new_versions(records, series, ids, stored, commit)
        for number, partitions in ended.items():
            for chunk in chunks(sorted(partitions)):
                ended_rows = (
                    s.metric.c.partition_id.in_(chunk)
                    & (s.metric.c.series_id == number)
                    & s.holds(s.metric)
                )
                connection.execute(
                    sa.update(s.metric).where(ended_rows).values(superseded_commit_id=commit)
                )
        insert_rows(connection, s.metric, METRIC_ROW_COLUMNS, sorted(rows))
        keep_newest(connection, dataset, rows)
        if moved:
            _reset_newest(connection, dataset, moved)
        return len(rows), messages

    count, messages = database.write(work)
    for message in messages:
        warnings.warn(message, RepositoryWarning, stacklevel=4)
    return count


def _new_versions(
    records: Sequence[Record],
    series: Sequence[int],
    ids: Mapping[str, int],
    stored: Mapping[tuple[int, int], Any],
    commit: int,
) -> tuple[list[Row], dict[int, list[int]]]:
    """Return the rows of values that are not stored yet, and the partitions whose values they supersede, by series."""
    rows: list[Row] = []
    ended: dict[int, list[int]] = {}
    for record, series_number in zip(records, series, strict=True):
        for name, number in record.numbers.items():
            value, status = stored_value(float(number))
            version, *previous = stored.get((ids[name], series_number), (0, None, None, None))
            weight = record.weight_of(name)
            if previous == [value, status, weight]:
                continue
            if version:
                ended.setdefault(series_number, []).append(ids[name])
            rows.append(
                (ids[name], series_number, version + 1, value, status, weight, None, commit)
            )
    return rows, ended


def _set_times(
    connection: Connection, times: Mapping[int, datetime]
) -> tuple[list[int], list[str]]:
    """Set the times of partitions without one; return their ids, and warnings for partitions with another time."""
    partition, moved, messages = s.partition.c, list[int](), list[str]()
    for chunk in chunks(sorted(times)):
        query = sa.select(partition.id, partition.name, partition.time).where(
            partition.id.in_(chunk)
        )
        for number, name, stored_time in connection.execute(query).all():
            if stored_time is None:
                change = (
                    sa.update(s.partition).where(partition.id == number).values(time=times[number])
                )
                connection.execute(change)
                moved.append(number)
            elif stored_time != times[number]:
                messages.append(
                    f"partition {name!r} keeps its stored time {stored_time:%Y-%m-%d %H:%M:%S}"
                )
    return moved, messages


def _reset_newest(connection: Connection, dataset: int, partitions: Sequence[int]) -> None:
    """Find the newest metrics again after partitions got times, and restart detection."""
    metric = s.metric.c
    for chunk in chunks(sorted(partitions)):
        affected = sa.select(metric.series_id).where(
            metric.partition_id.in_(chunk), s.holds(s.metric)
        )
        find_newest(connection, list(connection.execute(affected.distinct()).scalars()))
    change = sa.update(s.scored).where(s.scored.c.dataset_id == dataset)
    connection.execute(change.values(monitors=""))


def _partition_ids(connection: Connection, dataset: int, names: list[str]) -> dict[str, int]:
    partition, ids = s.partition.c, {}
    keys = {key_of(name): name for name in names}
    for chunk in chunks(sorted(keys)):
        query = sa.select(partition.key, partition.id).where(
            partition.dataset_id == dataset, partition.key.in_(chunk)
        )
        ids.update({keys[row[0]]: row[1] for row in connection.execute(query)})
    return ids


def _series(connection: Connection, dataset: int, records: Sequence[Record]) -> list[int]:
    """Return the id of each record's series."""
    dimensions = Dimensions(connection, dataset)
    keys = [(record.segment, key_of(record.metric.canonical())) for record in records]
    measures = {key: record.metric for key, record in zip(keys, records, strict=True)}
    analyzers = dimensions.analyzers(measures, dict.fromkeys(measures))
    series_measures: dict[SeriesKey, tuple[Recorded, Metric[float]]] = {}
    series_keys = []
    for key, record in zip(keys, records, strict=True):
        recorded = record.metric
        series_key = (analyzers[key], recorded.metric, recorded.instance)
        series_measures[series_key] = (
            recorded,
            Metric(Entity(recorded.entity), recorded.instance, recorded.metric, Success(0.0)),
        )
        series_keys.append(series_key)
    ids = dimensions.series(series_measures)
    return [ids[series_key] for series_key in series_keys]


def _stored(
    connection: Connection, series: set[int], partitions: list[int]
) -> dict[tuple[int, int], tuple[int, float | None, str, float | None]]:
    """Return the current version, value, status and weight by partition and series."""
    metric, values = s.metric.c, {}
    columns = (
        metric.partition_id,
        metric.series_id,
        metric.version,
        metric.value,
        metric.status,
        metric.weight,
    )
    query = sa.select(*columns).where(s.holds(s.metric))
    if len(series) <= _MAX_LISTED_SERIES:
        query = query.where(metric.series_id.in_(sorted(series)))
    for chunk in chunks(partitions):
        for row in connection.execute(query.where(metric.partition_id.in_(chunk))):
            if row[1] in series:
                values[row[0], row[1]] = tuple(row[2:])
    return values
