"""Sketches built from Arrow batches and merged, in Spark's Python workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


PARTIAL_SCHEMA = "key array<string>, request int, sketch binary"
"""Columns of the results of both functions."""


def _sketch_types() -> Any:  # noqa: C901
    """Return a function that returns a class for each kind of sketch.

    The function is nested, not at module level, so that it pickles with the functions that use it.
    """

    def types() -> dict[str, Callable[[int], Any]]:  # noqa: C901
        from math import ceil, log2

        import datasketches
        import numpy as np
        import pyarrow.compute as pc

        class Kll:
            def __init__(self, size: int) -> None:
                self.sketch = datasketches.kll_doubles_sketch(size)

            def update(self, values: Any) -> None:
                self.sketch.update(
                    np.array(values, np.float64)
                )  # a copy: read-only memory is refused

            def merge(self, packed: bytes) -> None:
                self.sketch.merge(datasketches.kll_doubles_sketch.deserialize(packed))

            def serialize(self) -> bytes:
                return bytes(self.sketch.serialize())

        class Req:
            high_ranks = True

            def __init__(self, size: int) -> None:
                self.sketch = datasketches.req_items_sketch(size, self.high_ranks)

            def update(self, values: Any) -> None:
                update = self.sketch.update  # hoisted: called for each number
                for value in values.tolist():
                    update(value)

            def merge(self, packed: bytes) -> None:
                numbers = datasketches.PyDoublesSerDe()
                self.sketch.merge(datasketches.req_items_sketch.deserialize(packed, numbers))

            def serialize(self) -> bytes:
                return bytes(self.sketch.serialize(datasketches.PyDoublesSerDe()))

        class ReqLow(Req):
            high_ranks = False

        class Frequent:
            def __init__(self, size: int) -> None:
                self.sketch = datasketches.frequent_strings_sketch(max(ceil(log2(size / 0.75)), 3))

            def update(self, values: Any) -> None:
                counted = pc.value_counts(values)
                strings, counts = counted.field(0).to_pylist(), counted.field(1).to_pylist()
                for string, count in zip(strings, counts, strict=True):
                    self.sketch.update(string, count)

            def merge(self, packed: bytes) -> None:
                self.sketch.merge(datasketches.frequent_strings_sketch.deserialize(packed))

            def serialize(self) -> bytes:
                return bytes(self.sketch.serialize())

        class Tuple:
            """The smallest hashes and their counts, as arrays.

            The tuple sketch of datasketches calls Python for each value, which takes a hundred times longer.
            """

            EVERYTHING = 2**63 - 1
            SEED, SEED_HASH = 9001, 37836
            EXACT, ESTIMATING = 2, 3
            """Number of 64-bit words in the header. The third word of an estimating sketch is theta."""
            ENTRY = np.dtype([("hash", "<u8"), ("count", "<i4"), ("mode", "u1")])

            def __init__(self, size: int) -> None:
                self.nominal, self.theta = 1 << size, self.EVERYTHING
                self.hashes = np.zeros(0, np.uint64)
                self.counts = np.zeros(0, np.int64)

            def update(self, values: Any) -> None:
                hashes = self.hashed(values)
                self.add(*np.unique(hashes[hashes < self.theta], return_counts=True))

            def update_counted(self, values: Any, counts: Any) -> None:
                """Add distinct longs, each with its number of occurrences."""
                self.add(self.hashed(values), counts)

            def merge(self, packed: bytes) -> None:
                longs, retained = packed[0], int.from_bytes(packed[8:12], "little")
                if longs == self.ESTIMATING:
                    self.theta = min(self.theta, int.from_bytes(packed[16:24], "little"))
                entries = np.frombuffer(packed, self.ENTRY, retained, 8 * longs)
                self.add(entries["hash"], entries["count"])

            def add(self, hashes: Any, counts: Any) -> None:
                hashes = np.concatenate([self.hashes, hashes])
                counts = np.concatenate([self.counts, counts])
                below = hashes < self.theta
                self.hashes, positions = np.unique(hashes[below], return_inverse=True)
                self.counts = np.bincount(positions.ravel(), counts[below]).astype(np.int64)
                if len(self.hashes) > 2 * self.nominal:
                    self.trim()

            def trim(self) -> None:
                """Keep the nominal number of smallest hashes, and the next one as the bound."""
                self.theta = int(self.hashes[self.nominal])
                self.hashes = self.hashes[: self.nominal]
                self.counts = self.counts[: self.nominal]

            def hashed(self, values: Any) -> Any:
                """Return the upper 63 bits of MurmurHash3 (x64, 128 bits) of each long."""

                def mixed(h: Any) -> Any:
                    h = (h ^ (h >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
                    h = (h ^ (h >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
                    return h ^ (h >> np.uint64(33))

                seed, length = np.uint64(self.SEED), np.uint64(8)
                k = values.view(np.uint64) * np.uint64(0x87C37B91114253D5)
                k = ((k << np.uint64(31)) | (k >> np.uint64(33))) * np.uint64(0x4CF5AD432745937F)
                h1, h2 = (seed ^ k) ^ length, seed ^ length
                h1 = h1 + h2
                h2 = h1 + h2
                return (mixed(h1) + mixed(h2)) >> np.uint64(1)

            def serialize(self) -> bytes:
                """Return a compact tuple sketch whose summaries are a count and the mode (sum)."""
                if len(self.hashes) > self.nominal:
                    self.trim()
                estimates = self.theta < self.EVERYTHING
                longs = self.ESTIMATING if estimates else self.EXACT
                flags = 0b11010  # read-only, compact, ordered
                head = np.array([longs, 3, 9, 1, 0, flags], np.uint8).tobytes()
                head += np.array([self.SEED_HASH], "<u2").tobytes()
                head += np.array([len(self.hashes), 0], "<u4").tobytes()
                head += np.array([self.theta], "<u8").tobytes() if estimates else b""
                entries = np.zeros(len(self.hashes), self.ENTRY)
                entries["hash"] = self.hashes
                entries["count"] = np.minimum(self.counts, 2**31 - 1)
                return bytes(head + entries.tobytes())

        return {
            "kll": Kll,
            "req-high": Req,
            "req-low": ReqLow,
            "frequent": Frequent,
            "tuple": Tuple,
        }

    return types


def tuple_builder(size: int) -> Any:
    """Return an empty tuple sketch that `update_counted` fills in this process."""
    return _sketch_types()()["tuple"](size)


def sketch_builder(  # noqa: C901, PLR0915 - must be self-contained, see below
    keys: int, segments: int, parameters: Sequence[tuple[str, int]]
) -> Any:
    """Return a function for ``mapInArrow`` that builds one sketch per group and value column.

    Input columns are the keys as text, a string for each segment set, and the values of each
    `tidegauge.analyzers.core.analyzer.Sketch`; for arrays, the elements count. The output has a row for each
    group and value column: the strings of the group (at most one segment is not null), the column's index,
    and the serialized sketch, in the format of Spark's own function if Spark has one.

    The function is self-contained so that it can be pickled: the workers need pyarrow, NumPy and
    datasketches, but not tidegauge.

    Parameters
    ----------
    keys, segments : int
        Number of key columns and of segment sets.
    parameters : sequence of (str, int)
        Each value column's kind of sketch and its size parameter.
    """
    types, of_sketches = _sketch_types(), _of_sketches()

    def build(  # noqa: C901, PLR0915
        batches: Iterable[pa.RecordBatch],
    ) -> Iterator[pa.RecordBatch]:
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        kinds = types()
        sketches: dict[tuple[tuple[str | None, ...], int], Any] = {}

        def groups_of(batch: pa.RecordBatch, chosen: list[int]) -> tuple[Any, list[Any]]:
            """Encode a batch's groups by the chosen columns; return each row's code and the groups' keys."""
            if not chosen:
                return np.zeros(batch.num_rows, dtype=np.int32), [(None,) * segments]
            texts = [batch.column(i).cast("string") for i in chosen]
            joined = pc.binary_join_element_wise(*texts, "\x01") if len(texts) > 1 else texts[0]
            codes = joined.dictionary_encode().indices.to_numpy()
            _, firsts = np.unique(codes, return_index=True)
            values_by_column = [
                {i: batch.column(i)[row].as_py() for i in chosen} for row in firsts.tolist()
            ]
            return codes, [
                tuple(key.get(i) for i in range(keys + segments)) for key in values_by_column
            ]

        def values_of(column: Any) -> tuple[Any, Any]:
            """Return a column's values without null and NaN, and the row of each value."""
            rows = np.arange(len(column))
            if pa.types.is_list(column.type):
                rows = pc.list_parent_indices(column).to_numpy(zero_copy_only=False)
                column = column.flatten()
            present = pc.is_valid(column)
            if pa.types.is_floating(column.type):
                present = pc.and_(present, pc.invert(pc.fill_null(pc.is_nan(column), True)))  # noqa: FBT003
            rows = rows[present.to_numpy(zero_copy_only=False)]
            column = column.filter(present)
            if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
                return column, rows
            return column.to_numpy(zero_copy_only=False), rows

        def order_of(by_row: Any, rows: Any, codes: Any) -> Any:
            """Return the stable order of values by group.

            If each row has at most one value, the order is derived from the order of the rows.
            """
            if len(rows) > 1 and not (rows[1:] > rows[:-1]).all():  # arrays
                return np.argsort(codes[rows], kind="stable")
            position_by_row = np.full(len(codes), -1)
            position_by_row[rows] = np.arange(len(rows))
            order = position_by_row[by_row]
            return order[order >= 0]

        def add(key: tuple[str | None, ...], column: int, values: Any) -> None:
            if not len(values):
                return
            if (key, column) not in sketches:
                kind, size = parameters[column]
                sketches[key, column] = kinds[kind](size)
            sketches[key, column].update(values)

        for batch in batches:
            if not batch.num_rows:
                continue
            columns = [values_of(column) for column in batch.columns[keys + segments :]]
            for chosen in (None, *range(keys, keys + segments)):
                codes, group_keys = groups_of(
                    batch, [*range(keys), *([] if chosen is None else [chosen])]
                )
                by_row = np.argsort(codes, kind="stable") if len(group_keys) > 1 else None
                for i, (values, rows) in enumerate(columns):
                    if len(group_keys) == 1:
                        add(group_keys[0], i, values)
                        continue
                    order = order_of(by_row, rows, codes)
                    ends = np.searchsorted(
                        codes[rows][order], np.arange(len(group_keys)), side="right"
                    )
                    values_in_order = values.take(order)
                    start = 0
                    for key, end in zip(group_keys, ends.tolist(), strict=True):
                        add(key, i, values_in_order[start:end])
                        start = end
        yield of_sketches(sketches)

    return build


