"""Streaming jobs: start the streams and measure stored windows in rounds with the batch engine.

Each round measures windows that are ready and new or changed. Its persistent state is the results in the
repository's ledger and the marks, which are stored with the data of the streams. A killed job therefore
resumes with the next round: a window is done if its files match the ledger's fingerprint.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.errors import GriffinConfigError, GriffinError
from tidegauge.analyzers.core.filesystems import child, file_system, read_file, write_file
from tidegauge.analyzers.core.partitions import TMST, Partition
from tidegauge.analyzers.core.registry import canonical_json, key_of
from tidegauge.analyzers.runs.ledger import LedgerEntry, differ
from tidegauge.griffin.config import ConnectorConfig, Env, Job, RuleConfig, SourceConfig
from tidegauge.griffin.dsl.nodes import Profiling
from tidegauge.griffin.dsl.parser import parse
from tidegauge.griffin.execution.engine import Engine, Round
from tidegauge.griffin.execution.loader import Loader
from tidegauge.griffin.execution.preparation import has_text
from tidegauge.griffin.results import GriffinResult, combine_results
from tidegauge.griffin.stream_windows import (
    Clock,
    ConnectorFiles,
    Inflow,
    Preparation,
    Windows,
    horizon,
    inflows,
    job_folder,
    partition_of_window,
)
from tidegauge.repository.repository import Repository

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from tidegauge.analyzers.core.partitions import Values
    from tidegauge.analyzers.runs.recording import Recorder


_MARKS_FILE = "marks.json"


@dataclass(frozen=True)
class Marks:
    """Progress after a round.

    Attributes
    ----------
    horizon : int or None
        Windows before it are not measured again.
    limits : mapping of str to int
        Retention limit of each source. Windows before it are no longer needed and are removed.
    closed : mapping of str to sequence of str
        Files of each source before the horizon that windows after the horizon still need.
    late : mapping of str to int
        Number of late rows of each source since the job began. Late rows arrive after the horizon has
        passed their window.
    removing : sequence of str
        Files that are no longer needed and may still exist.
    """

    horizon: int | None = None
    limits: Mapping[str, int] = field(default_factory=dict)
    closed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    late: Mapping[str, int] = field(default_factory=dict)
    removing: Sequence[str] = ()


def read_marks(folder: str) -> Marks:
    """Read the progress after the last round; empty before the first round."""
    try:
        fields = json.loads(read_file(child(folder, _MARKS_FILE)))
    except FileNotFoundError:
        return Marks()
    return Marks(**fields)


def write_marks(folder: str, marks: Marks) -> None:
    """Replace the progress atomically."""
    write_file(child(folder, _MARKS_FILE), json.dumps(asdict(marks)).encode())


def remove_files(paths: Iterable[str]) -> int:
    """Remove files, ignoring missing ones, and return the number of removed files."""
    from pyarrow import fs

    removed = 0
    for name in paths:
        system, path = file_system(name)
        with suppress(FileNotFoundError):
            system.delete_file(path)
            removed += 1
        if isinstance(system, fs.LocalFileSystem):  # Spark's checksum and the empty folder
            file = Path(path)
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
            with suppress(OSError):
                file.parent.rmdir()
    return removed


def forget(folders: Iterable[str]) -> None:
    """Remove folders recursively."""
    for folder in folders:
        system, path = file_system(folder)
        with suppress(FileNotFoundError):
            system.delete_dir(path)


Measure = Callable[[Mapping[str, "DataFrame"], Mapping[Partition, str], int], Any]
"""Measures frames at a timestamp, grouped by window, and commits the windows with fingerprints."""
Scope = tuple[tuple[str, tuple[int, ...]], ...]
"""Windows of each source that can contain matches of a window's rows."""
MAX_WINDOWS_PER_GROUP = 100
"""More windows are measured in several groups."""


