"""Anomaly detection: score stored metrics, and store scores, anomalies and incidents.

Scores are a function of current metrics and labels only. So a detector rescores just the partitions
from the first that changed since its last run on, and a replay of the whole history gives the same
result.
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

from tidegauge.analyzers.core.errors import (
    DatabaseAccessError,
    HistoryError,
    RepositoryWarning,
    message_of,
)
from tidegauge.analyzers.core.formatting import plural
from tidegauge.analyzers.core.metric import Entity, Metric, Success
from tidegauge.analyzers.core.registry import canonical_json, key_of
from tidegauge.repository.detection.findings import (
    DetectionScope,
    DetectorResult,
    Finding,
    Key,
    scored,
    scored_partitions,
    write,
)
from tidegauge.repository.detectors.base import Detector, PartitionDetector, PartitionLedger, Scores
from tidegauge.repository.detectors.changes import Drift, VolatilityShift
from tidegauge.repository.detectors.inputs import (
    DATES,
    Calendar,
    Matrix,
    TrainingLabels,
    grid_of,
    group_by_segment,
    matrix,
    new_dates,
    suite_holidays,
    to_datetime64,
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
from tidegauge.repository.numerics.tails import EARLIER_PARTITIONS
from tidegauge.repository.store import schema as s
from tidegauge.repository.store import scorebook
from tidegauge.repository.store.bulk import chunks
from tidegauge.repository.store.database import Database
from tidegauge.repository.store.dimensions import Dimensions, Watched
from tidegauge.repository.store.facts import FactDimensions, Facts, dimensions_of, read_facts
from tidegauge.repository.store.labels import training_labels
from tidegauge.repository.store.queries import MetricQuery, Window, dataset_id
from tidegauge.repository.store.rows import PartitionRow, SeriesRow
from tidegauge.repository.store.scorebook import NUMBERS, Points
from tidegauge.repository.store.stored_states import Artifacts

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from tidegauge.repository.numerics.arrays import Floats


def detect(
    database: Database,
    artifacts: Artifacts,
    dataset: str,
    monitors: Sequence[Monitor] | None,
    window: Window,
    *,
    replay: bool = False,
) -> list[Monitor]:
    """Detect anomalies in new and changed metrics of a dataset; return monitors that watch no series.

    Scores, anomalies and incidents are stored in one commit. Unchanged results are not written
    again. A point that is no longer an anomaly is withdrawn; if it becomes one again, it keeps its
    id.

    Parameters
    ----------
    database : Database
    artifacts : Artifacts
        Storage of large states, from which distributions are read.
    dataset : str
    monitors : sequence of Monitor, optional
        Defaults to the monitors of the dataset's last run; then anomalies of any other detector are
        withdrawn.
    window : Window
        Only points in it can become anomalies or cease to be one.
    replay : bool
        If true, score the whole history again.
    """
    done = False
    while not done:  # retry if another process detected meanwhile
        _create_inputs(database, artifacts, dataset, monitors)
        with database.read() as connection:
            work = DetectionJob.from_database(connection, dataset, monitors, window, replay=replay)
            if not work.has_partition_series:
                continue
            found = work.find(connection)
        done = database.write(lambda c, w=work, f=found: write(c, w, f))  # type: ignore[misc]
    return [m for m in monitors or () if m.series and not any(map(m.watches, work.known[0]))]


def detect_each(
    database: Database,
    artifacts: Artifacts,
    datasets: Sequence[str],
    monitors: Sequence[Monitor] | None,
    window: Window,
    *,
    replay: bool = False,
) -> list[Monitor]:
    """Detect anomalies in several datasets; parameters and result as for `detect`.

    Raises
    ------
    HistoryError
        If some cannot be scored, with the reason for each; the others are.
    """
    failed: dict[str, Exception] = {}
    idle = list(monitors or ())
    for dataset in datasets:
        try:
            left = detect(database, artifacts, dataset, monitors, window, replay=replay)
            idle = [one for one in idle if one in left]
        except DatabaseAccessError:  # of the repository, not of a dataset
            raise
        except Exception as error:  # noqa: BLE001 - the other datasets are still scored
            failed[dataset] = error
    if failed:
        reasons = "; ".join(
            f"{dataset!r}: {message_of(error)}" for dataset, error in failed.items()
        )
        msg = f"{len(failed)} of {plural(len(datasets), 'dataset')} cannot be compared with their past: {reasons}"
        raise HistoryError(msg) from next(iter(failed.values()))
    return idle


def stored_suite(connection: Connection, dataset: int) -> Mapping[str, Any]:
    """Return the suite of a dataset's last run as JSON; empty if it has none.

    With the dates of its country's holidays, which not every run stores.
    """
    r = s.run.c
    query = sa.select(r.suite).where(r.dataset_id == dataset).order_by(r.id.desc()).limit(1)
    suite: Mapping[str, Any] = json.loads(connection.execute(query).scalar() or "{}")
    country = suite.get("holidays")
    if not isinstance(country, str) or DATES in suite:
        return suite
    stored = connection.execute(query.where(r.suite.contains(f'"{DATES}"'))).scalar()
    before = json.loads(stored or "{}")
    return {**suite, DATES: before.get(DATES, {}) if before.get("holidays") == country else {}}


def store_holidays(database: Database, dataset: str) -> None:
    """Store the dates of a country's holidays with a dataset's last run, if there are new years.

    So detection gives the same answers everywhere, without the package ``holidays``. Where that is
    not installed, nothing is stored, and detection says what it lacks.
    """

    def work(connection: Connection) -> None:
        of = dataset_id(connection, dataset)
        suite, r, p = stored_suite(connection, of), s.run.c, s.partition.c
        query = sa.select(p.time).where(p.dataset_id == of)
        dates = new_dates(suite, connection.execute(query).scalars())
        if dates:
            last = sa.select(sa.func.max(r.id)).where(r.dataset_id == of).scalar_subquery()
            text = canonical_json({**suite, DATES: {**suite[DATES], **dates}})
            connection.execute(s.run.update().where(r.id == last).values(suite=text))

    database.write(work)


def stored_monitors(suite: Mapping[str, Any]) -> list[Monitor]:
    """Return the monitors of a suite, with its sensitivity; the default monitors if it has none."""
    stored: list[Mapping[str, Any]] = suite.get("monitors") or []
    monitors = [Monitor.from_dict(monitor) for monitor in stored] or list(DEFAULT)
    return [monitor.with_default(suite.get("sensitivity")) for monitor in monitors]


DEFAULT = tuple(
    Monitor(detector=detector)
    for detector in (
        Seasonal(),
        StalePartition(),
        EmptyMetrics(),
        VolatilityShift(),
        MissingPartition(),
        Late(),
        SchemaChange(),
    )
)
"""The default monitors of a dataset."""


@dataclass(frozen=True)
class DetectionJob(DetectionScope):
    """The series and partitions to score, and the monitors that watch them."""

    dataset: str
    known: FactDimensions
    watched: Mapping[Detector, list[Monitor]]
    calendar: Calendar
    replay: bool
    whole_series: Mapping[tuple[str, str], SeriesRow]

    @classmethod
    def from_database(
        cls,
        connection: Connection,
        dataset: str,
        monitors: Sequence[Monitor] | None,
        window: Window,
        *,
        replay: bool,
    ) -> DetectionJob:
        """Read partitions, labels, monitors and the watermark of each detector."""
        seen = connection.execute(sa.select(s.clock.c.commits)).scalar_one()
        of = dataset_id(connection, dataset)
        suite = stored_suite(connection, of)
        watching = stored_monitors(suite) if monitors is None else monitors
        known = dimensions_of(connection, of, MetricQuery())
        m = s.scored.c
        query = sa.select(m.detector, m.commit_id, m.monitors).where(m.dataset_id == of)
        return cls(
            dataset=dataset,
            id=of,
            seen=seen,
            known=known,
            watched=by_detector(watching),
            marks={name: (commit, key) for name, commit, key in connection.execute(query)},
            teaching=TrainingLabels(
                training_labels(connection, of),
                suite_holidays(suite, (row["time"] for row in known[1])),
            ),
            calendar=suite.get("holidays"),
            window=window,
            alone=monitors is None,
            replay=replay,
            whole_series=_whole_series(known[0]),
            now=datetime.now(UTC),
        )

    @property
    def has_partition_series(self) -> bool:
        """True if the series of partition-level measures exist, for all partition segments."""
        wholes = [repr(d) for d in self.watched if isinstance(d, PartitionDetector)]
        kinds = group_by_segment(self.known[1])
        return all((name, within) in self.whole_series for name in wholes for within in kinds)

    def find(self, connection: Connection) -> list[DetectorResult]:
        """Score the changed partitions with each detector."""
        found = []
        facts = _FactReader(connection, self.dataset, self.known)
        for detector, monitors in self.watched.items():
            decide = [[m.to_dict() for m in monitors], self.calendar]
            one = DetectorResult(repr(detector), key_of(canonical_json(decide)))
            changed = self._changed(connection, detector, one)
            for within, places in group_by_segment(self.known[1]).items():
                start = next((k for k, p in enumerate(places) if self._id(p) in changed), None)
                if start is None:
                    continue
                if isinstance(detector, PartitionDetector):
                    self._judge(facts, detector, monitors, within, places, start, one)
                else:
                    self._score(facts, detector, monitors, places, start, one)
            found.append(one)
        return found

    def _id(self, place: int) -> int:
        return int(self.known[1][place]["id"])

    def _changed(self, connection: Connection, detector: Detector, one: DetectorResult) -> set[int]:
        """Return the ids of partitions whose inputs or labels changed since a detector's last run."""
        mark, decided_by = self.marks.get(one.detector, (0, ""))
        always = isinstance(detector, PartitionDetector) and detector.needs_clock
        # An ongoing anomaly lowers a rule's threshold per monitor, and stored findings do not name
        # theirs.
        always |= len(self.watched[detector]) > 1
        if always or self.replay or decided_by != one.decided_by or self.window != Window():
            return {int(row["id"]) for row in self.known[1]}
        reads = [s.metric]
        if isinstance(detector, PartitionDetector) and not detector.needs_values:
            reads.append(s.partition_version)  # which partitions of recorded metrics do not have
        p, found = s.partition.c, set[int]()
        for table in reads:
            m = table.c
            new_data = (
                sa.select(m.partition_id)
                .join_from(s.partition, table, m.partition_id == p.id)
                .where(p.dataset_id == self.id)
                .where((m.commit_id > mark) | (m.superseded_commit_id > mark))
                .distinct()
            )
            found |= set(connection.execute(new_data).scalars())
        new = [said for said in self.teaching.said if said.commit > mark]
        return found | {int(row["id"]) for row in self.known[1] if any(x.covers(row) for x in new)}

    def _score(
        self,
        reader: _FactReader,
        detector: Detector,
        monitors: Sequence[Monitor],
        places: Sequence[int],
        start: int,
        found: DetectorResult,
    ) -> None:
        """Score the partitions of one partition segment from an index on."""
        grid = grid_of(self.known[1], places)
        reach = None if self.teaching.restarts else detector.reach(grid)
        first = 0 if reach is None else max(start - max(reach, EARLIER_PARTITIONS), 0)
        ids = [self._id(place) for place in places]
        connection = reader.connection
        one = matrix(
            reader.read(ids[first:]),
            places[first:],
            _watched_by(monitors),
            detector.least if first == 0 else 1,
            self.teaching,
            grid.part(first),
        )
        start -= first
        past = scorebook.read(connection, self.id, found.detector, ids[first:][:start])
        known = known_scores(one, past, start)
        before = _sides(connection, one, start, found.detector)
        result = scored(
            detector,
            monitors,
            one,
            self.window,
            self.teaching,
            start=start,
            known=known,
            before=before,
        )
        values = _earlier(connection, one, {i for i, _ in result.places}, first, ids)
        found.add(result, result.findings(values))

    def _judge(
        self,
        reader: _FactReader,
        detector: PartitionDetector,
        monitors: Sequence[Monitor],
        within: str,
        places: Sequence[int],
        start: int,
        found: DetectorResult,
    ) -> None:
        """Judge whole partitions from an index on."""
        grid = grid_of(self.known[1], places)
        reach = detector.reach(grid)
        first = 0 if reach is None else max(start - reach, 0)
        ids = [self._id(place) for place in places]
        connection = reader.connection
        facts = reader.read(ids[first:] if detector.needs_values else [])
        wanted = _watched_by(monitors) if detector.needs_values else _nothing
        one = matrix(facts, places[first:], wanted, 1, self.teaching, grid.part(first))
        row = self.whole_series[repr(detector), within]
        muted = self.teaching.muted([row], one.partitions)
        ledger = replace(
            read_ledger(connection, one.partitions, self.now),
            muted=None if muted is None else muted[0],
        )
        start -= first
        version = np.maximum(ledger.version, 1)[None, :]
        own = replace(one, series=[row], version=version)
        known = None
        if detector.needs_scores and start:
            past = scorebook.read(connection, self.id, found.detector, ids[first:][:start])
            known = known_scores(own, past, start)
        judged, findings = scored_partitions(
            detector,
            monitors,
            own,
            ledger,
            self.window,
            self.teaching,
            start=start,
            known=known,
            before=_sides(connection, own, start, found.detector),
        )
        found.add(judged, findings)


