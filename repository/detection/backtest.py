"""Replay detectors over stored history: backtests, sensitivities and learned seasons. Stores nothing.

`BacktestHistory` replays detectors. `BacktestResult` compares their anomalies with user labels.
`sensitivity_rows` compares sensitivities by the labels of the incidents that each would have reported.
`season_rows` lists the seasons that a detector has learned from stored series.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from math import isnan
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tidegauge.analyzers.core.errors import SuiteError
from tidegauge.repository.detection.detect import read_ledger, score_history, stored_suite
from tidegauge.repository.detection.findings import FINDING_FIELDS, Finding, score_partitions
from tidegauge.repository.detectors.base import (
    DETECTORS,
    Detector,
    PartitionDetector,
    PartitionLedger,
    complete,
)
from tidegauge.repository.detectors.inputs import (
    HARMLESS_LABELS,
    Matrix,
    TrainingLabels,
    group_by_segment,
    matrix,
    suite_holidays,
    time_zone_of,
)
from tidegauge.repository.detectors.monitor import Monitor, Sensitivity
from tidegauge.repository.detectors.seasonal import Seasonal, learned_seasons
from tidegauge.repository.incidents.anomaly import Anomaly
from tidegauge.repository.incidents.feedback import (
    FeedbackMatrix,
    feedback_labels,
    incidents_of,
    share,
)
from tidegauge.repository.incidents.grouping import group_anomalies
from tidegauge.repository.rollups.compute import is_in_segment
from tidegauge.repository.store.dimensions import Watched
from tidegauge.repository.store.facts import Facts, read_facts
from tidegauge.repository.store.frames import columns, columns_of
from tidegauge.repository.store.labels import training_labels
from tidegauge.repository.store.queries import MetricQuery, Window, dataset_id
from tidegauge.repository.store.rows import (
    BacktestDetailRow,
    BacktestRow,
    SensitivityRow,
    SeriesRow,
    fields_of,
)
from tidegauge.repository.store.scorebook import Points

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sqlalchemy.engine import Connection

    from tidegauge.repository.store.rows import LabelEffect


@dataclass(frozen=True)
class BacktestHistory:
    """The history that a backtest reads.

    Attributes
    ----------
    facts : Facts
        The metrics.
    window : Window
        Points in the window are counted; everything before it is training history.
    teaching : TrainingLabels
        Labels and holidays; labels of harmless points only exclude these from training.
    feedback : sequence of LabelEffect
        Labels by users that judge alarms.
    incidents : mapping of int to int
        The stored incident of each stored anomaly.
    ledgers : mapping of str to PartitionLedger
        Ledgers by partition segment, the segment that the non-time partition keys form.
    """

    facts: Facts
    window: Window
    teaching: TrainingLabels
    feedback: Sequence[LabelEffect]
    incidents: Mapping[int, int]
    ledgers: Mapping[str, PartitionLedger]

    @classmethod
    def read(cls, connection: Connection, dataset: str, query: MetricQuery) -> BacktestHistory:
        """Read the whole history of the series that a query selects; its window limits the counted points."""
        dataset_key = dataset_id(connection, dataset)
        facts = read_facts(connection, dataset, replace(query, window=Window()))
        partitions, now = facts.partitions, datetime.now(UTC)
        # A harmless point counts as a false alarm if a detector flags it. Exclude it from training, but
        # not from detection, and do not let it lower the scores of similar points.
        training = [
            replace(label, label="bad") if label.label in HARMLESS_LABELS else label
            for label in training_labels(connection, dataset_key)
        ]
        suite = stored_suite(connection, dataset_key)
        zone = time_zone_of(suite, partitions)
        return cls(
            facts,
            query.window,
            TrainingLabels(
                training, suite_holidays(suite, (row["time"] for row in partitions)), zone
            ),
            feedback_labels(connection, dataset_key),
            incidents_of(connection, dataset_key),
            {
                within: read_ledger(connection, [partitions[index] for index in indices], now, zone)
                for within, indices in group_by_segment(partitions).items()
            },
        )

    def run_monitor(self, monitor: Monitor) -> tuple[list[Finding], Points]:
        """Return a monitor's findings in the window, and all points that it scores."""
        if isinstance(monitor.detector, PartitionDetector):
            return _run_partition_detector(self, monitor, monitor.detector)
        findings, points = score_history(self.facts, [monitor], self.window, self.teaching)
        return list(findings.values()), points


