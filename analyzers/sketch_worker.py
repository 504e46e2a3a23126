"""What runs in Spark's Python workers: building REQ sketches of Arrow batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def sketch_builder(  # noqa: C901 - one function that holds all of it, see below
    keys: int, segments: int, parameters: Sequence[tuple[int, bool]]
) -> Any:
    """Return the function for ``mapInArrow`` that turns numbers into sketches of each group.

    Its input has the keys as text, then a text for each set of segments, then doubles or arrays of them, of
    which each element counts. Its output has
    a row for each group and column: the texts, of which at most one segment's is not null, the
    column's number, and the sketch.

    All of it stands inside one function, so that it travels whole: the workers need datasketches, but
    not tidegauge.

    Parameters
    ----------
    keys, segments : int
        How many of each there are.
    parameters : sequence of (int, bool)
        Each column's k, and whether high ranks are the accurate ones.
    """

    def build(  # noqa: C901
        batches: Iterable[pa.RecordBatch],
    ) -> Iterator[pa.RecordBatch]:
        import numpy as np  # noqa: PLC0415 - here, because this function travels
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.compute as pc  # noqa: PLC0415
        from datasketches import PyDoublesSerDe, req_items_sketch  # noqa: PLC0415

        sketches: dict[tuple[tuple[str | None, ...], int], Any] = {}

        def groups_of(batch: pa.RecordBatch, chosen: list[int]) -> tuple[Any, list[Any]]:
            """Number the groups of a batch by some of its columns; return each row's, and the keys."""
            if not chosen:
                return np.zeros(batch.num_rows, dtype=np.int32), [(None,) * segments]
            texts = [batch.column(i).cast("string") for i in chosen]
            text = pc.binary_join_element_wise(*texts, "\x01") if len(texts) > 1 else texts[0]
            codes = text.dictionary_encode().indices.to_numpy()
            _, firsts = np.unique(codes, return_index=True)
            at = [{i: batch.column(i)[row].as_py() for i in chosen} for row in firsts.tolist()]
            return codes, [tuple(key.get(i) for i in range(keys + segments)) for key in at]

        def numbers_of(column: Any) -> tuple[Any, Any]:
            """Return the numbers of a column, and the row of each where it is of arrays."""
            if not pa.types.is_list(column.type):
                return column.to_numpy(zero_copy_only=False), None
            rows = pc.list_parent_indices(column).to_numpy(zero_copy_only=False)
            return column.flatten().to_numpy(zero_copy_only=False), rows

        def add(key: tuple[str | None, ...], column: int, values: Any) -> None:
            numbers = values[~np.isnan(values)].tolist()
            if not numbers:
                return
            if (key, column) not in sketches:
                sketches[key, column] = req_items_sketch(*parameters[column])
            update = sketches[key, column].update  # looked up once: it is called for each number
            for number in numbers:
                update(number)

        def sorting(codes: Any, groups: int) -> tuple[Any, Any]:
            """Return the order that puts groups behind each other, and where all but the first begin."""
            order = np.argsort(codes, kind="stable")
            return order, np.searchsorted(codes[order], np.arange(1, groups))

        for batch in batches:
            if not batch.num_rows:
                continue
            columns = [numbers_of(column) for column in batch.columns[keys + segments :]]
            for chosen in (None, *range(keys, keys + segments)):
                extra = [] if chosen is None else [chosen]
                codes, found = groups_of(batch, [*range(keys), *extra])
                by_row = sorting(codes, len(found))
                for i, (numbers, rows) in enumerate(columns):
                    order, starts = by_row if rows is None else sorting(codes[rows], len(found))
                    for key, values in zip(found, np.split(numbers[order], starts), strict=True):
                        add(key, i, values)
        serde = PyDoublesSerDe()
        rows = [
            {"key": list(key), "request": column, "sketch": sketch.serialize(serde)}
            for (key, column), sketch in sketches.items()
        ]
        texts = pa.list_(pa.string())
        schema = pa.schema({"key": texts, "request": pa.int32(), "sketch": pa.binary()})
        yield pa.RecordBatch.from_pylist(rows, schema)

    return build
