"""Rule engine: measure prepared rules, then write to sinks and repository.

Rules with states are measured in one scan per source, the others by their SQL steps. An `Engine`
runs a job one round at a time. Incremental jobs measure only new or changed partitions, in batches
of partitions.
"""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.errors import SourceError, SuiteError
from tidegauge.analyzers.core.metric import Failure
from tidegauge.analyzers.core.partitions import TMST, Partition, Values, recognise_time
from tidegauge.analyzers.core.privacy import PARTITIONS, PUBLIC, Privacy
from tidegauge.analyzers.core.registry import canonical_json, key_of
from tidegauge.analyzers.core.schema import Schema
from tidegauge.analyzers.core.sql import quote
from tidegauge.analyzers.runs.ledger import LedgerEntry, Measurement, analyzer_key, with_references
from tidegauge.analyzers.runs.recording import WAIT_SECONDS, Recorder, measured_states
from tidegauge.analyzers.runs.runner import changed, partition_filter
from tidegauge.analyzers.scan.grouping import hive_text
from tidegauge.analyzers.scan.scan import Group, scan
from tidegauge.analyzers.scan.user_sql import Views
from tidegauge.analyzers.sources.sources import ListedPartition, whole_fingerprint
from tidegauge.analyzers.sources.targets import open_target
from tidegauge.analyzers.sources.targets import replace as replace_rows
from tidegauge.griffin.config import MEASURES, Job, RuleConfig
from tidegauge.griffin.connectors import listable
from tidegauge.griffin.dsl.nodes import free
from tidegauge.griffin.execution.loader import Loader, PreparedSource
from tidegauge.griffin.execution.preparation import Prepared, prepare
from tidegauge.griffin.execution.user_sql import data_error
from tidegauge.griffin.measures.base import Report
from tidegauge.griffin.measures.plan import MetricTable
from tidegauge.griffin.results import (
    INTERNAL,
    SAMPLED,
    Document,
    GriffinResult,
    RoundRecord,
    RuleResult,
    combine_results,
    keep,
    merged,
    unrecorded,
)
from tidegauge.griffin.sinks import Sink
from tidegauge.repository.store.config import privacy_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


MOST_ROWS = 10_000
"""Maximum number of rows of a metric in one partition; further rows are dropped with a notice."""
_KEY = "__tidegauge_key"
_UNGROUPED = (
    "its result has several rows and no GROUP BY whose columns it selects: its numbers are kept by "
    "the order of the rows, as in n and n.2; select and group by what identifies a row"
)
_ALIKE = (
    "several rows of its result have the same labels, such as a total of ROLLUP and a group of null:"
    " their numbers are kept by the order of the rows, as in n.null and n.null_2; select what tells"
    " them apart, such as grouping(city)"
)
_SHAPED = frozenset({"accuracy", "completeness", "timeliness"}) | MEASURES
"""Rule types whose metric is one document."""


@dataclass(frozen=True)
class Round:
    """One round of measuring: frames, timestamp and partitions.

    Attributes
    ----------
    frames : mapping of str to DataFrame
        The sources, baselines first. Each has the columns of ``by``, and ``__tmst``.
    timestamp : int
        Time that the round measures, in milliseconds since 1970.
    by : tuple of str
        Partition columns; empty to measure all rows together.
    fingerprints : mapping of Partition to str
        Fingerprints of the partitions to measure that have one.
    partition_of : callable, optional
        Maps column values to a partition, if their texts are not its values.
    only : bool
        Whether rows of partitions that ``partition_of`` does not find are excluded from the
        results.
    private : Privacy
        Columns of which no values are stored.
    """

    frames: Mapping[str, DataFrame]
    timestamp: int
    by: tuple[str, ...] = ()
    fingerprints: Mapping[Partition, str] = field(default_factory=dict)
    partition_of: Callable[[Values], Partition | None] | None = None
    only: bool = False
    private: Privacy = PUBLIC

    @property
    def whole(self) -> Partition:
        """The partition of the round's timestamp, for rows without partition columns."""
        return Partition((TMST,), (str(self.timestamp),))

    def partition(self, values: Sequence[str]) -> Partition | None:
        """Return the partition of column values; None for one that is not measured."""
        if not self.by:
            return self.whole
        found = self.partition_of(tuple(values)) if self.partition_of else None
        return found if found or self.only else Partition(self.by, tuple(values))

    def time_of(self, partition: Partition) -> int:
        """Return a partition's time in milliseconds; the round's timestamp if it has none."""
        form = recognise_time(partition.keys)
        time = form.time_of(partition) if form else None
        return self.timestamp if time is None else round(time.timestamp() * 1000)


