"""Open a catalog table or a folder as a source, and compare the locations of tables and folders.

A table is opened by its Hive files, by its Iceberg or Delta log, or otherwise as a DataFrame. A folder is opened
by the paths of its files, or by the log of its Delta table. `check_disjoint_locations` finds overlapping targets.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tidegauge.analyzers.columnar.engines import LazySession
from tidegauge.analyzers.columnar.table_logs import TablePartition, open_log, read_delta
from tidegauge.analyzers.core.errors import (
    NoSuchTableError,
    SourceError,
    SuiteError,
    TableFormatError,
    describe,
    nearest,
)
from tidegauge.analyzers.core.filesystems import absolute, file_system
from tidegauge.analyzers.core.formatting import hide_secrets
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.sql import folder_of, parts, path_table, quote, table_name, table_sql
from tidegauge.analyzers.sources import sources
from tidegauge.analyzers.sources.hive_table import HiveTable, describe_table
from tidegauge.analyzers.sources.path_source import PathSource
from tidegauge.analyzers.sources.table_formats import (
    LoggedTable,
    delta_keys,
    has_exact_texts,
    logged_table,
    missing_reference,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession


_VERSION_OPTIONS = {"versionasof", "timestampasof", "readchangefeed", "readchangedata"}
"""Options, in lower case, that make Delta's reader read other data than the newest snapshot."""


@dataclass
class DeltaFolder(LoggedTable):
    """A Delta table that is named by its folder and does not have to be in a catalog.

    Attributes
    ----------
    options : mapping of str to str
        Options of Spark's reader.
    """

    options: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold passwords

    def _refresh(self) -> None:
        """Do nothing: Delta finds the newest snapshot whenever a folder is loaded."""

    def _list_by_log(self) -> list[sources.ListedPartition] | None:
        """List the partitions without a job of Spark, unless options tell Delta how to read the table."""
        return None if self.options else super()._list_by_log()

    def parquet_files(
        self, partitions: Collection[Partition]
    ) -> Mapping[Partition, TablePartition]:
        """Return the files of partitions by the table's log, unless there are options."""
        return {} if self.options else super().parquet_files(partitions)

    def _read_snapshot(self) -> DataFrame:
        reader = self.spark.read.options(**self.options)
        if self.snapshot is not None:
            reader = reader.option("versionAsOf", self.snapshot)
        return _read_delta(reader, self.name)


def open_folder(
    spark: SparkSession,
    name: str,
    keys: Sequence[str] | None = None,
    format: str = "parquet",
    options: Mapping[str, str] | None = None,
) -> sources.Source:
    """Open a folder as a source.

    Parameters
    ----------
    spark : SparkSession
        The Spark session.
    name : str
        The folder, as a path or URI.
    keys : sequence of str, optional
        The partition columns (default: all).
    format : str
        Format of the files. With ``delta`` or ``parquet``, a Delta table's folder is read as a Delta table.
    options : mapping, optional
        Options of Spark's reader.

    Raises
    ------
    TableFormatError
        If the folder belongs to a table that cannot be read by its folder.
    NoSuchTableError
        If the folder has no data files.
    """
    table = sources.table_around(spark, name)
    if table is None:
        if format.casefold() in sources.TABLE_FORMATS:
            kind = sources.TABLE_FORMATS[format.casefold()]
            msg = f"{hide_secrets(name)!r} has format: {format}, but is not a {kind} table; remove format:"
            raise TableFormatError(msg)
        return PathSource(spark, name, keys, format, options or {})  # type: ignore[arg-type]
    if table.format != sources.DELTA or not sources.is_same_folder(table.location, name):
        raise sources.refusal(spark, table, name)
    if format.casefold() not in {sources.DELTA, "parquet"}:
        msg = f"{hide_secrets(name)!r} is a Delta table: use the format 'delta', not {format!r}"
        raise TableFormatError(msg)
    return _delta_folder(spark, name, keys, options or {})


