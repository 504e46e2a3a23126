"""The data of what the dashboard shows: as a table to read, as CSV, series as SVG."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.errors import HistoryError
from tidegauge.analyzers.core.formatting import number
from tidegauge.repository.history.heatmap import panorama
from tidegauge.repository.history.plots import read_plot
from tidegauge.repository.store.frames import spreadsheet
from tidegauge.repository.store.queries import MetricQuery, Window
from tidegauge.widgets import protocol
from tidegauge.widgets.answer import Answer, shown

if TYPE_CHECKING:
    import pandas as pd

    from tidegauge.repository.repository import Repository
    from tidegauge.repository.store.queries import AsOf

MOST_CELLS = 2_000_000
"""Maximum number of cells of a CSV file that is sent to the page."""

MOST_ROWS, MOST_COLUMNS = 500, 40
"""Maximum number of rows and of columns of a table to read."""


def data(frames: Mapping[str, pd.DataFrame]) -> Answer:
    """Return a view's tables by title as texts, for those who cannot see the picture.

    Each has its first rows and last columns. Times are of UTC; missing values are None.

    Examples
    --------
    >>> import pandas as pd
    >>> points = pd.DataFrame({"value": [1234.5, None], "id": [1001, 7], "late": [True, False]})
    >>> data({"Points": points}).told["tables"][0]["cells"]
    [['1,234', '1001', 'yes'], [None, '7', 'no']]
    """
    told: protocol.DataAnswer = {"tables": [_texts(*one) for one in frames.items()]}
    return Answer(told)


def _texts(title: str, frame: pd.DataFrame) -> protocol.TextTable:
    some = frame.iloc[:MOST_ROWS, -MOST_COLUMNS:]
    if any(name is not None for name in frame.index.names):
        some = some.reset_index()
    columns = [some.iloc[:, n].tolist() for n in range(some.shape[1])]
    texts = text_table(title, map(str, some.columns), zip(*columns, strict=True))
    return {**texts, "rows": len(frame), "omitted": max(0, frame.shape[1] - MOST_COLUMNS)}


def text_table(
    title: str, columns: Iterable[str], rows: Iterable[Sequence[Any]]
) -> protocol.TextTable:
    """Return the first `MOST_ROWS` rows of a table as text."""
    whole = list(rows)
    return {
        "title": title,
        "columns": [shown(name) for name in columns],
        "cells": [[_cell(value) for value in row] for row in whole[:MOST_ROWS]],
        "rows": len(whole),
        "omitted": 0,
    }


def _cell(value: Any) -> str | None:
    import pandas as pd

    if pd.api.types.is_scalar(value) and pd.isna(value):
        return None
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return number(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M")
    return shown(str(value)) or None


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
    cells = spreadsheet(frame.reset_index() if labelled else frame)
    told: protocol.TextAnswer = {"text": cells.to_csv(index=False)}
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