@dataclass
class RuleMeasurement:
    """Measured results of a rule.

    Attributes
    ----------
    prepared : Prepared
    reports : mapping of Partition to Report
    measurements : mapping of Partition to Measurement
        Measurements of a rule with states.
    error : Exception or None
    notices : list of str
    """

    prepared: Prepared
    reports: dict[Partition, Report] = field(default_factory=dict)
    measurements: dict[Partition, Measurement] = field(default_factory=dict)
    error: Exception | None = None
    notices: list[str] = field(default_factory=list)

    def result(self, this: Round, views: Views) -> RuleResult:
        """Return the user-facing result; records are restricted to the measured partitions."""
        plan, own = self.prepared.plan, self.prepared.views
        records = views.spark.table(own[plan.records[0]]) if plan.records else None
        if records is not None and this.only and TMST in records.columns:
            times = ", ".join(partition.value(TMST) for partition in this.fingerprints)
            records = records.where(f"{TMST} IN ({times})" if times else "false")
        notices = (*plan.notices, *self.notices)
        return RuleResult(
            self.prepared.name, plan.source, self.reports, records, self.error, notices
        )


def measure(
    this: Round, views: Views, rules: Iterable[Prepared]
) -> tuple[list[RuleMeasurement], dict[Partition, int]]:
    """Measure rules; one that fails does not stop the others.

    Returns
    -------
    list of RuleMeasurement
        The results in the order of the rules.
    dict of Partition to int
        Number of rows of each scanned partition.
    """
    found = [RuleMeasurement(one) for one in rules]
    rows: dict[Partition, int] = dict.fromkeys(this.fingerprints, 0)
    stateful: dict[str, list[RuleMeasurement]] = defaultdict(list)
    for one in found:
        if one.prepared.measure is not None:
            stateful[one.prepared.views[one.prepared.plan.source]].append(one)
    for view, some in stateful.items():
        try:
            for partition, count in _scan(this, views.spark.table(view), some):
                rows[partition] = rows.get(partition) or count
        except Exception as error:  # noqa: BLE001 - any Spark error; the other sources are still measured
            for one in some:
                one.error = data_error(error, one.prepared.config, one.prepared.plan)
    for one in found:
        if one.prepared.measure is None and one.prepared.measured:
            try:
                one.reports = _reports(this, views, one)
            except Exception as error:  # noqa: BLE001
                one.error = data_error(error, one.prepared.config, one.prepared.plan)
    return found, rows


def _scan(
    this: Round, frame: DataFrame, some: Sequence[RuleMeasurement]
) -> Iterator[tuple[Partition, int]]:
    """Measure all rules of a source in one pass; yield the partitions with their row counts."""
    analyzers = [one.prepared.measure for one in some if one.prepared.measure is not None]
    scanned = scan(frame, analyzers, this.by, private=this.private)
    groups: Mapping[Any, Group] = scanned.groups if this.by else {(): scanned.whole}
    of: dict[Partition | None, Group] = dict.fromkeys(this.fingerprints, scanned.nothing)
    of |= {this.partition(values): group for values, group in groups.items()}
    of.pop(None, None)  # rows of partitions that are not measured
    for partition, group in of.items():
        assert partition is not None
        for one, analyzer in zip(some, analyzers, strict=True):
            [measurement] = measured_states(group.states, [analyzer])
            one.measurements[partition] = measurement
            if isinstance(measurement.outcome, Failure):
                error = measurement.outcome.error
                one.error = data_error(error, one.prepared.config, one.prepared.plan)
            else:
                one.reports[partition] = _shaped(measurement.metric.value, one.prepared.config)
        yield partition, group.rows


