"""Users' SQL as tokens and trees of sqlglot. Only this module imports sqlglot.

Trees and tokens are used only to analyze SQL. Spark gets the user's SQL, with edits at the positions of
tokens, and never SQL that is generated from a tree. SQL that sqlglot cannot parse has no tree. Spark
may still accept it, because its grammar is larger.

Callers compare `Tree.key`, the lower-case name of a node's class, so they need not import sqlglot.
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
"""Longer SQL is not parsed. sqlglot needs half a second for this length, such as a list of 20,000 values."""
MAX_NESTED_BRACKETS = 24
"""SQL with deeper nesting is not parsed: sqlglot nests up to 25 calls per bracket, and Python allows 1,000."""
_OPENING_TOKENS = frozenset({"L_PAREN", "L_BRACKET", "L_BRACE"})
_CLOSING_TOKENS = frozenset({"R_PAREN", "R_BRACKET", "R_BRACE"})
_PREFIX_TOKENS = frozenset({"NOT", "DASH", "PLUS", "TILDE"})
_is_parsing: ContextVar[bool] = ContextVar("is_parsing", default=False)


class Token(NamedTuple):
    """A word, name, literal or operator: its `sqlglot.tokens.TokenType`, and where it begins and ends in the SQL."""

    kind: str
    begin: int
    end: int

    @property
    def nesting(self) -> int:
        """1 for an opening bracket, -1 for a closing one, else 0."""
        return (self.kind in _OPENING_TOKENS) - (self.kind in _CLOSING_TOKENS)


@cache
def _sqlglot() -> tuple[Any, Any, Any]:
    """Import sqlglot, which takes 0.2 s. Return its Spark tokenizer and dialect, and its node classes."""
    from sqlglot import exp
    from sqlglot.dialects.spark import Spark

    class SparkTokenizer(Spark.Tokenizer):
        COMMANDS: ClassVar[Any] = set()  # otherwise a column named ``show`` begins a command

    # sqlglot warns about each statement that it does not know.
    logging.getLogger("sqlglot").addFilter(lambda _: not _is_parsing.get())
    return SparkTokenizer, Spark(), exp


def _raw_tokens(sql: str) -> list[Any]:
    """Return the tokens of sqlglot; none if it cannot tokenize the SQL."""
    if len(sql) > MAX_CHARACTERS:
        return []
    tokenizer, spark, _ = _sqlglot()
    try:
        tokens = tokenizer(dialect=spark).tokenize(sql)
    except Exception:  # noqa: BLE001 - sqlglot raises several kinds of errors
        return []
    # It reads 5BD as 5::DECIMAL, three tokens with the same start. The first is the literal.
    return list({token.start: token for token in reversed(tokens)}.values())[::-1]


def tokenize(sql: str) -> tuple[Token, ...]:
    """Return the tokens of SQL without comments; none if a quote is not closed or the SQL is too long.

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
    """Return whether SQL has more than spaces between its tokens.

    Examples
    --------
    >>> has_comments("a > '--'"), has_comments("a > /* its bound */ 1")
    (False, True)
    """
    edges = [0, *(offset for token in tokenize(sql) for offset in token[1:]), len(sql)]
    return any(sql[begin:end].strip() for begin, end in zip(edges[::2], edges[1::2], strict=True))


def split_list(sql: str) -> list[str]:
    """Split SQL at the commas outside brackets, and strip spaces and comments around the parts.

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
    """Return the tree of one query; None if sqlglot cannot parse it, or it is not a query.

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
    reset_token = _is_parsing.set(True)
    try:
        trees = parser.parse(tokens, sql) if is_query else parser.parse_into(exp.Expr, tokens, sql)
    except Exception:  # noqa: BLE001 - as above, and RecursionError
        return None
    finally:
        _is_parsing.reset(reset_token)
    tree = trees[0] if len(trees) == 1 else None
    is_valid = (
        isinstance(tree, exp.Query if is_query else exp.Expr) and tree.find(exp.Command) is None
    )
    return tree if is_valid else None


def _nesting(kinds: list[str]) -> int:
    """Return how deep brackets, CASE and signs before an operand are nested."""
    deepest = depth = signs = 0
    for kind in kinds:
        depth += (kind in _OPENING_TOKENS or kind == "CASE") - (
            kind in _CLOSING_TOKENS or kind == "END"
        )
        signs = signs + 1 if kind in _PREFIX_TOKENS else 0
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
