"""The outcome of a run: one answer for every place that shows, sends or returns it.

Results are reduced to problems, and a gate says which problems of the data fail a run. The exit status,
JSON, JUnit, Airflow and Dagster all ask `outcome_of`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Cause(StrEnum):
    """The subject of a problem."""

    FILE = "file"
    """A file that cannot be read."""
    TABLE = "table"
    """A table that cannot be opened or measured."""
    PARTITION = "partition"
    """A partition whose files cannot be read."""
    ANALYZER = "analyzer"
    """An analyzer, rule or fix that cannot be evaluated."""
    WRITING = "writing"
    """Records that cannot be written."""
    CHECK = "check"
    """A failed check, or one without data."""
    POLICY = "policy"
    """A failed policy of rules, or one without data."""
    REJECTS = "rejects"
    """Records that rules reject."""
    ANOMALY = "anomaly"
    """An anomaly in what was measured last."""

    @property
    def is_data(self) -> bool:
        """Whether the data is bad; else tidegauge could not do its work."""
        return self in {Cause.CHECK, Cause.POLICY, Cause.REJECTS, Cause.ANOMALY}


@dataclass(frozen=True, slots=True)
class Problem:
    """Something by which a run is not simply good.

    Attributes
    ----------
    cause : Cause
    dataset : str
        Empty if it is not known.
    is_warning : bool
        Whether a check only warns.
    is_known : bool
        Whether an earlier run told this failure of a past partition, or somebody labelled the partition.
    """

    cause: Cause
    dataset: str = ""
    is_warning: bool = False
    is_known: bool = False


class Outcome(StrEnum):
    """The meaning of a run's results.

    Examples
    --------
    >>> [(str(outcome), outcome.exit_status) for outcome in Outcome]
    [('passed', 0), ('warning', 0), ('failed', 2), ('error', 1)]
    """

    PASSED = "passed"
    """Nothing to tell, or known failures only."""
    WARNING = "warning"
    """Something to look at that does not fail the run."""
    FAILED = "failed"
    """The data is bad; trying again does not help."""
    ERROR = "error"
    """Something could not be read, measured or written; trying again may help."""

    @property
    def exit_status(self) -> int:
        """The exit status of a command: 1 for an error, 2 for bad data, else 0."""
        return {Outcome.ERROR: 1, Outcome.FAILED: 2}.get(self, 0)


@dataclass(frozen=True, slots=True)
class Gate:
    """The problems of the data that fail a run; errors fail it always, and known failures never.

    Attributes
    ----------
    failures, warnings, rejects, anomalies : bool
        Whether it fails by checks and policies that fail, by checks that warn, by records that are
        rejected, and by anomalies.
    """

    failures: bool = True
    warnings: bool = False
    rejects: bool = False
    anomalies: bool = False

    def judge(self, problem: Problem) -> Outcome:
        """Return the outcome of a run that has this problem alone.

        Examples
        --------
        >>> str(Gate().judge(Problem(Cause.ANOMALY))), str(Gate().judge(Problem(Cause.TABLE)))
        ('warning', 'error')
        """
        if problem.is_known:
            return Outcome.PASSED
        if not problem.cause.is_data:
            return Outcome.ERROR
        match problem.cause:
            case Cause.ANOMALY:
                fails = self.anomalies
            case Cause.REJECTS:
                fails = self.rejects
            case _:
                fails = self.warnings if problem.is_warning else self.failures
        if fails:
            return Outcome.FAILED
        return Outcome.PASSED if problem.cause is Cause.REJECTS else Outcome.WARNING


def outcome_of(problems: Iterable[Problem], gate: Gate) -> Outcome:
    """Return the outcome of a run with these problems: the worst of theirs.

    An error outranks bad data, as what could not be measured may be worse.

    Examples
    --------
    >>> late = Problem(Cause.CHECK, "orders", is_known=True)
    >>> str(outcome_of([late], Gate())), str(outcome_of([late, Problem(Cause.POLICY)], Gate()))
    ('passed', 'failed')
    """
    found = {gate.judge(problem) for problem in problems}
    return next((outcome for outcome in reversed(Outcome) if outcome in found), Outcome.PASSED)
