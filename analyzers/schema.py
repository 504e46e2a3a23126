"""The columns of a table as plain data, so that preconditions and the ledger need no Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from analyzers.errors import NoSuchColumnError, WrongColumnTypeError
from analyzers.sql import parts

INTEGRAL = frozenset({"byte", "short", "integer", "long"})
NUMERIC = INTEGRAL | {"float", "double", "decimal"}
NESTED = frozenset({"struct", "array", "map", "variant"})


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
    >>> schema.type_of("ID")
    'long'
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

    def type_of(self, column: str) -> str:
        """Return the kind of type of a column or of a field inside structs, less its parameters.

        Raises
        ------
        NoSuchColumnError
            Naming the nearest column.
        """
        struct: Any = self.struct
        for part in parts(column):
            fields = struct.get("fields", ()) if isinstance(struct, Mapping) else ()
            struct = next((f["type"] for f in fields if self._same(f["name"], part)), None)
            if struct is None:
                raise NoSuchColumnError(column, self.names)
        if isinstance(struct, Mapping):
            return str(struct["type"])
        return str(struct).partition("(")[0].partition(" ")[0]

    def require_numeric(self, column: str) -> None:
        """Raise unless the column is numeric; dates, timestamps and booleans are not."""
        kind = self.type_of(column)
        if kind not in NUMERIC:
            raise WrongColumnTypeError(column, kind, "numeric")

    def require_not_nested(self, column: str) -> None:
        """Raise if the column is a struct, array or map."""
        kind = self.type_of(column)
        if kind in NESTED:
            raise WrongColumnTypeError(column, kind, "a plain type, not a nested one")

    def _same(self, a: str, b: str) -> bool:
        return a == b if self.case_sensitive else a.casefold() == b.casefold()
