"""Validation tasks on one frame, and sets of them with a combined, stored verdict.

A `ValidationSet` lets each task judge the data once, stores the verdict, and raises a stored
failure again without reading anything.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, ClassVar

from tidegauge.analyzers.core.description import canonical_json, key_of
from tidegauge.analyzers.core.errors import RuleError
from tidegauge.analyzers.runs.verdicts import Case
from tidegauge.rules.outcome.result import CheckResult
from tidegauge.rules.outcome.verdicts import VerdictFiles, Verdicts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegauge.analyzers.core.privacy import Privacy
    from tidegauge.rules.policies import DQMPolicy


class ValidationTask(ABC):
    """Task that judges a frame: a `DQM`, or the parser of a file.

    Attributes
    ----------
    name : str
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
        """Return the task as JSON values; a change of it invalidates old verdicts."""

    @property
    def parser_policies(self) -> tuple[DQMPolicy, ...]:
        """The policies on records that could not be read, which only a parser can evaluate."""
        return ()

    def without_parser_policies(self) -> ValidationTask:
        """Return the task without its parser policies."""
        return self

    def minding(self, policies: Sequence[DQMPolicy]) -> ValidationTask:
        """Return the task with additional parser policies; only a parser takes them."""
        return self

    def hiding(self, private: Privacy) -> ValidationTask:
        """Return the task with the values of private columns hidden; only a parser shows lines of its file."""
        return self

    is_parser: ClassVar[bool] = False
    """True for parsers, which count the records that could not be read."""


def validated(task: ValidationTask, data: DataFrame, *, written: bool = False) -> CheckResult:
    """Return a task's verdict on data, which may have been read back after it was written.

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
        Name of the verdict; default: the names of the tasks, joined by ``+``.
    folder : str, optional
        Folder that stores the verdict as a file.
    verdicts : Verdicts, optional
        Store of the verdict, if not a folder.
    fingerprint : str, optional
        Fingerprint of the data, see `frame_fingerprint`. Without one, unchanged data cannot be
        recognised, so no verdict is stored and the data is judged each time.

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
                msg = f"a ValidationSet is of ValidationTasks such as a DQM, not {task!r}"
                raise RuleError(msg)
        if folder is not None and verdicts is not None:
            msg = "verdicts are kept in one place: give folder= or verdicts=, not both"
            raise RuleError(msg)
        self.tasks = _assign_parser_policies(tasks)
        self.name = "+".join(task.name for task in tasks) if name is None else name
        self.fingerprint = fingerprint
        self.verdicts = verdicts if folder is None else VerdictFiles(folder)

    @property
    def specification(self) -> str:
        """Hash of all tasks, including the source of users' functions; for one task its own hash."""
        of = [task.identity() for task in self.tasks]
        return key_of(canonical_json(of[0] if len(of) == 1 else of))

    @property
    def case(self) -> Case | None:
        """Key of the verdict; None without a fingerprint."""
        if self.fingerprint is None:
            return None
        return Case(self.name, self.specification, self.fingerprint)

    def kept(self) -> CheckResult | None:
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
        kept = self.kept()
        if kept is not None:
            return kept
        results = [validated(task, data, written=has_action_yet) for task in self.tasks]
        result = reduce(add, results, CheckResult(passed=True))
        self.keep(result)
        return result

    def validate(self, data: DataFrame, has_action_yet: bool = False) -> CheckResult:  # noqa: FBT001, FBT002
        """Return the verdict if it passed, else raise it; parameters as for `judge`.

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
    """Return the tasks, with parser policies moved to the parser, if there is one."""
    if not any(task.is_parser for task in tasks):
        return tuple(tasks)
    handed = [policy for task in tasks if not task.is_parser for policy in task.parser_policies]
    return tuple(
        task.minding(handed) if task.is_parser else task.without_parser_policies() for task in tasks
    )
