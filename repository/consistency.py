"""Online/offline consistency as it was measured, read as columns: to be ranked, drawn and exported.

A series is named ``Consistency.<metric>``, and its instance is ``<group_by>.<feature>``, or ``<group_by>``
alone for what is of whole rows. Of a distribution there is one for each of `QUANTILES`: ``delta-p50``.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import sqlalchemy as sa

from repository import schema as s
from repository.bulk import chunks, fetch_columns
from repository.history import Window, dataset_id

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sqlalchemy.engine import Connection

PREFIX = "Consistency."
QUANTILES = ("min", "p5", "p25", "p50", "p75", "p95", "max")
WRONG = "wrong"
"""What features are ranked by first: the sum of `CELLS`."""
CELLS = ("mismatch", "missing", "extra")
"""Rates of matched rows in which a feature is not the same on both sides."""
OF_ROWS = ("row_missing", "row_extra")
"""Metrics of a group-by, whatever its features."""
WEIGHT = "total"
"""The matched rows, by which rates of some partitions are averaged."""
_LISTED = 450
"""Series that are named in a query; of more, all of their metrics are looked up."""
_AT_ONCE = 30
"""Partitions that are held at a time: their points are tuples for a moment."""


@dataclass(frozen=True)
class Subject:
    """What metrics are of: a feature of a group-by, or its rows if there is no feature.

    Attributes
    ----------
    group_by : str
        Empty where an instance names none.
    feature : str or None
    instance : str
        Of its series.
    """

    group_by: str
    feature: str | None
    instance: str


@dataclass(frozen=True)
class Measures:
    """The consistency metrics that there are of one dataset and segment.

    Attributes
    ----------
    dataset, segment : str
    segments : sequence of str
        All that there are.
    subjects : sequence of Subject
        In order; features and group-bys.
    series : mapping of str to (mapping of int to list of int)
        By metric, such as ``mismatch`` or ``delta-p50``, and by the subject's place: the ids of series. There
        are several where the way of measuring changed; the last one counts.
    """

    dataset: str
    segment: str
    segments: Sequence[str]
    subjects: Sequence[Subject]
    series: Mapping[str, Mapping[int, Sequence[int]]]

    @cached_property
    def features(self) -> NDArray[np.intp]:
        """The places of features among subjects."""
        return np.array(
            [n for n, of in enumerate(self.subjects) if of.feature is not None], np.intp
        )

    @cached_property
    def ids(self) -> NDArray[np.int64]:
        """A number for each subject that stays its own: the first of its series."""
        first: dict[int, int] = {}
        for of in self.series.values():
            for place, ids in of.items():
                first[place] = min(first.get(place, ids[0]), *ids)
        return np.array([first[n] for n in range(len(self.subjects))], np.int64)

    def metrics_of(self, place: int) -> list[str]:
        """Return what is measured of a subject, in order."""
        return [metric for metric, of in self.series.items() if place in of]


@dataclass(frozen=True)
class Moments:
    """The partitions of a dataset in a window, as columns: those of one time share one.

    Attributes
    ----------
    partitions, column : array of int
        Ids, and the column of each.
    labels : sequence of str
        The partition of each column.
    times : array of float
        Of each column: seconds since 1970, NaN where there is none.
    """

    partitions: NDArray[np.int64]
    column: NDArray[np.int64]
    labels: Sequence[str]
    times: NDArray[np.float64]


def measures(connection: Connection, dataset: str, segment: str | None = None) -> Measures:
    """Return the consistency metrics of a dataset and one of its segments.

    Parameters
    ----------
    connection : Connection
    dataset : str
    segment : str, optional
        If there is none such, the whole, or the first one where the whole is not measured.

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
    known = {instance: subject(instance, groups) for instance in {instances[n] for n in mine}}
    order = sorted(known, key=lambda one: (known[one].group_by, known[one].feature or "", one))
    place = {instance: n for n, instance in enumerate(order)}
    series: dict[str, dict[int, list[int]]] = {}
    for n in sorted(mine, key=lambda n: (metrics[n], ids[n])):
        series.setdefault(metrics[n], {}).setdefault(place[instances[n]], []).append(ids[n])
    return Measures(dataset, chosen, segments, [known[one] for one in order], series)


