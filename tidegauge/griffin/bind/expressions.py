"""Name resolution in expressions of the Griffin DSL.

A `Scope` has the tables and functions that a rule's names can refer to. A `Binder` resolves names
against it and raises errors with their position in the rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, cast

from tidegauge.analyzers.core.errors import DslError, nearest
from tidegauge.analyzers.core.schema import INTEGRAL, NUMERIC, Schema
from tidegauge.griffin.bind.types import (
    NESTED,
    REFUSED,
    SYNTAX,
    fields_of,
    kind_of,
    type_of,
    value_kind,
)
from tidegauge.griffin.dsl.errors import shorten
from tidegauge.griffin.dsl.nodes import (
    COMPARISONS,
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
)


@dataclass(frozen=True)
class Scope:
    """Tables and functions that a rule's names can refer to.

    Attributes
    ----------
    tables : mapping of str to Schema
        All available frames: sources first, then those of earlier steps.
    source : str
        The measured frame.
    target : str or None
        The frame it is compared with.
    functions : frozenset of str or None
        The session's functions in lower case; None to skip the check.
    text, rule : str
        The rule's text and name, for errors.

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
        """Return a frame's name in its own spelling, or None; letter case does not matter."""
        return next((one for one in self.tables if one.casefold() == name.casefold()), None)

    def schema(self, name: str) -> Schema:
        """Return a frame's schema.

        Raises
        ------
        DslError
            If there is no such frame; names the nearest one.
        """
        found = self.frame(name)
        if found is None:
            raise self.error(f"there is no source {name!r}", None, "bind", near(name, self.tables))
        return self.tables[found]

    def error(self, message: str, node: Node | None, phase: str, hint: str | None) -> DslError:
        """Return a `DslError` located at a node."""
        said: dict[str, Any] = {"text": self.text, "phase": phase, "hint": hint, "rule": self.rule}
        if node is None:
            return DslError(message, **said)
        span = node.span
        end = span.column + max(1, span.end - span.start)
        return DslError(message, line=span.line, column=span.column, end_column=end, **said)


def near(name: str, among: Iterable[str]) -> str | None:
    """Return a "did you mean" hint, or None."""
    found = nearest(name, among)
    return f"did you mean {found!r}?" if found else None


DIGITS = 38
"""Maximum precision of a Spark decimal."""

ELEMENT = frozenset({"get", "try_element_at"})
"""Functions that index expressions are bound to."""


