"""Run rules files: count, judge, quarantine and publish the new partitions of each table.

A repository stores counts and verdicts by partition, so only new and changed partitions are read.
It also stores which partitions were written to which target, so a partition that was not written is written
by the next run. Sources are tables, folders, and files parsed with a schema. A `RulesResult` has the report and
the exit status of a run, from the `RulesRun` of each file. `RunCounts` and
`RecordWriter` count, sample, judge and write the records of one run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

from tidegauge.analysis import Run, analyze, open_source, recording_start
from tidegauge.analyzers.core.errors import MetricError, MetricRuntimeError, message_of
from tidegauge.analyzers.core.evidence import NO_DATA, OnEmpty, with_status
from tidegauge.analyzers.core.formatting import plural
from tidegauge.analyzers.core.partitions import Partition, Values
from tidegauge.analyzers.core.registry import canonical_json, key_of
from tidegauge.analyzers.runs.ledger import own_part
from tidegauge.analyzers.runs.recording import WAIT_SECONDS, Progress, Silent
from tidegauge.analyzers.scan.grouping import Groups
from tidegauge.analyzers.sources.sources import ListedPartition, Source
from tidegauge.files.rules_files import DQM_NAME, RulesFile, check_shared_targets, load_all_rules
from tidegauge.job import JobResult, run_tables, sinks_by_dataset
from tidegauge.notifications.notify import notify_all
from tidegauge.outcome import (
    Cause,
    Gate,
    JUnitCase,
    Kind,
    Problem,
)
from tidegauge.rules.definition import Applied, split, total
from tidegauge.rules.dqm import DQM
from tidegauge.rules.judging import (
    close_verdicts,
    counts_of,
    fingerprints,
    kept_verdicts,
    verdicts_named,
)
from tidegauge.rules.known_failures import KnownFailures, problems_of_policies, problems_of_run
from tidegauge.rules.masks import mask
from tidegauge.rules.publish import Publication
from tidegauge.rules.record_counts import DQMState, RecordCounts, Sample
from tidegauge.rules.tally import DEFAULT_SAMPLES, resolve_columns, tally
from tidegauge.rules.tasks import DQMFix, DQMRule
from tidegauge.rules.verdicts import RECORDS_OUTCOME, CheckResult, ValidationSet, read_verdict
from tidegauge.spark.session import spark_session
from tidegauge.suite import privacy_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegauge.repository.repository import Repository
    from tidegauge.rules.file_parser import ParserValidation


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


@dataclass(frozen=True)
class ParsedSource:
    """File parsed with a schema: a source with one partition, fingerprinted by files and parser.

    Attributes
    ----------
    parser : ParserValidation
        The parser of the records.
    spark : SparkSession
        The session that reads the records.
    """

    parser: ParserValidation
    spark: SparkSession

    @property
    def name(self) -> str:
        """Path of the file or folder."""
        return self.parser.path

    @property
    def keys(self) -> tuple[str, ...]:
        """The partition columns: none."""
        return ()

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the files and of the parser, without its policies on unreadable records."""
        identity = self.parser.identity()
        parser_hash = key_of(canonical_json({**identity, "parser": None, "policies": None}))
        return f"{self.parser.fingerprint(self.spark)}/{parser_hash}"

    def list_partitions(self) -> list[ListedPartition]:
        """Return the single partition."""
        return [ListedPartition(Partition(), self.fingerprint)]

    def read(self, partitions: Collection[Partition] | None = None) -> DataFrame:
        """Return the records that could be read."""
        return self.parser.read(self.spark).data

    def partition_of(self, key: Sequence[str]) -> Partition | None:
        """Return the single partition."""
        return Partition()


def open_rules_source(file: RulesFile, spark: SparkSession) -> Source:
    """Return the source of a rules file."""
    parser = file.parser(spark)
    if parser is not None:
        return ParsedSource(parser, spark)
    return open_source(file.table, file.suite, spark, file.format, file.options)


