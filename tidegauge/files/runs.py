"""Run suite files: many tables in one Spark session, with one summary.

`run_suites` measures the tables, detects anomalies and notifies. `run_checks` measures them, judges the checks
of each partition and reports the results.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any

from tidegauge.analysis import Run, analyze, recording_start
from tidegauge.analyzers.columnar.engines import MeasuringEngine
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
from tidegauge.files.checked import CheckedTable, check_table, open_file
from tidegauge.files.suite_files import SuiteFile, load_suites
from tidegauge.job import JobResult, run_tables, sinks_by_dataset
from tidegauge.notifications.notify import notify_all
from tidegauge.outcome import Cause, Gate, JUnitCase, Kind, Outcome, Problem, outcome_of
from tidegauge.repository.incidents.listing import has_anomalies
from tidegauge.repository.store.config import dashboard_url
from tidegauge.repository.store.frames import records
from tidegauge.repository.store.listing import has_times, last_measuring_runs
from tidegauge.repository.store.queries import Window
from tidegauge.repository.store.rows import Severity
from tidegauge.rules.known_failures import KnownFailures, problems_of_policies, problems_of_run
from tidegauge.spark.session import spark_session
from tidegauge.widgets.script import incident_address

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession

    from tidegauge.repository.repository import Repository
    from tidegauge.suite import Suite


MAX_LISTED_ANOMALIES = 10
"""Maximum number of anomalies of a dataset in a report."""
_UNQUOTED_NAME = re.compile(r"\w+", re.ASCII)
"""Table names that need no quotes."""


@dataclass(frozen=True)
class SuiteReport:
    """Results of measuring one table of a suite file, and of its checks.

    Attributes
    ----------
    file : SuiteFile
        The suite file.
    run : Run
        Result of the run.
    known_failures : KnownFailures
        Failures that do not fail the run.
    checked : CheckedTable or None
        Results of the file's checks; None if it has none.
    only_checks : bool
        Whether the report is by `run_checks`, and so covers only checks.
    """

    file: SuiteFile
    run: Run
    known_failures: KnownFailures
    checked: CheckedTable | None = None
    only_checks: bool = False

    def problems(self) -> Iterator[Problem]:
        """Yield the problems that keep the table from passing."""
        yield from problems_of_run(self.run, self.known_failures, self._policies_name)
        if self.checked is not None:
            yield from self.checked.problems()

    def lines(self, options: str = "") -> Iterator[str]:
        """Yield lines on results and failures. The options are appended to commands in the lines."""
        return self.table_lines(options, counts_checks=self.only_checks)

    def table_lines(self, options: str = "", *, counts_checks: bool) -> Iterator[str]:
        """Yield the lines, optionally with the number of passed checks."""
        yield str(self.run)
        if self.run.routes:
            yield f"  {self.run.routes}"
        for analyzer, error in self.run.failed.items():
            is_known = self.known_failures.has_error(analyzer)
            if is_known or not self.only_checks:  # otherwise the closing lines have it
                yield f"  {'known: ' * is_known}{self.file.explain(analyzer, error)}"
        if not self.only_checks:
            for name, why in self.run.unreadable.items():
                yield f"  {name}: cannot be read: {why}"
        yield from self._policy_lines()
        if self.checked is not None:
            if counts_checks:
                heading = (
                    self.checked.heading() if self.only_checks else checks_text([self.checked])
                )
                yield f"  {heading}"
            yield from self.checked.failures()
        yield from self.known_failures.advice(self._failed_verdicts(), options)

    def _policy_lines(self) -> Iterator[str]:
        """Yield lines on failed policies, and on policies without data in measured partitions."""
        for partition, check in self.run.checks.items():
            if not check.passed or (check.no_data and partition in {"", *self.run.changes}):
                is_known = not check.passed and self.known_failures.has_verdict(
                    self._policies_name, partition
                )
                yield f"  {'known: ' * is_known}{partition or self.run.dataset}: {check}"

    def _failed_verdicts(self) -> Iterator[tuple[str, str]]:
        """Yield the name and partition of each failed verdict."""
        for partition, check in self.run.checks.items():
            if not check.passed:
                yield self._policies_name, partition
        if self.checked is not None:
            for partition in self.checked.failing_partitions():
                yield self.file.name, partition

    @property
    def _policies_name(self) -> str:
        """The name under which verdicts of the file's policies are kept."""
        return "" if self.file.suite.dqm is None else self.file.suite.dqm.name

    def errors(self) -> Iterator[str]:
        """Yield a sentence for each partition that cannot be read, and each analyzer that failed.

        Only `run_checks` needs them: `run_suites` reports them in its lines and cases.
        """
        if not self.only_checks:
            return
        for name, why in self.run.unreadable.items():
            yield f"{self.file.path}: {name} cannot be read: {why}"
        for analyzer, error in self.run.failed.items():
            if not self.known_failures.has_error(analyzer):
                yield self.file.explain(analyzer, error)

    def sections(self) -> dict[str, Any]:
        """Return the table, the results of its checks, and the verdicts of its policies as JSON values."""
        run = self.run
        policies = {partition: json.loads(c.to_json()) for partition, c in run.checks.items()}
        table = {
            "dataset": run.dataset,
            "file": str(self.file.path),
            "table": self.file.table,
            "run": run.id,
            "status": run.status,
            "scanned": run.report.scanned,
            "skipped": run.report.skipped,
            "routes": dict(run.report.routes),
            "changes": {name: str(change) for name, change in run.changes.items()},
            "failed": [self.file.explain(a, error) for a, error in run.failed.items()],
            "unreadable": dict(run.unreadable),
            "policies": policies,
        }
        results = [] if self.checked is None else list(self.checked.records())
        return {
            "tables": [table],
            "results": results,
            "policies": {run.dataset: policies} if policies else {},
        }

    def junit_suite(self, gate: Gate) -> tuple[str, list[JUnitCase]]:
        """Return a JUnit suite with cases for the run, each partition's policies, and the checks.

        `run_checks` has no case for the run, because the closing suites have its errors.
        """
        run, checks = self.run, [] if self.checked is None else [*self.checked.cases(gate)]
        if self.only_checks:
            return f"{self.file.name} of {run.dataset}", [*checks, *self._policy_cases(gate)]
        problems = [
            self.file.explain(analyzer, error)
            for analyzer, error in run.failed.items()
            if not self.known_failures.has_error(analyzer)
        ]
        problems += [f"{name} cannot be read: {why}" for name, why in run.unreadable.items()]
        kind: Kind = "error" if problems else "passed"
        message = "; ".join(problems) or str(run)
        cases = [JUnitCase(run.dataset, "measured", kind, message, str(self.file.path))]
        return f"{self.file.path} of {run.dataset}", [*cases, *self._policy_cases(gate), *checks]

    def _policy_cases(self, gate: Gate) -> Iterator[JUnitCase]:
        """Yield a case for the policies of each partition; known failures are skipped."""
        for partition, check in self.run.checks.items():
            verdict = {partition: check}
            problems = list(
                problems_of_policies(self.run, verdict, self.known_failures, self._policies_name)
            )
            kind: Kind = "passed"
            if outcome_of(problems, gate) is Outcome.FAILED:
                kind = "failure"
            elif any(problem.is_known for problem in problems):
                kind = "skipped"
            subject = ".".join(filter(None, (self.run.dataset, partition)))
            yield JUnitCase(subject, "policies", kind, str(check))


