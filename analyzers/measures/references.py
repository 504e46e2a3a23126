"""Lookups in a reference table: ReferentialIntegrity, DatasetMatch, ColumnMatch."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from tidegauge.analyzers.core.analyzer import Analyzer, Filterable, analyzer
from tidegauge.analyzers.core.errors import (
    NoColumnsSpecifiedError,
    NumberOfSpecifiedColumnsError,
    WrongColumnTypeError,
)
from tidegauge.analyzers.core.metric import Entity, Scale
from tidegauge.analyzers.core.requests import CustomRequest, Lookup, Request
from tidegauge.analyzers.core.schema import Field, Schema
from tidegauge.analyzers.core.sql import quote
from tidegauge.analyzers.core.state import Count, State, mismatch, register_state
from tidegauge.analyzers.measures.counts import NumMatchesAndCount, RatioAnalyzer


def _check_pairs(
    owner: Analyzer[Any, Any], what: str, own: Sequence[str], other: Sequence[str]
) -> None:
    """Require at least one name, and equally many on both sides if the other side has any."""
    if not own:
        msg = f"{type(owner).__name__} needs at least one {what}"
        raise NoColumnsSpecifiedError(msg)
    if other and len(other) != len(own):
        msg = f"{owner!r}: {len(own)} {what}s and {len(other)} to compare with"
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
        """Require at least one column, and equally many on both sides."""
        _check_pairs(self, "column", self.columns, self.reference_columns)

    def check_schema(self, schema: Schema) -> None:
        """Require existing columns that are not nested."""
        for column in self.columns:
            schema.plain(column)

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Request the number of rows found in the reference table."""
        own = tuple(schema.plain(column).sql for column in self.columns)
        other = tuple(map(quote, self.reference_columns)) or own
        return (Lookup(own, self.table, other, self.nulls, self.where),)

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
    """Number of compared rows, and of those with an equal value in each of some columns.

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
        """Serialize the number of rows, then those of the columns."""
        return struct.pack(f"<{1 + len(self.matches)}q", self.count, *self.matches)

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """Deserialize the output of `pack`."""
        count, *matches = struct.unpack(f"<{len(payload) // 8}q", payload)
        return cls(tuple(matches), count)


@dataclass(frozen=True)
class KeyedComparison(CustomRequest):
    """Request for the numbers of rows that equal those of another table with the same key.

    The answer has one number for each pair of columns, then the number of rows whose key was found.

    Attributes
    ----------
    keys, columns : tuple of str
        Of the data, as Spark SQL.
    table : str
    reference_keys, reference_columns : tuple of str
        Of the other table, as Spark SQL.
    where : str or None
    """

    job: ClassVar[str] = "tidegauge.analyzers.scan.comparing:Comparing"

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
    """Share of rows whose value equals that of the row with the same key in another table, by column.

    Null equals null, and NaN equals NaN. Only rows whose key exists in the other table are compared;
    `ReferentialIntegrity` tells how many these are. A key that holds a null refers to nothing. If the
    other table has a key several times with different values in a column, no value equals them.
    Empty metric if no row has its like.

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
        """Require keys and columns, and equally many on both sides."""
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
            tuple(map(quote, names)) or own
            for names, own in ((self.reference_keys, keys), (self.reference_columns, columns))
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
    found = schema.plain(column)
    if found.kind == "interval":
        raise WrongColumnTypeError(column, found.kind, "a type other than an interval")
    return found