def parser_verdict(source: ParsedSource, repository: Repository, run: Run) -> CheckResult:
    """Return the parser's verdict on the file: the stored one, or a new one, which is stored."""
    parser = source.parser
    case = {
        "name": parser.name,
        "specification": key_of(canonical_json(parser.identity())),
        "fingerprint": source.fingerprint,
    }
    stored = repository.verdict(run.dataset, as_of=None, **case)
    stored_verdict = (
        None if stored is None else read_verdict(stored, f"{parser.name} of {run.dataset}")
    )
    if stored_verdict is not None:
        return stored_verdict
    verdict = parser.validate()
    repository.keep_verdict(
        run.dataset, **case, passed=verdict.passed, result=verdict.to_json(), run=run.id
    )
    return verdict


_MAX_SHOWN_PARTITIONS = 20
"""Limit on the partitions that a report lists, so that it stays readable."""
_MAX_SHOWN_SAMPLES = 5
"""Limit on the samples of a partition that an earlier run judged."""
_NOT_EVALUATED_TEXT = "could not be evaluated"


@dataclass(frozen=True)
class RulesRun:
    """Result of running one rules file.

    Attributes
    ----------
    file : RulesFile
        The rules file.
    run : Run
        Result of the run.
    state : DQMState
        The counts of the scanned partitions, or of all partitions if none was scanned.
    checks : mapping of str to CheckResult
        The verdicts by partition, as in `Run.checks`.
    parser : CheckResult or None
        The parser's verdict on the records that could not be read; None for a table.
    samples : sequence of Sample
        Scanned records that broke rules.
    written : sequence of str
        One line for each table or folder that was written or skipped.
    problem : str
        The error that ended writing, or an empty string.
    known_failures : KnownFailures or None
        The failed verdicts that do not fail the run, if any.
    """

    file: RulesFile
    run: Run
    state: DQMState
    checks: Mapping[str, CheckResult]
    parser: CheckResult | None = None
    samples: Sequence[Sample] = ()
    written: Sequence[str] = ()
    problem: str = ""
    known_failures: KnownFailures | None = None

    def problems(self) -> Iterator[Problem]:
        """Yield the problems that keep the table from passing."""
        dataset, name = self.run.dataset, self.file.dqm.name
        known_failures = self.known_failures or KnownFailures(dataset)
        if self.problem:
            yield Problem(Cause.WRITING, dataset)
        yield from problems_of_run(replace(self.run, checks={}), known_failures)
        for _ in self.state.errors:
            yield Problem(Cause.ANALYZER, dataset)
        yield from problems_of_policies(self.run, self.checks, known_failures, name)
        if self.parser is not None and not self.parser.passed:
            yield Problem(Cause.POLICY, dataset)
        if self.state.rejects:
            yield Problem(Cause.REJECTS, dataset)

    def is_known(self, partition: str) -> bool:
        """Return whether the failed verdict on a partition does not fail the run."""
        return self.known_failures is not None and self.known_failures.has_verdict(
            self.file.dqm.name, partition
        )

    @property
    def failed_verdicts(self) -> dict[str, CheckResult]:
        """The failed verdicts by partition; the parser's under ``parser``."""
        verdicts = {name: check for name, check in self.checks.items() if not check.passed}
        if self.parser is not None and not self.parser.passed:
            verdicts["parser"] = self.parser
        return verdicts

    def lines(self, options: str = "") -> Iterator[str]:
        """Yield the lines of a report; the options are added to the commands in it."""
        yield str(self.run)
        for name, reason in self.run.unreadable.items():
            yield f"  {name}: cannot be read: {reason}"
        state, tasks = self.state, self.file.dqm.tasks
        name = "" if self.file.dqm.name == DQM_NAME else f"{self.file.dqm.name}: "
        yield f"  {name}{plural(state.records, 'record')}, {state.rejects} rejected"
        for rule in tasks.ordered:
            yield f"  rule {rule.name}: {_rule_summary(rule, state)}"
            yield from (f"    {sample}" for sample in self.samples if sample.task == rule.name)
        for fix in tasks.fixes:
            yield f"  fix {fix.name}: {_fix_summary(fix, state)}"
        if self.parser is not None:
            yield from (f"  {line}" for line in self.parser.check_log)
        for name, error in self.state.errors.items():
            yield f"  {self.file.location(name)}: {error}"
        yield from self._failure_lines(options)
        reported_partitions = self.run.changes or self.checks
        unjudged = [(name, c) for name, c in self.checks.items() if c.passed and c.no_data]
        for name, check in [pair for pair in unjudged if pair[0] in reported_partitions][
            :_MAX_SHOWN_PARTITIONS
        ]:
            yield f"  {name or self.run.dataset}: {check}"
        yield from (f"  {line}" for line in self.written)
        if self.problem:
            yield f"failed: {self.file.path}: {self.problem}"

    def _failure_lines(self, options: str) -> Iterator[str]:
        refused = sorted(self.failed_verdicts.items(), key=lambda pair: self.is_known(pair[0]))
        for name, check in refused[:_MAX_SHOWN_PARTITIONS]:
            prefix = "known: " if self.is_known(name) else ""
            yield f"  {prefix}{name or self.run.dataset}: {self._failure_line(check)}"
            if (
                name not in self.run.changes and check is not self.parser
            ):  # otherwise they are listed above
                errors = self.state.errors.values()
                samples = [sample for sample in check.samples if sample not in errors]
                yield from (f"    {sample}" for sample in samples[:_MAX_SHOWN_SAMPLES])
                yield from ["    ..."] * (len(samples) > _MAX_SHOWN_SAMPLES)
        if len(refused) > _MAX_SHOWN_PARTITIONS:
            yield f"  and {len(refused) - _MAX_SHOWN_PARTITIONS} more partitions; see: tidegauge rules history"
        if self.known_failures is not None:
            name = self.file.dqm.name
            yield from self.known_failures.advice(
                [(name, p) for p in self.failed_verdicts if p != "parser"], options
            )

    def errors(self) -> Iterator[str]:
        """Yield nothing, because the run's JSON values contain its errors."""
        yield from ()

    def sections(self) -> dict[str, Any]:
        """Return the run as JSON values: counts, samples, failed verdicts, and written targets."""
        state, tasks = self.state, self.file.dqm.tasks
        run = {
            "file": str(self.file.path),
            "dataset": self.run.dataset,
            "run_id": self.run.id,
            "status": self.run.status,
            "scanned": sorted(self.run.changes),
            "unreadable": {name: str(reason) for name, reason in self.run.unreadable.items()},
            "records": state.records,
            "rejected": state.rejects,
            "rules": [self._rule_record(rule) for rule in tasks.ordered],
            "fixes": [
                {
                    "name": fix.name,
                    "fixed": None if fix.name in state.errors else state.fix_count(fix.name),
                    "error": _error(state, fix.name),
                }
                for fix in tasks.fixes
            ],
            "parser": None if self.parser is None else _verdict(self.parser),
            "failed": {
                name: _verdict(check) for name, check in sorted(self.failed_verdicts.items())
            },
            "known": sorted(name for name in self.failed_verdicts if self.is_known(name)),
            "no_data": sorted(name for name, c in self.checks.items() if c.status == NO_DATA),
            "written": list(self.written),
            "problem": self.problem or None,
        }
        return {"runs": [run]}

    def junit_suite(self, gate: Gate) -> tuple[str, list[JUnitCase]]:
        """Return a JUnit suite with a case for each rule, fix, policy and verdict."""
        return f"{self.file.dqm.name} of {self.run.dataset}", list(self.cases(gate))

    def cases(self, gate: Gate) -> Iterator[JUnitCase]:
        """Yield the cases of JUnit: each rule and fix, then each policy on each partition."""
        state, dataset = self.state, self.run.dataset
        for rule in self.file.dqm.tasks.ordered:
            rejected = (
                rule.rejects and rule.name not in state.errors and state.rule_count(rule.name)
            )
            kind: Kind = "failure" if rejected and gate.rejects else "passed"
            case = self._case(f"rule {rule.name}", rule.name, _rule_summary(rule, state), kind)
            samples = [str(sample) for sample in self.samples if sample.task == rule.name]
            yield replace(case, details=samples)
        for fix in self.file.dqm.tasks.fixes:
            yield self._case(f"fix {fix.name}", fix.name, _fix_summary(fix, state))
        judged = dict(self.checks) | ({} if self.parser is None else {"parser": self.parser})
        for partition, check in judged.items():
            subject = ".".join(filter(None, (dataset, partition)))
            messages = dict(check.error_messages)
            samples = check.samples
            for name in dict.fromkeys([*dict(check.outcomes), *messages]):
                is_known = self.is_known(partition)
                failed = name in messages and gate.failures and not is_known
                reasons = dict(check.no_data)
                reason = reasons.get(name, reasons.get(RECORDS_OUTCOME))
                unjudged = reason is not None and (name in reasons or name not in messages)
                skipped = unjudged or (name in messages and is_known)
                kind = "failure" if failed else "skipped" if skipped else "passed"
                yield JUnitCase(
                    subject,
                    name,
                    kind,
                    messages.get(name, with_status(reason) if reason and unjudged else ""),
                    self.file.location(name),
                    samples,
                    NO_DATA if unjudged else "",
                )
        for partition, why in self.run.unreadable.items():
            yield JUnitCase(f"{dataset}.{partition}", "reading", "error", str(why))
        for analyzer, error in self.run.failed.items():
            yield JUnitCase(dataset, str(analyzer), "error", str(error))
        if self.problem:
            yield JUnitCase(dataset, "writing", "error", self.problem)

    def _case(self, title: str, task: str, summary: str, kind: Kind = "passed") -> JUnitCase:
        """Return the case of a rule or fix, which is an error if it could not be evaluated."""
        error = _error(self.state, task)
        dataset, location = self.run.dataset, self.file.location(task)
        if kind == "passed" and not self.state.records:
            kind, summary = "skipped", with_status("there are no records to judge")
        return JUnitCase(dataset, title, "error" if error else kind, error or summary, location)

    def _rule_record(self, rule: DQMRule) -> dict[str, Any]:
        state, name = self.state, rule.name
        counted = name not in state.errors
        return {
            "name": name,
            "place": self.file.location(name),
            "severity": str(rule.severity),
            "rejected" if rule.rejects else "warned": state.rule_count(name) if counted else None,
            "violations": state.violations(name) if counted else None,
            "unknown": state.unknown(name) if counted else None,
            "error": _error(state, name),
            "samples": [asdict(sample) for sample in self.samples if sample.task == name],
        }

    def _failure_line(self, check: CheckResult) -> str:
        """Return a failed verdict in one line, without errors that are already in the report."""
        errors = self.state.errors
        messages = (
            (name, _NOT_EVALUATED_TEXT if errors.get(name) == message else message)
            for name, message in check.error_messages
        )
        return str(replace(check, error_messages=tuple(messages)))


