"""Users' expressions as Spark parses them: syntax errors by their own text, tables of subqueries."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidegauge.analyzers.core.errors import UnresolvedExpressionError
from tidegauge.analyzers.core.sql import quote, without_literals
from tidegauge.analyzers.scan.query_logs import handled_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
        query = f"EXPLAIN EXTENDED SELECT (\n{escaped}\n) FROM {{data}}"  # noqa: S608 - the user's own SQL
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
