"""Streaming jobs: start the streams, and measure stored windows in rounds with the batch engine.

Each round measures the windows that are ready and new or changed. Its persistent state is its
results, in the repository's ledger, and the marks, stored beside the data of the streams. A job that
was killed at any point therefore resumes with the next round: a window whose files match the
ledger's fingerprint is done.
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


_FILE = "marks.json"


@dataclass(frozen=True)
class Marks:
    """Progress after a round.

    Attributes
    ----------
    horizon : int or None
        Windows before it are not measured again.
    limits : mapping of str to int
        Retention limit of each source: windows before it are no longer needed, and are removed.
    closed : mapping of str to sequence of str
        Files of each source before the horizon that are still needed for windows after it.
    late : mapping of str to int
        Number of late rows of each source since the job began: rows that arrived after the horizon
        had passed their window.
    removing : sequence of str
        Files that are no longer needed and may still exist.
    """

    horizon: int | None = None
    limits: Mapping[str, int] = field(default_factory=dict)
    closed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    late: Mapping[str, int] = field(default_factory=dict)
    removing: Sequence[str] = ()


def read_marks(folder: str) -> Marks:
    """Read the progress after the last round; empty if there was none."""
    try:
        found = json.loads(read_file(child(folder, _FILE)))
    except FileNotFoundError:
        return Marks()
    return Marks(**found)


def write_marks(folder: str, marks: Marks) -> None:
    """Replace the progress atomically."""
    write_file(child(folder, _FILE), json.dumps(asdict(marks)).encode())


def remove_files(paths: Iterable[str]) -> int:
    """Remove files, ignoring missing ones, and return the number of removed files."""
    from pyarrow import fs

    removed = 0
    for name in paths:
        system, path = file_system(name)
        with suppress(FileNotFoundError):
            system.delete_file(path)
            removed += 1
        if isinstance(system, fs.LocalFileSystem):  # Spark's checksum, and the empty folder
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
"""Measures frames at a timestamp, grouped by window, and commits the windows it is given fingerprints of."""
Scope = tuple[tuple[str, tuple[int, ...]], ...]
"""Windows of each source in which rows of a window may find their matches."""
MOST_WINDOWS = 100
"""Maximum number of windows measured together."""


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
        Number of late rows of each source, which are in no result.
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
            f"{count} rows of {name!r} arrived after their windows were closed, and are in no"
            " result; use a longer time.range to include late rows"
            for name, count in self.late.items()
        )


@dataclass(frozen=True)
class Rounds:
    """Measure the stored windows of a job's streams.

    Attributes
    ----------
    spark : SparkSession
    folder : str
        Folder of the marks.
    streams : mapping of str to sequence of Inflow
        The streaming sources.
    measure : callable
    ledger : callable
        Returns the ledger: the state of each window by partition name.
    prepare : callable
        Applies the pre-processing rules.
    tables : callable
        Returns the sources that are not streams.
    order : tuple of str
        Names of all sources in the job's order.
    measured, met : frozenset of str
        Streams that rules measure, and streams in which rules look for matches of other streams'
        rows.
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
    met: frozenset[str]

    def clock(self, name: str) -> Clock:
        """Return a stream's clock."""
        return Clock.from_store(self.streams[name][0].store)

    def round(self, now: int) -> RoundReport:
        """Measure the windows that are due."""
        marks = read_marks(self.folder)
        removed = remove_files(marks.removing)  # leftovers of a killed round
        looks = {
            name: Windows(
                name,
                self.clock(name),
                tuple(ConnectorFiles(self.spark, inflow) for inflow in inflows),
                self.prepare,
                marks.limits.get(name),
            )
            for name, inflows in self.streams.items()
        }
        late = self._late(looks, marks)
        ready = self._ready(looks, now)
        results, done = [], []
        groups = self._groups(self._due(looks, ready, marks))
        for number, (scope, prints) in enumerate(groups):
            windows = [int(partition.values[0]) for partition in prints]
            # Each group has a timestamp of its own, or sinks would overwrite one with the next.
            frames = self._frames(looks, windows, scope)
            results.append(self.measure(frames, prints, now + number))
            done += windows
        newest = [max(ready[name], default=None) for name in looks]
        clocks = [self.clock(name) for name in self.measured]
        first = horizon(newest, clocks, marks.horizon)
        left = self._left(looks, first, marks, late)
        if left != marks:
            write_marks(self.folder, left)
        removed += remove_files(left.removing)
        counts = {name: count for name, (count, _) in late.items()}
        return RoundReport(now, tuple(sorted(done)), first, counts, removed, tuple(results))

    def _ready(self, looks: Mapping[str, Windows], now: int) -> dict[str, list[int]]:
        """Return the windows of each stream that are ready by the longest delay of all streams."""
        delay = max(self.clock(name).delay for name in looks)
        size = max(self.clock(name).size for name in self.measured)
        clock = Clock(size, delay)
        return {
            name: [window for window in look.all if clock.ready(window, now)]
            for name, look in looks.items()
        }

    def _due(
        self, looks: Mapping[str, Windows], ready: Mapping[str, Collection[int]], marks: Marks
    ) -> Iterator[tuple[Scope, int, str]]:
        """Yield the new or changed windows, with their scope and fingerprint."""
        ledger = self.ledger()
        windows = {w for name in self.measured for w in ready[name]}
        for window in sorted(windows):
            if marks.horizon is not None and window < marks.horizon:
                continue
            scope = self._scope(looks, window)
            files = {
                name: looks[name].listed({*others, window}).fingerprint
                for name, others in {**dict.fromkeys(self.measured, ()), **dict(scope)}.items()
            }
            found = f"windows/1:{key_of(canonical_json(files))}"
            known = ledger.get(partition_of_window(window).name)
            if known is None or differ(found, known.fingerprint):
                yield scope, window, found

    def _scope(self, looks: Mapping[str, Windows], window: int) -> Scope:
        """Return the windows of other streams in which rows of a window may find their matches."""
        found = []
        for name in sorted(self.met):
            clocks = [self.clock(other) for other in self.measured if other != name]
            their = looks[name]
            windows = [w for w in their.all if any(c.meets(window, their.clock, w) for c in clocks)]
            found.append((name, tuple(windows)))
        return tuple(found)

    @staticmethod
    def _groups(
        due: Iterator[tuple[Scope, int, str]],
    ) -> Iterator[tuple[Scope, dict[Partition, str]]]:
        """Group windows with the same scope, in batches."""
        groups: dict[Scope, list[tuple[Partition, str]]] = {}
        for scope, window, found in due:
            groups.setdefault(scope, []).append((partition_of_window(window), found))
        for scope, some in groups.items():
            for begin in range(0, len(some), MOST_WINDOWS):
                yield scope, dict(some[begin : begin + MOST_WINDOWS])

    def _frames(
        self, looks: Mapping[str, Windows], windows: Sequence[int], scope: Scope
    ) -> dict[str, DataFrame]:
        """Return all sources in the job's order, restricted to the windows and their scope."""
        others = dict(scope)
        tables = self.tables()
        frames = {}
        for name in self.order:
            if name in looks:
                own = set(windows) if name in self.measured else set()
                wanted = sorted(own | set(others.get(name, ())))
                frames[name] = looks[name].read([partition_of_window(w) for w in wanted])
            else:
                frames[name] = tables[name]
        return frames

    def _late(
        self, looks: Mapping[str, Windows], marks: Marks
    ) -> dict[str, tuple[int, frozenset[str]]]:
        """Return the number of late rows of each stream, and their files."""
        found = {}
        for name, look in looks.items():
            if marks.horizon is None or self._read_only(name):
                continue
            before = marks.horizon if name in self.measured else marks.limits.get(name)
            if before is None:  # a new stream of the job
                continue
            known, count, files = set(marks.closed.get(name, ())), 0, set()
            for part in look.parts:
                new = set(part.kept(before)) - known
                count += part.count(new)
                files |= new
            if files:
                found[name] = (count, frozenset(files))
        return found

    def _left(
        self,
        looks: Mapping[str, Windows],
        first: int | None,
        marks: Marks,
        late: Mapping[str, tuple[int, frozenset[str]]],
    ) -> Marks:
        """Return the marks for the next round."""
        if first is None:
            return marks
        limits, closed, removing = {}, {}, []
        for name, look in looks.items():
            limit = self.clock(name).limit(first, met=name in self.met)
            limits[name] = max(limit, marks.limits.get(name, limit))
            if self._read_only(name):
                continue
            for part in look.parts:
                removing += part.kept(limits[name])
            if name in self.measured and limits[name] < first:
                gone = set(removing)
                kept = [file for part in look.parts for file in part.kept(first)]
                closed[name] = sorted(file for file in kept if file not in gone)
        told = {name: marks.late.get(name, 0) + count for name, (count, _) in late.items()}
        return Marks(first, limits, closed, {**marks.late, **told}, sorted(removing))

    def _read_only(self, name: str) -> bool:
        return self.streams[name][0].store.read_only


