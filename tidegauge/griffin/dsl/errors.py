"""Syntax errors of rules: the position, the expected tokens, and a hint.

The parser finds errors by offset (`LocatedParseError`). `syntax_error` returns an error for the
position where Lark stopped. Hints name unsupported SQL and common mistakes.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from tidegauge.analyzers.core.errors import DslError
from tidegauge.griffin.dsl.grammar import CLAUSE_WORDS, RESERVED_WORDS, tail

if TYPE_CHECKING:
    from lark import UnexpectedInput


__all__ = ["DslError", "LocatedParseError", "position", "shorten", "syntax_error"]


def position(source: str, offset: int) -> tuple[int, int]:
    r"""Return the line and column of an offset. Both start at 1.

    Examples
    --------
    >>> position("a,\nb", 3)
    (2, 1)
    """
    prefix = source[:offset]
    return prefix.count("\n") + 1, offset - prefix.rfind("\n")


class LocatedParseError(Exception):
    """Parse error with offsets only; `error` returns the `DslError` for the rule's source.

    Parameters
    ----------
    message : str
        The problem.
    start, end : int
        Offsets of the wrong token.
    phase : str
        ``lex`` or ``syntax``.
    expected : tuple of str
        Descriptions of the tokens that are valid at this position.
    hint : str or None
        How to fix a common mistake.
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

    def error(self, source: str, rule: str | None = None) -> DslError:
        r"""Return the user-facing `DslError` with line and columns.

        Examples
        --------
        >>> error = LocatedParseError("there is no such thing", 7, 11).error("a = 1\nb zzzz c")
        >>> error.line, error.column, error.end_column
        (2, 2, 6)
        """
        line, column = position(source, self.start)
        width = len(source[self.start : self.end].split("\n", 1)[0])
        return DslError(
            self.message,
            source,
            line,
            column,
            column + width,
            self.expected,
            self.phase,
            self.hint,
            rule,
        )


_JOIN_WORDS = {
    "join", "inner", "left", "right", "full", "cross", "outer", "semi", "anti", "natural", ",",
}  # fmt: skip
_SET_OPERATORS = {"union", "intersect", "except", "minus"}
_OTHER_LIKES = {"ilike", "regexp", "similar"}
_TIME_UNITS = {"ms", "d", "h", "m", "s"}


