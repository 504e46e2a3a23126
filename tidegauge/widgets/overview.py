"""The overview: a heat map of all series over all partitions."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tidegauge.analyzers.core.errors import RepositoryError, UnknownNameError
from tidegauge.repository.history.heatmap import (
    KEYS,
    STEPS,
    HeatmapIndex,
    change_levels,
    panorama,
    score_levels,
    values,
)
from tidegauge.repository.history.points import last_commit, point_value, series_scales
from tidegauge.repository.incidents.listing import anomalous_points, anomaly_rows
from tidegauge.repository.store.queries import MetricQuery, Window, dataset_id
from tidegauge.repository.store.rows import fields_of
from tidegauge.repository.store.scorebook import detectors, read
from tidegauge.widgets import protocol
from tidegauge.widgets.answer import Answer, shown
from tidegauge.widgets.visible import column_range, matches

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray
    from sqlalchemy.engine import Connection

    from tidegauge.repository.repository import Repository
    from tidegauge.repository.store.queries import AsOf

LEVELS: Mapping[str, Callable[..., NDArray[np.uint8]]] = {
    "score": score_levels,
    "change": change_levels,
}
"""Colour scales of the heat map."""
GROUPINGS: Mapping[str, Sequence[str]] = {
    "column": ("dataset", "instance"),
    "dataset": ("dataset",),
    "segment": ("dataset", "segment"),
    "analyzer": ("name", "dataset"),
}
"""Keys by which each grouping of the heat map sorts rows."""
KEPT = {False: 8, True: 64}
"""Maximum number of catalogues to keep: of all tables, and of one."""
JUDGED = ("expected", "lower", "upper", "score", "p_value")
FOUND = ("id", "incident_id", "severity", "status", "explanation")


class OutdatedError(RepositoryError):
    """A page's catalogue is no longer kept."""


