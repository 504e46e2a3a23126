"""SQL for distinctness: count keys that did not occur before."""

from __future__ import annotations

from tidegauge.analyzers.core.partitions import TMST
from tidegauge.analyzers.core.sql import quote
from tidegauge.griffin.dsl.nodes import Aliased, Distinct
from tidegauge.griffin.lower.context import LoweringContext
from tidegauge.griffin.lower.keys import KeyColumns, total_count
from tidegauge.griffin.lower.matching import renamed
from tidegauge.griffin.lower.plan import MetricTable, RulePlan, Step
from tidegauge.griffin.lower.sql import expression_sql
from tidegauge.griffin.lower.uniqueness import duplicate_steps, duplicates_array


def lower_distinctness(rule: Distinct, work: LoweringContext) -> RulePlan:
    """Return the steps ``total_count``, ``dup_count`` and ``distinct_metric``, and any duplicates.

    If there are earlier rows, a key that occurs in them is not distinct: all its rows are
    duplicates, and ``accu_dup`` of the records also counts the earlier ones. If the details set
    ``duplication.array``, ``dup_records`` holds the duplicates and ``dup_metric`` the number of
    keys by ``dup``; items in brackets group them, with the extra steps ``dist_joined`` and
    ``row_numbered``.
    """
    dup, accu, num = (
        work.output_column("dup"),
        work.output_column("accu_dup"),
        work.output_column("num"),
    )
    total, distinct = work.output_column("total"), work.output_column("distinct")
    every = work.items([i.of for i in rule.items], (dup, accu, num, "`dist`", "`row_num`"))
    pairs = list(zip(every, rule.items, strict=True))
    keys = KeyColumns(work, [item for item, old in pairs if not old.grouping])
    grouping = [item for item, old in pairs if old.grouping]
    if not keys.items:
        raise work.error("a rule of distinctness needs a column outside of brackets")
    older = _older(work)
    counted, duplicates = work.step("dup_count"), work.step("dup_records")
    metric = Step(
        work.step("distinct_metric"),
        f"SELECT {work.group_columns}coalesce(sum(`__total`), 0L) AS {total}, "
        f"count_if(`dist`) AS {distinct} FROM {quote(counted)}{work.group_by_clause()}",
        ("__distMetric",),
    )
    steps = [
        total_count(work, total),
        Step(counted, _groups(keys, older, dup, accu), ("__selfGroup", "__group")),
        metric,
    ]
    tables = [MetricTable(metric.name)]
    array = work.text("duplication.array")
    if array:
        if grouping:
            steps += _sorted_steps(keys, grouping, counted, duplicates, dup, num)
        else:
            shown = [dup, accu] if older else [dup]
            steps += duplicate_steps(keys, counted, duplicates, shown, num)
        labels = [item.alias for item in grouping]
        tables.append(duplicates_array(work, steps[-1].name, array, labels))
    records = (duplicates,) if array else ()
    return RulePlan(tuple(steps), tuple(tables), records, work.source, work.by)


def _older(work: LoweringContext) -> str | None:
    """Return the frame of earlier rows: given, or the details' ``target``."""
    if not work.flag("with.accumulate", default=True):
        return None
    named = work.older or work.option("target")
    if named is None:
        return None
    work.scope.schema(str(named))
    found = work.scope.frame(str(named))
    return None if found == work.source else found


def _groups(keys: KeyColumns, older: str | None, dup: str, accu: str) -> str:
    """Return a query of keys, their rows beyond the first, and whether they are new."""
    of_keys = keys.counted(keys.rows(), "`__total`")
    if older is None:
        return (
            f"SELECT {keys.all}, `__total` - 1 AS {dup}, true AS `dist`, `__total` FROM ({of_keys})"
        )
    items = [Aliased(renamed(i.of, {keys.work.source: older}), i.alias) for i in keys.items]
    cells, names = ", ".join(map(expression_sql, items)), ", ".join(keys.names)
    before = (
        f"SELECT {names}, count(1) AS `__more` FROM (SELECT {cells} FROM {quote(older)}) "
        f"GROUP BY {names}"
    )
    shown = ", ".join(f"`__new`.{name}" for name in [*map(quote, keys.work.by), *keys.names])
    found = "`__old`.`__more`"
    return (
        f"SELECT {shown}, `__new`.`__total` - CASE WHEN {found} IS NULL THEN 1 ELSE 0 END AS {dup}, "
        f"`__new`.`__total` - 1 + coalesce({found}, 0L) AS {accu}, {found} IS NULL AS `dist`, "
        f"`__new`.`__total` FROM ({of_keys}) AS `__new` LEFT JOIN ({before}) AS `__old` "
        f"ON {keys.same('`__new`', '`__old`')}"
    )


def _sorted_steps(
    keys: KeyColumns, grouping: list[Aliased], counted: str, duplicates: str, dup: str, num: str
) -> list[Step]:
    """Return the steps that find duplicate rows and count them by the items in brackets."""
    work = keys.work
    joined, numbered = work.step("dist_joined"), work.step("row_numbered")
    sorts = [quote(item.alias) for item in grouping]
    timed = TMST in work.scope.schema(work.source).names and TMST not in work.by
    cells = ", ".join(
        [*map(expression_sql, [*keys.items, *grouping]), *([f"{quote(TMST)} AS `__time`"] * timed)]
    )
    rows = f"SELECT {work.group_columns}{cells} FROM {work.table}"
    order = ", ".join([*(["`__time`"] * timed), *sorts])
    listed = ", ".join([*map(quote, work.by), *keys.names, *sorts, dup])
    return [
        Step(
            joined,
            f"SELECT `__row`.*, `__key`.{dup}, `__key`.`dist` FROM ({rows}) AS `__row` "
            f"LEFT JOIN {quote(counted)} AS `__key` ON {keys.same('`__row`', '`__key`', work.by)}",
        ),
        Step(
            numbered,
            f"SELECT *, row_number() OVER (PARTITION BY {keys.all} ORDER BY {order}) AS `row_num` "
            f"FROM {quote(joined)}",
        ),
        Step(
            duplicates,
            f"SELECT {listed} FROM {quote(numbered)} WHERE NOT `dist` OR `row_num` > 1",
            ("__dupItems", "__dupRecords"),
        ),
        Step(
            work.step("dup_metric"),
            f"SELECT {work.group_columns}{', '.join([*sorts, dup])}, count(1) AS {num} "
            f"FROM {quote(duplicates)}{work.group_by_clause(*sorts, dup)}",
            ("__groupDupMetric", "__dupMetric"),
        ),
    ]
