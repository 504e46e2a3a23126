"""What a run would do, before it does it: `explain`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from analyzers.analyzer import Analyzer
from analyzers.errors import SuiteError
from analyzers.incremental import batch_sizes
from analyzers.jobs import Job
from analyzers.metric import Failure
from analyzers.plan import plan
from analyzers.requests import texts_of
from analyzers.schema import Schema
from analyzers.sql import names_in, parts
from tidegauge.analysis import open_source
from tidegauge.suitefile import SuiteFile

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
        How many aggregates, frequencies or sketches it computes.
    columns : tuple of str
        The columns that it reads, the partition's aside.
    """

    kind: str
    requests: int
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Explanation:
    """What a run over all partitions would do.

    Attributes
    ----------
    dataset : str
    partitions : int
        How many there are.
    batches : tuple of int
        How many of them each batch would take.
    jobs : tuple of PlannedJob
        The jobs of each batch.
    columns : tuple of str
        All columns that are read.
    passes : float
        How often a column is read, on average.
    state_bytes : int
        About what the states of one partition take, its segments without.
    segments : int
        How many segments of a partition are measured at most, too.
    failures : mapping of Analyzer to Failure
        What cannot be measured on this table, and why.
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
        """Return some lines for a person."""
        of = f"{len(self.batches)} batches of {len(self.jobs)} jobs"
        lines = [
            f"{self.dataset}: {self.partitions} partitions in {of}",
            f"columns read: {len(self.columns)}, each {self.passes:.1f} times on average",
            f"states: about {self.state_bytes:,} bytes a partition"
            + (f", and as much for each of {self.segments} segments" if self.segments else ""),
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
    format: str = "parquet",  # noqa: A002 - Spark's word for it
    options: Mapping[str, str] | None = None,
) -> Explanation:
    """Say what measuring all of a table by a suite would do; reads no row of a Hive table or folder.

    Parameters
    ----------
    table, suite, spark, format, options
        As for `analyze`; or what `load_suite` returns, which says all of it.

    Returns
    -------
    Explanation
        Its text is for people.

    Raises
    ------
    SourceError
        If the table cannot be read.
    SuiteError
        If there is a table but no suite.
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
    made = plan(data, suite.analyzers)
    names = [n for n in Schema.of(data.schema).names if n not in source.keys]
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


def _planned(job: Job, names: Sequence[str], by: set[str]) -> PlannedJob:
    words = {word for request in job.requests for t in texts_of(request) for word in names_in(t)}
    words |= by
    columns = tuple(name for name in names if name.casefold() in words)
    return PlannedJob(job.kind, len(job.requests), columns)
