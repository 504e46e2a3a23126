"""User-defined SQL aggregates: CustomSql."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from math import isclose
from typing import Any, ClassVar, Self

from tidegauge.analyzers.core.analyzer import ScanAnalyzer, analyzer
from tidegauge.analyzers.core.description import check_choice
from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError, MetricRuntimeError
from tidegauge.analyzers.core.exact import Number, add, greatest, least, pack_number, unpack_number
from tidegauge.analyzers.core.metric import Entity, Scale
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.sql import count_rows
from tidegauge.analyzers.core.state import State, mismatch, register_state

MERGES = ("none", "sum", "min", "max")
_HEAD = struct.Struct("<qqB")


@register_state("custom-sql/1")
@dataclass(frozen=True, slots=True)
class CustomSqlState(State):
    """Result of a SQL aggregate, with row count, number of merged pieces and merge rule.

    Pieces merged with rule ``none`` give no number. States with different merge rules do not merge.

    Examples
    --------
    >>> CustomSqlState(3, 10, 1, "sum") + CustomSqlState(4, 20, 1, "sum")
    CustomSqlState(number=7, count=30, pieces=2, way='sum')
    >>> (CustomSqlState(0.3, 10, 1, "none") + CustomSqlState(0.4, 20, 1, "none")).number
    """

    number: Number | None = None
    count: int = 0
    pieces: int = 0
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
            ways = {"sum": add(*values), "min": least(values), "max": greatest(values)}
            number = ways.get(self.way)
        elif self.way == "none":
            number = None
        return type(self)(number, self.count + other.count, self.pieces + other.pieces, self.way)

    def agrees_with(self, other: Self) -> bool:
        """Return whether number, rows and merge rule agree; the number of pieces is ignored."""
        same = (self.count, self.way) == (other.count, other.way)
        if self.number is None or other.number is None:
            return same and self.number is other.number
        return same and isclose(self.number, other.number, rel_tol=1e-9, abs_tol=1e-12)

    def pack(self) -> bytes:
        """Serialize the counts and the merge rule, then the number."""
        head = _HEAD.pack(self.count, self.pieces, MERGES.index(self.way))
        return head + pack_number(self.number)

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """Deserialize the output of `pack`."""
        count, pieces, way = _HEAD.unpack_from(payload)
        if way >= len(MERGES):
            raise ValueError(way)
        return cls(unpack_number(payload, _HEAD.size)[0], count, pieces, MERGES[way])


_QUERY = re.compile(r"\s*(SELECT|WITH|FROM)\b", re.IGNORECASE)
_NO_AGGREGATE = re.compile(
    r"\bOVER\s*\(|\bOVER\s+\w|\b(pos)?explode(_outer)?\s*\(|\binline\s*\(|\bstack\s*\(",
    re.IGNORECASE,
)


@analyzer
class CustomSql(ScanAnalyzer[CustomSqlState, float]):
    """Value of a Spark SQL aggregate expression, computed in the same pass as other analyzers.

    Empty metric if the expression gives null.

    Parameters
    ----------
    expression : str
        An aggregate over the rows, such as ``sum(amount) / count(DISTINCT user)``; not a query,
        because it is evaluated on the measured data, partition by partition.
    disambiguator : str
        Instance name of the metric.
    merge : str
        Rule that merges the numbers of several partitions: ``sum``, ``min`` or ``max``. ``none``
        for numbers that do not merge, such as ratios; the metric of several partitions is an error
        then.

    Examples
    --------
    >>> spread = CustomSql("max(x) - min(x)", "spread")
    >>> spread.compute_metric_from(CustomSqlState(4.5, 3, 1)).value
    4.5
    """

    scale: ClassVar[Scale] = Scale.SIGNED
    state_type: ClassVar[type[State]] = CustomSqlState
    filters_rows: ClassVar[bool] = True

    expression: str
    disambiguator: str = "*"
    merge: str = "none"

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

    def check_parameters(self) -> None:
        """Require a known merge rule; reject queries, window functions and generators."""
        check_choice(self, "merge", MERGES)
        if _QUERY.match(self.expression):
            msg = (
                f"{self!r}: give the expression alone, as in 'sum(x) / count(1)': it is computed"
                " for each partition of the data measured, which a query cannot be"
            )
            raise IllegalAnalyzerParameterError(msg)
        if _NO_AGGREGATE.search(self.expression):
            msg = f"{self!r}: windows and generators look beyond a partition; aggregate its rows"
            raise IllegalAnalyzerParameterError(msg)

    def aggregations(self, schema: Schema) -> Sequence[str]:
        """Return the expression and the row count; both are evaluated on filtered rows."""
        return (f"(\n{self.expression}\n)", count_rows(None))

    def fold(self, cells: Sequence[Any]) -> CustomSqlState:
        """Return the state of the number and the row count."""
        number, count = cells
        if number is not None and not isinstance(number, Number):
            msg = f"{self!r} gives a {type(number).__name__}, not a number"
            raise MetricRuntimeError(msg)
        return CustomSqlState(number, count or 0, 1, self.merge) if count else CustomSqlState()

    def measure(self, state: CustomSqlState) -> float:
        """Return the number of columns."""
        if state.number is not None:
            return float(state.number)
        if state.pieces > 1 and self.merge == "none":
            msg = f"{self!r} cannot be made of {state.pieces} parts: it has merge='none'"
            raise MetricRuntimeError(msg)
        raise self.no_data()
