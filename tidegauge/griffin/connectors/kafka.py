"""Kafka connector, using Spark's package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidegauge.analyzers.core.errors import GriffinConfigError
from tidegauge.griffin.connectors.base import Connector, need_format, spark_package
from tidegauge.griffin.plugins import suggested

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TIMESTAMP_COLUMN = "__kafka_timestamp"
_KAFKA_PACKAGE = "spark-sql-kafka-0-10"
_IGNORED_SETTINGS = {
    "auto.offset.reset",
    "auto.commit.enable",
    "enable.auto.commit",
    "group.id",
    "key.deserializer",
    "value.deserializer",
    "metadata.broker.list",
    "zookeeper.connect",
}
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
                msg = f"{key!r} must be 'java.lang.String', not {kind!r}"
                raise GriffinConfigError(msg)
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
