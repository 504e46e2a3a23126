"""Incremental runs: measure new and changed partitions in batches, each committed when it is done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from statistics import median
from types import MappingProxyType
from typing import TYPE_CHECKING

from tidegauge.analyzers.columnar.engines import LazySession, MeasuringEngine, Route
from tidegauge.analyzers.columnar.planner import (
    START_SECONDS,
    ColumnarPlanner,
    ColumnarResult,
    PartitionFiles,
    PartitionPlan,
)
from tidegauge.analyzers.columnar.tasks import scanner_for
from tidegauge.analyzers.core.analyzer import AnyAnalyzer
from tidegauge.analyzers.core.errors import (
    MetricError,
    NoSuchColumnError,
    PartitionColumnError,
    SourceError,
    StandingError,
    SuiteError,
    TableFormatError,
    UnresolvedExpressionError,
    WrongColumnTypeError,
)
from tidegauge.analyzers.core.metric import Failure
from tidegauge.analyzers.core.partitions import (
    MAX_SEGMENTS,
    Partition,
    SegmentSet,
    TimeFormat,
    parse_selection,
    recognise_time,
    select_named,
)
from tidegauge.analyzers.core.privacy import PARTITIONS, PUBLIC, SEGMENTS, Privacy
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.measures.frequencies import GroupingAnalyzer
from tidegauge.analyzers.measures.histogram import HistogramOfSums
from tidegauge.analyzers.runs.ledger import (
    SOURCE_VERSION,
    LedgerEntry,
    MeasuredPartition,
    RunSpec,
    RunStore,
    analyzer_key,
    differ,
    error_reason,
    own_part,
    stored_error,
    table_fingerprints,
    with_references,
)
from tidegauge.analyzers.runs.observed import ObservedRows
from tidegauge.analyzers.runs.recording import (
    WAIT_SECONDS,
    Progress,
    Recording,
    RunReport,
    Silent,
    measured_states,
    recording,
)
from tidegauge.analyzers.scan.capabilities import SMALL_BYTES, plan_cost
from tidegauge.analyzers.scan.grouping import most_frequent_values
from tidegauge.analyzers.scan.plan import UNKNOWN, Expectation
from tidegauge.analyzers.scan.scan import Group, Outcome, scan
from tidegauge.analyzers.scan.spark_errors import measure_readable
from tidegauge.analyzers.scan.user_sql import reads_tables, tables_read
from tidegauge.analyzers.sources.opening import open_table
from tidegauge.analyzers.sources.sources import ListedPartition, Source, whole_fingerprint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BATCH_PARTITIONS = 1000
BATCH_BYTES = 256 * 2**20
"""Limits of one batch: number of partitions, and bytes of states held on the driver at once."""
MEASUREMENT_BYTES = 2000
"""Approximate Python overhead of one uncommitted measurement, in addition to its state."""


@dataclass(frozen=True)
class Segmentation:
    """Settings for segments: the columns, and how their values are chosen.

    Attributes
    ----------
    columns : tuple of tuple of str
        Sets of columns to segment by.
    max_values : int
        Maximum number of values per set that are segments of their own.
    rechoose : bool
        True to choose the values again, from the partitions of this run.
    """

    columns: tuple[tuple[str, ...], ...] = ()
    max_values: int = MAX_SEGMENTS
    rechoose: bool = False


@dataclass(frozen=True)
class _Task:
    """A partition to scan, and the analyzers to run on it.

    ``is_retry`` is set if all analyzers failed on the partition before. ``answered`` has the states of further
    analyzers, which were computed from the partition's files or while it was written.
    """

    listed: ListedPartition
    time: datetime | None
    analyzers: tuple[AnyAnalyzer, ...]
    added_to: int | None = None
    is_retry: bool = False
    answered: ColumnarResult | None = None

    def answered_by(self, result: ColumnarResult) -> _Task:
        """Return the task with more answers, and with the analyzers that are left."""
        earlier = {} if self.answered is None else self.answered.outcomes
        rest = tuple(a for a in self.analyzers if a not in result.outcomes)
        merged = replace(result, outcomes={**earlier, **result.outcomes})
        return replace(self, analyzers=rest, answered=merged)


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
    private: Privacy = PUBLIC,
    engine: MeasuringEngine = MeasuringEngine.AUTO,
    observed: ObservedRows | None = None,
) -> RunReport:
    """Measure the selected partitions of a source and commit them batch by batch.

    Parameters
    ----------
    source : Source
        The table to measure.
    spec : RunSpec
        The dataset, and the settings to store with the run.
    analyzers : sequence of Analyzer
        The analyzers to run.
    store : RunStore
        The store to commit to.
    partitions : str or sequence of str
        ``new``, ``all``, a partition filter, or partition names. With ``new``, the run measures new and
        changed partitions. On unchanged partitions it runs only analyzers that are missing, or that
        failed for a reason outside the data.
    time : TimeFormat, optional
        Format of the partition time; detected from the keys' names by default.
    progress : Progress, optional
        Receives the events of the run: its start, its batches and its end.
    batch_partitions : int
        Maximum number of partitions in one pass.
    segmentation : Segmentation
        Segments to measure in addition to whole partitions.
    wait : float
        Seconds to wait for the lease while another run measures the dataset.
    private : Privacy
        Columns whose values are never stored; see `scan`.
    engine : MeasuringEngine
        ``auto`` measures partitions without Spark as far as possible; see `ColumnarPlanner`.
    observed : ObservedRows, optional
        Results of the write of one partition. They replace its scan if the partition still has these rows.

    Returns
    -------
    RunReport
        If a run is interrupted, committed batches are kept and the next run resumes after them.

    Raises
    ------
    SourceError
        If none of the partitions to scan can be read. If only some cannot be read, the run measures the
        others, and the next run retries the unreadable ones.
    """
    time = time.among(source.keys) if time else _time_of(source)
    progress = progress or Silent()
    _refuse_keys(segmentation, source.keys)
    _refuse_private(segmentation, source, time, private)
    chosen = partition_filter(partitions, source.keys, time)
    with recording(store, spec, wait) as run:
        try:
            listed = _list_partitions(source)
            _tag_version(store, run.run, source)
            ledger = _settled_ledger(source, listed, run)
            listed = _with_references(source, listed, analyzers)
            present = {entry.partition.name for entry in listed}
            complete = getattr(source, "lists_all", True)
            gone = tuple(sorted(name for name in ledger if complete and name not in present))
            segments = _segment_sets(store, spec.dataset, segmentation)
            keys = _ledger_keys(tuple(dict.fromkeys(analyzers)), segments)
            tasks = _tasks(listed, ledger, keys, chosen, time)
            standing = _StandingFailures.from_ledger(store, spec.dataset, ledger, keys)
            run.report = replace(
                run.report,
                skipped=len(listed) - len(tasks),
                uncompared=_uncompared(() if chosen else listed, tasks),
                gone=gone,
            )
            mark_gone(store, run.run, ledger, gone, present)
            progress.start(spec.dataset, len(tasks))

            def read(batch_tasks: Sequence[_Task]) -> DataFrame:
                is_all = len(batch_tasks) == len(listed) > 1
                return source.read(None if is_all else [t.listed.partition for t in batch_tasks])

            if tasks and not all(chosen for _, chosen in segments):
                new = [s for s, chosen in segments if not chosen]
                store.keep_segments(run.run, _choose(read(tasks), new, segmentation.max_values))
                segments = _segment_sets(store, spec.dataset, replace(segmentation, rechoose=False))
            # If there were no rows to choose from, the next run chooses and backfills the segments.
            sets = tuple(s for s, chosen in segments if chosen)

            tasks = _use_observed(
                None if sets else observed, source, time, private, tasks, standing, run
            )
            if engine is MeasuringEngine.AUTO and not sets and not private:
                tasks = _measure_files(
                    source, time, progress, tasks, batch_partitions, standing, run
                )
            large = sum(task.listed.size for task in tasks) > SMALL_BYTES
            expected = _expectation(store, spec.dataset, analyzers, ledger) if large else UNKNOWN
            measure = partial(
                _measure_by_spark, source, read, time, sets, private, expected, progress
            )
            read_keys = _read_keys(source, tasks)
            batches = _batches(tasks, batch_partitions, sum(s.size for s in sets), read_keys)
            for batch in filter(None, map(standing.without_hopeless, batches)):
                measured, unreadable = measure_readable(batch, _partition_of, measure)
                run.leave_out(unreadable)
                measured = standing.settled(batch, _without_vanished(source, batch, measured))
                if measured:
                    run.commit(measured)
                    run.count_routes({Route.SPARK: len(measured) * len(batch[0].analyzers)})
            selected = present if chosen is None else chosen(listed)
            run.report_rest(present, standing.errors(listed, selected, time))
            if run.errors and not run.report.changes:
                raise SourceError("; ".join(run.errors[:3]))
        finally:
            progress.close()
    return run.report


def _use_observed(
    observed: ObservedRows | None,
    source: Source,
    time: TimeFormat | None,
    private: Privacy,
    tasks: Sequence[_Task],
    standing: _StandingFailures,
    run: Recording,
) -> list[_Task]:
    """Answer the task of an observed partition; return the tasks with the analyzers that are left."""
    left = []
    for task in tasks:
        result = None
        if observed is not None and task.listed.partition == observed.partition:
            result = observed.answer(source, task.analyzers, private)
        if result is None:
            left.append(task)
            continue
        run.count_routes(Counter(result.routes.values()))
        answered = task.answered_by(result)
        if answered.analyzers:
            left.append(answered)
        else:
            measured = [_measured_files(source, task, result, time)]
            run.commit(standing.settled([task], measured))
    return left


def _measure_files(
    source: Source,
    time: TimeFormat | None,
    progress: Progress,
    tasks: Sequence[_Task],
    max_partitions: int,
    standing: _StandingFailures,
    run: Recording,
) -> list[_Task]:
    """Measure and commit partitions of Parquet files without Spark; return the tasks that are left for Spark.

    Answers of an observed write are kept. Retries are left for Spark, because they begin with a single partition.
    """
    list_files = getattr(source, "parquet_files", None)
    new = [task for task in tasks if not task.is_retry]
    if list_files is None or not new:
        return list(tasks)
    planner = _planner_for(source)
    files: Mapping[Partition, PartitionFiles] = list_files([t.listed.partition for t in new])
    plans: dict[Partition, PartitionPlan] = {}
    for task in new:
        partition = task.listed.partition
        plan = planner.plan(files[partition], task.analyzers) if partition in files else None
        if plan is not None:
            plans[partition] = plan
    left = {task.listed.partition: task for task in tasks}
    for batch in _batches([t for t in new if t.listed.partition in plans], max_partitions, 0):
        complete, measured = [], []
        with progress.batch(None, len(batch)):
            results = planner.scan({p: plans.pop(p) for p in map(_partition_of, batch)})
            for task in batch:
                partition = task.listed.partition
                result = results.get(partition)
                if result is None:
                    continue
                _keep_column_failures(result.outcomes.values())
                run.count_routes(Counter(result.routes.values()))
                answered = left[partition] = task.answered_by(result)
                if answered.answered is not None and not answered.analyzers:
                    complete.append(task)
                    measured.append(_measured_files(source, task, answered.answered, time))
        measured = _without_vanished(source, complete, measured)
        if measured:
            run.commit(standing.settled(complete, measured))
        for task in complete:
            del left[task.listed.partition]
    return list(left.values())


def estimate_routes(
    source: Source, listed: ListedPartition, analyzers: Sequence[AnyAnalyzer]
) -> dict[str, int]:
    """Estimate how many analyzers of a partition each route would answer, from the metadata of its files.

    Parameters
    ----------
    source : Source
        The table.
    listed : ListedPartition
        The partition.
    analyzers : sequence of Analyzer
        The analyzers, without those that fail.
    """
    list_files = getattr(source, "parquet_files", None)
    files = list_files([listed.partition]) if list_files else {}
    planner, plan = _planner_for(source), None
    if listed.partition in files:
        plan = planner.plan(files[listed.partition], analyzers)
    if plan is None:
        return {str(Route.SPARK): len(analyzers)}
    route = Route.COLUMNS
    if plan.scan_seconds > planner.seconds_left:
        route = Route.SPARK if planner.scan_by_tasks is None else Route.TASKS
        plan = plan.only(plan.has_few_values)
    counts = Counter(map(str, plan.answered.routes.values()))
    scanned = 0 if plan.has_large_groups else len(plan.kernels)
    counts[str(route)] += scanned
    counts[str(Route.SPARK)] += len(analyzers) - scanned - len(plan.answered.outcomes)
    return {route: count for route, count in counts.items() if count}


def newest_partition(
    source: Source, listed: Sequence[ListedPartition], time: TimeFormat | None = None
) -> ListedPartition | None:
    """Return the newest partition; None if there are no partitions.

    Parameters
    ----------
    source : Source
        The table.
    listed : sequence of ListedPartition
        Its partitions.
    time : TimeFormat, optional
        Format of the partition time; detected by default.
    """
    time = time.among(source.keys) if time else _time_of(source)
    dated = [(time.time_of(entry.partition) if time else None, entry) for entry in listed]
    newest = max(
        dated, key=lambda d: (d[0] is not None, _sort_key(d[1].partition, d[0])), default=None
    )
    return None if newest is None else newest[1]


def measure_without_spark(
    source: Source, analyzers: Sequence[AnyAnalyzer]
) -> dict[AnyAnalyzer, Outcome]:
    """Return the outcomes over all rows of a source that need no Spark SQL.

    Parameters
    ----------
    source : Source
        The table or folder.
    analyzers : sequence of Analyzer
        The analyzers. Those that only Spark can measure are left out.
    """
    list_files = getattr(source, "parquet_files", None)
    partitions = [listed.partition for listed in _list_partitions(source)]
    files: Mapping[Partition, PartitionFiles] = list_files(partitions) if list_files else {}
    if not partitions or not files.keys() >= set(partitions):
        return {}
    planner = _planner_for(source)
    result = planner.measure_together([files[partition] for partition in partitions], analyzers)
    return {} if result is None else dict(result.outcomes)


def _planner_for(source: Source) -> ColumnarPlanner:
    """Return a planner that uses the tasks of the source's session, if it has one."""
    session = getattr(source, "spark", None)
    planner = ColumnarPlanner(scan_by_tasks=None if session is None else scanner_for(session))
    if isinstance(session, LazySession) and not session.is_started:
        planner.seconds_left += START_SECONDS
    return planner


