"""Statistics of pairs of numbers from Arrow batches, computed in Spark's Python workers by one job.

Both functions for ``mapInArrow`` are self-contained so that they pickle whole: the workers need
pyarrow, NumPy and datasketches, but not tidegauge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tidegauge.analyzers.scan.capabilities import to_arrow
from tidegauge.analyzers.scan.grouping import Groups
from tidegauge.analyzers.scan.jobs import COLUMN_PREFIX, Answers, ScanJob
from tidegauge.consistency.compare.measures import COUNTS, MATCHED, OfPairs

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


PARTIAL = "key array<string>, statistic int, counts array<long>, sums array<double>, sketch binary"
"""Columns of partial results. A row has a group's counts and sums of all statistics, or one sketch."""
VALUES = 4_000_000
"""Number of values that are computed at once: small batches have few values of a group, which cost more."""
MOST_SKETCHES = 20_000
"""Number of sketches that a task holds before it hands them on; those of the usual size take 5 kB."""
MOST_STATISTICS = 1_000_000
"""Number of statistics of all groups that a task holds before it hands them on; each takes 64 bytes."""


def pair_scanner(  # noqa: C901, PLR0915 - must be self-contained, see above
    keys: int, segments: int, statistics: Sequence[tuple[str, int, int, tuple[float, ...]]]
) -> Any:
    """Return a function for ``mapInArrow`` that computes statistics of pairs of numbers by group.

    Its input columns are the keys as text, then a text for each segment set, then the numbers. Its
    output is partial results; at most one segment's text is not null. A group may have several.

    Parameters
    ----------
    keys, segments : int
        Number of key columns and of segment sets.
    statistics : sequence of (str, int, int, tuple of float)
        The kind, the logged and the backfilled column and the options of each
        `tidegauge.consistency.compare.measures.PairStatistic`.
    """
    at_once, most_sketches, most = VALUES, MOST_SKETCHES, MOST_STATISTICS

    def scan(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:  # noqa: C901, PLR0915
        import datasketches
        import numpy as np
        import pyarrow as pa

        counts = np.zeros((0, len(statistics), 5), np.int64)
        sums = np.zeros((0, len(statistics), 3))
        places: dict[tuple[str | None, ...], int] = {}
        sketches: dict[tuple[int, int], Any] = {}

        def blocks() -> Iterator[pa.RecordBatch]:
            """Put batches together."""
            held: list[pa.RecordBatch] = []
            for batch in batches:
                if not batch.num_rows:
                    continue
                held.append(batch)
                if sum(one.num_rows for one in held) * batch.num_columns >= at_once:
                    yield from pa.Table.from_batches(held).combine_chunks().to_batches()
                    held = []
            if held:
                yield from pa.Table.from_batches(held).combine_chunks().to_batches()

        def codes_of(block: pa.RecordBatch, chosen: Iterable[int]) -> Any:
            """Return each row's group by the chosen columns, numbered from 0."""
            codes = np.zeros(block.num_rows, np.int64)
            for i in chosen:
                texts = block.column(i).dictionary_encode()
                codes = codes * len(texts.dictionary) + texts.indices.to_numpy()
                codes = np.unique(codes, return_inverse=True)[1].reshape(-1)
            return codes

        def parts(block: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
            """Split a block that has too many groups."""
            groups = 1 + int(codes_of(block, range(keys + segments)).max())
            if groups > 1 and groups * len(statistics) > most:
                half = block.num_rows // 2
                yield from parts(block[:half])
                yield from parts(block[half:])
            else:
                yield block

        def groups_of(block: pa.RecordBatch, chosen: Sequence[int]) -> tuple[Any, Any, Any]:
            """Return each row's group by the chosen columns, the rows in their order, and the places."""
            codes = codes_of(block, chosen)
            firsts = pa.array(np.unique(codes, return_index=True)[1])
            nothing = [None] * len(firsts)
            texts_of = {i: block.column(i).take(firsts).to_pylist() for i in chosen}
            columns = [texts_of.get(i, nothing) for i in range(keys + segments)]
            found = zip(*columns, strict=True) if columns else [()]
            own = np.array([places.setdefault(key, len(places)) for key in found])
            return codes, np.argsort(codes, kind="stable"), own

        def numbers_of(column: Any) -> tuple[Any, Any]:
            """Return a column's numbers, 0 for null, and where there are any."""
            there = column.is_valid().to_numpy(zero_copy_only=False)
            numbers = column.fill_null(0).to_numpy(zero_copy_only=False)
            return numbers if numbers.dtype.kind == "f" else numbers.astype(np.int64), there

        def doubles(numbers: Any) -> Any:
            return numbers.astype(np.float64)

        def as_compared(a: Any, b: Any) -> tuple[Any, Any]:
            """Return a float and a double as floats, an integer and a double as doubles."""
            if a.dtype == b.dtype:
                return a, b
            of = np.float32 if a.dtype.kind == b.dtype.kind else np.float64
            return a.astype(of), b.astype(of)

        def minus(a: Any, b: Any) -> Any:
            """Subtract integers exactly, and as doubles if the difference is too large for a long."""
            a, b = as_compared(a, b)
            inexact = doubles(a) - doubles(b)
            if a.dtype.kind == "f" or b.dtype.kind == "f":
                return inexact
            exact = a - b
            overflowed = ((a ^ b) & (a ^ exact)) < 0
            return np.where(overflowed, inexact, doubles(exact))

        def equal(a: Any, b: Any, absolute: float, relative: float) -> Any:
            """Compare as `tidegauge.consistency.compare.equality.same` does."""
            a, b = as_compared(a, b)
            same = (a == b) | (np.isnan(a) & np.isnan(b))
            if absolute or relative:
                apart = np.abs(minus(a, b))
                size = np.maximum(np.abs(doubles(a)), np.abs(doubles(b)))
                same |= (apart < np.inf) & (apart <= np.maximum(absolute, relative * size))
            return same

        def statistic_of(
            kind: str,
            first: tuple[Any, Any],
            second: tuple[Any, Any],
            options: Sequence[float],
            delta: Any,
        ) -> tuple[Sequence[Any], Sequence[Any], Any]:
            """Return the rows to count, the numbers to add over the first of these, and what to sketch."""
            (a, in_a), (b, in_b) = first, second
            both = in_a & in_b
            if kind == "cells":
                every, unlike = np.ones(len(a), bool), both & ~equal(a, b, *options)
                return (every, unlike, in_b & ~in_a, in_a & ~in_b, ~in_a & ~in_b), (), None
            if kind == "differences":
                one, other = as_compared(a, b)
                apart, size = np.abs(delta), np.abs(doubles(one)) + np.abs(doubles(other))
                ratio = np.divide(apart, size, out=np.zeros(len(size)), where=size != 0)
                finite = both & (size < np.inf)
                rows = (finite, both & ~finite, in_a & np.isnan(a), in_b & np.isnan(b))
                return rows, (apart, size, ratio), None
            equals = both & (delta == 0)
            if kind == "equal":
                values, there = doubles(a), equals
            elif kind == "delta":
                values, there = delta, both & ~equals
            else:
                values, there = (doubles(a), in_a) if kind == "logged" else (doubles(b), in_b)
                there = there & ~equals
            return (), (), (values, there & ~np.isnan(values))

        def add(block: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
            """Add a block's rows, and yield sketches that become too many."""
            nonlocal counts, sums
            sets = [range(keys), *([*range(keys), keys + i] for i in range(segments))]
            groups = [groups_of(block, chosen) for chosen in sets]
            new = ((0, len(places) - len(counts)), (0, 0), (0, 0))
            counts, sums = np.pad(counts, new), np.pad(sums, new)
            columns = [numbers_of(column) for column in block.columns[keys + segments :]]
            known, delta = None, None  # of the last pair: statistics of a pair follow each other
            for number, (kind, first, second, options) in enumerate(statistics):
                with np.errstate(all="ignore"):
                    if known != (first, second):
                        known, delta = (first, second), minus(columns[second][0], columns[first][0])
                    counted, added, sketched = statistic_of(
                        kind, columns[first], columns[second], options, delta
                    )
                    for codes, _, own in groups:
                        for i, rows in enumerate(counted):
                            counts[own, number, i] += np.bincount(codes[rows], minlength=len(own))
                        for i, terms in enumerate(added):
                            found = np.bincount(codes[counted[0]], terms[counted[0]], len(own))
                            sums[own, number, i] += found
                for group in groups if sketched is not None else ():
                    sketch(number, int(options[0]), group, *sketched)
                    if len(sketches) > most_sketches:
                        yield sketched_so_far()

        def sketch(number: int, size: int, group: Any, values: Any, there: Any) -> None:
            codes, order, own = group
            in_order = values[order[there[order]]]
            start = 0
            ends = np.cumsum(np.bincount(codes[there], minlength=len(own)))
            for place, end in zip(own.tolist(), ends.tolist(), strict=True):
                if end > start:
                    found = sketches.get((place, number))
                    if found is None:
                        found = sketches[place, number] = datasketches.kll_doubles_sketch(size)
                    found.update(in_order[start:end])
                start = end

        def sketched_so_far() -> pa.RecordBatch:
            """Return the sketches, and forget them."""
            names = list(places)
            columns = {
                "key": pa.array([names[place] for place, _ in sketches], pa.list_(pa.string())),
                "statistic": pa.array([number for _, number in sketches], pa.int32()),
                "counts": pa.nulls(len(sketches), pa.list_(pa.int64())),
                "sums": pa.nulls(len(sketches), pa.list_(pa.float64())),
                "sketch": pa.array([one.serialize() for one in sketches.values()], pa.binary()),
            }
            sketches.clear()
            return pa.RecordBatch.from_pydict(columns)

        def results() -> Iterator[pa.RecordBatch]:
            """Yield the partial results, and forget them."""
            nonlocal counts, sums
            yield sketched_so_far()
            names = list(places)
            columns = {
                "key": pa.array(names, pa.list_(pa.string())),
                "statistic": pa.nulls(len(names), pa.int32()),
                "counts": pa.array(list(counts.reshape(len(names), -1)), pa.list_(pa.int64())),
                "sums": pa.array(list(sums.reshape(len(names), -1)), pa.list_(pa.float64())),
                "sketch": pa.nulls(len(names), pa.binary()),
            }
            counts, sums = counts[:0], sums[:0]
            places.clear()
            yield pa.RecordBatch.from_pydict(columns)

        for block in blocks():
            for part in parts(block):
                yield from add(part)
                if len(places) * len(statistics) > most:
                    yield from results()
        if places:
            yield from results()

    return scan


def pair_merger() -> Any:
    """Return a function for ``mapInArrow`` that merges partial results of `pair_scanner`."""

    def merge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import datasketches
        import numpy as np
        import pyarrow as pa

        read = datasketches.kll_doubles_sketch.deserialize
        numbers: dict[tuple[str | None, ...], list[Any]] = {}
        sketches: dict[tuple[tuple[str | None, ...], int], Any] = {}
        schema = None
        for batch in batches:
            schema = batch.schema
            keys, statistics, _, _, packed = (column.to_pylist() for column in batch.columns)
            for row, (texts, statistic, sketch) in enumerate(
                zip(keys, statistics, packed, strict=True)
            ):
                key = tuple(texts)
                if statistic is None:
                    own = [np.array(batch.column(i)[row].values) for i in (2, 3)]
                    if key in numbers:
                        with np.errstate(over="ignore", invalid="ignore"):
                            own = [x + y for x, y in zip(numbers[key], own, strict=True)]
                    numbers[key] = own
                elif (key, statistic) not in sketches:
                    sketches[key, statistic] = sketch
                else:
                    known = sketches[key, statistic]
                    if isinstance(known, bytes):  # most are alone and stay as they are
                        known = sketches[key, statistic] = read(known)
                    known.merge(read(sketch))
        if schema is not None:
            rows = [(key, None, *own, None) for key, own in numbers.items()]
            rows += [
                (key, number, None, None, one if isinstance(one, bytes) else one.serialize())
                for (key, number), one in sketches.items()
            ]
            columns = zip(*rows, strict=True)
            arrays = [
                pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return merge


@dataclass(frozen=True)
class NumberPairs(ScanJob):
    """Statistics of pairs of numbers over matched rows.

    Each task makes partial results of all groups, which are shuffled by group and merged, so that the
    driver receives one of each, however many tasks there are.
    """

    requests: tuple[OfPairs, ...]
    kind: ClassVar[str] = "pairs of numbers"

    def run(self, data: DataFrame, groups: Groups) -> Answers:
        """Compute all statistics by group."""
        numbers = {of: i for i, of in enumerate(dict.fromkeys(one.of for one in self.requests))}
        columns = dict.fromkeys(sql for of in numbers for sql in (of.logged, of.backfilled))
        at = {sql: i for i, sql in enumerate(columns)}
        values = [f"{sql} AS {COLUMN_PREFIX}v{i}" for sql, i in at.items()]
        keyed = groups.with_keys(data.where(MATCHED), *values, as_text=True)
        keyed = keyed.select(*groups.names, *(f"{COLUMN_PREFIX}v{i}" for i in at.values()))
        wanted = [(of.kind, at[of.logged], at[of.backfilled], of.options) for of in numbers]
        scanner = pair_scanner(len(groups.by), len(groups.segments), wanted)
        partial = keyed.mapInArrow(scanner, PARTIAL)
        merged = partial.repartition("key", "statistic").mapInArrow(pair_merger(), PARTIAL)
        sketches = {numbers[one.of]: one for one in self.requests if one.of.kind not in COUNTS}
        counted = [one for one in self.requests if one.of.kind in COUNTS]
        answers: Answers = {request: {} for request in self.requests}
        rows = (column.to_pylist() for column in to_arrow(merged).columns)
        for texts, number, counts, sums, sketch in zip(*rows, strict=True):
            key = groups.key_of(texts)
            if number is not None:
                answers[sketches[number]][key] = [sketch]
                continue
            for request in counted:
                i, beyond = numbers[request.of], request.place - COUNTS[request.of.kind]
                cell = counts[5 * i + request.place] if beyond < 0 else sums[3 * i + beyond]
                answers[request][key] = cell
        return answers
