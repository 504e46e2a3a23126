"""The overview and the series view: a heat map of all series, and charts of some.

The overview has all series over all partitions. A chart has values, expected bands, anomalies, labels and old
versions of the series that are chosen in it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tidegauge.analyzers.core.errors import HistoryError, RepositoryError, UnknownNameError
from tidegauge.repository.history.heatmap import (
    KEYS,
    STEPS,
    HeatmapIndex,
    change_levels,
    panorama,
    score_levels,
    values,
)
from tidegauge.repository.history.versions import (
    last_commit,
    point_value,
    series_scales,
    stored_points,
)
from tidegauge.repository.incidents.listing import anomalous_points, anomaly_rows
from tidegauge.repository.store.facts import METRIC_STATUSES
from tidegauge.repository.store.labels import label_rows
from tidegauge.repository.store.queries import MetricQuery, Window, dataset_id
from tidegauge.repository.store.rows import fields_of, number_of
from tidegauge.repository.store.scorebook import detectors, read
from tidegauge.widgets import protocol
from tidegauge.widgets.answers import (
    Answer,
    column_range,
    listed_columns,
    listed_places,
    matches,
    shown,
    within,
)

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray
    from sqlalchemy.engine import Connection

    from tidegauge.repository.detectors.seasonal import Seasonal
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
            fields_of(one, protocol.CellAnomaly.__annotations__)
            for one in anomalies
            if one["partition_id"] in partitions
        ]
        return told

    def order(self, asked: Mapping[str, Any]) -> Answer:
        """Return all rows of the heat map in the order of the options ``by``, ``sort`` and ``group``."""
        with self.repository.database.read() as connection:
            known = self.panorama(connection, asked)
            order = _order(connection, known, asked)
        return Answer({}, {"rows": order.astype(np.int32)})

    def frame(self, asked: Mapping[str, Any]) -> pd.DataFrame:
        """Return the numbers of the heat map: a row for each series, a column for each time.

        With ``table`` only the series and times of that dataset are returned: the ``rows`` and
        ``columns`` that the page lists, by the ids of series and the first and last label; of folded
        groups all series. Without a page, they follow the options ``filter``, ``sort``, ``group``,
        ``since`` and ``until``.

        Scores are rounded down to sixteenths, changes are the steps of `change_levels` as relative
        changes; NaN where there is none.
        """
        import pandas as pd

        by = asked.get("by") or next(iter(LEVELS))
        with self.repository.database.read() as connection:
            known = panorama(connection, self.as_of, asked.get("table"))
            series, columns = known.shape
            words = [[of.word(n) for n in range(series)] for of in known.keys.values()]
            if asked.get("rows") is not None:
                rows = np.array(listed_places(known.series.tolist(), asked["rows"]), np.intp)
            else:
                order = _order(connection, known, asked)
                names = [
                    of if key == "dataset" else map(shown, of)
                    for key, of in zip(known.keys, words, strict=True)
                ]
                rows = order[matches(names, asked.get("filter"))[order]]
            level = _read(by)(connection, known, 0, columns, rows).astype(np.float64)
        root = (level - 128) / 127
        number = (level - 1) / STEPS if by == "score" else np.sign(root) * root**2
        number = np.where(level == 0, np.nan, number)
        if asked.get("columns") is not None:
            seen = listed_columns(known.labels, asked["columns"])
        else:
            seen = column_range(known.labels, known.times, asked.get("since"), asked.get("until"))
        index = pd.MultiIndex.from_arrays(
            [[of[n] for n in rows.tolist()] for of in words], names=KEYS
        )
        return pd.DataFrame(number[:, seen], index, list(known.labels[seen]))

    @staticmethod
    def _rows(known: HeatmapIndex, rows: Any) -> NDArray[np.int64]:
        return np.arange(known.shape[0]) if rows is None else np.asarray(rows, dtype=np.int64)

    @staticmethod
    def _columns(known: HeatmapIndex, asked: Mapping[str, Any]) -> tuple[int, int]:
        count = known.shape[1]
        last = min(int(asked.get("last", count)), count)
        return max(0, min(int(asked.get("first", 0)), last)), last


def _order(
    connection: Connection, known: HeatmapIndex, asked: Mapping[str, Any]
) -> NDArray[np.intp]:
    """Return all rows of the heat map in the order of ``sort``; ties keep the order of the catalogue.

    By ``name`` they are in the groups of ``group``. By ``worst``, ``newest`` and ``anomalies`` the
    strongest and those with most anomalies come first.
    """
    sort = asked.get("sort") or "name"
    rows, columns = known.shape
    if sort == "name":
        several = asked.get("table") is None and len(known.dataset.words) > 1
        group = asked.get("group")
        keys = GROUPINGS.get(("dataset" if several else "column") if group is None else group, ())
        codes = [known.keys[key].code for key in reversed(keys)]
        return np.lexsort([np.arange(rows, dtype=np.int32), *codes])

    def strength() -> NDArray[np.int16]:
        by = asked.get("by") or next(iter(LEVELS))
        return _strength(_read(by)(connection, known, 0, columns, np.arange(rows)), by)

    def anomalies() -> NDArray[np.intp]:
        series = known.rows_of(anomalous_points(connection, known.commit)[:, 0])
        return np.bincount(series[series >= 0], minlength=rows)

    weights: Mapping[str, Callable[[], NDArray[Any]]] = {
        "worst": lambda: strength().max(axis=1, initial=0),
        "newest": lambda: strength()[:, -1:].max(axis=1, initial=0),
        "anomalies": anomalies,
    }
    if sort not in weights:
        raise UnknownNameError("order", sort, ["name", *weights])
    return np.argsort(-weights[sort](), kind="stable")


def _strength(levels: NDArray[np.uint8], by: str) -> NDArray[np.int16]:
    """Return how strong levels are: scores by their height, changes by their distance from none."""
    strength: NDArray[np.int16] = levels.astype(np.int16)
    if by != "score":
        strength = 1 + np.abs(strength - 128)
    strength[levels == 0] = 0
    return strength


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


MOST = 50
"""Maximum number of series in one chart."""
STATUSES = ("absent", *METRIC_STATUSES)
BOUNDS = ("expected", "lower", "upper")
DAY = 86400.0
SAID = ("label", "note", "by", "created_at", "since", "until", "name", "instance")


def series(overview: Overview, asked: Mapping[str, Any]) -> Answer:
    """Return some series over all columns: values, bands, anomalies, labels and old versions.

    ``ids`` selects the series; ``overlay``, the name of a dataset, adds each one's counterpart
    there.
    """
    with overview.repository.database.read() as connection:
        known = overview.panorama(connection, asked)
        rows = _rows(known, asked.get("ids", ()), asked.get("overlay"))
        return _answer(connection, overview, known, rows)


def _answer(
    connection: Connection, overview: Overview, known: HeatmapIndex, rows: Sequence[int]
) -> Answer:
    value, status, version, old = _values(connection, known, rows)
    bounds = _bounds(connection, known, rows)
    found, said = _told(connection, overview, known, rows)
    scales = series_scales(connection, [int(known.series[row]) for row in rows])
    about = [
        {
            "id": int(known.series[row]),
            "scale": scales.get(int(known.series[row]), ""),
            **{k: shown(text) for k, text in known.key(row).items()},
        }
        for row in rows
    ]
    told: protocol.SeriesAnswer = {
        "series": cast("list[protocol.SeriesEntry]", about),
        "labels": known.labels,
        "anomalies": cast("list[protocol.SeriesAnomaly]", found),
        "said": cast("list[protocol.SeriesLabel]", said),
        "statuses": STATUSES,
    }
    numbers: dict[str, NDArray[Any]] = {
        "times": known.times,
        "value": value,
        "status": status,
        "version": version,
        "old": old,
        **bounds,
    }
    return Answer(told, numbers)


def seasons(overview: Overview, asked: Mapping[str, Any]) -> Answer:
    """Return the seasons that each of some series has, in words, by the detector that looks at it."""
    from tidegauge.repository.detection.backtest import BacktestHistory, season_rows

    told = []
    with overview.repository.database.read() as connection:
        known = overview.panorama(connection, asked)
        for row in _rows(known, asked.get("ids", ()), None):
            name = known.dataset.word(row)
            query = MetricQuery(series=[int(known.series[row])])
            detector = _seasonal(connection, name)
            found = season_rows(BacktestHistory.read(connection, name, query), detector)
            parts = [(one["segment"], one["seasons"]) for one in found if one["seasons"]]
            several = len(found) > 1  # a series with values in several segments of partitions
            told.append("; ".join(f"{of}: {words}" if several else words for of, words in parts))
    answer: protocol.SeasonsAnswer = {"seasons": [shown(text, 400) for text in told]}
    return Answer(answer)


def _seasonal(connection: Connection, dataset: str) -> Seasonal:
    """Return the `Seasonal` that scored a dataset, with its options; the default one if none did."""
    from tidegauge.repository.detectors.base import DETECTORS
    from tidegauge.repository.detectors.seasonal import Seasonal

    used = map(DETECTORS.parse, detectors(connection, dataset_id(connection, dataset)))
    return next((one for one in used if isinstance(one, Seasonal)), Seasonal())


def frame(overview: Overview, asked: Mapping[str, Any]) -> pd.DataFrame:
    """Return the points of a chart: a row for each point that was measured in its window.

    Parameters
    ----------
    overview : Overview
    asked : mapping
        ``ids`` and ``overlay``. ``columns`` are the first and last label that the page draws; without
        a page, the window is from ``since`` to ``until``. With ``mode="indexed"`` there is a column
        ``indexed``, the value by the median of its series; with ``past``, in days, a column
        ``earlier``, the value of that many days before, NaN where there is none.
    """
    import pandas as pd

    with overview.repository.database.read() as connection:
        known = overview.panorama(connection, asked)
        rows = _rows(known, asked.get("ids", ()), asked.get("overlay"))
        answer = _answer(connection, overview, known, rows)
    told, values, times = answer.told, answer.arrays["value"], answer.arrays["times"]
    drawn = answer.arrays["status"] > 0
    used = (drawn | np.isfinite(answer.arrays["expected"])).any(axis=0)
    seen = np.zeros(len(times), np.bool_)
    if asked.get("columns") is not None:
        seen[listed_columns(told["labels"], asked["columns"])] = True
    else:
        labels = [told["labels"][column] for column in np.flatnonzero(used)]
        seen[used] = within(labels, times[used], asked.get("since"), asked.get("until"))
    at = np.nonzero(drawn & seen)
    about = [known.key(row) for row in rows]  # untruncated, unlike the response
    columns: dict[str, Any] = {key: [about[row][key] for row in at[0]] for key in KEYS}
    columns["label"] = [told["labels"][column] for column in at[1]]
    columns["value"] = values[at]
    if asked.get("mode") == "indexed":
        finite = np.where(np.isfinite(values), values, np.nan)
        medians = [np.nanmedian(row) if np.isfinite(row).any() else np.nan for row in finite]
        unit = np.abs(np.array(medians))
        columns["indexed"] = values[at] / np.where(unit > 0, unit, np.nan)[at[0]]
    if asked.get("past"):
        place = {time: column for column, time in enumerate(times.tolist())}
        before = [place.get(time - asked["past"] * DAY, -1) for time in times.tolist()]
        earlier = np.where(np.array(before) < 0, np.nan, values[:, before])
        columns["earlier"] = earlier[at]
    columns["status"] = [STATUSES[number] for number in answer.arrays["status"][at]]
    columns.update({name: answer.arrays[name][at] for name in BOUNDS})
    places = {(one["row"], one["column"]): one["id"] for one in told["anomalies"]}
    found = [places.get(place) for place in zip(*(axis.tolist() for axis in at), strict=True)]
    columns["anomaly_id"] = pd.array(found, dtype="Int64")
    return pd.DataFrame(columns)


def _rows(known: HeatmapIndex, ids: Iterable[Any], overlay: str | None) -> list[int]:
    """Return the rows of series, and of their counterparts in another dataset."""
    wanted = np.array([int(number) for number in ids], np.int64)
    rows = [row for row in known.rows_of(wanted).tolist() if row >= 0]
    if len(rows) > MOST:
        msg = f"{len(rows)} series are too many to be told apart; choose up to {MOST}"
        raise HistoryError(msg)
    if overlay is not None and overlay in known.dataset.words:
        other = known.dataset.code == known.dataset.words.index(overlay)
        alike = [
            np.logical_and.reduce([known.keys[k].code == known.keys[k].code[row] for k in KEYS[1:]])
            for row in rows
        ]
        found = [int(row) for one in alike for row in np.flatnonzero(other & one)]
        rows += [row for row in found if row not in rows]
    return rows[:MOST]


def _values(
    connection: Connection, known: HeatmapIndex, rows: Sequence[int]
) -> tuple[NDArray[np.float64], NDArray[np.uint8], NDArray[np.int32], NDArray[np.float64]]:
    """Return values, statuses and versions of points, and old values.

    Old values are rows of (row, column, version, value).
    """
    shape = (len(rows), known.shape[1])
    value, status = np.full(shape, np.nan), np.zeros(shape, np.uint8)
    versions = np.zeros(shape, np.int32)
    old: list[tuple[float, ...]] = []
    place = {int(known.series[row]): n for n, row in enumerate(rows)}
    rank = {partition: n for n, partition in enumerate(known.partitions.tolist())}
    # Partitions newer than the page's catalogue are not shown; at equal times the last one is drawn.
    points = stored_points(connection, list(place), known.commit)
    found = [point for point in points if point.partition in rank]
    for of, at, version, number, word, holds in sorted(found, key=lambda p: rank[p.partition]):
        where = place[of], int(known.column[rank[at]])
        if holds:
            value[where], status[where] = number_of(number, word), STATUSES.index(word)
            versions[where] = version
        else:
            old.append((*where, version, number_of(number, word)))
    return value, status, versions, np.array(old, np.float64).reshape(-1, 4)


def _bounds(
    connection: Connection, known: HeatmapIndex, rows: Sequence[int]
) -> dict[str, NDArray[np.float64]]:
    """Return the expected value and band of each point, by the first detector that has one."""
    out = {name: np.full((len(rows), known.shape[1]), np.nan) for name in BOUNDS}
    ids = known.series[list(rows)]
    place = {int(number): n for n, number in enumerate(ids)}
    for name in {known.dataset.word(row) for row in rows}:
        of = dataset_id(connection, name)
        for detector in detectors(connection, of):
            points = read(connection, of, detector, None, known.commit, list(place))
            points = points.taken(np.flatnonzero(np.isin(points.series, ids)))
            row = np.array([place[number] for number in points.series.tolist()], np.intp)
            column = known.columns_of(points.partition)
            new = (column >= 0) & np.isnan(out["expected"][row, column])
            for bound in BOUNDS:
                out[bound][row[new], column[new]] = getattr(points, bound)[new]
    return out


def _told(
    connection: Connection, overview: Overview, known: HeatmapIndex, rows: Sequence[int]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return anomalies of series with their positions, and labels of these anomalies or of ranges."""
    ids = known.series[list(rows)]
    place = {int(number): n for n, number in enumerate(ids)}
    found, said = [], []
    for name in sorted({known.dataset.word(row) for row in rows}):
        query = MetricQuery(series=list(place))
        these = anomaly_rows(connection, name, None, query, overview.as_of)
        columns = known.columns_of(np.array([row["partition_id"] for row in these], np.int64))
        found += [
            fields_of(
                {**row, "row": place[row["series_id"]], "column": column},
                protocol.SeriesAnomaly.__annotations__,
            )
            for row, column in zip(these, columns.tolist(), strict=True)
        ]
        own = {row["id"] for row in these} | {row["incident_id"] for row in these}
        for label in label_rows(connection, name, overview.as_of):
            about = {label["anomaly_id"], label["incident_id"]} - {None}
            if about & own or not about:
                words = {c: label[c] for c in SAID}
                said.append({**words, "dataset": shown(name), "about": next(iter(about), None)})
    return found, said
