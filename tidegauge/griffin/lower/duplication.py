"""SQL for duplication: rows per key; a row whose key is entirely null has no key."""

from __future__ import annotations

from collections.abc import Sequence

from tidegauge.analyzers.core.schema import NESTED
from tidegauge.analyzers.core.sql import quote
from tidegauge.griffin.dsl.nodes import Aliased, ColumnNode, Expression, Listing
from tidegauge.griffin.lower.context import LoweringContext
from tidegauge.griffin.lower.plan import MetricTable, RulePlan, Step
from tidegauge.griffin.lower.sql import SUM, expression_sql, operand

BAD = {
    "duplicate": "{number} > 1",
    "unique": "{rows} = 1",
    "nonunique": "{rows} > 1 AND {number} = 1",
    "distinct": "{number} = 1",
}
"""Conditions for bad rows, by ``bad.record.definition`` without underscores, of a key's rows and a row's number."""


def lower_duplication(rule: Listing | None, work: LoweringContext) -> RulePlan:
    """Return the steps ``dup_count``, ``dup_metric`` and ``dup_records``.

    The metric counts all rows (``total``), rows beyond the first of their key (``duplicate``), and
    keys: with one row (``unique``), with several (``non_unique``), and all (``distinct``). Records
    are all rows with a key, with a ``__status`` of ``bad`` or ``good``.
    """
    schema = work.scope.schema(work.source)
    columns = [ColumnNode(work.source, f["name"], f["type"]) for f in schema.struct["fields"]]
    items = [i.of for i in rule.items if isinstance(i, Aliased)] if rule else []
    keys: Sequence[Expression] = items or [c for c in columns if c.name not in work.by]
    names = [f"`__key_{n}`" for n in range(len(keys))]
    cells = [f"{expression_sql(key)} AS {name}" for key, name in zip(keys, names, strict=True)]
    groups = ", ".join([*map(quote, work.by), *names])
    counted, metric = work.step("dup_count"), work.step("dup_metric")
    no_key = " AND ".join(f"{name} IS NULL" for name in names)
    steps = (
        Step(
            counted,
            f"SELECT {groups}, count(1) AS `__rows` "
            f"FROM (SELECT {work.group_columns}{', '.join(cells)} FROM {work.table}) GROUP BY {groups}",
        ),
        Step(
            metric,
            f"SELECT {work.group_columns}coalesce(sum(`__rows`), 0L) AS {work.output_column('total')}, "
            f"coalesce(sum(CASE WHEN `__key` THEN `__rows` - 1 END), 0L) AS {work.output_column('duplicate')}, "
            f"count_if(`__key` AND `__rows` = 1) AS {work.output_column('unique')}, "
            f"count_if(`__key` AND `__rows` > 1) AS {work.output_column('non_unique')}, "
            f"count_if(`__key`) AS {work.output_column('distinct')} "
            f"FROM (SELECT {work.group_columns}`__rows`, NOT ({no_key}) AS `__key` FROM {quote(counted)})"
            f"{work.group_by_clause()}",
        ),
        Step(work.step("dup_records"), _records(work, keys, columns)),
    )
    return RulePlan(steps, (MetricTable(metric),), (steps[-1].name,), work.source, work.by)


def _records(work: LoweringContext, keys: Sequence[Expression], columns: list[ColumnNode]) -> str:
    said = str(work.option("bad.record.definition", "duplicate")).casefold().replace("_", "")
    if said not in BAD:
        raise work.error("bad.record.definition is duplicate, unique, non_unique or distinct")
    of = ", ".join([*map(quote, work.by), *map(expression_sql, keys)])
    # Order by all plain columns, so that the first row of a key is deterministic.
    rest = [c for c in columns if not isinstance(c.type, dict) and c.type not in NESTED]
    order = ", ".join(map(expression_sql, rest)) or "1"
    no_key = " AND ".join(f"{operand(key, SUM)} IS NULL" for key in keys)
    bad = BAD[said].format(
        rows=f"count(1) OVER (PARTITION BY {of})",
        number=f"row_number() OVER (PARTITION BY {of} ORDER BY {order})",
    )
    return (
        f"SELECT *, CASE WHEN {bad} THEN 'bad' ELSE 'good' END AS `__status` "
        f"FROM {work.table} WHERE NOT ({no_key})"
    )
