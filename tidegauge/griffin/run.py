"""Running Griffin's jobs: `tg.griffin.run`."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analyzers.errors import GriffinError, SuiteError
from analyzers.griffin.engine import Engine
from analyzers.griffin.loading import Loader
from analyzers.griffin.measuring import Round
from analyzers.griffin.partitioned import measure_partitions
from analyzers.griffin.reading import read_env, read_job
from analyzers.griffin.results import GriffinResult
from analyzers.griffin.sinks import open_sinks
from tidegauge.griffin.sessions import session_for
from tidegauge.griffin.streams import Stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from repository.repository import Repository

_log = logging.getLogger(__name__)
Document = Mapping[str, Any] | str | Path
"""JSON as a mapping, as text, or the path of a file."""


def run(
    env: Document,
    dq: Document,
    *,
    spark: SparkSession | None = None,
    repository: Repository | None = None,
    dataset: str | None = None,
    partition_by: str | Sequence[str] = (),
    partitions: str | Sequence[str] = "new",
    timestamp: int | None = None,
    tags: Mapping[str, str] | None = None,
    samples: int = 10,
    once: bool = False,
) -> GriffinResult:
    """Run a job of Griffin's.

    All rules are parsed, bound and planned before any of them runs. A rule, sink or source that fails is an
    error at the end, when the others have been measured and told.

    Parameters
    ----------
    env, dq : mapping, str or Path
        What ``env.json`` and ``dq.json`` hold, or their paths.
    spark : SparkSession, optional
        The active one if not given, else one with the settings of ``env``.
    repository : Repository, optional
        Where metrics, states and samples of records are kept.
    dataset : str, optional
        The name of the history; the job's name if not given.
    partition_by : str or sequence of str
        Partition columns of the source. Only new and changed partitions are measured, each under its own name;
        without them all rows are measured together, at the job's timestamp.
    partitions : str or sequence of str
        Which partitions, as for `analyze`.
    timestamp : int, optional
        Milliseconds since 1970; the job's, or now.
    tags : mapping, optional
        Tags of the run.
    samples : int
        Records of each rule that are kept with the run; 0 for none.
    once : bool
        Of a streaming job: to measure what is there and end. Else it goes on until it is interrupted.

    Returns
    -------
    GriffinResult
        Of a streaming job that of the last round.

    Raises
    ------
    GriffinConfigError
        If one of the files cannot be.
    DslError
        If a rule cannot be; then nothing was measured.
    SourceError
        If a source cannot be read.
    GriffinError
        If rules or sinks failed; its ``result`` holds what was measured all the same.
    """
    told, job = read_env(env), read_job(dq)
    session = session_for(told, spark)
    sinks = open_sinks(told, job.sinks, session)
    engine = Engine(job, session, repository, sinks, dataset, tags, samples)
    keys = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
    if not job.streaming:
        now = timestamp or job.timestamp or round(time.time() * 1000)
        result = _batch(engine, now, keys, partitions)
    elif keys or timestamp is not None or partitions != "new":
        msg = (
            "a stream has windows of its own: it takes no partition_by=, partitions= or timestamp="
        )
        raise SuiteError(msg)
    else:
        result = _stream(Stream(job, told, engine), once=once)
    if result.failures:
        raise GriffinError(result.failures, result)
    return result


def _batch(
    engine: Engine, now: int, keys: tuple[str, ...], partitions: str | Sequence[str]
) -> GriffinResult:
    engine.holds = loader = Loader(engine.spark, now)
    if keys:
        return measure_partitions(engine, loader, keys, partitions)
    return engine.run(Round({s.name: loader.load(s) for s in engine.job.sources}, now))


def _stream(stream: Stream, *, once: bool) -> GriffinResult:
    """Measure round by round, and tell at once what goes wrong; the last round's result has all failures."""
    result = GriffinResult(stream.engine.dataset, ())
    failures: dict[str, Exception] = {}
    for result in stream.rounds(once=once):
        _log.info("%s", result)
        for said in result.notices:
            _log.warning("%s", said)
        for name, error in result.failures.items():
            _log.error("%s: %s", name, error)
        failures |= result.failures
    return replace(result, failures=failures)
