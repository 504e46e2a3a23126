"""Backfills: features computed offline for the queries that were logged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegauge.analyzers.core.errors import (
    SourceError,
    message_of,
)
from tidegauge.analyzers.core.schema import INTEGRAL, Schema
from tidegauge.analyzers.core.sql import quote
from tidegauge.analyzers.scan.views import Views

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


TIME = "ts"
"""Time column of flattened logs and backfills: when a query was made."""
VIEW = "logged_keys"
"""View that backfill queries read: the logged keys and times."""


@dataclass(frozen=True)
class TableBackfill:
    """A table that already holds the keys, the time and the features.

    Attributes
    ----------
    table : str

    Examples
    --------
    >>> print(TableBackfill("offline.features"))
    the table offline.features
    """

    table: str

    def __str__(self) -> str:
        """Return a short description."""
        return f"the table {self.table}"


@dataclass(frozen=True)
class QueryBackfill:
    """A query over the view ``logged_keys`` (keys and ``ts``) that returns these and the features.

    Attributes
    ----------
    sql : str

    Examples
    --------
    >>> print(QueryBackfill("SELECT user, ts, age FROM logged_keys JOIN users USING (user)"))
    a query
    """

    sql: str

    def __str__(self) -> str:
        """Return a short description."""
        return "a query"


@dataclass(frozen=True)
class CallableBackfill:
    """A function from a DataFrame with the keys and ``ts`` to one that also has the features.

    Attributes
    ----------
    function : callable
    name : str
        Identifies the function; days are recomputed when it changes.

    Examples
    --------
    >>> def ages(asked):
    ...     return asked.join(asked.sparkSession.table("users"), "user")
    >>> print(CallableBackfill(ages, "ages/1"))
    the function ages/1
    """

    function: Callable[[DataFrame], DataFrame]
    name: str

    def __str__(self) -> str:
        """Return a short description."""
        return f"the function {self.name}"


Backfill = TableBackfill | QueryBackfill | CallableBackfill


def identity(backfill: Backfill) -> list[str]:
    """Return the identity of a backfill, without reading data."""
    match backfill:
        case TableBackfill(table):
            return ["table", table]
        case QueryBackfill(sql):
            return ["query", sql]
        case CallableBackfill(_, name):
            return ["callable", name]


def logged_keys(logged: DataFrame, keys: Sequence[str], lag_ms: int = 0) -> DataFrame:
    """Return the distinct keys and times of logged queries, with times shifted back by a lag.

    Parameters
    ----------
    logged : DataFrame
        Logged queries with the keys and a timestamp ``ts``.
    keys : sequence of str
    lag_ms : int
        Write lag: values served at a time are those written at least this long before.
    """
    columns = [*map(quote, keys), f"{shifted(TIME, -lag_ms)} AS {TIME}"]
    return logged.selectExpr(*columns).distinct()


def shifted(sql: str, millis: int) -> str:
    """Return SQL for a timestamp shifted forward by some milliseconds."""
    return f"timestampadd(MILLISECOND, {millis}, {sql})" if millis else sql


def backfilled(backfill: Backfill, asked: DataFrame, views: Views, whose: str = "") -> DataFrame:
    """Return the backfilled features of queries, or for a table all its rows; evaluated lazily.

    Parameters
    ----------
    backfill : Backfill
    asked : DataFrame
        As returned by `logged_keys`.
    views : Views
        Holds the view; must stay open until the result has been read.
    whose : str
        Of which group-bys it is, for errors, as in `` of 'prices'``.

    Raises
    ------
    SourceError
        If a query is invalid, or a function does not return a DataFrame.
    """
    match backfill:
        case TableBackfill(table):
            return asked.sparkSession.table(table)
        case QueryBackfill(sql):
            views.add(VIEW, asked)
            try:
                return views.query(sql.rstrip().removesuffix(";"))
            except Exception as error:
                said = message_of(error)
                msg = f"the query of the backfill{whose} cannot be read: {said}"
                raise SourceError(msg) from error
        case CallableBackfill(function, name):
            found = function(asked)
            if not hasattr(found, "selectExpr"):
                kind = type(found).__name__
                raise SourceError(f"{name}{whose} returns a DataFrame of features, not {kind}")
            return found


def unshifted(found: DataFrame, lag_ms: int) -> DataFrame:
    """Return features with times shifted forward by a lag, back to those of the queries."""
    if not lag_ms:
        return found
    schema = Schema.from_frame(found)
    moved: Mapping[str, str] = {}
    if TIME.casefold() in {name.casefold() for name in schema.names}:
        field = schema.field(TIME)
        later = f"{field.sql} + {lag_ms}L" if field.kind in INTEGRAL else shifted(field.sql, lag_ms)
        moved = {TIME: later}
    kept = [quote(name) for name in schema.names if name.casefold() != TIME.casefold()]
    return found.selectExpr(*kept, *(f"{sql} AS {name}" for name, sql in moved.items()))