def is_stream(source: SourceConfig) -> bool:
    """Return whether a source is a stream: it has a checkpoint or a Kafka connector.

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
    met: Collection[str] | None = None,
    once: bool = False,
    stop: Event | None = None,
    now: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
) -> Iterator[RoundReport]:
    """Start the streams of a job, measure round by round, and yield a report of each.

    A job that is stopped or killed at any point resumes when it is run again: no row is lost and
    none is counted twice. Do not run a job twice at the same time.

    Parameters
    ----------
    job : Job
    env : Env
        Environment with the checkpoint folder and the trigger intervals.
    spark : SparkSession
    measure : callable
        Measures frames at a timestamp, grouped by ``__tmst``, and commits the partitions it is
        given fingerprints of, each with its own. The frames may hold further windows, in which rows
        look for their matches.
    ledger : callable
        Returns the ledger: the state of each partition by name.
    prepare : callable
        Applies pre-processing rules to a connector's rows.
    tables : callable
        Returns the sources that are not streams.
    measured : collection of str, optional
        Sources that rules measure; default: all.
    met : collection of str, optional
        Sources in which rules look for matches of other sources' rows; default: all.
    once : bool
        Whether to stop when the available data is written and measured.
    stop : Event, optional
        Stops the job before the next round when set.
    now : callable
        Returns the current time, in milliseconds since 1970.

    Yields
    ------
    RoundReport
        Report of each round.

    Raises
    ------
    GriffinConfigError
        If no stream is measured, or a stream or the checkpoint is invalid.
    GriffinError
        If a streaming query failed.
    """
    folder, stop = job_folder(job, env), stop or Event()
    streams = {s.name: inflows(spark, s, folder) for s in job.sources if is_stream(s)}
    own = streams.keys() & (streams if measured is None else measured)
    if not own:
        raise GriffinConfigError(
            f"job {job.name!r} is a streaming one, and its rules measure no stream: a source is one"
            ' that has a "checkpoint"'
        )
    if env.init_clear:
        flowing = (one for some in streams.values() for one in some if not one.store.read_only)
        forget([folder, *(one.folder for one in flowing)])
    rounds = Rounds(
        spark,
        folder,
        streams,
        measure,
        ledger,
        prepare,
        tables,
        tuple(source.name for source in job.sources),
        frozenset(own),
        frozenset(name for name in streams if own - {name} and (met is None or name in met)),
    )
    if not once:
        yield rounds.round(now())  # measure data of earlier runs first
    queries: dict[str, StreamingQuery] = {}
    try:
        _start(queries, streams, None if once else env.batch_interval)
        if once:
            _await(queries)
            yield rounds.round(now())
        while not once and not stop.wait(env.process_interval / 1000):
            _raise_broken(queries)
            yield rounds.round(now())
    finally:
        for query in queries.values():
            with suppress(Exception):  # stop the others too
                query.stop()


def _start(
    queries: dict[str, StreamingQuery], streams: Mapping[str, Collection[Inflow]], every: int | None
) -> None:
    for name, some in streams.items():
        for number, inflow in enumerate(some):
            if not inflow.store.read_only:
                queries[f"{name} {number}"] = inflow.start(every)


def _await(queries: Mapping[str, StreamingQuery]) -> None:
    from pyspark.errors import StreamingQueryException

    for query in queries.values():
        with suppress(StreamingQueryException):  # raised below, with the others
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
    env : Env
    engine : Engine
        The engine; without a repository, its results are kept in memory while the job runs.
    """

    def __init__(self, job: Job, env: Env, engine: Engine) -> None:
        self.job, self.env, self.engine = job, env, engine
        self.loader = Loader(engine.spark, 0)

    def rounds(self, *, once: bool) -> Iterator[GriffinResult]:
        """Measure round by round, and yield the result of each; without new data it is empty."""
        for rule in self.job.rules:  # report invalid rules before a stream starts
            if rule.dsl_type == "griffin-dsl" and has_text(rule):
                parse(rule.rule, rule.dq_type or "", rule.name)
        measured, met = sides(self.job)
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
                met=met,
                once=once,
            )
            for report in reports:
                notices = (*_unneeded(self.job), *report.notices)
                told = GriffinResult(self.engine.dataset, (), notices=notices)
                yield combine_results([told, *report.results])

    def _recorder(self) -> AbstractContextManager[Recorder]:
        """Return the engine's repository, or one in memory that ends with the job."""
        if self.engine.repository is None:
            return Repository("sqlite://")
        return nullcontext(self.engine.repository)

    def _prepare(self, frame: DataFrame, connector: ConnectorConfig) -> DataFrame:
        return self.loader.prepared(frame, connector)

    def _tables(self) -> Mapping[str, DataFrame]:
        self.loader.timestamp = round(time.time() * 1000)
        return {s.name: self.loader.load(s) for s in self.job.sources if not is_stream(s)}

    def _measure(
        self, frames: Mapping[str, DataFrame], prints: Mapping[Partition, str], at: int
    ) -> GriffinResult:
        """Measure windows; frames may hold further windows, in which rows look for their matches."""

        def asked(values: Values) -> Partition | None:
            partition = Partition((TMST,), values)
            return partition if partition in prints else None

        self.engine.holds, self.loader = self.loader, Loader(self.engine.spark, at)
        return self.engine.run(Round(frames, at, (TMST,), prints, asked, only=True))


