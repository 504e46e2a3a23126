"""Parser of the Griffin DSL: rule text to syntax tree.

A text has at most 65,536 characters and is nested at most 100 deep, brackets included; a chain of
AND or OR may have any length. Every other error is a `DslError`, too, with its position.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from tidegauge.analyzers.core.errors import SetupError, UnknownNameError
from tidegauge.griffin.dsl.builder import tree_builder
from tidegauge.griffin.dsl.diagnostics import LocatedParseError
from tidegauge.griffin.dsl.errors import syntax_error
from tidegauge.griffin.dsl.grammar import STARTS, grammar
from tidegauge.griffin.dsl.nodes import Expression, Node, Rule, children

if TYPE_CHECKING:
    from lark import Lark, Token

LONGEST_TEXT = 65_536
DEEPEST = 100

_GRAMMARS = {
    "accuracy": "accuracy",
    "profiling": "profiling",
    "uniqueness": "listing",
    "distinct": "distinct",
    "timeliness": "listing",
    "completeness": "listing",
    "duplication": "listing",
    "schema-conformance": "listing",
    "column-profiling": "listing",
    "record-check": "accuracy",
}
_SAME = {"duplicate": "uniqueness", "distinctness": "distinct"}


def canonical_dq_type(spelling: str) -> str:
    """Return the canonical name of a rule type; hyphens and letter case do not matter.

    Raises
    ------
    UnknownNameError
        For an unknown type; names the nearest one.

    Examples
    --------
    >>> canonical_dq_type("Duplicate"), canonical_dq_type("schemaConformance"), canonical_dq_type("distinctness")
    ('uniqueness', 'schema-conformance', 'distinct')
    """
    known = {name.replace("-", ""): name for name in _GRAMMARS} | _SAME
    found = known.get(spelling.replace("-", "").casefold())
    if found is None:
        raise UnknownNameError("dq.type", spelling, [*_GRAMMARS, *_SAME])
    return found


def parse(text: str, dq_type: str = "accuracy", rule: str | None = None) -> Rule:
    """Parse a rule.

    Parameters
    ----------
    text : str
    dq_type : str
        ``accuracy``, ``profiling``, ``uniqueness`` (or ``duplicate``), ``distinct`` (or ``distinctness``),
        ``timeliness``, ``completeness``, ``duplication``, ``schema-conformance``, ``column-profiling`` or
        ``record-check``, in any letter case, with hyphens or without.
    rule : str, optional
        Its name, for errors.

    Returns
    -------
    Accuracy, Profiling, Distinct or Listing

    Raises
    ------
    DslError
        If the text is not a rule of this type; gives the position, expected tokens, and often a
        hint.
    UnknownNameError
        If the type is unknown.
    SetupError
        If Lark is not installed.

    Examples
    --------
    >>> parse("source.id = target.id").condition.operator
    '='
    >>> parse("name, age + 1 as next_age", "uniqueness").items[1].alias
    'next_age'
    >>> from tidegauge.analyzers.core.errors import DslError
    >>> try:
    ...     parse("source.id == target.id")
    ... except DslError as error:
    ...     error.line, error.column, error.hint
    (1, 11, 'equality is one sign: =')
    """
    start = _GRAMMARS[canonical_dq_type(dq_type)]
    return cast("Rule", _parsed(text, start, rule))


def parse_expression(text: str, rule: str | None = None) -> Expression:
    """Parse one expression, such as a condition on rows.

    Raises
    ------
    DslError
        If the text is not an expression.

    Examples
    --------
    >>> parse_expression("age + 1").left.name
    'age'
    """
    return cast("Expression", _parsed(text, "single", rule))


def parse_item(text: str) -> Expression:
    """Parse one selected item: an expression that may have an alias.

    Raises
    ------
    DslError
        If the text is not one item.

    Examples
    --------
    >>> parse_item("age + 1 as next_age").alias
    'next_age'
    """
    return cast("Expression", _parsed(text, "selected", None))


def _parsed(text: str, start: str, rule: str | None) -> Node:
    try:
        _check(text)
        parser = _parser()
        from lark import UnexpectedInput

        try:
            tree = cast("Node", parser.parse(text, start))
        except UnexpectedInput as error:
            raise syntax_error(text, start, error) from None
        _check_depth(tree)
    except LocatedParseError as wrong:
        raise wrong.error(text[:LONGEST_TEXT], rule) from None
    return tree


def _check(text: str) -> None:
    """Raise for texts that are too long or not valid Unicode."""
    if len(text) > LONGEST_TEXT:
        raise LocatedParseError(
            f"a rule has at most {LONGEST_TEXT:,} letters, and this has {len(text):,}", 0, 1, "lex"
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise LocatedParseError("this is half a letter", error.start, error.end, "lex") from None


def _check_depth(tree: Node) -> None:
    todo = [(tree, 0)]
    while todo:
        node, depth = todo.pop()
        if depth > DEEPEST:
            hint = "halves in brackets are less deep: (a + b) + (c + d)"
            raise _too_deep(node.span.start, node.span.end, hint)
        todo += [(child, depth + 1) for child in children(node)]


def _too_deep(start: int, end: int, hint: str | None = None) -> LocatedParseError:
    said = f"this has more than {DEEPEST} brackets, operators or dots within one another"
    return LocatedParseError(said, start, end, hint=hint)


class _Brackets:
    """Limit bracket depth between lexer and parser, so that thousands are not even parsed."""

    always_accept = ()

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        open_now = 0
        for token in stream:
            if token.type in {"LPAR", "LSQB"}:
                open_now += 1
                if open_now > DEEPEST:
                    raise _too_deep(token.start_pos or 0, token.end_pos or 0)
            elif token.type in {"RPAR", "RSQB"}:
                open_now -= 1
            yield token


@cache
def _parser() -> Lark:
    try:
        from lark import Lark
    except ImportError:
        raise SetupError("the Griffin DSL needs Lark: pip install 'tidegauge[griffin]'") from None
    options: dict[str, Any] = {"transformer": tree_builder(), "postlex": _Brackets()}
    return Lark(
        grammar(),
        parser="lalr",
        lexer="contextual",
        start=list(STARTS),
        maybe_placeholders=False,
        **options,
    )
