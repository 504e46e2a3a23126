"""A measure in the user's own words: CustomSql."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from math import isclose
from typing import Any, ClassVar, Self

from analyzers.analyzer import ScanAnalyzer, analyzer
from analyzers.description import one_of_these
from analyzers.errors import IllegalAnalyzerParameterError, MetricRuntimeError
from analyzers.exact import Number, add, greatest, least, pack_number, unpack_number
from analyzers.metric import Entity, Scale
from analyzers.schema import Schema
from analyzers.sql import count_rows
from analyzers.state import State, mismatch, register_state

MERGES = ("none", "sum", "min", "max")
_HEAD = struct.Struct("<qqB")


@register_state("custom-sql/1")
@dataclass(frozen=True, slots=True)
class CustomSqlState(State):
    """One number that a query gave, of how many pieces of data, and how it adds up.

    Of several pieces that do not add up there is no number. Different ways to add up do not mix.

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
        """Add up in the way that was chosen."""
        if not self.pieces or not other.pieces:
            return self if self.pieces else other
        if self.way != other.way:
            raise mismatch("merge", self.way, other.way)
        values = [s.number for s in (self, other) if s.number is not None]
        number = values[0] if values else None
        if len(values) == 2:  # noqa: PLR2004
            ways = {"sum": add(*values), "min": least(values), "max": greatest(values)}
            number = ways.get(self.way)
        elif self.way == "none":
            number = None
        return type(self)(number, self.count + other.count, self.pieces + other.pieces, self.way)

    def agrees_with(self, other: Self) -> bool:
        """Whether number, rows and way are equal; of how many pieces it was made is no content."""
        same = (self.count, self.way) == (other.count, other.way)
        if self.number is None or other.number is None:
            return same and self.number is other.number
        return same and isclose(self.number, other.number, rel_tol=1e-9, abs_tol=1e-12)

    def pack(self) -> bytes:
        """Counts and way, then the number."""
        head = _HEAD.pack(self.count, self.pieces, MERGES.index(self.way))
        return head + pack_number(self.number)

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """Read what `pack` wrote."""
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
    """The number that a Spark SQL aggregate expression gives, computed in the same pass as all else.

    Empty where the expression gives null.

    Parameters
    ----------
    expression : str
        An aggregate over the rows, such as ``sum(amount) / count(DISTINCT user)``; not a query: what
        it reads is the data measured, partition by partition.
    disambiguator : str
        What to call it: the metric's instance.
    merge : str
        How the numbers of several partitions make that of all: ``sum``, ``min`` or ``max``. ``none``
        for those, like ratios, of which nothing can be made; asking for it is then an error.

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
        """The data set."""
        return Entity.DATASET

    @property
    def instance(self) -> str:
        """What it is called."""
        return self.disambiguator

    @property
    def name(self) -> str:
        """Deequ's spelling."""
        return "CustomSQL"

    def check_parameters(self) -> None:
        """The way to add up is known, and the expression is none of a query."""
        one_of_these(self, "merge", MERGES)
        if _QUERY.match(self.expression):
            msg = (
                f"{self!r}: give the expression alone, as in 'sum(x) / count(1)': it is computed"
                " for each partition of the data measured, which a query cannot be"
            )
            raise IllegalAnalyzerParameterError(msg)
        if _NO_AGGREGATE.search(self.expression):
            msg = f"{self!r}: windows and generators look beyond a partition; aggregate its rows"
            raise IllegalAnalyzerParameterError(msg)

    def aggregations(self, schema: Schema) -> Sequence[str]:  # noqa: ARG002
        """Compute it, and count the rows; both see only rows that the filter lets through."""
        return (f"(\n{self.expression}\n)", count_rows(None))

    def fold(self, cells: Sequence[Any]) -> CustomSqlState:
        """Take the number."""
        number, count = cells
        if number is not None and not isinstance(number, Number):
            msg = f"{self!r} gives a {type(number).__name__}, not a number"
            raise MetricRuntimeError(msg)
        return CustomSqlState(number, count or 0, 1, self.merge) if count else CustomSqlState()

    def measure(self, state: CustomSqlState) -> float:
        """Return the number."""
        if state.number is not None:
            return float(state.number)
        if state.pieces > 1 and self.merge == "none":
            msg = f"{self!r} cannot be made of {state.pieces} parts: it has merge='none'"
            raise MetricRuntimeError(msg)
        raise self.no_data()

    def weight(self, state: CustomSqlState) -> float:
        """Return the rows."""
        return state.count
