"""Policies: thresholds on the counts of rules and fixes.

A task policy limits one rule or fix, a `DQMPolicy` the data as a whole. Policies are functions of
counts, so they can be re-evaluated with other limits without the data. All policies fail when the
limit is reached, not only when it is exceeded.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.errors import RuleError, describe
from tidegauge.analyzers.core.evidence import as_verdict
from tidegauge.analyzers.core.registry import canonical_json
from tidegauge.rules.record_counts import DQMState
from tidegauge.rules.tasks import source_hash

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PolicyFunction = Callable[..., bool]


class DQMTaskPolicy:
    """Threshold on the count of one rule or fix. Subclass it for your own policies.

    Examples
    --------
    >>> class FailOnNight(DQMTaskPolicy):
    ...     def refuses(self, count, records):
    ...         return f"{count} of {records} records" if count > records / 2 else None
    >>> FailOnNight().refuses(60, 100), FailOnNight().refuses(40, 100)
    ('60 of 100 records', None)
    """

    def refuses(self, count: int, records: int) -> str | None:
        """Return the reason why a count fails the policy, or None if it passes.

        Parameters
        ----------
        count : int
            Records charged to the rule, or values repaired by the fix.
        records : int
            Number of records that the count is relative to.
        """
        return None

    def refusal(self, count: int, records: int) -> str | None:
        """Return the reason for failing, or None; a policy that raises an error or returns another type fails."""
        try:
            reason: Any = self.refuses(count, records)
        except RuleError:
            raise
        except Exception as error:  # noqa: BLE001 - users' classes can raise anything
            return f"raised {describe(error)}"
        if reason is None or isinstance(reason, str):
            return reason
        return f"refuses() returned {reason!r} for {count} of {records} records instead of a reason or None"

    def identity(self) -> list[Any]:
        """Return the policy as JSON values; for users' own classes with a hash of their source."""
        if type(self).__module__ == __name__ and not isinstance(self, _FunctionPolicy):
            return [type(self).__name__, sorted(vars(self).items())]
        return [type(self).__name__, [], source_hash(self)]

    def __repr__(self) -> str:
        """Return the expression that creates the policy."""
        return f"{type(self).__name__}({', '.join(map(repr, vars(self).values()))})"

    def __eq__(self, other: object) -> bool:
        """Compare kind and limit."""
        return isinstance(other, DQMTaskPolicy) and self.identity() == other.identity()

    def __hash__(self) -> int:
        """Hash the kind and limit."""
        return hash(canonical_json(self.identity()))


class _FunctionPolicy(DQMTaskPolicy):
    """Task policy of a user's function of count and records, which returns True if they pass."""

    def __init__(self, function: Callable[[int, int], bool]) -> None:
        self.function = function

    def refuses(self, count: int, records: int) -> str | None:
        """Return a reason if the function returns False.

        Raises
        ------
        TypeError
            If the function returns neither True nor False.
        """
        holds = as_verdict(self.function(count, records), f"policy {str(self)!r}")
        return None if holds else f"{count} of {records} records fail {self}"

    def identity(self) -> list[Any]:
        """Return the function's name and a hash of its source."""
        return [str(self), [], source_hash(self.function)]

    def __str__(self) -> str:
        """Return the function's name."""
        return str(getattr(self.function, "__name__", type(self.function).__name__))


class FailNone(DQMTaskPolicy):
    """Never fail: count the task without a limit.

    Examples
    --------
    >>> FailNone().refuses(100, 100) is None
    True
    """


class FailCount(DQMTaskPolicy):
    """Fail if ``limit`` records or more are charged to a task.

    Examples
    --------
    >>> FailCount(10).refuses(9, 100) is None, FailCount(10).refuses(10, 100)
    (True, '10 of 100 records, fewer than 10 allowed')
    """

    def __init__(self, limit: int) -> None:
        self.limit = _count(limit, self)

    def refuses(self, count: int, records: int) -> str | None:
        """Return the reason for failing, or None."""
        return _too_many(count, records, self.limit)


class FailAny(DQMTaskPolicy):
    """Fail if any record is charged to a task.

    Examples
    --------
    >>> FailAny().refuses(0, 100) is None, FailAny().refuses(1, 100)
    (True, '1 of 100 records, none allowed')
    """

    def refuses(self, count: int, records: int) -> str | None:
        """Return the reason for failing, or None."""
        return _too_many(count, records, 1)


class FailPercent(DQMTaskPolicy):
    """Fail if a share of ``share`` or more of the records is charged to a task. No data passes.

    Parameters
    ----------
    share : float
        Share above 0 and at most 1; 0.05 is five percent.

    Examples
    --------
    >>> FailPercent(0.05).refuses(5, 100)
    '5 of 100 records are 5%, less than 5% allowed'
    >>> FailPercent(50)
    Traceback (most recent call last):
        ...
    tidegauge.analyzers.core.errors.RuleError: FailPercent takes a share above 0 and at most 1, not 50: five percent is 0.05
    """

    def __init__(self, share: float) -> None:
        self.share = _share(share, self)

    def refuses(self, count: int, records: int) -> str | None:
        """Return the reason for failing, or None."""
        return _too_large(count, records, self.share)


