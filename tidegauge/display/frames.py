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
    MAX_COLUMNS,
    MAX_TOOLTIP_LENGTH,
    STATUS_MARKS,
    Rows,
    card,
    cell,
    isolated,
    marked,
    table,
)

_STATUS_COLUMNS = frozenset({"severity", "status", "direction", "last_status", "worst"})
_SENTENCE_COLUMNS = frozenset({"headline", "explanation", "error", "note"})
"""Columns of sentences, whose maximum length is longer than that for names."""
_MAX_SENTENCE_LENGTH = 120
_MAX_ANALYZER_LENGTH = 36
_MAX_HTML_ROWS = 20
_MIN_SENTENCE_WIDTH = 36
"""Minimum characters of a sentence in a terminal."""
_READABLE_SENTENCE_WIDTH = 70
"""Minimum characters of a sentence in a terminal if further columns follow it."""
_SERIES_COLUMNS = ("name", "instance", "segment")
_LEADING_COLUMNS = (
    *(*_SERIES_COLUMNS, "analyzer", "partition", "value", "expected"),
    *("old", "new", "baseline", "current", "change", "relative", "surprise", "unusual", "anomaly"),
    *("severity", "status", "explanation", "incident_id"),
)
"""Columns of a series that are shown first, so that they are visible without scrolling."""
_BOOLEAN_WORDS = {True: Markup("yes"), False: Markup("no")}
_INCIDENT_COLUMNS = ("id", "dataset", "severity", "status", "headline")
_RUN_COLUMNS = ("run_id", "dataset", "status", "measured", "failed", "error", "started_at")
_OVERVIEW_COLUMNS = (
    *("dataset", "errors", "warnings", "failing", "status", "failed", "missing", "late"),
    *("newest", "rows"),
)


def render_frame(frame: pd.DataFrame) -> str:
    """Return a result as a compact HTML table.

    The table has at most 20 rows, the first and the last, with the most important columns at the left.
    Columns that are empty or constant are listed below the table. Numbers are rounded to a readable number
    of digits. Severity, status and direction are words with a symbol.
    """
    return card(lambda rows, width: _render_parts(frame, rows, width))


def frame_text(frame: pd.DataFrame) -> str:
    """Return a result as text for a terminal, with the most important columns at the left.

    Columns that are empty or constant are listed below the table, as are columns that do not fit the
    terminal. Sentences share the remaining width.
    """
    plain = pd.DataFrame(frame)
    if not len(plain) or not plain.columns.is_unique:
        return repr(plain)
    varying, constant, empty = _classify_columns(plain)
    if not varying:
        return repr(plain)
    table_text, omitted = _fit_columns(plain[_in_display_order(varying, plain)])
    constants = [
        f"{name}={one_line(str(plain[name].iloc[0]), _MAX_SENTENCE_LENGTH)}" for name in constant
    ]
    notes = [f"constant: {', '.join(constants)}"] if constants else []
    notes += [f"empty: {', '.join(map(str, empty))}"] if empty else []
    notes += [f"hidden: {', '.join(map(str, omitted))}"] if omitted else []
    notes += [f"{len(plain):,} rows"] if len(plain) > _max_rows(plain) else []
    return "\n".join([table_text, *notes])


def _fit_columns(frame: pd.DataFrame) -> tuple[str, list[Any]]:
    """Return the text of the leading columns that fit the terminal, and the names of the other columns."""
    width = shutil.get_terminal_size().columns
    columns, visible_rows = list(frame.columns), _first_and_last_rows(frame)
    for end in range(len(columns), 0, -1):
        sentences = [name for name in columns[:end] if name in _SENTENCE_COLUMNS]
        other_text = _to_text(
            visible_rows[[name for name in columns[:end] if name not in sentences]], {}
        )
        room = width - max(map(len, other_text.splitlines()), default=0)
        # Sentences share the room that the other columns leave; two blanks separate columns.
        sentence_width = room // len(sentences) - 2 if sentences else 0
        # Columns after a sentence are omitted before the sentence becomes hard to read.
        min_width = (
            _MIN_SENTENCE_WIDTH if columns[end - 1] in sentences else _READABLE_SENTENCE_WIDTH
        )
        longest = max(
            (visible_rows[name].astype(str).str.len().max() for name in sentences), default=0
        )
        if end == 1 or (sentence_width >= min(min_width, longest) if sentences else room >= 0):
            break
    limits = dict.fromkeys(sentences, max(sentence_width, _MIN_SENTENCE_WIDTH))
    return _to_text(frame[columns[:end]], limits), columns[end:]


