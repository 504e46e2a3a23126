"""Binding of Griffin rules: resolve names, add aliases and reject rules that cannot be measured.

Profiling rules are queries: their items, GROUP BY, HAVING, ORDER BY and LIMIT are bound in this order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal

from tidegauge.griffin.dsl.nodes import (
    AGGREGATE_FUNCTIONS,
    COMPARISON_OPERATORS,
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
    fields_of,
    kind_of,
    type_of,
    value_kind,
    walk,
)
from tidegauge.griffin.dsl.scope import Binder, Scope, suggestion


def with_alias(expression: Expression, alias: str) -> Aliased:
    """Return an expression with an alias, replacing an existing alias."""
    return Aliased(
        expression.expression if isinstance(expression, Aliased) else expression,
        alias,
        span=expression.span,
    )


def check_unique_aliases(items: Iterable[Expression], scope: Scope) -> None:
    """Raise a `DslError` for duplicate aliases."""
    used: set[str] = set()
    for item in items:
        if isinstance(item, Aliased):
            if item.alias.casefold() in used:
                raise scope.error(f"the alias {item.alias!r} is used twice", item, "bind", None)
            used.add(item.alias.casefold())


def aggregates_in(node: Node) -> list[Call]:
    """Return the calls of aggregate functions in an expression."""
    calls = (n for n in walk(node) if isinstance(n, Call))
    return [call for call in calls if call.name.casefold() in AGGREGATE_FUNCTIONS]


def reject_aggregates(node: Node, scope: Scope, why: str) -> None:
    """Raise a `DslError` for aggregate functions in an expression."""
    for call in aggregates_in(node):
        raise scope.error(f"{call.name} is an aggregate function; {why}", call, "bind", None)


MAX_LIMIT = 2**31 - 1


@dataclass
class ClauseBinder(Binder):
    """Binder for clauses whose names may also be aliases of the query's items.

    Attributes
    ----------
    outputs : mapping of str to Expression
        Item expressions by alias, in lower case.
    aliases_first : bool
        Whether an alias takes precedence over a column with its name; never within an aggregate
        function.
    """

    outputs: Mapping[str, Expression] = field(default_factory=dict)
    aliases_first: bool = False

    def _name(self, node: Name) -> Expression:
        output = self.outputs.get(node.name.casefold())
        if output is None:
            return super()._name(node)
        if self.aliases_first or not self._holds(node):
            return output
        return super()._name(node)

    def call(self, node: Call) -> Expression:
        """Bind a call; within aggregate functions names are columns first."""
        if self.aliases_first and node.name.casefold() in AGGREGATE_FUNCTIONS:
            return replace(self, aliases_first=False).call(node)
        return super().call(node)


def bind_query(rule: Profiling, scope: Scope) -> Profiling:
    """Bind a profiling rule.

    Names in HAVING and ORDER BY are aliases first and columns second; names in GROUP BY are columns
    first. A number in GROUP BY or ORDER BY is the position of an item, starting at 1.

    Raises
    ------
    DslError
        If a name is unknown, if a column is neither grouped nor within an aggregate function, or if
        LIMIT is not a number.
    """
    frame = rule.table or scope.source
    if rule.table and scope.frame(rule.table) is None:
        table = Name(rule.table, span=rule.table_span)
        raise scope.error(
            f"unknown source {rule.table!r}", table, "bind", suggestion(rule.table, scope.tables)
        )
    binder = Binder(scope, (frame,))
    check_unique_aliases(rule.items, scope)
    items = [expression for item in rule.items for expression in _expand_star(item, binder)]
    names = aliases(items, binder.heads)
    bound = [with_alias(binder.bind(item), name) for item, name in zip(items, names, strict=True)]
    outputs = {item.alias.casefold(): item.expression for item in bound}
    where = None if rule.where is None else binder.bind(rule.where)
    if where is not None:
        reject_aggregates(where, scope, "WHERE applies to single rows; use HAVING for groups")
        _require_boolean(where, scope, "WHERE")
    columns = ClauseBinder(scope, (frame,), outputs)
    results = ClauseBinder(scope, (frame,), outputs, aliases_first=True)
    groups = tuple(
        _item_at(expression, bound, scope) or columns.bind(expression)
        for expression in rule.group_by
    )
    for expression in groups:
        reject_aggregates(expression, scope, "GROUP BY needs values of single rows")
    having = None if rule.having is None else results.bind(rule.having)
    if having is not None:
        _require_boolean(having, scope, "HAVING")
    order = tuple(
        OrderItem(
            _item_at(o.expression, bound, scope) or results.bind(o.expression),
            o.descending,
            span=o.span,
        )
        for o in rule.order_by
    )
    query = Profiling(
        tuple(bound), rule.distinct, binder.reads[0], where, groups, having, order,
        _check_limit(rule.limit, scope), span=rule.span,
    )  # fmt: skip
    _check_query(query, rule, scope)
    return query


def is_grouped(rule: Profiling) -> bool:
    """Return whether a bound query aggregates: one row for each group, or a single row."""
    parts = [*rule.items, *(item.expression for item in rule.order_by)]
    if rule.having is not None:
        parts.append(rule.having)
    return bool(rule.group_by) or any(aggregates_in(part) for part in parts)


def _expand_star(item: Expression, binder: Binder) -> Iterable[Expression]:
    """Return the columns or fields of a star; other items are returned unchanged."""
    frame = binder.reads[0]
    if isinstance(item, Star):
        item = AllOf(TableNode(frame), span=item.span)
    if not isinstance(item, AllOf):
        return [item]
    head = item.container
    selected = TableNode(frame) if isinstance(head, TableNode) else binder.bind_any(item)
    if isinstance(selected, AllOf):
        selected = selected.container
    if isinstance(selected, TableNode):
        fields = binder.scope.tables[frame].struct["fields"]
        return [ColumnNode(frame, f["name"], f["type"], span=item.span) for f in fields]
    if kind_of(selected) != "struct":
        raise binder.scope.error("only sources and structs have fields", item, "type", None)
    return [Attribute(selected, name, span=item.span) for name in fields_of(type_of(selected))]


def _item_at(node: Expression, items: list[Aliased], scope: Scope) -> Expression | None:
    """Return the item at a numeric position, or None for other expressions."""
    if not isinstance(node, Number):
        return None
    if node.value.as_tuple().exponent != 0 or not 1 <= node.value <= len(items):
        raise scope.error(
            f"the query has no item {node.value}; items are counted from 1", node, "bind", None
        )
    return items[int(node.value) - 1].expression


def _check_limit(limit: Expression | None, scope: Scope) -> Expression | None:
    if limit is None:
        return None
    number = limit.value if isinstance(limit, Number) else Decimal("NaN")
    if number.as_tuple().exponent != 0 or number > MAX_LIMIT:
        raise scope.error(f"LIMIT must be a whole number up to {MAX_LIMIT}", limit, "bind", None)
    return limit


def _require_boolean(node: Expression, scope: Scope, clause: str) -> None:
    kind = value_kind(node)
    if kind is not None:
        message = f"{clause} must be true or false; this is {kind}"
        raise scope.error(message, node, "type", None)


def _check_query(query: Profiling, rule: Profiling, scope: Scope) -> None:
    order = [item.expression for item in query.order_by]
    if query.distinct:
        items = [item.expression for item in query.items if isinstance(item, Aliased)]
        for expression in order:
            if expression not in items:
                message = "a query with DISTINCT can be ordered only by its items"
                raise scope.error(message, expression, "bind", None)
    if not is_grouped(query):
        return
    starred = next((item for item in rule.items if isinstance(item, (Star, AllOf))), None)
    if starred is not None:
        message = "* cannot be combined with groups or aggregate functions"
        raise scope.error(message, starred, "bind", None)
    for expression in query.group_by:
        if not any(isinstance(node, ColumnNode) for node in walk(expression)):
            raise scope.error(
                "GROUP BY needs columns; this is a constant", expression, "bind", None
            )
    having = [] if query.having is None else [query.having]
    for expression in (*query.items, *having, *order):
        _require_grouped(expression, query.group_by, scope)


def _require_grouped(node: Node, groups: tuple[Expression, ...], scope: Scope) -> None:
    """Raise a `DslError` for columns that are neither grouped by nor aggregated."""
    if node in groups:
        return
    if isinstance(node, Call) and node.name.casefold() in AGGREGATE_FUNCTIONS:
        for argument in node.arguments:
            why = "it cannot be nested in another aggregate function"
            reject_aggregates(argument, scope, why)
        return
    if isinstance(node, ColumnNode):
        raise scope.error(
            f"the column {node.name!r} is neither in GROUP BY nor in an aggregate function",
            node, "bind", f"add `group by {node.table}.{node.name}`, or write max({node.name})",
        )  # fmt: skip
    for child in children(node):
        _require_grouped(child, groups, scope)


def bind(rule: Rule, scope: Scope, source: str | None = None) -> Rule:
    """Resolve a rule's names to columns and frames, and give its items aliases.

    Column names ignore letter case unless the session is case-sensitive. Parts that are already
    bound stay as they are.

    Parameters
    ----------
    rule : Rule
        The parsed rule.
    scope : Scope
        The tables and functions that the rule can use.
    source : str or None
        The rule's source, for errors; None to use the scope's.

    Raises
    ------
    DslError
        If a source, column, field or function is unknown (the message suggests the nearest name), if a
        column is ambiguous between two sources, or if the rule cannot be measured, such as an accuracy
        rule without a target.

    Examples
    --------
    >>> from tidegauge.griffin.dsl.nodes import Name
    >>> from tidegauge.analyzers.core.schema import Schema
    >>> scope = Scope({"source": Schema.from_types({"Age": "long"})}, "source")
    >>> bind(Listing((Name("age"),)), scope).items
    (Aliased(expression=ColumnNode(table='source', name='Age'), alias='age'),)
    """
    if source is not None:
        scope = replace(scope, text=source)
    match rule:
        case Accuracy():
            return _bind_accuracy(rule, scope)
        case Profiling():
            return bind_query(rule, scope)
        case Listing():
            return Listing(_bind_items(rule.items, scope), span=rule.span)
        case Distinct():
            items = _bind_items([item.expression for item in rule.items], scope)
            pairs = zip(items, rule.items, strict=True)
            return Distinct(
                tuple(DistinctItem(operand, old.grouping, span=old.span) for operand, old in pairs),
                span=rule.span,
            )


def _bind_accuracy(rule: Accuracy, scope: Scope) -> Accuracy:
    if scope.target is None:
        raise scope.error(
            "an accuracy rule compares two sources, but there is only one", rule, "bind",
            "set target in the rule's details",
        )  # fmt: skip
    source, target = scope.frame(scope.source), scope.frame(scope.target)
    if source == target:
        raise scope.error(f"source and target are the same, {source!r}", rule, "bind", None)
    binder = Binder(scope, (scope.source, scope.target))
    condition = binder.bind(rule.condition)
    reject_aggregates(condition, scope, "an accuracy rule compares single rows")
    for frame in (scope.source, scope.target):
        frame_name = scope.frame(frame)
        if not any(isinstance(n, ColumnNode) and n.table == frame_name for n in walk(condition)):
            raise scope.error(
                f"an accuracy rule must name columns of both sources; it names no column of {frame!r}",
                rule.condition, "bind", f"write, say, {scope.source}.id = {scope.target}.id",
            )  # fmt: skip
    kind = value_kind(condition)
    if kind is not None:
        raise scope.error(
            f"an accuracy rule must be true or false; this is {kind}",
            rule.condition, "type", None,
        )  # fmt: skip
    return Accuracy(condition, span=rule.span)


def _bind_items(items: Iterable[Expression], scope: Scope) -> tuple[Expression, ...]:
    """Bind the expressions over a source's rows, with aliases."""
    items = tuple(items)
    binder = Binder(scope, (scope.source,))
    names = aliases(items, binder.heads)
    check_unique_aliases(items, scope)
    bound = [binder.bind(item) for item in items]
    for expression in bound:
        reject_aggregates(expression, scope, "this rule applies to single rows")
    return tuple(with_alias(operand, name) for operand, name in zip(bound, names, strict=True))


def notices(rule: Node, source: str) -> tuple[str, ...]:
    """Return warnings about parts of a rule that may not mean what the author intended.

    ``not a = b`` means ``(not a) = b``. There is no warning if ``not a`` is in brackets.
    """
    warnings = []
    for node in walk(rule):
        if isinstance(node, Binary) and node.operator in COMPARISON_OPERATORS:
            left = node.left
            bare = source[left.span.start : left.span.start + 1] != "("
            if isinstance(left, Unary) and left.operator == "not" and bare:
                warnings.append(
                    "`not a = b` means `(not a) = b`; write `not (a = b)`"
                    f" (line {left.span.line}, column {left.span.column})"
                )
    return tuple(warnings)
