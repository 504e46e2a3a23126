"""Columns and statistics of Parquet files, from which analyzers compute states without Spark.

An analyzer declares its `Kernel` in `Analyzer.kernel`. The kernel computes a state from the metadata of a
partition or, if the metadata does not determine it, from the columns of each row group. The states of the row
groups are merged, as the states of partitions are. Both ways return the state that Spark's aggregates give: equal
if the data determines the state, and equal within rounding for sums and moments of floating-point numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import reduce
from math import ceil, floor, inf
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from tidegauge.analyzers.core.conditions import (
    OneOf,
    Present,
    Within,
    known_sql,
    parse_condition,
    split_conjunction,
)
from tidegauge.analyzers.core.errors import PreconditionError
from tidegauge.analyzers.core.hashes import (
    hash_doubles,
    hash_integers,
    hash_longs,
    hash_strings,
)
from tidegauge.analyzers.core.schema import EXACT_DIGITS, INTEGRAL, Schema
from tidegauge.analyzers.core.sql import quote
from tidegauge.analyzers.core.state import Number, State

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

S = TypeVar("S", bound=State)

_EARLIEST_EXACT_MICROS = -2_208_988_800_000_000
"""1900-01-01 in microseconds since 1970. Spark converts earlier times, depending on the writer of the file and on
its settings, between the Julian and the Gregorian calendar, and between local mean times and UTC."""
_LATEST_EXACT_MICROS = 2**63 - 1
"""The latest time of Spark: the largest number of 64 bits. Spark fails on later dates and milliseconds."""
DAY_MICROS = 86_400_000_000
_UNIT_MICROS = {"s": 1_000_000, "ms": 1000, "us": 1}
_WORD_BITS = 32
"""Bits of each half of a 64-bit integer. Halves are summed separately, so no sum of a row group overflows."""


class InexactError(Exception):
    """The columns or statistics of a file do not determine the state that Spark computes."""


class PartitionMetadata(Protocol):
    """Metadata of all files of a partition. Results are None if the metadata does not determine them."""

    @property
    def rows(self) -> int:
        """The number of rows."""

    def values(self, column: str) -> int | None:
        """Return the number of values that are not null."""

    def lower(self, column: str) -> Number | None:
        """Return the minimum of numbers. NaN is the greatest number, so the minimum is known without it."""

    def bounds(self, column: str) -> tuple[Number | None, Number | None] | None:
        """Return the minimum and maximum of numbers; both are None if all values are null."""

    def times(self, column: str) -> tuple[int, int] | None:
        """Return the earliest and latest time in microseconds; (0, 0) if all values are null."""


@dataclass(frozen=True)
class Kernel(Generic[S]):
    """Computes an analyzer's state from Parquet files.

    Attributes
    ----------
    columns : tuple of str
        The top-level columns that `from_rows` reads.
    from_rows : callable
        Returns the state of a `RowGroup`; raises `InexactError` if only Spark can compute it.
    from_metadata : callable
        Returns the state of a partition from `PartitionMetadata`; None if the metadata does not determine it.
    count_values : callable or None
        Returns the number of distinct values in a state; None if the size of states is bounded.
    """

    columns: tuple[str, ...]
    from_rows: Callable[[RowGroup], S]
    from_metadata: Callable[[PartitionMetadata], S | None] = lambda _: None
    count_values: Callable[[S], int] | None = None

    def where(self, row_filter: RowFilter) -> Kernel[S]:
        """Return the kernel of the rows on which a condition is true."""
        columns = tuple(dict.fromkeys((*self.columns, *row_filter.columns)))
        return Kernel(
            columns,
            lambda group: self.from_rows(group.where(row_filter)),
            count_values=self.count_values,
        )


@dataclass(frozen=True)
class RowFilter:
    """Conditions on single columns, joined by AND, that NumPy evaluates like Spark.

    Attributes
    ----------
    parts : tuple of ColumnCondition
        The conditions.
    """

    parts: tuple[ColumnCondition, ...]

    @classmethod
    def from_sql(cls, condition: str, schema: Schema) -> RowFilter | None:
        """Return the filter of a condition; None if only Spark can evaluate it.

        Examples
        --------
        >>> schema = Schema.from_types({"x": "long", "s": "string"})
        >>> RowFilter.from_sql("coalesce(X, 0) >= 0 AND s = 'a'", schema).columns
        ('x', 's')
        >>> RowFilter.from_sql("s > 0", schema), RowFilter.from_sql("x > length(s)", schema)
        (None, None)
        """
        parts = [ColumnCondition.from_sql(part, schema) for part in split_conjunction(condition)]
        known = tuple(part for part in parts if part is not None)
        return cls(known) if len(known) == len(parts) else None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the conditions."""
        return tuple(dict.fromkeys(part.column for part in self.parts))

    def matches(self, group: RowGroup) -> npt.NDArray[np.bool_]:
        """Return for each row whether all conditions are true."""
        import numpy as np

        return np.logical_and.reduce([part.matches(group) for part in self.parts])  # type: ignore[no-any-return]

    def is_known(self, group: RowGroup) -> npt.NDArray[np.bool_]:
        """Return for each row whether the conditions joined by AND are true or false, and not null.

        They are false if one of them is, even if others are null.
        """
        import numpy as np

        known = [part.is_known(group) for part in self.parts]
        is_false = [k & ~part.matches(group) for k, part in zip(known, self.parts, strict=True)]
        return np.logical_and.reduce(known) | np.logical_or.reduce(is_false)  # type: ignore[no-any-return]

    def counts_in(self, metadata: PartitionMetadata) -> tuple[int, int] | None:
        """Return on how many rows the conditions are true, and on how many they are not null.

        None if the metadata does not determine both, as for several conditions.
        """
        if len(self.parts) > 1:
            return None
        matches, values = self.parts[0].count_in(metadata), metadata.values(self.parts[0].column)
        if matches is None or values is None:
            return None
        return matches, metadata.rows if self.parts[0].is_never_null else values


