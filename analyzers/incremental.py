"""Incremental runs: measure what is new or changed, in batches that are committed as they end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from analyzers.description import canonical_json, key_of
from analyzers.errors import MetricError, SourceError, SuiteError
from analyzers.frequencies import GroupingAnalyzer
from analyzers.groups import count_segments
from analyzers.ledger import (
    AnyAnalyzer,
    Change,
    Known,
    Measured,
    Measurement,
    RunSpec,
    RunStatus,
    RunStore,
    analyzer_key,
    differ,
    with_references,
)
from analyzers.metric import Failure
from analyzers.partitions import (
    TimeFormat,
    parse_selection,
    recognise_time,
    select_named,
)
from analyzers.progress import Progress, Silent
from analyzers.scan import Group, metric_of, scan
from analyzers.schema import Schema
from analyzers.segments import MAX_SEGMENTS, SegmentSet, joined
from analyzers.sources import Listed, Source
from analyzers.tables import open_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BATCH_PARTITIONS = 1000
BATCH_BYTES = 256 * 2**20
"""Bounds of one batch: partitions, and bytes of states that the driver holds at once."""
MEASUREMENT_BYTES = 2000
"""What Python takes for one measurement beside its state, until it is committed."""


WAIT_SECONDS = 3600.0
"""How long a run waits for another one of the same dataset."""


@dataclass(frozen=True)
class RunReport:
    """What a run did.

    Attributes
    ----------
    run : int
        Its id in the repository.
    dataset : str
    status : RunStatus
    changes : mapping of str to Change
        What became of each partition that was scanned.
    skipped : int
        Partitions that were there and not scanned.
    gone : tuple of str
        Partitions that the ledger knows and the table no longer has.
    failed : mapping of Analyzer to MetricError
        Analyzers that failed in some partition, with the first error.
    """

    run: int
    dataset: str
    status: RunStatus
    changes: Mapping[str, Change] = field(default_factory=dict)
    skipped: int = 0
    gone: tuple[str, ...] = ()
    failed: Mapping[AnyAnalyzer, MetricError] = field(default_factory=dict)

    @property
    def scanned(self) -> int:
        """The number of partitions scanned."""
        return len(self.changes)

    @property
    def counts(self) -> dict[str, int]:
        """The numbers a repository keeps with the run."""
        return {
            "measured": self.scanned,
            "skipped": self.skipped,
            "failed": len(self.failed),
            "gone": len(self.gone),
        }


@dataclass(frozen=True)
class Segmentation:
    """For the values of which columns everything is measured, too.

    Attributes
    ----------
    columns : tuple of tuple of str
        Sets of columns.
    most : int
        At most so many values of each set are segments of their own.
    again : bool
        Whether to choose the values anew, by what the partitions of this run hold.
    """

    columns: tuple[tuple[str, ...], ...] = ()
    most: int = MAX_SEGMENTS
    again: bool = False


@dataclass(frozen=True)
class _Task:
    """A partition to scan, and for which analyzers."""

    listed: Listed
    time: datetime | None
    analyzers: tuple[AnyAnalyzer, ...]
    added_to: int | None = None


def run_incremental(
    source: Source,
    spec: RunSpec,
    analyzers: Sequence[AnyAnalyzer],
    store: RunStore,
    partitions: str | Sequence[str] = "new",
    time: TimeFormat | None = None,
    progress: Progress | None = None,
    batch_partitions: int = BATCH_PARTITIONS,
    segmentation: Segmentation = Segmentation(),
    wait: float = WAIT_SECONDS,
) -> RunReport:
    """Measure the partitions of a source that are asked for, and commit them batch by batch.

    Parameters
    ----------
    source : Source
    spec : RunSpec
    analyzers : sequence of Analyzer
    store : RunStore
    partitions : str or sequence of str
        ``new`` for new and changed ones, and for others the analyzers they lack; ``all``; an
        expression over the partition keys; or names.
    time : TimeFormat, optional
        How partitions tell their time; recognised from the keys' names if not given.
    progress : Progress, optional
    batch_partitions : int
        At most so many partitions in one pass.
    segmentation : Segmentation
        For the values of which columns everything is measured, too.
    wait : float
        For how many seconds to wait while another run measures the dataset.

    Returns
    -------
    RunReport
        If the run is cut off, whole batches stay and the next run goes on behind them.
    """
    time = time.among(source.keys) if time else recognise_time(source.keys)
    progress = progress or Silent()
    _refuse_keys(segmentation, source.keys)
    chosen = chooser(partitions, source.keys)
    with store.hold(spec.dataset, wait) as fence:
        run = store.open_run(spec, fence)
        report = RunReport(run, spec.dataset, RunStatus.RUNNING)
        try:
            listed = _with_references(source, source.list_partitions(), analyzers)
            ledger = store.ledger(spec.dataset)
            here = {entry.partition.name for entry in listed}
            gone = tuple(sorted(name for name in ledger if name not in here))
            segments = _segment_sets(store, spec.dataset, segmentation)
            tasks = _tasks(listed, ledger, tuple(dict.fromkeys(analyzers)), segments, chosen, time)
            report = replace(report, skipped=len(listed) - len(tasks), gone=gone)
            left = [name for name in gone if not ledger[name].gone]
            back = [name for name, known in ledger.items() if known.gone and name in here]
            if left or back:
                store.mark_gone(run, left, back)
            progress.start(spec.dataset, len(tasks))

            def read(some: Sequence[_Task]) -> DataFrame:
                whole = len(some) == len(listed)
                return source.read(None if whole else [t.listed.partition for t in some])

            if tasks and not all(chosen for _, chosen in segments):
                new = [s for s, chosen in segments if not chosen]
                store.keep_segments(run, _choose(read(tasks), new, segmentation.most))
                segments = _segment_sets(store, spec.dataset, replace(segmentation, again=False))
            # Where there was no row to choose by, the next run chooses, and measures them here, too.
            sets = tuple(s for s, chosen in segments if chosen)
            for batch in _batches(tasks, batch_partitions, sum(s.size for s in sets)):
                data = read(batch)
                with progress.batch(data.sparkSession, len(batch)):
                    schema = Schema.of(data.schema).without(set(source.keys)).canonical()
                    found = list(_measure(source, data, batch, schema, time, sets))
                    decisions = store.commit_batch(run, found)
                report = _add(report, found, [d.change for d in decisions])
        except BaseException as error:
            cut = isinstance(error, KeyboardInterrupt | SystemExit)
            status = RunStatus.INTERRUPTED if cut else RunStatus.FAILED
            store.close_run(run, status, report.counts, f"{type(error).__name__}: {error}")
            raise
        finally:
            progress.close()
        report = replace(report, status=RunStatus.COMPLETE)
        store.close_run(run, report.status, report.counts)
        return report


def _refuse_keys(segmentation: Segmentation, keys: Sequence[str]) -> None:
    by_name = {key.casefold() for key in keys}
    for column in (c for columns in segmentation.columns for c in columns):
        if column.casefold() in by_name:
            msg = (
                f"{column!r} is a partition key: its values are series of their own already, and need"
                " no segments"
            )
            raise SuiteError(msg)


def _segment_sets(
    store: RunStore, dataset: str, segmentation: Segmentation
) -> list[tuple[SegmentSet, bool]]:
    """Return the sets of segments, and whether the values of each have been chosen."""
    known = store.segment_sets(dataset)
    found = []
    for columns in segmentation.columns:
        before = known.get(columns)
        if before is not None and not segmentation.again:
            found.append((before, True))
        else:
            generation = before.generation + 1 if before else 1
            found.append((SegmentSet(columns, (), generation), False))
    return found


def _choose(data: DataFrame, sets: Sequence[SegmentSet], most: int) -> list[SegmentSet]:
    """Choose the values with the most rows; one more action, once in a dataset's life."""
    values = count_segments(data, [s.columns for s in sets], most)
    return [replace(s, kept=values[s.columns]) for s in sets if values[s.columns]]


