"""Find tables below a folder or in Spark's catalog, and read what footers and logs state about their partitions.

`find_tables` lists a folder once, without Spark, and assigns the files to tables. A table is a folder that directly contains data
files or subfolders ``key=value``. Its metadata are read only for the partitions that a run measures.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from tidegauge.analyzers.columnar.footers import (
    FOOTER_THREADS,
    FileColumn,
    Footer,
    PartitionFooters,
    columns_by_arrow,
    file_columns,
    merged_footers,
    table_columns,
)
from tidegauge.analyzers.columnar.table_logs import (
    DataFile,
    TablePartition,
    TableSnapshot,
    TableVersion,
    read_delta,
    read_delta_history,
    read_iceberg,
    read_iceberg_history,
)
from tidegauge.analyzers.core.errors import NoSuchTableError, SourceError, describe, message_of
from tidegauge.analyzers.core.filesystems import (
    absolute,
    child,
    comparable,
    file_system,
    local_path,
)
from tidegauge.analyzers.core.formatting import hide_secrets, plural
from tidegauge.analyzers.core.partitions import Partition, TimeFormat, recognise_time
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.sql import table_name, table_parts, table_sql
from tidegauge.analyzers.sources.hive_table import describe_table
from tidegauge.analyzers.sources.path_source import newest_first
from tidegauge.analyzers.sources.sources import (
    DELTA,
    HUDI,
    ICEBERG,
    FileInfo,
    ListedPartition,
    is_hidden,
    table_in,
    to_listed,
)
from tidegauge.analyzers.sources.table_formats import listed_in_log

if TYPE_CHECKING:
    import pyarrow.parquet as pq
    from pyarrow import fs
    from pyspark.sql import SparkSession

VIEW = "view"
SNAPSHOT_KEY = "snapshot"
"""Partition key of unpartitioned tables: the day of their last change, in UTC."""
_PARQUET_ENDINGS = frozenset({"", "parquet", "parq", "pq"})
"""Endings of Parquet files; Hive and Trino write files without one."""
_OTHER_ENDINGS = frozenset({"avro", "csv", "json", "jsonl", "orc", "tsv", "txt"})
"""Endings of data files that have no footers to read."""
_COMPRESSED = frozenset({".gz", ".zst", ".bz2", ".snappy", ".lz4"})
_GLOB = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class LakeTable:
    """A table below a folder.

    Attributes
    ----------
    path : str
        Path relative to the searched folder; the folder's own name if the folder is the table.
    location : str
        The table's folder, as an absolute path or URI.
    format : str
        ``parquet``, a table format such as ``delta``, or the ending of other data files.
    files : tuple of FileInfo
        The data files, with paths relative to the table's folder; the files of the log of a Delta or Iceberg table.
    problem : str
        Why the table cannot be read; empty if nothing is known against it.
    catalog_name : str
        Full name in Spark's catalog; empty for a folder.
    metadata_location : str
        The current metadata file of an Iceberg table of a catalog; empty for a folder.
    properties : mapping of str to str
        The properties of a table of the metastore.
    """

    path: str
    location: str
    format: str = "parquet"
    files: tuple[FileInfo, ...] = field(default=(), repr=False)
    problem: str = ""
    catalog_name: str = ""
    metadata_location: str = ""
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def source(self) -> str:
        """The name under which a suite would measure the table: its name in the catalog, or its location."""
        return self.catalog_name or self.location

    @property
    def name(self) -> str:
        """The name of the table's dataset: its path with dots, without the ``.db`` of Hive's databases.

        Examples
        --------
        >>> LakeTable("sales.db/orders", "/lake/sales.db/orders").name
        'sales.orders'
        """
        *folders, table = self.path.split("/")
        return ".".join([*(folder.removesuffix(".db") for folder in folders), table])

    @property
    def has_partition_folders(self) -> bool:
        """Whether data files are in folders ``key=value``."""
        return any("=" in posixpath.dirname(file.path) for file in self.files)

    @property
    def unsupported(self) -> str:
        """Why tables of this format have no metadata to read; empty if they have."""
        if self.format == VIEW:
            return "it is a view, which has no metadata to read; measure it with a suite"
        if self.format == HUDI:
            return "Hudi's timeline is not read; measure it with a suite"
        if self.format not in {"parquet", DELTA, ICEBERG}:
            return f"its format is {self.format}, which states neither rows nor nulls; measure it with a suite"
        return ""


def find_tables(pattern: str) -> list[LakeTable]:
    """Find the tables below a folder, in order of their paths.

    Hidden files and folders, whose names begin with a dot or an underscore, are skipped as in Spark. Folders that
    cannot be listed are returned as tables with a problem.

    Parameters
    ----------
    pattern : str
        A folder, as a path or URI, or a pattern such as ``/lake/*/orders``. A pattern also matches all tables below
        the folders that match.

    Raises
    ------
    NoSuchTableError
        If the folder does not exist, or no table matches a pattern.
    SourceError
        If the folder cannot be listed at all.
    """
    root, steps = _split_pattern(pattern)
    system, inner = file_system(root)
    if not _is_folder(system, inner, root):
        msg = f"no folder {hide_secrets(root)!r}"
        raise NoSuchTableError(msg)
    files, denied = _list_below(system, inner)
    tables = _tables_of(root, files)
    tables += [_denied(root, path, reason) for path, reason in denied.items()]
    own_name = posixpath.basename(root) or root
    tables = [t if t.path else replace(t, path=own_name) for t in tables]
    if steps:
        tables = [table for table in tables if _matches(table.path, steps)]
    if steps and not tables:
        msg = f"no table matches {hide_secrets(pattern)!r}"
        raise NoSuchTableError(msg)
    return sorted(tables, key=lambda table: table.path)


@dataclass(frozen=True)
class CatalogPattern:
    """A pattern of tables in one of Spark's catalogs.

    Attributes
    ----------
    catalog : tuple of str
        The catalog, and the databases above the database if they are nested.
    database, table : str
        Patterns of names.
    """

    catalog: tuple[str, ...]
    database: str
    table: str

    @classmethod
    def parse(cls, pattern: str, spark: SparkSession) -> CatalogPattern:
        """Complete a pattern such as ``warehouse.*`` with the current catalog, and ``orders*`` with the database."""
        *above, table = pattern.split(".")
        database = above.pop() if above else str(spark.catalog.currentDatabase())
        return cls(tuple(above) or (str(spark.catalog.currentCatalog()),), database, table)

    def covers(self, source: str) -> bool:
        """Return whether the full name of a table matches.

        Examples
        --------
        >>> CatalogPattern(("lake",), "sales*", "*").covers("lake.`sales.eu`.orders")
        True
        >>> CatalogPattern(("lake",), "sales", "*").covers("other.sales.orders")
        False
        """
        *catalog, database, table = ["", "", *table_parts(source)]
        return (
            catalog[2:] == list(self.catalog)
            and fnmatchcase(database, self.database)
            and fnmatchcase(table, self.table)
        )


def find_catalog_tables(spark: SparkSession, pattern: CatalogPattern) -> list[LakeTable]:
    """Find the tables and views of Spark's catalog that match a pattern, in order of their names.

    Tables are listed and described by SQL. The files of Hive and Delta tables are listed by Arrow. Of a Hive table,
    only the partitions below its folder count that the metastore has. A database that cannot be listed is returned as a
    table with a problem.

    Parameters
    ----------
    spark : SparkSession
        The session whose catalog is searched.
    pattern : CatalogPattern
        Patterns of databases and tables.

    Raises
    ------
    NoSuchTableError
        If no database matches.
    """
    rows = spark.sql(f"SHOW NAMESPACES IN {table_sql(table_name(pattern.catalog))}").collect()
    databases = [str(row[0]) for row in rows if fnmatchcase(str(row[0]), pattern.database)]
    if not databases:
        msg = f"no database of catalog {table_name(pattern.catalog)} matches {pattern.database!r}"
        raise NoSuchTableError(msg)
    return [
        table
        for database in sorted(databases)
        for table in _tables_of_database(spark, (*pattern.catalog, database), pattern.table)
    ]


def _tables_of_database(
    spark: SparkSession, database: Sequence[str], pattern: str
) -> Iterator[LakeTable]:
    """Yield the tables and views of a database whose names match a pattern."""
    sql = table_sql(table_name(database))
    try:
        rows = spark.sql(f"SHOW TABLES IN {sql}").collect()
    except Exception as error:  # noqa: BLE001 - catalogs raise their own errors; the other databases are watched
        problem = f"cannot list its tables: {message_of(error)}"
        yield LakeTable(database[-1], "", problem=problem, catalog_name=table_name(database))
        return
    try:
        views = {str(row["viewName"]) for row in spark.sql(f"SHOW VIEWS IN {sql}").collect()}
    except Exception:  # noqa: BLE001 - catalogs without views raise their own errors
        views = set()
    for row in sorted(rows, key=lambda row: str(row["tableName"])):
        name = str(row["tableName"])
        if row["isTemporary"] or not fnmatchcase(name, pattern):
            continue
        full_name = table_name([*database, name])
        table = LakeTable(f"{database[-1]}/{name}", "", VIEW, catalog_name=full_name)
        yield table if name in views else _described(spark, table)


def _described(spark: SparkSession, table: LakeTable) -> LakeTable:
    """Return a table of the catalog with its format, location and files, or with the reason why they are unknown."""
    try:
        sql = table_sql(table.catalog_name)
        description = describe_table(spark, sql)
        serde = description.details.get("serde library", "").casefold()
        format = description.provider
        format = "parquet" if format == "hive" and "parquet" in serde else format
        found = replace(
            table,
            format=format,
            location=description.location.rstrip("/"),
            properties=_properties(description.details.get("table properties", "")),
        )
        if found.unsupported:
            return found
        if format == ICEBERG:
            entries = spark.table(f"{sql}.`metadata_log_entries`").select("file").collect()
            newest = str(entries[-1][0])
            return replace(found, metadata_location=newest, files=(FileInfo(newest, 0, 0),))
        files, denied = _list_below(*file_system(found.location))
        if denied:
            reason = min(denied.values())
            return replace(found, problem=f"cannot list its files: {reason}")
        if format == DELTA:
            files = [f for f in files if f.path.startswith("_delta_log/")]
        else:
            files = [f for f in files if not any(map(is_hidden, f.path.split("/")))]
        if description.partition_types and format != DELTA:
            partitions = {str(r[0]) for r in spark.sql(f"SHOW PARTITIONS {sql}").collect()}
            files = [f for f in files if posixpath.dirname(f.path) in partitions]
        return replace(found, files=tuple(files), problem="" if files else "it has no files")
    except Exception as error:  # noqa: BLE001 - catalogs raise their own errors; the other tables are watched
        return replace(table, format="parquet", problem=message_of(error))


def _properties(described: str) -> dict[str, str]:
    """Parse properties of a table as Spark describes them.

    Examples
    --------
    >>> _properties("[tidegauge.owner=ann, tidegauge.tier=1]")
    {'tidegauge.owner': 'ann', 'tidegauge.tier': '1'}
    """
    pairs = (pair.partition("=") for pair in described.strip("[]").split(", "))
    return {key: value for key, equals, value in pairs if equals}


def _split_pattern(pattern: str) -> tuple[str, str]:
    """Return the folder above the first step with a wildcard, and the rest of the path.

    A folder whose name has such characters is not a pattern.
    """
    local = local_path(pattern)
    # One table has one location, however the folder is written; Hadoop drops steps ".." in the same way.
    location = absolute(pattern).rstrip("/") if local is None else os.path.normpath(local)
    match = _GLOB.search(location)
    if match is None or (local is not None and local.is_dir()):
        return location, ""
    root, _, _ = location[: match.start()].rpartition("/")
    return root or "/", location[len(root) :].strip("/")


def is_searched(pattern: str, location: str) -> bool:
    """Return whether `find_tables` would find a table at a location below the folders of a pattern.

    Examples
    --------
    >>> is_searched("/lake/*/orders", "/lake/eu/orders"), is_searched("/lake/eu", "/lake/us/orders")
    (True, False)
    """
    root, steps = _split_pattern(pattern)
    above, below = comparable(root).rstrip("/") + "/", comparable(location).rstrip("/")
    path = below.removeprefix(above)
    return below.startswith(above) and (not steps or _matches(path, steps))


def _matches(path: str, pattern: str) -> bool:
    """Return whether a path, or a folder above it, matches a pattern step by step.

    Examples
    --------
    >>> _matches("sales/orders", "s*"), _matches("sales/orders", "*/items"), _matches("a/b/c", "*/b")
    (True, False, True)
    """
    steps, patterns = path.split("/"), pattern.split("/")
    return len(steps) >= len(patterns) and all(map(fnmatchcase, steps, patterns))


def _is_folder(system: fs.FileSystem, path: str, root: str) -> bool:
    from pyarrow import fs

    try:
        return bool(system.get_file_info(path).type == fs.FileType.Directory)
    except OSError as error:
        msg = f"cannot list {hide_secrets(root)!r}: {describe(error)}"
        raise SourceError(msg) from error


def _list_below(system: fs.FileSystem, root: str) -> tuple[list[FileInfo], dict[str, str]]:
    """List all files below a folder, and the reasons of folders that cannot be listed, by relative path.

    A folder is listed with all its subfolders at once; only if that fails, and on a local disk, they are listed one
    by one. There, a link to a folder that contains it is skipped, which would be followed without end.
    """
    from pyarrow import fs

    files: list[FileInfo] = []
    denied: dict[str, str] = {}
    prefix = root.rstrip("/") + "/"
    is_local = isinstance(system, fs.LocalFileSystem)

    def add(infos: Sequence[fs.FileInfo], folder: str) -> list[str]:
        """Add the files, and return the folders."""
        named = [info for info in infos if _has_name(info)]
        if len(named) < len(infos):
            deny(folder, "the name of a file or folder in it is not UTF-8")
        files.extend(
            FileInfo(info.path.removeprefix(prefix), info.size, info.mtime_ns // 1_000_000)
            for info in named
            if info.type == fs.FileType.File
        )
        return [info.path for info in named if info.type == fs.FileType.Directory]

    def deny(folder: str, reason: str) -> None:
        denied[folder.removeprefix(prefix) if folder != root else ""] = reason

    folders = [root]
    while folders:
        folder = folders.pop()
        if not is_local:
            try:
                add(system.get_file_info(fs.FileSelector(folder, recursive=True)), folder)
                continue
            except OSError:
                pass  # list its subfolders one by one
        try:
            # A folder that was removed meanwhile has no files.
            infos = system.get_file_info(fs.FileSelector(folder, allow_not_found=folder != root))
        except OSError as error:
            deny(folder, _os_reason(error))
            continue
        inner = add(infos, folder)
        folders += [path for path in inner if not (is_local and _is_cycle(path))]
    return files, denied


def _has_name(info: fs.FileInfo) -> bool:
    """Return whether Arrow can decode the path of a file or folder."""
    try:
        return bool(info.path)
    except UnicodeDecodeError:
        return False


def _is_cycle(path: str) -> bool:
    """Return whether a local folder is a link to a folder that contains it."""
    if not Path(path).is_symlink():
        return False
    target = os.path.realpath(path)
    return any(os.path.realpath(folder) == target for folder in Path(path).parents)


def _os_reason(error: OSError) -> str:
    """Return the reason of a failed listing without the path, which the report names."""
    if isinstance(error, PermissionError) or "Permission denied" in str(error):
        return "permission denied"
    return re.sub(r"^\[Errno \d+\] ", "", hide_secrets(describe(error)))


def _denied(root: str, path: str, reason: str) -> LakeTable:
    steps = path.split("/") if path else []
    first = next((i for i, step in enumerate(steps) if "=" in step), len(steps))
    table = "/".join(steps[:first])
    where = "" if first == len(steps) else f" in {'/'.join(steps[first:])}"
    location = child(root, table) if table else root
    return LakeTable(table, location, problem=f"cannot list its files{where}: {reason}")


def _tables_of(root: str, files: Sequence[FileInfo]) -> list[LakeTable]:
    """Assign files to tables."""
    logs = _log_folders(root, files)
    files_by_folder: dict[str, list[FileInfo]] = {}
    for file in files:
        steps = file.path.split("/")
        if any(map(is_hidden, steps)) or any(
            "/".join(steps[:depth]) in logs for depth in range(len(steps))
        ):
            continue
        first = next((i for i, step in enumerate(steps[:-1]) if "=" in step), len(steps) - 1)
        folder = "/".join(steps[:first])
        inner = FileInfo("/".join(steps[first:]), file.size, file.modified)
        files_by_folder.setdefault(folder, []).append(inner)
    tables = [
        LakeTable(path, child(root, path) if path else root, format, tuple(log_files))
        for path, (format, log_files) in logs.items()
    ]
    for folder, folder_files in files_by_folder.items():
        format = _format_of(folder_files)
        if format is not None:
            location = child(root, folder) if folder else root
            tables.append(LakeTable(folder, location, format, tuple(folder_files)))
    return _without_outer(tables)


def _log_folders(root: str, files: Sequence[FileInfo]) -> dict[str, tuple[str, list[FileInfo]]]:
    """Return the formats and log files of the Delta, Hudi and Iceberg tables below a folder, by relative path."""
    candidates: dict[str, list[FileInfo]] = {}
    for file in files:
        steps = file.path.split("/")
        for depth, step in enumerate(steps[:-1]):
            if step in {"_delta_log", ".hoodie", "metadata"}:
                inner = FileInfo("/".join(steps[depth:]), file.size, file.modified)
                candidates.setdefault("/".join(steps[:depth]), []).append(inner)
                break
    logs: dict[str, tuple[str, list[FileInfo]]] = {}
    for folder, log_files in sorted(candidates.items()):
        table = table_in("", [file.path for file in log_files])
        if table is not None and not table.location:
            logs[folder] = table.format, log_files
    return logs


def _format_of(files: Sequence[FileInfo]) -> str | None:
    """Return the format of data files; None if there are none."""
    endings = {_ending(file.path) for file in files}
    if endings & _PARQUET_ENDINGS:
        return "parquet"
    return min(endings & _OTHER_ENDINGS, default=None)


def _ending(path: str) -> str:
    name = PurePosixPath(path)
    return (name.with_suffix("") if name.suffix in _COMPRESSED else name).suffix[1:].casefold()


def _without_outer(tables: Sequence[LakeTable]) -> list[LakeTable]:
    """Mark tables whose folder contains other tables: Spark would read the files of all of them."""
    paths = {table.path for table in tables}
    outer: dict[str, list[str]] = {}
    for path in paths:
        steps = path.split("/") if path else []
        for depth in range(len(steps)):
            above = "/".join(steps[:depth])
            if above in paths:
                outer.setdefault(above, []).append(path)
    return [
        replace(
            table,
            problem=f"its folder has data files, and also contains {plural(len(outer[table.path]), 'other table')}"
            f" such as {min(outer[table.path])}; move the files into a folder of their own",
        )
        if table.path in outer
        else table
        for table in tables
    ]


@dataclass(frozen=True)
class ParquetFolder:
    """A table of Parquet files as a source whose metadata are read without Spark.

    Partitions and fingerprints are the same as those of `PathSource`, so a suite continues the history. An
    unpartitioned table has one partition for each day on which it changed: ``snapshot=2026-01-31``.

    Attributes
    ----------
    table : LakeTable
        The table.
    """

    table: LakeTable

    def __post_init__(self) -> None:
        shapes = {partition.keys for partition in self._files}
        if len(shapes) > 1:
            names = " and ".join(sorted("/".join(keys) or "no partition" for keys in shapes))
            msg = f"its files are under different partition columns: {names}"
            raise SourceError(msg)
        for file in self.table.files:
            if "/" in file.path and not all("=" in step for step in file.path.split("/")[:-1]):
                msg = f"{file.path} is in a folder that is not named key=value; Spark may skip it"
                raise SourceError(msg)

    @property
    def name(self) -> str:
        """The name of the table, stored with the dataset."""
        return self.table.source

    @cached_property
    def _files(self) -> Mapping[Partition, list[FileInfo]]:
        files: dict[Partition, list[FileInfo]] = {}
        for file in self.table.files:
            files.setdefault(Partition.from_path(posixpath.dirname(file.path)), []).append(file)
        return files

    @cached_property
    def file_keys(self) -> tuple[str, ...]:
        """The partition columns in the names of the folders."""
        return next(iter(self._files)).keys

    @property
    def properties(self) -> Mapping[str, str]:
        """The table's properties; empty for a folder."""
        return self.table.properties

    @property
    def is_partitioned(self) -> bool:
        """Whether the table has partition columns."""
        return bool(self.file_keys)

    @property
    def keys(self) -> tuple[str, ...]:
        """The partition columns; the day of the last change for an unpartitioned table."""
        return self.file_keys or (SNAPSHOT_KEY,)

    @property
    def time_format(self) -> TimeFormat | None:
        """The format of the partition time; None if the keys have no time."""
        return recognise_time(self.keys) if self.file_keys else SNAPSHOT_FORMAT

    @property
    def lists_all(self) -> bool:
        """Whether partitions that are not listed are gone; only the last snapshot is listed."""
        return bool(self.file_keys)

    @cached_property
    def partitions(self) -> Mapping[Partition, list[FileInfo]]:
        """The files of each partition."""
        if self.file_keys:
            return self._files
        files = self._files[Partition()]
        newest = datetime.fromtimestamp(max(file.modified for file in files) / 1000, UTC)
        return {Partition((SNAPSHOT_KEY,), (f"{newest:%Y-%m-%d}",)): files}

    def file_count(self, partition: Partition) -> int:
        """Return the number of files of a partition."""
        return len(self.partitions[partition])

    def list_partitions(self) -> list[ListedPartition]:
        """List the partitions, as of the listing of the folder."""
        return to_listed(self.partitions)

    def describe(
        self, partitions: Collection[Partition]
    ) -> Iterator[tuple[Partition, PartitionFooters | SourceError]]:
        """Yield the metadata of each partition, or the error why footers do not determine them.

        A partition whose files all have zero bytes has no rows, and the columns of the partition before it.
        """
        files = {partition: newest_first(self.partitions[partition]) for partition in partitions}
        locations = [
            child(self.table.location, file.path) for listed in files.values() for file in listed
        ]
        footers = iter(_footers(locations))
        schema: Schema | None = None  # of the partition before
        for partition, listed in files.items():
            described = self._merged([next(footers) for _ in listed], schema)
            schema = described.schema if isinstance(described, PartitionFooters) else schema
            yield partition, described

    def _merged(
        self, footers: Sequence[Footer | SourceError], previous: Schema | None
    ) -> PartitionFooters | SourceError:
        readable = [footer for footer in footers if isinstance(footer, Footer)]
        if len(readable) < len(footers):
            return next(f for f in footers if isinstance(f, SourceError))
        if not readable and previous is not None:  # as in `PathSource`, it has no rows
            return PartitionFooters((), previous)
        if not readable:
            return SourceError("all of its files have zero bytes")
        merged = merged_footers(readable, self.file_keys)
        if merged is None:
            return SourceError(_conflict(readable, self.file_keys))
        return merged


