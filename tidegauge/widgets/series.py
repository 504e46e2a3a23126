"""The overview and the series view: a heat map of all series, and charts of selected series.

The heat map has all series and all partitions. A chart has the values, expected bands, anomalies,
labels and old versions of its series.
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
    SERIES_KEYS,
    HeatmapIndex,
    change_levels,
    filters_of_series,
    highest_scores,
    names_of_partitions,
    panorama,
    relative_changes,
    score_levels,
    values,
)
from tidegauge.repository.history.versions import (
    last_commit,
    point_value,
    series_scales,
    stored_points,
)
from tidegauge.repository.incidents.listing import (
    AnomalousPoints,
    anomalous_points,
    anomaly_rows,
)
from tidegauge.repository.store.facts import METRIC_STATUSES
from tidegauge.repository.store.labels import label_rows, standing_labels
from tidegauge.repository.store.queries import MetricQuery, Window, dataset_id
from tidegauge.repository.store.rows import fields_of, number_of
from tidegauge.repository.store.scorebook import detectors, read
from tidegauge.widgets import protocol
from tidegauge.widgets.answers import (
    SECONDS_PER_DAY,
    Answer,
    column_range,
    in_window,
    listed_columns,
    listed_positions,
    matches,
    truncate,
)

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray
    from sqlalchemy.engine import Connection

    from tidegauge.repository.detectors.seasonal import Seasonal
    from tidegauge.repository.repository import Repository
    from tidegauge.repository.store.queries import AsOf


NUMBER_READERS: Mapping[str, Callable[..., NDArray[np.float64]]] = {
    "score": highest_scores,
    "change": relative_changes,
}
"""Functions that read the numbers behind the colours, by the name of the colour scale."""
LEVEL_READERS: Mapping[str, Callable[..., NDArray[np.uint8]]] = {
    "score": score_levels,
    "change": change_levels,
}
"""Functions that read color levels, by the name of the color scale; the first is the default."""
GROUPING_KEYS: Mapping[str, Sequence[str]] = {
    "column": ("dataset", "instance"),
    "dataset": ("dataset",),
    "segment": ("dataset", "segment"),
    "analyzer": ("name", "dataset"),
}
"""Sort keys of each grouping of the heat map."""
MAX_CATALOGUES = {False: 8, True: 64}
"""Maximum number of stored catalogues: of all tables (False) and of a single one (True)."""
CHECKED_STATUS = "checked"
"""Status of a cell without a metric that a detector of whole partitions scored."""
SCORE_FIELDS = ("expected", "lower", "upper", "score", "p_value")


class OutdatedError(RepositoryError):
    """The catalogue that a page refers to is no longer stored."""


class Overview:
    """Request handler of the heat map.

    Pages address series and partitions by their indices in the `catalogue` that they loaded. Each
    catalogue has a number, and requests include it. The newest catalogues are stored, so that several
    pages can show one dashboard. Pages that load a catalogue share it if there was no commit in between.

    Parameters
    ----------
    repository : Repository
    as_of : str, date, datetime or int, optional
        Time or run id of an earlier state of the repository.
    """

    def __init__(self, repository: Repository, as_of: AsOf = None) -> None:
        self.repository, self.as_of = repository, as_of
        self._heatmaps: Mapping[bool, dict[int, HeatmapIndex]] = {False: {}, True: {}}
        self._newest: dict[str | None, Answer] = {}
        self._commits = -1
        self._catalogue_lock = Lock()  # pages send requests in several threads
        # A page can outlive its server. Numbering from the current time keeps the numbers unique across processes.
        self._numbers = count(time.time_ns() // 1000)

    def panorama(self, connection: Connection, params: Mapping[str, Any]) -> HeatmapIndex:
        """Return the heat map of the requesting page's catalogue.

        Parameters
        ----------
        connection : Connection
        params : mapping
            ``catalogue`` is the number of the catalogue; None for the current one.

        Raises
        ------
        OutdatedError
            If the catalogue is no longer stored.
        """
        number = params.get("catalogue")
        if number is None:
            return panorama(connection, self.as_of)
        for heatmaps in self._heatmaps.values():
            if number in heatmaps:
                return heatmaps[number]
        msg = "This page was out of date and is reloading."
        raise OutdatedError(msg)

    def _store(self, heatmap: HeatmapIndex, *, single: bool) -> int:
        """Store the heat map of a new catalogue, drop the oldest ones, and return its number."""
        number, heatmaps = next(self._numbers), self._heatmaps[single]
        heatmaps[number] = heatmap
        for old in sorted(heatmaps)[: -MAX_CATALOGUES[single]]:
            heatmaps.pop(old, None)
        return number

    def catalogue(self, table: str | None = None) -> Answer:
        """Return the current series, columns and positions of anomalies.

        Parameters
        ----------
        table : str, optional
            The only dataset to return; all if not given.
        """
        with self._catalogue_lock, self.repository.database.read() as connection:
            commits = last_commit(connection)
            if self._commits != commits or len(self._newest) == MAX_CATALOGUES[True]:
                self._newest.clear()  # an answer must not outlive its catalogue
                self._commits = commits
            if table not in self._newest:
                self._newest[table] = self._catalogue(connection, commits, table)
            return self._newest[table]

    def _catalogue(self, connection: Connection, commits: int, table: str | None) -> Answer:
        """Read and store a new catalogue, and return its answer."""
        heatmap = panorama(connection, self.as_of, table)
        points = anomalous_points(connection, heatmap.commit)
        words = {
            key: [truncate(word) for word in coded.words] for key, coded in heatmap.keys.items()
        }
        words["dataset"] = list(heatmap.dataset.words)  # untruncated: the script sends these back
        codes = {key: coded.code for key, coded in heatmap.keys.items()}
        labels = [truncate(label) for label in heatmap.labels]
        payload: dict[str, Any] = {"key_values": words, "labels": labels, "commits": commits}
        payload["catalogue"] = self._store(heatmap, single=table is not None)
        row, column = heatmap.rows_of(points.series), heatmap.columns_of(points.partition)
        marks = np.stack([row, column], axis=1)[(row >= 0) & (column >= 0)].astype(np.int32)
        numbers: dict[str, NDArray[Any]] = {
            "ids": heatmap.series,
            "times": heatmap.times,
            "marks": marks,
            # The default order: with it, the page can request the visible rows at once.
            "worst": np.argsort(-_highest_anomaly_scores(heatmap, points), kind="stable").astype(
                np.int32
            ),
        }
        return Answer(payload, {**numbers, **codes})

    def levels(self, params: Mapping[str, Any]) -> Answer:
        """Return color levels, one byte for each cell.

        Parameters
        ----------
        params : mapping
            ``level_kind`` is the color scale. ``rows``, ``first`` and ``last`` limit rows and columns.
        """
        with self.repository.database.read() as connection:
            heatmap = self.panorama(connection, params)
            rows = self._rows(heatmap, params.get("rows"))
            first, last = self._columns(heatmap, params)
            level = _level_reader(params["level_kind"])(connection, heatmap, first, last, rows)
        payload: protocol.LevelsAnswer = {"first": first, "last": last}
        return Answer(payload, {"levels": level})

    def sparklines(self, params: Mapping[str, Any]) -> Answer:
        """Return the values of series for sparklines.

        Parameters
        ----------
        params : mapping
            ``rows`` are the series; ``first`` and ``last`` limit the columns.
        """
        with self.repository.database.read() as connection:
            heatmap = self.panorama(connection, params)
            first, last = self._columns(heatmap, params)
            rows = self._rows(heatmap, params["rows"])
            series_values = values(connection, heatmap, first, last, rows)
        return Answer({}, {"values": series_values.astype(np.float32)})

    def cell(self, params: Mapping[str, Any]) -> Answer:
        """Return the details of one cell: value, version, scores and anomalies.

        Parameters
        ----------
        params : mapping
            ``row`` and ``column`` of the cell.
        """
        row, column = int(params["row"]), int(params["column"])
        with self.repository.database.read() as connection:
            heatmap = self.panorama(connection, params)
            point = self._point(connection, heatmap, row, column)
            scale = series_scales(connection, [int(heatmap.series[row])])
        key = {name: truncate(word) for name, word in heatmap.key(row).items()}
        entry = {**key, "scale": next(iter(scale.values()), ""), "label": heatmap.labels[column]}
        payload = cast("protocol.CellAnswer", {**entry, **point})
        return Answer(payload)

    def _point(
        self, connection: Connection, heatmap: HeatmapIndex, row: int, column: int
    ) -> dict[str, Any]:
        """Return the value of a cell, the highest score of all detectors, and the anomalies."""
        series, dataset = int(heatmap.series[row]), heatmap.dataset.word(row)
        partitions = heatmap.partitions[heatmap.column == column].tolist()
        # If several partitions share a time, the last one is drawn.
        point = point_value(connection, series, partitions, heatmap.commit)
        details: dict[str, Any] = {"status": "absent"} if point is None else point._asdict()
        dataset_number, best = dataset_id(connection, dataset), -1.0
        for detector in detectors(connection, dataset_number):
            scores = read(
                connection, dataset_number, detector, partitions, heatmap.commit, [series]
            )
            scores = scores.take(np.flatnonzero(scores.series == series))
            for position in np.flatnonzero(scores.score > best)[:1].tolist():
                best = float(scores.score[position])
                details.update(
                    {name: float(getattr(scores, name)[position]) for name in SCORE_FIELDS}
                )
                details["detector"] = detector
        if details["status"] == "absent" and "detector" in details:
            details["status"] = CHECKED_STATUS
        query = MetricQuery(series=[series], window=_window_at(heatmap.times[column]))
        anomalies = anomaly_rows(connection, dataset, None, query, self.as_of)
        details["anomalies"] = [
            fields_of(anomaly, protocol.CellAnomaly.__annotations__)
            for anomaly in anomalies
            if anomaly["partition_id"] in partitions
        ]
        return details

    def row_order(self, params: Mapping[str, Any]) -> Answer:
        """Return the order of all rows of the heat map.

        Parameters
        ----------
        params : mapping
            ``level_kind`` is the color scale, ``sort`` the order and ``group`` the grouping.
        """
        with self.repository.database.read() as connection:
            heatmap = self.panorama(connection, params)
            order = _order(connection, heatmap, params, params.get("level_kind"))
        return Answer({}, {"rows": order.astype(np.int32)})

    def frame(self, params: Mapping[str, Any]) -> pd.DataFrame:
        """Return the numbers of the heat map: a row for each series, a column for each time.

        Scores are the highest of all detectors, as `Repository.scores` returns them; changes are those
        of `relative_changes`. Cells without a number are NaN. Columns are times in UTC, or labels if a
        partition has no time.

        Parameters
        ----------
        params : mapping
            ``by`` is the color scale, and ``table`` the only dataset to return. ``rows`` are the ids
            of the series that the page displays, including the series of folded groups. ``columns``
            are the first and last displayed label. Without a page, rows follow ``filter``, ``sort``
            and ``group``, and columns follow ``since`` and ``until``.
        """
        import pandas as pd

        scale = params.get("by") or next(iter(LEVEL_READERS))
        with self.repository.database.read() as connection:
            heatmap = panorama(connection, self.as_of, params.get("table"))
            series, columns = heatmap.shape
            words = [[coded.word(n) for n in range(series)] for coded in heatmap.keys.values()]
            if params.get("rows") is not None:
                rows = np.array(listed_positions(heatmap.series.tolist(), params["rows"]), np.intp)
            else:
                order = _order(connection, heatmap, params, scale)
                names = [
                    key_words if key == "dataset" else map(truncate, key_words)
                    for key, key_words in zip(heatmap.keys, words, strict=True)
                ]
                rows = order[matches(names, params.get("filter"))[order]]
            _level_reader(scale)  # raises an error for an unknown scale
            number = NUMBER_READERS[scale](connection, heatmap, 0, columns, rows)
            where = filters_of_series(connection, params.get("table"))
        if params.get("columns") is not None:
            displayed = listed_columns(heatmap.labels, params["columns"])
        else:
            displayed = column_range(
                heatmap.labels, heatmap.times, params.get("since"), params.get("until")
            )
        keys = {
            key: [key_words[n] for n in rows.tolist()]
            for key, key_words in zip(SERIES_KEYS, words, strict=True)
        }
        keys["where"] = [where.get(text, "") for text in keys["analyzer"]]
        index = pd.MultiIndex.from_arrays(list(keys.values()), names=list(keys))
        times = heatmap.times[displayed]
        axis: Any = list(heatmap.labels[displayed])
        if len(times) and np.isfinite(times).all():
            axis = _utc_times(times)
        return pd.DataFrame(number[:, displayed], index, axis)

    @staticmethod
    def _rows(heatmap: HeatmapIndex, rows: Any) -> NDArray[np.int64]:
        """Return the requested rows of the heat map; all if None."""
        return np.arange(heatmap.shape[0]) if rows is None else np.asarray(rows, dtype=np.int64)

    @staticmethod
    def _columns(heatmap: HeatmapIndex, params: Mapping[str, Any]) -> tuple[int, int]:
        """Return the requested range of columns, the end exclusive, limited to existing columns."""
        count = heatmap.shape[1]
        last = min(int(params.get("last", count)), count)
        return max(0, min(int(params.get("first", 0)), last)), last


def _order(
    connection: Connection,
    heatmap: HeatmapIndex,
    params: Mapping[str, Any],
    scale: str | None,
) -> NDArray[np.intp]:
    """Return the order of all rows of the heat map; ties keep the order of the catalogue.

    Parameters
    ----------
    connection : Connection
    heatmap : HeatmapIndex
    params : mapping
        ``sort`` is ``name`` for the groups of ``group``; ``worst`` for the highest score of an anomaly,
        or the strongest change, first; ``newest`` for the strongest level of the last column first;
        ``anomalies`` for most anomalies first. The default is ``worst``, or ``name`` if ``group`` is
        set, because groups need it.
        ``table`` is set if the page shows one dataset.
    scale : str or None
        Colour scale of the levels; the first one if None.
    """
    sort = params.get("sort") or ("worst" if params.get("group") is None else "name")
    rows, columns = heatmap.shape
    if sort == "name":
        several = params.get("table") is None and len(heatmap.dataset.words) > 1
        group = params.get("group")
        keys = GROUPING_KEYS.get(
            ("dataset" if several else "column") if group is None else group, ()
        )
        codes = [heatmap.keys[key].code for key in reversed(keys)]
        return np.lexsort([np.arange(rows, dtype=np.int32), *codes])

    kind = scale or next(iter(LEVEL_READERS))

    def strongest(first: int) -> NDArray[np.int16]:
        # A change needs the earlier values.
        start = first if kind == "score" else 0
        levels = _level_reader(kind)(connection, heatmap, start, columns, np.arange(rows))
        highest: NDArray[np.int16] = _strength(levels, kind)[:, first - start :].max(1, initial=0)
        return highest

    def points() -> AnomalousPoints:
        return anomalous_points(connection, heatmap.commit)

    def anomalies() -> NDArray[np.intp]:
        series = heatmap.rows_of(points().series)
        return np.bincount(series[series >= 0], minlength=rows)

    weights: Mapping[str, Callable[[], NDArray[Any]]] = {
        "worst": lambda: (
            _highest_anomaly_scores(heatmap, points()) if kind == "score" else strongest(0)
        ),
        "newest": lambda: strongest(max(0, columns - 1)),
        "anomalies": anomalies,
    }
    if sort not in weights:
        raise UnknownNameError("order", sort, ["name", *weights])
    return np.argsort(-weights[sort](), kind="stable")


def _highest_anomaly_scores(heatmap: HeatmapIndex, points: AnomalousPoints) -> NDArray[np.float64]:
    """Return the highest score of each row's anomalies; negative infinity without anomalies.

    Anomalies are few. Reading the scores of all cells to sort the rest delays the first screen.
    """
    row = heatmap.rows_of(points.series)
    highest = np.full(heatmap.shape[0], -np.inf)
    np.maximum.at(highest, row[row >= 0], points.score[row >= 0])
    return highest


def _strength(levels: NDArray[np.uint8], scale: str) -> NDArray[np.int16]:
    """Return the strength of levels: the level of a score, the distance of a change from zero."""
    strength: NDArray[np.int16] = levels.astype(np.int16)
    if scale != "score":
        strength = 1 + np.abs(strength - 128)
    strength[levels == 0] = 0
    return strength


def _level_reader(scale: str) -> Callable[..., NDArray[np.uint8]]:
    """Return the function that reads the levels of a color scale."""
    if scale not in LEVEL_READERS:
        raise UnknownNameError("colour", scale, LEVEL_READERS)
    return LEVEL_READERS[scale]


def _window_at(seconds: float) -> Window:
    """Return the window of a single time; an open window for NaN."""
    if np.isnan(seconds):
        return Window()
    moment = datetime.fromtimestamp(float(seconds), UTC)
    return Window(moment, moment)


MAX_CHART_SERIES = 50
"""Maximum number of series in one chart: more lines cannot be distinguished."""
POINT_STATUSES = ("absent", *METRIC_STATUSES)
BAND_FIELDS = ("expected", "lower", "upper")
LABEL_FIELDS = ("label", "note", "by", "created_at", "since", "until", "name", "instance")


def series(overview: Overview, params: Mapping[str, Any]) -> Answer:
    """Return series over all columns: values, bands, anomalies, labels and old versions.

    Parameters
    ----------
    overview : Overview
    params : mapping
        ``ids`` are the series. ``overlay``, the name of a dataset, adds the series of that dataset
        with the same keys.
    """
    with overview.repository.database.read() as connection:
        heatmap = overview.panorama(connection, params)
        rows = _rows(heatmap, params.get("ids", ()), params.get("overlay"))
        return _answer(connection, overview, heatmap, rows)[0]


def _answer(
    connection: Connection, overview: Overview, heatmap: HeatmapIndex, rows: Sequence[int]
) -> tuple[Answer, NDArray[np.int64]]:
    """Return the answer to `series` for rows of the heat map, and the id of each point's partition."""
    value, status, version, restatements, partition = _values(connection, heatmap, rows)
    bands = _bands(connection, heatmap, rows)
    anomalies, labels = _anomalies_and_labels(connection, overview, heatmap, rows)
    scales = series_scales(connection, [int(heatmap.series[row]) for row in rows])
    entries = [
        {
            "id": int(heatmap.series[row]),
            "scale": scales.get(int(heatmap.series[row]), ""),
            **{k: truncate(word) for k, word in heatmap.key(row).items()},
        }
        for row in rows
    ]
    payload: protocol.SeriesAnswer = {
        "series": cast("list[protocol.SeriesEntry]", entries),
        "labels": heatmap.labels,
        "anomalies": cast("list[protocol.SeriesAnomaly]", anomalies),
        "series_labels": cast("list[protocol.SeriesLabel]", labels),
        "statuses": POINT_STATUSES,
    }
    numbers: dict[str, NDArray[Any]] = {
        "times": heatmap.times,
        "value": value,
        "status": status,
        "version": version,
        "restatements": restatements,
        **bands,
    }
    return Answer(payload, numbers), partition


