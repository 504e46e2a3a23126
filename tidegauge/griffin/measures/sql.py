"""Spark SQL of syntax trees; user-supplied names and values cannot alter the statement.

`expression_sql` writes one expression. `matched_condition` writes the match condition between
source and target rows, over two aliases.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, cast

from tidegauge.analyzers.core.sql import constant, literal, quote
from tidegauge.griffin.dsl import nodes
from tidegauge.griffin.dsl.grammar import MILLISECONDS_BY_UNIT
from tidegauge.griffin.dsl.nodes import (
    COMPARISON_OPERATORS,
    ColumnNode,
    Expression,
    Node,
    free,
    walk,
)
from tidegauge.griffin.dsl.scope import Scope

OR_LEVEL, AND_LEVEL, TEST_LEVEL, SUM_LEVEL, PRODUCT_LEVEL, ATOM_LEVEL = range(6)
"""Precedence levels; an operand below the required level is put in brackets."""

_LEVEL_BY_OPERATOR = {
    "or": OR_LEVEL,
    "and": AND_LEVEL,
    "+": SUM_LEVEL,
    "-": SUM_LEVEL,
    "*": PRODUCT_LEVEL,
}
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

Written = tuple[str, int]


def expression_sql(node: Node) -> str:
    """Return an expression as Spark SQL. Equal trees give equal SQL.

    Names are always in backticks, values are written as literals, and an alias at the top is kept.
    Division by zero gives null.

    Parameters
    ----------
    node : Node
        Bound or not. An index of an unbound tree is written as it is; one of a bound tree gives
        null if the element does not exist.

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
    if isinstance(node, nodes.Aliased):
        return f"{write(node.expression)[0]} AS {quote(node.alias)}"
    return write(node)[0]


def operand(node: Node, min_level: int = ATOM_LEVEL) -> str:
    """Return an expression as SQL, in brackets if it binds less tightly than required."""
    sql, level = write(node)
    return sql if level >= min_level else f"({sql})"


@dataclass(frozen=True, slots=True)
class _Cast(Node):
    """``try_cast``: null if the value does not convert."""

    operand: Expression
    type: str


def write(node: Node) -> Written:  # noqa: PLR0911 - one for each kind of node
    """Return SQL for a node and its precedence level."""
    match node:
        case nodes.Aliased():
            return write(node.expression)
        case nodes.Binary(operator="/"):
            left, right = operand(node.left, OR_LEVEL), operand(node.right, OR_LEVEL)
            return f"try_divide({left}, {right})", ATOM_LEVEL
        case nodes.Binary(operator="%"):  # Spark 3.5 has no try_mod
            divisor = f"nullif({operand(node.right, OR_LEVEL)}, 0D)"
            return f"({operand(node.left)} % {divisor})", ATOM_LEVEL
        case nodes.Binary(operator=operator) if operator in _LEVEL_BY_OPERATOR:
            return _write_chain(node, _LEVEL_BY_OPERATOR[operator])
        case nodes.Binary():
            left, right = operand(node.left, SUM_LEVEL), operand(node.right, SUM_LEVEL)
            return f"{left} {node.operator} {right}", TEST_LEVEL
        case nodes.In() | nodes.BetweenNode() | nodes.LikeNode() | nodes.IsNull():
            negation = "NOT " if node.negated else ""
            return f"{operand(node.operand, SUM_LEVEL)} {_test_sql(node, negation)}", TEST_LEVEL
        case _:
            return _atom_sql(node), ATOM_LEVEL


def _write_chain(node: nodes.Binary, level: int) -> Written:
    """Write a chain of one level; left-leaning ones may be long, so iterate instead of recursing."""
    first: Expression = node
    tail: list[str] = []
    while isinstance(first, nodes.Binary) and _LEVEL_BY_OPERATOR.get(first.operator) == level:
        tail.append(f" {first.operator.upper()} {operand(first.right, level + 1)}")
        first = first.left
    return operand(first, level) + "".join(reversed(tail)), level


def _test_sql(
    node: nodes.In | nodes.BetweenNode | nodes.LikeNode | nodes.IsNull, negation: str
) -> str:
    """Return a test without its operand."""
    match node:
        case nodes.In():
            return f"{negation}IN ({_list_sql(node.options)})"
        case nodes.BetweenNode():
            low, high = operand(node.low, SUM_LEVEL), operand(node.high, SUM_LEVEL)
            return f"{negation}BETWEEN {low} AND {high}"
        case nodes.LikeNode():
            word = "RLIKE" if node.regex else "LIKE"
            return f"{negation}{word} {operand(node.pattern, SUM_LEVEL)}"
        case nodes.IsNull():
            return f"IS {negation}NULL"


