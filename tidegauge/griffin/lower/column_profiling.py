"""SQL for column profiles: one row of statistics per column."""

from __future__ import annotations

from tidegauge.analyzers.core.schema import NESTED, NUMERIC
from tidegauge.analyzers.core.sql import literal, quote
from tidegauge.griffin.bind.types import type_of
from tidegauge.griffin.dsl.nodes import Aliased, ColumnNode, Expression, Listing
from tidegauge.griffin.lower.context import LoweringContext
from tidegauge.griffin.lower.plan import MetricTable, RulePlan, Step
from tidegauge.griffin.lower.sql import expression_sql

NUMBERS = ("min", "max", "avg", "std_dev", "variance", "kurtosis")
"""Statistics of numeric columns only; null for other types, and where there is no value."""

SEED = 1
"""Sampling seed, so that the same data gives the same sample."""


def lower_column_profiling(rule: Listing | None, work: LoweringContext) -> RulePlan:
    """Return the steps ``column_statistics``, one row for all columns, and ``column_profile``.

    The profile has one row per column, and reads the source once.
    """
    columns = _columns(rule, work)
    places, approximate = _places(work), work.flag("approx.distinct.count", default=True)
    cells: list[str] = []
    rows = []
    for number, (name, of) in enumerate(columns):
        found = _statistics(of, places, approximate=approximate)
        cells += [f"{sql} AS {quote(f'__{number}_{key}')}" for key, sql in found.items()]
        kind = type_of(of)
        shown = kind["type"] if isinstance(kind, dict) else str(kind)
        rows.append(
            f"named_struct('column_name', {literal(name)}, 'data_type', {literal(shown)}, "
            + ", ".join(f"{literal(key)}, {quote(f'__{number}_{key}')}" for key in found)
            + ")"
        )
    statistics = work.step("column_statistics")
    steps = (
        Step(
            statistics,
            f"SELECT {work.group_columns}{', '.join(cells)} FROM {work.table}{_sample(work)}{work.group_by_clause()}",
        ),
        Step(
            work.step("column_profile"),
            f"SELECT {work.group_columns}inline(array({', '.join(rows)})) FROM {quote(statistics)}",
        ),
    )
    table = MetricTable(steps[-1].name, "array", "column_details", ("column_name",))
    return RulePlan(steps, (table,), (), work.source, work.by)


def _columns(rule: Listing | None, work: LoweringContext) -> list[tuple[str, Expression]]:
    items = [(i.alias, i.of) for i in (rule.items if rule else ()) if isinstance(i, Aliased)]
    if not items:
        fields = work.scope.schema(work.source).struct["fields"]
        plain = [f for f in fields if isinstance(f["type"], str) and f["type"] not in NESTED]
        items = [
            (f["name"], ColumnNode(work.source, f["name"], f["type"]))
            for f in plain
            if f["name"] not in work.by
        ]
    for name, of in items:
        if isinstance(type_of(of), dict):
            raise work.error(f"the column {name!r} is nested; only plain ones have profiles")
    if not items:
        raise work.error("there is no column to look at")
    return items


def _statistics(of: Expression, places: int, *, approximate: bool) -> dict[str, str]:
    """Return the SQL of a column's statistics by name."""
    sql = expression_sql(of)
    length = f"length(CAST({sql} AS STRING))"
    kind = str(type_of(of)).partition("(")[0]
    value = f"CAST({sql} AS DOUBLE)" if kind in NUMERIC else "CAST(NULL AS DOUBLE)"
    functions = dict(
        zip(NUMBERS, ("min", "max", "avg", "stddev", "variance", "kurtosis"), strict=True)
    )
    distinct = f"approx_count_distinct({sql})" if approximate else f"count(DISTINCT {sql})"
    return {
        "total": "count(1)",
        "min_col_len": f"min({length})",
        "max_col_len": f"max({length})",
        "avg_col_len": f"round(avg({length}), {places})",
        **{name: f"round({function}({value}), {places})" for name, function in functions.items()},
        "approx_distinct_count" if approximate else "distinct_count": distinct,
        "null_count": f"count_if({sql} IS NULL)",
    }


def _places(work: LoweringContext) -> int:
    said = work.option("round.scale", 3)
    if isinstance(said, bool) or not str(said).isdecimal():
        raise work.error(f"round.scale is a whole number, not {said!r}")
    return int(said)


def _sample(work: LoweringContext) -> str:
    said = work.option("dataset.sample", 1.0)
    if isinstance(said, bool) or not isinstance(said, (int, float)) or not 0 < said <= 1:
        raise work.error(f"dataset.sample is a share above 0 and up to 1, not {said!r}")
    return "" if said == 1 else f" TABLESAMPLE ({said * 100:f} PERCENT) REPEATABLE ({SEED})"
