"""The partitions view: a calendar of what was measured, late, missing or restated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from analyzers.errors import HistoryError
from repository import schema as s
from repository.anomalies.listing import anomaly_rows
from repository.history import MetricQuery, Window, dataset_id
from tidegauge.widgets.answer import Answer, shown, table

if TYPE_CHECKING:
    import pandas as pd

    from repository.repository import Repository

MOST = 200
"""Anomalies of one partition that are sent; the lowest scores of more are left out."""
OVERDUE = 62
"""Partitions of a segment that are missing after its last one and are sent; days of two months."""
FOUND = ("id", "incident_id", "series_id", "severity", "status")
NAMES = ("segment", "name", "instance", "explanation")
VERSION = ("version", "rows", "arrived_at", "measured_at")


def partitions(repository: Repository, asked: Mapping[str, Any]) -> Answer:
    """Return the calendar of a dataset; ``overdue`` counts by segment what is missing after all that is sent."""
    found = frame(repository, asked)
    known = found[found["partition"].notna()]
    # A table that nobody writes any more would be missing partitions without end.
    last = found["segment"].map(known.groupby("segment")["time"].max())
    after = found["partition"].isna() & (found["time"] > last)
    overdue = after & after.astype(int).groupby(found["segment"]).cumsum().gt(OVERDUE)
    left = {
        shown(str(key)): int(count)
        for key, count in overdue.groupby(found["segment"]).sum().items()
    }
    found = found[~overdue]
    # Names are sent whole: they come back to ask for a day.
    names = found["partition"].tolist()
    return table(found.drop(columns="partition"), partitions=names, overdue=left)


def frame(repository: Repository, asked: Mapping[str, Any]) -> pd.DataFrame:
    """Return the calendar of a dataset, in full."""
    if asked["dataset"] is None:
        msg = "the repository is empty: there is no dataset whose partitions could be shown"
        raise HistoryError(msg)
    return repository.calendar(asked["dataset"])


def day(repository: Repository, asked: Mapping[str, Any]) -> Answer:
    """Return the anomalies of a partition, the worst first, and the versions that it had."""
    dataset, name = asked["dataset"], asked["partition"]
    p, v = s.partition.c, s.partition_version.c
    with repository.database.read() as connection:
        named = (p.dataset_id == dataset_id(connection, dataset)) & (p.name == name)
        times = list(connection.execute(sa.select(p.time).where(named)).scalars())
        # There is one, unless it was cleaned away meanwhile.
        window = Window(times[0], times[0]) if times else Window()
        rows = anomaly_rows(connection, dataset, None, MetricQuery(window=window))
        found = [row for row in rows if row["partition"] == name]
        query = (
            sa.select(*(v[column] for column in VERSION))
            .join_from(s.partition, s.partition_version)
            .where(named)
            .order_by(v.version)
        )
        versions = [row._asdict() for row in connection.execute(query)]
    told = [
        {**{key: row[key] for key in FOUND}, **{key: shown(row[key]) for key in NAMES}}
        for row in found[:MOST]
    ]
    return Answer({"anomalies": told, "total": len(found), "versions": versions})
