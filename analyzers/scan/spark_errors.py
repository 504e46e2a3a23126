"""Handling of Spark's errors: suppress their log lines, explain them, and find their cause.

PySpark's log lines of failed queries are suppressed if the caller handles the errors. Errors of unreadable
files are replaced by errors that name the file and the fix. A job that failed on the data is bisected to
find the expressions or partitions that fail. Partitions with unreadable files are left out of a batch, so
that the others are measured.
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

_PYSPARK_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_handled: ContextVar[bool] = ContextVar("handled", default=False)


@contextmanager
def handled_errors() -> Iterator[None]:
    """Suppress PySpark's log lines of errors that the caller handles or raises itself.

    Since Spark 4, PySpark logs each error of a query, with the Java stack, to standard error before it raises
    the error. Other threads, and code outside this context, log as before.
    """
    _install()
    token = _handled.set(True)
    try:
        yield
    finally:
        _handled.reset(token)


def _install() -> None:
    """Add the filter to PySpark's loggers, which exist since Spark 4."""
    try:
        from pyspark.logger import PySparkLogger
    except ImportError:
        return
    for name in _PYSPARK_LOGGERS:
        # A logger of another class would fail on PySpark's own fields.
        logger = PySparkLogger.getLogger(name)
        if _is_unhandled not in logger.filters:
            logger.addFilter(_is_unhandled)


def _is_unhandled(record: logging.LogRecord) -> bool:
    return not _handled.get()


_READ_ERROR = re.compile(
    r"FAILED_READ_FILE|CANNOT_READ_FILE_FOOTER|Encountered error while reading file"
    r"|Could not read (?:footer|file: )|FileNotFoundException|MALFORMED_|Malformed|is not a Parquet file"
    r"|Input path does not exist"
)
"""Phrases in Spark's errors about single files: damaged, of another format, or deleted since listing."""
_TYPE_CONFLICT = re.compile(r"DATA_TYPE_MISMATCH|cannot be converted|ConvertNotSupported")
"""Phrases in errors about valid files whose column types differ from the types they were read with."""
_FILE_IN_ERROR = re.compile(
    r"(?:reading file|read file:|not a Parquet file:?) (?P<path>[^\s,]+?)\.?(?=[\s,]|$)"
)
_MERGE_CONFLICT = re.compile(r"CANNOT_MERGE_SCHEMAS|Failed merging schema")
_STRUCT_TYPE = re.compile(r'"?(?:STRUCT|struct)<(?P<columns>.*)>"?')
MAX_FILES_COMPARED = 200
"""Bounds the time to find two files whose columns conflict."""


def is_read_error(error: BaseException) -> bool:
    """Return whether an error means that a file could not be read, rather than that the cluster failed."""
    return isinstance(error, ConflictingFilesError) or bool(_READ_ERROR.search(str(error)))


@contextmanager
def explained_read_errors() -> Iterator[None]:
    """Replace Spark's error about a file by a `SourceError` that names the file.

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
    file = _FILE_IN_ERROR.search(str(error))
    message = f"cannot read {hide_secrets(file['path']) if file else 'a file'}: {describe(error)}"
    if _TYPE_CONFLICT.search(str(error)):
        message += (
            ". Files that are read together need the same column types: rewrite the file,"
            " or read it separately."
        )
    return message


def is_merge_conflict(error: BaseException) -> bool:
    """Return whether an error means that the columns of files cannot be merged."""
    return bool(_MERGE_CONFLICT.search(str(error)))


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
        Spark's error.
    folder : str
        The folder that was read.
    files : sequence of str
        The folder's files; for each conflicting column, two of them are named.
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
    schemas = [_types(match["columns"]) for match in islice(_STRUCT_TYPE.finditer(str(error)), 2)]
    conflicts = {}
    if len(schemas) == 2:
        first, second = schemas
        conflicts = {c: (t, second[c]) for c, t in first.items() if second.get(c, t) != t}
    holders = {} if types_of is None else _first_files(files, types_of, conflicts)
    problems = []
    for column, types in conflicts.items():
        example_files = [holders.get((column, kind)) for kind in types]
        examples = [
            f"{kind} in {file or placeholder}"
            for kind, file, placeholder in zip(
                types, example_files, ("some", "others"), strict=True
            )
        ]
        problems.append(f"column {column!r} is {' and '.join(examples)}")
    reason = "; ".join(problems) or describe(error)
    return SourceError(
        f"the files of {hide_secrets(folder)!r} cannot be merged by mergeSchema: {reason}."
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
    column_types = {(column, kind) for column, types in conflicts.items() for kind in types}
    holders: dict[tuple[str, str], str] = {}
    for file in files[:MAX_FILES_COMPARED]:
        if len(holders) == len(column_types):
            break
        try:
            types = types_of(file)
        except Exception:  # noqa: BLE001, S112 - skip files that cannot be read
            continue
        for key in types.items():
            if key in column_types:
                holders.setdefault(key, file)
    return holders


T = TypeVar("T")
S = TypeVar("S")

ISOLATING_JOBS = 24
"""Maximum number of extra jobs to find the groups of rows in which expressions fail."""

_DATA_ERROR_CLASSES = {"0A", "21", "22", "38", "39", "42", "P0"}
"""SQLSTATE classes of errors caused by data or expressions: unsupported features, cardinality, data
exceptions, user functions, resolution, raised errors. All other classes are cluster failures."""


def is_data_error(error: Exception) -> bool:
    """Return whether an error was caused by the data or an expression, not by the cluster.

    Spark's SQLSTATE class decides. For errors without one, the Java class decides: errors of regular
    expressions and, in Spark 3.5, all errors of tasks.
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

    One culprit among n costs at most ceil(log2 n) + 1 runs. Each run halves the suspects. Halves that have
    not been run yet are run together at the end. Errors that are not caused by the data are raised.

    Parameters
    ----------
    items : sequence
        Items that failed when run together.
    run : callable
        Returns the results of the given items, or raises.
    error : Exception
        The error that they raised.
    """
    if not items:
        raise error
    results: dict[T, Any] = {}
    suspects, untried = list(items), []
    while len(suspects) > 1:
        half, other_half = suspects[: len(suspects) // 2], suspects[len(suspects) // 2 :]
        try:
            results.update(run(half))
            suspects = other_half
        except Exception as half_error:
            if not is_data_error(half_error):
                raise
            error, suspects = half_error, half
            untried += other_half
    results[suspects[0]] = Failure(MetricError.from_exception(error).with_traceback(None))
    if untried:
        try:
            results.update(run(untried))
        except Exception as untried_error:
            if not is_data_error(untried_error):
                raise
            results.update(find_failures(untried, run, untried_error))
    return results


def try_groups(
    groups: Sequence[T], run: Callable[[Sequence[T]], object], error: Exception
) -> dict[T, Any]:
    """Return the failures of groups of rows that fail on the data, found with `find_failures`.

    If more than `ISOLATING_JOBS` runs are required, an empty dict is returned. The caller then treats every
    group as failed for which ``run`` has not succeeded.

    Parameters
    ----------
    groups : sequence
        Groups that failed when run together.
    run : callable
        Runs the given groups, or raises.
    error : Exception
        The error that they raised.

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

    def limited(subset: Sequence[T]) -> dict[T, Any]:
        nonlocal tries
        tries -= 1
        if tries < 0:
            raise _GaveUpError
        run(subset)
        return {}

    with suppress(_GaveUpError):
        return find_failures(groups, limited, error)
    return {}


