"""Open a catalog table as a source: by Hive files, Iceberg or Delta log, or as a DataFrame."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tidegauge.analyzers.core.errors import NoSuchTableError, TableFormatError, nearest
from tidegauge.analyzers.core.sql import parts, path_table, quote, table_name, table_sql
from tidegauge.analyzers.sources.folders import open_folder
from tidegauge.analyzers.sources.hive_table import HiveTable, describe_table
from tidegauge.analyzers.sources.sources import FILE_FORMATS, FrameSource, Source, check_keys
from tidegauge.analyzers.sources.table_folders import DELTA, require_plain_folder
from tidegauge.analyzers.sources.table_formats import logged_table, missing_reference

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SESSION_CATALOG = "spark_catalog"
MAX_NAMES = 20
"""Names of tables or databases in a message."""


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
        if (problem := missing_reference(spark, name) or _misnamed(spark, name)) is not None:
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
    try:
        return bool(spark.catalog.tableExists(name))
    except Exception:  # noqa: BLE001 - the name does not parse; catalogs raise errors of their own
        return False


def _misnamed(spark: SparkSession, name: str) -> str | None:
    """Return which part of a name is wrong: its catalog, its database, or that it is one of these.

    None if the database exists. Catalogs raise errors of their own for such names, or none at all.
    """
    path = tuple(map(str, parts(name)))
    *database, _ = path
    if Path(name).exists():  # it is meant, without its `./`
        return None
    if _database_exists(spark, path):
        problem = f"it is a database{_listed('its tables', _tables(spark, path))}"
    elif not database and (databases := _databases(spark, path[0])):
        problem = f"it is a catalog{_listed('its databases', databases)}"
    elif not database or _database_exists(spark, database):
        return None
    else:
        problem = _missing_database(spark, path)
    return f"no table {name!r}: {problem}"


def _missing_database(spark: SparkSession, path: Sequence[str]) -> str:
    """Return why the database of a table's name does not exist."""
    *database, table = path
    named = table_name(database)
    if len(database) > 1 and _exists(spark, table_sql(named)):
        return f"{named} is a table, not a database"
    catalog = database[0] if len(database) > 1 else str(spark.catalog.currentCatalog())
    databases = _databases(spark, catalog)
    if databases is None:
        return f"no catalog {catalog!r}; is spark.sql.catalog.{catalog} set?"
    if len(database) == 1 and (inside := _databases(spark, database[0])):
        return f"{named!r} is a catalog; name its database, too: {table_name([*database, inside[0], table])}"
    return f"no database {named!r}{_listed('there are', databases)}"


def _listed(what: str, names: Sequence[str]) -> str:
    """Return the end of a message that lists names; empty if there are none."""
    more = f", and {len(names) - MAX_NAMES:,} more" if len(names) > MAX_NAMES else ""
    return f" ({what}: {', '.join(sorted(names)[:MAX_NAMES])}{more})" if names else ""


def _database_exists(spark: SparkSession, path: Sequence[str]) -> bool:
    try:
        return bool(spark.catalog.databaseExists(table_sql(table_name(path))))
    except Exception:  # noqa: BLE001 - no such catalog; catalogs raise errors of their own
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
    """Return that a table is missing, and a hint at what may be meant."""
    missing = f"no table {name!r}"
    if Path(name).exists():
        return missing, f"; to read what lies here under this name, write './{name}'"
    *database, table = map(str, parts(name))
    database = database or [spark.catalog.currentDatabase()]
    close = nearest(table, _tables(spark, database) if _database_exists(spark, database) else ())
    return missing, f"; did you mean '{table_name([*database, close])}'?" if close else ""
