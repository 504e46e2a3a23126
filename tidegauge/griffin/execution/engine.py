"""Rule engine: measure prepared rules, then write results to sinks and the repository.

Rules with states are measured in one scan for each source; other rules run their SQL steps. An
`Engine` runs a job one round at a time. Incremental jobs measure only new or changed partitions,
in batches.
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
from tidegauge.griffin.config import Job, RuleConfig
from tidegauge.griffin.dsl.nodes import free
from tidegauge.griffin.execution.loader import Loader, PreparedSource, listable
from tidegauge.griffin.execution.preparation import KIND_BY_RULE_TYPE, Prepared, prepare
from tidegauge.griffin.execution.user_sql import data_error
from tidegauge.griffin.measures.base import MetricTable, Report
from tidegauge.griffin.results import (
    DEFAULT_SAMPLES,
    INTERNAL_COLUMNS,
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


MAX_METRIC_ROWS = 10_000
"""Maximum number of rows of a metric in one partition; further rows are dropped with a notice."""
_KEY_COLUMN_PREFIX = "__tidegauge_key"
_UNGROUPED_ROWS_NOTICE = (
    "its result has several rows, and no GROUP BY on columns that it selects. The numbers are stored by row"
    " order, as in n and n.2; select and group by the columns that identify a row"
)
_EQUAL_LABELS_NOTICE = (
    "several rows of its result have the same labels, such as a total of ROLLUP and a group of null."
    " Their numbers are stored by row order, as in n.null and n.null_2; select a column that"
    " distinguishes them, such as grouping(city)"
)


@dataclass(frozen=True)
class Round:
    """One round of measuring: frames, timestamp and partitions.

    Attributes
    ----------
    frames : mapping of str to DataFrame
        The sources, baselines first. Each has the partition columns and ``__tmst``.
    timestamp : int
        Time of the round in milliseconds since 1970.
    group_by : tuple of str
        Partition columns; empty to measure all rows together.
    fingerprints : mapping of Partition to str
        Known fingerprints of the partitions to measure.
    partition_of : callable, optional
        Maps column values to a partition if they differ from the partition's values.
    skips_unmapped : bool
        Whether rows of partitions that ``partition_of`` does not find are excluded from the
        results.
    private : Privacy
        Columns whose values must not be stored.
    """

    frames: Mapping[str, DataFrame]
    timestamp: int
    group_by: tuple[str, ...] = ()
    fingerprints: Mapping[Partition, str] = field(default_factory=dict)
    partition_of: Callable[[Values], Partition | None] | None = None
    skips_unmapped: bool = False
    private: Privacy = PUBLIC

    @property
    def timestamp_partition(self) -> Partition:
        """The partition of the round's timestamp, for rows without partition columns."""
        return Partition((TMST,), (str(self.timestamp),))

    @property
    def key_columns(self) -> list[str]:
        """SQL for the values of the partition columns, as in the names of partitions."""
        return [
            f"{hive_text(quote(column))} AS {_KEY_COLUMN_PREFIX}{number}"
            for number, column in enumerate(self.group_by)
        ]

    def partition(self, values: Sequence[str]) -> Partition | None:
        """Return the partition with these column values, or None if it is not measured."""
        if not self.group_by:
            return self.timestamp_partition
        partition = self.partition_of(tuple(values)) if self.partition_of else None
        return (
            partition
            if partition or self.skips_unmapped
            else Partition(self.group_by, tuple(values))
        )

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
        The rule.
    reports : mapping of Partition to Report
        The rule's metric in each partition.
    measurements : mapping of Partition to Measurement
        Measurements of a rule with states.
    error : Exception or None
        The error that stopped the rule.
    notices : list of str
        Notices about the rule's results.
    """

    prepared: Prepared
    reports: dict[Partition, Report] = field(default_factory=dict)
    measurements: dict[Partition, Measurement] = field(default_factory=dict)
    error: Exception | None = None
    notices: list[str] = field(default_factory=list)

    def fail(self, error: Exception) -> None:
        """Record the error that stopped the rule, with its possible cause."""
        self.error = data_error(error, self.prepared.config, self.prepared.plan)

    def result(self, round_: Round, views: Views) -> RuleResult:
        """Return the user-facing result; records are restricted to the measured partitions."""
        plan, step_views = self.prepared.plan, self.prepared.views
        records = views.spark.table(step_views[plan.records[0]]) if plan.records else None
        if records is not None and round_.skips_unmapped and TMST in records.columns:
            times = ", ".join(partition.value(TMST) for partition in round_.fingerprints)
            records = records.where(f"{TMST} IN ({times})" if times else "false")
        notices = (*plan.notices, *self.notices)
        return RuleResult(
            self.prepared.name, plan.source, self.reports, records, self.error, notices
        )


def measure(
    round_: Round, views: Views, rules: Iterable[Prepared]
) -> tuple[list[RuleMeasurement], dict[Partition, int]]:
    """Measure rules; a failed rule does not stop the others.

    Parameters
    ----------
    round_ : Round
        The frames and partitions to measure.
    views : Views
        Views of the frames and of the rules' steps.
    rules : iterable of Prepared
        The rules to measure.

    Returns
    -------
    list of RuleMeasurement
        The results in the order of the rules.
    dict of Partition to int
        Number of rows of each scanned partition.
    """
    measurements = [RuleMeasurement(rule) for rule in rules]
    row_counts: dict[Partition, int] = dict.fromkeys(round_.fingerprints, 0)
    rules_by_view: dict[str, list[RuleMeasurement]] = defaultdict(list)
    for measurement in measurements:
        prepared = measurement.prepared
        if prepared.measure is not None:
            rules_by_view[prepared.views[prepared.plan.source]].append(measurement)
    for view, stateful_rules in rules_by_view.items():
        try:
            frame = views.spark.table(view)
            for partition, count in _measure_states(round_, frame, stateful_rules):
                row_counts[partition] = row_counts.get(partition) or count
        except Exception as error:  # noqa: BLE001 - any Spark error; the other sources are still measured
            for measurement in stateful_rules:
                measurement.fail(error)
    for measurement in measurements:
        if measurement.prepared.measure is None and measurement.prepared.measured:
            try:
                measurement.reports = _measure_steps(round_, views, measurement)
            except Exception as error:  # noqa: BLE001
                measurement.fail(error)
    return measurements, row_counts


def _measure_states(
    round_: Round, frame: DataFrame, rules: Sequence[RuleMeasurement]
) -> Iterator[tuple[Partition, int]]:
    """Measure all rules of a source in one pass; yield the partitions with their row counts."""
    analyzers = [rule.prepared.measure for rule in rules if rule.prepared.measure is not None]
    scanned = scan(frame, analyzers, round_.group_by, private=round_.private)
    groups: Mapping[Any, Group] = scanned.groups if round_.group_by else {(): scanned.single_group}
    group_by_partition: dict[Partition | None, Group] = dict.fromkeys(
        round_.fingerprints, scanned.nothing
    )
    group_by_partition |= {round_.partition(values): group for values, group in groups.items()}
    group_by_partition.pop(None, None)  # rows of partitions that are not measured
    for partition, group in group_by_partition.items():
        assert partition is not None
        for rule, analyzer in zip(rules, analyzers, strict=True):
            [measurement] = measured_states(group.states, [analyzer])
            rule.measurements[partition] = measurement
            if isinstance(measurement.outcome, Failure):
                rule.fail(measurement.outcome.error)
            else:
                rule.reports[partition] = _shape_report(
                    measurement.metric.value, rule.prepared.config
                )
        yield partition, group.rows


def _measure_steps(round_: Round, views: Views, rule: RuleMeasurement) -> dict[Partition, Report]:
    """Return the metric of each partition from the rows of the plan's steps."""
    reports: dict[Partition, Report] = {}
    max_rows = MAX_METRIC_ROWS * max(1, len(round_.fingerprints))
    for table in rule.prepared.plan.metrics:
        frame = views.spark.table(rule.prepared.views[table.step])
        rows = frame.selectExpr(*round_.key_columns, "*").limit(max_rows + 1).collect()
        if len(rows) > max_rows:
            rule.notices.append(
                f"only the first {max_rows} rows of {table.step!r} count in its metric; the other rows are dropped"
            )
        grouped: dict[Partition | None, list[dict[str, Any]]] = defaultdict(list)
        if not round_.group_by:
            grouped[round_.timestamp_partition] = []
        instants = [f.name for f in frame.schema.fields if f.dataType.typeName() == "timestamp"]
        for row in rows[:max_rows]:
            cells = row.asDict(recursive=True)
            # Collected timestamps are naive, in the driver's zone.
            cells |= {c: cells[c].astimezone(dt.UTC) for c in instants if cells[c] is not None}
            values = [cells.pop(f"{_KEY_COLUMN_PREFIX}{i}") for i in range(len(round_.group_by))]
            hidden = {*INTERNAL_COLUMNS, *round_.group_by}
            visible = {name: value for name, value in cells.items() if name not in hidden}
            grouped[round_.partition(values)].append(visible)
        for partition, partition_rows in grouped.items():
            if partition is None:
                continue
            notice = _explain_ambiguity(partition_rows, table.labels)
            if notice and notice not in rule.notices:
                rule.notices.append(notice)
            report = _make_report(partition_rows, table)
            previous = reports.get(partition)
            reports[partition] = previous.merged_with(report) if previous else report
    return {p: _shape_report(report, rule.prepared.config) for p, report in reports.items()}


