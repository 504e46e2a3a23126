"""By what a scan groups: partitions, and segments of them, all in one pass."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from analyzers.errors import WrongColumnTypeError
from analyzers.partitions import NULL
from analyzers.schema import INTEGRAL, Schema
from analyzers.segments import SegmentSet, Values
from analyzers.sql import literal, one_of, one_zero, quote

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, Row

Key = tuple[Values, str]
"""A partition's values as text, and the name of a segment of it; the empty text is all of it."""

SEPARATOR, _ALL = "\x01", "\x03"
KEY, SEGMENT = "__tidegauge_k", "__tidegauge_s"
"""What the columns that are grouped by are called; no table has such."""


@dataclass(frozen=True)
class Groups:
    """Partition columns, and sets of columns for whose values everything is measured, too.

    Attributes
    ----------
    by : tuple of str
    segments : tuple of SegmentSet
    """

    by: tuple[str, ...] = ()
    segments: tuple[SegmentSet, ...] = ()

    @property
    def names(self) -> list[str]:
        """The columns that `keyed` adds and `aggregated` begins with."""
        keys = [f"{KEY}{i}" for i in range(len(self.by))]
        return keys + [f"{SEGMENT}{i}" for i in range(len(self.segments))]

    def keyed(self, data: DataFrame, *more: str, as_text: bool = False) -> DataFrame:
        """Return the data with what it is grouped by as columns of their own, and more expressions.

        Grouping by the text of a value costs as much as some aggregations, so it is done only where
        two values may print alike, as hours do when clocks go back, or where text is asked for.
        """
        schema = Schema.of_frame(data)
        keys = []
        for i, column in enumerate(self.by):
            sql, kind = quote(column), _kind(data, column)
            plain = f"nullif({sql}, '')" if kind == "string" else sql
            text = as_text or kind not in PRINTED_APART
            keys.append(f"{hive_text(sql) if text else plain} AS {KEY}{i}")
        for i, segments in enumerate(self.segments):
            value = _segment_text(schema, segments.columns)
            kept = [SEPARATOR.join(values) for values in segments.kept]
            known = one_of(value, kept) if kept else "false"
            # A mark before the values, so that none reads as that of all others.
            keys.append(f"CASE WHEN {known} THEN concat('=', {value}) ELSE '' END AS {SEGMENT}{i}")
        return data.selectExpr("*", *keys, *more) if keys or more else data

    def aggregated(
        self, keyed: DataFrame, cells: Sequence[Column], more: Sequence[str] = ()
    ) -> DataFrame:
        """Aggregate by partition, by each set of segments of it, and by more columns.

        The result begins with the `names`, as text, then come the further columns and the cells.
        """
        keys = [f"{KEY}{i}" for i in range(len(self.by))]
        by = [*keys, *more]
        segments = [f"{SEGMENT}{i}" for i in range(len(self.segments))]
        sets = [by, *([*by, segment] for segment in segments)]
        grouped = keyed.groupingSets(sets, *by, *segments) if segments else keyed.groupBy(*by)
        texts = [f"{hive_text(key)} AS {key}" for key in keys]
        found = grouped.agg(*cells)
        width = len(by) + len(segments)
        return found.selectExpr(*texts, *segments, *more, *map(quote, found.columns[width:]))

    def key_of(self, row: Row | Sequence[str | None]) -> Key:
        """Return the key that the first values of a row tell; one segment at most is not null."""
        width = len(self.by)
        values = tuple(str(value) for value in row[:width])
        for segments, text in zip(self.segments, row[width:], strict=False):
            if text is not None:
                return values, self.segment_name(segments, text)
        return values, ""

    def segment_name(self, segments: SegmentSet, text: str) -> str:
        """Return the name of the segment that a text of `keyed` stands for."""
        return segments.name_of(_split(segments.columns, text[1:]) if text else None)


