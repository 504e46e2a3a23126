"""Sums and statistical moments, from the mean to the correlation of two columns.

Sum, Mean and RatioOfSums add integers and decimals exactly, however large the total is. The sums become
doubles only in the metric. Floats are added as doubles; one NaN makes the result NaN.

StandardDeviation, Variance, Skewness, Kurtosis and Correlation cast values to double. One NaN or infinity
makes the result NaN. States hold central moments and merge by the pairwise formulas of Chan, Golub and
LeVeque (1979) and, for the higher ones, of Pébay (Sandia report SAND2008-6212), which avoid cancellation.

The mean of equal values is the value itself. Their sum divided by their number could be rounded, so that the
deviations of a constant column would not be exactly 0 after a merge.
"""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import copysign, inf, isfinite, isnan, nan, sqrt
from struct import Struct
from sys import float_info
from typing import TYPE_CHECKING, Any, ClassVar, Self

from tidegauge.analyzers.core.analyzer import ColumnAnalyzer, S, ScanAnalyzer, analyzer
from tidegauge.analyzers.core.columnar import InexactError, Kernel, RowGroup
from tidegauge.analyzers.core.errors import MetricRuntimeError
from tidegauge.analyzers.core.metric import Entity, Scale
from tidegauge.analyzers.core.registry import canonical_json
from tidegauge.analyzers.core.schema import Field, Schema
from tidegauge.analyzers.core.sql import where_holds
from tidegauge.analyzers.core.state import (
    READERS,
    Count,
    DoubleValuedState,
    Number,
    State,
    add,
    agree,
    pack_number,
    register_state,
    shifted,
    unpack_number,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_COUNT_LAYOUT = struct.Struct("<q")
_WORD_BITS = 32
"""Bits of each half of a long; halves are summed separately, so no sum of a group overflows."""
_LOW_DIGITS = 19
"""Digits of the lower part of decimals too wide for Spark to sum; parts are summed separately."""


@register_state("sum-and-count/2")
@dataclass(frozen=True, slots=True)
class SumAndCount(State):
    """Sum of numbers, exact unless they are doubles, and how many there are.

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
        return _COUNT_LAYOUT.pack(self.count) + pack_number(self.total)

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """Deserialize the output of `pack`."""
        (count,) = _COUNT_LAYOUT.unpack_from(payload)
        total, _ = unpack_number(payload, _COUNT_LAYOUT.size)
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
        low = f"{field.sql} & {(1 << _WORD_BITS) - 1}L"
        return count, total(f"shiftright({field.sql}, {_WORD_BITS})"), total(low)
    if field.kind == "decimal" and precision > 28:
        unit = f"CAST('1E{_LOW_DIGITS - scale}' AS DECIMAL(38, {max(scale - _LOW_DIGITS, 0)}))"
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
        return SumAndCount((high << _WORD_BITS) + low, count)
    return SumAndCount(add(shifted(high, _LOW_DIGITS + low.as_tuple().exponent), low), count)


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

    def kernel(self, schema: Schema) -> Kernel[SumAndCount] | None:
        """Sum and count the values."""
        columns = schema.top_level(self.field(schema))
        if columns is None:
            return None
        return Kernel(columns, lambda group: _sum_in(group, *columns))

    def fold(self, cells: Sequence[Any]) -> SumAndCount:
        """Combine the parts of the sum."""
        return sum_from(cells)


def _sum_in(group: RowGroup, column: str) -> SumAndCount:
    return sum_from((group.values(column), 0, group.total(column)))


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

    def kernel(self, schema: Schema) -> Kernel[TwoSums] | None:
        """Sum and count the values of both columns."""
        columns = schema.top_level(*self._fields(schema))
        if columns is None:
            return None
        return Kernel(columns, lambda group: TwoSums(*(_sum_in(group, c) for c in columns)))

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


_MIN_MAGNITUDE, _MAX_SQUARES = 1e-30, 1e100
"""For skewness and kurtosis: smaller magnitudes count as 0, and larger sums of squares are errors."""
_MAX_SUMMABLE_MAGNITUDE = 1e40
"""The squared deviations of 2**63 numbers up to this magnitude add up to less than `_MAX_SQUARES`."""


def negligible(squares: float, count: int, mean: float) -> bool:
    """Return whether a sum of squared deviations is within rounding error of the merged means."""
    return squares <= count * (16 * float_info.epsilon * abs(mean)) ** 2


def mean_of(count: int, total: float, squares: float, largest: float) -> float:
    """Return the mean of values, exactly if all are equal.

    Parameters
    ----------
    count : int
        Number of values.
    total : float
        Sum of the values.
    squares : float
        Sum of squared deviations; 0 if all values are equal.
    largest : float
        Largest absolute value.
    """
    return largest if squares == 0 else total / count


def merged_mean(count: int, mean: float, other_count: int, other_mean: float) -> float:
    """Return the mean of two pieces of data, exactly if their means are equal."""
    if mean == other_mean:
        return mean
    return (count * mean + other_count * other_mean) / (count + other_count)


def _deviation(count: int, m2: float) -> float:
    """Return the standard deviation by the sum of squared deviations; 0 without numbers."""
    return sqrt(m2 / count) if count and m2 > 0 else 0.0


@register_state("central-moments-2/1")
@dataclass(frozen=True, slots=True)
class StandardDeviationState(DoubleValuedState):
    """Count, mean, and sum of squared deviations from the mean.

    Examples
    --------
    >>> whole = StandardDeviationState(2, 1.5, 0.5) + StandardDeviationState(1, 6.0, 0.0)
    >>> whole
    StandardDeviationState(count=3, mean=3.0, m2=14.0)
    """

    layout: ClassVar[Struct] = Struct("<qdd")
    count: Count = 0
    mean: float = 0.0
    m2: float = 0.0

    def combine(self, other: Self) -> Self:
        """Merge the moments."""
        if not self.count or not other.count:
            return self if self.count else other
        count = self.count + other.count
        delta = other.mean - self.mean
        mean = merged_mean(self.count, self.mean, other.count, other.mean)
        m2 = self.m2 + other.m2 + delta * delta * self.count * other.count / count
        return type(self)(count, mean, m2)

    def agrees_with(self, other: Self) -> bool:
        """Return whether counts are equal, and the moments to 1e-9 of the data's spread."""
        return (
            type(self) is type(other)
            and self.count == other.count
            and agree(self.mean, other.mean, _deviation(self.count, self.m2))
            and agree(self.m2, other.m2)
        )

    def variance(self) -> float:
        """Return the population variance; NaN for no numbers."""
        return self.m2 / self.count if self.count else nan

    def metric_value(self) -> float:
        """Return the population standard deviation; NaN if there are no numbers."""
        return sqrt(self.variance())


@register_state("central-moments-4/1")
@dataclass(frozen=True, slots=True)
class HigherMomentsState(State):
    """Count, mean, and sums of the second, third and fourth powers of the deviations from the mean.

    Examples
    --------
    >>> HigherMomentsState(1, 1.0) + HigherMomentsState(1, 3.0) + HigherMomentsState(1, 8.0)
    HigherMomentsState(count=3, mean=4.0, m2=26.0, m3=36.0, m4=338.0)
    """

    layout: ClassVar[Struct] = Struct("<qdddd")
    count: Count = 0
    mean: float = 0.0
    m2: float = 0.0
    m3: float = 0.0
    m4: float = 0.0

    def combine(self, other: Self) -> Self:
        """Merge the moments."""
        if not self.count or not other.count:
            return self if self.count else other
        a, b = self, other
        n = a.count + b.count
        d = b.mean - a.mean
        share_a, share_b = a.count / n, b.count / n
        mean = a.mean if d == 0 else share_a * a.mean + share_b * b.mean
        product = d * d * a.count * share_b
        m2 = a.m2 + b.m2 + product
        m3 = (
            a.m3
            + b.m3
            + d * product * (share_a - share_b)
            + 3 * d * (share_a * b.m2 - share_b * a.m2)
        )
        m4 = (
            a.m4
            + b.m4
            + d * d * product * (share_a * share_a - share_a * share_b + share_b * share_b)
            + 6 * d * d * (share_a * share_a * b.m2 + share_b * share_b * a.m2)
            + 4 * d * (share_a * b.m3 - share_b * a.m3)
        )
        return type(self)(n, mean, m2, m3, m4)

    def agrees_with(self, other: Self) -> bool:
        """Return whether counts are equal, and the moments to 1e-9 of the data's spread.

        The third powers of symmetric data cancel, so what is left of them is rounding noise.
        """
        deviation = _deviation(self.count, self.m2)
        return (
            type(self) is type(other)
            and self.count == other.count
            and agree(self.mean, other.mean, deviation)
            and agree(self.m2, other.m2)
            and agree(self.m3, other.m3, self.m2 * deviation)
            and agree(self.m4, other.m4)
        )


@register_state("co-moments/1")
@dataclass(frozen=True, slots=True)
class CorrelationState(DoubleValuedState):
    """Count, means, and sums of products of deviations for pairs of numbers.

    Examples
    --------
    >>> pairs = [CorrelationState(1, x, 2 * x) for x in (1.0, 2.0, 6.0)]
    >>> CorrelationState.merge(pairs)
    CorrelationState(count=3, x_mean=3.0, y_mean=6.0, xy=28.0, xx=14.0, yy=56.0)
    """

    layout: ClassVar[Struct] = Struct("<qddddd")
    count: Count = 0
    x_mean: float = 0.0
    y_mean: float = 0.0
    xy: float = 0.0
    xx: float = 0.0
    yy: float = 0.0

    def combine(self, other: Self) -> Self:
        """Merge the moments."""
        if not self.count or not other.count:
            return self if self.count else other
        n = self.count + other.count
        weight = self.count * other.count / n
        dx, dy = other.x_mean - self.x_mean, other.y_mean - self.y_mean
        return type(self)(
            n,
            merged_mean(self.count, self.x_mean, other.count, other.x_mean),
            merged_mean(self.count, self.y_mean, other.count, other.y_mean),
            self.xy + other.xy + dx * dy * weight,
            self.xx + other.xx + dx * dx * weight,
            self.yy + other.yy + dy * dy * weight,
        )

    def agrees_with(self, other: Self) -> bool:
        """Return whether counts are equal, and the moments to 1e-9 of the spread of their columns."""
        x_deviation, y_deviation = _deviation(self.count, self.xx), _deviation(self.count, self.yy)
        return (
            type(self) is type(other)
            and self.count == other.count
            and agree(self.x_mean, other.x_mean, x_deviation)
            and agree(self.y_mean, other.y_mean, y_deviation)
            and agree(self.xy, other.xy, self.count * x_deviation * y_deviation)
            and agree(self.xx, other.xx)
            and agree(self.yy, other.yy)
        )

    def metric_value(self) -> float:
        """Return Pearson's coefficient; NaN if a column is constant or there are no pairs."""
        constant = negligible(self.xx, self.count, self.x_mean) or negligible(
            self.yy, self.count, self.y_mean
        )
        if constant or isnan(self.xx + self.yy):
            return nan
        # One root each: the product of the two sums may overflow or underflow.
        return self.xy / (sqrt(self.xx) * sqrt(self.yy))


@dataclass(frozen=True, repr=False)
class _MomentAnalyzer(ColumnAnalyzer[S, float]):
    accepts: ClassVar[str] = "numeric"

    def measure(self, state: S) -> float:
        """Return the value, or raise if there are no numbers."""
        if not self.weight(state):
            raise self.no_data()
        return self.value(state)

    @abstractmethod
    def value(self, state: S) -> float:
        """Return the value."""


@dataclass(frozen=True, repr=False)
class _SpreadAnalyzer(_MomentAnalyzer[StandardDeviationState]):
    scale: ClassVar[Scale] = Scale.POSITIVE
    state_type: ClassVar[type[State]] = StandardDeviationState

    def statistic(self) -> str:
        """Return the statistic key, shared by standard deviation and variance."""
        return StandardDeviation(self.column, where=self.where).canonical()

    def aggregations(self, schema: Schema) -> Sequence[str]:
        """Return count, sum, variance and maximum; `Mean` requests the same sum of doubles."""
        values = self.doubles(schema)
        functions = ("sum", "var_pop", "max")
        return (f"count({self.values(schema)})", *(f"{name}({values})" for name in functions))

    def kernel(self, schema: Schema) -> Kernel[StandardDeviationState] | None:
        """Compute the moments."""
        columns = schema.top_level(self.field(schema))
        if columns is None:
            return None
        return Kernel(columns, lambda group: _spread_of(group.doubles(*columns)))

    def fold(self, cells: Sequence[Any]) -> StandardDeviationState:
        """Convert the variance back into a sum of squares, which is additive."""
        count, total, variance, largest = cells
        if not count:
            return StandardDeviationState()
        squares = variance * count
        return StandardDeviationState(count, mean_of(count, total, squares, largest), squares)


def _centered(values: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], float]:
    """Return the deviations from the mean, and the mean; both are exact if all values are equal."""
    import numpy as np

    first = float(values[0])
    if isfinite(first) and values[-1] == first and (values == first).all():
        return np.zeros(len(values)), first
    with np.errstate(invalid="ignore", over="ignore"):
        mean = float(values.mean())
        return values - mean, mean


