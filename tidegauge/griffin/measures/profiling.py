"""Profiling with mergeable aggregates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from math import sqrt
from typing import Any, ClassVar

from tidegauge.analyzers.core.analyzer import AnyAnalyzer, analyzer
from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError
from tidegauge.analyzers.core.metric import Scale
from tidegauge.analyzers.core.requests import Aggregate, Frequencies, Request
from tidegauge.analyzers.core.schema import NUMERIC, Schema
from tidegauge.analyzers.core.sql import quote, where_holds
from tidegauge.analyzers.core.state import State
from tidegauge.analyzers.measures.cardinality import ApproxCountDistinct
from tidegauge.analyzers.measures.counts import NumMatches
from tidegauge.analyzers.measures.extremes import Maximum, Minimum
from tidegauge.analyzers.measures.frequencies import FrequenciesAndNumRows
from tidegauge.analyzers.measures.moments import StandardDeviation
from tidegauge.analyzers.measures.sums import Mean, Sum
from tidegauge.griffin.bind.functions import AGGREGATES
from tidegauge.griffin.bind.rules import bind
from tidegauge.griffin.bind.scope import Scope
from tidegauge.griffin.bind.types import kind_of
from tidegauge.griffin.config import RuleConfig
from tidegauge.griffin.dsl.nodes import Call, ColumnNode, Expression, Profiling, Star
from tidegauge.griffin.measures.base import GriffinMeasure
from tidegauge.griffin.measures.parts import Parts
from tidegauge.griffin.measures.report import Report
from tidegauge.griffin.measures.trees import bare, groupable, row_sql


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


def _sample(state: Any) -> float | None:
    return state.m2 / (state.count - 1) if state.count > 1 else None


def _root(state: Any) -> float | None:
    variance = _sample(state)
    return None if variance is None else sqrt(variance)


_MEAN = Function(Mean, 3, lambda state: float(state.total / state.count))
_DEVIATION = Function(StandardDeviation, 4, _root, Scale.POSITIVE)
_VARIANCE = Function(StandardDeviation, 4, _sample, Scale.POSITIVE)
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
