"""Verdicts on data: `CheckResult`, stores of verdicts, and the tasks that judge a frame.

A `CheckResult` has outcomes, messages and a log. Stores are keyed by rules and data fingerprint, so unchanged
data is not judged again. A `ValidationSet` lets each task judge the data once, stores the combined verdict,
and raises a stored failure again without reading the data.
"""

from __future__ import annotations

import json
import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from tidegauge.analyzers.core.errors import DQMError, RuleError, SourceError, VerdictWarning
from tidegauge.analyzers.core.evidence import NO_DATA, OnEmpty, as_verdict, with_status
from tidegauge.analyzers.core.filesystems import child, file_system, read_file, write_file
from tidegauge.analyzers.core.formatting import Markup, plural
from tidegauge.analyzers.core.registry import canonical_json, key_of
from tidegauge.analyzers.runs.ledger import Case, VerdictStore
from tidegauge.display.html import Rows, card, heading, marked, sentence, table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegauge.analyzers.core.privacy import Privacy
    from tidegauge.rules.policies import DQMPolicy


_RESULT_VERSION = 1
_SAMPLE_INDENT = "  "
WARNINGS_KEY, _NO_DATA_KEY = "warnings", "noData"
"""JSON keys of the warnings and of the outcomes without data, which are omitted if empty."""
RECORDS_OUTCOME = "records"
"""Name of the outcome of data without records, which no policy judged."""


