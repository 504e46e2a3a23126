"""The query log table and its derived tables: names, creation and maintenance.

Numeric columns of existing tables become wider, as Avro promotes them. `clean` drops partitions of the log
and of derived tables after their retention.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.errors import NoSuchTableError, SourceError, SuiteError, condition_of
from tidegauge.analyzers.core.filesystems import file_system
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.sql import literal, parts, quote, type_sql
from tidegauge.analyzers.scan.capabilities import session_settings
from tidegauge.analyzers.sources.hive_table import describe_table, partition_sql
from tidegauge.consistency.log.query import FIRST_MS, LAST_MS, LOG_COLUMNS, is_day
from tidegauge.consistency.log.schemas import SCHEMAS_FOLDER, LogSchema, LogSchemas

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


QUERY_LOGS = "query_logs"
RETENTION_PROPERTY = "retention"
"""Table property with the retention of partitions in days."""
DEFAULT_RETENTION_DAYS = 90
INSERT_SETTINGS = {
    "hive.exec.dynamic.partition": "true",
    "hive.exec.dynamic.partition.mode": "nonstrict",
}
_COLUMN_COMMENTS = {
    "key_bytes": "Base64 of the Avro encoded key",
    "value_bytes": "Base64 of the Avro encoded value",
    "ts_millis": "Timestamp of the fetch",
    "query_source": "Name of environment or service calling fetch",
    "schema_hash": "Which schemas key and value were encoded with",
    "type": "join or groupBy",
}


def table_of(namespace: str, table: str) -> str:
    """Return the full name of a table in a namespace, quoted.

    Examples
    --------
    >>> table_of("hive.search", "query_logs")
    '`hive`.`search`.`query_logs`'
    """
    if not namespace:
        raise SuiteError("the namespace of the query log is empty; set a database of the catalog")
    return ".".join(quote(str(part)) for part in (*parts(namespace), table))


def join_table(namespace: str, join: str, kind: str) -> str:
    """Return the full name of a join's table, quoted; characters not allowed become ``_``.

    Examples
    --------
    >>> join_table("ml", "team/search.v1", "logged")
    '`ml`.`team_search_v1_logged`'
    """
    return table_of(namespace, f"{re.sub('[^A-Za-z0-9_]', '_', join)}_{kind}")


def create_log_table(spark: SparkSession, namespace: str, location: str | None = None) -> str:
    """Create the query log table of a namespace if it does not exist.

    Parameters
    ----------
    spark : SparkSession
        The session that creates the table.
    namespace : str
        An existing database.
    location : str, optional
        An existing folder that services write to (default: the table's own folder).

    Returns
    -------
    str
        The table's full name, quoted. Its property ``retention`` is set to 90 days.

    Examples
    --------
    >>> import tidegauge as tg
    >>> spark = tg.spark_session()  # doctest: +SKIP
    >>> _ = spark.sql("CREATE DATABASE IF NOT EXISTS shop")  # doctest: +SKIP
    >>> tg.consistency.create_log_table(spark, "shop")  # doctest: +SKIP
    '`shop`.`query_logs`'
    """
    name = table_of(namespace, QUERY_LOGS)
    columns = ", ".join(
        f"{quote(column)} {'BIGINT' if column == 'ts_millis' else 'STRING'} COMMENT {literal(_COLUMN_COMMENTS[column])}"
        for column in LOG_COLUMNS
    )
    location_clause = "" if location is None else f" LOCATION {literal(location)}"
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS {name} ({columns}) USING parquet"
        f" PARTITIONED BY (ds STRING, join_name STRING){location_clause}"
        f" TBLPROPERTIES ({literal(RETENTION_PROPERTY)} = '{DEFAULT_RETENTION_DAYS}')"
    ).collect()
    return name


def log_table(spark: SparkSession, namespace: str) -> str:
    """Return the full name of a namespace's query log, quoted.

    Raises
    ------
    NoSuchTableError
        If the query log does not exist.
    """
    name = table_of(namespace, QUERY_LOGS)
    if not spark.catalog.tableExists(name):
        raise NoSuchTableError(f"query log {name} does not exist; create it with create_log_table")
    return name


def log_folder(spark: SparkSession, namespace: str) -> str:
    """Return the folder of a namespace's query log, for services to write to.

    Examples
    --------
    >>> import tidegauge as tg
    >>> spark = tg.spark_session()  # doctest: +SKIP
    >>> _ = spark.sql("CREATE DATABASE IF NOT EXISTS shop")  # doctest: +SKIP
    >>> _ = tg.consistency.create_log_table(spark, "shop")  # doctest: +SKIP
    >>> tg.consistency.log_folder(spark, "shop").rpartition("/")[2]  # doctest: +SKIP
    'query_logs'
    """
    return describe_table(spark, log_table(spark, namespace)).location


def sync_log_table(spark: SparkSession, namespace: str) -> None:
    """Register partitions that services have added to the table's folder.

    Examples
    --------
    >>> import tidegauge as tg
    >>> spark = tg.spark_session()  # doctest: +SKIP
    >>> _ = spark.sql("CREATE DATABASE IF NOT EXISTS shop")  # doctest: +SKIP
    >>> _ = tg.consistency.create_log_table(spark, "shop")  # doctest: +SKIP
    >>> key = {"type": "record", "name": "K", "fields": [{"name": "user", "type": "long"}]}
    >>> value = {"type": "record", "name": "V", "fields": [{"name": "clicks", "type": "int"}]}
    >>> schema = tg.consistency.LogSchema.from_schemas("search", key, value)
    >>> folder = tg.consistency.log_folder(spark, "shop")  # doctest: +SKIP
    >>> with tg.consistency.QueryLog(folder) as log:  # doctest: +SKIP
    ...     _ = log.register(schema)
    ...     log.log("search", {"user": 7}, {"clicks": 3}, ts_millis=1_672_909_200_000)
    >>> tg.consistency.sync_log_table(spark, "shop")  # doctest: +SKIP
    >>> spark.table("shop.query_logs").first().ds  # doctest: +SKIP
    '2023-01-05'
    """
    spark.sql(f"MSCK REPAIR TABLE {log_table(spark, namespace)}").collect()


def append_queries(data: DataFrame, namespace: str, join: str) -> None:
    """Append a DataFrame of queries to the query log.

    Parameters
    ----------
    data : DataFrame
        Columns key_bytes and value_bytes (base64 strings or raw Avro bytes) and ts_millis. The columns
        query_source, schema_hash and type are optional. A query's UTC day is its partition. A query
        without a time, or with a time before 2000, is in the partition of the current day and counted
        as ``no time``.
    namespace : str
        The database of the query log.
    join : str
        Name of the join.

    Raises
    ------
    SourceError
        If a column is missing.

    Examples
    --------
    >>> import tidegauge as tg
    >>> spark = tg.spark_session()  # doctest: +SKIP
    >>> _ = spark.sql("CREATE DATABASE IF NOT EXISTS shop")  # doctest: +SKIP
    >>> _ = tg.consistency.create_log_table(spark, "shop")  # doctest: +SKIP
    >>> sql = "SELECT X'0E' AS key_bytes, X'06' AS value_bytes, 1672909200000L AS ts_millis"
    >>> tg.consistency.append_queries(spark.sql(sql), "shop", "search")  # doctest: +SKIP
    >>> spark.table("shop.query_logs").first().ds  # doctest: +SKIP
    '2023-01-05'
    """
    schema = Schema.from_frame(data)
    spark = data.sparkSession
    cells = []
    for column in LOG_COLUMNS:
        if column not in schema.names:
            if column in {"key_bytes", "value_bytes", "ts_millis"}:
                raise SourceError(f"logged queries need a column {column!r}")
            cells.append(f"CAST(NULL AS STRING) AS {column}")
        elif schema.field(column).kind == "binary":
            cells.append(f"base64({column}) AS {column}")
        else:
            cells.append(column)
    today = literal(datetime.now(UTC).date().isoformat())
    day = "CAST(date_from_unix_date(CAST(floor(ts_millis / 86400000D) AS INT)) AS STRING)"  # in UTC
    cells += [
        f"CASE WHEN ts_millis BETWEEN {FIRST_MS} AND {LAST_MS} THEN {day} ELSE {today} END AS ds",
        f"{literal(join)} AS join_name",
    ]
    with session_settings(spark, INSERT_SETTINGS):
        data.selectExpr(*cells).write.insertInto(log_table(spark, namespace))


def read_schemas(spark: SparkSession, namespace: str) -> LogSchemas:
    """Read the schemas in the query log's folder; empty if there are none."""
    from pyspark.errors import AnalysisException

    folder = f"{log_folder(spark, namespace).rstrip('/')}/{SCHEMAS_FOLDER}"
    try:
        rows = spark.read.option("wholetext", "true").text(folder).collect()
    except AnalysisException as error:
        if condition_of(error) == "PATH_NOT_FOUND":
            return LogSchemas()
        raise
    return LogSchemas(LogSchema.from_json(row[0]) for row in rows)


_COMPLETE_COPY_PROPERTY = "tidegauge.widened"
"""Table property of a complete copy."""


def widen(spark: SparkSession, name: str, types: Mapping[str, Any], partition_column: str) -> None:
    """Give columns of a table wider types.

    Spark's catalog cannot change the types, so a copy replaces the table. The copy is complete before the
    table is dropped. If the run is killed between these steps, `finish_widening` finishes.

    Parameters
    ----------
    spark : SparkSession
        The session that writes the copy.
    name : str
        The quoted table name.
    types : mapping of str to object
        The wider types, in Spark's JSON form.
    partition_column : str
        The partition column, a string.
    """
    copy = _copy_of(name)
    fields: list[dict[str, Any]] = spark.table(name).schema.jsonValue()["fields"]
    columns = {
        f["name"]: types.get(f["name"], f["type"]) for f in fields if f["name"] != partition_column
    }
    properties: dict[str, str] = {
        key: value
        for key, value in spark.sql(f"SHOW TBLPROPERTIES {name}").collect()
        if key.startswith("tidegauge.")
    }
    definitions = ", ".join(
        f"{quote(column)} {type_sql(data_type)}" for column, data_type in columns.items()
    )
    cast = [
        f"CAST({quote(column)} AS {type_sql(data_type)}) AS {quote(column)}"
        for column, data_type in columns.items()
    ]
    spark.sql(f"DROP TABLE IF EXISTS {copy}").collect()
    spark.sql(
        f"CREATE TABLE {copy} ({definitions}) USING parquet PARTITIONED BY ({partition_column} STRING)"
    ).collect()
    with session_settings(spark, INSERT_SETTINGS):
        spark.table(name).selectExpr(*cast, partition_column).write.insertInto(copy)
    assignments = ", ".join(
        f"{literal(k)} = {literal(v)}"
        for k, v in {**properties, _COMPLETE_COPY_PROPERTY: "true"}.items()
    )
    spark.sql(f"ALTER TABLE {copy} SET TBLPROPERTIES ({assignments})").collect()
    spark.sql(f"DROP TABLE {name}").collect()
    finish_widening(spark, name)


def finish_widening(spark: SparkSession, name: str) -> None:
    """Rename a complete copy to the dropped table that it replaces; drop any other copy."""
    copy = _copy_of(name)
    if not spark.catalog.tableExists(copy):
        return
    properties: dict[str, str] = dict(spark.sql(f"SHOW TBLPROPERTIES {copy}").collect())
    if _COMPLETE_COPY_PROPERTY in properties and not spark.catalog.tableExists(name):
        spark.sql(f"ALTER TABLE {copy} RENAME TO {name}").collect()
        spark.sql(
            f"ALTER TABLE {name} UNSET TBLPROPERTIES ({literal(_COMPLETE_COPY_PROPERTY)})"
        ).collect()
    else:
        spark.sql(f"DROP TABLE {copy}").collect()


def _copy_of(name: str) -> str:
    return f"{name[:-1]}__wider`"


DERIVED_SUFFIXES = ("_logged", "_comparison", "_consistency_metrics")
"""Suffixes of the names of tables that are derived from a query log."""
DERIVED_RETENTION_PROPERTY = "tidegauge.retention"
"""Retention property of derived tables, because other tools use ``retention`` differently."""


@dataclass(frozen=True)
class CleanedLog:
    """Result of dropping old partitions of a query log.

    Attributes
    ----------
    table : str
        The quoted table name.
    retention : int
        Retention in days.
    dropped : tuple of str
        Names of dropped partitions, or of partitions to drop in a dry run.
    kept : int
        Number of remaining partitions.
    unknown : tuple of str
        Partitions whose ``ds`` is not a day. They are never dropped.
    dry_run : bool
        Whether partitions were only listed.
    derived : tuple of CleanedLog
        The results of derived tables with their own retention.
    """

    table: str
    retention: int
    dropped: tuple[str, ...]
    kept: int
    unknown: tuple[str, ...]
    dry_run: bool
    derived: tuple[CleanedLog, ...] = ()

    def __str__(self) -> str:
        """Return a one-line summary."""
        did = "would drop" if self.dry_run else "dropped"
        summary = (
            f"{self.table}: {did} {len(self.dropped)} partitions older than {self.retention} days"
        )
        return "\n".join([f"{summary}, kept {self.kept}", *map(str, self.derived)])


def clean(
    spark: SparkSession, namespace: str, now: datetime | None = None, *, dry_run: bool = False
) -> CleanedLog:
    """Drop partitions of a namespace's query log, with their files, after the retention.

    The table property ``retention`` is the number of days (default: 90). A day of exactly this age stays.
    Derived tables of logged rows, compared rows and metrics stay complete, unless their property
    ``tidegauge.retention`` is such a number.

    Parameters
    ----------
    spark : SparkSession
        The session that drops the partitions.
    namespace : str
        The database of the query log.
    now : datetime, optional
        Reference time; its UTC day is used (default: now).
    dry_run : bool
        Only report the partitions to drop.

    Raises
    ------
    NoSuchTableError
        If the query log does not exist.
    SourceError
        If the property is not a number of days.

    Examples
    --------
    >>> import tidegauge as tg
    >>> from tidegauge.demo.features import log_search
    >>> spark = tg.spark_session()  # doctest: +SKIP
    >>> log_search(spark, "shop")  # doctest: +SKIP
    >>> found = tg.consistency.clean(spark, "shop", datetime(2023, 4, 6, tzinfo=UTC))  # doctest: +SKIP
    >>> found.retention, found.dropped, found.kept  # doctest: +SKIP
    (90, ('ds=2023-01-05/join_name=search',), 0)
    """
    table = log_table(spark, namespace)
    today = (now or datetime.now(UTC)).astimezone(UTC).date()
    sync_log_table(spark, namespace)
    log = _clean_table(spark, table, retention_of(_properties(spark, table), table), today, dry_run)
    listed = spark.sql(f"SHOW TABLES IN {table.rpartition('.')[0]}").collect()
    names = sorted(row.tableName for row in listed if not row.isTemporary)
    properties_by_table = {
        derived_table: _properties(spark, derived_table)
        for derived_table in (
            table_of(namespace, name) for name in names if name.endswith(DERIVED_SUFFIXES)
        )
    }
    derived = tuple(
        _clean_table(
            spark,
            derived_table,
            retention_of(properties, derived_table, DERIVED_RETENTION_PROPERTY),
            today,
            dry_run,
        )
        for derived_table, properties in properties_by_table.items()
        if DERIVED_RETENTION_PROPERTY in properties
    )
    return replace(log, derived=derived)


def _properties(spark: SparkSession, table: str) -> dict[str, str]:
    return dict(spark.sql(f"SHOW TBLPROPERTIES {table}").collect())


def _clean_table(
    spark: SparkSession,
    table: str,
    days: int,
    today: date,
    dry_run: bool,  # noqa: FBT001
) -> CleanedLog:
    dropped, unknown, remaining = [], [], 0
    for row in spark.sql(f"SHOW PARTITIONS {table}").collect():
        partition = Partition.from_path(row[0])
        day = _day_of(partition)
        if day is None:
            unknown.append(partition.name)
        elif today - day > timedelta(days=days):
            dropped.append(partition)
        else:
            remaining += 1
    for partition in () if dry_run else dropped:
        _drop_partition(spark, table, partition)
    names = sorted(partition.name for partition in dropped)
    return CleanedLog(table, days, tuple(names), remaining, tuple(sorted(unknown)), dry_run)


def retention_of(properties: Mapping[str, str], table: str, name: str = RETENTION_PROPERTY) -> int:
    """Return the retention of a table's partitions in days.

    Raises
    ------
    SourceError
        If the property is not a whole number of days.

    Examples
    --------
    >>> retention_of({"retention": "30"}, "logs"), retention_of({}, "logs")
    (30, 90)
    >>> retention_of({"retention": "a month"}, "logs")
    Traceback (most recent call last):
    ...
    tidegauge.analyzers.core.errors.SourceError: property 'retention' of logs must be a number of days, not 'a month'
    """
    value = properties.get(name, str(DEFAULT_RETENTION_DAYS))
    if not (value.strip().isascii() and value.strip().isdigit()) or len(value.strip()) > 6:
        raise SourceError(f"property {name!r} of {table} must be a number of days, not {value!r}")
    return int(value)


def _day_of(partition: Partition) -> date | None:
    ds = partition.value("ds")
    return date.fromisoformat(ds) if is_day(ds) else None


def _drop_partition(spark: SparkSession, table: str, partition: Partition) -> None:
    """Drop a partition; for an external table, also delete its files."""
    from pyarrow import fs

    clause = partition_sql(partition)
    location = describe_table(spark, f"{table} {clause}").location
    spark.sql(f"ALTER TABLE {table} DROP IF EXISTS {clause}").collect()
    if spark.catalog.getTable(table).tableType != "MANAGED":
        system, path = file_system(location)
        if system.get_file_info(path).type != fs.FileType.NotFound:
            system.delete_dir(path)
