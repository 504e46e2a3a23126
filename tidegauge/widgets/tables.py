"""The home view: the health of all tables, the worst first."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tidegauge.repository.history.tables import TABLE_COLUMNS, table_rows
from tidegauge.repository.store.frames import frame_of
from tidegauge.widgets.answer import Answer, table

if TYPE_CHECKING:
    import pandas as pd

    from tidegauge.repository.repository import Repository


def tables(repository: Repository, asked: Mapping[str, Any]) -> Answer:
    """Return the health of all tables; names of datasets untruncated, as the script sends them back."""
    now = datetime.now(UTC)
    found = frame(repository, asked, now)
    return table(
        found.drop(columns="dataset"), datasets=found["dataset"].tolist(), now=int(now.timestamp())
    )


def frame(
    repository: Repository, asked: Mapping[str, Any], now: datetime | None = None
) -> pd.DataFrame:
    """Return the health of all tables as a frame."""
    with repository.database.read() as connection:
        return frame_of(table_rows(connection, now or datetime.now(UTC)), TABLE_COLUMNS)
