"""Evidence for checks from a repository: stored metrics and detectors, never a data scan.

Check targets are selected first: partitions, or segments of them, in the current or a past view of a
dataset. `load_evidence` then loads the metrics that checks of these targets need.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from math import isnan, nan
from typing import TYPE_CHECKING, Any, cast

import sqlalchemy as sa

from tidegauge.analyzers.core.analyzer import AnyAnalyzer
from tidegauge.analyzers.core.errors import (
    EmptyStateError,
    MetricRuntimeError,
    PartitionSelectionError,
    StateError,
)
from tidegauge.analyzers.core.evidence import AnomalySettings, EarlierValues, Judgement
from tidegauge.analyzers.core.metric import Failure, Metric, Success
from tidegauge.analyzers.core.partitions import (
    Partition,
    joined,
    parse_selection,
    recognise_time,
    select_named,
)
from tidegauge.analyzers.core.registry import key_of
from tidegauge.repository.detection.detect import stored_suite
from tidegauge.repository.detection.judge import UNSTORED_ID, JudgedSeries, PointJudge
from tidegauge.repository.detectors.inputs import TrainingLabels, suite_holidays
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.facts import FactDimensions, dimensions_of, read_facts
from tidegauge.repository.store.labels import training_labels
from tidegauge.repository.store.listing import partition_rows
from tidegauge.repository.store.queries import AsOf, MetricQuery, Window, dataset_id, stored_states
from tidegauge.repository.store.rows import PartitionRow, SelectablePartitionRow

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from tidegauge.repository.store.database import Database
    from tidegauge.repository.store.stored_states import Artifacts, Payload


@dataclass(frozen=True)
class CheckTarget:
    """A partition, or a segment of one, to be checked.

    Attributes
    ----------
    id : int
    partition : str
    time : datetime or None
    within : str
        Segment made by the partition's own keys.
    segment : str
    """

    id: int
    partition: str
    time: datetime | None
    within: str = ""
    segment: str = ""

    def row(self) -> PartitionRow:
        """Return the target as a partition row of `Facts`."""
        return {
            "id": self.id,
            "partition": self.partition,
            "time": self.time,
            "within": self.within,
        }


@dataclass(frozen=True)
class View:
    """View of a dataset, current or as of a past commit.

    Attributes
    ----------
    database : Database
    artifacts : Artifacts
    dataset : str
    as_of : str, date, datetime, int or None
    """

    database: Database
    artifacts: Artifacts
    dataset: str
    as_of: AsOf = None

    def targets(
        self, partitions: str | Sequence[str] | None = None, segment: str = ""
    ) -> list[CheckTarget]:
        """Select partitions, in order of time.

        Parameters
        ----------
        partitions : str or sequence of str, optional
            ``all``, conditions on partition keys, or names; those of the newest time if not given.
            Deleted partitions are selected only by name.
        segment : str
            Segment of each partition that has it; the whole of each if empty.

        Raises
        ------
        PartitionSelectionError
            If the text does not parse, a name does not exist, or nothing is selected; an empty list
            of names selects nothing without an error.
        """
        with self.database.read() as connection:
            ledger = partition_rows(connection, self.dataset, self.as_of, every=False)
        measured = {row["partition"] for row in ledger}
        there = {row["partition"] for row in ledger if row["gone_at"] is None}
        rows = [row for row in self._partitions() if row["partition"] in measured]
        timed = sorted(rows, key=lambda row: row["time"] is not None)
        oldest_first = [row["partition"] for row in timed]
        if partitions is None:
            chosen = _newest([row for row in rows if row["partition"] in there])
        elif partitions == "all":
            chosen = there
        elif isinstance(partitions, str):
            chosen = _selected(timed, there, partitions)
        else:
            chosen = select_named(partitions, oldest_first)
        found = [
            CheckTarget(row["id"], row["partition"], row["time"], row["within"], of)
            for row in rows
            if row["partition"] in chosen and (of := _segment(row["within"], segment)) is not None
        ]
        if not found and (partitions is None or len(partitions)):
            which = f"partitions={partitions!r}, segment={segment!r}"
            msg = f"{self.dataset!r} has no measured partition that is meant by {which}"
            raise PartitionSelectionError(msg)
        return found

    def placed(self, fresh: CheckTarget) -> CheckTarget:
        """Return a new target completed with time and segment, from the ledger or its name."""
        stored = {row["partition"]: row for row in self._partitions()}
        if fresh.partition not in stored or not fresh.partition:
            return placed_by_name(fresh)
        row = stored[fresh.partition]
        return _placed(fresh, row["time"], row["within"])

    def _partitions(self) -> list[SelectablePartitionRow]:
        p = s.partition.c
        columns = (p.id, p.name.label("partition"), p.time, p.segment.label("within"), p.key_values)
        with self.database.read() as connection:
            of = p.dataset_id == dataset_id(connection, self.dataset)
            query = sa.select(*columns).where(of).order_by(p.time.is_(None), p.time, p.name)
            found = [row._asdict() for row in connection.execute(query)]
            return cast("list[SelectablePartitionRow]", found)


def placed_by_name(fresh: CheckTarget) -> CheckTarget:
    """Return a new target completed with time and segment from its partition's name.

    Examples
    --------
    >>> placed_by_name(CheckTarget(1, "ds=2013-02-08", None)).time.isoformat()
    '2013-02-08T00:00:00+00:00'
    """
    named = Partition.from_name(fresh.partition)
    form = recognise_time(named.keys)
    if form is None:
        return _placed(fresh, None, "")
    return _placed(fresh, form.time_of(named), form.segment_of(named))


def _placed(fresh: CheckTarget, time: datetime | None, within: str) -> CheckTarget:
    segment = _segment(within, fresh.segment)
    return replace(fresh, time=fresh.time or time, within=within, segment=segment or within)


def _newest(rows: Sequence[SelectablePartitionRow]) -> set[str]:
    """Return the partitions of the newest time; the last by name where none has a time."""
    timed = [row for row in rows if row["time"] is not None] or rows[-1:]
    return {row["partition"] for row in timed if row["time"] == timed[-1]["time"]}


def _selected(rows: Sequence[SelectablePartitionRow], there: set[str], text: str) -> set[str]:
    """Return the partitions, of those that are there, that a filter selects."""
    by_name = {row["partition"]: _named(row["partition"], row["key_values"]) for row in rows}
    keys = next(iter(by_name.values())).keys if by_name else ()
    selection = parse_selection(text, keys)
    available = [name for name in by_name if name in there]
    return selection.require_match({n for n in available if selection(by_name[n])}, available)


def _named(name: str, values: str) -> Partition:
    """Parse a partition's name given its values, which may contain the separators of keys.

    Examples
    --------
    >>> _named("ds=2013-02-08/place=a/b=c", '["2013-02-08","a/b=c"]').keys
    ('ds', 'place')
    """
    keys, rest, of = [], name, tuple(json.loads(values))
    for value in of:
        keys.append(rest.partition("=")[0])
        rest = rest[len(keys[-1]) + len(value) + 2 :]
    return Partition(tuple(keys), of)


def _segment(within: str, segment: str) -> str | None:
    """Return the full segment within a partition; None if their keys conflict.

    Examples
    --------
    >>> _segment("country=US", ""), _segment("country=US", "origin=EWR"), _segment("", "origin=EWR")
    ('country=US', 'country=US/origin=EWR', 'origin=EWR')
    >>> _segment("country=US", "country=NO")
    """
    if not segment or not within or segment == within or segment.startswith(f"{within}/"):
        return segment or within
    same_key = segment.partition("=")[0] == within.partition("=")[0]
    return None if same_key else joined(within, segment)


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
