r"""Literals and quoted names, with the escapes of Spark SQL.

In a quoted text, a quote is doubled or escaped by a backslash. The backslash also begins ``\n``,
``\t``, ``\r``, ``\b``, ``\0``, ``\Z``, an octal ``\101``, ``\u0041`` and ``\U00000041``. It is kept
before ``%`` and ``_``, for patterns, and dropped before any other character. In a name in backticks
only the backtick is special; it is doubled.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

from tidegauge.griffin.durations import MILLISECONDS

_ESCAPE = re.compile(
    r"\\(?:u(?P<u>[0-9A-Fa-f]{4})|U(?P<long>[0-9A-Fa-f]{8})|(?P<octal>[01][0-7]{2})|(?P<one>[\s\S]))"
    r"|(?P<quote>['\"])(?P=quote)"
)
_LETTERS = {
    "0": "\0",
    "b": "\b",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "Z": "\x1a",
    "%": "\\%",
    "_": "\\_",
}
_WRITTEN = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"}

MOST_DIGITS = 38
MOST_EXPONENT = 308


def parse_text(written: str) -> str:
    r"""Return the value of a quoted text.

    Raises
    ------
    ValueError
        If it names a character that does not exist.

    Examples
    --------
    >>> print(parse_text(r"'test\'ing'"), parse_text(r"'10\% of ''all'''"))
    test'ing 10\% of 'all'
    """
    mark = written[0]
    if "\\" not in written and mark not in written[1:-1]:
        return written[1:-1]

    def meant(found: re.Match[str]) -> str:
        if found["quote"]:
            return mark if found["quote"] == mark else found[0]
        if found["one"]:
            return _LETTERS.get(found["one"], found["one"])
        if found["octal"]:
            return chr(int(found["octal"], 8))
        return chr(int(found["u"] or found["long"], 16))

    try:
        # Characters beyond the first 65,536 may be written as surrogate pairs, as in Java.
        said = _ESCAPE.sub(meant, written[1:-1])
        return said.encode("utf-16", "surrogatepass").decode("utf-16")
    except (ValueError, OverflowError):
        raise ValueError("this text names a letter that there is not") from None


def text(value: str) -> str:
    r"""Quote a text.

    Examples
    --------
    >>> print(text("it's"), text("a\\b"))
    'it\'s' 'a\\b'
    """
    return "'" + re.sub(r"[\\'\n\r\t\0]", lambda found: _WRITTEN[found[0]], value) + "'"


def parse_name(written: str) -> str:
    """Return a name without its backticks.

    Raises
    ------
    ValueError
        If the name is empty.

    Examples
    --------
    >>> parse_name("`a``b`"), parse_name("age")
    ('a`b', 'age')
    """
    if written == "``":
        raise ValueError("a name has at least one letter")
    return written[1:-1].replace("``", "`") if written[0] == "`" else str(written)


def parse_number(written: str) -> Decimal:
    """Parse a number with all its digits; only integers have an exponent of zero.

    Raises
    ------
    ValueError
        If it has more than 38 digits, or an exponent beyond 308: Spark has no such numbers.

    Examples
    --------
    >>> parse_number("33.50"), parse_number("5."), parse_number("1e5")
    (Decimal('33.50'), Decimal('5.0'), Decimal('1E+5'))
    """
    try:
        value = Decimal(written)
    except InvalidOperation:
        raise ValueError(
            f"numbers have exponents from -{MOST_EXPONENT} to {MOST_EXPONENT}"
        ) from None
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"numbers have at most {MOST_DIGITS} digits")
    if abs(exponent) > MOST_EXPONENT:
        raise ValueError(f"numbers have exponents from -{MOST_EXPONENT} to {MOST_EXPONENT}")
    if exponent == 0 and not written.isdecimal():
        return Decimal((0, (*digits, 0), -1))
    return value


def parse_duration(written: str) -> tuple[int, str]:
    """Parse a duration into amount and unit.

    Raises
    ------
    ValueError
        If its milliseconds overflow a signed 64-bit integer.

    Examples
    --------
    >>> parse_duration("4ms"), parse_duration("15s")
    ((4, 'ms'), (15, 's'))
    """
    unit = written.lstrip("0123456789")
    amount = written.removesuffix(unit)
    if len(amount) > MOST_DIGITS or int(amount) * MILLISECONDS[unit] >= 2**63:
        raise ValueError("a stretch of time has fewer than 2^63 milliseconds")
    return int(amount), unit
