"""The past as detectors are tried on it. Stores nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from repository.anomalies.calendar import holidays_of
from repository.anomalies.detection import find, read_ledger, stored_suite
from repository.anomalies.detector import Detector, Ledger, WholeDetector
from repository.anomalies.finding import Finding, judged_whole, points_of
from repository.anomalies.matrices import matrix, timeline
from repository.anomalies.monitor import Monitor
from repository.anomalies.scorebook import Points
from repository.anomalies.teaching import Teaching
from repository.anomalies.verdicts import incidents_of, judged
from repository.facts import Facts, read_facts
from repository.history import MetricQuery, Window, dataset_id
from repository.labels import said_of
from repository.recorded import Watched

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from repository.said import Said

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Past:
    """All that a backtest looks at.

    Attributes
    ----------
    facts : Facts
    window : Window
        What counts; all before it teaches.
    teaching : Teaching
    said : list of Said
    incidents : mapping of int to int
        The stored incident of each stored anomaly.
    ledgers : mapping of str to Ledger
        By the segment that the partitions' own keys make.
    """

    facts: Facts
    window: Window
    teaching: Teaching
    said: Sequence[Said]
    incidents: Mapping[int, int]
    ledgers: Mapping[str, Ledger]

    @classmethod
    def read(cls, connection: Connection, dataset: str, query: MetricQuery) -> Past:
        """Read what a query asks for; its window says what counts."""
        of = dataset_id(connection, dataset)
        facts = read_facts(connection, dataset, replace(query, window=Window()))
        partitions, now = facts.partitions, datetime.now(UTC)
        # What people ignore is muted, but found: it is a false alarm if a detector gives it.
        said = [
            replace(one, label="expected") if one.label == "ignore" else one
            for one in said_of(connection, of)
        ]
        calendar = stored_suite(connection, of).get("holidays")
        return cls(
            facts,
            query.window,
            Teaching(said, holidays_of(calendar, (row["time"] for row in partitions))),
            judged(connection, of),
            incidents_of(connection, of),
            {
                within: read_ledger(connection, [partitions[place] for place in places], now)
                for within, places in timeline(partitions).items()
            },
        )

    def tried(self, monitor: Monitor) -> tuple[list[Finding], Points]:
        """Return what a monitor finds in the window, and all points that it scores."""
        if isinstance(monitor.detector, WholeDetector):
            return _wholes(self, monitor, monitor.detector)
        found, points = find(self.facts, [monitor], self.window, self.teaching)
        return list(found.values()), points


def series_of(detector: Detector, within: str) -> Row:
    """Return the series of what a detector measures of whole partitions, which need not be stored."""
    return {
        "id": -1,
        "segment": within,
        "name": repr(detector).partition("(")[0],
        "instance": "*",
        "analyzer": repr(detector),
        "kind": Watched.__name__,
        "filter": None,
        "key": "",
    }


def _wholes(past: Past, monitor: Monitor, detector: WholeDetector) -> tuple[list[Finding], Points]:
    """Judge partitions as wholes."""
    facts, findings, points = past.facts, [], []
    for within, places in timeline(facts.partitions).items():
        wanted = monitor.watches if detector.needs_values else _nothing
        one = matrix(facts, places, wanted, 1, past.teaching)
        whole, scores, told = judged_whole(
            detector,
            [monitor],
            replace(one, series=[series_of(detector, within)]),
            past.ledgers[within],
            0,
            past.window,
        )
        points.append(points_of(whole, scores, 0, [row["id"] for row in whole.partitions]))
        findings += told
    return findings, Points.joined(points)


def _nothing(row: Row) -> bool:  # noqa: ARG001 - no series is wanted
    return False
