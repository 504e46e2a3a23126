"""Schema metrics: ColumnCount, ColumnExists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import ClassVar, Self

from tidegauge.analyzers.core.analyzer import ColumnAnalyzer, DatasetAnalyzer, analyzer
from tidegauge.analyzers.core.errors import NoSuchColumnError
from tidegauge.analyzers.core.metric import Scale
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.sql import count_rows
from tidegauge.analyzers.core.state import DoubleValuedState, State, register_state


@register_state("column-count/1")
@dataclass(frozen=True, slots=True)
class ColumnCountState(DoubleValuedState):
    """Greatest number of columns of the merged data, and the number of rows."""

    layout: ClassVar[Struct] = Struct("<qq")
    columns: int = 0
    count: int = 0

    def combine(self, other: Self) -> Self:
        """Keep the greater number of columns and add the rows."""
        return type(self)(max(self.columns, other.columns), self.count + other.count)

    def metric_value(self) -> float:
        """Return the number of columns."""
        return float(self.columns)


@register_state("column-exists/1")
@dataclass(frozen=True, slots=True)
class ColumnExistsState(DoubleValuedState):
    """Number of pieces of data in which a column exists, and number of all pieces."""

    layout: ClassVar[Struct] = Struct("<qq")
    found: int = 0
    pieces: int = 0

    def combine(self, other: Self) -> Self:
        """Add both counts."""
        return type(self)(self.found + other.found, self.pieces + other.pieces)

    def metric_value(self) -> float:
        """Return 1 if the column exists in every piece, else 0."""
        return float(self.found == self.pieces)


@analyzer
class ColumnCount(DatasetAnalyzer[ColumnCountState, float]):
    """Number of columns, partition columns included; the maximum over several partitions.

    Empty metric if nothing was read.

    Examples
    --------
    >>> ColumnCount().compute_metric_from(ColumnCountState(7, 1) + ColumnCountState(8, 2)).value
    8.0
    """

    scale: ClassVar[Scale] = Scale.COUNT
    state_type: ClassVar[type[State]] = ColumnCountState

    def aggregations(self, schema: Schema) -> Sequence[str]:
        """Return the number of columns from the schema, and the row count for the weight."""
        return (str(len(schema.names)), count_rows(self.where))

    def measure(self, state: ColumnCountState) -> float:
        """Return the number of columns."""
        if not state.columns:
            raise self.no_data()
        return state.metric_value()


@analyzer
class ColumnExists(ColumnAnalyzer[ColumnExistsState, float]):
    """1 if the column exists, else 0; over several partitions 1 if it exists in all of them.

    Letter case matters if ``spark.sql.caseSensitive`` is set. Empty metric if nothing was read.

    Examples
    --------
    >>> ColumnExists("email").compute_metric_from(ColumnExistsState(1, 2)).value
    0.0
    """

    scale: ClassVar[Scale] = Scale.FLAG
    state_type: ClassVar[type[State]] = ColumnExistsState

    def check_schema(self, schema: Schema) -> None:
        """Accept any schema."""

    def aggregations(self, schema: Schema) -> Sequence[str]:
        """Return 1 or 0 from the schema, and one piece of data."""
        try:
            schema.field(self.column)
        except NoSuchColumnError:
            return ("0", "1")
        return ("1", "1")

    def measure(self, state: ColumnExistsState) -> float:
        """Return 1 if the column exists in every piece, else 0."""
        if not state.pieces:
            raise self.no_data()
        return state.metric_value()

    def weight(self, state: ColumnExistsState) -> float:
        """Return the number of pieces of data."""
        return state.pieces