def _explain_ambiguity(rows: Sequence[Mapping[str, Any]], labels: Sequence[str] | None) -> str:
    """Return why labels do not distinguish rows, or an empty string if they do."""
    if labels is None:
        return _UNGROUPED_ROWS_NOTICE if len(rows) > 1 else ""
    different = {tuple(str(row.get(name)) for name in labels) for row in rows}
    return _EQUAL_LABELS_NOTICE if labels and len(different) < len(rows) else ""


def _make_report(rows: Sequence[dict[str, Any]], table: MetricTable) -> Report:
    if table.part:
        return Report.of_array(rows, table.name, table.labels or ())
    return Report.from_rows(rows, table.flatten, table.name, table.labels)


def _shape_report(report: Report, config: RuleConfig) -> Report:
    """Return the metric of a rule in the layout of its output.

    Queries already have their layout from `Report.from_rows`, because they may have several rows.
    """
    kind = KIND_BY_RULE_TYPE.get(str(config.dq_type))
    if kind is None or not kind.is_document:
        return report
    return report.shaped(config.metric.flatten or "default", str(config.metric.name))


class Engine:
    """Run a job, one round at a time.

    Parameters
    ----------
    job : Job
        The job to run.
    spark : SparkSession
        The session that runs the queries.
    repository : Recorder, optional
        Stores metrics, states and samples.
    sinks : mapping of str to Sink
        The sinks by name.
    dataset : str, optional
        Name of the history (default: the job's name).
    tags : mapping, optional
        Tags of the runs.
    samples : int
        Number of sample records to store for each rule in a run. With 0, samples are not read.
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
        samples: int = DEFAULT_SAMPLES,
        holds: object = None,
    ) -> None:
        self.job, self.spark, self.repository = job, spark, repository
        self.sinks = dict(sinks or {})
        self.dataset = dataset or job.name
        self.tags = dict(tags or {})
        self.samples, self.holds = samples, holds

    def check(
        self, frames: Mapping[str, DataFrame], group_by: tuple[str, ...] = ()
    ) -> tuple[Prepared, ...]:
        """Prepare all rules and return them. Only schemas are read.

        Parameters
        ----------
        frames : mapping of str to DataFrame
            The sources by name.
        group_by : tuple of str
            Partition columns; empty to measure all rows together.

        Raises
        ------
        DslError
            If a rule is invalid.
        """
        return tuple(self._prepare(frames, group_by)[1])

    def run(self, round_: Round) -> GriffinResult:
        """Measure one round and write the results to the sinks and the repository.

        Parameters
        ----------
        round_ : Round
            The frames and partitions to measure.

        Returns
        -------
        GriffinResult
            The result with all failures. A failed rule or sink does not stop the others.

        Raises
        ------
        DslError
            If a rule is invalid; then nothing is measured.
        """
        round_ = self._with_privacy(round_)
        views, prepared = self._prepare(round_.frames, round_.group_by)
        measurements, rows = measure(round_, views, prepared)
        results = {rule.prepared.name: rule.result(round_, views) for rule in measurements}
        failures: dict[str, Exception] = {
            name: result.error for name, result in results.items() if result.error is not None
        }

        def attempt(task: str, function: Callable[..., None], *arguments: Any) -> None:
            try:
                function(*arguments)
            except Exception as error:  # noqa: BLE001 - reported as a failure
                failures[task] = error

        result = GriffinResult(self.dataset, tuple(results.values()), views=(views, self.holds))
        for measurement in measurements:
            if measurement.error is None:
                task = f"records of {measurement.prepared.name}"
                attempt(task, self._write, measurement, round_, result)
        for name, sink in self.sinks.items():
            attempt(f"sink {name}", self._send_metrics, sink, round_, measurements)
            if f"sink {name}" not in failures:  # skip a sink that is down
                for output_name, rule_name, records in self._records(measurements, result):
                    task = f"sink {name}: records of {rule_name}"
                    attempt(task, sink.records, output_name, records, round_.timestamp)
                attempt(f"sink {name}", sink.finish)
        run, unrecorded_notices = None, []
        if self.repository is not None:
            record = self._round_record(round_, measurements, rows)
            stateful = {m.prepared.name for m in measurements if m.prepared.measure is not None}
            run = keep(record, result.rules, stateful, self.repository, attempt)
            unrecorded_notices = [
                f"{rule.name}: {notice}"
                for rule in result.rules
                if rule.name not in stateful
                for notice in unrecorded(rule)
            ]
        notices = (
            *self.job.notices,
            *(f"{rule.name}: {notice}" for rule in result.rules for notice in rule.notices),
            *unrecorded_notices,
        )
        return replace(result, run=run, failures=failures, notices=notices)

    def _with_privacy(self, round_: Round) -> Round:
        """Add the privacy settings to a round that is stored."""
        if self.repository is None:
            return round_
        private = privacy_settings().for_dataset(self.dataset, tags=self.tags)
        private.refuse_names(round_.group_by, PARTITIONS)
        return replace(round_, private=private)

    def _prepare(
        self, frames: Mapping[str, DataFrame], group_by: tuple[str, ...]
    ) -> tuple[Views, list[Prepared]]:
        """Return views of the frames and of the rules' steps, and the prepared rules."""
        views = Views(self.spark)
        for name, frame in frames.items():
            views.add(name, frame)
        return views, prepare(self.job.rules, views, list(frames), group_by)

    def _write(self, rule: RuleMeasurement, round_: Round, result: GriffinResult) -> None:
        """Write a rule's records to its table, replacing records of the same partitions."""
        output = rule.prepared.config.output("record")
        records = result.records(rule.prepared.name)
        if output is None or output.table is None or records is None:
            return
        group_by = round_.group_by or (TMST,)
        if TMST in group_by and TMST not in records.columns:
            records = records.selectExpr("*", f"{round_.timestamp}L AS {quote(TMST)}")
        key_rows = records.selectExpr(*round_.key_columns, "1").distinct().collect()
        partitions = (round_.partition(row[:-1]) for row in key_rows)
        present = {partition.values for partition in partitions if partition is not None}
        target = open_target(self.spark, output.table)
        measured = present | {
            partition.values for partition in (*rule.reports, *round_.fingerprints)
        }
        measured |= set() if round_.group_by else {round_.timestamp_partition.values}
        replace_rows(target, records, "partitions", group_by, present, measured)

    def _send_metrics(self, sink: Sink, round_: Round, measurements: list[RuleMeasurement]) -> None:
        """Write the metrics of each time to a sink."""
        by_partition: dict[Partition, dict[str, Document]] = defaultdict(dict)
        for rule in measurements:
            config = rule.prepared.config
            if config.sent("metric") is not None:
                for partition, report in rule.reports.items():
                    documents = by_partition[partition]
                    name = config.metric.name or config.name
                    documents[_unused_name(name, documents)] = dict(report.metric)
        by_time: dict[int, dict[str, Document]] = defaultdict(dict)
        for partition, documents in by_partition.items():
            by_time[round_.time_of(partition)][partition.name] = merged(documents)
        sink.start(self.job.name, round_.timestamp, self.application)
        for time, documents in by_time.items():
            # A sink gets one document for each time; partitions with the same time are nested by name.
            document = documents if len(documents) > 1 else next(iter(documents.values()))
            sink.metrics(time, document)

    def _records(
        self, measurements: list[RuleMeasurement], result: GriffinResult
    ) -> Iterator[tuple[str, str, DataFrame]]:
        """Yield the records for sinks: the output name, the rule and the rows."""
        used_names: set[str] = set()
        for rule in measurements:
            output = rule.prepared.config.sent("record")
            records = result.records(rule.prepared.name)
            if output is not None and records is not None and rule.error is None:
                name = _unused_name(output.name or rule.prepared.name, used_names)
                used_names.add(name)
                yield name, rule.prepared.name, records

    @property
    def application(self) -> str:
        """The Spark application id, or an empty string if the session has none."""
        return str(self.spark.conf.get("spark.app.id", "") or "")

    def _round_record(
        self, round_: Round, rules: list[RuleMeasurement], rows: Mapping[Partition, int]
    ) -> RoundRecord:
        measurements: dict[Partition, list[Measurement]] = defaultdict(list)
        for rule in rules:
            for partition, measurement in rule.measurements.items():
                measurements[partition].append(measurement)
        source = next(iter(round_.frames.values()), None)
        schema = "[]" if source is None else Schema.from_spark(source.schema).canonical()
        # Partitions without fingerprints are measured again in the next run, including rules that failed.
        unmeasured = any(rule.error is not None and not rule.measurements for rule in rules)
        return RoundRecord(
            dataset=self.dataset,
            keys=round_.group_by or (TMST,),
            partitions=tuple(round_.fingerprints)
            if round_.group_by
            else (round_.timestamp_partition,),
            suite=canonical_json({"griffin": self.job.identity(), "dataset": self.dataset}),
            tags=self.tags,
            schema=schema,
            rows=rows,
            measurements=measurements,
            fingerprints={} if unmeasured else round_.fingerprints,
            samples=self.samples,
        )


