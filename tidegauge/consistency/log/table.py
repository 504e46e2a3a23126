"""The query log table, and the names of tables derived from it."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidegauge.analyzers.core.errors import NoSuchTableError, SourceError, SuiteError, condition_of
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.sql import literal, parts, quote
from tidegauge.analyzers.scan.capabilities import session_settings
from tidegauge.analyzers.sources.hive_table import describe_table
from tidegauge.consistency.log.query import FIRST_MS, LAST_MS, LOG_COLUMNS
from tidegauge.consistency.log.schemas import FOLDER, LogSchema, LogSchemas

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

    folder = f"{log_folder(spark, namespace).rstrip('/')}/{FOLDER}"
    try:
        texts = spark.read.option("wholetext", "true").text(folder).collect()
    except AnalysisException as error:
        if condition_of(error) == "PATH_NOT_FOUND":
            return LogSchemas()
        raise
    return LogSchemas(LogSchema.from_json(row[0]) for row in texts)
