"""`DQM`: record rules, fixes and policies, applied to DataFrames.

`DQM.attach` defers validation: it attaches rules and fixes to a frame, runs an action on it, then judges it.
Spark's `Observation` counts while the caller's own action runs, so no additional pass is needed. It
sees only the records that the action reads, so it is used only if it saw all of them.

A `Dataset` is a function returning a frame that is validated before it is handed out.
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
from tidegauge.analyzers.sources.fingerprints import frame_fingerprint
from tidegauge.analyzers.sources.opening import parent_location
from tidegauge.analyzers.sources.targets import WriteTarget, open_target
from tidegauge.repository.repository import Repository, as_repository
from tidegauge.repository.store.config import privacy_settings
from tidegauge.rules.definition import Applied, DQMDefinition, split, total
from tidegauge.rules.file_parser import ParserValidation
from tidegauge.rules.masks import OWN, mask
from tidegauge.rules.publish import Publication, Published, as_recorder, record
from tidegauge.rules.record_counts import DQMState, RecordCounts, Tally
from tidegauge.rules.tally import SAMPLES, resolve_columns, tally
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


TRACKED = 10_000
"""Capacity of the observation's sketch, in combinations of broken rules; exact up to three quarters of it."""
PATIENCE = 2.0
"""Seconds to wait for an observation after the action; Spark delivers it from a thread of its own."""


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
        self._waiting: Future[dict[str, Any]] | None = None
        self._result: CheckResult | None = None
        self._state: DQMState | None = None
        native = capabilities(original.sparkSession).sketches
        if dqm.needs_action and not original.isStreaming and "frequent" in native:
            self._observe()
        self.data = self._masked.kept

    def _observe(self) -> None:
        from pyspark.sql import Observation
        from pyspark.sql import functions as F

        # Spark interprets observed expressions one by one: a count for each rule and fix costs many times
        # more than the rules. One sketch of the bit words is exact while it evicts nothing, and reports that.
        words = self._masked.words
        marked = " OR ".join(f"{word} != 0L" for word in words) or "false"
        joined = ", ".join(words) or "''"
        bits = f"CASE WHEN {marked} THEN concat_ws('.', {joined}) END"
        cells = [
            F.expr("count(1)").alias(f"{OWN}n"),
            F.expr(Sketch("frequent", bits, TRACKED).text).alias(f"{OWN}s"),
        ]
        self._observation = Observation()
        observed = self._masked.frame.observe(self._observation, *cells)
        self._masked = replace(self._masked, frame=observed)

    @property
    def needs_action(self) -> bool:
        """Return whether data must be read to be judged."""
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
        made = copy(self)
        made.dqm = self.dqm.without_parser_policies()
        return made

    @property
    def state(self) -> DQMState:
        """The counts of the whole frame, available after `check`.

        Raises
        ------
        RuleError
            If `check` was not called yet.
        """
        if self._state is None:
            msg = "the frame was not checked yet: call check()"
            raise RuleError(msg)
        return self._state

    def check(
        self, rows: int | None = None, *, kept: int | None = None, samples: int = 0
    ) -> CheckResult:
        """Judge the attached frame; later calls return the first verdict.

        Parameters
        ----------
        rows : int, optional
            Number of records of the original frame, if the caller knows it and has had all of them
            read. The observed counts are then used. Without it, or if nothing was observed, one
            pass over the original frame counts.
        kept : int, optional
            Number of records kept and written, if that is what the caller knows. If another number
            was observed, one pass over the original frame counts.
        samples : int
            Number of sample records for each rule in the verdict's log, taken in a pass over the
            original frame if records break rules; none by default, as observing needs no pass.

        Raises
        ------
        RuleError
            If another number of records than ``rows`` was observed or counted: the action did not
            read all of them. If the frame is a stream.
        """
        if self._result is None:
            if self.needs_action and self.original.isStreaming:
                msg = "a stream has no end at which to judge it; judge each batch: foreachBatch and dqm.apply"
                raise RuleError(msg)
            observed = None if rows is None and kept is None else self._observed()
            if observed is not None and rows is not None and observed.counts[0] != rows:
                msg = (
                    f"{observed.counts[0]} records were observed, not {rows}: the action did not read"
                    " all of them; check() without rows= counts in a pass of its own"
                )
                raise RuleError(msg)
            if observed is not None and kept is not None:
                left = self.dqm.tasks.of(observed)["kept", ""]
                observed = observed if left == kept else None
            whole = (
                self.dqm.tally(self.original)
                if observed is None
                else Tally(observed, self._masked.failures)
            )
            masked = mask(self.original, self.dqm.tasks, whole.failures)
            state = self.dqm.final_state(whole, masked, samples)
            if rows is not None and self.needs_action and state.records != rows:
                msg = f"the frame holds {state.records} records, not {rows}"
                raise RuleError(msg)
            self._state = state
            self._result = self.dqm.judge(state, masked.kept)
        return self._result

    def validate(self, data: DataFrame) -> CheckResult:
        """Judge the attached frame."""
        return self.check()

    def validate_written(self, data: DataFrame) -> CheckResult:
        """Judge by the counts observed while the kept records were written."""
        if self._result is None and self.needs_action:
            return self.check(kept=data.count())
        return self.check()

    def _observed(self) -> RecordCounts | None:
        """Return the observed counts, or None; waits for delivery a little, never for an action."""
        if self._observation is None:
            return None
        if self._waiting is None:
            waiting: Future[dict[str, Any]] = Future()
            self._waiting = waiting

            def wait() -> None:
                try:
                    waiting.set_result(self._observation.get)
                except Exception as error:  # noqa: BLE001 - passed on by the future
                    waiting.set_exception(error)

            Thread(target=wait, name="tidegauge-observation", daemon=True).start()
        try:
            found = self._waiting.result(PATIENCE)
        except NotYetError:
            return None
        except Exception:  # noqa: BLE001 - the caller's action failed and raised there
            return None
        return self._counted(found) if found else None

    def _counted(self, found: Mapping[str, Any]) -> RecordCounts | None:
        """Return the observed counts as a state; None if the sketch evicted anything."""
        import numpy as np

        sketch = FrequentItemsState.from_sketches([found[f"{OWN}s"]])
        marked = sketch.top()
        records = int(found[f"{OWN}n"])
        clean = records - sum(value.estimate for value in marked.values())
        exact = all(value.lower == value.upper for value in marked.values())
        if not exact or clean != records - sketch.count:
            return None
        width = self.dqm.tasks.words
        rows = [[int(word) for word in bits.split(".")] for bits in marked]
        words = np.array([*rows, [0] * width], dtype=np.int64).reshape(len(rows) + 1, width)
        counts = np.array([*(value.estimate for value in marked.values()), clean], dtype=np.int64)
        return self.dqm.tasks.fold(list(words.T), counts)

    def __repr__(self) -> str:
        """Return the `DQM` and the verdict, if there is one."""
        found = "not checked yet" if self._result is None else str(self._result)
        return f"Attached({self.dqm!r}, {found})"


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

    A dataset has the signature of the function. Calling it returns the data that its rules leave,
    or raises. A persisted dataset is staged, judged, and published to its table or folder, which is
    then read; if it fails, the table is left as it was. While files, rules, policies and the
    function are unchanged and the table holds what was published, nothing is recomputed: passed
    data is read, and a stored failure is raised again.

    This requires that the function reads files (see `frame_fingerprint`); otherwise the data is
    computed and judged at each call. A change of the function's source, or of the helpers it uses
    in its own module, counts as a change.

    Parameters
    ----------
    dqm : DQM, optional
        Rules, fixes and policies; none if not given.
    table, path : str, optional
        Where the data is published: a catalog table, or a folder. Exactly one is required, unless
        the dataset is ephemeral.
    repository : Repository or str, optional
        Or its URL. Stores the verdicts and records the counts, under the dataset's name.
    name : str, optional
        Name of the dataset; default: the function's name.
    parser : ValidationTask or callable, optional
        The parser of the file that the function reads, or a function that returns it, called with
        the same arguments. Its verdict is combined with that of the rules.
    partition_by : sequence of str, optional
        Partition columns of a new table; counts are also grouped by them.
    quarantine : str, optional
        A table or folder for the rejected records.
    ephemeral : bool
        Persist nothing: data is judged in a separate pass, once for the same files, and the
        returned frame is computed lazily.
    folder : str, optional
        Where verdicts are stored without a repository, as ``<name>.<hash>.check``. Default: beside
        the folder or the table; an ephemeral dataset then stores none.

    Raises
    ------
    RuleError
        If the place for data is missing, or a place for data or verdicts is given twice; if an
        ephemeral dataset is given ``partition_by`` or ``quarantine``.

    Examples
    --------
    >>> import tidegauge as tg
    >>> good = tg.DQM().add(tg.NotNullRule("carrier"), tg.FailPercent(0.5))
    >>> @tg.dataset(good, path="lake/departures", partition_by=["ds"])
    ... def departures(spark):
    ...     return spark.table("flights").where("NOT cancelled")
    >>> departures
    Dataset('departures')

    One that writes nothing:

    >>> @tg.dataset(good, ephemeral=True)
    ... def carriers(spark):
    ...     return spark.sql("SELECT explode(array('AA', 'UA', NULL)) AS carrier")
    >>> carriers(tg.spark_session()).count()  # doctest: +SKIP
    2
    """
    if (table is not None) + (path is not None) + ephemeral != 1:
        msg = "a dataset goes to one place: give table= or path=, or ephemeral=True"
        raise RuleError(msg)
    if ephemeral and (partition_by is not None or quarantine is not None):
        msg = "an ephemeral dataset writes nothing: leave partition_by= and quarantine= out"
        raise RuleError(msg)
    if repository is not None and folder is not None:
        msg = "verdicts are kept in one place: give repository= or folder=, not both"
        raise RuleError(msg)
    if path is not None and "/" not in path:
        path = f"./{path}"
    repository = as_repository(repository)

    def made(function: FrameFunction) -> Dataset:
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

    return made


@dataclass(eq=False, repr=False)
class Dataset:
    """A function whose frame is validated before it is returned; see `dataset` for each part.

    Attributes
    ----------
    name : str
    dqm : DQM

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
        made = self.function(*args, **options)
        parser = self._parser
        if parser is not None and not isinstance(parser, ValidationTask):
            parser = self._made_parser(parser(*args, **options))
        tests = self._tests(made, parser)
        if self._table is None:
            return self._ephemeral(made, tests)
        return self._persisted(made, tests, open_target(made.sparkSession, self._table))

    def _made_parser(self, parser: object) -> ValidationTask:
        """Return the parser that the user's function made."""
        if isinstance(parser, ValidationTask):
            return parser
        msg = (
            f"dataset {self.name!r}: parser= is a parser such as tg.ParserValidation(...), or a function"
            f" that returns one, not {parser!r}"
        )
        raise RuleError(msg)

    def _tests(self, made: DataFrame, parser: ValidationTask | None) -> ValidationSet:
        tasks = [self.dqm] if parser is None else [self.dqm, parser]
        verdicts = self._verdicts(made.sparkSession)
        return ValidationSet(
            tasks, name=self.name, verdicts=verdicts, fingerprint=self._fingerprint(made, parser)
        )

    def _fingerprint(self, made: DataFrame, parser: ValidationTask | None) -> str | None:
        """Return a fingerprint of the function and the files it reads; None if there is none."""
        read = getattr(parser, "fingerprint", None)
        print_ = frame_fingerprint(made, options_known=read is not None)
        of_parser = read() if callable(read) else ""
        if print_ is None or of_parser is None:
            return None
        of = [print_, of_parser, source_hash(self.function)]
        return "dataset/1:" + key_of(canonical_json(of))

    def _verdicts(self, spark: SparkSession) -> Verdicts | None:
        if self._repository is not None:
            return RepositoryVerdicts(self._repository, self.name)
        folder = self._folder
        if folder is None and self._table is not None:
            folder = parent_location(spark, self._table)
        return None if folder is None else VerdictFiles(folder)

    def _ephemeral(self, made: DataFrame, tests: ValidationSet) -> DataFrame:
        kept = tests.kept()
        if kept is not None:
            kept.terminate_at_error()
        elif self._repository is None:
            tests.validate(made)
        else:
            dqm = cast("DQM", tests.tasks[0])  # without policies on parsing, which are the parser's
            applied = dqm.apply(made, repository=self._repository, dataset=self.name)
            private = privacy_settings().of(self.name)
            others = [task.hiding(private) for task in tests.tasks[1:]]
            check = applied.check + ValidationSet(others).judge(made)
            tests.keep(check)
            check.terminate_at_error()
        return mask(made, self.dqm.tasks).kept

    def _persisted(self, made: DataFrame, tests: ValidationSet, target: WriteTarget) -> DataFrame:
        kept = tests.kept()
        if kept is not None:
            kept.terminate_at_error()
        if kept is not None and target.exists() and self._holds(tests, target):
            return target.read(made.schema)
        published = Publication(
            target.name,
            tests,
            partition_by=self._partition_by,
            quarantine=self._quarantine,
            repository=self._repository,
            dataset=None if self._repository is None else self.name,
        ).run(made)
        holding = self._holding(tests, target)
        verdicts = self._verdicts(made.sparkSession)
        if holding is not None and verdicts is not None:
            verdicts.keep(holding, published.check)
        return published.data

    def _holds(self, tests: ValidationSet, target: WriteTarget) -> bool:
        """Return whether the target's files are those published from this data."""
        holding = self._holding(tests, target)
        verdicts = self._verdicts(target.spark)
        found = None if holding is None or verdicts is None else verdicts.find(holding)
        return found is not None and found.passed

    def _holding(self, tests: ValidationSet, target: WriteTarget) -> Case | None:
        """Return the case of the data in its published form: fingerprint of data and target files."""
        case, files = tests.case, target.fingerprint()
        if case is None or files is None:
            return None
        return replace(case, fingerprint=f"{case.fingerprint}+{files}")

    def __repr__(self) -> str:
        """Return the name."""
        return f"Dataset({self.name!r})"
