"""Bisect a failed job to find the expressions or partitions that fail on the data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from tidegauge.analyzers.core.errors import (
    DATA_EXCEPTIONS,
    MetricError,
    sql_state,
    thrown_class,
)
from tidegauge.analyzers.core.metric import Failure

T = TypeVar("T")

ISOLATING_JOBS = 24
"""Maximum number of extra jobs to find the groups of rows in which expressions fail."""

_DATA_ERROR_CLASSES = {"0A", "21", "22", "38", "39", "42", "P0"}
"""SQLSTATE classes of errors caused by data or expressions: unsupported features, cardinality, data
exceptions, user functions, resolution, raised errors. All others are cluster failures."""


def is_data_error(error: Exception) -> bool:
    """Return whether an error was caused by the data or an expression, not by the cluster.

    Decided by Spark's SQLSTATE class. Errors that have none, such as those of regular expressions, and
    in Spark 3.5 all that tasks throw, are decided by their Java class.
    """
    state = sql_state(error)
    if state:
        return state[:2] in _DATA_ERROR_CLASSES
    if type(error).__name__ == "PythonException":  # a user's function raised an error
        return True
    return "PatternSyntaxException" in str(error) or thrown_class(error) in DATA_EXCEPTIONS


def find_failures(
    items: Sequence[T], run: Callable[[Sequence[T]], dict[T, Any]], error: Exception
) -> dict[T, Any]:
    """Bisect a batch of items that failed together; return the results and a `Failure` per culprit.

    One culprit among n costs at most ceil(log2 n) + 1 runs: each run halves the suspects, and the
    halves set aside without being run are run together at the end. Errors that are not caused by the
    data are raised.

    Parameters
    ----------
    items : sequence
        Items that failed when run together.
    run : callable
        Returns the results of the given items, or raises.
    error : Exception
        The error with which they failed.
    """
    if not items:
        raise error
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
    found[suspects[0]] = Failure(MetricError.from_exception(error).with_traceback(None))
    if untried:
        try:
            found.update(run(untried))
        except Exception as another:
            if not is_data_error(another):
                raise
            found.update(find_failures(untried, run, another))
    return found


def try_groups(
    groups: Sequence[T], run: Callable[[Sequence[T]], object], error: Exception
) -> dict[T, Any]:
    """Return the failures of groups of rows that fail on the data, by `find_failures`.

    Too many of them are not isolated: after `ISOLATING_JOBS` tries none is returned, and what ``run``
    has not been called with successfully counts as failed.

    Examples
    --------
    >>> class DataError(Exception):
    ...     getCondition = staticmethod(lambda: "DIVIDE_BY_ZERO")
    ...     getSqlState = staticmethod(lambda: "22012")
    >>> def run(days):
    ...     if "b" in days:
    ...         raise DataError("day b")
    >>> list(try_groups(["a", "b", "c"], run, DataError("day b")))
    ['b']
    """
    tries = ISOLATING_JOBS

    def limited(some: Sequence[T]) -> dict[T, Any]:
        nonlocal tries
        tries -= 1
        if tries < 0:
            raise _GaveUpError
        run(some)
        return {}

    with suppress(_GaveUpError):
        return find_failures(groups, limited, error)
    return {}


class _GaveUpError(Exception):
    """Too many groups fail to isolate each of them."""
