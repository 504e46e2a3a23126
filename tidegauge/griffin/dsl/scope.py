"""Name resolution in expressions of the Griffin DSL.

A `Scope` has the tables and functions that a rule's names can refer to. A `Binder` resolves names
in a scope. Its errors have the position in the rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, cast

from tidegauge.analyzers.core.errors import DslError, nearest
from tidegauge.analyzers.core.schema import INTEGRAL, NUMERIC, Schema
from tidegauge.griffin.dsl.errors import shorten
from tidegauge.griffin.dsl.nodes import (
    CALL_BY_SYNTAX_NAME,
    COMPARISON_OPERATORS,
    FORBIDDEN_FUNCTIONS,
    NESTED_KINDS,
    AllOf,
    Attribute,
    Binary,
    Boolean,
    Call,
    ColumnNode,
    Expression,
    Index,
    IsNaN,
    LikeNode,
    Name,
    Node,
    Number,
    Star,
    TableNode,
    Text,
    Unary,
    fields_of,
    kind_of,
    type_of,
    value_kind,
)


@dataclass(frozen=True)
class Scope:
    """Tables and functions that a rule's names can refer to.

    Attributes
    ----------
    tables : mapping of str to Schema
        All available frames: sources first, then frames of earlier steps.
    source : str
        The measured frame.
    target : str or None
        The frame to compare with the source.
    functions : frozenset of str or None
        The session's functions in lower case; None to skip the check.
    text, rule : str
        The rule's source and name, for errors.

    Examples
    --------
    >>> Scope({"source": Schema.from_types({"id": "long"})}, "source").frame("SOURCE")
    'source'
    """

    tables: Mapping[str, Schema]
    source: str
    target: str | None = None
    functions: frozenset[str] | None = None
    text: str = ""
    rule: str | None = None

    def frame(self, name: str) -> str | None:
        """Return a frame's name in its own spelling, ignoring case; None if there is no such frame."""
        return next((frame for frame in self.tables if frame.casefold() == name.casefold()), None)

    def schema(self, name: str) -> Schema:
        """Return a frame's schema.

        Raises
        ------
        DslError
            If the frame does not exist; the message suggests the nearest name.
        """
        frame = self.frame(name)
        if frame is None:
            raise self.error(
                f"unknown source {name!r}", None, "bind", suggestion(name, self.tables)
            )
        return self.tables[frame]

    def error(self, message: str, node: Node | None, phase: str, hint: str | None) -> DslError:
        """Return a `DslError` located at a node."""
        context: dict[str, Any] = {
            "text": self.text,
            "phase": phase,
            "hint": hint,
            "rule": self.rule,
        }
        if node is None:
            return DslError(message, **context)
        span = node.span
        end = span.column + max(1, span.end - span.start)
        return DslError(message, line=span.line, column=span.column, end_column=end, **context)


def suggestion(name: str, among: Iterable[str]) -> str | None:
    """Return a "did you mean" hint, or None."""
    suggested = nearest(name, among)
    return f"did you mean {suggested!r}?" if suggested else None


MAX_DECIMAL_DIGITS = 38
"""The maximum precision of a Spark decimal."""

ELEMENT_FUNCTIONS = frozenset({"get", "try_element_at"})
"""Functions that index expressions are bound to."""


