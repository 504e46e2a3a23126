"""Profiling: one query on a source, or one row of statistics for each column.

The ``lower_`` functions return SQL steps. `GriffinProfiling` measures queries with mergeable aggregates.
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
from tidegauge.griffin.config import RuleConfig
from tidegauge.griffin.dsl.binding import bind, is_grouped
from tidegauge.griffin.dsl.nodes import (
    AGGREGATE_FUNCTIONS,
    Aliased,
    Call,
    ColumnNode,
    Expression,
    Listing,
    OrderItem,
    Profiling,
    Star,
    kind_of,
    type_of,
)
from tidegauge.griffin.dsl.scope import Scope
from tidegauge.griffin.measures.base import (
    GriffinMeasure,
    LoweringContext,
    MetricTable,
    Parts,
    Report,
    RuleKind,
    RulePlan,
    Step,
    bare,
    groupable,
    row_sql,
)
from tidegauge.griffin.measures.sql import expression_sql


def lower_profiling(rule: Profiling, context: LoweringContext) -> RulePlan:
    """Return the step ``profiling``. With group-by columns, ORDER BY and LIMIT apply to each group.

    Parameters
    ----------
    rule : Profiling
        The bound rule.
    context : LoweringContext
        The rule's options and scope.
    """
    frame = rule.table or context.source
    missing = [name for name in context.group_by if name not in context.scope.schema(frame).names]
    if missing:
        raise context.error(
            f"{frame!r} has no column {missing[0]!r}, but the job is partitioned by this column"
        )
    group_by = [ColumnNode(frame, name) for name in context.group_by]
    items = context.items([i for i in rule.items if getattr(i, "expression", None) not in group_by])
    order = [_sort_key(item, [(i.expression, i.alias) for i in items]) for item in rule.order_by]
    hidden = [
        f"{key} AS `__order_{n}`"
        for n, (key, is_alias, _) in enumerate(order)
        if not is_alias and context.group_by and rule.limit
    ]
    cells = [*map(expression_sql, group_by), *map(expression_sql, items), *hidden]
    query = f"SELECT {'DISTINCT ' if rule.distinct else ''}{', '.join(cells)} FROM {quote(frame)}"
    if rule.where is not None:
        query += f" WHERE {expression_sql(rule.where)}"
    groups = list(dict.fromkeys([*group_by, *rule.group_by])) if is_grouped(rule) else []
    if groups:
        query += f" GROUP BY {', '.join(map(expression_sql, groups))}"
    if rule.having is not None:
        query += f" HAVING {expression_sql(rule.having)}"
    if context.group_by and rule.limit is not None:
        keys = [
            f"{key if is_alias else quote(f'__order_{n}')}{direction}"
            for n, (key, is_alias, direction) in enumerate(order)
        ]
        names = [*map(quote, context.group_by), *(quote(item.alias) for item in items)]
        group_columns = ", ".join(map(quote, context.group_by))
        query = (
            f"SELECT {', '.join(names)} FROM (SELECT *, row_number() OVER (PARTITION BY {group_columns} "
            f"ORDER BY {', '.join(keys) or group_columns}) AS `__rank` FROM ({query})) "
            f"WHERE `__rank` <= {expression_sql(rule.limit)} ORDER BY {group_columns}, `__rank`"
        )
    else:
        keys = [f"{key}{direction}" for key, _, direction in order]
        if keys:
            query += f" ORDER BY {', '.join([*map(expression_sql, group_by), *keys])}"
        if rule.limit is not None:
            query += f" LIMIT {expression_sql(rule.limit)}"
    step = Step(context.step("profiling"), query)
    output = context.config.metric
    table = MetricTable(
        step.name, output.flatten or "default", str(output.name), _labels(rule, items)
    )
    return RulePlan((step,), (table,), (), frame, context.group_by)


def _labels(rule: Profiling, items: list[Aliased]) -> tuple[str, ...] | None:
    """Return the selected GROUP BY columns; None if there are none."""
    return tuple(item.alias for item in items if item.expression in rule.group_by) or None


def _sort_key(item: OrderItem, selected: list[tuple[object, str]]) -> tuple[str, bool, str]:
    """Return a sort key, whether it is an item's alias, and its direction."""
    direction = {None: "", True: " DESC", False: " ASC"}[item.descending]
    alias = next((alias for expression, alias in selected if expression == item.expression), None)
    return (
        (expression_sql(item.expression), False, direction)
        if alias is None
        else (quote(alias), True, direction)
    )


