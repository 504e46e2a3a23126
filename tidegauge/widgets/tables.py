"""The home view: the health of all tables, the worst first."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tidegauge.repository.history.tables import TABLE_COLUMNS, table_rows
from tidegauge.repository.store.frames import frame_of
from tidegauge.repository.store.verdicts import passing_checks
from tidegauge.widgets.answer import Answer, table
from tidegauge.widgets.visible import alphabetical_ranks, matches, ordered

if TYPE_CHECKING:
    import pandas as pd

    from tidegauge.repository.repository import Repository

SEARCHED = ("dataset", "health", "owner", "tags")
ALPHABETICAL = ("dataset", "owner")
"""Columns of the page and of the frame that sort by their texts."""
SORTED_BY = {
    "newest": "time",
    "completeness": "completeness",
    "run": "run_started_at",
}
"""Columns of the frame by those of the page that sort by them, the oldest and smallest first."""


def tables(repository: Repository, _: Mapping[str, Any]) -> Answer:
    """Return the health of all tables; names of datasets untruncated, as the script sends them back."""
    now = datetime.now(UTC)
    found = _health(repository, now)
    answer = table(
        found.drop(columns="dataset"), datasets=found["dataset"].tolist(), now=int(now.timestamp())
    )
    ranks = {f"{name}_rank": alphabetical_ranks(found[name]).to_numpy() for name in ALPHABETICAL}
    return Answer(answer.told, {**answer.arrays, **ranks})


def frame(repository: Repository, asked: Mapping[str, Any]) -> pd.DataFrame:
    """Return the health of tables as the page lists it: ``filter``, ``health``, ``sort`` and ``reverse``."""
    found = _health(repository, datetime.now(UTC))
    seen = matches((found[name].fillna("") for name in SEARCHED), asked.get("filter"))
    if asked.get("health"):
        seen &= (found["health"] == asked["health"]).to_numpy()
    found = found[seen]
    key, descending = _sort_key(found, asked.get("sort")), bool(asked.get("reverse"))
    return ordered(found, key, descending=descending).reset_index(drop=True)


def _health(repository: Repository, now: datetime) -> pd.DataFrame:
    with repository.database.read() as connection:
        found = frame_of(table_rows(connection, now), TABLE_COLUMNS)
        passing = passing_checks(connection)
    counts = [passing.get(name, 0) for name in found["dataset"]]
    found.insert(list(found).index("failing") + 1, "passing", counts)
    return found


def _sort_key(found: pd.DataFrame, column: str | None) -> pd.Series:
    """Return the key by which a column of the page sorts, the worst first, as in tables.ts."""
    import pandas as pd

    if column in ALPHABETICAL:
        return alphabetical_ranks(found[column])
    if column in SORTED_BY:
        return found[SORTED_BY[column]]
    match column:
        case "incidents":
            return -(1e6 * found["errors"] + 1e3 * found["warnings"] + found["infos"])
        case "size":
            return -found["size"].fillna(found["rows"])
        case "failing":
            return -found["failing"]
    return pd.Series(range(len(found)), index=found.index)
