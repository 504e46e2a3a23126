"""Sums: Sum, Mean, RatioOfSums.

Integers and decimals are added exactly, whatever the total, and become doubles only in the metric.
Floats are added as doubles; one NaN makes the result NaN.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from math import copysign, inf, nan
from typing import Any, ClassVar, Self

from tidegauge.analyzers.core.analyzer import ColumnAnalyzer, ScanAnalyzer, analyzer
from tidegauge.analyzers.core.description import canonical_json
from tidegauge.analyzers.core.errors import MetricRuntimeError
from tidegauge.analyzers.core.exact import Number, add, pack_number, shifted, unpack_number
from tidegauge.analyzers.core.metric import Entity, Scale
from tidegauge.analyzers.core.schema import Field, Schema
from tidegauge.analyzers.core.sql import where_holds
from tidegauge.analyzers.core.state import READERS, Count, State, register_state

_COUNT = struct.Struct("<q")
_WORD = 32
"""Bits of each half of a long; halves are summed separately, so no sum of a group overflows."""
_DIGITS = 19
"""Digits of the lower part of decimals too wide for Spark to sum; parts are summed separately."""


@register_state("sum-and-count/2")
@dataclass(frozen=True, slots=True)
class SumAndCount(State):
    """Sum of some numbers, exact unless they are doubles, and their count.

    Examples
    --------
    >>> SumAndCount(2**63, 1) + SumAndCount(1, 1)
    SumAndCount(total=9223372036854775809, count=2)
    """

    total: Number = 0
    count: Count = 0

    def combine(self, other: Self) -> Self:
        """Add the sums and the counts."""
        return type(self)(add(self.total, other.total), self.count + other.count)

    def pack(self) -> bytes:
        """Serialize the count, then the sum."""
        return _COUNT.pack(self.count) + pack_number(self.total)

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """Deserialize the output of `pack`."""
        (count,) = _COUNT.unpack_from(payload)
        total, _ = unpack_number(payload, _COUNT.size)
        return cls(0 if total is None else total, count)


def _read_first(payload: bytes) -> SumAndCount:
    """Read layout version 1, where every sum was a double."""
    total, count = struct.unpack("<dq", payload)
    return SumAndCount(total, count) if count else SumAndCount()


READERS["sum-and-count/1"] = _read_first


@register_state("two-sums/1")
@dataclass(frozen=True, slots=True)
class TwoSums(State):
    """Sums of two columns."""

    numerator: SumAndCount = SumAndCount()
    denominator: SumAndCount = SumAndCount()

    def combine(self, other: Self) -> Self:
        """Add the numerators and the denominators."""
        return type(self)(self.numerator + other.numerator, self.denominator + other.denominator)

    def agrees_with(self, other: Self) -> bool:
        """Return whether both sums agree."""
        return self.numerator.agrees_with(other.numerator) and self.denominator.agrees_with(
            other.denominator
        )

    def pack(self) -> bytes:
        """Serialize both sums, the first preceded by its length."""
        first = self.numerator.pack()
        return struct.pack("<H", len(first)) + first + self.denominator.pack()

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """Deserialize the output of `pack`."""
        (length,) = struct.unpack_from("<H", payload)
        halves = payload[2 : 2 + length], payload[2 + length :]
        return cls(*map(SumAndCount.unpack, halves))


def sum_aggregations(field: Field, where: str | None) -> tuple[str, str, str]:
    """Return the aggregations from which `sum_from` computes a column's exact sum.

    They count the values, and sum their upper and lower parts; most types need no upper part.
    """

    def total(sql: str) -> str:
        return f"try_sum({where_holds(where, sql)})"

    count = f"count({where_holds(where, field.sql)})"
    precision, scale = field.digits
    if field.kind == "long":
        low = f"{field.sql} & {(1 << _WORD) - 1}L"
        return count, total(f"shiftright({field.sql}, {_WORD})"), total(low)
    if field.kind == "decimal" and precision > 28:
        unit = f"CAST('1E{_DIGITS - scale}' AS DECIMAL(38, {max(scale - _DIGITS, 0)}))"
        low = f"{field.sql} % {unit}"
        high = f"CAST(({field.sql} - {low}) / {unit} AS DECIMAL(20, 0))"
        return count, total(high), total(low)
    if field.kind in {"float", "double"}:
        return count, "0", f"sum({where_holds(where, f'CAST({field.sql} AS DOUBLE)')})"
    return count, "0", total(field.sql)


def sum_from(cells: Sequence[Any]) -> SumAndCount:
    """Return the sum from the results of `sum_aggregations`.

    Raises
    ------
    MetricRuntimeError
        If the sum exceeds what Spark can add.
    """
    count, high, low = cells
    if not count:
        return SumAndCount()
    if high is None or low is None:
        msg = f"the sum of {count} values exceeds what Spark can add"
        raise MetricRuntimeError(msg)
    if not high:
        return SumAndCount(low, count)
    if isinstance(high, int):
        return SumAndCount((high << _WORD) + low, count)
    return SumAndCount(add(shifted(high, _DIGITS + low.as_tuple().exponent), low), count)


@dataclass(frozen=True, repr=False)
class _SumAnalyzer(ColumnAnalyzer[SumAndCount, float]):
    scale: ClassVar[Scale] = Scale.SIGNED
    state_type: ClassVar[type[State]] = SumAndCount
    accepts: ClassVar[str] = "numeric"

    def statistic(self) -> str:
        """Return the statistic key, shared by Sum and Mean."""
        return Sum(self.column, where=self.where).canonical()

    def aggregations(self, schema: Schema) -> Sequence[str]:
        """Return the sum and the count of the values."""
        return sum_aggregations(self.field(schema), self.where)

    def fold(self, cells: Sequence[Any]) -> SumAndCount:
        """Combine the parts of the sum."""
        return sum_from(cells)


@analyzer
class Sum(_SumAnalyzer):
    """Sum of a numeric column. Nulls are ignored; empty metric if all values are null.

    Examples
    --------
    >>> Sum("x").compute_metric_from(SumAndCount(21.0, 6)).value
    21.0
    """

    def measure(self, state: SumAndCount) -> float:
        """Return the sum."""
        if not state.count:
            raise self.no_data()
        return float(state.total)


@analyzer
class Mean(_SumAnalyzer):
    """Arithmetic mean of a numeric column. Nulls are ignored; empty metric if all values are null.

    Examples
    --------
    >>> Mean("x").compute_metric_from(SumAndCount(21.0, 6)).value
    3.5
    """

    def measure(self, state: SumAndCount) -> float:
        """Return the sum divided by the count."""
        if not state.count:
            raise self.no_data()
        return float(state.total / state.count)


@analyzer
class RatioOfSums(ScanAnalyzer[TwoSums, float]):
    """Sum of one numeric column divided by the sum of another.

    Nulls in either are ignored in its own sum. Infinite if only the denominator's sum is 0, NaN if
    both sums are 0. Empty metric if either column has no value.

    Examples
    --------
    >>> sums = TwoSums(SumAndCount(3, 2), SumAndCount(4.0, 1))
    >>> RatioOfSums("cost", "income").compute_metric_from(sums).value
    0.75
    """

    scale: ClassVar[Scale] = Scale.SIGNED
    state_type: ClassVar[type[State]] = TwoSums

    numerator: str
    denominator: str

    @property
    def entity(self) -> Entity:
        """Multicolumn."""
        return Entity.MULTICOLUMN

    @property
    def instance(self) -> str:
        """Both columns, the numerator first."""
        return f"{self.numerator},{self.denominator}"

    def statistic(self) -> str:
        """Return the statistic key of the two sums."""
        columns = [self.numerator, self.denominator]
        return canonical_json({"state": "two-sums", "columns": columns, "where": self.where})

    def _fields(self, schema: Schema) -> tuple[Field, Field]:
        return schema.numeric(self.numerator), schema.numeric(self.denominator)

    def check_schema(self, schema: Schema) -> None:
        """Require two numeric columns."""
        self._fields(schema)

    def aggregations(self, schema: Schema) -> Sequence[str]:
        """Return the sums and counts of both columns."""
        return [text for f in self._fields(schema) for text in sum_aggregations(f, self.where)]

    def fold(self, cells: Sequence[Any]) -> TwoSums:
        """Combine the parts of both sums."""
        return TwoSums(sum_from(cells[:3]), sum_from(cells[3:]))

    def measure(self, state: TwoSums) -> float:
        """Return the ratio."""
        if not state.numerator.count or not state.denominator.count:
            raise self.no_data()
        above, below = float(state.numerator.total), float(state.denominator.total)
        if below:
            return above / below
        return copysign(inf, above) * copysign(1.0, below) if above and above == above else nan  # noqa: PLR0124

    def weight(self, state: TwoSums) -> float:
        """Return the number of denominator values."""
        return state.denominator.count