def _unused_name(name: str, used: Collection[str]) -> str:
    """Return an unused name, because two rules may have outputs with the same name."""
    return free(name, {used_name.casefold() for used_name in used})


BATCH_PARTITIONS = 200
"""Partitions in a batch. A batch is read, measured and committed together."""
UNTRACKED_RULES_KEY = "(rules)"
"""Key in partition fingerprints for the hash of rules without a state in the ledger."""


def measure_partitions(
    engine: Engine, loader: Loader, keys: Sequence[str], partitions: str | Sequence[str] = "new"
) -> GriffinResult:
    """Measure the partitions of a job's source.

    Parameters
    ----------
    engine : Engine
        Runs the job's rules.
    loader : Loader
        Reads the job's sources.
    keys : sequence of str
        The partition columns.
    partitions : str or sequence of str
        ``new`` for new and changed partitions; ``all``; conditions such as ``ds>=2013-02-01``; or names.

    Returns
    -------
    GriffinResult
        The result of all measured partitions.

    Raises
    ------
    SuiteError
        If the rules do not measure exactly one source.
    SourceError
        If the source is not a table or folder with these partition columns.
    """
    sources = {source.name: source for source in engine.job.sources}
    frames_by_source = {name: loader.load(source) for name, source in sources.items()}
    prepared = engine.check(frames_by_source, tuple(keys))
    measured = {
        rule.plan.source for rule in prepared if rule.measured and rule.plan.source in sources
    }
    if len(measured) != 1:
        raise SuiteError(
            f"a job measures the partitions of one source, but this job's rules measure {', '.join(sorted(measured)) or 'none'};"
            " write one job for each source"
        )
    (name,) = measured
    source = PreparedSource.from_config(sources[name], keys, loader)
    references = {
        **_other_fingerprints(loader, [other for other in sources if other != name], engine),
        UNTRACKED_RULES_KEY: _hash_untracked_rules(engine, prepared),
    }
    results: list[GriffinResult] = []
    with _lock_job(engine):
        listed = [
            replace(entry, fingerprint=with_references(entry.fingerprint, references))
            for entry in sorted(source.list_partitions(), key=lambda listed: listed.partition.name)
        ]
        for number, batch in enumerate(
            _batches(_select_partitions(listed, engine, prepared, partitions, keys))
        ):
            frame = source.read([entry.partition for entry in batch])
            prints = {e.partition: e.fingerprint for e in batch if e.fingerprint is not None}
            frames = {**frames_by_source, name: frame}
            # Batches need different timestamps because sinks overwrite results of the same time.
            time = loader.timestamp + number
            round_ = Round(frames, time, tuple(keys), prints, source.partition_of)
            results.append(engine.run(round_))
    unmeasured = tuple(
        RuleResult(rule.name, rule.plan.source, notices=rule.plan.notices) for rule in prepared
    )
    return combine_results([GriffinResult(engine.dataset, unmeasured), *results])


