"""Counts and shares: of rows, of columns, and of rows found in another table.

Counts of rows: Size, Completeness, ZerosCount, Compliance. Formulas and null semantics follow Deequ, except that
Size of no rows is also 0 with a filter.

Checks of the schema: ColumnCount, ColumnExists, SchemaMatch.

Lookups in a reference table: ReferentialIntegrity, DatasetMatch, ColumnMatch.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from struct import Struct
from typing import Any, ClassVar, Self

from tidegauge.analyzers.core.analyzer import (
    Analyzer,
    ColumnAnalyzer,
    CustomRequest,
    DatasetAnalyzer,
    Filterable,
    Lookup,
    Request,
    ScanAnalyzer,
    analyzer,
)
from tidegauge.analyzers.core.columnar import Kernel, PartitionMetadata, RowFilter, RowGroup
from tidegauge.analyzers.core.conditions import known_sql
from tidegauge.analyzers.core.errors import (
    IllegalAnalyzerParameterError,
    NoColumnsSpecifiedError,
    NoSuchColumnError,
    NumberOfSpecifiedColumnsError,
    WrongColumnTypeError,
)
from tidegauge.analyzers.core.metric import Entity, Scale
from tidegauge.analyzers.core.registry import canonical_json
from tidegauge.analyzers.core.schema import Field, Schema
from tidegauge.analyzers.core.sql import (
    LENGTHS_KEY,
    DeclaredColumn,
    column_sql,
    count_rows,
    literal,
    parse_columns,
    quote,
    type_text,
    where_holds,
)
from tidegauge.analyzers.core.state import Count, DoubleValuedState, State, mismatch, register_state


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

    def kernel(self, schema: Schema) -> Kernel[NumMatches]:
        """Count the rows."""
        return Kernel((), lambda group: NumMatches(group.rows), lambda meta: NumMatches(meta.rows))

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

    The column can be a struct, array, map or variant. An empty value, or a value with only nulls, is not null.

    Examples
    --------
    >>> Completeness("email").compute_metric_from(NumMatchesAndCount(3, 4)).value
    0.75
    """

    accepts: ClassVar[str] = "field"

    def aggregations(self, schema: Schema) -> Sequence[str]:
        """Count the non-null values and the rows."""
        return (f"count({self.values(schema)})", count_rows(self.where))

    def kernel(self, schema: Schema) -> Kernel[NumMatchesAndCount] | None:
        """Count the non-null values and the rows."""
        columns = schema.top_level(self.field(schema))
        if columns is None:
            return None
        (column,) = columns

        def from_metadata(meta: PartitionMetadata) -> NumMatchesAndCount | None:
            values = meta.values(column)
            return None if values is None else NumMatchesAndCount(values, meta.rows)

        return Kernel(
            columns,
            lambda group: NumMatchesAndCount(group.values(column), group.rows),
            from_metadata,
        )


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

    def kernel(self, schema: Schema) -> Kernel[NumMatchesAndCount] | None:
        """Count the zeros and the rows."""
        columns = schema.top_level(self.field(schema))
        if columns is None:
            return None
        (column,) = columns

        def from_rows(group: RowGroup) -> NumMatchesAndCount:
            numbers = group.doubles(column)  # no other number is rounded to zero
            return NumMatchesAndCount(int((numbers == 0).sum()), group.rows)

        return Kernel(columns, from_rows)

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
        is_true = where_holds(self.where, predicate)
        is_not_null = where_holds(self.where, known_sql(predicate, schema))
        return (f"count_if({is_true})", f"count({is_not_null})", count_rows(self.where))

    def kernel(self, schema: Schema) -> Kernel[ComplianceState] | None:
        """Evaluate conditions on single columns, if their forms are known."""
        row_filter = RowFilter.from_sql(self.predicate, schema)
        if row_filter is None:
            return None

        def from_rows(group: RowGroup) -> ComplianceState:
            matches, known = row_filter.matches(group), row_filter.is_known(group)
            return ComplianceState(int(matches.sum()), int(known.sum()), group.rows)

        def from_metadata(meta: PartitionMetadata) -> ComplianceState | None:
            counts = row_filter.counts_in(meta)
            return None if counts is None else ComplianceState(*counts, meta.rows)

        return Kernel(row_filter.columns, from_rows, from_metadata)

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


