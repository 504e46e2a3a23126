"""The definition of a `DQM`, and the result of applying one to a frame.

A `DQMDefinition` holds rules, fixes and policies, their identity, and judges counts. `Applied` has the
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
from tidegauge.rules.tally import DEFAULT_SAMPLES, Tallies, sample_charged, tally
from tidegauge.rules.tasks import DQMFix, DQMRule, DQMTask
from tidegauge.rules.verdicts import RECORDS_OUTCOME, CheckResult, ValidationTask

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
            msg = f"invalid name of a DQM {name!r}; use a string that is not empty"
            raise RuleError(msg)
        self.name = name
        self.tasks = Tasks()
        self.task_policies: tuple[tuple[DQMTask, DQMTaskPolicy], ...] = ()
        self.policies: tuple[DQMPolicy, ...] = ()
        self._action = False

    def add(
        self, item: DQMRule | DQMFix | DQMPolicy | Any, policy: DQMTaskPolicy | Any = None
    ) -> Self:
        """Return a copy with an additional rule, fix or policy.

        Parameters
        ----------
        item : DQMRule, DQMFix, DQMPolicy or callable
            A function is a policy with the name of the function.
        policy : DQMTaskPolicy, optional
            Threshold on the count of the rule or fix (default: no limit).

        Raises
        ------
        RuleError
            If ``item`` has another type, a name is taken, or a policy is given a task policy.
        """
        if isinstance(item, DQMRule | DQMFix):
            return self._with_task(item, as_task_policy(FailNone if policy is None else policy))
        data_policy = item if isinstance(item, DQMPolicy) or not callable(item) else DQMPolicy(item)
        if not isinstance(data_policy, DQMPolicy):
            msg = f"add() takes a rule, a fix or a policy, not {item!r}"
            if isinstance(item, DQMTaskPolicy):
                msg += "; pass a task policy with its rule: add(rule, policy)"
            raise RuleError(msg)
        if policy is not None:
            msg = (
                f"{data_policy!r} applies to all data and cannot have a task policy; remove policy="
            )
            raise RuleError(msg)
        if data_policy.name in {p.name for p in self.policies} | self._names():
            msg = f"the name {data_policy.name!r} is taken; use another name for the policy"
            raise RuleError(msg)
        return self._copy(policies=(*self.policies, data_policy))

    def named(self, name: str) -> Self:
        """Return a copy with another name."""
        return self._copy(name=name)

    def add_action(self) -> Self:
        """Return a copy that reads the data even without rules and fixes."""
        return self._copy(_action=True)

    def _with_task(self, task: DQMRule | DQMFix, policy: DQMTaskPolicy) -> Self:
        new_names = {task.name, *(task.counters() if isinstance(task, DQMFix) else ())}
        used_names = self._names() | {p.name for p in self.policies}
        if new_names & used_names:
            msg = f"the name {min(new_names & used_names)!r} is taken; use another name= for the {'rule' if isinstance(task, DQMRule) else 'fix'}"
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
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__, **changes)
        return copy

    @property
    def needs_action(self) -> bool:
        """Return whether a rule, a fix or a user's policy needs the data to be read."""
        is_needed_by_policy = any(policy.needs_action for policy in self.policies)
        return self._action or bool(self.task_policies) or is_needed_by_policy

    def identity(self) -> dict[str, Any]:
        """Return rules, fixes and policies as JSON values."""
        return {
            "dqm": self.name,
            "tasks": [task.identity() for task in (*self.tasks.rules, *self.tasks.fixes)],
            "minded": sorted([task.name, policy.identity()] for task, policy in self.task_policies),
            "policies": [policy.identity() for policy in self.policies],
        }

    @classmethod
    def from_identity(cls, identity: Mapping[str, Any]) -> Self:
        """Return a definition with an `identity`, without the code of users' functions.

        Examples
        --------
        >>> import tidegauge as tg
        >>> dqm = tg.DQM("ages").add(tg.Rule("age < 150", "age"), tg.FailAny).add(tg.FailTotalRuleCountPolicy(3))
        >>> tg.DQM.from_identity(dqm.identity()) == dqm
        True
        """
        try:
            definition = cls(identity["dqm"])
            policies = {name: task_policy_of(minded) for name, minded in identity["minded"]}
            for item in identity["tasks"]:
                task = task_of(item)
                definition = definition.add(task, policies[task.name])
            for item in identity["policies"]:
                definition = definition.add(policy_of(item))
        except (KeyError, TypeError, ValueError) as error:
            msg = f"not the identity of a DQM: {str(identity)[:80]!r}"
            raise RuleError(msg) from error
        return definition

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
        """Return the counts of a frame, not final yet, in one scan; if no task needs it, without a scan."""
        counted = self.tally(data)
        return self.tasks.state(counted.counts, counted.failures)

    def tally(self, data: DataFrame) -> Tally:
        """Return the mergeable counts of a frame in one scan; if no task needs it, without a scan.

        Raises
        ------
        SourceError
            If the data is not a Spark DataFrame, or is a stream.
        """
        check_frame(data)
        if not self.needs_action:
            return Tally(RecordCounts())
        with explained_read_errors():
            return total(tally(data, self.tasks).values())

    def validate(self, data: DataFrame) -> CheckResult:
        """Judge a frame to which rules and fixes have not been applied.

        One scan counts. If records break rules, a second scan takes the samples in the verdict's log.
        """
        counted = self.tally(data)
        masked = mask(data, self.tasks, counted.failures)
        return self.judge(self.final_state(counted, masked), masked.kept_records)

    def final_state(
        self, counted: Tally, masked: Masked, samples: int = DEFAULT_SAMPLES
    ) -> DQMState:
        """Return counts as a final state, with samples of the masked frame."""
        state = self.tasks.state(counted.counts, counted.failures)
        for sample in sample_charged(masked, counted.counts, samples):
            state.add_sample(sample)
        state.snapshot()
        return state

    def validate_written(self, data: DataFrame) -> CheckResult:
        """Raise a `RuleError`, because written data no longer contains the rejected records.

        Raises
        ------
        RuleError
            Always.
        """
        msg = (
            f"{self.name!r} cannot judge written data, from which its rules removed records: attach it before"
            " the data is written (attached = dqm.attach(df)), write attached.data, and validate with the task"
            " attached"
        )
        raise RuleError(msg)

    def judge(self, state: DQMState, data: DataFrame | None = None) -> CheckResult:
        """Return the verdict on final counts.

        Parameters
        ----------
        state : DQMState
            Counts of this run or of a past one.
        data : DataFrame, optional
            The frame after rules and fixes, for policies that need it.

        Raises
        ------
        RuleError
            If a policy needs the data and ``data`` is None.
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
            no_data=() if judged else ((RECORDS_OUTCOME, "there are no records to judge"),),
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
                yield f"policy {policy.name}: no file was parsed, so there are no parsing errors to count"

    def __repr__(self) -> str:
        """Return the numbers of rules, fixes and policies."""
        rules, fixes = len(self.tasks.rules), len(self.tasks.fixes)
        return f"DQM({plural(rules, 'rule')}, {plural(fixes, 'fix', 'fixes')}, {plural(len(self.policies), 'policy', 'policies')})"


def _warning(rule: DQMRule, state: DQMState) -> str:
    """Return the warning of a rule that does not reject; empty if the rule rejects or all records satisfy it."""
    count = 0 if rule.rejects else state.rule_count(rule.name)
    summary = f"{count} of {state.rule_records(rule.name)} records break it" if count else ""
    return f"{rule.message}: {summary}" if summary and rule.message else summary


def total(groups: Iterable[Tally]) -> Tally:
    """Return the sum of the counts and the failures of all groups."""
    groups = list(groups)
    counts = RecordCounts.merge([group.counts for group in groups])
    failures = {name: error for group in groups for name, error in group.failures.items()}
    return Tally(counts, failures)


BROKEN_RULES_COLUMN = "broken_rules"


@dataclass(frozen=True, repr=False)
class Applied:
    """Result of applying a `DQM` to a frame.

    Attributes
    ----------
    dqm : DQM
        The rules, fixes and policies.
    masked : Masked
        The frame with the bit words of rules and fixes.
    state : DQMState
        The final counts of the whole frame.
    check : CheckResult
        The verdict.
    partition_by : tuple of str
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
    partition_by: tuple[str, ...]
    tallies: Mapping[Values, Tally]
    parsed: ParserCounts | None = None
    run: int | None = None

    @property
    def data(self) -> DataFrame:
        """The records that no rule rejects, repaired, with the original columns.

        Rules and fixes that could not be evaluated are ignored, with a warning.
        """
        self._warn()
        return self.masked.kept_records

    @property
    def rejects(self) -> DataFrame:
        """The rejected records, with original values and the names of the rules they break.

        The last column, ``broken_rules``, is an array of strings; `rejects_as` gives it another name.

        Raises
        ------
        RuleError
            If the data has a column of that name.
        """
        return self.rejects_as(BROKEN_RULES_COLUMN)

    def rejects_as(self, column: str, reasons: str | None = None) -> DataFrame:
        """Return the rejected records as `rejects` does, with another name for the last column.

        Parameters
        ----------
        column : str
            Name of the last column.
        reasons : str, optional
            Name of an additional column with reasons; see `flagged`.

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

    def flagged(self, column: str = BROKEN_RULES_COLUMN, reasons: str | None = None) -> DataFrame:
        """Return all records, repaired, with the names of the rules they break, warnings included.

        Parameters
        ----------
        column : str
            Name of the last column, an array of strings, which is empty for a good record.
        reasons : str, optional
            Name of an additional column, an array with a struct for each broken rule: ``rule``,
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
        """Return SQL for the columns with the names of broken rules and, optionally, the reasons."""
        used_names = {name.casefold() for name in self.masked.columns}
        if column.casefold() in used_names:
            msg = (
                f"the data already has a column {column!r}; choose another name for the column of broken"
                " rules: rejects_as(column), flagged(column), quarantine(column=), or broken_rules: in a"
                " rules file"
            )
            raise RuleError(msg)
        flags = [f"{self.masked.broken()} AS {quote(column)}"]
        if reasons is None:
            return flags
        if reasons.casefold() in {*used_names, column.casefold()}:
            msg = f"the data already has a column {reasons!r}; use another name for the reasons: reasons="
            raise RuleError(msg)
        return [*flags, f"{self.masked.reasons(self.run)} AS {quote(reasons)}"]

    def _warn(self) -> None:
        if self.state.errors:
            names = ", ".join(map(repr, self.state.errors))
            msg = f"ignored {names}, which could not be evaluated; see check"
            warnings.warn(msg, VerdictWarning, stacklevel=3)

    def quarantine(
        self,
        table: str,
        mode: str = "append",
        partitions: Collection[Values] = (),
        column: str = BROKEN_RULES_COLUMN,
        reasons: str | None = None,
    ) -> None:
        """Write the rejected records to a table or folder with the partitions of the counts.

        Parameters
        ----------
        table : str
            A table's name, or a folder (anything with a slash); created if missing.
        mode : str
            ``append``; ``overwrite``; or ``partitions``, which replaces the partitions of the data, so
            that running the same data twice does not duplicate records.
        partitions : collection of tuple of str
            Partitions that the mode ``partitions`` replaces even if the data has no records in them.
        column : str
            Name of the column with the names of broken rules.
        reasons : str, optional
            Name of an additional column with messages, the run and the time; see `flagged`.

        Raises
        ------
        SourceError
            If the rejects do not fit the table.
        RuleError
            If the data has a column of one of these names, or the mode is invalid.

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
        return RecordCounts.merge([group.counts for group in self.tallies.values()])

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
            Partition(self.partition_by, values).name: group.counts
            for values, group in sorted(self.tallies.items())
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
        >>> metrics = ages.apply(rides, partition_by=["ds"]).metrics()  # doctest: +SKIP
        >>> metrics[metrics["name"] == "RuleViolations"][["partition", "instance", "value"]].values.tolist()  # doctest: +SKIP
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
            If there were more than 4,096 combinations, for which only sums are stored.

        Examples
        --------
        >>> import tidegauge as tg
        >>> rides = tg.spark_session().sql("SELECT * FROM VALUES (34, 'mon'), (-1, 'mon'), (210, 'tue') AS (age, ds)")  # doctest: +SKIP
        >>> ages = tg.DQM("ages").add(tg.BoundRule("age", 1, 150, name="plausible"))
        >>> combinations = ages.apply(rides).combinations()  # doctest: +SKIP
        >>> combinations[["records", "violated"]].values.tolist()  # doctest: +SKIP
        [[2, ('plausible',)], [1, ()]]
        """
        import pandas as pd

        masks = self.counts.masks
        if masks is None:
            msg = "there were too many combinations; only their sums were stored"
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

    def _pieces(self, max_rows: int, width: int) -> Iterator[Markup]:
        passed = "complete" if self.check.passed else "failed"
        yield heading(Markup("Records of"), self.dqm.name, Markup(marked(passed)))
        counts = [("records", self.state.records), ("rejected", self.state.rejects)]
        yield pairs([*counts, ("values fixed", self.state.total_fix_count)], width)
        yield from self.check._pieces(max_rows, width)  # noqa: SLF001 - same package
        yield note(".data: kept records; .rejects: rejected records; .metrics(): counts")


