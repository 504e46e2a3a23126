"""Value frequencies, and the metrics that need the exact values.

Frequencies are an Arrow table of the grouping columns and a count. They merge by one union and one
group-by, without Spark, and serialize to a Parquet file, so that large ones can be stored outside
the database and read by any tool.

From them come uniqueness and distinctness of one or more columns and duplicate rows (rows where all columns
are null are excluded; a null in a row with values counts as a value), Entropy and MutualInformation in nats, and
exact quantiles: ExactQuantile, InterquartileRange.
"""

from __future__ import annotations

import io
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Self

from tidegauge.analyzers.core.analyzer import (
    Analyzer,
    Filterable,
    Frequencies,
    Request,
    T,
    analyzer,
)
from tidegauge.analyzers.core.columnar import InexactError, Kernel, RowGroup, is_text
from tidegauge.analyzers.core.errors import (
    IllegalAnalyzerParameterError,
    NoColumnsSpecifiedError,
    NumberOfSpecifiedColumnsError,
    WrongColumnTypeError,
)
from tidegauge.analyzers.core.metric import Entity, Metric, Scale, attempt
from tidegauge.analyzers.core.registry import canonical_json
from tidegauge.analyzers.core.schema import INTEGRAL, Schema
from tidegauge.analyzers.core.sql import quote
from tidegauge.analyzers.core.state import (
    MAX_COUNT,
    Count,
    State,
    mismatch,
    register_state,
    subtract,
)
from tidegauge.analyzers.measures.serialized_layouts import column_pages

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa


COUNT = "count"
_ROWS_KEY, _NULLS_KEY = b"tidegauge.num_rows", b"tidegauge.num_nulls"


@cache
def _nothing() -> pa.Table:
    import pyarrow as pa

    return pa.table({COUNT: pa.array([], pa.int64())})


_MAX_SMALL_STATE_BYTES = 1 << 28
_MAX_EXPANSION = 1000
"""Limits on a state's memory: a number of bytes and, if larger, a number of bytes per byte of its file.

Distinct values compress little.
"""


def _require_size(needed: int, size: int) -> None:
    """Raise if a file would take far more memory than a state's values can."""
    if needed > max(_MAX_SMALL_STATE_BYTES, _MAX_EXPANSION * size):
        msg = f"{size} bytes that would take {needed} in memory"
        raise ValueError(msg)


def _require_flat(schema: Any) -> None:
    """Raise if a column is a list, which `packed` never writes."""
    for index in range(len(schema)):
        column = schema.column(index)
        if column.max_repetition_level:
            msg = f"a column {column.path!r} of lists"
            raise ValueError(msg)


def _spelled_out(column: pa.ChunkedArray) -> int:
    """Return the number of bytes of a dictionary-encoded column after expansion."""
    import pyarrow.compute as pc

    lengths = (
        pc.take(pc.binary_length(chunk.dictionary), chunk.indices) for chunk in column.chunks
    )
    return sum(pc.sum(chunk_lengths).as_py() or 0 for chunk_lengths in lengths)


def packed(table: pa.Table, keys: int) -> bytes:
    """Serialize a table, with the given number of key columns, as a Parquet file.

    A single key is different in each row, so it is not written as a dictionary.
    """
    import pyarrow.parquet as pq

    table = _sorted(table, table.column_names[:keys])
    sink = io.BytesIO()
    repeating = table.column_names[keys == 1 :]
    pq.write_table(table, sink, compression="zstd", use_dictionary=repeating)
    return sink.getvalue()


def _sorted(table: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Sort a table by its keys, so that equal groups have equal bytes for any order of Spark's rows."""
    import pyarrow as pa

    if table.num_rows < 2:
        return table
    try:
        return table.sort_by([(key, "ascending") for key in keys])
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError):  # keys of a type without an order
        return table


