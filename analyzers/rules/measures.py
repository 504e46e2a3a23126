"""What rules and fixes count, as analyzers: measured with all others, remembered, merged, watched.

Each has a small state of its own, so its history goes on when another rule is added to the `DQM`. In one
scan all of a `DQM` come from the same counting. What depends on the tasks before it names them by a hash,
and is measured through the `DQM` that it is of.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from analyzers.analyzer import Analyzer, analyzer
from analyzers.counts import NumMatchesAndCount
from analyzers.description import canonical_json, key_of
from analyzers.errors import IllegalAnalyzerParameterError, MetricError, MetricRuntimeError
from analyzers.metric import Entity, Scale
from analyzers.requests import Masks, Request
from analyzers.rules.layout import Tasks
from analyzers.rules.state import RecordCounts, Tally
from analyzers.rules.stored import tasks_of
from analyzers.rules.tasks import DQMFix, DQMRule, Rule
from analyzers.schema import Schema
from analyzers.state import State

if TYPE_CHECKING:
    pass

AnyAnalyzer = Analyzer[Any, Any]
_HASH = 16
"""Letters of the hash of the tasks that came before."""


def count_or_share(of: Analyzer[NumMatchesAndCount, float], state: NumMatchesAndCount) -> float:
    """Return the count of an analyzer, or the share of the records; a share is empty at zero records."""
    if of.scale is not Scale.RATIO:
        return float(state.num_matches)
    if not state.count:
        raise of.no_data()
    return state.metric_value()


class _OfTasks:
    """How the analyzers of a `DQM` ask for their counts: together."""

    company: ClassVar[Tasks | None] = None
    """All tasks of the `DQM`; set on the instance, and no part of what it is."""

    def among_tasks(self, tasks: Tasks) -> Self:
        """Return the same, to be measured together with all tasks of a `DQM`."""
        object.__setattr__(self, "company", tasks)
        return self


@dataclass(frozen=True, repr=False)
class _TaskAnalyzer(_OfTasks, Analyzer[NumMatchesAndCount, float]):
    """A count of records, or the share of them, of one task."""

    state_type: ClassVar[type[State]] = NumMatchesAndCount
    scale: ClassVar[Scale] = Scale.COUNT
    counted: ClassVar[str]
    """The kind of counter, as `Tasks.counters` has it."""

    @property
    def entity(self) -> Entity:
        """The data set: a rule may read many columns."""
        return Entity.DATASET

    def tasks(self) -> Tasks:
        """Return the tasks that are measured together."""
        if self.company is None:
            msg = (
                f"{self!r} counts among the other tasks of a DQM; measure it with them: Suite(dqm=)"
            )
            raise IllegalAnalyzerParameterError(msg)
        return self.company

    def requests(self, schema: Schema) -> tuple[Request, ...]:  # noqa: ARG002
        """Ask for the counts of all tasks."""
        return (Masks(self.tasks()),)

    @abstractmethod
    def before(self) -> Sequence[str]:
        """Return the tasks without which the count is another."""

    def fold(self, cells: Sequence[Any]) -> NumMatchesAndCount:
        """Take one of the counts."""
        found = _tally(cells)
        for name in (*self.before(), self.instance):
            if name in found.failures:
                raise _because(name, found.failures[name])
        counts = self.tasks().of(found.counts)
        return NumMatchesAndCount(counts[self.counted, self.instance], self.of(counts))

    def of(self, counts: dict[tuple[str, str], int]) -> int:
        """Return how many records the share is taken of."""
        return counts["records", ""]

    def measure(self, state: NumMatchesAndCount) -> float:
        """Return the count; empty at zero records where it is a share."""
        return count_or_share(self, state)

    def weight(self, state: NumMatchesAndCount) -> float:
        """Return the records."""
        return state.count


@dataclass(frozen=True, repr=False)
class _RuleAnalyzer(_TaskAnalyzer):
    rule: str
    predicate: str
    among: str | None = None

    @property
    def instance(self) -> str:
        """The rule."""
        return self.rule

    def tasks(self) -> Tasks:
        """Return the tasks of the `DQM`; a rule that depends on no other may be alone."""
        if self.company is None and self.among is None:
            return Tasks((Rule(self.predicate, self.rule),))
        return super().tasks()

    def statistic(self) -> str:
        """The count and its share are of one state."""
        of = {"rule": self.predicate, "among": self.among, "counted": self.counted}
        return canonical_json({"state": "rule", **of})

    def before(self) -> Sequence[str]:
        """Return the tasks that decide which records the rule sees."""
        if self.among is None:
            return ()
        return _earlier(self.tasks(), self.rule)


@analyzer
class RuleViolations(_RuleAnalyzer):
    """Records for which a rule is false, whichever rule rejects them; null is not false.

    Parameters
    ----------
    rule : str
        The rule's name.
    predicate : str
        What it says, as Spark SQL.
    among : str, optional
        A hash of the tasks before it, where it sees repaired values.

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
    """Records for which a rule is null.

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


class _Charged:
    """The share of a rule that leaves out what is unknown is of the records that are known."""

    def of(self: Any, counts: dict[tuple[str, str], int]) -> int:
        """Return the records, less those that are unknown where the rule says so."""
        rule = next(rule for rule in self.tasks().rules if rule.name == self.rule)
        out = counts["unknown", rule.name] if rule.on_null == "unknown" else 0
        return counts["records", ""] - out


@analyzer
class RuleRejects(_Charged, _RuleAnalyzer):
    """Records that a rule is charged with: those that it is the first to reject, or of which it warns.

    Examples
    --------
    >>> RuleRejects("age", "age < 150", "f00d").compute_metric_from(NumMatchesAndCount(2, 8)).value
    2.0
    """

    counted: ClassVar[str] = "charged"


@analyzer
class RuleRejectsRatio(_Charged, _RuleAnalyzer):
    """Share of the records that a rule is charged with; empty at zero records.

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
        """The fix, or one side of it."""
        return self.fix

    def statistic(self) -> str:
        """The count and its share are of one state."""
        return canonical_json({"state": "fix", "fix": self.fix, "among": self.among})

    def before(self) -> Sequence[str]:
        """Return the tasks that decide which records the fix sees."""
        tasks = self.tasks()
        of = next(f.name for f in tasks.fixes if self.fix in {f.name, *f.counters()})
        return [*_earlier(tasks, of), of]


