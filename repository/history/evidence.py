"""Evidence for checks from a repository: stored metrics and detectors, never a data scan.

Targets of checks are partitions, or segments of partitions, in the current or a past view of a
dataset. Select them first; then `load_evidence` loads the metrics that checks of them need.
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
from tidegauge.repository.detectors.inputs import TrainingLabels, suite_holidays, time_zone_of
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
    """A partition, or a segment of a partition, to be checked.

    Attributes
    ----------
    id : int
        Partition id.
    partition : str
        Partition name.
    time : datetime or None
        Time of the partition; None if it has no time.
    within : str
        Segment made by the partition's own keys.
    segment : str
        Segment to be checked, including ``within``; empty for the whole partition.
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
        Database of the repository.
    artifacts : Artifacts
        Reader of stored states.
    dataset : str
        Name of the dataset.
    as_of : str, date, datetime, int or None
        Past view; None for the current view.
    """

    database: Database
    artifacts: Artifacts
    dataset: str
    as_of: AsOf = None

    def targets(
        self, partitions: str | Sequence[str] | None = None, segment: str = ""
    ) -> list[CheckTarget]:
        """Select partitions as targets, in order of time.

        Parameters
        ----------
        partitions : str or sequence of str, optional
            ``all``, conditions on partition keys, or names (default: the partitions of the newest
            time). Deleted partitions are selected only by name.
        segment : str
            Segment of the partitions; the whole partitions if empty.

        Raises
        ------
        PartitionSelectionError
            If the conditions do not parse, a name does not exist, or nothing is selected. An empty
            list of names selects nothing without an error.
        """
        with self.database.read() as connection:
            measured_rows = partition_rows(connection, self.dataset, self.as_of, all_versions=False)
        measured = {row["partition"] for row in measured_rows}
        existing = {row["partition"] for row in measured_rows if row["gone_at"] is None}
        rows = [row for row in self._partitions() if row["partition"] in measured]
        timeless_first = sorted(rows, key=lambda row: row["time"] is not None)
        oldest_first = [row["partition"] for row in timeless_first]
        if partitions is None:
            chosen = _newest_partitions([row for row in rows if row["partition"] in existing])
        elif partitions == "all":
            chosen = existing
        elif isinstance(partitions, str):
            chosen = _select_partitions(timeless_first, existing, partitions)
        else:
            chosen = select_named(partitions, oldest_first)
        targets = [
            CheckTarget(row["id"], row["partition"], row["time"], row["within"], full_segment)
            for row in rows
            if row["partition"] in chosen
            and (full_segment := _full_segment(row["within"], segment)) is not None
        ]
        if not targets and (partitions is None or len(partitions)):
            selection = f"partitions={partitions!r}, segment={segment!r}"
            msg = f"{self.dataset!r} has no measured partition that matches {selection}"
            raise PartitionSelectionError(msg)
        return targets

    def complete(self, target: CheckTarget) -> CheckTarget:
        """Return a new target with time and segment filled in, from the ledger or from its name.

        Parameters
        ----------
        target : CheckTarget
            Target of data that was just measured.
        """
        stored = {row["partition"]: row for row in self._partitions()}
        if target.partition not in stored or not target.partition:
            return complete_from_name(target)
        row = stored[target.partition]
        return _complete(target, row["time"], row["within"])

    def _partitions(self) -> list[SelectablePartitionRow]:
        p = s.partition.c
        columns = (p.id, p.name.label("partition"), p.time, p.segment.label("within"), p.key_values)
        with self.database.read() as connection:
            is_of_dataset = p.dataset_id == dataset_id(connection, self.dataset)
            query = (
                sa.select(*columns).where(is_of_dataset).order_by(p.time.is_(None), p.time, p.name)
            )
            rows = [row._asdict() for row in connection.execute(query)]
            return cast("list[SelectablePartitionRow]", rows)


def complete_from_name(target: CheckTarget) -> CheckTarget:
    """Return a new target with time and segment filled in from the name of its partition.

    Parameters
    ----------
    target : CheckTarget
        Target of data that was just measured.

    Examples
    --------
    >>> complete_from_name(CheckTarget(1, "ds=2013-02-08", None)).time.isoformat()
    '2013-02-08T00:00:00+00:00'
    """
    partition = Partition.from_name(target.partition)
    time_format = recognise_time(partition.keys)
    if time_format is None:
        return _complete(target, None, "")
    return _complete(target, time_format.time_of(partition), time_format.segment_of(partition))


def _complete(target: CheckTarget, time: datetime | None, within: str) -> CheckTarget:
    segment = _full_segment(within, target.segment)
    return replace(target, time=target.time or time, within=within, segment=segment or within)


def _newest_partitions(rows: Sequence[SelectablePartitionRow]) -> set[str]:
    """Return the partitions of the newest time; if none has a time, the last partition by name."""
    timed = [row for row in rows if row["time"] is not None] or rows[-1:]
    return {row["partition"] for row in timed if row["time"] == timed[-1]["time"]}


def _select_partitions(
    rows: Sequence[SelectablePartitionRow], existing: set[str], conditions: str
) -> set[str]:
    """Return the existing partitions that fulfil conditions on their keys."""
    partition_by_name = {
        row["partition"]: _parse_name(row["partition"], row["key_values"]) for row in rows
    }
    keys = next(iter(partition_by_name.values())).keys if partition_by_name else ()
    selection = parse_selection(conditions, keys)
    available = [name for name in partition_by_name if name in existing]
    return selection.require_match(
        {n for n in available if selection(partition_by_name[n])}, available
    )


def _parse_name(name: str, values: str) -> Partition:
    """Parse a partition's name, given its values, which can contain the separators of keys.

    Examples
    --------
    >>> _parse_name("ds=2013-02-08/place=a/b=c", '["2013-02-08","a/b=c"]').keys
    ('ds', 'place')
    """
    keys, remainder, key_values = [], name, tuple(json.loads(values))
    for value in key_values:
        keys.append(remainder.partition("=")[0])
        remainder = remainder[len(keys[-1]) + len(value) + 2 :]
    return Partition(tuple(keys), key_values)


def _full_segment(within: str, segment: str) -> str | None:
    """Return the full segment within a partition; None if their keys conflict.

    Examples
    --------
    >>> _full_segment("country=US", ""), _full_segment("country=US", "origin=EWR")
    ('country=US', 'country=US/origin=EWR')
    >>> _full_segment("", "origin=EWR")
    'origin=EWR'
    >>> _full_segment("country=US", "country=NO")
    """
    if not segment or not within or segment == within or segment.startswith(f"{within}/"):
        return segment or within
    same_key = segment.partition("=")[0] == within.partition("=")[0]
    return None if same_key else joined(within, segment)


MAX_QUERIED_PARTITIONS = 200
"""Above this number of partitions, all partitions are read."""


MetricsByPartition = dict[int, Metric[Any]]
"""Metrics by partition id."""


@dataclass
class LoadedEvidence:
    """Metrics of partitions and judgments of detectors, loaded for checks by `load_evidence`.

    Attributes
    ----------
    partitions : list of mapping
        All partitions in order of time, in the format of `Facts`.
    metrics : dict
        Metrics by segment and analyzer.
    judge : PointJudge
        Source of the detectors' judgments.
    instances : frozenset of str
        All measured columns.
    """

    partitions: Sequence[PartitionRow]
    metrics: dict[tuple[str, AnyAnalyzer], MetricsByPartition]
    judge: PointJudge
    instances: frozenset[str]
    _earlier: dict[tuple[str, str, AnyAnalyzer], EarlierValues] = field(default_factory=dict)

    def for_target(self, target: CheckTarget) -> PartitionEvidence:
        """Return the evidence of one partition."""
        return PartitionEvidence(self, target)

    def earlier(self, target: CheckTarget, analyzer: AnyAnalyzer) -> EarlierValues:
        """Return the values of a metric in the partitions before the target."""
        key = (target.within, target.segment, analyzer)
        if key not in self._earlier:
            metrics = self.metrics.get((target.segment, analyzer), {})
            timed = [
                row
                for row in self.partitions
                if row["time"] is not None
                and row["within"] == target.within
                and row["id"] != UNSTORED_ID
            ]
            self._earlier[key] = EarlierValues(
                None,
                [time for row in timed if (time := row["time"]) is not None],
                [row["partition"] for row in timed],
                [number(metrics.get(row["id"])) for row in timed],
            )
        return replace(self._earlier[key], moment=target.time)


@dataclass(frozen=True)
class PartitionEvidence:
    """Evidence of one partition."""

    loaded: LoadedEvidence
    target: CheckTarget

    @property
    def instances(self) -> frozenset[str]:
        """All measured columns."""
        return self.loaded.instances

    def metric(self, analyzer: AnyAnalyzer) -> Metric[Any] | None:
        """Return the stored metric; None if it was not measured."""
        metrics = self.loaded.metrics.get((self.target.segment, analyzer), {})
        return metrics.get(self.target.id)

    def earlier(self, analyzer: AnyAnalyzer) -> EarlierValues | None:
        """Return the values in earlier partitions."""
        return self.loaded.earlier(self.target, analyzer)

    def judged(self, analyzer: AnyAnalyzer, usual: AnomalySettings) -> Judgement | None:
        """Return the detector's judgment of the partition."""
        target = self.target
        series = JudgedSeries(target.within, target.segment, analyzer)
        return self.loaded.judge.judged(series, usual, target.id)