class RulesResult(JobResult[RulesRun]):
    """Results of running rules files."""

    def sections(self) -> dict[str, Any]:
        """Return the runs as JSON values."""
        return {"runs": [], **super().sections()}


def _verdict(check: CheckResult) -> Any:
    return json.loads(check.to_json())


def _error(state: DQMState, name: str) -> str | None:
    error = state.errors.get(name)
    return None if error is None else str(error)


def _rule_summary(rule: DQMRule, state: DQMState) -> str:
    if rule.name in state.errors:
        return _NOT_EVALUATED_TEXT
    verb = "rejected" if rule.rejects else "warned of"
    summary = f"{state.rule_count(rule.name)} {verb}, {state.violations(rule.name)} break it"
    unknown = state.unknown(rule.name)
    return f"{summary}, {unknown} unknown" if unknown else summary


def _fix_summary(fix: DQMFix, state: DQMState) -> str:
    if fix.name in state.errors:
        return _NOT_EVALUATED_TEXT
    arms = [
        f"{state.fix_count(n)} {a.label}" for n, a in zip(fix.counters(), fix.arms, strict=True)
    ]
    sides = f" ({', '.join(arms)})" if len(arms) > 1 else ""
    return f"{plural(state.fix_count(fix.name), 'value')} fixed{sides}"


