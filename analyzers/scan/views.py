"""Job-scoped named DataFrames, visible only to the job's own queries.

Each frame is a temporary view with a unique name. A query gets the frames that it may reference as
common table expressions, so a job's names shadow tables of the same name and never replace a view of
the session.
"""

from __future__ import annotations

import re
import uuid
import weakref
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from tidegauge.analyzers.core.errors import UnresolvedQueryError, describe, did_you_mean
from tidegauge.analyzers.core.sql import protect_names, quote, words_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_PLACE = re.compile(r"[;,.]?\s*\(?line (?P<line>\d+),? pos (?P<pos>\d+)\)?;?")


class Views:
    """DataFrames by case-insensitive name, registered as temporary views.

    The views live as long as this object, because Spark Connect resolves a view whenever a frame built
    on it is read.

    Parameters
    ----------
    spark : SparkSession
    """

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._own = f"tidegauge_{uuid.uuid4().hex}"
        self._views: dict[str, tuple[str, str]] = {}
        self._made: list[str] = []
        self._cached: list[DataFrame] = []
        self._end = weakref.finalize(self, _forget, spark, self._made, self._cached)
        self._end.atexit = False  # the session ends with the process

    def __contains__(self, name: str) -> bool:
        return name.casefold() in self._views

    def __iter__(self) -> Iterator[str]:
        return iter([name for name, _ in self._views.values()])

    def add(self, name: str, frame: DataFrame) -> None:
        """Register a frame under a name; it shadows an earlier one in subsequent queries."""
        view = f"{self._own}_{len(self._made)}"
        frame.createOrReplaceTempView(view)
        self._made.append(view)
        self._views[name.casefold()] = (name, view)

    def view(self, name: str) -> str:
        """Return the name of a frame's temporary view.

        Raises
        ------
        KeyError
            If there is no such frame; the message suggests the closest name.
        """
        found = self._views.get(name.casefold())
        if found is None:
            raise KeyError(f"no frame {name!r}{did_you_mean(name, self)}")
        return found[1]

    def frame(self, name: str) -> DataFrame:
        """Return a frame by its name."""
        return self.spark.table(self.view(name))

    def query(self, sql: str) -> DataFrame:
        """Return the result of one query, resolved but not read; other statements are rejected.

        Raises
        ------
        UnresolvedQueryError
            If Spark cannot parse or resolve the query.
        """
        from pyspark.errors import AnalysisException

        words = words_in(sql)
        named = [
            f"{quote(name)} AS (SELECT * FROM {quote(view)})"
            for name, view in self._views.values()
            if name.casefold() in words
        ]
        lead = f"WITH {', '.join(named)} " if named else ""
        try:
            frame = self.spark.sql(protect_names(f"{lead}SELECT * FROM (\n{sql}\n)"))
            _ = frame.schema  # Spark Connect resolves it only now
        except AnalysisException as error:
            raise _query_error(error, sql) from error
        return frame

    def cached(self, frame: DataFrame) -> DataFrame:
        """Persist a frame for the lifetime of this object; it is cached when first read."""
        self._cached.append(frame.persist())
        return self._cached[-1]

    def drop(self) -> None:
        """Drop all views and unpersist cached frames."""
        self._end()
        self._views.clear()


def _query_error(error: Exception, sql: str) -> UnresolvedQueryError:
    """Return Spark's error with its place in the user's query, which `Views.query` wraps in lines of its own.

    Examples
    --------
    >>> str(_query_error(ValueError("Syntax error at or near 'from'. (line 2, pos 7)"), "SELECT from"))
    "ValueError: Syntax error at or near 'from' (line 1, pos 7)"
    """
    reason, place = _PLACE.sub("", describe(error)), _PLACE.search(str(error))
    if place is None:
        return UnresolvedQueryError(reason)
    line, lines = int(place["line"]) - 1, sql.split("\n")
    if line > len(lines):
        return UnresolvedQueryError("the query ends too early", (len(lines), len(lines[-1])))
    return UnresolvedQueryError(reason, (max(line, 1), int(place["pos"])))


def _forget(spark: SparkSession, views: list[str], cached: list[DataFrame]) -> None:
    for drop in [frame.unpersist for frame in cached] + [
        partial(spark.catalog.dropTempView, view) for view in views
    ]:
        with suppress(Exception):  # nothing to drop if the session has ended
            drop()
