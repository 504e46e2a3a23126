"""Columnar reads of metrics: facts as arrays of numbers, with dimensions looked up once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import sqlalchemy as sa

from tidegauge.repository.store import schema as s
from tidegauge.repository.store.bulk import chunks, fetch_columns
from tidegauge.repository.store.queries import (
    METRIC_COLUMNS,
    AsOf,
    MetricQuery,
    commit_as_of,
    dataset_id,
)
from tidegauge.repository.store.rows import STATUS_VALUES, CommitRow, PartitionRow, SeriesRow

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd
    from sqlalchemy.engine import Connection

FactDimensions = tuple[list[SeriesRow], list[PartitionRow]]
"""The series and partitions that facts refer to."""
METRIC_STATUSES = s.VALUE_STATUSES
"""All statuses of a metric, in the order of their codes."""
_FACT_COLUMNS = (
    "partition_id",
    "series_id",
    "version",
    "value",
    "status",
    "weight",
    "error",
    "commit_id",
)
_VALUE_COLUMNS = _FACT_COLUMNS[:6]


@dataclass(frozen=True)
class Facts:
    """Metrics of one dataset as arrays, in order of time, partition, name and instance.

    Attributes
    ----------
    dataset : str
    series, partitions, commits : list of mapping
        The dimensions of the facts; their ids are under ``id``.
    of_series, of_partition, of_commit : array of int
        The index of each fact's dimension in these lists.
    value : array of float
        NaN where the status is failed, empty or NaN.
    weight : array of float
        NaN where there is none.
    status, error : array of object
    version : array of int
    """

    dataset: str
    series: Sequence[SeriesRow]
    partitions: Sequence[PartitionRow]
    commits: Sequence[CommitRow]
    of_series: npt.NDArray[np.intp]
    of_partition: npt.NDArray[np.intp]
    of_commit: npt.NDArray[np.intp]
    value: npt.NDArray[np.float64]
    weight: npt.NDArray[np.float64]
    status: npt.NDArray[np.object_]
    error: npt.NDArray[np.object_]
    version: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.value)

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return a column of `METRIC_COLUMNS`, with one entry per fact."""
        if name in {"value", "weight", "status", "error", "version"}:
            return np.asarray(getattr(self, name))
        if name == "dataset":
            return np.full(len(self), self.dataset, dtype=object)
        if name in {"partition", "time"}:
            return _take_field(self.partitions, name, self.of_partition)
        if name == "where":
            filters = np.array([row["filter"] or "" for row in self.series], dtype=object)
            return np.asarray(filters.reshape(-1)[self.of_series])
        if name in {"run_id", "analyzed_at"}:
            return _take_field(self.commits, name, self.of_commit)
        return _take_field(self.series, name, self.of_series)

    def frame(self) -> pd.DataFrame:
        """Return a tidy frame with `METRIC_COLUMNS`."""
        from tidegauge.repository.store.result_frame import ResultFrame

        columns: dict[str, Any] = {name: self.column(name) for name in METRIC_COLUMNS}
        columns["time"] = _moments(self.partitions, "time", self.of_partition)
        columns["analyzed_at"] = _moments(self.commits, "analyzed_at", self.of_commit)
        columns["run_id"] = _integers(columns["run_id"])
        return ResultFrame(columns, copy=False)

    def records(self) -> list[dict[str, Any]]:
        """Return each fact as a dict of `METRIC_COLUMNS`."""
        columns = [self.column(name).tolist() for name in METRIC_COLUMNS]
        return [dict(zip(METRIC_COLUMNS, row, strict=True)) for row in zip(*columns, strict=True)]

    def newest(self) -> Facts:
        """Return only the newest fact of each series, as `keep_newest` defines it."""
        undated = np.array([row["time"] is None for row in self.partitions], dtype=bool)
        order = np.argsort(
            ~undated[self.of_partition], kind="stable"
        )  # partitions without a time first
        last = np.full(len(self.series), -1, dtype=np.intp)
        last[self.of_series[order]] = order  # the last assignment to an index wins
        return self.take(np.sort(last[last >= 0]))

    def take(self, indices: npt.NDArray[np.intp]) -> Facts:
        """Return the facts at some indices."""
        arrays = {
            f.name: getattr(self, f.name)[indices] for f in fields(self) if f.name in _ARRAY_FIELDS
        }
        return replace(self, **arrays)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield each fact as a dict with its dimensions; values that are not finite are None."""
        for i, (series, partition) in enumerate(
            zip(self.of_series.tolist(), self.of_partition.tolist(), strict=True)
        ):
            series_row, partition_row = self.series[series], self.partitions[partition]
            finite = self.status[i] == "finite"
            weight = float(self.weight[i])
            yield {
                **series_row,
                **partition_row,
                "series_id": series_row["id"],
                "partition_id": partition_row["id"],
                "value": float(self.value[i]) if finite else None,
                "weight": None if np.isnan(weight) else weight,
                "status": self.status[i],
                "version": int(self.version[i]),
            }


_ARRAY_FIELDS = frozenset(
    {"of_series", "of_partition", "of_commit", "value", "weight", "status", "error", "version"}
)


def _take_field(
    owners: Sequence[Mapping[str, Any]], name: str, indices: npt.NDArray[np.intp]
) -> npt.NDArray[np.object_]:
    values = np.empty(len(owners), dtype=object)
    values[:] = [owner[name] for owner in owners]
    return values[indices]


def _moments(owners: Sequence[Mapping[str, Any]], name: str, indices: npt.NDArray[np.intp]) -> Any:
    """Return times in UTC, in microseconds.

    Nanoseconds end in 2262, and many tables have a day 9999-12-31.
    """
    import pandas as pd

    naive = [None if o[name] is None else o[name].replace(tzinfo=None) for o in owners]
    moments = np.array(naive, dtype="datetime64[us]")
    return pd.DatetimeIndex(moments[indices]).tz_localize("UTC")


def _integers(values: npt.NDArray[np.object_]) -> Any:
    import pandas as pd

    if any(value is None for value in set(values.tolist())):
        return pd.array(values.tolist(), dtype="Int64")
    return values.astype(np.int64)


def read_facts(
    connection: Connection,
    dataset: str,
    query: MetricQuery,
    as_of: AsOf = None,
    partitions: Sequence[int] | None = None,
    dimensions: FactDimensions | None = None,
) -> Facts:
    """Return the metrics of a dataset that match a query, current or as of a time or run.

    Parameters
    ----------
    connection : Connection
    dataset : str
    query : MetricQuery
    as_of : str, date, datetime or int, optional
    partitions : sequence of int, optional
        Ids of the partitions to read; all if not given.
    dimensions : tuple, optional
        The result of `dimensions_of`, to be reused by repeated reads.
    """
    commit = commit_as_of(connection, as_of)
    dataset_number = dataset_id(connection, dataset)
    metric, partition = s.metric.c, s.partition.c
    tests = [
        partition.dataset_id == dataset_number,
        query.window.condition(),
        s.holds(s.metric, commit),
    ]
    if partitions is not None:
        tests.append(partition.id.in_(partitions))
    select = (
        sa.select(*(metric[name] for name in _FACT_COLUMNS))
        .join_from(s.partition, s.metric, metric.partition_id == partition.id)
        .where(*tests, *_of_series(metric, dataset_number, query), *_of_runs(metric, query))
    )
    columns = fetch_columns(connection, select)
    return _facts_from_columns(
        connection, dataset, columns, dimensions or dimensions_of(connection, dataset_number, query)
    )


def read_values(
    connection: Connection,
    datasets: Mapping[int, tuple[str, FactDimensions]],
    partitions: Mapping[int, Sequence[int]],
) -> dict[int, Facts]:
    """Return the current metrics of datasets, with a few statements for all; commits and errors are not read.

    Parameters
    ----------
    connection : Connection
    datasets : mapping of int to tuple
        Name and dimensions of each dataset, by id.
    partitions : mapping of int to sequence of int
        Ids of the partitions to read, by id of the dataset. If they are most of its partitions, all are read,
        because that is faster.
    """
    metric, partition = s.metric.c, s.partition.c
    columns: list[list[Any]] = [[] for _ in _VALUE_COLUMNS]
    select = sa.select(*(metric[name] for name in _VALUE_COLUMNS)).where(s.holds(s.metric))
    in_dataset = select.join_from(s.partition, s.metric, metric.partition_id == partition.id)
    whole = [n for n, ids in partitions.items() if 2 * len(ids) > len(datasets[n][1][1])]
    other = [i for n in partitions.keys() - set(whole) for i in partitions[n]]
    queries = [in_dataset.where(partition.dataset_id.in_(chunk)) for chunk in chunks(whole)]
    queries += [select.where(metric.partition_id.in_(chunk)) for chunk in chunks(other)]
    for query in queries:
        for column, rows in zip(columns, fetch_columns(connection, query), strict=True):
            column.extend(rows)
    raw = dict(zip(_VALUE_COLUMNS, columns, strict=True))
    # Number the partitions and series of all datasets in order, so that one sort orders all facts.
    all_series = [row for _, (rows, _) in datasets.values() for row in rows]
    all_partitions = [row for _, (_, rows) in datasets.values() for row in rows]
    of_partition = _positions(all_partitions, raw["partition_id"])
    of_series = _positions(all_series, raw["series_id"])
    order = np.argsort(of_partition * len(all_series) + of_series)
    status = np.array(raw["status"], dtype=object)[order]
    value = _values(raw["value"], order, status)
    weight = np.array(raw["weight"], dtype=np.float64)[order]
    version = np.abs(np.array(raw["version"], dtype=np.int64))[order]
    of_partition, of_series = of_partition[order], of_series[order]
    facts = {}
    first_series, first_partition, first = 0, 0, 0
    for number, (name, (series, dataset_partitions)) in datasets.items():
        last = int(np.searchsorted(of_partition, first_partition + len(dataset_partitions)))
        part = slice(first, last)
        nothing = np.empty(last - first, dtype=object)
        facts[number] = Facts(
            dataset=name,
            series=series,
            partitions=dataset_partitions,
            commits=[],
            of_series=of_series[part] - first_series,
            of_partition=of_partition[part] - first_partition,
            of_commit=np.full(last - first, -1, dtype=np.intp),
            value=value[part],
            weight=weight[part],
            status=status[part],
            error=nothing,
            version=version[part],
        )
        first_series += len(series)
        first_partition += len(dataset_partitions)
        first = last
    return facts


def _values(
    numbers: Sequence[float | None],
    order: npt.NDArray[np.intp],
    status: npt.NDArray[np.object_],
) -> npt.NDArray[np.float64]:
    """Return values in an order, with the number of their status where they have none."""
    value = np.array(numbers, dtype=np.float64)[order]  # None becomes NaN
    for index in np.flatnonzero(np.isnan(value)).tolist():
        value[index] = STATUS_VALUES.get(status[index], np.nan)
    return value


def dimensions_of(connection: Connection, dataset: int, query: MetricQuery) -> FactDimensions:
    """Return the series and partitions that match a query, in order."""
    return dimensions_by_dataset(connection, [dataset], query)[dataset]


def dimensions_by_dataset(
    connection: Connection, datasets: Sequence[int], query: MetricQuery
) -> dict[int, FactDimensions]:
    """Return the series and partitions of datasets that match a query, as `dimensions_of` does."""
    dimensions: dict[int, FactDimensions] = {dataset: ([], []) for dataset in datasets}
    for chunk in chunks(datasets):
        for dataset, row in _series(connection, chunk, query):
            dimensions[dataset][0].append(row)
        for dataset, partition in _partitions(connection, chunk, query):
            dimensions[dataset][1].append(partition)
    for series, _ in dimensions.values():
        series.sort(key=itemgetter("name", "instance", "id"))
    return dimensions


def read_newest(connection: Connection, dataset: str, query: MetricQuery) -> Facts:
    """Return the metric of each series in its newest partition."""
    dataset_number = dataset_id(connection, dataset)
    newest_metric, partition = s.newest_metric.c, s.partition.c
    select = (
        sa.select(*(newest_metric[name] for name in _FACT_COLUMNS))
        .join_from(s.newest_metric, s.partition, partition.id == newest_metric.partition_id)
        .where(partition.dataset_id == dataset_number, query.window.condition())
        .where(*_of_series(newest_metric, dataset_number, query), *_of_runs(newest_metric, query))
    )
    columns = fetch_columns(connection, select)
    return _facts_from_columns(
        connection, dataset, columns, dimensions_of(connection, dataset_number, query)
    )


def _of_series(fact: Any, dataset: int, query: MetricQuery) -> list[sa.ColumnElement[bool]]:
    """Return the condition on a fact's series, unless the query selects all of the dataset."""
    if not query.selects_series:
        return []
    matching = (
        sa.select(s.series.c.id)
        .join_from(s.series, s.analyzer)
        .where(s.analyzer.c.dataset_id == dataset, query.series_condition())
    )
    return [fact.series_id.in_(matching)]


