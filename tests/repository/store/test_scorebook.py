"""Scores of detectors, packed and unpacked, written and read."""

import math
from dataclasses import fields

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.repository.store import schema as s
from tidegauge.repository.store import scorebook
from tidegauge.repository.store.database import NextCommit
from tidegauge.repository.store.scorebook import BLOCK_SERIES, SCORE_COLUMNS, Points, pack, unpack

IDS = ("partition", "series", "version")
number = st.one_of(st.floats(), st.just(math.nan))
point = st.tuples(
    st.integers(1, 2**40), st.integers(0, 2**40), st.integers(1, 2**40),
    number, number, number, number, st.integers(0, 13),
)  # fmt: skip
near = st.tuples(
    st.integers(1, 2), st.integers(0, 3 * BLOCK_SERIES), st.integers(1, 2),
    number, number, number, number, st.integers(0, 13),
)  # fmt: skip


def points(*rows):
    columns = zip(*rows, strict=True) if rows else [()] * 8
    kinds = [np.int64] * 3 + [np.float64] * 4 + [np.uint8]
    return Points(*(np.array(c, dtype=k) for c, k in zip(columns, kinds, strict=True)))


def rows_of(found):
    """Return the points in order, in comparable form: NaN equals NaN."""
    columns = [getattr(found, f.name).tolist() for f in fields(Points)]
    return sorted(tuple(map(repr, row)) for row in zip(*columns, strict=True))


def round_trip(given):
    return unpack([(p, b, v, *blobs) for (p, _, b, v), blobs in pack(given, "d")])


@given(st.lists(st.one_of(point, near), max_size=40, unique_by=lambda row: row[:3]))
def test_packed_points_are_unpacked_unchanged(rows):
    given = points(*rows)
    actual = round_trip(given)
    assert rows_of(actual) == rows_of(given)
    for f in fields(Points):
        assert getattr(actual, f.name).dtype == getattr(given, f.name).dtype


