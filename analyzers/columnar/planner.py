"""Choose the cheapest route for each analyzer on a partition: metadata, a columnar scan, or Spark SQL.

1. Metadata: the log of a Delta or Iceberg table determines the state, or the footers of the files do.
2. Columnar scan: Arrow reads the columns, one row group at a time, and kernels compute a state for each row
   group. It runs in this process, so a run reads a bounded number of bytes in this way.
3. Spark SQL: all other analyzers, and partitions that only Spark can read.

The routes give the same states. Each analyzer falls to the next route alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from tidegauge.analyzers.columnar.engines import Route
from tidegauge.analyzers.columnar.footers import (
    Footer,
    PartitionFooters,
    arrow_type,
    merged_footers,
    read_footers,
)
from tidegauge.analyzers.columnar.table_logs import TablePartition
from tidegauge.analyzers.core.analyzer import AnyAnalyzer
from tidegauge.analyzers.core.columnar import (
    InexactError,
    Kernel,
    PartitionMetadata,
    RowFilter,
    RowGroup,
)
from tidegauge.analyzers.core.filesystems import file_system
from tidegauge.analyzers.core.metric import Failure, Success, attempt
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.state import State

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

MAX_SCANNED_BYTES = 64 * 2**20
"""Compressed bytes of columns that one run reads in this process. About as much is read in the time in which
Spark starts; more is faster with Spark's tasks, and belongs on its cluster."""
MAX_GROUP_BYTES = 2**29
"""Bytes in memory of the columns of one row group, at 8 bytes a value: half of the default memory of Spark's
driver. A few compressed bytes can hold any number of repeated values."""
_VALUE_BYTES = 8
MAX_FOOTERS = 1000
"""Number of footers that one run reads for their statistics: a second of CPU time on a local disk."""


@dataclass(frozen=True)
class ParquetPartition:
    """The files of one partition, whose rows are exactly the rows of the partition.

    Attributes
    ----------
    files : tuple of str
        Locations of the files that are not empty, the newest first.
    keys : tuple of str
        The partition columns in the names of the folders.
    """

    files: tuple[str, ...]
    keys: tuple[str, ...]


PartitionFiles = ParquetPartition | TablePartition


@dataclass(frozen=True)
class ColumnarResult:
    """States of one partition that were computed without Spark.

    Attributes
    ----------
    schema : Schema
        The partition's columns, as Spark reads them.
    rows : int
        The number of rows.
    outcomes : mapping of Analyzer to Success or Failure
        A state or a failed precondition for each analyzer that was answered.
    routes : mapping of Analyzer to Route
        The route of each analyzer in ``outcomes``.
    """

    schema: Schema
    rows: int
    outcomes: Mapping[AnyAnalyzer, Success[Any] | Failure]
    routes: Mapping[AnyAnalyzer, Route]


@dataclass
class ColumnarPlanner:
    """Measures partitions of Parquet files without Spark, as far as the states are exact and the bytes suffice.

    Attributes
    ----------
    bytes_left : int
        Compressed bytes of columns that may still be read.
    footers_left : int
        Number of footers that may still be read.
    """

    bytes_left: int = MAX_SCANNED_BYTES
    footers_left: int = MAX_FOOTERS

    def measure(
        self, partition: PartitionFiles, analyzers: Iterable[AnyAnalyzer]
    ) -> ColumnarResult | None:
        """Compute the states that metadata or columns determine; None if Spark must read the partition."""
        from pyarrow import ArrowException

        chosen = tuple(dict.fromkeys(analyzers))
        if isinstance(partition, TablePartition):
            return self._measure_table(partition, chosen)
        try:
            footers = self._read_footers(partition.files, read_footers)
            files = footers and merged_footers(footers, partition.keys)
            return self._measure(files, chosen) if files else None
        except (ArrowException, OSError):  # Spark reports the reason
            return None

    def _read_footers(
        self, files: Sequence[str], read: Callable[[Sequence[str]], T | None]
    ) -> T | None:
        """Read the footers of files, if they are few enough."""
        if len(files) > self.footers_left:
            return None
        self.footers_left -= len(files)
        return read(files)

    def _measure_table(
        self, partition: TablePartition, analyzers: Sequence[AnyAnalyzer]
    ) -> ColumnarResult | None:
        """Compute states from the log of a table, and what it does not determine from the files."""
        from pyarrow import ArrowException

        outcomes: dict[AnyAnalyzer, Success[Any] | Failure] = {}
        kernels = _kernels(analyzers, partition.schema, outcomes)
        rows = partition.rows_in_log
        if rows is not None:
            _answer(partition, kernels, outcomes)
        routes = dict.fromkeys(outcomes, Route.METADATA)
        left = [analyzer for analyzer in kernels if analyzer not in outcomes]
        needs_files = rows is None or left
        if needs_files and partition.are_whole:
            try:
                footers = self._read_footers(partition.locations, partition.read_footers)
                files = None if footers is None else partition.described(footers)
                if files is not None:
                    rest = self._measure(files, left)
                    outcomes |= rest.outcomes
                    routes |= rest.routes
                    rows = rest.rows
            except (ArrowException, OSError):  # Spark reports the reason
                pass
        return None if rows is None else ColumnarResult(partition.schema, rows, outcomes, routes)

    def _measure(self, files: PartitionFooters, analyzers: Sequence[AnyAnalyzer]) -> ColumnarResult:
        outcomes: dict[AnyAnalyzer, Success[Any] | Failure] = {}
        kernels = _kernels(analyzers, files.schema, outcomes)
        _answer(files, kernels, outcomes)
        routes = dict.fromkeys(outcomes, Route.METADATA)
        to_scan = {
            analyzer: kernel
            for analyzer, kernel in kernels.items()
            if analyzer not in outcomes and files.readable.issuperset(kernel.columns)
        }
        for analyzer, state in self._scan(files, to_scan).items():
            outcomes[analyzer] = Success(state)
            routes[analyzer] = Route.COLUMNS
        return ColumnarResult(files.schema, files.rows, outcomes, routes)

    def _scan(
        self, files: PartitionFooters, kernels: Mapping[AnyAnalyzer, Kernel[Any]]
    ) -> dict[AnyAnalyzer, State]:
        """Compute states from the columns, if they have few enough bytes."""
        columns = {column for kernel in kernels.values() for column in kernel.columns}
        cost = sum(f.chunk_bytes(column.casefold()) for f in files.footers for column in columns)
        groups = (
            f.metadata.row_group(i) for f in files.footers for i in range(f.metadata.num_row_groups)
        )
        rows = max((group.num_rows for group in groups), default=0)
        is_large = rows * len(columns) * _VALUE_BYTES > MAX_GROUP_BYTES
        if not columns or cost > self.bytes_left or is_large:
            return {}
        self.bytes_left -= cost
        kernel_by_statistic = {a.statistic(): (a, kernel) for a, kernel in kernels.items()}
        parts: dict[str, list[State]] = {statistic: [] for statistic in kernel_by_statistic}
        for group in row_groups(files, sorted(columns)):
            for statistic, (_, kernel) in kernel_by_statistic.items():
                if statistic in parts:
                    try:
                        parts[statistic].append(kernel.from_rows(group))
                    except InexactError:
                        del parts[statistic]
        states = {
            statistic: kernel_by_statistic[statistic][0].state_type.merge(states)
            for statistic, states in parts.items()
        }
        return {a: states[a.statistic()] for a in kernels if a.statistic() in states}


