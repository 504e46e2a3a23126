"""Rules as plans of SQL steps and as analyzers with mergeable states: what all kinds of rules share.

A `RuleKind` declares a rule type, and its `RuleNumber` rows declare the metric: each has the aggregate that
the metric's step computes in SQL, and the same number of a merged state. `LoweringContext` writes
the steps, `GriffinMeasure` the analyzers, and a `Report` is the metric in Griffin's layout and as
scalars. `Parts` keeps several states side by side. Scans use unqualified columns, so trees are
written as SQL without their sources. `Hazards` explain errors of Spark that name no column.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Any, ClassVar, Self, TypeGuard

from tidegauge.analyzers.core.analyzer import Analyzer, S
from tidegauge.analyzers.core.errors import DslError, IllegalAnalyzerParameterError
from tidegauge.analyzers.core.metric import Entity, Scale
from tidegauge.analyzers.core.registry import canonical_json
from tidegauge.analyzers.core.schema import NESTED, NUMERIC, Schema
from tidegauge.analyzers.core.sql import quote
from tidegauge.analyzers.core.state import State, mismatch, read_state, register_state
from tidegauge.griffin.config import ErrorCondition, RuleConfig
from tidegauge.griffin.dsl.binding import bind
from tidegauge.griffin.dsl.nodes import (
    ARITHMETIC_OPERATORS,
    COMPARISON_OPERATORS,
    Accuracy,
    Aliased,
    BetweenNode,
    Binary,
    Call,
    ColumnNode,
    Distinct,
    DistinctItem,
    Expression,
    In,
    Listing,
    Name,
    Node,
    Rule,
    aliases,
    free,
    kind_of,
    walk,
)
from tidegauge.griffin.dsl.parser import parse
from tidegauge.griffin.dsl.scope import Scope
from tidegauge.griffin.measures.sql import expression_sql, mapped

_INVALID_STRING_ERROR = re.compile(
    r"CAST_INVALID_INPUT|CANNOT_PARSE|DateTimeException|NumberFormatException"
)
_CAST_FUNCTIONS = frozenset({
    "int", "integer", "bigint", "long", "smallint", "tinyint", "float", "double", "decimal",
    "boolean", "date", "to_date", "timestamp", "to_timestamp", "unix_timestamp", "to_number", "sum",
    "avg", "mean", "stddev", "variance",
})  # fmt: skip
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


@dataclass(frozen=True, slots=True)
class RuleNumber:
    """A number of a rule's metric.

    Attributes
    ----------
    name : str
        Name of the number in the metric; the rule's details can rename it.
    sql : str
        Aggregate of the rows of the metric's step.
    value : callable
        Returns the number from the merged state, or from what the kind reads of it.
    scale : Scale
        Scale of the number.
    """

    name: str
    sql: str
    value: Callable[[Any], Any]
    scale: Scale = Scale.COUNT


@dataclass(frozen=True)
class RuleKind:
    """A rule type.

    Attributes
    ----------
    dq_type : str
        Name of the rule type.
    trees : type or union of types
        Possible types of the parsed rule.
    lower : callable
        Returns the plan of a bound rule.
    details : frozenset of str
        Details that the plan or the analyzer reads.
    measure : type of GriffinMeasure, optional
        Analyzer that measures such rules with a mergeable state.
    is_document : bool
        Whether the output can choose the layout of the metric. Queries have their own layout, and
        as in Griffin, uniqueness and distinctness have a fixed layout.
    """

    dq_type: str
    trees: Any
    lower: Callable[[Any, LoweringContext], RulePlan]
    details: frozenset[str]
    measure: type[GriffinMeasure[Any]] | None = None
    is_document: bool = True


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
    """

    config: RuleConfig
    scope: Scope
    group_by: tuple[str, ...] = ()

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
        read = (self.scope.source, self.scope.target)
        return free(name, {frame.casefold() for frame in read if frame})

    def extra_column(self, name: object) -> str:
        """Return a quoted name for an extra column, different from all columns of the source."""
        columns = self.scope.schema(self.source).names
        return quote(free(str(name), {column.casefold() for column in columns}))

    def count_step(
        self, name: str, key: str, frame: str | None = None, aliases: Sequence[str] = ()
    ) -> Step:
        """Return the step that counts the rows of a frame, by default of the source."""
        counted = f"SELECT {self.group_columns}count(1) AS {self.output_column(key)}"
        sql = f"{counted} FROM {frame or self.table}{self.group_by_clause()}"
        return Step(self.step(name), sql, tuple(aliases))

    def metric_step(
        self, name: str, numbers: Sequence[RuleNumber], rows: str, aliases: Sequence[str] = ()
    ) -> Step:
        """Return the step that computes numbers of the rows of a query."""
        cells = [f"{number.sql} AS {self.output_column(number.name)}" for number in numbers]
        sql = f"SELECT {self.group_columns}{', '.join(cells)} FROM ({rows}){self.group_by_clause()}"
        return Step(self.step(name), sql, tuple(aliases))

    def plan(
        self, steps: Sequence[Step], metrics: Sequence[MetricTable], *records: str
    ) -> RulePlan:
        """Return the plan of a rule on the source."""
        return RulePlan(tuple(steps), tuple(metrics), records, self.source, self.group_by)

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


