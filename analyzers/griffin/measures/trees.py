"""Bound trees, made ready for a scan, which sees the data alone."""

from __future__ import annotations

from typing import Any

from analyzers.griffin.lowering.matching import mapped
from analyzers.griffin.nodes import Aliased, Column, Distinct, Expression, Listing, Name, Rule
from analyzers.griffin.sql import expression_sql
from analyzers.griffin.types import kind_of
from analyzers.schema import NESTED


def items_of(rule: Rule) -> tuple[Expression, ...]:
    """Return the expressions of a rule that lists some, less their aliases."""
    if isinstance(rule, Distinct):
        return tuple(bare(item.of) for item in rule.items if not item.grouping)
    return tuple(map(bare, rule.items)) if isinstance(rule, Listing) else ()


def bare(node: Expression) -> Expression:
    """Return an expression less its alias."""
    return node.of if isinstance(node, Aliased) else node


def row_sql(node: Expression) -> str:
    """Return an expression as SQL whose columns stand without the source before them.

    Examples
    --------
    >>> row_sql(Column("source", "a.b"))
    '`a.b`'
    """
    return expression_sql(on_rows(bare(node)))


def on_rows(node: Any) -> Any:
    """Return a tree in which columns are names without the source before them."""
    return mapped(node, lambda one: Name(one.name) if isinstance(one, Column) else one)


def groupable(node: Expression) -> bool:
    """Whether values of an expression make keys of a state: they are not nested, nor intervals."""
    kind = kind_of(node) or ""
    return kind not in NESTED and kind != "interval"
