"""The definition of a `DQM`: rules, fixes and policies, their identity, and the verdict on counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

from tidegauge.analyzers.core.analyzer import AnyAnalyzer
from tidegauge.analyzers.core.description import canonical_json, key_of
from tidegauge.analyzers.core.errors import RuleError
from tidegauge.analyzers.core.formatting import plural
from tidegauge.analyzers.core.frames import check_frame
from tidegauge.analyzers.scan.read_errors import explained_read_errors
from tidegauge.rules.layout import Tasks
from tidegauge.rules.masks import Masked, mask
from tidegauge.rules.measures import analyzers_of
from tidegauge.rules.outcome.result import RECORDS, CheckResult
from tidegauge.rules.outcome.validation import ValidationTask
from tidegauge.rules.policies import (
    DQMPolicy,
    DQMTaskPolicy,
    FailNone,
    FailParserCountPolicy,
    as_task_policy,
)
from tidegauge.rules.samples import SAMPLES, sample_charged
from tidegauge.rules.serialization import policy_of, task_of, task_policy_of
from tidegauge.rules.state import DQMState, RecordCounts, Tally
from tidegauge.rules.tally import tally
from tidegauge.rules.tasks import DQMFix, DQMRule, DQMTask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class DQMDefinition(ValidationTask):
    """Rules, fixes and policies without the methods that apply them to frames; see `DQM`."""

    def __init__(self, name: str = "dqm") -> None:
        if not isinstance(name, str) or not name.strip():  # type: ignore[redundant-expr]  # users err
            msg = f"the name of a DQM is a text that is not empty, not {name!r}"
            raise RuleError(msg)
        self.name = name
        self.tasks = Tasks()
        self.task_policies: tuple[tuple[DQMTask, DQMTaskPolicy], ...] = ()
        self.policies: tuple[DQMPolicy, ...] = ()
        self._action = False

    def add(
        self, what: DQMRule | DQMFix | DQMPolicy | Any, policy: DQMTaskPolicy | Any = None
    ) -> Self:
        """Return a copy with an additional rule, fix or policy.

        Parameters
        ----------
        what : DQMRule, DQMFix, DQMPolicy or callable
            A function is a policy with the name of the function.
        policy : DQMTaskPolicy, optional
            Threshold on the count of the rule or fix; default: no limit.

        Raises
        ------
        RuleError
            If ``what`` is none of these, a name is taken, or a policy is given a task policy.
        """
        if isinstance(what, DQMRule | DQMFix):
            return self._with_task(what, as_task_policy(FailNone if policy is None else policy))
        made = what if isinstance(what, DQMPolicy) or not callable(what) else DQMPolicy(what)
        if not isinstance(made, DQMPolicy):
            msg = f"add() takes a rule, a fix or a policy, not {what!r}"
            if isinstance(what, DQMTaskPolicy):
                msg += "; a task policy goes with its rule: add(rule, policy)"
            raise RuleError(msg)
        if policy is not None:
            msg = f"{made!r} is a policy of all data, and has none of its own"
            raise RuleError(msg)
        if made.name in {p.name for p in self.policies} | self._names():
            msg = f"the name {made.name!r} is taken; give the policy another"
            raise RuleError(msg)
        return self._copy(policies=(*self.policies, made))

    def named(self, name: str) -> Self:
        """Return a copy of another name."""
        return self._copy(name=name)

    def add_action(self) -> Self:
        """Return a copy that reads the data even without rules and fixes."""
        return self._copy(_action=True)

    def _with_task(self, task: DQMRule | DQMFix, policy: DQMTaskPolicy) -> Self:
        own = {task.name, *(task.counters() if isinstance(task, DQMFix) else ())}
        taken = self._names() | {p.name for p in self.policies}
        if own & taken:
            msg = f"the name {min(own & taken)!r} is taken; give the {'rule' if isinstance(task, DQMRule) else 'fix'} another: name="
            raise RuleError(msg)
        rules, fixes = self.tasks.rules, self.tasks.fixes
        tasks = (
            Tasks((*rules, task), fixes)
            if isinstance(task, DQMRule)
            else Tasks(rules, (*fixes, task))
        )
        return self._copy(tasks=tasks, task_policies=(*self.task_policies, (task, policy)))

    def _names(self) -> set[str]:
        arms = (name for fix in self.tasks.fixes for name in fix.counters())
        return {task.name for task, _ in self.task_policies} | set(arms)

    def _copy(self, **changes: Any) -> Self:
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__, **changes)
        return made

    @property
    def needs_action(self) -> bool:
        """Return whether data must be read to be judged: for a rule, a fix or a user's policy."""
        asked = any(policy.needs_action for policy in self.policies)
        return self._action or bool(self.task_policies) or asked

    def identity(self) -> dict[str, Any]:
        """Return rules, fixes and policies as JSON values."""
        return {
            "dqm": self.name,
            "tasks": [task.identity() for task in (*self.tasks.rules, *self.tasks.fixes)],
            "minded": sorted([task.name, policy.identity()] for task, policy in self.task_policies),
            "policies": [policy.identity() for policy in self.policies],
        }

    @classmethod
    def from_identity(cls, kept: Mapping[str, Any]) -> Self:
        """Return what an `identity` tells, less the code of users' functions.

        Examples
        --------
        >>> import tidegauge as tg
        >>> dqm = tg.DQM("ages").add(tg.Rule("age < 150", "age"), tg.FailAny).add(tg.FailTotalRuleCountPolicy(3))
        >>> tg.DQM.from_identity(dqm.identity()) == dqm
        True
        """
        try:
            made = cls(kept["dqm"])
            policies = {name: task_policy_of(minded) for name, minded in kept["minded"]}
            for one in kept["tasks"]:
                task = task_of(one)
                made = made.add(task, policies[task.name])
            for one in kept["policies"]:
                made = made.add(policy_of(one))
        except (KeyError, TypeError, ValueError) as error:
            msg = f"not the identity of a DQM: {str(kept)[:80]!r}"
            raise RuleError(msg) from error
        return made

    def __eq__(self, other: object) -> bool:
        """Compare by identity."""
        return isinstance(other, DQMDefinition) and self.identity() == other.identity()

    def __hash__(self) -> int:
        """Hash the identity."""
        return hash(self.specification)

    def analyzers(self) -> list[AnyAnalyzer]:
        """Return the analyzers for all rules and fixes, to be measured with other analyzers."""
        return analyzers_of(self.tasks) if self.needs_action else []

    @property
    def specification(self) -> str:
        """Hash of the identity, including the source of users' functions."""
        return key_of(canonical_json(self.identity()))

    def count(self, data: DataFrame) -> DQMState:
        """Return the counts of a frame, not final yet; one pass, none if no task needs it."""
        whole = self.tally(data)
        return self.tasks.state(whole.counts, whole.failures)

    def tally(self, data: DataFrame) -> Tally:
        """Return the mergeable counts of a frame; one pass, none if no task needs it.

        Raises
        ------
        SourceError
            If the data is not a DataFrame of Spark, or is a stream.
        """
        check_frame(data)
        if not self.needs_action:
            return Tally(RecordCounts())
        with explained_read_errors():
            return total(tally(data, self.tasks).values())

    def validate(self, data: DataFrame) -> CheckResult:
        """Judge a frame that rules and fixes were not applied to yet.

        One pass counts; if records break rules, a second pass over these takes the samples in the
        verdict's log.
        """
        whole = self.tally(data)
        masked = mask(data, self.tasks, whole.failures)
        return self.judge(self.final_state(whole, masked), masked.kept)

    def final_state(self, whole: Tally, masked: Masked, samples: int = SAMPLES) -> DQMState:
        """Return counts as a final state, with samples of the masked frame."""
        state = self.tasks.state(whole.counts, whole.failures)
        for sample in sample_charged(masked, whole.counts, samples):
            state.add_sample(sample)
        state.snapshot()
        return state

    def validate_written(self, data: DataFrame) -> CheckResult:
        """Raise a `RuleError`: the kept records do not show what was rejected.

        Raises
        ------
        RuleError
        """
        msg = (
            f"{self.name!r} cannot judge by what its own rules left: attach it before the data is written,"
            " attached = dqm.attach(df), write attached.data, and validate with the task attached"
        )
        raise RuleError(msg)

    def judge(self, state: DQMState, data: DataFrame | None = None) -> CheckResult:
        """Return the verdict on counts that are final.

        Parameters
        ----------
        state : DQMState
            Counts of this run or of a past one.
        data : DataFrame, optional
            The frame after rules and fixes, for policies that need it.

        Raises
        ------
        RuleError
            If a policy needs the data and none is given.
        """
        verdicts: list[tuple[str, str | None]] = []
        warnings: list[tuple[str, str]] = []
        rules = [(t, p) for t, p in self.task_policies if isinstance(t, DQMRule)]
        fixes = [(t, p) for t, p in self.task_policies if not isinstance(t, DQMRule)]
        for task, minded in rules + fixes:
            failed = state.errors.get(task.name)
            if isinstance(minded, FailNone) and failed is None:
                if isinstance(task, DQMRule) and (warning := _warning(task, state)):
                    warnings.append((task.name, warning))
                continue
            if isinstance(task, DQMRule):
                counts = state.rule_count(task.name), state.rule_records(task.name)
            else:
                counts = state.fix_count(task.name), state.records
            reason = failed or minded.refusal(*counts)
            if reason and not failed and isinstance(task, DQMRule) and task.message:
                reason = f"{task.message}: {reason}"
            verdicts.append((task.name, reason))
        verdicts += [(policy.name, policy.refusal(state, data)) for policy in self.policies]
        judged = state.records or state.errors or not self.needs_action
        return CheckResult(
            passed=all(reason is None for _, reason in verdicts),
            error_messages=tuple((name, reason) for name, reason in verdicts if reason is not None),
            check_log=(*state.log(), *self._unparsed(state)),
            outcomes=tuple((name, reason is None) for name, reason in verdicts),
            warnings=tuple(warnings),
            no_data=() if judged else ((RECORDS, "there is no record to judge"),),
        )

    @property
    def parser_policies(self) -> tuple[DQMPolicy, ...]:
        """The policies on records that a parser could not read."""
        return tuple(p for p in self.policies if isinstance(p, FailParserCountPolicy))

    def without_parser_policies(self) -> Self:
        """Return a copy without the parser policies."""
        return self._copy(
            policies=tuple(p for p in self.policies if not isinstance(p, FailParserCountPolicy))
        )

    def _unparsed(self, state: DQMState) -> Iterator[str]:
        """Yield a log line for each parser policy if nothing was parsed."""
        for policy in self.parser_policies:
            if not state.lines:
                yield f"policy {policy.name}: no file was parsed here, so it has nothing to count"

    def __repr__(self) -> str:
        """Return the numbers of rules, fixes and policies."""
        rules, fixes = len(self.tasks.rules), len(self.tasks.fixes)
        return f"DQM({plural(rules, 'rule')}, {plural(fixes, 'fix', 'fixes')}, {plural(len(self.policies), 'policy', 'policies')})"


def _warning(rule: DQMRule, state: DQMState) -> str:
    """Return the warning of a rule that does not reject, and has no policy; empty if all satisfy it."""
    count = 0 if rule.rejects else state.rule_count(rule.name)
    told = f"{count} of {state.rule_records(rule.name)} records break it" if count else ""
    return f"{rule.message}: {told}" if told and rule.message else told


def total(groups: Iterable[Tally]) -> Tally:
    """Return the counts and failures of all groups together."""
    groups = list(groups)
    counts = RecordCounts.merge([group.counts for group in groups])
    failures = {name: error for group in groups for name, error in group.failures.items()}
    return Tally(counts, failures)
