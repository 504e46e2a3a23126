"""Sketch construction from Arrow batches, run in Spark's Python workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def sketch_builder(  # noqa: C901, PLR0915 - must be self-contained, see below
    keys: int, segments: int, parameters: Sequence[tuple[str, int]]
) -> Any:
    """Return a function for ``mapInArrow`` that builds one sketch per group and value column.

    Its input columns are the keys as text, then a text for each segment set, then the values of each
    `tidegauge.analyzers.core.requests.Sketch`; arrays count by element. Its output has a row for each
    group and value column: the texts (at most one segment's is not null), the column's index, and
    the serialized sketch, in the format of Spark's own functions for the kinds that have one.

    The function is self-contained so that it pickles whole: the workers need pyarrow, NumPy and
    datasketches, but not tidegauge.

    Parameters
    ----------
    keys, segments : int
        Number of key columns and of segment sets.
    parameters : sequence of (str, int)
        Each value column's kind of sketch and its size parameter.
    """

    def build(  # noqa: C901, PLR0915
        batches: Iterable[pa.RecordBatch],
    ) -> Iterator[pa.RecordBatch]:
        from math import ceil, log2

        import datasketches
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        class Kll:
            def __init__(self, size: int) -> None:
                self.sketch = datasketches.kll_doubles_sketch(size)

            def update(self, values: Any) -> None:
                self.sketch.update(np.array(values, np.float64))  # it refuses read-only memory

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

            def serialize(self) -> bytes:
                return bytes(self.sketch.serialize(datasketches.PyDoublesSerDe()))

        class ReqLow(Req):
            high_ranks = False

        class Frequent:
            def __init__(self, size: int) -> None:
                self.sketch = datasketches.frequent_strings_sketch(max(ceil(log2(size / 0.75)), 3))

            def update(self, values: Any) -> None:
                counted = pc.value_counts(values)
                texts, counts = counted.field(0).to_pylist(), counted.field(1).to_pylist()
                for text, count in zip(texts, counts, strict=True):
                    self.sketch.update(text, count)

            def serialize(self) -> bytes:
                return bytes(self.sketch.serialize())

        class Tuple:
            """The smallest hashes with their numbers of occurrences, as arrays.

            datasketches for Python calls back for each value, which takes a hundred times longer.
            """

            EVERYTHING = 2**63 - 1
            SEED, SEED_HASH = 9001, 37836

            def __init__(self, size: int) -> None:
                self.nominal, self.theta = 1 << size, self.EVERYTHING
                self.hashes = np.zeros(0, np.uint64)
                self.counts = np.zeros(0, np.int64)

            def update(self, values: Any) -> None:
                hashes = self.hashed(values)
                hashes = hashes[hashes < self.theta]
                found, counts = np.unique(hashes, return_counts=True)
                self.hashes, place = np.unique(
                    np.concatenate([self.hashes, found]), return_inverse=True
                )
                sums = np.bincount(place.ravel(), np.concatenate([self.counts, counts]))
                self.counts = sums.astype(np.int64)
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
                first, second = (seed ^ k) ^ length, seed ^ length
                first = first + second
                second = first + second
                return (mixed(first) + mixed(second)) >> np.uint64(1)

            def serialize(self) -> bytes:
                """Return a compact tuple sketch, whose summaries are a count and the mode of sums."""
                if len(self.hashes) > self.nominal:
                    self.trim()
                estimates = self.theta < self.EVERYTHING
                longs = 3 if estimates else 2
                flags = 0b11010  # read-only, compact, ordered
                head = np.array([longs, 3, 9, 1, 0, flags], np.uint8).tobytes()
                head += np.array([self.SEED_HASH], "<u2").tobytes()
                head += np.array([len(self.hashes), 0], "<u4").tobytes()
                head += np.array([self.theta], "<u8").tobytes() if estimates else b""
                entries = np.zeros(
                    len(self.hashes), [("hash", "<u8"), ("count", "<i4"), ("mode", "u1")]
                )
                entries["hash"] = self.hashes
                entries["count"] = np.minimum(self.counts, 2**31 - 1)
                return bytes(head + entries.tobytes())

        kinds: dict[str, Callable[[int], Any]] = {
            "kll": Kll,
            "req-high": Req,
            "req-low": ReqLow,
            "frequent": Frequent,
            "tuple": Tuple,
        }
        sketches: dict[tuple[tuple[str | None, ...], int], Any] = {}

        def groups_of(batch: pa.RecordBatch, chosen: list[int]) -> tuple[Any, list[Any]]:
            """Encode a batch's groups by the chosen columns; return each row's code and the keys."""
            if not chosen:
                return np.zeros(batch.num_rows, dtype=np.int32), [(None,) * segments]
            texts = [batch.column(i).cast("string") for i in chosen]
            text = pc.binary_join_element_wise(*texts, "\x01") if len(texts) > 1 else texts[0]
            codes = text.dictionary_encode().indices.to_numpy()
            _, firsts = np.unique(codes, return_index=True)
            at = [{i: batch.column(i)[row].as_py() for i in chosen} for row in firsts.tolist()]
            return codes, [tuple(key.get(i) for i in range(keys + segments)) for key in at]

        def values_of(column: Any) -> tuple[Any, Any]:
            """Return a column's values without null and NaN, and the row of each."""
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
            """Return the stable order of values by group; from that of the rows, if each has one."""
            if len(rows) > 1 and not (rows[1:] > rows[:-1]).all():  # arrays
                return np.argsort(codes[rows], kind="stable")
            place = np.full(len(codes), -1)
            place[rows] = np.arange(len(rows))
            order = place[by_row]
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
                codes, found = groups_of(
                    batch, [*range(keys), *([] if chosen is None else [chosen])]
                )
                by_row = np.argsort(codes, kind="stable") if len(found) > 1 else None
                for i, (values, rows) in enumerate(columns):
                    if len(found) == 1:
                        add(found[0], i, values)
                        continue
                    order = order_of(by_row, rows, codes)
                    ends = np.searchsorted(codes[rows][order], np.arange(len(found)), side="right")
                    values_in_order = values.take(order)
                    start = 0
                    for key, end in zip(found, ends.tolist(), strict=True):
                        add(key, i, values_in_order[start:end])
                        start = end
        rows = [
            {"key": list(key), "request": column, "sketch": sketch.serialize()}
            for (key, column), sketch in sketches.items()
        ]
        texts = pa.list_(pa.string())
        schema = pa.schema({"key": texts, "request": pa.int32(), "sketch": pa.binary()})
        yield pa.RecordBatch.from_pylist(rows, schema)

    return build
