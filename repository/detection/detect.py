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
from tidegauge.repository.detection.young import maybe_young, young_histories
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
    read_facts,
)
from tidegauge.repository.store.labels import training_labels
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
        Whether the dataset has any label.
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
            labels = sa.select(label.dataset_id).where(label.dataset_id.in_(ids)).distinct()
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

    def steps(self, connection: Connection) -> Scoring[list[DetectorResult]]:
        """Score the changed partitions with each detector; the scores are requested from the caller."""
        results = []
        reader, segments = _Reader(connection, self), group_by_segment(self.dimensions[1])
        for detector, monitors in self.watched.items():
            decision_inputs = [[m.to_dict() for m in monitors], self.calendar]
            if self.teaching.zone is not None:
                decision_inputs.append(self.teaching.zone.key)
            result = DetectorResult(repr(detector), key_of(canonical_json(decision_inputs)))
            changed = self._changed(reader, detector, result)
            for within, indices in segments.items():
                if changed and not isinstance(detector, PartitionDetector):
                    changed |= maybe_young(connection, [self._id(p) for p in indices])
                start = next((k for k, p in enumerate(indices) if self._id(p) in changed), None)
                if start is None:
                    continue
                if isinstance(detector, PartitionDetector):
                    steps = self._judge(reader, detector, monitors, within, indices, start, result)
                else:
                    steps = self._score(reader, detector, monitors, indices, start, result)
                yield from steps
            results.append(result)
        return results

    def _id(self, index: int) -> int:
        return int(self.dimensions[1][index]["id"])

    def _changed(self, reader: _Reader, detector: Detector, result: DetectorResult) -> set[int]:
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
        changed = reader.changed(s.metric, mark)
        if isinstance(detector, PartitionDetector) and not detector.needs_values:
            # Partitions of recorded metrics have no version.
            changed = changed | reader.changed(s.partition_version, mark)
        new_labels = [label for label in self.teaching.labels if label.commit > mark]
        return changed | {
            int(row["id"]) for row in self.dimensions[1] if any(x.covers(row) for x in new_labels)
        }

    def _score(
        self,
        reader: _Reader,
        detector: Detector,
        monitors: Sequence[Monitor],
        indices: Sequence[int],
        start: int,
        detector_result: DetectorResult,
    ) -> Scoring[None]:
        """Score the partitions of one partition segment from index ``start``, and add the result.

        Parameters
        ----------
        reader : _Reader
        detector : Detector
        monitors : sequence of Monitor
            The monitors of the detector.
        indices : sequence of int
            Indices of the segment's partitions.
        start : int
            Position in ``indices`` of the first partition to score.
        detector_result : DetectorResult
            Receives the scores and anomalies.
        """
        # Read only the partitions that the scores depend on: from `first`.
        grid = reader.grid(indices)
        history_needed = None if self.teaching.restarts else detector.reach(grid)
        first = (
            0 if history_needed is None else max(start - max(history_needed, EARLIER_PARTITIONS), 0)
        )
        ids = [self._id(index) for index in indices]
        connection = reader.connection
        series_matrix = matrix(
            reader.facts(ids[first:]),
            indices[first:],
            _watched_by(monitors),
            detector.min_points if first == 0 else 1,
            self.teaching,
            grid.part(first),
            reader.times(indices)[first:],
        )
        start -= first
        past = scorebook.read(connection, self.id, detector_result.detector, ids[first:][:start])
        earlier_scores = known_scores(series_matrix, past, start)
        previous_sides = reader.previous_sides(series_matrix, start, detector_result.detector)
        result = yield from score_and_decide(
            detector,
            monitors,
            series_matrix,
            self.window,
            self.teaching,
            start=start,
            earlier_scores=earlier_scores,
            previous_sides=previous_sides,
            young=young_histories(connection, series_matrix, start),
        )
        values = _earlier_values(
            connection, series_matrix, {i for i, _ in result.anomaly_indices}, first, ids
        )
        detector_result.add(result, result.findings(values))

    def _judge(
        self,
        reader: _Reader,
        detector: PartitionDetector,
        monitors: Sequence[Monitor],
        within: str,
        indices: Sequence[int],
        start: int,
        detector_result: DetectorResult,
    ) -> Scoring[None]:
        """Score whole partitions of a partition segment from index ``start``, and add the result.

        Parameters
        ----------
        reader : _Reader
        detector : PartitionDetector
        monitors : sequence of Monitor
            The monitors of the detector.
        within : str
            The partition segment.
        indices : sequence of int
            Indices of the segment's partitions.
        start : int
            Position in ``indices`` of the first partition to score.
        detector_result : DetectorResult
            Receives the scores and anomalies.
        """
        grid = reader.grid(indices)
        history_needed = detector.reach(grid)
        first = 0 if history_needed is None else max(start - history_needed, 0)
        ids = [self._id(index) for index in indices]
        connection = reader.connection
        facts = reader.facts(ids[first:] if detector.needs_values else [])
        is_watched = _watched_by(monitors) if detector.needs_values else _watches_nothing
        series_matrix = matrix(
            facts,
            indices[first:],
            is_watched,
            1,
            self.teaching,
            grid.part(first),
            reader.times(indices)[first:],
        )
        row = self.whole_series[repr(detector), within]
        muted = self.teaching.muted([row], series_matrix.partitions)
        ledger = replace(
            reader.ledger(indices).since(first), muted=None if muted is None else muted[0]
        )
        start -= first
        version = np.maximum(ledger.version, 1)[None, :]
        measure_matrix = replace(series_matrix, series=[row], version=version)
        earlier_scores = None
        if detector.needs_scores and start:
            past = scorebook.read(
                connection, self.id, detector_result.detector, ids[first:][:start]
            )
            earlier_scores = known_scores(measure_matrix, past, start)
        scored_measure, findings = yield from score_partitions(
            detector,
            monitors,
            measure_matrix,
            ledger,
            self.window,
            self.teaching,
            start=start,
            earlier_scores=earlier_scores,
            previous_sides=reader.previous_sides(measure_matrix, start, detector_result.detector),
        )
        detector_result.add(scored_measure, findings)


