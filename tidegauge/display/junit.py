"""JUnit XML of results, for continuous integration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from xml.etree import ElementTree as ET

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
