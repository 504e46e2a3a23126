"""Spark SQL writer for syntax trees; user-supplied names and values cannot alter the statement."""

from __future__ import annotations

import re
from functools import singledispatch

from tidegauge.analyzers.core.sql import constant, literal, quote
from tidegauge.griffin.dsl.nodes import (
    Aliased,
    AllOf,
    Attribute,
    BetweenNode,
    Binary,
    Boolean,
    Call,
    ColumnNode,
    DurationNode,
    Expression,
    In,
    Index,
    IsNaN,
    IsNull,
    LikeNode,
    Name,
    NaN,
    Node,
    Null,
    Number,
    Star,
    TableNode,
    Text,
    Unary,
)
from tidegauge.griffin.durations import MILLISECONDS

OR, AND, TEST, SUM, PRODUCT, ATOM = range(6)
"""Precedence levels; an operand below the required level is put in brackets."""

_LEVELS = {"or": OR, "and": AND, "+": SUM, "-": SUM, "*": PRODUCT}
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

Written = tuple[str, int]


def expression_sql(node: Node) -> str:
    """Return an expression as Spark SQL; equal trees give equal texts.

    Names are always in backticks, values are written as literals, and an alias at the top is kept.
    Division by zero gives null.

    Parameters
    ----------
    node : Node
        Bound or not. An index of an unbound tree is written as it is; one of a bound tree gives
        null if there is no such element.

    Raises
    ------
    TypeError
        If the node is a rule, not an expression.

    Examples
    --------
    >>> from tidegauge.griffin.dsl.nodes import Attribute, Call, Name
    >>> age = Attribute(Name("source"), "age")
    >>> expression_sql(Call("max", (age,), method=True))
    'max(`source`.`age`)'
    """
    if isinstance(node, Aliased):
        return f"{write(node.of)[0]} AS {quote(node.alias)}"
    return write(node)[0]


def operand(node: Node, least: int = ATOM) -> str:
    """Return an expression as SQL, in brackets if it binds less tightly than required."""
    sql, level = write(node)
    return sql if level >= least else f"({sql})"


@singledispatch
def write(node: Node) -> Written:
    """Return SQL for a node and its precedence level; other modules register more node types."""
    msg = f"{type(node).__name__} is no expression"
    raise TypeError(msg)


@write.register
def _(node: Text) -> Written:
    return literal(node.value), ATOM


@write.register
def _(node: Number) -> Written:
    whole = node.value.as_tuple().exponent == 0
    return constant(int(node.value) if whole else node.value), ATOM


@write.register
def _(node: DurationNode) -> Written:
    return constant(node.amount * MILLISECONDS[node.unit]), ATOM


@write.register
def _(node: Boolean) -> Written:
    return constant(node.value), ATOM


@write.register
def _(_: Null) -> Written:
    return "NULL", ATOM


@write.register
def _(_: NaN) -> Written:
    return constant(float("nan")).replace("nan", "NaN"), ATOM


@write.register
def _(_: Star) -> Written:
    return "*", ATOM


@write.register
def _(node: Name | TableNode) -> Written:
    return quote(node.name), ATOM


@write.register
def _(node: ColumnNode) -> Written:
    return f"{quote(node.table)}.{quote(node.name)}", ATOM


@write.register
def _(node: Attribute) -> Written:
    return f"{operand(node.of)}.{quote(node.name)}", ATOM


@write.register
def _(node: AllOf) -> Written:
    return f"{operand(node.of)}.*", ATOM


@write.register
def _(node: Index) -> Written:
    return f"{operand(node.of)}[{operand(node.index, OR)}]", ATOM


@write.register
def _(node: Call) -> Written:
    name = node.name if _PLAIN_NAME.fullmatch(node.name) else quote(node.name)
    arguments = ", ".join(operand(argument, OR) for argument in node.arguments)
    return f"{name}({'DISTINCT ' if node.distinct else ''}{arguments})", ATOM


@write.register
def _(node: Unary) -> Written:
    # Always in brackets: SQL's NOT binds less tightly than the DSL's, and `--` starts a comment.
    sign = "NOT " if node.operator == "not" else node.operator
    return f"({sign}{operand(node.operand)})", ATOM


@write.register
def _(node: Binary) -> Written:
    # Left-leaning chains of one level may be long, so iterate instead of recursing.
    level = _LEVELS.get(node.operator, TEST)
    if node.operator == "/":
        return f"try_divide({operand(node.left, OR)}, {operand(node.right, OR)})", ATOM
    if node.operator == "%":  # Spark 3.5 has no try_mod
        return f"({operand(node.left)} % nullif({operand(node.right, OR)}, 0D))", ATOM
    if level == TEST:
        left, right = operand(node.left, SUM), operand(node.right, SUM)
        return f"{left} {node.operator} {right}", TEST
    first: Expression = node
    tail: list[str] = []
    while isinstance(first, Binary) and _LEVELS.get(first.operator) == level:
        tail.append(f" {first.operator.upper()} {operand(first.right, level + 1)}")
        first = first.left
    return operand(first, level) + "".join(reversed(tail)), level


def _test(of: Expression, negated: bool, said: str) -> Written:  # noqa: FBT001 - of the nodes
    return f"{operand(of, SUM)} {'NOT ' if negated else ''}{said}", TEST


@write.register
def _(node: In) -> Written:
    options = ", ".join(operand(option, OR) for option in node.options)
    return _test(node.of, node.negated, f"IN ({options})")


@write.register
def _(node: BetweenNode) -> Written:
    low, high = operand(node.low, SUM), operand(node.high, SUM)
    return _test(node.of, node.negated, f"BETWEEN {low} AND {high}")


@write.register
def _(node: LikeNode) -> Written:
    word = "RLIKE" if node.regex else "LIKE"
    return _test(node.of, node.negated, f"{word} {operand(node.pattern, SUM)}")


@write.register
def _(node: IsNull) -> Written:
    return f"{operand(node.of, SUM)} IS {'NOT ' if node.negated else ''}NULL", TEST


@write.register
def _(node: IsNaN) -> Written:
    # A computed value may be a text, which isnan would reject in ANSI mode.
    of = operand(node.of, OR)
    if not isinstance(node.of, (ColumnNode, Name, Attribute, Index)):
        of = f"try_cast({of} AS DOUBLE)"
    return (f"(NOT isnan({of}))" if node.negated else f"isnan({of})"), ATOM


@write.register
def _(node: Aliased) -> Written:
    return write(node.of)