Chooser = Callable[[Sequence[Listed]], set[str]]


def chooser(partitions: str | Sequence[str], keys: Sequence[str]) -> Chooser | None:
    """Return what picks the partitions to scan whatever the ledger says; None to let it decide."""
    if partitions == "new":
        return None
    if partitions == "all":
        return lambda listed: {entry.partition.name for entry in listed}
    if isinstance(partitions, str):
        test = parse_selection(partitions, keys)
        return lambda listed: {e.partition.name for e in listed if test(e.partition)}
    return lambda listed: select_named(partitions, [e.partition.name for e in listed])


def _tasks(
    listed: Sequence[Listed],
    ledger: Mapping[str, Known],
    analyzers: tuple[AnyAnalyzer, ...],
    segments: Sequence[tuple[SegmentSet, bool]],
    choose: Chooser | None,
    time: TimeFormat | None,
) -> list[_Task]:
    chosen = None if choose is None else choose(listed)
    sets = (None, *(s for s, _ in segments))
    keys = {a: frozenset(analyzer_key(a, s) for s in sets) for a in analyzers}
    tasks = []
    for entry in listed:
        name = entry.partition.name
        known = ledger.get(name)
        if chosen is None:
            wanted = _wanted(entry, known, keys)
        else:
            wanted = analyzers if name in chosen else ()
        if wanted:
            moment = time.time_of(entry.partition) if time else None
            lacking = known is not None and chosen is None and not changed(entry, known)
            version = known.version if known is not None and lacking else None
            tasks.append(_Task(entry, moment, wanted, version))
    tasks.sort(
        key=lambda t: (t.time is None, t.time and t.time.timestamp(), t.listed.partition.name)
    )
    return tasks