@dataclass
class SuiteResult(JobResult[SuiteReport]):
    """Results of measuring the tables of suite files, with the anomalies in them.

    Attributes
    ----------
    anomalies : list of DataFrame
        Anomalies in the scanned partitions. For a dataset without new partitions, the open anomalies in the
        partitions that were measured last.
    url : str or None
        The dashboard's address, for links to incidents.
    undated : list of str
        Datasets whose partitions have no time.
    only_checks : bool
        Whether it is the result of `run_checks`, which has no totals.
    """

    anomalies: list[pd.DataFrame] = field(default_factory=list)
    url: str | None = None
    undated: list[str] = field(default_factory=list)
    only_checks: bool = False

    def problems(self) -> Iterator[Problem]:
        """Yield the problems of the tables, and one for each anomaly."""
        yield from super().problems()
        for frame in self.anomalies:
            yield from (Problem(Cause.ANOMALY, dataset) for dataset in frame["dataset"])

    @property
    def anomaly_count(self) -> int:
        """The number of anomalies."""
        return sum(len(frame) for frame in self.anomalies)

    @property
    def checked(self) -> list[CheckedTable]:
        """The results of the checks of all tables with checks."""
        return [table.checked for table in self.tables if table.checked is not None]

    def closing_lines(self, options: str = "") -> list[str]:
        """Return the lines after the lines of the tables: anomalies, notices, failures and totals."""
        lines = [line for frame in self.anomalies for line in self._anomaly_lines(frame, options)]
        lines += [
            f"  warning: the partitions of {dataset} have no time, which weekdays, missing days and windows need;"
            ' add the time to the suite file, for example, time: {format: "%Y-%m-%d", key: KEY}'
            for dataset in self.undated
        ]
        return [*lines, *super().closing_lines(options), *self._totals()]

    def _totals(self) -> list[str]:
        if self.only_checks:
            return []
        totals = []
        if len(self.tables) + len(self.failed) > 1:
            totals.append(
                f"{plural(len(self.tables), 'table')} measured, {len(self.failed)} failed"
            )
        if self.checked:
            totals.append(checks_text(self.checked))
        if not self.tables and not totals:
            return []
        anomalies = f"{self.anomaly_count:,} anomal{'y' if self.anomaly_count == 1 else 'ies'}"
        return [", ".join([*totals, anomalies])]

    def sections(self) -> dict[str, Any]:
        """Return tables, results of checks, verdicts of policies, and anomalies as JSON values."""
        anomalies = [
            {name: _json_value(value) for name, value in row.items()}
            for frame in self.anomalies
            for row in records(frame)
        ]
        empty: dict[str, Any] = {"tables": [], "results": [], "policies": {}}
        return {**empty, **super().sections(), "anomalies": anomalies}

    def junit_suites(self, gate: Gate) -> list[tuple[str, Sequence[JUnitCase]]]:
        """Return a JUnit suite for each table, and one for the anomalies."""
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
        suites = super().junit_suites(gate)
        return [*suites, ("anomalies", anomalies)] if anomalies else suites

    def _anomaly_lines(self, anomalies: pd.DataFrame, options: str) -> Iterator[str]:
        """Yield the most severe anomalies of a dataset, and where to see all of them."""
        if anomalies.empty:
            return
        ranks = anomalies["severity"].map(lambda name: list(Severity).index(Severity(name)))
        gravest = anomalies.loc[ranks.sort_values(ascending=False, kind="stable").index]
        for severity, explanation in zip(
            gravest["severity"][:MAX_LISTED_ANOMALIES], gravest["explanation"], strict=False
        ):
            yield f"  {severity}: {explanation}"
        unlisted = len(gravest) - MAX_LISTED_ANOMALIES
        if unlisted > 0:
            yield f"  and {unlisted:,} more anomal{'ies' if unlisted > 1 else 'y'}"
        incidents = gravest["incident_id"].drop_duplicates().astype(int).tolist()
        if self.url is not None:
            for number in incidents[:MAX_LISTED_ANOMALIES]:
                yield f"  see: {incident_address(self.url, number)}"
            return
        yield f"  details: tidegauge anomalies show {incidents[0]}{options}"
        if len(incidents) > 1:
            dataset = shlex.quote(gravest["dataset"].iloc[0])
            listed = f"tidegauge anomalies list {dataset} --incidents{options}"
            yield f"  all {plural(len(incidents), 'incident')}: {listed}"


