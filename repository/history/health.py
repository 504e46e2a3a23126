"""Health of all tables: open incidents, freshness, volume, completeness, checks and tags, worst first.

`table_rows` has one row per table for the dashboard; `overview_rows` has one row per dataset for the
overview of a repository, with counts of partitions, series, incidents and failures.
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
from tidegauge.repository.store.database import MISSING, Database
from tidegauge.repository.store.labels import STATUS_OF, status_of, statuses
from tidegauge.repository.store.listing import retired_datasets, tags_of_datasets
from tidegauge.repository.store.queries import Moment, Window, dataset_id
from tidegauge.repository.store.rows import OverviewRow, TableRow
from tidegauge.repository.store.verdicts import failing_counts

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


HEALTH = (
    *("error", "failed run", "failed analyzers", "failing checks"),
    *("warning", "info", "ok", "not measured"),
)
"""Health of a table, the worst first; the first that applies counts."""
OWNERS = ("owner", "team")
"""Tags of runs that name the owner, the first that is set."""


def table_rows(connection: Connection, now: datetime) -> list[TableRow]:
    """Return the health of each dataset that is not retired, the worst first.

    It takes two statements, however many datasets there are.

    Open incidents are counted by severity, without those that are snoozed at ``now``. ``failing``
    is the number of checks by which current data fails, without known failures (``failing_known``,
    see `failing_verdicts`). ``rows`` and ``time`` are of the newest
    partition, ``previous`` is the time of the one before. ``size`` is the newest row count that was
    measured, ``completeness`` the mean and ``lowest`` the minimum over the columns of the whole table.
    """
    tags = tags_of_datasets(connection)
    query = _health_query(now).where(s.dataset.c.id.not_in(retired_datasets()))
    rows = [_health_row(found._asdict(), tags) for found in connection.execute(query)]
    return sorted(rows, key=_health_order)


def open_incidents(connection: Connection, now: datetime) -> int:
    """Return the number of open incidents of all datasets, without those that are snoozed."""
    counts = _incidents(now).c
    total = sa.select(sa.func.sum(counts.errors + counts.warnings + counts.infos))
    total = total.where(counts.of.not_in(retired_datasets()))
    return int(connection.execute(total).scalar() or 0)


def _health_row(found: dict[str, Any], tags_of: Mapping[str, Mapping[str, str]]) -> TableRow:
    own = tags_of.get(found["dataset"], {})
    counted = ("errors", "warnings", "infos", "snoozed", "failed", "failing", "failing_known")
    counts = {name: found[name] or 0 for name in counted}
    named = next((name for name in OWNERS if name in own), None)
    owner = None if named is None else own[named]
    tags = {key: value for key, value in own.items() if key not in {named, RUNBOOK_TAG, JOB_TAG}}
    told = ", ".join(f"{key}={value}" for key, value in sorted(tags.items()))
    row = {**found, **counts, "owner": owner, "tags": told or None}
    return cast("TableRow", {**row, "health": _health(row)})


def _health(row: Mapping[str, Any]) -> str:
    applies = {
        "error": row["errors"],
        "failed run": row["run_status"] in FAILED_RUNS,
        "failed analyzers": row["failed"],
        "failing checks": row["failing"],
        "warning": row["warnings"],
        "info": row["infos"],
        "ok": row["newest"] is not None,
    }
    return next((name for name in HEALTH if applies.get(name)), HEALTH[-1])


def _health_order(row: TableRow) -> tuple[Any, ...]:
    counts = (-row["errors"], -row["failing"], -row["warnings"], -row["infos"])
    return (HEALTH.index(row["health"]), *counts, row["dataset"])


def _health_query(now: datetime) -> sa.Select[Any]:
    d, p, v, r = s.dataset.c, s.partition.c, s.partition_version.c, s.run.c
    newest, run = _newest_partition(), _last_run()
    counted = (_incidents(now), failing_counts(), failed_analyzers(), _metrics())
    before = s.partition.alias("before")
    previous = (
        sa.select(sa.func.max(before.c.time))
        .where(before.c.dataset_id == d.id, before.c.time < p.time)
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
            *(column for of in counted for column in of.c if column.name != "of"),
        )
        .select_from(s.dataset)
        .outerjoin(s.partition, p.id == newest)
        .outerjoin(s.partition_version, (v.partition_id == p.id) & s.holds(s.partition_version))
        .outerjoin(s.run, r.id == run)
    )
    for of in counted:
        query = query.outerjoin(of, of.c.of == d.id)
    return query


def _newest_partition() -> sa.ColumnElement[Any]:
    """Return the id of a dataset's newest partition that exists; one lookup in an index."""
    p, gone = s.partition.alias("newest"), s.absence.alias("gone")
    missing = sa.exists().where(gone.c.partition_id == p.c.id, s.holds(gone))
    there = sa.select(p.c.id).where(p.c.dataset_id == s.dataset.c.id, ~missing)
    timed = there.where(p.c.time.is_not(None)).order_by(p.c.time.desc(), p.c.name.desc())
    timeless = there.where(p.c.time.is_(None)).order_by(p.c.name.desc())
    first = (query.correlate(s.dataset).limit(1).scalar_subquery() for query in (timed, timeless))
    return sa.func.coalesce(*first)


