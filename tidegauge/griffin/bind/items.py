"""Items of rules: aliases and aggregate functions."""

from __future__ import annotations

from collections.abc import Iterable

from tidegauge.griffin.bind.functions import AGGREGATES
from tidegauge.griffin.bind.scope import Scope
from tidegauge.griffin.dsl.nodes import Aliased, Call, Expression, Node, walk


def named(of: Expression, alias: str) -> Aliased:
    """Return an expression with an alias, replacing one it may have."""
    return Aliased(of.of if isinstance(of, Aliased) else of, alias, span=of.span)


def check_unique_aliases(items: Iterable[Expression], scope: Scope) -> None:
    """Raise a `DslError` for duplicate aliases."""
    seen: set[str] = set()
    for item in items:
        if isinstance(item, Aliased):
            if item.alias.casefold() in seen:
                raise scope.error(f"the alias {item.alias!r} is given twice", item, "bind", None)
            seen.add(item.alias.casefold())


def aggregates_in(node: Node) -> list[Call]:
    """Return the calls of aggregate functions in an expression."""
    calls = (n for n in walk(node) if isinstance(n, Call))
    return [call for call in calls if call.name.casefold() in AGGREGATES]


def reject_aggregates(node: Node, scope: Scope, why: str) -> None:
    """Raise a `DslError` for aggregate functions in an expression."""
    for call in aggregates_in(node):
        raise scope.error(f"{call.name} is a function of many rows; {why}", call, "bind", None)
