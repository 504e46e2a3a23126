"""Report and exit status of a rules run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tidegauge.analysis import Run
from tidegauge.analyzers.core.evidence import NO_DATA, with_status
from tidegauge.analyzers.core.formatting import plural
from tidegauge.display.fail_on import FailOn
from tidegauge.display.junit import JUnitCase, Kind, junit_xml
from tidegauge.files.dqm import DQM_NAME
from tidegauge.files.rules import RulesFile
from tidegauge.notifications.notify import Notice, summarize
from tidegauge.outcome import Cause, Gate, Outcome, Problem, outcome_of
from tidegauge.rules.outcome.known import (
    KnownFailures,
    problems_of_policies,
    problems_of_run,
)
from tidegauge.rules.outcome.result import RECORDS, CheckResult
from tidegauge.rules.state import DQMState, Sample
from tidegauge.rules.tasks import DQMFix, DQMRule

_SHOWN = 20
"""Most partitions with failed policies that a report lists."""
_SAMPLES_SHOWN = 5
"""Most samples of a partition that was judged earlier."""
_UNEVALUATED = "could not be evaluated"


@dataclass(frozen=True)
class RulesRun:
    """Result of running one rules file.

    Attributes
    ----------
    file : RulesFile
    run : Run
    state : DQMState
        The counts of the partitions that were scanned; if none was, of all.
    checks : mapping of str to CheckResult
        The verdicts by partition, as in `Run.checks`.
    parser : CheckResult or None
        The parser's verdict on the records that could not be read; None for a table.
    samples : sequence of Sample
        Scanned records that broke rules.
    written : sequence of str
        One line for each table or folder written, or not written.
    problem : str
        The error with which writing ended; empty if there was none.
    known : KnownFailures or None
        The failed verdicts that do not fail the run; None if there is none.
    """

    file: RulesFile
    run: Run
    state: DQMState
    checks: Mapping[str, CheckResult]
    parser: CheckResult | None = None
    samples: Sequence[Sample] = ()
    written: Sequence[str] = ()
    problem: str = ""
    known: KnownFailures | None = None

    def problems(self) -> Iterator[Problem]:
        """Yield the problems that keep the table from passing."""
        dataset, name = self.run.dataset, self.file.dqm.name
        known = self.known or KnownFailures(dataset)
        if self.problem:
            yield Problem(Cause.WRITING, dataset)
        yield from problems_of_run(replace(self.run, checks={}), known)
        for _ in self.state.errors:
            yield Problem(Cause.ANALYZER, dataset)
        yield from problems_of_policies(self.run, self.checks, known, name)
        if self.parser is not None and not self.parser.passed:
            yield Problem(Cause.POLICY, dataset)
        if self.state.rejects:
            yield Problem(Cause.REJECTS, dataset)

    def is_known(self, partition: str) -> bool:
        """Return whether the failed verdict on a partition does not fail the run."""
        return self.known is not None and self.known.has_verdict(self.file.dqm.name, partition)

    @property
    def refused(self) -> dict[str, CheckResult]:
        """The failed verdicts by partition; the parser's under ``parser``."""
        found = {name: check for name, check in self.checks.items() if not check.passed}
        if self.parser is not None and not self.parser.passed:
            found["parser"] = self.parser
        return found

    def lines(self, options: str = "") -> Iterator[str]:
        """Yield the lines of a report; the commands that it names get these options."""
        yield str(self.run)
        for name, why in self.run.unreadable.items():
            yield f"  {name}: cannot be read: {why}"
        state, tasks = self.state, self.file.dqm.tasks
        name = "" if self.file.dqm.name == DQM_NAME else f"{self.file.dqm.name}: "
        yield f"  {name}{state.records} records, {state.rejects} rejected"
        for rule in tasks.ordered:
            yield f"  rule {rule.name}: {_rule_summary(rule, state)}"
            yield from (f"    {sample}" for sample in self.samples if sample.task == rule.name)
        for fix in tasks.fixes:
            yield f"  fix {fix.name}: {_fix_summary(fix, state)}"
        if self.parser is not None:
            yield from (f"  {line}" for line in self.parser.check_log)
        for name, error in self.state.errors.items():
            yield f"  {self.file.place(name)}: {error}"
        yield from self._refused_lines(options)
        shown = self.run.changes or self.checks
        unjudged = [(name, c) for name, c in self.checks.items() if c.passed and c.no_data]
        for name, check in [pair for pair in unjudged if pair[0] in shown][:_SHOWN]:
            yield f"  {name or self.run.dataset}: {check}"
        yield from (f"  {line}" for line in self.written)
        if self.problem:
            yield f"failed: {self.file.path}: {self.problem}"

    def _refused_lines(self, options: str) -> Iterator[str]:
        refused = sorted(self.refused.items(), key=lambda pair: self.is_known(pair[0]))
        for name, check in refused[:_SHOWN]:
            prefix = "known: " if self.is_known(name) else ""
            yield f"  {prefix}{name or self.run.dataset}: {self._told(check)}"
            if name not in self.run.changes and check is not self.parser:  # else they are above
                known = self.state.errors.values()
                samples = [sample for sample in check.samples if sample not in known]
                yield from (f"    {sample}" for sample in samples[:_SAMPLES_SHOWN])
                yield from ["    ..."] * (len(samples) > _SAMPLES_SHOWN)
        if len(refused) > _SHOWN:
            yield f"  and {len(refused) - _SHOWN} more partitions; see: tidegauge rules history"
        if self.known is not None:
            name = self.file.dqm.name
            yield from self.known.advice(
                [(name, p) for p in self.refused if p != "parser"], options
            )

    def record(self) -> dict[str, Any]:
        """Return the run as JSON values: counts, samples, failed verdicts, and what was written."""
        state, tasks = self.state, self.file.dqm.tasks
        return {
            "file": str(self.file.path),
            "dataset": self.run.dataset,
            "run_id": self.run.id,
            "status": self.run.status,
            "scanned": sorted(self.run.changes),
            "unreadable": {name: str(why) for name, why in self.run.unreadable.items()},
            "records": state.records,
            "rejected": state.rejects,
            "rules": [self._rule_record(rule) for rule in tasks.ordered],
            "fixes": [
                {
                    "name": fix.name,
                    "fixed": None if fix.name in state.errors else state.fix_count(fix.name),
                    "error": _error(state, fix.name),
                }
                for fix in tasks.fixes
            ],
            "parser": None if self.parser is None else _verdict(self.parser),
            "failed": {name: _verdict(check) for name, check in sorted(self.refused.items())},
            "known": sorted(name for name in self.refused if self.is_known(name)),
            "no_data": sorted(name for name, c in self.checks.items() if c.status == NO_DATA),
            "written": list(self.written),
            "problem": self.problem or None,
        }

    def cases(self, gate: Gate) -> Iterator[JUnitCase]:
        """Yield the cases of JUnit: each rule and fix, then each policy on each partition."""
        state, dataset = self.state, self.run.dataset
        for rule in self.file.dqm.tasks.ordered:
            rejected = (
                rule.rejects and rule.name not in state.errors and state.rule_count(rule.name)
            )
            kind: Kind = "failure" if rejected and gate.rejects else "passed"
            case = self._case(f"rule {rule.name}", rule.name, _rule_summary(rule, state), kind)
            samples = [str(sample) for sample in self.samples if sample.task == rule.name]
            yield replace(case, details=samples)
        for fix in self.file.dqm.tasks.fixes:
            yield self._case(f"fix {fix.name}", fix.name, _fix_summary(fix, state))
        judged = dict(self.checks) | ({} if self.parser is None else {"parser": self.parser})
        for partition, check in judged.items():
            of = ".".join(filter(None, (dataset, partition)))
            messages = dict(check.error_messages)
            samples = check.samples
            for name in dict.fromkeys([*dict(check.outcomes), *messages]):
                is_known = self.is_known(partition)
                failed = name in messages and gate.failures and not is_known
                reasons = dict(check.no_data)
                reason = reasons.get(name, reasons.get(RECORDS))
                unjudged = reason is not None and (name in reasons or name not in messages)
                skipped = unjudged or (name in messages and is_known)
                kind = "failure" if failed else "skipped" if skipped else "passed"
                yield JUnitCase(
                    of,
                    name,
                    kind,
                    messages.get(name, with_status(reason) if reason and unjudged else ""),
                    self.file.place(name),
                    samples,
                    NO_DATA if unjudged else "",
                )
        for partition, why in self.run.unreadable.items():
            yield JUnitCase(f"{dataset}.{partition}", "reading", "error", str(why))
        for analyzer, error in self.run.failed.items():
            yield JUnitCase(dataset, str(analyzer), "error", str(error))
        if self.problem:
            yield JUnitCase(dataset, "writing", "error", self.problem)

    def _case(self, title: str, task: str, told: str, kind: Kind = "passed") -> JUnitCase:
        """Return the case of a rule or fix, which is an error if it could not be evaluated."""
        error = _error(self.state, task)
        of, place = self.run.dataset, self.file.place(task)
        if kind == "passed" and not self.state.records:
            kind, told = "skipped", with_status("there is no record to judge")
        return JUnitCase(of, title, "error" if error else kind, error or told, place)

    def _rule_record(self, rule: DQMRule) -> dict[str, Any]:
        state, name = self.state, rule.name
        counted = name not in state.errors
        return {
            "name": name,
            "place": self.file.place(name),
            "severity": str(rule.severity),
            "rejected" if rule.rejects else "warned": state.rule_count(name) if counted else None,
            "violations": state.violations(name) if counted else None,
            "unknown": state.unknown(name) if counted else None,
            "error": _error(state, name),
            "samples": [asdict(sample) for sample in self.samples if sample.task == name],
        }

    def _told(self, check: CheckResult) -> str:
        """Return a failed verdict in one line, without errors that the report tells already."""
        known = self.state.errors
        messages = (
            (name, _UNEVALUATED if known.get(name) == message else message)
            for name, message in check.error_messages
        )
        return str(replace(check, error_messages=tuple(messages)))


