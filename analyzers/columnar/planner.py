"""Choose the cheapest route for each analyzer on a partition: metadata, a columnar scan, or Spark SQL.

1. Metadata: the log of a Delta or Iceberg table determines the state, or the footers of the files do.
2. Columnar scan: Arrow reads the columns, one row group at a time, and kernels compute a state for each row
   group. It runs in this process if it takes less time than a job, and otherwise in Spark's tasks
   (`tidegauge.analyzers.columnar.tasks`).
3. Spark SQL: all other analyzers, and partitions that only Spark can read.

The routes give the same states. Each analyzer falls to the next route alone.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
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
from tidegauge.analyzers.core.schema import INTEGRAL, Schema
from tidegauge.analyzers.core.state import State

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

VALUE_SECONDS = 1.3e-8
SLOW_VALUE_SECONDS = 6.7e-8
"""CPU seconds of one value of a column for one statistic; and of a string without a dictionary, or of a value that
is kept. All constants of the cost model were fitted by `python -m benchmarks.columnar --fit`."""
START_SECONDS = 14.0
"""CPU seconds of Spark's start, which a run saves if it reads in this process."""
MAX_SCAN_SECONDS = 5.0
"""CPU seconds up to which one run reads in this process if Spark has started. The first job of tasks takes these
without reading anything, because it starts Python processes. They end when they are idle for a minute."""
MAX_GROUP_BYTES = 2**29
"""Bytes in memory of the columns of one row group, at 8 bytes a value: half of the default memory of Spark's
driver. A few compressed bytes can hold any number of repeated values."""
_VALUE_BYTES = 8
MAX_TASK_VALUES = 1 << 20
"""Rows of a partition without a dictionary up to which exact frequencies are counted in Spark's tasks."""
MAX_VALUES = 1 << 21
"""Distinct values of a state that one process counts, with up to 0.7 GB if they are strings. Spark counts more of
them, in its shuffle."""
_SAMPLED_SHARE = 16
"""A row group with less than one part in 16 of `MAX_VALUES` does not show whether values go on to differ."""
MAX_THREADS = 4
"""Maximum number of threads of a scan in this process. Arrow and NumPy release the interpreter's lock most of the time: two
threads take 0.6 of the time of one, for 1.07 of its CPU time (40 analyzers of 6 million rows)."""
MIN_THREADED_ROWS = 1 << 16
"""Smaller row groups are scanned by one thread, because handing over their statistics takes as long."""
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