Row = Mapping[str, Any]
Metric = dict[str, Any]


@dataclass(frozen=True)
class Report:
    """The metric of a rule.

    Attributes
    ----------
    metric : mapping
        In Griffin's layout: numbers by name, and lists of mappings. None where a number is
        undefined.
    extra : mapping
        Additional values by name, which are not part of the metric.
    labels : frozenset of str
        Keys that identify a mapping within a list, or a row; the other keys are values.
    rows : tuple of mapping or None
        The rows of a query, independent of the metric's layout.

    Examples
    --------
    >>> report = Report({"total": 4, "dups": [{"dup": 1, "num": 2}]}, labels=frozenset({"dup"}))
    >>> dict(report.scalars())
    {'total': 4.0, 'dups.1': 2.0}
    """

    metric: Mapping[str, Any]
    extra: Mapping[str, Any] = field(default_factory=dict)
    labels: frozenset[str] = frozenset()
    rows: tuple[Row, ...] | None = None

    @classmethod
    def from_rows(
        cls, rows: Sequence[Row], flatten: str, name: str, labels: Iterable[str] | None = None
    ) -> Self:
        """Build the metric of a query's rows.

        Parameters
        ----------
        rows : sequence of mapping
            Rows of a query, each by column.
        flatten : str
            As for `flattened`.
        name : str
            Name of the rule.
        labels : iterable of str, optional
            Columns that identify rows: the GROUP BY columns. Rows without any are numbered.

        Examples
        --------
        >>> made = Report.from_rows([{"city": "Rome", "n": 2}], "default", "cities", ["city"])
        >>> made.metric, dict(made.scalars())
        ({'city': 'Rome', 'n': 2}, {'n.Rome': 2.0})
        >>> dict(Report.from_rows([{"n": 2, "ok": True}], "default", "cities").scalars())
        {'n': 2.0, 'ok': 1.0}
        """
        return cls(flattened(rows, flatten, name), labels=frozenset(labels or ()), rows=tuple(rows))

    @classmethod
    def of_array(cls, rows: Sequence[Row], name: str, labels: Iterable[str]) -> Self:
        """Build a metric that is an array, such as numbers of duplicates.

        Examples
        --------
        >>> dict(Report.of_array([{"dup": 1, "num": 2}], "dups", ["dup"]).scalars())
        {'dups.1': 2.0}
        """
        return cls({name: [dict(row) for row in rows]}, labels=frozenset(labels))

    def merged_with(self, other: Self) -> Report:
        """Merge two reports into one metric."""
        extra = dict(self.cells()) | dict(other.cells())
        return Report({**self.metric, **other.metric}, extra, rows=())

    def shaped(self, flatten: str, name: str) -> Report:
        """Return the report with its whole metric in a layout; its values keep their names.

        Examples
        --------
        >>> made = Report({"total": 4}).shaped("map", "users")
        >>> made.metric, dict(made.scalars())
        ({'users': {'total': 4}}, {'total': 4.0})
        """
        if flatten not in {"array", "map"}:
            return self
        return Report(flattened([self.metric], flatten, name), dict(self.cells()), rows=())

    def scalars(self) -> Iterator[tuple[str, float]]:
        """Yield each number by name: ``column.label`` for query rows, ``name.label`` for lists.

        If the mappings of a list hold several values, the name is ``name.label.column``. A truth
        value is 0 or 1, a date or timestamp its seconds since 1970 in UTC. Strings are omitted.
        """
        for name, value in self.cells():
            number = as_number(value)
            if number is not None:
                yield name, number

    def cells(self) -> Iterator[tuple[str, Any]]:
        """Yield each value by name, including strings but not labels.

        Each name is different: rows with the same labels are numbered (``n.Rome``, ``n.Rome_2``).
        """
        if self.rows is not None:
            for label, row in self._labelled(self.rows):
                yield from ((".".join([n, *label]), v) for n, v in self._values(row).items())
        else:
            for name, value in self.metric.items():
                match value:
                    case list():
                        yield from self._of_rows(name, value)
                    case Mapping():
                        yield from self._of_rows(name, [value])
                    case _:
                        yield name, value
        yield from self.extra.items()

    def _of_rows(self, name: str, rows: Sequence[Row]) -> Iterator[tuple[str, Any]]:
        for label, row in self._labelled(rows):
            path = ".".join([name, *label])
            values = self._values(row)
            for key, value in values.items():
                yield (path if len(values) == 1 else f"{path}.{key}"), value

    def _labelled(self, rows: Sequence[Row]) -> Iterator[tuple[list[str], Row]]:
        """Yield rows with their labels; labels that are equal when joined by dots are numbered."""
        used: set[str] = set()
        for row in rows:
            plain = label = self._label(row)
            number = 1
            while ".".join(label) in used:
                number += 1
                label = [*plain[:-1], f"{plain[-1]}_{number}"] if plain else [str(number)]
            used.add(".".join(label))
            yield label, row

    def _label(self, row: Row) -> list[str]:
        return ["null" if row[key] is None else str(row[key]) for key in row if key in self.labels]

    def _values(self, row: Row) -> Metric:
        return {key: value for key, value in row.items() if key not in self.labels}