class _FactReader:
    """Reads the metrics of partitions, and keeps the last ones: most detectors read the same."""

    def __init__(self, connection: Connection, dataset: str, known: FactDimensions) -> None:
        self.connection = connection
        self._dataset, self._known = dataset, known
        self._kept: tuple[frozenset[int], Facts] | None = None

    def read(self, partitions: Sequence[int]) -> Facts:
        """Return the metrics of some partitions, by id, and perhaps of others."""
        if self._kept is None or not self._kept[0].issuperset(partitions):
            every = len(partitions) == len(self._known[1])
            only = None if every else partitions  # a condition on all of them is slower than none
            query = (self.connection, self._dataset, MetricQuery(), None, only, self._known)
            self._kept = frozenset(partitions), read_facts(*query)
        return self._kept[1]


def _nothing(row: SeriesRow) -> bool:
    return False


def _create_inputs(
    database: Database, artifacts: Artifacts, dataset: str, monitors: Sequence[Monitor] | None
) -> None:
    """Create the input of detectors: the series of partition-level measures, and drift distances."""
    with database.read() as connection:
        of = dataset_id(connection, dataset)
        suite = stored_suite(connection, of)
        watching = stored_monitors(suite) if monitors is None else monitors
        series, partitions = dimensions_of(connection, of, MetricQuery())
        wanted = {
            (within, key_of(what.canonical())): what
            for what in _wholes(watching)
            for within in group_by_segment(partitions)
        }
        there = _whole_series(series)
    for one in watching:
        if isinstance(one.detector, Drift):
            _record_drifts(
                StoredColumn(database, artifacts, dataset, one.detector.column), one.detector
            )
    missing = {pair: what for pair, what in wanted.items() if (repr(what), pair[0]) not in there}
    if not missing:
        return

    def work(connection: Connection) -> None:
        dimensions = Dimensions(connection, of)
        analyzers = dimensions.analyzers(missing, dict.fromkeys(missing))
        dimensions.series(
            {
                (analyzers[pair], what.metric, "*"): (
                    what,
                    Metric(Entity.DATASET, "*", what.metric, Success(0.0)),
                )
                for pair, what in missing.items()
            }
        )

    database.write(work)


