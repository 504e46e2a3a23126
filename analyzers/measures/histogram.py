"""Histograms: of distinct values (Histogram, HistogramOfSums) and binned (HistogramBinned, KLLSketch).

Histogram counts the rows of each value, and HistogramOfSums sums another column. HistogramBinned
computes its bins from exact frequencies, KLLSketch from a quantile sketch.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache, singledispatch
from itertools import pairwise
from math import inf, isfinite, isnan, nan
from typing import TYPE_CHECKING, Any, ClassVar, Self

from tidegauge.analyzers.core.analyzer import (
    Analyzer,
    AnyAnalyzer,
    ColumnAnalyzer,
    Filterable,
    Frequencies,
    Request,
    Sketch,
    analyzer,
)
from tidegauge.analyzers.core.columnar import Kernel
from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError, MetricRuntimeError
from tidegauge.analyzers.core.metric import Entity, Interval, Metric, Scale
from tidegauge.analyzers.core.registry import canonical_json, key_of
from tidegauge.analyzers.core.schema import INTEGRAL, Field, Schema
from tidegauge.analyzers.core.state import State, agree, mismatch, register_state
from tidegauge.analyzers.measures.frequencies import (
    COUNT,
    FrequenciesAndNumRows,
    GroupingAnalyzer,
    added_up,
    are_counts,
    grouped_by,
    packed,
    unpacked,
    without_value,
)
from tidegauge.analyzers.measures.quantiles import (
    MAX_K,
    MIN_K,
    RANK_CONFIDENCE,
    KllState,
    kll_in,
    kll_statistic,
)

if TYPE_CHECKING:
    import pyarrow as pa

NULL_KEY = "NullValue"
MAX_DETAIL_BINS = 1000
MAX_KEY_CHARS = 200
"""Characters of a value in its bin key; a longer value ends with a digest."""

_CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f]")  # no database accepts all of them


@dataclass(frozen=True, slots=True)
class DistributionValue:
    """Count of one value, or the sum of its numbers, and its share of all.

    Examples
    --------
    >>> three_of_four = DistributionValue(absolute=3, ratio=0.75)
    >>> three_of_four.absolute, three_of_four.ratio
    (3, 0.75)
    """

    absolute: float
    ratio: float


@dataclass(frozen=True)
class Distribution:
    """Value of a Histogram or DataType metric.

    Attributes
    ----------
    values : mapping of str to DistributionValue
        The most frequent values, most frequent first.
    number_of_bins : int
        Number of distinct values, null included.
    tail_count : float
        Number of rows whose values are not in `values`.
    ratios : bool
        Whether the metric has a number for the share of each value, in addition to its count.

    Examples
    --------
    >>> values = {"EWR": DistributionValue(3, 0.75), "JFK": DistributionValue(1, 0.25)}
    >>> found = Distribution(values, number_of_bins=2)
    >>> found["EWR"].ratio, found.number_of_bins
    (0.75, 2)
    """

    names: ClassVar[tuple[str, str, str]] = ("abs", "tailCount", "rows")
    """Names of the count of a value, of the count of all other values, and of the column of counts."""

    values: Mapping[str, DistributionValue]
    number_of_bins: int
    tail_count: float = 0
    ratios: bool = True

    def __getitem__(self, key: str) -> DistributionValue:
        return self.values[key]

    def scalars(self) -> Iterator[tuple[str, float]]:
        """Yield ``bins``, ``abs.value`` and ``ratio.value`` per value, and any ``tailCount``."""
        absolute, tail, _ = self.names
        yield "bins", self.number_of_bins
        for key, value in self.values.items():
            yield f"{absolute}.{key}", value.absolute
            if self.ratios:
                yield f"ratio.{key}", value.ratio
        if self.tail_count:
            yield tail, self.tail_count

    def tabulated(self) -> tuple[Sequence[str], int, Iterator[tuple[str, float, str]]]:
        """Return the notebook table: each value with its count and share."""
        rows = ((k, v.absolute, f"{100 * v.ratio:.3g}%") for k, v in self.values.items())
        return ("value", self.names[2], "share"), self.number_of_bins, rows


HistogramMetric = Metric[Distribution]


@singledispatch
def bin_key(value: Any) -> str:
    r"""Return the bin key of a value: the string that Spark's CAST returns, as in Deequ.

    Null is ``NullValue``. Floats are written as ``0.1`` and ``1.0E20``, timestamps in UTC as
    ``2020-01-01 10:00:00.5``, binary as lower-case hexadecimal digits. A string equal to ``NullValue``,
    or beginning with a backslash, is escaped by a leading backslash, so that no two values share a
    bin. Control characters are written as ``\x00``. The key of a string of more than 200 characters is
    its first 200 characters and a digest.

    Examples
    --------
    >>> [bin_key(v) for v in (None, "NullValue", 1.0, True, b"\x01")]
    ['NullValue', '\\NullValue', '1.0', 'true', '01']
    """
    return str(value)


@bin_key.register
def _(value: None) -> str:
    return NULL_KEY


@bin_key.register
def _(value: str) -> str:
    return escaped(_shortened(value))


def escaped(text: str) -> str:
    r"""Escape a string that is not longer than a key, as in `bin_key`.

    Examples
    --------
    >>> print(escaped("a\nb"), escaped("NullValue"))
    a\x0ab \NullValue
    """
    text = "\\" + text if text == NULL_KEY or text.startswith("\\") else text
    return _CONTROL_CHARACTER.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def _shortened(text: str) -> str:
    if len(text) <= MAX_KEY_CHARS:
        return text
    return f"{text[:MAX_KEY_CHARS]}~{key_of(text)[:16]}"


@bin_key.register
def _(value: bool) -> str:  # noqa: FBT001
    return "true" if value else "false"


@bin_key.register
def _(value: float) -> str:
    value += 0.0  # -0.0 is 0.0
    return _float_text(value, repr(value))


@bin_key.register
def _(value: Decimal) -> str:
    return f"{value:f}"


@bin_key.register
def _(value: bytes) -> str:
    return _shortened(value.hex())


@bin_key.register
def _(value: dt.date) -> str:
    return value.isoformat()


@bin_key.register
def _(value: dt.datetime) -> str:
    utc = value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
    return utc.isoformat(" ").rstrip("0") if utc.microsecond else utc.isoformat(" ")


def _float_text(value: float, shortest: str) -> str:
    """Format the shortest digits of a float as Java and Spark do."""
    if not isfinite(value):
        return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
    sign, numbers, exponent = Decimal(shortest).as_tuple()
    digits = "".join(map(str, numbers)).rstrip("0") or "0"
    point = len(numbers) + int(exponent)
    minus = "-" if sign else ""
    if value and not _PLAIN_RANGE[0] <= abs(value) < _PLAIN_RANGE[1]:
        return f"{minus}{digits[0]}.{digits[1:] or '0'}E{point - 1}"
    digits = digits.rjust(len(digits) - point + 1, "0") if point < 1 else digits.ljust(point, "0")
    point = max(point, 1)
    return f"{minus}{digits[:point]}.{digits[point:] or '0'}"


_PLAIN_RANGE = (1e-3, 1e7)
"""Range of absolute values in which floats are written without an exponent."""


def keys_of(values: pa.ChunkedArray) -> Iterator[str]:
    """Yield the bin keys of values in Arrow.

    Floats of 32 bits have fewer digits than the doubles that Python makes of them.
    """
    if str(values.type) != "float":
        yield from map(bin_key, values.to_pylist())
        return
    import numpy as np

    for value in values.to_pylist():
        if value is None:
            yield NULL_KEY
        else:
            yield _float_text(value, np.format_float_scientific(np.float32(value)))


def counts_by_key(state: FrequenciesAndNumRows) -> Iterator[tuple[str, int]]:
    """Yield the bin key and the number of rows of each value of a single column except null.

    Examples
    --------
    >>> list(counts_by_key(FrequenciesAndNumRows.from_groups([((1e20,), 2), ((0.1,), 1)])))
    [('1.0E20', 2), ('0.1', 1)]
    """
    if state.num_groups:
        non_null = state.frequencies.filter(state.frequencies["0"].is_valid())
        yield from zip(keys_of(non_null["0"]), non_null[COUNT].to_pylist(), strict=True)


def check_number_of_bins(owner: Analyzer[Any, Any], number: int) -> None:
    """Require a number of bins from 1 to 1000."""
    if not 1 <= number <= MAX_DETAIL_BINS:
        msg = f"{owner!r}: max_detail_bins must be between 1 and {MAX_DETAIL_BINS}"
        raise IllegalAnalyzerParameterError(msg)


def binned(schema: Schema, column: str, binning: str | None) -> str:
    """Return SQL for the bin of each row: an expression, or else the value of a column."""
    if binning is None:
        (sql,) = grouped_by(schema, (column,))
        return sql
    schema.field(column)
    return f"(\n{binning}\n)"


def check_bins(owner: Analyzer[Any, Any], bins: pa.Table) -> None:
    """Require that bins are plain values; for an expression, this depends on the data."""
    import pyarrow as pa

    kind = bins.schema.field(0).type
    if pa.types.is_nested(kind):
        msg = f"{owner!r} gives a {kind} for each row, but a bin must be a plain value, such as a string"
        raise MetricRuntimeError(msg)


def ranked(
    numbers: Iterable[tuple[str, float]], max_keys: int
) -> tuple[list[tuple[str, float]], float]:
    """Return the greatest numbers by key, NaN first, and the sum of all others."""
    rows = sorted(numbers, key=lambda row: (-inf if isnan(row[1]) else -row[1], row[0]))
    return rows[:max_keys], sum(number for _, number in rows[max_keys:])


@analyzer
class Histogram(GroupingAnalyzer[Distribution]):
    """Count and share of each value of a column, including null. Without rows, there are no bins.

    Shares are relative to the rows where the filter is true.

    Parameters
    ----------
    column : str
        The column.
    max_detail_bins : int
        Number of values to keep, by descending count and then by value: 1 to 1000. The others are
        counted together.
    binning : str, optional
        Spark SQL for the bin of each row, instead of the column's value: ``floor(price / 10) * 10``,
        ``CASE WHEN delay > 15 THEN 'late' ELSE 'on time' END``, a registered function. It may read
        any column; ``column`` names the metric.
    ratios : bool
        Whether the metric has the share of each value, in addition to its count.

    Examples
    --------
    >>> state = FrequenciesAndNumRows.from_groups([(("a",), 1), (("b",), 3)], num_nulls=1)
    >>> metric = Histogram("x", max_detail_bins=2).compute_metric_from(state)
    >>> metric.value["b"], metric.value.number_of_bins, metric.value.tail_count
    (DistributionValue(absolute=3, ratio=0.6), 3, 1)
    """

    scale: ClassVar[Scale] = Scale.COUNT
    sql_options: ClassVar[tuple[str, ...]] = ("where", "binning")

    column: str
    max_detail_bins: int = MAX_DETAIL_BINS
    binning: str | None = field(default=None, kw_only=True, metadata={"since": "0.2"})
    ratios: bool = field(default=True, kw_only=True, metadata={"since": "0.2"})

    @property
    def grouping_columns(self) -> tuple[str, ...]:
        """The column to group by."""
        return (self.column,)

    def scale_of(self, metric_name: str) -> Scale:
        """Return the ratio scale for shares, count otherwise."""
        return Scale.RATIO if metric_name.startswith("Histogram.ratio.") else Scale.COUNT

    def check_parameters(self) -> None:
        """Require a number of bins from 1 to 1000."""
        check_number_of_bins(self, self.max_detail_bins)

    def statistic(self) -> str:
        """Return the statistic key of the column's values, or of their bins."""
        if self.binning is None:
            return super().statistic()
        identity = {"state": "frequencies", "binning": self.binning, "where": self.where}
        return canonical_json(identity)

    def grouping_expressions(self, schema: Schema) -> tuple[str, ...]:
        """Return the expression that gives the bins."""
        return (binned(schema, self.column, self.binning),)

    def kernel(self, schema: Schema) -> Kernel[FrequenciesAndNumRows] | None:
        """Count the values, unless SQL gives the bins."""
        return super().kernel(schema) if self.binning is None else None

    def fold(self, cells: Sequence[Any]) -> FrequenciesAndNumRows:
        """Return the frequencies; without results, the frequencies of no rows."""
        state = super().fold(cells)
        check_bins(self, state.frequencies)
        return state

    def measure(self, state: FrequenciesAndNumRows) -> Distribution:
        """Rank the groups by count and keep the most frequent."""
        counts: list[tuple[str, float]] = list(counts_by_key(state))
        if state.num_nulls:
            counts.append((NULL_KEY, state.num_nulls))
        largest, tail = ranked(counts, self.max_detail_bins)
        rows = self.weight(state)
        values = {key: DistributionValue(count, count / rows) for key, count in largest}
        return Distribution(values, len(counts), tail, self.ratios)

    def weight(self, state: FrequenciesAndNumRows) -> float:
        """Return the number of rows, nulls included."""
        return state.num_rows + state.num_nulls


