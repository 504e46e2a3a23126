"""Reading sources: connectors by the name of their type, more of them under ``tidegauge.griffin.connectors``.

An entry point of this group names a subclass of `analyzers.griffin.connectors.connector.Connector`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from analyzers.errors import SourceError, TidegaugeError, describe
from analyzers.griffin.config import ConnectorConfig
from analyzers.griffin.connectors.connector import Connector
from analyzers.griffin.kinds import CONNECTORS
from analyzers.sources import FrameSource, Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["check", "open_batch", "partitioned", "stream"]


def check(connector: ConnectorConfig, spark: SparkSession, source: str = "") -> None:
    """Raise if a connector cannot read, whatever the data is.

    Parameters
    ----------
    connector : ConnectorConfig
    spark : SparkSession
    source : str
        The source's name, for messages.

    Raises
    ------
    SourceError
        Naming the source, and the key or package that is missing.
    """
    with _told(connector, source):
        _made(connector).check(spark)


def open_batch(connector: ConnectorConfig, spark: SparkSession, source: str = "") -> DataFrame:
    """Return what a connector reads now.

    Parameters
    ----------
    connector : ConnectorConfig
    spark : SparkSession
    source : str
        The source's name, for messages.

    Raises
    ------
    SourceError
        If it cannot be read: never an empty frame in its place.
    """
    with _told(connector, source):
        made = _made(connector)
        made.check(spark)
        frame = made.batch(spark)
        _ = frame.schema  # on Spark Connect a path that is not there is told here
        return frame


def stream(connector: ConnectorConfig, spark: SparkSession, source: str = "") -> DataFrame:
    """Return a streaming frame of what a connector reads.

    Parameters
    ----------
    connector : ConnectorConfig
    spark : SparkSession
    source : str
        The source's name, for messages.

    Raises
    ------
    SourceError
        If it cannot be read, or not as a stream.
    """
    with _told(connector, source):
        made = _made(connector)
        made.check(spark)
        frame = made.stream(spark)
        _ = frame.schema
        return frame


def _made(connector: ConnectorConfig) -> Connector:
    made: Connector = CONNECTORS.load(connector.type)(connector.config)
    return made


@contextmanager
def _told(connector: ConnectorConfig, source: str) -> Iterator[None]:
    """Have what goes wrong tell which source it is."""
    try:
        yield
    except Exception as error:
        said = error if isinstance(error, TidegaugeError) else describe(error)
        of = f"source {source!r}: " if source else ""
        msg = f"{of}connector {connector.type!r}: {said}"
        raise SourceError(msg) from error


def partitioned(
    connector: ConnectorConfig, spark: SparkSession, keys: Sequence[str], source: str = ""
) -> Source:
    """Return what a connector reads as a source of partitions.

    A table of the metastore, and one folder of files, tell which partitions changed; what is filtered or read otherwise
    does not, and is measured anew.

    Parameters
    ----------
    connector : ConnectorConfig
    spark : SparkSession
    keys : sequence of str
        The partition columns.
    source : str
        The source's name, for messages.

    Raises
    ------
    SourceError
        If it cannot be read, or is not partitioned so.
    """
    with _told(connector, source):
        made = _made(connector)
        made.check(spark)
        return made.partitioned(spark, keys) or FrameSource(made.batch(spark), tuple(keys))
