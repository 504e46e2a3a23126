"""Grouping of a scan by partition and by segments within partitions, in one pass."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from tidegauge.analyzers.core.errors import WrongColumnTypeError
from tidegauge.analyzers.core.partitions import NULL, SegmentSet, Values
from tidegauge.analyzers.core.schema import INTEGRAL, Schema
from tidegauge.analyzers.core.sql import literal, one_of, quote
from tidegauge.analyzers.scan.capabilities import aggregate_by_sets

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, Row

Key = tuple[Values, str]
"""A partition's values as text and a segment name; the empty name stands for the whole partition."""

SEPARATOR, _ALL = "\x01", "\x03"
KEY, SEGMENT = "__tidegauge_k", "__tidegauge_s"
"""Prefixes of the grouping columns; reserved, no table may have such columns."""


@dataclass(frozen=True)
class Groups:
    """The grouping of a scan: partition columns and segment sets.

    Attributes
    ----------
    by : tuple of str
    segments : tuple of SegmentSet
    """

    by: tuple[str, ...] = ()
    segments: tuple[SegmentSet, ...] = ()

    @property
    def names(self) -> list[str]:
        """Names of the grouping columns, which `with_keys` adds and `aggregated` puts first."""
        keys = [f"{KEY}{i}" for i in range(len(self.by))]
        return keys + [f"{SEGMENT}{i}" for i in range(len(self.segments))]

    def with_keys(self, data: DataFrame, *more: str, as_text: bool = False) -> DataFrame:
        """Add the grouping columns and further expressions to the data.

        Grouping by the text of a value costs as much as several aggregates, so it is done only for
        types of which two values may print alike, as hours do when clocks go back, or on request.
        """
        schema = Schema.from_frame(data)
        keys = []
        for i, column in enumerate(self.by):
            sql, kind = quote(column), _kind(data, column)
            plain = f"nullif({sql}, '')" if kind == "string" else sql
            text = as_text or kind not in DISTINCT_AS_TEXT
            keys.append(f"{hive_text(sql) if text else plain} AS {KEY}{i}")
        for i, segments in enumerate(self.segments):
            value = _segment_text(schema, segments.columns)
            kept = [SEPARATOR.join(values) for values in segments.kept]
            known = one_of(value, kept) if kept else "false"
            # The prefix keeps every value distinct from '', which stands for all other values.
            keys.append(f"CASE WHEN {known} THEN concat('=', {value}) ELSE '' END AS {SEGMENT}{i}")
        return data.selectExpr("*", *keys, *more) if keys or more else data

    def aggregated(
        self, keyed: DataFrame, cells: Sequence[Column], more: Sequence[str] = ()
    ) -> DataFrame:
        """Aggregate by partition, by each segment set within it, and by further columns.

        The result has the `names` as text first, then the further columns, then the cells.
        """
        keys = [f"{KEY}{i}" for i in range(len(self.by))]
        by = [*keys, *more]
        segments = [f"{SEGMENT}{i}" for i in range(len(self.segments))]
        sets = [by, *([*by, segment] for segment in segments)]
        texts = [f"{hive_text(key)} AS {key}" for key in keys]
        if segments:
            found = aggregate_by_sets(keyed, sets, [*by, *segments], cells)
        else:
            found = keyed.groupBy(*by).agg(*cells)
        width = len(by) + len(segments)
        return found.selectExpr(*texts, *segments, *more, *map(quote, found.columns[width:]))

    def key_of(self, row: Row | Sequence[str | None]) -> Key:
        """Return the key from the leading values of a row; at most one segment is not null."""
        width = len(self.by)
        values = tuple(str(value) for value in row[:width])
        for segments, text in zip(self.segments, row[width:], strict=False):
            if text is not None:
                return values, self.segment_name(segments, text)
        return values, ""

    def segment_name(self, segments: SegmentSet, text: str) -> str:
        """Return the segment's name from the text in a grouping column of `with_keys`."""
        return segments.name_of(_split(segments.columns, text[1:]) if text else None)