SNAPSHOT_FORMAT = TimeFormat((SNAPSHOT_KEY,), ("%Y-%m-%d",))


@dataclass(frozen=True)
class LogFolder:
    """A Delta or Iceberg table as a source whose metadata are read from its log, without Spark.

    An unpartitioned table has one partition for each day on which it changed. Days before the last change have
    only the number of rows, as far back as the log reaches.

    Attributes
    ----------
    table : LakeTable
        The table.
    """

    table: LakeTable

    @property
    def name(self) -> str:
        """The name of the table, stored with the dataset."""
        return self.table.source

    @cached_property
    def _metadata_location(self) -> str:
        """The newest metadata file of an Iceberg table."""
        if self.table.metadata_location:
            return self.table.metadata_location
        files = [f.path for f in self.table.files if _METADATA_FILE.fullmatch(f.path)]
        newest = max(files, key=_metadata_version, default=None)
        if newest is None:
            msg = "its folder has no metadata file of Iceberg"
            raise SourceError(msg)
        return child(self.table.location, newest)

    @cached_property
    def snapshot(self) -> TableSnapshot:
        """The current version of the table."""
        if self.table.format == DELTA:
            return read_delta(self.table.location)
        return read_iceberg(self._metadata_location)

    @cached_property
    def _history(self) -> list[TableVersion]:
        if self.table.format == DELTA:
            return read_delta_history(self.table.location)
        return read_iceberg_history(self._metadata_location)

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties in the table's log."""
        return self.snapshot.properties

    @property
    def is_partitioned(self) -> bool:
        """Whether the table has partition columns."""
        return bool(self.snapshot.keys)

    @property
    def keys(self) -> tuple[str, ...]:
        """The partition columns; the day of the last change for an unpartitioned table."""
        return self.snapshot.keys or (SNAPSHOT_KEY,)

    @property
    def time_format(self) -> TimeFormat | None:
        """The format of the partition time; None if the keys have no time."""
        if not self.is_partitioned:
            return SNAPSHOT_FORMAT
        formats = ((key, f) for key in self.keys for end, f in _HIDDEN_FORMATS if key.endswith(end))
        hidden = next((TimeFormat((key,), (f,)) for key, f in formats), None)
        return recognise_time(self.keys) or (hidden if self.table.format == ICEBERG else None)

    @property
    def lists_all(self) -> bool:
        """Whether partitions that are not listed are gone; snapshots of an unpartitioned table are never gone."""
        return self.is_partitioned

    @cached_property
    def _files(self) -> Mapping[Partition, list[DataFile]]:
        """The data files of each partition; all files for an unpartitioned table."""
        if not self.is_partitioned:
            return {Partition(): list(self.snapshot.files)}
        files: dict[Partition, list[DataFile]] = {}
        for file in (*self.snapshot.files, *self.snapshot.delete_files):
            if file.partition is None or set(file.partition.keys) != set(self.keys):
                msg = "some of its files were written under other partition columns; rewrite them"
                raise SourceError(msg)
            files.setdefault(file.partition.only(self.keys), []).append(file)
        return files

    def file_count(self, partition: Partition) -> int:
        """Return the number of data files of a partition, or of the table after the last version of a day."""
        if self.is_partitioned:
            return len(self._files[partition])
        return self._newest_by_day[partition].total_files or 0

    def list_partitions(self) -> list[ListedPartition]:
        """List the partitions, as of the current version.

        A partition arrived with the last version that changed its rows. Compaction does not count.
        """
        if not self.is_partitioned:
            return [self._listed_version(version) for version in self._newest_by_day.values()]
        arrivals: dict[Partition | None, datetime] = {}
        for version in self._history:
            if not version.is_rewrite:
                arrivals |= dict.fromkeys(version.changes, version.time)
        listed = (
            listed_in_log(self.table.format, partition, files)
            for partition, files in self._files.items()
        )
        return [
            replace(entry, arrived_at=arrivals.get(entry.partition, entry.arrived_at))
            for entry in listed
        ]

    @cached_property
    def _newest_by_day(self) -> Mapping[Partition, TableVersion]:
        """The last version of each day; of the current version only if its rows are not known."""
        newest = {}
        for version in self._history:
            if not version.is_rewrite or version.id == self.snapshot.id:
                newest[Partition((SNAPSHOT_KEY,), (f"{version.time:%Y-%m-%d}",))] = version
        return {
            day: version
            for day, version in newest.items()
            if version.total_rows is not None or version.id == self.snapshot.id
        }

    def _listed_version(self, version: TableVersion) -> ListedPartition:
        day = Partition((SNAPSHOT_KEY,), (f"{version.time:%Y-%m-%d}",))
        is_current = version.id == self.snapshot.id
        size = sum(file.size for file in self.snapshot.files) if is_current else 0
        fingerprint = f"{self.table.format}/1:version {version.id} of {self.snapshot.table_id}"
        return ListedPartition(day, fingerprint, version.time, size)

    def describe(
        self, partitions: Collection[Partition]
    ) -> Iterator[tuple[Partition, TablePartition | VersionRows | PartitionFooters | SourceError]]:
        """Yield the metadata of each partition, or the error why the log does not determine them."""
        for partition in partitions:
            if self.is_partitioned:
                yield partition, self._described(self._files[partition])
                continue
            version = self._newest_by_day[partition]
            if version.id == self.snapshot.id:
                files = [*self.snapshot.files, *self.snapshot.delete_files]
                yield partition, self._described(files)
            else:
                assert version.total_rows is not None
                yield partition, VersionRows(version.total_rows, self.snapshot.schema)

    def _described(
        self, files: Sequence[DataFile]
    ) -> TablePartition | PartitionFooters | SourceError:
        log = self.snapshot
        if self.table.format == ICEBERG and any(file.has_deletes for file in files):
            return SourceError("delete files apply to it, so that only a scan can count its rows")
        data_files = tuple(file for file in files if file not in log.delete_files)
        partition = TablePartition(log.schema, data_files, log.column_keys, log.filled)
        if partition.rows_in_log is not None:
            return partition
        if not partition.are_whole:
            return SourceError("its log has no numbers of rows, and rows of its files are deleted")
        footers = _footers(
            partition.locations,
            lambda metadata: table_columns(
                metadata, log.column_keys, log.schema, log.filled, can_widen=True
            ),
        )
        error = next((footer for footer in footers if isinstance(footer, SourceError)), None)
        readable = [footer for footer in footers if isinstance(footer, Footer)]
        return partition.described(readable) if error is None else error


