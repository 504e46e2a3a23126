"""What detectors say of single points that somebody asks for, each by the partitions before it alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan, nan
from typing import TYPE_CHECKING, Any

import numpy as np

from analyzers.checks.evidence import AnyAnalyzer, Judgement, Usual
from analyzers.description import key_of
from analyzers.errors import SuiteError
from analyzers.metric import Metric, Success
from repository.anomalies.catalogue import DETECTORS
from repository.anomalies.detector import CAP, Detector, History, Scores, WholeDetector
from repository.anomalies.matrices import Row, times_of
from repository.anomalies.monitor import Monitor
from repository.anomalies.rules import RULES
from repository.anomalies.teaching import Teaching

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from repository.anomalies.detector import Floats

FRESH = -1
"""The id of a partition that was measured and is not stored."""


@dataclass(frozen=True)
class Line:
    """One analyzer's number over the partitions that lie within one segment."""

    within: str
    segment: str
    analyzer: AnyAnalyzer


@dataclass
class Judge:
    """Scores series by the partitions before, and decides on single points.

    A detector walks along the partitions in the order of their own times, and judges each by those
    before it: so one that is measured late is not compared with later ones, nor with itself. Where
    two partitions have one time, neither is before the other.

    Attributes
    ----------
    partitions : sequence of mapping
        All, in the order of time; one that is not stored stands last.
    series : sequence of mapping
        Those that are stored, for what people said of them.
    metrics : mapping
        By segment and analyzer, then by the partition's id.
    teaching : Teaching
    analyzers : sequence of Analyzer
        Those that may be asked for; they are scored abreast.
    """

    partitions: Sequence[Row]
    series: Sequence[Row]
    metrics: Mapping[tuple[str, AnyAnalyzer], Mapping[int, Metric[Any]]]
    teaching: Teaching
    analyzers: Sequence[AnyAnalyzer]
    _scored: dict[Any, _Scored] = field(default_factory=dict)
    _monitors: dict[Usual, Monitor] = field(default_factory=dict)
    _timelines: dict[str, _Timeline] = field(default_factory=dict)

    def judged(self, line: Line, usual: Usual, partition: int) -> Judgement | None:
        """Return what a detector says of a point; None if it has no score.

        Raises
        ------
        UnknownNameError
            If there is no such detector or rule.
        SuiteError
            If the detector speaks of whole partitions, not of single series.
        """
        if usual not in self._monitors:
            self._monitors[usual] = monitor_of(usual, line.analyzer)
        if line.within not in self._timelines:
            self._timelines[line.within] = _Timeline.of(self.partitions, line.within)
        monitor, time = self._monitors[usual], self._timelines[line.within]
        if partition not in time.places:  # it has no time
            return None
        alone = time.is_alone(partition)
        key = (line.segment, monitor.detector, line.within if alone else partition)
        if key not in self._scored:
            some = time.partitions if alone else time.until(partition)
            self._scored[key] = self._score(line.segment, monitor.detector, some)
        place = self.analyzers.index(line.analyzer)
        return self._scored[key].judgement(usual, monitor, place, partition)

    def _score(self, segment: str, detector: Detector, partitions: Sequence[Row]) -> _Scored:
        shape = (len(self.analyzers), len(partitions))
        values, weights = np.full(shape, np.nan), np.full(shape, np.nan)
        for i, analyzer in enumerate(self.analyzers):
            of = self.metrics.get((segment, analyzer), {})
            for t, partition in enumerate(partitions):
                values[i, t], weights[i, t] = _number(of.get(partition["id"]))
        rows = [self._row(segment, analyzer) for analyzer in self.analyzers]
        known = self.teaching.of(rows, partitions, ~np.isnan(values))
        scales = [analyzer.scale_of(analyzer.name) for analyzer in self.analyzers]
        history = History(times_of(partitions), values, weights, scales, **known)
        ignored = self.teaching.ignored(rows, partitions)
        may = np.ones(shape, dtype=bool) if ignored is None else ~ignored
        scores = detector.score(history)
        places = {partition["id"]: t for t, partition in enumerate(partitions)}
        return _Scored(values, scores, may, places)

    def _row(self, segment: str, analyzer: AnyAnalyzer) -> Row:
        """Return a series as `Facts` have it, made up if none is stored."""
        made = _made_up(analyzer, segment)
        same = ("segment", "key", "name")
        found = (row for row in self.series if all(row[name] == made[name] for name in same))
        return next(found, made)


