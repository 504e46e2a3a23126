"""Run suite files: many tables in one Spark session, with one summary.

`run_suites` measures the tables, detects anomalies and notifies. `run_checks` measures them, judges the checks
of each partition and reports the results.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import partial
from math import isfinite
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from tidegauge.analysis import Run, analyze, recording_start
from tidegauge.analyzers.core.errors import (
    NoSuchTableError,
    RetiredDatasetError,
    SuiteError,
    TidegaugeError,
    UnknownDatasetError,
    message_of,
)
from tidegauge.analyzers.core.formatting import plural
from tidegauge.analyzers.core.sql import quote
from tidegauge.analyzers.runs.recording import Progress, Silent
from tidegauge.analyzers.scan.capabilities import activate
from tidegauge.files.checked import CheckedTable, check_table, open_file
from tidegauge.files.suite_files import SuiteFile, load_suites
from tidegauge.notifications.notify import Notice, notify_all, summarize
from tidegauge.outcome import (
    Cause,
    FailOnLevel,
    Gate,
    JUnitCase,
    Kind,
    Outcome,
    Problem,
    junit_xml,
    outcome_of,
)
from tidegauge.repository.store.config import dashboard_url
from tidegauge.repository.store.frames import records
from tidegauge.repository.store.listing import last_measuring_runs
from tidegauge.repository.store.rows import Severity
from tidegauge.rules.known_failures import KnownFailures, problems_of_policies, problems_of_run
from tidegauge.spark.session import spark_session
from tidegauge.widgets.script import incident_address

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession

    from tidegauge.repository.repository import Repository
    from tidegauge.suite import Suite


T = TypeVar("T")

MOST_ANOMALIES = 10
"""Anomalies of a dataset that a summary tells one by one."""
_PLAIN = re.compile(r"\w+", re.ASCII)
"""Names of tables that need no quotes."""


class TableResult(NamedTuple):
    """Result of measuring one table."""

    run: Run
    checked: list[CheckedTable]
    known: KnownFailures


@dataclass
class Summary:
    """The results of running suites.

    Attributes
    ----------
    runs : list of (SuiteFile, Run)
    failed : list of str
        One sentence for each table that could not be measured.
    anomalies : list of DataFrame
        Anomalies in the scanned partitions; of a dataset without new ones those still open in the
        partitions that were measured last.
    notices : list of Notice
        Notifications of incidents and checks, sent and failed.
    checked : list of CheckedTable
        Results of the files' checks.
    known : dict of str to KnownFailures
        Failures that do not fail the run, by dataset.
    url : str or None
        The dashboard's address, where incidents are linked to.
    timeless : list of str
        Datasets whose partitions have no time.
    retired : list of str
        One sentence for each table whose dataset is retired; it was not measured.
    """

    runs: list[tuple[SuiteFile, Run]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    anomalies: list[pd.DataFrame] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    checked: list[CheckedTable] = field(default_factory=list)
    known: dict[str, KnownFailures] = field(default_factory=dict)
    url: str | None = None
    timeless: list[str] = field(default_factory=list)
    retired: list[str] = field(default_factory=list)

    def problems(self) -> Iterator[Problem]:
        """Yield the problems that keep the tables from passing.

        Retired datasets are left out, unless there are no others: then nothing was checked.
        """
        for _ in [*self.failed, *(self.retired if not self.runs else ())]:
            yield Problem(Cause.TABLE)
        for file, run in self.runs:
            yield from problems_of_run(run, self.known_of(run), policies_name(file))
        for one in self.checked:
            yield from one.problems()
        for frame in self.anomalies:
            yield from (Problem(Cause.ANOMALY, dataset) for dataset in frame["dataset"])

    def known_of(self, run: Run) -> KnownFailures:
        """Return the known failures of a run's dataset."""
        return self.known.get(run.dataset, KnownFailures(run.dataset))

    def outcome(
        self, *, fail_on_anomaly: bool, fail_on: FailOnLevel = FailOnLevel.ERROR
    ) -> Outcome:
        """Return the meaning of the results."""
        return outcome_of(self.problems(), fail_on.gate(anomalies=fail_on_anomaly))

    def status(self, *, fail_on_anomaly: bool, fail_on: FailOnLevel = FailOnLevel.ERROR) -> int:
        """Return the exit status; 1 for failures of tidegauge outranks 2 for failures of the data."""
        return self.outcome(fail_on_anomaly=fail_on_anomaly, fail_on=fail_on).exit_status

    @property
    def found(self) -> int:
        """The number of anomalies."""
        return sum(len(frame) for frame in self.anomalies)

    def lines(self, options: str = "") -> list[str]:
        """Return the summary as lines of text; the commands that it names get these options."""
        lines = []
        for file, run in self.runs:
            lines += run_lines(file, run, self.known_of(run))
        for one in self.checked:
            lines += one.failures()
        for file, run in self.runs:
            checked = [one for one in self.checked if one.run is run]
            failing = failed_verdict_keys(file, run, checked)
            lines += self.known_of(run).advice(failing, options)
        return [*lines, *self.closing_lines(options)]

    def closing_lines(self, options: str = "") -> list[str]:
        """Return the lines after those of the tables: anomalies, notices, failures and totals."""
        lines: list[str] = []
        for frame in self.anomalies:
            lines += self._told(frame, options)
        lines += [
            f"  warning: no time is known of the partitions of {dataset}: weekdays, missing days and windows"
            ' need one; add to its file, for example, time: {format: "%Y-%m-%d", key: KEY}'
            for dataset in self.timeless
        ]
        if self.notices:
            lines.append(summarize(self.notices))
        lines += [f"left out: {problem}" for problem in self.retired]
        lines += [f"failed: {problem}" for problem in self.failed]
        totals = []
        if len(self.runs) + len(self.failed) > 1:
            totals.append(f"{plural(len(self.runs), 'table')} measured, {len(self.failed)} failed")
        if self.checked:
            totals.append(checks_text(self.checked))
        if self.runs or totals:
            totals.append(f"{self.found:,} anomal{'y' if self.found == 1 else 'ies'}")
            lines.append(", ".join(totals))
        return lines

    def json(self, *, fail_on_anomaly: bool, fail_on: FailOnLevel = FailOnLevel.ERROR) -> str:
        """Return JSON: the status, tables, results of checks, anomalies, and what failed."""
        tables = [
            {
                "dataset": run.dataset,
                "file": str(file.path),
                "table": file.table,
                "run": run.id,
                "status": run.status,
                "scanned": run.report.scanned,
                "skipped": run.report.skipped,
                "changes": {name: str(change) for name, change in run.changes.items()},
                "failed": [file.explain(a, error) for a, error in run.failed.items()],
                "unreadable": dict(run.unreadable),
                "policies": policy_records(run),
            }
            for file, run in self.runs
        ]
        anomalies = [
            {name: _json_value(value) for name, value in row.items()}
            for frame in self.anomalies
            for row in records(frame)
        ]
        told = {
            "status": self.status(fail_on_anomaly=fail_on_anomaly, fail_on=fail_on),
            "outcome": self.outcome(fail_on_anomaly=fail_on_anomaly, fail_on=fail_on),
            "tables": tables,
            "results": [record for one in self.checked for record in one.records()],
            "anomalies": anomalies,
            "failed": self.failed,
        }
        return json.dumps(told, indent=1, ensure_ascii=False)

    def junit(self, *, fail_on_anomaly: bool, fail_on: FailOnLevel = FailOnLevel.ERROR) -> str:
        """Return JUnit's XML: a suite for each table, with cases for its run, policies, checks and anomalies."""
        gate = fail_on.gate(anomalies=fail_on_anomaly)
        checked = {id(one.run): one for one in self.checked}
        suites = []
        for file, run in self.runs:
            known = self.known_of(run)
            problems = [
                file.explain(a, error) for a, error in run.failed.items() if not known.has_error(a)
            ]
            problems += [f"{name} cannot be read: {why}" for name, why in run.unreadable.items()]
            kind: Kind = "error" if problems else "passed"
            message = "; ".join(problems) or str(run)
            cases = [JUnitCase(run.dataset, "measured", kind, message, str(file.path))]
            cases += policy_cases(file, run, known, gate)
            if id(run) in checked:
                cases += checked[id(run)].cases(gate)
            suites.append((f"{file.path} of {run.dataset}", cases))
        is_anomaly_bad = gate.judge(Problem(Cause.ANOMALY)) is Outcome.FAILED
        anomalies = [
            JUnitCase(
                f"{row['dataset']}.{row['partition']}",
                f"{row['name']} {row['instance']}",
                "failure" if is_anomaly_bad else "passed",
                f"{row['severity']}: {row['explanation']}",
            )
            for frame in self.anomalies
            for row in records(frame)
        ]
        if anomalies:
            suites.append(("anomalies", anomalies))
        return junit_xml(suites, self.failed + (self.retired if not self.runs else []))

    def _told(self, anomalies: pd.DataFrame, options: str) -> Iterator[str]:
        """Yield lines of the gravest anomalies of a dataset, and of where all of them are told."""
        if anomalies.empty:
            return
        gravity = anomalies["severity"].map(lambda one: list(Severity).index(Severity(one)))
        gravest = anomalies.loc[gravity.sort_values(ascending=False, kind="stable").index]
        for severity, text in zip(
            gravest["severity"][:MOST_ANOMALIES], gravest["explanation"], strict=False
        ):
            yield f"  {severity}: {text}"
        more = len(gravest) - MOST_ANOMALIES
        if more > 0:
            yield f"  and {more:,} more anomal{'ies' if more > 1 else 'y'}"
        incidents = gravest["incident_id"].drop_duplicates().astype(int).tolist()
        if self.url is not None:
            for number in incidents[:MOST_ANOMALIES]:
                yield f"  see: {incident_address(self.url, number)}"
            return
        yield f"  explained: tidegauge anomalies show {incidents[0]}{options}"
        if len(incidents) > 1:
            dataset = shlex.quote(gravest["dataset"].iloc[0])
            listed = f"tidegauge anomalies list {dataset} --incidents{options}"
            yield f"  all {plural(len(incidents), 'incident')}: {listed}"


