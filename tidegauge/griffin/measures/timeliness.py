"""Timeliness: latency of rows between two times, in milliseconds.

`lower_timeliness` writes it as SQL steps; `GriffinTimeliness` measures it by a mergeable state. Both
have the numbers of `TIMELINESS_NUMBERS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from math import floor
from typing import Any, ClassVar, NamedTuple

from tidegauge.analyzers.core.analyzer import (
    ROWS,
    Aggregate,
    Frequencies,
    Request,
    Sketch,
    analyzer,
)
from tidegauge.analyzers.core.errors import SuiteError
from tidegauge.analyzers.core.metric import Scale
from tidegauge.analyzers.core.partitions import TMST
from tidegauge.analyzers.core.schema import INTEGRAL, NUMERIC, TEMPORAL, Field, Schema
from tidegauge.analyzers.core.sql import quote, wall_clock_micros
from tidegauge.analyzers.core.state import State
from tidegauge.analyzers.measures.counts import NumMatches, NumMatchesAndCount
from tidegauge.analyzers.measures.extremes import RangeState
from tidegauge.analyzers.measures.frequencies import FrequenciesAndNumRows
from tidegauge.analyzers.measures.moments import SumAndCount, sum_aggregations, sum_from
from tidegauge.analyzers.measures.quantiles import KllState, sketch_size
from tidegauge.griffin.dsl.grammar import milliseconds
from tidegauge.griffin.dsl.nodes import Aliased, Expression, Listing, Name, kind_of
from tidegauge.griffin.dsl.scope import Binder
from tidegauge.griffin.measures.base import (
    GriffinMeasure,
    LoweringContext,
    MetricTable,
    Parts,
    Report,
    RuleKind,
    RuleNumber,
    RulePlan,
    Step,
    items_of,
    row_sql,
)
from tidegauge.griffin.measures.sql import expression_sql


def ranks(values: object) -> tuple[float, ...]:
    """Parse percentile ranks: numbers from 0 to 1, or strings of such numbers.

    Raises
    ------
    SuiteError
        If a value is not a number from 0 to 1.

    Examples
    --------
    >>> ranks([0.95, "0.999"])
    (0.95, 0.999)
    """
    if values is None:
        return ()
    items = values if isinstance(values, (list, tuple)) else [values]
    unique: dict[float, None] = {}
    for value in items:
        try:
            number = Decimal(str(value))
        except InvalidOperation:
            number = Decimal(-1)
        if isinstance(value, bool) or not 0 <= number <= 1:
            raise SuiteError(f"percentile.values are numbers from 0 to 1; not {value!r}")
        unique[float(number)] = None
    return tuple(unique)


def label(name: str, rank: float) -> str:
    """Return the unique name of a percentile.

    Examples
    --------
    >>> [label("percentile", rank) for rank in (0.95, 0.29, 0.999, 1.0)]
    ['percentile_95', 'percentile_29', 'percentile_99_9', 'percentile_100']
    """
    hundredths = f"{Decimal(repr(rank)) * 100:f}"
    if "." in hundredths:
        hundredths = hundredths.rstrip("0").rstrip(".")
    return f"{name}_{hundredths.replace('.', '_')}"


def milliseconds_sql(node: Expression, write: Callable[[Expression], str] = expression_sql) -> str:
    """Return SQL for a bound time in milliseconds since 1970, null if it is not a time.

    Whole numbers are milliseconds. Dates and timestamps are read in the session's time zone, as in Spark.
    Strings can be either.
    """
    sql, kind = write(node), kind_of(node)
    if kind in INTEGRAL:
        return f"CAST({sql} AS BIGINT)"
    if kind in NUMERIC:
        return f"try_cast({sql} AS BIGINT)"
    if kind in TEMPORAL:
        return f"unix_millis(CAST({sql} AS TIMESTAMP))"
    text = f"CAST({sql} AS STRING)"
    number = f"try_cast(try_cast({text} AS DECIMAL(38, 9)) AS BIGINT)"
    return f"coalesce({number}, unix_millis(try_cast({text} AS TIMESTAMP)))"


def times_sql(
    items: Sequence[Expression], write: Callable[[Expression], str] = expression_sql
) -> list[str]:
    """Return SQL for bound times in milliseconds since 1970, null if they are not times.

    Times that are all without a zone (DATE or TIMESTAMP_NTZ) are used unchanged, so that a
    change of the clocks between them is not part of the latency. All others are instants.
    """
    if all(kind_of(item) in {"date", "timestamp_ntz"} for item in items):
        times = [f"CAST({write(item)} AS TIMESTAMP_NTZ)" for item in items]
        return [f"CAST(floor({wall_clock_micros(time)} / 1000BD) AS BIGINT)" for time in times]
    return [milliseconds_sql(item, write) for item in items]


def latency_sql(
    items: Sequence[Expression], write: Callable[[Expression], str] = expression_sql
) -> str:
    """Return SQL for a row's latency: second time minus first, null if either is.

    Parameters
    ----------
    items : sequence of Expression
        Bound; if there is only one, rows have a column ``__tmst`` of milliseconds.
    write : callable
        Writer of expressions as SQL.
    """
    if len(items) == 1:
        return f"({quote(TMST)} - {milliseconds_sql(items[0], write)})"
    begin, end = times_sql(items, write)
    return f"({end} - {begin})"


def step_sql(latency: str, size: int) -> str:
    """Return SQL for the index of a latency's step: 0 for the first, negative below zero."""
    return f"(({latency} - pmod({latency}, {size}L)) DIV {size}L)"


