"""`DQM`: record rules, fixes and policies, applied to DataFrames.

`DQM.attach` defers validation: rules and fixes are attached to a frame, the caller runs an action, and then the
frame is judged. Spark's `Observation` counts during the caller's action, so no additional scan is needed. It
counts only the records that the action reads, so it is used only if the action read all of them.

A `Dataset` is a function whose frame is validated before it is returned.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYetError
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, cast

from tidegauge.analyzers.core.analyzer import Sketch
from tidegauge.analyzers.core.errors import RuleError
from tidegauge.analyzers.core.privacy import PARTITIONS
from tidegauge.analyzers.core.registry import canonical_json, key_of
from tidegauge.analyzers.core.schema import Schema, check_frame
from tidegauge.analyzers.measures.top_values import FrequentItemsState
from tidegauge.analyzers.runs.ledger import Case
from tidegauge.analyzers.runs.recording import Recorder
from tidegauge.analyzers.scan.capabilities import capabilities
from tidegauge.analyzers.scan.grouping import Groups
from tidegauge.analyzers.scan.spark_errors import explained_read_errors
from tidegauge.analyzers.sources.opening import parent_location
from tidegauge.analyzers.sources.sources import frame_fingerprint
from tidegauge.analyzers.sources.targets import WriteTarget, open_target
from tidegauge.repository.repository import Repository, as_repository
from tidegauge.repository.store.config import privacy_settings
from tidegauge.rules.definition import Applied, DQMDefinition, split, total
from tidegauge.rules.file_parser import ParserValidation
from tidegauge.rules.masks import HIDDEN_PREFIX, mask
from tidegauge.rules.publish import Publication, Published, as_recorder, record
from tidegauge.rules.record_counts import DQMState, RecordCounts, Tally
from tidegauge.rules.tally import DEFAULT_SAMPLES, resolve_columns, tally
from tidegauge.rules.tasks import source_hash
from tidegauge.rules.verdicts import (
    CheckResult,
    RepositoryVerdicts,
    ValidationSet,
    ValidationTask,
    VerdictFiles,
    Verdicts,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegauge.rules.policies import DQMPolicy


SKETCH_CAPACITY = 10_000
"""Capacity of the observation's sketch, in combinations of broken rules; exact up to three quarters of it."""
OBSERVATION_WAIT_SECONDS = 2.0
"""Spark delivers an observation from another thread, shortly after the action."""