def unpacked(payload: bytes) -> pa.Table:
    """Deserialize a Parquet file, unless it would take far more memory than a state can."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = column_pages(payload)
    stored = sum(page_column.packed for page_column in columns)
    _require_size(sum(page_column.min_bytes for page_column in columns), stored)
    # Most files are small: threads and file discovery would take longer than the read.
    file = pq.ParquetFile(pa.BufferReader(payload))
    _require_flat(file.schema)
    if sum(page_column.max_bytes for page_column in columns) <= _MAX_SMALL_STATE_BYTES:
        return _validated(file.read(use_threads=False))
    # A few long strings can represent many rows, so they are counted before they are expanded.
    every = [file.schema.column(index) for index in range(len(file.schema))]
    texts = [column.name for column in every if column.physical_type == "BYTE_ARRAY"]
    coded = pq.ParquetFile(pa.BufferReader(payload), read_dictionary=texts).read(use_threads=False)
    _require_size(sum(_spelled_out(coded[name]) for name in texts), stored)
    # Arrow reserves the mean length of a dictionary's strings for each row.
    rows = max(
        1, _MAX_SMALL_STATE_BYTES // max(1, *(page_column.dictionary for page_column in columns))
    )
    parts = [
        coded.slice(at, rows).cast(file.schema_arrow)
        for at in range(0, max(1, coded.num_rows), rows)
    ]
    return _validated(pa.concat_tables(parts).combine_chunks())


def _validated(table: pa.Table) -> pa.Table:
    """Return a table after checking that strings are UTF-8 and decimals fit their types.

    Parquet does not enforce either.
    """
    table.validate(full=True)
    return table


def are_counts(column: pa.ChunkedArray) -> bool:
    """Return whether a column holds row counts: integers that are neither missing nor negative."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_integer(column.type) or column.null_count:
        return False
    numbers = column.cast(
        pa.float64()
    )  # raises for numbers that doubles do not hold, which is beyond MAX_COUNT
    return not len(numbers) or (
        pc.min(numbers).as_py() >= 0 and pc.sum(numbers).as_py() <= MAX_COUNT
    )


def _scalar(value: str, kind: pa.DataType) -> pa.Scalar | None:
    """Convert a string, as `Histogram` writes values, to a value of a type; None if that is impossible."""
    import pyarrow as pa

    try:
        if pa.types.is_binary(kind):
            return pa.scalar(bytes.fromhex(value), kind)
        return pa.scalar(value).cast(kind)
    except (ValueError, NotImplementedError):  # includes Arrow's errors
        return None


def without_value(table: pa.Table, keys: Sequence[str], value: str, token: str) -> pa.Table:
    """Replace a string in key columns by a token, and leave out rows with a value of another type."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for index, name in enumerate(keys):
        column, kind = table[name], table.schema.field(name).type
        target = _scalar(value, kind)
        if target is None:
            continue
        matches = pc.fill_null(pc.equal(column, target), False)  # noqa: FBT003 - Arrow's own order
        if not pc.any(matches).as_py():
            continue
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            changed = pc.if_else(matches, pa.scalar(token, kind), column)
            table = table.set_column(index, name, changed)
        else:
            table = table.filter(pc.invert(matches))
    return table


_HELD_ROWS = 1_000_000
"""Groups buffered while merging states before their counts are added."""


def _in_utc(table: pa.Table) -> pa.Table:
    """Return a table with timestamps in UTC; Spark 3.5 returns them in the session's time zone."""
    import pyarrow as pa

    schema = original = table.schema
    for index, field in enumerate(original):
        if pa.types.is_timestamp(field.type) and field.type.tz not in {None, "UTC"}:
            schema = schema.set(index, field.with_type(pa.timestamp(field.type.unit, "UTC")))
    return table if schema is original else table.cast(schema)


def _with_decimals(tables: list[pa.Table], keys: Sequence[str]) -> list[pa.Table]:
    """Convert integers to decimals in columns that other tables have as decimals.

    The type of a column can be widened over time.
    """
    import pyarrow as pa

    for index, key in enumerate(keys):
        kinds = [table.schema.field(key).type for table in tables]
        if any(map(pa.types.is_decimal, kinds)) and any(map(pa.types.is_integer, kinds)):
            integer_type = pa.decimal128(19, 0)  # maximum digits of 64 bits
            tables = [
                table.set_column(index, key, table[key].cast(integer_type))
                if pa.types.is_integer(kind)
                else table
                for table, kind in zip(tables, kinds, strict=True)
            ]
    return tables


def _united(tables: Sequence[pa.Table]) -> pa.Table:
    """Union tables and add the counts of equal groups."""
    if len(tables) == 1:
        return tables[0]
    keys = tables[0].column_names[:-1]
    for other in tables[1:]:
        if other.column_names[:-1] != keys:
            n, m = len(keys), other.num_columns - 1
            raise mismatch("numbers of grouping columns", n, m)
    return added_up(tables, keys, [COUNT])


def added_up(tables: Sequence[pa.Table], keys: list[str], numbers: list[str]) -> pa.Table:
    """Union tables and add the numbers of rows with equal keys; null equals null."""
    import pyarrow as pa

    alike = _with_decimals([_in_utc(table) for table in tables], keys)
    try:
        union = pa.concat_tables(alike, promote_options="permissive")
    except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
        kinds = (dict.fromkeys(str(table.schema.field(k).type) for table in alike) for k in keys)
        differing = next((list(types) for types in kinds if len(types) > 1), ["?", "?"])
        raise mismatch("column types", *differing[:2]) from error
    sums = union.group_by(keys, use_threads=False).aggregate([(name, "sum") for name in numbers])
    result = sums.select([*keys, *(f"{name}_sum" for name in numbers)])
    return result.rename_columns([*keys, *numbers])


