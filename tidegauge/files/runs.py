"""Run suite files: many tables in one Spark session, with one summary."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING

from tidegauge.analysis import Run, analyze
from tidegauge.analyzers.core.errors import NoSuchTableError, TidegaugeError, describe
from tidegauge.files.checked import CheckedTable, check_table, open_file
from tidegauge.files.suite import SuiteFile, find_suites, load_suite
from tidegauge.notifications.notify import Notice, notify_all, summarize
from tidegauge.spark.session import spark_session

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession

    from tidegauge.repository.repository import Repository


@dataclass
class Summary:
    """The results of running suites.

    Attributes
    ----------
    runs : list of (SuiteFile, Run)
    failed : list of str
        One sentence for each table that could not be measured.
    anomalies : list of DataFrame
        Anomalies in the scanned partitions.
    notices : list of Notice
        Notifications of incidents, sent and failed.
    checked : list of CheckedTable
        Results of the files' checks.
    """

    runs: list[tuple[SuiteFile, Run]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    anomalies: list[pd.DataFrame] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    checked: list[CheckedTable] = field(default_factory=list)

    def status(self, *, fail_on_anomaly: bool) -> int:
        """Return the exit status; 1 for failures of tidegauge outranks 2 for failures of the data."""
        if self.failed or any(run.failed or run.unreadable for _, run in self.runs):
            return 1
        refused = any(not run.passed for _, run in self.runs)
        refused = refused or any(one.verification.status == "error" for one in self.checked)
        return 2 if refused or (fail_on_anomaly and self.found) else 0

    @property
    def found(self) -> int:
        """The number of anomalies in scanned partitions."""
        return sum(len(frame) for frame in self.anomalies)

    def lines(self) -> list[str]:
        """Return the summary as lines of text."""
        lines = []
        for file, run in self.runs:
            lines.append(str(run))
            lines += [f"  {file.explain(a, error)}" for a, error in run.failed.items()]
            lines += [f"  {name}: cannot be read: {why}" for name, why in run.unreadable.items()]
            lines += [f"  {name}: {c}" for name, c in run.checks.items() if not c.passed]
        for one in self.checked:
            lines += one.failures()
        for frame in self.anomalies:
            lines += [f"  {row.severity}: {row.explanation}" for row in frame.itertuples()]
        if self.notices:
            lines.append(summarize(self.notices))
        lines += [f"failed: {problem}" for problem in self.failed]
        if len(self.runs) + len(self.failed) > 1:
            lines.append(
                f"{len(self.runs)} tables measured, {len(self.failed)} failed,"
                f" {self.found} anomalies"
            )
        return lines


def run_suites(
    patterns: Sequence[str],
    repository: Repository,
    partitions: str | Sequence[str] = "new",
    tags: Mapping[str, str] | None = None,
    session: Callable[[], SparkSession] = spark_session,
    *,
    rename: bool = False,
    resegment: bool = False,
) -> Summary:
    """Measure the tables of suites by paths, folders and globs, judge checks, detect anomalies, notify.

    All files are read before Spark is started. A table that fails is reported, and the others
    continue.

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
    rename, resegment : bool
        As for `analyze`.

    Raises
    ------
    SuiteError
        If a file cannot be read as a suite.
    """
    files = [load_suite(path) for path in find_suites(patterns)]
    spark = session()
    measure = partial(analyze, tags=tags, rename=rename, resegment=resegment)
    summary = Summary()
    for file in files:
        try:
            tables = list(tables_of(spark, file))
        except TidegaugeError as error:
            summary.failed.append(f"{file.path}: {error}")
            continue
        for one in tables:
            try:
                source = open_file(one, spark)
                run = measure(source, one.suite, repository=repository, partitions=partitions)
                checked = [check_table(one, run, source, partitions)] if one.checks else []
            except Exception as error:  # noqa: BLE001 - the other tables continue
                text = str(error) if isinstance(error, TidegaugeError) else describe(error)
                summary.failed.append(f"{file.path}: {text}")
            else:
                summary.runs.append((one, run))
                summary.checked += checked
    scanned: dict[str, set[str]] = {}
    for _, run in summary.runs:
        scanned.setdefault(run.dataset, set()).update(run.changes)
    sinks: dict[str, list[str]] = {}
    for dataset, partitions_of in scanned.items():
        try:
            found = repository.detect(dataset)
        except TidegaugeError as error:
            summary.failed.append(f"detection in {dataset}: {error}")
        else:
            summary.anomalies.append(found[found["partition"].isin(partitions_of)])
            some = (one.suite.notify for one, run in summary.runs if run.dataset == dataset)
            sinks[dataset] = [sink for each in some for sink in each]
    summary.notices = notify_all(repository, sinks)
    return summary


def tables_of(spark: SparkSession, file: SuiteFile) -> list[SuiteFile]:
    """Expand a suite file's table name or pattern into one suite file for each table."""
    if "/" in file.table or not set("*?[") & set(file.table):
        return [file]
    database, _, pattern = file.table.rpartition(".")
    database = database or spark.catalog.currentDatabase()
    if not spark.catalog.databaseExists(database):
        msg = f"no database {database!r}"
        raise NoSuchTableError(msg)
    names = sorted(
        t.name for t in spark.catalog.listTables(database) if fnmatchcase(t.name, pattern)
    )
    if not names:
        msg = f"no table matches {file.table!r}"
        raise NoSuchTableError(msg)
    return [
        replace(
            file,
            table=f"{database}.{name}",
            suite=replace(file.suite, dataset=f"{file.suite.dataset}.{name}"),
        )
        for name in names
    ]
