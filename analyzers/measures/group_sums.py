"""Sums of a column by the values of another: HistogramOfSums."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from math import nan
from typing import TYPE_CHECKING, Any, ClassVar, Self

from tidegauge.analyzers.core.analyzer import Analyzer, Filterable, analyzer
from tidegauge.analyzers.core.description import canonical_json
from tidegauge.analyzers.core.errors import MetricRuntimeError
from tidegauge.analyzers.core.exact import agree
from tidegauge.analyzers.core.metric import Entity, Scale
from tidegauge.analyzers.core.requests import Frequencies, Request
from tidegauge.analyzers.core.schema import INTEGRAL, Field, Schema
from tidegauge.analyzers.core.state import State, mismatch, register_state
from tidegauge.analyzers.measures.frequencies import (
    COUNT,
    added_up,
    are_counts,
    packed,
    unpacked,
    without_value,
)
from tidegauge.analyzers.measures.histogram import (
    MAX_DETAIL_BINS,
    Distribution,
    DistributionValue,
    binned,
    check_bins,
    check_number_of_bins,
    keys_of,
    ranked,
)

if TYPE_CHECKING:
    import pyarrow as pa

SUM, ADDENDS = "sum", "addends"
_KEY = "0"
_DIGITS = 76
"""Digits of the widest decimals in Arrow: exact sums of as many of the widest in Spark as there can be."""


def addend(of: Field) -> str:
    """Return SQL for a numeric column in a type whose sum does not wrap: it is exact, or null."""
    if of.kind in INTEGRAL:
        return f"CAST({of.sql} AS DECIMAL(20, 0))"
    return of.sql if of.kind == "decimal" else f"CAST({of.sql} AS DOUBLE)"


@cache
def _nothing() -> pa.Table:
    import pyarrow as pa

    return pa.table(
        {_KEY: pa.nulls(0), SUM: pa.array([], pa.float64()), COUNT: pa.array([], pa.int64())}
    )


def _alike(tables: list[pa.Table]) -> list[pa.Table]:
    """Give sums one type: decimals with the most decimal places, or doubles if there are any."""
    import pyarrow as pa

    kinds = [table.schema.field(SUM).type for table in tables]
    exact = all(map(pa.types.is_decimal, kinds))
    kind = pa.decimal256(_DIGITS, max(k.scale for k in kinds)) if exact else pa.float64()
    try:
        return [table.set_column(1, SUM, table[SUM].cast(kind)) for table in tables]
    except pa.ArrowInvalid as error:
        raise mismatch("types of sums", *sorted({str(k) for k in kinds})[:2]) from error


@register_state("group-sums/1")
@dataclass(frozen=True, slots=True, eq=False, init=False)
class GroupSums(State):
    """Number of rows of each value of a column, null included, and the sum of a number of these rows.

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
        """Build a state from values, numbers of rows, and sums; all exact, or all floats."""
        import pyarrow as pa

        rows = list(groups)
        if not rows:
            return cls()
        values, counts, sums = (list(column) for column in zip(*rows, strict=True))
        floats = any(isinstance(number, float) for number in sums)
        numbers = pa.array(sums if floats else [Decimal(n) for n in sums])
        table = pa.table({_KEY: values, SUM: numbers, COUNT: pa.array(counts, pa.int64())})
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
        return cls(added_up(_alike(tables), [_KEY], [SUM, COUNT])) if tables else cls()

    @property
    def num_rows(self) -> int:
        """Number of rows of all values."""
        return sum(self.table[COUNT].to_pylist())

    def sums(self) -> list[float]:
        """Return the sum of each value, in the order of the table."""
        return [float(number) for number in self.table[SUM].to_pylist()]

    def as_dict(self) -> dict[Any, tuple[int, Decimal | float]]:
        """Return number of rows and sum by value."""
        columns = (self.table[name].to_pylist() for name in (_KEY, COUNT, SUM))
        return {value: (count, number) for value, count, number in zip(*columns, strict=True)}

    def agrees_with(self, other: Self) -> bool:
        """Return whether values and numbers of rows are equal, and sums equal but for rounding."""
        ours, theirs = self._sorted(), other._sorted()
        return len(ours) == len(theirs) and all(
            (a[0], a[1]) == (b[0], b[1]) and agree(a[2], b[2])
            for a, b in zip(ours, theirs, strict=True)
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
        """Replace a text by a token, and leave out a value of another type."""
        table = without_value(self.table, [_KEY], value, token)
        return self if table is self.table else type(self)(table)

    def pack(self) -> bytes:
        """Serialize to a Parquet file."""
        return packed(self.table, 1)

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """Deserialize the output of `pack`."""
        import pyarrow as pa

        table = unpacked(payload)
        if table.column_names != [_KEY, SUM, COUNT] or not are_counts(table[COUNT]):
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
        Whether the metric has a number for the share of each value, beside its sum.
    """

    names: ClassVar[tuple[str, str, str]] = ("sum", "tailSum", "sum")


@analyzer
class HistogramOfSums(Filterable, Analyzer[GroupSums, SumDistribution]):
    """Sum of a numeric column for each value of another, and its share of all.

    Null is a value of the first column; in the second it is ignored, so that the sum of nothing but
    nulls is 0. Integers and decimals are added exactly. One NaN makes a sum, and all shares, NaN;
    shares are NaN, too, if all sums add up to 0. No bins for no rows.

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
        Spark SQL for the bin of each row, instead of the column's value, as of `Histogram`.
    ratios : bool
        Whether the metric has the share of each value, beside its sum.

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
        """Both columns; their size bounds that of the states."""
        return (self.column, self.summed)

    @property
    def value_columns(self) -> tuple[str, ...]:
        """The column of the bins; sums are numbers whatever the type of the summed column."""
        return (self.column,)

    @property
    def entity(self) -> Entity:
        """Multicolumn."""
        return Entity.MULTICOLUMN

    @property
    def instance(self) -> str:
        """Both columns, that of the bins first."""
        return f"{self.column},{self.summed}"

    def check_parameters(self) -> None:
        """Require a number of bins from 1 to 1000."""
        check_number_of_bins(self, self.max_detail_bins)

    def check_schema(self, schema: Schema) -> None:
        """Require a column that is not nested, and a numeric one."""
        self.requests(schema)

    def statistic(self) -> str:
        """Return the statistic key: of the values or bins, and of the numbers."""
        told = {"state": "group-sums", "summed": self.summed, "where": self.where}
        bins = {"of": self.column} if self.binning is None else {"binning": self.binning}
        return canonical_json({**told, **bins})

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Request the frequencies with the sums of numbers."""
        bins = (binned(schema, self.column, self.binning),)
        return (Frequencies(bins, self.where, addend(schema.numeric(self.summed))),)

    def fold(self, cells: Sequence[Any]) -> GroupSums:
        """Return the sums; without any, those of no rows.

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
        kept, tail = ranked(sums, self.max_detail_bins)
        total = sum(number for _, number in sums)
        values = {
            key: DistributionValue(number, number / total if total else nan) for key, number in kept
        }
        return SumDistribution(values, len(sums), float(tail), self.ratios)

    def weight(self, state: GroupSums) -> float:
        """Return the number of rows."""
        return state.num_rows
