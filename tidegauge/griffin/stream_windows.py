"""Windows of streams: their times, the rows stored in them, and the source made of them.

All times are milliseconds since 1970 in UTC. A window is identified by its begin. Rows are written
to files by time window, exactly once: Spark's file sink writes, and its log is the list of valid
files, so leftovers of a killed query are ignored. A row's window depends on the row alone, so a
replayed batch is written to the same windows. The stored windows are a source partitioned by window.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING
from urllib.parse import quote as escaped
from urllib.parse import unquote

from tidegauge.analyzers.core.errors import GriffinConfigError, SourceError, condition_of, nearest
from tidegauge.analyzers.core.partitions import TMST, Partition, Values
from tidegauge.analyzers.core.sql import column_sql, one_of, quote, words_in
from tidegauge.analyzers.sources.sources import FileInfo, ListedPartition, fingerprint, list_files
from tidegauge.griffin.config import ConnectorConfig, Env, Job, SourceConfig, StreamStore
from tidegauge.griffin.connectors.databases import TIMESTAMP_COLUMN
from tidegauge.griffin.execution.loader import open_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass(frozen=True, slots=True)
class Clock:
    """Window size, delay and look-back of a stream.

    Attributes
    ----------
    size : int
        Size of a window.
    delay : int
        Delay between the end of a window and its measuring.
    look_back : int
        Time that rows wait for matching rows of other streams.
    """

    size: int
    delay: int = 0
    look_back: int = 0

    @classmethod
    def from_store(cls, store: StreamStore) -> Clock:
        """Return the clock of a configuration; a range that ends before now adds to the delay."""
        begin, end = store.time_range
        return cls(store.ready_interval, store.ready_delay - end, -begin)

    def window(self, time: int) -> int:
        """Return the window that contains a time.

        Examples
        --------
        >>> clock = Clock(size=60_000)
        >>> clock.window(119_999), clock.window(120_000), clock.window(-1)
        (60000, 120000, -60000)
        """
        return time - time % self.size

    def ready(self, window: int, now: int) -> bool:
        """Return whether a window is ready to be measured.

        Examples
        --------
        >>> clock = Clock(size=60_000, delay=5_000)
        >>> clock.ready(60_000, now=124_999), clock.ready(60_000, now=125_000)
        (False, True)
        """
        return window + self.size + self.delay <= now

    def meets(self, window: int, other: Clock, other_window: int) -> bool:
        """Return whether rows of a window may match rows of another stream's window.

        The other stream's rows may be earlier by its own look-back, and later by this stream's.

        Examples
        --------
        >>> source, target = Clock(size=10, look_back=20), Clock(size=10, look_back=10)
        >>> [w for w in range(0, 200, 10) if source.meets(100, target, w)]
        [90, 100, 110, 120]
        """
        begin, end = window - other.look_back, window + self.size + self.look_back
        return other_window + other.size > begin and other_window < end

    def limit(self, horizon: int, *, is_looked_up: bool) -> int:
        """Return the retention limit: windows that begin before it are no longer needed.

        Parameters
        ----------
        horizon : int
            Begin of the first window that can be measured again.
        is_looked_up : bool
            Whether rows of other streams look for matches in this one.

        Examples
        --------
        >>> clock = Clock(size=10, look_back=20)
        >>> clock.limit(100, is_looked_up=False), clock.limit(100, is_looked_up=True)
        (100, 71)
        """
        return horizon - self.look_back - self.size + 1 if is_looked_up else horizon


def horizon(
    newest: Sequence[int | None], measured: Collection[Clock], previous: int | None
) -> int | None:
    """Return the begin of the first window that can be measured again; it never decreases.

    Parameters
    ----------
    newest : sequence of int or None
        The newest ready window of each stream, None if it has no rows yet; the slowest stream
        counts.
    measured : collection of Clock
        Clocks of the measured streams; the longest look-back counts.
    previous : int or None
        Horizon of the previous round.

    Examples
    --------
    >>> clocks = [Clock(size=10, look_back=20)]
    >>> horizon([100, 70], clocks, None), horizon([100, None], clocks, 30), horizon([100, 30], clocks, 30)
    (50, 30, 30)
    """
    if None in newest or not newest:
        return previous
    slowest = min(window for window in newest if window is not None)
    size = max(clock.size for clock in measured)
    begin = slowest - max(clock.look_back for clock in measured)
    begin -= begin % size
    return begin if previous is None else max(begin, previous)


ARRIVAL_COLUMN = "__arrived"
LOG_RETENTION_MS = 90 * 24 * 3_600_000
"""Minimum retention of files in the sink's log, in milliseconds: longer than any downtime of a job."""


