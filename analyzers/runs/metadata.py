"""Runs that read only metadata: they measure what footers or table logs state exactly, and never scan data.

They record the same series as a run of a suite, in the same ledger. A suite therefore continues their history and
measures only what is missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from tidegauge.analyzers.columnar.engines import Route
from tidegauge.analyzers.columnar.planner import kernel_of
from tidegauge.analyzers.core.analyzer import AnyAnalyzer
from tidegauge.analyzers.core.columnar import Kernel, PartitionMetadata
from tidegauge.analyzers.core.errors import SourceError
from tidegauge.analyzers.core.metric import Failure, Success, attempt
from tidegauge.analyzers.core.partitions import Partition, TimeFormat
from tidegauge.analyzers.core.privacy import PARTITIONS, PUBLIC, Privacy
from tidegauge.analyzers.core.schema import INTEGRAL, TEMPORAL, Schema
from tidegauge.analyzers.core.sql import quote
from tidegauge.analyzers.measures.counts import Completeness, Size
from tidegauge.analyzers.measures.extremes import Maximum, MaxTime, Minimum, MinTime
from tidegauge.analyzers.runs.ledger import (
    LedgerEntry,
    MeasuredPartition,
    RunSpec,
    RunStore,
)
from tidegauge.analyzers.runs.recording import WAIT_SECONDS, RunReport, measured_states, recording
from tidegauge.analyzers.runs.runner import MEASUREMENT_BYTES, changed, mark_gone
from tidegauge.analyzers.sources.sources import ListedPartition

BATCH_BYTES = 256 * 2**20
"""Bytes of uncommitted measurements in memory."""
FIRST_BATCH_PARTITIONS = 100
"""Size of the first batch; it shows how many measurements a partition of the table has."""


class DescribedMetadata(PartitionMetadata, Protocol):
    """The metadata of a partition with its columns."""

    @property
    def schema(self) -> Schema:
        """The partition's columns, partition columns included."""


class MetadataSource(Protocol):
    """A table whose partitions can be described without reading rows."""

    @property
    def name(self) -> str | None:
        """Name or location of the table."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The partition columns."""

    @property
    def time_format(self) -> TimeFormat | None:
        """The format of the partition time; None if the partitions have no time."""

    @property
    def lists_all(self) -> bool:
        """Whether partitions that are not listed are gone."""

    def list_partitions(self) -> list[ListedPartition]:
        """List the partitions."""

    def describe(
        self, partitions: Collection[Partition]
    ) -> Iterator[tuple[Partition, DescribedMetadata | SourceError]]:
        """Yield the metadata of each partition, or the error why they are unknown."""


def metadata_analyzers(schema: Schema, private: Privacy = PUBLIC) -> list[AnyAnalyzer]:
    """Return the analyzers that metadata can answer: rows, nulls of each column, and extremes of numbers and times.

    Parameters
    ----------
    schema : Schema
        The columns, without the partition columns.
    private : Privacy
        Columns whose extremes are not measured.

    Examples
    --------
    >>> metadata_analyzers(Schema.from_types({"id": "long", "e mail": "string"}))
    [Size(), Completeness('id'), Minimum('id'), Maximum('id'), Completeness('`e mail`')]
    """
    analyzers: list[AnyAnalyzer] = [Size()]
    for name in schema.names:
        column = name if name.isidentifier() else quote(name)
        analyzers.append(Completeness(column))
        kind = schema.field_type(name)
        if not isinstance(kind, str) or (private and private.covers(name, schema)):
            continue
        if kind in INTEGRAL:
            analyzers += [Minimum(column), Maximum(column)]
        elif kind in TEMPORAL:
            analyzers += [MinTime(column), MaxTime(column)]
    return analyzers


@dataclass
class _Measurer:
    """Measures partitions by their metadata; remembers the kernels of each schema."""

    keys: tuple[str, ...]
    time: TimeFormat | None
    private: Privacy
    _kernels: dict[str, tuple[str, list[tuple[AnyAnalyzer, Kernel[Any]]]]] = field(
        init=False, default_factory=dict
    )

    def measure(self, listed: ListedPartition, metadata: DescribedMetadata) -> MeasuredPartition:
        """Return the measurements of the analyzers that the metadata determine."""
        canonical, kernels = self._kernels_of(metadata.schema)
        outcomes = {}
        for analyzer, kernel in kernels:
            state = kernel.from_metadata(metadata) if metadata.rows else analyzer.state_type()
            if state is not None:
                outcomes[analyzer] = Success(state)
        return MeasuredPartition.from_measurements(
            listed.partition,
            measured_states(outcomes, outcomes),
            self.time,
            fingerprint=listed.fingerprint,
            arrived_at=listed.arrived_at,
            schema=canonical,
            rows=metadata.rows,
        )

    def _kernels_of(self, schema: Schema) -> tuple[str, list[tuple[AnyAnalyzer, Kernel[Any]]]]:
        key = repr(schema.struct)
        stored = self._kernels.get(key)
        if stored is None:
            columns = schema.without(set(self.keys))
            kernels = []
            for analyzer in metadata_analyzers(columns, self.private):
                kernel = attempt(partial(kernel_of, analyzer, schema))
                if not isinstance(kernel, Failure) and kernel.value is not None:
                    kernels.append((analyzer, kernel.value))
            stored = self._kernels[key] = columns.canonical(), kernels
        return stored