def _json_value(value: Any) -> Any:
    """Return a cell of a frame as JSON has it: times as text, and no number that is not finite."""
    if isinstance(value, datetime):
        return value.isoformat()
    return None if isinstance(value, float) and not isfinite(value) else value


def run_lines(file: SuiteFile, run: Run, known: KnownFailures) -> list[str]:
    """Return the lines on a table: what was measured, and what failed."""
    lines = [str(run)]
    for analyzer, error in run.failed.items():
        prefix = "known: " if known.has_error(analyzer) else ""
        lines.append(f"  {prefix}{file.explain(analyzer, error)}")
    lines += [f"  {name}: cannot be read: {why}" for name, why in run.unreadable.items()]
    return lines + policy_lines(file, run, known)


def policies_name(file: SuiteFile) -> str:
    """Return the name under which verdicts of a file's policies are kept."""
    return "" if file.suite.dqm is None else file.suite.dqm.name


def failed_verdict_keys(
    file: SuiteFile, run: Run, checked: Iterable[CheckedTable]
) -> Iterator[tuple[str, str]]:
    """Yield the names and partitions of a table's verdicts that fail."""
    for partition, check in run.checks.items():
        if not check.passed:
            yield policies_name(file), partition
    for one in checked:
        yield from ((file.name, partition) for partition in one.failing_partitions())


