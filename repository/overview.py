"""What there is at a glance: a row for each dataset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from analyzers.display import Markup, Rows, heading, marked, note, table
from repository import schema as s
from repository.anomalies.listing import incident_rows
from repository.history import Window, dataset_id
from repository.labels import status_of, statuses

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

OVERVIEW_COLUMNS = (
    *("dataset", "partitions", "newest", "time", "series", "rows"),
    *("errors", "warnings", "infos", "missing", "late"),
    *("run_id", "status", "started_at", "failed"),
)
_SEVERITIES = {"errors": "error", "warnings": "warning", "infos": "info"}
_ARRIVALS = {"missing": "MissingPartition", "late": "Late"}

Row = Mapping[str, Any]


def overview_rows(
    connection: Connection, dataset: str | None = None, window: Window | None = None
) -> list[Row]:
    """Return what is known of each dataset, by name; what is open only as far as it overlaps a window."""
    window = window or Window()
    d = s.dataset.c
    query = sa.select(d.id, d.name).order_by(d.name)
    if dataset is not None:
        query = query.where(d.id == dataset_id(connection, dataset))
    datasets = connection.execute(query).all()
    partitions, series = _partitions(connection), _series(connection)
    runs, failed = _runs(connection), _failed(connection)
    incidents = Counter(
        (row["dataset"], row["severity"])
        for row in incident_rows(connection, dataset, "open", window)
    )
    arrivals = _arrivals(connection, window)
    return [
        {
            "dataset": name,
            **partitions.get(of, {"partitions": 0, "newest": None, "time": None, "rows": None}),
            "series": series.get(of, 0),
            **{column: incidents[name, severity] for column, severity in _SEVERITIES.items()},
            **{column: arrivals[of, column] for column in _ARRIVALS},
            **runs.get(of, {"run_id": None, "status": None, "started_at": None}),
            "failed": failed.get(of, 0),
        }
        for of, name in datasets
    ]


def _partitions(connection: Connection) -> dict[int, Row]:
    """Return how many partitions each dataset has, and the newest with its rows; those that are gone aside."""
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
        sa.select(n.dataset_id, n.partitions, n.newest, n.time, v.rows)
        .select_from(inner)
        .outerjoin(s.partition_version, (v.partition_id == n.id) & s.holds(s.partition_version))
        .where(n.place == 1)
    )
    return {
        of: {"partitions": count, "newest": name, "time": time, "rows": rows}
        for of, count, name, time, rows in connection.execute(query)
    }


def _series(connection: Connection) -> dict[int, int]:
    """Return how many series have a newest value, by dataset."""
    a = s.analyzer.c
    query = (
        sa.select(a.dataset_id, sa.func.count())
        .select_from(s.newest_metric)
        .join(s.series, s.series.c.id == s.newest_metric.c.series_id)
        .join(s.analyzer)
        .group_by(a.dataset_id)
    )
    return {of: count for of, count in connection.execute(query)}  # noqa: C416 - a row is no pair to mypy


def _runs(connection: Connection) -> dict[int, Row]:
    r = s.run.c
    last = sa.select(sa.func.max(r.id)).group_by(r.dataset_id)
    query = sa.select(r.dataset_id, r.id, r.status, r.started_at).where(r.id.in_(last))
    return {
        of: {"run_id": run, "status": status, "started_at": started}
        for of, run, status, started in connection.execute(query)
    }


def _failed(connection: Connection) -> dict[int, int]:
    """Return how many analyzers failed in the partition where each was measured last, by dataset."""
    a, n = s.analyzer.c, s.newest_metric.c
    query = (
        sa.select(a.dataset_id, sa.func.count(a.id.distinct()))
        .select_from(s.newest_metric)
        .join(s.series, s.series.c.id == n.series_id)
        .join(s.analyzer)
        .where(n.status == "failed")
        .group_by(a.dataset_id)
    )
    return {of: count for of, count in connection.execute(query)}  # noqa: C416


def _arrivals(connection: Connection, window: Window) -> Counter[tuple[int, str]]:
    """Count partitions behind gaps, overdue or late, of which nobody has settled it."""
    f, p = s.finding.c, s.partition.c
    n = s.anomaly.c
    said = statuses(connection)
    found: Counter[tuple[int, str]] = Counter()
    for column, detector in _ARRIVALS.items():
        query = (
            sa.select(p.dataset_id, n.id, f.incident_id)
            .select_from(s.anomaly)
            .join(s.finding, (f.anomaly_id == n.id) & s.holds(s.finding))
            .join(s.partition, p.id == n.partition_id)
            .where(n.detector.startswith(f"{detector}(", autoescape=True), window.condition())
        )
        for of, anomaly, incident in connection.execute(query):
            found[of, column] += status_of(said, anomaly, incident) == "open"
    return found


def overview_pieces(name: str, rows: list[Row], most: int, width: int) -> Iterator[Markup]:
    """Yield what a repository shows of itself."""
    yield heading("Repository", name)
    if not rows:
        yield note(
            "It is empty. tg.analyze(table, suite, repository=repo) measures a table into it."
        )
        return
    lines = Rows.of(([row["dataset"], *_told(row)] for row in rows), most, len(rows))
    yield table(
        ["dataset", "partitions", "newest", "rows", "series", "open incidents", "last run"],
        lines,
        width,
    )


def _told(row: Row) -> Iterator[Any]:
    yield from (row["partitions"], row["newest"], row["rows"], row["series"])
    told = [
        f"{row[column]} {marked(severity)}"
        for column, severity in _SEVERITIES.items()
        if row[column]
    ]
    yield Markup(", ".join(told)) if told else "none"
    yield marked(row["status"] or "")
