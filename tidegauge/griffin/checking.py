"""Looking at a job without running it: `tg.griffin.check`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analyzers.griffin.engine import Engine
from analyzers.griffin.loading import Loader
from analyzers.griffin.plan import Plan
from analyzers.griffin.prepared import Prepared
from analyzers.griffin.reading import read_env, read_job
from analyzers.griffin.sinks import open_sinks
from tidegauge.griffin.sessions import session_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegauge.griffin.run import Document


@dataclass(frozen=True)
class Checked:
    """A job of which all rules can run.

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
        """Yield the plan as text: each rule with its steps, and what reads them."""
        yield f"job {self.name}: {len(self.rules)} rules can run"
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


def _steps(plan: Plan) -> Iterator[str]:
    for step in plan.steps:
        marks = [
            *("the metric" for table in plan.metrics if table.step == step.name),
            *("the records" for name in plan.records if name == step.name),
        ]
        yield f"-- {step.name}{': ' if marks else ''}{' and '.join(marks)}"
        yield f"{step.sql};"


def check(
    dq: Document, env: Document | None = None, *, spark: SparkSession | None = None
) -> Checked:
    """Parse, bind and plan all rules of a job; no row of its sources is read.

    Parameters
    ----------
    dq : mapping, str or Path
    env : mapping, str or Path, optional
        Needed where it says how Spark is to run; the sinks that the job names are looked for in it.
    spark : SparkSession, optional
        The active one if not given, else a new one.

    Returns
    -------
    Checked
        Its text is the SQL of all steps.

    Raises
    ------
    GriffinConfigError
        If a file cannot be.
    DslError
        If a rule cannot be.
    SourceError
        If a source cannot be found.
    """
    empty: dict[str, Any] = {}
    told, job = read_env(empty if env is None else env), read_job(dq)
    session = session_for(told, spark)
    if env is not None:
        open_sinks(told, job.sinks, session)
    loader = Loader(session, 0)
    frames = {source.name: loader.load(source) for source in job.sources}
    engine = Engine(job, session, holds=loader)
    by = ("__tmst",) if job.streaming else ()
    return Checked(job.name, engine.check(frames, by), (*told.notices, *job.notices))
