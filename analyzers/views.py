"""The frames of a job under their names, seen by its queries only.

Each frame is a temporary view with a name that nobody else has. A query is given those that it may name as common
table expressions, so names of a job hide tables of the same name and never replace a view of the session.
"""

from __future__ import annotations

import uuid
import weakref
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from analyzers.errors import nearest
from analyzers.sql import names_kept, quote, words_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Views:
    """Frames by name; names are compared without regard to letter case, as Spark does.

    They are there as long as this object is, because Spark Connect looks for a view whenever a frame made of it
    is read.

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
        """Give a frame a name; a frame that had it is hidden from queries to come."""
        view = f"{self._own}_{len(self._made)}"
        frame.createOrReplaceTempView(view)
        self._made.append(view)
        self._views[name.casefold()] = (name, view)

    def view(self, name: str) -> str:
        """Return the temporary view's name.

        Raises
        ------
        KeyError
            Naming the nearest name.
        """
        found = self._views.get(name.casefold())
        if found is None:
            near = nearest(name, self)
            raise KeyError(f"no frame {name!r}" + (f"; did you mean {near!r}?" if near else ""))
        return found[1]

    def frame(self, name: str) -> DataFrame:
        """Return a frame."""
        return self.spark.table(self.view(name))

    def query(self, sql: str) -> DataFrame:
        """Return what one query gives; nothing but a query can be written in it."""
        words = words_in(sql)
        named = [
            f"{quote(name)} AS (SELECT * FROM {quote(view)})"
            for name, view in self._views.values()
            if name.casefold() in words
        ]
        lead = f"WITH {', '.join(named)} " if named else ""
        return self.spark.sql(names_kept(f"{lead}SELECT * FROM (\n{sql}\n)"))

    def cached(self, frame: DataFrame) -> DataFrame:
        """Return a frame that is kept in memory, once it was read, as long as this is there."""
        self._cached.append(frame.persist())
        return self._cached[-1]

    def drop(self) -> None:
        """Forget all frames."""
        self._end()
        self._views.clear()


def _forget(spark: SparkSession, views: list[str], cached: list[DataFrame]) -> None:
    with suppress(Exception):  # of a session that has ended nothing is there
        for frame in cached:
            frame.unpersist()
        for view in views:
            spark.catalog.dropTempView(view)