@dataclass(frozen=True)
class RoundReport:
    """Report of a round.

    Attributes
    ----------
    time : int
        Start of the round, in milliseconds since 1970.
    measured : tuple of int
        The measured windows, in order.
    horizon : int or None
        Windows before it are not measured again.
    late : mapping of str to int
        Number of late rows of each source. They are not part of any result.
    removed : int
        Number of files removed as no longer needed.
    results : tuple
        Results of measuring, one for each group of windows.
    """

    time: int
    measured: tuple[int, ...] = ()
    horizon: int | None = None
    late: Mapping[str, int] = field(default_factory=dict)
    removed: int = 0
    results: tuple[Any, ...] = ()

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices about late rows."""
        return tuple(
            f"{count} rows of {name!r} arrived after their windows were closed and are not part of any"
            " result; use a longer time.range to include late rows"
            for name, count in self.late.items()
        )


@dataclass(frozen=True)
class Rounds:
    """Measure the stored windows of a job's streams.

    Attributes
    ----------
    spark : SparkSession
        The session that reads the windows.
    folder : str
        Folder of the marks.
    streams : mapping of str to sequence of Inflow
        The streaming sources.
    measure : callable
        Measures frames and commits their windows.
    ledger : callable
        Returns the ledger: the state of each window by partition name.
    prepare : callable
        Applies the pre-processing rules.
    tables : callable
        Returns the sources that are not streams.
    order : tuple of str
        Names of all sources in the job's order.
    measured, looked_up : frozenset of str
        Streams that rules measure, and streams that rules search for matches of other streams' rows.
    """

    spark: SparkSession
    folder: str
    streams: Mapping[str, Sequence[Inflow]]
    measure: Measure
    ledger: Callable[[], Mapping[str, LedgerEntry]]
    prepare: Preparation
    tables: Callable[[], Mapping[str, DataFrame]]
    order: tuple[str, ...]
    measured: frozenset[str]
    looked_up: frozenset[str]

    def clock(self, name: str) -> Clock:
        """Return the clock of a stream."""
        return Clock.from_store(self.streams[name][0].store)

    def round(self, now: int) -> RoundReport:
        """Measure the windows that are due.

        Parameters
        ----------
        now : int
            Start of the round, in milliseconds since 1970.
        """
        marks = read_marks(self.folder)
        removed = remove_files(marks.removing)  # leftovers of a killed round
        windows_by_stream = {
            name: Windows(
                name,
                self.clock(name),
                tuple(ConnectorFiles(self.spark, inflow) for inflow in inflows),
                self.prepare,
                marks.limits.get(name),
            )
            for name, inflows in self.streams.items()
        }
        late = self._late(windows_by_stream, marks)
        ready = self._ready(windows_by_stream, now)
        results, measured = [], []
        groups = self._groups(self._changed_windows(windows_by_stream, ready, marks))
        for number, (scope, prints) in enumerate(groups):
            windows = [int(partition.values[0]) for partition in prints]
            # Groups need different timestamps because sinks overwrite results of the same time.
            frames = self._frames(windows_by_stream, windows, scope)
            results.append(self.measure(frames, prints, now + number))
            measured += windows
        newest = [max(ready[name], default=None) for name in windows_by_stream]
        clocks = [self.clock(name) for name in self.measured]
        new_horizon = horizon(newest, clocks, marks.horizon)
        new_marks = self._next_marks(windows_by_stream, new_horizon, marks, late)
        if new_marks != marks:
            write_marks(self.folder, new_marks)
        removed += remove_files(new_marks.removing)
        counts = {name: count for name, (count, _) in late.items()}
        return RoundReport(
            now, tuple(sorted(measured)), new_horizon, counts, removed, tuple(results)
        )

    def _ready(self, windows_by_stream: Mapping[str, Windows], now: int) -> dict[str, list[int]]:
        """Return the windows of each stream that are ready according to the longest delay of all streams."""
        delay = max(self.clock(name).delay for name in windows_by_stream)
        size = max(self.clock(name).size for name in self.measured)
        clock = Clock(size, delay)
        return {
            name: [window for window in stream_windows.all if clock.ready(window, now)]
            for name, stream_windows in windows_by_stream.items()
        }

    def _changed_windows(
        self,
        windows_by_stream: Mapping[str, Windows],
        ready: Mapping[str, Collection[int]],
        marks: Marks,
    ) -> Iterator[tuple[Scope, int, str]]:
        """Yield the new or changed windows with their scope and fingerprint."""
        ledger = self.ledger()
        windows = {w for name in self.measured for w in ready[name]}
        for window in sorted(windows):
            if marks.horizon is not None and window < marks.horizon:
                continue
            scope = self._scope(windows_by_stream, window)
            files = {
                name: windows_by_stream[name].listed({*scope_windows, window}).fingerprint
                for name, scope_windows in {
                    **dict.fromkeys(self.measured, ()),
                    **dict(scope),
                }.items()
            }
            fingerprint = f"windows/1:{key_of(canonical_json(files))}"
            entry = ledger.get(partition_of_window(window).name)
            if entry is None or differ(fingerprint, entry.fingerprint):
                yield scope, window, fingerprint

    def _scope(self, windows_by_stream: Mapping[str, Windows], window: int) -> Scope:
        """Return the windows of other streams that can contain matches of a window's rows."""
        scope = []
        for name in sorted(self.looked_up):
            clocks = [self.clock(stream) for stream in self.measured if stream != name]
            stream_windows = windows_by_stream[name]
            windows = [
                w
                for w in stream_windows.all
                if any(c.meets(window, stream_windows.clock, w) for c in clocks)
            ]
            scope.append((name, tuple(windows)))
        return tuple(scope)

    @staticmethod
    def _groups(
        changed_windows: Iterator[tuple[Scope, int, str]],
    ) -> Iterator[tuple[Scope, dict[Partition, str]]]:
        """Group windows with the same scope, in batches."""
        groups: dict[Scope, list[tuple[Partition, str]]] = {}
        for scope, window, fingerprint in changed_windows:
            groups.setdefault(scope, []).append((partition_of_window(window), fingerprint))
        for scope, prints in groups.items():
            for begin in range(0, len(prints), MAX_WINDOWS_PER_GROUP):
                yield scope, dict(prints[begin : begin + MAX_WINDOWS_PER_GROUP])

    def _frames(
        self, windows_by_stream: Mapping[str, Windows], windows: Sequence[int], scope: Scope
    ) -> dict[str, DataFrame]:
        """Return all sources in the job's order, restricted to the windows and their scope."""
        scope_windows = dict(scope)
        tables = self.tables()
        frames = {}
        for name in self.order:
            if name in windows_by_stream:
                measured_windows = set(windows) if name in self.measured else set()
                selected = sorted(measured_windows | set(scope_windows.get(name, ())))
                frames[name] = windows_by_stream[name].read(
                    [partition_of_window(w) for w in selected]
                )
            else:
                frames[name] = tables[name]
        return frames

    def _late(
        self, windows_by_stream: Mapping[str, Windows], marks: Marks
    ) -> dict[str, tuple[int, frozenset[str]]]:
        """Return the number of late rows of each stream and their files."""
        late = {}
        for name, stream_windows in windows_by_stream.items():
            if marks.horizon is None or self._read_only(name):
                continue
            limit = marks.horizon if name in self.measured else marks.limits.get(name)
            if limit is None:  # the stream is new in the job
                continue
            closed, count, files = set(marks.closed.get(name, ())), 0, set()
            for part in stream_windows.parts:
                new = set(part.files_before(limit)) - closed
                count += part.count(new)
                files |= new
            if files:
                late[name] = (count, frozenset(files))
        return late

    def _next_marks(
        self,
        windows_by_stream: Mapping[str, Windows],
        new_horizon: int | None,
        marks: Marks,
        late: Mapping[str, tuple[int, frozenset[str]]],
    ) -> Marks:
        """Return the marks for the next round."""
        if new_horizon is None:
            return marks
        limits, closed, removing = {}, {}, []
        for name, stream_windows in windows_by_stream.items():
            limit = self.clock(name).limit(new_horizon, is_looked_up=name in self.looked_up)
            limits[name] = max(limit, marks.limits.get(name, limit))
            if self._read_only(name):
                continue
            for part in stream_windows.parts:
                removing += part.files_before(limits[name])
            if name in self.measured and limits[name] < new_horizon:
                removed = set(removing)
                stored = [
                    file for part in stream_windows.parts for file in part.files_before(new_horizon)
                ]
                closed[name] = sorted(file for file in stored if file not in removed)
        late_counts = {name: marks.late.get(name, 0) + count for name, (count, _) in late.items()}
        return Marks(new_horizon, limits, closed, {**marks.late, **late_counts}, sorted(removing))

    def _read_only(self, name: str) -> bool:
        return self.streams[name][0].store.read_only


