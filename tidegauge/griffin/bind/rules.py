"""Binding of Griffin rules: names resolved, items aliased, unmeasurable rules rejected."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tidegauge.griffin.bind.expressions import Binder
from tidegauge.griffin.bind.items import check_unique_aliases, named, reject_aggregates
from tidegauge.griffin.bind.queries import bind_query
from tidegauge.griffin.bind.scope import Scope
from tidegauge.griffin.bind.types import value_kind
from tidegauge.griffin.dsl.aliases import aliases
from tidegauge.griffin.dsl.nodes import (
    COMPARISONS,
    Accuracy,
    Binary,
    ColumnNode,
    Distinct,
    DistinctItem,
    Expression,
    Listing,
    Node,
    Profiling,
    Rule,
    Unary,
    walk,
)

__all__ = ["Binder", "Scope", "bind", "notices"]


def bind(rule: Rule, scope: Scope, text: str | None = None) -> Rule:
    """Resolve a rule's names to columns and frames, and give its items aliases.

    Column names ignore letter case unless the session is case-sensitive. Parts that are already
    bound stay as they are.

    Parameters
    ----------
    rule : Rule
    scope : Scope
    text : str or None
        The rule's text, for errors; None for the scope's.

    Raises
    ------
    DslError
        If a source, column, field or function is unknown, naming the nearest one; if a column is
        ambiguous between two sources; if the rule is not measurable, such as an accuracy rule
        without a target.

    Examples
    --------
    >>> from tidegauge.griffin.dsl.nodes import Name
    >>> from tidegauge.analyzers.core.schema import Schema
    >>> scope = Scope({"source": Schema.from_types({"Age": "long"})}, "source")
    >>> bind(Listing((Name("age"),)), scope).items
    (Aliased(of=ColumnNode(table='source', name='Age'), alias='age'),)
    """
    if text is not None:
        scope = replace(scope, text=text)
    match rule:
        case Accuracy():
            return _accuracy(rule, scope)
        case Profiling():
            return bind_query(rule, scope)
        case Listing():
            return Listing(_items(rule.items, scope), span=rule.span)
        case Distinct():
            items = _items([item.of for item in rule.items], scope)
            pairs = zip(items, rule.items, strict=True)
            return Distinct(
                tuple(DistinctItem(of, old.grouping, span=old.span) for of, old in pairs),
                span=rule.span,
            )


def _accuracy(rule: Accuracy, scope: Scope) -> Accuracy:
    if scope.target is None:
        raise scope.error(
            "a rule of accuracy compares two sources, and there is one", rule, "bind",
            "name the other one in the rule's details as target",
        )  # fmt: skip
    source, target = scope.frame(scope.source), scope.frame(scope.target)
    if source == target:
        raise scope.error(f"source and target are the same, {source!r}", rule, "bind", None)
    binder = Binder(scope, (scope.source, scope.target))
    condition = binder.bind(rule.condition)
    reject_aggregates(condition, scope, "a rule of accuracy compares single rows")
    for frame in (scope.source, scope.target):
        named = scope.frame(frame)
        if not any(isinstance(n, ColumnNode) and n.table == named for n in walk(condition)):
            raise scope.error(
                f"a rule of accuracy must name columns of both sources; there is none of {frame!r}",
                rule.condition, "bind", f"write, say, {scope.source}.id = {scope.target}.id",
            )  # fmt: skip
    kind = value_kind(condition)
    if kind is not None:
        raise scope.error(
            f"a rule of accuracy is true or false; this one is {kind}",
            rule.condition, "type", None,
        )  # fmt: skip
    return Accuracy(condition, span=rule.span)


def _items(items: Iterable[Expression], scope: Scope) -> tuple[Expression, ...]:
    """Bind the expressions over a source's rows, with aliases."""
    items = tuple(items)
    binder = Binder(scope, (scope.source,))
    names = aliases(items, binder.heads)
    check_unique_aliases(items, scope)
    bound = [binder.bind(item) for item in items]
    for one in bound:
        reject_aggregates(one, scope, "this rule is of single rows")
    return tuple(named(of, name) for of, name in zip(bound, names, strict=True))


def notices(rule: Node, text: str) -> tuple[str, ...]:
    """Return warnings about a rule, parsed from a text, that may not mean what was intended.

    ``not a = b`` reads as ``(not a) = b``; who writes the brackets means it.
    """
    found = []
    for node in walk(rule):
        if isinstance(node, Binary) and node.operator in COMPARISONS:
            left = node.left
            bare = text[left.span.start : left.span.start + 1] != "("
            if isinstance(left, Unary) and left.operator == "not" and bare:
                found.append(
                    "`not a = b` means `(not a) = b`; write `not (a = b)`"
                    f" (line {left.span.line}, column {left.span.column})"
                )
    return tuple(found)