def _lock_job(engine: Engine) -> AbstractContextManager[object]:
    """Lock the job, so that a concurrent process waits and then measures only the remaining partitions."""
    if engine.repository is None:
        return nullcontext()
    return engine.repository.store.hold(f"Griffin job {engine.dataset}", WAIT_SECONDS)


def _select_partitions(
    listed: Sequence[ListedPartition],
    engine: Engine,
    prepared: Sequence[Prepared],
    partitions: str | Sequence[str],
    keys: Sequence[str],
) -> list[ListedPartition]:
    """Return the selected partitions, or those that differ from the ledger."""
    choose = partition_filter(partitions, keys)
    if choose is not None:
        chosen = choose(listed)
        return [entry for entry in listed if entry.partition.name in chosen]
    if engine.repository is None:
        return list(listed)
    ledger = engine.repository.store.ledger(engine.dataset)
    analyzers = {analyzer_key(rule.measure) for rule in prepared if rule.measure is not None}

    def is_measured(entry: ListedPartition, ledger_entry: LedgerEntry | None) -> bool:
        return (
            ledger_entry is not None
            and not changed(entry, ledger_entry)
            and analyzers <= ledger_entry.analyzers
        )

    return [entry for entry in listed if not is_measured(entry, ledger.get(entry.partition.name))]


