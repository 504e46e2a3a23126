"""Analyzers for rules and fixes: violation, reject and repair counts as ordinary metrics.

They are measured with all other analyzers, stored, merged and monitored like them. Each has a small
state of its own, so its history continues when another rule is added to the `DQM`. All analyzers of
a `DQM` share one scan request. An analyzer whose count depends on earlier tasks identifies them by
a hash and must be measured through its `DQM`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from tidegauge.analyzers.core.analyzer import Analyzer, AnyAnalyzer, analyzer
from tidegauge.analyzers.core.description import canonical_json, key_of
from tidegauge.analyzers.core.errors import (
    IllegalAnalyzerParameterError,
    MetricError,
)
from tidegauge.analyzers.core.metric import Entity, Scale
from tidegauge.analyzers.core.requests import Request
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.state import State
from tidegauge.analyzers.measures.counts import NumMatchesAndCount
from tidegauge.rules.layout import RecordRulesRequest, Tasks
from tidegauge.rules.serialization import tasks_of
from tidegauge.rules.state import RecordCounts, Tally
from tidegauge.rules.tasks import DQMFix, DQMRule, Rule

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
    >>> from tidegauge.rules.layout import Tasks
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
