"""Heat map of all series of all datasets, with one byte per point."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sa

from tidegauge.analyzers.core.errors import UnknownNameError
from tidegauge.analyzers.core.metric import subject
from tidegauge.repository.incidents.listing import anomalous_points
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.bulk import chunks, fetch_columns
from tidegauge.repository.store.dimensions import Watched
from tidegauge.repository.store.queries import AsOf, MetricQuery, commit_as_of, dataset_id
from tidegauge.repository.store.scorebook import BLOCK_SERIES, in_blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sqlalchemy.engine import Connection

LEVELS_PER_DECADE = 16
"""Score levels per power of ten of the p-value. A byte suffices down to a p-value of 1e-15."""
MAX_LEVEL = 255
LOOK_BACK_COLUMNS = 8
"""Earlier columns in which the previous value of a series is looked up."""
SERIES_KEYS = ("dataset", "segment", "instance", "name", "analyzer")


@dataclass(frozen=True)
class Coded:
    """Dictionary-encoded strings: the sorted distinct strings, and the index of each entry in them."""

    words: Sequence[str]
    code: NDArray[np.int32]

    @classmethod
    def from_strings(cls, strings: Sequence[str]) -> Coded:
        """Dictionary-encode strings.

        Parameters
        ----------
        strings : sequence of str
            Strings in any order, with repetitions.

        Examples
        --------
        >>> Coded.from_strings(["b", "a", "b"])
        Coded(words=['a', 'b'], code=array([1, 0, 1], dtype=int32))
        """
        words = sorted(set(strings))
        code_of_word = {word: n for n, word in enumerate(words)}
        return cls(
            words, np.fromiter((code_of_word[string] for string in strings), np.int32, len(strings))
        )

    def take(self, indices: NDArray[Any]) -> Coded:
        """Return a selection of the entries."""
        return Coded(self.words, self.code[indices])

    def word(self, index: int) -> str:
        """Return the string of one entry."""
        return self.words[int(self.code[index])]


@dataclass(frozen=True)
class HeatmapIndex:
    """Rows and columns of the heat map: all series, and all partition times.

    Series are ordered by dataset, instance, name, segment and analyzer. Series of whole-partition
    detectors, which have scores but no values, follow the other series of their instance. Each
    column is one time, with all partitions of that time of any dataset; partitions without a time
    follow by name. If a series has several partitions at one time (metrics recorded per region),
    the last partition by name is used.

    Attributes
    ----------
    series : array of int
        Series ids, one per row.
    dataset, segment, instance, name, analyzer : Coded
        Keys of each series.
    owner : array of int
        Dataset id of each series.
    partitions : array of int
        Partition ids, in order of column and name.
    partition_owner : array of int
        Dataset id of each partition.
    column : array of int
        Column of each partition.
    labels : sequence of str
        Label of each column: the time in UTC, or the partition's name.
    times : array of float
        Time of each column, in seconds since 1970; NaN without a time.
    commit : int, optional
        Commit of a past view; None for the current view.
    """

    series: NDArray[np.int64]
    dataset: Coded
    segment: Coded
    instance: Coded
    name: Coded
    analyzer: Coded
    owner: NDArray[np.int64]
    partitions: NDArray[np.int64]
    partition_owner: NDArray[np.int64]
    column: NDArray[np.int64]
    labels: Sequence[str]
    times: NDArray[np.float64]
    commit: int | None = None

    def key(self, row: int) -> dict[str, str]:
        """Return the keys of the series in a row, by `SERIES_KEYS`."""
        return {name: coded.word(row) for name, coded in self.keys.items()}

    @property
    def keys(self) -> Mapping[str, Coded]:
        """Encoded keys of all series, by `SERIES_KEYS`."""
        parts = (self.dataset, self.segment, self.instance, self.name, self.analyzer)
        return dict(zip(SERIES_KEYS, parts, strict=True))

    @property
    def shape(self) -> tuple[int, int]:
        """Number of series and of columns."""
        return len(self.series), len(self.labels)

    def rows_of(self, series: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the row of each series id; -1 if the series is not in the heat map."""
        return _look_up(_lookup_table(self.series), series)

    def columns_of(self, partitions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the column of each partition id; -1 if the partition is not in the heat map."""
        return _look_up(_lookup_table(self.partitions, self.column), partitions)


def panorama(
    connection: Connection, as_of: AsOf = None, dataset: str | None = None
) -> HeatmapIndex:
    """Read the rows and columns of the heat map.

    Parameters
    ----------
    connection : Connection
        Open connection to the repository.
    as_of : str, date, datetime, int, optional
        Past view of the repository (default: the current view).
    dataset : str, optional
        Name of the only dataset (default: all datasets).
    """
    d, e, a = s.dataset.c, s.series.c, s.analyzer.c
    watched = a.kind == Watched.__name__
    series = (
        sa.select(e.id, d.id, watched, d.name, a.segment, e.instance, e.name, a.text)
        .join_from(s.series, s.analyzer)
        .join(s.dataset)
    )
    if dataset is not None:
        series = series.where(d.name == dataset)
    ids, owner, is_watched, *key_columns = fetch_columns(connection, series)
    keys = dict(zip(SERIES_KEYS, map(Coded.from_strings, key_columns), strict=True))
    codes = {key: coded.code for key, coded in keys.items()}
    # lexsort takes the most significant key last.
    sort_keys: list[NDArray[Any]] = [codes["analyzer"], codes["segment"], codes["name"]]
    sort_keys += [np.array(is_watched, np.int8), codes["instance"], codes["dataset"]]
    order = np.lexsort(sort_keys)
    commit = commit_as_of(connection, as_of)
    sorted_keys: dict[str, Any] = {key: coded.take(order) for key, coded in keys.items()}
    return HeatmapIndex(
        series=np.array(ids, np.int64)[order],
        owner=np.array(owner, np.int64)[order],
        **sorted_keys,
        **_columns(connection, commit, dataset),
        commit=commit,
    )


def _columns(connection: Connection, commit: int | None, dataset: str | None) -> dict[str, Any]:
    """Return the attributes of `HeatmapIndex` that describe partitions, now or as of a commit."""
    p = s.partition.c
    query = sa.select(p.id, p.dataset_id, p.name, p.time)
    if dataset is not None:
        query = query.join_from(s.partition, s.dataset).where(s.dataset.c.name == dataset)
    if commit is not None:
        committed_at = sa.select(s.commit.c.committed_at).where(s.commit.c.id == commit)
        query = query.where(p.first_seen_at <= committed_at.scalar_subquery())
    # A million partitions have few different names and times: decode and sort only these.
    ids, dataset_ids, names, stored = fetch_columns(connection, query)
    decode = p.time.type.dialect_impl(connection.dialect).result_processor(connection.dialect, None)
    time_of = {raw: raw if decode is None else decode(raw) for raw in set(stored)}
    coded_name = Coded.from_strings(names)
    times = sorted({time for time in time_of.values() if time is not None})
    time_index = {time: n for n, time in enumerate(times)}
    index_of_stored = {raw: time_index.get(time, -1) for raw, time in time_of.items()}
    column = np.fromiter((index_of_stored[raw] for raw in stored), np.int64, len(stored))
    timeless = np.unique(coded_name.code[column < 0])  # sorted by name
    column = np.where(column < 0, len(times) + np.searchsorted(timeless, coded_name.code), column)
    order = np.lexsort((coded_name.code, column))
    timeless_labels = [coded_name.words[code] for code in timeless.tolist()]
    return {
        "partitions": np.array(ids, np.int64)[order],
        "partition_owner": np.array(dataset_ids, np.int64)[order],
        "column": column[order],
        "labels": [*map(time_label, times), *timeless_labels],
        "times": np.array(
            [*(time.timestamp() for time in times), *(np.nan for _ in timeless_labels)]
        ),
    }


def time_label(time: Any) -> str:
    """Return the label of a column: the time in UTC, as short as it can be.

    Examples
    --------
    >>> from datetime import datetime
    >>> time_label(datetime(2013, 2, 8)), time_label(datetime(2013, 2, 8, 7))
    ('2013-02-08', '2013-02-08 07:00')
    """
    label = f"{time:%Y-%m-%d %H:%M:%S}"
    return label.removesuffix(":00").removesuffix(" 00:00")


def score_levels(
    connection: Connection, index: HeatmapIndex, start: int, end: int, rows: NDArray[np.int64]
) -> NDArray[np.uint8]:
    """Return the score levels of rows in a range of columns.

    Parameters
    ----------
    connection : Connection
        Open connection to the repository.
    index : HeatmapIndex
        Rows and columns of the heat map.
    start, end : int
        First column, and the column after the last one.
    rows : array of int
        Rows of the heat map.

    Returns
    -------
    array of uint8, shape (rows, end - start)
        0 if no detector scored, else 1 plus the highest score in sixteenths; at most 255.
    """
    levels = np.zeros((len(rows), end - start), np.uint8)
    for cells, scores in _scored_cells(connection, index, start, end, rows):
        level = 1 + np.minimum(scores * LEVELS_PER_DECADE, MAX_LEVEL - 1)
        np.maximum.at(levels.reshape(-1), cells, level.astype(np.uint8))
    return levels


def highest_scores(
    connection: Connection, index: HeatmapIndex, start: int, end: int, rows: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the highest score of each cell, as `score_levels`, in full precision.

    Parameters
    ----------
    connection, index, start, end, rows
        As for `score_levels`.

    Returns
    -------
    array of float, shape (rows, end - start)
        NaN if no detector scored.
    """
    highest = np.full((len(rows), end - start), -np.inf)
    for cells, scores in _scored_cells(connection, index, start, end, rows):
        np.maximum.at(highest.reshape(-1), cells, scores)
    return np.where(np.isneginf(highest), np.nan, highest)


def _scored_cells(
    connection: Connection, index: HeatmapIndex, start: int, end: int, rows: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """Yield the positions of scored cells, row by row, and their scores by each detector."""
    width = end - start
    row_of = _lookup_table(index.series[rows])
    column_of = _lookup_table(index.partitions, index.column)
    c = s.score.c
    query = sa.select(c.partition_id, c.block, c.members, c.score).where(
        s.holds(s.score, index.commit), in_blocks(index.series[rows].tolist())
    )
    for partition_ids in chunks(_partitions_between(index, start, end, rows).tolist()):
        # Decode all rows at once: there are thousands, with up to 256 scores each.
        partition, block, members, scores = fetch_columns(
            connection, query.where(c.partition_id.in_(partition_ids))
        )
        bits = np.unpackbits(np.frombuffer(b"".join(members), np.uint8), bitorder="little")
        position = np.flatnonzero(bits)
        block_index = position // BLOCK_SERIES
        first_series = (np.array(block, np.int64) - np.arange(len(block))) * BLOCK_SERIES
        row = _look_up(row_of, first_series[block_index] + position)
        is_requested = np.flatnonzero(row >= 0)
        column = column_of[np.array(partition, np.int64)] - start
        cells = row[is_requested] * width + column[block_index[is_requested]]
        yield cells, np.frombuffer(b"".join(scores), "<f8")[is_requested]


def values(
    connection: Connection, index: HeatmapIndex, start: int, end: int, rows: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the values of rows in a range of columns.

    Parameters
    ----------
    connection : Connection
        Open connection to the repository.
    index : HeatmapIndex
        Rows and columns of the heat map.
    start, end : int
        First column, and the column after the last one.
    rows : array of int
        Rows of the heat map.

    Returns
    -------
    array of float, shape (rows, end - start)
        NaN if there is no finite value.
    """
    result = np.full((len(rows), end - start), np.nan)
    row_of, index_of_partition = _lookup_table(index.series[rows]), _lookup_table(index.partitions)
    for query in _value_queries(index, start, end, rows):
        partition, series, value = fetch_columns(connection, query)
        row = _look_up(row_of, np.array(series, np.int64))
        position = _look_up(index_of_partition, np.array(partition, np.int64))
        column = index.column[position] - start
        is_requested = (row >= 0) & (position >= 0) & (column >= 0) & (column < end - start)
        # The last partition of a column comes last, so that its value is kept.
        order = np.argsort(position, kind="stable")
        order = order[is_requested[order]]
        result[row[order], column[order]] = np.array(value, np.float64)[order]
    return result


def _value_queries(
    index: HeatmapIndex, start: int, end: int, rows: NDArray[np.int64]
) -> Iterator[sa.Select[Any]]:
    """Yield queries of partition, series and value that include all requested finite values."""
    m, p, e, a = s.metric.c, s.partition.c, s.series.c, s.analyzer.c
    selected = sa.select(m.partition_id, m.series_id, m.value)
    finite = s.holds(s.metric, index.commit) & (m.status == "finite")
    few: list[int] = []
    for dataset_rows in _split_by_dataset(index, rows):
        series_ids = index.series[dataset_rows].tolist()
        if len(series_ids) <= _MAX_LISTED_SERIES:
            few += series_ids
            continue
        partitions = _partitions_between(index, start, end, dataset_rows).tolist()
        for partition_ids in chunks(partitions, _PARTITIONS_PER_QUERY):
            yield selected.where(finite, m.partition_id.in_(partition_ids))
    # Few series of many datasets: each series with the partitions of its dataset, in one query.
    lookup = (
        selected.join_from(s.series, s.analyzer, a.id == e.analyzer_id)
        .join(s.partition, p.dataset_id == a.dataset_id)
        .join(s.metric, (m.partition_id == p.id) & (m.series_id == e.id))
        .where(finite, *_times_between(index, start, end))
    )
    for series_ids in chunks(few, max(1, _POINTS_PER_QUERY // max(1, end - start))):
        yield lookup.where(e.id.in_(series_ids))


def _times_between(index: HeatmapIndex, start: int, end: int) -> list[sa.ColumnElement[bool]]:
    """Return conditions that keep partitions in a range of columns; they may keep others, too."""
    time, margin = s.partition.c.time, dt.timedelta(seconds=1)
    conditions: list[sa.ColumnElement[bool]] = []
    if start > 0 and np.isfinite(index.times[start : start + 1]).all():
        first = dt.datetime.fromtimestamp(index.times[start], dt.UTC) - margin
        conditions.append(time.is_(None) | (time >= first))
    if 0 < end < len(index.times) and np.isfinite(index.times[end - 1]):
        conditions.append(time <= dt.datetime.fromtimestamp(index.times[end - 1], dt.UTC) + margin)
    return conditions


_MAX_LISTED_SERIES = 450
"""For more series of a dataset, all its series are read."""
_PARTITIONS_PER_QUERY = 30
"""Bounds memory: the points of a query are held as tuples until they are copied to arrays."""
_POINTS_PER_QUERY = 15_000
"""Bounds memory in the same way if the query lists few series."""


def relative_changes(
    connection: Connection, index: HeatmapIndex, start: int, end: int, rows: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return each value's relative change from the previous value, from -1 to 1.

    The change is ``(new - old) / max(|new|, |old|)``, so that a fall to 0 is -1 and a rise from 0 is 1.

    Parameters
    ----------
    connection : Connection
        Open connection to the repository.
    index : HeatmapIndex
        Rows and columns of the heat map.
    start, end : int
        First column, and the column after the last one.
    rows : array of int
        Rows of the heat map.

    Returns
    -------
    array of float, shape (rows, end - start)
        NaN without two values.
    """
    begin = max(0, start - LOOK_BACK_COLUMNS)
    current = values(connection, index, begin, end, rows)
    has_value = ~np.isnan(current)
    value_index = np.where(has_value, np.arange(current.shape[1]), -1)
    latest_index = np.maximum.accumulate(value_index, axis=1)
    previous_index = np.concatenate([np.full((len(current), 1), -1), latest_index[:, :-1]], axis=1)
    old = np.take_along_axis(current, np.maximum(previous_index, 0), axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        change = (current - old) / np.maximum(np.abs(current), np.abs(old))
    change = np.clip(np.where(current == old, 0.0, change), -1, 1)
    has_both = has_value & (previous_index >= 0)
    return np.where(has_both, change, np.nan)[:, start - begin :]


def change_levels(
    connection: Connection, index: HeatmapIndex, start: int, end: int, rows: NDArray[np.int64]
) -> NDArray[np.uint8]:
    """Return the level of each value's relative change from the previous value.

    The level is ``128 + 127 * sqrt(change)``, with the change of `relative_changes` and the square root of
    a negative change taken as negative. The square root makes small changes visible.

    Parameters
    ----------
    connection, index, start, end, rows
        As for `relative_changes`.

    Returns
    -------
    array of uint8, shape (rows, end - start)
        0 without two values; 128 for no change; 64 for a quarter less; 255 for a rise from 0, or
        from a negative to a positive value; 1 for a fall to 0, or from a positive to a negative
        value.
    """
    change = relative_changes(connection, index, start, end, rows)
    level = np.rint(128 + 127 * np.sign(change) * np.sqrt(np.abs(change)))
    return np.where(np.isnan(change), 0, level).astype(np.uint8)


def names_of_partitions(connection: Connection, partitions: Sequence[int]) -> dict[int, str]:
    """Return the name of each partition by id."""
    p = s.partition.c
    return {
        number: name
        for chunk in chunks(partitions)
        for number, name in connection.execute(sa.select(p.id, p.name).where(p.id.in_(chunk)))
    }


def filters_of_series(connection: Connection, dataset: str | None = None) -> dict[str, str]:
    """Return the row filter of each analyzer by its text; empty without one."""
    a = s.analyzer.c
    query = sa.select(a.text, sa.func.coalesce(a.filter, "")).distinct()
    if dataset is not None:
        query = query.join_from(s.analyzer, s.dataset).where(s.dataset.c.name == dataset)
    return {row[0]: row[1] for row in connection.execute(query)}


def _partitions_between(
    index: HeatmapIndex, start: int, end: int, rows: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the ids of the partitions of series' datasets in a range of columns."""
    is_between = (index.column >= start) & (index.column < end)
    return index.partitions[
        is_between & np.isin(index.partition_owner, np.unique(index.owner[rows]))
    ]


def _split_by_dataset(index: HeatmapIndex, rows: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Split rows by dataset."""
    owner = index.owner[rows]
    order = np.argsort(owner, kind="stable")
    parts = np.split(order, 1 + np.flatnonzero(np.diff(owner[order])))
    return [rows[part] for part in parts if len(part)]


def _lookup_table(
    ids: NDArray[np.int64], entries: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Return a lookup table from id to entry (default: the id's index); -1 for all other ids."""
    table = np.full(int(ids.max(initial=0)) + 1, -1, np.int64)
    table[ids] = np.arange(len(ids)) if entries is None else entries
    return table


def _look_up(table: NDArray[np.int64], ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the entries of ids in a lookup table; -1 for ids that are not in it."""
    if int(ids.max(initial=0)) < len(table):
        return table[ids]
    is_known = ids < len(table)
    return np.where(is_known, table[np.where(is_known, ids, 0)], -1)


MAX_DRAWN_SERIES, MAX_DRAWN_CELLS = 50, 5000
"""Maximum number of rows and of cells of a drawn heat map."""


@dataclass(frozen=True)
class DrawnHeatmap:
    """The strongest cell of each series in each interval of a heat map.

    Attributes
    ----------
    cells : sequence of mapping
        Series, interval (``start``, ``end`` in seconds since 1970 or as column numbers), label of the
        strongest column, its number and value, and whether the interval has an anomaly.
    series : int
        Number of series that match.
    drawn : int
        Number of drawn series: those with the strongest cells.
    columns_per_cell : int
        Number of columns of the heat map in an interval.
    timed : bool
        Whether intervals are times.
    """

    cells: Sequence[Mapping[str, Any]]
    series: int
    drawn: int
    columns_per_cell: int
    timed: bool


def drawn_heatmap(
    connection: Connection, dataset: str, query: MetricQuery, by: str, as_of: AsOf = None
) -> DrawnHeatmap:
    """Read the heat map of a dataset in few enough cells to draw. No extreme cell is lost.

    Parameters
    ----------
    connection : Connection
        Open connection to the repository.
    dataset : str
        Name of the dataset.
    query : MetricQuery
        Filters that select series and the time window.
    by : str
        ``score`` or ``change``.
    as_of : str, date, datetime, int, optional
        Past view of the repository (default: the current view).

    Raises
    ------
    UnknownNameError
        If ``by`` is another word.
    """
    readers = {"score": highest_scores, "change": relative_changes}
    if by not in readers:
        raise UnknownNameError("color scale", by, readers)
    index = panorama(connection, as_of, dataset)
    a, e = s.analyzer.c, s.series.c
    selected = (
        sa.select(e.id)
        .join_from(s.series, s.analyzer)
        .where(a.dataset_id == dataset_id(connection, dataset), query.series_condition())
    )
    ids = np.array(list(connection.execute(selected).scalars()), np.int64)
    rows = np.sort(index.rows_of(ids))
    window = query.window
    since, until = (
        default if end is None else end.timestamp()
        for end, default in ((window.since, -np.inf), (window.until, np.inf))
    )
    inside = (index.times >= since) & (index.times <= until)
    if window.since is None and window.until is None:
        inside[:] = True
    columns = np.flatnonzero(inside)
    if not len(rows) or not len(columns):
        return DrawnHeatmap((), len(rows), 0, 1, timed=True)
    start, end = int(columns[0]), int(columns[-1]) + 1
    numbers = readers[by](connection, index, start, end, rows)
    # Keep the series with the strongest cells, in their order.
    strength = np.where(np.isnan(numbers), -1.0, np.abs(numbers))
    kept = np.sort(np.argsort(-strength.max(axis=1), kind="stable")[:MAX_DRAWN_SERIES])
    kept = kept[strength[kept].max(axis=1) >= 0]
    rows, numbers, strength = rows[kept], numbers[kept], strength[kept]
    if not len(rows):
        return DrawnHeatmap((), len(ids), 0, 1, timed=True)
    width = -(-(end - start) * len(rows) // MAX_DRAWN_CELLS)
    value = values(connection, index, start, end, rows)
    is_anomalous = np.zeros(numbers.shape, bool)
    points = anomalous_points(connection, index.commit)
    row_of = _lookup_table(index.series[rows])
    row, column = _look_up(row_of, points.series), index.columns_of(points.partition) - start
    known = (row >= 0) & (column >= 0) & (column < end - start)
    is_anomalous[row[known], column[known]] = True
    # The strongest column of each interval stands for it.
    times = index.times[start:end]
    timed = bool(np.isfinite(times).all())
    edges = times if timed else np.arange(end - start, dtype=float)
    gap = float(np.median(np.diff(edges))) if len(edges) > 1 else (86400.0 if timed else 1.0)
    where = filters_of_series(connection, dataset)
    cells = []
    for number, series_row in enumerate(rows.tolist()):
        key = index.key(series_row)
        title = subject({**key, "filter": where.get(key["analyzer"])})
        for first in range(0, end - start, width):
            last = min(first + width, end - start)
            best = first + int(strength[number, first:last].argmax())
            if strength[number, best] < 0:
                continue
            cells.append(
                {
                    "series": title,
                    "row": number,
                    "start": float(edges[first]),
                    "end": float(edges[last] if last < len(edges) else edges[-1] + gap),
                    "partition": index.labels[start + best],
                    "number": float(numbers[number, best]),
                    "value": float(value[number, best]),
                    "anomaly": bool(is_anomalous[number, first:last].any()),
                }
            )
    return DrawnHeatmap(cells, len(ids), len(rows), width, timed)
