"""Smallest and largest values: Minimum, Maximum.

Values go straight from Spark's ``min`` and ``max`` to a double. NaN is Spark's greatest number: the
maximum of a column with one NaN is NaN, its minimum only where there is nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isnan
from struct import Struct
from typing import Any, ClassVar, Self

from analyzers.analyzer import ColumnAnalyzer, analyzer
from analyzers.metric import Scale
from analyzers.schema import Schema
from analyzers.sql import reference, where_holds
from analyzers.state import DoubleValuedState, State, register_state


def _order(value: float) -> tuple[bool, float]:
    return isnan(value), value


@register_state("min/1")
@dataclass(frozen=True, slots=True)
class MinState(DoubleValuedState):
    """The smallest of some numbers, and how many there were."""

    layout: ClassVar[Struct] = Struct("<dq")
    minimum: float = inf
    count: int = 0

    def combine(self, other: Self) -> Self:
        """Keep the smaller one of those that hold a number."""
        values = [s.minimum for s in (self, other) if s.count]
        return type(self)(min(values, key=_order, default=inf), self.count + other.count)

    def metric_value(self) -> float:
        """Return the smallest number; infinity if there is none."""
        return self.minimum


@register_state("max/1")
@dataclass(frozen=True, slots=True)
class MaxState(DoubleValuedState):
    """The largest of some numbers, and how many there were."""

    layout: ClassVar[Struct] = Struct("<dq")
    maximum: float = -inf
    count: int = 0

    def combine(self, other: Self) -> Self:
        """Keep the larger one of those that hold a number."""
        values = [s.maximum for s in (self, other) if s.count]
        return type(self)(max(values, key=_order, default=-inf), self.count + other.count)

    def metric_value(self) -> float:
        """Return the largest number; minus infinity if there is none."""
        return self.maximum


@dataclass(frozen=True, repr=False)
class _Extreme(ColumnAnalyzer[Any, float]):
    scale: ClassVar[Scale] = Scale.SIGNED
    state_type: ClassVar[type[Any]]
    aggregate: ClassVar[str]

    def check_schema(self, schema: Schema) -> None:
        """The column is numeric."""
        schema.require_numeric(self.column)

    def aggregations(self, schema: Schema) -> Sequence[str]:  # noqa: ARG002
        """Find the extreme and count the values."""
        values = where_holds(self.where, reference(self.column))
        return (f"CAST({self.aggregate}({values}) AS DOUBLE)", f"count({values})")

    def fold(self, cells: Sequence[Any]) -> State:
        """Take the extreme, if there is one."""
        extreme, count = cells
        state: State = self.state_type(extreme, count) if count else self.state_type()
        return state

    def measure(self, state: Any) -> float:
        """Return the extreme."""
        if not state.count:
            raise self.no_data()
        return float(state.metric_value())

    def weight(self, state: Any) -> float:
        """Return the number of values."""
        return float(state.count)


@analyzer
class Minimum(_Extreme):
    """Smallest value of a numeric column. Nulls are ignored; empty if there is nothing else.

    Examples
    --------
    >>> Minimum("x").compute_metric_from(MinState(-1.0, 4) + MinState(2.0, 3)).value
    -1.0
    """

    state_type: ClassVar[type[Any]] = MinState
    aggregate: ClassVar[str] = "min"


@analyzer
class Maximum(_Extreme):
    """Largest value of a numeric column. Nulls are ignored; empty if there is nothing else.

    Examples
    --------
    >>> Maximum("x").compute_metric_from(MaxState(-1.0, 4) + MaxState(2.0, 3)).value
    2.0
    """

    state_type: ClassVar[type[Any]] = MaxState
    aggregate: ClassVar[str] = "max"