@dataclass(frozen=True)
class PartitionPlan:
    """The analyzers that need no Spark SQL on one partition, with the states that its metadata determines.

    Attributes
    ----------
    files : PartitionFooters
        The footers of the partition's files.
    answered : ColumnarResult
        The states and failed preconditions that need no rows.
    kernels : mapping of Analyzer to Kernel
        The analyzers that need columns.
    columns : tuple of str
        The columns to read.
    """

    files: PartitionFooters
    answered: ColumnarResult
    kernels: Mapping[AnyAnalyzer, Kernel[Any]]
    columns: tuple[str, ...]

    @cached_property
    def scanned_bytes(self) -> int:
        """Compressed bytes of the columns to read."""
        return sum(f.chunk_bytes(c.casefold()) for f in self.files.footers for c in self.columns)

    @cached_property
    def values_to_scan(self) -> tuple[int, int]:
        """Number of values of columns for all statistics: of quick ones, and of slow ones.

        Strings without a dictionary, and values that are kept, cost `SLOW_VALUE_SECONDS`.
        """
        rows = {c: self.files.rows_without_dictionary(c) for c in self.columns}
        strings = {c for c in self.columns if self.files.schema.field_type(c) == "string"}
        total = slow = 0
        for kernel in {a.statistic(): kernel for a, kernel in self.kernels.items()}.values():
            keeps_values = kernel.count_values is not None
            total += self.answered.rows
            slow += max(
                (rows[c] for c in kernel.columns if keeps_values or c in strings), default=0
            )
        return total - slow, slow

    @property
    def scan_seconds(self) -> float:
        """Estimated CPU seconds of the scan in one process."""
        quick, slow = self.values_to_scan
        return quick * VALUE_SECONDS + slow * SLOW_VALUE_SECONDS

    @cached_property
    def has_large_groups(self) -> bool:
        """Whether a row group takes too much memory to be read at once."""
        groups = (
            f.metadata.row_group(i)
            for f in self.files.footers
            for i in range(f.metadata.num_row_groups)
        )
        rows = max((group.num_rows for group in groups), default=0)
        return rows * len(self.columns) * _VALUE_BYTES > MAX_GROUP_BYTES

    def only(self, needs_scan: Callable[[AnyAnalyzer], bool]) -> PartitionPlan:
        """Return the plan without the scans of other analyzers."""
        kernels = {a: kernel for a, kernel in self.kernels.items() if needs_scan(a)}
        return replace(self, kernels=kernels, columns=_columns_of(kernels))

    def has_few_values(self, analyzer: AnyAnalyzer) -> bool:
        """Return whether an analyzer's state has few enough distinct values for a task.

        A task serializes its states. Before the scan, only dictionaries show that values repeat.
        """
        kernel = self.kernels[analyzer]
        rows = max(map(self.files.rows_without_dictionary, kernel.columns), default=0)
        return kernel.count_values is None or rows <= MAX_TASK_VALUES

    def with_states(self, states: Mapping[str, State | None], route: Route) -> ColumnarResult:
        """Return the result with the states of columns, by statistic; analyzers without a state are left out."""
        outcomes, routes = dict(self.answered.outcomes), dict(self.answered.routes)
        for analyzer in self.kernels:
            state = states.get(analyzer.statistic())
            if state is not None:
                outcomes[analyzer] = Success(state)
                routes[analyzer] = route
        return replace(self.answered, outcomes=outcomes, routes=routes)

    def with_answers(
        self,
        outcomes: Mapping[AnyAnalyzer, Success[Any] | Failure],
        routes: Mapping[AnyAnalyzer, Route],
    ) -> PartitionPlan:
        """Return the plan with more answers."""
        answered = replace(
            self.answered,
            outcomes={**outcomes, **self.answered.outcomes},
            routes={**routes, **self.answered.routes},
        )
        return replace(self, answered=answered)


K = TypeVar("K", bound=Hashable)