def _json_value(value: Any) -> Any:
    """Return a cell of a frame as a JSON value: times as strings, non-finite numbers as None."""
    if isinstance(value, datetime):
        return value.isoformat()
    return None if isinstance(value, float) and not isfinite(value) else value


def checks_text(tables: Sequence[CheckedTable]) -> str:
    """Return how many checks passed, and in how many partitions."""
    count = sum(len(check.constraints) for table in tables for check in table.file.checks)
    failing, partitions = set(), set()
    for index, table in enumerate(tables):
        for judged in table.verification.judged:
            partitions.add((index, judged.partition))
            if not judged.result.passed:
                failing.add((index, judged.result.constraint.identity))
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
    engine: str = MeasuringEngine.AUTO,
) -> SuiteResult:
    """Measure the tables of suite files, judge checks, detect anomalies and notify.

    All files are read before Spark is started. A file that cannot be read and a table that fails are
    reported, and the others continue.

    Parameters
    ----------
    patterns : sequence of str
        Paths, folders and globs of suite files.
    repository : Repository
        The repository to read and write.
    partitions : str or sequence of str
        As for `analyze`.
    tags : mapping of str to str, optional
        Tags of the runs.
    session : callable
        Returns the Spark session.
    variables : mapping of str to str, optional
        As for `load_suite`; every file declares them.
    allow_empty : bool
        Whether checks and rules pass without data, regardless of the files.
    rename, resegment : bool
        As for `analyze`.
    jobs : int
        Number of tables to measure at the same time, in threads of one session. With one small table at a
        time, a cluster is mostly idle.
    report : callable, optional
        Called with the lines on each table when it is finished, by one thread at a time.
    progress : callable, optional
        Returns the progress of one table. Default: a bar on a terminal and in a notebook, if one table is
        measured at a time.
    options : str
        Options to append to commands in the reported lines.
    engine : str
        As for `analyze`.

    Raises
    ------
    SuiteError
        If no file can be read as a suite, or two files store verdicts of a dataset under one name.
    """
    files, errors = load_suites(patterns, variables, allow_empty=allow_empty)
    spark, started = session(), datetime.now(UTC)
    result = SuiteResult(failed=errors, url=_dashboard())
    measure = _Measurement(
        repository, spark, partitions, tags, rename, resegment, progress, engine=engine
    )
    failed = measure.run(files, result, jobs=jobs, report=report, options=options)
    _detect_anomalies(repository, result, failed, started)
    suites = [*(table.file.suite for table in result.tables), *failed]
    result.notices = notify_all(repository, sinks_by_dataset(suites))
    return result