def _reports(this: Round, views: Views, one: RuleMeasurement) -> dict[Partition, Report]:
    """Return the metric of each partition from the rows of the plan's steps."""
    reports: dict[Partition, Report] = {}
    most = MOST_ROWS * max(1, len(this.fingerprints))
    for table in one.prepared.plan.metrics:
        keys = [f"{hive_text(quote(c))} AS {_KEY}{i}" for i, c in enumerate(this.by)]
        frame = views.spark.table(one.prepared.views[table.step])
        rows = frame.selectExpr(*keys, "*").limit(most + 1).collect()
        if len(rows) > most:
            one.notices.append(
                f"only the first {most} rows of {table.step!r} are part of its metric; the rest is dropped"
            )
        grouped: dict[Partition | None, list[dict[str, Any]]] = defaultdict(list)
        if not this.by:
            grouped[this.whole] = []
        instants = [f.name for f in frame.schema.fields if f.dataType.typeName() == "timestamp"]
        for row in rows[:most]:
            cells = row.asDict(recursive=True)
            # Collected timestamps are in the driver's zone, without saying so.
            cells |= {c: cells[c].astimezone(dt.UTC) for c in instants if cells[c] is not None}
            values = [cells.pop(f"{_KEY}{i}") for i in range(len(this.by))]
            hidden = {*INTERNAL, *this.by}
            shown = {name: value for name, value in cells.items() if name not in hidden}
            grouped[this.partition(values)].append(shown)
        for partition, some in grouped.items():
            if partition is None:
                continue
            notice = _ambiguous(some, table.labels)
            if notice and notice not in one.notices:
                one.notices.append(notice)
            known = reports.get(partition)
            found = _report(some, table)
            reports[partition] = found if known is None else known.beside(found)
    return {p: _shaped(report, one.prepared.config) for p, report in reports.items()}


def _ambiguous(rows: Sequence[Mapping[str, Any]], labels: Sequence[str] | None) -> str:
    """Return why labels do not tell rows apart; empty if they do."""
    if labels is None:
        return _UNGROUPED if len(rows) > 1 else ""
    different = {tuple(str(row.get(name)) for name in labels) for row in rows}
    return _ALIKE if labels and len(different) < len(rows) else ""


def _report(rows: Sequence[dict[str, Any]], table: MetricTable) -> Report:
    if table.part:
        return Report.of_array(rows, table.name, table.labels or ())
    return Report.from_rows(rows, table.flatten, table.name, table.labels)


def _shaped(report: Report, config: RuleConfig) -> Report:
    """Return the metric of a rule in the layout that its output asks for.

    Queries have their layout from `Report.from_rows`, because they may have several rows.
    Uniqueness and distinctness have none, as in Griffin.
    """
    if config.dq_type not in _SHAPED:
        return report
    return report.shaped(config.metric.flatten or "default", str(config.metric.name))


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


BATCH = 200
"""Number of partitions that are read, measured and committed together."""
UNSEEN = "(rules)"
"""Key, in partition fingerprints, of the hash of rules that leave no state in the ledger."""


