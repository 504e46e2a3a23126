"""Syntax tree of the Griffin DSL, and the default column names of its items.

Nodes are frozen and know their position in the rule. Two trees are equal if they mean the same,
regardless of their position. Brackets have no node; the writer adds them where precedence
needs them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class Span:
    """A range of the rule's source.

    Attributes
    ----------
    start, end : int
        Offset of the first character, and offset after the last character.
    line, column : int
        Position of the first character, counted from 1.
    """

    start: int
    end: int
    line: int
    column: int


NO_POSITION = Span(0, 0, 1, 1)
COMPARISON_OPERATORS = frozenset({"=", "!=", "<", "<=", ">", ">="})
"""Operators of `Binary` nodes that compare."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A part of a rule."""

    span: Span = field(default=NO_POSITION, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Text(Node):
    """A string literal; ``value`` has no quotes or escapes."""

    value: str


@dataclass(frozen=True, slots=True)
class Number(Node):
    """A number without a sign, with all its digits; an integer has an exponent of zero."""

    value: Decimal


@dataclass(frozen=True, slots=True)
class DurationNode(Node):
    """A duration; ``unit`` is d, h, m, s or ms."""

    amount: int
    unit: str


@dataclass(frozen=True, slots=True)
class Boolean(Node):
    """True or false."""

    value: bool


@dataclass(frozen=True, slots=True)
class Null(Node):
    """The null literal."""


@dataclass(frozen=True, slots=True)
class NaN(Node):
    """The NaN literal, a double."""


@dataclass(frozen=True, slots=True)
class Star(Node):
    """All columns."""


@dataclass(frozen=True, slots=True)
class Name(Node):
    """A source or column name at the head of a selection; binding decides which."""

    name: str


@dataclass(frozen=True, slots=True)
class Attribute(Node):
    """A column of a source or a field of a struct, written ``container.name``."""

    container: Expression
    name: str


@dataclass(frozen=True, slots=True)
class AllOf(Node):
    """All columns of a source, or all fields of a struct, written ``container.*``."""

    container: Expression


@dataclass(frozen=True, slots=True)
class Index(Node):
    """An array element, counted from 0, or the value of a map key, written ``container[index]``."""

    container: Expression
    index: Expression


@dataclass(frozen=True, slots=True)
class Call(Node):
    """A function call. ``of.name(a)`` reads as ``name(of, a)`` and sets ``method``."""

    name: str
    arguments: tuple[Expression, ...]
    distinct: bool = False
    method: bool = False


@dataclass(frozen=True, slots=True)
class Unary(Node):
    """A unary operation; ``operator`` is +, - or not."""

    operator: str
    operand: Expression


@dataclass(frozen=True, slots=True)
class Binary(Node):
    """A binary operation; ``operator`` is one of ``* / % + - = != < <= > >= and or``."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class In(Node):
    """Membership of a value in a list of at least one option."""

    operand: Expression
    options: tuple[Expression, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class BetweenNode(Node):
    """Inclusive range test."""

    operand: Expression
    low: Expression
    high: Expression
    negated: bool = False


@dataclass(frozen=True, slots=True)
class LikeNode(Node):
    """Pattern match: SQL LIKE, or a regular expression if ``regex``."""

    operand: Expression
    pattern: Expression
    regex: bool = False
    negated: bool = False


@dataclass(frozen=True, slots=True)
class IsNull(Node):
    """Null test."""

    operand: Expression
    negated: bool = False


@dataclass(frozen=True, slots=True)
class IsNaN(Node):
    """NaN test."""

    operand: Expression
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Aliased(Node):
    """An expression with an explicit alias."""

    expression: Expression
    alias: str


@dataclass(frozen=True, slots=True)
class ColumnNode(Node):
    """A bound column.

    Attributes
    ----------
    table : str
        Its source.
    name : str
        Spelled as in the source.
    type : str or mapping
        In Spark's JSON form.
    """

    table: str
    name: str
    type: object = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class TableNode(Node):
    """A bound source standing for its rows, as in ``source.*`` and ``source.count()``."""

    name: str


Expression = (
    Text | Number | DurationNode | Boolean | Null | NaN | Star | Name | Attribute | AllOf | Index | Call
    | Unary | Binary | In | BetweenNode | LikeNode | IsNull | IsNaN | Aliased | ColumnNode | TableNode
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Accuracy(Node):
    """An accuracy rule: the condition under which a source row matches a target row."""

    condition: Expression


@dataclass(frozen=True, slots=True)
class OrderItem(Node):
    """An ORDER BY item; ``descending`` is None if neither ASC nor DESC is given."""

    expression: Expression
    descending: bool | None = None


@dataclass(frozen=True, slots=True)
class Profiling(Node):
    """A profiling rule: a query of one source."""

    items: tuple[Expression, ...]
    distinct: bool = False
    table: str | None = None
    where: Expression | None = None
    group_by: tuple[Expression, ...] = ()
    having: Expression | None = None
    order_by: tuple[OrderItem, ...] = ()
    limit: Expression | None = None
    table_span: Span = field(default=NO_POSITION, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Listing(Node):
    """A rule that lists expressions: uniqueness, timeliness, completeness and others."""

    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class DistinctItem(Node):
    """An item of a distinctness rule; ``grouping`` ones, in brackets, only group duplicates."""

    expression: Expression
    grouping: bool = False


@dataclass(frozen=True, slots=True)
class Distinct(Node):
    """A distinctness rule."""

    items: tuple[DistinctItem, ...]


Rule = Accuracy | Profiling | Listing | Distinct


def children(node: Node) -> Iterator[Node]:
    """Yield the direct children of a node, in the order of the rule.

    Examples
    --------
    >>> [child.name for child in children(BetweenNode(Name("a"), Name("b"), Name("c")))]
    ['a', 'b', 'c']
    """
    for name in node.__slots__:  # slots of the node's own class; the span is inherited
        value = getattr(node, name)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, Node):
                yield part


def walk(node: Node) -> Iterator[Node]:
    """Yield a node and all its descendants in pre-order."""
    pending = [node]
    while pending:
        current = pending.pop()
        yield current
        pending += reversed(list(children(current)))


def alias_of(  # noqa: PLR0911 - one return for each kind of node
    node: Expression, frames: Collection[str] = ()
) -> str | None:
    """Return an expression's alias or its joined selection path; None for arithmetic and literals.

    Parameters
    ----------
    node : Expression
        The expression without an alias.
    frames : collection of str
        Lowercase names that are dropped from the head of a selection.

    Examples
    --------
    >>> from tidegauge.griffin.dsl.nodes import Attribute, Call, Name
    >>> alias_of(Call("max", (Attribute(Name("source"), "age"),), method=True), {"source"})
    'age_max'
    """
    match node:
        case Aliased():
            return node.alias
        case ColumnNode():
            return node.name
        case Name():
            return None if node.name.casefold() in frames else node.name
        case Attribute():
            return _joined(alias_of(node.container, frames), node.name)
        case Index():
            return _joined(alias_of(node.container, frames), _key(node.index))
        case Call(method=True):
            return _joined(alias_of(node.arguments[0], frames), node.name)
        case Call():
            return node.name
        case _:
            return None


def _joined(head: str | None, tail: str | None) -> str | None:
    return "_".join(part for part in (head, tail) if part) or None


def _key(index: Expression) -> str | None:
    if isinstance(index, Text):
        return index.value
    return f"{index.value:f}" if isinstance(index, Number) else alias_of(index)


def aliases(
    items: Sequence[Expression], frames: Collection[str] = (), reserved: Collection[str] = ()
) -> tuple[str, ...]:
    """Return a unique name for each item, ignoring letter case.

    Explicit aliases stay unchanged. An item without a name gets the first name inside it, or ``alias_0``
    by its position. A name that is already used gets the suffix ``_2``, ``_3``.

    Parameters
    ----------
    items : sequence of Expression
        The items to name.
    frames : collection of str
        Lowercase names of frames.
    reserved : collection of str
        Names that are already used.

    Examples
    --------
    >>> from tidegauge.griffin.dsl.nodes import Aliased, Call, Name
    >>> aliases([Call("max", (Name("a"),)), Call("max", (Name("b"),)), Aliased(Name("c"), "x")])
    ('max', 'max_2', 'x')
    """
    used = {name.casefold() for name in reserved}
    used |= {item.alias.casefold() for item in items if isinstance(item, Aliased)}
    names = []
    for index, item in enumerate(items):
        if isinstance(item, Aliased):
            names.append(item.alias)
            continue
        candidates = (alias_of(node, frames) for node in walk(item))  # type: ignore[arg-type]
        name = next((candidate for candidate in candidates if candidate), f"alias_{index}")
        names.append(free(name, used))
        used.add(names[-1].casefold())
    return tuple(names)


def free(name: str, used: Collection[str]) -> str:
    """Return a name that is not in use: the name itself, or the name with the suffix ``_2``, ``_3``.

    Examples
    --------
    >>> free("max", {"max", "max_2"})
    'max_3'
    """
    candidate, number = name, 1
    while candidate.casefold() in used:
        number += 1
        candidate = f"{name}_{number}"
    return candidate
