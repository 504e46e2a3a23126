"""Syntax error messages for rules that do not parse."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from tidegauge.griffin.dsl.diagnostics import LocatedParseError
from tidegauge.griffin.dsl.grammar import tail
from tidegauge.griffin.dsl.hints import Place, hint_for

if TYPE_CHECKING:
    from lark import UnexpectedInput

LONGEST_SHOWN = 40
_CLOSED_BY = {"(": ")", "[": "]", "/*": "*/"}
_OPENED_BY = {")": "(", "]": "["}
_QUOTES = {"'", '"', "`", "/*"}
_OPERAND = frozenset({"NAME", "NUMBER", "TEXT", "LPAR"})
_WORDS: tuple[tuple[frozenset[str], str], ...] = (
    (_OPERAND, "an expression"),
    (frozenset({"WORD", "STAR"}), "a name or *"),
    (frozenset({"WORD"}), "a name"),
    (frozenset({"NAME"}), "a name"),
    (frozenset({"PLUS", "STAR"}), "an operator"),
    (frozenset({"COMPARE"}), "a comparison"),
    (frozenset({"BETWEEN", "LIKE"}), "[NOT] IN, BETWEEN, LIKE or RLIKE"),
    (frozenset({"IS"}), "IS"),
    (frozenset({"NULL", "NAN"}), "[NOT] NULL or NAN"),
    *((frozenset({word}), word) for word in ("IN", "AND", "OR", "AS", "FROM", "WHERE")),
    (frozenset({"GROUP"}), "GROUP BY"),
    *((frozenset({word}), word) for word in ("BY", "HAVING")),
    (frozenset({"ORDER"}), "ORDER BY"),
    *((frozenset({word}), word) for word in ("ASC", "DESC", "LIMIT")),
    (frozenset({"COMMA"}), "','"),
    (frozenset({"DOT"}), "'.'"),
    (frozenset({"LPAR"}), "'('"),
    (frozenset({"LSQB"}), "'['"),
    (frozenset({"RPAR"}), "')'"),
    (frozenset({"RSQB"}), "']'"),
    (frozenset({"$END"}), "end of rule"),
)
_COVERED = {
    "an expression": {
        "NAME",
        "QUOTED",
        "NUMBER",
        "TEXT",
        "TIME",
        "TRUE",
        "FALSE",
        "NULL",
        "NAN",
        "STAR",
        "LPAR",
        "PLUS",
        "MINUS",
        "NOT",
        "BANG",
        "SELECT",
        "DISTINCT",
    },
    "a name or *": {"WORD", "QUOTED", "STAR"},
    "an operator": {"PLUS", "MINUS", "STAR", "SLASH", "PERCENT"},
    "[NOT] IN, BETWEEN, LIKE or RLIKE": {"NOT", "IN", "BETWEEN", "LIKE", "RLIKE"},
}


@dataclass(frozen=True, slots=True)
class _Piece:
    """A token found without regard to the grammar: word, number, text, sign or bracket."""

    start: int
    text: str

    @property
    def end(self) -> int:
        return self.start + len(self.text)


@cache
def _pieces_pattern() -> re.Pattern[str]:
    return re.compile(
        r"(?P<skip>\s++|--[^\n]*+|/\*[\s\S]*?\*/)"
        r"|'[^'\\]*+(?:(?:\\[\s\S]|'')[^'\\]*+)*+'|\"[^\"\\]*+(?:(?:\\[\s\S]|\"\")[^\"\\]*+)*+\""
        r"|`[^`]*+(?:``[^`]*+)*+`"
        rf"|{tail()}++|(?P<unclosed>/\*|['\"`])[\s\S]*+|<=>|[<>!]=|<>|=++|&&|\|\||::|[\s\S]"
    )


def _pieces(text: str) -> list[_Piece]:
    found = _pieces_pattern().finditer(text)
    # What is never closed takes the rest: looked for at each further mark, time would be quadratic.
    return [
        _Piece(match.start(), match["unclosed"] or match[0])
        for match in found
        if match["skip"] is None
    ]


def _expected_tokens(accepted: Iterable[str]) -> tuple[str, ...]:
    left, words = set(accepted), []
    for terminals, word in _WORDS:
        if terminals <= left:
            words.append(word)
            left -= _COVERED.get(word, set(terminals))
    return tuple(words)


def _unclosed_brackets(pieces: Iterable[_Piece]) -> list[int]:
    """Return the positions of unclosed opening brackets among pieces that Lark accepted."""
    opened: list[int] = []
    for number, piece in enumerate(pieces):
        if piece.text in _CLOSED_BY:
            opened.append(number)
        elif piece.text in _OPENED_BY:
            opened.pop()
    return opened


def _unclosed(piece: _Piece, phase: str) -> LocatedParseError:
    mark = _CLOSED_BY.get(piece.text, piece.text)
    return LocatedParseError(
        f"{_shown(piece.text)} is never closed", piece.start, piece.end, phase, (_shown(mark),)
    )


def shorten(text: object) -> str:
    """Return a name in quotes, cut for a message.

    Examples
    --------
    >>> shorten("age"), len(shorten("x" * 30_000))
    ("'age'", 42)
    """
    return repr(_short(text)) if isinstance(text, str) else repr(text)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 1] + "…"


def _shown(text: str) -> str:
    short = _short(text)
    return f"'{short}'" if "'" not in short else f'"{short}"' if '"' not in short else short


def syntax_error(text: str, start: str, error: UnexpectedInput) -> LocatedParseError:
    """Return the syntax error for the place where Lark stopped.

    Parameters
    ----------
    text : str
    start : str
        The start rule of the grammar.
    error : lark.UnexpectedInput
    """
    token = getattr(error, "token", None)
    at = cast("int", error.pos_in_stream)
    if token is not None and token.type == "$END":
        at = len(text)
    pieces = _pieces(text)
    before = [piece for piece in pieces if piece.start < at]
    now = pieces[len(before)] if len(before) < len(pieces) else None
    if not pieces:
        return LocatedParseError("the rule is empty", 0, 1, expected=("an expression",))
    if now and now.text in _QUOTES:
        return _unclosed(now, "lex")
    opened = _unclosed_brackets(before)
    stopped: Any = error.interactive_parser
    accepted = frozenset(stopped.accepts())
    if now is None and opened and accepted & {"RPAR", "RSQB"}:
        return _unclosed(before[opened[-1]], "syntax")
    hint = hint_for(
        Place(
            [piece.text for piece in before],
            _short(now.text) if now else "",
            opened,
            accepted,
            start,
        )
    )
    expected = _expected_tokens(accepted)
    if now is None:
        end = before[-1].end
        return LocatedParseError("the rule ends too early", end, end + 1, "syntax", expected, hint)
    if before and before[-1].end == now.start and before[-1].text[0] in "'\"":
        hint = hint or "a quote within a text is written twice, or after a backslash"
    phase = "lex" if token is None else "syntax"
    return LocatedParseError(
        f"unexpected {_shown(now.text)}", now.start, now.end, phase, expected, hint
    )
