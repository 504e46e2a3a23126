"""The outcome of a run: one answer for every place that shows, sends or returns it.

Results are reduced to problems, and a gate says which problems of the data fail a run. The exit status,
JSON, JUnit, Airflow and Dagster all ask `outcome_of`. Every command line imports the levels at which failed data
make it exit with 2; continuous integration reads the results as JUnit XML.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal
from xml.etree import ElementTree as ET


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


DEFAULT_GATE = Gate()
"""Only failed checks and policies fail a run."""


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


class FailOn(StrEnum):
    """Condition for exit status 2: a failed policy, any rejected record, or never."""

    POLICY = "policy"
    REJECT = "reject"
    NEVER = "never"

    def gate(self) -> Gate:
        """Return the problems that fail the command."""
        return Gate(failures=self is not FailOn.NEVER, rejects=self is FailOn.REJECT)


class FailOnLevel(StrEnum):
    """Least severity of a failure that makes the exit status 2; or never."""

    ERROR = "error"
    WARNING = "warning"
    NEVER = "never"

    def gate(self, *, anomalies: bool = False) -> Gate:
        """Return the problems that fail the command; anomalies, too, if asked for."""
        failures = self is not FailOnLevel.NEVER
        return Gate(failures, warnings=self is FailOnLevel.WARNING, anomalies=anomalies)


Kind = Literal["passed", "failure", "error", "skipped"]


@dataclass(frozen=True)
class JUnitCase:
    """One test case.

    Attributes
    ----------
    of : str
        What was tested: a dataset, or a partition of it.
    name : str
        The condition.
    kind : {"passed", "failure", "error", "skipped"}
        An error is of the tool or of the specification, a failure of the data. Without data a case
        is skipped, unless it fails.
    message : str
        Why it did not pass; of a case that passed, what else is to be said.
    place : str
        Where the condition is written: file and line.
    details : sequence of str
        More lines below the message of one that did not pass.
    type : str
        Status of a failure, if it is not an ordinary one.
    """

    of: str
    name: str
    kind: Kind = "passed"
    message: str = ""
    place: str = ""
    details: Sequence[str] = ()
    type: str = ""


def junit_xml(
    suites: Sequence[tuple[str, Sequence[JUnitCase]]], problems: Sequence[str] = ()
) -> str:
    r"""Return JUnit XML of named suites of cases; each problem is a suite that ended with an error.

    Characters that XML cannot hold are left out.

    Examples
    --------
    >>> failed = JUnitCase("rides.ds=2013-02-08", "fare", "failure", "3 records, none wanted", "rides.yml:4", ["fare=-3"])
    >>> print(junit_xml([("rides.yml of rides", [failed])]))
    <?xml version='1.0' encoding='utf-8'?>
    <testsuites>
      <testsuite name="rides.yml of rides" tests="1" failures="1" errors="0">
        <testcase classname="rides.ds=2013-02-08" name="fare">
          <failure message="3 records, none wanted">rides.yml:4: 3 records, none wanted
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
    of, name, message = map(_printable, (case.of, case.name, case.message))
    element = ET.SubElement(suite, "testcase", classname=of, name=name)
    if case.kind != "passed":
        status = {"type": _printable(case.type)} if case.type else {}
        found = ET.SubElement(element, case.kind, {"message": message, **status})
        told = ": ".join(filter(None, (case.place, message)))
        found.text = _printable("\n".join(filter(None, [told, *case.details])))
    elif message:
        ET.SubElement(element, "system-out").text = message


def _printable(text: str) -> str:
    return "".join(c for c in text if c in "\t\n" or c.isprintable())