NUMERIC_STATISTICS = ("min", "max", "avg", "std_dev", "variance", "kurtosis")
"""Statistics of numeric columns only; null for other types and for columns without values."""

SAMPLE_SEED = 1
"""A fixed seed, so that the same data gives the same sample."""


def lower_column_profiling(rule: Listing | None, context: LoweringContext) -> RulePlan:
    """Return the steps ``column_statistics``, one row for all columns, and ``column_profile``.

    The profile has one row for each column. It reads the source once.

    Parameters
    ----------
    rule : Listing or None
        The columns; None for all columns that are not nested.
    context : LoweringContext
        The rule's options and scope.
    """
    columns = _columns(rule, context)
    decimals, approximate = (
        _decimal_places(context),
        context.flag("approx.distinct.count", default=True),
    )
    cells: list[str] = []
    rows = []
    for number, (name, column) in enumerate(columns):
        statistics_sql = _statistics(column, decimals, approximate=approximate)
        cells += [f"{sql} AS {quote(f'__{number}_{key}')}" for key, sql in statistics_sql.items()]
        kind = type_of(column)
        type_name = kind["type"] if isinstance(kind, dict) else str(kind)
        rows.append(
            f"named_struct('column_name', {literal(name)}, 'data_type', {literal(type_name)}, "
            + ", ".join(f"{literal(key)}, {quote(f'__{number}_{key}')}" for key in statistics_sql)
            + ")"
        )
    statistics = context.step("column_statistics")
    steps = (
        Step(
            statistics,
            f"SELECT {context.group_columns}{', '.join(cells)} FROM {context.table}{_sample_clause(context)}{context.group_by_clause()}",
        ),
        Step(
            context.step("column_profile"),
            f"SELECT {context.group_columns}inline(array({', '.join(rows)})) FROM {quote(statistics)}",
        ),
    )
    table = MetricTable(steps[-1].name, "array", "column_details", ("column_name",))
    return context.plan(steps, [table])


def _columns(rule: Listing | None, context: LoweringContext) -> list[tuple[str, Expression]]:
    items = [
        (i.alias, i.expression) for i in (rule.items if rule else ()) if isinstance(i, Aliased)
    ]
    if not items:
        fields = context.scope.schema(context.source).struct["fields"]
        plain = [f for f in fields if isinstance(f["type"], str) and f["type"] not in NESTED]
        items = [
            (f["name"], ColumnNode(context.source, f["name"], f["type"]))
            for f in plain
            if f["name"] not in context.group_by
        ]
    for name, column in items:
        if isinstance(type_of(column), dict):
            raise context.error(
                f"the column {name!r} is nested, so it cannot be profiled; remove it"
            )
    if not items:
        raise context.error("the rule has no columns to profile; name at least one")
    return items


def _statistics(column: Expression, decimals: int, *, approximate: bool) -> dict[str, str]:
    """Return the SQL of a column's statistics by name."""
    sql = expression_sql(column)
    length = f"length(CAST({sql} AS STRING))"
    kind = str(type_of(column)).partition("(")[0]
    value = f"CAST({sql} AS DOUBLE)" if kind in NUMERIC else "CAST(NULL AS DOUBLE)"
    functions = dict(
        zip(
            NUMERIC_STATISTICS, ("min", "max", "avg", "stddev", "variance", "kurtosis"), strict=True
        )
    )
    distinct = f"approx_count_distinct({sql})" if approximate else f"count(DISTINCT {sql})"
    return {
        "total": "count(1)",
        "min_col_len": f"min({length})",
        "max_col_len": f"max({length})",
        "avg_col_len": f"round(avg({length}), {decimals})",
        **{name: f"round({function}({value}), {decimals})" for name, function in functions.items()},
        "approx_distinct_count" if approximate else "distinct_count": distinct,
        "null_count": f"count_if({sql} IS NULL)",
    }


def _decimal_places(context: LoweringContext) -> int:
    option = context.option("round.scale", 3)
    if isinstance(option, bool) or not str(option).isdecimal():
        raise context.error(f"round.scale must be a whole number, not {option!r}")
    return int(option)


