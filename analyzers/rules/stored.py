"""Rules, fixes and policies as JSON, and back: what a repository keeps of a `DQM`."""

from __future__ import annotations

import json
from typing import Any

from analyzers.errors import RuleError
from analyzers.rules.expressions import Expression
from analyzers.rules.layout import Tasks
from analyzers.rules.tasks import Arm, DQMFix, DQMRule, DQMTask


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
        kept = [_task(one) for one in json.loads(identity)]
    except (ValueError, KeyError, TypeError) as error:
        msg = f"not the JSON of rules and fixes: {identity[:80]!r}"
        raise RuleError(msg) from error
    rules = tuple(task for task in kept if isinstance(task, DQMRule))
    return Tasks(rules, tuple(task for task in kept if isinstance(task, DQMFix)))


def _task(kept: dict[str, Any]) -> DQMTask:
    return KeptRule(kept) if "rule" in kept else KeptFix(kept)