class _GaveUpError(Exception):
    """Too many groups fail to isolate each of them."""


_PATH_STEP = re.compile(r"[^/\s'\"]+=[^/\s'\"]*")


def named_partitions(error: BaseException, among: Collection[Partition]) -> set[Partition]:
    """Return the partitions whose folders contain the files that an error names.

    Parameters
    ----------
    error : BaseException
        The error, whose message contains paths.
    among : collection of Partition
        The partitions that were read.

    Examples
    --------
    >>> days = [Partition(("ds",), (day,)) for day in ("2024-01-01", "2024-01-02")]
    >>> error = OSError("Encountered error while reading file file:/t/ds=2024-01-02/hr=1/a.parquet.")
    >>> [day.name for day in named_partitions(error, days)]
    ['ds=2024-01-02']
    >>> named_partitions(ValueError("cannot parse ds=2024-01-02"), days)
    set()
    """
    folders = [
        {unquote(step) for step in _PATH_STEP.findall(path)}
        for path in str(error).split()
        if "/" in path and "=" in path[path.index("/") : path.rindex("/")]
    ]
    return {p for p in among if any(set(p.name.split("/")) <= steps for steps in folders)}


def measure_readable(
    tasks: Sequence[T],
    partition_of: Callable[[T], Partition],
    measure: Callable[[Sequence[T]], Sequence[S]],
) -> tuple[list[S], dict[Partition, str]]:
    """Measure a batch without its unreadable partitions, and return the errors of these partitions.

    The error of the batch usually names the file. If it does not, each half of the batch is tried, so that
    one unreadable partition among n costs at most 2 log2 n further scans.

    Parameters
    ----------
    tasks : sequence
        The batch: one task per partition.
    partition_of : callable
        Returns the partition of a task.
    measure : callable
        Measures tasks, or raises.

    Returns
    -------
    tuple of list and dict
        The measurements, and the error messages by unreadable partition.

    Raises
    ------
    Exception
        Any error of ``measure`` other than a failure to read a file.
    """
    broken: dict[Partition, str] = {}
    remaining = list(tasks)
    while remaining:
        try:
            return list(measure(remaining)), broken
        except Exception as error:
            if not is_read_error(error):
                raise
            unreadable = named_partitions(error, [partition_of(task) for task in remaining])
            if not unreadable and len(remaining) > 1:
                return _by_halves(remaining, partition_of, measure, broken)
            unreadable = unreadable or {partition_of(remaining[0])}
            broken |= dict.fromkeys(unreadable, message_of(error))
            remaining = [task for task in remaining if partition_of(task) not in unreadable]
    return [], broken


def _by_halves(
    tasks: list[T],
    partition_of: Callable[[T], Partition],
    measure: Callable[[Sequence[T]], Sequence[S]],
    broken: dict[Partition, str],
) -> tuple[list[S], dict[Partition, str]]:
    measured: list[S] = []
    middle = len(tasks) // 2
    for half in (tasks[:middle], tasks[middle:]):
        measured_half, unreadable = measure_readable(half, partition_of, measure)
        measured += measured_half
        broken = {**broken, **unreadable}
    return measured, broken
