"""Replay detectors over stored history for a backtest. Stores nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidegauge.repository.detection.detect import find, read_ledger, stored_suite
from tidegauge.repository.detection.findings import Finding, judge_partitions, points_of
from tidegauge.repository.detectors.base import Detector, PartitionDetector, PartitionLedger
from tidegauge.repository.detectors.holidays import suite_holidays
from tidegauge.repository.detectors.matrices import Matrix, group_by_segment, matrix
from tidegauge.repository.detectors.monitor import Monitor
from tidegauge.repository.detectors.training import TrainingLabels
from tidegauge.repository.incidents.feedback import feedback_labels, incidents_of
from tidegauge.repository.store.facts import Facts, read_facts
from tidegauge.repository.store.labels import training_labels
from tidegauge.repository.store.queries import MetricQuery, Window, dataset_id
from tidegauge.repository.store.recorded import Watched
from tidegauge.repository.store.rows import SeriesRow
from tidegauge.repository.store.scorebook import Points

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from sqlalchemy.engine import Connection

    from tidegauge.repository.store.label_effects import LabelEffect


@dataclass(frozen=True)
class BacktestHistory:
    """The history that a backtest reads.

    Attributes
    ----------
    facts : Facts
    window : Window
        Points in it are counted; everything before it is training history.
    teaching : TrainingLabels
        Labels and holidays, with ``ignore`` read as ``expected``.
    said : sequence of LabelEffect
        Labels by users that judge alarms.
    incidents : mapping of int to int
        The stored incident of each stored anomaly.
    ledgers : mapping of str to PartitionLedger
        By partition segment: the segment that the non-time partition keys form.
    """

    facts: Facts
    window: Window
    teaching: TrainingLabels
    said: Sequence[LabelEffect]
    incidents: Mapping[int, int]
    ledgers: Mapping[str, PartitionLedger]

    @classmethod
    def read(cls, connection: Connection, dataset: str, query: MetricQuery) -> BacktestHistory:
        """Read the series that a query selects, over all time; its window limits what is counted."""
        of = dataset_id(connection, dataset)
        facts = read_facts(connection, dataset, replace(query, window=Window()))
        partitions, now = facts.partitions, datetime.now(UTC)
        # An ignored point counts as a false alarm if a detector flags it: so exclude it from
        # training only, not from detection.
        said = [
            replace(one, label="expected") if one.label == "ignore" else one
            for one in training_labels(connection, of)
        ]
        suite = stored_suite(connection, of)
        return cls(
            facts,
            query.window,
            TrainingLabels(said, suite_holidays(suite, (row["time"] for row in partitions))),
            feedback_labels(connection, of),
            incidents_of(connection, of),
            {
                within: read_ledger(connection, [partitions[place] for place in places], now)
                for within, places in group_by_segment(partitions).items()
            },
        )

    def tried(self, monitor: Monitor) -> tuple[list[Finding], Points]:
        """Return a monitor's findings in the window, and all points that it scores."""
        if isinstance(monitor.detector, PartitionDetector):
            return _wholes(self, monitor, monitor.detector)
        found, points = find(self.facts, [monitor], self.window, self.teaching)
        return list(found.values()), points


def series_of(detector: Detector, within: str) -> SeriesRow:
    """Return the series of a partition-level detector's measure, which need not be stored."""
    return {
        "id": -1,
        "segment": within,
        "entity": "",
        "name": repr(detector).partition("(")[0],
        "instance": "*",
        "analyzer": repr(detector),
        "kind": Watched.__name__,
        "scale": "",
        "filter": None,
        "key": "",
    }


def _wholes(
    past: BacktestHistory, monitor: Monitor, detector: PartitionDetector
) -> tuple[list[Finding], Points]:
    """Score and judge whole partitions with a partition-level detector."""
    facts, findings, points = past.facts, [], []
    for within, places in group_by_segment(facts.partitions).items():
        wanted = monitor.watches if detector.needs_values else _nothing
        one = matrix(facts, places, wanted, 1, past.teaching)
        whole, scores, told = judge_partitions(
            detector,
            [monitor],
            replace(one, series=[series_of(detector, within)]),
            replace(past.ledgers[within], muted=_muted(past, detector, within, one)),
            0,
            past.window,
        )
        points.append(points_of(whole, scores, 0, [row["id"] for row in whole.partitions]))
        findings += told
    return findings, Points.concatenate(points)


def _muted(
    past: BacktestHistory, detector: PartitionDetector, within: str, one: Matrix
) -> NDArray[np.bool_] | None:
    """Return a mask of the partitions that labels exclude from training of a detector."""
    stored = (
        row
        for row in past.facts.series
        if row["kind"] == Watched.__name__
        and (row["analyzer"], row["segment"]) == (repr(detector), within)
    )
    own = next(stored, series_of(detector, within))
    muted = past.teaching.muted([own], one.partitions)
    return None if muted is None else muted[0]


def _nothing(row: SeriesRow) -> bool:
    return False
