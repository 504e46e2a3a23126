"""Anomaly detection: score stored metrics, and store scores, anomalies and incidents.

Scores depend only on current metrics and labels. A detector therefore rescores the partitions from the
first partition that changed since its last run, and a replay of the whole history gives the same result.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sa

from tidegauge.analyzers.core.errors import HistoryError, RepositoryWarning
from tidegauge.analyzers.core.metric import Entity, Metric, Success
from tidegauge.analyzers.core.registry import canonical_json, key_of
from tidegauge.repository.detection.findings import (
    DetectionScope,
    DetectorResult,
    Finding,
    Key,
    score_and_decide,
    score_partitions,
)
from tidegauge.repository.detection.young import maybe_young, read_restated, young_histories
from tidegauge.repository.detectors.base import (
    Detector,
    PartitionDetector,
    PartitionLedger,
    Scores,
    Scoring,
    complete,
)
from tidegauge.repository.detectors.changes import Drift, VolatilityShift
from tidegauge.repository.detectors.inputs import (
    HOLIDAY_DATES_KEY,
    Calendar,
    Matrix,
    TrainingLabels,
    group_by_segment,
    local_clock,
    matrix,
    new_dates,
    suite_holidays,
    time_zone_of,
    times_of,
    to_datetime64,
    to_seconds,
)
from tidegauge.repository.detectors.monitor import Monitor
from tidegauge.repository.detectors.seasonal import Seasonal
from tidegauge.repository.detectors.whole_partitions import (
    EmptyMetrics,
    Late,
    MissingPartition,
    SchemaChange,
    StalePartition,
)
from tidegauge.repository.distributions.drift import drifts
from tidegauge.repository.distributions.stored import StoredColumn
from tidegauge.repository.numerics.grid import Grid
from tidegauge.repository.numerics.tails import EARLIER_PARTITIONS
from tidegauge.repository.store import schema as s
from tidegauge.repository.store import scorebook
from tidegauge.repository.store.bulk import chunks
from tidegauge.repository.store.database import Database
from tidegauge.repository.store.dimensions import Dimensions, Watched
from tidegauge.repository.store.facts import (
    FactDimensions,
    Facts,
    dimensions_by_dataset,
    read_values,
)
from tidegauge.repository.store.labels import training_labels, trains_detectors
from tidegauge.repository.store.queries import MetricQuery, Window, dataset_id
from tidegauge.repository.store.rows import PartitionRow, SeriesRow
from tidegauge.repository.store.scorebook import SCORE_COLUMNS, Points
from tidegauge.repository.store.stored_states import Artifacts

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from numpy.typing import NDArray
    from sqlalchemy.engine import Connection

    from tidegauge.repository.numerics.arrays import Floats


def stored_suite(connection: Connection, dataset: int) -> Mapping[str, Any]:
    """Return the suite of a dataset's last run as JSON; empty if there is none.

    The dates of the country's holidays are added from an earlier run if the last one did not store them.
    """
    return _with_holidays(connection, dataset, _suite_texts(connection, [dataset]).get(dataset))


def _suite_texts(connection: Connection, datasets: Sequence[int]) -> dict[int, str | None]:
    """Return the suites of the last runs of datasets, as they are stored."""
    r = s.run.c
    last = sa.select(sa.func.max(r.id)).where(r.dataset_id.in_(datasets)).group_by(r.dataset_id)
    query = sa.select(r.dataset_id, r.suite).where(r.id.in_(last))
    return {row[0]: row[1] for row in connection.execute(query)}


def _with_holidays(connection: Connection, dataset: int, text: str | None) -> Mapping[str, Any]:
    suite: Mapping[str, Any] = json.loads(text or "{}")
    country = suite.get("holidays")
    if not isinstance(country, str) or HOLIDAY_DATES_KEY in suite:
        return suite
    r = s.run.c
    query = (
        sa.select(r.suite)
        .where(r.dataset_id == dataset, r.suite.contains(f'"{HOLIDAY_DATES_KEY}"'))
        .order_by(r.id.desc())
        .limit(1)
    )
    earlier_suite = json.loads(connection.execute(query).scalar() or "{}")
    return {
        **suite,
        HOLIDAY_DATES_KEY: earlier_suite.get(HOLIDAY_DATES_KEY, {})
        if earlier_suite.get("holidays") == country
        else {},
    }


@dataclass(frozen=True)
class StoredDataset:
    """The stored rows of a dataset on which its detection is based, without its metrics.

    Attributes
    ----------
    name : str
    id : int
    last_commit : int
        The last commit of the repository that was read.
    suite : str, optional
        The suite of the last run, as it is stored.
    dimensions : FactDimensions
        All series and partitions.
    marks : mapping of str to tuple
        As in `DetectionScope`.
    is_labelled : bool
        Whether a user's label of the dataset controls training.
    """

    name: str
    id: int
    last_commit: int
    suite: str | None
    dimensions: FactDimensions
    marks: Mapping[str, tuple[int, str]]
    is_labelled: bool

    @classmethod
    def read(cls, connection: Connection, names: Sequence[str]) -> dict[str, StoredDataset]:
        """Read datasets by name; names that do not exist are left out."""
        last_commit = connection.execute(sa.select(s.clock.c.commits)).scalar_one()
        d, m, label = s.dataset.c, s.scored.c, s.label.c
        stored: dict[str, StoredDataset] = {}
        for chunk in chunks(names):
            query = sa.select(d.id, d.name).where(d.name.in_(chunk))
            name_by_id = {row[0]: row[1] for row in connection.execute(query)}
            ids = list(name_by_id)
            suites = _suite_texts(connection, ids)
            dimensions = dimensions_by_dataset(connection, ids, MetricQuery())
            marks: dict[int, dict[str, tuple[int, str]]] = {}
            scored = sa.select(m.dataset_id, m.detector, m.commit_id, m.monitors)
            for number, name, commit, key in connection.execute(
                scored.where(m.dataset_id.in_(ids))
            ):
                marks.setdefault(number, {})[name] = (commit, key)
            labels = (
                sa.select(label.dataset_id)
                .where(label.dataset_id.in_(ids), trains_detectors())
                .distinct()
            )
            labelled = set(connection.execute(labels).scalars())
            for number, name in name_by_id.items():
                stored[name] = cls(
                    name,
                    number,
                    last_commit,
                    suites.get(number),
                    dimensions[number],
                    marks.get(number, {}),
                    number in labelled,
                )
        return stored


def store_holidays(database: Database, dataset: str) -> None:
    """Store the dates of a country's holidays with a dataset's last run, if its partitions reach new years.

    With stored dates, detection gives the same results without the package ``holidays``. If the package
    is not installed, nothing is stored, and detection warns.
    """

    def work(connection: Connection) -> None:
        dataset_key = dataset_id(connection, dataset)
        suite, r, p = stored_suite(connection, dataset_key), s.run.c, s.partition.c
        query = sa.select(p.time).where(p.dataset_id == dataset_key)
        dates = new_dates(suite, connection.execute(query).scalars())
        if dates:
            last_run = (
                sa.select(sa.func.max(r.id)).where(r.dataset_id == dataset_key).scalar_subquery()
            )
            json_text = canonical_json(
                {**suite, HOLIDAY_DATES_KEY: {**suite[HOLIDAY_DATES_KEY], **dates}}
            )
            connection.execute(s.run.update().where(r.id == last_run).values(suite=json_text))

    database.write(work)


def stored_monitors(suite: Mapping[str, Any]) -> list[Monitor]:
    """Return the monitors of a suite with its sensitivity, or the default monitors if it has none."""
    stored: list[Mapping[str, Any]] = suite.get("monitors") or []
    monitors = [Monitor.from_dict(monitor) for monitor in stored] or list(DEFAULT_MONITORS)
    return [monitor.with_default(suite.get("sensitivity")) for monitor in monitors]


DEFAULT_MONITORS = tuple(
    Monitor(detector=detector, severity="error" if isinstance(detector, StalePartition) else None)
    for detector in (
        Seasonal(),
        StalePartition(),  # the data of a copy are wrong, or absent
        EmptyMetrics(),
        VolatilityShift(),
        MissingPartition(),
        Late(),
        SchemaChange(),
    )
)


@dataclass(frozen=True)
class DetectionJob(DetectionScope):
    """The series and partitions to score, and the monitors that watch them.

    Attributes
    ----------
    dataset : str
    dimensions : FactDimensions
        All series and partitions of the dataset.
    watched : mapping of Detector to list of Monitor
        The monitors of each detector.
    calendar : Calendar
        Holidays of the suite.
    replay : bool
        Whether the whole history is scored again.
    whole_series : mapping of (str, str) to mapping
        Series of partition-level measures, by detector and partition segment.
    """

    dataset: str
    dimensions: FactDimensions
    watched: Mapping[Detector, list[Monitor]]
    calendar: Calendar
    replay: bool
    whole_series: Mapping[tuple[str, str], SeriesRow]

    @classmethod
    def from_stored(
        cls,
        connection: Connection,
        stored: StoredDataset,
        monitors: Sequence[Monitor] | None,
        window: Window,
        *,
        replay: bool,
    ) -> DetectionJob:
        """Return the detection of a stored dataset with some monitors, or with those of its last run."""
        suite = _with_holidays(connection, stored.id, stored.suite)
        active_monitors = stored_monitors(suite) if monitors is None else monitors
        series, partitions = stored.dimensions
        zone = time_zone_of(suite, partitions)
        if suite and zone is not None and suite.get("time_zone") is None:
            msg = (
                f"{stored.name}: the hour that clocks skip in {zone.key} is missing, so partitions are taken as local"
                f" time: set `time_zone: {zone.key}` in the suite, or the zone that they have"
            )
            warnings.warn(msg, RepositoryWarning, stacklevel=2)
        return cls(
            dataset=stored.name,
            id=stored.id,
            last_commit=stored.last_commit,
            dimensions=stored.dimensions,
            watched=group_by_detector(active_monitors),
            marks=stored.marks,
            teaching=TrainingLabels(
                training_labels(connection, stored.id) if stored.is_labelled else (),
                suite_holidays(suite, (row["time"] for row in partitions)),
                zone,
            ),
            calendar=suite.get("holidays"),
            window=window,
            alone=monitors is None,
            replay=replay,
            whole_series=_whole_series(series),
            now=datetime.now(UTC),
        )

    @property
    def records_inputs(self) -> bool:
        """True if a detector reads a metric that detection records before."""
        return any(isinstance(detector, Drift) for detector in self.watched)

    @property
    def has_partition_series(self) -> bool:
        """True if the series of partition-level measures exist, for all partition segments."""
        names = [repr(d) for d in self.watched if isinstance(d, PartitionDetector)]
        segments = group_by_segment(self.dimensions[1])
        return all((name, within) in self.whole_series for name in names for within in segments)

    def plan(self, reader: HistoryReader) -> DetectionPlan:
        """Return which partitions each detector scores again, and what it reads for that."""
        plan = DetectionPlan(self, [], [])
        segments = reader.segments(self)
        for detector, monitors in self.watched.items():
            decision_inputs = [[m.to_dict() for m in monitors], self.calendar]
            if self.teaching.zone is not None:
                decision_inputs.append(self.teaching.zone.key)
            result = DetectorResult(repr(detector), key_of(canonical_json(decision_inputs)))
            plan.results.append(result)
            changed = self._changed(reader, detector, result)
            for segment in segments:
                if changed and not isinstance(detector, PartitionDetector):
                    changed |= maybe_young(reader.restated, segment.ids)
                start = next((k for k, n in enumerate(segment.ids) if n in changed), None)
                if start is not None:
                    first = self._first(detector, segment, start)
                    plan.tasks.append(_Task(detector, monitors, segment, start, first, result))
        return plan

    def _first(self, detector: Detector, segment: _Segment, start: int) -> int:
        """Return the position of the first partition on which the scores from ``start`` depend."""
        history_needed = detector.reach(segment.grid)
        if not isinstance(detector, PartitionDetector):
            if self.teaching.restarts or history_needed is None:
                return 0
            history_needed = max(history_needed, EARLIER_PARTITIONS)
        return 0 if history_needed is None else max(start - history_needed, 0)

    def _changed(
        self, reader: HistoryReader, detector: Detector, result: DetectorResult
    ) -> set[int]:
        """Return the ids of partitions whose metrics or labels changed since a detector's last run."""
        mark, decided_by = self.marks.get(result.detector, (0, ""))
        rescores_all = isinstance(detector, PartitionDetector) and detector.needs_clock
        # An ongoing anomaly lowers the threshold of its monitor, but stored findings do not name the
        # monitor.
        rescores_all |= len(self.watched[detector]) > 1
        if (
            rescores_all
            or self.replay
            or decided_by != result.decided_by
            or self.window != Window()
        ):
            return {int(row["id"]) for row in self.dimensions[1]}
        changed = reader.changed(self, s.metric, mark)
        if isinstance(detector, PartitionDetector) and not detector.needs_values:
            # Partitions of recorded metrics have no version.
            changed = changed | reader.changed(self, s.partition_version, mark)
        new_labels = [label for label in self.teaching.labels if label.commit > mark]
        if not new_labels:
            return set(changed)
        return changed | {
            int(row["id"]) for row in self.dimensions[1] if any(x.covers(row) for x in new_labels)
        }

    def _matrix(self, task: _Task, facts: Facts) -> Matrix:
        """Return the values of the partitions that a task reads."""
        detector, segment, first = task.detector, task.segment, task.first
        is_partial = first > 0 or isinstance(detector, PartitionDetector)
        return matrix(
            facts,
            segment.indices[first:],
            _watched_by(task.monitors),
            1 if is_partial else detector.min_points,
            self.teaching,
            segment.grid.part(first),
            segment.times[first:],
        )

    def score(self, reader: HistoryReader, task: _Task) -> Scoring[None]:
        """Score partitions of one partition segment, and add the result of the task."""
        if isinstance(task.detector, PartitionDetector):
            return self._judge(reader, task, task.detector)
        return self._score(reader, task)

    def _score(self, reader: HistoryReader, task: _Task) -> Scoring[None]:
        """Score the series of a partition segment from the first partition of a task."""
        connection, first, start = reader.connection, task.first, task.start - task.first
        series_matrix = self._matrix(task, reader.facts(self))
        earlier_scores = known_scores(series_matrix, reader.scores(task), start)
        result = yield from score_and_decide(
            task.detector,
            task.monitors,
            series_matrix,
            self.window,
            self.teaching,
            start=start,
            earlier_scores=earlier_scores,
            previous_sides=reader.previous_sides(series_matrix, start, task.result.detector),
            young=young_histories(connection, series_matrix, start),
        )
        values = _earlier_values(
            connection,
            series_matrix,
            {i for i, _ in result.anomaly_indices},
            first,
            task.segment.ids,
        )
        task.result.add(result, result.findings(values))

    def _judge(
        self, reader: HistoryReader, task: _Task, detector: PartitionDetector
    ) -> Scoring[None]:
        """Score whole partitions from the first partition of a task."""
        segment, first, start = task.segment, task.first, task.start - task.first
        facts = reader.facts(self)
        if not detector.needs_values:
            facts = facts.take(np.empty(0, dtype=np.intp))
        series_matrix = self._matrix(task, facts)
        row = self.whole_series[repr(detector), segment.within]
        muted = self.teaching.muted([row], series_matrix.partitions)
        ledger = replace(
            reader.ledger(self, segment).since(first), muted=None if muted is None else muted[0]
        )
        version = np.maximum(ledger.version, 1)[None, :]
        measure_matrix = replace(series_matrix, series=[row], version=version)
        earlier_scores = None
        if detector.needs_scores and start:
            earlier_scores = known_scores(measure_matrix, reader.scores(task), start)
        scored_measure, findings = yield from score_partitions(
            detector,
            task.monitors,
            measure_matrix,
            ledger,
            self.window,
            self.teaching,
            start=start,
            earlier_scores=earlier_scores,
            previous_sides=reader.previous_sides(measure_matrix, start, task.result.detector),
        )
        task.result.add(scored_measure, findings)


