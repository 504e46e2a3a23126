"""Backtest detectors on stored history and score them against user labels. Stores nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from time import perf_counter

import numpy as np

from tidegauge.repository.detection.findings import Finding
from tidegauge.repository.detection.replay import BacktestHistory, series_of
from tidegauge.repository.detectors.base import PartitionDetector
from tidegauge.repository.detectors.matrices import group_by_segment
from tidegauge.repository.detectors.monitor import Monitor
from tidegauge.repository.incidents.anomaly import Anomaly
from tidegauge.repository.incidents.feedback import FeedbackMatrix, share
from tidegauge.repository.incidents.grouping import group_anomalies
from tidegauge.repository.store.facts import Facts
from tidegauge.repository.store.frames import columns
from tidegauge.repository.store.rows import BacktestRow, Record
from tidegauge.repository.store.scorebook import Points

BACKTEST_COLUMNS = columns(
    "detector rule series points anomalies:integer per_1000:number incidents found missed"
    " false false_share:number precision:number recall:number seconds:number per_month:number"
)
DETAIL_COLUMNS = columns(
    "detector rule segment partition time:time name instance analyzer value:number"
    " expected:number lower:number upper:number direction score:number p_value:number"
    " severity incident said explanation"
)
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
        """Return one row of the comparison, with the columns `BACKTEST_COLUMNS`."""
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

    def details(self, past: BacktestHistory) -> list[Record]:
        """Return one row for each finding, by incident and time."""
        said = self._judged(past)[0]
        rows: list[Record] = []
        for number, place in ((n, k) for n, group in enumerate(self.groups, 1) for k in group):
            one = self.findings[place]
            rows.append(
                {
                    **{name: getattr(one, name, None) for name in DETAIL_COLUMNS},
                    **{k: one.series[k] for k in ("segment", "name", "instance", "analyzer")},
                    **{k: one.partition[k] for k in ("partition", "time")},
                    "rule": repr(self.monitor.rule),
                    "incident": number,
                    "said": _SAID[said[place]],
                }
            )
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
        there = np.zeros(known.of.shape, dtype=bool)
        if whole:
            there[:] = True
        else:
            i = np.array([line.get(row["id"], -1) for row in facts.series], dtype=np.intp)
            t = np.array([column.get(row["id"], -1) for row in facts.partitions], dtype=np.intp)
            at = i[facts.of_series], t[facts.of_partition]
            kept = (at[0] >= 0) & (at[1] >= 0)
            there[at[0][kept], at[1][kept]] = True
        hits = np.zeros(known.of.shape, dtype=bool)
        places = [
            (0 if whole else line[one.series["id"]], column[one.partition["id"]])
            for one in self.findings
        ]
        for place in places:
            hits[place] = True
        real = [points for points in known.real.values() if (points & there).any()]
        met = sum(bool((points & hits).any()) for points in real)
        return [int(known.of[place]) for place in places], len(real), met


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