_METADATA_FILE = re.compile(r"metadata/(?:v(\d+)|(\d+)-[^/]+)(?:\.gz)?\.metadata\.json(?:\.gz)?")
_HIDDEN_FORMATS = (
    ("_hour", "%Y-%m-%d-%H"),
    ("_day", "%Y-%m-%d"),
    ("_month", "%Y-%m"),
    ("_year", "%Y"),
)
"""Formats of Iceberg's partitions by transforms of a time, by the ending of the field's name."""


def _metadata_version(path: str) -> int:
    match = _METADATA_FILE.fullmatch(path)
    return -1 if match is None else int(match[1] or match[2])


@dataclass(frozen=True)
class VersionRows:
    """An earlier version of a table, of which only the number of rows is known; implements `PartitionMetadata`.

    Attributes
    ----------
    rows : int
        The number of rows.
    schema : Schema
        The current columns of the table.
    """

    rows: int
    schema: Schema

    def values(self, column: str) -> int | None:
        """Return None: the number is unknown."""
        return None

    def lower(self, column: str) -> None:
        """Return None: it is unknown."""

    def bounds(self, column: str) -> None:
        """Return None: they are unknown."""

    def times(self, column: str) -> None:
        """Return None: they are unknown."""


LakeSource = ParquetFolder | LogFolder


