"""The choice of routes, and Spark sessions that start when they are needed."""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import StrEnum
from threading import Lock
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.errors import SuiteError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class MeasuringEngine(StrEnum):
    """The choice of routes: the cheapest exact route for each analyzer, or Spark SQL for all."""

    AUTO = "auto"
    SPARK = "spark"


def as_engine(engine: str) -> MeasuringEngine:
    """Return the engine with a name.

    Raises
    ------
    SuiteError
        If there is no such engine.

    Examples
    --------
    >>> str(as_engine("spark"))
    'spark'
    """
    try:
        return MeasuringEngine(engine)
    except ValueError:
        msg = f"Invalid engine {engine!r}: use {' or '.join(map(repr, map(str, MeasuringEngine)))}."
        raise SuiteError(msg) from None


class Route(StrEnum):
    """The way in which a state was computed."""

    WRITE = "the observed write"
    METADATA = "metadata"
    COLUMNS = "a columnar scan"
    TASKS = "a columnar scan in Spark's tasks"
    SPARK = "Spark SQL"


READER_DEFAULTS = {
    "spark.sql.caseSensitive": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.legacy.parquet.nanosAsLong": "false",
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.parquet.fieldId.read.enabled": "false",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.parquet.int96AsTimestamp": "true",
}
"""Spark's defaults of the settings that change the columns or rows of Parquet files."""


class LazySession:
    """A Spark session that starts when an attribute is first used.

    Parameters
    ----------
    start : callable
        Returns the session.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> session = LazySession(lambda: SimpleNamespace(version="4.0"))
    >>> session.is_started, session.version, session.is_started
    (False, '4.0', True)
    """

    def __init__(self, start: Callable[[], Any]) -> None:
        self._start = start
        self._session: Any = None
        self._lock = Lock()

    @property
    def is_started(self) -> bool:
        """Whether the session is started."""
        return self._session is not None

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the session, which starts if necessary."""
        if name.startswith("__"):
            raise AttributeError(name)
        with self._lock:
            if self._session is None:
                self._session = self._start()
        return getattr(self._session, name)


FIELD_ID_SETTING = "spark.sql.parquet.fieldId.read.enabled"
"""Whether Spark finds columns by field ids. Delta Lake turns it on in each session that reads a Delta table."""


def reads_by_default(
    spark: SparkSession | LazySession, *, ignored: Collection[str] = frozenset()
) -> bool:
    """Return whether a session reads the columns and rows of Parquet files as Spark does by default.

    A `LazySession` is created only for default settings, so it is not started.

    Parameters
    ----------
    spark : SparkSession
        The session.
    ignored : collection of str
        Settings that do not matter.
    """
    if isinstance(spark, LazySession) and not spark.is_started:
        return True
    conf = spark.conf
    return all(
        str(conf.get(name, default)).casefold() == default
        for name, default in READER_DEFAULTS.items()
        if name not in ignored
    )