@dataclass(frozen=True)
class _Measurement:
    """Settings for measuring and checking the tables of suite files; see `run_suites`."""

    repository: Repository
    spark: SparkSession
    partitions: str | Sequence[str]
    tags: Mapping[str, str] | None
    rename: bool = False
    resegment: bool = False
    progress: Callable[[], Progress] | None = None
    only_checks: bool = False
    engine: str = MeasuringEngine.AUTO

    def run(
        self,
        files: Sequence[SuiteFile],
        result: SuiteResult,
        *,
        jobs: int,
        report: Callable[[Sequence[str]], None] | None,
        options: str,
    ) -> list[Suite]:
        """Measure the tables of the files, add them to the result, and return the suites that failed."""
        tables = tables_of_files(self.spark, files, result.failed)
        counts_checks = (
            self.only_checks or len(tables) > 1
        )  # for a single table, the totals have it

        def finished(table: SuiteFile, outcome: SuiteReport | Exception) -> None:
            if report is None:
                return
            if isinstance(outcome, Exception):  # the closing lines have the reason
                is_retired = isinstance(outcome, RetiredDatasetError)
                report([f"{table.suite.dataset}: {'skipped' if is_retired else 'failed'}"])
            else:
                report(list(outcome.table_lines(options, counts_checks=counts_checks)))

        measure = partial(self.measure, progress=self.progress or (Silent if jobs > 1 else None))
        failed = []
        for table, outcome in run_tables(tables, measure, self.spark, jobs=jobs, finished=finished):
            result.add(_title(table), outcome)
            if isinstance(outcome, Exception) and not isinstance(outcome, RetiredDatasetError):
                failed.append(table.suite)
        return failed

    def measure(self, table: SuiteFile, progress: Callable[[], Progress] | None) -> SuiteReport:
        """Measure and check one table."""
        with recording_start(self.repository, table.suite, table.table, self.partitions, self.tags):
            source = open_file(table, self.spark)
        run = analyze(
            source,
            table.suite,
            repository=self.repository,
            partitions=self.partitions,
            tags=self.tags,
            rename=self.rename,
            resegment=self.resegment,
            progress=None if progress is None else progress(),
            on_empty=table.on_no_records,
            engine=self.engine,
        )
        checked = None
        if table.checks:
            checked = check_table(table, run, source, self.partitions, self.tags)
        known_failures = _known_failures(run, checked, self.partitions)
        return SuiteReport(table, run, known_failures, checked, self.only_checks)


