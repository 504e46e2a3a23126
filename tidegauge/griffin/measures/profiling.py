"""Profiling: one query of a source, or one row of statistics per column.

The ``lower_`` functions write them as SQL steps. `GriffinProfiling` measures queries whose
aggregates can be merged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from math import sqrt
from typing import Any, ClassVar

from tidegauge.analyzers.core.analyzer import Aggregate, AnyAnalyzer, Frequencies, Request, analyzer
from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError
from tidegauge.analyzers.core.metric import Scale
from tidegauge.analyzers.core.schema import NESTED, NUMERIC, Schema
from tidegauge.analyzers.core.sql import literal, quote, where_holds
from tidegauge.analyzers.core.state import State
from tidegauge.analyzers.measures.cardinality import ApproxCountDistinct
from tidegauge.analyzers.measures.counts import NumMatches
from tidegauge.analyzers.measures.extremes import Maximum, Minimum
from tidegauge.analyzers.measures.frequencies import FrequenciesAndNumRows
from tidegauge.analyzers.measures.moments import Mean, StandardDeviation, Sum
from tidegauge.griffin.bind.expressions import Scope
from tidegauge.griffin.bind.rules import bind, is_grouped
from tidegauge.griffin.bind.types import AGGREGATES, kind_of, type_of
from tidegauge.griffin.config import RuleConfig
from tidegauge.griffin.dsl.nodes import (
    Aliased,
    Call,
    ColumnNode,
    Expression,
    Listing,
    OrderItem,
    Profiling,
    Star,
)
from tidegauge.griffin.measures.base import GriffinMeasure, Parts, Report, bare, groupable, row_sql
from tidegauge.griffin.measures.plan import LoweringContext, MetricTable, RulePlan, Step
from tidegauge.griffin.measures.sql import expression_sql


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
            f"SELECT {work.group_columns}{', '.join(cells)} FROM {work.table}{_sample_clause(work)}{work.group_by_clause()}",
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


def _sample_clause(work: LoweringContext) -> str:
    said = work.option("dataset.sample", 1.0)
    if isinstance(said, bool) or not isinstance(said, (int, float)) or not 0 < said <= 1:
        raise work.error(f"dataset.sample is a share above 0 and up to 1, not {said!r}")
    return "" if said == 1 else f" TABLESAMPLE ({said * 100:f} PERCENT) REPEATABLE ({SEED})"


@dataclass(frozen=True)
class Function:
    """An aggregate function computed from a state.

    Attributes
    ----------
    of : type of Analyzer
        The analyzer of a column that has the state.
    cells : int
        Number of request results that make up the state.
    value : callable
        Returns the value of a non-empty state.
    scale : Scale
    nothing : object
        The value of an empty state.
    """

    of: type[Any]
    cells: int
    value: Callable[[Any], Any]
    scale: Scale = Scale.SIGNED

    nothing: Any = None

    def outcome(self, state: Any) -> Any:
        """Return the value of a state."""
        return self.value(state) if self.of("x").weight(state) else self.nothing


def _sample_variance(state: Any) -> float | None:
    return state.m2 / (state.count - 1) if state.count > 1 else None


def _root(state: Any) -> float | None:
    variance = _sample_variance(state)
    return None if variance is None else sqrt(variance)


_MEAN = Function(Mean, 3, lambda state: float(state.total / state.count))
_DEVIATION = Function(StandardDeviation, 4, _root, Scale.POSITIVE)
_VARIANCE = Function(StandardDeviation, 4, _sample_variance, Scale.POSITIVE)
FUNCTIONS = {
    "sum": Function(Sum, 3, lambda state: state.total),
    "avg": _MEAN,
    "mean": _MEAN,
    "min": Function(Minimum, 2, lambda state: state.minimum),
    "max": Function(Maximum, 2, lambda state: state.maximum),
    "std": _DEVIATION,
    "stddev": _DEVIATION,
    "stddev_samp": _DEVIATION,
    "stddev_pop": Function(
        StandardDeviation, 4, lambda state: state.metric_value(), Scale.POSITIVE
    ),
    "variance": _VARIANCE,
    "var_samp": _VARIANCE,
    "var_pop": Function(StandardDeviation, 4, lambda state: state.variance(), Scale.POSITIVE),
    "approx_count_distinct": Function(
        ApproxCountDistinct, 2, lambda state: round(state.estimate()), Scale.COUNT, 0
    ),
}
COUNTS = ("count", "count_if")


@analyzer
class GriffinProfiling(GriffinMeasure[Parts]):
    """Griffin's profiling: aggregate functions with mergeable states.

    These are counts; sum, mean, minimum, maximum, standard deviation and variance of numeric
    columns; and approximate distinct counts. Grouped queries support counts only. Other queries
    have no state.

    Parameters
    ----------
    rule : str
        The rule's name.
    expression : str
        The query.
    source : str
        Name of the data in the text.
    details : str
        JSON with ``flatten`` and ``name`` of the rule's output.

    Examples
    --------
    >>> state = Parts((NumMatches(3), Sum("x").state_type(12, 3)))
    >>> GriffinProfiling("p", "count(*), avg(x) as mean").compute_metric_from(state).value.metric
    {'count': 3, 'mean': 4.0}
    """

    dq_type: ClassVar[str] = "profiling"
    read: ClassVar[tuple[str, ...]] = ("flatten", "name")
    state_type: ClassVar[type[State]] = Parts
    state_bytes: ClassVar[int] = 1 << 13

    def adds(self, config: RuleConfig, scope: Scope) -> bool:
        """Return whether mergeable states can answer the query."""
        query = bind(self.parsed(), scope)
        return isinstance(query, Profiling) and decomposes(query, self.source)

    def column_scale(self, column: str) -> Scale:
        """Return the scale of an item: that of its function, else count."""
        functions = dict(zip(self.aliases(), self._functions(), strict=True))
        function = functions.get(column)
        return function.scale if function else Scale.COUNT

    def _query(self) -> Profiling:
        found = self.parsed()
        assert isinstance(found, Profiling)
        return found

    def _functions(self) -> list[Function | None]:
        """Return the function of each item; None for a count or a group-by key."""
        return [FUNCTIONS.get(_aggregate_name(item)) for item in self._query().items]

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Request the inputs of the states.

        Raises
        ------
        IllegalAnalyzerParameterError
            If the query has no mergeable state.
        """
        query = self.bound(schema)
        if not isinstance(query, Profiling) or not decomposes(query, self.source):
            msg = f"{self!r} has no state that adds; run it as a query"
            raise IllegalAnalyzerParameterError(msg)
        where = None if query.where is None else row_sql(query.where)
        if query.group_by:
            keys = tuple(row_sql(item) for item in query.items if not _aggregate_name(item))
            return (Frequencies(keys, where),)
        return tuple(r for item in query.items for r in self._asked(item, where, schema))

    def _asked(self, item: Expression, where: str | None, schema: Schema) -> tuple[Request, ...]:
        name, argument = _aggregate_name(item), _argument(item)
        if isinstance(argument, ColumnNode) and name in FUNCTIONS:
            of: AnyAnalyzer = FUNCTIONS[name].of(quote(argument.name), where=where)
            return of.requests(schema)
        counted = "1" if isinstance(argument, Star) else row_sql(argument)
        return (Aggregate(f"{name}({where_holds(where, counted)})"),)

    def fold(self, cells: Sequence[Any]) -> Parts:
        """Build a state from each item's results."""
        if self._query().group_by:
            return Parts((cells[0] or FrequenciesAndNumRows(),))
        rest = iter(cells)
        return Parts(
            tuple(
                NumMatches(next(rest)) if f is None else f.of("x").fold([*islice(rest, f.cells)])
                for f in self._functions()
            )
        )

    def weight(self, state: Parts) -> float:
        """Return the number of rows or values of the first item."""
        if not state.parts:
            return 0.0
        match state.parts[0]:
            case FrequenciesAndNumRows() as groups:
                return float(groups.num_rows + groups.num_nulls)
            case NumMatches() as counted:
                return float(counted.num_matches)
            case other:
                return float(other.count)

    def measure(self, state: Parts) -> Report:
        """Return the query's rows as a metric."""
        said, query = self.said(), self._query()
        rows = self._groups(state) if query.group_by else [self._row(state)]
        labels = [
            n for n, i in zip(self.aliases(), query.items, strict=True) if not _aggregate_name(i)
        ]
        flatten, name = said.get("flatten", "default"), said.get("name", self.rule)
        return Report.from_rows(rows, flatten, name, labels)

    def _row(self, state: Parts) -> dict[str, Any]:
        functions = self._functions()
        parts = state.parts or [f.of.state_type() if f else NumMatches() for f in functions]
        return {
            alias: f.outcome(part) if f else part.num_matches
            for alias, f, part in zip(self.aliases(), functions, parts, strict=True)
        }

    def _groups(self, state: Parts) -> list[dict[str, Any]]:
        if not state.parts:
            return []
        (frequencies,) = state.parts
        kinds = [_aggregate_name(item) for item in self._query().items]
        groups = [*frequencies.groups()]
        if frequencies.num_nulls:
            keys = sum(not kind for kind in kinds)
            groups.append(((None,) * keys, frequencies.num_nulls))
        rows = []
        for key, count in sorted(groups, key=lambda group: [(k is not None, k) for k in group[0]]):
            values = iter(key)
            cells = [count if kind else next(values) for kind in kinds]
            rows.append(dict(zip(self.aliases(), cells, strict=True)))
        return rows


