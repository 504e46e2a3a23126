"""Every error that tidegauge raises or stores.

::

    TidegaugeError
      MetricError                      a metric could not be computed; stored with the metric
        EmptyStateError                there was no data for it
        MetricRuntimeError             the computation itself failed
        PreconditionError              the table does not suit the analyzer; nothing was computed
          NoSuchColumnError
          WrongColumnTypeError
          NoColumnsSpecifiedError
          NumberOfSpecifiedColumnsError
          IllegalAnalyzerParameterError
          UnresolvedExpressionError    a predicate or a ``where`` that Spark cannot resolve
      StateError
        StateMismatchError             two states that cannot be added
        UnknownStateTagError           bytes written by something we do not know
        CorruptStateError              bytes that differ from what was stored
      SuiteError                       a suite or a suite file that cannot be
        UnknownNameError               an analyzer, option, detector ... that does not exist
        RuleError                      a rule, fix or policy that cannot be
        DslError                       a rule in the Griffin DSL that cannot be
        GriffinConfigError             an ``env.json`` or ``dq.json`` that cannot be
      GriffinError                     a Griffin job in which rules, sources or sinks failed
      DQMError                         data that its policies refuse
      SinkError                        where results should go cannot be written
      SourceError                      the table, path or frame to be measured
        NoSuchTableError
        PartitionColumnError
        PartitionSelectionError        a ``partitions=`` that selects nothing sensible
      RepositoryError
        NotOurDatabaseError
        DatabaseVersionError           older or newer than this tidegauge
        DatabaseAccessError            cannot be opened or written
        ReadOnlyError                  opened to be read, and asked to write
        LeaseError                     another run measures the dataset, or took it over
        UnknownDatasetError
        DatasetMismatchError           another table under a name that is taken
        HistoryError                   a question that the repository cannot answer
        ConflictError                  others said something since it was looked at
      CheckFailedError                 a check that failed, where that was to be an error
      SetupError                       something that is needed is not installed, or was not built

Errors keep their facts as attributes and say in one sentence what was wrong and what would be right.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any


def nearest(wanted: str, available: Iterable[str]) -> str | None:
    """Return the name most like ``wanted``, letter case aside, or None if none is near.

    Examples
    --------
    >>> nearest("dep_tme", ["arr_time", "dep_time"])
    'dep_time'
    >>> nearest("size", ["Size", "Sum"])
    'Size'
    >>> nearest("xyz", ["Size"])
    """
    by_folded = {name.casefold(): name for name in available}
    matches = get_close_matches(wanted.casefold(), by_folded, n=1, cutoff=0.5)
    return by_folded[matches[0]] if matches else None


def _suggestion(wanted: str, available: Iterable[str]) -> str:
    names = list(available)
    close = nearest(wanted, names)
    if close is not None:
        return f"did you mean {close!r}?"
    return f"there are: {', '.join(map(repr, names)) or 'none'}"


class TidegaugeError(Exception):
    """Root of all errors of this project."""


class MetricError(TidegaugeError):
    """A metric could not be computed; kept and shown in its place."""

    @classmethod
    def of(cls, error: BaseException) -> MetricError:
        """Return ``error`` itself if it is ours, else ours that describes it.

        Errors captured from Spark hold JVM handles and whole frames alive and cannot be pickled, so
        only their text and their condition are kept.
        """
        if isinstance(error, MetricError):
            return error
        return MetricRuntimeError(describe(error))

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else type(self).__name__


_THROWN = re.compile(r"most recent failure: .*?\): (java(?:\.\w+)+): (.*)")


_CALLED = re.compile(r"An error occurred while calling .*\n: ([\w.$]+): (.*)")


_RAISED = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception)\b.*$", re.MULTILINE)


def describe(error: BaseException) -> str:
    """Return one line on a foreign error: Spark's condition where there is one, and its first line.

    Examples
    --------
    >>> describe(ZeroDivisionError("division by zero"))
    'ZeroDivisionError: division by zero'
    """
    text = str(error).strip()
    thrown = _THROWN.search(text) or _CALLED.match(
        text
    )  # Java's own, in a text that begins with who called whom
    if thrown:
        return f"{thrown[1].rpartition('.')[2]}: {thrown[2]}"
    line = text.splitlines()[0] if text else ""
    condition = getattr(error, "getCondition", None)
    name = condition() if callable(condition) else None
    if name == "PYTHON_EXCEPTION" or "PythonException" in type(error).__name__:
        line = next(
            iter(_RAISED.findall(text)[-1:]), line
        )  # what was raised stands below the traceback
    if name and line.startswith(f"[{name}]"):
        return line
    return f"{name or type(error).__name__}: {line}"


class EmptyStateError(MetricError):
    """There was no data to compute the metric from."""


class MetricRuntimeError(MetricError):
    """The computation of the metric failed."""


class PreconditionError(MetricError):
    """The data does not suit the analyzer, so nothing was computed."""


class NoSuchColumnError(PreconditionError):
    """The analyzer names a column that the data does not have.

    Attributes
    ----------
    column : str
        The column asked for.
    available : tuple of str
        The columns that there are.
    """

    def __init__(self, column: str, available: Iterable[str] = ()) -> None:
        self.column, self.available = column, tuple(available)
        super().__init__(column, self.available)

    def __str__(self) -> str:
        if self.column in self.available:  # a plain name that holds dots reads as a path
            return f"no column {self.column!r}: write a name that holds dots as '`{self.column}`'"
        return f"no column {self.column!r}; {_suggestion(self.column, self.available)}"


class WrongColumnTypeError(PreconditionError):
    """The analyzer cannot work on the type of this column."""

    def __init__(self, column: str, found: str, wanted: str) -> None:
        self.column, self.found, self.wanted = column, found, wanted
        super().__init__(column, found, wanted)

    def __str__(self) -> str:
        return f"column {self.column!r} is of type {self.found}, but must be {self.wanted}"


class NoColumnsSpecifiedError(PreconditionError):
    """The analyzer needs at least one column and was given none."""


class NumberOfSpecifiedColumnsError(PreconditionError):
    """The analyzer needs another number of columns."""


class IllegalAnalyzerParameterError(PreconditionError, ValueError):
    """An option of an analyzer has a value that it cannot have."""


class UnresolvedExpressionError(PreconditionError):
    """A predicate or a ``where`` does not parse, or names what is not there."""


class StateError(TidegaugeError):
    """A state that cannot be used."""


class StateMismatchError(StateError, TypeError):
    """Two states of different kinds or parameters cannot be added."""


class UnknownStateTagError(StateError):
    """A stored state has a tag that no reader is registered for."""


class CorruptStateError(StateError):
    """A stored state does not read back as what was written."""


class SuiteError(TidegaugeError, ValueError):
    """A suite, or a file that should hold one, says something that cannot be."""


class UnknownNameError(SuiteError):
    """A name that should be one of a known set is not.

    Examples
    --------
    >>> str(UnknownNameError("analyzer", "Compleetness", ["Completeness", "Size"]))
    "unknown analyzer 'Compleetness'; did you mean 'Completeness'?"
    """

    def __init__(self, kind: str, name: str, available: Iterable[str]) -> None:
        self.kind, self.name, self.available = kind, name, tuple(sorted(available))
        super().__init__(kind, name, self.available)

    def __str__(self) -> str:
        return f"unknown {self.kind} {self.name!r}; {_suggestion(self.name, self.available)}"


class RuleError(SuiteError):
    """A rule, fix or policy that cannot be."""


_BESIDE = 60
"""Letters that are shown on either side of what is wrong in a long line."""


class DslError(SuiteError):
    """A rule in the Griffin DSL that cannot be.

    Attributes
    ----------
    message : str
        What is wrong, and what would be right.
    text : str
        The rule.
    line, column : int
        Where it is wrong, counted from 1.
    end_column : int
        The column after the last letter that is wrong, on the same line.
    expected : tuple of str
        What could stand there, in words.
    phase : str
        ``lex``, ``syntax``, ``bind``, ``type`` or ``plan``.
    hint : str or None
    rule : str or None
        The rule's name, where it is of a job.
    others : tuple of DslError
        What else is wrong, in other rules of the job.
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
        self.message, self.text, self.line, self.column = message, text, line, column
        self.end_column = max(end_column or 0, column + 1)
        self.expected, self.phase, self.hint, self.rule = tuple(expected), phase, hint, rule
        self.others: tuple[DslError, ...] = ()
        super().__init__(message)

    @property
    def caret(self) -> str:
        """The line that is wrong with a mark below it; a long line is cut around the mark."""
        lines = self.text.split("\n")
        line = lines[self.line - 1] if self.line <= len(lines) else ""
        start = min(self.column - 1, len(line))
        end = min(max(self.end_column - 1, start + 1), len(line))
        first, last = max(0, start - _BESIDE), min(len(line), max(start, end) + _BESIDE)
        end = min(end, start + _BESIDE)
        lead = "..." if first else ""
        shown = lead + line[first:last] + ("..." if last < len(line) else "")
        blank = re.sub(r"[^\t]", " ", lead + line[first:start])
        return f"{shown}\n{blank}{'^' * max(1, end - start)}"

    def __str__(self) -> str:
        of = f"rule {self.rule!r}, " if self.rule else ""
        said = f"{of}line {self.line}, column {self.column}: {self.message}"
        if self.expected:
            said += f"; expected {', '.join(self.expected)}"
        if self.hint:
            said += f" ({self.hint})"
        told = f"{said}\n{self.caret}" if self.text else said
        return "\n".join([told, *map(str, self.others)])


