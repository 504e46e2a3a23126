"""How a column's distribution moved between partitions or windows, from stored states. No Spark."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sa

from analyzers.display import Markup, card, heading, note, pairs, plain
from analyzers.errors import HistoryError
from analyzers.metric import Entity, Scale
from repository import schema as s
from repository.anomalies.distances import Distances, category_distances, numeric_distances
from repository.anomalies.distributions import (
    Quantiles,
)
from repository.axes import value_ticks
from repository.columns import (
    CATEGORICAL,
    NUMERIC,
    Column,
    Distribution,
    kind_of,
    merged,
    rows_of,
)
from repository.frames import frame_of
from repository.history import (
    Moment,
    StoredState,
    Window,
    partition_id,
)
from repository.lines import Line
from repository.pictures import bars, picture
from repository.record import Record, write_record
from repository.recorded import Recorded
from repository.windows import Windows

if TYPE_CHECKING:
    import pandas as pd
    from sqlalchemy.engine import Connection

Side = str | tuple[Moment, Moment]
RECORDED_OF = {
    NUMERIC: ("psi", "js", "ks", "wasserstein"),
    CATEGORICAL: ("psi", "js", "unseen", "lost"),
}
_SHOWN = {
    NUMERIC: ("psi", "js", "ks", "ks_significant", "wasserstein", "wasserstein_iqr"),
    CATEGORICAL: ("psi", "js", "unseen", "lost", "l_infinity", "chi_square_p"),
}
RANKS = tuple(rank / 100 for rank in range(101))
MOST_CATEGORIES = 20
_DIGITS = 9
"""Recorded, so that another machine's rounding does not make a new version."""