def _kernels(
    analyzers: Iterable[AnyAnalyzer],
    schema: Schema,
    outcomes: dict[AnyAnalyzer, Success[Any] | Failure],
) -> dict[AnyAnalyzer, Kernel[Any]]:
    """Return the kernels of analyzers that have one, and add failed preconditions to the outcomes."""
    kernels: dict[AnyAnalyzer, Kernel[Any]] = {}
    for analyzer in analyzers:
        kernel = attempt(partial(kernel_of, analyzer, schema))
        if isinstance(kernel, Failure):
            outcomes[analyzer] = kernel
        elif kernel.value is not None:
            kernels[analyzer] = kernel.value
    return kernels


def _answer(
    metadata: PartitionMetadata,
    kernels: Mapping[AnyAnalyzer, Kernel[Any]],
    outcomes: dict[AnyAnalyzer, Success[Any] | Failure],
) -> None:
    """Add the states that metadata determines to the outcomes."""
    for analyzer, kernel in kernels.items():
        if not metadata.rows:
            outcomes[analyzer] = Success(analyzer.state_type())
        elif (state := kernel.from_metadata(metadata)) is not None:
            outcomes[analyzer] = Success(state)


def kernel_of(analyzer: AnyAnalyzer, schema: Schema) -> Kernel[Any] | None:
    """Return an analyzer's kernel after checking the schema; None if only Spark can measure it.

    Raises
    ------
    PreconditionError
        If the analyzer does not fit the schema.
    """
    analyzer.preconditions(schema)
    kind = type(analyzer)
    if kind.kernel.__module__ != kind.__module__:
        return None
    kernel: Kernel[Any] | None = analyzer.kernel(schema)
    if kernel is None or analyzer.where is None:
        return kernel
    row_filter = RowFilter.from_sql(analyzer.where, schema)
    return None if row_filter is None else kernel.where(row_filter)


def row_groups(files: PartitionFooters, columns: Sequence[str]) -> Iterator[RowGroup]:
    """Yield columns of each row group with rows; a column that a file lacks is null."""
    for footer in files.footers:
        yield from _row_groups_of(footer, files.schema, columns)


def _row_groups_of(footer: Footer, schema: Schema, columns: Sequence[str]) -> Iterator[RowGroup]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = {
        c: footer.columns[c.casefold()].name for c in columns if c.casefold() in footer.columns
    }
    strings = [name for c, name in names.items() if schema.field_type(c) == "string"]
    system, path = file_system(footer.location)
    with system.open_input_file(path) as stream:
        file = pq.ParquetFile(stream, read_dictionary=strings)
        if not file.metadata.equals(footer.metadata):
            msg = f"{footer.location} changed after its footer was read"
            raise OSError(msg)
        for i in range(footer.metadata.num_row_groups):
            rows = footer.metadata.row_group(i).num_rows
            if not rows:
                continue
            table = file.read_row_group(i, list(names.values()), use_threads=False)
            arrays: dict[str, pa.Array] = {}
            for column in columns:
                if column not in names:
                    arrays[column] = pa.nulls(rows, _missing_type(schema.field_type(column)))
                else:
                    chunked = table[names[column]]
                    arrays[column] = chunked.combine_chunks()
                    if isinstance(arrays[column], pa.ChunkedArray):
                        arrays[column] = pa.concat_arrays(arrays[column].chunks)
                    wider = arrow_type(schema.field_type(column))
                    if wider is not None and arrays[column].type != wider:
                        arrays[column] = arrays[column].cast(wider)
            yield RowGroup(rows, arrays)


def _missing_type(kind: Any) -> pa.DataType:
    """Return an Arrow type that kernels read like the column's type, for a column without values."""
    import pyarrow as pa

    if kind == "string":
        return pa.dictionary(pa.int32(), pa.string())
    if kind == "date":
        return pa.date32()
    if kind in {"timestamp", "timestamp_ntz"}:
        return pa.timestamp("us")
    return pa.bool_() if kind == "boolean" else pa.int64()
