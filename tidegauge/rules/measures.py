"""Analyzers for rules, fixes and parser rejects: their counts and shares as ordinary metrics.

These analyzers are measured, stored, merged and monitored like all others. Each has its own small state, so its
history continues when another rule is added to the `DQM`. All analyzers of a `DQM` share one scan request. If a
count depends on earlier tasks, its analyzer identifies them by a hash and must be measured through its `DQM`.
`ParserRejects` and `ParserRejectsRatio` count the records of a file that could not be read.

The first part of the module restores rules, fixes and policies from the JSON in a repository.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from tidegauge.analyzers.core.analyzer import Analyzer, AnyAnalyzer, Request, analyzer
from tidegauge.analyzers.core.errors import IllegalAnalyzerParameterError, MetricError, RuleError
from tidegauge.analyzers.core.metric import Entity, Scale
from tidegauge.analyzers.core.registry import canonical_json, key_of
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.state import State
from tidegauge.analyzers.measures.counts import NumMatchesAndCount
from tidegauge.rules import policies
from tidegauge.rules.policies import DQMPolicy, DQMTaskPolicy
from tidegauge.rules.record_counts import RecordCounts, RecordRulesRequest, Tally, Tasks
from tidegauge.rules.tasks import Arm, DQMFix, DQMRule, Expression, Rule

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegauge.rules.file_parser import ParserCounts
    from tidegauge.rules.record_counts import DQMState


class KeptRule(DQMRule):
    """A rule restored from a repository: its SQL, without the user's code."""

    def __init__(self, identity: dict[str, Any]) -> None:
        options = identity["on_null"], identity["severity"], identity["stage"]
        self._set(Expression.from_identity(identity["expr"]), identity["rule"], *options)
        self._kept = identity

    def identity(self) -> dict[str, Any]:
        """Return the stored identity."""
        return self._kept


class KeptFix(DQMFix):
    """A fix restored from a repository: its SQL, without the user's code."""

    def __init__(self, identity: dict[str, Any]) -> None:
        arms = [
            Arm(label, Expression.from_identity(c), Expression.from_identity(v))
            for label, c, v in identity["arms"]
        ]
        self._set(identity["column"], identity["fix"], lambda: arms)
        self._kept = identity

    def identity(self) -> dict[str, Any]:
        """Return the stored identity."""
        return self._kept


def tasks_of(identity: str) -> Tasks:
    """Restore rules and fixes from canonical JSON, as written by `Tasks.identity`.

    Raises
    ------
    RuleError
        If the string is not such JSON.

    Examples
    --------
    >>> from tidegauge.rules.tasks import Rule
    >>> tasks = Tasks((Rule("age < 150", "age"),))
    >>> tasks_of(tasks.identity) == tasks
    True
    """
    try:
        tasks = [task_of(task_identity) for task_identity in json.loads(identity)]
    except (ValueError, KeyError, TypeError) as error:
        msg = f"not the JSON of rules and fixes: {identity[:80]!r}"
        raise RuleError(msg) from error
    rules = tuple(task for task in tasks if isinstance(task, DQMRule))
    return Tasks(rules, tuple(task for task in tasks if isinstance(task, DQMFix)))


def task_of(identity: dict[str, Any]) -> DQMRule | DQMFix:
    """Restore a rule or fix from its identity."""
    return KeptRule(identity) if "rule" in identity else KeptFix(identity)


class KeptTaskPolicy(DQMTaskPolicy):
    """A task policy of a user's class or of another version, which cannot be evaluated."""

    def __init__(self, identity: Sequence[Any]) -> None:
        self._kept = list(identity)

    def refuses(self, count: int, records: int) -> str | None:
        """Raise a `RuleError`, because the policy's code is not stored."""
        raise RuleError(_not_restored(self._kept))

    def identity(self) -> list[Any]:
        """Return the stored identity."""
        return self._kept


class KeptPolicy(DQMPolicy):
    """A policy of a user's function or of another version, which cannot be evaluated."""

    def __init__(self, identity: Sequence[Any]) -> None:
        self._kept = list(identity)
        self.name = str(identity[1])
        self.needs_data = False

    def holds(self, state: DQMState, data: DataFrame | None = None) -> bool:
        """Raise a `RuleError`, because the policy's code is not stored."""
        raise RuleError(_not_restored(self._kept))

    def identity(self) -> list[Any]:
        """Return the stored identity."""
        return self._kept