def series_of(detector: Detector, within: str) -> SeriesRow:
    """Return the series of a partition-level detector's measure, stored or not."""
    return {
        "id": -1,
        "segment": within,
        "entity": "",
        "name": repr(detector).partition("(")[0],
        "instance": "*",
        "analyzer": repr(detector),
        "kind": Watched.__name__,
        "scale": "",
        "filter": None,
        "key": "",
    }


def _run_partition_detector(
    past: BacktestHistory, monitor: Monitor, detector: PartitionDetector
) -> tuple[list[Finding], Points]:
    """Score and judge whole partitions with a partition-level detector."""
    facts, findings, points = past.facts, [], []
    for within, indices in group_by_segment(facts.partitions).items():
        is_watched = monitor.watches if detector.needs_values else _watches_nothing
        series_matrix = matrix(facts, indices, is_watched, 1, past.teaching)
        steps = score_partitions(
            detector,
            [monitor],
            replace(series_matrix, series=[series_of(detector, within)]),
            replace(
                past.ledgers[within], muted=_muted_partitions(past, detector, within, series_matrix)
            ),
            past.window,
        )
        scored_measure, anomalies = complete(steps)
        points.append(scored_measure.points())
        findings += anomalies
    return findings, Points.concatenate(points)


def _muted_partitions(
    past: BacktestHistory, detector: PartitionDetector, within: str, series_matrix: Matrix
) -> NDArray[np.bool_] | None:
    """Return a mask of the partitions that labels exclude from training of a detector."""
    stored = (
        row
        for row in past.facts.series
        if row["kind"] == Watched.__name__
        and (row["analyzer"], row["segment"]) == (repr(detector), within)
    )
    measure = next(stored, series_of(detector, within))
    muted = past.teaching.muted([measure], series_matrix.partitions)
    return None if muted is None else muted[0]


def _watches_nothing(row: SeriesRow) -> bool:
    return False


DAYS_PER_MONTH = 30
_VERDICT_NAMES = {1: "real", -1: "false", 0: None}