def is_stream(source: SourceConfig) -> bool:
    """Return whether a source is a stream, because it has a checkpoint or a Kafka connector.

    Examples
    --------
    >>> from tidegauge.griffin.config import ConnectorConfig, StreamStore
    >>> table = ConnectorConfig("file", {"path": "/data"})
    >>> is_stream(SourceConfig("a", (table,))), is_stream(SourceConfig("a", (table,), store=StreamStore()))
    (False, True)
    """
    return source.store is not None or any(c.type == "kafka" for c in source.connectors)


def run_stream(
    job: Job,
    env: Env,
    spark: SparkSession,
    measure: Measure,
    ledger: Callable[[], Mapping[str, LedgerEntry]],
    *,
    prepare: Preparation = lambda frame, _: frame,
    tables: Callable[[], Mapping[str, DataFrame]] = dict,
    measured: Collection[str] | None = None,
    looked_up: Collection[str] | None = None,
    once: bool = False,
    stop: Event | None = None,
    now: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
) -> Iterator[RoundReport]:
    """Start the streams of a job, measure in rounds, and yield a report of each round.

    A job that is stopped or killed at any point resumes in the next run: no row is lost or counted
    twice. Do not run the same job twice at the same time.

    Parameters
    ----------
    job : Job
        The streaming job.
    env : Env
        Environment with the checkpoint folder and the trigger intervals.
    spark : SparkSession
        The session that runs the streams.
    measure : callable
        Measures frames at a timestamp, grouped by ``__tmst``, and commits the partitions with
        fingerprints. The frames can have additional windows that contain matches of the measured rows.
    ledger : callable
        Returns the ledger: the state of each partition by name.
    prepare : callable
        Applies pre-processing rules to a connector's rows.
    tables : callable
        Returns the sources that are not streams.
    measured : collection of str, optional
        Sources that rules measure (default: all).
    looked_up : collection of str, optional
        Sources that rules search for matches of other sources' rows (default: all).
    once : bool
        Whether to stop after the available data is written and measured.
    stop : Event, optional
        Stops the job before the next round when set.
    now : callable
        Returns the current time in milliseconds since 1970.

    Yields
    ------
    RoundReport
        The report of each round.

    Raises
    ------
    GriffinConfigError
        If no stream is measured, or a stream or the checkpoint is invalid.
    GriffinError
        If a streaming query failed.
    """
    folder, stop = job_folder(job, env), stop or Event()
    streams = {s.name: inflows(spark, s, folder) for s in job.sources if is_stream(s)}
    measured_streams = streams.keys() & (streams if measured is None else measured)
    if not measured_streams:
        raise GriffinConfigError(
            f"job {job.name!r} is a streaming job, but its rules measure no stream; add a"
            ' "checkpoint" to the source to make it a stream'
        )
    if env.init_clear:
        flowing = (
            inflow
            for stream_inflows in streams.values()
            for inflow in stream_inflows
            if not inflow.store.read_only
        )
        forget([folder, *(inflow.folder for inflow in flowing)])
    rounds = Rounds(
        spark,
        folder,
        streams,
        measure,
        ledger,
        prepare,
        tables,
        tuple(source.name for source in job.sources),
        frozenset(measured_streams),
        frozenset(
            name
            for name in streams
            if measured_streams - {name} and (looked_up is None or name in looked_up)
        ),
    )
    if not once:
        yield rounds.round(now())  # measure data of earlier runs first
    queries: dict[str, StreamingQuery] = {}
    try:
        _start_queries(queries, streams, None if once else env.batch_interval)
        if once:
            _await_queries(queries)
            yield rounds.round(now())
        while not once and not stop.wait(env.process_interval / 1000):
            _raise_broken(queries)
            yield rounds.round(now())
    finally:
        for query in queries.values():
            with suppress(Exception):  # stop the others too
                query.stop()


