"""Row counts and shares: Size, Completeness, ZerosCount, Compliance.

Formulas and null semantics follow Deequ, except that Size of no rows is 0 with a filter, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any, ClassVar, Self

from tidegauge.analyzers.core.analyzer import (
    Analyzer,
    ColumnAnalyzer,
    DatasetAnalyzer,
    Filterable,
    ScanAnalyzer,
    analyzer,
)
from tidegauge.analyzers.core.conditions import known_sql
from tidegauge.analyzers.core.metric import Entity, Scale
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.sql import column_sql, count_rows, where_holds
from tidegauge.analyzers.core.state import Count, DoubleValuedState, State, register_state


@register_state("num-matches/1")
@dataclass(frozen=True, slots=True)
class NumMatches(DoubleValuedState):
    """A row count.

    Examples
    --------
    >>> (NumMatches(2) + NumMatches(3)).metric_value()
    5.0
    """

    layout: ClassVar[Struct] = Struct("<q")
    num_matches: Count = 0

    def combine(self, other: Self) -> Self:
        """Add the counts."""
        return type(self)(self.num_matches + other.num_matches)

    def metric_value(self) -> float:
        """Return the number of rows."""
        return float(self.num_matches)


@register_state("num-matches-and-count/1")
@dataclass(frozen=True, slots=True)
class NumMatchesAndCount(DoubleValuedState):
    """Number of matching rows, and number of all rows.

    Examples
    --------
    >>> (NumMatchesAndCount(2, 3) + NumMatchesAndCount(1, 2)).metric_value()
    0.6
    """

    layout: ClassVar[Struct] = Struct("<qq")
    num_matches: Count = 0
    count: Count = 0

    def combine(self, other: Self) -> Self:
        """Add both counts."""
        return type(self)(self.num_matches + other.num_matches, self.count + other.count)

    def metric_value(self) -> float:
        """Return the share of matching rows; NaN at zero rows."""
        return self.num_matches / self.count if self.count else float("nan")


@register_state("compliance/1")
@dataclass(frozen=True, slots=True)
class ComplianceState(State):
    """Numbers of complying rows, of rows with a non-null predicate, and of all rows."""

    layout: ClassVar[Struct] = Struct("<qqq")
    num_matches: Count = 0
    num_known: Count = 0
    count: Count = 0

    def combine(self, other: Self) -> Self:
        """Add the counts."""
        return type(self)(
            self.num_matches + other.num_matches,
            self.num_known + other.num_known,
            self.count + other.count,
        )


@analyzer
class Size(DatasetAnalyzer[NumMatches, float]):
    """Number of rows, or of rows where the filter is true; 0 for no rows.

    Examples
    --------
    >>> Size(where="origin = 'EWR'").compute_metric_from(NumMatches(3)).value
    3.0
    """

    scale: ClassVar[Scale] = Scale.COUNT
    state_type: ClassVar[type[State]] = NumMatches

    def aggregations(self, schema: Schema) -> Sequence[str]:
        """Count the rows."""
        return (count_rows(self.where),)

    def fold(self, cells: Sequence[Any]) -> NumMatches:
        """Return the state of the count."""
        return NumMatches(cells[0])

    def measure(self, state: NumMatches) -> float:
        """Return the number of rows."""
        return state.metric_value()

    def weight(self, state: NumMatches) -> float:
        """Return the number of rows."""
        return state.num_matches


@dataclass(frozen=True, repr=False)
class RatioAnalyzer(Filterable, Analyzer[NumMatchesAndCount, float]):
    """Base of analyzers that give a share of matching rows. Empty metric at zero rows."""

    scale: ClassVar[Scale] = Scale.RATIO
    state_type: ClassVar[type[State]] = NumMatchesAndCount

    def measure(self, state: NumMatchesAndCount) -> float:
        """Return the number of matching rows divided by all rows."""
        if not state.count:
            raise self.no_data()
        return state.metric_value()


@analyzer
class Completeness(RatioAnalyzer, ColumnAnalyzer[NumMatchesAndCount, float]):
    """Share of rows where the column is not null; NaN is not null. Empty metric at zero rows.

    The column may be a whole struct, array, map or variant: one that is empty, or holds only nulls, is
    not null.

    Examples
    --------
    >>> Completeness("email").compute_metric_from(NumMatchesAndCount(3, 4)).value
    0.75
    """

    accepts: ClassVar[str] = "field"

    def aggregations(self, schema: Schema) -> Sequence[str]:
        """Count the non-null values and the rows."""
        return (f"count({self.values(schema)})", count_rows(self.where))


@analyzer
class ZerosCount(RatioAnalyzer, ColumnAnalyzer[NumMatchesAndCount, float]):
    """Number of zeros in a numeric column; null and NaN are not zeros.

    Empty metric at zero rows.

    Examples
    --------
    >>> ZerosCount("x").compute_metric_from(NumMatchesAndCount(3, 4)).value
    3.0
    """

    scale: ClassVar[Scale] = Scale.COUNT
    accepts: ClassVar[str] = "numeric"

    def aggregations(self, schema: Schema) -> Sequence[str]:
        """Count the zeros and the rows."""
        field = self.field(schema)
        # Spark would round a decimal of many digits to compare it with an integer.
        zero = (
            "CAST(0 AS DECIMAL({}, {}))".format(*field.digits) if field.kind == "decimal" else "0"
        )
        zeros = where_holds(self.where, f"{field.sql} = {zero}")
        return (f"count_if({zeros})", count_rows(self.where))

    def measure(self, state: NumMatchesAndCount) -> float:
        """Return the number of zeros."""
        if not state.count:
            raise self.no_data()
        return float(state.num_matches)


@analyzer
class Compliance(ScanAnalyzer[ComplianceState, float]):
    """Share of rows where a Spark SQL predicate is true.

    A null predicate does not comply but counts as a row. Empty metric at zero rows and, as in
    Deequ, if the predicate is null on every row, because nothing was tested then.

    Parameters
    ----------
    instance : str
        Name of the rule.
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
    sql_options: ClassVar[tuple[str, ...]] = ("where", "predicate")

    instance: str
    predicate: str

    @property
    def entity(self) -> Entity:
        """Column, as in Deequ."""
        return Entity.COLUMN

    def aggregations(self, schema: Schema) -> Sequence[str]:
        """Count the rows where the predicate is true, where it is not null, and all rows."""
        predicate = f"(\n{self.predicate}\n)"
        held = where_holds(self.where, predicate)
        known = where_holds(self.where, known_sql(predicate, schema))
        return (f"count_if({held})", f"count({known})", count_rows(self.where))

    def measure(self, state: ComplianceState) -> float:
        """Return the number of complying rows divided by all rows."""
        if not state.num_known:
            raise self.no_data()
        return state.num_matches / state.count


def non_negative(column: str) -> Compliance:
    """Return the share of rows whose number is at least 0 or null: one series for profiles and checks.

    Examples
    --------
    >>> non_negative("amount").predicate
    'coalesce(`amount`, 0) >= 0'
    """
    return Compliance(f"{column} is not negative", f"coalesce({column_sql(column)}, 0) >= 0")