def _of_runs(fact: Any, query: MetricQuery) -> list[sa.ColumnElement[bool]]:
    """Return the conditions on the tags of a fact's run."""
    tests = []
    for key, value in sorted((query.tags or {}).items()):
        tag = s.run_tag.alias()
        commits = (
            sa.select(s.commit.c.id)
            .join_from(s.commit, tag, tag.c.run_id == s.commit.c.run_id)
            .where(tag.c.key == key, tag.c.value == str(value))
        )
        tests.append(fact.commit_id.in_(commits))
    return tests


def _facts_from_columns(
    connection: Connection,
    dataset: str,
    columns: Sequence[Any],
    dimensions: FactDimensions,
) -> Facts:
    series, partitions = dimensions
    raw = dict(zip(_FACT_COLUMNS, columns, strict=True))
    commits = _commits(connection, sorted(set(raw["commit_id"])))
    of_partition = _positions(partitions, raw["partition_id"])
    of_series = _positions(series, raw["series_id"])
    order = np.lexsort((of_series, of_partition))
    status = np.array(raw["status"], dtype=object)[order]
    return Facts(
        dataset=dataset,
        series=series,
        partitions=partitions,
        commits=commits,
        of_series=of_series[order],
        of_partition=of_partition[order],
        of_commit=_positions(commits, raw["commit_id"])[order],
        value=_values(raw["value"], order, status),
        weight=np.array(raw["weight"], dtype=np.float64)[order],
        status=status,
        error=np.array(raw["error"], dtype=object)[order],
        version=np.abs(np.array(raw["version"], dtype=np.int64))[order],
    )


