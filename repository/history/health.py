"""Health of all tables, worst first: incidents, freshness, volume, completeness, checks and tags.

`table_rows` returns one row per table for the dashboard. `overview_rows` returns one row per dataset
for the overview of a repository, with counts of partitions, series, incidents and failures.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

import sqlalchemy as sa

from tidegauge.analyzers.runs.ledger import FAILED_RUNS
from tidegauge.repository.detectors.registry import MISSING_PARTITION
from tidegauge.repository.incidents.context import JOB_TAG, RUNBOOK_TAG
from tidegauge.repository.incidents.listing import incident_rows
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.database import MISSING_FILE_KEY, Database
from tidegauge.repository.store.labels import STATUS_OF, status_of, statuses
from tidegauge.repository.store.listing import retired_datasets, tags_of_datasets
from tidegauge.repository.store.queries import Moment, Window, dataset_id
from tidegauge.repository.store.rows import OverviewRow, TableRow
from tidegauge.repository.store.verdicts import failing_counts

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


HEALTH_LEVELS = (
    *("error", "failed run", "failed analyzers", "failing checks"),
    *("warning", "info", "not scored", "ok", "not measured"),
)
"""The worst level is first. The first level that applies is the health of a table.

A table that no detector has read is not known to be ok.
"""
OWNER_TAGS = ("owner", "team")
"""The first tag that a run sets names the owner."""


def table_rows(connection: Connection, now: datetime) -> list[TableRow]:
    """Return the health of each dataset that is not retired, the worst first.

    It takes two statements for any number of datasets.

    Open incidents are counted by severity, without snoozed incidents. ``failing`` is the number of
    checks that fail on current data, without known failures (``failing_known``, see
    `failing_verdicts`). ``rows`` and ``time`` describe the newest partition; ``previous`` is the
    time of the partition before it. ``size`` is the newest measured row count of the whole table;
    ``completeness`` is the mean and ``lowest`` the minimum over its columns.

    Parameters
    ----------
    connection : Connection
        Open connection to the repository.
    now : datetime
        Time at which incidents are snoozed or not.
    """
    tags = tags_of_datasets(connection)
    query = _health_query(now).where(s.dataset.c.id.not_in(retired_datasets()))
    rows = [_health_row(row._asdict(), tags) for row in connection.execute(query)]
    return sorted(rows, key=_health_order)


def open_incidents(connection: Connection, now: datetime) -> int:
    """Return the number of open incidents of all datasets, without incidents snoozed at ``now``."""
    counts = _open_incident_counts(now).c
    total = sa.select(sa.func.sum(counts.errors + counts.warnings + counts.infos))
    total = total.where(counts.dataset_id.not_in(retired_datasets()))
    return int(connection.execute(total).scalar() or 0)


def _health_row(columns: dict[str, Any], tags_of: Mapping[str, Mapping[str, str]]) -> TableRow:
    dataset_tags = tags_of.get(columns["dataset"], {})
    count_names = ("errors", "warnings", "infos", "snoozed", "failed", "failing", "failing_known")
    counts = {name: columns[name] or 0 for name in count_names}
    owner_tag = next((name for name in OWNER_TAGS if name in dataset_tags), None)
    owner = None if owner_tag is None else dataset_tags[owner_tag]
    tags = {
        key: value
        for key, value in dataset_tags.items()
        if key not in {owner_tag, RUNBOOK_TAG, JOB_TAG}
    }
    tag_list = ", ".join(f"{key}={value}" for key, value in sorted(tags.items()))
    row = {**columns, **counts, "owner": owner, "tags": tag_list or None}
    is_scored = row.pop("is_scored")
    return cast("TableRow", {**row, "health": _health(row, is_scored=bool(is_scored))})


def _health(row: Mapping[str, Any], *, is_scored: bool) -> str:
    applies = {
        "error": row["errors"],
        "failed run": row["run_status"] in FAILED_RUNS,
        "failed analyzers": row["failed"],
        "failing checks": row["failing"],
        "warning": row["warnings"],
        "info": row["infos"],
        "not scored": row["newest"] is not None and not is_scored,
        "ok": row["newest"] is not None,
    }
    return next((name for name in HEALTH_LEVELS if applies.get(name)), HEALTH_LEVELS[-1])


def _health_order(row: TableRow) -> tuple[Any, ...]:
    counts = (-row["errors"], -row["failing"], -row["warnings"], -row["infos"])
    return (HEALTH_LEVELS.index(row["health"]), *counts, row["dataset"])


def _health_query(now: datetime) -> sa.Select[Any]:
    d, p, v, r = s.dataset.c, s.partition.c, s.partition_version.c, s.run.c
    newest, run = _newest_partition(), _last_run()
    subqueries = (
        _open_incident_counts(now),
        failing_counts(),
        failed_analyzers(),
        _newest_metrics(),
    )
    earlier = s.partition.alias("before")
    previous = (
        sa.select(sa.func.max(earlier.c.time))
        .where(earlier.c.dataset_id == d.id, earlier.c.time < p.time)
        .correlate(s.dataset, s.partition)
        .scalar_subquery()
    )
    query = (
        sa.select(
            d.name.label("dataset"),
            p.name.label("newest"),
            p.time,
            previous.label("previous"),
            sa.func.coalesce(v.arrived_at, v.measured_at).label("arrived_at"),
            v.rows,
            r.id.label("run_id"),
            r.status.label("run_status"),
            r.started_at.label("run_started_at"),
            sa.exists()
            .where(s.scored.c.dataset_id == d.id)
            .correlate(s.dataset)
            .label("is_scored"),
            *(
                column
                for subquery in subqueries
                for column in subquery.c
                if column.name != "dataset_id"
            ),
        )
        .select_from(s.dataset)
        .outerjoin(s.partition, p.id == newest)
        .outerjoin(s.partition_version, (v.partition_id == p.id) & s.holds(s.partition_version))
        .outerjoin(s.run, r.id == run)
    )
    for subquery in subqueries:
        query = query.outerjoin(subquery, subquery.c.dataset_id == d.id)
    return query


def _newest_partition() -> sa.ColumnElement[Any]:
    """Return the id of a dataset's newest existing partition, by one lookup in an index."""
    p, absence = s.partition.alias("newest"), s.absence.alias("gone")
    missing = sa.exists().where(absence.c.partition_id == p.c.id, s.holds(absence))
    existing = sa.select(p.c.id).where(p.c.dataset_id == s.dataset.c.id, ~missing)
    timed = existing.where(p.c.time.is_not(None)).order_by(p.c.time.desc(), p.c.name.desc())
    timeless = existing.where(p.c.time.is_(None)).order_by(p.c.name.desc())
    newest = (query.correlate(s.dataset).limit(1).scalar_subquery() for query in (timed, timeless))
    return sa.func.coalesce(*newest)


