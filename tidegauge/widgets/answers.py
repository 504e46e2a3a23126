"""Answers to the dashboard's script: filtering, sorting, encoding and exports.

The kernel sorts the rows of a table, and the page displays them. Answers contain the order of rows
for each sortable column. An export contains the rows and columns that the page names. `Dashboard.data`
works without a page, so this module also applies search words and time windows.

An `Answer` has a JSON part and numbers as binary buffers. The data behind a view are exported as text
tables or CSV, and charts of series as SVG.
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
from tidegauge.repository.history.heatmap import panorama, time_label
from tidegauge.repository.history.series import STANDALONE_STYLE, read_plot, svg_of_plot
from tidegauge.repository.store.frames import spreadsheet
from tidegauge.repository.store.queries import MetricQuery, Window
from tidegauge.widgets import protocol

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from tidegauge.repository.repository import Repository
    from tidegauge.repository.store.queries import AsOf


EMPTY_MESSAGE = "The repository is empty: no metrics yet."
SECONDS_PER_DAY = 86400.0
_DATE_OR_TIME = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2}(?::\d{2})?))?")


def matches(columns: Iterable[Iterable[Any]], search: str | None) -> NDArray[np.bool_]:
    """Return a mask of the rows that contain all words of a search, ignoring case.

    The page searches the same strings. It receives truncated names, except for names of tables.

    Parameters
    ----------
    columns : iterable of iterable
        Searched columns. A word can occur in any of them.
    search : str or None
        Words separated by spaces. None or an empty string matches all rows.

    Examples
    --------
    >>> matches([["Orders", "visits"], ["ann", None]], "ORD an").tolist()
    [True, False]
    """
    words = (search or "").lower().split()
    rows = ("\n".join(str(cell) for cell in row).lower() for row in zip(*columns, strict=True))
    return np.array([all(word in row for word in words) for row in rows], np.bool_)


def in_window(
    labels: Sequence[str], times: NDArray[np.float64], since: Any, until: Any
) -> NDArray[np.bool_]:
    """Return a mask of the chart columns inside a window, both ends included.

    Parameters
    ----------
    labels : sequence of str
        Label of each column, in order.
    times : array of float
        Time of each column, in seconds since 1970. If any is NaN, columns are compared by position.
    since, until : float, str or None
        Ends of the window: seconds, a column's label, or an ISO 8601 time (UTC if it has no offset).
        None, or an end that is not on the axis, leaves the window open. If both ends are open, or if
        the first end is not before the last, all columns are inside, as in the chart.

    Examples
    --------
    >>> in_window(["a", "b", "c"], np.full(3, np.nan), "b", None).tolist()
    [False, True, True]
    """
    timed = bool(np.isfinite(times).all())
    axis = times if timed else np.arange(len(labels), dtype=np.float64)
    all_columns = np.ones(len(labels), np.bool_)
    if not len(axis):
        return all_columns
    ends = [_axis_position(end, labels, axis, timed=timed) for end in (since, until)]
    start, stop = axis[0] if ends[0] is None else ends[0], axis[-1] if ends[1] is None else ends[1]
    return (axis >= start) & (axis <= stop) if start < stop else all_columns


def column_range(
    labels: Sequence[str], times: NDArray[np.float64], since: str | None, until: str | None
) -> slice:
    """Return the heat map columns in a saved range, as column-range.ts does; all if none match.

    Parameters
    ----------
    labels : sequence of str
        Label of each column, in order.
    times : array of float
        Time of each column, in seconds since 1970 and ascending. Partitions without a time have NaN
        and come last.
    since, until : str or None
        A UTC date or time, or the name of a partition without a time. Both ends are inclusive, and a
        date as ``until`` includes its whole day. None is the oldest or newest column.

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
    start, stop = 0, len(labels)
    if since is not None and (time := _DATE_OR_TIME.fullmatch(since)):
        late = np.flatnonzero(times >= _seconds(time))
        start = int(late[0]) if len(late) else stop
    elif since is not None:
        start = labels.index(since) if since in labels else 0
    if until is not None and (time := _DATE_OR_TIME.fullmatch(until)):
        end = _seconds(time)
        early = np.flatnonzero(times <= end if time[2] else times < end + SECONDS_PER_DAY)
        stop = int(early[-1]) + 1 if len(early) else 0
    elif until is not None:
        stop = labels.index(until) + 1 if until in labels else 0
    return slice(start, stop) if start < stop else slice(0, len(labels))


