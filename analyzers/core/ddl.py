"""Columns and types as DDL text, ``id BIGINT, name STRING``: parsed and written without Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tidegauge.analyzers.core.sql import NAMELESS, QUOTED_NAME, literal, quote

COLLATIONS = "__COLLATIONS"
"""The metadata in which a column's JSON form keeps the collations of its text."""
LENGTHS = "__CHAR_VARCHAR_TYPE_STRING"
"""The metadata in which a column's JSON form keeps its type with the declared lengths of texts."""
_SQL = {"byte": "TINYINT", "short": "SMALLINT", "integer": "INT", "long": "BIGINT"}

_COLUMN = re.compile(r"(?P<name>`(?:[^`]|``)+`|[^\s:`,()<>]+)\s*:?\s*(?P<type>.*)", re.DOTALL)
_AFTER_TYPE = re.compile(
    r"\s+(?:NOT\s+NULL|NULL|COMMENT|DEFAULT|COLLATE|GENERATED)\b", re.IGNORECASE
)
_ALIASES = {
    "long": "bigint",
    "integer": "int",
    "short": "smallint",
    "byte": "tinyint",
    "real": "float",
    "dec": "decimal",
    "numeric": "decimal",
    "timestamp_ltz": "timestamp",
}
_KINDS = frozenset(
    [
        "binary",
        "boolean",
        "char",
        "date",
        "decimal",
        "double",
        "float",
        "int",
        "bigint",
        "smallint",
        "tinyint",
        "string",
        "time",
        "timestamp",
        "timestamp_ntz",
        "variant",
        "varchar",
        "void",
    ]
) | {
    *("interval year", "interval month", "interval year to month", "interval day", "interval hour"),
    *("interval minute", "interval second", "interval day to hour", "interval day to minute"),
    *("interval day to second", "interval hour to minute", "interval hour to second"),
    "interval minute to second",
}
_SIMPLE = re.compile(r"(?P<name>[a-z_ ]+)(\(\s*(?P<size>\d+)\s*(,\s*(?P<scale>\d+)\s*)?\))?")
_PAIRS = {"(": ")", "<": ">"}
_HIDDEN = re.compile(rf"{NAMELESS}|{QUOTED_NAME}", re.DOTALL)


@dataclass(frozen=True)
class DeclaredColumn:
    """A column of a declared schema.

    Attributes
    ----------
    name : str
    type : str or None
        As Spark prints it, ``bigint`` and ``array<string>``; None for any.
    """

    name: str
    type: str | None


def parse_columns(text: str) -> tuple[DeclaredColumn, ...]:
    """Parse columns separated by commas: a name each, and a type or none.

    ``NOT NULL``, collations, comments and defaults are ignored. A name with blanks or commas is in backticks.

    Raises
    ------
    ValueError
        With the part that is not a column, or is there twice.

    Examples
    --------
    >>> for column in parse_columns("id LONG NOT NULL, `a b` array< string >, price: decimal(9, 2), x"):
    ...     print(column.name, column.type)
    id bigint
    a b array<string>
    price decimal(9,2)
    x None
    """
    found: dict[str, DeclaredColumn] = {}
    for part in _split(text):
        match = _COLUMN.fullmatch(part.strip())
        if match is None:
            msg = f"{part.strip()!r} is not a column such as 'id BIGINT'"
            raise ValueError(msg)
        raw = match["name"]
        name = raw[1:-1].replace("``", "`") if raw.startswith("`") else raw
        if name in found:
            msg = f"column {name!r} is declared twice"
            raise ValueError(msg)
        declared = " " + match["type"]
        if after := _AFTER_TYPE.search(_masked(declared)):
            declared = declared[: after.start()]
        declared = declared.strip()
        found[name] = DeclaredColumn(name, _normal(declared) if declared else None)
    return tuple(found.values())


def type_text(kind: Any) -> str:
    """Return a type in Spark's JSON form as Spark prints it.

    Examples
    --------
    >>> type_text("long"), type_text({"type": "array", "elementType": "integer"})
    ('bigint', 'array<int>')
    """
    if not isinstance(kind, Mapping):
        return _ALIASES.get(str(kind), str(kind))
    if kind["type"] == "array":
        return f"array<{type_text(kind['elementType'])}>"
    if kind["type"] == "map":
        return f"map<{type_text(kind['keyType'])},{type_text(kind['valueType'])}>"
    if kind["type"] == "struct":
        fields = ",".join(f"{f['name']}:{type_text(f['type'])}" for f in kind["fields"])
        return f"struct<{fields}>"
    return str(kind["type"])