def _cut(total: SumAndCount) -> int:
    """Return the average, truncated toward zero."""
    cut = abs(int(total.total)) // total.count
    return cut if total.total >= 0 else -cut


class LatencyOptions(NamedTuple):
    """Options of a rule.

    Attributes
    ----------
    threshold : int or None
        Latency in milliseconds above which a row is late.
    step : int or None
        Width of a latency step in milliseconds.
    ranks : tuple of float
        The percentile ranks, from 0 to 1.
    """

    threshold: int | None
    step: int | None
    ranks: tuple[float, ...]

    @classmethod
    def from_details(cls, details: Mapping[str, Any]) -> LatencyOptions:
        """Read the options from a rule's details.

        Raises
        ------
        SuiteError
            If a time or a rank is invalid.
        """
        times = []
        for key in ("threshold", "step.size"):
            option = details.get(key)
            try:
                times.append(None if option is None else milliseconds(option))
            except ValueError as error:
                raise SuiteError(f"{key}: {error}") from None
        threshold, step = times
        if step is not None and step <= 0:
            raise SuiteError(f"step.size must be above 0, not {details['step.size']!r}")
        return cls(threshold, step, ranks(details.get("percentile.values")))


class LatencyParts(NamedTuple):
    """Parts of the state, in their stored order; empty if the rule does not need them.

    Attributes
    ----------
    unmeasured : NumMatchesAndCount
        Rows without a latency, and all rows.
    total : SumAndCount
        Sum of the latencies.
    extremes : RangeState
        Minimum and maximum latency.
    late : NumMatches
        Rows above the threshold.
    steps : FrequenciesAndNumRows
        Rows by latency step.
    sketch : KllState
        Distribution of the latencies, for percentiles.
    """

    unmeasured: NumMatchesAndCount
    total: SumAndCount
    extremes: RangeState
    late: NumMatches
    steps: FrequenciesAndNumRows
    sketch: KllState

    @classmethod
    def from_state(cls, state: Parts) -> LatencyParts:
        """Return the parts of a state, or of no rows."""
        empty = (NumMatchesAndCount(), SumAndCount(), RangeState(), NumMatches())
        return cls(*(state.parts or (*empty, FrequenciesAndNumRows(), KllState())))


TIMELINESS_NUMBERS: tuple[RuleNumber, ...] = (
    RuleNumber("total", "count(`__value`)", lambda parts: parts.total.count),
    RuleNumber(
        "avg",  # exact, and truncated to a whole number as in Griffin
        "sum(CAST(`__value` AS DECIMAL(20, 0))) DIV nullif(count(`__value`), 0L)",
        lambda parts: _cut(parts.total) if parts.total.count else None,
        Scale.SIGNED,
    ),
    RuleNumber("min", "min(`__value`)", lambda parts: parts.extremes.minimum, Scale.SIGNED),
    RuleNumber("max", "max(`__value`)", lambda parts: parts.extremes.maximum, Scale.SIGNED),
    RuleNumber(
        "unmeasurable", "count_if(`__value` IS NULL)", lambda parts: parts.unmeasured.num_matches
    ),
    RuleNumber("late", "count_if(`__value` > `__threshold`)", lambda parts: parts.late.num_matches),
)
"""Numbers of all rows; ``__value`` is the latency. Late rows are counted if the rule has a threshold."""


