"""The series of a dataset: their list, single values, wide frames, long histories and plots.

`wide_frame` has a column for each series. The database downsamples long histories (`chart_rows`);
`fact_pages` reads them in pages. A `Plot` shows series with their bands and anomalies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
_MOST_TOLD = 8


def series_rows(connection: Connection, dataset: str) -> list[ListedSeriesRow]:
    """Return all series of a dataset, by name and instance."""
    found, _ = dimensions_of(connection, dataset_id(connection, dataset), MetricQuery())
    return [{**row, "where": row["filter"]} for row in found]


def read_value(
    connection: Connection,
    dataset: str,
    query: MetricQuery,
    partition: str | None,
    as_of: AsOf,
) -> float:
    """Return the value of the one series that a query means, in a partition or the newest.

    Raises
    ------
    HistoryError
        If no series or several match, or there is no such partition or value.
    """
    found, _ = dimensions_of(connection, dataset_id(connection, dataset), query)
    if partition is not None:
        only = [partition_id(connection, dataset, partition)]
        facts = read_facts(connection, dataset, query, as_of, partitions=only)
        held = set(facts.of_series.tolist())
        found = [row for place, row in enumerate(facts.series) if place in held] or found
        meant = _meant(found, dataset, query)["id"]
        own = [facts.series[of]["id"] == meant for of in facts.of_series.tolist()]
        facts = facts.taken(np.flatnonzero(own))
    else:
        one = replace(query, series=[_meant(found, dataset, query)["id"]])
        if as_of is None:
            facts = read_newest(connection, dataset, one)
        else:
            facts = read_facts(connection, dataset, one, as_of)
    if not len(facts):
        msg = f"{dataset!r} has no value of {found[0]['name']} in {partition or 'any partition'}"
        raise HistoryError(msg)
    return float(facts.newest().value[-1])


def _meant(found: Sequence[SeriesRow], dataset: str, query: MetricQuery) -> SeriesRow:
    """Return the series that is meant: of several, the one of whole partitions without a filter."""
    plain = [
        row
        for row in found
        if (query.segment is not None or not row["segment"])
        and (query.where is not None or row["filter"] is None)
    ]
    meant = plain if len(found) > 1 and plain else found
    if len(meant) == 1:
        return meant[0]
    if not meant:
        msg = f"no series of {dataset!r} matches; repo.series({dataset!r}) lists all"
        raise HistoryError(msg)
    told = [f"{row['name']} of {row['analyzer']} {row['segment']}".strip() for row in meant]
    more = f" and {len(told) - _MOST_TOLD} more" if len(told) > _MOST_TOLD else ""
    msg = (
        f"{len(told)} series of {dataset!r} are meant: {', '.join(told[:_MOST_TOLD])}{more}; narrow"
        " them by name, instance=, analyzer=, where= or segment="
    )
    raise HistoryError(msg)


def wide_frame(tidy: pd.DataFrame) -> pd.DataFrame:
    """Return the values of a tidy frame of metrics with a column for each series.

    Rows are indexed by time, or by partition where times are missing, or a series has several values at one.

    Examples
    --------
    >>> import pandas as pd
    >>> tidy = pd.DataFrame({
    ...     "segment": "", "name": ["Size", "Mean"], "instance": ["*", "x"], "analyzer": ["Size()", "Mean('x')"],
    ...     "partition": "ds=1", "time": pd.Timestamp("2013-01-01"), "value": [3.0, 0.5],
    ... })
    >>> wide_frame(tidy).to_dict("records")
    [{'Size': 3.0, 'Mean of x': 0.5}]
    """
    import pandas as pd

    plain = pd.DataFrame(tidy)
    identity = ["name", "instance", "segment", "analyzer"]
    series = list(plain[identity].drop_duplicates().itertuples(index=False, name=None))
    labels = dict(zip(series, _labels(series), strict=True))
    keys = plain[identity].itertuples(index=False, name=None)
    labelled = plain.assign(label=[labels[key] for key in keys])
    timed = plain["time"].notna().all() and not labelled.duplicated(["time", "label"]).any()
    by = "time" if timed else "partition"
    wide = labelled.pivot(index=by, columns="label", values="value")  # noqa: PD010
    wide = wide.reindex(index=pd.Index(plain[by].drop_duplicates(), name=by))
    wide = wide.reindex(columns=list(labels.values()))
    wide.columns.name = None
    return wide


def _labels(series: Sequence[tuple[str, str, str, str]]) -> list[str]:
    """Return a name for each series: as short as tells it from the others."""
    short = [name if instance == "*" else f"{name} of {instance}" for name, instance, *_ in series]
    among = [
        f"{text} in {of[2]}" if of[2] else text for text, of in zip(short, series, strict=True)
    ]
    full = [f"{text} ({of[3]})" for text, of in zip(among, series, strict=True)]
    often, still = Counter(short), Counter(among)
    return [
        a if often[a] == 1 else b if still[b] == 1 else c
        for a, b, c in zip(short, among, full, strict=True)
    ]


CHART_COLUMNS = columns(
    "segment name instance analyzer start:time end:time low:number high:number mean:number count"
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
    """Downsample series to low, high and mean in at most ``points`` intervals of equal length."""
    if points < 1:
        msg = f"points={points}: a chart has at least one point"
        raise HistoryError(msg)
    of, commit = dataset_id(connection, dataset), commit_as_of(connection, as_of)
    a, e, p, m = s.analyzer.c, s.series.c, s.partition.c, s.metric.c
    inside = [p.dataset_id == of, p.time.is_not(None), query.window.condition()]
    bounds = sa.select(sa.func.min(p.time), sa.func.max(p.time)).where(*inside)
    first, last = connection.execute(bounds).one()
    if first is None:
        return []
    width = max((last - first).total_seconds() / points, 1e-6)
    distance = (_Epoch(p.time) - sa.literal(first.timestamp(), sa.Double())) / width
    # The last time belongs to the last interval; SQLite's days may round below the first.
    place = sa.case((distance >= points, points - 0.5), (distance < 0, 0.0), else_=distance)
    interval = sa.func.floor(place)
    thinned = (
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
        .where(*inside, s.holds(s.metric, commit), m.status == "finite")
        .group_by(m.series_id, interval)
    )
    if query.selects_series:
        wanted = (
            sa.select(e.id)
            .join_from(s.series, s.analyzer)
            .where(a.dataset_id == of, query.series_condition())
        )
        thinned = thinned.where(m.series_id.in_(wanted))
    inner = thinned.subquery("thinned")
    told = (a.segment, e.name, e.instance, a.text.label("analyzer"))
    outer = (
        sa.select(*told, *(inner.c[c] for c in tuple(CHART_COLUMNS)[len(told) :]))
        .join_from(inner, s.series, e.id == inner.c.series_id)
        .join(s.analyzer)
        .order_by(e.name, e.instance, a.segment, e.id, inner.c.start)
    )
    return [row._asdict() for row in connection.execute(outer)]


def fact_pages(
    connection: Connection, dataset: str, query: MetricQuery, as_of: AsOf, rows: int
) -> Iterator[Facts]:
    """Yield metrics in pages of about ``rows`` rows, of whole partitions, in order.

    Keyset pagination: pages are cut by partition id, not by row offset, so a late page costs as
    much as an early one.
    """
    if rows < 1:
        msg = f"rows={rows}: a page has at least one row"
        raise HistoryError(msg)
    of = dataset_id(connection, dataset)
    p, a = s.partition.c, s.analyzer.c
    series = (
        sa.select(sa.func.count())
        .select_from(s.series)
        .join(s.analyzer)
        .where(a.dataset_id == of, query.series_condition())
    )
    at_once = max(1, rows // max(1, connection.execute(series).scalar_one()))
    partitions = (
        sa.select(p.id)
        .where(p.dataset_id == of, query.window.condition())
        .order_by(p.time.is_(None), p.time, p.name)
    )
    ids = list(connection.execute(partitions).scalars())
    known = dimensions_of(connection, of, query)
    start = 0
    while start < len(ids):
        (some, *_) = chunks(ids[start:], at_once)
        page = read_facts(connection, dataset, query, as_of, some, known)
        start += len(some)
        # Not every series is in every partition: size the next page by the rows of this one.
        fitting = rows * len(some) // max(1, len(page))
        at_once = max(1, min(2 * len(some), fitting))
        if len(page):
            yield page


MOST_SERIES = 8
_SERIES = ("segment", "name", "instance", "analyzer")
_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
:root{{color-scheme:light dark}}body{{font:14px system-ui,sans-serif;margin:1.5em}}
svg{{max-width:100%;height:auto}}</style></head><body>{body}</body></html>
"""
_ALONE = (
    "<style>svg{color:#222;background:#fff}"
    "@media(prefers-color-scheme:dark){svg{color:#ddd;background:#16181c}}</style>"
)
"""Style of a standalone SVG file, which cannot inherit a page's colours."""


