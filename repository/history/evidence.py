"""Evidence for checks from a repository: stored metrics and detectors, never a data scan."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isnan, nan
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.analyzer import AnyAnalyzer
from tidegauge.analyzers.core.description import key_of
from tidegauge.analyzers.core.errors import EmptyStateError, MetricRuntimeError, StateError
from tidegauge.analyzers.core.evidence import AnomalySettings, EarlierValues, Judgement
from tidegauge.analyzers.core.metric import Failure, Metric, Success
from tidegauge.repository.detection.detect import stored_suite
from tidegauge.repository.detection.judge import UNSTORED_ID, JudgedSeries, PointJudge
from tidegauge.repository.detectors.holidays import suite_holidays
from tidegauge.repository.detectors.training import TrainingLabels
from tidegauge.repository.history.targets import CheckTarget, View
from tidegauge.repository.store.facts import FactDimensions, dimensions_of, read_facts
from tidegauge.repository.store.labels import training_labels
from tidegauge.repository.store.queries import MetricQuery, Window, dataset_id, stored_states
from tidegauge.repository.store.rows import PartitionRow

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy.engine import Connection

    from tidegauge.repository.store.artifacts import Payload

FEW = 200
"""Maximum of partitions queried by id; for more, all are read."""


Values = dict[int, Metric[Any]]
"""Metrics by partition id."""


@dataclass
class LoadedEvidence:
    """Metrics of partitions and detectors' judgements, loaded for checks by `load_evidence`.

    Attributes
    ----------
    partitions : list of mapping
        All partitions in order of time, in the format of `Facts`.
    metrics : dict
        Metrics by segment and analyzer.
    judge : PointJudge
        Detectors' judgements.
    instances : frozenset of str
        The columns that something was measured of.
    """

    partitions: Sequence[PartitionRow]
    metrics: dict[tuple[str, AnyAnalyzer], Values]
    judge: PointJudge
    instances: frozenset[str]
    _earlier: dict[tuple[str, str, AnyAnalyzer], EarlierValues] = field(default_factory=dict)

    def of(self, target: CheckTarget) -> PartitionEvidence:
        """Return the evidence of one partition."""
        return PartitionEvidence(self, target)

    def earlier(self, target: CheckTarget, analyzer: AnyAnalyzer) -> EarlierValues:
        """Return the values of a metric in the partitions before the target."""
        key = (target.within, target.segment, analyzer)
        if key not in self._earlier:
            of = self.metrics.get((target.segment, analyzer), {})
            timed = [
                p
                for p in self.partitions
                if p["time"] is not None and p["within"] == target.within and p["id"] != UNSTORED_ID
            ]
            self._earlier[key] = EarlierValues(
                None,
                [time for p in timed if (time := p["time"]) is not None],
                [p["partition"] for p in timed],
                [number(of.get(p["id"])) for p in timed],
            )
        return replace(self._earlier[key], moment=target.time)


@dataclass(frozen=True)
class PartitionEvidence:
    """Evidence of one partition."""

    remembered: LoadedEvidence
    target: CheckTarget

    @property
    def instances(self) -> frozenset[str]:
        """The columns that something was measured of."""
        return self.remembered.instances

    def metric(self, analyzer: AnyAnalyzer) -> Metric[Any] | None:
        """Return the stored metric; None if it was not measured."""
        of = self.remembered.metrics.get((self.target.segment, analyzer), {})
        return of.get(self.target.id)

    def earlier(self, analyzer: AnyAnalyzer) -> EarlierValues | None:
        """Return the values in earlier partitions."""
        return self.remembered.earlier(self.target, analyzer)

    def judged(self, analyzer: AnyAnalyzer, usual: AnomalySettings) -> Judgement | None:
        """Return the detector's judgement of the partition."""
        target = self.target
        line = JudgedSeries(target.within, target.segment, analyzer)
        return self.remembered.judge.judged(line, usual, target.id)


def load_evidence(
    view: View,
    targets: Sequence[CheckTarget],
    analyzers: Collection[AnyAnalyzer],
    historic: Collection[AnyAnalyzer] = (),
    fresh: Mapping[AnyAnalyzer, Metric[Any]] | None = None,
) -> LoadedEvidence:
    """Load the metrics that checks of the targets need.

    Single numbers are read as stored; metrics of several numbers, and metrics that were not
    measured, are computed from stored states.

    Parameters
    ----------
    view : View
    targets : sequence of CheckTarget
    analyzers : collection of Analyzer
        Analyzers needed for the targets themselves.
    historic : collection of Analyzer
        Analyzers needed for all partitions.
    fresh : mapping of Analyzer to Metric, optional
        Metrics of the only target, if it was just measured and is not stored.
    """
    with view.database.read() as connection:
        of = dataset_id(connection, view.dataset)
        known = dimensions_of(connection, of, MetricQuery())
        reader = _Reader(connection, view, known)
        if fresh is None:
            reader.read([a for a in analyzers if a not in historic], _places(targets))
        reader.read(historic, _beside(targets, known[1]))
        partitions = list(known[1])
        said = training_labels(connection, of) if historic else []
        suite = stored_suite(connection, of) if historic else {}
    for target in targets if fresh is not None else ():
        partitions.append(target.row())
        for analyzer, metric in (fresh or {}).items():
            reader.metrics.setdefault((target.segment, analyzer), {})[target.id] = metric
    days = suite_holidays(suite, (row["time"] for row in partitions))
    judge = PointJudge(
        partitions, known[0], reader.metrics, TrainingLabels(said, days), tuple(historic)
    )
    instances = frozenset(str(row["instance"]) for row in known[0])
    return LoadedEvidence(partitions, reader.metrics, judge, instances)