@dataclass
class RulesSummary:
    """Results of running several rules files.

    Attributes
    ----------
    runs : list of RulesRun
    failed : list of str
        One message for each file that could not be run.
    notices : list of Notice
        Notifications of verdicts, sent and failed.
    """

    runs: list[RulesRun] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)

    def problems(self) -> Iterator[Problem]:
        """Yield the problems that keep the tables from passing."""
        for _ in self.failed:
            yield Problem(Cause.FILE)
        for one in self.runs:
            yield from one.problems()

    def outcome(self, fail_on: FailOn = FailOn.POLICY) -> Outcome:
        """Return the meaning of the results."""
        return outcome_of(self.problems(), fail_on.gate)

    def status(self, fail_on: FailOn = FailOn.POLICY) -> int:
        """Return the worst exit status: 1 if a run failed, else 2 if the data failed, else 0."""
        return self.outcome(fail_on).exit_status

    def lines(self, options: str = "") -> Iterator[str]:
        """Yield the lines of a report; the commands that it names get these options."""
        for one in self.runs:
            yield from one.lines(options)
        if self.notices:
            yield summarize(self.notices)
        yield from (f"failed: {problem}" for problem in self.failed)

    def text(self, options: str = "") -> str:
        """Return the report as text; the commands that it names get these options."""
        return "\n".join(self.lines(options))

    def json(self, fail_on: FailOn = FailOn.POLICY) -> str:
        """Return JSON: the exit status, each run, files that could not be run, and notifications."""
        told = {
            "status": self.status(fail_on),
            "outcome": self.outcome(fail_on),
            "runs": [one.record() for one in self.runs],
            "failed": self.failed,
            "notifications": summarize(self.notices) if self.notices else None,
        }
        return json.dumps(told, indent=1, ensure_ascii=False)

    def junit(self, fail_on: FailOn = FailOn.POLICY) -> str:
        """Return JUnit XML: a suite for each file, with a case for each rule, fix and verdict."""
        suites = [
            (f"{one.file.dqm.name} of {one.run.dataset}", list(one.cases(fail_on.gate)))
            for one in self.runs
        ]
        return junit_xml(suites, self.failed)


def _verdict(check: CheckResult) -> Any:
    return json.loads(check.to_json())


def _error(state: DQMState, name: str) -> str | None:
    error = state.errors.get(name)
    return None if error is None else str(error)


def _rule_summary(rule: DQMRule, state: DQMState) -> str:
    if rule.name in state.errors:
        return _UNEVALUATED
    did = "rejected" if rule.rejects else "warned of"
    told = f"{state.rule_count(rule.name)} {did}, {state.violations(rule.name)} break it"
    unknown = state.unknown(rule.name)
    return f"{told}, {unknown} unknown" if unknown else told


def _fix_summary(fix: DQMFix, state: DQMState) -> str:
    if fix.name in state.errors:
        return _UNEVALUATED
    arms = [
        f"{state.fix_count(n)} {a.label}" for n, a in zip(fix.counters(), fix.arms, strict=True)
    ]
    sides = f" ({', '.join(arms)})" if len(arms) > 1 else ""
    return f"{plural(state.fix_count(fix.name), 'value')} fixed{sides}"