def task_policy_of(identity: Sequence[Any]) -> DQMTaskPolicy:
    """Restore a task policy from its identity."""
    kind, options, *hashes = identity
    policy_class = getattr(policies, str(kind), None)
    if hashes or not (isinstance(policy_class, type) and issubclass(policy_class, DQMTaskPolicy)):
        return KeptTaskPolicy(identity)
    policy: DQMTaskPolicy = policy_class(*(value for _, value in options))
    return policy


def policy_of(identity: Sequence[Any]) -> DQMPolicy:
    """Restore a policy from its identity."""
    policy_class = getattr(policies, str(identity[0]), None)
    if len(identity) != 2 or not (
        isinstance(policy_class, type) and issubclass(policy_class, DQMPolicy)
    ):
        return KeptPolicy(identity)
    policy: DQMPolicy = policy_class(identity[1])
    return policy


def _not_restored(identity: Sequence[Any]) -> str:
    """Return the reason why a policy is not restored: a function, or another version."""
    if isinstance(identity[-1], str):  # the hash of a function
        name = identity[1] if isinstance(identity[1], str) else identity[0]
        return f"policy {name!r} is a function, which a repository does not store; judge with the original DQM"
    return (
        f"unknown policy {identity[0]!r}, probably of another version; judge with the original DQM"
    )


_HASH_LENGTH = 16
"""64 bits of the hash of preceding tasks, so that collisions are unlikely in keys of moderate length."""


def count_or_share(
    measured: Analyzer[NumMatchesAndCount, float], state: NumMatchesAndCount
) -> float:
    """Return an analyzer's count, or the share of the records; a share is empty at zero records."""
    if measured.scale is not Scale.RATIO:
        return float(state.num_matches)
    if not state.count:
        raise measured.no_data()
    return state.metric_value()


class _SharesCounts:
    """Mixin for the analyzers of a `DQM`, which request their counts together."""

    dqm_tasks: ClassVar[Tasks | None] = None
    """All tasks of the `DQM`; set on the instance, not part of its identity."""

    @property
    def reads(self) -> tuple[str, ...]:
        """The tables in which rules look up keys."""
        return () if self.dqm_tasks is None else self.dqm_tasks.tables

    def among_tasks(self, tasks: Tasks) -> Self:
        """Return the same analyzer, to be measured together with all tasks of a `DQM`."""
        object.__setattr__(self, "dqm_tasks", tasks)
        return self


@dataclass(frozen=True, repr=False)
class _TaskAnalyzer(_SharesCounts, Analyzer[NumMatchesAndCount, float]):
    """Count of records for one task, or their share."""

    state_type: ClassVar[type[State]] = NumMatchesAndCount
    scale: ClassVar[Scale] = Scale.COUNT
    counted: ClassVar[str]
    """The kind of counter, as in `Tasks.counters`."""

    @property
    def entity(self) -> Entity:
        """Dataset, because a rule can read many columns."""
        return Entity.DATASET

    def tasks(self) -> Tasks:
        """Return the tasks that are measured together."""
        if self.dqm_tasks is None:
            msg = f"{self!r} depends on the other tasks of a DQM; measure it with them: Suite(dqm=)"
            raise IllegalAnalyzerParameterError(msg)
        return self.dqm_tasks

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Request the counts of all tasks."""
        return (RecordRulesRequest(self.tasks()),)

    @abstractmethod
    def before(self) -> Sequence[str]:
        """Return the names of the tasks that the count depends on."""

    def fold(self, cells: Sequence[Any]) -> NumMatchesAndCount:
        """Extract this analyzer's counter from the shared counts."""
        tallied = _tally(cells)
        for name in (*self.before(), self.instance):
            if name in tallied.failures:
                raise _evaluation_error(name, tallied.failures[name])
        counts = self.tasks().counts_by_task(tallied.counts)
        return NumMatchesAndCount(counts[self.counted, self.instance], self.share_base(counts))

    def share_base(self, counts: dict[tuple[str, str], int]) -> int:
        """Return the number of records that the share is relative to."""
        return counts["records", ""]

    def measure(self, state: NumMatchesAndCount) -> float:
        """Return the count or share; a share is empty at zero records."""
        return count_or_share(self, state)