def folder_format(spark: SparkSession, paths: Sequence[str], format: str) -> str:
    """Return the format in which Spark can read folders: ``delta`` for Delta tables, else the given format.

    Parameters
    ----------
    spark : SparkSession
        The Spark session.
    paths : sequence of str
        Folders or files.
    format : str
        The format of plain files.

    Raises
    ------
    TableFormatError
        If a folder belongs to a table that cannot be read by its folder, or if only some are Delta tables.
    """
    tables = {path: sources.table_around(spark, path) for path in paths}
    is_delta = format in {sources.DELTA, "parquet"} and all(
        table is not None
        and table.format == sources.DELTA
        and sources.is_same_folder(table.location, path)
        for path, table in tables.items()
    )
    if is_delta:
        _read_delta(spark.read, paths[0])
        return sources.DELTA
    for path, table in tables.items():
        if table is not None:
            raise sources.refusal(spark, table, path)
        sources.list_plain_files(spark, path)
    return format


def _delta_folder(
    spark: SparkSession, name: str, keys: Sequence[str] | None, options: Mapping[str, str]
) -> sources.Source:
    for option in options:
        if option.casefold() in _VERSION_OPTIONS:
            msg = (
                f"option {option!r} of {hide_secrets(name)!r} is not supported: a run reads the newest version"
                " of a Delta table; remove the option, or create a view of the version that you need"
            )
            raise SourceError(msg)
    location = absolute(name).rstrip("/")
    source = DeltaFolder(spark, name, (), sources.DELTA, location, options=options)
    subject = f"Delta table {hide_secrets(name)!r}"
    if isinstance(spark, LazySession) and not spark.is_started and not options:
        log = open_log(partial(read_delta, location))
        if log is not None and has_exact_texts(log.schema, log.keys):
            source.keys = log.keys
            source.choose_keys(keys, subject)
            return source
    data = _read_delta(spark.read.options(**options), name)
    source.keys = delta_keys(spark, location)
    source.choose_keys(keys, subject)
    if has_exact_texts(Schema.from_frame(data), source.keys):
        return source
    return sources.FrameSource(data, source.keys, name)


def _read_delta(reader: DataFrameReader, name: str) -> DataFrame:
    """Return the rows of the Delta table in a folder; raise if the session has no Delta Lake."""
    try:
        data = reader.format(sources.DELTA).load(absolute(name))
        _ = data.schema  # Spark Connect raises only here
    except Exception as error:
        reason = describe(error)
        if "DATA_SOURCE_NOT_FOUND" in reason:
            raise sources.lacks_delta(name) from error
        msg = f"cannot read the Delta table {hide_secrets(name)!r}: {reason}"
        raise SourceError(msg) from error
    return data


SESSION_CATALOG = "spark_catalog"
MAX_LISTED_NAMES = 20
"""Keeps messages that list tables or databases short."""


def open_table(spark: SparkSession, name: str, keys: Sequence[str] | None = None) -> sources.Source:
    """Open a table or view of the catalog as a source, or a folder as in ``delta.`/lake/orders` ``.

    Parameters
    ----------
    spark : SparkSession
        The Spark session.
    name : str
        The table's name.
    keys : sequence of str, optional
        The partition columns (default: all).

    Raises
    ------
    NoSuchTableError
        If the table does not exist; the message suggests the most similar name.
    PartitionColumnError
        If the table is not partitioned by the requested columns.
    TableFormatError
        If the table reads the files of a Delta, Hudi or Iceberg table as plain files.
    """
    from pyspark.errors import AnalysisException

    if (located := path_table(name)) is not None:
        format, folder = located
        if format != sources.DELTA:
            # Spark would read all files of a Delta folder, including removed files.
            sources.require_plain_folder(spark, folder)
        return open_folder(spark, folder, keys, format)
    try:
        table = spark.catalog.getTable(name)
    except Exception as error:
        if (problem := missing_reference(spark, name) or _misnamed_reason(spark, name)) is not None:
            raise NoSuchTableError(problem) from error
        if not isinstance(error, AnalysisException) or _exists(spark, name):
            raise
        raise NoSuchTableError(*_no_such_table(spark, name)) from error
    path = [part for part in (table.catalog, *(table.namespace or ()), table.name) if part]
    full = table_name(path)
    if table.tableType in {"VIEW", "TEMPORARY"}:
        return sources.FrameSource(spark.table(name), tuple(keys or ()), full)
    description = describe_table(spark, table_sql(full))
    logged = logged_table(spark, full, description)
    if logged is not None:
        logged.choose_keys(keys, f"table {name}")
        return logged
    partition_columns = tuple(description.partition_types)
    if (
        description.provider not in sources.FILE_FORMATS
        or path[0] != SESSION_CATALOG
        or not description.location
    ):
        return sources.FrameSource(
            spark.table(name), partition_columns if keys is None else tuple(keys), full
        )
    checked = sources.check_keys(keys, partition_columns, f"table {name}")
    try:
        sources.require_plain_folder(spark, description.location)
    except TableFormatError as error:
        msg = f"table {name!r} is registered as {description.provider}, but {error}"
        raise TableFormatError(msg) from error
    return HiveTable(spark, full, checked, description)


