"""Data sources: what each of them has, folders of partitioned files, and DataFrames.

A source lists its partitions without reading rows, and gives each a fingerprint of its files, by which
a run detects changes. DataFrames, views and formats whose files cannot be listed have no fingerprint.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, ClassVar, Protocol
from uuid import uuid4

from tidegauge.analyzers.core.description import canonical_json, key_of
from tidegauge.analyzers.core.errors import (
    NoSuchTableError,
    PartitionColumnError,
    SourceError,
    condition_of,
    describe,
    did_you_mean,
)
from tidegauge.analyzers.core.filesystems import (
    absolute,
    child,
    file_system,
    local_path,
    plain_path,
)
from tidegauge.analyzers.core.frames import check_frame
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.analyzers.core.secrets import hide_secrets
from tidegauge.analyzers.core.segments import Values
from tidegauge.analyzers.core.sql import literal, quote
from tidegauge.analyzers.scan.grouping import filter_partitions
from tidegauge.analyzers.scan.scan import scan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.types import StructType

FILE_FORMATS = frozenset({"parquet", "orc", "csv", "json", "text", "avro", "hive"})
"""Providers whose partitions are folders of files, so that changes show in the files."""

_WITH_SCHEMA = frozenset({"parquet", "orc", "avro"})
"""Formats whose files tell their own schema. Spark takes that of a whole folder from any one of them."""

_OTHER_FORMATS = frozenset({"avro", "csv", "json", "orc"})
"""Endings of files that are no Parquet."""

_CHOOSING = frozenset(
    {"mergeschema", "modifiedafter", "modifiedbefore", "pathglobfilter", "recursivefilelookup"}
)
"""Options by which Spark itself chooses the files that it reads, or merges their schemas."""


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
    """A file's path, its size in bytes, and its modification time in milliseconds since 1970."""

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

    Files and folders whose names begin with a dot or an underscore are skipped, as in Spark; folders of
    the form ``_key=value`` are kept. A folder that does not exist has no files.
    """
    from pyarrow import ArrowException

    root = absolute(root)
    try:
        found = _list_by_arrow(root)
    except (ArrowException, OSError):  # missing, or not accessible to Arrow: ask Spark
        found = _list_by_spark(spark, root)
    return [f for f in found if not any(map(_hidden, f.path.split("/")))]


def _hidden(step: str) -> bool:
    return step.startswith(".") or (step.startswith("_") and "=" not in step)


def _below(root: str, path: str) -> str:
    return path.removeprefix(root.rstrip("/") + "/")


def _list_by_arrow(root: str) -> list[FileInfo]:
    from pyarrow import fs

    system, path = file_system(root)
    infos = system.get_file_info(fs.FileSelector(path, recursive=True))
    return [
        FileInfo(_below(path, info.path), info.size, info.mtime_ns // 1_000_000)
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
    base = plain_path(root)
    return [FileInfo(_below(base, plain_path(r.path)), r.length, r.modified) for r in rows]


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


def _why_no_files(name: str) -> str:
    """Return what a local folder lacks, and its whole path; a relative one may be meant from elsewhere."""
    path = local_path(name)
    if path is None:
        return ""
    if path.exists():
        return f" ({path} has none)"
    siblings = [one.name for one in path.parent.iterdir()] if path.parent.is_dir() else []
    return f": {path} does not exist{did_you_mean(path.name, siblings)}"


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
            given = f"given/{uuid4().hex}"  # nothing tells whether it is what it was
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


@dataclass
class PathSource:
    """A folder of files, partitioned by Hive-style subfolders ``key=value``.

    In a partitioned folder, what is read together has the columns and types of its newest file; older
    files are read as far as these go.

    Attributes
    ----------
    spark : SparkSession
    name : str
        The folder, as a path or URI.
    keys : tuple of str or None
        The partition columns; None for all that the subfolders name.
    format : str
        Format of the files.
    options : mapping
        Options of Spark's reader.
    """

    reads_exactly: ClassVar[bool] = True
    spark: SparkSession
    name: str
    keys: tuple[str, ...] = None  # type: ignore[assignment]  # found in __post_init__
    format: str = "parquet"
    options: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold passwords

    def __post_init__(self) -> None:
        self._location = absolute(self.name)  # Java stays in the folder where it was started
        self._require_format([self.name])
        listed = self._list()
        self._require_format([file.path for files in listed.values() for file in files])
        all_keys = {partition.keys for partition in listed}
        if not all_keys:
            msg = f"no data files under {hide_secrets(self.name)!r}{_why_no_files(self.name)}"
            raise NoSuchTableError(msg)
        if len(all_keys) > 1:
            shapes = " and ".join(sorted("/".join(k) or "no partition" for k in all_keys))
            msg = f"{hide_secrets(self.name)!r} holds files under different partition columns: {shapes}"
            raise PartitionColumnError(msg)
        self._all_keys = all_keys.pop()
        self.keys = check_keys(self.keys, self._all_keys, repr(hide_secrets(self.name)))

    def _require_format(self, paths: Sequence[str]) -> None:
        """Raise `SourceError` if all paths have the ending of another format than Parquet, the default."""
        endings = {PurePosixPath(path.removesuffix(".gz")).suffix[1:].lower() for path in paths}
        if self.format == "parquet" and len(endings) == 1 and endings <= _OTHER_FORMATS:
            what = f"{hide_secrets(self.name)!r} would be read as Parquet"
            raise SourceError(f"{what}: give the format {endings.pop()!r}")

    def _list(self) -> dict[Partition, list[FileInfo]]:
        found: dict[Partition, list[FileInfo]] = {}
        for file in list_files(self.spark, self._location):
            folders = [step for step in file.path.split("/")[:-1] if "=" in step]
            found.setdefault(Partition.from_path("/".join(folders)), []).append(file)
        return found

    def list_partitions(self) -> list[ListedPartition]:
        """List the partitions that have files now: a run may have waited for another since it began."""
        grouped: dict[Partition, list[FileInfo]] = {}
        for partition, files in self._list().items():
            grouped.setdefault(partition.only(self.keys), []).extend(files)
        return to_listed(grouped)

    def read(self, partitions: Collection[Partition] | None = None) -> DataFrame:
        """Read the rows of the given partitions, None for all; partition columns are strings."""
        from pyspark.sql.types import StringType, StructField, StructType

        if not self._all_keys:
            return self._reader().load(self._location)
        schema = self._schema(partitions)
        columns = [field for field in schema.fields if field.name not in self._all_keys]
        columns += [StructField(key, StringType()) for key in self._all_keys]
        data = self._reader().schema(StructType(columns)).load(self._location)
        if partitions is None or not self.keys:
            return data
        return filter_partitions(data, self.keys, [p.values for p in partitions])

    def _reader(self) -> DataFrameReader:
        # Spark reads columns of CSV by their place. It shall fail where a header tells otherwise.
        defaults = {"enforceSchema": "false"} if self.format == "csv" else {}
        return self.spark.read.format(self.format).options(**defaults | dict(self.options))

    def _schema(self, partitions: Collection[Partition] | None) -> StructType:
        """Return the schema of the newest wanted file; of text formats, what Spark infers from all files.

        Where one of those is damaged, it is inferred from the wanted ones.
        """
        wanted = [
            file
            for partition, files in self._list().items()
            if partitions is None or partition.only(self.keys) in partitions
            for file in files
            if file.size
            and not file.path.startswith("/")  # which is of no folder, but of a pattern
        ]
        choosing = any(name.casefold() in _CHOOSING for name in self.options)
        if wanted and self.format in _WITH_SCHEMA and not choosing:
            newest = max(wanted, key=lambda file: (file.modified, file.path))
            return self._schema_of([newest])
        try:
            return self._reader().load(self._location).schema
        except Exception:
            if not wanted or partitions is None:
                raise
            return self._schema_of(wanted)

    def _schema_of(self, files: Sequence[FileInfo]) -> StructType:
        reader = self._reader().option("basePath", self._location)
        return reader.load([child(self._location, file.path) for file in files]).schema

    def partition_of(self, key: Values) -> Partition | None:
        """Return the partition with these key values."""
        return Partition(self.keys, key)