@dataclass(frozen=True, repr=False)
class _RuleAnalyzer(_TaskAnalyzer):
    rule: str
    predicate: str
    among: str | None = None

    @property
    def instance(self) -> str:
        """The rule's name."""
        return self.rule

    def tasks(self) -> Tasks:
        """Return the tasks of the `DQM`, or only the rule if it depends on no other task."""
        if self.dqm_tasks is None and self.among is None:
            return Tasks((Rule(self.predicate, self.rule),))
        return super().tasks()

    def statistic(self) -> str:
        """Return the state's key; the count and its share have the same state."""
        identity = {"rule": self.predicate, "among": self.among, "counted": self.counted}
        return canonical_json({"state": "rule", **identity})

    def before(self) -> Sequence[str]:
        """Return the tasks that determine which records the rule is applied to."""
        if self.among is None:
            return ()
        return _earlier(self.tasks(), self.rule)


@analyzer
class RuleViolations(_RuleAnalyzer):
    """Number of records for which a rule is false, also if another rule rejects them; null is not false.

    Parameters
    ----------
    rule : str
        The rule's name.
    predicate : str
        The rule's condition as Spark SQL.
    among : str, optional
        Hash of the tasks up to and including the rule, for rules on repaired values.

    Examples
    --------
    >>> RuleViolations("age", "age < 150").compute_metric_from(NumMatchesAndCount(2, 8)).value
    2.0
    """

    counted: ClassVar[str] = "violated"


@analyzer
class RuleViolationsRatio(_RuleAnalyzer):
    """Share of the records for which a rule is false; empty at zero records.

    Examples
    --------
    >>> RuleViolationsRatio("age", "age < 150").compute_metric_from(NumMatchesAndCount(2, 8)).value
    0.25
    """

    scale: ClassVar[Scale] = Scale.RATIO
    counted: ClassVar[str] = "violated"


@analyzer
class RuleUnknown(_RuleAnalyzer):
    """Number of records for which a rule is null.

    Examples
    --------
    >>> RuleUnknown("age", "age < 150").compute_metric_from(NumMatchesAndCount(1, 8)).value
    1.0
    """

    counted: ClassVar[str] = "unknown"


@analyzer
class RuleUnknownRatio(_RuleAnalyzer):
    """Share of the records for which a rule is null; empty at zero records.

    Examples
    --------
    >>> RuleUnknownRatio("age", "age < 150").compute_metric_from(NumMatchesAndCount(1, 8)).value
    0.125
    """

    scale: ClassVar[Scale] = Scale.RATIO
    counted: ClassVar[str] = "unknown"


class _ExcludesUnknown:
    """Mixin: exclude unknown records from the share of a rule with ``on_null="unknown"``."""

    def share_base(self: Any, counts: dict[tuple[str, str], int]) -> int:
        """Return the number of records, without unknown records if the rule excludes them."""
        rule = next(rule for rule in self.tasks().rules if rule.name == self.rule)
        excluded = counts["unknown", rule.name] if rule.on_null == "unknown" else 0
        return counts["records", ""] - excluded


@analyzer
class RuleRejects(_ExcludesUnknown, _RuleAnalyzer):
    """Records charged to a rule: records that it is the first to reject, or that it warns about.

    Examples
    --------
    >>> RuleRejects("age", "age < 150", "f00d").compute_metric_from(NumMatchesAndCount(2, 8)).value
    2.0
    """

    counted: ClassVar[str] = "charged"


@analyzer
class RuleRejectsRatio(_ExcludesUnknown, _RuleAnalyzer):
    """Share of the records that are charged to a rule; empty at zero records.

    Examples
    --------
    >>> RuleRejectsRatio("age", "age < 150", "f00d").compute_metric_from(NumMatchesAndCount(2, 8)).value
    0.25
    """

    scale: ClassVar[Scale] = Scale.RATIO
    counted: ClassVar[str] = "charged"


@dataclass(frozen=True, repr=False)
class _FixAnalyzer(_TaskAnalyzer):
    counted: ClassVar[str] = "fixed"

    fix: str
    among: str

    @property
    def instance(self) -> str:
        """The fix's name, or the name of one of its sides."""
        return self.fix

    def statistic(self) -> str:
        """Return the state's key; the count and its share have the same state."""
        return canonical_json({"state": "fix", "fix": self.fix, "among": self.among})

    def before(self) -> Sequence[str]:
        """Return the tasks that determine which records the fix is applied to, and the fix itself."""
        tasks = self.tasks()
        fix_name = next(f.name for f in tasks.fixes if self.fix in {f.name, *f.counters()})
        return [*_earlier(tasks, fix_name), fix_name]