@dataclass(frozen=True, slots=True)
class GroupSizes:
    """Numbers of groups by their size: frequencies without the values.

    They suffice for exact uniqueness and entropy, and are small for any number of values. They are not
    mergeable, because two pieces of data can have the same value.

    Attributes
    ----------
    sizes : ndarray of int64
        Different numbers of rows in a group.
    groups : ndarray of int64
        Number of groups of each size.

    Examples
    --------
    >>> sizes = FrequenciesAndNumRows.from_groups([(("x",), 1), (("y",), 1), (("z",), 5)]).group_sizes()
    >>> sizes.num_rows, sizes.num_groups, sizes.num_groups_of(1)
    (7, 3, 2)
    """

    sizes: npt.NDArray[np.int64]
    groups: npt.NDArray[np.int64]

    @classmethod
    def from_counts(cls, groups: Mapping[int, int]) -> Self:
        """Build the sizes from the number of groups by size."""
        import numpy as np

        numbers = np.array(sorted(groups.items()), np.int64).reshape(-1, 2)
        return cls(numbers[:, 0], numbers[:, 1])

    @property
    def num_rows(self) -> int:
        """The number of rows in all groups."""
        return int(self.sizes @ self.groups)

    @property
    def num_groups(self) -> int:
        """The number of groups."""
        return int(self.groups.sum())

    def num_groups_of(self, count: int) -> int:
        """Return the number of groups with exactly ``count`` rows."""
        return int(self.groups[self.sizes == count].sum())

    def group_sizes(self) -> GroupSizes:
        """Return self; frequencies return their sizes with the same method."""
        return self


