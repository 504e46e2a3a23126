"""The columns of a table as plain data, so that preconditions and the ledger need no Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from analyzers.errors import NoSuchColumnError, WrongColumnTypeError
from analyzers.sql import literal, parts, quote

INTEGRAL = frozenset({"byte", "short", "integer", "long"})
NUMERIC = INTEGRAL | {"float", "double", "decimal"}
TEXT = frozenset({"string", "varchar", "char"})
TEMPORAL = frozenset({"date", "timestamp", "timestamp_ntz"})
NESTED = frozenset({"struct", "array", "map", "variant"})

_SIZE = re.compile(r"size\((.+)\)")


@dataclass(frozen=True)
class Field:
    """A column, or a part of one that a path leads to.

    Attributes
    ----------
    path : str
        As it was asked for.
    sql : str
        Spark SQL that reads it.
    type : str or mapping
        In Spark's JSON form.
    """

    path: str
    sql: str
    type: Any

    @property
    def kind(self) -> str:
        """The type less its parameters: ``decimal`` for ``decimal(9,2)``."""
        if isinstance(self.type, Mapping):
            return str(self.type["type"])
        return str(self.type).partition("(")[0].partition(" ")[0]

    @property
    def digits(self) -> tuple[int, int]:
        """Precision and scale of a decimal."""
        numbers = re.findall(r"\d+", str(self.type))
        precision, scale = (*map(int, numbers), 10, 0)[:2] if len(numbers) == 2 else (10, 0)  # noqa: PLR2004
        return precision, scale


@dataclass(frozen=True)
class Schema:
    """Column names and types, in Spark's JSON form.

    Attributes
    ----------
    struct : mapping
        What ``StructType.jsonValue()`` returns.
    case_sensitive : bool
        Whether names that differ only in case are different columns (``spark.sql.caseSensitive``).

    Examples
    --------
    >>> schema = Schema.from_types({"id": "long", "name": "string"})
    >>> schema.field("ID")
    Field(path='ID', sql='`id`', type='long')
    """

    struct: Mapping[str, Any]
    case_sensitive: bool = False

    @classmethod
    def of(cls, schema: Any, *, case_sensitive: bool = False) -> Schema:
        """Return ``schema`` if it is one, or make one of a Spark ``StructType``."""
        if isinstance(schema, Schema):
            return schema
        return cls(schema.jsonValue(), case_sensitive)

    @classmethod
    def of_frame(cls, data: Any) -> Schema:
        """Make one of a DataFrame, with its session's word on letter case."""
        sensitive = data.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
        return cls.of(data.schema, case_sensitive=sensitive)

    @classmethod
    def from_types(cls, types: Mapping[str, Any]) -> Schema:
        """Make one of names and type names as Spark's JSON spells them (``long``, ``decimal(9,2)``)."""
        columns = [
            {"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in types.items()
        ]
        return cls({"type": "struct", "fields": columns})

    @property
    def names(self) -> tuple[str, ...]:
        """The top-level columns in order."""
        return tuple(field["name"] for field in self.struct["fields"])

    def canonical(self) -> str:
        """Return names and types as JSON text; equal schemas give equal texts."""
        columns = [[f["name"], f["type"]] for f in self.struct["fields"]]
        return json.dumps(columns, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    def without(self, columns: set[str]) -> Schema:
        """Return the schema less some top-level columns."""
        kept = [field for field in self.struct["fields"] if field["name"] not in columns]
        return Schema({**self.struct, "fields": kept}, self.case_sensitive)

    def field(self, column: str) -> Field:
        """Find a column, or what a path leads to inside one.

        ``address.zip`` is a field of a struct or a key of a map, ``lines[0]`` an element of an array
        counted from 0, ``size(lines)`` the number of elements of an array or map. What is not there
        in a row is null.

        Raises
        ------
        NoSuchColumnError
            Naming the nearest column.

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
        for step in rest:
            outer = kind["type"] if isinstance(kind, Mapping) else kind
            if outer == "struct":
                inside = kind["fields"]
                of = next((f for f in inside if self._same(f["name"], str(step))), None)
                if of is None:
                    raise NoSuchColumnError(column, [f["name"] for f in inside])
                sql, kind = f"{sql}.{quote(of['name'])}", of["type"]
            elif outer == "array" and isinstance(step, int):
                sql, kind = f"get({sql}, {step})", kind["elementType"]
            elif outer == "map" and kind["keyType"] in {"string", *INTEGRAL}:
                key = literal(str(step)) if kind["keyType"] == "string" else str(int(step))
                sql, kind = f"{sql}[{key}]", kind["valueType"]
            else:
                raise NoSuchColumnError(column, self.names)
        return Field(column, sql, kind)

    def numeric(self, column: str) -> Field:
        """Find a numeric column; dates, timestamps and booleans are not."""
        return self._require(column, NUMERIC, "numeric")

    def text(self, column: str) -> Field:
        """Find a column of text."""
        return self._require(column, TEXT, "a text")

    def temporal(self, column: str) -> Field:
        """Find a column of dates or timestamps."""
        return self._require(column, TEMPORAL, "a date or timestamp")

    def plain(self, column: str) -> Field:
        """Find a column that is not a struct, array, map or variant."""
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
        """The top-level columns by name: a wide table is asked for each of its columns many times."""
        return {self._folded(f["name"]): f for f in reversed(self.struct["fields"])}

    def _folded(self, name: str) -> str:
        return name if self.case_sensitive else name.casefold()

    def _same(self, a: str, b: str) -> bool:
        return self._folded(a) == self._folded(b)
