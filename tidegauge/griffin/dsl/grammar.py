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

`write` turns a syntax tree into rule text, with the fewest brackets possible.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from functools import cache
from itertools import groupby

from tidegauge.griffin.dsl import nodes

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
    "0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_",
}  # fmt: skip
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


# Precedence levels, loosest first.
ALIAS_LEVEL, OR_LEVEL, AND_LEVEL, COMPARISON_LEVEL, PREDICATE_LEVEL = range(5)
SUM_LEVEL, TERM_LEVEL, SIGN_LEVEL, SELECTION_LEVEL = range(5, 9)
_LEVEL_BY_OPERATOR = {
    "or": OR_LEVEL,
    "and": AND_LEVEL,
    **dict.fromkeys("+-", SUM_LEVEL),
    **dict.fromkeys("*/%", TERM_LEVEL),
}


def write(node: nodes.Node) -> str:
    r"""Return the source of a rule or of a part of it; parsing it gives the same tree.

    Examples
    --------
    >>> from tidegauge.griffin.dsl.parser import parse
    >>> write(parse("((a=1)) && (b in ('x',\"y\") || !c)"))
    "a = 1 AND (b IN ('x', 'y') OR NOT c)"
    """
    return _write_with_level(node)[0]


def _write_with_level(node: nodes.Node) -> tuple[str, int]:  # noqa: PLR0911 - one for each kind of node
    """Return the source and the precedence level of a node."""
    match node:
        case nodes.Unary(operator="not"):
            return f"NOT {_write_at_level(node.operand, PREDICATE_LEVEL)}", PREDICATE_LEVEL
        case nodes.Unary():
            operand = _write_at_level(node.operand, SIGN_LEVEL)
            space = " " if operand[0] in "+-" else ""  # two minus signs begin a comment
            return f"{node.operator}{space}{operand}", SIGN_LEVEL
        case nodes.Binary():
            return _write_binary(node)
        case nodes.In() | nodes.BetweenNode() | nodes.LikeNode() | nodes.IsNull() | nodes.IsNaN():
            negation = "NOT " if node.negated else ""
            operand = _write_at_level(node.operand, SUM_LEVEL)
            return f"{operand} {_write_test(node, negation)}", PREDICATE_LEVEL
        case nodes.Aliased() | nodes.OrderItem() | nodes.DistinctItem():
            return _write_item(node), ALIAS_LEVEL
        case nodes.Accuracy():
            return _write_at_level(node.condition, OR_LEVEL), ALIAS_LEVEL
        case nodes.Listing() | nodes.Distinct():
            return _write_list(node.items, ALIAS_LEVEL), ALIAS_LEVEL
        case nodes.Profiling():
            return _write_query(node), ALIAS_LEVEL
        case _:
            return _write_selection(node), SELECTION_LEVEL


def _write_at_level(node: nodes.Node, min_level: int) -> str:
    text, level = _write_with_level(node)
    return text if level >= min_level else f"({text})"


def _write_list(items: Iterable[nodes.Node], min_level: int = OR_LEVEL) -> str:
    return ", ".join(_write_at_level(item, min_level) for item in items)


def _write_name(name: str, *, head: bool = False) -> str:
    return name if is_plain(name, head=head) else "`" + name.replace("`", "``") + "`"


def _write_container(node: nodes.Node) -> str:
    """Return the source left of a dot; a number gets brackets, because the dot would belong to the number."""
    text = _write_at_level(node, SELECTION_LEVEL)
    return f"({text})" if isinstance(node, nodes.Number) else text


