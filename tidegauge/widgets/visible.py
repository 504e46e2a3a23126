"""Filters of the page applied to a view's data: words of a search, a window of time, an order of rows."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

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