@dataclass(frozen=True)
class BacktestResult:
    """The result of backtesting one monitor.

    Attributes
    ----------
    monitor : Monitor
    points : Points
        The scored points in the window.
    findings : list of Finding
    groups : list of list of int
        Indices into ``findings``, grouped by incident.
    seconds : float
    """

    monitor: Monitor
    points: Points
    findings: Sequence[Finding]
    groups: Sequence[Sequence[int]]
    seconds: float

    @classmethod
    def from_history(cls, past: BacktestHistory, monitor: Monitor) -> BacktestResult:
        """Run a monitor over the history."""
        start = perf_counter()
        findings, points = past.run_monitor(monitor)
        seconds = perf_counter() - start
        counted_ids = [row["id"] for row in past.facts.partitions if past.window.holds(row["time"])]
        points = points.take(np.flatnonzero(np.isin(points.partition, counted_ids)))
        return cls(monitor, points, findings, _group_findings(past.facts, findings), seconds)

    def row(self, past: BacktestHistory) -> BacktestRow:
        """Return one row of the comparison."""
        verdicts, real, detected = self._judged(past)
        judged = sum(x != 0 for x in verdicts)
        groups = [{verdicts[index] for index in group} for group in self.groups]
        labelled = sum(bool(group - {0}) for group in groups)
        return {
            "detector": repr(self.monitor.detector),
            "rule": repr(self.monitor.rule),
            "series": len(np.unique(self.points.series)),
            "points": len(self.points),
            "anomalies": len(self.findings),
            "per_1000": 1000 * share(len(self.findings), len(self.points)),
            "incidents": len(groups),
            "found": detected,
            "missed": real - detected,
            "false": verdicts.count(-1),
            "false_share": share(verdicts.count(-1), judged),
            "precision": share(sum(1 in group for group in groups), labelled),
            "recall": share(detected, real),
            "seconds": self.seconds,
            "per_month": _per_month(len(groups), past),
        }

    def false_incidents(self, past: BacktestHistory) -> int:
        """Return the number of incidents that users labeled as false alarms."""
        verdicts = self._judged(past)[0]
        groups = [{verdicts[index] for index in group} for group in self.groups]
        return sum(-1 in group and 1 not in group for group in groups)

    def details(self, past: BacktestHistory) -> list[BacktestDetailRow]:
        """Return one row for each finding, by incident and time."""
        verdicts = self._judged(past)[0]
        rows: list[BacktestDetailRow] = []
        for number, index in ((n, k) for n, group in enumerate(self.groups, 1) for k in group):
            finding = self.findings[index]
            row = {
                "detector": finding.detector,
                "rule": repr(self.monitor.rule),
                **fields_of(finding.series, ("segment", "name", "instance", "analyzer")),
                **fields_of(finding.partition, ("partition", "time")),
                **fields_of(vars(finding), FINDING_FIELDS),
                "incident": number,
                "said": _VERDICT_NAMES[verdicts[index]],
            }
            rows.append(cast("BacktestDetailRow", row))
        return rows

    def _judged(self, past: BacktestHistory) -> tuple[list[int], int, int]:
        """Return the verdict of each finding, the number of real cases, and the number of detected ones.

        Verdicts are 1 for real, -1 for false and 0 for unlabeled findings. Cases without a measured point
        do not count.
        """
        facts = past.facts
        is_partition_level = isinstance(self.monitor.detector, PartitionDetector)
        if is_partition_level:
            series = [series_of(self.monitor.detector, "")]
        else:
            series = [row for row in facts.series if self.monitor.watches(row)]
        partitions = [row for row in facts.partitions if past.window.holds(row["time"])]
        feedback = FeedbackMatrix.from_labels(
            past.feedback, past.incidents, series, partitions, partition_level=is_partition_level
        )
        row_of = {row["id"]: i for i, row in enumerate(series)}
        column_of = {row["id"]: t for t, row in enumerate(partitions)}
        is_measured = np.zeros(feedback.verdicts.shape, dtype=bool)
        if is_partition_level:
            is_measured[:] = True
        else:
            i = np.array([row_of.get(row["id"], -1) for row in facts.series], dtype=np.intp)
            t = np.array([column_of.get(row["id"], -1) for row in facts.partitions], dtype=np.intp)
            cells = i[facts.of_series], t[facts.of_partition]
            is_selected = (cells[0] >= 0) & (cells[1] >= 0)
            is_measured[cells[0][is_selected], cells[1][is_selected]] = True
        hits = np.zeros(feedback.verdicts.shape, dtype=bool)
        points_found = [
            (
                0 if is_partition_level else row_of[finding.series["id"]],
                column_of[finding.partition["id"]],
            )
            for finding in self.findings
        ]
        for point in points_found:
            hits[point] = True
        real = [points for points in feedback.real.values() if (points & is_measured).any()]
        detected = sum(bool((points & hits).any()) for points in real)
        return [int(feedback.verdicts[point]) for point in points_found], len(real), detected


def _group_findings(facts: Facts, findings: Sequence[Finding]) -> list[list[int]]:
    """Return the indices of findings, grouped into incidents."""
    position_by_id = {
        facts.partitions[index]["id"]: k
        for indices in group_by_segment(facts.partitions).values()
        for k, index in enumerate(indices)
    }
    anomalies = [
        Anomaly(
            n,
            finding.series["id"],
            position_by_id[finding.partition["id"]],
            finding.partition["id"],
            finding.partition["partition"],
            finding.partition["within"],
            finding.partition["time"],
            finding.series["name"],
            finding.series["instance"],
            finding.series["filter"] or "",
            finding.series["segment"],
            "",
            finding.severity,
            finding.direction,
            finding.value,
            finding.expected,
            finding.score,
            finding.explanation,
            None,
        )
        for n, finding in enumerate(findings)
    ]
    return [[finding.id for finding in group] for group in group_anomalies(anomalies)]


