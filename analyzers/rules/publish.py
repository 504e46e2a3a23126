"""Stage, validate, publish: data is computed once, judged where it waits, and replaces a table if it passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

from analyzers.errors import MetricError
from analyzers.groups import Groups
from analyzers.rules.applied import BROKEN, Applied
from analyzers.rules.masks import Masked, mask
from analyzers.rules.recording import Recorder, record
from analyzers.rules.result import CheckResult
from analyzers.rules.samples import check_columns
from analyzers.rules.state import DQMState, Tally
from analyzers.rules.tally import Tallies, count_masked, tally
from analyzers.rules.targets import Target, check_mode, keys_for, refuse_same, target_of
from analyzers.rules.targets import replace as replace_records
from analyzers.rules.validation import ValidationSet
from analyzers.rules.verdicts import RepositoryVerdicts
from analyzers.segments import Values
from analyzers.sql import quote

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from analyzers.rules.dqm import DQM


@dataclass(frozen=True, repr=False)
class Published:
    """Records that passed, and were written.

    Attributes
    ----------
    check : CheckResult
        The verdict, passed.
    state : DQMState
        What was counted.
    run : int or None
        The run of the repository that the counts were recorded in.
    """

    check: CheckResult
    state: DQMState
    run: int | None
    _target: Target
    _applied: Applied
    _schema: StructType

    @property
    def table(self) -> str:
        """The table or folder."""
        return self._target.name

    @property
    def data(self) -> DataFrame:
        """All that the table or folder holds now."""
        return self._target.read(self._schema)

    def metrics(self) -> pd.DataFrame:
        """Return what was counted, as `Applied.metrics` does."""
        return self._applied.metrics()

    def __repr__(self) -> str:
        """Return where how many records went."""
        left = self.state.records - self.state.rejects
        return f"Published({self.table!r}, {left} of {self.state.records} records, {self.check})"


@dataclass(frozen=True)
class Publication:
    """How data is published; `DQM.publish` tells of each part.

    Attributes
    ----------
    table : str
    tests : ValidationSet
        What judges the data, and where the verdict is kept; the first task is a `DQM`.
    partition_by, mode, quarantine, keys, samples, repository, dataset, tags
        As for `DQM.publish`.
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

    @property
    def dqm(self) -> DQM:
        """The rules, fixes and policies."""
        dqm: DQM = self.tests.tasks[0]  # type: ignore[assignment]  # by contract
        return dqm

    def run(self, data: DataFrame) -> Published:
        """Stage, validate, publish."""
        target = target_of(data.sparkSession, self.table)
        by = keys_for(target, data.schema, self.partition_by)
        check_mode(self.mode, by)
        keys = check_columns(data, self.keys)
        bin_ = None
        if self.quarantine is not None:
            bin_ = target_of(data.sparkSession, self.quarantine)
            refuse_same({"table": self.table, "quarantine": self.quarantine}, data.sparkSession)
            keys_for(bin_, _with_broken(data.schema), by)
        kept = self.tests.kept()
        if kept is not None:
            kept.terminate_at_error()
        try:
            applied = self._judged(data, target, by, keys)
            others = [task.validate(data) for task in self.tests.tasks[1:]]
            check = reduce(add, others, applied.check)
            run = self._record(applied, check)
            if run is None or not self._recorded_there:
                self.tests.keep(check)
            if bin_ is not None:
                quarantine(applied, bin_, self.mode)
            check.terminate_at_error()
            kept_in = _partitions(applied, "kept")
            replace_records(target, applied.data, self.mode, by, kept_in, list(applied.tallies))
        finally:
            target.unstage()
        return Published(check, applied.state, run, target, applied, data.schema)

    def _judged(
        self, data: DataFrame, target: Target, by: Sequence[str], keys: Sequence[str]
    ) -> Applied:
        """Write all records with their bits beside the target, and count and judge them there."""
        failures: Mapping[str, MetricError] = {}
        masked = mask(data, self.dqm.tasks)
        try:
            staged = _staged(masked, target)
        except Exception:
            failures = _culprits(self.dqm, data)
            if not failures:
                raise
            masked = mask(data, self.dqm.tasks, failures)
            staged = _staged(masked, target)
        groups = Groups(tuple(by))
        counted = count_masked(replace(staged, frame=groups.keyed(staged.frame)), groups)
        tallies: Tallies = {
            key: Tally(one.counts, {**one.failures, **failures}) for key, one in counted.items()
        }
        return self.dqm.split(staged, tallies, by, keys, self.samples)

    @property
    def _recorded_there(self) -> bool:
        """Whether the verdict is kept where the run is recorded, and so with it."""
        place = self.tests.verdicts
        return (
            isinstance(place, RepositoryVerdicts)
            and place.repository is self.repository
            and place.dataset == self.dataset
        )

    def _record(self, applied: Applied, check: CheckResult) -> int | None:
        if self.repository is None or self.dataset is None:
            return None
        whole = replace(applied, check=check)
        return record(whole, self.repository, self.dataset, self.tests.case, self.tags).run


def quarantine(applied: Applied, target: Target, mode: str) -> None:
    """Write rejected records to a table of their own, by the same partitions."""
    keys_for(target, applied.rejects.schema, applied.by)
    check_mode(mode, applied.by)
    held = _partitions(applied, "rejected")
    replace_records(target, applied.rejects, mode, applied.by, held, list(applied.tallies))


def _with_broken(schema: StructType) -> StructType:
    """Return the schema of what is rejected."""
    from pyspark.sql.types import ArrayType, StringType, StructField, StructType  # noqa: PLC0415

    return StructType([*schema.fields, StructField(BROKEN, ArrayType(StringType()))])


def _partitions(applied: Applied, what: str) -> list[Values]:
    """Return the partitions that hold records that were kept, or rejected."""
    found = []
    for values, one in applied.tallies.items():
        counts = applied.dqm.tasks.of(one.counts)
        kept, records = counts["kept", ""], counts["records", ""]
        if (kept if what == "kept" else records - kept) > 0:
            found.append(values)
    return found


def _staged(masked: Masked, target: Target) -> Masked:
    """Return the same, read from where it waits."""
    names = [*masked.columns, *masked.originals.values(), *masked.words]
    return replace(masked, frame=target.stage(masked.frame.selectExpr(*map(quote, names))))


def _culprits(dqm: DQM, data: DataFrame) -> Mapping[str, MetricError]:
    """Return the tasks that the data makes fail."""
    if not dqm.needs_action:
        return {}
    return {
        name: error
        for one in tally(data, dqm.tasks).values()
        for name, error in one.failures.items()
    }
