"""Data sources: Hive tables, folders of partitioned files, and DataFrames.

A source lists its partitions without reading rows, and gives each a fingerprint of its files, by which
a run detects changes. DataFrames, views and formats whose files cannot be listed have no fingerprint.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, ClassVar, Protocol
from urllib.parse import unquote
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
    comparable,
    file_system,
    local_path,
    plain_path,
)
from tidegauge.analyzers.core.frames import check_frame
from tidegauge.analyzers.core.partitions import NULL, Partition
from tidegauge.analyzers.core.secrets import hide_secrets
from tidegauge.analyzers.core.segments import Values
from tidegauge.analyzers.core.sql import literal, quote, table_sql
from tidegauge.analyzers.scan.capabilities import session_settings
from tidegauge.analyzers.scan.grouping import filter_partitions, hive_text
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

LISTING_TASKS = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
FOLDERS_PER_TASK = 32
"""Folders that one task of Spark lists; by default each has a task of its own."""
LISTED_BY_DRIVER = "spark.sql.sources.parallelPartitionDiscovery.threshold"
LOCAL_FOLDERS = "10000"
"""Local folders up to which Spark's driver lists them: a folder takes it less time than a task does."""

_DIGITS = {"tinyint": 2, "smallint": 4, "int": 9, "bigint": 18}
"""Integer types, and the characters that every such number has room for."""
_INTEGERS = frozenset(_DIGITS)
_INTEGER = re.compile(r"0|-?[1-9]\d*", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_BOOLEANS = {"boolean": ("true", "false")}
AS_STORED = "spark.sql.legacy.skipTypeValidationOnAlterPartition"
"""Setting by which partitions are looked up as the metastore writes them, not as their type is printed."""


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


def _to_listed(files: Mapping[Partition, list[FileInfo]]) -> list[ListedPartition]:
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
        return _to_listed(grouped)

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


@dataclass
class HiveTable:
    """A metastore table whose partitions are folders of files.

    Attributes
    ----------
    spark : SparkSession
    name : str
        The fully qualified name.
    keys : tuple of str
        The partition columns, or some of them for a coarser partitioning.
    description : TableDescription
    """

    reads_exactly: ClassVar[bool] = True
    spark: SparkSession
    name: str
    keys: tuple[str, ...]
    description: TableDescription
    _by_key: dict[Values, Partition] = field(init=False, default_factory=dict)
    _texts: dict[tuple[str, str], str] = field(init=False, default_factory=dict)

    @property
    def _quoted(self) -> str:
        return table_sql(self.name)

    def list_partitions(self) -> list[ListedPartition]:
        """List the metastore's partitions with their files, wherever those are located."""
        self.spark.catalog.refreshTable(self._quoted)  # Spark caches file listings
        root = self.description.location
        in_root: dict[str, list[FileInfo]] = {}
        for file in list_files(self.spark, root):
            in_root.setdefault(_folder(file.path), []).append(file)
        grouped: dict[Partition, list[FileInfo]] = {}
        if not self.description.partition_types:
            grouped[Partition()] = [file for files in in_root.values() for file in files]
        else:
            shown = self.spark.sql(f"SHOW PARTITIONS {self._quoted}").collect()
            is_moved = self._moved(root, len(shown))
            every = {path: Partition.from_path(path) for (path,) in shown}
            self._texts.update(self._texts_of(every.values()))
            for path, partition in every.items():
                files = in_root.get(path)
                if files is None or is_moved(path):
                    files = self._files_of(partition)
                grouped.setdefault(partition.only(self.keys), []).extend(files)
        self._by_key = self._index(grouped)
        return _to_listed(grouped)

    def _moved(self, root: str, partitions: int) -> Callable[[str], bool]:
        """Return whether a folder under the table's root, by its path, is one that the table no longer reads.

        A partition may have been relocated and its old files left behind. Spark lists the files that it
        would read without running a job; for text tables it lists only the root, which is no help. A path
        in another bucket or cluster is another place.
        """
        base = comparable(root).rstrip("/") + "/"
        if local_path(root) is None:
            tuned = {LISTING_TASKS: str(math.ceil(partitions / FOLDERS_PER_TASK))}
        else:
            tuned = {LISTED_BY_DRIVER: LOCAL_FOLDERS}
        known = {key: value for key, value in tuned.items() if self.spark.conf.isModifiable(key)}
        with session_settings(self.spark, known):
            files = self.spark.table(self._quoted).inputFiles()
        # A root without a scheme is of the default file system, whose name is not known here.
        form = plain_path if base.startswith("/") else comparable
        read = [form(unquote(uri)) for uri in files]
        if any(path + "/" == base for path in read):
            return lambda _path: False
        inside = {_folder(path.removeprefix(base)) for path in read if path.startswith(base)}
        return lambda path: path not in inside

    def _files_of(self, partition: Partition) -> list[FileInfo]:
        which = f"{self._quoted} {partition_sql(partition)}"
        with self.as_stored(partition):
            location = describe_table(self.spark, which).location
        files = list_files(self.spark, location)
        return [FileInfo(f"{partition.name}/{f.path}", f.size, f.modified) for f in files]

    def as_stored(self, partition: Partition) -> AbstractContextManager[None]:
        """Context manager: Spark looks for ``007`` where the metastore has it, not for ``7``."""
        if self._typed(partition) == partition.values:
            return nullcontext()
        return session_settings(self.spark, {AS_STORED: "true"})

    def _index(self, partitions: Iterable[Partition]) -> dict[Values, Partition]:
        index: dict[Values, Partition] = {}
        for partition in partitions:
            key = self._typed(partition)
            if key in index:
                a, b = index[key].name, partition.name
                msg = f"{self.name}: {a!r} and {b!r} are the same value in the column's type"
                raise PartitionColumnError(msg)
            index[key] = partition
        return index

    def _typed(self, partition: Partition) -> Values:
        """Return the key values as Spark prints them: ``07`` becomes ``7`` in an integer column."""
        types = self.description.partition_types
        return tuple(
            self._texts.get((types.get(key, ""), value), value)
            for key, value in zip(partition.keys, partition.values, strict=True)
        )

    def _texts_of(self, partitions: Iterable[Partition]) -> dict[tuple[str, str], str]:
        """Return as what text Spark reads the values that the metastore may write in another way.

        Spark casts them to the column's type, in the time zone of the session: ``2024-1-5`` is a date,
        ``1.5`` a decimal of two places, and ``ab`` a CHAR of five. What it cannot read is null.
        """
        types = self.description.partition_types
        asked: dict[str, set[str]] = {}
        for partition in partitions:
            for key, value in zip(partition.keys, partition.values, strict=True):
                kind = types.get(key, "string")
                known = value == NULL or (kind, value) in self._texts
                if not known and not _is_plain(kind, value):
                    asked.setdefault(kind, set()).add(value)
        found: dict[tuple[str, str], str] = {}
        for kind, values in asked.items():
            rows = ", ".join(f"({literal(value)})" for value in sorted(values))
            listed = self.spark.sql(f"VALUES {rows} AS listed(v)")
            printed = listed.selectExpr("v", hive_text(_cast_sql("v", kind))).collect()
            found |= {(kind, value): text for value, text in printed}
        return found

    def read(self, partitions: Collection[Partition] | None = None) -> DataFrame:
        """Read the rows of the given partitions, None for all; Spark opens no files of others."""
        data = self.spark.table(self._quoted)
        if partitions is None or not self.keys:
            return data
        return filter_partitions(data, self.keys, [self._typed(p) for p in partitions])

    def partition_of(self, key: Values) -> Partition | None:
        """Return the listed partition whose key values Spark prints this way, or None."""
        return self._by_key.get(key)


def _folder(path: str) -> str:
    """Return a file's folder down to the last that names a partition; empty if none does.

    Examples
    --------
    >>> _folder("ds=1/hr=2/part-0"), _folder("ds=1/more/part-0"), _folder("archive/ds=1/part-0")
    ('ds=1/hr=2', 'ds=1', 'archive/ds=1')
    """
    steps = path.split("/")[:-1]
    while steps and "=" not in steps[-1]:
        steps.pop()
    return "/".join(steps)


def _is_plain(kind: str, value: str) -> bool:
    """Return whether a partition value is written as Spark prints its type.

    Examples
    --------
    >>> _is_plain("int", "7"), _is_plain("int", "07"), _is_plain("date", "2024-01-31")
    (True, False, True)
    >>> _is_plain("date", "2024-1-31"), _is_plain("date", "2024-01-32"), _is_plain("boolean", "True")
    (False, False, False)
    """
    if kind in _INTEGERS:
        return bool(_INTEGER.fullmatch(value)) and len(value) <= _DIGITS[kind]
    if kind == "date":
        return bool(_DATE.fullmatch(value)) and _is_day(value)
    return kind == "string" or kind.startswith("varchar") or value in _BOOLEANS.get(kind, ())


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _cast_sql(value: str, kind: str) -> str:
    """Return SQL for a text in a partition's type; a cast to CHAR would not pad."""
    if kind.startswith("char("):
        return f"rpad({value}, greatest(length({value}), {int(kind[5:-1])}), ' ')"
    return f"try_cast({value} AS {kind})"


def partition_sql(partition: Partition) -> str:
    """Return the SQL ``PARTITION (...)`` clause for a partition.

    Examples
    --------
    >>> print(partition_sql(Partition(("ds", "hr"), ("2013-02-08", NULL))))
    PARTITION (`ds`='2013-02-08', `hr`=NULL)
    """
    spec = ", ".join(
        f"{quote(k)}={'NULL' if v == NULL else literal(v)}"
        for k, v in zip(partition.keys, partition.values, strict=True)
    )
    return f"PARTITION ({spec})"


@dataclass(frozen=True)
class TableDescription:
    """Description of a table or of one of its partitions in the catalog.

    Attributes
    ----------
    details : mapping of str to str
        The detailed information, by lower-case names such as ``provider`` and ``location``.
    partition_types : mapping of str to str
        Types of the partition columns, in their order.
    """

    details: Mapping[str, str]
    partition_types: Mapping[str, str]

    @property
    def provider(self) -> str:
        """The format, in lower case; empty if it is unknown."""
        return self.details.get("provider", "").casefold()

    @property
    def location(self) -> str:
        """The folder; empty if there is none."""
        return self.details.get("location", "")


def describe_table(spark: SparkSession, what: str) -> TableDescription:
    """Describe a table, or one of its partitions, which is given by a ``PARTITION`` clause.

    ``AS JSON`` would be easier to read, but Spark has it since version 4 only, and not for tables of
    other catalogs.
    """
    rows = [(row[0], row[1]) for row in spark.sql(f"DESCRIBE TABLE EXTENDED {what}").collect()]
    names = [name for name, _ in rows]
    # A column may have any name, but columns come first: the last heading is the heading.
    at = max(_last(names, f"# Detailed {kind} Information") for kind in ("Table", "Partition"))
    heading = _last(names[: at + 1], "# Partition Information")
    found: dict[str, str] = {}
    for name, value in rows[at + 1 :]:
        found.setdefault(name.casefold(), value)  # a partition's location precedes its table's
    types = {} if heading < 0 else {n: kind for n, kind in rows[heading + 2 : at] if n}
    return TableDescription(found, types)


def _last(texts: Sequence[str], wanted: str) -> int:
    """Return the last place of a text, -1 if it is not there."""
    return max((i for i, text in enumerate(texts) if text == wanted), default=-1)
