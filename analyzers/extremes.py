"""Smallest and largest values: Minimum, Maximum, Range.

Values go straight from Spark's ``min`` and ``max`` into the state, in the column's own precision.
NaN is Spark's greatest number: the maximum of a column with one NaN is NaN, its minimum only where
there is nothing else.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, nan
from typing import Any, ClassVar, Self

from analyzers.analyzer import ColumnAnalyzer, analyzer
from analyzers.exact import Number, greatest, least, pack_number, subtract, unpack_number
from analyzers.metric import Scale
from analyzers.schema import Schema
from analyzers.sql import where_holds
from analyzers.state import READERS, DoubleValuedState, State, register_state

_COUNT = struct.Struct("<q")


@register_state("min/2")
@dataclass(frozen=True, slots=True)
class MinState(DoubleValuedState):
    """The smallest of some numbers, as exact as they were, and how many there were.

    Examples
    --------
    >>> MinState(2**53 + 1, 1) + MinState(2.0**53 + 2, 1)
    MinState(minimum=9007199254740993, count=2)
    """

    minimum: Number | None = None
    count: int = 0

    def combine(self, other: Self) -> Self:
        """Keep the smaller one of those that hold a number."""
        values = [s.minimum for s in (self, other) if s.minimum is not None]
        return type(self)(least(values), self.count + other.count)

    def metric_value(self) -> float:
        """Return the smallest number; infinity if there is none."""
        return inf if self.minimum is None else float(self.minimum)

    def pack(self) -> bytes:
        """Count, then the number."""
        return _COUNT.pack(self.count) + pack_number(self.minimum)

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """Read what `pack` wrote."""
        return cls(*_read(payload))


@register_state("max/2")
@dataclass(frozen=True, slots=True)
class MaxState(DoubleValuedState):
    """The largest of some numbers, as exact as they were, and how many there were."""

    maximum: Number | None = None
    count: int = 0

    def combine(self, other: Self) -> Self:
        """Keep the larger one of those that hold a number."""
        values = [s.maximum for s in (self, other) if s.maximum is not None]
        return type(self)(greatest(values), self.count + other.count)

    def metric_value(self) -> float:
        """Return the largest number; minus infinity if there is none."""
        return -inf if self.maximum is None else float(self.maximum)

    def pack(self) -> bytes:
        """Count, then the number."""
        return _COUNT.pack(self.count) + pack_number(self.maximum)

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """Read what `pack` wrote."""
        return cls(*_read(payload))


@register_state("range/1")
@dataclass(frozen=True, slots=True)
class RangeState(DoubleValuedState):
    """The smallest and the largest of some numbers, and how many there were."""

    minimum: Number | None = None
    maximum: Number | None = None
    count: int = 0

    def combine(self, other: Self) -> Self:
        """Keep the outer ones."""
        low = [s.minimum for s in (self, other) if s.minimum is not None]
        high = [s.maximum for s in (self, other) if s.maximum is not None]
        return type(self)(least(low), greatest(high), self.count + other.count)

    def metric_value(self) -> float:
        """Return the distance between the two; NaN if there is none."""
        if self.minimum is None or self.maximum is None:
            return nan
        return subtract(self.maximum, self.minimum)

    def pack(self) -> bytes:
        """Count, then both numbers."""
        return _COUNT.pack(self.count) + pack_number(self.minimum) + pack_number(self.maximum)

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """Read what `pack` wrote."""
        (count,) = _COUNT.unpack_from(payload)
        low, at = unpack_number(payload, _COUNT.size)
        return cls(low, unpack_number(payload, at)[0], count)


def _read(payload: bytes) -> tuple[Number | None, int]:
    (count,) = _COUNT.unpack_from(payload)
    return unpack_number(payload, _COUNT.size)[0], count


# The first layout held every number as a double.
def _read_first(payload: bytes) -> tuple[Number | None, int]:
    number, count = struct.unpack("<dq", payload)
    return (number if count else None), count


READERS["min/1"] = lambda payload: MinState(*_read_first(payload))
READERS["max/1"] = lambda payload: MaxState(*_read_first(payload))


@dataclass(frozen=True, repr=False)
class ExtremeAnalyzer(ColumnAnalyzer[Any, float]):
    """The least or greatest of what a column gives.

    Class attributes
    ----------------
    aggregates : tuple of str
        Spark's functions for it, in the order of the state's numbers.
    """

    scale: ClassVar[Scale] = Scale.SIGNED
    accepts: ClassVar[str] = "numeric"
    state_type: ClassVar[type[Any]]
    aggregates: ClassVar[tuple[str, ...]]

    def number(self, schema: Schema) -> str:
        """Return SQL for the number of each row."""
        return self.field(schema).sql

    def aggregations(self, schema: Schema) -> Sequence[str]:
        """Find the extremes and count the values."""
        values = where_holds(self.where, self.number(schema))
        return (*(f"{name}({values})" for name in self.aggregates), f"count({values})")

    def fold(self, cells: Sequence[Any]) -> State:
        """Take the extremes, if there are any."""
        state: State = self.state_type(*cells)
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
class Minimum(ExtremeAnalyzer):
    """Smallest value of a numeric column. Nulls are ignored; empty if there is nothing else.

    Examples
    --------
    >>> Minimum("x").compute_metric_from(MinState(-1.0, 4) + MinState(2.0, 3)).value
    -1.0
    """

    state_type: ClassVar[type[Any]] = MinState
    aggregates: ClassVar[tuple[str, ...]] = ("min",)


@analyzer
class Maximum(ExtremeAnalyzer):
    """Largest value of a numeric column. Nulls are ignored; empty if there is nothing else.

    Examples
    --------
    >>> Maximum("x").compute_metric_from(MaxState(-1.0, 4) + MaxState(2.0, 3)).value
    2.0
    """

    state_type: ClassVar[type[Any]] = MaxState
    aggregates: ClassVar[tuple[str, ...]] = ("max",)


@analyzer
class Range(ExtremeAnalyzer):
    """Largest less smallest value of a numeric column; 0 for one value, empty for none.

    NaN where the column holds NaN, or the same infinity only.

    Examples
    --------
    >>> Range("x").compute_metric_from(RangeState(-1, 4, 9)).value
    5.0
    """

    scale: ClassVar[Scale] = Scale.POSITIVE
    state_type: ClassVar[type[Any]] = RangeState
    aggregates: ClassVar[tuple[str, ...]] = ("min", "max")
