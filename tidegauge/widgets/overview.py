"""The overview: a heat map of all series over all partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sa

from analyzers.errors import UnknownNameError
from repository import schema as s
from repository.anomalies.listing import anomalous_points, anomaly_rows, score_rows
from repository.facts import read_facts
from repository.history import MetricQuery, Window
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
POINT = ("value", "status", "version")
JUDGED = ("expected", "lower", "upper", "score", "p_value", "detector")
FOUND = ("id", "incident_id", "severity", "status", "explanation")


class Overview:
    """What the heat map is made of.

    The script names series by their rows, so what there is stays as it was until the script asks for the
    `catalogue` again.

    Parameters
    ----------
    repository : Repository
    as_of : datetime or int, optional
    """

    def __init__(self, repository: Repository, as_of: AsOf = None) -> None:
        self.repository, self.as_of = repository, as_of
        self._known: Panorama | None = None

    def panorama(self, connection: Connection) -> Panorama:
        """Return what there is."""
        if self._known is None:
            self._known = panorama(connection, None, self.as_of)
        return self._known

    def catalogue(self) -> Answer:
        """Return series, columns, and where anomalies are, as they are now."""
        with self.repository.database.read() as connection:
            self._known = known = panorama(connection, None, self.as_of)
            commits = commits_of(connection)
            found = anomalous_points(connection, known.commit)
        words = {key: [shown(word) for word in of.words] for key, of in known.keys.items()}
        codes = {key: of.code for key, of in known.keys.items()}
        labels = [shown(label) for label in known.labels]
        told = {"words": words, "labels": labels, "commits": commits}
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
            known = self.panorama(connection)
            rows = self._rows(known, asked.get("rows"))
            first, last = self._columns(known, asked)
            level = _read(asked["by"])(connection, known, first, last, rows)
        return Answer({"first": first, "last": last}, {"levels": level})

    def rows(self, asked: Mapping[str, Any]) -> Answer:
        """Return values of some series, for small lines."""
        with self.repository.database.read() as connection:
            known = self.panorama(connection)
            first, last = self._columns(known, asked)
            found = values(connection, known, first, last, self._rows(known, asked["rows"]))
        return Answer({}, {"values": found.astype(np.float32)})

    def cell(self, asked: Mapping[str, Any]) -> Answer:
        """Return all that is known of one point."""
        row, column = int(asked["row"]), int(asked["column"])
        with self.repository.database.read() as connection:
            known = self.panorama(connection)
        key = known.key(row)
        query = MetricQuery(
            key["name"],
            key["instance"],
            key["segment"],
            None,
            key["analyzer"],
            _moment(known.times[column]),
        )
        told = {**{name: shown(text) for name, text in key.items()}, "label": known.labels[column]}
        return Answer({**told, **self._point(key["dataset"], query, known.labels[column])})

    def _point(self, dataset: str, query: MetricQuery, label: str) -> dict[str, Any]:
        timed = query.window != Window()
        with self.repository.database.read() as connection:
            found = (
                list(read_facts(connection, dataset, query, self.as_of).rows()),
                score_rows(connection, dataset, query, self.as_of),
                anomaly_rows(connection, dataset, None, query, self.as_of),
            )
        points, scores, anomalies = (
            [row for row in rows if timed or row["partition"] == label] for rows in found
        )
        told: dict[str, Any] = {"status": "absent"}
        for point in points[:1]:
            told.update({name: point[name] for name in ("partition", *POINT)})
        for best in sorted(scores, key=lambda row: -row["score"])[:1]:
            told.update({name: best[name] for name in JUDGED})
        told["anomalies"] = [{name: row[name] for name in FOUND} for row in anomalies]
        return told

    def frame(self, by: str = "score") -> pd.DataFrame:
        """Return the heat map's numbers: a row for each series, a column for each moment.

        Scores are rounded down to sixteenths, changes are the steps of `change_levels` as relative
        changes; NaN where there is none.
        """
        import pandas as pd  # noqa: PLC0415

        with self.repository.database.read() as connection:
            known = panorama(connection, None, self.as_of)
            count, columns = known.shape
            level = _read(by)(connection, known, 0, columns, np.arange(count)).astype(np.float64)
        root = (level - 128) / 127
        number = (level - 1) / STEPS if by == "score" else np.sign(root) * root**2
        words = [[of.text(n) for n in range(count)] for of in known.keys.values()]
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
