r"""What literals and names say, and how they are written: as Spark SQL reads them.

In a text between quotes a quote is written twice or after a backslash. The backslash also begins ``\n``, ``\t``,
``\r``, ``\b``, ``\0``, ``\Z``, an octal ``\101``, ``\u0041`` and ``\U00000041``. It stays before ``%`` and
``_``, for patterns, and is dropped before any other letter. In a name between backticks only the backtick is
special; it is written twice.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

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
UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
"""Milliseconds in the units of time."""

MOST_DIGITS = 38
MOST_EXPONENT = 308


def text_of(written: str) -> str:
    r"""Return what a text between quotes says.

    Raises
    ------
    ValueError
        If it names a letter that there is not.

    Examples
    --------
    >>> print(text_of(r"'test\'ing'"), text_of(r"'10\% of ''all'''"))
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
        # Letters beyond the first 65,536 may be written as the two halves that Java has for them.
        said = _ESCAPE.sub(meant, written[1:-1])
        return said.encode("utf-16", "surrogatepass").decode("utf-16")
    except (ValueError, OverflowError):
        raise ValueError("this text names a letter that there is not") from None


def text(value: str) -> str:
    r"""Return a text between quotes.

    Examples
    --------
    >>> print(text("it's"), text("a\\b"))
    'it\'s' 'a\\b'
    """
    return "'" + re.sub(r"[\\'\n\r\t\0]", lambda found: _WRITTEN[found[0]], value) + "'"


def name_of(written: str) -> str:
    """Return a name, less its backticks.

    Raises
    ------
    ValueError
        If nothing stands between them.

    Examples
    --------
    >>> name_of("`a``b`"), name_of("age")
    ('a`b', 'age')
    """
    if written == "``":
        raise ValueError("a name has at least one letter")
    return written[1:-1].replace("``", "`") if written[0] == "`" else str(written)


def number_of(written: str) -> Decimal:
    """Return a number with all its digits; only one of digits alone has an exponent of zero.

    Raises
    ------
    ValueError
        If it has more than 38 digits, or an exponent beyond 308: Spark has no such numbers.

    Examples
    --------
    >>> number_of("33.50"), number_of("5."), number_of("1e5")
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


def time_of(written: str) -> tuple[int, str]:
    """Return the amount and the unit of a stretch of time.

    Raises
    ------
    ValueError
        If it is longer than a count of 64 bits of milliseconds.

    Examples
    --------
    >>> time_of("4ms"), time_of("15s")
    ((4, 'ms'), (15, 's'))
    """
    unit = written.lstrip("0123456789")
    amount = written.removesuffix(unit)
    if len(amount) > MOST_DIGITS or int(amount) * UNITS[unit] >= 2**63:
        raise ValueError("a stretch of time has fewer than 2^63 milliseconds")
    return int(amount), unit