class DQMPolicy:
    """Condition on the data as a whole.

    Pass a function, or subclass it, set ``name`` and override `holds`.

    Parameters
    ----------
    policy : callable
        Called with the `DQMState`, whose counts are final, or with the frame after rules and fixes
        and the state; returns True if the data passes. A policy that needs the frame cannot be
        re-evaluated from the repository.
    name : str, optional
        Name of the policy (default: the function's name); required for a lambda.

    Examples
    --------
    >>> few = DQMPolicy(lambda state: state.rule_count("age") + state.fix_count("cap") < 3, "few")
    >>> state = DQMState(["age"], ["cap"])
    >>> state.add_rule("age", 3)
    >>> state.snapshot()
    >>> few.holds(state), few.needs_data
    (False, False)
    """

    name: str
    needs_data: bool = False
    needs_action: bool = True

    def __init__(self, policy: PolicyFunction, name: str | None = None) -> None:
        if not callable(policy):
            msg = f"DQMPolicy takes a function of the state, or of the frame and the state, not {policy!r}"
            raise RuleError(msg)
        self.policy = policy
        self.name = str(getattr(policy, "__name__", "")) if name is None else name
        if not self.name.strip() or self.name == "<lambda>":
            msg = "a policy needs a name: DQMPolicy(function, 'name')"
            raise RuleError(msg)
        self.needs_data = _parameters(policy) == 2

    def holds(self, state: DQMState, data: DataFrame | None = None) -> bool:
        """Return whether the policy holds; called by `refusal`."""
        answer = self.policy(data, state) if self.needs_data else self.policy(state)
        return as_verdict(answer, f"policy {self.name!r}")

    def refusal(self, state: DQMState, data: DataFrame | None = None) -> str | None:
        """Return the reason for failing, or None; a policy that raises fails.

        Raises
        ------
        RuleError
            If the policy needs the frame and ``data`` is None.
        """
        if self.needs_data and data is None:
            msg = f"policy {self.name!r} needs the data and cannot be evaluated from counts alone"
            raise RuleError(msg)
        try:
            holds: object = self.holds(state, data)  # a subclass can return anything
            return None if as_verdict(holds, f"policy {self.name!r}") else self.message(state)
        except RuleError:
            raise
        except Exception as error:  # noqa: BLE001 - users' functions can raise anything
            return f"raised {describe(error)}"

    def message(self, state: DQMState) -> str:
        """Return the reason why the policy does not hold."""
        return "the policy does not hold"

    def identity(self) -> list[Any]:
        """Return the policy as JSON values: kind, name, and a hash of its source."""
        hashed = self.policy if type(self).__module__ == __name__ else self
        return [type(self).__name__, self.name, source_hash(hashed)]

    def __repr__(self) -> str:
        """Return the kind and name."""
        return f"{type(self).__name__}({self.name!r})"


class _Total(DQMPolicy, ABC):
    """Limit on a total; without rules and fixes all totals are 0."""

    needs_action = False

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.name = f"{type(self).__name__}({limit})"

    @abstractmethod
    def counted(self, state: DQMState) -> int:
        """Return the total that is limited."""

    @abstractmethod
    def refuses(self, state: DQMState) -> str | None:
        """Return the reason for failing, or None."""

    def holds(self, state: DQMState, data: DataFrame | None = None) -> bool:
        """Return whether the total is below the limit."""
        return self.refuses(state) is None

    def message(self, state: DQMState) -> str:
        """Return the total and the limit."""
        return self.refuses(state) or ""

    def identity(self) -> list[Any]:
        """Return the kind and limit; for users' own classes also a hash of their source."""
        is_built_in = type(self).__module__ == __name__
        return [type(self).__name__, self.limit] if is_built_in else super().identity()


class _TotalCount(_Total):
    def __init__(self, limit: int) -> None:
        super().__init__(_count(limit, self))

    def refuses(self, state: DQMState) -> str | None:
        """Return the reason for failing, or None."""
        return _too_many(self.counted(state), state.records, int(self.limit))


class _TotalPercent(_Total):
    def __init__(self, share: float) -> None:
        super().__init__(_share(share, self))

    def refuses(self, state: DQMState) -> str | None:
        """Return the reason for failing, or None."""
        return _too_large(self.counted(state), state.records, self.limit)


class FailTotalRuleCountPolicy(_TotalCount):
    """Fail if ``limit`` records or more are charged to all rules together.

    Examples
    --------
    >>> state = DQMState(rules=["age", "fare"])
    >>> state.add_records(100)
    >>> state.add_rule("age", 20)
    >>> state.add_rule("fare", 10)
    >>> state.snapshot()
    >>> FailTotalRuleCountPolicy(31).holds(state), FailTotalRuleCountPolicy(30).message(state)
    (True, '30 of 100 records, fewer than 30 allowed')
    """

    def counted(self, state: DQMState) -> int:
        """Return the total over the rules."""
        return state.total_rule_count


