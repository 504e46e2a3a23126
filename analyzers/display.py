"""What people see of results in notebooks and pages: plain text, and small tables in HTML.

Names, values and notes are other people's. Here they are made harmless: what cannot be seen is written out,
markup is escaped, the direction of writing ends where the text does, and what is long is cut. Nothing needs
a script or anything from elsewhere; colours are inherited, so that light and dark pages both do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from itertools import islice
from typing import Any

LARGEST = 50_000
"""Bytes that one object shows of itself, at most."""
WIDE = 60
"""Characters of a cell, at most."""
MOST_ROWS = 40
MOST_COLUMNS = 30
_STEPS = ((MOST_ROWS, WIDE), (MOST_ROWS, 24), (20, 24), (10, 16), (4, 8))
"""Rows and characters that are tried, one after the other, until the size is kept."""

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
"""A shape and a colour for words that judge; the word stays, so neither has to be told apart."""

STYLE = """
.tidegauge{font:13px/1.45 system-ui,sans-serif;color:inherit;max-width:100%;overflow-x:auto}
.tidegauge p{margin:.3em 0}.tidegauge .note{opacity:.7}
.tidegauge table{border-collapse:collapse;margin:.3em 0;font-size:inherit;color:inherit}
.tidegauge table th,.tidegauge table td{text-align:left;vertical-align:top;padding:2px 12px 2px 0;
border:0;border-bottom:1px solid rgba(128,128,128,.3);background:none;color:inherit;white-space:nowrap}
.tidegauge table th{font-weight:600}.tidegauge .long{white-space:normal;min-width:32em}
.tidegauge table .number{text-align:right;font-variant-numeric:tabular-nums}
.tidegauge svg{max-width:100%;height:auto}
""".strip()


class Markup(str):
    """Text that is HTML already, and harmless."""

    __slots__ = ()


def plain(text: Any, most: int | None = None) -> str:
    r"""Return a text as it can stand in a line: what cannot be seen is written out.

    Parameters
    ----------
    text : Any
    most : int, optional
        Characters, at most; what is longer ends with an ellipsis.

    Examples
    --------
    >>> print(plain("a\n\x1b[31mb"), plain(""), plain("abcdef", 4))
    a\n\x1b[31mb '' abc…
    """
    whole = str(text)
    some = whole if most is None else whole[: most + 1]
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in some)
    return _cut(shown, most) or "''"


def one_line(text: str, most: int = 2000) -> str:
    r"""Return a text without line ends and what cannot be seen, cut to a length.

    Examples
    --------
    >>> one_line("a\r\nb\u202ec"), one_line("abcdef", 4)
    ('a b c', 'abc…')
    """
    seen = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return _cut(seen, most)


def _cut(text: str, most: int | None) -> str:
    return text if most is None or len(text) <= most else f"{text[: most - 1]}…"


def number(value: float) -> str:
    """Return a number as people read it.

    Examples
    --------
    >>> number(1234567.8), number(0.123456), number(3.0)
    ('1,234,568', '0.1235', '3')
    """
    if abs(value) >= 1000:  # noqa: PLR2004 - thousands read better with commas
        return f"{value:,.0f}"
    return f"{value:.4g}"


def percent(share: float) -> str:
    """Return a share as a percentage; a negative one as none.

    Examples
    --------
    >>> percent(0.5213), percent(0.0021), percent(0)
    ('52 %', '0.21 %', '0 %')
    """
    hundredths = 100 * max(share, 0.0)
    if hundredths == 0 or hundredths >= 10:  # noqa: PLR2004 - two digits are enough
        return f"{hundredths:.0f} %"
    return f"{hundredths:.2g} %"


def escaped(text: Any, most: int | None = WIDE) -> Markup:
    """Return other people's text as HTML or XML, cut.

    Examples
    --------
    >>> escaped("<img onerror='x'>")
    '&lt;img onerror=&#x27;x&#x27;&gt;'
    """
    return Markup(escape(plain(text, most)))


def isolated(text: Any, most: int | None = WIDE) -> Markup:
    """Return other people's text as HTML that keeps its direction of writing to itself.

    Examples
    --------
    >>> isolated("a & b")
    '<bdi>a &amp; b</bdi>'
    """
    return Markup(f"<bdi>{escaped(text, most)}</bdi>")


def sentence(text: Any, most: int = 4 * WIDE) -> Markup:
    """Return other people's text that may be broken into lines, cut."""
    return Markup(f'<div class="long">{isolated(text, most)}</div>')


def marked(word: str) -> Markup:
    """Return a word that judges with its mark, if it has one.

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
    """Return a value as the HTML of a cell; nothing for None, NaN and the empty text."""
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
    """The first and the last of many rows.

    Attributes
    ----------
    first, last : sequence of sequence
    between : int
        How many are left out between them.
    """

    first: Sequence[Sequence[Any]]
    last: Sequence[Sequence[Any]] = ()
    between: int = 0

    @classmethod
    def of(cls, rows: Iterable[Sequence[Any]], most: int, total: int | None = None) -> Rows:
        """Keep the first rows of many; ``total`` says how many there are where not all are given."""
        some = list(islice(rows, most)) if total is not None else list(rows)
        return cls(some[:most], (), (len(some) if total is None else total) - len(some[:most]))


def table(columns: Sequence[str], rows: Rows, most: int = WIDE) -> Markup:
    """Return a table in HTML.

    Parameters
    ----------
    columns : sequence of str
    rows : Rows
        Values are made harmless as `cell` has it; those of `Markup` stand as they are.
    most : int
        Characters of a cell.
    """
    shown = list(columns[:MOST_COLUMNS])
    head = "".join(f"<th>{isolated(name, most) if name else ''}</th>" for name in shown)
    parts = [f"<table><thead><tr>{head}</tr></thead><tbody>" if any(shown) else "<table><tbody>"]
    parts += [_row(row, most) for row in rows.first]
    if rows.between:
        mark = f"... {rows.between:,} rows more" if rows.last else f"and {rows.between:,} more"
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
    """Return a table of names and what they are, without those that are empty."""
    told = [(name, cell(value, most)) for name, value in rows]
    lines = "".join(
        f"<tr><th>{isolated(name, most)}</th><td>{shown}</td></tr>" for name, shown in told if shown
    )
    return Markup(f"<table><tbody>{lines}</tbody></table>" if lines else "")


def heading(*parts: Any, most: int = WIDE) -> Markup:
    """Return a line in bold: markup as it is, other text made harmless."""
    told = " ".join(part if isinstance(part, Markup) else isolated(part, most) for part in parts)
    return Markup(f"<p><b>{told}</b></p>")


def note(text: str, most: int = 4 * WIDE) -> Markup:
    """Return a line that is less important."""
    return Markup(f'<p class="note">{isolated(text, most)}</p>')


def card(render: Callable[[int, int], Iterable[str]]) -> str:
    """Return what an object shows of itself, below `LARGEST`.

    Parameters
    ----------
    render : callable
        Given the rows of a table and the characters of a cell, at most, it returns pieces of HTML. It is asked
        for less until that is small enough.
    """
    page = ""
    for rows, most in _STEPS:
        page = f'<div class="tidegauge"><style>{STYLE}</style>{"".join(render(rows, most))}</div>'
        if len(page.encode()) < LARGEST:
            break
    return page
