"""Stage, validate, publish: compute data once, judge the staged copy, publish it if it passes.

`record` stores the counts of rules and fixes in a repository as a run's metrics, without rereading data.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING

from tidegauge.analyzers.core.errors import MetricError, SinkError, describe
from tidegauge.analyzers.core.metric import attempt
from tidegauge.analyzers.core.partitions import Partition, Values, recognise_time
from tidegauge.analyzers.core.privacy import Privacy
from tidegauge.analyzers.core.registry import canonical_json
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.sql import quote
from tidegauge.analyzers.runs.ledger import (
    Case,
    LedgerEntry,
    MeasuredPartition,
    RunSpec,
    differ,
)
from tidegauge.analyzers.runs.recording import Recorder, RunReport, measured_states, recording
from tidegauge.analyzers.scan.grouping import Groups
from tidegauge.analyzers.scan.spark_errors import explained_read_errors
from tidegauge.analyzers.sources.opening import check_disjoint_locations
from tidegauge.analyzers.sources.targets import (
    WriteTarget,
    check_mode,
    check_not_staged,
    keys_for,
    open_target,
)
from tidegauge.analyzers.sources.targets import replace as replace_records
from tidegauge.repository.repository import as_repository
from tidegauge.repository.store.config import privacy_settings
from tidegauge.rules.definition import (
    Applied,
    DQMDefinition,
    partitions_with,
    quarantine,
    split,
    with_broken_rules,
)
from tidegauge.rules.masks import Masked, mask
from tidegauge.rules.measures import analyzers_of, parser_analyzers
from tidegauge.rules.record_counts import DQMState, RecordCounts, Tally
from tidegauge.rules.tally import Tallies, count_masked, resolve_columns, tally
from tidegauge.rules.verdicts import CheckResult, RepositoryVerdicts, ValidationSet, validated

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def as_recorder(repository: Recorder | str | Path | None) -> Recorder | None:
    """Return a repository, opening a URL or the path of a SQLite file."""
    return as_repository(repository) if isinstance(repository, str | Path) else repository


def record(
    applied: Applied,
    repository: Recorder,
    dataset: str,
    case: Case | None = None,
    tags: Mapping[str, str] | None = None,
) -> RunReport:
    """Store the counts of each partition, and the verdicts, as a run.

    Parameters
    ----------
    applied : Applied
        The result of applying rules and fixes.
    repository : Repository
        The repository.
    dataset : str
        Name of the dataset.
    case : Case, optional
        Key of the verdict on all data; without a key, no verdict is stored. The partitions of a frame
        have no fingerprints, so a partition whose counts differ from the last run is a new version.
    tags : mapping, optional
        Tags of the run.

    Returns
    -------
    RunReport
        Report with the id of the run. A run that raises is closed as failed, or as interrupted.

    Raises
    ------
    LeaseError
        If another run holds the dataset's lease for an hour.
    """
    run_tags = {str(key): str(value) for key, value in (tags or {}).items()}
    fingerprint = None if case is None else case.fingerprint
    suite = canonical_json({"dataset": dataset, "dqm": applied.dqm.identity()})
    spec = RunSpec(dataset, None, applied.partition_by, suite, "all", run_tags)
    with recording(repository.store, spec) as run:
        run.commit(list(_measured_partitions(applied, fingerprint, run.ledger())))
        _keep_verdicts(applied, RepositoryVerdicts(repository, dataset), case, run.run)
    return run.report


def _measured_partitions(
    applied: Applied, fingerprint: str | None, ledger: Mapping[str, LedgerEntry]
) -> Iterator[MeasuredPartition]:
    """Yield the counts of each partition in the form a scan produces."""
    tasks, partition_columns = applied.dqm.tasks, applied.partition_by
    analyzers = analyzers_of(tasks)
    time = recognise_time(partition_columns)
    schema = (
        Schema.from_spark(applied.masked.kept_records.schema)
        .without(set(partition_columns))
        .canonical()
    )
    fingerprint_of_all = None if partition_columns else fingerprint
    # Unreadable records have no partition.
    parsers = (
        [] if applied.parsed is None or partition_columns else parser_analyzers(applied.parsed)
    )
    for values, group in _groups(applied):
        partition = Partition(partition_columns, values)
        previous = ledger.get(partition.name)
        is_unchanged = previous is not None and (
            fingerprint_of_all is None or not differ(fingerprint_of_all, previous.fingerprint)
        )
        states = {a: attempt(partial(a.fold, [group])) for a in analyzers}
        parsed = {a: attempt(partial(a.fold, [applied.parsed])) for a in parsers}
        yield MeasuredPartition.from_measurements(
            partition,
            [*measured_states(states, analyzers), *measured_states(parsed, parsers)],
            time,
            fingerprint=fingerprint_of_all,
            schema=schema,
            rows=tasks.counts_by_task(group.counts)["records", ""],
            added_to=previous.version if previous is not None and is_unchanged else None,
        )


def _groups(applied: Applied) -> list[tuple[Values, Tally]]:
    """Return the counts by partition; unpartitioned empty data is one group of zeros."""
    if not applied.partition_by and not applied.tallies:
        return [((), Tally(RecordCounts()))]
    return sorted(applied.tallies.items())


def _keep_verdicts(
    applied: Applied, verdicts: RepositoryVerdicts, case: Case | None, run: int
) -> None:
    if case is None:
        return
    verdicts.keep(case, applied.check, run)
    dqm = applied.dqm
    for partition, verdict in _verdicts(applied):
        partition_case = Case(dqm.name, dqm.specification, case.fingerprint, partition)
        verdicts.keep(partition_case, verdict, run)


def _verdicts(applied: Applied) -> Iterator[tuple[str, CheckResult]]:
    """Yield the verdict on each partition, or nothing if a policy needs the data."""
    dqm = applied.dqm
    if not applied.partition_by or any(policy.needs_data for policy in dqm.policies):
        return
    for values, group in sorted(applied.tallies.items()):
        state = dqm.tasks.state(group.counts, {**applied.masked.failures, **group.failures})
        state.snapshot()
        yield Partition(applied.partition_by, values).name, dqm.judge(state)


@dataclass(frozen=True, repr=False)
class Published:
    """Result of a publication: the data passed and was written.

    Attributes
    ----------
    check : CheckResult
        The verdict, which passed.
    state : DQMState
        The counts.
    run : int or None
        Id of the repository run that recorded the counts.

    Examples
    --------
    >>> import tempfile
    >>> import tidegauge as tg
    >>> riders = tg.spark_session().sql("SELECT explode(array(34, -1, 210)) AS age")  # doctest: +SKIP
    >>> ages = tg.DQM("ages").add(tg.BoundRule("age", 1, 150), tg.FailCount(3))
    >>> published = ages.publish(riders, f"{tempfile.mkdtemp()}/riders")  # doctest: +SKIP
    >>> published.data.count(), published.state.records, published.check.passed  # doctest: +SKIP
    (1, 3, True)
    """

    check: CheckResult
    state: DQMState
    run: int | None
    _target: WriteTarget
    _applied: Applied
    _schema: StructType

    @property
    def table(self) -> str:
        """Name of the table or folder."""
        return self._target.name

    @property
    def data(self) -> DataFrame:
        """The current content of the table or folder, including earlier records."""
        return self._target.read(self._schema)

    def metrics(self) -> pd.DataFrame:
        """Return the counts as metrics; see `Applied.metrics`.

        Examples
        --------
        >>> import tempfile
        >>> import tidegauge as tg
        >>> riders = tg.spark_session().sql("SELECT explode(array(34, -1, 210)) AS age")  # doctest: +SKIP
        >>> ages = tg.DQM("ages").add(tg.BoundRule("age", 1, 150), tg.FailCount(3))  # doctest: +SKIP
        >>> published = ages.publish(riders, f"{tempfile.mkdtemp()}/riders")  # doctest: +SKIP
        >>> counts = published.metrics().set_index("name")["value"]  # doctest: +SKIP
        >>> float(counts["RuleRejects"])  # doctest: +SKIP
        2.0
        """
        return self._applied.metrics()

    def __repr__(self) -> str:
        """Return the table, the number of records written, and the verdict."""
        kept_count = self.state.records - self.state.rejects
        return (
            f"Published({self.table!r}, {kept_count} of {self.state.records} records, {self.check})"
        )


@dataclass(frozen=True)
class Publication:
    """Plan of a publication; see `DQM.publish` for the parameters.

    Attributes
    ----------
    table : str
        A table's name, or a folder.
    tests : ValidationSet
        The tasks that judge the data, and the store of the verdict; the first task is a `DQM`.
    partition_by, mode, quarantine, keys, samples, repository, dataset, tags
        As for `DQM.publish`.
    partitions : collection of tuple of str
        Partitions that the mode ``partitions`` replaces even if the data has no records in them.
    """

    table: str
    tests: ValidationSet
    partition_by: Sequence[str] | None = None
    mode: str = "overwrite"
    quarantine: str | None = None
    keys: Sequence[str] = ()
    samples: int = 10
    repository: Recorder | None = None
    dataset: str | None = None
    tags: Mapping[str, str] | None = None
    partitions: Collection[Values] = ()

    @property
    def dqm(self) -> DQMDefinition:
        """The rules, fixes and policies."""
        dqm: DQMDefinition = self.tests.tasks[0]  # type: ignore[assignment]  # by contract
        return dqm

    def run(self, data: DataFrame) -> Published:
        """Stage, validate and publish the data."""
        target = open_target(data.sparkSession, self.table)
        partition_columns = keys_for(target, data.schema, self.partition_by)
        check_mode(self.mode, partition_columns)
        keys = resolve_columns(data, self.keys)
        quarantine_target = None
        if self.quarantine is not None:
            quarantine_target = open_target(data.sparkSession, self.quarantine)
            check_disjoint_locations(
                {"table": self.table, "quarantine": self.quarantine}, data.sparkSession
            )
            keys_for(quarantine_target, with_broken_rules(data.schema), partition_columns)
        stored = self.tests.stored_result()
        if stored is not None:
            stored.terminate_at_error()
        check_not_staged(target, data)
        with ExitStack() as staging:
            staging.callback(target.unstage)
            with explained_read_errors():
                applied = self._stage_and_judge(data, target, partition_columns, keys)
            other_verdicts = [
                validated(task.hiding(self._private), data) for task in self.tests.tasks[1:]
            ]
            check = reduce(add, other_verdicts, applied.check)
            run = self._record(applied, check)
            if run is None or not self._stores_verdict_with_run:
                self.tests.keep(check)
            if quarantine_target is not None:
                with _keeping_staging(quarantine_target, target, staging) as before_delete:
                    quarantine(
                        applied,
                        quarantine_target,
                        self.mode,
                        self.partitions,
                        before_delete=before_delete,
                    )
            check.terminate_at_error()
            kept_partitions = partitions_with(applied, "kept")
            judged = {*applied.tallies, *self.partitions}
            with _keeping_staging(target, target, staging) as before_delete:
                replace_records(
                    target,
                    applied.data,
                    self.mode,
                    partition_columns,
                    kept_partitions,
                    judged,
                    before_delete,
                )
        return Published(check, applied.state, run, target, applied, data.schema)

    def _stage_and_judge(
        self, data: DataFrame, target: WriteTarget, partition_by: Sequence[str], keys: Sequence[str]
    ) -> Applied:
        """Stage all records with their bit words next to the target, then count and judge them."""
        failures: Mapping[str, MetricError] = {}
        masked = mask(data, self.dqm.tasks)
        try:
            staged = _stage(masked, target)
        except Exception:
            failures = _failing_tasks(self.dqm, data)
            if not failures:
                raise
            masked = mask(data, self.dqm.tasks, failures)
            staged = _stage(masked, target)
        groups = Groups(tuple(partition_by))
        counted = count_masked(replace(staged, frame=groups.with_keys(staged.frame)), groups)
        tallies: Tallies = {
            key: Tally(group.counts, {**group.failures, **failures})
            for key, group in counted.items()
        }
        return split(
            self.dqm, staged, tallies, partition_by, keys, self.samples, private=self._private
        )

    @property
    def _private(self) -> Privacy:
        return privacy_settings().for_dataset(self.dataset, self.table, tags=self.tags)

    @property
    def _stores_verdict_with_run(self) -> bool:
        """Return whether recording the run also stores the verdict."""
        store = self.tests.verdicts
        return (
            isinstance(store, RepositoryVerdicts)
            and store.repository is self.repository
            and store.dataset == self.dataset
        )

    def _record(self, applied: Applied, check: CheckResult) -> int | None:
        if self.repository is None or self.dataset is None:
            return None
        with_verdict = replace(applied, check=check)
        return record(with_verdict, self.repository, self.dataset, self.tests.case, self.tags).run


def _stage(masked: Masked, target: WriteTarget) -> Masked:
    """Write the masked frame to the staging area, and return the staged frame."""
    names = [*masked.columns, *masked.originals.values(), *masked.words]
    return replace(masked, frame=target.stage(masked.frame.selectExpr(*map(quote, names))))


@contextmanager
def _keeping_staging(
    target: WriteTarget, staged: WriteTarget, staging: ExitStack
) -> Iterator[Callable[[], None]]:
    """Keep the staging area if Spark fails after it deleted old files and before it wrote new ones.

    Yields the function to call before Spark deletes files.
    """
    deleted: list[ExitStack] = []
    try:
        yield lambda: deleted.append(staging.pop_all())
    except Exception as error:
        if not deleted:
            raise
        msg = (
            f"overwriting {target.name!r} failed, and its old records can be lost: {describe(error)};"
            f" the records of this publication are in {staged.staging} until the next publication: if"
            " they were computed from the old records, copy them first"
        )
        raise SinkError(msg) from error
    for stack in deleted:
        staging.push(stack)


def _failing_tasks(dqm: DQMDefinition, data: DataFrame) -> Mapping[str, MetricError]:
    """Return the tasks whose evaluation fails on the data, with their errors."""
    if not dqm.needs_action:
        return {}
    return {
        name: error
        for group in tally(data, dqm.tasks).values()
        for name, error in group.failures.items()
    }
