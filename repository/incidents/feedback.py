"""User feedback on alarms: real and false alarms, and their rates by detector."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING

import numpy as np
import sqlalchemy as sa

from tidegauge.repository.detectors.inputs import mark
from tidegauge.repository.incidents.listing import anomaly_rows
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.labels import training_labels
from tidegauge.repository.store.queries import MetricQuery, dataset_id
from tidegauge.repository.store.rows import AnomalyRow, CountRow, PartitionRow, RateRow, SeriesRow
from tidegauge.repository.store.scorebook import detectors
from tidegauge.repository.store.windows import WindowScheme

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sqlalchemy.engine import Connection

    from tidegauge.repository.store.rows import LabelEffect


REAL_LABELS = frozenset({"acknowledged", "bad"})
FALSE_LABELS = frozenset({"expected", "ignore"})
IN_ALL = "in all"


def feedback_labels(connection: Connection, dataset: int) -> list[LabelEffect]:
    """Return users' labels that confirm or reject alarms, the newest last; automatic labels are left out."""
    labels = training_labels(connection, dataset, sorted(REAL_LABELS | FALSE_LABELS))
    return [
        label
        for label in labels
        if label.points is None or label.label in REAL_LABELS | FALSE_LABELS
    ]


@dataclass(frozen=True)
class FeedbackMatrix:
    """Verdicts of users on points.

    Attributes
    ----------
    verdicts : array of int, shape (series, partitions)
        1 for real, -1 for false, 0 for unlabeled.
    real : mapping of (str, int) to array of bool
        The points of each real case: an incident, an anomaly without an incident, or a range.
    """

    verdicts: NDArray[np.int8]
    real: Mapping[tuple[str, int], NDArray[np.bool_]]

    @classmethod
    def from_labels(
        cls,
        labels: Sequence[LabelEffect],
        incidents: Mapping[int, int],
        series: Sequence[SeriesRow],
        partitions: Sequence[PartitionRow],
        *,
        partition_level: bool = False,
    ) -> FeedbackMatrix:
        """Combine labels into verdicts on points. The last label of each point counts.

        Parameters
        ----------
        labels : sequence of LabelEffect
            Labels, as `feedback_labels` returns them.
        incidents : mapping of int to int
            The incident of each anomaly.
        series, partitions : sequence of mapping
            Rows and columns of the result.
        partition_level : bool
            True for partition-level series. A label of any series then counts for its partition.
        """
        verdicts = np.zeros((len(series), len(partitions)), dtype=np.int8)
        real: dict[tuple[str, int], NDArray[np.bool_]] = {}
        for label in labels:
            if partition_level:
                columns = np.array([label.covers(row) for row in partitions], dtype=bool)
                points = np.tile(columns, (len(series), 1))
            else:
                points = mark(label, series, partitions)
            verdicts[points] = (
                1 if label.label in REAL_LABELS else -1 if label.label in FALSE_LABELS else 0
            )
            subject = label.subject or ("range", 0)
            if subject[0] == "anomaly" and subject[1] in incidents:
                subject = ("incident", incidents[subject[1]])
            if label.label in REAL_LABELS:
                real[subject] = points | real.get(subject, np.zeros_like(points))
        confirmed = {subject: points & (verdicts > 0) for subject, points in real.items()}
        return cls(
            verdicts, {subject: points for subject, points in confirmed.items() if points.any()}
        )


def incidents_of(connection: Connection, dataset: int) -> dict[int, int]:
    """Return the current incident of each anomaly of a dataset."""
    n, f, p = s.anomaly.c, s.finding.c, s.partition.c
    query = (
        sa.select(n.id, f.incident_id)
        .join_from(s.anomaly, s.finding, (f.anomaly_id == n.id) & s.holds(s.finding))
        .join(s.partition, p.id == n.partition_id)
        .where(p.dataset_id == dataset, f.incident_id.is_not(None))
    )
    return {row[0]: row[1] for row in connection.execute(query)}


