"""Print rows and frames as a table, CSV or JSON."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from itertools import zip_longest
from math import isfinite
from numbers import Number
from shutil import get_terminal_size
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TextIO, cast
from unicodedata import combining, east_asian_width

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
    """Standard output that escapes control characters in names and values; see `for_terminal`.

    Output to a pipe is also escaped, because a pager or a log viewer shows it on a terminal later.
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
        """Return the stream for data. It escapes control characters on a terminal, but not in a pipe or file."""
        return cast("TextIO", self) if self._terminal.isatty() else self._terminal


def data_output() -> TextIO:
    """Return standard output for CSV, JSON and other data; see `SafeTerminal.for_data`."""
    return sys.stdout.for_data() if isinstance(sys.stdout, SafeTerminal) else sys.stdout


def print_rows(
    rows: Sequence[Mapping[Any, Any]],
    columns: Columns,
    output_format: Format = Format.TABLE,
    visible: Sequence[str] | None = None,
    titles: Mapping[str, str] | None = None,
) -> None:
    """Print rows. Printing a table does not import pandas.

    Parameters
    ----------
    rows : sequence of mapping
    columns : mapping of str to Kind
        The columns of the rows in order, as for `frame_of`.
    output_format : Format
    visible : sequence of str, optional
        The columns of a table; default: all. CSV and JSON always have all columns.
    titles : mapping of str to str, optional
        Headings of columns of a table that differ from the names.
    """
    if output_format is Format.TABLE:
        _print_table(rows, visible or list(columns), titles or {})
    else:
        print_frame(frame_of(rows, columns), output_format)


def print_frame(
    frame: pd.DataFrame, output_format: Format, columns: list[str] | None = None
) -> None:
    """Print a frame; a table has only the named columns, CSV and JSON have all columns."""
    match output_format:
        case Format.CSV:
            spreadsheet(frame).to_csv(data_output(), index=False)
        case Format.JSON:
            print(_json(frame), file=data_output())
        case Format.TABLE:
            visible = frame[columns] if columns else frame
            _print_table(records(visible), list(visible.columns))


def _json(frame: pd.DataFrame) -> str:
    """Return the rows as JSON, with exact numbers; pandas would round them to 15 decimals."""
    rows = json.loads(frame.to_json(orient="records", date_format="iso"))
    for column in frame.columns[[dtype.kind == "f" for dtype in frame.dtypes]]:
        for row, value in zip(rows, frame[column].tolist(), strict=True):
            row[column] = value if isfinite(value) else None
    return json.dumps(rows, indent=1)


FILE_WIDTH = 200
"""Line width of a table in a pipe or file, in characters."""
COLUMN_GAP = "  "


def _print_table(
    rows: Sequence[Mapping[Any, Any]],
    columns: Sequence[str],
    titles: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Print rows as a table; numbers are right-aligned.

    Cells of the widest columns are folded so that a line fits the terminal. Rich is not used, because its
    import takes longer than most commands, and it needs minutes for a long history.
    """
    width = get_terminal_size().columns if sys.stdout.isatty() else FILE_WIDTH
    cells, numeric = [], []
    for name in columns:
        column = [row[name] for row in rows]
        types = {type(value) for value in column} - {type(None)}
        is_times = bool(types) and all(issubclass(kind, datetime) for kind in types)
        title = titles.get(name, name) + (" (UTC)" if is_times else "")
        cells.append([title, *(v if type(v) is str else _cell(v) for v in column)])
        numeric.append(bool(types) and all(map(_is_numeric, types)))
    natural = [_column_width(column) for column in cells]
    widths = fitting_widths(natural, width - len(COLUMN_GAP) * (len(columns) - 1))
    aligned = list(map(_aligned, cells, widths, numeric))
    lines: list[str] = []
    for row in zip(*aligned, strict=True):
        if "\n" not in "".join(row):
            lines.append(COLUMN_GAP.join(row).rstrip())
            continue
        folded = (cell.split("\n") for cell in row)
        for parts in zip_longest(*folded):
            padded = (" " * w if p is None else p for p, w in zip(parts, widths, strict=True))
            lines.append(COLUMN_GAP.join(padded).rstrip())
    print("\n".join(lines))


def _is_numeric(kind: type) -> bool:
    return issubclass(kind, Number) and not issubclass(kind, bool)


def _is_plain(column: Sequence[str]) -> bool:
    """Return whether all cells are ASCII without line breaks; for them the faster functions suffice."""
    text = "".join(column)
    return text.isascii() and "\n" not in text


def _column_width(column: Sequence[str]) -> int:
    return max(map(len if _is_plain(column) else text_width, column))


def _aligned(column: Sequence[str], width: int, right: bool) -> Sequence[str]:
    """Return cells padded to a width; wider cells are folded into several lines."""
    if _is_plain(column) and max(map(len, column)) <= width:
        return [cell.rjust(width) if right else cell.ljust(width) for cell in column]
    return ["\n".join(_align(line, width, right) for line in fold(cell, width)) for cell in column]


def fitting_widths(natural: Sequence[int], available: int) -> list[int]:
    """Return column widths that fit a line; the widest columns are reduced to a common width.

    Examples
    --------
    >>> fitting_widths([4, 30, 20], 100), fitting_widths([4, 30, 20], 40)
    ([4, 30, 20], [4, 18, 18])
    """
    widest, remaining = max(natural, default=0), available
    if sum(natural) > available:
        for position, width in enumerate(sorted(natural)):
            widest = max(remaining // (len(natural) - position), MIN_COLUMN_WIDTH)
            if width > widest:
                break
            remaining -= width
    return [min(width, widest) for width in natural]


MIN_COLUMN_WIDTH = 2
"""Maximum width of one character in a terminal."""


def text_width(text: str) -> int:
    r"""Return the width of the longest line of a string in a terminal.

    Examples
    --------
    >>> text_width("ds=1"), text_width("a\nbcd"), text_width("位"), text_width("e\u0301")
    (4, 3, 2, 1)
    """
    if text.isascii():
        return len(text) if "\n" not in text else max(map(len, text.split("\n")))
    return max(sum(map(_character_width, line)) for line in text.split("\n"))


def _character_width(character: str) -> int:
    if combining(character):
        return 0
    return 2 if east_asian_width(character) in "WF" else 1


def _align(line: str, width: int, right: bool) -> str:
    blank = " " * (width - text_width(line))
    return blank + line if right else line + blank


def fold(text: str, width: int) -> list[str]:
    """Fold text into lines of a maximum width, at spaces or within longer words.

    Examples
    --------
    >>> fold("late by 12 days", 8), fold("ds=2013-12-31", 8)
    (['late by', '12 days'], ['ds=2013-', '12-31'])
    """
    lines = []
    for source_line in text.split("\n"):
        if text_width(source_line) <= width:
            lines.append(source_line.rstrip())
            continue
        line = ""
        for part in re.findall(r"\S+\s*|\s+", source_line):
            if line and text_width(line + part.rstrip()) > width:
                lines.append(line.rstrip())
                line = ""
            for character in part if text_width(part.rstrip()) > width else (part,):
                if line and text_width((line + character).rstrip()) > width:
                    lines.append(line)
                    line = ""
                line += character
        lines.append(line.rstrip())
    return lines


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None or value != value:  # noqa: PLR0124 - NaN
        return ""
    if isinstance(value, float):
        return f"{value:,.6g}"
    if hasattr(value, "strftime"):
        return str(value.strftime("%Y-%m-%d %H:%M"))
    return str(value)