@register_state("frequencies/1")
@dataclass(frozen=True, slots=True, eq=False, init=False)
class FrequenciesAndNumRows(State):
    """Groups of rows with equal values in some columns, and the number of rows in each.

    As in Deequ, rows where all columns are null form no group and are not counted as rows; rows
    where some columns are null form groups and are counted.

    Attributes
    ----------
    frequencies : pyarrow.Table
        The grouping columns ``0``, ``1``, ... and ``count``, one row per group.
    num_rows : int
        Rows in all groups.
    num_nulls : int
        Rows where all grouping columns are null.

    Examples
    --------
    >>> a = FrequenciesAndNumRows.from_groups([(("x",), 2), (("y",), 1)])
    >>> b = FrequenciesAndNumRows.from_groups([(("x",), 1)], num_nulls=4)
    >>> (a + b).as_dict(), (a + b).num_rows, (a + b).num_nulls
    ({('x',): 3, ('y',): 1}, 4, 4)
    """

    depends_on_types: ClassVar[bool] = True
    frequencies: pa.Table
    num_rows: Count
    num_nulls: Count

    def __init__(
        self, frequencies: pa.Table | None = None, num_rows: int = 0, num_nulls: int = 0
    ) -> None:
        table = _nothing() if frequencies is None else frequencies
        object.__setattr__(self, "frequencies", table)
        object.__setattr__(self, "num_rows", num_rows)
        object.__setattr__(self, "num_nulls", num_nulls)

    @classmethod
    def from_groups(cls, groups: Iterable[tuple[tuple[Any, ...], int]], num_nulls: int = 0) -> Self:
        """Build frequencies from Python pairs of values and row count."""
        import pyarrow as pa

        rows = list(groups)
        if not rows:
            return cls(num_nulls=num_nulls)
        columns = {str(i): list(v) for i, v in enumerate(zip(*(k for k, _ in rows), strict=True))}
        counts = [count for _, count in rows]
        table = pa.table({**columns, COUNT: pa.array(counts, pa.int64())})
        return cls(table, sum(counts), num_nulls)

    def combine(self, other: Self) -> Self:
        """Add the counts of equal groups; null equals null."""
        return self.merge([self, other])

    @classmethod
    def merge(cls, states: Iterable[Self]) -> Self:
        """Merge many states in batches, buffering a bounded number of groups at a time."""
        pending: list[pa.Table] = []
        rows = num_rows = num_nulls = 0
        for state in states:
            num_rows += state.num_rows
            num_nulls += state.num_nulls
            if state.frequencies.num_rows:
                pending.append(state.frequencies)
                rows += state.frequencies.num_rows
            if (
                rows > max(_HELD_ROWS, 2 * pending[0].num_rows if pending else 0)
                and len(pending) > 1
            ):
                pending = [_united(pending)]
                rows = pending[0].num_rows
        return cls(_united(pending) if pending else None, num_rows, num_nulls)

    @property
    def num_groups(self) -> int:
        """The number of distinct values."""
        return int(self.frequencies.num_rows)

    def num_groups_of(self, count: int) -> int:
        """Return the number of groups with exactly ``count`` rows."""
        import pyarrow.compute as pc

        return int(pc.sum(pc.equal(self.frequencies[COUNT], count)).as_py() or 0)

    def groups(self) -> Iterator[tuple[tuple[Any, ...], int]]:
        """Yield each group's values and count, in no particular order."""
        columns = [column.to_pylist() for column in self.frequencies.columns]
        yield from ((tuple(row[:-1]), row[-1]) for row in zip(*columns, strict=True))

    def group_sizes(self) -> GroupSizes:
        """Return the number of groups by their size, the smallest first."""
        import numpy as np

        return GroupSizes(*np.unique(self.counts(), return_counts=True))

    def counts(self) -> npt.NDArray[np.int64]:
        """Return the number of rows of each group, in no particular order."""
        counts: npt.NDArray[np.int64] = self.frequencies[COUNT].to_numpy()
        return counts

    def as_dict(self) -> dict[tuple[Any, ...], int]:
        """Return a dict from each group's values to its count."""
        return dict(self.groups())

    def agrees_with(self, other: Self) -> bool:
        """Return whether all groups and counts are equal."""
        return self == other

    def __eq__(self, other: object) -> bool:
        """Compare by content, ignoring the order of the groups."""
        if not isinstance(other, FrequenciesAndNumRows):
            return NotImplemented
        totals = (self.num_rows, self.num_nulls, self.num_groups)
        if totals != (other.num_rows, other.num_nulls, other.num_groups):
            return False
        return sorted(map(repr, self.groups())) == sorted(map(repr, other.groups()))

    def __hash__(self) -> int:
        """Hash the totals, which are cheap to compare."""
        return hash((self.num_rows, self.num_nulls, self.num_groups))

    def forget(self, value: str, token: str) -> Self:
        """Replace a string by a token, and leave out groups with a value of another type.

        Examples
        --------
        >>> state = FrequenciesAndNumRows.from_groups([(("ann",), 2), (("bob",), 1)])
        >>> state.forget("bob", "x").as_dict(), state.forget("eve", "x") is state
        ({('ann',): 2, ('x',): 1}, True)
        """
        import pyarrow.compute as pc

        table = without_value(self.frequencies, self.frequencies.column_names[:-1], value, token)
        if table is self.frequencies:
            return self
        return type(self)(table, int(pc.sum(table[COUNT]).as_py() or 0), self.num_nulls)

    def pack(self) -> bytes:
        """Serialize to a Parquet file, with the row counts in its metadata."""
        totals = {_ROWS_KEY: str(self.num_rows), _NULLS_KEY: str(self.num_nulls)}
        table = self.frequencies
        return packed(table.replace_schema_metadata(totals), table.num_columns - 1)

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """Deserialize the output of `pack`."""
        table = unpacked(payload)
        totals = table.schema.metadata or {}
        if _ROWS_KEY not in totals:
            msg = "a Parquet file without the number of rows"
            raise ValueError(msg)
        names = table.column_names
        if names != [*map(str, range(len(names) - 1)), COUNT] or not are_counts(table[COUNT]):
            msg = (
                f"a Parquet file of the columns {', '.join(names)}, not of groups and their counts"
            )
            raise ValueError(msg)
        return cls(
            table.replace_schema_metadata(None), int(totals[_ROWS_KEY]), int(totals[_NULLS_KEY])
        )


Sizes = GroupSizes | FrequenciesAndNumRows
"""Both contain the number of rows, the number of groups, and the number of groups of each size."""


def grouped_by(schema: Schema, columns: Iterable[str]) -> tuple[str, ...]:
    """Return SQL to group by columns that are neither nested nor intervals."""
    fields = [schema.plain(column) for column in columns]
    for field in fields:
        if field.kind == "interval":  # Arrow has no such type
            raise WrongColumnTypeError(field.path, field.kind, "a type other than an interval")
    return tuple(field.uncollated_sql for field in fields)


_COUNTED_KINDS = frozenset({"string", "boolean", "date", *INTEGRAL})
"""Types whose equal values are equal in Spark and in Arrow, unlike floats (0.0 and -0.0, NaN)."""


MAX_ROW_GROUP_VALUES = 1 << 20
"""Number of groups in a row group of a file above which Spark counts them, in its shuffle."""