def _to_text(frame: pd.DataFrame, limits: Mapping[str, int]) -> str:
    """Return a frame as text; if it has many rows, only the first and the last.

    Parameters
    ----------
    frame : DataFrame
    limits : mapping of str to int
        Maximum characters of the values of columns of sentences.
    """
    sentence_values = {
        name: frame[name].astype(object).where(frame[name].notna(), "") for name in limits
    }
    frame = frame.assign(**sentence_values)
    formatters: dict[Any, Callable[[Any], str]] = {
        name: partial(_truncate, max_length=max_length) for name, max_length in limits.items()
    }
    visible_rows = _first_and_last_rows(frame)
    for name in frame.columns:
        if isinstance(frame[name].dtype, pd.DatetimeTZDtype):
            days = visible_rows[name].dropna()
            time_format = "%Y-%m-%d" if (days.dt.normalize() == days).all() else "%Y-%m-%d %H:%M"
            formatters[name] = partial(_format_time, time_format=time_format)
    return frame.to_string(
        max_rows=_max_rows(frame),
        min_rows=pd.get_option("display.min_rows"),
        max_colwidth=2 + max([pd.get_option("display.max_colwidth") or WIDE, *limits.values()]),
        formatters=formatters,
        show_dimensions=False,
    )


def _max_rows(frame: pd.DataFrame) -> int:
    """Return the maximum number of rows to show; all of them if pandas has no limit."""
    return int(pd.get_option("display.max_rows") or len(frame))