@dataclass(frozen=True)
class Inflow:
    """Stream of one connector, and the storage of its rows.

    Attributes
    ----------
    connector : ConnectorConfig
        The configuration of the connector.
    frame : DataFrame
        The stream as it is written, with ``__tmst``, the begin of the row's window.
    store : StreamStore
        Storage of the rows.
    folder : str
        Folder of the stream's progress.
    """

    connector: ConnectorConfig
    frame: DataFrame
    store: StreamStore
    folder: str

    @property
    def rows(self) -> str:
        """Folder of the data files."""
        return f"{self.folder}/rows"

    def start(self, every: int | None) -> StreamingQuery:
        """Start the streaming query.

        Parameters
        ----------
        every : int or None
            Trigger interval in milliseconds; None to stop when all available data is written.
        """
        writer = (
            self.frame.writeStream.format(self.store.format)
            .partitionBy(TMST)
            .option("path", self.rows)
            .option("checkpointLocation", f"{self.folder}/checkpoint")
            .option(
                "retention", f"{LOG_RETENTION_MS + 2 * Clock.from_store(self.store).look_back}ms"
            )
        )
        if every is None:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{every} milliseconds").start()


def job_folder(job: Job, env: Env) -> str:
    """Return the folder with the persistent state of a streaming job.

    Raises
    ------
    GriffinConfigError
        If the environment has no checkpoint folder.
    """
    if not env.checkpoint:
        raise GriffinConfigError(
            "a streaming job needs a folder for its progress: set"
            ' "spark": {"checkpoint.dir": ...} in env.json'
        )
    return f"{env.checkpoint.rstrip('/')}/{escaped(job.name, safe='')}"


def inflows(spark: SparkSession, source: SourceConfig, folder: str) -> list[Inflow]:
    """Open the connectors of a streaming source.

    Parameters
    ----------
    spark : SparkSession
        The session that runs the streams.
    source : SourceConfig
        The streaming source.
    folder : str
        Folder of the job; the source may configure another for its rows.

    Raises
    ------
    GriffinConfigError
        If the time column or expression of a stream is invalid.
    """
    store = source.store or StreamStore()
    store_folder = store.path or f"{folder}/{escaped(source.name, safe='')}"
    return [
        Inflow(
            connector,
            windowed(streamed(spark, connector, source.name), store),
            store,
            f"{store_folder}/{number}",
        )
        for number, connector in enumerate(source.connectors)
    ]


def windowed(frame: DataFrame, store: StreamStore) -> DataFrame:
    """Return a stream with ``__tmst``, the begin of the window, in place of the arrival time.

    Raises
    ------
    GriffinConfigError
        If the time column or expression does not exist or is not a time.
    """
    time = f"unix_millis({ARRIVAL_COLUMN})"
    if store.time is not None:
        time = f"coalesce({_milliseconds(frame, store.time)}, {time})"
    size = Clock.from_store(store).size
    other_columns = [quote(name) for name in frame.columns if name != ARRIVAL_COLUMN]
    return frame.selectExpr(*other_columns, f"({time}) - pmod({time}, {size}L) AS {TMST}")


