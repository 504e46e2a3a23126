"""Parser of the Griffin DSL: rule text to syntax tree.

A rule can have at most 65,536 characters and 100 levels of nesting, including brackets. A chain of
AND or OR can have any length. Every syntax error is a `DslError` with its position.

Lark calls one method of the tree builder for each grammar rule, when the rule is complete. Nodes
are built bottom-up and without recursion, so deep nesting cannot exhaust Python's stack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

from tidegauge.analyzers.core.errors import SetupError, UnknownNameError
from tidegauge.griffin.dsl import nodes
from tidegauge.griffin.dsl.errors import LocatedParseError, syntax_error
from tidegauge.griffin.dsl.grammar import (
    START_RULES,
    grammar,
    parse_duration,
    parse_name,
    parse_number,
    parse_text,
)
from tidegauge.griffin.dsl.nodes import Expression, Node, Rule, Span, children

if TYPE_CHECKING:
    from lark import Lark, Token


MAX_CHAIN_TERMS = 16
"""AND or OR terms in a left-leaning chain. Longer chains are split in halves."""

Read = TypeVar("Read")


def span(first: Node | Token, last: Node | Token) -> Span:
    """Return the span from the start of one node or token to the end of another."""
    start = first.span if isinstance(first, Node) else _span(first)
    end = last.span if isinstance(last, Node) else _span(last)
    return Span(start.start, end.end, start.line, start.column)


def joined(operator: str, terms: Sequence[Expression]) -> Expression:
    """Return terms joined by ``and`` or ``or`` as a tree of bounded depth.

    Up to 16 terms form a left-leaning chain; longer sequences are halved.

    Examples
    --------
    >>> a, b, c = (nodes.Name(name) for name in "abc")
    >>> joined("and", [a, b, c]) == nodes.Binary("and", nodes.Binary("and", a, b), c)
    True
    """
    if len(terms) > MAX_CHAIN_TERMS:
        middle = len(terms) // 2
        terms = (joined(operator, terms[:middle]), joined(operator, terms[middle:]))
    tree, *more_terms = terms
    for term in more_terms:
        tree = nodes.Binary(operator, tree, term, span=span(tree, term))
    return tree


def terms_of(operator: str, node: Expression) -> list[Expression]:
    """Return the terms of a chain of ``and`` or ``or``, from left to right.

    Examples
    --------
    >>> a, b, c = (nodes.Name(name) for name in "abc")
    >>> terms_of("and", nodes.Binary("and", a, nodes.Binary("and", b, c))) == [a, b, c]
    True
    """
    terms: list[Expression] = []
    todo = [node]
    while todo:
        node = todo.pop()
        if isinstance(node, nodes.Binary) and node.operator == operator:
            todo += (node.right, node.left)
        else:
            terms.append(node)
    return terms


@dataclass(frozen=True, slots=True)
class _Clause(Node):
    """A clause of a query, as fields of `Profiling`."""

    fields: Mapping[str, Any]


def _span(token: Token) -> Span:
    assert token.start_pos is not None
    assert token.end_pos is not None
    assert token.line is not None
    assert token.column is not None
    return Span(token.start_pos, token.end_pos, token.line, token.column)


def _read(reader: Callable[[str], Read], token: Token) -> Read:
    try:
        return reader(token)
    except ValueError as error:
        span_ = _span(token)
        raise LocatedParseError(str(error), span_.start, span_.end, "lex") from None


def _name(token: Token) -> str:
    return _read(parse_name, token)


def _is(part: object, terminal: str) -> bool:
    return getattr(part, "type", None) == terminal


def _arguments(parts: list[Any]) -> tuple[Expression, ...]:
    return next((part for part in parts if isinstance(part, tuple)), ())


class _TreeBuilder:
    """Transformer that Lark calls; its arguments are nodes, tokens and tuples of nodes."""

    def accuracy(self, parts: list[Any]) -> nodes.Accuracy:
        return nodes.Accuracy(parts[0], span=parts[0].span)

    def single(self, parts: list[Any]) -> Expression:
        return parts[0]  # type: ignore[no-any-return]

    selected = single

    def listing(self, parts: list[Any]) -> nodes.Listing:
        return nodes.Listing(tuple(parts), span=span(parts[0], parts[-1]))

    def distinct(self, parts: list[Any]) -> nodes.Distinct:
        return nodes.Distinct(tuple(parts), span=span(parts[0], parts[-1]))

    def plain(self, parts: list[Any]) -> nodes.DistinctItem:
        return nodes.DistinctItem(parts[0], span=parts[0].span)

    def grouping(self, parts: list[Any]) -> nodes.DistinctItem:
        opened, expression, closed = parts
        return nodes.DistinctItem(expression, grouping=True, span=span(opened, closed))

    def profiling(self, parts: list[Any]) -> nodes.Profiling:
        clauses = [part for part in parts if isinstance(part, _Clause)]
        fields = {name: value for clause in clauses for name, value in clause.fields.items()}
        distinct = any(_is(part, "DISTINCT") for part in parts)
        return nodes.Profiling(distinct=distinct, span=span(parts[0], clauses[-1]), **fields)

    def items(self, parts: list[Any]) -> _Clause:
        return _Clause({"items": tuple(parts)}, span=span(parts[0], parts[-1]))

    def from_clause(self, parts: list[Any]) -> _Clause:
        fields = {"table": _name(parts[1]), "table_span": _span(parts[1])}
        return _Clause(fields, span=span(*parts))

    def where_clause(self, parts: list[Any]) -> _Clause:
        return _Clause({"where": parts[1]}, span=span(*parts))

    def group_clause(self, parts: list[Any]) -> _Clause:
        first, _, groups, *having = parts
        fields = {"group_by": groups, "having": having[-1] if having else None}
        return _Clause(fields, span=span(first, having[-1] if having else groups[-1]))

    def order_clause(self, parts: list[Any]) -> _Clause:
        return _Clause({"order_by": tuple(parts[2:])}, span=span(parts[0], parts[-1]))

    def order_item(self, parts: list[Any]) -> nodes.OrderItem:
        descending = parts[1].type == "DESC" if len(parts) > 1 else None
        return nodes.OrderItem(parts[0], descending, span=span(parts[0], parts[-1]))

    def limit_clause(self, parts: list[Any]) -> _Clause:
        return _Clause({"limit": parts[1]}, span=span(*parts))

    def expressions(self, parts: list[Any]) -> tuple[Expression, ...]:
        return tuple(parts)

    sums = bounds = options = expressions

    def aliased(self, parts: list[Any]) -> nodes.Aliased:
        expression, _, alias = parts
        return nodes.Aliased(expression, _name(alias), span=span(expression, alias))

    def chain(self, parts: list[Any]) -> Expression:
        operator = parts[1].type.lower()
        return joined(operator, [term for part in parts[::2] for term in terms_of(operator, part)])

    def binary(self, parts: list[Any]) -> nodes.Binary:
        left, operator, right = parts
        return nodes.Binary(
            "!=" if operator == "<>" else str(operator), left, right, span=span(left, right)
        )

    def negated(self, parts: list[Any]) -> nodes.Unary:
        return nodes.Unary("not", parts[1], span=span(*parts))

    def sign(self, parts: list[Any]) -> nodes.Unary:
        return nodes.Unary(str(parts[0]), parts[1], span=span(*parts))

    def within(self, parts: list[Any]) -> nodes.In:
        operand, *words, opened, options, closed = parts
        if not options:
            raise LocatedParseError(
                "IN has no values",
                opened.start_pos,
                closed.end_pos,
                hint="give at least one: IN (1, 2)",
            )
        return nodes.In(operand, options, len(words) > 1, span=span(operand, closed))

    def between(self, parts: list[Any]) -> nodes.BetweenNode:
        operand, *words, low, _, high = parts
        return nodes.BetweenNode(operand, low, high, len(words) > 1, span=span(operand, high))

    def between_listed(self, parts: list[Any]) -> nodes.BetweenNode:
        operand, *words, opened, bounds, closed = parts
        if len(bounds) != 2:
            raise LocatedParseError(
                f"BETWEEN has {len(bounds)} bounds",
                opened.start_pos,
                closed.end_pos,
                hint="give two: BETWEEN 3 AND 5, or BETWEEN (3, 5)",
            )
        return nodes.BetweenNode(
            operand, bounds[0], bounds[1], len(words) > 1, span=span(operand, closed)
        )

    def like(self, parts: list[Any]) -> nodes.LikeNode:
        operand, *words, kind, pattern = parts
        return nodes.LikeNode(
            operand, pattern, kind.type == "RLIKE", bool(words), span=span(operand, pattern)
        )

    def null_test(self, parts: list[Any]) -> nodes.IsNull | nodes.IsNaN:
        operand, _, *words, tested = parts
        node = nodes.IsNull if tested.type == "NULL" else nodes.IsNaN
        return node(operand, bool(words), span=span(operand, tested))

    def name(self, parts: list[Any]) -> nodes.Name:
        return nodes.Name(_name(parts[0]), span=_span(parts[0]))

    def number(self, parts: list[Any]) -> nodes.Number:
        return nodes.Number(_read(parse_number, parts[0]), span=_span(parts[0]))

    def text(self, parts: list[Any]) -> nodes.Text:
        return nodes.Text(_read(parse_text, parts[0]), span=_span(parts[0]))

    def time(self, parts: list[Any]) -> nodes.DurationNode:
        return nodes.DurationNode(*_read(parse_duration, parts[0]), span=_span(parts[0]))

    def boolean(self, parts: list[Any]) -> nodes.Boolean:
        return nodes.Boolean(parts[0].type == "TRUE", span=_span(parts[0]))

    def null(self, parts: list[Any]) -> nodes.Null:
        return nodes.Null(span=_span(parts[0]))

    def nan(self, parts: list[Any]) -> nodes.NaN:
        return nodes.NaN(span=_span(parts[0]))

    def star(self, parts: list[Any]) -> nodes.Star:
        return nodes.Star(span=_span(parts[0]))

    def bracketed(self, parts: list[Any]) -> Expression:
        opened, expression, closed = parts
        return replace(expression, span=span(opened, closed))  # type: ignore[no-any-return]

    def call(self, parts: list[Any]) -> nodes.Call:
        distinct = any(_is(part, "DISTINCT") for part in parts)
        return nodes.Call(
            _name(parts[0]), _arguments(parts), distinct, span=span(parts[0], parts[-1])
        )

    def method(self, parts: list[Any]) -> nodes.Call:
        container, name, *rest = parts
        return nodes.Call(
            _name(name),
            (container, *_arguments(rest)),
            method=True,
            span=span(container, parts[-1]),
        )

    def attribute(self, parts: list[Any]) -> nodes.Attribute:
        return nodes.Attribute(parts[0], _name(parts[1]), span=span(*parts))

    def all_of(self, parts: list[Any]) -> nodes.AllOf:
        return nodes.AllOf(parts[0], span=span(*parts))

    def index(self, parts: list[Any]) -> nodes.Index:
        return nodes.Index(parts[0], parts[1], span=span(parts[0], parts[2]))


MAX_RULE_LENGTH = 65_536
MAX_DEPTH = 100

_START_BY_RULE_TYPE = {
    "accuracy": "accuracy", "profiling": "profiling", "uniqueness": "listing",
    "distinct": "distinct", "timeliness": "listing", "completeness": "listing",
    "duplication": "listing", "schema-conformance": "listing", "column-profiling": "listing",
    "record-check": "accuracy",
}  # fmt: skip
_RULE_TYPE_SYNONYMS = {"duplicate": "uniqueness", "distinctness": "distinct"}
RULE_TYPE_BY_SPELLING = {
    name.replace("-", ""): name for name in _START_BY_RULE_TYPE
} | _RULE_TYPE_SYNONYMS
"""Rule types by spelling, in lower case and without hyphens."""


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
    rule_type = RULE_TYPE_BY_SPELLING.get(spelling.replace("-", "").casefold())
    if rule_type is None:
        raise UnknownNameError("dq.type", spelling, [*_START_BY_RULE_TYPE, *_RULE_TYPE_SYNONYMS])
    return rule_type


def parse(text: str, dq_type: str = "accuracy", rule: str | None = None) -> Rule:
    """Parse a rule.

    Parameters
    ----------
    text : str
        The source of the rule.
    dq_type : str
        ``accuracy``, ``profiling``, ``uniqueness`` (or ``duplicate``), ``distinct`` (or ``distinctness``),
        ``timeliness``, ``completeness``, ``duplication``, ``schema-conformance``, ``column-profiling`` or
        ``record-check``, in any letter case, with hyphens or without.
    rule : str, optional
        The rule's name, for error messages.

    Returns
    -------
    Accuracy, Profiling, Distinct or Listing

    Raises
    ------
    DslError
        If the source is not a rule of this type; gives the position, expected tokens, and often a
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
    (1, 11, 'write one equals sign: =')
    """
    start = _START_BY_RULE_TYPE[canonical_dq_type(dq_type)]
    return cast("Rule", _parsed(text, start, rule))


def parse_expression(text: str, rule: str | None = None) -> Expression:
    """Parse one expression, such as a condition on rows.

    Raises
    ------
    DslError
        If the source is not an expression.

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
        If the source is not one item.

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
    except LocatedParseError as error_:
        raise error_.error(text[:MAX_RULE_LENGTH], rule) from None
    return tree


