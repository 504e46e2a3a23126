"""SQL plan of a rule: named steps, and the context in which a rule type writes them.

A plan names the steps that yield the rule's metric and records, and its hazards: the columns and
operations that can fail on some data, for errors of Spark that name none.
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
from tidegauge.griffin.bind.types import ARITHMETIC, kind_of
from tidegauge.griffin.config import RuleConfig
from tidegauge.griffin.dsl.nodes import (
    COMPARISONS,
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

_TEXTS = re.compile(r"CAST_INVALID_INPUT|CANNOT_PARSE|DateTimeException|NumberFormatException")
_CASTS = frozenset(
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
"""Functions that cast a text to a number, a truth value or a time, and fail on one that is none."""


@dataclass(frozen=True, slots=True)
class Hazards:
    """Operations and columns of a rule that can fail on some data.

    Attributes
    ----------
    texts : tuple of str
        Comparisons of texts with numbers, and texts that are cast or computed with, with their places.
    columns : tuple of str
        All columns that the rule reads, with their tables.
    """

    texts: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()

    def of(self, message: str) -> str:
        """Return what may have caused an error of Spark, by its message; empty if nothing is known.

        Examples
        --------
        >>> Hazards(("line 1, column 1 casts the text 'n' in int()",)).of("[CAST_INVALID_INPUT] The value")
        "line 1, column 1 casts the text 'n' in int()"
        >>> Hazards(columns=("source.n", "source.m")).of("[ARITHMETIC_OVERFLOW] long overflow")
        'the rule reads source.n, source.m'
        """
        if self.texts and _TEXTS.search(message):
            return ", ".join(self.texts)
        return f"the rule reads {', '.join(self.columns)}" if self.columns else ""


def hazards(rule: Node) -> Hazards:
    """Return what of a bound rule can fail on some data.

    Examples
    --------
    >>> name, id = ColumnNode("source", "name", "string"), ColumnNode("target", "id", "long")
    >>> hazards(Binary("=", name, id)).texts
    ("line 1, column 1 compares the text 'name' with the number 'id'",)
    >>> len(hazards(In(name, (id,))).texts), len(hazards(BetweenNode(id, name, name)).texts)
    (1, 1)
    >>> hazards(Call("int", (name,))).texts
    ("line 1, column 1 casts the text 'name' in int()",)
    >>> hazards(Binary("+", id, name))
    Hazards(texts=("line 1, column 1 computes with the text 'name'",), columns=('target.id', 'source.name'))
    """
    columns = (f"{node.table}.{node.name}" for node in walk(rule) if isinstance(node, ColumnNode))
    return Hazards(tuple(dict.fromkeys(_texts(rule))), tuple(dict.fromkeys(columns)))


def _texts(rule: Node) -> Iterator[str]:
    for node in walk(rule):
        at = f"line {node.span.line}, column {node.span.column}"
        for one, other in _compared(node):
            for text, number in ((one, other), (other, one)):
                if _is_text(text) and kind_of(number) in NUMERIC:
                    shown = f" {number.name!r}" if isinstance(number, ColumnNode) else ""
                    yield f"{at} compares the text {text.name!r} with the number{shown}"
        if isinstance(node, Binary) and node.operator in ARITHMETIC:
            for text in filter(_is_text, (node.left, node.right)):
                yield f"{at} computes with the text {text.name!r}"
        if isinstance(node, Call) and node.name.casefold() in _CASTS:
            for text in filter(_is_text, node.arguments):
                yield f"{at} casts the text {text.name!r} in {node.name}()"


def _is_text(node: Expression) -> TypeGuard[ColumnNode]:
    return isinstance(node, ColumnNode) and kind_of(node) == "string"


def _compared(node: Node) -> list[tuple[Expression, Expression]]:
    """Return the pairs of values that a comparison, IN or BETWEEN compares."""
    match node:
        case Binary() if node.operator in COMPARISONS:
            return [(node.left, node.right)]
        case In():
            return [(node.of, option) for option in node.options]
        case BetweenNode():
            return [(node.of, node.low), (node.of, node.high)]
    return []


@dataclass(frozen=True, slots=True)
class Step:
    """A named query.

    Attributes
    ----------
    name : str
        Name by which later steps and rules read it.
    sql : str
        Query of sources and earlier steps by name; all names are quoted.
    also : tuple of str
        Griffin's names for the step.
    """

    name: str
    sql: str
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MetricTable:
    """A result table that becomes a metric.

    Attributes
    ----------
    step : str
        The step whose rows it holds.
    flatten : str
        Metric layout: ``default``, ``entries``, ``array`` or ``map``.
    name : str
        Name of the array or map in the metric.
    labels : tuple of str or None
        Columns that identify rows, such as those of GROUP BY; None if none do.
    part : bool
        Whether it is an array within the rule's metric, and not the metric itself.
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
    metrics : tuple of MetricTable
        Tables that make up the metric.
    records : tuple of str
        Steps whose rows are the rule's records: the misses, the duplicates.
    source : str
        The measured source.
    by : tuple of str
        Group-by columns, kept by all steps.
    notices : tuple of str
        Notices for the rule's author.
    hazards : Hazards
        Operations and columns of the rule that can fail on some data.
    """

    steps: tuple[Step, ...]
    metrics: tuple[MetricTable, ...] = ()
    records: tuple[str, ...] = ()
    source: str = ""
    by: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    hazards: Hazards = field(default_factory=Hazards)


@dataclass(frozen=True)
class LoweringContext:
    """A rule to lower, with its options and scope.

    Attributes
    ----------
    config : RuleConfig
    scope : Scope
    by : tuple of str
        Group-by columns, kept by all steps.
    older : str or None
        The frame of previously measured rows, for distinctness.
    """

    config: RuleConfig
    scope: Scope
    by: tuple[str, ...] = ()
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
        return "".join(f"{quote(name)}, " for name in self.by)

    def group_by_clause(self, *more: str) -> str:
        """Return the GROUP BY clause for the group-by columns and more."""
        names = [*map(quote, self.by), *more]
        return f" GROUP BY {', '.join(names)}" if names else ""

    def output_column(self, key: str) -> str:
        """Return the name of an output column, quoted: from the details, or its key."""
        name = self.option(key, key)
        if not isinstance(name, str) or not name:
            raise self.error(f"{key!r} is the name of a column, a text; not {name!r}")
        if name.casefold() in {one.casefold() for one in self.by}:
            raise self.error(
                f"the column {name!r} is what rows are grouped by; name {key!r} otherwise"
            )
        return quote(name)

    def option(self, key: str, default: Any = None) -> Any:
        """Return an option from the rule's details."""
        return self.config.details.get(key, default)

    def flag(self, key: str, *, default: bool) -> bool:
        """Return a boolean option; the texts "true" and "false" count, too."""
        said = self.option(key, default)
        found = {"true": True, "false": False}.get(str(said).casefold())
        if found is None:
            raise self.error(f"{key!r} is true or false, not {said!r}")
        return found

    def text(self, key: str) -> str:
        """Return a text option, empty if it is not set."""
        said = self.option(key, "")
        if not isinstance(said, str):
            raise self.error(f"{key!r} is a text, not {said!r}")
        return said

    def step(self, name: str) -> str:
        """Return a step name that no frame read by the rule has."""
        read = (self.scope.source, self.scope.target, self.older)
        return free(name, {one.casefold() for one in read if one})

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

    def items(self, items: Sequence[object], taken: Sequence[str] = ()) -> list[Aliased]:
        """Return bound items whose aliases avoid ``taken`` (quoted) and the group-by columns."""
        used = {name.casefold() for name in self.by}
        used |= {name[1:-1].replace("``", "`").casefold() for name in taken}
        found = []
        for item in items:
            assert isinstance(item, Aliased)
            alias = free(item.alias, used)
            used.add(alias.casefold())
            found.append(Aliased(item.of, alias, span=item.span))
        return found


def fraction(part: str, whole: str) -> str:
    """Return SQL for a ratio; 1 if the whole is zero or null."""
    return f"coalesce(CAST(try_divide({part}, {whole}) AS DOUBLE), 1.0D)"
