"""Reading what was found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from repository import schema as s
from repository.history import MetricQuery, Window, dataset_id, versions_at

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
    connection: Connection, dataset: str | None, status: str | None, window: Window
) -> list[Mapping[str, Any]]:
    """Return anomalies of current versions, the highest score first.

    An anomaly has the status of its incident; without one it is open.
    """
    f, a, p = s.anomaly.c, s.analyzer.c, s.partition.c
    state = sa.func.coalesce(s.incident.c.status, "open").label("status")
    named = {
        "dataset": s.dataset.c.name,
        "segment": a.segment,
        "partition": p.name,
        "time": p.time,
        "name": s.series.c.name,
        "instance": s.series.c.instance,
        "analyzer": a.text,
    }
    columns = [
        state if c == "status" else (named[c] if c in named else f[c]).label(c)
        for c in ANOMALY_COLUMNS
    ]
    current = versions_at(None)
    query = (
        sa.select(*columns)
        .select_from(s.anomaly)
        .join(s.series)
        .join(s.analyzer)
        .join(s.dataset)
        .join(s.partition, p.id == f.partition_id)
        .join(
            current, (current.c.partition_id == f.partition_id) & (current.c.version == f.version)
        )
        .outerjoin(s.incident, s.incident.c.id == f.incident_id)
        .where(f.withdrawn_commit_id.is_(None), window.condition())
        .order_by(f.score.desc(), p.time, f.id)
    )
    if dataset is not None:
        query = query.where(a.dataset_id == dataset_id(connection, dataset))
    if status is not None:
        query = query.where(state == status)
    return [row._asdict() for row in connection.execute(query)]


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


def score_rows(connection: Connection, dataset: str, query: MetricQuery) -> list[Mapping[str, Any]]:
    """Return the last score of each point of current versions by each detector, in time's order."""
    f, a, p = s.score.c, s.analyzer.c, s.partition.c
    key = (f.series_id, f.partition_id, f.version, f.detector)
    last = sa.select(*key, sa.func.max(f.commit_id).label("commit_id")).group_by(*key).subquery()
    current = versions_at(None)
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
        .join(last, sa.and_(*(last.c[c.name] == c for c in (*key, f.commit_id))))
        .join(s.series, s.series.c.id == f.series_id)
        .join(s.analyzer)
        .join(s.dataset)
        .join(s.partition, p.id == f.partition_id)
        .join(
            current, (current.c.partition_id == f.partition_id) & (current.c.version == f.version)
        )
        .where(a.dataset_id == dataset_id(connection, dataset), query.condition())
        .order_by(
            p.time.is_(None), p.time, p.name, s.series.c.name, s.series.c.instance, f.detector
        )
    )
    return [row._asdict() for row in connection.execute(select)]
