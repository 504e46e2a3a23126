"""JSON serialization of rules, fixes and policies, as a repository stores a `DQM`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.errors import RuleError
from tidegauge.rules import policies
from tidegauge.rules.expressions import Expression
from tidegauge.rules.layout import Tasks
from tidegauge.rules.policies import DQMPolicy, DQMTaskPolicy
from tidegauge.rules.tasks import Arm, DQMFix, DQMRule

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegauge.rules.state import DQMState


class KeptRule(DQMRule):
    """A rule restored from a repository: its SQL text, without the code that made it."""

    def __init__(self, kept: dict[str, Any]) -> None:
        options = kept["on_null"], kept["severity"], kept["stage"]
        self._set(Expression.from_identity(kept["expr"]), kept["rule"], *options)
        self._kept = kept

    def identity(self) -> dict[str, Any]:
        """Return the stored identity."""
        return self._kept


class KeptFix(DQMFix):
    """A fix restored from a repository: its SQL text, without the code that made it."""

    def __init__(self, kept: dict[str, Any]) -> None:
        arms = [
            Arm(label, Expression.from_identity(c), Expression.from_identity(v))
            for label, c, v in kept["arms"]
        ]
        self._set(kept["column"], kept["fix"], lambda: arms)
        self._kept = kept

    def identity(self) -> dict[str, Any]:
        """Return the stored identity."""
        return self._kept


def tasks_of(identity: str) -> Tasks:
    """Restore rules and fixes from canonical JSON, as written by `Tasks.identity`.

    Raises
    ------
    RuleError
        If the text is not such JSON.

    Examples
    --------
    >>> from tidegauge.rules.tasks import Rule
    >>> tasks = Tasks((Rule("age < 150", "age"),))
    >>> tasks_of(tasks.identity) == tasks
    True
    """
    try:
        kept = [task_of(one) for one in json.loads(identity)]
    except (ValueError, KeyError, TypeError) as error:
        msg = f"not the JSON of rules and fixes: {identity[:80]!r}"
        raise RuleError(msg) from error
    rules = tuple(task for task in kept if isinstance(task, DQMRule))
    return Tasks(rules, tuple(task for task in kept if isinstance(task, DQMFix)))


def task_of(kept: dict[str, Any]) -> DQMRule | DQMFix:
    """Restore a rule or fix from its identity."""
    return KeptRule(kept) if "rule" in kept else KeptFix(kept)


class KeptTaskPolicy(DQMTaskPolicy):
    """A user's own task policy, or one of another version; it cannot be evaluated."""

    def __init__(self, kept: Sequence[Any]) -> None:
        self._kept = list(kept)

    def refuses(self, count: int, records: int) -> str | None:
        """Raise a `RuleError`: the policy's code is not stored."""
        raise RuleError(_not_restored(self._kept))

    def identity(self) -> list[Any]:
        """Return the stored identity."""
        return self._kept


class KeptPolicy(DQMPolicy):
    """A policy of a user's function, or of another version; it cannot be evaluated."""

    def __init__(self, kept: Sequence[Any]) -> None:
        self._kept = list(kept)
        self.name = str(kept[1])
        self.needs_data = False

    def holds(self, state: DQMState, data: DataFrame | None = None) -> bool:
        """Raise a `RuleError`: the policy's code is not stored."""
        raise RuleError(_not_restored(self._kept))

    def identity(self) -> list[Any]:
        """Return the stored identity."""
        return self._kept


def task_policy_of(kept: Sequence[Any]) -> DQMTaskPolicy:
    """Restore a task policy from its identity."""
    kind, options, *hashes = kept
    found = getattr(policies, str(kind), None)
    if hashes or not (isinstance(found, type) and issubclass(found, DQMTaskPolicy)):
        return KeptTaskPolicy(kept)
    made: DQMTaskPolicy = found(*(value for _, value in options))
    return made


def policy_of(kept: Sequence[Any]) -> DQMPolicy:
    """Restore a policy from its identity."""
    found = getattr(policies, str(kept[0]), None)
    if len(kept) != 2 or not (isinstance(found, type) and issubclass(found, DQMPolicy)):
        return KeptPolicy(kept)
    made: DQMPolicy = found(kept[1])
    return made


def _not_restored(kept: Sequence[Any]) -> str:
    """Return why a policy is not restored: it is a function, or of another version."""
    if isinstance(kept[-1], str):  # the hash of a function
        name = kept[1] if isinstance(kept[1], str) else kept[0]
        return f"policy {name!r} is a function that a repository does not keep; judge with the DQM itself"
    return f"this version does not know the policy {kept[0]!r}; judge with the DQM itself"