def load_evidence(
    view: View,
    targets: Sequence[CheckTarget],
    analyzers: Collection[AnyAnalyzer],
    historic: Collection[AnyAnalyzer] = (),
    fresh: Mapping[AnyAnalyzer, Metric[Any]] | None = None,
) -> LoadedEvidence:
    """Load the metrics that checks of the targets need.

    Metrics that are single numbers are read as stored. Metrics of several numbers and metrics that
    were not measured are computed from stored states.

    Parameters
    ----------
    view : View
        Dataset and time of the view.
    targets : sequence of CheckTarget
        Partitions or segments to be checked.
    analyzers : collection of Analyzer
        Analyzers needed for the targets themselves.
    historic : collection of Analyzer
        Analyzers needed for all partitions.
    fresh : mapping of Analyzer to Metric, optional
        Metrics of the only target, if it was just measured and is not stored.
    """
    with view.database.read() as connection:
        dataset_key = dataset_id(connection, view.dataset)
        dimensions = dimensions_of(connection, dataset_key, MetricQuery())
        reader = _Reader(connection, view, dimensions)
        if fresh is None:
            reader.read([a for a in analyzers if a not in historic], _target_ids(targets))
        reader.read(historic, _sibling_ids(targets, dimensions[1]))
        partitions = list(dimensions[1])
        labels = training_labels(connection, dataset_key) if historic else []
        suite = stored_suite(connection, dataset_key) if historic else {}
    for target in targets if fresh is not None else ():
        partitions.append(target.row())
        for analyzer, metric in (fresh or {}).items():
            reader.metrics.setdefault((target.segment, analyzer), {})[target.id] = metric
    holidays = suite_holidays(suite, (row["time"] for row in partitions))
    judge = PointJudge(
        partitions,
        dimensions[0],
        reader.metrics,
        TrainingLabels(labels, holidays, time_zone_of(suite, partitions)),
        tuple(historic),
    )
    instances = frozenset(str(row["instance"]) for row in dimensions[0])
    return LoadedEvidence(partitions, reader.metrics, judge, instances)


