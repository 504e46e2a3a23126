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

from analyzers.analyzer import ColumnAnalyzer, ScanAnalyzer, analyzer
from analyzers.description import canonical_json
from analyzers.errors import MetricRuntimeError
from analyzers.exact import Number, add, pack_number, shifted, unpack_number
from analyzers.metric import Entity, Scale
from analyzers.schema import Field, Schema
from analyzers.sql import where_holds
from analyzers.state import READERS, State, register_state

_COUNT = struct.Struct("<q")
_WORD = 32
"""Longs are added in two halves of so many bits, which no number of rows that fits a group overflows."""
_DIGITS = 19
"""Decimals too wide to be added by Spark are added in two parts; the lower one has so many digits."""


@register_state("sum-and-count/2")
@dataclass(frozen=True, slots=True)
class SumAndCount(State):
    """The sum of some numbers, exact unless they were doubles, and how many there were.

    Examples
    --------
    >>> SumAndCount(2**63, 1) + SumAndCount(1, 1)
    SumAndCount(total=9223372036854775809, count=2)
    """

    total: Number = 0
    count: int = 0

    def combine(self, other: Self) -> Self:
        """Add both."""
        return type(self)(add(self.total, other.total), self.count + other.count)

    def pack(self) -> bytes:
        """Count, then the sum."""
        return _COUNT.pack(self.count) + pack_number(self.total)

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """Read what `pack` wrote."""
        (count,) = _COUNT.unpack_from(payload)
        total, _ = unpack_number(payload, _COUNT.size)
        return cls(0 if total is None else total, count)


def _read_first(payload: bytes) -> SumAndCount:
    """Read the first layout, where every sum was a double."""
    total, count = struct.unpack("<dq", payload)
    return SumAndCount(total, count) if count else SumAndCount()


READERS["sum-and-count/1"] = _read_first


@register_state("two-sums/1")
@dataclass(frozen=True, slots=True)
class TwoSums(State):
    """The sums of two columns."""

    numerator: SumAndCount = SumAndCount()
    denominator: SumAndCount = SumAndCount()

    def combine(self, other: Self) -> Self:
        """Add each to its own."""
        return type(self)(self.numerator + other.numerator, self.denominator + other.denominator)

    def agrees_with(self, other: Self) -> bool:
        """Whether both sums agree."""
        return self.numerator.agrees_with(other.numerator) and self.denominator.agrees_with(
            other.denominator
        )

    def pack(self) -> bytes:
        """Both sums, the first behind its length."""
        first = self.numerator.pack()
        return struct.pack("<H", len(first)) + first + self.denominator.pack()

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """Read what `pack` wrote."""
        (length,) = struct.unpack_from("<H", payload)
        halves = payload[2 : 2 + length], payload[2 + length :]
        return cls(*map(SumAndCount.unpack, halves))


def sum_aggregations(field: Field, where: str | None) -> tuple[str, str, str]:
    """Return the aggregations from which `sum_from` makes the exact sum of a numeric column.

    They count the values, and add their upper and lower parts; most types need no upper part.
    """

    def total(sql: str) -> str:
        return f"try_sum({where_holds(where, sql)})"

    count = f"count({where_holds(where, field.sql)})"
    precision, scale = field.digits
    if field.kind == "long":
        low = f"{field.sql} & {(1 << _WORD) - 1}L"
        return count, total(f"shiftright({field.sql}, {_WORD})"), total(low)
    if field.kind == "decimal" and precision > 28:  # noqa: PLR2004 - Spark adds ten digits, up to 38
        unit = f"CAST('1E{_DIGITS - scale}' AS DECIMAL(38, {max(scale - _DIGITS, 0)}))"
        low = f"{field.sql} % {unit}"
        high = f"CAST(({field.sql} - {low}) / {unit} AS DECIMAL(20, 0))"
        return count, total(high), total(low)
    if field.kind in {"float", "double"}:
        return count, "0", f"sum({where_holds(where, f'CAST({field.sql} AS DOUBLE)')})"
    return count, "0", total(field.sql)


def sum_from(cells: Sequence[Any]) -> SumAndCount:
    """Return the sum that the aggregations found.

    Raises
    ------
    MetricRuntimeError
        If there were more values than Spark could add.
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
        """Sum and Mean share their state."""
        return Sum(self.column, where=self.where).canonical()

    def aggregations(self, schema: Schema) -> Sequence[str]:
        """Add and count the values."""
        return sum_aggregations(self.field(schema), self.where)

    def fold(self, cells: Sequence[Any]) -> SumAndCount:
        """Put the parts of the sum together."""
        return sum_from(cells)

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
        return float(state.total)


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
        return float(state.total / state.count)


@analyzer
class RatioOfSums(ScanAnalyzer[TwoSums, float]):
    """Sum of one numeric column by the sum of another; nulls in either are ignored in its own sum.

    Infinite where only the denominator's sum is 0, NaN where both are. Empty where one of them has no
    value.

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
        """Two columns."""
        return Entity.MULTICOLUMN

    @property
    def instance(self) -> str:
        """Both, the numerator first."""
        return f"{self.numerator},{self.denominator}"

    def statistic(self) -> str:
        """The two sums."""
        columns = [self.numerator, self.denominator]
        return canonical_json({"state": "two-sums", "columns": columns, "where": self.where})

    def _fields(self, schema: Schema) -> tuple[Field, Field]:
        return schema.numeric(self.numerator), schema.numeric(self.denominator)

    def check_schema(self, schema: Schema) -> None:
        """Both columns are numeric."""
        self._fields(schema)

    def aggregations(self, schema: Schema) -> Sequence[str]:
        """Add both."""
        return [text for f in self._fields(schema) for text in sum_aggregations(f, self.where)]

    def fold(self, cells: Sequence[Any]) -> TwoSums:
        """Put the parts of both sums together."""
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
        """Return the number of values of the denominator."""
        return state.denominator.count