def _measured_files(
    source: Source, task: _Task, result: ColumnarResult, time: TimeFormat | None
) -> MeasuredPartition:
    """Return the measurements of a partition that needs no scan by Spark."""
    return MeasuredPartition.from_measurements(
        task.listed.partition,
        measured_states(result.outcomes, result.outcomes),
        time,
        fingerprint=task.listed.fingerprint,
        arrived_at=task.listed.arrived_at,
        schema=result.schema.without(set(source.keys)).canonical(),
        rows=result.rows,
        added_to=task.added_to,
    )


def _tag_version(store: RunStore, run: int, source: Source) -> None:
    version = getattr(source, "version", None)
    if version is not None:
        store.tag_run(run, {SOURCE_VERSION: version})


def mark_gone(
    store: RunStore,
    run: int,
    ledger: Mapping[str, LedgerEntry],
    gone: Sequence[str],
    present: Collection[str],
) -> None:
    """Mark partitions that disappeared from the table since the last run, or came back."""
    vanished = [name for name in gone if not ledger[name].gone]
    returned = [name for name, entry in ledger.items() if entry.gone and name in present]
    if vanished or returned:
        store.mark_gone(run, vanished, returned)


def _time_of(source: Source) -> TimeFormat | None:
    """Return the time format that the source declares, or else the one its key names suggest."""
    return getattr(source, "time_format", None) or recognise_time(source.keys)