SUM, ADDENDS = "sum", "addends"
_KEY_COLUMN = "0"
_MAX_ARROW_DIGITS = 76
"""Digits of the widest decimals in Arrow, which hold exact sums of any number of Spark's widest decimals."""


def addend(field: Field) -> str:
    """Return SQL for a numeric column in a type whose sum does not wrap: it is exact, or null."""
    if field.kind in INTEGRAL:
        return f"CAST({field.sql} AS DECIMAL(20, 0))"
    return field.sql if field.kind == "decimal" else f"CAST({field.sql} AS DOUBLE)"


@cache
def _nothing() -> pa.Table:
    import pyarrow as pa

    return pa.table(
        {_KEY_COLUMN: pa.nulls(0), SUM: pa.array([], pa.float64()), COUNT: pa.array([], pa.int64())}
    )


def _alike(tables: list[pa.Table]) -> list[pa.Table]:
    """Give sums one type: decimals with the most decimal places, or doubles if there are any."""
    import pyarrow as pa

    kinds = [table.schema.field(SUM).type for table in tables]
    exact = all(map(pa.types.is_decimal, kinds))
    kind = pa.decimal256(_MAX_ARROW_DIGITS, max(k.scale for k in kinds)) if exact else pa.float64()
    try:
        return [table.set_column(1, SUM, table[SUM].cast(kind)) for table in tables]
    except pa.ArrowInvalid as error:
        raise mismatch("types of sums", *sorted({str(k) for k in kinds})[:2]) from error