@register_state("column-count/1")
@dataclass(frozen=True, slots=True)
class ColumnCountState(DoubleValuedState):
    """Largest number of columns in any piece of the merged data, and the number of rows."""

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

    def kernel(self, schema: Schema) -> Kernel[ColumnCountState]:
        """Return the number of columns from the schema, and the row count."""
        columns = len(schema.names)
        return Kernel(
            (),
            lambda group: ColumnCountState(columns, group.rows),
            lambda meta: ColumnCountState(columns, meta.rows),
        )

    def measure(self, state: ColumnCountState) -> float:
        """Return the number of columns."""
        if not state.columns:
            raise self.no_data()
        return state.metric_value()


@analyzer
class ColumnExists(ColumnAnalyzer[ColumnExistsState, float]):
    """1 if the column exists, otherwise 0; over several partitions, 1 if it exists in all of them.

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
        """Return whether the schema has the column, 1 or 0, as one piece of data."""
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
        """Keep the distinct differences of both states, and add the numbers of pieces."""
        differences = tuple(sorted({*self.differences, *other.differences}))
        return type(self)(differences, self.pieces + other.pieces)

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
        return (
            ("difference",),
            len(self.differences),
            ((difference,) for difference in self.differences),
        )


@analyzer
class SchemaMatch(DatasetAnalyzer[SchemaMatchState, SchemaComparison]):
    """Differences between the schema and a declared schema; over several partitions, all differences.

    Partition columns count as columns. Letter case matters if ``spark.sql.caseSensitive`` is set.
    Empty metric if nothing was read.

    Parameters
    ----------
    columns : str or sequence of str
        Names and types as in DDL: ``id BIGINT, name STRING``; a name alone may be of any type.
        ``NOT NULL`` is ignored: add `Completeness`. ``VARCHAR`` and ``CHAR`` match ``STRING``.
    extra : bool
        Whether undeclared columns are allowed.
    ordered : bool
        Whether the columns must have the declared order.

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
        """Yield a sentence for each difference in types, missing or undeclared columns, or the order of columns."""

        def folded(name: str) -> str:
            return name if schema.case_sensitive else name.casefold()

        types = {folded(f["name"]): type_text(f["type"]) for f in schema.struct["fields"]}
        sized = {
            folded(f["name"]): (f.get("metadata") or {}).get(LENGTHS_KEY)
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
        actual_order = [name for name in schema.names if folded(name) in declared]
        declared_order = [column.name for key, column in declared.items() if key in types]
        if self.ordered and list(map(folded, actual_order)) != list(map(folded, declared_order)):
            yield f"the order is {', '.join(actual_order)}, not {', '.join(declared_order)}"

    def aggregations(self, schema: Schema) -> Sequence[str]:
        """Return the differences of the schema, as one piece of data."""
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


def _check_pairs(
    owner: Analyzer[Any, Any], label: str, names: Sequence[str], other_names: Sequence[str]
) -> None:
    """Require at least one name, and the same number of names on both sides unless the other side has none."""
    if not names:
        msg = f"{type(owner).__name__} needs at least one {label}"
        raise NoColumnsSpecifiedError(msg)
    if other_names and len(other_names) != len(names):
        msg = f"{owner!r}: {len(names)} {label}s and {len(other_names)} to compare with"
        raise NumberOfSpecifiedColumnsError(msg)


@dataclass(frozen=True, repr=False)
class _LookupAnalyzer(RatioAnalyzer):
    nulls: ClassVar[bool]

    columns: tuple[str, ...]
    table: str
    reference_columns: tuple[str, ...] = ()

    @property
    def entity(self) -> Entity:
        """Column or multicolumn."""
        return Entity.COLUMN if len(self.columns) == 1 else Entity.MULTICOLUMN

    @property
    def instance(self) -> str:
        """The columns joined by commas."""
        return ",".join(self.columns)

    @property
    def reads(self) -> tuple[str, ...]:
        """The reference table."""
        return (self.table,)

    def check_parameters(self) -> None:
        """Require at least one column, and the same number of columns on both sides."""
        _check_pairs(self, "column", self.columns, self.reference_columns)

    def check_schema(self, schema: Schema) -> None:
        """Require existing columns that are not nested."""
        for column in self.columns:
            schema.plain(column)

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Request the number of rows found in the reference table."""
        columns = tuple(schema.plain(column).sql for column in self.columns)
        other = tuple(map(quote, self.reference_columns)) or columns
        return (Lookup(columns, self.table, other, self.nulls, self.where),)

    def fold(self, cells: Sequence[Any]) -> NumMatchesAndCount:
        """Return the state of both counts."""
        return super().fold(cells[0] or ())


@analyzer
class ReferentialIntegrity(_LookupAnalyzer):
    """Share of rows whose key exists in a reference table; repeated keys count each time.

    As with SQL foreign keys, a row whose key contains a null refers to nothing and is not counted.
    Empty metric if there are no other rows.

    Parameters
    ----------
    columns : str or sequence of str
        Key columns.
    table : str
        Reference table or view. A change to it marks every partition as changed.
    reference_columns : str or sequence of str, optional
        Key columns of the reference table; the same names if not given.

    Examples
    --------
    >>> rule = ReferentialIntegrity("carrier", "warehouse.airlines", "code")
    >>> rule.compute_metric_from(NumMatchesAndCount(9, 10)).value
    0.9
    """

    nulls: ClassVar[bool] = False


@analyzer
class DatasetMatch(_LookupAnalyzer):
    """Share of rows that have an equal row in a reference table; null equals null.

    Repeated and additional rows of the reference table do not matter: to compare both ways, measure
    the other table as well. Empty metric at zero rows.

    Parameters
    ----------
    columns : str or sequence of str
        Columns to compare.
    table : str
        Reference table or view.
    reference_columns : str or sequence of str, optional
        Columns of the reference table; the same names if not given.

    Examples
    --------
    >>> match = DatasetMatch(["id", "amount"], "backup.orders")
    >>> match.compute_metric_from(NumMatchesAndCount(3, 4)).value
    0.75
    """

    nulls: ClassVar[bool] = True


@register_state("column-matches/1")
@dataclass(frozen=True, slots=True)
class ColumnMatches(State):
    """Number of compared rows, and number of rows with an equal value in each column.

    Examples
    --------
    >>> ColumnMatches((2, 3), 3) + ColumnMatches((1, 0), 1)
    ColumnMatches(matches=(3, 3), count=4)
    """

    matches: tuple[Count, ...] = ()
    count: Count = 0

    def combine(self, other: Self) -> Self:
        """Add the numbers of each column."""
        if not self.matches or not other.matches:
            return self if self.matches else other
        if len(self.matches) != len(other.matches):
            raise mismatch("numbers of columns", len(self.matches), len(other.matches))
        pairs = zip(self.matches, other.matches, strict=True)
        return type(self)(tuple(a + b for a, b in pairs), self.count + other.count)

    def pack(self) -> bytes:
        """Serialize the number of rows, then the numbers of the columns."""
        return struct.pack(f"<{1 + len(self.matches)}q", self.count, *self.matches)

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """Deserialize the output of `pack`."""
        count, *matches = struct.unpack(f"<{len(payload) // 8}q", payload)
        return cls(tuple(matches), count)


@dataclass(frozen=True)
class KeyedComparison(CustomRequest):
    """Request for the numbers of rows that equal the rows of another table with the same key.

    The answer has one number for each pair of columns, then the number of rows whose key was found.

    Attributes
    ----------
    keys, columns : tuple of str
        Columns of the data, as Spark SQL.
    table : str
        The other table or view.
    reference_keys, reference_columns : tuple of str
        Columns of the other table, as Spark SQL.
    where : str or None
        Condition on the rows.
    """

    job: ClassVar[str] = "tidegauge.analyzers.scan.jobs:Comparing"

    keys: tuple[str, ...]
    columns: tuple[str, ...]
    table: str
    reference_keys: tuple[str, ...]
    reference_columns: tuple[str, ...]
    where: str | None

    @property
    def texts(self) -> tuple[str, ...]:
        """The columns and the filter."""
        return (*self.keys, *self.columns, *([f"(\n{self.where}\n)"] if self.where else []))


@analyzer
class ColumnMatch(Filterable, Analyzer[ColumnMatches, Mapping[str, float]]):
    """Share of rows whose value equals the value of the row with the same key in another table, by column.

    Null equals null, and NaN equals NaN. Only rows whose key exists in the other table are compared;
    `ReferentialIntegrity` measures their share. A key with a null refers to nothing. If the other table
    contains a key several times with different values in a column, the values are unequal. Empty metric if no
    row has a matching key.

    Parameters
    ----------
    columns : str or sequence of str
        Columns to compare.
    table : str
        Reference table or view. A change to it marks every partition as changed.
    keys : str or sequence of str
        Columns that identify a row.
    reference_columns, reference_keys : str or sequence of str, optional
        The columns of the reference table; the same names if not given.

    Examples
    --------
    >>> match = ColumnMatch(["amount", "status"], "backup.orders", "id")
    >>> match.compute_metric_from(ColumnMatches((3, 4), 4)).value
    {'amount': 0.75, 'status': 1.0}
    """

    scale: ClassVar[Scale] = Scale.RATIO
    state_type: ClassVar[type[State]] = ColumnMatches

    columns: tuple[str, ...]
    table: str
    keys: tuple[str, ...]
    reference_columns: tuple[str, ...] = ()
    reference_keys: tuple[str, ...] = ()

    @property
    def entity(self) -> Entity:
        """Multicolumn."""
        return Entity.MULTICOLUMN

    @property
    def instance(self) -> str:
        """The key columns joined by commas."""
        return ",".join(self.keys)

    @property
    def reads(self) -> tuple[str, ...]:
        """The reference table."""
        return (self.table,)

    def check_parameters(self) -> None:
        """Require keys and columns, and the same number of them on both sides."""
        _check_pairs(self, "column", self.columns, self.reference_columns)
        _check_pairs(self, "key", self.keys, self.reference_keys)

    def check_schema(self, schema: Schema) -> None:
        """Require existing columns that are not nested, nor intervals."""
        self.requests(schema)

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Request the numbers of equal rows."""
        keys, columns = (
            tuple(_ordered(schema, name).sql for name in names)
            for names in (self.keys, self.columns)
        )
        other_keys, other_columns = (
            tuple(map(quote, names)) or default_names
            for names, default_names in (
                (self.reference_keys, keys),
                (self.reference_columns, columns),
            )
        )
        return (KeyedComparison(keys, columns, self.table, other_keys, other_columns, self.where),)

    def fold(self, cells: Sequence[Any]) -> ColumnMatches:
        """Return the state of the numbers."""
        *matches, count = cells[0] or (0,)
        return ColumnMatches(tuple(matches), count) if count else ColumnMatches()

    def measure(self, state: ColumnMatches) -> Mapping[str, float]:
        """Return the share of each column."""
        if not state.count:
            raise self.no_data()
        pairs = zip(self.columns, state.matches, strict=True)
        return {column: matches / state.count for column, matches in pairs}


def _ordered(schema: Schema, column: str) -> Field:
    """Resolve a column of a type that Spark can order."""
    resolved = schema.plain(column)
    if resolved.kind == "interval":
        raise WrongColumnTypeError(column, resolved.kind, "a type other than an interval")
    return resolved
