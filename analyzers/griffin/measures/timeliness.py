"""How late rows come: timeliness."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor
from typing import Any, ClassVar

from analyzers.analyzer import analyzer
from analyzers.counts import NumMatches, NumMatchesAndCount
from analyzers.extremes import RangeState
from analyzers.frequencies import FrequenciesAndNumRows
from analyzers.griffin.lowering.timeliness import (
    label,
    latency_sql,
    milliseconds,
    ranks,
    step_sql,
)
from analyzers.griffin.measures.base import GriffinMeasure
from analyzers.griffin.measures.parts import Parts
from analyzers.griffin.measures.report import Report
from analyzers.griffin.measures.trees import items_of, row_sql
from analyzers.metric import Scale
from analyzers.quantiles import KllState, kll_aggregation, sketch_size
from analyzers.requests import ROWS, Aggregate, Frequencies, Request
from analyzers.schema import Field, Schema
from analyzers.state import State
from analyzers.sums import SumAndCount, sum_aggregations, sum_from

RANK_ERROR = 0.001
"""Of percentiles; so much is between the ninety-ninth and the next tenth."""

_TIMES = ("avg", "min", "max")
_NUMBERS = ("total", *_TIMES, "unmeasurable", "late", "step", "count", "percentile")
_OPTIONS = ("threshold", "step.size", "percentile.values")


@analyzer
class GriffinTimeliness(GriffinMeasure[Parts]):
    """Griffin's timeliness: the latency of rows in milliseconds, from a first time to a second one.

    Rows where a time is null cannot be measured; they are counted by themselves. The average is cut to a
    whole number, as Griffin does it. Percentiles are from a sketch, whose ranks are off by 0.001 at most, with
    a confidence of 99 %.

    Parameters
    ----------
    rule : str
        Its name.
    expression : str
        One or two times: timestamps, dates, or milliseconds since 1970. The second is ``__tmst`` if not given.
    source : str
        What the text calls the data.
    details : str
        As JSON: ``threshold``, above which rows are late; ``step.size``; ``percentile.values``; and ``total``,
        ``avg``, ``step``, ``count``, ``percentile`` for other names.

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
        """Latencies are times, all else is counted."""
        times = {self.key(name) for name in _TIMES}
        percentile = column.startswith(f"{self.key('percentile')}_")
        return Scale.TIME if column in times or percentile else Scale.COUNT

    @property
    def threshold(self) -> int | None:
        """Above how many milliseconds a row is late."""
        return self._time("threshold")

    @property
    def step(self) -> int | None:
        """How many milliseconds are counted together."""
        return self._time("step.size")

    @property
    def ranks(self) -> tuple[float, ...]:
        """The percentiles, from 0 to 1."""
        return ranks(self.said().get("percentile.values"))

    def _time(self, name: str) -> int | None:
        value = self.said().get(name)
        return None if value is None else milliseconds(value)

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Ask for counts, sum and extremes, and what the details want beside."""
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
            asked.append(Aggregate(kll_aggregation(doubles, sketch_size(RANK_ERROR))))
        return tuple(asked)

    def fold(self, cells: Sequence[Any]) -> Parts:
        """Put the cells together; what was not asked for is empty."""
        more = list(cells[7:])
        total = sum_from(cells[2:5])
        return Parts(
            (
                NumMatchesAndCount(*cells[:2]),
                total,
                RangeState(cells[5], cells[6], total.count),
                NumMatches(more.pop(0)) if self.threshold is not None else NumMatches(),
                (more.pop(0) if self.step is not None else None) or FrequenciesAndNumRows(),
                KllState.of(more.pop(0)) if self.ranks else KllState(),
            )
        )

    def weight(self, state: Parts) -> float:
        """Return the rows that were measured."""
        return float(state.parts[1].count) if state.parts else 0.0

    def measure(self, state: Parts) -> Report:
        """Return counts, times, steps and percentiles."""
        unmeasured, total, extremes, late, steps, sketch = state.parts or _NOTHING
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
    """Return the average of whole numbers less what is behind the point."""
    cut = abs(int(total.total)) // total.count
    return cut if total.total >= 0 else -cut


_NOTHING = (
    NumMatchesAndCount(),
    SumAndCount(),
    RangeState(),
    NumMatches(),
    FrequenciesAndNumRows(),
    KllState(),
)