@dataclass
class ColumnarPlanner:
    """Measures partitions of Parquet files without Spark SQL, as far as the states are exact.

    Attributes
    ----------
    seconds_left : float
        Estimated CPU seconds of scans that may still run in this process.
    footers_left : int
        Number of footers that may still be read.
    scan_by_tasks : callable or None
        Scans partitions in Spark's tasks, which happens if all plans together need more than ``seconds_left``:
        takes plans and returns for each the states by statistic, or None if Spark must read the partition.
        The result as a whole is None if the tasks cannot read the files.
    """

    seconds_left: float = MAX_SCAN_SECONDS
    footers_left: int = MAX_FOOTERS
    scan_by_tasks: TaskScanner | None = None
    _planned_seconds: float = field(default=0.0, init=False)

    def plan(
        self, partition: PartitionFiles, analyzers: Iterable[AnyAnalyzer]
    ) -> PartitionPlan | None:
        """Plan the analyzers of a partition by its log or the footers of its files; None if Spark must read the partition."""
        chosen = tuple(dict.fromkeys(analyzers))
        if isinstance(partition, TablePartition):
            plan = self._plan_table(partition, chosen)
        else:
            plan = self._plan_files(partition, chosen)
        if plan is not None and not plan.has_large_groups:
            self._planned_seconds += plan.scan_seconds
        return plan

    def _plan_files(
        self, partition: ParquetPartition, analyzers: Sequence[AnyAnalyzer]
    ) -> PartitionPlan | None:
        """Plan by the footers of the files."""
        from pyarrow import ArrowException

        try:
            footers = self._read_footers(partition.files, read_footers)
            files = footers and merged_footers(footers, partition.keys)
        except (ArrowException, OSError):  # Spark reports the reason
            return None
        return _plan_of(files, analyzers) if files else None

    def _read_footers(
        self, files: Sequence[str], read: Callable[[Sequence[str]], T | None]
    ) -> T | None:
        """Read the footers of files, if they are few enough."""
        if len(files) > self.footers_left:
            return None
        self.footers_left -= len(files)
        return read(files)

    def _plan_table(
        self, partition: TablePartition, analyzers: Sequence[AnyAnalyzer]
    ) -> PartitionPlan | None:
        """Plan by the log of a table, and by the footers of the files if the log does not determine all states."""
        from pyarrow import ArrowException

        outcomes: dict[AnyAnalyzer, Success[Any] | Failure] = {}
        kernels = _kernels(analyzers, partition.schema, outcomes)
        rows = partition.rows_in_log
        if rows is not None:
            _answer(partition, kernels, outcomes)
        routes = dict.fromkeys(outcomes, Route.METADATA)
        left = [analyzer for analyzer in kernels if analyzer not in outcomes]
        if (rows is None or left) and partition.are_whole:
            try:
                footers = self._read_footers(partition.locations, partition.read_footers)
            except (ArrowException, OSError):  # Spark reports the reason
                footers = None
            if footers is not None:
                return _plan_of(partition.described(footers), left).with_answers(outcomes, routes)
        if rows is None:
            return None
        answered = ColumnarResult(partition.schema, rows, outcomes, routes)
        return PartitionPlan(PartitionFooters((), partition.schema), answered, {}, ())

    def scan(self, plans: Mapping[K, PartitionPlan]) -> dict[K, ColumnarResult]:
        """Compute the states of partitions; a partition that Spark must read is left out.

        All partitions of a run are planned before the first scan, so that the planner knows what they need.
        """
        results = {key: plan.answered for key, plan in plans.items()}
        readable = {
            key: plan for key, plan in plans.items() if plan.columns and not plan.has_large_groups
        }
        if (
            readable
            and self._planned_seconds > self.seconds_left
            and self.scan_by_tasks is not None
        ):
            by_tasks = {key: plan.only(plan.has_few_values) for key, plan in readable.items()}
            by_tasks = {key: plan for key, plan in by_tasks.items() if plan.columns}
            scanned = self.scan_by_tasks(list(by_tasks.values())) if by_tasks else []
            if scanned is not None:
                for (key, plan), states in zip(by_tasks.items(), scanned, strict=True):
                    if states is None:
                        del results[key]
                    else:
                        results[key] = plan.with_states(states, Route.TASKS)
                return results
        for key, plan in readable.items():
            if plan.scan_seconds <= self.seconds_left:
                self.seconds_left -= plan.scan_seconds
                result = _scan_here(plan)
                if result is None:
                    del results[key]
                else:
                    results[key] = result
        return results

    def measure(
        self, partition: PartitionFiles, analyzers: Iterable[AnyAnalyzer]
    ) -> ColumnarResult | None:
        """Plan and scan one partition; None if Spark must read it."""
        return self.measure_together([partition], analyzers)

    def measure_together(
        self, partitions: Sequence[PartitionFiles], analyzers: Iterable[AnyAnalyzer]
    ) -> ColumnarResult | None:
        """Plan and scan partitions, and merge their states; None if Spark must read one, or if their columns differ.

        An analyzer without a state for each partition is left out. If partitions lack files or rows, they count
        as no data.

        Parameters
        ----------
        partitions : sequence of PartitionFiles
            The partitions; at least one.
        analyzers : iterable of Analyzer
            The analyzers.
        """
        chosen = tuple(dict.fromkeys(analyzers))
        plans: dict[int, PartitionPlan] = {}
        for i, partition in enumerate(partitions):
            plan = self.plan(partition, chosen)
            if plan is None:
                return None
            plans[i] = plan
        plans = _only_common(plans)
        if len({plan.answered.schema.canonical() for plan in plans.values()}) != 1:
            return None
        results = self.scan(plans)
        return _merge_results(list(results.values())) if len(results) == len(plans) else None


