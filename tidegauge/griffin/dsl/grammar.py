r"""LALR(1) grammar of the DSL for Lark, with a contextual lexer, and the values of its literals.

Keywords are separate terminals, in any letter case. After a dot and after ``AS`` every word is a
name. Where an expression can begin, every word except `RESERVED_WORDS` is a name; reserved words
need backticks. As in Griffin, a comparison binds less tightly than ``NOT``: ``NOT a = b`` is
``(NOT a) = b``.

Literals have the escapes of Spark SQL. In a string, a quote is doubled or escaped by a
backslash. The backslash also begins ``\n``, ``\t``, ``\r``, ``\b``, ``\0``, ``\Z``, an octal ``\101``,
``\u0041`` and ``\U00000041``. It is kept before ``%`` and ``_``, for patterns, and dropped before any
other character. In a name in backticks only the backtick is special; it is doubled. Durations, such
as ``2h``, have the same form in rules and in JSON files.
"""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal, InvalidOperation
from functools import cache
from itertools import groupby

MILLISECONDS_BY_UNIT = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_SPELLINGS_BY_UNIT = {
    "d": ("d", "day"),
    "h": ("h", "hr", "hour"),
    "m": ("m", "min", "minute"),
    "s": ("s", "sec", "second"),
    "ms": ("", "ms", "msec", "milli", "millisec", "millisecond"),
}
_MILLISECONDS_BY_SPELLING = {
    name: MILLISECONDS_BY_UNIT[unit] for unit, names in _SPELLINGS_BY_UNIT.items() for name in names
}
_DURATION_PATTERN = re.compile(r"\s*([+-]?[0-9]{1,15})\s*([A-Za-z]*)\s*")


def milliseconds(time: object) -> int:
    """Parse a duration into milliseconds.

    Parameters
    ----------
    time : str or int
        A whole number with optional sign, and a unit in any letter case: ``d``, ``h``, ``m``,
        ``s``, ``ms`` or their singular names. A number alone is milliseconds.

    Raises
    ------
    ValueError
        If it is not a duration.

    Examples
    --------
    >>> milliseconds("2h"), milliseconds("-3 Min"), milliseconds("250"), milliseconds(7)
    (7200000, -180000, 250, 7)
    """
    match = _DURATION_PATTERN.fullmatch(str(time))
    unit = (
        None
        if match is None or isinstance(time, bool)
        else _MILLISECONDS_BY_SPELLING.get(match[2].lower())
    )
    if match is None or unit is None:
        msg = f"{time!r} is not a duration; write a whole number with d, h, m, s or ms, as in '10s'"
        raise ValueError(msg)
    return int(match[1]) * unit


_ESCAPE_PATTERN = re.compile(
    r"\\(?:u(?P<u>[0-9A-Fa-f]{4})|U(?P<long>[0-9A-Fa-f]{8})|(?P<octal>[01][0-7]{2})|(?P<char>[\s\S]))"
    r"|(?P<quote>['\"])(?P=quote)"
)
_ESCAPED_LETTERS = {
    "0": "\0",
    "b": "\b",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "Z": "\x1a",
    "%": "\\%",
    "_": "\\_",
}
_ESCAPE_BY_CHARACTER = {
    "\\": "\\\\",
    "'": "\\'",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\0": "\\0",
}

MAX_DIGITS = 38
MAX_EXPONENT = 308


def parse_text(source: str) -> str:
    r"""Return the value of a quoted string.

    Raises
    ------
    ValueError
        If it escapes a character that does not exist.

    Examples
    --------
    >>> print(parse_text(r"'test\'ing'"), parse_text(r"'10\% of ''all'''"))
    test'ing 10\% of 'all'
    """
    quote_mark = source[0]
    if "\\" not in source and quote_mark not in source[1:-1]:
        return source[1:-1]

    def unescape(match: re.Match[str]) -> str:
        if match["quote"]:
            return quote_mark if match["quote"] == quote_mark else match[0]
        if match["char"]:
            return _ESCAPED_LETTERS.get(match["char"], match["char"])
        if match["octal"]:
            return chr(int(match["octal"], 8))
        return chr(int(match["u"] or match["long"], 16))

    try:
        # Characters beyond the first 65,536 can be written as surrogate pairs, as in Java.
        unescaped = _ESCAPE_PATTERN.sub(unescape, source[1:-1])
        return unescaped.encode("utf-16", "surrogatepass").decode("utf-16")
    except (ValueError, OverflowError):
        raise ValueError("this string escapes a character that does not exist") from None


