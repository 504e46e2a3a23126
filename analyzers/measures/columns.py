"""Schema metrics: ColumnCount, ColumnExists, SchemaMatch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from struct import Struct
from typing import Any, ClassVar, Self

from tidegauge.analyzers.core.analyzer import ColumnAnalyzer, DatasetAnalyzer, analyzer
from tidegauge.analyzers.core.ddl import LENGTHS, DeclaredColumn, parse_columns, type_text
from tidegauge.analyzers.core.description import canonical_json
from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError, NoSuchColumnError
from tidegauge.analyzers.core.metric import Scale
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.sql import count_rows, literal
from tidegauge.analyzers.core.state import Count, DoubleValuedState, State, register_state


@register_state("column-count/1")
@dataclass(frozen=True, slots=True)
class ColumnCountState(DoubleValuedState):
    """Greatest number of columns of the merged data, and the number of rows."""

    layout: ClassVar[Struct] = Struct("<qq")
    columns: Count = 0
    count: Count = 0

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
    found: Count = 0
    pieces: Count = 0

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


@register_state("schema-match/1")
@dataclass(frozen=True, slots=True)
class SchemaMatchState(State):
    """Differences of the merged data's schemas from a declared one, and number of all pieces."""

    differences: tuple[str, ...] = ()
    pieces: Count = 0

    def combine(self, other: Self) -> Self:
        """Keep the differences of both, each once, and add the pieces."""
        found = tuple(sorted({*self.differences, *other.differences}))
        return type(self)(found, self.pieces + other.pieces)

    def pack(self) -> bytes:
        """Serialize to JSON."""
        return canonical_json([self.differences, self.pieces]).encode()

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """Deserialize a payload written by `pack`."""
        differences, pieces = json.loads(payload)
        return cls(tuple(map(str, differences)), int(pieces))


@dataclass(frozen=True)
class SchemaComparison:
    """Value of a SchemaMatch metric.

    Attributes
    ----------
    differences : tuple of str
        One sentence for each difference from the declared schema.
    """

    differences: tuple[str, ...]

    def scalars(self) -> Iterator[tuple[str, float]]:
        """Yield the number of ``differences``."""
        yield "differences", len(self.differences)

    def tabulated(self) -> tuple[Sequence[str], int, Iterator[tuple[str]]]:
        """Return the notebook table: each difference."""
        return ("difference",), len(self.differences), ((one,) for one in self.differences)


@analyzer
class SchemaMatch(DatasetAnalyzer[SchemaMatchState, SchemaComparison]):
    """Differences of the schema from a declared one; over several partitions those of all of them.

    Partition columns are columns, too. Letter case matters if ``spark.sql.caseSensitive`` is set.
    Empty metric if nothing was read.

    Parameters
    ----------
    columns : str or sequence of str
        Names and types as in DDL: ``id BIGINT, name STRING``; a name alone may be of any type.
        ``NOT NULL`` is ignored: add `Completeness`. A text of a declared length is a ``STRING``, too.
    extra : bool
        Whether undeclared columns are allowed.
    ordered : bool
        Whether the declared columns must stand in this order.

    Examples
    --------
    >>> schema = Schema.from_types({"id": "string", "x": "long"})
    >>> for difference in SchemaMatch("id BIGINT, name", extra=False).differences(schema):
    ...     print(difference)
    'id' is string, not bigint
    no column 'name'
    undeclared column 'x'
    """

    scale: ClassVar[Scale] = Scale.COUNT
    state_type: ClassVar[type[State]] = SchemaMatchState

    columns: tuple[str, ...]
    extra: bool = True
    ordered: bool = False

    @cached_property
    def declared(self) -> tuple[DeclaredColumn, ...]:
        """The declared columns."""
        return parse_columns(", ".join(self.columns))

    def check_parameters(self) -> None:
        """Require columns that can be read."""
        try:
            columns = self.declared
        except ValueError as error:
            msg = f"{self!r}: {error}"
            raise IllegalAnalyzerParameterError(msg) from error
        if not columns:
            msg = "SchemaMatch needs at least one column"
            raise IllegalAnalyzerParameterError(msg)

    def differences(self, schema: Schema) -> Iterator[str]:
        """Yield a sentence for each difference: types, missing and undeclared columns, the order."""

        def folded(name: str) -> str:
            return name if schema.case_sensitive else name.casefold()

        types = {folded(f["name"]): type_text(f["type"]) for f in schema.struct["fields"]}
        sized = {
            folded(f["name"]): (f.get("metadata") or {}).get(LENGTHS)
            for f in schema.struct["fields"]
        }
        declared = {folded(column.name): column for column in self.declared}
        for key, column in declared.items():
            if key not in types:
                yield f"no column {column.name!r}"
            elif column.type not in {None, types[key], sized[key]}:
                yield f"{column.name!r} is {sized[key] or types[key]}, not {column.type}"
        if not self.extra:
            yield from (
                f"undeclared column {name!r}"
                for name in schema.names
                if folded(name) not in declared
            )
        there = [name for name in schema.names if folded(name) in declared]
        wanted = [column.name for key, column in declared.items() if key in types]
        if self.ordered and list(map(folded, there)) != list(map(folded, wanted)):
            yield f"the order is {', '.join(there)}, not {', '.join(wanted)}"

    def aggregations(self, schema: Schema) -> Sequence[str]:
        """Return the differences, found on the schema, and one piece of data."""
        return (literal(json.dumps(list(self.differences(schema)))), "1")

    def fold(self, cells: Sequence[Any]) -> SchemaMatchState:
        """Return the state of one piece of data."""
        return SchemaMatchState(tuple(sorted(json.loads(cells[0]))), cells[1])

    def measure(self, state: SchemaMatchState) -> SchemaComparison:
        """Return the differences."""
        if not state.pieces:
            raise self.no_data()
        return SchemaComparison(state.differences)

    def weight(self, state: SchemaMatchState) -> float:
        """Return the number of pieces of data."""
        return state.pieces
