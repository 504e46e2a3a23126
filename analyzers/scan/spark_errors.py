"""Errors of Spark: kept out of its log, explained to the user, and traced to what fails.

PySpark's log of failed queries is kept quiet where the errors are handled. Errors of files that cannot be
read become errors that name the file and the remedy. A job that failed on the data is bisected to find the
expressions or partitions that fail. Partitions whose files cannot be read are left out of a batch, so that
the others are measured.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from itertools import islice
from typing import Any, TypeVar
from urllib.parse import unquote

from tidegauge.analyzers.core.errors import (
    DATA_EXCEPTIONS,
    ConflictingFilesError,
    MetricError,
    SourceError,
    TidegaugeError,
    describe,
    message_of,
    sql_state,
    thrown_class,
)
from tidegauge.analyzers.core.formatting import hide_secrets
from tidegauge.analyzers.core.metric import Failure
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.analyzers.core.sql import parse_columns

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


_SIGNS = re.compile(
    r"FAILED_READ_FILE|CANNOT_READ_FILE_FOOTER|Encountered error while reading file"
    r"|Could not read (?:footer|file: )|FileNotFoundException|MALFORMED_|Malformed|is not a Parquet file"
    r"|Input path does not exist"
)
"""Signs of Spark's errors of single files: damaged, foreign, or gone since it listed them."""
_OTHER_TYPES = re.compile(r"DATA_TYPE_MISMATCH|cannot be converted|ConvertNotSupported")
"""Signs of files that are sound, but of other types than those by which they were read."""
_FILE = re.compile(
    r"(?:reading file|read file:|not a Parquet file:?) (?P<path>[^\s,]+?)\.?(?=[\s,]|$)"
)
_MERGED = re.compile(r"CANNOT_MERGE_SCHEMAS|Failed merging schema")
_STRUCT = re.compile(r'"?(?:STRUCT|struct)<(?P<columns>.*)>"?')
MAX_FILES_COMPARED = 200
"""Files whose columns are read to name two that conflict."""


def is_read_error(error: BaseException) -> bool:
    """Return whether an error says that a file could not be read, and not that the cluster failed."""
    return isinstance(error, ConflictingFilesError) or bool(_SIGNS.search(str(error)))


@contextmanager
def explained_read_errors() -> Iterator[None]:
    """Raise a `SourceError` that names the file in place of Spark's error of a file.

    Examples
    --------
    >>> with explained_read_errors():
    ...     raise OSError("Encountered error while reading file file:/lake/a.parquet. Details:")
    Traceback (most recent call last):
        ...
    tidegauge.analyzers.core.errors.SourceError: cannot read file:/lake/a.parquet: OSError: Encountered error while reading file file:/lake/a.parquet. Details:
    """
    try:
        yield
    except TidegaugeError:
        raise
    except Exception as error:
        if not is_read_error(error):
            raise
        raise SourceError(_explained(error)) from error


def _explained(error: BaseException) -> str:
    named = _FILE.search(str(error))
    told = f"cannot read {hide_secrets(named['path']) if named else 'a file'}: {describe(error)}"
    if _OTHER_TYPES.search(str(error)):
        told += ". Files that are read together need the same column types: rewrite the file, or read it apart."
    return told


def is_merge_conflict(error: BaseException) -> bool:
    """Return whether an error says that the columns of files cannot be merged."""
    return bool(_MERGED.search(str(error)))


def merge_conflict(
    error: BaseException,
    folder: str,
    files: Sequence[str] = (),
    types_of: Callable[[str], dict[str, str]] | None = None,
) -> SourceError:
    """Return the error for files whose columns Spark cannot merge.

    Parameters
    ----------
    error : BaseException
    folder : str
        What was read.
    files : sequence of str
        Its files; two of them are named for each column.
    types_of : callable, optional
        Returns the types of a file's columns, as DDL in lower case.

    Examples
    --------
    >>> text = '''[CANNOT_MERGE_SCHEMAS] Failed merging schemas:
    ... Initial schema:
    ... "STRUCT<id: BIGINT, amount: INT>"
    ... Schema that cannot be merged with the initial schema:
    ... "STRUCT<id: BIGINT, amount: STRING>".'''
    >>> print(merge_conflict(ValueError(text), "lake/orders"))
    the files of 'lake/orders' cannot be merged by mergeSchema: column 'amount' is int in some and string in others. Rewrite the files with one type, or leave mergeSchema out.
    """
    schemas = [_types(match["columns"]) for match in islice(_STRUCT.finditer(str(error)), 2)]
    conflicts = {}
    if len(schemas) == 2:
        first, second = schemas
        conflicts = {c: (t, second[c]) for c, t in first.items() if second.get(c, t) != t}
    holders = {} if types_of is None else _first_files(files, types_of, conflicts)
    told = []
    for column, types in conflicts.items():
        places = [holders.get((column, kind)) for kind in types]
        shown = [
            f"{kind} in {place or other}"
            for kind, place, other in zip(types, places, ("some", "others"), strict=True)
        ]
        told.append(f"column {column!r} is {' and '.join(shown)}")
    what = "; ".join(told) or describe(error)
    return SourceError(
        f"the files of {hide_secrets(folder)!r} cannot be merged by mergeSchema: {what}."
        " Rewrite the files with one type, or leave mergeSchema out."
    )


