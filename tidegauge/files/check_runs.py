"""Run the checks of suite files: measure tables, judge each partition, keep the verdicts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from tidegauge.analysis import Run, analyze
from tidegauge.analyzers.core.description import canonical_json, key_of
from tidegauge.analyzers.core.errors import SuiteError, TidegaugeError, describe
from tidegauge.checks.check import Level
from tidegauge.checks.constraints import ConstraintStatus, PartitionResult
from tidegauge.checks.verification import Verification
from tidegauge.checks.verifying import verify
from tidegauge.files.runs import tables_of
from tidegauge.files.suite import SuiteFile, find_suites, load_suite
from tidegauge.rules.judging import fingerprints, kept_verdicts
from tidegauge.rules.result import CheckResult
from tidegauge.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegauge.repository.repository import Repository

NAME = "checks"
"""Name under which the verdicts of checks are kept."""


class FailOnLevel(StrEnum):
    """Least severity of a failure that makes the exit status 2; or never."""

    ERROR = "error"
    WARNING = "warning"
    NEVER = "never"


@dataclass(frozen=True)
class CheckedTable:
    """Results of a suite file's checks on one table.

    Attributes
    ----------
    file : SuiteFile
    run : Run
    verification : Verification
        On the partitions that were judged: those that are new or changed, or that failed before.
    """

    file: SuiteFile
    run: Run
    verification: Verification

    def place(self, one: PartitionResult) -> str:
        """Return the file and line of a result's constraint."""
        line = self.file.check_lines.get(one.result.constraint.description)
        return f"{self.file.path}{f':{line}' if line else ''}"

    def lines(self) -> Iterator[str]:
        """Yield the lines of a report: a summary, and each failure with its file and line."""
        yield str(self.run)
        found = self.verification
        if not found.judged:
            yield "  nothing new to check; what was checked before passed"
            return
        yield f"  {str(found).splitlines()[0]}"
        for one in found.judged:
            if not one.result.passed:
                where = one.partition or one.dataset
                told = f"{one.result.constraint.description}: {one.result.message}"
                yield f"  {self.place(one)}: {found.level_of(one)}: {where}: {told}"

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield each result as JSON values."""
        rows = self.verification.frame().to_json(orient="records", date_format="iso")
        for one, row in zip(self.verification.judged, json.loads(rows), strict=True):
            yield {"place": self.place(one), **row}


@dataclass
class ChecksSummary:
    """Results of running the checks of several files.

    Attributes
    ----------
    tables : list of CheckedTable
    failed : list of str
        One message for each table that could not be checked.
    """

    tables: list[CheckedTable] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def status(self, fail_on: FailOnLevel = FailOnLevel.ERROR) -> int:
        """Return the exit status: 1 if a table could not be checked, else 2 if data failed, else 0."""
        if self.failed:
            return 1
        found = {table.verification.status for table in self.tables}
        grave = {
            FailOnLevel.ERROR: {"error"},
            FailOnLevel.WARNING: {"error", "warning"},
            FailOnLevel.NEVER: set(),
        }
        return 2 if found & grave[fail_on] else 0

    def text(self) -> str:
        """Return a report for people."""
        lines = [line for table in self.tables for line in table.lines()]
        return "\n".join([*lines, *(f"failed: {problem}" for problem in self.failed)])

    def json(self) -> str:
        """Return JSON: the status, the result of each constraint and partition, and failed tables."""
        results = [record for table in self.tables for record in table.records()]
        told = {"status": self.status(), "results": results, "failed": self.failed}
        return json.dumps(told, indent=1, ensure_ascii=False)

    def junit(self) -> str:
        """Return JUnit's XML: a suite for each table, a case for each constraint and partition."""
        root = ET.Element("testsuites")
        for table in self.tables:
            judged = table.verification.judged
            failures = [one for one in judged if _is_error(table, one)]
            suite = ET.SubElement(
                root,
                "testsuite",
                name=table.run.dataset,
                tests=str(len(judged)),
                failures=str(len(failures)),
                errors="0",
            )
            for one in judged:
                of = {"classname": ".".join(filter(None, (one.dataset, one.partition)))}
                case = ET.SubElement(suite, "testcase", of, name=one.result.constraint.description)
                message = _printable(one.result.message)
                if _is_error(table, one):
                    told = ET.SubElement(case, "failure", message=message)
                    told.text = f"{table.place(one)}: {message}"
                elif message:
                    ET.SubElement(case, "system-out").text = f"{one.result.status}: {message}"
        for problem in self.failed:
            suite = ET.SubElement(root, "testsuite", name="tidegauge", tests="1", errors="1")
            case = ET.SubElement(suite, "testcase", classname="tidegauge", name="run")
            ET.SubElement(case, "error", message=_printable(problem))
        ET.indent(root)
        return ET.tostring(root, encoding="unicode", xml_declaration=True)