@dataclass(frozen=True)
class _Segment:
    """The partitions of one partition segment of a dataset, in order of time.

    Attributes
    ----------
    within : str
        The partition segment.
    indices : list of int
        Indices of its partitions among those of the dataset.
    ids : list of int
    times : array of datetime64[s]
    """

    within: str
    indices: Sequence[int]
    ids: Sequence[int]
    times: NDArray[np.datetime64]

    @cached_property
    def grid(self) -> Grid:
        """The time grid of the partitions."""
        return Grid.from_times(self.times)


@dataclass(frozen=True)
class _Task:
    """Partitions of one partition segment that a detector scores.

    Attributes
    ----------
    detector : Detector
    monitors : sequence of Monitor
        The monitors of the detector.
    segment : _Segment
    start, first : int
        Positions in the segment of the first partition to score, and of the first to read.
    result : DetectorResult
        Receives the scores and anomalies.
    """

    detector: Detector
    monitors: Sequence[Monitor]
    segment: _Segment
    start: int
    first: int
    result: DetectorResult

    @property
    def needs_values(self) -> bool:
        """Whether the detector reads metrics."""
        return not isinstance(self.detector, PartitionDetector) or self.detector.needs_values

    @property
    def needs_scores(self) -> bool:
        """Whether the detector reads its scores of earlier partitions."""
        return not isinstance(self.detector, PartitionDetector) or self.detector.needs_scores


