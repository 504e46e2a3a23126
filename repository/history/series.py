"""The series of a dataset: their list, single values, wide frames and long histories.

`wide_frame` has a column for each series. Long histories are downsampled by the database
(`chart_rows`) or read in pages (`fact_pages`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from tidegauge.analyzers.core.errors import HistoryError
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.bulk import chunks
from tidegauge.repository.store.facts import Facts, dimensions_of, read_facts, read_newest
from tidegauge.repository.store.frames import columns
from tidegauge.repository.store.queries import (
    AsOf,
    MetricQuery,
    commit_as_of,
    dataset_id,
    partition_id,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from sqlalchemy.engine import Connection

    from tidegauge.repository.store.rows import ListedSeriesRow, SeriesRow


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
