"""Queries for anomalies, scores and incidents."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import sqlalchemy as sa

from tidegauge.analyzers.core.errors import HistoryError
from tidegauge.repository.detectors.registry import MISSING_PARTITION
from tidegauge.repository.incidents.anomaly import missing_span, partition_name_at
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.bulk import fetch_columns
from tidegauge.repository.store.dimensions import Watched
from tidegauge.repository.store.labels import check_status, last_labelled, status_of, statuses
from tidegauge.repository.store.queries import (
    AsOf,
    MetricQuery,
    Window,
    commit_as_of,
    dataset_id,
    select_list,
)
from tidegauge.repository.store.rows import AnomalyRow, IncidentRow, ScoreRow

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from sqlalchemy.engine import Connection


def anomaly_rows(
    connection: Connection,
    dataset: str | None,
    status: str | None,
    query: MetricQuery,
    as_of: AsOf = None,
    incident: int | None = None,
    anomaly: int | None = None,
) -> list[AnomalyRow]:
    """Return anomalies of current versions, the highest score first.

    An anomaly has its incident's status, or its own last label's if that is newer.
    """
    check_status(status)
    commit = commit_as_of(connection, as_of)
    n, f, a, p = s.anomaly.c, s.finding.c, s.analyzer.c, s.partition.c
    column_by_name = {
        "dataset": s.dataset.c.name,
        "segment": a.segment,
        "partition": p.name,
        "time": p.time,
        "name": s.series.c.name,
        "instance": s.series.c.instance,
        "analyzer": a.text,
        "status": sa.literal("open"),
    }
    columns = select_list(
        AnomalyRow.__annotations__, column_by_name, s.finding, s.anomaly, s.analyzer
    )
    select = (
        sa.select(*columns)
        .select_from(s.anomaly)
        .join(s.finding, (f.anomaly_id == n.id) & s.holds(s.finding, commit))
        .join(s.series)
        .join(s.analyzer)
        .join(s.dataset)
        .join(s.partition, p.id == n.partition_id)
        .outerjoin(s.metric, _same_point(n) & s.holds(s.metric, commit))
        .where(_is_current(), query.window.condition(), query.series_condition())
        .order_by(f.score.desc(), p.time, n.id)
    )
    if dataset is not None:
        select = select.where(a.dataset_id == dataset_id(connection, dataset))
    if incident is not None:
        select = select.where(f.incident_id == dataset_of(connection, incident)[1])
    if anomaly is not None:
        select = select.where(n.id == index(anomaly))
    rows = cast("list[AnomalyRow]", [row._asdict() for row in connection.execute(select)])
    label_statuses = statuses(connection, commit)
    for row in rows:
        row["status"] = status_of(label_statuses, row["id"], row["incident_id"])
    return [row for row in rows if status is None or row["status"] == status]


def has_anomalies(connection: Connection, dataset: str) -> bool:
    """Return whether a dataset has anomalies, possibly of superseded versions."""
    n, p = s.anomaly.c, s.partition.c
    query = (
        sa.select(n.id)
        .join_from(s.anomaly, s.partition, p.id == n.partition_id)
        .join(s.finding, (s.finding.c.anomaly_id == n.id) & s.holds(s.finding))
        .where(p.dataset_id == dataset_id(connection, dataset))
        .limit(1)
    )
    return connection.execute(query).first() is not None


class AnomalousPoints(NamedTuple):
    """Points of current versions with anomalies, each once.

    Attributes
    ----------
    series, partition : array of int
        Ids of series and partition.
    score : array of float
        Highest score of the point's anomalies; 0 if none has one.
    """

    series: NDArray[np.int64]
    partition: NDArray[np.int64]
    score: NDArray[np.float64]


def anomalous_points(connection: Connection, commit: int | None = None) -> AnomalousPoints:
    """Return the points of current versions with anomalies."""
    import numpy as np

    n = s.anomaly.c
    select = (
        sa.select(n.series_id, n.partition_id, sa.func.max(s.finding.c.score))
        .join_from(s.anomaly, s.finding, s.finding.c.anomaly_id == n.id)
        .outerjoin(s.metric, _same_point(n) & s.holds(s.metric, commit))
        .join(s.series, s.series.c.id == n.series_id)
        .join(s.analyzer)
        .where(s.holds(s.finding, commit), _is_current())
        .group_by(n.series_id, n.partition_id)
    )
    series, partition, score = fetch_columns(connection, select)
    scores = np.nan_to_num(np.array(score, np.float64), nan=0.0)  # None is NaN
    return AnomalousPoints(np.array(series, np.int64), np.array(partition, np.int64), scores)


def _is_current() -> sa.ColumnElement[bool]:
    """Return a condition that an anomaly's point, outer-joined to its metric, is current."""
    return s.metric.c.series_id.is_not(None) | (s.analyzer.c.kind == Watched.__name__)