@analyzer
class FixCount(_FixAnalyzer):
    """Number of values that a fix repaired, among the records that no earlier rule rejected.

    Parameters
    ----------
    fix : str
        The fix's name; ``name.low`` and ``name.high`` for the sides of a `BoundFix`.
    among : str
        Hash of the fix and the rules and fixes before it.

    Examples
    --------
    >>> FixCount("cap", "f00d").compute_metric_from(NumMatchesAndCount(2, 8)).value
    2.0
    """


@analyzer
class FixCountRatio(_FixAnalyzer):
    """Values that a fix repaired, divided by the records before any rule; empty at zero records.

    Examples
    --------
    >>> FixCountRatio("cap", "f00d").compute_metric_from(NumMatchesAndCount(2, 8)).value
    0.25
    """

    scale: ClassVar[Scale] = Scale.RATIO


@dataclass(frozen=True)
class RecordTotals:
    """Totals over all rules and fixes.

    Attributes
    ----------
    records, rejected, fixed : int
        Records, rejected records, repaired values.
    """

    records: int
    rejected: int
    fixed: int

    def scalars(self) -> Iterator[tuple[str, float]]:
        """Yield the rejected records, their share, and the repaired values."""
        yield "rejected", float(self.rejected)
        yield "rejectedRatio", self.rejected / self.records
        yield "fixed", float(self.fixed)


