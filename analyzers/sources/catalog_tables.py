"""Open a catalog table as a source: by Hive files, Iceberg or Delta log, or as a DataFrame."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tidegauge.analyzers.core.errors import NoSuchTableError, TableFormatError, nearest
from tidegauge.analyzers.core.sql import path_table, table_name, table_sql
from tidegauge.analyzers.sources.folders import open_folder
from tidegauge.analyzers.sources.hive_table import HiveTable, describe_table
from tidegauge.analyzers.sources.sources import FILE_FORMATS, FrameSource, Source, check_keys
from tidegauge.analyzers.sources.table_folders import DELTA, require_plain_folder
from tidegauge.analyzers.sources.table_formats import logged_table, missing_reference

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SESSION_CATALOG = "spark_catalog"


def open_table(spark: SparkSession, name: str, keys: Sequence[str] | None = None) -> Source:
    """Open a table or view of the catalog as a source, or a folder as in ``delta.`/lake/orders` ``.

    Raises
    ------
    NoSuchTableError
        If it does not exist; the message suggests the closest name.
    PartitionColumnError
        If it is not partitioned by the requested columns.
    TableFormatError
        If it reads the files of a Delta, Hudi or Iceberg table as plain files.
    """
    from pyspark.errors import AnalysisException

    if (located := path_table(name)) is not None:
        format, folder = located
        if format != DELTA:
            # By such a name Spark reads all files of a Delta folder, removed ones among them.
            require_plain_folder(spark, folder)
        return open_folder(spark, folder, keys, format)
    try:
        table = spark.catalog.getTable(name)
    except Exception as error:
        if (problem := missing_reference(spark, name)) is not None:
            raise NoSuchTableError(problem) from error
        if not isinstance(error, AnalysisException) or _exists(spark, name):
            raise
        raise NoSuchTableError(*_no_such_table(spark, name)) from error
    path = [part for part in (table.catalog, *(table.namespace or ()), table.name) if part]
    full = table_name(path)
    if table.tableType in {"VIEW", "TEMPORARY"}:
        return FrameSource(spark.table(name), tuple(keys or ()), full)
    found = describe_table(spark, table_sql(full))
    logged = logged_table(spark, full, found)
    if logged is not None:
        logged.choose_keys(keys, f"table {name}")
        return logged
    partition_columns = tuple(found.partition_types)
    if found.provider not in FILE_FORMATS or path[0] != SESSION_CATALOG or not found.location:
        return FrameSource(
            spark.table(name), partition_columns if keys is None else tuple(keys), full
        )
    checked = check_keys(keys, partition_columns, f"table {name}")
    try:
        require_plain_folder(spark, found.location)
    except TableFormatError as error:
        msg = f"table {name!r} is registered as {found.provider}, but {error}"
        raise TableFormatError(msg) from error
    return HiveTable(spark, full, checked, found)


def _exists(spark: SparkSession, name: str) -> bool:
    from pyspark.errors import AnalysisException

    try:
        return spark.catalog.tableExists(name)
    except AnalysisException:  # the name does not parse
        return False


def _no_such_table(spark: SparkSession, name: str) -> tuple[str, str]:
    """Return that a table is missing, and a hint at what may be meant."""
    missing = f"no table {name!r}"
    if Path(name).exists():
        return missing, f"; to read what lies here under this name, write './{name}'"
    database, _, table = name.replace("`", "").rpartition(".")
    database = database or spark.catalog.currentDatabase()
    if not spark.catalog.databaseExists(database):
        there = sorted(d.name for d in spark.catalog.listDatabases())
        return f"{missing}: no database {database!r} (there are: {', '.join(there)})", ""
    close = nearest(table, [t.name for t in spark.catalog.listTables(database)])
    return missing, f"; did you mean '{database}.{close}'?" if close else ""
