"""Measurements for a scheduler: one call, with a result that converts to JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.formatting import plural
from tidegauge.files.runs import SuiteReport, SuiteResult, run_suites
from tidegauge.outcome import Cause, FailOnLevel, Gate, Outcome, Problem, outcome_of
from tidegauge.repository.repository import Repository
from tidegauge.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAX_NAMED_PARTITIONS = 5
"""Maximum number of partitions of a table that a task logs by name; a backfill can measure thousands."""


@dataclass(frozen=True)
class MeasurementTask:
    """Suite files to measure for a scheduler, and the repository to store results in.

    Attributes
    ----------
    suites : str or sequence of str
        Suite files, folders or globs.
    db, artifacts : str or None
        As for `Repository`.
    fail_on_anomaly : bool
        Whether anomalies count as failures of the data, like failed policies.
    dashboard_url : str or None
        Address of the dashboard, for links.
    session : callable
        Returns the Spark session.
    """

    suites: str | Sequence[str]
    db: str | None = None
    artifacts: str | None = None
    fail_on_anomaly: bool = False
    dashboard_url: str | None = None
    session: Callable[[], SparkSession] = spark_session

    def run(self, partitions: str | Sequence[str], tags: Mapping[str, str]) -> MeasurementResult:
        """Measure, detect anomalies, and notify.

        Only the requested partitions decide the outcome. Failures of other partitions fail the tasks of
        those partitions.

        Parameters
        ----------
        partitions : str or sequence of str
            As for `analyze`.
        tags : mapping of str to str
            Tags of the runs.
        """
        patterns = [self.suites] if isinstance(self.suites, str) else self.suites
        with Repository(self.db, artifacts=self.artifacts) as repository:
            result = run_suites(patterns, repository, partitions, tags, self.session)
        return MeasurementResult(result, self)


@dataclass(frozen=True)
class MeasurementResult:
    """Result of a measurement.

    Attributes
    ----------
    result : SuiteResult
    measurement : MeasurementTask
    """

    result: SuiteResult
    measurement: MeasurementTask

    @property
    def outcome(self) -> Outcome:
        """The outcome of the results: errors can be retried, bad data cannot."""
        return self.result.outcome(self._gate)

    def outcome_by(self, *causes: Cause) -> Outcome:
        """Return the outcome of the problems with these causes alone."""
        problems = (problem for problem in self.result.problems() if problem.cause in causes)
        return outcome_of(problems, self._gate)

    @property
    def _gate(self) -> Gate:
        return FailOnLevel.ERROR.gate(anomalies=self.measurement.fail_on_anomaly)

    @property
    def text(self) -> str:
        """A line with the measured partitions of each table, and the summary."""
        measured = map(measured_line, self.result.tables)
        return "\n".join([*measured, *self.result.lines()])

    def as_json(self) -> dict[str, Any]:
        """Return the outcome as JSON-compatible values."""
        gate = FailOnLevel.ERROR.gate()
        problems: dict[str, list[Problem]] = {}
        for problem in self.result.problems():
            if problem.cause in {Cause.CHECK, Cause.POLICY}:
                problems.setdefault(problem.dataset, []).append(problem)
        runs = {
            run.dataset: {
                "run": run.id,
                "status": run.status,
                "scanned": run.report.scanned,
                "skipped": run.report.skipped,
                "failed_analyzers": len(run.failed),
                "passed": outcome_of(problems.get(run.dataset, ()), gate) is not Outcome.FAILED,
            }
            for run in (table.run for table in self.result.tables)
        }
        summary: dict[str, Any] = {
            "outcome": str(self.outcome),
            "datasets": runs,
            "anomalies": self.result.anomaly_count,
            "failed": list(self.result.failed),
        }
        if self.measurement.dashboard_url:
            summary["dashboard"] = self.measurement.dashboard_url
        return summary


def measured_line(table: SuiteReport) -> str:
    """Return a line with the partitions that a run measured, and the number of passed checks.

    Known failures count as passed here; the report lists them.
    """
    run, checked = table.run, table.checked
    line = f"{run.dataset}: {_partitions_text(list(run.changes))}"
    if checked is None or not checked.verification.judged:
        return line
    failing = {
        judged.result.constraint.identity
        for judged in checked.verification.judged
        if not judged.result.passed and not checked.is_known(judged)
    }
    count = sum(len(check.constraints) for check in checked.file.checks)
    return f"{line}, {count - len(failing):,} of {plural(count, 'check')} passed"


def _partitions_text(names: Sequence[str]) -> str:
    if list(names) == [""]:
        return "the table measured"
    if not names:
        return "no partition measured"
    listed = ", ".join(names[:MAX_NAMED_PARTITIONS])
    omitted = len(names) - MAX_NAMED_PARTITIONS
    omitted_text = f" and {omitted:,} more" if omitted > 0 else ""
    return f"{plural(len(names), 'partition')} measured: {listed}{omitted_text}"
