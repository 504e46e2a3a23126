"""What rules of the Griffin DSL are made of: trees of frozen nodes that know where they stand in the text.

Two trees are equal if they mean the same, wherever they stand. There is no node for brackets: whoever
writes a tree puts them where precedence needs them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a text.

    Attributes
    ----------
    start, end : int
        Offsets of the first letter and of the one after the last.
    line, column : int
        Where the first letter stands, counted from 1.
    """

    start: int
    end: int
    line: int
    column: int


NOWHERE = Span(0, 0, 1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A part of a rule."""

    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Text(Node):
    """A string; ``value`` is what it says, less quotes and escapes."""

    value: str


@dataclass(frozen=True, slots=True)
class Number(Node):
    """A number without a sign, with all its digits; an integer has an exponent of zero."""

    value: Decimal


@dataclass(frozen=True, slots=True)
class Time(Node):
    """A stretch of time: ``unit`` is d, h, m, s or ms."""

    amount: int
    unit: str


@dataclass(frozen=True, slots=True)
class Boolean(Node):
    """True or false."""

    value: bool


@dataclass(frozen=True, slots=True)
class Null(Node):
    """What is not known."""


@dataclass(frozen=True, slots=True)
class NaN(Node):
    """Not a number, of doubles."""


@dataclass(frozen=True, slots=True)
class Star(Node):
    """All columns."""


@dataclass(frozen=True, slots=True)
class Name(Node):
    """A name at the head of a selection: a source, or a column; which one, binding tells."""

    name: str


@dataclass(frozen=True, slots=True)
class Attribute(Node):
    """What is named within ``of``: a column of a source, or a field of a struct. Written ``of.name``."""

    of: Expression
    name: str


@dataclass(frozen=True, slots=True)
class AllOf(Node):
    """All columns of a source, or all fields of a struct. Written ``of.*``."""

    of: Expression


@dataclass(frozen=True, slots=True)
class Index(Node):
    """An element of an array, counted from 0, or the value of a map's key. Written ``of[index]``."""

    of: Expression
    index: Expression


@dataclass(frozen=True, slots=True)
class Call(Node):
    """A function of some arguments. ``of.name(a)`` reads as ``name(of, a)``, and is ``method``."""

    name: str
    arguments: tuple[Expression, ...]
    distinct: bool = False
    method: bool = False


@dataclass(frozen=True, slots=True)
class Unary(Node):
    """``operator`` is +, - or not."""

    operator: str
    operand: Expression


@dataclass(frozen=True, slots=True)
class Binary(Node):
    """``operator`` is one of ``* / % + - = != < <= > >= and or``."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class In(Node):
    """Whether a value is one of some, of which there is at least one."""

    of: Expression
    options: tuple[Expression, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Between(Node):
    """Whether a value lies between two others or is one of them."""

    of: Expression
    low: Expression
    high: Expression
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Like(Node):
    """Whether a text is like a pattern: SQL's, or a regular expression's."""

    of: Expression
    pattern: Expression
    regex: bool = False
    negated: bool = False


@dataclass(frozen=True, slots=True)
class IsNull(Node):
    """Whether a value is null."""

    of: Expression
    negated: bool = False


@dataclass(frozen=True, slots=True)
class IsNaN(Node):
    """Whether a value is not a number."""

    of: Expression
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Aliased(Node):
    """An expression with the name that is given to it."""

    of: Expression
    alias: str


@dataclass(frozen=True, slots=True)
class Column(Node):
    """A column that binding has found.

    Attributes
    ----------
    table : str
        The source that it is of.
    name : str
        As the source spells it.
    type : str or mapping
        In Spark's JSON form.
    """

    table: str
    name: str
    type: object = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Table(Node):
    """A source that binding has found, where it stands for its rows: ``source.*``, ``source.count()``."""

    name: str


Expression = (
    Text | Number | Time | Boolean | Null | NaN | Star | Name | Attribute | AllOf | Index | Call
    | Unary | Binary | In | Between | Like | IsNull | IsNaN | Aliased | Column | Table
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Accuracy(Node):
    """The rule of accuracy: when a row of the source matches one of the target."""

    condition: Expression


@dataclass(frozen=True, slots=True)
class OrderItem(Node):
    """What rows are ordered by; ``descending`` is None where nothing is said."""

    of: Expression
    descending: bool | None = None


@dataclass(frozen=True, slots=True)
class Profiling(Node):
    """The rule of profiling: a query of one source."""

    items: tuple[Expression, ...]
    distinct: bool = False
    table: str | None = None
    where: Expression | None = None
    group_by: tuple[Expression, ...] = ()
    having: Expression | None = None
    order_by: tuple[OrderItem, ...] = ()
    limit: Expression | None = None


@dataclass(frozen=True, slots=True)
class Listing(Node):
    """The rule of uniqueness, timeliness, completeness and others: expressions."""

    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class DistinctItem(Node):
    """An expression of a rule of distinctness; ``grouping`` ones, in brackets, only sort the duplicates."""

    of: Expression
    grouping: bool = False


@dataclass(frozen=True, slots=True)
class Distinct(Node):
    """The rule of distinctness."""

    items: tuple[DistinctItem, ...]


Rule = Accuracy | Profiling | Listing | Distinct
