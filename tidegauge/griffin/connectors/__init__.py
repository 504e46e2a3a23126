"""Connectors, which read sources, by type name.

The entry point group ``tidegauge.griffin.connectors`` adds more; each entry point is a subclass of
`tidegauge.griffin.connectors.base.Connector`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegauge.analyzers.core.errors import (
    SourceError,
    message_of,
)
from tidegauge.analyzers.core.formatting import hide_secrets
from tidegauge.analyzers.sources.sources import FrameSource, Source
from tidegauge.griffin.config import ConnectorConfig
from tidegauge.griffin.connectors.base import Connector
from tidegauge.griffin.plugins import CONNECTOR_REGISTRY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["ConnectorBatch", "open_batch", "partitioned", "stream"]


@dataclass(frozen=True)
class ConnectorBatch:
    """Rows of a connector.

    Attributes
    ----------
    frame : DataFrame
        The rows.
    connector : Connector
        The connector. Call its ``finish`` after the rows were measured.
    """

    frame: DataFrame
    connector: Connector


def open_batch(
    connector: ConnectorConfig, spark: SparkSession, source: str = "", *, columns_only: bool = False
) -> ConnectorBatch:
    """Read a connector as a batch frame.

    Parameters
    ----------
    connector : ConnectorConfig
        The configuration of the connector.
    spark : SparkSession
        The session that reads the rows.
    source : str
        The source's name, for messages.
    columns_only : bool
        Whether the rows are not needed, as for a check.

    Raises
    ------
    SourceError
        If it cannot be read; never returns an empty frame instead.
    """
    with _error_context(connector, source):
        opened = _create_connector(connector)
        opened.check(spark)
        frame = opened.columns(spark) if columns_only else opened.batch(spark)
        _ = frame.schema  # on Spark Connect a missing path raises here
        return ConnectorBatch(frame, opened)


def stream(connector: ConnectorConfig, spark: SparkSession, source: str = "") -> DataFrame:
    """Read a connector as a streaming frame.

    Parameters
    ----------
    connector : ConnectorConfig
        The configuration of the connector.
    spark : SparkSession
        The session that reads the rows.
    source : str
        The source's name, for messages.

    Raises
    ------
    SourceError
        If it cannot be read as a stream.
    """
    with _error_context(connector, source):
        opened = _create_connector(connector)
        opened.check(spark)
        frame = opened.stream(spark)
        _ = frame.schema
        return frame


def _create_connector(connector: ConnectorConfig) -> Connector:
    created: Connector = CONNECTOR_REGISTRY.load(connector.type)(connector.config)
    return created


@contextmanager
def _error_context(connector: ConnectorConfig, source: str) -> Iterator[None]:
    """Convert errors to a `SourceError` that names the source and the connector."""
    try:
        yield
    except Exception as error:
        reason = message_of(error)
        prefix = f"source {source!r}: " if source else ""
        msg = f"{prefix}connector {connector.type!r}: {reason}"
        raise SourceError(hide_secrets(msg, connector.config)) from error


def partitioned(
    connector: ConnectorConfig,
    spark: SparkSession,
    keys: Sequence[str],
    source: str = "",
    keep: Callable[[Connector], None] | None = None,
) -> Source:
    """Open a connector as a partitioned source.

    Metastore tables and single folders of files have partition fingerprints; anything filtered or
    read otherwise has none, and is measured again.

    Parameters
    ----------
    connector : ConnectorConfig
        The configuration of the connector.
    spark : SparkSession
        The session that reads the rows.
    keys : sequence of str
        The partition columns.
    source : str
        The source's name, for messages.
    keep : callable, optional
        Called with the connector. Call its ``finish`` after the rows were measured.

    Raises
    ------
    SourceError
        If it cannot be read, or has other partition columns.
    """
    with _error_context(connector, source):
        opened = _create_connector(connector)
        opened.check(spark)
        if keep is not None:
            keep(opened)
        return opened.partitioned(spark, keys) or FrameSource(opened.batch(spark), tuple(keys))


def listable(connector: ConnectorConfig, spark: SparkSession, source: str = "") -> Source | None:
    """Return the table or folder of a connector, without reading it; None if it is neither.

    Raises
    ------
    SourceError
        If it is not there.
    """
    with _error_context(connector, source):
        opened = _create_connector(connector)
        opened.check(spark)
        return opened.partitioned(spark, ())
