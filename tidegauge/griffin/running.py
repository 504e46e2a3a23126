"""Run Griffin jobs (`tg.griffin.run`), or check them without running them (`tg.griffin.check`).

Both use the given or active Spark session, else a new one with the settings of the job's
environment.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.errors import GriffinError, SuiteError
from tidegauge.analyzers.core.formatting import plural
from tidegauge.analyzers.core.partitions import TMST
from tidegauge.analyzers.runs.ledger import RunSpec
from tidegauge.analyzers.runs.recording import recording_failed_start
from tidegauge.griffin.execution.engine import Engine, Round, measure_partitions
from tidegauge.griffin.execution.loader import Loader
from tidegauge.griffin.execution.preparation import Prepared
from tidegauge.griffin.measures.base import RulePlan
from tidegauge.griffin.reading import read_env, read_job
from tidegauge.griffin.results import GriffinResult
from tidegauge.griffin.sinks import open_sinks
from tidegauge.griffin.stream_jobs import StreamingJob
from tidegauge.repository.repository import as_repository
from tidegauge.spark.session import apply_settings, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegauge.griffin.config import Env
    from tidegauge.repository.repository import Repository


def session_for(env: Env, spark: SparkSession | None) -> SparkSession:
    """Return the given or active session, else a new one with the environment's settings.

    Settings that a running session cannot change cause a warning.
    """
    session = spark or spark_session(settings=env.spark)
    apply_settings(session, env.spark)
    return session


_log = logging.getLogger(__name__)
JsonInput = Mapping[str, Any] | str | bytes | Path
"""JSON as a mapping or as text, or the path of a file."""


def run(
    env: JsonInput,
    dq: JsonInput,
    *,
    spark: SparkSession | None = None,
    repository: Repository | str | None = None,
    dataset: str | None = None,
    partition_by: str | Sequence[str] = (),
    partitions: str | Sequence[str] = "new",
    timestamp: int | None = None,
    tags: Mapping[str, str] | None = None,
    samples: int = 10,
    once: bool = False,
) -> GriffinResult:
    """Run a Griffin job.

    All rules are parsed, bound and planned before any of them runs. If a rule or sink fails, the
    others are still measured and written; the error is raised at the end.

    Parameters
    ----------
    env, dq : mapping, str, bytes or Path
        Contents or paths of ``env.json`` and ``dq.json``.
    spark : SparkSession, optional
        Default: the active session, else a new one with the settings of ``env``.
    repository : Repository or str, optional
        A repository, or its URL. Stores metrics, states and sample records.
    dataset : str, optional
        Name of the history; default: the job's name.
    partition_by : str or sequence of str
        Partition columns of the source. Only new and changed partitions are measured, each under
        its own name; without partition columns all rows are measured together, at the job's
        timestamp.
    partitions : str or sequence of str
        Partitions to measure, as for `analyze`.
    timestamp : int, optional
        Time of the batch in milliseconds since 1970; default: the job's, or now.
    tags : mapping, optional
        Tags of the run.
    samples : int
        Number of sample records of each rule stored with the run; 0 for none.
    once : bool
        For a streaming job: measure the available data and stop. Otherwise the job runs until it is
        interrupted.

    Returns
    -------
    GriffinResult
        The result; for a streaming job the result of the last round, with the failures of all rounds.

    Raises
    ------
    GriffinConfigError
        If a configuration is invalid.
    DslError
        If a rule is invalid; nothing was measured then.
    SourceError
        If a source cannot be read.
    GriffinError
        If rules or sinks failed; its ``result`` has everything that was measured.

    Examples
    --------
    >>> import tempfile, tidegauge as tg
    >>> folder = f"{tempfile.gettempdir()}/riders"
    >>> riders = tg.spark_session().sql("SELECT explode(array(34, NULL)) AS age")  # doctest: +SKIP
    >>> riders.write.mode("overwrite").parquet(folder)  # doctest: +SKIP
    >>> source = {"type": "file", "config": {"format": "parquet", "paths": [folder]}}
    >>> rule = {"dsl.type": "griffin-dsl", "dq.type": "completeness", "rule": "age"}
    >>> job = {
    ...     "name": "riders",
    ...     "process.type": "batch",
    ...     "data.sources": [{"name": "source", "connector": source}],
    ...     "evaluate.rule": {"rules": [{**rule, "out.dataframe.name": "with_age"}]},
    ... }
    >>> result = tg.griffin.run({}, job)  # doctest: +SKIP
    >>> found = result.metrics().set_index("column")["value"]  # doctest: +SKIP
    >>> found[["total", "complete", "incomplete"]].tolist()  # doctest: +SKIP
    [2.0, 1.0, 1.0]
    """
    environment, job = read_env(env), read_job(dq)
    session = session_for(environment, spark)
    sinks = open_sinks(environment, job.sinks, session)
    engine = Engine(job, session, as_repository(repository), sinks, dataset, tags, samples)
    keys = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
    if not job.streaming:
        now = timestamp or job.timestamp or round(time.time() * 1000)
        with _recording_start(engine, keys, partitions):
            result = _batch(engine, now, keys, partitions)
    elif keys or timestamp is not None or partitions != "new":
        msg = "a stream has its own windows: remove partition_by=, partitions= and timestamp="
        raise SuiteError(msg)
    else:
        with _recording_start(engine):
            result = _stream(StreamingJob(job, environment, engine), once=once)
    if result.failures:
        raise GriffinError(result.failures, result)
    return result


def _recording_start(
    engine: Engine, keys: tuple[str, ...] = (), partitions: str | Sequence[str] = "new"
) -> AbstractContextManager[None]:
    """Store a failed run if a source cannot be opened in the block, or a rule cannot be planned."""
    if engine.repository is None:
        return nullcontext()
    selection = partitions if isinstance(partitions, str) else ", ".join(partitions)
    spec = RunSpec(engine.dataset, None, keys, selection=selection, tags=engine.tags)
    return recording_failed_start(engine.repository.store, spec)


def _batch(
    engine: Engine, now: int, keys: tuple[str, ...], partitions: str | Sequence[str]
) -> GriffinResult:
    engine.holds = loader = Loader(engine.spark, now)
    if keys:
        result = measure_partitions(engine, loader, keys, partitions)
    else:
        result = engine.run(Round({s.name: loader.load(s) for s in engine.job.sources}, now))
    if not result.failures:
        loader.finish()
    return result


def _stream(stream: StreamingJob, *, once: bool) -> GriffinResult:
    """Measure round by round and log failures at once; the last round's result has all failures."""
    result = GriffinResult(stream.engine.dataset, ())
    failures: dict[str, Exception] = {}
    for result in stream.rounds(once=once):
        _log.info("%s", result)
        for notice in result.notices:
            _log.warning("%s", notice)
        for name, error in result.failures.items():
            _log.error("%s: %s", name, error)
        failures |= result.failures
    return replace(result, failures=failures)


