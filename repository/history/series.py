"""The series of a dataset: list, single values, wide frames, downsampled or paged history, plots.

`wide_frame` returns one column per series. `chart_rows` downsamples a long history in the database;
`fact_pages` reads it in pages. `read_plot` reads what `charts` and reports draw.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from importlib.util import find_spec
from math import isfinite, nan
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from tidegauge.analyzers.core.errors import HistoryError
from tidegauge.analyzers.core.formatting import plain
from tidegauge.analyzers.core.metric import subject
from tidegauge.repository.history.svg import PlainLine, PlotData, PlottedSeries, plain_chart
from tidegauge.repository.history.versions import restatement_rows
from tidegauge.repository.incidents.listing import anomaly_rows, score_rows
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.bulk import chunks
from tidegauge.repository.store.dimensions import Watched
from tidegauge.repository.store.facts import Facts, dimensions_of, read_facts, read_newest
from tidegauge.repository.store.frames import columns
from tidegauge.repository.store.labels import (
    AUTOMATIC_AUTHOR,
    RANGE_LABELS,
    label_rows,
    standing_labels,
)
from tidegauge.repository.store.queries import (
    AsOf,
    MetricQuery,
    commit_as_of,
    dataset_id,
    partition_id,
)
from tidegauge.repository.store.rows import AnomalyRow, PlotRow, ScoreRow, SeriesRow
from tidegauge.repository.store.windows import weekday_numbers

if TYPE_CHECKING:
    import pandas as pd
    from sqlalchemy.engine import Connection

    from tidegauge.repository.store.rows import ListedSeriesRow


SERIES_COLUMNS = columns("segment name instance where analyzer")
_MAX_LISTED_MATCHES = 8


def series_rows(connection: Connection, dataset: str) -> list[ListedSeriesRow]:
    """Return all series of metrics of a dataset, ordered by name and instance.

    Detectors of whole partitions have series of scores, without metrics. They are left out.
    """
    series, _ = dimensions_of(connection, dataset_id(connection, dataset), MetricQuery())
    return [
        {**row, "where": row["filter"] or ""} for row in series if row["kind"] != Watched.__name__
    ]


def read_value(
    connection: Connection,
    dataset: str,
    query: MetricQuery,
    partition: str | None,
    as_of: AsOf,
) -> float:
    """Return the value of the only series that matches a query, in a partition or the newest one.

    Parameters
    ----------
    connection : Connection
        Open connection to the repository.
    dataset : str
        Name of the dataset.
    query : MetricQuery
        Filters that select the series.
    partition : str or None
        Name of the partition; None for the newest partition with a value.
    as_of : str, date, datetime, int or None
        Past view of the repository; None for the current view.

    Raises
    ------
    HistoryError
        If no series or several series match, or if the partition or the value does not exist.
    """
    matches, _ = dimensions_of(connection, dataset_id(connection, dataset), query)
    if partition is not None:
        partition_ids = [partition_id(connection, dataset, partition)]
        facts = read_facts(connection, dataset, query, as_of, partitions=partition_ids)
        measured = set(facts.of_series.tolist())
        matches = [row for index, row in enumerate(facts.series) if index in measured] or matches
        series_id = _choose_series(matches, dataset, query)["id"]
        is_match = [facts.series[index]["id"] == series_id for index in facts.of_series.tolist()]
        facts = facts.take(np.flatnonzero(is_match))
    else:
        series_query = replace(query, series=[_choose_series(matches, dataset, query)["id"]])
        if as_of is None:
            facts = read_newest(connection, dataset, series_query)
        else:
            facts = read_facts(connection, dataset, series_query, as_of)
    if not len(facts):
        msg = f"{dataset!r} has no value of {matches[0]['name']} in {partition or 'any partition'}"
        raise HistoryError(msg)
    return float(facts.newest().value[-1])


def _choose_series(matches: Sequence[SeriesRow], dataset: str, query: MetricQuery) -> SeriesRow:
    """Return the only match, or else the only match of whole partitions without a filter."""
    unfiltered = [
        row
        for row in matches
        if (query.segment is not None or not row["segment"])
        and (query.where is not None or row["filter"] is None)
    ]
    candidates = unfiltered if len(matches) > 1 and unfiltered else matches
    if len(candidates) == 1:
        return candidates[0]
    if not candidates:
        msg = f"no series of {dataset!r} matches; repo.series({dataset!r}) lists all"
        raise HistoryError(msg)
    names = [f"{row['name']} of {row['analyzer']} {row['segment']}".strip() for row in candidates]
    suffix = (
        f" and {len(names) - _MAX_LISTED_MATCHES} more" if len(names) > _MAX_LISTED_MATCHES else ""
    )
    msg = (
        f"{len(names)} series of {dataset!r} match: {', '.join(names[:_MAX_LISTED_MATCHES])}{suffix}."
        " Select one by name, instance=, analyzer=, where= or segment="
    )
    raise HistoryError(msg)


def wide_frame(tidy: pd.DataFrame) -> pd.DataFrame:
    """Return the values of a tidy frame of metrics as a frame with one column per series.

    Rows are indexed by time. They are indexed by partition if a time is missing or if a series has
    several values at one time.

    Parameters
    ----------
    tidy : DataFrame
        Metrics with one row per value, as `Repository.metrics` returns them.

    Examples
    --------
    >>> import pandas as pd
    >>> tidy = pd.DataFrame({
    ...     "segment": "", "name": ["Size", "Mean"], "instance": ["*", "x"], "where": ["", "y > 0"],
    ...     "analyzer": ["Size()", "Mean('x', where='y > 0')"], "partition": "ds=1", "time": pd.Timestamp("2013-01-01"), "value": [3.0, 0.5],
    ... })
    >>> wide_frame(tidy).to_dict("records")
    [{'Size': 3.0, 'Mean of x where y > 0': 0.5}]
    """
    import pandas as pd

    frame = pd.DataFrame(tidy)
    identity = ["name", "instance", "segment", "where", "analyzer"]
    series = list(frame[identity].drop_duplicates().itertuples(index=False, name=None))
    labels = dict(zip(series, _column_labels(series), strict=True))
    keys = frame[identity].itertuples(index=False, name=None)
    labeled = frame.assign(label=[labels[key] for key in keys])
    timed = frame["time"].notna().all() and not labeled.duplicated(["time", "label"]).any()
    index_column = "time" if timed else "partition"
    wide = labeled.pivot(index=index_column, columns="label", values="value")  # noqa: PD010
    wide = wide.reindex(index=pd.Index(frame[index_column].drop_duplicates(), name=index_column))
    wide = wide.reindex(columns=list(labels.values()))
    wide.columns.name = None
    return wide


def _column_labels(series: Sequence[tuple[str, str, str, str, str]]) -> list[str]:
    """Return the label of each series: what it measures, in which segment and with which filter.

    A label does not depend on the other series. Only analyzers that differ in other options are added.
    """
    labels = [
        (name if instance == "*" else f"{name} of {instance}")
        + (f" in {segment}" if segment else "")
        + (f" where {where}" if where else "")
        for name, instance, segment, where, _ in series
    ]
    counts = Counter(labels)
    return [
        label if counts[label] == 1 else f"{label} ({analyzer})"
        for label, (*_, analyzer) in zip(labels, series, strict=True)
    ]


CHART_COLUMNS = columns(
    "segment name instance analyzer where start:time end:time low:number high:number mean:number count"
)


class _Epoch(FunctionElement[float]):
    """Seconds since 1970 of a time."""

    type = sa.Double()
    inherit_cache = True
    name = "epoch"


@compiles(_Epoch, "sqlite")
def _epoch_of_sqlite(element: Any, compiler: Any, **options: Any) -> str:
    inner = compiler.process(element.clauses, **options)
    return f"(julianday({inner}) - 2440587.5) * 86400.0"


@compiles(_Epoch, "postgresql")
def _epoch_of_postgresql(element: Any, compiler: Any, **options: Any) -> str:
    return f"EXTRACT(EPOCH FROM {compiler.process(element.clauses, **options)})"


def chart_rows(
    connection: Connection, dataset: str, query: MetricQuery, points: int, as_of: AsOf = None
) -> list[Mapping[str, Any]]:
    """Downsample series to low, high and mean in at most ``points`` intervals of equal length.

    Parameters
    ----------
    connection : Connection
        Open connection to the repository.
    dataset : str
        Name of the dataset.
    query : MetricQuery
        Filters that select series and the time window.
    points : int
        Maximum number of intervals; at least 1.
    as_of : str, date, datetime, int, optional
        Past view of the repository (default: the current view).

    Raises
    ------
    HistoryError
        If ``points`` is less than 1.
    """
    if points < 1:
        msg = f"Invalid number of points {points}: use points=1 or more"
        raise HistoryError(msg)
    dataset_key, commit = dataset_id(connection, dataset), commit_as_of(connection, as_of)
    a, e, p, m = s.analyzer.c, s.series.c, s.partition.c, s.metric.c
    conditions = [p.dataset_id == dataset_key, p.time.is_not(None), query.window.condition()]
    bounds = sa.select(sa.func.min(p.time), sa.func.max(p.time)).where(*conditions)
    earliest, latest = connection.execute(bounds).one()
    if earliest is None:
        return []
    width = max((latest - earliest).total_seconds() / points, 1e-6)
    distance = (_Epoch(p.time) - sa.literal(earliest.timestamp(), sa.Double())) / width
    # The latest time belongs to the last interval. SQLite's day numbers can round below the earliest.
    position = sa.case((distance >= points, points - 0.5), (distance < 0, 0.0), else_=distance)
    interval = sa.func.floor(position)
    intervals = (
        sa.select(
            m.series_id,
            interval.label("interval"),
            sa.func.min(p.time).label("start"),
            sa.func.max(p.time).label("end"),
            sa.func.min(m.value).label("low"),
            sa.func.max(m.value).label("high"),
            sa.func.avg(m.value).label("mean"),
            sa.func.count(m.value).label("count"),
        )
        .join_from(s.partition, s.metric, m.partition_id == p.id)
        .where(*conditions, s.holds(s.metric, commit), m.status == "finite")
        .group_by(m.series_id, interval)
    )
    if query.selects_series:
        selected = (
            sa.select(e.id)
            .join_from(s.series, s.analyzer)
            .where(a.dataset_id == dataset_key, query.series_condition())
        )
        intervals = intervals.where(m.series_id.in_(selected))
    downsampled = intervals.subquery("downsampled")
    where = sa.func.coalesce(a.filter, "").label("where")
    identity = (a.segment, e.name, e.instance, a.text.label("analyzer"), where)
    ordered = (
        sa.select(
            *identity, *(downsampled.c[column] for column in tuple(CHART_COLUMNS)[len(identity) :])
        )
        .join_from(downsampled, s.series, e.id == downsampled.c.series_id)
        .join(s.analyzer)
        .order_by(e.name, e.instance, a.segment, e.id, downsampled.c.start)
    )
    return [row._asdict() for row in connection.execute(ordered)]


def fact_pages(
    connection: Connection, dataset: str, query: MetricQuery, as_of: AsOf, rows: int
) -> Iterator[Facts]:
    """Yield metrics in order, in pages of whole partitions with about ``rows`` rows each.

    Pages are cut by partition id, not by row offset (keyset pagination): a late page costs as much
    as an early one.

    Parameters
    ----------
    connection : Connection
        Open connection to the repository.
    dataset : str
        Name of the dataset.
    query : MetricQuery
        Filters that select series and the time window.
    as_of : str, date, datetime, int or None
        Past view of the repository; None for the current view.
    rows : int
        Approximate number of rows per page; at least 1.

    Raises
    ------
    HistoryError
        If ``rows`` is less than 1.
    """
    if rows < 1:
        msg = f"Invalid page size {rows}: use rows=1 or more"
        raise HistoryError(msg)
    dataset_key = dataset_id(connection, dataset)
    p, a = s.partition.c, s.analyzer.c
    series_count = (
        sa.select(sa.func.count())
        .select_from(s.series)
        .join(s.analyzer)
        .where(a.dataset_id == dataset_key, query.series_condition())
    )
    page_partitions = max(1, rows // max(1, connection.execute(series_count).scalar_one()))
    partitions = (
        sa.select(p.id)
        .where(p.dataset_id == dataset_key, query.window.condition())
        .order_by(p.time.is_(None), p.time, p.name)
    )
    ids = list(connection.execute(partitions).scalars())
    dimensions = dimensions_of(connection, dataset_key, query)
    start = 0
    while start < len(ids):
        (page_ids, *_) = chunks(ids[start:], page_partitions)
        page = read_facts(connection, dataset, query, as_of, page_ids, dimensions)
        start += len(page_ids)
        # Not every partition has every series: size the next page by the rows of this page.
        fitting = rows * len(page_ids) // max(1, len(page))
        page_partitions = max(1, min(2 * len(page_ids), fitting))
        if len(page):
            yield page


MAX_PLOTTED_SERIES = 8
"""There are eight colors and eight dashes."""
_SERIES_KEYS = ("segment", "name", "instance", "analyzer")
STANDALONE_STYLE = (
    "<style>svg{color:#222;background:#fff}"
    "@media(prefers-color-scheme:dark){svg{color:#ddd;background:#16181c}}</style>"
)
"""A standalone SVG file cannot inherit the colors of a page."""


def svg_of_plot(plot: PlotData, **options: Any) -> str:
    """Return series as a static SVG for a page: by Altair if it is installed, otherwise a plain drawing.

    Parameters
    ----------
    plot : PlotData
        Series to draw.
    **options
        Options of `tidegauge.repository.history.charts.series_chart`, such as ``height``.
    """
    if has_charts():
        from tidegauge.repository.history.charts import series_chart, svg_of

        return svg_of(series_chart(plot, **options))
    return plain_chart([_plain_line(series) for series in plot.series])


def has_charts() -> bool:
    """Return whether the packages of the extra ``charts`` are installed."""
    return all(find_spec(name) is not None for name in ("altair", "vl_convert"))


def point_of(time: datetime | None, value: float, partition: str = "") -> PlotRow:
    """Return a point of a series that no detector scored."""
    return {
        "partition": partition or f"{time:%Y-%m-%d %H:%M}",
        "time": time,
        "value": value,
        "status": "finite" if isfinite(value) else "NaN",
        "detector": None,
        "expected": nan,
        "lower": nan,
        "upper": nan,
        "score": nan,
        "direction": None,
        "severity": None,
        "anomaly_status": None,
        "explanation": None,
        "label": None,
    }


def _plain_line(series: PlottedSeries) -> PlainLine:
    points = series.points
    marks = [(n, point) for n, point in enumerate(points) if point["direction"]]
    marks.sort(key=lambda mark: -mark[1]["score"])
    is_scored = any(point["detector"] for point in points)
    return PlainLine(
        title=subject(series.row),
        values=[point["value"] for point in points],
        lower=[point["lower"] for point in points] if is_scored else (),
        upper=[point["upper"] for point in points] if is_scored else (),
        names=[
            point["partition"] if point["time"] is None else f"{point['time']:%Y-%m-%d}"
            for point in points
        ],
        anomalies={
            n: (point["direction"] == "high", str(point["explanation"])) for n, point in marks
        },
        percent=series.row["scale"] == "ratio",
    )


def read_plot(
    connection: Connection,
    dataset: str,
    query: MetricQuery,
    as_of: AsOf = None,
    weekday: str | Sequence[str] | None = None,
) -> PlotData:
    """Read the series of `Repository.plot`.

    Raises
    ------
    HistoryError
        If no series or more than `MAX_PLOTTED_SERIES` series match.
    """
    weekdays = weekday_numbers(weekday)
    _require_plottable_count(connection, dataset, query)
    facts = read_facts(connection, dataset, query, as_of)
    series = sorted(set(facts.of_series.tolist()))
    if not series:
        return PlotData(dataset, (), empty=f"{dataset!r} has no matching metric in this window.")
    scores = _best_scores(score_rows(connection, dataset, query, as_of))
    anomalies: dict[tuple[Any, ...], dict[str, AnomalyRow]] = {}
    for row in anomaly_rows(connection, dataset, None, query, as_of):  # strongest first
        anomalies.setdefault(_series_key(row), {}).setdefault(row["partition"], row)
    labels = [
        label
        for label in standing_labels(label_rows(connection, dataset, as_of))
        if label["by"] != AUTOMATIC_AUTHOR
    ]
    revisions: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for revision in restatement_rows(connection, dataset, query, as_of):
        revisions.setdefault(_series_key(revision), []).append(revision)
    plotted = []
    for series_index in series:
        row = facts.series[series_index]
        key = _series_key(row)
        points = _plot_rows(
            facts, series_index, scores.get(key, {}), anomalies.get(key, {}), labels
        )
        kept = [
            point
            for point in points
            if weekdays is None or (point["time"] and point["time"].weekday() in weekdays)
        ]
        plotted.append(PlottedSeries(row, kept, revisions.get(key, ())))
    plotted.sort(key=lambda series: (series.row["segment"], series.row["filter"] or ""))
    return PlotData(
        dataset,
        [series for series in plotted if series.points],
        timed=all(partition["time"] is not None for partition in facts.partitions),
        partitions=[partition["partition"] for partition in facts.partitions],
        ranges=[
            label
            for label in labels
            if label["anomaly_id"] is None
            and label["incident_id"] is None
            and label["label"] in RANGE_LABELS
        ],
        empty=f"{dataset!r} has no matching metric on {weekday}.",
    )


def _require_plottable_count(connection: Connection, dataset: str, query: MetricQuery) -> None:
    a, e = s.analyzer.c, s.series.c
    dataset_key = dataset_id(connection, dataset)
    matches = (
        sa.select(e.name, e.instance, a.segment, a.filter)
        .join_from(s.series, s.analyzer)
        .where(a.dataset_id == dataset_key, query.series_condition(), a.kind != Watched.__name__)
        .order_by(e.id)
    )
    count = connection.execute(sa.select(sa.func.count()).select_from(matches.subquery())).scalar()
    if not count:
        msg = (
            f"no series of {dataset!r} matches all of these filters; repo.latest({dataset!r}) lists"
            " all series"
        )
        raise HistoryError(msg)
    if count > MAX_PLOTTED_SERIES:
        examples = [row._asdict() for row in connection.execute(matches.limit(3))]
        names = "; ".join(plain(subject(row), 80) for row in examples)
        msg = (
            f"{count:,} series match, but a plot shows at most {MAX_PLOTTED_SERIES}: {names}; ... Select"
            " fewer by name=, instance=, segment=, where= (empty string: no filter) or analyzer="
        )
        raise HistoryError(msg)


def _series_key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in _SERIES_KEYS)


def _best_scores(rows: Sequence[ScoreRow]) -> dict[tuple[Any, ...], dict[str, ScoreRow]]:
    """Return scores by series and partition, from the first detector with expected values, or a band."""
    by_series: dict[tuple[Any, ...], dict[str, dict[str, ScoreRow]]] = {}
    for row in rows:
        by_series.setdefault(_series_key(row), {}).setdefault(row["detector"], {})[
            row["partition"]
        ] = row
    return {
        key: max(by_detector.values(), key=_number_of_curves)
        for key, by_detector in by_series.items()
    }


def _number_of_curves(points: Mapping[str, ScoreRow]) -> int:
    """Return how many curves a detector adds to a plot: its limits and its expected value."""
    names: tuple[Literal["expected", "lower", "upper"], ...] = ("expected", "lower", "upper")
    return sum(any(isfinite(row[name]) for row in points.values()) for name in names)


def _plot_rows(
    facts: Facts,
    series: int,
    scores: Mapping[str, ScoreRow],
    anomalies: Mapping[str, AnomalyRow],
    labels: Sequence[Mapping[str, Any]],
) -> list[PlotRow]:
    """Return a series' points, including missing points."""
    fact_indices = (facts.of_series == series).nonzero()[0].tolist()
    fact_by_partition = {int(facts.of_partition[fact]): fact for fact in fact_indices}
    segments = {
        facts.partitions[partition_index]["within"] for partition_index in fact_by_partition
    }
    rows: list[PlotRow] = []
    for partition_index in range(min(fact_by_partition), max(fact_by_partition) + 1):
        partition = facts.partitions[partition_index]
        if partition["within"] not in segments:
            continue
        partition_name, fact = partition["partition"], fact_by_partition.get(partition_index)
        score, anomaly = scores.get(partition_name), anomalies.get(partition_name)
        rows.append(
            {
                "partition": partition_name,
                "time": partition["time"],
                "value": nan if fact is None else float(facts.value[fact]),
                "status": "missing" if fact is None else facts.status[fact],
                "detector": score and score["detector"],
                "expected": score["expected"] if score else nan,
                "lower": score["lower"] if score else nan,
                "upper": score["upper"] if score else nan,
                "score": score["score"] if score else nan,
                "direction": anomaly and anomaly["direction"],
                "severity": anomaly and anomaly["severity"],
                "anomaly_status": anomaly and anomaly["status"],
                "explanation": anomaly and anomaly["explanation"],
                "label": anomaly and _labels_of(anomaly, labels),
            }
        )
    return rows


def _labels_of(anomaly: AnomalyRow, labels: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the users' labels of an anomaly or of its incident as text; None without one."""
    texts = [
        label["label"]
        + (f" by {label['by']}" if label["by"] else "")
        + (f": {label['note']}" if label["note"] else "")
        for label in labels
        if anomaly["id"] == label["anomaly_id"]
        or (label["incident_id"] is not None and label["incident_id"] == anomaly["incident_id"])
    ]
    return "; ".join(dict.fromkeys(texts)) or None
