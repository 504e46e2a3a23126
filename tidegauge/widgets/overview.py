"""The overview: a heat map of all series over all partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sa

from analyzers.errors import RepositoryError, UnknownNameError
from repository import schema as s
from repository.anomalies.listing import anomalous_points, anomaly_rows
from repository.anomalies.scorebook import detectors, read
from repository.history import MetricQuery, Window, dataset_id
from repository.panorama import (
    KEYS,
    STEPS,
    Panorama,
    change_levels,
    panorama,
    score_levels,
    values,
)
from tidegauge.widgets.answer import Answer, shown

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray
    from sqlalchemy.engine import Connection

    from repository.history import AsOf
    from repository.repository import Repository

LEVELS: Mapping[str, Callable[..., NDArray[np.uint8]]] = {
    "score": score_levels,
    "change": change_levels,
}
"""What cells can be coloured by."""
KEPT = 8
"""Catalogues that are kept."""
JUDGED = ("expected", "lower", "upper", "score", "p_value")
FOUND = ("id", "incident_id", "severity", "status", "explanation")


class OutdatedError(RepositoryError):
    """A page asks for what it saw too long ago."""


class Overview:
    """What the heat map is made of.

    Pages name series and partitions by their places in what there was when they asked for the `catalogue`.
    Each catalogue has a number, which they send along, and the last few are kept: several pages may look
    at one dashboard.

    Parameters
    ----------
    repository : Repository
    as_of : datetime or int, optional
    """

    def __init__(self, repository: Repository, as_of: AsOf = None) -> None:
        self.repository, self.as_of = repository, as_of
        self._kept: dict[int, Panorama] = {}
        self._numbers = count(1)

    def panorama(self, connection: Connection, asked: Mapping[str, Any]) -> Panorama:
        """Return what there was for the page that asks.

        Raises
        ------
        OutdatedError
            If it is not kept any more.
        """
        number = asked.get("catalogue")
        if number is None:
            return panorama(connection, self.as_of)
        if number not in self._kept:
            msg = "what this page knows is out of date; it is read anew"
            raise OutdatedError(msg)
        return self._kept[number]

    def _keep(self, known: Panorama) -> int:
        number = next(self._numbers)
        self._kept[number] = known
        for old in sorted(self._kept)[:-KEPT]:
            self._kept.pop(old, None)
        return number

    def catalogue(self) -> Answer:
        """Return series, columns, and where anomalies are, as they are now."""
        with self.repository.database.read() as connection:
            known = panorama(connection, self.as_of)
            commits = commits_of(connection)
            found = anomalous_points(connection, known.commit)
        words = {key: [shown(word) for word in of.words] for key, of in known.keys.items()}
        words["dataset"] = list(known.dataset.words)  # these come back
        codes = {key: of.code for key, of in known.keys.items()}
        labels = [shown(label) for label in known.labels]
        told: dict[str, Any] = {"words": words, "labels": labels, "commits": commits}
        told["catalogue"] = self._keep(known)
        row, column = known.rows_of(found[:, 0]), known.columns_of(found[:, 1])
        marks = np.stack([row, column], axis=1)[(row >= 0) & (column >= 0)].astype(np.int32)
        numbers: dict[str, NDArray[Any]] = {
            "ids": known.series,
            "times": known.times,
            "marks": marks,
        }
        return Answer(told, {**numbers, **codes})

    def levels(self, asked: Mapping[str, Any]) -> Answer:
        """Return bytes of some series, or all, in some columns; ``by`` says of what."""
        with self.repository.database.read() as connection:
            known = self.panorama(connection, asked)
            rows = self._rows(known, asked.get("rows"))
            first, last = self._columns(known, asked)
            level = _read(asked["by"])(connection, known, first, last, rows)
        return Answer({"first": first, "last": last}, {"levels": level})

    def rows(self, asked: Mapping[str, Any]) -> Answer:
        """Return values of some series, for small lines."""
        with self.repository.database.read() as connection:
            known = self.panorama(connection, asked)
            first, last = self._columns(known, asked)
            found = values(connection, known, first, last, self._rows(known, asked["rows"]))
        return Answer({}, {"values": found.astype(np.float32)})

    def cell(self, asked: Mapping[str, Any]) -> Answer:
        """Return all that is known of one point."""
        row, column = int(asked["row"]), int(asked["column"])
        with self.repository.database.read() as connection:
            known = self.panorama(connection, asked)
            point = self._point(connection, known, row, column)
        key = {name: shown(text) for name, text in known.key(row).items()}
        return Answer({**key, "label": known.labels[column], **point})

    def _point(
        self, connection: Connection, known: Panorama, row: int, column: int
    ) -> dict[str, Any]:
        series, dataset = int(known.series[row]), known.dataset.word(row)
        partitions = known.partitions[known.column == column].tolist()
        m, p = s.metric.c, s.partition.c
        query = (
            sa.select(p.name.label("partition"), m.value, m.status, m.version)
            .join_from(s.metric, s.partition, p.id == m.partition_id)
            .where(m.partition_id.in_(partitions), m.series_id == series)
            .where(s.holds(s.metric, known.commit))
            .order_by(p.name.desc())  # of several at one time the last is drawn
        )
        point = connection.execute(query).first()
        told: dict[str, Any] = {"status": "absent"} if point is None else point._asdict()
        of, best = dataset_id(connection, dataset), -1.0
        for detector in detectors(connection, of):
            found = read(connection, of, detector, partitions, known.commit, [series])
            found = found.taken(np.flatnonzero(found.series == series))
            for place in np.flatnonzero(found.score > best)[:1].tolist():
                best = float(found.score[place])
                told.update({name: float(getattr(found, name)[place]) for name in JUDGED})
                told["detector"] = detector
        of_series = MetricQuery(series=[series], window=_moment(known.times[column]))
        anomalies = anomaly_rows(connection, dataset, None, of_series, self.as_of)
        told["anomalies"] = [
            {name: one[name] for name in FOUND}
            for one in anomalies
            if one["partition_id"] in partitions
        ]
        return told

    def frame(self, by: str = "score") -> pd.DataFrame:
        """Return the heat map's numbers: a row for each series, a column for each moment.

        Scores are rounded down to sixteenths, changes are the steps of `change_levels` as relative
        changes; NaN where there is none.
        """
        import pandas as pd  # noqa: PLC0415

        with self.repository.database.read() as connection:
            known = panorama(connection, self.as_of)
            series, columns = known.shape
            level = _read(by)(connection, known, 0, columns, np.arange(series)).astype(np.float64)
        root = (level - 128) / 127
        number = (level - 1) / STEPS if by == "score" else np.sign(root) * root**2
        words = [[of.word(n) for n in range(series)] for of in known.keys.values()]
        index = pd.MultiIndex.from_arrays(words, names=KEYS)
        return pd.DataFrame(np.where(level == 0, np.nan, number), index, list(known.labels))

    @staticmethod
    def _rows(known: Panorama, rows: Any) -> NDArray[np.int64]:
        return np.arange(known.shape[0]) if rows is None else np.asarray(rows, dtype=np.int64)

    @staticmethod
    def _columns(known: Panorama, asked: Mapping[str, Any]) -> tuple[int, int]:
        count = known.shape[1]
        last = min(int(asked.get("last", count)), count)
        return max(0, min(int(asked.get("first", 0)), last)), last


def _read(by: str) -> Callable[..., NDArray[np.uint8]]:
    if by not in LEVELS:
        raise UnknownNameError("colour", by, LEVELS)
    return LEVELS[by]


def _moment(seconds: float) -> Window:
    """Return the window that is one moment; an open one where there is no time."""
    if np.isnan(seconds):
        return Window()
    moment = datetime.fromtimestamp(float(seconds), UTC)
    return Window(moment, moment)


def commits_of(connection: Connection) -> int:
    """Return how often something was written."""
    return int(connection.execute(sa.select(s.clock.c.commits)).scalar_one())
