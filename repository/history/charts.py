"""Long histories, downsampled by the database or read in pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from tidegauge.analyzers.core.errors import HistoryError
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.bulk import chunks
from tidegauge.repository.store.facts import Facts, dimensions_of, read_facts
from tidegauge.repository.store.frames import columns
from tidegauge.repository.store.queries import AsOf, MetricQuery, commit_as_of, dataset_id

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

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