class _Reader:
    """Reader of a dataset's history that remembers results, because most detectors read the same."""

    def __init__(self, connection: Connection, job: DetectionJob) -> None:
        self.connection = connection
        self._job, self._partitions = job, job.dimensions[1]
        self._facts: tuple[frozenset[int], Facts] | None = None
        self._ledgers: dict[tuple[int, ...], PartitionLedger] = {}
        self._changed: dict[tuple[str, int], set[int]] = {}
        self._grids: dict[tuple[int, ...], Grid] = {}
        self._times = times_of(self._partitions)
        self._departures: dict[int, dict[str, dict[int, float | None]]] = {}

    def facts(self, partitions: Sequence[int]) -> Facts:
        """Return the metrics of partitions by id; the result can contain other partitions."""
        if self._facts is None or not self._facts[0].issuperset(partitions):
            reads_all = len(partitions) == len(self._partitions)
            selected = None if reads_all else partitions  # a condition on all partitions is slow
            facts = read_facts(
                self.connection,
                self._job.dataset,
                MetricQuery(),
                partitions=selected,
                dimensions=self._job.dimensions,
            )
            self._facts = frozenset(partitions), facts
        return self._facts[1]

    def grid(self, indices: Sequence[int]) -> Grid:
        """Return the time grid of a partition segment's partitions."""
        key = tuple(indices)
        if key not in self._grids:
            self._grids[key] = Grid.from_times(self.times(indices))
        return self._grids[key]

    def times(self, indices: Sequence[int]) -> NDArray[np.datetime64]:
        """Return the times of partitions."""
        return self._times[list(indices)]

    def ledger(self, indices: Sequence[int]) -> PartitionLedger:
        """Return the ledger entries of a partition segment's partitions."""
        key = tuple(indices)
        if key not in self._ledgers:
            rows = [self._partitions[index] for index in indices]
            job = self._job
            self._ledgers[key] = read_ledger(self.connection, rows, job.now, job.teaching.zone)
        return self._ledgers[key]

    def previous_sides(self, series_matrix: Matrix, start: int, detector: str) -> Floats:
        """Return each series' anomaly direction in the partition before ``start``: 1 high, -1 low, 0 none."""
        sides = np.zeros(len(series_matrix.series))
        if not start:
            return sides
        partition = int(series_matrix.partitions[start - 1]["id"])
        if partition not in self._departures:
            n, f = s.anomaly.c, s.finding.c
            query = (
                sa.select(n.detector, n.series_id, f.value - f.expected)
                .join_from(s.anomaly, s.finding, (f.anomaly_id == n.id) & s.holds(s.finding))
                .where(n.partition_id == partition)
            )
            by_detector = self._departures.setdefault(partition, {})
            for name, series, departure in self.connection.execute(query):
                by_detector.setdefault(name, {})[series] = departure
        departures = self._departures[partition].get(detector, {})
        for i, row in enumerate(series_matrix.series if departures else ()):
            sides[i] = np.sign(departures.get(row["id"]) or 0.0)
        return sides

    def changed(self, table: sa.Table, mark: int) -> set[int]:
        """Return the ids of partitions with rows of a table that changed after a commit."""
        key = table.name, mark
        if key not in self._changed:
            row, p = table.c, s.partition.c
            query = (
                sa.select(row.partition_id)
                .join_from(s.partition, table, row.partition_id == p.id)
                .where(p.dataset_id == self._job.id)
                .where((row.commit_id > mark) | (row.superseded_commit_id > mark))
                .distinct()
            )
            self._changed[key] = set(self.connection.execute(query).scalars())
        return self._changed[key]