def _sample_clause(context: LoweringContext) -> str:
    option = context.option("dataset.sample", 1.0)
    if isinstance(option, bool) or not isinstance(option, (int, float)) or not 0 < option <= 1:
        raise context.error(f"dataset.sample must be a share above 0 and up to 1, not {option!r}")
    return (
        "" if option == 1 else f" TABLESAMPLE ({option * 100:f} PERCENT) REPEATABLE ({SAMPLE_SEED})"
    )


@dataclass(frozen=True)
class Function:
    """An aggregate function computed from a state.

    Attributes
    ----------
    analyzer : type of Analyzer
        The analyzer that computes the state of a column.
    cells : int
        Number of request results that make up the state.
    value : callable
        Returns the value of a non-empty state.
    scale : Scale
        Scale of the value.
    nothing : object
        The value of an empty state.
    """

    analyzer: type[Any]
    cells: int
    value: Callable[[Any], Any]
    scale: Scale = Scale.SIGNED

    nothing: Any = None

    def outcome(self, state: Any) -> Any:
        """Return the value of a state."""
        return self.value(state) if self.analyzer("x").weight(state) else self.nothing


def _sample_variance(state: Any) -> float | None:
    return state.m2 / (state.count - 1) if state.count > 1 else None


def _root(state: Any) -> float | None:
    variance = _sample_variance(state)
    return None if variance is None else sqrt(variance)


_MEAN_FUNCTION = Function(Mean, 3, lambda state: float(state.total / state.count))
_DEVIATION_FUNCTION = Function(StandardDeviation, 4, _root, Scale.POSITIVE)
_VARIANCE_FUNCTION = Function(StandardDeviation, 4, _sample_variance, Scale.POSITIVE)
FUNCTION_BY_NAME = {
    "sum": Function(Sum, 3, lambda state: state.total),
    "avg": _MEAN_FUNCTION,
    "mean": _MEAN_FUNCTION,
    "min": Function(Minimum, 2, lambda state: state.minimum),
    "max": Function(Maximum, 2, lambda state: state.maximum),
    "std": _DEVIATION_FUNCTION,
    "stddev": _DEVIATION_FUNCTION,
    "stddev_samp": _DEVIATION_FUNCTION,
    "stddev_pop": Function(
        StandardDeviation, 4, lambda state: state.metric_value(), Scale.POSITIVE
    ),
    "variance": _VARIANCE_FUNCTION,
    "var_samp": _VARIANCE_FUNCTION,
    "var_pop": Function(StandardDeviation, 4, lambda state: state.variance(), Scale.POSITIVE),
    "approx_count_distinct": Function(
        ApproxCountDistinct, 2, lambda state: round(state.estimate()), Scale.COUNT, 0
    ),
}
COUNT_FUNCTIONS = ("count", "count_if")