def _milliseconds(frame: DataFrame, time: str) -> str:
    from pyspark.errors import AnalysisException, ParseException

    is_column = time in frame.columns
    sql = column_sql(time) if is_column else f"(\n{time}\n)"
    try:
        kind = frame.selectExpr(f"{sql} AS t").schema.fields[0].dataType.typeName()
    except (AnalysisException, ParseException) as error:
        suggestion = nearest(time, frame.columns)
        hint = (
            f"; did you mean {suggestion!r}?"
            if suggestion
            else f" (columns: {', '.join(frame.columns)})"
        )
        raise GriffinConfigError(
            f"time.column {time!r} is neither a column of the stream nor an expression{hint}"
        ) from error
    if kind in {"timestamp", "date"}:
        return f"unix_millis(CAST({sql} AS TIMESTAMP))"
    if kind in {"long", "integer"}:
        return f"CAST({sql} AS BIGINT)"
    raise GriffinConfigError(
        f"time.column {time!r} is of type {kind}; it must be a timestamp, a date or milliseconds"
    )


def streamed(spark: SparkSession, connector: ConnectorConfig, source: str) -> DataFrame:
    """Open a connector as a stream with ``__arrived``, the arrival time, the same for each read.

    Raises
    ------
    SourceError
        If the connector cannot be read as a stream.
    GriffinConfigError
        If the arrival time of its rows is unknown.
    """
    from pyspark.errors import AnalysisException

    frame = open_stream(connector, spark, source)
    if TIMESTAMP_COLUMN in frame.columns:
        return frame.withColumnRenamed(TIMESTAMP_COLUMN, ARRIVAL_COLUMN)
    try:
        timed = frame.selectExpr("*", f"_metadata.file_modification_time AS {ARRIVAL_COLUMN}")
        _ = timed.schema  # forces analysis on Connect
    except AnalysisException as error:
        raise GriffinConfigError(
            f"source {source!r}: connectors of type {connector.type!r} do not record when rows arrive"
        ) from error
    return timed


Preparation = Callable[["DataFrame", ConnectorConfig], "DataFrame"]
"""Applies pre-processing rules to a connector's rows."""
Files = Mapping[int, Sequence[str]]
"""Files by window, as paths relative to the folder of the rows."""
CROSS_ROW_KEYWORDS = frozenset(
    {"group", "having", "join", "limit", "order", "over", "distinct", "sort"}
)
"""SQL keywords of queries in which the result for a row may depend on other rows."""


def partition_of_window(window: int) -> Partition:
    """Return the partition of a window.

    Examples
    --------
    >>> partition_of_window(60_000).name
    '__tmst=60000'
    """
    return Partition((TMST,), (str(window),))


@dataclass(frozen=True)
class ConnectorFiles:
    """Snapshot of the rows written by one connector.

    Attributes
    ----------
    spark : SparkSession
        The session that reads the rows.
    inflow : Inflow
        The stream that wrote the rows.
    """

    spark: SparkSession
    inflow: Inflow

    def frame(self, **options: str) -> DataFrame:
        """Return the rows written so far."""
        reader = self.spark.read.schema(self.inflow.frame.schema).options(**options)
        return reader.format(self.inflow.store.format).load(self.inflow.rows)

    @cached_property
    def rows_and_files(self) -> tuple[DataFrame, Files]:
        """All rows, and the files in the sink's log, including removed ones; no job runs."""
        from pyspark.errors import AnalysisException

        try:
            frame = self.frame()
            paths = frame.inputFiles()  # forces analysis on Connect
        except AnalysisException as error:
            if condition_of(error) != "PATH_NOT_FOUND":
                raise
            return self.spark.createDataFrame([], self.inflow.frame.schema), {}
        return frame, by_window("/".join(unquote(path).split("/")[-2:]) for path in paths)

    @property
    def files(self) -> Files:
        """The files by window."""
        return self.rows_and_files[1]

    def files_before(self, window: int) -> list[str]:
        """Return the existing files of windows before a window, as full paths."""
        paths = {
            path for w, window_paths in self.files.items() if w < window for path in window_paths
        }
        existing = list_files(self.spark, self.inflow.rows) if paths else []
        return [f"{self.inflow.rows}/{file.path}" for file in existing if file.path in paths]

    def count(self, files: Collection[str]) -> int:
        """Return the number of rows in the given files."""
        names = sorted(path.rpartition("/")[2] for path in files)
        windows = by_window(files)
        # The log may list other files of these windows that were removed.
        frame = self.frame(ignoreMissingFiles="true").where(within(windows))
        return frame.where(one_of("_metadata.file_name", names)).count() if names else 0

    def rows(self, windows: Collection[int], prepare: Preparation) -> DataFrame:
        """Return the rows of windows after pre-processing, each with its window."""
        frame, connector = self.rows_and_files[0], self.inflow.connector
        chosen = frame.where(within(windows))
        if not any(CROSS_ROW_KEYWORDS & words_in(rule.rule) for rule in connector.pre_proc):
            prepared = prepare(chosen, connector)
            if TMST in prepared.columns:
                return prepared
        parts = [
            prepare(frame.where(within([window])).drop(TMST), connector).selectExpr(
                "*", f"{window}L AS {TMST}"
            )
            for window in sorted(windows) or [0]
        ]
        return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), parts)


