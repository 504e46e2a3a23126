"""Execution plan of a run, without running it: `explain`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidegauge.analysis import open_source, privacy_of
from tidegauge.analyzers.core.analyzer import Analyzer, texts_of
from tidegauge.analyzers.core.errors import SuiteError
from tidegauge.analyzers.core.formatting import bytes_text, plural
from tidegauge.analyzers.core.metric import Failure
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.sql import names_in, parts
from tidegauge.analyzers.runs.runner import batch_sizes
from tidegauge.analyzers.scan.jobs import ScanJob
from tidegauge.analyzers.scan.plan import plan
from tidegauge.files.suite_files import SuiteFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegauge.suite import Suite


@dataclass(frozen=True)
class PlannedJob:
    """One pass over the data, grouped by partition.

    Attributes
    ----------
    kind : str
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

    def __str__(self) -> str:
        """Return a readable summary of several lines."""
        of = f"{plural(len(self.batches), 'batch', 'batches')} of {plural(len(self.jobs), 'job')}"
        lines = [
            f"{self.dataset}: {plural(self.partitions, 'partition')} in {of}",
            f"columns read: {len(self.columns)}, each {self.passes:.1f} times on average",
            f"states: at most {bytes_text(self.state_bytes)} a partition"
            + (
                f", and {bytes_text(self.state_bytes * (1 + self.segments))} if it has all of"
                f" {self.segments} segments; those of few rows take less"
                if self.segments
                else ""
            ),
        ]
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
        As for `analyze`; or the result of `load_suite` as the table, which includes the rest.

    Returns
    -------
    Explanation
        Print it for a readable summary.

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
    if isinstance(table, SuiteFile):
        file = table
        return explain(
            file.table, file.suite, spark=spark, format=file.format, options=file.options
        )
    if suite is None:
        msg = "explain takes a table and a suite, or what load_suite returns"
        raise SuiteError(msg)
    source = open_source(table, suite, spark, format, options)
    listed = source.list_partitions()
    data = source.read(None)
    made = plan(data, suite.analyzers, privacy_of(suite, source.name))
    names = [n for n in Schema.from_spark(data.schema).names if n not in source.keys]
    by = {parts(column)[0] for columns in suite.segments for column in columns}
    jobs = tuple(_planned(job, names, {str(name).casefold() for name in by}) for job in made.jobs)
    columns = tuple(n for n in names if any(n in job.columns for job in jobs))
    reads = sum(len(job.columns) for job in jobs)
    segments = len(suite.segments) * (suite.max_segments + 1)
    by_statistic = {a.statistic(): a.state_bytes for a in made.requests}
    return Explanation(
        dataset=suite.dataset,
        partitions=len(listed),
        batches=batch_sizes(listed, tuple(suite.analyzers), segments),
        jobs=jobs,
        columns=columns,
        passes=reads / len(columns) if columns else 0.0,
        state_bytes=sum(by_statistic.values()),
        segments=segments,
        failures=made.failures,
    )


def _planned(job: ScanJob, names: Sequence[str], by: set[str]) -> PlannedJob:
    words = {word for request in job.requests for t in texts_of(request) for word in names_in(t)}
    words |= by
    columns = tuple(name for name in names if name.casefold() in words)
    return PlannedJob(job.kind, len(job.requests), columns)