@analyzer
class RecordRules(_SharesCounts, Analyzer[RecordCounts, RecordTotals]):
    """Record counts by combination of broken rules and applied fixes, for all tasks of a `DQM`.

    Its metrics are ``RecordRules.rejected``, ``RecordRules.rejectedRatio`` and
    ``RecordRules.fixed``. Every policy can be re-evaluated from its state, without the data. Empty
    at zero records.

    Parameters
    ----------
    tasks : str
        The rules and fixes as canonical JSON.

    Examples
    --------
    >>> from tidegauge.rules.record_counts import Tasks
    >>> from tidegauge.analyzers.core.metric import flatten
    >>> analyzer = RecordRules(Tasks((Rule("age < 150", "age"),)).identity)
    >>> metric = analyzer.compute_metric_from(RecordCounts((8, 6, 2, 0, 2), {0: 6, 1: 2}))
    >>> [(m.name, m.value) for m in flatten(metric)][:2]
    [('RecordRules.rejected', 2.0), ('RecordRules.rejectedRatio', 0.25)]
    """

    scale: ClassVar[Scale] = Scale.COUNT
    state_type: ClassVar[type[State]] = RecordCounts
    state_bytes: ClassVar[int] = 1 << 13

    tasks: str

    @property
    def entity(self) -> Entity:
        """Dataset."""
        return Entity.DATASET

    @property
    def instance(self) -> str:
        """Always ``*``."""
        return "*"

    def scale_of(self, metric_name: str) -> Scale:
        """Return the scale of one flattened metric."""
        return Scale.RATIO if metric_name.endswith("Ratio") else Scale.COUNT

    def all_tasks(self) -> Tasks:
        """Return the rules and fixes."""
        return self.dqm_tasks or tasks_of(self.tasks)

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Request the counts of all tasks."""
        return (RecordRulesRequest(self.all_tasks()),)

    def fold(self, cells: Sequence[Any]) -> RecordCounts:
        """Return all counts."""
        tallied = _tally(cells)
        for name, error in tallied.failures.items():
            raise _evaluation_error(name, error)
        return tallied.counts

    def measure(self, state: RecordCounts) -> RecordTotals:
        """Return the totals."""
        counts = self.all_tasks().counts_by_task(state)
        if not counts["records", ""]:
            raise self.no_data()
        fixed = sum(count for (kind, _), count in counts.items() if kind == "fixed")
        records = counts["records", ""]
        return RecordTotals(records, records - counts["kept", ""], fixed)

    def weight(self, state: RecordCounts) -> float:
        """Return the number of records."""
        return self.all_tasks().counts_by_task(state)["records", ""]


def analyzers_of(tasks: Tasks) -> list[AnyAnalyzer]:
    """Return all analyzers for rules and fixes."""
    analyzers: list[Any] = [RecordRules(tasks.identity)]
    for rule in tasks.rules:
        predicate, hash_among = rule.expression.predicate, _hash_of_tasks(tasks, rule)
        tasks_hash = hash_among if rule.stage == "after" else None
        kinds = (RuleViolations, RuleViolationsRatio, RuleUnknown, RuleUnknownRatio)
        analyzers += [kind(rule.name, predicate, tasks_hash) for kind in kinds]
        analyzers += [
            RuleRejects(rule.name, predicate, hash_among),
            RuleRejectsRatio(rule.name, predicate, hash_among),
        ]
    for fix in tasks.fixes:
        hash_among = _hash_of_tasks(tasks, fix)
        for name in fix.counters():
            analyzers += [FixCount(name, hash_among), FixCountRatio(name, hash_among)]
    return [task_analyzer.among_tasks(tasks) for task_analyzer in analyzers]


def _earlier(tasks: Tasks, name: str) -> list[str]:
    """Return the names of the tasks before a task, in order: rules, fixes, rules on repaired values."""
    ordered = [*tasks.before, *tasks.fixes, *tasks.after]
    names = [task.name for task in ordered]
    return names[: names.index(name)]


def _hash_of_tasks(tasks: Tasks, task: DQMRule | DQMFix) -> str:
    """Return the hash of a task together with the tasks before it."""
    names = {*_earlier(tasks, task.name), task.name}
    rules = tuple(rule for rule in tasks.rules if rule.name in names)
    fixes = tuple(fix for fix in tasks.fixes if fix.name in names)
    return key_of(Tasks(rules, fixes).identity)[:_HASH_LENGTH]


def _tally(cells: Sequence[Any]) -> Tally:
    """Return the tally, which is empty for a group without records."""
    return cells[0] or Tally(RecordCounts())


def _evaluation_error(name: str, error: MetricError) -> MetricError:
    return error.with_text(f"{_unevaluated(name)}: {error}")


def names_task(error: str, name: str) -> bool:
    """Return whether a stored error reports that a task could not be evaluated."""
    return _unevaluated(name) in error


def _unevaluated(name: str) -> str:
    return f"{name!r} could not be evaluated"


@dataclass(frozen=True, repr=False)
class _ParserAnalyzer(Analyzer[NumMatchesAndCount, float]):
    """Count of the records of a file that could not be read, or their share."""

    state_type: ClassVar[type[State]] = NumMatchesAndCount
    scale: ClassVar[Scale] = Scale.COUNT

    kind: str = "*"

    @property
    def entity(self) -> Entity:
        """Dataset."""
        return Entity.DATASET

    @property
    def instance(self) -> str:
        """The kind of error."""
        return self.kind

    def statistic(self) -> str:
        """Return the state's key; the count and its share have the same state."""
        return canonical_json({"state": "parser", "kind": self.kind})

    def check_schema(self, schema: Schema) -> None:
        """Raise an error, because a table does not contain unreadable records."""
        msg = f"{self!r} can only be counted when a file is parsed; use ParserValidation instead of a table"
        raise IllegalAnalyzerParameterError(msg)

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Return no requests."""
        return ()

    def fold(self, cells: Sequence[Any]) -> NumMatchesAndCount:
        """Extract this analyzer's counter from the parser's counts."""
        counts: ParserCounts = cells[0]
        rejects = counts.rejects
        rejected = sum(rejects.values()) if self.kind == "*" else rejects.get(self.kind, 0)
        return NumMatchesAndCount(rejected, counts.lines)

    def measure(self, state: NumMatchesAndCount) -> float:
        """Return the count or share; a share is empty at zero records."""
        return count_or_share(self, state)


@analyzer
class ParserRejects(_ParserAnalyzer):
    """Number of records of a file that could not be read, in total or of one kind.

    Parameters
    ----------
    kind : str
        Kind of error as in `ParserValidation`; ``*`` for all.

    Examples
    --------
    >>> ParserRejects().compute_metric_from(NumMatchesAndCount(5, 11)).value
    5.0
    """


@analyzer
class ParserRejectsRatio(_ParserAnalyzer):
    """Share of the records of a file that could not be read; empty at zero records.

    Examples
    --------
    >>> ParserRejectsRatio().compute_metric_from(NumMatchesAndCount(5, 10)).value
    0.5
    """

    scale: ClassVar[Scale] = Scale.RATIO


def parser_analyzers(counts: ParserCounts) -> list[Analyzer[Any, Any]]:
    """Return the analyzers for a file: for all rejects, and for each kind that occurs."""
    kinds = ["*", *counts.rejects]
    return [
        kind(error_kind) for error_kind in kinds for kind in (ParserRejects, ParserRejectsRatio)
    ]