def _exists(spark: SparkSession, name: str) -> bool:
    try:
        return bool(spark.catalog.tableExists(name))
    except Exception:  # noqa: BLE001 - the name does not parse; catalogs raise their own errors
        return False


def _misnamed_reason(spark: SparkSession, name: str) -> str | None:
    """Return why a name cannot belong to a table, such as a wrong database; None if it can.

    None if the database exists. For such names, catalogs raise their own errors or no error.
    """
    path = tuple(map(str, parts(name)))
    *database, _ = path
    if Path(name).exists():  # the user means this path, but omitted `./`
        return None
    if _database_exists(spark, path):
        problem = f"it is a database{_name_list('its tables', _tables(spark, path))}"
    elif not database and (databases := _databases(spark, path[0])):
        problem = f"it is a catalog{_name_list('its databases', databases)}"
    elif not database or _database_exists(spark, database):
        return None
    else:
        problem = _missing_database(spark, path)
    return f"no table {name!r}: {problem}"


def _missing_database(spark: SparkSession, path: Sequence[str]) -> str:
    """Return why the database of a table's name does not exist."""
    *database, table = path
    name = table_name(database)
    if len(database) > 1 and _exists(spark, table_sql(name)):
        return f"{name} is a table, not a database"
    catalog = database[0] if len(database) > 1 else str(spark.catalog.currentCatalog())
    databases = _databases(spark, catalog)
    if databases is None:
        return f"no catalog {catalog!r}; is spark.sql.catalog.{catalog} set?"
    if len(database) == 1 and (child_databases := _databases(spark, database[0])):
        return f"{name!r} is a catalog; add a database: {table_name([*database, child_databases[0], table])}"
    return f"no database {name!r}{_name_list('there are', databases)}"


def _name_list(label: str, names: Sequence[str]) -> str:
    """Return the end of a message that lists names; empty if there are none."""
    remainder = (
        f", and {len(names) - MAX_LISTED_NAMES:,} more" if len(names) > MAX_LISTED_NAMES else ""
    )
    return f" ({label}: {', '.join(sorted(names)[:MAX_LISTED_NAMES])}{remainder})" if names else ""


def _database_exists(spark: SparkSession, path: Sequence[str]) -> bool:
    try:
        return bool(spark.catalog.databaseExists(table_sql(table_name(path))))
    except Exception:  # noqa: BLE001 - no such catalog; catalogs raise their own errors
        return False


def _databases(spark: SparkSession, catalog: str) -> list[str] | None:
    """Return the names of a catalog's databases; None if there is no such catalog."""
    try:
        rows = spark.sql(f"SHOW NAMESPACES IN {quote(catalog)}").collect()
    except Exception:  # noqa: BLE001 - see above
        return None
    return [row[0] for row in rows]


def _tables(spark: SparkSession, database: Sequence[str]) -> list[str]:
    """Return the names of a database's tables."""
    rows = spark.sql(f"SHOW TABLES IN {table_sql(table_name(database))}").collect()
    return [row["tableName"] for row in rows if not row["isTemporary"]]