def _record_drifts(column: StoredColumn, detector: Drift) -> None:
    """Record each partition's drift from its baseline; warn if it cannot be compared."""
    try:
        drifts(column, detector.baseline, Window())
    except HistoryError as error:
        warnings.warn(f"{detector!r}: {error}", RepositoryWarning, stacklevel=2)


def _wholes(monitors: Iterable[Monitor]) -> list[Watched]:
    found = [m.detector for m in monitors if isinstance(m.detector, PartitionDetector)]
    return [Watched(repr(detector), detector.scale.value) for detector in found]


def _whole_series(series: Iterable[SeriesRow]) -> dict[tuple[str, str], SeriesRow]:
    """Return the series of partition-level measures, by detector text and partition segment."""
    return {
        (row["analyzer"], row["segment"]): row for row in series if row["kind"] == Watched.__name__
    }


def read_ledger(
    connection: Connection, partitions: Sequence[PartitionRow], now: datetime
) -> PartitionLedger:
    """Return arrival times, versions and schemas of some partitions.

    A partition arrived with its first version, at an unknown time if that was cleaned away; one that is
    restated is not late.
    """
    v, t = s.partition_version.c, s.table_schema.c
    ids = [row["id"] for row in partitions]
    found: dict[int, Any] = {}
    first: dict[int, Any] = {}
    for some in chunks(ids):
        query = sa.select(v.partition_id, v.version, v.arrived_at, v.table_schema_id).where(
            v.partition_id.in_(some), s.holds(s.partition_version)
        )
        found.update({row.partition_id: row for row in connection.execute(query)})
        arrivals = sa.select(v.partition_id, v.arrived_at).where(
            v.partition_id.in_(some), v.version == 1
        )
        first.update({row[0]: row[1] for row in connection.execute(arrivals)})
    schemas: dict[int, dict[str, str]] = {}
    for some in chunks(sorted({row.table_schema_id for row in found.values()})):
        query = sa.select(t.id, t.columns).where(t.id.in_(some))
        schemas.update({row[0]: dict(json.loads(row[1])) for row in connection.execute(query)})
    rows = [found.get(of) for of in ids]
    return PartitionLedger(
        np.array([to_datetime64(first.get(of)) for of in ids], dtype="M8[s]"),
        np.array([0 if row is None else row.version for row in rows], dtype=np.int64),
        [{} if row is None else schemas[row.table_schema_id] for row in rows],
        now=to_datetime64(now),
    )