def flattened(rows: Sequence[Row], flatten: str, name: str) -> Metric:
    """Return rows as a metric in one of Griffin's layouts.

    Parameters
    ----------
    rows : sequence of mapping
        Rows of a query, each by column.
    flatten : str
        ``default``: a single row as it is, an empty mapping for no rows, else a list; ``entries``:
        the first row; ``array``: a list; ``map``: the first row under the name.
    name : str
        Name of the list or the map.

    Examples
    --------
    >>> flattened([{"n": 1}], "default", "rows"), flattened([{"n": 1}], "array", "rows")
    ({'n': 1}, {'rows': [{'n': 1}]})
    """
    first = dict(rows[0]) if rows else {}
    if flatten == "array" or (flatten == "default" and len(rows) > 1):
        return {name: [dict(row) for row in rows]}
    return {name: first} if flatten == "map" else first


def as_number(value: Any) -> float | None:
    """Return a value as a number, or None if it is not a number.

    Examples
    --------
    >>> as_number(True), as_number(Decimal("0.5")), as_number(dt.date(1970, 1, 2)), as_number("a")
    (1.0, 0.5, 86400.0, None)
    """
    match value:
        case int() | float() | Decimal():
            return float(value)
        case dt.datetime():
            return value.replace(tzinfo=value.tzinfo or dt.UTC).timestamp()
        case dt.date():
            return dt.datetime.combine(value, dt.time(), dt.UTC).timestamp()
        case _:
            return None


_PART_HEADER = struct.Struct("<HI")


