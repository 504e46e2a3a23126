"""User-defined SQL aggregates and queries: CustomSql."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from tidegauge.analyzers.core.analyzer import (
    Aggregate,
    Analyzer,
    CustomRequest,
    Filterable,
    Request,
    analyzer,
)
from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError, MetricRuntimeError
from tidegauge.analyzers.core.metric import Entity, Scale
from tidegauge.analyzers.core.registry import check_choice
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.sql import count_rows, words_in
from tidegauge.analyzers.core.state import (
    Count,
    Number,
    State,
    add,
    agree,
    greatest,
    least,
    mismatch,
    pack_number,
    register_state,
    unpack_number,
)

MERGE_RULES = ("none", "sum", "min", "max")
_HEADER_LAYOUT = struct.Struct("<qqB")


@register_state("custom-sql/1")
@dataclass(frozen=True, slots=True)
class CustomSqlState(State):
    """Result of a SQL aggregate, with row count, number of merged pieces and merge rule.

    Pieces merged with rule ``none`` have no number. States with different merge rules do not merge.

    Examples
    --------
    >>> CustomSqlState(3, 10, 1, "sum") + CustomSqlState(4, 20, 1, "sum")
    CustomSqlState(number=7, count=30, pieces=2, way='sum')
    >>> (CustomSqlState(0.3, 10, 1, "none") + CustomSqlState(0.4, 20, 1, "none")).number
    """

    number: Number | None = None
    count: Count = 0
    pieces: Count = 0
    way: str = "none"

    def combine(self, other: Self) -> Self:
        """Merge two numbers by the merge rule."""
        if not self.pieces or not other.pieces:
            return self if self.pieces else other
        if self.way != other.way:
            raise mismatch("merge", self.way, other.way)
        values = [s.number for s in (self, other) if s.number is not None]
        number = values[0] if values else None
        if len(values) == 2:
            number_by_rule = {"sum": add(*values), "min": least(values), "max": greatest(values)}
            number = number_by_rule.get(self.way)
        elif self.way == "none":
            number = None
        return type(self)(number, self.count + other.count, self.pieces + other.pieces, self.way)

    def agrees_with(self, other: Self) -> bool:
        """Return whether number, rows and merge rule agree; the number of pieces is ignored."""
        same = (self.count, self.way) == (other.count, other.way)
        if self.number is None or other.number is None:
            return same and self.number is other.number
        return same and agree(self.number, other.number)

    def pack(self) -> bytes:
        """Serialize the counts and the merge rule, then the number."""
        head = _HEADER_LAYOUT.pack(self.count, self.pieces, MERGE_RULES.index(self.way))
        return head + pack_number(self.number)

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """Deserialize the output of `pack`."""
        count, pieces, rule_index = _HEADER_LAYOUT.unpack_from(payload)
        if rule_index >= len(MERGE_RULES):
            raise ValueError(rule_index)
        return cls(
            unpack_number(payload, _HEADER_LAYOUT.size)[0], count, pieces, MERGE_RULES[rule_index]
        )


_QUERY_START = re.compile(r"\s*(SELECT|WITH|FROM)\b", re.IGNORECASE)
_VIEW_IDENTIFIER = re.compile(r"[^\W\d]\w*")
_NO_AGGREGATE = re.compile(
    r"\bOVER\s*\(|\bOVER\s+\w|\b(pos)?explode(_outer)?\s*\(|\binline\s*\(|\bstack\s*\(",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class CustomQuery(CustomRequest):
    """Request for the number that a query returns, and for the number of rows that it reads.

    Attributes
    ----------
    sql : str
        The query.
    view : str
        The name under which the query reads the data.
    where : str or None
        Condition on the rows.
    """

    job: ClassVar[str] = "tidegauge.analyzers.scan.jobs:Querying"

    sql: str
    view: str
    where: str | None

    @property
    def texts(self) -> tuple[str, ...]:
        """The query, and the filter."""
        return tuple(f"(\n{text}\n)" for text in (self.sql, self.where) if text)


@analyzer
class CustomSql(Filterable, Analyzer[CustomSqlState, float]):
    """Value of a Spark SQL aggregate, or of a query that returns one number.

    An aggregate, such as ``sum(amount) / count(DISTINCT user)``, is computed in the same pass as other
    analyzers. A query, such as ``SELECT count(*) FROM data a JOIN data b ON a.id = b.parent``, runs once
    for each partition and reads only its rows, or the whole table if the table is measured as a whole. A
    query cannot be measured by segment.
    Empty metric if the result is null or there are no rows.

    Parameters
    ----------
    expression : str
        The aggregate or query. A query can read other tables. If such a table changes, and it is not a view,
        all partitions are measured again.
    disambiguator : str
        Instance name of the metric.
    merge : str
        Rule that merges the numbers of several partitions: ``sum``, ``min`` or ``max``. ``none`` for
        numbers that do not merge, such as ratios. The metric of several partitions is then an error.
    view : str
        The name of the measured data in a query. It hides a table of the same name.

    Examples
    --------
    >>> spread = CustomSql("max(x) - min(x)", "spread")
    >>> spread.compute_metric_from(CustomSqlState(4.5, 3, 1)).value
    4.5
    >>> CustomSql("SELECT count(*) FROM orders")
    Traceback (most recent call last):
    tidegauge.analyzers.core.errors.IllegalAnalyzerParameterError: CustomSql('SELECT count(*) FROM orders'): the query does not read 'data', the data measured; write FROM data, or give its name by view=
    """

    scale: ClassVar[Scale] = Scale.SIGNED
    state_type: ClassVar[type[State]] = CustomSqlState
    sql_options: ClassVar[tuple[str, ...]] = ("where", "expression")

    expression: str
    disambiguator: str = "*"
    merge: str = "none"
    view: str = field(default="data", kw_only=True, metadata={"since": "0.2"})

    @property
    def entity(self) -> Entity:
        """The dataset."""
        return Entity.DATASET

    @property
    def instance(self) -> str:
        """The disambiguator."""
        return self.disambiguator

    @property
    def name(self) -> str:
        """The name in Deequ's spelling."""
        return "CustomSQL"

    @property
    def data_name(self) -> str:
        """The view."""
        return self.view

    @property
    def is_query(self) -> bool:
        """Whether the expression is a query."""
        return _QUERY_START.match(self.expression) is not None

    def check_parameters(self) -> None:
        """Require a known merge rule and a query of the data, or an aggregate without windows."""
        check_choice(self, "merge", MERGE_RULES)
        if not _VIEW_IDENTIFIER.fullmatch(self.view):
            msg = f"{self!r}: view must be one word, such as 'data', not {self.view!r}"
            raise IllegalAnalyzerParameterError(msg)
        if self.is_query:
            if self.view.casefold() not in words_in(self.expression):
                msg = (
                    f"{self!r}: the query does not read {self.view!r}, the data measured; write FROM"
                    f" {self.view}, or give its name by view="
                )
                raise IllegalAnalyzerParameterError(msg)
        elif _NO_AGGREGATE.search(self.expression):
            msg = f"{self!r}: windows and generators can read rows of other partitions; use an aggregate of the rows"
            raise IllegalAnalyzerParameterError(msg)

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Request the number and the row count, both of filtered rows."""
        if self.is_query:
            return (CustomQuery(self.expression, self.view, self.where),)
        texts = (f"(\n{self.expression}\n)", count_rows(None))
        return tuple(Aggregate(text, self.where) for text in texts)

    def fold(self, cells: Sequence[Any]) -> CustomSqlState:
        """Return the state of the number and the row count."""
        number, count = (cells[0] or (None, 0)) if self.is_query else cells
        if number is not None and not isinstance(number, Number):
            msg = f"{self!r} returned a {type(number).__name__}, not a number"
            raise MetricRuntimeError(msg)
        return CustomSqlState(number, count or 0, 1, self.merge) if count else CustomSqlState()

    def measure(self, state: CustomSqlState) -> float:
        """Return the number."""
        if state.number is not None:
            return float(state.number)
        if state.pieces > 1 and self.merge == "none":
            msg = (
                f"{self!r} cannot be merged from {state.pieces} parts, because it has merge='none'"
            )
            raise MetricRuntimeError(msg)
        raise self.no_data()