def _first_and_last_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the first and the last rows, which include all rows that pandas prints."""
    half = _max_rows(frame) // 2 + 1
    return frame if len(frame) <= 2 * half else pd.concat([frame.head(half), frame.tail(half)])


def _truncate(value: Any, max_length: int) -> str:
    return one_line(str(value), max_length)


def _format_time(time: Any, time_format: str) -> str:
    return "" if time is pd.NaT else str(time.strftime(time_format))


def _classify_columns(frame: pd.DataFrame) -> tuple[list[Any], list[Any], list[Any]]:
    """Return the columns to show, the constant columns, and the empty columns.

    If all columns are constant, they are shown.
    """
    empty = [column for column in frame.columns if len(frame) and _is_empty(frame[column])]
    filled = [column for column in frame.columns if column not in empty]
    constant = [column for column in filled if len(frame) > 1 and _is_constant(frame[column])]
    if len(constant) == len(filled):
        return filled, [], empty
    return [column for column in filled if column not in constant], constant, empty


def _render_parts(frame: pd.DataFrame, max_rows: int, max_length: int) -> Iterator[Markup]:
    max_rows = min(max_rows, _MAX_HTML_ROWS)
    varying, constant, empty = _classify_columns(frame)
    half = max_rows // 2
    is_truncated = len(frame) > max_rows
    first_rows = frame.iloc[: half if is_truncated else max_rows]
    last_rows = frame.iloc[len(frame) - half :] if is_truncated else frame.iloc[:0]
    varying = _in_display_order(
        varying, pd.concat([pd.DataFrame(first_rows), pd.DataFrame(last_rows)])
    )
    lines = Rows(
        _table_rows(first_rows[varying], max_length),
        _table_rows(last_rows[varying], max_length),
        len(frame) - len(first_rows) - len(last_rows),
    )
    yield table([str(column) for column in varying], lines, max_length)
    yield _render_footer(frame, constant, empty, max_length)


def _render_footer(
    frame: pd.DataFrame, constant: list[Any], empty: list[Any], max_length: int
) -> Markup:
    """Return the note below a table: the number of rows, and the constant and empty columns."""
    phrases = [plural(len(frame), "row")]
    if constant:
        values = [
            f"{isolated(column, max_length)} {cell(_column_cells(str(column), frame[column].iloc[:1], max_length)[0], max_length)}"
            for column in constant[:MAX_COLUMNS]
        ]
        phrases.append(f"constant: {', '.join(values)}")
    if empty:
        phrases.append(f"empty: {', '.join(isolated(c, max_length) for c in empty[:MAX_COLUMNS])}")
    return Markup(f'<p class="note">{"; ".join(phrases)}</p>')


def _in_display_order(columns: list[Any], visible_rows: pd.DataFrame) -> list[Any]:
    """Return columns in display order; ``visible_rows`` decide whether analyzers are needed to distinguish series."""
    leading: tuple[str, ...] = ()
    if "headline" in columns:
        leading = _INCIDENT_COLUMNS
    elif {"failing", "errors"} <= set(columns):
        leading = _OVERVIEW_COLUMNS
    elif {"run_id", "measured"} <= set(columns):
        leading = _RUN_COLUMNS
    elif {"name", "analyzer"} <= set(visible_rows.columns):
        series = [column for column in _SERIES_COLUMNS if column in visible_rows.columns]
        distinct_series = visible_rows[series].drop_duplicates()
        needs_analyzer = len(visible_rows[[*series, "analyzer"]].drop_duplicates()) > len(
            distinct_series
        )
        # Analyzers are long. They are needed only if series differ in a filter or an option alone.
        leading = (
            _LEADING_COLUMNS
            if needs_analyzer
            else tuple(name for name in _LEADING_COLUMNS if name != "analyzer")
        )
    early = [name for name in leading if name in columns]
    return [*early, *(column for column in columns if column not in early)]


def _is_constant(column: pd.Series[Any]) -> bool:
    """Return whether all rows have the same value; the first rows are tested first, for speed."""
    if column.dtype != object:
        return all(
            bool(sample.notna().all() and (sample == sample.iloc[0]).all())
            for sample in (column.head(MAX_COLUMNS), column)
        )
    values = column.tolist()
    return isinstance(values[0], str) and all(value == values[0] for value in values)


def _is_empty(column: pd.Series[Any]) -> bool:
    """Return whether a column is empty; the first rows are tested first, for speed."""
    return all(
        bool(
            (sample.isna() | (sample == "")).all()
            if sample.dtype == object
            else sample.isna().all()
        )
        for sample in (column.head(MAX_COLUMNS), column)
    )


def _table_rows(frame: pd.DataFrame, max_length: int) -> list[list[Any]]:
    columns = [_column_cells(str(name), frame[name], max_length) for name in frame.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def _column_cells(name: str, column: pd.Series[Any], max_length: int) -> list[Any]:
    if isinstance(column.dtype, pd.DatetimeTZDtype):
        days = bool((column.dropna().dt.normalize() == column.dropna()).all())
        time_format = "%Y-%m-%d" if days else "%Y-%m-%d %H:%M"
        return [None if time is pd.NaT else Markup(time.strftime(time_format)) for time in column]
    values = [None if value is pd.NA else value for value in column.tolist()]
    format_value = (
        _FORMATTERS.get(name)
        or (_WIDE_FORMATTERS.get(name) if max_length >= WIDE else None)
        or _format_boolean
    )
    return [format_value(value) for value in values]


def _format_boolean(value: Any) -> Any:
    return _BOOLEAN_WORDS[value] if isinstance(value, bool) else value


def _mark_status(value: Any) -> Any:
    return marked(value) if isinstance(value, str) and value in STATUS_MARKS else value


def _format_sentence(value: Any) -> Any:
    has_text = isinstance(value, str) and value
    return isolated(one_line(value, MAX_TOOLTIP_LENGTH), _MAX_SENTENCE_LENGTH) if has_text else None


def _format_share(value: Any) -> Any:
    is_number = isinstance(value, float) and not isnan(value)
    return Markup(f"{signed_number(100 * value)}%") if is_number else None


def _shorten_analyzer(analyzer: Any) -> Any:
    """Shorten an analyzer in the middle, so that the filter at its end stays visible."""
    if not isinstance(analyzer, str):
        return analyzer
    return (
        analyzer
        if len(analyzer) <= _MAX_ANALYZER_LENGTH
        else f"{analyzer[:12]}…{analyzer[13 - _MAX_ANALYZER_LENGTH :]}"
    )


def _format_delay(seconds: Any) -> Markup | None:
    """Return a delay of some seconds in its two largest units."""
    if not isinstance(seconds, int | float) or not isfinite(seconds):
        return None
    minutes = round(abs(seconds) / 60)
    days, hours = divmod(minutes // 60, 24)
    parts = {"d": days, "h": hours, "min": minutes % 60}
    delay = " ".join([f"{n} {unit}" for unit, n in parts.items() if n][:2])
    return Markup(f"{'-' if seconds < 0 and delay else ''}{delay or '0 min'}")


_FORMATTERS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(_STATUS_COLUMNS, _mark_status),
    "delay": _format_delay,
    "relative": _format_share,
}
_WIDE_FORMATTERS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(_SENTENCE_COLUMNS, _format_sentence),
    "analyzer": _shorten_analyzer,
}
"""Formatters of columns in cells of full width. Narrow cells truncate all values alike."""