def _positions(owners: Sequence[Mapping[str, Any]], ids: Sequence[int]) -> npt.NDArray[np.intp]:
    """Return the index in a list of the row of each id."""
    owner_ids = np.array([owner["id"] for owner in owners], dtype=np.int64)
    by_id = np.argsort(owner_ids, kind="stable")
    requested = np.fromiter(ids, dtype=np.int64, count=len(ids))
    return by_id[np.searchsorted(owner_ids[by_id], requested)]


def _series(
    connection: Connection, datasets: Sequence[int], query: MetricQuery
) -> list[tuple[int, SeriesRow]]:
    analyzer, series = s.analyzer.c, s.series.c
    select = (
        sa.select(
            analyzer.dataset_id,
            series.id,
            analyzer.segment,
            series.entity,
            series.name,
            series.instance,
            analyzer.text.label("analyzer"),
            series.scale,
            analyzer.key,
            analyzer.kind,
            analyzer.filter,
        )
        .join_from(s.series, s.analyzer)
        .where(analyzer.dataset_id.in_(datasets), query.series_condition())
    )
    return cast("list[tuple[int, SeriesRow]]", _rows_by_dataset(connection, select))


def _partitions(
    connection: Connection, datasets: Sequence[int], query: MetricQuery
) -> list[tuple[int, PartitionRow]]:
    partition = s.partition.c
    select = (
        sa.select(
            partition.dataset_id,
            partition.id,
            partition.name.label("partition"),
            partition.time,
            partition.segment.label("within"),
        )
        .where(partition.dataset_id.in_(datasets), query.window.condition())
        .order_by(partition.time.is_(None), partition.time, partition.name)
    )
    return cast("list[tuple[int, PartitionRow]]", _rows_by_dataset(connection, select))


def _rows_by_dataset(
    connection: Connection, select: sa.Select[Any]
) -> list[tuple[int, dict[str, Any]]]:
    """Return each row without its first column, with this column, the id of its dataset."""
    names = [column.name for column in select.selected_columns][1:]
    return [
        (dataset, dict(zip(names, row, strict=True)))
        for dataset, *row in connection.execute(select).all()
    ]


def _rows(connection: Connection, select: sa.Select[Any]) -> list[dict[str, Any]]:
    names = [column.name for column in select.selected_columns]
    return [dict(zip(names, row, strict=True)) for row in connection.execute(select).all()]


def _commits(connection: Connection, ids: Sequence[int]) -> list[CommitRow]:
    commit = s.commit.c
    commits: list[CommitRow] = []
    for chunk in chunks(ids):
        select = sa.select(
            commit.id, commit.run_id, commit.committed_at.label("analyzed_at")
        ).where(commit.id.in_(chunk))
        commits += cast("list[CommitRow]", _rows(connection, select))
    return commits