class Attached(ValidationTask):
    """A `DQM` attached to a frame.

    Attributes
    ----------
    data : DataFrame
        The frame after rules and fixes, lazy.

    Examples
    --------
    >>> import tidegauge as tg
    >>> riders = tg.spark_session().sql("SELECT explode(array(34, -1, 210)) AS age")  # doctest: +SKIP
    >>> ages = tg.DQM("ages").add(tg.BoundRule("age", 1, 150), tg.FailCount(3))
    >>> attached = ages.attach(riders)  # doctest: +SKIP
    >>> attached.data.count(), attached.check().passed, attached.state.total_rule_count  # doctest: +SKIP
    (1, True, 2)
    """

    def __init__(self, dqm: DQMDefinition, original: DataFrame) -> None:
        check_frame(original, streaming=True)
        self.dqm = dqm
        self.name = dqm.name
        self.original = original
        self._masked = mask(original, dqm.tasks)
        self._observation: Any = None
        self._pending: Future[dict[str, Any]] | None = None
        self._result: CheckResult | None = None
        self._state: DQMState | None = None
        native = capabilities(original.sparkSession).sketches
        if dqm.needs_action and not original.isStreaming and "frequent" in native:
            self._observe()
        self.data = self._masked.kept_records

    def _observe(self) -> None:
        from pyspark.sql import Observation
        from pyspark.sql import functions as F

        # Spark interprets observed expressions one by one: a count for each rule and fix would cost many times
        # more than the rules. One sketch of the bit words is exact while it evicts nothing, and reports that.
        words = self._masked.words
        has_outcome = " OR ".join(f"{word} != 0L" for word in words) or "false"
        joined = ", ".join(words) or "''"
        bits = f"CASE WHEN {has_outcome} THEN concat_ws('.', {joined}) END"
        cells = [
            F.expr("count(1)").alias(f"{HIDDEN_PREFIX}n"),
            F.expr(Sketch("frequent", bits, SKETCH_CAPACITY).text).alias(f"{HIDDEN_PREFIX}s"),
        ]
        self._observation = Observation()
        observed = self._masked.frame.observe(self._observation, *cells)
        self._masked = replace(self._masked, frame=observed)

    @property
    def needs_action(self) -> bool:
        """Return whether the data must be read to judge it."""
        return self.dqm.needs_action

    def identity(self) -> Any:
        """Return the identity of the `DQM`."""
        return self.dqm.identity()

    @property
    def parser_policies(self) -> tuple[DQMPolicy, ...]:
        """The policies on records that a parser could not read."""
        return self.dqm.parser_policies

    def without_parser_policies(self) -> Attached:
        """Return a copy without the parser policies."""
        attached = copy(self)
        attached.dqm = self.dqm.without_parser_policies()
        return attached

    @property
    def state(self) -> DQMState:
        """The counts of the whole frame, available after `check`.

        Raises
        ------
        RuleError
            If `check` was not called yet.
        """
        if self._state is None:
            msg = "the frame has not been checked; call check() first"
            raise RuleError(msg)
        return self._state

    def check(
        self, rows: int | None = None, *, kept: int | None = None, samples: int = 0
    ) -> CheckResult:
        """Judge the attached frame; later calls return the first verdict.

        Parameters
        ----------
        rows : int, optional
            Number of records of the original frame, if the caller's action read all of them. The
            observed counts are then used. Without it, or if nothing was observed, the original frame
            is scanned once.
        kept : int, optional
            Number of records kept and written, as an alternative to ``rows``. If another number was
            observed, the original frame is scanned once.
        samples : int
            Number of sample records for each rule in the verdict's log (default: none). If records
            break rules, samples need a scan of the original frame.

        Raises
        ------
        RuleError
            If the observed or counted number of records differs from ``rows``, or if the frame is a
            stream.
        """
        if self._result is None:
            if self.needs_action and self.original.isStreaming:
                msg = "a stream cannot be judged as a whole; judge each batch with foreachBatch and dqm.apply"
                raise RuleError(msg)
            observed = None if rows is None and kept is None else self._observed()
            if observed is not None and rows is not None and observed.counts[0] != rows:
                msg = (
                    f"{observed.counts[0]} records were observed, not {rows}: the action did not read"
                    " all of them; call check() without rows= to count in another scan"
                )
                raise RuleError(msg)
            if observed is not None and kept is not None:
                kept_count = self.dqm.tasks.counts_by_task(observed)["kept", ""]
                observed = observed if kept_count == kept else None
            counted = (
                self.dqm.tally(self.original)
                if observed is None
                else Tally(observed, self._masked.failures)
            )
            masked = mask(self.original, self.dqm.tasks, counted.failures)
            state = self.dqm.final_state(counted, masked, samples)
            if rows is not None and self.needs_action and state.records != rows:
                msg = f"the frame has {state.records} records, not {rows}"
                raise RuleError(msg)
            self._state = state
            self._result = self.dqm.judge(state, masked.kept_records)
        return self._result

    def validate(self, data: DataFrame) -> CheckResult:
        """Judge the attached frame."""
        return self.check()

    def validate_written(self, data: DataFrame) -> CheckResult:
        """Judge the counts that were observed while the kept records were written."""
        if self._result is None and self.needs_action:
            return self.check(kept=data.count())
        return self.check()

    def _observed(self) -> RecordCounts | None:
        """Return the observed counts, or None; wait briefly for delivery, but never for an action."""
        if self._observation is None:
            return None
        if self._pending is None:
            waiting: Future[dict[str, Any]] = Future()
            self._pending = waiting

            def wait() -> None:
                try:
                    waiting.set_result(self._observation.get)
                except Exception as error:  # noqa: BLE001 - the future raises it again
                    waiting.set_exception(error)

            Thread(target=wait, name="tidegauge-observation", daemon=True).start()
        try:
            observed = self._pending.result(OBSERVATION_WAIT_SECONDS)
        except NotYetError:
            return None
        except Exception:  # noqa: BLE001 - the caller's action failed and raised there
            return None
        return self._counts_from_sketch(observed) if observed else None

    def _counts_from_sketch(self, observed: Mapping[str, Any]) -> RecordCounts | None:
        """Return the observed counts as a state; None if the sketch evicted anything."""
        import numpy as np

        sketch = FrequentItemsState.from_sketches([observed[f"{HIDDEN_PREFIX}s"]])
        estimates = sketch.top()
        records = int(observed[f"{HIDDEN_PREFIX}n"])
        unaffected = records - sum(value.estimate for value in estimates.values())
        exact = all(value.lower == value.upper for value in estimates.values())
        if not exact or unaffected != records - sketch.count:
            return None
        width = self.dqm.tasks.words
        rows = [[int(word) for word in bits.split(".")] for bits in estimates]
        words = np.array([*rows, [0] * width], dtype=np.int64).reshape(len(rows) + 1, width)
        counts = np.array(
            [*(value.estimate for value in estimates.values()), unaffected], dtype=np.int64
        )
        return self.dqm.tasks.fold(list(words.T), counts)

    def __repr__(self) -> str:
        """Return the `DQM` and the verdict, if any."""
        status = "not checked yet" if self._result is None else str(self._result)
        return f"Attached({self.dqm!r}, {status})"


