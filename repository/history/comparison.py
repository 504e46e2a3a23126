"""Comparison of two runs, partitions or windows of a dataset, with the surprise of each difference.

For many series at once, the surprise is the robust z-score of the difference between the two sides.
Values are first transformed to the scale of their metric (`tidegauge.repository.numerics.forecasts`).
With ``d`` the difference of the transformed sides,

    surprise = min(|d - m| / max(spread, floor), 300)
    spread = max(1.4826 * median(|u - m|), 90th percentile(|u - m|) / 1.645),   m = median(u)

where ``u`` are the *usual* differences. To find them, both sides are shifted along the history
together, with their lengths and their distance kept, to each position where they contain no
partition of the original sides. Long sides are shifted in steps of half the longer length, because
medians of nearly the same points add no information. The percentile accounts for frequent
differences: each weekend differs from its Friday.

If a series has fewer than `MIN_USUAL_DIFFERENCES` usual differences, or if all usual differences of
long sides are 0, the differences between neighboring partitions replace them. Then m = 0, and
their spread is multiplied by sqrt((1/e(n) + 1/e(k)) / 2) for sides of n and k values: the median of
n values counts as the mean of e(n) = max(1, 2n/pi) values. Pairs across the edge of a side are
excluded, and all pairs that touch a side if both sides are single partitions. A restatement of n
partitions is also compared with differences between neighbors, with the factor sqrt(1/e(n)). With
fewer than `MIN_USUAL_DIFFERENCES` differences between neighbors, the surprise is unknown.

The floor is `min_spread_of`, the lower bound of a point's standard deviation, times sqrt(1/e(n) +
1/e(k)). If nine in ten usual differences are equal, the spread would be 0; 1.2533 times their mean
distance from m replaces it. A series that never moved before and moves now has the highest
surprise, regardless of the floor.

The displayed values of long sides are metrics of the merged states or medians (`SUMMARIES`). The surprise
always compares medians, because only they have a history of usual differences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import index
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np
import sqlalchemy as sa

from tidegauge.analyzers.core.errors import HistoryError, UnknownNameError
from tidegauge.analyzers.core.metric import Scale
from tidegauge.repository.incidents.listing import anomaly_rows
from tidegauge.repository.numerics.arrays import EQUALITY_TOLERANCE, MAX_SCORE, median, quantiles
from tidegauge.repository.numerics.forecasts import min_spread_of, transform
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.facts import Facts, dimensions_of, read_facts
from tidegauge.repository.store.queries import (
    AsOf,
    MetricQuery,
    Moment,
    Window,
    commit_as_of,
    dataset_id,
)
from tidegauge.repository.store.queries import partition_id as find_partition
from tidegauge.repository.store.rows import SeriesRow
from tidegauge.repository.store.windows import merged_series

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray
    from sqlalchemy.engine import Connection

    from tidegauge.repository.numerics.arrays import Floats
    from tidegauge.repository.store.stored_states import Artifacts


MIN_USUAL_DIFFERENCES = 6
"""With fewer differences, the surprise is unknown."""
MEDIAN_TO_STD, PERCENTILE_90_TO_STD, MEAN_TO_STD = 1.4826, 1 / 1.645, 1.2533
"""Factors from absolute deviations to the standard deviation, for normal differences."""
_BLOCK_NUMBERS = 4_000_000
"""Numbers processed at once, which bounds memory to about 32 MB per array."""


@dataclass(frozen=True)
class ComparedSides:
    """Two sides of a comparison over one history of several series, on the transformed scales.

    Attributes
    ----------
    history : array of float, shape (series, partitions)
        NaN where unknown.
    scales : sequence of Scale
        Scale of each series.
    baseline, current : array of int
        Indices of the partitions of each side.
    difference : array of float, shape (series,)
        Current level minus baseline level.
    level : array of float, shape (series,)
        Level of the baseline.
    counts : tuple of array of float, shape (series,)
        Number of values in each side.
    weights : array of float, shape (series,)
        Typical number of rows behind a value.
    paired : bool
        True if the sides are two measurements of the same partitions.
    """

    history: Floats
    scales: Sequence[Scale]
    baseline: NDArray[np.intp]
    current: NDArray[np.intp]
    difference: Floats
    level: Floats
    counts: tuple[Floats, Floats]
    weights: Floats
    paired: bool

    def surprise(self) -> Floats:
        """Return each series' surprise; NaN if its difference or its usual differences are unknown."""
        with np.errstate(over="ignore", invalid="ignore"):  # differences of numbers near 1e308
            return self._surprise()

    def _surprise(self) -> Floats:
        center, spread, never_moved = self._neighbor_spread()
        if not self.paired:
            shifted = _robust_spread(self._shifted_differences())
            # Medians of a series that is mostly 0 do not move, even if the series does.
            can_judge_zero = self._is_single | (shifted[0] != 0)
            is_known = (shifted[1] > 0) | ((shifted[1] == 0) & can_judge_zero)
            center, spread, never_moved = (
                np.where(is_known, a, b)
                for a, b in zip(shifted, (center, spread, never_moved), strict=True)
            )
        floor = min_spread_of(self.level, self.weights, self.scales) * np.sqrt(
            sum(self._variance_shares())
        )
        spread = np.maximum(spread, floor)
        deviation = np.abs(_drop_rounding(self.difference - center, self.difference, center))
        z = np.minimum(deviation / np.where(spread > 0, spread, np.inf), MAX_SCORE)
        z = np.where(never_moved.astype(bool) | ((spread == 0) & (deviation > 0)), MAX_SCORE, z)
        z = np.where(np.isnan(spread), np.nan, z)
        return np.where(self.difference == 0, 0.0, np.where(np.isnan(self.difference), np.nan, z))

    @property
    def _is_single(self) -> bool:
        return len(self.baseline) == 1 and len(self.current) == 1

    def _variance_shares(self) -> tuple[Floats, Floats]:
        """Return the variance of each side as a multiple of a single point's variance."""
        baseline, current = (1 / np.maximum(1.0, 2 * count / np.pi) for count in self.counts)
        return baseline, current

    def _neighbor_spread(self) -> tuple[Floats, Floats, Floats]:
        """Return center, spread and never-moved flag from differences between neighbors."""
        history = self.history
        steps = _drop_rounding(history[:, 1:] - history[:, :-1], history[:, 1:], history[:, :-1])
        side = np.zeros(history.shape[1], dtype=np.int8)
        side[self.baseline] += 1
        side[self.current] += 2
        crosses_sides = side[1:] != side[:-1]
        if self._is_single:
            crosses_sides |= (side[1:] > 0) | (side[:-1] > 0)
        steps[:, crosses_sides] = np.nan
        _, spread, never_moved = _robust_spread(steps)
        baseline, current = self._variance_shares()
        factor = np.sqrt(baseline if self.paired else (baseline + current) / 2)
        spread = np.where(
            (spread > 0) | (never_moved > 0), spread, np.nan
        )  # a straight line has no noise to learn from
        return np.zeros(len(history)), spread * factor, never_moved

    def _shifted_differences(self) -> Floats:
        """Return the differences of the shifted sides, shape (series, shifts)."""
        history, (baseline_indices, current_indices) = self.history, (self.baseline, self.current)
        if not len(baseline_indices) or not len(current_indices):
            return np.empty((len(history), 0))
        side_indices = np.union1d(baseline_indices, current_indices)
        longest_side = max(len(baseline_indices), len(current_indices))
        shifts = np.arange(-int(side_indices[-1]), history.shape[1])
        shifts = shifts[shifts % max(longest_side // 2, 1) == 0]
        shifts = shifts[
            (side_indices[0] + shifts >= 0) & (side_indices[-1] + shifts < history.shape[1])
        ]
        shifts = shifts[
            [not np.isin(side_indices + shift, side_indices).any() for shift in shifts.tolist()]
        ]
        differences = np.full((len(history), len(shifts)), np.nan)
        block_rows = max(_BLOCK_NUMBERS // max(len(shifts) * longest_side, 1), 1)
        for start in range(0, len(history), block_rows):
            block_history = history[start : start + block_rows]
            baseline, current = (
                median(block_history[:, side + shifts[:, None]])
                for side in (baseline_indices, current_indices)
            )
            differences[start : start + block_rows] = _drop_rounding(
                current - baseline, baseline, current
            )
        return differences


def _drop_rounding(differences: Floats, a: Floats, b: Floats) -> Floats:
    """Return the differences of ``a`` and ``b``, with rounding errors set to 0."""
    tolerance = EQUALITY_TOLERANCE * np.maximum(np.abs(a), np.abs(b))
    return np.where(np.abs(differences) <= tolerance, 0.0, differences)


def _robust_spread(differences: Floats) -> tuple[Floats, Floats, Floats]:
    """Return center, spread and never-moved flag of each row of differences.

    With fewer than `MIN_USUAL_DIFFERENCES` differences the spread is NaN and the flag is 0. The flag
    is 1 if all differences are 0.
    """
    count = (~np.isnan(differences)).sum(axis=1)
    center = median(differences)
    deviations = np.abs(differences - center[:, None])
    mean = np.nan_to_num(deviations).sum(axis=1) / np.maximum(count, 1)
    median_deviation, high_deviation = quantiles(deviations, (0.5, 0.9))
    spread = np.fmax(MEDIAN_TO_STD * median_deviation, PERCENTILE_90_TO_STD * high_deviation)
    spread = np.where(spread > 0, spread, MEAN_TO_STD * mean)
    has_enough = count >= MIN_USUAL_DIFFERENCES
    never_moved = has_enough & ~(np.nan_to_num(differences) != 0).any(axis=1)
    return center, np.where(has_enough, spread, np.nan), never_moved.astype(np.float64)


Side = int | str | tuple[Moment, Moment]
MERGED, MEDIAN, SINGLE_VALUE = "merged", "median", "value"
SUMMARIES = (MERGED, MEDIAN)
"""Values of a long side: the metric of all its rows, or the median of its partitions."""

UNUSUAL_SURPRISE = 4.0
"""6 in 100,000 normal differences exceed it."""
RUN_SIDE, PARTITION_SIDE, WINDOW_SIDE = "run", "partition", "window"


def compare(
    connection: Connection,
    artifacts: Artifacts,
    dataset: str,
    baseline: Side,
    current: Side,
    query: MetricQuery,
    as_of: AsOf = None,
    *,
    summary: str = MERGED,
) -> pd.DataFrame:
    """Compare two sides of a dataset's history by series; see `Repository.compare`.

    Parameters
    ----------
    connection : Connection
        Open connection to the repository.
    artifacts : Artifacts
        Reader of stored states.
    dataset : str
        Name of the dataset.
    baseline, current : int, str or pair
        Two run ids, two partition names, or two windows (since, until).
    query : MetricQuery
        Filters that select series.
    as_of : str, date, datetime, int, optional
        Past view of the repository (default: the current view).
    summary : str
        One of `SUMMARIES`.
    """
    if summary not in SUMMARIES:
        raise UnknownNameError("summary", summary, SUMMARIES)
    kinds = [
        _side_kind(name, side) for name, side in (("baseline", baseline), ("current", current))
    ]
    if kinds[0] != kinds[1]:
        msg = (
            f"baseline is a {kinds[0]} and current is a {kinds[1]}: compare two run ids, two"
            " partition names, or two windows (since, until)"
        )
        raise HistoryError(msg)
    dimensions = dimensions_of(connection, dataset_id(connection, dataset), query)
    facts = read_facts(connection, dataset, query, as_of, None, dimensions)
    sides = [
        _SideFacts.from_facts(connection, facts, query, as_of, name, side)
        for name, side in (("baseline", baseline), ("current", current))
    ]
    shared = np.intersect1d(sides[0].partition_indices, sides[1].partition_indices)
    paired = kinds[0] == RUN_SIDE and shared.size > 0
    if paired:
        sides = [replace(side, partition_indices=shared) for side in sides]
    groups = [group.columns() for group in _group_series(facts, sides[0], sides[1], paired=paired)]
    series = (
        np.concatenate([group_columns.pop("series") for group_columns in groups])
        if groups
        else np.zeros(0, np.intp)
    )
    results = _EMPTY_COLUMNS
    if groups:
        results = {
            name: np.concatenate([group_columns[name] for group_columns in groups])
            for name in groups[0]
        }
    results = {**results, "summary": np.full(len(series), MEDIAN, object)}
    if kinds[0] == PARTITION_SIDE:
        results["summary"][:] = SINGLE_VALUE
    elif summary == MERGED:
        ids = [facts.series[i]["id"] for i in series.tolist()]
        merged = [side.merged_values(connection, artifacts, ids) for side in sides]
        results = _with_merged_values(results, merged)
    anomaly = np.zeros(len(series), bool)
    if kinds[1] == PARTITION_SIDE:
        anomaly = _has_anomaly(connection, facts, query, as_of, int(sides[1].partition_indices[0]))[
            series
        ]
    flags = {"unusual": results["surprise"] > UNUSUAL_SURPRISE, "anomaly": anomaly}
    return _result_frame(dataset, facts.series, series, {**results, **flags})


def _with_merged_values(
    results: Mapping[str, NDArray[Any]], merged: Sequence[Floats]
) -> dict[str, NDArray[Any]]:
    """Replace medians by merged values, where each side with partitions has one."""
    counts = (results["baseline_partitions"], results["current_partitions"])
    is_merged = np.all(
        [(count == 0) | ~np.isnan(value) for count, value in zip(counts, merged, strict=True)], 0
    )
    baseline, current = (
        np.where(is_merged, value, results[name])
        for name, value in zip(("baseline", "current"), merged, strict=True)
    )
    change, relative = _changes(baseline, current)
    return {
        **results,
        "baseline": baseline,
        "current": current,
        "change": np.where(is_merged, change, results["change"]),
        "relative": np.where(is_merged, relative, results["relative"]),
        "summary": np.where(is_merged, MERGED, MEDIAN).astype(object),
    }


def _changes(baseline: Floats, current: Floats) -> tuple[Floats, Floats]:
    """Return change and relative change; 0 if only rounding differs, NaN unless both are finite."""
    first, second = _finite_or_nan(baseline), _finite_or_nan(current)
    with np.errstate(over="ignore"):
        change = _drop_rounding(second - first, first, second)
        return change, change / np.where(first != 0, np.abs(first), np.nan)


_NUMBER_COLUMNS = ("baseline", "current", "change", "relative", "surprise")
_COUNT_COLUMNS = ("baseline_partitions", "current_partitions")
_EMPTY_COLUMNS: Mapping[str, NDArray[Any]] = {
    **{name: np.zeros(0) for name in _NUMBER_COLUMNS},
    **{name: np.zeros(0, np.int64) for name in _COUNT_COLUMNS},
    "status": np.zeros(0, object),
}


def _result_frame(
    dataset: str,
    series: Sequence[SeriesRow],
    series_indices: NDArray[np.intp],
    columns: Mapping[str, NDArray[Any]],
) -> pd.DataFrame:
    from tidegauge.repository.store.result_frame import ResultFrame

    surprise, change = columns["surprise"], columns["change"]
    unknown = np.where(change == 0, 2, np.isnan(surprise).astype(int))
    size = np.abs(np.nan_to_num(columns["relative"], posinf=np.inf))
    order = np.lexsort((series_indices, -size, -np.nan_to_num(surprise), unknown))
    rows = [series[i] for i in series_indices[order].tolist()]
    identity = {"dataset": np.full(len(rows), dataset, dtype=object)}
    identity |= {
        name: np.array([row[name] for row in rows], dtype=object)
        for name in ("segment", "name", "instance")
    }
    identity["where"] = np.array([row["filter"] or "" for row in rows], dtype=object)
    identity["analyzer"] = np.array([row["analyzer"] for row in rows], dtype=object)
    names = (*_NUMBER_COLUMNS, "unusual", "anomaly", "summary", *_COUNT_COLUMNS, "status")
    return ResultFrame({**identity, **{name: columns[name][order] for name in names}})


def _side_kind(parameter: str, side: Any) -> str:
    if isinstance(side, str):
        return PARTITION_SIDE
    if isinstance(side, SupportsIndex) and not isinstance(side, bool):
        return RUN_SIDE
    if isinstance(side, Sequence) and len(side) == 2:
        return WINDOW_SIDE
    msg = f"{parameter}={side!r} is neither the id of a run, nor a partition's name, nor a pair (since, until)"
    raise HistoryError(msg)


@dataclass(frozen=True)
class _SideFacts:
    """One side of a comparison: the indices of its partitions, and its view of the metrics."""

    facts: Facts
    partition_indices: NDArray[np.intp]
    as_of: AsOf = None

    @classmethod
    def from_facts(
        cls,
        connection: Connection,
        facts: Facts,
        query: MetricQuery,
        as_of: AsOf,
        parameter: str,
        side: Any,
    ) -> _SideFacts:
        view = as_of
        if isinstance(side, str):
            ids = {find_partition(connection, facts.dataset, side)}
        elif isinstance(side, SupportsIndex):
            run = index(side)
            ids = _partitions_of_run(connection, facts.dataset, run, as_of)
            run_commit = commit_as_of(connection, run) or 0
            last_commit = commit_as_of(connection, as_of)
            view = run if last_commit is None or run_commit <= last_commit else as_of
            dimensions = (list(facts.series), list(facts.partitions))
            facts = read_facts(connection, facts.dataset, query, view, None, dimensions)
        else:
            window = Window.between(*side)
            ids = {row["id"] for row in facts.partitions if window.holds(row["time"])}
        indices = [position for position, row in enumerate(facts.partitions) if row["id"] in ids]
        if not indices:
            name = " to ".join("..." if end is None else str(end) for end in side)
            msg = f"{parameter}: {facts.dataset!r} has no partition in {name}"
            raise HistoryError(msg)
        return cls(facts, np.array(indices, dtype=np.intp), view)

    def merged_values(
        self, connection: Connection, artifacts: Artifacts, series: Sequence[int]
    ) -> Floats:
        """Return the metric of each series over the side's rows; NaN unless each partition has a state."""
        partitions = [self.facts.partitions[i] for i in self.partition_indices.tolist()]
        values = merged_series(
            connection, artifacts, self.facts.dataset, partitions, series, self.as_of
        )
        return np.array([values.get(number, np.nan) for number in series], np.float64)


def _partitions_of_run(connection: Connection, dataset: str, run: int, as_of: AsOf) -> set[int]:
    """Return the ids of the partitions for which a run wrote metrics."""
    r, m, p = s.run.c, s.metric.c, s.partition.c
    run_dataset = connection.execute(
        sa.select(s.dataset.c.name).join_from(s.run, s.dataset).where(r.id == run)
    ).scalar_one_or_none()
    if run_dataset != dataset:
        reason = (
            "the run does not exist" if run_dataset is None else f"it is a run of {run_dataset!r}"
        )
        msg = f"{dataset!r} has no run {run}: {reason}; repo.runs({dataset!r}) lists their ids"
        raise HistoryError(msg)
    commits = sa.select(s.commit.c.id).where(s.commit.c.run_id == run)
    last_commit = commit_as_of(connection, as_of)
    if last_commit is not None:
        commits = commits.where(s.commit.c.id <= last_commit)
    query = (
        sa.select(m.partition_id)
        .join_from(s.partition, s.metric, m.partition_id == p.id)
        .where(p.dataset_id == dataset_id(connection, dataset), m.commit_id.in_(commits))
        .distinct()
    )
    ids = set(connection.execute(query).scalars())
    if not ids:
        msg = f"run {run} of {dataset!r} measured no partition"
        raise HistoryError(msg)
    return ids


@dataclass(frozen=True)
class _SideValues:
    """Values of one side, with one entry per series.

    ``points`` has one column per partition, with NaN for values that are not finite.
    """

    partition_indices: NDArray[np.intp]
    points: Floats
    scaled: Floats
    value: Floats
    weight: Floats
    count: NDArray[np.int64]
    status: NDArray[np.object_]

    @property
    def finite_count(self) -> Floats:
        """Number of finite values."""
        count: Floats = (~np.isnan(self.points)).sum(axis=1).astype(np.float64)
        return count

    @property
    def finite_value(self) -> Floats:
        """The value if it is finite, else NaN."""
        return _finite_or_nan(self.value)


@dataclass(frozen=True)
class _SeriesGroup:
    """Group of series over the partitions in which they can have a value."""

    facts: Facts
    series_indices: NDArray[np.intp]
    partition_indices: NDArray[np.intp]
    baseline: _SideFacts
    current: _SideFacts
    paired: bool

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the result columns of all series that have a value in a side.

        The column ``series`` holds the index of the series.
        """
        scales = [Scale(self.facts.series[i]["scale"]) for i in self.series_indices.tolist()]
        positions = self._fact_positions(self.facts, self.partition_indices)
        history = _fill_matrix(
            (len(self.series_indices), len(self.partition_indices)), positions, self.facts.value
        )
        baseline, current = (self._side(side, scales) for side in (self.baseline, self.current))
        level, current_level = median(baseline.scaled), median(current.scaled)
        counts = (baseline.finite_count, current.finite_count)
        with np.errstate(over="ignore"):
            change, difference = current.finite_value - baseline.finite_value, current_level - level
            if self.paired:
                change = median(current.points - baseline.points)
                differences = current.scaled - baseline.scaled
                difference = median(differences)
                counts = ((~np.isnan(differences)).sum(axis=1).astype(np.float64),) * 2
            is_same = np.abs(change) <= EQUALITY_TOLERANCE * np.fmax(
                np.abs(baseline.finite_value), np.abs(current.finite_value)
            )
            change[is_same] = difference[is_same] = 0.0
            divisor = np.abs(baseline.finite_value)
            relative = change / np.where(divisor > 0, divisor, np.nan)
        sides = ComparedSides(
            transform(history, scales),
            scales,
            baseline.partition_indices,
            current.partition_indices,
            difference,
            level,
            counts,
            np.fmin(baseline.weight, current.weight),
            self.paired,
        )
        columns = {
            "series": self.series_indices,
            "baseline": baseline.value,
            "current": current.value,
            "change": change,
            "relative": relative,
            "surprise": sides.surprise(),
            "baseline_partitions": baseline.count,
            "current_partitions": current.count,
            "status": _statuses(baseline, current),
        }
        has_value = (baseline.count > 0) | (current.count > 0)
        return {name: column[has_value] for name, column in columns.items()}

    def _side(self, side: _SideFacts, scales: Sequence[Scale]) -> _SideValues:
        shared = np.intersect1d(side.partition_indices, self.partition_indices)
        facts, shape = side.facts, (len(self.series_indices), len(shared))
        positions = self._fact_positions(facts, shared)
        stored = _fill_matrix(shape, positions, facts.value)
        values = _finite_or_nan(stored)
        status = np.full(shape[0], "", dtype=object)
        status[positions[1]] = facts.status[positions[0]]  # of several partitions, the last wins
        return _SideValues(
            np.searchsorted(self.partition_indices, shared),
            values,
            transform(values, scales),
            stored[:, 0] if len(shared) == 1 else median(values),
            median(_fill_matrix(shape, positions, facts.weight)),
            np.bincount(positions[1], minlength=shape[0]).astype(np.int64),
            status,
        )

    def _fact_positions(
        self, facts: Facts, partition_indices: NDArray[np.intp]
    ) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
        """Return the indices of the group's facts in the partitions, with the row and column of each fact."""
        row_of_series = np.full(len(facts.series), -1, dtype=np.intp)
        row_of_series[self.series_indices] = np.arange(len(self.series_indices))
        column_of_partition = np.full(len(facts.partitions), -1, dtype=np.intp)
        column_of_partition[partition_indices] = np.arange(len(partition_indices))
        rows, columns = row_of_series[facts.of_series], column_of_partition[facts.of_partition]
        fact_indices = np.flatnonzero((rows >= 0) & (columns >= 0))
        return fact_indices, rows[fact_indices], columns[fact_indices]


def _group_series(
    facts: Facts, baseline: _SideFacts, current: _SideFacts, *, paired: bool
) -> list[_SeriesGroup]:
    """Group series by the partitions in which they can have a value.

    A series with values in one partition segment belongs to the partitions of that segment. A series
    with values in several partition segments belongs to all partitions.
    """
    views = {id(view): view for view in (facts, baseline.facts, current.facts)}
    segments = sorted({row["within"] for row in facts.partitions})
    segment_number = {partition_segment: n for n, partition_segment in enumerate(segments)}
    partition_segment = np.array(
        [segment_number[row["within"]] for row in facts.partitions], dtype=np.intp
    )
    mixed = len(segments)
    low = np.full(len(facts.series), mixed, dtype=np.intp)
    high = np.full(len(facts.series), -1, dtype=np.intp)
    for view in views.values():
        np.minimum.at(low, view.of_series, partition_segment[view.of_partition])
        np.maximum.at(high, view.of_series, partition_segment[view.of_partition])
    group = np.where(high < 0, -1, np.where(low == high, low, mixed))
    group_ids = np.unique(group[group >= 0])
    facts_by_view = {key: _split_facts(view, group, group_ids) for key, view in views.items()}
    return [
        _SeriesGroup(
            facts_by_view[id(facts)][n],
            np.flatnonzero(group == group_id),
            np.flatnonzero(partition_segment == group_id)
            if group_id < mixed
            else np.arange(len(partition_segment)),
            replace(baseline, facts=facts_by_view[id(baseline.facts)][n]),
            replace(current, facts=facts_by_view[id(current.facts)][n]),
            paired,
        )
        for n, group_id in enumerate(group_ids.tolist())
    ]


def _split_facts(facts: Facts, group: NDArray[np.intp], group_ids: NDArray[np.intp]) -> list[Facts]:
    """Split facts by group of series."""
    if len(group_ids) == 1:
        return [facts]
    group_of_fact = group[facts.of_series]
    order = np.argsort(group_of_fact, kind="stable")
    bounds = np.searchsorted(group_of_fact[order], [*group_ids.tolist(), len(facts.partitions) + 1])
    return [facts.take(order[start:end]) for start, end in pairwise(bounds.tolist())]


def _fill_matrix(
    shape: tuple[int, int],
    positions: tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]],
    numbers: Floats,
) -> Floats:
    matrix = np.full(shape, np.nan)
    matrix[positions[1], positions[2]] = numbers[positions[0]]
    return matrix


def _finite_or_nan(values: Floats) -> Floats:
    finite: Floats = np.where(np.isfinite(values), values, np.nan)
    return finite


def _statuses(baseline: _SideValues, current: _SideValues) -> NDArray[np.object_]:
    """Return each series' status: ``both`` if the sides are comparable, else the reason why not."""
    statuses = np.full(len(baseline.count), "both", dtype=object)
    baseline_unknown = baseline.finite_count == 0
    statuses[baseline_unknown] = (
        np.array(["was "], dtype=object) + baseline.status[baseline_unknown]
    )
    current_unknown = current.finite_count == 0
    statuses[current_unknown] = current.status[current_unknown]
    statuses[current.count == 0] = "only baseline"
    statuses[baseline.count == 0] = "only current"
    return statuses


def _has_anomaly(
    connection: Connection, facts: Facts, query: MetricQuery, as_of: AsOf, partition_index: int
) -> NDArray[np.bool_]:
    """Return a mask of the series with a stored anomaly in a partition."""
    partition = facts.partitions[partition_index]
    window = Window(partition["time"], partition["time"])
    rows = anomaly_rows(connection, facts.dataset, None, replace(query, window=window), as_of)
    series_ids = [row["series_id"] for row in rows if row["partition_id"] == partition["id"]]
    return np.isin([row["id"] for row in facts.series], series_ids)