def run_metadata(
    source: MetadataSource,
    spec: RunSpec,
    store: RunStore,
    *,
    newest: int | None = None,
    private: Privacy = PUBLIC,
    wait: float = WAIT_SECONDS,
    batch_bytes: int = BATCH_BYTES,
    may_go_on: Callable[[], bool] = lambda: True,
) -> RunReport:
    """Measure new and changed partitions by their metadata, and commit them batch by batch.

    A partition that the ledger has is measured again only if its files changed. Analyzers that a suite added stay
    as they are.

    Parameters
    ----------
    source : MetadataSource
        The table.
    spec : RunSpec
        The dataset, and the settings to store with the run.
    store : RunStore
        The store to commit to.
    newest : int, optional
        Number of partition times to measure on the first run, the newest; all if not given. Later runs measure
        older partitions only if the ledger has them.
    private : Privacy
        Columns whose values are never stored.
    wait : float
        Seconds to wait for the lease while another run measures the dataset.
    batch_bytes : int
        Approximate bytes of measurements that are held in memory.
    may_go_on : callable
        Asked before each batch after the first; if it returns False, the next run resumes there.

    Raises
    ------
    SourceError
        If none of the partitions can be measured.
    """
    time = source.time_format
    private.refuse_names(source.keys, PARTITIONS, None, time)
    with recording(store, spec, wait) as run:
        listed = source.list_partitions()
        ledger = run.ledger()
        present = {entry.partition.name for entry in listed}
        gone = tuple(sorted(n for n in ledger if source.lists_all and n not in present))
        mark_gone(store, run.run, ledger, gone, present)
        tasks = _to_measure(listed, ledger, time, newest)
        run.report = replace(run.report, gone=gone, skipped=len(listed) - len(tasks))
        measurer = _Measurer(source.keys, time, private)
        done, size = 0, FIRST_BATCH_PARTITIONS
        while done < len(tasks) and (not done or may_go_on()):
            entries = {entry.partition: entry for entry in tasks[done : done + size]}
            done += len(entries)
            measured: list[MeasuredPartition] = []
            unreadable: dict[Partition, str] = {}
            for partition, metadata in source.describe(entries):
                if isinstance(metadata, SourceError):
                    unreadable[partition] = str(metadata)
                else:
                    measured.append(measurer.measure(entries[partition], metadata))
            run.leave_out(unreadable)
            if measured:
                count = sum(len(m.measurements) for m in measured)
                run.count_routes(Counter({Route.METADATA: count}))
                run.commit(measured)
                size = max(1, batch_bytes * len(measured) // (count * MEASUREMENT_BYTES))
        run.report_rest(present, {})
        if run.errors and not run.report.changes and not ledger:
            raise SourceError(_first_reason(run.errors))
    return run.report


def _first_reason(errors: Sequence[str]) -> str:
    return errors[0] if len(errors) == 1 else f"{errors[0]}; and {len(errors) - 1:,} more"


def _to_measure(
    listed: Iterable[ListedPartition],
    ledger: Mapping[str, LedgerEntry],
    time: TimeFormat | None,
    newest: int | None,
) -> list[ListedPartition]:
    """Return the partitions to measure, the oldest first; partitions without a time come last."""
    times = {
        entry.partition.name: time.time_of(entry.partition) if time else None for entry in listed
    }
    known = sorted({moment for moment in times.values() if moment is not None})
    first = known[-newest] if newest is not None and len(known) > newest else None
    last_measured = max(
        (moment for name in ledger if (moment := times.get(name)) is not None), default=None
    )
    if first is not None and last_measured is not None:
        first = min(first, last_measured)  # measure all partitions since the last run
    tasks = []
    for entry in listed:
        name = entry.partition.name
        previous, moment = ledger.get(name), times[name]
        is_old = first is not None and moment is not None and moment < first
        if (previous is None and not is_old) or (previous is not None and changed(entry, previous)):
            tasks.append(entry)
    return sorted(
        tasks,
        key=lambda entry: (
            times[entry.partition.name] is None,
            str(times[entry.partition.name] or ""),
            entry.partition.name,
        ),
    )
