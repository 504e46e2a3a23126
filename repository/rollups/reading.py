"""Queries for stored roll-ups."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from tidegauge.analyzers.core.errors import HistoryError
from tidegauge.repository.store import schema as s
from tidegauge.repository.store.batch import OUTCOME
from tidegauge.repository.store.queries import AsOf, MetricQuery, commit_as_of, dataset_id
from tidegauge.repository.store.rows import number_of
from tidegauge.repository.store.stored_states import TOTAL
from tidegauge.repository.store.windows import WindowScheme

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


def rolled_windows(connection: Connection, dataset: str) -> list[str]:
    """Return the names of the windows for which a dataset has roll-ups."""
    r = s.rolled.c
    query = sa.select(r.window_name).where(r.dataset_id == dataset_id(connection, dataset))
    return sorted(connection.execute(query).scalars())


def rollup_rows(
    connection: Connection, dataset: str, window: str, query: MetricQuery, as_of: AsOf = None
) -> list[Mapping[str, Any]]:
    """Return roll-ups as rows like those of `Repository.metrics`.

    Raises
    ------
    HistoryError
        If no roll-ups are stored for the window.
    """
    name = WindowScheme.from_name(window).name
    of, commit = dataset_id(connection, dataset), commit_as_of(connection, as_of)
    there = rolled_windows(connection, dataset)
    if name not in there:
        msg = (
            f"no roll-ups {window!r} are kept of {dataset!r} (there are: {', '.join(there) or 'none'});"
            f" name it in the suite's windows, or call repo.roll_up({dataset!r}, [{window!r}])"
        )
        raise HistoryError(msg)
    a, e, u = s.analyzer.c, s.series.c, s.rollup
    moment = sa.func.coalesce(u.c.newest_at, u.c.window_end, type_=s.UtcDateTime())
    span = [moment >= t for t in (query.window.since,) if t is not None]
    span += [moment <= t for t in (query.window.until,) if t is not None]
    select = (
        sa.select(
            a.segment,
            e.entity,
            e.name,
            e.instance,
            a.text.label("analyzer"),
            u.c.window_start,
            u.c.window_end,
            u.c.newest_at,
            *(u.c[c] for c in OUTCOME),
            s.commit.c.run_id,
            s.commit.c.committed_at,
        )
        .join_from(u, s.series, e.id == u.c.series_id)
        .join(s.analyzer)
        .join(s.commit, s.commit.c.id == u.c.commit_id)
        .where(a.dataset_id == of, u.c.window_name == name, s.holds(u, commit), *span)
        .where(query.series_condition())
        .order_by(u.c.window_end, e.name, e.instance, e.id)
    )
    return [
        {
            **row._asdict(),
            "dataset": dataset,
            "partition": _label(row.window_start, row.window_end),
            "time": row.newest_at,
            "value": number_of(row.value, row.status),
            "version": None,
            "analyzed_at": row.committed_at,
        }
        for row in connection.execute(select)
    ]


def _label(start: datetime | None, end: datetime) -> str:
    if start is None:
        return TOTAL
    days = start.time() == end.time() == datetime.min.time()
    shown = [t.strftime("%Y-%m-%d" if days else "%Y-%m-%dT%H:%M") for t in (start, end)]
    return "/".join(shown)
