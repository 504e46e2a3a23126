"""Counting rows: Size, Completeness, ZerosCount, Compliance.

Formulas and null semantics follow Deequ, except that the size of nothing is 0 with a filter too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any, ClassVar, Self

from analyzers.analyzer import (
    Analyzer,
    ColumnAnalyzer,
    DatasetAnalyzer,
    Filterable,
    ScanAnalyzer,
    analyzer,
)
from analyzers.metric import Entity, Scale
from analyzers.schema import Schema
from analyzers.sql import count_rows, where_holds
from analyzers.state import DoubleValuedState, State, register_state


@register_state("num-matches/1")
@dataclass(frozen=True, slots=True)
class NumMatches(DoubleValuedState):
    """A number of rows.

    Examples
    --------
    >>> (NumMatches(2) + NumMatches(3)).metric_value()
    5.0
    """

    layout: ClassVar[Struct] = Struct("<q")
    num_matches: int = 0

    def combine(self, other: Self) -> Self:
        """Add the counts."""
        return type(self)(self.num_matches + other.num_matches)

    def metric_value(self) -> float:
        """Return the number of rows."""
        return float(self.num_matches)


@register_state("num-matches-and-count/1")
@dataclass(frozen=True, slots=True)
class NumMatchesAndCount(DoubleValuedState):
    """Rows that match, out of rows.

    Examples
    --------
    >>> (NumMatchesAndCount(2, 3) + NumMatchesAndCount(1, 2)).metric_value()
    0.6
    """

    layout: ClassVar[Struct] = Struct("<qq")
    num_matches: int = 0
    count: int = 0

    def combine(self, other: Self) -> Self:
        """Add both counts."""
        return type(self)(self.num_matches + other.num_matches, self.count + other.count)

    def metric_value(self) -> float:
        """Return the share of rows that match; NaN at zero rows."""
        return self.num_matches / self.count if self.count else float("nan")


@register_state("compliance/1")
@dataclass(frozen=True, slots=True)
class ComplianceState(State):
    """Rows that comply, rows where the predicate is not null, and rows."""

    layout: ClassVar[Struct] = Struct("<qqq")
    num_matches: int = 0
    num_known: int = 0
    count: int = 0

    def combine(self, other: Self) -> Self:
        """Add the counts."""
        return type(self)(
            self.num_matches + other.num_matches,
            self.num_known + other.num_known,
            self.count + other.count,
        )


@analyzer
class Size(DatasetAnalyzer[NumMatches, float]):
    """Number of rows; of those where the filter is true, if there is one. 0 for no rows.

    Examples
    --------
    >>> Size(where="origin = 'EWR'").compute_metric_from(NumMatches(3)).value
    3.0
    """

    scale: ClassVar[Scale] = Scale.COUNT
    state_type: ClassVar[type[State]] = NumMatches

    def aggregations(self, schema: Schema) -> Sequence[str]:  # noqa: ARG002
        """Count the rows."""
        return (count_rows(self.where),)

    def fold(self, cells: Sequence[Any]) -> NumMatches:
        """Take the count."""
        return NumMatches(cells[0])

    def measure(self, state: NumMatches) -> float:
        """Return the count."""
        return state.metric_value()

    def weight(self, state: NumMatches) -> float:
        """Return the count."""
        return state.num_matches


@dataclass(frozen=True, repr=False)
class RatioAnalyzer(Filterable, Analyzer[NumMatchesAndCount, float]):
    """Share of rows that match. Empty at zero rows."""

    scale: ClassVar[Scale] = Scale.RATIO
    state_type: ClassVar[type[State]] = NumMatchesAndCount

    def fold(self, cells: Sequence[Any]) -> NumMatchesAndCount:
        """Take both counts."""
        return NumMatchesAndCount(*cells)

    def measure(self, state: NumMatchesAndCount) -> float:
        """Return matches by rows."""
        if not state.count:
            raise self.no_data()
        return state.metric_value()

    def weight(self, state: NumMatchesAndCount) -> float:
        """Return the rows."""
        return state.count


@analyzer
class Completeness(RatioAnalyzer, ColumnAnalyzer[NumMatchesAndCount, float]):
    """Share of rows where the column is not null; NaN is not null. Empty at zero rows.

    Examples
    --------
    >>> Completeness("email").compute_metric_from(NumMatchesAndCount(3, 4)).value
    0.75
    """

    def aggregations(self, schema: Schema) -> Sequence[str]:
        """Count the values and the rows."""
        return (f"count({self.values(schema)})", count_rows(self.where))


@analyzer
class ZerosCount(RatioAnalyzer, ColumnAnalyzer[NumMatchesAndCount, float]):
    """Number of zeros in a numeric column; nulls and NaN are none. Empty at zero rows.

    Examples
    --------
    >>> ZerosCount("x").compute_metric_from(NumMatchesAndCount(3, 4)).value
    3.0
    """

    scale: ClassVar[Scale] = Scale.COUNT
    accepts: ClassVar[str] = "numeric"

    def aggregations(self, schema: Schema) -> Sequence[str]:
        """Count the zeros and the rows."""
        zeros = where_holds(self.where, f"{self.field(schema).sql} = 0")
        return (f"count_if({zeros})", count_rows(self.where))

    def measure(self, state: NumMatchesAndCount) -> float:
        """Return the zeros."""
        if not state.count:
            raise self.no_data()
        return float(state.num_matches)


@analyzer
class Compliance(ScanAnalyzer[ComplianceState, float]):
    """Share of rows where a Spark SQL predicate is true.

    A null predicate does not comply but counts as a row. Empty at zero rows, and, as in Deequ, where
    the predicate is null on every row: nothing was tested then.

    Parameters
    ----------
    instance : str
        What to call the rule.
    predicate : str
        A Spark SQL condition.

    Examples
    --------
    >>> rule = Compliance("on time", "arr_delay <= 15")
    >>> rule.compute_metric_from(ComplianceState(num_matches=1, num_known=2, count=3)).value
    0.3333333333333333
    """

    scale: ClassVar[Scale] = Scale.RATIO
    state_type: ClassVar[type[State]] = ComplianceState

    instance: str
    predicate: str

    @property
    def entity(self) -> Entity:
        """A column, as in Deequ."""
        return Entity.COLUMN

    def aggregations(self, schema: Schema) -> Sequence[str]:  # noqa: ARG002
        """Count where it is true, where it is known, and the rows."""
        held = where_holds(self.where, f"(\n{self.predicate}\n)")
        return (f"count_if({held})", f"count({held})", count_rows(self.where))

    def fold(self, cells: Sequence[Any]) -> ComplianceState:
        """Take the counts."""
        return ComplianceState(*cells)

    def measure(self, state: ComplianceState) -> float:
        """Return complying rows by rows."""
        if not state.num_known:
            raise self.no_data()
        return state.num_matches / state.count

    def weight(self, state: ComplianceState) -> float:
        """Return the rows."""
        return state.count
