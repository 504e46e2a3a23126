"""Metrics as (series, partitions) arrays, the input of detectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegauge.analyzers.core.metric import Scale
from tidegauge.repository.detectors.base import History
from tidegauge.repository.detectors.rules import EXTREMES
from tidegauge.repository.numerics.grid import Grid
from tidegauge.repository.store.rows import LedgerRow, PartitionRow, SeriesRow

if TYPE_CHECKING:
    from datetime import datetime

    from numpy.typing import NDArray

    from tidegauge.repository.detectors.training import TrainingLabels
    from tidegauge.repository.numerics.arrays import Floats
    from tidegauge.repository.store.facts import Facts


EMPTY = ("empty", "NaN")
"""Statuses of metrics that were measured and have no number."""


@dataclass(frozen=True)
class Matrix:
    """Series over the partitions of one partition segment.

    Attributes
    ----------
    series, partitions : sequence of mapping
        As in `Facts`.
    history : History
    version : array of int, shape (series, partitions)
        Version of each point; 0 where there is none.
    """

    series: Sequence[SeriesRow]
    partitions: Sequence[PartitionRow]
    history: History
    version: NDArray[np.int64]


def group_by_segment(
    partitions: Sequence[PartitionRow] | Sequence[LedgerRow],
) -> Mapping[str, list[int]]:
    """Group the indices of partitions by partition segment: the segment that the non-time keys form.

    Keeps the order in which the partitions are given.
    """
    of: dict[str, list[int]] = {}
    for place, partition in enumerate(partitions):
        of.setdefault(partition["within"], []).append(place)
    return of


def grid_of(
    partitions: Sequence[PartitionRow] | Sequence[LedgerRow], places: Sequence[int]
) -> Grid:
    """Return the time grid of some partitions."""
    return Grid.from_times(times_of([partitions[place] for place in places]))


def times_of(partitions: Sequence[PartitionRow] | Sequence[LedgerRow]) -> NDArray[np.datetime64]:
    """Return the times of partitions; NaT where they have none."""
    return np.array([to_datetime64(partition["time"]) for partition in partitions], dtype="M8[s]")


def extremes_of(series: Sequence[SeriesRow]) -> NDArray[np.bool_]:
    """Return a mask of the series that are extremes of a column."""
    return np.array([row["kind"] in EXTREMES for row in series], dtype=bool)


def to_datetime64(time: datetime | None) -> np.datetime64:
    """Convert a time to a timezone-naive ``datetime64[s]``; NaT for None."""
    return (
        np.datetime64("NaT", "s") if time is None else np.datetime64(time.replace(tzinfo=None), "s")
    )


def matrix(
    facts: Facts,
    places: Sequence[int],
    wanted: Callable[[SeriesRow], bool],
    least: int,
    teaching: TrainingLabels | None = None,
    grid: Grid | None = None,
) -> Matrix:
    """Return the metrics of selected series over some partitions as a matrix.

    Parameters
    ----------
    facts : Facts
    places : sequence of int
        Indices in ``facts.partitions``, in order.
    wanted : callable
        Predicate on a row of ``facts.series``.
    least : int
        Series with fewer points are left out, and those without any.
    teaching : TrainingLabels, optional
        Labels and holidays.
    grid : Grid, optional
        Time grid of the partitions; computed from their times if not given.
    """
    column = np.full(len(facts.partitions), -1, dtype=np.intp)
    column[list(places)] = np.arange(len(places))
    there = column[facts.of_partition] >= 0
    points = np.bincount(facts.of_series[there], minlength=len(facts.series))
    kept = [i for i, row in enumerate(facts.series) if points[i] >= max(least, 1) and wanted(row)]
    line = np.full(len(facts.series), -1, dtype=np.intp)
    line[kept] = np.arange(len(kept))
    there &= line[facts.of_series] >= 0
    at = line[facts.of_series[there]], column[facts.of_partition[there]]
    shape = (len(kept), len(places))
    values, weights = (
        _filled(shape, at, facts.value[there]),
        _filled(shape, at, facts.weight[there]),
    )
    version = np.zeros(shape, dtype=np.int64)
    version[at] = facts.version[there]
    empty = _empty(shape, at, facts.value[there], facts.status[there])
    series = [facts.series[i] for i in kept]
    partitions = [facts.partitions[place] for place in places]
    history = History(
        times_of(partitions),
        values,
        weights,
        [Scale(row["scale"]) for row in series],
        **({} if teaching is None else teaching.of(series, partitions, ~np.isnan(values))),
        grid=grid,
        extremes=extremes_of(series),
        series=series,
        empty=empty,
    )
    return Matrix(series, partitions, history, version)


def _empty(
    shape: tuple[int, int], at: tuple[Any, Any], values: Floats, status: NDArray[np.object_]
) -> NDArray[np.bool_] | None:
    """Return a mask of the points without a number that did not fail; None if there is none."""
    without = np.flatnonzero(np.isnan(values))
    without = without[np.isin(status[without].astype(str), EMPTY)]
    if not without.size:
        return None
    out = np.zeros(shape, dtype=bool)
    out[at[0][without], at[1][without]] = True
    return out


def _filled(shape: tuple[int, int], at: tuple[Any, Any], numbers: Floats) -> Floats:
    out = np.full(shape, np.nan)
    out[at] = numbers
    return out
