"""Answers to the dashboard's script: filtered as the page is, packed, and exported.

The kernel sorts and the page lists: answers hold the order of rows by each column of the page, and an export has the
rows and columns that the page names. `Dashboard.data` needs no page, so the words of a search and windows of time are
applied here, too. An `Answer` is text as JSON and numbers as binary buffers. The data of what the dashboard shows are
exported as a table to read, as CSV, series as SVG.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegauge.analyzers.core.errors import HistoryError
from tidegauge.analyzers.core.formatting import number
from tidegauge.repository.history.heatmap import panorama
from tidegauge.repository.history.series import read_plot
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

    The page searches the same texts. Its names are truncated, except for those of tables.

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


def row_order(key: pd.Series, *, descending: bool) -> NDArray[np.int32]:
    """Return the order of rows by a key: numbers and times by value, texts alphabetically.

    The page lists rows in these orders and does not sort by itself. Unknown keys and empty texts come
    last either way, ties keep their order. Texts that differ only by case are ties; letters with accents
    follow those without.

    Examples
    --------
    >>> import pandas as pd
    >>> names = pd.Series(["zip", "Ärzte", "", "Order", "apple", "order"])
    >>> names[row_order(names, descending=False)].tolist()
    ['apple', 'Ärzte', 'Order', 'order', 'zip', '']
    >>> names[row_order(names, descending=True)].tolist()
    ['zip', 'Order', 'order', 'Ärzte', 'apple', '']
    """
    import pandas as pd

    if key.dtype.kind not in "iufbM":
        key = pd.Series([_alphabetical(text) for text in key], dtype=object)
    ranks, distinct = pd.factorize(key, sort=True)
    signed = -ranks if descending else ranks
    return np.argsort(np.where(ranks < 0, len(distinct), signed), kind="stable").astype(np.int32)


def _alphabetical(text: Any) -> str | None:
    """Return a text's alphabetical sort key; None for missing and empty texts."""
    return unicodedata.normalize("NFKD", text.casefold()) or None if isinstance(text, str) else None


def row_orders(
    names: Iterable[str], order: Callable[[str, bool], NDArray[np.int32]]
) -> dict[str, NDArray[np.int32]]:
    """Return the arrays of a table's orders: ``<name>_order``, and ``<name>_order_down`` descending.

    Parameters
    ----------
    names : iterable of str
        Columns of the page by which it can be sorted.
    order : callable
        Returns the order of rows by a column, descending or not.
    """
    return {
        f"{name}_order{suffix}": order(name, bool(suffix))
        for name in names
        for suffix in ("", "_down")
    }


def listed_rows(frame: pd.DataFrame, ids: Iterable[Any], rows: Sequence[Any]) -> pd.DataFrame:
    """Return the rows of a frame that the page lists, in its order; see `listed_places`.

    Examples
    --------
    >>> import pandas as pd
    >>> listed_rows(pd.DataFrame({"n": [1.5, 2.5]}), ["a", "b"], ["b"])["n"].tolist()
    [2.5]
    """
    return frame.iloc[listed_places(ids, rows)].reset_index(drop=True)


def listed_places(ids: Iterable[Any], rows: Sequence[Any]) -> list[int]:
    """Return the places of the rows that the page lists, in its order.

    Parameters
    ----------
    ids : iterable
        Ids of all rows, in order.
    rows : sequence
        Ids that the page lists.

    Raises
    ------
    HistoryError
        If there is no row of such an id.
    """
    place = {row_id: n for n, row_id in enumerate(ids)}
    unknown = [row for row in rows if row not in place]
    if unknown:
        more = f" and {len(unknown) - 1:,} more" if len(unknown) > 1 else ""
        msg = (
            f"Unknown row {unknown[0]!r}{more}: the repository changed since this page read it."
            " Reload the page and export again."
        )
        raise HistoryError(msg)
    return [place[row] for row in rows]


def listed_columns(labels: Sequence[str], ends: Sequence[str]) -> slice:
    """Return the columns that the page shows, from the label of the first to that of the last.

    Parameters
    ----------
    labels : sequence of str
        Of all columns, in order.
    ends : sequence of str
        First and last label; empty for no column.

    Raises
    ------
    HistoryError
        If there is no such column.

    Examples
    --------
    >>> listed_columns(["2013-01-01", "2013-01-02", "2013-01-03"], ["2013-01-02", "2013-01-03"])
    slice(1, 3, None)
    """
    if not ends:
        return slice(0, 0)
    names = [shown(label) for label in labels]
    first, last = (shown(ends[0]), shown(ends[-1]))
    for end in (first, last):
        if end not in names:
            msg = (
                f"Unknown column {end!r}: the repository changed since this page read it."
                " Reload the page and export again."
            )
            raise HistoryError(msg)
    return slice(names.index(first), names.index(last) + 1)


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
