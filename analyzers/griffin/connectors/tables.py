"""Tables: of the metastore, of databases by JDBC, of Cassandra."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from analyzers.errors import GriffinConfigError, GriffinDeprecationWarning
from analyzers.griffin.connectors.conditions import condition_sql, split_outside
from analyzers.griffin.connectors.connector import Connector, need_format
from analyzers.griffin.jdbc import table_name
from analyzers.sql import quote
from analyzers.tables import open_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from analyzers.sources import Source


class TableConnector(Connector):
    """A table, and the rows of it that count: ``where`` is a condition in the DSL.

    Parameters
    ----------
    config : mapping
    """

    required: ClassVar[tuple[tuple[str, ...], ...]] = (("table.name", "tablename"),)

    def check(self, spark: SparkSession) -> None:
        """Raise if a key is missing, or ``where`` is no condition."""
        super().check(spark)
        if where := self.text("where"):
            condition_sql(where)

    def batch(self, spark: SparkSession) -> DataFrame:
        """Return the rows for which the condition holds, each once."""
        frame = self.table(spark)
        where = self.text("where")
        return frame.where(condition_sql(where)) if where else frame

    @abstractmethod
    def table(self, spark: SparkSession) -> DataFrame:
        """Return all rows."""


class HiveConnector(TableConnector):
    """A table of the metastore: ``database``, ``table.name``, ``where``."""

    @property
    def _name(self) -> str:
        names = (self.text("database", default="default"), self.text("table.name", "tablename"))
        if any(
            "${" in name for name in names
        ):  # Spark puts settings in its place, within quotes, too
            msg = f"no table can be named {'.'.join(names)!r}"
            raise GriffinConfigError(msg)
        return ".".join(map(quote, names))

    def partitioned(self, spark: SparkSession, keys: Sequence[str]) -> Source | None:
        """Return the table, where all its rows are read."""
        filtered = self.text("where") or self.text("partitions")
        return None if filtered else open_table(spark, self._name, keys)

    def table(self, spark: SparkSession) -> DataFrame:
        """Return all rows, or those of the old key ``partitions``."""
        frame = spark.table(self._name)
        old = self.text("partitions")
        if not old:
            return frame
        warnings.warn("'partitions' is old; write 'where'", GriffinDeprecationWarning, stacklevel=2)
        wanted = [
            " AND ".join(f"({condition_sql(part)})" for part in split_outside(group, ","))
            for group in split_outside(old, ";")
        ]
        return frame.where(" OR ".join(f"({group})" for group in wanted))


class JdbcConnector(TableConnector):
    """A table of a database: ``url``, ``user``, ``password``, ``driver``, ``database``, ``tablename`` or ``sql``."""

    required = (("url",), ("user",), ("password",), ("tablename", "table.name", "sql"))
    driver: ClassVar[str] = ""

    def check(self, spark: SparkSession) -> None:
        """Raise if a key is missing, or ``url`` is none."""
        super().check(spark)
        if not self.text("url").startswith("jdbc:"):
            msg = "'url' must begin with 'jdbc:'"
            raise GriffinConfigError(msg)

    def table(self, spark: SparkSession) -> DataFrame:
        """Return all rows of the table, or of the query."""
        keys = ("url", "user", "password")
        options = {key: self.text(key) for key in keys}
        if driver := self.text("driver", default=self.driver):
            options["driver"] = driver
        if query := self.text("sql"):
            options["query"] = query
        else:
            parts = [self.text("database"), self.text("tablename", "table.name")]
            options["dbtable"] = ".".join(
                table_name(options["url"], part) for part in parts if part
            )
        return spark.read.format("jdbc").options(**options).load()


class MysqlConnector(JdbcConnector):
    """A table of MySQL, as older versions write it."""

    driver = "com.mysql.jdbc.Driver"


class CassandraConnector(TableConnector):
    """A table of Cassandra: ``database``, ``table.name``, ``where``, ``host``, ``port``, ``user``, ``password``."""

    reader: ClassVar[str] = "org.apache.spark.sql.cassandra"

    def check(self, spark: SparkSession) -> None:
        """Raise if a key is missing, or Spark has no package that reads Cassandra."""
        super().check(spark)
        need_format(spark, self.reader, "com.datastax.spark:spark-cassandra-connector")

    def table(self, spark: SparkSession) -> DataFrame:
        """Return all rows."""
        options = {
            "keyspace": self.text("database", default="default"),
            "table": self.text("table.name", "tablename"),
            "spark.cassandra.connection.host": self.text("host", default="localhost"),
            "spark.cassandra.connection.port": self.text("port", default="9042"),
        }
        for key, option in (("user", "username"), ("password", "password")):
            if value := self.text(key):
                options[f"spark.cassandra.auth.{option}"] = value
        return spark.read.format(self.reader).options(**options).load()