@register_state("group-sums/1")
@dataclass(frozen=True, slots=True, eq=False, init=False)
class GroupSums(State):
    """For each value of a column, including null: the number of rows and the sum of a number over these rows.

    Attributes
    ----------
    table : pyarrow.Table
        The values, ``sum`` (decimals, or doubles) and ``count``, one row per value.

    Examples
    --------
    >>> a = GroupSums.from_groups([("x", 2, 10), (None, 1, 1)])
    >>> b = GroupSums.from_groups([("x", 1, 2**70)])
    >>> sorted((a + b).as_dict().items(), key=str)
    [('x', (3, Decimal('1180591620717411303434'))), (None, (1, Decimal('1')))]
    """

    depends_on_types: ClassVar[bool] = True
    table: pa.Table

    def __init__(self, table: pa.Table | None = None) -> None:
        object.__setattr__(self, "table", _nothing() if table is None else table)

    @classmethod
    def from_groups(cls, groups: Iterable[tuple[Any, int, int | Decimal | float]]) -> Self:
        """Build a state from values, numbers of rows, and sums, which are either all exact or all floats."""
        import pyarrow as pa

        rows = list(groups)
        if not rows:
            return cls()
        values, counts, sums = (list(column) for column in zip(*rows, strict=True))
        floats = any(isinstance(number, float) for number in sums)
        numbers = pa.array(sums if floats else [Decimal(n) for n in sums])
        table = pa.table({_KEY_COLUMN: values, SUM: numbers, COUNT: pa.array(counts, pa.int64())})
        return cls(*_alike([table]))

    @classmethod
    def from_spark(cls, rows: pa.Table) -> Self:
        """Build a state from values, ``sum``, ``count``, and ``addends``: numbers that are not null.

        Raises
        ------
        MetricRuntimeError
            If a sum exceeds what Spark can add.
        """
        import pyarrow.compute as pc

        lacking = pc.is_null(rows[SUM])
        if pc.any(pc.and_(lacking, pc.greater(rows[ADDENDS], 0))).as_py():
            msg = "the sum of a group exceeds what Spark can add"
            raise MetricRuntimeError(msg)
        (table,) = _alike([rows.drop_columns(ADDENDS)]) if rows.num_rows else [None]
        if table is None:
            return cls()
        zero = pc.cast(0, table.schema.field(SUM).type)
        return cls(table.set_column(1, SUM, pc.fill_null(table[SUM], zero)))

    def combine(self, other: Self) -> Self:
        """Add the numbers of equal values; null equals null."""
        return self.merge([self, other])

    @classmethod
    def merge(cls, states: Iterable[Self]) -> Self:
        """Merge many states at once."""
        tables = [state.table for state in states if state.table.num_rows]
        return cls(added_up(_alike(tables), [_KEY_COLUMN], [SUM, COUNT])) if tables else cls()

    @property
    def num_rows(self) -> int:
        """Number of rows of all values."""
        return sum(self.table[COUNT].to_pylist())

    def sums(self) -> list[float]:
        """Return the sum of each value, in the order of the table."""
        return [float(number) for number in self.table[SUM].to_pylist()]

    def as_dict(self) -> dict[Any, tuple[int, Decimal | float]]:
        """Return number of rows and sum by value."""
        columns = (self.table[name].to_pylist() for name in (_KEY_COLUMN, COUNT, SUM))
        return {value: (count, number) for value, count, number in zip(*columns, strict=True)}

    def agrees_with(self, other: Self) -> bool:
        """Return whether values and numbers of rows are equal, and sums are equal except for rounding."""
        own_rows, other_rows = self._sorted(), other._sorted()
        return len(own_rows) == len(other_rows) and all(
            (a[0], a[1]) == (b[0], b[1]) and agree(a[2], b[2])
            for a, b in zip(own_rows, other_rows, strict=True)
        )

    def _sorted(self) -> list[tuple[str, int, Decimal | float]]:
        return sorted((repr(value), *numbers) for value, numbers in self.as_dict().items())

    def __eq__(self, other: object) -> bool:
        """Compare by content, ignoring the order of the values."""
        if not isinstance(other, GroupSums):
            return NotImplemented
        return repr(self._sorted()) == repr(other._sorted())

    def __hash__(self) -> int:
        """Hash the number of values and of rows."""
        return hash((self.table.num_rows, self.num_rows))

    def forget(self, value: str, token: str) -> Self:
        """Replace a string by a token, and leave out a value of another type."""
        table = without_value(self.table, [_KEY_COLUMN], value, token)
        return self if table is self.table else type(self)(table)

    def pack(self) -> bytes:
        """Serialize to a Parquet file."""
        return packed(self.table, 1)

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """Deserialize the output of `pack`."""
        import pyarrow as pa

        table = unpacked(payload)
        if table.column_names != [_KEY_COLUMN, SUM, COUNT] or not are_counts(table[COUNT]):
            msg = f"a Parquet file of {', '.join(table.column_names)}"
            raise ValueError(msg)
        kind = table[SUM].type
        if not (pa.types.is_decimal(kind) or pa.types.is_float64(kind)):
            msg = f"a Parquet file whose sums are of the type {kind}"
            raise ValueError(msg)
        return cls(table)


