"""Redact passwords, tokens and keys in messages, addresses and options."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

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
