"""Data sources: what each of them has, listings of files, and DataFrames.

A source lists its partitions without reading rows, and gives each a fingerprint of its files, by which
a run detects changes. DataFrames, views and formats whose files cannot be listed have no fingerprint.

The first half finds the Delta, Hudi or Iceberg table that a folder belongs to. The files in such a folder are
no table: the table's log says which of them count. A folder of this kind is never read as plain files; it is
read by its log, or refused with the line to write instead.
"""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar, Protocol
from uuid import uuid4

from tidegauge.analyzers.core.errors import (
    PartitionColumnError,
    SourceError,
    TableFormatError,
    condition_of,
    describe,
    did_you_mean,
)
from tidegauge.analyzers.core.filesystems import (
    absolute,
    comparable,
    data_folder,
    file_system,
    local_path,
    plain_path,
)
from tidegauge.analyzers.core.formatting import hide_secrets
from tidegauge.analyzers.core.partitions import UNTRACKED_PREFIX, Partition, Values
from tidegauge.analyzers.core.registry import canonical_json, key_of
from tidegauge.analyzers.core.schema import check_frame
from tidegauge.analyzers.core.sql import literal, quote, table_name
from tidegauge.analyzers.scan.grouping import filter_partitions
from tidegauge.analyzers.scan.scan import scan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


DELTA, HUDI, ICEBERG = "delta", "hudi", "iceberg"
TABLE_FORMATS = {DELTA: "Delta", HUDI: "Hudi", ICEBERG: "Iceberg"}
"""Table formats, by the name that Spark's reader has for them, and their names in text."""

DELTA_PACKAGES = {
    "3.5": "io.delta:delta-spark_2.12:3.3.2",
    "4.0": "io.delta:delta-spark_4.0_2.13:4.4.0",
    "4.1": "io.delta:delta-spark_4.1_2.13:4.4.0",
}
"""Delta Lake's Maven package for each release line of Spark that has one."""
_DELTA_SETTINGS = (
    "spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog",
)

_LOG_FOLDERS = {"_delta_log": DELTA, ".hoodie": HUDI, "metadata": ICEBERG}
"""Folders directly in a table's folder that hold its log, and the table's format."""
_ICEBERG_METADATA = re.compile(r"[^/]+\.metadata\.json(\.gz)?|version-hint\.text")
_GLOB = re.compile(r"[*?\[{]")


@dataclass(frozen=True)
class TableFolder:
    """A folder that holds a table of a table format.

    Attributes
    ----------
    format : str
        One of `TABLE_FORMATS`.
    location : str
        The folder, as an absolute path or a URI.
    """

    format: str
    location: str

    @property
    def kind(self) -> str:
        """The table's kind in text, such as ``Delta table``."""
        return f"{TABLE_FORMATS[self.format]} table"


def table_in(root: str, files: Iterable[str]) -> TableFolder | None:
    """Return the topmost table of a table format in a folder; None if there is none.

    Parameters
    ----------
    root : str
    files : iterable of str
        The paths of all files in the folder, relative to it, hidden ones among them.

    Examples
    --------
    >>> table_in("/lake", ["orders/ds=1/a.parquet", "orders/_delta_log/00000000000000000000.json"])
    TableFolder(format='delta', location='/lake/orders')
    >>> table_in("/lake", ["orders/metadata/readme.json", "orders/ds=1/a.parquet"])
    """
    tables: set[tuple[int, str, str]] = set()
    for file in files:
        steps = file.split("/")
        for depth, step in enumerate(steps[:-1]):
            format = _LOG_FOLDERS.get(step)
            if format == ICEBERG and not _ICEBERG_METADATA.fullmatch("/".join(steps[depth + 1 :])):
                format = None
            if format is not None:
                tables.add((depth, format, "/".join(steps[:depth])))
            if step.startswith((".", "_")) and "=" not in step:
                break  # Spark reads nothing below a hidden folder
    if not tables:
        return None
    # A table may have the metadata of several formats, as Delta's UniForm writes them.
    _, format, folder = min(tables)
    return TableFolder(format, posixpath.join(root, folder) if folder else root)


