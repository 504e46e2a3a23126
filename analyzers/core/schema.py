"""Table schemas as plain data, and checks of the DataFrames that callers pass.

Preconditions and the ledger need no Spark: a `Schema` holds names and types as text. The functions at the end
check that an argument is a DataFrame, and that no two of its columns have one name.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tidegauge.analyzers.core.errors import NoSuchColumnError, SourceError, WrongColumnTypeError
from tidegauge.analyzers.core.sql import COLLATIONS, literal, parts, quote

INTEGRAL = frozenset({"byte", "short", "integer", "long"})
NUMERIC = INTEGRAL | {"float", "double", "decimal"}
TEXT = frozenset({"string", "varchar", "char"})
TEMPORAL = frozenset({"date", "timestamp", "timestamp_ntz"})
NESTED = frozenset({"struct", "array", "map", "variant"})

_EXACT_DIGITS = 15
"""Digits of decimals up to which no two are the same double."""

_SIZE = re.compile(r"size\((.+)\)")


@dataclass(frozen=True)
class Field:
    """A column or a nested field.

    Attributes
    ----------
    path : str
        The path as the caller wrote it.
    sql : str
        Spark SQL that reads it.
    type : str or mapping
        Its type in Spark's JSON form.
    collated : bool
        Whether it is, or lies in, a column with a collation other than Spark's default.
    """

    path: str
    sql: str
    type: Any
    collated: bool = field(default=False, repr=False)

    @property
    def kind(self) -> str:
        """The type's name without parameters: ``decimal`` for ``decimal(9,2)``."""
        if isinstance(self.type, Mapping):
            return str(self.type["type"])
        return str(self.type).partition("(")[0].partition(" ")[0]

    @property
    def family(self) -> str:
        """The kinds of types whose values are compared with each other: ``number``, ``text`` or the kind.

        Examples
        --------
        >>> schema = Schema.from_types({"n": "decimal(9,2)", "s": "varchar(3)", "d": "date"})
        >>> [schema.field(column).family for column in "nsd"]
        ['number', 'text', 'date']
        """
        if self.kind in NUMERIC:
            return "number"
        return "text" if self.kind in TEXT else self.kind

    @property
    def zero_normalized_sql(self) -> str:
        """SQL for the value, with -0.0 as 0.0 in a column of floats, so that both zeros are one group."""
        if self.kind not in {"float", "double"}:
            return self.sql
        return f"CASE WHEN {self.sql} = 0 THEN abs({self.sql}) ELSE {self.sql} END"

    @property
    def uncollated_sql(self) -> str:
        """SQL for the value, with text compared by its bytes, whatever the column's collation.

        Only Spark knows what is equal by a collation, so states of parts could not be merged.
        """
        return (
            f"{self.sql} COLLATE UTF8_BINARY" if self.collated and self.kind in TEXT else self.sql
        )

    @property
    def hash_sql(self) -> str:
        """SQL for a long that identifies the value, whatever its type; null for null.

        Equal numbers have equal hashes: 1 as an integer, float, double or decimal, and 1.5 as one of
        the last three. Whole numbers stand for themselves.
        """
        if self.kind in INTEGRAL:
            return f"CAST({self.sql} AS BIGINT)"
        if self.kind in {"float", "double"}:
            return _hashed_double(f"CAST({self.sql} AS DOUBLE)")
        if self.kind != "decimal":
            return f"CASE WHEN {self.sql} IS NOT NULL THEN xxhash64({self.uncollated_sql}) END"
        double, (precision, scale) = f"CAST({self.sql} AS DOUBLE)", self.digits
        if precision <= _EXACT_DIGITS:  # each has a double of its own
            return _hashed_double(double)
        text = self.decimal_text_sql
        text = f"rtrim('0', {text})" if scale else f"concat({text}, '.')"
        whole = f"TRY_CAST({self.sql} AS BIGINT)"
        back = f"TRY_CAST({double} AS DECIMAL({precision},{scale}))"
        return (
            f"CASE WHEN {self.sql} = {whole} THEN {whole} WHEN {self.sql} = {back}"
            f" THEN xxhash64({double}) WHEN {self.sql} IS NOT NULL THEN xxhash64({text}) END"
        )

    @property
    def decimal_text_sql(self) -> str:
        """SQL for a decimal as text, without an exponent; null for null.

        Without ANSI mode, a cast writes those below 0.000001 with one.
        """
        text, (_, scale) = f"CAST({self.sql} AS STRING)", self.digits
        if not _LEAST_SCALE < scale < _MOST_SCALE:
            return text
        above_one = (
            f"CAST(abs({self.sql}) AS DECIMAL({scale + 1}, {scale})) + CAST(1 AS DECIMAL(1, 0))"
        )
        plain = f"concat(if({self.sql} < 0, '-0', '0'), substr(CAST({above_one} AS STRING), 2))"
        return f"CASE WHEN abs({self.sql}) < 0.000001 THEN {plain} ELSE {text} END"

    @property
    def digits(self) -> tuple[int, int]:
        """Precision and scale of a decimal; (10, 0) if the type does not state them."""
        numbers = re.findall(r"\d+", str(self.type))
        precision, scale = (*map(int, numbers), 10, 0)[:2] if len(numbers) == 2 else (10, 0)
        return precision, scale


