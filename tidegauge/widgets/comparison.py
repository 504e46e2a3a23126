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
_WEEK = 7 * 86400.0
_SIDES = frozenset({"baseline", "current"})
_BESIDE = frozenset({"dataset", "catalogue", "kind", "filter", "unusual", "sort", "down"})
"""What else is asked, and remembered of how the table is looked at."""
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
    """Return the same in full; of the newest partition with one before it if nothing was chosen."""
    if not set(asked) - _BESIDE:
        asked = {**asked, **_usual(repository, asked)}
    given = sorted(set(asked) - _BESIDE)
    if any(asked.get(name) is None for name in _SIDES) or set(given) != _SIDES:
        msg = (
            "dashboard.options['compare'] needs baseline and current, each {'partition': ...}, {'run': ...}"
            f" or {{'since': ..., 'until': ...}}; there are: {', '.join(given)}"
        )
        raise HistoryError(msg)
    baseline, current = side(asked["baseline"]), side(asked["current"])
    return repository.compare(asked["dataset"], baseline, current)


def _usual(repository: Repository, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sides that the script takes if none were chosen (``usual`` in sides.ts): two partitions.

    The newest that has one before it in its segment, a week before it or else the one before.
    """
    answer = sides(repository, asked)
    names, within = answer.told["partitions"], answer.told["within"]
    times: NDArray[np.float64] = answer.arrays["times"]
    for place, time in enumerate(times.tolist()):
        earlier = [
            n
            for n, other in enumerate(times.tolist())
            if other < time and within[n] == within[place]
        ]
        if earlier:
            week = [n for n in earlier if times[n] == time - _WEEK]
            before = week[0] if week else max(earlier, key=lambda n: times[n])
            break
    else:  # without times, any two
        place, before = 0, 1
    if len(names) <= before:
        msg = f"{asked['dataset']!r} has no two partitions to compare"
        raise HistoryError(msg)
    return {"baseline": {"partition": names[before]}, "current": {"partition": names[place]}}


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
