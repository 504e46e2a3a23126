"""Measuring on behalf of a scheduler: one call, and its result as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tidegauge.analysis import Run
from tidegauge.analyzers.core.partitions import Partition, parse_selection
from tidegauge.files.runs import Summary, run_suites
from tidegauge.repository.repository import Repository
from tidegauge.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
        Whether anomalies count as failures of the data, as failed policies do.
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

    def run(self, partitions: str | Sequence[str], tags: Mapping[str, str]) -> Outcome:
        """Measure, detect anomalies, and notify.

        A task of some partitions is judged by these: that the rules still fail in others, which is told
        by a run of what is new, is the failure of their own tasks.
        """
        patterns = [self.suites] if isinstance(self.suites, str) else self.suites
        with Repository(self.db, artifacts=self.artifacts) as repository:
            summary = run_suites(patterns, repository, partitions, tags, self.session)
        if not isinstance(partitions, str) or partitions not in {"new", "all"}:
            summary.runs = [(file, _judged_by(run, partitions)) for file, run in summary.runs]
        return Outcome(summary, self)


def _judged_by(run: Run, partitions: str | Sequence[str]) -> Run:
    """Return a run with the verdicts on the partitions that were asked for."""

    def asked(name: str) -> bool:
        if not isinstance(partitions, str):
            return name in partitions
        partition = Partition.from_name(name)
        return parse_selection(partitions, partition.keys)(partition)

    return replace(run, checks={name: c for name, c in run.checks.items() if asked(name)})


@dataclass(frozen=True)
class Outcome:
    """Result of a measurement.

    Attributes
    ----------
    summary : Summary
    measurement : MeasurementTask
    """

    summary: Summary
    measurement: MeasurementTask

    @property
    def tool_failed(self) -> bool:
        """True if a table or an analyzer could not be measured; trying again may help."""
        return self.summary.status(fail_on_anomaly=False) == 1

    @property
    def data_failed(self) -> bool:
        """True if the data is bad; trying again does not help."""
        return self.summary.status(fail_on_anomaly=self.measurement.fail_on_anomaly) == 2

    @property
    def text(self) -> str:
        """The summary as text."""
        return "\n".join(self.summary.lines())

    def as_json(self) -> dict[str, Any]:
        """Return the outcome as values that JSON has."""
        refused = {
            one.run.dataset for one in self.summary.checked if one.verification.status == "error"
        }
        runs = {
            run.dataset: {
                "run": run.id,
                "status": run.status,
                "scanned": run.report.scanned,
                "skipped": run.report.skipped,
                "failed_analyzers": len(run.failed),
                "passed": run.passed and run.dataset not in refused,
            }
            for _, run in self.summary.runs
        }
        found: dict[str, Any] = {
            "datasets": runs,
            "anomalies": self.summary.found,
            "failed": list(self.summary.failed),
        }
        if self.measurement.dashboard_url:
            found["dashboard"] = self.measurement.dashboard_url
        return found