def table_around(spark: SparkSession, location: str) -> TableFolder | None:
    """Return the table of a table format that a folder or file is, or is in; None if there is none.

    Parameters
    ----------
    spark : SparkSession
    location : str
        A path, a URI or a pattern of Hadoop.
    """
    location = absolute(location).rstrip("/") or "/"
    if local_path(location) is not None and not _GLOB.search(location):
        location = os.path.realpath(str(local_path(location)))
    try:
        if _GLOB.search(location):
            raise FileNotFoundError(location)
        return _table_by_arrow(location)
    except (OSError, ValueError, ImportError):  # a pattern, or not accessible to Arrow: ask Spark
        return _table_by_spark(spark, location)


def _table_by_arrow(location: str) -> TableFolder | None:
    from pyarrow import fs

    system, inner = file_system(location)
    base = location.removesuffix(inner) if location.endswith(inner) else ""
    for folder in _with_parents(inner):
        try:
            infos = system.get_file_info([posixpath.join(folder, log) for log in _LOG_FOLDERS])
        except OSError:
            if folder == inner:
                raise
            return None  # whoever may read a folder need not be allowed to look above it
        for info in infos:
            if info.type == fs.FileType.Directory:
                log = info.base_name
                children = system.get_file_info(fs.FileSelector(info.path))
                names = [f"{log}/{child.base_name}" for child in children]
                if table := table_in(f"{base}{folder}", names):
                    return table
    return None


def _with_parents(path: str) -> list[str]:
    """Return a path and all its parents, nearest first.

    Examples
    --------
    >>> _with_parents("/lake/orders/ds=1"), _with_parents("bucket/t")
    (['/lake/orders/ds=1', '/lake/orders', '/lake', '/'], ['bucket/t', 'bucket'])
    """
    paths = [path]
    while (parent := posixpath.dirname(paths[-1])) and parent != paths[-1]:
        paths.append(parent)
    return paths


def _table_by_spark(spark: SparkSession, location: str) -> TableFolder | None:
    """Ask Spark, folder by folder: the location, and parents while the steps below may be a table's."""
    reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    for folder in _with_parents(location):
        try:
            logs = reader.load(f"{folder}/{{{','.join(_LOG_FOLDERS)}}}").select("path").collect()
        except Exception as error:
            if condition_of(error) != "PATH_NOT_FOUND":
                if folder != location:
                    return None  # whoever may read a folder need not be allowed to look above it
                msg = f"cannot list the files under {hide_secrets(folder)!r}: {describe(error)}"
                raise SourceError(msg) from error
            logs = []
        depth = len(plain_path(folder).split("/"))
        for (path,) in logs:
            inner = "/".join(plain_path(path).split("/")[depth:])
            if table := table_in(path.removesuffix(f"/{inner}"), [inner]):
                return table
        step = folder.rpartition("/")[2]
        above = plain_path(posixpath.dirname(folder)).strip("/")
        if not above or not ("=" in step or step == "data" or _GLOB.search(step)):
            return None
    return None


def require_plain_folder(
    spark: SparkSession, name: str, files: Iterable[str] | None = None
) -> None:
    """Raise `TableFormatError` if a folder is, is in, or contains a table of a table format.

    Parameters
    ----------
    spark : SparkSession
    name : str
        The folder, as the user wrote it.
    files : iterable of str, optional
        The paths of all files in it, relative to its data folder; looks for tables in it, in place of around it.
    """
    table = (
        table_around(spark, name) if files is None else table_in(data_folder(absolute(name)), files)
    )
    if table is not None:
        raise refusal(spark, table, name)