def frequencies_in(group: RowGroup, columns: Sequence[str]) -> FrequenciesAndNumRows:
    """Return the frequencies of the values of columns in a row group.

    Raises
    ------
    InexactError
        If there are more than `MAX_ROW_GROUP_VALUES`, or only Spark knows which values are equal.
    """
    if len(columns) == 1:
        values, counts = _values_in(group, *columns)
        rows = group.values(*columns)
        table = {"0": values}
    else:
        table, counts = _combinations_in(group, columns)
        rows = int(counts.sum())
    if len(counts) > MAX_ROW_GROUP_VALUES:
        msg = f"{len(counts):,} groups in a row group"
        raise InexactError(msg)
    if not rows:
        return FrequenciesAndNumRows(num_nulls=group.rows)
    return FrequenciesAndNumRows(_table_of(table, counts), rows, group.rows - rows)


def _table_of(columns: Mapping[str, pa.Array], counts: Any) -> pa.Table:
    import pyarrow as pa

    return pa.table({**columns, COUNT: pa.array(counts, pa.int64())})


def _values_in(group: RowGroup, column: str) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """Return the distinct values of a column that are not null, and their numbers of rows."""
    import pyarrow as pa
    import pyarrow.compute as pc

    array = group.columns[column]
    if is_text(array.type):
        values, counts = group.distinct(column)
        return values.cast(pa.string()), counts
    _require_known_dates(group, column)
    counted = pc.value_counts(array.drop_null())
    return counted.field("values"), counted.field("counts").to_numpy()


def _combinations_in(
    group: RowGroup, columns: Sequence[str]
) -> tuple[dict[str, pa.Array], npt.NDArray[np.int64]]:
    """Return the distinct combinations of values that are not all null, and their numbers of rows.

    Strings with a dictionary are grouped by their positions in it.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    arrays = []
    for column in columns:
        array = group.columns[column]
        if is_text(array.type):
            group.strings(column)  # raises for invalid characters
        _require_known_dates(group, column)
        arrays.append(array.indices if pa.types.is_dictionary(array.type) else array)
    names = [str(i) for i in range(len(columns))]
    grouped = pa.table(arrays, names).group_by(names, use_threads=False)
    counted = grouped.aggregate([([], "count_all")]).combine_chunks()
    has_value = pc.is_valid(counted["0"])
    for name in names[1:]:
        has_value = pc.or_(has_value, pc.is_valid(counted[name]))
    counted = counted.filter(has_value)
    result = {}
    for name, column in zip(names, columns, strict=True):
        array, values = group.columns[column], counted[name].combine_chunks()
        if pa.types.is_dictionary(array.type):
            values = array.dictionary.take(values)
        result[name] = values.cast(pa.string()) if is_text(array.type) else values
    return result, counted["count_all"].to_numpy()


def _require_known_dates(group: RowGroup, column: str) -> None:
    """Raise `InexactError` for dates that Spark may convert."""
    import pyarrow as pa

    if pa.types.is_date32(group.columns[column].type):
        group.times(column)


@dataclass(frozen=True, repr=False)
class GroupingAnalyzer(Filterable, Analyzer[FrequenciesAndNumRows, T]):
    """An analyzer that groups by columns. Analyzers with equal grouping columns share one shuffle."""

    state_type: ClassVar[type[State]] = FrequenciesAndNumRows
    state_bytes: ClassVar[int] = 1 << 15

    @property
    @abstractmethod
    def grouping_columns(self) -> tuple[str, ...]:
        """The columns to group by."""

    @property
    def value_columns(self) -> tuple[str, ...]:
        """The columns to group by."""
        return self.grouping_columns

    @property
    def entity(self) -> Entity:
        """Column or multicolumn."""
        return Entity.COLUMN if len(self.grouping_columns) == 1 else Entity.MULTICOLUMN

    @property
    def instance(self) -> str:
        """The columns joined by commas."""
        return ",".join(self.grouping_columns)

    def statistic(self) -> str:
        """Return the statistic key; analyzers with equal columns and filter share one state."""
        columns = list(self.grouping_columns)
        return canonical_json({"state": "frequencies", "columns": columns, "where": self.where})

    def check_schema(self, schema: Schema) -> None:
        """Require columns that are neither nested nor intervals."""
        self.grouping_expressions(schema)

    def grouping_expressions(self, schema: Schema) -> tuple[str, ...]:
        """Return the Spark SQL expressions to group by; equal ones share a shuffle."""
        return grouped_by(schema, self.grouping_columns)

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Request the frequencies."""
        return (Frequencies(self.grouping_expressions(schema), self.where),)

    def kernel(self, schema: Schema) -> Kernel[FrequenciesAndNumRows] | None:
        """Count the values of columns of strings, integers, booleans or dates."""
        fields = [schema.plain(column) for column in self.grouping_columns]
        columns = schema.top_level(*fields)
        expressions = tuple(field.sql for field in fields)
        is_plain = self.requests(schema) == (Frequencies(expressions, self.where),)
        has_counted_kinds = all(field.kind in _COUNTED_KINDS for field in fields)
        if not columns or not is_plain or not has_counted_kinds:
            return None
        return Kernel(
            columns,
            lambda group: frequencies_in(group, columns),
            count_values=lambda state: state.num_groups,
        )

    def fold(self, cells: Sequence[Any]) -> FrequenciesAndNumRows:
        """Return the frequencies; without results, the frequencies of no rows."""
        return cells[0] or FrequenciesAndNumRows()


