"""Record the results of a job in a repository, as the metrics of runs."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.description import canonical_json, key_of
from tidegauge.analyzers.core.partitions import Partition, recognise_time
from tidegauge.analyzers.core.privacy import PUBLIC, Privacy
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.sql import quote
from tidegauge.analyzers.runs.ledger import MeasuredPartition, Measurement, RunSpec
from tidegauge.analyzers.runs.recording import Recorder, recording
from tidegauge.griffin.measures.report import Report
from tidegauge.griffin.results import RuleResult
from tidegauge.repository.store.config import privacy_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_NUMBERS = 1000
"""Maximum number of values of a rule in a partition that become series: the first, in row order."""
SAMPLED = 10
"""Default number of sample records of each rule stored with a run."""
_RECORD = "to_json(struct(*), map('ignoreNullFields', 'false')) AS record"


@dataclass(frozen=True)
class RoundRecord:
    """Results of one round of a job, to be stored.

    Attributes
    ----------
    dataset : str
    suite : str
        The job as canonical JSON.
    keys : tuple of str
        The partition columns.
    partitions : tuple of Partition
        The partitions of the round.
    tags : mapping
    schema : str
        Schema of the measured source, as canonical JSON.
    rows : mapping of Partition to int
        Number of rows of each partition.
    measurements : mapping of Partition to list of Measurement
    fingerprints : mapping of Partition to str
        Fingerprints of the partitions that have one.
    samples : int
        Number of sample records of each rule.
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


def keep(
    found: RoundRecord,
    rules: Iterable[RuleResult],
    stateful: set[str],
    to: Recorder,
    attempt: Callable[..., None],
) -> int:
    """Store the results of a round as a run, and return the run's id.

    Parameters
    ----------
    found : RoundRecord
    rules : iterable of RuleResult
    stateful : set of str
        Rules whose metrics are among the measurements; the metrics of the others are recorded as
        values.
    to : Recorder
    attempt : callable
        Given a name, a function and its arguments, it notes what fails: without a sample of a rule
        the others are stored.
    """
    spec = RunSpec(found.dataset, None, found.keys, found.suite, "all", found.tags)
    rules = list(rules)
    with recording(to.store, spec) as run:
        run.errors += [f"{rule.name}: {rule.error}" for rule in rules if rule.error is not None]
        # The ledger comes last: what it knows is not measured again.
        taken: dict[str, str] = {}
        for rule in rules:
            if rule.name not in stateful:
                _record(found.dataset, rule, to, taken)
        for rule in rules:
            attempt(f"samples of {rule.name}", _keep_sample, found, rule, run.run, to)
        run.commit(list(_measured(found)))
    return run.run


def _measured(found: RoundRecord) -> Iterable[MeasuredPartition]:
    for partition, rows in sorted(found.rows.items(), key=lambda item: item[0].name):
        time = recognise_time(partition.keys)
        yield MeasuredPartition(
            partition=partition,
            time=time.time_of(partition) if time else None,
            fingerprint=found.fingerprints.get(partition),
            arrived_at=None,
            schema=found.schema,
            rows=rows,
            measurements=tuple(found.measurements.get(partition, ())),
            segment=time.segment_of(partition) if time else "",
        )


def unrecorded(rule: RuleResult) -> list[str]:
    """Return a notice if a rule without a state has more numbers in a partition than are recorded."""
    most = max((sum(1 for _ in one.scalars()) for one in rule.reports.values()), default=0)
    if most <= MOST_NUMBERS:
        return []
    return [f"of {most:,} numbers of a partition the first {MOST_NUMBERS:,} by name are recorded"]


def _record(dataset: str, rule: RuleResult, to: Recorder, taken: dict[str, str]) -> None:
    """Record the values of a rule that keeps no state, under names that no other rule has.

    Parameters
    ----------
    taken : dict of str to str
        The rule of each name; names are added.
    """
    numbers: dict[tuple[str, str], dict[Partition, float]] = defaultdict(dict)
    for partition, report in rule.reports.items():
        time = recognise_time(partition.keys)
        segment = time.segment_of(partition) if time else ""
        for column, value in _first(report):
            name = f"Griffin.{rule.name}.{column}"
            while taken.setdefault(name, rule.name) != rule.name:
                name += "_2"  # a rule ``a`` with a number ``b.c``, and a rule ``a.b`` with a number ``c``
            numbers[name, segment][partition] = value
    for (name, segment), values in numbers.items():
        to.record(dataset, name, values, instance=rule.source, segment=segment)


def _first(report: Report) -> list[tuple[str, float]]:
    """Return a report's numbers; if there are too many, the first by name, which the next run has, too."""
    found = list(report.scalars())
    return found if len(found) <= MOST_NUMBERS else sorted(found)[:MOST_NUMBERS]


def _keep_sample(found: RoundRecord, rule: RuleResult, run: int, to: Recorder) -> None:
    """Store sample records of a rule, as a verdict on the measured partitions."""
    if not found.samples or rule.records is None or rule.error is not None:
        return
    private = privacy_settings().of(found.dataset, tags=found.tags)
    sample = sampled(rule.records, found.samples, private)
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


def sampled(records: DataFrame, most: int, private: Privacy = PUBLIC) -> list[dict[str, Any]]:
    """Return up to ``most`` records as JSON objects, without the private columns."""
    hidden = private.holders_of(Schema.from_frame(records))
    kept = [quote(name) for name in records.columns if name.casefold() not in hidden]
    records = records.selectExpr(*kept) if len(kept) < len(records.columns) else records
    return [json.loads(row.record) for row in records.limit(most).selectExpr(_RECORD).collect()]
