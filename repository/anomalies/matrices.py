"""Metrics as arrays of series by partitions, which detectors look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from analyzers.metric import Scale
from repository.anomalies.detector import History
from repository.anomalies.grid import Grid

if TYPE_CHECKING:
    from datetime import datetime

    from numpy.typing import NDArray

    from repository.anomalies.detector import Floats
    from repository.anomalies.teaching import Teaching
    from repository.facts import Facts

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Matrix:
    """Some series over the partitions that they can have a value in.

    Attributes
    ----------
    series, partitions : sequence of mapping
        As in `Facts`.
    history : History
    version : array of int, shape (series, partitions)
        Of each point; 0 where there is none.
    """

    series: Sequence[Row]
    partitions: Sequence[Row]
    history: History
    version: NDArray[np.int64]


def timeline(partitions: Sequence[Row]) -> Mapping[str, list[int]]:
    """Return the places of partitions, which are in order, by the segment that their own keys make."""
    of: dict[str, list[int]] = {}
    for place, partition in enumerate(partitions):
        of.setdefault(partition["within"], []).append(place)
    return of


def grid_of(partitions: Sequence[Row], places: Sequence[int]) -> Grid:
    """Return where some partitions lie in time."""
    return Grid.of(times_of([partitions[place] for place in places]))


def times_of(partitions: Sequence[Row]) -> NDArray[np.datetime64]:
    """Return the times of partitions, not-a-time where they have none."""
    return np.array([naive(partition["time"]) for partition in partitions], dtype="M8[s]")


def naive(time: datetime | None) -> np.datetime64:
    """Return a moment as an array holds it; not-a-time for None."""
    return np.datetime64("NaT") if time is None else np.datetime64(time.replace(tzinfo=None), "s")


def matrix(
    facts: Facts,
    places: Sequence[int],
    wanted: Callable[[Row], bool],
    least: int,
    teaching: Teaching | None = None,
    grid: Grid | None = None,
) -> Matrix:
    """Return the metrics of wanted series over some partitions.

    Parameters
    ----------
    facts : Facts
    places : sequence of int
        Of the partitions in ``facts.partitions``, in order.
    wanted : callable
        Whether a series is; it is given one of ``facts.series``.
    least : int
        Series with fewer points are left out.
    teaching : Teaching, optional
        What people said of points.
    grid : Grid, optional
        Where the partitions lie in time; found from their times if not given.
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
    series = [facts.series[i] for i in kept]
    partitions = [facts.partitions[place] for place in places]
    history = History(
        times_of(partitions),
        values,
        weights,
        [Scale(row["scale"]) for row in series],
        **({} if teaching is None else teaching.of(series, partitions, ~np.isnan(values))),
        grid=grid,
    )
    return Matrix(series, partitions, history, version)


def _filled(shape: tuple[int, int], at: tuple[Any, Any], numbers: Floats) -> Floats:
    out = np.full(shape, np.nan)
    out[at] = numbers
    return out
