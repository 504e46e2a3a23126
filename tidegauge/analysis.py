"""Measure a table into a repository with `analyze`, which returns a `Run`, or plan a run with `explain`."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from tidegauge.analyzers.columnar.engines import LazySession, MeasuringEngine, Route, as_engine
from tidegauge.analyzers.core.analyzer import Analyzer, texts_of
from tidegauge.analyzers.core.errors import MetricError, SkippedWarning, SourceError, SuiteError
from tidegauge.analyzers.core.evidence import OnEmpty, as_on_empty
from tidegauge.analyzers.core.formatting import Markup, bytes_text, hide_secrets, plural
from tidegauge.analyzers.core.metric import Failure
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.sql import is_folder, names_in, parts
from tidegauge.analyzers.runs.ledger import Change, RunSpec
from tidegauge.analyzers.runs.observed import ObservedRows
from tidegauge.analyzers.runs.recording import (
    WAIT_SECONDS,
    RunReport,
    describe_routes,
    recording_failed_start,
)
from tidegauge.analyzers.runs.runner import (
    Segmentation,
    batch_sizes,
    estimate_routes,
    newest_partition,
    run_incremental,
)
from tidegauge.analyzers.scan.jobs import ScanJob
from tidegauge.analyzers.scan.plan import plan
from tidegauge.analyzers.sources.opening import open_folder, open_table
from tidegauge.analyzers.sources.sources import FrameSource, Source
from tidegauge.display.html import Rows, card, heading, marked, note, pairs, sentence, table
from tidegauge.display.progress import progress_bar
from tidegauge.installation import require_array_packages
from tidegauge.repository.repository import as_repository
from tidegauge.rules.judging import judge_run
from tidegauge.rules.tally import DEFAULT_SAMPLES, sample_partitions
from tidegauge.rules.verdicts import CheckResult
from tidegauge.spark.session import active_session, require_spark
from tidegauge.suite import privacy_of

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

    from tidegauge.analyzers.runs.recording import Progress
    from tidegauge.files.suite_files import SuiteFile
    from tidegauge.repository.repository import Repository
    from tidegauge.rules.record_counts import RecordCounts, Sample
    from tidegauge.suite import Suite


_CHANGE_DESCRIPTIONS = {
    Change.RESTATED: "changed and measured again",
    Change.ADDED: "measured by added analyzers",
}
"""Descriptions of changes whose names need an explanation."""


@dataclass(frozen=True)
class Run:
    """The result of `analyze`: the run's report, and access to its metrics.

    Attributes
    ----------
    report : RunReport
        What the run scanned and stored.
    repository : Repository
        The repository that the run wrote to.
    checks : mapping of str to CheckResult
        Verdicts of the policies of the suite's `DQM` by partition: on the scanned partitions, and failed
        verdicts on other partitions with the same data. If no partition was scanned, on all partitions.

    Examples
    --------
    >>> import tidegauge as tg
    >>> rides = tg.spark_session().sql("SELECT 5 AS fare, '2026-01-01' AS ds")  # doctest: +SKIP
    >>> suite = tg.Suite("rides", [tg.Size()], partition_by=["ds"])
    >>> with tg.Repository("sqlite://") as repo:  # doctest: +SKIP
    ...     print(tg.analyze(rides, suite, repository=repo))
    ...     print(tg.analyze(rides, suite, repository=repo, partitions="all"))
    rides: 1 partition scanned, 1 new, 0 skipped
    rides: 1 partition scanned, 1 changed and measured again, 0 skipped
    """

    report: RunReport
    repository: Repository
    checks: Mapping[str, CheckResult] = field(default_factory=dict)

    @property
    def id(self) -> int:
        """The run's id, which can be passed as ``as_of``."""
        return self.report.run

    @property
    def dataset(self) -> str:
        """The dataset's name."""
        return self.report.dataset

    @property
    def status(self) -> str:
        """The run's status, as in `RunStatus`."""
        return str(self.report.status)

    @property
    def changes(self) -> Mapping[str, Change]:
        """The change of each partition that was scanned, by name."""
        return self.report.changes

    @property
    def failed(self) -> Mapping[Analyzer[Any, Any], MetricError]:
        """The analyzers that failed in some partition, with their first error."""
        return self.report.failed

    @property
    def unreadable(self) -> Mapping[str, str]:
        """The partitions whose files cannot be read, with the reason. The next run reads them again."""
        return self.report.unreadable

    @property
    def passed(self) -> bool:
        """True if the policies hold in all partitions of `checks`."""
        return all(check.passed for check in self.checks.values())

    @property
    def routes(self) -> str:
        """A summary of how the run computed its measurements; empty if Spark SQL computed all of them.

        Examples
        --------
        >>> import tidegauge as tg
        >>> suite = tg.Suite("rides", [tg.Size()], partition_by=["ds"])
        >>> with tg.Repository("sqlite://") as repo:  # doctest: +SKIP
        ...     print(tg.analyze("lake/rides", suite, repository=repo).routes)
        1 of 1 measurement from metadata
        """
        return self.report.routes_text if self.report.routes.keys() - {Route.SPARK} else ""

    def metrics(self) -> pd.DataFrame:
        """Return the metrics that this run stored, in the format of `Repository.metrics`.

        Examples
        --------
        >>> import tidegauge as tg
        >>> rides = tg.spark_session().sql("SELECT 5 AS fare, '2026-01-01' AS ds")  # doctest: +SKIP
        >>> suite = tg.Suite("rides", [tg.Mean("fare")], partition_by=["ds"])  # doctest: +SKIP
        >>> with tg.Repository("sqlite://") as repo:  # doctest: +SKIP
        ...     run = tg.analyze(rides, suite, repository=repo)
        ...     print(run.metrics()[["partition", "name", "value"]].to_numpy().tolist())
        [['ds=2026-01-01', 'Mean', 5.0]]
        """
        frame = self.repository.metrics(self.dataset, as_of=self.id)
        return frame[frame["run_id"] == self.id].reset_index(drop=True)

    def __str__(self) -> str:
        """Return a one-line summary for logs."""
        words = [f"{self.dataset}: {plural(self.report.scanned, 'partition')} scanned"]
        for change in Change:
            count = sum(c is change for c in self.changes.values())
            if count:
                words.append(f"{count} {_CHANGE_DESCRIPTIONS.get(change, change)}")
        words.append(f"{self.report.skipped} skipped{self._uncompared}")
        if self.report.gone:
            words.append(f"{len(self.report.gone)} gone")
        if not self.passed:
            bad = sum(not check.passed for check in self.checks.values())
            words.append(f"policies fail in {bad}")
        if self.failed:
            words.append(f"{plural(len(self.failed), 'analyzer')} failed")
        if self.unreadable:
            words.append(f"{len(self.unreadable)} cannot be read")
        return ", ".join(words)

    @property
    def _uncompared(self) -> str:
        count = self.report.uncompared
        prefix = "" if count == self.report.skipped else f"{count} "
        return f" ({prefix}known by name, without files to compare)" if count else ""

    def _repr_html_(self) -> str:
        """Return an HTML summary for notebooks, with all strings escaped."""
        return card(self._pieces)

    def _pieces(self, max_rows: int, width: int) -> Iterator[Markup]:
        yield heading(Markup(f"Run {self.id} of"), self.dataset, Markup(marked(self.status)))
        became = [
            (str(change), sum(c is change for c in self.changes.values())) for change in Change
        ]
        counts = [("scanned", self.report.scanned), *((k, n) for k, n in became if n)]
        yield pairs(
            [*counts, ("skipped", self.report.skipped), ("gone", len(self.report.gone))], width
        )
        changed = [(name, str(c)) for name, c in self.changes.items() if c is not Change.UNCHANGED]
        changed += [(name, "gone") for name in self.report.gone]
        if changed:
            yield table(
                ["partition", "change"],
                Rows.first_of(reversed(changed), max_rows // 4, len(changed)),
                width,
            )
        if self.unreadable:
            unread = [(name, sentence(why, 4 * width)) for name, why in self.unreadable.items()]
            yield table(["cannot be read", "error"], Rows.first_of(unread, max_rows // 2), width)
        failed = [
            (repr(analyzer), sentence(error, 4 * width)) for analyzer, error in self.failed.items()
        ]
        if failed:
            yield table(["failed analyzer", "error"], Rows.first_of(failed, max_rows // 2), width)
        refused = [(name, str(check)) for name, check in self.checks.items() if not check.passed]
        if refused:
            yield table(
                ["partition", "check"], Rows.first_of(reversed(refused), max_rows // 4), 2 * width
            )
        yield note("run.metrics(): stored metrics; run.repository.detect(run.dataset): anomalies")


def analyze(
    table: str | DataFrame | Source,
    suite: Suite,
    *,
    repository: Repository | str,
    partitions: str | Sequence[str] = "new",
    partition: Mapping[str, str] | str | None = None,
    tags: Mapping[str, str] | None = None,
    spark: SparkSession | None = None,
    format: str = "parquet",
    options: Mapping[str, str] | None = None,
    rename: bool = False,
    resegment: bool = False,
    progress: Progress | None = None,
    wait: float = WAIT_SECONDS,
    samples: int = DEFAULT_SAMPLES,
    on_empty: str = OnEmpty.PASS,
    engine: str = MeasuringEngine.AUTO,
) -> Run:
    """Measure the new and changed partitions of a table and store the metrics in a repository.

    Parameters
    ----------
    table : str, DataFrame or Source
        A table's name, a folder (anything with a slash), a DataFrame, or an object that lists its own
        partitions.
    suite : Suite
        The analyzers and settings of the dataset.
    repository : Repository or str
        A repository, or its URL.
    partitions : str or sequence of str
        ``new``: new and changed partitions, and missing analyzers of other partitions. For a DataFrame with
        partition columns, changes cannot be detected: partitions in the repository are skipped, with a
        `SkippedWarning` if no partition is left to measure. ``all``: all partitions. Otherwise a partition
        filter, such as ``ds>=2013-02-01 and hr in (07, 08)``, or partition names.
    partition : mapping of str to str, or str, optional
        The partition of a DataFrame that has no partition columns, as in ``{"ds": "2024-01-05"}`` or
        ``"ds=2024-01-05"``. Each call measures it again, as a new version. The same applies to a DataFrame
        or view without partitions, because changes cannot be detected.
    tags : mapping, optional
        Tags of the run, in addition to the suite's.
    spark : SparkSession, optional
        The active session by default.
    format, options
        Spark reader format and options for a folder.
    rename : bool
        Whether to allow the dataset's history to continue with another table.
    resegment : bool
        Whether to choose the segment values again, from the scanned partitions. The segments of all
        partitions are then measured again; the segment of all other values starts a new series.
    progress : Progress, optional
        A progress bar for the terminal or notebook by default.
    wait : float
        Seconds to wait while another run measures the dataset. After a killed run the wait is at most a
        minute. If it ran on this machine, there is no wait.
    samples : int
        Number of sample records for each rule of the suite's `DQM`, in the verdicts on scanned partitions.
        With 0, partitions with rejects are not read a second time.
    on_empty : str
        ``pass``, ``warn`` or ``fail``: the outcome of the suite's `DQM` for a partition without records, or
        a table without partitions. The default of suite files is ``fail``.
    engine : str
        ``auto`` measures folders of Parquet files without Spark where the results are exactly the same; then no
        Spark session is needed. ``spark`` measures everything by Spark SQL.

    Returns
    -------
    Run

    Raises
    ------
    SourceError
        If the table cannot be read, or does not have the suite's partition columns.
    DatasetMismatchError
        If the dataset's history belongs to another table.
    LeaseError
        If another run still measures the dataset after the wait.

    Examples
    --------
    >>> import tidegauge as tg
    >>> sql = "SELECT explode(array(5, 7)) AS fare, '2026-01-01' AS ds"
    >>> suite = tg.Suite("rides", [tg.Size(), tg.Mean("fare")], partition_by=["ds"])
    >>> repo = tg.Repository("sqlite://")  # in memory; or "sqlite:///rides.db"
    >>> run = tg.analyze(tg.spark_session().sql(sql), suite, repository=repo)  # doctest: +SKIP
    >>> run.metrics()[["partition", "name", "value"]].values.tolist()  # doctest: +SKIP
    [['ds=2026-01-01', 'Mean', 6.0], ['ds=2026-01-01', 'Size', 2.0]]
    >>> repo.close()
    """
    effect, chosen_engine = as_on_empty(on_empty), as_engine(engine)
    repository = as_repository(repository)
    with recording_start(repository, suite, table, partitions, tags):
        source = open_source(table, suite, spark, format, options, partition)
    run = measure_source(
        source,
        suite,
        repository,
        partitions,
        tags,
        rename=rename,
        resegment=resegment,
        progress=progress,
        wait=wait,
        samples=samples,
        on_empty=effect,
        engine=chosen_engine,
    )
    if run.report.uncompared and not run.report.changes:
        warnings.warn(
            f"{suite.dataset}: nothing was measured: all {run.report.uncompared} partitions were measured before, and"
            " changes cannot be detected, because a DataFrame or view has no files; pass partitions='all' to"
            " measure them again",
            SkippedWarning,
            stacklevel=2,
        )
    return run


def measure_source(
    source: Source,
    suite: Suite,
    repository: Repository,
    partitions: str | Sequence[str] = "new",
    tags: Mapping[str, str] | None = None,
    *,
    rename: bool = False,
    resegment: bool = False,
    progress: Progress | None = None,
    wait: float = WAIT_SECONDS,
    samples: int = DEFAULT_SAMPLES,
    on_empty: OnEmpty = OnEmpty.PASS,
    engine: MeasuringEngine = MeasuringEngine.AUTO,
    observed: ObservedRows | None = None,
) -> Run:
    """Measure an open source into a repository, roll up its windows, and judge the suite's rules.

    Parameters
    ----------
    source : Source
        The table.
    suite, repository, partitions, tags, rename, resegment, progress, wait, samples, on_empty, engine
        As for `analyze`.
    observed : ObservedRows, optional
        Results of the write of one partition; see `tidegauge.observe`.
    """
    spec = _run_spec(suite, source.name, source.keys, partitions, tags, rename=rename)
    private = privacy_of(suite, source.name, spec.tags)
    report = run_incremental(
        source,
        spec,
        suite.measured,
        repository.store,
        partitions,
        suite.time_format,
        progress_bar() if progress is None else progress,
        segmentation=Segmentation(tuple(map(tuple, suite.segments)), suite.max_segments, resegment),
        wait=wait,
        private=private,
        engine=engine,
        observed=observed,
    )
    if isinstance(suite.holidays, str):
        from tidegauge.repository.detection.detect import store_holidays

        store_holidays(repository.database, suite.dataset)
    if report.changes:
        repository.roll_up(suite.dataset, suite.windows, run=report.run)
    dqm, max_samples = suite.dqm, 0 if private.covers_all else samples

    def take_samples(counted: Mapping[str, RecordCounts]) -> Iterator[Sample]:
        assert dqm is not None  # nothing is judged without rules
        return sample_partitions(source, dqm.tasks, counted, max_samples, private)

    checks = judge_run(repository, suite.dataset, dqm, report, take_samples, on_empty)
    return Run(report, repository, checks)


def recording_start(
    repository: Repository,
    suite: Suite,
    table: object,
    partitions: str | Sequence[str] = "new",
    tags: Mapping[str, str] | None = None,
) -> AbstractContextManager[None]:
    """Store a failed run of the suite's dataset if the table cannot be opened in the block.

    Parameters
    ----------
    repository : Repository
        The repository that records the run.
    suite : Suite
        The suite of the dataset.
    table : object
        As for `analyze`.
    partitions, tags
        As for `analyze`.
    """
    if not hasattr(suite, "dataset"):  # which `open_source` refuses
        return nullcontext()
    name = table if isinstance(table, str) else None
    return recording_failed_start(
        repository.store, _run_spec(suite, name, (), partitions, tags, rename=False)
    )


def _run_spec(
    suite: Suite,
    table: str | None,
    keys: tuple[str, ...],
    partitions: str | Sequence[str],
    tags: Mapping[str, str] | None,
    *,
    rename: bool,
) -> RunSpec:
    return RunSpec(
        dataset=suite.dataset,
        source=table and hide_secrets(table),
        keys=keys,
        suite=suite.canonical(),
        selection=partitions if isinstance(partitions, str) else ", ".join(partitions),
        tags={**suite.tags, **{str(k): str(v) for k, v in (tags or {}).items()}},
        rename=rename,
    )


def open_source(
    table: str | DataFrame | Source,
    suite: Suite,
    spark: SparkSession | None = None,
    format: str = "parquet",
    options: Mapping[str, str] | None = None,
    partition: Mapping[str, str] | str | None = None,
) -> Source:
    """Open a table name, a folder or a DataFrame as a source; a `Source` is returned as it is."""
    if not hasattr(suite, "partition_by"):
        msg = f"expected a Suite, not {suite!r}; load a suite file with tg.load_suite(path)"
        raise SuiteError(msg)
    is_source = hasattr(type(table), "list_partitions")
    if partition is not None and (is_source or isinstance(table, str)):
        msg = "partition= names the partition of a DataFrame; for a table, select partitions with partitions="
        raise SourceError(msg)
    if not isinstance(table, str):
        if is_source:
            return cast("Source", table)
        frame, keys = cast("DataFrame", table), tuple(suite.partition_by or ())
        if partition is None:
            return FrameSource(frame, keys)
        return FrameSource(frame, partition=as_partition(partition, keys))
    return open_named(table, suite.partition_by, spark, format, options)


def open_named(
    table: str,
    keys: Sequence[str] | None = None,
    spark: SparkSession | None = None,
    format: str = "parquet",
    options: Mapping[str, str] | None = None,
) -> Source:
    """Open a table name or a folder, with the active session if Spark is needed and no session is given."""
    require_array_packages()
    session = (
        spark or active_session() or cast("SparkSession", LazySession(_require_active_session))
    )
    if is_folder(table):
        return open_folder(session, table, keys, format, options)
    require_spark()
    return open_table(session, table, keys)


def as_partition(partition: Mapping[str, str] | str, keys: tuple[str, ...]) -> Partition:
    """Return the partition of a DataFrame, with the keys in the order of its suite."""
    if isinstance(partition, str):
        if "=" not in partition:
            msg = (
                f"partition= must be a mapping or a name such as 'ds=2024-01-05', not {partition!r}"
            )
            raise SourceError(msg)
        parsed = Partition.from_name(partition)
        partition = dict(zip(parsed.keys, parsed.values, strict=True))
    if keys and set(keys) != set(partition):
        msg = f"the suite is partitioned by {', '.join(keys)}: partition= names {', '.join(partition)}"
        raise SourceError(msg)
    names = keys or tuple(partition)
    return Partition(names, tuple(str(partition[name]) for name in names))


def _require_active_session() -> SparkSession:
    require_spark()
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is None:
        msg = "no Spark session is active; pass spark=, or start one: tg.spark_session()"
        raise SourceError(msg)
    return session


@dataclass(frozen=True)
class PlannedJob:
    """One pass over the data, grouped by partition.

    Attributes
    ----------
    kind : str
        Kind of the job.
    requests : int
        Number of aggregates, frequencies or sketches that it computes.
    columns : tuple of str
        Columns that it reads, without the partition columns.
    """

    kind: str
    requests: int
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Explanation:
    """The execution plan of a run over all partitions; its `str` is a readable summary.

    Attributes
    ----------
    dataset : str
        Name of the dataset.
    partitions : int
        Number of partitions.
    batches : tuple of int
        Number of partitions in each batch.
    jobs : tuple of PlannedJob
        The jobs of each batch.
    columns : tuple of str
        All columns that are read.
    passes : float
        Average number of times that a column is read.
    state_bytes : int
        Approximate size of the states of one partition, without its segments.
    segments : int
        Maximum number of segments that are measured per partition as well.
    failures : mapping of Analyzer to Failure
        Analyzers that cannot run on this table, with the error.
    newest : str
        The newest partition.
    routes : mapping of str to int
        Estimated number of measurements of the newest partition by route, as `RunReport.routes`. The jobs
        measure only the part that Spark SQL answers. Empty if there are no partitions.

    Examples
    --------
    >>> jobs = (PlannedJob("aggregate", 2, ("amount",)),)
    >>> print(Explanation("orders", 30, (30,), jobs, ("amount",), passes=1.0, state_bytes=96))
    orders: 30 partitions in 1 batch of 1 job
    columns read: 1, each 1.0 times on average
    states: at most 96 bytes a partition
      1. aggregate    2  of amount
    """

    dataset: str
    partitions: int
    batches: tuple[int, ...]
    jobs: tuple[PlannedJob, ...]
    columns: tuple[str, ...]
    passes: float
    state_bytes: int
    segments: int = 0
    failures: Mapping[Analyzer[Any, Any], Failure] = field(default_factory=dict)
    newest: str = ""
    routes: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return a readable summary of several lines."""
        sizes = (
            f"{plural(len(self.batches), 'batch', 'batches')} of {plural(len(self.jobs), 'job')}"
        )
        lines = [
            f"{self.dataset}: {plural(self.partitions, 'partition')} in {sizes}",
            f"columns read: {len(self.columns)}, each {self.passes:.1f} times on average",
            f"states: at most {bytes_text(self.state_bytes)} a partition"
            + (
                f", and {bytes_text(self.state_bytes * (1 + self.segments))} if it has all of"
                f" {self.segments} segments; segments with few rows take less"
                if self.segments
                else ""
            ),
        ]
        if self.routes:
            where = self.newest or "the table"
            lines.append(f"estimate for {where}: {describe_routes(self.routes)}")
        width = max((len(job.kind) for job in self.jobs), default=0)
        for number, job in enumerate(self.jobs, 1):
            columns = ", ".join(job.columns) or "none"
            lines.append(f"{number:>3}. {job.kind:<{width}}  {job.requests:>3}  of {columns}")
        lines += [f"fails: {a!r}: {failure.error}" for a, failure in self.failures.items()]
        return "\n".join(lines)


def explain(
    table: str | DataFrame | SuiteFile,
    suite: Suite | None = None,
    *,
    spark: SparkSession | None = None,
    format: str = "parquet",
    options: Mapping[str, str] | None = None,
) -> Explanation:
    """Plan a run of a suite over all partitions of a table; reads no row of a Hive table or folder.

    Parameters
    ----------
    table, suite, spark, format, options
        As for `analyze`. Alternatively, ``table`` is the result of `load_suite`, which includes the other
        settings.

    Returns
    -------
    Explanation
        The plan. Print it for a readable summary.

    Raises
    ------
    SourceError
        If the table cannot be read.
    SuiteError
        If a table is given without a suite.

    Examples
    --------
    >>> import tidegauge as tg
    >>> orders = tg.spark_session().sql("SELECT 5 AS amount, '2026-01-01' AS ds")  # doctest: +SKIP
    >>> suite = tg.Suite("orders", [tg.Size(), tg.Mean("amount")], partition_by=["ds"])
    >>> print(tg.explain(orders, suite))  # doctest: +SKIP
    orders: 1 partition in 1 batch of 1 job
    ...
    """
    from tidegauge.files.suite_files import SuiteFile

    if isinstance(table, SuiteFile):
        file = table
        return explain(
            file.table, file.suite, spark=spark, format=file.format, options=file.options
        )
    if suite is None:
        msg = "explain takes a table and a suite, or the result of load_suite"
        raise SuiteError(msg)
    source = open_source(table, suite, spark, format, options)
    listed = source.list_partitions()
    data = source.read(None)
    scan_plan = plan(data, suite.analyzers, privacy_of(suite, source.name))
    names = [n for n in Schema.from_spark(data.schema).names if n not in source.keys]
    segment_columns = {parts(column)[0] for columns in suite.segments for column in columns}
    jobs = tuple(
        _planned(job, names, {str(name).casefold() for name in segment_columns})
        for job in scan_plan.jobs
    )
    columns = tuple(n for n in names if any(n in job.columns for job in jobs))
    reads = sum(len(job.columns) for job in jobs)
    segments = len(suite.segments) * (suite.max_segments + 1)
    newest, routes = newest_partition(source, listed, suite.time_format), {}
    if newest is not None:
        analyzers = tuple(scan_plan.requests)
        is_plain = not suite.segments and not privacy_of(suite, source.name)
        routes = (
            estimate_routes(source, newest, analyzers)
            if is_plain
            else {str(Route.SPARK): len(analyzers)}
        )
    by_statistic = {a.statistic(): a.state_bytes for a in scan_plan.requests}
    return Explanation(
        dataset=suite.dataset,
        partitions=len(listed),
        batches=batch_sizes(listed, tuple(suite.analyzers), segments),
        jobs=jobs,
        columns=columns,
        passes=reads / len(columns) if columns else 0.0,
        state_bytes=sum(by_statistic.values()),
        segments=segments,
        failures=scan_plan.failures,
        newest="" if newest is None else newest.partition.name,
        routes=routes,
    )


def _planned(job: ScanJob, names: Sequence[str], segment_columns: set[str]) -> PlannedJob:
    words = {word for request in job.requests for t in texts_of(request) for word in names_in(t)}
    words |= segment_columns
    columns = tuple(name for name in names if name.casefold() in words)
    return PlannedJob(job.kind, len(job.requests), columns)