@dataclass(frozen=True, repr=False)
class GroupSizeAnalyzer(GroupingAnalyzer[float]):
    """A grouping analyzer whose metric depends only on the sizes of the groups, not on the values."""

    @abstractmethod
    def measure_sizes(self, sizes: Sizes) -> float:
        """Compute the metric's value."""

    def weight_of(self, sizes: Sizes) -> float:
        """Return the number of rows."""
        return sizes.num_rows

    def metric_of_sizes(self, sizes: GroupSizes) -> Metric[float]:
        """Compute the metric from the sizes of the groups."""
        outcome = attempt(lambda: self.measure_sizes(sizes))
        return Metric(self.entity, self.instance, self.name, outcome, self.weight_of(sizes))

    def measure(self, state: FrequenciesAndNumRows) -> float:
        """Compute the metric's value."""
        return self.measure_sizes(state)

    def weight(self, state: FrequenciesAndNumRows) -> float:
        """Return the weight by the sizes of the groups: by default the number of rows."""
        return self.weight_of(state)


_MICROSECONDS_FORMAT = "yyyy-MM-dd\\'T\\'HH:mm:ss.SSSSSS"
_JSON_OPTIONS = (
    "'ignoreNullFields', 'false', 'timeZone', 'UTC',"
    f" 'timestampFormat', '{_MICROSECONDS_FORMAT}', 'timestampNTZFormat', '{_MICROSECONDS_FORMAT}'"
)


@dataclass(frozen=True, repr=False)
class _ColumnsAnalyzer(GroupSizeAnalyzer):
    scale: ClassVar[Scale] = Scale.RATIO

    columns: tuple[str, ...]

    @property
    def grouping_columns(self) -> tuple[str, ...]:
        """The columns to group by."""
        return self.columns

    def check_parameters(self) -> None:
        """Require at least one column."""
        if not self.columns:
            msg = f"{type(self).__name__} needs at least one column"
            raise NoColumnsSpecifiedError(msg)


@analyzer
class Uniqueness(_ColumnsAnalyzer):
    """Share of rows whose value occurs once. Empty metric at zero rows.

    Parameters
    ----------
    columns : str or sequence of str
        The columns.

    Examples
    --------
    >>> import tidegauge as tg
    >>> state = tg.FrequenciesAndNumRows.from_groups([(("a",), 1), (("b",), 3)])
    >>> tg.Uniqueness("x").compute_metric_from(state).value
    0.25
    """

    def measure_sizes(self, sizes: Sizes) -> float:
        """Return the number of values that occur once divided by rows."""
        if not sizes.num_rows:
            raise self.no_data()
        return sizes.num_groups_of(1) / sizes.num_rows


@analyzer
class Distinctness(_ColumnsAnalyzer):
    """Number of distinct values divided by rows. Empty metric at zero rows.

    Examples
    --------
    >>> import tidegauge as tg
    >>> state = tg.FrequenciesAndNumRows.from_groups([(("a",), 1), (("b",), 3)])
    >>> tg.Distinctness("x").compute_metric_from(state).value
    0.5
    """

    def measure_sizes(self, sizes: Sizes) -> float:
        """Return the number of groups divided by rows."""
        if not sizes.num_rows:
            raise self.no_data()
        return sizes.num_groups / sizes.num_rows


@analyzer
class CountDistinct(_ColumnsAnalyzer):
    """Number of distinct values; 0 for no rows.

    Examples
    --------
    >>> import tidegauge as tg
    >>> state = tg.FrequenciesAndNumRows.from_groups([(("a", None), 1), (("b", "c"), 3)])
    >>> tg.CountDistinct(["x", "y"]).compute_metric_from(state).value
    2.0
    """

    scale: ClassVar[Scale] = Scale.COUNT

    def measure_sizes(self, sizes: Sizes) -> float:
        """Return the number of groups."""
        return float(sizes.num_groups)


