"""Type inference for bound expressions, without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegauge.griffin.dsl.nodes import (
    Aliased,
    Attribute,
    BetweenNode,
    Binary,
    Boolean,
    Call,
    ColumnNode,
    DurationNode,
    Expression,
    In,
    IsNaN,
    IsNull,
    LikeNode,
    NaN,
    Number,
    Text,
    Unary,
)

ARITHMETIC = frozenset("+-*/%")
NESTED = frozenset({"array", "map", "struct"})
_SAME = frozenset({"abs", "any_value", "first", "last", "max", "min"})
_KNOWN = {
    "count": "long", "count_if": "long", "length": "integer", "size": "integer",
    "upper": "string", "lower": "string", "trim": "string",
    "string": "string", "double": "double", "int": "integer", "bigint": "long", "boolean": "boolean",
    "to_timestamp": "timestamp", "timestamp": "timestamp", "current_timestamp": "timestamp", "now": "timestamp",
    "to_date": "date", "date": "date", "current_date": "date", "unix_millis": "long", "unix_timestamp": "long",
}  # fmt: skip


def type_of(node: Expression) -> Any:  # noqa: C901, PLR0911 - one for each kind of node
    """Return a bound expression's type in Spark's JSON form, or None if it is unknown."""
    match node:
        case ColumnNode():
            return node.type
        case Aliased():
            return type_of(node.of)
        case Attribute():
            return _field(type_of(node.of), node.name)
        case Call(name="get" | "try_element_at", arguments=(of, _)):
            inner = type_of(of)
            if isinstance(inner, Mapping):
                return inner.get("elementType", inner.get("valueType"))
            return None
        case Call():
            name = node.name.casefold()
            if name in _SAME and node.arguments:
                return type_of(node.arguments[0])
            return _KNOWN.get(name)
        case Text():
            return "string"
        case Number():
            return "decimal" if node.value.as_tuple().exponent != 0 else "long"
        case DurationNode():
            return "long"
        case NaN():
            return "double"
        case _:
            return _operator_type(node)


def _operator_type(node: Expression) -> Any:
    match node:
        case Boolean() | In() | BetweenNode() | LikeNode() | IsNull() | IsNaN():
            return "boolean"
        case Unary():
            return "boolean" if node.operator == "not" else type_of(node.operand)
        case Binary() if node.operator in ARITHMETIC:
            return None
        case Binary():
            return "boolean"
        case _:
            return None


def kind_of(node: Expression) -> str | None:
    """Return a type without parameters, such as ``decimal`` or ``map``; None if it is unknown."""
    found = type_of(node)
    if isinstance(found, Mapping):
        return str(found["type"])
    return None if found is None else str(found).partition("(")[0].partition(" ")[0]


def value_kind(node: Expression) -> str | None:
    """Return what an expression is if it is certainly not true or false, else None.

    Examples
    --------
    >>> from decimal import Decimal
    >>> value_kind(Number(Decimal(1))), value_kind(Boolean(True))
    ('of type long', None)
    """
    of = node.of if isinstance(node, Aliased) else node
    if isinstance(of, Binary) and of.operator in ARITHMETIC:
        return f"the result of {of.operator}"
    if isinstance(of, Unary) and of.operator != "not":
        return "a number"
    kind = kind_of(of)
    return None if kind in {None, "boolean", "void"} else f"of type {kind}"


def fields_of(found: Any) -> list[str]:
    """Return the field names of a struct, or of the structs in an array."""
    if isinstance(found, Mapping) and found["type"] == "array":
        found = found["elementType"]
    if isinstance(found, Mapping) and found["type"] == "struct":
        return [field["name"] for field in found["fields"]]
    return []


def _field(found: Any, name: str) -> Any:
    if isinstance(found, Mapping) and found["type"] == "array":
        inner = _field(found["elementType"], name)
        return None if inner is None else {"type": "array", "elementType": inner}
    if isinstance(found, Mapping) and found["type"] == "struct":
        return next((f["type"] for f in found["fields"] if f["name"] == name), None)
    return None
