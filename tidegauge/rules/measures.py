"""Analyzers for rules, fixes and parser rejects: their counts and shares as ordinary metrics.

They are measured with all other analyzers, stored, merged and monitored like them. Each has a small
state of its own, so its history continues when another rule is added to the `DQM`. All analyzers of
a `DQM` share one scan request. An analyzer whose count depends on earlier tasks identifies them by
a hash and must be measured through its `DQM`. `ParserRejects` and `ParserRejectsRatio` count the records of a
file that could not be read.

The JSON in which a repository stores the rules, fixes and policies of a `DQM` comes first.
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


_HASH = 16
"""Characters of the hash of the preceding tasks."""


def count_or_share(of: Analyzer[NumMatchesAndCount, float], state: NumMatchesAndCount) -> float:
    """Return an analyzer's count, or the share of the records; a share is empty at zero records."""
    if of.scale is not Scale.RATIO:
        return float(state.num_matches)
    if not state.count:
        raise of.no_data()
    return state.metric_value()


class _SharesCounts:
    """Mixin for the analyzers of a `DQM`, which request their counts together."""

    company: ClassVar[Tasks | None] = None
    """All tasks of the `DQM`; set on the instance, not part of its identity."""

    @property
    def reads(self) -> tuple[str, ...]:
        """The tables in which rules look up keys."""
        return () if self.company is None else self.company.tables

    def among_tasks(self, tasks: Tasks) -> Self:
        """Return the same analyzer, to be measured together with all tasks of a `DQM`."""
        object.__setattr__(self, "company", tasks)
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
        """Dataset: a rule may read many columns."""
        return Entity.DATASET

    def tasks(self) -> Tasks:
        """Return the tasks that are measured together."""
        if self.company is None:
            msg = (
                f"{self!r} counts among the other tasks of a DQM; measure it with them: Suite(dqm=)"
            )
            raise IllegalAnalyzerParameterError(msg)
        return self.company

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Request the counts of all tasks."""
        return (RecordRulesRequest(self.tasks()),)

    @abstractmethod
    def before(self) -> Sequence[str]:
        """Return the names of the tasks that the count depends on."""

    def fold(self, cells: Sequence[Any]) -> NumMatchesAndCount:
        """Extract this analyzer's counter from the shared counts."""
        found = _tally(cells)
        for name in (*self.before(), self.instance):
            if name in found.failures:
                raise _evaluation_error(name, found.failures[name])
        counts = self.tasks().of(found.counts)
        return NumMatchesAndCount(counts[self.counted, self.instance], self.of(counts))

    def of(self, counts: dict[tuple[str, str], int]) -> int:
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
        """Return the tasks of the `DQM`; a rule that depends on no other task can stand alone."""
        if self.company is None and self.among is None:
            return Tasks((Rule(self.predicate, self.rule),))
        return super().tasks()

    def statistic(self) -> str:
        """Return the state's key; the count and its share have the same state."""
        of = {"rule": self.predicate, "among": self.among, "counted": self.counted}
        return canonical_json({"state": "rule", **of})

    def before(self) -> Sequence[str]:
        """Return the tasks that decide which records the rule sees."""
        if self.among is None:
            return ()
        return _earlier(self.tasks(), self.rule)