def _seconds(time: re.Match[str]) -> float:
    """Return a matched time in seconds since 1970; NaN if the date does not exist."""
    try:
        return datetime.fromisoformat(f"{time[1]}T{time[2] or '00:00'}+00:00").timestamp()
    except ValueError:
        return np.nan


def _axis_position(
    end: Any, labels: Sequence[str], axis: NDArray[np.float64], *, timed: bool
) -> float | None:
    """Return the axis position of a window's end, as `parseWindowEnd` in timeseries.ts does.

    Parameters
    ----------
    end : float, str or None
        Seconds, a label or an ISO 8601 time.
    labels : sequence of str
        Label of each column.
    axis : array of float
        Position of each column: times in seconds, or indices.
    timed : bool
        Whether positions are times.

    Returns
    -------
    float or None
        None if the end is not on the axis.
    """
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
    """Return the order of rows by a key: numbers and times by value, strings alphabetically.

    The page displays rows in this order and does not sort them itself. Missing keys and empty strings
    come last in both directions, and ties keep their order. Strings that differ only by case are
    ties. Accented letters follow the same letters without accents.

    Parameters
    ----------
    key : Series
        Sort key of each row.
    descending : bool
        If true, the largest keys come first.

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
        key = pd.Series([_alphabetical_key(value) for value in key], dtype=object)
    ranks, distinct = pd.factorize(key, sort=True)
    signed = -ranks if descending else ranks
    return np.argsort(np.where(ranks < 0, len(distinct), signed), kind="stable").astype(np.int32)


def _alphabetical_key(value: Any) -> str | None:
    """Return the alphabetical sort key of a string; None for missing and empty strings."""
    return (
        unicodedata.normalize("NFKD", value.casefold()) or None if isinstance(value, str) else None
    )


def row_orders(
    names: Iterable[str], order: Callable[[str, bool], NDArray[np.int32]]
) -> dict[str, NDArray[np.int32]]:
    """Return a table's row orders: ``<name>_order``, and ``<name>_order_down`` for descending.

    Parameters
    ----------
    names : iterable of str
        Sortable columns of the page.
    order : callable
        Returns the order of rows by a column, ascending or descending.
    """
    return {
        f"{name}_order{suffix}": order(name, bool(suffix))
        for name in names
        for suffix in ("", "_down")
    }


def listed_rows(frame: pd.DataFrame, ids: Iterable[Any], rows: Sequence[Any]) -> pd.DataFrame:
    """Return the rows of a frame that the page displays, in the page's order.

    Parameters
    ----------
    frame : DataFrame
        All rows.
    ids : iterable
        Id of each row of the frame.
    rows : sequence
        Ids of the displayed rows; see `listed_positions`.

    Examples
    --------
    >>> import pandas as pd
    >>> listed_rows(pd.DataFrame({"n": [1.5, 2.5]}), ["a", "b"], ["b"])["n"].tolist()
    [2.5]
    """
    return frame.iloc[listed_positions(ids, rows)].reset_index(drop=True)


def listed_positions(ids: Iterable[Any], rows: Sequence[Any]) -> list[int]:
    """Return the positions of the rows that the page displays, in the page's order.

    Parameters
    ----------
    ids : iterable
        Ids of all rows, in order.
    rows : sequence
        Ids of the displayed rows.

    Raises
    ------
    HistoryError
        If a displayed row no longer exists.
    """
    position_by_id = {row_id: n for n, row_id in enumerate(ids)}
    unknown = [row for row in rows if row not in position_by_id]
    if unknown:
        suffix = f" and {len(unknown) - 1:,} more" if len(unknown) > 1 else ""
        msg = (
            f"Unknown row {unknown[0]!r}{suffix}: the repository changed since this page read it."
            " Reload the page and export again."
        )
        raise HistoryError(msg)
    return [position_by_id[row] for row in rows]


def listed_columns(labels: Sequence[str], ends: Sequence[str]) -> slice:
    """Return the range of columns that the page displays.

    Parameters
    ----------
    labels : sequence of str
        Labels of all columns, in order.
    ends : sequence of str
        First and last displayed label; empty if no column is displayed.

    Raises
    ------
    HistoryError
        If a displayed column no longer exists.

    Examples
    --------
    >>> listed_columns(["2013-01-01", "2013-01-02", "2013-01-03"], ["2013-01-02", "2013-01-03"])
    slice(1, 3, None)
    """
    if not ends:
        return slice(0, 0)
    names = [truncate(label) for label in labels]
    first, last = (truncate(ends[0]), truncate(ends[-1]))
    for end in (first, last):
        if end not in names:
            msg = (
                f"Unknown column {end!r}: the repository changed since this page read it."
                " Reload the page and export again."
            )
            raise HistoryError(msg)
    return slice(names.index(first), names.index(last) + 1)


MAX_NAME_LENGTH = 200
"""Maximum number of characters of a name in an answer."""


@dataclass(frozen=True)
class Answer:
    """Answer to one request of the script.

    Attributes
    ----------
    payload : mapping
        JSON part.
    arrays : mapping of str to array
        Binary part: unsigned bytes, 32-bit integers, and 32-bit or 64-bit floats.
    """

    payload: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def packed(self) -> tuple[dict[str, Any], list[bytes]]:
        """Return the JSON message, with name, type and shape of each buffer, and the buffers.

        Examples
        --------
        >>> Answer({"n": math.nan}, {"x": np.zeros((2, 3), np.uint8)}).packed()[0]
        {'payload': {'n': None}, 'arrays': [['x', 'u1', [2, 3]]]}
        """
        encoded = {name: _little_endian(array) for name, array in self.arrays.items()}
        headers = [[name, a.dtype.str[1:], list(a.shape)] for name, a in encoded.items()]
        return (
            {"payload": plain(self.payload), "arrays": headers},
            [a.tobytes() for a in encoded.values()],
        )


def _little_endian(array: NDArray[Any]) -> NDArray[Any]:
    """Convert an array to little-endian, and 64-bit integers, which JavaScript lacks, to floats."""
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8:
        return array.astype("<f8")
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def plain(value: Any) -> Any:  # noqa: PLR0911 - one return for each type
    """Convert a value to JSON: NaN and infinity to null, numpy scalars to numbers, times to ISO 8601.

    Parameters
    ----------
    value : object
        Scalar, mapping or iterable. Nested values are converted as well.
    """
    match value:
        case None | str() | bool():
            return value
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case Iterable():
            return [plain(item) for item in value]
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


def truncate(string: str, max_length: int = MAX_NAME_LENGTH) -> str:
    """Truncate a string for display, because names can have any length.

    Parameters
    ----------
    string : str
    max_length : int
        Maximum number of characters, including the ellipsis.

    Examples
    --------
    >>> len(truncate("x" * 10_000))
    200
    """
    return (
        string
        if len(string) <= max_length
        else string[: max_length - 1] + "\N{HORIZONTAL ELLIPSIS}"
    )


def table(frame: pd.DataFrame, **payload: Any) -> Answer:
    """Encode a frame by column: numbers and times as arrays, other columns as strings.

    Parameters
    ----------
    frame : DataFrame
        Times are encoded in seconds since 1970.
    **payload
        Further entries of the JSON part.
    """
    strings: dict[str, list[str | None]] = {}
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
            strings[name] = [
                None if is_missing else truncate(str(value))
                for value, is_missing in zip(column, missing, strict=True)
            ]
    columns = list(map(str, frame.columns))
    return Answer({**payload, "columns": columns, "rows": len(frame), "strings": strings}, arrays)


MAX_CSV_CELLS = 2_000_000
"""Maximum number of cells of a CSV file for download; `Dashboard.data` has no limit."""

MAX_TABLE_ROWS, MAX_TABLE_COLUMNS = 500, 40
"""Maximum number of rows and of columns of a text table."""


def data(frames: Mapping[str, pd.DataFrame]) -> Answer:
    """Return a view's data as text tables by title, for users who cannot see the picture.

    Each table has its first rows and last columns. Times are in UTC; missing values are None.

    Parameters
    ----------
    frames : mapping of str to DataFrame
        Data by title.

    Examples
    --------
    >>> import pandas as pd
    >>> points = pd.DataFrame({"value": [1234.5, None], "id": [1001, 7], "late": [True, False]})
    >>> data({"Points": points}).payload["tables"][0]["cells"]
    [['1,234', '1001', 'yes'], [None, '7', 'no']]
    """
    payload: protocol.DataAnswer = {
        "tables": [_frame_as_text(title, frame) for title, frame in frames.items()]
    }
    return Answer(payload)


def _frame_as_text(title: str, frame: pd.DataFrame) -> protocol.TextTable:
    """Return the first rows and last columns of a frame as text, named index levels included."""
    excerpt = _with_labels(frame.iloc[:MAX_TABLE_ROWS, -MAX_TABLE_COLUMNS:])
    if any(name is not None for name in frame.index.names):
        excerpt = excerpt.reset_index()
    columns = [excerpt.iloc[:, n].tolist() for n in range(excerpt.shape[1])]
    cells = text_table(title, map(str, excerpt.columns), zip(*columns, strict=True))
    return {**cells, "rows": len(frame), "omitted": max(0, frame.shape[1] - MAX_TABLE_COLUMNS)}


def _with_labels(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame whose columns of times have the labels of the page."""
    if frame.columns.dtype.kind != "M":
        return frame
    return frame.set_axis([time_label(time) for time in frame.columns], axis=1)