def run_checks(
    patterns: Sequence[str],
    repository: Repository,
    partitions: str = "new",
    variables: Mapping[str, str] | None = None,
    session: Callable[[], SparkSession] = spark_session,
) -> ChecksSummary:
    """Measure the tables of suite files and evaluate their checks on each partition.

    All files are read before Spark is started. Verdicts are kept in the repository under the name
    ``checks``: a partition that passed is judged again only if it, or the checks, changed; one that
    failed is judged each time. Numbers that are stored are not measured again.

    Parameters
    ----------
    patterns : sequence of str
        Paths, folders and globs.
    repository : Repository
    partitions : str
        As for `analyze`.
    variables : mapping of str to str, optional
        As for `load_suite`.
    session : callable
        Returns the Spark session.

    Raises
    ------
    SuiteError
        If a file cannot be read, or has no checks.
    """
    files = [load_suite(path, variables) for path in find_suites(patterns)]
    for file in files:
        if not file.checks:
            msg = f"{file.path}: the file has no checks; list them under checks:"
            raise SuiteError(msg)
    spark = session()
    summary = ChecksSummary()
    for file in files:
        try:
            for one in tables_of(spark, file):
                table = _checked(one, repository, spark, partitions)
                summary.tables.append(table)
                summary.failed += [
                    f"{file.path}: {name} cannot be read: {why}"
                    for name, why in table.run.unreadable.items()
                ]
        except Exception as error:  # noqa: BLE001 - the other files are still checked
            text = str(error) if isinstance(error, TidegaugeError) else describe(error)
            summary.failed.append(f"{file.path}: {text}")
    return summary


def _checked(
    file: SuiteFile, repository: Repository, spark: SparkSession, partitions: str
) -> CheckedTable:
    """Measure one table, judge the partitions that need it, and keep the verdicts."""
    run = analyze(
        file.table,
        file.suite,
        repository=repository,
        partitions=partitions,
        spark=spark,
        format=file.format,
        options=file.options,
    )
    told = [[str(check.level), c.description] for check in file.checks for c in check.constraints]
    specification = key_of(canonical_json(told))
    prints = fingerprints(repository, run.dataset)
    known = kept_verdicts(repository, run.dataset, NAME, specification)
    settled = {name for name, verdict in known.items() if verdict.passed} - run.changes.keys()
    due: str | list[str] = sorted(prints.keys() - settled)
    if partitions not in {"new", "all"}:
        due = partitions
    found = (
        verify(repository, file.checks, dataset=run.dataset, partitions=due)
        if due
        else Verification(file.checks, ())
    )
    checked = CheckedTable(file, run, found)
    by_partition: dict[str, list[PartitionResult]] = {}
    for one in found.judged:
        by_partition.setdefault(one.partition, []).append(one)
    for name, results in by_partition.items():
        verdict = _verdict(checked, results)
        repository.keep_verdict(
            run.dataset,
            name=NAME,
            specification=specification,
            fingerprint=prints[name],
            passed=verdict.passed,
            result=verdict.to_json(),
            partition=name,
            run=run.id,
        )
    return checked


def _verdict(checked: CheckedTable, results: Sequence[PartitionResult]) -> CheckResult:
    """Return the verdict on one partition; warnings pass and stand in its log."""
    errors = [one for one in results if _is_error(checked, one)]
    return CheckResult(
        passed=not errors,
        error_messages=tuple((_named(one), one.result.message) for one in errors),
        check_log=tuple(
            f"{'failed' if one in errors else one.result.status}: {_named(one)}: {one.result.message}"
            for one in results
            if one.result.message
        ),
        outcomes=tuple((_named(one), one not in errors) for one in results),
    )


def _named(one: PartitionResult) -> str:
    return one.result.constraint.description


def _is_error(checked: CheckedTable, one: PartitionResult) -> bool:
    """Return whether a result fails a check of level ``error``."""
    failed = one.result.status is ConstraintStatus.FAILURE
    return failed and checked.verification.level_of(one) == Level.ERROR


def _printable(text: str) -> str:
    """Return text without the control characters that XML cannot hold."""
    return "".join(c for c in text if c in "\t\n" or c.isprintable())
