"""Heat map of all series of all datasets, with one byte per point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sa

from tidegauge.repository.store import schema as s
from tidegauge.repository.store.bulk import chunks, fetch_columns
from tidegauge.repository.store.queries import AsOf, commit_as_of
from tidegauge.repository.store.recorded import Watched
from tidegauge.repository.store.scorebook import BLOCK, in_blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sqlalchemy.engine import Connection

STEPS = 16
"""Score levels per power of ten of the p-value."""
HIGHEST = 255
LOOK_BACK = 8
"""Number of earlier columns in which the previous value is looked up."""
KEYS = ("dataset", "segment", "instance", "name", "analyzer")


@dataclass(frozen=True)
class Coded:
    """Dictionary-encoded text: the sorted distinct words, and each entry's index into them."""

    words: Sequence[str]
    code: NDArray[np.int32]

    @classmethod
    def from_texts(cls, texts: Sequence[str]) -> Coded:
        """Dictionary-encode texts.

        Examples
        --------
        >>> Coded.from_texts(["b", "a", "b"])
        Coded(words=['a', 'b'], code=array([1, 0, 1], dtype=int32))
        """
        words = sorted(set(texts))
        place = {word: n for n, word in enumerate(words)}
        return cls(words, np.fromiter((place[t] for t in texts), np.int32, len(texts)))

    def taken(self, places: NDArray[Any]) -> Coded:
        """Return a selection of the entries."""
        return Coded(self.words, self.code[places])

    def word(self, place: int) -> str:
        """Return the text of one entry."""
        return self.words[int(self.code[place])]


