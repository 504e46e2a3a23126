"""Finding the source for a table of the catalog: Hive's files, a log of its own, or only its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from analyzers.errors import NoSuchTableError, nearest
from analyzers.logged import logged_table
from analyzers.sources import (
    FILE_FORMATS,
    FrameSource,
    HiveTable,
    Source,
    check_keys,
    describe_table,
)
from analyzers.sql import quote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def open_table(spark: SparkSession, name: str, keys: Sequence[str] | None = None) -> Source:
    """Return the source for a table or view of the catalog.

    Raises
    ------
    NoSuchTableError
        If there is none, naming the nearest that there is.
    PartitionColumnError
        If it is not partitioned by the columns asked for.
    """
    from pyspark.errors import AnalysisException  # noqa: PLC0415 - core imports no Spark

    try:
        known = spark.catalog.tableExists(name)
    except AnalysisException:  # the name does not parse
        known = False
    if not known:
        raise NoSuchTableError(_no_such_table(spark, name))
    table = spark.catalog.getTable(name)
    path = [part for part in (table.catalog, *(table.namespace or ()), table.name) if part]
    full = ".".join(map(quote, path))
    if table.tableType in {"VIEW", "TEMPORARY"}:
        return FrameSource(spark.table(name), tuple(keys or ()), ".".join(path))
    try:
        details = describe_table(spark, full)
    except AnalysisException as error:
        if error.getCondition() != "NOT_SUPPORTED_COMMAND_FOR_V2_TABLE":
            raise
        return _table_of_another_kind(spark, ".".join(path), keys)
    if str(details.get("provider", "")).casefold() not in FILE_FORMATS:
        found = details.get("partition_columns") or ()
        return FrameSource(
            spark.table(name), tuple(found if keys is None else keys), ".".join(path)
        )
    found = check_keys(keys, details.get("partition_columns") or (), f"table {name}")
    return HiveTable(spark, ".".join(path), found, details)


def _table_of_another_kind(spark: SparkSession, name: str, keys: Sequence[str] | None) -> Source:
    """Return the source for a table of a catalog that is not Hive's: by its log, else as a frame."""
    full = ".".join(map(quote, name.split(".")))
    rows = [(row[0], row[1]) for row in spark.sql(f"DESCRIBE TABLE EXTENDED {full}").collect()]
    marks = [i for i, (key, _) in enumerate(rows) if key == "# Detailed Table Information"]
    details = {key.casefold(): value for key, value in rows[(marks[-1] + 1 if marks else 0) :]}
    table = logged_table(spark, name, details)
    if table is None:
        return FrameSource(spark.table(full), tuple(keys or ()), name)
    table.keys = check_keys(keys, table.keys, f"table {name}")
    return table


def _no_such_table(spark: SparkSession, name: str) -> str:
    database, _, table = name.replace("`", "").rpartition(".")
    database = database or spark.catalog.currentDatabase()
    if not spark.catalog.databaseExists(database):
        there = sorted(d.name for d in spark.catalog.listDatabases())
        return f"no table {name!r}: no database {database!r} (there are: {', '.join(there)})"
    close = nearest(table, [t.name for t in spark.catalog.listTables(database)])
    return f"no table {name!r}" + (f"; did you mean '{database}.{close}'?" if close else "")