class Overview:
    """Request handler of the heat map.

    Pages address series and partitions by their indices in the `catalogue` that they loaded.
    Catalogues are numbered, requests include the number, and the last few are kept: several pages
    may show one dashboard. Pages that ask without a commit in between share one.

    Parameters
    ----------
    repository : Repository
    as_of : str, date, datetime or int, optional
    """

    def __init__(self, repository: Repository, as_of: AsOf = None) -> None:
        self.repository, self.as_of = repository, as_of
        self._kept: Mapping[bool, dict[int, HeatmapIndex]] = {False: {}, True: {}}
        self._newest: dict[str | None, Answer] = {}
        self._commits = -1
        self._keeping = Lock()  # pages ask in several threads
        # A page may outlive its server: no number is given twice, not even by the next process.
        self._numbers = count(time.time_ns() // 1000)

    def panorama(self, connection: Connection, asked: Mapping[str, Any]) -> HeatmapIndex:
        """Return the panorama of the requesting page's catalogue; a current one if it names none.

        Raises
        ------
        OutdatedError
            If the catalogue is no longer kept.
        """
        number = asked.get("catalogue")
        if number is None:
            return panorama(connection, self.as_of)
        for kept in self._kept.values():
            if number in kept:
                return kept[number]
        msg = "what this page knows is out of date; it is read anew"
        raise OutdatedError(msg)

    def _keep(self, known: HeatmapIndex, *, single: bool) -> int:
        number, kept = next(self._numbers), self._kept[single]
        kept[number] = known
        for old in sorted(kept)[: -KEPT[single]]:
            kept.pop(old, None)
        return number

    def catalogue(self, table: str | None = None) -> Answer:
        """Return the current series, columns and positions of anomalies, of all tables or one."""
        with self._keeping, self.repository.database.read() as connection:
            commits = last_commit(connection)
            if self._commits != commits or len(self._newest) == KEPT[True]:
                self._newest.clear()  # no answer outlives its catalogue
                self._commits = commits
            if table not in self._newest:
                self._newest[table] = self._catalogue(connection, commits, table)
            return self._newest[table]

    def _catalogue(self, connection: Connection, commits: int, table: str | None) -> Answer:
        known = panorama(connection, self.as_of, table)
        found = anomalous_points(connection, known.commit)
        words = {key: [shown(word) for word in of.words] for key, of in known.keys.items()}
        words["dataset"] = list(known.dataset.words)  # untruncated: the script sends these back
        codes = {key: of.code for key, of in known.keys.items()}
        labels = [shown(label) for label in known.labels]
        told: dict[str, Any] = {"words": words, "labels": labels, "commits": commits}
        told["catalogue"] = self._keep(known, single=table is not None)
        row, column = known.rows_of(found[:, 0]), known.columns_of(found[:, 1])
        marks = np.stack([row, column], axis=1)[(row >= 0) & (column >= 0)].astype(np.int32)
        numbers: dict[str, NDArray[Any]] = {
            "ids": known.series,
            "times": known.times,
            "marks": marks,
        }
        return Answer(told, {**numbers, **codes})

    def levels(self, asked: Mapping[str, Any]) -> Answer:
        """Return colour levels (bytes) of some series, or all, in some columns, by the scale ``by``."""
        with self.repository.database.read() as connection:
            known = self.panorama(connection, asked)
            rows = self._rows(known, asked.get("rows"))
            first, last = self._columns(known, asked)
            level = _read(asked["by"])(connection, known, first, last, rows)
        told: protocol.LevelsAnswer = {"first": first, "last": last}
        return Answer(told, {"levels": level})

    def rows(self, asked: Mapping[str, Any]) -> Answer:
        """Return values of some series, for sparklines."""
        with self.repository.database.read() as connection:
            known = self.panorama(connection, asked)
            first, last = self._columns(known, asked)
            found = values(connection, known, first, last, self._rows(known, asked["rows"]))
        return Answer({}, {"values": found.astype(np.float32)})

    def cell(self, asked: Mapping[str, Any]) -> Answer:
        """Return the details of one point: value, version, scores and anomalies."""
        row, column = int(asked["row"]), int(asked["column"])
        with self.repository.database.read() as connection:
            known = self.panorama(connection, asked)
            point = self._point(connection, known, row, column)
            scale = series_scales(connection, [int(known.series[row])])
        key = {name: shown(text) for name, text in known.key(row).items()}
        about = {**key, "scale": next(iter(scale.values()), ""), "label": known.labels[column]}
        told = cast("protocol.CellAnswer", {**about, **point})
        return Answer(told)

    def _point(
        self, connection: Connection, known: HeatmapIndex, row: int, column: int
    ) -> dict[str, Any]:
        series, dataset = int(known.series[row]), known.dataset.word(row)
        partitions = known.partitions[known.column == column].tolist()
        # At equal times the last one is drawn.
        point = point_value(connection, series, partitions, known.commit)
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
            fields_of(one, FOUND) for one in anomalies if one["partition_id"] in partitions
        ]
        return told

    def frame(self, asked: Mapping[str, Any]) -> pd.DataFrame:
        """Return the numbers of the heat map as it is shown: a row for each series, a column for each time.

        With ``table`` only the series and times of that dataset are returned. ``filter``, ``sort``,
        ``group``, ``since`` and ``until`` are those of the page; of folded groups all series are
        returned.

        Scores are rounded down to sixteenths, changes are the steps of `change_levels` as relative
        changes; NaN where there is none.
        """
        import pandas as pd

        by = asked.get("by") or next(iter(LEVELS))
        with self.repository.database.read() as connection:
            known = panorama(connection, self.as_of, asked.get("table"))
            series, columns = known.shape
            words = [[of.word(n) for n in range(series)] for of in known.keys.values()]
            rows = np.flatnonzero(matches(words, asked.get("filter")))
            level = _read(by)(connection, known, 0, columns, rows).astype(np.float64)
            found = anomalous_points(connection, known.commit)
        root = (level - 128) / 127
        number = (level - 1) / STEPS if by == "score" else np.sign(root) * root**2
        number = np.where(level == 0, np.nan, number)
        ends = asked.get("since"), asked.get("until")
        seen = column_range(known.labels, known.times, *ends)
        counts = np.bincount(known.rows_of(found[:, 0]) + 1, minlength=series + 1)[1:]
        order = _order(known, rows, np.nan_to_num(np.abs(number), nan=-1.0), counts[rows], asked)
        index = pd.MultiIndex.from_arrays(
            [[of[n] for n in rows[order].tolist()] for of in words], names=KEYS
        )
        return pd.DataFrame(number[order][:, seen], index, list(known.labels[seen]))

    @staticmethod
    def _rows(known: HeatmapIndex, rows: Any) -> NDArray[np.int64]:
        return np.arange(known.shape[0]) if rows is None else np.asarray(rows, dtype=np.int64)

    @staticmethod
    def _columns(known: HeatmapIndex, asked: Mapping[str, Any]) -> tuple[int, int]:
        count = known.shape[1]
        last = min(int(asked.get("last", count)), count)
        return max(0, min(int(asked.get("first", 0)), last)), last


def _order(
    known: HeatmapIndex,
    rows: NDArray[np.int64],
    strength: NDArray[np.float64],
    anomalies: NDArray[np.int64],
    asked: Mapping[str, Any],
) -> NDArray[np.int64]:
    """Return the order of some rows of the heat map, as row-order.ts has it; ties keep theirs.

    Each row has its ``strength`` in each column, -1 where there is none, and its number of ``anomalies``.
    """
    sort = asked.get("sort") or "name"
    if sort == "name":
        several = asked.get("table") is None and len(known.dataset.words) > 1
        group = asked.get("group")
        keys = GROUPINGS.get(("dataset" if several else "column") if group is None else group, ())
        codes = [known.keys[key].code[rows] for key in reversed(keys)]
        return np.lexsort([np.arange(len(rows), dtype=np.int32), *codes])
    orders: Mapping[str, Callable[[], NDArray[Any]]] = {
        "worst": lambda: strength.max(axis=1, initial=-1.0),
        "newest": lambda: strength[:, -1],
        "anomalies": lambda: anomalies,
    }
    if sort not in orders:
        raise UnknownNameError("order", sort, ["name", *orders])
    return np.argsort(-orders[sort](), kind="stable")


def _read(by: str) -> Callable[..., NDArray[np.uint8]]:
    if by not in LEVELS:
        raise UnknownNameError("colour", by, LEVELS)
    return LEVELS[by]


def _moment(seconds: float) -> Window:
    """Return the window of a single time; an open one for NaN."""
    if np.isnan(seconds):
        return Window()
    moment = datetime.fromtimestamp(float(seconds), UTC)
    return Window(moment, moment)
