"""Answers to the dashboard's script: filtered as the page is, packed, and exported.

Filters are the words of a search, a window of time and an order of rows. An `Answer` is text as JSON and numbers
as binary buffers. The data of what the dashboard shows are exported as a table to read, as CSV, series as SVG.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegauge.analyzers.core.errors import HistoryError
from tidegauge.analyzers.core.formatting import number
from tidegauge.repository.history.heatmap import panorama
from tidegauge.repository.history.plots import read_plot
from tidegauge.repository.store.frames import spreadsheet
from tidegauge.repository.store.queries import MetricQuery, Window
from tidegauge.widgets import protocol

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from tidegauge.repository.repository import Repository
    from tidegauge.repository.store.queries import AsOf


_DAY = 86400.0
_TIME = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2}(?::\d{2})?))?")


def matches(columns: Iterable[Iterable[Any]], search: str | None) -> NDArray[np.bool_]:
    """Return which rows contain all words of a search in any of their texts, case-insensitively.

    Examples
    --------
    >>> matches([["Orders", "visits"], ["ann", None]], "ORD an").tolist()
    [True, False]
    """
    words = (search or "").lower().split()
    rows = ("\n".join(str(text) for text in row).lower() for row in zip(*columns, strict=True))
    return np.array([all(word in text for word in words) for text in rows], np.bool_)


def within(
    labels: Sequence[str], times: NDArray[np.float64], since: Any, until: Any
) -> NDArray[np.bool_]:
    """Return which columns of a chart lie in a window, both ends included.

    Parameters
    ----------
    labels : sequence of str
        Of the columns, in order.
    times : array of float
        Of the columns, in seconds since 1970. If some are NaN, columns have their order alone.
    since, until : float, str or None
        Seconds, the label of a column, or a time as ISO 8601 text, of UTC unless it says otherwise.
        None and what is not on the axis is no end; without ends, or if the first is not before the
        last, all columns are in the window, as the chart shows them.

    Examples
    --------
    >>> within(["a", "b", "c"], np.full(3, np.nan), "b", None).tolist()
    [False, True, True]
    """
    timed = bool(np.isfinite(times).all())
    axis = times if timed else np.arange(len(labels), dtype=np.float64)
    whole = np.ones(len(labels), np.bool_)
    if not len(axis):
        return whole
    ends = [_place(end, labels, axis, timed=timed) for end in (since, until)]
    first, last = axis[0] if ends[0] is None else ends[0], axis[-1] if ends[1] is None else ends[1]
    return (axis >= first) & (axis <= last) if first < last else whole


def column_range(
    labels: Sequence[str], times: NDArray[np.float64], since: str | None, until: str | None
) -> slice:
    """Return the columns of the heat map in a saved range, as column-range.ts does; all if there are none.

    Parameters
    ----------
    labels : sequence of str
        Of the columns, in order.
    times : array of float
        Of the columns, in seconds since 1970 and in order; NaN for partitions without a time, which
        come last.
    since, until : str or None
        A date or a time of UTC, or the name of a partition without a time; both inclusive, a date as
        ``until`` with its whole day. None is the oldest or newest column.

    Examples
    --------
    >>> days = np.array([0.0, 86400.0, 90000.0, np.nan])
    >>> labels = ["1970-01-01", "1970-01-02", "1970-01-02 01:00", "batch=7"]
    >>> column_range(labels, days, "1970-01-02", "1970-01-02")
    slice(1, 3, None)
    >>> column_range(labels, days, None, "1970-01-02 00:00")
    slice(0, 2, None)
    >>> column_range(labels, days, "batch=7", None)
    slice(3, 4, None)
    """
    first, end = 0, len(labels)
    if since is not None and (time := _TIME.fullmatch(since)):
        late = np.flatnonzero(times >= _seconds(time))
        first = int(late[0]) if len(late) else end
    elif since is not None:
        first = labels.index(since) if since in labels else 0
    if until is not None and (time := _TIME.fullmatch(until)):
        last = _seconds(time)
        early = np.flatnonzero(times <= last if time[2] else times < last + _DAY)
        end = int(early[-1]) + 1 if len(early) else 0
    elif until is not None:
        end = labels.index(until) + 1 if until in labels else 0
    return slice(first, end) if first < end else slice(0, len(labels))


def _seconds(time: re.Match[str]) -> float:
    """Return a matched time in seconds since 1970; NaN if the calendar has none such."""
    try:
        return datetime.fromisoformat(f"{time[1]}T{time[2] or '00:00'}+00:00").timestamp()
    except ValueError:
        return np.nan


def _place(
    end: Any, labels: Sequence[str], axis: NDArray[np.float64], *, timed: bool
) -> float | None:
    """Return the place of a window's end on an axis; None if it has none. As `parsePlace` in timeseries.ts."""
    if isinstance(end, int | float):
        return float(end) if timed else None
    if not isinstance(end, str):
        return None
    if end in labels:
        return float(axis[labels.index(end)])
    try:
        time = datetime.fromisoformat(end)
    except ValueError:
        return None
    if not timed:
        return None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def alphabetical_ranks(texts: pd.Series) -> pd.Series:
    """Return each text's rank in alphabetical order, regardless of case; NaN for missing and empty texts.

    The page sorts by these ranks, so that it and the exported data have one order. Letters with accents
    follow those without. Texts that differ only by case have the same rank.

    Examples
    --------
    >>> import pandas as pd
    >>> alphabetical_ranks(pd.Series(["zip", "Ärzte", "", "Order", "apple", "order"])).tolist()
    [3.0, 1.0, nan, 2.0, 0.0, 2.0]
    """
    import pandas as pd

    keys = [
        unicodedata.normalize("NFKD", text.casefold()) if isinstance(text, str) else ""
        for text in texts
    ]
    ranks = {key: float(rank) for rank, key in enumerate(sorted(filter(None, set(keys))))}
    return pd.Series([ranks.get(key, np.nan) for key in keys], texts.index, np.float64)


