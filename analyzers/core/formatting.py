"""Formatting for display: numbers, untrusted text, and messages without secrets.

The first half formats numbers, truncates long strings, and escapes untrusted text for terminals, YAML, HTML and
spreadsheets. The second half redacts passwords, tokens, keys and folders in messages, URLs and options. Everything
that is logged, stored or shown passes through one of these functions.
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
"""Maximum number of bytes of the HTML or SVG of one object."""
WIDE = 60
"""Maximum number of characters in a table cell."""
SEVERITY_MARKS: Mapping[str, str] = {"error": "◆", "warning": "▲", "info": "●"}
"""Symbol of each severity, the same on pages, in notebooks, reports and messages."""
_MAX_RATIO_DIGITS = 6
"""Maximum number of decimal places of a ratio that is written as a percentage."""
_MAX_PLAIN_NUMBER = 1e15
"""Larger numbers are written with powers of ten."""
_MAX_PERCENT_RATIO = 100
"""Larger ratios are written as numbers, not as percentages."""


class Markup(str):
    """Text that is already safe HTML."""

    __slots__ = ()


def plain(text: Any, max_length: int | None = None) -> str:
    r"""Return text on one line, with non-printable characters escaped; empty text as ``''``.

    Parameters
    ----------
    text : Any
        The value to print.
    max_length : int, optional
        Maximum number of characters; longer text ends with an ellipsis.

    Examples
    --------
    >>> print(plain("a\n\x1b[31mb"), plain(""), plain("abcdef", 4))
    a\n\x1b[31mb '' abc…
    """
    string = str(text)
    start = string if max_length is None else string[: max_length + 1]
    printable = "".join(c if c.isprintable() else repr(c)[1:-1] for c in start)
    return _cut(printable, max_length) or "''"


def one_line(text: str, max_length: int = 2000) -> str:
    r"""Return text on one line, with non-printable characters as spaces, truncated.

    Examples
    --------
    >>> one_line("a\r\nb\u202ec"), one_line("abcdef", 4)
    ('a b c', 'abc…')
    """
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return _cut(line, max_length)


_VISIBLE_COLOUR = r"(?:[01234]|2[2-4]|3[1-79]|9[0-7])"
_CONTROL_CHARACTER = re.compile(
    rf"(?!\x1b\[(?:{_VISIBLE_COLOUR}(?:;{_VISIBLE_COLOUR})*)?m)[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)
"""Control characters, except tab and newline, and characters that reverse the direction of text.

Escape sequences for visible colors are harmless. Sequences that hide text (black, conceal) match.
"""
_FORMULA_START = re.compile(
    r"[=@\t\r]|[+-](?!(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?\Z|inf\Z)", re.IGNORECASE
)
"""The beginning of a formula. A sign begins a formula unless only a number follows."""


def for_terminal(text: str) -> str:
    r"""Escape control characters that could make a terminal hide, forge or send text.

    Line breaks and visible colors stay.

    Examples
    --------
    >>> print(for_terminal("a\x1b]0;title\x07 b\u202ec"))
    a\x1b]0;title\x07 b\u202ec
    """
    return _CONTROL_CHARACTER.sub(lambda match: repr(match[0])[1:-1], text)


_ESCAPED_IN_YAML = re.compile(r"[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
"""Characters that YAML rejects, or treats as the end of a line, unless they are escaped."""


def for_yaml(value: Any) -> str:
    r"""Return a value as YAML on one line, in JSON syntax, in which strings can hold any character.

    In Tidegauge's files, ``${`` begins a variable, so a literal ``${`` is written ``$${``.

    Examples
    --------
    >>> print(for_yaml({"a\x85b": "\N{collision symbol}"}))
    {"a\u0085b": "💥"}
    >>> print(for_yaml("${x}"))
    "$${x}"
    """
    text = json.dumps(value, ensure_ascii=False).replace("${", "$${")
    return _ESCAPED_IN_YAML.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def for_spreadsheet(value: Any) -> Any:
    """Return a CSV cell; text that a spreadsheet would run as a formula begins with an apostrophe.

    Examples
    --------
    >>> [for_spreadsheet(v) for v in ("=1+1", "@x", "-cmd", "-1.5", "+inf", "ds=1", -2, "-2+3")]
    ["'=1+1", "'@x", "'-cmd", '-1.5', '+inf', 'ds=1', -2, "'-2+3"]
    """
    return f"'{value}" if isinstance(value, str) and _FORMULA_START.match(value) else value


def middle_cut(text: str, max_length: int = 4000) -> str:
    """Return the beginning and the end of a message, without the middle if it is too long.

    Examples
    --------
    >>> middle_cut("unknown column 'aaaaaaaaaaaaaaaaaaaa'", 30)
    "unknown colu ... aaaaaaaaaaa'"
    """
    half = (max_length - len(" ... ")) // 2
    return text if len(text) <= max_length else f"{text[:half]} ... {text[-half:]}"


def _cut(text: str, max_length: int | None) -> str:
    return text if max_length is None or len(text) <= max_length else f"{text[: max_length - 1]}…"


def number(value: float) -> str:
    """Format a number for reading.

    Examples
    --------
    >>> number(1234567.8), number(0.123456), number(3.0)
    ('1,234,568', '0.1235', '3')
    >>> number(2.5e300)
    '2.5e+300'
    """
    if 1000 <= abs(value) < _MAX_PLAIN_NUMBER:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def plural(count: int, singular: str, plural_noun: str = "") -> str:
    """Return a number with its noun.

    Parameters
    ----------
    count : int
        The number.
    singular : str
        The noun for the number one.
    plural_noun : str, optional
        The noun for all other numbers (default: the singular with an s).

    Examples
    --------
    >>> plural(1, "partition"), plural(2_000, "partition"), plural(0, "query", "queries")
    ('1 partition', '2,000 partitions', '0 queries')
    """
    noun = singular if count == 1 else plural_noun or f"{singular}s"
    return f"{count:,} {noun}"


def signed_number(value: float) -> str:
    """Format a change for reading, in three digits; large changes as whole numbers.

    Examples
    --------
    >>> signed_number(2.3456), signed_number(-12_345.6), signed_number(0.0)
    ('+2.35', '-12,346', '+0')
    """
    return f"{value:+,.0f}" if 1000 <= abs(value) < _MAX_PLAIN_NUMBER else f"{value:+.3g}"


DURATION = "duration"
"""Display scale of durations in seconds. A metric's own scale decides how its values are compared."""
_SECONDS_BY_UNIT = {"d": 86_400, "h": 3600, "min": 60, "s": 1}


