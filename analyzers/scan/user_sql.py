"""SQL that users write: the named DataFrames that it may read, and what Spark's parser finds in it.

Each frame is a temporary view with a unique name, visible only to the job's own queries. A query gets the
frames that it may reference as common table expressions, so a job's names shadow tables of the same name and
never replace a view of the session.

Expressions are parsed by Spark one by one, so that a syntax error is reported with the expression's own
text, and the tables of subqueries are known.
"""

from __future__ import annotations

import re
import uuid
import weakref
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from tidegauge.analyzers.core.errors import (
    UnresolvedExpressionError,
    UnresolvedQueryError,
    describe,
    did_you_mean,
)
from tidegauge.analyzers.core.sql import protect_names, quote, without_literals, words_in
from tidegauge.analyzers.scan.spark_errors import handled_errors

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


_SUBQUERY = re.compile(r"(?:^|\()\s*(?:select|with|table|from)\b", re.IGNORECASE)
_RELATION = re.compile(r"'UnresolvedRelation \[(?P<parts>[^\]]+)\]")


@handled_errors()
def unparsed(data: DataFrame, texts: Iterable[str]) -> Exception | None:
    """Return the syntax error of expressions as their user wrote them; None if all parse.

    Inside the parentheses that scans add, ``a > 0) OR (true`` would parse, and the position of any
    other error would be one in text that the user never wrote.
    """
    some = list(texts)
    if not some:
        return None
    error = _parse_error(data, some)
    if error is not None:
        return error
    if _parse_error(data, [f"(\n{text}\n)" for text in some]) is None:
        return None
    # Parses by itself and not in parentheses: an alias.
    told = next(t for t in some if _parse_error(data, [f"(\n{t}\n)"]) is not None)
    return UnresolvedExpressionError(f"{told!r} is more than an expression; leave out its alias")


def _parse_error(data: DataFrame, texts: list[str]) -> Exception | None:
    from pyspark.errors import AnalysisException, ParseException

    try:
        data.selectExpr(*texts).schema  # noqa: B018 - forces parsing on Spark Connect
    except ParseException as error:
        return error
    except AnalysisException:
        pass  # parsed; resolved where it will stand, it may fare better
    return None


def reads_tables(text: str) -> bool:
    """Return whether an expression may read tables: whether it has, or is, a query.

    Examples
    --------
    >>> reads_tables("id IN (SELECT id FROM known)"), reads_tables("note = '(select'")
    (True, False)
    """
    return _SUBQUERY.search(without_literals(text)) is not None


@handled_errors()
def tables_read(data: DataFrame, queries: Iterable[tuple[str, str | None]]) -> set[str]:
    """Return the tables that queries in expressions on a frame read, as Spark parses them.

    Names of common table expressions are among them; expressions that do not parse read none.

    Parameters
    ----------
    data : DataFrame
    queries : iterable of tuple of str and (str or None)
        Each expression, and the name by which it reads the frame, which is no table then.
    """
    from pyspark.errors import AnalysisException

    found: set[str] = set()
    for text, own in set(queries):
        escaped = text.replace("{", "{{").replace("}", "}}")
        query = f"EXPLAIN EXTENDED SELECT (\n{escaped}\n) FROM {{data}}"  # the user's own SQL
        try:
            plan = data.sparkSession.sql(query, data=data).collect()[0][0]
        except AnalysisException:
            continue
        parsed = plan.partition("== Analyzed Logical Plan ==")[0]
        names = [match["parts"].split(", ") for match in _RELATION.finditer(parsed)]
        hidden = [] if own is None else [own.casefold()]
        # The frame itself is a view of PySpark's.
        found.update(
            ".".join(map(quote, parts))
            for parts in names
            if not parts[-1].startswith("_pyspark") and list(map(str.casefold, parts)) != hidden
        )
    return found
