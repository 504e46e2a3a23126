"""Exception hierarchy: every error that tidegauge raises or stores.

::

    TidegaugeError
      MetricError                      a metric could not be computed; stored with the metric
        EmptyStateError                no data to compute it from
        MetricRuntimeError             the computation failed, because of the data
          MetricEnvironmentError       the computation failed for a reason outside the data
          StandingError                an unresolved failure of an earlier run
        PreconditionError              the schema does not fit the analyzer; nothing was computed
          NoSuchColumnError
          WrongColumnTypeError
          NoColumnsSpecifiedError
          NumberOfSpecifiedColumnsError
          IllegalAnalyzerParameterError
          UnresolvedExpressionError    a predicate or a ``where`` that Spark cannot resolve
            UnresolvedQueryError       a query that Spark cannot resolve
          PrivateColumnError           its state would hold values of a private column
      StateError
        StateMismatchError             two states that cannot be added
        UnknownStateTagError           no reader is registered for the state's tag
        CorruptStateError              the stored bytes cannot be read
      SuiteError                       an invalid suite or suite file
        UnknownNameError               an analyzer, option, detector ... that does not exist
        RuleError                      an invalid rule, fix or policy
        DslError                       an invalid rule in the Griffin DSL
        GriffinConfigError             an invalid ``env.json`` or ``dq.json``
      GriffinError                     a Griffin job in which rules, sources or sinks failed
      DQMError                         data rejected by its policies
      SinkError                        a target for results that cannot be written
      SourceError                      a table, path or DataFrame that cannot be read
        FileSystemError                a location that no file system can reach
        NoSuchTableError
        PartitionColumnError
        PartitionSelectionError        an invalid ``partitions=`` selection
        ConflictingFilesError          files whose types of a column have no common type
        TableFormatError               a folder of a Delta, Hudi or Iceberg table, read as plain files
      RepositoryError
        NotOurDatabaseError
        DatabaseVersionError           schema revision older or newer than this tidegauge
        DatabaseAccessError            the database cannot be opened or written
          ReadOnlyError                a write to a repository that can only be read
        LeaseError                     another run holds the dataset's lease, or took it over
        UnknownDatasetError
        DatasetMismatchError           the dataset's history belongs to another table
        RetiredDatasetError            the dataset is retired, so no run measures it
        HistoryError                   a query that the history cannot answer
          MixedTypesError              states that were measured while a column had different types
          DetectionError               datasets in which anomalies could not be detected
        ConflictError                  labels were added since the caller last read them
      CheckFailedError                 a failed check, where failures were requested as errors
      UnsupportedSparkError            a Spark that is too old, or workers without packages
      SetupError                       a dependency or build artifact is missing

Errors store their facts as attributes. The message states the problem and the fix.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from tidegauge.analyzers.core.formatting import hide_secrets, middle_cut, plural


def nearest(requested: str, available: Iterable[str], min_similarity: float = 0.5) -> str | None:
    """Return the most similar name, ignoring case; None if no name is similar enough.

    Parameters
    ----------
    requested : str
        The name to look for.
    available : iterable of str
        The names to choose from.
    min_similarity : float
        Similarity from 0 to 1 that a name must have.

    Examples
    --------
    >>> nearest("dep_tme", ["arr_time", "dep_time"])
    'dep_time'
    >>> nearest("size", ["Size", "Sum"])
    'Size'
    >>> nearest("xyz", ["Size"])
    """
    by_folded = {name.casefold(): name for name in available}
    matches = get_close_matches(str(requested).casefold(), by_folded, n=1, cutoff=min_similarity)
    return by_folded[matches[0]] if matches else None


def did_you_mean(requested: str, available: Iterable[str]) -> str:
    """Return the end of a message that suggests the most similar name; empty if no name is similar.

    Examples
    --------
    >>> did_you_mean("dep_tme", ["arr_time", "dep_time"]), did_you_mean("xyz", ["Size"])
    ("; did you mean 'dep_time'?", '')
    """
    close = nearest(requested, available)
    return f"; did you mean {close!r}?" if close else ""


def _suggestion(requested: str, available: Iterable[str]) -> str:
    names = list(available)
    hint = did_you_mean(requested, names).removeprefix("; ")
    return hint or f"there are: {', '.join(map(repr, names)) or 'none'}"


class TidegaugeError(Exception):
    """Base class of all tidegauge errors."""


class UnsupportedSparkError(TidegaugeError):
    """The session's Spark is too old, or its workers lack required packages."""


