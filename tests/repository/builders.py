"""Measured partitions without Spark."""

import datetime as dt

from analyzers.catalogue import Completeness, Histogram, Mean, Size, Uniqueness
from analyzers.counts import NumMatches, NumMatchesAndCount
from analyzers.errors import NoSuchColumnError
from analyzers.frequencies import FrequenciesAndNumRows
from analyzers.ledger import Measured, Measurement, RunSpec
from analyzers.metric import Failure, Success
from analyzers.sums import SumAndCount
from analyzers.partitions import Partition

SIZE, COMPLETE, MEAN, UNIQUE = Size(), Completeness("x"), Mean("x"), Uniqueness("s")
HIST = Histogram("s")


def spec(dataset="d", source="db.t", **kwargs):
    return RunSpec(dataset, source, ("ds",), **kwargs)


def measurement(analyzer, state):
    if isinstance(state, Exception):
        return Measurement(analyzer, Failure(state), analyzer.to_failure_metric(state))
    return Measurement(analyzer, Success(state), analyzer.compute_metric_from(state))


def day(number, fingerprint="a", rows=10, groups=None, extra=(), only=None, total=None):
    """A partition of one day: rows, of which one less than all are complete."""
    date = dt.datetime(2013, 1, 1, tzinfo=dt.UTC) + dt.timedelta(days=number - 1)
    groups = {("a",): rows - 1, ("b",): 1} if groups is None else groups
    found = [
        measurement(SIZE, NumMatches(rows)),
        measurement(COMPLETE, NumMatchesAndCount(max(rows - 1, 0), rows)),
        measurement(
            MEAN,
            SumAndCount(float(rows * number) if total is None else total, rows)
            if rows
            else SumAndCount(),
        ),
        measurement(UNIQUE, FrequenciesAndNumRows.of(groups.items())),
        measurement(HIST, FrequenciesAndNumRows.of(groups.items())),
        measurement(Mean("nope"), NoSuchColumnError("nope", ["x", "s"])),
        *extra,
    ]
    return Measured(
        partition=Partition(("ds",), (date.strftime("%Y-%m-%d"),)),
        time=date,
        fingerprint=fingerprint,
        arrived_at=date + dt.timedelta(hours=26),
        schema='[["x","long"],["s","string"]]',
        rows=rows,
        measurements=tuple(m for m in found if only is None or m.analyzer in only),
    )
