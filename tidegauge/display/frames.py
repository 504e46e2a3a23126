"""Compact display of result frames in notebooks and terminals."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import isfinite, isnan
from typing import Any

import pandas as pd

from tidegauge.analyzers.core.formatting import WIDE, Markup, one_line, plural, signed_number
from tidegauge.display.html import (
    MARKS,
    MOST_COLUMNS,
    MOST_TITLE,
    Rows,
    card,
    cell,
    isolated,
    marked,
    table,
)

_JUDGING = frozenset({"severity", "status", "direction", "last_status", "worst"})
_LONG = frozenset({"headline", "explanation", "error", "note"})
"""Columns of sentences, which are truncated later than names."""
_LONGEST, _ENDS, _MOST_ROWS = 120, 36, 20
"""Maximum characters of a sentence and of an analyzer, and maximum rows."""
_SHORTEST, _READABLE = 36, 70
"""Characters of a sentence that a terminal shows at least, and before other columns behind it."""
_SERIES = ("name", "instance", "segment")
_FIRST = (
    *(*_SERIES, "analyzer", "partition", "value", "expected"),
    *("baseline", "current", "change", "relative", "surprise", "unusual", "anomaly"),
    *("severity", "status", "explanation", "incident_id"),
)
"""Columns of a series to show first, without scrolling, if present."""
_WORDS = {True: Markup("yes"), False: Markup("no")}
_INCIDENT = ("id", "dataset", "severity", "status", "headline")
_RUN = ("run_id", "dataset", "status", "measured", "failed", "error", "started_at")
_OVERVIEW = (
    *("dataset", "errors", "warnings", "failing", "status", "failed", "missing", "late"),
    *("newest", "rows"),
)


def render_frame(frame: pd.DataFrame) -> str:
    """Return a result as a compact HTML table.

    Shown are at most 20 rows, the first and the last, with the columns that matter most at the left. A
    column that is empty, or has one value in all of several rows, is named below the table. Numbers have
    as many digits as people read; severity, status and direction are words with a mark.
    """
    return card(lambda rows, width: _pieces(frame, rows, width))


def frame_text(frame: pd.DataFrame) -> str:
    """Return a result as text for a terminal, with the columns that matter at the left.

    Columns that are empty, or have one value in all of several rows, are named below, so that the others
    have room; so are those that do not fit beside them. Sentences take what room there is.
    """
    plain = pd.DataFrame(frame)
    if not len(plain) or not plain.columns.is_unique:
        return repr(plain)
    kept, same, empty = _told_apart(plain)
    if not kept:
        return repr(plain)
    shown, omitted = _fitting(plain[_ordered(kept, plain)])
    told = [f"{name}={one_line(str(plain[name].iloc[0]), _LONGEST)}" for name in same]
    notes = [f"all with {', '.join(told)}"] if told else []
    notes += [f"nothing in {', '.join(map(str, empty))}"] if empty else []
    notes += [f"no room for {', '.join(map(str, omitted))}"] if omitted else []
    notes += [f"{len(plain):,} rows"] if len(plain) > _most_rows(plain) else []
    return "\n".join([shown, *notes])


def _fitting(frame: pd.DataFrame) -> tuple[str, list[Any]]:
    """Return as many of the leading columns as text as fit into the terminal, and the other columns."""
    width = shutil.get_terminal_size().columns
    columns, some = list(frame.columns), _ends_of(frame)
    for end in range(len(columns), 0, -1):
        long = [name for name in columns[:end] if name in _LONG]
        others = _text(some[[name for name in columns[:end] if name not in long]], {})
        room = width - max(map(len, others.splitlines()), default=0)
        each = room // len(long) - 2 if long else 0  # columns are two apart
        # Columns behind a sentence make room for it first.
        enough = _SHORTEST if columns[end - 1] in long else _READABLE
        longest = max((some[name].astype(str).str.len().max() for name in long), default=0)
        if end == 1 or (each >= min(enough, longest) if long else room >= 0):
            break
    limits = dict.fromkeys(long, max(each, _SHORTEST))
    return _text(frame[columns[:end]], limits), columns[end:]


def _text(frame: pd.DataFrame, limits: Mapping[str, int]) -> str:
    """Return a frame as text, its first and last rows if they are many, sentences within their limits."""
    texts = {name: frame[name].astype(object).where(frame[name].notna(), "") for name in limits}
    frame = frame.assign(**texts)
    forms: dict[Any, Callable[[Any], str]] = {
        name: partial(_sentence, most=most) for name, most in limits.items()
    }
    some = _ends_of(frame)
    for name in frame.columns:
        if isinstance(frame[name].dtype, pd.DatetimeTZDtype):
            days = some[name].dropna()
            form = "%Y-%m-%d" if (days.dt.normalize() == days).all() else "%Y-%m-%d %H:%M"
            forms[name] = partial(_time, form=form)
    return frame.to_string(
        max_rows=_most_rows(frame),
        min_rows=pd.get_option("display.min_rows"),
        max_colwidth=2 + max([pd.get_option("display.max_colwidth") or WIDE, *limits.values()]),
        formatters=forms,
        show_dimensions=False,
    )


def _most_rows(frame: pd.DataFrame) -> int:
    """Return the maximum number of rows to show; all of them if pandas has no limit."""
    return int(pd.get_option("display.max_rows") or len(frame))


def _ends_of(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the first and the last rows, beside which no others are shown."""
    half = _most_rows(frame) // 2 + 1
    return frame if len(frame) <= 2 * half else pd.concat([frame.head(half), frame.tail(half)])