class MetricError(TidegaugeError):
    """A metric could not be computed; the error is stored and shown in place of the value.

    Attributes
    ----------
    is_retriable : bool
        Whether the same files can give a value later, for example once a function is registered. The
        next run measures the analyzer again. Other failures stay until the files change.
    """

    is_retriable: bool = False

    @classmethod
    def from_exception(cls, error: BaseException) -> MetricError:
        """Return a `MetricError` unchanged; wrap any other error.

        An error caused by data becomes a `MetricRuntimeError`, any other error a `MetricEnvironmentError`.
        Errors captured from Spark keep JVM handles and whole frames alive and cannot be pickled, so only
        their message and error condition are stored.

        Examples
        --------
        >>> MetricError.from_exception(ZeroDivisionError("division by zero")).is_retriable
        False
        >>> MetricError.from_exception(PermissionError("cannot read /lake/countries")).is_retriable
        True
        """
        if isinstance(error, MetricError):
            return error
        kind = MetricRuntimeError if is_caused_by_data(error) else MetricEnvironmentError
        return kind(describe(error))

    def with_text(self, text: str) -> MetricError:
        """Return a runtime error with another message, which is retriable if this error is."""
        return (MetricEnvironmentError if self.is_retriable else MetricRuntimeError)(text)

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else type(self).__name__


_THROWN_IN_TASK = re.compile(
    r"most recent failure: .{0,2000}?\): ([\w.$]{1,200}(?:Exception|Error)): (.*)"
)


_THROWN_IN_CALL = re.compile(r"An error occurred while calling .{0,2000}\n: ([\w.$]{1,200}): (.*)")


_CAUSED_BY_LINE = re.compile(r"^Caused by: ([\w.$]+): (.*)", re.MULTILINE)


_PYTHON_ERROR_LINE = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception)\b.*$", re.MULTILINE)


_SQL_POSITION = re.compile(r"; line \d+,? pos \d+;?$")
"""A position in resolved SQL.

The position is useless to users, since their expressions are embedded in generated SQL.
"""


_HIDDEN_COLUMN = re.compile(r"`__tidegauge_\w+`, |, `__tidegauge_\w+`")
"""Hidden columns among the names that Spark suggests."""


def describe(error: BaseException) -> str:
    """Format an exception as one line: error condition or class name, and the first line of its message.

    For Java and Python exceptions wrapped by Spark, the line of the original exception is used. Passwords in
    URLs are redacted. Positions in generated SQL and hidden columns are left out.

    Examples
    --------
    >>> describe(ZeroDivisionError("division by zero"))
    'ZeroDivisionError: division by zero'
    >>> describe(ValueError("no `x`; there are [`a`, `__tidegauge_e0`]; line 2 pos 0;"))
    'ValueError: no `x`; there are [`a`]'
    """
    return hide_secrets(_HIDDEN_COLUMN.sub("", _SQL_POSITION.sub("", _describe_unredacted(error))))


def message_of(error: BaseException) -> str:
    """Return the message of an error for users: unchanged for tidegauge's errors, else from `describe`.

    Examples
    --------
    >>> message_of(SourceError("no folder '/lake'")), message_of(ZeroDivisionError("division by zero"))
    ("no folder '/lake'", 'ZeroDivisionError: division by zero')
    """
    return str(error) if isinstance(error, TidegaugeError) else describe(error)


SPARK_ENDED = (
    "Spark does not answer ({}): its process was stopped or killed, often because it ran out of memory."
    " Check its log, increase spark.driver.memory if necessary, and run again; committed batches are kept"
)


