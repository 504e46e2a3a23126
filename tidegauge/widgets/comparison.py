"""The compare view: two partitions, runs or windows side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sa

from analyzers.errors import HistoryError
from repository import schema as s
from repository.facts import dimensions_of
from repository.history import MetricQuery, dataset_id
from tidegauge.widgets.answer import Answer, seconds, shown, table

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from repository.repository import Repository

MOST = 10_000
"""Rows that are sent; the least surprising of more are left out."""
SERIES = ("segment", "name", "instance", "analyzer")


def sides(repository: Repository, asked: Mapping[str, Any]) -> Answer:
    """Return what a dataset can be compared by: its partitions, the newest first, and runs that measured some."""
    dataset = asked["dataset"]
    p = s.partition.c
    with repository.database.read() as connection:
        query = (
            sa.select(p.name, p.time, p.segment)
            .where(p.dataset_id == dataset_id(connection, dataset))
            .order_by(p.time.is_(None), p.time.desc(), p.name)
        )
        partitions = list(connection.execute(query))
    runs = repository.runs(dataset)
    columns = runs[["run_id", "started_at", "measured"]].itertuples(index=False, name=None)
    told = [
        {"id": number, "started_at": started, "measured": measured}
        for number, started, measured in columns
        if measured and measured > 0  # None or NaN while it runs
    ]
    # Names are sent whole: they come back as the sides, and segments as what both are of.
    names = [row.name for row in partitions]
    within = [row.segment for row in partitions]
    times = np.array([seconds(row.time) for row in partitions], np.float64)
    return Answer({"partitions": names, "within": within, "runs": told}, {"times": times})


def compare(repository: Repository, asked: Mapping[str, Any]) -> Answer:
    """Return every metric on both sides, the most surprising first, with the ids of their series."""
    found = frame(repository, asked)
    # What is unusual because of a stored anomaly need not surprise most.
    kept = found.sort_values("unusual", ascending=False, kind="stable").head(MOST).sort_index()
    told = {"total": len(found), "unusual": int(found["unusual"].sum())}
    answer = table(kept, **told, dataset=shown(asked["dataset"]))
    return Answer(answer.told, {**answer.arrays, "ids": _ids(repository, asked["dataset"], kept)})


def _ids(repository: Repository, dataset: str, found: pd.DataFrame) -> NDArray[np.float64]:
    """Return the ids of series, NaN for what is not there any more."""
    with repository.database.read() as connection:
        series, _ = dimensions_of(connection, dataset_id(connection, dataset), MetricQuery())
    known = {tuple(row[key] for key in SERIES): row["id"] for row in series}
    rows = found[list(SERIES)].itertuples(index=False, name=None)
    return np.array([known.get(row, np.nan) for row in rows], np.float64)


def frame(repository: Repository, asked: Mapping[str, Any]) -> pd.DataFrame:
    """Return the same in full."""
    baseline, current = (side(asked.get(name)) for name in ("baseline", "current"))
    return repository.compare(asked["dataset"], baseline, current)


def side(told: Any) -> Any:
    """Return a side as the repository takes it: a partition, the number of a run, or a pair of times."""
    match told:
        case {"partition": str(name)}:
            return name
        case {"run": int(number)}:
            return number
        case {"since": since, "until": until}:
            return since or None, until or None
    msg = f"{told!r} is no side: give partition, run, or since and until"
    raise HistoryError(msg)