@dataclass(frozen=True)
class Checked:
    """Plan of a job whose rules are all valid.

    Attributes
    ----------
    name : str
        Name of the job.
    rules : tuple of Prepared
        The rules that can run.
    notices : tuple of str
        Messages about settings and rules.
    """

    name: str
    rules: tuple[Prepared, ...]
    notices: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        """Yield the plan as text: each rule with its steps and their outputs."""
        rules = plural(len(self.rules), "rule")
        yield f"job {self.name}: {rules} can run"
        yield from (f"notice: {notice}" for notice in self.notices)
        for rule in self.rules:
            yield ""
            yield f"-- {rule.name} ({rule.config.dq_type or rule.config.dsl_type})"
            yield from (f"-- notice: {notice}" for notice in rule.plan.notices)
            yield from _steps(rule.plan)
            if rule.measure is not None:
                yield f"-- measured in one pass by {rule.measure!r}"

    def __str__(self) -> str:
        return "\n".join(self.lines())


def _steps(plan: RulePlan) -> Iterator[str]:
    for step in plan.steps:
        marks = [
            *("the metric" for table in plan.metrics if table.step == step.name),
            *("the records" for name in plan.records if name == step.name),
        ]
        yield f"-- {step.name}{': ' if marks else ''}{' and '.join(marks)}"
        yield f"{step.sql};"


def check(
    dq: JsonInput, env: JsonInput | None = None, *, spark: SparkSession | None = None
) -> Checked:
    """Parse, bind and plan all rules of a job; no row of its sources is read or marked as read.

    Only documents show the columns of an Elasticsearch index: the first 100 are looked at.

    Parameters
    ----------
    dq : mapping, str, bytes or Path
        The job, as for `read_job`.
    env : mapping, str, bytes or Path, optional
        Needed if it has Spark settings; the job's sinks are also checked if it is given.
    spark : SparkSession, optional
        Default: the active session, else a new one.

    Returns
    -------
    Checked
        The plan, whose text is the SQL of all steps.

    Raises
    ------
    GriffinConfigError
        If a configuration is invalid.
    DslError
        If a rule is invalid.
    SourceError
        If a source cannot be read.

    Examples
    --------
    >>> import tempfile, tidegauge as tg
    >>> folder = f"{tempfile.gettempdir()}/riders"
    >>> riders = tg.spark_session().sql("SELECT explode(array(34, NULL)) AS age")  # doctest: +SKIP
    >>> riders.write.mode("overwrite").parquet(folder)  # doctest: +SKIP
    >>> source = {"type": "file", "config": {"format": "parquet", "paths": [folder]}}
    >>> rule = {"dsl.type": "griffin-dsl", "dq.type": "completeness", "rule": "age"}
    >>> job = {
    ...     "name": "riders",
    ...     "process.type": "batch",
    ...     "data.sources": [{"name": "source", "connector": source}],
    ...     "evaluate.rule": {"rules": [{**rule, "out.dataframe.name": "with_age"}]},
    ... }
    >>> checked = tg.griffin.check(job)  # doctest: +SKIP
    >>> "with_age" in str(checked)  # doctest: +SKIP
    True
    """
    empty: dict[str, Any] = {}
    environment, job = read_env(empty if env is None else env), read_job(dq)
    session = session_for(environment, spark)
    if env is not None:
        open_sinks(environment, job.sinks, session)
    loader = Loader(session, 0, columns_only=True)
    frames = {source.name: loader.load(source) for source in job.sources}
    engine = Engine(job, session, holds=loader)
    group_by = (TMST,) if job.streaming else ()
    return Checked(job.name, engine.check(frames, group_by), (*environment.notices, *job.notices))