def _per_month(incidents: int, past: BacktestHistory) -> float | None:
    """Return the number of incidents in thirty days of a table; None if partitions have no times."""
    times = {row["time"] for row in past.facts.partitions if past.window.holds(row["time"])}
    timed = sorted(time for time in times if time is not None)
    if len(timed) < 2:
        return None
    days = (timed[-1] - timed[0]) / timedelta(days=1) * len(timed) / (len(timed) - 1)
    return incidents * DAYS_PER_MONTH / days


MIN_LABELLED_INCIDENTS = 5
"""With fewer labeled incidents, real and false, the default sensitivity is suggested."""
_PREFERENCE_ORDER = (Sensitivity.NORMAL, Sensitivity.LOW, Sensitivity.HIGH)
"""If several sensitivities are equally good, the first is suggested."""


def monitor_with_sensitivity(detector: Detector | str) -> Monitor:
    """Return a monitor of a detector.

    Raises
    ------
    SuiteError
        If sensitivities do not change the detector's rule.
    """
    return Monitor(detector=detector, sensitivity=Sensitivity.NORMAL)  # type: ignore[arg-type]


def sensitivity_rows(past: BacktestHistory, monitor: Monitor) -> list[SensitivityRow]:
    """Return a row for each sensitivity of a monitor, the least sensitive first.

    The sensitivity with the highest F1 of labeled incidents is suggested. With too few labels it is the
    default.
    """
    rows: dict[Sensitivity, dict[str, Any]] = {}
    for level in Sensitivity:
        candidate = replace(monitor, rule=None, sensitivity=level)
        result = BacktestResult.from_history(past, candidate)
        row = result.row(past)
        row["false"] = result.false_incidents(past)
        rows[level] = fields_of(row, (name for name in columns_of(SensitivityRow) if name in row))
        rows[level] |= {"sensitivity": str(level), "f1": _f1(row["precision"], row["recall"])}
    best = _suggested_sensitivity(rows)
    result_rows = [{**rows[level], "suggested": level is best} for level in Sensitivity]
    return cast("list[SensitivityRow]", result_rows)


def _suggested_sensitivity(rows: Mapping[Sensitivity, Mapping[str, Any]]) -> Sensitivity:
    comparable = [level for level in _PREFERENCE_ORDER if not isnan(rows[level]["f1"])]
    labelled = max(row["found"] + row["missed"] + row["false"] for row in rows.values())
    if labelled < MIN_LABELLED_INCIDENTS or not comparable:
        return Sensitivity.NORMAL
    return max(comparable, key=lambda level: rows[level]["f1"])  # the first of equal ones


def _f1(precision: float, recall: float) -> float:
    """Return the harmonic mean of precision and recall; NaN if one is unknown.

    Examples
    --------
    >>> _f1(1.0, 0.5), _f1(0.0, 0.0)
    (0.6666666666666666, 0.0)
    """
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


SEASON_COLUMNS = columns("segment name instance analyzer seasons")


def seasonal_of(detector: Detector | str) -> Seasonal:
    """Return a `Seasonal` detector, parsed if it is a string.

    Raises
    ------
    SuiteError
        If it is another detector.
    UnknownNameError
        If the detector does not exist.
    """
    parsed = DETECTORS.parse(detector) if isinstance(detector, str) else detector
    if not isinstance(parsed, Seasonal):
        msg = f"{parsed!r} learns no seasons; use Seasonal(), with options if needed"
        raise SuiteError(msg)
    return parsed


def season_rows(past: BacktestHistory, detector: Seasonal) -> list[dict[str, Any]]:
    """Return the seasons of each series that is long enough to be scored, as in `SEASON_COLUMNS`."""
    rows = []
    for within, indices in group_by_segment(past.facts.partitions).items():
        series_matrix = matrix(
            past.facts, indices, detector.reads, detector.min_points, past.teaching
        )
        for row, seasons in zip(
            series_matrix.series, learned_seasons(series_matrix.history, detector), strict=True
        ):
            is_nested = is_in_segment(row["segment"], within)
            segment = row["segment"] if is_nested else f"{within}/{row['segment']}".rstrip("/")
            cells = (segment, row["name"], row["instance"], row["analyzer"], seasons)
            rows.append(dict(zip(SEASON_COLUMNS, cells, strict=True)))
    return rows