def _write_selection(node: nodes.Node) -> str:  # noqa: C901, PLR0911, PLR0912 - one for each kind of node
    """Return the source of a literal, a name or a selection."""
    match node:
        case nodes.Text():
            return quote_text(node.value)
        case nodes.Number():
            return str(node.value)
        case nodes.DurationNode():
            return f"{node.amount}{node.unit}"
        case nodes.Boolean():
            return str(node.value).lower()
        case nodes.Null():
            return "null"
        case nodes.NaN():
            return "nan"
        case nodes.Star():
            return "*"
        case nodes.Name() | nodes.TableNode():
            return _write_name(node.name, head=True)
        case nodes.ColumnNode():
            return f"{_write_name(node.table, head=True)}.{_write_name(node.name)}"
        case nodes.Attribute():
            return f"{_write_container(node.container)}.{_write_name(node.name)}"
        case nodes.AllOf():
            return f"{_write_container(node.container)}.*"
        case nodes.Index():
            return f"{_write_container(node.container)}[{_write_at_level(node.index, OR_LEVEL)}]"
        case nodes.Call(method=True, arguments=(container, *arguments)):
            call = f"{_write_name(node.name)}({_write_list(arguments)})"
            return f"{_write_container(container)}.{call}"
        case nodes.Call():
            distinct = "DISTINCT " if node.distinct else ""
            return f"{_write_name(node.name, head=True)}({distinct}{_write_list(node.arguments)})"
    raise TypeError(f"{type(node).__name__} is not part of a rule")


def _write_binary(node: nodes.Binary) -> tuple[str, int]:
    level = _LEVEL_BY_OPERATOR.get(node.operator, COMPARISON_LEVEL)
    # AND and OR are associative, so the grouping of a chain does not matter.
    right_level = level if node.operator in {"and", "or"} else level + 1
    left, right = _write_at_level(node.left, level), _write_at_level(node.right, right_level)
    if level == COMPARISON_LEVEL:
        left, right = _bracket_negation(node.left, left), _bracket_negation(node.right, right)
    return f"{left} {node.operator.upper()} {right}", level


def _bracket_negation(node: nodes.Node, text: str) -> str:
    """Return one side of a comparison; a negation gets brackets, because SQL's NOT would apply to the whole comparison."""
    negated = isinstance(node, nodes.Unary) and node.operator == "not"
    return f"({text})" if negated else text


def _write_test(
    node: nodes.In | nodes.BetweenNode | nodes.LikeNode | nodes.IsNull | nodes.IsNaN, negation: str
) -> str:
    """Return a test without its operand."""
    match node:
        case nodes.In():
            return f"{negation}IN ({_write_list(node.options, SUM_LEVEL)})"
        case nodes.BetweenNode():
            low, high = _write_at_level(node.low, SUM_LEVEL), _write_at_level(node.high, SUM_LEVEL)
            return f"{negation}BETWEEN {low} AND {high}"
        case nodes.LikeNode():
            word = "RLIKE" if node.regex else "LIKE"
            return f"{negation}{word} {_write_at_level(node.pattern, SUM_LEVEL)}"
        case nodes.IsNull():
            return f"IS {negation}NULL"
        case nodes.IsNaN():
            return f"IS {negation}NAN"


def _write_item(node: nodes.Aliased | nodes.OrderItem | nodes.DistinctItem) -> str:
    match node:
        case nodes.DistinctItem():
            text, _ = _write_with_level(node.expression)
            return f"[{text}]" if node.grouping else text
        case nodes.Aliased():
            suffix = f" AS {_write_name(node.alias)}"
        case nodes.OrderItem():
            suffix = {None: "", True: " DESC", False: " ASC"}[node.descending]
    return _write_at_level(node.expression, OR_LEVEL) + suffix


def _write_query(node: nodes.Profiling) -> str:
    parts = ["SELECT DISTINCT" if node.distinct else "SELECT", _write_list(node.items, ALIAS_LEVEL)]
    if node.table is not None:
        parts += ["FROM", _write_name(node.table, head=True)]
    if node.where is not None:
        parts += ["WHERE", _write_at_level(node.where, OR_LEVEL)]
    if node.group_by:
        parts += ["GROUP BY", _write_list(node.group_by)]
    if node.having is not None:
        parts += ["HAVING", _write_at_level(node.having, OR_LEVEL)]
    if node.order_by:
        parts += ["ORDER BY", _write_list(node.order_by, ALIAS_LEVEL)]
    if node.limit is not None:
        parts += ["LIMIT", _write_at_level(node.limit, OR_LEVEL)]
    return " ".join(parts)