def policy_lines(file: SuiteFile, run: Run, known: KnownFailures) -> list[str]:
    """Return the lines on policies: those that fail, and of what was measured those without data."""
    name, lines = policies_name(file), []
    for partition, check in run.checks.items():
        if not check.passed or (check.no_data and partition in {"", *run.changes}):
            is_known = not check.passed and known.has_verdict(name, partition)
            lines.append(f"  {'known: ' * is_known}{partition or run.dataset}: {check}")
    return lines


def policy_records(run: Run) -> dict[str, Any]:
    """Return the verdicts of policies by partition, as JSON values."""
    return {partition: json.loads(check.to_json()) for partition, check in run.checks.items()}


def policy_cases(
    file: SuiteFile, run: Run, known: KnownFailures, gate: Gate
) -> Iterator[JUnitCase]:
    """Yield a JUnit case for the policies of each partition; known failures are skipped."""
    for partition, check in run.checks.items():
        problems = list(problems_of_policies(run, {partition: check}, known, policies_name(file)))
        kind: Kind = "passed"
        if outcome_of(problems, gate) is Outcome.FAILED:
            kind = "failure"
        elif any(problem.is_known for problem in problems):
            kind = "skipped"
        of = ".".join(filter(None, (run.dataset, partition)))
        yield JUnitCase(of, "policies", kind, str(check))


