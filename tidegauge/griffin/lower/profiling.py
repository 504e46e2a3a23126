"""SQL for profiling: one query."""

from __future__ import annotations

from tidegauge.analyzers.core.sql import quote
from tidegauge.griffin.bind.queries import is_grouped
from tidegauge.griffin.dsl.nodes import Aliased, ColumnNode, OrderItem, Profiling
from tidegauge.griffin.lower.context import LoweringContext
from tidegauge.griffin.lower.plan import MetricTable, RulePlan, Step
from tidegauge.griffin.lower.sql import expression_sql


def lower_profiling(rule: Profiling, work: LoweringContext) -> RulePlan:
    """Return the step ``profiling``; with group-by columns, ORDER BY and LIMIT apply per group."""
    frame = rule.table or work.source
    missing = [name for name in work.by if name not in work.scope.schema(frame).names]
    if missing:
        raise work.error(f"{frame!r} has no column {missing[0]!r}, by which is measured")
    by = [ColumnNode(frame, name) for name in work.by]
    items = work.items([i for i in rule.items if getattr(i, "of", None) not in by])
    order = [_key(item, [(i.of, i.alias) for i in items]) for item in rule.order_by]
    hidden = [
        f"{key} AS `__order_{n}`"
        for n, (key, shown, _) in enumerate(order)
        if not shown and work.by and rule.limit
    ]
    cells = [*map(expression_sql, by), *map(expression_sql, items), *hidden]
    query = f"SELECT {'DISTINCT ' if rule.distinct else ''}{', '.join(cells)} FROM {quote(frame)}"
    if rule.where is not None:
        query += f" WHERE {expression_sql(rule.where)}"
    groups = list(dict.fromkeys([*by, *rule.group_by])) if is_grouped(rule) else []
    if groups:
        query += f" GROUP BY {', '.join(map(expression_sql, groups))}"
    if rule.having is not None:
        query += f" HAVING {expression_sql(rule.having)}"
    if work.by and rule.limit is not None:
        keys = [
            f"{key if shown else quote(f'__order_{n}')}{way}"
            for n, (key, shown, way) in enumerate(order)
        ]
        names = [*map(quote, work.by), *(quote(item.alias) for item in items)]
        among = ", ".join(map(quote, work.by))
        query = (
            f"SELECT {', '.join(names)} FROM (SELECT *, row_number() OVER (PARTITION BY {among} "
            f"ORDER BY {', '.join(keys) or among}) AS `__rank` FROM ({query})) "
            f"WHERE `__rank` <= {expression_sql(rule.limit)} ORDER BY {among}, `__rank`"
        )
    else:
        keys = [f"{key}{way}" for key, _, way in order]
        if keys:
            query += f" ORDER BY {', '.join([*map(expression_sql, by), *keys])}"
        if rule.limit is not None:
            query += f" LIMIT {expression_sql(rule.limit)}"
    step = Step(work.step("profiling"), query)
    output = work.config.metric
    table = MetricTable(
        step.name, output.flatten or "default", str(output.name), _labels(rule, items)
    )
    return RulePlan((step,), (table,), (), frame, work.by)


def _labels(rule: Profiling, items: list[Aliased]) -> tuple[str, ...] | None:
    """Return the selected columns of GROUP BY; None if there are none."""
    return tuple(item.alias for item in items if item.of in rule.group_by) or None


def _key(item: OrderItem, shown: list[tuple[object, str]]) -> tuple[str, bool, str]:
    """Return a sort key, whether it is an item's alias, and its direction."""
    way = {None: "", True: " DESC", False: " ASC"}[item.descending]
    alias = next((alias for of, alias in shown if of == item.of), None)
    return (expression_sql(item.of), False, way) if alias is None else (quote(alias), True, way)