def _uncompared(listed: Sequence[ListedPartition], tasks: Sequence[_Task]) -> int:
    """Return the number of skipped partitions that cannot be compared, because they have no fingerprint."""
    scanned = {task.listed.partition for task in tasks}
    return sum(entry.fingerprint is None and entry.partition not in scanned for entry in listed)


def _partition_of(task: _Task) -> Partition:
    return task.listed.partition


def _without_vanished(
    source: Source, batch: Sequence[_Task], measured: list[MeasuredPartition]
) -> list[MeasuredPartition]:
    """Leave out partitions that had files when they were listed, but no rows when they were read.

    Their files may have been dropped or replaced in the meantime. If so, the next run compares them again.
    A table with versions is always read in the version that was listed.
    """
    sizes = {task.listed.partition: task.listed for task in batch if task.listed.size}
    empty = [m.partition for m in measured if not m.rows and m.partition in sizes and _was_read(m)]
    if not empty or getattr(source, "version", None) is not None:
        return measured
    now = {entry.partition: entry.fingerprint for entry in source.list_partitions()}
    gone = {p for p in empty if now.get(p) != own_part(sizes[p].fingerprint)}
    return [m for m in measured if m.partition not in gone]


def _was_read(measured: MeasuredPartition) -> bool:
    """Return whether data was read. If no analyzer fits the schema, nothing is read."""
    return measured.added_to is None or any(m.error is None for m in measured.measurements)


