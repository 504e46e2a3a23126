"""Analyzers for Griffin rules: base class, reports and composite states.

A measure reads a bound rule with a mergeable state and returns a `Report`: the rule's metric in
Griffin's layout and as scalars. `Parts` keeps several states side by side. Scans use unqualified
columns, so trees are written as SQL without their sources.
"""

from __future__ import annotations

import datetime as dt
import json
import struct
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Any, ClassVar, Self

from tidegauge.analyzers.core.analyzer import Analyzer, S
from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError
from tidegauge.analyzers.core.metric import Entity, Scale
from tidegauge.analyzers.core.registry import canonical_json
from tidegauge.analyzers.core.schema import NESTED, Schema
from tidegauge.analyzers.core.state import State, mismatch, read_state, register_state
from tidegauge.griffin.bind.expressions import Scope
from tidegauge.griffin.bind.rules import bind
from tidegauge.griffin.bind.types import kind_of
from tidegauge.griffin.config import ErrorCondition, RuleConfig
from tidegauge.griffin.dsl.nodes import (
    Accuracy,
    Aliased,
    ColumnNode,
    Distinct,
    DistinctItem,
    Expression,
    Listing,
    Name,
    Rule,
    aliases,
)
from tidegauge.griffin.dsl.parser import parse
from tidegauge.griffin.measures.sql import expression_sql, mapped

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
        Additional values by name, in no part of the metric.
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
        """Yield rows with their labels, which are made different where they are not, also when joined by dots."""
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
            msg = "it ends within a part"
            raise ValueError(msg)
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
    read : tuple of str
        Details that the rule type reads.
    """

    scale: ClassVar[Scale] = Scale.COUNT
    dq_type: ClassVar[str]
    read: ClassVar[tuple[str, ...]]

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
        return self.scale

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

    @abstractmethod
    def measure(self, state: S) -> Report:
        """Return the metric; an empty state has a total of 0."""


@lru_cache(maxsize=1024)
def read_details(details: str) -> Mapping[str, Any]:
    """Parse details from JSON."""
    parsed: Mapping[str, Any] = json.loads(details)
    return parsed
