"""What came of running rules files: status and report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from analyzers.rules.result import CheckResult
from analyzers.rules.state import DQMState, Sample
from analyzers.rules.tasks import DQMFix, DQMRule
from tidegauge.analysis import Run
from tidegauge.rulesfile import RulesFile

_SHOWN = 20
"""Partitions with failed policies that a summary names."""


class FailOn(StrEnum):
    """When the data has failed."""

    POLICY = "policy"
    REJECT = "reject"
    NEVER = "never"


@dataclass(frozen=True)
class RulesRun:
    """What came of one rules file.

    Attributes
    ----------
    file : RulesFile
    run : Run
    state : DQMState
        What was counted in the partitions that were judged.
    checks : mapping of str to CheckResult
        The verdict on each partition that was scanned or not judged so before; if there is none, the verdicts of
        the last run that had any.
    parser : CheckResult or None
        The verdict on how the file could be read.
    samples : sequence of Sample
        Records that broke rules in what was scanned.
    written : sequence of str
        What was written, in words.
    """

    file: RulesFile
    run: Run
    state: DQMState
    checks: Mapping[str, CheckResult]
    parser: CheckResult | None = None
    samples: Sequence[Sample] = ()
    written: Sequence[str] = ()

    @property
    def refused(self) -> dict[str, CheckResult]:
        """The verdicts that failed, by partition; the parser's under its own name."""
        found = {name: check for name, check in self.checks.items() if not check.passed}
        if self.parser is not None and not self.parser.passed:
            found["parser"] = self.parser
        return found

    def failed(self, fail_on: FailOn) -> bool:
        """Whether the data has failed."""
        rejected = fail_on is FailOn.REJECT and self.state.rejects > 0
        return fail_on is not FailOn.NEVER and (bool(self.refused) or rejected)

    def lines(self) -> Iterator[str]:
        """Yield the lines of a report."""
        yield str(self.run)
        state, tasks = self.state, self.file.dqm.tasks
        yield f"  {state.records} records, {state.rejects} rejected"
        for rule in tasks.ordered:
            yield f"  rule {rule.name}: {_told_of_rule(rule, state)}"
            yield from (f"    {sample}" for sample in self.samples if sample.task == rule.name)
        for fix in tasks.fixes:
            yield f"  fix {fix.name}: {_told_of_fix(fix, state)}"
        if self.parser is not None:
            yield from (f"  {line}" for line in self.parser.check_log)
        yield from (f"  {analyzer!r}: {error}" for analyzer, error in self.run.failed.items())
        refused = list(self.refused.items())
        for name, check in refused[:_SHOWN]:
            yield f"  {name or self.run.dataset}: {check}"
        if len(refused) > _SHOWN:
            yield f"  and {len(refused) - _SHOWN} partitions more: tidegauge rules history"
        yield from (f"  {line}" for line in self.written)


@dataclass
class RulesSummary:
    """What came of some rules files.

    Attributes
    ----------
    runs : list of RulesRun
    failed : list of str
        One sentence for each file that could not be run.
    """

    runs: list[RulesRun] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def status(self, fail_on: FailOn = FailOn.POLICY) -> int:
        """Return the worst status: tidegauge's failure outranks the data's."""
        if self.failed or any(one.run.failed for one in self.runs):
            return 1
        return 2 if any(one.failed(fail_on) for one in self.runs) else 0

    def lines(self) -> Iterator[str]:
        """Yield the lines of a report."""
        for one in self.runs:
            yield from one.lines()
        yield from (f"failed: {problem}" for problem in self.failed)


def _told_of_rule(rule: DQMRule, state: DQMState) -> str:
    if rule.name in state.errors:
        return state.errors[rule.name]
    did = "rejected" if rule.rejects else "warned of"
    told = f"{state.rule_count(rule.name)} {did}, {state.violations(rule.name)} break it"
    unknown = state.unknown(rule.name)
    return f"{told}, {unknown} unknown" if unknown else told


def _told_of_fix(fix: DQMFix, state: DQMState) -> str:
    if fix.name in state.errors:
        return state.errors[fix.name]
    arms = [
        f"{state.fix_count(n)} {a.label}" for n, a in zip(fix.counters(), fix.arms, strict=True)
    ]
    sides = f" ({', '.join(arms)})" if len(arms) > 1 else ""
    return f"{state.fix_count(fix.name)} values fixed{sides}"