def has_spark_ended(error: BaseException) -> bool:
    """Return whether an error means that the connection to Spark broke.

    PySpark raises plain socket errors, or errors of its libraries: py4j on the same machine, gRPC with Spark
    Connect. The traceback shows whether a socket belonged to py4j.
    """
    if type(error).__name__ == "Py4JNetworkError":
        return True
    if "UNAVAILABLE" in str(error) and "grpc" in f"{type(error).__name__} {error}".casefold():
        return True
    trace = error.__traceback__ if isinstance(error, ConnectionError | EOFError) else None
    while trace is not None:
        if str(trace.tb_frame.f_globals.get("__name__")).partition(".")[0] == "py4j":
            return True
        trace = trace.tb_next
    return False


def _describe_unredacted(error: BaseException) -> str:
    message = str(error).strip()
    if has_spark_ended(error):
        return SPARK_ENDED.format(
            f"{type(error).__name__}: {_first_statement(message)}".rstrip(": ")
        )
    thrown = _THROWN_IN_TASK.search(message) or _THROWN_IN_CALL.match(
        message
    )  # the Java exception, which Spark's text puts after the call chain
    if thrown and thrown[2].startswith("Exception thrown in awaitResult"):  # its message is useless
        thrown = next(iter([*_CAUSED_BY_LINE.finditer(message)][-1:]), thrown)
    if thrown:
        has_condition = thrown[2].startswith("[")  # with the condition, so the class adds nothing
        return thrown[2] if has_condition else f"{thrown[1].rpartition('.')[2]}: {thrown[2]}"
    line = _first_statement(message)
    name = condition_of(error)
    if name == "PYTHON_EXCEPTION" or "PythonException" in type(error).__name__:
        line = next(
            iter(_PYTHON_ERROR_LINE.findall(message)[-1:]), line
        )  # the exception is printed below the traceback
    if name and line.startswith(f"[{name}]"):
        return line
    return f"{name or type(error).__name__}: {line}"


def _first_statement(text: str) -> str:
    r"""Return the first line of a message. After a line that ends with a colon, the next line is added.

    Examples
    --------
    >>> _first_statement("[CANNOT_MERGE_SCHEMAS] Failed merging schemas:\nInitial schema:\nx: INT\nother")
    '[CANNOT_MERGE_SCHEMAS] Failed merging schemas: Initial schema: x: INT'
    """
    statement = ""
    for line in text.splitlines():
        statement = f"{statement} {line.strip()}".strip()
        if not statement.endswith(":"):
            break
    return statement


def thrown_class(error: BaseException) -> str | None:
    """Return the Java class of the exception that a task threw, from Spark's message; None if there is none.

    Examples
    --------
    >>> text = "Job aborted; most recent failure: Lost task (TID 0): java.lang.RuntimeException: x"
    >>> thrown_class(RuntimeError(text))
    'java.lang.RuntimeException'
    """
    match = _THROWN_IN_TASK.search(str(error))
    return match[1] if match else None


def condition_of(error: BaseException) -> str | None:
    """Return the condition of a Spark error, such as ``PATH_NOT_FOUND``; None if it has none.

    In Spark 3.5, the condition is called error class.

    Examples
    --------
    >>> condition_of(ValueError("no")) is None
    True
    """
    getter = getattr(error, "getCondition", None) or getattr(error, "getErrorClass", None)
    condition: str | None = getter() if callable(getter) else None
    return condition


_DATA_STATES = ("21", "22", "P0")
"""SQLSTATE classes of errors caused by values of rows: cardinality, data exceptions, raised errors."""
_SPARK_DATA_ERRORS = ("Arithmetic", "ArrayIndexOutOfBounds", "DateTime", "NumberFormat", "Runtime")
DATA_EXCEPTIONS = frozenset(
    {
        *(f"org.apache.spark.Spark{kind}Exception" for kind in _SPARK_DATA_ERRORS),
        "java.lang.ArithmeticException",
        "java.lang.NumberFormatException",
        "java.lang.RuntimeException",  # raise_error
        "java.time.DateTimeException",
    }
)
"""Java classes of errors caused by data, for errors without a SQLSTATE."""


