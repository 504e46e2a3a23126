"""Table schemas as plain data, and checks of the DataFrames that callers pass.

Preconditions and the ledger need no Spark: a `Schema` holds names and types as strings. The functions at the end
check that an argument is a DataFrame, and that its column names are distinct.
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
from tidegauge.analyzers.core.sql import (
    COLLATIONS_KEY,
    EXISTING_DEFAULT_KEY,
    LENGTHS_KEY,
    literal,
    parts,
    quote,
)

INTEGRAL = frozenset({"byte", "short", "integer", "long"})
NUMERIC = INTEGRAL | {"float", "double", "decimal"}
TEXT = frozenset({"string", "varchar", "char"})
TEMPORAL = frozenset({"date", "timestamp", "timestamp_ntz"})
NESTED = frozenset({"struct", "array", "map", "variant"})

EXACT_DIGITS = 15
"""Decimals of up to this many digits convert to different doubles."""

_SIZE_CALL = re.compile(r"size\((.+)\)")


@dataclass(frozen=True)
class Field:
    """A column or a nested field.

    Attributes
    ----------
    path : str
        The path as the caller wrote it.
    sql : str
        Spark SQL that reads the field.
    type : str or mapping
        The type in Spark's JSON form.
    collated : bool
        Whether the field's column has a collation other than Spark's default.
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
        """SQL for the value, with strings compared by their bytes for any collation of the column.

        Only Spark can compare by a collation, so states of different partitions could not be merged.
        """
        return (
            f"{self.sql} COLLATE UTF8_BINARY" if self.collated and self.kind in TEXT else self.sql
        )

    @property
    def hash_sql(self) -> str:
        """SQL for a long that identifies the value, for any type; null for null.

        Equal numbers have equal hashes: 1 as an integer, float, double or decimal, and 1.5 as a float,
        double or decimal. The hash of a whole number is the number.
        """
        if self.kind in INTEGRAL:
            return f"CAST({self.sql} AS BIGINT)"
        if self.kind in {"float", "double"}:
            return _hashed_double(f"CAST({self.sql} AS DOUBLE)")
        if self.kind != "decimal":
            return f"CASE WHEN {self.sql} IS NOT NULL THEN xxhash64({self.uncollated_sql}) END"
        double, (precision, scale) = f"CAST({self.sql} AS DOUBLE)", self.digits
        if precision <= EXACT_DIGITS:  # different decimals are different doubles
            return _hashed_double(double)
        text = self.decimal_text_sql
        text = f"rtrim('0', {text})" if scale else f"concat({text}, '.')"
        integer = f"TRY_CAST({self.sql} AS BIGINT)"
        round_trip = f"TRY_CAST({double} AS DECIMAL({precision},{scale}))"
        return (
            f"CASE WHEN {self.sql} = {integer} THEN {integer} WHEN {self.sql} = {round_trip}"
            f" THEN xxhash64({double}) WHEN {self.sql} IS NOT NULL THEN xxhash64({text}) END"
        )

    @property
    def decimal_text_sql(self) -> str:
        """SQL for a decimal as text, without an exponent; null for null.

        Without ANSI mode, a cast writes decimals below 0.000001 with an exponent.
        """
        text, (_, scale) = f"CAST({self.sql} AS STRING)", self.digits
        if not _MIN_EXPONENT_SCALE < scale < _MAX_DECIMAL_SCALE:
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


_MIN_EXPONENT_SCALE, _MAX_DECIMAL_SCALE = 6, 37
"""With at most 6 decimal places, no exponent is written. With 37 or more, adding 1 would overflow."""


