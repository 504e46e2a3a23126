"""SQL plan of a rule: named steps, and the context for writing them.

A plan names the steps for the rule's metric and records. Its hazards are the columns and operations
that can fail on some data; they explain errors of Spark that name no column.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from tidegauge.analyzers.core.errors import DslError
from tidegauge.analyzers.core.schema import NUMERIC
from tidegauge.analyzers.core.sql import quote
from tidegauge.griffin.bind.expressions import Scope
from tidegauge.griffin.bind.types import ARITHMETIC_OPERATORS, kind_of
from tidegauge.griffin.config import RuleConfig
from tidegauge.griffin.dsl.nodes import (
    COMPARISON_OPERATORS,
    Aliased,
    BetweenNode,
    Binary,
    Call,
    ColumnNode,
    Expression,
    In,
    Node,
    free,
    walk,
)

_INVALID_STRING_ERROR = re.compile(
    r"CAST_INVALID_INPUT|CANNOT_PARSE|DateTimeException|NumberFormatException"
)
_CAST_FUNCTIONS = frozenset(
    [
        "int",
        "integer",
        "bigint",
        "long",
        "smallint",
        "tinyint",
        "float",
        "double",
        "decimal",
        "boolean",
        "date",
        "to_date",
        "timestamp",
        "to_timestamp",
        "unix_timestamp",
        "to_number",
        "sum",
        "avg",
        "mean",
        "stddev",
        "variance",
    ]
)
"""Functions that cast a string to a number, a Boolean or a time and fail on invalid strings."""


@dataclass(frozen=True, slots=True)
class Hazards:
    """Operations and columns of a rule that can fail on some data.

    Attributes
    ----------
    texts : tuple of str
        String columns that are compared with numbers, cast, or used in arithmetic, with their positions.
    columns : tuple of str
        All columns that the rule reads, with their tables.
    """

    texts: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()

    def causes_of(self, message: str) -> str:
        """Return the possible causes of a Spark error by its message; empty if there are none.

        Examples
        --------
        >>> Hazards(("line 1, column 1 casts the string 'n' in int()",)).causes_of("[CAST_INVALID_INPUT] The value")
        "line 1, column 1 casts the string 'n' in int()"
        >>> Hazards(columns=("source.n", "source.m")).causes_of("[ARITHMETIC_OVERFLOW] long overflow")
        'the rule reads source.n, source.m'
        """
        if self.texts and _INVALID_STRING_ERROR.search(message):
            return ", ".join(self.texts)
        return f"the rule reads {', '.join(self.columns)}" if self.columns else ""


def hazards(rule: Node) -> Hazards:
    """Return the operations and columns of a bound rule that can fail on some data.

    Examples
    --------
    >>> name, id = ColumnNode("source", "name", "string"), ColumnNode("target", "id", "long")
    >>> hazards(Binary("=", name, id)).texts
    ("line 1, column 1 compares the string 'name' with the number 'id'",)
    >>> len(hazards(In(name, (id,))).texts), len(hazards(BetweenNode(id, name, name)).texts)
    (1, 1)
    >>> hazards(Call("int", (name,))).texts
    ("line 1, column 1 casts the string 'name' in int()",)
    >>> hazards(Binary("+", id, name))
    Hazards(texts=("line 1, column 1 computes with the string 'name'",), columns=('target.id', 'source.name'))
    """
    columns = (f"{node.table}.{node.name}" for node in walk(rule) if isinstance(node, ColumnNode))
    return Hazards(tuple(dict.fromkeys(_string_hazards(rule))), tuple(dict.fromkeys(columns)))


def _string_hazards(rule: Node) -> Iterator[str]:
    for node in walk(rule):
        position = f"line {node.span.line}, column {node.span.column}"
        for left, right in _compared_pairs(node):
            for string, number in ((left, right), (right, left)):
                if _is_text(string) and kind_of(number) in NUMERIC:
                    number_name = f" {number.name!r}" if isinstance(number, ColumnNode) else ""
                    yield f"{position} compares the string {string.name!r} with the number{number_name}"
        if isinstance(node, Binary) and node.operator in ARITHMETIC_OPERATORS:
            for string in filter(_is_text, (node.left, node.right)):
                yield f"{position} computes with the string {string.name!r}"
        if isinstance(node, Call) and node.name.casefold() in _CAST_FUNCTIONS:
            for string in filter(_is_text, node.arguments):
                yield f"{position} casts the string {string.name!r} in {node.name}()"


def _is_text(node: Expression) -> TypeGuard[ColumnNode]:
    return isinstance(node, ColumnNode) and kind_of(node) == "string"


def _compared_pairs(node: Node) -> list[tuple[Expression, Expression]]:
    """Return the pairs of values that a comparison, IN or BETWEEN compares."""
    match node:
        case Binary() if node.operator in COMPARISON_OPERATORS:
            return [(node.left, node.right)]
        case In():
            return [(node.operand, option) for option in node.options]
        case BetweenNode():
            return [(node.operand, node.low), (node.operand, node.high)]
    return []


@dataclass(frozen=True, slots=True)
class Step:
    """A named query.

    Attributes
    ----------
    name : str
        Name that later steps and rules use.
    sql : str
        Query on sources and earlier steps; all names are quoted.
    aliases : tuple of str
        Griffin's names for the step.
    """

    name: str
    sql: str
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MetricTable:
    """A result table that becomes a metric.

    Attributes
    ----------
    step : str
        The step that computes the rows.
    flatten : str
        Metric layout: ``default``, ``entries``, ``array`` or ``map``.
    name : str
        Name of the array or map in the metric.
    labels : tuple of str or None
        Columns that identify rows, such as the GROUP BY columns; None if there are none.
    part : bool
        Whether the table is an array within the rule's metric instead of the metric itself.
    """

    step: str
    flatten: str = "entries"
    name: str = ""
    labels: tuple[str, ...] | None = ()
    part: bool = False


@dataclass(frozen=True, slots=True)
class RulePlan:
    """The steps of a rule, in dependency order.

    Attributes
    ----------
    steps : tuple of Step
        The SQL steps.
    metrics : tuple of MetricTable
        Tables that make up the metric.
    records : tuple of str
        Steps whose rows are the rule's records, such as misses or duplicates.
    source : str
        The measured source.
    group_by : tuple of str
        Group-by columns. All steps keep them.
    notices : tuple of str
        Notices for the rule's author.
    hazards : Hazards
        Operations and columns of the rule that can fail on some data.
    """

    steps: tuple[Step, ...]
    metrics: tuple[MetricTable, ...] = ()
    records: tuple[str, ...] = ()
    source: str = ""
    group_by: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    hazards: Hazards = field(default_factory=Hazards)


@dataclass(frozen=True)
class LoweringContext:
    """A rule to lower, with its options and scope.

    Attributes
    ----------
    config : RuleConfig
        The rule as configured.
    scope : Scope
        The tables and columns that the rule can use.
    group_by : tuple of str
        Group-by columns. All steps keep them.
    older : str or None
        The frame of previously measured rows, for distinctness.
    """

    config: RuleConfig
    scope: Scope
    group_by: tuple[str, ...] = ()
    older: str | None = None

    @property
    def source(self) -> str:
        """The measured frame, in its own spelling."""
        self.scope.schema(self.scope.source)
        return str(self.scope.frame(self.scope.source))

    @property
    def table(self) -> str:
        """The measured frame, quoted."""
        return quote(self.source)

    @property
    def group_columns(self) -> str:
        """The group-by columns, as the start of a SELECT list."""
        return "".join(f"{quote(name)}, " for name in self.group_by)

    def group_by_clause(self, *expressions: str) -> str:
        """Return the GROUP BY clause for the group-by columns and more."""
        names = [*map(quote, self.group_by), *expressions]
        return f" GROUP BY {', '.join(names)}" if names else ""

    def output_column(self, key: str) -> str:
        """Return the quoted name of an output column: the configured name or the key."""
        name = self.option(key, key)
        if not isinstance(name, str) or not name:
            raise self.error(f"{key!r} must be a column name, not {name!r}")
        if name.casefold() in {column.casefold() for column in self.group_by}:
            raise self.error(
                f"rows are grouped by the column {name!r}; set another name for {key!r}"
            )
        return quote(name)

    def option(self, key: str, default: Any = None) -> Any:
        """Return an option from the rule's details."""
        return self.config.details.get(key, default)

    def flag(self, key: str, *, default: bool) -> bool:
        """Return a boolean option; the strings "true" and "false" are also accepted."""
        option = self.option(key, default)
        value = {"true": True, "false": False}.get(str(option).casefold())
        if value is None:
            raise self.error(f"{key!r} must be true or false, not {option!r}")
        return value

    def text(self, key: str) -> str:
        """Return a string option; empty if it is not set."""
        option = self.option(key, "")
        if not isinstance(option, str):
            raise self.error(f"{key!r} must be a string, not {option!r}")
        return option

    def step(self, name: str) -> str:
        """Return a step name that no frame read by the rule has."""
        read = (self.scope.source, self.scope.target, self.older)
        return free(name, {frame.casefold() for frame in read if frame})

    def extra_column(self, name: object) -> str:
        """Return a quoted name for an extra column, different from all columns of the source."""
        columns = self.scope.schema(self.source).names
        return quote(free(str(name), {column.casefold() for column in columns}))

    def error(self, message: str, hint: str | None = None) -> DslError:
        """Return a `DslError` of the plan phase."""
        return DslError(
            message, text=self.scope.text, phase="plan", hint=hint,
            rule=self.scope.rule or self.config.name,
        )  # fmt: skip

    def items(self, items: Sequence[object], reserved: Sequence[str] = ()) -> list[Aliased]:
        """Return bound items whose aliases avoid ``reserved`` (quoted) and the group-by columns."""
        used = {name.casefold() for name in self.group_by}
        used |= {name[1:-1].replace("``", "`").casefold() for name in reserved}
        aliased = []
        for item in items:
            assert isinstance(item, Aliased)
            alias = free(item.alias, used)
            used.add(alias.casefold())
            aliased.append(Aliased(item.expression, alias, span=item.span))
        return aliased


def fraction(part: str, total: str) -> str:
    """Return SQL for a ratio; 1 if the whole is zero or null."""
    return f"coalesce(CAST(try_divide({part}, {total}) AS DOUBLE), 1.0D)"