def sql_state(error: BaseException) -> str:
    """Return the SQLSTATE of a Spark error; empty if it has none.

    Examples
    --------
    >>> sql_state(ValueError("no"))
    ''
    """
    state = getattr(error, "getSqlState", None)
    return (state() or "") if callable(state) else ""


def is_caused_by_data(error: BaseException) -> bool:
    """Return whether values of rows cause an error, so that the same rows would cause it again.

    Other causes can change while the rows stay the same: functions and their code, tables, permissions,
    packages of workers, memory. A Spark error counts as caused by data only if its SQLSTATE or Java class
    shows it. A Python error counts as caused by data unless it is a system error.

    Examples
    --------
    >>> is_caused_by_data(OverflowError("too large")), is_caused_by_data(ImportError("no scipy"))
    (True, False)
    """
    if callable(getattr(error, "getCondition", None) or getattr(error, "getErrorClass", None)):
        state = sql_state(error)
        if state:
            return state[:2] in _DATA_STATES
        return thrown_class(error) in DATA_EXCEPTIONS or "PatternSyntaxException" in str(error)
    return not isinstance(error, (OSError, ImportError, MemoryError))


class EmptyStateError(MetricError):
    """No data to compute the metric from."""


class MetricRuntimeError(MetricError):
    """The computation of the metric failed at run time, because of the data."""


class MetricEnvironmentError(MetricRuntimeError):
    """The computation of the metric failed at run time, for a reason outside the data."""

    is_retriable = True


class StandingError(MetricRuntimeError):
    """The failure of an earlier run in a partition that a later run did not measure again.

    Attributes
    ----------
    text : str
        The stored error.
    partition : str
        The partition in which the analyzer failed; empty for a table without partitions.
    is_retriable : bool
        Whether the next run measures the analyzer again.
    """

    def __init__(self, text: str, partition: str, *, is_retriable: bool) -> None:
        self.text, self.partition, self.is_retriable = text, partition, is_retriable
        super().__init__(text, partition)

    def __str__(self) -> str:
        where = f"in {self.partition}, " if self.partition else ""
        if self.is_retriable:
            return f"{self.text} ({where}measured again by the next run)"
        return f"{self.text} ({where}by its data: measured again when its files change)"


class PreconditionError(MetricError):
    """The schema or the options do not fit the analyzer, so nothing was computed.

    The check is repeated in each run: it reads no rows, and a table, function or setting may have changed.
    """

    is_retriable = True


class NoSuchColumnError(PreconditionError):
    """The analyzer names a column that the data does not have.

    Attributes
    ----------
    column : str
        The requested column.
    available : tuple of str
        The existing columns.
    """

    def __init__(self, column: str, available: Iterable[str] = ()) -> None:
        self.column, self.available = column, tuple(available)
        super().__init__(column, self.available)

    def __str__(self) -> str:
        if self.column in self.available:  # an unquoted name with dots parses as a path
            return f"no column {self.column!r}: write a name with dots as '`{self.column}`'"
        return f"no column {self.column!r}; {_suggestion(self.column, self.available)}"


class WrongColumnTypeError(PreconditionError):
    """The column's type is not supported by the analyzer."""

    def __init__(self, column: str, actual: str, required: str) -> None:
        self.column, self.actual, self.required = column, actual, required
        super().__init__(column, actual, required)

    def __str__(self) -> str:
        return f"column {self.column!r} is of type {self.actual}, but must be {self.required}"


class NoColumnsSpecifiedError(PreconditionError):
    """The analyzer needs at least one column and got none."""


class NumberOfSpecifiedColumnsError(PreconditionError):
    """The analyzer got the wrong number of columns."""


class IllegalAnalyzerParameterError(PreconditionError, ValueError):
    """An option of an analyzer has an invalid value."""


class UnresolvedExpressionError(PreconditionError):
    """A predicate or ``where`` does not parse, or references an unknown column, table or function."""