def _list_sql(items: Iterable[Expression]) -> str:
    return ", ".join(operand(item, OR_LEVEL) for item in items)


def _atom_sql(node: Node) -> str:  # noqa: C901, PLR0911, PLR0912 - one for each kind of node
    """Return SQL that needs no brackets as an operand."""
    match node:
        case nodes.Text():
            return literal(node.value)
        case nodes.Number():
            is_integer = node.value.as_tuple().exponent == 0
            return constant(int(node.value) if is_integer else node.value)
        case nodes.DurationNode():
            return constant(node.amount * MILLISECONDS_BY_UNIT[node.unit])
        case nodes.Boolean():
            return constant(node.value)
        case nodes.Null():
            return "NULL"
        case nodes.NaN():
            return constant(float("nan")).replace("nan", "NaN")
        case nodes.Star():
            return "*"
        case nodes.Name() | nodes.TableNode():
            return quote(node.name)
        case ColumnNode():
            return f"{quote(node.table)}.{quote(node.name)}"
        case nodes.Attribute():
            return f"{operand(node.container)}.{quote(node.name)}"
        case nodes.AllOf():
            return f"{operand(node.container)}.*"
        case nodes.Index():
            return f"{operand(node.container)}[{operand(node.index, OR_LEVEL)}]"
        case nodes.Call():
            name = node.name if _PLAIN_NAME.fullmatch(node.name) else quote(node.name)
            return f"{name}({'DISTINCT ' if node.distinct else ''}{_list_sql(node.arguments)})"
        case nodes.Unary():
            # Always in brackets: SQL's NOT binds less tightly than the DSL's, and `--` starts a comment.
            sign = "NOT " if node.operator == "not" else node.operator
            return f"({sign}{operand(node.operand)})"
        case nodes.IsNaN():
            # A computed value may be a string, which isnan would reject in ANSI mode.
            value = operand(node.operand, OR_LEVEL)
            if not isinstance(
                node.operand, ColumnNode | nodes.Name | nodes.Attribute | nodes.Index
            ):
                value = f"try_cast({value} AS DOUBLE)"
            return f"(NOT isnan({value}))" if node.negated else f"isnan({value})"
        case _Cast():
            return f"try_cast({operand(node.operand, OR_LEVEL)} AS {node.type})"
    raise TypeError(f"{type(node).__name__} is not an expression")


NULL_MATCHES = ("null-safe", "sql", "griffin")


def side_names(scope: Scope) -> tuple[str, str]:
    """Return aliases for source and target that differ from all column names of both.

    Within a subquery, a struct column of the target would shadow a source of the same name.
    """
    assert scope.target is not None
    frames = [str(scope.frame(name)) for name in (scope.source, scope.target)]
    used = {name.casefold() for frame in frames for name in scope.tables[frame].names}
    source = free(frames[0], used)
    return source, free(frames[1], used | {source.casefold()})


def matched_condition(
    rule: nodes.Accuracy,
    scope: Scope,
    null_match: str = "null-safe",
    sides: tuple[str, str] | None = None,
) -> str:
    """Return SQL that is true where a source row matches a target row.

    Parameters
    ----------
    rule : Accuracy
        Bound.
    scope : Scope
        The tables and functions that the rule can use.
    null_match : str
        ``null-safe``: null equals null of the other side and differs from everything else; ``sql``: null
        equals nothing; ``griffin``: values are compared as strings, with null as the empty string.
    sides : tuple of str or None
        Aliases of source and target; None for the names of `side_names`.

    Examples
    --------
    >>> from tidegauge.griffin.dsl.nodes import Accuracy, Binary, ColumnNode
    >>> from tidegauge.analyzers.core.schema import Schema
    >>> ids = Schema.from_types({"id": "long"})
    >>> scope = Scope({"source": ids, "target": ids}, "source", "target")
    >>> rule = Accuracy(Binary("=", ColumnNode("source", "id"), ColumnNode("target", "id")))
    >>> matched_condition(rule, scope)
    '`source`.`id` <=> `target`.`id`'
    """
    source, target = scope.frame(scope.source), scope.frame(scope.target or "")
    new = sides or side_names(scope)
    names = {str(source): new[0], str(target): new[1]}
    condition = rule.condition
    if null_match == "null-safe":
        condition = _null_safe(condition)
    elif null_match == "griffin":
        # In Griffin, a target row whose compared columns are all null matches nothing.
        all_null = _all_null(rule.condition, str(target))
        condition = nodes.Binary("and", _as_strings(condition), nodes.Unary("not", all_null))
    return expression_sql(renamed(condition, names))


