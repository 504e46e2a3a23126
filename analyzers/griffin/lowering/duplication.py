"""Duplication: how rows share their keys; rows whose key is null altogether have none."""

from __future__ import annotations

from collections.abc import Sequence

from analyzers.griffin.lowering.work import Work
from analyzers.griffin.nodes import Aliased, Column, Expression, Listing
from analyzers.griffin.plan import Plan, Step
from analyzers.griffin.sql import SUM, expression_sql, operand
from analyzers.schema import NESTED
from analyzers.sql import quote

BAD = {
    "duplicate": "`__number` > 1",
    "unique": "`__rows` = 1",
    "nonunique": "`__rows` > 1 AND `__number` = 1",
    "distinct": "`__number` = 1",
}
"""Which rows are bad ones, by what the details call them less underscores."""


def lower_duplication(rule: Listing | None, work: Work) -> Plan:
    """Return the steps ``dup_count``, ``dup_metric`` and ``dup_records``.

    The metric counts all rows (``total``), rows beside the first of their key (``duplicate``), and keys: of one
    row (``unique``), of more (``non_unique``), of any number (``distinct``). Records are all rows with a
    ``__status`` of ``bad`` or ``good``.
    """
    schema = work.scope.schema(work.source)
    columns = [Column(work.source, f["name"], f["type"]) for f in schema.struct["fields"]]
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
            f"FROM (SELECT {work.lead}{', '.join(cells)} FROM {work.table}) GROUP BY {groups}",
        ),
        Step(
            metric,
            f"SELECT {work.lead}coalesce(sum(`__rows`), 0L) AS {work.named('total')}, "
            f"coalesce(sum(CASE WHEN `__key` THEN `__rows` - 1 END), 0L) AS {work.named('duplicate')}, "
            f"count_if(`__key` AND `__rows` = 1) AS {work.named('unique')}, "
            f"count_if(`__key` AND `__rows` > 1) AS {work.named('non_unique')}, "
            f"count_if(`__key`) AS {work.named('distinct')} "
            f"FROM (SELECT {work.lead}`__rows`, NOT ({no_key}) AS `__key` FROM {quote(counted)})"
            f"{work.grouped()}",
        ),
        Step(work.step("dup_records"), _records(work, keys, columns)),
    )
    return Plan(steps, (work.metric(metric),), (steps[-1].name,), work.source, work.by)


def _records(work: Work, keys: Sequence[Expression], columns: list[Column]) -> str:
    said = str(work.option("bad.record.definition", "duplicate")).casefold().replace("_", "")
    if said not in BAD:
        raise work.error("bad.record.definition is duplicate, unique, non_unique or distinct")
    of = ", ".join([*map(quote, work.by), *map(expression_sql, keys)])
    # Which of the rows of a key is the first is the same every time.
    rest = [c for c in columns if not isinstance(c.type, dict) and c.type not in NESTED]
    order = ", ".join(map(expression_sql, rest)) or "1"
    no_key = " AND ".join(f"{operand(key, SUM)} IS NULL" for key in keys)
    numbers = (
        f"SELECT *, count(1) OVER (PARTITION BY {of}) AS `__rows`, "
        f"row_number() OVER (PARTITION BY {of} ORDER BY {order}) AS `__number` "
        f"FROM {work.table} WHERE NOT ({no_key})"
    )
    return (
        f"SELECT * EXCEPT (`__rows`, `__number`), CASE WHEN {BAD[said]} THEN 'bad' ELSE 'good' END "
        f"AS `__status` FROM ({numbers})"
    )
