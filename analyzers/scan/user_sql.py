"""SQL written by users: the named DataFrames that it can read, and parsing by Spark.

Each frame is a temporary view with a unique name, visible only to the job's own queries. A query gets the
frames that it names as common table expressions. So a job's names shadow tables of the same name, and never
replace a view of the session.

Spark parses each expression separately, so that a syntax error quotes that expression only. The parsed plan
also names the tables of subqueries.
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


_ERROR_POSITION = re.compile(r"[;,.]?\s*\(?line (?P<line>\d+),? pos (?P<pos>\d+)\)?;?")


class Views:
    """DataFrames by case-insensitive name, registered as temporary views.

    The views live as long as this object, because Spark Connect resolves a view whenever a frame built
    on it is read.

    Parameters
    ----------
    spark : SparkSession
        The session in which the views are registered.
    """

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._own = f"tidegauge_{uuid.uuid4().hex}"
        self._views: dict[str, tuple[str, str]] = {}
        self._made: list[str] = []
        self._cached: list[DataFrame] = []
        self._end = weakref.finalize(self, _drop_views, spark, self._made, self._cached)
        self._end.atexit = False  # the session ends with the process

    def __contains__(self, name: str) -> bool:
        return name.casefold() in self._views

    def __iter__(self) -> Iterator[str]:
        return iter([name for name, _ in self._views.values()])

    def add(self, name: str, frame: DataFrame) -> None:
        """Register a frame under a name; it shadows an earlier frame of that name in later queries."""
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
        entry = self._views.get(name.casefold())
        if entry is None:
            raise KeyError(f"no frame {name!r}{did_you_mean(name, self)}")
        return entry[1]

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
        frames = [
            f"{quote(name)} AS (SELECT * FROM {quote(view)})"
            for name, view in self._views.values()
            if name.casefold() in words
        ]
        lead = f"WITH {', '.join(frames)} " if frames else ""
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
    """Return Spark's error with its position in the user's query, without the lines that `Views.query` adds.

    Examples
    --------
    >>> str(_query_error(ValueError("Syntax error at or near 'from'. (line 2, pos 7)"), "SELECT from"))
    "ValueError: Syntax error at or near 'from' (line 1, pos 7)"
    """
    reason, position = _ERROR_POSITION.sub("", describe(error)), _ERROR_POSITION.search(str(error))
    if position is None:
        return UnresolvedQueryError(reason)
    line, lines = int(position["line"]) - 1, sql.split("\n")
    if line > len(lines):
        return UnresolvedQueryError("the query ends too early", (len(lines), len(lines[-1])))
    return UnresolvedQueryError(reason, (max(line, 1), int(position["pos"])))


def _drop_views(spark: SparkSession, views: list[str], cached: list[DataFrame]) -> None:
    for drop in [frame.unpersist for frame in cached] + [
        partial(spark.catalog.dropTempView, view) for view in views
    ]:
        with suppress(Exception):  # nothing to drop if the session has ended
            drop()


_SUBQUERY_START = re.compile(r"(?:^|\()\s*(?:select|with|table|from)\b", re.IGNORECASE)
_UNRESOLVED_RELATION = re.compile(r"'UnresolvedRelation \[(?P<parts>[^\]]+)\]")


@handled_errors()
def unparsed(data: DataFrame, expressions: Iterable[str]) -> Exception | None:
    """Return the syntax error of expressions as the user wrote them; None if all parse.

    Inside the parentheses that scans add, ``a > 0) OR (true`` would parse, and the positions of other errors
    would refer to SQL that the user did not write.
    """
    sources = list(expressions)
    if not sources:
        return None
    error = _parse_error(data, sources)
    if error is not None:
        return error
    if _parse_error(data, [f"(\n{text}\n)" for text in sources]) is None:
        return None
    # An expression that parses alone but not in parentheses has an alias.
    aliased = next(t for t in sources if _parse_error(data, [f"(\n{t}\n)"]) is not None)
    return UnresolvedExpressionError(f"{aliased!r} has an alias; remove it")


def _parse_error(data: DataFrame, expressions: list[str]) -> Exception | None:
    from pyspark.errors import AnalysisException, ParseException

    try:
        data.selectExpr(*expressions).schema  # noqa: B018 - forces parsing on Spark Connect
    except ParseException as error:
        return error
    except AnalysisException:
        pass  # it parses, and can resolve in the place where it will be used
    return None


def reads_tables(text: str) -> bool:
    """Return whether an expression can read tables, because it contains or is a query.

    Examples
    --------
    >>> reads_tables("id IN (SELECT id FROM known)"), reads_tables("note = '(select'")
    (True, False)
    """
    return _SUBQUERY_START.search(without_literals(text)) is not None


@handled_errors()
def tables_read(data: DataFrame, queries: Iterable[tuple[str, str | None]]) -> set[str]:
    """Return the tables that queries in expressions on a frame read, as Spark parses them.

    The result includes names of common table expressions. Expressions that do not parse are skipped.

    Parameters
    ----------
    data : DataFrame
        The frame.
    queries : iterable of tuple of str and (str or None)
        Each expression, and the name that it uses for the frame. This name is not returned.
    """
    from pyspark.errors import AnalysisException

    tables: set[str] = set()
    for source, data_name in set(queries):
        escaped = source.replace("{", "{{").replace("}", "}}")
        query = f"EXPLAIN EXTENDED SELECT (\n{escaped}\n) FROM {{data}}"  # the user's own SQL
        try:
            plan = data.sparkSession.sql(query, data=data).collect()[0][0]
        except AnalysisException:
            continue
        parsed = plan.partition("== Analyzed Logical Plan ==")[0]
        names = [match["parts"].split(", ") for match in _UNRESOLVED_RELATION.finditer(parsed)]
        hidden = [] if data_name is None else [data_name.casefold()]
        # PySpark registers the frame itself as a view.
        tables.update(
            ".".join(map(quote, parts))
            for parts in names
            if not parts[-1].startswith("_pyspark") and list(map(str.casefold, parts)) != hidden
        )
    return tables