def within(windows: Collection[int]) -> str:
    """Return SQL that selects windows and prunes partitions."""
    listed = ", ".join(f"{window}L" for window in sorted(windows))
    return f"{TMST} IN ({listed})" if listed else "false"


def by_window(paths: Iterable[str]) -> Files:
    """Group files by the folder of their window.

    Examples
    --------
    >>> by_window(["__tmst=60000/a", "__tmst=0/b", "__tmst=60000/c"])
    {60000: ['__tmst=60000/a', '__tmst=60000/c'], 0: ['__tmst=0/b']}
    """
    files: dict[int, list[str]] = {}
    for path in paths:
        folder = path.rpartition("/")[0]
        files.setdefault(int(folder.rpartition("=")[2]), []).append(path)
    return files


@dataclass(frozen=True)
class Windows:
    """Snapshot of a streaming source, partitioned by window.

    Attributes
    ----------
    name : str
        Name of the source.
    clock : Clock
        Size, delay and look-back of the windows.
    parts : tuple of ConnectorFiles
        One for each connector.
    prepare : callable
        Applies the pre-processing rules.
    since : int or None
        Windows before it were removed; None if none were.
    """

    name: str
    clock: Clock
    parts: tuple[ConnectorFiles, ...]
    prepare: Preparation
    since: int | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """The partition column: the begin of the window."""
        return (TMST,)

    @cached_property
    def all(self) -> tuple[int, ...]:
        """The windows that have rows, in order."""
        windows = {window for part in self.parts for window in part.files}
        return tuple(sorted(w for w in windows if self.since is None or w >= self.since))

    def listed(self, windows: Collection[int]) -> ListedPartition:
        """Return windows as one entry, with a fingerprint of all their files."""
        files = [
            FileInfo(f"{number}/{path}", 0, 0)  # file names are unique
            for number, part in enumerate(self.parts)
            for window in windows
            for path in part.files.get(window, ())
        ]
        return ListedPartition(partition_of_window(min(windows, default=0)), fingerprint(files))

    def list_partitions(self) -> list[ListedPartition]:
        """List the windows; no job runs."""
        return [self.listed([window]) for window in self.all]

    def read(self, partitions: Collection[Partition] | None = None) -> DataFrame:
        """Return the rows of some windows, or of all, with the columns that all connectors share.

        Raises
        ------
        SourceError
            If the connectors share no column.
        """
        windows = self.all if partitions is None else [int(p.value(TMST)) for p in partitions]
        frames = [part.rows(windows, self.prepare) for part in self.parts]
        shared = [c for c in frames[0].columns if all(c in f.columns for f in frames)]
        if shared == [TMST] and len(frames) > 1:
            raise SourceError(f"the connectors of source {self.name!r} have no column in common")
        return reduce(lambda a, b: a.unionByName(b), [f.select(*shared) for f in frames])

    def partition_of(self, key: Values) -> Partition | None:
        """Return the window for the key values of a scan."""
        return Partition(self.keys, key)