class UnresolvedQueryError(UnresolvedExpressionError):
    """A query does not parse, or references an unknown column, table or function.

    Attributes
    ----------
    reason : str
        Spark's error, without the position.
    position : tuple of int or None
        The line in the query, from 1, and the position in the line, from 0; None if Spark reports none.
    """

    def __init__(self, reason: str, position: tuple[int, int] | None = None) -> None:
        self.reason, self.position = reason, position
        super().__init__(reason, position)

    def __str__(self) -> str:
        if self.position is None:
            return self.reason
        line, column = self.position
        return f"{self.reason} (line {line}, pos {column})"


class PrivateColumnError(PreconditionError):
    """The analyzer's state would hold values of a private column.

    Attributes
    ----------
    column : str
        The private column.
    """

    def __init__(self, column: str) -> None:
        self.column = column
        super().__init__(column)

    def __str__(self) -> str:
        return (
            f"column {self.column!r} is private, and the state would hold its values; use an analyzer"
            " that counts, such as Completeness, ApproxCountDistinct or ApproxUniqueness"
        )


class StateError(TidegaugeError):
    """An unusable state."""


class StateMismatchError(StateError, TypeError):
    """Two states of different kinds or with different parameters, which cannot be added."""


class UnknownStateTagError(StateError):
    """A stored state whose tag has no registered reader."""


class CorruptStateError(StateError):
    """A stored state whose bytes are damaged or do not parse."""


class SuiteError(TidegaugeError, ValueError):
    """An invalid suite or suite file."""


class UnknownNameError(SuiteError):
    """An unknown name of an analyzer, option, detector and so on; the message suggests a similar name.

    Examples
    --------
    >>> str(UnknownNameError("analyzer", "Compleetness", ["Completeness", "Size"]))
    "unknown analyzer 'Compleetness'; did you mean 'Completeness'?"
    """

    def __init__(self, kind: str, name: str, available: Iterable[str]) -> None:
        self.kind, self.name, self.available = kind, name, tuple(sorted(map(str, available)))
        super().__init__(kind, name, self.available)

    def __str__(self) -> str:
        return f"unknown {self.kind} {self.name!r}; {_suggestion(self.name, self.available)}"


class RuleError(SuiteError):
    """An invalid rule, fix or policy."""


_CONTEXT_WIDTH = 60
"""Characters shown on either side of the error in a long line."""


class DslError(SuiteError):
    """An invalid rule in the Griffin DSL.

    Attributes
    ----------
    message : str
        The problem and the fix.
    text : str
        The source of the rule.
    line, column : int
        Position of the error, counted from 1.
    end_column : int
        The column after the last offending character, on the same line.
    expected : tuple of str
        Descriptions of the tokens that are allowed at the error.
    phase : str
        ``lex``, ``syntax``, ``bind``, ``type`` or ``plan``.
    hint : str or None
        A suggestion, shown after the message.
    rule : str or None
        The rule's name, if it belongs to a job.
    others : tuple of DslError
        Errors in other rules of the job.
    """

    def __init__(
        self,
        message: str,
        text: str = "",
        line: int = 1,
        column: int = 1,
        end_column: int | None = None,
        expected: Iterable[str] = (),
        phase: str = "syntax",
        hint: str | None = None,
        rule: str | None = None,
    ) -> None:
        message = middle_cut(message)
        self.message, self.text, self.line, self.column = message, text, line, column
        self.end_column = max(end_column or 0, column + 1)
        self.expected, self.phase, self.hint, self.rule = tuple(expected), phase, hint, rule
        self.others: tuple[DslError, ...] = ()
        super().__init__(message)

    @property
    def caret(self) -> str:
        """The offending line with a caret below the error; a long line is cut around the caret."""
        lines = self.text.split("\n")
        line = lines[self.line - 1] if self.line <= len(lines) else ""
        start = min(self.column - 1, len(line))
        end = min(max(self.end_column - 1, start + 1), len(line), start + _CONTEXT_WIDTH)
        excerpt_start = max(0, start - _CONTEXT_WIDTH)
        excerpt_end = min(len(line), max(start, end) + _CONTEXT_WIDTH)
        lead = "..." if excerpt_start else ""
        excerpt = (
            lead + line[excerpt_start:excerpt_end] + ("..." if excerpt_end < len(line) else "")
        )
        blank = re.sub(r"[^\t]", " ", lead + line[excerpt_start:start])
        return f"{excerpt}\n{blank}{'^' * max(1, end - start)}"

    def __str__(self) -> str:
        rule_prefix = f"rule {self.rule!r}, " if self.rule else ""
        message = f"{rule_prefix}line {self.line}, column {self.column}: {self.message}"
        if self.expected:
            message += f"; expected {', '.join(self.expected)}"
        if self.hint:
            message += f" ({self.hint})"
        message_with_caret = f"{message}\n{self.caret}" if self.text else message
        return "\n".join([message_with_caret, *map(str, self.others)])