def _dot(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> float:
    """Return the sum of products, added pairwise.

    The product of BLAS runs in threads, which took 17 times the CPU time for 200,000 values on two cores.
    """
    return float((a * b).sum())


def _spread_of(values: npt.NDArray[np.float64]) -> StandardDeviationState:
    """Return the moments of an array without nulls."""
    import numpy as np

    if not len(values):
        return StandardDeviationState()
    deviations, mean = _centered(values)
    with np.errstate(invalid="ignore", over="ignore"):
        return StandardDeviationState(len(values), mean, _dot(deviations, deviations))


@analyzer
class StandardDeviation(_SpreadAnalyzer):
    """Population standard deviation of a numeric column, in the column's unit; 0 for one value.

    Nulls are ignored; empty metric if all values are null.

    Examples
    --------
    >>> StandardDeviation("x").compute_metric_from(StandardDeviationState(6, 3.5, 17.5)).value
    1.707825127659933
    """

    def value(self, state: StandardDeviationState) -> float:
        """Return the standard deviation."""
        return state.metric_value()


@analyzer
class Variance(_SpreadAnalyzer):
    """Population variance of a numeric column, in the square of its unit; 0 for one value.

    Nulls are ignored; empty metric if all values are null.

    Examples
    --------
    >>> Variance("x").compute_metric_from(StandardDeviationState(6, 3.5, 17.5)).value
    2.9166666666666665
    """

    def value(self, state: StandardDeviationState) -> float:
        """Return the variance."""
        return state.variance()


@dataclass(frozen=True, repr=False)
class _ShapeAnalyzer(_MomentAnalyzer[HigherMomentsState]):
    scale: ClassVar[Scale] = Scale.SIGNED
    state_type: ClassVar[type[State]] = HigherMomentsState

    def statistic(self) -> str:
        """Return the statistic key, shared by skewness and kurtosis."""
        return canonical_json(
            {"state": "central-moments-4", "column": self.column, "where": self.where}
        )

    def aggregations(self, schema: Schema) -> Sequence[str]:
        """Return count, sum, variance, skewness, kurtosis and maximum of the values."""
        # Spark divides by powers of the variance, which fails if they underflow to 0.
        value = f"CAST({self.field(schema).sql} AS DOUBLE)"
        sized = f"CASE WHEN abs({value}) < {_MIN_MAGNITUDE!r}D THEN 0D ELSE {value} END"
        values = where_holds(self.where, sized)
        functions = ("sum", "var_pop", "skewness", "kurtosis", "max")
        return (f"count({self.values(schema)})", *(f"{name}({values})" for name in functions))

    def kernel(self, schema: Schema) -> Kernel[HigherMomentsState] | None:
        """Compute the moments."""
        columns = schema.top_level(self.field(schema))
        if columns is None:
            return None
        return Kernel(columns, lambda group: _shape_of(group.doubles(*columns)))

    def fold(self, cells: Sequence[Any]) -> HigherMomentsState:
        """Convert Spark's ratios to sums of powers, which are additive; null is Spark's 0 / 0."""
        count, total, variance, skewness, kurtosis, largest = cells
        if not count:
            return HigherMomentsState()
        m2 = variance * count
        if m2 > _MAX_SQUARES:  # if powers of it overflow, Spark's result is wrong
            msg = f"{self!r}: deviations of {sqrt(variance):.1g} are too large to be raised to a power"
            raise MetricRuntimeError(msg)
        m3 = (skewness or 0.0) * m2 * sqrt(variance)
        m4 = (kurtosis + 3) * variance * m2 if kurtosis is not None else 0.0
        return HigherMomentsState(count, mean_of(count, total, m2, largest), m2, m3, m4)


def _shape_of(values: npt.NDArray[np.float64]) -> HigherMomentsState:
    """Return the moments of an array without nulls."""
    import numpy as np

    if not len(values):
        return HigherMomentsState()
    magnitudes = np.abs(values)
    # The limit holds for all row groups together, so the sum of this row group is not enough.
    if magnitudes.max() > _MAX_SUMMABLE_MAGNITUDE:
        msg = "deviations may be too large to be raised to a power"
        raise InexactError(msg)
    deviations, mean = _centered(np.where(magnitudes < _MIN_MAGNITUDE, 0.0, values))
    with np.errstate(invalid="ignore", over="ignore"):
        squares = deviations * deviations
        m2, m3, m4 = float(squares.sum()), _dot(squares, deviations), _dot(squares, squares)
    return HigherMomentsState(len(values), mean, m2, m3, m4)


def _on_scale(moment: float, power: int, state: HigherMomentsState) -> float:
    """Return a standardized moment, dividing stepwise because powers may underflow."""
    deviation = sqrt(state.m2 / state.count)
    value = moment / state.count
    for _ in range(power):
        value /= deviation
    return value


@analyzer
class Skewness(_ShapeAnalyzer):
    """Skewness of a numeric column: sqrt(n) m3 / m2 ** 1.5, with mk the sum of k-th powers.

    Powers are of deviations from the mean. Population skewness, without bias correction; 0 if all
    values are equal. Nulls are ignored; empty metric if all values are null. Values nearer to 0 than 1e-30
    count as 0. Deviations of about 1e50 or more are an error.

    Examples
    --------
    >>> ones_and_ten = HigherMomentsState(5, 2.8, 64.8, 349.92)
    >>> round(Skewness("x").compute_metric_from(ones_and_ten).value, 9)
    1.5
    """

    def value(self, state: HigherMomentsState) -> float:
        """Return the standardized third moment."""
        constant = negligible(state.m2, state.count, state.mean)
        return 0.0 if constant else _on_scale(state.m3, 3, state)


@analyzer
class Kurtosis(_ShapeAnalyzer):
    """Excess kurtosis of a numeric column: n m4 / m2 ** 2 - 3, with mk the sum of k-th powers.

    Powers are of deviations from the mean. Population kurtosis, 0 for a normal distribution; 0 also
    if all values are equal. Nulls are ignored; empty metric if all values are null.

    Examples
    --------
    >>> two_equal_halves = HigherMomentsState(4, 0.0, 4.0, 0.0, 4.0)
    >>> Kurtosis("x").compute_metric_from(two_equal_halves).value
    -2.0
    """

    def value(self, state: HigherMomentsState) -> float:
        """Return the standardized fourth moment minus 3, its value for a normal distribution."""
        constant = negligible(state.m2, state.count, state.mean)
        return 0.0 if constant else _on_scale(state.m4, 4, state) - 3


@analyzer
class Correlation(ScanAnalyzer[CorrelationState, float]):
    """Pearson correlation of two numeric columns, between -1 and 1.

    Rows where either is null are ignored; empty metric if there are no others. NaN if a column is
    constant, as it is in a single row.

    Examples
    --------
    >>> state = CorrelationState(3, 2.0, 5.0, 2.0, 2.0, 2.0)
    >>> round(Correlation("x", "y").compute_metric_from(state).value, 12)
    1.0
    """

    scale: ClassVar[Scale] = Scale.SIGNED
    state_type: ClassVar[type[State]] = CorrelationState

    first: str
    second: str

    @property
    def entity(self) -> Entity:
        """Multicolumn."""
        return Entity.MULTICOLUMN

    @property
    def instance(self) -> str:
        """Both columns, in the order given."""
        return f"{self.first},{self.second}"

    def check_schema(self, schema: Schema) -> None:
        """Require two numeric columns."""
        schema.numeric(self.first)
        schema.numeric(self.second)

    def aggregations(self, schema: Schema) -> Sequence[str]:
        """Return count, sums, maxima and product sums of the pairs; Spark's functions take y before x."""
        sql = [schema.numeric(c).sql for c in (self.first, self.second)]
        x, y = (where_holds(self.where, f"CAST({column} AS DOUBLE)") for column in sql)
        sums = [
            f"{function}(CASE WHEN {other} IS NOT NULL THEN {value} END)"
            for function in ("sum", "max")
            for value, other in zip((x, y), reversed(sql), strict=True)
        ]
        count, *products = (f"regr_{name}({y}, {x})" for name in ("count", "sxy", "sxx", "syy"))
        return [count, *sums, *products]

    def kernel(self, schema: Schema) -> Kernel[CorrelationState] | None:
        """Compute the moments of the pairs."""
        columns = schema.top_level(schema.numeric(self.first), schema.numeric(self.second))
        if columns is None:
            return None
        return Kernel(columns, lambda group: _co_moments_of(*group.pairs(*columns)))

    def fold(self, cells: Sequence[Any]) -> CorrelationState:
        """Return the state of all aggregates."""
        count, x_sum, y_sum, x_max, y_max, xy, xx, yy = cells
        if not count:
            return CorrelationState()
        x_mean, y_mean = mean_of(count, x_sum, xx, x_max), mean_of(count, y_sum, yy, y_max)
        return CorrelationState(count, x_mean, y_mean, xy, xx, yy)

    def measure(self, state: CorrelationState) -> float:
        """Return the coefficient."""
        if not state.count:
            raise self.no_data()
        return state.metric_value()


def _co_moments_of(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> CorrelationState:
    """Return the moments of pairs without nulls."""
    import numpy as np

    if not len(x):
        return CorrelationState()
    (dx, x_mean), (dy, y_mean) = _centered(x), _centered(y)
    with np.errstate(invalid="ignore", over="ignore"):
        products = _dot(dx, dy), _dot(dx, dx), _dot(dy, dy)
    return CorrelationState(len(x), x_mean, y_mean, *products)