@dataclass
class Binder:
    """Resolves names in expressions against the frames that a rule reads.

    Attributes
    ----------
    scope : Scope
    reads : tuple of str
        The frames to resolve against; an unqualified column belongs to one of them.
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
        found = self.bind_any(node)
        if isinstance(found, (TableNode, AllOf, Star)):
            self._no_value(found, node)
        return found

    def bind_any(self, node: Expression) -> Expression:  # noqa: PLR0911 - one for each kind of node
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
                changed[name] = tuple(self.bind(one) for one in value)
            elif name != "span" and isinstance(value, Node):
                changed[name] = self.bind(cast("Expression", value))
        found = replace(node, **changed) if changed else node
        if isinstance(found, Unary) and found.operator == "not":
            self._truth(found.operand, "NOT")
        return found

    def _chain(self, node: Binary) -> Expression:
        """Bind a left-leaning operator chain of any length without recursion."""
        chain = []
        first: Expression = node
        while isinstance(first, Binary):
            chain.append(first)
            first = first.left
        found = self.bind(first)
        for one in reversed(chain):
            found = self._checked(replace(one, left=found, right=self.bind(one.right)))
        return found

    def _checked(self, node: Binary) -> Binary:
        """Raise for operands that an operator cannot have."""
        sides = (node.left, node.right)
        if node.operator in {"and", "or"}:
            for side in sides:
                self._truth(side, node.operator.upper())
        kinds = [kind_of(side) for side in sides]
        if node.operator in COMPARISONS and NESTED & set(kinds) and None not in kinds:
            first, second = kinds
            if first != second or first == "map":
                said = f"values of type {first} and {second} cannot be compared"
                raise self._error(said, node, None, phase="type")
        return node

    def _truth(self, side: Expression, operator: str) -> None:
        """Raise if an operand of NOT, AND or OR is certainly not true or false."""
        kind = value_kind(side)
        if kind is not None:
            hint = "write not (a = b): NOT is of the next value only" if operator == "NOT" else None
            said = f"{operator} is of what is true or false; this is {kind}"
            raise self._error(said, side, hint, phase="type")

    def _name(self, node: Name) -> Expression:
        holders = [f for f in self.reads if self._column(f, node.name)]
        if len(holders) > 1:
            raise self._error(
                f"{node.name!r} is a column of {holders[0]!r} and of {holders[1]!r}", node,
                f"write {holders[0]}.{node.name} or {holders[1]}.{node.name}",
            )  # fmt: skip
        if holders:
            return self._found(holders[0], node.name, node)
        frame = self.scope.frame(node.name)
        if frame is None:
            self._unknown(node)
        return self._table(frame, node)

    def _table(self, frame: str, node: Node) -> TableNode:
        if frame not in self.reads:
            read = " and ".join(map(repr, self.reads))
            raise self._error(f"this rule reads {read}; {frame!r} is another source", node, None)
        return TableNode(frame, span=node.span)

    def _attribute(self, node: Attribute) -> Expression:
        frame = self.scope.frame(node.of.name) if isinstance(node.of, Name) else None
        if frame is not None and (
            self._column(frame, node.name) or not self._holds(node.of)
        ):  # a source's column takes precedence over a field of a struct with the source's name
            return self._found(self._table(frame, node.of).name, node.name, node)
        return self._inside(self.bind_any(node.of), node.name, node)

    def _inside(self, of: Expression, name: str, node: Node) -> Expression:
        """Resolve ``name`` in a frame, a struct, an array of structs or a map."""
        if isinstance(of, TableNode):
            return self._found(of.name, name, node)
        kind, inner = kind_of(of), type_of(of)
        if kind == "map" and isinstance(inner, Mapping):
            return self._element(of, Text(name, span=node.span), node, inner)
        fields = fields_of(inner)
        if kind is None:
            return Attribute(of, name, span=node.span)
        if not fields:
            raise self._error(
                f"a value of type {kind} has no field {name!r}", node, None, phase="type"
            )
        found = self._same(name, fields)
        if found is None:
            raise self._error(f"there is no field {name!r}", node, near(name, fields))
        return Attribute(of, found, span=node.span)

    def _index(self, node: Index) -> Expression:
        of = self.bind_any(node.of)
        # source['my col'] and source[`my col`] select a column of a source.
        if isinstance(node.index, (Text, Name)) and isinstance(of, TableNode):
            key = node.index
            return self._found(of.name, key.value if isinstance(key, Text) else key.name, node)
        if isinstance(of, (TableNode, AllOf, Star)):
            self._no_value(of, node)
        kind, inner = kind_of(of), type_of(of)
        if kind == "struct" and isinstance(node.index, Text):
            return self._inside(of, node.index.value, node)
        index = self.bind(node.index)
        if kind == "map" and isinstance(inner, Mapping):
            return self._element(of, index, node, inner)
        if kind == "array":
            if kind_of(index) not in {None, *INTEGRAL}:
                raise self._error(
                    "elements of an array are counted from 0", index, None, phase="type"
                )
            return Call("get", (of, index), span=node.span)
        if kind is None:
            return Index(of, index, span=node.span)
        raise self._error(f"a value of type {kind} has no elements", node, None, phase="type")

    def _element(
        self, of: Expression, key: Expression, node: Node, kind: Mapping[str, Any]
    ) -> Expression:
        wanted, given = kind["keyType"], kind_of(key)
        texts, numbers = {"string"}, set(NUMERIC)
        if given is not None and any(
            (given in one) != (str(wanted).partition("(")[0] in one) for one in (texts, numbers)
        ):
            raise self._error(f"keys of this map are of type {wanted}", node, None, phase="type")
        return Call("try_element_at", (of, key), span=node.span)

    def _all_of(self, node: AllOf) -> Expression:
        head = node.of
        frame = self.scope.frame(head.name) if isinstance(head, Name) else None
        if frame is not None:
            return AllOf(self._table(frame, head), span=node.span)
        return AllOf(self.bind_any(head), span=node.span)

    def call(self, node: Call) -> Expression:
        """Bind a function call and its arguments; raise for unknown and refused functions."""
        name = node.name.casefold()
        if name in REFUSED:
            raise self._error(f"the function {node.name!r} may not be called", node, None)
        if name in SYNTAX:
            raise self._error(f"{node.name!r} is not called so", node, f"write {SYNTAX[name]}")
        known = self.scope.functions
        if known is not None and name not in known | ELEMENT:
            raise self._error(f"there is no function {node.name!r}", node, near(name, known))
        arguments = tuple(self.bind_any(one) for one in node.arguments)
        if name == "count" and len(arguments) == 1 and not node.distinct:
            one = arguments[0]
            if isinstance(one, (TableNode, Star)) or (
                isinstance(one, AllOf) and isinstance(one.of, TableNode)
            ):
                return replace(node, arguments=(Star(span=one.span),))
        for one, argument in zip(arguments, node.arguments, strict=True):
            if isinstance(one, (TableNode, AllOf, Star)):
                self._no_value(one, argument)
        return replace(node, arguments=arguments)

    def _is_nan(self, node: IsNaN) -> Expression:
        of = self.bind(node.of)
        kind = kind_of(of)
        if kind in {None, "float", "double"}:
            return replace(node, of=of)
        if kind in NUMERIC:  # integers and decimals have no NaN
            return Boolean(node.negated, span=node.span)
        raise self._error(
            f"a value of type {kind} cannot be asked whether it is a number", node,
            "`is nan` is of floats and doubles", phase="type",
        )  # fmt: skip

    def _like(self, node: LikeNode) -> Expression:
        pattern = node.pattern
        if not node.regex and isinstance(pattern, Text):
            rest = pattern.value.replace("\\\\", "").replace("\\%", "").replace("\\_", "")
            if "\\" in rest:
                raise self._error(
                    "a backslash in a pattern of LIKE stands before %, _ or another one",
                    pattern,
                    None,
                )
        return self._below(node)

    def _digits(self, node: Number) -> None:
        _, digits, exponent = node.value.as_tuple()
        power = exponent if isinstance(exponent, int) else 0
        if max(len(digits) + max(power, 0), -power) > DIGITS:
            raise self._error(f"a number has {DIGITS} digits at most", node, None, phase="type")

    def _holds(self, name: Expression) -> bool:
        return isinstance(name, Name) and any(self._column(f, name.name) for f in self.reads)

    def _same(self, name: str, among: Iterable[str]) -> str | None:
        """Return the matching name in its own spelling: exact first, else ignoring letter case."""
        among = list(among)
        if name in among or any(self.scope.tables[f].case_sensitive for f in self.reads):
            return name if name in among else None
        return next((one for one in among if one.casefold() == name.casefold()), None)

    def _column(self, frame: str, name: str) -> str | None:
        return self._same(name, self.scope.tables[frame].names)

    def _found(self, frame: str, name: str, node: Node) -> ColumnNode:
        schema = self.scope.tables[frame]
        found = self._column(frame, name)
        if found is None:
            raise self._error(
                f"{shorten(frame)} has no column {shorten(name)}", node, near(name, schema.names)
            )
        kind = next(f["type"] for f in schema.struct["fields"] if f["name"] == found)
        return ColumnNode(frame, found, kind, span=node.span)

    def _unknown(self, node: Name) -> NoReturn:
        names = [*self.reads, *(n for f in self.reads for n in self.scope.tables[f].names)]
        raise self._error(
            f"there is no source or column {node.name!r}", node, near(node.name, names)
        )

    def _no_value(self, found: Expression, node: Node) -> NoReturn:
        said = (
            "all columns together"
            if not isinstance(found, TableNode)
            else f"the source {found.name!r}"
        )
        raise self._error(f"{said} cannot stand for a value", node, "count(*) counts rows")

    def _error(
        self, message: str, node: Node, hint: str | None, *, phase: str = "bind"
    ) -> DslError:
        return self.scope.error(message, node, phase, hint)