def test_a_row_holds_256_series_of_a_partition_and_version():
    every = [(1, n, 1, n / 7, 0, 0, 0, n % 14) for n in range(1000)]
    keys = [key for key, _ in pack(points(*every), "d")]
    assert keys == [(1, "d", 0, 1), (1, "d", 1, 1), (1, "d", 2, 1), (1, "d", 3, 1)]
    some = points((1, 255, 1, *[0] * 5), (1, 256, 1, *[0] * 5), (1, 257, 2, *[0] * 5))
    assert [key for key, _ in pack(some, "d")] == [(1, "d", 0, 1), (1, "d", 1, 1), (1, "d", 1, 2)]
    ((_, blobs),) = pack(points((3, 511, 1, 1.5, 2, 3, 4, 5)), "d")
    assert [len(blob) for blob in blobs] == [BLOCK_SERIES // 8, 8, 8, 8, 8, 1]
    assert blobs[0][-1] == 0x80


def test_the_order_of_points_does_not_matter():
    given = [(p, n, v, n / p, v, 0, 0, 1) for p in (1, 2) for n in range(0, 600, 7) for v in (1, 2)]
    shuffled = [given[k] for k in np.random.default_rng(0).permutation(len(given))]
    assert list(pack(points(*given), "d")) == list(pack(points(*shuffled), "d"))


def test_no_points_give_no_rows():
    assert list(pack(points(), "d")) == []
    assert len(unpack([])) == len(Points.concatenate([])) == len(round_trip(points())) == 0


def test_the_highest_score_has_p_value_zero():
    actual = points((1, 1, 1, 300, 0, 0, 0, 1), (1, 2, 1, 2, 0, 0, 0, 1))
    assert actual.p_value.tolist() == [0.0, 0.01]


# In the database


@pytest.fixture
def book(url, tmp_path):
    from tidegauge.repository.repository import Repository

    with Repository(url, artifacts=tmp_path / "artifacts") as repository:
        names = [f"ds=2013-01-{n:02}" for n in range(1, 4)]
        repository.record("d", "x", dict.fromkeys(names, 1.0))
        yield Book(repository.database)


class Book:
    def __init__(self, database):
        self.database = database
        with database.read() as connection:
            self.dataset = connection.execute(sa.select(s.dataset.c.id)).scalar_one()
            query = sa.select(s.partition.c.id).order_by(s.partition.c.time)
            self.partitions = list(connection.execute(query).scalars())

    def write(self, *rows, partitions=None, detector="a"):
        """Write, and return the commit; None if nothing had to be written."""
        of = self.partitions if partitions is None else partitions

        def work(connection):
            before = connection.execute(sa.select(s.clock.c.commits)).scalar_one()
            scorebook.write(connection, detector, points(*rows), of, NextCommit(connection))
            after = connection.execute(sa.select(s.clock.c.commits)).scalar_one()
            return after if after > before else None

        return self.database.write(work)

    def read(self, detector="a", **kwargs):
        with self.database.read() as connection:
            return rows_of(scorebook.read(connection, self.dataset, detector, **kwargs))

    def stored(self):
        with self.database.read() as connection:
            return connection.execute(sa.select(sa.func.count()).select_from(s.score)).scalar_one()

    def point(self, k, series, score, version=1):
        return (self.partitions[k], series, version, score, math.nan, -math.inf, 1e-310, 2)


def test_written_points_are_read(book):
    some = [book.point(k, n, n / 3) for k in range(3) for n in (1, 255, 256, 2**40)]
    book.write(*some)
    assert book.read() == rows_of(points(*some))
    first = [p for p in some if p[0] == book.partitions[0]]
    assert book.read(partitions=[book.partitions[0]]) == rows_of(points(*first))
    assert book.read("b") == book.read(partitions=[]) == []


def test_unchanged_points_are_not_written_again(book):
    some = [book.point(k, n, 1.0) for k in range(3) for n in (1, 300)]
    book.write(*some)
    assert book.stored() == 6
    assert book.write(*some) is None
    assert book.stored() == 6
    some[0] = book.point(0, 1, 2.0)
    assert book.write(*some) is not None
    assert book.stored() == 7  # one of six blocks
    assert book.read() == rows_of(points(*some))


def test_points_that_are_no_longer_scored_end(book):
    book.write(book.point(0, 1, 1.0), book.point(0, 2, 1.0), book.point(1, 1, 1.0))
    book.write(book.point(0, 2, 1.0))
    assert book.read() == rows_of(points(book.point(0, 2, 1.0)))
    book.write()
    assert book.read() == []


def test_partitions_and_detectors_that_were_not_scored_stay(book):
    book.write(book.point(0, 1, 1.0), book.point(1, 1, 1.0))
    book.write(book.point(0, 1, 9.0), detector="b")
    book.write(partitions=[book.partitions[1]])
    assert book.read() == rows_of(points(book.point(0, 1, 1.0)))
    assert book.read("b") == rows_of(points(book.point(0, 1, 9.0)))


def test_a_new_version_replaces_the_old(book):
    book.write(book.point(0, 1, 1.0), book.point(0, 2, 1.0))
    book.write(book.point(0, 1, 1.0, version=2), book.point(0, 2, 1.0))
    assert book.read() == rows_of(points(book.point(0, 1, 1.0, version=2), book.point(0, 2, 1.0)))


def test_an_earlier_view_shows_earlier_scores(book):
    old, new = [book.point(0, 1, 1.0), book.point(1, 1, 5.0)], [book.point(0, 1, 2.0)]
    first = book.write(*old)
    second = book.write(*new)
    third = book.write(*old)  # as it was before
    assert first < second < third
    assert book.read(commit=first) == rows_of(points(*old))
    assert book.read(commit=second) == rows_of(points(*new))
    assert book.read(commit=third) == book.read() == rows_of(points(*old))
    assert book.read(commit=first - 1) == []


def test_numbers_are_stored_to_the_bit(book):
    odd = np.array([-0.0, 5e-324, 1 / 3, math.inf, -math.inf, 1.7976931348623157e308])
    some = [(book.partitions[0], n, 1, *[x] * len(SCORE_COLUMNS), 0) for n, x in enumerate(odd, 1)]
    book.write(*some)
    with book.database.read() as connection:
        actual = scorebook.read(connection, book.dataset, "a")
    assert actual.lower.tobytes() == odd.tobytes()
    assert {getattr(actual, name).dtype for name in IDS} == {np.dtype(np.int64)}
