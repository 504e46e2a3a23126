"""Measure a DataFrame while it is written, with `observe`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegauge.analysis import (
    Run,
    as_partition,
    measure_source,
    open_named,
    open_source,
    recording_start,
)
from tidegauge.analyzers.columnar.engines import reads_by_default
from tidegauge.analyzers.core.analyzer import AnyAnalyzer
from tidegauge.analyzers.core.errors import NoSuchTableError, SourceError, SuiteError
from tidegauge.analyzers.core.partitions import Partition
from tidegauge.analyzers.core.schema import check_frame
from tidegauge.analyzers.core.sql import is_folder
from tidegauge.analyzers.runs.observed import ObservedRows, Observer, is_measured_by_files
from tidegauge.analyzers.runs.recording import WAIT_SECONDS
from tidegauge.analyzers.sources.sources import FrameSource, Source
from tidegauge.files.suite_files import SuiteFile
from tidegauge.repository.repository import as_repository
from tidegauge.suite import Suite

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegauge.repository.repository import Repository


@dataclass(frozen=True)
class ObservedFrame:
    """The result of `observe`: a DataFrame to write, and the measurements of its first write.

    Attributes
    ----------
    frame : DataFrame
        The data to write, as often as needed. Only the first action is observed.
    suite : Suite
        The analyzers, and the settings of the dataset.
    partition : mapping of str to str
        The partition that the data forms.
    analyzers : tuple of Analyzer
        The analyzers that are computed during the write. `record` measures the others.
    source : str or None
        The folder or table that is written, if `observe` was told.

    Examples
    --------
    >>> import tidegauge as tg
    >>> orders = tg.spark_session().range(3).selectExpr("id AS amount")  # doctest: +SKIP
    >>> analyzers = [tg.Mean("amount"), tg.Uniqueness("amount")]
    >>> tg.observe(orders, analyzers, dataset="orders").analyzers  # doctest: +SKIP
    (Mean('amount'),)
    """

    frame: DataFrame
    suite: Suite
    partition: Mapping[str, str]
    analyzers: tuple[AnyAnalyzer, ...]
    source: str | None
    _data: DataFrame = field(repr=False)
    _observer: Observer = field(repr=False)

    def record(
        self,
        repository: Repository | str,
        *,
        source: str | Source | None = None,
        rows: int | None = None,
        tags: Mapping[str, str] | None = None,
        format: str = "parquet",
        options: Mapping[str, str] | None = None,
        wait: float = WAIT_SECONDS,
    ) -> Run:
        """Store the metrics and states of the write, as a run of the dataset.

        If the numbers of written and observed rows differ, as can happen if Spark repeats tasks, the partition is
        measured normally. `Run.routes` tells how many measurements come from the write.

        Parameters
        ----------
        repository : Repository or str
            A repository, or its URL.
        source : str or Source, optional
            The table or folder that was written, as for `analyze` (default: the ``source`` of `observe`). The run then stores the fingerprint of the
            partition's files, so that the next run skips the partition. The written rows are counted by the
            files' metadata, and analyzers that were not observed are measured from the table. Without a source,
            they are measured from the DataFrame, which computes it again.
        rows : int, optional
            The number of rows that were written, if you know it. It replaces the count. Without ``rows`` and
            ``source``, the observed rows are not compared.
        tags : mapping, optional
            Tags of the run, in addition to the suite's.
        format, options
            Spark reader format and options for a folder.
        wait : float
            Seconds to wait while another run measures the dataset.

        Returns
        -------
        Run

        Raises
        ------
        SourceError
            If nothing was written and there is no ``source``, or if the source cannot be read.
        PartitionSelectionError
            If the source does not have the partition.

        Examples
        --------
        >>> import tidegauge as tg
        >>> orders = tg.spark_session().range(3).selectExpr("id AS amount")  # doctest: +SKIP
        >>> observed = tg.observe(orders, [tg.Mean("amount")], dataset="orders")  # doctest: +SKIP
        >>> observed.frame.write.parquet("lake/orders")  # doctest: +SKIP
        >>> observed.record("sqlite:///orders.db", source="lake/orders").routes  # doctest: +SKIP
        '1 of 1 measurement from the observed write'
        """
        repository = as_repository(repository)
        source = self.source if source is None else source
        results = self._observer.results()
        if results is None and source is None:
            msg = (
                "the write was not observed: write observed.frame, then call record(). If it was written,"
                " pass source= to measure the table"
            )
            raise SourceError(msg)
        with recording_start(repository, self.suite, source, "all", tags):
            if source is None:
                is_whole = not self.partition
                partition = None if is_whole else as_partition(self.partition, self._keys)
                written: Source = FrameSource(self._data, partition=partition)
            else:
                spark = self.frame.sparkSession
                written = open_source(source, self.suite, spark, format, options)
            selected = self._partition_in(written)
        observed = results and ObservedRows(selected, self._observer.schema, results, rows)
        return measure_source(
            written,
            self.suite,
            repository,
            [selected.name] if self.partition else "all",
            tags,
            wait=wait,
            observed=observed or None,
        )

    @property
    def _keys(self) -> tuple[str, ...]:
        return tuple(self.suite.partition_by or ())

    def _partition_in(self, source: Source) -> Partition:
        """Return the partition with the keys in the order of the source."""
        values = {key.casefold(): value for key, value in self.partition.items()}
        if {key.casefold() for key in source.keys} != values.keys():
            keys = ", ".join(source.keys) or "nothing"
            names = ", ".join(self.partition) or "nothing"
            msg = f"the table is partitioned by {keys}, but partition= of observe() names {names}"
            raise SourceError(msg)
        return Partition(source.keys, tuple(values[key.casefold()] for key in source.keys))


def observe(
    frame: DataFrame,
    suite: Suite | SuiteFile | Sequence[AnyAnalyzer | str],
    *,
    dataset: str | None = None,
    partition: Mapping[str, str] | str | None = None,
    source: str | None = None,
) -> ObservedFrame:
    """Measure a partition while it is written, without reading it again.

    Write ``observed.frame`` instead of the DataFrame, then call ``observed.record(repository)``. Spark computes
    aggregates and its own sketches during the write. Expressions that fail on a value would fail the write.
    Therefore `record` measures these analyzers afterwards: analyzers by group, such as `Uniqueness`; patterns;
    queries; conditions other than comparisons of a column with constants of its type; and analyzers that read a
    partition column. The same applies to all analyzers of a suite with segments.

    Parameters
    ----------
    frame : DataFrame
        The data of one partition. It may contain the partition columns.
    suite : Suite, SuiteFile or sequence of Analyzer
        The suite, the result of `load_suite`, or analyzers.
    dataset : str, optional
        The dataset's name; only for a sequence of analyzers.
    partition : mapping of str to str, or str, optional
        The partition that is written, as in ``{"ds": "2026-01-05"}`` or ``"ds=2026-01-05"``; by default the
        table is not partitioned.
    source : str, optional
        The folder that will be written as Parquet files, or the table, if the driver or Spark's Python workers can
        read its files. Then the write is observed only for analyzers that need Spark SQL, and `record` measures
        the others by the files' [metadata and columns](performance.md#without-spark), which takes less CPU time.
        A table that has no partitions yet, or that only Spark can read, is observed for all analyzers.

    Returns
    -------
    ObservedFrame

    Raises
    ------
    SourceError
        If the frame is not a DataFrame, or is a stream.
    SuiteError
        If the dataset of the analyzers is not named, or is named twice.

    Examples
    --------
    >>> import tidegauge as tg
    >>> orders = tg.spark_session().range(3).selectExpr("id AS amount")  # doctest: +SKIP
    >>> suite = tg.Suite("orders", [tg.Size(), tg.Mean("amount")], partition_by=["ds"])
    >>> partition = {"ds": "2026-01-05"}
    >>> observed = tg.observe(orders, suite, partition=partition, source="lake/orders")  # doctest: +SKIP
    >>> observed.frame.write.parquet("lake/orders/ds=2026-01-05")  # doctest: +SKIP
    >>> with tg.Repository("sqlite:///orders.db") as repo:  # doctest: +SKIP
    ...     print(observed.record(repo))
    orders: 1 partition scanned, 1 new, 0 skipped
    """
    check_frame(frame)
    suite = _as_suite(suite, dataset)
    keys = tuple(suite.partition_by or ())
    named = as_partition(partition, keys) if partition is not None else Partition()
    if keys and partition is None:
        msg = f"the suite is partitioned by {', '.join(keys)}: name the written partition with partition="
        raise SourceError(msg)
    measured = [] if suite.segments else suite.measured
    reads_files = source is not None and _reads_files(source, keys, frame.sparkSession)
    observer = Observer.of_frame(frame, measured, named.keys, reads_files=reads_files)
    values = dict(zip(named.keys, named.values, strict=True))
    data = frame.drop(*named.keys)
    return ObservedFrame(observer.frame, suite, values, observer.analyzers, source, data, observer)


def _reads_files(source: str, keys: tuple[str, ...], spark: SparkSession) -> bool:
    """Return whether the written files will be measured without Spark SQL; False if a table does not exist yet."""
    if is_folder(source):
        return reads_by_default(spark)
    try:
        return is_measured_by_files(open_named(source, keys or None, spark))
    except NoSuchTableError:
        return False


def _as_suite(suite: Suite | SuiteFile | Sequence[AnyAnalyzer | str], dataset: str | None) -> Suite:
    """Return the suite, or a suite of the analyzers."""
    if isinstance(suite, SuiteFile):
        suite = suite.suite
    if isinstance(suite, Suite):
        if dataset is not None:
            msg = f"the suite names its dataset, {suite.dataset!r}: omit dataset={dataset!r}"
            raise SuiteError(msg)
        return suite
    if dataset is None:
        msg = "name the dataset of the analyzers with dataset=, or pass a Suite"
        raise SuiteError(msg)
    return Suite(dataset, suite)  # type: ignore[arg-type]
