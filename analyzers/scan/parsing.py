"""Syntax errors of users' expressions, told by their own text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidegauge.analyzers.core.errors import UnresolvedExpressionError
from tidegauge.analyzers.scan.query_logs import handled_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