def refusal(spark: SparkSession, table: TableFolder, name: str) -> TableFormatError:
    """Return the error for a folder that cannot be read as plain files; it says what to write.

    Parameters
    ----------
    spark : SparkSession
    table : TableFolder
    name : str
        The folder that was to be read, as the user wrote it.
    """
    asked, own = _path(name), _path(table.location)
    if asked == own:
        what = "is"
    elif own.startswith(f"{asked.rstrip('/')}/"):
        what = "contains"
    else:
        what = "is inside"
    where = "" if what == "is" else f" {hide_secrets(table.location)!r}"
    article = "an" if table.format == ICEBERG else "a"
    head = f"{hide_secrets(name)!r} {what} {article if what == 'is' else 'the'} {table.kind}{where}"
    return TableFormatError(
        f"{head}, whose files count only as its log says; {_advice(spark, table, what)}"
    )


def is_same_folder(one: str, other: str) -> bool:
    """Return whether two locations are the same folder, however they are written."""
    return _path(one) == _path(other)


def _path(location: str) -> str:
    """Return the form in which locations of local folders, links among them, are compared."""
    local = local_path(location)
    return os.path.realpath(local) if local is not None else comparable(location).rstrip("/")


def _advice(spark: SparkSession, table: TableFolder, what: str) -> str:
    location = hide_secrets(table.location)
    by_path = f"`table: {table.format}.{quote(location)}`"
    match table.format:
        case "delta":
            part = ", and select its partitions by `partitions=`" if what == "is inside" else ""
            return f"write `path: {location}` or {by_path}{part}"
        case "iceberg":
            name = _iceberg_name(spark, table.location)
            if name is not None:
                return f"write `table: {name}`"
            guess = table_name(["CATALOG", *_last_steps(table.location)])
            return f"write its name in its catalog, such as `table: {guess}`"
        case _:
            guess = table_name(_last_steps(table.location))
            return (
                f"write its name in the catalog, such as `table: {guess}`; if it has none, run"
                f" CREATE TABLE {guess} USING hudi LOCATION '{location}'"
            )


def _last_steps(location: str) -> list[str]:
    """Return the database and table that a folder's path suggests.

    Examples
    --------
    >>> _last_steps("s3://lake/sales.db/orders/"), _last_steps("/orders")
    (['sales', 'orders'], ['default', 'orders'])
    """
    steps = [step for step in location.rstrip("/").split("/") if step]
    database = steps[-2].removesuffix(".db") if len(steps) > 1 else "default"
    return [database, steps[-1]] if steps else [database, "table"]


def _iceberg_name(spark: SparkSession, location: str) -> str | None:
    """Return the name under which a catalog of the session has the Iceberg table of a folder."""
    setting = re.compile(r"spark\.sql\.catalog\.(\w+)")
    catalogs: list[str] = []
    with suppress(Exception):  # without settings there is no name to suggest
        rows = spark.sql("SET").collect()
        settings = {key: match[1] for key, _ in rows if (match := setting.fullmatch(key))}
        catalogs = [settings[key] for key, value in rows if key in settings and "iceberg" in value]
    for catalog in catalogs:
        path = [catalog, *_last_steps(location)]
        with suppress(Exception):  # a catalog that cannot be reached
            about = spark.sql(f"DESCRIBE TABLE EXTENDED {'.'.join(map(quote, path))}").collect()
            if any(row[0] == "Location" and is_same_folder(row[1], location) for row in about):
                return table_name(path)
    return None


def lacks_delta(name: str) -> TableFormatError:
    """Return the error for a Delta table in a session without Delta Lake; it says how to add it."""
    import pyspark

    line = ".".join(pyspark.__version__.split(".")[:2])
    package = DELTA_PACKAGES.get(line)
    if package is None:
        cure = (
            f"Delta Lake's package for Spark {line} is not known here; use one of Spark"
            f" {', '.join(DELTA_PACKAGES)}, or add a package io.delta:delta-spark that fits Spark {line}"
        )
    else:
        settings = " ".join(f"--conf {setting}" for setting in _DELTA_SETTINGS)
        cure = f"start it with PYSPARK_SUBMIT_ARGS='--packages {package} {settings} pyspark-shell'"
    return TableFormatError(
        f"{hide_secrets(name)!r} is a Delta table, and this Spark session has no Delta Lake: {cure}"
    )


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