def _other_fingerprints(
    loader: Loader, source_names: Sequence[str], engine: Engine
) -> Mapping[str, str]:
    """Return the fingerprints of the other sources whose files can be listed."""
    fingerprints = {}
    for source in engine.job.sources:
        if source.name in source_names and len(source.connectors) == 1:
            try:
                table = listable(source.connectors[0], loader.spark, source.name)
            except SourceError:
                continue
            print_ = None if table is None else whole_fingerprint(table)
            if print_ is not None:
                fingerprints[source.name] = print_
    return fingerprints


def _hash_untracked_rules(engine: Engine, prepared: Sequence[Prepared]) -> str:
    """Return a hash of the rules without a state in the ledger and of pre-processing rules."""
    untracked = [
        prepared_rule.config.identity()
        for prepared_rule in prepared
        if prepared_rule.measure is None
    ]
    preprocessing = [
        [source.name, *(rule.identity() for rule in connector.pre_proc)]
        for source in engine.job.sources
        for connector in source.connectors
    ]
    return key_of(canonical_json([untracked, preprocessing]))


def _batches(listed: Sequence[ListedPartition]) -> Iterator[Sequence[ListedPartition]]:
    for start in range(0, len(listed), BATCH_PARTITIONS):
        yield listed[start : start + BATCH_PARTITIONS]