def result_lines(
    file: SuiteFile,
    result: TableResult | Exception,
    options: str = "",
    *,
    counts_checks: bool,
) -> list[str]:
    """Return the lines on a table that is finished; of a single one, the totals count the checks."""
    if isinstance(result, Exception):  # the summary says why
        is_retired = isinstance(result, RetiredDatasetError)
        return [f"{file.suite.dataset}: {'left out' if is_retired else 'failed'}"]
    run, checked, known = result
    lines = run_lines(file, run, known)
    for one in checked:
        lines += [f"  {checks_text([one])}"] if counts_checks else []
        lines += one.failures()
    return lines + known.advice(failed_verdict_keys(file, run, checked), options)


def checks_text(tables: Sequence[CheckedTable]) -> str:
    """Return how many checks passed, and in how many partitions."""
    count = sum(len(check.constraints) for one in tables for check in one.file.checks)
    failing, partitions = set(), set()
    for place, one in enumerate(tables):
        for result in one.verification.judged:
            partitions.add((place, result.partition))
            if not result.result.passed:
                failing.add((place, result.result.constraint.identity))
    checks = plural(count, "check")
    if not partitions:
        return f"{checks} passed before, nothing new to check"
    passed = f"{count - len(failing):,} of {checks}" if failing else checks
    where = plural(len(partitions), "partition")
    return f"{passed} passed in {where}"