def run_rules(
    patterns: Sequence[str],
    repository: Repository,
    partitions: str = "new",
    session: Callable[[], SparkSession] = spark_session,
    samples: int = DEFAULT_SAMPLES,
    variables: Mapping[str, str] | None = None,
    *,
    allow_empty: bool = False,
    jobs: int = 1,
) -> RulesResult:
    """Run the rules files that paths, folders and globs select, and notify of failed verdicts.

    All rules files are read before any data. A file that cannot be read or run is reported, and the
    others are still run.

    Parameters
    ----------
    patterns : sequence of str
        Paths, folders and globs.
    repository : Repository
        The repository that stores counts and verdicts.
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
        Whether partitions without records pass, regardless of the files.
    jobs : int
        Number of tables to work on at the same time, in threads of one session.

    Raises
    ------
    SuiteError
        If no file is a valid rules file, or two files write to one location.
    """
    files, errors = load_all_rules(patterns, variables)
    if allow_empty:
        files = [replace(file, on_empty=OnEmpty.PASS) for file in files]
    spark = session()
    check_shared_targets(files, spark)
    result = RulesResult(failed=errors)

    def run(file: RulesFile) -> RulesRun:
        progress = Silent() if jobs > 1 else None  # a terminal has room for one bar
        return run_file(file, repository, spark, partitions, samples, progress)

    for file, outcome in run_tables(files, run, spark, jobs=jobs):
        result.add(str(file.path), outcome)
    result.notices = notify_all(repository, sinks_by_dataset(file.suite for file in files))
    return result