def subject(instance: str, groups: set[str]) -> Subject:
    """Return what an instance is, given the group-bys that are known: names may have dots.

    Examples
    --------
    >>> subject("team.clicks.count_7d", {"team.clicks"})
    Subject(group_by='team.clicks', feature='count_7d', instance='team.clicks.count_7d')
    >>> subject("clicks.count_7d", set()).group_by
    'clicks'
    """
    if instance in groups:
        return Subject(instance, None, instance)
    longest = max((g for g in groups if instance.startswith(f"{g}.")), key=len, default=None)
    if longest is None:
        group, dot, feature = instance.partition(".")
        return Subject(group if dot else "", feature if dot else instance, instance)
    return Subject(longest, instance[len(longest) + 1 :], instance)


def group_bys_of(connection: Connection, dataset: int) -> set[str]:
    """Return the group-bys of a dataset of whose rows anything is known, by its id."""
    e, a = s.series.c, s.analyzer.c
    query = (
        sa.select(e.instance)
        .distinct()
        .join_from(s.series, s.analyzer)
        .where(a.dataset_id == dataset, e.name.in_([PREFIX + metric for metric in OF_ROWS]))
    )
    return set(connection.execute(query).scalars())


def datasets_with_consistency(connection: Connection) -> list[str]:
    """Return the names of the datasets that have any of these metrics."""
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


def moments(connection: Connection, dataset: str, window: Window | None = None) -> Moments:
    """Return the partitions of a dataset in a window, in order."""
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
    return Moments(
        np.array([row.id for row in rows], np.int64),
        np.array(column, np.int64),
        [last[n].name for n in range(len(columns))],
        np.array([np.nan if at.time is None else at.time.timestamp() for at in last.values()]),
    )


def values(
    connection: Connection, of: Measures, at: Moments, metrics: Sequence[str], places: Sequence[int]
) -> NDArray[np.float64]:
    """Return what was measured of some subjects.

    Parameters
    ----------
    connection : Connection
    of : Measures
    at : Moments
    metrics : sequence of str
        One of a name that nothing has is measured nowhere.
    places : sequence of int
        Of subjects.

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
    query = sa.select(m.partition_id, m.series_id, m.value).where(
        s.holds(s.metric), m.status == "finite", _among(connection, of, metrics, ids)
    )
    for some in chunks(at.partitions.tolist(), _AT_ONCE):
        found = fetch_columns(connection, query.where(m.partition_id.in_(some)))
        partition, series = (np.array(column, np.int64) for column in found[:2])
        value = np.array(found[2], np.float64)
        spot = np.minimum(np.searchsorted(ids, series), len(ids) - 1)
        place = by_id[np.searchsorted(at.partitions, partition, sorter=by_id)]
        # The last of a column, and of several series the newest, comes last.
        order = np.lexsort((series, place))
        order = order[ids[spot[order]] == series[order]]
        which, who = spots[spot[order]].T
        out[which, who, at.column[place[order]]] = value[order]
    return out


def _among(
    connection: Connection, of: Measures, metrics: Sequence[str], ids: NDArray[np.int64]
) -> sa.ColumnElement[bool]:
    """Return the condition that a fact is of these series; where they are many, of their metrics."""
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
class Severity:
    """How bad features were over some columns, one entry for each of them.

    Attributes
    ----------
    worst : array of float
        The largest absolute value; NaN where there is none.
    column : array of int
        Where it is; -1 where there is none.
    order : array of int
        The worst feature first; those of which nothing is known last, equal ones as they came.
    """

    worst: NDArray[np.float64]
    column: NDArray[np.int64]
    order: NDArray[np.intp]


def severity(found: NDArray[np.float64]) -> Severity:
    """Return how bad features were, of their values (features, columns).

    Examples
    --------
    >>> severity(np.array([[0.1, np.nan], [0.2, -0.5], [np.nan, np.nan]])).order.tolist()
    [1, 0, 2]
    """
    size = np.abs(found)
    if not found.shape[1]:
        nothing = np.full(len(found), np.nan)
        return Severity(nothing, np.full(len(found), -1), np.arange(len(found)))
    filled = np.where(np.isnan(size), -1.0, size)
    at = filled.argmax(axis=1)
    worst = np.take_along_axis(filled, at[:, None], axis=1)[:, 0]
    known = worst >= 0
    order = np.argsort(-worst, kind="stable")
    return Severity(np.where(known, worst, np.nan), np.where(known, at, -1), order)


def summed(cells: NDArray[np.float64]) -> NDArray[np.float64]:
    """Add up rates along the first axis; what is not known counts nothing, unless nothing is known."""
    nothing = np.isnan(cells).all(axis=0)
    return np.where(nothing, np.nan, np.nansum(cells, axis=0))


def averaged(rate: NDArray[np.float64], rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean rate of each feature over all columns, by rows; by columns where none are told.

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