def lower_timeliness(rule: Listing, context: LoweringContext) -> RulePlan:
    """Return the steps for all rows, rows in time, latencies, late rows, and metrics.

    ``time_metrics`` has counts and times, ``range_metric`` the number of rows per latency step, and
    ``percentile_metric`` percentiles. The other steps are ``total_count``, ``in_time``,
    ``latency_items`` and ``late_records``.
    """
    items = [item.expression for item in rule.items if isinstance(item, Aliased)]
    if len(items) == 1:
        items.append(Binder(context.scope, (context.source,)).bind(Name(TMST)))
    if len(items) != 2:
        raise context.error(f"a timeliness rule needs one or two times, not {len(items)}")
    begin, end = times_sql(items)
    latency = context.extra_column(context.option("latency", "latency"))
    first, second = context.extra_column("__begin_ts"), context.extra_column("__end_ts")
    in_time, measured, late = map(context.step, ("in_time", "latency_items", "late_records"))
    try:
        options = LatencyOptions.from_details(context.config.details)
    except SuiteError as error:
        raise context.error(str(error.args[0])) from None
    steps = [
        context.count_step("total_count", "total"),
        Step(
            in_time,
            f"SELECT *, {begin} AS {first}, {end} AS {second} FROM {context.table} "
            f"WHERE {begin} IS NOT NULL AND {end} IS NOT NULL",
            ("__inTime",),
        ),
        Step(
            measured, f"SELECT *, {second} - {first} AS {latency} FROM {quote(in_time)}", ("__lat",)
        ),
    ]
    rows = f"SELECT {context.group_columns}({end} - {begin}) AS `__value`"
    numbers = TIMELINESS_NUMBERS
    if options.threshold is None:
        numbers = numbers[:-1]
    else:
        query = f"SELECT * FROM {quote(measured)} WHERE {latency} > {options.threshold}L"
        steps.append(Step(late, query, ("__lateRecords",)))
        rows += f", {options.threshold}L AS `__threshold`"
    rows += f" FROM {context.table}"
    steps.append(context.metric_step("time_metrics", numbers, rows, ["__metric"]))
    tables = [MetricTable(steps[-1].name)]
    if options.step is not None:
        step, count = context.output_column("step"), context.output_column("count")
        step_index = step_sql(latency, options.step)
        query = (
            f"SELECT {context.group_columns}{step_index} AS {step}, count(1) AS {count} "
            f"FROM {quote(measured)}{context.group_by_clause(step_index)}"
        )
        steps.append(Step(context.step("range_metric"), query, ("__rangeMetric",)))
        name = str(context.option("step", "step"))
        tables.append(MetricTable(steps[-1].name, "array", name, (name,), part=True))
    if options.ranks:
        name = str(context.option("percentile", "percentile"))
        cells = ", ".join(
            f"CAST(floor(percentile_approx({latency}, {rank!r}D, 10000)) AS BIGINT) "
            f"AS {quote(label(name, rank))}"
            for rank in options.ranks
        )
        query = (
            f"SELECT {context.group_columns}{cells} FROM {quote(measured)}"
            f"{context.group_by_clause()}"
        )
        steps.append(Step(context.step("percentile_metric"), query, ("__percentile",)))
        tables.append(MetricTable(steps[-1].name))
    return context.plan(steps, tables, *([] if options.threshold is None else [late]))


RANK_ERROR = 0.001
"""Rank error of percentiles: the distance from the 99th to the 99.1th."""


