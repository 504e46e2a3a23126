"""The table's columns themselves: ColumnCount, ColumnExists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any, ClassVar, Self

from analyzers.analyzer import ColumnAnalyzer, DatasetAnalyzer, analyzer
from analyzers.errors import NoSuchColumnError
from analyzers.metric import Scale
from analyzers.schema import Schema
from analyzers.sql import count_rows
from analyzers.state import DoubleValuedState, State, register_state


@register_state("column-count/1")
@dataclass(frozen=True, slots=True)
class ColumnCountState(DoubleValuedState):
    """The columns of the widest of some pieces of data, and how many rows those had."""

    layout: ClassVar[Struct] = Struct("<qq")
    columns: int = 0
    count: int = 0

    def combine(self, other: Self) -> Self:
        """Keep the wider."""
        return type(self)(max(self.columns, other.columns), self.count + other.count)

    def metric_value(self) -> float:
        """Return the number of columns."""
        return float(self.columns)


@register_state("column-exists/1")
@dataclass(frozen=True, slots=True)
class ColumnExistsState(DoubleValuedState):
    """In how many of some pieces of data a column was there."""

    layout: ClassVar[Struct] = Struct("<qq")
    found: int = 0
    pieces: int = 0

    def combine(self, other: Self) -> Self:
        """Add both."""
        return type(self)(self.found + other.found, self.pieces + other.pieces)

    def metric_value(self) -> float:
        """Return 1 if the column was there each time, else 0."""
        return float(self.found == self.pieces)


@analyzer
class ColumnCount(DatasetAnalyzer[ColumnCountState, float]):
    """Number of columns, partition columns included; over several partitions the most that one had.

    Empty where nothing was read.

    Examples
    --------
    >>> ColumnCount().compute_metric_from(ColumnCountState(7, 1) + ColumnCountState(8, 2)).value
    8.0
    """

    scale: ClassVar[Scale] = Scale.COUNT
    state_type: ClassVar[type[State]] = ColumnCountState

    def aggregations(self, schema: Schema) -> Sequence[str]:
        """The schema knows; the rows are counted for the weight."""
        return (str(len(schema.names)), count_rows(self.where))

    def fold(self, cells: Sequence[Any]) -> ColumnCountState:
        """Take both."""
        return ColumnCountState(*cells)

    def measure(self, state: ColumnCountState) -> float:
        """Return the number."""
        if not state.columns:
            raise self.no_data()
        return state.metric_value()

    def weight(self, state: ColumnCountState) -> float:
        """Return the rows."""
        return state.count


@analyzer
class ColumnExists(ColumnAnalyzer[ColumnExistsState, float]):
    """1 if the column is there, else 0; over several partitions 1 if it was in all of them.

    Letter case matters where ``spark.sql.caseSensitive`` says so. Empty where nothing was read.

    Examples
    --------
    >>> ColumnExists("email").compute_metric_from(ColumnExistsState(1, 2)).value
    0.0
    """

    scale: ClassVar[Scale] = Scale.FLAG
    state_type: ClassVar[type[State]] = ColumnExistsState

    def check_schema(self, schema: Schema) -> None:
        """Any table can be asked."""

    def aggregations(self, schema: Schema) -> Sequence[str]:
        """The schema knows."""
        try:
            schema.field(self.column)
        except NoSuchColumnError:
            return ("0", "1")
        return ("1", "1")

    def fold(self, cells: Sequence[Any]) -> ColumnExistsState:
        """Take the answer."""
        return ColumnExistsState(*cells)

    def measure(self, state: ColumnExistsState) -> float:
        """Return the answer."""
        if not state.pieces:
            raise self.no_data()
        return state.metric_value()

    def weight(self, state: ColumnExistsState) -> float:
        """Return how often it was asked."""
        return state.pieces