def _last_run() -> sa.ScalarSelect[Any]:
    run = s.run.alias("last_run")
    query = sa.select(sa.func.max(run.c.id)).where(run.c.dataset_id == s.dataset.c.id)
    return query.correlate(s.dataset).scalar_subquery()


def _open_incident_counts(now: datetime) -> sa.Subquery:
    """Count by dataset the open incidents of each severity, and the snoozed incidents."""
    incident, version, label = s.incident.c, s.course.c, s.label.c
    status_labels = [name for name, status in STATUS_OF.items() if status is not None]

    def latest(column: Any, names: list[str]) -> Any:
        query = sa.select(column).where(label.incident_id == incident.id, label.label.in_(names))
        return query.order_by(label.id.desc()).limit(1).correlate(s.incident).scalar_subquery()

    is_open = sa.func.coalesce(latest(label.label, status_labels), "reopened") == "reopened"
    until = latest(label.until, ["snoozed", *status_labels])  # other labels have no end
    incidents = (
        sa.select(incident.dataset_id, version.severity, until.label("until"))
        .join_from(s.incident, s.course, (version.incident_id == incident.id) & s.holds(s.course))
        .where(is_open)
        .subquery()
    )
    is_snoozed = sa.func.coalesce(incidents.c.until > now, sa.false())
    severities = {"errors": "error", "warnings": "warning", "infos": "info"}
    counts = [
        _count_if((incidents.c.severity == severity) & ~is_snoozed).label(name)
        for name, severity in severities.items()
    ]
    return (
        sa.select(incidents.c.dataset_id, *counts, _count_if(is_snoozed).label("snoozed"))
        .group_by(incidents.c.dataset_id)
        .subquery()
    )