@analyzer
class UniqueValueRatio(_ColumnsAnalyzer):
    """Share of distinct values that occur once. Empty metric at zero rows.

    Examples
    --------
    >>> import tidegauge as tg
    >>> state = tg.FrequenciesAndNumRows.from_groups([(("a",), 1), (("b",), 3)])
    >>> tg.UniqueValueRatio("x").compute_metric_from(state).value
    0.5
    """

    def measure_sizes(self, sizes: Sizes) -> float:
        """Return the number of values that occur once divided by distinct values."""
        if not sizes.num_rows:
            raise self.no_data()
        return sizes.num_groups_of(1) / sizes.num_groups

    def weight_of(self, sizes: Sizes) -> float:
        """Return the number of distinct values."""
        return sizes.num_groups


@analyzer
class DuplicateRowCount(_ColumnsAnalyzer):
    """Number of duplicate rows: rows whose value occurs more than once, all occurrences counted.

    0 for no rows.

    Parameters
    ----------
    columns : str or sequence of str, optional
        All columns of the table if not given; rows are then compared by a digest, and only digests
        are stored. Inside arrays and structs 0.0 and -0.0 differ then.

    Examples
    --------
    >>> import tidegauge as tg
    >>> state = tg.FrequenciesAndNumRows.from_groups([(("a",), 1), (("b",), 3)])
    >>> tg.DuplicateRowCount("x").compute_metric_from(state).value
    3.0
    """

    scale: ClassVar[Scale] = Scale.COUNT

    columns: tuple[str, ...] = ()

    def check_parameters(self) -> None:
        """Allow no columns, which means all columns."""

    @property
    def entity(self) -> Entity:
        """Dataset if all columns are compared, else column or multicolumn."""
        return super().entity if self.columns else Entity.DATASET

    @property
    def instance(self) -> str:
        """The columns joined by commas; ``*`` for all columns."""
        return super().instance if self.columns else "*"

    def grouping_expressions(self, schema: Schema) -> tuple[str, ...]:
        """Return the columns, or one digest of all columns."""
        if self.columns:
            return super().grouping_expressions(schema)
        fields = [schema.field(quote(name)) for name in schema.names]
        names = [field.sql for field in fields]
        row = f"to_json(struct({', '.join(field.zero_normalized_sql for field in fields)}), map({_JSON_OPTIONS}))"
        nulls = " AND ".join(f"{name} IS NULL" for name in names)
        return (f"CASE WHEN NOT ({nulls}) THEN unhex(md5({row})) END",)

    def measure_sizes(self, sizes: Sizes) -> float:
        """Return the number of rows minus the number of rows that occur once."""
        return float(sizes.num_rows - sizes.num_groups_of(1))


def entropy(counts: npt.NDArray[np.int64], groups: npt.NDArray[np.int64] | int = 1) -> float:
    """Return the entropy, in nats, of a distribution given by counts and how often each occurs.

    Examples
    --------
    >>> import numpy as np
    >>> round(entropy(np.array([1, 1, 1, 1])), 12) == round(float(np.log(4)), 12)
    True
    """
    import numpy as np

    shares = counts / (counts * groups).sum()
    return max(float(-(groups * shares * np.log(shares)).sum()), 0.0) + 0.0  # no -0.0


@analyzer
class Entropy(GroupSizeAnalyzer):
    """Entropy of a column, in nats: the sum of -p ln p over its values.

    Nulls are ignored; empty metric if all values are null.

    Examples
    --------
    >>> state = FrequenciesAndNumRows.from_groups([(("a",), 2), (("b",), 2)])
    >>> round(Entropy("x").compute_metric_from(state).value, 9)
    0.693147181
    """

    scale: ClassVar[Scale] = Scale.POSITIVE

    column: str

    @property
    def grouping_columns(self) -> tuple[str, ...]:
        """The column to group by."""
        return (self.column,)

    def measure_sizes(self, sizes: Sizes) -> float:
        """Return the entropy of the sizes."""
        if not sizes.num_rows:
            raise self.no_data()
        group_sizes = sizes.group_sizes()
        return entropy(group_sizes.sizes, group_sizes.groups)


@analyzer
class MutualInformation(GroupingAnalyzer[float]):
    """Mutual information of two columns, in nats.

    The sum of pxy ln(pxy / (px py)) over the pairs of values: 0 if the columns are independent, the
    entropy of either if each determines the other. A null paired with a value counts as a value
    (Deequ counts such pairs in the total but drops them from the sum); rows where both are null are
    excluded. Empty metric if there are no other rows.

    Examples
    --------
    >>> state = FrequenciesAndNumRows.from_groups([(("a", 1), 2), (("b", 2), 2)])
    >>> round(MutualInformation(["x", "y"]).compute_metric_from(state).value, 9)
    0.693147181
    """

    scale: ClassVar[Scale] = Scale.POSITIVE

    columns: tuple[str, ...]

    @property
    def grouping_columns(self) -> tuple[str, ...]:
        """Both columns."""
        return self.columns

    def weight(self, state: FrequenciesAndNumRows) -> float:
        """Return the number of rows."""
        return state.num_rows

    def check_parameters(self) -> None:
        """Require exactly two columns."""
        if len(self.columns) != 2:
            msg = f"{self!r} needs two columns, not {len(self.columns)}"
            raise NumberOfSpecifiedColumnsError(msg)

    def measure(self, state: FrequenciesAndNumRows) -> float:
        """Return the sum of both entropies minus the joint entropy."""
        if not state.num_rows:
            raise self.no_data()
        first, second = (entropy(_marginal(state.frequencies, i)) for i in ("0", "1"))
        return max(first + second - entropy(state.counts()), 0.0)


