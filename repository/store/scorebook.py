"""Packed storage of detector scores in the database.

A row of the table holds one detector's scores of one partition for a block of up to 256 series with
consecutive ids, at one version: a bitmap of the scored series, and their numbers as packed arrays.
So a chart of all series reads a few thousand rows, not millions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import sqlalchemy as sa

from tidegauge.repository.numerics.arrays import MAX_SCORE
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.bulk import chunks, insert_rows
from tidegauge.repository.store.database import NextCommit

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sqlalchemy.engine import Connection

    from tidegauge.repository.numerics.arrays import Floats

BLOCK_SERIES = 256
_MAX_LISTED_BLOCKS = 64
"""For more blocks, all blocks are read."""
SCORE_COLUMNS = ("score", "expected", "lower", "upper")
_BLOB_COLUMNS = ("members", *SCORE_COLUMNS, "reason")
_FLOAT_TYPE = np.dtype("<f8")

_Key = tuple[int, str, int, int]
"""Partition, detector, block, version."""


@dataclass(frozen=True)
class Points:
    """Scored points; all arrays have one entry for each point.

    Attributes
    ----------
    partition, series, version : array of int
        The point's partition id, series id and version.
    score, expected, lower, upper : array of float
        As in `Scores`.
    reason : array of int
        A `Reason`.
    """

    partition: NDArray[np.int64]
    series: NDArray[np.int64]
    version: NDArray[np.int64]
    score: Floats
    expected: Floats
    lower: Floats
    upper: Floats
    reason: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.score)

    @property
    def p_value(self) -> Floats:
        """Probability of a value at least as extreme under the model; 0 for the highest score."""
        return np.where(self.score >= MAX_SCORE, 0.0, 10.0**-self.score)

    def take(self, indices: NDArray[Any]) -> Self:
        """Return the points at some indices."""
        return replace(self, **{f.name: getattr(self, f.name)[indices] for f in fields(self)})

    @classmethod
    def concatenate(cls, parts: Sequence[Points]) -> Points:
        """Concatenate points."""
        if not parts:
            integers, numbers = np.empty(0, dtype=np.int64), np.empty(0)
            nothing = np.empty(0, dtype=np.uint8)
            return cls(integers, integers, integers, numbers, numbers, numbers, numbers, nothing)
        arrays = (np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(cls))
        return cls(*arrays)


def pack(points: Points, detector: str) -> Iterator[tuple[_Key, tuple[bytes, ...]]]:
    """Yield points as rows of the table: key and blobs."""
    block = points.series // BLOCK_SERIES
    order = np.lexsort((points.series, points.version, block, points.partition))
    points, block = points.take(order), block[order]
    keys = np.stack([points.partition, block, points.version])
    ends = np.flatnonzero((keys[:, 1:] != keys[:, :-1]).any(axis=0)) + 1
    numbers = [getattr(points, name).astype(_FLOAT_TYPE) for name in SCORE_COLUMNS]
    positions = points.series % BLOCK_SERIES
    bounds = [0, *ends.tolist(), len(points)] if len(points) else []
    for first, last in pairwise(bounds):
        members = np.zeros(BLOCK_SERIES, dtype=bool)
        members[positions[first:last]] = True
        partition, number, version = (int(n) for n in keys[:, first])
        blobs = (
            np.packbits(members, bitorder="little").tobytes(),
            *(column[first:last].tobytes() for column in numbers),
            points.reason[first:last].tobytes(),
        )
        yield (partition, detector, number, version), blobs


def unpack(rows: Sequence[Any]) -> Points:
    """Decode rows of the table (key without detector, then blobs) into points."""
    if not rows:
        return Points.concatenate([])
    partition, block, version, members, *blobs = zip(*rows, strict=True)
    numbers = [np.frombuffer(b"".join(blob), dtype=_FLOAT_TYPE) for blob in blobs[:-1]]
    bits = np.frombuffer(b"".join(members), dtype=np.uint8).reshape(len(rows), -1)
    index, positions = np.nonzero(np.unpackbits(bits, axis=1, bitorder="little"))
    partitions, blocks, versions = (
        np.array(column, dtype=np.int64)[index] for column in (partition, block, version)
    )
    return Points(
        partitions,
        blocks * BLOCK_SERIES + positions,
        versions,
        *(numbers[0], numbers[1], numbers[2], numbers[3]),
        np.frombuffer(b"".join(blobs[-1]), dtype=np.uint8),
    )


def in_blocks(series: Iterable[int]) -> sa.ColumnElement[bool]:
    """Return a condition on rows that may hold any of some series, by id; true beyond 64 blocks."""
    blocks = sorted({number // BLOCK_SERIES for number in series})
    return s.score.c.block.in_(blocks) if len(blocks) <= _MAX_LISTED_BLOCKS else sa.true()


def _packed_scores(detector: str, commit: int | None = None) -> sa.Select[Any]:
    """Return the query of a detector's packed scores, now or as of a commit."""
    score = s.score.c
    columns = (score.partition_id, score.block, score.version)
    return sa.select(*columns, *(score[name] for name in _BLOB_COLUMNS)).where(
        score.detector == detector, s.holds(s.score, commit)
    )