@analyzer
class GriffinProfiling(GriffinMeasure[Parts]):
    """Griffin's profiling: aggregate functions with mergeable states.

    The functions are counts; sum, mean, minimum, maximum, standard deviation and variance of numeric
    columns; and approximate distinct counts. Grouped queries support only counts. Other queries have no
    state.

    Parameters
    ----------
    rule : str
        The rule's name.
    expression : str
        The query.
    source : str
        Name of the source in the rule.
    details : str
        JSON with ``flatten`` and ``name`` of the rule's output.

    Examples
    --------
    >>> state = Parts((NumMatches(3), Sum("x").state_type(12, 3)))
    >>> GriffinProfiling("p", "count(*), avg(x) as mean").compute_metric_from(state).value.metric
    {'count': 3, 'mean': 4.0}
    """

    dq_type: ClassVar[str] = "profiling"
    other_details: ClassVar[tuple[str, ...]] = ("flatten", "name")
    state_type: ClassVar[type[State]] = Parts
    state_bytes: ClassVar[int] = 1 << 13

    def adds(self, config: RuleConfig, scope: Scope) -> bool:
        """Return whether mergeable states can answer the query."""
        query = bind(self.parsed(), scope)
        return isinstance(query, Profiling) and decomposes(query, self.source)

    def column_scale(self, column: str) -> Scale:
        """Return the scale of an item's function, or count for other items."""
        functions = dict(zip(self.aliases(), self._functions(), strict=True))
        function = functions.get(column)
        return function.scale if function else Scale.COUNT

    def _query(self) -> Profiling:
        query = self.parsed()
        assert isinstance(query, Profiling)
        return query

    def _functions(self) -> list[Function | None]:
        """Return the function of each item; None for a count or a group-by key."""
        return [FUNCTION_BY_NAME.get(_aggregate_name(item)) for item in self._query().items]

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Request the inputs of the states.

        Raises
        ------
        IllegalAnalyzerParameterError
            If the query has no mergeable state.
        """
        query = self.bound(schema)
        if not isinstance(query, Profiling) or not decomposes(query, self.source):
            msg = f"{self!r} has no mergeable state; run it as a query"
            raise IllegalAnalyzerParameterError(msg)
        where = None if query.where is None else row_sql(query.where)
        if query.group_by:
            keys = tuple(row_sql(item) for item in query.items if not _aggregate_name(item))
            return (Frequencies(keys, where),)
        return tuple(r for item in query.items for r in self._item_requests(item, where, schema))

    def _item_requests(
        self, item: Expression, where: str | None, schema: Schema
    ) -> tuple[Request, ...]:
        name, argument = _aggregate_name(item), _argument(item)
        if isinstance(argument, ColumnNode) and name in FUNCTION_BY_NAME:
            analyzer: AnyAnalyzer = FUNCTION_BY_NAME[name].analyzer(
                quote(argument.name), where=where
            )
            return analyzer.requests(schema)
        counted = "1" if isinstance(argument, Star) else row_sql(argument)
        return (Aggregate(f"{name}({where_holds(where, counted)})"),)

    def fold(self, cells: Sequence[Any]) -> Parts:
        """Build a state from each item's results."""
        if self._query().group_by:
            return Parts((cells[0] or FrequenciesAndNumRows(),))
        rest = iter(cells)
        return Parts(
            tuple(
                NumMatches(next(rest))
                if f is None
                else f.analyzer("x").fold([*islice(rest, f.cells)])
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
        details, query = self.parsed_details(), self._query()
        rows = self._groups(state) if query.group_by else [self._row(state)]
        labels = [
            n for n, i in zip(self.aliases(), query.items, strict=True) if not _aggregate_name(i)
        ]
        flatten, name = details.get("flatten", "default"), details.get("name", self.rule)
        return Report.from_rows(rows, flatten, name, labels)

    def _row(self, state: Parts) -> dict[str, Any]:
        functions = self._functions()
        parts = state.parts or [f.analyzer.state_type() if f else NumMatches() for f in functions]
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
        return all(map(_is_mergeable, query.items))
    keys = {bare(item) for item in query.items if not _aggregate_name(item)}
    counts = [item for item in query.items if _aggregate_name(item)]
    return (
        keys == set(query.group_by)
        and all(map(groupable, keys))
        and all(_aggregate_name(c) == "count" and isinstance(_argument(c), Star) for c in counts)
    )


def _is_mergeable(item: Expression) -> bool:
    call, name = bare(item), _aggregate_name(item)
    if not isinstance(call, Call) or call.distinct or len(call.arguments) != 1:
        return False
    argument = call.arguments[0]
    if name in FUNCTION_BY_NAME:
        numeric = (
            kind_of(argument) in NUMERIC or FUNCTION_BY_NAME[name].analyzer is ApproxCountDistinct
        )
        return isinstance(argument, ColumnNode) and numeric and groupable(argument)
    return name in COUNT_FUNCTIONS


def _aggregate_name(item: Expression) -> str:
    """Return the aggregate function of an item in lower case; empty for other expressions."""
    call = bare(item)
    name = call.name.casefold() if isinstance(call, Call) else ""
    return name if name in AGGREGATE_FUNCTIONS else ""


def _argument(item: Expression) -> Expression:
    call = bare(item)
    return call.arguments[0] if isinstance(call, Call) and call.arguments else Star()


KINDS = (
    RuleKind(
        "profiling", Profiling, lower_profiling, frozenset(), GriffinProfiling, is_document=False
    ),
    RuleKind(
        "column-profiling",
        Listing | None,
        lower_column_profiling,
        frozenset({"round.scale", "dataset.sample", "approx.distinct.count", "column_details"}),
    ),
)