def _only_common(plans: Mapping[int, PartitionPlan]) -> dict[int, PartitionPlan]:
    """Return plans that scan only what all partitions answer."""
    known = [plan.answered.outcomes.keys() | plan.kernels.keys() for plan in plans.values()]
    common = set.intersection(*map(set, known))
    return {i: plan.only(common.__contains__) for i, plan in plans.items()}


def _merge_results(results: Sequence[ColumnarResult]) -> ColumnarResult:
    """Merge the states of partitions; an analyzer that fails in only some of them is left out."""
    first = results[0]
    outcomes: dict[AnyAnalyzer, Success[Any] | Failure] = {}
    for analyzer in first.outcomes:
        parts = [result.outcomes.get(analyzer) for result in results]
        states = [part.value for part in parts if isinstance(part, Success)]
        if len(states) == len(parts):
            outcomes[analyzer] = Success(analyzer.state_type.merge(states))
        elif all(isinstance(part, Failure) for part in parts):
            outcomes[analyzer] = first.outcomes[analyzer]
    cheapest_first = list(Route).index
    routes = {a: max((r.routes[a] for r in results), key=cheapest_first) for a in outcomes}
    return ColumnarResult(first.schema, sum(r.rows for r in results), outcomes, routes)


TaskScanner = Callable[
    [Sequence[PartitionPlan]], "Sequence[Mapping[str, State | None] | None] | None"
]


def _plan_of(files: PartitionFooters, analyzers: Iterable[AnyAnalyzer]) -> PartitionPlan:
    outcomes: dict[AnyAnalyzer, Success[Any] | Failure] = {}
    kernels = _kernels(analyzers, files.schema, outcomes)
    _answer(files, kernels, outcomes)
    to_scan = {
        analyzer: kernel
        for analyzer, kernel in kernels.items()
        if analyzer not in outcomes and files.readable.issuperset(kernel.columns)
    }
    routes = dict.fromkeys(outcomes, Route.METADATA)
    answered = ColumnarResult(files.schema, files.rows, outcomes, routes)
    return PartitionPlan(files, answered, to_scan, _columns_of(to_scan))


def _columns_of(kernels: Mapping[AnyAnalyzer, Kernel[Any]]) -> tuple[str, ...]:
    return tuple(sorted({column for kernel in kernels.values() for column in kernel.columns}))


def _scan_here(plan: PartitionPlan) -> ColumnarResult | None:
    """Scan a partition in this process; None if Spark must read it."""
    from pyarrow import ArrowException

    try:
        groups = row_groups(plan.files, plan.columns)
        threads = min(os.cpu_count() or 1, MAX_THREADS)
        states = scan_groups(groups, plan.kernels, plan.answered.rows, threads)
    except (ArrowException, OSError):  # Spark reports the reason
        return None
    return plan.with_states(states, Route.COLUMNS)


def scan_groups(
    groups: Iterable[RowGroup],
    kernels: Mapping[AnyAnalyzer, Kernel[Any]],
    rows: int = 0,
    threads: int = 1,
) -> dict[str, State | None]:
    """Return the state of each statistic over row groups; None if only Spark can compute it.

    Parameters
    ----------
    groups : iterable of RowGroup
        The row groups.
    kernels : mapping of Analyzer to Kernel
        The kernels.
    rows : int
        Number of rows of all row groups, if it is known. Then a column in whose first row group most values differ
        is left to Spark at once, if it would have too many values.
    threads : int
        Number of threads that share the statistics of each row group. The states do not depend on it.
    """
    by_statistic = {
        analyzer.statistic(): (analyzer, kernel) for analyzer, kernel in kernels.items()
    }
    parts: dict[str, list[State]] = {statistic: [] for statistic in by_statistic}

    def add(group: RowGroup, statistic: str) -> None:
        kernel = by_statistic[statistic][1]
        try:
            parts[statistic].append(kernel.from_rows(group))
            _require_few_values(parts[statistic], kernel, group.rows, rows)
        except InexactError:
            del parts[statistic]

    with ThreadPoolExecutor(threads) as pool:
        for group in groups:
            is_alone = threads == 1 or group.rows < MIN_THREADED_ROWS
            each: Callable[..., Iterable[None]] = map if is_alone else pool.map
            deque(each(partial(add, group), list(parts)), maxlen=0)
    return {
        statistic: analyzer.state_type.merge(parts[statistic]) if statistic in parts else None
        for statistic, (analyzer, _) in by_statistic.items()
    }


