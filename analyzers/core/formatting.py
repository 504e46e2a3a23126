"""Formatting of numbers and of untrusted text for people: escapes, cuts, digits."""

from __future__ import annotations

from html import escape
from typing import Any

LARGEST_CARD = 50_000
"""Bytes of the HTML or SVG of one object, at most."""
WIDE = 60
"""Characters of a table cell, at most."""


class Markup(str):
    """Text that is already safe HTML."""

    __slots__ = ()


def plain(text: Any, most: int | None = None) -> str:
    r"""Return text on one line, with non-printable characters escaped; empty text as ``''``.

    Parameters
    ----------
    text : Any
    most : int, optional
        Maximum characters; longer text ends with an ellipsis.

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
    r"""Return text on one line, with non-printable characters as spaces, truncated.

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
    """Format a number for reading.

    Examples
    --------
    >>> number(1234567.8), number(0.123456), number(3.0)
    ('1,234,568', '0.1235', '3')
    """
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def percent(share: float) -> str:
    """Format a share as a percentage; a negative share as 0 %.

    Examples
    --------
    >>> percent(0.5213), percent(0.0021), percent(0)
    ('52 %', '0.21 %', '0 %')
    """
    hundredths = 100 * max(share, 0.0)
    if hundredths == 0 or hundredths >= 10:
        return f"{hundredths:.0f} %"
    return f"{hundredths:.2g} %"


def escaped(text: Any, most: int | None = WIDE) -> Markup:
    """Return untrusted text as escaped HTML or XML, truncated.

    Examples
    --------
    >>> escaped("<img onerror='x'>")
    '&lt;img onerror=&#x27;x&#x27;&gt;'
    """
    return Markup(escape(plain(text, most)))
