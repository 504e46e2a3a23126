"""Table connectors: metastore tables, JDBC databases, Cassandra."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from tidegauge.analyzers.core.errors import (
    GriffinConfigError,
    GriffinDeprecationWarning,
    NoSuchTableError,
    SetupError,
    describe,
)
from tidegauge.analyzers.core.sql import quote
from tidegauge.analyzers.sources.catalog_tables import open_table
from tidegauge.griffin.connectors.base import Connector, need_format, spark_package
from tidegauge.griffin.connectors.conditions import condition_sql, split_outside
from tidegauge.griffin.jdbc import driver_of, missing_driver, spark_url, table_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegauge.analyzers.sources.sources import Source


_CASSANDRA = ("spark-cassandra-connector", "com.datastax.spark", "3.5.1")


class TableConnector(Connector):
    """Read a table, optionally filtered by ``where``, a condition in the DSL.

    Parameters
    ----------
    config : mapping
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
            msg = f"no table can be named {'.'.join(names)!r}"
            raise GriffinConfigError(msg)
        return ".".join(map(quote, names))

    def partitioned(self, spark: SparkSession, keys: Sequence[str]) -> Source | None:
        """Return the table as a source if it is not filtered, else None."""
        filtered = self.text("where") or self.text("partitions")
        return None if filtered else open_table(spark, self._name, keys)

    def table(self, spark: SparkSession) -> DataFrame:
        """Return all rows, or those selected by the deprecated key ``partitions``."""
        frame = spark.table(self._name)
        old = self.text("partitions")
        if not old:
            return frame
        warnings.warn(
            "'partitions' is deprecated; use 'where'", GriffinDeprecationWarning, stacklevel=2
        )
        wanted = [
            " AND ".join(f"({condition_sql(part)})" for part in split_outside(group, ","))
            for group in split_outside(old, ";")
        ]
        return frame.where(" OR ".join(f"({group})" for group in wanted))


class JdbcConnector(TableConnector):
    """Read a database table or query over JDBC.

    Keys: ``url``, ``user``, ``password``, ``driver``, ``database``, ``tablename`` or ``sql``.
    """

    required = (("url",), ("user",), ("password",), ("tablename", "table.name", "sql"))

    def check(self, spark: SparkSession) -> None:
        """Validate the configuration, including the form of ``url``."""
        super().check(spark)
        if not self.text("url").startswith("jdbc:"):
            msg = "'url' must begin with 'jdbc:'"
            raise GriffinConfigError(msg)

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
        need_format(spark, self.reader, spark_package(*_CASSANDRA))

    def table(self, spark: SparkSession) -> DataFrame:
        """Return all rows.

        Raises
        ------
        NoSuchTableError
            If there is no such table.
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
                raise NoSuchTableError(f"there is no table {keyspace}.{name}") from error
            raise
