"""Run a streaming job from its configuration: start its streams, and measure in rounds."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from threading import Event
from typing import TYPE_CHECKING

from tidegauge.analyzers.core.errors import GriffinConfigError, GriffinError
from tidegauge.analyzers.runs.ledger import LedgerEntry
from tidegauge.griffin.config import Env, Job, SourceConfig
from tidegauge.griffin.streaming.ingest import Inflow, inflows, job_folder
from tidegauge.griffin.streaming.marks import forget
from tidegauge.griffin.streaming.rounds import Measure, RoundReport, Rounds
from tidegauge.griffin.streaming.windows import Preparation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def is_stream(source: SourceConfig) -> bool:
    """Return whether a source is a stream: it has a checkpoint or a Kafka connector.

    Examples
    --------
    >>> from tidegauge.griffin.config import ConnectorConfig, StreamStore
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
    ledger: Callable[[], Mapping[str, LedgerEntry]],
    *,
    prepare: Preparation = lambda frame, _: frame,
    tables: Callable[[], Mapping[str, DataFrame]] = dict,
    measured: Collection[str] | None = None,
    met: Collection[str] | None = None,
    once: bool = False,
    stop: Event | None = None,
    now: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
) -> Iterator[RoundReport]:
    """Start the streams of a job, measure round by round, and yield a report of each.

    A job that is stopped or killed at any point resumes when it is run again: no row is lost and
    none is counted twice. Do not run a job twice at the same time.

    Parameters
    ----------
    job : Job
    env : Env
        Environment with the checkpoint folder and the trigger intervals.
    spark : SparkSession
    measure : callable
        Measures frames at a timestamp, grouped by ``__tmst``, and commits the partitions it is
        given fingerprints of, each with its own. The frames may hold further windows, in which rows
        look for their matches.
    ledger : callable
        Returns the ledger: the state of each partition by name.
    prepare : callable
        Applies pre-processing rules to a connector's rows.
    tables : callable
        Returns the sources that are not streams.
    measured : collection of str, optional
        Sources that rules measure; default: all.
    met : collection of str, optional
        Sources in which rules look for matches of other sources' rows; default: all.
    once : bool
        Whether to stop when the available data is written and measured.
    stop : Event, optional
        Stops the job before the next round when set.
    now : callable
        Returns the current time, in milliseconds since 1970.

    Yields
    ------
    RoundReport
        Report of each round.

    Raises
    ------
    GriffinConfigError
        If no stream is measured, or a stream or the checkpoint is invalid.
    GriffinError
        If a streaming query failed.
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
        yield rounds.round(now())  # measure data of earlier runs first
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
            with suppress(Exception):  # stop the others too
                query.stop()


def _start(
    queries: dict[str, StreamingQuery], streams: Mapping[str, Collection[Inflow]], every: int | None
) -> None:
    for name, some in streams.items():
        for number, inflow in enumerate(some):
            if not inflow.store.read_only:
                queries[f"{name} {number}"] = inflow.start(every)


def _await(queries: Mapping[str, StreamingQuery]) -> None:
    from pyspark.errors import StreamingQueryException

    for query in queries.values():
        with suppress(StreamingQueryException):  # raised below, with the others
            query.awaitTermination()
    _raise_broken(queries)


def _raise_broken(queries: Mapping[str, StreamingQuery]) -> None:
    broken = {name: query.exception() for name, query in queries.items()}
    failures = {name: error for name, error in broken.items() if error is not None}
    if failures:
        raise GriffinError(failures)
