"""Columns and operations of a rule that can fail on some data, for Spark's errors which name none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeGuard

from tidegauge.analyzers.core.schema import NUMERIC
from tidegauge.griffin.bind.types import ARITHMETIC, kind_of
from tidegauge.griffin.dsl.nodes import (
    COMPARISONS,
    BetweenNode,
    Binary,
    Call,
    ColumnNode,
    Expression,
    In,
    Node,
    walk,
)

_TEXTS = re.compile(r"CAST_INVALID_INPUT|CANNOT_PARSE|DateTimeException|NumberFormatException")
_CASTS = frozenset(
    [
        "int",
        "integer",
        "bigint",
        "long",
        "smallint",
        "tinyint",
        "float",
        "double",
        "decimal",
        "boolean",
        "date",
        "to_date",
        "timestamp",
        "to_timestamp",
        "unix_timestamp",
        "to_number",
        "sum",
        "avg",
        "mean",
        "stddev",
        "variance",
    ]
)
"""Functions that cast a text to a number, a truth value or a time, and fail on one that is none."""


@dataclass(frozen=True, slots=True)
class Hazards:
    """Operations and columns of a rule that can fail on some data.

    Attributes
    ----------
    texts : tuple of str
        Comparisons of texts with numbers, and texts that are cast or computed with, with their places.
    columns : tuple of str
        All columns that the rule reads, with their tables.
    """

    texts: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()

    def of(self, message: str) -> str:
        """Return what may have caused an error of Spark, by its message; empty if nothing is known.

        Examples
        --------
        >>> Hazards(("line 1, column 1 casts the text 'n' in int()",)).of("[CAST_INVALID_INPUT] The value")
        "line 1, column 1 casts the text 'n' in int()"
        >>> Hazards(columns=("source.n", "source.m")).of("[ARITHMETIC_OVERFLOW] long overflow")
        'the rule reads source.n, source.m'
        """
        if self.texts and _TEXTS.search(message):
            return ", ".join(self.texts)
        return f"the rule reads {', '.join(self.columns)}" if self.columns else ""


def hazards(rule: Node) -> Hazards:
    """Return what of a bound rule can fail on some data.

    Examples
    --------
    >>> name, id = ColumnNode("source", "name", "string"), ColumnNode("target", "id", "long")
    >>> hazards(Binary("=", name, id)).texts
    ("line 1, column 1 compares the text 'name' with the number 'id'",)
    >>> len(hazards(In(name, (id,))).texts), len(hazards(BetweenNode(id, name, name)).texts)
    (1, 1)
    >>> hazards(Call("int", (name,))).texts
    ("line 1, column 1 casts the text 'name' in int()",)
    >>> hazards(Binary("+", id, name))
    Hazards(texts=("line 1, column 1 computes with the text 'name'",), columns=('target.id', 'source.name'))
    """
    columns = (f"{node.table}.{node.name}" for node in walk(rule) if isinstance(node, ColumnNode))
    return Hazards(tuple(dict.fromkeys(_texts(rule))), tuple(dict.fromkeys(columns)))


def _texts(rule: Node) -> Iterator[str]:
    for node in walk(rule):
        at = f"line {node.span.line}, column {node.span.column}"
        for one, other in _compared(node):
            for text, number in ((one, other), (other, one)):
                if _is_text(text) and kind_of(number) in NUMERIC:
                    shown = f" {number.name!r}" if isinstance(number, ColumnNode) else ""
                    yield f"{at} compares the text {text.name!r} with the number{shown}"
        if isinstance(node, Binary) and node.operator in ARITHMETIC:
            for text in filter(_is_text, (node.left, node.right)):
                yield f"{at} computes with the text {text.name!r}"
        if isinstance(node, Call) and node.name.casefold() in _CASTS:
            for text in filter(_is_text, node.arguments):
                yield f"{at} casts the text {text.name!r} in {node.name}()"


def _is_text(node: Expression) -> TypeGuard[ColumnNode]:
    return isinstance(node, ColumnNode) and kind_of(node) == "string"


def _compared(node: Node) -> list[tuple[Expression, Expression]]:
    """Return the pairs of values that a comparison, IN or BETWEEN compares."""
    match node:
        case Binary() if node.operator in COMPARISONS:
            return [(node.left, node.right)]
        case In():
            return [(node.of, option) for option in node.options]
        case BetweenNode():
            return [(node.of, node.low), (node.of, node.high)]
    return []
