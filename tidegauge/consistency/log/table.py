"""The query log table, the names of tables derived from it, and their upkeep.

Number columns of tables that exist become wider, as Avro promotes them. `clean` drops partitions
that exceed the retention, of the log and of the tables made of it.
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
RETENTION = "retention"
"""Table property: retention of partitions in days."""
DEFAULT_RETENTION = 90
INSERTING = {
    "hive.exec.dynamic.partition": "true",
    "hive.exec.dynamic.partition.mode": "nonstrict",
}
_COMMENTS = {
    "key_bytes": "Base64 of the Avro encoded key",
    "value_bytes": "Base64 of the Avro encoded value",
    "ts_millis": "Timestamp of the fetch",
    "query_source": "Name of environment or service calling fetch",
    "schema_hash": "Which schemas key and value were encoded with",
    "type": "join or groupBy",
}


def table_of(namespace: str, what: str) -> str:
    """Return the full name of a table in a namespace, quoted.

    Examples
    --------
    >>> table_of("hive.search", "query_logs")
    '`hive`.`search`.`query_logs`'
    """
    if not namespace:
        raise SuiteError("a query log lies in a namespace, which is a database of the catalog")
    return ".".join(quote(str(part)) for part in (*parts(namespace), what))


def join_table(namespace: str, join: str, what: str) -> str:
    """Return the full name of a join's table, quoted; characters not allowed become ``_``.

    Examples
    --------
    >>> join_table("ml", "team/search.v1", "logged")
    '`ml`.`team_search_v1_logged`'
    """
    return table_of(namespace, f"{re.sub('[^A-Za-z0-9_]', '_', join)}_{what}")


def create_log_table(spark: SparkSession, namespace: str, location: str | None = None) -> str:
    """Create the query log table of a namespace if it does not exist.

    Parameters
    ----------
    spark : SparkSession
    namespace : str
        An existing database.
    location : str, optional
        An existing folder that services write to; by default the table's own.

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
        f"{quote(column)} {'BIGINT' if column == 'ts_millis' else 'STRING'} COMMENT {literal(_COMMENTS[column])}"
        for column in LOG_COLUMNS
    )
    place = "" if location is None else f" LOCATION {literal(location)}"
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS {name} ({columns}) USING parquet"
        f" PARTITIONED BY (ds STRING, join_name STRING){place}"
        f" TBLPROPERTIES ({literal(RETENTION)} = '{DEFAULT_RETENTION}')"
    ).collect()
    return name


def log_table(spark: SparkSession, namespace: str) -> str:
    """Return the full name of a namespace's query log, quoted.

    Raises
    ------
    NoSuchTableError
        If there is no query log.
    """
    name = table_of(namespace, QUERY_LOGS)
    if not spark.catalog.tableExists(name):
        raise NoSuchTableError(f"there is no query log {name}: create_log_table makes it")
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
        Columns key_bytes and value_bytes (base64 text, or raw Avro bytes) and ts_millis;
        query_source, schema_hash and type are optional. The UTC day of a query's time is its
        partition; one without a time, or with a time before 2000, is in that of the current day,
        where it is counted as ``no time``.
    namespace : str
    join : str

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
    with session_settings(spark, INSERTING):
        data.selectExpr(*cells).write.insertInto(log_table(spark, namespace))


def read_schemas(spark: SparkSession, namespace: str) -> LogSchemas:
    """Read the schemas stored beside the query log; empty if there are none."""
    from pyspark.errors import AnalysisException

    folder = f"{log_folder(spark, namespace).rstrip('/')}/{SCHEMAS_FOLDER}"
    try:
        texts = spark.read.option("wholetext", "true").text(folder).collect()
    except AnalysisException as error:
        if condition_of(error) == "PATH_NOT_FOUND":
            return LogSchemas()
        raise
    return LogSchemas(LogSchema.from_json(row[0]) for row in texts)


_WHOLE = "tidegauge.widened"
"""Table property of a copy that has all rows."""


def widen(spark: SparkSession, name: str, types: Mapping[str, Any], by: str) -> None:
    """Give columns of a table wider types.

    Spark's catalog cannot, so that a copy takes the table's place. It is complete before the table
    is dropped; a run that is killed between the two leaves it to `finish_widening`.

    Parameters
    ----------
    spark : SparkSession
    name : str
        Quoted.
    types : mapping of str to object
        The wider types, in Spark's JSON form.
    by : str
        The partition column, a text.
    """
    copy = _copy_of(name)
    fields: list[dict[str, Any]] = spark.table(name).schema.jsonValue()["fields"]
    columns = {f["name"]: types.get(f["name"], f["type"]) for f in fields if f["name"] != by}
    kept: dict[str, str] = {
        key: value
        for key, value in spark.sql(f"SHOW TBLPROPERTIES {name}").collect()
        if key.startswith("tidegauge.")
    }
    made = ", ".join(f"{quote(column)} {type_sql(of)}" for column, of in columns.items())
    cast = [
        f"CAST({quote(column)} AS {type_sql(of)}) AS {quote(column)}"
        for column, of in columns.items()
    ]
    spark.sql(f"DROP TABLE IF EXISTS {copy}").collect()
    spark.sql(f"CREATE TABLE {copy} ({made}) USING parquet PARTITIONED BY ({by} STRING)").collect()
    with session_settings(spark, INSERTING):
        spark.table(name).selectExpr(*cast, by).write.insertInto(copy)
    told = ", ".join(f"{literal(k)} = {literal(v)}" for k, v in {**kept, _WHOLE: "true"}.items())
    spark.sql(f"ALTER TABLE {copy} SET TBLPROPERTIES ({told})").collect()
    spark.sql(f"DROP TABLE {name}").collect()
    finish_widening(spark, name)


