"""The anomaly record that grouping and headlines work on, and how it is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import sqlalchemy as sa

from tidegauge.repository.store import schema as s

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


@dataclass(frozen=True)
class Anomaly:
    """An anomaly, with the fields that grouping and headlines need.

    Attributes
    ----------
    id : int
    series : int
    place : int
        Position of its partition in its partition segment, in order of time.
    partition : int
        The partition's id.
    within : str
        Partition segment: the segment that the partition's non-time keys form.
    time : datetime or None
    name, instance, filter, segment : str
        Of its series.
    scale, severity, direction : str
    value, expected : float or None
    score : float
    incident : int or None
        Its last incident.
    commit : int
        The commit of the detection that found it as it is.
    """

    id: int
    series: int
    place: int
    partition: int
    partition_name: str
    within: str
    time: datetime | None
    name: str
    instance: str
    filter: str
    segment: str
    scale: str
    severity: str
    direction: str
    value: float | None
    expected: float | None
    score: float
    explanation: str
    incident: int | None
    commit: int = 0


def read_anomalies(
    connection: Connection,
    condition: sa.ColumnElement[bool],
    places: Mapping[int, int],
    commit: int | None = None,
) -> list[Anomaly]:
    """Return the anomalies that stand now, or stood after a commit, in the order of their ids.

    Parameters
    ----------
    connection : Connection
    condition : ColumnElement
        On the tables ``finding`` and ``partition``.
    places : mapping of int to int
        Positions of partitions by id; 0 for others, whose order is then unknown.
    commit : int, optional
    """
    n, f, e, a, p = s.anomaly.c, s.finding.c, s.series.c, s.analyzer.c, s.partition.c
    query = (
        sa.select(
            n.id,
            n.series_id,
            n.partition_id,
            p.name.label("partition_name"),
            p.segment.label("within"),
            p.time,
            e.name,
            e.instance,
            a.filter,
            a.segment,
            e.scale,
            f.severity,
            f.direction,
            f.value,
            f.expected,
            f.score,
            f.explanation,
            f.incident_id,
            f.commit_id,
        )
        .join_from(s.anomaly, s.finding, (f.anomaly_id == n.id) & s.holds(s.finding, commit))
        .join(s.series, e.id == n.series_id)
        .join(s.analyzer, a.id == e.analyzer_id)
        .join(s.partition, p.id == n.partition_id)
        .where(condition)
        .order_by(n.id)
    )
    return [
        Anomaly(
            row.id,
            row.series_id,
            places.get(row.partition_id, 0),
            row.partition_id,
            row.partition_name,
            row.within,
            row.time,
            row.name,
            row.instance,
            row.filter or "",
            row.segment,
            row.scale,
            row.severity,
            row.direction,
            row.value,
            row.expected,
            row.score,
            row.explanation,
            row.incident_id,
            row.commit_id,
        )
        for row in connection.execute(query)
    ]
