"""Syntax tree of the Griffin DSL, the default column names of its items, and their types.

Nodes are frozen and know their position in the rule. Two trees are equal if they mean the same,
regardless of their position. Brackets have no node; the writer adds them where precedence
needs them. Types of bound expressions are inferred without Spark, as far as rules need them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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


def aliases(items: Sequence[Expression], frames: Collection[str] = ()) -> tuple[str, ...]:
    """Return a unique name for each item, ignoring letter case.

    Explicit aliases stay unchanged. An item without a name gets the first name inside it, or ``alias_0``
    by its position. A name that is already used gets the suffix ``_2``, ``_3``.

    Parameters
    ----------
    items : sequence of Expression
        The items to name.
    frames : collection of str
        Lowercase names of frames.

    Examples
    --------
    >>> from tidegauge.griffin.dsl.nodes import Aliased, Call, Name
    >>> aliases([Call("max", (Name("a"),)), Call("max", (Name("b"),)), Aliased(Name("c"), "x")])
    ('max', 'max_2', 'x')
    """
    used = {item.alias.casefold() for item in items if isinstance(item, Aliased)}
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


AGGREGATE_FUNCTIONS = frozenset({
    "any", "any_value", "approx_count_distinct", "approx_percentile", "approx_top_k", "array_agg",
    "avg", "bit_and", "bit_or", "bit_xor", "bitmap_construct_agg", "bitmap_and_agg",
    "bitmap_or_agg", "bool_and", "bool_or", "collect_list", "collect_set", "corr", "count",
    "count_if", "count_min_sketch", "covar_pop", "covar_samp", "every", "first", "first_value",
    "grouping", "grouping_id", "histogram_numeric", "hll_sketch_agg", "hll_union_agg",
    "kll_sketch_agg_bigint", "kll_sketch_agg_double", "kll_sketch_agg_float", "kurtosis", "last",
    "last_value", "listagg", "max", "max_by", "mean", "median", "min", "min_by", "mode",
    "percentile", "percentile_approx", "percentile_cont", "percentile_disc", "regr_avgx",
    "regr_avgy", "regr_count", "regr_intercept", "regr_r2", "regr_slope", "regr_sxx", "regr_sxy",
    "regr_syy", "schema_of_json_agg", "skewness", "some", "std", "stddev", "stddev_pop",
    "stddev_samp", "string_agg", "sum", "theta_intersection_agg", "theta_sketch_agg",
    "theta_union_agg", "try_avg", "try_sum", "var_pop", "var_samp", "variance",
})  # fmt: skip
"""Aggregate functions, in lower case."""

FORBIDDEN_FUNCTIONS = frozenset({
    "java_method", "reflect", "try_reflect",  # call any method of the JVM
    "ai_query", "http_request", "remote_query",  # of extensions: reach out of the session
})  # fmt: skip
"""Functions with effects beyond computation."""

CALL_BY_SYNTAX_NAME = {
    "case": "if(condition, a, b)",
    "cast": "a type's name as a function, as in int(x) or string(x)",
    "extract": "date_part('year', x)",
}
"""Names in Spark's function list with their own syntax, and the function call to use instead."""


def known_functions(spark: SparkSession) -> frozenset[str]:
    """Return the session's function names in lower case, user-defined ones included."""
    return frozenset(row[0].casefold() for row in spark.sql("SHOW FUNCTIONS").collect())


ARITHMETIC_OPERATORS = frozenset("+-*/%")
NESTED_KINDS = frozenset({"array", "map", "struct"})
_ARGUMENT_TYPE_FUNCTIONS = frozenset({"abs", "any_value", "first", "last", "max", "min"})
_RESULT_TYPES = {
    "count": "long", "count_if": "long", "length": "integer", "size": "integer",
    "upper": "string", "lower": "string", "trim": "string",
    "string": "string", "double": "double", "int": "integer", "bigint": "long", "boolean": "boolean",
    "to_timestamp": "timestamp", "timestamp": "timestamp", "current_timestamp": "timestamp", "now": "timestamp",
    "to_date": "date", "date": "date", "current_date": "date", "unix_millis": "long", "unix_timestamp": "long",
}  # fmt: skip


def type_of(node: Expression) -> Any:  # noqa: C901, PLR0911 - one for each kind of node
    """Return a bound expression's type in Spark's JSON form, or None if it is unknown."""
    match node:
        case ColumnNode():
            return node.type
        case Aliased():
            return type_of(node.expression)
        case Attribute():
            return _field(type_of(node.container), node.name)
        case Call(name="get" | "try_element_at", arguments=(container, _)):
            inner = type_of(container)
            if isinstance(inner, Mapping):
                return inner.get("elementType", inner.get("valueType"))
            return None
        case Call():
            name = node.name.casefold()
            if name in _ARGUMENT_TYPE_FUNCTIONS and node.arguments:
                return type_of(node.arguments[0])
            return _RESULT_TYPES.get(name)
        case Text():
            return "string"
        case Number():
            return "decimal" if node.value.as_tuple().exponent != 0 else "long"
        case DurationNode():
            return "long"
        case NaN():
            return "double"
        case _:
            return _operator_type(node)


def _operator_type(node: Expression) -> Any:
    match node:
        case Boolean() | In() | BetweenNode() | LikeNode() | IsNull() | IsNaN():
            return "boolean"
        case Unary():
            return "boolean" if node.operator == "not" else type_of(node.operand)
        case Binary() if node.operator in ARITHMETIC_OPERATORS:
            return None
        case Binary():
            return "boolean"
        case _:
            return None


def kind_of(node: Expression) -> str | None:
    """Return a type without parameters, such as ``decimal`` or ``map``; None if it is unknown."""
    data_type = type_of(node)
    if isinstance(data_type, Mapping):
        return str(data_type["type"])
    return None if data_type is None else str(data_type).partition("(")[0].partition(" ")[0]


def value_kind(node: Expression) -> str | None:
    """Return what an expression is if it is certainly not Boolean; otherwise None.

    Examples
    --------
    >>> from decimal import Decimal
    >>> value_kind(Number(Decimal(1))), value_kind(Boolean(True))
    ('of type long', None)
    """
    value = node.expression if isinstance(node, Aliased) else node
    if isinstance(value, Binary) and value.operator in ARITHMETIC_OPERATORS:
        return f"the result of {value.operator}"
    if isinstance(value, Unary) and value.operator != "not":
        return "a number"
    kind = kind_of(value)
    return None if kind in {None, "boolean", "void"} else f"of type {kind}"


def fields_of(data_type: Any) -> list[str]:
    """Return the field names of a struct, or of the structs in an array."""
    if isinstance(data_type, Mapping) and data_type["type"] == "array":
        data_type = data_type["elementType"]
    if isinstance(data_type, Mapping) and data_type["type"] == "struct":
        return [field["name"] for field in data_type["fields"]]
    return []


def _field(data_type: Any, name: str) -> Any:
    if isinstance(data_type, Mapping) and data_type["type"] == "array":
        inner = _field(data_type["elementType"], name)
        return None if inner is None else {"type": "array", "elementType": inner}
    if isinstance(data_type, Mapping) and data_type["type"] == "struct":
        return next((f["type"] for f in data_type["fields"] if f["name"] == name), None)
    return None