def _places(targets: Iterable[CheckTarget]) -> dict[str, set[int]]:
    """Return the targets' partition ids by segment."""
    places: dict[str, set[int]] = {}
    for target in targets:
        places.setdefault(target.segment, set()).add(target.id)
    return places


def _beside(
    targets: Iterable[CheckTarget], partitions: Iterable[PartitionRow]
) -> dict[str, set[int]]:
    """Return the ids by segment of all partitions that share a target's partition segment."""
    segment = {target.within: target.segment for target in targets}
    places: dict[str, set[int]] = {}
    for row in partitions:
        if row["within"] in segment:
            places.setdefault(segment[row["within"]], set()).add(row["id"])
    return places


class _Reader:
    """Reader of one dataset's metrics: from facts if they are single numbers, else from states."""

    def __init__(self, connection: Connection, view: View, known: FactDimensions) -> None:
        self.connection, self.view, self.known = connection, view, known
        self.metrics: dict[tuple[str, AnyAnalyzer], Values] = {}

    def read(self, analyzers: Iterable[AnyAnalyzer], places: Mapping[str, set[int]]) -> None:
        """Read analyzers' metrics of partitions, whose ids are given by segment."""
        by_key = {key_of(analyzer.canonical()): analyzer for analyzer in analyzers}
        if not by_key or not places:
            return
        self._facts(by_key, places)
        times = {row["id"]: row["time"] for row in self.known[1]}
        lacking: dict[tuple[str, str], list[AnyAnalyzer]] = {}
        for segment, wanted in places.items():
            for analyzer in by_key.values():
                if wanted - self._of(segment, analyzer).keys():
                    lacking.setdefault((segment, analyzer.statistic()), []).append(analyzer)
        for (segment, _), sharing in lacking.items():
            self._states(sharing, segment, places[segment], times)

    def _of(self, segment: str, analyzer: AnyAnalyzer) -> Values:
        return self.metrics.setdefault((segment, analyzer), {})

    def _facts(self, by_key: Mapping[str, AnyAnalyzer], places: Mapping[str, set[int]]) -> None:
        """Read metrics that are single numbers, or failed, from facts."""
        series = [
            row["id"]
            for row in self.known[0]
            if row["key"] in by_key
            and row["segment"] in places
            and row["name"] == by_key[row["key"]].name
        ]
        wanted = sorted(set().union(*places.values()))
        few = wanted if len(wanted) <= FEW else None
        facts = read_facts(
            self.connection,
            self.view.dataset,
            MetricQuery(series=series),
            self.view.as_of,
            few,
            self.known,
        )
        ids = [row["id"] for row in self.known[1]]
        columns = (facts.value, facts.weight, facts.status, facts.error)
        rows = zip(
            facts.of_series.tolist(),
            facts.of_partition.tolist(),
            *(column.tolist() for column in columns),
            strict=True,
        )
        for of, at, *told in rows:
            row = self.known[0][of]
            if ids[at] in places[row["segment"]]:
                analyzer = by_key[row["key"]]
                self._of(row["segment"], analyzer)[ids[at]] = _metric(analyzer, *told)

    def _states(
        self,
        sharing: Sequence[AnyAnalyzer],
        segment: str,
        wanted: set[int],
        times: Mapping[int, datetime | None],
    ) -> None:
        """Compute metrics without facts from states; analyzers that share a state read it once."""
        some = [times[at] for at in wanted]
        known = [time for time in some if time is not None]
        window = Window(min(known), max(known)) if len(known) == len(some) else Window()
        ids = {row["partition"]: row["id"] for row in self.known[1]}
        found = stored_states(
            self.connection, self.view.dataset, sharing[0], window, segment, self.view.as_of
        )
        for state in found:
            at = ids[state.partition]
            asked = [a for a in sharing if at not in self._of(segment, a)]
            if state.payload is not None and at in wanted and asked:
                self._measure(asked, segment, at, state.payload)

    def _measure(
        self, asked: Sequence[AnyAnalyzer], segment: str, at: int, payload: Payload
    ) -> None:
        try:
            read = self.view.artifacts.unpack(payload)
        except StateError as error:
            for analyzer in asked:
                self._of(segment, analyzer)[at] = analyzer.to_failure_metric(error)
            return
        for analyzer in asked:
            self._of(segment, analyzer)[at] = analyzer.compute_metric_from(read)


def _metric(
    analyzer: AnyAnalyzer, value: float, weight: float, status: str, error: str | None
) -> Metric[float]:
    """Rebuild the metric of a stored fact."""
    outcome: Success[float] | Failure = Success(value)
    text = (error or "").partition(": ")[2]  # stored text is prefixed with the error's name
    if status == "empty":
        outcome = Failure(EmptyStateError(text))
    elif status == "failed":
        outcome = Failure(MetricRuntimeError(text))
    rows = None if isnan(weight) else weight
    return Metric(analyzer.entity, analyzer.instance, analyzer.name, outcome, rows)


def number(metric: Metric[Any] | None) -> float:
    """Return a metric's value if it is a single number, else NaN."""
    if metric is None or metric.failed or not isinstance(metric.value, int | float):
        return nan
    return float(metric.value)
