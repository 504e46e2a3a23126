"""Avro schemas to Spark types."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tidegauge.analyzers.core.ddl import type_sql
from tidegauge.analyzers.core.errors import SetupError, SuiteError

_PLAIN = {
    "boolean": "boolean",
    "int": "integer",
    "long": "long",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "fixed": "binary",
    "string": "string",
    "enum": "string",
}
_LOGICAL = {
    ("int", "date"): "date",
    ("long", "timestamp-millis"): "timestamp",
    ("long", "timestamp-micros"): "timestamp",
    ("long", "local-timestamp-millis"): "timestamp_ntz",
    ("long", "local-timestamp-micros"): "timestamp_ntz",
}
_ORDER = ("integer", "long", "float", "double")
MOST_DIGITS = 38
"""Maximum precision of a Spark decimal."""


def need_fastavro() -> Any:
    """Import and return fastavro.

    Raises
    ------
    SetupError
        If fastavro is not installed.
    """
    try:
        import fastavro
    except ModuleNotFoundError:
        raise SetupError("query logs need fastavro: pip install 'tidegauge[avro]'") from None
    return fastavro


def parse_record(schema: str | Mapping[str, Any]) -> dict[str, Any]:
    """Parse and validate the Avro schema of a record, as plain JSON.

    Parameters
    ----------
    schema : str or mapping
        An Avro schema, as JSON text or parsed.

    Raises
    ------
    SuiteError
        If it is not an Avro schema of a record, or has a field that no column can hold.

    Examples
    --------
    >>> parse_record('{"type": "record", "name": "K", "fields": []}')["name"]
    'K'
    """
    fastavro = need_fastavro()
    try:
        parsed = json.loads(schema) if isinstance(schema, str) else dict(schema)
        fastavro.parse_schema(parsed)
    except (ValueError, TypeError, LookupError, fastavro.schema.SchemaParseException) as error:
        msg = f"not an Avro schema: {str(schema)[:200]!r} ({error or type(error).__name__})"
        raise SuiteError(msg) from error
    if not isinstance(parsed, dict) or parsed.get("type") != "record":
        msg = f"keys and values are Avro records, not {str(schema)[:200]!r}"
        raise SuiteError(msg)
    record: dict[str, Any] = json.loads(json.dumps(parsed))
    columns_of(record)
    return record


def columns_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a record with their types in Spark's JSON form.

    A union of null and one type is that type: every column is nullable. Enums are strings, fixed is
    binary. The logical types date, timestamp in milli- or microseconds, and decimal are mapped;
    other logical types map to their underlying type, so a time of day is a number and a UUID a
    string. A field of type null has no column.

    Raises
    ------
    SuiteError
        For a field that is a union of several types, recursive, or a decimal of more than 38
        digits.

    Examples
    --------
    >>> when = {"type": "long", "logicalType": "timestamp-millis"}
    >>> fields = [{"name": "n", "type": ["null", "int"]}, {"name": "at", "type": when}]
    >>> columns_of({"type": "record", "name": "V", "fields": fields})
    {'n': 'integer', 'at': 'timestamp'}
    """
    expanded: Any = need_fastavro().schema.expand_schema(schema)
    fields = {
        field["name"]: _one_type(field["type"], field["name"]) for field in expanded["fields"]
    }
    return {name: _spark_type(kind, name) for name, kind in fields.items() if kind != "null"}


def _one_type(schema: Any, path: str) -> Any:
    """Return the non-null type of a union."""
    if not isinstance(schema, list):
        return schema
    others = [kind for kind in schema if kind != "null"]
    if len(others) > 1:
        told = ", ".join(str(k["type"] if isinstance(k, dict) else k) for k in others)
        msg = f"field {path!r} is a union of {told}; a column has one type beside null"
        raise SuiteError(msg)
    return others[0] if others else "null"