def _sentence(text: Any, most: int) -> str:
    return one_line(str(text), most)


def _time(time: Any, form: str) -> str:
    return "" if time is pd.NaT else str(time.strftime(form))


def _told_apart(frame: pd.DataFrame) -> tuple[list[Any], list[Any], list[Any]]:
    """Return the columns to show, those with one value in all of several rows, and the empty ones."""
    empty = [column for column in frame.columns if len(frame) and _is_empty(frame[column])]
    kept = [column for column in frame.columns if column not in empty]
    same = [column for column in kept if len(frame) > 1 and _is_same(frame[column])]
    if len(same) == len(kept):  # else nothing would be left of the table
        return kept, [], empty
    return [column for column in kept if column not in same], same, empty


def _pieces(frame: pd.DataFrame, rows: int, most: int) -> Iterator[Markup]:
    rows = min(rows, _MOST_ROWS)
    kept, same, empty = _told_apart(frame)
    half = rows // 2
    cut = len(frame) > rows
    first = frame.iloc[: half if cut else rows]
    last = frame.iloc[len(frame) - half :] if cut else frame.iloc[:0]
    kept = _ordered(kept, pd.concat([pd.DataFrame(first), pd.DataFrame(last)]))
    lines = Rows(
        _lines(first[kept], most), _lines(last[kept], most), len(frame) - len(first) - len(last)
    )
    yield table([str(column) for column in kept], lines, most)
    yield _below(frame, same, empty, most)


def _below(frame: pd.DataFrame, same: list[Any], empty: list[Any], most: int) -> Markup:
    """Return the number of rows, and the columns omitted as constant or empty."""
    told = [plural(len(frame), "row")]
    if same:
        values = [
            f"{isolated(column, most)} {cell(_cells(str(column), frame[column].iloc[:1], most)[0], most)}"
            for column in same[:MOST_COLUMNS]
        ]
        told.append(f"all with {', '.join(values)}")
    if empty:
        told.append(f"nothing in {', '.join(isolated(c, most) for c in empty[:MOST_COLUMNS])}")
    return Markup(f'<p class="note">{"; ".join(told)}</p>')


