"""Database sink, using Spark's JDBC writer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.errors import GriffinConfigError
from tidegauge.griffin.jdbc import driver_of, missing_driver, spark_url, table_name
from tidegauge.griffin.sinks.base import Sink, plain

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_METRICS = "job STRING, tmst BIGINT, value STRING, application STRING"


class DatabaseSink(Sink):
    """Append rows to database tables over JDBC.

    Keys: ``url``, ``user``, ``password``, ``driver``, ``table``, ``records.table``, and ``options``
    of Spark's writer. ``table`` gets a row for each time, with the metrics as JSON;
    ``records.table``, if configured, a row for each record, as JSON. Missing tables are created,
    and rows are appended. Spark needs the database's driver.

    Parameters
    ----------
    name : str
    config : mapping
    """

    required = ("url", "table")

    def check(self) -> None:
        """Validate the configuration, including the form of ``url``."""
        super().check()
        if not str(self.config["url"]).startswith("jdbc:"):
            msg = f"sink {self.name!r}: 'url' must begin with 'jdbc:'"
            raise GriffinConfigError(msg)
        if not isinstance(self.config.get("options", {}), Mapping):
            msg = f"sink {self.name!r}: 'options' must be a mapping"
            raise GriffinConfigError(msg)

    def metrics(self, timestamp: int, values: Mapping[str, Any]) -> None:
        """Append a row with the metrics of a time."""
        assert self.spark is not None, "a sink that writes by Spark is given one"
        told = json.dumps(plain(values), ensure_ascii=False, allow_nan=False)
        row = (self.job, timestamp, told, self.application)
        self._add(self.spark.createDataFrame([row], _METRICS), str(self.config["table"]))

    def records(self, name: str, frame: DataFrame, timestamp: int) -> None:
        """Append a row for each record, if a table for records is configured."""
        if table := self.config.get("records.table"):
            from pyspark.sql import functions as sf

            rows = frame.selectExpr(
                "to_json(struct(*), map('ignoreNullFields', 'false')) AS record"
            )
            told = (
                sf.lit(self.job).alias("job"),
                sf.lit(timestamp).alias("tmst"),
                sf.lit(name).alias("name"),
            )
            self._add(rows.select(*told, "record"), str(table))

    def _add(self, frame: DataFrame, table: str) -> None:
        keys = ("url", "user", "password", "driver")
        options = {key: str(self.config[key]) for key in keys if self.config.get(key)}
        url = options["url"]
        if driver := options.get("driver") or driver_of(url):
            options["driver"] = driver
        options["url"] = spark_url(url)
        options |= {str(key): str(value) for key, value in self.config.get("options", {}).items()}
        writer = frame.write.format("jdbc").mode("append").options(**options)
        try:
            writer.option("dbtable", table_name(url, table)).save()
        except Exception as error:
            raise self.failed(error, missing_driver(url, error)) from error