def sketch_merger(parameters: Sequence[tuple[str, int]]) -> Any:
    """Return a function for ``mapInArrow`` that merges the sketches of each group and value column.

    Input and output have the rows of `sketch_builder`'s output. The function is also self-contained.

    Parameters
    ----------
    parameters : sequence of (str, int)
        Each value column's kind of sketch and its size parameter.
    """
    types, of_sketches = _sketch_types(), _of_sketches()

    def merge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kinds = types()
        sketches: dict[tuple[tuple[str | None, ...], int], Any] = {}
        for batch in batches:
            for key, number, packed in zip(*(c.to_pylist() for c in batch.columns), strict=True):
                group = tuple(key), number
                previous = sketches.get(group)
                if previous is None:  # most groups have one sketch, which stays serialized
                    sketches[group] = packed
                    continue
                if isinstance(previous, bytes):
                    kind, size = parameters[number]
                    sketches[group] = kinds[kind](size)
                    sketches[group].merge(previous)
                sketches[group].merge(packed)
        yield of_sketches(sketches)

    return merge


def _of_sketches() -> Any:
    """Return a function that returns a row per sketch; nested so that it pickles, as in `_sketch_types`."""

    def of_sketches(sketches: Mapping[tuple[tuple[str | None, ...], int], Any]) -> pa.RecordBatch:
        import pyarrow as pa

        rows = [
            {
                "key": list(key),
                "request": number,
                "sketch": sketch if isinstance(sketch, bytes) else sketch.serialize(),
            }
            for (key, number), sketch in sketches.items()
        ]
        string_list = pa.list_(pa.string())
        schema = pa.schema({"key": string_list, "request": pa.int32(), "sketch": pa.binary()})
        return pa.RecordBatch.from_pylist(rows, schema)

    return of_sketches