def finish_widening(spark: SparkSession, name: str) -> None:
    """Put a complete copy in the place of the table that it was made of, and drop any other."""
    copy = _copy_of(name)
    if not spark.catalog.tableExists(copy):
        return
    properties: dict[str, str] = dict(spark.sql(f"SHOW TBLPROPERTIES {copy}").collect())
    if _WHOLE in properties and not spark.catalog.tableExists(name):
        spark.sql(f"ALTER TABLE {copy} RENAME TO {name}").collect()
        spark.sql(f"ALTER TABLE {name} UNSET TBLPROPERTIES ({literal(_WHOLE)})").collect()
    else:
        spark.sql(f"DROP TABLE {copy}").collect()


def _copy_of(name: str) -> str:
    return f"{name[:-1]}__wider`"


DERIVED = ("_logged", "_comparison", "_consistency_metrics")
"""Ends of the names of tables that are made of a query log."""
OF_DERIVED = "tidegauge.retention"
"""Their property; other tools have a ``retention`` of their own meaning."""


@dataclass(frozen=True)
class CleanedLog:
    """Result of dropping old partitions of a query log.

    Attributes
    ----------
    table : str
    retention : int
        Retention in days.
    dropped : tuple of str
        Names of dropped partitions; in a dry run of those that would be dropped.
    kept : int
        Number of partitions kept.
    unknown : tuple of str
        Partitions whose ``ds`` is not a day. They are always kept.
    dry_run : bool
    derived : tuple of CleanedLog
        The same of tables made of the log that have a retention of their own.
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
        told = (
            f"{self.table}: {did} {len(self.dropped)} partitions older than {self.retention} days"
        )
        return "\n".join([f"{told}, kept {self.kept}", *map(str, self.derived)])


def clean(
    spark: SparkSession, namespace: str, now: datetime | None = None, *, dry_run: bool = False
) -> CleanedLog:
    """Drop partitions of a namespace's query log, and their files, that exceed the retention.

    The table property ``retention`` is the number of days, 90 if it is not set. A day exactly that
    old is kept. Tables of logged rows, compared rows and metrics that were made of the log are kept
    whole, unless their property ``tidegauge.retention`` is such a number.

    Parameters
    ----------
    spark : SparkSession
    namespace : str
    now : datetime, optional
        Reference time, whose UTC day counts; now by default.
    dry_run : bool
        Report what would be dropped, without dropping it.

    Raises
    ------
    NoSuchTableError
        If there is no query log.
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
    log = _cleaned(spark, table, retention_of(_properties(spark, table), table), today, dry_run)
    there = spark.sql(f"SHOW TABLES IN {table.rpartition('.')[0]}").collect()
    names = sorted(row.tableName for row in there if not row.isTemporary)
    made = {
        one: _properties(spark, one)
        for one in (table_of(namespace, name) for name in names if name.endswith(DERIVED))
    }
    derived = tuple(
        _cleaned(spark, one, retention_of(of, one, OF_DERIVED), today, dry_run)
        for one, of in made.items()
        if OF_DERIVED in of
    )
    return replace(log, derived=derived)


def _properties(spark: SparkSession, table: str) -> dict[str, str]:
    return dict(spark.sql(f"SHOW TBLPROPERTIES {table}").collect())


def _cleaned(
    spark: SparkSession,
    table: str,
    days: int,
    today: date,
    dry_run: bool,  # noqa: FBT001
) -> CleanedLog:
    dropped, unknown, kept = [], [], 0
    for row in spark.sql(f"SHOW PARTITIONS {table}").collect():
        partition = Partition.from_path(row[0])
        day = _day(partition)
        if day is None:
            unknown.append(partition.name)
        elif today - day > timedelta(days=days):
            dropped.append(partition)
        else:
            kept += 1
    for partition in () if dry_run else dropped:
        _drop(spark, table, partition)
    names = sorted(partition.name for partition in dropped)
    return CleanedLog(table, days, tuple(names), kept, tuple(sorted(unknown)), dry_run)


def retention_of(properties: Mapping[str, str], table: str, name: str = RETENTION) -> int:
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
    tidegauge.analyzers.core.errors.SourceError: property 'retention' of logs is a number of days, not 'a month'
    """
    text = properties.get(name, str(DEFAULT_RETENTION))
    if not (text.strip().isascii() and text.strip().isdigit()) or len(text.strip()) > 6:
        raise SourceError(f"property {name!r} of {table} is a number of days, not {text!r}")
    return int(text)


def _day(partition: Partition) -> date | None:
    ds = partition.value("ds")
    return date.fromisoformat(ds) if is_day(ds) else None


def _drop(spark: SparkSession, table: str, partition: Partition) -> None:
    """Drop a partition; for an external table, delete its files, too."""
    from pyarrow import fs

    which = partition_sql(partition)
    location = describe_table(spark, f"{table} {which}").location
    spark.sql(f"ALTER TABLE {table} DROP IF EXISTS {which}").collect()
    if spark.catalog.getTable(table).tableType != "MANAGED":
        system, path = file_system(location)
        if system.get_file_info(path).type != fs.FileType.NotFound:
            system.delete_dir(path)
