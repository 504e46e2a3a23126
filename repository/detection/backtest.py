"""Detectors replayed over stored history: backtests, sensitivities and learned seasons. Stores nothing.

`BacktestHistory` replays detectors. `BacktestResult` scores their anomalies against user labels.
`sensitivity_rows` compares sensitivities by what people said of the incidents that each would have
reported, and `season_rows` lists the seasons that a detector has learned of stored series.
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
from tidegauge.repository.detection.detect import find, read_ledger, stored_suite
from tidegauge.repository.detection.findings import FINDING_FIELDS, Finding, scored_partitions
from tidegauge.repository.detectors.base import (
    DETECTORS,
    Detector,
    PartitionDetector,
    PartitionLedger,
)
from tidegauge.repository.detectors.inputs import (
    Matrix,
    TrainingLabels,
    group_by_segment,
    matrix,
    suite_holidays,
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
    window : Window
        Points in it are counted; everything before it is training history.
    teaching : TrainingLabels
        Labels and holidays, with ``ignore`` read as ``expected``.
    said : sequence of LabelEffect
        Labels by users that judge alarms.
    incidents : mapping of int to int
        The stored incident of each stored anomaly.
    ledgers : mapping of str to PartitionLedger
        By partition segment: the segment that the non-time partition keys form.
    """

    facts: Facts
    window: Window
    teaching: TrainingLabels
    said: Sequence[LabelEffect]
    incidents: Mapping[int, int]
    ledgers: Mapping[str, PartitionLedger]

    @classmethod
    def read(cls, connection: Connection, dataset: str, query: MetricQuery) -> BacktestHistory:
        """Read the series that a query selects, over all time; its window limits what is counted."""
        of = dataset_id(connection, dataset)
        facts = read_facts(connection, dataset, replace(query, window=Window()))
        partitions, now = facts.partitions, datetime.now(UTC)
        # An ignored point counts as a false alarm if a detector flags it: so exclude it from
        # training only, not from detection.
        said = [
            replace(one, label="expected") if one.label == "ignore" else one
            for one in training_labels(connection, of)
        ]
        suite = stored_suite(connection, of)
        return cls(
            facts,
            query.window,
            TrainingLabels(said, suite_holidays(suite, (row["time"] for row in partitions))),
            feedback_labels(connection, of),
            incidents_of(connection, of),
            {
                within: read_ledger(connection, [partitions[place] for place in places], now)
                for within, places in group_by_segment(partitions).items()
            },
        )

    def tried(self, monitor: Monitor) -> tuple[list[Finding], Points]:
        """Return a monitor's findings in the window, and all points that it scores."""
        if isinstance(monitor.detector, PartitionDetector):
            return _wholes(self, monitor, monitor.detector)
        found, points = find(self.facts, [monitor], self.window, self.teaching)
        return list(found.values()), points


def series_of(detector: Detector, within: str) -> SeriesRow:
    """Return the series of a partition-level detector's measure, which need not be stored."""
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


def _wholes(
    past: BacktestHistory, monitor: Monitor, detector: PartitionDetector
) -> tuple[list[Finding], Points]:
    """Score and judge whole partitions with a partition-level detector."""
    facts, findings, points = past.facts, [], []
    for within, places in group_by_segment(facts.partitions).items():
        wanted = monitor.watches if detector.needs_values else _nothing
        one = matrix(facts, places, wanted, 1, past.teaching)
        judged, anomalies = scored_partitions(
            detector,
            [monitor],
            replace(one, series=[series_of(detector, within)]),
            replace(past.ledgers[within], muted=_muted(past, detector, within, one)),
            past.window,
        )
        points.append(judged.points())
        findings += anomalies
    return findings, Points.concatenate(points)


def _muted(
    past: BacktestHistory, detector: PartitionDetector, within: str, one: Matrix
) -> NDArray[np.bool_] | None:
    """Return a mask of the partitions that labels exclude from training of a detector."""
    stored = (
        row
        for row in past.facts.series
        if row["kind"] == Watched.__name__
        and (row["analyzer"], row["segment"]) == (repr(detector), within)
    )
    own = next(stored, series_of(detector, within))
    muted = past.teaching.muted([own], one.partitions)
    return None if muted is None else muted[0]


def _nothing(row: SeriesRow) -> bool:
    return False


