"""Repository overview: one row per dataset."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Any, cast

import sqlalchemy as sa

from tidegauge.analyzers.runs.ledger import FAILED_RUNS
from tidegauge.repository.detectors.registry import MISSING_PARTITION
from tidegauge.repository.history.tables import failed_analyzers
from tidegauge.repository.incidents.listing import incident_rows
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.database import MISSING, Database
from tidegauge.repository.store.frames import columns
from tidegauge.repository.store.labels import status_of, statuses
from tidegauge.repository.store.listing import retired_datasets
from tidegauge.repository.store.queries import Moment, Window, dataset_id
from tidegauge.repository.store.rows import OverviewRow
from tidegauge.repository.store.verdicts import failing_counts

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

OVERVIEW_COLUMNS = columns(
    "dataset partitions newest time:time measured_at:time series rows:integer errors warnings infos missing"
    " late run_id:integer status started_at:time failed failing failing_known"
)
SEVERITY_COLUMNS = {"errors": "error", "warnings": "warning", "infos": "info"}
_log = logging.getLogger(__name__)
_OF_NEWEST = ("partitions", "newest", "time", "measured_at", "rows")
_ARRIVALS = {"missing": MISSING_PARTITION, "late": "Late"}


def read_overview(
    database: Database, dataset: str | None = None, since: Moment = None
) -> list[OverviewRow]:
    """Return the overview as `overview_rows` does; log a warning if there is no database file yet."""
    with database.read() as connection:
        rows = overview_rows(connection, dataset, Window.between(since, None))
        if note := connection.info.get(MISSING):
            _log.warning("%s: it reads as empty until something is recorded", note)
    return rows


def overview_rows(
    connection: Connection, dataset: str | None = None, window: Window | None = None
) -> list[OverviewRow]:
    """Return each dataset's overview row, the worst first; of all, without those that are retired.

    The window limits incidents, arrivals and verdicts.
    """
    window = window or Window()
    d = s.dataset.c
    query = sa.select(d.id, d.name).order_by(d.name)
    if dataset is not None:
        query = query.where(d.id == dataset_id(connection, dataset))
    else:
        query = query.where(d.id.not_in(retired_datasets()))
    datasets = connection.execute(query).all()
    partitions, series = _partitions(connection), _series(connection)
    runs, failed = _runs(connection), _failed(connection)
    incidents = Counter(
        (row["dataset"], row["severity"])
        for row in incident_rows(connection, dataset, "open", window)
    )
    arrivals = _arrivals(connection, window)
    failing = _failing(connection, window)
    rows = [
        {
            "dataset": name,
            **partitions.get(of, {**dict.fromkeys(_OF_NEWEST), "partitions": 0}),
            "series": series.get(of, 0),
            **{column: incidents[name, severity] for column, severity in SEVERITY_COLUMNS.items()},
            **{column: arrivals[of, column] for column in _ARRIVALS},
            **runs.get(of, {"run_id": None, "status": None, "started_at": None}),
            "failed": failed.get(of, 0),
            **failing.get(of, {"failing": 0, "failing_known": 0}),
        }
        for of, name in datasets
    ]
    return sorted(cast("list[OverviewRow]", rows), key=_badness)


def _badness(row: OverviewRow) -> tuple[int, ...]:
    completed = row["status"] not in FAILED_RUNS
    counts = (-row["failing"], -row["warnings"], -row["infos"], -row["failed"])
    return (-row["errors"], completed, *counts)


def _partitions(connection: Connection) -> dict[int, dict[str, Any]]:
    """Return each dataset's partition count and newest partition, without deleted partitions."""
    p, v, g = s.partition.c, s.partition_version.c, s.absence.c
    newest = (
        sa.func.row_number()
        .over(partition_by=p.dataset_id, order_by=(p.time.is_(None), p.time.desc(), p.name.desc()))
        .label("place")
    )
    there = sa.select(g.partition_id).where(s.holds(s.absence))
    count = sa.func.count().over(partition_by=p.dataset_id).label("partitions")
    inner = (
        sa.select(p.dataset_id, p.id, p.name.label("newest"), p.time, newest, count)
        .where(p.id.not_in(there))
        .subquery()
    )
    n = inner.c
    query = (
        sa.select(n.dataset_id, n.partitions, n.newest, n.time, v.measured_at, v.rows)
        .select_from(inner)
        .outerjoin(s.partition_version, (v.partition_id == n.id) & s.holds(s.partition_version))
        .where(n.place == 1)
    )
    return {
        row.dataset_id: {name: getattr(row, name) for name in _OF_NEWEST}
        for row in connection.execute(query)
    }


def _series(connection: Connection) -> dict[int, int]:
    """Return the number of series with a newest value, by dataset id."""
    a = s.analyzer.c
    query = (
        sa.select(a.dataset_id, sa.func.count())
        .select_from(s.newest_metric)
        .join(s.series, s.series.c.id == s.newest_metric.c.series_id)
        .join(s.analyzer)
        .group_by(a.dataset_id)
    )
    return {of: count for of, count in connection.execute(query)}  # noqa: C416 - a row is no pair to mypy


def _runs(connection: Connection) -> dict[int, dict[str, Any]]:
    r = s.run.c
    last = sa.select(sa.func.max(r.id)).group_by(r.dataset_id)
    query = sa.select(r.dataset_id, r.id, r.status, r.started_at).where(r.id.in_(last))
    return {
        of: {"run_id": run, "status": status, "started_at": started}
        for of, run, status, started in connection.execute(query)
    }


def _failed(connection: Connection) -> dict[int, int]:
    """Return the number of analyzers that failed in their latest partition, by dataset id."""
    return {row.of: row.failed for row in connection.execute(sa.select(failed_analyzers()))}


def _failing(connection: Connection, window: Window) -> dict[int, dict[str, int]]:
    """Return the number of verdicts by which the current data fails, and of known ones, by dataset id."""
    query = sa.select(failing_counts(window.since))
    return {
        row.of: {"failing": row.failing, "failing_known": row.failing_known}
        for row in connection.execute(query)
    }


def _arrivals(connection: Connection, window: Window) -> Counter[tuple[int, str]]:
    """Count missing partitions, in gaps or overdue, and late ones, of which nothing was said yet."""
    f, p = s.finding.c, s.partition.c
    n = s.anomaly.c
    said = statuses(connection)
    found: Counter[tuple[int, str]] = Counter()
    for column, detector in _ARRIVALS.items():
        query = (
            sa.select(p.dataset_id, n.id, f.incident_id, f.value)
            .select_from(s.anomaly)
            .join(s.finding, (f.anomaly_id == n.id) & s.holds(s.finding))
            .join(s.partition, p.id == n.partition_id)
            .where(n.detector.startswith(f"{detector}(", autoescape=True), window.condition())
        )
        for of, anomaly, incident, value in connection.execute(query):
            if status_of(said, anomaly, incident) == "open":
                found[of, column] += int(value) if column == "missing" else 1
    return found