@dataclass(frozen=True)
class Plot:
    """Plot of series as a self-contained SVG, without scripts or external resources.

    Notebooks display it.

    Attributes
    ----------
    dataset : str
    rows : sequence of mapping
        Rows of `data`.
    lines : sequence of PlotLine
        Plotted lines.
    timed : bool
        True if the axis is time; otherwise it is the partitions in order.
    """

    dataset: str
    rows: Sequence[PlotRow] = field(repr=False)
    lines: Sequence[PlotLine] = field(repr=False)
    timed: bool = True
    names: Sequence[str] = field(default=(), repr=False)

    @property
    def data(self) -> pd.DataFrame:
        """The plotted data as a tidy data frame, not thinned out.

        One row per series and partition, in order, with the columns segment, name, instance,
        analyzer, partition, time, value (NaN where there is none), status (``missing`` where the
        partition has no such metric), detector (whose band it is), expected, lower, upper, score
        (NaN where not scored), direction (``high`` or ``low`` for an anomaly) and explanation.
        """
        return frame_of(self.rows, PlotRow)

    @property
    def svg(self) -> str:
        """The plot as SVG below 50 KB: long series are thinned out, extremes and anomalies kept."""
        if self.timed:
            return picture(self.lines, time_ticks)
        names = [plain(name or "the table", 24) for name in self.names]
        return picture(self.lines, lambda *_: order_ticks(names))

    @property
    def standalone(self) -> str:
        """The plot as the text of an SVG file, with colours of its own."""
        return self.svg.replace(">", f">{_ALONE}", 1)

    def save(self, path: str | Path) -> Path:
        """Write the plot to a file, atomically replacing an existing one.

        Parameters
        ----------
        path : str or Path
            Name that ends in ``.svg`` or ``.html``.

        Raises
        ------
        HistoryError
            If the suffix is another.
        DatabaseAccessError
            If the file is not writable.

        Examples
        --------
        >>> Plot("d", [], [PlotLine("Size", [0.0], [1.0])]).save("size.png")
        Traceback (most recent call last):
            ...
        tidegauge.analyzers.core.errors.HistoryError: 'size.png' is no picture that can be written; name it .svg or .html
        """
        path = Path(path)
        match path.suffix.lower():
            case ".svg":
                text = self.standalone
            case ".html":
                text = _PAGE.format(title=escaped(self.dataset), body=self.svg)
            case _:
                msg = f"{path.name!r} is no picture that can be written; name it .svg or .html"
                raise HistoryError(msg)
        return write_output(path, text)

    def _repr_html_(self) -> str:
        return f'<div class="tidegauge-output">{self.svg}</div>'


