"""Judge the checks of a suite file on a measured table, and store the verdicts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tidegauge.analysis import Run, open_source
from tidegauge.analyzers.core.formatting import plural
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.analyzers.core.registry import canonical_json, key_of
from tidegauge.checks.check import Level
from tidegauge.checks.comparisons import ComparisonConstraint
from tidegauge.checks.constraints import (
    Constraint,
    ConstraintResult,
    ConstraintStatus,
    PartitionResult,
    resolve_no_data,
)
from tidegauge.checks.verification import Verification, verify_stored, with_examples
from tidegauge.files.suite_files import CHECKS_NAME, SuiteFile
from tidegauge.outcome import Cause, Gate, JUnitCase, Outcome, Problem
from tidegauge.rules.judging import (
    close_verdicts,
    close_without_partitions,
    fingerprints,
    keep_without_partitions,
    kept_verdicts,
)
from tidegauge.rules.known_failures import KnownFailures, chosen_by
from tidegauge.rules.verdicts import CheckResult
from tidegauge.suite import privacy_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegauge.analyzers.core.privacy import Privacy
    from tidegauge.analyzers.sources.sources import Source


@dataclass(frozen=True)
class CheckedTable:
    """Results of a suite file's checks on one table.

    Attributes
    ----------
    file : SuiteFile
        The suite file.
    run : Run
        The run that measured the table.
    verification : Verification
        Results for the judged partitions: those that are new, changed, or failed before. For a table without
        partitions, results for the table.
    known_failures : KnownFailures
        The failures that do not fail the run.
    """

    file: SuiteFile
    run: Run
    verification: Verification
    known_failures: KnownFailures

    def location(self, result: PartitionResult) -> str:
        """Return the file and line of a result's constraint."""
        line = self.file.check_lines.get(result.result.constraint.identity)
        return f"{self.file.path}{f':{line}' if line else ''}"

    def heading(self) -> str:
        """Return how many constraints failed, in one line."""
        if not self.verification.judged:
            return f"{self.file.name}: nothing new to check; all earlier checks passed"
        return f"{self.file.name}: {str(self.verification).splitlines()[0]}"

    def failures(self) -> Iterator[str]:
        """Yield a line for each failure, with its file and line; partitions with the same message share a line.

        Known failures come last.
        """
        verification = self.verification
        partitions_by_failure: dict[tuple[bool, str, str, str], list[str]] = {}
        for judged in verification.judged:
            if not judged.result.passed:
                sentence = judged.result.sentence
                failure = (
                    self.is_known(judged),
                    self.location(judged),
                    str(verification.level_of(judged)),
                    sentence,
                )
                partitions_by_failure.setdefault(failure, []).append(
                    judged.partition or judged.dataset
                )
        for (is_known, location, level, sentence), partitions in sorted(
            partitions_by_failure.items(), key=lambda pair: pair[0][0]
        ):
            other_count = len(partitions) - 1
            and_others = f" and {plural(other_count, 'other partition')}" if other_count else ""
            known_prefix = "known " if is_known else ""
            yield f"  {location}: {known_prefix}{level}: {partitions[-1]}{and_others}: {sentence}"

    def failing_partitions(self) -> set[str]:
        """Return the partitions in which a check fails, including known failures."""
        return {result.partition for result in self.verification.judged if is_error(self, result)}

    def is_known(self, result: PartitionResult) -> bool:
        """Return whether a result is a failure that does not fail the run."""
        return not result.result.passed and self.known_failures.has_verdict(
            self.file.name, result.partition
        )

    def problem(self, result: PartitionResult) -> Problem | None:
        """Return a failed result as a problem; None if it passed."""
        if result.result.passed:
            return None
        is_warning = not is_error(self, result)
        return Problem(Cause.CHECK, result.dataset, is_warning, self.is_known(result))

    def problems(self) -> Iterator[Problem]:
        """Yield the failed results as problems."""
        yield from filter(None, map(self.problem, self.verification.judged))

    def cases(self, gate: Gate) -> Iterator[JUnitCase]:
        """Yield a JUnit case for each constraint and partition; known failures are skipped."""
        for judged in self.verification.judged:
            subject, result = (
                ".".join(filter(None, (judged.dataset, judged.partition))),
                judged.result,
            )
            name, no_data = result.constraint.description, result.status is ConstraintStatus.NO_DATA
            problem = self.problem(judged)
            if problem is not None and gate.judge(problem) is Outcome.FAILED:
                status = str(result.status) if no_data else ""
                yield JUnitCase(
                    subject, name, "failure", result.text, self.location(judged), type=status
                )
            elif no_data or (problem is not None and problem.is_known):
                yield JUnitCase(subject, name, "skipped", result.text, self.location(judged))
            else:
                message = f"{result.status}: {result.message}" if result.message else ""
                yield JUnitCase(subject, name, message=message)

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield each result as JSON values."""
        rows = self.verification.frame().to_json(orient="records", date_format="iso")
        for result, row in zip(self.verification.judged, json.loads(rows), strict=True):
            status = {"passed": result.result.passed, "known": self.is_known(result)}
            yield {"place": self.location(result), **row, **status}


def open_file(file: SuiteFile, spark: SparkSession) -> Source:
    """Open the table of a suite file."""
    return open_source(file.table, file.suite, spark, file.format, file.options)


def check_table(
    file: SuiteFile,
    run: Run,
    source: Source,
    partitions: Any = "new",
    tags: Mapping[str, str] | None = None,
) -> CheckedTable:
    """Judge the new, changed and failing partitions of a measured table, and store the verdicts.

    A partition that passed is judged again only if the partition or the checks changed. A partition that
    failed is judged each time, and so is a partition that passed only because of an earlier
    ``--allow-empty``. For partitions that this run scanned, another scan adds examples of bad values to the
    messages. Later runs report the stored messages.

    Parameters
    ----------
    file : SuiteFile
        The suite file.
    run : Run
        The run that measured the table.
    source : Source
        The table.
    partitions : str or sequence of str
        The partitions that the run measured. Partitions named explicitly are judged in any case.
    tags : mapping of str to str, optional
        Tags of the run, which can make a table private.
    """
    repository = run.repository
    constraints = [
        [str(check.level), c.identity, *filter(None, [c.on_empty or file.on_empty])]
        for check in file.checks
        for c in check.constraints
    ]
    specification = key_of(canonical_json(constraints))
    allowing = key_of(canonical_json([*constraints, "allow empty"]))
    fingerprint_by_partition = fingerprints(repository, run.dataset)
    if not fingerprint_by_partition:
        return _without_partitions(file, run, allowing if file.allow_empty else specification)
    close_without_partitions(repository, run.dataset, file.name)
    stored_verdicts = kept_verdicts(repository, run.dataset, file.name, specification)
    if file.allow_empty:
        stored_verdicts |= kept_verdicts(repository, run.dataset, file.name, allowing)
    accepted = {name for name, verdict in stored_verdicts.items() if verdict.is_accepted}
    passed = {name for name, verdict in stored_verdicts.items() if verdict.passed}
    is_requested = chosen_by(partitions)
    if is_requested is None:
        to_judge = sorted(
            fingerprint_by_partition.keys() - (passed - run.changes.keys()) - accepted
        )
    else:
        to_judge = sorted(
            name for name in fingerprint_by_partition.keys() - accepted if is_requested(name)
        )
    explained: Sequence[PartitionResult] = ()
    if to_judge:
        private = privacy_of(file.suite, source.name, {**file.suite.tags, **(tags or {})})
        stored = verify_stored(
            repository,
            file.checks,
            run.dataset,
            to_judge,
            read=partial(_read, source),
            private=private,
        )
        explained = _add_examples(stored, run, source, private)
    judged = _with_stored_messages(explained, run, stored_verdicts)
    resolved = resolve_no_data(judged, file.on_empty, allow_empty=file.allow_empty)
    checked = CheckedTable(
        file, run, Verification(file.checks, resolved), KnownFailures(run.dataset)
    )
    by_partition: dict[str, list[PartitionResult]] = {}
    for result in checked.verification.judged:
        by_partition.setdefault(result.partition, []).append(result)
    for name, results in by_partition.items():
        verdict = _verdict(checked, results)
        allowed = file.allow_empty and verdict.no_data
        repository.keep_verdict(
            run.dataset,
            name=file.name,
            specification=allowing if allowed else specification,
            fingerprint=fingerprint_by_partition[name],
            passed=verdict.passed,
            result=verdict.to_json(),
            partition=name,
            run=run.id,
        )
    close_verdicts(repository, run.dataset, CHECKS_NAME, specification, file.name)
    return replace(checked, known_failures=KnownFailures.of_run(run, partitions))


def _without_partitions(file: SuiteFile, run: Run, specification: str) -> CheckedTable:
    """Judge a table that has no partition, in which no constraint has data."""
    judged = [
        PartitionResult(
            check_index, position, run.dataset, "", None, "", _no_partition_result(constraint)
        )
        for check_index, check in enumerate(file.checks)
        for position, constraint in enumerate(check.constraints)
    ]
    resolved = resolve_no_data(judged, file.on_empty, allow_empty=file.allow_empty)
    known_failures = KnownFailures(run.dataset)
    checked = CheckedTable(file, run, Verification(file.checks, resolved), known_failures)
    verdict = _verdict(checked, resolved)
    keep_without_partitions(
        run.repository, run.dataset, file.name, specification, verdict, run.report
    )
    return checked


def _no_partition_result(constraint: Constraint) -> ConstraintResult:
    return constraint.no_data(reason="the table has no partition")


def _read(source: Source, partition: str) -> DataFrame:
    """Return the data of one partition, or of the whole table if it has no keys."""
    return source.read([Partition.from_name(partition, source.keys)] if source.keys else None)


def _add_examples(
    judged: Sequence[PartitionResult], run: Run, source: Source, private: Privacy
) -> list[PartitionResult]:
    """Add bad values to the messages on partitions that the run scanned; this scans them once more."""
    failed = {
        result.partition for result in judged if result.result.failed_by_value
    } & run.changes.keys()
    if not failed:
        return list(judged)
    partitions = [Partition.from_name(name, source.keys) for name in failed]
    data = source.read(partitions if source.keys else None)
    failed_results = [result for result in judged if result.partition in failed]
    results_with_examples = iter(with_examples(failed_results, data, private, source))
    return [
        next(results_with_examples) if result.partition in failed else result for result in judged
    ]


def _with_stored_messages(
    judged: Sequence[PartitionResult], run: Run, verdicts: Mapping[str, CheckResult]
) -> list[PartitionResult]:
    """Restore the stored messages of results on partitions that were not scanned.

    Comparisons keep their messages, because they were repeated. So do constraints that share a description,
    because their stored messages cannot be told apart.
    """
    results = []
    name_counts = Counter((original.partition, _constraint_name(original)) for original in judged)
    for original in judged:
        is_fresh = original.partition in run.changes or isinstance(
            original.result.constraint, ComparisonConstraint
        )
        verdict = None if is_fresh else verdicts.get(original.partition)
        message_by_name = {} if verdict is None else dict(verdict.error_messages + verdict.warnings)
        is_unique = name_counts[original.partition, _constraint_name(original)] == 1
        no_data = original.result.status is ConstraintStatus.NO_DATA
        message = (
            message_by_name.get(_constraint_name(original)) if is_unique and not no_data else None
        )
        if message and not message.startswith(original.result.message_start):
            message = None  # stored by an older release with another wording
        result = replace(original.result, message=message) if message else original.result
        results.append(replace(original, result=result))
    return results


def _verdict(checked: CheckedTable, results: Sequence[PartitionResult]) -> CheckResult:
    """Return the verdict on one partition, which passes if there are only warnings."""
    errors = [result for result in results if is_error(checked, result)]
    warnings = [result for result in results if not result.result.passed and result not in errors]
    return CheckResult(
        passed=not errors,
        error_messages=tuple((_constraint_name(result), result.result.text) for result in errors),
        check_log=tuple(
            f"{_log_status(result, errors)}: {_constraint_name(result)}: {result.result.message}"
            for result in results
            if result.result.message
        ),
        outcomes=tuple((_constraint_name(result), result not in errors) for result in results),
        warnings=tuple((_constraint_name(result), result.result.text) for result in warnings),
        no_data=tuple(
            (_constraint_name(result), result.result.message)
            for result in results
            if result.result.status is ConstraintStatus.NO_DATA
        ),
    )


def _log_status(result: PartitionResult, errors: Sequence[PartitionResult]) -> str:
    no_data = result.result.status is ConstraintStatus.NO_DATA
    return "failed" if result in errors and not no_data else str(result.result.status)


def _constraint_name(result: PartitionResult) -> str:
    return result.result.constraint.description


def is_error(checked: CheckedTable, result: PartitionResult) -> bool:
    """Return whether a result fails a check of level ``error``."""
    return result.result.failed and checked.verification.level_of(result) == Level.ERROR