def _start_queries(
    queries: dict[str, StreamingQuery],
    streams: Mapping[str, Collection[Inflow]],
    interval: int | None,
) -> None:
    for name, stream_inflows in streams.items():
        for number, inflow in enumerate(stream_inflows):
            if not inflow.store.read_only:
                queries[f"{name} {number}"] = inflow.start(interval)


def _await_queries(queries: Mapping[str, StreamingQuery]) -> None:
    from pyspark.errors import StreamingQueryException

    for query in queries.values():
        with suppress(StreamingQueryException):  # raised below with the other errors
            query.awaitTermination()
    _raise_broken(queries)


def _raise_broken(queries: Mapping[str, StreamingQuery]) -> None:
    broken = {name: query.exception() for name, query in queries.items()}
    failures = {name: error for name, error in broken.items() if error is not None}
    if failures:
        raise GriffinError(failures)


class StreamingJob:
    """A running streaming job.

    Parameters
    ----------
    job : Job
        The streaming job.
    env : Env
        Environment with the checkpoint folder and the trigger intervals.
    engine : Engine
        The engine. Without a repository, its results stay in memory while the job runs.
    """

    def __init__(self, job: Job, env: Env, engine: Engine) -> None:
        self.job, self.env, self.engine = job, env, engine
        self.loader = Loader(engine.spark, 0)

    def rounds(self, *, once: bool) -> Iterator[GriffinResult]:
        """Measure in rounds and yield the result of each round; the result is empty without new data."""
        for rule in self.job.rules:  # report invalid rules before a stream starts
            if rule.dsl_type == "griffin-dsl" and has_text(rule):
                parse(rule.rule, rule.dq_type or "", rule.name)
        measured, looked_up = sides(self.job)
        with self._recorder() as recorder:
            self.engine.repository = recorder
            reports = run_stream(
                self.job,
                self.env,
                self.engine.spark,
                self._measure,
                lambda: recorder.store.ledger(self.engine.dataset),
                prepare=self._prepare,
                tables=self._tables,
                measured=measured,
                looked_up=looked_up,
                once=once,
            )
            for report in reports:
                notices = (*_no_effect_notices(self.job), *report.notices)
                notice_result = GriffinResult(self.engine.dataset, (), notices=notices)
                yield combine_results([notice_result, *report.results])

    def _recorder(self) -> AbstractContextManager[Recorder]:
        """Return the engine's repository, or an in-memory repository for the duration of the job."""
        if self.engine.repository is None:
            return Repository("sqlite://")
        return nullcontext(self.engine.repository)

    def _prepare(self, frame: DataFrame, connector: ConnectorConfig) -> DataFrame:
        return self.loader.prepared(frame, connector)

    def _tables(self) -> Mapping[str, DataFrame]:
        self.loader.timestamp = round(time.time() * 1000)
        return {s.name: self.loader.load(s) for s in self.job.sources if not is_stream(s)}

    def _measure(
        self, frames: Mapping[str, DataFrame], prints: Mapping[Partition, str], timestamp: int
    ) -> GriffinResult:
        """Measure windows. The frames can have additional windows that contain matches of the rows."""

        def partition_of(values: Values) -> Partition | None:
            partition = Partition((TMST,), values)
            return partition if partition in prints else None

        self.engine.holds, self.loader = self.loader, Loader(self.engine.spark, timestamp)
        return self.engine.run(
            Round(frames, timestamp, (TMST,), prints, partition_of, skips_unmapped=True)
        )


