"""HTML display of results for notebooks and pages: escaped text and small tables.

Names, values and notes are untrusted. They are sanitized here: invisible characters are written
out, markup is escaped, writing direction is isolated, and long text is truncated. Output needs no
script and no external resource; colours are inherited, so that it fits light and dark pages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from tidegauge.analyzers.core.formatting import LARGEST_CARD, WIDE, Markup, escaped, number, plural

MOST_ROWS = 40
MOST_COLUMNS = 30
MOST_TITLE = 300
"""Maximum number of characters of a tooltip."""
_STEPS = ((MOST_ROWS, WIDE), (MOST_ROWS, 24), (20, 24), (10, 16), (4, 8))
"""Maximum rows and characters to try in turn until the HTML is small enough."""

MARKS = {
    "error": ("■", "#d55e00"),
    "warning": ("▲", "#e69f00"),
    "info": ("●", "#0072b2"),
    "open": ("●", "#d55e00"),
    "acknowledged": ("◐", "#e69f00"),
    "expected": ("✓", "#009e73"),
    "resolved": ("✓", "#009e73"),
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
"""Symbol and colour of status words; the word is kept, so neither is needed to understand it."""

STYLE = """
.tidegauge-output{font:13px/1.45 system-ui,sans-serif;color:inherit;max-width:100%;overflow-x:auto}
.tidegauge-output p{margin:.3em 0}.tidegauge-output .note{opacity:.7}
.tidegauge-output table{border-collapse:collapse;margin:.3em 0;font-size:inherit;color:inherit}
.tidegauge-output table th,.tidegauge-output table td{text-align:left!important;vertical-align:top;padding:2px 12px 2px 0;
border:0;border-bottom:1px solid rgba(128,128,128,.3);background:none;color:inherit;white-space:nowrap}
.tidegauge-output table th{font-weight:600}.tidegauge-output .long{white-space:normal;min-width:32em}
.tidegauge-output table .number{text-align:right!important;font-variant-numeric:tabular-nums}
.tidegauge-output svg{max-width:100%;height:auto}
""".strip()


def isolated(text: Any, most: int | None = WIDE) -> Markup:
    """Return untrusted text as escaped HTML with its writing direction isolated, truncated.

    At full width a truncated text is whole, up to `MOST_TITLE` characters, in its tooltip; what is
    narrower is so to save room.

    Examples
    --------
    >>> isolated("a & b")
    '<bdi>a &amp; b</bdi>'
    >>> isolated("long " * 40)[:30]
    '<bdi title="long long long lon'
    """
    shown = escaped(text, most)
    whole = escaped(text, MOST_TITLE) if most is not None and WIDE <= most < MOST_TITLE else shown
    return Markup(
        f"<bdi>{shown}</bdi>" if shown == whole else f'<bdi title="{whole}">{shown}</bdi>'
    )


def sentence(text: Any, most: int = 4 * WIDE) -> Markup:
    """Return untrusted text as escaped HTML that may wrap, truncated."""
    return Markup(f'<div class="long">{isolated(text, most)}</div>')


def marked(word: str) -> Markup:
    """Return a status word as HTML with its symbol, if it has one.

    Examples
    --------
    >>> marked("error")
    '<span style="color:#d55e00">■</span> error'
    """
    if word not in MARKS:
        return isolated(word) if word else Markup()
    shape, colour = MARKS[word]
    return Markup(f'<span style="color:{colour}">{shape}</span> {word}')


def cell(value: Any, most: int = WIDE) -> Markup:
    """Return a value as the HTML of a cell; empty for None, NaN and the empty text."""
    if isinstance(value, Markup):
        return value
    if value is None or value == "" or value != value:  # noqa: PLR0124 - NaN and NaT differ from themselves
        return Markup()
    match value:
        case Mapping():
            text = ", ".join(f"{k}={v}" for k, v in islice(value.items(), most))
        case float():
            text = number(value)
        case datetime():
            text = f"{value:%Y-%m-%d %H:%M}"
        case _:
            text = value
    return isolated(text, most) if isinstance(value, str | Mapping) else escaped(text, most)


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
    def first_of(cls, rows: Iterable[Sequence[Any]], most: int, total: int | None = None) -> Rows:
        """Keep the first rows of many; ``total`` says how many there are where not all are given."""
        some = list(islice(rows, most)) if total is not None else list(rows)
        return cls(some[:most], (), (len(some) if total is None else total) - len(some[:most]))


def table(columns: Sequence[str], rows: Rows, most: int = WIDE) -> Markup:
    """Return an HTML table.

    Parameters
    ----------
    columns : sequence of str
    rows : Rows
        Values are escaped as by `cell`; values of `Markup` are kept as they are.
    most : int
        Maximum characters of a cell.
    """
    shown = list(columns[:MOST_COLUMNS])
    head = "".join(f"<th>{isolated(name, most) if name else ''}</th>" for name in shown)
    parts = [f"<table><thead><tr>{head}</tr></thead><tbody>" if any(shown) else "<table><tbody>"]
    parts += [_row(row, most) for row in rows.first]
    if rows.between:
        mark = (
            f"... {plural(rows.between, 'row')} more" if rows.last else f"and {rows.between:,} more"
        )
        parts.append(f'<tr><td class="note" colspan="{len(shown)}">{mark}</td></tr>')
    parts += [_row(row, most) for row in rows.last]
    parts.append("</tbody></table>")
    if len(columns) > len(shown):
        parts.append(f'<p class="note">and {len(columns) - len(shown):,} columns more</p>')
    return Markup("".join(parts))


def _row(row: Sequence[Any], most: int) -> str:
    cells = []
    for value in row[:MOST_COLUMNS]:
        numeric = isinstance(value, int | float) and not isinstance(value, bool)
        kind = ' class="number"' if numeric else ""
        cells.append(f"<td{kind}>{cell(value, most)}</td>")
    return f"<tr>{''.join(cells)}</tr>"


def pairs(rows: Iterable[tuple[str, Any]], most: int = WIDE) -> Markup:
    """Return an HTML table of names and values, without empty values."""
    told = [(name, cell(value, most)) for name, value in rows]
    lines = "".join(
        f"<tr><th>{isolated(name, most)}</th><td>{shown}</td></tr>" for name, shown in told if shown
    )
    return Markup(f"<table><tbody>{lines}</tbody></table>" if lines else "")


def heading(*parts: Any, most: int = WIDE) -> Markup:
    """Return a line in bold: `Markup` unchanged, other text escaped."""
    told = " ".join(part if isinstance(part, Markup) else isolated(part, most) for part in parts)
    return Markup(f"<p><b>{told}</b></p>")


def note(text: str, most: int = 4 * WIDE) -> Markup:
    """Return a dimmed line of less important text."""
    return Markup(f'<p class="note">{isolated(text, most)}</p>')


def card(render: Callable[[int, int], Iterable[str]]) -> str:
    """Return what an object shows of itself, below `LARGEST_CARD`.

    Parameters
    ----------
    render : callable
        Takes the maximum rows of a table and the maximum characters of a cell, and returns pieces
        of HTML. It is called with smaller limits until the result is small enough.
    """
    page = ""
    for rows, most in _STEPS:
        page = f'<div class="tidegauge-output"><style>{STYLE}</style>{"".join(render(rows, most))}</div>'
        if len(page.encode()) < LARGEST_CARD:
            break
    return page
