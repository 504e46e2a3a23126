"""From stored metrics to stored scores, anomalies and incidents.

What detectors say is a function of what was measured and of what people said of it, both as they are now.
So only partitions from the first one on that changed since a detector last looked are scored again, and a
replay of all gives the same.
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

from analyzers.description import canonical_json, key_of
from analyzers.errors import HistoryError, RepositoryWarning
from analyzers.metric import Entity, Metric, Success
from repository import schema as s
from repository.anomalies import scorebook
from repository.anomalies.arrivals import Late, MissingPartition
from repository.anomalies.calendar import Calendar, holidays_of
from repository.anomalies.contents import SchemaChange, StalePartition
from repository.anomalies.detector import Detector, Ledger, Scores, WholeDetector
from repository.anomalies.drifting import Drift
from repository.anomalies.finding import (
    Finding,
    Key,
    allowed,
    decided,
    finding,
    inside,
    judged_whole,
    points_of,
)
from repository.anomalies.matrices import Matrix, grid_of, matrix, naive, timeline
from repository.anomalies.monitor import Monitor, Severity
from repository.anomalies.scorebook import NUMBERS, Points
from repository.anomalies.seasonal import Seasonal
from repository.anomalies.teaching import Teaching
from repository.anomalies.writing import Found, write
from repository.artifacts import Artifacts
from repository.bulk import chunks
from repository.columns import Column
from repository.database import Database
from repository.dimensions import Dimensions
from repository.drift import drifts
from repository.facts import Facts, dimensions_of, read_facts
from repository.history import MetricQuery, Window, dataset_id
from repository.labels import said_of
from repository.recorded import Watched

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from repository.anomalies.detector import Floats

Row = Mapping[str, Any]


def detect(
    database: Database,
    artifacts: Artifacts,
    dataset: str,
    monitors: Sequence[Monitor] | None,
    window: Window,
    *,
    replay: bool = False,
) -> None:
    """Score what is new in a dataset, and store scores, anomalies and incidents, all in one commit.

    Nothing is written that is there already. An anomaly that is no longer one is withdrawn; it comes
    back under its old id.

    Parameters
    ----------
    database : Database
    artifacts : Artifacts
        Where large states are, which distributions are read from.
    dataset : str
    monitors : sequence of Monitor, optional
        Those of the dataset's last run if not given; then what others once found is withdrawn.
    window : Window
        Only points in it can become anomalies or cease to be one.
    replay : bool
        Whether to score the whole history again.
    """
    done = False
    while not done:  # again if somebody else detected meanwhile
        _make_room(database, artifacts, dataset, monitors)
        with database.read() as connection:
            work = Work.of(connection, dataset, monitors, window, replay=replay)
            if not work.has_room:
                continue
            found = work.find(connection)
        done = database.write(lambda c, w=work, f=found: write(c, w, f))  # type: ignore[misc]


def stored_suite(connection: Connection, dataset: int) -> Row:
    """Return the suite of a dataset's last run, as JSON keeps it; empty if it has none."""
    r = s.run.c
    query = sa.select(r.suite).where(r.dataset_id == dataset).order_by(r.id.desc()).limit(1)
    suite: Row = json.loads(connection.execute(query).scalar() or "{}")
    return suite


def stored_monitors(suite: Row) -> list[Monitor]:
    """Return the monitors of a suite; if it has none, those that suit every table."""
    stored: list[Row] = suite.get("monitors") or []
    return [Monitor.from_dict(monitor) for monitor in stored] or list(DEFAULT)


DEFAULT = tuple(
    Monitor(detector=detector)
    for detector in (Seasonal(), StalePartition(), MissingPartition(), Late(), SchemaChange())
)
"""The monitors of a dataset for which nobody wrote any."""


