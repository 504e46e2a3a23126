"""SQL for completeness: count rows that have all their values."""

from __future__ import annotations

from collections.abc import Sequence

from tidegauge.analyzers.core.sql import literal, quote
from tidegauge.griffin.bind.expressions import Binder
from tidegauge.griffin.bind.scope import Scope
from tidegauge.griffin.config import ErrorCondition, RuleConfig
from tidegauge.griffin.dsl.nodes import Aliased, Expression, Listing, Name
from tidegauge.griffin.lower.context import LoweringContext
from tidegauge.griffin.lower.plan import MetricTable, RulePlan, Step
from tidegauge.griffin.lower.sql import SUM, operand

NULL = "hive_none"
"""Stand-in for null among the error values."""


def error_condition(rule: Listing | None, config: RuleConfig, scope: Scope) -> str:
    """Return SQL that is true for incomplete rows of the source, and never null.

    Without error conditions a row is incomplete if any item is null. With them, it is incomplete if
    any condition holds: a text that matches a pattern, or one of the listed values. A null is an
    error where ``hive_none`` is listed, and where a column has patterns only, as no pattern can
    match it.

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


def lower_completeness(rule: Listing | None, work: LoweringContext) -> RulePlan:
    """Return ``incomplete_records``, ``total_count``, ``incomplete_count`` and ``complete_count``.

    These are steps; the last has the metric, and reads the source once.
    """
    bad = error_condition(rule, work.config, work.scope)
    total, incomplete = work.output_column("total"), work.output_column("incomplete")
    records = work.step("incomplete_records")
    return RulePlan(
        (
            Step(records, f"SELECT * FROM {work.table} WHERE {bad}", ("__incompleteRecords",)),
            Step(
                work.step("total_count"),
                f"SELECT {work.group_columns}count(1) AS {total} FROM {work.table}{work.group_by_clause()}",
                ("__totalCount",),
            ),
            Step(
                work.step("incomplete_count"),
                f"SELECT {work.group_columns}count(1) AS {incomplete} FROM {quote(records)}{work.group_by_clause()}",
                ("__incompleteCount",),
            ),
            Step(work.step("complete_count"), counts(work, work.table, bad)),
        ),
        (MetricTable(work.step("complete_count")),),
        (records,),
        work.source,
        work.by,
    )


def counts(work: LoweringContext, of: str, bad: str) -> str:
    """Return the query for total, incomplete and complete rows."""
    rows = f"SELECT {work.group_columns}{bad} AS `__bad` FROM {of}"
    return (
        f"SELECT {work.group_columns}count(1) AS {work.output_column('total')}, "
        f"count_if(`__bad`) AS {work.output_column('incomplete')}, "
        f"count_if(NOT `__bad`) AS {work.output_column('complete')} FROM ({rows}){work.group_by_clause()}"
    )
