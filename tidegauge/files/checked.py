"""Judge the checks of a suite file on a measured table, and keep the verdicts."""

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
from tidegauge.files.suite_files import CHECKS, SuiteFile
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
    run : Run
    verification : Verification
        On the partitions that were judged: those that are new or changed, or that failed before. Of
        a table without partitions, on the table.
    known : KnownFailures
        The failures that do not fail the run.
    """

    file: SuiteFile
    run: Run
    verification: Verification
    known: KnownFailures

    def place(self, one: PartitionResult) -> str:
        """Return the file and line of a result's constraint."""
        line = self.file.check_lines.get(one.result.constraint.identity)
        return f"{self.file.path}{f':{line}' if line else ''}"

    def heading(self) -> str:
        """Return how many constraints failed, in one line."""
        if not self.verification.judged:
            return f"{self.file.name}: nothing new to check; what was checked before passed"
        return f"{self.file.name}: {str(self.verification).splitlines()[0]}"

    def failures(self) -> Iterator[str]:
        """Yield a line for each failure, with its file and line; one for all partitions with the same message.

        Known failures come last.
        """
        found = self.verification
        alike: dict[tuple[bool, str, str, str], list[str]] = {}
        for one in found.judged:
            if not one.result.passed:
                told = one.result.sentence
                failure = (self.is_known(one), self.place(one), str(found.level_of(one)), told)
                alike.setdefault(failure, []).append(one.partition or one.dataset)
        for (is_known, place, level, told), partitions in sorted(
            alike.items(), key=lambda pair: pair[0][0]
        ):
            others = len(partitions) - 1
            more = f" and {plural(others, 'other partition')}" if others else ""
            known = "known " if is_known else ""
            yield f"  {place}: {known}{level}: {partitions[-1]}{more}: {told}"

    def failing_partitions(self) -> set[str]:
        """Return the partitions in which a check fails, known failures among them."""
        return {one.partition for one in self.verification.judged if is_error(self, one)}

    def is_known(self, one: PartitionResult) -> bool:
        """Return whether a result is a failure that does not fail the run."""
        return not one.result.passed and self.known.has_verdict(self.file.name, one.partition)

    def problem(self, one: PartitionResult) -> Problem | None:
        """Return the problem that a result is; None if it passed."""
        if one.result.passed:
            return None
        is_warning = not is_error(self, one)
        return Problem(Cause.CHECK, one.dataset, is_warning, self.is_known(one))

    def problems(self) -> Iterator[Problem]:
        """Yield the problems that the results are."""
        yield from filter(None, map(self.problem, self.verification.judged))

    def cases(self, gate: Gate) -> Iterator[JUnitCase]:
        """Yield a JUnit case for each constraint and partition; known failures are skipped."""
        for one in self.verification.judged:
            of, result = ".".join(filter(None, (one.dataset, one.partition))), one.result
            name, no_data = result.constraint.description, result.status is ConstraintStatus.NO_DATA
            problem = self.problem(one)
            if problem is not None and gate.judge(problem) is Outcome.FAILED:
                status = str(result.status) if no_data else ""
                yield JUnitCase(of, name, "failure", result.text, self.place(one), type=status)
            elif no_data or (problem is not None and problem.is_known):
                yield JUnitCase(of, name, "skipped", result.text, self.place(one))
            else:
                told = f"{result.status}: {result.message}" if result.message else ""
                yield JUnitCase(of, name, message=told)

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield each result as JSON values."""
        rows = self.verification.frame().to_json(orient="records", date_format="iso")
        for one, row in zip(self.verification.judged, json.loads(rows), strict=True):
            told = {"passed": one.result.passed, "known": self.is_known(one)}
            yield {"place": self.place(one), **row, **told}


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
    """Judge the partitions of a measured table that need it, and keep the verdicts.

    A partition that passed is judged again only if it, or the checks, changed; one that failed is
    judged each time, and so is one that passed without data only because ``--allow-empty`` was given
    and is not given now. Messages on partitions that were scanned name some bad values, by one more
    pass over these; later they are told again as they were kept.

    Parameters
    ----------
    file : SuiteFile
    run : Run
    source : Source
        The table.
    partitions : str or sequence of str
        What the run was asked to measure; other than ``new`` and ``all``, these are judged.
    tags : mapping of str to str, optional
        Tags of the run, by which tables may be private.
    """
    repository = run.repository
    told = [
        [str(check.level), c.identity, *filter(None, [c.on_empty or file.on_empty])]
        for check in file.checks
        for c in check.constraints
    ]
    specification = key_of(canonical_json(told))
    allowing = key_of(canonical_json([*told, "allow empty"]))
    prints = fingerprints(repository, run.dataset)
    if not prints:
        return _without_partitions(file, run, allowing if file.allow_empty else specification)
    close_without_partitions(repository, run.dataset, file.name)
    known = kept_verdicts(repository, run.dataset, file.name, specification)
    if file.allow_empty:
        known |= kept_verdicts(repository, run.dataset, file.name, allowing)
    accepted = {name for name, verdict in known.items() if verdict.is_accepted}
    passed = {name for name, verdict in known.items() if verdict.passed}
    chosen = chosen_by(partitions)
    if chosen is None:
        due = sorted(prints.keys() - (passed - run.changes.keys()) - accepted)
    else:
        due = sorted(name for name in prints.keys() - accepted if chosen(name))
    found: Sequence[PartitionResult] = ()
    if due:
        private = privacy_of(file.suite, source.name, {**file.suite.tags, **(tags or {})})
        stored = verify_stored(
            repository,
            file.checks,
            run.dataset,
            due,
            read=partial(_read, source),
            private=private,
        )
        found = _explained(stored, run, source, private)
    judged = _told_again(found, run, known)
    resolved = resolve_no_data(judged, file.on_empty, allow_empty=file.allow_empty)
    checked = CheckedTable(
        file, run, Verification(file.checks, resolved), KnownFailures(run.dataset)
    )
    by_partition: dict[str, list[PartitionResult]] = {}
    for one in checked.verification.judged:
        by_partition.setdefault(one.partition, []).append(one)
    for name, results in by_partition.items():
        verdict = _verdict(checked, results)
        allowed = file.allow_empty and verdict.no_data
        repository.keep_verdict(
            run.dataset,
            name=file.name,
            specification=allowing if allowed else specification,
            fingerprint=prints[name],
            passed=verdict.passed,
            result=verdict.to_json(),
            partition=name,
            run=run.id,
        )
    close_verdicts(repository, run.dataset, CHECKS, specification, file.name)
    return replace(checked, known=KnownFailures.of_run(run, partitions))


def _without_partitions(file: SuiteFile, run: Run, specification: str) -> CheckedTable:
    """Judge a table that has no partition: no constraint has data."""
    judged = [
        PartitionResult(check, place, run.dataset, "", None, "", _of_no_partition(constraint))
        for check, one in enumerate(file.checks)
        for place, constraint in enumerate(one.constraints)
    ]
    resolved = resolve_no_data(judged, file.on_empty, allow_empty=file.allow_empty)
    known = KnownFailures(run.dataset)
    checked = CheckedTable(file, run, Verification(file.checks, resolved), known)
    verdict = _verdict(checked, resolved)
    keep_without_partitions(
        run.repository, run.dataset, file.name, specification, verdict, run.report
    )
    return checked


def _of_no_partition(constraint: Constraint) -> ConstraintResult:
    return constraint.no_data(reason="the table has no partition")


def _read(source: Source, partition: str) -> DataFrame:
    """Return the data of one partition; of a table without keys, all of it."""
    return source.read([Partition.from_name(partition, source.keys)] if source.keys else None)


def _explained(
    judged: Sequence[PartitionResult], run: Run, source: Source, private: Privacy
) -> list[PartitionResult]:
    """Put bad values into the messages on partitions that the run scanned, by one more pass."""
    failed = {one.partition for one in judged if one.result.failed_by_value} & run.changes.keys()
    if not failed:
        return list(judged)
    partitions = [Partition.from_name(name, source.keys) for name in failed]
    data = source.read(partitions if source.keys else None)
    of = [one for one in judged if one.partition in failed]
    found = iter(with_examples(of, data, private, source))
    return [next(found) if one.partition in failed else one for one in judged]


def _told_again(
    judged: Sequence[PartitionResult], run: Run, known: Mapping[str, CheckResult]
) -> list[PartitionResult]:
    """Give results on partitions that were not scanned the messages that were kept.

    Comparisons were made anew, and of constraints with one description none is known to be the kept one.
    """
    found = []
    alike = Counter((one.partition, _named(one)) for one in judged)
    for one in judged:
        anew = one.partition in run.changes or isinstance(
            one.result.constraint, ComparisonConstraint
        )
        verdict = None if anew else known.get(one.partition)
        told = {} if verdict is None else dict(verdict.error_messages + verdict.warnings)
        alone = alike[one.partition, _named(one)] == 1
        no_data = one.result.status is ConstraintStatus.NO_DATA
        kept = told.get(_named(one)) if alone and not no_data else None
        if kept and not kept.startswith(one.result.message_start):
            kept = None  # kept by an older release, in other words
        result = replace(one.result, message=kept) if kept else one.result
        found.append(replace(one, result=result))
    return found


def _verdict(checked: CheckedTable, results: Sequence[PartitionResult]) -> CheckResult:
    """Return the verdict on one partition, which passes if it only warns."""
    errors = [one for one in results if is_error(checked, one)]
    warnings = [one for one in results if not one.result.passed and one not in errors]
    return CheckResult(
        passed=not errors,
        error_messages=tuple((_named(one), one.result.text) for one in errors),
        check_log=tuple(
            f"{_log_status(one, errors)}: {_named(one)}: {one.result.message}"
            for one in results
            if one.result.message
        ),
        outcomes=tuple((_named(one), one not in errors) for one in results),
        warnings=tuple((_named(one), one.result.text) for one in warnings),
        no_data=tuple(
            (_named(one), one.result.message)
            for one in results
            if one.result.status is ConstraintStatus.NO_DATA
        ),
    )


def _log_status(one: PartitionResult, errors: Sequence[PartitionResult]) -> str:
    no_data = one.result.status is ConstraintStatus.NO_DATA
    return "failed" if one in errors and not no_data else str(one.result.status)


def _named(one: PartitionResult) -> str:
    return one.result.constraint.description


def is_error(checked: CheckedTable, one: PartitionResult) -> bool:
    """Return whether a result fails a check of level ``error``."""
    return one.result.failed and checked.verification.level_of(one) == Level.ERROR
