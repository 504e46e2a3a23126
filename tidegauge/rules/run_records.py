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
    """Counts and verdicts by partition, of this run and those stored by earlier ones.

    Attributes
    ----------
    checks : dict of str to CheckResult
        The verdicts by partition.
    prints : mapping of str to str
        The fingerprint of the content that was judged, by partition.
    counted : dict of str to (RecordCounts or None)
        The counts by partition; None where a rule or fix could not be evaluated.
    failures : dict of str to (dict of str to MetricError)
        The rules and fixes that this run could not evaluate, by partition.
    most : int
        Number of sample records for each rule.
    samples : list of Sample
        Those that were taken.
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
        self.most = samples
        self.checks = dict(run.checks)
        self.prints = fingerprints(repository, run.dataset)
        self.counted = counts_of(repository, run.dataset, file.dqm) or {}
        self.failures: dict[str, dict[str, MetricError]] = {}
        self.samples: list[Sample] = []

    @cached_property
    def unresolved(self) -> Mapping[str, MetricError]:
        """The rules and fixes that Spark cannot resolve on the table."""
        if not self.listed:
            return {}
        return mask(self.source.read(None), self.file.dqm.tasks, by=self.source.keys).failures

    @cached_property
    def listed(self) -> dict[str, Partition]:
        """The existing partitions by name."""
        return {entry.partition.name: entry.partition for entry in self.source.list_partitions()}

    @property
    def told(self) -> Collection[str]:
        """The partitions that were scanned; if none was, all."""
        return (self.run.changes or self.run.checks).keys()

    def recount(self) -> None:
        """Count the partitions that are told of in which a rule or fix cannot be evaluated, without it.

        The repository has no counts of all rules for them. They are read once more; samples are
        taken.
        """
        lacking = [p for p in self.told if self.is_uncounted(p) and p in self.listed]
        if lacking:
            applied = self.applied(lacking)
            self.counted |= applied.partitions()
            self.failures = {
                Partition(applied.by, values).name: {**self.unresolved, **one.failures}
                for values, one in applied.tallies.items()
            }

    def is_uncounted(self, partition: str) -> bool:
        """Return whether a rule or fix could not be evaluated in a partition."""
        return partition in self.counted and self.counted[partition] is None

    def state(self) -> DQMState:
        """Return the counts of the scanned partitions; if none was scanned, of all."""
        state = self._state(self.told)
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
        if verdict is None or not self.is_uncounted(partition):
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
            if self.run.checks[name].is_accepted:
                continue
            if not samples and name not in self.failures:
                continue
            state = self._state([name])
            for sample in samples:
                state.add_sample(replace(sample, partition=""))
            state.snapshot()
            dqm = self.file.dqm
            found[name] = dqm.judge(state).resolve_no_data(self.file.on_empty)
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

    def applied(self, names: Sequence[str]) -> Applied:
        """Count, judge and split partitions, and take samples of what breaks rules."""
        dqm, data, by = self.file.dqm, self.read(names), self.source.keys
        tallies = tally(data, dqm.tasks, Groups(by), incremental=True)
        masked = mask(data, dqm.tasks, total(tallies.values()).failures, by=by)
        keys = resolve_columns(data, self.file.keys)
        private = privacy_of(self.file.suite, self.file.table)
        applied = split(dqm, masked, tallies, by, keys, self.most, private=private)
        for sample in applied.state.samples:
            if sum(sample.task == other.task for other in self.samples) < self.most:
                self.samples.append(sample)
        return applied

    def is_charged(self, partition: str) -> bool:
        """Return whether a record of a partition breaks a rule."""
        counts = self.counted.get(partition)
        found = {} if counts is None else self.file.dqm.tasks.of(counts)
        return any(count for (kind, _), count in found.items() if kind == "charged")

    def read(self, names: Collection[str]) -> DataFrame:
        """Return the records of partitions."""
        wanted = [partition for name, partition in self.listed.items() if name in names]
        return self.source.read(None if len(wanted) == len(self.listed) else wanted)


class RecordWriter:
    """Writer of rejected and kept records, each partition once for each content and set of rules.

    Attributes
    ----------
    written : list of str
        One line for each table or folder written, or not written.
    """

    def __init__(self, counts: RunCounts) -> None:
        self.counts = counts
        self.file, self.repository = counts.file, counts.repository
        self.source, self.run = counts.source, counts.run
        self.content = key_of(counts.file.dqm.tasks.identity)
        self.written: list[str] = []

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
        due = [] if table is None else self._writable(self._due(what, self.counts.checks), table)
        looked = due
        if not due and self.counts.most and any(map(self.counts.is_charged, self.run.changes)):
            looked = [name for name in sorted(self.run.changes) if name not in self.counts.failures]
        if not looked:
            return
        applied = self.counts.applied(looked)
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
        passed = [name for name, c in self.counts.checks.items() if c.passed]
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
        ).run(self.counts.read(due))
        left = done.state.records - done.state.rejects
        self._remember(what, due, f"{left} records of {_count(due)}: {table}")

    def _writable(self, due: list[str], table: str | None) -> list[str]:
        """Return the partitions in which all rules and fixes can be evaluated; report the others."""
        if table is None:
            return []
        out = [
            name for name in due if name in self.counts.failures or self.counts.is_uncounted(name)
        ]
        out = due if self.counts.unresolved else out
        if out:
            why = "a rule or fix could not be evaluated"
            self.written.append(f"not written: {_count(out)}, as {why}: {table}")
        return [name for name in due if name not in out]

    @property
    def _mode(self) -> str:
        return "partitions" if self.source.keys else "overwrite"

    def _values(self, names: Sequence[str]) -> list[Values]:
        """Return the partitions to replace: one that became empty has no records to tell it by."""
        return [self.counts.listed[name].values for name in names] if self.source.keys else []

    def _due(self, what: str, names: Collection[str]) -> list[str]:
        """Return the partitions whose current content was judged, and not written yet."""
        done, changed = self._noted(what), self._changed()
        late = sorted(changed.intersection(names) - done)
        if late:
            why = "changed since it was judged, and is left to the next run"
            self.written.append(f"not written: {what}: {', '.join(late)} {why}")
        left = [name for name in names if name in self.counts.listed and name not in done | changed]
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
            and entry.partition.name in self.counts.prints
            and own_part(self.counts.prints[entry.partition.name]) != entry.fingerprint
        }

    def _noted(self, what: str) -> set[str]:
        """Return the partitions last written by these rules from their current content."""
        found, seen = set(), set()
        for row in verdicts_named(self.repository, self.run.dataset, what).itertuples():
            name = str(row.partition)
            same = (row.specification, row.fingerprint) == (
                self.content,
                self.counts.prints.get(name),
            )
            if same and name not in seen:
                found.add(name)
            seen.add(name)
        return found

    def _remember(self, what: str, names: Sequence[str], told: str) -> None:
        self.written.append(f"written: {told}")
        # The run id makes the result unique, so that it counts as newer than what other rules wrote meanwhile.
        result = CheckResult(passed=True, check_log=(f"run {self.run.id}: {told}",)).to_json()
        for name in names:
            self.repository.keep_verdict(
                self.run.dataset,
                name=what,
                specification=self.content,
                fingerprint=self.counts.prints[name],
                passed=True,
                result=result,
                partition=name,
                run=self.run.id,
            )


def _count(names: Sequence[str]) -> str:
    return plural(len(names), "partition") if names != [""] else "the whole"
