"""Connectors of servers: metastore tables, JDBC, Cassandra, Elasticsearch over its HTTP API, and Kafka."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
import warnings
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote as percent

from tidegauge.analyzers.core.errors import (
    GriffinConfigError,
    GriffinDeprecationWarning,
    NoSuchTableError,
    SetupError,
    SourceError,
    describe,
)
from tidegauge.analyzers.core.sql import quote
from tidegauge.analyzers.sources.opening import open_table
from tidegauge.griffin.connectors import (
    Connector,
    condition_sql,
    driver_of,
    missing_driver,
    need_format,
    selection_sql,
    spark_package,
    spark_url,
    split_outside,
    table_name,
)
from tidegauge.griffin.plugins import suggested
from tidegauge.griffin.sinks import server_reason
from tidegauge.spark.session import read_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegauge.analyzers.sources.sources import Source


_CASSANDRA_FORMAT = ("spark-cassandra-connector", "com.datastax.spark", "3.5.1")


class TableConnector(Connector):
    """Read a table, optionally filtered by ``where``, a condition in the DSL.

    Parameters
    ----------
    config : mapping
        The connector's configuration.
    """

    required: ClassVar[tuple[tuple[str, ...], ...]] = (("table.name", "tablename"),)

    def check(self, spark: SparkSession) -> None:
        """Validate the configuration, including the condition ``where``."""
        super().check(spark)
        if where := self.text("where"):
            condition_sql(where)

    def batch(self, spark: SparkSession) -> DataFrame:
        """Return the rows that meet the condition, each once."""
        frame = self.table(spark)
        where = self.text("where")
        return frame.where(condition_sql(where)) if where else frame

    @abstractmethod
    def table(self, spark: SparkSession) -> DataFrame:
        """Return all rows."""


class HiveConnector(TableConnector):
    """Read a metastore table. Keys: ``database``, ``table.name``, ``where``."""

    @property
    def _name(self) -> str:
        names = (self.text("database", default="default"), self.text("table.name", "tablename"))
        if any(
            "${" in name for name in names
        ):  # Spark substitutes variables in table names, even within quotes
            raise GriffinConfigError(f"invalid table name {'.'.join(names)!r}")
        return ".".join(map(quote, names))

    def partitioned(self, spark: SparkSession, keys: Sequence[str]) -> Source | None:
        """Return the table as a source if it is not filtered, else None."""
        filtered = self.text("where") or self.text("partitions")
        return None if filtered else open_table(spark, self._name, keys)

    def table(self, spark: SparkSession) -> DataFrame:
        """Return all rows, or those selected by the deprecated key ``partitions``."""
        frame = spark.table(self._name)
        partitions = self.text("partitions")
        if not partitions:
            return frame
        warnings.warn(
            "'partitions' is deprecated; use 'where'", GriffinDeprecationWarning, stacklevel=2
        )
        conditions = [
            " AND ".join(f"({condition_sql(part)})" for part in split_outside(group, ","))
            for group in split_outside(partitions, ";")
        ]
        return frame.where(" OR ".join(f"({group})" for group in conditions))


class JdbcConnector(TableConnector):
    """Read a database table or query over JDBC.

    Keys: ``url``, ``user``, ``password``, ``driver``, ``database``, ``tablename`` or ``sql``.
    """

    required = (("url",), ("user",), ("password",), ("tablename", "table.name", "sql"))

    def check(self, spark: SparkSession) -> None:
        """Validate the configuration, including the form of ``url``."""
        super().check(spark)
        if not self.text("url").startswith("jdbc:"):
            raise GriffinConfigError("'url' must begin with 'jdbc:'")

    def table(self, spark: SparkSession) -> DataFrame:
        """Return all rows of the table, or of the query."""
        url = self.text("url")
        options = {"url": spark_url(url), **{key: self.text(key) for key in ("user", "password")}}
        if driver := self.text("driver") or driver_of(url):
            options["driver"] = driver
        if query := self.text("sql"):
            options["query"] = query
        else:
            parts = [self.text("database"), self.text("tablename", "table.name")]
            options["dbtable"] = ".".join(table_name(url, part) for part in parts if part)
        try:
            return spark.read.format("jdbc").options(**options).load()
        except Exception as error:
            if hint := missing_driver(url, error):
                raise SetupError(f"{describe(error)}{hint}") from error
            raise


class MysqlConnector(JdbcConnector):
    """Read a MySQL table, in the configuration of older versions."""


class CassandraConnector(TableConnector):
    """Read a Cassandra table.

    Keys: ``database``, ``table.name``, ``where``, ``host``, ``port``, ``user``, ``password``.
    """

    reader: ClassVar[str] = "org.apache.spark.sql.cassandra"

    def check(self, spark: SparkSession) -> None:
        """Validate the configuration, and that Spark has a Cassandra reader."""
        super().check(spark)
        need_format(spark, self.reader, spark_package(*_CASSANDRA_FORMAT))

    def table(self, spark: SparkSession) -> DataFrame:
        """Return all rows.

        Raises
        ------
        NoSuchTableError
            If the table does not exist.
        """
        keyspace = self.text("database", default="default")
        name = self.text("table.name", "tablename")
        options = {
            "keyspace": keyspace,
            "table": name,
            "spark.cassandra.connection.host": self.text("host", default="localhost"),
            "spark.cassandra.connection.port": self.text("port", default="9042"),
        }
        for key, option in (("user", "username"), ("password", "password")):
            if value := self.text(key):
                options[f"spark.cassandra.auth.{option}"] = value
        try:
            return spark.read.format(self.reader).options(**options).load()
        except Exception as error:
            # On Spark 4 the connector lacks the class itself.
            if "NoSuchTableException" in str(error):
                raise NoSuchTableError(f"table {keyspace}.{name} does not exist") from error
            raise


_ELASTICSEARCH_OPTIONS = (
    "es.nodes", "es.port", "es.net.ssl", "es.net.http.auth.user", "es.net.http.auth.pass",
    "es.scroll.size", "es.scroll.keepalive",
)  # fmt: skip
_TIMEOUT_SECONDS = 60
_SAMPLE_DOCUMENTS = 100


class ElasticsearchConnector(Connector):
    """Read Elasticsearch documents.

    Keys: ``paths`` of indexes, ``selectionExprs``, ``filterExprs``, and ``options`` as in
    Elasticsearch for Hadoop. All documents pass through the driver, in pages. Expressions are in
    the DSL. The older keys ``index``, ``host``, ``port`` and ``fields`` are supported too.

    Parameters
    ----------
    config : mapping
        The connector's configuration.
    """

    required = (("paths", "index"),)

    def check(self, spark: SparkSession) -> None:
        """Validate the configuration."""
        super().check(spark)
        unknown = [name for name in self.options() if name not in _ELASTICSEARCH_OPTIONS]
        if unknown:
            msg = f"unknown option {unknown[0]!r}; {suggested(unknown[0], _ELASTICSEARCH_OPTIONS)}"
            raise GriffinConfigError(msg)
        if self.config.get("sql"):
            msg = "'sql' is no longer supported; use 'selectionExprs' and 'filterExprs'"
            raise GriffinConfigError(msg)
        for text in self.texts("filterExprs"):
            condition_sql(text)
        for text in self.texts("selectionExprs") + self.texts("fields"):
            selection_sql(text)

    def batch(self, spark: SparkSession) -> DataFrame:
        """Return all documents that pass the filters."""
        return self._frame(spark, self._documents())

    def columns(self, spark: SparkSession) -> DataFrame:
        """Return the columns that the first 100 documents have; no others are read."""
        page = self._ask(f"/{self._path}/_search", {"size": _SAMPLE_DOCUMENTS, "sort": ["_doc"]})
        return self._frame(spark, (hit["_source"] for hit in page["hits"]["hits"]))

    def _frame(self, spark: SparkSession, documents: Iterable[Mapping[str, Any]]) -> DataFrame:
        rows = [(json.dumps(document),) for document in documents]
        if not rows:
            msg = f"found no documents in {', '.join(self._indexes)}, so their fields are unknown"
            raise SourceError(msg)
        frame = read_json(spark.createDataFrame(rows, "value STRING"))
        for text in self.texts("filterExprs"):
            frame = frame.where(condition_sql(text))
        selected = self.texts("selectionExprs") + self.texts("fields")
        return frame.selectExpr(*map(selection_sql, selected)) if selected else frame

    @property
    def _indexes(self) -> list[str]:
        return self.texts("paths" if self.config.get("paths") else "index")

    @property
    def _path(self) -> str:
        return ",".join(percent(index, safe="*") for index in self._indexes)

    def _documents(self) -> Iterator[Mapping[str, Any]]:
        options = self.options()
        keep = options.get("es.scroll.keepalive", "5m")
        size = int(options.get("es.scroll.size", "1000"))
        page = self._ask(
            f"/{self._path}/_search?scroll={percent(keep)}", {"size": size, "sort": ["_doc"]}
        )
        try:
            while page["hits"]["hits"]:
                for hit in page["hits"]["hits"]:
                    yield hit["_source"]
                scroll = page["_scroll_id"]
                page = self._ask("/_search/scroll", {"scroll": keep, "scroll_id": scroll})
        finally:  # else the server holds it for minutes
            if scroll := page.get("_scroll_id"):
                with suppress(SourceError, OSError):
                    self._ask("/_search/scroll", {"scroll_id": scroll}, "DELETE")

    def _ask(self, path: str, body: Mapping[str, Any], method: str = "POST") -> dict[str, Any]:
        options = self.options()
        node = options.get("es.nodes") or self.text("host", default="localhost")
        node = node.split(",")[0].strip()
        if "://" not in node:
            node = f"{'https' if options.get('es.net.ssl') == 'true' else 'http'}://{node}"
        if ":" not in node.partition("://")[2]:
            node = f"{node}:{options.get('es.port') or self.text('port', default='9200')}"
        request = urllib.request.Request(  # noqa: S310 - the scheme is configured
            node + path,
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
            method=method,
        )
        if user := options.get("es.net.http.auth.user"):
            credentials = f"{user}:{options.get('es.net.http.auth.pass', '')}".encode()
            request.add_header("Authorization", f"Basic {base64.b64encode(credentials).decode()}")
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310
                content: dict[str, Any] = json.loads(answer.read())
        except (OSError, ValueError) as error:
            reason = server_reason(error) if isinstance(error, urllib.error.HTTPError) else ""
            msg = f"cannot read {node}{path.partition('?')[0]}: {error}{reason}"
            raise SourceError(msg) from error
        return content


TIMESTAMP_COLUMN = "__kafka_timestamp"
_KAFKA_PACKAGE = "spark-sql-kafka-0-10"
_IGNORED_SETTINGS = {
    "auto.offset.reset", "auto.commit.enable", "enable.auto.commit", "group.id", "key.deserializer",
    "value.deserializer", "metadata.broker.list", "zookeeper.connect",
}  # fmt: skip
"""Consumer settings that are not passed on, as Spark sets them itself."""
_START_BY_RESET = {
    "smallest": "earliest",
    "earliest": "earliest",
    "largest": "latest",
    "latest": "latest",
}


class KafkaConnector(Connector):
    """Read Kafka topics.

    Keys: ``kafka.config``, ``topics`` separated by commas, ``key.type``, ``value.type``, and
    ``options`` of Spark's reader. Rows have ``value``, as text, and ``__kafka_timestamp``, Kafka's
    timestamp of the message. A batch is all current messages; a stream starts at
    ``auto.offset.reset``, by default at the latest offset, and resumes from Spark's checkpoint, not
    from the offsets of ``group.id``.

    Parameters
    ----------
    config : mapping
        The connector's configuration.
    """

    required = (("kafka.config",), ("topics",))

    def check(self, spark: SparkSession) -> None:
        """Validate the configuration, and that Spark has a Kafka reader."""
        super().check(spark)
        _ = self._options
        for key in ("key.type", "value.type"):
            kind = self.text(key, default="String")
            if kind.rpartition(".")[2].lower() != "string":
                raise GriffinConfigError(f"{key!r} must be 'java.lang.String', not {kind!r}")
        _ = self._start
        need_format(spark, "kafka", spark_package(_KAFKA_PACKAGE))

    @property
    def _kafka(self) -> Mapping[str, str]:
        return self.options("kafka.config")

    @property
    def _options(self) -> dict[str, str]:
        kafka = self._kafka
        servers = kafka.get("bootstrap.servers") or kafka.get("metadata.broker.list")
        if not servers:
            hint = suggested("bootstrap.servers", kafka)
            msg = f"'kafka.config': the key 'bootstrap.servers' is missing; {hint}"
            raise GriffinConfigError(msg)
        passed = {
            f"kafka.{key}": value for key, value in kafka.items() if key not in _IGNORED_SETTINGS
        }
        topics = [topic.strip() for topic in self.text("topics").split(",") if topic.strip()]
        return {
            **passed,
            "kafka.bootstrap.servers": servers,
            "subscribe": ",".join(topics),
            **self.options(),
        }

    @property
    def _start(self) -> str:
        reset = self._kafka.get("auto.offset.reset", "latest")
        if reset not in _START_BY_RESET:
            msg = f"'auto.offset.reset' cannot be {reset!r}; {suggested(reset, _START_BY_RESET)}"
            raise GriffinConfigError(msg)
        return _START_BY_RESET[reset]

    def batch(self, spark: SparkSession) -> DataFrame:
        """Read all messages from the earliest to the latest offset."""
        options = {"startingOffsets": "earliest", "endingOffsets": "latest", **self._options}
        return _shaped(spark.read.format("kafka").options(**options).load())

    def stream(self, spark: SparkSession) -> DataFrame:
        """Read messages as a stream."""
        options = {"startingOffsets": self._start, **self._options}
        return _shaped(spark.readStream.format("kafka").options(**options).load())


def _shaped(frame: DataFrame) -> DataFrame:
    return frame.selectExpr("CAST(value AS STRING) AS value", f"timestamp AS {TIMESTAMP_COLUMN}")