_LEAST_SCALE, _MOST_SCALE = 6, 37
"""Decimals of so few places have no exponent; of so many, there is no room for a one before them."""


def _hashed_double(value: str) -> str:
    """Return SQL for the hash of a double; a whole one beyond the longs is hashed like a fraction."""
    whole = f"TRY_CAST({value} AS BIGINT)"
    return (
        f"CASE WHEN {value} = {whole} THEN {whole}"
        f" WHEN {value} IS NOT NULL THEN xxhash64({value}) END"
    )


KEY_ONLY = "tidegauge.key_only"
"""Metadata of a column that a source adds as a partition key."""


@dataclass(frozen=True)
class Schema:
    """Column names and types, in Spark's JSON form.

    Attributes
    ----------
    struct : mapping
        As returned by ``StructType.jsonValue()``.
    case_sensitive : bool
        True if names that differ only in case are different columns (``spark.sql.caseSensitive``).

    Examples
    --------
    >>> schema = Schema.from_types({"id": "long", "name": "string"})
    >>> schema.field("ID")
    Field(path='ID', sql='`id`', type='long')
    """

    struct: Mapping[str, Any]
    case_sensitive: bool = False

    @classmethod
    def from_spark(cls, schema: Any, *, case_sensitive: bool = False) -> Schema:
        """Return ``schema`` if it is a `Schema`, else build one from a Spark ``StructType``."""
        if isinstance(schema, Schema):
            return schema
        return cls(schema.jsonValue(), case_sensitive)

    @classmethod
    def from_frame(cls, data: Any) -> Schema:
        """Build a schema from a DataFrame, with the case sensitivity of its session."""
        sensitive = data.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
        return cls.from_spark(data.schema, case_sensitive=sensitive)

    @classmethod
    def from_types(cls, types: Mapping[str, Any]) -> Schema:
        """Build a schema from names and types in Spark's JSON form (``long``, ``decimal(9,2)``)."""
        columns = [
            {"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in types.items()
        ]
        return cls({"type": "struct", "fields": columns})

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the top-level columns, in order."""
        return tuple(field["name"] for field in self.struct["fields"])

    def canonical(self) -> str:
        """Return names and types as canonical JSON; equal schemas give equal text."""
        columns = [[f["name"], f["type"]] for f in self.struct["fields"]]
        return json.dumps(columns, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @property
    def keys_only(self) -> set[str]:
        """Names of the columns that a source adds as partition keys; the table does not have them."""
        fields = self.struct["fields"]
        return {field["name"] for field in fields if field.get("metadata", {}).get(KEY_ONLY)}

    def without(self, columns: set[str]) -> Schema:
        """Drop top-level columns."""
        kept = [field for field in self.struct["fields"] if field["name"] not in columns]
        return Schema({**self.struct, "fields": kept}, self.case_sensitive)

    def field(self, column: str) -> Field:
        """Resolve a column or a nested path.

        ``address.zip`` is a field of a struct or a key of a map, ``lines[0]`` an element of an array
        counted from 0, ``size(lines)`` the number of elements of an array or map. An element that is
        missing in a row is null.

        Raises
        ------
        NoSuchColumnError
            If there is no such column or field; the message suggests the closest.
        WrongColumnTypeError
            If ``size()`` is applied to something other than an array or map.

        Examples
        --------
        >>> lines = {"type": "array", "elementType": "double", "containsNull": True}
        >>> schema = Schema.from_types({"lines": lines})
        >>> schema.field("lines[0]").sql, schema.field("size(lines)").kind
        ('get(`lines`, 0)', 'integer')
        """
        sized = _SIZE.fullmatch(column.strip())
        found = self._follow(sized[1] if sized else column, column)
        if not sized:
            return found
        if found.kind not in {"array", "map"}:
            raise WrongColumnTypeError(sized[1], found.kind, "an array or a map")
        return Field(
            column, f"CASE WHEN {found.sql} IS NOT NULL THEN size({found.sql}) END", "integer"
        )

    def _follow(self, path: str, column: str) -> Field:
        first, *rest = parts(path)
        of = self._columns.get(self._folded(str(first)))
        if of is None:
            raise NoSuchColumnError(column, self.names)
        sql, kind = quote(of["name"]), of["type"]
        collated = COLLATIONS in of.get("metadata", {})
        for step in rest:
            outer = kind["type"] if isinstance(kind, Mapping) else kind
            if outer == "struct":
                inside = kind["fields"]
                of = next((f for f in inside if self._same(f["name"], str(step))), None)
                if of is None:
                    raise NoSuchColumnError(column, [f["name"] for f in inside])
                sql, kind = f"{sql}.{quote(of['name'])}", of["type"]
                collated = COLLATIONS in of.get("metadata", {})
            elif outer == "array" and isinstance(step, int):
                sql, kind = f"get({sql}, {step})", kind["elementType"]
            elif outer == "map" and kind["keyType"] in {"string", *INTEGRAL}:
                key = literal(str(step)) if kind["keyType"] == "string" else str(int(step))
                sql, kind = f"{sql}[{key}]", kind["valueType"]
            else:
                raise NoSuchColumnError(column, self.names)
        return Field(column, sql, kind, collated)

    def numeric(self, column: str) -> Field:
        """Resolve a numeric column; dates, timestamps and booleans are rejected."""
        return self._require(column, NUMERIC, "numeric")

    def text(self, column: str) -> Field:
        """Resolve a string column."""
        return self._require(column, TEXT, "a text")

    def temporal(self, column: str) -> Field:
        """Resolve a date or timestamp column."""
        return self._require(column, TEMPORAL, "a date or timestamp")

    def plain(self, column: str) -> Field:
        """Resolve a column that is not a struct, array, map or variant."""
        found = self.field(column)
        if found.kind in NESTED:
            raise WrongColumnTypeError(column, found.kind, "a plain type, not a nested one")
        return found

    def _require(self, column: str, kinds: frozenset[str], wanted: str) -> Field:
        found = self.field(column)
        if found.kind not in kinds:
            raise WrongColumnTypeError(column, found.kind, wanted)
        return found

    @cached_property
    def _columns(self) -> dict[str, Mapping[str, Any]]:
        """The top-level columns by name; cached, as columns of wide tables are looked up often."""
        return {self._folded(f["name"]): f for f in reversed(self.struct["fields"])}

    def _folded(self, name: str) -> str:
        return name if self.case_sensitive else name.casefold()

    def _same(self, a: str, b: str) -> bool:
        return self._folded(a) == self._folded(b)


def is_frame(value: Any) -> bool:
    """Return whether a value is a DataFrame of Spark, classic or Connect; imports neither."""
    return hasattr(value, "selectExpr")


def kind_of(value: Any) -> str:
    """Describe what is not a DataFrame of Spark, and how it becomes one.

    Examples
    --------
    >>> import pandas as pd
    >>> kind_of(pd.DataFrame())
    'a DataFrame of pandas; make one of it by spark.createDataFrame(data)'
    >>> kind_of("orders"), kind_of(None)
    ('a str; read a table by spark.table(name)', 'None')
    """
    if value is None:
        return "None"
    kind = type(value)
    package = kind.__module__.partition(".")[0]
    named = f"a {kind.__name__}" + (f" of {package}" if package != "builtins" else "")
    if isinstance(value, str):
        return f"{named}; read a table by spark.table(name)"
    if hasattr(value, "iloc") or hasattr(value, "to_pandas"):
        return f"{named}; make one of it by spark.createDataFrame(data)"
    return named


def check_distinct_columns(data: Any) -> None:
    """Check that no two columns of a DataFrame have the same name, by the session's case sensitivity.

    Raises
    ------
    SourceError
    """
    is_sensitive = data.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
    names = list(data.columns)
    counts = Counter(name if is_sensitive else name.casefold() for name in names)
    name, count = next(iter(counts.most_common(1)), ("", 0))
    if count > 1:
        places = [
            n
            for n, given in enumerate(names, 1)
            if (given if is_sensitive else given.casefold()) == name
        ]
        msg = (
            f"the data has {count} columns named {names[places[0] - 1]!r}: {', '.join(map(str, places))} of"
            f" {len(names)}. Give each a name of its own, such as data.toDF(*names), or select one of them"
        )
        raise SourceError(msg)


def check_frame(value: Any, *, streaming: bool = False) -> None:
    """Check that a value is a DataFrame of Spark, and not a stream unless these are allowed.

    Raises
    ------
    SourceError
    """
    if not is_frame(value):
        msg = f"a DataFrame of Spark is needed, not {kind_of(value)}"
        raise SourceError(msg)
    if value.isStreaming and not streaming:
        msg = "a streaming DataFrame has no end: measure the batches of foreachBatch, or what it wrote"
        raise SourceError(msg)
