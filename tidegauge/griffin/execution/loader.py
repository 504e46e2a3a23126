"""Load the sources of a job as frames: read, pre-process, and add the timestamp."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING

from tidegauge.analyzers.core.errors import (
    DslError,
    SourceError,
    TidegaugeError,
    UnresolvedQueryError,
    describe,
)
from tidegauge.analyzers.core.partitions import TMST, Partition
from tidegauge.analyzers.scan.user_sql import Views
from tidegauge.analyzers.sources.sources import ListedPartition, Source
from tidegauge.griffin.config import ConnectorConfig, RuleConfig, SourceConfig
from tidegauge.griffin.connectors import open_batch, partitioned
from tidegauge.griffin.connectors.base import Connector
from tidegauge.griffin.execution.user_sql import plan_error, query_text, refuse_bad_patterns
from tidegauge.griffin.frame_operations import operate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Loader:
    """Load the sources of a job.

    The views behind its frames live as long as this object.

    Parameters
    ----------
    spark : SparkSession
        The session that reads the sources.
    timestamp : int
        Timestamp of the rows, in milliseconds since 1970.
    columns_only : bool
        Whether only the columns of the sources matter, as for a check.
    """

    def __init__(self, spark: SparkSession, timestamp: int, *, columns_only: bool = False) -> None:
        self.spark, self.timestamp, self.columns_only = spark, timestamp, columns_only
        self._held: list[Views] = []
        self._opened: dict[tuple[str, int], Connector] = {}

    def load(self, config: SourceConfig) -> DataFrame:
        """Return the rows of a source, with their timestamp as ``__tmst``.

        Rows of several connectors are concatenated, with the columns that all of them have.

        Raises
        ------
        SourceError
            If the source has no connector, one cannot be read, or they share no column.
        """
        frames = []
        for number, connector in enumerate(config.connectors):
            opened = open_batch(connector, self.spark, config.name, columns_only=self.columns_only)
            self.keep(config.name, opened.connector, number)
            frames.append(self.prepared(opened.frame, connector, config.name))
        if not frames:
            raise SourceError(f"source {config.name!r} has no connector")
        return self.timed(reduce(_below, frames))

    def keep(self, source: str, connector: Connector, number: int = 0) -> None:
        """Register a connector of a source, whose `finish` is called after its rows were measured."""
        self._opened[source, number] = connector

    def finish(self) -> None:
        """Call `finish` of all connectors, after their rows were measured."""
        for connector in self._opened.values():
            connector.finish()

    def prepared(self, frame: DataFrame, connector: ConnectorConfig, source: str = "") -> DataFrame:
        """Apply a connector's pre-processing rules to a frame, and return the result of the last.

        Each rule can read the frames of the rules before it by name. A rule without names reads the
        connector's frame and replaces it.

        Raises
        ------
        SourceError
            If a rule is invalid; the message names the source and the rule.
        """
        if not connector.pre_proc:
            return frame
        views = Views(self.spark)
        self._held.append(views)
        views.add(connector.frame, frame)
        for rule in connector.pre_proc:
            try:
                frame = _prepared_frame(rule, views, connector.frame)
                views.add(rule.out_name or connector.frame, frame)
            except Exception as error:
                is_own = isinstance(error, TidegaugeError) or rule.dsl_type == "df-opr"
                query = isinstance(error, UnresolvedQueryError)
                reported = error if is_own and not query else plan_error(error, rule)
                if isinstance(reported, DslError):
                    reported.rule = None  # it is named by its source and number
                message = reported if isinstance(reported, TidegaugeError) else describe(error)
                msg = f"source {source!r}: pre.proc rule {rule.number}: {message}"
                raise SourceError(msg) from error
        return frame

    def timed(self, frame: DataFrame) -> DataFrame:
        """Return a frame with the timestamp in all of its rows."""
        from pyspark.sql import functions as F

        return frame.withColumn(TMST, F.lit(self.timestamp).cast("long"))


def _prepared_frame(rule: RuleConfig, views: Views, default: str) -> DataFrame:
    if rule.dsl_type == "df-opr":
        return operate(rule.rule, views.frame(rule.in_name or default), rule.details)
    frame = views.query(query_text(rule))
    refuse_bad_patterns(None, rule, views.spark)
    return frame


def _below(a: DataFrame, b: DataFrame) -> DataFrame:
    common = [name for name in a.columns if name in b.columns]
    if not common:
        raise SourceError(
            f"connectors of one source have no column in common: {a.columns} and {b.columns}"
        )
    return a.select(*common).unionByName(b.select(*common))


@dataclass(frozen=True)
class PreparedSource:
    """A partitioned table or folder after pre-processing.

    Attributes
    ----------
    source : Source
        The source to read.
    connector : ConnectorConfig
        The connector with the pre-processing rules.
    loader : Loader
        The loader that applies the rules.
    called : str
        Name of the source in the job.
    """

    source: Source
    connector: ConnectorConfig
    loader: Loader
    called: str = ""

    @classmethod
    def from_config(
        cls, config: SourceConfig, keys: Sequence[str], loader: Loader
    ) -> PreparedSource:
        """Make the source of a configuration.

        Raises
        ------
        SourceError
            If it is not a single table or folder with these partition columns.
        """
        if len(config.connectors) != 1:
            raise SourceError(
                f"source {config.name!r} has {len(config.connectors)} connectors; only one is measured by partitions"
            )
        (connector,) = config.connectors
        keep = partial(loader.keep, config.name)
        source = partitioned(connector, loader.spark, keys, config.name, keep)
        return cls(source, connector, loader, config.name)

    @property
    def name(self) -> str | None:
        """Name of the table or folder."""
        return self.source.name

    @property
    def keys(self) -> tuple[str, ...]:
        """The partition columns."""
        return self.source.keys

    def list_partitions(self) -> list[ListedPartition]:
        """List the current partitions."""
        return self.source.list_partitions()

    def read(self, partitions: Collection[Partition] | None = None) -> DataFrame:
        """Return the rows of the given partitions, or of all."""
        frame = self.loader.prepared(self.source.read(partitions), self.connector, self.called)
        missing = set(self.keys) - set(frame.columns)
        if missing:
            raise SourceError(
                f"the source has no column {min(missing)!r} after its pre.proc rules, but is partitioned by it"
            )
        return self.loader.timed(frame)

    def partition_of(self, key: Sequence[str]) -> Partition | None:
        """Return the listed partition for the key values of a scan, or None."""
        return self.source.partition_of(tuple(key))
