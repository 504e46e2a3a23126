"""Run jobs on many tables and report the results; suites, checks and rules share this module.

A job works on one table and returns a report. `run_tables` calls it for each table, optionally in
several threads. If one table fails, the others continue. A `JobResult` collects the reports.
Its text,
JSON, JUnit XML and exit status all derive from the same problems.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from tidegauge.analyzers.core.errors import RetiredDatasetError, message_of
from tidegauge.analyzers.scan.capabilities import activate
from tidegauge.notifications.notify import Notice, summarize
from tidegauge.outcome import (
    DEFAULT_GATE,
    Cause,
    Gate,
    JUnitCase,
    Outcome,
    Problem,
    junit_xml,
    outcome_of,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class TableReport(Protocol):
    """A job's report on one table."""

    def problems(self) -> Iterator[Problem]:
        """Yield the problems that keep the table from passing."""

    def lines(self, options: str = "") -> Iterator[str]:
        """Yield lines of text. ``options`` are appended to commands in them."""

    def sections(self) -> Mapping[str, Any]:
        """Return JSON values by section: lists, or objects by dataset. The job merges the sections of all tables."""

    def errors(self) -> Iterator[str]:
        """Yield a sentence for each part that could not be measured, unless a line or case reports it."""

    def junit_suite(self, gate: Gate) -> tuple[str, Sequence[JUnitCase]]:
        """Return the name and the cases of the table's JUnit suite."""


Table = TypeVar("Table")
Report = TypeVar("Report", bound=TableReport)


@dataclass
class JobResult(Generic[Report]):
    """Results of a job on several tables.

    Attributes
    ----------
    tables : list of TableReport
        Reports of the tables.
    failed : list of str
        A sentence for each file that could not be read and each table that could not be measured.
    retired : list of str
        A sentence for each table that was skipped because its dataset is retired.
    notices : list of Notice
        Sent and failed notifications of incidents and verdicts.
    """

    tables: list[Report] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    retired: list[str] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)

    def problems(self) -> Iterator[Problem]:
        """Yield the problems that keep the tables from passing.

        Retired datasets are problems only if no other table was measured.
        """
        for _ in self._not_measured():
            yield Problem(Cause.TABLE)
        for table in self.tables:
            yield from table.problems()

    def outcome(self, gate: Gate = DEFAULT_GATE) -> Outcome:
        """Return the overall outcome."""
        return outcome_of(self.problems(), gate)

    def status(self, gate: Gate = DEFAULT_GATE) -> int:
        """Return the exit status: 1 if something could not be measured, else 2 for bad data, else 0."""
        return self.outcome(gate).exit_status

    def lines(self, options: str = "") -> list[str]:
        """Return the report as lines of text. ``options`` are appended to commands in them."""
        lines = [line for table in self.tables for line in table.lines(options)]
        return [*lines, *self.closing_lines(options)]

    def closing_lines(self, options: str = "") -> list[str]:
        """Return the lines that follow the lines of the tables."""
        lines = [summarize(self.notices)] if self.notices else []
        lines += [f"skipped: {problem}" for problem in self.retired]
        return lines + [f"failed: {problem}" for problem in [*self.failed, *self._errors()]]

    def text(self, options: str = "") -> str:
        """Return the report as text. ``options`` are appended to commands in it."""
        return "\n".join(self.lines(options))

    def sections(self) -> dict[str, Any]:
        """Return the JSON values of all tables, by section."""
        sections: dict[str, Any] = {}
        for table in self.tables:
            for name, values in table.sections().items():
                if isinstance(values, Mapping):
                    sections.setdefault(name, {}).update(values)
                else:
                    sections.setdefault(name, []).extend(values)
        return sections

    def json(self, gate: Gate = DEFAULT_GATE) -> str:
        """Return JSON with the exit status, outcome, tables, failures and notifications."""
        result = {
            "status": self.status(gate),
            "outcome": self.outcome(gate),
            **self.sections(),
            "failed": [*self.failed, *self._errors()],
            "notifications": summarize(self.notices) if self.notices else None,
        }
        return json.dumps(result, indent=1, ensure_ascii=False)

    def junit_suites(self, gate: Gate) -> list[tuple[str, Sequence[JUnitCase]]]:
        """Return a JUnit suite for each table."""
        return [table.junit_suite(gate) for table in self.tables]

    def junit(self, gate: Gate = DEFAULT_GATE) -> str:
        """Return JUnit XML with a suite for each table, and an error for each table that was not measured."""
        return junit_xml(self.junit_suites(gate), [*self._not_measured(), *self._errors()])

    def add(self, name: str, result: Report | Exception) -> None:
        """Add a table's report, or the error that ended it, under the name of its file."""
        if isinstance(result, RetiredDatasetError):
            self.retired.append(f"{name}: {message_of(result)}")
        elif isinstance(result, Exception):
            self.failed.append(f"{name}: {message_of(result)}")
        else:
            self.tables.append(result)

    def _errors(self) -> Iterator[str]:
        for table in self.tables:
            yield from table.errors()

    def _not_measured(self) -> list[str]:
        return self.failed if self.tables else self.failed + self.retired


def run_tables(
    tables: Sequence[Table],
    work: Callable[[Table], Report],
    spark: SparkSession | None,
    *,
    jobs: int = 1,
    finished: Callable[[Table, Report | Exception], None] | None = None,
) -> Iterator[tuple[Table, Report | Exception]]:
    """Yield each table with its report, or with the error that ended it.

    Parameters
    ----------
    tables : sequence
        The tables, in the order of the result.
    work : callable
        Works on one table.
    spark : SparkSession or None
        The session of all threads; None for work without Spark.
    jobs : int
        Number of tables to work on at the same time, in threads that share the session. One job runs in
        the caller's thread.
    finished : callable, optional
        Called with each table and its result as soon as it is finished, by one thread at a time.
    """
    reporting = Lock()

    def run(table: Table) -> Report | Exception:
        result: Report | Exception
        try:
            result = work(table)
        except Exception as error:  # noqa: BLE001 - the other tables continue
            result = error
        if finished is not None:
            with reporting:
                finished(table, result)
        return result

    if jobs == 1:
        yield from ((table, run(table)) for table in tables)
        return
    initialize = None if spark is None else partial(activate, spark)
    with ThreadPoolExecutor(jobs, "tidegauge-run", initialize) as pool:
        yield from zip(tables, pool.map(run, tables), strict=True)


def sinks_by_dataset(suites: Iterable[Any]) -> dict[str, list[str]]:
    """Return the notification sinks of the suites, by dataset."""
    sinks: dict[str, list[str]] = {}
    for suite in suites:
        sinks.setdefault(suite.dataset, []).extend(suite.notify)
    return sinks
