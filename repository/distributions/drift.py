"""Distribution drift of a column between partitions or windows, from stored states. No Spark."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import sqlalchemy as sa

from tidegauge.analyzers.core.errors import HistoryError
from tidegauge.analyzers.core.formatting import plural
from tidegauge.analyzers.core.metric import Entity, Scale
from tidegauge.analyzers.core.registry import Rendered
from tidegauge.repository.distributions.distances import (
    Distances,
    category_distances,
    numeric_distances,
)
from tidegauge.repository.distributions.stored import (
    CATEGORICAL_KIND,
    NUMERIC_KIND,
    Distribution,
    Quantiles,
    StoredColumn,
    categories_of,
    kind_of,
    merged,
    quantiles_of,
    rows_of,
)
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.dimensions import Recorded
from tidegauge.repository.store.frames import columns, frame_of
from tidegauge.repository.store.queries import Moment, StoredState, Window, partition_id
from tidegauge.repository.store.user_metrics import Record, write_record
from tidegauge.repository.store.windows import WindowScheme, weekday_numbers

if TYPE_CHECKING:
    import pandas as pd
    from sqlalchemy.engine import Connection

    from tidegauge.analyzers.core.state import State

Side = str | tuple[Moment, Moment]
RECORDED_OF = {
    NUMERIC_KIND: ("psi", "js", "ks", "wasserstein"),
    CATEGORICAL_KIND: ("psi", "js", "unseen", "lost"),
}
DRIFT_PREFIX = "Drift."
"""Prefix of the names of recorded distances."""
BASELINE, SAME_WEEKDAY_BASELINE = "28d", "56d"
"""Default baselines of each partition: four weeks, or the eight partitions of the same weekday before it."""
PLOT_RANKS = tuple(rank / 100 for rank in range(101))
MAX_PLOT_CATEGORIES = 20
_RECORDED_DIGITS = 9
"""Significant digits recorded, so that another machine's rounding does not make a new version."""


@dataclass(frozen=True, kw_only=True)
class Drifted(Rendered, Distances):
    """Difference of a column's distribution between two partitions or windows.

    Nulls and NaN are left out of the distances.

    Attributes
    ----------
    dataset, column : str
    baseline, current : str
        Partition names, or windows such as ``2013-02-01 to 2013-02-07``.
    kind : str
        ``numeric`` or ``categorical``.
    baseline_rows, current_rows : int
        Number of values on each side.
    axis : tuple of float or of str
        Plot axis: ranks from 0 to 1, or the 20 most frequent categories.
    baseline_values, current_values : tuple of float
        The quantile at each rank, NaN without values; or each category's share of all values.
    segment, where : str or None
    """

    renderer: ClassVar[str] = "tidegauge.display.cards:render_drift"

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
        """Return both distributions as a tidy data frame.

        Returns
        -------
        pandas.DataFrame
            One row per side (``baseline``, ``current``) and point, with the columns side, rank and
            value, or side, category and share.
        """
        from tidegauge.repository.store.result_frame import ResultFrame

        point, value = ("rank", "value") if self.kind == NUMERIC_KIND else ("category", "share")
        sides = np.repeat(["baseline", "current"], len(self.axis))
        values = (*self.baseline_values, *self.current_values)
        return ResultFrame({"side": sides, point: self.axis * 2, value: np.array(values, float)})


def drift(
    column: StoredColumn,
    baseline: Side,
    current: Side,
    *,
    record: bool = False,
    against: StoredColumn | None = None,
    prefix: str = DRIFT_PREFIX,
) -> Drifted:
    """Compare two partitions or windows; see `Repository.drift`.

    If ``against`` is given, the baseline is a distribution of that column. Distances are recorded under
    names that begin with ``prefix``.
    """
    columns = (against or column, column)
    with column.database.read() as connection:
        sides = [
            _Side.resolve(connection, side_column, name, side)
            for side_column, name, side in zip(
                columns, ("baseline", "current"), (baseline, current), strict=True
            )
        ]
    shared = column.kind_of_all([state for side in sides for state in side.stored])
    before, after = (
        merged([part for _, part in replace(side_column, kind=shared).distributions(side.stored)])
        for side_column, side in zip(columns, sides, strict=True)
    )
    distances, (axis, *values) = compare(before, after), _plot_data(before, after)
    kind = kind_of(after)
    if record and column.as_of is None:
        if not isinstance(current, str):
            msg = "only the drift of a partition can be recorded, not of a window"
            raise HistoryError(msg)
        _record(column, kind, {sides[1].stored[0]: distances}, prefix)
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


