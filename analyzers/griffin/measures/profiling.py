"""Aggregates over a source that add: profiling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from math import sqrt
from typing import Any, ClassVar

from analyzers.analyzer import Analyzer, analyzer
from analyzers.cardinality import ApproxCountDistinct
from analyzers.counts import NumMatches
from analyzers.errors import IllegalAnalyzerParameterError
from analyzers.extremes import Maximum, Minimum
from analyzers.frequencies import FrequenciesAndNumRows
from analyzers.griffin.binding import bind
from analyzers.griffin.config import RuleConfig
from analyzers.griffin.functions import AGGREGATES
from analyzers.griffin.measures.base import GriffinMeasure
from analyzers.griffin.measures.parts import Parts
from analyzers.griffin.measures.report import Report
from analyzers.griffin.measures.trees import bare, groupable, row_sql
from analyzers.griffin.nodes import Call, Column, Expression, Profiling, Star
from analyzers.griffin.scope import Scope
from analyzers.griffin.types import kind_of
from analyzers.metric import Scale
from analyzers.moments import StandardDeviation
from analyzers.requests import Aggregate, Frequencies, Request
from analyzers.schema import NUMERIC, Schema
from analyzers.sql import quote, where_holds
from analyzers.state import State
from analyzers.sums import Mean, Sum

AnyAnalyzer = Analyzer[Any, Any]


@dataclass(frozen=True)
class Function:
    """A function of many rows that comes from a state.

    Attributes
    ----------
    of : type of Analyzer
        Whose state it is, of a column.
    cells : int
        How many answers make the state.
    value : callable
        Returns the value of a state that is not empty.
    scale : Scale
    nothing : object
        The value where there are no values.
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
_DEVIATION = Function(StandardDeviation, 3, _root, Scale.POSITIVE)
_VARIANCE = Function(StandardDeviation, 3, _sample, Scale.POSITIVE)
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
        StandardDeviation, 3, lambda state: state.metric_value(), Scale.POSITIVE
    ),
    "variance": _VARIANCE,
    "var_samp": _VARIANCE,
    "var_pop": Function(StandardDeviation, 3, lambda state: state.variance(), Scale.POSITIVE),
    "approx_count_distinct": Function(
        ApproxCountDistinct, 2, lambda state: round(state.estimate()), Scale.COUNT, 0
    ),
}
COUNTS = ("count", "count_if")


@analyzer
class GriffinProfiling(GriffinMeasure[Parts]):
    """Griffin's profiling: functions of many rows, whose states add.

    These are counts; sum, average, extremes, deviation and variance of numeric columns; and approximate
    numbers of distinct values. Of groups there are counts only. What else a query may say has no state.

    Parameters
    ----------
    rule : str
        Its name.
    expression : str
        The query.
    source : str
        What the text calls the data.
    details : str
        As JSON: ``flatten`` and ``name``, as the rule's output has them.

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

    def adds(self, config: RuleConfig, scope: Scope) -> bool:  # noqa: ARG002
        """Unless the query says what no state holds."""
        query = bind(self.parsed(), scope)
        return isinstance(query, Profiling) and decomposes(query, self.source)

    def column_scale(self, column: str) -> Scale:
        """What counts is counted; deviations are not negative."""
        functions = dict(zip(self.aliases(), self._functions(), strict=True))
        function = functions.get(column)
        return function.scale if function else Scale.COUNT

    def _query(self) -> Profiling:
        found = self.parsed()
        assert isinstance(found, Profiling)
        return found

    def _functions(self) -> list[Function | None]:
        """Return the function of each item; None for a count, or what is grouped by."""
        return [FUNCTIONS.get(_called(item)) for item in self._query().items]

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Ask for what the states are made of.

        Raises
        ------
        IllegalAnalyzerParameterError
            If the query says what has no state.
        """
        query = self.bound(schema)
        if not isinstance(query, Profiling) or not decomposes(query, self.source):
            msg = f"{self!r} has no state that adds; run it as a query"
            raise IllegalAnalyzerParameterError(msg)
        where = None if query.where is None else row_sql(query.where)
        if query.group_by:
            keys = tuple(row_sql(item) for item in query.items if not _called(item))
            return (Frequencies(keys, where),)
        return tuple(r for item in query.items for r in self._asked(item, where, schema))

    def _asked(self, item: Expression, where: str | None, schema: Schema) -> tuple[Request, ...]:
        name, argument = _called(item), _argument(item)
        if isinstance(argument, Column) and name in FUNCTIONS:
            of: AnyAnalyzer = FUNCTIONS[name].of(quote(argument.name), where=where)
            return of.requests(schema)
        counted = "1" if isinstance(argument, Star) else row_sql(argument)
        return (Aggregate(f"{name}({where_holds(where, counted)})"),)

    def fold(self, cells: Sequence[Any]) -> Parts:
        """Make a state of each item's answers."""
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
        """Return the rows or values that the first item is of."""
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
        """Return the rows that the query gives."""
        said, query = self.said(), self._query()
        rows = self._groups(state) if query.group_by else [self._row(state)]
        labels = [n for n, i in zip(self.aliases(), query.items, strict=True) if not _called(i)]
        flatten, name = said.get("flatten", "default"), said.get("name", self.rule)
        return Report.of_rows(rows, flatten, name, labels)

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
        kinds = [_called(item) for item in self._query().items]
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
    """Whether what a bound query gives of some rows follows from what it gives of parts of them."""
    ordered = query.distinct or query.having or query.order_by or query.limit
    if ordered or str(query.table).casefold() != source.casefold():
        return False
    if not query.group_by:
        return all(map(_adds, query.items))
    keys = {bare(item) for item in query.items if not _called(item)}
    counts = [item for item in query.items if _called(item)]
    return (
        keys == set(query.group_by)
        and all(map(groupable, keys))
        and all(_called(c) == "count" and isinstance(_argument(c), Star) for c in counts)
    )


def _adds(item: Expression) -> bool:
    call, name = bare(item), _called(item)
    if not isinstance(call, Call) or call.distinct or len(call.arguments) != 1:
        return False
    argument = call.arguments[0]
    if name in FUNCTIONS:
        numeric = kind_of(argument) in NUMERIC or FUNCTIONS[name].of is ApproxCountDistinct
        return isinstance(argument, Column) and numeric and groupable(argument)
    return name in COUNTS


def _called(item: Expression) -> str:
    """Return the function of many rows that an item is, in small letters; the empty text if it is none."""
    call = bare(item)
    name = call.name.casefold() if isinstance(call, Call) else ""
    return name if name in AGGREGATES else ""


def _argument(item: Expression) -> Expression:
    call = bare(item)
    return call.arguments[0] if isinstance(call, Call) and call.arguments else Star()
