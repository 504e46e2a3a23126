"""Lookups in a reference table: ReferentialIntegrity, DatasetMatch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tidegauge.analyzers.core.analyzer import analyzer
from tidegauge.analyzers.core.errors import NoColumnsSpecifiedError, NumberOfSpecifiedColumnsError
from tidegauge.analyzers.core.metric import Entity
from tidegauge.analyzers.core.requests import Lookup, Request
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.sql import quote
from tidegauge.analyzers.measures.counts import NumMatchesAndCount, RatioAnalyzer


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
        if not self.columns:
            msg = f"{type(self).__name__} needs at least one column"
            raise NoColumnsSpecifiedError(msg)
        if self.reference_columns and len(self.reference_columns) != len(self.columns):
            msg = f"{self!r}: {len(self.columns)} columns and {len(self.reference_columns)} to compare with"
            raise NumberOfSpecifiedColumnsError(msg)

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