@dataclass(frozen=True)
class DetectionPlan:
    """The tasks of a dataset's detection, and the results that they fill."""

    job: DetectionJob
    results: list[DetectorResult]
    tasks: list[_Task]

    def steps(self, reader: HistoryReader) -> Scoring[list[DetectorResult]]:
        """Complete the tasks; the scores are requested from the caller."""
        for task in self.tasks:
            yield from self.job.score(reader, task)
        return self.results


def start_detections(
    connection: Connection, jobs: Mapping[str, DetectionJob]
) -> dict[str, Scoring[list[DetectorResult]]]:
    """Read the histories of datasets together, and return the steps of their detections by name."""
    reader = HistoryReader(connection, list(jobs.values()))
    plans = {name: job.plan(reader) for name, job in jobs.items()}
    reader.prepare(list(plans.values()))
    return {name: plan.steps(reader) for name, plan in plans.items()}


class HistoryReader:
    """Reader of the histories of several datasets: each kind of rows by a few statements for all of them."""

    def __init__(self, connection: Connection, jobs: Sequence[DetectionJob]) -> None:
        self.connection = connection
        self._jobs = jobs
        self._segments = {job.id: _segments(job) for job in jobs}
        self._changed: dict[tuple[str, int], dict[int, set[int]]] = {}
        self._ledgers: dict[tuple[int, str], PartitionLedger] = {}
        self._facts: dict[int, Facts] = {}
        self._scores: dict[tuple[str, int], Points] = {}
        self._departures: dict[tuple[int, str], dict[int, float | None]] = {}

    def prepare(self, plans: Sequence[DetectionPlan]) -> None:
        """Read the metrics, scores and anomalies that the tasks of plans need."""
        values: dict[int, set[int]] = {}
        scores: dict[str, dict[int, list[int]]] = {}
        previous: set[int] = set()
        for plan in plans:
            dataset = plan.job.id
            for task in plan.tasks:
                ids, first, start = task.segment.ids, task.first, task.start
                if task.needs_values:
                    values.setdefault(dataset, set()).update(ids[first:])
                if task.needs_scores and start > first:
                    by_dataset = scores.setdefault(task.result.detector, {})
                    by_dataset.setdefault(dataset, []).extend(ids[first:start])
                if start:
                    previous.add(ids[start - 1])
        datasets = {job.id: (job.dataset, job.dimensions) for job in self._jobs}
        read = {dataset: sorted(ids) for dataset, ids in values.items()}
        self._facts = read_values(self.connection, datasets, read)
        for detector, partitions in scores.items():
            self._read_scores(detector, partitions)
        self._read_departures(sorted(previous))

    def _read_scores(self, detector: str, partitions: Mapping[int, Sequence[int]]) -> None:
        """Read a detector's scores, and divide them by partition segment."""
        counts = {job.id: len(job.dimensions[1]) for job in self._jobs}
        points = scorebook.read_together(self.connection, detector, partitions, counts)
        segments = [segment for dataset in partitions for segment in self._segments[dataset]]
        ids = np.array([n for segment in segments for n in segment.ids], dtype=np.int64)
        lengths = [len(segment.ids) for segment in segments]
        number = np.repeat(np.arange(len(segments)), lengths)[index_in(ids, points.partition)]
        order = np.argsort(number, kind="stable")
        points = points.take(order)
        bounds = np.searchsorted(number[order], np.arange(len(segments) + 1)).tolist()
        for segment, (first, last) in zip(segments, pairwise(bounds), strict=True):
            self._scores[detector, segment.ids[0]] = points.take(np.arange(first, last))

    def _read_departures(self, partitions: Sequence[int]) -> None:
        """Read how far the anomalies of partitions are from their expected values."""
        n, f = s.anomaly.c, s.finding.c
        for chunk in chunks(partitions):
            query = (
                sa.select(n.partition_id, n.detector, n.series_id, f.value - f.expected)
                .join_from(s.anomaly, s.finding, (f.anomaly_id == n.id) & s.holds(s.finding))
                .where(n.partition_id.in_(chunk))
            )
            for partition, detector, series, departure in self.connection.execute(query):
                self._departures.setdefault((partition, detector), {})[series] = departure

    def segments(self, job: DetectionJob) -> Sequence[_Segment]:
        """Return the partition segments of a dataset."""
        return self._segments[job.id]

    def facts(self, job: DetectionJob) -> Facts:
        """Return the metrics of a dataset that its plan needs; the result can contain other partitions."""
        return self._facts[job.id]

    def scores(self, task: _Task) -> Points:
        """Return a detector's scores of a partition segment; the result can contain other partitions."""
        key = task.result.detector, task.segment.ids[0]
        return self._scores.get(key) or Points.concatenate([])

    @cached_property
    def restated(self) -> set[int]:
        """The recent partitions that were measured again."""
        segments = [segment.ids for group in self._segments.values() for segment in group]
        return read_restated(self.connection, segments)

    @cached_property
    def _entries(self) -> LedgerEntries:
        v, p = s.partition_version.c, s.partition.c
        conditions = [
            v.partition_id.in_(sa.select(p.id).where(p.dataset_id.in_(chunk)))
            for chunk in chunks([job.id for job in self._jobs])
        ]
        return LedgerEntries.read(self.connection, conditions)

    def ledger(self, job: DetectionJob, segment: _Segment) -> PartitionLedger:
        """Return the ledger entries of a partition segment's partitions."""
        key = job.id, segment.within
        if key not in self._ledgers:
            self._ledgers[key] = self._entries.ledger(segment.ids, job.now, job.teaching.zone)
        return self._ledgers[key]

    def previous_sides(self, series_matrix: Matrix, start: int, detector: str) -> Floats:
        """Return each series' anomaly direction in the partition before ``start``: 1 high, -1 low, 0 none."""
        sides = np.zeros(len(series_matrix.series))
        if not start:
            return sides
        partition = int(series_matrix.partitions[start - 1]["id"])
        departures = self._departures.get((partition, detector), {})
        for i, row in enumerate(series_matrix.series if departures else ()):
            sides[i] = np.sign(departures.get(row["id"]) or 0.0)
        return sides

    def changed(self, job: DetectionJob, table: sa.Table, mark: int) -> set[int]:
        """Return the ids of a dataset's partitions with rows of a table that changed after a commit.

        All datasets with a detector that has scored up to this commit are read together.
        """
        key = table.name, mark
        if key not in self._changed or job.id not in self._changed[key]:
            row, p = table.c, s.partition.c
            datasets = {
                other.id for other in self._jobs if any(m == mark for m, _ in other.marks.values())
            }
            changed = self._changed[key] = {n: set() for n in datasets | {job.id}}
            for chunk in chunks(sorted(changed)):
                query = (
                    sa.select(p.dataset_id, row.partition_id)
                    .join_from(s.partition, table, row.partition_id == p.id)
                    .where(p.dataset_id.in_(chunk))
                    .where((row.commit_id > mark) | (row.superseded_commit_id > mark))
                    .distinct()
                )
                for dataset, partition in self.connection.execute(query):
                    changed[dataset].add(partition)
        return self._changed[key][job.id]


