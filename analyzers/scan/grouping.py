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
"""A partition's values as text, and a segment name; the name is empty for the whole partition."""

VALUE_SEPARATOR, _NULL_FILL = "\x01", "\x03"
KEY_PREFIX, SEGMENT_PREFIX = "__tidegauge_k", "__tidegauge_s"
"""Prefixes of the grouping columns. They are reserved: a table must not have such columns."""


@dataclass(frozen=True)
class Groups:
    """The grouping of a scan: partition columns and segment sets.

    Attributes
    ----------
    by : tuple of str
        The partition columns.
    segments : tuple of SegmentSet
        Segment sets to group by within each partition.
    """

    columns: tuple[str, ...] = ()
    segments: tuple[SegmentSet, ...] = ()

    @property
    def names(self) -> list[str]:
        """Names of the grouping columns, which `with_keys` adds and `aggregated` puts first."""
        keys = [f"{KEY_PREFIX}{i}" for i in range(len(self.columns))]
        return keys + [f"{SEGMENT_PREFIX}{i}" for i in range(len(self.segments))]

    def with_keys(self, data: DataFrame, *expressions: str, as_text: bool = False) -> DataFrame:
        """Add the grouping columns and further expressions to the data.

        Grouping by the string form of a value costs as much as several aggregates. It is used on request, and for
        types in which different values can have the same string form, such as hours when clocks go back.

        Parameters
        ----------
        data : DataFrame
            The data.
        *expressions : str
            Further SQL expressions to add.
        as_text : bool
            Whether to add all partition columns as text.
        """
        schema = Schema.from_frame(data)
        keys = []
        for i, column in enumerate(self.columns):
            sql, kind = quote(column), _kind(data, column)
            plain = f"nullif({sql}, '')" if kind == "string" else sql
            is_text = as_text or kind not in DISTINCT_AS_TEXT
            keys.append(f"{hive_text(sql) if is_text else plain} AS {KEY_PREFIX}{i}")
        for i, segments in enumerate(self.segments):
            value = _segment_text(schema, segments.columns)
            set_values = [VALUE_SEPARATOR.join(values) for values in segments.kept]
            is_segment = one_of(value, set_values) if set_values else "false"
            # The prefix keeps every value distinct from '', which means all other values.
            keys.append(
                f"CASE WHEN {is_segment} THEN concat('=', {value}) ELSE '' END AS {SEGMENT_PREFIX}{i}"
            )
        return data.selectExpr("*", *keys, *expressions) if keys or expressions else data

    def aggregated(
        self, keyed: DataFrame, cells: Sequence[Column], columns: Sequence[str] = ()
    ) -> DataFrame:
        """Aggregate by partition, by each segment set within it, and by further columns.

        The columns of the result are `names` as strings, then the further columns, then the cells.

        Parameters
        ----------
        keyed : DataFrame
            The result of `with_keys`.
        cells : sequence of Column
            The aggregates.
        columns : sequence of str
            Further columns to group by.
        """
        keys = [f"{KEY_PREFIX}{i}" for i in range(len(self.columns))]
        partition_columns = [*keys, *columns]
        segments = [f"{SEGMENT_PREFIX}{i}" for i in range(len(self.segments))]
        sets = [partition_columns, *([*partition_columns, segment] for segment in segments)]
        key_texts = [f"{hive_text(key)} AS {key}" for key in keys]
        if segments:
            aggregates = aggregate_by_sets(keyed, sets, [*partition_columns, *segments], cells)
        else:
            aggregates = keyed.groupBy(*partition_columns).agg(*cells)
        width = len(partition_columns) + len(segments)
        return aggregates.selectExpr(
            *key_texts, *segments, *columns, *map(quote, aggregates.columns[width:])
        )

    def key_of(self, row: Row | Sequence[str | None]) -> Key:
        """Return the key from the first values of a row. At most one segment value is not null."""
        width = len(self.columns)
        values = tuple(str(value) for value in row[:width])
        for segments, segment_value in zip(self.segments, row[width:], strict=False):
            if segment_value is not None:
                return values, self.segment_name(segments, segment_value)
        return values, ""

    def segment_name(self, segments: SegmentSet, text: str) -> str:
        """Return the segment's name from the value in a grouping column of `with_keys`."""
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
        column = pc.fill_null(table[name].combine_chunks(), _NULL_FILL)
        changes |= pc.not_equal(column[1:], column[:-1]).to_numpy(zero_copy_only=False)
    starts = [0, *(np.flatnonzero(changes) + 1).tolist(), table.num_rows]
    for start, end in pairwise(starts):
        if end > start:
            key = [table[name][start].as_py() for name in names]
            yield key, table.slice(start, end - start).drop_columns(names)