def _list_partitions(source: Source) -> list[ListedPartition]:
    """List the partitions of a source; raise if two have the same name.

    Values that are not valid text, such as arbitrary bytes, can give two partitions the same name.
    """
    listed = source.list_partitions()
    partition_by_name: dict[str, Partition] = {}
    for partition in (entry.partition for entry in listed):
        namesake = partition_by_name.setdefault(partition.name, partition)
        if namesake is not partition:
            values = " and ".join(str(p.values) for p in (namesake, partition))
            msg = (
                f"two partitions have the name {partition.name!r} (values {values}): partition by other"
                " columns (partition_by=[...]), or do not partition (partition_by=[])"
            )
            raise PartitionColumnError(msg)
    return listed


def _refuse_keys(segmentation: Segmentation, keys: Sequence[str]) -> None:
    by_name = {key.casefold() for key in keys}
    for column in (c for columns in segmentation.columns for c in columns):
        if column.casefold() in by_name:
            msg = (
                f"cannot segment by {column!r}: it is a partition key, so each of its values already"
                " has its own series; remove it from the segments"
            )
            raise SuiteError(msg)


def _refuse_private(
    segmentation: Segmentation, source: Source, time: TimeFormat | None, private: Privacy
) -> None:
    """Raise if names of partitions or segments would contain values of private columns."""
    if not private:
        return
    time_keys = time.keys if time and private.covers_all else ()
    hidden = {field.name: field.column for field in getattr(source, "fields", ())}
    # Reading the schema can start a Spark job, so read it only if its tags can make a column private.
    columns = [column for columns in segmentation.columns for column in columns]
    schema = None
    if columns or (private.tags and source.keys):
        schema = Schema.from_spark(source.read(None).schema)
    private.refuse_names(source.keys, PARTITIONS, schema, time)
    # Hidden partitions, such as truncate(4, email), are named by parts of their column's values.
    made_of = (hidden[key] for key in source.keys if key in hidden and key not in time_keys)
    private.refuse_names(made_of, PARTITIONS, schema)
    private.refuse_names(columns, SEGMENTS, schema)