@dataclass(frozen=True)
class SumDistribution(Distribution):
    """Value of a HistogramOfSums metric.

    Attributes
    ----------
    values : mapping of str to DistributionValue
        The values with the greatest sums, the greatest first.
    number_of_bins : int
        Number of distinct values, null included.
    tail_count : float
        Sum of the numbers of all other values.
    ratios : bool
        Whether the metric has a number for the share of each value, in addition to its sum.
    """

    names: ClassVar[tuple[str, str, str]] = ("sum", "tailSum", "sum")


@analyzer
class HistogramOfSums(Filterable, Analyzer[GroupSums, SumDistribution]):
    """Sum of a numeric column for each value of another, and its share of all.

    Null is a value of the first column; in the second column it is ignored, so the sum of only nulls is 0. Integers and decimals are added exactly. One NaN makes a sum, and all shares, NaN;
    shares are also NaN if all sums add up to 0. Without rows, there are no bins.

    Parameters
    ----------
    column : str
        The column whose values are the bins.
    summed : str
        The column to add up.
    max_detail_bins : int
        Number of values to keep, by descending sum and then by value: 1 to 1000. The sums of the
        others are added.
    binning : str, optional
        Spark SQL for the bin of each row, instead of the column's value, as for `Histogram`.
    ratios : bool
        Whether the metric has the share of each value, in addition to its sum.

    Examples
    --------
    >>> state = GroupSums.from_groups([("a", 2, 30), ("b", 1, 10), (None, 1, 0)])
    >>> metric = HistogramOfSums("shop", "amount", max_detail_bins=1).compute_metric_from(state)
    >>> metric.value["a"], metric.value.number_of_bins, metric.value.tail_count, metric.weight
    (DistributionValue(absolute=30.0, ratio=0.75), 3, 10.0, 4)
    """

    scale: ClassVar[Scale] = Scale.SIGNED
    state_type: ClassVar[type[State]] = GroupSums
    state_bytes: ClassVar[int] = 1 << 15
    sql_options: ClassVar[tuple[str, ...]] = ("where", "binning")

    column: str
    summed: str
    max_detail_bins: int = MAX_DETAIL_BINS
    binning: str | None = field(default=None, kw_only=True)
    ratios: bool = field(default=True, kw_only=True)

    @property
    def grouping_columns(self) -> tuple[str, ...]:
        """Return both columns; their size limits the size of the states."""
        return (self.column, self.summed)

    @property
    def value_columns(self) -> tuple[str, ...]:
        """The column of the bins; sums are numbers for any type of the summed column."""
        return (self.column,)

    @property
    def entity(self) -> Entity:
        """Multicolumn."""
        return Entity.MULTICOLUMN

    @property
    def instance(self) -> str:
        """Both columns, the column of the bins first."""
        return f"{self.column},{self.summed}"

    def check_parameters(self) -> None:
        """Require a number of bins from 1 to 1000."""
        check_number_of_bins(self, self.max_detail_bins)

    def check_schema(self, schema: Schema) -> None:
        """Require a column that is not nested, and a numeric one."""
        self.requests(schema)

    def statistic(self) -> str:
        """Return the statistic key: of the values or bins, and of the numbers."""
        identity = {"state": "group-sums", "summed": self.summed, "where": self.where}
        bins = {"of": self.column} if self.binning is None else {"binning": self.binning}
        return canonical_json({**identity, **bins})

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Request the frequencies with the sums of numbers."""
        bins = (binned(schema, self.column, self.binning),)
        return (Frequencies(bins, self.where, addend(schema.numeric(self.summed))),)

    def fold(self, cells: Sequence[Any]) -> GroupSums:
        """Return the sums; without results, the sums of no rows.

        Raises
        ------
        MetricRuntimeError
            If a sum exceeds what Spark can add.
        """
        if cells[0] is None:
            return GroupSums()
        check_bins(self, cells[0])
        return GroupSums.from_spark(cells[0])

    def measure(self, state: GroupSums) -> SumDistribution:
        """Rank the groups by their sums and keep the greatest."""
        sums = list(zip(keys_of(state.table["0"]), state.sums(), strict=True))
        largest, tail = ranked(sums, self.max_detail_bins)
        total = sum(number for _, number in sums)
        values = {
            key: DistributionValue(number, number / total if total else nan)
            for key, number in largest
        }
        return SumDistribution(values, len(sums), float(tail), self.ratios)

    def weight(self, state: GroupSums) -> float:
        """Return the number of rows."""
        return state.num_rows


@dataclass(frozen=True, slots=True)
class Bin:
    """Half-open bin [``low``, ``high``); the last inner bin includes both ends.

    Attributes
    ----------
    low, high : float
        The bounds of the bin.
    absolute : float
        Number of values in the bin; an estimate if it comes from a sketch.
    ratio : float
        Share of all rows; of all sketched values for a KLLSketch.
    """

    low: float
    high: float
    absolute: float
    ratio: float


@dataclass(frozen=True)
class BinnedDistribution:
    """Value of a HistogramBinned metric.

    Attributes
    ----------
    bins : tuple of Bin
        In ascending order, without gaps.
    null_count, nan_count, out_of_range : int
        Numbers of rows in no bin.

    Examples
    --------
    >>> found = BinnedDistribution((Bin(0, 10, 3, 0.75), Bin(10, 20, 0, 0.0)), null_count=1)
    >>> found[0].absolute, len(found.bins), dict(found.scalars())["nullCount"]
    (3, 2, 1)
    """

    bins: tuple[Bin, ...]
    null_count: int = 0
    nan_count: int = 0
    out_of_range: int = 0

    def __getitem__(self, index: int) -> Bin:
        return self.bins[index]

    def scalars(self) -> Iterator[tuple[str, float]]:
        """Yield ``bins``, edges, count and share of each bin, and the counts of unbinned rows."""
        yield "bins", len(self.bins)
        for i, bin_ in enumerate(self.bins):
            yield f"low.bin{i}", bin_.low
            yield f"high.bin{i}", bin_.high
            yield f"abs.bin{i}", bin_.absolute
            yield f"ratio.bin{i}", bin_.ratio
        yield "nullCount", self.null_count
        if self.nan_count:
            yield "nanCount", self.nan_count
        if self.out_of_range:
            yield "outOfRange", self.out_of_range


HistogramBinnedMetric = Metric[BinnedDistribution]
FEWEST_EDGES, FEWEST_WITH_OVERFLOW = 2, 3


@analyzer
class HistogramBinned(GroupingAnalyzer[BinnedDistribution]):
    """Histogram of a numeric column; bins exclude their upper bound, except the last bin.

    Give either the number of bins, which have equal width from the smallest to the largest finite value, or
    the edges. With edges, the state has one count per bin. Without edges, it has every distinct value,
    because the bins of merged partitions differ from each partition's bins. A column with one value has one
    bin, and a column without finite values has none. Nulls, NaN and values beyond the edges are counted
    separately. Empty metric at zero rows.

    Parameters
    ----------
    column : str
        The column.
    bin_count : int
        Number of bins, including the two overflow bins; 0 if edges are given.
    custom_edges : sequence of float
        Two or more finite numbers, strictly increasing.
    include_overflow_bins : bool
        Add a bin below the first edge and one above the last.

    Examples
    --------
    >>> state = FrequenciesAndNumRows.from_groups([((1,), 3), ((4,), 1), ((5,), 2)])
    >>> metric = HistogramBinned("x", 2).compute_metric_from(state)
    >>> [(b.low, b.high, b.absolute) for b in metric.value.bins]
    [(1.0, 3.0, 3), (3.0, 5.0, 3)]
    """

    scale: ClassVar[Scale] = Scale.COUNT

    column: str
    bin_count: int = 0
    custom_edges: tuple[float, ...] = ()
    include_overflow_bins: bool = False

    @property
    def grouping_columns(self) -> tuple[str, ...]:
        """The column to group by."""
        return (self.column,)

    def scale_of(self, metric_name: str) -> Scale:
        """Return the ratio scale for shares, signed for edges, count otherwise."""
        kind = metric_name.partition(".")[2].partition(".")[0]
        return {"ratio": Scale.RATIO, "low": Scale.SIGNED, "high": Scale.SIGNED}.get(
            kind, Scale.COUNT
        )

    def check_parameters(self) -> None:
        """Require either a number of bins or strictly increasing, finite edges."""
        edges = self.custom_edges
        if bool(edges) == bool(self.bin_count):
            msg = f"{self!r}: give either bin_count, at least 1, or custom_edges"
            raise IllegalAnalyzerParameterError(msg)
        rising = all(a < b for a, b in pairwise(edges))
        if edges and (len(edges) < FEWEST_EDGES or not rising or not all(map(isfinite, edges))):
            msg = f"{self!r}: custom_edges must be at least two finite numbers in increasing order"
            raise IllegalAnalyzerParameterError(msg)
        fewest = FEWEST_WITH_OVERFLOW if self.include_overflow_bins else 1
        if not edges and self.bin_count < fewest:
            msg = f"{self!r}: bin_count must be at least {fewest}"
            raise IllegalAnalyzerParameterError(msg)

    def check_schema(self, schema: Schema) -> None:
        """Require a numeric column."""
        schema.numeric(self.column)

    def statistic(self) -> str:
        """Return the statistic key; without edges, the key of the column's frequencies."""
        if not self.custom_edges:
            return super().statistic()
        return canonical_json(
            {
                "state": "frequencies",
                "columns": [self.column],
                "edges": list(self.custom_edges),
                "where": self.where,
            }
        )

    def grouping_expressions(self, schema: Schema) -> tuple[str, ...]:
        """Return the expression to group by: the value, or its bin number if edges are given.

        With n edges: -1 below the first, 0 to n - 2 for the bins, n - 1 above the last, n for NaN.
        """
        sql = schema.numeric(self.column).sql
        if not self.custom_edges:
            return (sql,)
        value = f"CAST({sql} AS DOUBLE)"
        n = len(self.custom_edges)
        tests = [
            f"WHEN {sql} IS NULL THEN NULL",
            f"WHEN isnan({value}) THEN {n}",
            *(f"WHEN {value} < {edge!r}D THEN {i - 1}" for i, edge in enumerate(self.custom_edges)),
            f"WHEN {value} = {self.custom_edges[-1]!r}D THEN {n - 2}",
        ]
        return (f"CASE {' '.join(tests)} ELSE {n - 1} END",)

    def measure(self, state: FrequenciesAndNumRows) -> BinnedDistribution:
        """Count the values in each bin."""
        if not self.weight(state):
            raise self.no_data()
        placed = self._placed(state) if self.custom_edges else self._binned(state)
        edges, counts, below, above, nan = placed
        rows = self.weight(state)
        if self.include_overflow_bins and counts:
            edges, counts = [-inf, *edges, inf], [below, *counts, above]
            below = above = 0
        bins = tuple(
            Bin(low, high, count, count / rows)
            for (low, high), count in zip(pairwise(edges), counts, strict=True)
        )
        return BinnedDistribution(bins, state.num_nulls, nan, below + above)

    def _placed(self, state: FrequenciesAndNumRows) -> _Placed:
        count_by_place = {int(number): count for (number,), count in state.groups()}
        n = len(self.custom_edges)
        counts = [count_by_place.get(i, 0) for i in range(n - 1)]
        edges = list(self.custom_edges)
        return (
            edges,
            counts,
            count_by_place.get(-1, 0),
            count_by_place.get(n - 1, 0),
            count_by_place.get(n, 0),
        )

    def _binned(self, state: FrequenciesAndNumRows) -> _Placed:
        import numpy as np

        if not state.num_rows:
            return [], [], 0, 0, 0
        values = state.frequencies["0"].cast("float64", safe=False).to_numpy()
        counts = state.frequencies[COUNT].to_numpy()
        finite = np.isfinite(values)
        nan = int(counts[np.isnan(values)].sum())
        below, above = (int(counts[values == end].sum()) for end in (-inf, inf))
        if not finite.any():
            return [], [], below, above, nan
        low, high = float(values[finite].min()), float(values[finite].max())
        number = self.bin_count - 2 * self.include_overflow_bins
        check_width(self, low, high)
        if low == high:
            return [low, high], [int(counts[finite].sum())], below, above, nan
        edges = np.linspace(low, high, number + 1)
        bin_counts, _ = np.histogram(values[finite], bins=edges, weights=counts[finite])
        return edges.tolist(), bin_counts.astype(int).tolist(), below, above, nan

    def weight(self, state: FrequenciesAndNumRows) -> float:
        """Return the number of rows, nulls included."""
        return state.num_rows + state.num_nulls


