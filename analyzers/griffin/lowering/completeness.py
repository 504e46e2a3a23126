"""Completeness: how many rows have all their values."""

from __future__ import annotations

from collections.abc import Sequence

from analyzers.griffin.binder import Binder
from analyzers.griffin.config import ErrorCondition, RuleConfig
from analyzers.griffin.lowering.work import Work
from analyzers.griffin.nodes import Aliased, Expression, Listing, Name
from analyzers.griffin.plan import Plan, Step
from analyzers.griffin.scope import Scope
from analyzers.griffin.sql import SUM, operand
from analyzers.sql import literal, quote

NULL = "hive_none"
"""What stands for null among the values that are errors."""


def error_condition(rule: Listing | None, config: RuleConfig, scope: Scope) -> str:
    """Return SQL that is true for rows of the source that are not complete, and never null.

    Without error conditions a row is incomplete if any item is null. With them, if any of them holds: a text
    that a pattern is found in, or one of the values. A null is an error where ``hive_none`` says so, and where
    a column has patterns only, as no pattern can name it.

    Raises
    ------
    DslError
        If a column of an error condition is neither an item of the rule nor a column of the source.
    """
    said = config.details.get("expr")
    if said is not None:
        if not isinstance(said, str) or not said.strip():
            raise scope.error("'expr' says when a row is complete, in SQL", None, "plan", None)
        return f"NOT coalesce((\n{said}\n), false)"
    items = [item for item in (rule.items if rule else ()) if isinstance(item, Aliased)]
    if not config.errors:
        if not items:
            raise scope.error("there is no column to look at", None, "plan", None)
        return " OR ".join(f"{operand(item.of, SUM)} IS NULL" for item in items)
    columns: dict[str, list[ErrorCondition]] = {}
    for one in config.errors:
        columns.setdefault(one.column.casefold(), []).append(one)
    return " OR ".join(
        _error(_column(some[0].column, items, scope), some) for some in columns.values()
    )


def _column(name: str, items: Sequence[Aliased], scope: Scope) -> Expression:
    found = next((i.of for i in items if i.alias.casefold() == name.casefold()), None)
    return Binder(scope, (scope.source,)).bind(Name(name)) if found is None else found


def _error(column: Expression, conditions: Sequence[ErrorCondition]) -> str:
    """Return SQL for the error conditions of one column."""
    text = f"CAST({operand(column, 0)} AS STRING)"
    tests = []
    values = [v for one in conditions if one.kind == "enumeration" for v in one.values]
    patterns = [v for one in conditions if one.kind == "regex" for v in one.values]
    if NULL in values or not values:
        tests.append(f"{operand(column, SUM)} IS NULL")
    texts = [value for value in values if value != NULL]
    if texts:
        tests.append(f"coalesce({text} IN ({', '.join(map(literal, texts))}), false)")
    tests += [f"coalesce({text} RLIKE {literal(pattern)}, false)" for pattern in patterns]
    return " OR ".join(tests)


def lower_completeness(rule: Listing | None, work: Work) -> Plan:
    """Return the steps ``incomplete_records``, ``total_count``, ``incomplete_count`` and ``complete_count``.

    The last has the metric, and reads the source once.
    """
    bad = error_condition(rule, work.config, work.scope)
    total, incomplete = work.named("total"), work.named("incomplete")
    records = work.step("incomplete_records")
    return Plan(
        (
            Step(records, f"SELECT * FROM {work.table} WHERE {bad}", ("__incompleteRecords",)),
            Step(
                work.step("total_count"),
                f"SELECT {work.lead}count(1) AS {total} FROM {work.table}{work.grouped()}",
                ("__totalCount",),
            ),
            Step(
                work.step("incomplete_count"),
                f"SELECT {work.lead}count(1) AS {incomplete} FROM {quote(records)}{work.grouped()}",
                ("__incompleteCount",),
            ),
            Step(work.step("complete_count"), counts(work, work.table, bad)),
        ),
        (work.metric(work.step("complete_count")),),
        (records,),
        work.source,
        work.by,
    )


def counts(work: Work, of: str, bad: str) -> str:
    """Return the query of total, incomplete and complete rows."""
    rows = f"SELECT {work.lead}{bad} AS `__bad` FROM {of}"
    return (
        f"SELECT {work.lead}count(1) AS {work.named('total')}, "
        f"count_if(`__bad`) AS {work.named('incomplete')}, "
        f"count_if(NOT `__bad`) AS {work.named('complete')} FROM ({rows}){work.grouped()}"
    )
