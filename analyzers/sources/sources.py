"""Data sources: what each of them has, listings of files, and DataFrames.

A source lists its partitions without reading rows, and gives each a fingerprint of its files, by which
a run detects changes. DataFrames, views and formats whose files cannot be listed have no fingerprint.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar, Protocol
from uuid import uuid4

from tidegauge.analyzers.core.description import canonical_json, key_of
from tidegauge.analyzers.core.errors import (
    PartitionColumnError,
    SourceError,
    condition_of,
    describe,
    did_you_mean,
)
from tidegauge.analyzers.core.filesystems import absolute, data_folder, file_system, plain_path
from tidegauge.analyzers.core.frames import check_frame
from tidegauge.analyzers.core.partitions import UNTRACKED_PREFIX, Partition
from tidegauge.analyzers.core.secrets import hide_secrets
from tidegauge.analyzers.core.segments import Values
from tidegauge.analyzers.core.sql import literal, quote
from tidegauge.analyzers.scan.grouping import filter_partitions
from tidegauge.analyzers.scan.scan import scan
from tidegauge.analyzers.sources.table_folders import require_plain_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILE_FORMATS = frozenset({"parquet", "orc", "csv", "json", "text", "avro", "hive"})
"""Providers whose partitions are folders of files, so that changes show in the files."""


@dataclass(frozen=True, slots=True)
class ListedPartition:
    """The current state of a partition in the source.

    Attributes
    ----------
    partition : Partition
    fingerprint : str or None
        Equal for equal files; None if the source has no files to inspect.
    arrived_at : datetime or None
        Modification time of its newest file, in UTC.
    size : int
        Total size of its files in bytes; 0 if the source has no files to inspect.
    """

    partition: Partition
    fingerprint: str | None = None
    arrived_at: datetime | None = None
    size: int = 0


class Source(Protocol):
    """Protocol of a partitioned data source.

    A source of a table with versions may also have an attribute ``version``: text that names the version
    that was last listed, which runs record as the tag ``source_version``. And a method
    ``only_rewritten(since)``, which is given names of partitions with the versions from which they were
    measured, and returns those whose rows have not changed since. A source that lists a part of its
    table has ``lists_all``, False: what it does not list is not gone. One whose ``read`` never returns
    rows of other partitions has ``reads_exactly``, True, so that one partition is aggregated as a whole.
    One whose partitions have columns of their own has a method ``read_keys(partitions)``, which returns
    a key for each partition: partitions with equal keys have the same columns and are read together.
    One whose keys hold a time that their names do not tell has ``time_format``.
    """

    @property
    def name(self) -> str | None:
        """Name of the table or path, stored with the dataset; None for a DataFrame."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The partition columns."""

    def list_partitions(self) -> list[ListedPartition]:
        """List the current partitions."""

    def read(self, partitions: Collection[Partition] | None = None) -> DataFrame:
        """Read the rows of the given partitions, possibly with rows of others; None reads all."""

    def partition_of(self, key: Values) -> Partition | None:
        """Return the listed partition for the key values of a scan's group, or None."""


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A data file below a folder.

    Attributes
    ----------
    path : str
        The path relative to the folder; see `data_folder`.
    size : int
        Bytes.
    modified : int
        Time of its last change in milliseconds since 1970.
    """

    path: str
    size: int
    modified: int


def fingerprint(files: Iterable[FileInfo]) -> str:
    """Fingerprint a set of files by path, size and modification time, in any order.

    Examples
    --------
    >>> a, b = FileInfo("ds=1/a", 10, 5), FileInfo("ds=1/b", 10, 5)
    >>> fingerprint([a, b]) == fingerprint([b, a]) != fingerprint([a])
    True
    """
    lines = sorted(json.dumps([f.path, f.size, f.modified]) for f in files)
    return "files/1:" + hashlib.sha256("\n".join(lines).encode()).hexdigest()


def list_files(spark: SparkSession, root: str) -> list[FileInfo]:
    """List the data files under a folder: by Arrow on the driver if possible, else through Spark.

    A pattern lists the files of all folders that it matches; a file lists itself. Paths are relative to
    the `data_folder`. Files and folders whose names begin with a dot or an underscore are skipped, as in Spark; folders of
    the form ``_key=value`` are kept. A folder that does not exist has no files.
    """
    return _visible(_list_all(spark, root))


def list_plain_files(spark: SparkSession, root: str) -> list[FileInfo]:
    """List the data files under a folder that holds no table of a table format; see `list_files`.

    Raises
    ------
    TableFormatError
        If the folder holds such a table, of which only the log says which files count.
    """
    files = _list_all(spark, root)
    require_plain_folder(spark, root, (file.path for file in files))
    return _visible(files)


def _list_all(spark: SparkSession, root: str) -> list[FileInfo]:
    """List all files under a folder, among them hidden ones if Arrow lists them."""
    from pyarrow import ArrowException

    root = absolute(root)
    try:
        return _list_by_arrow(root)
    except (ArrowException, OSError):  # missing, or not accessible to Arrow: ask Spark
        return _list_by_spark(spark, root)


def _visible(files: Iterable[FileInfo]) -> list[FileInfo]:
    return [f for f in files if not any(map(_hidden, f.path.split("/")))]


def _hidden(step: str) -> bool:
    return step.startswith(".") or (step.startswith("_") and "=" not in step)


def _below(folder: str, path: str) -> str:
    return path.removeprefix(folder.rstrip("/") + "/")


def _list_by_arrow(root: str) -> list[FileInfo]:
    from pyarrow import fs

    system, path = file_system(root)
    whole = system.get_file_info(path)
    if whole.type == fs.FileType.File:
        infos, folder = [whole], path.rpartition("/")[0]
    else:
        infos, folder = system.get_file_info(fs.FileSelector(path, recursive=True)), path
    return [
        FileInfo(_below(folder, info.path), info.size, info.mtime_ns // 1_000_000)
        for info in infos
        if info.type == fs.FileType.File
    ]


def _list_by_spark(spark: SparkSession, root: str) -> list[FileInfo]:
    reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    try:
        files = reader.load(root).selectExpr(
            "path", "length", "unix_millis(modificationTime) AS modified"
        )
        rows = files.collect()  # Spark Connect raises only here
    except Exception as error:
        if condition_of(error) == "PATH_NOT_FOUND":
            return []
        msg = f"cannot list the files under {hide_secrets(root)!r}: {describe(error)}"
        raise SourceError(msg) from error
    folder = plain_path(data_folder(root))
    return [FileInfo(_below(folder, plain_path(r.path)), r.length, r.modified) for r in rows]


def to_listed(files: Mapping[Partition, list[FileInfo]]) -> list[ListedPartition]:
    """Return listed partitions by the files of each."""
    return [
        ListedPartition(partition, fingerprint(found), _newest(found), sum(f.size for f in found))
        for partition, found in files.items()
    ]


def _newest(files: Collection[FileInfo]) -> datetime | None:
    if not files:
        return None
    return datetime.fromtimestamp(max(f.modified for f in files) / 1000, UTC)


def check_keys(
    wanted: Sequence[str] | None,
    available: Sequence[str],
    what: str,
    told: str = "it is partitioned by",
) -> tuple[str, ...]:
    """Return the requested partition columns as the data spells them; all columns for None.

    Raises
    ------
    PartitionColumnError
        If one of them is not a partition column.
    """
    if wanted is None:
        return tuple(available)
    by_name = {name.casefold(): name for name in available}
    for name in wanted:
        if name.casefold() not in by_name:
            known = ", ".join(map(repr, available))
            are = f"{told} {known}" if known else "it is not partitioned"
            hint = did_you_mean(name, available)
            msg = f"{what} has no partition column {name!r}: {are}{hint}"
            raise PartitionColumnError(msg)
    return tuple(by_name[name.casefold()] for name in wanted)


@dataclass
class FrameSource:
    """A DataFrame: partitioned by some of its columns, or one partition as a whole.

    It has no files to detect changes by. As one partition it counts as new content each time that it
    is listed; partitioned, only partitions that were not measured yet are new.

    Attributes
    ----------
    data : DataFrame
    keys : tuple of str
    name : str or None
        The view it was read from, if any.
    partition : Partition or None
        The partition that the whole data is, if it has no columns that tell.
    """

    reads_exactly: ClassVar[bool] = True
    data: DataFrame
    keys: tuple[str, ...] = ()
    name: str | None = None
    partition: Partition | None = None

    def __post_init__(self) -> None:
        check_frame(self.data)
        if self.partition is None:
            self.keys = check_keys(self.keys, self.data.columns, "the data", "its columns are")
            return
        columns = {name.casefold() for name in self.data.columns}
        for key in self.partition.keys:
            if key.casefold() in columns:
                msg = (
                    f"the data has a column {key!r}, so it tells its partitions itself; leave out"
                    f" partition=, and give the suite partition_by=[{key!r}]"
                )
                raise PartitionColumnError(msg)
        self.keys = self.partition.keys
        values = zip(self.keys, self.partition.values, strict=True)
        told = (f"{literal(value)} AS {quote(key)}" for key, value in values)
        self.data = self.data.selectExpr("*", *told)

    @property
    def lists_all(self) -> bool:
        """True if partitions that are not listed are gone; a DataFrame may be a part of its table."""
        return self.name is not None

    def list_partitions(self) -> list[ListedPartition]:
        """List the distinct values of the partition columns, in one pass over these columns."""
        if self.partition is not None or not self.keys:
            given = f"{UNTRACKED_PREFIX}{uuid4().hex}"  # nothing tells whether it is what it was
            return [ListedPartition(self.partition or Partition(), given)]
        return [
            ListedPartition(Partition(self.keys, key))
            for key in scan(self.data, [], self.keys).groups
        ]

    def read(self, partitions: Collection[Partition] | None = None) -> DataFrame:
        """Read the rows of the given partitions; None reads all."""
        if partitions is None or not self.keys:
            return self.data
        return filter_partitions(self.data, self.keys, [p.values for p in partitions])

    def partition_of(self, key: Values) -> Partition | None:
        """Return the partition with these key values."""
        return Partition(self.keys, key)


def whole_fingerprint(source: Source) -> str | None:
    """Return a fingerprint of all partitions of a source; None if nothing tells whether it changed, as of a view."""
    if isinstance(source, FrameSource):
        return None
    files = [e.fingerprint for e in source.list_partitions() if e.fingerprint is not None]
    return key_of(canonical_json(files)) if files else None
