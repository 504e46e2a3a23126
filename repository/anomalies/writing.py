"""Writing what a detection found: only what changed, in one commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from repository import schema as s
from repository.anomalies import scorebook
from repository.anomalies.finding import Finding, Key
from repository.anomalies.incidents import write_incidents
from repository.anomalies.scorebook import Points
from repository.bulk import chunks, insert_rows, upsert
from repository.database import NextCommit, lock_clock, next_findings
from repository.history import Window

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from repository.anomalies.detection import Work


@dataclass
class Found:
    """What one detector found.

    Attributes
    ----------
    detector : str
    decided_by : str
        A hash of the monitors that decided, and of the holidays.
    partitions : list of int
        The ids of all that were scored.
    points : Points
    findings : list of Finding
    """

    detector: str
    decided_by: str
    partitions: list[int] = field(default_factory=list)
    points: Points = field(default_factory=lambda: Points.joined([]))
    findings: list[Finding] = field(default_factory=list)


def write(connection: Connection, work: Work, found: Sequence[Found]) -> bool:
    """Write what changed since the last detection; return False if somebody else detected meanwhile."""
    lock_clock(connection)
    m = s.scored.c
    query = sa.select(m.detector, m.commit_id, m.monitors).where(m.dataset_id == work.id)
    if {row[0]: (row[1], row[2]) for row in connection.execute(query)} != dict(work.marks):
        return False
    commit = NextCommit(connection)
    for one in found:
        scorebook.write(connection, one.detector, one.points, one.partitions, commit)
    _write_findings(connection, work, found, commit)
    if work.alone:  # others that come back begin anew
        mine = [one.detector for one in found]
        gone = sa.update(s.scored).where(m.dataset_id == work.id, m.detector.not_in(mine))
        connection.execute(gone.values(commit_id=0, monitors=""))
    # What was told of a window only is looked at again.
    whole = work.window == Window()
    marks = [
        (work.id, one.detector, work.seen if whole else 0, one.decided_by if whole else "")
        for one in found
    ]
    upsert(connection, s.scored, ("dataset_id", "detector", "commit_id", "monitors"), marks)
    write_incidents(connection, work.id, work.teaching, commit)
    return True


def _write_findings(
    connection: Connection, work: Work, found: Sequence[Found], commit: NextCommit
) -> None:
    stored = _stored(connection, work.id)
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
        if work.window.holds(known[key].time)
        and (key[1] in scored[key[3]] if key[3] in scored else work.alone)
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
    incidents = _last_incidents(connection, [stored[key].id for key in changed])
    rows = [
        _finding_row(ids[key], told[key], commit.id, incidents.get(ids[key]))
        for key in (*fresh, *changed)
    ]
    insert_rows(connection, f, _COLUMNS, rows)


_TOLD = ("value", "expected", "lower", "upper", "score", "p_value")
_TEXTS = ("direction", "severity", "explanation")
_COLUMNS = ("anomaly_id", "commit_id", *_TOLD, *_TEXTS, "incident_id")


def _last_incidents(connection: Connection, anomalies: Sequence[int]) -> dict[int, int]:
    """Return the incident that each anomaly was in last."""
    f = s.finding.c
    found: dict[int, int] = {}
    for some in chunks(anomalies):
        query = sa.select(f.anomaly_id, f.incident_id).where(
            f.anomaly_id.in_(some), f.incident_id.is_not(None)
        )
        found.update({row[0]: row[1] for row in connection.execute(query.order_by(f.commit_id))})
    return found


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
            *(f[name] for name in (*_TOLD, *_TEXTS)),
        )
        .join_from(s.anomaly, s.partition)
        .outerjoin(s.finding, (f.anomaly_id == a.id) & s.holds(s.finding))
        .where(p.dataset_id == dataset)
    )
    return {tuple(row[:4]): row for row in connection.execute(query)}


def _same(one: Finding, row: Any) -> bool:
    numbers = all(_near(getattr(one, name), getattr(row, name)) for name in _TOLD)
    return numbers and all(getattr(one, name) == getattr(row, name) for name in _TEXTS)


def _near(x: float | None, y: float | None) -> bool:
    if x is None or y is None:
        return x is y
    return x == y or abs(x - y) <= 1e-9 * max(abs(x), abs(y))


def _finding_row(anomaly: int, one: Finding, commit: int, incident: int | None) -> tuple[Any, ...]:
    numbers = (getattr(one, name) for name in _TOLD)
    return (anomaly, commit, *numbers, *(getattr(one, name) for name in _TEXTS), incident)