def decomposes(query: Profiling, source: str) -> bool:
    """Return whether a bound query's result can be merged from results over parts of the rows."""
    ordered = query.distinct or query.having or query.order_by or query.limit
    if ordered or str(query.table).casefold() != source.casefold():
        return False
    if not query.group_by:
        return all(map(_adds, query.items))
    keys = {bare(item) for item in query.items if not _aggregate_name(item)}
    counts = [item for item in query.items if _aggregate_name(item)]
    return (
        keys == set(query.group_by)
        and all(map(groupable, keys))
        and all(_aggregate_name(c) == "count" and isinstance(_argument(c), Star) for c in counts)
    )


def _adds(item: Expression) -> bool:
    call, name = bare(item), _aggregate_name(item)
    if not isinstance(call, Call) or call.distinct or len(call.arguments) != 1:
        return False
    argument = call.arguments[0]
    if name in FUNCTIONS:
        numeric = kind_of(argument) in NUMERIC or FUNCTIONS[name].of is ApproxCountDistinct
        return isinstance(argument, ColumnNode) and numeric and groupable(argument)
    return name in COUNTS


def _aggregate_name(item: Expression) -> str:
    """Return the aggregate function of an item in lower case; empty if it is none."""
    call = bare(item)
    name = call.name.casefold() if isinstance(call, Call) else ""
    return name if name in AGGREGATES else ""


def _argument(item: Expression) -> Expression:
    call = bare(item)
    return call.arguments[0] if isinstance(call, Call) and call.arguments else Star()
