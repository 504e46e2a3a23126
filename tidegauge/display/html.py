"""HTML display of results for notebooks and pages: escaped text and small tables.

Names, values and notes are untrusted. This module sanitizes them: it replaces invisible characters,
escapes markup, isolates the writing direction, and truncates long text. The output needs no script
and no external resource. Colors are inherited, so that it fits light and dark pages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from tidegauge.analyzers.core.formatting import (
    LARGEST_CARD,
    SEVERITY_MARKS,
    WIDE,
    Markup,
    escaped,
    number,
    plural,
)

MAX_ROWS = 40
MAX_COLUMNS = 30
MAX_TOOLTIP_LENGTH = 300
"""Maximum characters of a tooltip."""
_SIZE_LIMITS = ((MAX_ROWS, WIDE), (MAX_ROWS, 24), (20, 24), (10, 16), (4, 8))
"""Maximum rows of a table and characters of a cell, to try in turn until the HTML is small enough."""

STATUS_MARKS = {
    "error": (SEVERITY_MARKS["error"], "#d55e00"),
    "warning": (SEVERITY_MARKS["warning"], "#e69f00"),
    "info": (SEVERITY_MARKS["info"], "#0072b2"),
    "open": ("●", "#d55e00"),
    "acknowledged": ("◐", "#e69f00"),
    "expected": ("✓", "#009e73"),
    "resolved": ("✓", "#009e73"),
    "new level": ("→", "#0072b2"),
    "complete": ("✓", "#009e73"),
    "failed": ("✕", "#d55e00"),
    "empty": ("○", "#0072b2"),
    "success": ("✓", "#009e73"),
    "failure": ("✕", "#d55e00"),
    "no data": ("○", "#0072b2"),
    "no history": ("○", "#0072b2"),
    "high": ("▲", "#d55e00"),
    "low": ("▼", "#0072b2"),
    "missing": ("✕", "#d55e00"),
    "gone": ("○", "#d55e00"),
    "late": ("▲", "#e69f00"),
    "restated": ("●", "#e69f00"),
}
"""Symbol and color of status words. The word is always shown as well, so neither is needed to understand it."""

CARD_CSS = """
.tidegauge-output{font:13px/1.45 system-ui,sans-serif;color:inherit;max-width:100%;overflow-x:auto}
.tidegauge-output p{margin:.3em 0}.tidegauge-output .note{opacity:.7}
.tidegauge-output table{border-collapse:collapse;margin:.3em 0;font-size:inherit;color:inherit}
.tidegauge-output table th,.tidegauge-output table td{text-align:left!important;vertical-align:top;padding:2px 12px 2px 0;
border:0;border-bottom:1px solid rgba(128,128,128,.3);background:none;color:inherit;white-space:nowrap}
.tidegauge-output table th{font-weight:600}.tidegauge-output .long{white-space:normal;min-width:32em}
.tidegauge-output table .number{text-align:right!important;font-variant-numeric:tabular-nums}
.tidegauge-output svg{max-width:100%;height:auto}
""".strip()


def isolated(text: Any, max_length: int | None = WIDE) -> Markup:
    """Return untrusted text as truncated, escaped HTML with its writing direction isolated.

    If the text is truncated at full width, its tooltip shows up to `MAX_TOOLTIP_LENGTH` characters. Narrower
    text has no tooltip, to keep the HTML small.

    Examples
    --------
    >>> isolated("a & b")
    '<bdi>a &amp; b</bdi>'
    >>> isolated("long " * 40)[:30]
    '<bdi title="long long long lon'
    """
    short = escaped(text, max_length)
    full = (
        escaped(text, MAX_TOOLTIP_LENGTH)
        if max_length is not None and WIDE <= max_length < MAX_TOOLTIP_LENGTH
        else short
    )
    return Markup(f"<bdi>{short}</bdi>" if short == full else f'<bdi title="{full}">{short}</bdi>')


def sentence(text: Any, max_length: int = 4 * WIDE) -> Markup:
    """Return untrusted text as truncated, escaped HTML that can wrap."""
    return Markup(f'<div class="long">{isolated(text, max_length)}</div>')


def marked(word: str) -> Markup:
    """Return a status word as HTML with its symbol, if it has one.

    Examples
    --------
    >>> marked("error")
    '<span style="color:#d55e00">◆</span> error'
    """
    if word not in STATUS_MARKS:
        return isolated(word) if word else Markup()
    shape, colour = STATUS_MARKS[word]
    return Markup(f'<span style="color:{colour}">{shape}</span> {word}')


def cell(value: Any, max_length: int = WIDE) -> Markup:
    """Return the HTML of a table cell; empty for None, NaN and an empty string."""
    if isinstance(value, Markup):
        return value
    if value is None or value == "" or value != value:  # noqa: PLR0124 - NaN and NaT differ from themselves
        return Markup()
    match value:
        case Mapping():
            text = ", ".join(f"{k}={v}" for k, v in islice(value.items(), max_length))
        case float():
            text = number(value)
        case datetime():
            text = f"{value:%Y-%m-%d %H:%M}"
        case _:
            text = value
    return (
        isolated(text, max_length)
        if isinstance(value, str | Mapping)
        else escaped(text, max_length)
    )


@dataclass(frozen=True)
class Rows:
    """First and last rows of a longer sequence.

    Attributes
    ----------
    first, last : sequence of sequence
    between : int
        Number of rows omitted between them.
    """

    first: Sequence[Sequence[Any]]
    last: Sequence[Sequence[Any]] = ()
    between: int = 0

    @classmethod
    def first_of(cls, rows: Iterable[Sequence[Any]], limit: int, total: int | None = None) -> Rows:
        """Return the first rows, and the number of the others.

        Parameters
        ----------
        rows : iterable of sequence
        limit : int
            Maximum number of rows to keep.
        total : int, optional
            Number of all rows, if ``rows`` may hold only some of them.
        """
        listed = list(islice(rows, limit)) if total is not None else list(rows)
        return cls(
            listed[:limit], (), (len(listed) if total is None else total) - len(listed[:limit])
        )


def table(columns: Sequence[str], rows: Rows, max_length: int = WIDE) -> Markup:
    """Return an HTML table.

    Parameters
    ----------
    columns : sequence of str
        Headings; empty strings for columns without one.
    rows : Rows
        Values, which `cell` escapes; `Markup` is not escaped.
    max_length : int
        Maximum characters of a cell.
    """
    visible = list(columns[:MAX_COLUMNS])
    head = "".join(f"<th>{isolated(name, max_length) if name else ''}</th>" for name in visible)
    parts = [f"<table><thead><tr>{head}</tr></thead><tbody>" if any(visible) else "<table><tbody>"]
    parts += [_row_html(row, max_length) for row in rows.first]
    if rows.between:
        mark = (
            f"... {plural(rows.between, 'more row')}" if rows.last else f"and {rows.between:,} more"
        )
        parts.append(f'<tr><td class="note" colspan="{len(visible)}">{mark}</td></tr>')
    parts += [_row_html(row, max_length) for row in rows.last]
    parts.append("</tbody></table>")
    if len(columns) > len(visible):
        parts.append(
            f'<p class="note">and {plural(len(columns) - len(visible), "more column")}</p>'
        )
    return Markup("".join(parts))


def _row_html(row: Sequence[Any], max_length: int) -> str:
    cells = []
    for value in row[:MAX_COLUMNS]:
        numeric = isinstance(value, int | float) and not isinstance(value, bool)
        attribute = ' class="number"' if numeric else ""
        cells.append(f"<td{attribute}>{cell(value, max_length)}</td>")
    return f"<tr>{''.join(cells)}</tr>"


def pairs(rows: Iterable[tuple[str, Any]], max_length: int = WIDE) -> Markup:
    """Return an HTML table of names and values; empty values are omitted."""
    cells = [(name, cell(value, max_length)) for name, value in rows]
    lines = "".join(
        f"<tr><th>{isolated(name, max_length)}</th><td>{html}</td></tr>"
        for name, html in cells
        if html
    )
    return Markup(f"<table><tbody>{lines}</tbody></table>" if lines else "")


def heading(*parts: Any, max_length: int = WIDE) -> Markup:
    """Return a line in bold; `Markup` is not escaped, other values are."""
    line = " ".join(
        part if isinstance(part, Markup) else isolated(part, max_length) for part in parts
    )
    return Markup(f"<p><b>{line}</b></p>")


def note(text: str, max_length: int = 4 * WIDE) -> Markup:
    """Return a dimmed line of less important text."""
    return Markup(f'<p class="note">{isolated(text, max_length)}</p>')


def card(render: Callable[[int, int], Iterable[str]]) -> str:
    """Return the HTML display of an object, smaller than `LARGEST_CARD` bytes.

    Parameters
    ----------
    render : callable
        Takes the maximum rows of a table and the maximum characters of a cell, and returns parts
        of HTML. It is called with smaller limits until the result is small enough.
    """
    page = ""
    for rows, max_length in _SIZE_LIMITS:
        page = f'<div class="tidegauge-output"><style>{CARD_CSS}</style>{"".join(render(rows, max_length))}</div>'
        if len(page.encode()) < LARGEST_CARD:
            break
    return page