@dataclass(frozen=True)
class HeatmapIndex:
    """Rows and columns of the heat map: all series, and all partition times.

    Series are ordered by dataset, instance, name, segment and analyzer; those of whole-partition
    detectors, which have scores but no values, follow the others of their instance. A heat map
    column is one time: all partitions of that time, of any dataset; partitions without a time
    follow by name. If a series has several partitions at one time, as metrics recorded per region
    do, the last by name counts.

    Attributes
    ----------
    series : array of int
        Series ids, one per row.
    dataset, segment, instance, name, analyzer : Coded
        Keys of each series.
    partitions : array of int
        Partition ids, in order of column and name.
    column : array of int
        Column of each partition.
    labels : sequence of str
        Label of each column: the time in UTC, or the partition's name.
    times : array of float
        Time of each column, in seconds since 1970; NaN where there is none.
    commit : int, optional
        Commit after which the view is taken; the current one if None.
    """

    series: NDArray[np.int64]
    dataset: Coded
    segment: Coded
    instance: Coded
    name: Coded
    analyzer: Coded
    partitions: NDArray[np.int64]
    column: NDArray[np.int64]
    labels: Sequence[str]
    times: NDArray[np.float64]
    commit: int | None = None

    def key(self, row: int) -> dict[str, str]:
        """Return the `KEYS` of the series in a row."""
        return {name: coded.word(row) for name, coded in self.keys.items()}

    @property
    def keys(self) -> Mapping[str, Coded]:
        """Encoded columns of all series, by `KEYS`."""
        parts = (self.dataset, self.segment, self.instance, self.name, self.analyzer)
        return dict(zip(KEYS, parts, strict=True))

    @property
    def shape(self) -> tuple[int, int]:
        """Number of series and of columns."""
        return len(self.series), len(self.labels)

    def rows_of(self, series: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the row of each series id, -1 for those not in the heat map."""
        return _looked_up(_inverse(self.series), series)

    def columns_of(self, partitions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the column of each partition id, -1 for those not in the heat map."""
        return _looked_up(_inverse(self.partitions, self.column), partitions)


def panorama(connection: Connection, as_of: AsOf = None) -> HeatmapIndex:
    """Read the rows and columns of the heat map, now or as of a past commit."""
    d, e, a = s.dataset.c, s.series.c, s.analyzer.c
    series = (
        sa.select(e.id, a.kind == Watched.__name__, d.name, a.segment, e.instance, e.name, a.text)
        .join_from(s.series, s.analyzer)
        .join(s.dataset)
    )
    columns = fetch_columns(connection, series)
    keys = dict(zip(KEYS, (Coded.from_texts(column) for column in columns[2:]), strict=True))
    codes = {key: coded.code for key, coded in keys.items()}
    watched = np.array(columns[1], np.int8)
    # lexsort takes the most significant key last.
    order: list[NDArray[Any]] = [codes["analyzer"], codes["segment"], codes["name"], watched]
    places = np.lexsort([*order, codes["instance"], codes["dataset"]])
    commit, p = commit_as_of(connection, as_of), s.partition.c
    query = sa.select(p.id, p.name, p.time).order_by(p.name)
    if commit is not None:
        then = sa.select(s.commit.c.committed_at).where(s.commit.c.id == commit)
        query = query.where(p.first_seen_at <= then.scalar_subquery())
    found = sorted(
        ((row.time is None, row.time or row.name, row.id) for row in connection.execute(query)),
        key=lambda row: row[:2],
    )
    moments = list(dict.fromkeys(row[1] for row in found))
    column = {moment: n for n, moment in enumerate(moments)}
    return HeatmapIndex(
        np.array(columns[0], np.int64)[places],
        **{key: coded.taken(places) for key, coded in keys.items()},
        partitions=np.array([row[2] for row in found], np.int64),
        column=np.array([column[row[1]] for row in found], np.int64),
        labels=[m if isinstance(m, str) else _label(m) for m in moments],
        times=np.array([np.nan if isinstance(m, str) else m.timestamp() for m in moments]),
        commit=commit,
    )


def _label(moment: Any) -> str:
    text = f"{moment:%Y-%m-%d %H:%M:%S}"
    return text.removesuffix(":00").removesuffix(" 00:00")


def score_levels(
    connection: Connection, of: HeatmapIndex, first: int, last: int, rows: NDArray[np.int64]
) -> NDArray[np.uint8]:
    """Return the score levels of rows, in columns from `first` up to, excluding, `last`.

    Returns
    -------
    array of uint8, shape (rows, last - first)
        0 where no detector scored, else 1 plus the highest score in sixteenths, at most 255.
    """
    out = np.zeros((len(rows), last - first), np.uint8)
    row_of = _inverse(of.series[rows])
    column_of = _inverse(of.partitions, of.column)
    c = s.score.c
    query = sa.select(c.partition_id, c.block, c.members, c.score).where(
        s.holds(s.score, of.commit), in_blocks(of.series[rows].tolist())
    )
    for some in chunks(_within(of, first, last).tolist()):
        found = connection.execute(query.where(c.partition_id.in_(some)))
        for partition, block, members, scores in found:
            bits = np.unpackbits(np.frombuffer(members, np.uint8), bitorder="little")
            row = _looked_up(row_of, block * BLOCK + np.flatnonzero(bits))
            here = row >= 0
            level = 1 + np.minimum(np.frombuffer(scores, "<f8") * STEPS, HIGHEST - 1)
            at = row[here], column_of[partition] - first
            out[at] = np.maximum(out[at], level[here].astype(np.uint8))
    return out


def values(
    connection: Connection, of: HeatmapIndex, first: int, last: int, rows: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the values of rows, in columns from `first` up to, excluding, `last`.

    Returns
    -------
    array of float, shape (rows, last - first)
        NaN where there is no finite value.
    """
    out = np.full((len(rows), last - first), np.nan)
    row_of, rank = _inverse(of.series[rows]), _inverse(of.partitions)
    m = s.metric.c
    query = sa.select(m.partition_id, m.series_id, m.value).where(
        s.holds(s.metric, of.commit), m.status == "finite"
    )
    wanted = of.series[rows].tolist()
    if len(wanted) <= _LISTED:
        query = query.where(m.series_id.in_(wanted))
    for some in chunks(_within(of, first, last).tolist(), _AT_ONCE):
        partition, series, value = fetch_columns(connection, query.where(m.partition_id.in_(some)))
        row = _looked_up(row_of, np.array(series, np.int64))
        place = rank[np.array(partition, np.int64)]
        here = np.argsort(place, kind="stable")  # the last of a column comes last and wins
        here = here[row[here] >= 0]
        out[row[here], of.column[place[here]] - first] = np.array(value, np.float64)[here]
    return out


_LISTED = 450
"""Maximum of series ids listed in a query; for more, all series are read."""
_AT_ONCE = 30
"""Partitions read at once, which bounds memory: their points are tuples for a moment."""


def change_levels(
    connection: Connection, of: HeatmapIndex, first: int, last: int, rows: NDArray[np.int64]
) -> NDArray[np.uint8]:
    """Return the levels of each value's relative change from the value before.

    Returns
    -------
    array of uint8, shape (rows, last - first)
        0 where there are not two values; else 128 is no change, with 127 steps above and below it
        for the square root of the relative change, ``(new - old) / max(|new|, |old|)``, so that
        small changes are visible: 255 is up from 0, or from a negative to a positive value, 1 is
        down to 0 or across it, and a quarter less is 64.
    """
    begin = max(0, first - LOOK_BACK)
    known = values(connection, of, begin, last, rows)
    there = ~np.isnan(known)
    places = np.where(there, np.arange(known.shape[1]), -1)
    latest = np.maximum.accumulate(places, axis=1)
    before = np.concatenate([np.full((len(known), 1), -1), latest[:, :-1]], axis=1)
    old = np.take_along_axis(known, np.maximum(before, 0), axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        change = (known - old) / np.maximum(np.abs(known), np.abs(old))
    change = np.clip(np.where(known == old, 0.0, change), -1, 1)
    level = np.rint(128 + 127 * np.sign(change) * np.sqrt(np.abs(change)))
    two = there & (before >= 0)
    return np.where(two, level, 0).astype(np.uint8)[:, first - begin :]


def _within(of: HeatmapIndex, first: int, last: int) -> NDArray[np.int64]:
    """Return the partition ids in a range of columns."""
    return of.partitions[(of.column >= first) & (of.column < last)]


def _inverse(ids: NDArray[np.int64], entry: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """Return a lookup table from id to entry, or to index if none given; -1 where there is none."""
    out = np.full(int(ids.max(initial=0)) + 1, -1, np.int64)
    out[ids] = np.arange(len(ids)) if entry is None else entry
    return out


def _looked_up(inverse: NDArray[np.int64], ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the entries of ids in a lookup table; -1 where there is none."""
    known = ids < len(inverse)
    return np.where(known, inverse[np.where(known, ids, 0)], -1)
