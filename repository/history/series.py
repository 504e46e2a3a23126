"""The series of a dataset: list, single values, wide frames, downsampled or paged history, plots.

`wide_frame` returns one column per series. `chart_rows` downsamples a long history in the database;
`fact_pages` reads it in pages. A `Plot` shows series with their bands and anomalies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from tidegauge.analyzers.core.errors import HistoryError
from tidegauge.analyzers.core.filesystems import write_output
from tidegauge.analyzers.core.formatting import escaped, plain
from tidegauge.analyzers.core.metric import subject
from tidegauge.repository.history.svg import (
    Mark,
    PlotLine,
    order_ticks,
    picture,
    seconds_of,
    time_ticks,
)
from tidegauge.repository.incidents.contributions import part_of
from tidegauge.repository.incidents.listing import anomaly_rows, score_rows
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.bulk import chunks
from tidegauge.repository.store.dimensions import Watched
from tidegauge.repository.store.facts import Facts, dimensions_of, read_facts, read_newest
from tidegauge.repository.store.frames import columns, frame_of
from tidegauge.repository.store.queries import (
    AsOf,
    MetricQuery,
    commit_as_of,
    dataset_id,
    partition_id,
)
from tidegauge.repository.store.rows import AnomalyRow, PlotRow, ScoreRow, SeriesRow

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


def unmeasured_breakdowns(connection: Connection, dataset: str, series: int) -> list[str]:
    """Return the breakdowns that other metrics of a dataset have and a series lacks, in sentences.

    Parameters
    ----------
    connection : Connection
        Open connection to the repository.
    dataset : str
        Name of the dataset.
    series : int
        Id of the series of whole partitions.
    """
    rows, _ = dimensions_of(connection, dataset_id(connection, dataset), MetricQuery())
    total = next((row for row in rows if row["id"] == series), None)
    if total is None:
        return []
    measured = {dimension for row in rows for dimension, _ in part_of(total, row)}
    known = {dimension for row in rows for dimension in _dimensions_of_part(row)}
    missing = sorted(known - measured - {total["instance"]})
    return [
        f"{subject(total)} is not measured by {dimension}: add segments: [[{dimension}]] to the suite."
        for dimension in missing
    ]


def _dimensions_of_part(row: SeriesRow) -> set[str]:
    """Return the columns by which a series is a part of a whole: of its segment, filter or histogram."""
    size: SeriesRow = {**row, "name": "Size", "kind": "Size", "instance": "*", "analyzer": "Size()"}
    totals: list[SeriesRow] = [{**row, "segment": ""}, {**row, "filter": None}, size]
    return {dimension for total in totals for dimension, _ in part_of(total, row)}


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
_SERIES_KEYS = ("segment", "name", "instance", "analyzer")
_HTML_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
:root{{color-scheme:light dark}}body{{font:14px system-ui,sans-serif;margin:1.5em}}
svg{{max-width:100%;height:auto}}</style></head><body>{body}</body></html>
"""
_STANDALONE_STYLE = (
    "<style>svg{color:#222;background:#fff}"
    "@media(prefers-color-scheme:dark){svg{color:#ddd;background:#16181c}}</style>"
)
"""A standalone SVG file cannot inherit the colors of a page."""


@dataclass(frozen=True)
class Plot:
    """Plot of series as a self-contained SVG, without scripts or external resources.

    Notebooks display it.

    Attributes
    ----------
    dataset : str
        Name of the dataset.
    rows : sequence of mapping
        Rows of `data`.
    lines : sequence of PlotLine
        Plotted lines.
    timed : bool
        True if the horizontal axis shows time; False if it shows the partitions in order.
    names : sequence of str
        Names of the partitions, which label the axis if it does not show time.
    """

    dataset: str
    rows: Sequence[PlotRow] = field(repr=False)
    lines: Sequence[PlotLine] = field(repr=False)
    timed: bool = True
    names: Sequence[str] = field(default=(), repr=False)

    @property
    def data(self) -> pd.DataFrame:
        """The plotted data as a tidy data frame, with every point.

        It has one row per series and partition, in order. The columns are dataset, segment, name,
        instance, analyzer, where, partition, time, value (NaN if unknown), status (``missing`` if the partition
        lacks the metric), detector (the source of the band), expected, lower, upper, score (NaN if
        not scored), direction (``high`` or ``low`` for an anomaly) and explanation.
        """
        return frame_of(self.rows, PlotRow)

    @property
    def svg(self) -> str:
        """The plot as SVG of less than 50 KB; thinned series keep their extremes and anomalies."""
        if self.timed:
            return picture(self.lines, time_ticks)
        names = [plain(name or "the table", 24) for name in self.names]
        return picture(self.lines, lambda *_: order_ticks(names))

    @property
    def standalone(self) -> str:
        """The content of a standalone SVG file, including its colors."""
        return self.svg.replace(">", f">{_STANDALONE_STYLE}", 1)

    def save(self, path: str | Path) -> Path:
        """Write the plot to a file. An existing file is replaced atomically.

        Parameters
        ----------
        path : str or Path
            Path that ends in ``.svg`` or ``.html``.

        Raises
        ------
        HistoryError
            If the path has another suffix.
        DatabaseAccessError
            If the file is not writable.

        Examples
        --------
        >>> Plot("d", [], [PlotLine("Size", [0.0], [1.0])]).save("size.png")
        Traceback (most recent call last):
            ...
        tidegauge.analyzers.core.errors.HistoryError: Unsupported image format 'size.png': use .svg or .html
        """
        path = Path(path)
        match path.suffix.lower():
            case ".svg":
                content = self.standalone
            case ".html":
                content = _HTML_PAGE.format(title=escaped(self.dataset), body=self.svg)
            case _:
                msg = f"Unsupported image format {path.name!r}: use .svg or .html"
                raise HistoryError(msg)
        return write_output(path, content)

    def _repr_html_(self) -> str:
        return f'<div class="tidegauge-output">{self.svg}</div>'