@dataclass(frozen=True)
class CheckResult:
    """Verdict of policies on data.

    Attributes
    ----------
    passed : bool
        True if all policies hold, also without policies.
    error_messages : tuple of (str, str)
        Name and message of each policy that does not hold.
    check_log : tuple of str
        Log lines on all tasks, including those without a policy.
    outcomes : tuple of (str, bool)
        Name of each policy, with True if it holds.
    warnings : tuple of (str, str)
        Name and message of each warning; warnings do not fail the verdict.
    no_data : tuple of (str, str)
        Name and reason of each policy or constraint without data. Depending on the action for empty
        data, it is also among the errors, among the warnings, or in neither.

    Examples
    --------
    >>> good = CheckResult(True, outcomes=(("age", True),))
    >>> bad = CheckResult(False, (("fare", "3 records, none allowed"),), outcomes=(("fare", False),))
    >>> (good + bad).passed, (good + bad).outcomes
    (False, (('age', True), ('fare', False)))
    >>> CheckResult.from_json(bad.to_json()) == bad
    True
    >>> print(CheckResult(True, warnings=(("email", "2 of 9 records break it"),)))
    passed: 0 policies hold; warning: email: 2 of 9 records break it
    """

    passed: bool
    error_messages: tuple[tuple[str, str], ...] = ()
    check_log: tuple[str, ...] = ()
    outcomes: tuple[tuple[str, bool], ...] = ()
    warnings: tuple[tuple[str, str], ...] = ()
    no_data: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        pairs = object.__setattr__
        for attribute in ("error_messages", "warnings", "no_data"):
            pairs(self, attribute, tuple((str(a), str(b)) for a, b in getattr(self, attribute)))
        pairs(self, "check_log", tuple(map(str, self.check_log)))
        pairs(self, "passed", as_verdict(self.passed, "CheckResult"))
        outcomes = ((str(name), holds) for name, holds in self.outcomes)
        pairs(self, "outcomes", tuple((a, as_verdict(b, f"outcome {a!r}")) for a, b in outcomes))

    def __add__(self, other: CheckResult) -> CheckResult:
        """Combine two verdicts, which passes if both pass."""
        if not isinstance(other, CheckResult):
            return NotImplemented
        return CheckResult(
            self.passed and other.passed,
            self.error_messages + other.error_messages,
            self.check_log + other.check_log,
            self.outcomes + other.outcomes,
            self.warnings + other.warnings,
            self.no_data + other.no_data,
        )

    @classmethod
    def without_partitions(cls, on_empty: OnEmpty) -> CheckResult:
        """Return the verdict on a table that has no partition.

        Examples
        --------
        >>> print(CheckResult.without_partitions(OnEmpty.FAIL))
        no data: records: the table has no partition
        """
        verdict = cls(passed=True, no_data=((RECORDS_OUTCOME, "the table has no partition"),))
        return verdict.resolve_no_data(on_empty)

    @property
    def status(self) -> str:
        """``failed``; ``no data`` if only missing data fails or nothing was judged; or ``passed``.

        Examples
        --------
        >>> empty = CheckResult(True, outcomes=(("fare", True),), no_data=(("records", "there is no record"),))
        >>> empty.status, empty.passed, empty.resolve_no_data(OnEmpty.FAIL).passed
        ('no data', True, False)
        """
        unjudged = dict(self.no_data)
        errors = {name for name, _ in self.error_messages}
        if not self.passed and not (errors and errors <= unjudged.keys()):
            return "failed"
        return NO_DATA if errors or RECORDS_OUTCOME in unjudged else "passed"

    def resolve_no_data(self, on_empty: OnEmpty) -> CheckResult:
        """Return the verdict with missing data as an error, as a warning, or as neither.

        Examples
        --------
        >>> empty = CheckResult(True, no_data=(("records", "there is no record"),))
        >>> print(empty.resolve_no_data(OnEmpty.FAIL))
        no data: records: there is no record
        >>> print(empty.resolve_no_data(OnEmpty.FAIL).resolve_no_data(OnEmpty.WARN))
        no data; warning: records: no data: there is no record
        """
        if not self.no_data:
            return self
        unjudged = dict(self.no_data)
        reasons = tuple((name, with_status(reason)) for name, reason in self.no_data)
        errors = tuple(pair for pair in self.error_messages if pair[0] not in unjudged)
        warnings = tuple(pair for pair in self.warnings if pair[0] not in unjudged)
        outcomes = tuple(pair for pair in self.outcomes if pair[0] not in unjudged)
        fails = on_empty is OnEmpty.FAIL
        return replace(
            self,
            passed=not errors and not fails,
            error_messages=errors + reasons if fails else errors,
            outcomes=outcomes + tuple((name, not fails) for name in unjudged),
            warnings=warnings + reasons if on_empty is OnEmpty.WARN else warnings,
        )

    @property
    def samples(self) -> list[str]:
        """The samples of rejected records and the errors in the log.

        Examples
        --------
        >>> CheckResult(False, check_log=("fare: 2 records", "  ds=2013-02-08: fare=-3")).samples
        ['ds=2013-02-08: fare=-3']
        """
        return [line.strip() for line in self.check_log if line.startswith(_SAMPLE_INDENT)]

    def with_samples_of(self, other: CheckResult) -> CheckResult:
        """Return the verdict with the samples of another verdict below equal lines of the log.

        Examples
        --------
        >>> kept = CheckResult(False, check_log=("rule fare: 1 of 9 records", "  fare=-3"))
        >>> now = CheckResult(True, check_log=("rule fare: 1 of 9 records", "rule tip: 2 of 9 records"))
        >>> now.with_samples_of(kept).check_log
        ('rule fare: 1 of 9 records', '  fare=-3', 'rule tip: 2 of 9 records')
        """
        own_samples, other_samples = _lines_below(self.check_log), _lines_below(other.check_log)
        lines: list[str] = []
        for line in self.check_log:
            lines.append(line)
            if line in own_samples and not own_samples[line]:
                lines += other_samples.get(line, ())
        return replace(self, check_log=tuple(lines))

    def terminate_at_error(self) -> CheckResult:
        """Return the verdict if it passed; otherwise raise it.

        Raises
        ------
        DQMError
            If the verdict failed; the error has the verdict as ``result``.

        Examples
        --------
        >>> CheckResult(True).terminate_at_error().passed
        True
        >>> CheckResult(False, (("FailCount(10)", "12 records"),)).terminate_at_error()
        Traceback (most recent call last):
            ...
        tidegauge.analyzers.core.errors.DQMError: failed: FailCount(10): 12 records
        """
        if not self.passed:
            raise DQMError(self)
        return self

    def to_json(self) -> str:
        """Return JSON that `from_json` reads."""
        values: dict[str, Any] = {
            "version": _RESULT_VERSION,
            "passed": self.passed,
            "errorMessages": self.error_messages,
            "checkLog": self.check_log,
            "outcomes": self.outcomes,
        }
        if self.warnings:  # SQL queries search for this key
            values[WARNINGS_KEY] = self.warnings
        if self.no_data:
            values[_NO_DATA_KEY] = self.no_data
        return json.dumps(values, ensure_ascii=False, indent=1)

    @classmethod
    def from_json(cls, text: str) -> CheckResult:
        """Parse the output of `to_json`.

        Raises
        ------
        RuleError
            If the string is not a verdict, has another version, or has values of other types.
        """
        try:
            values: dict[str, Any] = json.loads(text)
            parts = (
                values["passed"],
                values["errorMessages"],
                values["checkLog"],
                values["outcomes"],
            )
            warnings, no_data = values.get(WARNINGS_KEY, []), values.get(_NO_DATA_KEY, [])
            if values["version"] != _RESULT_VERSION or not _is_verdict(*parts, warnings, no_data):
                raise ValueError(values["version"])  # noqa: TRY301 - one message for all unreadable input
            return cls(*parts, warnings, no_data)
        except (ValueError, KeyError, TypeError) as error:
            msg = f"not the JSON of a CheckResult: {text[:80]!r}"
            raise RuleError(msg) from error

    @classmethod
    def accepted(cls, note: str | None, by: str | None, failures: Sequence[str]) -> CheckResult:
        """Return a passing verdict for accepted failures, which are stored in its log.

        Examples
        --------
        >>> CheckResult.accepted("a test load", "ann", ["fare: 3 records"]).check_log
        ('accepted by ann: a test load', 'fare: 3 records')
        """
        accepted_by = f"{_ACCEPTED_PREFIX} by {by}" if by else _ACCEPTED_PREFIX
        return cls(
            passed=True, check_log=(f"{accepted_by}: {note}" if note else accepted_by, *failures)
        )

    @property
    def is_accepted(self) -> bool:
        """True if the failures were accepted by `accept_failures`."""
        first_line = self.check_log[0] if self.check_log and not self.outcomes else ""
        return self.passed and (
            first_line == _ACCEPTED_PREFIX
            or first_line.startswith((f"{_ACCEPTED_PREFIX} by ", f"{_ACCEPTED_PREFIX}: "))
        )

    def __str__(self) -> str:
        """Return the verdict in one line."""
        warning_suffix = "".join(f"; warning: {name}: {message}" for name, message in self.warnings)
        unjudged = self.status == NO_DATA
        if self.passed:
            reasons = "; ".join(reason for _, reason in self.no_data)
            empty = NO_DATA if warning_suffix else with_status(reasons)
            count = len(self.outcomes)
            passed_text = f"passed: {plural(count, 'policy', 'policies')} hold{'s' * (count == 1)}"
            return f"{empty if unjudged else passed_text}{warning_suffix}"
        prefix = with_status("") if unjudged else ""  # the status is printed once, at the beginning
        failed = "; ".join(
            f"{n}: {message.removeprefix(prefix)}" for n, message in self.error_messages
        )
        return f"{self.status}: {failed}{warning_suffix}"

    def _repr_html_(self) -> str:
        return card(self._pieces)

    def _pieces(self, max_rows: int, width: int) -> Iterator[Markup]:
        status = "complete" if self.status == "passed" else self.status
        yield heading("Check", Markup(marked(status)))
        messages = dict(self.error_messages)
        rows = [
            (
                name,
                "holds" if good else "fails",
                sentence(messages[name], 4 * width) if name in messages else "",
            )
            for name, good in self.outcomes
        ]
        rows += [(name, "warns", sentence(text, 4 * width)) for name, text in self.warnings]
        if rows:
            yield table(["policy", "", "why"], Rows.first_of(rows, max_rows), width)
        if self.check_log:
            yield table(
                ["log"], Rows.first_of([(line,) for line in self.check_log], max_rows), 2 * width
            )


