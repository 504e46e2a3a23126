"""`DQM`: rules, fixes and policies put together, and applied to as many frames as one likes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from analyzers.description import canonical_json, key_of
from analyzers.errors import RuleError
from analyzers.groups import Groups
from analyzers.rules.layout import Tasks
from analyzers.rules.masks import Masked, mask
from analyzers.rules.measures import AnyAnalyzer, analyzers_of
from analyzers.rules.policies import (
    DQMPolicy,
    DQMTaskPolicy,
    FailNone,
    FailParserCountPolicy,
    as_task_policy,
)
from analyzers.rules.result import CheckResult
from analyzers.rules.samples import check_columns, sample_rejects
from analyzers.rules.state import DQMState, RecordCounts, Tally
from analyzers.rules.stored import policy_of, task_of, task_policy_of
from analyzers.rules.tally import Tallies, tally
from analyzers.rules.tasks import DQMFix, DQMRule, DQMTask
from analyzers.rules.validation import ValidationSet, ValidationTask
from analyzers.rules.verdicts import RepositoryVerdicts, VerdictFiles, Verdicts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from analyzers.rules.applied import Applied
    from analyzers.rules.attached import Attached
    from analyzers.rules.parsing import ParserValidation
    from analyzers.rules.publish import Published
    from analyzers.rules.recording import Recorder

SAMPLES = 10
"""Records of each rule that are kept to be looked at."""


class DQM(ValidationTask):
    """Rules, fixes and policies; immutable, `add` returns a new one.

    Rules see original values, and the first that a record breaks is charged with it. Fixes repair what is
    left, in the order in which they were added, each seeing what the last one left. Rules of the stage
    ``after`` see repaired values. Policies judge the counts.

    Parameters
    ----------
    name : str
        By which verdicts are kept.

    Examples
    --------
    >>> import tidegauge as tg
    >>> dqm = (
    ...     tg.DQM()
    ...     .add(tg.BoundRule("age", 1, 150), tg.FailCount(10))
    ...     .add(tg.Fix("fare < 0", column="fare", value="0", name="no negative fare"))
    ...     .add(tg.FailTotalRuleCountPolicy(30))
    ... )
    >>> dqm
    DQM(1 rules, 1 fixes, 1 policies)
    >>> result = dqm.apply(frame)  # doctest: +SKIP
    >>> result.data, result.rejects, result.check  # doctest: +SKIP
    """

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
        """Return one with a rule, fix or policy more.

        Parameters
        ----------
        what : DQMRule, DQMFix, DQMPolicy or callable
            A function is a policy, named as the function is.
        policy : DQMTaskPolicy, optional
            When what a rule or fix counts is too much; never if not given.

        Raises
        ------
        RuleError
            If it is none of these, or a name is taken.
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

    def add_action(self) -> Self:
        """Return one that has the data read even where there is no rule and no fix."""
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
        """Whether data must be read to be judged: for a rule, a fix, or a policy of one's own."""
        asked = any(policy.needs_action for policy in self.policies)
        return self._action or bool(self.task_policies) or asked

    def identity(self) -> dict[str, Any]:
        """Return what is done and what is minded, as JSON takes it."""
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
        >>> dqm = DQM("ages").add(tg.Rule("age < 150", "age"), tg.FailAny).add(tg.FailTotalRuleCountPolicy(3))
        >>> DQM.from_identity(dqm.identity()) == dqm
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
        return isinstance(other, DQM) and self.identity() == other.identity()

    def __hash__(self) -> int:
        """Hash the identity."""
        return hash(self.specification)

    def analyzers(self) -> list[AnyAnalyzer]:
        """Return all that rules and fixes count, to be measured with other analyzers."""
        return analyzers_of(self.tasks) if self.needs_action else []

    @property
    def specification(self) -> str:
        """The hash of the identity, which covers the source of users' own functions."""
        return key_of(canonical_json(self.identity()))

    # applying

    def apply(
        self,
        data: DataFrame | ParserValidation,
        *,
        partition_by: Sequence[str] = (),
        keys: Sequence[str] = (),
        samples: int = SAMPLES,
        repository: Recorder | None = None,
        dataset: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> Applied:
        """Count, judge, and split a frame.

        One pass counts; a second, over the records that break rules, takes samples where there are any.

        Parameters
        ----------
        data : DataFrame or ParserValidation
            The records that can be read of a file; what cannot is counted and judged, too.
        partition_by : sequence of str
            Columns by whose values it is counted, too.
        keys : sequence of str
            Columns that tell a record from others, for the samples.
        samples : int
            Records of each rule to keep; 0 for none.
        repository : Repository, optional
            Where the counts are stored as the metrics of a run, with the verdicts; nothing is read for it.
        dataset : str, optional
            Under which name; needed with a repository.
        tags : mapping, optional
            Tags of the run.

        Returns
        -------
        Applied
            With ``data``, ``rejects``, ``check`` and ``metrics()``.

        Raises
        ------
        NoSuchColumnError
        RuleError
            If one of repository and dataset is given without the other.
        """
        from analyzers.rules.parsing import ParserValidation  # noqa: PLC0415 - it knows policies

        parser = None
        if isinstance(data, ParserValidation):
            parser, data = data, data.read().data
        if not hasattr(data, "selectExpr"):
            msg = f"a DQM is applied to a DataFrame of Spark or a ParserValidation, not to {data!r}"
            raise RuleError(msg)

        _both(repository, dataset)
        by = check_columns(data, partition_by)
        named = check_columns(data, keys)
        tallies = tally(data, self.tasks, Groups(tuple(by)))
        masked = mask(data, self.tasks, self._whole(tallies.values()).failures)
        applied = self.split(masked, tallies, by, named, samples, parser)
        if repository is None or dataset is None:
            return applied
        from analyzers.rules.fingerprints import frame_fingerprint  # noqa: PLC0415 - with its user
        from analyzers.rules.recording import record  # noqa: PLC0415 - it knows this class

        case = ValidationSet([self], fingerprint=frame_fingerprint(data)).case
        report = record(applied, repository, dataset, case, tags)
        return replace(applied, run=report.run)

    def publish(
        self,
        data: DataFrame,
        table: str,
        *,
        partition_by: Sequence[str] | None = None,
        mode: str = "overwrite",
        quarantine: str | None = None,
        keys: Sequence[str] = (),
        samples: int = SAMPLES,
        verdicts: Verdicts | None = None,
        repository: Recorder | None = None,
        dataset: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> Published:
        """Write what is left of a frame to a table, if all policies hold; otherwise leave it as it is.

        All records are written beside the table once, with what rules and fixes did to each, and are counted,
        sampled and judged there: the frame is computed once, and may read the table. What waits beside it is
        ``_tidegauge_staging_...``; it is removed in the end, and what a killed run left is replaced by the
        next one. Let one publication of a table run at a time.

        Spark replaces the files of a table while others may read it. Who reads meanwhile may see it empty or
        in part, or be told that a file is gone, as with any overwrite by Spark; so does who reads after a run
        was killed in this last step, until the next one. Tables that have a log of their own (Delta Lake,
        Apache Iceberg) show either state.

        Parameters
        ----------
        data : DataFrame
        table : str
            A table's name, or a folder of Parquet files (anything with a slash). It is made if it is not
            there; if it is, its columns must be those of the data, in any order.
        partition_by : sequence of str, optional
            How a new table is partitioned; one that is there stays as it is. Counted by these, too.
        mode : str
            ``overwrite`` replaces all, ``append`` adds, ``partitions`` replaces the partitions that the data
            has records of, also those of which all records are rejected.
        quarantine : str, optional
            Table or folder for the records that are rejected, written in the same mode whatever the verdict.
        keys, samples
            As for `apply`.
        verdicts : Verdicts, optional
            Where the verdict is kept by the data's fingerprint: `VerdictFiles`, or `RepositoryVerdicts`. The
            repository if not given; where there is none, a file ``<name>.<hash>.check`` beside the folder, or
            among the tables of its database. A failure that was kept is raised again, and nothing is read.
        repository, dataset, tags
            As for `apply`; the counts are stored whatever the verdict.

        Returns
        -------
        Published

        Raises
        ------
        DQMError
            If a policy does not hold.
        SourceError
            If the data does not fit the table.
        RuleError

        Examples
        --------
        >>> dqm.publish(frame, "clean.flights", partition_by=["ds"], mode="partitions")  # doctest: +SKIP
        """
        from analyzers.rules.fingerprints import frame_fingerprint  # noqa: PLC0415 - with its user
        from analyzers.rules.publish import Publication  # noqa: PLC0415 - it knows this class
        from analyzers.rules.targets import beside  # noqa: PLC0415 - with its user

        _both(repository, dataset)
        if verdicts is None and repository is not None and dataset is not None:
            verdicts = RepositoryVerdicts(repository, dataset)
        elif verdicts is None:
            folder = beside(data.sparkSession, table)
            verdicts = None if folder is None else VerdictFiles(folder)
        print_ = None if verdicts is None else frame_fingerprint(data)
        tests = ValidationSet([self], verdicts=verdicts, fingerprint=print_)
        return Publication(
            table,
            tests,
            partition_by=partition_by,
            mode=mode,
            quarantine=quarantine,
            keys=keys,
            samples=samples,
            repository=repository,
            dataset=dataset,
            tags=tags,
        ).run(data)

    def split(
        self,
        masked: Masked,
        tallies: Tallies,
        by: Sequence[str] = (),
        keys: Sequence[str] = (),
        samples: int = SAMPLES,
        parser: ParserValidation | None = None,
    ) -> Applied:
        """Judge and split a frame whose bits are there, and were counted; with the parser it came of."""
        from analyzers.rules.applied import Applied  # noqa: PLC0415 - it knows this class

        groups = {key: found for (key, segment), found in tallies.items() if not segment}
        whole = self._whole(groups.values())
        state = self.tasks.state(whole.counts, {**masked.failures, **whole.failures})
        for sample in self._samples(masked, whole.counts, samples, keys, by):
            state.add_sample(sample)
        parsed = None if parser is None else parser.count()
        if parsed is not None:
            parsed.fill(state)
        state.snapshot()
        check = self.judge(state, masked.kept)
        if parser is not None:
            check = parser.judge(state, masked.kept) + check
        return Applied(self, masked, state, check, tuple(by), groups, parsed)

    def _whole(self, groups: Any) -> Tally:
        groups = list(groups)
        counts = RecordCounts.merge([group.counts for group in groups])
        failures = {name: error for group in groups for name, error in group.failures.items()}
        return Tally(counts, failures)

    def _samples(
        self,
        masked: Masked,
        counts: RecordCounts,
        most: int,
        keys: Sequence[str],
        by: Sequence[str],
    ) -> Any:
        found = self.tasks.of(counts)
        charged = {
            name: count for (kind, name), count in found.items() if kind == "charged" and count
        }
        return sample_rejects(masked, charged, most, keys, by) if charged and most > 0 else ()

    def attach(self, data: DataFrame) -> Attached:
        """Put rules and fixes upon a frame without reading it; `Attached.check` judges later."""
        from analyzers.rules.attached import Attached  # noqa: PLC0415 - it knows this class

        return Attached(self, data)

    def count(self, data: DataFrame) -> DQMState:
        """Return the counts of a frame, not final yet; one pass, none if no task needs it."""
        if not self.needs_action:
            return self.tasks.state(RecordCounts())
        whole = self._whole(tally(data, self.tasks).values())
        return self.tasks.state(whole.counts, whole.failures)

    def validate(self, data: DataFrame) -> CheckResult:
        """Judge a frame to which rules and fixes were not applied yet."""
        state = self.count(data)
        state.snapshot()
        return self.judge(state, mask(data, self.tasks, state.errors).kept)

    def validate_written(self, data: DataFrame) -> CheckResult:  # noqa: ARG002 - it must not be judged
        """Refuse to judge what is left of a frame: nothing in it tells what was rejected.

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
            Counted now, or long ago.
        data : DataFrame, optional
            After rules and fixes, for policies that look at it.

        Raises
        ------
        RuleError
            If a policy needs the data and there is none.
        """
        verdicts: list[tuple[str, str | None]] = []
        rules = [(t, p) for t, p in self.task_policies if isinstance(t, DQMRule)]
        fixes = [(t, p) for t, p in self.task_policies if not isinstance(t, DQMRule)]
        for task, minded in rules + fixes:
            failed = state.errors.get(task.name)
            if isinstance(minded, FailNone) and failed is None:
                continue
            if isinstance(task, DQMRule):
                counts = state.rule_count(task.name), state.rule_records(task.name)
            else:
                counts = state.fix_count(task.name), state.records
            verdicts.append((task.name, failed or minded.refusal(*counts)))
        verdicts += [(policy.name, policy.refusal(state, data)) for policy in self.policies]
        return CheckResult(
            passed=all(reason is None for _, reason in verdicts),
            error_messages=tuple((name, reason) for name, reason in verdicts if reason is not None),
            check_log=(*state.log(), *self._unparsed(state)),
            outcomes=tuple((name, reason is None) for name, reason in verdicts),
        )

    @property
    def parser_policies(self) -> tuple[DQMPolicy, ...]:
        """The policies of what a parser could not read."""
        return tuple(p for p in self.policies if isinstance(p, FailParserCountPolicy))

    def without_parser_policies(self) -> Self:
        """Return one without these."""
        return self._copy(
            policies=tuple(p for p in self.policies if not isinstance(p, FailParserCountPolicy))
        )

    def _unparsed(self, state: DQMState) -> Iterator[str]:
        """Yield a line for each policy of what could not be read, where nothing was parsed."""
        for policy in self.parser_policies:
            if not state.lines:
                yield f"policy {policy.name}: no file was parsed here, so it has nothing to count"

    def __repr__(self) -> str:
        """Return how much there is."""
        rules, fixes = len(self.tasks.rules), len(self.tasks.fixes)
        return f"DQM({rules} rules, {fixes} fixes, {len(self.policies)} policies)"


def _both(repository: Recorder | None, dataset: str | None) -> None:
    if (repository is None) != (dataset is None):
        msg = "counts are stored under a name: give repository= and dataset= together"
        raise RuleError(msg)
