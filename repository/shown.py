"""Frames that show themselves in notebooks as compact tables. What is computed of them are plain frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import isfinite, isnan
from typing import Any

import pandas as pd

from analyzers.display import (
    MARKS,
    MOST_COLUMNS,
    WIDE,
    Markup,
    Rows,
    card,
    cell,
    isolated,
    marked,
    one_line,
    table,
)

_JUDGING = frozenset({"severity", "status", "direction", "last_status", "worst"})
_LONG = frozenset({"headline", "explanation", "error", "note"})
"""Columns of sentences, which are cut later than names."""
_LONGEST, _ENDS, _MOST_ROWS = 80, 36, 20
"""Characters of a sentence and of an analyzer, and rows, at most."""
_SERIES = ("name", "instance", "segment")
_FIRST = (
    *(*_SERIES, "analyzer", "partition", "value", "expected"),
    *("baseline", "current", "change", "relative", "surprise", "unusual"),
    *("severity", "status", "explanation", "incident_id"),
)
"""What of a series is to be seen without scrolling, if it is there."""
_WORDS = {True: Markup("yes"), False: Markup("no")}
_INCIDENT = ("id", "severity", "status", "headline")


class _AsGood(type):
    """A plain frame is as good as one that shows itself, so that comparisons take one for the other."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, pd.DataFrame)


class Shown(pd.DataFrame, metaclass=_AsGood):
    """A result as a frame. It is a `pandas.DataFrame` in all but how a notebook shows it.

    Shown are at most 20 rows, the first and the last, and what matters most at the left. A column in which
    nothing stands, or the same in all of several rows, is told below the table. Numbers have as many digits
    as people read; severity, status and direction are words with a mark. Whatever is
    computed of it (a selection, a copy, a group) is a plain frame, which pandas shows as ever.
    """

    @property
    def _constructor(self) -> Callable[..., pd.DataFrame]:
        return pd.DataFrame

    def _repr_html_(self) -> str:
        return card(self._pieces)

    def _pieces(self, rows: int, most: int) -> Iterator[Markup]:
        rows = min(rows, _MOST_ROWS)
        empty = [column for column in self.columns if len(self) and _is_empty(self[column])]
        kept = [column for column in self.columns if column not in empty]
        same = [column for column in kept if len(self) > 1 and _is_same(self[column])]
        if len(same) < len(kept):  # else nothing would be left of the table
            kept = [column for column in kept if column not in same]
        else:
            same = []
        half = rows // 2
        cut = len(self) > rows
        first = self.iloc[: half if cut else rows]
        last = self.iloc[len(self) - half :] if cut else self.iloc[:0]
        kept = _ordered(kept, pd.concat([pd.DataFrame(first), pd.DataFrame(last)]))
        lines = Rows(
            _lines(first[kept], most), _lines(last[kept], most), len(self) - len(first) - len(last)
        )
        yield table([str(column) for column in kept], lines, most)
        yield _below(self, same, empty, most)


def _below(frame: Shown, same: list[Any], empty: list[Any], most: int) -> Markup:
    """Return how many rows there are, and what need not be a column."""
    told = [f"{len(frame):,} row{'' if len(frame) == 1 else 's'}"]
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
    """Return columns in the order in which they are shown, for the rows that are."""
    wanted: tuple[str, ...] = ()
    if "headline" in columns:
        wanted = _INCIDENT
    elif {"name", "analyzer"} <= set(some.columns):
        series = [column for column in _SERIES if column in some.columns]
        alike = some[series].drop_duplicates()
        apart = len(some[[*series, "analyzer"]].drop_duplicates()) > len(alike)
        # An analyzer is long; it tells series apart only where they differ by a filter or an option.
        wanted = _FIRST if apart else tuple(name for name in _FIRST if name != "analyzer")
    early = [name for name in wanted if name in columns]
    return [*early, *(column for column in columns if column not in early)]


def _is_same(column: pd.Series[Any]) -> bool:
    """Whether one value stands in all rows; looked for where the first rows are alike already."""
    if column.dtype != object:
        return all(
            bool(some.notna().all() and (some == some.iloc[0]).all())
            for some in (column.head(MOST_COLUMNS), column)
        )
    values = column.tolist()
    return isinstance(values[0], str) and all(value == values[0] for value in values)


def _is_empty(column: pd.Series[Any]) -> bool:
    """Whether nothing stands in a column; looked for where the first rows are empty already."""
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
    return isolated(one_line(value, _LONGEST), _LONGEST) if text else None


def _share(value: Any) -> Any:
    known = isinstance(value, float) and not isnan(value)
    return Markup(f"{100 * value:+.3g} %") if known else None


def _ends(text: Any) -> Any:
    """Return the beginning and the end of an analyzer, where its filter stands."""
    if not isinstance(text, str):
        return text
    return text if len(text) <= _ENDS else f"{text[:12]}…{text[13 - _ENDS :]}"


def _hours(seconds: Any) -> Markup | None:
    """Return a delay as people say it, by its two largest units."""
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
"""How values of some columns are written; in narrow cells long ones are cut as all others."""
