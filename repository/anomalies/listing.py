"""Reading what was found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from repository import schema as s
from repository.history import AsOf, MetricQuery, Window, commit_as_of, dataset_id
from repository.labels import statuses

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

ANOMALY_COLUMNS = (
    "id",
    "dataset",
    "segment",
    "partition",
    "time",
    "name",
    "instance",
    "analyzer",
    "value",
    "expected",
    "lower",
    "upper",
    "direction",
    "score",
    "p_value",
    "detector",
    "severity",
    "status",
    "incident_id",
    "version",
    "explanation",
    "detected_at",
)


def anomaly_rows(
    connection: Connection,
    dataset: str | None,
    status: str | None,
    window: Window,
    as_of: AsOf = None,
) -> list[Mapping[str, Any]]:
    """Return anomalies of current versions, the highest score first.

    An anomaly has the status of its incident; without one, what its last label says.
    """
    commit = commit_as_of(connection, as_of)
    n, f, a, p = s.anomaly.c, s.finding.c, s.analyzer.c, s.partition.c
    named = {
        "dataset": s.dataset.c.name,
        "segment": a.segment,
        "partition": p.name,
        "time": p.time,
        "name": s.series.c.name,
        "instance": s.series.c.instance,
        "analyzer": a.text,
        "status": sa.func.coalesce(s.incident.c.status, "open"),
    }
    columns = [
        named.get(c, f.get(c, n.get(c))).label(c)  # type: ignore[union-attr]  # one of them has it
        for c in ANOMALY_COLUMNS
    ]
    query = (
        sa.select(*columns)
        .select_from(s.anomaly)
        .join(s.finding, (f.anomaly_id == n.id) & s.holds(s.finding, commit))
        .join(s.series)
        .join(s.analyzer)
        .join(s.dataset)
        .join(s.partition, p.id == n.partition_id)
        .join(s.metric, _same_point(n) & s.holds(s.metric, commit))
        .outerjoin(s.incident, s.incident.c.id == n.incident_id)
        .where(window.condition())
        .order_by(f.score.desc(), p.time, n.id)
    )
    if dataset is not None:
        query = query.where(a.dataset_id == dataset_id(connection, dataset))
    rows = [row._asdict() for row in connection.execute(query)]
    said = statuses(connection, commit)
    for row in rows:
        of = row["id"] if row["incident_id"] is None else row["incident_id"]
        row["status"] = said.get(of, row["status"])
    return [row for row in rows if status is None or row["status"] == status]


def _same_point(of: Any) -> sa.ColumnElement[bool]:
    """Return the condition that a metric is the point that something is of."""
    m = s.metric.c
    return sa.and_(
        m.partition_id == of.partition_id,
        m.series_id == of.series_id,
        m.version == of.version,
    )


SCORE_COLUMNS = (
    "dataset",
    "segment",
    "partition",
    "time",
    "name",
    "instance",
    "analyzer",
    "detector",
    "score",
    "p_value",
    "expected",
    "lower",
    "upper",
    "version",
)


def score_rows(
    connection: Connection, dataset: str, query: MetricQuery, as_of: AsOf = None
) -> list[Mapping[str, Any]]:
    """Return the last score of each point of current versions by each detector, in time's order."""
    commit = commit_as_of(connection, as_of)
    f, a, p = s.score.c, s.analyzer.c, s.partition.c
    key = (f.partition_id, f.series_id, f.version, f.detector)
    last = sa.select(*key, sa.func.max(f.commit_id).label("commit_id")).group_by(*key)
    if commit is not None:
        last = last.where(f.commit_id <= commit)
    newest = last.subquery()
    columns = (
        s.dataset.c.name.label("dataset"),
        a.segment,
        p.name.label("partition"),
        p.time,
        s.series.c.name,
        s.series.c.instance,
        a.text.label("analyzer"),
        *(f[c] for c in SCORE_COLUMNS[7:]),
    )
    select = (
        sa.select(*columns)
        .select_from(s.score)
        .join(newest, sa.and_(*(newest.c[c.name] == c for c in (*key, f.commit_id))))
        .join(s.series, s.series.c.id == f.series_id)
        .join(s.analyzer)
        .join(s.dataset)
        .join(s.partition, p.id == f.partition_id)
        .join(s.metric, _same_point(f) & s.holds(s.metric, commit))
        .where(
            a.dataset_id == dataset_id(connection, dataset),
            query.series_condition(),
            query.window.condition(),
        )
        .order_by(
            p.time.is_(None), p.time, p.name, s.series.c.name, s.series.c.instance, f.detector
        )
    )
    return [row._asdict() for row in connection.execute(select)]