def _segments(job: DetectionJob) -> list[_Segment]:
    partitions = job.dimensions[1]
    times = times_of(partitions)
    return [
        _Segment(within, indices, [int(partitions[k]["id"]) for k in indices], times[indices])
        for within, indices in group_by_segment(partitions).items()
    ]


def index_in(ids: NDArray[np.int64], requested: NDArray[np.int64]) -> NDArray[np.intp]:
    """Return the index of each requested id among ids, -1 if it is not there.

    Examples
    --------
    >>> index_in(np.array([7, 3]), np.array([3, 4, 7, 9])).tolist()
    [1, -1, 0, -1]
    """
    if not len(ids):
        return np.full(len(requested), -1, dtype=np.intp)
    order = np.argsort(ids)
    index = order[np.minimum(np.searchsorted(ids, requested, sorter=order), len(ids) - 1)]
    return np.where(ids[index] == requested, index, -1)


def create_inputs(database: Database, artifacts: Artifacts, job: DetectionJob) -> None:
    """Create inputs of detectors: the series of partition-level measures, and drift distances."""
    for detector in job.watched:
        if isinstance(detector, Drift):
            column = StoredColumn(database, artifacts, job.dataset, detector.column)
            _record_drifts(column, detector)
    missing = {
        (within, key_of(measure.canonical())): measure
        for measure in _partition_measures(job.watched)
        for within in group_by_segment(job.dimensions[1])
        if (repr(measure), within) not in job.whole_series
    }
    if not missing:
        return

    def work(connection: Connection) -> None:
        dimensions = Dimensions(connection, job.id)
        analyzers = dimensions.analyzers(missing, dict.fromkeys(missing))
        dimensions.series(
            {
                (analyzers[pair], measure.metric, "*"): (
                    measure,
                    Metric(Entity.DATASET, "*", measure.metric, Success(0.0)),
                )
                for pair, measure in missing.items()
            }
        )

    database.write(work)