def open_lake_table(table: LakeTable) -> LakeSource:
    """Open a table as a source of metadata.

    Raises
    ------
    SourceError
        If the table cannot be read, or its format has no metadata to read.
    SetupError
        If the package that reads the table's log is not installed.
    """
    problem = table.problem or table.unsupported
    if problem:
        raise SourceError(problem)
    return ParquetFolder(table) if table.format == "parquet" else LogFolder(table)


def _conflict(footers: Sequence[Footer], keys: Sequence[str]) -> str:
    """Return why the footers of a partition cannot be combined."""
    types: dict[str, str] = {}
    for footer in footers:
        for name, column in footer.columns.items():
            if types.setdefault(name, str(column.type)) != str(column.type):
                return f"its files have different types of {column.name!r}: {types[name]} and {column.type}"
    named = [key for key in keys if key.casefold() in types]
    return f"its files have a column {named[0]!r}, like a folder" if named else "it has no columns"


_Columns = Mapping[str, FileColumn]
_ColumnsOf = Callable[["pq.FileMetaData"], "_Columns | None"]


def _plain_columns(metadata: pq.FileMetaData) -> _Columns:
    return file_columns(metadata) or columns_by_arrow(metadata)


def _footers(
    locations: Sequence[str], columns_of: _ColumnsOf = _plain_columns
) -> list[Footer | SourceError]:
    """Read footers; concurrently if the files are not local. Files that cannot be read give an error."""
    reader = _FooterReader(columns_of)
    if len(locations) < 2 or local_path(locations[0]) is not None:
        return list(map(reader.read, locations))
    with ThreadPoolExecutor(min(FOOTER_THREADS, len(locations))) as pool:
        return list(pool.map(reader.read, locations))