def dataset_of(connection: Connection, incident: int) -> tuple[str, int]:
    """Return an incident's dataset, and its id as an int.

    Raises
    ------
    HistoryError
        If the incident does not exist.
    """
    i, d = s.incident.c, s.dataset.c
    number = index(incident)
    query = sa.select(d.name).join_from(s.incident, s.dataset, d.id == i.dataset_id)
    name = connection.execute(query.where(i.id == number)).scalar_one_or_none()
    if name is None:
        msg = f"incident {incident!r} does not exist; repo.incidents() lists the ids"
        raise HistoryError(msg)
    return str(name), number


def _same_point(point: Any) -> sa.ColumnElement[bool]:
    """Return the condition that joins a metric to the point of an anomaly."""
    m = s.metric.c
    return sa.and_(
        m.partition_id == point.partition_id,
        m.series_id == point.series_id,
        m.version == point.version,
    )


def score_rows(
    connection: Connection, dataset: str, query: MetricQuery, as_of: AsOf = None
) -> list[ScoreRow]:
    """Return each current point's latest score by each detector, in order of time.

    Detectors of whole partitions score series of their own, which have no metrics. These are returned only
    if the query names them.
    """
    import numpy as np

    from tidegauge.repository.detectors.base import Reason
    from tidegauge.repository.store.facts import read_facts
    from tidegauge.repository.store.scorebook import SCORE_COLUMNS, detectors, read

    commit = commit_as_of(connection, as_of)
    dataset_key = dataset_id(connection, dataset)
    facts = read_facts(connection, dataset, query, as_of)
    order = {row["id"]: n for n, row in enumerate(facts.partitions)}
    series = {row["id"]: n for n, row in enumerate(facts.series)}
    measured = {
        (facts.partitions[p]["id"], facts.series[i]["id"], v)
        for p, i, v in zip(
            facts.of_partition.tolist(),
            facts.of_series.tolist(),
            facts.version.tolist(),
            strict=True,
        )
    }
    watched = {key[1] for key in measured}
    by_name = query.name is not None
    keyed_rows: list[tuple[int, int, str, ScoreRow]] = []
    for detector in detectors(connection, dataset_key):
        detector_series = {
            row["id"] for row in facts.series if by_name and row["analyzer"] == detector
        }
        partitions = sorted(order if detector_series else {key[0] for key in measured})
        requested = sorted(watched | detector_series)
        points = read(connection, dataset_key, detector, partitions, commit, requested)
        points = points.take(np.flatnonzero(np.isin(points.series, requested)))
        p_values = points.p_value
        ids = zip(
            points.partition.tolist(), points.series.tolist(), points.version.tolist(), strict=True
        )
        for k, key in enumerate(ids):
            if key not in measured and key[1] not in detector_series:
                continue
            series_row, partition = facts.series[series[key[1]]], facts.partitions[order[key[0]]]
            row = {
                "dataset": dataset,
                **{name: series_row[name] for name in ("segment", "name", "instance", "analyzer")},
                **{name: partition[name] for name in ("partition", "time")},
                "detector": detector,
                "p_value": p_values[k],
                **{name: float(getattr(points, name)[k]) for name in SCORE_COLUMNS},
                "reason": Reason(int(points.reason[k])).name.lower(),
                "version": key[2],
            }
            keyed_rows.append((order[key[0]], series[key[1]], detector, cast("ScoreRow", row)))
    return [row for *_, row in sorted(keyed_rows, key=lambda x: x[:3])]


