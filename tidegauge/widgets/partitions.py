"""The partitions view: a calendar of measured, late, missing and restated partitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from tidegauge.analyzers.core.errors import HistoryError
from tidegauge.repository.history.points import partition_time, partition_versions
from tidegauge.repository.incidents.listing import anomaly_rows
from tidegauge.repository.store.queries import MetricQuery, Window
from tidegauge.repository.store.rows import fields_of
from tidegauge.widgets import protocol
from tidegauge.widgets.answer import Answer, shown, table

if TYPE_CHECKING:
    import pandas as pd

    from tidegauge.repository.repository import Repository

MOST = 200
"""Maximum number of anomalies of one partition to send; the lowest scores of more are left out."""
OVERDUE = 62
"""Maximum number of missing partitions after a segment's last one to send; days of two months."""
FOUND = ("id", "incident_id", "series_id", "severity", "status")
NAMES = ("segment", "name", "instance", "explanation")


def partitions(repository: Repository, asked: Mapping[str, Any]) -> Answer:
    """Return the calendar of a dataset; ``overdue`` counts missing partitions not sent, by segment."""
    found = _calendar(repository, asked)
    known = found[found["partition"].notna()]
    # A table that is no longer written would have an unbounded number of missing partitions.
    last = found["segment"].map(known.groupby("segment")["time"].max())
    after = found["partition"].isna() & (found["time"] > last)
    overdue = after & after.astype(int).groupby(found["segment"]).cumsum().gt(OVERDUE)
    left = {
        shown(str(key)): int(count)
        for key, count in overdue.groupby(found["segment"]).sum().items()
    }
    found = found[~overdue]
    # Names are sent untruncated: the script sends them back to request a day.
    names = found["partition"].tolist()
    return table(found.drop(columns="partition"), partitions=names, overdue=left)


def frame(repository: Repository, asked: Mapping[str, Any]) -> pd.DataFrame:
    """Return the calendar of a dataset as the page shows it: of one ``segment``, the first if none is chosen."""
    found = _calendar(repository, asked)
    segments = found["segment"].fillna("")
    chosen = asked.get("segment")
    if chosen not in set(segments):
        chosen = min(segments, default="")
    return found[segments == chosen].reset_index(drop=True)


def _calendar(repository: Repository, asked: Mapping[str, Any]) -> pd.DataFrame:
    """Return the full calendar of a dataset."""
    if asked["dataset"] is None:
        msg = "the repository is empty: there is no dataset whose partitions could be shown"
        raise HistoryError(msg)
    return repository.calendar(asked["dataset"])


def day(repository: Repository, asked: Mapping[str, Any]) -> Answer:
    """Return the anomalies of a partition, the worst first, and its versions."""
    dataset, name = asked["dataset"], asked["partition"]
    with repository.database.read() as connection:
        time = partition_time(connection, dataset, name)
        window = Window(time, time) if time else Window()
        rows = anomaly_rows(connection, dataset, None, MetricQuery(window=window))
        found = [row for row in rows if row["partition"] == name]
        versions = [v._asdict() for v in partition_versions(connection, dataset, name)]
    anomalies = [fields_of(row, (*FOUND, *NAMES)) for row in found[:MOST]]
    for one in anomalies:
        one.update({key: shown(one[key]) for key in NAMES})
    told: protocol.DayAnswer = {
        "anomalies": cast("list[protocol.PartitionAnomaly]", anomalies),
        "total": len(found),
        "versions": cast("list[protocol.PartitionVersion]", versions),
    }
    return Answer(told)