def check_width(analyzer: AnyAnalyzer, low: float, high: float) -> None:
    """Raise `MetricRuntimeError` if the width of a range is not a finite number."""
    if not isfinite(high - low):
        msg = f"{analyzer!r}: cannot make bins of equal width from {low} to {high}"
        raise MetricRuntimeError(msg)


_Placed = tuple[list[float], list[int], int, int, int]


@dataclass(frozen=True)
class BucketDistribution:
    """Value of a KLLSketch metric.

    Attributes
    ----------
    buckets : tuple of Bin
        The bins, of equal width, from the smallest to the largest value.
    rank_error : float
        A bucket's count is off by at most twice this share of all values, at 99% confidence.
    state : KllState
        The sketch that they were computed from.

    Examples
    --------
    >>> found = BucketDistribution((Bin(0, 5, 2, 0.5), Bin(5, 10, 2, 0.5)), rank_error=0.01)
    >>> [(bucket.low, bucket.high, bucket.absolute) for bucket in found.buckets]
    [(0, 5, 2), (5, 10, 2)]
    """

    buckets: tuple[Bin, ...]
    rank_error: float
    state: KllState = field(default=KllState(), repr=False, compare=False)

    def __getitem__(self, index: int) -> Bin:
        return self.buckets[index]

    def percentiles(self) -> list[float]:
        """Return the 1st to the 100th percentile, from the sketch; Deequ's ``computePercentiles``."""
        return self.state.quantiles([rank / 100 for rank in range(1, 101)])

    def scalars(self) -> Iterator[tuple[str, float]]:
        """Yield ``buckets``, then the edges and count of each bucket by its index."""
        yield "buckets", len(self.buckets)
        for i, bucket in enumerate(self.buckets):
            yield f"low.{i}", bucket.low
            yield f"high.{i}", bucket.high
            yield f"count.{i}", bucket.absolute