def read_plot(connection: Connection, dataset: str, query: MetricQuery, as_of: AsOf = None) -> Plot:
    """Read the data of `Repository.plot`.

    Raises
    ------
    HistoryError
        If no series matches, or more than `MOST_SERIES`.
    """
    _check_number(connection, dataset, query)
    facts = read_facts(connection, dataset, query, as_of)
    series = sorted(set(facts.of_series.tolist()))
    if not series:
        msg = f"no metric of {dataset!r} lies in that window or view"
        raise HistoryError(msg)
    timed = all(partition["time"] is not None for partition in facts.partitions)
    scored = _best(score_rows(connection, dataset, query, as_of))
    found: dict[tuple[Any, ...], dict[str, AnomalyRow]] = {}
    for row in anomaly_rows(connection, dataset, None, query, as_of):  # strongest first
        found.setdefault(_key(row), {}).setdefault(row["partition"], row)
    rows, lines = [], []
    for place in series:
        about = facts.series[place]
        own = _rows(facts, place, scored.get(_key(about), {}), found.get(_key(about), {}))
        rows += [row for _, row in own]
        times = [row["time"] for _, row in own]
        places = [float(n) for n, _ in own]
        xs = [seconds_of(time) for time in times if time is not None] if timed else places
        lines.append(_line(about, xs, [row for _, row in own]))
    return Plot(dataset, rows, lines, timed, [p["partition"] for p in facts.partitions])


