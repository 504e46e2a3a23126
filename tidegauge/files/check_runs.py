"""Run the checks of suite files: measure the tables, judge each partition, report the results."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegauge.analysis import analyze, recording_start
from tidegauge.analyzers.core.errors import (
    SuiteError,
)
from tidegauge.display.fail_on import FailOnLevel
from tidegauge.display.junit import junit_xml
from tidegauge.files.checked import CheckedTable, check_table, open_file
from tidegauge.files.runs import failure_text, sinks_of, tables_of_files
from tidegauge.files.suite import load_suites
from tidegauge.notifications.notify import Notice, notify_all, summarize
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

    def status(self, fail_on: FailOnLevel = FailOnLevel.ERROR) -> int:
        """Return the exit status: 1 if a table could not be checked, else 2 if data failed, else 0."""
        if self.failed:
            return 1
        found = {table.verification.status for table in self.tables}
        return 2 if found & fail_on.statuses else 0

    def text(self) -> str:
        """Return a report for people."""
        lines = [line for table in self.tables for line in table.lines()]
        lines += [summarize(self.notices)] if self.notices else []
        return "\n".join([*lines, *(f"failed: {problem}" for problem in self.failed)])

    def json(self, fail_on: FailOnLevel = FailOnLevel.ERROR) -> str:
        """Return JSON: the status, the result of each constraint and partition, and failed tables."""
        results = [record for table in self.tables for record in table.records()]
        told = {"status": self.status(fail_on), "results": results, "failed": self.failed}
        return json.dumps(told, indent=1, ensure_ascii=False)

    def junit(self, fail_on: FailOnLevel = FailOnLevel.ERROR) -> str:
        """Return JUnit's XML: a suite for each table, a case for each constraint and partition.

        A warning is a failure, too, with ``fail_on="warning"``.
        """
        suites = [
            (f"{table.file.name} of {table.run.dataset}", list(table.cases(fail_on)))
            for table in self.tables
        ]
        return junit_xml(suites, self.failed)


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
            continue
        summary.failed += [
            f"{one.path}: {name} cannot be read: {why}" for name, why in run.unreadable.items()
        ]
        summary.failed += [one.explain(a, error) for a, error in run.failed.items()]
    summary.notices = notify_all(repository, sinks_of(one.suite for one in tables))
    return summary
