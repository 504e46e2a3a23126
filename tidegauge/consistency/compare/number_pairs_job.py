"""Statistics of pairs of numbers, computed from Arrow batches in Spark's Python workers by one job.

Both functions for ``mapInArrow`` are self-contained, so that Spark can pickle them: the workers need
pyarrow, NumPy and datasketches, but not tidegauge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tidegauge.analyzers.scan.capabilities import to_arrow
from tidegauge.analyzers.scan.grouping import Groups
from tidegauge.analyzers.scan.jobs import COLUMN_PREFIX, Answers, ScanJob
from tidegauge.consistency.compare.measures import COUNTS_BY_STATISTIC, IS_MATCHED, OfPairs

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


PARTIAL_COLUMNS = (
    "key array<string>, statistic int, counts array<long>, sums array<double>, sketch binary"
)
"""Columns of partial results. A row has the counts and sums of all statistics of a group, or one sketch."""
VALUES_PER_BLOCK = 4_000_000
"""Values that are computed together. Small batches have few values of a group and cost more for each value."""
MAX_SKETCHES_PER_TASK = 20_000
"""A task yields its sketches when it has more. A sketch of the usual size takes 5 kB."""
MAX_STATISTICS_PER_TASK = 1_000_000
"""A task yields its statistics when it has more, over all groups. Each takes 64 bytes."""


def pair_scanner(  # noqa: C901, PLR0915 - must be self-contained, see above
    keys: int, segments: int, statistics: Sequence[tuple[str, int, int, tuple[float, ...]]]
) -> Any:
    """Return a function for ``mapInArrow`` that computes statistics of pairs of numbers by group.

    Its input columns are the keys as strings, a string for each segment set, and the numbers. Its output
    is partial results, with at most one segment set that is not null. A group can have several results.

    Parameters
    ----------
    keys, segments : int
        Number of key columns and of segment sets.
    statistics : sequence of (str, int, int, tuple of float)
        Kind, logged column, backfilled column and options of each
        `tidegauge.consistency.compare.measures.PairStatistic`.
    """
    values_per_block, max_sketches, max_statistics = (
        VALUES_PER_BLOCK,
        MAX_SKETCHES_PER_TASK,
        MAX_STATISTICS_PER_TASK,
    )

    def scan(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:  # noqa: C901, PLR0915
        import datasketches
        import numpy as np
        import pyarrow as pa

        counts = np.zeros((0, len(statistics), 5), np.int64)
        sums = np.zeros((0, len(statistics), 3))
        index_by_key: dict[tuple[str | None, ...], int] = {}
        sketches: dict[tuple[int, int], Any] = {}

        def blocks() -> Iterator[pa.RecordBatch]:
            """Combine batches into blocks."""
            pending: list[pa.RecordBatch] = []
            for batch in batches:
                if not batch.num_rows:
                    continue
                pending.append(batch)
                if sum(part.num_rows for part in pending) * batch.num_columns >= values_per_block:
                    yield from pa.Table.from_batches(pending).combine_chunks().to_batches()
                    pending = []
            if pending:
                yield from pa.Table.from_batches(pending).combine_chunks().to_batches()

        def codes_of(block: pa.RecordBatch, chosen: Iterable[int]) -> Any:
            """Return each row's group by the chosen columns, numbered from 0."""
            codes = np.zeros(block.num_rows, np.int64)
            for i in chosen:
                strings = block.column(i).dictionary_encode()
                codes = codes * len(strings.dictionary) + strings.indices.to_numpy()
                codes = np.unique(codes, return_inverse=True)[1].reshape(-1)
            return codes

        def parts(block: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
            """Split a block that has too many groups."""
            groups = 1 + int(codes_of(block, range(keys + segments)).max())
            if groups > 1 and groups * len(statistics) > max_statistics:
                half = block.num_rows // 2
                yield from parts(block[:half])
                yield from parts(block[half:])
            else:
                yield block

        def groups_of(block: pa.RecordBatch, chosen: Sequence[int]) -> tuple[Any, Any, Any]:
            """Return each row's group by the chosen columns, the rows sorted by group, and the groups' indexes."""
            codes = codes_of(block, chosen)
            firsts = pa.array(np.unique(codes, return_index=True)[1])
            nulls = [None] * len(firsts)
            strings_by_column = {i: block.column(i).take(firsts).to_pylist() for i in chosen}
            columns = [strings_by_column.get(i, nulls) for i in range(keys + segments)]
            row_keys = zip(*columns, strict=True) if columns else [()]
            indexes = np.array(
                [index_by_key.setdefault(key, len(index_by_key)) for key in row_keys]
            )
            return codes, np.argsort(codes, kind="stable"), indexes

        def numbers_of(column: Any) -> tuple[Any, Any]:
            """Return a column's numbers, with 0 for null, and a mask of valid values."""
            valid = column.is_valid().to_numpy(zero_copy_only=False)
            numbers = column.fill_null(0).to_numpy(zero_copy_only=False)
            return numbers if numbers.dtype.kind == "f" else numbers.astype(np.int64), valid

        def doubles(numbers: Any) -> Any:
            return numbers.astype(np.float64)

        def as_compared(a: Any, b: Any) -> tuple[Any, Any]:
            """Return a float and a double as floats, an integer and a double as doubles."""
            if a.dtype == b.dtype:
                return a, b
            dtype = np.float32 if a.dtype.kind == b.dtype.kind else np.float64
            return a.astype(dtype), b.astype(dtype)

        def minus(a: Any, b: Any) -> Any:
            """Subtract integers exactly, or as doubles if the difference does not fit into a long."""
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
                distance = np.abs(minus(a, b))
                size = np.maximum(np.abs(doubles(a)), np.abs(doubles(b)))
                same |= (distance < np.inf) & (distance <= np.maximum(absolute, relative * size))
            return same

        def statistic_of(
            kind: str,
            logged: tuple[Any, Any],
            backfilled: tuple[Any, Any],
            options: Sequence[float],
            delta: Any,
        ) -> tuple[Sequence[Any], Sequence[Any], Any]:
            """Return the rows to count, the numbers to add over the first of them, and the values to sketch."""
            (a, in_a), (b, in_b) = logged, backfilled
            both = in_a & in_b
            if kind == "cells":
                all_rows, unlike = np.ones(len(a), bool), both & ~equal(a, b, *options)
                return (all_rows, unlike, in_b & ~in_a, in_a & ~in_b, ~in_a & ~in_b), (), None
            if kind == "differences":
                left, right = as_compared(a, b)
                distance, size = np.abs(delta), np.abs(doubles(left)) + np.abs(doubles(right))
                ratio = np.divide(distance, size, out=np.zeros(len(size)), where=size != 0)
                finite = both & (size < np.inf)
                rows = (finite, both & ~finite, in_a & np.isnan(a), in_b & np.isnan(b))
                return rows, (distance, size, ratio), None
            equals = both & (delta == 0)
            if kind == "equal":
                values, mask = doubles(a), equals
            elif kind == "delta":
                values, mask = delta, both & ~equals
            else:
                values, mask = (doubles(a), in_a) if kind == "logged" else (doubles(b), in_b)
                mask = mask & ~equals
            return (), (), (values, mask & ~np.isnan(values))

        def add(block: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
            """Add a block's rows. Yield the sketches if there are too many."""
            nonlocal counts, sums
            sets = [range(keys), *([*range(keys), keys + i] for i in range(segments))]
            groups = [groups_of(block, chosen) for chosen in sets]
            new = ((0, len(index_by_key) - len(counts)), (0, 0), (0, 0))
            counts, sums = np.pad(counts, new), np.pad(sums, new)
            columns = [numbers_of(column) for column in block.columns[keys + segments :]]
            previous, delta = (
                None,
                None,
            )  # of the previous pair, because statistics of a pair are adjacent
            for number, (kind, logged, backfilled, options) in enumerate(statistics):
                with np.errstate(all="ignore"):
                    if previous != (logged, backfilled):
                        previous, delta = (
                            (logged, backfilled),
                            minus(columns[backfilled][0], columns[logged][0]),
                        )
                    counted, added, sketched = statistic_of(
                        kind, columns[logged], columns[backfilled], options, delta
                    )
                    for codes, _, indexes in groups:
                        for i, rows in enumerate(counted):
                            counts[indexes, number, i] += np.bincount(
                                codes[rows], minlength=len(indexes)
                            )
                        for i, terms in enumerate(added):
                            group_sums = np.bincount(
                                codes[counted[0]], terms[counted[0]], len(indexes)
                            )
                            sums[indexes, number, i] += group_sums
                for group in groups if sketched is not None else ():
                    sketch(number, int(options[0]), group, *sketched)
                    if len(sketches) > max_sketches:
                        yield sketched_so_far()

        def sketch(number: int, size: int, group: Any, values: Any, mask: Any) -> None:
            codes, order, indexes = group
            in_order = values[order[mask[order]]]
            start = 0
            ends = np.cumsum(np.bincount(codes[mask], minlength=len(indexes)))
            for index, end in zip(indexes.tolist(), ends.tolist(), strict=True):
                if end > start:
                    sketched = sketches.get((index, number))
                    if sketched is None:
                        sketched = sketches[index, number] = datasketches.kll_doubles_sketch(size)
                    sketched.update(in_order[start:end])
                start = end

        def sketched_so_far() -> pa.RecordBatch:
            """Return the sketches and clear them."""
            names = list(index_by_key)
            columns = {
                "key": pa.array([names[index] for index, _ in sketches], pa.list_(pa.string())),
                "statistic": pa.array([number for _, number in sketches], pa.int32()),
                "counts": pa.nulls(len(sketches), pa.list_(pa.int64())),
                "sums": pa.nulls(len(sketches), pa.list_(pa.float64())),
                "sketch": pa.array([item.serialize() for item in sketches.values()], pa.binary()),
            }
            sketches.clear()
            return pa.RecordBatch.from_pydict(columns)

        def results() -> Iterator[pa.RecordBatch]:
            """Yield the partial results and clear them."""
            nonlocal counts, sums
            yield sketched_so_far()
            names = list(index_by_key)
            columns = {
                "key": pa.array(names, pa.list_(pa.string())),
                "statistic": pa.nulls(len(names), pa.int32()),
                "counts": pa.array(list(counts.reshape(len(names), -1)), pa.list_(pa.int64())),
                "sums": pa.array(list(sums.reshape(len(names), -1)), pa.list_(pa.float64())),
                "sketch": pa.nulls(len(names), pa.binary()),
            }
            counts, sums = counts[:0], sums[:0]
            index_by_key.clear()
            yield pa.RecordBatch.from_pydict(columns)

        for block in blocks():
            for part in parts(block):
                yield from add(part)
                if len(index_by_key) * len(statistics) > max_statistics:
                    yield from results()
        if index_by_key:
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
            for row, (strings, statistic, sketch) in enumerate(
                zip(keys, statistics, packed, strict=True)
            ):
                key = tuple(strings)
                if statistic is None:
                    arrays_ = [np.array(batch.column(i)[row].values) for i in (2, 3)]
                    if key in numbers:
                        with np.errstate(over="ignore", invalid="ignore"):
                            arrays_ = [x + y for x, y in zip(numbers[key], arrays_, strict=True)]
                    numbers[key] = arrays_
                elif (key, statistic) not in sketches:
                    sketches[key, statistic] = sketch
                else:
                    merged = sketches[key, statistic]
                    if isinstance(
                        merged, bytes
                    ):  # most sketches are never merged and stay serialized
                        merged = sketches[key, statistic] = read(merged)
                    merged.merge(read(sketch))
        if schema is not None:
            rows = [(key, None, *arrays_, None) for key, arrays_ in numbers.items()]
            rows += [
                (
                    key,
                    number,
                    None,
                    None,
                    packed_sketch
                    if isinstance(packed_sketch, bytes)
                    else packed_sketch.serialize(),
                )
                for (key, number), packed_sketch in sketches.items()
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

    Each task yields partial results of all groups, which are shuffled by group and merged. The driver
    receives one result for each group, regardless of the number of tasks.
    """

    requests: tuple[OfPairs, ...]
    kind: ClassVar[str] = "pairs of numbers"

    def run(self, data: DataFrame, groups: Groups) -> Answers:
        """Compute all statistics by group."""
        numbers = {
            statistic: i
            for i, statistic in enumerate(
                dict.fromkeys(request_.statistic for request_ in self.requests)
            )
        }
        columns = dict.fromkeys(
            sql for statistic in numbers for sql in (statistic.logged, statistic.backfilled)
        )
        index_of = {sql: i for i, sql in enumerate(columns)}
        values = [f"{sql} AS {COLUMN_PREFIX}v{i}" for sql, i in index_of.items()]
        keyed = groups.with_keys(data.where(IS_MATCHED), *values, as_text=True)
        keyed = keyed.select(*groups.names, *(f"{COLUMN_PREFIX}v{i}" for i in index_of.values()))
        statistics = [
            (
                statistic.kind,
                index_of[statistic.logged],
                index_of[statistic.backfilled],
                statistic.options,
            )
            for statistic in numbers
        ]
        scanner = pair_scanner(len(groups.columns), len(groups.segments), statistics)
        partial = keyed.mapInArrow(scanner, PARTIAL_COLUMNS)
        merged = partial.repartition("key", "statistic").mapInArrow(pair_merger(), PARTIAL_COLUMNS)
        sketches = {
            numbers[request_.statistic]: request_
            for request_ in self.requests
            if request_.statistic.kind not in COUNTS_BY_STATISTIC
        }
        counted = [
            request_ for request_ in self.requests if request_.statistic.kind in COUNTS_BY_STATISTIC
        ]
        answers: Answers = {request: {} for request in self.requests}
        rows = (column.to_pylist() for column in to_arrow(merged).columns)
        for strings, number, counts, sums, sketch in zip(*rows, strict=True):
            key = groups.key_of(strings)
            if number is not None:
                answers[sketches[number]][key] = [sketch]
                continue
            for request in counted:
                i, beyond = (
                    numbers[request.statistic],
                    request.index - COUNTS_BY_STATISTIC[request.statistic.kind],
                )
                cell = counts[5 * i + request.index] if beyond < 0 else sums[3 * i + beyond]
                answers[request][key] = cell
        return answers
