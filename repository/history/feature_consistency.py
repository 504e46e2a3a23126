"""Stored online/offline consistency metrics, read as columns for ranking, plots and export.

A series is named ``Consistency.<metric>``, and its instance is ``<group_by>.<feature>``, or
``<group_by>`` alone for metrics of whole rows. A distribution has one series for each of
`QUANTILES`: ``delta-p50``.
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

WEIGHT = "total"
"""Metric of matched rows, the weight by which rates are averaged over partitions."""
_LISTED = 450
"""Maximum of series ids listed in a query; for more, all series of their metrics are read."""
_AT_ONCE = 30
"""Partitions read at once, which bounds memory: their points are tuples for a moment."""


@dataclass(frozen=True)
class ConsistencyIndex:
    """Index of the consistency metrics of one dataset and segment.

    Attributes
    ----------
    dataset, segment : str
    segments : sequence of str
        All that there are.
    subjects : sequence of FeatureSubject
        In order; features and group-bys.
    series : mapping of str to (mapping of int to list of int)
        Series ids by metric, such as ``mismatch`` or ``delta-p50``, and by the subject's index.
        There are several where the analyzer changed; the last one counts.
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
            [n for n, of in enumerate(self.subjects) if of.feature is not None], np.intp
        )

    @cached_property
    def ids(self) -> NDArray[np.int64]:
        """Stable id of each subject: the lowest id of its series."""
        first: dict[int, int] = {}
        for of in self.series.values():
            for place, ids in of.items():
                first[place] = min(first.get(place, ids[0]), *ids)
        return np.array([first[n] for n in range(len(self.subjects))], np.int64)

    def metrics_of(self, place: int) -> list[str]:
        """Return the metrics measured for a subject, in order."""
        return [metric for metric, of in self.series.items() if place in of]


@dataclass(frozen=True)
class PartitionColumns:
    """Columns of a dataset's partitions in a window: partitions of one time share a column.

    Attributes
    ----------
    partitions, column : array of int
        Partition ids, and the column of each.
    labels : sequence of str
        Partition name of each column; the last of several.
    times : array of float
        Time of each column, in seconds since 1970; NaN where there is none.
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
    dataset : str
    segment : str, optional
        If not given or not there: the whole dataset, or the first segment if the whole is not
        measured.

    Raises
    ------
    UnknownDatasetError
    """
    e, a = s.series.c, s.analyzer.c
    query = (
        sa.select(e.id, a.segment, e.instance, e.name)
        .join_from(s.series, s.analyzer)
        .where(a.dataset_id == dataset_id(connection, dataset), a.filter.is_(None), _named())
    )
    ids, within, instances, names = fetch_columns(connection, query)
    segments = sorted(set(within))
    chosen = segment if segment is not None and segment in segments else next(iter(segments), "")
    metrics = [name.removeprefix(PREFIX) for name in names]
    groups = {one for one, metric in zip(instances, metrics, strict=True) if metric in OF_ROWS}
    mine = [n for n, one in enumerate(within) if one == chosen]
    known = {
        instance: parse_instance(instance, groups) for instance in {instances[n] for n in mine}
    }
    order = sorted(known, key=lambda one: (known[one].group_by, known[one].feature or "", one))
    place = {instance: n for n, instance in enumerate(order)}
    series: dict[str, dict[int, list[int]]] = {}
    for n in sorted(mine, key=lambda n: (metrics[n], ids[n])):
        series.setdefault(metrics[n], {}).setdefault(place[instances[n]], []).append(ids[n])
    return ConsistencyIndex(dataset, chosen, segments, [known[one] for one in order], series)


def datasets_with_consistency(connection: Connection) -> list[str]:
    """Return the names of the datasets that have consistency metrics."""
    d, a = s.dataset.c, s.analyzer.c
    query = (
        sa.select(d.name)
        .where(
            sa.exists().where(
                s.analyzer.c.dataset_id == d.id, s.series.c.analyzer_id == a.id, _named()
            )
        )
        .order_by(d.name)
    )
    return list(connection.execute(query).scalars())


def _named() -> sa.ColumnElement[bool]:
    return s.series.c.name.startswith(PREFIX, autoescape=True)


def moments(connection: Connection, dataset: str, window: Window | None = None) -> PartitionColumns:
    """Return the columns of a dataset's partitions in a window, in order."""
    p = s.partition.c
    query = (
        sa.select(p.id, p.name, p.time)
        .where(p.dataset_id == dataset_id(connection, dataset), (window or Window()).condition())
        .order_by(p.time.is_(None), p.time, p.name)
    )
    rows = list(connection.execute(query))
    columns: dict[object, int] = {}
    column = [columns.setdefault(row.time or row.name, len(columns)) for row in rows]
    last = dict(zip(column, rows, strict=True))
    return PartitionColumns(
        np.array([row.id for row in rows], np.int64),
        np.array(column, np.int64),
        [last[n].name for n in range(len(columns))],
        np.array([np.nan if at.time is None else at.time.timestamp() for at in last.values()]),
    )