class GriffinConfigError(SuiteError):
    """An invalid ``env.json`` or ``dq.json``."""


class GriffinError(TidegaugeError):
    """A Griffin job in which rules, sources or sinks failed; all others were measured and reported.

    Attributes
    ----------
    failures : mapping of str to exception
        The exception of each failed rule, source or sink, by name.
    result : GriffinResult or None
        The results of all other rules, sources and sinks.
    """

    def __init__(self, failures: Mapping[str, BaseException], result: Any = None) -> None:
        self.failures, self.result = dict(failures), result
        super().__init__(self.failures)

    def __str__(self) -> str:
        lines = [f"{name}: {message_of(error)}" for name, error in self.failures.items()]
        return f"{len(lines)} failed\n" + "\n".join(lines)


class DQMError(TidegaugeError):
    """Data rejected by its policies.

    Attributes
    ----------
    result : CheckResult
        The verdict of the policies.
    """

    def __init__(self, result: Any) -> None:
        super().__init__(result)
        self.result = result

    def __str__(self) -> str:
        return str(self.result)


class SinkError(TidegaugeError):
    """A target for results cannot be written."""


class SourceError(TidegaugeError):
    """A table, path or DataFrame cannot be read."""


class FileSystemError(SourceError, OSError):
    """No file system can reach the location."""


class NoSuchTableError(SourceError, LookupError):
    """The table or path does not exist.

    Attributes
    ----------
    problem : str
        The missing table or path.
    hint : str
        The end of the message, which suggests another name; empty if there is none.
    """

    def __init__(self, problem: str, hint: str = "") -> None:
        self.problem, self.hint = problem, hint
        super().__init__(problem + hint)


class PartitionColumnError(SourceError, ValueError):
    """The data is not partitioned by the columns that were specified."""


class PartitionSelectionError(SourceError, ValueError):
    """A partition selection does not parse, or names unknown keys or partitions."""


class ConflictingFilesError(SourceError):
    """Data files that cannot be read together: no type can hold all values of a nested column.

    Attributes
    ----------
    column : str
        The nested column.
    types : tuple of str
        Two of the column's types.
    """

    def __init__(self, column: str, *types: str) -> None:
        self.column, self.types = column, types
        super().__init__(column, *types)

    def __str__(self) -> str:
        first_type, second_type = self.types
        return (
            f"column {self.column!r} is of type {first_type} in some files and {second_type} in others, and no type"
            " holds both; rewrite the files with one type"
        )


class TableFormatError(SourceError):
    """A folder belongs to a table format such as Delta, and cannot be read as plain files."""


class RepositoryError(TidegaugeError):
    """A repository operation failed."""


class NotOurDatabaseError(RepositoryError):
    """The database is not a tidegauge repository."""


class DatabaseVersionError(RepositoryError):
    """The database's schema revision is older or newer than this tidegauge."""


class DatabaseAccessError(RepositoryError, OSError):
    """The database cannot be opened or written."""