_ACCEPTED_PREFIX = "accepted"
"""First word in the log of a verdict for accepted failures."""


def failure_messages(result: str, *, foreign: bool = True) -> list[str]:
    """Return the messages of a stored verdict; a verdict of another tool as it is, or nothing if not ``foreign``.

    Examples
    --------
    >>> failure_messages(CheckResult(False, (("fare", "3 records, none allowed"),)).to_json())
    ['fare: 3 records, none allowed']
    """
    try:
        verdict = CheckResult.from_json(result)
    except RuleError:
        return [result] if foreign else []
    return [failure_sentence(name, message) for name, message in verdict.error_messages]


_NAMES_SUBJECT = re.compile(
    r", (?:at least|at most|more than|less than|exactly) .* (?:required|needed)\b|, which does not satisfy "
    r"|\Ahas_schema: |\A[^:]+: no row has '"
)
"""Messages of constraints, which name the metric. Messages of rules and of older releases have only a number."""


def failure_sentence(name: str, message: str) -> str:
    """Return a failure for users, with the name of the rule or constraint only if the message needs it.

    Examples
    --------
    >>> failure_sentence("fare", "3 records, none allowed")
    'fare: 3 records, none allowed'
    >>> failure_sentence("Completeness('email'): at least 0.9", "email is 69.1% complete, at least 90% required")
    'email is 69.1% complete, at least 90% required'
    """
    return message if _NAMES_SUBJECT.search(message) else f"{name}: {message}"


