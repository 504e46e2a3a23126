"""Record the counts of rules and fixes in a repository as a run's metrics, without rereading data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.analyzer import AnyAnalyzer
from tidegauge.analyzers.core.description import canonical_json
from tidegauge.analyzers.core.metric import attempt
from tidegauge.analyzers.core.partitions import Partition, TimeFormat, recognise_time
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.runs.ledger import (
    LedgerEntry,
    MeasuredPartition,
    Measurement,
    RunSpec,
    differ,
)
from tidegauge.analyzers.runs.recording import Recorder, RunReport, recording
from tidegauge.analyzers.runs.verdicts import Case
from tidegauge.analyzers.scan.scan import metric_of
from tidegauge.repository.repository import as_repository
from tidegauge.rules.measures import analyzers_of
from tidegauge.rules.outcome.verdicts import RepositoryVerdicts
from tidegauge.rules.parsing.measures import parser_analyzers
from tidegauge.rules.state import RecordCounts, Tally

if TYPE_CHECKING:
    from tidegauge.analyzers.core.segments import Values
    from tidegauge.rules.applied import Applied
    from tidegauge.rules.outcome.result import CheckResult


def as_recorder(given: Recorder | str | Path | None) -> Recorder | None:
    """Return a repository as it is; open one that is given by its URL or the path of a SQLite file."""
    return as_repository(given) if isinstance(given, str | Path) else given


def record(
    applied: Applied,
    repository: Recorder,
    dataset: str,
    case: Case | None = None,
    tags: Mapping[str, str] | None = None,
) -> RunReport:
    """Store the counts of each partition, and the verdicts, as a run.

    Parameters
    ----------
    applied : Applied
    repository : Repository
    dataset : str
    case : Case, optional
        Key of the verdict on all of the data; without one no verdict is stored. The partitions of a
        frame have no fingerprints of their own: a partition whose counts differ from the last run
        is a new version.
    tags : mapping, optional
        Tags of the run.

    Returns
    -------
    RunReport
        Report with the id of the run. A run that raises is closed as failed, or as interrupted.

    Raises
    ------
    LeaseError
        If another run holds the dataset's lease for an hour.
    """
    kept = {str(key): str(value) for key, value in (tags or {}).items()}
    fingerprint = None if case is None else case.fingerprint
    suite = canonical_json({"dataset": dataset, "dqm": applied.dqm.identity()})
    spec = RunSpec(dataset, None, applied.by, suite, "all", kept)
    with recording(repository.store, spec) as run:
        run.commit(list(_measured(applied, fingerprint, run.ledger())))
        _keep_verdicts(applied, RepositoryVerdicts(repository, dataset), case, run.run)
    return run.report


def _measured(
    applied: Applied, fingerprint: str | None, ledger: Mapping[str, LedgerEntry]
) -> Iterator[MeasuredPartition]:
    """Yield the counts of each partition in the form a scan produces."""
    tasks, by = applied.dqm.tasks, applied.by
    analyzers = analyzers_of(tasks)
    time = recognise_time(by)
    schema = Schema.from_spark(applied.masked.kept.schema).without(set(by)).canonical()
    own = None if by else fingerprint
    for values, one in _groups(applied):
        partition = Partition(by, values)
        known = ledger.get(partition.name)
        same = known is not None and (own is None or not differ(own, known.fingerprint))
        segment = time.segment_of(partition) if time else ""
        yield MeasuredPartition(
            partition=partition,
            time=_time(time, partition),
            fingerprint=own,
            arrived_at=None,
            schema=schema,
            rows=tasks.of(one.counts)["records", ""],
            measurements=(*_measurements(analyzers, one, segment), *_of_parser(applied)),
            segment=segment,
            added_to=known.version if known is not None and same else None,
        )


def _time(time: TimeFormat | None, partition: Partition) -> Any:
    return time.time_of(partition) if time else None


def _groups(applied: Applied) -> list[tuple[Values, Tally]]:
    """Return the counts by partition; unpartitioned empty data is one group of zeros."""
    if not applied.by and not applied.tallies:
        return [((), Tally(RecordCounts()))]
    return sorted(applied.tallies.items())


def _measurements(
    analyzers: list[AnyAnalyzer], found: Tally, segment: str
) -> Iterator[Measurement]:
    for one in analyzers:
        outcome = attempt(partial(one.fold, [found]))
        yield Measurement(one, outcome, metric_of(one, outcome), segment)


def _of_parser(applied: Applied) -> Iterator[Measurement]:
    """Yield the parser's measurements; none for partitioned data, as rejects have no partition."""
    if applied.parsed is None or applied.by:
        return
    for one in parser_analyzers(applied.parsed):
        outcome = attempt(partial(one.fold, [applied.parsed]))
        yield Measurement(one, outcome, metric_of(one, outcome))


def _keep_verdicts(
    applied: Applied, verdicts: RepositoryVerdicts, case: Case | None, run: int
) -> None:
    if case is None:
        return
    verdicts.keep(case, applied.check, run)
    dqm = applied.dqm
    for partition, verdict in _verdicts(applied):
        of = Case(dqm.name, dqm.specification, case.fingerprint, partition)
        verdicts.keep(of, verdict, run)


def _verdicts(applied: Applied) -> Iterator[tuple[str, CheckResult]]:
    """Yield the verdict on each partition; none if a policy needs the data itself."""
    dqm = applied.dqm
    if not applied.by or any(policy.needs_data for policy in dqm.policies):
        return
    for values, one in sorted(applied.tallies.items()):
        state = dqm.tasks.state(one.counts, {**applied.masked.failures, **one.failures})
        state.snapshot()
        yield Partition(applied.by, values).name, dqm.judge(state)
