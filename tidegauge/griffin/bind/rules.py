"""Binding of Griffin rules: names resolved, items aliased, unmeasurable rules rejected.

Profiling rules are queries: their items, GROUP BY, HAVING, ORDER BY and LIMIT are bound in turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal

from tidegauge.griffin.bind.expressions import Binder, Scope, near
from tidegauge.griffin.bind.types import AGGREGATES, fields_of, kind_of, type_of, value_kind
from tidegauge.griffin.dsl.nodes import (
    COMPARISONS,
    Accuracy,
    Aliased,
    AllOf,
    Attribute,
    Binary,
    Call,
    ColumnNode,
    Distinct,
    DistinctItem,
    Expression,
    Listing,
    Name,
    Node,
    Number,
    OrderItem,
    Profiling,
    Rule,
    Star,
    TableNode,
    Unary,
    aliases,
    children,
    walk,
)


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


MOST_ROWS = 2**31 - 1


@dataclass
class ClauseBinder(Binder):
    """Binder for clauses whose names may also be aliases of the query's items.

    Attributes
    ----------
    outputs : mapping of str to Expression
        Item expressions by alias, in lower case.
    aliases_first : bool
        Whether an alias takes precedence over a column of its name; never within an aggregate
        function.
    """

    outputs: Mapping[str, Expression] = field(default_factory=dict)
    aliases_first: bool = False

    def _name(self, node: Name) -> Expression:
        found = self.outputs.get(node.name.casefold())
        if found is None:
            return super()._name(node)
        if self.aliases_first or not self._holds(node):
            return found
        return super()._name(node)

    def call(self, node: Call) -> Expression:
        """Bind a call; within aggregate functions names are columns first."""
        if self.aliases_first and node.name.casefold() in AGGREGATES:
            return replace(self, aliases_first=False).call(node)
        return super().call(node)


def bind_query(rule: Profiling, scope: Scope) -> Profiling:
    """Bind a profiling rule.

    Names in HAVING and ORDER BY are aliases first and columns second, those in GROUP BY the
    reverse; a number in GROUP BY or ORDER BY is the position of an item, from 1.

    Raises
    ------
    DslError
        If a name is unknown; if a column is neither grouped by nor within an aggregate function; if
        LIMIT is not a number.
    """
    frame = rule.table or scope.source
    if rule.table and scope.frame(rule.table) is None:
        place = Name(rule.table, span=rule.table_span)
        raise scope.error(
            f"there is no source {rule.table!r}", place, "bind", near(rule.table, scope.tables)
        )
    binder = Binder(scope, (frame,))
    check_unique_aliases(rule.items, scope)
    items = [one for item in rule.items for one in _expanded(item, binder)]
    names = aliases(items, binder.heads)
    bound = [named(binder.bind(item), name) for item, name in zip(items, names, strict=True)]
    outputs = {item.alias.casefold(): item.of for item in bound}
    where = None if rule.where is None else binder.bind(rule.where)
    if where is not None:
        reject_aggregates(where, scope, "WHERE is of single rows; HAVING is of groups")
        _truth(where, scope, "WHERE")
    columns = ClauseBinder(scope, (frame,), outputs)
    results = ClauseBinder(scope, (frame,), outputs, aliases_first=True)
    groups = tuple(_placed(one, bound, scope) or columns.bind(one) for one in rule.group_by)
    for one in groups:
        reject_aggregates(one, scope, "rows are grouped by their values")
    having = None if rule.having is None else results.bind(rule.having)
    if having is not None:
        _truth(having, scope, "HAVING")
    order = tuple(
        OrderItem(_placed(o.of, bound, scope) or results.bind(o.of), o.descending, span=o.span)
        for o in rule.order_by
    )
    found = Profiling(
        tuple(bound), rule.distinct, binder.reads[0], where, groups, having, order,
        _limit(rule.limit, scope), span=rule.span,
    )  # fmt: skip
    _check(found, rule, scope)
    return found


def is_grouped(rule: Profiling) -> bool:
    """Return whether a bound query aggregates: one row per group, or one row in all."""
    parts = [*rule.items, *(item.of for item in rule.order_by)]
    if rule.having is not None:
        parts.append(rule.having)
    return bool(rule.group_by) or any(aggregates_in(part) for part in parts)


def _expanded(item: Expression, binder: Binder) -> Iterable[Expression]:
    """Return the columns or fields that a star stands for, and any other item unchanged."""
    frame = binder.reads[0]
    if isinstance(item, Star):
        item = AllOf(TableNode(frame), span=item.span)
    if not isinstance(item, AllOf):
        return [item]
    head = item.of
    found = TableNode(frame) if isinstance(head, TableNode) else binder.bind_any(item)
    if isinstance(found, AllOf):
        found = found.of
    if isinstance(found, TableNode):
        fields = binder.scope.tables[frame].struct["fields"]
        return [ColumnNode(frame, f["name"], f["type"], span=item.span) for f in fields]
    if kind_of(found) != "struct":
        raise binder.scope.error("only sources and structs have fields", item, "type", None)
    return [Attribute(found, name, span=item.span) for name in fields_of(type_of(found))]


def _placed(node: Expression, items: list[Aliased], scope: Scope) -> Expression | None:
    """Return the item at a numeric position, or None for other expressions."""
    if not isinstance(node, Number):
        return None
    if node.value.as_tuple().exponent != 0 or not 1 <= node.value <= len(items):
        raise scope.error(
            f"there is no item {node.value}; they are counted from 1", node, "bind", None
        )
    return items[int(node.value) - 1].of


def _limit(limit: Expression | None, scope: Scope) -> Expression | None:
    if limit is None:
        return None
    number = limit.value if isinstance(limit, Number) else Decimal("NaN")
    if number.as_tuple().exponent != 0 or number > MOST_ROWS:
        raise scope.error(f"LIMIT is a whole number up to {MOST_ROWS}", limit, "bind", None)
    return limit


def _truth(node: Expression, scope: Scope, clause: str) -> None:
    kind = value_kind(node)
    if kind is not None:
        said = f"{clause} is true or false; this is {kind}"
        raise scope.error(said, node, "type", None)


def _check(found: Profiling, rule: Profiling, scope: Scope) -> None:
    order = [item.of for item in found.order_by]
    if found.distinct:
        items = [item.of for item in found.items if isinstance(item, Aliased)]
        for one in order:
            if one not in items:
                said = "a query of distinct rows is ordered by its items only"
                raise scope.error(said, one, "bind", None)
    if not is_grouped(found):
        return
    starred = next((item for item in rule.items if isinstance(item, (Star, AllOf))), None)
    if starred is not None:
        said = "all columns together do not go with groups or functions of many rows"
        raise scope.error(said, starred, "bind", None)
    for one in found.group_by:
        if not any(isinstance(node, ColumnNode) for node in walk(one)):
            raise scope.error("GROUP BY names columns; this is a constant", one, "bind", None)
    having = [] if found.having is None else [found.having]
    for one in (*found.items, *having, *order):
        _grouped(one, found.group_by, scope)


def _grouped(node: Node, groups: tuple[Expression, ...], scope: Scope) -> None:
    """Raise a `DslError` for columns that are neither grouped by nor aggregated."""
    if node in groups:
        return
    if isinstance(node, Call) and node.name.casefold() in AGGREGATES:
        for argument in node.arguments:
            why = "it cannot stand within another one"
            reject_aggregates(argument, scope, why)
        return
    if isinstance(node, ColumnNode):
        raise scope.error(
            f"the column {node.name!r} is neither grouped by nor within a function of many rows",
            node, "bind", f"add `group by {node.table}.{node.name}`, or write max({node.name})",
        )  # fmt: skip
    for child in children(node):
        _grouped(child, groups, scope)


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