@dataclass
class _FooterReader:
    """Reads footers, and derives the columns of consecutive files with equal schemas only once."""

    columns_of: _ColumnsOf
    _last: Footer | None = None

    def read(self, location: str) -> Footer | SourceError:
        import pyarrow.parquet as pq
        from pyarrow import ArrowException

        system, path = file_system(location)
        name = posixpath.basename(location)
        try:
            metadata = pq.read_metadata(path, filesystem=system)
        except (ArrowException, OSError) as error:
            reason = _os_reason(error) if isinstance(error, OSError) else describe(error)
            if "magic bytes" in reason or "too small" in reason or "Parquet file size" in reason:
                reason = "it is not a complete Parquet file"
            return SourceError(f"{name}: {hide_secrets(reason)}")
        last = self._last
        if last is not None and _has_same_columns(metadata, last.metadata):
            footer = Footer(location, metadata, last.columns)
        else:
            columns = self.columns_of(metadata)
            if columns is None:
                return SourceError(f"{name}: it lacks the ids of the table's columns")
            footer = Footer(location, metadata, columns)
        self._last = footer
        return footer


def _has_same_columns(a: pq.FileMetaData, b: pq.FileMetaData) -> bool:
    keys_a, keys_b = a.metadata or {}, b.metadata or {}
    same_keys = all(keys_a.get(key) == keys_b.get(key) for key in _SCHEMA_KEYS)
    return same_keys and bool(a.schema.equals(b.schema))


_SCHEMA_KEYS = (b"org.apache.spark.sql.parquet.row.metadata", b"ARROW:schema")
"""Keys of a footer under which writers store their own form of the schema."""
