"""The outcome of a run, for the exit status, JSON, JUnit XML, Airflow and Dagster.

The results of a run are reduced to problems. A gate defines which problems of the data fail the run, and
`outcome_of` combines both into one outcome. `FailOn` and `FailOnLevel` are the values of ``--fail-on``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal
from xml.etree import ElementTree as ET


class Cause(StrEnum):
    """The subject of a problem."""

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
    """An anomaly in the partitions that were measured last."""

    @property
    def is_data(self) -> bool:
        """Whether the data is bad; otherwise tidegauge could not do its work."""
        return self in {Cause.CHECK, Cause.POLICY, Cause.REJECTS, Cause.ANOMALY}


@dataclass(frozen=True, slots=True)
class Problem:
    """A reason why a run did not simply pass.

    Attributes
    ----------
    cause : Cause
    dataset : str
        Empty if the dataset is unknown.
    is_warning : bool
        Whether a check only warns.
    is_known : bool
        Whether an earlier run reported this failure of a past partition, or a person labeled the partition.
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
    """No problems, or only known failures."""
    WARNING = "warning"
    """Problems to look at, which do not fail the run."""
    FAILED = "failed"
    """The data is bad; a retry does not help."""
    ERROR = "error"
    """Something could not be read, measured or written; a retry can help."""

    @property
    def exit_status(self) -> int:
        """The exit status of a command: 1 for an error, 2 for bad data, else 0."""
        return {Outcome.ERROR: 1, Outcome.FAILED: 2}.get(self, 0)


@dataclass(frozen=True, slots=True)
class Gate:
    """The problems of the data that fail a run. Errors always fail it, known failures never.

    Attributes
    ----------
    failures, warnings, rejects, anomalies : bool
        Whether the run fails if checks or policies fail, if checks warn, if records are rejected, or if
        there are anomalies.
    """

    failures: bool = True
    warnings: bool = False
    rejects: bool = False
    anomalies: bool = False

    def judge(self, problem: Problem) -> Outcome:
        """Return the outcome of a run that has only this problem.

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


DEFAULT_GATE = Gate()
"""Only failed checks and policies fail a run."""


def outcome_of(problems: Iterable[Problem], gate: Gate) -> Outcome:
    """Return the outcome of a run with these problems: the worst outcome of a single problem.

    An error outranks bad data, because the data that could not be measured can be worse.

    Examples
    --------
    >>> late = Problem(Cause.CHECK, "orders", is_known=True)
    >>> str(outcome_of([late], Gate())), str(outcome_of([late, Problem(Cause.POLICY)], Gate()))
    ('passed', 'failed')
    """
    outcomes = {gate.judge(problem) for problem in problems}
    return next((outcome for outcome in reversed(Outcome) if outcome in outcomes), Outcome.PASSED)


class FailOn(StrEnum):
    """Condition for exit status 2: a failed policy, any rejected record, or never."""

    POLICY = "policy"
    REJECT = "reject"
    NEVER = "never"

    def gate(self) -> Gate:
        """Return the gate of the command."""
        return Gate(failures=self is not FailOn.NEVER, rejects=self is FailOn.REJECT)


class FailOnLevel(StrEnum):
    """Minimum severity of a failure that makes the exit status 2, or never."""

    ERROR = "error"
    WARNING = "warning"
    NEVER = "never"

    def gate(self, *, anomalies: bool = False) -> Gate:
        """Return the gate of the command.

        Parameters
        ----------
        anomalies : bool
            Whether anomalies fail the command.
        """
        failures = self is not FailOnLevel.NEVER
        return Gate(failures, warnings=self is FailOnLevel.WARNING, anomalies=anomalies)


Kind = Literal["passed", "failure", "error", "skipped"]


@dataclass(frozen=True)
class JUnitCase:
    """One test case.

    Attributes
    ----------
    subject : str
        The tested dataset or partition.
    name : str
        The condition.
    kind : {"passed", "failure", "error", "skipped"}
        The data causes failures, the tool or the specification causes errors. Without data a case is
        skipped, unless it fails.
    message : str
        The reason why the case did not pass, or a remark on a passed case.
    location : str
        File and line of the condition.
    details : sequence of str
        Further lines below the message of a case that did not pass.
    type : str
        Status of a failure, if it is not an ordinary failure.
    """

    subject: str
    name: str
    kind: Kind = "passed"
    message: str = ""
    location: str = ""
    details: Sequence[str] = ()
    type: str = ""


def junit_xml(
    suites: Sequence[tuple[str, Sequence[JUnitCase]]], problems: Sequence[str] = ()
) -> str:
    r"""Return JUnit XML of named suites of cases. Each problem becomes a suite with an error.

    Characters that XML cannot represent are removed.

    Examples
    --------
    >>> failed = JUnitCase("rides.ds=2013-02-08", "fare", "failure", "3 records, at most 0 allowed", "rides.yml:4", ["fare=-3"])
    >>> print(junit_xml([("rides.yml of rides", [failed])]))
    <?xml version='1.0' encoding='utf-8'?>
    <testsuites>
      <testsuite name="rides.yml of rides" tests="1" failures="1" errors="0">
        <testcase classname="rides.ds=2013-02-08" name="fare">
          <failure message="3 records, at most 0 allowed">rides.yml:4: 3 records, at most 0 allowed
    fare=-3</failure>
        </testcase>
      </testsuite>
    </testsuites>
    """
    root = ET.Element("testsuites")
    run_errors = [
        ("tidegauge", [JUnitCase("tidegauge", "run", "error", problem)]) for problem in problems
    ]
    for name, cases in [*suites, *run_errors]:
        suite = ET.SubElement(root, "testsuite", name=_printable(name), tests=str(len(cases)))
        for kind, plural in (("failure", "failures"), ("error", "errors")):
            suite.set(plural, str(sum(case.kind == kind for case in cases)))
        if skipped := sum(case.kind == "skipped" for case in cases):
            suite.set("skipped", str(skipped))
        for case in cases:
            _add(suite, case)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True)


def _add(suite: ET.Element, case: JUnitCase) -> None:
    subject, name, message = map(_printable, (case.subject, case.name, case.message))
    element = ET.SubElement(suite, "testcase", classname=subject, name=name)
    if case.kind != "passed":
        status = {"type": _printable(case.type)} if case.type else {}
        result = ET.SubElement(element, case.kind, {"message": message, **status})
        headline = ": ".join(filter(None, (case.location, message)))
        result.text = _printable("\n".join(filter(None, [headline, *case.details])))
    elif message:
        ET.SubElement(element, "system-out").text = message


def _printable(text: str) -> str:
    return "".join(c for c in text if c in "\t\n" or c.isprintable())