def failed_analyzers() -> sa.Subquery:
    """Count by dataset the analyzers that failed in their newest partition."""
    a, n = s.analyzer.c, s.newest_metric.c
    query = sa.select(
        a.dataset_id.label("dataset_id"), sa.func.count(a.id.distinct()).label("failed")
    )
    query = query.join_from(s.newest_metric, s.series, s.series.c.id == n.series_id).join(
        s.analyzer
    )
    return query.where(n.status == "failed").group_by(a.dataset_id).subquery()


def _newest_metrics() -> sa.Subquery:
    """Summarize the newest row count and completeness of whole tables by dataset."""
    a, e, n = s.analyzer.c, s.series.c, s.newest_metric.c
    size, complete = e.name == "Size", e.name == "Completeness"
    return (
        sa.select(
            a.dataset_id.label("dataset_id"),
            sa.func.max(sa.case((size, n.value))).label("size"),
            sa.func.max(sa.case((size, e.id))).label("size_series"),
            sa.func.avg(sa.case((complete, n.value))).label("completeness"),
            sa.func.min(sa.case((complete, n.value))).label("lowest"),
        )
        .join_from(s.newest_metric, s.series, e.id == n.series_id)
        .join(s.analyzer)
        .where(e.name.in_(["Size", "Completeness"]), a.segment == "", a.filter.is_(None))
        .group_by(a.dataset_id)
        .subquery()
    )


def _count_if(condition: Any) -> Any:
    return sa.func.sum(sa.case((condition, 1), else_=0))


SEVERITY_COLUMNS = {"errors": "error", "warnings": "warning", "infos": "info"}
_log = logging.getLogger(__name__)
_NEWEST_COLUMNS = ("partitions", "newest", "time", "measured_at", "rows")
_ARRIVAL_DETECTORS = {"missing": MISSING_PARTITION, "late": "Late"}


def read_overview(
    database: Database, dataset: str | None = None, since: Moment = None
) -> list[OverviewRow]:
    """Return the rows of `overview_rows`; log a warning if the database file does not exist yet.

    Parameters
    ----------
    database : Database
        Database of the repository.
    dataset : str, optional
        Name of the only dataset (default: all datasets).
    since : str, date, datetime, int, optional
        Earliest time of incidents, arrivals and verdicts.
    """
    with database.read() as connection:
        rows = overview_rows(connection, dataset, Window.between(since, None))
        if note := connection.info.get(MISSING_FILE_KEY):
            _log.warning("%s: the repository is empty until a run records metrics", note)
    return rows


def overview_rows(
    connection: Connection, dataset: str | None = None, window: Window | None = None
) -> list[OverviewRow]:
    """Return the overview row of each dataset, the worst first.

    Parameters
    ----------
    connection : Connection
        Open connection to the repository.
    dataset : str, optional
        Name of the only dataset (default: all datasets that are not retired).
    window : Window, optional
        Time window of incidents, arrivals and verdicts (default: all times).
    """
    window = window or Window()
    d = s.dataset.c
    query = sa.select(d.id, d.name).order_by(d.name)
    if dataset is not None:
        query = query.where(d.id == dataset_id(connection, dataset))
    else:
        query = query.where(d.id.not_in(retired_datasets()))
    datasets = connection.execute(query).all()
    partitions, series = _partition_overviews(connection), _series_counts(connection)
    runs, failed = _last_runs(connection), _failed_counts(connection)
    incidents = Counter(
        (row["dataset"], row["severity"])
        for row in incident_rows(connection, dataset, "open", window)
    )
    arrivals = _arrival_counts(connection, window)
    failing = _failing_counts(connection, window)
    rows = [
        {
            "dataset": name,
            **partitions.get(dataset_key, {**dict.fromkeys(_NEWEST_COLUMNS), "partitions": 0}),
            "series": series.get(dataset_key, 0),
            **{column: incidents[name, severity] for column, severity in SEVERITY_COLUMNS.items()},
            **{column: arrivals[dataset_key, column] for column in _ARRIVAL_DETECTORS},
            **runs.get(dataset_key, {"run_id": None, "status": None, "started_at": None}),
            "failed": failed.get(dataset_key, 0),
            **failing.get(dataset_key, {"failing": 0, "failing_known": 0}),
        }
        for dataset_key, name in datasets
    ]
    return sorted(cast("list[OverviewRow]", rows), key=_overview_order)