@analyzer
class GriffinTimeliness(GriffinMeasure[Parts]):
    """Griffin's timeliness: latency of rows in milliseconds, from a first time to a second.

    Rows with a null time are unmeasurable and counted separately. The average is truncated to a
    whole number, as in Griffin. Percentiles come from a sketch with a rank error of at most 0.001
    at 99% confidence.

    Parameters
    ----------
    rule : str
        The rule's name.
    expression : str
        One or two times: timestamps, dates, or milliseconds since 1970. The second defaults to
        ``__tmst``.
    source : str
        Name of the source in the rule.
    details : str
        JSON with ``threshold``, above which rows are late; ``step.size``; ``percentile.values``;
        and ``total``, ``avg``, ``step``, ``count``, ``percentile`` to rename these.

    Examples
    --------
    >>> measured = NumMatchesAndCount(1, 3), SumAndCount(50, 2), RangeState(10, 40, 2)
    >>> state = Parts((*measured, NumMatches(), FrequenciesAndNumRows(), KllState()))
    >>> GriffinTimeliness("t", "a, b").compute_metric_from(state).value.metric
    {'total': 2, 'avg': 25, 'min': 10, 'max': 40, 'unmeasurable': 1}
    """

    dq_type: ClassVar[str] = "timeliness"
    numbers: ClassVar[tuple[RuleNumber, ...]] = TIMELINESS_NUMBERS
    other_details: ClassVar[tuple[str, ...]] = (
        *("step", "count", "percentile"),
        *("threshold", "step.size", "percentile.values"),
    )
    state_type: ClassVar[type[State]] = Parts
    state_bytes: ClassVar[int] = 1 << 16

    def column_scale(self, column: str) -> Scale:
        """Return the scale of a number: signed for latencies, which may be negative, else count."""
        is_percentile = column.startswith(f"{self.key('percentile')}_")
        return Scale.SIGNED if is_percentile else super().column_scale(column)

    @property
    def latency_options(self) -> LatencyOptions:
        """Options of the rule."""
        return LatencyOptions.from_details(self.parsed_details())

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Request counts, sum, minimum and maximum, and any late rows, steps and percentiles."""
        latency = latency_sql(items_of(self.bound(schema)), row_sql)
        total = sum_aggregations(Field("latency", latency, "long"), None)
        expressions = [f"count_if({latency} IS NULL)", ROWS.text, *total]
        expressions += [f"min({latency})", f"max({latency})"]
        aggregates: list[Request] = [Aggregate(expression) for expression in expressions]
        options = self.latency_options
        if options.threshold is not None:
            aggregates.append(Aggregate(f"count_if({latency} > {options.threshold})"))
        if options.step is not None:
            aggregates.append(Frequencies((step_sql(latency, options.step),), None))
        if options.ranks:
            doubles = f"CAST({latency} AS DOUBLE)"
            aggregates.append(Sketch("kll", doubles, sketch_size(RANK_ERROR)))
        return tuple(aggregates)

    def fold(self, cells: Sequence[Any]) -> Parts:
        """Build the state; parts that were not requested are empty."""
        options, optional_cells = self.latency_options, iter(cells[7:])
        total = sum_from(cells[2:5])
        parts = LatencyParts(
            NumMatchesAndCount(*cells[:2]),
            total,
            RangeState(cells[5], cells[6], total.count),
            NumMatches(0 if options.threshold is None else next(optional_cells)),
            (None if options.step is None else next(optional_cells)) or FrequenciesAndNumRows(),
            KllState.from_sketches(next(optional_cells)) if options.ranks else KllState(),
        )
        return Parts(tuple(parts))

    def weight(self, state: Parts) -> float:
        """Return the number of measured rows."""
        return float(state.parts[1].count) if state.parts else 0.0

    def measure(self, state: Parts) -> Report:
        """Return counts, times, steps and percentiles."""
        parts, options = LatencyParts.from_state(state), self.latency_options
        metric = self.named_numbers(parts)
        if options.threshold is None:
            del metric[self.key("late")]
        step, count = self.key("step"), self.key("count")
        if options.step is not None:
            metric[step] = [{step: k[0], count: n} for k, n in sorted(parts.steps.groups())]
        if parts.sketch.sketch:
            percentiles = zip(options.ranks, parts.sketch.quantiles(options.ranks), strict=True)
            metric |= {
                label(self.key("percentile"), rank): floor(value) for rank, value in percentiles
            }
        return Report(metric, labels=frozenset({step}))


KINDS = (
    RuleKind(
        "timeliness",
        Listing,
        lower_timeliness,
        GriffinTimeliness.details_read() | {"latency"},
        GriffinTimeliness,
    ),
)