class GriffinConfigError(SuiteError):
    """An ``env.json`` or ``dq.json`` that cannot be."""


class GriffinError(TidegaugeError):
    """A Griffin job in which rules, sources or sinks failed; the others were measured and reported.

    Attributes
    ----------
    failures : mapping of str to exception
        What failed, by its name, and why.
    result : GriffinResult or None
        What was measured all the same.
    """

    def __init__(self, failures: Mapping[str, BaseException], result: Any = None) -> None:
        self.failures, self.result = dict(failures), result
        super().__init__(self.failures)

    def __str__(self) -> str:
        told = [
            f"{name}: {error if isinstance(error, TidegaugeError) else describe(error)}"
            for name, error in self.failures.items()
        ]
        return f"{len(told)} failed\n" + "\n".join(told)


class DQMError(TidegaugeError):
    """Data that its policies refuse.

    Attributes
    ----------
    result : CheckResult
        What was found.
    """

    def __init__(self, result: Any) -> None:
        super().__init__(result)
        self.result = result

    def __str__(self) -> str:
        return str(self.result)


class SinkError(TidegaugeError):
    """Where results should go cannot be written."""


class SourceError(TidegaugeError):
    """What should be measured cannot be read."""


class NoSuchTableError(SourceError, LookupError):
    """There is no such table or path."""


