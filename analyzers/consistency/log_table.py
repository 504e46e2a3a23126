"""The table of logged queries, and the names of the tables that are made of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from analyzers.consistency.queries import LOG_COLUMNS
from analyzers.consistency.schemas import FOLDER, LogSchema, LogSchemas
from analyzers.errors import NoSuchTableError, SourceError, SuiteError
from analyzers.rules.fingerprints import configured
from analyzers.schema import Schema
from analyzers.sources import describe_table
from analyzers.sql import literal, parts, quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUERY_LOGS = "query_logs"
RETENTION = "retention"
"""The table's property that says for how many days partitions are kept."""
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
    """Return the full name of a table that belongs to a join; what tables cannot be called is ``_``.

    Examples
    --------
    >>> join_table("ml", "team/search.v1", "logged")
    '`ml`.`team_search_v1_logged`'
    """
    return table_of(namespace, f"{re.sub('[^A-Za-z0-9_]', '_', join)}_{what}")


def create_log_table(spark: SparkSession, namespace: str, location: str | None = None) -> str:
    """Create the table of logged queries in a namespace, unless it is there.

    Parameters
    ----------
    spark : SparkSession
    namespace : str
        A database, which has to be there.
    location : str, optional
        The folder, where services write to one that is there already; the table's own, unless given.

    Returns
    -------
    str
        The table's full name, quoted. How long partitions are kept is its property ``retention``, 90 days.
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
        If there is none.
    """
    name = table_of(namespace, QUERY_LOGS)
    if not spark.catalog.tableExists(name):
        raise NoSuchTableError(f"there is no query log {name}: create_log_table makes it")
    return name


def log_folder(spark: SparkSession, namespace: str) -> str:
    """Return the folder of a namespace's query log, for services to write to."""
    return str(describe_table(spark, log_table(spark, namespace))["location"])


def sync_log_table(spark: SparkSession, namespace: str) -> None:
    """Let the table know the partitions that services made in its folder since."""
    spark.sql(f"MSCK REPAIR TABLE {log_table(spark, namespace)}").collect()


def append_queries(data: DataFrame, namespace: str, join: str) -> None:
    """Append queries that are a DataFrame to the query log.

    Parameters
    ----------
    data : DataFrame
        Columns key_bytes and value_bytes (base64 text, or the bytes of Avro) and ts_millis; query_source,
        schema_hash and type may be lacking. The day in UTC of a query's time is its partition.
    namespace : str
    join : str

    Raises
    ------
    SourceError
        If a column is lacking.
    """
    schema = Schema.of_frame(data)
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
    day = "date_from_unix_date(CAST(floor(ts_millis / 86400000D) AS INT))"  # in UTC
    cells += [f"CAST({day} AS STRING) AS ds", f"{literal(join)} AS join_name"]
    with configured(spark, INSERTING):
        data.selectExpr(*cells).write.insertInto(log_table(spark, namespace))


def read_schemas(spark: SparkSession, namespace: str) -> LogSchemas:
    """Read the schemas that services left beside the query log; none if there are none."""
    from pyspark.errors import AnalysisException  # noqa: PLC0415 - core imports no Spark

    folder = f"{log_folder(spark, namespace).rstrip('/')}/{FOLDER}"
    try:
        texts = spark.read.option("wholetext", "true").text(folder).collect()
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return LogSchemas()
        raise
    return LogSchemas(LogSchema.from_json(row[0]) for row in texts)