def most_frequent_values(
    data: DataFrame, columns: Sequence[tuple[str, ...]], max_values: int
) -> dict[tuple[str, ...], tuple[Values, ...]]:
    """Return the most frequent values of each column set, in descending order, in one Spark action."""
    from pyspark.sql import functions as F

    schema = Schema.from_frame(data)
    segment_texts = [_segment_text(schema, column_set) for column_set in columns]
    names = [f"{SEGMENT_PREFIX}{i}" for i in range(len(columns))]
    keyed = data.selectExpr(*(f"{t} AS {n}" for t, n in zip(segment_texts, names, strict=True)))
    sets = [[name] for name in names]
    counts = aggregate_by_sets(keyed, sets, names, [F.expr("count(1)").alias("_n")])
    numbers = " ".join(f"WHEN {name} IS NOT NULL THEN {i}" for i, name in enumerate(names))
    counts = counts.selectExpr("*", f"CASE {numbers} END AS _set")
    segment_text = f"coalesce({', '.join(names)})"
    rank = F.expr(f"row_number() OVER (PARTITION BY _set ORDER BY _n DESC, {segment_text})")
    largest = (
        counts.withColumn("_rank", rank).where(f"_rank <= {max_values}").orderBy("_set", "_rank")
    )
    values_by_set: dict[tuple[str, ...], list[Values]] = {column_set: [] for column_set in columns}
    for row in largest.collect():
        i = next(i for i, name in enumerate(names) if row[name] is not None)
        values_by_set[columns[i]].append(_split(columns[i], row[names[i]]))
    return {column_set: tuple(values) for column_set, values in values_by_set.items()}


def _split(columns: tuple[str, ...], text: str) -> Values:
    return (text,) if len(columns) == 1 else tuple(text.split(VALUE_SEPARATOR))


def filter_partitions(
    data: DataFrame, keys: Sequence[str], values: Collection[Values]
) -> DataFrame:
    """Filter to the rows of the given partitions.

    The exact condition compares the values as text, and Spark uses it to prune partitions. A condition on
    the range of each key's values precedes it, for pruning in the metastore: this is fast for a range, but
    took minutes for a list of a thousand values. The metastore's filters support only plain names.

    Parameters
    ----------
    data : DataFrame
        The data.
    keys : sequence of str
        The partition columns.
    values : collection of tuple of str
        The values of each partition, as text.
    """
    for i, key in enumerate(keys):
        if not _FILTERABLE_NAME.fullmatch(key):
            continue
        bounds = _range({value[i] for value in values}, _kind(data, key))
        if bounds is not None:
            low, high = (literal(value) for value in bounds)
            data = data.where(f"{quote(key)} >= {low} AND {quote(key)} <= {high}")
    joined_keys = _concatenated([hive_text(quote(key)) for key in keys])
    return data.where(one_of(joined_keys, sorted(VALUE_SEPARATOR.join(value) for value in values)))


_FILTERABLE_NAME = re.compile(
    r"(?!(?:and|or|not|in|like|between)$)[a-z][a-z0-9_]*", re.ASCII | re.IGNORECASE
)
"""Column names that the grammar of Hive's partition filters accepts."""
DISTINCT_AS_TEXT = {"string", "date", "boolean", *INTEGRAL}
"""Types whose distinct values have distinct string forms, except the empty string and null."""


def _kind(data: DataFrame, column: str) -> str:
    return next(f.dataType.typeName() for f in data.schema.fields if f.name == column)


def _concatenated(expressions: Sequence[str]) -> str:
    return (
        expressions[0]
        if len(expressions) == 1
        else f"concat_ws('\\u0001', {', '.join(expressions)})"
    )


def hive_text(sql: str) -> str:
    """Return SQL for a value as Hive names it. The empty string and null have the same name."""
    return f"coalesce(nullif(CAST({sql} AS STRING), ''), {literal(NULL)})"


def _segment_text(schema: Schema, columns: Sequence[str]) -> str:
    """Return SQL that joins the values of several columns into one string, with null as Hive names it.

    Raises
    ------
    NoSuchColumnError
        If a column does not exist.
    WrongColumnTypeError
        If a column is binary or nested, so its values have no string form.
    """
    expressions = []
    for column in columns:
        field = schema.plain(column)
        if field.kind == "binary":
            raise WrongColumnTypeError(column, field.kind, "a type whose values print as text")
        expression = f"coalesce(CAST({field.zero_normalized_sql} AS STRING), {literal(NULL)})"
        single = len(columns) == 1
        expressions.append(expression if single else f"replace({expression}, '\\u0001', '\\ufffd')")
    return _concatenated(expressions)


def _range(values: set[str], kind: str) -> tuple[str, str] | None:
    """Return the minimum and maximum value; None if a value is null or the type's order is unknown.

    None is also returned if a string has quotation marks, which Hive's filters do not escape.
    """
    if NULL in values:
        return None
    if kind in {"string", "date"}:
        low, high = min(values), max(values)
        return None if set(low + high) & set("'\"") else (low, high)
    if kind in INTEGRAL:
        return min(values, key=int), max(values, key=int)
    return None
