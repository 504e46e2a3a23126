"""Expand and redact sink addresses, which are secrets or contain them."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cached_property
from hashlib import pbkdf2_hmac
from urllib.parse import unquote, unquote_plus

from tidegauge.analyzers.core.errors import SuiteError

_VARIABLE = re.compile(r"\$\{(\w+)\}")
_NAME = re.compile(r"[A-Za-z][\w.-]{0,29}")
_SCHEME = re.compile(r"([A-Za-z][\w+.-]{0,29}):(//)?")
_BETWEEN = re.compile(r"[/:@?&=+,;#\s]+")
_SHORTEST = 3
"""Shortest part to redact: shorter ones are no secrets and occur in other words."""


def expanded(text: str) -> str:
    """Substitute environment variables for ``${NAME}`` in a text.

    Raises
    ------
    SuiteError
        If a variable is not set or empty.
    """

    def value(found: re.Match[str]) -> str:
        if given := os.environ.get(found[1]):
            return given
        msg = f"a sink is {found[0]}, but the environment has no {found[1]}"
        raise SuiteError(msg)

    return _VARIABLE.sub(value, text.strip())


def redact(text: str) -> str:
    """Redact a sink's text to what may be stored and shown: its kind and its variables.

    Examples
    --------
    >>> redact("log"), redact("${SLACK}"), redact("mailto://me:hunter2@host?to=${TO}")
    ('log', '${SLACK}', 'mailto://***${TO}')
    """
    if _NAME.fullmatch(text):
        return text
    scheme = _SCHEME.match(text)
    kind = scheme[0] if scheme else ""
    parts = _VARIABLE.split(text[len(kind) :])
    shown = (f"${{{part}}}" if at % 2 else part and "***" for at, part in enumerate(parts))
    return kind + "".join(shown)


def identity(address: str) -> str:
    """Return an identifier of an address: its scheme, and a short hash of the whole.

    The hash is slow (PBKDF2), so that a password cannot be found by trying many.

    Examples
    --------
    >>> identity("pager"), identity("json://localhost/")
    ('pager', 'json:f9c3a20f')
    """
    kind, colon, _ = address.partition(":")
    if not colon:
        return kind
    return f"{kind}:{pbkdf2_hmac('sha256', address.encode(), b'tidegauge', 100_000, 4).hex()}"


@dataclass(frozen=True, repr=False)
class Mask:
    """Redaction of the parts of an address in texts.

    Parameters
    ----------
    address : str

    Examples
    --------
    >>> Mask("slack://T1JJ/A%40B").hide("no such team: t1jj; A@B is no token")
    'no such team: ***; *** is no token'
    """

    address: str

    @cached_property
    def _parts(self) -> re.Pattern[str] | None:
        raw = [self.address, *_BETWEEN.split(self.address.partition(":")[2])]
        parts = {way(part) for part in raw for way in (str, unquote, unquote_plus)}
        some = sorted((p for p in parts if len(p) >= _SHORTEST), key=lambda p: (-len(p), p))
        return re.compile("|".join(map(re.escape, some)), re.IGNORECASE) if some else None

    def hide(self, text: str) -> str:
        """Redact a text; if the address has no colon, it is a plain name and nothing is redacted."""
        if ":" not in self.address or self._parts is None:
            return text
        return self._parts.sub("***", text)