@dataclass(frozen=True)
class _Timeline:
    """The partitions within one segment that have a time, in its order.

    Attributes
    ----------
    partitions : sequence of mapping
    places : mapping of int to int
        By the partition's id.
    at : Counter
        How many partitions have each time.
    """

    partitions: Sequence[Row]
    places: Mapping[int, int]
    at: Counter[Any]

    @classmethod
    def of(cls, partitions: Sequence[Row], within: str) -> _Timeline:
        """Take some of all partitions."""
        some = [p for p in partitions if p["time"] is not None and p["within"] == within]
        places = {p["id"]: place for place, p in enumerate(some)}
        return cls(some, places, Counter(p["time"] for p in some))

    def is_alone(self, partition: int) -> bool:
        """Whether a partition is stored, and the only one of its time."""
        time = self.partitions[self.places[partition]]["time"]
        return partition != FRESH and self.at[time] == 1

    def until(self, partition: int) -> list[Row]:
        """Return the partitions before one, and that one."""
        last = self.partitions[self.places[partition]]
        return [*(p for p in self.partitions if p["time"] < last["time"]), last]


@dataclass(frozen=True)
class _Scored:
    """Series that were scored abreast, over some partitions."""

    values: Floats
    scores: Scores
    may: NDArray[np.bool_]
    places: Mapping[int, int]
    flags: dict[Any, NDArray[np.bool_]] = field(default_factory=dict)

    def judgement(
        self, usual: Usual, monitor: Monitor, line: int, partition: int
    ) -> Judgement | None:
        """Decide on one point, as if its series were watched alone."""
        some, at = slice(line, line + 1), self.places[partition]
        scores = self.scores
        expected, lower, upper, score = (
            float(a[line, at]) for a in (scores.expected, scores.lower, scores.upper, scores.score)
        )
        if isnan(score) and isnan(lower) and isnan(upper):
            return None
        key = usual, line
        if key not in self.flags:
            flags = monitor.decide(self.values[some], scores.taken(some), self.may[some])
            self.flags[key] = flags[0]
        p_value = 0.0 if score >= CAP else 10.0**-score
        return Judgement(bool(self.flags[key][at]), expected, lower, upper, p_value)


def _made_up(analyzer: AnyAnalyzer, segment: str) -> Row:
    """Return the series of an analyzer's number, as `Facts` would have it."""
    return {
        "id": -1,
        "segment": segment,
        "name": analyzer.name,
        "instance": analyzer.instance,
        "analyzer": repr(analyzer),
        "kind": type(analyzer).__name__,
        "filter": analyzer.where,
        "key": key_of(analyzer.canonical()),
    }


def monitor_of(usual: Usual, analyzer: AnyAnalyzer) -> Monitor:
    """Return what is meant by usual as a monitor.

    Raises
    ------
    UnknownNameError
        If there is no such detector or rule, with the nearest that there is.
    SuiteError
        If the detector does not look at the analyzer's number.

    Examples
    --------
    >>> from analyzers.counts import Size
    >>> monitor_of(Usual("OnlineNormal(2, 2)"), Size()).rule
    OutsideBand()
    """
    detector = DETECTORS.parse(usual.detector)
    if isinstance(detector, WholeDetector) or not detector.reads(_made_up(analyzer, "")):
        msg = f"{detector!r} says nothing of {analyzer!r}; take one that does, such as Seasonal()"
        raise SuiteError(msg)
    rule = None if usual.rule is None else RULES.parse(usual.rule)
    return Monitor(
        detector=detector, rule=rule, direction=usual.direction, least_effect=usual.least_effect
    )


def _number(metric: Metric[Any] | None) -> tuple[float, float]:
    """Return a metric's value and weight; NaN where it has none, or is no single number."""
    if metric is None or not isinstance(metric.outcome, Success):
        return nan, nan
    value = metric.outcome.value
    if not isinstance(value, int | float):
        return nan, nan
    return float(value), nan if metric.weight is None else float(metric.weight)
