"""Stream ingestion: write rows to files by time window, exactly once.

Spark's file sink writes, and its log is the list of valid files, so leftovers of a killed query are
ignored. A row's window depends on the row alone, so a replayed batch is written to the same
windows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote as escaped

from tidegauge.analyzers.core.errors import GriffinConfigError, nearest
from tidegauge.analyzers.core.partitions import TMST
from tidegauge.analyzers.core.sql import column_sql, quote
from tidegauge.griffin.config import ConnectorConfig, Env, Job, SourceConfig, StreamStore
from tidegauge.griffin.connectors import stream
from tidegauge.griffin.connectors.kafka import TIME
from tidegauge.griffin.streaming.clock import Clock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

ARRIVED = "__arrived"
LOGGED = 90 * 24 * 3_600_000
"""Minimum retention of files in the sink's log, in milliseconds: longer than any downtime of a job."""


@dataclass(frozen=True)
class Inflow:
    """Stream of one connector, and the storage of its rows.

    Attributes
    ----------
    connector : ConnectorConfig
    frame : DataFrame
        The stream as it is written, with ``__tmst``, the begin of the row's window.
    store : StreamStore
    folder : str
    """

    connector: ConnectorConfig
    frame: DataFrame
    store: StreamStore
    folder: str

    @property
    def rows(self) -> str:
        """Folder of the data files."""
        return f"{self.folder}/rows"

    def start(self, every: int | None) -> StreamingQuery:
        """Start the streaming query.

        Parameters
        ----------
        every : int or None
            Trigger interval in milliseconds; None to stop when all available data is written.
        """
        writer = (
            self.frame.writeStream.format(self.store.format)
            .partitionBy(TMST)
            .option("path", self.rows)
            .option("checkpointLocation", f"{self.folder}/checkpoint")
            .option("retention", f"{LOGGED + 2 * Clock.from_store(self.store).back}ms")
        )
        if every is None:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{every} milliseconds").start()


def job_folder(job: Job, env: Env) -> str:
    """Return the folder with the persistent state of a streaming job.

    Raises
    ------
    GriffinConfigError
        If the environment has no checkpoint folder.
    """
    if not env.checkpoint:
        raise GriffinConfigError(
            "a streaming job needs a folder in which it keeps how far it is: name one as"
            ' "spark": {"checkpoint.dir": ...} in env.json'
        )
    return f"{env.checkpoint.rstrip('/')}/{escaped(job.name, safe='')}"


def inflows(spark: SparkSession, source: SourceConfig, folder: str) -> list[Inflow]:
    """Open the connectors of a streaming source.

    Parameters
    ----------
    spark : SparkSession
    source : SourceConfig
    folder : str
        Folder of the job; the source may configure another for its rows.

    Raises
    ------
    GriffinConfigError
        If the time column or expression of a stream is invalid.
    """
    store = source.store or StreamStore()
    own = store.path or f"{folder}/{escaped(source.name, safe='')}"
    return [
        Inflow(
            connector,
            windowed(streamed(spark, connector, source.name), store),
            store,
            f"{own}/{number}",
        )
        for number, connector in enumerate(source.connectors)
    ]


def windowed(frame: DataFrame, store: StreamStore) -> DataFrame:
    """Return a stream with ``__tmst``, the begin of the window, in place of the arrival time.

    Raises
    ------
    GriffinConfigError
        If the time column or expression does not exist or is not a time.
    """
    time = f"unix_millis({ARRIVED})"
    if store.time is not None:
        time = f"coalesce({_milliseconds(frame, store.time)}, {time})"
    size = Clock.from_store(store).size
    others = [quote(name) for name in frame.columns if name != ARRIVED]
    return frame.selectExpr(*others, f"({time}) - pmod({time}, {size}L) AS {TMST}")


def _milliseconds(frame: DataFrame, time: str) -> str:
    from pyspark.errors import AnalysisException, ParseException

    known = time in frame.columns
    sql = column_sql(time) if known else f"(\n{time}\n)"
    try:
        kind = frame.selectExpr(f"{sql} AS t").schema.fields[0].dataType.typeName()
    except (AnalysisException, ParseException) as error:
        near = nearest(time, frame.columns)
        hint = f"; did you mean {near!r}?" if near else f" (columns: {', '.join(frame.columns)})"
        raise GriffinConfigError(
            f"time.column {time!r} is no column of the stream and no expression{hint}"
        ) from error
    if kind in {"timestamp", "date"}:
        return f"unix_millis(CAST({sql} AS TIMESTAMP))"
    if kind in {"long", "integer"}:
        return f"CAST({sql} AS BIGINT)"
    raise GriffinConfigError(
        f"time.column {time!r} is of type {kind}; it must be a timestamp, a date or milliseconds"
    )


def streamed(spark: SparkSession, connector: ConnectorConfig, source: str) -> DataFrame:
    """Open a connector as a stream with ``__arrived``, the arrival time, the same for each read.

    Raises
    ------
    SourceError
        If the connector cannot be read as a stream.
    GriffinConfigError
        If the arrival time of its rows is unknown.
    """
    from pyspark.errors import AnalysisException

    frame = stream(connector, spark, source)
    if TIME in frame.columns:
        return frame.withColumnRenamed(TIME, ARRIVED)
    try:
        timed = frame.selectExpr("*", f"_metadata.file_modification_time AS {ARRIVED}")
        _ = timed.schema  # forces analysis on Connect
    except AnalysisException as error:
        raise GriffinConfigError(
            f"source {source!r}: nothing tells when the rows of a connector of type"
            f" {connector.type!r} arrive"
        ) from error
    return timed
