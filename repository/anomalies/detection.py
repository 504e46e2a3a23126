"""From stored metrics to stored scores and anomalies."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sa

from analyzers.metric import Scale
from repository import schema as s
from repository.anomalies.detector import History, Scores
from repository.anomalies.explain import direction, explain
from repository.anomalies.monitor import Monitor, Severity
from repository.bulk import chunks, insert_rows
from repository.database import Database, lock_clock, next_commit, next_findings
from repository.facts import read_facts
from repository.history import MetricQuery, Window, dataset_id

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


Row = Mapping[str, Any]
_Key = tuple[int, int, int, str]
_NUMBERS = {"NaN": np.nan, "+inf": np.inf, "-inf": -np.inf, "failed": np.nan, "empty": np.nan}
_SCORES = ("score", "p_value", "expected", "lower", "upper")


@dataclass(frozen=True)
class _Matrix:
    """The series of one segment over its partitions."""

    series: list[int]
    partitions: list[int]
    cells: dict[tuple[int, int], Row]
    history: History


def detect(
    database: Database, dataset: str, monitors: Sequence[Monitor] | None, window: Window
) -> None:
    """Score the whole history of a dataset, and store scores and anomalies, all in one commit.

    Nothing is written that is there already. An anomaly that is no longer one is withdrawn; it comes
    back under its old id.
    """
    with database.read() as connection:
        of = dataset_id(connection, dataset)
        watched = monitors if monitors is not None else stored_monitors(connection, of)
        rows = list(read_facts(connection, dataset, MetricQuery()).rows())
    findings = find(rows, watched, window)
    detectors = None if monitors is None else {repr(m.detector) for m in watched}
    database.write(lambda connection: _Writer(connection, of, detectors, window).write(findings))


def find(rows: Sequence[Row], monitors: Sequence[Monitor], window: Window) -> dict[_Key, Finding]:
    """Score metrics, which come in time's order; of two monitors with one detector the gravest counts."""
    return {
        finding.key: finding
        for monitor in sorted(monitors, key=lambda m: list(Severity).index(Severity(m.severity)))
        for matrix in _matrices((r for r in rows if monitor.watches(r)), monitor.detector.least)
        for finding in _score(monitor, matrix, window)
    }


def stored_monitors(connection: Connection, dataset: int) -> list[Monitor]:
    """Return the monitors of a dataset's last run; the seasonal one on everything if it had none."""
    r = s.run.c
    query = sa.select(r.suite).where(r.dataset_id == dataset).order_by(r.id.desc()).limit(1)
    suite = json.loads(connection.execute(query).scalar() or "{}")
    stored: list[Row] = suite.get("monitors") or [{}]
    return [Monitor.from_dict(monitor) for monitor in stored]


def _matrices(rows: Iterator[Row], least: int) -> Iterator[_Matrix]:
    """Yield a matrix for each segment, without series too short to be scored at all."""
    by_segment: dict[str, list[Row]] = {}
    for row in rows:
        by_segment.setdefault(row["segment"], []).append(row)
    for all_rows in by_segment.values():
        points = Counter(row["series_id"] for row in all_rows)
        some = [row for row in all_rows if points[row["series_id"]] >= least]
        partitions = {row["partition_id"]: row["time"] for row in some}  # rows come in time's order
        scales = {row["series_id"]: Scale(row["scale"]) for row in some}
        place = {partition: t for t, partition in enumerate(partitions)}
        line = {series: i for i, series in enumerate(scales)}
        values = np.full((len(line), len(place)), np.nan)
        weights = np.full_like(values, np.nan)
        cells = {}
        for row in some:
            i, t = line[row["series_id"]], place[row["partition_id"]]
            cells[i, t] = row
            values[i, t] = _NUMBERS.get(row["status"], row["value"])
            weights[i, t] = np.nan if row["weight"] is None else row["weight"]
        times = np.array([_naive(time) for time in partitions.values()], dtype="M8[s]")
        history = History(times, values, weights, list(scales.values()))
        yield _Matrix(list(line), list(place), cells, history)


def _naive(time: datetime | None) -> np.datetime64:
    return np.datetime64("NaT") if time is None else np.datetime64(time.replace(tzinfo=None), "s")


@dataclass(frozen=True)
class Finding:
    """One scored point, and whether it is an anomaly."""

    row: Row
    detector: str
    severity: str
    scores: tuple[float | None, ...]
    anomaly: bool
    explanation: str
    direction: str

    @property
    def key(self) -> _Key:
        """Series, partition, version and detector."""
        return (self.row["series_id"], self.row["partition_id"], self.row["version"], self.detector)


def _score(monitor: Monitor, matrix: _Matrix, window: Window) -> Iterator[Finding]:
    history = matrix.history
    scores = monitor.detector.score(history)
    flags = monitor.rule.decide(history.values, scores)
    name = repr(monitor.detector)
    for (i, t), row in matrix.cells.items():
        if np.isnan(scores.score[i, t]):
            continue
        anomaly = bool(flags[i, t]) and window.holds(row["time"])
        numbers = tuple(float(getattr(scores, column)[i, t]) for column in _SCORES)
        text, side = _explained(row, history, scores, i, t) if anomaly else ("", "")
        stored = tuple(None if np.isnan(n) or np.isinf(n) else n for n in numbers)
        yield Finding(row, name, str(monitor.severity), stored, anomaly, text, side)


