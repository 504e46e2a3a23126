"""Timeliness: latency of rows."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor
from typing import Any, ClassVar

from tidegauge.analyzers.core.analyzer import analyzer
from tidegauge.analyzers.core.errors import SuiteError
from tidegauge.analyzers.core.metric import Scale
from tidegauge.analyzers.core.requests import ROWS, Aggregate, Frequencies, Request, Sketch
from tidegauge.analyzers.core.schema import Field, Schema
from tidegauge.analyzers.core.state import State
from tidegauge.analyzers.measures.counts import NumMatches, NumMatchesAndCount
from tidegauge.analyzers.measures.extremes import RangeState
from tidegauge.analyzers.measures.frequencies import FrequenciesAndNumRows
from tidegauge.analyzers.measures.quantiles import KllState, sketch_size
from tidegauge.analyzers.measures.sums import SumAndCount, sum_aggregations, sum_from
from tidegauge.griffin.durations import milliseconds
from tidegauge.griffin.lower.timeliness import label, latency_sql, ranks, step_sql
from tidegauge.griffin.measures.base import GriffinMeasure
from tidegauge.griffin.measures.parts import Parts
from tidegauge.griffin.measures.report import Report
from tidegauge.griffin.measures.trees import items_of, row_sql

RANK_ERROR = 0.001
"""Rank error of percentiles: the distance from the 99th to the 99.1th."""

_TIMES = ("avg", "min", "max")
_NUMBERS = ("total", *_TIMES, "unmeasurable", "late", "step", "count", "percentile")
_OPTIONS = ("threshold", "step.size", "percentile.values")


@analyzer
class GriffinTimeliness(GriffinMeasure[Parts]):
    """Griffin's timeliness: latency of rows in milliseconds, from a first time to a second.

    Rows with a null time are unmeasurable and counted separately. The average is truncated to a
    whole number, as in Griffin. Percentiles come from a sketch with a rank error of at most 0.001
    at 99 % confidence.

    Parameters
    ----------
    rule : str
        The rule's name.
    expression : str
        One or two times: timestamps, dates, or milliseconds since 1970. The second defaults to
        ``__tmst``.
    source : str
        Name of the data in the text.
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
    read: ClassVar[tuple[str, ...]] = (*_NUMBERS, *_OPTIONS)
    state_type: ClassVar[type[State]] = Parts
    state_bytes: ClassVar[int] = 1 << 16

    def column_scale(self, column: str) -> Scale:
        """Return the scale of a number: signed for latencies, which may be negative, else count."""
        times = {self.key(name) for name in _TIMES}
        percentile = column.startswith(f"{self.key('percentile')}_")
        return Scale.SIGNED if column in times or percentile else Scale.COUNT

    @property
    def threshold(self) -> int | None:
        """Latency in milliseconds above which a row is late."""
        return self._time("threshold")

    @property
    def step(self) -> int | None:
        """Width of a latency step in milliseconds."""
        return self._time("step.size")

    @property
    def ranks(self) -> tuple[float, ...]:
        """The percentile ranks, from 0 to 1."""
        return ranks(self.said().get("percentile.values"))

    def _time(self, name: str) -> int | None:
        value = self.said().get(name)
        try:
            return None if value is None else milliseconds(value)
        except ValueError as error:
            raise SuiteError(f"{name}: {error}") from error

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Request counts, sum, minimum and maximum, and any late rows, steps and percentiles."""
        latency = latency_sql(items_of(self.bound(schema)), row_sql)
        total = sum_aggregations(Field("latency", latency, "long"), None)
        texts = [f"count_if({latency} IS NULL)", ROWS.text, *total]
        texts += [f"min({latency})", f"max({latency})"]
        asked: list[Request] = [Aggregate(text) for text in texts]
        if self.threshold is not None:
            asked.append(Aggregate(f"count_if({latency} > {self.threshold})"))
        if self.step is not None:
            asked.append(Frequencies((step_sql(latency, self.step),), None))
        if self.ranks:
            doubles = f"CAST({latency} AS DOUBLE)"
            asked.append(Sketch("kll", doubles, sketch_size(RANK_ERROR)))
        return tuple(asked)

    def fold(self, cells: Sequence[Any]) -> Parts:
        """Build the state; parts that were not requested are empty."""
        more = list(cells[7:])
        total = sum_from(cells[2:5])
        return Parts(
            (
                NumMatchesAndCount(*cells[:2]),
                total,
                RangeState(cells[5], cells[6], total.count),
                NumMatches(more.pop(0)) if self.threshold is not None else NumMatches(),
                (more.pop(0) if self.step is not None else None) or FrequenciesAndNumRows(),
                KllState.from_sketches(more.pop(0)) if self.ranks else KllState(),
            )
        )

    def weight(self, state: Parts) -> float:
        """Return the number of measured rows."""
        return float(state.parts[1].count) if state.parts else 0.0

    def measure(self, state: Parts) -> Report:
        """Return counts, times, steps and percentiles."""
        unmeasured, total, extremes, late, steps, sketch = state.parts or _nothing()
        metric: dict[str, Any] = {
            self.key("total"): total.count,
            self.key("avg"): _cut(total) if total.count else None,
            self.key("min"): extremes.minimum,
            self.key("max"): extremes.maximum,
            self.key("unmeasurable"): unmeasured.num_matches,
        }
        if self.threshold is not None:
            metric[self.key("late")] = late.num_matches
        step, count = self.key("step"), self.key("count")
        if self.step is not None:
            metric[step] = [{step: k[0], count: n} for k, n in sorted(steps.groups())]
        if sketch.sketch:
            found = zip(self.ranks, sketch.quantiles(self.ranks), strict=True)
            metric |= {label(self.key("percentile"), rank): floor(value) for rank, value in found}
        return Report(metric, labels=frozenset({step}))


def _cut(total: SumAndCount) -> int:
    """Return the average, truncated toward zero."""
    cut = abs(int(total.total)) // total.count
    return cut if total.total >= 0 else -cut


def _nothing() -> tuple[Any, ...]:
    """Return the parts of no rows; a function, because frequencies import Arrow when they are made."""
    return (
        NumMatchesAndCount(),
        SumAndCount(),
        RangeState(),
        NumMatches(),
        FrequenciesAndNumRows(),
        KllState(),
    )
