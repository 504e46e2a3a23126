"""Decide which scored points are anomalies, describe them, and write scores and findings.

Only changes are written, in one commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sa

from tidegauge.analyzers.core.metric import subject, written_scale
from tidegauge.repository.detection.young import YoungHistory, score_young
from tidegauge.repository.detectors.base import (
    Detector,
    PartitionDetector,
    PartitionLedger,
    Reason,
    ScoreRequest,
    Scores,
    Scoring,
)
from tidegauge.repository.detectors.inputs import Matrix, TrainingLabels
from tidegauge.repository.detectors.monitor import Monitor
from tidegauge.repository.detectors.rules import (
    DOUBLE_LOAD_WEIGHT,
    FalseDiscoveryRate,
    day_weights,
    double_loads,
    severity_steps,
    weights_of,
)
from tidegauge.repository.incidents.grouping import IncidentInputs, write_incidents
from tidegauge.repository.incidents.headline import direction, explain, explain_double_load
from tidegauge.repository.numerics.grid import Grid
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
        Version of the partition.
    detector : str
    severity : str
    value, score, p_value : float
    expected, lower, upper : float or None
        Expected value and band; None if not finite.
    direction : str
        ``low`` or ``high``.
    explanation : str
        The anomaly in one sentence.
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


FINDING_FIELDS = tuple(item.name for item in fields(Finding) if item.name in s.finding.c)
"""Fields of a `Finding` that are stored under their names."""


def apply_rules(
    monitors: Sequence[Monitor],
    series_matrix: Matrix,
    scores: Scores,
    start: int,
    may_alert: NDArray[np.bool_],
    previous_sides: Floats | None = None,
    earlier_scores: Scores | None = None,
) -> tuple[NDArray[np.bool_], NDArray[np.int8]]:
    """Return which points are anomalies by any of a detector's monitors, and their highest severity.

    Parameters
    ----------
    monitors : sequence of Monitor
        The monitors of one detector.
    series_matrix : Matrix
        The values.
    scores : Scores
        Scores of the partitions from ``start``.
    start : int
        Index of the first partition to decide on.
    may_alert : array of bool, shape (series, partitions - start)
        False for points that are excluded from alerting.
    previous_sides : array of float, shape (series,), optional
        Anomaly directions in the previous partition, as for `DecisionRule.decide`.
    earlier_scores : Scores, optional
        Scores of the partitions before ``start``.

    Returns
    -------
    tuple of array
        Flags, and indices in `Severity`, -1 for points that are not anomalies.
    """
    values = series_matrix.history.values[:, start:]
    gravest = np.full(values.shape, -1, dtype=np.int8)
    grid = series_matrix.history.grid or Grid.from_times(series_matrix.history.times)
    known = Scores.unscored((len(values), start)) if earlier_scores is None else earlier_scores
    for monitor in monitors:
        rows = np.flatnonzero([monitor.watches(row) for row in series_matrix.series])
        if not rows.size:
            continue
        sides = None if previous_sides is None else previous_sides[rows]
        if monitor.severity is None:
            watched = [series_matrix.series[row] for row in rows.tolist()]
            steps = severity_steps(watched, values[rows], scores.expected[rows])
            weights = weights_of(watched, steps, scores.score[rows])
            for i, k in double_loads(watched, values[rows], scores.expected[rows]):
                steps[i, k], weights[i, k] = len(Severity) - 1, DOUBLE_LOAD_WEIGHT
        else:  # all deviations are equally grave
            step = list(Severity).index(Severity(monitor.severity))
            steps = np.full((len(rows), values.shape[1]), step, dtype=np.int8)
            weights = None
        if grid.within_days and isinstance(monitor.rule, FalseDiscoveryRate):
            by_day = _weights_of_days(series_matrix, scores, known, steps, rows, start)
            weights = by_day if weights is None else weights * by_day
        past = None if earlier_scores is None else earlier_scores.score[rows]
        flags = monitor.decide(
            values[rows], scores.take(rows), may_alert[rows], sides, weights, past
        )
        gravest[rows] = np.maximum(gravest[rows], np.where(flags, steps, -1))
    return gravest >= 0, gravest


def _weights_of_days(
    series_matrix: Matrix,
    scores: Scores,
    earlier_scores: Scores,
    steps: NDArray[np.int8],
    rows: NDArray[np.intp],
    start: int,
) -> Floats:
    """Return the weights of `day_weights`; the partition before ``start`` can begin a lasting departure."""
    history = series_matrix.history
    first = max(start - 1, 0)
    score, expected = (
        np.hstack([getattr(earlier_scores, name)[rows, first:start], getattr(scores, name)[rows]])
        for name in ("score", "expected")
    )
    with np.errstate(invalid="ignore"):
        sides = np.sign(np.nan_to_num(history.values[rows, first:] - expected, posinf=1, neginf=-1))
    padded_steps = np.hstack([np.zeros((len(rows), start - first), dtype=np.int8), steps])
    grid = history.grid or Grid.from_times(history.times)
    is_drift = scores.reason[rows] == Reason.DRIFT
    is_drift = np.hstack([np.zeros((len(rows), start - first), dtype=bool), is_drift])
    weights = day_weights(score, sides, padded_steps, grid.period, is_drift)
    return weights[:, start - first :]


def anomalous_before(
    flags: NDArray[np.bool_], previous_sides: Floats | None = None
) -> NDArray[np.bool_]:
    """Return a mask of the points whose series was an anomaly in the previous partition.

    Parameters
    ----------
    flags : array of bool, shape (series, partitions)
        The anomalies.
    previous_sides : array of float, shape (series,), optional
        Not 0 for series that were an anomaly in the partition before the first.

    Examples
    --------
    >>> anomalous_before(np.array([[True, False, True]]), np.array([-1.0])).tolist()
    [[True, True, False]]
    """
    mask = np.zeros_like(flags)
    mask[:, 1:] = flags[:, :-1]
    if previous_sides is not None and flags.shape[1]:
        mask[:, 0] = previous_sides != 0
    return mask


def alerting_mask(
    series_matrix: Matrix, start: int, teaching: TrainingLabels | None = None
) -> NDArray[np.bool_]:
    """Return a mask of the points from ``start`` that no ``ignore`` label excludes from alerting."""
    may_alert = np.ones(
        (len(series_matrix.series), len(series_matrix.partitions) - start), dtype=bool
    )
    ignored = (
        None
        if teaching is None
        else teaching.ignored(series_matrix.series, series_matrix.partitions)
    )
    return may_alert if ignored is None else may_alert & ~ignored[:, start:]


def make_finding(
    detector: str,
    series_matrix: Matrix,
    scores: Scores,
    point: tuple[int, int],
    start: int,
    severity: Severity,
    earlier_values: Sequence[float],
    other_series: int = 0,
    *,
    after: bool = False,
    weighed: bool = False,
) -> Finding:
    """Build the finding of one anomalous point.

    Parameters
    ----------
    detector : str
    series_matrix : Matrix
        The values.
    scores : Scores
        Scores of the partitions from ``start``.
    point : tuple of int
        Series index, and partition index counted from ``start``.
    start : int
        Index of the first scored partition.
    severity : Severity
    earlier_values : sequence of float
        All earlier values of the series.
    other_series : int
        Number of other anomalies in the partition.
    after : bool
        Whether the series was an anomaly in the previous partition.
    weighed : bool
        Whether an error needs less evidence, because a monitor sets no severity.
    """
    i, k = point
    series, partition = series_matrix.series[i], series_matrix.partitions[start + k]
    value = float(series_matrix.history.values[i, start + k])
    expected, lower, upper = (float(x[i, k]) for x in (scores.expected, scores.lower, scores.upper))
    score = float(scores.score[i, k])
    return Finding(
        series=series,
        partition=partition,
        version=int(series_matrix.version[i, start + k]),
        detector=detector,
        severity=str(severity),
        value=value,
        score=score,
        p_value=float(scores.p_value[i, k]),
        expected=_finite_or_none(expected),
        lower=_finite_or_none(lower),
        upper=_finite_or_none(upper),
        direction=direction(value, expected, lower, upper),
        explanation=explain(
            subject(series),
            partition["partition"],
            None if partition["time"] is None else partition["time"].weekday(),
            value,
            earlier_values,
            expected,
            lower,
            upper,
            Reason(int(scores.reason[i, k])),
            other_series,
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
        Scores of the partitions from ``start``.
    flags : array of bool, shape (series, partitions - start)
        The anomalies.
    severities : array of int, shape (series, partitions - start)
        Indices in `Severity`; -1 for points that are not anomalies.
    after : array of bool, shape (series, partitions - start)
        Whether the series was an anomaly in the previous partition.
    weighed : bool
        Whether a monitor derives the severity from the evidence.
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
    def anomaly_indices(self) -> list[tuple[int, int]]:
        """The anomalies: index of the series, and of the partition counted from ``start``."""
        return sorted((int(i), int(k)) for i, k in zip(*np.nonzero(self.flags), strict=True))

    def points(self) -> Points:
        """Return the scored points."""
        series_matrix, scores, start = self.matrix, self.scores, self.start
        i, k = np.nonzero(~np.isnan(scores.score) & (series_matrix.version[:, start:] > 0))
        series = np.array([row["id"] for row in series_matrix.series], dtype=np.int64)
        partitions = np.array([row["id"] for row in series_matrix.partitions], dtype=np.int64)
        return Points(
            partitions[start + k],
            series[i],
            series_matrix.version[i, start + k],
            scores.score[i, k],
            scores.expected[i, k],
            scores.lower[i, k],
            scores.upper[i, k],
            scores.reason[i, k],
        )

    def findings(
        self, earlier_values: Mapping[int, Sequence[float]] | None = None
    ) -> list[Finding]:
        """Return the anomalies with explanations.

        Parameters
        ----------
        earlier_values : mapping of int to sequence of float, optional
            Values in partitions before the matrix's first, by index of the series.
        """
        other_counts = self.flags.sum(axis=0) - 1
        values = self.matrix.history.values[:, self.start :]
        loads = double_loads(self.matrix.series, values, self.scores.expected)
        findings = []
        for i, k in self.anomaly_indices:
            past = self.matrix.history.values[i, : self.start + k]
            values_before = [*(earlier_values or {}).get(i, ()), *past[~np.isnan(past)].tolist()]
            finding = make_finding(
                self.detector,
                self.matrix,
                self.scores,
                (i, k),
                self.start,
                list(Severity)[self.severities[i, k]],
                values_before,
                int(other_counts[k]),
                after=bool(self.after[i, k]),
                weighed=self.weighed,
            )
            if (i, k) in loads:
                text = explain_double_load(finding.explanation, loads[i, k])
                finding = replace(finding, explanation=text)
            findings.append(finding)
        return findings


def score_and_decide(
    detector: Detector,
    monitors: Sequence[Monitor],
    series_matrix: Matrix,
    window: Window,
    teaching: TrainingLabels | None = None,
    *,
    start: int = 0,
    earlier_scores: Scores | None = None,
    previous_sides: Floats | None = None,
    young: Sequence[YoungHistory] = (),
) -> Scoring[Scored]:
    """Score the partitions of a matrix from index ``start``, and decide which points are anomalies.

    The scores are requested from the caller, such as `complete`, which can score several tables together.

    Parameters
    ----------
    detector : Detector
    monitors : sequence of Monitor
        The monitors of the detector.
    series_matrix : Matrix
        The values.
    window : Window
        Only points in the window are anomalies.
    teaching : TrainingLabels, optional
        Labels that exclude points.
    start : int
        Index of the first partition to score.
    earlier_scores : Scores, optional
        The detector's scores of the partitions before ``start``.
    previous_sides : array of float, shape (series,), optional
        Anomaly directions in the previous partition, as for `DecisionRule.decide`.
    young : sequence of YoungHistory
        Histories of partitions that are measured before their data are complete.
    """
    scores = yield detector, ScoreRequest(series_matrix.history, start, earlier_scores)
    scores = yield from score_young(detector, series_matrix, scores, start, young)
    return _decide(
        repr(detector),
        monitors,
        series_matrix,
        scores,
        start,
        window,
        teaching,
        previous_sides,
        earlier_scores,
    )


def score_partitions(
    detector: PartitionDetector,
    monitors: Sequence[Monitor],
    series_matrix: Matrix,
    ledger: PartitionLedger,
    window: Window,
    teaching: TrainingLabels | None = None,
    *,
    start: int = 0,
    earlier_scores: Scores | None = None,
    previous_sides: Floats | None = None,
) -> Scoring[tuple[Scored, list[Finding]]]:
    """Score whole partitions from index ``start``; return their scores, and anomalies with explanations.

    Parameters
    ----------
    series_matrix : Matrix
        The values that the detector reads. Its ``series`` has one row: the series of the detector's
        measure.
    detector, monitors, window, teaching, start, earlier_scores, previous_sides
        As for `score_and_decide`.
    ledger : PartitionLedger
        Arrival times, versions and schemas of the partitions.
    """
    history = replace(series_matrix.history, ledger=ledger)
    scores, measured = yield detector, ScoreRequest(history, start, earlier_scores)
    values = measured[None, :]
    version = np.maximum(ledger.version, 1)[None, :]
    measure_matrix = replace(
        series_matrix, version=version, history=replace(history, values=values, weights=values)
    )
    series_monitors = [
        replace(m, series={}, severity=m.severity or Severity.WARNING) for m in monitors
    ]
    scored_measure = _decide(
        repr(detector),
        series_monitors,
        measure_matrix,
        scores,
        start,
        window,
        teaching,
        previous_sides,
    )
    findings = []
    for (_, k), anomaly in zip(
        scored_measure.anomaly_indices, scored_measure.findings(), strict=True
    ):
        name = anomaly.partition["partition"] or "the table"
        explanation = f"{name} {detector.explanation(history, k + start)}."
        findings.append(replace(anomaly, explanation=explanation, direction="high"))
    return scored_measure, findings


def _decide(
    detector: str,
    monitors: Sequence[Monitor],
    series_matrix: Matrix,
    scores: Scores,
    start: int,
    window: Window,
    teaching: TrainingLabels | None,
    previous_sides: Floats | None,
    earlier_scores: Scores | None = None,
) -> Scored:
    may_alert = alerting_mask(series_matrix, start, teaching)
    flags, severities = apply_rules(
        monitors, series_matrix, scores, start, may_alert, previous_sides, earlier_scores
    )
    flags &= np.array(
        [window.holds(p["time"]) for p in series_matrix.partitions[start:]], dtype=bool
    )
    weighed = any(monitor.weighs for monitor in monitors)
    after = anomalous_before(flags, previous_sides)
    return Scored(detector, series_matrix, start, scores, flags, severities, after, weighed)


def _finite_or_none(number: float) -> float | None:
    return number if np.isfinite(number) else None


@dataclass(frozen=True)
class DetectionScope:
    """The part of a dataset's history that a detection covers, as of a commit.

    Attributes
    ----------
    id : int
        Id of the dataset.
    last_commit : int
        The last commit that was read.
    marks : mapping of str to tuple
        The last commit that each detector has scored, and a hash of the monitors that decided.
    teaching : TrainingLabels
        Labels and holidays that concern detectors.
    window : Window
        Only points in the window can become anomalies or stop being anomalies.
    alone : bool
        Whether the monitors are the dataset's own. In this case anomalies of other detectors are
        withdrawn.
    now : datetime
        Time at which the history was read.
    """

    id: int
    last_commit: int
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
        The scored points.
    findings : list of Finding
        The anomalies.
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


def write_results(
    connection: Connection,
    detections: Mapping[str, tuple[DetectionScope, Sequence[DetectorResult]]],
) -> list[str]:
    """Write changed results of detections in one commit, and return the names of the datasets that were written.

    Datasets in which another process detected meanwhile are left out.

    Parameters
    ----------
    connection : Connection
    detections : mapping of str to tuple
        Scope and results by dataset.
    """
    lock_clock(connection)
    marks: dict[int, dict[str, tuple[int, str]]] = {}
    m = s.scored.c
    for chunk in chunks([scope.id for scope, _ in detections.values()]):
        query = sa.select(m.dataset_id, m.detector, m.commit_id, m.monitors)
        for dataset, *mark in connection.execute(query.where(m.dataset_id.in_(chunk))):
            marks.setdefault(dataset, {})[mark[0]] = (mark[1], mark[2])
    current = {
        name: (scope, results)
        for name, (scope, results) in detections.items()
        if marks.get(scope.id, {}) == dict(scope.marks)
    }
    scopes = {scope.id: scope for scope, _ in current.values()}
    commit = NextCommit(connection)
    by_detector: dict[str, list[DetectorResult]] = {}
    for _, results in current.values():
        for result in results:
            by_detector.setdefault(result.detector, []).append(result)
    for detector, detector_results in by_detector.items():
        points = Points.concatenate([result.points for result in detector_results])
        partitions = [n for result in detector_results for n in result.partitions]
        scorebook.write(connection, detector, points, partitions, commit)
    stored = _read_stored(connection, list(scopes))
    for scope, results in current.values():
        _write_findings(connection, scope, results, stored[scope.id], commit)
    _write_marks(connection, list(current.values()))
    inputs = IncidentInputs.read(connection, {n: scope.now for n, scope in scopes.items()})
    for scope, _ in current.values():
        write_incidents(connection, scope.id, inputs[scope.id], scope.teaching, commit)
    return list(current)


def _write_marks(
    connection: Connection,
    detections: Sequence[tuple[DetectionScope, Sequence[DetectorResult]]],
) -> None:
    """Store up to which commit each detector has scored, where that changed."""
    rows = []
    for scope, results in detections:
        marks: dict[str, tuple[int, str]] = {}
        if scope.alone:  # a detector that is used again later scores the whole history
            marks |= dict.fromkeys(scope.marks, (0, ""))
        # Results of a limited window are scored again next time.
        is_unlimited = scope.window == Window()
        marks |= {
            result.detector: (scope.last_commit, result.decided_by) if is_unlimited else (0, "")
            for result in results
        }
        rows += [
            (scope.id, detector, *mark)
            for detector, mark in marks.items()
            if scope.marks.get(detector) != mark
        ]
    upsert(connection, s.scored, ("dataset_id", "detector", "commit_id", "monitors"), rows)


def _write_findings(
    connection: Connection,
    scope: DetectionScope,
    results: Sequence[DetectorResult],
    stored: Mapping[Key, Any],
    commit: NextCommit,
) -> None:
    findings = {f.key: f for result in results for f in result.findings}
    scored_ids = {result.detector: set(result.partitions) for result in results}
    current = {key: row for key, row in stored.items() if row.explanation is not None}
    changed = [
        key
        for key in sorted(findings.keys() & stored.keys())
        if not _is_unchanged(findings[key], stored[key])
    ]
    new_keys = sorted(findings.keys() - stored.keys())
    withdrawn = [
        key
        for key in sorted(current.keys() - findings.keys())
        if scope.window.holds(current[key].time)
        and (key[1] in scored_ids[key[3]] if key[3] in scored_ids else scope.alone)
    ]
    ended = [stored[key].id for key in (*changed, *withdrawn)]
    f = s.finding
    for chunk in chunks(ended):
        change = sa.update(f).where(f.c.anomaly_id.in_(chunk), s.holds(f))
        connection.execute(change.values(superseded_commit_id=commit.id))
    ids = (
        dict(zip(new_keys, next_findings(connection, len(new_keys)), strict=True))
        if new_keys
        else {}
    )
    columns = ("id", "series_id", "partition_id", "version", "detector", "detected_at")
    insert_rows(connection, s.anomaly, columns, [(ids[key], *key, commit.now) for key in new_keys])
    ids |= {key: stored[key].id for key in changed}
    incidents = _last_incidents(connection, (*new_keys, *changed), stored)
    rows = [
        _finding_row(ids[key], findings[key], commit.id, incidents.get(key[:2]))
        for key in (*new_keys, *changed)
    ]
    insert_rows(connection, f, ("anomaly_id", "commit_id", *FINDING_FIELDS, "incident_id"), rows)


def _last_incidents(
    connection: Connection, keys: Iterable[Key], stored: Mapping[Key, Any]
) -> dict[tuple[int, int], int]:
    """Return the last incident of anomalies, by series and partition.

    An anomaly of a partition that was measured again keeps the incident of the previous version.
    """
    points = {key[:2] for key in keys}
    point_of = {row.id: key[:2] for key, row in stored.items() if key[:2] in points}
    f = s.finding.c
    last: dict[tuple[int, int], tuple[int, int]] = {}
    for chunk in chunks(sorted(point_of)):
        query = sa.select(f.anomaly_id, f.commit_id, f.incident_id).where(
            f.anomaly_id.in_(chunk), f.incident_id.is_not(None)
        )
        for anomaly, commit, incident in connection.execute(query):
            point = point_of[anomaly]
            last[point] = max((commit, incident), last.get(point, (commit, incident)))
    return {point: incident for point, (_, incident) in last.items()}


def _read_stored(connection: Connection, datasets: Sequence[int]) -> dict[int, dict[Key, Any]]:
    """Return the stored anomalies of each dataset."""
    a, p, f = s.anomaly.c, s.partition.c, s.finding.c
    stored: dict[int, dict[Key, Any]] = {dataset: {} for dataset in datasets}
    for chunk in chunks(datasets):
        query = (
            sa.select(
                a.series_id,
                a.partition_id,
                a.version,
                a.detector,
                a.id,
                p.dataset_id,
                p.time,
                *(f[name] for name in FINDING_FIELDS),
            )
            .join_from(s.anomaly, s.partition)
            .outerjoin(s.finding, (f.anomaly_id == a.id) & s.holds(s.finding))
            .where(p.dataset_id.in_(chunk))
        )
        for row in connection.execute(query):
            stored[row.dataset_id][tuple(row[:4])] = row
    return stored


def _is_unchanged(finding: Finding, row: Any) -> bool:
    return all(_is_near(getattr(finding, name), getattr(row, name)) for name in FINDING_FIELDS)


def _is_near(x: float | str | None, y: float | str | None) -> bool:
    if isinstance(x, float) and isinstance(y, float):
        return x == y or abs(x - y) <= 1e-9 * max(abs(x), abs(y))
    return x == y


def _finding_row(
    anomaly: int, finding: Finding, commit: int, incident: int | None
) -> tuple[Any, ...]:
    return anomaly, commit, *(getattr(finding, name) for name in FINDING_FIELDS), incident