def slices(table: pa.Table, names: Sequence[str]) -> Iterator[tuple[list[str | None], pa.Table]]:
    """Cut a table into runs of rows with equal values in some columns; null equals null."""
    import numpy as np  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    table = table.sort_by([(name, "ascending") for name in names]) if names else table
    changes = np.zeros(max(table.num_rows - 1, 0), dtype=bool)
    for name in names:
        column = pc.fill_null(table[name].combine_chunks(), _ALL)
        changes |= pc.not_equal(column[1:], column[:-1]).to_numpy(zero_copy_only=False)
    starts = [0, *(np.flatnonzero(changes) + 1).tolist(), table.num_rows]
    for start, end in pairwise(starts):
        if end > start:
            key = [table[name][start].as_py() for name in names]
            yield key, table.slice(start, end - start).drop_columns(names)


def count_segments(
    data: DataFrame, columns: Sequence[tuple[str, ...]], most: int
) -> dict[tuple[str, ...], tuple[Values, ...]]:
    """Return the values of each set of columns that have the most rows, largest first; one action."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - Spark's customary name

    schema = Schema.of_frame(data)
    texts = [_segment_text(schema, some) for some in columns]
    names = [f"{SEGMENT}{i}" for i in range(len(columns))]
    keyed = data.selectExpr(*(f"{t} AS {n}" for t, n in zip(texts, names, strict=True)))
    counts = keyed.groupingSets([[name] for name in names], *names).agg(
        F.expr("count(1)").alias("_n"), F.expr("grouping_id()").alias("_set")
    )
    text = f"coalesce({', '.join(names)})"
    rank = F.expr(f"row_number() OVER (PARTITION BY _set ORDER BY _n DESC, {text})")
    largest = counts.withColumn("_rank", rank).where(f"_rank <= {most}").orderBy("_set", "_rank")
    found: dict[tuple[str, ...], list[Values]] = {some: [] for some in columns}
    for row in largest.collect():
        i = next(i for i, name in enumerate(names) if row[name] is not None)
        found[columns[i]].append(_split(columns[i], row[names[i]]))
    return {some: tuple(values) for some, values in found.items()}


def _split(columns: tuple[str, ...], text: str) -> Values:
    return (text,) if len(columns) == 1 else tuple(text.split(SEPARATOR))


def only_groups(data: DataFrame, keys: Sequence[str], values: Collection[Values]) -> DataFrame:
    """Keep the rows of some partitions.

    The exact condition is on the values as text, which Spark prunes by itself. Before it stands the
    range of each key's values, which the metastore prunes by: it is quick with a range, and was
    measured to take minutes over a list of a thousand values.
    """
    for i, key in enumerate(keys):
        found = _range({value[i] for value in values}, _kind(data, key))
        if found is not None:
            low, high = (literal(value) for value in found)
            data = data.where(f"{quote(key)} >= {low} AND {quote(key)} <= {high}")
    together = _joined([hive_text(quote(key)) for key in keys])
    return data.where(one_of(together, sorted(SEPARATOR.join(value) for value in values)))


PRINTED_APART = {"string", "date", "boolean", *INTEGRAL}
"""Types whose values print differently wherever they differ, but for the empty text and null."""


def _kind(data: DataFrame, column: str) -> str:
    return next(f.dataType.typeName() for f in data.schema.fields if f.name == column)


def _joined(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"concat_ws('\\u0001', {', '.join(texts)})"


def hive_text(sql: str) -> str:
    """Return SQL for a value as Hive names it; the empty text and null are one partition."""
    return f"coalesce(nullif(CAST({sql} AS STRING), ''), {literal(NULL)})"


def _segment_text(schema: Schema, columns: Sequence[str]) -> str:
    """Return SQL for the values of some columns as one text; null as Hive names it.

    Raises
    ------
    NoSuchColumnError
    WrongColumnTypeError
        If the values of a column have no text.
    """
    texts = []
    for column in columns:
        field = schema.plain(column)
        if field.kind == "binary":
            raise WrongColumnTypeError(column, field.kind, "a type whose values print as text")
        text = f"coalesce(CAST({one_zero(field)} AS STRING), {literal(NULL)})"
        single = len(columns) == 1
        texts.append(text if single else f"replace({text}, '\\u0001', '\\ufffd')")
    return _joined(texts)


def _range(values: set[str], kind: str) -> tuple[str, str] | None:
    """Return the least and greatest value of a type whose order we know; None if there is none."""
    if NULL in values:
        return None
    if kind in {"string", "date"}:
        return min(values), max(values)
    if kind in INTEGRAL:
        return min(values, key=int), max(values, key=int)
    return None