@dataclass(frozen=True)
class ColumnCondition:
    """A condition on one column that NumPy evaluates like Spark.

    Attributes
    ----------
    column : str
        The column.
    kind : str
        The column's type.
    form : Present, OneOf or Within
        The condition.
    is_never_null : bool
        Whether the condition is true or false for null, too.
    """

    column: str
    kind: str
    form: Present | OneOf | Within
    is_never_null: bool

    @classmethod
    def from_sql(cls, condition: str, schema: Schema) -> ColumnCondition | None:
        """Return the condition; None if only Spark can evaluate it."""
        form = parse_condition(condition)
        if not isinstance(form, Present | OneOf | Within):
            return None
        try:
            field = schema.field(quote(form.column))
        except PreconditionError:
            return None
        columns = schema.top_level(field)
        if columns is None or not (isinstance(form, Present) or _is_comparable(form, field.kind)):
            return None
        known = {"1": True, field.sql: False}.get(known_sql(condition, schema))
        # Spark may round a constant with many digits.
        return None if known is None else cls(columns[0], field.kind, form, known)

    def is_known(self, group: RowGroup) -> npt.NDArray[np.bool_]:
        """Return for each row whether the condition is true or false, and not null."""
        import numpy as np

        return np.ones(group.rows, bool) if self.is_never_null else group.is_present(self.column)

    def matches(self, group: RowGroup) -> npt.NDArray[np.bool_]:
        """Return for each row whether the condition is true."""
        key = ("matches", self.column, repr(self.form))
        return group.cached(key, lambda: self._matches(group))  # type: ignore[no-any-return]

    def _matches(self, group: RowGroup) -> npt.NDArray[np.bool_]:
        import numpy as np

        is_present = group.is_present(self.column)
        if isinstance(self.form, Present):
            return is_present
        result = np.full(group.rows, self.form.nulls)
        values = group.columns[self.column].drop_null()
        if self.kind == "string":
            assert isinstance(self.form, OneOf)
            result[is_present] = _is_in(values, self.form.values)
        else:
            result[is_present] = self._holds(values.to_numpy(zero_copy_only=False))
        return result

    def count_in(self, metadata: PartitionMetadata) -> int | None:
        """Return on how many rows the condition is true; None if the metadata does not determine it.

        The extremes decide if all values satisfy the condition, or none.
        """
        values = metadata.values(self.column)
        if values is None or isinstance(self.form, Present):
            return values
        nulls = metadata.rows - values if self.form.nulls else 0
        if not values:
            return nulls
        if self.kind == "string":
            return None
        low, high = metadata.bounds(self.column) or (metadata.lower(self.column), inf)
        if isinstance(low, Decimal | None) or isinstance(high, Decimal | None):
            return None
        holds = self._holds_between(low, high)
        return None if holds is None else nulls + values * holds

    def _holds_between(self, low: float, high: float) -> bool | None:
        """Return whether the condition is true for all numbers of a range; None if it differs."""
        form = self.form
        assert not isinstance(form, Present)
        if isinstance(form, OneOf):
            has_some = any(low <= value <= high for value in form.values)
            return None if has_some and low != high else has_some
        if form.holds(low) and form.holds(high):
            return True
        lower, upper = form.lower, form.upper
        is_below = lower is not None and (high < lower or (high == lower and not form.has_lower))
        is_above = upper is not None and (low > upper or (low == upper and not form.has_upper))
        return False if is_below or is_above else None

    def _holds(self, numbers: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Return for each number whether the condition is true; NaN is the greatest number."""
        import numpy as np

        form = self.form
        if numbers.dtype.kind == "f":
            numbers = numbers.astype(np.float64)
        if isinstance(form, OneOf):
            result = np.zeros(len(numbers), bool)
            for value in form.values:
                if numbers.dtype.kind == "f" or value == int(value):
                    result |= numbers == (value if numbers.dtype.kind == "f" else int(value))
            return result
        assert isinstance(form, Within)
        result = np.ones(len(numbers), bool)
        if form.lower is not None:
            low = form.lower if numbers.dtype.kind == "f" else floor(form.lower)
            is_reached = form.has_lower and low == form.lower
            result &= (numbers >= low if is_reached else numbers > low) | (numbers != numbers)  # noqa: PLR0124 - NaN
        if form.upper is not None:
            high = form.upper if numbers.dtype.kind == "f" else ceil(form.upper)
            is_reached = form.has_upper and high == form.upper
            result &= numbers <= high if is_reached else numbers < high
        return result


def _is_in(strings: pa.Array, constants: Sequence[Any]) -> npt.NDArray[np.bool_]:
    """Return for each string, none of which is null, whether it is one of the constants."""
    import pyarrow as pa
    import pyarrow.compute as pc

    is_coded = pa.types.is_dictionary(strings.type)
    values = strings.dictionary if is_coded else strings
    is_match = pc.is_in(values, pa.array(constants, values.type)).to_numpy(zero_copy_only=False)
    return is_match[strings.indices.to_numpy()] if is_coded else is_match  # type: ignore[no-any-return]


_MAX_EXACT_LITERAL = {"float": 1 << 24, "double": 1 << 53}
"""Greatest whole number up to which all whole numbers are values of a type."""


def _is_comparable(form: OneOf | Within, kind: str) -> bool:
    """Return whether NumPy compares a column of a type with the constants as Spark does."""
    if isinstance(form, OneOf):
        constants = list(form.values)
        if kind == "string":
            return all(isinstance(value, str) for value in constants)
    else:
        constants = [value for value in (form.lower, form.upper) if value is not None]
    if any(isinstance(value, str | bool) for value in constants):
        return False
    limit = _MAX_EXACT_LITERAL.get(kind, (1 << 63) - 1)
    if kind in INTEGRAL and any(isinstance(value, float) for value in constants):
        limit = _MAX_EXACT_LITERAL["double"] - 1  # Spark may compare the values as doubles
    is_number = kind in {*INTEGRAL, *_MAX_EXACT_LITERAL}
    return is_number and all(abs(value) <= limit for value in constants)


@dataclass
class RowGroup:
    """Columns of one row group. Results that several analyzers need are computed once.

    Attributes
    ----------
    rows : int
        The number of rows.
    columns : mapping of str to pyarrow.Array
        The columns by name. Strings are dictionary-encoded if they are in the file. A column that the file lacks
        is an array of nulls.
    """

    rows: int
    columns: Mapping[str, pa.Array]
    _cache: dict[tuple[str, ...], Any] = field(default_factory=dict, repr=False)

    def cached(self, key: tuple[str, ...], compute: Callable[[], Any]) -> Any:
        """Return the result that was stored under a key, or compute and store it."""
        if key not in self._cache:
            self._cache[key] = compute()
        return self._cache[key]

    def where(self, row_filter: RowFilter) -> RowGroup:
        """Return the rows on which a condition is true."""
        return self.cached(("where", repr(row_filter)), lambda: self._where(row_filter))  # type: ignore[no-any-return]

    def _where(self, row_filter: RowFilter) -> RowGroup:
        import pyarrow as pa

        mask = row_filter.matches(self)
        is_match = pa.array(mask)
        columns = {name: array.filter(is_match) for name, array in self.columns.items()}
        return RowGroup(int(mask.sum()), columns)

    def values(self, column: str) -> int:
        """Return the number of values that are not null."""
        array = self.columns[column]
        return len(array) - int(array.null_count)

    def is_present(self, column: str) -> npt.NDArray[np.bool_]:
        """Return for each row whether the value is not null."""
        import pyarrow.compute as pc

        array = self.columns[column]
        return self.cached(  # type: ignore[no-any-return]
            ("is_present", column), lambda: pc.is_valid(array).to_numpy(zero_copy_only=False)
        )

    def doubles(self, column: str) -> npt.NDArray[np.float64]:
        """Return the values of a numeric column that are not null, as doubles."""
        return self.cached(  # type: ignore[no-any-return]
            ("doubles", column), lambda: _as_doubles(self.columns[column].drop_null())
        )

    def pairs(
        self, first: str, second: str
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return two columns as doubles, in the rows where both are not null."""
        import pyarrow.compute as pc

        if not self.columns[first].null_count and not self.columns[second].null_count:
            return self.doubles(first), self.doubles(second)
        is_present = pc.and_(pc.is_valid(self.columns[first]), pc.is_valid(self.columns[second]))
        x, y = (_as_doubles(self.columns[name].filter(is_present)) for name in (first, second))
        return x, y

    def bounds(self, column: str) -> tuple[Number | None, Number | None]:
        """Return the minimum and maximum; NaN is the greatest number. Both are None without values."""
        return self.cached(  # type: ignore[no-any-return]
            ("bounds", column), lambda: _bounds(self.columns[column])
        )

    def total(self, column: str) -> Number:
        """Return the sum, exact unless the values are floats; 0 without values."""
        return self.cached(("total", column), lambda: self._total(column))  # type: ignore[no-any-return]

    def _total(self, column: str) -> Number:
        import numpy as np
        import pyarrow as pa

        array = self.columns[column].drop_null()
        if not len(array):
            return 0
        if pa.types.is_decimal(array.type):
            return decimal_from(_decimal_total(array), array.type.scale)
        if pa.types.is_integer(array.type):
            return _integer_total(array.to_numpy(zero_copy_only=False))
        with np.errstate(invalid="ignore", over="ignore"):
            return float(self.doubles(column).sum())

    def identities(self, column: str) -> npt.NDArray[np.int64]:
        """Return longs of `Field.hash_sql` that include each distinct one at least once; nulls are left out.

        Raises
        ------
        InexactError
            If the type's hash is not known, or a time is before 1900.
        """
        return self.cached(("identities", column), lambda: self._identities(column))  # type: ignore[no-any-return]

    def _identities(self, column: str) -> npt.NDArray[np.int64]:
        import pyarrow as pa

        kind = self.columns[column].type
        if is_text(kind):
            return hash_strings(self.strings(column)[0])
        if pa.types.is_temporal(kind):
            self.times(column)  # raises for times that Spark may convert
        return _identities(self.columns[column].drop_null())

    def hashes(self, column: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the distinct longs of `Field.hash_sql`, and their numbers of rows; nulls are left out.

        Raises
        ------
        InexactError
            If the type's hash is not known, or a time is before 1900.
        """
        return self.cached(("hashes", column), lambda: self._hashes(column))  # type: ignore[no-any-return]

    def _hashes(self, column: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        import numpy as np
        import pyarrow as pa

        longs = self.identities(column)
        if pa.types.is_dictionary(self.columns[column].type):
            return longs, self.strings(column)[1]
        distinct, counts = np.unique(longs, return_counts=True)
        return distinct, counts.astype(np.int64)

    def times(self, column: str) -> tuple[int, int]:
        """Return the earliest and latest time in microseconds; (0, 0) without values.

        Raises
        ------
        InexactError
            If a time is before 1900, which Spark may convert, or later than Spark's range.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        array = self.columns[column]
        if not self.values(column):
            return 0, 0
        is_date = pa.types.is_date32(array.type)
        numbers = array.cast(pa.int32() if is_date else pa.int64())
        ends = pc.min_max(numbers)
        unit = DAY_MICROS if is_date else _UNIT_MICROS[array.type.unit]
        return exact_times(ends["min"].as_py() * unit, ends["max"].as_py() * unit)

    def strings(self, column: str) -> tuple[pa.Array, npt.NDArray[np.int64]]:
        """Return strings that are not null, and how many rows each stands for.

        If the file has a dictionary, each string occurs once. To find the distinct strings of a column without one
        would take longer than to handle each row.

        Raises
        ------
        InexactError
            If a value is not valid UTF-8, of which Spark counts other characters than Arrow.
        """
        return self.cached(("strings", column), lambda: self._strings(column))  # type: ignore[no-any-return]

    def _strings(self, column: str) -> tuple[pa.Array, npt.NDArray[np.int64]]:
        import numpy as np
        import pyarrow as pa

        array = self.columns[column]
        if pa.types.is_dictionary(array.type):
            return _counted(array)
        values = _validated(array.drop_null())
        return values, np.ones(len(values), np.int64)

    def distinct(self, column: str) -> tuple[pa.Array, npt.NDArray[np.int64]]:
        """Return the distinct values of a string column that are not null, and their numbers of rows.

        Raises
        ------
        InexactError
            If a value is not valid UTF-8, of which Spark counts other characters than Arrow.
        """
        import pyarrow as pa

        array = self.columns[column]
        if pa.types.is_dictionary(array.type):
            return self.strings(column)
        return self.cached(  # type: ignore[no-any-return]
            ("distinct", column), lambda: _counted(array.dictionary_encode())
        )


def is_text(kind: pa.DataType) -> bool:
    """Return whether an Arrow type of `RowGroup` holds strings, with or without a dictionary."""
    import pyarrow as pa

    return any(
        is_kind(kind)
        for is_kind in (pa.types.is_dictionary, pa.types.is_string, pa.types.is_large_string)
    )


def _identities(array: pa.Array) -> npt.NDArray[np.int64]:
    """Return the longs of `Field.hash_sql` for values that are neither null nor strings."""
    import numpy as np
    import pyarrow as pa

    kind = array.type
    if pa.types.is_integer(kind):
        return array.to_numpy(zero_copy_only=False).astype(np.int64)  # type: ignore[no-any-return]
    is_short = pa.types.is_decimal(kind) and kind.precision <= EXACT_DIGITS
    if is_short or pa.types.is_floating(kind):
        return hash_doubles(_as_doubles(array))
    if pa.types.is_boolean(kind) or pa.types.is_date32(kind):
        return hash_integers(array.cast(pa.int32()).to_numpy(zero_copy_only=False))
    if pa.types.is_timestamp(kind):
        ticks = array.cast(pa.int64()).to_numpy(zero_copy_only=False)
        return hash_longs(ticks * _UNIT_MICROS[kind.unit])
    msg = f"no hash of values of type {kind}"
    raise InexactError(msg)


def exact_times(earliest: int, latest: int) -> tuple[int, int]:
    """Return the times, or raise `InexactError` if Spark may convert or refuse one of them."""
    if earliest < _EARLIEST_EXACT_MICROS:
        msg = "times before 1900 depend on the calendar of the writer"
        raise InexactError(msg)
    if latest > _LATEST_EXACT_MICROS:
        msg = "the latest time exceeds Spark's range"
        raise InexactError(msg)
    return earliest, latest


def decimal_from(unscaled: int, scale: int) -> Decimal:
    """Return a decimal from its digits as an integer.

    Examples
    --------
    >>> decimal_from(-150, 2), decimal_from(0, 2)
    (Decimal('-1.50'), Decimal('0.00'))
    """
    digits = tuple(map(int, str(abs(unscaled))))
    return Decimal((int(unscaled < 0), digits, -scale))


def _as_doubles(array: pa.Array) -> npt.NDArray[np.float64]:
    import numpy as np
    import pyarrow as pa

    if pa.types.is_decimal(array.type):
        return _decimals_as_doubles(array)
    numbers: npt.NDArray[np.float64] = array.to_numpy(zero_copy_only=False).astype(
        np.float64, copy=False
    )
    return numbers


_MAX_EXACT_POWER = 22
"""Greatest power of ten that a double holds exactly."""


def _decimals_as_doubles(array: pa.Array) -> npt.NDArray[np.float64]:
    """Return the doubles that are nearest to 128-bit decimals, as Spark's cast does.

    Arrow's cast multiplies by a rounded power of ten, so 8.7 becomes 8.700000000000001.
    """
    import numpy as np
    import pyarrow as pa

    # Each value is two 64-bit words, the lower one first; only the higher has a sign.
    words = np.frombuffer(array.buffers()[1] or b"", np.int64).reshape(-1, 2)
    low, high = words[array.offset : array.offset + len(array)].T
    limit, scale = _MAX_EXACT_LITERAL["double"], array.type.scale
    # The quotient of two exact doubles is rounded once.
    is_exact = (low >= -limit) & (low <= limit) & (high == low >> 63)
    if scale > _MAX_EXACT_POWER:
        is_exact[:] = False
    doubles: npt.NDArray[np.float64] = low / 10.0**scale
    if not is_exact.all():
        digits = array.filter(pa.array(~is_exact)).cast(pa.string())
        doubles[~is_exact] = digits.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return doubles


def _bounds(array: pa.Array) -> tuple[Number | None, Number | None]:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    if array.null_count == len(array):
        return None, None
    if pa.types.is_floating(array.type):
        numbers = array.drop_null().to_numpy(zero_copy_only=False)
        # Spark's order: NaN is the greatest number.
        return float(np.fmin.reduce(numbers)), float(np.max(numbers))
    ends = pc.min_max(array)
    return ends["min"].as_py(), ends["max"].as_py()


def _integer_total(numbers: npt.NDArray[Any]) -> int:
    import numpy as np

    if numbers.dtype.itemsize < 8:
        return int(numbers.sum(dtype=np.int64))
    high, low = numbers >> _WORD_BITS, numbers & ((1 << _WORD_BITS) - 1)
    return (int(high.sum()) << _WORD_BITS) + int(low.sum())


def _decimal_total(array: pa.Array) -> int:
    """Return the sum of 128-bit decimals without nulls, as unscaled integers."""
    import numpy as np

    # Each value is four 32-bit words, the lowest first; only the highest has a sign.
    words = np.frombuffer(array.buffers()[1], np.uint32).reshape(-1, 4)
    words = words[array.offset : array.offset + len(array)]
    *low, high = (words[:, i] for i in range(4))
    sums = [int(word.sum(dtype=np.uint64)) for word in low]
    sums.append(int(high.view(np.int32).sum(dtype=np.int64)))
    return reduce(lambda total, word: (total << _WORD_BITS) + word, reversed(sums))


def _counted(array: pa.Array) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    import numpy as np
    import pyarrow as pa

    indices = array.indices.drop_null().to_numpy(zero_copy_only=False)
    counts = np.bincount(indices, minlength=len(array.dictionary))
    values, counts = array.dictionary, counts.astype(np.int64)
    if not counts.all():
        values, counts = values.filter(pa.array(counts > 0)), counts[counts > 0]
    return _validated(values), counts


def _validated(strings: pa.Array) -> pa.Array:
    import pyarrow as pa

    try:
        strings.validate(full=True)
    except pa.ArrowInvalid as error:
        raise InexactError(str(error)) from error
    return strings
