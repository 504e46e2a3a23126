"""Series with what was expected and what stood out, read from the repository to be drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite, nan
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from analyzers.display import escaped, plain
from analyzers.errors import DatabaseAccessError, HistoryError, nearest
from repository import schema as s
from repository.anomalies.finding import subject
from repository.anomalies.listing import anomaly_rows, score_rows
from repository.axes import order_ticks, seconds_of, time_ticks
from repository.facts import Facts, read_facts
from repository.frames import frame_of
from repository.history import AsOf, MetricQuery, dataset_id
from repository.lines import Line, Mark
from repository.pictures import picture
from repository.recorded import Watched

if TYPE_CHECKING:
    import pandas as pd
    from sqlalchemy.engine import Connection

MOST_SERIES = 8
PLOT_COLUMNS = (
    *("segment", "name", "instance", "analyzer", "partition", "time", "value", "status"),
    *("detector", "expected", "lower", "upper", "score", "direction", "explanation"),
)
_SERIES = PLOT_COLUMNS[:4]
_SCORED = ("expected", "lower", "upper", "score")
_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
:root{{color-scheme:light dark}}body{{font:14px system-ui,sans-serif;margin:1.5em}}
svg{{max-width:100%;height:auto}}</style></head><body>{body}</body></html>
"""
_ALONE = (
    "<style>svg{color:#222;background:#fff}"
    "@media(prefers-color-scheme:dark){svg{color:#ddd;background:#16181c}}</style>"
)
"""A file of its own has no page whose colours it could take."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Plot:
    """Series as a picture. A notebook shows it; it needs no script and nothing from elsewhere.

    Attributes
    ----------
    dataset : str
    rows : sequence of mapping
        As in `data`.
    lines : sequence of Line
        What is drawn.
    timed : bool
        Whether the axis is time; else it is the partitions in order.
    """

    dataset: str
    rows: Sequence[Row] = field(repr=False)
    lines: Sequence[Line] = field(repr=False)
    timed: bool = True
    names: Sequence[str] = field(default=(), repr=False)

    @property
    def data(self) -> pd.DataFrame:
        """What is drawn, tidily, nothing left out.

        One row for each series and partition, in order, with the columns segment, name, instance, analyzer,
        partition, time, value (NaN where there is none), status (``missing`` where the partition has no such
        metric), detector (whose band it is), expected, lower, upper, score (NaN where it says nothing),
        direction (``high`` or ``low`` for an anomaly) and explanation.
        """
        return frame_of(self.rows, PLOT_COLUMNS)

    @property
    def svg(self) -> str:
        """The picture as SVG, below 50 KB: long series are thinned out, extremes and anomalies kept."""
        if self.timed:
            return picture(self.lines, time_ticks)
        names = [plain(name or "the table", 24) for name in self.names]
        return picture(self.lines, lambda *_: order_ticks(names))

    def save(self, path: str | Path) -> Path:
        """Write the picture to a file, which is replaced as a whole if it is there.

        Parameters
        ----------
        path : str or Path
            Ends in ``.svg`` or ``.html``.

        Raises
        ------
        HistoryError
            If it ends otherwise.
        DatabaseAccessError
            If it cannot be written.

        Examples
        --------
        >>> Plot("d", [], [Line("Size", [0.0], [1.0])]).save("size.png")
        Traceback (most recent call last):
            ...
        analyzers.errors.HistoryError: 'size.png' is no picture that can be written; name it .svg or .html
        """
        path = Path(path)
        match path.suffix.lower():
            case ".svg":
                text = self.svg.replace(">", f">{_ALONE}", 1)
            case ".html":
                text = _PAGE.format(title=escaped(self.dataset), body=self.svg)
            case _:
                msg = f"{path.name!r} is no picture that can be written; name it .svg or .html"
                raise HistoryError(msg)
        return write_whole(path, text)

    def _repr_html_(self) -> str:
        return f'<div class="tidegauge">{self.svg}</div>'


def write_whole(path: Path, text: str) -> Path:
    """Write a file so that nobody ever sees a part of it.

    Raises
    ------
    DatabaseAccessError
        If it cannot be written.
    """
    partial = None
    try:
        with NamedTemporaryFile(
            "w", dir=path.parent, prefix=f".{path.name[:40]}.", encoding="utf-8", delete=False
        ) as file:
            partial = Path(file.name)
            file.write(text)
        partial.chmod(0o644)
        partial.replace(path)
    except OSError as error:
        if partial is not None:
            partial.unlink(missing_ok=True)
        raise DatabaseAccessError(f"cannot write {path}: {error}") from error
    return path


def read_plot(connection: Connection, dataset: str, query: MetricQuery, as_of: AsOf = None) -> Plot:
    """Read what `Repository.plot` draws.

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
    found: dict[tuple[Any, ...], dict[str, Row]] = {}
    for row in anomaly_rows(connection, dataset, None, query, as_of):  # the strongest first
        found.setdefault(_key(row), {}).setdefault(row["partition"], row)
    rows, lines = [], []
    for place in series:
        about = facts.series[place]
        own = _rows(facts, place, scored.get(_key(about), {}), found.get(_key(about), {}))
        rows += [row for _, row in own]
        xs = [seconds_of(row["time"]) if timed else float(n) for n, row in own]
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
        hint = _unknown(connection, of, query)
        msg = f"no series of {dataset!r} is so{hint}; repo.latest({dataset!r}) lists those that there are"
        raise HistoryError(msg)
    if count > MOST_SERIES:
        some = [row._asdict() for row in connection.execute(asked.limit(3))]
        named = "; ".join(plain(subject(row), 80) for row in some)
        msg = (
            f"{count:,} series match, and a picture shows {MOST_SERIES} at most: {named}; ... narrow it by"
            " name=, instance=, segment=, where= (the empty text: no filter) or analyzer="
        )
        raise HistoryError(msg)


