"""Run rules files: count, judge, quarantine and publish the new partitions of each table.

A repository stores counts and verdicts by partition, so only new and changed partitions are read.
It also stores which partitions were written where, so a partition that was not written is written
by the next run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING

from tidegauge.analysis import Run, analyze, privacy_of
from tidegauge.analyzers.core.description import key_of
from tidegauge.analyzers.core.errors import (
    MetricError,
    MetricRuntimeError,
    message_of,
)
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.analyzers.core.segments import Values
from tidegauge.analyzers.runs.ledger import own_part
from tidegauge.analyzers.runs.recording import WAIT_SECONDS
from tidegauge.analyzers.scan.grouping import Groups
from tidegauge.analyzers.sources.sources import Source
from tidegauge.files.dqm import DQM_NAME
from tidegauge.files.rules import RulesFile, check_shared_targets, load_all_rules
from tidegauge.files.runs import sinks_of
from tidegauge.notifications.notify import notify_all
from tidegauge.rules.applied import Applied, split
from tidegauge.rules.definition import total
from tidegauge.rules.dqm import DQM
from tidegauge.rules.file_sources import ParsedSource, open_rules_source, parser_verdict
from tidegauge.rules.masks import mask
from tidegauge.rules.outcome.judging import (
    close_verdicts,
    counts_of,
    fingerprints,
    kept_verdicts,
    verdicts_named,
)
from tidegauge.rules.outcome.report import RulesRun, RulesSummary
from tidegauge.rules.outcome.result import CheckResult
from tidegauge.rules.outcome.validation import ValidationSet
from tidegauge.rules.publish import Publication
from tidegauge.rules.samples import SAMPLES, resolve_columns
from tidegauge.rules.state import DQMState, RecordCounts, Sample
from tidegauge.rules.tally import tally
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
    variables: Mapping[str, str] | None = None,
) -> RulesSummary:
    """Run the rules files that paths, folders and globs select, and notify of failed verdicts.

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
    variables : mapping of str to str, optional
        As for `load_rules`; every file declares them.

    Raises
    ------
    SuiteError
        If a file is not a valid rules file.
    """
    files = load_all_rules(patterns, variables)
    spark = spark_session(warehouse)
    check_shared_targets(files, spark)
    summary = RulesSummary()
    for file in files:
        try:
            summary.runs.append(run_file(file, repository, spark, partitions, samples))
        except Exception as error:  # noqa: BLE001 - the other files are still run
            text = message_of(error)
            summary.failed.append(f"{file.path}: {text}")
    sinks = sinks_of((one.file, one.run) for one in summary.runs)
    summary.notices = notify_all(repository, sinks)
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
    source = open_rules_source(file, spark)
    # Samples are taken where rejects are written, in the same pass.
    run = analyze(
        source, file.suite, repository=repository, partitions=partitions, spark=spark, samples=0
    )
    if privacy_of(file.suite, file.table).covers_all:
        samples = 0
    parsed = parser_verdict(source, repository, run) if isinstance(source, ParsedSource) else None
    writer = _Writer(file, repository, source, run, samples)
    writer.recount()
    if partitions in {"new", "all"}:
        writer.remember_all()
    problem = ""
    try:
        with writer.alone():
            writer.quarantine()
            if parsed is None or parsed.passed:
                writer.publish()
    except Exception as error:  # noqa: BLE001 - what was counted and judged is still reported
        problem = message_of(error)
    checks = {**run.checks, **writer.judge_with_samples()}
    before = file.dqm.named(DQM_NAME).specification
    close_verdicts(repository, run.dataset, DQM_NAME, before, file.dqm.name)
    return RulesRun(
        file, run, writer.state(), checks, parsed, writer.samples, writer.written, problem
    )


class _Writer:
    """Writer of rejected and kept records, each partition once for each content and set of rules."""

    def __init__(
        self,
        file: RulesFile,
        repository: Repository,
        source: Source,
        run: Run,
        samples: int,
    ) -> None:
        self.file, self.repository, self.source, self.run = file, repository, source, run
        self.most = samples
        self.checks = dict(run.checks)
        self.prints = fingerprints(repository, run.dataset)
        self.content = key_of(file.dqm.tasks.identity)
        self.counted = counts_of(repository, run.dataset, file.dqm) or {}
        self.failures: dict[str, dict[str, MetricError]] = {}
        self.samples: list[Sample] = []
        self.written: list[str] = []

    @cached_property
    def unresolved(self) -> Mapping[str, MetricError]:
        """The rules and fixes that Spark cannot resolve on the table."""
        if not self.listed:
            return {}
        return mask(self.source.read(None), self.file.dqm.tasks, by=self.source.keys).failures

    @property
    def _told(self) -> Collection[str]:
        """The partitions that were scanned; if none was, all."""
        return (self.run.changes or self.run.checks).keys()

    def recount(self) -> None:
        """Count the partitions that are told of in which a rule or fix cannot be evaluated, without it.

        The repository has no counts of all rules for them. They are read once more; samples are
        taken.
        """
        lacking = [p for p in self._told if self._is_uncounted(p) and p in self.listed]
        if lacking:
            applied = self._applied(lacking)
            self.counted |= applied.partitions()
            self.failures = {
                Partition(applied.by, values).name: {**self.unresolved, **one.failures}
                for values, one in applied.tallies.items()
            }

    def _is_uncounted(self, partition: str) -> bool:
        return partition in self.counted and self.counted[partition] is None

    def state(self) -> DQMState:
        """Return the counts of the scanned partitions; if none was scanned, of all."""
        state = self._state(self._told)
        state.snapshot()
        return state

    def _state(self, names: Iterable[str]) -> DQMState:
        names = list(names)
        failures = dict(self.unresolved)
        for name in names:
            failures |= self.failures.get(name) or self._kept_failures(name)
        counts = [found for name in names if (found := self.counted.get(name)) is not None]
        return self.file.dqm.tasks.state(RecordCounts.merge(counts), failures)

    def _kept_failures(self, partition: str) -> dict[str, MetricError]:
        """Return the rules and fixes that an earlier run could not evaluate in a partition, by its verdict.

        The verdict's log has their errors, but not the reasons of policies.
        """
        verdict = self.checks.get(partition)
        if verdict is None or not self._is_uncounted(partition):
            return {}
        logged, tasks = {line.strip() for line in verdict.check_log}, self.file.dqm.tasks.places
        return {
            name: MetricRuntimeError(message)
            for name, message in verdict.error_messages
            if name in tasks and (message.strip() in logged or not logged)
        }

    def judge_with_samples(self) -> dict[str, CheckResult]:
        """Store the verdicts on scanned partitions again, with samples and all reasons in them."""
        found = {}
        for name in self.run.checks.keys() & self.run.changes.keys():
            samples = [sample for sample in self.samples if sample.partition == name]
            if not samples and name not in self.failures:
                continue
            state = self._state([name])
            for sample in samples:
                state.add_sample(replace(sample, partition=""))
            state.snapshot()
            dqm, found[name] = self.file.dqm, self.file.dqm.judge(state)
            self.repository.keep_verdict(
                self.run.dataset,
                name=dqm.name,
                specification=dqm.specification,
                fingerprint=self.prints[name],
                passed=found[name].passed,
                result=found[name].to_json(),
                partition=name,
                run=self.run.id,
            )
        return found

    def remember_all(self) -> None:
        """Include all partitions that these rules judged as they are now, not only this run's."""
        dqm = self.file.dqm
        known = kept_verdicts(self.repository, self.run.dataset, dqm.name, dqm.specification)
        self.checks = {**known, **self.checks}

    def alone(self) -> AbstractContextManager[object]:
        """Keep other runs of the dataset from writing: a table's partitions have one writer at a time.

        A run that waited sees what the other one wrote.
        """
        if self.file.quarantine is None and self.file.publish is None:
            return nullcontext()
        return self.repository.store.hold(f"records of {self.run.dataset}", WAIT_SECONDS)

    def quarantine(self) -> None:
        """Write the rejected records, and take samples."""
        table = self.file.quarantine
        what = f"quarantine in {table}"
        due = [] if table is None else self._writable(self._due(what, self.checks), table)
        looked = due
        if not due and self.most and any(map(self._charges, self.run.changes)):
            looked = [name for name in sorted(self.run.changes) if name not in self.failures]
        if not looked:
            return
        applied = self._applied(looked)
        if table is not None and due:
            values = self._values(due)
            applied = replace(applied, run=self.run.id)
            names = self.file.broken_rules, self.file.reasons
            applied.quarantine(table, self._mode, values, *names)
            self._remember(what, due, f"{applied.state.rejects} rejects of {_count(due)}: {table}")

    def publish(self) -> None:
        """Write the kept records of the partitions that passed."""
        table = self.file.publish
        if table is None:
            return
        what = f"publication in {table}"
        passed = [name for name, c in self.checks.items() if c.passed]
        due = self._writable(self._due(what, passed), table)
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

    def _applied(self, names: Sequence[str]) -> Applied:
        """Count, judge and split partitions, and take samples of what breaks rules."""
        dqm, data, by = self.file.dqm, self._read(names), self.source.keys
        tallies = tally(data, dqm.tasks, Groups(by), incremental=True)
        masked = mask(data, dqm.tasks, total(tallies.values()).failures, by=by)
        keys = resolve_columns(data, self.file.keys)
        private = privacy_of(self.file.suite, self.file.table)
        applied = split(dqm, masked, tallies, by, keys, self.most, private=private)
        for sample in applied.state.samples:
            if sum(sample.task == other.task for other in self.samples) < self.most:
                self.samples.append(sample)
        return applied

    def _charges(self, partition: str) -> bool:
        """Return whether a record of a partition breaks a rule."""
        counts = self.counted.get(partition)
        found = {} if counts is None else self.file.dqm.tasks.of(counts)
        return any(count for (kind, _), count in found.items() if kind == "charged")

    def _writable(self, due: list[str], table: str | None) -> list[str]:
        """Return the partitions in which all rules and fixes can be evaluated; report the others."""
        if table is None:
            return []
        out = [name for name in due if name in self.failures or self._is_uncounted(name)]
        out = due if self.unresolved else out
        if out:
            why = "a rule or fix could not be evaluated"
            self.written.append(f"not written: {_count(out)}, as {why}: {table}")
        return [name for name in due if name not in out]

    @property
    def _mode(self) -> str:
        return "partitions" if self.source.keys else "overwrite"

    def _values(self, names: Sequence[str]) -> list[Values]:
        """Return the partitions to replace: one that became empty has no records to tell it by."""
        return [self.listed[name].values for name in names] if self.source.keys else []

    def _due(self, what: str, names: Collection[str]) -> list[str]:
        """Return the partitions whose current content was judged, and not written yet."""
        done, changed = self._noted(what), self._changed()
        late = sorted(changed.intersection(names) - done)
        if late:
            why = "changed since it was judged, and is left to the next run"
            self.written.append(f"not written: {what}: {', '.join(late)} {why}")
        left = [name for name in names if name in self.listed and name not in done | changed]
        return sorted(left)

    def _changed(self) -> set[str]:
        """Return the partitions whose files are no longer those that were judged.

        A table with versions is read as it was listed.
        """
        if getattr(self.source, "version", None) is not None:
            return set()
        return {
            entry.partition.name
            for entry in self.source.list_partitions()
            if entry.fingerprint is not None
            and entry.partition.name in self.prints
            and own_part(self.prints[entry.partition.name]) != entry.fingerprint
        }

    def _noted(self, what: str) -> set[str]:
        """Return the partitions last written by these rules from their current content."""
        found, seen = set(), set()
        for row in verdicts_named(self.repository, self.run.dataset, what).itertuples():
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