def _overview_order(row: OverviewRow) -> tuple[int, ...]:
    completed = row["status"] not in FAILED_RUNS
    counts = (-row["failing"], -row["warnings"], -row["infos"], -row["failed"])
    return (-row["errors"], completed, *counts)


def _partition_overviews(connection: Connection) -> dict[int, dict[str, Any]]:
    """Return each dataset's partition count and newest partition, without deleted partitions."""
    p, v, absence = s.partition.c, s.partition_version.c, s.absence.c
    rank = (
        sa.func.row_number()
        .over(partition_by=p.dataset_id, order_by=(p.time.is_(None), p.time.desc(), p.name.desc()))
        .label("rank")
    )
    deleted = sa.select(absence.partition_id).where(s.holds(s.absence))
    count = sa.func.count().over(partition_by=p.dataset_id).label("partitions")
    ranked = (
        sa.select(p.dataset_id, p.id, p.name.label("newest"), p.time, rank, count)
        .where(p.id.not_in(deleted))
        .subquery()
    )
    n = ranked.c
    query = (
        sa.select(n.dataset_id, n.partitions, n.newest, n.time, v.measured_at, v.rows)
        .select_from(ranked)
        .outerjoin(s.partition_version, (v.partition_id == n.id) & s.holds(s.partition_version))
        .where(n.rank == 1)
    )
    return {
        row.dataset_id: {name: getattr(row, name) for name in _NEWEST_COLUMNS}
        for row in connection.execute(query)
    }


def _series_counts(connection: Connection) -> dict[int, int]:
    """Return the number of series with a newest value, by dataset id."""
    a = s.analyzer.c
    query = (
        sa.select(a.dataset_id, sa.func.count())
        .select_from(s.newest_metric)
        .join(s.series, s.series.c.id == s.newest_metric.c.series_id)
        .join(s.analyzer)
        .group_by(a.dataset_id)
    )
    return {dataset_key: count for dataset_key, count in connection.execute(query)}  # noqa: C416 - a row is no pair to mypy


def _last_runs(connection: Connection) -> dict[int, dict[str, Any]]:
    r = s.run.c
    last_ids = sa.select(sa.func.max(r.id)).group_by(r.dataset_id)
    query = sa.select(r.dataset_id, r.id, r.status, r.started_at).where(r.id.in_(last_ids))
    return {
        dataset_key: {"run_id": run, "status": status, "started_at": started}
        for dataset_key, run, status, started in connection.execute(query)
    }


def _failed_counts(connection: Connection) -> dict[int, int]:
    """Return by dataset id the number of analyzers that failed in their newest partition."""
    return {row.dataset_id: row.failed for row in connection.execute(sa.select(failed_analyzers()))}


def _failing_counts(connection: Connection, window: Window) -> dict[int, dict[str, int]]:
    """Return by dataset id the numbers of new and known failed verdicts on current data."""
    query = sa.select(failing_counts(window.since))
    return {
        row.dataset_id: {"failing": row.failing, "failing_known": row.failing_known}
        for row in connection.execute(query)
    }


def _arrival_counts(connection: Connection, window: Window) -> Counter[tuple[int, str]]:
    """Count missing partitions (in gaps or overdue) and late partitions with an open anomaly."""
    f, p = s.finding.c, s.partition.c
    n = s.anomaly.c
    label_statuses = statuses(connection)
    counts: Counter[tuple[int, str]] = Counter()
    for column, detector in _ARRIVAL_DETECTORS.items():
        query = (
            sa.select(p.dataset_id, n.id, f.incident_id, f.value)
            .select_from(s.anomaly)
            .join(s.finding, (f.anomaly_id == n.id) & s.holds(s.finding))
            .join(s.partition, p.id == n.partition_id)
            .where(n.detector.startswith(f"{detector}(", autoescape=True), window.condition())
        )
        for dataset_key, anomaly, incident, value in connection.execute(query):
            if status_of(label_statuses, anomaly, incident) == "open":
                counts[dataset_key, column] += int(value) if column == "missing" else 1
    return counts