def duration_text(seconds: float, max_units: int | None = 2) -> str:
    """Format a duration in its largest units.

    Parameters
    ----------
    seconds : float
        The duration.
    max_units : int, optional
        Maximum number of units; the duration is rounded to the smallest of them. None writes all digits.

    Examples
    --------
    >>> duration_text(7500), duration_text(-30), duration_text(86_400), duration_text(0.25)
    ('2 h 5 min', '-30 s', '1 d', '0.25 s')
    >>> duration_text(7199.6), duration_text(7199.6, 3), duration_text(7199.6, None)
    ('2 h', '2 h', '1 h 59 min 59.6 s')
    """
    remaining = abs(seconds)
    if not remaining < _MAX_PLAIN_NUMBER:
        return number(seconds)
    units = list(_SECONDS_BY_UNIT.items())
    largest = next((i for i, (_, size) in enumerate(units) if remaining >= size), None)
    if largest is None:
        return f"{seconds:.{3 if max_units else 12}g} s"
    if max_units is not None:
        smallest = units[min(largest + max_units, len(units)) - 1][1]
        remaining = round(remaining / smallest) * smallest
    words = []
    for unit, size in units:
        count, remaining = divmod(remaining, size) if size > 1 else (remaining, 0)
        if count:
            words.append(f"{count:,.12g} {unit}")
    return ("-" if seconds < 0 else "") + " ".join(words)


def measured(value: float, scale: str) -> str:
    """Format a metric's value for reading: a ratio as a percentage, a time in UTC, other values as numbers.

    Durations have the scale `DURATION` here. A ratio is written with three digits, or with more digits if
    needed to distinguish it from 100%.

    Examples
    --------
    >>> measured(0.13781, "ratio"), measured(0.99998, "ratio"), measured(1.0, "ratio")
    ('13.8%', '99.998%', '100%')
    >>> measured(0.13781, "positive"), measured(86_399.7, "time")
    ('0.1378', '1970-01-01 23:59:59')
    """
    if scale == "time":
        return _time(value)
    if scale == DURATION:
        return duration_text(value)
    if scale != "ratio" or not abs(value) <= _MAX_PERCENT_RATIO:  # also true for NaN
        return number(value)
    hundredths = 100 * value
    distance = abs(100 - hundredths)
    digits = 2 - floor(log10(abs(hundredths))) if hundredths else 0
    digits = max(digits, -floor(log10(distance)) if distance else 0, 0)
    text = f"{hundredths:,.{min(digits, _MAX_RATIO_DIGITS)}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return f"{text}%"


def _time(seconds: float) -> str:
    """Format seconds since 1970; times outside of the calendar are written as numbers."""
    try:
        return f"{datetime.fromtimestamp(floor(seconds), UTC):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return number(seconds)