def run_file(
    file: RulesFile,
    repository: Repository,
    spark: SparkSession,
    partitions: str = "new",
    samples: int = DEFAULT_SAMPLES,
    progress: Progress | None = None,
) -> RulesRun:
    """Run one rules file. The parameters are described at `run_rules`, ``progress`` at `analyze`.

    If a rule or fix cannot be evaluated, the other rules and fixes are counted without it and the partitions
    fail. Their records are not written, because its rejects would be missing from the quarantine.
    """
    file.check_places(spark)
    with recording_start(repository, file.suite, file.table, partitions):
        source = open_rules_source(file, spark)
    # Samples are taken when rejects are written, in the same scan.
    run = analyze(
        source,
        file.suite,
        repository=repository,
        partitions=partitions,
        spark=spark,
        samples=0,
        progress=progress,
        on_empty=file.on_empty,
    )
    if privacy_of(file.suite, file.table).covers_all:
        samples = 0
    parsed = parser_verdict(source, repository, run) if isinstance(source, ParsedSource) else None
    counts = RunCounts(file, repository, source, run, samples)
    counts.recount()
    if partitions in {"new", "all"}:
        counts.include_all_judged()
    writer = RecordWriter(counts)
    problem = ""
    try:
        with writer.lock():
            writer.quarantine()
            if parsed is None or parsed.passed:
                writer.publish()
    except Exception as error:  # noqa: BLE001 - counts and verdicts are still reported
        problem = message_of(error)
    checks = {**run.checks, **counts.judge_with_samples()}
    former_specification = file.dqm.named(DQM_NAME).specification
    close_verdicts(repository, run.dataset, DQM_NAME, former_specification, file.dqm.name)
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