def skipped_condition(
    rule: nodes.Accuracy, scope: Scope, null_match: str, source: str
) -> str | None:
    """Return SQL that is true for source rows that never count as misses, or None.

    For ``griffin``, these are rows whose compared columns are all null.
    """
    if null_match != "griffin":
        return None
    frame = str(scope.frame(scope.source))
    return expression_sql(renamed(_all_null(rule.condition, frame), {frame: source}))


def _all_null(condition: Expression, frame: str) -> Expression:
    columns = dict.fromkeys(
        n for n in walk(condition) if isinstance(n, ColumnNode) and n.table == frame
    )
    first_test, *more_tests = [nodes.IsNull(column) for column in columns]
    condition_: Expression = first_test
    for test in more_tests:
        condition_ = nodes.Binary("and", condition_, test)
    return condition_


def mapped(node: Expression, change: Callable[[Node], Node]) -> Expression:
    """Apply ``change`` to every node of a tree, bottom-up, and return the new tree."""
    return cast("Expression", _mapped(node, change))


def _mapped(node: Node, change: Callable[[Node], Node]) -> Node:
    changed: dict[str, Any] = {}
    for name in node.__dataclass_fields__:
        value = getattr(node, name)
        if isinstance(value, tuple):
            changed[name] = tuple(_mapped(v, change) if isinstance(v, Node) else v for v in value)
        elif isinstance(value, Node):
            changed[name] = _mapped(value, change)
    return change(replace(node, **changed) if changed else node)


def renamed(condition: Expression, names: dict[str, str]) -> Expression:
    """Return an expression with its columns moved to other frames."""

    def change(node: Node) -> Node:
        return replace(node, table=names[node.table]) if isinstance(node, ColumnNode) else node

    return mapped(condition, change)


def _frames(node: Node) -> set[str]:
    return {n.table for n in walk(node) if isinstance(n, ColumnNode)}


def _null_safe(condition: Expression) -> Expression:
    """Make equality between the two sides null-safe."""

    def change(node: Node) -> Node:
        if not isinstance(node, nodes.Binary) or node.operator not in {"=", "!="}:
            return node
        left, right = _frames(node.left), _frames(node.right)
        if not left or not right or left & right:
            return node
        equal = replace(node, operator="<=>")
        return equal if node.operator == "=" else nodes.Unary("not", equal, span=node.span)

    return mapped(condition, change)


def _cast(operand: Expression, kind: str) -> Expression:
    return cast("Expression", _Cast(operand, kind))


def _as_strings(node: Expression) -> Expression:  # noqa: PLR0911 - one for each kind of node
    """Rewrite comparisons as in Griffin: columns become strings, and null the empty string."""
    match node:
        case ColumnNode():
            return nodes.Call("coalesce", (_cast(node, "STRING"), nodes.Text("")))
        case nodes.Binary(operator="+" | "-" | "*" | "/" | "%"):
            return replace(node, left=_as_number(node.left), right=_as_number(node.right))
        case nodes.Binary() if node.operator in COMPARISON_OPERATORS:
            left, right = _comparable_operands((node.left, node.right))
            return replace(node, left=left, right=right)
        case nodes.Binary():
            return replace(node, left=_as_strings(node.left), right=_as_strings(node.right))
        case nodes.BetweenNode():
            # Each bound is compared separately: one may be a string and the other a number.
            low, high = (
                _comparable_operands((node.operand, node.low)),
                _comparable_operands((node.operand, node.high)),
            )
            both = nodes.Binary("and", nodes.Binary(">=", *low), nodes.Binary("<=", *high))
            return nodes.Unary("not", both) if node.negated else both
        case nodes.In():
            value, *options = _comparable_operands((node.operand, *node.options))
            return replace(node, operand=value, options=tuple(options))
        case nodes.LikeNode():
            return replace(node, operand=_as_strings(node.operand))
        case nodes.Unary():
            value = (
                _as_strings(node.operand) if node.operator == "not" else _as_number(node.operand)
            )
            return replace(node, operand=value)
        case _:
            return node


def _as_number(node: Expression) -> Expression:
    as_string = _as_strings(node)
    return _cast(as_string, "DOUBLE") if isinstance(node, ColumnNode) else as_string


def _comparable_operands(operands: tuple[Expression, ...]) -> list[Expression]:
    """Return operands as strings if all are columns or strings, otherwise columns as numbers."""
    are_strings = all(
        isinstance(item, (ColumnNode, nodes.Text, nodes.Null, nodes.Call)) for item in operands
    )
    return [_as_strings(item) if are_strings else _as_number(item) for item in operands]