MAX_PERCENT_DIGITS = 12
"""Maximum number of decimal places of `percent`."""


def percent(share: float) -> str:
    """Format a share as a percentage; a negative share as 0%.

    Only a share of 0 is written as 0%, and only 1 as 100%. Other shares get enough digits to differ.

    Examples
    --------
    >>> percent(0.5213), percent(0.0021), percent(0), percent(0.9997), percent(1)
    ('52%', '0.21%', '0%', '99.97%', '100%')
    """
    hundredths = 100 * max(share, 0.0)
    if hundredths == 0:
        return "0%"
    if hundredths < 10:
        return f"{hundredths:.2g}%"
    digits = 0
    while digits < MAX_PERCENT_DIGITS and round(hundredths, digits) == 100 != hundredths:
        digits += 1
    return f"{hundredths:.{digits}f}%"


def percent_change(value: float, usual: float) -> str:
    """Format the relative difference from a positive usual value, as a percentage with a sign.

    Examples
    --------
    >>> percent_change(3, 1060), percent_change(0, 1060), percent_change(1166, 1060)
    ('-99.7%', '-100%', '+10%')
    """
    change = value / usual - 1
    text = percent(abs(change))
    if text == "0%":
        return text
    return f"{'-' if change < 0 else '+'}{text}"


def escaped(text: Any, max_length: int | None = WIDE) -> Markup:
    """Return untrusted text as escaped HTML or XML, truncated.

    Examples
    --------
    >>> escaped("<img onerror='x'>")
    '&lt;img onerror=&#x27;x&#x27;&gt;'
    """
    return Markup(escape(plain(text, max_length)))


def hours_text(hours: float) -> str:
    """Return a duration in minutes, hours or days, whichever reads best.

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
"""Durations from here on are written in days."""


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

_SENSITIVE_WORD = (
    r"(?:password|passwd|passphrase|passfile|pwd|secret|token|credentials?|signature"
    r"|(?:api|access|account|private|secret)[._-]?key)"
)
# Each pattern starts at a word or has a bounded length, so that matching is linear in the length of the input.
_SECRET_NAME = re.compile(
    rf"(?:[\w.-]*{_SENSITIVE_WORD}|sas|pass|auth(?:orization)?|cookie)", re.IGNORECASE
)
_SECRET_IN_NAME = re.compile(
    rf"{_SENSITIVE_WORD}|(?:^|[._-])(?:sas|authorization|cookie|jaas[._-]config)(?:[._-]|$)",
    re.IGNORECASE,
)
# Digits before a slash are a port; an @ after them belongs to the path.
_URL_PASSWORD = re.compile(r"((?<![\w+.-])[\w+.-]+://[^\s/:@?#'\"]*):(?!\d+/)[^\s'\"]{0,1000}@")
_ORACLE_PASSWORD = re.compile(
    r"(jdbc:oracle:\w{1,20}:[^\s/@]{0,200})/[^\s@]{0,1000}@", re.IGNORECASE
)
_FOLDER_PATH = re.compile(r"(?:file:/{0,2}|(?<![\w./:\u2026-]))/(?:[^\s/'\"`,;()\[\]<>]+/)+")
_DATABASE_URL = re.compile(
    r"(?<![\w+.])(?:sqlite(?:\+\w{1,30})?:/{2,4}(?:[^\s/'\"?,;()<>]+/)*"
    r"|(?:jdbc:)?(?:postgres(?:ql)?|mysql|mariadb|oracle|mssql|sqlserver)(?:\+\w{1,30})?://[^\s/'\"?,;()<>]*/?)"
    r"([^\s/'\"?,;()<>]*)(?:\?[^\s'\",;()<>]*)?"
)
"""The URL of a database; the group is the database's name."""
_POSTGRES_SERVER = re.compile(
    r'(?<=server )(?:at|on) "[^"\n]{1,200}"(?: \([^)\n]{1,100}\))?,? port \d{1,5}'
    r'|(?<=host name )"[^"\n]{1,200}"|(?<=for user )"[^"\n]{1,200}"'
)
"""A server, a host and a user in the errors of PostgreSQL's client."""
_WINDOWS_FOLDERS = re.compile(r"(?<![\w])[A-Za-z]:[\\/](?:[^\s\\/'\"`,;()\[\]<>:]+[\\/])*")
_QUOTED_FOLDERS = re.compile(r"(?<=['\"])(?:file:/{0,2})?/(?:[^/'\"\n]+/)+")
_NAME_SUFFIX = r"(?:\.[\w.-]{1,200})?"
"""The rest of a name such as ``fs.azure.account.key.ACCOUNT``."""
_SECRET_OPTION = re.compile(
    rf"((?<![\w.-])(?:[\w.-]*{_SENSITIVE_WORD}{_NAME_SUFFIX}|sig)=)(?:\{{[^}}\n]{{0,1000}}\}}|[^\s&;,'\")]|,(?![\w.-]{{1,60}}=|\s|$))+",
    re.IGNORECASE,
)
"""An option in a message or URL. A comma ends its value if another option or a space follows."""
_QUOTED_SECRET = re.compile(
    rf"((?<![\w.-])[\w.-]*{_SENSITIVE_WORD}{_NAME_SUFFIX}(?:=|['\"]\s{{0,4}}:\s{{0,4}}))(['\"])(?!\2)(?:\\.|(?!\2)[^\\\n]){{0,4000}}\2",
    re.IGNORECASE,
)
"""An option with a quoted value, as in JAAS, or a field in JSON."""
_SECRET_HEADER = re.compile(
    r"((?<![\w.-])(?:[\w-]{0,40}(?:api|access)[_-]?key|authorization|password|passphrase|passwd|pwd)\s{0,4}:\s{1,4}"
    r"(?:(?:Token|Bearer|Basic)\s{1,4})?)[^\s,;'\"]+",
    re.IGNORECASE,
)
"""An HTTP header, or a setting in YAML."""
_WEBHOOK_URL = re.compile(
    r"(https?://(?:hooks\.slack\.com|[\w.-]{0,60}\bdiscord(?:app)?\.com/api/webhooks|[\w.-]{1,100}\.webhook\.office\.com"
    r"|outlook\.office\.com/webhook|api\.telegram\.org|chat\.googleapis\.com/v1/spaces|hooks\.zapier\.com)/)[^\s'\"]+"
    r"|((?<![\w+.-])(?:slack|discord|tgram|msteams|gchat|pover|opsgenie|pagerduty)://)[^\s'\"]+",
    re.IGNORECASE,
)
"""A URL whose path is secret, or the URL of a notification service."""
_BEARER_TOKEN = re.compile(r"(\b(?:Bearer|Basic) )[\w.~+/=-]{8,}", re.IGNORECASE)