@analyzer
class RuleViolations(_RuleAnalyzer):
    """Number of records for which a rule is false, whichever rule rejects them; null is not false.

    Parameters
    ----------
    rule : str
        The rule's name.
    predicate : str
        The rule's condition as Spark SQL.
    among : str, optional
        Hash of the tasks up to and including the rule, for rules that see repaired values.

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

    def of(self: Any, counts: dict[tuple[str, str], int]) -> int:
        """Return the number of records, less the unknown ones if the rule excludes them."""
        rule = next(rule for rule in self.tasks().rules if rule.name == self.rule)
        out = counts["unknown", rule.name] if rule.on_null == "unknown" else 0
        return counts["records", ""] - out


@analyzer
class RuleRejects(_ExcludesUnknown, _RuleAnalyzer):
    """Records charged to a rule: those it is the first to reject, or those it warns about.

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
        """Return the tasks that decide which records the fix sees, and the fix itself."""
        tasks = self.tasks()
        of = next(f.name for f in tasks.fixes if self.fix in {f.name, *f.counters()})
        return [*_earlier(tasks, of), of]


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
    >>> of = RecordRules(Tasks((Rule("age < 150", "age"),)).identity)
    >>> metric = of.compute_metric_from(RecordCounts((8, 6, 2, 0, 2), {0: 6, 1: 2}))
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
        return self.company or tasks_of(self.tasks)

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Request the counts of all tasks."""
        return (RecordRulesRequest(self.all_tasks()),)

    def fold(self, cells: Sequence[Any]) -> RecordCounts:
        """Return all counts."""
        found = _tally(cells)
        for name, error in found.failures.items():
            raise _evaluation_error(name, error)
        return found.counts

    def measure(self, state: RecordCounts) -> RecordTotals:
        """Return the totals."""
        counts = self.all_tasks().of(state)
        if not counts["records", ""]:
            raise self.no_data()
        fixed = sum(count for (kind, _), count in counts.items() if kind == "fixed")
        records = counts["records", ""]
        return RecordTotals(records, records - counts["kept", ""], fixed)

    def weight(self, state: RecordCounts) -> float:
        """Return the number of records."""
        return self.all_tasks().of(state)["records", ""]


def analyzers_of(tasks: Tasks) -> list[AnyAnalyzer]:
    """Return all analyzers for rules and fixes."""
    found: list[Any] = [RecordRules(tasks.identity)]
    for rule in tasks.rules:
        text, among = rule.expression.predicate, _among(tasks, rule)
        seen = among if rule.stage == "after" else None
        kinds = (RuleViolations, RuleViolationsRatio, RuleUnknown, RuleUnknownRatio)
        found += [kind(rule.name, text, seen) for kind in kinds]
        found += [RuleRejects(rule.name, text, among), RuleRejectsRatio(rule.name, text, among)]
    for fix in tasks.fixes:
        among = _among(tasks, fix)
        for name in fix.counters():
            found += [FixCount(name, among), FixCountRatio(name, among)]
    return [one.among_tasks(tasks) for one in found]


def _earlier(tasks: Tasks, name: str) -> list[str]:
    """Return the names of the tasks before one, in order: rules, fixes, rules on repaired values."""
    order = [*tasks.before, *tasks.fixes, *tasks.after]
    names = [task.name for task in order]
    return names[: names.index(name)]


def _among(tasks: Tasks, task: DQMRule | DQMFix) -> str:
    """Return the hash of a task together with the tasks before it."""
    names = {*_earlier(tasks, task.name), task.name}
    rules = tuple(rule for rule in tasks.rules if rule.name in names)
    fixes = tuple(fix for fix in tasks.fixes if fix.name in names)
    return key_of(Tasks(rules, fixes).identity)[:_HASH]


def _tally(cells: Sequence[Any]) -> Tally:
    """Return the tally; an empty one for a group without records."""
    return cells[0] or Tally(RecordCounts())


def _evaluation_error(name: str, error: MetricError) -> MetricError:
    return error.with_text(f"{_unevaluated(name)}: {error}")


def names_task(error: str, name: str) -> bool:
    """Return whether a stored error says that a task could not be evaluated."""
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
        """Raise an error: a table does not hold the records that could not be read."""
        msg = f"{self!r} is counted while a file is read: ParserValidation, not a table"
        raise IllegalAnalyzerParameterError(msg)

    def requests(self, schema: Schema) -> tuple[Request, ...]:
        """Return no requests."""
        return ()

    def fold(self, cells: Sequence[Any]) -> NumMatchesAndCount:
        """Extract this analyzer's counter from the parser's counts."""
        counts: ParserCounts = cells[0]
        rejects = counts.rejects
        found = sum(rejects.values()) if self.kind == "*" else rejects.get(self.kind, 0)
        return NumMatchesAndCount(found, counts.lines)

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
    """Return the analyzers for a file: of all rejects, and of each kind that occurs."""
    kinds = ["*", *counts.rejects]
    return [kind(of) for of in kinds for kind in (ParserRejects, ParserRejectsRatio)]
