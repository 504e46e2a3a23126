"""Stored windows of streams as a source partitioned by window."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING
from urllib.parse import unquote

from tidegauge.analyzers.core.errors import SourceError, condition_of
from tidegauge.analyzers.core.partitions import TMST, Partition
from tidegauge.analyzers.core.segments import Values
from tidegauge.analyzers.core.sql import one_of, words_in
from tidegauge.analyzers.sources.sources import FileInfo, ListedPartition, fingerprint, list_files
from tidegauge.griffin.config import ConnectorConfig
from tidegauge.griffin.streaming.clock import Clock
from tidegauge.griffin.streaming.ingest import Inflow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Preparation = Callable[["DataFrame", ConnectorConfig], "DataFrame"]
"""Applies pre-processing rules to a connector's rows."""
Files = Mapping[int, Sequence[str]]
"""Files by window, as paths relative to the folder of the rows."""
ACROSS = frozenset({"group", "having", "join", "limit", "order", "over", "distinct", "sort"})
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
    inflow : Inflow
    """

    spark: SparkSession
    inflow: Inflow

    def frame(self, **options: str) -> DataFrame:
        """Return the rows written so far."""
        reader = self.spark.read.schema(self.inflow.frame.schema).options(**options)
        return reader.format(self.inflow.store.format).load(self.inflow.rows)

    @cached_property
    def seen(self) -> tuple[DataFrame, Files]:
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
        return self.seen[1]

    def kept(self, before: int) -> list[str]:
        """Return the existing files of windows before the given one, as full paths."""
        named = {path for w, paths in self.files.items() if w < before for path in paths}
        there = list_files(self.spark, self.inflow.rows) if named else []
        return [f"{self.inflow.rows}/{file.path}" for file in there if file.path in named]

    def count(self, files: Collection[str]) -> int:
        """Return the number of rows in the given files."""
        names = sorted(path.rpartition("/")[2] for path in files)
        windows = by_window(files)
        # The log may list other files of these windows that were removed.
        frame = self.frame(ignoreMissingFiles="true").where(within(windows))
        return frame.where(one_of("_metadata.file_name", names)).count() if names else 0

    def rows(self, windows: Collection[int], prepare: Preparation) -> DataFrame:
        """Return the rows of windows after pre-processing, each with its window."""
        frame, connector = self.seen[0], self.inflow.connector
        chosen = frame.where(within(windows))
        if not any(ACROSS & words_in(rule.rule) for rule in connector.pre_proc):
            whole = prepare(chosen, connector)
            if TMST in whole.columns:
                return whole
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
    found: dict[int, list[str]] = {}
    for path in paths:
        folder = path.rpartition("/")[0]
        found.setdefault(int(folder.rpartition("=")[2]), []).append(path)
    return found


@dataclass(frozen=True)
class Windows:
    """Snapshot of a streaming source, partitioned by window.

    Attributes
    ----------
    name : str
    clock : Clock
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
        found = {window for part in self.parts for window in part.files}
        return tuple(sorted(w for w in found if self.since is None or w >= self.since))

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