MONTH = 30
"""Days of a month, for the number of incidents of one."""
_SAID = {1: "real", -1: "false", 0: None}


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
        findings, points = past.tried(monitor)
        seconds = perf_counter() - start
        counting = [row["id"] for row in past.facts.partitions if past.window.holds(row["time"])]
        points = points.taken(np.flatnonzero(np.isin(points.partition, counting)))
        return cls(monitor, points, findings, _groups(past.facts, findings), seconds)

    def row(self, past: BacktestHistory) -> BacktestRow:
        """Return one row of the comparison."""
        said, real, met = self._judged(past)
        judged = sum(x != 0 for x in said)
        groups = [{said[place] for place in group} for group in self.groups]
        told = sum(bool(group - {0}) for group in groups)
        return {
            "detector": repr(self.monitor.detector),
            "rule": repr(self.monitor.rule),
            "series": len(np.unique(self.points.series)),
            "points": len(self.points),
            "anomalies": len(self.findings),
            "per_1000": 1000 * share(len(self.findings), len(self.points)),
            "incidents": len(groups),
            "found": met,
            "missed": real - met,
            "false": said.count(-1),
            "false_share": share(said.count(-1), judged),
            "precision": share(sum(1 in group for group in groups), told),
            "recall": share(met, real),
            "seconds": self.seconds,
            "per_month": _per_month(len(groups), past),
        }

    def false_incidents(self, past: BacktestHistory) -> int:
        """Return the number of incidents of which people said that they are none."""
        said = self._judged(past)[0]
        groups = [{said[place] for place in group} for group in self.groups]
        return sum(-1 in group and 1 not in group for group in groups)

    def details(self, past: BacktestHistory) -> list[BacktestDetailRow]:
        """Return one row for each finding, by incident and time."""
        said = self._judged(past)[0]
        rows: list[BacktestDetailRow] = []
        for number, place in ((n, k) for n, group in enumerate(self.groups, 1) for k in group):
            one = self.findings[place]
            row = {
                "detector": one.detector,
                "rule": repr(self.monitor.rule),
                **fields_of(one.series, ("segment", "name", "instance", "analyzer")),
                **fields_of(one.partition, ("partition", "time")),
                **fields_of(vars(one), FINDING_FIELDS),
                "incident": number,
                "said": _SAID[said[place]],
            }
            rows.append(cast("BacktestDetailRow", row))
        return rows

    def _judged(self, past: BacktestHistory) -> tuple[list[int], int, int]:
        """Return the verdict of each finding, the number of real cases, and how many were detected.

        Verdicts are 1 for real, -1 for false, 0 for unlabelled. Cases without a measured point do
        not count.
        """
        facts = past.facts
        whole = isinstance(self.monitor.detector, PartitionDetector)
        if whole:
            series = [series_of(self.monitor.detector, "")]
        else:
            series = [row for row in facts.series if self.monitor.watches(row)]
        partitions = [row for row in facts.partitions if past.window.holds(row["time"])]
        known = FeedbackMatrix.from_labels(
            past.said, past.incidents, series, partitions, whole=whole
        )
        line = {row["id"]: i for i, row in enumerate(series)}
        column = {row["id"]: t for t, row in enumerate(partitions)}
        there = np.zeros(known.verdicts.shape, dtype=bool)
        if whole:
            there[:] = True
        else:
            i = np.array([line.get(row["id"], -1) for row in facts.series], dtype=np.intp)
            t = np.array([column.get(row["id"], -1) for row in facts.partitions], dtype=np.intp)
            at = i[facts.of_series], t[facts.of_partition]
            kept = (at[0] >= 0) & (at[1] >= 0)
            there[at[0][kept], at[1][kept]] = True
        hits = np.zeros(known.verdicts.shape, dtype=bool)
        places = [
            (0 if whole else line[one.series["id"]], column[one.partition["id"]])
            for one in self.findings
        ]
        for place in places:
            hits[place] = True
        real = [points for points in known.real.values() if (points & there).any()]
        met = sum(bool((points & hits).any()) for points in real)
        return [int(known.verdicts[place]) for place in places], len(real), met


def _groups(facts: Facts, findings: Sequence[Finding]) -> list[list[int]]:
    """Return the indices of findings, grouped into incidents."""
    place = {
        facts.partitions[of]["id"]: k
        for places in group_by_segment(facts.partitions).values()
        for k, of in enumerate(places)
    }
    anomalies = [
        Anomaly(
            n,
            one.series["id"],
            place[one.partition["id"]],
            one.partition["id"],
            one.partition["partition"],
            one.partition["within"],
            one.partition["time"],
            one.series["name"],
            one.series["instance"],
            one.series["filter"] or "",
            one.series["segment"],
            "",
            one.severity,
            one.direction,
            one.value,
            one.expected,
            one.score,
            one.explanation,
            None,
        )
        for n, one in enumerate(findings)
    ]
    return [[one.id for one in group] for group in group_anomalies(anomalies)]


