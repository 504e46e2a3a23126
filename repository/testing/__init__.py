"""Sample measurements of daily partitions, made without Spark, for examples and tests."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from tidegauge.analyzers.core.analyzer import AnyAnalyzer
from tidegauge.analyzers.core.errors import (
    NoSuchColumnError,
)
from tidegauge.analyzers.core.metric import Failure, Success
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.analyzers.core.state import State
from tidegauge.analyzers.measures.counts import Completeness, NumMatches, NumMatchesAndCount, Size
from tidegauge.analyzers.measures.frequencies import FrequenciesAndNumRows, Uniqueness
from tidegauge.analyzers.measures.histogram import Histogram
from tidegauge.analyzers.measures.moments import Mean, SumAndCount
from tidegauge.analyzers.runs.ledger import (
    Change,
    MeasuredPartition,
    Measurement,
    RunSpec,
    RunStatus,
)

SIZE, COMPLETE, MEAN, UNIQUE = Size(), Completeness("x"), Mean("x"), Uniqueness(("s",))
HIST = Histogram("s")


def spec(dataset: str = "d", source: str | None = "db.t", **options: Any) -> RunSpec:
    """Return the specification of a run on a dataset with daily partitions."""
    return RunSpec(dataset, source, ("ds",), **options)


def measurement(analyzer: AnyAnalyzer, state: State | Exception) -> Measurement:
    """Return an analyzer's measurement: a state, or the failure for an exception."""
    if isinstance(state, Exception):
        failed = analyzer.to_failure_metric(state)
        assert isinstance(failed.outcome, Failure)
        return Measurement(analyzer, failed.outcome, failed)
    return Measurement(analyzer, Success(state), analyzer.compute_metric_from(state))


def day(
    number: int,
    fingerprint: str | None = "a",
    rows: int = 10,
    groups: Mapping[tuple[Any, ...], int] | None = None,
    extra: Iterable[Measurement] = (),
    only: Collection[AnyAnalyzer] | None = None,
    total: float | None = None,
    kind: str = "string",
) -> MeasuredPartition:
    """Return a measured partition of one day in 2013, with one incomplete row.

    Parameters
    ----------
    number : int
        The day of the year.
    fingerprint : str or None
    rows : int
    groups : mapping, optional
        Number of rows by value of ``s``; if not given, all but one ``a``, one ``b``.
    extra : iterable of Measurement
        Measurements in addition to the default ones.
    only : collection of Analyzer, optional
        The analyzers to keep; all if not given.
    total : float, optional
        The sum of ``x``, for the mean; ``rows * number`` if not given.
    kind : str
        The type of ``s``, as Spark names it.
    """
    date = dt.datetime(2013, 1, 1, tzinfo=dt.UTC) + dt.timedelta(days=number - 1)
    if groups is None:
        groups = {("a",): rows - 1, ("b",): 1} if rows else {}
    summed = float(rows * number) if total is None else total
    measurements = [
        measurement(SIZE, NumMatches(rows)),
        measurement(COMPLETE, NumMatchesAndCount(max(rows - 1, 0), rows)),
        measurement(MEAN, SumAndCount(summed, rows) if rows else SumAndCount()),
        measurement(UNIQUE, FrequenciesAndNumRows.from_groups(groups.items())),
        measurement(HIST, FrequenciesAndNumRows.from_groups(groups.items())),
        measurement(Mean("nope"), NoSuchColumnError("nope", ["x", "s"])),
        *extra,
    ]
    return MeasuredPartition(
        partition=Partition(("ds",), (date.strftime("%Y-%m-%d"),)),
        time=date,
        fingerprint=fingerprint,
        arrived_at=date + dt.timedelta(hours=26),
        schema=f'[["x","long"],["s","{kind}"]]',
        rows=rows,
        measurements=tuple(m for m in measurements if only is None or m.analyzer in only),
    )


def commit(repository: Any, *partitions: MeasuredPartition, **options: Any) -> int:
    """Store measured partitions in a new run and return its id."""
    run = repository.store.open_run(spec(**options))
    repository.store.commit_batch(run, partitions)
    repository.store.close_run(run, RunStatus.COMPLETE, {"measured": len(partitions)})
    return int(run)


def judged(repository: Any, fingerprint: str = "a", **options: Any) -> int:
    """Store a verdict of check ``c`` (default: passed) and return its id."""
    values = {"name": "c", "specification": "s", "passed": True, "result": "{}", **options}
    dataset = values.pop("dataset", "d")
    return int(repository.keep_verdict(dataset, fingerprint=fingerprint, **values))


def changes(repository: Any, run: int, *partitions: MeasuredPartition) -> list[Change]:
    """Store measured partitions and return the change of each."""
    return [decision.change for decision in repository.store.commit_batch(run, partitions)]


def values(repository: Any, name: str, **options: Any) -> list[float]:
    """Return the values of a metric in order, including NaN."""
    numbers: list[float] = repository.metrics("d", name=name, **options)["value"].tolist()
    return numbers