def _no_such_table(spark: SparkSession, name: str) -> tuple[str, str]:
    """Return a message about a missing table, and a hint with a similar name or path."""
    missing = f"no table {name!r}"
    if Path(name).exists():
        return missing, f"; to read the file or folder of this name, write './{name}'"
    *database, table = map(str, parts(name))
    database = database or [spark.catalog.currentDatabase()]
    close = nearest(table, _tables(spark, database) if _database_exists(spark, database) else ())
    return missing, f"; did you mean '{table_name([*database, close])}'?" if close else ""


def parent_location(spark: SparkSession, table: str) -> str | None:
    """Return the parent folder of a folder, or the location of a table's database.

    None if the database does not exist or has no location, or if Arrow cannot access the location.
    """
    if named_folder := folder_of(table):
        folder = absolute(named_folder).rstrip("/").rpartition("/")[0] or "/"
    else:
        *path, _ = map(str, parts(table))
        name = ".".join(map(quote, path)) if path else quote(spark.catalog.currentDatabase())
        if not spark.catalog.databaseExists(name):
            return None
        folder = spark.catalog.getDatabase(name).locationUri
    try:
        if folder:
            file_system(folder)
    except OSError:  # Arrow cannot access it
        return None
    return folder or None


def check_disjoint_locations(
    locations: Mapping[str, str | None], spark: SparkSession | None = None
) -> None:
    """Raise if two locations are the same or one contains the other.

    Parameters
    ----------
    locations : mapping of str to str
        Table names, folders or files, by their purpose; None for unused ones.
    spark : SparkSession, optional
        Returns the current database and the locations of tables. Without it, the database is ``default``.

    Raises
    ------
    SuiteError
        If two locations overlap.

    Examples
    --------
    >>> check_disjoint_locations({"table": "flights", "publish": "flights_clean", "quarantine": None})
    >>> check_disjoint_locations({"path": "file:/lake/a/", "publish": "/lake/a"})
    Traceback (most recent call last):
    ...
    tidegauge.analyzers.core.errors.SuiteError: path 'file:/lake/a/' and publish '/lake/a' are the same location; use separate locations
    """
    resolved = [
        (purpose, name, _normalized_locations(name, spark))
        for purpose, name in locations.items()
        if name
    ]
    for i, (purpose, name, paths) in enumerate(resolved):
        for other_purpose, other_name, other_paths in resolved[:i]:
            pairs = [(a, b) for a in paths for b in other_paths]
            if any(a == b for a, b in pairs):
                overlap = "are the same location"
            elif any(a.startswith(f"{b}/") or b.startswith(f"{a}/") for a, b in pairs):
                overlap = "overlap"
            else:
                continue
            msg = f"{other_purpose} {other_name!r} and {purpose} {name!r} {overlap}; use separate locations"
            raise SuiteError(msg)


def _normalized_locations(name: str, spark: SparkSession | None) -> list[str]:
    """Return a folder's normalized path, or a table's full name and, if known, its location."""
    if folder := folder_of(name):
        return [_normalized_path(folder)]
    path = [str(part).casefold() for part in parts(name)]
    if path[0] == "spark_catalog" and len(path) > 1:
        path = path[1:]
    if len(path) == 1:
        path.insert(0, "default" if spark is None else spark.catalog.currentDatabase().casefold())
    locations = [".".join(map(quote, path))]
    if spark is not None and spark.catalog.tableExists(locations[0]):
        source = open_table(spark, locations[0])
        location = source.description.location if isinstance(source, HiveTable) else None
        locations += [_normalized_path(str(location))] if location else []
    return locations


def _normalized_path(location: str) -> str:
    """Normalize a path: absolute, links resolved, no ``file:``, no double or trailing slashes."""
    if "\0" in location:
        msg = f"invalid path {location!r}: it contains a null character"
        raise SourceError(msg)
    location = re.sub(r"^file:(//[^/]*)?(?=/)", "", absolute(location), flags=re.IGNORECASE)
    if location.startswith("/"):
        return os.path.realpath(location).rstrip("/")
    scheme, _, path = re.sub(r"^s3[an]:", "s3:", location).partition(":")
    marks = "//" if path.startswith("//") else ""
    return f"{scheme.casefold()}:{marks}{re.sub('/+', '/', path.removeprefix(marks)).rstrip('/')}"