def quote_text(value: str) -> str:
    r"""Quote a string.

    Examples
    --------
    >>> print(quote_text("it's"), quote_text("a\\b"))
    'it\'s' 'a\\b'
    """
    return "'" + re.sub(r"[\\'\n\r\t\0]", lambda match: _ESCAPE_BY_CHARACTER[match[0]], value) + "'"


def parse_name(source: str) -> str:
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
    if source == "``":
        raise ValueError("a name must not be empty")
    return source[1:-1].replace("``", "`") if source[0] == "`" else str(source)


def parse_number(source: str) -> Decimal:
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
        value = Decimal(source)
    except InvalidOperation:
        raise ValueError(f"numbers have exponents from -{MAX_EXPONENT} to {MAX_EXPONENT}") from None
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"numbers have at most {MAX_DIGITS} digits")
    if abs(exponent) > MAX_EXPONENT:
        raise ValueError(f"numbers have exponents from -{MAX_EXPONENT} to {MAX_EXPONENT}")
    if exponent == 0 and not source.isdecimal():
        return Decimal((0, (*digits, 0), -1))
    return value


def parse_duration(source: str) -> tuple[int, str]:
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
    unit = source.lstrip("0123456789")
    amount = source.removesuffix(unit)
    if len(amount) > MAX_DIGITS or int(amount) * MILLISECONDS_BY_UNIT[unit] >= 2**63:
        raise ValueError("a duration must be shorter than 2^63 milliseconds")
    return int(amount), unit


RESERVED_WORDS = (
    "null", "nan", "true", "false", "not", "and", "or", "in", "between", "like", "rlike", "is",
    "select", "distinct", "from", "as", "where", "having",
)  # fmt: skip
CLAUSE_WORDS = ("group", "by", "order", "sort", "asc", "desc", "limit")
"""Keywords that are also valid names where an expression can begin."""

_CODE_POINTS = range(0x20000)  # covers every script with combining marks

START_RULES = ("accuracy", "profiling", "listing", "distinct", "single", "selected")

