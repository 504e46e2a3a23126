"""What a job measured, put into a repository as the metrics of runs are."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from analyzers.description import canonical_json, key_of
from analyzers.griffin.results import RuleResult
from analyzers.incremental import WAIT_SECONDS
from analyzers.ledger import Measured, Measurement, RunSpec, RunStatus, RunStore
from analyzers.partitions import Partition, recognise_time
from analyzers.rules.verdicts import KeepsVerdicts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_NUMBERS = 1000
"""Numbers of one rule in one partition that become series: the first ones, as the rule orders its rows."""
SAMPLED = 10
"""Records of each rule that are kept with a run."""
_RECORD = "to_json(struct(*), map('ignoreNullFields', 'false')) AS record"


class Recorder(KeepsVerdicts, Protocol):
    """What is needed of a repository."""

    @property
    def store(self) -> RunStore:
        """Where runs leave what they measured."""

    def record(
        self,
        dataset: str,
        name: str,
        value: Mapping[Partition, float],
        *,
        instance: str = "*",
        segment: str = "",
    ) -> int:
        """Remember a number by partition."""


@dataclass(frozen=True)
class Kept:
    """What one round of a job measured.

    Attributes
    ----------
    dataset : str
    suite : str
        The job as canonical JSON.
    keys : tuple of str
        The partition columns.
    partitions : tuple of Partition
        Those that the round is about.
    tags : mapping
    schema : str
        Of the source that is measured, as canonical JSON.
    rows : mapping of Partition to int
        Rows of each partition.
    measurements : mapping of Partition to list of Measurement
    fingerprints : mapping of Partition to str
        Of the partitions that have one.
    samples : int
        Records of each rule to keep.
    """

    dataset: str
    suite: str
    keys: tuple[str, ...]
    partitions: tuple[Partition, ...]
    tags: Mapping[str, str]
    schema: str
    rows: Mapping[Partition, int]
    measurements: Mapping[Partition, list[Measurement]] = field(default_factory=dict)
    fingerprints: Mapping[Partition, str] = field(default_factory=dict)
    samples: int = SAMPLED


def keep(found: Kept, rules: Iterable[RuleResult], stateful: set[str], to: Recorder) -> int:
    """Store a round, and return the run's id.

    Parameters
    ----------
    found : Kept
    rules : iterable of RuleResult
    stateful : set of str
        The rules whose metrics are among the measurements; those of the others are recorded.
    to : Recorder
    """
    spec = RunSpec(found.dataset, None, found.keys, found.suite, "all", found.tags)
    rules = list(rules)
    failures = [f"{rule.name}: {rule.error}" for rule in rules if rule.error is not None]
    with to.store.hold(found.dataset, WAIT_SECONDS) as fence:
        run = to.store.open_run(spec, fence)
        try:
            measured = list(_measured(found))
            # The ledger comes last: of what it knows, nothing is measured again.
            for rule in rules:
                if rule.name not in stateful:
                    _record(found.dataset, rule, to)
            to.store.commit_batch(run, measured)
        except BaseException as error:
            to.store.close_run(run, RunStatus.FAILED, {}, f"{type(error).__name__}: {error}")
            raise
        counts = {"measured": len(measured), "skipped": 0, "failed": len(failures), "gone": 0}
        status = RunStatus.FAILED if failures else RunStatus.COMPLETE
        to.store.close_run(run, status, counts, "\n".join(failures) or None)
    return run


def _measured(found: Kept) -> Iterable[Measured]:
    for partition, rows in sorted(found.rows.items(), key=lambda item: item[0].name):
        time = recognise_time(partition.keys)
        yield Measured(
            partition=partition,
            time=time.time_of(partition) if time else None,
            fingerprint=found.fingerprints.get(partition),
            arrived_at=None,
            schema=found.schema,
            rows=rows,
            measurements=tuple(found.measurements.get(partition, ())),
            segment=time.segment_of(partition) if time else "",
        )


def _record(dataset: str, rule: RuleResult, to: Recorder) -> None:
    """Record the numbers of a rule that keeps no state."""
    numbers: dict[tuple[str, str], dict[Partition, float]] = defaultdict(dict)
    for partition, report in rule.reports.items():
        time = recognise_time(partition.keys)
        segment = time.segment_of(partition) if time else ""
        for column, value in islice(report.scalars(), MOST_NUMBERS):
            numbers[f"Griffin.{rule.name}.{column}", segment][partition] = value
    for (name, segment), values in numbers.items():
        to.record(dataset, name, values, instance=rule.source, segment=segment)


def keep_sample(found: Kept, rule: RuleResult, run: int, to: Recorder) -> None:
    """Keep some records of a rule, as the verdict on what was measured."""
    if not found.samples or rule.records is None or rule.error is not None:
        return
    sample = sampled(rule.records, found.samples)
    partitions = sorted(p.name for p in rule.reports or found.partitions)
    told = {"records": sample, "sampled": len(sample)}
    to.keep_verdict(
        found.dataset,
        name=f"Griffin.{rule.name}",
        specification=key_of(found.suite),
        fingerprint=key_of(canonical_json(partitions)),
        passed=not sample,
        partition=partitions[0] if len(partitions) == 1 else "",
        result=json.dumps(told, ensure_ascii=False, sort_keys=True),
        run=run,
    )


def sampled(records: DataFrame, most: int) -> list[dict[str, Any]]:
    """Return some records, as they are written in JSON."""
    return [json.loads(row.record) for row in records.limit(most).selectExpr(_RECORD).collect()]
