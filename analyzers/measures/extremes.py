"""Minimum and maximum values: Minimum, Maximum, Range.

Values go straight from Spark's ``min`` and ``max`` into the state, in the column's own precision.
NaN is Spark's greatest number: the maximum of a column with a NaN is NaN, its minimum only if every
value is NaN.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, nan
from typing import Any, ClassVar, Self

from tidegauge.analyzers.core.analyzer import ColumnAnalyzer, analyzer
from tidegauge.analyzers.core.exact import (
    Number,
    greatest,
    least,
    pack_number,
    subtract,
    unpack_number,
)
from tidegauge.analyzers.core.metric import Scale
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.sql import where_holds
from tidegauge.analyzers.core.state import READERS, Count, DoubleValuedState, register_state

_COUNT = struct.Struct("<q")


@register_state("min/2")
@dataclass(frozen=True, slots=True)
class MinState(DoubleValuedState):
    """Minimum of some numbers, in their original precision, and their count.

    Examples
    --------
    >>> MinState(2**53 + 1, 1) + MinState(2.0**53 + 2, 1)
    MinState(minimum=9007199254740993, count=2)
    """

    minimum: Number | None = None
    count: Count = 0

    def combine(self, other: Self) -> Self:
        """Keep the smaller number and add the counts; a state without a number is ignored."""
        values = [s.minimum for s in (self, other) if s.minimum is not None]
        return type(self)(least(values), self.count + other.count)

    def metric_value(self) -> float:
        """Return the minimum; infinity if there are no numbers."""
        return inf if self.minimum is None else float(self.minimum)

    def pack(self) -> bytes:
        """Serialize the count, then the number."""
        return _COUNT.pack(self.count) + pack_number(self.minimum)

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """Deserialize the output of `pack`."""
        return cls(*_read(payload))


@register_state("max/2")
@dataclass(frozen=True, slots=True)
class MaxState(DoubleValuedState):
    """Maximum of some numbers, in their original precision, and their count."""

    maximum: Number | None = None
    count: Count = 0

    def combine(self, other: Self) -> Self:
        """Keep the larger number and add the counts; a state without a number is ignored."""
        values = [s.maximum for s in (self, other) if s.maximum is not None]
        return type(self)(greatest(values), self.count + other.count)

    def metric_value(self) -> float:
        """Return the maximum; minus infinity if there are no numbers."""
        return -inf if self.maximum is None else float(self.maximum)

    def pack(self) -> bytes:
        """Serialize the count, then the number."""
        return _COUNT.pack(self.count) + pack_number(self.maximum)

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """Deserialize the output of `pack`."""
        return cls(*_read(payload))


@register_state("range/1")
@dataclass(frozen=True, slots=True)
class RangeState(DoubleValuedState):
    """Minimum and maximum of some numbers, and their count."""

    minimum: Number | None = None
    maximum: Number | None = None
    count: Count = 0

    def combine(self, other: Self) -> Self:
        """Keep the smaller minimum and the larger maximum, and add the counts."""
        low = [s.minimum for s in (self, other) if s.minimum is not None]
        high = [s.maximum for s in (self, other) if s.maximum is not None]
        return type(self)(least(low), greatest(high), self.count + other.count)

    def metric_value(self) -> float:
        """Return the maximum minus the minimum; NaN if there are no numbers."""
        if self.minimum is None or self.maximum is None:
            return nan
        return subtract(self.maximum, self.minimum)

    def pack(self) -> bytes:
        """Serialize the count, then both numbers."""
        return _COUNT.pack(self.count) + pack_number(self.minimum) + pack_number(self.maximum)

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """Deserialize the output of `pack`."""
        (count,) = _COUNT.unpack_from(payload)
        low, at = unpack_number(payload, _COUNT.size)
        return cls(low, unpack_number(payload, at)[0], count)


def _read(payload: bytes) -> tuple[Number | None, int]:
    (count,) = _COUNT.unpack_from(payload)
    return unpack_number(payload, _COUNT.size)[0], count


# Layout version 1 stored every number as a double.
def _read_first(payload: bytes) -> tuple[Number | None, int]:
    number, count = struct.unpack("<dq", payload)
    return (number if count else None), count


READERS["min/1"] = lambda payload: MinState(*_read_first(payload))
READERS["max/1"] = lambda payload: MaxState(*_read_first(payload))


@dataclass(frozen=True, repr=False)
class ExtremeAnalyzer(ColumnAnalyzer[Any, float]):
    """Base of analyzers for the minimum or maximum of a number per row.

    Class attributes
    ----------------
    aggregates : tuple of str
        Spark's aggregate functions, in the order of the state's numbers.
    """

    scale: ClassVar[Scale] = Scale.SIGNED
    accepts: ClassVar[str] = "numeric"
    state_type: ClassVar[type[Any]]
    aggregates: ClassVar[tuple[str, ...]]

    def number(self, schema: Schema) -> str:
        """Return SQL for the number of each row."""
        return self.field(schema).sql

    def counted(self, schema: Schema) -> str:
        """Return SQL that is null where the number is."""
        return self.number(schema)

    def aggregations(self, schema: Schema) -> Sequence[str]:
        """Return the extremes and the number of values."""
        values = where_holds(self.where, self.number(schema))
        counted = where_holds(self.where, self.counted(schema))
        return (*(f"{name}({values})" for name in self.aggregates), f"count({counted})")

    def measure(self, state: Any) -> float:
        """Return the minimum, maximum or range."""
        if not state.count:
            raise self.no_data()
        return float(state.metric_value())


@analyzer
class Minimum(ExtremeAnalyzer):
    """Smallest value of a numeric column. Nulls are ignored; empty metric if all are null.

    Examples
    --------
    >>> Minimum("x").compute_metric_from(MinState(-1.0, 4) + MinState(2.0, 3)).value
    -1.0
    """

    state_type: ClassVar[type[Any]] = MinState
    aggregates: ClassVar[tuple[str, ...]] = ("min",)


@analyzer
class Maximum(ExtremeAnalyzer):
    """Largest value of a numeric column. Nulls are ignored; empty metric if all are null.

    Examples
    --------
    >>> Maximum("x").compute_metric_from(MaxState(-1.0, 4) + MaxState(2.0, 3)).value
    2.0
    """

    state_type: ClassVar[type[Any]] = MaxState
    aggregates: ClassVar[tuple[str, ...]] = ("max",)


@analyzer
class Range(ExtremeAnalyzer):
    """Maximum minus minimum of a numeric column; 0 for one value, empty metric for none.

    NaN if the column holds NaN, or nothing but one infinity.

    Examples
    --------
    >>> Range("x").compute_metric_from(RangeState(-1, 4, 9)).value
    5.0
    """

    scale: ClassVar[Scale] = Scale.POSITIVE
    state_type: ClassVar[type[Any]] = RangeState
    aggregates: ClassVar[tuple[str, ...]] = ("min", "max")