def measure_partitions(
    engine: Engine, loader: Loader, keys: Sequence[str], partitions: str | Sequence[str] = "new"
) -> GriffinResult:
    """Measure the partitions of a job's source.

    Parameters
    ----------
    engine : Engine
    loader : Loader
    keys : sequence of str
        The partition columns.
    partitions : str or sequence of str
        ``new`` for new and changed ones; ``all``; conditions such as ``ds>=2013-02-01``; or names.

    Returns
    -------
    GriffinResult
        The result of all measured partitions.

    Raises
    ------
    SuiteError
        If the rules do not measure exactly one source.
    SourceError
        If the source is no table or folder with these partition columns.
    """
    sources = {source.name: source for source in engine.job.sources}
    whole = {name: loader.load(source) for name, source in sources.items()}
    prepared = engine.check(whole, tuple(keys))
    measured = {one.plan.source for one in prepared if one.measured and one.plan.source in sources}
    if len(measured) != 1:
        raise SuiteError(
            f"by partitions a job measures one source, not {', '.join(sorted(measured)) or 'none'};"
            " give each a job of its own"
        )
    (name,) = measured
    source = PreparedSource.from_config(sources[name], keys, loader)
    references = {
        **_fingerprints(loader, [one for one in sources if one != name], engine),
        UNSEEN: _unseen(engine, prepared),
    }
    done: list[GriffinResult] = []
    with _alone(engine):
        listed = [
            replace(entry, fingerprint=with_references(entry.fingerprint, references))
            for entry in sorted(source.list_partitions(), key=lambda listed: listed.partition.name)
        ]
        for number, batch in enumerate(_batches(_due(listed, engine, prepared, partitions, keys))):
            frame = source.read([entry.partition for entry in batch])
            prints = {e.partition: e.fingerprint for e in batch if e.fingerprint is not None}
            frames = {**whole, name: frame}
            # Each batch has a timestamp of its own, or sinks would overwrite one batch with the next.
            time = loader.timestamp + number
            of = Round(frames, time, tuple(keys), prints, source.partition_of)
            done.append(engine.run(of))
    nothing = tuple(
        RuleResult(one.name, one.plan.source, notices=one.plan.notices) for one in prepared
    )
    return combine_results([GriffinResult(engine.dataset, nothing), *done])


def _alone(engine: Engine) -> AbstractContextManager[object]:
    """Keep other processes from the same job: who waited lists and measures what is left, and tells no sink again."""
    if engine.repository is None:
        return nullcontext()
    return engine.repository.store.hold(f"Griffin job {engine.dataset}", WAIT_SECONDS)


def _due(
    listed: Sequence[ListedPartition],
    engine: Engine,
    prepared: Sequence[Prepared],
    partitions: str | Sequence[str],
    keys: Sequence[str],
) -> list[ListedPartition]:
    """Return the partitions to measure: the selected ones, else those not in the ledger as is."""
    choose = partition_filter(partitions, keys)
    if choose is not None:
        chosen = choose(listed)
        return [entry for entry in listed if entry.partition.name in chosen]
    if engine.repository is None:
        return list(listed)
    ledger = engine.repository.store.ledger(engine.dataset)
    wanted = {analyzer_key(one.measure) for one in prepared if one.measure is not None}

    def known(entry: ListedPartition, of: LedgerEntry | None) -> bool:
        return of is not None and not changed(entry, of) and wanted <= of.analyzers

    return [entry for entry in listed if not known(entry, ledger.get(entry.partition.name))]


def _fingerprints(loader: Loader, others: Sequence[str], engine: Engine) -> Mapping[str, str]:
    """Return the fingerprints of the other sources whose files can be listed."""
    found = {}
    for source in engine.job.sources:
        if source.name in others and len(source.connectors) == 1:
            try:
                table = listable(source.connectors[0], loader.spark, source.name)
            except SourceError:
                continue
            print_ = None if table is None else whole_fingerprint(table)
            if print_ is not None:
                found[source.name] = print_
    return found


def _unseen(engine: Engine, prepared: Sequence[Prepared]) -> str:
    """Return a hash of the rules that leave no state in the ledger, and of pre-processing rules."""
    without = [one.config.identity() for one in prepared if one.measure is None]
    before = [
        [source.name, *(rule.identity() for rule in connector.pre_proc)]
        for source in engine.job.sources
        for connector in source.connectors
    ]
    return key_of(canonical_json([without, before]))


def _batches(listed: Sequence[ListedPartition]) -> Iterator[Sequence[ListedPartition]]:
    for start in range(0, len(listed), BATCH):
        yield listed[start : start + BATCH]
