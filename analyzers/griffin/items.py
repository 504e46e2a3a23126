"""What rules list: items under aliases, and whether functions of many rows are among them."""

from __future__ import annotations

from collections.abc import Iterable

from analyzers.griffin.aliases import walk
from analyzers.griffin.functions import AGGREGATES
from analyzers.griffin.nodes import Aliased, Call, Expression, Node
from analyzers.griffin.scope import Scope


def named(of: Expression, alias: str) -> Aliased:
    """Return an expression under an alias, and under no other."""
    return Aliased(of.of if isinstance(of, Aliased) else of, alias, span=of.span)


def one_of_a_kind(items: Iterable[Expression], scope: Scope) -> None:
    """Refuse an alias that is given twice."""
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


def no_aggregates(node: Node, scope: Scope, why: str) -> None:
    """Refuse functions of many rows."""
    for call in aggregates_in(node):
        raise scope.error(f"{call.name} is a function of many rows; {why}", call, "bind", None)