class DQM(DQMDefinition):
    """Rules, fixes and policies. A `DQM` is immutable; `add` returns a new one.

    Rules are applied to original values, and a record is charged to the first rule it breaks. Fixes repair
    the remaining records in the order in which they were added; each is applied to the result of the previous
    fix. Rules of the stage ``after`` are applied to repaired values. Policies judge the counts.

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
        samples: int = DEFAULT_SAMPLES,
        repository: Recorder | str | Path | None = None,
        dataset: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> Applied:
        """Count, judge, and split a frame into kept and rejected records.

        One scan counts. If records break rules, a second scan of these takes samples.

        Parameters
        ----------
        data : DataFrame or ParserValidation
            A frame, or the parser of a file, whose unreadable records are also counted and judged.
        partition_by : sequence of str
            Columns to group the counts by.
        keys : sequence of str
            Columns that identify a record, for the samples.
        samples : int
            Number of sample records for each rule; 0 for none.
        repository : Repository or str, optional
            A repository or its URL, which stores the counts as metrics of a run, and the verdicts. This
            needs no additional scan.
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
            If a column of ``partition_by`` or ``keys`` does not exist.
        RuleError
            If only one of ``repository`` and ``dataset`` is given.
        SourceError
            If the data is neither a Spark DataFrame nor a parser, or is a stream.

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
        _check_repository_and_dataset(repository, dataset)
        partition_columns = resolve_columns(data, partition_by)
        key_columns = resolve_columns(data, keys)
        private = privacy_settings().for_dataset(dataset, tags=tags)
        if repository is not None:
            private.refuse_names(partition_columns, PARTITIONS, Schema.from_frame(data))
        with explained_read_errors():
            tallies = tally(data, self.tasks, Groups(tuple(partition_columns)))
        masked = mask(data, self.tasks, total(tallies.values()).failures)
        applied = split(
            self, masked, tallies, partition_columns, key_columns, samples, parser, private
        )
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
        samples: int = DEFAULT_SAMPLES,
        verdicts: Verdicts | None = None,
        repository: Recorder | str | Path | None = None,
        dataset: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> Published:
        """Write the kept records of a frame to a table if all policies hold; otherwise leave the table unchanged.

        All records are staged next to the table, with the outcome of rules and fixes for each, and are
        counted, sampled and judged there. So the frame is computed only once, and can read the table. The
        staging area is named ``_tidegauge_staging_...`` and is removed at the end; a leftover of a killed run
        is replaced by the next run. Run only one publication of a table at a time.

        To overwrite a folder, a new folder is written next to it and renamed, if the file system renames
        folders in one step (local disks and HDFS, without links or mount points). On other file systems, and
        for tables without a transaction log, Spark deletes all files before it writes. If that fails, the
        staging area is kept, and the error has its location. The other modes do not delete anything before
        all records are written.

        Spark replaces the files of a table without isolating readers. During this last step, or after a run
        was killed in it, a reader can see an empty or incomplete table, or get an error about a missing
        file. Tables with a transaction log (Delta Lake, Apache Iceberg) always show the old or the new state.

        Parameters
        ----------
        data : DataFrame
            The records.
        table : str
            A table's name, or a folder of Parquet files (anything with a slash). A missing table is
            created; an existing table must have the same columns as the data, in any order.
        partition_by : sequence of str, optional
            Partition columns of a new table; an existing table keeps its partition columns. Counts are
            also grouped by them.
        mode : str
            ``overwrite`` replaces everything, ``append`` adds, ``partitions`` replaces the
            partitions of the data, including partitions whose records are all rejected.
        quarantine : str, optional
            Table or folder for the rejected records, written in the same mode and for every verdict.
        keys, samples
            As for `apply`.
        verdicts : Verdicts, optional
            Store of the verdict by the data's fingerprint: `VerdictFiles`, or `RepositoryVerdicts`.
            Default: the repository; without a repository, a file ``<name>.<hash>.check`` next to the
            folder, or in the folder of the table's database. A stored failure is raised again without
            reading the data.
        repository, dataset, tags
            As for `apply`; the counts are stored for every verdict.

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
            If overwriting failed after Spark had begun to delete the old files.
        RuleError
            If an argument is invalid.

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
        _check_repository_and_dataset(repository, dataset)
        if verdicts is None and repository is not None and dataset is not None:
            verdicts = RepositoryVerdicts(repository, dataset)
        elif verdicts is None:
            folder = parent_location(data.sparkSession, table)
            verdicts = None if folder is None else VerdictFiles(folder)
        fingerprint = None if verdicts is None else frame_fingerprint(data)
        tests = ValidationSet([self], verdicts=verdicts, fingerprint=fingerprint)
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


def _check_repository_and_dataset(repository: Recorder | None, dataset: str | None) -> None:
    if (repository is None) != (dataset is None):
        msg = "repository= and dataset= must be given together"
        raise RuleError(msg)


FrameFunction = Callable[..., "DataFrame"]


def dataset(
    dqm: DQM | None = None,
    *,
    table: str | None = None,
    path: str | None = None,
    repository: Repository | str | Path | None = None,
    name: str | None = None,
    parser: ValidationTask | Callable[..., ValidationTask] | None = None,
    partition_by: Sequence[str] | None = None,
    quarantine: str | None = None,
    ephemeral: bool = False,
    folder: str | None = None,
) -> Callable[[FrameFunction], Dataset]:
    """Decorate a function that returns a frame, so that its data is validated and published.

    A dataset has the signature of the function. Calling it returns the kept records or raises an error. A
    persisted dataset is staged, judged, and published to its table or folder, which is then read; if it
    fails, the table is unchanged. While files, rules, policies, function and published table are unchanged,
    nothing is recomputed: passed data is read, and a stored failure is raised again.

    This requires that the function reads files (see `frame_fingerprint`); otherwise the data is computed and
    judged at each call. The function also counts as changed if its source changes, or the source of helpers
    in the same module.

    Parameters
    ----------
    dqm : DQM, optional
        Rules, fixes and policies (default: none).
    table, path : str, optional
        Destination of the data: a catalog table, or a folder. Exactly one is required, unless
        the dataset is ephemeral.
    repository : Repository or str, optional
        A repository or its URL, which stores the verdicts and counts under the dataset's name.
    name : str, optional
        Name of the dataset (default: the function's name).
    parser : ValidationTask or callable, optional
        The parser of the file that the function reads, or a function that returns it, called with
        the same arguments. Its verdict is combined with the verdict of the rules.
    partition_by : sequence of str, optional
        Partition columns of a new table; counts are also grouped by them.
    quarantine : str, optional
        A table or folder for the rejected records.
    ephemeral : bool
        Whether to persist nothing. The data is judged in a separate scan, once for the same files, and
        the returned frame is computed lazily.
    folder : str, optional
        Folder for verdicts without a repository, as files ``<name>.<hash>.check`` (default: next to the
        folder or the table; an ephemeral dataset then stores no verdicts).

    Raises
    ------
    RuleError
        If the destination of the data is missing, if a destination of data or verdicts is given twice,
        or if an ephemeral dataset is given ``partition_by`` or ``quarantine``.

    Examples
    --------
    >>> import tidegauge as tg
    >>> good = tg.DQM().add(tg.NotNullRule("carrier"), tg.FailPercent(0.5))
    >>> @tg.dataset(good, path="lake/departures", partition_by=["ds"])
    ... def departures(spark):
    ...     return spark.table("flights").where("NOT cancelled")
    >>> departures
    Dataset('departures')

    A dataset that writes nothing:

    >>> @tg.dataset(good, ephemeral=True)
    ... def carriers(spark):
    ...     return spark.sql("SELECT explode(array('AA', 'UA', NULL)) AS carrier")
    >>> carriers(tg.spark_session()).count()  # doctest: +SKIP
    2
    """
    if (table is not None) + (path is not None) + ephemeral != 1:
        msg = "a dataset needs exactly one of table=, path= and ephemeral=True"
        raise RuleError(msg)
    if ephemeral and (partition_by is not None or quarantine is not None):
        msg = "an ephemeral dataset writes nothing; remove partition_by= and quarantine="
        raise RuleError(msg)
    if repository is not None and folder is not None:
        msg = "give repository= or folder=, not both"
        raise RuleError(msg)
    if path is not None and "/" not in path:
        path = f"./{path}"
    repository = as_repository(repository)

    def decorate(function: FrameFunction) -> Dataset:
        return Dataset(
            function,
            DQM() if dqm is None else dqm,
            function.__name__ if name is None else name,
            path if table is None else table,
            repository,
            parser,
            partition_by,
            quarantine,
            folder,
        )

    return decorate


@dataclass(eq=False, repr=False)
class Dataset:
    """A function whose frame is validated before it is returned; see `dataset` for the parameters.

    Attributes
    ----------
    name : str
        Name of the dataset.
    dqm : DQM
        The rules, fixes and policies.

    Examples
    --------
    >>> import tidegauge as tg
    >>> good = tg.DQM("good").add(tg.NotNullRule("carrier"), tg.FailAny)
    >>> @tg.dataset(good, path="lake/departures")
    ... def departures(spark):
    ...     return spark.table("flights").where("NOT cancelled")
    >>> departures.name, departures.dqm.name
    ('departures', 'good')
    """

    function: FrameFunction
    dqm: DQM
    name: str
    _table: str | None
    _repository: Repository | None
    _parser: ValidationTask | Callable[..., ValidationTask] | None
    _partition_by: Sequence[str] | None
    _quarantine: str | None
    _folder: str | None

    def __post_init__(self) -> None:
        functools.update_wrapper(self, self.function)

    def __call__(self, *args: Any, **options: Any) -> DataFrame:
        """Return the validated data; arguments are passed to the function.

        Raises
        ------
        DQMError
            If the data failed, now or when the stored verdict was made.
        """
        data = self.function(*args, **options)
        parser = self._parser
        if parser is not None and not isinstance(parser, ValidationTask):
            parser = self._check_parser(parser(*args, **options))
        tests = self._tests(data, parser)
        if self._table is None:
            return self._ephemeral(data, tests)
        return self._persisted(data, tests, open_target(data.sparkSession, self._table))

    def _check_parser(self, parser: object) -> ValidationTask:
        """Return the parser that the user's function returned."""
        if isinstance(parser, ValidationTask):
            return parser
        msg = (
            f"dataset {self.name!r}: parser= must be a parser such as tg.ParserValidation(...), or a function"
            f" that returns one, not {parser!r}"
        )
        raise RuleError(msg)

    def _tests(self, data: DataFrame, parser: ValidationTask | None) -> ValidationSet:
        tasks = [self.dqm] if parser is None else [self.dqm, parser]
        verdicts = self._verdicts(data.sparkSession)
        return ValidationSet(
            tasks, name=self.name, verdicts=verdicts, fingerprint=self._fingerprint(data, parser)
        )

    def _fingerprint(self, data: DataFrame, parser: ValidationTask | None) -> str | None:
        """Return a fingerprint of the function and the files it reads; None if a file has no fingerprint."""
        read_fingerprint = getattr(parser, "fingerprint", None)
        data_fingerprint = frame_fingerprint(data, options_known=read_fingerprint is not None)
        parser_fingerprint = read_fingerprint() if callable(read_fingerprint) else ""
        if data_fingerprint is None or parser_fingerprint is None:
            return None
        parts = [data_fingerprint, parser_fingerprint, source_hash(self.function)]
        return "dataset/1:" + key_of(canonical_json(parts))

    def _verdicts(self, spark: SparkSession) -> Verdicts | None:
        if self._repository is not None:
            return RepositoryVerdicts(self._repository, self.name)
        folder = self._folder
        if folder is None and self._table is not None:
            folder = parent_location(spark, self._table)
        return None if folder is None else VerdictFiles(folder)

    def _ephemeral(self, data: DataFrame, tests: ValidationSet) -> DataFrame:
        stored = tests.stored_result()
        if stored is not None:
            stored.terminate_at_error()
        elif self._repository is None:
            tests.validate(data)
        else:
            dqm = cast("DQM", tests.tasks[0])  # without policies on parsing, which the parser has
            applied = dqm.apply(data, repository=self._repository, dataset=self.name)
            private = privacy_settings().for_dataset(self.name)
            other_tasks = [task.hiding(private) for task in tests.tasks[1:]]
            check = applied.check + ValidationSet(other_tasks).judge(data)
            tests.keep(check)
            check.terminate_at_error()
        return mask(data, self.dqm.tasks).kept_records

    def _persisted(self, data: DataFrame, tests: ValidationSet, target: WriteTarget) -> DataFrame:
        stored = tests.stored_result()
        if stored is not None:
            stored.terminate_at_error()
        if stored is not None and target.exists() and self._is_published(tests, target):
            return target.read(data.schema)
        published = Publication(
            target.name,
            tests,
            partition_by=self._partition_by,
            quarantine=self._quarantine,
            repository=self._repository,
            dataset=None if self._repository is None else self.name,
        ).run(data)
        published_case = self._published_case(tests, target)
        verdicts = self._verdicts(data.sparkSession)
        if published_case is not None and verdicts is not None:
            verdicts.keep(published_case, published.check)
        return published.data

    def _is_published(self, tests: ValidationSet, target: WriteTarget) -> bool:
        """Return whether the target's files were published from this data."""
        published_case = self._published_case(tests, target)
        verdicts = self._verdicts(target.spark)
        verdict = (
            None if published_case is None or verdicts is None else verdicts.find(published_case)
        )
        return verdict is not None and verdict.passed

    def _published_case(self, tests: ValidationSet, target: WriteTarget) -> Case | None:
        """Return the case of the data in its published form: fingerprint of data and target files."""
        case, files = tests.case, target.fingerprint()
        if case is None or files is None:
            return None
        return replace(case, fingerprint=f"{case.fingerprint}+{files}")

    def __repr__(self) -> str:
        """Return the name."""
        return f"Dataset({self.name!r})"
