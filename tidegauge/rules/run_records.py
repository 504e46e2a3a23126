"""Records of one run of a rules file: counted, sampled and judged, then quarantined and published."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING

from tidegauge.analysis import Run
from tidegauge.analyzers.core.errors import MetricError, MetricRuntimeError
from tidegauge.analyzers.core.formatting import plural
from tidegauge.analyzers.core.partitions import Partition, Values
from tidegauge.analyzers.core.registry import key_of
from tidegauge.analyzers.runs.ledger import own_part
from tidegauge.analyzers.runs.recording import WAIT_SECONDS
from tidegauge.analyzers.scan.grouping import Groups
from tidegauge.analyzers.sources.sources import Source
from tidegauge.files.rules_files import RulesFile
from tidegauge.rules.definition import Applied, split, total
from tidegauge.rules.dqm import DQM
from tidegauge.rules.judging import counts_of, fingerprints, kept_verdicts, verdicts_named
from tidegauge.rules.masks import mask
from tidegauge.rules.publish import Publication
from tidegauge.rules.record_counts import DQMState, RecordCounts, Sample
from tidegauge.rules.tally import resolve_columns, tally
from tidegauge.rules.verdicts import CheckResult, ValidationSet
from tidegauge.suite import privacy_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegauge.repository.repository import Repository


class RunCounts:
    """Counts and verdicts by partition, from this run and from earlier runs.

    Attributes
    ----------
    checks : dict of str to CheckResult
        The verdicts by partition.
    fingerprint_by_partition : mapping of str to str
        The fingerprint of the judged content, by partition.
    counted : dict of str to (RecordCounts or None)
        The counts by partition; None if a rule or fix could not be evaluated.
    failures : dict of str to (dict of str to MetricError)
        The rules and fixes that this run could not evaluate, by partition.
    max_samples : int
        Number of sample records for each rule.
    samples : list of Sample
        The samples that were taken.
    """

    def __init__(
        self,
        file: RulesFile,
        repository: Repository,
        source: Source,
        run: Run,
        samples: int,
    ) -> None:
        self.file, self.repository, self.source, self.run = file, repository, source, run
        self.max_samples = samples
        self.checks = dict(run.checks)
        self.fingerprint_by_partition = fingerprints(repository, run.dataset)
        self.counted = counts_of(repository, run.dataset, file.dqm) or {}
        self.failures: dict[str, dict[str, MetricError]] = {}
        self.samples: list[Sample] = []

    @cached_property
    def unresolved(self) -> Mapping[str, MetricError]:
        """The rules and fixes that Spark cannot resolve on the table."""
        if not self.listed:
            return {}
        return mask(
            self.source.read(None), self.file.dqm.tasks, partition_by=self.source.keys
        ).failures

    @cached_property
    def listed(self) -> dict[str, Partition]:
        """The existing partitions by name."""
        return {entry.partition.name: entry.partition for entry in self.source.list_partitions()}

    @property
    def reported(self) -> Collection[str]:
        """The scanned partitions, or all partitions if none was scanned."""
        return (self.run.changes or self.run.checks).keys()

    def recount(self) -> None:
        """Count reported partitions in which a rule or fix cannot be evaluated, without this rule or fix.

        The repository has no counts for these partitions. They are read once more, and samples are taken.
        """
        uncounted = [p for p in self.reported if self.is_uncounted(p) and p in self.listed]
        if uncounted:
            applied = self.applied(uncounted)
            self.counted |= applied.partitions()
            self.failures = {
                Partition(applied.partition_by, values).name: {**self.unresolved, **group.failures}
                for values, group in applied.tallies.items()
            }

    def is_uncounted(self, partition: str) -> bool:
        """Return whether a rule or fix could not be evaluated in a partition."""
        return partition in self.counted and self.counted[partition] is None

    def state(self) -> DQMState:
        """Return the counts of the scanned partitions, or of all partitions if none was scanned."""
        state = self._state(self.reported)
        state.snapshot()
        return state

    def _state(self, names: Iterable[str]) -> DQMState:
        names = list(names)
        failures = dict(self.unresolved)
        for name in names:
            failures |= self.failures.get(name) or self._kept_failures(name)
        counts = [stored for name in names if (stored := self.counted.get(name)) is not None]
        return self.file.dqm.tasks.state(RecordCounts.merge(counts), failures)

    def _kept_failures(self, partition: str) -> dict[str, MetricError]:
        """Return the rules and fixes that an earlier run could not evaluate in a partition, from its verdict.

        The verdict's log contains their errors, but not the reasons of policies.
        """
        verdict = self.checks.get(partition)
        if verdict is None or not self.is_uncounted(partition):
            return {}
        logged, tasks = {line.strip() for line in verdict.check_log}, self.file.dqm.tasks.positions
        return {
            name: MetricRuntimeError(message)
            for name, message in verdict.error_messages
            if name in tasks and (message.strip() in logged or not logged)
        }

    def judge_with_samples(self) -> dict[str, CheckResult]:
        """Store the verdicts on scanned partitions again, including samples and all reasons."""
        verdicts = {}
        for name in self.run.checks.keys() & self.run.changes.keys():
            samples = [sample for sample in self.samples if sample.partition == name]
            if self.run.checks[name].is_accepted:
                continue
            if not samples and name not in self.failures:
                continue
            state = self._state([name])
            for sample in samples:
                state.add_sample(replace(sample, partition=""))
            state.snapshot()
            dqm = self.file.dqm
            verdicts[name] = dqm.judge(state).resolve_no_data(self.file.on_empty)
            self.repository.keep_verdict(
                self.run.dataset,
                name=dqm.name,
                specification=dqm.specification,
                fingerprint=self.fingerprint_by_partition[name],
                passed=verdicts[name].passed,
                result=verdicts[name].to_json(),
                partition=name,
                run=self.run.id,
            )
        return verdicts

    def include_all_judged(self) -> None:
        """Include all partitions whose current content these rules have judged, in any run."""
        dqm = self.file.dqm
        stored = kept_verdicts(self.repository, self.run.dataset, dqm.name, dqm.specification)
        self.checks = {**stored, **self.checks}

    def applied(self, names: Sequence[str]) -> Applied:
        """Count, judge and split partitions, and take samples of records that break rules."""
        dqm, data, partition_columns = self.file.dqm, self.read(names), self.source.keys
        tallies = tally(data, dqm.tasks, Groups(partition_columns), incremental=True)
        masked = mask(
            data, dqm.tasks, total(tallies.values()).failures, partition_by=partition_columns
        )
        keys = resolve_columns(data, self.file.keys)
        private = privacy_of(self.file.suite, self.file.table)
        applied = split(
            dqm, masked, tallies, partition_columns, keys, self.max_samples, private=private
        )
        for sample in applied.state.samples:
            if sum(sample.task == earlier.task for earlier in self.samples) < self.max_samples:
                self.samples.append(sample)
        return applied

    def is_charged(self, partition: str) -> bool:
        """Return whether a record of a partition breaks a rule."""
        counts = self.counted.get(partition)
        count_by_counter = {} if counts is None else self.file.dqm.tasks.counts_by_task(counts)
        return any(count for (kind, _), count in count_by_counter.items() if kind == "charged")

    def read(self, names: Collection[str]) -> DataFrame:
        """Return the records of partitions."""
        partitions = [partition for name, partition in self.listed.items() if name in names]
        return self.source.read(None if len(partitions) == len(self.listed) else partitions)


class RecordWriter:
    """Writer of rejected and kept records, each partition once for each content and set of rules.

    Attributes
    ----------
    written : list of str
        One line for each table or folder that was written or skipped.
    """

    def __init__(self, counts: RunCounts) -> None:
        self.counts = counts
        self.file, self.repository = counts.file, counts.repository
        self.source, self.run = counts.source, counts.run
        self.content = key_of(counts.file.dqm.tasks.identity)
        self.written: list[str] = []

    def lock(self) -> AbstractContextManager[object]:
        """Lock the dataset's records, so that only one run at a time writes the partitions of a table.

        A run that waited reads the state that the other run wrote.
        """
        if self.file.quarantine is None and self.file.publish is None:
            return nullcontext()
        return self.repository.store.hold(f"records of {self.run.dataset}", WAIT_SECONDS)

    def quarantine(self) -> None:
        """Write the rejected records, and take samples."""
        table = self.file.quarantine
        verdict_name = f"quarantine in {table}"
        to_write = (
            []
            if table is None
            else self._writable(self._partitions_to_write(verdict_name, self.counts.checks), table)
        )
        to_read = to_write
        if (
            not to_write
            and self.counts.max_samples
            and any(map(self.counts.is_charged, self.run.changes))
        ):
            to_read = [
                name for name in sorted(self.run.changes) if name not in self.counts.failures
            ]
        if not to_read:
            return
        applied = self.counts.applied(to_read)
        if table is not None and to_write:
            values = self._values(to_write)
            applied = replace(applied, run=self.run.id)
            names = self.file.broken_rules, self.file.reasons
            applied.quarantine(table, self._mode, values, *names)
            self._store_written(
                verdict_name,
                to_write,
                f"{applied.state.rejects} rejects of {_count(to_write)}: {table}",
            )

    def publish(self) -> None:
        """Write the kept records of the partitions that passed."""
        table = self.file.publish
        if table is None:
            return
        verdict_name = f"publication in {table}"
        passed = [name for name, c in self.counts.checks.items() if c.passed]
        to_write = self._writable(self._partitions_to_write(verdict_name, passed), table)
        if not to_write:
            return
        # Each partition was judged separately; together they could exceed a limit on counts.
        tasks = (*self.file.dqm.tasks.rules, *self.file.dqm.tasks.fixes)
        dqm_without_policies = reduce(
            lambda dqm, task: dqm.add(task), tasks, DQM(self.file.dqm.name)
        )
        published = Publication(
            table,
            ValidationSet([dqm_without_policies]),
            partition_by=self.source.keys or None,
            mode=self._mode,
            samples=0,
            partitions=self._values(to_write),
        ).run(self.counts.read(to_write))
        kept_count = published.state.records - published.state.rejects
        self._store_written(
            verdict_name, to_write, f"{kept_count} records of {_count(to_write)}: {table}"
        )

    def _writable(self, to_write: list[str], table: str | None) -> list[str]:
        """Return the partitions in which all rules and fixes can be evaluated, and report the other partitions."""
        if table is None:
            return []
        not_evaluated = [
            name
            for name in to_write
            if name in self.counts.failures or self.counts.is_uncounted(name)
        ]
        not_evaluated = to_write if self.counts.unresolved else not_evaluated
        if not_evaluated:
            reason = "a rule or fix could not be evaluated"
            self.written.append(f"not written: {_count(not_evaluated)}, because {reason}: {table}")
        return [name for name in to_write if name not in not_evaluated]

    @property
    def _mode(self) -> str:
        return "partitions" if self.source.keys else "overwrite"

    def _values(self, names: Sequence[str]) -> list[Values]:
        """Return the partitions to replace, including partitions that became empty."""
        return [self.counts.listed[name].values for name in names] if self.source.keys else []

    def _partitions_to_write(self, verdict_name: str, names: Collection[str]) -> list[str]:
        """Return the partitions whose current content was judged but not yet written."""
        written, changed = self._already_written(verdict_name), self._changed()
        changed_since = sorted(changed.intersection(names) - written)
        if changed_since:
            reason = "changed since it was judged; the next run writes it"
            self.written.append(f"not written: {verdict_name}: {', '.join(changed_since)} {reason}")
        to_write = [
            name for name in names if name in self.counts.listed and name not in written | changed
        ]
        return sorted(to_write)

    def _changed(self) -> set[str]:
        """Return the partitions whose files changed after they were judged.

        A table with versions is read in the version that was listed.
        """
        if getattr(self.source, "version", None) is not None:
            return set()
        return {
            entry.partition.name
            for entry in self.source.list_partitions()
            if entry.fingerprint is not None
            and entry.partition.name in self.counts.fingerprint_by_partition
            and own_part(self.counts.fingerprint_by_partition[entry.partition.name])
            != entry.fingerprint
        }

    def _already_written(self, verdict_name: str) -> set[str]:
        """Return the partitions that these rules last wrote from their current content."""
        written, visited = set(), set()
        for row in verdicts_named(self.repository, self.run.dataset, verdict_name).itertuples():
            name = str(row.partition)
            is_current = (row.specification, row.fingerprint) == (
                self.content,
                self.counts.fingerprint_by_partition.get(name),
            )
            if is_current and name not in visited:
                written.add(name)
            visited.add(name)
        return written

    def _store_written(self, verdict_name: str, names: Sequence[str], summary: str) -> None:
        self.written.append(f"written: {summary}")
        # The run id makes the result unique, so that it counts as newer than results of other rules.
        result = CheckResult(passed=True, check_log=(f"run {self.run.id}: {summary}",)).to_json()
        for name in names:
            self.repository.keep_verdict(
                self.run.dataset,
                name=verdict_name,
                specification=self.content,
                fingerprint=self.counts.fingerprint_by_partition[name],
                passed=True,
                result=result,
                partition=name,
                run=self.run.id,
            )


def _count(names: Sequence[str]) -> str:
    return plural(len(names), "partition") if names != [""] else "the whole"