@register_state("griffin-parts/1")
@dataclass(frozen=True, slots=True)
class Parts(State):
    """States of different types over the same rows; empty for no data.

    Examples
    --------
    >>> from tidegauge.analyzers.measures.counts import NumMatches
    >>> from tidegauge.analyzers.measures.moments import SumAndCount
    >>> Parts((NumMatches(2), SumAndCount(5, 1))) + Parts((NumMatches(3), SumAndCount(7, 3)))
    Parts(parts=(NumMatches(num_matches=5), SumAndCount(total=12, count=4)))
    """

    parts: tuple[Any, ...] = ()

    def combine(self, other: Self) -> Self:
        """Merge each part with its counterpart."""
        return self.merge([self, other])

    @classmethod
    def merge(cls, states: Iterable[Self]) -> Self:
        """Merge states part by part."""
        filled = [state.parts for state in states if state.parts]
        if not filled:
            return cls()
        for parts in filled:
            kinds, first_kinds = (
                [type(part).__name__ for part in group] for group in (parts, filled[0])
            )
            if kinds != first_kinds:
                raise mismatch("parts", first_kinds, kinds)
        return cls(tuple(type(column[0]).merge(column) for column in zip(*filled, strict=True)))

    def agrees_with(self, other: Self) -> bool:
        """Return whether each part agrees with its counterpart."""
        pairs = zip(self.parts, other.parts, strict=False)
        return len(self.parts) == len(other.parts) and all(a.agrees_with(b) for a, b in pairs)

    def forget(self, value: str, token: str) -> Self:
        """Replace a value by a token in each part."""
        parts = tuple(part.forget(value, token) for part in self.parts)
        same = all(new is old for new, old in zip(parts, self.parts, strict=True))
        return self if same else type(self)(parts)

    def pack(self) -> bytes:
        """Serialize each part as lengths, tag and payload."""
        return b"".join(_packed(part) for part in self.parts)

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """Deserialize the output of `pack`."""
        return cls(tuple(_unpacked(payload)))


def _packed(part: State) -> bytes:
    tag, payload = part.tag.encode(), part.pack()
    return _PART_HEADER.pack(len(tag), len(payload)) + tag + payload


def _unpacked(payload: bytes) -> Iterator[State]:
    at = 0
    while at < len(payload):
        of_tag, of_part = _PART_HEADER.unpack_from(payload, at)
        start = at + _PART_HEADER.size + of_tag
        at = start + of_part
        if at > len(payload):
            raise ValueError("it ends within a part")
        yield read_state(payload[start - of_tag : start].decode(), payload[start:at])


def items_of(rule: Rule) -> tuple[Expression, ...]:
    """Return a rule's listed expressions without aliases and grouping items; none for others."""
    if isinstance(rule, Distinct):
        return tuple(bare(item.expression) for item in rule.items if not item.grouping)
    return tuple(map(bare, rule.items)) if isinstance(rule, Listing) else ()


def bare(node: Expression) -> Expression:
    """Return an expression without its alias."""
    return node.expression if isinstance(node, Aliased) else node


def row_sql(node: Expression) -> str:
    """Return an expression as SQL with unqualified columns.

    Examples
    --------
    >>> row_sql(ColumnNode("source", "a.b"))
    '`a.b`'
    """
    return expression_sql(unqualified(bare(node)))


def unqualified(node: Any) -> Any:
    """Return a tree with columns replaced by unqualified names."""
    return mapped(node, lambda part: Name(part.name) if isinstance(part, ColumnNode) else part)


def groupable(node: Expression) -> bool:
    """Return whether an expression can be a key of a state: not nested, and not an interval."""
    kind = kind_of(node) or ""
    return kind not in NESTED and kind != "interval"