def failure_samples(result: str) -> list[str]:
    """Return the samples of a stored verdict; an empty list for a verdict of another tool.

    Examples
    --------
    >>> log = ("fare: 2 records", "  ds=2013-02-08: fare=-3")
    >>> failure_samples(CheckResult(False, check_log=log).to_json())
    ['ds=2013-02-08: fare=-3']
    """
    try:
        return CheckResult.from_json(result).samples
    except RuleError:
        return []


def _lines_below(log: Sequence[str]) -> dict[str, list[str]]:
    """Return the indented lines below each other line."""
    lines_by_heading: dict[str, list[str]] = {}
    below: list[str] = []
    for line in log:
        if line.startswith(_SAMPLE_INDENT):
            below.append(line)
        else:
            below = lines_by_heading.setdefault(line, [])
    return lines_by_heading


def _is_verdict(
    passed: Any, messages: Any, log: Any, outcomes: Any, warnings: Any, no_data: Any
) -> bool:
    """Return whether values are of the types of a verdict."""
    return (
        isinstance(passed, bool)
        and _are_pairs(messages, str)
        and isinstance(log, list)
        and all(isinstance(line, str) for line in log)
        and _are_pairs(outcomes, bool)
        and _are_pairs(warnings, str)
        and _are_pairs(no_data, str)
    )


def _are_pairs(values: Any, second: type) -> bool:
    return isinstance(values, list) and all(
        isinstance(pair, list)
        and len(pair) == 2
        and isinstance(pair[0], str)
        and isinstance(pair[1], second)
        for pair in values
    )


_FILE_VERSION = 1
_HASH_LENGTH = 32
"""Characters of the hash in a file name."""
_MAX_NAME_LENGTH = 80
"""Limit that keeps file names below the 255 bytes of common file systems."""


class Verdicts(Protocol):
    """Store for verdicts."""

    def find(self, case: Case) -> CheckResult | None:
        """Return the verdict of a case, or None."""

    def keep(self, case: Case, result: CheckResult) -> None:
        """Store a passed or failed verdict, which replaces an older verdict of the case."""


