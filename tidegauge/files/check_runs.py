"""Run the checks of suite files: measure the tables, judge each partition, report the results."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegauge.analysis import analyze, recording_start
from tidegauge.analyzers.core.errors import (
    SuiteError,
)
from tidegauge.display.fail_on import FailOnLevel
from tidegauge.display.junit import junit_xml
from tidegauge.files.checked import CheckedTable, check_table, open_file
from tidegauge.files.runs import (
    failed_verdict_keys,
    failure_text,
    policies_name,
    policy_cases,
    policy_lines,
    policy_records,
    sinks_of,
    tables_of_files,
)
from tidegauge.files.suite import load_suites
from tidegauge.notifications.notify import Notice, notify_all, summarize
from tidegauge.outcome import Cause, Outcome, Problem, outcome_of
from tidegauge.rules.outcome.known import problems_of_run
from tidegauge.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegauge.repository.repository import Repository


@dataclass
class ChecksSummary:
    """Results of running the checks of several files.

    Attributes
    ----------
    tables : list of CheckedTable
    failed : list of str
        One message for each table that could not be checked.
    notices : list of Notice
        Notifications of verdicts, sent and failed.
    """

    tables: list[CheckedTable] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)

    def problems(self) -> Iterator[Problem]:
        """Yield the problems that keep the tables from passing."""
        for _ in self.failed:
            yield Problem(Cause.TABLE)
        for table in self.tables:
            yield from problems_of_run(table.run, table.known, policies_name(table.file))
            yield from table.problems()

    def outcome(self, fail_on: FailOnLevel = FailOnLevel.ERROR) -> Outcome:
        """Return the meaning of the results."""
        return outcome_of(self.problems(), fail_on.gate())

    def status(self, fail_on: FailOnLevel = FailOnLevel.ERROR) -> int:
        """Return the exit status: 1 if a table could not be checked, else 2 if data failed, else 0."""
        return self.outcome(fail_on).exit_status

    def text(self, options: str = "") -> str:
        """Return a report for people; the commands that it names get these options."""
        lines: list[str] = []
        for table in self.tables:
            lines += table.lines()
            lines += policy_lines(table.file, table.run, table.known)
            lines += table.known.advice(
                failed_verdict_keys(table.file, table.run, [table]), options
            )
        lines += [summarize(self.notices)] if self.notices else []
        lines += [line for table in self.tables for line in _known_errors(table)]
        return "\n".join([*lines, *(f"failed: {problem}" for problem in self._failures())])

    def _failures(self) -> list[str]:
        """Return a message for each table, partition and analyzer that failed."""
        return self.failed + [text for table in self.tables for text in _errors(table)]

    def json(self, fail_on: FailOnLevel = FailOnLevel.ERROR) -> str:
        """Return JSON: the status, the result of each constraint and partition, and what failed."""
        told = {
            "status": self.status(fail_on),
            "outcome": self.outcome(fail_on),
            "results": [record for table in self.tables for record in table.records()],
            "policies": {
                table.run.dataset: policy_records(table.run)
                for table in self.tables
                if table.run.checks
            },
            "failed": self._failures(),
        }
        return json.dumps(told, indent=1, ensure_ascii=False)

    def junit(self, fail_on: FailOnLevel = FailOnLevel.ERROR) -> str:
        """Return JUnit's XML: a suite for each table, a case for each constraint and partition.

        A warning is a failure, too, with ``fail_on="warning"``.
        """
        gate = fail_on.gate()
        suites = [
            (
                f"{table.file.name} of {table.run.dataset}",
                [*table.cases(gate), *policy_cases(table.file, table.run, table.known, gate)],
            )
            for table in self.tables
        ]
        return junit_xml(suites, self._failures())


def _errors(table: CheckedTable) -> Iterator[str]:
    """Yield a message for each partition that cannot be read, and each analyzer that failed."""
    for name, why in table.run.unreadable.items():
        yield f"{table.file.path}: {name} cannot be read: {why}"
    for analyzer, error in table.run.failed.items():
        if not table.known.has_error(analyzer):
            yield table.file.explain(analyzer, error)


def _known_errors(table: CheckedTable) -> Iterator[str]:
    """Yield a line for each analyzer whose failure is known."""
    for analyzer, error in table.run.failed.items():
        if table.known.has_error(analyzer):
            yield f"known: {table.file.explain(analyzer, error)}"


def run_checks(
    patterns: Sequence[str],
    repository: Repository,
    partitions: str = "new",
    variables: Mapping[str, str] | None = None,
    session: Callable[[], SparkSession] = spark_session,
    tags: Mapping[str, str] | None = None,
    *,
    allow_empty: bool = False,
) -> ChecksSummary:
    """Measure the tables of suite files, evaluate their checks on each partition, and notify.

    All files are read before Spark is started; those that cannot be read are reported. Verdicts are kept in the repository under each file's
    name for them (`SuiteFile.name`): a partition that passed is judged again only if it, or the checks, changed; one that
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
    tags : mapping of str to str, optional
        Tags of the runs.
    allow_empty : bool
        Whether checks and rules pass without data, whatever the files say.

    Raises
    ------
    SuiteError
        If no file can be read, one has no checks, or two keep verdicts of a dataset under one name.
    """
    files, errors = load_suites(patterns, variables, allow_empty=allow_empty)
    for file in files:
        if not file.checks:
            msg = f"{file.path}: the file has no checks; list them under checks:"
            raise SuiteError(msg)
    spark = session()
    summary = ChecksSummary(failed=errors)
    tables = tables_of_files(spark, files, summary.failed)
    for one in tables:
        try:
            with recording_start(repository, one.suite, one.table, partitions, tags):
                source = open_file(one, spark)
            run = analyze(
                source,
                one.suite,
                repository=repository,
                partitions=partitions,
                tags=tags,
                on_empty=one.on_no_records,
            )
            summary.tables.append(check_table(one, run, source, partitions, tags))
        except Exception as error:  # noqa: BLE001 - the other tables are still checked
            summary.failed.append(failure_text(one, error))
    summary.notices = notify_all(repository, sinks_of(one.suite for one in tables))
    return summary