def _record_drifts(column: StoredColumn, detector: Drift) -> None:
    """Record each partition's drift from its baseline; warn if they cannot be compared."""
    try:
        drifts(column, detector.baseline, Window())
    except HistoryError as error:
        warnings.warn(f"{detector!r}: {error}", RepositoryWarning, stacklevel=2)


def _partition_measures(detectors: Iterable[Detector]) -> list[Watched]:
    measured = [d for d in detectors if isinstance(d, PartitionDetector)]
    return [Watched(repr(detector), detector.scale.value) for detector in measured]


def _whole_series(series: Iterable[SeriesRow]) -> dict[tuple[str, str], SeriesRow]:
    """Return the series of partition-level measures, by detector text and partition segment."""
    return {
        (row["analyzer"], row["segment"]): row for row in series if row["kind"] == Watched.__name__
    }


@dataclass(frozen=True)
class LedgerEntries:
    """Versions of partitions as they are stored.

    Attributes
    ----------
    current : mapping of int to row
        Current version and schema, by id of the partition.
    arrived_at : mapping of int to datetime
        Arrival time of the first version, so that a restatement is not late. It is absent if this version was
        deleted.
    schemas : mapping of int to mapping
        Types by column name, by id of the schema.
    """

    current: Mapping[int, Any]
    arrived_at: Mapping[int, datetime | None]
    schemas: Mapping[int, Mapping[str, str]]

    @classmethod
    def read(
        cls, connection: Connection, conditions: Iterable[sa.ColumnElement[bool]]
    ) -> LedgerEntries:
        """Read the versions of the partitions that meet any of the conditions."""
        v, t = s.partition_version.c, s.table_schema.c
        current: dict[int, Any] = {}
        arrived_at: dict[int, datetime | None] = {}
        is_current = s.holds(s.partition_version)
        for condition in conditions:
            query = sa.select(
                v.partition_id,
                v.version,
                v.arrived_at,
                v.table_schema_id,
                v.rows,
                is_current.label("is_current"),
            ).where(condition, is_current | (v.version == 1))
            for row in connection.execute(query):
                if row.is_current:
                    current[row.partition_id] = row
                if row.version == 1:
                    arrived_at[row.partition_id] = row.arrived_at
        schemas: dict[int, Mapping[str, str]] = {}
        for chunk in chunks(sorted({row.table_schema_id for row in current.values()})):
            columns = sa.select(t.id, t.columns).where(t.id.in_(chunk))
            schemas.update(
                {row[0]: dict(json.loads(row[1])) for row in connection.execute(columns)}
            )
        return cls(current, arrived_at, schemas)

    def ledger(
        self, partitions: Sequence[int], now: datetime, zone: ZoneInfo | None = None
    ) -> PartitionLedger:
        """Return the entries of partitions by id. Times are on the clocks of a zone."""
        rows = [self.current.get(partition) for partition in partitions]
        arrived = to_seconds([self.arrived_at.get(partition) for partition in partitions])
        return PartitionLedger(
            local_clock(arrived, zone),
            np.array([0 if row is None else row.version for row in rows], dtype=np.int64),
            [{} if row is None else self.schemas[row.table_schema_id] for row in rows],
            now=local_clock(np.array([to_datetime64(now)]), zone)[0],
            zone=zone,
            rows=np.array(
                [np.nan if row is None or row.rows is None else row.rows for row in rows],
                dtype=np.float64,
            ),
        )


