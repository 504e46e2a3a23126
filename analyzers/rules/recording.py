"""What rules and fixes counted, put into a repository as a run's metrics are; no data is read again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from analyzers.description import canonical_json
from analyzers.incremental import WAIT_SECONDS, RunReport
from analyzers.ledger import (
    Known,
    Measured,
    Measurement,
    RunSpec,
    RunStatus,
    RunStore,
    differ,
)
from analyzers.metric import attempt
from analyzers.partitions import Partition, TimeFormat, recognise_time
from analyzers.rules.measures import AnyAnalyzer, analyzers_of
from analyzers.rules.parser_measures import parser_analyzers
from analyzers.rules.state import RecordCounts, Tally
from analyzers.rules.verdicts import Case, KeepsVerdicts, RepositoryVerdicts
from analyzers.scan import metric_of
from analyzers.schema import Schema

if TYPE_CHECKING:
    from analyzers.rules.applied import Applied
    from analyzers.rules.result import CheckResult
    from analyzers.segments import Values


class Recorder(KeepsVerdicts, Protocol):
    """What is needed of a repository."""

    @property
    def store(self) -> RunStore:
        """Where runs leave what they measured."""


def record(
    applied: Applied,
    repository: Recorder,
    dataset: str,
    case: Case | None = None,
    tags: Mapping[str, str] | None = None,
) -> RunReport:
    """Store the counts of each partition, and the verdicts.

    Parameters
    ----------
    applied : Applied
    repository : Repository
    dataset : str
    case : Case, optional
        By which the verdict on all of the data is kept; without one no verdict is kept. The partitions of a frame have none of their own:
        one that counts otherwise than last time is a new version.
    tags : mapping, optional
        Tags of the run.

    Returns
    -------
    RunReport
        With the id of the run. One in which something failed is closed as failed.

    Raises
    ------
    LeaseError
        If another run measures the dataset for an hour.
    """
    store = repository.store
    kept = {str(key): str(value) for key, value in (tags or {}).items()}
    fingerprint = None if case is None else case.fingerprint
    suite = canonical_json({"dataset": dataset, "dqm": applied.dqm.identity()})
    spec = RunSpec(dataset, None, applied.by, suite, "all", kept)
    with store.hold(dataset, WAIT_SECONDS) as fence:
        run = store.open_run(spec, fence)
        try:
            found = list(_measured(applied, fingerprint, store.ledger(dataset)))
            decisions = store.commit_batch(run, found)
            _keep_verdicts(applied, RepositoryVerdicts(repository, dataset), case, run)
        except BaseException as error:
            cut = isinstance(error, KeyboardInterrupt | SystemExit)
            status = RunStatus.INTERRUPTED if cut else RunStatus.FAILED
            store.close_run(run, status, {}, f"{type(error).__name__}: {error}")
            raise
        names = [one.partition.name for one in found]
        changes = dict(zip(names, (d.change for d in decisions), strict=True))
        report = RunReport(run, dataset, RunStatus.COMPLETE, changes)
        store.close_run(run, report.status, report.counts)
    return report


def _measured(
    applied: Applied, fingerprint: str | None, ledger: Mapping[str, Known]
) -> Iterator[Measured]:
    """Yield what was counted of each partition, as a scan would have found it."""
    tasks, by = applied.dqm.tasks, applied.by
    analyzers = analyzers_of(tasks)
    time = recognise_time(by)
    schema = Schema.of(applied.masked.kept.schema).without(set(by)).canonical()
    own = None if by else fingerprint
    for values, one in _groups(applied):
        partition = Partition(by, values)
        known = ledger.get(partition.name)
        same = known is not None and (own is None or not differ(own, known.fingerprint))
        segment = time.segment_of(partition) if time else ""
        yield Measured(
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
    """Return what was counted in each partition; where there are none, no data is one of zeros."""
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
    """Yield what the parser counted, where the data is one partition: a file's rejects lie in none."""
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
    """Yield the verdict on each partition; none if a policy looks at data, which would be read again."""
    dqm = applied.dqm
    if not applied.by or any(policy.needs_data for policy in dqm.policies):
        return
    for values, one in sorted(applied.tallies.items()):
        state = dqm.tasks.state(one.counts, {**applied.masked.failures, **one.failures})
        state.snapshot()
        yield Partition(applied.by, values).name, dqm.judge(state)
