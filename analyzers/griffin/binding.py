"""Rules of the Griffin DSL bound: names looked up, items named, and what cannot be measured refused."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from analyzers.griffin.aliases import aliases, walk
from analyzers.griffin.binder import Binder
from analyzers.griffin.items import named, no_aggregates, one_of_a_kind
from analyzers.griffin.nodes import (
    Accuracy,
    Binary,
    Column,
    Distinct,
    DistinctItem,
    Expression,
    Listing,
    Node,
    Profiling,
    Rule,
    Unary,
)
from analyzers.griffin.querying import bind_query
from analyzers.griffin.scope import Scope
from analyzers.griffin.types import kind_of

__all__ = ["Binder", "Scope", "bind", "notices"]


def bind(rule: Rule, scope: Scope, text: str | None = None) -> Rule:
    """Return a rule whose names are columns and frames, and whose items have aliases.

    Columns are found whatever the letter case, where the session does not tell cases apart. What is bound
    already stays.

    Parameters
    ----------
    rule : Rule
    scope : Scope
    text : str or None
        The rule, for errors; None for the scope's.

    Raises
    ------
    DslError
        If a source, column, field or function is not there, naming the nearest one; if a column may be of
        two sources; if the rule cannot be measured, as one of accuracy that names no target.

    Examples
    --------
    >>> from analyzers.griffin.nodes import Name
    >>> from analyzers.schema import Schema
    >>> scope = Scope({"source": Schema.from_types({"Age": "long"})}, "source")
    >>> bind(Listing((Name("age"),)), scope).items
    (Aliased(of=Column(table='source', name='Age'), alias='age'),)
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
    no_aggregates(condition, scope, "a rule of accuracy compares single rows")
    for frame in (scope.source, scope.target):
        named = scope.frame(frame)
        if not any(isinstance(n, Column) and n.table == named for n in walk(condition)):
            raise scope.error(
                f"a rule of accuracy must name columns of both sources; there is none of {frame!r}",
                rule.condition, "bind", f"write, say, {scope.source}.id = {scope.target}.id",
            )  # fmt: skip
    kind = kind_of(condition)
    if kind not in {None, "boolean"}:
        raise scope.error(
            f"a rule of accuracy is true or false; this one is of type {kind}",
            rule.condition, "type", None,
        )  # fmt: skip
    return Accuracy(condition, span=rule.span)


def _items(items: Iterable[Expression], scope: Scope) -> tuple[Expression, ...]:
    """Return bound expressions of a source's rows, with aliases."""
    items = tuple(items)
    binder = Binder(scope, (scope.source,))
    names = aliases(items, binder.heads)
    one_of_a_kind(items, scope)
    bound = [binder.bind(item) for item in items]
    for one in bound:
        no_aggregates(one, scope, "this rule is of single rows")
    return tuple(named(of, name) for of, name in zip(bound, names, strict=True))


def notices(rule: Node) -> tuple[str, ...]:
    """Return what a rule says that may not be what was meant.

    ``not a = b`` reads as ``(not a) = b``.
    """
    found = []
    for node in walk(rule):
        if isinstance(node, Binary) and node.operator in {"=", "!=", "<", "<=", ">", ">="}:
            left = node.left
            if isinstance(left, Unary) and left.operator == "not":
                found.append(
                    "`not a = b` means `(not a) = b`; write `not (a = b)`"
                    f" (line {left.span.line}, column {left.span.column})"
                )
    return tuple(found)
