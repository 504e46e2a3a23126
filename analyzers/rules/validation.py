"""Validation: tasks that judge one frame, their verdicts put together, and kept.

A `ValidationSet` lets each task judge the data once, keeps the verdict beside the data, and raises a kept
failure again without reading anything.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, ClassVar

from analyzers.description import canonical_json, key_of
from analyzers.errors import RuleError
from analyzers.rules.result import CheckResult
from analyzers.rules.verdicts import Case, VerdictFiles, Verdicts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from analyzers.rules.policies import DQMPolicy


class ValidationTask(ABC):
    """Something that judges a frame: a `DQM`, or the parser of a file.

    Attributes
    ----------
    name : str
    needs_action : bool
        Whether the data must have been read for the verdict.
    """

    name: str = "dqm"

    @property
    def needs_action(self) -> bool:
        """Whether the data must have been read for the verdict."""
        return True

    @abstractmethod
    def validate(self, data: DataFrame) -> CheckResult:
        """Judge the data; a failed verdict is returned, not raised."""

    def validate_written(self, data: DataFrame) -> CheckResult:
        """Judge the data after all of it was read, given as it was written; as `validate` if not overridden."""
        return self.validate(data)

    @abstractmethod
    def identity(self) -> Any:
        """Return what the task is, as JSON takes it; a change of it makes old verdicts void."""

    @property
    def parser_policies(self) -> tuple[DQMPolicy, ...]:
        """Its policies of what a parser could not read, which only a parser knows of."""
        return ()

    def without_parser_policies(self) -> ValidationTask:
        """Return the task less these."""
        return self

    def minding(self, policies: Sequence[DQMPolicy]) -> ValidationTask:  # noqa: ARG002 - parsers do
        """Return the task with these; only a parser takes them."""
        return self

    is_parser: ClassVar[bool] = False
    """Whether the task knows what could not be read."""


class ValidationSet:
    """Tasks that judge one frame, whose verdicts are one.

    Parameters
    ----------
    tasks : sequence of ValidationTask
        A `DQM`, what `DQM.attach` gave, the parser of a file, tasks of your own. Each reads the data once at
        most.
    name : str, optional
        Under which the verdict is kept; the names of the tasks if not given.
    folder : str, optional
        Where the verdict is kept as a file.
    verdicts : Verdicts, optional
        Where it is kept, if not in a folder.
    fingerprint : str, optional
        Of the data, see `frame_fingerprint`. Without one nothing tells whether the data is what it was, so no
        verdict is kept and the data is judged each time.

    Raises
    ------
    RuleError
        If there is a task that is none, or two places to keep verdicts.

    Examples
    --------
    >>> import tidegauge as tg
    >>> ages = tg.DQM("ages").add(tg.Rule("age < 150", "age"), tg.FailAny)
    >>> tests = tg.ValidationSet([ages], folder="checks", fingerprint="files/1:9b1c")
    >>> tests.validate(frame)  # doctest: +SKIP
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
        self.tasks = _handed_over(tasks)
        self.name = "+".join(task.name for task in tasks) if name is None else name
        self.fingerprint = fingerprint
        self.verdicts = verdicts if folder is None else VerdictFiles(folder)

    @property
    def specification(self) -> str:
        """The hash of what all tasks are, the source of users' functions among it; of one task its own."""
        of = [task.identity() for task in self.tasks]
        return key_of(canonical_json(of[0] if len(of) == 1 else of))

    @property
    def case(self) -> Case | None:
        """What the verdict is kept by; None without a fingerprint."""
        if self.fingerprint is None:
            return None
        return Case(self.name, self.specification, self.fingerprint)

    def kept(self) -> CheckResult | None:
        """Return the verdict that was kept of this data and these tasks, or None; nothing is read."""
        case = self.case
        return None if case is None or self.verdicts is None else self.verdicts.find(case)

    def keep(self, result: CheckResult) -> None:
        """Keep a verdict, if there is a place for it and a fingerprint."""
        case = self.case
        if case is not None and self.verdicts is not None:
            self.verdicts.keep(case, result)

    def judge(self, data: DataFrame, has_action_yet: bool = False) -> CheckResult:  # noqa: FBT001, FBT002 - as seeds have it
        """Return the verdict; one that failed is returned, too.

        Parameters
        ----------
        data : DataFrame
            Before rules and fixes.
        has_action_yet : bool
            Whether all of the data was read since rules were attached. The data is then what is left of it,
            read back from where it was written: what was observed meanwhile is used if as many records were
            left as there are, which one count tells.
        """
        kept = self.kept()
        if kept is not None:
            return kept
        found = [
            task.validate_written(data) if has_action_yet else task.validate(data)
            for task in self.tasks
        ]
        result = reduce(add, found, CheckResult(passed=True))
        self.keep(result)
        return result

    def validate(self, data: DataFrame, has_action_yet: bool = False) -> CheckResult:  # noqa: FBT001, FBT002
        """Return the verdict if it is passed; parameters as for `judge`.

        Raises
        ------
        DQMError
            If it failed, now or when it was kept; the error has the verdict as ``result``.
        """
        return self.judge(data, has_action_yet).terminate_at_error()

    def __repr__(self) -> str:
        """Return the tasks."""
        return f"ValidationSet({', '.join(task.name for task in self.tasks)})"


def _handed_over(tasks: Sequence[ValidationTask]) -> tuple[ValidationTask, ...]:
    """Return the tasks, with policies of what could not be read given to the parser, if there is one."""
    if not any(task.is_parser for task in tasks):
        return tuple(tasks)
    handed = [policy for task in tasks if not task.is_parser for policy in task.parser_policies]
    return tuple(
        task.minding(handed) if task.is_parser else task.without_parser_policies() for task in tasks
    )