@dataclass(frozen=True)
class VerdictFiles:
    """Store verdicts as files ``<name>.<hash>.check``, each the JSON of a `CheckResult`.

    A file is written under a temporary name and then moved, so it is never seen in part. A verdict
    that cannot be read causes a `VerdictWarning` and is ignored.

    Parameters
    ----------
    folder : str
        A path, or a URI of any file system that Arrow reads; created if missing.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> case = Case("flights", "5e1f", "a93c")
    >>> with TemporaryDirectory() as folder:
    ...     verdicts = VerdictFiles(folder)
    ...     verdicts.keep(case, CheckResult(True))
    ...     print(verdicts.find(case), "and", verdicts.find(Case("flights", "5e1f", "b770")))
    passed: 0 policies hold and None
    """

    folder: str

    def __post_init__(self) -> None:
        """Raise a `FileSystemError` if the folder's file system is not supported."""
        file_system(self.folder)

    def path_of(self, case: Case) -> str:
        """Return the path of a case's verdict, with ``_`` for characters unsafe in file names."""
        name = ".".join(text for text in (case.name, case.partition) if text)
        safe = re.sub(r"[^\w=+-]+", "_", name, flags=re.ASCII)[:_MAX_NAME_LENGTH]
        return child(self.folder, f"{safe}.{_hash_of(case)}.check")

    def find(self, case: Case) -> CheckResult | None:
        """Return the verdict of a case, or None.

        Raises
        ------
        SourceError
            If the file system cannot be read.
        """
        path = self.path_of(case)
        try:
            text = read_file(path).decode()
        except FileNotFoundError:
            return None
        except UnicodeDecodeError as error:
            _warn_unreadable(path, error)
            return None
        except (OSError, ValueError) as error:  # the base classes of Arrow's errors
            msg = f"cannot read the verdict {path!r}: {error}"
            raise SourceError(msg) from error
        return read_verdict(text, path)

    def keep(self, case: Case, result: CheckResult) -> None:
        """Store a verdict.

        Raises
        ------
        SourceError
            If the folder cannot be written.
        """
        path = self.path_of(case)
        try:
            write_file(path, result.to_json().encode())
        except (OSError, ValueError) as error:
            msg = f"cannot write the verdict {path!r}: {error}"
            raise SourceError(msg) from error


@dataclass(frozen=True)
class RepositoryVerdicts:
    """Store verdicts in a repository under a dataset.

    A verdict that cannot be read causes a `VerdictWarning` and is ignored.

    Parameters
    ----------
    repository : Repository
        The repository.
    dataset : str
        Name of the dataset.

    Examples
    --------
    >>> import tidegauge as tg
    >>> with tg.Repository("sqlite://") as repo:
    ...     verdicts = tg.RepositoryVerdicts(repo, "flights")
    ...     tests = tg.ValidationSet([tg.DQM()], verdicts=verdicts, fingerprint="a93c")
    ...     tests.keep(tg.CheckResult(True))
    ...     print(tests.stored_result())
    passed: 0 policies hold
    """

    repository: VerdictStore
    dataset: str

    def find(self, case: Case) -> CheckResult | None:
        """Return the verdict of a case, or None."""
        text = self.repository.verdict(self.dataset, **case.keywords())
        return None if text is None else read_verdict(text, f"{case.name} of {self.dataset}")

    def keep(self, case: Case, result: CheckResult, run: int | None = None) -> None:
        """Store a verdict, optionally with the run that judged the data."""
        self.repository.keep_verdict(
            self.dataset,
            passed=result.passed,
            result=result.to_json(),
            run=run,
            **case.keywords(),
        )


def _hash_of(case: Case) -> str:
    """Return the hash of everything that a verdict depends on, for the name of its file."""
    key_parts = [_FILE_VERSION, case.name, case.specification, case.fingerprint, case.partition]
    return key_of(canonical_json(key_parts))[:_HASH_LENGTH]