def read_plot(connection: Connection, dataset: str, query: MetricQuery, as_of: AsOf = None) -> Plot:
    """Read the data of `Repository.plot`.

    Raises
    ------
    HistoryError
        If no series or more than `MAX_PLOTTED_SERIES` series match, or if they have no metrics.
    """
    _require_plottable_count(connection, dataset, query)
    facts = read_facts(connection, dataset, query, as_of)
    series = sorted(set(facts.of_series.tolist()))
    if not series:
        msg = f"{dataset!r} has no matching metric in this window or view"
        raise HistoryError(msg)
    timed = all(partition["time"] is not None for partition in facts.partitions)
    scores = _best_scores(score_rows(connection, dataset, query, as_of))
    anomalies: dict[tuple[Any, ...], dict[str, AnomalyRow]] = {}
    for row in anomaly_rows(connection, dataset, None, query, as_of):  # strongest first
        anomalies.setdefault(_series_key(row), {}).setdefault(row["partition"], row)
    rows, lines = [], []
    for series_index in series:
        identity = facts.series[series_index]
        points = _plot_rows(
            facts,
            series_index,
            scores.get(_series_key(identity), {}),
            anomalies.get(_series_key(identity), {}),
        )
        rows += [row for _, row in points]
        times = [row["time"] for _, row in points]
        positions = [float(position) for position, _ in points]
        xs = [seconds_of(time) for time in times if time is not None] if timed else positions
        lines.append(_plot_line(identity, xs, [row for _, row in points]))
    return Plot(dataset, rows, lines, timed, [p["partition"] for p in facts.partitions])


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
    facts: Facts, series: int, scores: Mapping[str, ScoreRow], anomalies: Mapping[str, AnomalyRow]
) -> list[tuple[int, PlotRow]]:
    """Return a series' points with their partition indices, including missing points."""
    fact_indices = (facts.of_series == series).nonzero()[0].tolist()
    fact_by_partition = {int(facts.of_partition[fact]): fact for fact in fact_indices}
    segments = {
        facts.partitions[partition_index]["within"] for partition_index in fact_by_partition
    }
    identity = facts.series[series]
    rows: list[tuple[int, PlotRow]] = []
    for partition_index in range(min(fact_by_partition), max(fact_by_partition) + 1):
        partition = facts.partitions[partition_index]
        if partition["within"] not in segments:
            continue
        partition_name, fact = partition["partition"], fact_by_partition.get(partition_index)
        score, anomaly = scores.get(partition_name), anomalies.get(partition_name)
        row: PlotRow = {
            "dataset": facts.dataset,
            "segment": identity["segment"],
            "name": identity["name"],
            "instance": identity["instance"],
            "analyzer": identity["analyzer"],
            "where": identity["filter"] or "",
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
            "explanation": anomaly and anomaly["explanation"],
        }
        rows.append((partition_index, row))
    return rows


def _plot_line(series: SeriesRow, xs: Sequence[float], rows: Sequence[PlotRow]) -> PlotLine:
    marks = [
        (-row["score"] if isfinite(row["score"]) else 0.0, index, row)
        for index, row in enumerate(rows)
        if row["direction"]
    ]
    is_scored = any(row["detector"] for row in rows)
    return PlotLine(
        title=subject(series),
        xs=xs,
        values=[row["value"] for row in rows],
        lower=[row["lower"] for row in rows] if is_scored else (),
        upper=[row["upper"] for row in rows] if is_scored else (),
        expected=[row["expected"] for row in rows] if is_scored else (),
        marks=[
            Mark(index, row["direction"] == "high", str(row["explanation"]))
            for _, index, row in sorted(marks, key=lambda mark: mark[:2])
        ],
        percent=series["scale"] == "ratio",
        kind=series["name"],
    )
