"""LALR(1) grammar of the DSL for Lark, with a contextual lexer.

Keywords are separate terminals, in any letter case. After a dot and after ``AS`` every word is a
name. Where an expression can begin, every word except those in `RESERVED` is a name; reserved ones
need backticks. As in Griffin, a comparison binds less tightly than ``NOT``: ``NOT a = b`` is
``(NOT a) = b``.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from itertools import groupby

RESERVED = (
    "null", "nan", "true", "false", "not", "and", "or", "in", "between", "like", "rlike", "is",
    "select", "distinct", "from", "as", "where", "having",
)  # fmt: skip
CLAUSES = ("group", "by", "order", "sort", "asc", "desc", "limit")
"""Keywords that are also valid names where an expression can begin."""

_LETTERS = range(0x20000)  # covers every script with combining marks

STARTS = ("accuracy", "profiling", "listing", "distinct", "single", "selected")

# Placeholders: TAIL is the character class for the rest of a name, RESERVED the reserved words,
# KEYWORDS the terminals of all keywords.
_GRAMMAR = r"""
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
    | sum IS [NOT] (NULL | NAN) -> is_what
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
    marks = [i for i in _LETTERS if unicodedata.category(chr(i)) in {"Mn", "Mc"}]
    runs = [
        [i for _, i in run] for _, run in groupby(enumerate(marks), lambda pair: pair[1] - pair[0])
    ]
    ranges = (f"\\U{run[0]:08x}-\\U{run[-1]:08x}" for run in runs)
    return rf"[\w{''.join(ranges)}]"


def grammar() -> str:
    """Return the grammar text for Lark."""
    words = (w for w in (*RESERVED, *CLAUSES) if w not in {"and", "or"})
    keywords = "\n".join(f"{w.upper()}.4: /(?i:{w})(?!TAIL)/" for w in words)
    text = _GRAMMAR.replace("KEYWORDS", keywords).replace("RESERVED", "|".join(RESERVED))
    return text.replace("TAIL", tail())


@cache
def _plain(*, head: bool) -> re.Pattern[str]:
    reserved = rf"(?!(?i:{'|'.join(RESERVED)})(?!{tail()}))" if head else ""
    return re.compile(rf"{reserved}[^\W\d]{tail()}*")


def is_plain(name: str, *, head: bool = True) -> bool:
    """Return whether a name needs no backticks.

    Names at the head of a selection may not be reserved words; those after a dot or ``AS`` may.

    Examples
    --------
    >>> is_plain("source_id"), is_plain("from"), is_plain("from", head=False), is_plain("my col")
    (True, False, True, False)
    """
    return _plain(head=head).fullmatch(name) is not None
