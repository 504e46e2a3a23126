"""Whose fault it is: the items among many with which a job fails, and whether the data is to blame."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from analyzers.errors import MetricError
from analyzers.metric import Failure

T = TypeVar("T")

_OF_EXPRESSIONS = {"0A", "21", "22", "38", "39", "42", "P0"}
"""Classes of SQLSTATE that blame data or expressions: features, cardinality, data, functions of users,
resolution, errors raised on purpose. Others are the cluster's."""


def is_data_error(error: Exception) -> bool:
    """Whether the data or an expression, not the cluster, is at fault.

    Spark says so by SQLSTATE; regular expressions it leaves to Java.
    """
    state = getattr(error, "getSqlState", None)
    named = (state() or "") if callable(state) else ""
    return named[:2] in _OF_EXPRESSIONS or "PatternSyntaxException" in str(error)


def find_failures(
    items: Sequence[T], run: Callable[[Sequence[T]], dict[T, Any]], error: Exception
) -> dict[T, Any]:
    """Return the results of all items that succeed and the failures of the others.

    One culprit among n costs at most ceil(log2 n) + 1 runs: each run halves the suspects, and what
    was never suspected alone is run together at the end.

    Parameters
    ----------
    items : sequence
        Items that failed when run together.
    run : callable
        Returns the results of some items, or raises.
    error : Exception
        With which they failed.
    """
    found: dict[T, Any] = {}
    suspects, untried = list(items), []
    while len(suspects) > 1:
        half, rest = suspects[: len(suspects) // 2], suspects[len(suspects) // 2 :]
        try:
            found.update(run(half))
            suspects = rest
        except Exception as narrower:
            if not is_data_error(narrower):
                raise
            error, suspects = narrower, half
            untried += rest
    found[suspects[0]] = Failure(MetricError.of(error).with_traceback(None))
    if untried:
        try:
            found.update(run(untried))
        except Exception as another:
            if not is_data_error(another):
                raise
            found.update(find_failures(untried, run, another))
    return found