@dataclass(frozen=True, slots=True)
class Place:
    """Position at which parsing stopped.

    Attributes
    ----------
    before : sequence of str
        Tokens read so far: words, numbers, strings and signs.
    now : str
        The token that could not be read; empty at the end.
    opened : sequence of int
        Indexes into ``before`` of brackets that are still open.
    accepted : frozenset of str
        The terminals that the grammar accepts here.
    start : str
        The start symbol of the grammar.
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
        """The token before the innermost open bracket, in lower case."""
        index = self.opened[-1] if self.opened else 0
        return self.before[index - 1].lower() if index else ""

    @property
    def closed(self) -> str:
        """The token before the bracket that was just closed, in lower case; empty unless `last` is ``)``."""
        depth = 0
        for index in range(len(self.before) - 1, -1, -1) if self.last == ")" else ():
            depth += (self.before[index] == ")") - (self.before[index] == "(")
            if not depth:
                return self.before[index - 1].lower() if index else ""
        return ""

    @property
    def is_word(self) -> bool:
        """Whether the unexpected token is a word or keyword."""
        return re.match(r"[^\W\d]", self.now) is not None

    @property
    def after_value(self) -> bool:
        """Whether a value may have ended before the token."""
        return bool(self.before) and "NAME" not in self.accepted

    @property
    def plain(self) -> str:
        """The ASCII sign that a single look-alike character replaces, otherwise empty."""
        sign = {"“": '"', "”": '"', "‘": "'", "’": "'", "。": ".", "、": ","}.get(self.now)  # noqa: RUF001 - these
        plain = sign or unicodedata.normalize("NFKC", self.now)
        return plain if plain != self.now and len(plain) == 1 and plain.isascii() else ""


def _time_unit(position: Place) -> str:
    return position.word.lstrip("0123456789")


_HINT_RULES: tuple[tuple[Callable[[Place], object], str], ...] = (
    (lambda p: set(p.now) == {"="} and len(p.now) > 1, "write one equals sign: ="),
    (
        lambda p: p.now == "<=>",
        "write =, and choose in the rule's details by null.match whether nulls are equal",
    ),
    (lambda p: p.now == ";", "remove the semicolon at the end of the rule"),
    (lambda p: p.now == "&", "write && or AND"),
    (lambda p: p.now == "|", "write || or OR"),
    (
        lambda p: p.now == "::",
        "casts are not supported; call the function of the type, such as int(age)",
    ),
    (lambda p: p.plain, "write {p.plain} instead"),
    (
        lambda p: p.now[:1].isdigit() and p.now != p.word and _time_unit(p) in _TIME_UNITS,
        "write units of time in lower case: {p.word}",
    ),
    (
        lambda p: p.now[:1].isdigit() and _time_unit(p) and "NUMBER" in p.accepted,
        "units of time are d, h, m, s and ms; put a name that begins with a digit in backticks: `{p.now}`",
    ),
    (
        lambda p: p.now[:1].isdigit() and p.last == ".",
        "put a name that begins with a digit in backticks: `{p.now}`",
    ),
    (
        lambda p: p.last == "case" or p.word in {"when", "then"},
        "CASE is not supported; write if(condition, value, other)",
    ),
    (
        lambda p: p.word == "as" and p.call in {"cast", "try_cast"},
        "CAST is not supported; call the function of the type, such as int(age)",
    ),
    (
        lambda p: p.word == "as" and p.after_value,
        "write an alias at the end of an item, or within brackets: (a AS b)",
    ),
    (
        lambda p: p.word == "select" and p.last == "(",
        "subqueries are not supported; write an earlier rule with dsl.type spark-sql",
    ),
    (
        lambda p: (
            p.start != "profiling"
            and p.word in {"select", "from", "where", "group", "order", "sort", "limit"}
            and (p.after_value or not p.before)
        ),
        "only profiling rules can use {p.upper}",
    ),
    (lambda p: p.word == "having", "write HAVING after GROUP BY"),
    (
        lambda p: p.word in _JOIN_WORDS and "from" in map(str.lower, p.before[-2:]),
        "a rule reads one table; join tables in an earlier rule with dsl.type spark-sql",
    ),
    (
        lambda p: p.now == "." and [w.lower() for w in p.before[-2:-1]] == ["from"],
        "put a table name with a dot in backticks",
    ),
    (
        lambda p: p.now == "," and p.start in {"accuracy", "single"} and not p.opened,
        "write one condition; combine several with AND",
    ),
    (
        lambda p: p.word in _SET_OPERATORS and p.after_value,
        "set operations are not supported; write an earlier rule with dsl.type spark-sql",
    ),
    (lambda p: p.word == "over" and p.last == ")", "window functions are not supported"),
    (lambda p: p.word in _OTHER_LIKES, "use LIKE or RLIKE"),
    (lambda p: p.now == "!" and p.after_value, "write NOT IN, NOT BETWEEN, NOT LIKE or !="),
    (lambda p: p.now in {")", "]"} and not p.opened, "no bracket is open here"),
    (
        lambda p: (
            p.last == "is" or (p.last == "not" and p.before[-2:-1] and p.before[-2].lower() == "is")
        ),
        "use IS only with NULL or NAN, and = for other values",
    ),
    (
        lambda p: p.closed == "between" and "AND" in p.accepted,
        "BETWEEN has two bounds: BETWEEN 3 AND 5, or BETWEEN (3, 5)",
    ),
    (
        lambda p: p.last == ".",
        "write a name after a dot; put a name that is not a plain word in backticks",
    ),
    (
        lambda p: p.word in {*RESERVED_WORDS, *CLAUSE_WORDS} and "NAME" in p.accepted,
        "to use it as a name, put it in backticks: `{p.now}`",
    ),
    (lambda p: p.last == "," and "NAME" in p.accepted, "remove the comma, or add an item after it"),
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
        "to name the item, write AS {p.now}; otherwise add the missing operator or comma",
    ),
)


def hint_for(position: Place) -> str | None:
    """Return the first hint that fits the position, or None.

    Examples
    --------
    >>> accepted = frozenset({"PLUS", "AND", "$END"})
    >>> hint_for(Place(["a", "=", "b"], ";", [], accepted, "accuracy"))
    'remove the semicolon at the end of the rule'
    """
    hint_template = next((hint for fits, hint in _HINT_RULES if fits(position)), None)
    return hint_template.format(p=position) if hint_template else None


MAX_QUOTED_CHARS = 40
_CLOSED_BY = {"(": ")", "[": "]", "/*": "*/"}
_OPENED_BY = {")": "(", "]": "["}
_QUOTE_MARKS = {"'", '"', "`", "/*"}
_OPERAND_TOKENS = frozenset({"NAME", "NUMBER", "TEXT", "LPAR"})
_TOKEN_DESCRIPTIONS: tuple[tuple[frozenset[str], str], ...] = (
    (_OPERAND_TOKENS, "an expression"),
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
_TOKENS_BY_DESCRIPTION = {
    "an expression": {
        "NAME", "QUOTED", "NUMBER", "TEXT", "TIME", "TRUE", "FALSE", "NULL", "NAN", "STAR", "LPAR",
        "PLUS", "MINUS", "NOT", "BANG", "SELECT", "DISTINCT",
    },
    "a name or *": {"WORD", "QUOTED", "STAR"},
    "an operator": {"PLUS", "MINUS", "STAR", "SLASH", "PERCENT"},
    "[NOT] IN, BETWEEN, LIKE or RLIKE": {"NOT", "IN", "BETWEEN", "LIKE", "RLIKE"},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Piece:
    """A token, independent of the grammar: word, number, string, sign or bracket."""

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


def _split_pieces(source: str) -> list[_Piece]:
    matches = _pieces_pattern().finditer(source)
    # An unclosed quote or comment extends to the end; testing each later mark would take quadratic time.
    return [
        _Piece(match.start(), match["unclosed"] or match[0])
        for match in matches
        if match["skip"] is None
    ]


def _expected_tokens(accepted: Iterable[str]) -> tuple[str, ...]:
    remaining, words = set(accepted), []
    for terminals, word in _TOKEN_DESCRIPTIONS:
        if terminals <= remaining:
            words.append(word)
            remaining -= _TOKENS_BY_DESCRIPTION.get(word, set(terminals))
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


def _unclosed_error(piece: _Piece, phase: str) -> LocatedParseError:
    mark = _CLOSED_BY.get(piece.text, piece.text)
    return LocatedParseError(
        f"{_quoted(piece.text)} is never closed", piece.start, piece.end, phase, (_quoted(mark),)
    )


def shorten(text: object) -> str:
    """Return a name in quotes, shortened for a message.

    Examples
    --------
    >>> shorten("age"), len(shorten("x" * 30_000))
    ("'age'", 42)
    """
    return repr(_truncated(text)) if isinstance(text, str) else repr(text)


def _truncated(text: str) -> str:
    return text if len(text) <= MAX_QUOTED_CHARS else text[: MAX_QUOTED_CHARS - 1] + "…"


def _quoted(text: str) -> str:
    short = _truncated(text)
    return f"'{short}'" if "'" not in short else f'"{short}"' if '"' not in short else short


def syntax_error(source: str, start: str, error: UnexpectedInput) -> LocatedParseError:
    """Return the syntax error for the position where Lark stopped.

    Parameters
    ----------
    source : str
        The rule's source.
    start : str
        The start symbol of the grammar.
    error : lark.UnexpectedInput
        The error of Lark.
    """
    token = getattr(error, "token", None)
    offset = cast("int", error.pos_in_stream)
    if token is not None and token.type == "$END":
        offset = len(source)
    pieces = _split_pieces(source)
    read = [piece for piece in pieces if piece.start < offset]
    unexpected = pieces[len(read)] if len(read) < len(pieces) else None
    if not pieces:
        return LocatedParseError("the rule is empty", 0, 1, expected=("an expression",))
    if unexpected and unexpected.text in _QUOTE_MARKS:
        return _unclosed_error(unexpected, "lex")
    opened = _unclosed_brackets(read)
    parser: Any = error.interactive_parser
    accepted = frozenset(parser.accepts())
    if unexpected is None and opened and accepted & {"RPAR", "RSQB"}:
        return _unclosed_error(read[opened[-1]], "syntax")
    hint = hint_for(
        Place(
            [piece.text for piece in read],
            _truncated(unexpected.text) if unexpected else "",
            opened,
            accepted,
            start,
        )
    )
    expected = _expected_tokens(accepted)
    if unexpected is None:
        end = read[-1].end
        return LocatedParseError("the rule ends too early", end, end + 1, "syntax", expected, hint)
    if read and read[-1].end == unexpected.start and read[-1].text[0] in "'\"":
        hint = hint or "write a quote within a string twice, or after a backslash"
    phase = "lex" if token is None else "syntax"
    return LocatedParseError(
        f"unexpected {_quoted(unexpected.text)}",
        unexpected.start,
        unexpected.end,
        phase,
        expected,
        hint,
    )