def _wanted(
    entry: Listed, known: Known | None, keys: Mapping[AnyAnalyzer, frozenset[str]]
) -> tuple[AnyAnalyzer, ...]:
    """Return what is to be measured of a partition: all, what it lacks, or nothing."""
    if known is None or changed(entry, known):
        return tuple(keys)
    return tuple(a for a, made in keys.items() if not made <= known.analyzers)


def changed(entry: Listed, known: Known) -> bool:
    """Whether a partition lies there otherwise than it was measured."""
    return entry.fingerprint is not None and differ(entry.fingerprint, known.fingerprint)


def _with_references(
    source: Source, listed: Sequence[Listed], analyzers: Sequence[AnyAnalyzer]
) -> list[Listed]:
    """Return the partitions with the other tables that analyzers read in their fingerprints."""
    tables = sorted({table for a in analyzers for table in a.reads})
    if not tables:
        return list(listed)
    prints: dict[str, str] = {}
    for table in tables:
        try:
            entries = open_table(source.read(None).sparkSession, table, None).list_partitions()
        except SourceError:
            continue  # the analyzer fails, and says why
        files = [e.fingerprint for e in entries if e.fingerprint is not None]  # a view has none
        if files:
            prints[table] = key_of(canonical_json(files))
    return [replace(e, fingerprint=with_references(e.fingerprint, prints)) for e in listed]


def batch_sizes(
    listed: Sequence[Listed], analyzers: tuple[AnyAnalyzer, ...], segments: int
) -> tuple[int, ...]:
    """Return how many partitions each batch would take if all were to be scanned."""
    tasks = [_Task(entry, None, analyzers) for entry in listed]
    return tuple(map(len, _batches(tasks, BATCH_PARTITIONS, segments)))


def _batches(tasks: Sequence[_Task], most: int, segments: int) -> Iterator[list[_Task]]:
    """Cut tasks into batches that need the same analyzers, in order, within the bounds."""
    by_analyzers: dict[tuple[AnyAnalyzer, ...], list[_Task]] = {}
    for task in tasks:
        by_analyzers.setdefault(task.analyzers, []).append(task)
    for analyzers, same in by_analyzers.items():
        fixed = (1 + segments) * sum(a.state_bytes + MEASUREMENT_BYTES for a in analyzers)
        columns = {a.grouping_columns for a in analyzers if isinstance(a, GroupingAnalyzer)}
        batch: list[_Task] = []
        held = 0
        for task in same:
            # Distinct values are no more than the data, in each set of segments once more.
            need = fixed + len(columns) * task.listed.size * (2 if segments else 1)
            if batch and (len(batch) == most or held + need > BATCH_BYTES):
                yield batch
                batch, held = [], 0
            batch.append(task)
            held += need
        yield batch


def _measure(
    source: Source,
    data: DataFrame,
    batch: Sequence[_Task],
    schema: str,
    time: TimeFormat | None,
    sets: Sequence[SegmentSet],
) -> Iterator[Measured]:
    analyzers = batch[0].analyzers
    wanted = {task.listed.partition for task in batch}
    found = scan(data, analyzers, source.keys, lambda key: source.partition_of(key) in wanted, sets)
    groups = {source.partition_of(key): group for key, group in found.groups.items()}
    names = {name: s for s in sets for name in s.names()}
    for task in batch:
        partition = task.listed.partition
        group = groups.get(partition, found.nothing)
        own = time.segment_of(partition) if time else ""
        measurements = list(_measurements(group, analyzers, own, None))
        for name, segments in names.items():  # one without rows is measured, too: as nothing
            part = group.segments.get(name, found.nothing)
            measurements += _measurements(part, analyzers, joined(own, name), segments)
        yield Measured(
            partition=partition,
            time=task.time,
            fingerprint=task.listed.fingerprint,
            arrived_at=task.listed.arrived_at,
            schema=schema,
            rows=group.rows,
            measurements=tuple(measurements),
            segment=own,
            added_to=task.added_to,
        )


def _measurements(
    group: Group, analyzers: Sequence[AnyAnalyzer], segment: str, segments: SegmentSet | None
) -> Iterator[Measurement]:
    for a in analyzers:
        yield Measurement(a, group.states[a], metric_of(a, group.states[a]), segment, segments)


def _add(report: RunReport, found: Sequence[Measured], changes: Sequence[Change]) -> RunReport:
    names = [measured.partition.name for measured in found]
    failed = dict(report.failed)
    for measurement in (m for measured in found for m in measured.measurements):
        outcome = measurement.outcome
        if isinstance(outcome, Failure):
            failed.setdefault(measurement.analyzer, outcome.error)
    done = {**report.changes, **dict(zip(names, changes, strict=True))}
    return replace(report, changes=done, failed=failed)
