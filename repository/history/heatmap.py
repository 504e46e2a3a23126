"""Heat map of all series of all datasets, with one byte per point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sa

from tidegauge.repository.store import schema as s
from tidegauge.repository.store.bulk import chunks, fetch_columns
from tidegauge.repository.store.dimensions import Watched
from tidegauge.repository.store.queries import AsOf, commit_as_of
from tidegauge.repository.store.scorebook import BLOCK_SERIES, in_blocks

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
    owner : array of int
        Dataset id of each series.
    partitions : array of int
        Partition ids, in order of column and name.
    within : array of int
        Dataset id of each partition.
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
    owner: NDArray[np.int64]
    partitions: NDArray[np.int64]
    within: NDArray[np.int64]
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


def panorama(
    connection: Connection, as_of: AsOf = None, dataset: str | None = None
) -> HeatmapIndex:
    """Read the rows and columns of the heat map of all datasets or one, now or as of a past commit."""
    d, e, a = s.dataset.c, s.series.c, s.analyzer.c
    watched = a.kind == Watched.__name__
    series = (
        sa.select(e.id, d.id, watched, d.name, a.segment, e.instance, e.name, a.text)
        .join_from(s.series, s.analyzer)
        .join(s.dataset)
    )
    if dataset is not None:
        series = series.where(d.name == dataset)
    ids, owner, late, *texts = fetch_columns(connection, series)
    keys = dict(zip(KEYS, map(Coded.from_texts, texts), strict=True))
    codes = {key: coded.code for key, coded in keys.items()}
    # lexsort takes the most significant key last.
    order: list[NDArray[Any]] = [codes["analyzer"], codes["segment"], codes["name"]]
    order += [np.array(late, np.int8), codes["instance"], codes["dataset"]]
    places = np.lexsort(order)
    commit = commit_as_of(connection, as_of)
    sorted_keys: dict[str, Any] = {key: coded.taken(places) for key, coded in keys.items()}
    return HeatmapIndex(
        series=np.array(ids, np.int64)[places],
        owner=np.array(owner, np.int64)[places],
        **sorted_keys,
        **_columns(connection, commit, dataset),
        commit=commit,
    )


def _columns(connection: Connection, commit: int | None, dataset: str | None) -> dict[str, Any]:
    """Return the attributes of `HeatmapIndex` that are about partitions, now or as of a commit."""
    p = s.partition.c
    query = sa.select(p.id, p.dataset_id, p.name, p.time)
    if dataset is not None:
        query = query.join_from(s.partition, s.dataset).where(s.dataset.c.name == dataset)
    if commit is not None:
        then = sa.select(s.commit.c.committed_at).where(s.commit.c.id == commit)
        query = query.where(p.first_seen_at <= then.scalar_subquery())
    # There may be a million partitions, but few different names and times: only these are looked at.
    ids, within, names, stored = fetch_columns(connection, query)
    read = p.time.type.dialect_impl(connection.dialect).result_processor(connection.dialect, None)
    time_of = {raw: raw if read is None else read(raw) for raw in set(stored)}
    name = Coded.from_texts(names)
    times = sorted({time for time in time_of.values() if time is not None})
    at = {time: n for n, time in enumerate(times)}
    place_of = {raw: at.get(time, -1) for raw, time in time_of.items()}
    column = np.fromiter((place_of[raw] for raw in stored), np.int64, len(stored))
    timeless = np.unique(name.code[column < 0])  # sorted by name
    column = np.where(column < 0, len(times) + np.searchsorted(timeless, name.code), column)
    order = np.lexsort((name.code, column))
    others = [name.words[code] for code in timeless.tolist()]
    return {
        "partitions": np.array(ids, np.int64)[order],
        "within": np.array(within, np.int64)[order],
        "column": column[order],
        "labels": [*map(_label, times), *others],
        "times": np.array([*(time.timestamp() for time in times), *(np.nan for _ in others)]),
    }


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
    width = last - first
    out = np.zeros(len(rows) * width, np.uint8)
    row_of = _inverse(of.series[rows])
    column_of = _inverse(of.partitions, of.column)
    c = s.score.c
    query = sa.select(c.partition_id, c.block, c.members, c.score).where(
        s.holds(s.score, of.commit), in_blocks(of.series[rows].tolist())
    )
    for some in chunks(_within(of, first, last, rows).tolist()):
        # All of them at once: thousands of rows of the database hold up to 256 scores each.
        partition, block, members, scores = fetch_columns(
            connection, query.where(c.partition_id.in_(some))
        )
        bits = np.unpackbits(np.frombuffer(b"".join(members), np.uint8), bitorder="little")
        line, place = np.divmod(np.flatnonzero(bits), BLOCK_SERIES)
        row = _looked_up(row_of, np.array(block, np.int64)[line] * BLOCK_SERIES + place)
        column = column_of[np.array(partition, np.int64)][line] - first
        level = 1 + np.minimum(np.frombuffer(b"".join(scores), "<f8") * STEPS, HIGHEST - 1)
        here = row >= 0
        np.maximum.at(out, row[here] * width + column[here], level[here].astype(np.uint8))
    return out.reshape(len(rows), width)


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
    finite = sa.select(m.partition_id, m.series_id, m.value).where(
        s.holds(s.metric, of.commit), m.status == "finite"
    )
    for mine in _by_dataset(of, rows):
        wanted = of.series[mine].tolist()
        listed = len(wanted) <= _LISTED
        query = finite.where(m.series_id.in_(wanted)) if listed else finite
        at_once = max(_AT_ONCE, _POINTS // len(wanted)) if listed else _AT_ONCE
        for some in chunks(_within(of, first, last, mine).tolist(), at_once):
            partition, series, value = fetch_columns(
                connection, query.where(m.partition_id.in_(some))
            )
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
_POINTS = 15_000
"""Points read at once of a few series, for the same reason."""


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


def _within(of: HeatmapIndex, first: int, last: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the ids of the partitions of some series in a range of columns."""
    here = (of.column >= first) & (of.column < last)
    return of.partitions[here & np.isin(of.within, np.unique(of.owner[rows]))]


def _by_dataset(of: HeatmapIndex, rows: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Split rows by dataset."""
    owner = of.owner[rows]
    order = np.argsort(owner, kind="stable")
    parts = np.split(order, 1 + np.flatnonzero(np.diff(owner[order])))
    return [rows[some] for some in parts if len(some)]


def _inverse(ids: NDArray[np.int64], entry: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """Return a lookup table from id to entry, or to index if none given; -1 where there is none."""
    out = np.full(int(ids.max(initial=0)) + 1, -1, np.int64)
    out[ids] = np.arange(len(ids)) if entry is None else entry
    return out


def _looked_up(inverse: NDArray[np.int64], ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the entries of ids in a lookup table; -1 where there is none."""
    known = ids < len(inverse)
    return np.where(known, inverse[np.where(known, ids, 0)], -1)