@dataclass(frozen=True)
class Work:
    """What is to be scored, as of a commit."""

    dataset: str
    id: int
    seen: int
    known: tuple[list[Row], list[Row]]
    watched: Mapping[Detector, list[Monitor]]
    marks: Mapping[str, tuple[int, str]]
    teaching: Teaching
    calendar: Calendar
    window: Window
    alone: bool
    replay: bool
    whole_series: Mapping[tuple[str, str], Row]
    now: datetime

    @classmethod
    def of(
        cls,
        connection: Connection,
        dataset: str,
        monitors: Sequence[Monitor] | None,
        window: Window,
        *,
        replay: bool,
    ) -> Work:
        """Look at what there is, and at what was done."""
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
            teaching=Teaching(
                said_of(connection, of),
                holidays_of(suite.get("holidays"), (row["time"] for row in known[1])),
            ),
            calendar=suite.get("holidays"),
            window=window,
            alone=monitors is None,
            replay=replay,
            whole_series=_whole_series(connection, of),
            now=datetime.now(UTC),
        )

    @property
    def has_room(self) -> bool:
        """Whether there are series for what detectors of whole partitions measure, also of new kinds."""
        wholes = [repr(d) for d in self.watched if isinstance(d, WholeDetector)]
        kinds = timeline(self.known[1])
        return all((name, within) in self.whole_series for name in wholes for within in kinds)

    def find(self, connection: Connection) -> list[Found]:
        """Score what changed, with each detector."""
        found = []
        for detector, monitors in self.watched.items():
            decide = [[m.to_dict() for m in monitors], self.calendar]
            one = Found(repr(detector), key_of(canonical_json(decide)))
            changed = self._changed(connection, detector, one)
            for within, places in timeline(self.known[1]).items():
                start = next((k for k, p in enumerate(places) if self._id(p) in changed), None)
                if start is None:
                    continue
                if isinstance(detector, WholeDetector):
                    self._judge(connection, detector, monitors, within, places, start, one)
                else:
                    self._score(connection, detector, monitors, places, start, one)
            found.append(one)
        return found

    def _id(self, place: int) -> int:
        return int(self.known[1][place]["id"])

    def _changed(self, connection: Connection, detector: Detector, one: Found) -> set[int]:
        """Return the partitions of which something was measured or said since the detector looked."""
        mark, decided_by = self.marks.get(one.detector, (0, ""))
        always = isinstance(detector, WholeDetector) and not detector.needs_values
        # What goes on needs less by each monitor for itself, and nobody keeps which of them found what.
        always |= len(self.watched[detector]) > 1
        if always or self.replay or decided_by != one.decided_by or self.window != Window():
            return {int(row["id"]) for row in self.known[1]}
        m, p = s.metric.c, s.partition.c
        metrics = (
            sa.select(m.partition_id)
            .join_from(s.partition, s.metric, m.partition_id == p.id)
            .where(p.dataset_id == self.id)
            .where((m.commit_id > mark) | (m.superseded_commit_id > mark))
            .distinct()
        )
        new = [said for said in self.teaching.said if said.commit > mark]
        covered = {int(row["id"]) for row in self.known[1] if any(x.covers(row) for x in new)}
        return covered | set(connection.execute(metrics).scalars())

    def _score(
        self,
        connection: Connection,
        detector: Detector,
        monitors: Sequence[Monitor],
        places: Sequence[int],
        start: int,
        found: Found,
    ) -> None:
        """Score partitions from one on, of those that the keys of partitions set apart."""
        grid = grid_of(self.known[1], places)
        reach = None if self.teaching.restarts else detector.reach(grid)
        first = 0 if reach is None else max(start - reach, 0)
        ids = [self._id(place) for place in places]
        read = None if first == 0 else ids[first:]
        facts = read_facts(connection, self.dataset, MetricQuery(), None, read, self.known)
        one = matrix(
            facts,
            places[first:],
            _watched_by(monitors),
            detector.least if first == 0 else 1,
            self.teaching,
            grid.part(first),
        )
        start -= first
        past = scorebook.read(connection, self.id, found.detector, ids[first:][:start])
        scores = detector.score(one.history, start, known_scores(one, past, start))
        may = allowed(one, start, self.teaching)
        before = _sides(connection, one, start, found.detector)
        flags, grave = decided(monitors, one, scores, start, may, before)
        flags &= inside(one, start, self.window)
        found.partitions += ids[first:][start:]
        new = points_of(one, scores, start, ids[first:])
        found.points = Points.joined([found.points, new])
        places_of = sorted(zip(*np.nonzero(flags), strict=True))
        earlier = _earlier(connection, one, {int(i) for i, _ in places_of}, first, ids)
        severities = list(Severity)
        found.findings += [
            finding(
                found.detector,
                one,
                scores,
                (int(i), int(k)),
                start,
                severities[grave[i, k]],
                [*earlier[int(i)], *_known(one, int(i), int(k) + start)],
            )
            for i, k in places_of
        ]

    def _judge(
        self,
        connection: Connection,
        detector: WholeDetector,
        monitors: Sequence[Monitor],
        within: str,
        places: Sequence[int],
        start: int,
        found: Found,
    ) -> None:
        """Judge partitions as wholes from one on."""
        grid = grid_of(self.known[1], places)
        reach = detector.reach(grid)
        first = 0 if reach is None else max(start - reach, 0)
        ids = [self._id(place) for place in places]
        read = ids[first:] if detector.needs_values and first else None
        if detector.needs_values:
            facts = read_facts(connection, self.dataset, MetricQuery(), None, read, self.known)
            wanted = _watched_by(monitors)
        else:
            facts = read_facts(connection, self.dataset, MetricQuery(), None, [], self.known)
            wanted = _nothing
        one = matrix(facts, places[first:], wanted, 1, self.teaching, grid.part(first))
        row = self.whole_series[repr(detector), within]
        muted = self.teaching.muted([row], one.partitions)
        ledger = replace(
            read_ledger(connection, one.partitions, self.now),
            muted=None if muted is None else muted[0],
        )
        start -= first
        whole, scores, findings = judged_whole(
            detector,
            monitors,
            replace(one, series=[row]),
            ledger,
            start,
            self.window,
            self.teaching,
        )
        found.partitions += ids[first:][start:]
        found.points = Points.joined([found.points, points_of(whole, scores, start, ids[first:])])
        found.findings += findings


