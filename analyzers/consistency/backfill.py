"""What features would have been, computed offline for the queries that were logged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzers.errors import SourceError
from analyzers.schema import INTEGRAL, Schema
from analyzers.sql import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from analyzers.views import Views

TIME = "ts"
"""The column of flattened logs and of backfills that says when a query was asked."""
VIEW = "logged_keys"
"""The view that queries read: the keys of what was asked for, and when."""


@dataclass(frozen=True)
class TableBackfill:
    """A table that holds the keys, the time and the features already.

    Attributes
    ----------
    table : str
    """

    table: str

    def __str__(self) -> str:
        """Say what it is."""
        return f"the table {self.table}"


@dataclass(frozen=True)
class QueryBackfill:
    """A query over the view ``logged_keys``, which has the keys and ``ts``; it returns these and the features.

    Attributes
    ----------
    sql : str
    """

    sql: str

    def __str__(self) -> str:
        """Say what it is."""
        return "a query"


@dataclass(frozen=True)
class CallableBackfill:
    """A function of a DataFrame with the keys and ``ts``, which returns one that has the features, too.

    Attributes
    ----------
    function : callable
    name : str
        What it is called; when that changes, days are computed again.
    """

    function: Callable[[DataFrame], DataFrame]
    name: str

    def __str__(self) -> str:
        """Say what it is."""
        return f"the function {self.name}"


Backfill = TableBackfill | QueryBackfill | CallableBackfill


def identity(backfill: Backfill) -> list[str]:
    """Return what a backfill is, as far as can be told without reading it."""
    match backfill:
        case TableBackfill(table):
            return ["table", table]
        case QueryBackfill(sql):
            return ["query", sql]
        case CallableBackfill(_, name):
            return ["callable", name]


def logged_keys(logged: DataFrame, keys: Sequence[str], lag_ms: int = 0) -> DataFrame:
    """Return what was asked for and when, each once, its time moved back by a lag.

    Parameters
    ----------
    logged : DataFrame
        Logged queries with the keys and a timestamp ``ts``.
    keys : sequence of str
    lag_ms : int
        How long writes take until they are served: what was served at a time is what was there so long before.
    """
    columns = [*map(quote, keys), f"{shifted(TIME, -lag_ms)} AS {TIME}"]
    return logged.selectExpr(*columns).distinct()


def shifted(sql: str, millis: int) -> str:
    """Return SQL for a timestamp so many milliseconds later."""
    return f"timestampadd(MILLISECOND, {millis}, {sql})" if millis else sql


def backfilled(backfill: Backfill, asked: DataFrame, views: Views) -> DataFrame:
    """Return the features of queries, or for a table all that it holds; nothing is computed before it is read.

    Parameters
    ----------
    backfill : Backfill
    asked : DataFrame
        As `logged_keys` returns it.
    views : Views
        Where the view is kept; it must live until the result was read.

    Raises
    ------
    SourceError
        If a function returns no DataFrame.
    """
    match backfill:
        case TableBackfill(table):
            return asked.sparkSession.table(table)
        case QueryBackfill(sql):
            views.add(VIEW, asked)
            return views.query(sql.rstrip().removesuffix(";"))
        case CallableBackfill(function, name):
            found = function(asked)
            if not hasattr(found, "selectExpr"):
                kind = type(found).__name__
                raise SourceError(f"{name} returns a DataFrame of features, not {kind}")
            return found


def unshifted(found: DataFrame, lag_ms: int) -> DataFrame:
    """Return features with their times moved forward by a lag, to those of the queries."""
    if not lag_ms:
        return found
    schema = Schema.of_frame(found)
    moved: Mapping[str, str] = {}
    if TIME.casefold() in {name.casefold() for name in schema.names}:
        field = schema.field(TIME)
        later = f"{field.sql} + {lag_ms}L" if field.kind in INTEGRAL else shifted(field.sql, lag_ms)
        moved = {TIME: later}
    kept = [quote(name) for name in schema.names if name.casefold() != TIME.casefold()]
    return found.selectExpr(*kept, *(f"{sql} AS {name}" for name, sql in moved.items()))