@dataclass(frozen=True, repr=False)
class GriffinMeasure(Analyzer[S, Report]):
    """A rule of the Griffin DSL, measured by a mergeable state.

    Parameters
    ----------
    rule : str
        The rule's name.
    expression : str
        The rule's text.
    source : str
        Name of the source in the rule.
    details : str
        The rule's details as JSON: names of its numbers, and options.

    Class attributes
    ----------------
    dq_type : str
        The rule type.
    numbers : tuple of RuleNumber
        The metric's numbers.
    other_details : tuple of str
        Details that the rule type reads in addition to names of numbers.
    """

    scale: ClassVar[Scale] = Scale.COUNT
    dq_type: ClassVar[str]
    numbers: ClassVar[tuple[RuleNumber, ...]] = ()
    other_details: ClassVar[tuple[str, ...]] = ()

    rule: str
    expression: str
    source: str = "source"
    details: str = "{}"

    @property
    def entity(self) -> Entity:
        """Dataset: a rule may read many columns."""
        return Entity.DATASET

    @property
    def instance(self) -> str:
        """The name of the source."""
        return self.source

    @property
    def name(self) -> str:
        """The rule's name prefixed with ``Griffin.``."""
        return f"Griffin.{self.rule}"

    def scale_of(self, metric_name: str) -> Scale:
        """Return the scale of one of the rule's metrics."""
        return self.column_scale(metric_name.removeprefix(f"{self.name}."))

    def column_scale(self, column: str) -> Scale:
        """Return the scale of one of the rule's numbers."""
        scales = {self.key(number.name): number.scale for number in self.numbers}
        return scales.get(column, Scale.COUNT)

    @classmethod
    def details_read(cls) -> frozenset[str]:
        """Return the details that the analyzer reads."""
        return frozenset((*(number.name for number in cls.numbers), *cls.other_details))

    def named_numbers(self, value: Any) -> Metric:
        """Return the numbers of a state, or of what the kind reads of it, by output name."""
        return {self.key(number.name): number.value(value) for number in self.numbers}

    def parsed_details(self) -> Mapping[str, Any]:
        """Return the details as a mapping."""
        return read_details(self.details)

    def key(self, name: str) -> str:
        """Return the output name of a number."""
        return str(self.parsed_details().get(name, name))

    def check_parameters(self) -> None:
        """Raise unless the details are a JSON object and the rule can be parsed."""
        try:
            is_mapping = isinstance(self.parsed_details(), dict)
        except ValueError:
            is_mapping = False
        if not is_mapping:
            msg = f"{self!r}: details must be a JSON object, not {self.details!r}"
            raise IllegalAnalyzerParameterError(msg)
        self.parsed()

    def config(self) -> RuleConfig:
        """Return the equivalent job configuration of the rule."""
        details = dict(self.parsed_details())
        errors = tuple(
            ErrorCondition(error["column.name"], error["type"], tuple(error["values"]))
            for error in details.pop("error.confs", ())
        )
        return RuleConfig(
            number=1,
            dsl_type="griffin-dsl",
            rule=self.expression,
            dq_type=self.dq_type,
            out_name=self.rule,
            details=details,
            errors=errors,
        )

    def scope(self, schema: Schema) -> Scope:
        """Return the name scope of the rule."""
        return Scope({self.source: schema}, self.source, None, None, self.expression, self.rule)

    def parsed(self) -> Rule:
        """Return the rule's syntax tree."""
        return parse(self.expression, self.dq_type, self.rule)

    def bound(self, schema: Schema) -> Rule:
        """Return the rule's syntax tree bound to the data's columns."""
        return bind(self.parsed(), self.scope(schema))

    def adds(self, config: RuleConfig, scope: Scope) -> bool:
        """Return whether a mergeable state can measure the rule as configured in a job."""
        self.bound(scope.schema(self.source))
        return True

    def aliases(self) -> tuple[str, ...]:
        """Return the aliases of the rule's expressions."""
        rule = self.parsed()
        items = () if isinstance(rule, Accuracy) else rule.items
        expressions = [
            item.expression if isinstance(item, DistinctItem) else item for item in items
        ]
        return aliases(expressions, {self.source.casefold()})

    def statistic(self) -> str:
        """Return the state's identity, which leaves out the rule's name."""
        return canonical_json({"griffin": self.dq_type, **self.options(), "rule": None})

    def measure(self, state: S) -> Report:
        """Return the metric; an empty state has a total of 0."""
        return Report(self.named_numbers(state))


@lru_cache(maxsize=1024)
def read_details(details: str) -> Mapping[str, Any]:
    """Parse details from JSON."""
    parsed: Mapping[str, Any] = json.loads(details)
    return parsed
