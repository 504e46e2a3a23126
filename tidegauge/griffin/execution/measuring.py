"""Measure prepared rules: one scan per source for rules with states, SQL steps for the others."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidegauge.analyzers.core.metric import Failure
from tidegauge.analyzers.core.partitions import TMST, Partition, recognise_time
from tidegauge.analyzers.core.privacy import PUBLIC, Privacy
from tidegauge.analyzers.core.segments import Values
from tidegauge.analyzers.core.sql import quote
from tidegauge.analyzers.runs.ledger import Measurement
from tidegauge.analyzers.scan.grouping import hive_text
from tidegauge.analyzers.scan.scan import Group, metric_of, scan
from tidegauge.analyzers.scan.views import Views
from tidegauge.griffin.config import MEASURES, RuleConfig
from tidegauge.griffin.execution.explaining import data_error
from tidegauge.griffin.execution.preparation import Prepared
from tidegauge.griffin.lower.plan import MetricTable
from tidegauge.griffin.measures.report import Report
from tidegauge.griffin.results import INTERNAL, RuleResult

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
            outcome = group.states[analyzer]
            metric = metric_of(analyzer, outcome)
            one.measurements[partition] = Measurement(analyzer, outcome, metric)
            if isinstance(outcome, Failure):
                one.error = data_error(outcome.error, one.prepared.config, one.prepared.plan)
            else:
                one.reports[partition] = _shaped(metric.value, one.prepared.config)
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