def read(
    connection: Connection,
    dataset: int,
    detector: str,
    partitions: Sequence[int] | None = None,
    commit: int | None = None,
    series: Sequence[int] | None = None,
) -> Points:
    """Return a detector's scores, now or as of a commit.

    Parameters
    ----------
    connection : Connection
    dataset : int
    detector : str
    partitions : sequence of int, optional
        Ids of the partitions to read; all if not given.
    commit : int, optional
    series : sequence of int, optional
        Ids of series: reads only the rows that hold any of them, with all series of those rows.
    """
    score = s.score.c
    query = _packed_scores(detector, commit)
    if series is not None:
        query = query.where(in_blocks(series))
    if partitions is None:
        in_dataset = query.join_from(s.score, s.partition, s.partition.c.id == score.partition_id)
        return unpack(
            connection.execute(in_dataset.where(s.partition.c.dataset_id == dataset)).all()
        )
    rows: list[Any] = []
    for chunk in chunks(partitions):
        rows += connection.execute(query.where(score.partition_id.in_(chunk))).all()
    return unpack(rows)


def read_together(
    connection: Connection,
    detector: str,
    partitions: Mapping[int, Sequence[int]],
    counts: Mapping[int, int],
) -> Points:
    """Return a detector's current scores in several datasets, with a few statements.

    Parameters
    ----------
    connection : Connection
    detector : str
    partitions : mapping of int to sequence of int
        Ids of the partitions to read, by id of the dataset. If they are most of its partitions, all are read.
    counts : mapping of int to int
        Number of partitions of each dataset.
    """
    score, p = s.score.c, s.partition.c
    query = _packed_scores(detector)
    whole = [n for n, ids in partitions.items() if 2 * len(ids) > counts[n]]
    other = [i for n in partitions.keys() - set(whole) for i in partitions[n]]
    in_dataset = query.join_from(s.partition, s.score, p.id == score.partition_id)
    rows: list[Any] = []
    for chunk in chunks(whole):
        rows += connection.execute(in_dataset.where(p.dataset_id.in_(chunk))).all()
    for chunk in chunks(other):
        rows += connection.execute(query.where(score.partition_id.in_(chunk))).all()
    return unpack(rows)


def detectors(connection: Connection, dataset: int) -> list[str]:
    """Return the detectors that have scored a dataset, in order of name."""
    scored = s.scored.c
    query = sa.select(scored.detector).where(scored.dataset_id == dataset).order_by(scored.detector)
    return list(connection.execute(query).scalars())


def write(
    connection: Connection,
    detector: str,
    points: Points,
    partitions: Sequence[int],
    commit: NextCommit,
) -> None:
    """Store a detector's current scores of some partitions.

    Unchanged rows are not written again; rows that changed or are no longer produced are superseded.

    Parameters
    ----------
    connection : Connection
    detector : str
    points : Points
        Of these partitions only.
    partitions : sequence of int
        Ids of all partitions that were scored.
    commit : NextCommit
    """
    score = s.score.c
    stored: dict[_Key, tuple[bytes, ...]] = {}
    columns = (
        score.partition_id,
        score.block,
        score.version,
        *(score[name] for name in _BLOB_COLUMNS),
    )
    for chunk in chunks(partitions):
        query = sa.select(*columns).where(
            score.partition_id.in_(chunk), score.detector == detector, s.holds(s.score)
        )
        for row in connection.execute(query):
            stored[row[0], detector, row[1], row[2]] = tuple(map(bytes, row[3:]))
    packed = dict(pack(points, detector))
    ended = [key for key in stored if packed.get(key) != stored[key]]
    if ended:
        names = ("partition_id", "detector", "block", "version")
        change = sa.update(s.score).where(
            *(score[name] == sa.bindparam(f"ended_{name}") for name in names), s.holds(s.score)
        )
        keys = [{f"ended_{n}": x for n, x in zip(names, key, strict=True)} for key in ended]
        connection.execute(change.values(superseded_commit_id=commit.id), keys)
    new = [(*key, commit.id, *blobs) for key, blobs in packed.items() if stored.get(key) != blobs]
    key_columns = ("partition_id", "detector", "block", "version", "commit_id")
    insert_rows(connection, s.score, (*key_columns, *_BLOB_COLUMNS), new)