def _nothing(row: Row) -> bool:  # noqa: ARG001 - no series is wanted
    return False


def _make_room(
    database: Database, artifacts: Artifacts, dataset: str, monitors: Sequence[Monitor] | None
) -> None:
    """Make what detectors look at: the series of whole partitions, and the distances of columns."""
    with database.read() as connection:
        of = dataset_id(connection, dataset)
        suite = stored_suite(connection, of)
        watching = stored_monitors(suite) if monitors is None else monitors
        partitions = dimensions_of(connection, of, MetricQuery())[1]
        wanted = {
            (within, key_of(what.canonical())): what
            for what in _wholes(watching)
            for within in timeline(partitions)
        }
        there = _whole_series(connection, of)
    for one in watching:
        if isinstance(one.detector, Drift):
            _record_drifts(Column(database, artifacts, dataset, one.detector.column), one.detector)
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


def _record_drifts(column: Column, detector: Drift) -> None:
    """Record how far each partition is from those before it; what cannot be compared is told."""
    try:
        drifts(column, detector.baseline, Window())
    except HistoryError as error:
        warnings.warn(f"{detector!r}: {error}", RepositoryWarning, stacklevel=2)


def _wholes(monitors: Iterable[Monitor]) -> list[Watched]:
    found = [m.detector for m in monitors if isinstance(m.detector, WholeDetector)]
    return [Watched(repr(detector), detector.scale.value) for detector in found]


def _whole_series(connection: Connection, dataset: int) -> dict[tuple[str, str], Row]:
    """Return the series of what detectors of whole partitions measure, by their text and segment."""
    query = MetricQuery()
    return {
        (row["analyzer"], row["segment"]): row
        for row in dimensions_of(connection, dataset, query)[0]
        if row["kind"] == Watched.__name__
    }


