"""Trees of the Griffin DSL as Spark SQL: names and values of users cannot change what it means."""

from __future__ import annotations

import re
from functools import singledispatch

from analyzers.griffin.nodes import (
    Aliased,
    AllOf,
    Attribute,
    Between,
    Binary,
    Boolean,
    Call,
    Column,
    Expression,
    In,
    Index,
    IsNaN,
    IsNull,
    Like,
    Name,
    NaN,
    Node,
    Null,
    Number,
    Star,
    Table,
    Text,
    Time,
    Unary,
)
from analyzers.sql import constant, literal, quote

OR, AND, TEST, SUM, PRODUCT, ATOM = range(6)
"""How tightly SQL binds; what binds less than its place asks for is put in brackets."""

MILLISECONDS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}

_LEVELS = {"or": OR, "and": AND, "+": SUM, "-": SUM, "*": PRODUCT}
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

Written = tuple[str, int]


def expression_sql(node: Node) -> str:
    """Return an expression as Spark SQL; equal trees give equal texts.

    Names are put in backticks always, values are written so that they stay values, and an alias at the top
    is kept. What is divided by zero is null.

    Parameters
    ----------
    node : Node
        Bound or not. An index of an unbound tree is written as it is; one of a bound tree gives null where
        there is no such element.

    Raises
    ------
    TypeError
        If it is a rule, not an expression.

    Examples
    --------
    >>> from analyzers.griffin.nodes import Attribute, Call, Name
    >>> age = Attribute(Name("source"), "age")
    >>> expression_sql(Call("max", (age,), method=True))
    'max(`source`.`age`)'
    """
    if isinstance(node, Aliased):
        return f"{write(node.of)[0]} AS {quote(node.alias)}"
    return write(node)[0]


def operand(node: Node, least: int = ATOM) -> str:
    """Return an expression as SQL for a place that asks for binding at least so tightly."""
    sql, level = write(node)
    return sql if level >= least else f"({sql})"


@singledispatch
def write(node: Node) -> Written:
    """Return SQL for a node, and how tightly it binds; other modules add nodes of their own."""
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
def _(node: Time) -> Written:
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
def _(node: Name | Table) -> Written:
    return quote(node.name), ATOM


@write.register
def _(node: Column) -> Written:
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
    # In brackets always: SQL's NOT binds less tightly than the DSL's, and two minus signs start a comment.
    sign = "NOT " if node.operator == "not" else node.operator
    return f"({sign}{operand(node.operand)})", ATOM


@write.register
def _(node: Binary) -> Written:
    # Chains of one level lean to the left and may be long, so they are not followed by recursion.
    level = _LEVELS.get(node.operator, TEST)
    if node.operator in {"/", "%"}:
        function = "try_divide" if node.operator == "/" else "try_mod"
        return f"{function}({operand(node.left, OR)}, {operand(node.right, OR)})", ATOM
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
def _(node: Between) -> Written:
    low, high = operand(node.low, SUM), operand(node.high, SUM)
    return _test(node.of, node.negated, f"BETWEEN {low} AND {high}")


@write.register
def _(node: Like) -> Written:
    word = "RLIKE" if node.regex else "LIKE"
    return _test(node.of, node.negated, f"{word} {operand(node.pattern, SUM)}")


@write.register
def _(node: IsNull) -> Written:
    return f"{operand(node.of, SUM)} IS {'NOT ' if node.negated else ''}NULL", TEST


@write.register
def _(node: IsNaN) -> Written:
    # What is computed may be a text, which under ANSI would have to be a number.
    of = operand(node.of, OR)
    if not isinstance(node.of, (Column, Name, Attribute, Index)):
        of = f"try_cast({of} AS DOUBLE)"
    return (f"(NOT isnan({of}))" if node.negated else f"isnan({of})"), ATOM


@write.register
def _(node: Aliased) -> Written:
    return write(node.of)