def _require_few_values(
    parts: list[State], kernel: Kernel[Any], group_rows: int, rows: int
) -> None:
    """Merge the states of row groups if they hold many values; raise if too many of them differ."""
    count = kernel.count_values
    if count is None:
        return
    values = sum(map(count, parts))
    is_sample = values > max(group_rows / 2, MAX_VALUES / _SAMPLED_SHARE)
    if len(parts) == 1 and is_sample:
        values = max(
            values, values * rows // group_rows
        )  # of all row groups, if values go on to differ
    elif values > MAX_VALUES:
        parts[:] = [type(parts[0]).merge(parts)]
        values = count(parts[0])
    if values > MAX_VALUES:
        msg = f"more than {MAX_VALUES:,} distinct values"
        raise InexactError(msg)


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
    import pyarrow.parquet as pq

    for footer in files.footers:
        system, path = file_system(footer.location)
        with system.open_input_file(path) as stream:
            if not pq.read_metadata(stream).equals(footer.metadata):
                msg = f"{footer.location} changed after its footer was read"
                raise OSError(msg)
            numbers = range(footer.metadata.num_row_groups)
            yield from read_groups(stream, footer, numbers, files.schema, columns)


def read_groups(
    stream: pa.NativeFile,
    footer: Footer,
    numbers: Iterable[int],
    schema: Schema,
    columns: Sequence[str],
) -> Iterator[RowGroup]:
    """Yield columns of some row groups of an open file, one group at a time.

    Strings are dictionaries if the file has them: to build a dictionary takes three times as long as to read.
    """
    import pyarrow.parquet as pq

    names = {
        c: footer.columns[c.casefold()].name for c in columns if c.casefold() in footer.columns
    }
    numbers = list(numbers)
    strings = [
        name
        for column, name in names.items()
        if schema.field_type(column) == "string" and footer.has_dictionary(column, numbers)
    ]
    file = pq.ParquetFile(stream, metadata=footer.metadata, read_dictionary=strings)
    for number in numbers:
        rows = footer.metadata.row_group(number).num_rows
        if rows:
            table = file.read_row_group(number, list(names.values()), use_threads=False)
            yield RowGroup(rows, _arrays_of(table, rows, names, schema, columns))


def _arrays_of(
    table: pa.Table, rows: int, names: Mapping[str, str], schema: Schema, columns: Sequence[str]
) -> dict[str, pa.Array]:
    """Return an array of the table's type for each column, of nulls if the file lacks it."""
    import pyarrow as pa

    arrays: dict[str, pa.Array] = {}
    for column in columns:
        if column not in names:
            arrays[column] = pa.nulls(rows, _missing_type(schema.field_type(column)))
        else:
            arrays[column] = table[names[column]].combine_chunks()
            if isinstance(arrays[column], pa.ChunkedArray):
                arrays[column] = pa.concat_arrays(arrays[column].chunks)
            wider = arrow_type(schema.field_type(column))
            if wider is not None and arrays[column].type != wider:
                arrays[column] = arrays[column].cast(wider)
    return arrays


def _missing_type(kind: Any) -> pa.DataType:
    """Return an Arrow type that kernels read like the column's type, for a column without values."""
    import pyarrow as pa

    if kind == "string":
        return pa.dictionary(pa.int32(), pa.string())
    if kind in {"timestamp", "timestamp_ntz"}:
        return pa.timestamp("us")
    has_own_type = isinstance(kind, str) and kind in {"boolean", "date", *INTEGRAL}
    return arrow_type(kind) if has_own_type else pa.int64()