def _known_failures(
    run: Run, checked: CheckedTable | None, partitions: str | Sequence[str]
) -> KnownFailures:
    """Return the known failures of a run. They are looked up only if the run has failures."""
    if checked is not None:
        return checked.known_failures
    if run.failed or not run.passed:
        return KnownFailures.of_run(run, partitions)
    return KnownFailures(run.dataset)


def _detect_anomalies(
    repository: Repository, result: SuiteResult, failed: Sequence[Suite], started: datetime
) -> None:
    """Detect anomalies in the datasets that were measured, and add them to the result."""
    scanned_partitions = _scanned_partitions(repository, result, failed, started)
    if not scanned_partitions:
        return
    from tidegauge.repository.detection.together import detect

    names = list(scanned_partitions)
    errors: dict[str, Exception] = {}
    try:
        outcome = detect(repository.database, repository.artifacts, names, None, Window())
        errors.update(outcome.failed)
    except Exception as error:  # noqa: BLE001 - of the repository; the tables were measured
        errors = dict.fromkeys(names, error)
    for dataset, scanned in scanned_partitions.items():
        if dataset not in errors:
            try:
                _add_anomalies(repository, result, dataset, scanned)
            except Exception as error:  # noqa: BLE001 - the other datasets continue
                errors[dataset] = error
        if dataset in errors:
            result.failed.append(f"detection in {dataset}: {message_of(errors[dataset])}")


def _add_anomalies(
    repository: Repository, result: SuiteResult, dataset: str, scanned: Collection[str]
) -> None:
    """Add the anomalies of a dataset that fail the run."""
    with repository.database.read() as connection:
        if set(scanned) - {""} and not has_times(connection, dataset):
            result.undated.append(dataset)
        if not has_anomalies(connection, dataset):
            return  # frames need pandas, which is slow to import
    anomalies = repository.anomalies(dataset)
    earlier = _earlier_anomalies(repository, dataset, scanned, anomalies)
    result.anomalies.append(anomalies[anomalies["partition"].isin(scanned)])
    if not earlier.empty:
        result.anomalies.append(earlier)


def _scanned_partitions(
    repository: Repository, result: SuiteResult, failed: Sequence[Suite], started: datetime
) -> dict[str, set[str]]:
    """Return the partitions of each dataset that this run measured.

    A failed table may have committed partitions. The next run does not measure them again, so they are
    judged now.
    """
    scanned: dict[str, set[str]] = {}
    for table in result.tables:
        scanned.setdefault(table.run.dataset, set()).update(table.run.changes)
    for suite in failed:
        try:
            ledger = repository.partitions(suite.dataset)
        except UnknownDatasetError:  # it failed before it was ever measured
            continue
        except Exception as error:  # noqa: BLE001 - the other datasets continue
            result.failed.append(f"detection in {suite.dataset}: {message_of(error)}")
            continue
        committed = ledger["partition"][ledger["measured_at"] >= started]
        scanned.setdefault(suite.dataset, set()).update(committed)
    return scanned


def _earlier_anomalies(
    repository: Repository, dataset: str, scanned: Collection[str], anomalies: pd.DataFrame
) -> pd.DataFrame:
    """Return the open anomalies of the last measured partitions that this run did not measure.

    If a run is repeated because a table failed, the tables that succeeded have no new partitions. Their
    anomalies must fail the repeated run as well.
    """
    open_anomalies = anomalies[anomalies["status"] == "open"]
    if open_anomalies.empty:
        return open_anomalies
    with repository.database.read() as connection:
        last_runs = last_measuring_runs(connection, dataset)
    ledger = repository.partitions(dataset)
    names = set(ledger["partition"][ledger["run_id"].isin(last_runs)]) - set(scanned)
    return open_anomalies[open_anomalies["partition"].isin(names)]


