"""Uniqueness: how many keys are of one row only."""

from __future__ import annotations

from dataclasses import replace

from analyzers.griffin.lowering.keys import Keys, total_count
from analyzers.griffin.lowering.matching import renamed
from analyzers.griffin.lowering.work import Work, fraction
from analyzers.griffin.nodes import Aliased, Listing
from analyzers.griffin.plan import Plan, Step, Table
from analyzers.griffin.sql import expression_sql
from analyzers.sql import quote


def lower_uniqueness(rule: Listing, work: Work) -> Plan:
    """Return the steps ``total_count``, ``dup_count``, ``unique_metric``; and the duplicates, if they are asked for.

    These are ``dup_records``, a row for each key of more rows than one, and ``dup_metric``, how many keys have
    how many rows beside the first. If the details name a target, its rows are counted for the keys of the
    source; it must have the columns that the rule names.
    """
    total, unique = work.named("total"), work.named("unique")
    dup, num = work.named("dup"), work.named("num")
    keys = Keys(work, work.items(rule.items, (dup, "`__total`")))
    counted, duplicates = work.step("dup_count"), work.step("dup_records")
    of_keys = keys.counted(keys.rows(), "`__total`")
    target = work.option("target")
    if target is None or work.scope.frame(str(target)) == work.source:
        groups = f"SELECT {keys.all}, `__total` - 1 AS {dup}, `__total` FROM ({of_keys})"
    else:
        groups = _looked_up(keys, of_keys, str(target), dup)
    metric = Step(
        work.step("unique_metric"),
        f"SELECT {work.lead}`__all` AS {total}, `__one` AS {unique}, "
        f"{fraction('`__one`', '`__all`')} AS {work.named('uniqueFraction')} FROM (SELECT "
        f"{work.lead}coalesce(sum(`__total`), 0L) AS `__all`, count_if({dup} = 0) AS `__one` "
        f"FROM {quote(counted)}{work.grouped()})",
        ("__uniqueMetric",),
    )
    steps = [total_count(work, total), Step(counted, groups, ("__group",)), metric]
    tables = [Table(metric.name, "entries")]
    array = work.text("duplication.array")
    if array:
        steps += duplicate_steps(keys, counted, duplicates, [dup], num)
        tables.append(Table(steps[-1].name, "array", array))
    records = (duplicates,) if array else ()
    return Plan(tuple(steps), tuple(tables), records, work.source, work.by)


def duplicate_steps(
    keys: Keys, counted: str, duplicates: str, dups: list[str], num: str
) -> list[Step]:
    """Return the steps of the keys of more rows than one, and of how many keys there are of how many rows."""
    work, dup = keys.work, ", ".join(dups)
    records = f"SELECT {keys.all}, {dup} FROM {quote(counted)} WHERE {dups[0]} > 0"
    metric = (
        f"SELECT {work.lead}{dup}, count(1) AS {num} FROM {quote(duplicates)}{work.grouped(*dups)}"
    )
    return [
        Step(duplicates, records, ("__dupRecords",)),
        Step(work.step("dup_metric"), metric, ("__dupMetric",)),
    ]


def _looked_up(keys: Keys, of_keys: str, target: str, dup: str) -> str:
    """Return the source's keys with how many rows of the target have them."""
    work = keys.work
    columns = work.scope.schema(target).names
    frame = str(work.scope.frame(target))
    by = [name for name in work.by if name in columns]
    items = [Aliased(renamed(item.of, {work.source: frame}), item.alias) for item in keys.items]
    others = Keys(replace(work, by=tuple(by)), items)
    cells = ", ".join(map(expression_sql, items))
    rows = f"SELECT {others.work.lead}{cells} FROM {quote(frame)}"
    names = [*map(quote, work.by), *keys.names]
    return (
        f"SELECT {', '.join(f'`__new`.{name}' for name in names)}, "
        f"greatest(coalesce(`__old`.`__found`, 0L) - 1, 0L) AS {dup}, `__new`.`__total` "
        f"FROM ({of_keys}) AS `__new` LEFT JOIN ({others.counted(rows, '`__found`')}) AS `__old` "
        f"ON {keys.same('`__new`', '`__old`', by)}"
    )
