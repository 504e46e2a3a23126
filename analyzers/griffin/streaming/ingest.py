"""What a stream brings, written to files by windows of time, exactly once.

Spark's file sink writes, and its log says which files count: whatever a killed query left behind is not in it.
A row's window follows from the row alone, so a batch that is replayed lands where it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote as escaped

from analyzers.errors import GriffinConfigError, nearest
from analyzers.griffin.config import ConnectorConfig, Env, Job, SourceConfig, StreamStore
from analyzers.griffin.connectors import stream
from analyzers.griffin.connectors.kafka import TIME
from analyzers.griffin.streaming.clock import Clock
from analyzers.sql import column_sql, quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TMST = "__tmst"
ARRIVED = "__arrived"
LOGGED = 90 * 24 * 3_600_000
"""For how many milliseconds the sink's log names files, at least: longer than a job stands still."""


@dataclass(frozen=True)
class Inflow:
    """One connector of a source, and where its rows are kept.

    Attributes
    ----------
    connector : ConnectorConfig
    frame : DataFrame
        The stream, as it is written: with ``__tmst``, the begin of its window.
    store : StreamStore
    folder : str
    """

    connector: ConnectorConfig
    frame: DataFrame
    store: StreamStore
    folder: str

    @property
    def rows(self) -> str:
        """The folder of the files."""
        return f"{self.folder}/rows"

    def start(self, every: int | None) -> StreamingQuery:
        """Begin to write.

        Parameters
        ----------
        every : int or None
            How often, in milliseconds; None to end when all is written that is there now.
        """
        writer = (
            self.frame.writeStream.format(self.store.format)
            .partitionBy(TMST)
            .option("path", self.rows)
            .option("checkpointLocation", f"{self.folder}/checkpoint")
            .option("retention", f"{LOGGED + 2 * Clock.of(self.store).back}ms")
        )
        if every is None:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{every} milliseconds").start()


def job_folder(job: Job, env: Env) -> str:
    """Return the folder in which a streaming job keeps what it must not forget.

    Raises
    ------
    GriffinConfigError
        If the environment names none.
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
        Of the job; the source may name another for its rows.

    Raises
    ------
    GriffinConfigError
        If a connector brings no stream, or what tells the time does not.
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
    """Return a stream with ``__tmst`` in the place of the time at which its rows arrived.

    Raises
    ------
    GriffinConfigError
        If the column or expression of the time is not there or tells no time.
    """
    time = f"unix_millis({ARRIVED})"
    if store.time is not None:
        time = f"coalesce({_milliseconds(frame, store.time)}, {time})"
    size = Clock.of(store).size
    others = [quote(name) for name in frame.columns if name != ARRIVED]
    return frame.selectExpr(*others, f"({time}) - pmod({time}, {size}L) AS {TMST}")


def _milliseconds(frame: DataFrame, time: str) -> str:
    from pyspark.errors import AnalysisException, ParseException  # noqa: PLC0415 - Spark side

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
    """Open a connector as a stream; ``__arrived`` is when a row arrived, the same whenever it is read.

    Raises
    ------
    SourceError
        If it brings no stream.
    GriffinConfigError
        If nothing tells when its rows arrive.
    """
    from pyspark.errors import AnalysisException  # noqa: PLC0415 - Spark side

    frame = stream(connector, spark, source)
    if TIME in frame.columns:
        return frame.withColumnRenamed(TIME, ARRIVED)
    try:
        timed = frame.selectExpr("*", f"_metadata.file_modification_time AS {ARRIVED}")
        _ = timed.schema  # Connect looks at nothing before
    except AnalysisException as error:
        raise GriffinConfigError(
            f"source {source!r}: nothing tells when the rows of a connector of type"
            f" {connector.type!r} arrive"
        ) from error
    return timed