def seasons(overview: Overview, params: Mapping[str, Any]) -> Answer:
    """Return a description of the seasons of each series, as `Seasonal` detects them.

    Parameters
    ----------
    overview : Overview
    params : mapping
        ``ids`` are the series.
    """
    from tidegauge.repository.detection.backtest import BacktestHistory, season_rows

    descriptions = []
    with overview.repository.database.read() as connection:
        heatmap = overview.panorama(connection, params)
        for row in _rows(heatmap, params.get("ids", ()), None):
            dataset = heatmap.dataset.word(row)
            query = MetricQuery(series=[int(heatmap.series[row])])
            detector = _seasonal_detector(connection, dataset)
            segments = season_rows(BacktestHistory.read(connection, dataset, query), detector)
            parts = [(item["segment"], item["seasons"]) for item in segments if item["seasons"]]
            several = len(segments) > 1  # a series with values in several segments of partitions
            descriptions.append(
                "; ".join(f"{segment}: {words}" if several else words for segment, words in parts)
            )
    answer: protocol.SeasonsAnswer = {
        "seasons": [truncate(description, 400) for description in descriptions]
    }
    return Answer(answer)


def _seasonal_detector(connection: Connection, dataset: str) -> Seasonal:
    """Return the `Seasonal` that scored a dataset, with its options; the default one if none did."""
    from tidegauge.repository.detectors.base import DETECTORS
    from tidegauge.repository.detectors.seasonal import Seasonal

    used = map(DETECTORS.parse, detectors(connection, dataset_id(connection, dataset)))
    return next((detector for detector in used if isinstance(detector, Seasonal)), Seasonal())