def read_distributions(
    column: StoredColumn, sides: Sequence[Side], weekday: str | Sequence[str] | None = None
) -> dict[str, Distribution]:
    """Read the distributions of a column in partitions or windows, all of one kind, by name.

    Parameters
    ----------
    column : StoredColumn
    sides : sequence of str or pair
        Partition names, or windows ``(since, until)``.
    weekday : str or sequence of str, optional
        Only partitions whose time in UTC is on these weekdays.

    Raises
    ------
    HistoryError
        If a partition does not exist, is on another weekday, or has no suitable state.
    """
    weekdays = weekday_numbers(weekday)
    with column.database.read() as connection:
        resolved = [_Side.resolve(connection, column, "side", side, weekdays) for side in sides]
    kind = column.kind_of_all([state for side in resolved for state in side.stored])
    reader = replace(column, kind=kind)
    names = [
        "all partitions" if side == (None, None) else state.name
        for side, state in zip(sides, resolved, strict=True)
    ]
    return {
        name: merged([part for _, part in reader.distributions(side.stored)])
        for name, side in zip(names, resolved, strict=True)
    }


def drift_before(
    column: StoredColumn,
    partition: str,
    time: datetime,
    length: timedelta | None,
    current: State | None = None,
) -> Distances | None:
    """Compare a partition with earlier partitions of its segment; return None if these have no values.

    Partitions without a stored distribution are left out of the baseline.

    Parameters
    ----------
    column : StoredColumn
    partition : str
    time : datetime
        Time of the partition.
    length : timedelta, optional
        Length of the baseline before the partition. Default: only the previous partition.
    current : State, optional
        State of the partition, if it is not stored.

    Raises
    ------
    HistoryError
        If nothing suitable is stored.
    """
    with column.database.read() as connection:
        since = None if length is None else time - length
        stored = column.stored(connection, Window(since, time))
    own_states = [state for state in stored if state.partition == partition and current is None]
    earlier = [state for state in stored if state.time is not None and state.time < time]
    earlier = [state for state in earlier if state.payload is not None][0 if length else -1 :]
    parts = dict(column.distributions([*earlier, *own_states]))
    past = [parts[state] for state in earlier]
    if not any(map(rows_of, past)):
        return None
    baseline = merged(past)
    now = [parts[state] for state in own_states if state in parts]
    if current is not None:
        now = [
            quantiles_of(current) if kind_of(baseline) == NUMERIC_KIND else categories_of(current)
        ]
    if not now:
        msg = (
            f"the distribution of {column.name!r} is not stored for {partition or column.dataset!r}"
        )
        raise HistoryError(msg)
    return compare(baseline, merged(now))


DRIFTS_COLUMNS = columns(
    "dataset segment partition time:time instance psi:number js:number ks:number wasserstein:number"
    " wasserstein_iqr:number unseen:number lost:number rows:integer baseline_rows"
)


def drifts(
    column: StoredColumn,
    baseline: str | int,
    window: Window,
    *,
    at_least: int = 7,
    same_weekday: bool = False,
    record: bool = True,
) -> pd.DataFrame:
    """Compare each partition with its trailing baseline; see `Repository.drifts`."""
    length = _length(baseline)
    since = window.since
    if since is not None:
        since = since - length if isinstance(length, timedelta) else None
    with column.database.read() as connection:
        stored = column.stored(connection, Window(since, window.until))
    groups: dict[tuple[str, int | None], list[StoredState]] = {}
    for state in stored:
        if state.time is not None:
            weekday = state.time.weekday() if same_weekday else None
            groups.setdefault((state.segment, weekday), []).append(state)
    rows: list[dict[str, Any]] = []
    for states in groups.values():
        distances = {}
        for state, earlier, after in _trailing(column.distributions(states), length):
            assert state.time is not None
            if len(earlier) >= at_least and window.holds(state.time):
                past = merged(earlier)
                distances[state] = compare(past, after)
                row_counts = {"rows": rows_of(after), "baseline_rows": rows_of(past)}
                identity = {"dataset": column.dataset, "instance": column.name}
                rows.append({**asdict(distances[state]), **vars(state), **row_counts, **identity})
        if record and column.as_of is None and distances:
            _record(column, kind_of(after), distances)
    rows.sort(key=lambda row: (row["segment"], row["time"]))
    return frame_of(rows, DRIFTS_COLUMNS)


def _trailing(
    parts: Iterator[tuple[StoredState, Distribution]], length: int | timedelta
) -> Iterator[tuple[StoredState, Sequence[Distribution], Distribution]]:
    """Yield each partition with the earlier partitions with values in its baseline; read each once."""
    queue: deque[tuple[datetime, Distribution]] = deque()
    for state, part in parts:
        assert state.time is not None
        while queue and (
            state.time - queue[0][0] > length
            if isinstance(length, timedelta)
            else len(queue) > length
        ):
            queue.popleft()
        yield state, [earlier for _, earlier in queue], part
        if rows_of(part):
            queue.append((state.time, part))


