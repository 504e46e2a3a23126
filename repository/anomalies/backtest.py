"""What detectors would have found in the past, and how that agrees with what people said. Stores nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from analyzers.errors import SuiteError
from repository.anomalies.anomaly import Anomaly
from repository.anomalies.detector import Detector, WholeDetector
from repository.anomalies.finding import Finding
from repository.anomalies.incidents import grouped
from repository.anomalies.matrices import timeline
from repository.anomalies.monitor import Monitor
from repository.anomalies.replaying import Past, series_of
from repository.anomalies.rules import RULES, Rule
from repository.anomalies.scorebook import Points
from repository.anomalies.verdicts import Verdicts, share
from repository.facts import Facts

if TYPE_CHECKING:
    pass

Row = Mapping[str, Any]
Judge = Detector | Monitor | str
"""What can be tried: a detector, its text, or a monitor."""

BACKTEST_COLUMNS = (
    "detector",
    "rule",
    "series",
    "points",
    "anomalies",
    "per_1000",
    "incidents",
    "found",
    "missed",
    "false",
    "false_share",
    "precision",
    "recall",
    "seconds",
)
DETAIL_COLUMNS = (
    "detector",
    "rule",
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
    "severity",
    "incident",
    "said",
    "explanation",
)
_SAID = {1: "real", -1: "false", 0: None}


def monitors_of(given: Judge | Sequence[Judge], rule: Rule | str | None) -> list[Monitor]:
    """Return what is to be tried as monitors.

    Parameters
    ----------
    given : Detector, Monitor, str, or sequence of these
    rule : Rule or str, optional
        In place of each one's own.

    Raises
    ------
    UnknownNameError
        If there is no such detector or rule, with the nearest that there is.
    SuiteError
        If nothing, or something else, was given.

    Examples
    --------
    >>> [str(monitor.rule) for monitor in monitors_of(["OnlineNormal(2, 2)", "Seasonal"], None)]
    ['OutsideBand()', 'FalseDiscoveryRate()']
    """
    several = [given] if isinstance(given, Detector | Monitor | str) else list(given)
    if not several:
        msg = "a backtest tries at least one detector, such as 'Seasonal()'"
        raise SuiteError(msg)
    chosen = RULES.parse(rule) if isinstance(rule, str) else rule
    found = []
    for one in several:
        if not isinstance(one, Detector | Monitor | str):
            msg = f"a backtest tries detectors, their texts or monitors, not {one!r}"
            raise SuiteError(msg)
        # A monitor reads a detector's text itself.
        monitor = one if isinstance(one, Monitor) else Monitor(detector=one)  # type: ignore[arg-type]
        found.append(monitor if chosen is None else replace(monitor, rule=chosen))
    return found


@dataclass(frozen=True)
class Replay:
    """What one monitor would have found.

    Attributes
    ----------
    monitor : Monitor
    points : Points
        Those that were scored, in the window.
    findings : list of Finding
    groups : list of list of int
        The places of the findings that make an incident together.
    seconds : float
    """

    monitor: Monitor
    points: Points
    findings: Sequence[Finding]
    groups: Sequence[Sequence[int]]
    seconds: float

    @classmethod
    def of(cls, past: Past, monitor: Monitor) -> Replay:
        """Try a monitor."""
        start = perf_counter()
        findings, points = past.tried(monitor)
        seconds = perf_counter() - start
        counting = [row["id"] for row in past.facts.partitions if past.window.holds(row["time"])]
        points = points.taken(np.flatnonzero(np.isin(points.partition, counting)))
        return cls(monitor, points, findings, _groups(past.facts, findings), seconds)

    def row(self, past: Past) -> Row:
        """Return it as one row of a comparison."""
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
        }

    def details(self, past: Past) -> list[Row]:
        """Return what was found, in order of time."""
        said = self._judged(past)[0]
        rows: list[Row] = []
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

    def _judged(self, past: Past) -> tuple[list[int], int, int]:
        """Return what was said of each finding, how many are real, and how many of these are met."""
        facts = past.facts
        whole = isinstance(self.monitor.detector, WholeDetector)
        if whole:
            series = [series_of(self.monitor.detector, "")]
        else:
            series = [row for row in facts.series if self.monitor.watches(row)]
        partitions = [row for row in facts.partitions if past.window.holds(row["time"])]
        known = Verdicts.among(past.said, past.incidents, series, partitions, whole=whole)
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
    """Return the places of findings that belong together."""
    place = {
        facts.partitions[of]["id"]: k
        for places in timeline(facts.partitions).values()
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
    return [[one.id for one in group] for group in grouped(anomalies)]
