"""The frames of a job under their names, seen by its queries only.

Each frame is a temporary view with a name that nobody else has. A query is given those that it may name as common
table expressions, so names of a job hide tables of the same name and never replace a view of the session.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

from analyzers.errors import nearest
from analyzers.sql import quote, words_in

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from pyspark.sql import DataFrame, SparkSession


class Views:
    """Frames by name; names are compared without regard to letter case, as Spark does.

    Parameters
    ----------
    spark : SparkSession
    """

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._own = f"tidegauge_{uuid.uuid4().hex}"
        self._made = 0
        self._views: dict[str, tuple[str, str]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.drop()

    def __contains__(self, name: str) -> bool:
        return name.casefold() in self._views

    def __iter__(self) -> Iterator[str]:
        return iter([name for name, _ in self._views.values()])

    def add(self, name: str, frame: DataFrame) -> None:
        """Give a frame a name; a frame that had it is hidden from queries to come."""
        self._made += 1
        view = f"{self._own}_{self._made}"
        frame.createOrReplaceTempView(view)
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
        return self.spark.sql(f"{lead}SELECT * FROM (\n{sql}\n)")

    def drop(self) -> None:
        """Forget all frames."""
        for number in range(1, self._made + 1):
            self.spark.catalog.dropTempView(f"{self._own}_{number}")
        self._views.clear()
