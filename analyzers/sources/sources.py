"""Data sources: the source protocol, listings of files, and DataFrames as sources.

A source lists its partitions without reading rows. Each partition has a fingerprint of its files, so that
runs detect changes. DataFrames, views, and formats whose files cannot be listed have no fingerprint.

The first half finds the Delta, Hudi or Iceberg table that a folder belongs to. Only the table's log decides
which files in such a folder belong to the table. So the folder is never read as plain files: it is read by
its log, or an error shows the line to write instead.

The last part computes fingerprints of DataFrames from their input files and Spark plan, without reading
data. A frame has a fingerprint if it reads only files: every leaf of Spark's physical plan must be a file
scan, and every file must exist.
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
from urllib.parse import unquote
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
from tidegauge.analyzers.scan.capabilities import session_settings
from tidegauge.analyzers.scan.grouping import filter_partitions
from tidegauge.analyzers.scan.scan import scan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DELTA, HUDI, ICEBERG = "delta", "hudi", "iceberg"
TABLE_FORMATS = {DELTA: "Delta", HUDI: "Hudi", ICEBERG: "Iceberg"}
"""Table formats: the name in Spark's reader, and the display name."""

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
_GLOB_CHARACTERS = re.compile(r"[*?\[{]")


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
        """The table's kind in words, such as ``Delta table``."""
        return f"{TABLE_FORMATS[self.format]} table"


