"""Anomaly findings: decide on scored points, describe anomalies, and write both.

Only changes are written, in one commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sa

from tidegauge.analyzers.core.metric import subject, written_scale
from tidegauge.repository.detectors.base import (
    Detector,
    PartitionDetector,
    PartitionLedger,
    Reason,
    Scores,
)
from tidegauge.repository.detectors.inputs import Matrix, TrainingLabels
from tidegauge.repository.detectors.monitor import Monitor
from tidegauge.repository.detectors.rules import severity_steps, weights_of
from tidegauge.repository.incidents.grouping import write_incidents
from tidegauge.repository.incidents.headline import direction, explain
from tidegauge.repository.store import schema as s
from tidegauge.repository.store import scorebook
from tidegauge.repository.store.bulk import chunks, insert_rows, upsert
from tidegauge.repository.store.database import NextCommit, lock_clock, next_findings
from tidegauge.repository.store.queries import Window
from tidegauge.repository.store.rows import PartitionRow, SeriesRow, Severity
from tidegauge.repository.store.scorebook import Points

if TYPE_CHECKING:
    from datetime import datetime

    from numpy.typing import NDArray
    from sqlalchemy.engine import Connection

    from tidegauge.repository.numerics.arrays import Floats


Key = tuple[int, int, int, str]
"""Series, partition, version, detector."""


@dataclass(frozen=True)
class Finding:
    """An anomaly that a detection found.

    Attributes
    ----------
    series, partition : mapping
        The anomaly's series and partition, as in `Facts`.
    version : int
    detector : str
    severity : str
    value, score, p_value : float
    expected, lower, upper : float or None
        None if not finite.
    direction : str
    explanation : str
    """

    series: SeriesRow
    partition: PartitionRow
    version: int
    detector: str
    severity: str
    value: float
    score: float
    p_value: float
    expected: float | None
    lower: float | None
    upper: float | None
    direction: str
    explanation: str

    @property
    def key(self) -> Key:
        """Series, partition, version and detector."""
        return self.series["id"], self.partition["id"], self.version, self.detector


FINDING_FIELDS = tuple(one.name for one in fields(Finding) if one.name in s.finding.c)
"""Fields of a `Finding` that are stored under their names."""


def decided(
    monitors: Sequence[Monitor],
    one: Matrix,
    scores: Scores,
    start: int,
    may: NDArray[np.bool_],
    before: Floats | None = None,
    earlier: Floats | None = None,
) -> tuple[NDArray[np.bool_], NDArray[np.int8]]:
    """Return which points are anomalies by any of a detector's monitors, and their highest severity.

    Parameters
    ----------
    monitors : sequence of Monitor
    one : Matrix
    scores : Scores
        From the partition ``start`` on.
    start : int
    may : array of bool, shape (series, partitions - start)
        False for points that are excluded from alerting.
    before : array of float, shape (series,), optional
        As for `DecisionRule.decide`.
    earlier : array of float, shape (series, partitions before), optional
        As for `Monitor.decide`.

    Returns
    -------
    tuple of array
        Flags, and indices in `Severity`, -1 where there is no anomaly.
    """
    values = one.history.values[:, start:]
    gravest = np.full(values.shape, -1, dtype=np.int8)
    for monitor in monitors:
        rows = np.flatnonzero([monitor.watches(row) for row in one.series])
        if not rows.size:
            continue
        last = None if before is None else before[rows]
        if monitor.severity is None:
            watched = [one.series[row] for row in rows.tolist()]
            steps = severity_steps(watched, values[rows], scores.expected[rows])
            weights = weights_of(watched, steps, scores.score[rows])
        else:  # all departures are equally grave
            step = list(Severity).index(Severity(monitor.severity))
            steps = np.full((len(rows), values.shape[1]), step, dtype=np.int8)
            weights = None
        past = None if earlier is None else earlier[rows]
        flags = monitor.decide(values[rows], scores.taken(rows), may[rows], last, weights, past)
        gravest[rows] = np.maximum(gravest[rows], np.where(flags, steps, -1))
    return gravest >= 0, gravest


def gone_before(flags: NDArray[np.bool_], before: Floats | None = None) -> NDArray[np.bool_]:
    """Return a mask of the points whose series was an anomaly in the partition before.

    Parameters
    ----------
    flags : array of bool, shape (series, partitions)
    before : array of float, shape (series,), optional
        Not 0 where the partition before the first was one.

    Examples
    --------
    >>> gone_before(np.array([[True, False, True]]), np.array([-1.0])).tolist()
    [[True, True, False]]
    """
    found = np.zeros_like(flags)
    found[:, 1:] = flags[:, :-1]
    if before is not None and flags.shape[1]:
        found[:, 0] = before != 0
    return found


def alerting_mask(
    one: Matrix, start: int, teaching: TrainingLabels | None = None
) -> NDArray[np.bool_]:
    """Return a mask of points from a partition on that no ``ignore`` label excludes from alerting."""
    may = np.ones((len(one.series), len(one.partitions) - start), dtype=bool)
    ignored = None if teaching is None else teaching.ignored(one.series, one.partitions)
    return may if ignored is None else may & ~ignored[:, start:]


def finding(
    detector: str,
    one: Matrix,
    scores: Scores,
    place: tuple[int, int],
    start: int,
    severity: Severity,
    earlier: Sequence[float],
    others: int = 0,
    *,
    after: bool = False,
    weighed: bool = False,
) -> Finding:
    """Build the finding of one anomalous point.

    Parameters
    ----------
    detector : str
    one : Matrix
    scores : Scores
        From the partition ``start`` on.
    place : tuple of int
        Series index, and partition index counted from ``start``.
    start : int
    severity : Severity
    earlier : sequence of float
        All earlier values of the series.
    others : int
        Number of other anomalies in the partition.
    after : bool
        Whether the series was an anomaly in the partition before.
    weighed : bool
        Whether an error needs less evidence, as where a monitor sets no severity.
    """
    i, k = place
    series, partition = one.series[i], one.partitions[start + k]
    value = float(one.history.values[i, start + k])
    expected, lower, upper = (float(x[i, k]) for x in (scores.expected, scores.lower, scores.upper))
    score = float(scores.score[i, k])
    return Finding(
        series=series,
        partition=partition,
        version=int(one.version[i, start + k]),
        detector=detector,
        severity=str(severity),
        value=value,
        score=score,
        p_value=float(scores.p_value[i, k]),
        expected=_finite(expected),
        lower=_finite(lower),
        upper=_finite(upper),
        direction=direction(value, expected, lower, upper),
        explanation=explain(
            subject(series),
            partition["partition"],
            None if partition["time"] is None else partition["time"].weekday(),
            value,
            earlier,
            expected,
            lower,
            upper,
            Reason(int(scores.reason[i, k])),
            others,
            scale=written_scale(series["name"], series["scale"]),
            after=after,
            grave=weighed and severity is Severity.ERROR,
        ),
    )


@dataclass(frozen=True)
class Scored:
    """A detector's scores of a matrix, and the decisions on them.

    Attributes
    ----------
    detector : str
    matrix : Matrix
    start : int
        Index of the first partition that was scored.
    scores : Scores
        From ``start`` on.
    flags : array of bool, shape (series, partitions - start)
        The anomalies.
    severities : array of int, shape (series, partitions - start)
        Indices in `Severity`; -1 where no monitor found an anomaly.
    after : array of bool, shape (series, partitions - start)
        Whether the series was an anomaly in the partition before.
    weighed : bool
        Whether a monitor leaves the severity to the evidence.
    """

    detector: str
    matrix: Matrix
    start: int
    scores: Scores
    flags: NDArray[np.bool_]
    severities: NDArray[np.int8]
    after: NDArray[np.bool_]
    weighed: bool

    @property
    def places(self) -> list[tuple[int, int]]:
        """The anomalies: index of the series, and of the partition counted from ``start``."""
        return sorted((int(i), int(k)) for i, k in zip(*np.nonzero(self.flags), strict=True))

    def points(self) -> Points:
        """Return the scored points."""
        one, scores, start = self.matrix, self.scores, self.start
        i, k = np.nonzero(~np.isnan(scores.score) & (one.version[:, start:] > 0))
        series = np.array([row["id"] for row in one.series], dtype=np.int64)
        partitions = np.array([row["id"] for row in one.partitions], dtype=np.int64)
        return Points(
            partitions[start + k],
            series[i],
            one.version[i, start + k],
            scores.score[i, k],
            scores.expected[i, k],
            scores.lower[i, k],
            scores.upper[i, k],
            scores.reason[i, k],
        )

    def findings(self, before: Mapping[int, Sequence[float]] | None = None) -> list[Finding]:
        """Return the anomalies in words.

        Parameters
        ----------
        before : mapping of int to sequence of float, optional
            By index of the series, its values in partitions before the matrix's first.
        """
        others = self.flags.sum(axis=0) - 1
        found = []
        for i, k in self.places:
            past = self.matrix.history.values[i, : self.start + k]
            earlier = [*(before or {}).get(i, ()), *past[~np.isnan(past)].tolist()]
            found.append(
                finding(
                    self.detector,
                    self.matrix,
                    self.scores,
                    (i, k),
                    self.start,
                    list(Severity)[self.severities[i, k]],
                    earlier,
                    int(others[k]),
                    after=bool(self.after[i, k]),
                    weighed=self.weighed,
                )
            )
        return found


def scored(
    detector: Detector,
    monitors: Sequence[Monitor],
    one: Matrix,
    window: Window,
    teaching: TrainingLabels | None = None,
    *,
    start: int = 0,
    known: Scores | None = None,
    before: Floats | None = None,
) -> Scored:
    """Score the partitions of a matrix from an index on, and decide which points are anomalies.

    Parameters
    ----------
    detector : Detector
    monitors : sequence of Monitor
        Those that watch by this detector.
    one : Matrix
    window : Window
        Only points in it are anomalies.
    teaching : TrainingLabels, optional
        Labels, by which points are excluded.
    start : int
    known : Scores, optional
        The detector's scores of the partitions before ``start``.
    before : array of float, shape (series,), optional
        As for `DecisionRule.decide`.
    """
    scores = detector.score(one.history, start, known)
    earlier = None if known is None else known.score
    return _decide(repr(detector), monitors, one, scores, start, window, teaching, before, earlier)


def scored_partitions(
    detector: PartitionDetector,
    monitors: Sequence[Monitor],
    one: Matrix,
    ledger: PartitionLedger,
    window: Window,
    teaching: TrainingLabels | None = None,
    *,
    start: int = 0,
    known: Scores | None = None,
    before: Floats | None = None,
) -> tuple[Scored, list[Finding]]:
    """Judge whole partitions from an index on; return their scores and their anomalies in words.

    Parameters
    ----------
    one : Matrix
        The series that the detector reads; its only row of ``series`` is that of the detector's
        measure.
    detector, monitors, ledger, window, teaching, start, known, before
        As for `scored`.
    """
    history = replace(one.history, ledger=ledger)
    scores, measured = detector.score_and_measure(history, start, known)
    values = measured[None, :]
    version = np.maximum(ledger.version, 1)[None, :]
    whole = replace(one, version=version, history=replace(history, values=values, weights=values))
    alike = [replace(m, series={}, severity=m.severity or Severity.WARNING) for m in monitors]
    judged = _decide(repr(detector), alike, whole, scores, start, window, teaching, before)
    findings = []
    for (_, k), new in zip(judged.places, judged.findings(), strict=True):
        name = new.partition["partition"] or "the table"
        text = f"{name} {detector.explanation(history, k + start)}."
        findings.append(replace(new, explanation=text, direction="high"))
    return judged, findings


def _decide(
    detector: str,
    monitors: Sequence[Monitor],
    one: Matrix,
    scores: Scores,
    start: int,
    window: Window,
    teaching: TrainingLabels | None,
    before: Floats | None,
    earlier: Floats | None = None,
) -> Scored:
    may = alerting_mask(one, start, teaching)
    flags, severities = decided(monitors, one, scores, start, may, before, earlier)
    flags &= np.array([window.holds(p["time"]) for p in one.partitions[start:]], dtype=bool)
    weighed = any(monitor.weighs for monitor in monitors)
    after = gone_before(flags, before)
    return Scored(detector, one, start, scores, flags, severities, after, weighed)


def _finite(number: float) -> float | None:
    return number if np.isfinite(number) else None


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

    def add(self, scored: Scored, findings: Iterable[Finding]) -> None:
        """Add the scores of one partition segment, and its anomalies."""
        self.partitions += [row["id"] for row in scored.matrix.partitions[scored.start :]]
        self.points = Points.concatenate([self.points, scored.points()])
        self.findings += findings


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
    insert_rows(connection, f, ("anomaly_id", "commit_id", *FINDING_FIELDS, "incident_id"), rows)


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
            *(f[name] for name in FINDING_FIELDS),
        )
        .join_from(s.anomaly, s.partition)
        .outerjoin(s.finding, (f.anomaly_id == a.id) & s.holds(s.finding))
        .where(p.dataset_id == dataset)
    )
    return {tuple(row[:4]): row for row in connection.execute(query)}


def _same(one: Finding, row: Any) -> bool:
    return all(_near(getattr(one, name), getattr(row, name)) for name in FINDING_FIELDS)


def _near(x: float | str | None, y: float | str | None) -> bool:
    if isinstance(x, float) and isinstance(y, float):
        return x == y or abs(x - y) <= 1e-9 * max(abs(x), abs(y))
    return x == y


def _finding_row(anomaly: int, one: Finding, commit: int, incident: int | None) -> tuple[Any, ...]:
    return anomaly, commit, *(getattr(one, name) for name in FINDING_FIELDS), incident