def _segment_sets(
    store: RunStore, dataset: str, segmentation: Segmentation
) -> list[tuple[SegmentSet, bool]]:
    """Return the segment sets, each with a flag for whether its values have been chosen."""
    stored = store.segment_sets(dataset)
    sets = []
    for columns in segmentation.columns:
        previous = stored.get(columns)
        if previous is not None and not segmentation.rechoose:
            sets.append((previous, True))
        else:
            generation = previous.generation + 1 if previous else 1
            sets.append((SegmentSet(columns, (), generation), False))
    return sets


def _choose(data: DataFrame, sets: Sequence[SegmentSet], max_values: int) -> list[SegmentSet]:
    """Choose the most frequent values as segments; one extra Spark action, once per dataset."""
    values = most_frequent_values(data, [s.columns for s in sets], max_values)
    return [replace(s, kept=values[s.columns]) for s in sets if values[s.columns]]


PartitionFilter = Callable[[Sequence[ListedPartition]], set[str]]


def partition_filter(
    partitions: str | Sequence[str], keys: Sequence[str], time: TimeFormat | None = None
) -> PartitionFilter | None:
    """Return a partition filter for an explicit selection, or None for ``new``.

    Selected partitions are scanned even if the ledger has them. With ``new``, the ledger decides which
    partitions are scanned. The filter raises a `PartitionSelectionError` if a name does not exist, or if
    conditions match no partition.

    Parameters
    ----------
    partitions : str or sequence of str
        ``new``, ``all``, a condition on the partition keys, or partition names.
    keys : sequence of str
        The partition keys.
    time : TimeFormat, optional
        Format of the partition time, which orders the names in error messages.
    """
    if partitions == "new":
        return None
    if partitions == "all":
        return lambda listed: {entry.partition.name for entry in listed}
    if not isinstance(partitions, str):
        return lambda listed: select_named(partitions, _oldest_first(listed, time))
    selection = parse_selection(partitions, keys)

    def select(listed: Sequence[ListedPartition]) -> set[str]:
        chosen = {entry.partition.name for entry in listed if selection(entry.partition)}
        return selection.require_match(chosen, _oldest_first(listed, time))

    return select


def _oldest_first(listed: Sequence[ListedPartition], time: TimeFormat | None) -> list[str]:
    """Return the names of partitions in order of time; those without a time come first."""
    partitions = [entry.partition for entry in listed]
    form = time or recognise_time(partitions[0].keys if partitions else ())
    times = {p.name: form.time_of(p) if form else None for p in partitions}
    return sorted(times, key=lambda name: (str(times[name] or ""), name))


def _tasks(
    listed: Sequence[ListedPartition],
    ledger: Mapping[str, LedgerEntry],
    keys: _Keys,
    choose: PartitionFilter | None,
    time: TimeFormat | None,
) -> list[_Task]:
    chosen = None if choose is None else choose(listed)
    tasks = []
    for entry in listed:
        name = entry.partition.name
        previous = ledger.get(name)
        if chosen is None:
            analyzers = _analyzers_to_run(entry, previous, keys)
        else:
            analyzers = tuple(keys) if name in chosen else ()
        if analyzers:
            moment = time.time_of(entry.partition) if time else None
            is_backfill = previous is not None and chosen is None and not changed(entry, previous)
            version = previous.version if previous is not None and is_backfill else None
            retries = (
                previous.retries if previous is not None and version is not None else frozenset()
            )
            is_retry = all(keys[a] & retries for a in analyzers)
            tasks.append(_Task(entry, moment, analyzers, version, is_retry))
    tasks.sort(key=lambda t: _sort_key(t.listed.partition, t.time))
    return tasks


_Keys = Mapping[AnyAnalyzer, frozenset[str]]
"""The ledger keys of each analyzer: on whole partitions, and by each segment set."""


def _ledger_keys(
    analyzers: Sequence[AnyAnalyzer], segments: Sequence[tuple[SegmentSet, bool]]
) -> _Keys:
    sets = (None, *(s for s, _ in segments))
    return {a: frozenset(analyzer_key(a, s) for s in sets) for a in analyzers}


def _sort_key(partition: Partition, time: datetime | None) -> tuple[bool, float, str]:
    """Return the sort key of a partition: time, then name. Partitions without a time come last."""
    return time is None, time.timestamp() if time else 0.0, partition.name