def table_in(root: str, files: Iterable[str]) -> TableFolder | None:
    """Return the topmost table of a table format in a folder; None if there is none.

    Parameters
    ----------
    root : str
        The folder.
    files : iterable of str
        The relative paths of all files in the folder, including hidden files.

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
    # A table can have metadata of several formats, for example with Delta's UniForm.
    _, format, folder = min(tables)
    return TableFolder(format, posixpath.join(root, folder) if folder else root)


def table_around(spark: SparkSession, location: str) -> TableFolder | None:
    """Return the table of a table format at a location, or around it; None if there is none.

    Parameters
    ----------
    spark : SparkSession
        Lists the files if Arrow cannot access them.
    location : str
        A path, a URI or a Hadoop glob pattern.
    """
    location = absolute(location).rstrip("/") or "/"
    if local_path(location) is not None and not _GLOB_CHARACTERS.search(location):
        location = os.path.realpath(str(local_path(location)))
    try:
        if _GLOB_CHARACTERS.search(location):
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
            return None  # access to a folder does not imply access to its parents
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
    """Search with Spark: the location, then its parents as long as the subfolders can belong to a table."""
    reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    for folder in _with_parents(location):
        try:
            logs = reader.load(f"{folder}/{{{','.join(_LOG_FOLDERS)}}}").select("path").collect()
        except Exception as error:
            if condition_of(error) != "PATH_NOT_FOUND":
                if folder != location:
                    return None  # access to a folder does not imply access to its parents
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
        if not above or not ("=" in step or step == "data" or _GLOB_CHARACTERS.search(step)):
            return None
    return None


def require_plain_folder(
    spark: SparkSession, name: str, files: Iterable[str] | None = None
) -> None:
    """Raise `TableFormatError` if a folder is a table of a table format, is inside one, or contains one.

    Parameters
    ----------
    spark : SparkSession
        The Spark session.
    name : str
        The folder, as the user wrote it.
    files : iterable of str, optional
        The paths of all files in it, relative to its data folder. If given, only tables inside the folder
        count, not a table around it.
    """
    table = (
        table_around(spark, name) if files is None else table_in(data_folder(absolute(name)), files)
    )
    if table is not None:
        raise refusal(spark, table, name)


def refusal(spark: SparkSession, table: TableFolder, name: str) -> TableFormatError:
    """Return the error for a folder that cannot be read as plain files; it shows the line to write.

    Parameters
    ----------
    spark : SparkSession
        Searched for the catalog name of an Iceberg table.
    table : TableFolder
        The table that the folder belongs to or contains.
    name : str
        The requested folder, as the user wrote it.
    """
    requested_path, table_path = _path(name), _path(table.location)
    if requested_path == table_path:
        relation = "is"
    elif table_path.startswith(f"{requested_path.rstrip('/')}/"):
        relation = "contains"
    else:
        relation = "is inside"
    where = "" if relation == "is" else f" {hide_secrets(table.location)!r}"
    article = "an" if table.format == ICEBERG else "a"
    head = f"{hide_secrets(name)!r} {relation} {article if relation == 'is' else 'the'} {table.kind}{where}"
    return TableFormatError(
        f"{head}, and only the table's log decides which files count; {_advice(spark, table, relation)}"
    )


def is_same_folder(a: str, b: str) -> bool:
    """Return whether two locations are the same folder, in whatever form they are written."""
    return _path(a) == _path(b)


def _path(location: str) -> str:
    """Return the form in which locations are compared; symbolic links of local folders are resolved."""
    local = local_path(location)
    return os.path.realpath(local) if local is not None else comparable(location).rstrip("/")


def _advice(spark: SparkSession, table: TableFolder, relation: str) -> str:
    location = hide_secrets(table.location)
    by_path = f"`table: {table.format}.{quote(location)}`"
    match table.format:
        case "delta":
            part = ", and select partitions with `partitions=`" if relation == "is inside" else ""
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
                f"write its name in the catalog, such as `table: {guess}`; if it is not in a catalog, run"
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
    """Return the Iceberg table's name in one of the session's catalogs; None if no catalog has it."""
    setting = re.compile(r"spark\.sql\.catalog\.(\w+)")
    catalogs: list[str] = []
    with suppress(Exception):  # without settings there is no name to suggest
        rows = spark.sql("SET").collect()
        settings = {key: match[1] for key, _ in rows if (match := setting.fullmatch(key))}
        catalogs = [settings[key] for key, value in rows if key in settings and "iceberg" in value]
    for catalog in catalogs:
        path = [catalog, *_last_steps(location)]
        with suppress(Exception):  # the catalog cannot be reached
            description = spark.sql(
                f"DESCRIBE TABLE EXTENDED {'.'.join(map(quote, path))}"
            ).collect()
            if any(
                row[0] == "Location" and is_same_folder(row[1], location) for row in description
            ):
                return table_name(path)
    return None


def lacks_delta(name: str) -> TableFormatError:
    """Return the error for a Delta table in a session without Delta Lake; it explains how to add it."""
    import pyspark

    line = ".".join(pyspark.__version__.split(".")[:2])
    package = DELTA_PACKAGES.get(line)
    if package is None:
        cure = (
            f"tidegauge knows no Delta Lake package for Spark {line}; use Spark"
            f" {', '.join(DELTA_PACKAGES)}, or add a package io.delta:delta-spark that fits Spark {line}"
        )
    else:
        settings = " ".join(f"--conf {setting}" for setting in _DELTA_SETTINGS)
        cure = f"start it with PYSPARK_SUBMIT_ARGS='--packages {package} {settings} pyspark-shell'"
    return TableFormatError(
        f"{hide_secrets(name)!r} is a Delta table, and this Spark session has no Delta Lake: {cure}"
    )


FILE_FORMATS = frozenset({"parquet", "orc", "csv", "json", "text", "avro", "hive"})
"""Providers whose partitions are folders of files, so that changes are visible in the files."""


@dataclass(frozen=True, slots=True)
class ListedPartition:
    """The current state of a partition in the source.

    Attributes
    ----------
    partition : Partition
        The partition.
    fingerprint : str or None
        Equal for equal files; None if the source has no files to inspect.
    arrived_at : datetime or None
        Modification time of the partition's newest file, in UTC.
    size : int
        Total size of the partition's files in bytes; 0 if the source has no files to inspect.
    """

    partition: Partition
    fingerprint: str | None = None
    arrived_at: datetime | None = None
    size: int = 0


class Source(Protocol):
    """Protocol of a partitioned data source.

    Sources can have further attributes and methods:

    - ``version``: for tables with versions, the last listed version as a string. Runs store it as the tag
      ``source_version``.
    - ``only_rewritten(since)``: takes names of partitions with the versions in which they were measured, and
      returns the partitions whose rows have not changed since.
    - ``lists_all``: False if the source lists only a part of its table, so that partitions that are not
      listed do not count as gone.
    - ``reads_exactly``: True if ``read`` never returns rows of other partitions, so that a single partition
      can be aggregated as a whole.
    - ``read_keys(partitions)``: if partitions have their own columns, returns a key for each partition.
      Partitions with equal keys have the same columns and are read together.
    - ``parquet_files(partitions)``: returns a `ParquetPartition` or `TablePartition` for each partition whose rows
      are those of Parquet files, read with Spark's default settings. They can be measured without Spark.
    - ``time_format``: the format of the partition time, if the names of the keys do not show it.
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
        """Read the rows of the given partitions, possibly with rows of other partitions; None reads all."""

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
        Size in bytes.
    modified : int
        Time of the last change, in milliseconds since 1970.
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
    """List the data files under a folder: with Arrow on the driver if possible, otherwise with Spark.

    A pattern lists the files of all folders that it matches; a file lists itself. Paths are relative to the
    `data_folder`. Files and folders whose names begin with a dot or an underscore are skipped, as in Spark;
    folders of the form ``_key=value`` are included. A folder that does not exist has no files.
    """
    return _visible(_list_all(spark, root))


