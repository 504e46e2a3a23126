"""Rules, fixes and policies as JSON, and back: what a repository keeps of a `DQM`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from analyzers.errors import RuleError
from analyzers.rules import policies
from analyzers.rules.expressions import Expression
from analyzers.rules.layout import Tasks
from analyzers.rules.policies import DQMPolicy, DQMTaskPolicy
from analyzers.rules.tasks import Arm, DQMFix, DQMRule

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from analyzers.rules.state import DQMState


class KeptRule(DQMRule):
    """A rule as a repository knows it: its text, without the code that made it."""

    def __init__(self, kept: dict[str, Any]) -> None:
        options = kept["on_null"], kept["severity"], kept["stage"]
        self._set(Expression.kept(kept["expr"]), kept["rule"], *options)
        self._kept = kept

    def identity(self) -> dict[str, Any]:
        """Return what was kept."""
        return self._kept


class KeptFix(DQMFix):
    """A fix as a repository knows it."""

    def __init__(self, kept: dict[str, Any]) -> None:
        arms = [Arm(label, Expression.kept(c), Expression.kept(v)) for label, c, v in kept["arms"]]
        self._set(kept["column"], kept["fix"], lambda: arms)
        self._kept = kept

    def identity(self) -> dict[str, Any]:
        """Return what was kept."""
        return self._kept


def tasks_of(identity: str) -> Tasks:
    """Return the rules and fixes of canonical JSON, as `Tasks.identity` gives it.

    Raises
    ------
    RuleError
        If it is something else.

    Examples
    --------
    >>> from analyzers.rules.tasks import Rule
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
    """Return the rule or fix of an identity."""
    return KeptRule(kept) if "rule" in kept else KeptFix(kept)


class KeptTaskPolicy(DQMTaskPolicy):
    """A user's own task policy, of which only the name and a hash were kept."""

    def __init__(self, kept: Sequence[Any]) -> None:
        self._kept = list(kept)

    def refuses(self, count: int, records: int) -> str | None:  # noqa: ARG002
        """Refuse to be asked."""
        raise RuleError(_forgotten(str(self._kept[0])))

    def identity(self) -> list[Any]:
        """Return what was kept."""
        return self._kept


class KeptPolicy(DQMPolicy):
    """A policy that is a user's function, of which only the name and a hash were kept."""

    def __init__(self, kept: Sequence[Any]) -> None:
        self._kept = list(kept)
        self.name = str(kept[1])
        self.needs_data = False

    def holds(self, state: DQMState, data: DataFrame | None = None) -> bool:  # noqa: ARG002
        """Refuse to be asked."""
        raise RuleError(_forgotten(self.name))

    def identity(self) -> list[Any]:
        """Return what was kept."""
        return self._kept


def task_policy_of(kept: Sequence[Any]) -> DQMTaskPolicy:
    """Return the task policy of an identity."""
    kind, options, *hashes = kept
    found = getattr(policies, str(kind), None)
    if hashes or not (isinstance(found, type) and issubclass(found, DQMTaskPolicy)):
        return KeptTaskPolicy(kept)
    made: DQMTaskPolicy = found(*(value for _, value in options))
    return made


def policy_of(kept: Sequence[Any]) -> DQMPolicy:
    """Return the policy of an identity."""
    if len(kept) != 2:  # noqa: PLR2004 - ours are a kind and a limit
        return KeptPolicy(kept)
    made: DQMPolicy = getattr(policies, str(kept[0]))(kept[1])
    return made


def _forgotten(name: str) -> str:
    return (
        f"policy {name!r} is a function that a repository does not keep; judge with the DQM itself"
    )