def read_ledger(
    connection: Connection,
    partitions: Sequence[PartitionRow],
    now: datetime,
    zone: ZoneInfo | None = None,
) -> PartitionLedger:
    """Return arrival times, versions and schemas of partitions. Times are on the clocks of a zone."""
    ids = [row["id"] for row in partitions]
    conditions = [s.partition_version.c.partition_id.in_(chunk) for chunk in chunks(ids)]
    return LedgerEntries.read(connection, conditions).ledger(ids, now, zone)


def group_by_detector(monitors: Iterable[Monitor]) -> dict[Detector, list[Monitor]]:
    """Group monitors by detector."""
    groups: dict[Detector, list[Monitor]] = {}
    for monitor in monitors:
        groups.setdefault(monitor.detector, []).append(monitor)
    return groups


def _watched_by(monitors: Sequence[Monitor]) -> Callable[[SeriesRow], bool]:
    return lambda row: any(monitor.watches(row) for monitor in monitors)


def known_scores(series_matrix: Matrix, past: Points, start: int) -> Scores:
    """Return a detector's stored scores of the partitions before an index, as arrays.

    Scores of superseded versions are left out.
    """
    series = np.array([row["id"] for row in series_matrix.series], dtype=np.int64)
    partitions = np.array([row["id"] for row in series_matrix.partitions[:start]], dtype=np.int64)
    scores = Scores.unscored((len(series), start))
    i, t = index_in(series, past.series), index_in(partitions, past.partition)
    known = np.flatnonzero((i >= 0) & (t >= 0))
    known = known[past.version[known] == series_matrix.version[i[known], t[known]]]
    for name in (*SCORE_COLUMNS, "reason"):
        getattr(scores, name)[i[known], t[known]] = getattr(past, name)[known]
    return scores


