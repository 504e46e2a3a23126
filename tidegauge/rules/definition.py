"""The definition of a `DQM`, and the result of applying one to a frame.

A `DQMDefinition` holds rules, fixes and policies, their identity, and the verdict on counts. `Applied` has the
kept records, rejects, verdict and metrics of one frame.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from tidegauge.analyzers.core.analyzer import AnyAnalyzer
from tidegauge.analyzers.core.errors import RuleError, VerdictWarning
from tidegauge.analyzers.core.formatting import Markup, plural
from tidegauge.analyzers.core.metric import Failure, Metric, attempt, flatten
from tidegauge.analyzers.core.partitions import Partition, Values
from tidegauge.analyzers.core.registry import canonical_json, key_of
from tidegauge.analyzers.core.schema import Schema, check_frame
from tidegauge.analyzers.core.sql import quote
from tidegauge.analyzers.scan.spark_errors import explained_read_errors
from tidegauge.analyzers.sources.targets import WriteTarget, check_mode, keys_for, open_target
from tidegauge.analyzers.sources.targets import replace as replace_records
from tidegauge.display.html import card, heading, marked, note, pairs
from tidegauge.repository.store.config import privacy_settings
from tidegauge.rules.masks import Masked, mask
from tidegauge.rules.measures import (
    analyzers_of,
    parser_analyzers,
    policy_of,
    task_of,
    task_policy_of,
)
from tidegauge.rules.policies import (
    DQMPolicy,
    DQMTaskPolicy,
    FailNone,
    FailParserCountPolicy,
    as_task_policy,
)
from tidegauge.rules.record_counts import DQMState, RecordCounts, Tally, Tasks
from tidegauge.rules.tally import SAMPLES, Tallies, sample_charged, tally
from tidegauge.rules.tasks import DQMFix, DQMRule, DQMTask
from tidegauge.rules.verdicts import RECORDS, CheckResult, ValidationTask

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from tidegauge.analyzers.core.privacy import Privacy
    from tidegauge.rules.file_parser import ParserCounts, ParserValidation


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


BROKEN = "broken_rules"


@dataclass(frozen=True, repr=False)
class Applied:
    """Result of applying a `DQM` to a frame.

    Attributes
    ----------
    dqm : DQM
    masked : Masked
        The frame with the bit words of rules and fixes.
    state : DQMState
        The counts of the whole frame, final.
    check : CheckResult
    by : tuple of str
        The partition columns.
    tallies : mapping of tuple of str to Tally
        The counts by the values of the partition columns.
    parsed : ParserCounts or None
        The parser's counts, if the data is a file.
    run : int or None
        Id of the repository run that recorded the counts.

    Examples
    --------
    >>> import tidegauge as tg
    >>> riders = tg.spark_session().sql("SELECT explode(array(34, -1, 210)) AS age")  # doctest: +SKIP
    >>> ages = tg.DQM("ages").add(tg.BoundRule("age", 1, 150), tg.FailCount(3))
    >>> applied = ages.apply(riders)  # doctest: +SKIP
    >>> applied.data.count(), applied.state.total_rule_count, applied.check.passed  # doctest: +SKIP
    (1, 2, True)
    """

    dqm: DQMDefinition
    masked: Masked
    state: DQMState
    check: CheckResult
    by: tuple[str, ...]
    tallies: Mapping[Values, Tally]
    parsed: ParserCounts | None = None
    run: int | None = None

    @property
    def data(self) -> DataFrame:
        """The records that no rule rejects, repaired, with the original columns.

        Warns about rules and fixes that could not be evaluated; they are ignored.
        """
        self._warn()
        return self.masked.kept

    @property
    def rejects(self) -> DataFrame:
        """The rejected records, with original values and the names of the rules they break.

        The last column, ``broken_rules``, is an array of strings; `rejects_as` names it otherwise.

        Raises
        ------
        RuleError
            If the data has a column of that name.
        """
        return self.rejects_as(BROKEN)

    def rejects_as(self, column: str, reasons: str | None = None) -> DataFrame:
        """Return the rejected records, as `rejects`, with a name of one's own for the last column.

        Parameters
        ----------
        column : str
        reasons : str, optional
            Name of one more column; see `flagged`.

        Raises
        ------
        RuleError
            If the data has a column of that name.

        Examples
        --------
        >>> import tidegauge as tg
        >>> rides = tg.spark_session().sql("SELECT * FROM VALUES (34, 'mon'), (-1, 'mon'), (210, 'tue') AS (age, ds)")  # doctest: +SKIP
        >>> ages = tg.DQM("ages").add(tg.BoundRule("age", 1, 150, name="plausible"))
        >>> ages.apply(rides).rejects_as("why").orderBy("age").first()  # doctest: +SKIP
        Row(age=-1, ds='mon', why=['plausible'])
        """
        flags = self._flags(column, reasons)
        self._warn()
        return self.masked.rejected(*flags)

    def flagged(self, column: str = BROKEN, reasons: str | None = None) -> DataFrame:
        """Return all records, repaired, with the names of the rules they break, warnings included.

        Parameters
        ----------
        column : str
            Name of the last column, an array of strings, which is empty for a good record.
        reasons : str, optional
            Name of one more column, an array of structs, one for each broken rule: ``rule``,
            ``message`` (the rule's own, or the condition that is not true), ``severity``, ``tags``,
            ``run`` (id of the run that recorded the counts, or null) and ``time`` (of reading).

        Raises
        ------
        RuleError
            If the data has a column of that name.

        Examples
        --------
        >>> import tidegauge as tg
        >>> riders = tg.spark_session().sql("SELECT explode(array(34, -1, 210)) AS age")  # doctest: +SKIP
        >>> ages = tg.DQM("ages").add(tg.BoundRule("age", 1, 150), tg.FailCount(3))
        >>> ages.apply(riders).flagged().where("size(broken_rules) > 0").count()  # doctest: +SKIP
        2
        """
        flags = self._flags(column, reasons)
        self._warn()
        return self.masked.frame.selectExpr(*map(quote, self.masked.columns), *flags)

    def _flags(self, column: str, reasons: str | None) -> list[str]:
        """Return SQL for the columns of broken rules: their names, and the reasons if asked for."""
        taken = {name.casefold() for name in self.masked.columns}
        if column.casefold() in taken:
            msg = (
                f"the data has a column {column!r}, which the broken rules would be told in; give"
                " them another: rejects_as(column), flagged(column), quarantine(column=), in a rules"
                " file broken_rules:"
            )
            raise RuleError(msg)
        flags = [f"{self.masked.broken()} AS {quote(column)}"]
        if reasons is None:
            return flags
        if reasons.casefold() in {*taken, column.casefold()}:
            msg = f"there is a column {reasons!r} already; give the reasons another: reasons="
            raise RuleError(msg)
        return [*flags, f"{self.masked.reasons(self.run)} AS {quote(reasons)}"]

    def _warn(self) -> None:
        if self.state.errors:
            names = ", ".join(map(repr, self.state.errors))
            msg = f"as if {names} were not there, which could not be evaluated; see check"
            warnings.warn(msg, VerdictWarning, stacklevel=3)

    def quarantine(
        self,
        table: str,
        mode: str = "append",
        partitions: Collection[Values] = (),
        column: str = BROKEN,
        reasons: str | None = None,
    ) -> None:
        """Write the rejects to a table or folder, partitioned as the counts are.

        Parameters
        ----------
        table : str
            A table's name, or a folder (anything with a slash); created if missing.
        mode : str
            ``append``; ``overwrite``; or ``partitions``, which replaces the partitions that the
            data has records of, so that running the same data twice does not duplicate them.
        partitions : collection of tuple of str
            Partitions that are replaced by ``partitions`` even if the data has no records of them.
        column : str
            Name of the column that tells the broken rules.
        reasons : str, optional
            Name of one more column, with messages, the run and the time; see `flagged`.

        Raises
        ------
        SourceError
            If the rejects do not fit the table.
        RuleError

        Examples
        --------
        >>> import tempfile
        >>> import tidegauge as tg
        >>> rides = tg.spark_session().sql("SELECT * FROM VALUES (34, 'mon'), (-1, 'mon'), (210, 'tue') AS (age, ds)")  # doctest: +SKIP
        >>> ages = tg.DQM("ages").add(tg.BoundRule("age", 1, 150, name="plausible"))
        >>> folder = f"{tempfile.mkdtemp()}/rejects"
        >>> ages.apply(rides).quarantine(folder)  # doctest: +SKIP
        >>> tg.spark_session().read.parquet(folder).count()  # doctest: +SKIP
        2
        """
        target = open_target(self.masked.frame.sparkSession, table)
        quarantine(self, target, mode, partitions, column, reasons)

    @property
    def counts(self) -> RecordCounts:
        """The counts of the whole frame, as a mergeable state."""
        return RecordCounts.merge([found.counts for found in self.tallies.values()])

    def partitions(self) -> dict[str, RecordCounts]:
        """Return the counts of each partition by name, as mergeable states.

        Examples
        --------
        >>> import tidegauge as tg
        >>> rides = tg.spark_session().sql("SELECT * FROM VALUES (34, 'mon'), (-1, 'mon'), (210, 'tue') AS (age, ds)")  # doctest: +SKIP
        >>> ages = tg.DQM("ages").add(tg.BoundRule("age", 1, 150, name="plausible"))
        >>> list(ages.apply(rides, partition_by=["ds"]).partitions())  # doctest: +SKIP
        ['ds=mon', 'ds=tue']
        """
        return {
            Partition(self.by, values).name: found.counts
            for values, found in sorted(self.tallies.items())
        }

    def metrics(self) -> pd.DataFrame:
        """Return the counts as metrics, one row for each partition and metric.

        Returns
        -------
        pandas.DataFrame
            With the columns partition, entity, name, instance, value, weight, status, error.

        Examples
        --------
        >>> import tidegauge as tg
        >>> rides = tg.spark_session().sql("SELECT * FROM VALUES (34, 'mon'), (-1, 'mon'), (210, 'tue') AS (age, ds)")  # doctest: +SKIP
        >>> ages = tg.DQM("ages").add(tg.BoundRule("age", 1, 150, name="plausible"))
        >>> found = ages.apply(rides, partition_by=["ds"]).metrics()  # doctest: +SKIP
        >>> found[found["name"] == "RuleViolations"][["partition", "instance", "value"]].values.tolist()  # doctest: +SKIP
        [['ds=mon', 'plausible', 1.0], ['ds=tue', 'plausible', 1.0]]
        """
        return _metrics_frame(self)

    def combinations(self) -> pd.DataFrame:
        """Return the number of records for each combination of broken rules and applied fixes.

        Returns
        -------
        pandas.DataFrame
            With the columns records, violated, unknown, fixed; the last three are tuples of names.
            The most frequent combination comes first.

        Raises
        ------
        RuleError
            If there were more than 4,096 combinations, so that only sums were kept.

        Examples
        --------
        >>> import tidegauge as tg
        >>> rides = tg.spark_session().sql("SELECT * FROM VALUES (34, 'mon'), (-1, 'mon'), (210, 'tue') AS (age, ds)")  # doctest: +SKIP
        >>> ages = tg.DQM("ages").add(tg.BoundRule("age", 1, 150, name="plausible"))
        >>> found = ages.apply(rides).combinations()  # doctest: +SKIP
        >>> found[["records", "violated"]].values.tolist()  # doctest: +SKIP
        [[2, ('plausible',)], [1, ()]]
        """
        import pandas as pd

        masks = self.counts.masks
        if masks is None:
            msg = "there were too many combinations; only the sums were kept"
            raise RuleError(msg)
        ordered = sorted(masks.items(), key=lambda item: (-item[1], item[0]))
        rows = [{"records": n, **self.dqm.tasks.read(m)} for m, n in ordered]
        return pd.DataFrame(rows, columns=["records", "violated", "unknown", "fixed"])

    def __repr__(self) -> str:
        """Return the numbers of records and rejects, and the verdict."""
        state = self.state
        return f"Applied({plural(state.records, 'record')}, {state.rejects} rejected, {self.check})"

    def _repr_html_(self) -> str:
        return card(self._pieces)

    def _pieces(self, most: int, width: int) -> Iterator[Markup]:
        passed = "complete" if self.check.passed else "failed"
        yield heading(Markup("Records of"), self.dqm.name, Markup(marked(passed)))
        counts = [("records", self.state.records), ("rejected", self.state.rejects)]
        yield pairs([*counts, ("values fixed", self.state.total_fix_count)], width)
        yield from self.check._pieces(most, width)  # noqa: SLF001 - same package
        yield note(".data: kept records; .rejects: rejected records; .metrics(): counts")


def split(
    dqm: DQMDefinition,
    masked: Masked,
    tallies: Tallies,
    by: Sequence[str] = (),
    keys: Sequence[str] = (),
    samples: int = SAMPLES,
    parser: ParserValidation | None = None,
    private: Privacy | None = None,
) -> Applied:
    """Judge and split a masked frame that was already counted.

    Neither samples nor errors show values of private columns, which are those of the configuration file
    if not given; of data that is private as a whole there are no samples.
    """
    known = privacy_settings() if private is None else private
    failures = masked.failures
    if known.columns_of(Schema.from_frame(masked.frame)):
        samples = 0 if known.covers_all else samples
        tallies = {key: one.without_values(known) for key, one in tallies.items()}
        failures = {name: known.without_values(error) for name, error in failures.items()}
    groups = {key: found for (key, segment), found in tallies.items() if not segment}
    whole = total(groups.values())
    state = dqm.tasks.state(whole.counts, {**failures, **whole.failures})
    for sample in sample_charged(masked, whole.counts, samples, keys, by, known):
        state.add_sample(sample)
    parsed = None if parser is None else parser.hiding(known).count()
    if parsed is not None:
        parsed.fill(state)
    state.snapshot()
    check = dqm.judge(state, masked.kept)
    if parser is not None:
        check = parser.judge(state, masked.kept) + check
    return Applied(dqm, masked, state, check, tuple(by), groups, parsed)


def metrics_of(found: Tally, tasks: Tasks) -> Iterator[Metric[float]]:
    """Yield the counts of one group as flat metrics."""
    for one in analyzers_of(tasks):
        outcome = attempt(partial(one.fold, [found]))
        yield from flatten(
            one.to_failure_metric(outcome.error)
            if isinstance(outcome, Failure)
            else one.compute_metric_from(outcome.value)
        )


def _metrics_frame(applied: Applied) -> pd.DataFrame:
    """Return the metrics of all partitions as a frame."""
    import pandas as pd

    columns = "partition", "entity", "name", "instance", "value", "weight", "status", "error"
    rows = []
    groups: list[tuple[str, Iterable[Metric[float]]]] = [
        (Partition(applied.by, values).name, metrics_of(found, applied.dqm.tasks))
        for values, found in sorted(applied.tallies.items())
    ]
    if applied.parsed is not None:
        of = parser_analyzers(applied.parsed)
        groups.append(("", (one.compute_metric_from(one.fold([applied.parsed])) for one in of)))
    for name, metrics in groups:
        for metric in metrics:
            status = "empty" if metric.empty else "failed" if metric.failed else "finite"
            value = float("nan") if metric.failed else metric.value
            error = str(metric.outcome.error) if metric.failed else None  # type: ignore[union-attr]
            about = (str(metric.entity), metric.name, metric.instance)
            rows.append((name, *about, value, metric.weight, status, error))
    return pd.DataFrame(rows, columns=list(columns))


def quarantine(
    applied: Applied,
    target: WriteTarget,
    mode: str,
    partitions: Collection[Values] = (),
    column: str = BROKEN,
    reasons: str | None = None,
    before_delete: Callable[[], None] = lambda: None,
) -> None:
    """Write the rejected records to a table of their own; see `Applied.quarantine`.

    ``before_delete`` is called before Spark deletes what is there, if it does so before it writes.
    """
    rejects = applied.rejects_as(column, reasons)
    keys_for(target, rejects.schema, applied.by)
    check_mode(mode, applied.by)
    held = partitions_with(applied, "rejected")
    judged = {*applied.tallies, *partitions}
    replace_records(target, rejects, mode, applied.by, held, judged, before_delete)


def with_broken_rules(schema: StructType) -> StructType:
    """Return the schema of what is rejected."""
    from pyspark.sql.types import ArrayType, StringType, StructField, StructType

    return StructType([*schema.fields, StructField(BROKEN, ArrayType(StringType()))])


def partitions_with(applied: Applied, what: str) -> list[Values]:
    """Return the partitions that hold records that were kept, or rejected."""
    found = []
    for values, one in applied.tallies.items():
        counts = applied.dqm.tasks.of(one.counts)
        kept, records = counts["kept", ""], counts["records", ""]
        if (kept if what == "kept" else records - kept) > 0:
            found.append(values)
    return found
