"""Frames that show themselves in notebooks as compact tables. What is computed of them are plain frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd

from analyzers.display import (
    MARKS,
    MOST_COLUMNS,
    WIDE,
    Markup,
    Rows,
    card,
    marked,
    note,
    sentence,
    table,
)

_JUDGING = frozenset({"severity", "status", "direction", "last_status"})
_LONG = frozenset({"headline", "explanation", "error", "note"})
"""Columns of sentences, which are cut later than names."""


class _AsGood(type):
    """A plain frame is as good as one that shows itself, so that comparisons take one for the other."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, pd.DataFrame)


class Shown(pd.DataFrame, metaclass=_AsGood):
    """A result as a frame. It is a `pandas.DataFrame` in all but how a notebook shows it.

    Shown are at most 40 rows, the first and the last, without columns in which nothing stands; numbers with
    as many digits as people read, and severity, status and direction by words with a mark. Whatever is
    computed of it (a selection, a copy, a group) is a plain frame, which pandas shows as ever.
    """

    @property
    def _constructor(self) -> Callable[..., pd.DataFrame]:
        return pd.DataFrame

    def _repr_html_(self) -> str:
        return card(self._pieces)

    def _pieces(self, rows: int, most: int) -> Iterator[Markup]:
        empty = [column for column in self.columns if len(self) and _is_empty(self[column])]
        kept = [column for column in self.columns if column not in empty]
        half = rows // 2
        cut = len(self) > rows
        first = self.iloc[: half if cut else rows][kept]
        last = self.iloc[len(self) - half :][kept] if cut else self.iloc[:0][kept]
        columns = [str(column) for column in kept]
        lines = Rows(_lines(first, most), _lines(last, most), len(self) - len(first) - len(last))
        yield table(columns, lines, most)
        told = f"{len(self):,} row{'' if len(self) == 1 else 's'}"
        if empty:
            names = ", ".join(map(str, empty[:MOST_COLUMNS]))
            told += f"; nothing in {names}"
        yield note(told, 4 * most)


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
    if name in _JUDGING:
        return [marked(value) if value in MARKS else value for value in values]
    if name in _LONG and most >= WIDE:
        # Longer than a cell, and broken into lines.
        return [sentence(value) if isinstance(value, str) and value else None for value in values]
    return values
