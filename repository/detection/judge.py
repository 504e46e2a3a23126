"""Judge single points on request, each by earlier partitions only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan, nan
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegauge.analyzers.core.analyzer import AnyAnalyzer
from tidegauge.analyzers.core.errors import SuiteError
from tidegauge.analyzers.core.evidence import AnomalySettings, Judgement
from tidegauge.analyzers.core.metric import Metric, Success
from tidegauge.analyzers.core.registry import key_of
from tidegauge.repository.detectors.base import (
    DETECTORS,
    Detector,
    History,
    PartitionDetector,
    Scores,
)
from tidegauge.repository.detectors.inputs import TrainingLabels, extremes_of, times_of
from tidegauge.repository.detectors.monitor import Monitor
from tidegauge.repository.detectors.rules import RULES
from tidegauge.repository.numerics.arrays import MAX_SCORE
from tidegauge.repository.store.rows import PartitionRow, SeriesRow

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.repository.numerics.arrays import Floats

UNSTORED_ID = -1
"""The id of a partition that was measured but is not stored."""


@dataclass(frozen=True)
class JudgedSeries:
    """A series to judge: an analyzer's number in a segment, over one partition segment's partitions."""

    within: str
    segment: str
    analyzer: AnyAnalyzer


@dataclass
class PointJudge:
    """Scorer of series by earlier partitions, with decisions on single points.

    A detector scores the partitions in order of their own times, each by the partitions before it. A
    partition that is measured late is therefore not compared with later ones. Partitions with equal times
    are not compared with each other.

    Attributes
    ----------
    partitions : sequence of mapping
        All partitions in order of time. A partition that is not stored comes last.
    series : sequence of mapping
        The stored series, which are matched with labels.
    metrics : mapping
        Metrics by segment and analyzer, then by partition id.
    teaching : TrainingLabels
        Labels and holidays.
    analyzers : sequence of Analyzer
        The analyzers that can be judged. They are scored together.
    """

    partitions: Sequence[PartitionRow]
    series: Sequence[SeriesRow]
    metrics: Mapping[tuple[str, AnyAnalyzer], Mapping[int, Metric[Any]]]
    teaching: TrainingLabels
    analyzers: Sequence[AnyAnalyzer]
    _scored: dict[Any, _Scored] = field(default_factory=dict)
    _monitors: dict[AnomalySettings, Monitor] = field(default_factory=dict)
    _timelines: dict[str, _Timeline] = field(default_factory=dict)

    def judged(
        self, series: JudgedSeries, usual: AnomalySettings, partition: int
    ) -> Judgement | None:
        """Return a detector's judgment of a point; None without a score or a time of the partition.

        Raises
        ------
        UnknownNameError
            If the detector or rule does not exist.
        SuiteError
            If the detector judges whole partitions, not single series.
        """
        if usual not in self._monitors:
            self._monitors[usual] = monitor_of(usual, series.analyzer)
        if series.within not in self._timelines:
            self._timelines[series.within] = _Timeline.from_partitions(
                self.partitions, series.within
            )
        monitor, time = self._monitors[usual], self._timelines[series.within]
        if partition not in time.index_by_id:  # the partition has no time
            return None
        is_alone = time.is_alone(partition)
        key = (series.segment, monitor.detector, series.within if is_alone else partition)
        if key not in self._scored:
            partitions = time.partitions if is_alone else time.partitions_before(partition)
            self._scored[key] = self._score(series.segment, monitor.detector, partitions)
        index = self.analyzers.index(series.analyzer)
        return self._scored[key].judgement(usual, monitor, index, partition)

    def _score(
        self, segment: str, detector: Detector, partitions: Sequence[PartitionRow]
    ) -> _Scored:
        shape = (len(self.analyzers), len(partitions))
        values, weights = np.full(shape, np.nan), np.full(shape, np.nan)
        for i, analyzer in enumerate(self.analyzers):
            metrics = self.metrics.get((segment, analyzer), {})
            for t, partition in enumerate(partitions):
                values[i, t], weights[i, t] = _number(metrics.get(partition["id"]))
        rows = [self._row(segment, analyzer) for analyzer in self.analyzers]
        exclusions = self.teaching.history_arguments(rows, partitions, ~np.isnan(values))
        scales = [analyzer.scale_of(analyzer.name) for analyzer in self.analyzers]
        times = times_of(partitions)
        extremes = extremes_of(rows)
        history = History(
            times, values, weights, scales, extremes=extremes, series=rows, **exclusions
        )
        ignored = self.teaching.ignored(rows, partitions)
        may_alert = np.ones(shape, dtype=bool) if ignored is None else ~ignored
        scores = detector.score(history)
        index_by_id = {partition["id"]: t for t, partition in enumerate(partitions)}
        return _Scored(values, scores, may_alert, index_by_id)

    def _row(self, segment: str, analyzer: AnyAnalyzer) -> SeriesRow:
        """Return a series as in `Facts`, or a synthetic row if none is stored."""
        synthetic = _synthetic_series(analyzer, segment)
        key = synthetic["segment"], synthetic["key"], synthetic["name"]
        matches = (r for r in self.series if (r["segment"], r["key"], r["name"]) == key)
        return next(matches, synthetic)


@dataclass(frozen=True)
class _Timeline:
    """The partitions of one partition segment that have a time, in order of time.

    Attributes
    ----------
    partitions : sequence of mapping
    index_by_id : mapping of int to int
        Index of each partition by id.
    time_counts : Counter
        Number of partitions at each time.
    """

    partitions: Sequence[PartitionRow]
    index_by_id: Mapping[int, int]
    time_counts: Counter[Any]

    @classmethod
    def from_partitions(cls, partitions: Sequence[PartitionRow], within: str) -> _Timeline:
        """Select the partitions of a partition segment that have a time."""
        timed = [p for p in partitions if p["time"] is not None and p["within"] == within]
        index_by_id = {p["id"]: index for index, p in enumerate(timed)}
        return cls(timed, index_by_id, Counter(p["time"] for p in timed))

    def is_alone(self, partition: int) -> bool:
        """Return whether a partition is stored and the only one at its time."""
        time = self.partitions[self.index_by_id[partition]]["time"]
        return partition != UNSTORED_ID and self.time_counts[time] == 1

    def partitions_before(self, partition: int) -> list[PartitionRow]:
        """Return the partitions before a partition's time, followed by the partition itself."""
        last = self.partitions[self.index_by_id[partition]]
        times = ((p, p["time"]) for p in self.partitions)
        return [*(p for p, time in times if time and last["time"] and time < last["time"]), last]


