"""Columnar scans in Spark's tasks, for partitions of more bytes than one process should read.

The driver divides the row groups among the tasks of one job of ``mapInArrow``. Each task reads its row groups one
by one with Arrow, merges their states and returns them in their binary form; the driver merges the states of the
tasks in the order of the files, so the result does not depend on which task ends first. Nothing is shuffled.

Tasks import tidegauge, so the workers need it in the driver's version, and they need access to the files.
`scanner_for` checks both once for each session and file system. If a worker lacks something, Spark SQL measures
the partitions, and a line of the log tells the reason.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary
from zlib import crc32

from tidegauge.analyzers.columnar.footers import FileColumn, Footer
from tidegauge.analyzers.columnar.planner import (
    PartitionPlan,
    TaskScanner,
    kernel_of,
    read_groups,
    scan_groups,
)
from tidegauge.analyzers.core.analyzer import AnyAnalyzer
from tidegauge.analyzers.core.columnar import Kernel, RowGroup
from tidegauge.analyzers.core.errors import describe
from tidegauge.analyzers.core.filesystems import file_system
from tidegauge.analyzers.core.formatting import hide_secrets
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.state import State, read_state
from tidegauge.analyzers.scan.capabilities import to_arrow

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark.sql import SparkSession

_LOGGER = logging.getLogger(__name__)

TASK_BYTES = 32 * 2**20
"""Compressed bytes of columns above which a task is divided, so that tasks take seconds, not minutes."""
MAX_STATE_BYTES = 32 * 2**20
"""Bytes of a state of one task, serialized. Larger states have millions of distinct values, which the driver
should not merge: Spark SQL groups them in its shuffle."""
_PACKAGE = "tidegauge"
_PROBED_ROWS = 4096
"""Rows of the probe, which Spark divides among as many tasks as it runs at once."""
_RESULT_SCHEMA = "partition int, statistic int, tag string, state binary"
_UNREADABLE = -1
"""Position of a row that reports that Spark must read a partition."""


@dataclass(frozen=True)
class _Reading:
    """Row groups of one file.

    Attributes
    ----------
    partition : int
        Position of the partition in the job.
    location : str
        The file.
    groups : tuple of int
        Numbers of the row groups.
    layout : int
        Result of `_layout_of`, which changes if the file is replaced.
    columns : mapping of str to FileColumn
        The file's columns that are read. Files with equal columns share the mapping, which Spark sends once.
    """

    partition: int
    location: str
    groups: tuple[int, ...]
    layout: int
    columns: Mapping[str, FileColumn]


@dataclass(frozen=True)
class _Request:
    """The part of a plan that a task needs: analyzers with different statistics, and their columns."""

    schema: Schema
    analyzers: tuple[AnyAnalyzer, ...]
    columns: tuple[str, ...]

    def kernels(self) -> dict[AnyAnalyzer, Kernel[Any]]:
        """Return the kernels, of which the driver has made sure that they exist."""
        kernels = ((analyzer, kernel_of(analyzer, self.schema)) for analyzer in self.analyzers)
        return {analyzer: kernel for analyzer, kernel in kernels if kernel is not None}


def scanner_for(spark: SparkSession) -> TaskScanner:
    """Return a function that scans partitions in tasks of a session; see `ColumnarPlanner.scan_by_tasks`.

    The session is used, and started if it is lazy, only when the function is called.
    """

    def scan(plans: Sequence[PartitionPlan]) -> list[Mapping[str, State | None] | None] | None:
        try:
            tasks = _number_of_slots(spark, plans[0].files.footers[0].location)
            return _scan_in_tasks(spark, plans, tasks) if tasks else None
        except Exception as error:  # noqa: BLE001 - Spark SQL measures, and reports what is wrong with the session
            _LOGGER.warning(
                "Spark SQL measures, because a columnar scan failed: %s", describe(error)
            )
            return None

    return scan


_SLOTS_BY_SESSION: WeakKeyDictionary[SparkSession, dict[str, int]] = WeakKeyDictionary()
"""Number of tasks that a session runs at once, by file system; 0 if its workers cannot scan files there."""


def _number_of_slots(spark: SparkSession, location: str) -> int:
    """Return the number of tasks that a session runs at once; 0 if its workers cannot scan the files.

    The answer is found once for a session and a file system. The job also starts the workers.
    """
    frame = spark.range(_PROBED_ROWS)
    slots = _SLOTS_BY_SESSION.setdefault(frame.sparkSession, {})
    address = location.partition("://")[0] if "://" in location else ""
    if address not in slots:
        version = str(import_module(_PACKAGE).__version__)
        problems = to_arrow(frame.mapInArrow(_probe(location, version), "problem string"))
        reasons = [reason for reason in problems["problem"].to_pylist() if reason]
        if reasons:
            _LOGGER.warning("Spark SQL measures all partitions, because %s", reasons[0])
        slots[address] = 0 if reasons else problems.num_rows
    return slots[address]


def _probe(location: str, version: str) -> Any:
    """Return a function for ``mapInArrow`` that gives the reason why a worker cannot scan a file.

    It is nested so that it pickles without tidegauge, which a worker may lack.
    """

    def probe(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for _ in batches:
            pass
        try:
            from tidegauge.analyzers.columnar.tasks import problem_of_worker

            problem = problem_of_worker(location, version)
        except ImportError as error:
            problem = f"Spark's Python workers cannot import {error.name or 'tidegauge'}"
        yield pa.RecordBatch.from_pydict({"problem": [problem]})

    return probe


def problem_of_worker(location: str, version: str) -> str:
    """Return the reason why this process cannot scan a file as the driver would; empty if it can.

    Parameters
    ----------
    location : str
        A Parquet file.
    version : str
        The driver's version of tidegauge.
    """
    import pyarrow.parquet as pq
    from pyarrow import ArrowException

    import_module("datasketches")
    own_version = import_module(_PACKAGE).__version__
    if own_version != version:
        return f"Spark's Python workers have tidegauge {own_version}, and the driver has {version}"
    try:
        system, path = file_system(location)
        pq.read_metadata(path, filesystem=system)
    except (ArrowException, OSError) as error:
        return hide_secrets(f"Spark's Python workers cannot read {location}: {describe(error)}")
    return ""


def _scan_in_tasks(
    spark: SparkSession, plans: Sequence[PartitionPlan], slots: int
) -> list[Mapping[str, State | None] | None]:
    """Run the job and merge the states of its tasks by partition and statistic."""
    requests, owners = _requests_of(plans)
    tasks = _divided(plans, slots)
    numbers = spark.range(0, len(tasks), 1, len(tasks))
    table = to_arrow(numbers.mapInArrow(_task(requests, tasks), _RESULT_SCHEMA))
    parts: list[dict[int, list[State | None]]] = [{} for _ in plans]
    # Spark collects the results of tasks in the order of the tasks.
    for partition, statistic, tag, state in zip(
        *(column.to_pylist() for column in table.columns), strict=True
    ):
        part = read_state(tag, state) if tag else None
        parts[partition].setdefault(statistic, []).append(part)
    return [
        None if _UNREADABLE in states else _merged(states, owner)
        for states, owner in zip(parts, owners, strict=True)
    ]


def _merged(
    parts: Mapping[int, Sequence[State | None]], owners: Sequence[AnyAnalyzer]
) -> dict[str, State | None]:
    states: dict[str, State | None] = {}
    for number, owner in enumerate(owners):
        known = [state for state in parts.get(number, ()) if state is not None]
        is_exact = len(known) == len(parts.get(number, ()))
        states[owner.statistic()] = owner.state_type.merge(known) if is_exact else None
    return states


def _requests_of(
    plans: Sequence[PartitionPlan],
) -> tuple[list[_Request], list[Sequence[AnyAnalyzer]]]:
    """Return the request of each plan, and its analyzers in the order of the statistics.

    Equal requests are one object, which Spark sends once. Workers may lack the packages of other analyzers.
    """
    requests: dict[tuple[str, tuple[AnyAnalyzer, ...]], _Request] = {}
    result = []
    for plan in plans:
        known = (a for a in plan.kernels if type(a).__module__.startswith(f"{_PACKAGE}."))
        analyzers = tuple({a.statistic(): a for a in known}.values())
        key = json.dumps(plan.files.schema.struct, sort_keys=True), analyzers
        request = requests.setdefault(key, _Request(plan.files.schema, analyzers, plan.columns))
        result.append(request)
    return result, [request.analyzers for request in result]


def _divided(plans: Sequence[PartitionPlan], slots: int) -> list[list[_Reading]]:
    """Divide the row groups of all files among tasks of about the same number of bytes, in order."""
    sizes = [plan.scanned_bytes for plan in plans]
    number = max(1, slots, -(-sum(sizes) // TASK_BYTES))
    target = sum(sizes) / number
    tasks: list[list[_Reading]] = [[]]
    done = 0
    shared: dict[tuple[tuple[str, str, int | None], ...], dict[str, FileColumn]] = {}
    for i, plan in enumerate(plans):
        for footer in plan.files.footers:
            layout = _layout_of(footer.metadata)
            names = [c for c in map(str.casefold, plan.columns) if c in footer.columns]
            columns = {name: footer.columns[name] for name in names}
            key = tuple((c, columns[c].name, columns[c].index) for c in names)
            columns = shared.setdefault(key, columns)
            for group in range(footer.metadata.num_row_groups):
                if not footer.metadata.row_group(group).num_rows:
                    continue
                size = sum(footer.chunk_bytes(c.casefold(), [group]) for c in plan.columns)
                # A group belongs to the task in which its middle lies.
                if tasks[-1] and done + size / 2 >= target * len(tasks):
                    tasks.append([])
                done += size
                last = tasks[-1][-1] if tasks[-1] else None
                if last is not None and (last.partition, last.location) == (i, footer.location):
                    groups = (*tasks[-1].pop().groups, group)
                else:
                    groups = (group,)
                tasks[-1].append(_Reading(i, footer.location, groups, layout, columns))
    return tasks


def _layout_of(metadata: pq.FileMetaData) -> int:
    """Return a checksum of the sizes and positions of all column chunks of a file."""
    groups = (metadata.row_group(i) for i in range(metadata.num_row_groups))
    layout = [
        (chunk.data_page_offset, chunk.total_compressed_size, chunk.num_values)
        for group in groups
        for chunk in map(group.column, range(group.num_columns))
    ]
    return crc32(repr((metadata.serialized_size, metadata.num_rows, layout)).encode())


def _task(requests: Sequence[_Request], tasks: Sequence[Sequence[_Reading]]) -> Any:
    """Return a function for ``mapInArrow`` that runs the tasks whose numbers it receives."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield run_task(requests, tasks[number])

    return run


