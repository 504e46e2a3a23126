"""Text for people: numbers, untrusted text, and messages without secrets.

The first half formats numbers, cuts long text and escapes text of unknown origin for terminals, YAML, HTML
and spreadsheets. The second half redacts passwords, tokens, keys and folders in messages, addresses and options.
Everything that is logged, stored or shown goes through one of the two.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
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


HIDDEN = "***"

_WORD = (
    r"(?:password|passwd|passphrase|passfile|pwd|secret|token|credentials?|signature"
    r"|(?:api|access|account|private|secret)[._-]?key)"
)
# Each begins where a word does, or is of bounded length: linear in the text, however long its words are.
_NAME = re.compile(rf"(?:[\w.-]*{_WORD}|sas|pass|auth(?:orization)?|cookie)", re.IGNORECASE)
_IN_NAME = re.compile(
    rf"{_WORD}|(?:^|[._-])(?:sas|authorization|cookie|jaas[._-]config)(?:[._-]|$)", re.IGNORECASE
)
# Digits before a slash are a port, and an @ after them is of the path.
_USER = re.compile(r"((?<![\w+.-])[\w+.-]+://[^\s/:@?#'\"]*):(?!\d+/)[^\s'\"]{0,1000}@")
_ORACLE = re.compile(r"(jdbc:oracle:\w{1,20}:[^\s/@]{0,200})/[^\s@]{0,1000}@", re.IGNORECASE)
_FOLDERS = re.compile(r"(?:file:/{0,2}|(?<![\w./:\u2026-]))/(?:[^\s/'\"`,;()\[\]<>]+/)+")
_DATABASE = re.compile(
    r"(?<![\w+.])(?:sqlite(?:\+\w{1,30})?:/{2,4}(?:[^\s/'\"?,;()<>]+/)*"
    r"|(?:jdbc:)?(?:postgres(?:ql)?|mysql|mariadb|oracle|mssql|sqlserver)(?:\+\w{1,30})?://[^\s/'\"?,;()<>]*/?)"
    r"([^\s/'\"?,;()<>]*)(?:\?[^\s'\",;()<>]*)?"
)
"""The URL of a database, and its name in it."""
_SERVER = re.compile(
    r'(?<=server )(?:at|on) "[^"\n]{1,200}"(?: \([^)\n]{1,100}\))?,? port \d{1,5}'
    r'|(?<=host name )"[^"\n]{1,200}"|(?<=for user )"[^"\n]{1,200}"'
)
"""A server, a host and a user in the errors of PostgreSQL's client."""
_WINDOWS_FOLDERS = re.compile(r"(?<![\w])[A-Za-z]:[\\/](?:[^\s\\/'\"`,;()\[\]<>:]+[\\/])*")
_QUOTED_FOLDERS = re.compile(r"(?<=['\"])(?:file:/{0,2})?/(?:[^/'\"\n]+/)+")
_OF_WHAT = r"(?:\.[\w.-]{1,200})?"
"""The rest of a name such as ``fs.azure.account.key.ACCOUNT``."""
_OPTION = re.compile(
    rf"((?<![\w.-])(?:[\w.-]*{_WORD}{_OF_WHAT}|sig)=)(?:\{{[^}}\n]{{0,1000}}\}}|[^\s&;,'\")]|,(?![\w.-]{{1,60}}=|\s|$))+",
    re.IGNORECASE,
)
"""An option in a text or an address; a comma ends its value if another option or a blank follows."""
_QUOTED = re.compile(
    rf"((?<![\w.-])[\w.-]*{_WORD}{_OF_WHAT}(?:=|['\"]\s{{0,4}}:\s{{0,4}}))(['\"])(?!\2)(?:\\.|(?!\2)[^\\\n]){{0,4000}}\2",
    re.IGNORECASE,
)
"""An option in quotes, as of JAAS, and a field of JSON."""
_HEADER = re.compile(
    r"((?<![\w.-])(?:[\w-]{0,40}(?:api|access)[_-]?key|authorization|password|passphrase|passwd|pwd)\s{0,4}:\s{1,4}"
    r"(?:(?:Token|Bearer|Basic)\s{1,4})?)[^\s,;'\"]+",
    re.IGNORECASE,
)
"""A header of HTTP, and a setting of YAML."""
_WEBHOOK = re.compile(
    r"(https?://(?:hooks\.slack\.com|[\w.-]{0,60}\bdiscord(?:app)?\.com/api/webhooks|[\w.-]{1,100}\.webhook\.office\.com"
    r"|outlook\.office\.com/webhook|api\.telegram\.org|chat\.googleapis\.com/v1/spaces|hooks\.zapier\.com)/)[^\s'\"]+"
    r"|((?<![\w+.-])(?:slack|discord|tgram|msteams|gchat|pover|opsgenie|pagerduty)://)[^\s'\"]+",
    re.IGNORECASE,
)
"""An address whose path is the secret, and one of a notification service."""
_BEARER = re.compile(r"(\b(?:Bearer|Basic) )[\w.~+/=-]{8,}", re.IGNORECASE)