def rate_rows(connection: Connection, dataset: str | None) -> list[RateRow]:
    """Return the number of alarms and their labels, by detector and in total."""
    names = [dataset] if dataset is not None else list(_dataset_names(connection))
    counts: dict[str, list[int]] = {}
    for name in names:
        dataset_key = dataset_id(connection, name)
        labels = feedback_labels(connection, dataset_key)
        for detector, points in _scored_points(connection, dataset_key):
            counts.setdefault(detector, [0, 0, 0, 0])[3] += points
        for row in anomaly_rows(connection, name, None, MetricQuery()):
            count = counts.setdefault(row["detector"], [0, 0, 0, 0])
            label = _last_label(labels, row)
            count[0] += 1
            count[1] += label in REAL_LABELS
            count[2] += label in FALSE_LABELS
    total = [sum(count[k] for count in counts.values()) for k in range(4)]
    rows = [_rate_row(detector, counts[detector]) for detector in sorted(counts)]
    return [*rows, _rate_row(IN_ALL, total)]


def _rate_row(detector: str, counts: Sequence[int]) -> RateRow:
    anomalies, real, false, points = counts
    return {
        "detector": detector,
        "anomalies": anomalies,
        "labelled": real + false,
        "real": real,
        "false": false,
        "false_share": share(false, real + false),
        "points": points,
        "per_1000": 1000 * share(anomalies, points),
    }


def share(dividend: float, divisor: float) -> float:
    """Return a quotient; NaN if the divisor is 0.

    Examples
    --------
    >>> share(1, 4), share(0, 0)
    (0.25, nan)
    """
    return dividend / divisor if divisor else nan


def _last_label(labels: Sequence[LabelEffect], row: AnomalyRow) -> str | None:
    """Return the last label that covers a stored anomaly."""
    subjects = {("anomaly", row["id"]), ("incident", row["incident_id"])}
    for label in reversed(labels):
        if label.subject in subjects:
            return label.label
        ranged = label.points is None
        if ranged and label.applies_to(row) and label.covers(row):
            return label.label
    return None


def _dataset_names(connection: Connection) -> Iterator[str]:
    d = s.dataset.c
    yield from connection.execute(sa.select(d.name).order_by(d.name)).scalars()


def _scored_points(connection: Connection, dataset: int) -> Iterator[tuple[str, int]]:
    """Yield each detector of a dataset with the number of points that it scored."""
    c, p = s.score.c, s.partition.c
    query = (
        sa.select(c.detector, sa.func.sum(sa.func.length(c.reason)))  # a byte for each point
        .join_from(s.score, s.partition, p.id == c.partition_id)
        .where(p.dataset_id == dataset, s.holds(s.score))
        .group_by(c.detector)
    )
    counts = {row[0]: int(row[1] or 0) for row in connection.execute(query)}
    yield from {**dict.fromkeys(detectors(connection, dataset), 0), **counts}.items()


def count_rows(
    connection: Connection, dataset: str | None, every: str, query: MetricQuery
) -> list[CountRow]:
    """Return the number of anomalies by time window and metric; anomalies without a time come last."""
    windows = WindowScheme.from_interval(every)
    anomalies = anomaly_rows(connection, dataset, None, query)
    times = sorted(
        (time, n) for n, row in enumerate(anomalies) if (time := row["time"]) is not None
    )
    timed = [anomalies[n] for _, n in times]
    parts = [
        (span.start, span.end, timed[span.first : span.last])
        for span in windows.spans([time for time, _ in times])
    ]
    timeless = [row for row in anomalies if row["time"] is None]
    rows: list[CountRow] = []
    for start, end, members in (*parts, *([(None, None, timeless)] if timeless else [])):
        topics: dict[tuple[str, str], list[AnomalyRow]] = {}
        for row in members:
            topics.setdefault((row["name"], row["instance"]), []).append(row)
        rows += [
            {
                "start": start,
                "end": end,
                "name": name,
                "instance": instance,
                "anomalies": len(topic_rows),
                "series": len({row["series_id"] for row in topic_rows}),
                "partitions": len({row["partition_id"] for row in topic_rows}),
                "incidents": len({row["incident_id"] for row in topic_rows} - {None}),
            }
            for (name, instance), topic_rows in sorted(topics.items())
        ]
    return rows