def _ordered(columns: list[Any], some: pd.DataFrame) -> list[Any]:
    """Return columns in display order, given the displayed rows."""
    wanted: tuple[str, ...] = ()
    if "headline" in columns:
        wanted = _INCIDENT
    elif {"failing", "errors"} <= set(columns):
        wanted = _OVERVIEW
    elif {"run_id", "measured"} <= set(columns):
        wanted = _RUN
    elif {"name", "analyzer"} <= set(some.columns):
        series = [column for column in _SERIES if column in some.columns]
        alike = some[series].drop_duplicates()
        apart = len(some[[*series, "analyzer"]].drop_duplicates()) > len(alike)
        # Analyzers are long, and only needed if series differ by no more than a filter or an option.
        wanted = _FIRST if apart else tuple(name for name in _FIRST if name != "analyzer")
    early = [name for name in wanted if name in columns]
    return [*early, *(column for column in columns if column not in early)]


def _is_same(column: pd.Series[Any]) -> bool:
    """Return whether all rows hold one value; the first rows are tested first, for speed."""
    if column.dtype != object:
        return all(
            bool(some.notna().all() and (some == some.iloc[0]).all())
            for some in (column.head(MOST_COLUMNS), column)
        )
    values = column.tolist()
    return isinstance(values[0], str) and all(value == values[0] for value in values)


def _is_empty(column: pd.Series[Any]) -> bool:
    """Return whether a column is empty; the first rows are tested first, for speed."""
    return all(
        bool((some.isna() | (some == "")).all() if some.dtype == object else some.isna().all())
        for some in (column.head(MOST_COLUMNS), column)
    )


def _lines(frame: pd.DataFrame, most: int) -> list[list[Any]]:
    columns = [_cells(str(name), frame[name], most) for name in frame.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def _cells(name: str, column: pd.Series[Any], most: int) -> list[Any]:
    if isinstance(column.dtype, pd.DatetimeTZDtype):
        days = bool((column.dropna().dt.normalize() == column.dropna()).all())
        form = "%Y-%m-%d" if days else "%Y-%m-%d %H:%M"
        return [None if time is pd.NaT else Markup(time.strftime(form)) for time in column]
    values = [None if value is pd.NA else value for value in column.tolist()]
    told = _FORMS.get(name) or (_WIDE_FORMS.get(name) if most >= WIDE else None) or _word
    return [told(value) for value in values]


def _word(value: Any) -> Any:
    return _WORDS[value] if isinstance(value, bool) else value


def _judged(value: Any) -> Any:
    return marked(value) if isinstance(value, str) and value in MARKS else value


def _line(value: Any) -> Any:
    text = isinstance(value, str) and value
    return isolated(one_line(value, MOST_TITLE), _LONGEST) if text else None


def _share(value: Any) -> Any:
    known = isinstance(value, float) and not isnan(value)
    return Markup(f"{signed_number(100 * value)} %") if known else None


def _ends(text: Any) -> Any:
    """Return the start and the end of an analyzer's text; its filter is at the end."""
    if not isinstance(text, str):
        return text
    return text if len(text) <= _ENDS else f"{text[:12]}…{text[13 - _ENDS :]}"


def _hours(seconds: Any) -> Markup | None:
    """Return a delay in its two largest units."""
    if not isinstance(seconds, int | float) or not isfinite(seconds):
        return None
    minutes = round(abs(seconds) / 60)
    days, hours = divmod(minutes // 60, 24)
    parts = {"d": days, "h": hours, "min": minutes % 60}
    told = " ".join([f"{n} {unit}" for unit, n in parts.items() if n][:2])
    return Markup(f"{'-' if seconds < 0 and told else ''}{told or '0 min'}")


_FORMS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(_JUDGING, _judged),
    "delay": _hours,
    "relative": _share,
}
_WIDE_FORMS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(_LONG, _line),
    "analyzer": _ends,
}
"""Formatters by column; in narrow cells long values are truncated like all others."""