def frame(overview: Overview, params: Mapping[str, Any]) -> pd.DataFrame:
    """Return the points of a chart: a row for each measured point in the chart's window.

    Parameters
    ----------
    overview : Overview
    params : mapping
        ``ids`` and ``overlay`` select the series, as in `series`. ``columns`` are the first and last
        label that the page draws; without a page, the window is from ``since`` to ``until``. With
        ``mode="indexed"``, the column ``indexed`` is the value divided by the median of its series.
        With ``past``, a number of days, the column ``earlier`` is the value that many days before;
        NaN where there is none.
    """
    import pandas as pd

    with overview.repository.database.read() as connection:
        heatmap = overview.panorama(connection, params)
        rows = _rows(heatmap, params.get("ids", ()), params.get("overlay"))
        answer, partitions = _answer(connection, overview, heatmap, rows)
        names = names_of_partitions(connection, np.unique(partitions[partitions >= 0]).tolist())
        where = filters_of_series(connection)
    payload, values, times = answer.payload, answer.arrays["value"], answer.arrays["times"]
    # Select the measured points in the window.
    drawn = answer.arrays["status"] > 0
    used = (drawn | np.isfinite(answer.arrays["expected"])).any(axis=0)
    displayed = np.zeros(len(times), np.bool_)
    if params.get("columns") is not None:
        displayed[listed_columns(payload["labels"], params["columns"])] = True
    else:
        labels = [payload["labels"][column] for column in np.flatnonzero(used)]
        displayed[used] = in_window(labels, times[used], params.get("since"), params.get("until"))
    points = np.nonzero(drawn & displayed)
    # Describe each point by its series, time and value.
    series_keys = [heatmap.key(row) for row in rows]  # untruncated, unlike the answer
    columns: dict[str, Any] = {
        key: [series_keys[row][key] for row in points[0]] for key in SERIES_KEYS
    }
    columns["where"] = [where.get(text, "") for text in columns["analyzer"]]
    columns["partition"] = [names[number] for number in partitions[points].tolist()]
    columns["time"] = _utc_times(times[points[1]])
    columns["value"] = values[points]
    if params.get("mode") == "indexed":
        finite = np.where(np.isfinite(values), values, np.nan)
        medians = [np.nanmedian(row) if np.isfinite(row).any() else np.nan for row in finite]
        unit = np.abs(np.array(medians))
        columns["indexed"] = values[points] / np.where(unit > 0, unit, np.nan)[points[0]]
    if params.get("past"):
        column_by_time = {time: column for column, time in enumerate(times.tolist())}
        past_columns = [
            column_by_time.get(time - params["past"] * SECONDS_PER_DAY, -1)
            for time in times.tolist()
        ]
        earlier = np.where(np.array(past_columns) < 0, np.nan, values[:, past_columns])
        columns["earlier"] = earlier[points]
    # Add status, band and anomaly.
    columns["status"] = [POINT_STATUSES[number] for number in answer.arrays["status"][points]]
    columns.update({name: answer.arrays[name][points] for name in BAND_FIELDS})
    anomaly_ids = {
        (anomaly["row"], anomaly["column"]): anomaly["id"] for anomaly in payload["anomalies"]
    }
    point_ids = [
        anomaly_ids.get(point) for point in zip(*(axis.tolist() for axis in points), strict=True)
    ]
    columns["anomaly_id"] = pd.array(point_ids, dtype="Int64")
    return pd.DataFrame(columns)