def list_plain_files(spark: SparkSession, root: str) -> list[FileInfo]:
    """List the data files under a folder without a table of a table format; see `list_files`.

    Raises
    ------
    TableFormatError
        If the folder contains such a table, since only its log decides which files count.
    """
    files = _list_all(spark, root)
    require_plain_folder(spark, root, (file.path for file in files))
    return _visible(files)


def _list_all(spark: SparkSession, root: str) -> list[FileInfo]:
    """List all files under a folder, including hidden files if Arrow lists them."""
    from pyarrow import ArrowException

    root = absolute(root)
    try:
        return _list_by_arrow(root)
    except (ArrowException, OSError):  # missing, or not accessible to Arrow: ask Spark
        return _list_by_spark(spark, root)


def _visible(files: Iterable[FileInfo]) -> list[FileInfo]:
    return [f for f in files if not any(map(is_hidden, f.path.split("/")))]


def is_hidden(step: str) -> bool:
    """Return whether Spark ignores files and folders of a name."""
    is_marked = step.startswith(".") or (step.startswith("_") and "=" not in step)
    return is_marked or step.endswith("._COPYING_")  # Hadoop's uploads in progress


def _relative_path(folder: str, path: str) -> str:
    return path.removeprefix(folder.rstrip("/") + "/")