def split_by_groups(
    table: pa.Table, names: Sequence[str]
) -> Iterator[tuple[list[str | None], pa.Table]]:
    """Split a table into groups of rows with equal values in the named columns; null equals null."""
    import numpy as np
    import pyarrow.compute as pc

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


def most_frequent_values(
    data: DataFrame, columns: Sequence[tuple[str, ...]], most: int
) -> dict[tuple[str, ...], tuple[Values, ...]]:
    """Return each column set's most frequent values, in descending order; one Spark action."""
    from pyspark.sql import functions as F

    schema = Schema.from_frame(data)
    texts = [_segment_text(schema, some) for some in columns]
    names = [f"{SEGMENT}{i}" for i in range(len(columns))]
    keyed = data.selectExpr(*(f"{t} AS {n}" for t, n in zip(texts, names, strict=True)))
    sets = [[name] for name in names]
    counts = aggregate_by_sets(keyed, sets, names, [F.expr("count(1)").alias("_n")])
    numbers = " ".join(f"WHEN {name} IS NOT NULL THEN {i}" for i, name in enumerate(names))
    counts = counts.selectExpr("*", f"CASE {numbers} END AS _set")
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


def filter_partitions(
    data: DataFrame, keys: Sequence[str], values: Collection[Values]
) -> DataFrame:
    """Filter to the rows of the given partitions.

    The exact condition compares the values as text, and Spark prunes partitions by it. In front of it
    goes the range of each key's values, for pruning in the metastore, which is fast on a range but was
    measured to take minutes on a list of a thousand values. The metastore's filters know plain names only.
    """
    for i, key in enumerate(keys):
        if not _FILTERABLE.fullmatch(key):
            continue
        found = _range({value[i] for value in values}, _kind(data, key))
        if found is not None:
            low, high = (literal(value) for value in found)
            data = data.where(f"{quote(key)} >= {low} AND {quote(key)} <= {high}")
    together = _joined([hive_text(quote(key)) for key in keys])
    return data.where(one_of(together, sorted(SEPARATOR.join(value) for value in values)))


_FILTERABLE = re.compile(
    r"(?!(?:and|or|not|in|like|between)$)[a-z][a-z0-9_]*", re.ASCII | re.IGNORECASE
)
"""Names of columns in the grammar of Hive's filters of partitions."""
DISTINCT_AS_TEXT = {"string", "date", "boolean", *INTEGRAL}
"""Types whose distinct values print as distinct text, except for the empty string and null."""


def _kind(data: DataFrame, column: str) -> str:
    return next(f.dataType.typeName() for f in data.schema.fields if f.name == column)


def _joined(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"concat_ws('\\u0001', {', '.join(texts)})"


def hive_text(sql: str) -> str:
    """Return SQL for a value as Hive names it; the empty string and null are the same partition."""
    return f"coalesce(nullif(CAST({sql} AS STRING), ''), {literal(NULL)})"


def _segment_text(schema: Schema, columns: Sequence[str]) -> str:
    """Return SQL for the values of several columns as one text; null as Hive names it.

    Raises
    ------
    NoSuchColumnError
    WrongColumnTypeError
        If a column is binary or nested, so its values have no text.
    """
    texts = []
    for column in columns:
        field = schema.plain(column)
        if field.kind == "binary":
            raise WrongColumnTypeError(column, field.kind, "a type whose values print as text")
        text = f"coalesce(CAST({field.zero_normalized_sql} AS STRING), {literal(NULL)})"
        single = len(columns) == 1
        texts.append(text if single else f"replace({text}, '\\u0001', '\\ufffd')")
    return _joined(texts)


def _range(values: set[str], kind: str) -> tuple[str, str] | None:
    """Return the minimum and maximum value; None if one is null or the type's order is unknown.

    None, too, if a text has quotation marks, which Hive's filters do not escape.
    """
    if NULL in values:
        return None
    if kind in {"string", "date"}:
        low, high = min(values), max(values)
        return None if set(low + high) & set("'\"") else (low, high)
    if kind in INTEGRAL:
        return min(values, key=int), max(values, key=int)
    return None
