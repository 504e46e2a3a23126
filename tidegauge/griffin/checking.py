"""Dry run of a job: `tg.griffin.check`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.formatting import plural
from tidegauge.analyzers.core.partitions import TMST
from tidegauge.griffin.execution.engine import Engine
from tidegauge.griffin.execution.loader import Loader
from tidegauge.griffin.execution.preparation import Prepared
from tidegauge.griffin.lower.plan import RulePlan
from tidegauge.griffin.reading import read_env, read_job
from tidegauge.griffin.sessions import session_for
from tidegauge.griffin.sinks import open_sinks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegauge.griffin.running import JsonInput


@dataclass(frozen=True)
class Checked:
    """Plan of a job whose rules are all valid.

    Attributes
    ----------
    name : str
    rules : tuple of Prepared
    notices : tuple of str
    """

    name: str
    rules: tuple[Prepared, ...]
    notices: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        """Yield the plan as text: each rule with its steps and their outputs."""
        rules = plural(len(self.rules), "rule")
        yield f"job {self.name}: {rules} can run"
        yield from (f"notice: {said}" for said in self.notices)
        for rule in self.rules:
            yield ""
            yield f"-- {rule.name} ({rule.config.dq_type or rule.config.dsl_type})"
            yield from (f"-- notice: {said}" for said in rule.plan.notices)
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

    Elasticsearch alone tells the columns of an index by documents: the first 100 are looked at.

    Parameters
    ----------
    dq : mapping, str, bytes or Path
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
    told, job = read_env(empty if env is None else env), read_job(dq)
    session = session_for(told, spark)
    if env is not None:
        open_sinks(told, job.sinks, session)
    loader = Loader(session, 0, columns_only=True)
    frames = {source.name: loader.load(source) for source in job.sources}
    engine = Engine(job, session, holds=loader)
    by = (TMST,) if job.streaming else ()
    return Checked(job.name, engine.check(frames, by), (*told.notices, *job.notices))