class FailTotalRulePercentPolicy(_TotalPercent):
    """Fail if a share of ``share`` or more of the records is charged to all rules together.

    Examples
    --------
    >>> state = DQMState(rules=["age", "fare"])
    >>> state.add_records(100)
    >>> state.add_rule("age", 20)
    >>> state.add_rule("fare", 10)
    >>> state.snapshot()
    >>> FailTotalRulePercentPolicy(0.3).message(state)
    '30 of 100 records are 30%, less than 30% allowed'
    """

    def counted(self, state: DQMState) -> int:
        """Return the total over the rules."""
        return state.total_rule_count


class FailTotalFixCountPolicy(_TotalCount):
    """Fail if all fixes together repaired ``limit`` values or more.

    Examples
    --------
    >>> state = DQMState(fixes=["cap"])
    >>> state.add_records(100)
    >>> state.add_fix("cap", 5)
    >>> state.snapshot()
    >>> FailTotalFixCountPolicy(6).holds(state), FailTotalFixCountPolicy(5).holds(state)
    (True, False)
    """

    def counted(self, state: DQMState) -> int:
        """Return the total over the fixes."""
        return state.total_fix_count


class FailTotalFixPercentPolicy(_TotalPercent):
    """Fail if the values repaired by all fixes, divided by the records, are ``share`` or more.

    Examples
    --------
    >>> state = DQMState(fixes=["cap"])
    >>> state.add_records(100)
    >>> state.add_fix("cap", 5)
    >>> state.snapshot()
    >>> FailTotalFixPercentPolicy(0.05).message(state)
    '5 of 100 records are 5%, less than 5% allowed'
    """

    def counted(self, state: DQMState) -> int:
        """Return the total over the fixes."""
        return state.total_fix_count


class FailParserCountPolicy(_TotalCount):
    """Fail if ``limit`` records of a file or more cannot be read.

    Examples
    --------
    >>> state = DQMState()
    >>> state.add_parsed(lines=100, rejects={"number": 2, "date": 1})
    >>> state.snapshot()
    >>> FailParserCountPolicy(3).message(state)
    '3 of 100 records, fewer than 3 allowed'
    """

    def counted(self, state: DQMState) -> int:
        """Return the number of records that could not be read."""
        return state.parser_count

    def refuses(self, state: DQMState) -> str | None:
        """Return the reason for failing, or None."""
        return _too_many(state.parser_count, state.lines, int(self.limit))


def as_task_policy(policy: Any) -> DQMTaskPolicy:
    """Convert a policy, a function, or the class `FailAny` or `FailNone` to a task policy."""
    task_policy = (
        policy() if isinstance(policy, type) and issubclass(policy, FailNone | FailAny) else policy
    )
    if callable(task_policy) and not isinstance(task_policy, DQMTaskPolicy | DQMPolicy | type):
        task_policy = _FunctionPolicy(task_policy)
    if not isinstance(task_policy, DQMTaskPolicy):
        msg = (
            f"invalid task policy {policy!r}; use FailNone, FailAny, FailCount(n) or FailPercent(r)"
        )
        raise RuleError(msg)
    return task_policy


def _too_many(count: int, records: int, limit: int) -> str | None:
    if count < limit:
        return None
    expected = "none" if limit == 1 else f"fewer than {limit}"
    return f"{count} of {records} records, {expected} allowed"


def _too_large(count: int, records: int, share: float) -> str | None:
    # Compare the quotient: 0.07 * 100 is above 7, so a product would let 7 of 100 pass a limit of 0.07.
    if not records or count / records < share:
        return None
    counted = f"{count} of {records} records are {100 * count / records:.4g}%"
    return f"{counted}, less than {100 * share:.4g}% allowed"


def _count(limit: Any, owner: object) -> int:
    kind = type(owner).__name__
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        msg = f"{kind} takes a whole number of at least 1, not {limit!r}"
        raise RuleError(msg)
    return limit


def _share(share: Any, owner: object) -> float:
    kind = type(owner).__name__
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
        hint = "to allow no records, use FailAny" if share == 0 else "five percent is 0.05"
        msg = f"{kind} takes a share above 0 and at most 1, not {share!r}: {hint}"
        raise RuleError(msg)
    return float(share)


def _parameters(function: Any) -> int:
    """Return the number of required positional parameters of a policy's function."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [
        p
        for p in inspect.signature(function).parameters.values()
        if p.kind in kinds and p.default is inspect.Parameter.empty
    ]
    if len(required) not in {1, 2}:
        msg = "a policy is a function of the state, or of the frame and the state"
        raise RuleError(msg)
    return len(required)
