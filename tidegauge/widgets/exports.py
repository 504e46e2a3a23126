"""Downloads of what the dashboard shows: data as CSV, series as SVG."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.errors import HistoryError
from tidegauge.repository.history.heatmap import panorama
from tidegauge.repository.history.plots import read_plot
from tidegauge.repository.store.queries import MetricQuery, Window
from tidegauge.widgets import protocol
from tidegauge.widgets.answer import Answer

if TYPE_CHECKING:
    import pandas as pd

    from tidegauge.repository.repository import Repository
    from tidegauge.repository.store.queries import AsOf

MOST_CELLS = 2_000_000
"""Maximum number of cells of a CSV file that is sent to the page."""


def csv(frame: pd.DataFrame, view: str) -> Answer:
    """Return a view's data as CSV text.

    Raises
    ------
    HistoryError
        If it is too large for a page; `Dashboard.data` has it all.
    """
    if frame.size > MOST_CELLS:
        msg = (
            f"{frame.size:,} cells are too many to download; choose a table, or take"
            f" Dashboard(repo, view={view!r}).data in Python"
        )
        raise HistoryError(msg)
    labelled = any(name is not None for name in frame.index.names)
    told: protocol.TextAnswer = {"text": frame.to_csv(index=labelled)}
    return Answer(told)


def svg(repository: Repository, asked: Mapping[str, Any], as_of: AsOf = None) -> Answer:
    """Return the chart of some series of one table in a window as the text of an SVG file.

    Raises
    ------
    HistoryError
        If there are none, more than `Repository.plot` draws, or they are of several tables.
    """
    ids = [int(number) for number in asked.get("ids", ())]
    with repository.database.read() as connection:
        known = panorama(connection, as_of)
        rows = [row for row in range(known.shape[0]) if int(known.series[row]) in set(ids)]
        datasets = sorted({known.dataset.word(row) for row in rows})
        if len(datasets) != 1:
            msg = "an SVG file shows series of one table; choose some of one table"
            raise HistoryError(msg)
        window = Window(_time(asked.get("since")), _time(asked.get("until")))
        plot = read_plot(connection, datasets[0], MetricQuery(series=ids, window=window), as_of)
    told: protocol.TextAnswer = {"text": plot.standalone}
    return Answer(told)


def _time(seconds: Any) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if isinstance(seconds, int | float) else None