# Placeholders: TAIL is the character class for the rest of a name, RESERVED the reserved words,
# KEYWORDS the terminals of all keywords.
_GRAMMAR_TEMPLATE = r"""
accuracy: expression
single: expression
selected: item
listing: item ("," item)*
distinct: _distinct_item ("," _distinct_item)*
_distinct_item: plain | grouping
plain: item
grouping: LSQB item RSQB

profiling: [SELECT] [DISTINCT] items [from_clause] [where_clause] [group_clause] [order_clause] [limit_clause]
items: item ("," item)*
from_clause: FROM (NAME | QUOTED)
where_clause: WHERE expression
group_clause: GROUP BY expressions [HAVING expression]
order_clause: (ORDER | SORT) BY order_item ("," order_item)*
order_item: expression [ASC | DESC]
limit_clause: LIMIT expression

expressions: expression ("," expression)*
?item: expression | expression AS (WORD | QUOTED) -> aliased

?expression: conjunction | conjunction (OR conjunction)+ -> chain
?conjunction: comparison | comparison (AND comparison)+ -> chain
?comparison: predicate | comparison COMPARE predicate -> binary
?predicate: sum
    | (NOT | BANG) predicate -> negated
    | sum [NOT] IN LPAR options RPAR -> within
    | sum [NOT] BETWEEN sum AND sum -> between
    | sum [NOT] BETWEEN LPAR bounds RPAR -> between_listed
    | sum [NOT] (LIKE | RLIKE) sum -> like
    | sum IS [NOT] (NULL | NAN) -> null_test
options: [sum ("," sum)*]
bounds: sum ("," sum)+
?sum: term | sum (PLUS | MINUS) term -> binary
?term: signed | term (STAR | SLASH | PERCENT) signed -> binary
?signed: selection | (PLUS | MINUS) signed -> sign
?selection: NAME -> name
    | QUOTED -> name
    | NUMBER -> number
    | TEXT -> text
    | TIME -> time
    | (TRUE | FALSE) -> boolean
    | NULL -> null
    | NAN -> nan
    | STAR -> star
    | LPAR item RPAR -> bracketed
    | (NAME | QUOTED) LPAR [[DISTINCT] expressions] RPAR -> call
    | selection "." (WORD | QUOTED) -> attribute
    | selection "." (WORD | QUOTED) LPAR [expressions] RPAR -> method
    | selection "." STAR -> all_of
    | selection "[" expression RSQB -> index

NAME: /(?!(?i:RESERVED)(?!TAIL))[^\W\d]TAIL*/
WORD: /[^\W\d]TAIL*/
QUOTED: /`[^`]*+(?:``[^`]*+)*+`/
TEXT: /'[^'\\]*+(?:(?:\\[\s\S]|'')[^'\\]*+)*+'|"[^"\\]*+(?:(?:\\[\s\S]|"")[^"\\]*+)*+"/
TIME.3: /[0-9]++(?:ms|[dhms])(?!TAIL)/
NUMBER.2: /(?:[0-9]++(?:\.[0-9]*)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?(?!TAIL)/
COMPARE: /=(?!=)|!=|<>|<=(?!>)|>=|<(?![=>])|>(?!=)/
BANG: /!(?!=)/
PLUS: "+"
MINUS: /-(?!-)/
STAR: "*"
SLASH: /\/(?!\*)/
PERCENT: "%"
LPAR: "("
RPAR: ")"
LSQB: "["
RSQB: "]"
AND.4: /(?i:and)(?!TAIL)|&&/
OR.4: /(?i:or)(?!TAIL)|\|\|/
KEYWORDS
%ignore /\s++/
%ignore /--[^\n]*+/
%ignore /\/\*[\s\S]*?\*\//
"""


@cache
def tail() -> str:
    """Return the character class for the rest of a name: word characters and combining marks."""
    marks = [i for i in _CODE_POINTS if unicodedata.category(chr(i)) in {"Mn", "Mc"}]
    runs = [
        [i for _, i in run] for _, run in groupby(enumerate(marks), lambda pair: pair[1] - pair[0])
    ]
    ranges = (f"\\U{run[0]:08x}-\\U{run[-1]:08x}" for run in runs)
    return rf"[\w{''.join(ranges)}]"


def grammar() -> str:
    """Return the grammar text for Lark."""
    words = (w for w in (*RESERVED_WORDS, *CLAUSE_WORDS) if w not in {"and", "or"})
    keywords = "\n".join(f"{w.upper()}.4: /(?i:{w})(?!TAIL)/" for w in words)
    text = _GRAMMAR_TEMPLATE.replace("KEYWORDS", keywords).replace(
        "RESERVED", "|".join(RESERVED_WORDS)
    )
    return text.replace("TAIL", tail())


@cache
def _plain(*, head: bool) -> re.Pattern[str]:
    reserved = rf"(?!(?i:{'|'.join(RESERVED_WORDS)})(?!{tail()}))" if head else ""
    return re.compile(rf"{reserved}[^\W\d]{tail()}*")


def is_plain(name: str, *, head: bool = True) -> bool:
    """Return whether a name needs no backticks.

    Names at the head of a selection must not be reserved words; names after a dot or ``AS`` can be.

    Examples
    --------
    >>> is_plain("source_id"), is_plain("from"), is_plain("from", head=False), is_plain("my col")
    (True, False, True, False)
    """
    return _plain(head=head).fullmatch(name) is not None
