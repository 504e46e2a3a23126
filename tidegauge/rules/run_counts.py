"""Counts and samples of one run of a rules file, and its verdicts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from tidegauge.analysis import Run, privacy_of
from tidegauge.analyzers.core.errors import MetricError, MetricRuntimeError
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.analyzers.scan.grouping import Groups
from tidegauge.analyzers.sources.sources import Source
from tidegauge.files.rules import RulesFile
from tidegauge.rules.applied import Applied, split
from tidegauge.rules.definition import total
from tidegauge.rules.masks import mask
from tidegauge.rules.outcome.judging import counts_of, fingerprints, kept_verdicts
from tidegauge.rules.outcome.result import CheckResult
from tidegauge.rules.samples import resolve_columns
from tidegauge.rules.state import DQMState, RecordCounts, Sample
from tidegauge.rules.tally import tally

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