def _explained(row: Row, history: History, scores: Scores, i: int, t: int) -> tuple[str, str]:
    expected, lower, upper = (float(x[i, t]) for x in (scores.expected, scores.lower, scores.upper))
    subject = "" if row["instance"] == "*" else f" of {row['instance']}"
    filtered = f" where {row['filter']}" if row["filter"] else ""
    text = explain(
        f"{row['name']}{subject}{filtered}",
        row["partition"],
        row["time"].weekday() if row["time"] is not None else None,
        float(history.values[i, t]),
        history.values[i, :t].tolist(),
        expected,
        lower,
        upper,
    )
    return text, direction(float(history.values[i, t]), expected, lower, upper)


class _Writer:
    """Writes what changed since the last detection.

    Without ``detectors`` it speaks for all that watch the dataset: what they did not find is
    withdrawn, whoever once found it. With some, only what these scored again can be.
    """

    def __init__(
        self, connection: Connection, dataset: int, detectors: set[str] | None, window: Window
    ) -> None:
        self.connection, self.dataset = connection, dataset
        self.detectors, self.window = detectors, window

    def write(self, findings: Mapping[_Key, Finding]) -> None:
        connection = self.connection
        lock_clock(connection)
        known = self._stored_scores()
        scores = [f for f in findings.values() if not _same(known.get(f.key), f.scores)]
        stored = self._stored_anomalies()
        found = {key: f for key, f in findings.items() if f.anomaly}
        fresh = [found[key] for key in sorted(found.keys() - stored.keys())]
        rescored = {f.key for f in scores}
        again = [
            found[key]
            for key in sorted(found.keys() & stored.keys())
            if key in rescored or not stored[key].found
        ]
        left = sorted(
            row.id
            for key, row in stored.items()
            if key not in found
            and (self.detectors is None or key in findings)
            and row.found
            and self.window.holds(row.time)
        )
        if not (scores or fresh or again or left):
            return
        commit, now = next_commit(connection, None)
        insert_rows(connection, s.score, _SCORE_COLUMNS, [_score_row(f, commit) for f in scores])
        ids = next_findings(connection, len(fresh)) if fresh else ()
        self._end([*left, *(stored[f.key].id for f in again)], commit)
        columns = ("id", "series_id", "partition_id", "version", "detector", "detected_at")
        new = [(i, *f.key, now) for i, f in zip(ids, fresh, strict=True)]
        insert_rows(connection, s.anomaly, columns, new)
        rows = [_finding_row(i, f, commit) for i, f in zip(ids, fresh, strict=True)]
        rows += [_finding_row(stored[f.key].id, f, commit) for f in again]
        insert_rows(connection, s.finding, _FINDING_COLUMNS, rows)

    def _end(self, anomalies: Sequence[int], commit: int) -> None:
        f = s.finding
        for some in chunks(anomalies):
            change = sa.update(f).where(f.c.anomaly_id.in_(some), s.holds(f))
            self.connection.execute(change.values(superseded_commit_id=commit))

    def _among(self, detector: sa.Column[Any]) -> sa.ColumnElement[bool]:
        return sa.true() if self.detectors is None else detector.in_(self.detectors)

    def _stored_scores(self) -> dict[_Key, tuple[float | None, ...]]:
        c = s.score.c
        query = (
            sa.select(c.series_id, c.partition_id, c.version, c.detector, *(c[n] for n in _SCORES))
            .join_from(s.score, s.partition, s.partition.c.id == c.partition_id)
            .where(s.partition.c.dataset_id == self.dataset, self._among(c.detector))
            .order_by(c.commit_id)
        )
        return {tuple(row[:4]): tuple(row[4:]) for row in self.connection.execute(query)}

    def _stored_anomalies(self) -> dict[_Key, Any]:
        a, p, f = s.anomaly.c, s.partition.c, s.finding.c
        query = (
            sa.select(
                a.series_id,
                a.partition_id,
                a.version,
                a.detector,
                a.id,
                p.time,
                f.commit_id.is_not(None).label("found"),
            )
            .join_from(s.anomaly, s.partition)
            .outerjoin(s.finding, (f.anomaly_id == a.id) & s.holds(s.finding))
            .where(p.dataset_id == self.dataset, self._among(a.detector))
        )
        return {tuple(row[:4]): row for row in self.connection.execute(query)}


def _same(a: tuple[float | None, ...] | None, b: tuple[float | None, ...]) -> bool:
    if a is None:
        return False
    pairs = zip(a, b, strict=True)
    return all(
        x == y or (x is not None and y is not None and abs(x - y) <= 1e-9 * max(abs(x), abs(y)))
        for x, y in pairs
    )


_SCORE_COLUMNS = ("series_id", "partition_id", "version", "detector", *_SCORES, "commit_id")
_FINDING_COLUMNS = (
    "anomaly_id",
    "commit_id",
    *_SCORES,
    "value",
    "direction",
    "severity",
    "explanation",
)


def _score_row(f: Finding, commit: int) -> tuple[Any, ...]:
    return (*f.key, *f.scores, commit)


def _finding_row(anomaly: int, f: Finding, commit: int) -> tuple[Any, ...]:
    return anomaly, commit, *f.scores, f.row["value"], f.direction, f.severity, f.explanation
