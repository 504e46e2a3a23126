"""What a repository knows of partitions, as checks are judged by: read as columns, never by scanning data."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isnan, nan
from typing import TYPE_CHECKING, Any

from analyzers.checks.evidence import AnyAnalyzer, Earlier, Judgement, Usual
from analyzers.description import key_of
from analyzers.errors import EmptyStateError, MetricRuntimeError, StateError
from analyzers.metric import Failure, Metric, Success
from repository.anomalies.calendar import holidays_of
from repository.anomalies.detection import stored_suite
from repository.anomalies.judging import FRESH, Judge, Line
from repository.anomalies.teaching import Teaching
from repository.facts import Row, dimensions_of, read_facts
from repository.history import MetricQuery, Window, dataset_id, stored_states
from repository.labels import said_of
from repository.targets import Target, View

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy.engine import Connection

    from repository.artifacts import Payload

FEW = 200
"""So many partitions are asked for by their ids; more by reading all."""


Values = dict[int, Metric[Any]]
"""Metrics by the ids of partitions."""


@dataclass
class Remembered:
    """All that a dataset's repository tells of some partitions, for checks; made by `remember`.

    Attributes
    ----------
    partitions : list of mapping
        All, in the order of time, as `Facts` have them.
    metrics : dict
        By segment and analyzer.
    judge : Judge
        What detectors say.
    """

    partitions: Sequence[Row]
    metrics: dict[tuple[str, AnyAnalyzer], Values]
    judge: Judge
    _earlier: dict[tuple[str, str, AnyAnalyzer], Earlier] = field(default_factory=dict)

    def of(self, target: Target) -> Known:
        """Return what is known of one partition."""
        return Known(self, target)

    def earlier(self, target: Target, analyzer: AnyAnalyzer) -> Earlier:
        """Return the values of a metric before a partition."""
        key = (target.within, target.segment, analyzer)
        if key not in self._earlier:
            of = self.metrics.get((target.segment, analyzer), {})
            timed = [
                p
                for p in self.partitions
                if p["time"] is not None and p["within"] == target.within and p["id"] != FRESH
            ]
            self._earlier[key] = Earlier(
                None,
                [p["time"] for p in timed],
                [p["partition"] for p in timed],
                [number(of.get(p["id"])) for p in timed],
            )
        return replace(self._earlier[key], moment=target.time)


@dataclass(frozen=True)
class Known:
    """The evidence of one partition."""

    remembered: Remembered
    target: Target

    def metric(self, analyzer: AnyAnalyzer) -> Metric[Any] | None:
        """Return what was measured; None if nothing was."""
        of = self.remembered.metrics.get((self.target.segment, analyzer), {})
        return of.get(self.target.id)

    def earlier(self, analyzer: AnyAnalyzer) -> Earlier | None:
        """Return the values before."""
        return self.remembered.earlier(self.target, analyzer)

    def judged(self, analyzer: AnyAnalyzer, usual: Usual) -> Judgement | None:
        """Ask the detector."""
        target = self.target
        line = Line(target.within, target.segment, analyzer)
        return self.remembered.judge.judged(line, usual, target.id)


def remember(
    view: View,
    targets: Sequence[Target],
    analyzers: Collection[AnyAnalyzer],
    historic: Collection[AnyAnalyzer] = (),
    fresh: Mapping[AnyAnalyzer, Metric[Any]] | None = None,
) -> Remembered:
    """Read what checks of some partitions need.

    Numbers are read as they were stored; what is made of several numbers, and what was never asked
    for, comes from stored states.

    Parameters
    ----------
    view : View
    targets : sequence of Target
    analyzers : collection of Analyzer
        What is looked at in the targets themselves.
    historic : collection of Analyzer
        What is looked at in all partitions.
    fresh : mapping of Analyzer to Metric, optional
        What the only target was measured to be, where it is not stored.
    """
    with view.repository.database.read() as connection:
        of = dataset_id(connection, view.dataset)
        known = dimensions_of(connection, of, MetricQuery())
        reader = _Reader(connection, view, known)
        if fresh is None:
            reader.read([a for a in analyzers if a not in historic], _places(targets))
        reader.read(historic, _beside(targets, known[1]))
        partitions = list(known[1])
        said = said_of(connection, of) if historic else []
        calendar = stored_suite(connection, of).get("holidays") if historic else None
    for target in targets if fresh is not None else ():
        partitions.append(target.row())
        for analyzer, metric in (fresh or {}).items():
            reader.metrics.setdefault((target.segment, analyzer), {})[target.id] = metric
    days = holidays_of(calendar, (row["time"] for row in partitions))
    judge = Judge(partitions, known[0], reader.metrics, Teaching(said, days), tuple(historic))
    return Remembered(partitions, reader.metrics, judge)


def _places(targets: Iterable[Target]) -> dict[str, set[int]]:
    """Return the ids of partitions by the segments that are looked at there."""
    places: dict[str, set[int]] = {}
    for target in targets:
        places.setdefault(target.segment, set()).add(target.id)
    return places


def _beside(targets: Iterable[Target], partitions: Iterable[Row]) -> dict[str, set[int]]:
    """Return the same for all partitions that have what is looked at in some."""
    segment = {target.within: target.segment for target in targets}
    places: dict[str, set[int]] = {}
    for row in partitions:
        if row["within"] in segment:
            places.setdefault(segment[row["within"]], set()).add(row["id"])
    return places


class _Reader:
    """Reads metrics of one dataset: facts where they are one number, else states."""

    def __init__(
        self, connection: Connection, view: View, known: tuple[list[Row], list[Row]]
    ) -> None:
        self.connection, self.view, self.known = connection, view, known
        self.metrics: dict[tuple[str, AnyAnalyzer], Values] = {}

    def read(self, analyzers: Iterable[AnyAnalyzer], places: Mapping[str, set[int]]) -> None:
        """Read some analyzers' metrics of some partitions, which are given by segment."""
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
        """Read what is one number, or failed."""
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
        """Measure from states what has no number of its own; analyzers that share a state read it once."""
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
            read = self.view.repository.artifacts.unpack(payload)
        except StateError as error:
            for analyzer in asked:
                self._of(segment, analyzer)[at] = analyzer.to_failure_metric(error)
            return
        for analyzer in asked:
            self._of(segment, analyzer)[at] = analyzer.compute_metric_from(read)


def _metric(
    analyzer: AnyAnalyzer, value: float, weight: float, status: str, error: str | None
) -> Metric[float]:
    """Return a stored fact as the metric that it was."""
    outcome: Success[float] | Failure = Success(value)
    text = (error or "").partition(": ")[2]  # what is stored begins with the error's name
    if status == "empty":
        outcome = Failure(EmptyStateError(text))
    elif status == "failed":
        outcome = Failure(MetricRuntimeError(text))
    rows = None if isnan(weight) else weight
    return Metric(analyzer.entity, analyzer.instance, analyzer.name, outcome, rows)


def number(metric: Metric[Any] | None) -> float:
    """Return a metric's value if it is one number, else NaN."""
    if metric is None or metric.failed or not isinstance(metric.value, int | float):
        return nan
    return float(metric.value)
