"""SQL of bound trees for scans, which use unqualified columns."""

from __future__ import annotations

from typing import Any

from tidegauge.analyzers.core.schema import NESTED
from tidegauge.griffin.bind.types import kind_of
from tidegauge.griffin.dsl.nodes import (
    Aliased,
    ColumnNode,
    Distinct,
    Expression,
    Listing,
    Name,
    Rule,
)
from tidegauge.griffin.lower.matching import mapped
from tidegauge.griffin.lower.sql import expression_sql


def items_of(rule: Rule) -> tuple[Expression, ...]:
    """Return a rule's listed expressions without aliases and grouping items; none for others."""
    if isinstance(rule, Distinct):
        return tuple(bare(item.of) for item in rule.items if not item.grouping)
    return tuple(map(bare, rule.items)) if isinstance(rule, Listing) else ()


def bare(node: Expression) -> Expression:
    """Return an expression without its alias."""
    return node.of if isinstance(node, Aliased) else node


def row_sql(node: Expression) -> str:
    """Return an expression as SQL with unqualified columns.

    Examples
    --------
    >>> row_sql(ColumnNode("source", "a.b"))
    '`a.b`'
    """
    return expression_sql(unqualified(bare(node)))


def unqualified(node: Any) -> Any:
    """Return a tree with columns replaced by unqualified names."""
    return mapped(node, lambda one: Name(one.name) if isinstance(one, ColumnNode) else one)


def groupable(node: Expression) -> bool:
    """Return whether an expression can be a key of a state: not nested, and not an interval."""
    kind = kind_of(node) or ""
    return kind not in NESTED and kind != "interval"