def _list_by_arrow(root: str) -> list[FileInfo]:
    from pyarrow import fs

    system, path = file_system(root)
    root_info = system.get_file_info(path)
    if root_info.type == fs.FileType.File:
        infos, folder = [root_info], path.rpartition("/")[0]
    else:
        infos, folder = system.get_file_info(fs.FileSelector(path, recursive=True)), path
    return [
        FileInfo(_relative_path(folder, info.path), info.size, info.mtime_ns // 1_000_000)
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
    return [
        FileInfo(_relative_path(folder, plain_path(r.path)), r.length, r.modified) for r in rows
    ]


def to_listed(files: Mapping[Partition, list[FileInfo]]) -> list[ListedPartition]:
    """Return the listed partitions for partitions and their files."""
    return [
        ListedPartition(
            partition,
            fingerprint(partition_files),
            _newest(partition_files),
            sum(f.size for f in partition_files),
        )
        for partition, partition_files in files.items()
    ]


def _newest(files: Collection[FileInfo]) -> datetime | None:
    if not files:
        return None
    return datetime.fromtimestamp(max(f.modified for f in files) / 1000, UTC)


def check_keys(
    requested: Sequence[str] | None,
    available: Sequence[str],
    subject: str,
    available_label: str = "it is partitioned by",
) -> tuple[str, ...]:
    """Return the requested partition columns as the data spells them; all columns for None.

    Parameters
    ----------
    requested : sequence of str or None
        Names of columns, in any case.
    available : sequence of str
        The partition columns of the data.
    subject : str
        Name of the data, for the error.
    available_label : str
        Introduces the available columns in the error.

    Raises
    ------
    PartitionColumnError
        If one of them is not a partition column.
    """
    if requested is None:
        return tuple(available)
    by_name = {name.casefold(): name for name in available}
    for name in requested:
        if name.casefold() not in by_name:
            names = ", ".join(map(repr, available))
            partitioning = f"{available_label} {names}" if names else "it is not partitioned"
            hint = did_you_mean(name, available)
            msg = f"{subject} has no partition column {name!r}: {partitioning}{hint}"
            raise PartitionColumnError(msg)
    return tuple(by_name[name.casefold()] for name in requested)


@dataclass
class FrameSource:
    """A DataFrame, partitioned by some of its columns or treated as a single partition.

    A DataFrame has no files, so changes cannot be detected. A single partition counts as new content each
    time it is listed. If there are several partitions, only unmeasured partitions are new.

    Attributes
    ----------
    data : DataFrame
        The data.
    keys : tuple of str
        The partition columns.
    name : str or None
        The view that the data was read from, if any.
    partition : Partition or None
        The partition of the whole data, if no columns identify it.
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
                    f"the data has a column {key!r} that identifies its partitions; omit partition=,"
                    f" and give the suite partition_by=[{key!r}]"
                )
                raise PartitionColumnError(msg)
        self.keys = self.partition.keys
        values = zip(self.keys, self.partition.values, strict=True)
        key_columns = (f"{literal(value)} AS {quote(key)}" for key, value in values)
        self.data = self.data.selectExpr("*", *key_columns)

    @property
    def lists_all(self) -> bool:
        """True if partitions that are not listed are gone; False for data that can be a part of a table."""
        return self.name is not None

    def list_partitions(self) -> list[ListedPartition]:
        """List the distinct values of the partition columns, in one pass over these columns."""
        if self.partition is not None or not self.keys:
            # Without files, unchanged data cannot be recognized.
            unique_fingerprint = f"{UNTRACKED_PREFIX}{uuid4().hex}"
            return [ListedPartition(self.partition or Partition(), unique_fingerprint)]
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
    """Return a fingerprint of all partitions of a source; None if it has no files, such as a view."""
    if isinstance(source, FrameSource):
        return None
    files = [e.fingerprint for e in source.list_partitions() if e.fingerprint is not None]
    return key_of(canonical_json(files)) if files else None


_UNTRUNCATED_SETTINGS = {
    "spark.sql.debug.maxToStringFields": "100000000",
    "spark.sql.maxMetadataStringLength": "100000000",
}
"""Settings that make Spark print plans without truncation."""

_RESULT_SETTINGS = (
    "spark.sql.session.timeZone",
    "spark.sql.ansi.enabled",
    "spark.sql.caseSensitive",
)
"""Session settings that change the result of the same plan, or whether it fails."""

_COLUMN_ID = re.compile(r"#\d+L?")
"""A column id as plans print it; string literals and names can contain lookalikes."""
_NUMBER_ARGUMENT = re.compile(r"-?\d[\d.]*")
_PLAN_ID = re.compile(r"\[?plan_id=\d+\]?")
_VIEW_NAME = re.compile(r"^[ :+-]*SubqueryAlias (_pyspark_[0-9a-f]{32})$", re.MULTILINE)
"""The random view name that PySpark gives a frame referenced in SQL."""
_FILE_SCAN = re.compile(r"FileScan (\w+)")
_SELF_DESCRIBING_FORMATS = frozenset({"parquet", "orc", "avro"})
"""Self-describing formats, whose content does not depend on reader options."""
_PLAN_NODE = re.compile(r"([\s:+-]*)(?:\*\(\d+\) )?(.*)")
"""An operator's tree indentation, its optional code generation marker, and the operator."""
_TRANSPARENT_OPERATORS = frozenset(
    {
        "AQEShuffleRead",
        "AdaptiveSparkPlan",
        "BroadcastExchange",
        "BroadcastHashJoin",
        "BroadcastNestedLoopJoin",
        "CartesianProduct",
        "Coalesce",
        "CollectLimit",
        "ColumnarToRow",
        "Exchange",
        "Expand",
        "FileScan",
        "Filter",
        "Generate",
        "GlobalLimit",
        "HashAggregate",
        "LocalLimit",
        "ObjectHashAggregate",
        "Project",
        "RowToColumnar",
        "Sample",
        "ShuffledHashJoin",
        "Sort",
        "SortAggregate",
        "SortMergeJoin",
        "TakeOrderedAndProject",
        "Union",
        "Window",
        "WindowGroupLimit",
    }
)
"""Plan operators whose printed form is complete. Operators that run user code are not included."""


def frame_fingerprint(data: DataFrame, *, options_known: bool = False) -> str | None:
    """Return a fingerprint of a frame, equal for the same computation over the same files; runs no job.

    Files are identified by path, size and modification time, and the computation by Spark's plan. The
    current date and time are constants in the plan, so a frame that uses them gets a new fingerprint when
    they change.

    The plan shows neither the reader options of text formats (CSV, JSON, text) nor the code of Python
    functions. It prints a string or a name such as ``order#17`` like a column, and strings without
    quotes, so that ``IN ('a, b')`` and ``IN ('a', 'b')`` look the same. Frames with any of these, or with
    higher-order functions (lambdas), get a fingerprint that is valid only within one Spark session.

    The session's time zone, ANSI mode and case sensitivity are part of the fingerprint.

    Parameters
    ----------
    data : DataFrame
        The frame.
    options_known : bool
        True if the caller tracks the reader options by other means.

    Returns
    -------
    str or None
        None if a part of the frame is not read from files (it is in memory, from JDBC, cached or
        streaming), if a file does not exist or its file system is not accessible, or if the plan has a
        subquery. Hive SerDe tables (``STORED AS TEXTFILE``) and tables with a log do not count as files.

    Examples
    --------
    >>> import tempfile, tidegauge as tg
    >>> spark, folder = tg.spark_session(), f"{tempfile.gettempdir()}/numbers"  # doctest: +SKIP
    >>> spark.range(3).write.mode("overwrite").parquet(folder)  # doctest: +SKIP
    >>> once, again = (tg.frame_fingerprint(spark.read.parquet(folder)) for _ in range(2))  # doctest: +SKIP
    >>> once == again, tg.frame_fingerprint(spark.range(3))  # doctest: +SKIP
    (True, None)
    """
    check_frame(data, streaming=True)
    if data.isStreaming:
        return None
    plan = _physical_plan(data)
    formats = _formats(plan)
    if formats is None:
        return None
    files = _files(data)
    if not files:
        return None
    spark = data.sparkSession
    identity = [
        fingerprint(files),
        _renumber_ids(_PLAN_ID.sub("", "\n".join(plan))),
        [spark.conf.get(s) for s in _RESULT_SETTINGS],
    ]
    steps = {_operator_name(line) for line in plan}
    analyzed = _analyzed_plan(data)
    is_ambiguous = analyzed is None or _has_ambiguous_strings(analyzed)
    if is_ambiguous or not (
        steps <= _TRANSPARENT_OPERATORS and (options_known or formats <= _SELF_DESCRIBING_FORMATS)
    ):
        identity.append(f"{data.semanticHash()}/{_session_id(spark)}")
    return "frame/2:" + key_of(canonical_json([*identity, analyzed]))


def _session_id(spark: SparkSession) -> str:
    """Return the id of the Spark application."""
    return str(spark.conf.get("spark.app.id", ""))


def _physical_plan(data: DataFrame) -> list[str]:
    """Return the lines of Spark's physical plan."""
    plan = _explained(data, "EXPLAIN SELECT * FROM {data}")
    return [line for line in plan.splitlines() if line.strip() and not line.startswith("==")]


def _explained(data: DataFrame, query: str) -> str:
    """Run an EXPLAIN query and return the untruncated plan text."""
    spark = data.sparkSession
    with session_settings(spark, _UNTRUNCATED_SETTINGS):
        return str(spark.sql(query, data=data).collect()[0][0])


def _analyzed_plan(data: DataFrame) -> str | None:
    """Return the analyzed logical plan with column ids counted from 0; None if ids are ambiguous.

    If a frame occurs twice in a query, Spark assigns new ids to the second occurrence, while strings and
    names stay the same. So a string that looks like an id, but is the same in both, is not an id.
    """
    explained = _explained(
        data, "EXPLAIN EXTENDED SELECT * FROM {data} UNION ALL SELECT * FROM {data}"
    )
    _, heading, after_heading = explained.partition("== Analyzed Logical Plan ==\n")
    body = after_heading.partition("\n== Optimized Logical Plan ==")[0].rstrip("\n").split("\n")[2:]
    middle = next((i for i, line in enumerate(body) if line.startswith("+- ")), None)
    if not heading or middle is None:
        return None
    for lines, first_indent, indent in (
        (body[:middle], ":- ", ":  "),
        (body[middle:], "+- ", "   "),
    ):
        if not lines or not lines[0].startswith(first_indent):
            return None
        if not all(line.startswith(indent) for line in lines[1:]):
            return None
    first_plan, second_plan = (
        "\n".join(line[3:] for line in lines) for lines in (body[:middle], body[middle:])
    )
    ids = zip(_COLUMN_ID.findall(first_plan), _COLUMN_ID.findall(second_plan), strict=False)
    if _COLUMN_ID.split(first_plan) != _COLUMN_ID.split(second_plan) or any(a == b for a, b in ids):
        return None
    for i, view in enumerate(dict.fromkeys(_VIEW_NAME.findall(first_plan))):
        first_plan = first_plan.replace(view, f"view {i}")
    return _renumber_ids(first_plan)


def _has_ambiguous_strings(plan: str) -> bool:
    """Return whether two adjacent arguments could be one string, as strings print without quotes.

    Examples
    --------
    >>> [_has_ambiguous_strings(p) for p in ("a#0 IN (x,y)", "a#0 IN (1,2)", "(a#0 = x)", "concat(a#0, b, 1)")]
    [True, False, False, True]
    """
    # Kind of the last argument in each open parenthesis: "text", "number", or "" for other arguments.
    last_kinds = [""]
    argument, is_complete = "", True
    for mark in plan:
        if mark not in "(),":
            argument += mark
            continue
        kind = _argument_kind(argument.strip()) if is_complete and mark != "(" else ""
        if len(last_kinds) > 1 and {kind, last_kinds[-1]} in ({"text"}, {"text", "number"}):
            return True
        last_kinds[-1] = kind
        if mark == "(":
            last_kinds.append("")
        elif mark == ")" and len(last_kinds) > 1:
            last_kinds.pop()
        argument, is_complete = "", mark != ")"
    return False


def _argument_kind(argument: str) -> str:
    if not argument or "#" in argument:
        return ""
    return "number" if _NUMBER_ARGUMENT.fullmatch(argument) else "text"


def _formats(plan: Sequence[str]) -> frozenset[str] | None:
    """Return the file formats that a plan scans; None if it reads anything other than files."""
    formats = set()
    steps = [_PLAN_NODE.fullmatch(line) for line in plan]
    tree = [(len(step[1]), step[2]) for step in steps if step is not None]
    for i, (depth, node) in enumerate(tree):
        if node.startswith("InMemory") or "subquery" in node.casefold():
            return None
        if i + 1 == len(tree) or tree[i + 1][0] <= depth:
            scan = _FILE_SCAN.match(node)
            if scan is None:
                return None
            formats.add(scan[1])
    return frozenset(formats)


def _operator_name(line: str) -> str:
    """Return the operator name of a plan line."""
    match = _PLAN_NODE.fullmatch(line)
    return re.split(r"\W", match[2], maxsplit=1)[0] if match else line


def _renumber_ids(plan: str) -> str:
    """Renumber the column ids of a plan from 0, since they differ on each run."""
    ids: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        return ids.setdefault(match[0], f"#{len(ids)}")

    return _COLUMN_ID.sub(number, plan)


def _files(data: DataFrame) -> list[FileInfo] | None:
    """Return a frame's current input files; None if a file is missing or not accessible."""
    paths = [unquote(uri) for uri in data.inputFiles()]
    systems: dict[str, list[str]] = {}
    for path in sorted(set(paths)):
        systems.setdefault(re.split(r"(?<=[^/:])/(?!/)", path, maxsplit=1)[0], []).append(path)
    infos_by_path = []
    for system_paths in systems.values():
        try:
            system, inner = file_system(system_paths[0])
            if not system_paths[0].endswith(inner):
                return None
            prefix_length = len(system_paths[0]) - len(inner)
            infos = system.get_file_info([path[prefix_length:] for path in system_paths])
        except (OSError, ValueError):
            return None
        for path, info in zip(system_paths, infos, strict=True):
            if not info.is_file:
                return None
            infos_by_path.append(FileInfo(path, info.size, info.mtime_ns // 1_000_000))
    return infos_by_path