def _types(columns: str) -> dict[str, str]:
    try:
        return {column.name: column.type or "" for column in parse_columns(columns)}
    except ValueError:
        return {}


def _first_files(
    files: Sequence[str],
    types_of: Callable[[str], dict[str, str]],
    conflicts: dict[str, tuple[str, str]],
) -> dict[tuple[str, str], str]:
    """Return the first file that has each conflicting column with each of its types."""
    wanted = {(column, kind) for column, types in conflicts.items() for kind in types}
    holders: dict[tuple[str, str], str] = {}
    for file in files[:MAX_FILES_COMPARED]:
        if len(holders) == len(wanted):
            break
        try:
            types = types_of(file)
        except Exception:  # noqa: BLE001, S112 - a file that cannot be read is no example
            continue
        for key in types.items():
            if key in wanted:
                holders.setdefault(key, file)
    return holders


T = TypeVar("T")
S = TypeVar("S")

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


_STEP = re.compile(r"[^/\s'\"]+=[^/\s'\"]*")


def named_partitions(error: BaseException, among: Collection[Partition]) -> set[Partition]:
    """Return the partitions in whose folders the files lie that an error names.

    Examples
    --------
    >>> days = [Partition(("ds",), (day,)) for day in ("2024-01-01", "2024-01-02")]
    >>> error = OSError("Encountered error while reading file file:/t/ds=2024-01-02/hr=1/a.parquet.")
    >>> [day.name for day in named_partitions(error, days)]
    ['ds=2024-01-02']
    >>> named_partitions(ValueError("ds=2024-01-02 is no number"), days)
    set()
    """
    folders = [
        {unquote(step) for step in _STEP.findall(path)}
        for path in str(error).split()
        if "/" in path and "=" in path[path.index("/") : path.rindex("/")]
    ]
    return {p for p in among if any(set(p.name.split("/")) <= steps for steps in folders)}


def measure_readable(
    tasks: Sequence[T],
    partition_of: Callable[[T], Partition],
    measure: Callable[[Sequence[T]], Sequence[S]],
) -> tuple[list[S], dict[Partition, str]]:
    """Measure a batch without the partitions that cannot be read; return their errors by partition.

    The error of the batch mostly names the file. If it does not, halves are tried, so that one
    partition among n costs at most 2 log2 n further scans.

    Raises
    ------
    Exception
        Any error that is not one of reading a file.
    """
    broken: dict[Partition, str] = {}
    left = list(tasks)
    while left:
        try:
            return list(measure(left)), broken
        except Exception as error:
            if not is_read_error(error):
                raise
            named = named_partitions(error, [partition_of(task) for task in left])
            if not named and len(left) > 1:
                return _by_halves(left, partition_of, measure, broken)
            named = named or {partition_of(left[0])}
            broken |= dict.fromkeys(named, message_of(error))
            left = [task for task in left if partition_of(task) not in named]
    return [], broken


def _by_halves(
    left: list[T],
    partition_of: Callable[[T], Partition],
    measure: Callable[[Sequence[T]], Sequence[S]],
    broken: dict[Partition, str],
) -> tuple[list[S], dict[Partition, str]]:
    measured: list[S] = []
    middle = len(left) // 2
    for half in (left[:middle], left[middle:]):
        measured_half, unreadable = measure_readable(half, partition_of, measure)
        measured += measured_half
        broken = {**broken, **unreadable}
    return measured, broken