@dataclass
class _StandingFailures:
    """Failures of earlier runs: decides which analyzers to retry, and reports unresolved failures.

    A retry begins with the newest partition. If an analyzer fails on this partition with the same error as
    before, the run does not retry it on other partitions where it failed with that error. Otherwise an
    unregistered function would cost a scan of the whole history in each run.

    Attributes
    ----------
    ledger : mapping of str to LedgerEntry
        The ledger at the start of the run.
    keys : mapping of Analyzer to frozenset of str
        The ledger keys of each analyzer.
    stored : mapping of (str, str) to frozenset of str
        The stored errors by partition and canonical analyzer.
    standing : dict of str to set of Analyzer
        The failed analyzers by partition that this run has not measured.
    hopeless : set of (Analyzer, str)
        Analyzers that failed again in this run, with their errors.
    """

    ledger: Mapping[str, LedgerEntry]
    keys: _Keys
    stored: Mapping[tuple[str, str], frozenset[str]]
    standing: dict[str, set[AnyAnalyzer]]
    hopeless: set[tuple[AnyAnalyzer, str]] = field(default_factory=set)

    @classmethod
    def from_ledger(
        cls, store: RunStore, dataset: str, ledger: Mapping[str, LedgerEntry], keys: _Keys
    ) -> _StandingFailures:
        """Read the failures of analyzers from a store."""
        standing = {}
        for name, entry in ledger.items():
            failed = entry.failed | entry.retries
            if failed and (
                analyzers := {a for a, analyzer_keys in keys.items() if analyzer_keys & failed}
            ):
                standing[name] = analyzers
        stored = store.failures(dataset, standing.keys()) if standing else {}
        return cls(ledger, keys, stored, standing)

    def without_hopeless(self, batch: list[_Task]) -> list[_Task]:
        """Return a batch without the retries that would fail for the same reason as before."""
        return [task for task in batch if not (task.is_retry and self._is_hopeless(task))]

    def _is_hopeless(self, task: _Task) -> bool:
        return all(
            {
                (analyzer, error_reason(error))
                for error in self._errors(task.listed.partition.name, analyzer)
            }
            <= self.hopeless
            for analyzer in task.analyzers
        )

    def settled(
        self, batch: Sequence[_Task], measured_partitions: Sequence[MeasuredPartition]
    ) -> list[MeasuredPartition]:
        """Return the measured partitions to store: all but retries that repeat every earlier failure.

        The new outcomes replace the earlier failures of the same analyzers.
        """
        to_store = []
        for measured in measured_partitions:
            name = measured.partition.name
            repeated = {
                (m.analyzer, reason)
                for m in measured.measurements
                if m.error is not None
                and (reason := error_reason(stored_error(m.error)))
                in map(error_reason, self._errors(name, m.analyzer))
            }
            analyzers = {m.analyzer for m in measured.measurements}
            if batch[0].is_retry:
                self.hopeless |= repeated
                if analyzers == {analyzer for analyzer, _ in repeated}:
                    continue
            self.standing.get(name, set()).difference_update(analyzers)
            to_store.append(measured)
        return to_store

    def errors(
        self, listed: Sequence[ListedPartition], selected: Collection[str], time: TimeFormat | None
    ) -> dict[AnyAnalyzer, MetricError]:
        """Return the newest unresolved failure in the selected partitions, by analyzer.

        A missing column is not a failure in partitions that are older than the column.
        """
        values = {
            name: {
                a
                for a, analyzer_keys in self.keys.items()
                if analyzer_keys <= entry.analyzers - entry.failed
            }
            for name, entry in (self.ledger.items() if any(self.standing.values()) else ())
        }
        order = sorted(
            (entry.partition for entry in listed),
            key=lambda p: _sort_key(p, time.time_of(p) if time else None),
        )
        errors: dict[AnyAnalyzer, MetricError] = {}
        # Analyzers that have values in later partitions.
        measured_later: set[AnyAnalyzer] = set().union(*values.values())
        for name in (partition.name for partition in order):
            for analyzer in self.standing.get(name, ()) if name in selected else ():
                error = min(self._errors(name, analyzer), default="failed")
                if analyzer in measured_later and error.startswith(
                    f"{NoSuchColumnError.__name__}:"
                ):
                    continue
                retried = bool(self.keys[analyzer] & self.ledger[name].retries)
                message = error.partition(": ")[2] or error  # without the class
                errors[analyzer] = StandingError(message, name, is_retriable=retried)
            measured_later -= values.get(name, set())
        return errors

    def _errors(self, partition: str, analyzer: AnyAnalyzer) -> frozenset[str]:
        return self.stored.get((partition, analyzer.canonical()), frozenset())


def _analyzers_to_run(
    entry: ListedPartition, previous: LedgerEntry | None, keys: Mapping[AnyAnalyzer, frozenset[str]]
) -> tuple[AnyAnalyzer, ...]:
    """Return the analyzers to run on a partition: all, the missing ones, or none."""
    if previous is None or changed(entry, previous):
        return tuple(keys)
    return tuple(a for a, analyzer_keys in keys.items() if not analyzer_keys <= previous.analyzers)


def changed(entry: ListedPartition, previous: LedgerEntry) -> bool:
    """Return whether a partition has changed since it was measured; False without a fingerprint."""
    return entry.fingerprint is not None and differ(entry.fingerprint, previous.fingerprint)