def _per_month(incidents: int, past: BacktestHistory) -> float | None:
    """Return a number of incidents for thirty days of a table; None where partitions have no times."""
    times = {row["time"] for row in past.facts.partitions if past.window.holds(row["time"])}
    known = sorted(time for time in times if time is not None)
    if len(known) < 2:
        return None
    days = (known[-1] - known[0]) / timedelta(days=1) * len(known) / (len(known) - 1)
    return incidents * MONTH / days


LEAST = 5
"""Labelled incidents, real and false, from which another sensitivity than the default is suggested."""
_ORDER = (Sensitivity.NORMAL, Sensitivity.LOW, Sensitivity.HIGH)
"""The sensitivities, the one first that is preferred to others that are as good."""


def monitor_with_sensitivity(detector: Detector | str) -> Monitor:
    """Return a monitor of a detector.

    Raises
    ------
    SuiteError
        If the detector's rule is not one that sensitivities change.
    """
    return Monitor(detector=detector, sensitivity=Sensitivity.NORMAL)  # type: ignore[arg-type]


def sensitivity_rows(past: BacktestHistory, monitor: Monitor) -> list[SensitivityRow]:
    """Return a row for each sensitivity of a monitor, the least sensitive first.

    That with the highest F1 of labelled incidents is suggested; the default, if fewer than `LEAST`
    labels tell anything.
    """
    rows: dict[Sensitivity, dict[str, Any]] = {}
    for level in Sensitivity:
        tried = replace(monitor, rule=None, sensitivity=level)
        result = BacktestResult.from_history(past, tried)
        row = result.row(past)
        row["false"] = result.false_incidents(past)
        rows[level] = fields_of(row, (name for name in columns_of(SensitivityRow) if name in row))
        rows[level] |= {"sensitivity": str(level), "f1": _f1(row["precision"], row["recall"])}
    best = _best(rows)
    told = [{**rows[level], "suggested": level is best} for level in Sensitivity]
    return cast("list[SensitivityRow]", told)


def _best(rows: Mapping[Sensitivity, Mapping[str, Any]]) -> Sensitivity:
    known = [level for level in _ORDER if not isnan(rows[level]["f1"])]
    labelled = max(row["found"] + row["missed"] + row["false"] for row in rows.values())
    if labelled < LEAST or not known:
        return Sensitivity.NORMAL
    return max(known, key=lambda level: rows[level]["f1"])  # of equal ones, the first


def _f1(precision: float, recall: float) -> float:
    """Return the harmonic mean of precision and recall; NaN if one is unknown.

    Examples
    --------
    >>> _f1(1.0, 0.5), _f1(0.0, 0.0)
    (0.6666666666666666, 0.0)
    """
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


SEASON_COLUMNS = columns("segment name instance analyzer seasons")


def seasonal_of(given: Detector | str) -> Seasonal:
    """Return a detector, or that of a text, if it is `Seasonal`.

    Raises
    ------
    SuiteError
        If it is another.
    UnknownNameError
        If there is no such detector.
    """
    found = DETECTORS.parse(given) if isinstance(given, str) else given
    if not isinstance(found, Seasonal):
        msg = f"{found!r} learns no seasons; take Seasonal(), with options if any"
        raise SuiteError(msg)
    return found


def season_rows(past: BacktestHistory, detector: Seasonal) -> list[dict[str, Any]]:
    """Return the seasons of each series that is long enough to be scored, as in `SEASON_COLUMNS`."""
    found = []
    for within, places in group_by_segment(past.facts.partitions).items():
        one = matrix(past.facts, places, detector.reads, detector.least, past.teaching)
        for row, seasons in zip(one.series, learned_seasons(one.history, detector), strict=True):
            nested = is_in_segment(row["segment"], within)
            segment = row["segment"] if nested else f"{within}/{row['segment']}".rstrip("/")
            told = (segment, row["name"], row["instance"], row["analyzer"], seasons)
            found.append(dict(zip(SEASON_COLUMNS, told, strict=True)))
    return found