def _hashed_double(value: str) -> str:
    """Return SQL for the hash of a double; whole numbers outside of 64 bits are hashed like fractions."""
    integer = f"TRY_CAST({value} AS BIGINT)"
    return (
        f"CASE WHEN {value} = {integer} THEN {integer}"
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
        """Return names and types as canonical JSON, which is equal for equal schemas."""
        columns = [[f["name"], f["type"]] for f in self.struct["fields"]]
        return json.dumps(columns, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @property
    def keys_only(self) -> set[str]:
        """Names of the columns that a source adds as partition keys; the table does not have them."""
        fields = self.struct["fields"]
        return {field["name"] for field in fields if field.get("metadata", {}).get(KEY_ONLY)}

    @property
    def has_padded_or_collated(self) -> bool:
        """Whether a column is a CHAR or VARCHAR, or has a collation."""
        special = {LENGTHS_KEY, COLLATIONS_KEY}
        return any(special & set(field.get("metadata", {})) for field in self.struct["fields"])

    @property
    def with_default(self) -> frozenset[str]:
        """Names of the columns with a default that Spark reads where a file lacks them."""
        fields = self.struct["fields"]
        return frozenset(f["name"] for f in fields if EXISTING_DEFAULT_KEY in f.get("metadata", {}))

    def without(self, columns: set[str]) -> Schema:
        """Drop top-level columns."""
        remaining = [field for field in self.struct["fields"] if field["name"] not in columns]
        return Schema({**self.struct, "fields": remaining}, self.case_sensitive)

    def field(self, column: str) -> Field:
        """Resolve a column or a nested path.

        ``address.zip`` is a field of a struct or a key of a map, ``lines[0]`` an element of an array
        counted from 0, ``size(lines)`` the number of elements of an array or map. An element that is
        missing in a row is null.

        Raises
        ------
        NoSuchColumnError
            If the column or field does not exist; the message suggests a similar name.
        WrongColumnTypeError
            If ``size()`` is applied to something other than an array or map.

        Examples
        --------
        >>> lines = {"type": "array", "elementType": "double", "containsNull": True}
        >>> schema = Schema.from_types({"lines": lines})
        >>> schema.field("lines[0]").sql, schema.field("size(lines)").kind
        ('get(`lines`, 0)', 'integer')
        """
        sized = _SIZE_CALL.fullmatch(column.strip())
        resolved = self._follow(sized[1] if sized else column, column)
        if not sized:
            return resolved
        if resolved.kind not in {"array", "map"}:
            raise WrongColumnTypeError(sized[1], resolved.kind, "an array or a map")
        return Field(
            column, f"CASE WHEN {resolved.sql} IS NOT NULL THEN size({resolved.sql}) END", "integer"
        )

    def _follow(self, path: str, column: str) -> Field:
        name, *steps = parts(path)
        column_json = self._columns.get(self._folded(str(name)))
        if column_json is None:
            raise NoSuchColumnError(column, self.names)
        sql, kind = quote(column_json["name"]), column_json["type"]
        collated = COLLATIONS_KEY in column_json.get("metadata", {})
        for step in steps:
            outer = kind["type"] if isinstance(kind, Mapping) else kind
            if outer == "struct":
                inside = kind["fields"]
                column_json = next((f for f in inside if self._same(f["name"], str(step))), None)
                if column_json is None:
                    raise NoSuchColumnError(column, [f["name"] for f in inside])
                sql, kind = f"{sql}.{quote(column_json['name'])}", column_json["type"]
                collated = COLLATIONS_KEY in column_json.get("metadata", {})
            elif outer == "array" and isinstance(step, int):
                sql, kind = f"get({sql}, {step})", kind["elementType"]
            elif outer == "map" and kind["keyType"] in {"string", *INTEGRAL}:
                key = literal(str(step)) if kind["keyType"] == "string" else str(int(step))
                sql, kind = f"{sql}[{key}]", kind["valueType"]
            else:
                raise NoSuchColumnError(column, self.names)
        return Field(column, sql, kind, collated)

    def top_level(self, *fields: Field) -> tuple[str, ...] | None:
        """Return the names of fields that are columns, not parts of columns, and have no collation; else None.

        Examples
        --------
        >>> schema = Schema.from_types({"lines": {"type": "map", "keyType": "string", "valueType": "long"}})
        >>> schema.top_level(schema.field("LINES")), schema.top_level(schema.field("lines.a"))
        (('lines',), None)
        """
        names = {quote(name): name for name in self.names}
        if any(resolved.sql not in names or resolved.collated for resolved in fields):
            return None
        return tuple(names[resolved.sql] for resolved in fields)

    def field_type(self, name: str) -> Any:
        """Return the type of the top-level column with a name, in Spark's JSON form."""
        return self._columns[self._folded(name)]["type"]

    def numeric(self, column: str) -> Field:
        """Resolve a numeric column; dates, timestamps and booleans are rejected."""
        return self._require(column, NUMERIC, "numeric")

    def text(self, column: str) -> Field:
        """Resolve a string column."""
        return self._require(column, TEXT, "a string")

    def temporal(self, column: str) -> Field:
        """Resolve a date or timestamp column."""
        return self._require(column, TEMPORAL, "a date or timestamp")

    def plain(self, column: str) -> Field:
        """Resolve a column that is not a struct, array, map or variant."""
        resolved = self.field(column)
        if resolved.kind in NESTED:
            raise WrongColumnTypeError(column, resolved.kind, "a plain type, not a nested one")
        return resolved

    def _require(self, column: str, kinds: frozenset[str], required: str) -> Field:
        resolved = self.field(column)
        if resolved.kind not in kinds:
            raise WrongColumnTypeError(column, resolved.kind, required)
        return resolved

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
    """Describe a value that is not a Spark DataFrame, and how to convert it.

    Examples
    --------
    >>> import pandas as pd
    >>> kind_of(pd.DataFrame())
    'a DataFrame of pandas; convert it with spark.createDataFrame(data)'
    >>> kind_of("orders"), kind_of(None)
    ('a str; read a table with spark.table(name)', 'None')
    """
    if value is None:
        return "None"
    kind = type(value)
    package = kind.__module__.partition(".")[0]
    description = f"a {kind.__name__}" + (f" of {package}" if package != "builtins" else "")
    if isinstance(value, str):
        return f"{description}; read a table with spark.table(name)"
    if hasattr(value, "iloc") or hasattr(value, "to_pandas"):
        return f"{description}; convert it with spark.createDataFrame(data)"
    return description


def check_distinct_columns(data: Any) -> None:
    """Check that the column names of a DataFrame are distinct, by the session's case sensitivity.

    Raises
    ------
    SourceError
        If two columns have the same name.
    """
    is_sensitive = data.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
    names = list(data.columns)
    counts = Counter(name if is_sensitive else name.casefold() for name in names)
    name, count = next(iter(counts.most_common(1)), ("", 0))
    if count > 1:
        numbers = [
            n
            for n, column in enumerate(names, 1)
            if (column if is_sensitive else column.casefold()) == name
        ]
        msg = (
            f"the data has {count} columns named {names[numbers[0] - 1]!r}: {', '.join(map(str, numbers))} of"
            f" {len(names)}. Give each column a distinct name, such as data.toDF(*names), or select one of them"
        )
        raise SourceError(msg)


def check_frame(value: Any, *, streaming: bool = False) -> None:
    """Check that a value is a Spark DataFrame and, unless ``streaming`` is set, not a stream.

    Raises
    ------
    SourceError
        If the value has another type.
    """
    if not is_frame(value):
        msg = f"expected a Spark DataFrame, not {kind_of(value)}"
        raise SourceError(msg)
    if value.isStreaming and not streaming:
        msg = "a streaming DataFrame cannot be measured: measure the batches in foreachBatch, or the table that it writes"
        raise SourceError(msg)
