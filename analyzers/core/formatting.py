"""Formatting of numbers and of untrusted text for people: escapes, cuts, digits."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from html import escape
from math import floor, log10
from typing import Any

LARGEST_CARD = 50_000
"""Bytes of the HTML or SVG of one object, at most."""
WIDE = 60
"""Characters of a table cell, at most."""
_MOST_DIGITS = 6
"""Decimal places of a percentage, at most."""
_LONGEST = 1e15
"""Numbers from which on powers of ten are told."""
_LARGEST_SHARE = 100
"""Larger values of ratios are told as numbers."""


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


_COLOUR = r"(?:[01234]|2[2-4]|3[1-79]|9[0-7])"
_CONTROL = re.compile(
    rf"(?!\x1b\[(?:{_COLOUR}(?:;{_COLOUR})*)?m)[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)
"""Control characters but tab and newline, and those that turn text around.

Colours of letters are harmless; those that hide text, black and conceal, are not among them.
"""
_FORMULA = re.compile(r"[=@\t\r]|[+-](?!(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?\Z|inf\Z)", re.IGNORECASE)
"""Beginnings of formulas; a sign begins one unless the rest is a number."""


def for_terminal(text: str) -> str:
    r"""Escape control characters, by which a terminal could be made to hide, forge or send text.

    Lines and visible colours stay.

    Examples
    --------
    >>> print(for_terminal("a\x1b]0;title\x07 b\u202ec"))
    a\x1b]0;title\x07 b\u202ec
    """
    return _CONTROL.sub(lambda match: repr(match[0])[1:-1], text)


_NO_YAML = re.compile(r"[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
"""Characters that YAML refuses, or takes for the end of a line, unless they are escaped."""


def for_yaml(value: Any) -> str:
    r"""Return a value as YAML on one line: JSON, whose texts hold any character.

    In files that Tidegauge reads, ``${`` begins a variable, so a literal one is written ``$${``.

    Examples
    --------
    >>> print(for_yaml({"a\x85b": "\N{collision symbol}"}))
    {"a\u0085b": "💥"}
    >>> print(for_yaml("${x}"))
    "$${x}"
    """
    text = json.dumps(value, ensure_ascii=False).replace("${", "$${")
    return _NO_YAML.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def for_spreadsheet(value: Any) -> Any:
    """Return a CSV cell; text that a spreadsheet would run as a formula begins with an apostrophe.

    Examples
    --------
    >>> [for_spreadsheet(v) for v in ("=1+1", "@x", "-cmd", "-1.5", "+inf", "ds=1", -2, "-2+3")]
    ["'=1+1", "'@x", "'-cmd", '-1.5', '+inf', 'ds=1', -2, "'-2+3"]
    """
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value


def middle_cut(text: str, most: int = 4000) -> str:
    """Return the beginning and the end of a message that quotes a long text.

    Examples
    --------
    >>> middle_cut("unknown column 'aaaaaaaaaaaaaaaaaaaa'", 30)
    "unknown colu ... aaaaaaaaaaa'"
    """
    half = (most - len(" ... ")) // 2
    return text if len(text) <= most else f"{text[:half]} ... {text[-half:]}"


def _cut(text: str, most: int | None) -> str:
    return text if most is None or len(text) <= most else f"{text[: most - 1]}…"


def number(value: float) -> str:
    """Format a number for reading.

    Examples
    --------
    >>> number(1234567.8), number(0.123456), number(3.0)
    ('1,234,568', '0.1235', '3')
    >>> number(2.5e300)
    '2.5e+300'
    """
    if 1000 <= abs(value) < _LONGEST:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def plural(count: int, singular: str, plural_noun: str = "") -> str:
    """Return a number with its noun.

    Parameters
    ----------
    count : int
    singular : str
    plural_noun : str, optional
        The noun of other numbers than one; the singular with an s by default.

    Examples
    --------
    >>> plural(1, "partition"), plural(2_000, "partition"), plural(0, "query", "queries")
    ('1 partition', '2,000 partitions', '0 queries')
    """
    noun = singular if count == 1 else plural_noun or f"{singular}s"
    return f"{count:,} {noun}"


def signed_number(value: float) -> str:
    """Format a change for reading, in three digits; large ones in whole numbers.

    Examples
    --------
    >>> signed_number(2.3456), signed_number(-12_345.6), signed_number(0.0)
    ('+2.35', '-12,346', '+0')
    """
    return f"{value:+,.0f}" if 1000 <= abs(value) < _LONGEST else f"{value:+.3g}"


DURATION = "duration"
"""Scale by which lengths of time in seconds are written; their own scale says how to compare them."""
_SECONDS_BY_UNIT = {"d": 86_400, "h": 3600, "min": 60, "s": 1}


def duration_text(seconds: float, most_units: int | None = 2) -> str:
    """Format a length of time in its largest units; by default in two.

    Parameters
    ----------
    seconds : float
    most_units : int, optional
        The number of units, to the smallest of which it is rounded; None writes all digits.

    Examples
    --------
    >>> duration_text(7500), duration_text(-30), duration_text(86_400), duration_text(0.25)
    ('2 h 5 min', '-30 s', '1 d', '0.25 s')
    >>> duration_text(7199.6), duration_text(7199.6, 3), duration_text(7199.6, None)
    ('2 h', '2 h', '1 h 59 min 59.6 s')
    """
    rest = abs(seconds)
    if not rest < _LONGEST:
        return number(seconds)
    units = list(_SECONDS_BY_UNIT.items())
    largest = next((i for i, (_, size) in enumerate(units) if rest >= size), None)
    if largest is None:
        return f"{seconds:.{3 if most_units else 12}g} s"
    if most_units is not None:
        smallest = units[min(largest + most_units, len(units)) - 1][1]
        rest = round(rest / smallest) * smallest
    words = []
    for unit, size in units:
        count, rest = divmod(rest, size) if size > 1 else (rest, 0)
        if count:
            words.append(f"{count:,.12g} {unit}")
    return ("-" if seconds < 0 else "") + " ".join(words)


def measured(value: float, scale: str) -> str:
    """Format a metric's value for reading: a ratio in per cent, a time in UTC, all else as a number.

    Lengths of time have the scale `DURATION` here.

    Of a ratio three digits are told, and as many more as tell it from 100 %.

    Examples
    --------
    >>> measured(0.13781, "ratio"), measured(0.99998, "ratio"), measured(1.0, "ratio")
    ('13.8 %', '99.998 %', '100 %')
    >>> measured(0.13781, "positive"), measured(86_399.7, "time")
    ('0.1378', '1970-01-01 23:59:59')
    """
    if scale == "time":
        return _time(value)
    if scale == DURATION:
        return duration_text(value)
    if scale != "ratio" or not abs(value) <= _LARGEST_SHARE:  # NaN, too
        return number(value)
    hundredths = 100 * value
    rest = abs(100 - hundredths)
    digits = 2 - floor(log10(abs(hundredths))) if hundredths else 0
    digits = max(digits, -floor(log10(rest)) if rest else 0, 0)
    text = f"{hundredths:,.{min(digits, _MOST_DIGITS)}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return f"{text} %"


def _time(seconds: float) -> str:
    """Format seconds since 1970; those of no calendar as a number."""
    try:
        return f"{datetime.fromtimestamp(floor(seconds), UTC):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return number(seconds)


MOST_DIGITS = 12
"""Maximum number of digits after the point of a percentage."""


def percent(share: float) -> str:
    """Format a share as a percentage; a negative share as 0 %.

    Only none is 0 %, and only all is 100 %: other shares have as many digits as tell them apart.

    Examples
    --------
    >>> percent(0.5213), percent(0.0021), percent(0), percent(0.9997), percent(1)
    ('52 %', '0.21 %', '0 %', '99.97 %', '100 %')
    """
    hundredths = 100 * max(share, 0.0)
    if hundredths == 0:
        return "0 %"
    if hundredths < 10:
        return f"{hundredths:.2g} %"
    digits = 0
    while digits < MOST_DIGITS and round(hundredths, digits) == 100 != hundredths:
        digits += 1
    return f"{hundredths:.{digits}f} %"


def percent_change(value: float, usual: float) -> str:
    """Format how much a number differs from a usual one, which is positive, as a percentage with its sign.

    Examples
    --------
    >>> percent_change(3, 1060), percent_change(0, 1060), percent_change(1166, 1060)
    ('-99.7 %', '-100 %', '+10 %')
    """
    change = value / usual - 1
    text = percent(abs(change))
    if text == "0 %":
        return text
    return f"{'-' if change < 0 else '+'}{text}"


def escaped(text: Any, most: int | None = WIDE) -> Markup:
    """Return untrusted text as escaped HTML or XML, truncated.

    Examples
    --------
    >>> escaped("<img onerror='x'>")
    '&lt;img onerror=&#x27;x&#x27;&gt;'
    """
    return Markup(escape(plain(text, most)))


def hours_text(hours: float) -> str:
    """Return a length of time in minutes, hours or days, whichever reads best.

    Examples
    --------
    >>> hours_text(0.1), hours_text(15.52), hours_text(1), hours_text(6_150)
    ('6 minutes', '15.5 hours', '1 hour', '256 days')
    """
    if hours >= MIN_HOURS_AS_DAYS:
        count, unit = hours / 24, "day"
    elif hours >= 1:
        count, unit = hours, "hour"
    else:
        count, unit = hours * 60, "minute"
    text = f"{count:,.0f}" if count >= 100 else f"{count:.3g}"
    return f"{text} {unit}{'' if text == '1' else 's'}"


MIN_HOURS_AS_DAYS = 72
"""Hours from which on people count in days."""


def bytes_text(count: int) -> str:
    """Return a number of bytes in the unit that reads best.

    Examples
    --------
    >>> bytes_text(96), bytes_text(225_024), bytes_text(22_952_448)
    ('96 bytes', '225 kB', '23 MB')
    """
    for unit, name in ((1_000_000, "MB"), (1000, "kB")):
        if count >= unit:
            return f"{count / unit:,.0f} {name}"
    return f"{count} bytes"