def _check(text: str) -> None:
    """Raise an error for a rule that is too long or not valid Unicode."""
    if len(text) > MAX_RULE_LENGTH:
        raise LocatedParseError(
            f"a rule can have at most {MAX_RULE_LENGTH:,} characters, but this rule has {len(text):,}",
            0,
            1,
            "lex",
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise LocatedParseError(
            "this is an unpaired surrogate", error.start, error.end, "lex"
        ) from None


def _check_depth(tree: Node) -> None:
    todo = [(tree, 0)]
    while todo:
        node, depth = todo.pop()
        if depth > MAX_DEPTH:
            hint = "put the halves in brackets to reduce the depth: (a + b) + (c + d)"
            raise _too_deep(node.span.start, node.span.end, hint)
        todo += [(child, depth + 1) for child in children(node)]


def _too_deep(start: int, end: int, hint: str | None = None) -> LocatedParseError:
    message = f"more than {MAX_DEPTH} brackets, operators or dots are nested"
    return LocatedParseError(message, start, end, hint=hint)


class _Brackets:
    """Limit bracket depth between lexer and parser, so that thousands are not even parsed."""

    always_accept = ()

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        open_now = 0
        for token in stream:
            if token.type in {"LPAR", "LSQB"}:
                open_now += 1
                if open_now > MAX_DEPTH:
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
    options: dict[str, Any] = {"transformer": _TreeBuilder(), "postlex": _Brackets()}
    return Lark(
        grammar(),
        parser="lalr",
        lexer="contextual",
        start=list(START_RULES),
        maybe_placeholders=False,
        **options,
    )
