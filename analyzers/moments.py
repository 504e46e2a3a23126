"""Sums and moments: Sum, Mean, StandardDeviation.

Values are cast to double before they are added, so long integers cannot overflow. One NaN makes the
result NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from struct import Struct
from typing import Any, ClassVar, Self

from analyzers.analyzer import ColumnAnalyzer, S, analyzer
from analyzers.metric import Scale
from analyzers.schema import Schema
from analyzers.sql import reference, where_holds
from analyzers.state import DoubleValuedState, State, register_state


@register_state("sum-and-count/1")
@dataclass(frozen=True, slots=True)
class SumAndCount(State):
    """The sum of some numbers, and how many there were."""

    layout: ClassVar[Struct] = Struct("<dq")
    total: float = 0.0
    count: int = 0

    def combine(self, other: Self) -> Self:
        """Add both."""
        return type(self)(self.total + other.total, self.count + other.count)


@register_state("central-moments-2/1")
@dataclass(frozen=True, slots=True)
class StandardDeviationState(DoubleValuedState):
    """Count, mean, and sum of squared deviations from the mean.

    Added by the pairwise formula of Chan, Golub and LeVeque (1979), which does not cancel.

    Examples
    --------
    >>> whole = StandardDeviationState(2, 1.5, 0.5) + StandardDeviationState(1, 6.0, 0.0)
    >>> whole
    StandardDeviationState(count=3, mean=3.0, m2=14.0)
    """

    layout: ClassVar[Struct] = Struct("<qdd")
    count: int = 0
    mean: float = 0.0
    m2: float = 0.0

    def combine(self, other: Self) -> Self:
        """Combine the moments."""
        if not self.count or not other.count:
            return self if self.count else other
        count = self.count + other.count
        delta = other.mean - self.mean
        mean = (self.count * self.mean + other.count * other.mean) / count
        m2 = self.m2 + other.m2 + delta * delta * self.count * other.count / count
        return type(self)(count, mean, m2)

    def metric_value(self) -> float:
        """Return the population standard deviation; NaN for no numbers."""
        return sqrt(self.m2 / self.count) if self.count else float("nan")


@dataclass(frozen=True, repr=False)
class _NumericAnalyzer(ColumnAnalyzer[S, float]):
    scale: ClassVar[Scale] = Scale.SIGNED

    def check_schema(self, schema: Schema) -> None:
        """The column is numeric."""
        schema.require_numeric(self.column)

    def doubles(self) -> str:
        """Return SQL for the values that count, as doubles."""
        return where_holds(self.where, f"CAST({reference(self.column)} AS DOUBLE)")


@dataclass(frozen=True, repr=False)
class _SumAnalyzer(_NumericAnalyzer[SumAndCount]):
    state_type: ClassVar[type[State]] = SumAndCount

    def statistic(self) -> str:
        """Sum and Mean share their state."""
        return Sum(self.column, where=self.where).canonical()

    def aggregations(self, schema: Schema) -> Sequence[str]:  # noqa: ARG002
        """Add and count the values."""
        return (f"sum({self.doubles()})", f"count({self.doubles()})")

    def fold(self, cells: Sequence[Any]) -> SumAndCount:
        """Take both; Spark's sum of nothing is null."""
        total, count = cells
        return SumAndCount(total, count) if count else SumAndCount()

    def weight(self, state: SumAndCount) -> float:
        """Return the number of values."""
        return state.count


@analyzer
class Sum(_SumAnalyzer):
    """Sum of a numeric column. Nulls are ignored; empty if there is nothing else.

    Examples
    --------
    >>> Sum("x").compute_metric_from(SumAndCount(21.0, 6)).value
    21.0
    """

    def measure(self, state: SumAndCount) -> float:
        """Return the sum."""
        if not state.count:
            raise self.no_data()
        return state.total


@analyzer
class Mean(_SumAnalyzer):
    """Arithmetic mean of a numeric column. Nulls are ignored; empty if there is nothing else.

    Examples
    --------
    >>> Mean("x").compute_metric_from(SumAndCount(21.0, 6)).value
    3.5
    """

    def measure(self, state: SumAndCount) -> float:
        """Return sum by count."""
        if not state.count:
            raise self.no_data()
        return state.total / state.count


@analyzer
class StandardDeviation(_NumericAnalyzer[StandardDeviationState]):
    """Population standard deviation of a numeric column, in the column's unit; 0 for one value.

    Nulls are ignored; empty if there is nothing else.

    Examples
    --------
    >>> StandardDeviation("x").compute_metric_from(StandardDeviationState(6, 3.5, 17.5)).value
    1.707825127659933
    """

    scale: ClassVar[Scale] = Scale.POSITIVE
    state_type: ClassVar[type[State]] = StandardDeviationState

    def aggregations(self, schema: Schema) -> Sequence[str]:  # noqa: ARG002
        """Count the values; their mean and population variance."""
        values = self.doubles()
        return (f"count({values})", f"avg({values})", f"var_pop({values})")

    def fold(self, cells: Sequence[Any]) -> StandardDeviationState:
        """Turn the variance back into a sum of squares, which adds."""
        count, mean, variance = cells
        return (
            StandardDeviationState(count, mean, variance * count)
            if count
            else StandardDeviationState()
        )

    def measure(self, state: StandardDeviationState) -> float:
        """Return the root of the mean square deviation."""
        if not state.count:
            raise self.no_data()
        return state.metric_value()

    def weight(self, state: StandardDeviationState) -> float:
        """Return the number of values."""
        return state.count
