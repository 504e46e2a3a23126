"""Running the rules of a job over frames: all are made ready, all are measured, then all is told."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from analyzers.description import canonical_json
from analyzers.griffin.config import Job
from analyzers.griffin.keeping import SAMPLED, Kept, Recorder, keep
from analyzers.griffin.measuring import Found, Round, measure
from analyzers.griffin.prepared import Prepared, prepare
from analyzers.griffin.results import Document, GriffinResult, merged
from analyzers.griffin.sinks import Sink
from analyzers.griffin.views import Views
from analyzers.ledger import Measurement
from analyzers.partitions import TMST, Partition
from analyzers.rules.targets import replace as replace_rows
from analyzers.rules.targets import target_of
from analyzers.schema import Schema
from analyzers.sql import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Engine:
    """Runs a job, a round at a time.

    Parameters
    ----------
    job : Job
    spark : SparkSession
    repository : Recorder, optional
        Where metrics, states and samples are kept.
    sinks : mapping of str to Sink
        By name.
    dataset : str, optional
        The name of the history; the job's if not given.
    tags : mapping, optional
        Tags of the runs.
    samples : int
        Records of each rule to keep with a run; 0 for none, which saves reading for them.
    holds : object
        What the frames are read by, kept with the results.
    """

    def __init__(
        self,
        job: Job,
        spark: SparkSession,
        repository: Recorder | None = None,
        sinks: Mapping[str, Sink] | None = None,
        dataset: str | None = None,
        tags: Mapping[str, str] | None = None,
        samples: int = SAMPLED,
        holds: object = None,
    ) -> None:
        self.job, self.spark, self.repository = job, spark, repository
        self.sinks = dict(sinks or {})
        self.dataset = dataset or job.name
        self.tags = dict(tags or {})
        self.samples, self.holds = samples, holds

    def check(
        self, frames: Mapping[str, DataFrame], by: tuple[str, ...] = ()
    ) -> tuple[Prepared, ...]:
        """Make all rules ready, and return them; nothing is read but schemas.

        Raises
        ------
        DslError
            If a rule cannot be.
        """
        return tuple(self._prepared(self._views(frames), frames, by))

    def run(self, this: Round) -> GriffinResult:
        """Measure one round, and tell the sinks and the repository.

        Returns
        -------
        GriffinResult
            With what failed: a rule or sink that fails does not keep the others from their work.

        Raises
        ------
        DslError
            If a rule cannot be; then nothing was measured.
        """
        views = self._views(this.frames)
        found, rows = measure(this, views, self._prepared(views, this.frames, this.by))
        results = {one.prepared.name: one.result(views) for one in found}
        failures: dict[str, Exception] = {
            name: result.error for name, result in results.items() if result.error is not None
        }

        def attempt(what: str, work: Callable[..., None], *about: Any) -> None:
            try:
                work(*about)
            except Exception as error:  # noqa: BLE001 - the others are told, and so is this
                failures[what] = error

        result = GriffinResult(self.dataset, tuple(results.values()), views=(views, self.holds))
        for one in found:
            if one.error is None:
                attempt(
                    f"records of {one.prepared.name}",
                    lambda one=one: self._write(one, this, result),
                )
        for name, sink in self.sinks.items():
            attempt(f"sink {name}", self._tell, sink, this, found, result)
        run = None
        if self.repository is not None:
            run = self._keep(this, found, rows, result, self.repository)
        notices = (
            *self.job.notices,
            *(f"{one.name}: {said}" for one in result.rules for said in one.notices),
        )
        return replace(result, run=run, failures=failures, notices=notices)

    def _views(self, frames: Mapping[str, DataFrame]) -> Views:
        views = Views(self.spark)
        for name, frame in frames.items():
            views.add(name, frame)
        return views

    def _prepared(
        self, views: Views, frames: Mapping[str, DataFrame], by: tuple[str, ...]
    ) -> list[Prepared]:
        return prepare(self.job.rules, views, list(frames), by)

    def _write(self, one: Found, this: Round, result: GriffinResult) -> None:
        """Write a rule's records to the table that it names, in the place of those of the same partitions."""
        output = one.prepared.config.output("record")
        records = result.records(one.prepared.name)
        if output is None or output.table is None or records is None:
            return
        by = this.by or (TMST,)
        if TMST in by and TMST not in records.columns:
            records = records.selectExpr("*", f"{this.timestamp}L AS {quote(TMST)}")
        holds = {partition.values for partition in one.reports}
        replace_rows(target_of(self.spark, output.table), records, "partitions", by, holds, holds)

    def _tell(self, sink: Sink, this: Round, found: list[Found], result: GriffinResult) -> None:
        """Give a sink the metrics of each partition, and the records that are asked for."""
        by_partition: dict[Partition, dict[str, Document]] = defaultdict(dict)
        for one in found:
            output = one.prepared.config.output("metric")
            for partition, report in one.reports.items():
                if output is not None:
                    by_partition[partition][output.name or one.prepared.name] = dict(report.metric)
        sink.start(self.job.name, this.timestamp, self.application)
        for partition, documents in by_partition.items():
            sink.metrics(this.time_of(partition), merged(documents))
        for one in found:
            output = one.prepared.config.output("record")
            records = result.records(one.prepared.name)
            if output is not None and records is not None and one.error is None:
                sink.records(output.name or one.prepared.name, records, this.timestamp)
        sink.finish()

    @property
    def application(self) -> str:
        """The id of Spark's application, where the session tells it."""
        return str(self.spark.conf.get("spark.app.id", "") or "")

    def _keep(
        self,
        this: Round,
        found: list[Found],
        rows: Mapping[Partition, int],
        result: GriffinResult,
        repository: Recorder,
    ) -> int:
        measurements: dict[Partition, list[Measurement]] = defaultdict(list)
        for one in found:
            for partition, measurement in one.measurements.items():
                measurements[partition].append(measurement)
        source = next(iter(this.frames.values()), None)
        schema = "[]" if source is None else Schema.of(source.schema).canonical()
        kept = Kept(
            dataset=self.dataset,
            suite=canonical_json({"griffin": self.job.identity(), "dataset": self.dataset}),
            tags=self.tags,
            schema=schema,
            rows=rows,
            measurements=measurements,
            fingerprints=this.fingerprints,
            samples=self.samples,
        )
        stateful = {one.prepared.name for one in found if one.prepared.measure is not None}
        return keep(kept, result.rules, stateful, repository)