def run_suites(
    patterns: Sequence[str],
    repository: Repository,
    partitions: str | Sequence[str] = "new",
    tags: Mapping[str, str] | None = None,
    session: Callable[[], SparkSession] = spark_session,
    *,
    variables: Mapping[str, str] | None = None,
    allow_empty: bool = False,
    rename: bool = False,
    resegment: bool = False,
    jobs: int = 1,
    report: Callable[[Sequence[str]], None] | None = None,
    progress: Callable[[], Progress] | None = None,
    options: str = "",
) -> Summary:
    """Measure the tables of suites by paths, folders and globs, judge checks, detect anomalies, notify.

    All files are read before Spark is started. A file that cannot be read and a table that fails are
    reported, and the others continue.

    Parameters
    ----------
    patterns : sequence of str
    repository : Repository
    partitions : str or sequence of str
        As for `analyze`.
    tags : mapping of str to str, optional
        Tags of the runs.
    session : callable
        Returns the Spark session.
    variables : mapping of str to str, optional
        As for `load_suite`; every file declares them.
    allow_empty : bool
        Whether checks and rules pass without data, whatever the files say.
    rename, resegment : bool
        As for `analyze`.
    jobs : int
        Number of tables to measure at the same time, in threads of one session. Small tables leave a
        cluster waiting for the driver; several of them share it.
    report : callable, optional
        Takes the lines on each table when it is finished, in that order; from one thread at a time.
    progress : callable, optional
        Returns the progress of one table. Default: a bar on a terminal and in a notebook, if one table is
        measured at a time.
    options : str
        The end of commands that the reported lines name.

    Raises
    ------
    SuiteError
        If no file can be read as a suite, or two keep verdicts of a dataset under one name.
    """
    files, errors = load_suites(patterns, variables, allow_empty=allow_empty)
    spark, started = session(), datetime.now(UTC)
    if progress is None and jobs > 1:
        progress = Silent  # a terminal has room for one bar
    reporting = Lock()
    summary = Summary(failed=errors, url=_dashboard())
    tables = tables_of_files(spark, files, summary.failed)

    def measure_and_report(one: SuiteFile) -> TableResult | Exception:
        result = measure(one)
        if report is not None:
            with reporting:
                report(result_lines(one, result, options, counts_checks=len(tables) > 1))
        return result

    def measure(one: SuiteFile) -> TableResult | Exception:
        """Measure and check one table; return its results, or what went wrong."""
        try:
            with recording_start(repository, one.suite, one.table, partitions, tags):
                source = open_file(one, spark)
            run = analyze(
                source,
                one.suite,
                repository=repository,
                partitions=partitions,
                tags=tags,
                rename=rename,
                resegment=resegment,
                progress=None if progress is None else progress(),
                on_empty=one.on_no_records,
            )
            checked = [check_table(one, run, source, partitions, tags)] if one.checks else []
            return TableResult(run, checked, _known_failures(run, checked, partitions))
        except Exception as error:  # noqa: BLE001 - the other tables continue
            return error

    failed: list[Suite] = []
    for one, result in zip(
        tables, _in_threads(measure_and_report, tables, jobs, spark), strict=True
    ):
        if isinstance(result, RetiredDatasetError):
            summary.retired.append(failure_text(one, result))
        elif isinstance(result, Exception):
            summary.failed.append(failure_text(one, result))
            failed.append(one.suite)
        else:
            summary.runs.append((one, result.run))
            summary.checked += result.checked
            summary.known[result.run.dataset] = result.known
    _detect_and_notify(repository, summary, failed, started)
    return summary


def _known_failures(
    run: Run, checked: Sequence[CheckedTable], partitions: str | Sequence[str]
) -> KnownFailures:
    """Return the known failures of a run, which are looked up only if something failed."""
    if checked:
        return checked[0].known
    if run.failed or not run.passed:
        return KnownFailures.of_run(run, partitions)
    return KnownFailures(run.dataset)


def _detect_and_notify(
    repository: Repository, summary: Summary, failed: Sequence[Suite], started: datetime
) -> None:
    """Detect anomalies in the datasets that were measured, and add them and notices to the summary.

    A table that failed may have committed partitions before: the next run does not measure them again, so
    they are judged now.
    """
    scanned: dict[str, set[str]] = {}
    for _, run in summary.runs:
        scanned.setdefault(run.dataset, set()).update(run.changes)
    for suite in failed:
        try:
            ledger = repository.partitions(suite.dataset)
        except UnknownDatasetError:  # it failed before it was ever measured
            continue
        except Exception as error:  # noqa: BLE001 - the other datasets continue
            summary.failed.append(f"detection in {suite.dataset}: {message_of(error)}")
            continue
        committed = ledger["partition"][ledger["measured_at"] >= started]
        scanned.setdefault(suite.dataset, set()).update(committed)
    for dataset, partitions_of in scanned.items():
        try:
            if partitions_of - {""} and repository.partitions(dataset)["time"].isna().all():
                summary.timeless.append(dataset)
            found = repository.detect(dataset)
            standing = _standing(repository, dataset, partitions_of)
        except Exception as error:  # noqa: BLE001 - the other datasets continue
            summary.failed.append(f"detection in {dataset}: {message_of(error)}")
        else:
            summary.anomalies.append(found[found["partition"].isin(partitions_of)])
            if not standing.empty:
                summary.anomalies.append(standing)
    suites = [*(file.suite for file, _ in summary.runs), *failed]
    summary.notices = notify_all(repository, sinks_of(suites))


