"""SQL for uniqueness: count keys with exactly one row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidegauge.analyzers.core.sql import quote
from tidegauge.griffin.dsl.nodes import Aliased, Listing
from tidegauge.griffin.lower.context import LoweringContext, fraction
from tidegauge.griffin.lower.keys import KeyColumns, total_count
from tidegauge.griffin.lower.matching import renamed
from tidegauge.griffin.lower.plan import MetricTable, RulePlan, Step
from tidegauge.griffin.lower.sql import expression_sql


def lower_uniqueness(rule: Listing, work: LoweringContext) -> RulePlan:
    """Return the steps ``total_count``, ``dup_count`` and ``unique_metric``, and any duplicates.

    If ``duplication.array`` is set, ``dup_records`` has one row per key with several rows, and
    ``dup_metric`` the number of keys by their number of rows beyond the first. If the details name
    a target, its rows are counted for the keys of the source; it must have the columns that the
    rule names.
    """
    total, unique = work.output_column("total"), work.output_column("unique")
    dup, num = work.output_column("dup"), work.output_column("num")
    keys = KeyColumns(work, work.items(rule.items, (dup, "`__total`")))
    counted, duplicates = work.step("dup_count"), work.step("dup_records")
    of_keys = keys.counted(keys.rows(), "`__total`")
    target = work.option("target")
    if target is None or work.scope.frame(str(target)) == work.source:
        groups = f"SELECT {keys.all}, `__total` - 1 AS {dup}, `__total` FROM ({of_keys})"
    else:
        groups = _looked_up(keys, of_keys, str(target), dup)
    metric = Step(
        work.step("unique_metric"),
        f"SELECT {work.group_columns}`__all` AS {total}, `__one` AS {unique}, "
        f"{fraction('`__one`', '`__all`')} AS {work.output_column('uniqueFraction')} FROM (SELECT "
        f"{work.group_columns}coalesce(sum(`__total`), 0L) AS `__all`, count_if({dup} = 0) AS `__one` "
        f"FROM {quote(counted)}{work.group_by_clause()})",
        ("__uniqueMetric",),
    )
    steps = [total_count(work, total), Step(counted, groups, ("__group",)), metric]
    tables = [MetricTable(metric.name)]
    array = work.text("duplication.array")
    if array:
        steps += duplicate_steps(keys, counted, duplicates, [dup], num)
        tables.append(duplicates_array(work, steps[-1].name, array))
    records = (duplicates,) if array else ()
    return RulePlan(tuple(steps), tuple(tables), records, work.source, work.by)


def duplicate_steps(
    keys: KeyColumns, counted: str, duplicates: str, shown: list[str], num: str
) -> list[Step]:
    """Return the steps for keys with several rows, and for the number of keys by row count.

    ``shown`` are the counts in the records; the number of keys is by the first.
    """
    work, dup = keys.work, shown[0]
    records = f"SELECT {keys.all}, {', '.join(shown)} FROM {quote(counted)} WHERE {dup} > 0"
    metric = (
        f"SELECT {work.group_columns}{dup}, count(1) AS {num} FROM {quote(duplicates)}"
        f"{work.group_by_clause(dup)} ORDER BY {dup}"
    )
    return [
        Step(duplicates, records, ("__dupRecords",)),
        Step(work.step("dup_metric"), metric, ("__dupMetric",)),
    ]


def duplicates_array(
    work: LoweringContext, step: str, name: str, grouping: Sequence[str] = ()
) -> MetricTable:
    """Return the array of duplicates, identified by the rows beyond the first of a key."""
    labels = (*grouping, str(work.option("dup", "dup")))
    return MetricTable(step, "array", name, labels, part=True)


def _looked_up(keys: KeyColumns, of_keys: str, target: str, dup: str) -> str:
    """Return a query of the source's keys with the number of target rows for each."""
    work = keys.work
    columns = work.scope.schema(target).names
    frame = str(work.scope.frame(target))
    by = [name for name in work.by if name in columns]
    items = [Aliased(renamed(item.of, {work.source: frame}), item.alias) for item in keys.items]
    others = KeyColumns(replace(work, by=tuple(by)), items)
    cells = ", ".join(map(expression_sql, items))
    rows = f"SELECT {others.work.group_columns}{cells} FROM {quote(frame)}"
    names = [*map(quote, work.by), *keys.names]
    return (
        f"SELECT {', '.join(f'`__new`.{name}' for name in names)}, "
        f"greatest(coalesce(`__old`.`__found`, 0L) - 1, 0L) AS {dup}, `__new`.`__total` "
        f"FROM ({of_keys}) AS `__new` LEFT JOIN ({others.counted(rows, '`__found`')}) AS `__old` "
        f"ON {keys.same('`__new`', '`__old`', by)}"
    )