def _utc_times(seconds: NDArray[np.float64]) -> pd.DatetimeIndex:
    """Return times in UTC, in microseconds, as in all frames; not-a-time for NaN."""
    import pandas as pd

    microseconds = np.where(np.isfinite(seconds), seconds * 1e6, np.iinfo(np.int64).min)
    return pd.DatetimeIndex(microseconds.round().astype("M8[us]")).tz_localize("UTC")


def _rows(heatmap: HeatmapIndex, ids: Iterable[Any], overlay: str | None) -> list[int]:
    """Return the rows of series, and of the series with the same keys in another dataset.

    Parameters
    ----------
    heatmap : HeatmapIndex
    ids : iterable
        Ids of series; ids that are not in the heat map are ignored.
    overlay : str or None
        Name of the other dataset.

    Raises
    ------
    HistoryError
        If there are too many series for one chart.
    """
    series_ids = np.array([int(series_id) for series_id in ids], np.int64)
    rows = [row for row in heatmap.rows_of(series_ids).tolist() if row >= 0]
    if len(rows) > MAX_CHART_SERIES:
        msg = f"Too many series for one chart: {len(rows)}. Choose at most {MAX_CHART_SERIES}."
        raise HistoryError(msg)
    if overlay is not None and overlay in heatmap.dataset.words:
        in_overlay = heatmap.dataset.code == heatmap.dataset.words.index(overlay)
        same_keys = [
            np.logical_and.reduce(
                [heatmap.keys[k].code == heatmap.keys[k].code[row] for k in SERIES_KEYS[1:]]
            )
            for row in rows
        ]
        counterparts = [int(row) for mask in same_keys for row in np.flatnonzero(in_overlay & mask)]
        rows += [row for row in counterparts if row not in rows]
    return rows[:MAX_CHART_SERIES]