def text_table(
    title: str, columns: Iterable[str], rows: Iterable[Sequence[Any]]
) -> protocol.TextTable:
    """Return the first `MAX_TABLE_ROWS` rows of a table as text.

    Parameters
    ----------
    title : str
    columns : iterable of str
        Names of the columns.
    rows : iterable of sequence
        Values by row.
    """
    all_rows = list(rows)
    return {
        "title": title,
        "columns": [truncate(name) for name in columns],
        "cells": [[_format_cell(value) for value in row] for row in all_rows[:MAX_TABLE_ROWS]],
        "rows": len(all_rows),
        "omitted": 0,
    }


def _format_cell(value: Any) -> str | None:
    """Format a value for a text table; None if it is missing or an empty string."""
    import pandas as pd

    if pd.api.types.is_scalar(value) and pd.isna(value):
        return None
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return number(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M")
    return truncate(str(value)) or None


def csv(frame: pd.DataFrame, view: str) -> Answer:
    """Return a view's data as CSV.

    Parameters
    ----------
    frame : DataFrame
        The data, with named index levels as columns.
    view : str
        Name of the view, for the error message.

    Raises
    ------
    HistoryError
        If the data are too large for a page. `Dashboard.data` has no limit.
    """
    if frame.size > MAX_CSV_CELLS:
        msg = (
            f"Cannot download {frame.size:,} cells; the limit is {MAX_CSV_CELLS:,}. Choose one table,"
            f" or use Dashboard(repo, view={view!r}).data in Python."
        )
        raise HistoryError(msg)
    labelled = any(name is not None for name in frame.index.names)
    frame = _with_labels(frame)
    cells = spreadsheet(frame.reset_index() if labelled else frame)
    payload: protocol.TextAnswer = {"content": cells.to_csv(index=False)}
    return Answer(payload)


def svg(repository: Repository, params: Mapping[str, Any], as_of: AsOf = None) -> Answer:
    """Return the chart of series of one table in a window as an SVG file.

    Parameters
    ----------
    repository : Repository
    params : mapping
        Parameters of the request, as `protocol.SvgQuestion`.
    as_of : str, date, datetime or int, optional
        Time or run id of an earlier state of the repository.

    Raises
    ------
    HistoryError
        If the request has no known series, more series than `Repository.plot` draws, or series of
        several tables.
    """
    ids = [int(series_id) for series_id in params.get("ids", ())]
    with repository.database.read() as connection:
        heatmap = panorama(connection, as_of)
        rows = [row for row in range(heatmap.shape[0]) if int(heatmap.series[row]) in set(ids)]
        datasets = sorted({heatmap.dataset.word(row) for row in rows})
        if len(datasets) != 1:
            msg = "An SVG file shows series of one table. Choose one or more series of the same table."
            raise HistoryError(msg)
        window = Window(_to_datetime(params.get("since")), _to_datetime(params.get("until")))
        plot = read_plot(connection, datasets[0], MetricQuery(series=ids, window=window), as_of)
    payload: protocol.TextAnswer = {
        "content": svg_of_plot(plot).replace(">", f">{STANDALONE_STYLE}", 1)
    }
    return Answer(payload)


def _to_datetime(seconds: Any) -> datetime | None:
    """Convert seconds since 1970 to a time; None if the value is not a number."""
    return datetime.fromtimestamp(seconds, UTC) if isinstance(seconds, int | float) else None