def by_detector(monitors: Iterable[Monitor]) -> dict[Detector, list[Monitor]]:
    """Group monitors by detector."""
    found: dict[Detector, list[Monitor]] = {}
    for monitor in monitors:
        found.setdefault(monitor.detector, []).append(monitor)
    return found


def _watched_by(monitors: Sequence[Monitor]) -> Callable[[SeriesRow], bool]:
    return lambda row: any(monitor.watches(row) for monitor in monitors)


def known_scores(one: Matrix, past: Points, start: int) -> Scores:
    """Return a detector's stored scores of the partitions before an index, as arrays.

    Scores of superseded versions are left out.
    """
    line = {row["id"]: i for i, row in enumerate(one.series)}
    column = {row["id"]: t for t, row in enumerate(one.partitions[:start])}
    kept = np.array([n in line for n in past.series.tolist()], dtype=bool)
    past = past.taken(np.flatnonzero(kept))
    i = np.array([line[n] for n in past.series.tolist()], dtype=np.intp)
    t = np.array([column[n] for n in past.partition.tolist()], dtype=np.intp)
    scores = Scores.unscored((len(one.series), start))
    current = past.version == one.version[i, t] if len(i) else np.zeros(0, dtype=bool)
    for name in (*NUMBERS, "reason"):
        getattr(scores, name)[i[current], t[current]] = getattr(past, name)[current]
    return scores