def _last_run() -> sa.ScalarSelect[Any]:
    run = s.run.alias("last_run")
    query = sa.select(sa.func.max(run.c.id)).where(run.c.dataset_id == s.dataset.c.id)
    return query.correlate(s.dataset).scalar_subquery()


def _incidents(now: datetime) -> sa.Subquery:
    """Count open incidents by dataset and severity, and those that are snoozed."""
    i, c, b = s.incident.c, s.course.c, s.label.c
    telling = [label for label, status in STATUS_OF.items() if status is not None]

    def last(column: Any, labels: list[str]) -> Any:
        query = sa.select(column).where(b.incident_id == i.id, b.label.in_(labels))
        return query.order_by(b.id.desc()).limit(1).correlate(s.incident).scalar_subquery()

    still = sa.func.coalesce(last(b.label, telling), "reopened") == "reopened"
    until = last(b.until, ["snoozed", *telling])  # other labels have no end
    told = (
        sa.select(i.dataset_id.label("of"), c.severity, until.label("until"))
        .join_from(s.incident, s.course, (c.incident_id == i.id) & s.holds(s.course))
        .where(still)
        .subquery()
    )
    asleep = sa.func.coalesce(told.c.until > now, sa.false())
    of_severity = {"errors": "error", "warnings": "warning", "infos": "info"}
    counts = [
        _count((told.c.severity == severity) & ~asleep).label(name)
        for name, severity in of_severity.items()
    ]
    return (
        sa.select(told.c.of, *counts, _count(asleep).label("snoozed"))
        .group_by(told.c.of)
        .subquery()
    )


def failed_analyzers() -> sa.Subquery:
    """Count by dataset the analyzers that failed in their newest partition."""
    a, n = s.analyzer.c, s.newest_metric.c
    query = sa.select(a.dataset_id.label("of"), sa.func.count(a.id.distinct()).label("failed"))
    query = query.join_from(s.newest_metric, s.series, s.series.c.id == n.series_id).join(
        s.analyzer
    )
    return query.where(n.status == "failed").group_by(a.dataset_id).subquery()


def _metrics() -> sa.Subquery:
    """Summarise the newest row count and completeness of whole tables by dataset."""
    a, e, n = s.analyzer.c, s.series.c, s.newest_metric.c
    size, complete = e.name == "Size", e.name == "Completeness"
    return (
        sa.select(
            a.dataset_id.label("of"),
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


def _count(condition: Any) -> Any:
    return sa.func.sum(sa.case((condition, 1), else_=0))


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
    return sorted(cast("list[OverviewRow]", rows), key=_overview_order)


def _overview_order(row: OverviewRow) -> tuple[int, ...]:
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
