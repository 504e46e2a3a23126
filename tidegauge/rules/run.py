"""Run rules files: count, judge, quarantine and publish the new partitions of each table.

A repository stores counts and verdicts by partition, so only new and changed partitions are read.
It also stores which partitions were written where, so a partition that was not written is written
by the next run.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property, reduce
from typing import TYPE_CHECKING

from tidegauge.analysis import Run, analyze
from tidegauge.analyzers.core.description import key_of
from tidegauge.analyzers.core.errors import TidegaugeError, describe
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.analyzers.core.segments import Values
from tidegauge.analyzers.sources.sources import Source
from tidegauge.files.rules import RulesFile, find_rules, load_rules
from tidegauge.rules.applied import SAMPLES
from tidegauge.rules.dqm import DQM
from tidegauge.rules.file_sources import ParsedSource, open_rules_source, parser_verdict
from tidegauge.rules.judging import counts_of, fingerprints, kept_verdicts
from tidegauge.rules.publish import Publication
from tidegauge.rules.report import RulesRun, RulesSummary
from tidegauge.rules.result import CheckResult
from tidegauge.rules.state import DQMState, RecordCounts, Sample
from tidegauge.rules.validation import ValidationSet
from tidegauge.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegauge.repository.repository import Repository


def run_rules(
    patterns: Sequence[str],
    repository: Repository,
    partitions: str = "new",
    warehouse: str | None = None,
    samples: int = SAMPLES,
) -> RulesSummary:
    """Run the rules files that paths, folders and globs select.

    All rules files are read before any data. A file that cannot be run is reported, and the others
    are still run.

    Parameters
    ----------
    patterns : sequence of str
        Paths, folders and globs.
    repository : Repository
    partitions : str
        As for `analyze`.
    warehouse : str, optional
        As for `spark_session`.
    samples : int
        Number of sample records for each rule; 0 for none, which avoids reading the scanned data a
        second time.

    Raises
    ------
    SuiteError
        If a file is not a valid rules file.
    """
    files = [load_rules(path) for path in find_rules(patterns)]
    spark = spark_session(warehouse)
    summary = RulesSummary()
    for file in files:
        try:
            summary.runs.append(run_file(file, repository, spark, partitions, samples))
        except Exception as error:  # noqa: BLE001 - the other files are still run
            text = str(error) if isinstance(error, TidegaugeError) else describe(error)
            summary.failed.append(f"{file.path}: {text}")
    return summary


def run_file(
    file: RulesFile,
    repository: Repository,
    spark: SparkSession,
    partitions: str = "new",
    samples: int = SAMPLES,
) -> RulesRun:
    """Run one rules file; parameters as for `run_rules`."""
    file.check_places(spark)
    source = open_rules_source(file, spark)
    run = analyze(source, file.suite, repository=repository, partitions=partitions, spark=spark)
    parsed = parser_verdict(source, repository, run) if isinstance(source, ParsedSource) else None
    counted = counts_of(repository, run.dataset, file.dqm) or {}
    state = file.dqm.tasks.state(
        RecordCounts.merge(
            [c for p in run.changes or run.checks if (c := counted.get(p)) is not None]
        )
    )
    state.snapshot()
    passed = parsed is None or parsed.passed
    writer = _Writer(file, repository, source, run, state, samples)
    if partitions in {"new", "all"}:
        writer.remember_all()
    writer.quarantine()
    if passed:
        writer.publish()
    return RulesRun(file, run, state, run.checks, parsed, writer.samples, writer.written)


class _Writer:
    """Writer of rejected and kept records, each partition once for each content and set of rules."""

    def __init__(
        self,
        file: RulesFile,
        repository: Repository,
        source: Source,
        run: Run,
        state: DQMState,
        samples: int,
    ) -> None:
        self.file, self.repository, self.source, self.run = file, repository, source, run
        self.most = samples
        self.checks = dict(run.checks)
        self.prints = fingerprints(repository, run.dataset)
        self.content = key_of(file.dqm.tasks.identity)
        self.charged_rules_sql = any(state.rule_count(rule.name) for rule in file.dqm.tasks.rules)
        self.samples: Sequence[Sample] = ()
        self.written: list[str] = []

    def remember_all(self) -> None:
        """Include all partitions that these rules judged as they are now, not only this run's."""
        dqm = self.file.dqm
        known = kept_verdicts(self.repository, self.run.dataset, dqm.name, dqm.specification)
        self.checks = {**known, **self.checks}

    def quarantine(self) -> None:
        """Write the rejected records, and take samples."""
        table = self.file.quarantine
        what = f"quarantine in {table}"
        due = self._due(what, self.checks) if table is not None else []
        looked = due or (sorted(self.run.changes) if self.charged_rules_sql and self.most else [])
        if not looked:
            return
        applied = self.file.dqm.apply(
            self._read(looked),
            partition_by=self.source.keys,
            keys=self.file.keys,
            samples=self.most,
        )
        self.samples = applied.state.samples
        if table is not None and due:
            applied.quarantine(table, self._mode, self._values(due))
            self._remember(what, due, f"{applied.state.rejects} rejects of {_count(due)}: {table}")

    def publish(self) -> None:
        """Write the kept records of the partitions that passed."""
        table = self.file.publish
        if table is None:
            return
        what = f"publication in {table}"
        due = self._due(what, [name for name, c in self.checks.items() if c.passed])
        if not due:
            return
        # Each partition was judged by itself; together they could exceed a limit on counts.
        tasks = (*self.file.dqm.tasks.rules, *self.file.dqm.tasks.fixes)
        unminded = reduce(lambda dqm, task: dqm.add(task), tasks, DQM(self.file.dqm.name))
        done = Publication(
            table,
            ValidationSet([unminded]),
            partition_by=self.source.keys or None,
            mode=self._mode,
            samples=0,
            partitions=self._values(due),
        ).run(self._read(due))
        left = done.state.records - done.state.rejects
        self._remember(what, due, f"{left} records of {_count(due)}: {table}")

    @property
    def _mode(self) -> str:
        return "partitions" if self.source.keys else "overwrite"

    def _values(self, names: Sequence[str]) -> list[Values]:
        """Return the partitions to replace: one that became empty has no records to tell it by."""
        return [self.listed[name].values for name in names] if self.source.keys else []

    def _due(self, what: str, names: Collection[str]) -> list[str]:
        """Return the partitions whose current content was not written yet."""
        done = self._noted(what)
        return sorted(name for name in names if name in self.listed and name not in done)

    def _noted(self, what: str) -> set[str]:
        """Return the partitions last written by these rules from their current content."""
        found, seen = set(), set()
        for row in self.repository.verdicts(self.run.dataset, name=what).itertuples():
            name = str(row.partition)
            same = (row.specification, row.fingerprint) == (self.content, self.prints.get(name))
            if same and name not in seen:
                found.add(name)
            seen.add(name)
        return found

    @cached_property
    def listed(self) -> dict[str, Partition]:
        """The existing partitions by name."""
        return {entry.partition.name: entry.partition for entry in self.source.list_partitions()}

    def _read(self, names: Collection[str]) -> DataFrame:
        wanted = [partition for name, partition in self.listed.items() if name in names]
        return self.source.read(None if len(wanted) == len(self.listed) else wanted)

    def _remember(self, what: str, names: Sequence[str], told: str) -> None:
        self.written.append(f"written: {told}")
        # The run id makes the result unique, so that it counts as newer than what other rules wrote meanwhile.
        result = CheckResult(passed=True, check_log=(f"run {self.run.id}: {told}",)).to_json()
        for name in names:
            self.repository.keep_verdict(
                self.run.dataset,
                name=what,
                specification=self.content,
                fingerprint=self.prints[name],
                passed=True,
                result=result,
                partition=name,
                run=self.run.id,
            )


def _count(names: Sequence[str]) -> str:
    return f"{len(names)} partitions" if names != [""] else "the whole"