def compare(baseline: Distribution, current: Distribution) -> Distances:
    """Return the distances between two distributions of one kind."""
    if isinstance(baseline, Quantiles) and isinstance(current, Quantiles):
        return numeric_distances(baseline, current)
    assert isinstance(baseline, Counter)
    assert isinstance(current, Counter)
    return category_distances(baseline, current)


def _plot_data(baseline: Distribution, current: Distribution) -> tuple[Any, ...]:
    """Return the plot axis, and both sides' values along it."""
    if isinstance(baseline, Quantiles) and isinstance(current, Quantiles):
        return PLOT_RANKS, *(tuple(side.at(PLOT_RANKS).tolist()) for side in (baseline, current))
    assert isinstance(baseline, Counter)
    assert isinstance(current, Counter)
    shares = [
        {key: count / side.total() for key, count in side.items()} for side in (baseline, current)
    ]
    largest_share = {
        key: max(side.get(key, 0.0) for side in shares) for key in sorted({**baseline, **current})
    }
    axis = tuple(sorted(largest_share, key=lambda key: -largest_share[key])[:MAX_PLOT_CATEGORIES])
    return axis, *(tuple(side.get(key, 0.0) for key in axis) for side in shares)


@dataclass(frozen=True)
class _Side:
    """One side of a comparison: name and stored states, all present."""

    name: str
    stored: list[StoredState]

    @classmethod
    def resolve(
        cls,
        connection: Connection,
        column: StoredColumn,
        parameter: str,
        side: Any,
        weekdays: Collection[int] | None = None,
    ) -> _Side:
        if isinstance(side, str):
            p, partition = s.partition.c, partition_id(connection, column.dataset, side)
            time = connection.execute(sa.select(p.time).where(p.id == partition)).scalar_one()
            stored = column.stored(connection, Window(time, time))
            name, stored = side, [state for state in stored if state.partition == side]
        else:
            if not isinstance(side, Sequence) or len(side) != 2:
                msg = (
                    f"{parameter}={side!r} is neither a partition's name nor a pair (since, until)"
                )
                raise HistoryError(msg)
            name = " to ".join("..." if end is None else str(end) for end in side)
            stored = column.stored(connection, Window.between(*side))
        if weekdays is not None:
            stored = [state for state in stored if state.time and state.time.weekday() in weekdays]
        missing = [state.partition for state in stored if state.payload is None]
        if not stored:
            within = "" if column.segment is None else f" with segment {column.segment!r}"
            within += "" if weekdays is None else " on these weekdays"
            msg = f"{parameter}: {column.dataset!r} has no partition in {name}{within}"
            raise HistoryError(msg)
        if missing:
            msg = (
                f"{parameter}: the distribution of {column.name!r} is not stored for {len(missing)} of"
                f" {plural(len(stored), 'partition')}, first {missing[0]!r}: the analyzer failed there, was not"
                " measured, or the state was cleaned away"
            )
            raise HistoryError(msg)
        return cls(name, stored)


def _record(
    column: StoredColumn,
    kind: str,
    distances_by_state: Mapping[StoredState, Distances],
    prefix: str = DRIFT_PREFIX,
) -> int:
    """Record distances as metrics of one segment's partitions; return the number of new ones."""
    segment = next(iter(distances_by_state)).segment
    written = 0
    for name in RECORDED_OF[kind]:
        scale = Scale.RATIO if name in {"unseen", "lost"} else Scale.DISTANCE
        metric = Recorded(
            f"{prefix}{name}",
            instance=column.name,
            entity=Entity.COLUMN.value,
            scale=scale.value,
            where=column.where,
        )
        numbers = {
            state.partition: float(f"{getattr(distances, name):.{_RECORDED_DIGITS}g}")
            for state, distances in distances_by_state.items()
        }
        times = {state.partition: state.time for state in distances_by_state}
        record = Record(column.dataset, metric, segment, numbers, times)
        written += write_record(column.database, record)
    return written


def _length(baseline: str | int) -> int | timedelta:
    """Parse the baseline's length: a number of partitions, or a duration."""
    if isinstance(baseline, str):
        window = WindowScheme.from_name(baseline)
        if window.rolling:
            return window.count * timedelta(**{f"{window.unit}s": 1})
    elif baseline > 0:
        return int(baseline)
    msg = f"baseline={baseline!r} is neither a number of partitions nor a time such as 28d or 24h"
    raise HistoryError(msg)