def run_task(requests: Sequence[_Request], readings: Sequence[_Reading]) -> pa.RecordBatch:
    """Scan the row groups of one task, and return a row for each partition and statistic.

    A row without a tag reports a state that only Spark computes.
    """
    import pyarrow as pa
    from pyarrow import ArrowException

    by_partition: dict[int, list[_Reading]] = {}
    for reading in readings:
        by_partition.setdefault(reading.partition, []).append(reading)
    kernels: dict[int, dict[AnyAnalyzer, Kernel[Any]]] = {}
    rows: list[tuple[int, int, str, bytes]] = []
    for partition, parts in by_partition.items():
        request = requests[partition]
        if id(request) not in kernels:
            kernels[id(request)] = request.kernels()
        try:
            states = scan_groups(_groups_of(request, parts), kernels[id(request)])
        except (ArrowException, OSError):  # Spark reports the reason
            rows.append((partition, _UNREADABLE, "", b""))
            continue
        for number, analyzer in enumerate(request.analyzers):
            state = states[analyzer.statistic()]
            packed = b"" if state is None else state.pack()
            if state is None or len(packed) > MAX_STATE_BYTES:
                rows.append((partition, number, "", b""))
            else:
                rows.append((partition, number, state.tag, packed))
    columns = list(zip(*rows, strict=True)) or [()] * 4
    types = (pa.int32(), pa.int32(), pa.string(), pa.binary())
    arrays = [pa.array(values, kind) for values, kind in zip(columns, types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=["partition", "statistic", "tag", "state"])


def _groups_of(request: _Request, readings: Iterable[_Reading]) -> Iterator[RowGroup]:
    """Yield the row groups of the readings, one at a time."""
    import pyarrow.parquet as pq

    for reading in readings:
        system, path = file_system(reading.location)
        with system.open_input_file(path) as stream:
            metadata = pq.read_metadata(stream)
            if _layout_of(metadata) != reading.layout:
                msg = f"{reading.location} changed after its footer was read"
                raise OSError(msg)
            footer = Footer(reading.location, metadata, reading.columns)
            yield from read_groups(stream, footer, reading.groups, request.schema, request.columns)
