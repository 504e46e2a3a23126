"""All series of all datasets at a glance: what there is, and a byte for each point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sa

from repository import schema as s
from repository.anomalies.scorebook import BLOCK, in_blocks
from repository.bulk import chunks, fetch_columns
from repository.history import AsOf, commit_as_of
from repository.recorded import Watched

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sqlalchemy.engine import Connection

STEPS = 16
"""Levels of a score for each power of ten of its p-value."""
HIGHEST = 255
LOOK_BACK = 8
"""A value is compared with the last of so many columns before it."""
KEYS = ("dataset", "segment", "instance", "name", "analyzer")


@dataclass(frozen=True)
class Coded:
    """Text by numbers: the distinct words in order, and the place of each entry's word among them."""

    words: Sequence[str]
    code: NDArray[np.int32]

    @classmethod
    def of(cls, texts: Sequence[str]) -> Coded:
        """Code some texts.

        Examples
        --------
        >>> Coded.of(["b", "a", "b"])
        Coded(words=['a', 'b'], code=array([1, 0, 1], dtype=int32))
        """
        words = sorted(set(texts))
        place = {word: n for n, word in enumerate(words)}
        return cls(words, np.fromiter((place[t] for t in texts), np.int32, len(texts)))

    def taken(self, places: NDArray[Any]) -> Coded:
        """Return some of the entries."""
        return Coded(self.words, self.code[places])

    def word(self, place: int) -> str:
        """Return one entry."""
        return self.words[int(self.code[place])]


@dataclass(frozen=True)
class Panorama:
    """What there is to look at.

    Series are in order of dataset, column, name, segment and analyzer, those of detectors of whole partitions,
    which have scores but no values, after the others of their column. A column of the picture is a moment:
    all partitions of one time, whatever dataset they are of; partitions without a time follow by name. Where
    a series has several at one time, as numbers that were recorded for some regions have, the last by name counts.

    Attributes
    ----------
    series : array of int
        Ids, one for each row of the picture.
    dataset, segment, instance, name, analyzer : Coded
        Of each series.
    partitions : array of int
        Ids, in order of column and name.
    column : array of int
        Of each partition.
    labels : sequence of str
        Of each column: the time in UTC, or the partition's name.
    times : array of float
        Of each column: seconds since 1970, NaN where there is none.
    commit : int, optional
        The view is the one after this commit; of now if None.
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
        """Return what a series is, by `KEYS`."""
        return {name: coded.word(row) for name, coded in self.keys.items()}

    @property
    def keys(self) -> Mapping[str, Coded]:
        """What all series are, by `KEYS`."""
        parts = (self.dataset, self.segment, self.instance, self.name, self.analyzer)
        return dict(zip(KEYS, parts, strict=True))

    @property
    def shape(self) -> tuple[int, int]:
        """How many series and columns there are."""
        return len(self.series), len(self.labels)

    def rows_of(self, series: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the row of each series, -1 for those that are not in the picture."""
        return _looked_up(_inverse(self.series), series)

    def columns_of(self, partitions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the column of each partition, -1 for those that are not in the picture."""
        return _looked_up(_inverse(self.partitions, self.column), partitions)


def panorama(connection: Connection, as_of: AsOf = None) -> Panorama:
    """Return what there is, now or as it was known."""
    d, e, a = s.dataset.c, s.series.c, s.analyzer.c
    series = (
        sa.select(e.id, a.kind == Watched.__name__, d.name, a.segment, e.instance, e.name, a.text)
        .join_from(s.series, s.analyzer)
        .join(s.dataset)
    )
    columns = fetch_columns(connection, series)
    keys = dict(zip(KEYS, (Coded.of(column) for column in columns[2:]), strict=True))
    codes = {key: coded.code for key, coded in keys.items()}
    watched = np.array(columns[1], np.int8)
    # The last one first.
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
    return Panorama(
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
    connection: Connection, of: Panorama, first: int, last: int, rows: NDArray[np.int64]
) -> NDArray[np.uint8]:
    """Return how odd detectors found each point of some series, in columns from one up to before another.

    Returns
    -------
    array of uint8, shape (rows, last - first)
        0 where nobody scored, else 1 and the highest score in sixteenths, at most 255.
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
    connection: Connection, of: Panorama, first: int, last: int, rows: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the values of some series in columns from one up to before another.

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
        here = np.argsort(place, kind="stable")  # so that the last of a column comes last
        here = here[row[here] >= 0]
        out[row[here], of.column[place[here]] - first] = np.array(value, np.float64)[here]
    return out


_LISTED = 450
"""Series that are named in a query; of more, all are read."""
_AT_ONCE = 30
"""Partitions that are held at a time: their points are tuples for a moment."""


def change_levels(
    connection: Connection, of: Panorama, first: int, last: int, rows: NDArray[np.int64]
) -> NDArray[np.uint8]:
    """Return how far each value is from the one before it.

    Returns
    -------
    array of uint8, shape (rows, last - first)
        0 where there are not two values; else 128 is no change, and above and below lie 127 steps of the
        root of the relative change, ``(new - old) / max(|new|, |old|)``, so that small changes show: 255 is
        up from nothing or from below it, 1 down to nothing, and a quarter less is 64.
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


def _within(of: Panorama, first: int, last: int) -> NDArray[np.int64]:
    """Return the partitions of some columns."""
    return of.partitions[(of.column >= first) & (of.column < last)]


def _inverse(ids: NDArray[np.int64], entry: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """Return for every id up to the highest its entry, or its place; -1 where there is none."""
    out = np.full(int(ids.max(initial=0)) + 1, -1, np.int64)
    out[ids] = np.arange(len(ids)) if entry is None else entry
    return out


def _looked_up(inverse: NDArray[np.int64], ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the entries of some ids; -1 where there is none."""
    known = ids < len(inverse)
    return np.where(known, inverse[np.where(known, ids, 0)], -1)