def read_ledger(connection: Connection, partitions: Sequence[Row], now: datetime) -> Ledger:
    """Return what is known of some partitions as such."""
    v, t = s.partition_version.c, s.table_schema.c
    ids = [row["id"] for row in partitions]
    found: dict[int, Any] = {}
    for some in chunks(ids):
        query = sa.select(v.partition_id, v.version, v.arrived_at, v.table_schema_id).where(
            v.partition_id.in_(some), s.holds(s.partition_version)
        )
        found.update({row.partition_id: row for row in connection.execute(query)})
    schemas: dict[int, dict[str, str]] = {}
    for some in chunks(sorted({row.table_schema_id for row in found.values()})):
        query = sa.select(t.id, t.columns).where(t.id.in_(some))
        schemas.update({row[0]: dict(json.loads(row[1])) for row in connection.execute(query)})
    rows = [found.get(of) for of in ids]
    return Ledger(
        np.array([naive(row and row.arrived_at) for row in rows], dtype="M8[s]"),
        np.array([0 if row is None else row.version for row in rows], dtype=np.int64),
        [{} if row is None else schemas[row.table_schema_id] for row in rows],
        now=naive(now),
    )


def by_detector(monitors: Iterable[Monitor]) -> dict[Detector, list[Monitor]]:
    """Return monitors by their detectors."""
    found: dict[Detector, list[Monitor]] = {}
    for monitor in monitors:
        found.setdefault(monitor.detector, []).append(monitor)
    return found


def _watched_by(monitors: Sequence[Monitor]) -> Callable[[Row], bool]:
    return lambda row: any(monitor.watches(row) for monitor in monitors)


def known_scores(one: Matrix, past: Points, start: int) -> Scores:
    """Return what was said of the partitions before a place, as arrays."""
    line = {row["id"]: i for i, row in enumerate(one.series)}
    column = {row["id"]: t for t, row in enumerate(one.partitions[:start])}
    kept = np.array([n in line for n in past.series.tolist()], dtype=bool)
    past = past.taken(np.flatnonzero(kept))
    i = np.array([line[n] for n in past.series.tolist()], dtype=np.intp)
    t = np.array([column[n] for n in past.partition.tolist()], dtype=np.intp)
    scores = Scores.nothing((len(one.series), start))
    current = past.version == one.version[i, t] if len(i) else np.zeros(0, dtype=bool)
    for name in (*NUMBERS, "reason"):
        getattr(scores, name)[i[current], t[current]] = getattr(past, name)[current]
    return scores


def _sides(connection: Connection, one: Matrix, start: int, detector: str) -> Floats:
    """Return which series were an anomaly in the partition before a place: 1 too high, -1 too low."""
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
    """Return, for series with anomalies, all values before the first partition of a matrix."""
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


def _known(one: Matrix, i: int, t: int) -> list[float]:
    """Return the values of a series before a place, but for those that are missing."""
    past = one.history.values[i, :t]
    return list(past[~np.isnan(past)].tolist())


def find(
    facts: Facts, monitors: Sequence[Monitor], window: Window, teaching: Teaching | None = None
) -> tuple[dict[Key, Finding], Points]:
    """Score the whole history of some metrics, without a database; return anomalies and scored points."""
    findings: dict[Key, Finding] = {}
    points: list[Points] = []
    ids = [row["id"] for row in facts.partitions]
    for detector, of in by_detector(monitors).items():
        for places in timeline(facts.partitions).values():
            one = matrix(facts, places, _watched_by(of), detector.least, teaching)
            scores = detector.score(one.history)
            flags, grave = decided(of, one, scores, 0, allowed(one, 0, teaching))
            flags &= inside(one, 0, window)
            points.append(points_of(one, scores, 0, [ids[place] for place in places]))
            for i, t in zip(*np.nonzero(flags), strict=True):
                told = finding(
                    repr(detector),
                    one,
                    scores,
                    (int(i), int(t)),
                    0,
                    list(Severity)[grave[i, t]],
                    _known(one, int(i), int(t)),
                )
                findings[told.key] = told
    return findings, Points.joined(points)
