"""Print frames as a table, as CSV or as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from math import isfinite
from numbers import Number
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TextIO, cast

from tidegauge.analyzers.core.formatting import for_terminal
from tidegauge.repository.store.frames import Columns, frame_of, records, spreadsheet

if TYPE_CHECKING:
    import pandas as pd


class Format(StrEnum):
    """An output format."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


class ResultFormat(StrEnum):
    """A format for the results of a run or of checks."""

    TEXT = "text"
    JSON = "json"
    JUNIT = "junit"


class SafeTerminal:
    """Standard output that control characters in names and values do not reach; see `for_terminal`.

    What is piped is read on a terminal in the end, too: by a pager, or in the log of a job.
    """

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal

    def write(self, text: str) -> int:
        """Write text with control characters escaped."""
        return self._terminal.write(for_terminal(text))

    def writelines(self, lines: Iterable[str]) -> None:
        """Write lines with control characters escaped."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._terminal, name)

    def for_data(self) -> TextIO:
        """Return the stream for data: a pipe or a file gets them as they are, a terminal gets them escaped."""
        return cast("TextIO", self) if self._terminal.isatty() else self._terminal


def data_output() -> TextIO:
    """Return standard output for data that programs read, such as CSV; see `SafeTerminal.for_data`."""
    return sys.stdout.for_data() if isinstance(sys.stdout, SafeTerminal) else sys.stdout


def print_rows(
    rows: Sequence[Mapping[Any, Any]],
    columns: Columns,
    form: Format = Format.TABLE,
    shown: Sequence[str] | None = None,
    titles: Mapping[str, str] | None = None,
) -> None:
    """Print rows; a table shows only the named columns, and is printed without importing pandas.

    Parameters
    ----------
    rows : sequence of mapping
    columns : mapping of str to Kind
        The columns of the rows in order, as `frame_of` takes them.
    form : Format
    shown : sequence of str, optional
        The columns of a table; default: all.
    titles : mapping of str to str, optional
        Headings of a table's columns, where they are other than their names.
    """
    if form is Format.TABLE:
        _print_table(rows, shown or list(columns), titles or {})
    else:
        print_frame(frame_of(rows, columns), form)


def print_frame(frame: pd.DataFrame, form: Format, columns: list[str] | None = None) -> None:
    """Print a frame; a table shows only the named columns, the other formats show all."""
    match form:
        case Format.CSV:
            spreadsheet(frame).to_csv(data_output(), index=False)
        case Format.JSON:
            print(_json(frame), file=data_output())
        case Format.TABLE:
            shown = frame[columns] if columns else frame
            _print_table(records(shown), list(shown.columns))


def _json(frame: pd.DataFrame) -> str:
    """Return the rows as JSON; pandas would round numbers to 15 decimals, small ones to nothing."""
    rows = json.loads(frame.to_json(orient="records", date_format="iso"))
    for column in frame.columns[[dtype.kind == "f" for dtype in frame.dtypes]]:
        for row, value in zip(rows, frame[column].tolist(), strict=True):
            row[column] = value if isfinite(value) else None
    return json.dumps(rows, indent=1)


def _print_table(
    rows: Sequence[Mapping[Any, Any]],
    columns: Sequence[str],
    titles: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Print rows as a table; columns of numbers are aligned at the right."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for column in columns:
        values = [row[column] for row in rows if row[column] is not None]
        numeric = bool(values) and all(_is_number(value) for value in values)
        title = titles.get(column, column)
        table.add_column(title, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(row[column])) for column in columns))
    wide = None if sys.stdout.isatty() else 200
    Console(width=wide).print(table)


def _is_number(value: Any) -> bool:
    return isinstance(value, Number) and not isinstance(value, bool)


def _cell(value: Any) -> str:
    if value is None or value != value:  # noqa: PLR0124 - NaN
        return ""
    if isinstance(value, float):
        return f"{value:,.6g}"
    if hasattr(value, "strftime"):
        return str(value.strftime("%Y-%m-%d %H:%M"))
    return str(value)