def read_verdict(text: str, subject: str) -> CheckResult | None:
    """Parse a stored verdict; warn and return None if it cannot be read.

    Parameters
    ----------
    text : str
        JSON written by `CheckResult.to_json`.
    subject : str
        Subject or location of the verdict, for the warning.
    """
    try:
        return CheckResult.from_json(text)
    except RuleError as error:
        _warn_unreadable(subject, error)
        return None


def _warn_unreadable(subject: str, error: Exception) -> None:
    msg = f"the verdict {subject!r} cannot be read, so the data is judged again: {error}"
    warnings.warn(msg, VerdictWarning, stacklevel=4)


class ValidationTask(ABC):
    """Task that judges a frame: a `DQM`, or the parser of a file.

    Attributes
    ----------
    name : str
        Name of the task.
    needs_action : bool
        True if the verdict requires the data to be read.

    Examples
    --------
    >>> import tidegauge as tg
    >>> ages = tg.DQM("ages").add(tg.BoundRule("age", 1, 150), tg.FailAny)
    >>> isinstance(ages, ValidationTask), ages.name, ages.needs_action
    (True, 'ages', True)
    """

    name: str = "dqm"

    @property
    def needs_action(self) -> bool:
        """Return whether the verdict requires the data to be read."""
        return True

    @abstractmethod
    def validate(self, data: DataFrame) -> CheckResult:
        """Judge the data; a failed verdict is returned, not raised."""

    def validate_written(self, data: DataFrame) -> CheckResult:
        """Judge data that was read back after it was written; `validate` unless overridden."""
        return self.validate(data)

    @abstractmethod
    def identity(self) -> Any:
        """Return the task as JSON values; a change of these invalidates older verdicts."""

    @property
    def parser_policies(self) -> tuple[DQMPolicy, ...]:
        """The policies on records that could not be read, which only a parser can evaluate."""
        return ()

    def without_parser_policies(self) -> ValidationTask:
        """Return the task without its parser policies."""
        return self

    def minding(self, policies: Sequence[DQMPolicy]) -> ValidationTask:
        """Return the task with additional parser policies, which only parsers use."""
        return self

    def hiding(self, private: Privacy) -> ValidationTask:
        """Return the task with the values of private columns hidden; only parsers show lines of the data."""
        return self

    is_parser: ClassVar[bool] = False
    """True for parsers, which count the records that could not be read."""


def validated(task: ValidationTask, data: DataFrame, *, written: bool = False) -> CheckResult:
    """Return a task's verdict on data, which can be data that was read back after it was written.

    Raises
    ------
    RuleError
        If a user's task returns anything but a `CheckResult`.
    """
    result: object = task.validate_written(data) if written else task.validate(data)
    if not isinstance(result, CheckResult):
        method = "validate_written" if written else "validate"
        msg = (
            f"{type(task).__name__} {task.name!r}: {method}() must return a CheckResult, such as"
            f" tg.CheckResult(passed=True), not {result!r}"
        )
        raise RuleError(msg)
    return result