def _standing(repository: Repository, dataset: str, scanned: Collection[str]) -> pd.DataFrame:
    """Return the open anomalies of partitions that were measured last, but not by this run.

    A run that is repeated because another table failed finds nothing new, and one that is repeated
    because it failed itself finds the rest: what was measured before is as bad as it was.
    """
    found = repository.anomalies(dataset, status="open")
    if found.empty:
        return found
    with repository.database.read() as connection:
        last = last_measuring_runs(connection, dataset)
    ledger = repository.partitions(dataset)
    names = set(ledger["partition"][ledger["run_id"].isin(last)]) - set(scanned)
    return found[found["partition"].isin(names)]


def failure_text(one: SuiteFile, error: Exception) -> str:
    """Return what went wrong with a suite file's table; of a pattern's, with the table's name."""
    where = f"{one.path}, {one.table}" if one.of_pattern else str(one.path)
    return f"{where}: {message_of(error)}"


def _dashboard() -> str | None:
    """Return the dashboard's address; no fault of the configuration stops a measurement."""
    try:
        return dashboard_url()
    except TidegaugeError:
        return None  # notices tell of it


def _in_threads(
    work: Callable[[SuiteFile], T], items: Sequence[SuiteFile], jobs: int, spark: SparkSession
) -> Iterator[T]:
    """Yield the results in order; one job runs in the caller's thread."""
    if jobs == 1:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(jobs, "tidegauge-run", partial(activate, spark)) as pool:
        yield from pool.map(work, items)


def sinks_of(suites: Iterable[Suite]) -> dict[str, list[str]]:
    """Return the notification sinks that the suites of each dataset name."""
    found: dict[str, list[str]] = {}
    for suite in suites:
        found.setdefault(suite.dataset, []).extend(suite.notify)
    return found


def tables_of_files(
    spark: SparkSession, files: Iterable[SuiteFile], failed: list[str]
) -> list[SuiteFile]:
    """Return a suite file for each table of the files; add a line to ``failed`` for each file without."""
    tables: list[SuiteFile] = []
    for file in files:
        try:
            tables += tables_of(spark, file)
        except Exception as error:  # noqa: BLE001 - the other files continue
            failed.append(f"{file.path}: {message_of(error)}")
    return tables


def tables_of(spark: SparkSession, file: SuiteFile) -> list[SuiteFile]:
    """Expand a suite file's table name or pattern into one suite file for each table."""
    if not is_pattern(file.table):
        return [file]
    return [
        replace(
            file,
            table=table,
            of_pattern=True,
            suite=replace(file.suite, dataset=f"{file.suite.dataset}.{name}"),
        )
        for name, table in matching_tables(spark, file.table)
    ]


def is_pattern(table: str) -> bool:
    """Return whether a name stands for several tables of a database, as ``shop.*`` does."""
    return "/" not in table and bool(set("*?[") & set(table))


def matching_tables(spark: SparkSession, pattern: str) -> list[tuple[str, str]]:
    """Return the tables of a database whose names match: each one's name, and with its database as SQL.

    Raises
    ------
    NoSuchTableError
        If there is no such database, or no table matches.
    """
    whole = pattern
    database, _, pattern = pattern.rpartition(".")
    database = database or spark.catalog.currentDatabase()
    if not spark.catalog.databaseExists(database):
        msg = f"no database {database!r}"
        raise NoSuchTableError(msg)
    names = sorted(
        t.name for t in spark.catalog.listTables(database) if fnmatchcase(t.name, pattern)
    )
    if not names:
        msg = f"no table matches {whole!r}"
        raise NoSuchTableError(msg)
    return [
        (name, f"{database}.{name if _PLAIN.fullmatch(name) else quote(name)}") for name in names
    ]


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
