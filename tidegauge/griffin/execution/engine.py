"""Rule engine: prepare and measure the rules of a job, then write to sinks and repository."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.description import canonical_json
from tidegauge.analyzers.core.partitions import TMST, Partition
from tidegauge.analyzers.core.privacy import PARTITIONS
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.sql import quote
from tidegauge.analyzers.runs.ledger import Measurement
from tidegauge.analyzers.runs.recording import Recorder
from tidegauge.analyzers.scan.grouping import hive_text
from tidegauge.analyzers.scan.views import Views
from tidegauge.analyzers.sources.targets import open_target
from tidegauge.analyzers.sources.targets import replace as replace_rows
from tidegauge.griffin.config import Job
from tidegauge.griffin.dsl.aliases import free
from tidegauge.griffin.execution.measuring import Round, RuleMeasurement, measure
from tidegauge.griffin.execution.preparation import Prepared, prepare
from tidegauge.griffin.recording import SAMPLED, RoundRecord, keep, unrecorded
from tidegauge.griffin.results import Document, GriffinResult, merged
from tidegauge.griffin.sinks import Sink
from tidegauge.repository.store.config import privacy_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Engine:
    """Run a job, one round at a time.

    Parameters
    ----------
    job : Job
    spark : SparkSession
    repository : Recorder, optional
        Stores metrics, states and samples.
    sinks : mapping of str to Sink
        The sinks by name.
    dataset : str, optional
        Name of the history; default: the job's name.
    tags : mapping, optional
        Tags of the runs.
    samples : int
        Number of sample records of each rule stored with a run; 0 for none, which avoids reading
        them.
    holds : object
        Owner of the frames' views, kept alive with the results.
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
        """Prepare all rules and return them; only schemas are read.

        Raises
        ------
        DslError
            If a rule is invalid.
        """
        return tuple(self._prepared(self._views(frames), frames, by))

    def run(self, this: Round) -> GriffinResult:
        """Measure one round, and write the results to the sinks and the repository.

        Returns
        -------
        GriffinResult
            The result with all failures: a rule or sink that fails does not stop the others.

        Raises
        ------
        DslError
            If a rule is invalid; nothing was measured then.
        """
        this = self._with_privacy(this)
        views = self._views(this.frames)
        found, rows = measure(this, views, self._prepared(views, this.frames, this.by))
        results = {one.prepared.name: one.result(this, views) for one in found}
        failures: dict[str, Exception] = {
            name: result.error for name, result in results.items() if result.error is not None
        }

        def attempt(what: str, work: Callable[..., None], *about: Any) -> None:
            try:
                work(*about)
            except Exception as error:  # noqa: BLE001 - reported; the others still run
                failures[what] = error

        result = GriffinResult(self.dataset, tuple(results.values()), views=(views, self.holds))
        for one in found:
            if one.error is None:
                attempt(
                    f"records of {one.prepared.name}",
                    lambda one=one: self._write(one, this, result),
                )
        for name, sink in self.sinks.items():
            attempt(f"sink {name}", self._tell_metrics, sink, this, found)
            if f"sink {name}" not in failures:  # skip a sink that is down
                for called, of, records in self._records(found, result):
                    told = f"sink {name}: records of {of}"
                    attempt(told, sink.records, called, records, this.timestamp)
                attempt(f"sink {name}", sink.finish)
        run, unkept = None, []
        if self.repository is not None:
            kept = self._kept(this, found, rows)
            stateful = {one.prepared.name for one in found if one.prepared.measure is not None}
            run = keep(kept, result.rules, stateful, self.repository, attempt)
            unkept = [
                f"{rule.name}: {said}"
                for rule in result.rules
                if rule.name not in stateful
                for said in unrecorded(rule)
            ]
        notices = (
            *self.job.notices,
            *(f"{one.name}: {said}" for one in result.rules for said in one.notices),
            *unkept,
        )
        return replace(result, run=run, failures=failures, notices=notices)

    def _with_privacy(self, this: Round) -> Round:
        """Name the columns of which no values are stored, if anything is."""
        if self.repository is None:
            return this
        private = privacy_settings().of(self.dataset, tags=self.tags)
        private.refuse_names(this.by, PARTITIONS)
        return replace(this, private=private)

    def _views(self, frames: Mapping[str, DataFrame]) -> Views:
        views = Views(self.spark)
        for name, frame in frames.items():
            views.add(name, frame)
        return views

    def _prepared(
        self, views: Views, frames: Mapping[str, DataFrame], by: tuple[str, ...]
    ) -> list[Prepared]:
        return prepare(self.job.rules, views, list(frames), by)

    def _write(self, one: RuleMeasurement, this: Round, result: GriffinResult) -> None:
        """Write a rule's records to its table, replacing those of the same partitions."""
        output = one.prepared.config.output("record")
        records = result.records(one.prepared.name)
        if output is None or output.table is None or records is None:
            return
        by = this.by or (TMST,)
        if TMST in by and TMST not in records.columns:
            records = records.selectExpr("*", f"{this.timestamp}L AS {quote(TMST)}")
        keys = [
            f"{hive_text(quote(column))} AS `{number}`" for number, column in enumerate(this.by)
        ]
        there = records.selectExpr(*keys, "1").distinct().collect()
        found = (this.partition(row[:-1]) for row in there)
        holds = {partition.values for partition in found if partition is not None}
        target = open_target(self.spark, output.table)
        measured = holds | {partition.values for partition in (*one.reports, *this.fingerprints)}
        measured |= set() if this.by else {this.whole.values}
        replace_rows(target, records, "partitions", by, holds, measured)

    def _tell_metrics(self, sink: Sink, this: Round, found: list[RuleMeasurement]) -> None:
        """Write the metrics of each time to a sink."""
        by_partition: dict[Partition, dict[str, Document]] = defaultdict(dict)
        for one in found:
            config = one.prepared.config
            if config.sent("metric") is not None:
                for partition, report in one.reports.items():
                    documents = by_partition[partition]
                    name = config.metric.name or config.name
                    documents[_free(name, documents)] = dict(report.metric)
        by_time: dict[int, dict[str, Document]] = defaultdict(dict)
        for partition, documents in by_partition.items():
            by_time[this.time_of(partition)][partition.name] = merged(documents)
        sink.start(self.job.name, this.timestamp, self.application)
        for time, documents in by_time.items():
            # One document for each time: partitions that share a time are nested by name.
            whole = documents if len(documents) > 1 else next(iter(documents.values()))
            sink.metrics(time, whole)

    def _records(
        self, found: list[RuleMeasurement], result: GriffinResult
    ) -> Iterator[tuple[str, str, DataFrame]]:
        """Yield the records for sinks: their name, the rule, the rows."""
        told: set[str] = set()
        for one in found:
            output = one.prepared.config.sent("record")
            records = result.records(one.prepared.name)
            if output is not None and records is not None and one.error is None:
                name = _free(output.name or one.prepared.name, told)
                told.add(name)
                yield name, one.prepared.name, records

    @property
    def application(self) -> str:
        """The Spark application id, or an empty string if the session has none."""
        return str(self.spark.conf.get("spark.app.id", "") or "")

    def _kept(
        self, this: Round, found: list[RuleMeasurement], rows: Mapping[Partition, int]
    ) -> RoundRecord:
        measurements: dict[Partition, list[Measurement]] = defaultdict(list)
        for one in found:
            for partition, measurement in one.measurements.items():
                measurements[partition].append(measurement)
        source = next(iter(this.frames.values()), None)
        schema = "[]" if source is None else Schema.from_spark(source.schema).canonical()
        # Without fingerprints the partitions stay due, so a rule that failed is measured again next time.
        unmeasured = any(one.error is not None and not one.measurements for one in found)
        return RoundRecord(
            dataset=self.dataset,
            keys=this.by or (TMST,),
            partitions=tuple(this.fingerprints) if this.by else (this.whole,),
            suite=canonical_json({"griffin": self.job.identity(), "dataset": self.dataset}),
            tags=self.tags,
            schema=schema,
            rows=rows,
            measurements=measurements,
            fingerprints={} if unmeasured else this.fingerprints,
            samples=self.samples,
        )


def _free(name: str, used: Collection[str]) -> str:
    """Return a name that is not used yet: two rules may have outputs of the same name."""
    return free(name, {one.casefold() for one in used})
