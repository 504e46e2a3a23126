"""Sources of a job as frames: read, prepared by the rules before measuring, and given their time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from analyzers.errors import SourceError, TidegaugeError, describe
from analyzers.griffin.config import ConnectorConfig, RuleConfig, SourceConfig
from analyzers.griffin.connectors import open_batch, partitioned
from analyzers.griffin.frame_ops import operate
from analyzers.partitions import TMST, Partition
from analyzers.sources import Listed, Source
from analyzers.views import Views

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Loader:
    """Reads the sources of a job.

    What its frames are read by is there as long as this object is.

    Parameters
    ----------
    spark : SparkSession
    timestamp : int
        The time of the rows, in milliseconds since 1970.
    """

    def __init__(self, spark: SparkSession, timestamp: int) -> None:
        self.spark, self.timestamp = spark, timestamp
        self._held: list[Views] = []

    def load(self, config: SourceConfig) -> DataFrame:
        """Return the rows of a source, with their time as ``__tmst``.

        Connectors of one source are put below each other, with the columns that all of them have.

        Raises
        ------
        SourceError
            If it has no connector, or one cannot be read.
        """
        frames = [
            self.prepared(open_batch(c, self.spark, config.name), c, config.name)
            for c in config.connectors
        ]
        if not frames:
            raise SourceError(f"source {config.name!r} has no connector")
        return self.timed(reduce(_below, frames))

    def prepared(self, frame: DataFrame, connector: ConnectorConfig, source: str = "") -> DataFrame:
        """Return a frame as the connector's rules before measuring leave it; the last one's result counts.

        Each reads the frames of those before it by their names. A rule without names reads the connector's
        frame and takes its place.

        Raises
        ------
        SourceError
            Naming the source, and which of the rules cannot be.
        """
        if not connector.pre_proc:
            return frame
        views = Views(self.spark)
        self._held.append(views)
        views.add(connector.frame, frame)
        for rule in connector.pre_proc:
            try:
                frame = _made(rule, views, connector.frame)
                views.add(rule.out_name or connector.frame, frame)
            except Exception as error:
                said = error if isinstance(error, TidegaugeError) else describe(error)
                msg = f"source {source!r}: rule {rule.number} before measuring: {said}"
                raise SourceError(msg) from error
        return frame

    def timed(self, frame: DataFrame) -> DataFrame:
        """Return a frame with the time for all of its rows."""
        from pyspark.sql import functions as F  # noqa: N812, PLC0415 - Spark's customary name

        return frame.withColumn(TMST, F.lit(self.timestamp).cast("long"))


def _made(rule: RuleConfig, views: Views, default: str) -> DataFrame:
    if rule.dsl_type == "df-opr":
        return operate(rule.rule, views.frame(rule.in_name or default), rule.details)
    return views.query(rule.rule)


def _below(a: DataFrame, b: DataFrame) -> DataFrame:
    common = [name for name in a.columns if name in b.columns]
    if not common:
        raise SourceError(
            f"connectors of one source have no column in common: {a.columns} and {b.columns}"
        )
    return a.select(*common).unionByName(b.select(*common))


@dataclass(frozen=True)
class PreparedSource:
    """A partitioned table or folder as rules see it.

    Attributes
    ----------
    source : Source
    connector : ConnectorConfig
    loader : Loader
    called : str
        The source's name in the job.
    """

    source: Source
    connector: ConnectorConfig
    loader: Loader
    called: str = ""

    @classmethod
    def of(cls, config: SourceConfig, keys: Sequence[str], loader: Loader) -> PreparedSource:
        """Return the source of a configuration.

        Raises
        ------
        SourceError
            If it is not one table or folder that is partitioned so.
        """
        if len(config.connectors) != 1:
            raise SourceError(
                f"source {config.name!r} has {len(config.connectors)} connectors; only one is measured by partitions"
            )
        (connector,) = config.connectors
        source = partitioned(connector, loader.spark, keys, config.name)
        return cls(source, connector, loader, config.name)

    @property
    def name(self) -> str | None:
        """The table or folder."""
        return self.source.name

    @property
    def keys(self) -> tuple[str, ...]:
        """The partition columns."""
        return self.source.keys

    def list_partitions(self) -> list[Listed]:
        """List what is there now."""
        return self.source.list_partitions()

    def read(self, partitions: Collection[Partition] | None = None) -> DataFrame:
        """Return the rows of some partitions."""
        frame = self.loader.prepared(self.source.read(partitions), self.connector, self.called)
        missing = set(self.keys) - set(frame.columns)
        if missing:
            raise SourceError(
                f"the rules before measuring leave no column {min(missing)!r}, by which the source is partitioned"
            )
        return self.loader.timed(frame)

    def partition_of(self, key: Sequence[str]) -> Partition | None:
        """Return the listed partition for the values that a scan found, or None."""
        return self.source.partition_of(tuple(key))