def _target_ids(targets: Iterable[CheckTarget]) -> dict[str, set[int]]:
    """Return the targets' partition ids by segment."""
    ids_by_segment: dict[str, set[int]] = {}
    for target in targets:
        ids_by_segment.setdefault(target.segment, set()).add(target.id)
    return ids_by_segment


def _sibling_ids(
    targets: Iterable[CheckTarget], partitions: Iterable[PartitionRow]
) -> dict[str, set[int]]:
    """Return by segment the ids of all partitions that share a target's partition segment."""
    target_segment = {target.within: target.segment for target in targets}
    ids_by_segment: dict[str, set[int]] = {}
    for row in partitions:
        if row["within"] in target_segment:
            ids_by_segment.setdefault(target_segment[row["within"]], set()).add(row["id"])
    return ids_by_segment


class _Reader:
    """Reader of a dataset's metrics: single numbers from facts, other metrics from states."""

    def __init__(self, connection: Connection, view: View, dimensions: FactDimensions) -> None:
        self.connection, self.view, self.dimensions = connection, view, dimensions
        self.metrics: dict[tuple[str, AnyAnalyzer], MetricsByPartition] = {}

    def read(
        self, analyzers: Iterable[AnyAnalyzer], ids_by_segment: Mapping[str, set[int]]
    ) -> None:
        """Read metrics of the partitions whose ids are given by segment."""
        by_key = {key_of(analyzer.canonical()): analyzer for analyzer in analyzers}
        if not by_key or not ids_by_segment:
            return
        self._read_facts(by_key, ids_by_segment)
        times = {row["id"]: row["time"] for row in self.dimensions[1]}
        missing: dict[tuple[str, str], list[AnyAnalyzer]] = {}
        for segment, ids in ids_by_segment.items():
            for analyzer in by_key.values():
                if ids - self._metrics_of(segment, analyzer).keys():
                    missing.setdefault((segment, analyzer.statistic()), []).append(analyzer)
        for (segment, _), same_state in missing.items():
            self._read_states(same_state, segment, ids_by_segment[segment], times)

    def _metrics_of(self, segment: str, analyzer: AnyAnalyzer) -> MetricsByPartition:
        return self.metrics.setdefault((segment, analyzer), {})

    def _read_facts(
        self, by_key: Mapping[str, AnyAnalyzer], ids_by_segment: Mapping[str, set[int]]
    ) -> None:
        """Read metrics that are single numbers or failures from facts."""
        series = [
            row["id"]
            for row in self.dimensions[0]
            if row["key"] in by_key
            and row["segment"] in ids_by_segment
            and row["name"] == by_key[row["key"]].name
        ]
        all_ids = sorted(set().union(*ids_by_segment.values()))
        queried_ids = all_ids if len(all_ids) <= MAX_QUERIED_PARTITIONS else None
        facts = read_facts(
            self.connection,
            self.view.dataset,
            MetricQuery(series=series),
            self.view.as_of,
            queried_ids,
            self.dimensions,
        )
        ids = [row["id"] for row in self.dimensions[1]]
        columns = (facts.value, facts.weight, facts.status, facts.error)
        rows = zip(
            facts.of_series.tolist(),
            facts.of_partition.tolist(),
            *(column.tolist() for column in columns),
            strict=True,
        )
        for series_index, partition_index, *stored in rows:
            row = self.dimensions[0][series_index]
            if ids[partition_index] in ids_by_segment[row["segment"]]:
                analyzer = by_key[row["key"]]
                self._metrics_of(row["segment"], analyzer)[ids[partition_index]] = _metric(
                    analyzer, *stored
                )

    def _read_states(
        self,
        analyzers: Sequence[AnyAnalyzer],
        segment: str,
        requested_ids: set[int],
        times: Mapping[int, datetime | None],
    ) -> None:
        """Compute metrics without facts from states. Analyzers that share a state read it once."""
        requested_times = [times[partition_key] for partition_key in requested_ids]
        known_times = [time for time in requested_times if time is not None]
        window = (
            Window(min(known_times), max(known_times))
            if len(known_times) == len(requested_times)
            else Window()
        )
        ids = {row["partition"]: row["id"] for row in self.dimensions[1]}
        states = stored_states(
            self.connection, self.view.dataset, analyzers[0], window, segment, self.view.as_of
        )
        for state in states:
            partition_key = ids[state.partition]
            unread = [a for a in analyzers if partition_key not in self._metrics_of(segment, a)]
            if state.payload is not None and partition_key in requested_ids and unread:
                self._measure(unread, segment, partition_key, state.payload)

    def _measure(
        self, analyzers: Sequence[AnyAnalyzer], segment: str, partition_key: int, payload: Payload
    ) -> None:
        try:
            state = self.view.artifacts.unpack(payload)
        except StateError as error:
            for analyzer in analyzers:
                self._metrics_of(segment, analyzer)[partition_key] = analyzer.to_failure_metric(
                    error
                )
            return
        for analyzer in analyzers:
            self._metrics_of(segment, analyzer)[partition_key] = analyzer.compute_metric_from(state)


def _metric(
    analyzer: AnyAnalyzer, value: float, weight: float, status: str, error: str | None
) -> Metric[float]:
    """Rebuild the metric of a stored fact."""
    outcome: Success[float] | Failure = Success(value)
    message = (error or "").partition(": ")[2]  # the stored error starts with its class name
    if status == "empty":
        outcome = Failure(EmptyStateError(message))
    elif status == "failed":
        outcome = Failure(MetricRuntimeError(message))
    rows = None if isnan(weight) else weight
    return Metric(analyzer.entity, analyzer.instance, analyzer.name, outcome, rows)


def number(metric: Metric[Any] | None) -> float:
    """Return a metric's value if it is a single number, else NaN."""
    if metric is None or metric.failed or not isinstance(metric.value, int | float):
        return nan
    return float(metric.value)