def _values(
    connection: Connection, heatmap: HeatmapIndex, rows: Sequence[int]
) -> tuple[
    NDArray[np.float64],
    NDArray[np.uint8],
    NDArray[np.int32],
    NDArray[np.float64],
    NDArray[np.int64],
]:
    """Return values, statuses and versions of points, old values, and ids of partitions.

    Old values are rows of (row, column, version, value). Partitions are -1 without a point.
    """
    shape = (len(rows), heatmap.shape[1])
    value, status = np.full(shape, np.nan), np.zeros(shape, np.uint8)
    versions = np.zeros(shape, np.int32)
    partitions = np.full(shape, -1, np.int64)
    old: list[tuple[float, ...]] = []
    row_by_series = {int(heatmap.series[row]): n for n, row in enumerate(rows)}
    rank = {partition: n for n, partition in enumerate(heatmap.partitions.tolist())}
    # Partitions newer than the page's catalogue are not drawn. If several partitions share a time,
    # the last one is drawn.
    stored = stored_points(connection, list(row_by_series), heatmap.commit)
    points = [point for point in stored if point.partition in rank]
    for series_id, partition, version, number, word, is_current in sorted(
        points, key=lambda p: rank[p.partition]
    ):
        cell = row_by_series[series_id], int(heatmap.column[rank[partition]])
        if is_current:
            value[cell], status[cell] = number_of(number, word), POINT_STATUSES.index(word)
            versions[cell], partitions[cell] = version, partition
        else:
            old.append((*cell, version, number_of(number, word)))
    return value, status, versions, np.array(old, np.float64).reshape(-1, 4), partitions