def _marginal(table: Any, column: str) -> npt.NDArray[np.int64]:
    sums = table.group_by(column).aggregate([(COUNT, "sum")])
    counts: npt.NDArray[np.int64] = sums[f"{COUNT}_sum"].to_numpy()
    return counts


def percentiles(state: FrequenciesAndNumRows, ranks: tuple[float, ...]) -> list[float]:
    """Return the values at ranks in [0, 1], interpolated between the two nearest values.

    Rank r of n values is at position r (n - 1) in their order, as in Spark's ``percentile`` and
    NumPy's default (Hyndman and Fan, type 7). NaN is the greatest value.

    Examples
    --------
    >>> state = FrequenciesAndNumRows.from_groups([((1,), 1), ((2,), 1), ((3,), 1), ((4,), 1)])
    >>> percentiles(state, (0.25, 0.5))
    [1.75, 2.5]
    """
    import numpy as np

    values = state.frequencies["0"].cast("float64", safe=False).to_numpy()
    order = np.argsort(values, kind="stable")  # puts NaN last
    ends = np.cumsum(state.counts()[order])
    result = []
    for rank in ranks:
        position = rank * (state.num_rows - 1)
        below, above = int(np.floor(position)), int(np.ceil(position))
        low, high = values[order[np.searchsorted(ends, [below, above], side="right")]].tolist()
        share = position - below
        result.append(low if low == high else low * (1 - share) + high * share)
    return result


@dataclass(frozen=True, repr=False)
class _PercentileAnalyzer(GroupingAnalyzer[float]):
    column: str

    @property
    def grouping_columns(self) -> tuple[str, ...]:
        """The column to group by."""
        return (self.column,)

    def check_schema(self, schema: Schema) -> None:
        """Require a numeric column."""
        schema.numeric(self.column)

    def weight(self, state: FrequenciesAndNumRows) -> float:
        """Return the number of values that are not null."""
        return state.num_rows


@analyzer
class ExactQuantile(_PercentileAnalyzer):
    """Exact quantile of a numeric column, interpolated between neighbors.

    Nulls are ignored; empty metric if all values are null. NaN is the greatest value. The state
    holds every distinct value: for large columns use `ApproxQuantile`.

    Parameters
    ----------
    column : str
        The column.
    quantile : float
        In [0, 1]; 0 is the minimum, 0.5 the median.

    Examples
    --------
    >>> state = FrequenciesAndNumRows.from_groups([((1,), 1), ((2,), 2), ((9,), 1)])
    >>> ExactQuantile("x", 0.75).compute_metric_from(state).value
    3.75
    """

    scale: ClassVar[Scale] = Scale.SIGNED

    quantile: float

    @property
    def name(self) -> str:
        """The name, with the quantile so that two quantiles of one column do not collide."""
        return f"ExactQuantile-{self.quantile}"

    def check_parameters(self) -> None:
        """Require a quantile in [0, 1]."""
        if not 0 <= self.quantile <= 1:
            msg = f"{self!r}: a quantile must be between 0 and 1"
            raise IllegalAnalyzerParameterError(msg)

    def measure(self, state: FrequenciesAndNumRows) -> float:
        """Return the quantile."""
        if not state.num_rows:
            raise self.no_data()
        return percentiles(state, (self.quantile,))[0]


@analyzer
class InterquartileRange(_PercentileAnalyzer):
    """Exact interquartile range: third quartile minus first; see `ExactQuantile`.

    Examples
    --------
    >>> state = FrequenciesAndNumRows.from_groups([((x,), 1) for x in (1, 3, 5, 7, 9)])
    >>> InterquartileRange("x").compute_metric_from(state).value
    4.0
    """

    scale: ClassVar[Scale] = Scale.POSITIVE

    def measure(self, state: FrequenciesAndNumRows) -> float:
        """Return the third quartile minus the first."""
        if not state.num_rows:
            raise self.no_data()
        first, third = percentiles(state, (0.25, 0.75))
        return subtract(third, first)