def _watches_nothing(row: SeriesRow) -> bool:
    return False


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


def read_ledger(
    connection: Connection,
    partitions: Sequence[PartitionRow],
    now: datetime,
    zone: ZoneInfo | None = None,
) -> PartitionLedger:
    """Return arrival times, versions and schemas of partitions. Times are on the clocks of a zone.

    The arrival time of a partition is the time of its first version, so that a restatement is not late.
    It is unknown if the first version was deleted.
    """
    v, t = s.partition_version.c, s.table_schema.c
    ids = [row["id"] for row in partitions]
    current: dict[int, Any] = {}
    arrived_at: dict[int, Any] = {}
    is_current = s.holds(s.partition_version)
    for chunk in chunks(ids):
        query = sa.select(
            v.partition_id,
            v.version,
            v.arrived_at,
            v.table_schema_id,
            is_current.label("is_current"),
        ).where(v.partition_id.in_(chunk), is_current | (v.version == 1))
        for row in connection.execute(query):
            if row.is_current:
                current[row.partition_id] = row
            if row.version == 1:
                arrived_at[row.partition_id] = row.arrived_at
    schemas: dict[int, dict[str, str]] = {}
    for chunk in chunks(sorted({row.table_schema_id for row in current.values()})):
        query = sa.select(t.id, t.columns).where(t.id.in_(chunk))
        schemas.update({row[0]: dict(json.loads(row[1])) for row in connection.execute(query)})
    rows = [current.get(partition) for partition in ids]
    arrived = to_seconds([arrived_at.get(partition) for partition in ids])
    return PartitionLedger(
        local_clock(arrived, zone),
        np.array([0 if row is None else row.version for row in rows], dtype=np.int64),
        [{} if row is None else schemas[row.table_schema_id] for row in rows],
        now=local_clock(np.array([to_datetime64(now)]), zone)[0],
        zone=zone,
    )


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
    row_of = {row["id"]: i for i, row in enumerate(series_matrix.series)}
    column_of = {row["id"]: t for t, row in enumerate(series_matrix.partitions[:start])}
    is_known = np.array([n in row_of for n in past.series.tolist()], dtype=bool)
    past = past.take(np.flatnonzero(is_known))
    i = np.array([row_of[n] for n in past.series.tolist()], dtype=np.intp)
    t = np.array([column_of[n] for n in past.partition.tolist()], dtype=np.intp)
    scores = Scores.unscored((len(series_matrix.series), start))
    current = past.version == series_matrix.version[i, t] if len(i) else np.zeros(0, dtype=bool)
    for name in (*SCORE_COLUMNS, "reason"):
        getattr(scores, name)[i[current], t[current]] = getattr(past, name)[current]
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
