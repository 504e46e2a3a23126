"""The series view: values, expected bands, anomalies, labels and old versions of some series."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tidegauge.analyzers.core.errors import HistoryError
from tidegauge.repository.history.heatmap import KEYS, HeatmapIndex
from tidegauge.repository.history.points import series_scales, stored_points
from tidegauge.repository.incidents.listing import anomaly_rows
from tidegauge.repository.store.facts import METRIC_STATUSES
from tidegauge.repository.store.labels import label_rows
from tidegauge.repository.store.queries import MetricQuery, dataset_id
from tidegauge.repository.store.rows import fields_of, number_of
from tidegauge.repository.store.scorebook import detectors, read
from tidegauge.widgets import protocol
from tidegauge.widgets.answer import Answer, shown
from tidegauge.widgets.visible import within

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray
    from sqlalchemy.engine import Connection

    from tidegauge.repository.detectors.seasonal import Seasonal
    from tidegauge.widgets.overview import Overview


MOST = 50
"""Maximum number of series in one chart."""
STATUSES = ("absent", *METRIC_STATUSES)
BOUNDS = ("expected", "lower", "upper")
FOUND = ("id", "incident_id", "severity", "status", "direction", "detector", "explanation")
DAY = 86400.0
BEFORE, AFTER = 28 * DAY, 14 * DAY
"""Seconds that the charts of an incident show before and after it; as in crop.ts."""
FEWEST = 14
"""Fewest columns to crop these charts to; where fewer would be left, all are shown."""
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
    from tidegauge.repository.detection.replay import BacktestHistory
    from tidegauge.repository.detection.seasons import season_rows

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


def frame(
    overview: Overview,
    asked: Mapping[str, Any],
    *,
    around: tuple[float | None, float | None] | None = None,
) -> pd.DataFrame:
    """Return the points of a chart in its window: a row for each point that was measured.

    Parameters
    ----------
    overview : Overview
    asked : mapping
        ``ids``, ``overlay``, ``since`` and ``until``. With ``mode="indexed"`` there is a column
        ``indexed``, the value by the median of its series; with ``past``, in days, a column
        ``earlier``, the value of that many days before, NaN where there is none.
    around : tuple of float, optional
        Times of an incident in seconds: the window is that of its charts.
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
    if around is None:
        labels = [told["labels"][column] for column in np.flatnonzero(used)]
        seen[used] = within(labels, times[used], asked.get("since"), asked.get("until"))
    else:
        seen = _around(times, around)
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


def _around(
    times: NDArray[np.float64], around: tuple[float | None, float | None]
) -> NDArray[np.bool_]:
    """Return the columns that the charts of an incident show; as `columnsAround` in crop.ts."""
    since, until = around
    whole = np.ones(len(times), np.bool_)
    if since is None or until is None:
        return whole
    near = np.flatnonzero((times >= since - BEFORE) & (times <= until + AFTER))
    seen = np.zeros(len(times), np.bool_)
    if len(near):
        seen[near[0] : near[-1] + 1] = True
    return whole if seen.sum() < min(FEWEST, len(times)) else seen


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
            {"row": place[row["series_id"]], "column": column, **fields_of(row, FOUND)}
            for row, column in zip(these, columns.tolist(), strict=True)
        ]
        own = {row["id"] for row in these} | {row["incident_id"] for row in these}
        for label in label_rows(connection, name, overview.as_of):
            about = {label["anomaly_id"], label["incident_id"]} - {None}
            if about & own or not about:
                words = {c: label[c] for c in SAID}
                said.append({**words, "dataset": shown(name), "about": next(iter(about), None)})
    return found, said
