"""Rows that have their like in another table: ReferentialIntegrity, DatasetMatch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from analyzers.analyzer import analyzer
from analyzers.counts import NumMatchesAndCount, RatioAnalyzer
from analyzers.errors import NoColumnsSpecifiedError, NumberOfSpecifiedColumnsError
from analyzers.metric import Entity
from analyzers.requests import Lookup, Request
from analyzers.schema import Schema
from analyzers.sql import quote


@dataclass(frozen=True, repr=False)
class _LookupAnalyzer(RatioAnalyzer):
    nulls: ClassVar[bool]

    columns: tuple[str, ...]
    table: str
    reference_columns: tuple[str, ...] = ()

    @property
    def entity(self) -> Entity:
        """A column, or several."""
        return Entity.COLUMN if len(self.columns) == 1 else Entity.MULTICOLUMN

    @property
    def instance(self) -> str:
        """The columns joined by commas."""
        return ",".join(self.columns)

    @property
    def reads(self) -> tuple[str, ...]:
        """The other table."""
        return (self.table,)

    def check_parameters(self) -> None:
        """There are as many columns on either side."""
        if not self.columns:
            msg = f"{type(self).__name__} needs at least one column"
            raise NoColumnsSpecifiedError(msg)
        if self.reference_columns and len(self.reference_columns) != len(self.columns):
            msg = f"{self!r}: {len(self.columns)} columns and {len(self.reference_columns)} to compare with"
            raise NumberOfSpecifiedColumnsError(msg)

    def check_schema(self, schema: Schema) -> None:
        """The columns are there and not nested."""
        for column in self.columns:
            schema.plain(column)

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Ask for the rows that are found."""
        own = tuple(schema.plain(column).sql for column in self.columns)
        other = tuple(map(quote, self.reference_columns)) or own
        return (Lookup(own, self.table, other, self.nulls, self.where),)

    def fold(self, cells: Sequence[Any]) -> NumMatchesAndCount:
        """Take both counts."""
        return super().fold(cells[0] or ())


@analyzer
class ReferentialIntegrity(_LookupAnalyzer):
    """Share of rows whose key is found in another table; each row counts, however often a key repeats.

    As SQL has it for foreign keys, a row whose key holds a null refers to nothing and does not count.
    Empty if there is no other.

    Parameters
    ----------
    columns : str or sequence of str
        The key.
    table : str
        The other table or view. A change of it makes every partition one that has changed.
    reference_columns : str or sequence of str, optional
        The key's columns there; the same names if not given.

    Examples
    --------
    >>> rule = ReferentialIntegrity("carrier", "warehouse.airlines", "code")
    >>> rule.compute_metric_from(NumMatchesAndCount(9, 10)).value
    0.9
    """

    nulls: ClassVar[bool] = False


@analyzer
class DatasetMatch(_LookupAnalyzer):
    """Share of rows for which another table has a row of equal values; null equals null.

    How often a row stands there does not matter, nor what else does: to see both sides, measure the
    other table as well. Empty at zero rows.

    Parameters
    ----------
    columns : str or sequence of str
        What is compared.
    table : str
        The other table or view.
    reference_columns : str or sequence of str, optional
        The columns there; the same names if not given.

    Examples
    --------
    >>> match = DatasetMatch(["id", "amount"], "backup.orders")
    >>> match.compute_metric_from(NumMatchesAndCount(3, 4)).value
    0.75
    """

    nulls: ClassVar[bool] = True