@dataclass(frozen=True, kw_only=True)
class Drifted(Distances):
    """How a column's distribution differs between two partitions or windows.

    The distances are those of `Distances`; nulls and NaN are left out.

    Attributes
    ----------
    dataset, column : str
    baseline, current : str
        Partitions, or windows as ``2013-02-01 to 2013-02-07``.
    kind : str
        ``numeric`` or ``categorical``.
    baseline_rows, current_rows : int
        Values on both sides.
    axis : tuple of float or of str
        To draw by: ranks from 0 to 1, or the 20 most frequent categories.
    baseline_values, current_values : tuple of float
        The quantile at each rank, NaN if there are no values; or each category's share of all values.
    segment, where : str or None
    """

    dataset: str
    column: str
    baseline: str
    current: str
    kind: str
    baseline_rows: int
    current_rows: int
    axis: tuple[float, ...] | tuple[str, ...]
    baseline_values: tuple[float, ...]
    current_values: tuple[float, ...]
    segment: str | None = None
    where: str | None = None

    def frame(self) -> pd.DataFrame:
        """Return both distributions, tidily.

        Returns
        -------
        pandas.DataFrame
            One row for each side (``baseline``, ``current``) and point, with the columns side, rank and
            value, or side, category and share.
        """
        from repository.shown import Shown  # noqa: PLC0415 - heavy, and not needed to compare

        point, value = ("rank", "value") if self.kind == NUMERIC else ("category", "share")
        sides = np.repeat(["baseline", "current"], len(self.axis))
        values = (*self.baseline_values, *self.current_values)
        return Shown({"side": sides, point: self.axis * 2, value: np.array(values, float)})

    def _repr_html_(self) -> str:
        return card(self._pieces)

    def _pieces(self, most: int, width: int) -> Iterator[Markup]:
        among = [text for text in (self.segment, self.where and f"where {self.where}") if text]
        of = (Markup("of"), self.dataset, *among)
        yield heading(Markup("Drift of"), self.column, *of, most=width)
        sides = (("baseline", self.baseline_rows), ("current", self.current_rows))
        names = (self.baseline, self.current)
        titles = [
            f"{side}: {plain(name, width)}, {rows:,} values"
            for (side, rows), name in zip(sides, names, strict=True)
        ]
        yield pairs([(name, getattr(self, name)) for name in _SHOWN[self.kind]], width)
        values = (self.baseline_values, self.current_values)
        if self.kind == CATEGORICAL:
            shown = [str(name) for name in self.axis[: max(2, most // 2)]]
            yield Markup(bars(shown, list(zip(titles, values, strict=True))))
            return
        inner = slice(1, -1)  # the tails would press the rest flat
        ranks = [float(rank) for rank in self.axis[inner]]
        curves = [Line(t, ranks, v[inner]) for t, v in zip(titles, values, strict=True)]
        yield Markup(picture(curves, partial(value_ticks, percent=True), together=True))
        yield note("The value that each share of rows does not exceed, without the outermost 1 %.")


def drift(column: Column, baseline: Side, current: Side, *, record: bool = False) -> Drifted:
    """Compare two partitions or windows; see `Repository.drift`."""
    with column.database.read() as connection:
        sides = [
            _Side.of(connection, column, name, side)
            for name, side in (("baseline", baseline), ("current", current))
        ]
    found = [state for side in sides for state in side.stored]
    parts = [part for _, part in column.distributions(found)]
    first = len(sides[0].stored)
    before, after = merged(parts[:first]), merged(parts[first:])
    distances, (axis, *values) = compare(before, after), _drawn(before, after)
    kind = kind_of(after)
    if record and column.as_of is None:
        if not isinstance(current, str):
            msg = "only the drift of a partition can be recorded, not of a window"
            raise HistoryError(msg)
        _record(column, kind, {sides[1].stored[0]: distances})
    return Drifted(
        **asdict(distances),
        dataset=column.dataset,
        column=column.name,
        baseline=sides[0].name,
        current=sides[1].name,
        kind=kind,
        baseline_rows=rows_of(before),
        current_rows=rows_of(after),
        axis=axis,
        baseline_values=values[0],
        current_values=values[1],
        segment=column.segment,
        where=column.where,
    )


DRIFTS_COLUMNS = (
    *("segment", "partition", "time", "psi", "js", "ks", "wasserstein", "wasserstein_iqr"),
    *("unseen", "lost", "rows", "baseline_rows"),
)


def drifts(
    column: Column,
    baseline: str | int,
    window: Window,
    *,
    at_least: int = 7,
    record: bool = True,
) -> pd.DataFrame:
    """Compare each partition with those before it; see `Repository.drifts`."""
    length = _length(baseline)
    since = window.since
    if since is not None:
        since = since - length if isinstance(length, timedelta) else None
    with column.database.read() as connection:
        stored = column.stored(connection, Window(since, window.until))
    by_segment: dict[str, list[StoredState]] = {}
    for state in stored:
        if state.time is not None:
            by_segment.setdefault(state.segment, []).append(state)
    rows: list[dict[str, Any]] = []
    for states in by_segment.values():
        found = {}
        for state, before, after in _trailing(column.distributions(states), length):
            assert state.time is not None
            if len(before) >= at_least and window.holds(state.time):
                past = merged(before)
                found[state] = compare(past, after)
                about = {"rows": rows_of(after), "baseline_rows": rows_of(past)}
                rows.append({**asdict(found[state]), **vars(state), **about})
        if record and column.as_of is None and found:
            _record(column, kind_of(after), found)
    return frame_of(rows, DRIFTS_COLUMNS)


def _trailing(
    parts: Iterator[tuple[StoredState, Distribution]], length: int | timedelta
) -> Iterator[tuple[StoredState, Sequence[Distribution], Distribution]]:
    """Yield each partition after those before it that hold values, each of them read once."""
    queue: deque[tuple[datetime, Distribution]] = deque()
    for state, part in parts:
        assert state.time is not None
        while queue and (
            state.time - queue[0][0] > length
            if isinstance(length, timedelta)
            else len(queue) > length
        ):
            queue.popleft()
        yield state, [before for _, before in queue], part
        if rows_of(part):
            queue.append((state.time, part))


def compare(baseline: Distribution, current: Distribution) -> Distances:
    """Return the distances between two distributions of one kind."""
    if isinstance(baseline, Quantiles) and isinstance(current, Quantiles):
        return numeric_distances(baseline, current)
    assert isinstance(baseline, Counter)
    assert isinstance(current, Counter)
    return category_distances(baseline, current)


def _drawn(baseline: Distribution, current: Distribution) -> tuple[Any, ...]:
    """Return what to draw: the axis, and both sides' values along it."""
    if isinstance(baseline, Quantiles) and isinstance(current, Quantiles):
        return RANKS, *(tuple(side.at(RANKS).tolist()) for side in (baseline, current))
    assert isinstance(baseline, Counter)
    assert isinstance(current, Counter)
    shares = [
        {key: count / side.total() for key, count in side.items()} for side in (baseline, current)
    ]
    most = {
        key: max(side.get(key, 0.0) for side in shares) for key in sorted({**baseline, **current})
    }
    axis = tuple(sorted(most, key=lambda key: -most[key])[:MOST_CATEGORIES])
    return axis, *(tuple(side.get(key, 0.0) for key in axis) for side in shares)


@dataclass(frozen=True)
class _Side:
    """One side of a comparison: what it is called, and the states in it, none of them missing."""

    name: str
    stored: list[StoredState]

    @classmethod
    def of(cls, connection: Connection, column: Column, which: str, side: Any) -> _Side:
        if isinstance(side, str):
            p, of = s.partition.c, partition_id(connection, column.dataset, side)
            time = connection.execute(sa.select(p.time).where(p.id == of)).scalar_one()
            stored = column.stored(connection, Window(time, time))
            name, stored = side, [found for found in stored if found.partition == side]
        else:
            if not isinstance(side, Sequence) or len(side) != 2:  # noqa: PLR2004
                msg = f"{which}={side!r} is neither a partition's name nor a pair (since, until)"
                raise HistoryError(msg)
            name = " to ".join("..." if end is None else str(end) for end in side)
            stored = column.stored(connection, Window.of(*side))
        missing = [found.partition for found in stored if found.payload is None]
        if not stored:
            within = "" if column.segment is None else f" with segment {column.segment!r}"
            msg = f"{which}: {column.dataset!r} has no partition in {name}{within}"
            raise HistoryError(msg)
        if missing:
            msg = (
                f"{which}: the distribution of {column.name!r} is not stored for {len(missing)} of"
                f" {len(stored)} partitions, first {missing[0]!r}: the analyzer failed there, was not"
                " measured, or the state was cleaned away"
            )
            raise HistoryError(msg)
        return cls(name, stored)


def _record(column: Column, kind: str, found: Mapping[StoredState, Distances]) -> int:
    """Store distances as metrics of partitions of one segment; return how many were new."""
    segment = next(iter(found)).segment
    written = 0
    for name in RECORDED_OF[kind]:
        scale = Scale.RATIO if name in {"unseen", "lost"} else Scale.DISTANCE
        what = Recorded(
            f"Drift.{name}",
            instance=column.name,
            entity=Entity.COLUMN.value,
            scale=scale.value,
            where=column.where,
        )
        numbers = {
            state.partition: float(f"{getattr(distances, name):.{_DIGITS}g}")
            for state, distances in found.items()
        }
        times = {state.partition: state.time for state in found}
        record = Record(column.dataset, what, segment, numbers, times)
        written += write_record(column.database, record)
    return written


def _length(baseline: str | int) -> int | timedelta:
    """Return how many partitions, or how long a time, is the baseline."""
    if isinstance(baseline, str):
        window = Windows.named(baseline)
        if window.rolling:
            return window.count * timedelta(**{f"{window.unit}s": 1})
    elif baseline > 0:
        return int(baseline)
    msg = f"baseline={baseline!r} is neither a number of partitions nor a time such as 28d or 24h"
    raise HistoryError(msg)
