"""Run rules files: count, judge, quarantine and publish the new partitions of each table.

A repository stores counts and verdicts by partition, so only new and changed partitions are read.
It also stores which partitions were written where, so a partition that was not written is written
by the next run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tidegauge.analysis import analyze, privacy_of, recording_start
from tidegauge.analyzers.core.errors import message_of
from tidegauge.analyzers.core.evidence import OnEmpty
from tidegauge.files.dqm import DQM_NAME
from tidegauge.files.rules import RulesFile, check_shared_targets, load_all_rules
from tidegauge.files.runs import sinks_of
from tidegauge.notifications.notify import notify_all
from tidegauge.rules.file_sources import ParsedSource, open_rules_source, parser_verdict
from tidegauge.rules.outcome.judging import close_verdicts
from tidegauge.rules.outcome.known import KnownFailures
from tidegauge.rules.outcome.report import RulesRun, RulesSummary
from tidegauge.rules.run_counts import RunCounts
from tidegauge.rules.run_records import RecordWriter
from tidegauge.rules.samples import SAMPLES
from tidegauge.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegauge.repository.repository import Repository


def run_rules(
    patterns: Sequence[str],
    repository: Repository,
    partitions: str = "new",
    session: Callable[[], SparkSession] = spark_session,
    samples: int = SAMPLES,
    variables: Mapping[str, str] | None = None,
    *,
    allow_empty: bool = False,
) -> RulesSummary:
    """Run the rules files that paths, folders and globs select, and notify of failed verdicts.

    All rules files are read before any data. A file that cannot be read or run is reported, and the
    others are still run.

    Parameters
    ----------
    patterns : sequence of str
        Paths, folders and globs.
    repository : Repository
    partitions : str
        As for `analyze`.
    session : callable
        Returns the Spark session.
    samples : int
        Number of sample records for each rule; 0 for none, which avoids reading the scanned data a
        second time.
    variables : mapping of str to str, optional
        As for `load_rules`; every file declares them.
    allow_empty : bool
        Whether partitions without records pass, whatever the files say.

    Raises
    ------
    SuiteError
        If no file is a valid rules file, or two of them write to one place.
    """
    files, errors = load_all_rules(patterns, variables)
    if allow_empty:
        files = [replace(file, on_empty=OnEmpty.PASS) for file in files]
    spark = session()
    check_shared_targets(files, spark)
    summary = RulesSummary(failed=errors)
    for file in files:
        try:
            summary.runs.append(run_file(file, repository, spark, partitions, samples))
        except Exception as error:  # noqa: BLE001 - the other files are still run
            text = message_of(error)
            summary.failed.append(f"{file.path}: {text}")
    summary.notices = notify_all(repository, sinks_of(file.suite for file in files))
    return summary


def run_file(
    file: RulesFile,
    repository: Repository,
    spark: SparkSession,
    partitions: str = "new",
    samples: int = SAMPLES,
) -> RulesRun:
    """Run one rules file; parameters as for `run_rules`.

    If a rule or fix cannot be evaluated, the others are counted as if it were not there, the
    partitions fail by it, and their records are not written anywhere: its rejects would be missing
    from the quarantine.
    """
    file.check_places(spark)
    with recording_start(repository, file.suite, file.table, partitions):
        source = open_rules_source(file, spark)
    # Samples are taken where rejects are written, in the same pass.
    run = analyze(
        source,
        file.suite,
        repository=repository,
        partitions=partitions,
        spark=spark,
        samples=0,
        on_empty=file.on_empty,
    )
    if privacy_of(file.suite, file.table).covers_all:
        samples = 0
    parsed = parser_verdict(source, repository, run) if isinstance(source, ParsedSource) else None
    counts = RunCounts(file, repository, source, run, samples)
    counts.recount()
    if partitions in {"new", "all"}:
        counts.remember_all()
    writer = RecordWriter(counts)
    problem = ""
    try:
        with writer.alone():
            writer.quarantine()
            if parsed is None or parsed.passed:
                writer.publish()
    except Exception as error:  # noqa: BLE001 - what was counted and judged is still reported
        problem = message_of(error)
    checks = {**run.checks, **counts.judge_with_samples()}
    before = file.dqm.named(DQM_NAME).specification
    close_verdicts(repository, run.dataset, DQM_NAME, before, file.dqm.name)
    return RulesRun(
        file,
        run,
        counts.state(),
        checks,
        parsed,
        counts.samples,
        writer.written,
        problem,
        KnownFailures.of_run(run, partitions),
    )