class PartitionColumnError(SourceError, ValueError):
    """The data is not partitioned by what the suite says."""


class PartitionSelectionError(SourceError, ValueError):
    """A selection of partitions that does not parse, or names partitions that are not there."""


class RepositoryError(TidegaugeError):
    """The repository cannot do what was asked."""


class NotOurDatabaseError(RepositoryError):
    """The database holds something else than a tidegauge repository."""


class DatabaseVersionError(RepositoryError):
    """The database was written by an older or newer tidegauge."""


class DatabaseAccessError(RepositoryError, OSError):
    """The database cannot be opened or written."""


class ReadOnlyError(RepositoryError):
    """The repository was opened to be read, and asked to write."""


class LeaseError(RepositoryError):
    """Another run measures the dataset, or has taken it over."""


class UnknownDatasetError(RepositoryError, LookupError):
    """The repository holds no dataset of this name."""

    def __init__(self, name: str, available: Iterable[str]) -> None:
        self.name, self.available = name, tuple(available)
        super().__init__(name, self.available)

    def __str__(self) -> str:
        return f"no dataset {self.name!r} in this repository; " + _suggestion(
            self.name, self.available
        )


class DatasetMismatchError(RepositoryError, ValueError):
    """A dataset is to be measured on another table than the one its history is of."""


class HistoryError(RepositoryError, ValueError):
    """The history cannot answer this question."""


class ConflictError(RepositoryError):
    """Others said something of an anomaly or incident that the caller had not seen, so nothing was said.

    Attributes
    ----------
    revision : int
        The id of the newest label now; who has read the labels passes it as ``seen``.
    labels : tuple of mapping
        What was said since, in order, each with ``id``, ``anomaly_id``, ``incident_id``, ``label``,
        ``note``, ``by`` and ``created_at``.
    """

    def __init__(self, revision: int, labels: Iterable[Mapping[str, Any]]) -> None:
        self.revision, self.labels = revision, tuple(labels)
        super().__init__(revision, self.labels)

    def __str__(self) -> str:
        told = "; ".join(map(_told, self.labels))
        return (
            f"others spoke since: {told}; nothing was said. Read it (repo.incident(id)), and say it"
            f" with seen={self.revision}"
        )


def _told(label: Mapping[str, Any]) -> str:
    note = f" ({label['note']})" if label["note"] else ""
    return f"{label['by'] or 'somebody'} said {label['label']!r}{note} at {label['created_at']:%Y-%m-%d %H:%M:%S} UTC"


class CheckFailedError(TidegaugeError):
    """A check failed, and it was asked that this be an error.

    Attributes
    ----------
    verification : Verification
        What came of each constraint.
    """

    def __init__(self, verification: Any) -> None:
        self.verification = verification
        super().__init__(verification)


class SetupError(TidegaugeError, ImportError):
    """Something that is needed is not installed, or was not built."""


class PluginWarning(UserWarning):
    """An extension could not be loaded and was skipped."""


class GriffinDeprecationWarning(FutureWarning):
    """A spelling of an older Griffin, which is still read."""


class GriffinWarning(UserWarning):
    """What a Griffin job was told to leave out, and left out."""


class VerdictWarning(UserWarning):
    """A kept verdict could not be read, so that the data is judged again."""


class RepositoryWarning(UserWarning):
    """Something in the repository is damaged and was skipped."""
