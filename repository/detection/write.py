"""Write detection results: changes only, in one commit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from tidegauge.repository.detection.findings import Finding, Key
from tidegauge.repository.detectors.training import TrainingLabels
from tidegauge.repository.incidents.grouping import write_incidents
from tidegauge.repository.store import schema as s
from tidegauge.repository.store import scorebook
from tidegauge.repository.store.bulk import chunks, insert_rows, upsert
from tidegauge.repository.store.database import NextCommit, lock_clock, next_findings
from tidegauge.repository.store.queries import Window
from tidegauge.repository.store.scorebook import Points

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy.engine import Connection


@dataclass(frozen=True)
class DetectionScope:
    """The part of a dataset's history that a detection covers, as of a commit.

    Attributes
    ----------
    id : int
        Of the dataset.
    seen : int
        The last commit that was read.
    marks : mapping of str to tuple
        Up to which commit each detector has scored, and a hash of the monitors that decided.
    teaching : TrainingLabels
        Labels and holidays, as far as they concern detectors.
    window : Window
        Only points in it can become anomalies or cease to be one.
    alone : bool
        Whether the monitors are the dataset's own, so that anomalies of other detectors are withdrawn.
    now : datetime
        When the history was read.
    """

    id: int
    seen: int
    marks: Mapping[str, tuple[int, str]]
    teaching: TrainingLabels
    window: Window
    alone: bool
    now: datetime


@dataclass
class DetectorResult:
    """The results of one detector.

    Attributes
    ----------
    detector : str
    decided_by : str
        Fingerprint of the monitors and the holiday calendar.
    partitions : list of int
        Ids of all partitions that were scored.
    points : Points
    findings : list of Finding
    """

    detector: str
    decided_by: str
    partitions: list[int] = field(default_factory=list)
    points: Points = field(default_factory=lambda: Points.concatenate([]))
    findings: list[Finding] = field(default_factory=list)


def write(connection: Connection, scope: DetectionScope, found: Sequence[DetectorResult]) -> bool:
    """Write changed detection results; return False if another process detected meanwhile."""
    lock_clock(connection)
    m = s.scored.c
    query = sa.select(m.detector, m.commit_id, m.monitors).where(m.dataset_id == scope.id)
    if {row[0]: (row[1], row[2]) for row in connection.execute(query)} != dict(scope.marks):
        return False
    commit = NextCommit(connection)
    for one in found:
        scorebook.write(connection, one.detector, one.points, one.partitions, commit)
    _write_findings(connection, scope, found, commit)
    if scope.alone:  # others that come back begin anew
        mine = [one.detector for one in found]
        gone = sa.update(s.scored).where(m.dataset_id == scope.id, m.detector.not_in(mine))
        connection.execute(gone.values(commit_id=0, monitors=""))
    # What was told of a window only is looked at again.
    whole = scope.window == Window()
    marks = [
        (scope.id, one.detector, scope.seen if whole else 0, one.decided_by if whole else "")
        for one in found
    ]
    upsert(connection, s.scored, ("dataset_id", "detector", "commit_id", "monitors"), marks)
    write_incidents(connection, scope.id, scope.teaching, commit, scope.now)
    return True


def _write_findings(
    connection: Connection,
    scope: DetectionScope,
    found: Sequence[DetectorResult],
    commit: NextCommit,
) -> None:
    stored = _stored(connection, scope.id)
    told = {f.key: f for one in found for f in one.findings}
    scored = {one.detector: set(one.partitions) for one in found}
    known = {key: row for key, row in stored.items() if row.explanation is not None}
    changed = [
        key for key in sorted(told.keys() & stored.keys()) if not _same(told[key], stored[key])
    ]
    fresh = sorted(told.keys() - stored.keys())
    left = [
        key
        for key in sorted(known.keys() - told.keys())
        if scope.window.holds(known[key].time)
        and (key[1] in scored[key[3]] if key[3] in scored else scope.alone)
    ]
    ended = [stored[key].id for key in (*changed, *left)]
    f = s.finding
    for some in chunks(ended):
        change = sa.update(f).where(f.c.anomaly_id.in_(some), s.holds(f))
        connection.execute(change.values(superseded_commit_id=commit.id))
    ids = dict(zip(fresh, next_findings(connection, len(fresh)), strict=True)) if fresh else {}
    columns = ("id", "series_id", "partition_id", "version", "detector", "detected_at")
    insert_rows(connection, s.anomaly, columns, [(ids[key], *key, commit.now) for key in fresh])
    ids |= {key: stored[key].id for key in changed}
    incidents = _last_incidents(connection, (*fresh, *changed), stored)
    rows = [
        _finding_row(ids[key], told[key], commit.id, incidents.get(key[:2]))
        for key in (*fresh, *changed)
    ]
    insert_rows(connection, f, _COLUMNS, rows)


_NUMBERS = ("value", "expected", "lower", "upper", "score", "p_value")
_TEXTS = ("direction", "severity", "explanation")
_COLUMNS = ("anomaly_id", "commit_id", *_NUMBERS, *_TEXTS, "incident_id")


def _last_incidents(
    connection: Connection, keys: Iterable[Key], stored: Mapping[Key, Any]
) -> dict[tuple[int, int], int]:
    """Return the last incident of anomalies, by series and partition.

    An anomaly of a partition that was measured again goes on under the incident of the version before.
    """
    points = {key[:2] for key in keys}
    point_of = {row.id: key[:2] for key, row in stored.items() if key[:2] in points}
    f = s.finding.c
    last: dict[tuple[int, int], tuple[int, int]] = {}
    for some in chunks(sorted(point_of)):
        query = sa.select(f.anomaly_id, f.commit_id, f.incident_id).where(
            f.anomaly_id.in_(some), f.incident_id.is_not(None)
        )
        for anomaly, commit, incident in connection.execute(query):
            point = point_of[anomaly]
            last[point] = max((commit, incident), last.get(point, (commit, incident)))
    return {point: incident for point, (_, incident) in last.items()}


def _stored(connection: Connection, dataset: int) -> dict[Key, Any]:
    a, p, f = s.anomaly.c, s.partition.c, s.finding.c
    query = (
        sa.select(
            a.series_id,
            a.partition_id,
            a.version,
            a.detector,
            a.id,
            p.time,
            *(f[name] for name in (*_NUMBERS, *_TEXTS)),
        )
        .join_from(s.anomaly, s.partition)
        .outerjoin(s.finding, (f.anomaly_id == a.id) & s.holds(s.finding))
        .where(p.dataset_id == dataset)
    )
    return {tuple(row[:4]): row for row in connection.execute(query)}


def _same(one: Finding, row: Any) -> bool:
    numbers = all(_near(getattr(one, name), getattr(row, name)) for name in _NUMBERS)
    return numbers and all(getattr(one, name) == getattr(row, name) for name in _TEXTS)


def _near(x: float | None, y: float | None) -> bool:
    if x is None or y is None:
        return x is y
    return x == y or abs(x - y) <= 1e-9 * max(abs(x), abs(y))


def _finding_row(anomaly: int, one: Finding, commit: int, incident: int | None) -> tuple[Any, ...]:
    numbers = (getattr(one, name) for name in _NUMBERS)
    return (anomaly, commit, *numbers, *(getattr(one, name) for name in _TEXTS), incident)