def _unknown(connection: Connection, dataset: int, query: MetricQuery) -> str:
    """Return which part of a query no series has, with the nearest that some has; nothing if each is there."""
    a, e = s.analyzer.c, s.series.c
    columns = {"name": (e.name, a.kind), "instance": (e.instance,), "segment": (a.segment,)}
    for option, told in columns.items():
        asked = getattr(query, option)
        if asked is None:
            continue
        there: set[str] = set()
        for column in told:
            found = (
                sa.select(column)
                .join_from(s.series, s.analyzer)
                .where(a.dataset_id == dataset, a.kind != Watched.__name__)
            )
            there.update(filter(None, connection.execute(found.distinct()).scalars()))
        for one in [asked] if isinstance(asked, str) else asked:
            if one not in there:
                close = nearest(one, there)
                return f": none has {option}={one!r}" + (
                    f", did you mean {close!r}?" if close else ""
                )
    return ""


def _key(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in _SERIES)


def _best(rows: Sequence[Row]) -> dict[tuple[Any, ...], dict[str, Row]]:
    """Return scores by series and partition: of the first detector that has a band, else the first."""
    found: dict[tuple[Any, ...], dict[str, dict[str, Row]]] = {}
    for row in rows:
        found.setdefault(_key(row), {}).setdefault(row["detector"], {})[row["partition"]] = row
    return {
        key: next(filter(_has_band, by_detector.values()), next(iter(by_detector.values())))
        for key, by_detector in found.items()
    }


def _has_band(points: Mapping[str, Row]) -> bool:
    return any(isfinite(row["lower"]) or isfinite(row["upper"]) for row in points.values())


def _rows(
    facts: Facts, series: int, scored: Mapping[str, Row], found: Mapping[str, Row]
) -> list[tuple[int, Row]]:
    """Return the points of a series with their partitions' places, also those that lack it."""
    own = (facts.of_series == series).nonzero()[0].tolist()
    at = {int(facts.of_partition[n]): n for n in own}
    within = {facts.partitions[place]["within"] for place in at}
    about = {name: facts.series[series][name] for name in _SERIES}
    rows: list[tuple[int, Row]] = []
    for place in range(min(at), max(at) + 1):
        partition = facts.partitions[place]
        if partition["within"] not in within:
            continue
        name, n = partition["partition"], at.get(place)
        said, anomaly = scored.get(name, {}), found.get(name, {})
        row = {
            **about,
            "partition": name,
            "time": partition["time"],
            "value": nan if n is None else float(facts.value[n]),
            "status": "missing" if n is None else facts.status[n],
            "detector": said.get("detector"),
            **{number: said.get(number, nan) for number in _SCORED},
            "direction": anomaly.get("direction"),
            "explanation": anomaly.get("explanation"),
        }
        rows.append((place, row))
    return rows


def _line(about: Row, xs: Sequence[float], rows: Sequence[Row]) -> Line:
    marks = [
        (-row["score"] if isfinite(row["score"]) else 0.0, n, row)
        for n, row in enumerate(rows)
        if row["direction"]
    ]
    known = any(row["detector"] for row in rows)
    return Line(
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