def values(
    connection: Connection,
    of: ConsistencyIndex,
    at: PartitionColumns,
    metrics: Sequence[str],
    places: Sequence[int],
    *,
    weights: bool = False,
) -> NDArray[np.float64]:
    """Return the values of several metrics and subjects, or their weights.

    Parameters
    ----------
    connection : Connection
    of : ConsistencyIndex
    at : PartitionColumns
    metrics : sequence of str
        Unknown metrics are NaN throughout.
    places : sequence of int
        Indices of subjects.
    weights : bool
        Return the number of rows behind each value instead.

    Returns
    -------
    array of float, shape (metrics, places, columns)
        NaN where there is no finite value.
    """
    out = np.full((len(metrics), len(places), len(at.labels)), np.nan)
    row: dict[int, tuple[int, int]] = {}
    for n, metric in enumerate(metrics):
        there = of.series.get(metric, {})
        row.update({one: (n, m) for m, place in enumerate(places) for one in there.get(place, ())})
    if not row:
        return out
    ids = np.array(sorted(row), np.int64)
    spots = np.array([row[one] for one in ids.tolist()], np.int64)
    by_id = np.argsort(at.partitions)
    m = s.metric.c
    number = m.weight if weights else m.value
    query = sa.select(m.partition_id, m.series_id, number).where(
        s.holds(s.metric), m.status == "finite", _among(connection, of, metrics, ids)
    )
    for some in chunks(at.partitions.tolist(), _AT_ONCE):
        found = fetch_columns(connection, query.where(m.partition_id.in_(some)))
        partition, series = (np.array(column, np.int64) for column in found[:2])
        value = np.array(found[2], np.float64)
        spot = np.minimum(np.searchsorted(ids, series), len(ids) - 1)
        place = by_id[np.searchsorted(at.partitions, partition, sorter=by_id)]
        # The last partition of a column, and the newest of several series, comes last and wins.
        order = np.lexsort((series, place))
        order = order[ids[spot[order]] == series[order]]
        which, who = spots[spot[order]].T
        out[which, who, at.column[place[order]]] = value[order]
    return out


def _among(
    connection: Connection, of: ConsistencyIndex, metrics: Sequence[str], ids: NDArray[np.int64]
) -> sa.ColumnElement[bool]:
    """Return the SQL condition for these series; for many, for all series of their metrics."""
    m, e, a = s.metric.c, s.series.c, s.analyzer.c
    if len(ids) <= _LISTED:
        return m.series_id.in_(ids.tolist())
    named = (
        sa.select(e.id)
        .join_from(s.series, s.analyzer)
        .where(a.dataset_id == dataset_id(connection, of.dataset), a.segment == of.segment)
        .where(e.name.in_([PREFIX + metric for metric in metrics]))
    )
    return m.series_id.in_(named)


@dataclass(frozen=True)
class FeatureRanking:
    """Ranking of features by their worst value, with one entry per feature.

    Attributes
    ----------
    worst : array of float
        Largest absolute value; NaN where there is none.
    column : array of int
        Column of that value; -1 where there is none.
    order : array of int
        Indices of features, worst first and those without values last; ties keep their order.
    """

    worst: NDArray[np.float64]
    column: NDArray[np.int64]
    order: NDArray[np.intp]


def rank_features(found: NDArray[np.float64]) -> FeatureRanking:
    """Rank features by their largest absolute value; ``found`` has the shape (features, columns).

    Examples
    --------
    >>> rank_features(np.array([[0.1, np.nan], [0.2, -0.5], [np.nan, np.nan]])).order.tolist()
    [1, 0, 2]
    """
    size = np.abs(found)
    if not found.shape[1]:
        nothing = np.full(len(found), np.nan)
        return FeatureRanking(nothing, np.full(len(found), -1), np.arange(len(found)))
    filled = np.where(np.isnan(size), -1.0, size)
    at = filled.argmax(axis=1)
    worst = np.take_along_axis(filled, at[:, None], axis=1)[:, 0]
    known = worst >= 0
    order = np.argsort(-worst, kind="stable")
    return FeatureRanking(np.where(known, worst, np.nan), np.where(known, at, -1), order)


def summed(cells: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum rates along the first axis, ignoring NaN; NaN if all are."""
    nothing = np.isnan(cells).all(axis=0)
    return np.where(nothing, np.nan, np.nansum(cells, axis=0))


def averaged(rate: NDArray[np.float64], rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each feature's mean rate over all columns, weighted by rows where they are known.

    Examples
    --------
    >>> averaged(np.array([[0.0, 0.5]]), np.array([[300.0, 100.0]])).tolist()
    [0.125]
    """
    told = np.isfinite(rows).any(axis=1, keepdims=True)
    weight = np.where(told, rows, 1.0)
    weight = np.where(np.isnan(rate) | np.isnan(weight), 0.0, weight)
    with warnings.catch_warnings(), np.errstate(invalid="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.asarray(np.nansum(rate * weight, axis=1) / weight.sum(axis=1))