class ReadOnlyError(DatabaseAccessError):
    """A write to a repository that was opened read-only, or whose role, user or server is read-only."""


class LeaseError(RepositoryError):
    """Another run holds the dataset's lease, or has taken it over."""


class UnknownDatasetError(RepositoryError, LookupError):
    """The repository has no dataset of this name."""

    def __init__(self, name: str, available: Iterable[str], note: str = "") -> None:
        self.name, self.available, self.note = name, tuple(available), note
        super().__init__(name, self.available, note)

    def __str__(self) -> str:
        hint = self.note or _suggestion(self.name, self.available)
        return f"no dataset {self.name!r} in this repository; {hint}"


class DatasetMismatchError(RepositoryError, ValueError):
    """The dataset's history belongs to another table than the one to be measured."""


class RetiredDatasetError(RepositoryError):
    """The dataset is retired, so no run measures it."""


class HistoryError(RepositoryError, ValueError):
    """A query that the history cannot answer."""


class MixedTypesError(HistoryError):
    """States that cannot be merged, because a column had different types when they were measured."""


class DetectionError(HistoryError):
    """Datasets in which anomalies could not be detected; all other datasets have been scored.

    Attributes
    ----------
    failed : mapping of str to Exception
        The reason for each dataset.
    """

    def __init__(self, failed: Mapping[str, Exception], datasets: int) -> None:
        self.failed, self.datasets = dict(failed), datasets
        super().__init__(self.failed, datasets)

    def __str__(self) -> str:
        reasons = "; ".join(f"{name!r}: {message_of(error)}" for name, error in self.failed.items())
        return f"detection failed for {len(self.failed)} of {plural(self.datasets, 'dataset')}: {reasons}"


class ConflictError(RepositoryError):
    """A label was not stored because others have added labels that the caller had not read.

    This is optimistic concurrency control for labels on anomalies and incidents.

    Attributes
    ----------
    revision : int
        The id of the newest label. After reading the labels, retry with ``revision=revision``.
    labels : tuple of mapping
        The labels added in the meantime, in order, each with ``id``, ``anomaly_id``, ``incident_id``,
        ``label``, ``note``, ``by`` and ``created_at``.
    """

    def __init__(self, revision: int, labels: Iterable[Mapping[str, Any]]) -> None:
        self.revision, self.labels = revision, tuple(labels)
        super().__init__(revision, self.labels)

    def __str__(self) -> str:
        labels = "; ".join(map(_describe_label, self.labels))
        return (
            f"label not saved: {labels}, after you last read the incident. Read repo.incident(id) again,"
            f" then retry with revision={self.revision}"
        )


def _describe_label(label: Mapping[str, Any]) -> str:
    note = f" ({label['note']})" if label["note"] else ""
    time = f"{label['created_at']:%Y-%m-%d %H:%M:%S} UTC"
    return f"{label['by'] or 'somebody'} set {label['label']!r}{note} at {time}"


class CheckFailedError(TidegaugeError):
    """A check failed, and the caller asked for failures to be raised.

    Attributes
    ----------
    verification : Verification
        The result of each constraint.
    """

    def __init__(self, verification: Any) -> None:
        self.verification = verification
        super().__init__(verification)


class SetupError(TidegaugeError, ImportError):
    """A required dependency is not installed, or a build artifact is missing."""


class PluginWarning(UserWarning):
    """A plug-in could not be loaded and was skipped."""


class GriffinDeprecationWarning(FutureWarning):
    """A deprecated Griffin spelling that is still accepted."""


class GriffinWarning(UserWarning):
    """A part of a Griffin job was skipped, as its configuration allows."""


class VerdictWarning(UserWarning):
    """An incomplete verdict: a stored verdict cannot be read, or a rule or constraint was not evaluated."""


class RepositoryWarning(UserWarning):
    """A damaged entry in the repository was skipped."""


class LeftoverWarning(UserWarning):
    """A folder that is no longer needed could not be deleted."""


class SkippedWarning(UserWarning):
    """A run measured nothing: all partitions of a DataFrame or view are known and have no files to compare."""