def sides(job: Job) -> tuple[Collection[str] | None, Collection[str] | None]:
    """Return the measured and the looked-up sources, or None for all if the rules do not determine them.

    Examples
    --------
    >>> from tidegauge.griffin.config import RuleConfig, SourceConfig
    >>> rule = RuleConfig(1, "griffin-dsl", "a.id = b.id", "accuracy")
    >>> sides(Job("j", sources=(SourceConfig("a"), SourceConfig("b")), rules=(rule,)))
    ({'a'}, {'b'})
    """
    names = {source.name.casefold(): source.name for source in job.sources}
    first_source = job.sources[0].name
    measured: set[str] = set()
    looked_up: set[str] = set()
    for rule in job.rules:
        source = str(rule.details.get("source") or first_source).casefold()
        target = str(rule.details.get("target") or "").casefold()
        if rule.dsl_type != "griffin-dsl" or source not in names or {target} - {"", *names}:
            return None, None
        if rule.dq_type == "profiling" and _names_a_table(rule):
            return None, None
        if not target and rule.dq_type == "accuracy":
            target = next((name for name in names if name != source), "")
        measured.add(names[source])
        looked_up |= {names[target]} if target else set()
    return measured, looked_up


def _names_a_table(rule: RuleConfig) -> bool:
    query = parse(rule.rule, "profiling", rule.name)
    return isinstance(query, Profiling) and query.table is not None


def _no_effect_notices(job: Job) -> Iterator[str]:
    for rule in job.rules:
        if rule.output("dsc-update") is not None:
            yield (
                f"{rule.name}: dsc-update has no effect in a stream: whole windows are stored, and are measured again"
                " when new rows arrive, until they are older than time.range"
            )