def type_sql(kind: Any, *, path: str = "", collations: Mapping[str, str] | None = None) -> str:
    """Return a type in Spark's JSON form as SQL, without nullability.

    Parameters
    ----------
    kind : str or mapping
    path : str, optional
        Where the type stands in its field, as ``collations`` names it: ``name``, ``name.element``.
    collations : mapping of str to str, optional
        Collation of texts by path, with its provider: ``spark.UTF8_LCASE``.

    Examples
    --------
    >>> type_sql({"type": "array", "elementType": "long", "containsNull": True})
    'ARRAY<BIGINT>'
    >>> fields = [{"name": "a b", "type": "integer", "nullable": True, "metadata": {}}]
    >>> type_sql({"type": "struct", "fields": fields})
    'STRUCT<`a b`: INT>'
    """
    known = collations or {}

    def inside(part: str) -> str:
        step = {"elementType": "element", "keyType": "key", "valueType": "value"}[part]
        return type_sql(kind[part], path=f"{path}.{step}", collations=known)

    if isinstance(kind, str):
        collated = f" COLLATE {known[path].rpartition('.')[2]}" if path in known else ""
        return _SQL.get(kind, kind.upper()) + collated
    if kind["type"] == "array":
        return f"ARRAY<{inside('elementType')}>"
    if kind["type"] == "map":
        return f"MAP<{inside('keyType')}, {inside('valueType')}>"
    if kind["type"] == "udt":
        return type_sql(kind["sqlType"])
    return f"STRUCT<{', '.join(_definition(field, ': ') for field in kind['fields'])}>"


def definition_sql(field: Mapping[str, Any]) -> str:
    r"""Return a column's definition for ``CREATE TABLE``: its type, length, collation and comment.

    Every column is nullable. Collations and lengths are read from the metadata in which Spark keeps
    them.

    Parameters
    ----------
    field : mapping
        A field of a struct in Spark's JSON form.

    Examples
    --------
    >>> print(definition_sql({"name": "a`b", "type": "long", "metadata": {"comment": "its key"}}))
    `a``b` BIGINT COMMENT 'its key'
    """
    return _definition(field, " ")


def _definition(field: Mapping[str, Any], between: str) -> str:
    metadata = field.get("metadata", {})
    kind = metadata.get(LENGTHS, field["type"])
    of = type_sql(kind, path=field["name"], collations=metadata.get(COLLATIONS))
    comment = f" COMMENT {literal(metadata['comment'])}" if metadata.get("comment") else ""
    return f"{quote(field['name'])}{between}{of}{comment}"


def _normal(text: str) -> str:
    """Return a declared type as `type_text` writes it."""
    kind, opening, rest = text.strip().partition("<")
    kind = re.sub(r"\s+", " ", kind.strip()).casefold()
    if opening:
        if not rest.rstrip().endswith(">") or kind not in {"array", "map", "struct"}:
            msg = f"{text!r} is not a type such as BIGINT or ARRAY<STRING>"
            raise ValueError(msg)
        inner = list(_split(rest.rstrip()[:-1]))
        if kind == "struct":
            fields = parse_columns(",".join(inner)) if any(map(str.strip, inner)) else ()
            return f"struct<{','.join(f'{f.name}:{f.type}' for f in fields)}>"
        return f"{kind}<{','.join(map(_normal, inner))}>"
    match = _SIMPLE.fullmatch(kind)
    name = match and _ALIASES.get(match["name"].strip(), match["name"].strip())
    if match is None or name not in _KINDS:
        msg = f"{text!r} is not a type such as BIGINT or ARRAY<STRING>"
        raise ValueError(msg)
    if name == "decimal":
        return f"decimal({match['size'] or 10},{match['scale'] or 0})"
    if name == "time":
        return f"time({match['size'] or 6})"
    return f"{name}({match['size']})" if match["size"] else str(name)


def _split(text: str) -> Iterator[str]:
    """Split text at the commas that lie in no brackets, backticks or quotes."""
    start = 0
    for comma in re.finditer(",", _masked(text)):
        yield text[start : comma.start()]
        start = comma.end()
    yield text[start:]


def _masked(text: str) -> str:
    """Return text of the same length in which all in brackets, backticks and quotes is an underscore."""
    depth, found = 0, []
    for char in _HIDDEN.sub(lambda match: "_" * len(match[0]), text):
        depth -= char in _PAIRS.values()
        found.append("_" if depth else char)
        depth += char in _PAIRS
    return "".join(found)