def ordered(frame: pd.DataFrame, key: pd.Series, *, descending: bool) -> pd.DataFrame:
    """Return a frame sorted by a key; unknown keys come last either way, ties keep their order."""
    unknown = key.isna()
    known = key[~unknown].sort_values(ascending=not descending, kind="stable")
    return frame.loc[[*known.index, *key.index[unknown]]]


LONGEST = 200
"""Maximum number of characters of a name to send."""


@dataclass(frozen=True)
class Answer:
    """A response to one request of the script.

    Attributes
    ----------
    told : mapping
        The JSON part.
    arrays : mapping of str to array
        The binary part: unsigned bytes, 32-bit integers, floats of both sizes.
    """

    told: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def packed(self) -> tuple[dict[str, Any], list[bytes]]:
        """Return the JSON message, with name, type and shape of each buffer, and the buffers.

        Examples
        --------
        >>> Answer({"n": math.nan}, {"x": np.zeros((2, 3), np.uint8)}).packed()[0]
        {'told': {'n': None}, 'arrays': [['x', 'u1', [2, 3]]]}
        """
        little = {name: _little(array) for name, array in self.arrays.items()}
        heads = [[name, a.dtype.str[1:], list(a.shape)] for name, a in little.items()]
        return (
            {"told": plain(self.told), "arrays": heads},
            [a.tobytes() for a in little.values()],
        )


def _little(array: NDArray[Any]) -> NDArray[Any]:
    """Convert an array to little-endian, and 64-bit integers, which JavaScript lacks, to floats."""
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8:
        return array.astype("<f8")
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def plain(value: Any) -> Any:  # noqa: PLR0911 - one for each kind of value
    """Convert a value to JSON: NaN and infinity to null, numpy scalars to numbers, times to ISO 8601."""
    match value:
        case None | str() | bool():
            return value
        case Mapping():
            return {str(key): plain(one) for key, one in value.items()}
        case Iterable():
            return [plain(one) for one in value]
        case float() | np.floating():
            return float(value) if math.isfinite(value) else None
        case int() | np.integer():
            return int(value)
    if value != value:  # noqa: PLR0124 - pandas' not-a-time
        return None
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def seconds(time: datetime | None) -> float:
    """Convert a time to seconds since 1970; NaN if None."""
    return math.nan if time is None else time.timestamp()


def shown(text: str, most: int = LONGEST) -> str:
    """Truncate a text for display: names may be of any length.

    Examples
    --------
    >>> len(shown("x" * 10_000))
    200
    """
    return text if len(text) <= most else text[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"


def table(frame: pd.DataFrame, **told: Any) -> Answer:
    """Encode a frame by column: numbers and times (seconds since 1970) as arrays, all else as text."""
    texts: dict[str, list[str | None]] = {}
    arrays: dict[str, NDArray[Any]] = {}
    for name in map(str, frame.columns):
        column = frame[name]
        if column.dtype.kind == "M":
            naive = column.dt.tz_convert("UTC").dt.tz_localize(None)
            moments = naive.to_numpy("M8[ms]").astype(np.float64) / 1000
            arrays[name] = np.where(column.isna(), np.nan, moments)
        elif column.dtype.kind in "iufb":
            arrays[name] = column.to_numpy(np.float64, na_value=np.nan)
        else:
            missing = column.isna()
            texts[name] = [
                None if gone else shown(str(one)) for one, gone in zip(column, missing, strict=True)
            ]
    columns = list(map(str, frame.columns))
    return Answer({**told, "columns": columns, "rows": len(frame), "texts": texts}, arrays)


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
