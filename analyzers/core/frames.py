"""Checks of the data that callers pass as DataFrames."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tidegauge.analyzers.core.errors import SourceError


def is_frame(value: Any) -> bool:
    """Return whether a value is a DataFrame of Spark, classic or Connect; imports neither."""
    return hasattr(value, "selectExpr")


def kind_of(value: Any) -> str:
    """Describe what is not a DataFrame of Spark, and how it becomes one.

    Examples
    --------
    >>> import pandas as pd
    >>> kind_of(pd.DataFrame())
    'a DataFrame of pandas; make one of it by spark.createDataFrame(data)'
    >>> kind_of("orders"), kind_of(None)
    ('a str; read a table by spark.table(name)', 'None')
    """
    if value is None:
        return "None"
    kind = type(value)
    package = kind.__module__.partition(".")[0]
    named = f"a {kind.__name__}" + (f" of {package}" if package != "builtins" else "")
    if isinstance(value, str):
        return f"{named}; read a table by spark.table(name)"
    if hasattr(value, "iloc") or hasattr(value, "to_pandas"):
        return f"{named}; make one of it by spark.createDataFrame(data)"
    return named


def check_distinct_columns(data: Any) -> None:
    """Check that no two columns of a DataFrame have the same name, by the session's case sensitivity.

    Raises
    ------
    SourceError
    """
    is_sensitive = data.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
    names = list(data.columns)
    counts = Counter(name if is_sensitive else name.casefold() for name in names)
    name, count = next(iter(counts.most_common(1)), ("", 0))
    if count > 1:
        places = [
            n
            for n, given in enumerate(names, 1)
            if (given if is_sensitive else given.casefold()) == name
        ]
        msg = (
            f"the data has {count} columns named {names[places[0] - 1]!r}: {', '.join(map(str, places))} of"
            f" {len(names)}. Give each a name of its own, such as data.toDF(*names), or select one of them"
        )
        raise SourceError(msg)


def check_frame(value: Any, *, streaming: bool = False) -> None:
    """Check that a value is a DataFrame of Spark, and not a stream unless these are allowed.

    Raises
    ------
    SourceError
    """
    if not is_frame(value):
        msg = f"a DataFrame of Spark is needed, not {kind_of(value)}"
        raise SourceError(msg)
    if value.isStreaming and not streaming:
        msg = "a streaming DataFrame has no end: measure the batches of foreachBatch, or what it wrote"
        raise SourceError(msg)
