"""Stored online/offline consistency metrics, read as columns for ranking, plots and export.

A series is named ``Consistency.<metric>``. Its instance is ``<group_by>.<feature>``, or
``<group_by>`` for metrics of whole rows. A distribution has one series for each of `QUANTILES`,
such as ``delta-p50``.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import sqlalchemy as sa

from tidegauge.repository.store import schema as s
from tidegauge.repository.store.bulk import chunks, fetch_columns
from tidegauge.repository.store.consistency_series import (
    OF_ROWS,
    PREFIX,
    FeatureSubject,
    parse_instance,
)
from tidegauge.repository.store.queries import Window, dataset_id

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sqlalchemy.engine import Connection

WEIGHT_METRIC = "total"
"""Metric of matched rows, which weights the mean of rates over partitions."""
_MAX_LISTED_SERIES = 450
"""For more series, all series of their metrics are read."""
_PARTITIONS_PER_QUERY = 30
"""Bounds memory: the points of a query are held as tuples until they are copied to arrays."""


@dataclass(frozen=True)
class ConsistencyIndex:
    """Index of the consistency metrics of one dataset and segment.

    Attributes
    ----------
    dataset : str
        Name of the dataset.
    segment : str
        Segment of the metrics; empty for the whole dataset.
    segments : sequence of str
        All segments of the dataset with consistency metrics.
    subjects : sequence of FeatureSubject
        Features and group-bys, in order.
    series : mapping of str to (mapping of int to list of int)
        Series ids by metric, such as ``mismatch`` or ``delta-p50``, and by the subject's index. A
        subject has several series if its analyzer changed; the last series is used.
    """

    dataset: str
    segment: str
    segments: Sequence[str]
    subjects: Sequence[FeatureSubject]
    series: Mapping[str, Mapping[int, Sequence[int]]]

    @cached_property
    def features(self) -> NDArray[np.intp]:
        """Indices of the subjects that are features."""
        return np.array(
            [index for index, subject in enumerate(self.subjects) if subject.feature is not None],
            np.intp,
        )

    @cached_property
    def ids(self) -> NDArray[np.int64]:
        """Stable id of each subject: the lowest id of its series."""
        lowest: dict[int, int] = {}
        for series_ids in self.series.values():
            for subject, ids in series_ids.items():
                lowest[subject] = min(lowest.get(subject, ids[0]), *ids)
        return np.array([lowest[subject] for subject in range(len(self.subjects))], np.int64)

    def metrics_of(self, subject: int) -> list[str]:
        """Return the metrics measured for a subject, in order."""
        return [metric for metric, series_ids in self.series.items() if subject in series_ids]


@dataclass(frozen=True)
class PartitionColumns:
    """Columns of a dataset's partitions in a window. Partitions of one time share a column.

    Attributes
    ----------
    partitions : array of int
        Partition ids.
    column : array of int
        Column of each partition.
    labels : sequence of str
        Name of the last partition of each column.
    times : array of float
        Time of each column, in seconds since 1970; NaN without a time.
    """

    partitions: NDArray[np.int64]
    column: NDArray[np.int64]
    labels: Sequence[str]
    times: NDArray[np.float64]


def measures(connection: Connection, dataset: str, segment: str | None = None) -> ConsistencyIndex:
    """Return the index of the consistency metrics of a dataset and one of its segments.

    Parameters
    ----------
    connection : Connection
        Open connection to the repository.
    dataset : str
        Name of the dataset.
    segment : str, optional
        Segment of the dataset. Without an existing segment, it is the whole dataset, or the first
        segment if the whole dataset was not measured.

    Raises
    ------
    UnknownDatasetError
        If the dataset does not exist.
    """
    e, a = s.series.c, s.analyzer.c
    query = (
        sa.select(e.id, a.segment, e.instance, e.name)
        .join_from(s.series, s.analyzer)
        .where(
            a.dataset_id == dataset_id(connection, dataset),
            a.filter.is_(None),
            _is_consistency_series(),
        )
    )
    ids, segment_of_series, instances, names = fetch_columns(connection, query)
    segments = sorted(set(segment_of_series))
    chosen = segment if segment is not None and segment in segments else next(iter(segments), "")
    metrics = [name.removeprefix(PREFIX) for name in names]
    group_bys = {name for name, metric in zip(instances, metrics, strict=True) if metric in OF_ROWS}
    chosen_series = [index for index, name in enumerate(segment_of_series) if name == chosen]
    subjects = {
        instance: parse_instance(instance, group_bys)
        for instance in {instances[index] for index in chosen_series}
    }
    ordered = sorted(
        subjects, key=lambda key: (subjects[key].group_by, subjects[key].feature or "", key)
    )
    position = {instance: index for index, instance in enumerate(ordered)}
    series: dict[str, dict[int, list[int]]] = {}
    for index in sorted(chosen_series, key=lambda index: (metrics[index], ids[index])):
        series.setdefault(metrics[index], {}).setdefault(position[instances[index]], []).append(
            ids[index]
        )
    return ConsistencyIndex(dataset, chosen, segments, [subjects[key] for key in ordered], series)


def datasets_with_consistency(connection: Connection) -> list[str]:
    """Return the names of the datasets that have consistency metrics."""
    d, a = s.dataset.c, s.analyzer.c
    query = (
        sa.select(d.name)
        .where(
            sa.exists().where(
                s.analyzer.c.dataset_id == d.id,
                s.series.c.analyzer_id == a.id,
                _is_consistency_series(),
            )
        )
        .order_by(d.name)
    )
    return list(connection.execute(query).scalars())


def _is_consistency_series() -> sa.ColumnElement[bool]:
    return s.series.c.name.startswith(PREFIX, autoescape=True)


def moments(connection: Connection, dataset: str, window: Window | None = None) -> PartitionColumns:
    """Return the columns of a dataset's partitions in a window, in order.

    Parameters
    ----------
    connection : Connection
        Open connection to the repository.
    dataset : str
        Name of the dataset.
    window : Window, optional
        Time window (default: all times).
    """
    p = s.partition.c
    query = (
        sa.select(p.id, p.name, p.time)
        .where(p.dataset_id == dataset_id(connection, dataset), (window or Window()).condition())
        .order_by(p.time.is_(None), p.time, p.name)
    )
    rows = list(connection.execute(query))
    columns: dict[object, int] = {}
    column = [columns.setdefault(row.time or row.name, len(columns)) for row in rows]
    last_row = dict(zip(column, rows, strict=True))
    times = [row.time for row in last_row.values()]
    return PartitionColumns(
        np.array([row.id for row in rows], np.int64),
        np.array(column, np.int64),
        [last_row[index].name for index in range(len(columns))],
        np.array([np.nan if time is None else time.timestamp() for time in times]),
    )


def values(
    connection: Connection,
    index: ConsistencyIndex,
    partition_columns: PartitionColumns,
    metrics: Sequence[str],
    subjects: Sequence[int],
    *,
    weights: bool = False,
) -> NDArray[np.float64]:
    """Return the values of several metrics and subjects, or their weights.

    Parameters
    ----------
    connection : Connection
        Open connection to the repository.
    index : ConsistencyIndex
        Index of the dataset's consistency metrics.
    partition_columns : PartitionColumns
        Partitions to read, and their columns.
    metrics : sequence of str
        Metrics to read. All values of an unknown metric are NaN.
    subjects : sequence of int
        Indices of subjects.
    weights : bool
        True to return the number of rows behind each value instead.

    Returns
    -------
    array of float, shape (metrics, subjects, columns)
        NaN if there is no finite value.
    """
    result = np.full((len(metrics), len(subjects), len(partition_columns.labels)), np.nan)
    position_of_series: dict[int, tuple[int, int]] = {}
    for metric_number, metric in enumerate(metrics):
        ids_by_subject = index.series.get(metric, {})
        position_of_series.update(
            {
                series_id: (metric_number, subject_number)
                for subject_number, subject in enumerate(subjects)
                for series_id in ids_by_subject.get(subject, ())
            }
        )
    if not position_of_series:
        return result
    ids = np.array(sorted(position_of_series), np.int64)
    positions = np.array([position_of_series[series_id] for series_id in ids.tolist()], np.int64)
    partition_order = np.argsort(partition_columns.partitions)
    m = s.metric.c
    number = m.weight if weights else m.value
    query = sa.select(m.partition_id, m.series_id, number).where(
        s.holds(s.metric),
        m.status == "finite",
        _series_condition(connection, index, metrics, ids),
    )
    for partition_ids in chunks(partition_columns.partitions.tolist(), _PARTITIONS_PER_QUERY):
        fetched = fetch_columns(connection, query.where(m.partition_id.in_(partition_ids)))
        partition, series = (np.array(column, np.int64) for column in fetched[:2])
        value = np.array(fetched[2], np.float64)
        series_index = np.minimum(np.searchsorted(ids, series), len(ids) - 1)
        partition_index = partition_order[
            np.searchsorted(partition_columns.partitions, partition, sorter=partition_order)
        ]
        # The last partition of a column and the newest series come last, so that they are kept.
        order = np.lexsort((series, partition_index))
        order = order[ids[series_index[order]] == series[order]]
        metric_index, subject_index = positions[series_index[order]].T
        result[metric_index, subject_index, partition_columns.column[partition_index[order]]] = (
            value[order]
        )
    return result


def _series_condition(
    connection: Connection, index: ConsistencyIndex, metrics: Sequence[str], ids: NDArray[np.int64]
) -> sa.ColumnElement[bool]:
    """Return the SQL condition for series; if there are many, for all series of their metrics."""
    m, e, a = s.metric.c, s.series.c, s.analyzer.c
    if len(ids) <= _MAX_LISTED_SERIES:
        return m.series_id.in_(ids.tolist())
    same_metric = (
        sa.select(e.id)
        .join_from(s.series, s.analyzer)
        .where(a.dataset_id == dataset_id(connection, index.dataset), a.segment == index.segment)
        .where(e.name.in_([PREFIX + metric for metric in metrics]))
    )
    return m.series_id.in_(same_metric)


@dataclass(frozen=True)
class FeatureRanking:
    """Ranking of features by their worst value.

    Attributes
    ----------
    worst : array of float
        Largest absolute value of each feature; NaN without a value.
    column : array of int
        Column of this value; -1 without a value.
    order : array of int
        Indices of features, the worst first and features without values last. Ties keep their order.
    """

    worst: NDArray[np.float64]
    column: NDArray[np.int64]
    order: NDArray[np.intp]


def rank_features(values: NDArray[np.float64]) -> FeatureRanking:
    """Rank features by their largest absolute value.

    Parameters
    ----------
    values : array of float, shape (features, columns)
        NaN if unknown.

    Examples
    --------
    >>> rank_features(np.array([[0.1, np.nan], [0.2, -0.5], [np.nan, np.nan]])).order.tolist()
    [1, 0, 2]
    """
    magnitude = np.abs(values)
    if not values.shape[1]:
        unknown = np.full(len(values), np.nan)
        return FeatureRanking(unknown, np.full(len(values), -1), np.arange(len(values)))
    filled = np.where(np.isnan(magnitude), -1.0, magnitude)
    worst_column = filled.argmax(axis=1)
    worst = np.take_along_axis(filled, worst_column[:, None], axis=1)[:, 0]
    is_known = worst >= 0
    order = np.argsort(-worst, kind="stable")
    return FeatureRanking(
        np.where(is_known, worst, np.nan), np.where(is_known, worst_column, -1), order
    )


def summed(rates: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum rates along the first axis, ignoring NaN. The sum of NaN only is NaN."""
    is_unknown = np.isnan(rates).all(axis=0)
    return np.where(is_unknown, np.nan, np.nansum(rates, axis=0))


def averaged(rates: NDArray[np.float64], rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each feature's mean rate over all columns, weighted by rows if rows are known.

    Parameters
    ----------
    rates : array of float, shape (features, columns)
        NaN if unknown.
    rows : array of float, shape (features, columns)
        Number of rows behind each rate; NaN if unknown.

    Examples
    --------
    >>> averaged(np.array([[0.0, 0.5]]), np.array([[300.0, 100.0]])).tolist()
    [0.125]
    """
    has_rows = np.isfinite(rows).any(axis=1, keepdims=True)
    weight = np.where(has_rows, rows, 1.0)
    weight = np.where(np.isnan(rates) | np.isnan(weight), 0.0, weight)
    with warnings.catch_warnings(), np.errstate(invalid="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.asarray(np.nansum(rates * weight, axis=1) / weight.sum(axis=1))