@analyzer
class FixCount(_FixAnalyzer):
    """Values that a fix repaired, of the records that no rule rejected before.

    Parameters
    ----------
    fix : str
        Its name; ``name.low`` and ``name.high`` for the sides of a `BoundFix`.
    among : str
        A hash of the rules and fixes before it, and itself.

    Examples
    --------
    >>> FixCount("cap", "f00d").compute_metric_from(NumMatchesAndCount(2, 8)).value
    2.0
    """


@analyzer
class FixCountRatio(_FixAnalyzer):
    """Values that a fix repaired, by the records before any rule; empty at zero records.

    Examples
    --------
    >>> FixCountRatio("cap", "f00d").compute_metric_from(NumMatchesAndCount(2, 8)).value
    0.25
    """

    scale: ClassVar[Scale] = Scale.RATIO


@dataclass(frozen=True)
class RecordTotals:
    """What all rules and fixes together did.

    Attributes
    ----------
    records, rejected, fixed : int
        Records, records that were rejected, values that were repaired.
    """

    records: int
    rejected: int
    fixed: int

    def scalars(self) -> Iterator[tuple[str, float]]:
        """Yield the records that were rejected, their share, and the values that were repaired."""
        yield "rejected", float(self.rejected)
        yield "rejectedRatio", self.rejected / self.records
        yield "fixed", float(self.fixed)


@analyzer
class RecordRules(_OfTasks, Analyzer[RecordCounts, RecordTotals]):
    """All rules and fixes of a `DQM` together: which combinations of rules how many records break.

    Its metrics are ``RecordRules.rejected``, ``RecordRules.rejectedRatio`` and ``RecordRules.fixed``. From
    its state every policy can be asked again, without the data. Empty at zero records.

    Parameters
    ----------
    tasks : str
        The rules and fixes as canonical JSON.

    Examples
    --------
    >>> from analyzers.rules.layout import Tasks
    >>> from analyzers.metric import flatten
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
        """The data set."""
        return Entity.DATASET

    @property
    def instance(self) -> str:
        """All of it."""
        return "*"

    def scale_of(self, metric_name: str) -> Scale:
        """Return how the values of one flattened metric behave."""
        return Scale.RATIO if metric_name.endswith("Ratio") else Scale.COUNT

    def all_tasks(self) -> Tasks:
        """Return the rules and fixes."""
        return self.company or tasks_of(self.tasks)

    def requests(self, schema: Schema) -> tuple[Request, ...]:  # noqa: ARG002
        """Ask for the counts of all tasks."""
        return (Masks(self.all_tasks()),)

    def fold(self, cells: Sequence[Any]) -> RecordCounts:
        """Take all counts."""
        found = _tally(cells)
        for name, error in found.failures.items():
            raise _because(name, error)
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
        """Return the records."""
        return self.all_tasks().of(state)["records", ""]


def analyzers_of(tasks: Tasks) -> list[AnyAnalyzer]:
    """Return all that is measured of some rules and fixes."""
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
    """Return the names of the tasks that come before one: rules, fixes, rules of repaired values."""
    order = [*tasks.before, *tasks.fixes, *tasks.after]
    names = [task.name for task in order]
    return names[: names.index(name)]


def _among(tasks: Tasks, task: DQMRule | DQMFix) -> str:
    """Return the hash of a task with those before it."""
    names = {*_earlier(tasks, task.name), task.name}
    rules = tuple(rule for rule in tasks.rules if rule.name in names)
    fixes = tuple(fix for fix in tasks.fixes if fix.name in names)
    return key_of(Tasks(rules, fixes).identity)[:_HASH]


def _tally(cells: Sequence[Any]) -> Tally:
    """Return what was counted; in a group without records nothing was."""
    return cells[0] or Tally(RecordCounts())


def _because(name: str, error: MetricError) -> MetricError:
    return MetricRuntimeError(f"{name!r} could not be evaluated: {error}")