def split(
    dqm: DQMDefinition,
    masked: Masked,
    tallies: Tallies,
    partition_by: Sequence[str] = (),
    keys: Sequence[str] = (),
    samples: int = DEFAULT_SAMPLES,
    parser: ParserValidation | None = None,
    private: Privacy | None = None,
) -> Applied:
    """Judge and split a masked frame that was already counted.

    Neither samples nor errors show values of private columns (default: the private columns of the
    configuration file). If all columns are private, no samples are taken.
    """
    privacy = privacy_settings() if private is None else private
    failures = masked.failures
    if privacy.columns_of(Schema.from_frame(masked.frame)):
        samples = 0 if privacy.covers_all else samples
        tallies = {key: group.without_values(privacy) for key, group in tallies.items()}
        failures = {name: privacy.without_values(error) for name, error in failures.items()}
    groups = {key: group for (key, segment), group in tallies.items() if not segment}
    counted = total(groups.values())
    state = dqm.tasks.state(counted.counts, {**failures, **counted.failures})
    for sample in sample_charged(masked, counted.counts, samples, keys, partition_by, privacy):
        state.add_sample(sample)
    parsed = None if parser is None else parser.hiding(privacy).count()
    if parsed is not None:
        parsed.fill(state)
    state.snapshot()
    check = dqm.judge(state, masked.kept_records)
    if parser is not None:
        check = parser.judge(state, masked.kept_records) + check
    return Applied(dqm, masked, state, check, tuple(partition_by), groups, parsed)