def hide_secrets(text: str, options: Mapping[str, Any] | None = None) -> str:
    """Redact passwords of addresses, and values of options such as ``password=``, in a text.

    Parameters
    ----------
    text : str
    options : mapping, optional
        Settings whose secret values are redacted wherever they occur; see `secrets_of`.

    Examples
    --------
    >>> hide_secrets("cannot open s3://key:s3cr3t@bucket/t")
    'cannot open s3://key:***@bucket/t'
    >>> hide_secrets("no driver for jdbc:mysql://host/db?user=me&password=s3cr3t")
    'no driver for jdbc:mysql://host/db?user=me&password=***'
    >>> hide_secrets("login of me with s3cr3t failed", {"Password": "s3cr3t"})
    'login of me with *** failed'
    >>> hide_secrets('s3a://AKIA:a/b@bucket, password="x y", {"api_key": "k"}, Bearer eyJhbGciOi, ?sig=a%2B')
    's3a://AKIA:***@bucket, password="***", {"api_key": "***"}, Bearer ***, ?sig=***'
    >>> hide_secrets("fs.azure.account.key.mine=c2VjcmV0 https://hooks.slack.com/services/T0/B0/s3cr3t")
    'fs.azure.account.key.mine=*** https://hooks.slack.com/***'
    >>> hide_secrets("http://host:8080/users/ann@example.org")
    'http://host:8080/users/ann@example.org'
    """
    for secret in sorted(set(secrets_of(options or {})), key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", HIDDEN, text)
    for pattern, kept in _KEPT.items():
        text = pattern.sub(kept, text)
    return text


_KEPT = {
    _USER: r"\1:***@",
    _ORACLE: r"\1/***@",
    _QUOTED: r"\1\2***\2",
    _OPTION: r"\1***",
    _HEADER: r"\1***",
    _BEARER: r"\1***",
    _WEBHOOK: r"\1\2***",
}
"""Patterns of secrets, and what stays of them."""


def hide_folders(text: str) -> str:
    r"""Cut local paths in a text down to what lies in the last folder; folders such as ``ds=1`` are kept.

    For readers on other machines. Of the URL of a database, its name is kept. Addresses of other file systems
    are not local. A path ends at a blank, unless it stands in quotes.

    Examples
    --------
    >>> hide_folders("cannot read file:///home/ann/t/ds=2024-01-05/part-0.parquet")
    'cannot read …/ds=2024-01-05/part-0.parquet'
    >>> hide_folders("denied: '/home/ann/data', s3://bucket/t/x and/or 1/2")
    "denied: '…/data', s3://bucket/t/x and/or 1/2"
    >>> hide_folders("sqlite:////home/ann/x.db, postgresql://ann:***@db.internal:5432/prod?a=1")
    '…/x.db, …/prod'
    >>> hide_folders(r"C:\Users\ann\x.db, postgresql+psycopg://ann@db.internal")
    '…/x.db, …/'
    >>> hide_folders('connection to server at "db.internal" (10.0.0.5), port 5432 failed')
    'connection to server … failed'
    >>> hide_folders("no file '/home/ann smith/t/ds=1/x y.csv' in /srv/t/")
    "no file '…/ds=1/x y.csv' in …/"
    """

    def cut(path: re.Match[str]) -> str:
        values = [part for part in path[0].split("/") if "=" in part]
        return "/".join(["\N{HORIZONTAL ELLIPSIS}", *values, ""])

    text = _DATABASE.sub("\N{HORIZONTAL ELLIPSIS}/\\1", text)
    text = _SERVER.sub("\N{HORIZONTAL ELLIPSIS}", text)
    text = _WINDOWS_FOLDERS.sub("\N{HORIZONTAL ELLIPSIS}/", text)
    return _FOLDERS.sub(cut, _QUOTED_FOLDERS.sub(cut, text))


def secrets_of(options: Mapping[str, Any]) -> Iterator[str]:
    """Yield the values of settings whose names say that they are secret, at any depth.

    Examples
    --------
    >>> list(secrets_of({"url": "h", "password": "a", "kafka": {"sasl.password": "b"}}))
    ['a', 'b']
    """
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from secrets_of(value)
        elif value and isinstance(value, str | int) and _NAME.fullmatch(str(name)):
            yield str(value)


def is_secret(name: str, value: str) -> bool:
    """Return whether a setting looks as if it held a password, a token or a key.

    It does if its name has a word for one anywhere, or if its value is an address with a password.

    Examples
    --------
    >>> is_secret("spark.hadoop.fs.azure.account.key.mine.dfs.core.windows.net", "c2VjcmV0")
    True
    >>> is_secret("spark.sql.catalog.c.uri", "jdbc:postgresql://host/d?user=me&password=s3cr3t")
    True
    >>> is_secret("spark.sql.shuffle.partitions", "8")
    False
    """
    return bool(_IN_NAME.search(name)) or hide_secrets(value) != value