def _bands(
    connection: Connection, heatmap: HeatmapIndex, rows: Sequence[int]
) -> dict[str, NDArray[np.float64]]:
    """Return the expected value and band of each point, by the first detector that has one."""
    bands = {name: np.full((len(rows), heatmap.shape[1]), np.nan) for name in BAND_FIELDS}
    ids = heatmap.series[list(rows)]
    row_by_series = {int(series_id): n for n, series_id in enumerate(ids)}
    for dataset in {heatmap.dataset.word(row) for row in rows}:
        dataset_number = dataset_id(connection, dataset)
        for detector in detectors(connection, dataset_number):
            points = read(
                connection, dataset_number, detector, None, heatmap.commit, list(row_by_series)
            )
            points = points.take(np.flatnonzero(np.isin(points.series, ids)))
            row = np.array([row_by_series[number] for number in points.series.tolist()], np.intp)
            column = heatmap.columns_of(points.partition)
            new = (column >= 0) & np.isnan(bands["expected"][row, column])
            for name in BAND_FIELDS:
                bands[name][row[new], column[new]] = getattr(points, name)[new]
    return bands


def _anomalies_and_labels(
    connection: Connection, overview: Overview, heatmap: HeatmapIndex, rows: Sequence[int]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the anomalies of series with their positions, and the labels of the series.

    Labels apply to these anomalies, to their incidents, or to a range of partitions.
    """
    ids = heatmap.series[list(rows)]
    row_by_series = {int(series_id): n for n, series_id in enumerate(ids)}
    anomalies, labels = [], []
    for dataset in sorted({heatmap.dataset.word(row) for row in rows}):
        query = MetricQuery(series=list(row_by_series))
        dataset_anomalies = anomaly_rows(connection, dataset, None, query, overview.as_of)
        columns = heatmap.columns_of(
            np.array([row["partition_id"] for row in dataset_anomalies], np.int64)
        )
        anomalies += [
            fields_of(
                {**row, "row": row_by_series[row["series_id"]], "column": column},
                protocol.SeriesAnomaly.__annotations__,
            )
            for row, column in zip(dataset_anomalies, columns.tolist(), strict=True)
        ]
        own_ids = {row["id"] for row in dataset_anomalies} | {
            row["incident_id"] for row in dataset_anomalies
        }
        for label in standing_labels(label_rows(connection, dataset, overview.as_of)):
            subjects = {label["anomaly_id"], label["incident_id"]} - {None}
            if subjects & own_ids or not subjects:
                fields = {name: label[name] for name in LABEL_FIELDS}
                labels.append(
                    {
                        **fields,
                        "dataset": truncate(dataset),
                        "target_id": next(iter(subjects), None),
                    }
                )
    return anomalies, labels
