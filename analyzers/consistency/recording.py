"""What comparisons found, put into a repository as a run's metrics are; no data is read again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from analyzers.consistency.comparison import Comparison
from analyzers.consistency.pairs import BUCKET, DATE
from analyzers.description import canonical_json, key_of
from analyzers.incremental import WAIT_SECONDS, RunReport
from analyzers.ledger import Known, Measured, Measurement, RunSpec, RunStatus, RunStore
from analyzers.partitions import Partition, TimeFormat, recognise_time
from analyzers.scan import Group, metric_of
from analyzers.schema import Schema

_HOURLY = ("%Y-%m-%d %H-%M", "%Y%m%d %H-%M")


class Recorder(Protocol):
    """What is needed of a repository."""

    @property
    def store(self) -> RunStore:
        """Where runs leave what they measured."""


def record(
    comparison: Comparison,
    repository: Recorder,
    dataset: str,
    *,
    source: str | None = None,
    fingerprints: Mapping[str, str] | None = None,
    tags: Mapping[str, str] | None = None,
    monitors: Sequence[Mapping[str, Any]] = (),
) -> RunReport:
    """Store the states and metrics of each bucket.

    The metrics are called ``Consistency.<metric>`` and are of ``<group_by>.<feature>``, those of rows of
    ``<group_by>``. A bucket that was measured before, on other data or with other states, is a new version.

    Parameters
    ----------
    comparison : Comparison
    repository : Repository
    dataset : str
        As in ``<namespace>.<join>``.
    source : str, optional
        The comparison table, where it is one.
    fingerprints : mapping of str to str, optional
        Of the data that partitions were measured on, by their names, as in ``ds=2023-01-05/hr_minute=07-00``.
    tags : mapping, optional
        Tags of the run.
    monitors : sequence of mapping
        What watches these metrics, as suite files say it; for `repository.detect`.

    Returns
    -------
    RunReport
        With the id of the run.

    Raises
    ------
    LeaseError
        If another run measures the dataset for an hour.
    """
    store, by = repository.store, comparison.by
    measures = sorted(measure.canonical() for measure in comparison.measures)
    told = {"dataset": dataset, "consistency": key_of(canonical_json(measures))}
    suite = canonical_json({**told, **({"monitors": list(monitors)} if monitors else {})})
    kept = {str(key): str(value) for key, value in (tags or {}).items()}
    spec = RunSpec(dataset, source, by, suite, "all", kept)
    with store.hold(dataset, WAIT_SECONDS) as fence:
        run = store.open_run(spec, fence)
        try:
            found = list(_measured(comparison, fingerprints or {}, store.ledger(dataset)))
            decisions = store.commit_batch(run, found)
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


def time_format(by: tuple[str, ...]) -> TimeFormat | None:
    """Return how the partitions of a comparison tell their time: by the date and the bucket's start.

    Examples
    --------
    >>> of = Partition(("ds", "hr_minute"), ("2023-01-05", "07-30"))
    >>> str(time_format(of.keys).time_of(of))
    '2023-01-05 07:30:00+00:00'
    """
    if {DATE, BUCKET} <= set(by):
        return TimeFormat((DATE, BUCKET), _HOURLY)
    return recognise_time(by)


def _measured(
    comparison: Comparison, fingerprints: Mapping[str, str], ledger: Mapping[str, Known]
) -> Iterator[Measured]:
    """Yield what was found in each bucket, as a scan would have found it."""
    by = comparison.by
    time = time_format(by)
    schema = Schema.of(comparison.table.schema).without(set(by)).canonical()
    for values, group in sorted(comparison.groups.items()):
        partition = Partition(by, values)
        fingerprint = fingerprints.get(partition.name)
        known = ledger.get(partition.name)
        same = known is not None and known.fingerprint == fingerprint
        segment = time.segment_of(partition) if time else ""
        yield Measured(
            partition=partition,
            time=time.time_of(partition) if time else None,
            fingerprint=fingerprint,
            arrived_at=None,
            schema=schema,
            rows=group.rows,
            measurements=tuple(_measurements(comparison, group, segment)),
            segment=segment,
            added_to=known.version if known is not None and same else None,
        )


def _measurements(comparison: Comparison, group: Group, segment: str) -> Iterator[Measurement]:
    for measure in comparison.measures:
        outcome: Any = group.states[measure]
        yield Measurement(measure, outcome, metric_of(measure, outcome), segment)