KLLMetric = Metric[BucketDistribution]
MAX_BUCKETS = 100


@analyzer
class KLLSketch(ColumnAnalyzer[KllState, BucketDistribution]):
    """Histogram of a numeric column in equal-width buckets, estimated from a KLL quantile sketch.

    As in Deequ, its metric is named KLL. Nulls and NaN are ignored; empty metric if there are
    no other values. An infinite value is an error, because equal widths are then undefined. It shares its
    sketch with an `ApproxQuantile` of the same size.

    Parameters
    ----------
    column : str
        The column.
    sketch_size : int
        The sketch parameter k, 8 to 65535; the rank error is about 2.3 / k ** 0.97.
    number_of_buckets : int
        1 to 100.

    Examples
    --------
    >>> KLLSketch("delay", number_of_buckets=10).name
    'KLL'
    """

    scale: ClassVar[Scale] = Scale.COUNT
    state_type: ClassVar[type[State]] = KllState
    state_bytes: ClassVar[int] = 1 << 16
    accepts: ClassVar[str] = "numeric"

    sketch_size: int = 2048
    number_of_buckets: int = MAX_BUCKETS

    @property
    def name(self) -> str:
        """Deequ's name of the metric."""
        return "KLL"

    def scale_of(self, metric_name: str) -> Scale:
        """Return the signed scale for edges, count otherwise."""
        return Scale.SIGNED if ".low." in metric_name or ".high." in metric_name else Scale.COUNT

    def check_parameters(self) -> None:
        """Require a valid sketch size and number of buckets."""
        if not MIN_K <= self.sketch_size <= MAX_K:
            msg = f"{self!r}: sketch_size must be between {MIN_K} and {MAX_K}"
            raise IllegalAnalyzerParameterError(msg)
        if not 1 <= self.number_of_buckets <= MAX_BUCKETS:
            msg = f"{self!r}: number_of_buckets must be between 1 and {MAX_BUCKETS}"
            raise IllegalAnalyzerParameterError(msg)

    def statistic(self) -> str:
        """Return the statistic key of the sketch."""
        return kll_statistic(self.column, self.sketch_size, self.where)

    def aggregations(self, schema: Schema) -> Sequence[Sketch]:
        """Return the sketch."""
        return (Sketch("kll", self.doubles(schema), self.sketch_size),)

    def kernel(self, schema: Schema) -> Kernel[KllState] | None:
        """Sketch the values, without NaN."""
        columns = schema.top_level(self.field(schema))
        if columns is None:
            return None
        (column,) = columns
        return Kernel(columns, lambda group: kll_in(group, column, self.sketch_size))

    def fold(self, cells: Sequence[Any]) -> KllState:
        """Return the state of the sketch."""
        return KllState.from_sketches(cells[0])

    def measure(self, state: KllState) -> BucketDistribution:
        """Compute the bucket counts from the ranks of the edges."""
        if not state.sketch:
            raise self.no_data()
        low, high = state.quantiles([0.0, 1.0])
        check_width(self, low, high)
        number = self.number_of_buckets if low < high else 1
        edges = [low + (high - low) * i / number for i in range(number)] + [high]
        # Values strictly below each edge, and all at the last edge, which the last bucket includes.
        below = [round(rank * state.count) for rank in state.ranks_below(edges[:-1])]
        counts = [b - a for a, b in pairwise([*below, state.count])]
        buckets = tuple(
            Bin(low, high, count, count / state.count)
            for (low, high), count in zip(pairwise(edges), counts, strict=True)
        )
        return BucketDistribution(buckets, state.rank_error(), state)

    def interval(self, state: KllState) -> Mapping[str, Interval]:
        """Return the bounds of each count: twice the rank error on either side."""
        distribution = self.measure(state)
        error = 2 * distribution.rank_error * state.count
        return {
            f"count.{i}": Interval(
                max(b.absolute - error, 0.0), b.absolute + error, RANK_CONFIDENCE
            )
            for i, b in enumerate(distribution.buckets)
        }
