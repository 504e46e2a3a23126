"""A repository of wide tables over a year, for the dashboard benchmarks: facts, scores, incidents."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa

import tidegauge as tg
from tidegauge.analyzers.core.errors import MetricRuntimeError
from tidegauge.analyzers.core.metric import Failure, Metric, Success
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.analyzers.runs.ledger import MeasuredPartition, Measurement, RunSpec, RunStatus
from tidegauge.repository.store import schema
from tidegauge.repository.store.scorebook import BLOCK_SERIES

FIRST_DAY = dt.datetime(2013, 1, 1, tzinfo=dt.UTC)
DATASET_NAMES = ("orders", "payments", "customers", "shipments", "events")
ANALYZER_TYPES = (tg.Completeness, tg.ApproxCountDistinct, tg.Mean, tg.StandardDeviation, tg.Sum)
NO_STATE = Failure(MetricRuntimeError("made without a state"))
MEASURED_TABLES = 5
"""Number of tables that are measured and scored, which takes a while; all others are copies of their rows."""
_COPIED_TABLES = (
    "dataset",
    "statistic",
    "analyzer",
    "series",
    "run",
    "partition",
    "anomaly",
    "incident",
)
"""Tables whose ids differ in each copy; copies share commits, schemas and sets of analyzers."""
_SHARED_TABLES = (
    "clock",
    "commit",
    "lease",
    "table_schema",
    "analyzer_set",
    "input_set",
    "named_state",
)


def values_of(series: int, days: int, seed: int) -> np.ndarray:
    """Return positive numbers with a weekly season, noise and, in one of ten series, one bad stretch."""
    draw = np.random.default_rng(seed)
    level = draw.uniform(3, 12, (series, 1))
    week = draw.normal(0, 0.2, (series, 7))[:, np.arange(days) % 7]
    values = np.exp(level + week + draw.normal(0, 0.04, (series, days)))
    for bad in draw.choice(series, series // 10, replace=False):
        start = int(draw.integers(days // 3, days))
        values[bad, start : start + int(draw.integers(1, 4))] *= draw.choice([0.3, 0.6, 1.8])
    ratios = np.arange(series) % len(ANALYZER_TYPES) == 0
    values[ratios] = 1 - values[ratios] / values[ratios].max(axis=1, keepdims=True) * 0.2
    return values


def batches(
    series: int, days: int, seed: int, size: int = 5, first_day: dt.datetime = FIRST_DAY
) -> Iterator[list[MeasuredPartition]]:
    """Yield the measured days of one table in batches."""
    values = values_of(series, days, seed)
    analyzers = [
        ANALYZER_TYPES[i % len(ANALYZER_TYPES)](f"column_{i // len(ANALYZER_TYPES):05}")
        for i in range(series)
    ]
    shapes = [a.compute_metric_from(None) for a in analyzers]
    for first in range(0, days, size):
        batch = []
        for day in range(first, min(days, first + size)):
            time = first_day + dt.timedelta(days=day)
            measured = tuple(
                Measurement(a, NO_STATE, Metric(m.entity, m.instance, m.name, Success(value)))
                for a, m, value in zip(analyzers, shapes, values[:, day].tolist(), strict=True)
            )
            name = Partition(("ds",), (f"{time:%Y-%m-%d}",))
            batch.append(MeasuredPartition(name, time, "f", time, "[]", 1000, measured))
        yield batch


def make(
    url: str,
    series: int,
    days: int,
    artifacts: str | None = None,
    datasets: Sequence[str] = DATASET_NAMES,
) -> None:
    """Fill a database with tables that have the given number of series in total, and detect anomalies."""
    each = series // len(datasets)
    with tg.Repository(url, artifacts=artifacts) as repo:
        for seed, dataset in enumerate(datasets[:MEASURED_TABLES]):
            run = repo.store.open_run(RunSpec(dataset, f"warehouse.{dataset}", ("ds",)))
            for batch in batches(each, days, seed):
                repo.store.commit_batch(run, batch)
            repo.store.close_run(run, RunStatus.COMPLETE, {"measured": days})
            repo.detect(dataset)
        copy(repo, datasets)


def copy(repo: tg.Repository, datasets: Sequence[str]) -> None:
    """Fill the tables after the first `MEASURED_TABLES`, a multiple of it, with copies of their rows and new ids."""
    tables = [item for item in schema.metadata.sorted_tables if item.name not in _SHARED_TABLES]
    with repo.database.engine.begin() as connection:
        newest = (
            sa.select(sa.func.max(schema.metadata.tables[name].c.id)) for name in _COPIED_TABLES
        )
        max_id = max(connection.execute(item).scalar() or 0 for item in newest)
        step = BLOCK_SERIES * (
            max_id // BLOCK_SERIES + 1
        )  # the scores of 256 consecutive ids are in one block
        for first in range(MEASURED_TABLES, len(datasets), MEASURED_TABLES):
            shift = step * (first // MEASURED_TABLES)
            names = dict(zip(datasets, datasets[first : first + MEASURED_TABLES], strict=False))
            for table in tables:
                key = next(column for column in table.c if _is_own(column))
                query = sa.select(*(_shifted(column, shift, names) for column in table.c))
                query = query.where(key <= max_id)
                connection.execute(sa.insert(table).from_select(list(table.c), query))
        connection.execute(sa.update(schema.clock).values(findings=step * len(datasets)))


def _is_own(column: sa.Column[Any]) -> bool:
    """Return whether a column contains ids that differ in each copy."""
    return column.name == "id" or column.name.endswith(
        tuple(f"{name}_id" for name in _COPIED_TABLES)
    )


def _shifted(column: sa.Column[Any], shift: int, names: Mapping[str, str]) -> Any:
    """Return the SQL expression of a column in a copy."""
    if _is_own(column):
        return column + shift
    if column.name == "block":
        return column + shift // BLOCK_SERIES
    return sa.case(names, value=column) if column is schema.dataset.c.name else column
