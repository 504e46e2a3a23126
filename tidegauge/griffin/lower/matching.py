"""SQL match condition between source and target rows, over two aliases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

from tidegauge.griffin.bind.scope import Scope
from tidegauge.griffin.dsl.aliases import free
from tidegauge.griffin.dsl.nodes import (
    COMPARISONS,
    Accuracy,
    BetweenNode,
    Binary,
    Call,
    ColumnNode,
    Expression,
    In,
    IsNull,
    LikeNode,
    Node,
    Null,
    Text,
    Unary,
    walk,
)
from tidegauge.griffin.lower.sql import ATOM, Written, expression_sql, operand, write

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
    rule: Accuracy,
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
    null_match : str
        ``null-safe``: null equals null of the other side and differs from all else; ``sql``: null
        equals nothing; ``griffin``: values are compared as texts, with null as the empty text.
    sides : tuple of str or None
        Aliases of source and target; None for those of `side_names`.

    Examples
    --------
    >>> from tidegauge.griffin.dsl.nodes import ColumnNode
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
        found = _all_null(rule.condition, str(target))
        condition = Binary("and", _as_texts(condition), Unary("not", found))
    return expression_sql(renamed(condition, names))


def skipped_condition(rule: Accuracy, scope: Scope, null_match: str, source: str) -> str | None:
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
    first, *rest = [IsNull(column) for column in columns]
    found: Expression = first
    for one in rest:
        found = Binary("and", found, one)
    return found


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
        if not isinstance(node, Binary) or node.operator not in {"=", "!="}:
            return node
        left, right = _frames(node.left), _frames(node.right)
        if not left or not right or left & right:
            return node
        equal = replace(node, operator="<=>")
        return equal if node.operator == "=" else Unary("not", equal, span=node.span)

    return mapped(condition, change)


@dataclass(frozen=True, slots=True)
class _Cast(Node):
    """``try_cast``: null if the value does not convert."""

    of: Expression
    type: str


@write.register
def _(node: _Cast) -> Written:
    return f"try_cast({operand(node.of, 0)} AS {node.type})", ATOM


def _cast(of: Expression, kind: str) -> Expression:
    return cast("Expression", _Cast(of, kind))


def _as_texts(node: Expression) -> Expression:  # noqa: PLR0911 - one for each kind of node
    """Rewrite comparisons as Griffin does: columns become texts, null the empty one."""
    match node:
        case ColumnNode():
            return Call("coalesce", (_cast(node, "STRING"), Text("")))
        case Binary(operator="+" | "-" | "*" | "/" | "%"):
            return replace(node, left=_number(node.left), right=_number(node.right))
        case Binary() if node.operator in COMPARISONS:
            left, right = _alike((node.left, node.right))
            return replace(node, left=left, right=right)
        case Binary():
            return replace(node, left=_as_texts(node.left), right=_as_texts(node.right))
        case BetweenNode():
            # Each bound is compared separately: one may be a text and the other a number.
            low, high = _alike((node.of, node.low)), _alike((node.of, node.high))
            both = Binary("and", Binary(">=", *low), Binary("<=", *high))
            return Unary("not", both) if node.negated else both
        case In():
            of, *options = _alike((node.of, *node.options))
            return replace(node, of=of, options=tuple(options))
        case LikeNode():
            return replace(node, of=_as_texts(node.of))
        case Unary():
            of = _as_texts(node.operand) if node.operator == "not" else _number(node.operand)
            return replace(node, operand=of)
        case _:
            return node


def _number(node: Expression) -> Expression:
    found = _as_texts(node)
    return _cast(found, "DOUBLE") if isinstance(node, ColumnNode) else found


def _alike(operands: tuple[Expression, ...]) -> list[Expression]:
    """Return operands as texts if all are columns or texts, else columns as numbers."""
    texts = all(isinstance(one, (ColumnNode, Text, Null, Call)) for one in operands)
    return [_as_texts(one) if texts else _number(one) for one in operands]
