"""SQL that users write, as tokens and trees of sqlglot: the only module that imports it.

Trees and tokens serve to recognise what a text says. Spark gets the user's own text, edited at the
places of tokens if need be, and never SQL that is generated from a tree. What sqlglot cannot parse has
no tree and is left to Spark, whose grammar is larger.

Callers compare `Tree.key`, the lower-case name of a node's class, and so need no import of sqlglot.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

    Tree: TypeAlias = Expr

MAX_CHARACTERS = 250_000
"""Longer text is not parsed. sqlglot reads a list of 20,000 values, which is so long, in half a second."""
MAX_NESTED_BRACKETS = 24
"""Deeper text is not parsed: sqlglot calls up to 25 functions per bracket, of Python's 1,000."""
_OPENING = frozenset({"L_PAREN", "L_BRACKET", "L_BRACE"})
_CLOSING = frozenset({"R_PAREN", "R_BRACKET", "R_BRACE"})
_BEFORE_OPERAND = frozenset({"NOT", "DASH", "PLUS", "TILDE"})
_is_parsing: ContextVar[bool] = ContextVar("is_parsing", default=False)


class Token(NamedTuple):
    """A word, name, literal or sign: its kind by `sqlglot.tokens.TokenType`, and its place."""

    kind: str
    begin: int
    end: int

    @property
    def nesting(self) -> int:
        """1 for an opening bracket, -1 for a closing one, else 0."""
        return (self.kind in _OPENING) - (self.kind in _CLOSING)


@cache
def _sqlglot() -> tuple[Any, Any, Any]:
    """Import sqlglot, which takes 0.2 s; return its tokenizer and dialect of Spark, and its nodes' classes."""
    from sqlglot import exp
    from sqlglot.dialects.spark import Spark

    class SparkTokenizer(Spark.Tokenizer):
        COMMANDS: ClassVar[Any] = set()  # else a column named ``show`` begins a command

    # It warns of each statement that it does not know.
    logging.getLogger("sqlglot").addFilter(lambda _: not _is_parsing.get())
    return SparkTokenizer, Spark(), exp


def _raw_tokens(sql: str) -> list[Any]:
    """Return the tokens of sqlglot; none for a text that it cannot read."""
    if len(sql) > MAX_CHARACTERS:
        return []
    tokenizer, spark, _ = _sqlglot()
    try:
        tokens = tokenizer(dialect=spark).tokenize(sql)
    except Exception:  # noqa: BLE001 - sqlglot raises several kinds of errors
        return []
    # It reads 5BD as 5::DECIMAL, three tokens in the same place; the first is the literal.
    return list({token.start: token for token in reversed(tokens)}.values())[::-1]


def tokenize(sql: str) -> tuple[Token, ...]:
    """Return the tokens of a text without comments; none if a quote is not closed, or the text is too long.

    Examples
    --------
    >>> sql = "`a b` <=> 'it' -- comment"
    >>> [(token.kind, sql[token.begin : token.end]) for token in tokenize(sql)]
    [('IDENTIFIER', '`a b`'), ('NULLSAFE_EQ', '<=>'), ('STRING', "'it'")]
    >>> tokenize("a = 'it")
    ()
    """
    return tuple(Token(raw.token_type.name, raw.start, raw.end + 1) for raw in _raw_tokens(sql))


def has_comments(sql: str) -> bool:
    """Return whether there is more than spaces between the tokens of a text.

    Examples
    --------
    >>> has_comments("a > '--'"), has_comments("a > /* its bound */ 1")
    (False, True)
    """
    places = [0, *(place for token in tokenize(sql) for place in token[1:]), len(sql)]
    return any(sql[begin:end].strip() for begin, end in zip(places[::2], places[1::2], strict=True))


def split_list(sql: str) -> list[str]:
    """Split a text at the commas outside of brackets, without spaces and comments around the parts.

    Examples
    --------
    >>> split_list("a, f(b, c), 'd,e' -- comment")
    ['a', 'f(b, c)', "'d,e'"]
    """
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokenize(sql):
        depth += token.nesting
        if token.kind == "COMMA" and not depth:
            parts.append([])
        else:
            parts[-1].append(token)
    return [sql[part[0].begin : part[-1].end] if part else "" for part in parts]


def parse_expression(sql: str) -> Tree | None:
    """Return the tree of an expression; None if sqlglot cannot parse it.

    Examples
    --------
    >>> tree = parse_expression("price > 5")
    >>> tree.key, tree.this.key, tree.expression.name
    ('gt', 'column', '5')
    >>> parse_expression("price >") is None
    True
    """
    return _parse(sql, is_query=False)


def parse_query(sql: str) -> Tree | None:
    """Return the tree of one query; None if sqlglot cannot parse it, or the text is no query.

    Examples
    --------
    >>> parse_query("WITH a AS (SELECT 1) FROM a SELECT *").key, parse_query("SHOW TABLES")
    ('select', None)
    """
    return _parse(sql, is_query=True)


def _parse(sql: str, *, is_query: bool) -> Tree | None:
    tokens = _raw_tokens(sql)
    if not tokens or _nesting([token.token_type.name for token in tokens]) > MAX_NESTED_BRACKETS:
        return None
    _, spark, exp = _sqlglot()
    parser = spark.parser()
    before = _is_parsing.set(True)
    try:
        trees = parser.parse(tokens, sql) if is_query else parser.parse_into(exp.Expr, tokens, sql)
    except Exception:  # noqa: BLE001 - as above, and RecursionError
        return None
    finally:
        _is_parsing.reset(before)
    tree = trees[0] if len(trees) == 1 else None
    is_valid = (
        isinstance(tree, exp.Query if is_query else exp.Expr) and tree.find(exp.Command) is None
    )
    return tree if is_valid else None


def _nesting(kinds: list[str]) -> int:
    """Return how deep brackets, CASE and signs before an operand are nested."""
    deepest = depth = signs = 0
    for kind in kinds:
        depth += (kind in _OPENING or kind == "CASE") - (kind in _CLOSING or kind == "END")
        signs = signs + 1 if kind in _BEFORE_OPERAND else 0
        deepest = max(deepest, depth + signs)
    return deepest


def text_of(node: Tree, sql: str) -> str:
    r"""Return a literal or name as the user wrote it, with its quotes; empty for other nodes.

    Examples
    --------
    >>> sql = r"a = r'\d'"
    >>> print(text_of(parse_expression(sql).expression, sql))
    r'\d'
    """
    return sql[node.meta["start"] : node.meta["end"] + 1] if "start" in node.meta else ""


def has_aggregate(tree: Tree) -> bool:
    """Return whether a tree calls an aggregate that sqlglot knows.

    Examples
    --------
    >>> has_aggregate(parse_expression("1 + sum(x)")), has_aggregate(parse_expression("upper(x)"))
    (True, False)
    """
    return tree.find(_sqlglot()[2].AggFunc) is not None