class ValidationSet:
    """Validation tasks on one frame, with one combined verdict.

    Parameters
    ----------
    tasks : sequence of ValidationTask
        `DQM` objects, results of `DQM.attach`, the parser of a file, your own tasks. Each reads the
        data at most once.
    name : str, optional
        Name of the verdict (default: the names of the tasks, joined by ``+``).
    folder : str, optional
        Folder that stores the verdict as a file.
    verdicts : Verdicts, optional
        Store of the verdict, if not a folder.
    fingerprint : str, optional
        Fingerprint of the data, see `frame_fingerprint`. Without one, unchanged data cannot be
        recognized, so no verdict is stored and the data is judged each time.

    Raises
    ------
    RuleError
        If a task is not a `ValidationTask`, or both ``folder`` and ``verdicts`` are given.

    Examples
    --------
    >>> import tidegauge as tg
    >>> ages = tg.DQM("ages").add(tg.Rule("age < 150", "age"), tg.FailAny)
    >>> tests = tg.ValidationSet([ages], folder="checks", fingerprint="files/1:9b1c")
    >>> tests
    ValidationSet(ages)
    >>> riders = tg.spark_session().sql("SELECT explode(array(34, 21)) AS age")  # doctest: +SKIP
    >>> tg.ValidationSet([ages]).validate(riders).passed  # doctest: +SKIP
    True
    """

    def __init__(
        self,
        tasks: Sequence[ValidationTask],
        *,
        name: str | None = None,
        folder: str | None = None,
        verdicts: Verdicts | None = None,
        fingerprint: str | None = None,
    ) -> None:
        for task in tasks:
            if not isinstance(task, ValidationTask):
                msg = f"a ValidationSet takes ValidationTasks such as a DQM, not {task!r}"
                raise RuleError(msg)
        if folder is not None and verdicts is not None:
            msg = "give folder= or verdicts=, not both"
            raise RuleError(msg)
        self.tasks = _assign_parser_policies(tasks)
        self.name = "+".join(task.name for task in tasks) if name is None else name
        self.fingerprint = fingerprint
        self.verdicts = verdicts if folder is None else VerdictFiles(folder)

    @property
    def specification(self) -> str:
        """Hash of all tasks, including the source of users' functions; for one task, the hash of this task."""
        identities = [task.identity() for task in self.tasks]
        return key_of(canonical_json(identities[0] if len(identities) == 1 else identities))

    @property
    def case(self) -> Case | None:
        """Key of the verdict; None without a fingerprint."""
        if self.fingerprint is None:
            return None
        return Case(self.name, self.specification, self.fingerprint)

    def stored_result(self) -> CheckResult | None:
        """Return the stored verdict on this data and these tasks, or None; no data is read."""
        case = self.case
        return None if case is None or self.verdicts is None else self.verdicts.find(case)

    def keep(self, result: CheckResult) -> None:
        """Store a verdict, if there is a store and a fingerprint."""
        case = self.case
        if case is not None and self.verdicts is not None:
            self.verdicts.keep(case, result)

    def judge(self, data: DataFrame, has_action_yet: bool = False) -> CheckResult:  # noqa: FBT001, FBT002 - public signature
        """Return the verdict, passed or failed.

        Parameters
        ----------
        data : DataFrame
            The frame before rules and fixes; see ``has_action_yet``.
        has_action_yet : bool
            Whether all of the data was read after rules were attached. ``data`` is then the kept
            records, read back from where they were written: the counts observed meanwhile are used
            if the number of kept records matches, which takes one count.
        """
        stored = self.stored_result()
        if stored is not None:
            return stored
        results = [validated(task, data, written=has_action_yet) for task in self.tasks]
        result = reduce(add, results, CheckResult(passed=True))
        self.keep(result)
        return result

    def validate(self, data: DataFrame, has_action_yet: bool = False) -> CheckResult:  # noqa: FBT001, FBT002
        """Return the verdict if it passed; otherwise raise it. Parameters are those described for `judge`.

        Raises
        ------
        DQMError
            If the data failed, now or when the stored verdict was made; the error has the verdict
            as ``result``.
        """
        return self.judge(data, has_action_yet).terminate_at_error()

    def __repr__(self) -> str:
        """Return the names of the tasks."""
        return f"ValidationSet({', '.join(task.name for task in self.tasks)})"


def _assign_parser_policies(tasks: Sequence[ValidationTask]) -> tuple[ValidationTask, ...]:
    """Return the tasks, with parser policies moved to the parser, if any."""
    if not any(task.is_parser for task in tasks):
        return tuple(tasks)
    parser_policies = [
        policy for task in tasks if not task.is_parser for policy in task.parser_policies
    ]
    return tuple(
        task.minding(parser_policies) if task.is_parser else task.without_parser_policies()
        for task in tasks
    )