def _sides(connection: Connection, one: Matrix, start: int, detector: str) -> Floats:
    """Return each series' anomaly direction in the partition before an index: 1 high, -1 low, else 0."""
    sides = np.zeros(len(one.series))
    if start:
        n, f = s.anomaly.c, s.finding.c
        query = (
            sa.select(n.series_id, f.value - f.expected)
            .join_from(s.anomaly, s.finding, (f.anomaly_id == n.id) & s.holds(s.finding))
            .where(n.partition_id == one.partitions[start - 1]["id"], n.detector == detector)
        )
        by = dict(connection.execute(query).all())
        sides = np.array([np.sign(by.get(row["id"]) or 0.0) for row in one.series])
    return sides


def _earlier(
    connection: Connection, one: Matrix, rows: set[int], first: int, ids: Sequence[int]
) -> Mapping[int, list[float]]:
    """Return, for series with anomalies, all values before a matrix's first partition."""
    before: dict[int, list[float]] = {i: [] for i in rows}
    if first and rows:
        m = s.metric.c
        line = {int(one.series[i]["id"]): i for i in rows}
        for some in chunks(ids[:first]):
            for part in chunks(sorted(line)):
                query = sa.select(m.series_id, m.value).where(
                    m.partition_id.in_(some),
                    m.series_id.in_(part),
                    m.value.is_not(None),
                    s.holds(s.metric),
                )
                for series, value in connection.execute(query):
                    before[line[series]].append(value)
    return before


def find(
    facts: Facts,
    monitors: Sequence[Monitor],
    window: Window,
    teaching: TrainingLabels | None = None,
) -> tuple[dict[Key, Finding], Points]:
    """Score the whole history of some metrics without a database; return anomalies and scored points."""
    findings: dict[Key, Finding] = {}
    points: list[Points] = []
    for detector, of in by_detector(monitors).items():
        for places in group_by_segment(facts.partitions).values():
            one = matrix(facts, places, _watched_by(of), detector.least, teaching)
            result = scored(detector, of, one, window, teaching)
            points.append(result.points())
            findings |= {found.key: found for found in result.findings()}
    return findings, Points.concatenate(points)