def _title(table: SuiteFile) -> str:
    """Return the name of a suite file; with the table's name if the file has a table pattern."""
    return f"{table.path}, {table.table}" if table.is_from_pattern else str(table.path)


def _dashboard() -> str | None:
    """Return the dashboard's address. An invalid configuration does not stop a measurement."""
    try:
        return dashboard_url()
    except TidegaugeError:
        return None  # reported in the notices


def tables_of_files(
    spark: SparkSession, files: Iterable[SuiteFile], failed: list[str]
) -> list[SuiteFile]:
    """Return a suite file for each table of the files; add a line to ``failed`` for other files."""
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
            is_from_pattern=True,
            suite=replace(file.suite, dataset=f"{file.suite.dataset}.{name}"),
        )
        for name, table in matching_tables(spark, file.table)
    ]


def is_pattern(table: str) -> bool:
    """Return whether a name is a pattern for several tables of a database, such as ``shop.*``."""
    return "/" not in table and bool(set("*?[") & set(table))


def matching_tables(spark: SparkSession, pattern: str) -> list[tuple[str, str]]:
    """Return the matching tables of a database: the name, and the name with the database as SQL.

    Raises
    ------
    NoSuchTableError
        If the database does not exist, or no table matches.
    """
    full_pattern = pattern
    database, _, pattern = pattern.rpartition(".")
    database = database or spark.catalog.currentDatabase()
    if not spark.catalog.databaseExists(database):
        msg = f"no database {database!r}"
        raise NoSuchTableError(msg)
    names = sorted(
        t.name for t in spark.catalog.listTables(database) if fnmatchcase(t.name, pattern)
    )
    if not names:
        msg = f"no table matches {full_pattern!r}"
        raise NoSuchTableError(msg)
    return [
        (name, f"{database}.{name if _UNQUOTED_NAME.fullmatch(name) else quote(name)}")
        for name in names
    ]


def run_checks(
    patterns: Sequence[str],
    repository: Repository,
    partitions: str = "new",
    variables: Mapping[str, str] | None = None,
    session: Callable[[], SparkSession] = spark_session,
    tags: Mapping[str, str] | None = None,
    *,
    allow_empty: bool = False,
    jobs: int = 1,
    report: Callable[[Sequence[str]], None] | None = None,
    progress: Callable[[], Progress] | None = None,
    options: str = "",
    engine: str = MeasuringEngine.AUTO,
) -> SuiteResult:
    """Measure the tables of suite files, evaluate their checks on each partition, and notify.

    All files are read before Spark is started, and files that cannot be read are reported. The repository
    stores the verdicts under `SuiteFile.name`. A partition that passed is judged again only if it or the
    checks changed; a partition that failed is judged every time. Stored metrics are not measured again.

    Parameters
    ----------
    patterns : sequence of str
        Paths, folders and globs.
    repository : Repository
        The repository to read and write.
    partitions : str
        As for `analyze`.
    variables : mapping of str to str, optional
        As for `load_suite`.
    session : callable
        Returns the Spark session.
    tags : mapping of str to str, optional
        Tags of the runs.
    allow_empty : bool
        Whether checks and rules pass without data, regardless of the files.
    jobs, report, progress, options, engine
        As for `run_suites`.

    Raises
    ------
    SuiteError
        If no file can be read, a file has no checks, or two files store verdicts of a dataset under one
        name.
    """
    files, errors = load_suites(patterns, variables, allow_empty=allow_empty)
    for file in files:
        if not file.checks:
            msg = f"{file.path}: the file has no checks; list them under checks:"
            raise SuiteError(msg)
    spark = session()
    result = SuiteResult(failed=errors, only_checks=True)
    measure = _Measurement(
        repository, spark, partitions, tags, progress=progress, only_checks=True, engine=engine
    )
    failed = measure.run(files, result, jobs=jobs, report=report, options=options)
    suites = [*(table.file.suite for table in result.tables), *failed]
    result.notices = notify_all(repository, sinks_by_dataset(suites))
    return result
