"""Comparison of two runs, partitions or windows of a dataset, with the surprise of each difference.

The surprise is the robust z-score of the difference between the two sides, for many series.
Values are first transformed to the scale of their metric (`tidegauge.repository.numerics.forecasts`).
With ``d`` the difference of the sides there,

    surprise = min(|d - m| / max(spread, floor), 300)
    spread = max(1.4826 * median(|u - m|), 90th percentile(|u - m|) / 1.645),   m = median(u)

where ``u`` are the *usual* differences: the two sides are shifted along the history together,
keeping their lengths and their distance, to every position where neither contains a partition of
the sides themselves. Long sides are shifted by half of the longer one's length at a time, because
medians of nearly the same points add no information. The percentile accounts for frequent
differences: each weekend differs from its Friday.

If a series has fewer than `LEAST` usual differences, or if those of long sides are all 0, the
differences between neighbouring partitions replace them, with m = 0 and their spread times
sqrt((1/e(n) + 1/e(k)) / 2) for sides of n and k values: the median of n values counts as the mean
of e(n) = max(1, 2n/pi). Pairs with one partition in a side and the other outside or in the other
side are excluded, and for two single partitions all pairs that touch them. A restatement of n
partitions is compared with differences between neighbours, too, with sqrt(1/e(n)). With fewer than
`LEAST` of these, the surprise is unknown.

The floor is `least_spread`, the lower bound of a point's standard deviation, times sqrt(1/e(n) +
1/e(k)). Where nine in ten usual differences are equal, so that the spread is 0, 1.2533 times their
mean distance from m replaces it. A series that never moved, and now does, has the highest surprise,
regardless of the floor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import index
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np
import sqlalchemy as sa

from tidegauge.analyzers.core.errors import HistoryError
from tidegauge.analyzers.core.metric import Scale
from tidegauge.repository.incidents.listing import anomaly_rows
from tidegauge.repository.numerics.arrays import CAP, EQUAL, median, quantiles
from tidegauge.repository.numerics.forecasts import least_spread, transform
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.facts import Facts, dimensions_of, read_facts
from tidegauge.repository.store.frames import columns
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

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray
    from sqlalchemy.engine import Connection

    from tidegauge.repository.numerics.arrays import Floats


LEAST = 6
"""Minimum number of usual differences."""
OF_MEDIAN, OF_HIGH, OF_MEAN = 1.4826, 1 / 1.645, 1.2533
"""Factors from median, 90th percentile and mean of absolute deviations to a standard deviation."""
_BLOCK = 4_000_000
"""Numbers processed at once."""


@dataclass(frozen=True)
class ComparedSides:
    """Two sides of a comparison over one history of several series, on the transformed scales.

    Attributes
    ----------
    history : array of float, shape (series, partitions)
        NaN where unknown.
    scales : sequence of Scale, one for each series
    baseline, current : array of int
        Indices of the sides' partitions.
    difference, level : array of float, shape (series,)
        Difference of the sides, and level of the baseline.
    counts : tuple of array of float, shape (series,)
        Number of values behind each side.
    weights : array of float, shape (series,)
        Rows behind a value.
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
        """Return each series' surprise; NaN where the difference or the usual ones are unknown."""
        with np.errstate(over="ignore", invalid="ignore"):  # between numbers of 1e308
            return self._surprise()

    def _surprise(self) -> Floats:
        middle, spread, never = self._near()
        if not self.paired:
            own = _robust_spread(self._moved())
            # Medians of a series that is mostly 0 do not move even if the series does.
            steady = self._is_single | (own[0] != 0)
            known = (own[1] > 0) | ((own[1] == 0) & steady)
            middle, spread, never = (
                np.where(known, a, b) for a, b in zip(own, (middle, spread, never), strict=True)
            )
        floor = least_spread(self.level, self.weights, self.scales) * np.sqrt(sum(self._shares()))
        spread = np.maximum(spread, floor)
        off = np.abs(_cleaned(self.difference - middle, self.difference, middle))
        z = np.minimum(off / np.where(spread > 0, spread, np.inf), CAP)
        z = np.where(never.astype(bool) | ((spread == 0) & (off > 0)), CAP, z)
        z = np.where(np.isnan(spread), np.nan, z)
        return np.where(self.difference == 0, 0.0, np.where(np.isnan(self.difference), np.nan, z))

    @property
    def _is_single(self) -> bool:
        return len(self.baseline) == 1 and len(self.current) == 1

    def _shares(self) -> tuple[Floats, Floats]:
        """Return each side's variance as a multiple of a single point's."""
        first, second = (1 / np.maximum(1.0, 2 * count / np.pi) for count in self.counts)
        return first, second

    def _near(self) -> tuple[Floats, Floats, Floats]:
        """Return middle, spread and never-moved flag from differences between neighbours."""
        y = self.history
        steps = _cleaned(y[:, 1:] - y[:, :-1], y[:, 1:], y[:, :-1])
        side = np.zeros(y.shape[1], dtype=np.int8)
        side[self.baseline] += 1
        side[self.current] += 2
        apart = side[1:] != side[:-1]
        if self._is_single:
            apart |= (side[1:] > 0) | (side[:-1] > 0)
        steps[:, apart] = np.nan
        _, spread, never = _robust_spread(steps)
        first, second = self._shares()
        times = np.sqrt(first if self.paired else (first + second) / 2)
        spread = np.where(
            (spread > 0) | (never > 0), spread, np.nan
        )  # a straight line has no noise to learn from
        return np.zeros(len(y)), spread * times, never

    def _moved(self) -> Floats:
        """Return the differences of the sides at all other positions, shape (series, positions)."""
        y, (a, b) = self.history, (self.baseline, self.current)
        if not len(a) or not len(b):
            return np.empty((len(y), 0))
        own = np.union1d(a, b)
        longest = max(len(a), len(b))
        by = np.arange(-int(own[-1]), y.shape[1])
        by = by[by % max(longest // 2, 1) == 0]
        by = by[(own[0] + by >= 0) & (own[-1] + by < y.shape[1])]
        by = by[[not np.isin(own + step, own).any() for step in by.tolist()]]
        out = np.full((len(y), len(by)), np.nan)
        block = max(_BLOCK // max(len(by) * longest, 1), 1)
        for start in range(0, len(y), block):
            some = y[start : start + block]
            before, after = (median(some[:, side + by[:, None]]) for side in (a, b))
            out[start : start + block] = _cleaned(after - before, before, after)
        return out


def _cleaned(differences: Floats, one: Floats, other: Floats) -> Floats:
    """Return differences, 0 where they are only rounding."""
    close = EQUAL * np.maximum(np.abs(one), np.abs(other))
    return np.where(np.abs(differences) <= close, 0.0, differences)


def _robust_spread(differences: Floats) -> tuple[Floats, Floats, Floats]:
    """Return middle, spread and never-moved flag of each row.

    The spread is NaN with fewer than `LEAST` differences; the flag is 1 where all of at least
    `LEAST` are 0.
    """
    count = (~np.isnan(differences)).sum(axis=1)
    middle = median(differences)
    away = np.abs(differences - middle[:, None])
    mean = np.nan_to_num(away).sum(axis=1) / np.maximum(count, 1)
    half, high = quantiles(away, (0.5, 0.9))
    spread = np.fmax(OF_MEDIAN * half, OF_HIGH * high)
    spread = np.where(spread > 0, spread, OF_MEAN * mean)
    enough = count >= LEAST
    never = enough & ~(np.nan_to_num(differences) != 0).any(axis=1)
    return middle, np.where(enough, spread, np.nan), never.astype(np.float64)


Side = int | str | tuple[Moment, Moment]
SERIES_COLUMNS = columns("segment name instance analyzer")

UNUSUAL = 4.0
"""Threshold of unusual surprise: 6 in 100,000 if normal, hardly one in 10,000 series by chance."""
RUN, PARTITION, WINDOW = "run", "partition", "window"


def compare(
    connection: Connection,
    dataset: str,
    baseline: Side,
    current: Side,
    query: MetricQuery,
    as_of: AsOf = None,
) -> pd.DataFrame:
    """Compare two sides of a dataset's history by series; see `Repository.compare`."""
    kinds = [_kind(name, side) for name, side in (("baseline", baseline), ("current", current))]
    if kinds[0] != kinds[1]:
        msg = (
            f"baseline is a {kinds[0]} and current is a {kinds[1]}: compare two runs (their ids), two"
            " partitions (their names), or two windows (since, until)"
        )
        raise HistoryError(msg)
    known = dimensions_of(connection, dataset_id(connection, dataset), query)
    facts = read_facts(connection, dataset, query, as_of, None, known)
    sides = [
        _Measured.from_facts(connection, facts, query, as_of, name, side)
        for name, side in (("baseline", baseline), ("current", current))
    ]
    common = np.intersect1d(sides[0].places, sides[1].places)
    paired = kinds[0] == RUN and common.size > 0
    if paired:
        sides = [replace(side, places=common) for side in sides]
    found = [group.columns() for group in _groups(facts, sides[0], sides[1], paired=paired)]
    series = np.concatenate([one.pop("line") for one in found]) if found else np.zeros(0, np.intp)
    columns = _NOTHING
    if found:
        columns = {name: np.concatenate([one[name] for one in found]) for name in found[0]}
    anomaly = np.zeros(len(series), bool)
    if kinds[1] == PARTITION:
        anomaly = _has_anomaly(connection, facts, query, as_of, int(sides[1].places[0]))[series]
    judged = {"unusual": columns["surprise"] > UNUSUAL, "anomaly": anomaly}
    return _frame(facts.series, series, {**columns, **judged})


_NUMBERS = ("baseline", "current", "change", "relative", "surprise")
_COUNTS = ("baseline_partitions", "current_partitions")
_NOTHING: Mapping[str, NDArray[Any]] = {
    **{name: np.zeros(0) for name in _NUMBERS},
    **{name: np.zeros(0, np.int64) for name in _COUNTS},
    "status": np.zeros(0, object),
}


def _frame(
    series: Sequence[SeriesRow], lines: NDArray[np.intp], columns: Mapping[str, NDArray[Any]]
) -> pd.DataFrame:
    from tidegauge.repository.store.result_frame import ResultFrame

    surprise, change = columns["surprise"], columns["change"]
    unknown = np.where(change == 0, 2, np.isnan(surprise).astype(int))
    size = np.abs(np.nan_to_num(columns["relative"], posinf=np.inf))
    order = np.lexsort((lines, -size, -np.nan_to_num(surprise), unknown))
    told = {
        name: np.array([series[i][name] for i in lines[order].tolist()], dtype=object)
        for name in SERIES_COLUMNS
    }
    names = (*_NUMBERS, "unusual", "anomaly", *_COUNTS, "status")
    return ResultFrame({**told, **{name: columns[name][order] for name in names}})


def _kind(which: str, side: Any) -> str:
    if isinstance(side, str):
        return PARTITION
    if isinstance(side, SupportsIndex) and not isinstance(side, bool):
        return RUN
    if isinstance(side, Sequence) and len(side) == 2:
        return WINDOW
    msg = f"{which}={side!r} is neither the id of a run, nor a partition's name, nor a pair (since, until)"
    raise HistoryError(msg)


@dataclass(frozen=True)
class _Measured:
    """One side of a comparison: the indices of its partitions, and its view of the metrics."""

    facts: Facts
    places: NDArray[np.intp]

    @classmethod
    def from_facts(
        cls,
        connection: Connection,
        facts: Facts,
        query: MetricQuery,
        as_of: AsOf,
        which: str,
        side: Any,
    ) -> _Measured:
        if isinstance(side, str):
            wanted = {find_partition(connection, facts.dataset, side)}
        elif isinstance(side, SupportsIndex):
            run = index(side)
            wanted = _measured_by(connection, facts.dataset, run, as_of)
            own = commit_as_of(connection, run) or 0
            last = commit_as_of(connection, as_of)
            view = run if last is None or own <= last else as_of
            known = (list(facts.series), list(facts.partitions))
            facts = read_facts(connection, facts.dataset, query, view, None, known)
        else:
            window = Window.between(*side)
            wanted = {row["id"] for row in facts.partitions if window.holds(row["time"])}
        places = [place for place, row in enumerate(facts.partitions) if row["id"] in wanted]
        if not places:
            name = " to ".join("..." if end is None else str(end) for end in side)
            msg = f"{which}: {facts.dataset!r} has no partition in {name}"
            raise HistoryError(msg)
        return cls(facts, np.array(places, dtype=np.intp))


def _measured_by(connection: Connection, dataset: str, run: int, as_of: AsOf) -> set[int]:
    """Return the ids of the partitions for which a run wrote metrics."""
    r, m, p = s.run.c, s.metric.c, s.partition.c
    of = connection.execute(
        sa.select(s.dataset.c.name).join_from(s.run, s.dataset).where(r.id == run)
    ).scalar_one_or_none()
    if of != dataset:
        why = "there is no such run" if of is None else f"it is a run of {of!r}"
        msg = f"{dataset!r} has no run {run}: {why}; repo.runs({dataset!r}) lists their ids"
        raise HistoryError(msg)
    commits = sa.select(s.commit.c.id).where(s.commit.c.run_id == run)
    last = commit_as_of(connection, as_of)
    if last is not None:
        commits = commits.where(s.commit.c.id <= last)
    wrote = (
        sa.select(m.partition_id)
        .join_from(s.partition, s.metric, m.partition_id == p.id)
        .where(p.dataset_id == dataset_id(connection, dataset), m.commit_id.in_(commits))
        .distinct()
    )
    found = set(connection.execute(wrote).scalars())
    if not found:
        msg = f"run {run} of {dataset!r} measured no partition"
        raise HistoryError(msg)
    return found


@dataclass(frozen=True)
class _Values:
    """Values of one side, with an entry per series.

    ``points`` has a column per partition, NaN where the value is not finite.
    """

    places: NDArray[np.intp]
    points: Floats
    scaled: Floats
    value: Floats
    weight: Floats
    count: NDArray[np.int64]
    status: NDArray[np.object_]

    @property
    def finite(self) -> Floats:
        """Number of finite values."""
        found: Floats = (~np.isnan(self.points)).sum(axis=1).astype(np.float64)
        return found

    @property
    def number(self) -> Floats:
        """The value if it is finite, else NaN."""
        return _finite(self.value)


@dataclass(frozen=True)
class _Group:
    """Group of series over the partitions in which they can have a value."""

    facts: Facts
    lines: NDArray[np.intp]
    places: NDArray[np.intp]
    baseline: _Measured
    current: _Measured
    paired: bool

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return result columns of the series that a side has; ``line`` is the series' index."""
        scales = [Scale(self.facts.series[i]["scale"]) for i in self.lines.tolist()]
        at = self._at(self.facts, self.places)
        history = _filled((len(self.lines), len(self.places)), at, self.facts.value)
        before, after = (self._side(side, scales) for side in (self.baseline, self.current))
        level, middle = median(before.scaled), median(after.scaled)
        counts = (before.finite, after.finite)
        with np.errstate(over="ignore"):
            change, difference = after.number - before.number, middle - level
            if self.paired:
                change = median(after.points - before.points)
                moved = after.scaled - before.scaled
                difference = median(moved)
                counts = ((~np.isnan(moved)).sum(axis=1).astype(np.float64),) * 2
            same = np.abs(change) <= EQUAL * np.fmax(np.abs(before.number), np.abs(after.number))
            change[same] = difference[same] = 0.0
            divisor = np.abs(before.number)
            relative = change / np.where(divisor > 0, divisor, np.nan)
        sides = ComparedSides(
            transform(history, scales),
            scales,
            before.places,
            after.places,
            difference,
            level,
            counts,
            np.fmin(before.weight, after.weight),
            self.paired,
        )
        found = {
            "line": self.lines,
            "baseline": before.value,
            "current": after.value,
            "change": change,
            "relative": relative,
            "surprise": sides.surprise(),
            "baseline_partitions": before.count,
            "current_partitions": after.count,
            "status": _statuses(before, after),
        }
        there = (before.count > 0) | (after.count > 0)
        return {name: column[there] for name, column in found.items()}

    def _side(self, side: _Measured, scales: Sequence[Scale]) -> _Values:
        own = np.intersect1d(side.places, self.places)
        facts, shape = side.facts, (len(self.lines), len(own))
        at = self._at(facts, own)
        raw = _filled(shape, at, facts.value)
        values = _finite(raw)
        status = np.full(shape[0], "", dtype=object)
        status[at[1]] = facts.status[at[0]]  # the last of several wins
        return _Values(
            np.searchsorted(self.places, own),
            values,
            transform(values, scales),
            raw[:, 0] if len(own) == 1 else median(values),
            median(_filled(shape, at, facts.weight)),
            np.bincount(at[1], minlength=shape[0]).astype(np.int64),
            status,
        )

    def _at(
        self, facts: Facts, places: NDArray[np.intp]
    ) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
        """Return the indices of the facts of these series and partitions, with rows and columns."""
        line = np.full(len(facts.series), -1, dtype=np.intp)
        line[self.lines] = np.arange(len(self.lines))
        column = np.full(len(facts.partitions), -1, dtype=np.intp)
        column[places] = np.arange(len(places))
        rows, columns = line[facts.of_series], column[facts.of_partition]
        some = np.flatnonzero((rows >= 0) & (columns >= 0))
        return some, rows[some], columns[some]


def _groups(facts: Facts, baseline: _Measured, current: _Measured, *, paired: bool) -> list[_Group]:
    """Group series by the partitions in which they can have a value.

    Those are the partitions of one segment made by partition keys; all partitions for a series with
    values in several of these.
    """
    views = {id(view): view for view in (facts, baseline.facts, current.facts)}
    withins = sorted({row["within"] for row in facts.partitions})
    number = {within: n for n, within in enumerate(withins)}
    within = np.array([number[row["within"]] for row in facts.partitions], dtype=np.intp)
    several = len(withins)
    low = np.full(len(facts.series), several, dtype=np.intp)
    high = np.full(len(facts.series), -1, dtype=np.intp)
    for view in views.values():
        np.minimum.at(low, view.of_series, within[view.of_partition])
        np.maximum.at(high, view.of_series, within[view.of_partition])
    group = np.where(high < 0, -1, np.where(low == high, low, several))
    kept = np.unique(group[group >= 0])
    parts = {key: _parts(view, group, kept) for key, view in views.items()}
    return [
        _Group(
            parts[id(facts)][n],
            np.flatnonzero(group == of),
            np.flatnonzero(within == of) if of < several else np.arange(len(within)),
            replace(baseline, facts=parts[id(baseline.facts)][n]),
            replace(current, facts=parts[id(current.facts)][n]),
            paired,
        )
        for n, of in enumerate(kept.tolist())
    ]


def _parts(facts: Facts, group: NDArray[np.intp], kept: NDArray[np.intp]) -> list[Facts]:
    """Split facts by group of series."""
    if len(kept) == 1:
        return [facts]
    of = group[facts.of_series]
    order = np.argsort(of, kind="stable")
    bounds = np.searchsorted(of[order], [*kept.tolist(), len(facts.partitions) + 1])
    return [facts.taken(order[first:last]) for first, last in pairwise(bounds.tolist())]


def _filled(
    shape: tuple[int, int],
    at: tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]],
    numbers: Floats,
) -> Floats:
    out = np.full(shape, np.nan)
    out[at[1], at[2]] = numbers[at[0]]
    return out


def _finite(values: Floats) -> Floats:
    out: Floats = np.where(np.isfinite(values), values, np.nan)
    return out


def _statuses(before: _Values, after: _Values) -> NDArray[np.object_]:
    """Return each series' status: ``both`` if the sides are comparable, else the reason why not."""
    found = np.full(len(before.count), "both", dtype=object)
    was = before.finite == 0
    found[was] = np.array(["was "], dtype=object) + before.status[was]
    now = after.finite == 0
    found[now] = after.status[now]
    found[after.count == 0] = "only baseline"
    found[before.count == 0] = "only current"
    return found


def _has_anomaly(
    connection: Connection, facts: Facts, query: MetricQuery, as_of: AsOf, place: int
) -> NDArray[np.bool_]:
    """Return a mask of the series with a stored anomaly in a partition."""
    partition = facts.partitions[place]
    window = Window(partition["time"], partition["time"])
    rows = anomaly_rows(connection, facts.dataset, None, replace(query, window=window), as_of)
    found = [row["series_id"] for row in rows if row["partition_id"] == partition["id"]]
    return np.isin([row["id"] for row in facts.series], found)
