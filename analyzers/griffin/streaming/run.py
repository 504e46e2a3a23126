"""A streaming job from its configuration: streams flow in, rounds measure what they wrote."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from threading import Event
from typing import TYPE_CHECKING

from analyzers.errors import GriffinConfigError, GriffinError
from analyzers.griffin.config import Env, Job, SourceConfig
from analyzers.griffin.streaming.ingest import Inflow, inflows, job_folder
from analyzers.griffin.streaming.marks import forget
from analyzers.griffin.streaming.rounds import Measure, RoundReport, Rounds
from analyzers.griffin.streaming.windows import Preparation
from analyzers.ledger import Known

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def is_stream(source: SourceConfig) -> bool:
    """Whether a source of a streaming job is a stream: it says where it is kept, or is Kafka.

    Examples
    --------
    >>> from analyzers.griffin.config import ConnectorConfig, StreamStore
    >>> table = ConnectorConfig("file", {"path": "/data"})
    >>> is_stream(SourceConfig("a", (table,))), is_stream(SourceConfig("a", (table,), store=StreamStore()))
    (False, True)
    """
    return source.store is not None or any(c.type == "kafka" for c in source.connectors)


def run_stream(
    job: Job,
    env: Env,
    spark: SparkSession,
    measure: Measure,
    ledger: Callable[[], Mapping[str, Known]],
    *,
    prepare: Preparation = lambda frame, _: frame,
    tables: Callable[[], Mapping[str, DataFrame]] = dict,
    measured: Collection[str] | None = None,
    met: Collection[str] | None = None,
    once: bool = False,
    stop: Event | None = None,
    now: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
) -> Iterator[RoundReport]:
    """Let the streams of a job flow in, measure round by round, and tell of each.

    A job that is stopped or killed at any moment and run again goes on where it was: no row is lost and none
    counts twice. Two runs of a job at once are not meant to be.

    Parameters
    ----------
    job : Job
    env : Env
        Says where the job keeps what it must not forget, and how often what happens.
    spark : SparkSession
    measure : callable
        Measures frames at a time, grouped by ``__tmst``, and commits the partitions that it is given
        fingerprints of, each with its own. In other windows of the frames rows may find theirs.
    ledger : callable
        Returns what is known of each partition, by name.
    prepare : callable
        Makes of a connector's rows what rules see.
    tables : callable
        Returns the sources that are no streams.
    measured : collection of str, optional
        Sources that rules measure; all if not given.
    met : collection of str, optional
        Sources in which rules look for the rows of others; all if not given.
    once : bool
        Whether to end when what is there now was written and measured.
    stop : Event, optional
        Ends it before the next round.
    now : callable
        Tells the time, in milliseconds since 1970.

    Yields
    ------
    RoundReport
        Of each round.

    Raises
    ------
    GriffinConfigError
        If no stream is measured, or a stream or the checkpoint cannot be.
    GriffinError
        If a stream broke.
    """
    folder, stop = job_folder(job, env), stop or Event()
    streams = {s.name: inflows(spark, s, folder) for s in job.sources if is_stream(s)}
    own = streams.keys() & (streams if measured is None else measured)
    if not own:
        raise GriffinConfigError(
            f"job {job.name!r} is a streaming one, and its rules measure no stream: a source is one"
            ' that has a "checkpoint"'
        )
    if env.init_clear:
        flowing = (one for some in streams.values() for one in some if not one.store.read_only)
        forget([folder, *(one.folder for one in flowing)])
    rounds = Rounds(
        spark,
        folder,
        streams,
        measure,
        ledger,
        prepare,
        tables,
        tuple(source.name for source in job.sources),
        frozenset(own),
        frozenset(name for name in streams if own - {name} and (met is None or name in met)),
    )
    if not once:
        yield rounds.round(now())  # of what was written before
    queries: dict[str, StreamingQuery] = {}
    try:
        _start(queries, streams, None if once else env.batch_interval)
        if once:
            _await(queries)
            yield rounds.round(now())
        while not once and not stop.wait(env.process_interval / 1000):
            _raise_broken(queries)
            yield rounds.round(now())
    finally:
        for query in queries.values():
            with suppress(Exception):  # the others are to be stopped, too
                query.stop()


def _start(
    queries: dict[str, StreamingQuery], streams: Mapping[str, Collection[Inflow]], every: int | None
) -> None:
    for name, some in streams.items():
        for number, inflow in enumerate(some):
            if not inflow.store.read_only:
                queries[f"{name} {number}"] = inflow.start(every)


def _await(queries: Mapping[str, StreamingQuery]) -> None:
    from pyspark.errors import StreamingQueryException  # noqa: PLC0415 - Spark side

    for query in queries.values():
        with suppress(StreamingQueryException):  # raised below, with the others
            query.awaitTermination()
    _raise_broken(queries)


def _raise_broken(queries: Mapping[str, StreamingQuery]) -> None:
    broken = {name: query.exception() for name, query in queries.items()}
    failures = {name: error for name, error in broken.items() if error is not None}
    if failures:
        raise GriffinError(failures)