def metrics_of(group: Tally, tasks: Tasks) -> Iterator[Metric[float]]:
    """Yield the counts of one group as flat metrics."""
    for analyzer in analyzers_of(tasks):
        outcome = attempt(partial(analyzer.fold, [group]))
        yield from flatten(
            analyzer.to_failure_metric(outcome.error)
            if isinstance(outcome, Failure)
            else analyzer.compute_metric_from(outcome.value)
        )


def _metrics_frame(applied: Applied) -> pd.DataFrame:
    """Return the metrics of all partitions as a frame."""
    import pandas as pd

    columns = "partition", "entity", "name", "instance", "value", "weight", "status", "error"
    rows = []
    groups: list[tuple[str, Iterable[Metric[float]]]] = [
        (Partition(applied.partition_by, values).name, metrics_of(group, applied.dqm.tasks))
        for values, group in sorted(applied.tallies.items())
    ]
    if applied.parsed is not None:
        analyzers = parser_analyzers(applied.parsed)
        groups.append(
            (
                "",
                (
                    analyzer.compute_metric_from(analyzer.fold([applied.parsed]))
                    for analyzer in analyzers
                ),
            )
        )
    for name, metrics in groups:
        for metric in metrics:
            status = "empty" if metric.empty else "failed" if metric.failed else "finite"
            value = float("nan") if metric.failed else metric.value
            error = str(metric.outcome.error) if metric.failed else None  # type: ignore[union-attr]
            series = (str(metric.entity), metric.name, metric.instance)
            rows.append((name, *series, value, metric.weight, status, error))
    return pd.DataFrame(rows, columns=list(columns))


