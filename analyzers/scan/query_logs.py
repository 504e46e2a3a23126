"""PySpark's log of failed queries, kept quiet where the errors are handled."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_handled: ContextVar[bool] = ContextVar("handled", default=False)


@contextmanager
def handled_errors() -> Iterator[None]:
    """Suppress PySpark's log lines of errors that the caller handles or passes on itself.

    Since Spark 4, PySpark logs each error of a query, with Java's stack, to standard error before it
    is raised. Other threads, and what runs outside of this context, log as before.
    """
    _install()
    before = _handled.set(True)
    try:
        yield
    finally:
        _handled.reset(before)


def _install() -> None:
    """Add the filter to PySpark's loggers; there are none before Spark 4."""
    try:
        from pyspark.logger import PySparkLogger
    except ImportError:
        return
    for name in _LOGGERS:
        # A logger of another class would fail at PySpark's own fields.
        logger = PySparkLogger.getLogger(name)
        if _is_unhandled not in logger.filters:
            logger.addFilter(_is_unhandled)


def _is_unhandled(record: logging.LogRecord) -> bool:
    return not _handled.get()
