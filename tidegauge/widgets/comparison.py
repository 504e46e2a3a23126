"""The compare view: two partitions, runs or windows side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analyzers.errors import HistoryError
from repository.facts import dimensions_of
from repository.history import MetricQuery, dataset_id
from tidegauge.widgets.answer import Answer, shown, table

if TYPE_CHECKING:
    import pandas as pd

    from repository.repository import Repository

MOST = 2000
"""Rows that are sent; the least surprising of more are left out."""


def sides(repository: Repository, asked: Mapping[str, Any]) -> Answer:
    """Return what a dataset can be compared by: its partitions and its runs, the newest first."""
    dataset = asked["dataset"]
    with repository.database.read() as connection:
        _, known = dimensions_of(connection, dataset_id(connection, dataset), MetricQuery())
    partitions = [row["partition"] for row in reversed(known)]
    runs = repository.runs(dataset)
    told = [
        {
            "id": row.run_id,
            "status": row.status,
            "started_at": row.started_at,
            "measured": row.measured,
        }
        for row in runs.itertuples()
    ]
    return Answer({"partitions": partitions, "runs": told})


def compare(repository: Repository, asked: Mapping[str, Any]) -> Answer:
    """Return every metric on both sides, the most surprising first."""
    found = frame(repository, asked)
    return table(found.head(MOST), total=len(found), dataset=shown(asked["dataset"]))


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
