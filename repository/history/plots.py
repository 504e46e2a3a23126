"""Plots of series with their expected bands and anomalies, read from a repository."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

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
from tidegauge.repository.store.dimensions import Watched
from tidegauge.repository.store.facts import Facts, read_facts
from tidegauge.repository.store.frames import frame_of
from tidegauge.repository.store.queries import AsOf, MetricQuery, dataset_id
from tidegauge.repository.store.rows import AnomalyRow, PlotRow, ScoreRow, SeriesRow

if TYPE_CHECKING:
    import pandas as pd
    from sqlalchemy.engine import Connection

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
