"""User feedback on alarms: real and false ones, and rates by detector."""

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


REAL = frozenset({"acknowledged", "bad"})
FALSE = frozenset({"expected", "ignore"})
IN_ALL = "in all"


def feedback_labels(connection: Connection, dataset: int) -> list[LabelEffect]:
    """Return labels by users, not by tidegauge, that confirm or reject alarms, the newest last."""
    found = training_labels(connection, dataset, sorted(REAL | FALSE))
    return [one for one in found if one.points is None or one.label in REAL | FALSE]


@dataclass(frozen=True)
class FeedbackMatrix:
    """Verdicts of users on points.

    Attributes
    ----------
    of : array of int, shape (series, partitions)
        1 for real, -1 for false, 0 for unlabelled.
    real : mapping of (str, int) to array of bool
        The points of each real case: an incident, an anomaly without one, or a range.
    """

    of: NDArray[np.int8]
    real: Mapping[tuple[str, int], NDArray[np.bool_]]

    @classmethod
    def from_labels(
        cls,
        said: Sequence[LabelEffect],
        incidents: Mapping[int, int],
        series: Sequence[SeriesRow],
        partitions: Sequence[PartitionRow],
        *,
        whole: bool = False,
    ) -> FeedbackMatrix:
        """Combine labels into verdicts on points; the last label of each point counts.

        Parameters
        ----------
        said : sequence of LabelEffect
            As `feedback_labels` returns them.
        incidents : mapping of int to int
            The incident of each anomaly.
        series, partitions : sequence of mapping
        whole : bool
            True for partition-level series: a label of any series then counts for its partition.
        """
        of = np.zeros((len(series), len(partitions)), dtype=np.int8)
        real: dict[tuple[str, int], NDArray[np.bool_]] = {}
        for one in said:
            if whole:
                columns = np.array([one.covers(row) for row in partitions], dtype=bool)
                points = np.tile(columns, (len(series), 1))
            else:
                points = mark(one, series, partitions)
            of[points] = 1 if one.label in REAL else -1 if one.label in FALSE else 0
            about = one.subject or ("range", 0)
            if about[0] == "anomaly" and about[1] in incidents:
                about = ("incident", incidents[about[1]])
            if one.label in REAL:
                real[about] = points | real.get(about, np.zeros_like(points))
        left = {about: points & (of > 0) for about, points in real.items()}
        return cls(of, {about: points for about, points in left.items() if points.any()})


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
    """Return the number of alarms and the labels they got, by detector and in total."""
    names = [dataset] if dataset is not None else list(_datasets(connection))
    counts: dict[str, list[int]] = {}
    for name in names:
        of = dataset_id(connection, name)
        said = feedback_labels(connection, of)
        for detector, points in _points(connection, of):
            counts.setdefault(detector, [0, 0, 0, 0])[3] += points
        for row in anomaly_rows(connection, name, None, MetricQuery()):
            count = counts.setdefault(row["detector"], [0, 0, 0, 0])
            label = _label(said, row)
            count[0] += 1
            count[1] += label in REAL
            count[2] += label in FALSE
    total = [sum(count[k] for count in counts.values()) for k in range(4)]
    rows = [_rate(detector, counts[detector]) for detector in sorted(counts)]
    return [*rows, _rate(IN_ALL, total)]


def _rate(detector: str, counts: Sequence[int]) -> RateRow:
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


def share(some: float, of: float) -> float:
    """Return a quotient; NaN if the divisor is 0.

    Examples
    --------
    >>> share(1, 4), share(0, 0)
    (0.25, nan)
    """
    return some / of if of else nan


def _label(said: Sequence[LabelEffect], row: AnomalyRow) -> str | None:
    """Return the last label that covers a stored anomaly."""
    own = {("anomaly", row["id"]), ("incident", row["incident_id"])}
    for one in reversed(said):
        if one.subject in own:
            return one.label
        ranged = one.points is None
        if ranged and one.applies_to(row) and one.covers(row):
            return one.label
    return None


def _datasets(connection: Connection) -> Iterator[str]:
    d = s.dataset.c
    yield from connection.execute(sa.select(d.name).order_by(d.name)).scalars()


def _points(connection: Connection, dataset: int) -> Iterator[tuple[str, int]]:
    """Yield a dataset's detectors with the number of points each scored."""
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
    """Return the number of anomalies by time window and metric; those without a time come last."""
    windows = WindowScheme.from_interval(every)
    found = anomaly_rows(connection, dataset, None, query)
    times = sorted((time, n) for n, row in enumerate(found) if (time := row["time"]) is not None)
    timed = [found[n] for _, n in times]
    parts = [
        (span.start, span.end, timed[span.first : span.last])
        for span in windows.spans([time for time, _ in times])
    ]
    timeless = [row for row in found if row["time"] is None]
    rows: list[CountRow] = []
    for start, end, some in (*parts, *([(None, None, timeless)] if timeless else [])):
        topics: dict[tuple[str, str], list[AnomalyRow]] = {}
        for row in some:
            topics.setdefault((row["name"], row["instance"]), []).append(row)
        rows += [
            {
                "start": start,
                "end": end,
                "name": name,
                "instance": instance,
                "anomalies": len(of),
                "series": len({row["series_id"] for row in of}),
                "partitions": len({row["partition_id"] for row in of}),
                "incidents": len({row["incident_id"] for row in of} - {None}),
            }
            for (name, instance), of in sorted(topics.items())
        ]
    return rows