@dataclass
class Binder:
    """Resolves names in expressions against the frames that a rule reads.

    Attributes
    ----------
    scope : Scope
        Tables and functions that names can refer to.
    reads : tuple of str
        The frames to search; an unqualified column belongs to one of them.
    """

    scope: Scope
    reads: tuple[str, ...]
    heads: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        for name in self.reads:
            self.scope.schema(name)
        self.reads = tuple(str(self.scope.frame(name)) for name in self.reads)
        self.heads = frozenset(name.casefold() for name in self.reads)

    def bind(self, node: Expression) -> Expression:
        """Bind a value expression; raise a `DslError` for a whole frame or all columns."""
        bound = self.bind_any(node)
        if isinstance(bound, (TableNode, AllOf, Star)):
            self._no_value(bound, node)
        return bound

    def bind_any(self, node: Expression) -> Expression:  # noqa: PLR0911 - one return for each kind of node
        """Bind an expression, which may also be a whole frame or all columns."""
        match node:
            case Name():
                return self._name(node)
            case Attribute():
                return self._attribute(node)
            case Index():
                return self._index(node)
            case AllOf():
                return self._all_of(node)
            case Call():
                return self.call(node)
            case Number():
                self._digits(node)
                return node
            case IsNaN():
                return self._is_nan(node)
            case LikeNode():
                return self._like(node)
            case Binary():
                return self._chain(node)
            case _:
                return self._below(node)

    def _below(self, node: Expression) -> Expression:
        """Bind the children of a node."""
        changed: dict[str, Any] = {}
        for name in node.__dataclass_fields__:
            value = getattr(node, name)
            if isinstance(value, tuple):
                changed[name] = tuple(self.bind(item) for item in value)
            elif name != "span" and isinstance(value, Node):
                changed[name] = self.bind(cast("Expression", value))
        bound = replace(node, **changed) if changed else node
        if isinstance(bound, Unary) and bound.operator == "not":
            self._truth(bound.operand, "NOT")
        return bound

    def _chain(self, node: Binary) -> Expression:
        """Bind a left-leaning operator chain of any length without recursion."""
        chain = []
        leftmost: Expression = node
        while isinstance(leftmost, Binary):
            chain.append(leftmost)
            leftmost = leftmost.left
        bound = self.bind(leftmost)
        for operation in reversed(chain):
            bound = self._checked(replace(operation, left=bound, right=self.bind(operation.right)))
        return bound

    def _checked(self, node: Binary) -> Binary:
        """Raise for invalid operands of an operator."""
        sides = (node.left, node.right)
        if node.operator in {"and", "or"}:
            for side in sides:
                self._truth(side, node.operator.upper())
        kinds = [kind_of(side) for side in sides]
        if (
            node.operator in COMPARISON_OPERATORS
            and NESTED_KINDS & set(kinds)
            and None not in kinds
        ):
            left, right = kinds
            if left != right or left == "map":
                message = f"values of type {left} and {right} cannot be compared"
                raise self._error(message, node, None, phase="type")
        return node

    def _truth(self, side: Expression, operator: str) -> None:
        """Raise if an operand of NOT, AND or OR is known not to be Boolean."""
        kind = value_kind(side)
        if kind is not None:
            hint = (
                "write not (a = b): NOT applies only to the next value"
                if operator == "NOT"
                else None
            )
            message = f"{operator} needs a value that is true or false; this is {kind}"
            raise self._error(message, side, hint, phase="type")

    def _name(self, node: Name) -> Expression:
        holders = [f for f in self.reads if self._column(f, node.name)]
        if len(holders) > 1:
            raise self._error(
                f"{node.name!r} is a column in both {holders[0]!r} and {holders[1]!r}", node,
                f"write {holders[0]}.{node.name} or {holders[1]}.{node.name}",
            )  # fmt: skip
        if holders:
            return self._column_node(holders[0], node.name, node)
        frame = self.scope.frame(node.name)
        if frame is None:
            self._unknown(node)
        return self._table(frame, node)

    def _table(self, frame: str, node: Node) -> TableNode:
        if frame not in self.reads:
            read = " and ".join(map(repr, self.reads))
            raise self._error(
                f"this rule reads only {read}; it cannot use the source {frame!r}", node, None
            )
        return TableNode(frame, span=node.span)

    def _attribute(self, node: Attribute) -> Expression:
        frame = self.scope.frame(node.container.name) if isinstance(node.container, Name) else None
        if frame is not None and (
            self._column(frame, node.name) or not self._holds(node.container)
        ):  # a source's column hides a field of a struct with the source's name
            return self._column_node(self._table(frame, node.container).name, node.name, node)
        return self._inside(self.bind_any(node.container), node.name, node)

    def _inside(self, container: Expression, name: str, node: Node) -> Expression:
        """Resolve ``name`` in a frame, a struct, an array of structs or a map."""
        if isinstance(container, TableNode):
            return self._column_node(container.name, name, node)
        kind, inner = kind_of(container), type_of(container)
        if kind == "map" and isinstance(inner, Mapping):
            return self._element(container, Text(name, span=node.span), node, inner)
        fields = fields_of(inner)
        if kind is None:
            return Attribute(container, name, span=node.span)
        if not fields:
            raise self._error(
                f"a value of type {kind} has no field {name!r}", node, None, phase="type"
            )
        field_name = self._same(name, fields)
        if field_name is None:
            raise self._error(f"unknown field {name!r}", node, suggestion(name, fields))
        return Attribute(container, field_name, span=node.span)

    def _index(self, node: Index) -> Expression:
        container = self.bind_any(node.container)
        # source['my col'] and source[`my col`] select a column of a source.
        if isinstance(node.index, (Text, Name)) and isinstance(container, TableNode):
            key = node.index
            return self._column_node(
                container.name, key.value if isinstance(key, Text) else key.name, node
            )
        if isinstance(container, (TableNode, AllOf, Star)):
            self._no_value(container, node)
        kind, inner = kind_of(container), type_of(container)
        if kind == "struct" and isinstance(node.index, Text):
            return self._inside(container, node.index.value, node)
        index = self.bind(node.index)
        if kind == "map" and isinstance(inner, Mapping):
            return self._element(container, index, node, inner)
        if kind == "array":
            if kind_of(index) not in {None, *INTEGRAL}:
                raise self._error(
                    "an array index must be a whole number, counted from 0",
                    index,
                    None,
                    phase="type",
                )
            return Call("get", (container, index), span=node.span)
        if kind is None:
            return Index(container, index, span=node.span)
        raise self._error(f"a value of type {kind} has no elements", node, None, phase="type")

    def _element(
        self, container: Expression, key: Expression, node: Node, kind: Mapping[str, Any]
    ) -> Expression:
        key_type, given_kind = kind["keyType"], kind_of(key)
        string_kinds, number_kinds = {"string"}, set(NUMERIC)
        if given_kind is not None and any(
            (given_kind in kinds) != (str(key_type).partition("(")[0] in kinds)
            for kinds in (string_kinds, number_kinds)
        ):
            raise self._error(f"keys of this map are of type {key_type}", node, None, phase="type")
        return Call("try_element_at", (container, key), span=node.span)

    def _all_of(self, node: AllOf) -> Expression:
        head = node.container
        frame = self.scope.frame(head.name) if isinstance(head, Name) else None
        if frame is not None:
            return AllOf(self._table(frame, head), span=node.span)
        return AllOf(self.bind_any(head), span=node.span)

    def call(self, node: Call) -> Expression:
        """Bind a function call and its arguments; raise for unknown and forbidden functions."""
        name = node.name.casefold()
        if name in FORBIDDEN_FUNCTIONS:
            raise self._error(f"the function {node.name!r} must not be called", node, None)
        if name in CALL_BY_SYNTAX_NAME:
            raise self._error(
                f"{node.name!r} is not a function call", node, f"write {CALL_BY_SYNTAX_NAME[name]}"
            )
        functions = self.scope.functions
        if functions is not None and name not in functions | ELEMENT_FUNCTIONS:
            raise self._error(f"unknown function {node.name!r}", node, suggestion(name, functions))
        arguments = tuple(self.bind_any(bound) for bound in node.arguments)
        if name == "count" and len(arguments) == 1 and not node.distinct:
            bound = arguments[0]
            if isinstance(bound, (TableNode, Star)) or (
                isinstance(bound, AllOf) and isinstance(bound.container, TableNode)
            ):
                return replace(node, arguments=(Star(span=bound.span),))
        for bound, argument in zip(arguments, node.arguments, strict=True):
            if isinstance(bound, (TableNode, AllOf, Star)):
                self._no_value(bound, argument)
        return replace(node, arguments=arguments)

    def _is_nan(self, node: IsNaN) -> Expression:
        operand = self.bind(node.operand)
        kind = kind_of(operand)
        if kind in {None, "float", "double"}:
            return replace(node, operand=operand)
        if kind in NUMERIC:  # integers and decimals have no NaN
            return Boolean(node.negated, span=node.span)
        raise self._error(
            f"a value of type {kind} cannot be NaN", node,
            "use `is nan` with floats and doubles", phase="type",
        )  # fmt: skip

    def _like(self, node: LikeNode) -> Expression:
        pattern = node.pattern
        if not node.regex and isinstance(pattern, Text):
            unescaped = pattern.value.replace("\\\\", "").replace("\\%", "").replace("\\_", "")
            if "\\" in unescaped:
                raise self._error(
                    "in a LIKE pattern, write a backslash only before %, _ or another backslash",
                    pattern,
                    None,
                )
        return self._below(node)

    def _digits(self, node: Number) -> None:
        _, digits, exponent = node.value.as_tuple()
        power = exponent if isinstance(exponent, int) else 0
        if max(len(digits) + max(power, 0), -power) > MAX_DECIMAL_DIGITS:
            raise self._error(
                f"a number can have at most {MAX_DECIMAL_DIGITS} digits", node, None, phase="type"
            )

    def _holds(self, name: Expression) -> bool:
        return isinstance(name, Name) and any(self._column(f, name.name) for f in self.reads)

    def _same(self, name: str, candidates: Iterable[str]) -> str | None:
        """Return the matching name in its own spelling: an exact match first, otherwise ignoring case."""
        candidates = list(candidates)
        if name in candidates or any(self.scope.tables[f].case_sensitive for f in self.reads):
            return name if name in candidates else None
        return next(
            (candidate for candidate in candidates if candidate.casefold() == name.casefold()), None
        )

    def _column(self, frame: str, name: str) -> str | None:
        return self._same(name, self.scope.tables[frame].names)

    def _column_node(self, frame: str, name: str, node: Node) -> ColumnNode:
        schema = self.scope.tables[frame]
        column = self._column(frame, name)
        if column is None:
            raise self._error(
                f"{shorten(frame)} has no column {shorten(name)}",
                node,
                suggestion(name, schema.names),
            )
        kind = next(f["type"] for f in schema.struct["fields"] if f["name"] == column)
        return ColumnNode(frame, column, kind, span=node.span)

    def _unknown(self, node: Name) -> NoReturn:
        names = [*self.reads, *(n for f in self.reads for n in self.scope.tables[f].names)]
        raise self._error(
            f"unknown source or column {node.name!r}", node, suggestion(node.name, names)
        )

    def _no_value(self, bound: Expression, node: Node) -> NoReturn:
        description = (
            "all columns together"
            if not isinstance(bound, TableNode)
            else f"the source {bound.name!r}"
        )
        raise self._error(f"{description} cannot be used as a value", node, "count(*) counts rows")

    def _error(
        self, message: str, node: Node, hint: str | None, *, phase: str = "bind"
    ) -> DslError:
        return self.scope.error(message, node, phase, hint)