@dataclass(frozen=True)
class _Scored:
    """Scores of a segment's series over partitions."""

    values: Floats
    scores: Scores
    may_alert: NDArray[np.bool_]
    index_by_id: Mapping[int, int]
    flags: dict[Any, NDArray[np.bool_]] = field(default_factory=dict)

    def judgement(
        self, usual: AnomalySettings, monitor: Monitor, row: int, partition: int
    ) -> Judgement | None:
        """Decide on one point, as if its series were monitored alone."""
        rows, column = slice(row, row + 1), self.index_by_id[partition]
        scores = self.scores
        expected, lower, upper, score = (
            float(a[row, column])
            for a in (scores.expected, scores.lower, scores.upper, scores.score)
        )
        if isnan(score) and isnan(lower) and isnan(upper):
            return None
        key = usual, row
        if key not in self.flags:
            flags = monitor.decide(self.values[rows], scores.take(rows), self.may_alert[rows])
            self.flags[key] = flags[0]
        p_value = 0.0 if score >= MAX_SCORE else 10.0**-score
        return Judgement(bool(self.flags[key][column]), expected, lower, upper, p_value)


def _synthetic_series(analyzer: AnyAnalyzer, segment: str) -> SeriesRow:
    """Return a synthetic series for an analyzer's number, as `Facts` would have it."""
    return {
        "id": -1,
        "segment": segment,
        "entity": str(analyzer.entity),
        "name": analyzer.name,
        "instance": analyzer.instance,
        "analyzer": repr(analyzer),
        "scale": analyzer.scale_of(analyzer.name),
        "kind": type(analyzer).__name__,
        "filter": analyzer.where,
        "key": key_of(analyzer.canonical()),
    }


def monitor_of(usual: AnomalySettings, analyzer: AnyAnalyzer) -> Monitor:
    """Return the monitor that `AnomalySettings` describe.

    Raises
    ------
    UnknownNameError
        If the detector or rule does not exist; names the nearest match.
    SuiteError
        If the detector does not read the analyzer's number.

    Examples
    --------
    >>> from tidegauge.analyzers.measures.counts import Size
    >>> monitor_of(AnomalySettings("OnlineNormal(2, 2)"), Size()).rule
    OutsideBand()
    """
    detector = DETECTORS.parse(usual.detector)
    if isinstance(detector, PartitionDetector) or not detector.reads(
        _synthetic_series(analyzer, "")
    ):
        msg = f"{detector!r} does not apply to {analyzer!r}; use a detector of single series, such as Seasonal()"
        raise SuiteError(msg)
    rule = None if usual.rule is None else RULES.parse(usual.rule)
    return Monitor(
        detector=detector, rule=rule, direction=usual.direction, least_effect=usual.least_effect
    )


def _number(metric: Metric[Any] | None) -> tuple[float, float]:
    """Return a metric's value and weight; NaN if missing or not a single number."""
    if metric is None or not isinstance(metric.outcome, Success):
        return nan, nan
    value = metric.outcome.value
    if not isinstance(value, int | float):
        return nan, nan
    return float(value), nan if metric.weight is None else float(metric.weight)