def quarantine(
    applied: Applied,
    target: WriteTarget,
    mode: str,
    partitions: Collection[Values] = (),
    column: str = BROKEN_RULES_COLUMN,
    reasons: str | None = None,
    before_delete: Callable[[], None] = lambda: None,
) -> None:
    """Write the rejected records to a separate table; see `Applied.quarantine`.

    If Spark deletes existing data before it writes, ``before_delete`` is called first.
    """
    rejects = applied.rejects_as(column, reasons)
    keys_for(target, rejects.schema, applied.partition_by)
    check_mode(mode, applied.partition_by)
    rejected_partitions = partitions_with(applied, "rejected")
    judged = {*applied.tallies, *partitions}
    replace_records(
        target, rejects, mode, applied.partition_by, rejected_partitions, judged, before_delete
    )


def with_broken_rules(schema: StructType) -> StructType:
    """Return the schema of rejected records."""
    from pyspark.sql.types import ArrayType, StringType, StructField, StructType

    return StructType([*schema.fields, StructField(BROKEN_RULES_COLUMN, ArrayType(StringType()))])


def partitions_with(applied: Applied, kind: str) -> list[Values]:
    """Return the partitions with kept, or with rejected, records."""
    partitions = []
    for values, group in applied.tallies.items():
        counts = applied.dqm.tasks.counts_by_task(group.counts)
        kept_count, records = counts["kept", ""], counts["records", ""]
        if (kept_count if kind == "kept" else records - kept_count) > 0:
            partitions.append(values)
    return partitions