def _settled_ledger(
    source: Source, listed: Sequence[ListedPartition], run: Recording
) -> Mapping[str, LedgerEntry]:
    """Return the ledger with new fingerprints for partitions whose files were only rewritten."""
    ledger = dict(run.ledger())
    same = _only_rewritten(source, listed, ledger)
    if same:
        run.store.replace_fingerprints(run.run, same)
    return ledger | {name: replace(ledger[name], fingerprint=new) for name, new in same.items()}


def _only_rewritten(
    source: Source, listed: Sequence[ListedPartition], ledger: Mapping[str, LedgerEntry]
) -> dict[str, str]:
    """Return the new fingerprints of partitions with different files but the same rows as before.

    A partition has the same rows if the table still has the version in which the partition was last
    compared, or if the table's log shows that its files were only rewritten since.
    """
    version = getattr(source, "version", None)
    rewritten = getattr(source, "only_rewritten", None)
    since: dict[str, str] = {}
    for entry in listed:
        previous = ledger.get(entry.partition.name)
        if (
            previous
            and previous.source_version
            and own_part(previous.fingerprint) != entry.fingerprint
        ):
            since[entry.partition.name] = previous.source_version
    same = {name for name, old_version in since.items() if old_version == version}
    undecided = {name: old_version for name, old_version in since.items() if name not in same}
    if undecided and rewritten is not None:
        same |= rewritten(undecided)
    return {
        name: new
        for entry in listed
        if (name := entry.partition.name) in same
        and (
            new := with_references(entry.fingerprint, table_fingerprints(ledger[name].fingerprint))
        )
    }


def _with_references(
    source: Source, listed: Sequence[ListedPartition], analyzers: Sequence[AnyAnalyzer]
) -> list[ListedPartition]:
    """Add the fingerprints of the tables that analyzers reference to the partitions' fingerprints."""
    tables = {table for a in analyzers for table in a.reads}
    # In a query, the name of the measured data hides a table of that name; in a filter it does not.
    nested = [
        (sql, None if sql == a.where else a.data_name)
        for a in analyzers
        for sql in a.expressions()
        if reads_tables(sql)
    ]
    if not tables and not nested:
        return list(listed)
    if not listed:
        return []
    data = source.read([listed[-1].partition])
    tables |= tables_read(data, nested)
    fingerprints: dict[str, str] = {}
    for table in sorted(tables):
        try:
            fingerprint = whole_fingerprint(open_table(data.sparkSession, table, None))
        except TableFormatError:
            raise  # Spark would read files that the table no longer has
        except SourceError:
            continue  # the analyzer fails with this error
        if fingerprint is not None:
            fingerprints[table] = fingerprint
    return [replace(e, fingerprint=with_references(e.fingerprint, fingerprints)) for e in listed]


def batch_sizes(
    listed: Sequence[ListedPartition], analyzers: tuple[AnyAnalyzer, ...], segments: int
) -> tuple[int, ...]:
    """Return the number of partitions in each batch of a scan of all partitions.

    Parameters
    ----------
    listed : sequence of ListedPartition
        The partitions of the table.
    analyzers : tuple of Analyzer
        The analyzers to run on each partition.
    segments : int
        The number of segments in addition to each whole partition.
    """
    tasks = [_Task(entry, None, analyzers) for entry in listed]
    return tuple(map(len, _batches(tasks, BATCH_PARTITIONS, segments)))


def _read_keys(source: Source, tasks: Sequence[_Task]) -> Mapping[Partition, Hashable]:
    """Return a key for each partition. Partitions with equal keys have the same columns."""
    read_keys = getattr(source, "read_keys", None)
    if read_keys is None or not tasks:
        return {}
    keys: Mapping[Partition, Hashable] = read_keys([task.listed.partition for task in tasks])
    return keys


def _batches(
    tasks: Sequence[_Task],
    max_partitions: int,
    segments: int,
    read_keys: Mapping[Partition, Hashable] = MappingProxyType({}),
) -> Iterator[list[_Task]]:
    """Split tasks, in order, into batches with equal analyzers and columns, within the limits.

    Retries begin with a batch of their newest partition alone.
    """
    tasks_alike: dict[tuple[tuple[AnyAnalyzer, ...], bool, Hashable], list[_Task]] = {}
    for task in tasks:
        key = (task.analyzers, task.is_retry, read_keys.get(task.listed.partition))
        tasks_alike.setdefault(key, []).append(task)
    for (analyzers, is_retry, _), same in tasks_alike.items():
        if is_retry and len(same) > 1:
            yield [same.pop()]
        fixed = (1 + segments) * sum(a.state_bytes + MEASUREMENT_BYTES for a in analyzers)
        grouping = (GroupingAnalyzer, HistogramOfSums)
        columns = {a.grouping_columns for a in analyzers if isinstance(a, grouping)}
        batch: list[_Task] = []
        batch_bytes = 0
        for task in same:
            # Frequencies take at most the size of the data, and as much again for the segments.
            task_bytes = fixed + len(columns) * task.listed.size * (2 if segments else 1)
            if batch and (len(batch) == max_partitions or batch_bytes + task_bytes > BATCH_BYTES):
                yield batch
                batch, batch_bytes = [], 0
            batch.append(task)
            batch_bytes += task_bytes
        yield batch


