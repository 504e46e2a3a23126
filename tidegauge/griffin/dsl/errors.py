"""Syntax errors of rules: their place, what was expected there, and a hint.

The parser finds errors by offset (`LocatedParseError`). `syntax_error` makes a message of the
place where Lark stopped; hints name unsupported SQL and common slips.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from tidegauge.analyzers.core.errors import DslError
from tidegauge.griffin.dsl.grammar import CLAUSES, RESERVED, tail

if TYPE_CHECKING:
    from lark import UnexpectedInput


__all__ = ["DslError", "LocatedParseError", "shorten", "syntax_error"]


class LocatedParseError(Exception):
    """Parse error with offsets only; `error` makes a `DslError` of it once the text is available.

    Parameters
    ----------
    message : str
    start, end : int
        Offsets.
    phase : str
    expected : tuple of str
    hint : str or None
    """

    def __init__(
        self,
        message: str,
        start: int,
        end: int,
        phase: str = "syntax",
        expected: tuple[str, ...] = (),
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message, self.start, self.end = message, start, end
        self.phase, self.expected, self.hint = phase, expected, hint

    def error(self, text: str, rule: str | None = None) -> DslError:
        r"""Return the user-facing `DslError` with line and columns.

        Examples
        --------
        >>> error = LocatedParseError("there is no such thing", 7, 11).error("a = 1\nb zzzz c")
        >>> error.line, error.column, error.end_column
        (2, 2, 6)
        """
        before = text[: self.start]
        column = len(before) - (before.rfind("\n") + 1) + 1
        width = len(text[self.start : self.end].split("\n", 1)[0])
        return DslError(
            self.message,
            text,
            before.count("\n") + 1,
            column,
            column + width,
            self.expected,
            self.phase,
            self.hint,
            rule,
        )


_JOINS = {
    "join",
    "inner",
    "left",
    "right",
    "full",
    "cross",
    "outer",
    "semi",
    "anti",
    "natural",
    ",",
}
_SETS = {"union", "intersect", "except", "minus"}
_OTHER_LIKES = {"ilike", "regexp", "similar"}
_UNITS = {"ms", "d", "h", "m", "s"}


@dataclass(frozen=True, slots=True)
class Place:
    """Position at which parsing stopped.

    Attributes
    ----------
    before : sequence of str
        Tokens read so far: words, numbers, texts and signs.
    now : str
        The token that could not be read; empty at the end.
    opened : sequence of int
        Indexes into ``before`` of brackets that are still open.
    accepted : frozenset of str
        The terminals that the grammar accepts here.
    start : str
        The start rule of the grammar.
    """

    before: Sequence[str]
    now: str
    opened: Sequence[int]
    accepted: frozenset[str]
    start: str

    @property
    def word(self) -> str:
        """The unexpected token, in lower case."""
        return self.now.lower()

    @property
    def upper(self) -> str:
        """The unexpected token, in upper case."""
        return self.now.upper()

    @property
    def last(self) -> str:
        """The last token read, in lower case."""
        return self.before[-1].lower() if self.before else ""

    @property
    def call(self) -> str:
        """The word before the innermost open bracket, in lower case."""
        at = self.opened[-1] if self.opened else 0
        return self.before[at - 1].lower() if at else ""

    @property
    def closed(self) -> str:
        """The word before the bracket just closed, in lower case; empty unless `last` is ``)``."""
        depth = 0
        for at in range(len(self.before) - 1, -1, -1) if self.last == ")" else ():
            depth += (self.before[at] == ")") - (self.before[at] == "(")
            if not depth:
                return self.before[at - 1].lower() if at else ""
        return ""

    @property
    def is_word(self) -> bool:
        """True if the unexpected token is a word, which may be a keyword."""
        return re.match(r"[^\W\d]", self.now) is not None

    @property
    def after_value(self) -> bool:
        """True if a value may have ended before the token."""
        return bool(self.before) and "NAME" not in self.accepted

    @property
    def plain(self) -> str:
        """The ASCII sign that a single look-alike character stands for, else empty."""
        sign = {"“": '"', "”": '"', "‘": "'", "’": "'", "。": ".", "、": ","}.get(self.now)  # noqa: RUF001 - these
        plain = sign or unicodedata.normalize("NFKC", self.now)
        return plain if plain != self.now and len(plain) == 1 and plain.isascii() else ""


def _unit(place: Place) -> str:
    return place.word.lstrip("0123456789")


_HINTS: tuple[tuple[Callable[[Place], object], str], ...] = (
    (lambda p: set(p.now) == {"="} and len(p.now) > 1, "equality is one sign: ="),
    (
        lambda p: p.now == "<=>",
        "write =; whether nulls are equal is said by null.match in the rule's details",
    ),
    (lambda p: p.now == ";", "a rule ends without a semicolon"),
    (lambda p: p.now == "&", "write && or AND"),
    (lambda p: p.now == "|", "write || or OR"),
    (
        lambda p: p.now == "::",
        "there are no casts; call the function of the type, such as int(age)",
    ),
    (lambda p: p.plain, "write {p.plain} for it"),
    (
        lambda p: p.now[:1].isdigit() and p.now != p.word and _unit(p) in _UNITS,
        "units of time are in lower case: {p.word}",
    ),
    (
        lambda p: p.now[:1].isdigit() and _unit(p) and "NUMBER" in p.accepted,
        "units of time are d, h, m, s and ms; a name that begins with a digit is written in backticks: `{p.now}`",
    ),
    (
        lambda p: p.now[:1].isdigit() and p.last == ".",
        "a name that begins with a digit is written in backticks: `{p.now}`",
    ),
    (
        lambda p: p.last == "case" or p.word in {"when", "then"},
        "there is no CASE; write if(condition, value, other)",
    ),
    (
        lambda p: p.word == "as" and p.call in {"cast", "try_cast"},
        "there is no CAST; call the function of the type, such as int(age)",
    ),
    (
        lambda p: p.word == "as" and p.after_value,
        "an alias stands at the end of an item, or within brackets: (a AS b)",
    ),
    (
        lambda p: p.word == "select" and p.last == "(",
        "there are no subqueries; make it an earlier rule of spark-sql",
    ),
    (
        lambda p: (
            p.start != "profiling"
            and p.word in {"select", "from", "where", "group", "order", "sort", "limit"}
            and (p.after_value or not p.before)
        ),
        "only rules of profiling are queries, with {p.upper}",
    ),
    (lambda p: p.word == "having", "HAVING follows GROUP BY"),
    (
        lambda p: p.word in _JOINS and "from" in map(str.lower, p.before[-2:]),
        "a rule reads one table; join them in an earlier rule of spark-sql",
    ),
    (
        lambda p: p.now == "." and [w.lower() for w in p.before[-2:-1]] == ["from"],
        "a table has one name; if a dot is in it, write it in backticks",
    ),
    (
        lambda p: p.now == "," and p.start in {"accuracy", "single"} and not p.opened,
        "this is one condition; join several by AND",
    ),
    (
        lambda p: p.word in _SETS and p.after_value,
        "there are no set operations; make them an earlier rule of spark-sql",
    ),
    (lambda p: p.word == "over" and p.last == ")", "there are no window functions"),
    (lambda p: p.word in _OTHER_LIKES, "there are LIKE and RLIKE"),
    (lambda p: p.now == "!" and p.after_value, "write NOT IN, NOT BETWEEN, NOT LIKE or !="),
    (lambda p: p.now in {")", "]"} and not p.opened, "no bracket is open here"),
    (
        lambda p: (
            p.last == "is" or (p.last == "not" and p.before[-2:-1] and p.before[-2].lower() == "is")
        ),
        "IS asks for NULL or NAN only; compare others by =",
    ),
    (
        lambda p: p.closed == "between" and "AND" in p.accepted,
        "BETWEEN has two bounds: BETWEEN 3 AND 5, or BETWEEN (3, 5)",
    ),
    (
        lambda p: p.last == ".",
        "after a dot stands a name; one that is more than a word is written in backticks",
    ),
    (
        lambda p: p.word in {*RESERVED, *CLAUSES} and "NAME" in p.accepted,
        "to use it as a name, write it in backticks: `{p.now}`",
    ),
    (lambda p: p.last == "," and "NAME" in p.accepted, "a comma stands between two items only"),
    (
        lambda p: p.now[:1] in {"'", '"'} and p.after_value and p.before and p.last.isidentifier(),
        "call it as a function: {p.last}({p.now})",
    ),
    (
        lambda p: (
            p.word in {"from", "where", "group", "order", "sort", "limit"} and "RPAR" in p.accepted
        ),
        "a bracket before it is not closed",
    ),
    (
        lambda p: p.is_word and "AS" in p.accepted,
        "to give the item a name, write AS {p.now}; else an operator or a comma is missing",
    ),
)


def hint_for(place: Place) -> str | None:
    """Return a hint, or None.

    Examples
    --------
    >>> accepted = frozenset({"PLUS", "AND", "$END"})
    >>> hint_for(Place(["a", "=", "b"], ";", [], accepted, "accuracy"))
    'a rule ends without a semicolon'
    """
    found = next((hint for fits, hint in _HINTS if fits(place)), None)
    return found.format(p=place) if found else None


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
