"""`DQM`: record rules, fixes and policies, applied to DataFrames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tidegauge.analyzers.core.errors import RuleError
from tidegauge.analyzers.core.frames import check_frame
from tidegauge.analyzers.core.privacy import PARTITIONS
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.runs.recording import Recorder
from tidegauge.analyzers.scan.grouping import Groups
from tidegauge.analyzers.scan.read_errors import explained_read_errors
from tidegauge.analyzers.sources.fingerprints import frame_fingerprint
from tidegauge.analyzers.sources.locations import parent_location
from tidegauge.repository.store.config import privacy_settings
from tidegauge.rules.applied import Applied, split
from tidegauge.rules.attached import Attached
from tidegauge.rules.definition import DQMDefinition, total
from tidegauge.rules.masks import mask
from tidegauge.rules.outcome.recording import as_recorder, record
from tidegauge.rules.outcome.validation import ValidationSet
from tidegauge.rules.outcome.verdicts import RepositoryVerdicts, VerdictFiles, Verdicts
from tidegauge.rules.parsing.parser import ParserValidation
from tidegauge.rules.publish import Publication, Published
from tidegauge.rules.samples import SAMPLES, resolve_columns
from tidegauge.rules.tally import tally

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class DQM(DQMDefinition):
    """Rules, fixes and policies; immutable, `add` returns a new one.

    Rules see original values, and a record is charged to the first rule it breaks. Fixes repair the
    remaining records, in the order in which they were added, each seeing the result of the last.
    Rules of the stage ``after`` see repaired values. Policies judge the counts.

    Parameters
    ----------
    name : str
        Name under which verdicts are stored.

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
    DQM(1 rule, 1 fix, 1 policy)
    >>> rides = tg.spark_session().sql("SELECT * FROM VALUES (34, -5), (210, 9) AS (age, fare)")  # doctest: +SKIP
    >>> result = dqm.apply(rides)  # doctest: +SKIP
    >>> result.data.collect(), result.rejects.count(), result.check.passed  # doctest: +SKIP
    ([Row(age=34, fare=0)], 1, True)
    """

    def apply(
        self,
        data: DataFrame | ParserValidation,
        *,
        partition_by: Sequence[str] = (),
        keys: Sequence[str] = (),
        samples: int = SAMPLES,
        repository: Recorder | str | Path | None = None,
        dataset: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> Applied:
        """Count, judge, and split a frame into kept and rejected records.

        One pass counts; if records break rules, a second pass over these takes samples.

        Parameters
        ----------
        data : DataFrame or ParserValidation
            A frame, or the parser of a file, whose unreadable records are counted and judged too.
        partition_by : sequence of str
            Columns to group the counts by.
        keys : sequence of str
            Columns that identify a record, for the samples.
        samples : int
            Number of sample records for each rule; 0 for none.
        repository : Repository or str, optional
            Or its URL. Stores the counts as the metrics of a run, and the verdicts, without another pass over
            the data.
        dataset : str, optional
            Name of the dataset in the repository; required with a repository.
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
            If only one of ``repository`` and ``dataset`` is given.
        SourceError
            If the data is neither a DataFrame of Spark nor a parser, or is a stream.

        Examples
        --------
        >>> import tidegauge as tg
        >>> riders = tg.spark_session().sql("SELECT explode(array(34, -1, 210)) AS age")  # doctest: +SKIP
        >>> ages = tg.DQM("ages").add(tg.BoundRule("age", 1, 150), tg.FailCount(2))
        >>> applied = ages.apply(riders)  # doctest: +SKIP
        >>> applied.data.collect(), applied.rejects.count(), applied.check.passed  # doctest: +SKIP
        ([Row(age=34)], 2, False)
        """
        parser = None
        if isinstance(data, ParserValidation):
            parser, data = data, data.read().data
        check_frame(data)
        repository = as_recorder(repository)
        _both(repository, dataset)
        by = resolve_columns(data, partition_by)
        named = resolve_columns(data, keys)
        private = privacy_settings().of(dataset, tags=tags)
        if repository is not None:
            private.refuse_names(by, PARTITIONS, Schema.from_frame(data))
        with explained_read_errors():
            tallies = tally(data, self.tasks, Groups(tuple(by)))
        masked = mask(data, self.tasks, total(tallies.values()).failures)
        applied = split(self, masked, tallies, by, named, samples, parser, private)
        if repository is None or dataset is None:
            return applied
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
        repository: Recorder | str | Path | None = None,
        dataset: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> Published:
        """Write the kept records of a frame to a table if all policies hold; else leave it as is.

        All records are staged beside the table once, with the outcome of rules and fixes for each,
        and are counted, sampled and judged there: the frame is computed once, and may read the
        table. The staging area is named ``_tidegauge_staging_...``; it is removed at the end, and a
        leftover of a killed run is replaced by the next run. Run only one publication of a table at
        a time.

        A folder that is overwritten is written anew beside the old one and renamed, where its file
        system renames folders in one step (local disks, HDFS; no links, no mount points). Elsewhere,
        and in tables without a transaction log, Spark deletes all files before it writes: if that
        fails, the staging area is kept, and the error tells where. The other modes delete nothing
        before all is written.

        Spark replaces the files of a table without isolating readers. A concurrent reader may see
        the table empty or in part, or get an error that a file is gone, as with any overwrite by
        Spark; so does a reader after a run was killed in this last step, until the next run. Tables
        with a transaction log (Delta Lake, Apache Iceberg) show either state.

        Parameters
        ----------
        data : DataFrame
        table : str
            A table's name, or a folder of Parquet files (anything with a slash). It is created if
            missing; otherwise its columns must be those of the data, in any order.
        partition_by : sequence of str, optional
            Partition columns of a new table; an existing one keeps its own. Counts are also grouped
            by them.
        mode : str
            ``overwrite`` replaces everything, ``append`` adds, ``partitions`` replaces the
            partitions that the data has records of, including those whose records are all rejected.
        quarantine : str, optional
            Table or folder for the rejected records, written in the same mode whatever the verdict.
        keys, samples
            As for `apply`.
        verdicts : Verdicts, optional
            Store of the verdict by the data's fingerprint: `VerdictFiles`, or `RepositoryVerdicts`.
            Default: the repository; without one, a file ``<name>.<hash>.check`` beside the folder,
            or among the tables of its database. A stored failure is raised again without reading
            anything.
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
        SinkError
            If overwriting failed when Spark had begun to delete what was there.
        RuleError

        Examples
        --------
        >>> import tempfile
        >>> import tidegauge as tg
        >>> riders = tg.spark_session().sql("SELECT explode(array(34, -1, 210)) AS age")  # doctest: +SKIP
        >>> ages = tg.DQM("ages").add(tg.BoundRule("age", 1, 150), tg.FailCount(3))
        >>> ages.publish(riders, f"{tempfile.mkdtemp()}/riders").data.count()  # doctest: +SKIP
        1
        """
        check_frame(data)
        repository = as_recorder(repository)
        _both(repository, dataset)
        if verdicts is None and repository is not None and dataset is not None:
            verdicts = RepositoryVerdicts(repository, dataset)
        elif verdicts is None:
            folder = parent_location(data.sparkSession, table)
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

    def attach(self, data: DataFrame) -> Attached:
        """Apply rules and fixes to a frame without reading it; `Attached.check` judges later.

        Examples
        --------
        >>> import tidegauge as tg
        >>> riders = tg.spark_session().sql("SELECT explode(array(34, -1, 210)) AS age")  # doctest: +SKIP
        >>> attached = tg.DQM("ages").add(tg.BoundRule("age", 1, 150)).attach(riders)  # doctest: +SKIP
        >>> attached.data.collect()  # doctest: +SKIP
        [Row(age=34)]
        >>> attached.check().passed, attached.state.total_rule_count  # doctest: +SKIP
        (True, 2)
        """
        return Attached(self, data)


def _both(repository: Recorder | None, dataset: str | None) -> None:
    if (repository is None) != (dataset is None):
        msg = "counts are stored under a name: give repository= and dataset= together"
        raise RuleError(msg)
