"""Tokens of Spark SQL."""

from __future__ import annotations

import re
from typing import NamedTuple

_TOKEN = re.compile(
    r"--[^\n]*+|/\*[\s\S]*?(?:\*/|\Z)|\s++"
    r"|(?P<token>[rR]'[^']*+(?:'|\Z)|[rR]\"[^\"]*+(?:\"|\Z)"
    r"|'(?:[^'\\]|\\[\s\S]|'')*+(?:'|\\?\Z)|\"(?:[^\"\\]|\\[\s\S]|\"\")*+(?:\"|\\?\Z)"
    r"|`(?:[^`]|``)*+(?:`|\Z)|\w++|\|\||[\s\S])"
)
"""Tokens; one that is not closed extends to the end, so that each letter is read once."""


class Token(NamedTuple):
    """A word, name, literal or sign, and where it begins."""

    text: str
    begin: int


def tokens(text: str) -> list[Token]:
    """Split SQL into tokens, without spaces and comments.

    Examples
    --------
    >>> [token.text for token in tokens("select `a b` || r'x' -- comment")]
    ['select', '`a b`', '||', "r'x'"]
    >>> tokens("a /* ; */;")
    [Token(text='a', begin=0), Token(text=';', begin=9)]
    """
    found = _TOKEN.finditer(text)
    return [Token(m["token"], m.start("token")) for m in found if m["token"]]


def position(text: str, offset: int) -> tuple[int, int]:
    r"""Return the line and the column of an offset, both from 1.

    Examples
    --------
    >>> position("a,\nb", 3)
    (2, 1)
    """
    before = text[:offset]
    return before.count("\n") + 1, offset - before.rfind("\n")