def hide_secrets(text: str, options: Mapping[str, Any] | None = None) -> str:
    """Redact passwords in URLs, and values of options such as ``password=``.

    Parameters
    ----------
    text : str
        The message.
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
    for pattern, replacement in _REPLACEMENTS.items():
        text = pattern.sub(replacement, text)
    return text


_REPLACEMENTS = {
    _URL_PASSWORD: r"\1:***@",
    _ORACLE_PASSWORD: r"\1/***@",
    _QUOTED_SECRET: r"\1\2***\2",
    _SECRET_OPTION: r"\1***",
    _SECRET_HEADER: r"\1***",
    _BEARER_TOKEN: r"\1***",
    _WEBHOOK_URL: r"\1\2***",
}
"""Patterns of secrets, and their replacements."""


def hide_folders(text: str) -> str:
    r"""Remove the folders of local paths from a message, except partition folders such as ``ds=1``.

    Messages can be shown on other machines. Database URLs are reduced to the database's name. URLs of other
    file systems stay, since they are not local. A path ends at a space, unless it is in quotes.

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

    text = _DATABASE_URL.sub("\N{HORIZONTAL ELLIPSIS}/\\1", text)
    text = _POSTGRES_SERVER.sub("\N{HORIZONTAL ELLIPSIS}", text)
    text = _WINDOWS_FOLDERS.sub("\N{HORIZONTAL ELLIPSIS}/", text)
    return _FOLDER_PATH.sub(cut, _QUOTED_FOLDERS.sub(cut, text))


def secrets_of(options: Mapping[str, Any]) -> Iterator[str]:
    """Yield the values of settings with names of secrets, such as ``password``, at any depth.

    Examples
    --------
    >>> list(secrets_of({"url": "h", "password": "a", "kafka": {"sasl.password": "b"}}))
    ['a', 'b']
    """
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from secrets_of(value)
        elif value and isinstance(value, str | int) and _SECRET_NAME.fullmatch(str(name)):
            yield str(value)


def is_secret(name: str, value: str) -> bool:
    """Return whether a setting probably holds a password, a token or a key.

    This is the case if its name contains a word for a secret, or if its value is a URL with a password.

    Examples
    --------
    >>> is_secret("spark.hadoop.fs.azure.account.key.mine.dfs.core.windows.net", "c2VjcmV0")
    True
    >>> is_secret("spark.sql.catalog.c.uri", "jdbc:postgresql://host/d?user=me&password=s3cr3t")
    True
    >>> is_secret("spark.sql.shuffle.partitions", "8")
    False
    """
    return bool(_SECRET_IN_NAME.search(name)) or hide_secrets(value) != value