DISTINCT_COUNTS = ("ApproxCountDistinct", "CountDistinct", "Histogram.bins")
"""Metrics whose value is the number of distinct values of a column."""


def _expectation(
    store: RunStore,
    dataset: str,
    analyzers: Sequence[AnyAnalyzer],
    ledger: Mapping[str, LedgerEntry],
) -> Expectation:
    """Return the expected rows and distinct values per partition, from the stored history.

    Only metrics that this run measures again count, so that the run corrects a wrong expectation.
    """
    rows = [entry.rows for entry in ledger.values() if entry.rows]
    if not rows:
        return UNKNOWN
    newest = store.newest_values(dataset, DISTINCT_COUNTS)
    measured = {(name, a.instance) for a in analyzers for name in (a.name, f"{a.name}.bins")}
    distinct: dict[str, float] = {}
    for (name, column), values in newest.items():
        if (name, column) in measured:
            distinct[column.casefold()] = max(values, distinct.get(column.casefold(), 0.0))
    return Expectation(median(rows), median(rows), distinct)


def _measure_by_spark(
    source: Source,
    read: Callable[[Sequence[_Task]], DataFrame],
    time: TimeFormat | None,
    sets: Sequence[SegmentSet],
    private: Privacy,
    expected: Expectation,
    progress: Progress,
    batch: Sequence[_Task],
) -> list[MeasuredPartition]:
    """Read and scan one batch."""
    data = read(batch)
    with progress.batch(data.sparkSession, len(batch)):
        schema = Schema.from_spark(data.schema).without(set(source.keys)).canonical()
        expectation = expected if expected.distinct and plan_cost(data).plain else UNKNOWN
        return list(_measure(source, data, batch, schema, time, sets, private, expectation))


def _measure(
    source: Source,
    data: DataFrame,
    batch: Sequence[_Task],
    schema: str,
    time: TimeFormat | None,
    sets: Sequence[SegmentSet],
    private: Privacy,
    expected: Expectation,
) -> Iterator[MeasuredPartition]:
    """Scan one batch and yield the measurements of each of its partitions."""
    analyzers = batch[0].analyzers
    partitions = {task.listed.partition for task in batch}
    is_single = len(batch) == 1 and getattr(source, "reads_exactly", False)
    sizes = [task.listed.size for task in batch]
    result = scan(
        data,
        analyzers,
        # An aggregation without keys takes a sixth less time.
        () if is_single else source.keys,
        lambda key: is_single or source.partition_of(key) in partitions,
        sets,
        private,
        small=all(sizes) and sum(sizes) <= SMALL_BYTES,
        # With segments, the groups of all rows would repeat in each segment.
        expected=UNKNOWN if sets else replace(expected, rows=expected.group_rows * len(batch)),
        needs_rows=any(task.added_to is None for task in batch),
    )
    if hasattr(source, "read_keys"):
        _keep_column_failures(result.nothing.states.values())
    groups: dict[Partition | None, Group] = {
        batch[0].listed.partition if is_single else source.partition_of(key): group
        for key, group in result.groups.items()
        if group.rows
    }
    names = {name: s for s in sets for name in s.names()}
    for task in batch:
        partition = task.listed.partition
        group = groups.get(partition, result.nothing)
        measurements = measured_states(group.states, analyzers)
        if task.answered is not None:
            measurements += measured_states(task.answered.outcomes, task.answered.outcomes)
        for name, segments in names.items():  # segments without rows get the state of no data
            states = group.segments.get(name, result.nothing).states
            measurements += measured_states(states, analyzers, name, segments)
        yield MeasuredPartition.from_measurements(
            partition,
            measurements,
            time,
            fingerprint=task.listed.fingerprint,
            arrived_at=task.listed.arrived_at,
            schema=schema,
            rows=group.rows,
            added_to=task.added_to,
        )


def _keep_column_failures(outcomes: Iterable[Outcome]) -> None:
    """Mark errors about columns as not retriable until the files change.

    A catalog table can get a column later. For a table of files, a column that a file lacks stays missing
    as long as the file is the same.
    """
    for error in (outcome.error for outcome in outcomes if isinstance(outcome, Failure)):
        is_unresolved = isinstance(error, UnresolvedExpressionError)
        if isinstance(error, NoSuchColumnError | WrongColumnTypeError) or (
            is_unresolved and "UNRESOLVED_COLUMN" in str(error)
        ):
            error.is_retriable = False
