"""Recording of comparisons in a repository, as a run's metrics, without reading data again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tidegauge.analyzers.core.description import canonical_json, key_of
from tidegauge.analyzers.core.partitions import Partition, TimeFormat, recognise_time
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.runs.ledger import LedgerEntry, MeasuredPartition, Measurement, RunSpec
from tidegauge.analyzers.runs.recording import Recorder, RunReport, recording
from tidegauge.analyzers.scan.scan import Group, metric_of
from tidegauge.consistency.compare.alignment import BUCKET, DATE
from tidegauge.consistency.compare.comparison import ALL, Comparison
from tidegauge.consistency.configuration import OF_LOG
from tidegauge.consistency.log.decoding import DayCounts

_HOURLY = ("%Y-%m-%d %H-%M", "%Y%m%d %H-%M")


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

    Metrics are named ``Consistency.<metric>``, on the instance ``<group_by>.<feature>``, or
    ``<group_by>`` for row metrics. A bucket that was measured before with other states gets a
    new version.

    Parameters
    ----------
    comparison : Comparison
    repository : Repository
    dataset : str
        For example ``<namespace>.<join>``.
    source : str, optional
        The comparison table, if it is stored.
    fingerprints : mapping of str to str, optional
        Data fingerprints by partition name, as in ``ds=2023-01-05/hr_minute=07-00``.
    tags : mapping, optional
        Tags of the run.
    monitors : sequence of mapping
        Monitors of these metrics, in the form of suite files; for `repository.detect`.

    Returns
    -------
    RunReport
        With the id of the run.

    Raises
    ------
    LeaseError
        If another run holds the dataset's lease for an hour.

    Examples
    --------
    >>> import tidegauge as tg
    >>> spark = tg.spark_session()  # doctest: +SKIP
    >>> sql = "SELECT 7 AS user, timestamp '2023-01-05 07:30:00' AS ts, {} AS age"
    >>> logged, offline = spark.sql(sql.format(30)), spark.sql(sql.format(31))  # doctest: +SKIP
    >>> found = tg.consistency.compare(logged, offline, keys="user")  # doctest: +SKIP
    >>> with tg.Repository("sqlite://") as repo:  # doctest: +SKIP
    ...     report = tg.consistency.record(found, repo, "shop.search")
    ...     repo.metrics("shop.search", "Consistency.mismatch")["value"].tolist()
    [1.0]
    """
    by = comparison.by
    measures = sorted(measure.canonical() for measure in comparison.measures)
    told = {"dataset": dataset, "consistency": key_of(canonical_json(measures))}
    suite = canonical_json({**told, **({"monitors": list(monitors)} if monitors else {})})
    kept = {str(key): str(value) for key, value in (tags or {}).items()}
    spec = RunSpec(dataset, source, by, suite, "all", kept)
    with recording(repository.store, spec) as run:
        run.commit(list(_measured(comparison, fingerprints or {}, run.ledger())))
    return run.report


def record_log(days: Sequence[DayCounts], repository: Recorder, dataset: str) -> int:
    """Store how many queries of a log were read, by day, and return how many values were new.

    ``QueryLog.read`` and ``QueryLog.empty`` count queries, and ``QueryLog.unreadable`` those that
    could not be decoded, in all (instance ``*``) and by reason; ``QueryLog.unreadable_share`` is
    their share, 0 without any queries.

    Parameters
    ----------
    days : sequence of DayCounts
        Days without a name are left out.
    repository : Repository
    dataset : str
    """
    found: dict[tuple[str, str], dict[Partition, float]] = {}
    reasons = sorted({reason for day in days for reason in day.bad})
    for day in days:
        if day.ds is None:
            continue
        bad = sum(day.bad.values())
        values = {
            ("read", ALL): day.read,
            ("empty", ALL): day.empty,
            ("unreadable", ALL): bad,
            ("unreadable_share", ALL): bad / day.rows if day.rows else 0.0,
            **{("unreadable", reason): day.bad.get(reason, 0) for reason in reasons},
        }
        for key, value in values.items():
            found.setdefault(key, {})[Partition((DATE,), (day.ds,))] = float(value)
    return sum(
        repository.record(dataset, f"{OF_LOG}{name}", values, instance=instance)
        for (name, instance), values in found.items()
    )


def is_of_log(monitor: Mapping[str, Any]) -> bool:
    """Return whether a monitor watches metrics of a query log, and not of a comparison."""
    return str(dict(monitor.get("series", {})).get("name", "")).startswith(OF_LOG)


def time_format(by: tuple[str, ...]) -> TimeFormat | None:
    """Return the time format of a comparison's partitions: date and bucket start.

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
    comparison: Comparison, fingerprints: Mapping[str, str], ledger: Mapping[str, LedgerEntry]
) -> Iterator[MeasuredPartition]:
    """Yield the measurements of each bucket, in the form of a scan."""
    by = comparison.by
    time = time_format(by)
    schema = Schema.from_spark(comparison.table.schema).without(set(by)).canonical()
    groups = sorted(comparison.groups.items())
    for values, group in groups:
        partition = Partition(by, values)
        fingerprint = fingerprints.get(partition.name)
        segment = time.segment_of(partition) if time else ""
        measurements = tuple(_measurements(comparison, group, segment))
        known = ledger.get(partition.name)
        same = known is not None and known.fingerprint == fingerprint
        yield MeasuredPartition(
            partition=partition,
            time=time.time_of(partition) if time else None,
            fingerprint=fingerprint,
            arrived_at=None,
            schema=schema,
            rows=group.rows,
            measurements=measurements,
            segment=segment,
            added_to=known.version if known is not None and same else None,
        )


def _measurements(comparison: Comparison, group: Group, segment: str) -> Iterator[Measurement]:
    for measure in comparison.measures:
        outcome: Any = group.states[measure]
        yield Measurement(measure, outcome, metric_of(measure, outcome), segment)