def _check_number(connection: Connection, dataset: str, query: MetricQuery) -> None:
    a, e = s.analyzer.c, s.series.c
    of = dataset_id(connection, dataset)
    asked = (
        sa.select(e.name, e.instance, a.segment, a.filter)
        .join_from(s.series, s.analyzer)
        .where(a.dataset_id == of, query.series_condition(), a.kind != Watched.__name__)
        .order_by(e.id)
    )
    count = connection.execute(sa.select(sa.func.count()).select_from(asked.subquery())).scalar()
    if not count:
        msg = (
            f"no series of {dataset!r} fits all of these filters; repo.latest({dataset!r}) lists"
            " those that there are"
        )
        raise HistoryError(msg)
    if count > MOST_SERIES:
        some = [row._asdict() for row in connection.execute(asked.limit(3))]
        named = "; ".join(plain(subject(row), 80) for row in some)
        msg = (
            f"{count:,} series match, and a picture shows {MOST_SERIES} at most: {named}; ... narrow it by"
            " name=, instance=, segment=, where= (the empty text: no filter) or analyzer="
        )
        raise HistoryError(msg)


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in _SERIES)


def _best(rows: Sequence[ScoreRow]) -> dict[tuple[Any, ...], dict[str, ScoreRow]]:
    """Return scores by series and partition, of the first detector with a band, else the first."""
    found: dict[tuple[Any, ...], dict[str, dict[str, ScoreRow]]] = {}
    for row in rows:
        found.setdefault(_key(row), {}).setdefault(row["detector"], {})[row["partition"]] = row
    return {
        key: next(filter(_has_band, by_detector.values()), next(iter(by_detector.values())))
        for key, by_detector in found.items()
    }


def _has_band(points: Mapping[str, ScoreRow]) -> bool:
    return any(isfinite(row["lower"]) or isfinite(row["upper"]) for row in points.values())


def _rows(
    facts: Facts, series: int, scored: Mapping[str, ScoreRow], found: Mapping[str, AnomalyRow]
) -> list[tuple[int, PlotRow]]:
    """Return a series' points with their partition indices, including missing points."""
    own = (facts.of_series == series).nonzero()[0].tolist()
    at = {int(facts.of_partition[n]): n for n in own}
    within = {facts.partitions[place]["within"] for place in at}
    about = facts.series[series]
    rows: list[tuple[int, PlotRow]] = []
    for place in range(min(at), max(at) + 1):
        partition = facts.partitions[place]
        if partition["within"] not in within:
            continue
        name, n = partition["partition"], at.get(place)
        said, anomaly = scored.get(name), found.get(name)
        row: PlotRow = {
            "segment": about["segment"],
            "name": about["name"],
            "instance": about["instance"],
            "analyzer": about["analyzer"],
            "partition": name,
            "time": partition["time"],
            "value": nan if n is None else float(facts.value[n]),
            "status": "missing" if n is None else facts.status[n],
            "detector": said and said["detector"],
            "expected": said["expected"] if said else nan,
            "lower": said["lower"] if said else nan,
            "upper": said["upper"] if said else nan,
            "score": said["score"] if said else nan,
            "direction": anomaly and anomaly["direction"],
            "explanation": anomaly and anomaly["explanation"],
        }
        rows.append((place, row))
    return rows


def _line(about: SeriesRow, xs: Sequence[float], rows: Sequence[PlotRow]) -> PlotLine:
    marks = [
        (-row["score"] if isfinite(row["score"]) else 0.0, n, row)
        for n, row in enumerate(rows)
        if row["direction"]
    ]
    known = any(row["detector"] for row in rows)
    return PlotLine(
        title=subject(about),
        xs=xs,
        values=[row["value"] for row in rows],
        lower=[row["lower"] for row in rows] if known else (),
        upper=[row["upper"] for row in rows] if known else (),
        expected=[row["expected"] for row in rows] if known else (),
        marks=[
            Mark(n, row["direction"] == "high", str(row["explanation"]))
            for _, n, row in sorted(marks, key=lambda mark: mark[:2])
        ],
        percent=about["scale"] == "ratio",
        kind=about["name"],
    )