def _earlier_values(
    connection: Connection, series_matrix: Matrix, rows: set[int], first: int, ids: Sequence[int]
) -> Mapping[int, list[float]]:
    """Return all values before a matrix's first partition, for series with anomalies."""
    values: dict[int, list[float]] = {i: [] for i in rows}
    if first and rows:
        m = s.metric.c
        row_of = {int(series_matrix.series[i]["id"]): i for i in rows}
        for partition_ids in chunks(ids[:first]):
            for series_ids in chunks(sorted(row_of)):
                query = sa.select(m.series_id, m.value).where(
                    m.partition_id.in_(partition_ids),
                    m.series_id.in_(series_ids),
                    m.value.is_not(None),
                    s.holds(s.metric),
                )
                for series, value in connection.execute(query):
                    values[row_of[series]].append(value)
    return values


def score_history(
    facts: Facts,
    monitors: Sequence[Monitor],
    window: Window,
    teaching: TrainingLabels | None = None,
) -> tuple[dict[Key, Finding], Points]:
    """Score the whole history of metrics without a database; return anomalies and scored points."""
    findings: dict[Key, Finding] = {}
    points: list[Points] = []
    for detector, group in group_by_detector(monitors).items():
        for indices in group_by_segment(facts.partitions).values():
            series_matrix = matrix(
                facts, indices, _watched_by(group), detector.min_points, teaching
            )
            steps = score_and_decide(detector, group, series_matrix, window, teaching)
            result = complete(steps)
            points.append(result.points())
            findings |= {anomaly.key: anomaly for anomaly in result.findings()}
    return findings, Points.concatenate(points)