def sides(job: Job) -> tuple[Collection[str] | None, Collection[str] | None]:
    """Return the measured and the looked-up sources; None for all, if rules do not determine them.

    Examples
    --------
    >>> from tidegauge.griffin.config import RuleConfig, SourceConfig
    >>> rule = RuleConfig(1, "griffin-dsl", "a.id = b.id", "accuracy")
    >>> sides(Job("j", sources=(SourceConfig("a"), SourceConfig("b")), rules=(rule,)))
    ({'a'}, {'b'})
    """
    names = {source.name.casefold(): source.name for source in job.sources}
    first = job.sources[0].name
    measured: set[str] = set()
    met: set[str] = set()
    for rule in job.rules:
        source = str(rule.details.get("source") or first).casefold()
        target = str(rule.details.get("target") or "").casefold()
        if rule.dsl_type != "griffin-dsl" or source not in names or {target} - {"", *names}:
            return None, None
        if rule.dq_type == "profiling" and _names_a_table(rule):
            return None, None
        if not target and rule.dq_type == "accuracy":
            target = next((name for name in names if name != source), "")
        measured.add(names[source])
        met |= {names[target]} if target else set()
    return measured, met


def _names_a_table(rule: RuleConfig) -> bool:
    query = parse(rule.rule, "profiling", rule.name)
    return isinstance(query, Profiling) and query.table is not None


def _unneeded(job: Job) -> Iterator[str]:
    for rule in job.rules:
        if rule.output("dsc-update") is not None:
            yield (
                f"{rule.name}: dsc-update has no effect in a stream: windows are stored as a whole and measured again"
                " when new rows arrive, until they are older than time.range"
            )