def incident_rows(
    connection: Connection,
    dataset: str | None,
    status: str | None,
    window: Window,
    as_of: AsOf = None,
) -> list[IncidentRow]:
    """Return incidents whose partitions overlap a time window, the newest first.

    ``since`` and ``until`` are the times of the first and last partition. ``opened_at`` is the time of the
    detection that found the incident, and ``updated_at`` the time of its last detection or label.
    `grouped_incident_rows` adds ``group``.
    """
    check_status(status)
    commit = commit_as_of(connection, as_of)
    i, c = s.incident.c, s.course.c
    first, last = s.partition.alias("first"), s.partition.alias("last")
    begins, ends = first.c.time, last.c.time
    query = (
        sa.select(
            i.id,
            s.dataset.c.name.label("dataset"),
            c.headline,
            c.severity,
            first.c.name.label("first"),
            last.c.name.label("last"),
            c.series,
            sa.literal("open").label("status"),
            s.commit.c.committed_at.label("updated_at"),
            begins.label("since"),
            ends.label("until"),
            i.opened_at,
        )
        .select_from(s.incident)
        .join(s.course, (c.incident_id == i.id) & s.holds(s.course, commit))
        .join(s.dataset, s.dataset.c.id == i.dataset_id)
        .join(first, first.c.id == c.first_partition_id)
        .join(last, last.c.id == c.last_partition_id)
        .join(s.commit, s.commit.c.id == c.commit_id)
        .order_by(begins.is_(None), begins.desc(), i.id.desc())
    )
    if dataset is not None:
        query = query.where(i.dataset_id == dataset_id(connection, dataset))
    if window.since is not None:
        query = query.where(ends >= window.since)
    if window.until is not None:
        query = query.where(begins <= window.until)
    label_statuses = statuses(connection, commit)
    labelled = last_labelled(connection, commit)
    rows = cast("list[IncidentRow]", [row._asdict() for row in connection.execute(query)])
    _show_missing_partitions(connection, rows, commit)
    for row in rows:
        row["status"] = status_of(label_statuses, None, row["id"])
        row["updated_at"] = max(row["updated_at"], labelled.get(row["id"], row["updated_at"]))
    return [row for row in rows if status is None or row["status"] == status]


def _show_missing_partitions(
    connection: Connection, rows: Sequence[IncidentRow], commit: int | None
) -> None:
    """Replace the partitions of incidents that contain only missing partitions by the missing ones.

    Such incidents are stored with the partition at which they were found: the next one or the newest.
    Incidents whose missing partitions have no known names are left unchanged.
    """
    f, n, e, p = s.finding.c, s.anomaly.c, s.series.c, s.partition.c
    missing, other = e.name == MISSING_PARTITION, s.finding.alias("other")
    members = sa.select(sa.func.count()).where(
        other.c.incident_id == f.incident_id, s.holds(other, commit)
    )
    query = (
        sa.select(f.incident_id, f.explanation, p.name, p.time)
        .join_from(s.finding, s.anomaly, n.id == f.anomaly_id)
        .join(s.series, e.id == n.series_id)
        .join(s.partition, p.id == n.partition_id)
        .where(missing, p.time.is_not(None), s.holds(s.finding, commit))
        .where(members.correlate(s.finding).scalar_subquery() == 1)
    )
    gaps = {row.incident_id: row for row in connection.execute(query)}
    for row in rows:
        gap = gaps.get(row["id"])
        span = None if gap is None else missing_span(gap.explanation)
        if gap is None or span is None:
            continue
        times = span.first, span.last(gap.time)
        names = [partition_name_at(time, gap.name, gap.time) for time in times]
        if all(names):
            row["first"], row["last"] = (str(name) for name in names)
            row["since"], row["until"] = times