def _spark_type(schema: Any, path: str) -> Any:
    schema = _one_type(schema, path)
    if isinstance(schema, str):
        schema = {"type": schema}
    kind, logical = schema["type"], schema.get("logicalType")
    if kind == "record":
        inside = [
            (f["name"], _spark_type(f["type"], f"{path}.{f['name']}")) for f in schema["fields"]
        ]
        return struct(dict(inside))
    if kind == "array":
        element = _spark_type(schema["items"], f"{path}[]")
        return {"type": "array", "elementType": element, "containsNull": True}
    if kind == "map":
        value = _spark_type(schema["values"], f"{path}[]")
        return {"type": "map", "keyType": "string", "valueType": value, "valueContainsNull": True}
    if kind in {"bytes", "fixed"} and logical == "decimal":
        digits, scale = int(schema["precision"]), int(schema.get("scale", 0))
        if digits > MOST_DIGITS:
            msg = f"field {path!r} is a decimal of {digits} digits; Spark has {MOST_DIGITS} at most"
            raise SuiteError(msg)
        return f"decimal({digits},{scale})"
    if kind not in _PLAIN:  # nested null, or a recursive reference to an enclosing record
        what = "always null" if kind == "null" else f"a {kind!r} inside itself"
        msg = f"field {path!r} is {what}; no column can hold that"
        raise SuiteError(msg)
    return _LOGICAL.get((kind, logical), _PLAIN[kind])


def struct(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return a struct of nullable columns, in Spark's JSON form."""
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in columns.items()
    ]
    return {"type": "struct", "fields": fields}


def readable(schema: Any) -> Any:
    """Return a schema without the logical types that are read as their underlying type."""
    if isinstance(schema, list):
        return [readable(kind) for kind in schema]
    if not isinstance(schema, dict):
        return schema
    logical = schema.get("logicalType")
    known = logical == "decimal" or (schema["type"], logical) in _LOGICAL
    kept = {k: v for k, v in schema.items() if known or k != "logicalType"}
    for inside in ("type", "items", "values"):
        if inside in kept:
            kept[inside] = readable(kept[inside])
    if "fields" in kept:
        kept["fields"] = [{**f, "type": readable(f["type"])} for f in kept["fields"]]
    return kept


def promoted(a: Any, b: Any) -> Any:
    """Return the type that holds the values of two, as Avro promotes numbers; None if none does.

    A whole number of 64 bits and a float are a double, which keeps more digits than Avro asks for.

    Parameters
    ----------
    a, b : str or mapping
        Types in Spark's JSON form.

    Examples
    --------
    >>> promoted("integer", "long"), promoted("long", "float"), promoted("integer", "string")
    ('long', 'double', None)
    >>> promoted({"type": "array", "elementType": "long"}, {"type": "array", "elementType": "integer"})
    {'type': 'array', 'elementType': 'long'}
    >>> promoted(struct({"a": "integer", "b": "string"}), struct({"a": "long", "b": "string"})) == (
    ...     struct({"a": "long", "b": "string"})
    ... )
    True
    """
    if type_sql(a) == type_sql(b):
        return a
    if isinstance(a, str) and isinstance(b, str):
        return _promoted_number(a, b)
    if not isinstance(a, Mapping) or not isinstance(b, Mapping) or a["type"] != b["type"]:
        return None
    if a["type"] == "struct":
        return _promoted_fields(a, b)
    inside = {"array": "elementType", "map": "valueType"}.get(a["type"])
    if inside is None or ("keyType" in a and type_sql(a["keyType"]) != type_sql(b["keyType"])):
        return None
    found = promoted(a[inside], b[inside])
    return None if found is None else {**a, inside: found}


def _promoted_number(a: str, b: str) -> str | None:
    if not {a, b} <= set(_ORDER):
        return None
    return "double" if {a, b} == {"long", "float"} else max(a, b, key=_ORDER.index)


def _promoted_fields(a: Mapping[str, Any], b: Mapping[str, Any]) -> Any:
    """Promote the fields of structs of the same names, in the same order."""
    if [f["name"] for f in a["fields"]] != [f["name"] for f in b["fields"]]:
        return None
    kinds = [promoted(f["type"], g["type"]) for f, g in zip(a["fields"], b["fields"], strict=True)]
    if any(kind is None for kind in kinds):
        return None
    return {
        **a,
        "fields": [{**f, "type": kind} for f, kind in zip(a["fields"], kinds, strict=True)],
    }
